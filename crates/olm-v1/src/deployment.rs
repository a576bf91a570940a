//! The objects that run parts of this program on a cluster (MS-CLI-04).
//!
//! ```text
//!   olm_v1, cluster_operator ──► Programs ──┬──► accounts and rights: their own manifests
//!                                           ├──► program: Deployment, disruption budget, network policy, metrics
//!                                           └──► certificates: by this command, cert-manager or the service CA
//! ```
//!
//! Everything is a pure function of what is asked for; parts of other crates are deployed by the same [`Program`].

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
pub use program::{METRICS, Mount, Program};

/// The label by which everything is found again.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "mainstay-deploy");

/// What all programs of a namespace have in common.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Where they are.
    pub namespace: String,
    /// The image of this program.
    pub image: String,
    /// How many of each; one works.
    pub replicas: u32,
    /// Who makes the serving certificates.
    pub certificates: Certificates,
    /// The object with the authorities that signed them.
    pub authorities: &'static str,
    /// Whether Prometheus is told by ServiceMonitors.
    pub service_monitor: bool,
}

impl Frame {
    /// Whatever runs these programs, in the order in which it is applied: `before` has their namespace, accounts and rights, `services` are
    /// those that lead to something else than metrics.
    pub fn around(&self, before: Vec<Value>, services: Vec<Value>, programs: &[Program]) -> Vec<Value> {
        let serving: Vec<Serving> = programs.iter().flat_map(|program| program.serving.clone()).collect();
        let mut objects = before;
        for object in objects.iter_mut().filter(|object| object["kind"] == "Namespace") {
            // The pods keep to it, so the server may insist.
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

/// The objects with the label by which they are found again.
pub fn labelled(mut objects: Vec<Value>) -> Vec<Value> {
    for object in &mut objects {
        object["metadata"]["labels"][MANAGED_BY.0] = MANAGED_BY.1.into();
    }
    objects
}

/// The right of an account, named with its namespace, to a Lease.
pub fn lease_rights(namespace: &str, lease: &str, account: (&str, &str)) -> [Value; 2] {
    let (version, name) = ("rbac.authorization.k8s.io/v1", format!("{}-lease", account.1));
    let metadata = json!({"name": name, "namespace": namespace});
    let group = ["coordination.k8s.io"];
    [
        json!({"apiVersion": version, "kind": "Role", "metadata": metadata, "rules": [
            // Objects to be created cannot be limited by name.
            {"apiGroups": group, "resources": ["leases"], "verbs": ["create"]},
            {"apiGroups": group, "resources": ["leases"], "resourceNames": [lease], "verbs": ["get", "update"]},
        ]}),
        json!({"apiVersion": version, "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account.1, "namespace": account.0}]}),
    ]
}

/// A Service; without pods of a name, somebody else says where it leads.
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

/// The labels of the pods of a program.
fn selector(program: &str) -> Value {
    json!({"app.kubernetes.io/name": program})
}

#[cfg(test)]
mod tests;
