//! The caches of the controller, and its means to write.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use mainstay_apply::{EventKind, Recorder, Writer};
use mainstay_objects::ObjectRef;
use mainstay_olm_classic_core::copies::{CONTENT_HASH, STATUS_HASH};
use mainstay_olm_classic_core::csv::COPIED_FROM;
use mainstay_runtime::{Accounts, Cache, Env, Key, Kinds, Optional, Outcome, Part, Scope};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::metrics::CsvMetrics;
use super::state::{State, owner};
use super::work::{Queues, Work};
use super::{Error, MANAGER, Setup, wakes};

/// The API version of the objects of OLM that are written most.
pub(super) const V1ALPHA1: &str = "operators.coreos.com/v1alpha1";
const OLM: &str = "operators.coreos.com";
const RBAC: &str = "rbac.authorization.k8s.io";
const WEBHOOKS: &str = "admissionregistration.k8s.io";
/// The selector of objects that OLM wrote.
const MANAGED: &str = "olm.managed=true";
/// The interval at which optional kinds are looked for at the start.
const LOOK: Duration = Duration::from_millis(50);
/// The time for which the server's version is remembered.
const VERSION_LASTS: SignedDuration = SignedDuration::from_mins(5);

/// The caches.
pub(super) struct Caches {
    pub csvs: Cache,
    pub copies: Cache,
    pub groups: Cache,
    pub namespaces: Cache,
    pub deployments: Cache,
    pub services: Cache,
    /// The Secrets of certificates, whole.
    pub secrets: Cache,
    /// The names of all Secrets that OLM wrote.
    pub managed_secrets: Cache,
    /// The names of the ConfigMaps that OLM wrote.
    pub config_maps: Cache,
    pub definitions: Cache,
    pub api_services: Cache,
    pub accounts: Cache,
    pub roles: Cache,
    pub role_bindings: Cache,
    pub cluster_roles: Cache,
    pub cluster_role_bindings: Cache,
    pub validating: Cache,
    pub mutating: Cache,
    pub conditions: Cache,
    pub subscriptions: Cache,
    pub plans: Cache,
    pub configs: Cache,
    pub operators: Cache,
}

