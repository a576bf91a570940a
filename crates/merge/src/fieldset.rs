//! Sets of field paths, and their form in `metadata.managedFields` (FieldsV1).
//!
//! A set is a tree: at each level the elements that belong to it (`members`) and those below which something does
//! (`children`). `{"f:spec": {".": {}, "f:a": {}}}` holds `.spec` and `.spec.a`.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Map, Value};

use crate::go;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathElement {
    /// A member of an object.
    Field(String),
    /// An item of an associative list, by its keys in alphabetic order.
    Key(Vec<(String, Scalar)>),
    /// An item of a set.
    Value(Scalar),
    /// An item by its place.
    Index(i64),
}

impl PathElement {
    /// The member of that name.
    pub fn field(name: impl Into<String>) -> Self {
        Self::Field(name.into())
    }

    fn encode(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(keys) => {
                let map: Map<String, Value> = keys.iter().map(|(name, value)| (name.clone(), value.0.clone())).collect();
                format!("k:{}", Value::Object(map))
            }
            Self::Value(value) => format!("v:{}", value.0),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    /// `None` for a kind of element that this version does not know; those are left out, as upstream does.
    fn decode(text: &str) -> Result<Option<Self>, DecodeError> {
        let bad = || DecodeError(text.to_owned());
        let (kind, rest) = text.split_once(':').ok_or_else(bad)?;
        let json = |text: &str| serde_json::from_str::<Value>(text).map_err(|_| bad());
        Ok(Some(match kind {
            "f" => Self::Field(rest.to_owned()),
            "v" => Self::Value(Scalar(json(rest)?)),
            "i" => Self::Index(rest.parse().map_err(|_| bad())?),
            "k" => match json(rest)? {
                Value::Object(map) => Self::Key(map.into_iter().map(|(name, value)| (name, Scalar(value))).collect()),
                _ => return Err(bad()),
            },
            _ => return Ok(None),
        }))
    }
}

impl fmt::Display for PathElement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(out, ".{name}"),
            Self::Key(keys) => {
                out.write_str("[")?;
                for (index, (name, value)) in keys.iter().enumerate() {
                    write!(out, "{}{name}={value}", if index == 0 { "" } else { "," })?;
                }
                out.write_str("]")
            }
            Self::Value(value) => write!(out, "[={value}]"),
            Self::Index(index) => write!(out, "[{index}]"),
        }
    }
}

/// A value that tells list items apart, with an order. Numbers are compared by value: 1 and 1.0 are the same.
#[derive(Clone, Debug)]
pub struct Scalar(pub Value);

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scalar {}

impl PartialOrd for Scalar {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scalar {
    fn cmp(&self, other: &Self) -> Ordering {
        compare_values(&self.0, &other.0)
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Value::String(text) => out.write_str(&go::quote(text)),
            other => write!(out, "{other}"),
        }
    }
}

fn compare_values(left: &Value, right: &Value) -> Ordering {
    fn rank(value: &Value) -> u8 {
        match value {
            Value::Number(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) => 2,
            Value::Array(_) => 3,
            Value::Object(_) => 4,
            Value::Null => 5,
        }
    }
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => left.as_f64().unwrap_or(f64::MAX).total_cmp(&right.as_f64().unwrap_or(f64::MAX)),
        },
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => {
            let first = left.iter().zip(right).map(|(left, right)| compare_values(left, right)).find(|order| order.is_ne());
            first.unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (Value::Object(left), Value::Object(right)) => {
            let pairs = left.iter().zip(right);
            let first = pairs.map(|((a, x), (b, y))| a.cmp(b).then_with(|| compare_values(x, y))).find(|order| order.is_ne());
            first.unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        _ => rank(left).cmp(&rank(right)),
    }
}

/// Whether two values are the same, numbers by value.
pub(crate) fn equal(left: &Value, right: &Value) -> bool {
    left == right || compare_values(left, right) == Ordering::Equal
}

/// A path from the object's root, shown as in conflicts: `.spec.containers[name="c"].image`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<PathElement>);

impl Path {
    /// A path of object members.
    pub fn fields<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self(names.into_iter().map(PathElement::field).collect())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| write!(out, "{element}"))
    }
}

/// A FieldsV1 member that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("fieldsV1: {0:?} is no path element (f:, k:, v: or i:)")]
pub struct DecodeError(pub String);

/// A set of paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    members: BTreeSet<PathElement>,
    children: BTreeMap<PathElement, FieldSet>,
}

impl FieldSet {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads FieldsV1.
    pub fn decode(fields: &Value) -> Result<Self, DecodeError> {
        Self::read(fields).map(|(set, _)| set)
    }

    /// The set below, and whether the element itself belongs to the set.
    fn read(fields: &Value) -> Result<(Self, bool), DecodeError> {
        let Value::Object(map) = fields else {
            return Err(DecodeError(fields.to_string()));
        };
        let mut set = Self::default();
        let mut own = map.is_empty();
        for (key, value) in map {
            if key == "." {
                own = true;
                continue;
            }
            let Some(element) = PathElement::decode(key)? else { continue };
            let (below, member) = Self::read(value)?;
            set.attach(element, below, member);
        }
        Ok((set, own))
    }

