//! Plans of a cluster's update and its readiness, as text.

use clap::Args;
use mainstay_cluster_version_core::plan::{Effect, Group, Object, Plan};
use mainstay_cluster_version_core::readiness::{Estimate, Report};
use mainstay_release::FileName;
use mainstay_terminal::errors::Failure;
use mainstay_terminal::output::{self, Table};
use serde_json::{Value, json};

/// The parts of a plan that are shown.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct Shown {
    /// Show each field that changes
    #[arg(long)]
    pub fields: bool,
    /// Show unchanged objects and excluded manifests too
    #[arg(long)]
    pub all: bool,
}

/// Prints the plan of an update.
pub fn plan(plan: &Plan, shown: Shown) -> Result<(), Failure> {
    output::line(format!("Update from {} to {}", plan.from, plan.to))?;
    if !plan.is_offered {
        output::line(format!("{} is not among the versions that may update to {}", plan.from, plan.to))?;
    }
    if !plan.implicit_capabilities.is_empty() {
        let names: Vec<&str> = plan.implicit_capabilities.iter().map(String::as_str).collect();
        output::line(format!("Capabilities that become implicitly enabled: {}", names.join(", ")))?;
    }
    output::line("")?;
    let mut table = Table::new(&["STEP", "RUNLEVEL", "COMPONENT", "EFFECT", "OBJECT", "WAITS FOR"]);
    for group in &plan.groups {
        group.objects.iter().filter(|object| shown.all || shows(object)).for_each(|object| rows(&mut table, group, object, shown.fields));
    }
    table.print()?;
    section(
        "Objects that stay although the release no longer has them",
        plan.left.iter().map(|left| {
            let reason = left.excluded.as_ref().map(|reason| format!(": excluded, {reason}")).unwrap_or_default();
            format!("{} ({}){reason}", left.id, left.file)
        }),
    )?;
    section(
        "Objects with several manifests, applied in this order",
        plan.duplicates.iter().map(|duplicate| format!("{}: {}", duplicate.id, duplicate.files.join(", "))),
    )?;
    if shown.all {
        section("Excluded manifests", plan.excluded.iter().map(|one| format!("{} ({}): {}", one.id, one.file, one.reason)))?;
    }
    let sum = plan.summary;
    output::line("")?;
    output::line(format!(
        "{} created, {} changed, {} deleted, {} unchanged, {} excluded, {} left, {} would fail",
        sum.created, sum.updated, sum.deleted, sum.unchanged, sum.excluded, sum.left, sum.faults
    ))
}

/// Returns whether the update does something to the object, or waits for it.
fn shows(object: &Object) -> bool {
    !matches!(object.effect, Effect::Unchanged | Effect::Gone) || object.id.kind == "ClusterOperator"
}

fn rows(table: &mut Table, group: &Group, object: &Object, with_fields: bool) {
    let effect = match &object.effect {
        Effect::Create => "create".to_owned(),
        Effect::Update { changes, omitted } => {
            let count = changes.len() + omitted;
            format!("change {count} field{}", if count == 1 { "" } else { "s" })
        }
        Effect::Unchanged => "unchanged".to_owned(),
        Effect::Delete => "delete".to_owned(),
        Effect::Gone => "deleted before".to_owned(),
        Effect::Fault { reason } => format!("fail: {reason}"),
    };
    let name = FileName::parse(&object.file);
    let alone = if group.barrier { " alone" } else { "" };
    table.row([
        group.step.to_string(),
        name.map(|name| name.level.to_string()).unwrap_or_default() + alone,
        name.map(|name| name.component.to_owned()).unwrap_or_default(),
        effect,
        object.id.to_string(),
        object.wait.clone().unwrap_or_default(),
    ]);
    if let Effect::Update { changes, omitted } = &object.effect
        && with_fields
    {
        for change in changes {
            let shown = |value: &Option<Value>| value.as_ref().map_or_else(|| "(none)".to_owned(), short);
            table.row(["", "", "", "", &format!("  {}: {} -> {}", change.path, shown(&change.from), shown(&change.to)), ""]);
        }
        if *omitted > 0 {
            table.row(["", "", "", "", &format!("  and {omitted} more"), ""]);
        }
    }
}

/// A value as one line of at most 60 letters.
fn short(value: &Value) -> String {
    let text = json!(value).to_string();
    if text.chars().count() <= 60 { text } else { text.chars().take(57).collect::<String>() + "..." }
}

/// Prints lines under a title; nothing if there are none.
pub fn section(title: &str, lines: impl ExactSizeIterator<Item = String>) -> Result<(), Failure> {
    if lines.len() == 0 {
        return Ok(());
    }
    output::line("")?;
    output::line(format!("{title}:"))?;
    lines.into_iter().try_for_each(|line| output::line(format!("  {line}")))
}

/// Prints findings by level, and the checks that could not be made.
pub fn report(report: &Report) -> Result<(), Failure> {
    output::line("")?;
    if report.findings.is_empty() {
        output::line("No check found anything.")?;
    } else {
        let mut table = Table::new(&["LEVEL", "CHECK", "OBJECT", "EVIDENCE", "ACTION"]);
        for finding in &report.findings {
            let since = finding.since.as_ref().map(|since| format!(" (since {since})")).unwrap_or_default();
            let evidence = finding.evidence.replace('\n', " ") + &since;
            table.row([&finding.level.to_string(), finding.check.name(), &finding.object, &evidence, &finding.action]);
        }
        table.print()?;
    }
    let not_run = report.not_run.iter().map(|not_run| format!("{}: {}", not_run.check.name(), not_run.why));
    section("Checks that could not be made", not_run)
}

/// Prints what takes time.
pub fn estimate(estimate: &Estimate) -> Result<(), Failure> {
    let last = estimate.last_update_seconds.map(|seconds| format!("the operators took {} in the last completed update", minutes(seconds)));
    let pools = estimate.pools.iter().map(|pool| {
        format!(
            "machineconfigpool {}: {} nodes, {} at once, {} rounds of drain and restart",
            pool.name, pool.nodes, pool.max_unavailable, pool.rounds
        )
    });
    let lines: Vec<String> = last.into_iter().chain(pools).collect();
    section("What takes time", lines.into_iter())
}

fn minutes(seconds: i64) -> String {
    if seconds < 120 { format!("{seconds} s") } else { format!("{} min", seconds / 60) }
}
