//! Kinds with few rules: data, leases, classes of priority and runtime, API services, certificates, events, reviews.

use mainstay_golang::json_reader;
use mainstay_golang::value::json_type;
use mainstay_schema::field::{BadValue, Error, Path};
use serde_json::{Value, json};

use super::{
    Errors, all_invalid, flag, has, int, internal, labels, list, map, names, not_negative, resources, scheduling as scheduling_rules, text,
};

const MAX_DATA: usize = 1024 * 1024;

fn spec(object: &Value) -> &Value {
    object.get("spec").unwrap_or(&Value::Null)
}

/// The number of bytes that base64 text encodes.
fn decoded(text: &str) -> usize {
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

pub(super) fn config_map(object: &Value) -> Errors {
    let mut errors = Vec::new();
    let mut size = 0;
    let binary = map(object, "binaryData");
    for (key, value) in map(object, "data").into_iter().flatten() {
        let path = Path::new("data").key(key);
        errors.extend(all_invalid(&path, key, names::config_key(key)));
        if binary.is_some_and(|binary| binary.contains_key(key)) {
            errors.push(Error::invalid(&path, key.as_str(), "duplicate of key present in binaryData"));
        }
        size += value.as_str().map_or(0, str::len);
    }
    for (key, value) in binary.into_iter().flatten() {
        errors.extend(all_invalid(&Path::new("binaryData").key(key), key, names::config_key(key)));
        size += value.as_str().map_or(0, decoded);
    }
    if size > MAX_DATA {
        // Kubernetes names an empty path here, which prints as brackets.
        errors.push(Error::too_long(&Path::new("[]"), "", MAX_DATA as u64));
    }
    errors
}

pub(super) fn secret(object: &Value) -> Errors {
    let mut errors = Vec::new();
    let data = map(object, "data");
    let mut size = 0;
    for (key, value) in data.into_iter().flatten() {
        errors.extend(all_invalid(&Path::new("data").key(key), key, names::config_key(key)));
        size += value.as_str().map_or(0, decoded);
    }
    if size > MAX_DATA {
        errors.push(Error::too_long(&Path::new("data"), "", MAX_DATA as u64));
    }
    let path = |key: &str| Path::new("data").key(key);
    let there = |key: &str| data.is_some_and(|data| data.contains_key(key));
    match text(object, "type") {
        "kubernetes.io/service-account-token" => {
            let name = "kubernetes.io/service-account.name";
            let annotations = object.get("metadata").and_then(|metadata| map(metadata, "annotations"));
            if annotations.and_then(|annotations| annotations.get(name)).and_then(Value::as_str).unwrap_or_default().is_empty() {
                errors.push(Error::required(&Path::new("metadata").child("annotations").key(name), ""));
            }
        }
        "kubernetes.io/dockercfg" if !there(".dockercfg") => errors.push(Error::required(&path(".dockercfg"), "")),
        "kubernetes.io/dockerconfigjson" if !there(".dockerconfigjson") => errors.push(Error::required(&path(".dockerconfigjson"), "")),
        kind @ ("kubernetes.io/dockercfg" | "kubernetes.io/dockerconfigjson") => {
            let key = if kind.ends_with("json") { ".dockerconfigjson" } else { ".dockercfg" };
            let bytes = data.and_then(|data| data.get(key)).and_then(Value::as_str).and_then(decode).unwrap_or_default();
            let problem = match json_reader::parse(&bytes) {
                Ok(Value::Object(_) | Value::Null) => None,
                Ok(other) => Some(format!("json: cannot unmarshal {} into Go value of type map[string]interface {{}}", json_type(&other))),
                Err(problem) => Some(problem.to_string()),
            };
            errors.extend(problem.map(|problem| Error::invalid(&path(key), "<secret contents redacted>", problem)));
        }
        "kubernetes.io/basic-auth" if !there("username") && !there("password") => {
            errors.push(Error::required(&path("username"), ""));
            errors.push(Error::required(&path("password"), ""));
        }
        "kubernetes.io/ssh-auth" if data.and_then(|data| data.get("ssh-privatekey")).and_then(Value::as_str).is_none_or(str::is_empty) => {
            errors.push(Error::required(&path("ssh-privatekey"), ""));
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"] {
                if !there(key) {
                    errors.push(Error::required(&path(key), ""));
                }
            }
        }
        _ => {}
    }
    errors
}

fn decode(text: &str) -> Option<Vec<u8>> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}

