//! Which work a change of an object leads to. Only what the object concerns is woken, found by index.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::api::DynamicObject;
use mainstay_olm_classic_core::csv::{COPIED_FROM, Group, Member, Phase, Reason};
use mainstay_olm_classic_core::groups::apis;
use mainstay_olm_classic_core::operator::COMPONENT_PREFIX;
use mainstay_runtime::{Cache, Change, Key};
use serde_json::Value;

use super::metrics::CsvMetrics;
use super::state::{Component, Named, NamedByBinding, NamedByGroup, State, label, owner, value};
use super::work::{Queues, Work};
use super::world::Caches;

/// The time in which changes of copies gather before OLMConfig's condition is judged again.
const GATHER: Duration = Duration::from_secs(5);

/// Means to wake work; clones share them.
#[derive(Clone)]
struct Wakes {
    state: Arc<State>,
    queue: Queues,
}

/// Follows every cache.
pub(super) fn follow(caches: &Caches, state: &Arc<State>, queue: &Queues, metrics: &CsvMetrics) {
    let wakes = Wakes { state: state.clone(), queue: queue.clone() };
    let on = |cache: &Cache, kind: &'static str, handle: fn(&Wakes, &Change, &Key)| {
        let wakes = wakes.clone();
        cache.on_change(move |change| {
            let Some(object) = change.object() else { return };
            let key = Key::of(object);
            handle(&wakes, change, &key);
            wakes.component(kind, change, key);
        });
    };
    let (shown, csvs) = (metrics.clone(), wakes.clone());
    caches.csvs.on_change(move |change| {
        let Some(object) = change.object() else { return };
        let key = Key::of(object);
        let before = csvs.state.member(&key);
        let now = csvs.state.take_csv(&key, change.before.as_deref(), change.now.as_deref());
        shown.changed(before.as_deref(), now.as_deref());
        csvs.csv(&key, before.as_deref(), now.as_deref());
        csvs.component("ClusterServiceVersion", change, key);
    });
    on(&caches.copies, "", Wakes::copy);
    on(&caches.groups, "", Wakes::group);
    on(&caches.namespaces, "Namespace", Wakes::namespace);
    on(&caches.deployments, "Deployment", Wakes::owned);
    on(&caches.services, "Service", Wakes::owned);
    on(&caches.secrets, "", Wakes::secret);
    on(&caches.managed_secrets, "Secret", |_, _, _| {});
    on(&caches.config_maps, "ConfigMap", |_, _, _| {});
    on(&caches.validating, "", Wakes::owned);
    on(&caches.mutating, "", Wakes::owned);
    on(&caches.definitions, "CustomResourceDefinition", Wakes::definition);
    on(&caches.api_services, "APIService", Wakes::api_service);
    on(&caches.accounts, "ServiceAccount", Wakes::account);
    on(&caches.roles, "Role", Wakes::role);
    on(&caches.cluster_roles, "ClusterRole", Wakes::role);
    on(&caches.role_bindings, "RoleBinding", Wakes::binding);
    on(&caches.cluster_role_bindings, "ClusterRoleBinding", Wakes::binding);
    on(&caches.conditions, "OperatorCondition", Wakes::condition);
    on(&caches.subscriptions, "Subscription", Wakes::subscription);
    on(&caches.plans, "InstallPlan", |_, _, _| {});
    on(&caches.configs, "", Wakes::config);
    on(&caches.operators, "", |wakes, _, key| wakes.queue.add(Work::Operator(key.name.clone())));
}

impl Wakes {
    fn csvs(&self, named: &Named) {
        for key in self.state.index().csvs.of(named) {
            self.queue.add(Work::Csv(key.clone()));
        }
    }

    fn groups(&self, named: &NamedByGroup) {
        for key in self.state.index().groups.of(named) {
            self.queue.add(Work::Group(key.clone()));
        }
    }

    fn csv(&self, key: &Key, before: Option<&Member>, now: Option<&Member>) {
        self.state.index_mut().csvs.set(key, now.map(named).unwrap_or_default());
        self.queue.add(Work::Csv(key.clone()));
        let content = |member: &Member| member.csv.clone();
        let is_new = before.map(content).as_ref().map(Arc::as_ptr) != now.map(content).as_ref().map(Arc::as_ptr);
        let phase = |member: Option<&Member>| member.map(|member| (member.phase(), member.reason(), member.is_deleted));
        if is_new {
            self.queue.add(Work::Condition(key.clone()));
        }
        if !is_new && phase(before) == phase(now) {
            if before.map(|member| &member.status) != now.map(|member| &member.status) {
                self.queue.add(Work::Copies(key.clone()));
            }
            return;
        }
        self.queue.add(Work::Copies(key.clone()));
        for group in self.state.groups_in(&key.namespace) {
            self.queue.add(Work::Group(Key::new(&group.namespace, &group.name)));
        }
        // Predecessors and successors follow each other's phases; rivals may own what this one owned.
        for member in [before, now].into_iter().flatten() {
            if !member.csv.replaces.is_empty() {
                self.queue.add(Work::Csv(Key::new(&key.namespace, &member.csv.replaces)));
            }
        }
        if is_new && let Some(before) = before {
            for crd in &before.csv.owned_crds {
                self.csvs(&Named::Definition(crd.name.clone()));
            }
        }
        self.csvs(&Named::Replaced(key.clone()));
    }

