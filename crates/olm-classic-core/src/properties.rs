//! Properties of bundles, and the annotation in which OLM writes them on a CSV.

use std::collections::BTreeMap;

use mainstay_golang::json::{Html, write_string};
use mainstay_golang::json_reader::{self, Struct, SyntaxError, Type, Unreadable};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The annotation.
pub const ANNOTATION: &str = "operatorframework.io/properties";

/// A property: a type, and JSON as text.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Property {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its value, JSON; catalogs hold what authors write, so it may be none.
    #[serde(default)]
    pub value: String,
}

/// Why properties cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("failed to marshal properties annotation: json: error calling MarshalJSON for type json.RawMessage: {0}")]
pub struct AnnotationError(#[from] SyntaxError);

/// The properties as text of the annotation: the values as they are, without blanks.
pub fn annotation(properties: &[Property]) -> Result<String, AnnotationError> {
    if properties.is_empty() {
        return Ok("{}".to_owned());
    }
    let mut out = String::from("{\"properties\":[");
    for (at, property) in properties.iter().enumerate() {
        json_reader::parse(property.value.as_bytes())?;
        if at > 0 {
            out.push(',');
        }
        out.push_str("{\"type\":");
        write_string(&mut out, &property.kind, Html::Escaped);
        out.push_str(",\"value\":");
        out.push_str(&mainstay_bundle::go::compact_raw(&property.value));
        out.push('}');
    }
    out.push_str("]}");
    Ok(out)
}

static PROPERTY: Struct =
    Struct { full_name: "projection.property", name: "property", fields: &[("type", Type::Text), ("value", Type::Raw)] };
static PROPERTIES: Struct =
    Struct { full_name: "projection.propertiesAnnotation", name: "propertiesAnnotation", fields: &[("properties", Type::List(&PROPERTY))] };

/// The fields of a JSON object, with the texts of their values.
type RawFields<'a> = BTreeMap<String, &'a RawValue>;

/// The properties in the text of an annotation; the texts of the values count as they are written.
pub fn read(annotation: &str) -> Result<Vec<Property>, Unreadable> {
    PROPERTIES.read(annotation)?;
    // What passed the check above can be read by these types; null is no fields.
    let fields: Option<RawFields<'_>> = serde_json::from_str(annotation).unwrap_or_default();
    let list = fields.as_ref().and_then(|fields| member(fields, "properties"));
    let list: Option<Vec<Option<RawFields<'_>>>> = list.and_then(|list| serde_json::from_str(list).ok()).flatten();
    let property = |fields: Option<RawFields<'_>>| {
        let fields = fields.unwrap_or_default();
        let kind = member(&fields, "type").and_then(|text| serde_json::from_str::<Option<String>>(text).ok()).flatten();
        Property { kind: kind.unwrap_or_default(), value: member(&fields, "value").unwrap_or_default().to_owned() }
    };
    Ok(list.unwrap_or_default().into_iter().map(property).collect())
}

/// A field by its name, which Go takes in any case.
fn member<'a>(fields: &RawFields<'a>, name: &str) -> Option<&'a str> {
    let exact = fields.get(name);
    exact.or_else(|| fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)).map(|value| value.get())
}
