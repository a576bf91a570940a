//! `mainstay uninstall`: what goes is shown before, and custom resources go only when that is asked for (MS-RB-02).

use std::time::{Duration, Instant};

use clap::Args;
use mainstay_api::olm_v1::{ClusterExtension, OWNER_KIND_LABEL, OWNER_NAME_LABEL};
use mainstay_diagnostics::counted;
use mainstay_lifecycle::preview::Problem;
use mainstay_lifecycle::removal::{Definition, Preview};
use mainstay_objects::{Expect, ObjectRef, Patch, Propagation, Until};
use mainstay_olm_v1_core::extension::owned::{PRIMARY_RESOURCE, PRIMARY_RESOURCE_TYPE, Tie};
use mainstay_olm_v1_core::extension::plan::Stays;
use mainstay_olm_v1_core::extension::preview;
use serde_json::{Value, json};

use super::flags::{Consent, Patience, Shown};
use super::install::named;
use crate::cluster::{ClusterArgs, Session, not_written};
use crate::errors::{Exit, Failure, note_drawn, warn};
use crate::extensions::{self, API_VERSION};
use crate::output::{self, Format};
use crate::ownership;
use crate::plans;
use crate::progress::Progress;
use crate::runtime;

mod gather;

use gather::Found;

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
        delete_namespace: false,
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
    let found = Box::pin(gather::found(session, arguments, &extension)).await?;
    let mut preview = Box::pin(gather::preview(session, arguments, &extension, &found)).await?;
    if arguments.delete_namespace {
        let namespace = namespace(&extension).to_string();
        preview.kept.retain(|kept| *kept != namespace);
        preview.deleted.push(format!("{namespace}, with everything else in it"));
    }
    let keeps = arguments.keep_crds || found.staying.is_some();
    if arguments.dry_run {
        return show_preview(arguments, keeps, &preview);
    }
    note_drawn(plans::painted_lines(lines(arguments, keeps, &preview)));
    guard(arguments, &found, &preview)?;
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
    if keeps {
        hold(session, &extension, true).await?;
    }
    progress.doing("delete the clusterextension");
    let this = Expect { uid: extension.metadata.uid.clone(), ..Expect::default() };
    session.writer.delete(&place, &this, Propagation::Background).await.map_err(failed)?;
    if keeps {
        // Only when the controller has let go of the extension does nobody put the owner back.
        progress.doing("wait until the controller has let go of the extension");
        released(session, &place, timeout).await?;
        keep_definitions(session, &extension, found.staying, &mut progress).await?;
        if found.staying == Some(Stays::Everything) {
            keep_objects(session, &extension, &found, &mut progress).await?;
        }
        if let Some(extension) = extensions::find(session, name).await? {
            hold(session, &extension, false).await?;
        }
    }
    session.writer.wait(&place, &Until::Gone, timeout).await.map_err(failed)?;
    if arguments.delete_crds {
        for (definition, _) in found.definitions.iter().flatten().filter(|(_, tie)| *tie == Tie::Mark) {
            // Nothing else does.
            let place = ObjectRef::of(definition).map_err(|error| Failure::failed(named(definition), &error))?;
            session.writer.delete(&place, &Expect::uid_of(definition), Propagation::Background).await.map_err(failed)?;
        }
    }
    for object in &found.objects {
        let kept = object["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep";
        if kept || found.staying == Some(Stays::Everything) || keeps && object["kind"] == "CustomResourceDefinition" {
            continue;
        }
        let place = ObjectRef::of(object).map_err(|error| Failure::failed(named(object), &error))?;
        progress.doing(&format!("wait until {} is gone", named(object)));
        session.writer.wait(&place, &Until::Gone, timeout.saturating_sub(begun.elapsed())).await.map_err(failed)?;
    }
    progress.doing("remove the installer's account and rights");
    remove_installer(session, name).await?;
    if arguments.delete_namespace {
        progress.doing(&format!("delete namespace {}", extension.spec.namespace));
        let namespace = namespace(&extension);
        session.writer.delete(&namespace, &Expect::default(), Propagation::Background).await.map_err(failed)?;
        session.writer.wait(&namespace, &Until::Gone, timeout.saturating_sub(begun.elapsed())).await.map_err(failed)?;
    }
    drop(progress);
    let kept = match found.staying {
        Some(Stays::Everything) => "; everything that it installed was kept",
        _ if keeps && !preview.definitions.is_empty() => "; its CRDs and custom resources were kept",
        _ => "",
    };
    output::line(format!("clusterextension {name} uninstalled in {:.1} s{kept}", begun.elapsed().as_secs_f64()))
}

