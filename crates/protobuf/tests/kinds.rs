//! Every built-in kind, by objects made from its schema: through protobuf and back nothing changes (KAPI-SRV-07).
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::common::{difference, lost};
use mainstay_kinds::{Gvk, go_form, registry};
use mainstay_protobuf::{Error, Limits, decode, encode, has_message};
use mainstay_schema::{Additional, Schema, Type};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// How deep optional fields are filled.
const DEPTH: u32 = 7;

/// Fields that defaults or validation fill before an object is written: what Go writes for them when they are not there is never seen.
const ALWAYS: &[&str] = &[
    "boundObjectRef",
    "divisor",
    "expirationSeconds",
    "nominalConcurrencyShares",
    "optional",
    "pathType",
    "port",
    "readOnly",
    "scope",
    "service",
    "sideEffects",
    "targetPort",
];
/// Random objects that have the shape of a schema. The numbers come from one seed, so that a failure names all there is to repeat it.
struct Maker {
    state: u64,
}

impl Maker {
    fn below(&mut self, end: u64) -> u64 {
        // Steele and others, "Fast splittable pseudorandom number generators".
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize].clone()
    }

    fn text(&mut self) -> String {
        self.one_of(&["", "a", "web-0", "example.com/x", "Ünïcode ✓", "line\nbreak \"quoted\"", "0"]).to_owned()
    }

    fn time(&mut self) -> jiff::Timestamp {
        let seconds = self.below(4_000_000_000) as i64;
        jiff::Timestamp::new(seconds, self.below(1_000_000) as i32 * 1000).unwrap()
    }

    fn anything(&mut self, depth: u32) -> Value {
        match self.below(if depth < 3 { 6 } else { 4 }) {
            0 => json!(self.below(2) == 0),
            1 => json!(self.below(1 << 40) as i64 - (1 << 39)),
            2 => json!(self.text()),
            3 => json!(0.5),
            4 => Value::Array((0..self.below(3)).map(|_| self.anything(depth + 1)).collect()),
            _ => Value::Object((0..self.below(3)).map(|at| (format!("k{at}"), self.anything(depth + 1))).collect()),
        }
    }

    fn value(&mut self, schema: &Schema, depth: u32) -> Value {
        let definition = schema.definition.as_deref().unwrap_or_default().rsplit('.').next().unwrap_or_default();
        let json_schema = || registry().definition("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps").unwrap();
        match definition {
            "Quantity" => return json!(self.one_of(&["0", "1", "100m", "1Gi", "1500m", "2k", "123Mi"])),
            "Time" => return json!(self.time().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
            "MicroTime" => return json!(self.time().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()),
            "IntOrString" => {
                return if self.below(2) == 0 { json!(self.below(1 << 16) as i64 - 100) } else { json!(self.one_of(&["http", "25%", ""])) };
            }
            "JSON" => return self.anything(0),
            "RawExtension" => return json!({"kind": "Thing", "a": self.anything(0)}),
            "FieldsV1" => return json!({"f:spec": {".": {}, "f:replicas": {}}}),
            "JSONSchemaPropsOrBool" if self.below(2) == 0 => return json!(self.below(2) == 0),
            "JSONSchemaPropsOrStringArray" if self.below(2) == 0 => return json!(["a", "b"]),
            "JSONSchemaPropsOrArray" if self.below(2) == 0 => return json!([self.value(&json_schema(), depth + 1)]),
            "JSONSchemaPropsOrBool" | "JSONSchemaPropsOrStringArray" | "JSONSchemaPropsOrArray" => {
                return self.value(&json_schema(), depth + 1);
            }
            _ => {}
        }
        match schema.kind {
            Some(Type::Boolean) => json!(self.below(2) == 0),
            Some(Type::Integer) if schema.format.as_deref() == Some("int64") => {
                let drawn = self.below(1 << 62) as i64;
                self.one_of(&[0, 1, -1, i64::MAX, i64::MIN, drawn]).into()
            }
            Some(Type::Integer) => {
                let drawn = self.below(1 << 31) as i32;
                self.one_of(&[0, 1, -1, i32::MAX, i32::MIN, drawn]).into()
            }
            Some(Type::Number) => self.one_of(&[json!(0), json!(-3), json!(0.25), json!(1e300)]),
            Some(Type::String) if schema.format.as_deref() == Some("byte") => json!(self.one_of(&["AA==", "aGVsbG8=", "/+8="])),
            Some(Type::String) => json!(self.text()),
            // Lists and maps hold something: the wire knows no empty ones.
            Some(Type::Array) => {
                let items = schema.items.as_ref().unwrap();
                Value::Array((0..=self.below(2)).map(|_| self.value(items, depth + 1)).collect())
            }
            _ if !schema.properties.is_empty() => Value::Object(self.fields(schema, depth)),
            _ => match &schema.additional {
                Additional::Schema(inner) => {
                    Value::Object((0..=self.below(2)).map(|at| (format!("key-{at}"), self.value(inner, depth + 1))).collect())
                }
                _ => json!({}),
            },
        }
    }

    fn fields(&mut self, schema: &Schema, depth: u32) -> Map<String, Value> {
        let mut fields = Map::new();
        let definition = schema.definition.as_deref().unwrap_or_default().rsplit('.').next().unwrap_or_default();
        for (name, inner) in &schema.properties {
            // Kinds inside of others (the options of an eviction, the claims of a StatefulSet) lose their type on the wire.
            let is_kind =
                definition == "DeleteOptions" || schema.properties.contains_key("metadata") && schema.properties.contains_key("spec");
            let is_type = depth > 0 && is_kind && (name == "kind" || name == "apiVersion");
            if is_type {
                continue;
            }
            let required = (ALWAYS.contains(&name.as_str()) || schema.required.contains(name)) && depth < 2 * DEPTH;
            if required || depth < DEPTH && self.below(2 + u64::from(depth)) < 2 {
                fields.insert(name.clone(), self.value(inner, depth + 1));
            }
        }
        fields
    }

    /// An object in the form in which Kubernetes' types write it.
    fn object(&mut self, gvk: &Gvk) -> Value {
        let mut object = Value::Object(self.fields(&registry().schema(gvk).unwrap(), 0));
        object["apiVersion"] = gvk.api_version().into();
        object["kind"] = gvk.kind.clone().into();
        go_form(gvk, &mut object);
        object
    }
}

