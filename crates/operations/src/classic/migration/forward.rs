//! The migration itself. Each step can be repeated: an interrupted migration begins again at the first, and what is done stays done.

use std::path::Path;
use std::time::{Duration, Instant};

use kube::api::ListParams;
use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_objects::{ObjectRef, Patch, Step};
use mainstay_olm_classic_core::migration::{COPY_LABEL, adopt, clear, is_made_by_classic, prepare, reference, stop};
use serde_json::{Value, json};

use super::Backup;
use super::backup::State;
use super::observed::{live, marks};
use crate::apply::{execute, settle};
use crate::classic::objects::{CSV, Kind, OPERATOR_CONDITION, SUBSCRIPTION, find, list_by, text};
use crate::extensions;
use crate::progress::Progress;
use crate::session::Session;

/// Kinds of the copies of permissions, with their plurals.
const PERMISSIONS: [(&str, &str); 4] =
    [("RoleBinding", "rolebindings"), ("ClusterRoleBinding", "clusterrolebindings"), ("Role", "roles"), ("ClusterRole", "clusterroles")];

/// Carries out a migration whose backup is written. `timeout` limits the time that the cluster may take. Returns a summary.
pub async fn forward(
    session: &Session,
    backup: &mut Backup,
    file: &Path,
    timeout: Duration,
    progress: &mut dyn Progress,
) -> Result<String, Failure> {
    let begun = Instant::now();
    unchanged(session, backup).await?;
    let name = backup.extension_name.clone();
    let resumed = |failure: Failure| {
        failure.hint(format!("the same command goes on; mainstay migrate --back {} restores the operator", file.display()))
    };
    let outcome = Box::pin(steps(session, backup, timeout, progress)).await;
    outcome.map_err(resumed)?;
    backup.state = State::Done;
    backup.write(file)?;
    let Backup { namespace, csv_name, .. } = backup;
    Ok(format!(
        "operator {namespace}/{csv_name} is clusterextension {name} now, after {:.1} s; the backup is {}",
        begun.elapsed().as_secs_f64(),
        file.display()
    ))
}

async fn steps(session: &Session, backup: &Backup, timeout: Duration, progress: &mut dyn Progress) -> Result<(), Failure> {
    let Backup { namespace, csv_name, extension_name: name, .. } = backup;
    let begun = Instant::now();
    let left = || timeout.saturating_sub(begun.elapsed()).max(Duration::from_secs(1));
    let csv = find(session, CSV, namespace, csv_name).await?;
    // A CSV of another uid is a new one, and the deletion below refuses it.
    if csv.as_ref().is_some_and(|csv| csv["metadata"]["uid"] == backup.csv["metadata"]["uid"]) {
        progress.doing("copy the operator's permissions");
        all(session, prepare(&backup.csv, &backup.owned, name)).await?;
        // The CSV's own clean-up deletes what carries its labels and has no namespace.
        let wide = live(session, places(backup, true).filter(|place| place.namespace.is_empty())).await?;
        all(session, adopt(&wide, &marks(name)?)).await?;
    }
    progress.doing("delete Subscription and CSV; their objects stay");
    all(session, stop(&backup.subscription, &backup.csv, left())).await?;
    progress.doing("hand the objects over");
    let adopted = live(session, places(backup, true)).await?;
    all(session, adopt(&adopted, &marks(name)?)).await?;
    let kept = live(session, places(backup, false)).await?;
    let stay: Vec<Value> = kept.into_iter().filter(|object| !is_made_by_classic(object)).collect();
    all(session, adopt(&stay, &[])).await?;
    progress.doing("create the clusterextension");
    for object in &backup.with {
        execute(session, &Step::Apply { object: object.clone(), force: true, expect: mainstay_objects::Expect::default() }).await?;
    }
    execute(session, &Step::CreateOnce(backup.extension.clone())).await?;
    let installed = settle(session, name, csv_name, &backup.rendered, left(), progress).await;
    installed?;
    progress.doing("remove what is left over");
    let left_over: Vec<&Value> = backup.owned.iter().filter(|object| is_made_by_classic(object) && !is_rendered(backup, object)).collect();
    all(session, clear(&left_over, &condition(session, backup).await?)).await?;
    all(session, clear(&[], &copies(session, name).await?)).await?;
    if !backup.keep_pin {
        progress.doing("release the version");
        let patch = json!({"spec": {"source": {"catalog": {"version": null}}}});
        let object = extensions::reference(name);
        execute(session, &Step::Patch { object, subresource: String::new(), patch: Patch::Merge(patch) }).await?;
    }
    Ok(())
}

/// Refuses a backup whose operator was upgraded since: the extension would bring the earlier version back.
async fn unchanged(session: &Session, backup: &Backup) -> Result<(), Failure> {
    let Backup { namespace, csv_name, .. } = backup;
    let name = text(&backup.subscription, "/metadata/name");
    let Some(live) = find(session, SUBSCRIPTION, namespace, &name).await? else { return Ok(()) };
    let installed = text(&live, "/status/installedCSV");
    if installed == *csv_name && live["metadata"]["uid"] == backup.subscription["metadata"]["uid"] {
        return Ok(());
    }
    let problem = format!("has changed since the backup was written: {csv_name} was installed, now {installed:?} is");
    Err(Failure::new(FailureKind::Impossible, format!("subscription {namespace}/{name}"), problem)
        .hint("--backup FILE with another file starts over"))
}

pub(super) async fn all(session: &Session, steps: Vec<Step>) -> Result<(), Failure> {
    for step in &steps {
        execute(session, step).await?;
    }
    Ok(())
}

/// Returns true if the bundle holds the object.
pub(super) fn is_rendered(backup: &Backup, object: &Value) -> bool {
    let place = reference(object);
    backup.rendered.iter().any(|one| reference(one).same(&place))
}

/// The references to the operator's objects that the bundle holds, or does not hold.
fn places(backup: &Backup, rendered: bool) -> impl Iterator<Item = ObjectRef> {
    let objects = backup.owned.iter().chain(&backup.definitions);
    objects.filter(move |object| is_rendered(backup, object) == rendered).map(reference)
}

/// The OperatorCondition, unless the operator writes to it.
async fn condition(session: &Session, backup: &Backup) -> Result<Vec<Value>, Failure> {
    let found = find(session, OPERATOR_CONDITION, &backup.namespace, &backup.csv_name).await?;
    let is_unused = |object: &Value| object["spec"]["conditions"].as_array().is_none_or(Vec::is_empty);
    Ok(found
        .into_iter()
        .filter(is_unused)
        .filter(|object| text(object, "/metadata/uid") == text(&backup.condition, "/metadata/uid"))
        .collect())
}

/// The copies of permissions that a migration made.
pub(super) async fn copies(session: &Session, extension: &str) -> Result<Vec<Value>, Failure> {
    let ours = ListParams::default().labels(&format!("{COPY_LABEL}={extension}"));
    let mut found = Vec::new();
    for (kind, plural) in PERMISSIONS {
        let kind = Kind { group: "rbac.authorization.k8s.io", version: "v1", kind, plural, word: plural };
        found.extend(list_by(session, kind, None, &ours).await?);
    }
    Ok(found)
}
