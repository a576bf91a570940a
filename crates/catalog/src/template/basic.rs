//! The template that shortens bundles to their images (CATLG-65).

use serde_json::Value;

use super::keys::{Keys, get};
use super::{Kind, RenderBundle, TemplateError};
use crate::error::LoadError;
use crate::load::Blob;
use crate::model::{Catalog, SCHEMA_BUNDLE};

/// Entries that are bundles with nothing but an image are rendered; all others are taken as they are, whole bundles too.
pub(super) fn compile(template: &Value, render: &mut RenderBundle<'_>) -> Result<Catalog, TemplateError> {
    let mut catalog = Catalog::default();
    for (index, entry) in entries(template, Kind::Basic)?.iter().enumerate() {
        if get(entry, "schema").and_then(Value::as_str) == Some(SCHEMA_BUNDLE) {
            let filled = |key: &str| get(entry, key).is_some_and(|value| value.as_array().is_none_or(|items| !items.is_empty()));
            let image = get(entry, "image").and_then(Value::as_str).unwrap_or_default();
            if !filled("properties") {
                if image.is_empty() || filled("package") || filled("relatedImages") {
                    return Err(TemplateError::UnexpectedFields);
                }
                catalog.bundles.extend(render(image).map_err(TemplateError::Render)?.bundles);
                continue;
            }
        }
        add(&mut catalog, index, entry)?;
    }
    Ok(catalog)
}

/// The entries of a template that has some.
pub(super) fn entries(template: &Value, kind: Kind) -> Result<&[Value], TemplateError> {
    let keys = Keys::any(template, "")?;
    let found = keys.text("schema")?;
    if found != kind.schema() {
        return Err(TemplateError::Schema { found: found.to_owned(), expected: kind.schema() });
    }
    Ok(keys.list("entries")?)
}

/// Adds an entry as a blob.
pub(super) fn add(catalog: &mut Catalog, index: usize, entry: &Value) -> Result<(), LoadError> {
    let path = format!("entries[{index}]");
    let text = |key: &str| get(entry, key).and_then(Value::as_str).unwrap_or_default();
    let (schema, package, name) = (text("schema"), text("package"), text("name"));
    if schema.is_empty() {
        return Err(LoadError::MissingSchema { path, line: 1, object: entry.to_string() });
    }
    catalog.add(&Blob { path: &path, line: 1, schema, package, name, json: &entry.to_string() })
}
