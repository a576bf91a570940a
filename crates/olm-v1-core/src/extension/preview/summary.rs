//! A preview in lines, short enough to be stored in an object.

use mainstay_api::lifecycle::ChangeSummary;
use mainstay_diagnostics::counted;

use super::super::facts::Snapshot;
use super::super::plan::Plan;
use super::{Change, CrdChange, Dependency, Extra, FieldChange, Object, step};

/// Lines of each list.
const LINES: usize = 60;
/// Characters of a line.
const WIDTH: usize = 400;
/// Fields that are named of one object.
const FIELDS: usize = 6;

/// What a person needs to know to decide about a plan (MS-POL-01). Every list is bounded.
pub fn summary(snapshot: &Snapshot, plan: &Plan) -> ChangeSummary {
    let step = step(snapshot, plan, &Extra::default());
    let mut objects: Vec<&Object> =
        step.objects.iter().filter(|object| !matches!(object.change, Change::Unchanged | Change::Kept)).collect();
    // What matters most must not be cut off.
    objects.sort_by_key(|object| object.change);
    ChangeSummary {
        rights_gained: bounded(step.rights_gained),
        rights_lost: bounded(step.rights_lost),
        custom_resource_definitions: bounded(step.custom_resource_definitions.iter().flat_map(definition).collect()),
        images: bounded(step.images.iter().map(|image| format!("{} ({})", image.reference, image.used_by.join("; "))).collect()),
        changes: bounded(objects.into_iter().map(object).collect()),
        dependencies: plan.consent.along.iter().map(|along| along.bundle.clone()).collect(),
        warnings: bounded(step.dependencies.iter().map(needed).chain(step.warnings).collect()),
    }
    .bounded()
}

fn needed(dependency: &Dependency) -> String {
    format!("{} comes along: {}", dependency.bundle.name, dependency.because.join("; "))
}

fn object(object: &Object) -> String {
    let owner = object.owner.as_ref().map(|owner| format!(", which belongs to {owner}")).unwrap_or_default();
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

impl std::fmt::Display for Change {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.pad(match self {
            Self::Conflicting => "conflict",
            Self::Unknown => "unknown",
            Self::Deleted => "delete",
            Self::Adopted => "adopt",
            Self::Created => "create",
            Self::Changed => "change",
            Self::Kept => "keep",
            Self::Unchanged => "unchanged",
        })
    }
}

impl std::fmt::Display for FieldChange {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let short = |value: &Option<serde_json::Value>| {
            let Some(value) = value else { return "nothing".to_owned() };
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let line = text.lines().next().unwrap_or_default();
            let cut: String = line.chars().take(80).collect();
            if cut.len() < text.len() { format!("{cut}...") } else { cut }
        };
        write!(out, "{} {} -> {}", self.path, short(&self.from), short(&self.to))
    }
}
