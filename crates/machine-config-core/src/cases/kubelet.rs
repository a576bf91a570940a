//! Recorded form `kubelet-conf`.

use serde_json::{Value, json};

use super::{CaseError, answered, field};
use crate::kubelet::{File, KubeletSpec, files, validate};

/// Answers whether a KubeletConfig is accepted, and which files it makes.
pub fn kubelet_conf(line: &Value) -> Result<Value, CaseError> {
    let input: Value = field(line, "in")?;
    let spec = KubeletSpec {
        config: field(&input, "kubeletConfig")?,
        log_level: field(&input, "logLevel")?,
        auto_sizing: field(&input, "autoSizingReserved")?,
    };
    let file = |file: &File| json!({"path": file.path, "text": file.text});
    let verdict = validate(&spec).err().map(|error| error.to_string());
    let out = match files(&spec, input.get("original").unwrap_or(&Value::Null)) {
        Ok(files) => json!({
            "kubelet": file(&files.config),
            "logLevel": files.log_level.as_ref().map(file),
            "sizing": files.sizing.as_ref().map(file),
            "validate": verdict,
        }),
        Err(error) => json!({"error": error.to_string(), "validate": verdict}),
    };
    answered(line, out)
}
