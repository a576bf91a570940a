//! Random types with their schemas and values.

use mainstay_schema::Schema;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// The path of a place: its steps as FieldsV1 writes them, `f:spec`, `k:{"k":"a"}`, `v:"x"`.
pub type Path = Vec<String>;

/// The parts of a value with the steps to them.
pub type Parts = Vec<(String, Value)>;

/// What stands at a place.
#[derive(Clone, Debug)]
pub enum Type {
    /// A string.
    Scalar,
    /// A string that is `d` if it is not said.
    Defaulted,
    /// A list of strings that is one unit.
    Plain,
    /// A list of objects that is one unit.
    Objects,
    /// A list of different strings.
    Set,
    /// An object of declared members.
    Struct { atomic: bool, members: Vec<(String, Type)> },
    /// An object of any members.
    Map { atomic: bool, values: Box<Type> },
    /// A list of objects that keys tell apart.
    Keyed { keys: Keys, members: Vec<(String, Type)> },
}

/// What tells the items of a list apart.
#[derive(Clone, Copy, Debug)]
pub enum Keys {
    /// `k`.
    One,
    /// `k`, and `n` which is 1 if it is not said.
    Two,
    /// `k`, which is `a` if it is not said.
    Default,
}

impl Keys {
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::One | Self::Default => &["k"],
            Self::Two => &["k", "n"],
        }
    }

    fn default(self, name: &str) -> Option<Value> {
        match (self, name) {
            (Self::Two, "n") => Some(json!(1)),
            (Self::Default, "k") => Some(json!("a")),
            _ => None,
        }
    }

    /// Three different items, each in all its forms.
    fn items(self) -> [Vec<Value>; 3] {
        match self {
            Self::One => [vec![json!({"k": "a"})], vec![json!({"k": "b"})], vec![json!({"k": "c"})]],
            Self::Two => {
                [vec![json!({"k": "a"}), json!({"k": "a", "n": 1})], vec![json!({"k": "a", "n": 2})], vec![json!({"k": "b", "n": 10})]]
            }
            Self::Default => [vec![json!({}), json!({"k": "a"})], vec![json!({"k": "b"})], vec![json!({"k": "c"})]],
        }
    }

    /// The step to an item.
    fn step(self, item: &Value) -> String {
        let names = self.names().iter();
        let keys: Map<String, Value> =
            names.map(|name| ((*name).to_owned(), item.get(name).cloned().or(self.default(name)).unwrap())).collect();
        format!("k:{}", Value::Object(keys))
    }
}

/// A random kind.
pub fn kind() -> impl Strategy<Value = Type> {
    any_type().prop_map(kind_of)
}

/// A kind with `metadata.labels` and this spec.
pub fn kind_of(spec: Type) -> Type {
    let text = |name: &str| (name.to_owned(), Type::Scalar);
    let labels = Type::Map { atomic: false, values: Box::new(Type::Scalar) };
    let meta = Type::Struct { atomic: false, members: vec![text("name"), text("uid"), ("labels".into(), labels)] };
    let members = vec![text("apiVersion"), text("kind"), ("metadata".into(), meta), ("spec".into(), spec)];
    Type::Struct { atomic: false, members }
}

fn any_type() -> impl Strategy<Value = Type> {
    let leaf = prop_oneof![3 => Just(Type::Scalar), 2 => Just(Type::Defaulted), 1 => Just(Type::Plain), 1 => Just(Type::Objects), 2 => Just(Type::Set)];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let members = || {
            prop::collection::vec(inner.clone(), 1..4)
                .prop_map(|types| types.into_iter().enumerate().map(|(index, one)| (format!("m{index}"), one)).collect::<Vec<_>>())
        };
        let keys = prop::sample::select(vec![Keys::One, Keys::Two, Keys::Default]);
        let atomic = || prop::bool::weighted(0.2);
        prop_oneof![
            3 => (atomic(), members()).prop_map(|(atomic, members)| Type::Struct { atomic, members }),
            2 => (atomic(), inner.clone()).prop_map(|(atomic, values)| Type::Map { atomic, values: Box::new(values) }),
            4 => (keys, members()).prop_map(|(keys, members)| Type::Keyed { keys, members }),
        ]
    })
}

/// The schema of a type.
pub fn of_schema(kind: &Type) -> Schema {
    Schema::from_json(&kind.schema()).unwrap()
}

