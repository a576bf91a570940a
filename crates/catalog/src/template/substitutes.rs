//! The template that substitutes bundles by others.

use mainstay_versions::Version;
use serde_json::Value;

use super::basic::{add, entries};
use super::keys::Keys;
use super::{Kind, RenderBundle, TemplateError};
use crate::model::{Bundle, BundleName, Catalog, Channel, Entry};
use crate::validate::validate;

/// Reads the entries as a catalog and makes one substitution after the other.
pub(super) fn compile(template: &Value, render: &mut RenderBundle<'_>) -> Result<Catalog, TemplateError> {
    let parse = |error: TemplateError| TemplateError::Render(format!("render: unable to parse template: {error}"));
    let entries = entries(template, Kind::Substitutes).map_err(parse)?;
    let substitutions = substitutions(template).map_err(parse)?;
    let mut catalog = Catalog::default();
    for (index, entry) in entries.iter().enumerate() {
        add(&mut catalog, index, entry).map_err(TemplateError::Entries)?;
    }
    validate(&catalog).map_err(|validation| TemplateError::Invalid(validation.to_string()))?;
    for substitution in substitutions {
        let made = substitution.make(&mut catalog, render);
        made.map_err(|problem| TemplateError::Substitution { base: substitution.base, name: substitution.name, problem })?;
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
    fn make(&self, catalog: &mut Catalog, render: &mut RenderBundle<'_>) -> Result<(), String> {
        let Self { name, base } = self;
        if name.is_empty() {
            return Err("substitution name cannot be empty".to_owned());
        }
        if base.is_empty() {
            return Err("substitution base cannot be empty".to_owned());
        }
        if name == base {
            return Err("substitution name and base cannot be the same".to_owned());
        }
        let rendered = render(name).map_err(|error| format!("failed to render bundle image reference {name:?}: {error}"))?;
        let Some(substitute) = rendered.bundles.into_iter().next() else {
            return Err(format!("rendered bundle image reference {name:?} contains no bundles"));
        };
        let new = Composite::of(&substitute)
            .map_err(|error| format!("failed to get composite version for substitute bundle {name:?}: {error}"))?;
        let Some(old) = catalog.bundles.iter().find(|bundle| bundle.name.as_str() == base) else {
            return Err(format!("base bundle {base:?} does not exist in catalog"));
        };
        let old_version =
            Composite::of(old).map_err(|error| format!("failed to get composite version for base bundle {base:?}: {error}"))?;
        if old.name == substitute.name || !old_version.is_below(&new) {
            return Err(format!("base bundle {base:?} is not less than substitute bundle {name:?}"));
        }
        let base = BundleName::new(base.as_str());
        catalog.channels.iter_mut().for_each(|channel| replace(channel, &base, &substitute.name));
        catalog.bundles.push(substitute);
        validate(catalog).map_err(|validation| format!("resulting config is not valid FBC: {validation}"))
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
struct Composite {
    version: Version,
    release: Option<Version>,
}

impl Composite {
    fn of(bundle: &Bundle) -> Result<Self, String> {
        let name = bundle.name.as_str();
        let found: Vec<_> = bundle.properties.iter().filter(|property| property.kind == "olm.package").collect();
        let [property] = found.as_slice() else {
            return Err(format!("bundle {name:?} must have exactly 1 \"olm.package\" property, found {}", found.len()));
        };
        let value: Value =
            serde_json::from_str(property.value.get()).map_err(|error| format!("parse properties for bundle {name:?}: {error}"))?;
        let text = |key: &str| value[key].as_str().unwrap_or_default();
        let version = Version::parse(text("version"))
            .map_err(|reason| format!("bundle {name:?} has invalid version {:?}: {reason}", text("version")))?;
        let release = match text("release") {
            "" => None,
            release if release.contains('+') => {
                return Err(format!("bundle {name:?} release version {release:?} cannot contain build metadata"));
            }
            release => Some(
                Version::parse(&format!("0.0.0-{release}"))
                    .map_err(|reason| format!("error parsing bundle {name:?} release version {release:?}: {reason}"))?,
            ),
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
