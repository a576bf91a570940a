//! Reading a body as a built-in kind, with the words that Go's decoder has for what does not fit.

use mainstay_kinds::{Gvk, registry};
use mainstay_schema::{Additional, Schema, Type};
use serde_json::Value;

use crate::error::{ApiError, Result};

/// Why a value does not fit its type, in Go's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
struct Mismatch(String);

/// Checks names and types, drops unknown fields and answers their paths.
pub fn built_in(gvk: &Gvk, value: &mut Value) -> Result<Vec<String>> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let wrong = |why: String| {
        let shown = if kind.is_empty() { &gvk.kind } else { &kind };
        let version = api_version.rsplit('/').next().filter(|version| !version.is_empty()).unwrap_or(&gvk.version);
        ApiError::bad_request(format!("{shown} in version {version:?} cannot be handled as a {}: {why}", gvk.kind))
    };
    if !kind.is_empty() && (kind != gvk.kind || !api_version.is_empty() && api_version != gvk.api_version())
        || !api_version.is_empty() && api_version != gvk.api_version()
    {
        let given =
            Gvk::of(if api_version.is_empty() { &gvk.version } else { &api_version }, if kind.is_empty() { &gvk.kind } else { &kind });
        let known = registry().schema(&given);
        let is_registered = known.is_some() || is_meta(&given);
        // The decoder goes by what the body says it is; only then is it found to be the wrong kind.
        let misfit = known.as_ref().and_then(|schema| fits(schema, value, &mut Vec::new(), &given.kind).err());
        let why = if let Some(misfit) = misfit {
            misfit.to_string()
        } else if is_registered {
            format!("converting ({}.{}) to ({}.{}): unknown conversion", given.version, given.kind, internal(&gvk.group), gvk.kind)
        } else {
            format!(
                "no kind {:?} is registered for version {:?} in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
                given.kind,
                given.api_version()
            )
        };
        return Err(wrong(why));
    }
    let Value::Object(map) = value else { return Err(wrong("json: the body is no object".into())) };
    map.insert("apiVersion".into(), gvk.api_version().into());
    map.insert("kind".into(), gvk.kind.clone().into());
    let Some(schema) = registry().schema(gvk) else { return Ok(Vec::new()) };
    fits(&schema, value, &mut Vec::new(), &gvk.kind).map_err(|why| {
        ApiError::bad_request(format!("{} in version {:?} cannot be handled as a {}: {why}", gvk.kind, gvk.version, gvk.kind))
    })?;
    Ok(mainstay_schema::prune::prune(&schema, value).iter().map(|path| path.as_str().to_owned()).collect())
}

/// Returns whether a kind is one of the types that belong to no group: lists of anything, Status and what discovery answers are of `v1`, options and
/// events of watches of every version.
fn is_meta(gvk: &Gvk) -> bool {
    let unversioned = ["List", "Status", "APIVersions", "APIGroup", "APIGroupList", "APIResourceList"];
    let everywhere = ["WatchEvent", "ListOptions", "GetOptions", "DeleteOptions", "CreateOptions", "UpdateOptions", "PatchOptions"];
    let kind = gvk.kind.as_str();
    gvk.api_version() == "v1" && unversioned.contains(&kind) || everywhere.contains(&kind) && registry().group(&gvk.group).is_some()
}

/// The name of Kubernetes' internal package of a group.
fn internal(group: &str) -> &str {
    match group {
        "" => "core",
        group => group.split('.').next().unwrap_or_default(),
    }
}

/// 400 for a body that is not one of the kind.
pub fn refused(gvk: &Gvk, why: &str) -> ApiError {
    ApiError::bad_request(format!("{} in version {:?} cannot be handled as a {}: {why}", gvk.kind, gvk.version, gvk.kind))
}

/// Why a value does not fit a definition of Kubernetes', in Go's words; `name` is the last part of the definition's.
pub fn misfit(definition: &str, name: &str, value: &Value) -> Option<String> {
    let schema = registry().definition(definition)?;
    fits(&schema, value, &mut Vec::new(), name).err().map(|misfit| misfit.to_string())
}

