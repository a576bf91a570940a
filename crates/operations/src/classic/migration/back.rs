//! The way back: the extension lets go of everything, and a Subscription that begins with the same CSV takes it over again.

use std::path::Path;
use std::time::{Duration, Instant};

use mainstay_api::lifecycle::ON_DELETE;
use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_objects::{Expect, Patch, Propagation, Step, Until};
use mainstay_olm_classic_core::migration::{clear, reference, unannotate};
use serde_json::{Map, Value, json};

use super::Backup;
use super::backup::State;
use super::forward::{all, copies, is_rendered};
use super::observed::{live, marks};
use crate::apply::execute;
use crate::classic::objects::{CSV, INSTALL_PLAN, SUBSCRIPTION, find, list, text};
use crate::extensions;
use crate::progress::Progress;
use crate::session::Session;
use crate::uninstall::installer;

/// Interval between two reads of the state while waiting.
const LOOK: Duration = Duration::from_millis(250);

/// Restores the operator of a backup. `timeout` limits the time that the cluster may take. Returns a summary.
pub async fn back(
    session: &Session,
    backup: &mut Backup,
    file: &Path,
    timeout: Duration,
    progress: &mut dyn Progress,
) -> Result<String, Failure> {
    let begun = Instant::now();
    let left = || timeout.saturating_sub(begun.elapsed()).max(Duration::from_secs(1));
    let again = |failure: Failure| failure.hint(format!("mainstay migrate --back {} goes on", file.display()));
    release(session, backup, left(), progress).await.map_err(again)?;
    progress.doing("take the extension's annotations off");
    let before = [backup.owned.as_slice(), &backup.definitions].concat();
    let present = live(session, before.iter().filter(|object| is_rendered(backup, object)).map(reference)).await.map_err(again)?;
    all(session, unannotate(&present, &backup.rendered, &before)).await.map_err(again)?;
    progress.doing("restore OperatorGroup and Subscription");
    execute(session, &Step::CreateOnce(bare(&backup.group))).await.map_err(again)?;
    execute(session, &Step::CreateOnce(subscription(backup))).await.map_err(again)?;
    taken_over(session, backup, left(), progress).await.map_err(again)?;
    progress.doing("remove what OLM v1 made");
    let made: Vec<Value> = backup
        .rendered
        .iter()
        .filter(|object| !was_there(backup, object) && object["kind"] != "CustomResourceDefinition")
        .cloned()
        .collect();
    let made = live(session, made.iter().map(reference)).await.map_err(again)?;
    let labels = marks(&backup.extension_name)?;
    let made: Vec<&Value> =
        made.iter().filter(|object| labels.iter().all(|(key, value)| object["metadata"]["labels"][key] == value.as_str())).collect();
    all(session, clear(&made, &copies(session, &backup.extension_name).await?)).await.map_err(again)?;
    progress.doing("remove the installer's account and permissions");
    for object in installer(session, &backup.extension_name).await? {
        execute(session, &Step::Delete { object, expect: Expect::default(), propagation: Propagation::Background }).await.map_err(again)?;
    }
    unmark(session, backup, &labels).await.map_err(again)?;
    backup.state = State::Back;
    backup.write(file)?;
    Ok(format!("operator {}/{} is OLM classic's again, after {:.1} s", backup.namespace, backup.csv_name, begun.elapsed().as_secs_f64()))
}

/// Deletes the extension; its objects stay.
async fn release(session: &Session, backup: &Backup, timeout: Duration, progress: &mut dyn Progress) -> Result<(), Failure> {
    if extensions::find(session, &backup.extension_name).await?.is_none() {
        return Ok(());
    }
    progress.doing("delete the clusterextension; its objects stay");
    let object = extensions::reference(&backup.extension_name);
    let patch = Patch::Merge(json!({"metadata": {"annotations": {ON_DELETE: "Orphan"}}}));
    execute(session, &Step::Patch { object: object.clone(), subresource: String::new(), patch }).await?;
    execute(session, &Step::Delete { object: object.clone(), expect: Expect::default(), propagation: Propagation::Orphan }).await?;
    execute(session, &Step::Wait { object, until: Until::Gone, timeout }).await
}

/// Takes the extension's marks off the objects.
async fn unmark(session: &Session, backup: &Backup, labels: &[(String, String)]) -> Result<(), Failure> {
    let none: Map<String, Value> = labels.iter().map(|(key, _)| (key.clone(), Value::Null)).collect();
    for object in live(session, backup.rendered.iter().map(reference)).await? {
        let patch = json!({"metadata": {"uid": object["metadata"]["uid"], "labels": none}});
        execute(session, &Step::Patch { object: reference(&object), subresource: String::new(), patch: Patch::Merge(patch) }).await?;
    }
    Ok(())
}

/// Waits until the Subscription has installed the CSV and the CSV has succeeded; its InstallPlan is approved on the way.
async fn taken_over(session: &Session, backup: &Backup, timeout: Duration, progress: &mut dyn Progress) -> Result<(), Failure> {
    let Backup { namespace, csv_name, .. } = backup;
    let begun = Instant::now();
    let name = text(&backup.subscription, "/metadata/name");
    progress.doing(&format!("wait for csv {csv_name}"));
    loop {
        let csv = find(session, CSV, namespace, csv_name).await?;
        let subscription = find(session, SUBSCRIPTION, namespace, &name).await?.unwrap_or_default();
        if csv.is_some_and(|csv| csv["status"]["phase"] == "Succeeded") && text(&subscription, "/status/installedCSV") == *csv_name {
            return Ok(());
        }
        let is_first =
            |plan: &&Value| plan["spec"]["clusterServiceVersionNames"].as_array().is_some_and(|all| all.contains(&json!(csv_name)));
        for plan in list(session, INSTALL_PLAN, Some(namespace)).await?.iter().filter(is_first) {
            if plan["status"]["phase"] == "RequiresApproval" {
                let patch = Patch::Merge(json!({"metadata": {"uid": plan["metadata"]["uid"]}, "spec": {"approved": true}}));
                execute(session, &Step::Patch { object: reference(plan), subresource: String::new(), patch }).await?;
            }
        }
        if begun.elapsed() >= timeout {
            return Err(Failure::new(
                FailureKind::TimedOut,
                format!("subscription {namespace}/{name}"),
                format!("has not installed {csv_name} in time"),
            )
            .hint(format!("mainstay explain subscription {name} -n {namespace} says what it waits for")));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Returns true if OLM classic had the object before.
fn was_there(backup: &Backup, object: &Value) -> bool {
    let place = reference(object);
    backup.owned.iter().chain(&backup.definitions).any(|known| is_rendered(backup, known) && reference(known).same(&place))
}

/// The Subscription, which begins with the CSV that was installed.
fn subscription(backup: &Backup) -> Value {
    let mut object = bare(&backup.subscription);
    object["spec"]["startingCSV"] = backup.csv_name.clone().into();
    object
}

/// An object without what the server decides.
fn bare(object: &Value) -> Value {
    let mut bare = object.clone();
    if let Some(all) = bare.as_object_mut() {
        all.remove("status");
    }
    if let Some(metadata) = bare["metadata"].as_object_mut() {
        metadata.retain(|key, _| matches!(key.as_str(), "name" | "namespace" | "labels" | "annotations"));
    }
    bare
}
