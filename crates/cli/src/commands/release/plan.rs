//! `mainstay release plan`: what an update from one release to another does (MS-PLAN-01, CVO-GRAPH-11).

use clap::Args;
use mainstay_cluster_version_core::plan::{Effect, Group, Object, Plan, Side};
use mainstay_release::{FileName, Files, Filter, Manifest, Metadata};
use mainstay_terminal::errors::{Exit, Failure, warn};
use mainstay_terminal::output::{self, Format, Table};
use serde_json::{Value, json};

use super::{Cluster, of_files, source};

/// Arguments of `release plan`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay release plan payload/4.18.54 payload/4.19.44
  mainstay release plan quay.example/release:4.18.54 release-4.19.44.tar --fields
  mainstay release plan OLD NEW --capabilities None,Console -o json

The cluster is taken to be as OLD wants it; nothing is asked of a cluster. Each write is computed by the rules of its kind, as the Cluster
Version Operator does it. Groups of the same step are applied at once.

Exit codes: 0 done, 1 bad input, 4 the update would fail at a manifest.")]
pub struct Arguments {
    /// The release that the cluster has: an image, an OCI layout or archive, a tar file, or a folder
    #[arg(value_name = "OLD")]
    from: String,
    /// The release that it is to get
    #[arg(value_name = "NEW")]
    to: String,
    #[command(flatten)]
    cluster: Cluster,
    /// Show each field that changes
    #[arg(long)]
    fields: bool,
    /// Show unchanged objects too
    #[arg(long)]
    all: bool,
    /// table, json or yaml
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json or yaml"))]
    output: Format,
}

/// A release's version, its manifests and the versions that may update to it.
struct Read {
    metadata: Metadata,
    manifests: Vec<Manifest>,
}

impl Read {
    fn of(place: &str, profile: &str) -> Result<Self, Failure> {
        let files: Files = source::read(place)?.files;
        let subject = format!("release {place}");
        let Some(metadata) = files.release("release-metadata") else {
            return Err(Failure::new(Exit::Failed, subject, "has no release-metadata"));
        };
        let metadata = Metadata::parse(metadata).map_err(|error| Failure::failed(&subject, &error))?;
        for warning in &metadata.warnings {
            warn(&subject, warning);
        }
        Ok(Self { manifests: of_files(&files, place, profile)?, metadata })
    }

    fn side(&self) -> Side<'_> {
        Side { version: &self.metadata.version_text, manifests: &self.manifests }
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let capabilities = arguments.cluster.capabilities()?;
    let filter: Filter<'_> = arguments.cluster.filter(&capabilities);
    let (from, to) =
        (Read::of(&arguments.from, filter.profile.unwrap_or_default())?, Read::of(&arguments.to, filter.profile.unwrap_or_default())?);
    let plan = Plan::new(from.side(), to.side(), &to.metadata.previous, &filter, &capabilities);
    if arguments.output.is_table() {
        print(&plan, arguments)?;
    } else {
        let told = serde_json::to_value(&plan).map_err(|error| Failure::failed("plan", &error))?;
        output::value(&arguments.output, &told)?;
    }
    if plan.summary.faults == 0 {
        return Ok(());
    }
    Err(Failure::new(Exit::Impossible, format!("update {} to {}", plan.from, plan.to), "would fail at a manifest"))
}

fn print(plan: &Plan, arguments: &Arguments) -> Result<(), Failure> {
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
        group
            .objects
            .iter()
            .filter(|object| arguments.all || shows(object))
            .for_each(|object| rows(&mut table, group, object, arguments.fields));
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
    if arguments.all {
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

fn section(title: &str, lines: impl ExactSizeIterator<Item = String>) -> Result<(), Failure> {
    if lines.len() == 0 {
        return Ok(());
    }
    output::line("")?;
    output::line(format!("{title}:"))?;
    lines.into_iter().try_for_each(|line| output::line(format!("  {line}")))
}
