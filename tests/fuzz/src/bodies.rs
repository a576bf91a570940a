//! Request bodies in their three forms.

use mainstay_apiserver::fuzz::built_in;
use mainstay_kinds::{Gvk, validate_create};
use mainstay_protobuf::{Limits, decode, encode};
use serde_json::{Value, json};

/// A Deployment with one of nearly everything that a body can hold.
pub(crate) fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}, "annotations": {"a/b": "ü\n"}, "creationTimestamp": null},
        "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
                "containers": [{
                    "name": "web", "image": "example.com/web:1", "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "resources": {"limits": {"cpu": "100m", "memory": "1Gi"}}, "env": [{"name": "A", "value": "b"}],
                }],
                "volumes": [{"name": "v", "emptyDir": {}}], "securityContext": {"runAsUser": 1000},
            }},
        },
    })
}

fn secret() -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "type": "Opaque", "data": {"a": "aGk="}, "stringData": {"b": "c"}})
}

fn lease() -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
        "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2026-01-02T03:04:05.678901Z"},
    })
}

/// What goes on after decoding decodes to itself, and nothing of it is unknown.
pub fn json(data: &[u8]) {
    for (api_version, kind) in [("apps/v1", "Deployment"), ("v1", "Secret"), ("coordination.k8s.io/v1", "Lease")] {
        let Ok((value, _)) = built_in(api_version, kind, data) else { continue };
        let text = value.to_string();
        match built_in(api_version, kind, text.as_bytes()) {
            Ok((again, problems)) => {
                assert_eq!(again, value, "{kind}");
                assert!(problems.is_empty(), "{kind}: {problems:?} in {text}");
            }
            Err(error) => panic!("{kind}: {error:?}: {text}"),
        }
    }
}

pub fn json_seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = [deployment(), secret(), lease()].iter().map(|value| value.to_string().into_bytes()).collect();
    seeds.push(br#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","name":"b"},"data":{"x":null},"more":[1e400,-0.0,18446744073709551616]}"#.to_vec());
    seeds.push("[".repeat(200).into_bytes());
    seeds
}

/// What is read is written so that it reads the same, and is no larger than the text allows: aliases repeat a bounded number of bytes.
pub fn yaml(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let allowed = mainstay_yaml::Options::default().max_repeated.max(text.len()) + 2 * NODE_BYTES * (text.len() + 2);
    let mut held = 0;
    for document in mainstay_yaml::stream(text) {
        let Ok(document) = document else { break };
        held += bytes(&document.value);
        assert!(held <= allowed, "{held} bytes of {}", text.len());
        let told: usize = document.duplicates.iter().map(|duplicate| duplicate.path.len() + duplicate.key.len()).sum();
        assert!(told <= 2 << 20, "{told} bytes of duplicates");
    }
    let Ok(value) = mainstay_yaml::parse(text) else { return };
    let written = mainstay_yaml::to_string(&value);
    match mainstay_yaml::parse(&written) {
        Ok(again) => assert!(same(&again, &value), "{written}"),
        Err(error) => panic!("{error}: {written}"),
    }
}

/// What a value takes beside its text; each takes at least one letter of a document.
const NODE_BYTES: usize = size_of::<Value>() + size_of::<String>();

fn bytes(value: &Value) -> usize {
    NODE_BYTES
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(bytes).sum(),
            Value::Object(fields) => fields.iter().map(|(key, value)| key.len() + bytes(value)).sum(),
            _ => 0,
        }
}

/// Equal, numbers by value: a document in JSON may say `-0`, which is 0 in YAML.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len() && left.iter().all(|(key, value)| right.get(key).is_some_and(|other| same(value, other)))
        }
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == Some(0.0) && right.as_f64() == Some(0.0),
        _ => left == right,
    }
}

pub fn yaml_seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![mainstay_yaml::to_string(&deployment()).into_bytes()];
    seeds.extend(
        [
            "a: &x {b: [1, 0x1f, 0o17, 1_000, .5, ~, yes, 2001-01-01]}\nc: *x\n<<: *x\n",
            "---\na: |\n  text\n\n  more\nb: >-\n  folded\n  text\n---\n- 'it''s'\n- \"\\u00e9\\n\"\n...\n",
            "? complex\n: value\n!!str 1: !!binary aGk=\n",
            "- - - - a\n# comment\n",
            "a: &a xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\nb: &b [*a, *a, *a, *a]\nc: &c [*b, *b, *b, *b]\nd: {*a : *c, <<: [{k: *c}]}\n",
            "description: 'first\nsecond'\nx:\n    y: \"a\n b\\\n  c\"\n",
            "%YAML 1.1\n%TAG !e! tag:yaml.org,2002:\n---\n{a: !e!int \"3\", ? [b] : c, d: , \"e\":f}\n...\nrest\n",
            "{\"a\": 1}{\"b\": 2}\n---\nc: |2-\n    x\n   y\n\n",
        ]
        .map(|text| text.as_bytes().to_vec()),
    );
    seeds
}

/// What is decoded is encoded so that it decodes to the same.
pub fn protobuf(data: &[u8]) {
    let limits = Limits { bytes: 1 << 16, depth: 64, values: 20_000 };
    let Ok(value) = decode(data, &limits) else { return };
    match encode(&value) {
        Ok(bytes) => match decode(&bytes, &Limits::default()) {
            Ok(again) => assert_eq!(again, value),
            Err(error) => panic!("{error}: {value}"),
        },
        // Some bytes say things that no object of the kind can hold, such as times before the year 0.
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

pub fn protobuf_seeds() -> Vec<Vec<u8>> {
    let encoded = [deployment(), secret(), lease()].into_iter().map(|value| encode(&value));
    encoded.filter_map(Result::ok).chain([b"k8s\0".to_vec(), b"k8s\0\x0a\x04\x0a\x02v1".to_vec()]).collect()
}

/// Names of any letters are allowed or refused, whatever the rule of the kind; a name that is refused is told why.
pub fn names(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for (group, version, kind) in
        [("", "v1", "ConfigMap"), ("", "v1", "Service"), ("", "v1", "Namespace"), ("rbac.authorization.k8s.io", "v1", "Role")]
    {
        let namespace = if kind == "Namespace" { "" } else { "default" };
        for field in ["name", "generateName"] {
            let mut object = json!({"metadata": {"name": "", "namespace": namespace}});
            object["metadata"][field] = json!(text);
            let refused =
                validate_create(&Gvk::new(group, version, kind), &object).iter().any(|error| error.field.as_str().starts_with("metadata."));
            assert!(refused || !text.contains(['/', '%']), "{kind}: {text:?}");
        }
    }
}

pub fn name_seeds() -> Vec<Vec<u8>> {
    ["web", "web-", "a.b-c.1", "é-", "x\u{20ac}-", "\u{1f600}-", "-", "system:node-", "a/b", "UPPER_"]
        .map(|text| text.as_bytes().to_vec())
        .to_vec()
}
