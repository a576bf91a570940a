//! The facts about one CSV, gathered from caches; what no cache holds is read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::api::GroupVersionKind;
use mainstay_bundle::Csv;
use mainstay_olm_classic_core::api::Api;
use mainstay_olm_classic_core::csv::{
    ApiServiceFacts, Definition, Facts, Group, Member, PermissionFacts, Phase, Serving, WebhookConfiguration, with_token_volume,
};
use mainstay_olm_classic_core::deployments::{WEBHOOK_HASH, WEBHOOK_NAME, secret_name, service_name};
use mainstay_olm_classic_core::groups::OperatorGroup;
use mainstay_olm_classic_core::overrides::SubscriptionConfig;
use mainstay_runtime::{Cache, Key, KindError};
use serde_json::{Value, json};

use super::state::{NamedByGroup, label, owner, value};
use super::world::{World, place};
use super::{Error, certificates};

/// The facts, owned.
pub(super) struct Gathered {
    pub member: Arc<Member>,
    siblings: Vec<Arc<Member>>,
    pub groups: Vec<Arc<Group>>,
    providers: Vec<OperatorGroup>,
    server_version: String,
    definitions: BTreeMap<String, Arc<Definition>>,
    api_services: BTreeMap<String, ApiServiceFacts>,
    served: BTreeSet<Api>,
    permissions: PermissionFacts,
    deployments: BTreeMap<String, Value>,
    services: BTreeSet<String>,
    certificates: BTreeMap<String, Serving>,
    webhooks: Vec<WebhookConfiguration>,
    config: SubscriptionConfig,
    proxy: Vec<Value>,
    condition: Option<Value>,
    permissions_changed: bool,
}

impl Gathered {
    /// The facts as plans take them.
    pub fn facts(&self, now: jiff::Timestamp) -> Facts<'_> {
        Facts {
            now,
            csv: &self.member,
            siblings: &self.siblings,
            groups: &self.groups,
            providers: &self.providers,
            server_version: &self.server_version,
            definitions: &self.definitions,
            api_services: &self.api_services,
            served: &self.served,
            permissions: &self.permissions,
            deployments: &self.deployments,
            services: &self.services,
            certificates: &self.certificates,
            webhooks: &self.webhooks,
            config: &self.config,
            proxy: &self.proxy,
            condition: self.condition.as_ref(),
            permissions_changed: self.permissions_changed,
        }
    }
}

impl World {
    /// Gathers the facts about a CSV.
    pub(super) async fn gather(&self, key: &Key, member: Arc<Member>) -> Result<Gathered, Error> {
        let member = self.with_token(member);
        let csv = &member.csv;
        let own = |each: &Arc<Member>| each.name() != member.name() && !each.is_copied();
        let condition = Key::new(&key.namespace, &csv.replaces);
        Ok(Gathered {
            siblings: self.state.members_in(&key.namespace).into_iter().filter(own).collect(),
            groups: self.state.groups_in(&key.namespace),
            providers: self.providers(key, &member),
            server_version: if csv.min_kube_version.is_empty() { String::new() } else { self.server_version().await? },
            definitions: self.definitions(csv).await?,
            api_services: self.api_services(csv),
            served: self.served(csv).await?,
            permissions: self.permission_facts(&member),
            deployments: self.deployments(&member),
            services: self.services(&member),
            certificates: self.certificates(&member).await?,
            webhooks: self.webhooks(key, csv, member.phase()),
            config: self.subscription_config(key),
            proxy: self.proxy(),
            condition: self.caches.conditions.get(&condition).filter(|_| !csv.replaces.is_empty()).map(|object| value(&object)),
            permissions_changed: self.state.take_permissions(key),
            member,
        })
    }

    /// The CSV with the token's volume, on a platform in token mode (OLM0-TOKEN-03, OLM0-TOKEN-20).
    fn with_token(&self, member: Arc<Member>) -> Arc<Member> {
        let text = |object: Option<Arc<kube::api::DynamicObject>>, path: &str| {
            object.and_then(|object| object.data.pointer(path).and_then(Value::as_str).map(str::to_owned)).unwrap_or_default()
        };
        let manual = text(self.platform.credentials.named("cluster"), "/spec/credentialsMode") == "Manual";
        let issuer = text(self.platform.authentications.named("cluster"), "/spec/serviceAccountIssuer");
        if !manual || issuer.is_empty() {
            return member;
        }
        match with_token_volume(&member.csv) {
            Some(csv) => Arc::new(Member { csv: Arc::new(csv), ..Member::clone(&member) }),
            None => member,
        }
    }

