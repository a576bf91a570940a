//! Facts of a catalog for validation: names, entries, versions, and the problems of each blob by itself. The values of properties, which
//! are nearly all of a catalog, are read once and not kept.

use std::sync::Arc;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use mainstay_golang::quote;
use mainstay_versions::Version;

use super::Rule;
use super::go_types;
use crate::blob::Found;
use crate::decode::{BundleBlob, ChannelBlob, DeprecationsBlob, Fields, PackageBlob, Shape};
use crate::error::LoadError;
use crate::model::{Catalog, Deprecation, Entry, Reference, SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_DEPRECATIONS, SCHEMA_PACKAGE};
use crate::pullspec::check_pull_spec;

/// Position of a blob.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// File below the root of the catalog.
    pub path: Arc<str>,
    /// Line where the blob begins, from 1.
    pub line: usize,
}

/// The facts of a catalog, each kind in the order of the files.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) packages: Vec<PackageFact>,
    pub(super) channels: Vec<ChannelFact>,
    pub(super) bundles: Vec<BundleFact>,
    pub(super) deprecations: Vec<DeprecationsFact>,
}

#[derive(Debug)]
pub(crate) struct PackageFact {
    pub(crate) place: Option<Place>,
    pub(crate) name: String,
    pub(crate) default_channel: String,
}

#[derive(Debug)]
pub(crate) struct ChannelFact {
    pub(crate) place: Option<Place>,
    pub(crate) package: String,
    pub(crate) name: String,
    pub(crate) entries: Vec<Entry>,
}

#[derive(Debug)]
pub(crate) struct BundleFact {
    pub(crate) place: Option<Place>,
    pub(crate) package: String,
    pub(crate) name: String,
    /// Problems of the blob by itself, in upstream's order.
    pub(crate) wrong: Vec<(Rule, String)>,
    pub(crate) package_properties: usize,
    /// True if there is an image, or manifests in its place.
    pub(crate) has_content: bool,
    pub(crate) version: BundleVersion,
}

#[derive(Debug)]
pub(crate) struct DeprecationsFact {
    pub(crate) place: Option<Place>,
    pub(crate) package: String,
    pub(crate) entries: Vec<Deprecation>,
}

/// Version and release of a bundle, as text; 0.0.0 if it has no valid version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BundleVersion {
    pub(crate) version: String,
    pub(crate) release: Option<String>,
    pub(crate) has_build: bool,
}

impl Default for BundleVersion {
    fn default() -> Self {
        Self { version: "0.0.0".to_owned(), release: None, has_build: false }
    }
}

impl BundleVersion {
    /// The text by which upstream compares it among the bundles of a package.
    pub(super) fn text(&self) -> String {
        match &self.release {
            None => self.version.clone(),
            Some(release) => format!("{}-{release}", self.version),
        }
    }
}

/// The facts of one blob.
pub(crate) enum Fact {
    Package(PackageFact),
    Channel(ChannelFact),
    Bundle(BundleFact),
    Deprecations(DeprecationsFact),
    /// A schema without validation.
    Other,
}

impl Fact {
    /// Checks only that upstream would load the blob.
    pub(crate) fn check(found: &Found<'_>, path: &Arc<str>) -> Result<(), LoadError> {
        Self::read(found, path).map(|_| ())
    }

    /// Reads the facts of a blob. An error means that upstream refuses to load the catalog at all.
    pub(crate) fn read(found: &Found<'_>, path: &Arc<str>) -> Result<Self, LoadError> {
        let place = Some(Place { path: Arc::clone(path), line: found.line });
        Self::of_fields(&found.schema, found.fields, place).map_err(|shape| found.shape_error(shape))
    }

