//! Bytes that a Go program made with Kubernetes' own types and serializer from objects of ours: an object a line, its bytes on the next.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::common::lost;
use mainstay_protobuf::{Error, Limits, decode, decode_as, encode, encode_watch_event, has_message};
use proptest::prelude::*;
use serde_json::{Value, json};

const GOLDEN: &str = include_str!("golden.txt");

fn golden() -> impl Iterator<Item = (Value, Vec<u8>)> {
    let mut lines = GOLDEN.lines();
    std::iter::from_fn(move || {
        let object = serde_json::from_str(lines.next()?).unwrap();
        let hex = lines.next().unwrap();
        Some((object, (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()))
    })
}

/// KAPI-SRV-07: the bytes are those that Go writes, and mean what they mean there.
#[test]
fn bytes_are_those_of_go() {
    let mut count = 0;
    for (object, bytes) in golden() {
        assert_eq!(hex(&encode(&object).unwrap()), hex(&bytes), "{object}");
        let mut decoded = decode(&bytes, &Limits::default()).unwrap();
        // An empty list that is no pointer is nothing on the wire.
        if object["kind"] == "Pod" {
            assert_eq!(decoded["spec"]["containers"].take(), Value::Null);
            decoded["spec"]["containers"] = json!([]);
        }
        assert_eq!(decoded, object);
        count += 1;
    }
    assert_eq!(count, 11);
}

/// KAPI-SRV-07: an envelope without type is of the kind that is expected there.
#[test]
fn the_expected_kind_fills_the_envelope() {
    let bytes = b"k8s\0\x12\x02\x08\x05";
    let options = decode_as(bytes, "v1", "DeleteOptions", &Limits::default()).unwrap();
    assert_eq!(options, json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 5}));
    assert_eq!(decode(bytes, &Limits::default()), Err(Error::NoType("apiVersion")));
    // Typed clients send options with the group version of the resource.
    assert!(has_message("apps/v1", "DeleteOptions") && has_message("v1", "Status") && has_message("v1", "List"));
    assert!(has_message("policy/v1", "Eviction") && has_message("autoscaling/v1", "Scale"));
    assert!(!has_message("meta.k8s.io/v1", "Table") && !has_message("example.com/v1", "Deployment"));
}

/// KAPI-SRV-07: what is not right is refused with its place.
#[test]
fn errors_name_the_place() {
    let encoded = |object: Value| encode(&object).unwrap_err().to_string();
    let pod = |container: Value| json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "a"}, container]}});
    assert_eq!(encoded(pod(json!({"name": 5}))), "Pod.spec.containers[1].name: 5 is not a string");
    assert_eq!(
        encoded(pod(json!({"ports": [{"containerPort": 1e10}]}))),
        "Pod.spec.containers[1].ports[0].containerPort: 10000000000.0 is not an integer of 32 bits"
    );
    assert_eq!(
        encoded(json!({"apiVersion": "v1", "kind": "Secret", "data": {"k": "?"}})),
        "Secret.data[k]: \"?\" is not a string of base64"
    );
    assert_eq!(
        encoded(json!({"apiVersion": "example.com/v1", "kind": "Widget"})),
        "the kind \"Widget\" of \"example.com/v1\" has no protobuf form: send and ask for application/json"
    );
    assert_eq!(decode(b"{}", &Limits::default()), Err(Error::NoEnvelope));
    let secret = encode(&json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "x"}})).unwrap();
    let at = secret.iter().position(|byte| *byte == b'x').unwrap();
    let mut broken = secret.clone();
    broken[at] = 0xff;
    assert_eq!(decode(&broken, &Limits::default()).unwrap_err().to_string(), "ConfigMap.data[k]: the string is not UTF-8");
    for end in 4..secret.len() {
        // A cut body never panics; it may be whole by chance only where the empty tail of the envelope begins.
        assert!(decode(&secret[..end], &Limits::default()).is_err() || end >= secret.len() - 4 || end == 4 + 2 + 15, "{end}");
    }
}

/// KAPI-SRV-07: depth, number of values and size are limited.
#[test]
fn limits_hold() {
    let mut schema = json!({"type": "object"});
    for _ in 0..70 {
        schema = json!({"properties": {"a": schema}});
    }
    let version = json!({"name": "v1", "schema": {"openAPIV3Schema": schema}});
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": {"versions": [version]}});
    let bytes = encode(&crd).unwrap();
    assert_eq!(decode(&bytes, &Limits { depth: 40, ..Limits::default() }), Err(Error::Limit { what: "levels", limit: 40 }));
    assert!(decode(&bytes, &Limits { depth: 200, ..Limits::default() }).is_ok());
    assert_eq!(decode(&bytes, &Limits { values: 50, ..Limits::default() }), Err(Error::Limit { what: "values", limit: 50 }));
    assert_eq!(decode(&bytes, &Limits { bytes: 50, ..Limits::default() }), Err(Error::Limit { what: "bytes", limit: 50 }));
}

