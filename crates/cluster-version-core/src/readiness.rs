//! The readiness of a cluster for an update (MS-READY-01, CVO-SIM-03): what would block it, what it risks, and what is good to know, before it is asked for.
//!
//! ```text
//!   Facts ──┬─ cluster   preconditions, risks, gates, operators
//!           ├─ nodes     pools, nodes, drain, capacity
//!           ├─ apis      removed APIs, CRDs and their objects, webhooks, the store
//!           ├─ catalogs  Operators in the catalogs that come with the release; their support; certificates; images
//!           └─ update    what the plan of the update says
//!                        ──► Report: findings by level, and the checks that could not be made
//! ```
//!
//! Facts that could not be read make the checks that need them fail by name; such a check never counts as passed.

mod apis;
mod capacity;
mod catalogs;
mod certificates;
mod cluster;
mod drain;
mod duration;
mod facts;
mod finding;
mod images;
mod nodes;
mod support;
mod update;

use mainstay_diagnostics::SharedError;
use serde::Serialize;

pub use catalogs::{CatalogOperator, NextCatalog, next_image};
pub use certificates::CertificateFacts;
pub use duration::{Estimate, PoolEstimate, estimate};
pub use facts::{CrdFacts, DeprecatedRequests, Facts, OperatorLimit, PodFacts, Read, Recommended, Release, Target};
pub use finding::{Check, Finding, Level};
pub use images::ImageAnswers;

/// A check that could not be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotRun {
    /// The check.
    pub check: Check,
    /// The reason.
    pub why: String,
}

/// The outcome of all checks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The findings, those that block first.
    pub findings: Vec<Finding>,
    /// The checks that could not be made.
    pub not_run: Vec<NotRun>,
}

impl Report {
    /// Returns true if a finding blocks the update.
    pub fn blocks(&self) -> bool {
        self.findings.iter().any(|finding| finding.level == Level::Blocks)
    }
}

/// Makes every check.
pub fn check(facts: &Facts<'_>) -> Report {
    let mut report = Report::default();
    for check in Check::ALL {
        let outcome = match check {
            Check::Preconditions => Ok(cluster::preconditions(facts)),
            Check::ClusterVersion => Ok(cluster::cluster_version(facts)),
            Check::ClusterOperators => cluster::operators(facts),
            Check::ConditionalRisks => Ok(cluster::conditional_risks(facts)),
            Check::AdminGates => Ok(cluster::admin_gates(facts)),
            Check::OlmMaxVersion => cluster::operator_limits(facts),
            Check::Update => update::plan(facts),
            Check::RemovedApis => apis::removed(facts),
            Check::CrdStoredVersions => apis::stored_versions(facts),
            Check::CrdCompatibility => apis::compatibility(facts),
            Check::Webhooks => apis::webhooks(facts),
            Check::EtcdOrStore => apis::store(facts),
            Check::Pools => nodes::pools(facts),
            Check::Nodes => nodes::nodes(facts),
            Check::Drain => drain::drain(facts),
            Check::Capacity => capacity::capacity(facts),
            Check::Certificates => certificates::ending(facts),
            Check::CatalogNext => Ok(partly(&mut report, check, catalogs::next(facts))),
            Check::SupportDates => Ok(partly(&mut report, check, support::dates(facts))),
            Check::Images => Ok(partly(&mut report, check, images::pullable(facts))),
        };
        match outcome {
            Ok(findings) => report.findings.extend(findings),
            Err(error) => report.not_run.push(NotRun { check, why: error.to_string() }),
        }
    }
    report.findings.sort_by_key(|finding| finding.level);
    report
}

/// The findings of a check that could be made for a part of its objects; the others are named.
fn partly(report: &mut Report, check: Check, (findings, error): (Vec<Finding>, Option<SharedError>)) -> Vec<Finding> {
    report.not_run.extend(error.map(|error| NotRun { check, why: error.to_string() }));
    findings
}
