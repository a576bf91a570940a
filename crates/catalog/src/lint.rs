//! Findings beyond validation: parts of a catalog that are allowed, but harm its users.
//!
//! ```text
//!   Placed (catalog, and the position of each blob)
//!      | lint
//!      +--> validate_all     whatever validation refuses, so that one run reports everything
//!      +--> graph            heads, paths to them, edges, ranges          of each channel
//!      +--> package          default channel, icon, texts, deprecations    of each package
//!      +--> bundle           names, images, properties, sizes              of each bundle
//!      +--> needs            providers of requirements                    of the whole catalog
//!      +--> dependencies     how requirements are written                 of each bundle
//!      +--> Vec<Finding>     worst first, with file and line, rule and fix
//! ```
//!
//! The JSON shape (`mainstay catalog lint -o json`); members that do not apply are left out:
//!
//! ```text
//! {"findings": [{"rule", "level": "error" | "warning" | "info", "package", "channel", "bundle",
//!                "path", "line", "field", "message", "fix"}],
//!  "errors": N, "warnings": N, "infos": N}
//! ```

mod bundle;
mod compare;
mod dependencies;
mod graph;
mod icon;
mod images;
mod needs;
mod package;
mod places;
mod rules;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::Level;
use crate::model::{Catalog, SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_DEPRECATIONS, SCHEMA_PACKAGE};
use crate::parts::{Parts, Versions};
use crate::validate::validate_all;

pub use compare::compare_bundle;
pub use places::{Place, Placed, Places};
pub use rules::Rule;

/// One finding of `catalog lint`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The rule that it breaks.
    pub rule: Rule,
    /// Its severity.
    pub level: Level,
    /// The package, if it is about one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub package: String,
    /// The channel, if it is about one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub channel: String,
    /// The bundle, if it is about one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub bundle: String,
    /// File below the root of the catalog, empty when it is about no file.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Line where the blob begins, from 1; 0 without a file.
    #[serde(skip_serializing_if = "is_zero")]
    pub line: usize,
    /// The field of the blob, such as `properties[3].value`, if the finding is about one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
    /// The problem.
    pub message: String,
    /// The fix.
    pub fix: &'static str,
}

// Called by the serializer, which passes a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(line: &usize) -> bool {
    *line == 0
}

/// Subject of a finding.
#[derive(Debug, Clone, Copy, Default)]
struct Subject<'a> {
    package: &'a str,
    channel: &'a str,
    bundle: &'a str,
}

impl<'a> Subject<'a> {
    fn package(package: &'a str) -> Self {
        Self { package, ..Self::default() }
    }

    fn channel(package: &'a str, channel: &'a str) -> Self {
        Self { package, channel, ..Self::default() }
    }

    fn entry(package: &'a str, channel: &'a str, bundle: &'a str) -> Self {
        Self { package, channel, bundle }
    }

    fn bundle(package: &'a str, bundle: &'a str) -> Self {
        Self { package, bundle, ..Self::default() }
    }

    /// Schema and name of the blob that the finding points to.
    fn blob(self) -> (&'static str, &'a str) {
        if !self.channel.is_empty() {
            (SCHEMA_CHANNEL, self.channel)
        } else if !self.bundle.is_empty() {
            (SCHEMA_BUNDLE, self.bundle)
        } else {
            (SCHEMA_PACKAGE, self.package)
        }
    }
}

/// Collects findings.
struct Report<'p> {
    places: &'p Places,
    findings: Vec<Finding>,
}