fn fits(schema: &Schema, value: &Value, path: &mut Vec<String>, owner: &str) -> Result<(), Mismatch> {
    if schema.int_or_string || value.is_null() || schema.preserve_unknown_fields && schema.properties.is_empty() {
        return Ok(());
    }
    if let (Some("io.k8s.apimachinery.pkg.api.resource.Quantity"), Value::String(text)) = (schema.definition.as_deref(), value) {
        let bad = mainstay_kinds::quantity::Quantity::parse(text).is_err();
        return if bad { Err(Mismatch(NOT_A_QUANTITY.to_owned())) } else { Ok(()) };
    }
    if let (Some(name @ ("Time" | "MicroTime")), Value::String(text)) =
        (schema.definition.as_deref().and_then(|name| name.rsplit('.').next()), value)
    {
        return crate::gotime::check(text, name == "MicroTime").map_err(|error| Mismatch(error.to_string()));
    }
    if let Some(
        "Quantity"
        | "Time"
        | "MicroTime"
        | "RawExtension"
        | "JSON"
        | "FieldsV1"
        | "JSONSchemaPropsOrBool"
        | "JSONSchemaPropsOrArray"
        | "IntOrString",
    ) = schema.definition.as_deref().and_then(|name| name.rsplit('.').next())
    {
        return Ok(());
    }
    let found = match value {
        Value::Object(_) => "object",
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::Null => return Ok(()),
    };
    let mismatch = |found: &str| {
        let place = path.join(".");
        let wanted = named_type(owner, path.last().map_or("", String::as_str)).map_or_else(|| go_type(schema), str::to_owned);
        Err(Mismatch(format!("json: cannot unmarshal {found} into Go struct field {owner}.{place} of type {wanted}")))
    };
    match (schema.kind, value) {
        (Some(Type::Object), Value::Object(map)) => {
            let inner = schema.definition.as_deref().and_then(|name| name.rsplit('.').next()).unwrap_or(owner);
            for (key, member) in map {
                let declared = schema.properties.get(key);
                let (node, named) = match (&schema.additional, declared) {
                    (_, Some(node)) => (node, true),
                    (Additional::Schema(node), None) => (node, false),
                    _ => continue,
                };
                if named {
                    path.push(key.clone());
                }
                fits(node, member, path, inner)?;
                if named {
                    path.pop();
                }
            }
            Ok(())
        }
        (Some(Type::Array), Value::Array(items)) => {
            let Some(node) = &schema.items else { return Ok(()) };
            items.iter().try_for_each(|item| fits(node, item, path, owner))
        }
        (Some(Type::String), Value::String(text)) if schema.format.as_deref() == Some("byte") => match base64_problem(text) {
            Some(at) => Err(Mismatch(format!("illegal base64 data at input byte {at}"))),
            None => Ok(()),
        },
        (Some(Type::String), Value::String(_))
        | (Some(Type::Boolean), Value::Bool(_))
        | (Some(Type::Number), Value::Number(_))
        | (None, _) => Ok(()),
        (Some(Type::Integer), Value::Number(number)) => {
            let whole = number.as_i64().or_else(|| number.as_f64().filter(|float| float.fract() == 0.0).map(|float| float as i64));
            match whole {
                Some(whole) if schema.format.as_deref() != Some("int32") || i32::try_from(whole).is_ok() => Ok(()),
                _ => mismatch(&format!("number {number}")),
            }
        }
        _ => mismatch(found),
    }
}

/// The place where a text stops being base64; line ends do not count.
fn base64_problem(text: &str) -> Option<usize> {
    let letters = || text.bytes().enumerate().filter(|(_, byte)| !matches!(byte, b'\r' | b'\n'));
    let end = letters().filter(|(_, byte)| *byte != b'=').count();
    if let Some((at, _)) = letters().find(|(_, byte)| !(byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='))) {
        return Some(at);
    }
    let count = letters().count();
    let padding = count - end;
    match (count % 4, padding, end % 4) {
        (0, 0, _) | (0, 1, 3) | (0, 2, 2) => None,
        // Go names the byte where the last group of four begins, or where the padding is wrong.
        (0, ..) => Some(end),
        _ => Some(count - count % 4),
    }
}

const NOT_A_QUANTITY: &str = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// Types of fields that have a name of their own in Go, where schemas know a string.
fn named_type(owner: &str, field: &str) -> Option<&'static str> {
    Some(match (owner, field) {
        ("ObjectMeta" | "OwnerReference" | "Preconditions" | "ObjectReference", "uid") => "types.UID",
        ("DeleteOptions", "propagationPolicy") => "v1.DeletionPropagation",
        _ => return None,
    })
}

fn go_type(schema: &Schema) -> String {
    match schema.kind {
        Some(Type::String) if schema.format.as_deref() == Some("byte") => "[]uint8".into(),
        Some(Type::String) => "string".into(),
        Some(Type::Boolean) => "bool".into(),
        Some(Type::Integer) => schema.format.clone().unwrap_or_else(|| "int64".into()),
        Some(Type::Number) => "float64".into(),
        Some(Type::Array) => format!("[]{}", schema.items.as_ref().map_or_else(|| "interface {}".into(), |items| go_type(items))),
        _ => match (&schema.definition, &schema.additional) {
            (Some(name), _) => {
                let mut parts = name.rsplit('.');
                let (kind, package) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
                format!("{package}.{kind}")
            }
            (None, Additional::Schema(node)) => format!("map[string]{}", go_type(node)),
            _ => "map[string]interface {}".into(),
        },
    }
}