/// KAPI-SRV-07: bytes that an entry of a map leaves out are empty, as Go reads them. Found by fuzzing.
#[test]
fn an_entry_may_leave_out_its_bytes() {
    let secret = decode(b"k8s\0\x0a\x0c\x0a\x02v1\x12\x06Secret\x12\x05\x12\x03\x0a\x01a", &Limits::default()).unwrap();
    assert_eq!(secret["data"], json!({"a": ""}));
    assert_eq!(decode(&encode(&secret).unwrap(), &Limits::default()).unwrap(), secret);
}

/// KAPI-SRV-07: a frame is its length and a bare event.
#[test]
fn watch_frames_have_their_length() {
    let object = encode(&json!({"apiVersion": "v1", "kind": "Namespace"})).unwrap();
    let frame = encode_watch_event("ADDED", &object);
    assert_eq!(u32::from_be_bytes(frame[..4].try_into().unwrap()) as usize, frame.len() - 4);
    assert_eq!(&frame[4..11], b"\x0a\x05ADDED");
    assert!(frame.ends_with(&object));
    // One byte each for the two keys and lengths around the object.
    assert_eq!(frame[11..15], [0x12, object.len() as u8 + 2, 0x0a, object.len() as u8]);
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut out, byte| {
        write!(out, "{byte:02x}").unwrap();
        out
    })
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![any::<bool>().prop_map(Value::from), any::<i64>().prop_map(Value::from), ".{0,8}".prop_map(Value::from)];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,4}", inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        json_value().prop_map(|value| json!({"default": value})),
        (any::<i32>(), any::<bool>()).prop_map(|(low, nullable)| {
            let mut schema = json!({"minimum": f64::from(low) / 2.0, "type": "number"});
            if low % 2 == 0 {
                schema["minimum"] = json!(low / 2);
            }
            if nullable {
                schema["nullable"] = json!(true);
            }
            schema
        }),
        any::<u32>().prop_map(|length| json!({"maxLength": length, "x-kubernetes-list-type": "set"})),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            prop::collection::btree_map("[a-z]{1,4}", inner.clone(), 1..4).prop_map(|map| json!({"properties": map})),
            inner.clone().prop_map(|schema| json!({"items": schema})),
            prop::collection::vec(inner.clone(), 1..3).prop_map(|list| json!({"items": list, "additionalProperties": false})),
            inner.clone().prop_map(|schema| json!({"additionalProperties": schema, "dependencies": {"a": ["b", "c"], "d": schema}})),
            prop::collection::vec(inner, 1..3).prop_map(|list| json!({"anyOf": list})),
        ]
    })
}

proptest! {
    /// KAPI-SRV-07: a value survives JSON, protobuf, JSON: any schema.
    #[test]
    fn schemas_survive(schema in schema()) {
        let version = json!({"name": "v1", "served": true, "storage": false, "schema": {"openAPIV3Schema": schema}});
        let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": {"versions": [version]}});
        let back = decode(&encode(&crd).unwrap(), &Limits::default()).unwrap();
        prop_assert_eq!(&back["spec"]["versions"][0], &crd["spec"]["versions"][0]);
    }

    /// KAPI-SRV-07: times, integers or strings, quantities and raw JSON survive.
    #[test]
    fn special_values_survive(
        seconds in -62_135_596_799_i64..253_402_207_200, nanos in 0_i32..1_000_000, port: i32, name in ".{0,12}", data in json_value(), bytes: Vec<u8>,
    ) {
        use base64::Engine as _;
        let micro = jiff::Timestamp::new(seconds, nanos * 1000).unwrap();
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"creationTimestamp": micro.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()},
            "spec": {"renewTime": micro.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(), "leaseTransitions": port}});
        prop_assert_eq!(decode(&encode(&lease).unwrap(), &Limits::default()).unwrap(), lease);
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {}, "status": {"loadBalancer": {}},
            "spec": {"ports": [{"port": port, "targetPort": port}, {"port": 1, "targetPort": name}]}});
        let service = decode(&encode(&service).unwrap(), &Limits::default()).unwrap();
        prop_assert_eq!(&service["spec"]["ports"][0]["targetPort"], &json!(port));
        prop_assert_eq!(&service["spec"]["ports"][1]["targetPort"], &json!(name));
        let revision = json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {}, "revision": seconds, "data": data});
        prop_assert_eq!(decode(&encode(&revision).unwrap(), &Limits::default()).unwrap(), revision);
        let text = base64::engine::general_purpose::STANDARD.encode(&bytes);
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {}, "data": {name: text}});
        prop_assert_eq!(decode(&encode(&secret).unwrap(), &Limits::default()).unwrap(), secret);
    }

    /// KAPI-SRV-07: no bytes make the decoder panic, and what it reads it can write.
    #[test]
    fn any_bytes_are_read_or_refused(which in 0_usize..11, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let (_, mut bytes) = golden().nth(which).unwrap();
        for (at, byte) in changes {
            let at = 4 + at.index(bytes.len() - 4);
            bytes[at] = byte;
        }
        if let Ok(object) = decode(&bytes, &Limits::default()) {
            // A quantity or raw JSON may hold what the wire allows and JSON does not; the rest comes back.
            if let Ok(again) = encode(&object) {
                let back = decode(&again, &Limits::default()).unwrap();
                prop_assert_eq!(lost("", &object, &back), None);
            }
        }
    }
}
