//! Conversion between the versions of a custom resource by its webhook (KAPI-CRD-04).
//!
//! ```text
//!   get, update        stored ─► convert ─► asked version ─► ... ─► convert ─► storage version
//!   list, watch        Entry  ─► kept, or converted in batches ─► Entry in the asked version
//! ```
//!
//! A list or a watch sees each revision of an object converted once, as with upstream's cache of each version. Whatever reads
//! entries after that finds them as if they had been stored in the asked version.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mainstay_golang::value::type_name;
use mainstay_store::Revision;
use serde_json::{Map, Value, json};

use crate::entry::Entry;
use crate::error::{ApiError, Result};
use crate::object::{self, meta};
use crate::remote::{CallError, ClientConfig, Remotes};

/// Why what a conversion webhook answered does not count, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
struct Unconverted(String);

/// The time that a webhook may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The most objects and bytes of one review.
const BATCH_OBJECTS: usize = 500;
const BATCH_BYTES: usize = 8 * 1024 * 1024;
/// The most bytes of converted objects that are kept for lists and watches.
const KEPT_BYTES: usize = 16 * 1024 * 1024;

/// Converts the objects of one CRD.
pub struct Converter {
    remotes: Arc<Remotes>,
    /// The way to call it; else why it cannot be called, for those who need it.
    config: Result<ClientConfig, CallError>,
    /// `v1` or `v1beta1`; `None` when the CRD names no version that is known here.
    review_version: Option<&'static str>,
    kept: Mutex<Kept>,
}

/// Converted entries: the lately used ones, and those used before.
#[derive(Default)]
struct Kept {
    young: HashMap<Which, Arc<Entry>>,
    old: HashMap<Which, Arc<Entry>>,
    bytes: usize,
}

/// An object in a version: key, revision, `apiVersion`.
type Which = (String, Revision, String);

impl Converter {
    /// From `spec.conversion.webhook` of a CRD.
    pub fn new(remotes: Arc<Remotes>, webhook: &Value) -> Self {
        let mut known = webhook["conversionReviewVersions"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let review_version = known.find_map(|version| ["v1", "v1beta1"].into_iter().find(|one| *one == version));
        Self { remotes, config: ClientConfig::of_webhook(&webhook["clientConfig"]), review_version, kept: Mutex::default() }
    }

    /// Converts objects; those that have the version already stay as they are.
    pub async fn convert(&self, mut objects: Vec<Value>, desired: &str) -> Result<Vec<Value>> {
        let places: Vec<usize> = (0..objects.len()).filter(|at| objects[*at]["apiVersion"] != *desired).collect();
        let mut rest = places.as_slice();
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = rest.iter().take(BATCH_OBJECTS).take_while(|at| {
                bytes += objects[**at].to_string().len();
                bytes <= BATCH_BYTES
            });
            // An object that is too large for any batch goes alone.
            let (batch, later) = rest.split_at(fits.count().max(1));
            let originals: Vec<Value> = batch.iter().map(|at| objects[*at].take()).collect();
            for (at, converted) in batch.iter().zip(self.review(originals, desired).await?) {
                objects[*at] = converted;
            }
            rest = later;
        }
        Ok(objects)
    }

    async fn review(&self, originals: Vec<Value>, desired: &str) -> Result<Vec<Value>> {
        let version = self.review_version.ok_or_else(|| ApiError::untyped("no supported conversion review versions"))?;
        let uid = uuid::Uuid::new_v4().to_string();
        let kind = described(&originals[0]);
        let failed = |why: String| ApiError::untyped(format!("conversion webhook for {kind} failed: {why}"));
        let request = json!({
            "kind": "ConversionReview",
            "apiVersion": format!("apiextensions.k8s.io/{version}"),
            "request": {"uid": uid, "desiredAPIVersion": desired, "objects": originals},
        });
        let config = self.config.as_ref().map_err(|error| failed(error.to_string()))?;
        let answer = self.remotes.call(config, &request, TIMEOUT).await.map_err(|error| failed(error.to_string()))?;
        let converted = accept(version, &uid, answer).map_err(|why| failed(why.to_string()))?;
        checked(&kind, &originals, converted, desired).map_err(|why| ApiError::untyped(why.to_string()))
    }

    /// The same entries in this version.
    pub async fn entries(&self, mut entries: Vec<Arc<Entry>>, desired: &str) -> Result<Vec<Arc<Entry>>> {
        let mut missing = Vec::new();
        for (at, entry) in entries.iter_mut().enumerate() {
            if stored_version(&entry.stored) == Some(desired) {
                continue;
            }
            match self.kept.lock().unwrap_or_else(PoisonError::into_inner).get(&which(entry, desired)) {
                Some(converted) => *entry = converted,
                None => missing.push(at),
            }
        }
        if missing.is_empty() {
            return Ok(entries);
        }
        let converted = self.convert(missing.iter().map(|at| entries[*at].value()).collect(), desired).await?;
        for (at, value) in missing.into_iter().zip(converted) {
            let entry = &entries[at];
            let stored = object::encode(desired, value["kind"].as_str().unwrap_or_default(), &value);
            let made = Entry::of(entry.key.clone(), stored, entry.revision);
            let made = Arc::new(made.ok_or_else(|| ApiError::internal("a converted object has no metadata"))?);
            self.kept.lock().unwrap_or_else(PoisonError::into_inner).put(which(entry, desired), made.clone());
            entries[at] = made;
        }
        Ok(entries)
    }
}

