//! The objects of an unpacking.

use std::time::Duration;

use serde_json::{Value, json};

use super::{EXTRACT, LABEL, PULL};
use crate::catalog_source::registry::{MANAGED, Tools, pull_policy};
use crate::install_plan::reference::unpack_name;

/// Tries of a Job after the first.
const RETRIES: u32 = 3;
const RBAC: &str = "rbac.authorization.k8s.io";

/// The bundle that is unpacked.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The CatalogSource that has the bundle.
    pub source: &'a Value,
    /// The image of the bundle.
    pub image: &'a str,
    /// The time in which it must be unpacked; none for no limit.
    pub timeout: Option<Duration>,
    /// The interval after which a failed Job is followed by another; none for never.
    pub retry: Option<Duration>,
}

impl Request<'_> {
    /// The namespace of all objects.
    pub fn namespace(&self) -> &str {
        self.source["metadata"]["namespace"].as_str().unwrap_or_default()
    }

    /// The name of all objects.
    pub fn name(&self) -> String {
        unpack_name(self.image)
    }
}

/// The reference to an owner that blocks nothing.
fn owner(owner: &Value) -> Value {
    json!([{
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        "controller": false, "blockOwnerDeletion": false,
    }])
}

/// The ConfigMap, which is empty at first.
pub fn config_map(request: &Request<'_>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": request.name(), "namespace": request.namespace(), "labels": {MANAGED: "true"}, "ownerReferences": owner(request.source),
        },
    })
}

/// The permission to fill the ConfigMap: Role, ServiceAccount and RoleBinding.
pub(super) fn permission(request: &Request<'_>, config_map: &Value) -> [Value; 3] {
    let (name, namespace) = (request.name(), request.namespace());
    let meta = || json!({"name": name, "namespace": namespace, "labels": {MANAGED: "true"}, "ownerReferences": owner(config_map)});
    [
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": meta(),
            "rules": [{"apiGroups": [""], "verbs": ["create", "get", "update"], "resources": ["configmaps"], "resourceNames": [name]}],
        }),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta()}),
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": meta(),
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
        }),
    ]
}

/// The Job that fills the ConfigMap.
pub(super) fn job(request: &Request<'_>, config_map: &Value, tools: &Tools) -> Value {
    let (name, namespace) = (request.name(), request.namespace());
    let labels = json!({MANAGED: "true", LABEL: name});
    let secrets: Vec<Value> = crate::catalog_source::registry::secrets(request.source).map(|name| json!({"name": name})).collect();
    let mount = |name: &str| json!({"name": name, "mountPath": format!("/{name}")});
    let container = |name: &str, image: &str, command: Value, mounts: &[&str]| {
        json!({
            "name": name, "image": image, "command": command,
            "volumeMounts": mounts.iter().map(|name| mount(name)).collect::<Vec<_>>(),
            "resources": {"requests": {"cpu": "10m", "memory": "50Mi"}},
            "securityContext": {
                "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
            },
            "terminationMessagePolicy": "FallbackToLogsOnError",
        })
    };
    let extract = json!(["opm", "alpha", "bundle", "extract", "-m", "/bundle/", "-n", namespace, "-c", name, "-z"]);
    let mut extract = container(EXTRACT, &tools.opm, extract, &["bundle"]);
    extract["env"] = json!([{"name": "CONTAINER_IMAGE", "value": request.image}]);
    let util = container("util", &tools.util, json!(["/bin/cp", "-Rv", "/bin/cpb", "/util/cpb"]), &["util"]);
    let mut pull = container(PULL, request.image, json!(["/util/cpb", "/bundle"]), &["bundle", "util"]);
    pull["imagePullPolicy"] = json!(pull_policy(request.image));
    let mut security = json!({"seccompProfile": {"type": "RuntimeDefault"}});
    if let Some(user) = tools.user.filter(|user| *user > 0) {
        security["runAsUser"] = json!(user);
        security["runAsNonRoot"] = json!(true);
    }
    let mut spec = json!({
        "restartPolicy": "Never", "serviceAccountName": name, "securityContext": security,
        "containers": [extract], "initContainers": [util, pull],
        "volumes": [{"name": "bundle", "emptyDir": {}}, {"name": "util", "emptyDir": {}}],
        "nodeSelector": {"kubernetes.io/os": "linux"}, "tolerations": tolerations(),
    });
    if !secrets.is_empty() {
        spec["imagePullSecrets"] = json!(secrets);
    }
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": labels, "ownerReferences": owner(config_map)},
        "spec": {"backoffLimit": RETRIES, "template": {"metadata": {"name": name, "labels": labels}, "spec": spec}},
    });
    if let Some(timeout) = request.timeout {
        job["spec"]["activeDeadlineSeconds"] = json!(timeout.as_secs());
    }
    job
}

fn tolerations() -> Value {
    let architectures = ["amd64", "arm64", "ppc64le", "s390x"];
    let mut all: Vec<Value> = architectures.map(|value| json!({"key": "kubernetes.io/arch", "value": value, "operator": "Equal"})).to_vec();
    all.push(json!({"key": "node-role.kubernetes.io/master", "operator": "Exists", "effect": "NoSchedule"}));
    for key in ["node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"] {
        all.push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 120}));
    }
    json!(all)
}
