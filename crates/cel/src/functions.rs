//! The implementations of functions and operators, by name and by the types of their arguments.

use std::sync::Arc;

use jiff::SignedDuration;
use jiff::civil::DateTime;
use mainstay_versions::Version;

use crate::error::EvalError;
use crate::library::net::InvalidAddress;
use crate::library::{format, lists, net, quantity::Quantity, regex_of, strings, time, url::Url};
use crate::value::{Library, List, Value};

type Outcome = Result<Value, EvalError>;

/// Calls a function; a member's target is the first argument.
pub(crate) fn call(name: &str, arguments: &[Value]) -> Outcome {
    if let [Value::Library(target), texts @ ..] = arguments
        && let Library::Authz(authz) = &**target
        && !texts.is_empty()
        && texts.iter().all(|text| matches!(text, Value::Text(_)))
    {
        let texts: Vec<&str> = texts.iter().map(|text| if let Value::Text(text) = text { &**text } else { "" }).collect();
        return authz.call(name, &texts);
    }
    match arguments {
        [] => without_arguments(name),
        [one] => unary(name, one),
        [left, right] => binary(name, left, right),
        _ => many(name, arguments),
    }
}

fn overflow(kind: &str) -> EvalError {
    EvalError::new(format!("{kind} overflow"))
}

fn without_arguments(name: &str) -> Outcome {
    if name == "optional.none" {
        return Ok(Value::Optional(None));
    }
    let format = name.strip_prefix("format.").and_then(|name| format::NAMES.iter().find(|known| **known == name));
    format.map(|name| Value::library(Library::Format(name))).ok_or_else(EvalError::overload)
}

fn unary(name: &str, one: &Value) -> Outcome {
    use Value::{Bool, Bytes, Double, Duration, Int, Map, Optional, Text, Timestamp, Type};
    match (name, one) {
        ("!_", Bool(flag)) => Ok(Bool(!flag)),
        ("-_", Int(number)) => number.checked_neg().map(Int).ok_or_else(|| overflow("integer")),
        ("-_", Double(number)) => Ok(Double(-number)),
        ("-_", _) => Err(EvalError::new("no such overload: -_")),
        ("size", Text(text)) => Ok(Int(text.chars().count() as i64)),
        ("size", Bytes(bytes)) => Ok(Int(bytes.len() as i64)),
        ("size", Value::List(list)) => Ok(Int(list.items.len() as i64)),
        ("size", Map(map)) => Ok(Int(map.len() as i64)),
        ("type", value) => Ok(Type(value.type_name())),
        ("dyn", value) => Ok(value.clone()),
        ("bool" | "int" | "uint" | "double" | "bytes" | "timestamp" | "duration", value) => convert(name, value),
        ("string", value) => to_text(value),
        ("getHours", Duration(span)) => Ok(Int(span.as_hours())),
        ("getMinutes", Duration(span)) => Ok(Int(span.as_mins())),
        ("getSeconds", Duration(span)) => Ok(Int(span.as_secs())),
        ("getMilliseconds", Duration(span)) => Ok(Int(i64::try_from(span.as_millis()).unwrap_or(i64::MAX))),
        (_, Timestamp(at)) => time::part(*at, name, None),
        (_, Text(text)) => unary_text(name, text),
        (_, Value::List(list)) => unary_list(name, list),
        ("optional.of", value) => Ok(Value::some(value.clone())),
        ("optional.ofNonZeroValue", value) => Ok(if value.is_zero() { Optional(None) } else { Value::some(value.clone()) }),
        ("hasValue", Optional(inner)) => Ok(Bool(inner.is_some())),
        ("value", Optional(Some(inner))) => Ok(Value::clone(inner)),
        ("value", Optional(None)) => Err(EvalError::new("optional.none() dereference")),
        ("lists.range", Int(count)) => lists::range(*count),
        (_, Value::Library(inner)) => unary_library(name, inner),
        _ => Err(EvalError::overload()),
    }
}

