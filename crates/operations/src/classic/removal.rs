//! Removal of an operator: Subscription and CSV, and CRDs only when asked for (OLM0-ADMIN-10, OLM0-ADMIN-11).

use std::time::{Duration, Instant};

use kube::api::ListParams;
use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_objects::{Step, Until};
use mainstay_olm_classic_core::removal::{self, Choices, Definition, Facts, Refusal, Removal, Unlisted};
use serde_json::Value;

use super::objects::{CSV, DEFINITION, Kind, SUBSCRIPTION, find, list, list_by, text};
use crate::apply::execute;
use crate::ownership;
use crate::progress::Progress;
use crate::session::Session;

const fn owned(group: &'static str, version: &'static str, kind: &'static str, plural: &'static str) -> Kind {
    Kind { group, version, kind, plural, word: kind }
}

const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

/// Kinds that carry the labels of their CSV, or have it as owner; true for those of namespaces.
const OWNED: [(Kind, bool); 11] = [
    (owned("apps", "v1", "Deployment", "deployments"), true),
    (owned("", "v1", "ServiceAccount", "serviceaccounts"), true),
    (owned("", "v1", "Service", "services"), true),
    (owned("", "v1", "Secret", "secrets"), true),
    (owned("", "v1", "ConfigMap", "configmaps"), true),
    (owned(RBAC, "v1", "Role", "roles"), true),
    (owned(RBAC, "v1", "RoleBinding", "rolebindings"), true),
    (owned(RBAC, "v1", "ClusterRole", "clusterroles"), false),
    (owned(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings"), false),
    (owned(ADMISSION, "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations"), false),
    (owned(ADMISSION, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"), false),
];

/// A planned removal, and what could not be looked at.
#[derive(Debug, Clone)]
pub struct Planned {
    /// The removal.
    pub removal: Removal,
    /// The Subscription's name, or that of the CSV.
    pub name: String,
    /// The namespace.
    pub namespace: String,
    /// The CSV's name, if there is one.
    pub csv: Option<String>,
    /// The objects that could not be looked at.
    pub notes: Vec<String>,
}

/// Finds what a name stands for: a Subscription, a package that one asks for, or a CSV.
pub async fn found(session: &Session, namespace: &str, name: &str) -> Result<(Option<Value>, Option<Value>), Failure> {
    let subscriptions = list(session, SUBSCRIPTION, Some(namespace)).await?;
    let by = |pointer: &str| subscriptions.iter().find(|each| text(each, pointer) == name).cloned();
    let is_led = |each: &&Value| ["/status/installedCSV", "/status/currentCSV"].iter().any(|pointer| text(each, pointer) == name);
    let subscription = by("/metadata/name").or_else(|| by("/spec/name")).or_else(|| subscriptions.iter().find(is_led).cloned());
    let names = match &subscription {
        None => vec![name.to_owned()],
        // A CSV that still waits for its InstallPlan is not there: the operator is the one that is installed.
        Some(subscription) => vec![text(subscription, "/status/currentCSV"), text(subscription, "/status/installedCSV")],
    };
    let mut csv = None;
    for name in names.iter().filter(|name| !name.is_empty()) {
        csv = find(session, CSV, namespace, name).await?;
        if csv.is_some() {
            break;
        }
    }
    if subscription.is_none() && csv.is_none() {
        return Err(Failure::new(
            FailureKind::NotFound,
            format!("operator {namespace}/{name}"),
            "no Subscription, package or CSV has this name",
        )
        .hint(format!("mainstay list --classic -n {namespace} shows what is installed")));
    }
    Ok((subscription, csv))
}

/// Plans a removal. Nothing is written.
pub async fn plan(
    session: &Session,
    namespace: &str,
    name: &str,
    choices: Choices,
    progress: &mut dyn Progress,
) -> Result<Planned, Failure> {
    let (subscription, csv) = found(session, namespace, name).await?;
    progress.doing("look at what the CSV owns");
    let (mut notes, mut owned) = (Vec::new(), Vec::new());
    let (mut definitions, mut csvs) = (Vec::new(), Vec::new());
    if let Some(csv) = &csv {
        owned = objects(session, csv, &mut notes).await;
        csvs = list(session, CSV, None).await?;
        for crd in removal::definitions(csv, "owned") {
            let Some(live) = find(session, DEFINITION, "", &crd).await? else { continue };
            let instances = ownership::instances(session, &live).await.map_err(|failure| Unlisted(failure.to_line()));
            definitions.push(Definition { name: crd, uid: text(&live, "/metadata/uid"), instances });
        }
    }
    let subscriptions = list(session, SUBSCRIPTION, Some(namespace)).await?;
    let facts = Facts {
        subscription: subscription.as_ref(),
        csv: csv.as_ref(),
        csvs: &csvs,
        subscriptions: &subscriptions,
        owned: &owned,
        definitions: &definitions,
    };
    let removal = removal::plan(&facts, choices);
    let name = subscription.as_ref().or(csv.as_ref()).map_or_else(|| name.to_owned(), |object| text(object, "/metadata/name"));
    Ok(Planned { removal, name, namespace: namespace.to_owned(), csv: csv.map(|csv| text(&csv, "/metadata/name")), notes })
}

/// Lists what a CSV owns: by its labels everywhere, by owner references in its namespace.
pub(super) async fn objects(session: &Session, csv: &Value, notes: &mut Vec<String>) -> Vec<Value> {
    let (namespace, name, uid) = (text(csv, "/metadata/namespace"), text(csv, "/metadata/name"), text(csv, "/metadata/uid"));
    let labels = format!("olm.owner={name},olm.owner.namespace={namespace}");
    let mut all: Vec<Value> = Vec::new();
    let has_owner =
        |object: &Value| object["metadata"]["ownerReferences"].as_array().into_iter().flatten().any(|owner| text(owner, "/uid") == uid);
    for (kind, is_namespaced) in OWNED {
        let mut found = match list_by(session, kind, None, &ListParams::default().labels(&labels)).await {
            Ok(found) => found,
            Err(failure) => {
                notes.push(format!("{} of the CSV: {}", kind.plural, failure.to_line()));
                continue;
            }
        };
        if is_namespaced {
            match list(session, kind, Some(&namespace)).await {
                Ok(here) => found.extend(here.into_iter().filter(has_owner)),
                Err(failure) => notes.push(format!("{} in namespace {namespace}: {}", kind.plural, failure.to_line())),
            }
        }
        for object in found {
            if !all.iter().any(|known| known["metadata"]["uid"] == object["metadata"]["uid"]) {
                all.push(object);
            }
        }
    }
    all
}

impl Planned {
    /// The reason why the removal is not done, if there is one.
    pub fn refusal(&self) -> Option<Failure> {
        let refusal = self.removal.refusal.as_ref()?;
        let failure = Failure::new(FailureKind::Impossible, format!("operator {}/{}", self.namespace, self.name), refusal.to_string());
        Some(match refusal {
            Refusal::Needed(needs) => {
                needs.iter().fold(failure, |failure, need| failure.because(need.as_str())).hint("--even-if-needed removes it all the same")
            }
            Refusal::Unknown(_) => failure.hint("without --delete-crds they stay"),
        })
    }
}

/// Carries out a removal, and waits until everything that the command deletes is gone. Returns a summary.
pub async fn carry_out(session: &Session, planned: &Planned, timeout: Duration, progress: &mut dyn Progress) -> Result<String, Failure> {
    let begun = Instant::now();
    if let Some(refusal) = planned.refusal() {
        return Err(refusal);
    }
    for (step, target) in planned.removal.steps.iter().zip(&planned.removal.gone) {
        progress.doing(&format!("delete {target}"));
        execute(session, step).await?;
        let left = timeout.saturating_sub(begun.elapsed());
        execute(session, &Step::Wait { object: target.clone(), until: Until::Gone, timeout: left }).await?;
    }
    let kept = planned.removal.preview.definitions.iter().filter(|definition| !definition.deleted).count();
    let kept = if kept > 0 { "; its CRDs and custom resources were kept" } else { "" };
    Ok(format!("operator {}/{} uninstalled in {:.1} s{kept}", planned.namespace, planned.name, begun.elapsed().as_secs_f64()))
}
