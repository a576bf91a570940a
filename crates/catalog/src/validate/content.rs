//! Content checks that upstream ends at the first hit (CATLG-23, CATLG-24), and the model that the later checks look at.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use mainstay_versions::Version;

use super::{Finding, Scope, quoted};
use crate::decode::{Fields, kind_of};
use crate::model::{Bundle, Catalog, Channel, Property, Reference, SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_PACKAGE};
use crate::pullspec::check_pull_spec;

/// Whether to look further after a finding.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Stop,
    GoOn,
}

/// Packages by name, as the model checks see them.
#[derive(Default)]
pub(super) struct Model<'a> {
    pub(super) packages: BTreeMap<&'a str, PackageModel<'a>>,
}

#[derive(Default)]
pub(super) struct PackageModel<'a> {
    pub(super) default_channel: &'a str,
    pub(super) channels: BTreeMap<&'a str, ChannelModel<'a>>,
    pub(super) bundles: HashMap<&'a str, BundleModel<'a>>,
    /// Messages of deprecations of the package itself.
    pub(super) deprecation: Option<&'a str>,
}

#[derive(Default)]
pub(super) struct ChannelModel<'a> {
    pub(super) channel: Option<&'a Channel>,
    pub(super) deprecation: Option<&'a str>,
}

pub(super) struct BundleModel<'a> {
    pub(super) image: &'a str,
    pub(super) has_objects: bool,
    /// Version as text without change, for the comparison of duplicates.
    pub(super) version: String,
    pub(super) release_with_build: bool,
    pub(super) package_properties: usize,
    pub(super) deprecation: Option<&'a str>,
}

type Report<'r> = dyn FnMut(Finding) -> Next + 'r;

/// Runs the checks in upstream's order. The returned model is complete unless `report` said stop.
pub(super) fn check<'a>(catalog: &'a Catalog, report: &mut Report<'_>) -> Model<'a> {
    let mut checker = Checker { catalog, report, model: Model::default() };
    // The error is only the wish to stop; what was found went to `report`.
    let _stopped = checker.all();
    checker.model
}

struct Stop;

struct Checker<'a, 'r, 's> {
    catalog: &'a Catalog,
    report: &'r mut Report<'s>,
    model: Model<'a>,
}

/// Entry names by package.
type Entries<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

impl<'a> Checker<'a, '_, '_> {
    fn hit(&mut self, scope: Scope, text: String) -> Result<(), Stop> {
        match (self.report)(Finding { scope, text }) {
            Next::Stop => Err(Stop),
            Next::GoOn => Ok(()),
        }
    }

    fn all(&mut self) -> Result<(), Stop> {
        self.packages()?;
        let mut wanted = self.channels()?;
        self.bundles(&mut wanted)?;
        for (package, entries) in wanted.into_iter().filter(|(_, entries)| !entries.is_empty()) {
            let entries: Vec<&str> = entries.into_iter().collect();
            let text = format!("no olm.bundle blobs found in package {} for olm.channel entries [{}]", quoted(package), entries.join(" "));
            self.hit(Scope::package(package), text)?;
        }
        self.deprecations()
    }

    fn packages(&mut self) -> Result<(), Stop> {
        for package in &self.catalog.packages {
            let name = package.name.as_str();
            if name.is_empty() {
                self.hit(Scope::catalog(), "config contains package with no name".to_owned())?;
                continue;
            }
            if self.model.packages.contains_key(name) {
                self.hit(Scope::package(name), format!("duplicate package {}", quoted(name)))?;
                continue;
            }
            let reasons = dns1123_label(name);
            if !reasons.is_empty() {
                self.hit(Scope::package(name), format!("invalid package name {}: [{}]", quoted(name), reasons.join(" ")))?;
            }
            let model = PackageModel { default_channel: package.default_channel.as_str(), ..PackageModel::default() };
            self.model.packages.insert(name, model);
        }
        Ok(())
    }

