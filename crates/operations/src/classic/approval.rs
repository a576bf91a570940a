//! Approval of InstallPlans, with what their steps would write (OLM0-IP-03, OLM0-ADMIN-09).

use std::collections::BTreeMap;
use std::time::Duration;

use mainstay_bundle::audit::{Asked, asked_by_role};
use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_lifecycle::preview::{Object, named, written};
use mainstay_objects::{ObjectRef, Patch};
use mainstay_olm_classic_core::install_plan::step;
use serde_json::{Value, json};

use super::install::Outcome;
use super::manifests::Manifests;
use super::objects::{INSTALL_PLAN, SUBSCRIPTION, find, get, list_if_served, text};
use super::settle::{Ending, Expected, settle};
use crate::failure::not_written;
use crate::progress::Progress;
use crate::session::Session;

/// A step of an InstallPlan, compared with the cluster.
#[derive(Debug, Clone)]
pub struct PlannedStep {
    /// The CSV that it belongs to.
    pub csv: String,
    /// The object, and what would change; the change is unknown where the content is in a bundle that cannot be read.
    pub object: Object,
    /// True if the content of the step is in a bundle that cannot be read.
    pub is_reference: bool,
    /// True if the object is there.
    pub exists: bool,
}

/// An InstallPlan, and what it would write.
#[derive(Debug, Clone)]
pub struct Preview {
    /// The InstallPlan.
    pub plan: Value,
    /// The CSVs that it installs.
    pub csvs: Vec<String>,
    /// The CSVs that they replace, as `OLD by NEW`.
    pub replaces: Vec<String>,
    /// Its steps, in order.
    pub steps: Vec<PlannedStep>,
    /// The Subscriptions that wait for it.
    pub subscriptions: Vec<String>,
    /// The permissions that its roles grant.
    pub permissions: Vec<Asked>,
    /// The objects that could not be looked at.
    pub notes: Vec<String>,
    /// The CSV that each Subscription comes to.
    currents: BTreeMap<String, String>,
}

