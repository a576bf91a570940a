//! The text form of Kubernetes' internal types: findings show values of these, which are not those of any version. Members have Go's names and
//! order, and all are there, empty ones too. `types.txt` lists the types that findings show.

use std::collections::HashMap;
use std::sync::LazyLock;

use mainstay_schema::field::{BadValue, go_json};
use serde_json::{Value, json};

/// A value of the internal type as findings show it.
pub(super) fn shown(kind: &str, value: &Value) -> BadValue {
    let mut text = String::new();
    node(Kind::of(kind), Some(value)).write(&mut text, None);
    BadValue::Json(text)
}

/// The same with a line for each member.
pub(super) fn lines(kind: &str, value: &Value) -> Vec<String> {
    let mut text = String::new();
    node(Kind::Named(kind), Some(value)).write(&mut text, Some(0));
    text.split('\n').map(|line| format!("{line}\n")).collect()
}

/// JSON whose members have an order.
enum Node {
    Plain(String),
    List(Vec<Node>),
    Members(Vec<(String, Node)>),
}

impl Node {
    /// Writes it in one line, or, from a depth on, as `MarshalIndent` with one blank does.
    fn write(&self, out: &mut String, depth: Option<usize>) {
        let (open, close, count) = match self {
            Self::Plain(text) => return out.push_str(text),
            Self::List(items) => ('[', ']', items.len()),
            Self::Members(members) => ('{', '}', members.len()),
        };
        out.push(open);
        let inner = depth.map(|depth| depth + 1);
        let line = |out: &mut String, depth: Option<usize>| {
            if let Some(depth) = depth.filter(|_| count > 0) {
                out.push('\n');
                out.extend(std::iter::repeat_n(' ', depth));
            }
        };
        for index in 0..count {
            if index > 0 {
                out.push(',');
            }
            line(out, inner);
            match self {
                Self::List(items) => items[index].write(out, inner),
                Self::Members(members) => {
                    let (name, node) = &members[index];
                    out.push_str(&go_json(&json!(name)));
                    out.push_str(if depth.is_some() { ": " } else { ":" });
                    node.write(out, inner);
                }
                Self::Plain(_) => {}
            }
        }
        line(out, depth);
        out.push(close);
    }
}

/// The type of a member, as the table spells it.
#[derive(Clone, Copy)]
enum Kind<'a> {
    Named(&'a str),
    Pointer(&'a str),
    List(&'a str),
    Map(&'a str),
}

impl<'a> Kind<'a> {
    fn of(text: &'a str) -> Self {
        if let Some(rest) = text.strip_prefix('*') {
            Self::Pointer(rest)
        } else if let Some(rest) = text.strip_prefix("[]") {
            Self::List(rest)
        } else if let Some(rest) = text.strip_prefix("{}") {
            Self::Map(rest)
        } else {
            Self::Named(text)
        }
    }
}

/// The kind of metadata that a type has taken in.
const METADATA: &str = "metadata";

struct Member {
    name: &'static str,
    /// Another name in JSON; what is empty is then left out.
    written: Option<&'static str>,
    /// The member of the version's type that it is read from.
    read: &'static str,
    kind: &'static str,
}

static TYPES: LazyLock<HashMap<&'static str, Vec<Member>>> = LazyLock::new(|| {
    let rows: HashMap<&str, &str> =
        include_str!("internal/types.txt").lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(' ')).collect();
    rows.iter().map(|(name, row)| (*name, members(row, &rows))).collect()
});

fn members(row: &'static str, rows: &HashMap<&'static str, &'static str>) -> Vec<Member> {
    let mut found = Vec::new();
    for field in row.split_whitespace() {
        if field == "+meta" {
            found.push(Member { name: "metadata", written: None, read: "metadata", kind: METADATA });
        } else if let Some(embedded) = field.strip_prefix('+') {
            found.extend(rows.get(embedded).map(|row| members(row, rows)).unwrap_or_default());
        } else if let Some((name, kind)) = field.split_once(':') {
            let (name, written) = match name.split_once('(') {
                Some((name, tag)) => (name, tag.split([',', ')']).next()),
                None => (name, None),
            };
            let (name, read) = name.split_once('=').unwrap_or((name, name));
            found.push(Member { name, written, read, kind });
        }
    }
    found
}

fn null() -> Node {
    Node::Plain("null".to_owned())
}

