//! Properties of bundles, and the annotation in which OLM writes them on a CSV.

use mainstay_bundle::go::member;
use mainstay_golang::json::{Html, write_string};
use mainstay_golang::json_reader::{self, Struct, SyntaxError, Type, Unreadable};
use serde::Deserialize;

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

/// The properties in the text of an annotation.
pub fn read(annotation: &str) -> Result<Vec<Property>, Unreadable> {
    #[derive(Deserialize)]
    struct Raw<'a> {
        #[serde(borrow, default)]
        properties: Option<Vec<Option<RawProperty<'a>>>>,
    }
    #[derive(Deserialize, Default)]
    struct RawProperty<'a> {
        #[serde(rename = "type", default)]
        kind: Option<String>,
        #[serde(borrow, default)]
        value: Option<&'a serde_json::value::RawValue>,
    }
    let value = PROPERTIES.read(annotation)?;
    // The texts of the values count as they are written; names of fields in another case, which Go takes too, have only their values.
    if let Ok(Some(Raw { properties })) = serde_json::from_str::<Option<Raw<'_>>>(annotation)
        && properties.is_some()
    {
        let property = |one: Option<RawProperty<'_>>| {
            let RawProperty { kind, value } = one.unwrap_or_default();
            Property { kind: kind.unwrap_or_default(), value: value.map_or_else(String::new, |value| value.get().to_owned()) }
        };
        return Ok(properties.into_iter().flatten().map(property).collect());
    }
    let list = member(&value, "properties").as_array().cloned().unwrap_or_default();
    let property = |one: &serde_json::Value| Property {
        kind: member(one, "type").as_str().unwrap_or_default().to_owned(),
        value: match member(one, "value") {
            serde_json::Value::Null => String::new(),
            other => other.to_string(),
        },
    };
    Ok(list.iter().map(property).collect())
}
