//! The facts that the plan of one CSV rests on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::{Member, PermissionFacts};
use crate::api::Api;
use crate::deployments::{Authority, NamespaceSelector};
use crate::groups::OperatorGroup;
use crate::overrides::SubscriptionConfig;

/// The prefix of annotations that name the CSVs with which a CRD came.
const ALONGSIDE: &str = "operatorframework.io/installed-alongside-";

/// The facts about one CSV.
#[derive(Debug)]
pub struct Facts<'a> {
    /// The time.
    pub now: Timestamp,
    /// The CSV.
    pub csv: &'a Member,
    /// The other CSVs of its namespace that are no copies.
    pub siblings: &'a [Arc<Member>],
    /// The OperatorGroups of its namespace.
    pub groups: &'a [Arc<Group>],
    /// OperatorGroups anywhere that provide one of its APIs.
    pub providers: &'a [OperatorGroup],
    /// The version of the API server, `v1.33.1`.
    pub server_version: &'a str,
    /// The CRDs that it names and that are there.
    pub definitions: &'a BTreeMap<String, Arc<Definition>>,
    /// The APIServices that it names and that are there, by name.
    pub api_services: &'a BTreeMap<String, ApiServiceFacts>,
    /// The APIs among those it names that the server serves.
    pub served: &'a BTreeSet<Api>,
    /// Its service accounts, and what they may do.
    pub permissions: &'a PermissionFacts,
    /// The Deployments that carry its owner labels, by name.
    pub deployments: &'a BTreeMap<String, Value>,
    /// The Services of its namespace that its endpoints need and that are there.
    pub services: &'a BTreeSet<String>,
    /// The serving certificates of its Deployments that are there.
    pub certificates: &'a BTreeMap<String, Serving>,
    /// The webhook configurations that carry its owner labels.
    pub webhooks: &'a [WebhookConfiguration],
    /// The configuration of its Subscription.
    pub config: &'a SubscriptionConfig,
    /// The variables of the cluster's proxy.
    pub proxy: &'a [Value],
    /// The OperatorCondition of the CSV that it replaces.
    pub condition: Option<&'a Value>,
    /// True if accounts, roles or bindings changed since an installation failed for lack of permissions.
    pub permissions_changed: bool,
}

/// An OperatorGroup, read once for each version.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its UID.
    pub uid: String,
    /// `status.namespaces`, sorted; `None` before the first look.
    pub namespaces: Option<Vec<String>>,
    /// The annotation `olm.providedAPIs`.
    pub provided: String,
    /// `spec.staticProvidedAPIs`.
    pub is_static: bool,
    /// True if failed CSVs may be replaced (OLM0-UPG-16).
    pub fails_forward: bool,
    /// `spec.targetNamespaces`.
    pub target_namespaces: Vec<String>,
    /// `spec.selector`, if it is set.
    pub selector: Option<Value>,
    /// `spec.serviceAccountName`, if it is set.
    pub service_account: Option<String>,
}

impl Group {
    /// Reads an object.
    pub fn read(object: &Value) -> Self {
        let (metadata, spec) = (&object["metadata"], &object["spec"]);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let texts = |value: &Value| value.as_array().map(|all| all.iter().map(text).collect::<Vec<_>>());
        Self {
            name: text(&metadata["name"]),
            namespace: text(&metadata["namespace"]),
            uid: text(&metadata["uid"]),
            namespaces: texts(&object["status"]["namespaces"]).map(|mut all| {
                all.sort();
                all
            }),
            provided: text(&metadata["annotations"]["olm.providedAPIs"]),
            is_static: spec["staticProvidedAPIs"] == true,
            fails_forward: spec["upgradeStrategy"] == "TechPreviewUnsafeFailForward",
            target_namespaces: texts(&spec["targetNamespaces"]).unwrap_or_default(),
            selector: Some(spec["selector"].clone()).filter(|selector| !selector.is_null()),
            service_account: spec["serviceAccountName"].as_str().filter(|name| !name.is_empty()).map(str::to_owned),
        }
    }

    /// The text of `olm.targetNamespaces` (OLM0-OG-09).
    pub fn targets(&self) -> String {
        self.namespaces.as_deref().unwrap_or_default().join(",")
    }

    /// Returns whether it targets every namespace.
    pub fn is_global(&self) -> bool {
        self.namespaces.as_deref().is_some_and(|all| all.len() == 1 && all[0].is_empty())
    }