fn node(kind: Kind<'_>, value: Option<&Value>) -> Node {
    let value = value.filter(|value| !value.is_null());
    match (kind, value) {
        (Kind::Pointer(_) | Kind::List(_) | Kind::Map(_), None) => null(),
        (Kind::Pointer(inner), some) => node(Kind::of(inner), some),
        (Kind::List(inner), Some(Value::Array(items))) => Node::List(items.iter().map(|item| node(Kind::of(inner), Some(item))).collect()),
        (Kind::Map(inner), Some(Value::Object(map))) => {
            Node::Members(map.iter().map(|(key, value)| (key.clone(), node(Kind::of(inner), Some(value)))).collect())
        }
        (Kind::List(_) | Kind::Map(_), Some(other)) => Node::Plain(go_json(other)),
        (Kind::Named(name), value) => named(name, value),
    }
}

fn named(name: &str, value: Option<&Value>) -> Node {
    if let Some(members) = TYPES.get(name) {
        return structure(name, members, value.unwrap_or(&Value::Null));
    }
    let value = match (name, value) {
        ("meta", Some(value)) => return selector(value),
        ("meta", None) => return Node::Members(Vec::new()),
        (_, Some(value)) => value.clone(),
        ("b", None) => json!(false),
        ("i" | "IntOrString", None) => json!(0),
        ("Quantity", None) => json!("0"),
        ("s", None) => json!(""),
        (_, None) => Value::Null,
    };
    Node::Plain(go_json(&value))
}

fn structure(name: &str, members: &[Member], value: &Value) -> Node {
    let moved;
    let mut value = value;
    if name == "PodSpec" {
        moved = with_security_context(value);
        value = &moved;
    }
    let get = |name: &str| value.as_object()?.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value);
    let mut shown = Vec::with_capacity(members.len());
    for member in members {
        let found = get(member.read);
        match member.written {
            _ if member.kind == METADATA => shown.extend(metadata(found)),
            Some(_) if found.is_none() => {}
            written => shown.push((written.unwrap_or(member.name).to_owned(), node(Kind::of(member.kind), found))),
        }
    }
    Node::Members(shown)
}

/// Metadata that a type has taken in: what is set of it, in Go's order.
fn metadata(value: Option<&Value>) -> Vec<(String, Node)> {
    const ORDER: &[&str] = &["name", "generateName", "namespace", "labels", "annotations", "ownerReferences", "finalizers"];
    let set = |field: &&&str| value.and_then(|value| value.get(**field)).filter(|value| !value.is_null());
    ORDER.iter().filter_map(|field| Some(((*field).to_owned(), plain(set(&field)?)))).collect()
}

/// Namespaces of the host belong to the security context inside.
fn with_security_context(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let Some(map) = spec.as_object_mut() else { return spec };
    let moved: Vec<(String, Value)> = ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"]
        .iter()
        .filter_map(|field| Some(((*field).to_owned(), map.remove(*field)?)))
        .collect();
    if let Value::Object(context) = map.entry("securityContext").or_insert_with(|| json!({})) {
        context.extend(moved);
    }
    spec
}

/// Types of meta/v1 are written as everywhere; a selector begins with its labels.
fn selector(value: &Value) -> Node {
    let Value::Object(map) = value else { return Node::Plain(go_json(value)) };
    let mut members: Vec<(&String, &Value)> = map.iter().collect();
    members.sort_by_key(|(key, _)| (*key != "matchLabels", *key));
    Node::Members(members.into_iter().map(|(key, value)| (key.clone(), plain(value))).collect())
}

fn plain(value: &Value) -> Node {
    match value {
        Value::Array(items) => Node::List(items.iter().map(plain).collect()),
        Value::Object(map) => Node::Members(map.iter().map(|(key, value)| (key.clone(), plain(value))).collect()),
        other => Node::Plain(go_json(other)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn values_are_shown_as_their_internal_types() {
        let text = |kind: &str, value: Value| match shown(kind, &value) {
            BadValue::Json(text) => text,
            other => panic!("{other:?}"),
        };
        let driver = json!({"name": "d", "nodeID": "n", "topologyKeys": ["k"]});
        assert_eq!(text("CSINodeDriver", driver), r#"{"Name":"d","NodeID":"n","TopologyKeys":["k"],"Allocatable":null}"#);
        let pod = lines("PodSpec", &json!({"hostPID": true, "containers": []})).concat();
        assert!(pod.starts_with("{\n \"Volumes\": null,\n \"InitContainers\": null,\n \"Containers\": [],\n"), "{pod}");
        assert!(pod.contains("\n  \"HostPID\": true,\n"), "{pod}");
    }
}
