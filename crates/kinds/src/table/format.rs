//! The form of times, amounts, selectors and lists in cells.

use jiff::Timestamp;
use serde_json::{Map, Value};

pub(super) const NONE: &str = "<none>";
pub(super) const UNKNOWN: &str = "<unknown>";
pub(super) const UNSET: &str = "<unset>";

/// A time span of some seconds as ages are shown: `45s`, `5m30s`, `3h5m`, `2d4h`, `400d`, `3y20d`.
pub fn human_duration(seconds: i64) -> String {
    if seconds < -1 {
        return "<invalid>".into();
    }
    if seconds < 0 {
        return "0s".into();
    }
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let two = |large: i64, first: &str, small: i64, second: &str| {
        if small == 0 { format!("{large}{first}") } else { format!("{large}{first}{small}{second}") }
    };
    if seconds < 120 {
        format!("{seconds}s")
    } else if minutes < 10 {
        two(minutes, "m", seconds % 60, "s")
    } else if minutes < 180 {
        format!("{minutes}m")
    } else if hours < 8 {
        two(hours, "h", minutes % 60, "m")
    } else if hours < 48 {
        format!("{hours}h")
    } else if hours < 192 {
        two(hours / 24, "d", hours % 24, "h")
    } else if hours < 24 * 365 * 2 {
        format!("{}d", hours / 24)
    } else if hours < 24 * 365 * 8 {
        let days = hours / 24;
        two(days / 365, "y", days % 365, "d")
    } else {
        format!("{}y", hours / 24 / 365)
    }
}

/// Seconds since a time, if it can be read.
pub(super) fn seconds_since(time: Option<&Value>, now: Timestamp) -> Option<i64> {
    let time: Timestamp = time?.as_str()?.parse().ok()?;
    Some(now.as_second() - time.as_second())
}

/// The duration since a time.
pub(super) fn since(time: Option<&Value>, now: Timestamp) -> String {
    seconds_since(time, now).map_or_else(|| UNKNOWN.to_owned(), human_duration)
}

/// `a=b,c=d`, or `<none>`.
pub(super) fn labels(labels: Option<&Map<String, Value>>) -> String {
    let parts: Vec<String> =
        labels.into_iter().flatten().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    or_none(parts.join(","))
}

/// A label selector in its short form.
pub(super) fn selector(selector: Option<&Value>) -> String {
    let Some(selector) = selector else { return NONE.into() };
    let mut parts: Vec<(String, String)> = Vec::new();
    for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
        parts.push((key.clone(), format!("{key}={}", value.as_str().unwrap_or_default())));
    }
    for expression in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
        let text = |field: &str| expression.get(field).and_then(Value::as_str).unwrap_or_default();
        let key = text("key");
        let mut values: Vec<&str> =
            expression.get("values").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let shown = match text("operator") {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return "<error>".into(),
        };
        parts.push((key.to_owned(), shown));
    }
    parts.sort_by(|one, two| one.0.cmp(&two.0));
    or_none(parts.into_iter().map(|(_, shown)| shown).collect::<Vec<_>>().join(","))
}

pub(super) fn or_none(text: String) -> String {
    if text.is_empty() { NONE.into() } else { text }
}

/// At most three of many.
pub(super) fn first_three(all: &[String]) -> String {
    if all.len() <= 3 {
        return or_none(all.join(","));
    }
    format!("{} + {} more...", all[..3].join(","), all.len() - 3)
}

/// Access modes by their short names.
pub(super) fn access_modes(modes: Option<&Value>) -> String {
    let given: Vec<&str> = modes.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")]
        .iter()
        .filter(|(mode, _)| given.contains(mode))
        .map(|(_, short)| *short)
        .collect::<Vec<_>>()
        .join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// KAPI-REST-06: ages are written as kubectl's users know them.
    #[test]
    fn ages() {
        for (seconds, shown) in [
            (-5, "<invalid>"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (150, "2m30s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (18_300, "5h5m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (187_200, "2d4h"),
            (691_200, "8d"),
            (63_072_000, "2y"),
            (64_800_000, "2y20d"),
            (252_288_000, "8y"),
        ] {
            assert_eq!(human_duration(seconds), shown, "{seconds}");
        }
    }

    #[test]
    fn selectors() {
        let given = json!({"matchLabels": {"z": "1"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["y", "x"]}, {"key": "b", "operator": "DoesNotExist"}]});
        assert_eq!(selector(Some(&given)), "a in (x,y),!b,z=1");
        assert_eq!(selector(None), NONE);
        assert_eq!(first_three(&["a".into(), "b".into(), "c".into(), "d".into()]), "a,b,c + 1 more...");
    }
}
