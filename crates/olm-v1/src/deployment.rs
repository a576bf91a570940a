//! The objects that run parts of this program on a cluster (MS-CLI-04).
//!
//! ```text
//!   olm_v1, cluster_operator ──► Programs ──┬──► accounts and permissions: their own manifests
//!                                           ├──► program: Deployment, disruption budget, network policy, metrics
//!                                           └──► certificates: by this command, cert-manager or the service CA
//! ```
//!
//! Everything is a pure function of the requested settings. Components of other crates are deployed by the same [`Program`].

pub mod catalog_webhook;
mod certificates;
mod cluster_operator;
mod fields;
mod olm_v1;
mod program;

use serde_json::{Value, json};

pub use certificates::{Certificates, Pair, Serving};
pub use cluster_operator::ClusterOperator;
pub use fields::{Writes, lent};
pub use olm_v1::{CATALOGD_METRICS, CATALOGD_SERVICE, OPERATOR_CONTROLLER_SERVICE, OlmV1, PULL_SECRET_ROLE};
pub use program::{CERTIFICATES, CommandLine, GRACE, METRICS, Mount, Program};

/// The label that marks every deployed object.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "mainstay-deploy");

/// The settings that all programs of a namespace share.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The namespace of the programs.
    pub namespace: String,
    /// The image of this program.
    pub image: String,
    /// Replicas of each program; one of them works.
    pub replicas: u32,
    /// The issuer of the serving certificates.
    pub certificates: Certificates,
    /// The name of the object with the authorities that signed them.
    pub authorities: &'static str,
    /// True if ServiceMonitors are made for Prometheus.
    pub service_monitor: bool,
}

impl Frame {
    /// Returns everything that these programs need, in the order in which it is applied. `before` has their namespace, accounts and permissions.
    /// `services` are the Services for other ports than metrics.
    pub fn around(&self, before: Vec<Value>, services: Vec<Value>, programs: &[Program]) -> Vec<Value> {
        let serving: Vec<Serving> = programs.iter().flat_map(|program| program.serving.clone()).collect();
        let mut objects = before;
        for object in objects.iter_mut().filter(|object| object["kind"] == "Namespace") {
            // The pods comply with it, so the server may enforce it.
            object["metadata"]["labels"] = json!({"pod-security.kubernetes.io/enforce": "restricted"});
        }
        objects.extend(self.certificates.objects(self, &serving));
        let services = services.into_iter().chain(programs.iter().map(|program| program.metrics_service(&self.namespace)));
        objects.extend(services.map(|service| self.certificates.asked_for(service, &serving)));
        objects.push(json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {"name": "default-deny-all-traffic", "namespace": self.namespace},
            "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
        }));
        for program in programs {
            objects.extend([program.network_policy(self), program.disruption_budget(self), program.workload(self)]);
            if self.service_monitor {
                objects.push(program.service_monitor(self));
            }
        }
        objects
    }
}

/// Returns the objects with the label that marks deployed objects.
pub fn labelled(mut objects: Vec<Value>) -> Vec<Value> {
    for object in &mut objects {
        object["metadata"]["labels"][MANAGED_BY.0] = MANAGED_BY.1.into();
    }
    objects
}

/// Returns the permission of an account, named with its namespace, for a Lease.
pub fn lease_permissions(namespace: &str, lease: &str, account: (&str, &str)) -> [Value; 2] {
    let (version, name) = ("rbac.authorization.k8s.io/v1", format!("{}-lease", account.1));
    let metadata = json!({"name": name, "namespace": namespace});
    let group = ["coordination.k8s.io"];
    [
        json!({"apiVersion": version, "kind": "Role", "metadata": metadata, "rules": [
            // RBAC cannot limit creation by name.
            {"apiGroups": group, "resources": ["leases"], "verbs": ["create"]},
            {"apiGroups": group, "resources": ["leases"], "resourceNames": [lease], "verbs": ["get", "update"]},
        ]}),
        json!({"apiVersion": version, "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account.1, "namespace": account.0}]}),
    ]
}

/// Returns a Service. Without `pods_of` it has no selector, and another component writes its endpoints.
fn service(namespace: &str, name: &str, pods_of: Option<&str>, ports: &Value) -> Value {
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace},
        "spec": {"type": "ClusterIP", "ports": ports},
    });
    if let Some(program) = pods_of {
        service["spec"]["selector"] = selector(program);
    }
    service
}

fn port(name: &str, port: u16, target: u16) -> Value {
    json!({"name": name, "port": port, "targetPort": target, "protocol": "TCP"})
}

/// Returns the labels of the pods of a program.
fn selector(program: &str) -> Value {
    json!({"app.kubernetes.io/name": program})
}

#[cfg(test)]
mod tests;
