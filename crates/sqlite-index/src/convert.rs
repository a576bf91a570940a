//! From tables to the catalog model, as `opm render` and `opm migrate` convert (CATLG-52), and as `opm registry serve` reads (CATLG-56).

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mainstay_catalog::{Bundle, Catalog, Channel, Entry, Icon, Package, Property, RelatedImage, validate_model};
use mainstay_versions::Version;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::error::Error;
use crate::listing::{Listed, list};
use crate::tables::{BundleRow, Tables, TypedRow};

/// Why a row of the database makes no part of a bundle, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
struct InvalidRow(String);

/// Purpose of a conversion. Upstream reads databases in two ways, of which one loses more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// As a file-based catalog: without deprecated bundles, and without dependencies of type `olm.constraint`.
    Render,
    /// For clients: with deprecated bundles, marked by a property, and with constraints as properties.
    Serve,
}

/// Converts the tables to a catalog.
pub(crate) fn catalog(tables: &Tables, purpose: Purpose) -> Result<Catalog, Error> {
    let mut catalog = Catalog::default();
    let mut channels: BTreeMap<(&str, &str), Channel> = BTreeMap::new();
    for (name, default_channel) in &tables.packages {
        let rows = tables.channels.get(name).ok_or_else(|| Error::content(format!("package {name} not found")))?;
        for row in rows {
            let channel = Channel { package: name.as_str().into(), name: row.name.as_str().into(), ..Channel::default() };
            channels.insert((name, &row.name), channel);
        }
        let default_channel = default_channel.as_deref().unwrap_or_default();
        if !rows.iter().any(|row| row.name == default_channel) {
            let problem = format!("invalid package {name:?}: default channel {default_channel:?} not found in channels list");
            return Err(Error::content(problem));
        }
        let package = Package { name: name.as_str().into(), default_channel: default_channel.into(), ..Package::default() };
        catalog.packages.push(package);
    }
    let mut bundles: BTreeMap<(&str, &str), Bundle> = BTreeMap::new();
    let no_image = String::new();
    let without_images = tables.bundles.values().all(|bundle| bundle.path.is_none()).then_some(&no_image);
    for row in list(tables) {
        add(tables, &row, &mut channels, &mut bundles, without_images, purpose)
            .map_err(|error| Error::content(format!("populate channels: {error}")))?;
    }
    for package in &mut catalog.packages {
        let (name, channel) = (package.name.as_str(), package.default_channel.as_str());
        package.icon = icon(tables, name, channel).map_err(|error| Error::content(format!("populate package icons: {error}")))?;
    }
    catalog.channels = channels.into_values().collect();
    catalog.bundles = bundles.into_values().collect();
    validate_model(&catalog).map_err(|validation| Error::content(validation.to_string()))?;
    for bundle in &mut catalog.bundles {
        finish(bundle, tables.related_images.get(bundle.name.as_str()));
    }
    Ok(catalog)
}

fn add<'a>(
    tables: &'a Tables,
    row: &Listed<'a>,
    channels: &mut BTreeMap<(&'a str, &'a str), Channel>,
    bundles: &mut BTreeMap<(&'a str, &'a str), Bundle>,
    without_images: Option<&String>,
    purpose: Purpose,
) -> Result<(), Error> {
    let Some(stored) = tables.bundles.get(row.bundle) else { return Ok(()) };
    // Upstream skips bundles from before versions and images were stored. A database in which no bundle has an image is older than images; it
    // would come out empty.
    let (Some(version), Some(image)) = (&stored.version, stored.path.as_ref().or(without_images)) else { return Ok(()) };
    let none = Vec::new();
    let declared = tables.properties.get(row.bundle).unwrap_or(&none);
    let manifests = Manifests::read(stored)?;
    if purpose == Purpose::Render && declared.iter().any(|property| property.kind == "olm.deprecated") {
        return Ok(());
    }
    if !tables.packages.contains_key(row.package) {
        return Err(Error::content(format!("unknown package {:?} for bundle {:?}", row.package, row.bundle)));
    }
    let Some(channel) = channels.get_mut(&(row.package, row.channel)) else {
        return Err(Error::content(format!("unknown channel {:?} for bundle {:?}", row.channel, row.bundle)));
    };
    channel.entries.push(Entry {
        name: row.bundle.into(),
        replaces: row.replaces.filter(|name| !name.is_empty()).map(Into::into),
        skips: row.skips.iter().map(|name| (*name).into()).collect(),
        skip_range: stored.skip_range.clone().filter(|range| !range.is_empty()),
    });
    let convert = |problem: String| Error::content(format!("convert bundle {:?}: {problem}", row.bundle));
    if bundles.contains_key(&(row.package, row.bundle)) {
        return Ok(());
    }
    let required = tables.dependencies.get(row.bundle).unwrap_or(&none);
    let mut properties = properties(declared, required, row.package, version).map_err(|p| convert(format!("convert properties: {p}")))?;
    if purpose == Purpose::Serve {
        properties.extend(required.iter().filter(|row| row.kind == "olm.constraint").filter_map(constraint));
    }
    properties.extend(manifests.objects.iter().map(|object| object_property(object)));
    let related_images = manifests.related_images().map_err(|problem| convert(format!("get related iamges: {problem}")))?;
    Version::parse(version).map_err(|error| convert(format!("parse version {version:?}: {error}")))?;
    let bundle = Bundle { package: row.package.into(), name: row.bundle.into(), image: image.clone(), properties, related_images };
    bundles.insert((row.package, row.bundle), bundle);
    Ok(())
}

