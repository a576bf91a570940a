//! The changes between two bundles, in words: facts of the CSV, CRDs with the verdict of the upgrade check, permissions gained and lost, images,
//! webhooks, deployments and the other objects.
//!
//! ```text
//!   old, new ──┬─ facts        version, install modes, channels, dependencies
//!              ├─ crds         added, removed, versions, schema::upgrade's findings
//!              ├─ permissions  rbac::covers both ways, by service account and scope
//!              └─ workloads    images, webhooks, deployments, other objects, field by field
//!                                └── Change { section, sort, subject, detail, old, new, breaking }
//! ```
//!
//! As JSON: `{"from", "to", "breaking", "changes": [{"section", "change": added|removed|changed, "subject", "detail", "old", "new",
//! "breaking"}]}`; `old` and `new` are absent if the thing has no such value.

mod facts;
mod fields;
mod permissions;
mod workloads;

use std::collections::HashMap;
use std::fmt;

use serde_json::{Value, json};

use crate::bundle::Bundle;

pub use permissions::rule_in_words;

/// The sort of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// It differs.
    Changed,
}

impl fmt::Display for Sort {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Changed => "changed",
        })
    }
}

/// The parts of a bundle, in the order in which they are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// Facts of the CSV and the annotations.
    Bundle,
    /// Custom resource definitions, owned and required.
    Crds,
    /// Permissions of the operator's service accounts.
    Permissions,
    /// Images.
    Images,
    /// Webhooks.
    Webhooks,
    /// Deployments.
    Deployments,
    /// Everything else.
    Objects,
}

impl fmt::Display for Section {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Bundle => "bundle",
            Self::Crds => "crds",
            Self::Permissions => "rights",
            Self::Images => "images",
            Self::Webhooks => "webhooks",
            Self::Deployments => "deployments",
            Self::Objects => "objects",
        })
    }
}

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The part of the bundle.
    pub section: Section,
    /// The sort of the change.
    pub sort: Sort,
    /// The thing: `Deployment beacon-operator`, `minKubeVersion`.
    pub subject: String,
    /// The difference in words; may be empty.
    pub detail: String,
    /// The old value.
    pub old: Option<Value>,
    /// The new value.
    pub new: Option<Value>,
    /// True if something that works with the old bundle may fail with the new one.
    pub breaking: bool,
}

impl Change {
    fn new(section: Section, sort: Sort, subject: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { section, sort, subject: subject.into(), detail: detail.into(), old: None, new: None, breaking: false }
    }

    fn values(self, old: Option<Value>, new: Option<Value>) -> Self {
        Self { old, new, ..self }
    }

    fn breaking(self) -> Self {
        Self { breaking: true, ..self }
    }

    fn to_json(&self) -> Value {
        let mut value = json!({
            "section": self.section.to_string(),
            "change": self.sort.to_string(),
            "subject": self.subject,
            "detail": self.detail,
            "breaking": self.breaking,
        });
        for (key, part) in [("old", &self.old), ("new", &self.new)] {
            if let Some(part) = part {
                value[key] = part.clone();
            }
        }
        value
    }
}

/// The changes from one bundle to another.
#[derive(Debug, Clone, PartialEq)]
pub struct Diff {
    /// The old bundle's name.
    pub from: String,
    /// The new bundle's name.
    pub to: String,
    /// The changes, by section.
    pub changes: Vec<Change>,
}

impl Diff {
    /// Returns whether some change may break what works with the old bundle.
    pub fn breaks(&self) -> bool {
        self.changes.iter().any(|change| change.breaking)
    }

    /// The differences in the JSON form that this module's text describes.
    pub fn to_json(&self) -> Value {
        let changes: Vec<Value> = self.changes.iter().map(Change::to_json).collect();
        json!({"from": self.from, "to": self.to, "breaking": self.breaks(), "changes": changes})
    }
}

/// Compares two bundles.
pub fn diff(old: &Bundle, new: &Bundle) -> Diff {
    let mut changes = facts::changes(old, new);
    changes.extend(facts::crds(old, new));
    changes.extend(permissions::changes(old, new));
    changes.extend(workloads::changes(old, new));
    Diff { from: old.csv.name.clone(), to: new.csv.name.clone(), changes }
}

/// Calls `change` for each name of either list: with the old value, the new one, or both.
fn by_name<'a, T>(old: &'a [T], new: &'a [T], name: impl Fn(&T) -> String, mut change: impl FnMut(&str, Option<&'a T>, Option<&'a T>)) {
    let mut found: HashMap<String, (Option<&'a T>, Option<&'a T>)> = HashMap::new();
    let mut names: Vec<String> = Vec::new();
    for (item, is_new) in old.iter().map(|item| (item, false)).chain(new.iter().map(|item| (item, true))) {
        let name = name(item);
        let pair = found.entry(name.clone()).or_insert_with(|| {
            names.push(name);
            (None, None)
        });
        // Of several with one name, the first counts.
        let place = if is_new { &mut pair.1 } else { &mut pair.0 };
        place.get_or_insert(item);
    }
    for name in &names {
        if let Some((old, new)) = found.get(name) {
            change(name, *old, *new);
        }
    }
}
