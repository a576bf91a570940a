//! OpenShift's cluster operator for OLM, as a program of its own.

use serde_json::Value;

use super::{Frame, METRICS, Program, Serving, labelled, lease_rights};
use crate::cluster_operator::{ACCOUNT, LEASE, NAMESPACE, manifests};
use crate::manifests::metrics_access;

const METRICS_SERVICE: &str = "cluster-olm-operator-metrics";

/// How it is deployed.
#[derive(Clone, Debug)]
pub struct ClusterOperator {
    /// The namespace of both controllers, which it looks after.
    pub system_namespace: String,
}

impl ClusterOperator {
    /// The object with the authorities that signed its serving certificate.
    pub const AUTHORITIES: &str = "cluster-olm-operator-ca";

    /// The certificates that it needs.
    pub fn serving(&self) -> Vec<Serving> {
        self.program().serving
    }

    /// Everything, in the order in which it is applied.
    pub fn objects(&self, frame: &Frame) -> Vec<Value> {
        let mut before = manifests(&self.system_namespace);
        // Its Lease is beside those of the controllers.
        before.extend(lease_rights(&self.system_namespace, LEASE, (NAMESPACE, ACCOUNT)));
        before.extend(metrics_access(ACCOUNT, ACCOUNT, &frame.namespace));
        labelled(frame.around(before, Vec::new(), &[self.program()]))
    }

    fn program(&self) -> Program {
        Program {
            name: ACCOUNT,
            account: ACCOUNT,
            component: "cluster-olm-operator",
            system_namespace: self.system_namespace.clone(),
            arguments: Vec::new(),
            serving: vec![Serving { secret: "cluster-olm-operator-serving-cert", services: vec![METRICS_SERVICE] }],
            metrics: (METRICS_SERVICE, METRICS),
            ports: Vec::new(),
            mounts: Vec::new(),
        }
    }
}
