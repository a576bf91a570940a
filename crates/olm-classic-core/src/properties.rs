//! Properties of bundles, and the annotation in which OLM writes them on a CSV.

use std::fmt;

use mainstay_golang::json::{Html, write_string};
use mainstay_golang::json_reader::{self, Struct, SyntaxError, Type, Unreadable};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The annotation.
pub const ANNOTATION: &str = "operatorframework.io/properties";

/// A property: a type, and JSON as text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
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

/// The fields of a JSON object in their order, with the texts of their values.
#[derive(Default)]
struct RawFields<'a>(Vec<(String, &'a RawValue)>);

impl<'a> RawFields<'a> {
    /// The values of a field by its name, which Go takes in any case; the last counts.
    fn all(&self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.get())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RawFields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(Fields).map(Self)
    }
}

/// The properties in the text of an annotation; the texts of the values count as they are written.
pub fn read(annotation: &str) -> Result<Vec<Property>, Unreadable> {
    PROPERTIES.read(annotation)?;
    let annotation = json_reader::without_half_pairs(annotation);
    // What passed the check above can be read by these types; null is no fields.
    let fields: Option<RawFields<'_>> = serde_json::from_str(&annotation).unwrap_or_default();
    let mut properties = Vec::new();
    // Go reads a second list over the first.
    for list in fields.unwrap_or_default().all("properties") {
        let list: Option<Vec<Option<RawFields<'_>>>> = serde_json::from_str(list).unwrap_or_default();
        let list = list.unwrap_or_default();
        properties.resize(list.len(), Property::default());
        for (property, fields) in properties.iter_mut().zip(list) {
            let fields = fields.unwrap_or_default();
            let kind = fields.all("type").filter_map(|text| serde_json::from_str::<Option<String>>(text).ok().flatten()).last();
            property.kind = kind.unwrap_or_else(|| std::mem::take(&mut property.kind));
            if let Some(value) = fields.all("value").last() {
                value.clone_into(&mut property.value);
            }
        }
    }
    Ok(properties)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// OLM0-BUNDLE-12: names in any case, the last of several, and text with half a surrogate pair, as upstream reads them.
    #[test]
    fn annotations_of_any_shape() {
        for (annotation, wanted) in [
            (r#"{"properties":[{"TYPE":"a","value": 4.80 }]}"#, vec![("a", "4.80")]),
            (r#"{"properties":[{"type":"a","type":"b","Value":1,"value":2}]}"#, vec![("b", "2")]),
            (r#"{"properties":[{"type":"a","value":"\ud800"},null]}"#, vec![("a", r#""\ufffd""#), ("", "")]),
            (r#"{"properties":[{"type":"a","value":1}],"Properties":[{"value":2},{"type":"c"}]}"#, vec![("a", "2"), ("c", "")]),
            ("null", vec![]),
        ] {
            let read = read(annotation).unwrap();
            let read: Vec<(&str, &str)> = read.iter().map(|one| (one.kind.as_str(), one.value.as_str())).collect();
            assert_eq!(read, wanted, "{annotation}");
        }
        assert_eq!(read("tru").unwrap_err().to_string(), "invalid character ' ' in literal true (expecting 'e')");
    }
}
