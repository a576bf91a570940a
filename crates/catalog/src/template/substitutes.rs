//! The template that substitutes bundles by others.

use mainstay_versions::Version;
use serde_json::Value;

use super::basic::{add, entries};
use super::keys::Keys;
use super::{CompositeVersionError, Kind, RenderBundle, SubstitutionError, TemplateError};
use crate::model::{Bundle, BundleName, Catalog, Channel, Entry};
use crate::validate::validate;

/// Reads the entries as a catalog and makes one substitution after the other.
pub(super) fn compile(template: &Value, render: &mut RenderBundle<'_>) -> Result<Catalog, TemplateError> {
    let parse = |error: TemplateError| TemplateError::Parse(Box::new(error));
    let entries = entries(template, Kind::Substitutes).map_err(parse)?;
    let substitutions = substitutions(template).map_err(parse)?;
    let mut catalog = Catalog::default();
    for (index, entry) in entries.iter().enumerate() {
        add(&mut catalog, index, entry).map_err(TemplateError::Entries)?;
    }
    validate(&catalog).map_err(|validation| TemplateError::Invalid(validation.to_string()))?;
    for substitution in substitutions {
        let made = substitution.make(&mut catalog, render);
        made.map_err(|problem| TemplateError::Substitution {
            base: substitution.base,
            name: substitution.name,
            problem: Box::new(problem),
        })?;
    }
    Ok(catalog)
}

fn substitutions(template: &Value) -> Result<Vec<Substitution>, TemplateError> {
    let mut all = Vec::new();
    for (index, value) in Keys::any(template, "")?.list("substitutions")?.iter().enumerate() {
        let keys = Keys::any(value, &format!("substitutions[{index}]"))?;
        all.push(Substitution { name: keys.text("name")?.to_owned(), base: keys.text("base")?.to_owned() });
    }
    Ok(all)
}

/// An image that replaces a bundle.
struct Substitution {
    name: String,
    base: String,
}

impl Substitution {
    fn make(&self, catalog: &mut Catalog, render: &mut RenderBundle<'_>) -> Result<(), SubstitutionError> {
        let Self { name, base } = self;
        if name.is_empty() {
            return Err(SubstitutionError::NoName);
        }
        if base.is_empty() {
            return Err(SubstitutionError::NoBase);
        }
        if name == base {
            return Err(SubstitutionError::Same);
        }
        let (name, base) = (name.clone(), base.clone());
        let rendered = match render(&name) {
            Ok(rendered) => rendered,
            Err(source) => return Err(SubstitutionError::Render { name, source }),
        };
        let Some(substitute) = rendered.bundles.into_iter().next() else { return Err(SubstitutionError::NoBundle(name)) };
        let new = match CompositeVersion::of(&substitute) {
            Ok(version) => version,
            Err(source) => return Err(SubstitutionError::SubstituteVersion { name, source }),
        };
        let Some(old) = catalog.bundles.iter().find(|bundle| bundle.name.as_str() == base) else {
            return Err(SubstitutionError::UnknownBase(base));
        };
        let old_version = match CompositeVersion::of(old) {
            Ok(version) => version,
            Err(source) => return Err(SubstitutionError::BaseVersion { base, source }),
        };
        if old.name == substitute.name || !old_version.is_below(&new) {
            return Err(SubstitutionError::NotLess { base, name });
        }
        let base = BundleName::new(base);
        catalog.channels.iter_mut().for_each(|channel| replace(channel, &base, &substitute.name));
        catalog.bundles.push(substitute);
        validate(catalog).map_err(SubstitutionError::Invalid)
    }
}

/// Gives the new bundle the edges of the old one, and a skip of it; edges to the old bundle lead to the new one.
fn replace(channel: &mut Channel, base: &BundleName, name: &BundleName) {
    let mut added = Vec::new();
    for entry in channel.entries.iter_mut().filter(|entry| entry.name == *base) {
        let mut skips = std::mem::take(&mut entry.skips);
        skips.push(base.clone());
        added.push(Entry { name: name.clone(), replaces: entry.replaces.take(), skips, skip_range: entry.skip_range.take() });
    }
    for entry in &mut channel.entries {
        if entry.replaces.as_ref() == Some(base) {
            entry.replaces = Some(name.clone());
            entry.skips.push(base.clone());
        } else if entry.skips.contains(base) {
            entry.skips.push(name.clone());
            entry.skips.retain(|skip| skip != base);
        }
    }
    channel.entries.extend(added.into_iter().rev());
}

/// A version, and the release that distinguishes its builds.
struct CompositeVersion {
    version: Version,
    release: Option<Version>,
}

impl CompositeVersion {
    fn of(bundle: &Bundle) -> Result<Self, CompositeVersionError> {
        let name = || bundle.name.as_str().to_owned();
        let found: Vec<_> = bundle.properties.iter().filter(|property| property.kind == "olm.package").collect();
        let [property] = found.as_slice() else {
            return Err(CompositeVersionError::Count { bundle: name(), count: found.len() });
        };
        let value: Value =
            serde_json::from_str(property.value.get()).map_err(|source| CompositeVersionError::Property { bundle: name(), source })?;
        let text = |key: &str| value[key].as_str().unwrap_or_default();
        let version = Version::parse(text("version")).map_err(|source| CompositeVersionError::Version {
            bundle: name(),
            version: text("version").to_owned(),
            source,
        })?;
        let release = match text("release") {
            "" => None,
            release if release.contains('+') => {
                return Err(CompositeVersionError::BuildMetadata { bundle: name(), release: release.to_owned() });
            }
            release => Some(Version::parse(&format!("0.0.0-{release}")).map_err(|source| CompositeVersionError::Release {
                bundle: name(),
                release: release.to_owned(),
                source,
            })?),
        };
        Ok(Self { version, release })
    }

    /// Returns true if this version is lower; a version without a release is lower than the same version with one.
    fn is_below(&self, other: &Self) -> bool {
        let releases = || match (&self.release, &other.release) {
            (Some(one), Some(two)) => one.cmp_precedence(two),
            (one, two) => one.is_some().cmp(&two.is_some()),
        };
        self.version.cmp_precedence(&other.version).then_with(releases).is_lt()
    }
}