    fn of_fields(schema: &str, fields: &Fields<'_>, place: Option<Place>) -> Result<Self, Shape> {
        Ok(match schema {
            SCHEMA_PACKAGE => {
                let package = PackageBlob::read(fields)?;
                if let Some((data, _)) = &package.icon {
                    decode_base64(data).map_err(|_| not_base64("icon.base64data"))?;
                }
                Self::Package(PackageFact { place, name: package.name.into_owned(), default_channel: package.default_channel.into_owned() })
            }
            SCHEMA_CHANNEL => {
                let channel = ChannelBlob::read(fields)?;
                Self::Channel(ChannelFact {
                    place,
                    package: channel.package.into_owned(),
                    name: channel.name.into_owned(),
                    entries: channel.entries.into_iter().map(Entry::from).collect(),
                })
            }
            SCHEMA_BUNDLE => {
                let bundle = BundleBlob::read(fields)?;
                let properties: Vec<(&str, &str)> = bundle.properties.iter().map(|p| (p.kind.as_ref(), p.value.get())).collect();
                readable_objects(&properties)?;
                let images = bundle.related_images.iter().map(|(_, image)| image.as_ref());
                Self::Bundle(bundle_fact(place, (&bundle.package, &bundle.name), &bundle.image, &properties, images))
            }
            SCHEMA_DEPRECATIONS => {
                let deprecations = DeprecationsBlob::read(fields)?;
                let entries = deprecations.entries.into_iter().map(|entry| Deprecation {
                    reference: Reference { schema: entry.schema.into_owned(), name: entry.name.into_owned() },
                    message: entry.message.into_owned(),
                });
                Self::Deprecations(DeprecationsFact { place, package: deprecations.package.into_owned(), entries: entries.collect() })
            }
            _ => Self::Other,
        })
    }
}

impl Facts {
    pub(crate) fn add(&mut self, fact: Fact) {
        match fact {
            Fact::Package(package) => self.packages.push(package),
            Fact::Channel(channel) => self.channels.push(channel),
            Fact::Bundle(bundle) => self.bundles.push(bundle),
            Fact::Deprecations(deprecations) => self.deprecations.push(deprecations),
            Fact::Other => {}
        }
    }

    /// The facts of a catalog in memory, without the positions of its blobs.
    pub(super) fn of(catalog: &Catalog) -> Self {
        let packages = catalog.packages.iter().map(|package| PackageFact {
            place: None,
            name: package.name.as_str().to_owned(),
            default_channel: package.default_channel.as_str().to_owned(),
        });
        let channels = catalog.channels.iter().map(|channel| ChannelFact {
            place: None,
            package: channel.package.as_str().to_owned(),
            name: channel.name.as_str().to_owned(),
            entries: channel.entries.clone(),
        });
        let bundles = catalog.bundles.iter().map(|bundle| {
            let properties: Vec<(&str, &str)> = bundle.properties.iter().map(|p| (p.kind.as_str(), p.value.get())).collect();
            let images = bundle.related_images.iter().map(|related| related.image.as_str());
            bundle_fact(None, (bundle.package.as_str(), bundle.name.as_str()), &bundle.image, &properties, images)
        });
        let deprecations = catalog.deprecations.iter().map(|deprecations| DeprecationsFact {
            place: None,
            package: deprecations.package.as_str().to_owned(),
            entries: deprecations.entries.clone(),
        });
        Self {
            packages: packages.collect(),
            channels: channels.collect(),
            bundles: bundles.collect(),
            deprecations: deprecations.collect(),
        }
    }
}

/// Go ignores the bits that are left over.
const BASE64: GeneralPurpose = GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// Decodes a base64 text as Go does: line ends inside are ignored.
pub(crate) fn decode_base64(text: &str) -> Result<Vec<u8>, base64::DecodeError> {
    if text.contains(['\n', '\r']) { BASE64.decode(text.replace(['\n', '\r'], "")) } else { BASE64.decode(text) }
}

fn not_base64(field: &str) -> Shape {
    Shape { field: field.to_owned(), expected: "base64 with its padding", found: "something else" }
}

/// Checks that the manifests inside a bundle are readable: upstream decodes them on loading, for its older interface.
fn readable_objects(properties: &[(&str, &str)]) -> Result<(), Shape> {
    for (index, (_, value)) in properties.iter().enumerate().filter(|(_, (kind, _))| *kind == "olm.bundle.object") {
        let at = format!("properties[{index}].value");
        let fields = Fields::read(value, &at)?;
        let object = decode_base64(&fields.text("data")?).map_err(|_| not_base64(&format!("{at}.data")))?;
        let start = object.iter().position(|byte| !byte.is_ascii_whitespace());
        if start.is_some_and(|start| object[start] == b'{') {
            continue;
        }
        let shape = |found| Shape { field: format!("{at}.data"), expected: "a manifest in base64, JSON or YAML", found };
        let text = std::str::from_utf8(&object).map_err(|_| shape("bytes that are no UTF-8"))?;
        if mainstay_yaml::stream(text).next().is_some_and(|document| document.is_err()) {
            return Err(shape("text that is no YAML"));
        }
    }
    Ok(())
}