    /// Returns the entries of the last channel of each package: those are the ones upstream looks for among the bundles.
    fn channels(&mut self) -> Result<Entries<'a>, Stop> {
        let mut wanted = Entries::new();
        for channel in &self.catalog.channels {
            let (package, name) = (channel.package.as_str(), channel.name.as_str());
            let Some(model) = self.model.packages.get(package) else {
                self.hit(Scope::catalog(), format!("unknown package {} for channel {}", quoted(package), quoted(name)))?;
                continue;
            };
            let duplicate = model.channels.contains_key(name);
            if name.is_empty() {
                self.hit(Scope::package(package), format!("package {} contains channel with no name", quoted(package)))?;
                continue;
            }
            if duplicate {
                self.hit(Scope::channel(package, name), format!("package {} has duplicate channel {}", quoted(package), quoted(name)))?;
                continue;
            }
            let mut entries = BTreeSet::new();
            for entry in &channel.entries {
                if !entries.insert(entry.name.as_str()) {
                    let text = format!(
                        "invalid package {}, channel {}: duplicate entry {}",
                        quoted(package),
                        quoted(name),
                        quoted(entry.name.as_str())
                    );
                    self.hit(Scope::channel(package, name), text)?;
                }
            }
            wanted.insert(package, entries);
            if let Some(model) = self.model.packages.get_mut(package) {
                model.channels.insert(name, ChannelModel { channel: Some(channel), deprecation: None });
            }
        }
        Ok(wanted)
    }

    fn bundles(&mut self, wanted: &mut Entries<'a>) -> Result<(), Stop> {
        let mut in_channels: HashMap<&str, HashSet<&str>> = HashMap::new();
        for channel in &self.catalog.channels {
            in_channels.entry(channel.package.as_str()).or_default().extend(channel.entries.iter().map(|entry| entry.name.as_str()));
        }
        for bundle in &self.catalog.bundles {
            let (package, name) = (bundle.package.as_str(), bundle.name.as_str());
            if package.is_empty() {
                self.hit(Scope::catalog(), format!("package name must be set for bundle {}", quoted(name)))?;
                continue;
            }
            let Some(model) = self.model.packages.get(package) else {
                self.hit(Scope::catalog(), format!("unknown package {} for bundle {}", quoted(package), quoted(name)))?;
                continue;
            };
            if model.bundles.contains_key(name) {
                self.hit(Scope::package(package), format!("package {} has duplicate bundle {}", quoted(package), quoted(name)))?;
                continue;
            }
            let facts = self.bundle(bundle)?;
            if let Some(entries) = wanted.get_mut(package) {
                entries.remove(name);
            }
            if !in_channels.get(package).is_some_and(|names| names.contains(name)) {
                let text = format!("package {}, bundle {} not found in any channel entries", quoted(package), quoted(name));
                self.hit(Scope::package(package), text)?;
            }
            if let Some(model) = self.model.packages.get_mut(package) {
                model.bundles.insert(name, facts);
            }
        }
        Ok(())
    }

    fn bundle(&mut self, bundle: &'a Bundle) -> Result<BundleModel<'a>, Stop> {
        let (package, name) = (bundle.package.as_str(), bundle.name.as_str());
        let at = || Scope::package(package);
        if let Some(reason) = bundle.properties.iter().enumerate().find_map(|(i, property)| property_error(i, property)) {
            self.hit(at(), format!("parse properties for bundle {}: {reason}", quoted(name)))?;
        }
        let of_package: Vec<OfPackage> =
            bundle.properties.iter().filter(|p| p.kind == SCHEMA_PACKAGE).filter_map(|p| OfPackage::read(p.value.get())).collect();
        let count = bundle.properties.iter().filter(|p| p.kind == SCHEMA_PACKAGE).count();
        if count != 1 {
            let text = format!(
                "package {} bundle {} must have exactly 1 {} property, found {count}",
                quoted(package),
                quoted(name),
                quoted(SCHEMA_PACKAGE)
            );
            self.hit(at(), text)?;
        }
        let first = of_package.into_iter().next().unwrap_or_default();
        if count == 1 && first.name != package {
            let text = format!("package {} does not match {} property {}", quoted(package), quoted(SCHEMA_PACKAGE), quoted(&first.name));
            self.hit(at(), text)?;
        }
        let images = std::iter::once(("image".to_owned(), bundle.image.as_str())).chain(
            bundle.related_images.iter().enumerate().map(|(i, related)| (format!("relatedImages[{i}].image"), related.image.as_str())),
        );
        for (field, spec) in images.filter(|(_, spec)| !spec.is_empty()) {
            if let Err(reason) = check_pull_spec(spec) {
                let subject = format!("package {} bundle {} {field}", quoted(package), quoted(name));
                self.hit(at(), format!("{subject}: invalid image pull spec {}: {reason}", quoted(spec)))?;
            }
        }
        let mut version = "0.0.0".to_owned();
        let mut build = false;
        if count == 1 {
            match Version::parse(&first.version) {
                Ok(parsed) => {
                    build = first.version.contains('+');
                    version = parsed.to_string();
                }
                Err(reason) => {
                    let text = format!("error parsing bundle {} version {}: {reason}", quoted(name), quoted(&first.version));
                    self.hit(at(), text)?;
                }
            }
            if let Some(release) = first.release.as_deref().filter(|release| !release.is_empty()) {
                if let Err(reason) = check_release(release) {
                    let text = format!("error parsing bundle {} release version {}: {reason}", quoted(name), quoted(release));
                    self.hit(at(), text)?;
                }
                version = format!("{version} (release {release})");
            }
        }
        Ok(BundleModel {
            image: &bundle.image,
            has_objects: bundle.properties.iter().any(|p| p.kind == "olm.bundle.object"),
            version,
            release_with_build: build && first.release.is_some_and(|release| !release.is_empty()),
            package_properties: count,
            deprecation: None,
        })
    }

    fn deprecations(&mut self) -> Result<(), Stop> {
        let mut seen = HashSet::new();
        for (i, deprecations) in self.catalog.deprecations.iter().enumerate() {
            let package = deprecations.package.as_str();
            if package.is_empty() {
                self.hit(Scope::catalog(), format!("package name must be set for deprecation item {i}"))?;
                continue;
            }
            if !self.model.packages.contains_key(package) {
                self.hit(Scope::catalog(), format!("cannot apply deprecations to an unknown package {}", quoted(package)))?;
                continue;
            }
            if !seen.insert(package) {
                self.hit(Scope::package(package), format!("expected a maximum of one deprecation per package: {}", quoted(package)))?;
                continue;
            }
            let mut references = HashSet::new();
            for (j, entry) in deprecations.entries.iter().enumerate() {
                let reference = &entry.reference;
                if reference.schema.is_empty() {
                    let text = format!("schema must be set for deprecation entry [{j}] for package {}", quoted(package));
                    self.hit(Scope::package(package), text)?;
                    continue;
                }
                if !references.insert(reference) {
                    let text = format!("duplicate deprecation entry {} for package {}", go_reference(reference), quoted(package));
                    self.hit(Scope::package(package), text)?;
                    continue;
                }
                if let Some(text) = self.deprecate(package, j, reference, &entry.message) {
                    self.hit(Scope::package(package), text)?;
                }
            }
        }
        Ok(())
    }

    /// Puts a deprecation where it belongs; the text says why it belongs nowhere.
    fn deprecate(&mut self, package: &str, j: usize, reference: &'a Reference, message: &'a str) -> Option<String> {
        let model = self.model.packages.get_mut(package)?;
        let name = reference.name.as_str();
        match reference.schema.as_str() {
            SCHEMA_BUNDLE => match model.bundles.get_mut(name) {
                Some(bundle) => bundle.deprecation = Some(message),
                None => return Some(format!("cannot deprecate bundle {} for package {}: bundle not found", quoted(name), quoted(package))),
            },
            SCHEMA_CHANNEL => {
                // A default channel that no blob describes is part of the model, empty.
                let default = model.default_channel == name && !name.is_empty();
                let channel = if default { Some(model.channels.entry(&reference.name).or_default()) } else { model.channels.get_mut(name) };
                match channel {
                    Some(channel) => channel.deprecation = Some(message),
                    None => {
                        return Some(format!(
                            "cannot deprecate channel {} for package {}: channel not found",
                            quoted(name),
                            quoted(package)
                        ));
                    }
                }
            }
            SCHEMA_PACKAGE if name.is_empty() => model.deprecation = Some(message),
            SCHEMA_PACKAGE => {
                return Some(format!("package name must be empty for deprecated package {} (specified {})", quoted(package), quoted(name)));
            }
            _ => {
                let object = go_reference(reference);
                return Some(format!(
                    "cannot deprecate object {object} referenced by entry {j} for package {}: object schema unknown",
                    quoted(package)
                ));
            }
        }
        None
    }
}

