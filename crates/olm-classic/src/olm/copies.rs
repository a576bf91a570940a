//! Copies of CSVs, the roles that go with them, and OLMConfig (OLM0-OG-17 to OLM0-OG-21).

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams};
use mainstay_objects::{Condition, Expect, Patch, Propagation, set_condition};
use mainstay_olm_classic_core::copies::{CONTENT_HASH, Extent, Prototype, STATUS_HASH, condition, lifted, places, tenant_role};
use mainstay_olm_classic_core::csv::{Group, Member, Reason, TARGETS, holds_everywhere, holds_in};
use mainstay_runtime::{Key, Outcome};
use serde_json::json;

use super::Error;
use super::csv::{holds, late};
use super::state::{NamedByGroup, annotation, label, owner, value};
use super::work::Work;
use super::world::{World, csv_identity, csv_place, place};

/// The reason of events about disabled copies, and the type of OLMConfig's condition.
const DISABLED: &str = "DisabledCopiedCSVs";

/// An active member with its group.
struct Active {
    member: Arc<Member>,
    group: Arc<Group>,
}

/// The fate of the copies of a CSV.
enum Fate {
    /// They follow the CSV and the targets of its group.
    Follow(Active),
    /// Those in its former targets stay as they are, because what keeps it from its group may pass; `None` is every namespace.
    Stay(Option<BTreeSet<String>>),
    /// They go.
    Go,
}

impl Fate {
    fn active(&self) -> Option<&Active> {
        if let Self::Follow(active) = self { Some(active) } else { None }
    }
}

impl World {
    /// Decides about the copies of a CSV.
    fn fate(&self, key: &Key) -> Fate {
        let Some(member) = self.state.member(key).filter(|member| !member.is_deleted && !member.is_copied()) else { return Fate::Go };
        if member.reason() == Some(Reason::InterOperatorGroupOwnerConflict) {
            return Fate::Go;
        }
        let Some(targets) = member.csv.annotations.get(TARGETS) else { return Fate::Go };
        let stay = || Fate::Stay((!targets.is_empty()).then(|| targets.split(',').map(str::to_owned).collect()));
        if member.reason().is_none_or(Reason::is_uncopiable) {
            return stay();
        }
        let mut groups = self.state.groups_in(&key.namespace);
        let Some(group) = groups.pop().filter(|_| groups.is_empty()) else { return stay() };
        let is_marked = member.csv.annotations.get(mainstay_olm_classic_core::csv::GROUP) == Some(&group.name);
        if is_marked && group.namespaces.as_deref().is_some_and(|all| !all.is_empty()) && *targets == group.targets() {
            Fate::Follow(Active { member, group })
        } else {
            stay()
        }
    }

    fn copies_disabled(&self) -> bool {
        let config = self.caches.configs.get(&Key::new("", "cluster"));
        config.is_some_and(|config| config.data.pointer("/spec/features/disableCopiedCSVs").is_some_and(|value| value == true))
    }

    /// The namespaces in which copies of a CSV belong.
    fn copy_places(&self, key: &Key, active: Option<&Active>) -> BTreeSet<String> {
        let Some(Active { group, .. }) = active else { return BTreeSet::new() };
        let targets: Option<BTreeSet<String>> =
            if group.is_global() { None } else { group.namespaces.as_ref().map(|all| all.iter().cloned().collect()) };
        let is_disabled = self.copies_disabled();
        let all: Vec<String> = match &targets {
            Some(targets) => targets.iter().cloned().collect(),
            None if is_disabled => self.protected.iter().cloned().collect(),
            None => self.caches.namespaces.all().iter().filter_map(|namespace| namespace.metadata.name.clone()).collect(),
        };
        let live = all.iter().map(String::as_str).filter(|name| self.is_live(name));
        places(&key.namespace, targets.as_ref(), live, is_disabled, &self.protected)
    }

    fn is_live(&self, namespace: &str) -> bool {
        self.caches.namespaces.get(&Key::new("", namespace)).is_some_and(|found| found.metadata.deletion_timestamp.is_none())
    }

