//! Recorded form `container-runtime`.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{CaseError, answered, field, optional};
use crate::container_runtime::{RuntimeSpec, Size, drop_ins, storage_conf, validate};

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RecordedConfig {
    pids_limit: Option<i64>,
    log_level: String,
    log_size_max: Option<RecordedSize>,
    overlay_size: Option<RecordedSize>,
    default_runtime: String,
}

#[derive(Deserialize)]
#[serde(try_from = "Value")]
struct RecordedSize(Size);

impl TryFrom<Value> for RecordedSize {
    type Error = mainstay_schema::quantity::QuantityError;

    fn try_from(value: Value) -> Result<Self, Self::Error> {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Size::parse(&text).map(Self)
    }
}

/// Answers whether a ContainerRuntimeConfig is accepted, and which files it makes.
pub fn container_runtime(line: &Value) -> Result<Value, CaseError> {
    let input: Value = field(line, "in")?;
    let config: RecordedConfig = optional(&input, "containerRuntimeConfig")?;
    let spec = RuntimeSpec {
        pids_limit: config.pids_limit,
        log_level: config.log_level,
        log_size_max: config.log_size_max.map(|size| size.0),
        overlay_size: config.overlay_size.map(|size| size.0),
        default_runtime: config.default_runtime,
    };
    let drop_ins: Map<String, Value> = drop_ins(&spec).into_iter().map(|(path, text)| (path.to_owned(), json!(text))).collect();
    let mut out = json!({"validate": validate(&spec).err().map(|error| error.to_string()), "dropins": drop_ins});
    match storage_conf(&optional::<String>(&input, "baseStorage")?, &spec) {
        Ok(text) => out["storageConf"] = json!(text),
        Err(error) => out["storageError"] = json!(error.to_string()),
    }
    answered(line, out)
}
