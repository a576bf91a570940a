//! Values of the kubelet's configuration with a form of their own.

use mainstay_golang::typed::Refused;
use mainstay_golang::value::json_type;
use mainstay_golang::{duration_text, parse_duration, quote};
use mainstay_schema::quantity::{self, QuantityError};
use serde_json::{Map, Value, json};

/// Name of the type of `logging.flushFrequency`: nanoseconds, or a duration.
pub(super) const FLUSH_FREQUENCY: &str = "v1.TimeOrMetaDuration";
/// Name of the type of `logging.options.*.infoBufferSize`.
pub(super) const BUFFER_SIZE: &str = "resource.QuantityValue";

pub(super) fn duration(value: &Value) -> Result<Value, Refused> {
    let text = value.as_str().ok_or(Refused::Type("string"))?;
    parse_duration(text).map(|duration| json!(duration_text(duration))).map_err(|error| Refused::Said(error.to_string()))
}

pub(super) fn flush_frequency(value: &Value) -> Result<Value, Refused> {
    if value.is_string() {
        return duration(value);
    }
    let found = json_type(value);
    let wrong = || {
        Refused::Said(format!(
            "invalid duration {}: json: cannot unmarshal {found} into Go value of type time.Duration",
            quote(&value.to_string())
        ))
    };
    value.as_i64().map(Value::from).ok_or_else(wrong)
}

pub(super) fn verbosity(value: &Value) -> Result<Value, Refused> {
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    number.map(Value::from).ok_or(Refused::Type("v1.VerbosityLevel"))
}

pub(super) fn quantity(value: &Value) -> Result<Value, Refused> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return Err(Refused::Said(QuantityError::Format.to_string())),
    };
    quantity::written(&text).map(Value::String).map_err(|error| Refused::Said(error.to_string()))
}

pub(super) fn quantities(value: &Value) -> Result<Value, Refused> {
    let limits = value.as_object().ok_or(Refused::Type("v1.ResourceList"))?;
    limits.iter().map(|(name, limit)| Ok((name.clone(), quantity(limit)?))).collect::<Result<Map<_, _>, _>>().map(Value::Object)
}
