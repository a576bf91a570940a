//! OpenShift's cluster operator for OLM, deployed as a program of its own.

use serde_json::Value;

use super::{CommandLine, Frame, GRACE, METRICS, Program, Serving, labelled, lease_permissions};
use crate::cluster_operator::{ACCOUNT, LEASE, NAMESPACE, manifests};
use crate::manifests::metrics_access;

const METRICS_SERVICE: &str = "cluster-olm-operator-metrics";

/// The settings of its deployment.
#[derive(Clone, Debug)]
pub struct ClusterOperator {
    /// The namespace of both controllers, which it manages.
    pub system_namespace: String,
}

impl ClusterOperator {
    /// The name of the object with the authorities that signed its serving certificate.
    pub const AUTHORITIES: &str = "cluster-olm-operator-ca";

    /// Returns the certificates that it needs.
    pub fn serving(&self) -> Vec<Serving> {
        self.program().serving
    }

    /// Returns all objects in the order in which they are applied.
    pub fn objects(&self, frame: &Frame) -> Vec<Value> {
        let mut before = manifests(&self.system_namespace);
        // Its Lease is in the controllers' namespace.
        before.extend(lease_permissions(&self.system_namespace, LEASE, (NAMESPACE, ACCOUNT)));
        before.extend(metrics_access(ACCOUNT, ACCOUNT, &frame.namespace));
        labelled(frame.around(before, Vec::new(), &[self.program()]))
    }

    fn program(&self) -> Program {
        Program {
            name: ACCOUNT,
            account: ACCOUNT,
            component: "cluster-olm-operator",
            system_namespace: self.system_namespace.clone(),
            command: CommandLine::Shared,
            arguments: Vec::new(),
            grace: GRACE,
            serving: vec![Serving { secret: "cluster-olm-operator-serving-cert", services: vec![METRICS_SERVICE] }],
            metrics: (METRICS_SERVICE, METRICS),
            ports: Vec::new(),
            mounts: Vec::new(),
        }
    }
}
