//! `mainstay deploy --uninstall`: what was made goes, in the opposite order; what users made stays unless they say otherwise.

use std::time::Duration;

use kube::api::GroupVersionKind;
use mainstay_apply::{Expect, ObjectRef, Propagation, Until, WriteError, Writer};
use mainstay_olm_v1::deployment::{Certificates, Deployment, MANAGED_BY, PULL_SECRET_ROLE};
use mainstay_runtime::KindError;
use serde_json::Value;

use crate::cluster::not_written;
use crate::errors::{Exit, Failure, note};
use crate::output;

/// How long a Deployment, a catalog or a definition may take to go.
const GONE: Duration = Duration::from_secs(120);
/// Names that a refusal lists.
const NAMES: usize = 10;

/// Removes it.
pub async fn remove(writer: &Writer, namespace: &str, delete_crds: bool) -> Result<(), Failure> {
    let extensions = names(writer, "ClusterExtension").await?;
    if delete_crds && !extensions.is_empty() {
        let some: Vec<&str> = extensions.iter().take(NAMES).map(String::as_str).collect();
        let failure = Failure::new(Exit::Impossible, "--delete-crds", "there are extensions, which would go with their definition");
        return Err(failure.because(some.join(", ")).hint("mainstay uninstall NAME removes an extension and what it installed"));
    }
    if delete_crds {
        // While catalogd is there: it has to let them go.
        for name in names(writer, "ClusterCatalog").await? {
            delete(writer, &place("olm.operatorframework.io/v1", "ClusterCatalog", "", &name), true).await?;
        }
    }
    remove_made(writer, namespace, &[]).await?;
    let home = place("v1", "Namespace", "", namespace);
    let made_here = writer.get(&home).await.map_err(|error| not_written(&error))?;
    match made_here {
        Some(live) if live["metadata"]["labels"][MANAGED_BY.0] == MANAGED_BY.1 => {
            if extensions.is_empty() {
                delete(writer, &home, false).await?;
            } else {
                note(format!("namespace {namespace} stays: it holds the records of {} extensions", extensions.len()));
            }
        }
        _ => {}
    }
    if delete_crds {
        for definition in super::definitions()? {
            let place = ObjectRef::of(&definition).map_err(|error| Failure::failed("manifests", &error))?;
            delete(writer, &place, true).await?;
        }
    } else {
        note("the CRDs stay, and with them catalogs and extensions; --delete-crds removes them when there are no extensions");
    }
    Ok(())
}

/// Removes what an earlier run made and `wanted` does not have: the other shape, or a right that is no longer asked for. Deployments go first,
/// and are waited for: they give their Leases back while they still may.
pub async fn remove_made(writer: &Writer, namespace: &str, wanted: &[Value]) -> Result<(), Failure> {
    let wanted = places(wanted)?;
    let mut made = places(&made(namespace))?;
    made.sort_by_key(|place| place.kind == "Deployment");
    made.splice(0..0, rights_elsewhere(writer, namespace).await?);
    for place in made.into_iter().rev().filter(|old| old.kind != "Namespace" && !wanted.iter().any(|new| new.same(old))) {
        let live = match writer.get(&place).await {
            Ok(live) => live,
            Err(error) if not_served(&error) => None,
            Err(error) => return Err(not_written(&error)),
        };
        let Some(live) = live else { continue };
        if live["metadata"]["labels"][MANAGED_BY.0] != MANAGED_BY.1 {
            if wanted.is_empty() {
                note(format!("{place} stays: mainstay deploy did not make it"));
            }
            continue;
        }
        // Whoever works must have ended before its rights go.
        delete(writer, &place, place.kind == "Deployment").await?;
    }
    Ok(())
}

/// The right to read the global pull secret lies beside that secret, in a namespace that only the live objects tell.
async fn rights_elsewhere(writer: &Writer, namespace: &str) -> Result<Vec<ObjectRef>, Failure> {
    let gvk = GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", "RoleBinding");
    let all = writer.list(&gvk, usize::MAX).await.map_err(|error| not_written(&error))?;
    let ours = all.iter().filter(|binding| {
        let subjects = binding["subjects"].as_array().map(Vec::as_slice).unwrap_or_default();
        binding["metadata"]["name"] == PULL_SECRET_ROLE
            && binding["metadata"]["labels"][MANAGED_BY.0] == MANAGED_BY.1
            && subjects.iter().all(|subject| subject["namespace"] == namespace)
    });
    let places = ours.flat_map(|binding| {
        let home = binding["metadata"]["namespace"].as_str().unwrap_or_default();
        ["Role", "RoleBinding"].map(|kind| place("rbac.authorization.k8s.io/v1", kind, home, PULL_SECRET_ROLE))
    });
    Ok(places.collect())
}

fn places(objects: &[Value]) -> Result<Vec<ObjectRef>, Failure> {
    objects.iter().map(|object| ObjectRef::of(object).map_err(|error| Failure::failed("manifests", &error))).collect()
}

/// Everything that a deployment may consist of, but for what lies in other namespaces.
fn made(namespace: &str) -> Vec<Value> {
    let pair = || (String::new(), String::new());
    let shape = |combined| Deployment {
        namespace: namespace.to_owned(),
        image: String::new(),
        combined,
        replicas: 0,
        certificates: Certificates::Given { authorities: String::new(), catalogd: pair(), operator_controller: pair() },
        service_monitor: true,
        pull_secret: None,
        feature_gates: String::new(),
        own_service_account: true,
    };
    [shape(true), shape(false)].iter().flat_map(Deployment::objects).collect()
}

async fn names(writer: &Writer, kind: &str) -> Result<Vec<String>, Failure> {
    let gvk = GroupVersionKind::gvk("olm.operatorframework.io", "v1", kind);
    match writer.list(&gvk, usize::MAX).await {
        Ok(all) => Ok(all.iter().filter_map(|object| object["metadata"]["name"].as_str().map(str::to_owned)).collect()),
        // Without the kind there are none.
        Err(error) if not_served(&error) => Ok(Vec::new()),
        Err(error) => Err(not_written(&error)),
    }
}

fn not_served(error: &WriteError) -> bool {
    matches!(error, WriteError::Kind { source: KindError::NotServed { .. }, .. })
}

async fn delete(writer: &Writer, place: &ObjectRef, wait: bool) -> Result<(), Failure> {
    let propagation = if wait && place.kind == "Deployment" { Propagation::Foreground } else { Propagation::Background };
    let was_there = writer.delete(place, &Expect::default(), propagation).await.map_err(|error| not_written(&error))?;
    if !was_there {
        return Ok(());
    }
    output::print(&format!("{place} deleted{}\n", if writer.is_dry() { " (dry run)" } else { "" }))?;
    if wait && !writer.is_dry() {
        writer.wait(place, &Until::Gone, GONE).await.map_err(|error| not_written(&error).hint("is its controller running?"))?;
    }
    Ok(())
}

fn place(api_version: &str, kind: &str, namespace: &str, name: &str) -> ObjectRef {
    ObjectRef { api_version: api_version.to_owned(), kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
}
