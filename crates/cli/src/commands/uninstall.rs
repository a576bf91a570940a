//! `mainstay uninstall`: shows first what will be removed, and removes custom resources only when asked to (MS-RB-02).

use clap::Args;
use mainstay_lifecycle::removal::Choices;
use mainstay_olm_classic_core::removal;
use mainstay_operations::apply::carry_out;
use mainstay_operations::uninstall::Removal;
use mainstay_operations::{Change, Session};
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Exit, Failure, note_drawn, warn};
use mainstay_terminal::output::{self, Format};
use mainstay_terminal::progress::Progress;
use mainstay_terminal::runtime;

use super::classic;
use super::flags::{Consent, Patience, Shown};
use crate::{named, plan_text};

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay uninstall beacon
  mainstay uninstall beacon --dry-run        only what goes, what stays, and who else uses it
  mainstay uninstall beacon --keep-crds      custom resources stay, with their definitions
  mainstay uninstall beacon --delete-crds    custom resources are deleted, too

  mainstay uninstall beacon --classic -n lights   Subscription and CSV of OLM classic; CRDs stay without --delete-crds
  mainstay uninstall beacon --even-if-needed although other extensions need it
  mainstay uninstall beacon --delete-namespace and everything else in its namespace

Where custom resources exist, one of the two has to be said (exit code 4 otherwise). The namespace stays without --delete-namespace.")]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Arguments {
    /// The extension
    pub name: String,
    /// Delete its CRDs and so all custom resources of these kinds
    #[arg(long, conflicts_with = "keep_crds")]
    pub delete_crds: bool,
    /// Keep its CRDs and all custom resources
    #[arg(long)]
    pub keep_crds: bool,
    /// Also when other extensions need it
    #[arg(long)]
    pub even_if_needed: bool,
    /// Delete its namespace, too, unless another extension is in it
    #[arg(long)]
    pub delete_namespace: bool,
    /// The Subscription's namespace, with --classic
    #[arg(long, short, value_name = "NAMESPACE", value_parser = named::namespace, requires = "classic")]
    pub namespace: Option<String>,
    /// Of OLM classic: the Subscription, package or CSV of this name
    #[arg(long, requires = "namespace", conflicts_with = "delete_namespace")]
    pub classic: bool,
    /// Only show what would happen
    #[arg(long)]
    pub dry_run: bool,
    /// How the preview of a dry run is shown.
    #[command(flatten)]
    pub shown: Shown,
    /// Whether to ask.
    #[command(flatten)]
    pub consent: Consent,
    /// How long to wait.
    #[command(flatten)]
    pub patience: Patience,
    /// Which cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Uninstalls the extension.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    runtime::block_on(async {
        let session = if arguments.dry_run { arguments.cluster.open().await? } else { arguments.cluster.open_to_change().await? };
        let name = &arguments.name;
        if arguments.classic {
            let namespace = classic::namespace("uninstall", arguments.namespace.as_deref())?;
            let choices = removal::Choices { delete_crds: arguments.delete_crds, even_if_needed: arguments.even_if_needed };
            let manner = classic::uninstall::Manner {
                is_dry: arguments.dry_run,
                consent: &arguments.consent,
                patience: arguments.patience,
                format: &arguments.shown.format,
            };
            let hints = || vec![format!("the same command again goes on; mainstay list --classic -n {namespace} shows what is left")];
            return runtime::until_interrupt(Box::pin(classic::uninstall::uninstall(&session, namespace, name, choices, &manner)), hints)
                .await;
        }
        let hints = || vec![format!("the same command again goes on; mainstay describe {name} shows what is left")];
        runtime::until_interrupt(Box::pin(uninstall(&session, arguments)), hints).await
    })
}

/// Plans a removal, shows it, asks, and carries it out.
async fn uninstall(session: &Session, arguments: &Arguments) -> Result<(), Failure> {
    let name = &arguments.name;
    let choices = Choices {
        keep_crds: (arguments.delete_crds || arguments.keep_crds).then_some(arguments.keep_crds),
        even_if_needed: arguments.even_if_needed,
        delete_namespace: arguments.delete_namespace,
    };
    let change = Change::Uninstall { name: name.clone(), choices };
    let planned = Box::pin(mainstay_operations::plan(session, &change, false, &mut Progress::start())).await?;
    let Some(removal) = &planned.removal else {
        return Err(Failure::new(Exit::Failed, format!("clusterextension {name}"), "the plan removes nothing"));
    };
    for note in &planned.notes {
        warn(&format!("clusterextension {name}"), note);
    }
    if arguments.dry_run {
        return show_preview(name, &arguments.shown.format, removal);
    }
    note_drawn(plan_text::painted_lines(lines(name, removal)));
    if let Some(refusal) = planned.refusal() {
        return Err(refusal.into());
    }
    arguments.consent.ask(&format!("uninstall {name}?"))?;
    let outcome = carry_out(session, &planned, Some(arguments.patience.limit()), &mut Progress::start()).await?;
    output::line(outcome.line)
}

/// The preview as text.
fn lines(name: &str, removal: &Removal) -> Vec<String> {
    let preview = &removal.preview;
    let mut lines = vec!["to be deleted:".to_owned(), format!("  ClusterExtension {name}")];
    let count = |what: &str| {
        let definition = preview.definitions.iter().find(|definition| what == format!("CustomResourceDefinition {}", definition.name));
        definition.map_or_else(|| format!("  {what}"), |definition| format!("  {what} ({definition})"))
    };
    lines.extend(preview.deleted.iter().map(|what| count(what)));
    lines.extend(preview.installer.iter().map(|what| format!("  {what} (made by mainstay install)")));
    lines.push("to be kept:".to_owned());
    lines.extend(preview.kept.iter().map(|what| count(what)));
    if !preview.operands.is_empty() {
        lines.push(format!("made for its custom resources, and {} with them:", if removal.keeps { "kept" } else { "deleted" }));
        for operands in &preview.operands {
            let place = if operands.namespace.is_empty() { String::new() } else { format!(" in namespace {}", operands.namespace) };
            lines.push(format!("  {} {}{place}", operands.count, operands.kind));
        }
    }
    if !preview.needed_by.is_empty() {
        lines.push("needed by:".to_owned());
        lines.extend(preview.needed_by.iter().map(|need| format!("  {need}")));
    }
    if !preview.users.is_empty() {
        lines.push("used by others:".to_owned());
        lines.extend(preview.users.iter().map(|user| format!("  {user}")));
    }
    lines
}

fn show_preview(name: &str, format: &Format, removal: &Removal) -> Result<(), Failure> {
    if format.is_table() {
        return output::drawn(&format!("{}\n", plan_text::painted_lines(lines(name, removal))));
    }
    let mut document = serde_json::to_value(&removal.preview).map_err(|error| Failure::failed("preview", &error))?;
    document["kind"] = "RemovalPreview".into();
    document["name"] = name.into();
    output::value(format, &document)
}