/// Data of an object that was declared immutable, and the type of a Secret.
pub(super) fn immutable_data(new: &Value, old: &Value) -> Errors {
    let mut errors = Vec::new();
    if new.get("type") != old.get("type") {
        errors.push(Error::invalid(&Path::new("type"), new.get("type"), "field is immutable"));
    }
    if !flag(old, "immutable") {
        return errors;
    }
    for field in ["immutable", "data", "binaryData"] {
        if new.get(field) != old.get(field) {
            errors.push(Error::forbidden(&Path::new(field), "field is immutable when `immutable` is set"));
        }
    }
    errors
}

/// A field that never changes.
pub(super) fn immutable(new: &Value, old: &Value, path: &[&str]) -> Errors {
    let pointer = format!("/{}", path.join("/"));
    if new.pointer(&pointer) == old.pointer(&pointer) {
        return Vec::new();
    }
    vec![Error::invalid(&Path::root().children(path), new.pointer(&pointer), "field is immutable")]
}

pub(super) fn lease(object: &Value) -> Errors {
    let (spec, path) = (spec(object), Path::new("spec"));
    let mut errors = Vec::new();
    if let Some(seconds) = int(spec, "leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
        errors.push(Error::invalid(&path.child("leaseDurationSeconds"), seconds, "must be greater than 0"));
    }
    errors.extend(not_negative(spec, "leaseTransitions", &path));
    errors
}

pub(super) fn priority_class(object: &Value) -> Errors {
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let value = int(object, "value").unwrap_or(0);
    let mut errors = Vec::new();
    if name.starts_with("system-") {
        let known = [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)].contains(&(name, value));
        if !known {
            let words = format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {name} is not a known system priority class"
            );
            errors.push(Error::forbidden(&Path::new("metadata").child("name"), words));
        }
    } else if value > 1_000_000_000 {
        let words = "maximum allowed value of a user defined priority is 1000000000";
        errors.push(Error::forbidden(&Path::new("value"), words));
    }
    if has(object, "preemptionPolicy") {
        errors.extend(super::one_of(object, "preemptionPolicy", &Path::root(), &["PreemptLowerPriority", "Never"]));
    }
    errors
}

pub(super) fn priority_class_update(new: &Value, old: &Value) -> Errors {
    let mut errors = Vec::new();
    if int(new, "value").unwrap_or(0) != int(old, "value").unwrap_or(0) {
        errors.push(Error::forbidden(&Path::new("value"), "may not be changed in an update."));
    }
    errors.extend(immutable(new, old, &["preemptionPolicy"]));
    errors
}

pub(super) fn api_service(object: &Value) -> Errors {
    let (spec, path) = (spec(object), Path::new("spec"));
    let mut errors = Vec::new();
    let (group, version) = (text(spec, "group"), text(spec, "version"));
    if group.is_empty() {
        if version != "v1" {
            let words = "only v1 may have an empty group and it better be legacy kube";
            errors.push(Error::required(&path.child("group"), words));
        }
    } else {
        errors.extend(all_invalid(&path.child("group"), group, names::subdomain(group)));
    }
    errors.extend(all_invalid(&path.child("version"), version, names::label_1035(version)));
    for (field, most) in [("groupPriorityMinimum", 20000), ("versionPriority", 1000)] {
        let value = int(spec, field).unwrap_or(0);
        if value <= 0 || value > most {
            errors.push(Error::invalid(&path.child(field), value, format!("must be positive and less than {most}")));
        }
    }
    let has_bundle = !text(spec, "caBundle").is_empty();
    match spec.get("service").filter(|service| !service.is_null()) {
        None => {
            if has_bundle {
                errors.push(Error::invalid(
                    &path.child("caBundle"),
                    format!("{} bytes", decoded(text(spec, "caBundle"))),
                    "local APIServices may not have a caBundle",
                ));
            }
            if flag(spec, "insecureSkipTLSVerify") {
                errors.push(Error::invalid(
                    &path.child("insecureSkipTLSVerify"),
                    true,
                    "local APIServices may not have insecureSkipTLSVerify",
                ));
            }
        }
        Some(service) => {
            let own = path.child("service");
            for field in ["namespace", "name"] {
                if text(service, field).is_empty() {
                    errors.push(Error::required(&own.child(field), ""));
                }
            }
            let port = int(service, "port").unwrap_or(0);
            errors.extend(
                names::port(port)
                    .into_iter()
                    .map(|_| Error::invalid(&own.child("port"), port, "port is not valid: must be between 1 and 65535, inclusive")),
            );
            if flag(spec, "insecureSkipTLSVerify") && has_bundle {
                errors.push(Error::invalid(&path.child("insecureSkipTLSVerify"), true, "may not be true if caBundle is present"));
            }
        }
    }
    errors
}

