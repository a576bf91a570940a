//! The user data of instances: a Secret beside the machine.

use mainstay_apply::Writer;
use mainstay_objects::{ObjectRef, meta};
use serde_json::Value;

use crate::provider::ProviderError;

/// Reads the user data of a machine, in base64.
///
/// # Errors
/// The Secret cannot be read or is not there, which may change; or it has no user data.
pub(crate) async fn read(writer: &Writer, machine: &Value, secret: &str) -> Result<String, ProviderError> {
    let place = ObjectRef {
        api_version: "v1".to_owned(),
        kind: "Secret".to_owned(),
        namespace: meta(machine, "namespace").unwrap_or_default(),
        name: secret.to_owned(),
    };
    let found = writer.get(&place).await;
    let found = found.map_err(|error| ProviderError::Retryable(format!("secret {secret}: {}", mainstay_diagnostics::chain(&error))))?;
    let found = found.ok_or_else(|| ProviderError::Retryable(format!("secret {secret} with the user data is not found")))?;
    let data = found.pointer("/data/userData").and_then(Value::as_str).map(str::to_owned);
    data.ok_or_else(|| ProviderError::InvalidConfiguration(format!("secret {secret} has no key userData")))
}
