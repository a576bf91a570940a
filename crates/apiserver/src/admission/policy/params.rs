//! Parameters of policies: objects of a kind, by name or by labels.

use mainstay_kinds::Gvk;
use mainstay_objects::{Requirements, labels_of};
use serde_json::Value;

use crate::admission::matching::namespace_of;
use crate::admission::step::Request;
use crate::error::Result;

/// `paramKind`.
pub(super) struct Kind {
    api_version: String,
    kind: String,
}

/// `paramRef`.
pub(super) struct Reference {
    name: String,
    namespace: String,
    selector: Option<Requirements>,
    /// `parameterNotFoundAction: Deny`.
    denies_absence: bool,
}

/// Why the parameters of a binding could not be found.
#[derive(Debug, thiserror::Error)]
pub(super) enum ParamError {
    #[error("paramKind kind `&ParamKind{{APIVersion:{0},Kind:{1},}}` not known")]
    UnknownKind(String, String),
    #[error("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")]
    NoNamespace,
    #[error("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")]
    ClusterScoped,
    #[error("no params found for policy binding with `Deny` parameterNotFoundAction")]
    NotFound,
    #[error(transparent)]
    Api(#[from] crate::error::ApiError),
}

impl Kind {
    pub(super) fn read(kind: &Value) -> Self {
        let text = |field: &str| kind.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self { api_version: text("apiVersion"), kind: text("kind") }
    }

    pub(super) fn gvk(&self) -> Gvk {
        Gvk::of(&self.api_version, &self.kind)
    }
}

impl Reference {
    pub(super) fn read(reference: &Value) -> Self {
        let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self {
            name: text("name"),
            namespace: text("namespace"),
            selector: reference.get("selector").filter(|selector| selector.is_object()).map(Requirements::of_selector),
            denies_absence: reference["parameterNotFoundAction"] == "Deny",
        }
    }
}

/// The parameters to validate with, one after the other. Without a kind or a reference there is one: none. No parameter at all
/// means that nothing is validated.
pub(super) async fn collect(
    request: &Request<'_>,
    kind: Option<&Kind>,
    reference: Option<&Reference>,
) -> Result<Vec<Option<Value>>, ParamError> {
    let (Some(kind), Some(reference)) = (kind, reference) else { return Ok(vec![None]) };
    let snapshot = request.lookup.served();
    let served = snapshot.of_kind(&kind.gvk()).cloned();
    let served = served.ok_or_else(|| ParamError::UnknownKind(kind.api_version.clone(), kind.kind.clone()))?;
    let namespace = match (served.facts.namespaced, reference.namespace.as_str(), namespace_of(request)) {
        (false, "", _) => "",
        (false, ..) => return Err(ParamError::ClusterScoped),
        (true, "", "") => return Err(ParamError::NoNamespace),
        (true, "", own) => own,
        (true, given, _) => given,
    };
    let found: Vec<Option<Value>> = match &reference.selector {
        None => request.lookup.load(&served, namespace, &reference.name).await?.into_iter().map(|loaded| Some(loaded.value)).collect(),
        Some(selector) => {
            let mut entries = request.lookup.list(&served.storage, namespace);
            if let Some(converter) = served.converter() {
                entries = converter.entries(entries, &served.api_version()).await?;
            }
            let mut found = Vec::new();
            for entry in entries {
                let value = served.read(&entry.stored, entry.revision)?.value;
                if selector.matches(&labels_of(&value)) {
                    found.push(Some(value));
                }
            }
            found
        }
    };
    if found.is_empty() && reference.denies_absence {
        return Err(ParamError::NotFound);
    }
    Ok(found)
}