impl Kept {
    fn get(&mut self, which: &Which) -> Option<Arc<Entry>> {
        if let Some(found) = self.young.get(which) {
            return Some(found.clone());
        }
        let found = self.old.remove(which)?;
        self.put(which.clone(), found.clone());
        Some(found)
    }

    fn put(&mut self, which: Which, entry: Arc<Entry>) {
        self.bytes += entry.stored.len();
        if self.bytes > KEPT_BYTES / 2 {
            self.old = std::mem::take(&mut self.young);
            self.bytes = entry.stored.len();
        }
        self.young.insert(which, entry);
    }
}

fn which(entry: &Entry, desired: &str) -> Which {
    (entry.key.clone(), entry.revision, desired.to_owned())
}

/// The `apiVersion` of stored bytes, which begin with it.
pub fn stored_version(stored: &[u8]) -> Option<&str> {
    let rest = stored.strip_prefix(b"{\"apiVersion\":\"")?;
    let end = rest.iter().position(|byte| *byte == b'"')?;
    std::str::from_utf8(&rest[..end]).ok()
}

/// `GROUP/VERSION, Kind=KIND`.
fn described(object: &Value) -> String {
    format!("{}, Kind={}", object["apiVersion"].as_str().unwrap_or_default(), object["kind"].as_str().unwrap_or_default())
}

/// The converted objects of an answer; else why they do not count.
fn accept(version: &str, uid: &str, mut answer: Value) -> Result<Vec<Value>, Unconverted> {
    // The beta never looked at these.
    let strict = version == "v1";
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text(&answer["apiVersion"]), text(&answer["kind"]));
    if strict && (api_version != "apiextensions.k8s.io/v1" || kind != "ConversionReview") {
        return Err(Unconverted(format!(
            "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got {api_version}, Kind={kind}"
        )));
    }
    let response = &mut answer["response"];
    if !response.is_object() {
        return Err(Unconverted("no response provided".to_owned()));
    }
    let given = text(&response["uid"]);
    if strict && given != uid {
        return Err(Unconverted(format!("expected response.uid={uid:?}, got {given:?}")));
    }
    let status = text(&response["result"]["status"]);
    if status != "Success" {
        let message = text(&response["result"]["message"]);
        let message = if message.is_empty() { format!("response.result.status was '{status}', not 'Success'") } else { message };
        return Err(Unconverted(message));
    }
    match response["convertedObjects"].take() {
        Value::Array(objects) => Ok(objects),
        _ => Ok(Vec::new()),
    }
}

/// Checks what a webhook made of the originals and puts their metadata back, except labels and annotations.
fn checked(kind: &str, originals: &[Value], mut converted: Vec<Value>, desired: &str) -> Result<Vec<Value>, Unconverted> {
    if converted.len() != originals.len() {
        return Err(Unconverted(format!(
            "conversion webhook for {kind} returned {} objects, expected {}",
            converted.len(),
            originals.len()
        )));
    }
    let many = originals.len() > 1;
    for (index, (original, converted)) in originals.iter().zip(&mut converted).enumerate() {
        let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
        let object = if many { format!("invalid converted object at index {index}") } else { "invalid object at index 0".to_owned() };
        let (version, own_kind) = (text(converted, "apiVersion"), text(converted, "kind"));
        if version != desired {
            return Err(Unconverted(format!(
                "conversion webhook for {kind} returned {object}: invalid groupVersion (expected {desired}, received {version})"
            )));
        }
        let expected = text(original, "kind");
        if own_kind != expected {
            return Err(Unconverted(format!(
                "conversion webhook for {kind} returned {object}: invalid kind (expected {expected}, received {own_kind})"
            )));
        }
        let object = if many { object.as_str() } else { "invalid object" };
        for (field, named) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
            let (before, after) = (meta(original, field), meta(converted, field));
            if before != after {
                return Err(Unconverted(format!(
                    "conversion webhook for {kind} returned {object}: must have the same {named}: {before} != {after}"
                )));
            }
        }
        let place = if many { format!("invalid metadata in object at index {index}") } else { "invalid metadata".to_owned() };
        restore(original, converted).map_err(|why| Unconverted(format!("conversion webhook for {kind} returned {place}: {why}")))?;
    }
    Ok(converted)
}