    /// The groups that provide one of the APIs of a CSV, its own apart.
    fn providers(&self, key: &Key, member: &Member) -> Vec<OperatorGroup> {
        let keys: BTreeSet<Key> = {
            let index = self.state.index();
            let apis = member.provided.iter().flat_map(|apis| apis.iter());
            apis.flat_map(|api| index.groups.of(&NamedByGroup::Api(api.clone()))).cloned().collect()
        };
        let others = keys.iter().filter(|group| group.namespace != key.namespace);
        others.filter_map(|group| self.state.group(group)).map(|group| group.surface()).collect()
    }

    /// The CRDs that a CSV names; each version is read once.
    async fn definitions(&self, csv: &Csv) -> Result<BTreeMap<String, Arc<Definition>>, Error> {
        let named = csv.owned_crds.iter().chain(&csv.required_crds).map(|crd| &crd.name);
        let names: BTreeSet<&String> = named.chain(csv.webhooks.iter().flat_map(|webhook| &webhook.conversion_crds)).collect();
        let mut found = BTreeMap::new();
        for name in names {
            let key = Key::new("", name);
            let Some(known) = self.caches.definitions.get(&key) else { continue };
            let version = known.metadata.resource_version.clone().unwrap_or_default();
            if let Some(definition) = self.state.definition(&key, &version) {
                found.insert(name.clone(), definition);
                continue;
            }
            let place = place("apiextensions.k8s.io/v1", "CustomResourceDefinition", &key);
            if let Some(live) = self.writer.get(&place).await? {
                let version = live["metadata"]["resourceVersion"].as_str().unwrap_or_default();
                found.insert(name.clone(), self.state.put_definition(&key, version, Definition::read(&live)));
            }
        }
        Ok(found)
    }

    fn api_services(&self, csv: &Csv) -> BTreeMap<String, ApiServiceFacts> {
        let named = csv.owned_api_services.iter().chain(&csv.required_api_services);
        let names: BTreeSet<String> = named.map(|api| format!("{}.{}", api.version, api.group)).collect();
        let read = |name: String| {
            let object = self.caches.api_services.get(&Key::new("", &name))?;
            let mut facts = ApiServiceFacts::read(&value(&object));
            let owner = owner(&object).and_then(|owner| self.state.member(&owner));
            facts.owner_goes = owner.is_some_and(|owner| matches!(owner.phase(), Phase::Replacing | Phase::Deleting));
            Some((name, facts))
        };
        names.into_iter().filter_map(read).collect()
    }

    /// Asks which of the APIs that a CSV names are served; those of CRDs are known from the CRDs.
    async fn served(&self, csv: &Csv) -> Result<BTreeSet<Api>, Error> {
        let services = csv.owned_api_services.iter().chain(&csv.required_api_services);
        let mut apis: BTreeSet<Api> =
            services.map(|api| Api { group: api.group.clone(), version: api.version.clone(), kind: api.kind.clone() }).collect();
        for entry in csv.object["spec"]["nativeAPIs"].as_array().into_iter().flatten() {
            let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
            apis.insert(Api { group: text("group"), version: text("version"), kind: text("kind") });
        }
        let mut served = BTreeSet::new();
        for api in apis {
            let gvk = GroupVersionKind::gvk(&api.group, &api.version, &api.kind);
            // An API that was served may be gone.
            self.kinds.forget(&gvk);
            match self.kinds.served(&gvk).await {
                Ok(_) => drop(served.insert(api)),
                Err(KindError::NotServed { .. }) => {}
                // An aggregated API whose server is away cannot be discovered.
                Err(error @ KindError::Discovery { .. }) => tracing::debug!(error = %error, "an API is taken as not served"),
            }
        }
        Ok(served)
    }

