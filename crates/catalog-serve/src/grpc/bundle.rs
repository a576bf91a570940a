//! A bundle as the registry sends it, from its blob (CATLG-40, CATLG-41).

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use mainstay_catalog::{Blob, Bundle, Catalog, EntryView, Package, Property, SCHEMA_BUNDLE, SCHEMA_PACKAGE, Shape as Mismatch};
use mainstay_catalog_store::{Map, StoredCatalog};
use serde::Deserialize;
use serde_json::Value;

use super::csv::{Parts, synthesize};
use super::{api, go_json};
use crate::ServeError;

const BUNDLE_OBJECT: &str = "olm.bundle.object";
const CSV_METADATA: &str = "olm.csv.metadata";

/// Base64 as Go reads and writes it: padded, and lenient about trailing bits.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true).with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// The extent to which a bundle is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// In a single answer: with its manifests, without its edges.
    Single,
    /// Among all bundles: with its edges; with its manifests only if no image has them.
    Listed,
    /// All of it, for caches.
    Whole,
}

/// Converts the bundle of an entry; `None` when the catalog has no bundle of its name.
pub(super) fn convert(catalog: &StoredCatalog, entry: EntryView<'_, Map>, detail: Detail) -> Result<Option<api::Bundle>, ServeError> {
    let Some(view) = entry.bundle() else { return Ok(None) };
    let channel = entry.channel();
    let package = channel.package();
    let mut bundle = read(catalog, SCHEMA_BUNDLE, package.name(), view.blob())?.bundles;
    let Some(bundle) = bundle.pop() else { return Ok(None) };
    let gvk = |gvk: mainstay_catalog::Api<'_>| api::GroupVersionKind {
        group: gvk.group.to_owned(),
        version: gvk.version.to_owned(),
        kind: gvk.kind.to_owned(),
        plural: String::new(),
    };
    let mut answer = api::Bundle {
        csv_name: entry.name().to_owned(),
        package_name: package.name().to_owned(),
        channel_name: channel.name().to_owned(),
        bundle_path: bundle.image.clone(),
        provided_apis: view.provided_apis().map(gvk).collect(),
        required_apis: view.required_apis().map(gvk).collect(),
        version: view.version().unwrap_or_default().to_owned(),
        skip_range: entry.skip_range().unwrap_or_default().to_owned(),
        dependencies: dependencies(&bundle)?,
        deprecation: view.deprecation().map(|message| api::Deprecation { message: message.to_owned() }),
        ..api::Bundle::default()
    };
    if detail != Detail::Single {
        entry.replaces().unwrap_or_default().clone_into(&mut answer.replaces);
        answer.skips = entry.skips().map(str::to_owned).collect();
    }
    if detail != Detail::Listed || bundle.image.is_empty() {
        let of_package = match package.blob() {
            Some(blob) => read(catalog, SCHEMA_PACKAGE, package.name(), blob)?.packages.pop(),
            None => None,
        };
        (answer.csv_json, answer.object) = manifests(&bundle, &of_package.unwrap_or_default(), &answer.version)?;
    }
    let sent = bundle.properties.into_iter().filter(|property| property.kind != BUNDLE_OBJECT && property.kind != CSV_METADATA);
    answer.properties = sent.map(|property| api::Property { r#type: property.kind, value: property.value.get().to_owned() }).collect();
    Ok(Some(answer))
}

/// Returns the complete bundle, for a cache.
pub(crate) fn whole(catalog: &StoredCatalog, entry: EntryView<'_, Map>) -> Result<Option<api::Bundle>, ServeError> {
    convert(catalog, entry, Detail::Whole)
}

/// The ClusterServiceVersion of a bundle as JSON text, made from its metadata if the catalog holds no manifests; empty if there is none.
///
/// # Errors
/// The bundle cannot be read, or holds something that the registry would not send.
pub fn csv_json(catalog: &StoredCatalog, entry: EntryView<'_, Map>) -> Result<String, ServeError> {
    Ok(convert(catalog, entry, Detail::Single)?.unwrap_or_default().csv_json)
}

/// Checks that a bundle can be sent; returns the error of `convert` otherwise.
pub(super) fn check(catalog: &StoredCatalog, entry: EntryView<'_, Map>) -> Result<(), ServeError> {
    convert(catalog, entry, Detail::Single).map(|_| ())
}

/// Reads the blob of a range as a catalog of its own.
fn read(catalog: &StoredCatalog, schema: &str, package: &str, range: std::ops::Range<u64>) -> Result<Catalog, ServeError> {
    let json = catalog.read_blob(range)?;
    let mut read = Catalog::default();
    read.add(&Blob { path: "catalog", line: 1, schema, package, name: "", json: &json })?;
    Ok(read)
}

fn property_error(bundle: &Bundle, kind: &'static str, shape: Mismatch) -> ServeError {
    ServeError::Property { package: bundle.package.to_string(), bundle: bundle.name.to_string(), kind, shape }
}

/// Returns `csvJson` and `object`: the embedded objects, or a CSV made from metadata.
fn manifests(bundle: &Bundle, package: &Package, version: &str) -> Result<(String, Vec<String>), ServeError> {
    let mut objects = Vec::new();
    for (index, property) in bundle.properties.iter().enumerate().filter(|(_, property)| property.kind == BUNDLE_OBJECT) {
        objects.push(object(bundle, index, property)?);
    }
    let mut csv = objects.iter().find(|object| is_csv(object)).cloned().unwrap_or_default();
    let metadata: Vec<&Property> = bundle.properties.iter().filter(|property| property.kind == CSV_METADATA).collect();
    if metadata.len() > 1 {
        return Err(ServeError::TooMany { kind: CSV_METADATA, found: metadata.len() });
    }
    if let (Some(metadata), true) = (metadata.first(), csv.is_empty()) {
        let metadata: Value = serde_json::from_str(metadata.value.get()).map_err(|_| {
            property_error(bundle, CSV_METADATA, Mismatch { field: "value".to_owned(), expected: "a mapping", found: "something else" })
        })?;
        let icon = package.icon.as_ref().map(|icon| {
            let plain: String = icon.base64data.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
            // Undecodable data is sent unchanged: icons are not checked (CATLG-25).
            let data = BASE64.decode(&plain).map_or(plain, |bytes| BASE64.encode(bytes));
            (data, icon.mediatype.as_str())
        });
        let related_images = &bundle.related_images;
        let parts = Parts { name: bundle.name.as_str(), version, package, icon, related_images };
        csv = synthesize(&metadata, &parts).map_err(|shape| property_error(bundle, CSV_METADATA, shape))?;
        if objects.is_empty() {
            objects.push(csv.clone());
        }
    }
    Ok((csv, objects))
}

/// Returns an embedded object as JSON text: unchanged when it is JSON, converted when it is YAML.
fn object(bundle: &Bundle, index: usize, property: &Property) -> Result<String, ServeError> {
    #[derive(Deserialize)]
    struct Embedded {
        #[serde(default, alias = "Data")]
        data: Option<String>,
    }
    let failed = |what, reason: String| ServeError::Object {
        package: bundle.package.to_string(),
        bundle: bundle.name.to_string(),
        index,
        what,
        reason: format!(": {reason}"),
    };
    let embedded: Embedded = serde_json::from_str(property.value.get()).map_err(|error| failed("parse", error.to_string()))?;
    let plain: String = embedded.data.unwrap_or_default().chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let bytes = BASE64.decode(plain).map_err(|error| failed("decode", error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|error| failed("decode", error.to_string()))?;
    if text.trim_start().starts_with('{') {
        return Ok(text);
    }
    let mut documents = mainstay_yaml::stream(&text);
    let value = match documents.next() {
        None => Value::Null,
        Some(Ok(document)) => document.value,
        Some(Err(error)) => return Err(failed("convert", format!("line {}: {}", error.line, error.problem))),
    };
    let mut json = String::new();
    go_json::any(&mut json, &value);
    Ok(json)
}

fn is_csv(object: &str) -> bool {
    #[derive(Deserialize)]
    struct Kind<'k> {
        #[serde(borrow)]
        kind: Option<std::borrow::Cow<'k, str>>,
    }
    serde_json::from_str::<Kind<'_>>(object).is_ok_and(|object| object.kind.as_deref() == Some("ClusterServiceVersion"))
}

/// Returns the required APIs and packages as the older dependency types.
fn dependencies(bundle: &Bundle) -> Result<Vec<api::Dependency>, ServeError> {
    let mut dependencies = Vec::new();
    for property in &bundle.properties {
        let value = property.value.get();
        match property.kind.as_str() {
            "olm.gvk.required" => dependencies.push(api::Dependency { r#type: "olm.gvk".to_owned(), value: value.to_owned() }),
            "olm.package.required" => {
                let kind = "olm.package.required";
                let mismatch = |field: &str, expected, found| Mismatch { field: field.to_owned(), expected, found };
                let value: Value = serde_json::from_str(value)
                    .map_err(|_| property_error(bundle, kind, mismatch("value", "a mapping", "something else")))?;
                let text = |name: &str| match go_json::member(&value, name) {
                    None | Some(Value::Null) => Ok(""),
                    Some(Value::String(text)) => Ok(text.as_str()),
                    Some(_) => Err(property_error(bundle, kind, mismatch(&format!("value.{name}"), "a string", "something else"))),
                };
                let (name, range) = (Value::from(text("packageName")?), Value::from(text("versionRange")?));
                let value = format!(r#"{{"packageName":{name},"version":{range}}}"#);
                dependencies.push(api::Dependency { r#type: "olm.package".to_owned(), value });
            }
            _ => {}
        }
    }
    Ok(dependencies)
}
