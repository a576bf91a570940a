//! The manifests that most components of a release have alike.

use serde_json::{Value, json};

/// The profile whose manifests every cluster without a profile of its own applies.
const PROFILE: &str = "include.release.openshift.io/self-managed-high-availability";

/// A component of the sample releases.
#[derive(Clone, Copy)]
pub(crate) struct Component {
    /// The runlevel.
    pub(crate) level: u8,
    /// The component's part of file names.
    pub(crate) name: &'static str,
    /// The namespace.
    pub(crate) namespace: &'static str,
    /// The ClusterOperator.
    pub(crate) operator: &'static str,
    /// The capability that turns the component on; `None` if it is always on.
    pub(crate) capability: Option<&'static str>,
    /// True if a Deployment belongs to it.
    pub(crate) has_deployment: bool,
}

pub(crate) const CONFIG: Component = Component {
    level: 10,
    name: "config-operator",
    namespace: "openshift-config-operator",
    operator: "config-operator",
    capability: None,
    has_deployment: false,
};

pub(crate) const WIDGETS: Component = Component {
    level: 50,
    name: "widgets-operator",
    namespace: "sample-widgets",
    operator: "sample-widgets",
    capability: None,
    has_deployment: true,
};

/// The components beside the Cluster Version Operator.
pub(crate) const COMPONENTS: [Component; 8] = [
    CONFIG,
    control_plane(20, "etcd-operator", "openshift-etcd-operator", "etcd"),
    control_plane(20, "kube-apiserver-operator", "openshift-kube-apiserver-operator", "kube-apiserver"),
    control_plane(25, "kube-controller-manager-operator", "openshift-kube-controller-manager-operator", "kube-controller-manager"),
    control_plane(25, "kube-scheduler-operator", "openshift-kube-scheduler-operator", "kube-scheduler"),
    WIDGETS,
    Component {
        level: 50,
        name: "console-operator",
        namespace: "openshift-console-operator",
        operator: "console",
        capability: Some("Console"),
        has_deployment: true,
    },
    Component {
        level: 80,
        name: "machine-config-operator",
        namespace: "openshift-machine-config-operator",
        operator: "machine-config",
        capability: None,
        has_deployment: true,
    },
];

const fn control_plane(level: u8, name: &'static str, namespace: &'static str, operator: &'static str) -> Component {
    Component { level, name, namespace, operator, capability: None, has_deployment: false }
}

impl Component {
    /// Returns the file name of a manifest.
    pub(crate) fn file(&self, order: u8, what: &str) -> String {
        format!("release-manifests/0000_{:02}_{}_{order:02}_{what}.yaml", self.level, self.name)
    }

    /// Returns the manifest with the annotations that the component's manifests carry.
    pub(crate) fn annotated(&self, object: Value) -> Value {
        let mut object = annotated(object);
        if let Some(capability) = self.capability {
            object["metadata"]["annotations"]["capability.openshift.io/name"] = capability.into();
        }
        object
    }

    /// Returns the component's namespace, Deployment and ClusterOperator by file.
    pub(crate) fn manifests(&self, version: &str, image: Option<&str>) -> Vec<(String, Value)> {
        let mut related = vec![json!({"group": "", "resource": "namespaces", "name": self.namespace})];
        let mut all = vec![(self.file(0, "namespace"), namespace(self.namespace))];
        if let Some(image) = image.filter(|_| self.has_deployment) {
            all.push((self.file(6, "deployment"), deployment(self.namespace, self.name, image, version)));
            related.push(json!({"group": "apps", "resource": "deployments", "namespace": self.namespace, "name": self.name}));
        }
        let operator = json!({
            "apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator", "metadata": {"name": self.operator}, "spec": {},
            "status": {"versions": [{"name": "operator", "version": version}], "relatedObjects": related},
        });
        all.push((self.file(10, "clusteroperator"), operator));
        all.into_iter().map(|(file, object)| (file, self.annotated(object))).collect()
    }
}

/// Returns the manifest with the annotation of the profile.
pub(crate) fn annotated(mut object: Value) -> Value {
    object["metadata"]["annotations"][PROFILE] = "true".into();
    object
}

pub(crate) fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

pub(crate) fn deployment(namespace: &str, name: &str, image: &str, version: &str) -> Value {
    let labels = json!({"app": name});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{
                    "name": name, "image": image, "command": ["/component"],
                    "env": [{"name": "RELEASE_VERSION", "value": version}],
                    "resources": {"requests": {"cpu": "10m", "memory": "20Mi"}},
                }]},
            },
        },
    })
}