/// Whether it may be done: custom resources, and others that need it, are lost only when that was said. What cannot be known stops it.
fn guard(arguments: &Arguments, found: &Found, preview: &Preview) -> Result<(), Failure> {
    let name = &arguments.name;
    let subject = || format!("clusterextension {name}");
    let said = arguments.delete_crds || arguments.keep_crds || found.staying.is_some();
    if arguments.delete_crds && found.staying.is_some() {
        return Err(refusal(&subject(), preview::asked_to_stay(name)));
    }
    if arguments.delete_namespace && found.staying == Some(Stays::Everything) {
        let message = format!("what it installed in namespace {} is to stay, and would be deleted with it", found.namespace);
        return Err(Failure::new(Exit::Impossible, subject(), message).hint("without --delete-namespace it stays"));
    }
    if let Err(problem) = &found.definitions {
        warn(&subject(), &format!("which custom resource definitions it owns is not known: {problem}"));
    }
    let through = |(definition, tie): &(Value, Tie)| match tie {
        Tie::Through(holder) if arguments.keep_crds || found.staying.is_some() => {
            Some(preview::not_ours_to_keep(definition["metadata"]["name"].as_str().unwrap_or_default(), holder))
        }
        _ => None,
    };
    if let Some(problem) = found.definitions.iter().flatten().find_map(through) {
        return Err(refusal(&subject(), problem));
    }
    if preview.used().next().is_some() && !said {
        let some = preview.used().any(|definition| definition.instances.is_some());
        let exist = if some { "custom resources exist, and" } else { "custom resources may exist, and" };
        let failure = Failure::new(Exit::Impossible, subject(), format!("{exist} would be deleted with their definitions"));
        let failure = preview.used().fold(failure, |failure, definition| failure.because(in_words(definition)));
        return Err(failure.hint("--keep-crds keeps the definitions and the custom resources").hint("--delete-crds deletes both"));
    }
    if arguments.delete_namespace && (arguments.keep_crds || found.staying.is_some()) {
        let inside = |definition: &&Definition| definition.instances.is_none() || definition.namespaces.contains_key(&found.namespace);
        let lost: Vec<String> = preview.definitions.iter().filter(inside).map(in_words).collect();
        if !lost.is_empty() {
            let message = format!("custom resources in namespace {} would be deleted with it", found.namespace);
            let failure = Failure::new(Exit::Impossible, subject(), message);
            let failure = lost.into_iter().fold(failure, super::super::errors::Failure::because);
            return Err(failure.hint("without --delete-namespace they stay"));
        }
    }
    if arguments.delete_namespace && !found.neighbours.is_empty() {
        let failure = Failure::new(Exit::Impossible, subject(), format!("its namespace {} is not its own", found.namespace));
        return Err(found
            .neighbours
            .iter()
            .fold(failure, |failure, other| failure.because(other.as_str()))
            .hint("without --delete-namespace it stays"));
    }
    if !preview.needed_by.is_empty() && !arguments.even_if_needed {
        let failure = Failure::new(Exit::Impossible, subject(), "other extensions need it");
        let failure = preview.needed_by.iter().fold(failure, |failure, need| failure.because(need.as_str()));
        return Err(failure.hint("--even-if-needed removes it all the same; what needs it may stop working"));
    }
    Ok(())
}

fn refusal(subject: &str, problem: Problem) -> Failure {
    let failure = Failure::new(Exit::Impossible, subject, problem.message);
    let failure = problem.causes.into_iter().fold(failure, Failure::because);
    problem.hints.into_iter().fold(failure, Failure::hint)
}

fn namespace(extension: &ClusterExtension) -> ObjectRef {
    ObjectRef {
        api_version: "v1".to_owned(),
        kind: "Namespace".to_owned(),
        namespace: String::new(),
        name: extension.spec.namespace.clone(),
    }
}