/// The usages of keys.
const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// Reads a request as Go's parser does, and says in its words why it cannot.
fn readable_request(request: &str) -> Result<(), &'static str> {
    use x509_parser::asn1_rs::Error as BerError;
    use x509_parser::nom::Err::{Error as Fault, Failure, Incomplete};
    use x509_parser::prelude::{FromDer as _, X509CertificationRequest, X509Error, parse_x509_pem};

    let pem = decode(request).and_then(|bytes| parse_x509_pem(&bytes).ok().map(|(_, pem)| pem));
    let pem = pem.filter(|pem| pem.label == "CERTIFICATE REQUEST").ok_or("PEM block type must be CERTIFICATE REQUEST")?;
    match X509CertificationRequest::from_der(&pem.contents) {
        Ok(([], _)) => Ok(()),
        Ok(_) => Err("asn1: syntax error: trailing data"),
        Err(Incomplete(_) | Fault(X509Error::Der(BerError::Incomplete(_))) | Failure(X509Error::Der(BerError::Incomplete(_)))) => {
            Err("asn1: syntax error: data truncated")
        }
        Err(_) => Err("asn1: structure error: tags don't match"),
    }
}

pub(super) fn certificate_request(object: &Value) -> Errors {
    let (spec, path) = (spec(object), Path::new("spec"));
    let mut errors = Vec::new();
    let request = text(spec, "request");
    if let Err(why) = readable_request(request) {
        errors.push(Error::invalid(&path.child("request"), spec.get("request"), why));
    }
    let usages = super::texts(spec, "usages");
    if usages.is_empty() {
        errors.push(Error::required(&path.child("usages"), ""));
    }
    for (index, usage) in usages.iter().enumerate() {
        let path = path.child("usages").index(index);
        if !USAGES.contains(usage) {
            errors.push(Error::not_supported(&path, *usage, USAGES));
        }
        if usages[..index].contains(usage) {
            errors.push(Error::duplicate(&path, *usage));
        }
    }
    let signer = text(spec, "signerName");
    if signer.is_empty() {
        errors.push(Error::required(&path.child("signerName"), ""));
    } else if let Some((domain, rest)) = signer.split_once('/') {
        errors.extend(all_invalid(&path.child("signerName"), signer, names::subdomain(domain)));
        if domain.split('.').count() < 2 {
            errors.push(Error::invalid(
                &path.child("signerName"),
                signer,
                "should be a domain with at least two segments separated by dots",
            ));
        }
        if rest.is_empty() {
            errors.push(Error::invalid(
                &path.child("signerName"),
                signer,
                "must be a fully qualified domain and path of the form 'example.com/signer-name'",
            ));
        }
    } else {
        errors.push(Error::invalid(
            &path.child("signerName"),
            signer,
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        ));
    }
    if let Some(seconds) = int(spec, "expirationSeconds").filter(|seconds| *seconds < 600) {
        errors.push(Error::invalid(
            &path.child("expirationSeconds"),
            seconds,
            "may not specify a duration less than 600 seconds (10 minutes)",
        ));
    }
    errors.extend(certificate_approval(object));
    errors
}

pub(super) fn certificate_approval(object: &Value) -> Errors {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
    let path = Path::new("status").child("conditions");
    let mut errors = Vec::new();
    let (mut approved, mut denied) = (false, false);
    let mut seen: Vec<&str> = Vec::new();
    for (index, condition) in conditions.iter().enumerate() {
        let own = path.index(index);
        let kind = text(condition, "type");
        if kind.is_empty() {
            errors.push(Error::required(&own.child("type"), ""));
        }
        let status = text(condition, "status");
        match (kind, status) {
            (_, "") => errors.push(Error::required(&own.child("status"), "")),
            ("Approved" | "Denied" | "Failed", status) if status != "True" => {
                errors.push(Error::not_supported(&own.child("status"), status, &["True"]));
            }
            (_, status) if !["True", "False", "Unknown"].contains(&status) => {
                errors.push(Error::not_supported(&own.child("status"), status, &["True", "False", "Unknown"]));
            }
            _ => {}
        }
        if (kind == "Approved" && denied) || (kind == "Denied" && approved) {
            errors.push(Error::invalid(&path, kind, "Approved and Denied conditions are mutually exclusive"));
        }
        approved |= kind == "Approved";
        denied |= kind == "Denied";
        if seen.contains(&kind) {
            errors.push(Error::duplicate(&own.child("type"), kind));
        }
        seen.push(kind);
    }
    errors
}

