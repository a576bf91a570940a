//! `Operator` objects, and the component labels that follow from Subscriptions (OLM0-API-26).

use std::sync::Arc;

use kube::api::DynamicObject;
use mainstay_objects::{ObjectRef, Patch};
use mainstay_olm_classic_core::operator::{component_label, name, status};
use mainstay_runtime::{Cache, Key, Outcome};
use serde_json::{Value, json};

use super::Error;
use super::csv::late;
use super::state::{label, value};
use super::world::{V1ALPHA1, World, place};

impl World {
    /// Labels a Subscription, the CSV that it installed and its latest InstallPlan.
    pub(super) async fn adopt(&self, key: &Key) -> Result<Outcome, Error> {
        let Some(subscription) = self.caches.subscriptions.get(key) else { return Ok(Outcome::Done) };
        let text = |path: &str| subscription.data.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let package = text("/spec/name");
        if package.is_empty() {
            return Ok(Outcome::Done);
        }
        let wanted = component_label(&name(&package, &key.namespace));
        let csv = Key::new(&key.namespace, text("/status/installedCSV"));
        let plan = Key::new(&key.namespace, text("/status/installPlanRef/name"));
        let objects = [
            (Some(subscription), "Subscription", key),
            (self.caches.csvs.get(&csv), "ClusterServiceVersion", &csv),
            (self.caches.plans.get(&plan), "InstallPlan", &plan),
        ];
        for (object, kind, key) in objects {
            if object.is_some_and(|object| label(&object, &wanted).is_none()) {
                let patch = Patch::Merge(json!({"metadata": {"labels": {&wanted: ""}}}));
                late(self.writer.patch(&place(V1ALPHA1, kind, key), "", &patch).await.map(drop))?;
            }
        }
        if !plan.name.is_empty() {
            self.disown_older(&plan, &wanted).await?;
        }
        Ok(Outcome::Done)
    }

    /// Takes the component label from InstallPlans before the latest one.
    async fn disown_older(&self, latest: &Key, component: &str) -> Result<(), Error> {
        for plan in self.caches.plans.in_namespace(&latest.namespace) {
            let key = Key::of(&plan);
            if key != *latest && label(&plan, component).is_some() {
                let patch = Patch::Merge(json!({"metadata": {"labels": {component: null}}}));
                late(self.writer.patch(&place(V1ALPHA1, "InstallPlan", &key), "", &patch).await.map(drop))?;
            }
        }
        Ok(())
    }

    /// Keeps the status of an `Operator`; it is made again while it has components.
    pub(super) async fn operator(&self, operator: &str) -> Result<Outcome, Error> {
        let components: Vec<(&'static str, Key)> = {
            let index = self.state.index();
            index.components.of(&component_label(operator)).cloned().collect()
        };
        let key = Key::new("", operator);
        let Some(live) = self.caches.operators.get(&key) else {
            if components.is_empty() {
                return Ok(Outcome::Done);
            }
            let object = json!({"apiVersion": "operators.coreos.com/v1", "kind": "Operator", "metadata": {"name": operator}});
            return match self.writer.create(&object).await {
                // The new object brings this work back.
                Ok(_) => Ok(Outcome::Done),
                Err(error) if matches!(error.reason(), Some(mainstay_apply::Reason::AlreadyExists)) => Ok(Outcome::Done),
                Err(error) => Err(error.into()),
            };
        };
        let mut objects = Vec::new();
        for (kind, key) in &components {
            objects.extend(self.component(kind, key).await?);
        }
        let live = value(&live);
        let wanted = status(operator, &objects);
        if live["status"] == wanted {
            return Ok(Outcome::Done);
        }
        late(self.writer.update_status(&live, &wanted).await.map(drop))
    }

    /// A component with its status; what caches hold without status is read.
    async fn component(&self, kind: &str, key: &Key) -> Result<Option<Value>, Error> {
        let Some((api_version, cache)) = self.component_cache(kind) else { return Ok(None) };
        let Some(object) = cache.get(key) else { return Ok(None) };
        let place = place(api_version, kind, key);
        if matches!(kind, "CustomResourceDefinition" | "InstallPlan") {
            return Ok(self.writer.get(&place).await?);
        }
        Ok(Some(shown(&place, &object)))
    }

    fn component_cache(&self, kind: &str) -> Option<(&'static str, &Cache)> {
        let rbac = "rbac.authorization.k8s.io/v1";
        Some(match kind {
            "ClusterServiceVersion" => (V1ALPHA1, &self.caches.csvs),
            "Subscription" => (V1ALPHA1, &self.caches.subscriptions),
            "InstallPlan" => (V1ALPHA1, &self.caches.plans),
            "OperatorCondition" => ("operators.coreos.com/v2", &self.caches.conditions),
            "Deployment" => ("apps/v1", &self.caches.deployments),
            "Service" => ("v1", &self.caches.services),
            "Secret" => ("v1", &self.caches.managed_secrets),
            "ConfigMap" => ("v1", &self.caches.config_maps),
            "Namespace" => ("v1", &self.caches.namespaces),
            "ServiceAccount" => ("v1", &self.caches.accounts),
            "CustomResourceDefinition" => ("apiextensions.k8s.io/v1", &self.caches.definitions),
            "APIService" => ("apiregistration.k8s.io/v1", &self.caches.api_services),
            "Role" => (rbac, &self.caches.roles),
            "RoleBinding" => (rbac, &self.caches.role_bindings),
            "ClusterRole" => (rbac, &self.caches.cluster_roles),
            "ClusterRoleBinding" => (rbac, &self.caches.cluster_role_bindings),
            _ => return None,
        })
    }
}

/// The fields of an object that a reference shows, without its content.
fn shown(place: &ObjectRef, object: &Arc<DynamicObject>) -> Value {
    let mut metadata = json!({"name": place.name});
    if !place.namespace.is_empty() {
        metadata["namespace"] = json!(place.namespace);
    }
    json!({
        "apiVersion": place.api_version, "kind": place.kind, "metadata": metadata,
        "status": object.data.get("status").unwrap_or(&Value::Null),
    })
}