fn unary_text(name: &str, text: &Arc<str>) -> Outcome {
    let problem = |problem: InvalidAddress| EvalError::new(problem.to_string());
    Ok(match name {
        "lowerAscii" => Value::text(text.to_ascii_lowercase()),
        "upperAscii" => Value::text(text.to_ascii_uppercase()),
        "trim" => Value::text(text.trim()),
        "reverse" => Value::text(text.chars().rev().collect::<String>()),
        "strings.quote" => strings::quote(text),
        "optional.ofNonZeroValue" if text.is_empty() => Value::Optional(None),
        "optional.of" | "optional.ofNonZeroValue" => Value::some(Value::Text(text.clone())),
        "isURL" => Value::Bool(Url::parse(text).is_ok()),
        "url" => match Url::parse(text) {
            Ok(url) => Value::library(Library::Url(url)),
            Err(error) => return Err(EvalError::new(format!("URL parse error during conversion from string: {error}"))),
        },
        "isIP" => Value::Bool(net::parse_ip(text).is_ok()),
        "ip" => Value::library(Library::Ip(net::parse_ip(text).map_err(problem)?)),
        "ip.isCanonical" => Value::Bool(net::parse_ip(text).map_err(problem)?.to_string() == **text),
        "isCIDR" => Value::Bool(net::Cidr::parse(text).is_ok()),
        "cidr" => Value::library(Library::Cidr(net::Cidr::parse(text).map_err(problem)?)),
        "isQuantity" => Value::Bool(Quantity::parse(text).is_some()),
        "quantity" => match Quantity::parse(text) {
            Some(quantity) => Value::library(Library::Quantity(quantity)),
            None => {
                return Err(EvalError::new("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"));
            }
        },
        "isSemver" => Value::Bool(Version::parse(text).is_ok()),
        "semver" => Value::library(Library::Semver(semver_of(text, false)?)),
        "format.named" => match format::NAMES.iter().find(|known| **known == &**text) {
            Some(name) => Value::some(Value::library(Library::Format(name))),
            None => Value::Optional(None),
        },
        _ => return Err(EvalError::overload()),
    })
}

fn semver_of(text: &str, normalize: bool) -> Result<Version, EvalError> {
    let normal = if normalize { normalized(text) } else { text.to_owned() };
    Version::parse(&normal).map_err(EvalError::new)
}

/// Without a leading `v`, with all three numbers, without leading zeros.
fn normalized(text: &str) -> String {
    let bare = text.strip_prefix('v').unwrap_or(text);
    let end = bare.find(['-', '+']).unwrap_or(bare.len());
    let mut numbers: Vec<&str> = bare[..end]
        .split('.')
        .map(|number| match number.trim_start_matches('0') {
            "" if !number.is_empty() => "0",
            trimmed => trimmed,
        })
        .collect();
    while numbers.len() < 3 {
        numbers.push("0");
    }
    format!("{}{}", numbers.join("."), &bare[end..])
}

fn unary_list(name: &str, list: &Arc<List>) -> Outcome {
    let optional = |item: Option<&Value>| Value::Optional(item.cloned().map(Arc::new));
    match name {
        "isSorted" => lists::is_sorted(list),
        "sum" => lists::sum(list),
        "min" | "max" => lists::extreme(list, name),
        "flatten" => lists::flatten(list, 1),
        "distinct" => Ok(lists::distinct(list)),
        "reverse" => Ok(Value::list(list.items.iter().rev().cloned().collect())),
        "sort" => lists::sorted(&list.items, &list.items),
        "first" => Ok(optional(list.items.first())),
        "last" => Ok(optional(list.items.last())),
        "join" => strings::join(list, ""),
        "optional.ofNonZeroValue" if list.items.is_empty() => Ok(Value::Optional(None)),
        "optional.of" | "optional.ofNonZeroValue" => Ok(Value::some(Value::List(list.clone()))),
        _ => Err(EvalError::overload()),
    }
}

