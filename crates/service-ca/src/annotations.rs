//! The annotations of Services, their Secrets and the objects that receive the bundle. Each exists in two spellings: both are written, and
//! the newer one wins when they are read.

use serde_json::{Map, Value};

/// On a Service: the name of the Secret that it requests for its certificate.
pub(crate) const SECRET_NAME: &str = "serving-cert-secret-name";
/// On a Service: the CA that signed its certificate.
pub(crate) const SIGNED_BY: &str = "serving-cert-signed-by";
/// On a Service: the reason why it has no certificate.
pub(crate) const ERROR: &str = "serving-cert-generation-error";
/// On a Service: the number of failed attempts.
pub(crate) const ERROR_NUMBER: &str = "serving-cert-generation-error-num";
/// On a Secret: the uid of the Service that it belongs to.
pub(crate) const SERVICE_UID: &str = "originating-service-uid";
/// On a Secret: the name of the Service that it belongs to.
pub(crate) const SERVICE_NAME: &str = "originating-service-name";
/// On a Secret: the end of its certificate's validity.
pub(crate) const EXPIRY: &str = "expiry";
/// On an object that requests the bundle.
pub(crate) const INJECT: &str = "inject-cabundle";
/// On the Secret of the CA: the reason of the last forced rotation.
pub(crate) const FORCED: &str = "service-ca.operators.openshift.io/forced-rotation-reason";

/// Returns the name of an annotation in both spellings, the newer one first.
pub(crate) fn spellings(name: &str) -> [String; 2] {
    ["beta", "alpha"].map(|stage| format!("service.{stage}.openshift.io/{name}"))
}

/// Returns the value of an annotation, the newer spelling first.
pub(crate) fn read<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    let annotations = object.pointer("/metadata/annotations")?;
    spellings(name).iter().find_map(|name| annotations.get(name)).and_then(Value::as_str)
}

/// Returns annotations in both spellings, for a merge patch: `None` removes the annotation.
pub(crate) fn patch<'a>(values: impl IntoIterator<Item = (&'a str, Option<String>)>) -> Map<String, Value> {
    values
        .into_iter()
        .flat_map(|(name, value)| spellings(name).map(|name| (name, value.clone().map_or(Value::Null, Value::String))))
        .collect()
}
