//! Support of installed Operators, as the next catalogs tell it (schema `io.openshift.operators.lifecycles.v1alpha1`).

use jiff::ToSpan as _;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use mainstay_catalog::Meta;
use mainstay_diagnostics::SharedError;
use mainstay_versions::Version;
use serde::Deserialize;

use super::catalogs::CatalogOperator;
use super::facts::{Facts, known};
use super::finding::{Check, Finding, Level, few};

const SCHEMA: &str = "io.openshift.operators.lifecycles.v1alpha1";
/// The platform whose versions are those of releases.
const PLATFORM: &str = "openshift";
/// The time before its end from which support is told of, in days.
const SOON: i64 = 90;
/// The most texts that an error names.
const MOST: usize = 5;

#[derive(Deserialize)]
struct Lifecycle {
    #[serde(default)]
    versions: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    name: String,
    #[serde(default)]
    phases: Vec<Phase>,
    #[serde(default)]
    platform_compatibility: Vec<Platform>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Phase {
    name: String,
    end_date: Date,
}

#[derive(Deserialize)]
struct Platform {
    name: String,
    #[serde(default)]
    versions: Vec<String>,
}

/// Operators whose installed version is out of support, or not made for the release. Packages whose vendor tells nothing are passed over.
pub(super) fn dates(facts: &Facts<'_>) -> (Vec<Finding>, Option<SharedError>) {
    let (operators, catalogs) = match (known(&facts.catalog_operators), known(&facts.next_catalogs)) {
        (Ok(operators), Ok(catalogs)) => (operators, catalogs),
        (Err(error), _) | (_, Err(error)) => return (Vec::new(), Some(error)),
    };
    let today = facts.now.to_zoned(TimeZone::UTC).date();
    let (mut findings, mut unread) = (Vec::new(), Vec::new());
    for operator in operators {
        let Some(version) = &operator.version else { continue };
        let from = catalogs.iter().filter(|next| operator.catalogs.contains(&next.catalog));
        let blobs = from.filter_map(|next| Some((&next.image, &next.content.as_ref().ok()?.others)));
        let blob = blobs.flat_map(|(image, others)| others.iter().map(move |other| (image, other)));
        let Some((image, blob)) = blob.into_iter().find(|(_, other)| other.schema == SCHEMA && other.package == operator.package) else {
            continue;
        };
        match entry(blob, version) {
            Ok(Some(entry)) => findings.extend(of_entry(operator, &entry, today, facts.target.version)),
            Ok(None) => {}
            Err(error) => unread.push(format!("{image}: {SCHEMA} of package {}: {error}", operator.package)),
        }
    }
    let unread = (!unread.is_empty()).then(|| SharedError::from(few(&unread, MOST)));
    (findings, unread)
}

fn entry(blob: &Meta, version: &Version) -> Result<Option<Entry>, serde_json::Error> {
    let lifecycle: Lifecycle = serde_json::from_str(blob.blob.get())?;
    let name = format!("{}.{}", version.major(), version.minor());
    Ok(lifecycle.versions.into_iter().find(|entry| entry.name == name))
}

fn of_entry(operator: &CatalogOperator, entry: &Entry, today: Date, target: &str) -> Vec<Finding> {
    let finding = |level, evidence: String, action: &str| Finding::new(Check::SupportDates, level, &*operator.object, evidence, action);
    let subject = format!("{} {}", operator.package, entry.name);
    let mut findings = Vec::new();
    if let Some(last) = entry.phases.iter().max_by_key(|phase| phase.end_date) {
        let (end, phase) = (last.end_date, &last.name);
        let soon = today.saturating_add(SOON.days());
        if end < today {
            findings.push(finding(
                Level::Risk,
                format!("support of {subject} ended on {end} ({phase})"),
                "update it to a supported version",
            ));
        } else if end <= soon {
            findings.push(finding(Level::Note, format!("support of {subject} ends on {end} ({phase})"), "plan its update"));
        }
    }
    let minor = Version::parse(target).ok().map(|version| format!("{}.{}", version.major(), version.minor()));
    let platform = entry.platform_compatibility.iter().find(|platform| platform.name.eq_ignore_ascii_case(PLATFORM));
    if let (Some(platform), Some(minor)) = (platform, minor)
        && !platform.versions.contains(&minor)
    {
        let evidence = format!("{subject} is supported on {}, and not on {minor}", few(&platform.versions, 12));
        findings.push(finding(Level::Risk, evidence, "update it to a version that is, before the cluster or right after it"));
    }
    findings
}
