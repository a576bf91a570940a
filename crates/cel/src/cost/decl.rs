//! The largest sizes of values under a schema, from `maxLength`, `maxItems` and `maxProperties`, or from what fits into a request.

use std::collections::BTreeMap;
use std::sync::Arc;

use mainstay_schema::{Additional, Schema, SchemaRef, Type as Kind};

use crate::types::{escape, with_metadata};

/// The largest request body, in bytes.
const REQUEST: u64 = 3 * 1024 * 1024;

const DURATION: u64 = 32;
const DATE_TIME: u64 = 32;
const DATE: u64 = 12;

/// Sizes of the values under one node of a schema.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decl {
    /// The most characters, items or entries; 0 for what has none of these.
    pub(crate) max_elements: u64,
    /// The fewest bytes as JSON.
    min_bytes: u64,
    /// The fields of an object, by their names in expressions.
    fields: BTreeMap<String, Arc<Decl>>,
    /// The keys of a map.
    pub(crate) keys: Option<Arc<Decl>>,
    /// The items of a list, the values of a map.
    pub(crate) items: Option<Arc<Decl>>,
    /// Whether the size of a map's values is known where a name selects one.
    named: bool,
}

impl Decl {
    /// `None` for a schema whose values expressions cannot see. `root` says that apiVersion, kind and metadata are there.
    pub(crate) fn of_schema(schema: &SchemaRef, root: bool) -> Option<Arc<Self>> {
        if schema.int_or_string {
            let max_elements = schema.max_length.map_or(REQUEST - 2, |length| length.saturating_mul(4));
            return Some(Arc::new(Self { max_elements, min_bytes: 1, ..Self::default() }));
        }
        let full;
        let schema = if root {
            full = with_metadata(schema);
            &full
        } else {
            schema
        };
        let decl = match schema.kind? {
            Kind::Boolean => Self { min_bytes: 4, ..Self::default() },
            Kind::Integer | Kind::Number => Self { min_bytes: 1, ..Self::default() },
            Kind::String => Self::of_text(schema),
            Kind::Array => {
                let items = Self::of_schema(schema.items.as_ref()?, schema.items.as_ref()?.embedded_resource)?;
                let max_elements = schema.max_items.unwrap_or((REQUEST - 2) / (items.min_bytes + 1));
                Self { max_elements, min_bytes: 2, items: Some(items), ..Self::default() }
            }
            Kind::Object => match &schema.additional {
                Additional::Schema(values) if schema.properties.is_empty() => {
                    let items = Self::of_schema(values, values.embedded_resource)?;
                    let max_elements = schema.max_properties.unwrap_or((REQUEST - 2) / (items.min_bytes + 6));
                    let keys = Some(Arc::new(Self { min_bytes: 2, ..Self::default() }));
                    Self { max_elements, min_bytes: 2, keys, items: Some(items), ..Self::default() }
                }
                _ => Self::of_object(schema),
            },
        };
        Some(Arc::new(decl))
    }

    /// The sizes of a device: its name, its attributes and its capacity by domain and by name.
    pub(crate) fn of_device() -> Arc<Self> {
        let sized = |max_elements| Arc::new(Self { max_elements, ..Self::default() });
        let map = |length, items, named| {
            Arc::new(Self { max_elements: 32, keys: Some(sized(length)), items: Some(items), named, ..Self::default() })
        };
        let (attributes, capacity) = (map(32, sized(64), true), map(32, sized(0), false));
        let fields = [("driver", sized(63)), ("attributes", map(63, attributes, false)), ("capacity", map(63, capacity, false))];
        let fields = fields.into_iter().map(|(name, decl)| (name.to_owned(), decl)).collect();
        Arc::new(Self { fields, ..Self::default() })
    }

    fn of_text(schema: &Schema) -> Self {
        let (max_elements, min_bytes) = match (schema.format.as_deref(), schema.max_length, &schema.enumeration) {
            (Some("duration"), ..) => (DURATION, 3),
            (Some("date"), ..) => (DATE, DATE),
            (Some("date-time"), ..) => (DATE_TIME, 21),
            (Some("byte"), Some(length), _) => (length, 2),
            (Some("byte"), None, _) => (REQUEST - 2, 2),
            // A character may take four bytes.
            (_, Some(length), _) => (length.saturating_mul(4), 2),
            (_, None, Some(values)) if !values.is_empty() => {
                (values.iter().filter_map(|value| value.as_str()).map(|text| text.len() as u64).max().unwrap_or(0), 2)
            }
            _ => (REQUEST - 2, 2),
        };
        Self { max_elements, min_bytes, ..Self::default() }
    }

    fn of_object(schema: &Schema) -> Self {
        let mut decl = Self { min_bytes: 2, ..Self::default() };
        for (name, property) in &schema.properties {
            let Some(field) = Self::of_schema(property, property.embedded_resource) else { continue };
            if schema.required.contains(name) && property.default.is_none() {
                decl.min_bytes += name.len() as u64 + field.min_bytes + 4;
            }
            if let Some(name) = escape(name) {
                decl.fields.insert(name, field);
            }
        }
        decl
    }

    pub(crate) fn field(&self, name: &str) -> Option<Arc<Self>> {
        self.fields.get(name).or(self.items.as_ref().filter(|_| self.named)).cloned()
    }

    /// Returns how many such values fit into a request.
    pub(crate) fn most_in_request(&self) -> u64 {
        REQUEST / (self.min_bytes + 1)
    }
}

/// By how much a node multiplies what lies below it; `None` without a limit.
pub(crate) fn multiplier(schema: &Schema) -> Option<u64> {
    match schema.kind {
        Some(Kind::Object) if !matches!(schema.additional, Additional::Unstated) => schema.max_properties,
        Some(Kind::Array) => schema.max_items,
        _ => Some(1),
    }
}