impl Caches {
    fn start(client: &Client, env: &Env, stop: &CancellationToken) -> Self {
        let scope = |part: Part, labels: Option<&str>| Scope { part, labels: labels.map(str::to_owned), ..Scope::default() };
        let cache = |group: &str, version: &str, kind: &str, plural: &str, scope: Scope| {
            Cache::start(client, &resource(group, version, kind, plural), &scope, stop).shown(env.metrics())
        };
        let whole = || scope(Part::Whole, None);
        let bare = || scope(Part::Metadata, None);
        let managed = || scope(Part::Whole, Some(MANAGED));
        // An operator has a dozen objects that rest most of the time.
        let packed = |scope: Scope| Scope { is_packed: true, ..scope };
        // Objects of the whole cluster name their CSV by labels.
        let labelled = |scope: Scope| Scope { owner: Some(labelled_owner), ..scope };
        let csv = "ClusterServiceVersion";
        let csvs = "clusterserviceversions";
        let secrets = Scope { fields: Some("type=kubernetes.io/tls".to_owned()), ..managed() };
        Self {
            csvs: cache(OLM, "v1alpha1", csv, csvs, packed(scope(Part::Whole, Some("!olm.copiedFrom")))),
            copies: cache(OLM, "v1alpha1", csv, csvs, Scope { trim: Some(trim_copy), ..scope(Part::Metadata, Some("olm.copiedFrom")) }),
            groups: cache(OLM, "v1", "OperatorGroup", "operatorgroups", whole()),
            namespaces: cache("", "v1", "Namespace", "namespaces", bare()),
            deployments: cache("apps", "v1", "Deployment", "deployments", packed(managed())),
            services: cache("", "v1", "Service", "services", scope(Part::Metadata, Some(MANAGED))),
            secrets: cache("", "v1", "Secret", "secrets", secrets),
            managed_secrets: cache("", "v1", "Secret", "secrets", scope(Part::Metadata, Some(MANAGED))),
            config_maps: cache("", "v1", "ConfigMap", "configmaps", scope(Part::Metadata, Some(MANAGED))),
            definitions: cache("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", bare()),
            api_services: cache("apiregistration.k8s.io", "v1", "APIService", "apiservices", labelled(whole())),
            accounts: cache("", "v1", "ServiceAccount", "serviceaccounts", bare()),
            roles: cache(RBAC, "v1", "Role", "roles", packed(whole())),
            role_bindings: cache(RBAC, "v1", "RoleBinding", "rolebindings", packed(whole())),
            cluster_roles: cache(RBAC, "v1", "ClusterRole", "clusterroles", labelled(packed(whole()))),
            cluster_role_bindings: cache(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", labelled(packed(whole()))),
            validating: cache(WEBHOOKS, "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", labelled(managed())),
            mutating: cache(WEBHOOKS, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", labelled(managed())),
            conditions: cache(OLM, "v2", "OperatorCondition", "operatorconditions", packed(whole())),
            subscriptions: cache(OLM, "v1alpha1", "Subscription", "subscriptions", packed(whole())),
            plans: cache(OLM, "v1alpha1", "InstallPlan", "installplans", bare()),
            configs: cache(OLM, "v1", "OLMConfig", "olmconfigs", whole()),
            operators: cache(OLM, "v1", "Operator", "operators", packed(whole())),
        }
    }

    fn all(&self) -> [&Cache; 23] {
        [
            &self.csvs,
            &self.copies,
            &self.groups,
            &self.namespaces,
            &self.deployments,
            &self.services,
            &self.secrets,
            &self.managed_secrets,
            &self.config_maps,
            &self.definitions,
            &self.api_services,
            &self.accounts,
            &self.roles,
            &self.role_bindings,
            &self.cluster_roles,
            &self.cluster_role_bindings,
            &self.validating,
            &self.mutating,
            &self.conditions,
            &self.subscriptions,
            &self.plans,
            &self.configs,
            &self.operators,
        ]
    }
}

/// The objects of the platform that change every Deployment.
pub(super) struct Platform {
    pub proxies: Optional,
    pub authentications: Optional,
    pub credentials: Optional,
}

/// Everything that a reconcile uses.
pub(super) struct World {
    pub client: Client,
    pub writer: Writer,
    pub kinds: Kinds,
    pub accounts: Accounts,
    pub env: Env,
    pub queue: Queues,
    pub caches: Caches,
    pub platform: Platform,
    pub state: Arc<State>,
    pub protected: BTreeSet<String>,
    pub watched: BTreeSet<String>,
    pub metrics: CsvMetrics,
    recorder: Recorder,
    version: Mutex<Option<(Timestamp, String)>>,
}

impl World {
    /// Starts the caches; every change wakes what it concerns.
    pub fn start(setup: &Setup, watched: BTreeSet<String>, queue: &Queues, stop: &CancellationToken) -> Result<Self, Error> {
        let client = setup.cluster.client()?;
        let env = setup.env.clone();
        let caches = Caches::start(&client, &env, stop);
        let state = Arc::new(State::default());
        let metrics = CsvMetrics::new(env.metrics());
        let platform = platform(&client, &env, &state, queue, stop);
        wakes::follow(&caches, &state, queue, &metrics);
        let kinds = Kinds::new(client.clone());
        let writer = Writer::new(client.clone(), kinds.clone(), MANAGER);
        Ok(Self {
            recorder: Recorder::new(writer.clone(), env.clone(), MANAGER, format!("{}/olm-operator", setup.namespace)),
            accounts: Accounts::new(setup.cluster.clone(), client.clone(), env.clone()),
            client,
            writer,
            kinds,
            env,
            queue: queue.clone(),
            caches,
            platform,
            state,
            protected: setup.protected_copied_csv_namespaces.iter().cloned().collect(),
            watched,
            metrics,
            version: Mutex::default(),
        })
    }

    /// Waits until everything is known once.
    pub async fn ready(&self) {
        for cache in self.caches.all() {
            cache.ready().await;
        }
        // What is not known yet would be taken as absent, and every Deployment would be rolled out twice.
        let Platform { proxies, authentications, credentials } = &self.platform;
        for optional in [proxies, authentications, credentials] {
            while !optional.is_known() {
                tokio::time::sleep(LOOK).await;
            }
        }
    }

    /// Does an item of work.
    pub async fn reconcile(&self, work: Work) -> Result<Outcome, Error> {
        match work {
            Work::Csv(key) if self.watches(&key.namespace) => self.csv(&key).await,
            Work::Copies(key) if self.watches(&key.namespace) => self.copies(&key).await,
            Work::Copy { original, namespace } if self.watches(&original.namespace) => self.copy(&original, &namespace).await,
            Work::Group(key) if self.watches(&key.namespace) => self.group(&key).await,
            Work::Condition(key) if self.watches(&key.namespace) => self.condition(&key).await,
            Work::Namespace(name) => self.namespace(&name).await,
            Work::Config => self.config().await,
            Work::Operator(name) => self.operator(&name).await,
            Work::Adopt(key) => self.adopt(&key).await,
            Work::Csv(_) | Work::Copies(_) | Work::Copy { .. } | Work::Group(_) | Work::Condition(_) => Ok(Outcome::Done),
        }
    }

    fn watches(&self, namespace: &str) -> bool {
        self.watched.is_empty() || self.watched.contains(namespace)
    }

    /// The version of the API server.
    pub async fn server_version(&self) -> Result<String, Error> {
        let now = self.env.now();
        let known = self.version.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, version)) = known.filter(|(at, _)| now.duration_since(*at) < VERSION_LASTS) {
            return Ok(version);
        }
        let version = self.client.apiserver_version().await;
        let version = version.map_err(|source| Error::Ask { what: "its version".to_owned(), source: Box::new(source) })?.git_version;
        *self.version.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, version.clone()));
        Ok(version)
    }

    /// Reports an event; a report that fails does not fail the work.
    pub fn tell(&self, about: &Value, is_warning: bool, reason: &str, note: &str) {
        let kind = if is_warning { EventKind::Warning } else { EventKind::Normal };
        if let Err(error) = self.recorder.record(about, kind, reason, "Reconciling", note) {
            tracing::warn!(error = %error, reason, "an event could not be reported");
        }
    }
}