    fn copy(&self, change: &Change, key: &Key) {
        let source = |object: &Arc<DynamicObject>| {
            let namespace = object.metadata.labels.as_ref()?.get(COPIED_FROM)?;
            Some(Key::new(namespace, &key.name))
        };
        let now: BTreeSet<Key> = change.now.as_ref().and_then(source).into_iter().collect();
        let before = self.state.index_mut().copies.set(key, now.clone());
        for original in now.union(&before) {
            self.queue.add(Work::Copy { original: original.clone(), namespace: key.namespace.clone() });
        }
        if change.before.is_none() || change.now.is_none() {
            self.queue.add_after(Work::Config, GATHER);
        }
    }

    fn group(&self, change: &Change, key: &Key) {
        let before = self.state.group(key);
        let now = self.state.take_group(key, change.now.as_deref());
        let links = now.as_deref().map(named_by_group).unwrap_or_default();
        let named_before = self.state.index_mut().groups.set(key, links.clone());
        self.queue.add(Work::Group(key.clone()));
        if before == now {
            return;
        }
        if before.is_none() || now.is_none() {
            for rival in self.state.groups_in(&key.namespace) {
                self.queue.add(Work::Group(Key::new(&rival.namespace, &rival.name)));
            }
        }
        // The annotation concerns those alone that have the APIs that come and go, which are woken below.
        let lasting = |group: &Option<Arc<Group>>| group.as_deref().map(|group| Group { provided: String::new(), ..group.clone() });
        if lasting(&before) != lasting(&now) {
            for member in self.state.members_in(&key.namespace) {
                let key = Key::new(&member.namespace, member.name());
                self.queue.add(Work::Csv(key.clone()));
                self.queue.add(Work::Copies(key));
            }
        }
        for named in links.symmetric_difference(&named_before) {
            match named {
                NamedByGroup::Target(namespace) => self.queue.add(Work::Namespace(namespace.clone())),
                NamedByGroup::Api(api) => self.csvs(&Named::Api(api.clone())),
                NamedByGroup::All | NamedByGroup::Selected | NamedByGroup::Account(_) => {}
            }
        }
        let targets = |group: &Option<Arc<Group>>| group.as_ref().map(|group| group.namespaces.clone());
        if targets(&before) != targets(&now) {
            // Other targets intersect with other groups.
            for group in [before, now].iter().flatten() {
                for api in apis(&group.provided) {
                    self.csvs(&Named::Api(api));
                }
            }
            self.queue.add_after(Work::Config, GATHER);
        }
    }

    fn namespace(&self, change: &Change, key: &Key) {
        self.queue.add(Work::Namespace(key.name.clone()));
        let labels = |object: &Option<Arc<DynamicObject>>| object.as_ref().map(|object| object.metadata.labels.clone());
        if labels(&change.before) != labels(&change.now) {
            self.groups(&NamedByGroup::Selected);
        }
        if change.before.is_some() && change.now.is_some() {
            return;
        }
        let homes: BTreeSet<String> = {
            let index = self.state.index();
            let concerned = index.groups.of(&NamedByGroup::All).chain(index.groups.of(&NamedByGroup::Target(key.name.clone())));
            concerned.map(|group| group.namespace.clone()).collect()
        };
        for home in homes {
            for member in self.state.members_in(&home) {
                let original = Key::new(&member.namespace, member.name());
                self.queue.add(Work::Copy { original, namespace: key.name.clone() });
            }
        }
        self.queue.add_after(Work::Config, GATHER);
    }

    /// Wakes the CSV that owns an object, before or now.
    fn owned(&self, change: &Change, _: &Key) {
        let owners = [&change.before, &change.now].into_iter().flatten().filter_map(|object| owner(object));
        for key in owners.collect::<BTreeSet<_>>() {
            self.queue.add(Work::Csv(key));
        }
    }

    fn secret(&self, change: &Change, key: &Key) {
        if change.now.is_none() {
            self.state.forget_certificate(key);
        }
        // As upstream's, a Secret does not carry the labels of its owner.
        for member in self.state.members_in(&key.namespace) {
            if member.has_endpoints() {
                self.queue.add(Work::Csv(Key::new(&key.namespace, member.name())));
            }
        }
    }