impl Type {
    fn schema(&self) -> Value {
        let properties = |members: &[(String, Self)]| members.iter().map(|(name, one)| (name.clone(), one.schema())).collect::<Map<_, _>>();
        let map_type = |atomic: bool| if atomic { "atomic" } else { "granular" };
        match self {
            Self::Scalar => json!({"type": "string"}),
            Self::Defaulted => json!({"type": "string", "default": "d"}),
            Self::Plain => json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"}),
            Self::Objects => json!({"type": "array", "x-kubernetes-list-type": "atomic",
                "items": {"type": "object", "properties": {"a": {"type": "string"}}}}),
            Self::Set => json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
            Self::Struct { atomic, members } => {
                json!({"type": "object", "properties": properties(members), "x-kubernetes-map-type": map_type(*atomic)})
            }
            Self::Map { atomic, values } => {
                json!({"type": "object", "additionalProperties": values.schema(), "x-kubernetes-map-type": map_type(*atomic)})
            }
            Self::Keyed { keys, members } => {
                let mut all = properties(members);
                for name in keys.names() {
                    let mut key = json!({"type": if *name == "n" { "integer" } else { "string" }});
                    if let Some(default) = keys.default(name) {
                        key["default"] = default;
                    }
                    all.insert((*name).to_owned(), key);
                }
                json!({"type": "array", "items": {"type": "object", "properties": all},
                    "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys.names()})
            }
        }
    }

    /// An object of the kind, as somebody sends it.
    pub fn value(&self) -> BoxedStrategy<Value> {
        let Some(spec) = self.child("f:spec") else { return Just(Value::Null).boxed() };
        let labels = prop::option::weighted(0.3, Self::Map { atomic: false, values: Box::new(Self::Scalar) }.member());
        (prop::option::weighted(0.9, spec.0.member()), labels)
            .prop_map(|(spec, labels)| {
                let mut object = json!({"apiVersion": "e/v1", "kind": "T", "metadata": {"name": "x"}});
                if let Some(labels) = labels {
                    object["metadata"]["labels"] = labels;
                }
                if let Some(spec) = spec {
                    object["spec"] = spec;
                }
                object
            })
            .boxed()
    }

    /// A value at a place that may hold null.
    fn member(&self) -> BoxedStrategy<Value> {
        prop_oneof![1 => Just(Value::Null), 30 => self.content()].boxed()
    }

    fn content(&self) -> BoxedStrategy<Value> {
        fn word() -> impl Strategy<Value = &'static str> {
            prop::sample::select(vec!["a", "b", "c"])
        }
        match self {
            Self::Scalar | Self::Defaulted => word().prop_map(Value::from).boxed(),
            Self::Plain => prop::collection::vec(word(), 0..3).prop_map(|words| json!(words)).boxed(),
            Self::Objects => {
                prop::collection::vec(word(), 0..3).prop_map(|words| words.iter().map(|word| json!({"a": word})).collect()).boxed()
            }
            Self::Set => prop::sample::subsequence(vec!["a", "b", "c", "d"], 0..=3).prop_shuffle().prop_map(|words| json!(words)).boxed(),
            Self::Struct { members, .. } => some(members).prop_map(Value::Object).boxed(),
            Self::Map { values, .. } => prop::collection::btree_map(word(), values.member(), 0..3).prop_map(|map| json!(map)).boxed(),
            Self::Keyed { keys, members } => {
                let item = |forms: Vec<Value>| (prop::sample::select(forms), some(members));
                let all: Vec<_> =
                    keys.items().into_iter().map(|forms| item(forms).prop_map(|(item, members)| with(item, members)).boxed()).collect();
                (all, prop::sample::subsequence(vec![0, 1, 2], 0..=3).prop_shuffle())
                    .prop_map(|(items, chosen)| chosen.into_iter().map(|index: usize| items[index].clone()).collect())
                    .boxed()
            }
        }
    }

    /// Whether a value is owned as a whole.
    pub fn is_unit(&self) -> bool {
        match self {
            Self::Scalar | Self::Defaulted | Self::Plain | Self::Objects => true,
            Self::Struct { atomic, .. } | Self::Map { atomic, .. } => *atomic,
            Self::Set | Self::Keyed { .. } => false,
        }
    }

    /// The type after a step, and whether the schema names that step.
    pub fn child(&self, step: &str) -> Option<(Self, bool)> {
        let named =
            |members: &[(String, Self)]| members.iter().find(|(name, _)| format!("f:{name}") == step).map(|(_, one)| (one.clone(), true));
        match self {
            Self::Scalar | Self::Defaulted | Self::Plain | Self::Objects => None,
            Self::Set => Some((Self::Scalar, false)),
            Self::Struct { members, .. } => named(members),
            Self::Map { values, .. } => Some(((**values).clone(), false)),
            Self::Keyed { keys, members } => Some((
                Self::Struct {
                    atomic: false,
                    members: members.iter().cloned().chain(keys.names().iter().map(|name| ((*name).to_owned(), Self::Scalar))).collect(),
                },
                false,
            )),
        }
    }

    /// The parts of a value with the steps to them; units have none.
    pub fn parts(&self, value: &Value) -> Parts {
        if self.is_unit() {
            return Vec::new();
        }
        match (self, value) {
            (Self::Set, Value::Array(items)) => items.iter().map(|item| (format!("v:{item}"), item.clone())).collect(),
            // An item that has lost all of its parts is null, which nothing tells apart.
            (Self::Keyed { keys, .. }, Value::Array(items)) => {
                items.iter().filter(|item| item.is_object()).map(|item| (keys.step(item), item.clone())).collect()
            }
            (_, Value::Object(map)) => map.iter().map(|(name, value)| (format!("f:{name}"), value.clone())).collect(),
            _ => Vec::new(),
        }
    }

    /// The value that has these parts.
    pub fn assembled(&self, parts: Parts) -> Value {
        match self {
            Self::Set | Self::Keyed { .. } => parts.into_iter().map(|(_, value)| value).collect(),
            _ => Value::Object(parts.into_iter().map(|(step, value)| (step.trim_start_matches("f:").to_owned(), value)).collect()),
        }
    }

    /// The value as it is stored: with all that goes without saying.
    pub fn defaulted(&self, value: &Value) -> Value {
        let mut defaults: Vec<(&str, Value)> = Vec::new();
        let below = |name: &str| self.child(&format!("f:{name}")).map(|(kind, _)| kind);
        match (self, value) {
            (Self::Keyed { keys, .. }, Value::Array(items)) => {
                let Some((kind, _)) = self.child("k:") else { return value.clone() };
                let names = keys.names().iter();
                defaults.extend(names.filter_map(|name| Some((*name, keys.default(name)?))));
                let item = |item: &Value| with_defaults(kind.defaulted(item), &defaults);
                items.iter().map(item).collect()
            }
            (Self::Struct { .. } | Self::Map { .. }, Value::Object(map)) => {
                if let Self::Struct { members, .. } = self {
                    let named = members.iter().filter(|(_, kind)| matches!(kind, Self::Defaulted));
                    defaults.extend(named.map(|(name, _)| (name.as_str(), json!("d"))));
                }
                let member = |(name, value): (&String, &Value)| {
                    (name.clone(), below(name).map_or_else(|| value.clone(), |kind| kind.defaulted(value)))
                };
                with_defaults(Value::Object(map.iter().map(member).collect()), &defaults)
            }
            _ => value.clone(),
        }
    }

    /// The value with the parts of all lists of parts changed.
    pub fn rewritten(&self, value: &Value, change: &dyn Fn(&mut Parts)) -> Value {
        let mut parts = self.parts(value);
        if parts.is_empty() {
            return value.clone();
        }
        for (step, part) in &mut parts {
            *part = self.child(step).unwrap().0.rewritten(part, change);
        }
        if value.is_array() {
            change(&mut parts);
        }
        self.assembled(parts)
    }
}

/// Each member or not.
fn some(members: &[(String, Type)]) -> BoxedStrategy<Map<String, Value>> {
    let all: Vec<_> = members
        .iter()
        .map(|(name, kind)| {
            let name = name.clone();
            prop::option::weighted(0.6, kind.member()).prop_map(move |value| value.map(|value| (name.clone(), value))).boxed()
        })
        .collect();
    all.prop_map(|members| members.into_iter().flatten().collect()).boxed()
}

fn with_defaults(mut value: Value, defaults: &[(&str, Value)]) -> Value {
    if let Value::Object(map) = &mut value {
        for (name, default) in defaults {
            map.entry(*name).or_insert_with(|| default.clone());
        }
    }
    value
}

fn with(mut item: Value, members: Map<String, Value>) -> Value {
    item.as_object_mut().unwrap().extend(members);
    item
}

/// With the parts of all lists in one order.
pub fn unordered(kind: &Type, value: &Value) -> Value {
    kind.rewritten(value, &|parts| parts.sort_by(|(left, _), (right, _)| left.cmp(right)))
}

/// Without nulls and all that is empty.
pub fn filled(value: &Value) -> Value {
    let says = |value: &Value| !matches!(value, Value::Null) && *value != json!({}) && *value != json!([]);
    match value {
        Value::Object(map) => {
            let members = map.iter().map(|(name, value)| (name.clone(), filled(value)));
            members.filter(|(_, value)| says(value)).collect()
        }
        Value::Array(items) => items.iter().map(filled).filter(says).collect(),
        other => other.clone(),
    }
}
