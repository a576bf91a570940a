//! One step of a CSV: gather, plan, carry out, write the status.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mainstay_apply::Reason as Refusal;
use mainstay_objects::{Expect, ObjectRef, Patch, Propagation};
use mainstay_olm_classic_core::csv::{Action, Member, Transition, next_status, plan};
use mainstay_olm_classic_core::operator::COMPONENT_PREFIX;
use mainstay_olm_classic_core::operator_group::{PROVIDED_APIS, api_roles, group_label};
use mainstay_runtime::{Key, Outcome};
use serde_json::{Value, json};

use super::Error;
use super::facts::Gathered;
use super::state::{label, value};
use super::work::Work;
use super::world::{World, csv_identity, csv_place, place};

/// The wait after a write that came too late; the change that was earlier wakes the CSV too.
const TOO_LATE: Duration = Duration::from_millis(200);

impl World {
    /// Does one step of a CSV.
    pub(super) async fn csv(&self, key: &Key) -> Result<Outcome, Error> {
        let (Some(object), Some(member)) = (self.caches.csvs.get(key), self.state.member(key)) else { return Ok(Outcome::Done) };
        if member.is_deleted {
            return self.remove(key, &member).await;
        }
        if member.is_copied() {
            return Ok(Outcome::Done);
        }
        if !member.has_finalizer {
            let mut identity = csv_identity(key, &member.uid);
            identity["metadata"]["finalizers"] = super::state::metadata(&object)["finalizers"].clone();
            identity["metadata"]["resourceVersion"] = json!(object.metadata.resource_version);
            return late(self.writer.add_finalizer(&identity, mainstay_olm_classic_core::csv::FINALIZER).await.map(drop));
        }
        let version = object.metadata.resource_version.clone().unwrap_or_default();
        let gathered = self.gather(key, member).await?;
        let facts = gathered.facts(self.env.now_seconds());
        let mut plan = plan(&facts);
        let mut certificates = None;
        match std::mem::take(&mut plan.action) {
            Action::None => {}
            Action::Mark { labels, annotations } => {
                let patch = json!({"metadata": {"labels": labels, "annotations": annotations}});
                return late(self.writer.patch(&csv_place(key), "", &Patch::Merge(patch)).await.map(drop));
            }
            Action::Provide { group, apis } => {
                let place = place("operators.coreos.com/v1", "OperatorGroup", &Key::new(&key.namespace, group));
                let patch = json!({"metadata": {"annotations": {PROVIDED_APIS: apis}}});
                // The change of the group wakes its members.
                return late(self.writer.patch(&place, "", &Patch::Merge(patch)).await.map(drop));
            }
            Action::Install { authority } => {
                let (transition, rotation) = self.install(&gathered, authority).await?;
                plan.transition = Some(transition);
                certificates = rotation;
            }
            Action::RemoveDeployments(names) => {
                for name in names.iter().filter(|name| facts.deployments.contains_key(*name)) {
                    let place = place("apps/v1", "Deployment", &Key::new(&key.namespace, name));
                    self.writer.delete(&place, &Expect::default(), Propagation::Background).await?;
                }
            }
            Action::ApiRoles => self.api_roles(&gathered).await?,
            Action::Delete => {
                let expect = Expect { uid: Some(gathered.member.uid.clone()), ..Expect::default() };
                self.writer.delete(&csv_place(key), &expect, Propagation::Background).await?;
                return Ok(Outcome::Done);
            }
        }
        self.label_components(&gathered).await?;
        for name in &plan.wake {
            self.queue.add(Work::Csv(Key::new(&key.namespace, name)));
        }
        let former = gathered.member.status.value();
        let mut status = former.clone();
        if let Some(requirements) = &plan.requirements {
            status["requirementStatus"] = json!(requirements);
        }
        if let Some((updated, rotates)) = certificates {
            status["certsLastUpdated"] = json!(updated.to_string());
            status["certsRotateAt"] = json!(rotates.to_string());
        }
        let reached = plan.transition.filter(|to| !to.is_reached(&former));
        if let Some(to) = &reached {
            status = next_status(&status, to, facts.now);
        }
        let wait = plan.again.map_or(Outcome::Done, Outcome::After);
        if status == former {
            return Ok(wait);
        }
        let written = self.write_csv_status(key, &version, &status).await;
        if written.is_ok() {
            self.reached(key, &gathered.member, reached.as_ref(), plan.is_upgrade);
        }
        match late(written)? {
            Outcome::Done => Ok(wait),
            other => Ok(other),
        }
    }

    /// Writes the status of a CSV that is in a version.
    pub(super) async fn write_csv_status(&self, key: &Key, version: &str, status: &Value) -> Result<(), mainstay_apply::WriteError> {
        let patch = json!({"metadata": {"resourceVersion": version}, "status": status});
        self.writer.patch(&csv_place(key), "status", &Patch::Merge(patch)).await.map(drop)
    }

