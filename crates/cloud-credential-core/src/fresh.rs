//! The platform that an embedded cluster pretends to be on, to try token authentication without a cloud (OLM0-TOKEN-21).

use mainstay_objects::Step;
use serde_json::{Value, json};

use crate::Cloud;

/// A platform whose clouds accept tokens of service accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// AWS with the security token service.
    AwsSts,
    /// Azure with workload identity.
    AzureWif,
    /// Google with workload identity federation.
    GcpWif,
}

impl Platform {
    /// The cloud.
    pub const fn cloud(self) -> Cloud {
        match self {
            Self::AwsSts => Cloud::Aws,
            Self::AzureWif => Cloud::Azure,
            Self::GcpWif => Cloud::Gcp,
        }
    }
}

/// `Infrastructure/cluster`, without status.
pub fn infrastructure() -> Value {
    json!({"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {"name": "cluster"}, "spec": {}})
}

/// The status of `Infrastructure/cluster`; what is there besides stays. `address` is that of the API.
pub fn infrastructure_status(live: &Value, platform: Option<Platform>, address: &str) -> Value {
    let mut status = live.get("status").filter(|status| status.is_object()).cloned().unwrap_or_else(|| json!({}));
    let name = platform.map_or("None", |platform| platform.cloud().platform());
    if status["infrastructureName"].as_str().is_none_or(str::is_empty) {
        status["infrastructureName"] = json!("mainstay");
    }
    status["platform"] = json!(name);
    if status["platformStatus"]["type"] != name {
        status["platformStatus"] = match platform {
            None => json!({"type": name}),
            Some(Platform::AwsSts) => json!({"type": name, "aws": {"region": "us-east-1"}}),
            Some(Platform::AzureWif) => {
                json!({"type": name, "azure": {"cloudName": "AzurePublicCloud", "resourceGroupName": "mainstay-rg"}})
            }
            Some(Platform::GcpWif) => json!({"type": name, "gcp": {"projectID": "mainstay", "region": "us-east1"}}),
        };
    }
    status["apiServerURL"] = json!(address);
    status["apiServerInternalURI"] = json!(address);
    status
}

/// `CloudCredential/cluster` and `Authentication/cluster` of a platform that accepts tokens of this issuer. Without a platform they are made once, in
/// the default mode, and belong to the administrator.
pub fn settings(platform: Option<Platform>, issuer: &str) -> Vec<Step> {
    let object = |group: &str, kind: &str, spec: Value| json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": "cluster"}, "spec": spec});
    if platform.is_none() {
        return vec![
            Step::CreateOnce(object("operator.openshift.io", "CloudCredential", json!({"credentialsMode": ""}))),
            Step::CreateOnce(object("config.openshift.io", "Authentication", json!({}))),
        ];
    }
    let kept = |object| Step::Apply { object, force: true, expect: mainstay_objects::Expect::default() };
    let metadata = json!({"name": "mainstay-issuer-discovery"});
    vec![
        kept(object("operator.openshift.io", "CloudCredential", json!({"credentialsMode": "Manual"}))),
        kept(object("config.openshift.io", "Authentication", json!({"serviceAccountIssuer": issuer}))),
        // Verifiers outside have no account: a cloud reads the keys of the issuer without one.
        kept(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:service-account-issuer-discovery"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:unauthenticated"}],
        })),
    ]
}
