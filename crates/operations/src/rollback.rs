//! Rollback to an earlier bundle, with a verdict first (MS-RB-01).
//!
//! The plan ([`plan`](crate::plan)) changes the extension's spec and grants permissions; the cluster does the rest, as for any other change.

mod verdict;

use std::collections::BTreeMap;

use mainstay_api::olm_v1::{ClusterExtension, Enforcement, NAME_LABEL};
use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_lifecycle::Instances;
use mainstay_lifecycle::live::INSTANCES_READ;
use mainstay_lifecycle::object;
use mainstay_lifecycle::revision::{History, Revision};
use mainstay_lifecycle::rollback::{Class, Question, Verdict, concerned, judge};
use mainstay_olm_v1_core::extension::plan;
use mainstay_rbac::{PolicyIndex, UserInfo};
use mainstay_resolver::{Request, UpgradeConstraintPolicy};
use serde_json::{Value, json};

use crate::bundles::{self, Chosen};
use crate::catalogs::only;
use crate::change::Destination;
use crate::extensions;
use crate::failure::not_written;
use crate::plan::installer::Granted;
use crate::progress::Progress;
use crate::session::Session;
use crate::settings::Settings;

pub use verdict::RollbackVerdict;
use verdict::reasons;

/// Judges a rollback: reads the history, pulls the older bundle, and reads CRDs and custom resources.
pub(crate) async fn verdict(
    session: &Session,
    extension: &ClusterExtension,
    to: &Destination,
    progress: &mut dyn Progress,
) -> Result<RollbackVerdict, Failure> {
    let name = extension.metadata.name.as_deref().unwrap_or_default();
    let history = extensions::history(session, extension).await?;
    let Some(installed) = history.installed() else {
        return Err(Failure::new(FailureKind::Impossible, format!("clusterextension {name}"), "nothing is installed")
            .hint(format!("mainstay describe {name} shows why")));
    };
    let (version, revision) = target(name, to, &history, installed)?;
    let granted = Granted::read(session, extension).await?.is_some();
    look(session, extension, installed, version, revision, granted, progress).await
}