/// The column `bundle`: manifests one after another.
struct Manifests {
    objects: Vec<Box<RawValue>>,
    csv: Option<usize>,
}

impl Manifests {
    fn read(stored: &BundleRow) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Kind {
            #[serde(default)]
            kind: Option<Value>,
            #[serde(default)]
            metadata: Option<Value>,
        }
        let Some(text) = stored.manifests.as_deref().filter(|text| !text.is_empty()) else {
            return Ok(Self { objects: Vec::new(), csv: None });
        };
        let json = |error: serde_json::Error| Error::content(error.to_string());
        let objects = serde_json::Deserializer::from_str(text).into_iter().collect::<Result<Vec<Box<RawValue>>, _>>().map_err(json)?;
        for (index, object) in objects.iter().enumerate() {
            let kind: Kind = serde_json::from_str(object.get()).map_err(json)?;
            if kind.kind.is_some_and(|kind| kind == "ClusterServiceVersion") {
                let named = kind.metadata.is_some_and(|metadata| metadata["name"].as_str().is_some_and(|name| !name.is_empty()));
                return if named { Ok(Self { objects, csv: Some(index) }) } else { Err(Error::content("no csv in bundle")) };
            }
        }
        Err(Error::content("no csv in bundle"))
    }

    fn related_images(&self) -> Result<Vec<RelatedImage>, InvalidRow> {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Csv {
            spec: Option<Spec>,
        }
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Spec {
            #[serde(rename = "relatedImages")]
            related_images: Option<Vec<Image>>,
        }
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Image {
            name: Option<String>,
            image: Option<String>,
        }
        let Some(csv) = self.csv.and_then(|index| self.objects.get(index)) else { return Ok(Vec::new()) };
        let csv: Csv = serde_json::from_str(csv.get()).map_err(|error| InvalidRow(format!("unmarshal csv: {error}")))?;
        let images = csv.spec.and_then(|spec| spec.related_images).unwrap_or_default();
        let image = |image: Image| RelatedImage { name: image.name.unwrap_or_default(), image: image.image.unwrap_or_default() };
        Ok(images.into_iter().map(image).collect())
    }
}

fn object_property(object: &RawValue) -> Property {
    property("olm.bundle.object", &json!({"data": STANDARD.encode(compact(object.get()))}))
}

/// JSON text without the blanks between its tokens, otherwise unchanged.
fn compact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut quoted, mut escaped) = (false, false);
    for c in text.chars() {
        if quoted || !c.is_ascii_whitespace() {
            out.push(c);
        }
        if c == '"' && !escaped {
            quoted = !quoted;
        }
        escaped = quoted && c == '\\' && !escaped;
    }
    out
}

