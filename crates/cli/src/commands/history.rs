//! `mainstay history`: the revisions of an extension, and the changes of each (MS-RB-01).

use clap::Args;
use mainstay_lifecycle::revision::KEPT;
use mainstay_lifecycle::revision::{Changes, History, Revision};
use mainstay_objects::ObjectRef;
use mainstay_operations::extensions;
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Failure, note};
use mainstay_terminal::output::{self, Format, Table};
use mainstay_terminal::runtime;
use serde_json::{Value, json};

use super::flags::Shown;
use super::listed::age;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay history beacon
  mainstay history beacon -o wide      with phases and why a revision failed
  mainstay history beacon -o json      with every object that a revision added, changed or removed

mainstay rollback NAME --to-revision N leads back to one of them, with a verdict first.")]
pub struct Arguments {
    /// The extension
    pub name: String,
    /// How they are shown.
    #[command(flatten)]
    pub shown: Shown,
    /// Which cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Shows the revisions.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    runtime::block_on(async {
        let session = arguments.cluster.open().await?;
        let extension = extensions::get(&session, &arguments.name).await?;
        let history = extensions::history(&session, &extension).await?;
        let format = &arguments.shown.format;
        if format.is_table() { table(arguments, &history) } else { output::value(format, &document(&history)) }
    })
}

fn table(arguments: &Arguments, history: &History) -> Result<(), Failure> {
    if history.revisions.is_empty() {
        note(format!("clusterextension {}: nothing was applied yet", arguments.name));
        return Ok(());
    }
    let wide = arguments.shown.format == Format::Wide;
    let mut titles = vec!["REVISION", "STATE", "BUNDLE", "VERSION", "AGE", "OBJECTS", "CHANGED", "DIGEST"];
    if wide {
        titles.extend(["PHASES", "WHY"]);
    }
    let mut table = Table::new(&titles);
    for revision in &history.revisions {
        let digest = revision.record.digest();
        let short: String = digest.chars().take("sha256:".len() + 12).collect();
        let begun = revision.notes.begun.map(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time);
        let mut cells = vec![
            revision.number.to_string(),
            revision.state.as_str().to_owned(),
            revision.record.bundle.name.clone(),
            revision.record.bundle.version.clone(),
            age(begun.as_ref()),
            revision.record.objects.len().to_string(),
            in_numbers(&changes(history, revision)),
            if wide { digest.clone() } else { short },
        ];
        if wide {
            let phases = revision.record.phases();
            cells.push(phases.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", "));
            cells.push(remark(revision));
        }
        table.row(cells);
    }
    table.print()?;
    if history.revisions.len() >= KEPT {
        note(format!("the last {KEPT} revisions are kept"));
    }
    Ok(())
}

/// The changes of a revision, compared with the newest one before it that was deployed.
fn changes(history: &History, revision: &Revision) -> Changes {
    revision.record.changes(history.before(revision.number).map(|earlier| &*earlier.record))
}

fn in_numbers(changes: &Changes) -> String {
    let part = |sign: &str, objects: &[ObjectRef]| (!objects.is_empty()).then(|| format!("{sign}{}", objects.len()));
    let parts = [part("+", &changes.added), part("~", &changes.changed), part("-", &changes.removed)];
    let text: Vec<String> = parts.into_iter().flatten().collect();
    if text.is_empty() { "nothing".to_owned() } else { text.join(" ") }
}

fn remark(revision: &Revision) -> String {
    let notes = &revision.notes;
    let back = notes.rolled_back.as_ref().map(|back| format!("leads back from revision {}", back.from));
    let waits = notes.waits_before.as_ref().map(|phase| format!("waits before {phase}"));
    let overtaken = notes.overtaken_by.map(|number| format!("overtaken by revision {number} before it was complete"));
    let healthy = notes.healthy_by.map(|by| format!("has to be healthy by {by}"));
    notes.why.clone().or(overtaken).or(waits).or(back).or(healthy).unwrap_or_default()
}

/// The history as a document; its fields are stable.
fn document(history: &History) -> Value {
    let objects = |all: &[ObjectRef]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
    let items: Vec<Value> = history
        .revisions
        .iter()
        .map(|revision| {
            let (record, notes, changes) = (&revision.record, &revision.notes, changes(history, revision));
            let phases: Vec<Value> = record.phases().iter().map(|(name, count)| json!({"name": name, "objects": count})).collect();
            json!({
                "kind": "Revision",
                "name": revision.number.to_string(),
                "revision": revision.number,
                "state": revision.state.as_str(),
                "bundle": record.bundle,
                "begun": notes.begun.map(|time| time.to_string()),
                "applied": notes.applied.map(|time| time.to_string()),
                "waitsBefore": notes.waits_before,
                "healthyBy": notes.healthy_by.map(|time| time.to_string()),
                "why": notes.why,
                "rolledBack": notes.rolled_back,
                "overtakenBy": notes.overtaken_by,
                "digest": record.digest(),
                "objects": record.objects.len(),
                "phases": phases,
                "changes": {
                    "added": objects(&changes.added), "changed": objects(&changes.changed), "removed": objects(&changes.removed),
                },
            })
        })
        .collect();
    json!({"kind": "RevisionList", "items": items})
}