fn kinds() -> Vec<Gvk> {
    let resources = registry().resources();
    let mut kinds: Vec<Gvk> = resources.iter().map(mainstay_kinds::Resource::gvk).collect();
    kinds.extend(resources.iter().flat_map(|resource| resource.subresources.iter().map(|sub| sub.gvk(resource))));
    kinds.sort_by_key(ToString::to_string);
    kinds.dedup();
    kinds.retain(|gvk| registry().schema(gvk).is_some());
    kinds
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// KAPI-SRV-07: an object of any built-in kind, whatever its fields hold, is the same after JSON, protobuf, JSON.
    #[test]
    fn objects_of_every_kind_survive(seed: u64) {
        let mut maker = Maker { state: seed };
        let mut wrong = std::collections::BTreeSet::new();
        for gvk in kinds() {
            prop_assert!(has_message(&gvk.api_version(), &gvk.kind), "{gvk} has no protobuf form");
            let object = maker.object(&gvk);
            let bytes = encode(&object).map_err(|error| TestCaseError::fail(format!("{gvk}: {error}")))?;
            let back = decode(&bytes, &Limits::default()).map_err(|error| TestCaseError::fail(format!("{gvk}: {error}")))?;
            wrong.extend(difference(&gvk.to_string(), &object, &back));
            // The bytes are those of what was read, too.
            prop_assert_eq!(encode(&back).unwrap(), bytes, "{}", gvk);
        }
        prop_assert!(wrong.is_empty(), "{wrong:#?}");
    }

    /// KAPI-SRV-07: broken bytes of any kind are read or refused by an error that says why; what was read can be read again.
    #[test]
    fn broken_objects_of_every_kind_are_read_or_refused(
        seed: u64, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0_u8..3), 1..4),
    ) {
        let mut maker = Maker { state: seed };
        for gvk in kinds() {
            let mut bytes = encode(&maker.object(&gvk)).unwrap();
            for (at, byte, how) in &changes {
                let at = at.index(bytes.len());
                match how {
                    0 => bytes[at] = *byte,
                    1 => bytes.truncate(at.max(1)),
                    _ => bytes.insert(at, *byte),
                }
            }
            match decode(&bytes, &Limits::default()) {
                Ok(object) => {
                    if let Ok(again) = encode(&object) {
                        prop_assert_eq!(lost(&gvk.to_string(), &object, &decode(&again, &Limits::default()).unwrap()), None);
                    }
                }
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }
    }

    /// KAPI-SRV-07: no bytes behind the magic number make the decoder panic.
    #[test]
    fn random_bytes_are_read_or_refused(at: prop::sample::Index, raw in prop::collection::vec(any::<u8>(), 0..200)) {
        let kinds = kinds();
        let gvk = &kinds[at.index(kinds.len())];
        let mut bytes = b"k8s\0".to_vec();
        bytes.extend(&raw);
        let _ = mainstay_protobuf::decode_as(&bytes, &gvk.api_version(), &gvk.kind, &Limits::default());
        let mut enveloped = encode(&json!({"apiVersion": gvk.api_version(), "kind": gvk.kind})).unwrap();
        enveloped.extend([0x12, raw.len() as u8 & 0x7f]);
        enveloped.extend(&raw[..raw.len() & 0x7f]);
        let _ = decode(&enveloped, &Limits::default());
    }
}

/// KAPI-SRV-07: short bytes cannot stand for gigabytes: a list of empty items is refused by the limit of values.
#[test]
fn memory_is_bounded() {
    let bomb = |api_version: &str, kind: &str, item: &[u8]| {
        let mut raw = item.repeat(150_000);
        let mut length = Vec::new();
        let mut rest = raw.len();
        while rest >= 0x80 {
            length.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        length.push(rest as u8);
        let mut bytes = encode(&json!({"apiVersion": api_version, "kind": kind})).unwrap();
        bytes.push(0x12);
        bytes.extend(length);
        bytes.append(&mut raw);
        decode(&bytes, &Limits::default())
    };
    // Items of a list without any field.
    for (api_version, kind) in [("v1", "PodList"), ("v1", "ConfigMapList"), ("apps/v1", "DeploymentList")] {
        let error = bomb(api_version, kind, &[0x12, 0]).unwrap_err();
        assert!(matches!(error, Error::Limit { what: "values", .. }), "{kind}: {error}");
    }
}