/// The CSVs that an InstallPlan installs.
pub fn csvs(plan: &Value) -> Vec<String> {
    let names = plan["spec"]["clusterServiceVersionNames"].as_array().into_iter().flatten();
    names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// Lists the InstallPlans that wait for an approval; `None` where OLM classic is not installed.
pub async fn pending(session: &Session, namespace: Option<&str>) -> Result<Option<Vec<Value>>, Failure> {
    let Some(mut plans) = list_if_served(session, INSTALL_PLAN, namespace).await? else { return Ok(None) };
    plans.retain(|plan| plan["status"]["phase"] == "RequiresApproval" && plan["spec"]["approved"] != true);
    Ok(Some(plans))
}

/// Finds the InstallPlan that a Subscription waits for.
pub async fn of_subscription(session: &Session, namespace: &str, name: &str) -> Result<Value, Failure> {
    let subscription = get(session, SUBSCRIPTION, namespace, name).await?;
    let reference = text(&subscription, "/status/installPlanRef/name");
    let subject = format!("subscription {namespace}/{name}");
    if reference.is_empty() {
        return Err(Failure::new(FailureKind::Impossible, subject, "has no InstallPlan yet")
            .hint(format!("mainstay explain subscription {name} -n {namespace} says what it waits for")));
    }
    get(session, INSTALL_PLAN, namespace, &reference).await
}

/// Reads an InstallPlan and compares its steps with the cluster.
pub async fn preview(session: &Session, plan: Value) -> Result<Preview, Failure> {
    let namespace = text(&plan, "/metadata/namespace");
    let name = text(&plan, "/metadata/name");
    let (mut steps, mut notes, mut replaces, mut permissions) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut manifests = Manifests::new(session, &namespace);
    for planned in plan["status"]["plan"].as_array().into_iter().flatten() {
        let resource = &planned["resource"];
        let content = manifests.of(planned).await;
        let target = place(resource, &namespace, content.as_ref());
        match content.as_ref().map(asked_by_role) {
            Some(Ok(asked)) => permissions.extend(asked),
            Some(Err(error)) => notes.push(format!("{target}: {error}")),
            None => {}
        }
        let live = match session.writer.get(&target).await {
            Ok(live) => live,
            // A kind that a step of this plan brings is served afterwards.
            Err(mainstay_apply::WriteError::Kind { .. }) => None,
            Err(error) => {
                notes.push(format!("{target}: {}", not_written(&error).to_line()));
                None
            }
        };
        if target.kind == "ClusterServiceVersion"
            && let Some(former) = former(&plan, &target.name, content.as_ref())
            && find(session, super::objects::CSV, &namespace, &former).await?.is_some()
        {
            replaces.push(format!("{former} by {}", target.name));
        }
        let object = match (&content, &live) {
            // An account keeps the owners that it has besides.
            (Some(content), Some(live)) if target.kind == "ServiceAccount" => written(&target, &step::over(content, live), Some(live)),
            (Some(content), live) => written(&target, content, live.as_ref()),
            (None, None) => written(&target, &Value::Null, None),
            (None, Some(_)) => named(&target),
        };
        steps.push(PlannedStep { csv: text(planned, "/resolving"), object, is_reference: content.is_none(), exists: live.is_some() });
    }
    notes.extend(manifests.into_problems());
    let all = super::objects::list(session, SUBSCRIPTION, Some(&namespace)).await?;
    // A plan that is not made yet has no name, and nothing waits for it.
    let waits = all.iter().filter(|each| !name.is_empty() && text(each, "/status/installPlanRef/name") == name);
    let currents: BTreeMap<String, String> = waits.map(|each| (text(each, "/metadata/name"), text(each, "/status/currentCSV"))).collect();
    let subscriptions = currents.keys().cloned().collect();
    Ok(Preview { csvs: csvs(&plan), replaces, steps, subscriptions, permissions, notes, plan, currents })
}

/// The CSV that another one replaces, by its manifest, or by the bundle that it comes with.
fn former(plan: &Value, csv: &str, content: Option<&Value>) -> Option<String> {
    let lookups = plan["status"]["bundleLookups"].as_array().into_iter().flatten();
    let lookup = lookups.filter(|lookup| lookup["identifier"] == *csv).find_map(|lookup| lookup["replaces"].as_str());
    let former = content.and_then(|csv| csv["spec"]["replaces"].as_str()).or(lookup)?;
    Some(former.to_owned()).filter(|former| !former.is_empty())
}

/// The kind of the object that a step writes: a Secret of a bundle has a kind of its own in a plan.
pub(super) fn written_kind(kind: &str) -> &str {
    if kind == "BundleSecret" { "Secret" } else { kind }
}

/// The object of a step. The namespace of one that is not cluster-wide is that of the plan.
fn place(resource: &Value, namespace: &str, content: Option<&Value>) -> ObjectRef {
    let (group, version) = (text(resource, "/group"), text(resource, "/version"));
    let kind = written_kind(&text(resource, "/kind")).to_owned();
    let is_everywhere = matches!(
        kind.as_str(),
        "CustomResourceDefinition"
            | "ClusterRole"
            | "ClusterRoleBinding"
            | "PriorityClass"
            | "ConsoleLink"
            | "ConsoleCLIDownload"
            | "ConsoleQuickStart"
            | "ConsoleYAMLSample"
    );
    let own = content.map(|content| text(content, "/metadata/namespace")).filter(|own| !own.is_empty());
    let namespace = if is_everywhere { String::new() } else { own.unwrap_or_else(|| namespace.to_owned()) };
    let api_version = if group.is_empty() || group == "core" { version } else { format!("{group}/{version}") };
    ObjectRef { api_version, kind, namespace, name: text(resource, "/name") }
}

/// Refuses an InstallPlan that does not wait for an approval.
///
/// # Errors
/// It is approved, done or failed already.
pub fn is_waiting(plan: &Value) -> Result<(), Failure> {
    let (namespace, name) = (text(plan, "/metadata/namespace"), text(plan, "/metadata/name"));
    let phase = text(plan, "/status/phase");
    if plan["spec"]["approved"] == true {
        let message = format!("is approved already; it is {}", if phase.is_empty() { "not looked at yet" } else { &phase });
        return Err(Failure::new(FailureKind::Impossible, format!("installplan {namespace}/{name}"), message)
            .hint(format!("mainstay explain installplan {name} -n {namespace} shows how it stands")));
    }
    Ok(())
}

/// Approves the InstallPlan that was read: one that was made since under its name is refused by the API.
pub(super) async fn set_approved(session: &Session, plan: &Value) -> Result<Value, Failure> {
    let target = INSTALL_PLAN.place(&text(plan, "/metadata/namespace"), &text(plan, "/metadata/name"));
    let patch = json!({"metadata": {"uid": plan["metadata"]["uid"]}, "spec": {"approved": true}});
    session.writer.patch(&target, "", &Patch::Merge(patch)).await.map_err(|error| not_written(&error))
}

/// Approves an InstallPlan, and waits until the Subscriptions that wait for it have what it installs; `None` does not wait.
pub async fn approve(
    session: &Session,
    preview: &Preview,
    timeout: Option<Duration>,
    progress: &mut dyn Progress,
) -> Result<Outcome, Failure> {
    let plan = &preview.plan;
    let (namespace, name) = (text(plan, "/metadata/namespace"), text(plan, "/metadata/name"));
    is_waiting(plan)?;
    set_approved(session, plan).await?;
    let installs = preview.csvs.join(", ");
    let Some(timeout) = timeout else {
        return Ok(Outcome { line: format!("installplan {namespace}/{name} approved: {installs}"), ..Outcome::default() });
    };
    for subscription in &preview.subscriptions {
        let csv = preview.currents.get(subscription).cloned();
        let expected = Expected { csv, ..Expected::default() };
        let ending = settle(session, &namespace, subscription, &expected, timeout, progress).await?;
        if let Ending::AwaitsApproval { plan, .. } = ending
            && plan != name
        {
            let line = format!("installplan {namespace}/{name} approved and done; installplan {plan} waits for an approval now");
            return Ok(Outcome { line, awaits_approval: Some(plan), csv: None });
        }
    }
    Ok(Outcome { line: format!("installplan {namespace}/{name} approved: {installs} installed"), ..Outcome::default() })
}
