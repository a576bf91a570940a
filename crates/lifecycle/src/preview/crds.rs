//! CRDs that are created, changed or deleted, and the effect on existing custom resources.

use mainstay_diagnostics::counted;
use mainstay_schema::upgrade;
use serde_json::Value;

use super::custom_resources::{Outcome, impact};
use super::{Change, Comparison, CrdChange, CustomResources, Existing, KnownInstances, NOT_ASKED, fields};
use crate::object;

const KIND: &str = "CustomResourceDefinition";
/// Maximum number of instances that are named.
const MOST: usize = 20;

/// Returns the live CRDs that the change would change or delete.
pub fn concerned(looked: &Comparison<'_>) -> Vec<Value> {
    let differing = looked.wanted().iter().filter(|wanted| wanted["kind"] == KIND).filter_map(|wanted| {
        let found = looked.present(&object::place(wanted))?;
        differs(looked, wanted, found).then(|| found.clone())
    });
    let gone = looked.gone();
    differing.chain(gone.iter().filter(|target| target.kind == KIND).filter_map(|target| looked.present(target).cloned())).collect()
}

/// Returns the CRDs of a change, with the effect on the known custom resources.
pub fn changes(looked: &Comparison<'_>, instances: &KnownInstances) -> Vec<CrdChange> {
    let mut all = Vec::new();
    for wanted in looked.wanted().iter().filter(|wanted| wanted["kind"] == KIND) {
        let name = name(wanted);
        let Some(found) = looked.present(&object::place(wanted)) else {
            let versions = served(wanted).iter().map(|version| format!("{version} is served")).collect();
            all.push(CrdChange { name, change: Change::Created, versions, ..CrdChange::default() });
            continue;
        };
        if !differs(looked, wanted, found) {
            continue;
        }
        let findings = upgrade::check(found, wanted).err().unwrap_or_default();
        let (existing, existing_unknown) = existing(&name, instances, |known| impact(found, wanted, &known.objects));
        all.push(CrdChange {
            change: Change::Changed,
            findings: findings.iter().map(ToString::to_string).collect(),
            versions: versions(found, wanted),
            existing,
            existing_unknown,
            name,
        });
    }
    for target in looked.gone().iter().filter(|target| target.kind == KIND) {
        if looked.deletes(target) {
            let (existing, existing_unknown) = existing(&target.name, instances, |_| Outcome::default());
            all.push(CrdChange { name: target.name.clone(), change: Change::Deleted, existing, existing_unknown, ..CrdChange::default() });
        }
    }
    all
}

/// Returns true if an apply changes the definition's spec; releasing a schema field counts as a change.
fn differs(looked: &Comparison<'_>, wanted: &Value, found: &Value) -> bool {
    let before = looked.applied(&object::place(wanted)).map(|before| &before["spec"]);
    !fields::changes(&found["spec"], &wanted["spec"], before).0.is_empty()
}

fn existing(name: &str, known: &KnownInstances, held: impl FnOnce(&CustomResources) -> Outcome) -> (Option<Existing>, Option<String>) {
    match known.get(name) {
        Some(Ok(instances)) => {
            let Outcome { invalid, losing, notes } = held(instances);
            let existing = Existing {
                count: instances.count,
                checked: instances.objects.len(),
                invalid_count: invalid.len(),
                invalid: few(invalid),
                losing_count: losing.len(),
                losing: few(losing),
                notes,
            };
            (Some(existing), None)
        }
        Some(Err(problem)) => (None, Some(problem.to_string())),
        None => (None, Some(NOT_ASKED.to_owned())),
    }
}

/// Returns the first lines, and a line with the number of further ones.
fn few(mut lines: Vec<String>) -> Vec<String> {
    let more = lines.len().saturating_sub(MOST);
    lines.truncate(MOST);
    if more > 0 {
        lines.push(format!("... and {more} more"));
    }
    lines
}

fn versions(found: &Value, wanted: &Value) -> Vec<String> {
    let (before, after) = (served(found), served(wanted));
    let gone = before.iter().filter(|version| !after.contains(version)).map(|version| format!("{version} is no longer served"));
    let new = after.iter().filter(|version| !before.contains(version)).map(|version| format!("{version} is served"));
    let mut lines: Vec<String> = gone.chain(new).collect();
    let (old, stored) = (storage(found), storage(wanted));
    if old != stored {
        lines.push(format!("objects are stored as {stored}, not as {old}"));
    }
    let converts = |crd: &Value| crd["spec"]["conversion"]["strategy"] == "Webhook";
    match (converts(found), converts(wanted)) {
        (false, true) => lines.push("a webhook converts between versions".to_owned()),
        (true, false) => lines.push("no webhook converts between versions now".to_owned()),
        _ => {}
    }
    lines
}

fn served(crd: &Value) -> Vec<&str> {
    let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
    versions.filter(|version| version["served"] == true).filter_map(|version| version["name"].as_str()).collect()
}

fn storage(crd: &Value) -> &str {
    let mut versions = crd["spec"]["versions"].as_array().into_iter().flatten();
    versions.find(|version| version["storage"] == true).and_then(|version| version["name"].as_str()).unwrap_or_default()
}

fn name(crd: &Value) -> String {
    crd["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

impl CrdChange {
    /// Returns the warnings that a person should read.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let count = self.existing.as_ref().map_or(0, |existing| existing.count);
        if self.change == Change::Deleted && count > 0 {
            warnings.push(format!("CustomResourceDefinition {} is deleted with its {}", self.name, counted(count, "custom resource")));
        }
        let (invalid, losing) = self.existing.as_ref().map_or((0, 0), |existing| (existing.invalid_count, existing.losing_count));
        if invalid > 0 {
            warnings.push(format!(
                "CustomResourceDefinition {}: {} would no longer validate",
                self.name,
                counted(invalid, "custom resource")
            ));
        }
        if losing > 0 {
            warnings.push(format!("CustomResourceDefinition {}: {} would lose data", self.name, counted(losing, "custom resource")));
        }
        warnings
    }
}
