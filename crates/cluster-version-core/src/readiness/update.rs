//! Checks of the plan of the update.

use super::facts::{Facts, Read, known};
use super::finding::{Check, Finding, Level};
use crate::plan::Effect;

/// Manifests that would fail, objects that are deleted, capabilities that are switched on.
pub(super) fn plan(facts: &Facts<'_>) -> Read<Vec<Finding>> {
    let plan = known(&facts.target.release)?.plan;
    let mut findings = Vec::new();
    for object in plan.groups.iter().flat_map(|group| &group.objects) {
        let about = object.id.to_string();
        match &object.effect {
            Effect::Fault { reason } => {
                let evidence = format!("{} cannot be applied: {reason}", object.file);
                findings.push(Finding::new(Check::Update, Level::Blocks, about, evidence, "the release is broken; take another one"));
            }
            Effect::Delete => {
                let evidence = format!("{} deletes it", object.file);
                findings.push(Finding::new(Check::Update, Level::Note, about, evidence, "make sure that nothing of yours uses it"));
            }
            Effect::Create | Effect::Update { .. } | Effect::Unchanged | Effect::Gone => {}
        }
    }
    if !plan.is_offered {
        let evidence = format!("{} is not among the versions that the release itself names as those it may be updated from", plan.from);
        let object = format!("release {}", plan.to);
        findings.push(Finding::new(Check::Update, Level::Risk, object, evidence, "take a release that names this version"));
    }
    if !plan.implicit_capabilities.is_empty() {
        let names: Vec<&str> = plan.implicit_capabilities.iter().map(String::as_str).collect();
        let evidence = format!("the update enables capabilities that cannot be disabled again: {}", names.join(", "));
        findings.push(Finding::new(Check::Update, Level::Note, "clusterversion version", evidence, "nothing, if they are welcome"));
    }
    Ok(findings)
}
