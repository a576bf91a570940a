//! One configuration is merged into another: what says something wins over what is there.

use mainstay_golang::typed::{GoStruct, Kind};
use mainstay_golang::{duration_text, parse_duration};
use serde_json::{Map, Value};

use super::forms::{BUFFER_SIZE, FLUSH_FREQUENCY};

/// Merges `from` into `into`, both as they are written. A zero value says nothing, unless nothing is there: false over true, or 0 over a
/// number, changes nothing, as upstream has it. Maps are united, lists replaced.
pub(super) fn merge(into: &mut Map<String, Value>, from: &Map<String, Value>, of: &GoStruct) {
    for field in of.fields {
        let Some(said) = from.get(field.name) else { continue };
        let known = into.get_mut(field.name);
        match (&field.kind, known, said) {
            (Kind::Struct(inner), Some(Value::Object(known)), Value::Object(said)) => merge(known, said, inner),
            (Kind::TextMap | Kind::BoolMap | Kind::TextsMap, Some(Value::Object(known)), Value::Object(said)) => {
                known.extend(said.iter().map(|(key, value)| (key.clone(), value.clone())));
            }
            // Upstream's merge does not reach into quantities.
            (Kind::Parsed(BUFFER_SIZE, ..), Some(_), _) => {}
            (Kind::Parsed(FLUSH_FREQUENCY, ..), Some(known), said) => *known = flush_frequency(known, said),
            (kind, Some(known), said) if !is_zero(said, kind) => *known = said.clone(),
            (_, Some(_), _) => {}
            (_, None, said) => _ = into.insert(field.name.to_owned(), said.clone()),
        }
    }
}

fn is_zero(value: &Value, kind: &Kind) -> bool {
    value.as_f64() == Some(0.0) || *value == kind.zero()
}

/// The time and the form are merged by themselves: a duration in text makes a text of it.
fn flush_frequency(known: &Value, said: &Value) -> Value {
    let nanoseconds = |value: &Value| match value {
        Value::String(text) => parse_duration(text).map_or(0, |duration| duration.as_nanos() as i64),
        other => other.as_i64().unwrap_or_default(),
    };
    let time = [nanoseconds(said), nanoseconds(known)].into_iter().find(|time| *time != 0).unwrap_or_default();
    match u64::try_from(time) {
        Ok(time) if known.is_string() || said.is_string() => Value::String(duration_text(std::time::Duration::from_nanos(time))),
        _ => Value::from(time),
    }
}