    /// Reports a new phase (OLM0-CSV-03).
    fn reached(&self, key: &Key, member: &Member, to: Option<&Transition>, is_upgrade: bool) {
        if is_upgrade {
            self.metrics.upgraded();
        }
        if let Some(to) = to {
            tracing::info!(csv = %key, phase = %to.phase, reason = %to.reason, message = to.message, "a CSV has a new phase");
            self.tell(&csv_identity(key, &member.uid), to.is_warning(), to.reason.as_str(), &to.message);
        }
    }

    /// Ensures the ClusterRoles of the APIs of a CSV (OLM0-OG-14).
    async fn api_roles(&self, gathered: &Gathered) -> Result<(), Error> {
        let [group] = gathered.groups.as_slice() else { return Ok(()) };
        let uid = |is_definition: bool, name: &str| {
            let cache = if is_definition { &self.caches.definitions } else { &self.caches.api_services };
            cache.get(&Key::new("", name))?.metadata.uid.clone()
        };
        for mut role in api_roles(&gathered.member.csv, &group.name, uid) {
            let key = Key::new("", role["metadata"]["name"].as_str().unwrap_or_default());
            let live = self.caches.cluster_roles.get(&key);
            // The label of a group stays with the first of several groups with one API.
            for level in ["admin", "edit", "view"] {
                let name = group_label(level);
                if let Some(known) = live.as_ref().and_then(|live| label(live, &name))
                    && role["metadata"]["labels"].get(&name).is_some()
                {
                    role["metadata"]["labels"][&name] = json!(known);
                }
            }
            if !live.is_some_and(|live| holds(&value(&live), &role)) {
                self.writer.apply(&role, true, &Expect::default()).await?;
            }
        }
        Ok(())
    }

    /// Gives the component labels of a CSV to what it owns (OLM0-API-26).
    async fn label_components(&self, gathered: &Gathered) -> Result<(), Error> {
        let member = &gathered.member;
        let labels: BTreeMap<&String, &String> = member.csv.labels.iter().filter(|(key, _)| key.starts_with(COMPONENT_PREFIX)).collect();
        if labels.is_empty() {
            return Ok(());
        }
        for (place, found) in self.components_of(member) {
            if labels.iter().all(|(key, _)| found.metadata.labels.as_ref().is_some_and(|own| own.contains_key(*key))) {
                continue;
            }
            match self.writer.patch(&place, "", &Patch::Merge(json!({"metadata": {"labels": labels}}))).await {
                Err(error) if error.is_not_found() => {}
                other => drop(other?),
            }
        }
        Ok(())
    }

    /// The objects that a CSV owns in its namespace, its roles for the whole cluster, and its CRDs.
    fn components_of(&self, member: &Member) -> Vec<(ObjectRef, Arc<kube::api::DynamicObject>)> {
        let rbac = "rbac.authorization.k8s.io/v1";
        let owned = [
            (&self.caches.deployments, "apps/v1", "Deployment"),
            (&self.caches.accounts, "v1", "ServiceAccount"),
            (&self.caches.services, "v1", "Service"),
            (&self.caches.managed_secrets, "v1", "Secret"),
            (&self.caches.config_maps, "v1", "ConfigMap"),
            (&self.caches.roles, rbac, "Role"),
            (&self.caches.role_bindings, rbac, "RoleBinding"),
            (&self.caches.conditions, "operators.coreos.com/v2", "OperatorCondition"),
        ];
        let mut all = Vec::new();
        for (cache, api_version, kind) in owned {
            for object in cache.owned_by(&member.uid) {
                all.push((place(api_version, kind, &Key::of(&object)), object));
            }
        }
        // Objects of the whole cluster name their CSV by labels.
        let labelled = [
            (&self.caches.cluster_roles, rbac, "ClusterRole"),
            (&self.caches.cluster_role_bindings, rbac, "ClusterRoleBinding"),
            (&self.caches.api_services, "apiregistration.k8s.io/v1", "APIService"),
        ];
        let key = Key::new(&member.namespace, member.name());
        for (cache, api_version, kind) in labelled {
            for object in cache.owned_by(&key.to_string()) {
                all.push((place(api_version, kind, &Key::of(&object)), object));
            }
        }
        for crd in &member.csv.owned_crds {
            let key = Key::new("", &crd.name);
            let found = self.caches.definitions.get(&key);
            all.extend(found.map(|object| (place("apiextensions.k8s.io/v1", "CustomResourceDefinition", &key), object)));
        }
        all
    }
}

/// The outcome of a write that may have come too late: the object has changed, or is gone.
pub(super) fn late(written: Result<(), mainstay_apply::WriteError>) -> Result<Outcome, Error> {
    match written {
        Ok(()) => Ok(Outcome::Done),
        Err(error) if matches!(error.reason(), Some(Refusal::Conflict)) => Ok(Outcome::After(TOO_LATE)),
        Err(error) if error.is_not_found() => Ok(Outcome::Done),
        Err(error) => Err(error.into()),
    }
}

/// Returns whether an object has everything that is wanted.
pub(super) fn holds(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| live.get(key).is_some_and(|live| holds(live, wanted)))
        }
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len() && live.iter().zip(wanted).all(|(live, wanted)| holds(live, wanted))
        }
        (live, wanted) => live == wanted,
    }
}
