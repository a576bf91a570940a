//! The checks that a pipeline makes on a change to a catalog (CATLG-67, CATLG-69, OLM1-FBC-18).
//!
//! The JSON shape (`mainstay catalog ci -o json`):
//!
//! ```text
//! {"passed": true | false, "changedPackages": ["..."],
//!  "checks": [{"check": "packages" | "valid" | "immutable" | "updates" | "lint" | "images", "passed": true | false,
//!              "problems": [{"package", "channel", "bundle", "path", "line", "message", "fix"}]}]}
//! ```

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::Level;
use crate::diff::{Change, Diff, Rule as DiffRule, diff};
use crate::lint::{Finding, Placed, Rule as LintRule, lint};

/// Subject of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Check {
    /// Only packages that the author may change have changed.
    Packages,
    /// The new catalog is valid.
    Valid,
    /// Published bundles are unchanged.
    Immutable,
    /// No existing installation loses its updates.
    Updates,
    /// Lint finds no error in changed packages that was not there before.
    Lint,
    /// The images of new bundles exist.
    Images,
}

impl Check {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Packages => "packages",
            Self::Valid => "valid",
            Self::Immutable => "immutable",
            Self::Updates => "updates",
            Self::Lint => "lint",
            Self::Images => "images",
        }
    }
}

/// One check and its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// The check.
    pub check: Check,
    /// True if it found no problem.
    pub passed: bool,
    /// The problems that it found.
    pub problems: Vec<Problem>,
}

/// A violation of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The package.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub package: String,
    /// The channel, if it is about one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub channel: String,
    /// The bundle, if it is about one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub bundle: String,
    /// File of the new catalog, if the problem is in one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Line in it, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The problem in one sentence.
    pub message: String,
    /// The fix.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub fix: String,
}

/// The result of all checks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// True if all checks passed.
    pub passed: bool,
    /// Packages that differ.
    pub changed_packages: Vec<String>,
    /// The checks that were made.
    pub checks: Vec<Outcome>,
}

impl Report {
    /// Adds a check.
    pub fn add(&mut self, check: Check, problems: Vec<Problem>) {
        self.passed &= problems.is_empty();
        self.checks.push(Outcome { check, passed: problems.is_empty(), problems });
    }
}

/// Checks a change. `allowed` are the packages that may change; all of them without a list.
pub fn check(old: &Placed, new: &Placed, allowed: Option<&[String]>) -> (Report, Diff) {
    let difference = diff(&old.catalog, &new.catalog);
    let changed: Vec<String> = difference.changed_packages().map(str::to_owned).collect();
    let mut report = Report { passed: true, changed_packages: changed.clone(), checks: Vec::new() };
    if let Some(allowed) = allowed {
        report.add(Check::Packages, packages(&difference, allowed));
    }
    let (invalid, findings): (Vec<Finding>, Vec<Finding>) = lint(new).into_iter().partition(|finding| is_validation(finding.rule));
    report.add(Check::Valid, invalid.into_iter().map(Problem::from).collect());
    let of_rules = |rules: &[DiffRule]| {
        let bad = difference.findings.iter().filter(|finding| finding.level == Level::Error && rules.contains(&finding.rule));
        bad.map(|finding| Problem {
            package: finding.package.clone(),
            channel: finding.channel.clone().unwrap_or_default(),
            bundle: finding.bundle.clone().unwrap_or_default(),
            message: finding.message.clone(),
            fix: finding.hint.clone().unwrap_or_default(),
            ..Problem::default()
        })
        .collect()
    };
    report.add(Check::Immutable, of_rules(&[DiffRule::BundleChanged]));
    report.add(Check::Updates, of_rules(&[DiffRule::PackageRemoved, DiffRule::ChannelRemoved, DiffRule::Stranded]));
    report.add(Check::Lint, fresh(old, findings, &changed));
    (report, difference)
}

fn is_validation(rule: LintRule) -> bool {
    use LintRule::{Invalid, MultipleHeads, NoHead, ReplacesCycle, Stranded};
    matches!(rule, Invalid | MultipleHeads | NoHead | ReplacesCycle | Stranded)
}

fn packages(difference: &Diff, allowed: &[String]) -> Vec<Problem> {
    let not_allowed = difference.packages.iter().filter(|package| !allowed.contains(&package.package));
    let mut problems: Vec<Problem> = not_allowed
        .map(|package| Problem {
            package: package.package.clone(),
            message: match package.change {
                Change::Added => "is new, and is not among the packages that may change".to_owned(),
                Change::Removed => "is gone, and is not among the packages that may change".to_owned(),
                Change::Changed => "has changed, and is not among the packages that may change".to_owned(),
            },
            fix: format!("take the change back, or ask the owner of {}", package.package),
            ..Problem::default()
        })
        .collect();
    problems.extend(difference.others.iter().map(|other| Problem {
        message: format!("a blob of schema {} that belongs to no package has changed", other.schema),
        fix: "take the change back".to_owned(),
        ..Problem::default()
    }));
    problems
}

/// Lint errors in changed packages that the old catalog did not have.
fn fresh(old: &Placed, findings: Vec<Finding>, changed: &[String]) -> Vec<Problem> {
    type Key = (LintRule, String, String, String, String);
    let key = |finding: &Finding| -> Key {
        (finding.rule, finding.package.clone(), finding.channel.clone(), finding.bundle.clone(), finding.message.clone())
    };
    let known: BTreeSet<Key> = lint(old).iter().map(key).collect();
    let bad = |finding: &Finding| finding.level == Level::Error && changed.contains(&finding.package) && !known.contains(&key(finding));
    findings.into_iter().filter(bad).map(Problem::from).collect()
}

impl From<Finding> for Problem {
    fn from(finding: Finding) -> Self {
        Self {
            package: finding.package,
            channel: finding.channel,
            bundle: finding.bundle,
            path: finding.path,
            line: (finding.line > 0).then_some(finding.line),
            message: finding.message,
            fix: finding.fix.to_owned(),
        }
    }
}

/// The images that must exist for a change to be published: those of new and changed bundles, each with package and bundle.
pub fn images(difference: &Diff) -> BTreeMap<&str, (&str, &str)> {
    let mut images = BTreeMap::new();
    for package in &difference.packages {
        for bundle in package.bundles.iter().filter(|bundle| bundle.change != Change::Removed) {
            if let Some(image) = bundle.image.as_ref().and_then(|image| image.new.as_deref()) {
                images.entry(image).or_insert((package.package.as_str(), bundle.bundle.as_str()));
            }
        }
    }
    images
}