fn properties(declared: &[TypedRow], required: &[TypedRow], package: &str, version: &str) -> Result<Vec<Property>, InvalidRow> {
    let (mut provided_apis, mut required_apis) = (BTreeSet::new(), BTreeSet::new());
    let mut properties = Vec::new();
    let mut seen = BTreeSet::new();
    let mut package_found = false;
    for (index, row) in declared.iter().filter(|row| seen.insert((&row.kind, &row.value))).enumerate() {
        if row.kind == "olm.gvk" {
            provided_apis.insert(gvk(index, row)?);
            continue;
        }
        package_found |= row.kind == "olm.package";
        let value = RawValue::from_string(compact(&row.value)).map_err(|error| parse_error(index, row, &error))?;
        properties.push(Property { kind: row.kind.clone(), value });
    }
    let mut seen = BTreeSet::new();
    for (index, row) in required.iter().filter(|row| seen.insert((&row.kind, &row.value))).enumerate() {
        match row.kind.as_str() {
            "olm.gvk" => {
                required_apis.insert(gvk(index, row)?);
            }
            "olm.package" => {
                let value: Value = serde_json::from_str(&row.value).map_err(|error| parse_error(index, row, &error))?;
                let text = |key: &str| value[key].as_str().unwrap_or_default();
                let value = json!({"packageName": text("packageName"), "versionRange": text("version")});
                properties.push(property("olm.package.required", &value));
            }
            // Databases know constraints of these two kinds only.
            _ => {}
        }
    }
    if !package_found {
        properties.push(property("olm.package", &json!({"packageName": package, "version": version})));
    }
    for (kind, apis) in [("olm.gvk", provided_apis), ("olm.gvk.required", required_apis)] {
        properties.extend(
            apis.into_iter().map(|(group, name, version)| property(kind, &json!({"group": group, "kind": name, "version": version}))),
        );
    }
    Ok(properties)
}

/// A constraint as a property; a constraint that is not JSON constrains nothing.
fn constraint(row: &TypedRow) -> Option<Property> {
    Some(Property { kind: row.kind.clone(), value: RawValue::from_string(compact(&row.value)).ok()? })
}

fn gvk(index: usize, row: &TypedRow) -> Result<(String, String, String), InvalidRow> {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Gvk {
        group: Option<String>,
        kind: Option<String>,
        version: Option<String>,
    }
    let gvk: Gvk = serde_json::from_str(&row.value).map_err(|error| parse_error(index, row, &error))?;
    Ok((gvk.group.unwrap_or_default(), gvk.kind.unwrap_or_default(), gvk.version.unwrap_or_default()))
}

fn parse_error(index: usize, row: &TypedRow, error: &serde_json::Error) -> InvalidRow {
    InvalidRow(format!("parse property[{index}] of type {:?}: {error}", row.kind))
}

fn property(kind: &str, value: &Value) -> Property {
    // A value of maps with text keys can always be serialized.
    Property::new(kind, value).unwrap_or_else(|_| Property { kind: kind.to_owned(), value: RawValue::NULL.to_owned() })
}

/// Sorts, removes duplicates, and adds the images that only the database knows.
fn finish(bundle: &mut Bundle, known: Option<&BTreeSet<String>>) {
    bundle.properties.sort_by(|a, b| (&a.kind, a.value.get()).cmp(&(&b.kind, b.value.get())));
    bundle.properties.dedup();
    let mut missing: BTreeSet<&String> = known.into_iter().flatten().collect();
    for related in &bundle.related_images {
        missing.remove(&related.image);
    }
    let missing: Vec<RelatedImage> = missing.into_iter().map(|image| RelatedImage { name: String::new(), image: image.clone() }).collect();
    bundle.related_images.extend(missing);
    bundle.related_images.sort_by(|a, b| a.image.cmp(&b.image));
}

/// The icon of the default channel's head.
fn icon(tables: &Tables, package: &str, channel: &str) -> Result<Option<Icon>, Error> {
    let heads = tables.channels.get(package).into_iter().flatten();
    let head = heads.filter(|row| row.name == channel).find_map(|row| row.head.as_deref());
    let found = head.and_then(|head| Some((head, tables.csvs.get(head)?.as_deref())));
    let Some((head, csv)) = found else {
        let problem = format!("get default channel head for package {package:?}: no entry found for {package} {channel}");
        return Err(Error::content(problem));
    };
    let csv: Value = serde_json::from_str(csv.unwrap_or_default()).map_err(|error| {
        let error = if error.is_eof() { "unexpected end of JSON input".to_owned() } else { error.to_string() };
        Error::content(format!("unmarshal CSV json for bundle {head:?}: {error}"))
    })?;
    let icon = &csv["spec"]["icon"][0];
    let data: String = icon["base64data"].as_str().unwrap_or_default().chars().filter(|c| !matches!(c, ' ' | '\r' | '\n')).collect();
    // An icon that is not base64 is left out, as upstream does.
    let Ok(bytes) = STANDARD.decode(data) else { return Ok(None) };
    if bytes.is_empty() {
        return Ok(None);
    }
    Ok(Some(Icon { base64data: STANDARD.encode(bytes), mediatype: icon["mediatype"].as_str().unwrap_or_default().to_owned() }))
}
