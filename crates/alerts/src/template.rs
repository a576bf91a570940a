//! The texts of alerts: Go templates over `$labels` and `$value`.
//!
//! Only what rules use for their own alert is expanded. A query inside of a text has no result here, as where its metric does not exist.

use std::collections::BTreeMap;

/// The longest text that is expanded, in bytes.
const MAX_BYTES: usize = 16 << 10;

/// The text with its labels and its value.
pub(crate) fn expand(text: &str, labels: &BTreeMap<String, String>, value: f64) -> String {
    let mut out = String::new();
    // For each open block: is its current part shown, and was a part of it shown?
    let mut blocks: Vec<Block> = Vec::new();
    for part in parts(text.get(..MAX_BYTES).unwrap_or(text)) {
        let is_shown = blocks.iter().all(|block| block.is_shown);
        match part {
            Part::Text(text) if is_shown => out.push_str(text),
            Part::Text(_) => {}
            Part::Action(action) => match action.split_whitespace().next().unwrap_or_default() {
                "if" => {
                    let holds = condition(&action["if".len()..], labels, value);
                    blocks.push(Block { is_shown: holds, was_shown: holds });
                }
                "with" | "range" => blocks.push(Block { is_shown: false, was_shown: false }),
                "else" => {
                    if let Some(block) = blocks.last_mut() {
                        let holds = match action.trim_start_matches("else").trim().strip_prefix("if") {
                            Some(test) => condition(test, labels, value),
                            None => true,
                        };
                        block.is_shown = holds && !block.was_shown;
                        block.was_shown |= block.is_shown;
                    }
                }
                "end" => drop(blocks.pop()),
                _ if is_shown => out.push_str(&pipeline(action, labels, value)),
                _ => {}
            },
        }
    }
    out
}

struct Block {
    is_shown: bool,
    was_shown: bool,
}

enum Part<'a> {
    Text(&'a str),
    Action(&'a str),
}

/// Texts and the actions between them.
fn parts(mut rest: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut trims = false;
    while let Some((before, after)) = rest.split_once("{{") {
        let before = if trims { before.trim_start() } else { before };
        let (action, behind) = after.split_once("}}").unwrap_or((after, ""));
        let inner = action.strip_prefix("- ");
        parts.push(Part::Text(if inner.is_some() { before.trim_end() } else { before }));
        let inner = inner.unwrap_or(action).trim();
        trims = inner.ends_with(" -");
        parts.push(Part::Action(inner.strip_suffix(" -").unwrap_or(inner).trim()));
        rest = behind;
    }
    parts.push(Part::Text(if trims { rest.trim_start() } else { rest }));
    parts
}

/// `eq A B`, `ne A B` or a value that is not empty.
fn condition(test: &str, labels: &BTreeMap<String, String>, value: f64) -> bool {
    let words: Vec<&str> = test.split_whitespace().collect();
    let of = |word: &str| operand(word, labels, value).unwrap_or_default();
    match words.as_slice() {
        ["eq", left, rights @ ..] => rights.iter().any(|right| of(left) == of(right)),
        ["ne", left, right] => of(left) != of(right),
        [one] => !of(one).is_empty(),
        _ => false,
    }
}

fn operand(word: &str, labels: &BTreeMap<String, String>, value: f64) -> Option<String> {
    if let Some(label) = word.strip_prefix("$labels.").or_else(|| word.strip_prefix(".Labels.")) {
        return Some(labels.get(label).cloned().unwrap_or_default());
    }
    match word {
        "$value" | ".Value" => Some(plain(value)),
        _ => word.strip_prefix('"').and_then(|word| word.strip_suffix('"')).map(str::to_owned),
    }
}

/// A value and the functions behind it.
fn pipeline(action: &str, labels: &BTreeMap<String, String>, value: f64) -> String {
    let mut steps = action.split('|').map(str::trim);
    let first = steps.next().unwrap_or_default();
    // `humanize $value` and `printf "%.2f" $value` are the same with the function in front.
    let (function, word) = match first.rsplit_once(' ') {
        Some((function, word)) => (Some(function.trim()), word),
        None => (None, first),
    };
    let mut text = operand(word, labels, value).unwrap_or_default();
    for function in function.into_iter().chain(steps) {
        text = applied(function, &text);
    }
    text
}

fn applied(function: &str, text: &str) -> String {
    let number = text.parse::<f64>();
    match (function, number) {
        ("humanize", Ok(value)) => scaled(value, 1000.0, &["", "k", "M", "G", "T", "P", "E", "Z", "Y"]),
        ("humanize1024", Ok(value)) => scaled(value, 1024.0, &["", "ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi"]),
        ("humanizePercentage", Ok(value)) => format!("{}%", significant(value * 100.0)),
        ("humanizeDuration", Ok(value)) => duration(value),
        ("toUpper", _) => text.to_uppercase(),
        ("toLower", _) => text.to_lowercase(),
        (other, Ok(value)) if other.starts_with("printf") => printed(other, value),
        _ => text.to_owned(),
    }
}

/// `printf "%.2f"` and `printf "%.0f"`.
fn printed(function: &str, value: f64) -> String {
    let digits = function.split_once("%.").and_then(|(_, rest)| rest.split_once('f')).and_then(|(digits, _)| digits.parse::<usize>().ok());
    digits.filter(|digits| *digits < 20).map_or_else(|| plain(value), |digits| format!("{value:.digits$}"))
}

fn plain(value: f64) -> String {
    if value.is_infinite() { (if value > 0.0 { "+Inf" } else { "-Inf" }).to_owned() } else { value.to_string() }
}

/// Four significant digits, as Go's `%.4g`.
fn significant(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return plain(value);
    }
    #[allow(clippy::cast_possible_truncation, reason = "the exponent of a float fits")]
    let exponent = value.abs().log10().floor() as i32;
    let digits = usize::try_from((3 - exponent).clamp(0, 20)).unwrap_or_default();
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let (mut value, mut unit) = (value, 0);
    while value.abs() >= step && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    format!("{}{}", significant(value), units[unit])
}