pub(super) fn runtime_class(object: &Value) -> Errors {
    let handler = text(object, "handler");
    let path = Path::new("handler");
    let mut errors = if handler.is_empty() { vec![Error::required(&path, "")] } else { all_invalid(&path, handler, names::label(handler)) };
    if let Some(fixed) = object.pointer("/overhead/podFixed").filter(|fixed| fixed.is_object()) {
        errors.extend(resources::requirements(&json!({"limits": fixed}), &Path::new("overhead")));
    }
    if let Some(scheduling) = object.get("scheduling") {
        errors.extend(labels::labels(map(scheduling, "nodeSelector"), &Path::new("scheduling").child("nodeSelector")));
        let (path, given) = (Path::new("scheduling").child("tolerations"), list(scheduling, "tolerations"));
        errors.extend(scheduling_rules::tolerations(scheduling, &path));
        for (index, toleration) in given.iter().enumerate().filter(|(index, toleration)| given[..*index].contains(toleration)) {
            errors.push(Error::duplicate(&path.index(index), internal::shown("Toleration", toleration)));
        }
    }
    errors
}

/// Finalizers of a namespace's content.
/// The phase says whether the namespace is being deleted, and nothing else.
pub(super) fn namespace_status(object: &Value) -> Errors {
    let phase = object.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    let is_deleted = object.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null());
    let (wanted, when) = if is_deleted { ("Terminating", "not empty") } else { ("Active", "empty") };
    if phase == wanted {
        return Vec::new();
    }
    let words = format!("may only be '{wanted}' if `deletionTimestamp` is {when}");
    vec![Error::invalid(&Path::new("status").child("Phase"), phase, words)]
}

pub(super) fn namespace(object: &Value) -> Errors {
    let path = Path::new("spec").child("finalizers");
    let mut errors = Vec::new();
    for finalizer in super::texts(spec(object), "finalizers") {
        errors.extend(all_invalid(&path, finalizer, names::qualified(finalizer)));
        if !finalizer.contains('/') && !["kubernetes", "orphan", "foregroundDeletion"].contains(&finalizer) {
            let words = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(Error::invalid(&path, finalizer, words));
        }
    }
    errors
}

pub(super) fn controller_revision(object: &Value) -> Errors {
    let mut errors = revision(object);
    let path = Path::new("data");
    match object.get("data") {
        None | Some(Value::Null) => errors.push(Error::required(&path, "data is mandatory")),
        Some(Value::Object(_)) => {}
        Some(_) => errors.push(Error::required(&path, "data must be a valid JSON object")),
    }
    errors
}

/// The rules for a changed revision, whose data cannot change.
pub(super) fn revision(object: &Value) -> Errors {
    not_negative(object, "revision", &Path::root())
}

pub(super) fn token_request(object: &Value) -> Errors {
    let path = Path::new("spec").child("expirationSeconds");
    match int(spec(object), "expirationSeconds") {
        Some(seconds) if seconds < 600 => vec![Error::invalid(&path, seconds, "may not specify a duration less than 10 minutes")],
        Some(seconds) if seconds > 1 << 32 => vec![Error::invalid(&path, seconds, "may not specify a duration larger than 2^32 seconds")],
        _ => Vec::new(),
    }
}

pub(super) fn access_review(kind: &str, object: &Value) -> Errors {
    let (spec, path) = (spec(object), Path::new("spec"));
    if kind == "SelfSubjectRulesReview" {
        return Vec::new();
    }
    let mut errors = Vec::new();
    let non_resource = spec.get("nonResourceAttributes").filter(|attributes| !attributes.is_null());
    let shown = |attributes: &Value| {
        BadValue::Json(format!("{{\"Path\":{},\"Verb\":{}}}", json!(text(attributes, "path")), json!(text(attributes, "verb"))))
    };
    match (has(spec, "resourceAttributes"), non_resource) {
        (true, Some(attributes)) => {
            let words = "cannot be specified in combination with resourceAttributes";
            errors.push(Error::invalid(&path.child("nonResourceAttributes"), shown(attributes), words));
        }
        (false, None) => {
            let words = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            errors.push(Error::invalid(&path.child("resourceAttributes"), Value::Null, words));
        }
        _ => {}
    }
    if kind != "SelfSubjectAccessReview" && text(spec, "user").is_empty() && list(spec, "groups").is_empty() {
        errors.push(Error::invalid(&path.child("user"), "", "at least one of user or group must be specified"));
    }
    if kind == "LocalSubjectAccessReview" {
        let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
        if let Some(attributes) = spec.get("resourceAttributes").filter(|attributes| text(attributes, "namespace") != namespace) {
            let path = path.child("resourceAttributes").child("namespace");
            errors.push(Error::invalid(&path, text(attributes, "namespace"), "must match metadata.namespace"));
        }
        if let Some(attributes) = non_resource {
            let words = "disallowed on this kind of request";
            errors.push(Error::invalid(&path.child("nonResourceAttributes"), shown(attributes), words));
        }
    }
    errors
}