fn unary_library(name: &str, value: &Library) -> Outcome {
    Ok(match (value, name) {
        (Library::Url(url), "getScheme") => Value::text(url.scheme.as_str()),
        (Library::Url(url), "getHost") => Value::text(url.host.as_str()),
        (Library::Url(url), "getHostname") => Value::text(url.hostname()),
        (Library::Url(url), "getPort") => Value::text(url.port()),
        (Library::Url(url), "getEscapedPath") => Value::text(url.escaped_path()),
        (Library::Url(url), "getQuery") => url.query_values(),
        (Library::Ip(ip), "family") => Value::Int(if ip.is_ipv4() { 4 } else { 6 }),
        (Library::Ip(ip), "isUnspecified") => Value::Bool(ip.is_unspecified()),
        (Library::Ip(ip), "isLoopback") => Value::Bool(ip.is_loopback()),
        (Library::Ip(ip), "isLinkLocalMulticast") => Value::Bool(net::is_link_local_multicast(*ip)),
        (Library::Ip(ip), "isLinkLocalUnicast") => Value::Bool(net::is_link_local_unicast(*ip)),
        (Library::Ip(ip), "isGlobalUnicast") => Value::Bool(net::is_global_unicast(*ip)),
        (Library::Cidr(cidr), "ip") => Value::library(Library::Ip(cidr.address)),
        (Library::Cidr(cidr), "prefixLength") => Value::Int(i64::from(cidr.prefix)),
        (Library::Cidr(cidr), "masked") => Value::library(Library::Cidr(cidr.masked())),
        (Library::Quantity(quantity), "sign") => Value::Int(quantity.sign()),
        (Library::Quantity(quantity), "asApproximateFloat") => Value::Double(quantity.float()),
        (Library::Quantity(quantity), "isInteger") => Value::Bool(quantity.integer().is_some()),
        (Library::Quantity(quantity), "asInteger") => match quantity.integer() {
            Some(number) => Value::Int(number),
            None => return Err(EvalError::new("cannot convert value to integer")),
        },
        (Library::Semver(version), "major") => whole(version.major())?,
        (Library::Semver(version), "minor") => whole(version.minor())?,
        (Library::Semver(version), "patch") => whole(version.patch())?,
        (_, "optional.of" | "optional.ofNonZeroValue") => Value::some(Value::library(value.clone())),
        (Library::Authz(authz), name) => return authz.call(name, &[]),
        _ => return Err(EvalError::overload()),
    })
}

fn whole(number: u64) -> Outcome {
    i64::try_from(number).map(Value::Int).map_err(|_| overflow("integer"))
}

fn binary(name: &str, left: &Value, right: &Value) -> Outcome {
    use Value::{Bool, Int, Optional, Text, Timestamp};
    match (name, left, right) {
        ("_==_", ..) => Ok(Bool(left.equals(right))),
        ("_!=_", ..) => Ok(Bool(!left.equals(right))),
        ("_<_", ..) => Ok(Bool(left.compare(right)?.is_some_and(std::cmp::Ordering::is_lt))),
        ("_<=_", ..) => Ok(Bool(left.compare(right)?.is_some_and(std::cmp::Ordering::is_le))),
        ("_>_", ..) => Ok(Bool(left.compare(right)?.is_some_and(std::cmp::Ordering::is_gt))),
        ("_>=_", ..) => Ok(Bool(left.compare(right)?.is_some_and(std::cmp::Ordering::is_ge))),
        ("_+_" | "_-_" | "_*_" | "_/_" | "_%_", ..) => arithmetic(name, left, right),
        ("_[_]", ..) => index(left, right),
        ("_[?_]", ..) => optional_index(left, right),
        ("@in", value, Value::List(list)) => Ok(Bool(list.contains(value))),
        ("@in", value, Value::Map(map)) => Ok(Bool(value.key().is_ok_and(|key| map.contains_key(&key)))),
        ("sets.contains", Value::List(left), Value::List(right)) => Ok(Bool(left.contains_all(right))),
        ("sets.equivalent", Value::List(left), Value::List(right)) => Ok(Bool(left.contains_all(right) && right.contains_all(left))),
        ("sets.intersects", Value::List(left), Value::List(right)) => Ok(Bool(right.items.iter().any(|item| left.contains(item)))),
        ("or", Optional(inner), other) => Ok(if inner.is_some() { left.clone() } else { other.clone() }),
        ("orValue", Optional(Some(inner)), _) => Ok(Value::clone(inner)),
        ("orValue", Optional(None), other) => Ok(other.clone()),
        ("indexOf", Value::List(list), value) => Ok(lists::index_of(list, value)),
        ("lastIndexOf", Value::List(list), value) => Ok(lists::last_index_of(list, value)),
        ("join", Value::List(list), Text(separator)) => strings::join(list, separator),
        ("flatten", Value::List(list), Int(depth)) => lists::flatten(list, *depth),
        ("format", Text(pattern), Value::List(arguments)) => strings::format(pattern, arguments),
        ("@semver_compare", Text(left), Text(right)) => Ok(Int(semver_of(left, true)?.cmp_precedence(&semver_of(right, true)?) as i64)),
        (_, Text(text), Text(other)) => binary_text(name, text, other),
        ("charAt", Text(text), Int(at)) => strings::char_at(text, *at),
        ("substring", Text(text), Int(start)) => strings::substring(text, *start, None),
        ("semver", Text(text), Bool(normalize)) => Ok(Value::library(Library::Semver(semver_of(text, *normalize)?))),
        ("isSemver", Text(text), Bool(normalize)) => Ok(Bool(semver_of(text, *normalize).is_ok())),
        (_, Timestamp(at), Text(zone)) => time::part(*at, name, Some(zone)),
        (_, Value::Library(inner), _) => binary_library(name, inner, right),
        _ => Err(EvalError::overload()),
    }
}

