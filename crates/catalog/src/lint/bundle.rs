//! Rules about single bundles and blobs: names, properties, sizes.

use mainstay_versions::{CatalogRange, Version};

use super::{Report, Rule, Subject, Subjects};
use crate::model::{Bundle, Catalog, SCHEMA_BUNDLE};
use crate::properties::{KNOWN_PROPERTIES, Need, needs, values};

/// Largest message that gRPC clients accept by default, in bytes.
const LARGE: u32 = 4 << 20;

pub(super) fn check(package: &Subjects<'_>, report: &mut Report<'_>) {
    let mut with_objects = Vec::new();
    for bundle in &package.parts.bundles {
        let here = Subject::bundle(package.name, bundle.name.as_str());
        if let Some((said, version)) = named_version(package, bundle) {
            report.add(Rule::NameVersion, here, format!("the name says {said}, olm.package says {version}"));
        }
        max_openshift_version(bundle, here, report);
        ranges(bundle, here, report);
        let mut unknown: Vec<&str> =
            bundle.properties.iter().map(|property| property.kind.as_str()).filter(|kind| is_unknown(kind)).collect();
        unknown.sort_unstable();
        unknown.dedup();
        for kind in unknown {
            report.add(Rule::UnknownProperty, here, format!("property type {kind} is not known"));
        }
        if let Some(place) = report.places.of(SCHEMA_BUNDLE, package.name, bundle.name.as_str()).filter(|place| place.bytes > LARGE) {
            report.add(Rule::LargeBlob, here, format!("the blob has {} bytes", place.bytes));
        }
        if values(bundle, "olm.bundle.object").next().is_some() {
            with_objects.push(bundle.name.as_str());
        }
    }
    if let Some(first) = with_objects.first() {
        let message =
            format!("{} of {} bundles of the package have olm.bundle.object properties", with_objects.len(), package.parts.bundles.len());
        report.add(Rule::BundleObject, Subject::bundle(package.name, first), message);
    }
}

/// Reports blobs of reserved schemas that are not defined.
pub(super) fn check_others(catalog: &Catalog, report: &mut Report<'_>) {
    for other in catalog.others.iter().filter(|other| other.schema.starts_with("olm.")) {
        let place = report.places.of(&other.schema, &other.package, &other.name);
        let message = format!(
            "schema {} is not known{}",
            other.schema,
            if other.name.is_empty() { String::new() } else { format!(" (blob {})", other.name) }
        );
        report.add_at(Rule::UnknownSchema, Subject::package(&other.package), place, message);
    }
}

fn is_unknown(kind: &str) -> bool {
    kind.starts_with("olm.") && !KNOWN_PROPERTIES.contains(&kind)
}

/// The version in a bundle's name, if it differs from the bundle's own.
fn named_version<'a>(package: &'a Subjects<'_>, bundle: &'a Bundle) -> Option<(String, &'a Version)> {
    let version = package.versions.get(bundle.name.as_str())?.as_ref()?;
    let name = bundle.name.as_str();
    let said = name.match_indices(".v").map(|(at, _)| &name[at + 2..]).find_map(|text| Version::parse(text).ok())?;
    let same = said.cmp_precedence(version).is_eq() || {
        // A `+` is not allowed in names, so build metadata is written with a dash.
        let text = version.to_string();
        said.to_string() == text.replace('+', "-")
    };
    (!same).then(|| (said.to_string(), version))
}

fn max_openshift_version(bundle: &Bundle, here: Subject<'_>, report: &mut Report<'_>) {
    let said: Vec<&str> = values(bundle, "olm.maxOpenShiftVersion").collect();
    if said.len() > 1 {
        report.add(Rule::MaxOpenShiftVersion, here, format!("olm.maxOpenShiftVersion is given {} times", said.len()));
    }
    for json in said {
        let text = serde_json::from_str::<String>(json).unwrap_or_else(|_| json.to_owned());
        let parts = text.split('.').count();
        let full = match parts {
            2 => format!("{text}.0"),
            _ => text.clone(),
        };
        if Version::parse(&full).is_err() {
            report.add(Rule::MaxOpenShiftVersion, here, format!("olm.maxOpenShiftVersion is {json}"));
        } else if !json.starts_with('"') {
            report.add(
                Rule::MaxOpenShiftVersion,
                here,
                format!("olm.maxOpenShiftVersion is the number {json}, which loses a zero at its end"),
            );
        }
    }
}

fn ranges(bundle: &Bundle, here: Subject<'_>, report: &mut Report<'_>) {
    fn visit(need: &Need, found: &mut Vec<(String, String)>) {
        match need {
            Need::Package { package, range } => {
                if let Err(error) = CatalogRange::parse(range) {
                    found.push((package.clone(), format!("{range:?}: {error}")));
                }
            }
            Need::All(needs) | Need::Any(needs) | Need::Not(needs) => needs.iter().for_each(|need| visit(need, found)),
            Need::Api(_) | Need::Expression(_) => {}
        }
    }
    let mut found = Vec::new();
    for need in needs(bundle) {
        visit(&need, &mut found);
    }
    for (package, problem) in found {
        report.add(Rule::DependencyRange, here, format!("the range of package {package} cannot be read: {problem}"));
    }
}
