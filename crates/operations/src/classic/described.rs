//! Everything about one operator of OLM classic: Subscription, CSV, InstallPlan, OperatorGroup, objects and events (MS-CLI-05, OLM0-ADMIN-20).

use std::collections::BTreeSet;

use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams};
use mainstay_diagnostics::Failure;
use mainstay_objects::{Health, ObjectRef, health};
use mainstay_olm_classic_core::explain::Explanation;
use mainstay_olm_classic_core::{migration, removal};
use serde_json::Value;

use super::explain::{Subject, explain};
use super::objects::{CSV, DEFINITION, INSTALL_PLAN, OPERATOR_CONDITION, OPERATOR_GROUP, SUBSCRIPTION, find, list, text};
use super::removal::{found, objects};
use crate::explain::last_seen;
use crate::failure::refused;
use crate::session::Session;

/// An object of the operator, and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The object.
    pub object: String,
    /// Its state; `missing` if it is not there.
    pub state: String,
}

/// An operator.
#[derive(Debug)]
pub struct Described {
    /// Its namespace.
    pub namespace: String,
    /// The Subscription; none if the CSV was made without.
    pub subscription: Option<Value>,
    /// The CSV that is installed, or on its way.
    pub csv: Option<Value>,
    /// The InstallPlan of the Subscription's last resolution.
    pub plan: Option<Value>,
    /// The OperatorGroups of the namespace.
    pub groups: Vec<Value>,
    /// The CSV's OperatorCondition.
    pub condition: Option<Value>,
    /// The state, what it waits for, and the one next action.
    pub explanation: Explanation,
    /// The objects of the CSV.
    pub parts: Vec<Part>,
    /// The events of Subscription, InstallPlan and CSV, oldest first.
    pub events: Vec<Event>,
    /// The objects that could not be looked at.
    pub notes: Vec<String>,
}

/// Describes the operator that a name stands for: a Subscription, a package that one asks for, or a CSV.
pub async fn describe(session: &Session, namespace: &str, name: &str) -> Result<Described, Failure> {
    let (subscription, csv) = found(session, namespace, name).await?;
    let explanation = match (&subscription, &csv) {
        (Some(subscription), _) => explain(session, Subject::Subscription, Some(namespace), &text(subscription, "/metadata/name")).await?,
        (None, csv) => {
            let name = csv.as_ref().map_or_else(|| name.to_owned(), |csv| text(csv, "/metadata/name"));
            explain(session, Subject::Csv, Some(namespace), &name).await?
        }
    };
    let plan = subscription.as_ref().map(|each| text(each, "/status/installPlanRef/name")).unwrap_or_default();
    let plan = if plan.is_empty() { None } else { find(session, INSTALL_PLAN, namespace, &plan).await? };
    let (mut notes, mut parts, mut condition) = (Vec::new(), Vec::new(), None);
    if let Some(csv) = &csv {
        condition = find(session, OPERATOR_CONDITION, namespace, &text(csv, "/metadata/name")).await?;
        parts = present(session, csv, &mut notes).await?;
    }
    let about = [(SUBSCRIPTION, &subscription), (INSTALL_PLAN, &plan), (CSV, &csv)];
    let uids: BTreeSet<String> =
        about.iter().filter_map(|(_, object)| object.as_ref()).map(|object| text(object, "/metadata/uid")).collect();
    let events = match events(session, namespace, &uids).await {
        Ok(events) => events,
        Err(failure) => {
            notes.push(format!("events: {}", failure.to_line()));
            Vec::new()
        }
    };
    let groups = list(session, OPERATOR_GROUP, Some(namespace)).await?;
    Ok(Described { namespace: namespace.to_owned(), subscription, csv, plan, groups, condition, explanation, parts, events, notes })
}

/// The objects of a CSV: those that it owns, and the Deployments and CRDs that are missing.
async fn present(session: &Session, csv: &Value, notes: &mut Vec<String>) -> Result<Vec<Part>, Failure> {
    let mut live = objects(session, csv, notes).await;
    let mut missing = Vec::new();
    for name in removal::definitions(csv, "owned") {
        match find(session, DEFINITION, "", &name).await? {
            Some(definition) => live.push(definition),
            None => missing.push(DEFINITION.place("", &name)),
        }
    }
    let namespace = text(csv, "/metadata/namespace");
    for deployment in csv["spec"]["install"]["spec"]["deployments"].as_array().into_iter().flatten() {
        let name = text(deployment, "/name");
        let place = ObjectRef { api_version: "apps/v1".to_owned(), kind: "Deployment".to_owned(), namespace: namespace.clone(), name };
        if !live.iter().any(|object| migration::reference(object).same(&place)) {
            missing.push(place);
        }
    }
    let mut parts: Vec<Part> = live
        .iter()
        .map(|object| {
            let state = match health(object) {
                Health::Ready => "ready".to_owned(),
                Health::Waiting(why) => format!("waiting: {why}"),
                Health::Failed(why) => format!("failed: {why}"),
            };
            Part { object: migration::reference(object).to_string(), state }
        })
        .collect();
    parts.extend(missing.into_iter().map(|place| Part { object: place.to_string(), state: "missing".to_owned() }));
    parts.sort_by(|one, other| one.object.cmp(&other.object));
    Ok(parts)
}

/// The events about the objects with these uids, oldest first.
async fn events(session: &Session, namespace: &str, uids: &BTreeSet<String>) -> Result<Vec<Event>, Failure> {
    let api: Api<Event> = Api::namespaced(session.client.clone(), namespace);
    let mut all = api.list(&ListParams::default()).await.map_err(|error| refused("events", &error))?.items;
    all.retain(|event| event.regarding.as_ref().and_then(|about| about.uid.as_ref()).is_some_and(|uid| uids.contains(uid)));
    all.sort_by_key(last_seen);
    Ok(all)
}