fn platform(client: &Client, env: &Env, state: &Arc<State>, queue: &Queues, stop: &CancellationToken) -> Platform {
    let optional = |group: &str, kind: &str, plural: &str| {
        let (state, queue) = (state.clone(), queue.clone());
        // These are in every Deployment, so that every CSV is concerned.
        let changed = move || {
            for key in state.all_csvs() {
                queue.add(Work::Csv(key));
            }
        };
        Optional::start(client, resource(group, "v1", kind, plural), stop, changed).shown(env.metrics())
    };
    Platform {
        proxies: optional("config.openshift.io", "Proxy", "proxies"),
        authentications: optional("config.openshift.io", "Authentication", "authentications"),
        credentials: optional("operator.openshift.io", "CloudCredential", "cloudcredentials"),
    }
}

/// The CSV of an object as an owner, `namespace/name`.
fn labelled_owner(object: &DynamicObject) -> Option<String> {
    owner(object).map(|csv| csv.to_string())
}

/// Keeps what tells whether a copy is up to date: of a cluster's CSVs nearly all are copies.
fn trim_copy(copy: &mut DynamicObject) {
    let metadata = &mut copy.metadata;
    if let Some(labels) = &mut metadata.labels {
        labels.retain(|name, _| name == COPIED_FROM);
    }
    if let Some(annotations) = &mut metadata.annotations {
        annotations.retain(|name, _| name == CONTENT_HASH || name == STATUS_HASH);
    }
}

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

/// The place of an object.
pub(super) fn place(api_version: &str, kind: &str, key: &Key) -> ObjectRef {
    ObjectRef { api_version: api_version.to_owned(), kind: kind.to_owned(), namespace: key.namespace.clone(), name: key.name.clone() }
}

/// The place of a CSV.
pub(super) fn csv_place(key: &Key) -> ObjectRef {
    place(V1ALPHA1, "ClusterServiceVersion", key)
}

/// A CSV as events and preconditions name it.
pub(super) fn csv_identity(key: &Key, uid: &str) -> Value {
    json!({
        "apiVersion": V1ALPHA1, "kind": "ClusterServiceVersion",
        "metadata": {"name": key.name, "namespace": key.namespace, "uid": uid},
    })
}