/// Returns the change of the extension that leads to the older bundle, and the one that follows when the bundle is installed. The preflight of
/// CRDs is off in between if it would refuse the change.
pub(crate) fn patches(extension: &ClusterExtension, verdict: &RollbackVerdict) -> Result<(Value, Option<Value>), Failure> {
    let mut patch = json!({"spec": {"source": {"catalog": {"version": verdict.version, "upgradeConstraintPolicy": "SelfCertified"}}}});
    if verdict.verdict.preflight.is_empty() || enforcement(extension) != Enforcement::Strict {
        return Ok((patch, None));
    }
    patch["spec"]["install"] = json!({"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}});
    let before = extension.spec.install.as_ref().map_or(Ok(Value::Null), serde_json::to_value);
    let before = before.map_err(|error| Failure::failed("clusterextension", &error))?;
    Ok((patch, Some(json!({"spec": {"install": before}}))))
}

/// Returns the version to go back to, and its revision if there is one.
fn target<'h>(name: &str, to: &Destination, history: &'h History, installed: &Revision) -> Result<(String, Option<&'h Revision>), Failure> {
    let subject = format!("clusterextension {name}");
    let hint = format!("mainstay history {name} shows the revisions");
    let was_deployed = |revision: &&Revision| revision.was_deployed();
    let found = match (to.to_revision, &to.to_version) {
        (Some(number), _) => {
            let found = history.revisions.iter().find(|revision| revision.number == number);
            let Some(found) = found else {
                return Err(Failure::new(FailureKind::NotFound, subject, format!("there is no revision {number}")).hint(hint));
            };
            if !was_deployed(&found) {
                let problem = format!("revision {number} is {} and was never deployed", found.state.as_str());
                return Err(Failure::new(FailureKind::Impossible, subject, problem).hint(hint));
            }
            found
        }
        (None, Some(version)) => {
            let found = history.revisions.iter().rev().filter(was_deployed).find(|revision| revision.record.bundle.version == *version);
            match found {
                Some(found) => found,
                None => return Ok((version.clone(), None)),
            }
        }
        (None, None) => {
            let earlier = history.revisions.iter().rev().filter(|revision| revision.number < installed.number).filter(was_deployed);
            let mut other = earlier.filter(|revision| revision.record.bundle.name != installed.record.bundle.name);
            let none = || Failure::new(FailureKind::Impossible, subject.clone(), "there is no earlier bundle to go back to");
            other.next().ok_or_else(|| none().hint(hint.clone()))?
        }
    };
    if found.record.bundle == installed.record.bundle {
        let problem = format!("{} is what is installed", found.record.bundle.name);
        return Err(Failure::new(FailureKind::Impossible, subject, problem).hint(hint));
    }
    Ok((found.record.bundle.version.clone(), Some(found)))
}

/// Gathers the facts of the verdict, and makes it.
async fn look(
    session: &Session,
    extension: &ClusterExtension,
    installed: &Revision,
    version: String,
    revision: Option<&Revision>,
    ours: bool,
    progress: &mut dyn Progress,
) -> Result<RollbackVerdict, Failure> {
    let from = installed.record.bundle.name.clone();
    let wanted_name = revision.map(|revision| revision.record.bundle.name.clone());
    let named = wanted_name.clone().unwrap_or_else(|| format!("{} {version}", extensions::package(extension)));
    let unavailable = |problem: &str| RollbackVerdict {
        from: from.clone(),
        to: named.clone(),
        version: version.clone(),
        verdict: Verdict::unavailable(&named, problem),
        undo: restore_command(extension),
        reasons: Vec::new(),
    };
    let chosen = match choose(session, extension, &version, progress).await {
        Ok(chosen) => chosen,
        // The bundle is in no catalog, or its image is gone.
        Err(failure) => return Ok(unavailable(&failure.to_line())),
    };
    let choice = &chosen.resolution.choice;
    if let Some(wanted) = wanted_name.filter(|wanted| *wanted != choice.bundle) {
        return Ok(unavailable(&format!("the catalogs offer {} as {version} instead of {wanted}", choice.bundle)));
    }
    let settings = Settings::read(session).await;
    let (namespace, watched) = (&extension.spec.namespace, extensions::watch_namespace(extension));
    let objects = bundles::rendered(&chosen.bundle, namespace, watched, settings.gates.certificates())?;
    progress.doing("look at CRDs and custom resources");
    let from_objects = &installed.record.objects;
    let mut definitions = BTreeMap::new();
    for crd in from_objects.iter().chain(&objects).filter(|object| object["kind"] == "CustomResourceDefinition") {
        let place = object::place(crd);
        if let Some(live) = session.writer.get(&place).await.map_err(|error| not_written(&error))? {
            definitions.insert(place.name, live);
        }
    }
    let mut instances = BTreeMap::new();
    for (crd, kind) in concerned(from_objects, &objects, &definitions) {
        let found = session.writer.list(&mainstay_apply::gvk(&kind), INSTANCES_READ).await;
        instances.insert(crd, found.map_or_else(|error| Instances::Unreadable(error.to_string().into()), Instances::Known));
    }
    let lacking = if ours { Vec::new() } else { lacking(session, extension, &objects).await? };
    let verdict =
        judge(&Question { from: from_objects, to: &objects, definitions: &definitions, instances: &instances, lacking: &lacking });
    let reasons = if verdict.verdict == Class::Safe { reasons(&objects, &definitions, &instances) } else { Vec::new() };
    Ok(RollbackVerdict { from, to: choice.bundle.clone(), version, verdict, undo: restore_command(extension), reasons })
}

async fn choose(session: &Session, extension: &ClusterExtension, version: &str, progress: &mut dyn Progress) -> Result<Chosen, Failure> {
    let catalog = extension.spec.source.catalog.as_ref();
    let named = catalog.and_then(|catalog| catalog.selector.as_ref()).and_then(|selector| selector.match_labels.get(NAME_LABEL));
    let request = Request {
        package: extensions::package(extension).to_owned(),
        channels: catalog.iter().flat_map(|catalog| &catalog.channels).map(|channel| channel.0.clone()).collect(),
        version: Some(version.to_owned()),
        selector: only(named.map(String::as_str)),
        policy: UpgradeConstraintPolicy::SelfCertified,
        installed: extensions::installed(extension),
    };
    bundles::choose(session, &request, progress).await
}

/// Returns the permissions that an account which install did not create lacks for the older bundle.
async fn lacking(session: &Session, extension: &ClusterExtension, objects: &[Value]) -> Result<Vec<String>, Failure> {
    /// More roles than any cluster has.
    const MOST: usize = 50_000;
    let Some(account) = extension.spec.service_account.as_ref().and_then(|account| account.name.as_deref()) else {
        return Ok(Vec::new());
    };
    let mut policy = PolicyIndex::default();
    for kind in ["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"] {
        let gvk = kube::api::GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", kind);
        for object in session.writer.list(&gvk, MOST).await.map_err(|error| not_written(&error))? {
            policy.apply(&object).map_err(|error| Failure::failed(kind.to_lowercase(), &error))?;
        }
    }
    let user = UserInfo::service_account(&extension.spec.namespace, account);
    let name = extension.metadata.name.as_deref().unwrap_or_default();
    Ok(plan::lacking(&policy, &user, name, objects).lines())
}

fn enforcement(extension: &ClusterExtension) -> Enforcement {
    let preflight = extension.spec.install.as_ref().and_then(|install| install.preflight.as_ref());
    preflight.map_or(Enforcement::Strict, |preflight| preflight.crd_upgrade_safety.enforcement)
}

/// Returns the command that restores the extension's spec as it was before.
pub fn restore_command(extension: &ClusterExtension) -> String {
    let name = extension.metadata.name.as_deref().unwrap_or_default();
    let catalog = extension.spec.source.catalog.as_ref();
    let version = catalog.and_then(|catalog| catalog.version.clone());
    let policy = catalog.map(|catalog| json!(catalog.upgrade_constraint_policy)).unwrap_or_default();
    let mut spec = json!({"source": {"catalog": {"version": version, "upgradeConstraintPolicy": policy}}});
    if enforcement(extension) == Enforcement::Strict {
        spec["install"] = Value::Null;
    }
    patching(name, &json!({"spec": spec}))
}

/// Returns the command after which the extension follows update edges again.
pub fn follow_command(name: &str) -> String {
    patching(name, &json!({"spec": {"source": {"catalog": {"version": null, "upgradeConstraintPolicy": "CatalogProvided"}}}}))
}

fn patching(name: &str, patch: &Value) -> String {
    format!("kubectl patch clusterextension {name} --type merge -p '{patch}'")
}
