//! `mainstay uninstall`: what goes is shown before, and custom resources go only when that is asked for (MS-RB-02).

use std::time::{Duration, Instant};

use clap::Args;
use mainstay_api::olm_v1::{ClusterExtension, OWNER_KIND_LABEL, OWNER_NAME_LABEL};
use mainstay_apply::{Expect, ObjectRef, Patch, Propagation, Until};
use mainstay_diagnostics::counted;
use mainstay_olm_v1::extension::removal::{Definition, Preview};
use serde_json::{Value, json};

use super::flags::{Consent, Patience, Shown};
use super::install::named;
use crate::cluster::{ClusterArgs, Session, not_written};
use crate::errors::{Exit, Failure, note};
use crate::extensions::{self, API_VERSION};
use crate::output::{self, Format};
use crate::progress::Progress;
use crate::runtime;

mod gather;

/// Holds the extension until its CRDs are nobody's; then the cluster removes the rest.
const KEEPER: &str = "lifecycle.mainstay.dev/keep-crds";

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay uninstall beacon
  mainstay uninstall beacon --dry-run        only what goes, what stays, and who else uses it
  mainstay uninstall beacon --keep-crds      custom resources stay, with their definitions
  mainstay uninstall beacon --delete-crds    custom resources are deleted, too

  mainstay uninstall beacon --even-if-needed although other extensions need it

Where custom resources exist, one of the two has to be said (exit code 4 otherwise). The namespace stays.")]
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

/// Uninstalls.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    runtime::block_on(async {
        let session = if arguments.dry_run { arguments.cluster.open().await? } else { arguments.cluster.open_to_change().await? };
        let name = &arguments.name;
        let hints = || vec![format!("the same command again goes on; mainstay describe {name} shows what is left")];
        runtime::until_interrupt(uninstall(&session, arguments), hints).await
    })
}

/// Does what a plan of it says.
pub async fn perform(
    session: &Session,
    name: &str,
    keep_crds: Option<bool>,
    even_if_needed: bool,
    patience: Patience,
) -> Result<(), Failure> {
    let arguments = Arguments {
        name: name.to_owned(),
        delete_crds: keep_crds == Some(false),
        keep_crds: keep_crds == Some(true),
        even_if_needed,
        dry_run: false,
        shown: Shown { format: Format::Table },
        consent: Consent::GIVEN,
        patience,
        cluster: ClusterArgs::default(),
    };
    uninstall(session, &arguments).await
}

