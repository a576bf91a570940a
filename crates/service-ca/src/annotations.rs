//! The annotations that Services, their Secrets and takers of the bundle carry. Each exists in two spellings; the newer one wins where
//! both are read, and both are written.

use serde_json::{Map, Value};

/// A Service wants its certificate in the Secret of this name.
pub(crate) const SECRET_NAME: &str = "serving-cert-secret-name";
/// Which CA signed the certificate of a Service.
pub(crate) const SIGNED_BY: &str = "serving-cert-signed-by";
/// Why a Service has no certificate.
pub(crate) const ERROR: &str = "serving-cert-generation-error";
/// How often it was tried in vain.
pub(crate) const ERROR_NUMBER: &str = "serving-cert-generation-error-num";
/// The uid of the Service that a Secret belongs to.
pub(crate) const SERVICE_UID: &str = "originating-service-uid";
/// Its name.
pub(crate) const SERVICE_NAME: &str = "originating-service-name";
/// When the certificate of a Secret ends.
pub(crate) const EXPIRY: &str = "expiry";
/// An object wants the bundle.
pub(crate) const INJECT: &str = "inject-cabundle";
/// The reason of the last forced rotation, on the Secret of the CA.
pub(crate) const FORCED: &str = "service-ca.operators.openshift.io/forced-rotation-reason";

/// The name of an annotation in both spellings, the newer one first.
pub(crate) fn spellings(name: &str) -> [String; 2] {
    ["beta", "alpha"].map(|stage| format!("service.{stage}.openshift.io/{name}"))
}

/// The value of an annotation in whichever spelling it is there.
pub(crate) fn read<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    let annotations = object.pointer("/metadata/annotations")?;
    spellings(name).iter().find_map(|name| annotations.get(name)).and_then(Value::as_str)
}

/// Both spellings of annotations as a merge patch has them: `None` removes.
pub(crate) fn patch<'a>(values: impl IntoIterator<Item = (&'a str, Option<String>)>) -> Map<String, Value> {
    values
        .into_iter()
        .flat_map(|(name, value)| spellings(name).map(|name| (name, value.clone().map_or(Value::Null, Value::String))))
        .collect()
}
