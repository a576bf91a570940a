//! A CredentialsRequest, read.

use mainstay_api::cloud_credential_v1::CredentialsRequestSpec;
use mainstay_objects::ObjectRef;
use serde_json::Value;

use crate::{Cloud, REQUEST_MARK};

/// Why a request cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// A field is missing or has another type.
    #[error("credentialsrequest {request}: {problem}")]
    Field {
        /// Namespace and name of the request.
        request: String,
        /// The field and what is wrong with it.
        problem: String,
    },
}

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Namespace of the request.
    pub namespace: String,
    /// Name of the request.
    pub name: String,
    /// Namespace of the Secret.
    pub secret_namespace: String,
    /// Name of the Secret.
    pub secret_name: String,
    /// The accounts that use the Secret.
    pub accounts: Vec<String>,
    /// The path of the token.
    pub token_path: Option<String>,
    /// The kind of the provider specification.
    pub kind: String,
    /// The provider specification.
    pub provider: Value,
}

impl Request {
    /// Reads a request.
    ///
    /// # Errors
    /// A required field is missing or has another type.
    pub fn read(object: &Value) -> Result<Self, RequestError> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
        let request = format!("{namespace}/{name}");
        let wrong = |problem: &str| RequestError::Field { request: request.clone(), problem: problem.to_owned() };
        let spec = object.get("spec").cloned().ok_or_else(|| wrong("spec: required"))?;
        let spec: CredentialsRequestSpec = serde_json::from_value(spec).map_err(|error| wrong(&format!("spec: {error}")))?;
        let provider = spec.provider_spec.ok_or_else(|| wrong("spec.providerSpec: required"))?;
        let kind = provider.get("kind").and_then(Value::as_str).filter(|kind| !kind.is_empty());
        let kind = kind.ok_or_else(|| wrong("spec.providerSpec.kind: required"))?.to_owned();
        let required = |value: Option<String>, field: &str| value.filter(|value| !value.is_empty()).ok_or_else(|| wrong(field));
        Ok(Self {
            secret_namespace: required(spec.secret_ref.namespace, "spec.secretRef.namespace: required")?,
            secret_name: required(spec.secret_ref.name, "spec.secretRef.name: required")?,
            accounts: spec.service_account_names,
            token_path: spec.cloud_token_path.filter(|path| !path.is_empty()),
            namespace,
            name,
            kind,
            provider,
        })
    }

    /// The cloud that is asked for.
    pub fn cloud(&self) -> Option<Cloud> {
        Cloud::of_provider_spec(&self.kind)
    }

    /// A text of the provider specification; empty if it is missing or no text.
    pub fn provider_text(&self, field: &str) -> &str {
        self.provider.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    /// Namespace and name of the request.
    pub fn id(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The Secret.
    pub fn secret(&self) -> ObjectRef {
        ObjectRef {
            api_version: "v1".to_owned(),
            kind: "Secret".to_owned(),
            namespace: self.secret_namespace.clone(),
            name: self.secret_name.clone(),
        }
    }

    /// Returns true if a Secret was written for this request.
    pub fn owns(&self, secret: &Value) -> bool {
        let mark = secret.pointer("/metadata/annotations").and_then(|all| all.get(REQUEST_MARK)).and_then(Value::as_str);
        mark == Some(&self.id())
    }
}
