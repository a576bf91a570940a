//! Objects in the other versions of their kind, for the owners that speak them (KAPI-SSA-01).
//!
//! ```text
//!   built-in kinds     by a function of `kinds`
//!   custom kinds       another name of the version, or by the CRD's webhook: asked once for everything, remembered for the request
//! ```

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mainstay_kinds::{self as kinds, Gvk, registry};
use mainstay_merge::fieldset::FieldSet;
use mainstay_merge::managed::{NotConverted, Versioned, Versions};
use mainstay_merge::typed::{Duplicates, Node};
use mainstay_schema::SchemaRef;
use serde_json::Value;

use crate::error::ApiError;
use crate::served::Served;
use crate::{stored, strategy};

/// The versions of a kind during one request.
pub struct Forms<'a> {
    served: &'a Served,
    sub: Option<&'a str>,
    webhook: Mutex<Webhook>,
}

/// The questions to the CRD's webhook, and its answers.
#[derive(Default)]
struct Webhook {
    said: HashMap<Question, Result<Value, ApiError>>,
    asked: BTreeMap<Question, Value>,
}

/// The wanted `apiVersion`, and the object's text.
type Question = (String, String);

impl<'a> Forms<'a> {
    /// Of a kind, for writes to the object or a subresource; nothing is converted yet.
    pub fn of(served: &'a Served, sub: Option<&'a str>) -> Self {
        Self { served, sub, webhook: Mutex::default() }
    }

    /// Puts the open questions to the webhook: one call for each version. Says whether there were any.
    pub async fn fetch(&self) -> bool {
        let asked = std::mem::take(&mut self.webhook().asked);
        let Some(converter) = self.served.converter().filter(|_| !asked.is_empty()) else {
            return false;
        };
        let mut versions: BTreeMap<String, (Vec<String>, Vec<Value>)> = BTreeMap::new();
        for ((api_version, text), object) in asked {
            let (texts, objects) = versions.entry(api_version).or_default();
            texts.push(text);
            objects.push(object);
        }
        for (api_version, (texts, objects)) in versions {
            let answers: Vec<Result<Value, ApiError>> = match converter.convert(objects, &api_version).await {
                Ok(converted) => converted.into_iter().map(Ok).collect(),
                Err(error) => texts.iter().map(|_| Err(error.clone())).collect(),
            };
            let mut webhook = self.webhook();
            webhook.said.extend(texts.into_iter().map(|text| (api_version.clone(), text)).zip(answers));
        }
        true
    }

    fn webhook(&self) -> MutexGuard<'_, Webhook> {
        self.webhook.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn schema(&self, wanted: &Gvk) -> Option<SchemaRef> {
        let served = self.served;
        // Events are served by two groups, and as upstream neither knows the owners of the other.
        if wanted.group != served.facts.group {
            return None;
        }
        match &served.custom {
            Some(custom) => custom.schemas.get(&wanted.version).cloned(),
            None => registry().resource_of_kind(wanted).and_then(|_| registry().schema(wanted)),
        }
    }

    fn converted(&self, object: &Value, wanted: &Gvk) -> Result<Value, NotConverted> {
        let api_version = wanted.api_version();
        if object.get("apiVersion").and_then(Value::as_str) == Some(&api_version) {
            return Ok(object.clone());
        }
        if self.served.custom.is_none() {
            // What merging and pruning leave is in no form that the server writes, and converting begins and ends with one.
            let own = Gvk::of(object.get("apiVersion").and_then(Value::as_str).unwrap_or_default(), &wanted.kind);
            let mut object = object.clone();
            kinds::go_form(&own, &mut object);
            stored::convert(&mut object, wanted).map_err(|error| NotConverted::Failed(error.message))?;
            kinds::go_form(wanted, &mut object);
            return Ok(object);
        }
        if self.served.converter().is_none() || is_empty(object) {
            let mut object = object.clone();
            if let Value::Object(map) = &mut object {
                map.insert("apiVersion".into(), api_version.into());
            }
            return Ok(object);
        }
        let question = (api_version, object.to_string());
        let mut webhook = self.webhook();
        if let Some(said) = webhook.said.get(&question) {
            return said.clone().map_err(|error| NotConverted::Failed(error.message));
        }
        webhook.asked.insert(question, object.clone());
        Err(NotConverted::Pending)
    }
}

impl Versions for Forms<'_> {
    fn convert(&self, object: &Value, api_version: &str) -> Result<Versioned, NotConverted> {
        let wanted = Gvk::of(api_version, &self.served.facts.kind);
        let schema = self.schema(&wanted).ok_or(NotConverted::Gone)?;
        let object = self.converted(object, &wanted)?;
        Node::object(&schema)
            .validate(&object, Duplicates::Allowed)
            .map_err(|problem| NotConverted::Failed(format!("the object does not fit the schema of {api_version}: {problem}")))?;
        // A CRD's writes know what they cannot change in their own version alone, as upstream's.
        let reset = if self.served.custom.is_some() { FieldSet::new() } else { super::reset(self.served, self.sub) };
        Ok(Versioned { object, schema, reset })
    }

    fn empty(&self) -> Value {
        strategy::empty(self.served)
    }
}

/// Returns whether there is nothing in an object to convert: webhooks are not asked about these.
fn is_empty(object: &Value) -> bool {
    object.as_object().is_none_or(|map| {
        map.iter().all(|(name, value)| match name.as_str() {
            "apiVersion" | "kind" => true,
            "metadata" => value.as_object().is_none_or(|metadata| metadata.keys().all(|name| name == "creationTimestamp")),
            _ => false,
        })
    })
}