/// The preview as text.
fn lines(arguments: &Arguments, keeps: bool, preview: &Preview) -> Vec<String> {
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
        lines.push(format!("made for its custom resources, and {} with them:", if keeps { "kept" } else { "deleted" }));
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

fn show_preview(arguments: &Arguments, keeps: bool, preview: &Preview) -> Result<(), Failure> {
    if arguments.shown.format.is_table() {
        return output::drawn(&format!("{}\n", plans::painted_lines(lines(arguments, keeps, preview))));
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
    match (definition.instances, &definition.unknown) {
        (Some(count), _) => format!("{}{places}", counted(count, "custom resource")),
        (None, Some(problem)) => format!("custom resources unknown: {problem}"),
        (None, None) => "custom resources unknown".to_owned(),
    }
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

/// Takes the extension off every CRD that is its own now, and looks again: one that still is would be lost.
async fn keep_definitions(
    session: &Session,
    extension: &ClusterExtension,
    staying: Option<Stays>,
    progress: &mut Progress,
) -> Result<(), Failure> {
    const TRIES: usize = 20;
    let mut tries = 0;
    loop {
        let mut owned = ownership::definitions(session, extension).await?;
        // Where the extension itself asks for it, its controller has taken the owner off, and the labels are to stay (OLM1-INST-15).
        owned.retain(|(_, tie)| staying.is_none() || *tie != Tie::Mark);
        if owned.is_empty() {
            return Ok(());
        }
        tries += 1;
        if tries > TRIES {
            let names: Vec<String> = owned.iter().map(|(definition, _)| named(definition)).collect();
            let problem = format!("{} cannot be kept: somebody puts the owner back", names.join(", "));
            let name = extension.metadata.name.as_deref().unwrap_or_default();
            return Err(Failure::new(Exit::Impossible, format!("clusterextension {name}"), problem)
                .because(format!("finalizer {KEEPER} holds the extension, so that nothing was lost")));
        }
        for (definition, _) in &owned {
            progress.doing(&format!("keep {}", named(definition)));
            disown(session, extension, definition).await?;
        }
    }
}

/// Takes the extension off whatever its controller has not let go of: one that does not know the annotation.
async fn keep_objects(session: &Session, extension: &ClusterExtension, found: &Found, progress: &mut Progress) -> Result<(), Failure> {
    const TRIES: usize = 20;
    for object in found.objects.iter().filter(|object| object["kind"] != "CustomResourceDefinition") {
        let place = ObjectRef::of(object).map_err(|error| Failure::failed(named(object), &error))?;
        let mut tries = 0;
        loop {
            let live = session.writer.get(&place).await.map_err(|error| not_written(&error))?;
            let Some(live) = live.filter(|live| ownership::identity(extension).tie(live, &[]) == Some(Tie::Reference)) else { break };
            tries += 1;
            if tries > TRIES {
                return Err(Failure::new(Exit::Impossible, named(&live), "cannot be kept: somebody puts the owner back")
                    .because(format!("finalizer {KEEPER} holds the extension, so that nothing was lost")));
            }
            progress.doing(&format!("keep {}", named(&live)));
            disown(session, extension, &live).await?;
        }
    }
    Ok(())
}

/// Takes the extension off an object; other owners stay.
async fn disown(session: &Session, extension: &ClusterExtension, object: &Value) -> Result<(), Failure> {
    let place = ObjectRef::of(object).map_err(|error| Failure::failed(named(object), &error))?;
    let owners = ownership::identity(extension).other_owners(object);
    let patch = Patch::Merge(json!({"metadata": {
        "resourceVersion": object["metadata"]["resourceVersion"],
        "ownerReferences": if owners.is_empty() { Value::Null } else { Value::from(owners) },
        "labels": {OWNER_KIND_LABEL: null, OWNER_NAME_LABEL: null},
        "annotations": {PRIMARY_RESOURCE: null, PRIMARY_RESOURCE_TYPE: null},
    }}));
    match session.writer.patch(&place, "", &patch).await {
        // Changed or gone meanwhile: it is looked at again.
        Ok(_)
        | Err(mainstay_apply::WriteError::Refused {
            reason: mainstay_apply::Reason::NotFound | mainstay_apply::Reason::Conflict, ..
        }) => Ok(()),
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
