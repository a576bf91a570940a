//! `mainstay uninstall`: what goes is shown before, and custom resources go only when that is asked for (MS-RB-02).

use std::time::{Duration, Instant};

use clap::Args;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use mainstay_api::olm_v1::{ClusterExtension, OWNER_KIND_LABEL, OWNER_NAME_LABEL};
use mainstay_apply::{Expect, ObjectRef, Patch, Propagation, Until};
use serde_json::{Value, json};

use super::install::{INSTALLER_LABEL, named};
use crate::cluster::{ClusterArgs, Session, not_written, refused};
use crate::errors::{Exit, Failure, note};
use crate::extensions::{self, API_VERSION};
use crate::output;
use crate::progress::{Progress, confirm};
use crate::runtime;

/// Holds the extension until its CRDs are nobody's; then the cluster removes the rest.
const KEEPER: &str = "lifecycle.mainstay.dev/keep-crds";

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay uninstall beacon
  mainstay uninstall beacon --keep-crds      custom resources stay, with their definitions
  mainstay uninstall beacon --delete-crds    custom resources are deleted, too

Where custom resources exist, one of the two has to be said (exit code 4 otherwise). The namespace stays.")]
pub struct Arguments {
    /// The extension
    pub name: String,
    /// Delete its CRDs and so all custom resources of these kinds
    #[arg(long, conflicts_with = "keep_crds")]
    pub delete_crds: bool,
    /// Keep its CRDs and all custom resources
    #[arg(long)]
    pub keep_crds: bool,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
    /// How long to wait, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub timeout: u64,
    /// Which cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// A CRD with the number of its custom resources.
struct Definition {
    object: Value,
    instances: usize,
}

/// Uninstalls.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    runtime::block_on(async {
        let session = arguments.cluster.open_to_change().await?;
        let name = &arguments.name;
        let hints = || vec![format!("the same command again goes on; mainstay describe {name} shows what is left")];
        runtime::until_interrupt(uninstall(&session, arguments), hints).await
    })
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
    let mut definitions = Vec::new();
    for object in objects.iter().filter(|object| object["kind"] == "CustomResourceDefinition") {
        definitions.push(Definition { object: object.clone(), instances: instances(session, object).await? });
    }
    show(arguments, &extension, &objects, &definitions);
    let used: Vec<&Definition> = definitions.iter().filter(|definition| definition.instances > 0).collect();
    if !used.is_empty() && !arguments.delete_crds && !arguments.keep_crds {
        let failure = Failure::new(
            Exit::Impossible,
            format!("clusterextension {name}"),
            "custom resources exist, and would be deleted with their definitions",
        );
        let failure = used.iter().fold(failure, |failure, definition| {
            failure.because(format!(
                "{}: {} custom resources",
                definition.object["metadata"]["name"].as_str().unwrap_or_default(),
                definition.instances
            ))
        });
        return Err(failure.hint("--keep-crds keeps the definitions and the custom resources").hint("--delete-crds deletes both"));
    }
    confirm(&format!("uninstall {name}?"), arguments.yes)?;

    let mut progress = Progress::start();
    let place = ObjectRef {
        api_version: API_VERSION.to_owned(),
        kind: "ClusterExtension".to_owned(),
        namespace: String::new(),
        name: name.clone(),
    };
    let timeout = Duration::from_secs(arguments.timeout);
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
        for definition in &definitions {
            progress.doing(&format!("keep {}", named(&definition.object)));
            disown(session, &definition.object).await?;
        }
        if let Some(extension) = extensions::find(session, name).await? {
            hold(session, &extension, false).await?;
        }
    }
    session.writer.wait(&place, &Until::Gone, timeout).await.map_err(failed)?;
    for object in &objects {
        if arguments.keep_crds && object["kind"] == "CustomResourceDefinition" {
            continue;
        }
        let place = ObjectRef::of(object).map_err(|error| Failure::failed(named(object), &error))?;
        progress.doing(&format!("wait until {} is gone", named(object)));
        session.writer.wait(&place, &Until::Gone, timeout.saturating_sub(begun.elapsed())).await.map_err(failed)?;
    }
    progress.doing("remove the installer's account and rights");
    remove_installer(session, name).await?;
    drop(progress);
    let kept = if arguments.keep_crds && !definitions.is_empty() { "; its CRDs and custom resources were kept" } else { "" };
    output::line(format!("clusterextension {name} uninstalled in {:.1} s{kept}", begun.elapsed().as_secs_f64()))
}

