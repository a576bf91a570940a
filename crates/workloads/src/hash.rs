//! Hashes in names and labels: `pod-template-hash` and `controller-revision-hash`.
//!
//! The hash of a pod template is the same as Kubernetes': FNV-1a over the text that Go's deep printer makes of the typed template. That
//! text names every field in the order of its declaration, so a data file beside this crate keeps that order. Ports and subsets of
//! Endpoints are ordered by a hash of the same text.

mod md5;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use serde_json::Value;

const OFFSET: u32 = 0x811c_9dc5;
const PRIME: u32 = 0x0100_0193;
/// Letters and digits that do not form words by accident (Kubernetes' safe encoding).
const SAFE: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

struct Field {
    name: &'static str,
    json: &'static str,
    kind: &'static str,
}

static TYPES: LazyLock<HashMap<&'static str, Vec<Field>>> = LazyLock::new(|| {
    let lines = include_str!("../facts/pod-template.txt").lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| {
            let (name, fields) = line.split_once(' ')?;
            let field = |text: &'static str| {
                let mut parts = text.splitn(3, ',');
                Some(Field { name: parts.next()?, json: parts.next()?, kind: parts.next()? })
            };
            Some((name, fields.split(' ').filter_map(field).collect()))
        })
        .collect()
});

/// Returns the hash of a pod template, different for each collision count.
pub fn of_template(template: &Value, collisions: Option<i64>) -> String {
    let mut text = String::new();
    print(template, "v1.PodTemplateSpec", true, &mut text);
    of_bytes(text.as_bytes(), collisions)
}

/// Returns the hash by which Kubernetes orders objects without an order of their own: MD5 over the text of Go's deep printer.
pub fn deep(value: &Value, kind: &str) -> [u8; 16] {
    let mut text = String::new();
    print(value, kind, true, &mut text);
    md5::of(text.as_bytes())
}

/// Returns the hash of any data, different for each collision count.
pub fn of_data(data: &Value, collisions: Option<i64>) -> String {
    of_bytes(data.to_string().as_bytes(), collisions)
}

fn of_bytes(bytes: &[u8], collisions: Option<i64>) -> String {
    let mut hash = fnv(OFFSET, bytes);
    if let Some(count) = collisions {
        hash = fnv(hash, &(count as u64).to_le_bytes());
    }
    safe(&hash.to_string())
}

fn fnv(start: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(start, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(PRIME))
}

fn safe(text: &str) -> String {
    text.bytes().map(|byte| char::from(SAFE[usize::from(byte) % SAFE.len()])).collect()
}

/// Prints a value as Go's deep printer does with `%#v`; the type is named unless the surrounding one implies it.
fn print(value: &Value, kind: &str, typed: bool, out: &mut String) {
    if typed {
        out.push('(');
        out.push_str(kind);
        out.push(')');
    }
    if let Some(inner) = kind.strip_prefix('*') {
        if value.is_null() { out.push_str("<nil>") } else { print(value, inner, false, out) }
    } else if let Some(inner) = kind.strip_prefix("[]") {
        let Some(list) = value.as_array() else { return out.push_str("<nil>") };
        out.push('[');
        separated(list, out, |item, out| print(item, inner, false, out));
        out.push(']');
    } else if kind.starts_with("map[") || kind == "v1.ResourceList" {
        let inner = if kind == "v1.ResourceList" { "resource.Quantity" } else { "string" };
        let Some(map) = value.as_object() else { return out.push_str("<nil>") };
        out.push_str("map[");
        separated(map, out, |(key, item), out| {
            out.push_str(key);
            out.push(':');
            print(item, inner, false, out);
        });
        out.push(']');
    } else if kind == "resource.Quantity" {
        quantity(&text(value), out);
    } else if kind == "intstr.IntOrString" {
        let (number, name) = (value.as_i64().unwrap_or_default(), value.as_str().unwrap_or_default());
        let variant = u8::from(value.is_string());
        // Writing to a string does not fail.
        let _ = write!(out, "{{Type:(intstr.Type){variant} IntVal:(int32){number} StrVal:(string){name}}}");
    } else if let Some(fields) = TYPES.get(kind) {
        out.push('{');
        separated(fields, out, |field, out| {
            out.push_str(field.name);
            out.push(':');
            // The members of an embedded Go struct stand beside those of the outer type.
            let member = if field.json.is_empty() { value } else { &value[field.json] };
            print(member, field.kind, true, out);
        });
        out.push('}');
    } else {
        match kind {
            "bool" => out.push_str(if value.as_bool() == Some(true) { "true" } else { "false" }),
            "int" | "int32" | "int64" | "uint64" => out.push_str(&value.as_i64().unwrap_or_default().to_string()),
            _ => out.push_str(value.as_str().unwrap_or_default()),
        }
    }
}

fn separated<T>(items: impl IntoIterator<Item = T>, out: &mut String, mut one: impl FnMut(T, &mut String)) {
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        one(item, out);
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Prints a quantity as its digits and exponent. Go keeps some quantities in other forms internally; for those the hash is stable, but differs
/// from Kubernetes'.
fn quantity(text: &str, out: &mut String) {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-' || c == '+')).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: i64 = format!("{whole}{fraction}").parse().unwrap_or_default();
    let binary = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter().position(|own| *own == suffix);
    let powers = [("n", -9), ("u", -6), ("m", -3), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
    let power = powers.iter().find(|(own, _)| *own == suffix).map_or(0, |(_, power)| *power);
    let (value, scale, form) = match binary {
        Some(index) => (digits.saturating_mul(1024_i64.saturating_pow(index as u32 + 1)), 0, "BinarySI"),
        None => (digits, power - fraction.len() as i64, "DecimalSI"),
    };
    // Writing to a string does not fail.
    let _ = write!(
        out,
        "{{i:(resource.int64Amount){{value:(int64){value} scale:(resource.Scale){scale}}} d:(resource.infDecAmount){{Dec:(*inf.Dec)<nil>}} \
         s:(string){text} Format:(resource.Format){form}}}"
    );
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// KAPI-WL-01: the hash that a real cluster gave this template (transcripts object/controller-events,
    /// workload/deployment-progress-deadline).
    #[test]
    fn a_template_has_the_hash_of_kubernetes() {
        let template = json!({
            "metadata": {"labels": {"app": "demo"}},
            "spec": {
                "containers": [{
                    "name": "main", "image": "registry.example.com/app:1", "resources": {}, "imagePullPolicy": "IfNotPresent",
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                }],
                "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst", "securityContext": {},
                "schedulerName": "default-scheduler",
            },
        });
        assert_eq!(of_template(&template, None), "5b5f7b89b7");
    }

    #[test]
    fn collisions_and_amounts_change_the_hash() {
        let template = |cpu: &str| json!({"spec": {"containers": [{"resources": {"requests": {"cpu": cpu}}}]}});
        let hashes = [
            of_template(&template("1"), None),
            of_template(&template("1"), Some(1)),
            of_template(&template("1"), Some(2)),
            of_template(&template("1500m"), None),
            of_template(&template("1Gi"), None),
        ];
        for (index, hash) in hashes.iter().enumerate() {
            assert!(!hashes[..index].contains(hash), "{hash}");
        }
    }
}
