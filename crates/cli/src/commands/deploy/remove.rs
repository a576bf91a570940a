//! `mainstay deploy --uninstall`: removes what was made, in the opposite order; objects of users stay unless they say otherwise.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::api::GroupVersionKind;
use mainstay_apply::{WriteError, Writer};
use mainstay_diagnostics::counted;
use mainstay_objects::{Expect, ObjectRef, Propagation, Until};
use mainstay_olm_v1::deployment::{MANAGED_BY, PULL_SECRET_ROLE, catalog_webhook};
use mainstay_olm_v1::manifests::TOKEN_LABEL;
use mainstay_operations::not_written;
use mainstay_runtime::KindError;
use mainstay_terminal::errors::{Exit, Failure, note};
use mainstay_terminal::output;
use serde_json::Value;

use super::classic;
use super::cluster_version;
use super::components::{Component, Shape};

/// Limit for a Deployment, a catalog or a CRD to go.
const GONE: Duration = Duration::from_secs(120);
/// Names that a refusal lists.
const NAMES: usize = 10;

/// Removes these components; the last to be deployed goes first.
pub async fn remove(writer: &Writer, components: &BTreeSet<Component>, system_namespace: &str, delete_crds: bool) -> Result<(), Failure> {
    let has_olm_v1 = components.contains(&Component::OlmV1);
    let extensions = if has_olm_v1 { names(writer, "ClusterExtension").await? } else { Vec::new() };
    if delete_crds && !extensions.is_empty() {
        let some: Vec<&str> = extensions.iter().take(NAMES).map(String::as_str).collect();
        let failure = Failure::new(Exit::Impossible, "--delete-crds", "there are extensions, which would go with their definition");
        return Err(failure.because(some.join(", ")).hint("mainstay uninstall NAME removes an extension and what it installed"));
    }
    if delete_crds && components.contains(&Component::OlmClassic) {
        let installed = classic::installed(writer).await?;
        if !installed.is_empty() {
            let some: Vec<&str> = installed.iter().take(NAMES).map(String::as_str).collect();
            let failure =
                Failure::new(Exit::Impossible, "--delete-crds", "there are operators of OLM classic, which would go with their definition");
            return Err(failure.because(some.join(", ")).hint("delete their subscriptions and csvs first"));
        }
    }
    for component in components.iter().rev() {
        if *component == Component::OlmV1 && delete_crds {
            // While catalogd is there: it has to release them. Its webhook must not keep it from that.
            let webhook = place("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "", catalog_webhook::CONFIGURATION);
            delete_made(writer, &webhook).await?;
            for name in names(writer, "ClusterCatalog").await? {
                delete(writer, &place("olm.operatorframework.io/v1", "ClusterCatalog", "", &name), true).await?;
            }
        }
        remove_made(writer, *component, system_namespace, &[]).await?;
        let namespace = component.namespace(&Shape { system_namespace: system_namespace.to_owned(), ..Shape::default() }).to_owned();
        let holds = match component {
            Component::OlmV1 if !extensions.is_empty() => Some(format!("the records of {}", counted(extensions.len(), "extension"))),
            Component::ServiceCa => signing_key(writer, &namespace).await?,
            Component::OlmClassic => {
                let inside = classic::installed(writer).await?.into_iter().find(|one| one.contains(&format!(" {namespace}/")));
                inside.map(|inside| format!("operators of OLM classic, such as {inside}"))
            }
            // The requests of the whole cluster are there, and those who made them delete them.
            Component::CloudCredential => {
                let requests = names_in(writer, "cloudcredential.openshift.io", "v1", "CredentialsRequest").await?;
                (!requests.is_empty()).then(|| counted(requests.len(), "credentials request"))
            }
            // Their deletion would remove the instances of the cluster.
            Component::MachineApi => {
                let machines = names_in(writer, "machine.openshift.io", "v1beta1", "Machine").await?;
                let sets = names_in(writer, "machine.openshift.io", "v1beta1", "MachineSet").await?;
                let held = [(machines.len(), "machine"), (sets.len(), "machine set")].into_iter().filter(|(count, _)| *count > 0);
                let held: Vec<String> = held.map(|(count, what)| counted(count, what)).collect();
                (!held.is_empty()).then(|| held.join(" and "))
            }
            Component::ClusterVersion => cluster_version::holds(writer).await?,
            Component::OlmV1 | Component::ClusterOlmOperator | Component::StorageMigrator | Component::MachineConfig => None,
        };
        remove_namespace(writer, &namespace, holds).await?;
        if *component == Component::OlmClassic && delete_crds {
            classic::delete_definitions(writer).await?;
        }
    }
    if !has_olm_v1 {
        return Ok(());
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

/// The content that keeps the namespace of the service CA, while its key exists: clients that trust what it signed would trust nothing any more.
async fn signing_key(writer: &Writer, namespace: &str) -> Result<Option<String>, Failure> {
    let key = writer.get(&place("v1", "Secret", namespace, "signing-key")).await.map_err(|error| not_written(&error))?;
    let held = format!("the key that signed certificates of Services; kubectl delete namespace {namespace} removes it");
    Ok(key.map(|_| held))
}

/// Removes a namespace that this program made, unless it holds something.
async fn remove_namespace(writer: &Writer, name: &str, holds: Option<String>) -> Result<(), Failure> {
    let home = place("v1", "Namespace", "", name);
    let live = writer.get(&home).await.map_err(|error| not_written(&error))?;
    if live.is_none_or(|live| live["metadata"]["labels"][MANAGED_BY.0] != MANAGED_BY.1) {
        return Ok(());
    }
    match holds {
        Some(what) => note(format!("namespace {name} stays: it holds {what}")),
        None => delete(writer, &home, false).await?,
    }
    Ok(())
}

/// Removes what an earlier run made of a component and `wanted` does not have: the other shape, or a permission that is no longer requested. The
/// webhook goes first, so that it does not block writes; then the Deployments, which are waited for: they release their Leases while they still may.
pub async fn remove_made(writer: &Writer, component: Component, system_namespace: &str, wanted: &[Value]) -> Result<(), Failure> {
    let wanted = places(wanted)?;
    let mut made: Vec<ObjectRef> = Vec::new();
    for place in places(&component.everything(system_namespace))? {
        if !made.iter().any(|known| known.same(&place)) {
            made.push(place);
        }
    }
    made.sort_by_key(|place| match place.kind.as_str() {
        "MutatingWebhookConfiguration" => 2,
        "Deployment" => 1,
        _ => 0,
    });
    if component == Component::OlmV1 {
        made.splice(0..0, permissions_elsewhere(writer, system_namespace).await?);
    }
    for place in made.into_iter().rev().filter(|old| old.kind != "Namespace" && !wanted.iter().any(|new| new.same(old))) {
        let is_foreign = !delete_made(writer, &place).await?;
        if is_foreign && wanted.is_empty() {
            note(format!("{place} stays: mainstay deploy did not make it"));
        }
    }
    Ok(())
}

/// Removes an object that this program made; returns false if there is one that it did not make.
async fn delete_made(writer: &Writer, place: &ObjectRef) -> Result<bool, Failure> {
    let live = match writer.get(place).await {
        Ok(live) => live,
        Err(error) if not_served(&error) => None,
        Err(error) => return Err(not_written(&error).into()),
    };
    let Some(live) = live else { return Ok(true) };
    if live["metadata"]["labels"][MANAGED_BY.0] != MANAGED_BY.1 {
        return Ok(false);
    }
    // The pods must have stopped before their permissions go.
    delete(writer, place, place.kind == "Deployment").await?;
    Ok(true)
}

/// Returns true if this program made the object.
pub fn is_made(live: &Value) -> bool {
    live["metadata"]["labels"][MANAGED_BY.0] == MANAGED_BY.1
}

/// The permission to read the global pull secret lies beside that secret, and those to act as accounts of extensions lie beside these, in namespaces
/// that only the live objects tell.
async fn permissions_elsewhere(writer: &Writer, namespace: &str) -> Result<Vec<ObjectRef>, Failure> {
    let gvk = GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", "RoleBinding");
    let all = writer.list(&gvk, usize::MAX).await.map_err(|error| not_written(&error))?;
    let ours = all.iter().filter(|binding| {
        let subjects = binding["subjects"].as_array().map(Vec::as_slice).unwrap_or_default();
        let lends = binding["metadata"]["labels"][TOKEN_LABEL].is_string();
        (lends || binding["metadata"]["name"] == PULL_SECRET_ROLE)
            && is_made(binding)
            && subjects.iter().all(|subject| subject["namespace"] == namespace)
    });
    let places = ours.flat_map(|binding| {
        let text = |key: &str| binding["metadata"][key].as_str().unwrap_or_default();
        let (home, name) = (text("namespace"), text("name"));
        ["Role", "RoleBinding"].map(|kind| place("rbac.authorization.k8s.io/v1", kind, home, name))
    });
    Ok(places.collect())
}

fn places(objects: &[Value]) -> Result<Vec<ObjectRef>, Failure> {
    objects.iter().map(|object| ObjectRef::of(object).map_err(|error| Failure::failed("manifests", &error))).collect()
}

async fn names(writer: &Writer, kind: &str) -> Result<Vec<String>, Failure> {
    names_in(writer, "olm.operatorframework.io", "v1", kind).await
}

async fn names_in(writer: &Writer, group: &str, version: &str, kind: &str) -> Result<Vec<String>, Failure> {
    let gvk = GroupVersionKind::gvk(group, version, kind);
    match writer.list(&gvk, usize::MAX).await {
        Ok(all) => Ok(all.iter().filter_map(|object| object["metadata"]["name"].as_str().map(str::to_owned)).collect()),
        // Without the kind there are none.
        Err(error) if not_served(&error) => Ok(Vec::new()),
        Err(error) => Err(not_written(&error).into()),
    }
}

/// Returns true if the server does not know the kind.
pub fn not_served(error: &WriteError) -> bool {
    matches!(error, WriteError::Kind { source: KindError::NotServed { .. }, .. })
}

pub async fn delete(writer: &Writer, place: &ObjectRef, wait: bool) -> Result<(), Failure> {
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