fn binary_text(name: &str, text: &str, other: &str) -> Outcome {
    Ok(match name {
        "startsWith" => Value::Bool(text.starts_with(other)),
        "endsWith" => Value::Bool(text.ends_with(other)),
        "contains" => Value::Bool(text.contains(other)),
        "matches" => match regex_of(other) {
            Ok(regex) => Value::Bool(regex.is_match(text)),
            Err(error) => return Err(EvalError::new(error.to_string())),
        },
        "indexOf" => return strings::index_of(text, other, 0),
        "lastIndexOf" => return strings::last_index_of(text, other, None),
        "split" => strings::split(text, other, -1),
        "find" => return strings::find(text, other),
        "findAll" => return strings::find_all(text, other, -1),
        _ => return Err(EvalError::overload()),
    })
}

fn binary_library(name: &str, left: &Library, right: &Value) -> Outcome {
    let other = match right {
        Value::Library(inner) => Some(&**inner),
        _ => None,
    };
    let problem = |problem: InvalidAddress| EvalError::new(problem.to_string());
    Ok(match (left, name, other, right) {
        (Library::Cidr(cidr), "containsIP", Some(Library::Ip(ip)), _) => Value::Bool(cidr.contains(*ip)),
        (Library::Cidr(cidr), "containsIP", _, Value::Text(text)) => {
            Value::Bool(cidr.contains(net::parse_ip(text).map_err(|_| EvalError::overload())?))
        }
        (Library::Cidr(cidr), "containsCIDR", Some(Library::Cidr(other)), _) => Value::Bool(cidr.contains_network(*other)),
        (Library::Cidr(cidr), "containsCIDR", _, Value::Text(text)) => {
            Value::Bool(cidr.contains_network(net::Cidr::parse(text).map_err(problem)?))
        }
        (Library::Quantity(left), _, Some(Library::Quantity(right)), _) => quantities(name, *left, *right)?,
        (Library::Quantity(left), "add" | "sub", _, Value::Int(number)) => quantities(name, *left, Quantity::from_int(*number))?,
        (Library::Semver(left), _, Some(Library::Semver(right)), _) => {
            let order = left.cmp_precedence(right);
            match name {
                "isGreaterThan" => Value::Bool(order.is_gt()),
                "isLessThan" => Value::Bool(order.is_lt()),
                "compareTo" => Value::Int(order as i64),
                _ => return Err(EvalError::overload()),
            }
        }
        (Library::Format(format), "validate", _, Value::Text(text)) => {
            let problems = format::validate(format, text);
            if problems.is_empty() {
                Value::Optional(None)
            } else {
                Value::some(Value::list(problems.into_iter().map(Value::text).collect()))
            }
        }
        _ => return Err(EvalError::overload()),
    })
}

fn quantities(name: &str, left: Quantity, right: Quantity) -> Outcome {
    let order = left.compare(right);
    let quantity =
        |found: Option<Quantity>| found.map(|found| Value::library(Library::Quantity(found))).ok_or_else(|| overflow("quantity"));
    match name {
        "isGreaterThan" => Ok(Value::Bool(order.is_gt())),
        "isLessThan" => Ok(Value::Bool(order.is_lt())),
        "compareTo" => Ok(Value::Int(order as i64)),
        "add" => quantity(left.plus(right)),
        "sub" => quantity(left.minus(right)),
        _ => Err(EvalError::overload()),
    }
}