    /// The group as far as intersections go.
    pub fn surface(&self) -> OperatorGroup {
        OperatorGroup::new(&self.name, &self.namespace, self.namespaces.as_deref().unwrap_or_default(), &self.provided)
    }

    /// The label of its target namespaces (OLM0-OG-08).
    pub fn label(&self) -> String {
        format!("olm.operatorgroup.uid/{}", self.uid)
    }

    /// The selector of the namespaces in which webhooks of its members are asked (OLM0-WEBHOOK-02).
    pub fn namespace_selector(&self) -> NamespaceSelector {
        if self.target_namespaces.is_empty() {
            return self.selector.clone();
        }
        let mut labels = serde_json::Map::new();
        labels.insert(self.label(), Value::String(String::new()));
        Some(serde_json::json!({"matchLabels": labels}))
    }
}

/// A CRD as far as requirements go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Definition {
    /// Its UID.
    pub uid: String,
    /// The versions that it serves.
    pub served: BTreeSet<String>,
    /// True if it is established and its names are accepted.
    pub is_established: bool,
    /// The CSVs with which it came, as namespace and name.
    pub alongside: Vec<(String, String)>,
    /// `spec.preserveUnknownFields`.
    pub preserves_unknown_fields: bool,
    /// The authority of its conversion webhook, if it has one.
    pub conversion_bundle: Option<String>,
}

impl Definition {
    /// Reads an object.
    pub fn read(object: &Value) -> Self {
        let all = |value: &'_ Value| value.as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let conditions = all(&object["status"]["conditions"]);
        let holds = |kind: &str| conditions.iter().any(|each| each["type"] == kind && each["status"] == "True");
        let annotations = object["metadata"]["annotations"].as_object().into_iter().flatten();
        let alongside = annotations.filter(|(key, _)| key.starts_with(ALONGSIDE)).filter_map(|(_, value)| {
            let (namespace, name) = value.as_str()?.split_once('/').filter(|(_, name)| !name.contains('/'))?;
            Some((namespace.to_owned(), name.to_owned()))
        });
        let versions = object["spec"]["versions"].as_array().into_iter().flatten();
        let conversion = &object["spec"]["conversion"];
        let bundle = conversion["webhook"]["clientConfig"]["caBundle"].as_str().filter(|_| conversion["strategy"] == "Webhook");
        Self {
            uid: text(&object["metadata"]["uid"]),
            served: versions.filter(|version| version["served"] == true).map(|version| text(&version["name"])).collect(),
            is_established: holds("Established") && holds("NamesAccepted"),
            alongside: alongside.collect(),
            preserves_unknown_fields: object["spec"]["preserveUnknownFields"] == true,
            conversion_bundle: bundle.map(str::to_owned),
        }
    }
}

/// An APIService.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApiServiceFacts {
    /// Its UID.
    pub uid: String,
    /// Its labels `olm.owner.kind`, `olm.owner.namespace` and `olm.owner`.
    pub owner: (String, String, String),
    /// True if its owner is being replaced or deleted.
    pub owner_goes: bool,
    /// Namespace and name of its Service.
    pub service: (String, String),
    /// Its `caBundle`.
    pub bundle: String,
    /// True if it is available.
    pub is_available: bool,
}

impl ApiServiceFacts {
    /// Reads an object.
    pub fn read(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (labels, spec) = (&object["metadata"]["labels"], &object["spec"]);
        let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        Self {
            uid: text(&object["metadata"]["uid"]),
            owner: (text(&labels["olm.owner.kind"]), text(&labels["olm.owner.namespace"]), text(&labels["olm.owner"])),
            owner_goes: false,
            service: (text(&spec["service"]["namespace"]), text(&spec["service"]["name"])),
            bundle: text(&spec["caBundle"]),
            is_available: conditions.any(|each| each["type"] == "Available" && each["status"] == "True"),
        }
    }
}

/// The serving certificate of a Deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serving {
    /// The authority that signed it.
    pub authority: Authority,
    /// The hash of the authority in the Secret's annotation.
    pub told_hash: String,
    /// True if it must be made new: it is damaged, of another authority, or ends soon.
    pub is_due: bool,
    /// When it is due.
    pub rotates_at: Timestamp,
}

/// A webhook configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookConfiguration {
    /// Its resource.
    pub resource: &'static str,
    /// Its name.
    pub name: String,
    /// The name in the CSV.
    pub generate_name: String,
    /// The hash of its description.
    pub hash: String,
    /// The authority of its first webhook.
    pub bundle: String,
}