    fn definition(&self, change: &Change, key: &Key) {
        if change.now.is_none() {
            self.state.forget_definition(key);
        }
        self.csvs(&Named::Definition(key.name.clone()));
    }

    fn api_service(&self, change: &Change, key: &Key) {
        self.owned(change, key);
        self.csvs(&Named::ApiService(key.name.clone()));
    }

    fn account(&self, change: &Change, key: &Key) {
        if change.before.is_none() || change.now.is_none() || owners_differ(change) {
            self.allowed(key);
            self.groups(&NamedByGroup::Account(key.clone()));
        }
    }

    fn role(&self, change: &Change, key: &Key) {
        if change.before.as_ref().zip(change.now.as_ref()).is_some_and(|(before, now)| before.data == now.data) && !owners_differ(change) {
            return;
        }
        let accounts: BTreeSet<Key> = {
            let index = self.state.index();
            let bindings = index.bindings.of(&NamedByBinding::Role(key.clone()));
            bindings.flat_map(|binding| index.bindings.named_by(binding)).filter_map(account_of).cloned().collect()
        };
        for account in &accounts {
            self.allowed(account);
        }
        self.lifted(change);
    }

    fn binding(&self, change: &Change, key: &Key) {
        let now = change.now.as_deref().map(named_by_binding).unwrap_or_default();
        let before = self.state.index_mut().bindings.set(key, now.clone());
        for account in now.union(&before).filter_map(account_of) {
            self.allowed(account);
        }
        self.lifted(change);
    }

    /// Wakes what a role or binding was made for: copies of a CSV, since roles are copied and lifted with it, a group, an OperatorCondition, or
    /// the CSVs of an API.
    fn lifted(&self, change: &Change) {
        let Some(object) = change.object() else { return };
        if let (Some(home), Some(name), Some(namespace)) =
            (label(object, COPIED_FROM), label(object, "olm.owner"), object.metadata.namespace.clone())
        {
            self.queue.add(Work::Copy { original: Key::new(home, name), namespace });
            return;
        }
        if label(object, "olm.owner.kind") == Some("OperatorGroup")
            && let (Some(namespace), Some(name)) = (label(object, "olm.owner.namespace"), label(object, "olm.owner"))
        {
            self.queue.add(Work::Group(Key::new(namespace, name)));
        }
        for reference in object.metadata.owner_references.iter().flatten() {
            match reference.kind.as_str() {
                "OperatorCondition" => {
                    let namespace = object.metadata.namespace.clone().unwrap_or_default();
                    self.queue.add(Work::Condition(Key::new(namespace, &reference.name)));
                }
                "CustomResourceDefinition" if change.now.is_none() => self.csvs(&Named::Definition(reference.name.clone())),
                "APIService" if change.now.is_none() => self.csvs(&Named::ApiService(reference.name.clone())),
                _ => {}
            }
        }
        let owners = [&change.before, &change.now].into_iter().flatten().filter_map(|object| owner(object));
        for key in owners.collect::<BTreeSet<_>>() {
            self.queue.add(Work::Copies(key));
        }
    }

    /// Wakes the CSVs of an account whose permissions changed.
    fn allowed(&self, account: &Key) {
        self.csvs(&Named::Account(account.clone()));
        let mut installs: BTreeSet<String> = BTreeSet::from([account.namespace.clone()]);
        installs.extend(self.state.index().groups.of(&NamedByGroup::Account(account.clone())).map(|group| group.namespace.clone()));
        for namespace in installs {
            for member in self.state.members_in(&namespace) {
                let key = Key::new(&namespace, member.name());
                if member.phase() == Phase::Failed && member.reason() == Some(Reason::InstallComponentFailedNoRetry) {
                    self.state.note_permissions(&key);
                    self.queue.add(Work::Csv(key));
                } else if member.phase() == Phase::InstallReady {
                    // It may wait for the account that installs.
                    self.queue.add(Work::Csv(key));
                }
            }
        }
    }

    fn condition(&self, change: &Change, key: &Key) {
        self.queue.add(Work::Condition(key.clone()));
        if change.before.as_ref().map(|object| &object.data) != change.now.as_ref().map(|object| &object.data) {
            self.csvs(&Named::Replaced(key.clone()));
        }
    }

    fn subscription(&self, change: &Change, key: &Key) {
        let installed = |object: &DynamicObject| {
            let name = object.data.pointer("/status/installedCSV")?.as_str()?;
            Some(Key::new(&key.namespace, name))
        };
        let now: BTreeSet<Key> = change.now.as_deref().and_then(installed).into_iter().collect();
        let before = self.state.index_mut().subscriptions.set(key, now.clone());
        for csv in now.union(&before) {
            self.queue.add(Work::Csv(csv.clone()));
        }
        self.queue.add(Work::Adopt(key.clone()));
    }

