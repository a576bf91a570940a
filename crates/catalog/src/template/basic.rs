//! The template that shortens bundles to their images (CATLG-65).

use serde_json::Value;

use super::keys::{Keys, get};
use super::{Kind, RenderBundle, TemplateError};
use crate::blob::Limits;
use crate::error::LoadError;
use crate::load::{EachFound, read_json};
use crate::model::{Catalog, SCHEMA_BUNDLE};

/// Compiles the template. Bundles with only an image are rendered; all other entries stay unchanged, complete bundles included.
pub(super) fn compile(template: &Value, render: &mut RenderBundle<'_>) -> Result<Catalog, TemplateError> {
    let mut catalog = Catalog::default();
    let entries = entries(template, Kind::Basic)?;
    // A mistake in the last entry is reported before images are pulled for the first.
    for (index, entry) in entries.iter().enumerate() {
        read(index, entry, &mut |_| Ok(()))?;
    }
    for (index, entry) in entries.iter().enumerate() {
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

/// The entries of a template of a kind that has entries.
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
    read(index, entry, &mut |found| catalog.add(&found.blob()))
}

/// Reads an entry as a blob of a catalog, under the rules for blobs.
fn read(index: usize, entry: &Value, each: &mut EachFound<'_>) -> Result<(), LoadError> {
    read_json(&entry.to_string(), &format!("entries[{index}]"), &Limits::default(), each)
}
