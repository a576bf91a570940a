//! An InstallPlan as text and as JSON: its CSVs, and each step compared with the cluster.

use mainstay_diagnostics::counted;
use mainstay_operations::classic::approval::{PlannedStep, Preview};
use serde_json::{Value, json};

use crate::commands::audit;

/// Fields of one object that are shown; JSON has all of them.
const FIELDS: usize = 12;

/// The preview as lines.
pub fn lines(preview: &Preview) -> Vec<String> {
    let metadata = &preview.plan["metadata"];
    let name = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
    let mut lines = vec![match name("name") {
        none if none.is_empty() => format!("InstallPlan of namespace {}, which is not made yet", name("namespace")),
        name => format!("InstallPlan {namespace}/{name}", namespace = metadata["namespace"].as_str().unwrap_or_default()),
    }];
    let mut section = |title: &str, all: Vec<String>| {
        if !all.is_empty() {
            lines.push(title.to_owned());
            lines.extend(all.into_iter().map(|line| format!("  {line}")));
        }
    };
    section("installs:", preview.csvs.clone());
    section("replaces:", preview.replaces.clone());
    section("for subscriptions:", preview.subscriptions.clone());
    section("steps:", preview.steps.iter().flat_map(step).collect());
    section("permissions that they ask for:", audit::lines(&preview.permissions));
    section("not looked at:", preview.notes.clone());
    lines
}

/// The effect of a step, in a word.
fn change(step: &PlannedStep) -> String {
    match (step.is_reference, step.exists) {
        (true, true) => "update".to_owned(),
        (true, false) => "create".to_owned(),
        (false, _) => step.object.change.to_string(),
    }
}

fn step(step: &PlannedStep) -> Vec<String> {
    let note = match (step.is_reference, step.exists) {
        (true, true) => " (content from the bundle)",
        _ => "",
    };
    let mut lines = vec![format!("{:<9} {}{note}", change(step), step.object.title())];
    if !step.is_reference {
        lines.extend(step.object.fields.iter().take(FIELDS).map(|field| format!("          {field}")));
        let more = step.object.fields.len().saturating_sub(FIELDS) + step.object.fields_omitted;
        if more > 0 {
            lines.push(format!("          and {}", counted(more, "more field")));
        }
    }
    lines
}

/// The preview as a document.
pub fn document(preview: &Preview) -> Value {
    let steps = preview.steps.iter().map(|step| {
        let object = &step.object;
        json!({
            "csv": step.csv, "change": change(step), "apiVersion": object.api_version, "kind": object.kind, "namespace": object.namespace,
            "name": object.name, "fields": object.fields,
        })
    });
    json!({
        "kind": "InstallPlanPreview", "namespace": preview.plan["metadata"]["namespace"], "name": preview.plan["metadata"]["name"],
        "installs": preview.csvs, "replaces": preview.replaces, "subscriptions": preview.subscriptions, "steps": steps.collect::<Vec<_>>(),
        "permissions": audit::document(&preview.permissions), "notes": preview.notes,
    })
}