fn show(arguments: &Arguments, extension: &ClusterExtension, objects: &[Value], definitions: &[Definition]) {
    note("to be deleted:");
    note(format!("  ClusterExtension {}", arguments.name));
    for object in objects.iter().filter(|object| object["kind"] != "CustomResourceDefinition") {
        note(format!("  {}", named(object)));
    }
    let say = |definition: &Definition| note(format!("  {} ({} custom resources)", named(&definition.object), definition.instances));
    if !arguments.keep_crds {
        definitions.iter().for_each(say);
    }
    note("to be kept:");
    note(format!("  Namespace {}", extension.spec.namespace));
    if arguments.keep_crds {
        definitions.iter().for_each(say);
    }
}

fn same(one: &Value, other: &Value) -> bool {
    let key = |object: &Value| {
        let group = object["apiVersion"].as_str().unwrap_or_default().rsplit_once('/').map(|(group, _)| group.to_owned());
        (group, object["kind"].clone(), object["metadata"]["namespace"].clone(), object["metadata"]["name"].clone())
    };
    key(one) == key(other)
}

/// How many custom resources there are of a CRD.
async fn instances(session: &Session, definition: &Value) -> Result<usize, Failure> {
    let text = |path: &str| definition.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let versions = definition["spec"]["versions"].as_array();
    let Some(version) =
        versions.and_then(|all| all.iter().find(|version| version["served"] == true)).and_then(|version| version["name"].as_str())
    else {
        return Ok(0);
    };
    let gvk = GroupVersionKind::gvk(text("/spec/group"), version, text("/spec/names/kind"));
    let api: Api<DynamicObject> =
        Api::all_with(session.client.clone(), &ApiResource::from_gvk_with_plural(&gvk, text("/spec/names/plural")));
    let mut count = 0;
    let mut page = ListParams::default().limit(500);
    loop {
        let list = match api.list_metadata(&page).await {
            Ok(list) => list,
            // The definition is gone already.
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(0),
            Err(error) => return Err(refused(format!("custom resources of {}", text("/metadata/name")), &error)),
        };
        count += list.items.len();
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(count),
        }
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
    let ours = ListParams::default().labels(&format!("{INSTALLER_LABEL}={extension}"));
    let client = &session.client;
    remove_all::<ClusterRoleBinding>(session, &Api::all(client.clone()), &ours).await?;
    remove_all::<RoleBinding>(session, &Api::all(client.clone()), &ours).await?;
    remove_all::<ClusterRole>(session, &Api::all(client.clone()), &ours).await?;
    remove_all::<Role>(session, &Api::all(client.clone()), &ours).await?;
    remove_all::<ServiceAccount>(session, &Api::all(client.clone()), &ours).await
}

async fn remove_all<K>(session: &Session, api: &Api<K>, which: &ListParams) -> Result<(), Failure>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let kind = K::kind(&());
    for object in api.list(which).await.map_err(|error| refused(kind.to_lowercase(), &error))? {
        let place = ObjectRef {
            api_version: K::api_version(&()).into_owned(),
            kind: kind.clone().into_owned(),
            namespace: object.meta().namespace.clone().unwrap_or_default(),
            name: object.meta().name.clone().unwrap_or_default(),
        };
        session.writer.delete(&place, &Expect::default(), Propagation::Background).await.map_err(|error| not_written(&error))?;
    }
    Ok(())
}
