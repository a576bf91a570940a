//! Remediation requests: objects that other controllers act upon, made from a template (MACH-MHC-04).

use mainstay_golang::quote;
use serde_json::{Value, json};

use super::check::TemplateRef;
use crate::condition::{Condition, Severity};
use crate::machine::Machine;

/// Condition that says whether the template is there.
pub const TEMPLATE_AVAILABLE: &str = "ExternalRemediationTemplateAvailable";
/// Condition that says whether the request could be made.
pub const REQUEST_AVAILABLE: &str = "ExternalRemediationRequestAvailable";
const TEMPLATE_NOT_FOUND: &str = "ExternalRemediationTemplateNotFound";
const CREATION_FAILED: &str = "ExternalRemediationRequestCreationFailed";
const CLONED_FROM_NAME: &str = "machine.openshift.io/cloned-from-name";
const CLONED_FROM_KIND: &str = "machine.openshift.io/cloned-from-groupkind";
const TEMPLATE_SUFFIX: &str = "Template";
const MACHINE: (&str, &str) = ("machine.openshift.io/v1beta1", "Machine");

/// A template that requests cannot be made from.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("missing Spec.Template on {kind} {}", quote(.name))]
pub struct TemplateError {
    /// Group, version and kind of the template, as Go prints them.
    kind: String,
    /// Its name.
    name: String,
}

impl TemplateRef {
    /// Returns the kind of the requests.
    pub fn request_kind(&self) -> &str {
        request_kind(&self.kind)
    }

    fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    fn group_kind(&self) -> String {
        match self.group() {
            "" => self.kind.clone(),
            group => format!("{}.{group}", self.kind),
        }
    }
}

fn request_kind(template: &str) -> &str {
    template.strip_suffix(TEMPLATE_SUFFIX).unwrap_or(template)
}

/// Returns the request about a machine. Its name is the machine's, so that there is one request a machine and kind.
///
/// # Errors
/// The template has no `spec.template`.
pub fn request(template: &Value, reference: &TemplateRef, machine: &Machine) -> Result<Value, TemplateError> {
    let text = |field: &str| template.get(field).and_then(Value::as_str).unwrap_or_default();
    let Some(Value::Object(inner)) = template.pointer("/spec/template") else {
        let kind = format!("{}, Kind={}", text("apiVersion"), text("kind"));
        let name = template.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
        return Err(TemplateError { kind, name });
    };
    let mut request = inner.clone();
    let mut metadata = request.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    for field in ["resourceVersion", "finalizers", "uid", "selfLink"] {
        metadata.remove(field);
    }
    let mut annotations = metadata.get("annotations").and_then(Value::as_object).cloned().unwrap_or_default();
    annotations.insert(CLONED_FROM_NAME.to_owned(), json!(reference.name));
    annotations.insert(CLONED_FROM_KIND.to_owned(), json!(reference.group_kind()));
    metadata.insert("annotations".to_owned(), Value::Object(annotations));
    metadata.insert("name".to_owned(), json!(machine.name));
    metadata.insert("namespace".to_owned(), json!(machine.namespace));
    let owner = json!([{"apiVersion": MACHINE.0, "kind": MACHINE.1, "name": machine.name, "uid": machine.uid}]);
    metadata.insert("ownerReferences".to_owned(), owner);
    request.insert("metadata".to_owned(), Value::Object(metadata));
    let set = |request: &serde_json::Map<String, Value>, field: &str| {
        request.get(field).and_then(Value::as_str).is_some_and(|text| !text.is_empty())
    };
    if !set(&request, "apiVersion") {
        request.insert("apiVersion".to_owned(), json!(text("apiVersion")));
    }
    if !set(&request, "kind") {
        request.insert("kind".to_owned(), json!(request_kind(text("kind"))));
    }
    Ok(Value::Object(request))
}

/// Returns the condition of a check whose template cannot be read.
pub fn template_missing(cause: &str) -> Condition {
    Condition::is_false(TEMPLATE_AVAILABLE, TEMPLATE_NOT_FOUND, Severity::Error, cause)
}

/// Returns the condition of a check whose request could not be made.
pub fn request_failed(cause: &str) -> Condition {
    Condition::is_false(REQUEST_AVAILABLE, CREATION_FAILED, Severity::Error, cause)
}