#[derive(Default)]
struct OfPackage {
    name: String,
    version: String,
    release: Option<String>,
}

impl OfPackage {
    fn read(json: &str) -> Option<Self> {
        let fields = Fields::read(json, "value").ok()?;
        let release = fields.get("release").and_then(|_| fields.text("release").ok());
        Some(Self {
            name: fields.text("packageName").ok()?.into_owned(),
            version: fields.text("version").ok()?.into_owned(),
            release: release.map(std::borrow::Cow::into_owned),
        })
    }
}

/// A release is a list of identifiers as in a pre-release.
fn check_release(release: &str) -> Result<(), String> {
    match Version::parse(&format!("0.0.0-{release}")) {
        Ok(_) => Ok(()),
        Err(reason) => Err(reason.to_string()),
    }
}

/// The first reason why a property of a known type can not be read, in the words of Go's JSON decoder.
fn property_error(index: usize, property: &Property) -> Option<String> {
    let (go_type, texts): (&str, &[&str]) = match property.kind.as_str() {
        SCHEMA_PACKAGE => ("property.Package", &["packageName", "version", "release"]),
        "olm.package.required" => ("property.PackageRequired", &["packageName", "versionRange"]),
        "olm.gvk" => ("property.GVK", &["group", "kind", "version"]),
        "olm.gvk.required" => ("property.GVKRequired", &["group", "kind", "version"]),
        _ => return None,
    };
    let json = property.value.get();
    let go_kind = |json: &str| match kind_of(json) {
        "a mapping" => "object",
        "a list" => "array",
        "a string" => "string",
        "a boolean" => "bool",
        _ => "number",
    };
    let frame = |reason: String| Some(format!("properties[{index}].value[{}] parse error: {reason}", property.kind));
    let Ok(fields) = Fields::read(json, "value") else {
        return frame(format!("json: cannot unmarshal {} into Go value of type {go_type}", go_kind(json)));
    };
    for field in texts {
        if fields.text(field).is_err() {
            let found = fields.get(field).map_or("null", |value| go_kind(value.get()));
            let short = go_type.trim_start_matches("property.");
            return frame(format!("json: cannot unmarshal {found} into Go struct field {short}.{field} of type string"));
        }
    }
    None
}

fn go_reference(reference: &Reference) -> String {
    format!("declcfg.PackageScopedReference{{Schema:{}, Name:{}}}", quoted(&reference.schema), quoted(&reference.name))
}

/// Why a text is no DNS-1123 label, in Kubernetes' words; empty when it is one.
fn dns1123_label(name: &str) -> Vec<String> {
    let mut reasons = Vec::new();
    if name.len() > 63 {
        reasons.push("must be no more than 63 characters".to_owned());
    }
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let edge = |b: Option<&u8>| b.is_some_and(|b| *b != b'-');
    if !name.bytes().all(inner) || !edge(name.as_bytes().first()) || !edge(name.as_bytes().last()) {
        reasons.push(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an \
             alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    reasons
}
