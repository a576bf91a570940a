//! A preview in lines, short enough to be stored in an object.

use mainstay_api::lifecycle::ChangeSummary;
use mainstay_diagnostics::counted;
use mainstay_lifecycle::preview::{Change, CrdChange, Dependency, FieldChange, Object};

use super::super::facts::Snapshot;
use super::super::plan::Plan;
use super::{Extra, step};

/// Maximum number of lines in each list.
const LINES: usize = 60;
/// Maximum number of characters in a line.
const WIDTH: usize = 400;
/// Maximum number of fields that are named of one object.
const FIELDS: usize = 6;

/// The summary with which a person can decide about a plan (MS-POL-01). Every list is bounded.
pub fn summary(snapshot: &Snapshot, plan: &Plan) -> ChangeSummary {
    let step = step(snapshot, plan, &Extra::default());
    let mut objects: Vec<&Object> =
        step.objects.iter().filter(|object| !matches!(object.change, Change::Unchanged | Change::Kept)).collect();
    // The most important changes must not be cut off.
    objects.sort_by_key(|object| object.change);
    ChangeSummary {
        permissions_gained: bounded(step.permissions_gained),
        permissions_lost: bounded(step.permissions_lost),
        custom_resource_definitions: bounded(step.custom_resource_definitions.iter().flat_map(definition).collect()),
        images: bounded(step.images.iter().map(|image| format!("{} ({})", image.reference, image.used_by.join("; "))).collect()),
        changes: bounded(objects.into_iter().map(object).collect()),
        dependencies: plan.consent.additional.iter().map(|one| one.bundle.clone()).collect(),
        warnings: bounded(step.dependencies.iter().map(needed).chain(step.warnings).collect()),
    }
    .bounded()
}

fn needed(dependency: &Dependency) -> String {
    format!("{} is installed in addition: {}", dependency.bundle.name, dependency.because.join("; "))
}

fn object(object: &Object) -> String {
    let owner = object.owner.as_ref().map(|owner| format!(", which is managed by {owner}")).unwrap_or_default();
    let mut fields: Vec<String> = object.fields.iter().take(FIELDS).map(FieldChange::to_string).collect();
    let more = object.fields.len().saturating_sub(FIELDS) + object.fields_omitted;
    if more > 0 {
        fields.push(counted(more, "more field"));
    }
    let fields = if fields.is_empty() { String::new() } else { format!(": {}", fields.join("; ")) };
    format!("{} {}{owner}{fields}", object.change, object.title())
}

fn definition(change: &CrdChange) -> Vec<String> {
    let mut lines = vec![format!("{} {}", change.change, change.name)];
    lines.extend(change.versions.iter().map(|line| format!("{}: {line}", change.name)));
    lines.extend(change.findings.iter().map(|line| format!("{}: {line}", change.name)));
    lines
}

fn bounded(mut lines: Vec<String>) -> Vec<String> {
    let more = lines.len().saturating_sub(LINES);
    lines.truncate(LINES);
    for line in &mut lines {
        if let Some((end, _)) = line.char_indices().nth(WIDTH) {
            line.truncate(end);
            line.push_str("...");
        }
    }
    if more > 0 {
        lines.push(format!("... and {more} more"));
    }
    lines
}
