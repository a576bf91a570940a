//! The installed CSVs as a source (OLM0-RES-20).

use std::collections::{BTreeMap, BTreeSet};

use mainstay_versions::Version;

use crate::api::Api;
use crate::properties;

use super::entry::{Content, Entry, package_property, provided, required};
use super::error::ExistingFailure;
use super::snapshot::{Csv, Snapshot, Subscription};

/// The installed CSVs of a namespace.
pub(super) struct Existing {
    /// The entries of those that can be read, by name.
    pub(super) content: Content,
    /// The problem with the first that cannot.
    pub(super) failure: Option<ExistingFailure>,
}

/// Reads the CSVs of the namespace.
pub(super) fn read(snapshot: &Snapshot) -> Existing {
    let [group] = snapshot.operator_groups.as_slice() else {
        let failure = Some(ExistingFailure::Groups(snapshot.operator_groups.len()));
        return Existing { content: Content::default(), failure };
    };
    let csvs: BTreeMap<&str, &Csv> =
        snapshot.csvs.iter().filter(|csv| csv.namespace == snapshot.namespace).map(|csv| (csv.name.as_str(), csv)).collect();
    let replaced_by: BTreeMap<&str, &Csv> =
        csvs.values().filter(|csv| !csv.replaces.is_empty()).map(|csv| (csv.replaces.as_str(), *csv)).collect();
    // A CSV whose last successor failed is out of the way, so that a newer one can replace the successor (OLM0-UPG-16).
    let in_the_way =
        |csv: &Csv| Ok(!group.fails_forward || last_of_chain(csv, &replaced_by)?.phase != "Failed" || csv.phase != "Replacing");
    let (mut entries, mut failure) = (Vec::new(), None);
    for csv in csvs.values().filter(|csv| !csv.copied) {
        match in_the_way(csv).and_then(|counts| counts.then(|| entry(csv, &snapshot.subscriptions)).transpose()) {
            Ok(entry) => entries.extend(entry),
            Err(problem) => failure = failure.or(Some(problem)),
        }
    }
    Existing { content: Content::of_entries(entries), failure }
}

/// The last CSV of the chain of replacements; all before it must be being replaced.
fn last_of_chain<'c>(csv: &'c Csv, replaced_by: &BTreeMap<&str, &'c Csv>) -> Result<&'c Csv, ExistingFailure> {
    let (mut at, mut seen) = (csv, BTreeSet::new());
    while let Some(next) = replaced_by.get(at.name.as_str()) {
        let (namespace, name) = (at.namespace.clone(), at.name.clone());
        if at.phase != "Replacing" {
            return Err(ExistingFailure::NotReplacing { namespace, name, phase: at.phase.clone() });
        }
        if !seen.insert(at.name.as_str()) {
            return Err(ExistingFailure::Circle { namespace, name });
        }
        at = next;
    }
    Ok(at)
}

fn entry(csv: &Csv, subscriptions: &[Subscription]) -> Result<Entry, ExistingFailure> {
    let crds = |crds: &[(String, String, String)]| {
        let api = |(name, version, kind): &(String, String, String)| match name.split_once('.') {
            Some((_, group)) => Ok(Api { group: group.to_owned(), version: version.clone(), kind: kind.clone() }),
            None => Err(ExistingFailure::CrdName(name.clone())),
        };
        crds.iter().map(api).collect::<Result<Vec<_>, _>>()
    };
    let owned = crds(&csv.owned_crds)?.into_iter().chain(csv.owned_api_services.iter().cloned());
    let needed = crds(&csv.required_crds)?.into_iter().chain(csv.required_api_services.iter().cloned());
    let owners: Vec<&Subscription> = subscriptions.iter().filter(|subscription| subscription.installed_csv == csv.name).collect();
    let read = if let Some(annotation) = &csv.properties {
        properties::read(annotation).map_err(|error| ExistingFailure::Properties { csv: csv.name.clone(), error })?
    } else {
        let mut all = provided(owned);
        all.extend(required(needed));
        // The package of a CSV without the annotation follows from the Subscriptions, if they agree.
        let packages: BTreeSet<&str> = owners.iter().map(|owner| owner.package.as_str()).filter(|package| !package.is_empty()).collect();
        if packages.len() == 1 {
            all.extend(packages.first().map(|package| package_property(package, &written_version(csv))));
        }
        all
    };
    let mut entry = Entry::new(&csv.name, read);
    entry.version = Some(Version::parse_tolerant(&csv.version).unwrap_or(Version::new(0, 0, 0)));
    entry.subscribed = !owners.is_empty();
    if let Some((package, _)) = entry.packages().last() {
        entry.package = package.clone();
    }
    Ok(entry)
}

/// The version, empty if it is 0.0.0.
fn written_version(csv: &Csv) -> String {
    let zero = Version::new(0, 0, 0);
    let version = Version::parse_tolerant(&csv.version).unwrap_or(Version::new(0, 0, 0));
    if version.cmp_precedence(&zero).is_eq() { String::new() } else { version.to_string() }
}