    fn deployments(&self, member: &Member) -> BTreeMap<String, Value> {
        let owned = self.caches.deployments.owned_by(&member.uid).into_iter();
        let own = owned.filter(|object| {
            object.metadata.namespace.as_deref() == Some(&member.namespace) && label(object, "olm.owner") == Some(member.name())
        });
        own.map(|object| (object.metadata.name.clone().unwrap_or_default(), value(&object))).collect()
    }

    fn services(&self, member: &Member) -> BTreeSet<String> {
        let names = member.csv.deployments.iter().map(|deployment| service_name(&deployment.name));
        names.filter(|name| self.caches.services.get(&Key::new(&member.namespace, name)).is_some()).collect()
    }

    /// The certificates of a CSV's Deployments. Around an installation they are read: the cache may not know what was just written.
    async fn certificates(&self, member: &Member) -> Result<BTreeMap<String, Serving>, Error> {
        let mut found = BTreeMap::new();
        if !member.has_endpoints() {
            return Ok(found);
        }
        let now = self.env.now_seconds();
        let reads = matches!(member.phase(), Phase::InstallReady | Phase::Installing);
        for deployment in &member.csv.deployments {
            let service = service_name(&deployment.name);
            let key = Key::new(&member.namespace, secret_name(&service));
            let secret = if reads {
                self.writer.get(&place("v1", "Secret", &key)).await?
            } else {
                self.caches.secrets.get(&key).map(|secret| value(&secret))
            };
            let Some(secret) = secret else { continue };
            let version = secret["metadata"]["resourceVersion"].as_str().unwrap_or_default();
            let known = self.state.certificate(&key, version, || certificates::read(&secret, &service, &member.namespace));
            if let Some(mut serving) = Option::clone(&known) {
                serving.is_due |= now >= serving.rotates_at;
                found.insert(deployment.name.clone(), serving);
            }
        }
        Ok(found)
    }

    /// The webhook configurations of a CSV. One that has none is asked about them when it is installed.
    fn webhooks(&self, key: &Key, csv: &Csv, phase: Phase) -> Vec<WebhookConfiguration> {
        if csv.webhooks.is_empty() && phase != Phase::InstallReady {
            return Vec::new();
        }
        let read = |resource: &'static str, cache: &Cache| {
            cache
                .owned_by(&key.to_string())
                .into_iter()
                .map(|object| WebhookConfiguration {
                    resource,
                    name: object.metadata.name.clone().unwrap_or_default(),
                    generate_name: label(&object, WEBHOOK_NAME).unwrap_or_default().to_owned(),
                    hash: label(&object, WEBHOOK_HASH).unwrap_or_default().to_owned(),
                    bundle: object.data.pointer("/webhooks/0/clientConfig/caBundle").and_then(Value::as_str).unwrap_or_default().to_owned(),
                })
                .collect::<Vec<_>>()
        };
        let mut all = read("validatingwebhookconfigurations", &self.caches.validating);
        all.extend(read("mutatingwebhookconfigurations", &self.caches.mutating));
        all
    }

    /// The configuration of the Subscription that installed a CSV (OLM0-API-16).
    fn subscription_config(&self, key: &Key) -> SubscriptionConfig {
        let subscription = self.state.index().subscriptions.of(key).next().cloned();
        let Some(object) = subscription.and_then(|subscription| self.caches.subscriptions.get(&subscription)) else {
            return SubscriptionConfig::default();
        };
        let Some(config) = object.data.pointer("/spec/config") else { return SubscriptionConfig::default() };
        SubscriptionConfig::read(config).unwrap_or_else(|error| {
            // The API server checks the types; what it lets pass changes nothing.
            tracing::warn!(csv = %key, %error, "the configuration of its Subscription cannot be read");
            SubscriptionConfig::default()
        })
    }

    /// The variables of the cluster's proxy (OLM0-ADMIN-16).
    fn proxy(&self) -> Vec<Value> {
        let Some(proxy) = self.platform.proxies.named("cluster") else { return Vec::new() };
        let variables = [("HTTP_PROXY", "httpProxy"), ("HTTPS_PROXY", "httpsProxy"), ("NO_PROXY", "noProxy")];
        let read = |(name, field): (&str, &str)| {
            let value = proxy.data["status"][field].as_str().filter(|value| !value.is_empty())?;
            Some(json!({"name": name, "value": value}))
        };
        variables.into_iter().filter_map(read).collect()
    }
}
