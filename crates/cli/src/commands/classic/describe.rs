//! `mainstay describe --classic`: an operator of OLM classic in one view (MS-CLI-05, OLM0-ADMIN-20).

use std::fmt::Write as _;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mainstay_diagnostics::counted;
use mainstay_operations::classic::described::Described;
use mainstay_operations::explain::last_seen;
use mainstay_terminal::errors::Failure;
use mainstay_terminal::output::Table;
use mainstay_terminal::printable::hanging;
use serde_json::{Value, json};

use crate::commands::listed::age;

/// The column of values.
const INDENT: usize = 15;

/// The description as text.
pub fn text(found: &Described) -> String {
    let mut out = String::new();
    heads(found, &mut out);
    conditions(found, &mut out);
    out.push_str("Objects:\n");
    let mut table = Table::new(&["OBJECT", "STATE"]);
    for part in &found.parts {
        table.row([&part.object, &part.state]);
    }
    out.push_str(&table.render(2));
    out.push_str("Last InstallPlan:\n");
    let mut table = Table::new(&["STATUS", "KIND", "NAME", "CSV"]);
    for step in found.plan.iter().flat_map(|plan| plan["status"]["plan"].as_array().into_iter().flatten()) {
        table.row([said(&step["status"]), said(&step["resource"]["kind"]), said(&step["resource"]["name"]), said(&step["resolving"])]);
    }
    out.push_str(&table.render(2));
    out.push_str("Events:\n");
    let mut table = Table::new(&["TYPE", "REASON", "AGE", "OBJECT", "MESSAGE"]);
    for event in &found.events {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let about = event.regarding.as_ref().and_then(|about| about.kind.clone()).unwrap_or_default();
        table.row([text(&event.type_), text(&event.reason), age(last_seen(event).map(Time).as_ref()), about, text(&event.note)]);
    }
    out.push_str(&table.render(2));
    out
}

/// The lines with one fact each.
fn heads(found: &Described, out: &mut String) {
    let none = Value::Null;
    let (subscription, csv) = (found.subscription.as_ref().unwrap_or(&none), found.csv.as_ref().unwrap_or(&none));
    let (spec, status) = (&subscription["spec"], &subscription["status"]);
    let name = if subscription.is_null() { csv } else { subscription };
    let mut say = |key: &str, value: String| {
        let value = if value.is_empty() { "-".to_owned() } else { hanging(&value, INDENT).into_owned() };
        // Writing to a string does not fail.
        let _written = writeln!(out, "{:<INDENT$}{value}", format!("{key}:"));
    };
    say("Name", said(&name["metadata"]["name"]));
    say("Namespace", found.namespace.clone());
    say("Package", said(&spec["name"]));
    say("Channel", said(&spec["channel"]));
    let source = [&spec["source"], &spec["sourceNamespace"]].map(said);
    say("Catalog", if source[0].is_empty() { String::new() } else { format!("{} in {}", source[0], source[1]) });
    let approval = spec["installPlanApproval"].as_str().unwrap_or("Automatic");
    say("Approval", if subscription.is_null() { "no Subscription asks for it".to_owned() } else { approval.to_owned() });
    let installed = said(&status["installedCSV"]);
    let installed = if subscription.is_null() { said(&csv["metadata"]["name"]) } else { installed };
    let version = said(&csv["spec"]["version"]);
    let has_version = csv["metadata"]["name"] == installed.as_str() && !version.is_empty();
    say("Installed", if has_version { format!("{installed} ({version})") } else { installed });
    let phase = [&csv["status"]["phase"], &csv["status"]["reason"]].map(said);
    say("Phase", if phase[1].is_empty() { phase[0].clone() } else { format!("{} ({})", phase[0], phase[1]) });
    let plan = found.plan.as_ref().map(|plan| {
        let csvs = plan["spec"]["clusterServiceVersionNames"].as_array().into_iter().flatten().map(said).collect::<Vec<_>>();
        format!("{}: {}, for {}", said(&plan["metadata"]["name"]), said(&plan["status"]["phase"]), csvs.join(", "))
    });
    say("InstallPlan", plan.unwrap_or_default());
    say("OperatorGroup", found.groups.iter().map(group).collect::<Vec<_>>().join("\n"));
    let created = name["metadata"]["creationTimestamp"].as_str().and_then(|time| time.parse::<Timestamp>().ok());
    say("Age", age(created.map(Time).as_ref()));
    let waits = found.explanation.waits_for.clone().unwrap_or_else(|| "nothing".to_owned());
    say("State", found.explanation.summary.clone());
    say("Waits for", waits);
    if !found.notes.is_empty() {
        say("Not known", found.notes.join("\n"));
    }
}

/// An OperatorGroup and the namespaces that it selects.
fn group(group: &Value) -> String {
    let name = said(&group["metadata"]["name"]);
    match group["status"]["namespaces"].as_array().map(Vec::as_slice) {
        None | Some([]) => format!("{name}, of no namespace"),
        Some([all]) if *all == "" => format!("{name}, of all namespaces"),
        Some([one]) => format!("{name}, of namespace {}", said(one)),
        Some(several) => format!("{name}, of {}", counted(several.len(), "namespace")),
    }
}

fn conditions(found: &Described, out: &mut String) {
    out.push_str("Conditions:\n");
    let mut table = Table::new(&["OBJECT", "TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"]);
    let all = [("Subscription", &found.subscription), ("InstallPlan", &found.plan), ("OperatorCondition", &found.condition)];
    for (kind, object) in all {
        // What the operator says is in the spec; the status repeats it.
        let conditions = object.as_ref().and_then(|object| object["status"]["conditions"].as_array());
        for condition in conditions.into_iter().flatten() {
            let since = condition["lastTransitionTime"].as_str().and_then(|time| time.parse::<Timestamp>().ok());
            table.row([
                kind.to_owned(),
                said(&condition["type"]),
                said(&condition["status"]),
                said(&condition["reason"]),
                age(since.map(Time).as_ref()),
                said(&condition["message"]),
            ]);
        }
    }
    out.push_str(&table.render(2));
    out.push_str("Requirements:\n");
    let mut table = Table::new(&["STATUS", "KIND", "NAME", "MESSAGE"]);
    let requirements = found.csv.as_ref().and_then(|csv| csv["status"]["requirementStatus"].as_array());
    for one in requirements.into_iter().flatten() {
        table.row([said(&one["status"]), said(&one["kind"]), said(&one["name"]), said(&one["message"])]);
    }
    out.push_str(&table.render(2));
}

fn said(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The description as a value: the objects, and what was found about them.
pub fn value(found: &Described) -> Result<Value, Failure> {
    let failed = |error: serde_json::Error| Failure::failed("operator", &error);
    let parts: Vec<Value> = found.parts.iter().map(|part| json!({"object": part.object, "state": part.state})).collect();
    Ok(json!({
        "subscription": found.subscription, "csv": found.csv, "installPlan": found.plan, "operatorGroups": found.groups,
        "operatorCondition": found.condition, "explanation": serde_json::to_value(&found.explanation).map_err(failed)?,
        "objects": parts, "events": serde_json::to_value(&found.events).map_err(failed)?, "notes": found.notes,
    }))
}