impl Report<'_> {
    fn add(&mut self, rule: Rule, subject: Subject<'_>, message: impl Into<String>) {
        let (schema, name) = subject.blob();
        let place =
            self.places.of(schema, subject.package, name).or_else(|| self.places.of(SCHEMA_PACKAGE, subject.package, subject.package));
        self.add_at(rule, subject, place, message);
    }

    /// A finding about a field of the subject's blob.
    fn add_field(&mut self, rule: Rule, subject: Subject<'_>, field: String, message: impl Into<String>) {
        self.add(rule, subject, message);
        if let Some(last) = self.findings.last_mut() {
            last.field = field;
        }
    }

    /// A finding about the deprecations of a package.
    fn add_deprecation(&mut self, rule: Rule, subject: Subject<'_>, message: impl Into<String>) {
        let place = self.places.of(SCHEMA_DEPRECATIONS, subject.package, "");
        self.add_at(rule, subject, place, message);
    }

    fn add_at(&mut self, rule: Rule, subject: Subject<'_>, place: Option<Place>, message: impl Into<String>) {
        let (path, line) = place.map_or((String::new(), 0), |place| (self.places.path(place).to_owned(), place.line as usize));
        self.findings.push(Finding {
            rule,
            level: rule.level(),
            package: subject.package.to_owned(),
            channel: subject.channel.to_owned(),
            bundle: subject.bundle.to_owned(),
            path,
            line,
            field: String::new(),
            message: message.into(),
            fix: rule.fix(),
        });
    }
}

/// A package with data that several rules need.
struct Subjects<'a> {
    name: &'a str,
    parts: &'a Parts<'a>,
    versions: Versions<'a>,
}

/// Checks everything; findings come worst first, then by file and line.
pub fn lint(placed: &Placed) -> Vec<Finding> {
    let mut report = Report { places: &placed.places, findings: Vec::new() };
    let packages = Parts::by_package(&placed.catalog);
    invalid(&placed.catalog, &packages, &mut report);
    for (name, parts) in &packages {
        let subjects = Subjects { name, parts, versions: parts.versions() };
        for channel in &parts.channels {
            graph::check(&subjects, channel, &mut report);
        }
        package::check(&subjects, &mut report);
        bundle::check(&subjects, &mut report);
        images::check(&subjects, &mut report);
    }
    let offers = needs::Offers::of(&packages);
    needs::check(&packages, &offers, &mut report);
    dependencies::check(&packages, &offers, &mut report);
    bundle::check_others(&placed.catalog, &mut report);
    let mut findings = report.findings;
    findings.sort_by(|a, b| {
        let key = |finding: &Finding| (finding.level, finding.path.clone(), finding.line, finding.rule);
        key(a)
            .cmp(&key(b))
            .then_with(|| (&a.package, &a.channel, &a.bundle, &a.message).cmp(&(&b.package, &b.channel, &b.bundle, &b.message)))
    });
    findings
}

/// Reports the findings of validation.
fn invalid(catalog: &Catalog, packages: &BTreeMap<&str, Parts<'_>>, report: &mut Report<'_>) {
    let Err(validation) = validate_all(catalog) else { return };
    for finding in validation.findings() {
        let text = |name: &'_ Option<String>| name.clone().unwrap_or_default();
        let (package, channel, bundle) = (text(&finding.scope.package), text(&finding.scope.channel), text(&finding.scope.bundle));
        let absent = packages.get(package.as_str()).is_some_and(|parts| !channel.is_empty() && parts.channel(&channel).is_none());
        if absent {
            // A missing default channel has a rule of its own.
            continue;
        }
        let blob = &finding.blob;
        let of = if blob.schema == SCHEMA_PACKAGE { &blob.name } else { &blob.package };
        let place = report.places.of(&blob.schema, of, &blob.name).or_else(|| report.places.of(SCHEMA_PACKAGE, &package, &package));
        // For a bundle outside of channels, validation names only the blob.
        let bundle = if bundle.is_empty() && blob.schema == SCHEMA_BUNDLE { blob.name.as_str() } else { &bundle };
        report.add_at(Rule::of_validation(finding.rule), Subject::entry(&package, &channel, bundle), place, finding.text.clone());
        if let Some(last) = report.findings.last_mut() {
            last.fix = finding.rule.fix();
        }
    }
}