    fn config(&self, change: &Change, _: &Key) {
        self.queue.add(Work::Config);
        let spec = |object: &Option<Arc<DynamicObject>>| object.as_ref().map(|object| object.data["spec"].clone());
        if spec(&change.before) == spec(&change.now) {
            return;
        }
        let homes: BTreeSet<String> = self.state.index().groups.of(&NamedByGroup::All).map(|group| group.namespace.clone()).collect();
        for home in homes {
            for member in self.state.members_in(&home) {
                self.queue.add(Work::Copies(Key::new(&home, member.name())));
            }
        }
    }

    /// Wakes the `Operator` objects that an object is a component of.
    fn component(&self, kind: &'static str, change: &Change, key: Key) {
        if kind.is_empty() {
            return;
        }
        let labels = |object: &DynamicObject| -> BTreeSet<String> {
            let labels = object.metadata.labels.iter().flatten().map(|(key, _)| key);
            labels.filter(|key| key.starts_with(COMPONENT_PREFIX)).cloned().collect()
        };
        let now = change.now.as_deref().map(labels).unwrap_or_default();
        let component: Component = (kind, key);
        let before = self.state.index_mut().components.set(&component, now.clone());
        for label in now.union(&before) {
            self.queue.add(Work::Operator(label.trim_start_matches(COMPONENT_PREFIX).to_owned()));
        }
        // What a CSV owns takes over its component labels.
        if (change.before.is_none() || before.difference(&now).next().is_some())
            && let Some(owner) = change.now.as_deref().and_then(owner)
        {
            self.queue.add(Work::Csv(owner));
        }
    }
}

fn owners_differ(change: &Change) -> bool {
    let owners = |object: &Option<Arc<DynamicObject>>| object.as_ref().map(|object| object.metadata.owner_references.clone());
    owners(&change.before) != owners(&change.now)
}

fn account_of(named: &NamedByBinding) -> Option<&Key> {
    match named {
        NamedByBinding::Account(account) => Some(account),
        NamedByBinding::Role(_) => None,
    }
}

fn named(member: &Member) -> BTreeSet<Named> {
    let csv = &member.csv;
    let mut all: BTreeSet<Named> = BTreeSet::new();
    all.extend(member.provided.iter().flat_map(|apis| apis.iter()).chain(member.required.iter()).cloned().map(Named::Api));
    all.extend(csv.owned_crds.iter().chain(&csv.required_crds).map(|crd| Named::Definition(crd.name.clone())));
    all.extend(csv.webhooks.iter().flat_map(|webhook| &webhook.conversion_crds).cloned().map(Named::Definition));
    let services = csv.owned_api_services.iter().chain(&csv.required_api_services);
    all.extend(services.map(|api| Named::ApiService(format!("{}.{}", api.version, api.group))));
    let permissions = csv.permissions.iter().chain(&csv.cluster_permissions);
    all.extend(permissions.map(|entry| Named::Account(Key::new(&member.namespace, &entry.service_account))));
    if !csv.replaces.is_empty() {
        all.insert(Named::Replaced(Key::new(&member.namespace, &csv.replaces)));
    }
    all
}

fn named_by_group(group: &Group) -> BTreeSet<NamedByGroup> {
    let mut all: BTreeSet<NamedByGroup> = apis(&group.provided).into_iter().map(NamedByGroup::Api).collect();
    if group.is_global() {
        all.insert(NamedByGroup::All);
    } else {
        all.extend(group.namespaces.iter().flatten().cloned().map(NamedByGroup::Target));
    }
    if group.selector.is_some() && group.target_namespaces.is_empty() {
        all.insert(NamedByGroup::Selected);
    }
    all.extend(group.service_account.iter().map(|name| NamedByGroup::Account(Key::new(&group.namespace, name))));
    all
}

fn named_by_binding(object: &DynamicObject) -> BTreeSet<NamedByBinding> {
    let binding = value(object);
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut all = BTreeSet::new();
    let role = &binding["roleRef"];
    let home = if role["kind"] == "Role" { namespace } else { "" };
    all.insert(NamedByBinding::Role(Key::new(home, text(&role["name"]))));
    for subject in binding["subjects"].as_array().into_iter().flatten() {
        let name = text(&subject["name"]);
        if subject["kind"] == "ServiceAccount" {
            all.insert(NamedByBinding::Account(Key::new(text(&subject["namespace"]), name)));
        } else if let Some((namespace, name)) = name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':')) {
            all.insert(NamedByBinding::Account(Key::new(namespace, name)));
        }
    }
    all
}