/// Seconds as days, hours, minutes and seconds.
fn duration(value: f64) -> String {
    if !value.is_finite() {
        return plain(value);
    }
    if value.abs() < 1.0 {
        let (mut value, mut unit) = (value, 0);
        let units = ["s", "ms", "us", "ns", "ps"];
        while value != 0.0 && value.abs() < 1.0 && unit + 1 < units.len() {
            value *= 1000.0;
            unit += 1;
        }
        return format!("{}{}", significant(value), units[if value == 0.0 { 0 } else { unit }]);
    }
    let sign = if value < 0.0 { "-" } else { "" };
    #[allow(clippy::cast_possible_truncation, reason = "whole seconds; beyond the range they are its end")]
    let whole = value.abs() as i64;
    let (days, hours, minutes, seconds) = (whole / 86_400, whole / 3600 % 24, whole / 60 % 60, whole % 60);
    if days > 0 {
        format!("{sign}{days}d {hours}h {minutes}m {seconds}s")
    } else if hours > 0 {
        format!("{sign}{hours}h {minutes}m {seconds}s")
    } else if minutes > 0 {
        format!("{sign}{minutes}m {seconds}s")
    } else {
        format!("{}s", significant(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// COP-11: the texts of the platform's rules.
    #[test]
    fn texts() {
        let labels = BTreeMap::from([("name".to_owned(), "etcd".to_owned()), ("reason".to_owned(), "Lost".to_owned())]);
        for (text, value, expected) in [
            ("Operator {{ $labels.name }} because {{$labels.reason}}.", 1.0, "Operator etcd because Lost."),
            ("for {{ $value | humanizeDuration }}", 3725.0, "for 1h 2m 5s"),
            ("for {{ humanizeDuration $value }}", 90.0, "for 1m 30s"),
            ("{{ $value | humanizeDuration }}", 12.25, "12.25s"),
            ("{{ $value | humanizeDuration }}", 0.0021, "2.1ms"),
            ("{{ $value | humanizeDuration }}", 90061.0, "1d 1h 1m 1s"),
            ("{{ $value | humanizePercentage }}", 0.12345, "12.35%"),
            ("{{ $value | humanize }}", 1_234_567.0, "1.235M"),
            ("{{ $value | humanize1024 }}", 2048.0, "2ki"),
            ("{{ printf \"%.2f\" $value }} or {{ $value | printf \"%.0f\" }}", 2.5, "2.50 or 2"),
            (
                "'{{ if eq $labels.name \"version\" }}oc adm upgrade{{ else }}oc get co {{ $labels.name }}{{ end }}'",
                1.0,
                "'oc get co etcd'",
            ),
            ("a{{ with $url := \"console_url\" | query }}{{ if ne (len $url) 0 }} see {{ end }}{{ end }}.", 1.0, "a."),
            ("{{ if eq $labels.name \"etcd\" \"x\" }}yes{{ else if $labels.reason }}no{{ end }}", 1.0, "yes"),
            ("{{ if eq $labels.name \"x\" }}yes{{ else if $labels.reason }}no{{ else }}never{{ end }}", 1.0, "no"),
            ("a {{- $labels.none -}} b", 1.0, "ab"),
            ("{{ $labels.name", 1.0, "etcd"),
            ("{{ nothing .Known }}x", 1.0, "x"),
        ] {
            assert_eq!(expand(text, &labels, value), expected, "{text}");
        }
    }
}