/// Checks everything in a bundle's blob by itself (CATLG-23).
fn bundle_fact<'i>(
    place: Option<Place>,
    (package, name): (&str, &str),
    image: &'i str,
    properties: &[(&str, &str)],
    related_images: impl Iterator<Item = &'i str>,
) -> BundleFact {
    let mut wrong = Vec::new();
    if let Some(reason) = properties.iter().enumerate().find_map(|(index, (kind, value))| go_types::property_error(index, kind, value)) {
        wrong.push((Rule::UnreadableProperty, format!("parse properties for bundle {}: {reason}", quote(name))));
    }
    let of_package: Vec<&str> = properties.iter().filter(|(kind, _)| *kind == SCHEMA_PACKAGE).map(|(_, value)| *value).collect();
    let count = of_package.len();
    if count != 1 {
        let owner = format!("package {} bundle {}", quote(package), quote(name));
        let text = format!("{owner} must have exactly 1 {} property, found {count}", quote(SCHEMA_PACKAGE));
        wrong.push((Rule::PackageProperty, text));
    }
    let first = of_package.first().and_then(|value| OfPackage::read(value)).filter(|_| count == 1);
    if let Some(first) = first.as_ref().filter(|first| first.name != package) {
        let text = format!("package {} does not match {} property {}", quote(package), quote(SCHEMA_PACKAGE), quote(&first.name));
        wrong.push((Rule::PackagePropertyName, text));
    }
    let related = related_images.enumerate().map(|(index, image)| (Some(index), image));
    for (index, spec) in std::iter::once((None, image)).chain(related).filter(|(_, spec)| !spec.is_empty()) {
        if let Err(reason) = check_pull_spec(spec) {
            let field = index.map_or_else(|| "image".to_owned(), |index| format!("relatedImages[{index}].image"));
            let subject = format!("package {} bundle {} {field}", quote(package), quote(name));
            wrong.push((Rule::PullSpec, format!("{subject}: invalid image pull spec {}: {reason}", quote(spec))));
        }
    }
    BundleFact {
        place,
        package: package.to_owned(),
        name: name.to_owned(),
        version: first.map_or_else(BundleVersion::default, |first| version(name, first, &mut wrong)),
        wrong,
        package_properties: count,
        has_content: !image.is_empty() || properties.iter().any(|(kind, _)| *kind == "olm.bundle.object"),
    }
}

fn version(name: &str, found: OfPackage, wrong: &mut Vec<(Rule, String)>) -> BundleVersion {
    let mut version = BundleVersion::default();
    match Version::parse(&found.version) {
        Ok(parsed) => {
            version.has_build = found.version.contains('+');
            version.version = parsed.to_string();
        }
        Err(reason) => {
            wrong.push((Rule::Version, format!("error parsing bundle {} version {}: {reason}", quote(name), quote(&found.version))));
        }
    }
    if !found.release.is_empty() {
        // A release is a list of identifiers as in a pre-release.
        match Version::parse(&format!("0.0.0-{}", found.release)) {
            Ok(_) if found.release.contains('+') => {
                let text = format!("bundle {} release version {} cannot contain build metadata", quote(name), quote(&found.release));
                wrong.push((Rule::Release, text));
            }
            Ok(_) => version.release = Some(found.release),
            Err(reason) => {
                let text = format!("error parsing bundle {} release version {}: {reason}", quote(name), quote(&found.release));
                wrong.push((Rule::Release, text));
            }
        }
    }
    version
}

/// Value of an `olm.package` property.
struct OfPackage {
    name: String,
    version: String,
    release: String,
}

impl OfPackage {
    fn read(json: &str) -> Option<Self> {
        let fields = Fields::read(json, "value").ok()?;
        let text = |field| fields.text(field).ok().map(std::borrow::Cow::into_owned);
        Some(Self { name: text("packageName")?, version: text("version")?, release: text("release")? })
    }
}