fn many(name: &str, arguments: &[Value]) -> Outcome {
    use Value::{Int, Text};
    match (name, arguments) {
        ("substring", [Text(text), Int(start), Int(end)]) => strings::substring(text, *start, Some(*end)),
        ("indexOf", [Text(text), Text(part), Int(from)]) => strings::index_of(text, part, *from),
        ("lastIndexOf", [Text(text), Text(part), Int(until)]) => strings::last_index_of(text, part, Some(*until)),
        ("replace", [Text(text), Text(old), Text(new)]) => strings::replace(text, old, new, -1),
        ("replace", [Text(text), Text(old), Text(new), Int(count)]) => strings::replace(text, old, new, *count),
        ("split", [Text(text), Text(separator), Int(count)]) => Ok(strings::split(text, separator, *count)),
        ("findAll", [Text(text), Text(pattern), Int(count)]) => strings::find_all(text, pattern, *count),
        ("slice", [Value::List(list), Int(start), Int(end)]) => lists::slice(list, *start, *end),
        _ => Err(EvalError::overload()),
    }
}

pub(crate) fn arithmetic(name: &str, left: &Value, right: &Value) -> Outcome {
    use Value::{Bytes, Double, Duration, Int, Text, Timestamp, Uint};
    match (left, right) {
        (Int(left), Int(right)) => {
            let result = match name {
                "_+_" => left.checked_add(*right),
                "_-_" => left.checked_sub(*right),
                "_*_" => left.checked_mul(*right),
                "_/_" if *right == 0 => return Err(EvalError::new("division by zero")),
                "_%_" if *right == 0 => return Err(EvalError::new("modulus by zero")),
                "_/_" => left.checked_div(*right),
                _ => left.checked_rem(*right),
            };
            result.map(Int).ok_or_else(|| overflow("integer"))
        }
        (Uint(left), Uint(right)) => {
            let result = match name {
                "_+_" => left.checked_add(*right),
                "_-_" => left.checked_sub(*right),
                "_*_" => left.checked_mul(*right),
                "_/_" if *right == 0 => return Err(EvalError::new("division by zero")),
                "_%_" if *right == 0 => return Err(EvalError::new("modulus by zero")),
                "_/_" => left.checked_div(*right),
                _ => left.checked_rem(*right),
            };
            result.map(Uint).ok_or_else(|| overflow("unsigned integer"))
        }
        (Double(left), Double(right)) => Ok(Double(match name {
            "_+_" => left + right,
            "_-_" => left - right,
            "_*_" => left * right,
            "_/_" => left / right,
            _ => return Err(EvalError::overload()),
        })),
        (Text(left), Text(right)) if name == "_+_" => strings::limited(format!("{left}{right}")),
        (Bytes(left), Bytes(right)) if name == "_+_" => Ok(Bytes(left.iter().chain(right.iter()).copied().collect())),
        (Value::List(left), Value::List(right)) if name == "_+_" => Ok(Value::List(Arc::new(left.plus(right)))),
        (Timestamp(at), Duration(span)) | (Duration(span), Timestamp(at)) if name == "_+_" => moved(*at, Some(*span)),
        (Timestamp(at), Duration(span)) if name == "_-_" => moved(*at, span.checked_neg()),
        (Timestamp(left), Timestamp(right)) if name == "_-_" => Ok(Duration(left.duration_since(*right))),
        (Duration(left), Duration(right)) => {
            let result = match name {
                "_+_" => left.checked_add(*right),
                "_-_" => left.checked_sub(*right),
                _ => return Err(EvalError::overload()),
            };
            result.map(Duration).ok_or_else(|| overflow("duration"))
        }
        _ => Err(EvalError::overload()),
    }
}

fn moved(at: DateTime, span: Option<SignedDuration>) -> Outcome {
    span.and_then(|span| at.checked_add(span).ok()).filter(|at| at.year() > 0).map(Value::Timestamp).ok_or_else(|| overflow("timestamp"))
}

fn index(container: &Value, at: &Value) -> Outcome {
    match container {
        Value::List(list) => match list_index(at)? {
            Some(index) if index < list.items.len() => Ok(list.items[index].clone()),
            _ => Err(EvalError::new(format!("index out of bounds: {}", shown(at)))),
        },
        Value::Map(map) => match map.get(&at.key()?) {
            Some(value) => Ok(value.clone()),
            None => Err(EvalError::new(format!("no such key: {}", shown(at)))),
        },
        Value::Optional(_) => optional_index(container, at),
        _ => Err(EvalError::overload()),
    }
}

fn optional_index(container: &Value, at: &Value) -> Outcome {
    let found = match container {
        Value::List(list) => list_index(at)?.and_then(|index| list.items.get(index)),
        Value::Map(map) => map.get(&at.key()?),
        Value::Optional(None) => None,
        Value::Optional(Some(inner)) => return optional_index(inner, at),
        _ => return Err(EvalError::overload()),
    };
    Ok(Value::Optional(found.cloned().map(Arc::new)))
}