    /// Finds the namespaces whose copies of a CSV are missing, surplus or old, and lifts its roles if its group is for all namespaces.
    pub(super) async fn copies(&self, key: &Key) -> Result<Outcome, Error> {
        let fate = self.fate(key);
        let active = fate.active();
        let wanted = self.copy_places(key, active);
        let mut existing: BTreeSet<String> = self.state.index().copies.of(key).map(|copy| copy.namespace.clone()).collect();
        if let Fate::Stay(targets) = &fate {
            existing.retain(|namespace| targets.as_ref().is_some_and(|targets| !targets.contains(namespace)));
        }
        let object = self.caches.csvs.get(key);
        let hashes = object.as_ref().filter(|_| !wanted.is_empty()).map(|object| self.state.copy_hashes(key, object));
        for namespace in wanted.union(&existing) {
            let copy = self.caches.copies.get(&Key::new(namespace, &key.name));
            let is_current = match (&hashes, &copy) {
                (Some(hashes), Some(copy)) => {
                    let is_global = active.is_some_and(|active| active.group.is_global());
                    let (content, status) = hashes.of(Extent::of(is_global, namespace, &self.protected));
                    wanted.contains(namespace)
                        && annotation(copy, CONTENT_HASH) == Some(content)
                        && annotation(copy, STATUS_HASH) == Some(status)
                        && active.is_none_or(|active| active.group.is_global())
                }
                _ => false,
            };
            if !is_current {
                self.queue.add(Work::Copy { original: key.clone(), namespace: namespace.clone() });
            }
        }
        if let Some(active) = active.filter(|active| active.group.is_global()) {
            self.lift(active).await?;
            self.tell_disabled(key, &active.member).await?;
        }
        Ok(Outcome::Done)
    }

    /// Makes, corrects or deletes one copy.
    pub(super) async fn copy(&self, original: &Key, namespace: &str) -> Result<Outcome, Error> {
        let key = Key::new(namespace, &original.name);
        let copy = self.caches.copies.get(&key);
        let is_own = copy.as_ref().is_some_and(|copy| label(copy, "olm.copiedFrom") == Some(&original.namespace));
        let fate = self.fate(original);
        if let Fate::Stay(targets) = &fate
            && targets.as_ref().is_none_or(|targets| targets.contains(namespace))
        {
            return Ok(Outcome::Done);
        }
        let (Some(active), Some(object)) = (fate.active(), self.caches.csvs.get(original)) else {
            return self.delete_copy(&key, is_own).await;
        };
        if !self.belongs(original, namespace, active) {
            return self.delete_copy(&key, is_own).await;
        }
        if self.caches.csvs.get(&key).is_some() {
            // A CSV of the same name that is installed there is no copy.
            return Ok(Outcome::Done);
        }
        let hashes = self.state.copy_hashes(original, &object);
        let told = |name: &str| copy.as_ref().and_then(|copy| annotation(copy, name));
        let extent = Extent::of(active.group.is_global(), namespace, &self.protected);
        let (content_hash, status_hash) = hashes.of(extent);
        let content = !is_own || told(CONTENT_HASH) != Some(content_hash);
        let status = !is_own || told(STATUS_HASH) != Some(status_hash);
        let prototype = if content || status { Some(Prototype::of(&value(&object), extent)) } else { None };
        let uid = if let Some(prototype) = prototype.as_ref().filter(|_| content) {
            match self.writer.apply(&prototype.in_namespace(namespace), true, &Expect::default()).await {
                Ok((written, _)) => written["metadata"]["uid"].as_str().map(str::to_owned),
                // The namespace is going.
                Err(error) if error.is_not_found() || (error.is_forbidden() && !self.is_live(namespace)) => return Ok(Outcome::Done),
                Err(error) => return Err(error.into()),
            }
        } else {
            copy.as_ref().and_then(|copy| copy.metadata.uid.clone())
        };
        if let Some(prototype) = prototype.filter(|_| status) {
            self.write_copied_status(&key, &prototype).await?;
        }
        if !active.group.is_global()
            && let Some(uid) = uid
        {
            self.tenant_roles(active, namespace, &uid).await?;
        }
        Ok(Outcome::Done)
    }

    fn belongs(&self, original: &Key, namespace: &str, active: &Active) -> bool {
        let targets = active.group.namespaces.as_deref().unwrap_or_default();
        let is_target = if active.group.is_global() {
            !self.copies_disabled() || self.protected.contains(namespace)
        } else {
            targets.iter().any(|target| target == namespace)
        };
        namespace != original.namespace && is_target && self.is_live(namespace)
    }

    async fn delete_copy(&self, key: &Key, is_own: bool) -> Result<Outcome, Error> {
        if is_own {
            self.writer.delete(&csv_place(key), &Expect::default(), Propagation::Background).await?;
        }
        Ok(Outcome::Done)
    }

