//! Findings of checks.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

/// A check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "each is described where it is made")]
pub enum Check {
    Preconditions,
    ClusterVersion,
    ClusterOperators,
    ConditionalRisks,
    AdminGates,
    OlmMaxVersion,
    Update,
    RemovedApis,
    CrdStoredVersions,
    CrdCompatibility,
    Webhooks,
    EtcdOrStore,
    Pools,
    Nodes,
    Drain,
    Capacity,
    Certificates,
    CatalogNext,
    SupportDates,
    Images,
}

impl Check {
    /// All of them.
    pub const ALL: [Self; 20] = [
        Self::Preconditions,
        Self::ClusterVersion,
        Self::ClusterOperators,
        Self::ConditionalRisks,
        Self::AdminGates,
        Self::OlmMaxVersion,
        Self::Update,
        Self::RemovedApis,
        Self::CrdStoredVersions,
        Self::CrdCompatibility,
        Self::Webhooks,
        Self::EtcdOrStore,
        Self::Pools,
        Self::Nodes,
        Self::Drain,
        Self::Capacity,
        Self::Certificates,
        Self::CatalogNext,
        Self::SupportDates,
        Self::Images,
    ];

    /// Its name, for people and programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Preconditions => "preconditions",
            Self::ClusterVersion => "cluster-version",
            Self::ClusterOperators => "cluster-operators",
            Self::ConditionalRisks => "conditional-risks",
            Self::AdminGates => "admin-gates",
            Self::OlmMaxVersion => "olm-max-version",
            Self::Update => "update",
            Self::RemovedApis => "removed-apis",
            Self::CrdStoredVersions => "crd-stored-versions",
            Self::CrdCompatibility => "crd-compatibility",
            Self::Webhooks => "webhooks",
            Self::EtcdOrStore => "etcd-or-store",
            Self::Pools => "pools",
            Self::Nodes => "nodes",
            Self::Drain => "drain",
            Self::Capacity => "capacity",
            Self::Certificates => "certificates",
            Self::CatalogNext => "catalog-next",
            Self::SupportDates => "support-dates",
            Self::Images => "images",
        }
    }
}

/// The weight of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Level {
    /// The update is refused, or stops on its way.
    Blocks,
    /// The update may stop, take long, or harm what runs.
    Risk,
    /// Good to know.
    Note,
}

impl fmt::Display for Level {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Blocks => "Blocks",
            Self::Risk => "Risk",
            Self::Note => "Note",
        })
    }
}

/// One finding (MS-READY-03).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The check that made it.
    pub check: Check,
    /// Its weight.
    pub level: Level,
    /// The object: kind and name.
    pub object: String,
    /// The facts that it rests on.
    pub evidence: String,
    /// The thing to do.
    pub action: String,
    /// The time since which it is so, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
}

/// The first of several texts, and how many more there are.
pub(super) fn few(texts: &[impl AsRef<str>], most: usize) -> String {
    let shown = texts.iter().take(most).map(AsRef::as_ref).collect::<Vec<_>>().join("; ");
    if texts.len() > most { format!("{shown}; and {} more", texts.len() - most) } else { shown }
}

impl Finding {
    pub(super) fn new(
        check: Check,
        level: Level,
        object: impl Into<String>,
        evidence: impl Into<String>,
        action: impl Into<String>,
    ) -> Self {
        Self { check, level, object: object.into(), evidence: evidence.into(), action: action.into(), since: None }
    }

    /// Adds the time of a condition's last change.
    pub(super) fn since(self, condition: &Value) -> Self {
        Self { since: condition["lastTransitionTime"].as_str().map(str::to_owned), ..self }
    }
}
