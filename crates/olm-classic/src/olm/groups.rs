//! OperatorGroups and the labels of their targets (OLM0-OG).

use std::collections::{BTreeMap, BTreeSet};

use mainstay_objects::{Expect, Patch, Propagation};
use mainstay_olm_classic_core::csv::Group;
use mainstay_olm_classic_core::groups::apis;
use mainstay_olm_classic_core::operator_group::{
    PROVIDED_APIS, StatusFacts, cluster_role_name, cluster_roles, namespace_labels, provided_by, pruned, selector, status, targets,
};
use mainstay_runtime::{Key, Outcome};
use serde_json::{Value, json};

use super::Error;
use super::csv::{holds, late};
use super::state::{NamedByGroup, value};
use super::work::Work;
use super::world::{World, place};

const RBAC: &str = "rbac.authorization.k8s.io/v1";

impl World {
    /// Does the work on a group: its status, its ClusterRoles, its annotation.
    pub(super) async fn group(&self, key: &Key) -> Result<Outcome, Error> {
        let (Some(object), Some(group)) = (self.caches.groups.get(key), self.state.group(key)) else {
            return self.group_gone(key).await;
        };
        if object.metadata.deletion_timestamp.is_some() {
            return Ok(Outcome::Done);
        }
        let targets = self.targets(&group)?;
        let rivals = self.state.groups_in(&key.namespace).len() > 1;
        let uid =
            |name: &String| self.caches.accounts.get(&Key::new(&key.namespace, name)).and_then(|account| account.metadata.uid.clone());
        let found = group.service_account.as_ref().map(uid);
        let account = group.service_account.as_deref().zip(found.as_ref().map(Option::as_deref));
        let live = value(&object);
        let wanted = status(&live, StatusFacts { targets: &targets, has_rivals: rivals, account, now: self.env.now_seconds() });
        if live["status"] != wanted {
            let outcome = late(self.writer.update_status(&live, &wanted).await.map(drop))?;
            // The change of the status wakes the group, its members and its targets.
            return Ok(outcome);
        }
        let members = self.state.members_in(&key.namespace);
        let mut provided = provided_by(members.iter().map(AsRef::as_ref));
        provided.extend(apis(&group.provided));
        for role in cluster_roles(&group, &provided) {
            let place = Key::new("", role["metadata"]["name"].as_str().unwrap_or_default());
            let found = self.caches.cluster_roles.get(&place).map(|found| value(&found));
            let is_same = |found: &Value| holds(found, &role) && found.get("aggregationRule") == role.get("aggregationRule");
            if !found.as_ref().is_some_and(is_same) {
                self.writer.apply(&role, true, &Expect::default()).await?;
            }
        }
        if let Some(apis) = pruned(&group, members.iter().map(AsRef::as_ref)) {
            let patch = json!({"metadata": {"annotations": {PROVIDED_APIS: apis}, "resourceVersion": object.metadata.resource_version}});
            let place = place("operators.coreos.com/v1", "OperatorGroup", key);
            return late(self.writer.patch(&place, "", &Patch::Merge(patch)).await.map(drop));
        }
        Ok(Outcome::Done)
    }

    fn targets(&self, group: &Group) -> Result<Vec<String>, Error> {
        let problem = |source| Error::Targets { group: format!("{}/{}", group.namespace, group.name), source };
        // Only a selector looks at namespaces.
        let all = if selector(group).map_err(problem)?.is_some() { self.caches.namespaces.all() } else { Vec::new() };
        let none = BTreeMap::new();
        let named = all.iter().filter(|namespace| namespace.metadata.deletion_timestamp.is_none());
        let labelled = named
            .map(|namespace| (namespace.metadata.name.as_deref().unwrap_or_default(), namespace.metadata.labels.as_ref().unwrap_or(&none)));
        targets(group, labelled).map_err(problem)
    }

    /// Deletes the ClusterRoles of a group that is gone, and wakes its former members.
    async fn group_gone(&self, key: &Key) -> Result<Outcome, Error> {
        let gone = Group { name: key.name.clone(), namespace: key.namespace.clone(), ..Group::default() };
        for level in ["admin", "edit", "view"] {
            let name = Key::new("", cluster_role_name(&gone, level));
            if self.caches.cluster_roles.get(&name).is_some() {
                self.writer.delete(&place(RBAC, "ClusterRole", &name), &Expect::default(), Propagation::Background).await?;
            }
        }
        for member in self.state.members_in(&key.namespace) {
            self.queue.add(Work::Csv(Key::new(&key.namespace, member.name())));
        }
        Ok(Outcome::Done)
    }

    /// Labels a namespace with the groups that target it (OLM0-OG-08).
    pub(super) async fn namespace(&self, name: &str) -> Result<Outcome, Error> {
        let key = Key::new("", name);
        let Some(namespace) = self.caches.namespaces.get(&key) else { return Ok(Outcome::Done) };
        let wanted: BTreeSet<String> = {
            let targeting: Vec<Key> = self.state.index().groups.of(&NamedByGroup::Target(name.to_owned())).cloned().collect();
            targeting.iter().filter_map(|group| self.state.group(group)).map(|group| group.label()).collect()
        };
        let labels = namespace.metadata.labels.clone().unwrap_or_default();
        let patch = namespace_labels(&labels, &wanted);
        if patch.is_empty() {
            return Ok(Outcome::Done);
        }
        let patch = Patch::Merge(json!({"metadata": {"labels": patch}}));
        late(self.writer.patch(&place("v1", "Namespace", &key), "", &patch).await.map(drop))
    }
}