    /// As FieldsV1.
    pub fn encode(&self) -> Value {
        Value::Object(self.write(false))
    }

    fn write(&self, own: bool) -> Map<String, Value> {
        let mut map = Map::new();
        if own {
            map.insert(".".into(), Value::Object(Map::new()));
        }
        for element in &self.members {
            if !self.children.contains_key(element) {
                map.insert(element.encode(), Value::Object(Map::new()));
            }
        }
        for (element, child) in &self.children {
            map.insert(element.encode(), Value::Object(child.write(self.members.contains(element))));
        }
        map
    }

    /// Puts `below` under `element`, which itself belongs to the set when `member`.
    pub(crate) fn attach(&mut self, element: PathElement, below: Self, member: bool) {
        if member {
            self.members.insert(element.clone());
        }
        if !below.is_empty() {
            match self.children.entry(element) {
                std::collections::btree_map::Entry::Vacant(place) => {
                    place.insert(below);
                }
                std::collections::btree_map::Entry::Occupied(mut place) => {
                    let joined = place.get().union(&below);
                    place.insert(joined);
                }
            }
        }
    }

    /// Adds a path; the empty path adds nothing.
    pub fn insert(&mut self, path: &[PathElement]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.values().all(Self::is_empty)
    }

    /// Whether the path itself is in it.
    pub fn contains(&self, path: &[PathElement]) -> bool {
        match path {
            [] => false,
            [last] => self.members.contains(last),
            [first, rest @ ..] => self.children.get(first).is_some_and(|child| child.contains(rest)),
        }
    }

    pub(crate) fn has(&self, element: &PathElement) -> bool {
        self.members.contains(element)
    }

    /// What is below an element.
    pub fn below(&self, element: &PathElement) -> Option<&Self> {
        self.children.get(element)
    }

    pub(crate) fn children(&self) -> impl Iterator<Item = (&PathElement, &Self)> {
        self.children.iter()
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &PathElement> {
        self.members.iter()
    }

    fn with_children(members: BTreeSet<PathElement>, children: impl Iterator<Item = (PathElement, Self)>) -> Self {
        Self { members, children: children.filter(|(_, child)| !child.is_empty()).collect() }
    }

    /// What is in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut out = self.clone();
        out.members.extend(other.members.iter().cloned());
        for (element, child) in &other.children {
            out.attach(element.clone(), child.clone(), false);
        }
        out
    }

    /// What is in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let members = self.members.intersection(&other.members).cloned().collect();
        let children =
            self.children.iter().filter_map(|(element, child)| Some((element.clone(), child.intersection(other.children.get(element)?))));
        Self::with_children(members, children)
    }

    /// What is in this one only.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let members = self.members.difference(&other.members).cloned().collect();
        let children = self.children.iter().map(|(element, child)| {
            let rest = other.children.get(element).map_or_else(|| child.clone(), |theirs| child.difference(theirs));
            (element.clone(), rest)
        });
        Self::with_children(members, children)
    }

    /// What is in this one only, without all that lies below a member of `other`.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        let members = self.members.difference(&other.members).cloned().collect();
        let children = self.children.iter().filter(|(element, _)| !other.members.contains(element)).map(|(element, child)| {
            let rest = other.children.get(element).map_or_else(|| child.clone(), |theirs| child.recursive_difference(theirs));
            (element.clone(), rest)
        });
        Self::with_children(members, children)
    }

    /// All paths: those of a level before those below it, in the order in which Kubernetes lists conflicts.
    pub fn paths(&self) -> Vec<Path> {
        let mut out = Vec::new();
        self.collect(&mut Vec::new(), &mut out);
        out
    }

    fn collect(&self, prefix: &mut Vec<PathElement>, out: &mut Vec<Path>) {
        for member in &self.members {
            let mut path = prefix.clone();
            path.push(member.clone());
            out.push(Path(path));
        }
        for (element, child) in &self.children {
            prefix.push(element.clone());
            child.collect(prefix, out);
            prefix.pop();
        }
    }
}

impl FromIterator<Path> for FieldSet {
    fn from_iter<T: IntoIterator<Item = Path>>(paths: T) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(&path.0);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use serde_json::json;

    use super::*;

    /// KAPI-SSA-01: FieldsV1 survives decoding and encoding; paths read as conflicts show them.
    #[test]
    fn fields_v1() {
        let fields = json!({"f:spec": {
            "f:ports": {"k:{\"port\":53,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}}},
            "f:set": {"v:\"x\"": {}, "v:3": {}},
            "f:list": {"i:0": {}},
            "f:a": {}
        }});
        let set = FieldSet::decode(&fields).unwrap();
        assert_eq!(set.encode(), fields);
        let paths: Vec<String> = set.paths().iter().map(ToString::to_string).collect();
        assert_eq!(
            paths,
            [
                ".spec.a",
                ".spec.list[0]",
                ".spec.ports[port=53,protocol=\"TCP\"]",
                ".spec.ports[port=53,protocol=\"TCP\"].name",
                ".spec.set[=3]",
                ".spec.set[=\"x\"]"
            ]
        );
        assert_eq!(FieldSet::decode(&json!({"nonsense": {}})), Err(DecodeError("nonsense".into())));
        assert!(FieldSet::decode(&json!({"z:later": {}})).unwrap().is_empty());
    }
}