async fn uninstall(session: &Session, arguments: &Arguments) -> Result<(), Failure> {
    let begun = Instant::now();
    let name = &arguments.name;
    let extension = extensions::get(session, name).await?;
    let history = extensions::history(session, &extension).await?;
    let mut objects: Vec<Value> = Vec::new();
    for object in history.may_be_live().flat_map(|revision| &revision.record.objects) {
        if !objects.iter().any(|other| same(other, object)) {
            objects.push(object.clone());
        }
    }
    let preview = Box::pin(gather::preview(session, arguments, &extension, &objects)).await?;
    if arguments.dry_run {
        return show_preview(arguments, &preview);
    }
    lines(arguments, &preview).into_iter().for_each(note);
    if preview.used().next().is_some() && !arguments.delete_crds && !arguments.keep_crds {
        let failure = Failure::new(
            Exit::Impossible,
            format!("clusterextension {name}"),
            "custom resources exist, and would be deleted with their definitions",
        );
        let failure = preview.used().fold(failure, |failure, definition| failure.because(in_words(definition)));
        return Err(failure.hint("--keep-crds keeps the definitions and the custom resources").hint("--delete-crds deletes both"));
    }
    if !preview.needed_by.is_empty() && !arguments.even_if_needed {
        let failure = Failure::new(Exit::Impossible, format!("clusterextension {name}"), "other extensions need it");
        let failure = preview.needed_by.iter().fold(failure, |failure, need| failure.because(need.as_str()));
        return Err(failure.hint("--even-if-needed removes it all the same; what needs it may stop working"));
    }
    arguments.consent.ask(&format!("uninstall {name}?"))?;

    let mut progress = Progress::start();
    let place = ObjectRef {
        api_version: API_VERSION.to_owned(),
        kind: "ClusterExtension".to_owned(),
        namespace: String::new(),
        name: name.clone(),
    };
    let timeout = arguments.patience.limit();
    let failed = |error: mainstay_apply::WriteError| not_written(&error);
    if arguments.keep_crds {
        hold(session, &extension, true).await?;
    }
    progress.doing("delete the clusterextension");
    session.writer.delete(&place, &Expect::default(), Propagation::Background).await.map_err(failed)?;
    if arguments.keep_crds {
        // Only when the controller has let go of the extension does nobody put the owner back.
        progress.doing("wait until the controller has let go of the extension");
        released(session, &place, timeout).await?;
        for definition in objects.iter().filter(|object| object["kind"] == "CustomResourceDefinition") {
            progress.doing(&format!("keep {}", named(definition)));
            disown(session, definition).await?;
        }
        if let Some(extension) = extensions::find(session, name).await? {
            hold(session, &extension, false).await?;
        }
    }
    session.writer.wait(&place, &Until::Gone, timeout).await.map_err(failed)?;
    for object in &objects {
        let kept = object["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep";
        if kept || arguments.keep_crds && object["kind"] == "CustomResourceDefinition" {
            continue;
        }
        let place = ObjectRef::of(object).map_err(|error| Failure::failed(named(object), &error))?;
        progress.doing(&format!("wait until {} is gone", named(object)));
        session.writer.wait(&place, &Until::Gone, timeout.saturating_sub(begun.elapsed())).await.map_err(failed)?;
    }
    progress.doing("remove the installer's account and rights");
    remove_installer(session, name).await?;
    drop(progress);
    let kept = if arguments.keep_crds && !preview.definitions.is_empty() { "; its CRDs and custom resources were kept" } else { "" };
    output::line(format!("clusterextension {name} uninstalled in {:.1} s{kept}", begun.elapsed().as_secs_f64()))
}

/// The preview as text.
fn lines(arguments: &Arguments, preview: &Preview) -> Vec<String> {
    let mut lines = vec!["to be deleted:".to_owned(), format!("  ClusterExtension {}", arguments.name)];
    let count = |what: &str| {
        let definition = preview.definitions.iter().find(|definition| what == format!("CustomResourceDefinition {}", definition.name));
        definition.map_or_else(|| format!("  {what}"), |definition| format!("  {what} ({})", counts(definition)))
    };
    lines.extend(preview.deleted.iter().map(|what| count(what)));
    lines.extend(preview.installer.iter().map(|what| format!("  {what} (made by mainstay install)")));
    lines.push("to be kept:".to_owned());
    lines.extend(preview.kept.iter().map(|what| count(what)));
    if !preview.operands.is_empty() {
        lines.push(format!("made for its custom resources, and {} with them:", if arguments.keep_crds { "kept" } else { "deleted" }));
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

fn show_preview(arguments: &Arguments, preview: &Preview) -> Result<(), Failure> {
    if arguments.shown.format.is_table() {
        return lines(arguments, preview).into_iter().try_for_each(output::line);
    }
    let mut document = serde_json::to_value(preview).map_err(|error| Failure::failed("preview", &error))?;
    document["kind"] = "RemovalPreview".into();
    document["name"] = arguments.name.clone().into();
    output::value(&arguments.shown.format, &document)
}

/// `widgets.example.com: 3 custom resources (2 in a, 1 in b)`.
fn in_words(definition: &Definition) -> String {
    format!("{}: {}", definition.name, counts(definition))
}

fn counts(definition: &Definition) -> String {
    let place = |(namespace, count): (&String, &usize)| format!("{count} in {namespace}");
    let places: Vec<String> = definition.namespaces.iter().filter(|(namespace, _)| !namespace.is_empty()).map(place).collect();
    let places = if places.is_empty() { String::new() } else { format!(": {}", places.join(", ")) };
    format!("{}{places}", counted(definition.instances, "custom resource"))
}

fn same(one: &Value, other: &Value) -> bool {
    let key = |object: &Value| {
        let group = object["apiVersion"].as_str().unwrap_or_default().rsplit_once('/').map(|(group, _)| group.to_owned());
        (group, object["kind"].clone(), object["metadata"]["namespace"].clone(), object["metadata"]["name"].clone())
    };
    key(one) == key(other)
}

/// Waits until no finalizer but ours is on the extension: then no reconcile of it is under way any more (OLM1-CTRL-07).
async fn released(session: &Session, place: &ObjectRef, timeout: Duration) -> Result<(), Failure> {
    const LOOK: Duration = Duration::from_millis(50);
    let begun = Instant::now();
    loop {
        let live = session.writer.get(place).await.map_err(|error| not_written(&error))?;
        let others = live.as_ref().and_then(|live| live.pointer("/metadata/finalizers")).and_then(Value::as_array);
        if others.is_none_or(|all| all.iter().all(|finalizer| finalizer == KEEPER)) {
            return Ok(());
        }
        if begun.elapsed() > timeout {
            let problem = format!("the controller still holds it after {} s; nothing was deleted yet", timeout.as_secs());
            return Err(Failure::new(Exit::TimedOut, place.to_string(), problem).hint("is the operator-controller running?"));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Puts our finalizer on the extension, or takes it off. The controller changes the same list at the same time, so a conflict is
/// answered by looking again.
async fn hold(session: &Session, extension: &ClusterExtension, on: bool) -> Result<(), Failure> {
    const TRIES: usize = 20;
    let place = ObjectRef {
        api_version: API_VERSION.to_owned(),
        kind: "ClusterExtension".to_owned(),
        namespace: String::new(),
        name: extension.metadata.name.clone().unwrap_or_default(),
    };
    let mut tries = 0;
    loop {
        let Some(live) = session.writer.get(&place).await.map_err(|error| not_written(&error))? else {
            return Ok(());
        };
        let outcome =
            if on { session.writer.add_finalizer(&live, KEEPER).await } else { session.writer.remove_finalizer(&live, KEEPER).await };
        tries += 1;
        match outcome {
            Ok(_) => return Ok(()),
            Err(error) if error.reason() == Some(&mainstay_apply::Reason::Conflict) && tries < TRIES => {}
            Err(error) => return Err(not_written(&error)),
        }
    }
}

/// Takes the owner off an object.
async fn disown(session: &Session, object: &Value) -> Result<(), Failure> {
    let place = ObjectRef::of(object).map_err(|error| Failure::failed(named(object), &error))?;
    let patch = Patch::Merge(json!({"metadata": {"ownerReferences": null, "labels": {OWNER_KIND_LABEL: null, OWNER_NAME_LABEL: null}}}));
    match session.writer.patch(&place, "", &patch).await {
        Ok(_) | Err(mainstay_apply::WriteError::Refused { reason: mainstay_apply::Reason::NotFound, .. }) => Ok(()),
        Err(error) => Err(not_written(&error)),
    }
}

/// Removes what install made for the account; an account of the user's stays.
async fn remove_installer(session: &Session, extension: &str) -> Result<(), Failure> {
    for place in gather::installer(session, extension).await? {
        session.writer.delete(&place, &Expect::default(), Propagation::Background).await.map_err(|error| not_written(&error))?;
    }
    Ok(())
}
