//! Types, texts and numbers.

use serde_json::{Number, Value};

use super::{Checker, Outcome, Place, wanted_type};
use crate::field::{self, BadValue, Error, Path};
use crate::format;
use crate::model::{Schema, Type};
use crate::pattern::Pattern;

/// The type that was wanted and the one that was found, if they differ.
pub(super) fn wrong_type(schema: &Schema, value: &Value) -> Option<(String, String)> {
    let format = schema.format.as_deref().filter(|format| is_checked(format));
    let is = |kind: Type| schema.kind == Some(kind) || (schema.int_or_string && matches!(kind, Type::Integer | Type::String));
    let (found, found_format) = match value {
        Value::Null => {
            let wanted = wanted_type(schema)?;
            return (!schema.nullable).then(|| (wanted.to_owned(), "null".to_owned()));
        }
        Value::Bool(_) => (Type::Boolean, ""),
        // Beyond 64 bits with a sign Go reads a number as a float.
        Value::Number(number) if number.as_i64().is_none() => (Type::Number, "float64"),
        Value::Number(_) => (Type::Integer, "int64"),
        Value::String(_) => (Type::String, ""),
        Value::Array(_) => (Type::Array, ""),
        Value::Object(_) => (Type::Object, ""),
    };
    let fits = is(found)
        || (found == Type::Number && is(Type::Integer) && value.as_f64().is_some_and(is_whole))
        || (found == Type::Integer && is(Type::Number));
    let listlike = matches!(found, Type::String | Type::Array);
    if let Some(format) = format {
        if !listlike && !fits && found_format != format {
            return Some((format.to_owned(), found_format.to_owned()));
        }
        // Upstream leaves texts (and, by accident, lists) with a format to the format check.
        if listlike && !is(Type::Number) && !is(Type::Integer) {
            return None;
        }
    }
    let wanted = wanted_type(schema)?;
    (!fits).then(|| (wanted.to_owned(), found.as_str().to_owned()))
}

/// Returns true if an enum's value and a given one are the same; 1 and 1.0 are.
pub(super) fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || (one.is_f64() || other.is_f64()) && one.as_f64() == other.as_f64(),
        _ => one == other,
    }
}

/// Formats that are not known are as good as absent.
fn is_checked(format: &str) -> bool {
    matches!(format, "int32" | "int64" | "uint32" | "uint64" | "float" | "double") || format::is_known(format)
}

fn is_whole(number: f64) -> bool {
    // 2^53 - 1, the largest whole number that every JSON implementation keeps.
    number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_991.0
}