fn list_index(at: &Value) -> Result<Option<usize>, EvalError> {
    match at.key()? {
        crate::value::Key::Int(number) => Ok(usize::try_from(number).ok()),
        _ => Err(EvalError::new(format!("unsupported index type '{}' in list", at.type_name()))),
    }
}

pub(crate) fn shown(key: &Value) -> String {
    match to_text(key) {
        Ok(Value::Text(text)) => text.to_string(),
        _ => key.type_name().to_owned(),
    }
}

fn convert(name: &str, value: &Value) -> Outcome {
    use Value::{Bool, Bytes, Double, Duration, Int, Text, Timestamp, Uint};
    let target = match name {
        "timestamp" => "google.protobuf.Timestamp",
        "duration" => "google.protobuf.Duration",
        name => name,
    };
    let failed = || EvalError::new(format!("type conversion error from '{}' to '{target}'", value.type_name()));
    match (name, value) {
        ("bool", Bool(_))
        | ("int", Int(_))
        | ("uint", Uint(_))
        | ("double", Double(_))
        | ("bytes", Bytes(_))
        | ("timestamp", Timestamp(_))
        | ("duration", Duration(_)) => Ok(value.clone()),
        ("bool", Text(text)) => match &**text {
            "true" | "TRUE" | "True" | "t" | "1" => Ok(Bool(true)),
            "false" | "FALSE" | "False" | "f" | "0" => Ok(Bool(false)),
            _ => Err(failed()),
        },
        ("int", Uint(number)) => i64::try_from(*number).map(Int).map_err(|_| overflow("integer")),
        ("int", Double(number)) if number.abs() < 9.2e18 => Ok(Int(*number as i64)),
        ("uint", Double(number)) if *number > -1.0 && *number < 1.8e19 => Ok(Uint(*number as u64)),
        ("int" | "uint", Double(_)) => Err(overflow("integer")),
        ("int", Text(text)) => text.parse().map(Int).map_err(|_| failed()),
        ("int", Timestamp(at)) => Ok(Int(time::seconds(*at))),
        ("uint", Int(number)) => u64::try_from(*number).map(Uint).map_err(|_| overflow("unsigned integer")),
        ("uint", Text(text)) => text.parse().map(Uint).map_err(|_| failed()),
        ("double", Int(number)) => Ok(Double(*number as f64)),
        ("double", Uint(number)) => Ok(Double(*number as f64)),
        ("double", Text(text)) => text.parse().map(Double).map_err(|_| failed()),
        ("bytes", Text(text)) => Ok(Bytes(text.as_bytes().into())),
        ("timestamp", Text(text)) => time::parse_timestamp(text).map(Timestamp).ok_or_else(failed),
        ("timestamp", Int(seconds)) => time::from_seconds(*seconds).map(Timestamp).ok_or_else(|| overflow("timestamp")),
        ("duration", Text(text)) => time::parse_duration(text).map(Duration).ok_or_else(failed),
        ("duration", Int(nanoseconds)) => Ok(Duration(SignedDuration::from_nanos(*nanoseconds))),
        _ => Err(EvalError::overload()),
    }
}

/// `string(value)`
pub(crate) fn to_text(value: &Value) -> Outcome {
    Ok(Value::text(match value {
        Value::Text(text) => return Ok(Value::Text(text.clone())),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Double(number) => double_text(*number),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => return Err(EvalError::new("invalid UTF-8 in bytes, cannot convert to string")),
        },
        Value::Timestamp(at) => format!("{at}Z"),
        Value::Duration(span) => time::duration_text(*span),
        Value::Library(inner) => match &**inner {
            Library::Ip(ip) => ip.to_string(),
            Library::Cidr(cidr) => cidr.text(),
            _ => return Err(EvalError::overload()),
        },
        _ => return Err(EvalError::overload()),
    }))
}

fn double_text(number: f64) -> String {
    if number.is_nan() {
        return "NaN".into();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf".into() } else { "-Inf".into() };
    }
    let scientific = format!("{number:e}");
    match scientific.split_once('e').map(|(mantissa, exponent)| (mantissa, exponent.parse::<i32>().unwrap_or(0))) {
        Some((mantissa, exponent)) if !(-4..6).contains(&exponent) => {
            format!("{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
        }
        _ => format!("{number}"),
    }
}