fn restore(original: &Value, converted: &mut Value) -> Result<(), Unconverted> {
    let answered = match converted.get_mut("metadata").map(Value::take) {
        None => return Err(Unconverted("missing metadata in converted object".to_owned())),
        Some(Value::Object(metadata)) => metadata,
        Some(other) => return Err(Unconverted(format!("invalid metadata of type {} in converted object", type_name(&other)))),
    };
    let mut metadata = original["metadata"].as_object().cloned().unwrap_or_default();
    for field in ["labels", "annotations"] {
        match answered.get(field) {
            None | Some(Value::Null) => {
                metadata.remove(field);
            }
            Some(Value::Object(wanted)) => {
                if let Some((key, other)) = wanted.iter().find(|(_, value)| !value.is_string()) {
                    return Err(Unconverted(format!(
                        "metadata.{field}[{key}] must be a string, but is {} in converted object",
                        type_name(other)
                    )));
                }
                if metadata.get(field).and_then(Value::as_object) != Some(wanted) {
                    valid(field, wanted)?;
                }
                metadata.insert(field.to_owned(), Value::Object(wanted.clone()));
            }
            Some(other) => return Err(Unconverted(format!("invalid metadata.{field} of type {} in converted object", type_name(other)))),
        }
    }
    converted["metadata"] = Value::Object(metadata);
    Ok(())
}

/// Refuses invalid new labels or annotations.
fn valid(field: &str, wanted: &Map<String, Value>) -> Result<(), Unconverted> {
    let probe = json!({"metadata": {"name": "x", field: wanted}});
    let errors = mainstay_kinds::validate_metadata(&probe, false);
    let texts: Vec<String> = errors.iter().map(|error| format!("{}: {}", error.field, error.body())).collect();
    match texts.as_slice() {
        [] => Ok(()),
        [one] => Err(Unconverted(one.clone())),
        many => Err(Unconverted(format!("[{}]", many.join(", ")))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "a table of literals")]
    fn object(version: &str, more: Value) -> Value {
        let mut object = json!({"apiVersion": format!("e.com/{version}"), "kind": "W", "metadata": {"name": "a", "namespace": "n", "uid": "u", "generation": 1}});
        for (key, value) in more.as_object().into_iter().flatten() {
            object["metadata"][key] = value.clone();
        }
        object
    }

    /// KAPI-CRD-04: answers that do not count, in upstream's words.
    #[test]
    fn refused_answers() {
        let good = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "response": {"uid": "7", "result": {"status": "Success"}, "convertedObjects": [1]}});
        assert_eq!(accept("v1", "7", good.clone()).unwrap(), [json!(1)]);
        let change = |pointer: &str, value: Value| {
            let mut answer = good.clone();
            *answer.pointer_mut(pointer).unwrap() = value;
            answer
        };
        for (answer, words) in [
            (
                change("/kind", json!("X")),
                "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got apiextensions.k8s.io/v1, Kind=X",
            ),
            (change("/response", Value::Null), "no response provided"),
            (change("/response/uid", json!("8")), "expected response.uid=\"7\", got \"8\""),
            (change("/response/result", json!({"status": "Failed"})), "response.result.status was 'Failed', not 'Success'"),
            (change("/response/result", json!({"status": "Failed", "message": "too old"})), "too old"),
        ] {
            assert_eq!(accept("v1", "7", answer).unwrap_err().to_string(), words);
        }
        assert!(accept("v1beta1", "7", change("/response/uid", json!("8"))).is_ok());
    }

    /// KAPI-CRD-04: a webhook may change labels and annotations, and no other metadata.
    #[test]
    fn metadata_is_kept() {
        let check = |converted: Value| checked("K", &[object("v1", json!({"labels": {"a": "b"}}))], vec![converted], "e.com/v2");
        let made = check(object("v2", json!({"labels": {"c": "d"}, "generation": 9, "finalizers": ["x"]}))).unwrap();
        assert_eq!(made[0]["metadata"], json!({"name": "a", "namespace": "n", "uid": "u", "generation": 1, "labels": {"c": "d"}}));
        assert!(check(object("v2", json!({}))).unwrap()[0]["metadata"].get("labels").is_none());
        let prefix = "conversion webhook for K returned";
        for (converted, words) in [
            (object("v1", json!({})), "invalid object at index 0: invalid groupVersion (expected e.com/v2, received e.com/v1)"),
            (object("v2", json!({"name": "b"})), "invalid object: must have the same name: a != b"),
            (object("v2", json!({"uid": "b"})), "invalid object: must have the same UID: u != b"),
            (
                object("v2", json!({"labels": {"x": 1}})),
                "invalid metadata: metadata.labels[x] must be a string, but is int64 in converted object",
            ),
            (object("v2", json!({"labels": []})), "invalid metadata: invalid metadata.labels of type []interface {} in converted object"),
        ] {
            assert_eq!(check(converted).unwrap_err().to_string(), format!("{prefix} {words}"));
        }
        assert!(check(object("v2", json!({"labels": {"-": "x"}}))).unwrap_err().to_string().contains("metadata.labels"));
        assert_eq!(
            checked("K", &[json!({}), json!({})], vec![], "v").unwrap_err().to_string(),
            "conversion webhook for K returned 0 objects, expected 2"
        );
    }
}