impl Checker<'_> {
    pub(super) fn check_text(&self, schema: &Schema, text: &str, place: &Place<'_>, outcome: &mut Outcome) {
        self.check_lengths(schema, text, place, outcome);
        if let Some(format) = schema.format.as_deref()
            && format::check(format, text) == Some(false)
        {
            let name = place.name();
            let detail = format!("{name} in body must be of type {format}: {}", mainstay_golang::quote(text));
            outcome.add(Error::type_invalid(&self.field(&name), text, detail));
        }
    }

    /// The first of these limits that is broken.
    fn check_lengths(&self, schema: &Schema, text: &str, place: &Place<'_>, outcome: &mut Outcome) {
        if schema.max_length.is_some() || schema.min_length.is_some() {
            let length = text.chars().count() as u64;
            if let Some(most) = schema.max_length.filter(|most| length > *most) {
                outcome.add(Error::too_long(&self.field(&place.name()), text, most));
                return;
            }
            if let Some(least) = schema.min_length.filter(|least| length < *least) {
                outcome.add(self.invalid(place, text, &format!("should be at least {least} chars long")));
                return;
            }
        }
        if let Some(expression) = &schema.pattern {
            match Pattern::compile(expression) {
                Ok(pattern) if pattern.matches(text) => {}
                Ok(_) => outcome.add(self.invalid(place, text, &format!("should match '{expression}'"))),
                Err(problem) => {
                    outcome.add(self.invalid(place, text, &format!("should match '{expression}, but pattern is invalid: {problem}'")));
                }
            }
        }
    }

    pub(super) fn check_number(&self, schema: &Schema, number: &Number, place: &Place<'_>, outcome: &mut Outcome) {
        self.check_range(schema, number, "Checked", place, outcome);
        let limits = [("MultipleOf", schema.multiple_of), ("Minimum boundary", schema.minimum), ("Maximum boundary", schema.maximum)];
        for (what, limit) in limits {
            let Some(limit) = limit else {
                continue;
            };
            // A limit that fits the type is taken as a whole number where the value is one.
            let fits = Number::from_f64(limit).is_none_or(|limit| self.check_range(schema, &limit, what, place, outcome));
            let limit = if fits && number.as_i64().is_some() { limit.trunc() } else { limit };
            if what == "MultipleOf" && limit <= 0.0 {
                let factor = shown_limit(number, limit);
                let detail = format!("factor MultipleOf declared for {} must be positive: {factor}", place.name());
                outcome.add(Error::invalid(&self.field(&place.name()), BadValue::Json(factor), detail));
                continue;
            }
            let complaint = match what {
                "MultipleOf" => (!is_multiple(number, limit)).then_some("a multiple of"),
                "Minimum boundary" => match (compare(number, limit), schema.exclusive_minimum) {
                    (std::cmp::Ordering::Less, false) => Some("greater than or equal to"),
                    (std::cmp::Ordering::Less | std::cmp::Ordering::Equal, true) => Some("greater than"),
                    _ => None,
                },
                _ => match (compare(number, limit), schema.exclusive_maximum) {
                    (std::cmp::Ordering::Greater, false) => Some("less than or equal to"),
                    (std::cmp::Ordering::Greater | std::cmp::Ordering::Equal, true) => Some("less than"),
                    _ => None,
                },
            };
            if let Some(words) = complaint {
                let limit = shown_limit(number, limit);
                outcome.add(self.invalid(place, Value::Number(number.clone()), &format!("should be {words} {limit}")));
            }
        }
    }

    /// Checks that a number fits the integer type, and returns whether it does. Upstream reports it without a field.
    fn check_range(&self, schema: &Schema, number: &Number, what: &str, place: &Place<'_>, outcome: &mut Outcome) -> bool {
        let whole = || {
            number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from)).or_else(|| {
                let float = number.as_f64()?;
                (float.fract() == 0.0 && float.abs() < 1e21).then_some(float as i128)
            })
        };
        let format = schema.format.as_deref().filter(|format| is_checked(format));
        let fits = match schema.kind {
            Some(Type::Integer) => whole().is_some_and(|whole| match format {
                Some("int32") => i32::try_from(whole).is_ok(),
                Some("uint32") => u32::try_from(whole).is_ok(),
                Some("uint64") => u64::try_from(whole).is_ok(),
                _ => i64::try_from(whole).is_ok(),
            }),
            Some(Type::Number) if format == Some("float") => number.as_f64().is_some_and(|number| number.abs() <= f64::from(f32::MAX)),
            _ => true,
        };
        if !fits {
            let kind = schema.kind.map_or("", Type::as_str);
            let format = format.map_or_else(|| "(default format)".to_owned(), |format| format!("with format {format}"));
            let detail = format!("{what} value must be of type {kind} {format} in {}", place.name());
            outcome.add(Error::invalid(&self.whole(), "", detail));
        }
        fits
    }

    /// The field of findings that upstream makes without one.
    pub(super) fn whole(&self) -> Path {
        self.base.clone()
    }
}

fn compare(number: &Number, limit: f64) -> std::cmp::Ordering {
    // Whole numbers are compared as such: a float cannot hold all of them.
    if let Some(whole) = number.as_i64().filter(|_| limit.fract() == 0.0) {
        return whole.cmp(&(limit as i64));
    }
    number.as_f64().unwrap_or(f64::NAN).partial_cmp(&limit).unwrap_or(std::cmp::Ordering::Equal)
}

fn is_multiple(number: &Number, factor: f64) -> bool {
    if let (Some(whole), true) = (number.as_i64(), factor.fract() == 0.0 && factor != 0.0) {
        return whole % (factor as i64) == 0;
    }
    let number = number.as_f64().unwrap_or(f64::NAN);
    let quotient = if factor < 1.0 { 1.0 / factor * number } else { number / factor };
    let nearest = quotient.round();
    // The same tolerance as upstream: a billionth of the quotient.
    (quotient - nearest).abs() <= 1e-9 * quotient.abs().max(1.0)
}

fn shown_limit(number: &Number, limit: f64) -> String {
    if number.is_f64() || limit.fract() != 0.0 {
        Number::from_f64(limit).map_or_else(|| limit.to_string(), |limit| field::go_number(&limit, 21))
    } else {
        (limit as i64).to_string()
    }
}