    /// Writes the status of a copy, and then its hash, so that a copy without status is seen.
    async fn write_copied_status(&self, key: &Key, prototype: &Prototype) -> Result<(), Error> {
        let place = csv_place(key);
        self.writer.patch(&place, "status", &Patch::Merge(json!({"status": prototype.status}))).await?;
        let patch = json!({"metadata": {"annotations": {STATUS_HASH: prototype.status_hash}}});
        self.writer.patch(&place, "", &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Copies the roles of an operator into a target namespace in which its accounts lack them (OLM0-OG-18).
    async fn tenant_roles(&self, active: &Active, namespace: &str, copy_uid: &str) -> Result<(), Error> {
        let member = &active.member;
        let facts = self.permission_facts(member);
        if member.csv.permissions.is_empty() || holds_in(member, &facts, namespace) {
            return Ok(());
        }
        for (cache, kind) in [(&self.caches.roles, "Role"), (&self.caches.role_bindings, "RoleBinding")] {
            for object in cache.owned_by(&member.uid) {
                // The RoleBinding of an OperatorCondition, for example, is no permission of the CSV.
                if label(&object, "olm.owner") != Some(member.name()) {
                    continue;
                }
                let mut own = value(&object);
                own["kind"] = json!(kind);
                let role = tenant_role(&own, namespace, copy_uid);
                let key = Key::new(namespace, object.metadata.name.clone().unwrap_or_default());
                if !cache.get(&key).is_some_and(|live| holds(&value(&live), &role)) {
                    self.writer.apply(&role, true, &Expect::default()).await?;
                }
            }
        }
        Ok(())
    }

    /// Makes ClusterRoles of the roles of a member of a global group, unless its accounts have what it asks for everywhere (OLM0-OG-17).
    async fn lift(&self, active: &Active) -> Result<(), Error> {
        let member = &active.member;
        if member.csv.permissions.is_empty() || holds_everywhere(member, &self.permission_facts(member)) {
            return Ok(());
        }
        let kinds = [
            (&self.caches.roles, &self.caches.cluster_roles, "Role"),
            (&self.caches.role_bindings, &self.caches.cluster_role_bindings, "RoleBinding"),
        ];
        for (from, to, kind) in kinds {
            for object in from.owned_by(&member.uid) {
                if owner(&object).is_none_or(|owner| owner.name != member.name()) || label(&object, "olm.owner") != Some(member.name()) {
                    continue;
                }
                let mut own = value(&object);
                own["kind"] = json!(kind);
                let wide = lifted(&own);
                let key = Key::new("", object.metadata.name.clone().unwrap_or_default());
                if !to.get(&key).is_some_and(|live| holds(&value(&live), &wide)) {
                    self.writer.apply(&wide, true, &Expect::default()).await?;
                }
            }
        }
        Ok(())
    }

    /// Keeps one event on a CSV while copies are disabled, and none while they are not (OLM0-OG-21).
    async fn tell_disabled(&self, key: &Key, member: &Member) -> Result<(), Error> {
        let is_disabled = self.copies_disabled();
        let told = self.state.was_told(key);
        if told == Some(is_disabled) {
            return Ok(());
        }
        let api: Api<Event> = Api::namespaced(self.client.clone(), &key.namespace);
        let selector = ListParams::default().fields(&format!("involvedObject.name={},reason={DISABLED}", key.name));
        let list = api.list(&selector).await;
        let events = list.map_err(|source| Error::Ask { what: format!("events of {key}"), source: Box::new(source) })?.items;
        let own: Vec<_> = events.into_iter().filter(|event| event.involved_object.uid.as_deref() == Some(&member.uid)).collect();
        let keep = usize::from(is_disabled);
        for event in own.iter().skip(keep) {
            let place = place("v1", "Event", &Key::new(&key.namespace, event.metadata.name.clone().unwrap_or_default()));
            self.writer.delete(&place, &Expect::default(), Propagation::Background).await?;
        }
        if is_disabled && own.is_empty() {
            let note = format!("CSV copying disabled for {key}");
            self.tell(&csv_identity(key, &member.uid), true, DISABLED, &note);
        }
        self.state.note_told(key, is_disabled);
        Ok(())
    }

    /// Judges OLMConfig's condition (OLM0-OG-20).
    pub(super) async fn config(&self) -> Result<Outcome, Error> {
        let Some(config) = self.caches.configs.get(&Key::new("", "cluster")) else { return Ok(Outcome::Done) };
        let homes: BTreeSet<String> = self.state.index().groups.of(&NamedByGroup::All).map(|group| group.namespace.clone()).collect();
        let mut is_complete = true;
        for home in homes {
            let members = self.state.members_in(&home);
            // All of these CSVs have copies in the same namespaces, so that their number tells; upstream counts, too.
            let mut wanted = None;
            for member in members.iter().filter(|member| !member.is_copied()) {
                let key = Key::new(&home, member.name());
                let fate = self.fate(&key);
                let Some(active) = fate.active().filter(|active| active.group.is_global()) else { continue };
                let wanted = *wanted.get_or_insert_with(|| self.copy_places(&key, Some(active)).len());
                if self.state.index().copies.of(&key).count() != wanted {
                    is_complete = false;
                    self.queue.add(Work::Copies(key));
                }
            }
        }
        let mut object = value(&config);
        let before = object.clone();
        let (status, reason, message) = condition(self.copies_disabled(), is_complete);
        let condition = Condition { kind: DISABLED, status, reason, message };
        if !set_condition(&mut object, &condition, &self.env.now_seconds().to_string()) {
            return Ok(Outcome::Done);
        }
        late(self.writer.update_status(&before, &object["status"]).await.map(drop))
    }
}
