//! The removal of a CSV: custom resources if it asks for that, what no garbage collector finds, and its finalizer (OLM0-CSV-20 to OLM0-CSV-22).

use std::collections::BTreeSet;
use std::time::Duration;

use kube::api::{Api, DynamicObject, GroupVersionKind, ListParams};
use mainstay_objects::{Expect, Patch, Propagation};
use mainstay_olm_classic_core::csv::{FINALIZER, Member, waits_for_cleanup};
use mainstay_runtime::{Cache, Key, KindError, Outcome};
use serde_json::{Value, json};

use super::Error;
use super::csv::late;
use super::state::{metadata, owner};
use super::world::{World, csv_identity, place};

/// The interval at which custom resources that are being deleted are looked for.
const LOOK: Duration = Duration::from_secs(2);
/// The most custom resources of one kind that are listed in the status.
const MOST: usize = 1_000;

impl World {
    /// Removes what a CSV that is being deleted leaves.
    pub(super) async fn remove(&self, key: &Key, member: &Member) -> Result<Outcome, Error> {
        if !member.has_finalizer || member.is_copied() {
            return Ok(Outcome::Done);
        }
        let Some(object) = self.caches.csvs.get(key) else { return Ok(Outcome::Done) };
        if member.csv.object["spec"]["cleanup"]["enabled"] == true {
            let pending = self.clean_up(member).await?;
            if !pending.is_empty() {
                let former = member.status.value();
                let status = waits_for_cleanup(&former, &json!(pending), self.env.now_seconds());
                if status != former {
                    let version = object.metadata.resource_version.clone().unwrap_or_default();
                    late(self.write_csv_status(key, &version, &status).await)?;
                }
                return Ok(Outcome::After(LOOK));
            }
        }
        let rbac = "rbac.authorization.k8s.io/v1";
        let webhooks = "admissionregistration.k8s.io/v1";
        let kinds = [
            (&self.caches.cluster_role_bindings, rbac, "ClusterRoleBinding"),
            (&self.caches.cluster_roles, rbac, "ClusterRole"),
            (&self.caches.mutating, webhooks, "MutatingWebhookConfiguration"),
            (&self.caches.validating, webhooks, "ValidatingWebhookConfiguration"),
        ];
        for (cache, api_version, kind) in kinds {
            self.remove_owned(key, cache, api_version, kind).await?;
        }
        for api in &member.csv.owned_api_services {
            let name = Key::new("", format!("{}.{}", api.version, api.group));
            if self.caches.api_services.get(&name).is_some_and(|object| owner(&object).as_ref() == Some(key)) {
                let place = place("apiregistration.k8s.io/v1", "APIService", &name);
                self.writer.delete(&place, &Expect::default(), Propagation::Background).await?;
            }
        }
        self.reset_conversions(key, member).await?;
        let mut identity = csv_identity(key, &member.uid);
        identity["metadata"]["finalizers"] = metadata(&object)["finalizers"].clone();
        identity["metadata"]["resourceVersion"] = json!(object.metadata.resource_version);
        late(self.writer.remove_finalizer(&identity, FINALIZER).await.map(drop))
    }

    /// Deletes the objects of a kind that carry the owner labels of a CSV.
    async fn remove_owned(&self, key: &Key, cache: &Cache, api_version: &str, kind: &'static str) -> Result<(), Error> {
        for object in cache.owned_by(&key.to_string()) {
            let place = place(api_version, kind, &Key::of(&object));
            let expect = Expect { uid: object.metadata.uid.clone(), ..Expect::default() };
            if self.writer.delete(&place, &expect, Propagation::Background).await? && self.writer.get(&place).await?.is_some() {
                return Err(Error::Remains { csv: key.to_string(), kind });
            }
        }
        Ok(())
    }

    /// Sets CRDs whose conversion webhook goes with the CSV back, unless a successor has it.
    async fn reset_conversions(&self, key: &Key, member: &Member) -> Result<(), Error> {
        let siblings = self.state.members_in(&key.namespace);
        if siblings.iter().any(|other| other.csv.replaces == key.name) {
            return Ok(());
        }
        for crd in member.csv.webhooks.iter().flat_map(|webhook| &webhook.conversion_crds) {
            let place = place("apiextensions.k8s.io/v1", "CustomResourceDefinition", &Key::new("", crd));
            let Some(live) = self.writer.get(&place).await? else { continue };
            if live["spec"]["conversion"]["strategy"] == "Webhook" {
                let patch = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
                self.writer.patch(&place, "", &Patch::Merge(patch)).await?;
            }
        }
        Ok(())
    }

    /// Deletes the custom resources of owned APIs in the target namespaces; returns what is left.
    async fn clean_up(&self, member: &Member) -> Result<Vec<Value>, Error> {
        let targets = member.csv.annotations.get(mainstay_olm_classic_core::csv::TARGETS).cloned().unwrap_or_default();
        let targets: BTreeSet<&str> = targets.split(',').filter(|name| !name.is_empty()).collect();
        let mut pending = Vec::new();
        for crd in &member.csv.owned_crds {
            let Some((_, group)) = crd.name.split_once('.') else { continue };
            let gvk = GroupVersionKind::gvk(group, &crd.version, &crd.kind);
            let served = match self.kinds.served(&gvk).await {
                Ok(served) => served,
                Err(KindError::NotServed { .. }) => continue,
                Err(error) => return Err(error.into()),
            };
            let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &served.resource);
            let limit = ListParams::default().limit(u32::try_from(MOST).unwrap_or(u32::MAX));
            let list = api.list_metadata(&limit).await;
            let list = list.map_err(|source| Error::Ask { what: crd.name.clone(), source: Box::new(source) })?;
            let mut instances = Vec::new();
            for item in list.items {
                let key = Key::new(item.metadata.namespace.clone().unwrap_or_default(), item.metadata.name.clone().unwrap_or_default());
                if !targets.is_empty() && !key.namespace.is_empty() && !targets.contains(key.namespace.as_str()) {
                    continue;
                }
                if item.metadata.deletion_timestamp.is_none() {
                    let place = place(&gvk.api_version(), &crd.kind, &key);
                    self.writer.delete(&place, &Expect::default(), Propagation::Background).await?;
                }
                instances.push(json!({"namespace": key.namespace, "name": key.name}));
            }
            if !instances.is_empty() {
                pending.push(json!({"group": group, "kind": crd.kind, "instances": instances}));
            }
        }
        Ok(pending)
    }
}
