//! Bundles as folders, catalogs of them in a registry, extensions on a cluster.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{Cluster, Output, Registry, mainstay, run};

/// A small bundle of our own: one CRD, one Deployment, one ConfigMap. Tests change it, also so that it breaks.
#[derive(Debug, Clone)]
pub struct Toy {
    /// The package; also the name of the Deployment.
    pub package: &'static str,
    /// The version.
    pub version: &'static str,
    /// The OpenAPI schema of `spec` of the CRD.
    pub spec_schema: Value,
    /// More manifests by file name.
    pub more: Vec<(String, Value)>,
}

impl Toy {
    /// A bundle that is in order.
    pub fn new(package: &'static str, version: &'static str) -> Self {
        let spec_schema = json!({"type": "object", "properties": {"size": {"type": "integer"}, "colour": {"type": "string"}}});
        Self { package, version, spec_schema, more: Vec::new() }
    }

    /// The plural of its custom resource, also the group's first label.
    pub fn plural(&self) -> String {
        format!("{}s", self.package)
    }

    /// The name of its CRD.
    pub fn crd_name(&self) -> String {
        format!("{0}.{0}.example.com", self.plural())
    }

    fn group(&self) -> String {
        format!("{}.example.com", self.plural())
    }

    fn kind(&self) -> String {
        let (first, rest) = self.package.split_at(1);
        first.to_uppercase() + rest
    }

    /// The CRD.
    pub fn crd(&self) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.crd_name()},
            "spec": {
                "group": self.group(),
                "names": {"kind": self.kind(), "plural": self.plural(), "singular": self.package, "listKind": format!("{}List", self.kind())},
                "scope": "Namespaced",
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": self.spec_schema}}},
                }],
            },
        })
    }

    /// The ClusterServiceVersion.
    pub fn csv(&self) -> Value {
        let labels = json!({"app": self.package});
        json!({
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "ClusterServiceVersion",
            "metadata": {"name": format!("{}.v{}", self.package, self.version), "annotations": {"capabilities": "Basic Install"}},
            "spec": {
                "displayName": self.kind(),
                "description": "An operator for tests.",
                "version": self.version,
                "provider": {"name": "Mainstay"},
                "installModes": [
                    {"type": "OwnNamespace", "supported": true}, {"type": "SingleNamespace", "supported": true},
                    {"type": "MultiNamespace", "supported": false}, {"type": "AllNamespaces", "supported": true},
                ],
                "customresourcedefinitions": {"owned": [{"name": self.crd_name(), "kind": self.kind(), "version": "v1"}]},
                "install": {"strategy": "deployment", "spec": {
                    "clusterPermissions": [{"serviceAccountName": self.package, "rules": [
                        {"apiGroups": [self.group()], "resources": ["*"], "verbs": ["get", "list", "watch", "update"]},
                    ]}],
                    "deployments": [{"name": self.package, "spec": {
                        "replicas": 1,
                        "selector": {"matchLabels": labels},
                        "template": {"metadata": {"labels": labels}, "spec": {
                            "serviceAccountName": self.package,
                            "containers": [{"name": "manager", "image": format!("example.com/{}:{}", self.package, self.version)}],
                        }},
                    }}],
                }},
            },
        })
    }

    /// Writes the bundle as a folder below `parent`.
    pub fn write(&self, parent: &Path) -> PathBuf {
        let folder = parent.join(self.package).join(self.version);
        let mut files = vec![
            ("manifests/csv.yaml".to_owned(), self.csv()),
            ("manifests/crd.yaml".to_owned(), self.crd()),
            (
                "manifests/settings.yaml".to_owned(),
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("{}-settings", self.package)}, "data": {"version": self.version}}),
            ),
            (
                "metadata/annotations.yaml".to_owned(),
                json!({"annotations": {
                    "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
                    "operators.operatorframework.io.bundle.manifests.v1": "manifests/",
                    "operators.operatorframework.io.bundle.metadata.v1": "metadata/",
                    "operators.operatorframework.io.bundle.package.v1": self.package,
                    "operators.operatorframework.io.bundle.channels.v1": "stable",
                    "operators.operatorframework.io.bundle.channel.default.v1": "stable",
                }}),
            ),
        ];
        files.extend(self.more.clone());
        for (name, value) in files {
            write(&folder.join(name), &mainstay_yaml::to_string(&value));
        }
        folder
    }
}

/// Writes a file and the folders above it.
#[track_caller]
pub fn write(path: &Path, text: &str) {
    let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, text));
    if let Err(error) = written {
        panic!("{}: {error}", path.display());
    }
}

/// Copies a folder.
#[track_caller]
pub fn copy(from: &Path, to: &Path) {
    let copied = fs::create_dir_all(to).and_then(|()| {
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let target = to.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                copy(&entry.path(), &target);
            } else {
                fs::copy(entry.path(), target)?;
            }
        }
        Ok(())
    });
    if let Err(error) = copied {
        panic!("{}: {error}", from.display());
    }
}

/// A YAML file as a value.
#[track_caller]
pub fn read_yaml(path: &Path) -> Value {
    let read = fs::read_to_string(path).map_err(|error| error.to_string());
    match read.and_then(|text| mainstay_yaml::parse(&text).map_err(|error| error.to_string())) {
        Ok(value) => value,
        Err(error) => panic!("{}: {error}", path.display()),
    }
}

/// Pushes the bundles below a folder and their catalog; each version replaces the one before. The catalog's reference, by tag.
#[track_caller]
pub fn publish(registry: &Registry, bundles: &Path, scratch: &Path, tag: &str) -> String {
    publish_as(registry, bundles, scratch, tag, "semver")
}

/// Publishes these versions of the toy `gadget` from a registry of its own, each replacing the one before. The catalog's reference, by tag.
#[track_caller]
pub fn publish_gadgets(cluster: &Cluster, versions: &[&'static str]) -> (Registry, String) {
    let registry = Registry::ours();
    let bundles = cluster.folder().join("bundles");
    for version in versions {
        Toy::new("gadget", version).write(&bundles);
    }
    let reference = publish(&registry, &bundles, cluster.folder(), "latest");
    (registry, reference)
}

/// [`publish`] with another source of update edges: `replaces` takes those that the bundles name.
#[track_caller]
pub fn publish_as(registry: &Registry, bundles: &Path, scratch: &Path, tag: &str, mode: &str) -> String {
    let catalog = scratch.join(format!("catalog-{tag}"));
    let at = format!("{}/tests", registry.address());
    offline(&[
        "catalog",
        "from-bundles",
        &bundles.to_string_lossy(),
        "--registry",
        &at,
        "--mode",
        mode,
        "--out",
        &catalog.to_string_lossy(),
    ])
    .ok();
    push_catalog(registry, &catalog, tag)
}

/// Pushes a catalog's folder.
#[track_caller]
pub fn push_catalog(registry: &Registry, catalog: &Path, tag: &str) -> String {
    let reference = format!("{}/tests/catalog:{tag}", registry.address());
    offline(&["catalog", "build", &catalog.to_string_lossy(), "--push", &reference]).ok();
    reference
}

/// Runs mainstay without any cluster.
#[track_caller]
pub fn offline(arguments: &[&str]) -> Output {
    let nowhere = std::env::temp_dir().join("mainstay-e2e-nobody");
    run(
        std::process::Command::new(mainstay())
            .args(arguments)
            .env("HOME", &nowhere)
            .env("XDG_STATE_HOME", nowhere.join("state"))
            .env("NO_COLOR", "1"),
        "",
    )
}

/// A ClusterCatalog of an image.
pub fn catalog(name: &str, reference: &str, poll_minutes: Option<u32>) -> String {
    let mut image = json!({"ref": reference});
    if let Some(minutes) = poll_minutes {
        image["pollIntervalMinutes"] = minutes.into();
    }
    json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog",
        // With its label it needs no webhook, which nobody may serve.
        "metadata": {"name": name, "labels": {"olm.operatorframework.io/metadata.name": name}},
        "spec": {"source": {"type": "Image", "image": image}},
    })
    .to_string()
}

/// A namespace with an installer's ServiceAccount that may do everything, and a ClusterExtension.
pub fn extension(name: &str, namespace: &str, package: &str, version: &str, watch: Option<&str>) -> String {
    let installer = format!("{name}-installer");
    let mut extension = json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": name},
        "spec": {
            "namespace": namespace,
            "serviceAccount": {"name": installer},
            "source": {"sourceType": "Catalog", "catalog": {"packageName": package, "version": version}},
        },
    });
    if let Some(watch) = watch {
        extension["metadata"]["annotations"] = json!({"olm.operatorframework.io/watch-namespace": watch});
    }
    let items = [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": installer, "namespace": namespace}}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": installer},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": installer, "namespace": namespace}],
        }),
        extension,
    ];
    items.iter().map(Value::to_string).collect::<Vec<_>>().join("\n")
}

/// A condition of an object.
pub fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    static NONE: Value = Value::Null;
    object["status"]["conditions"].as_array().and_then(|all| all.iter().find(|one| one["type"] == kind)).unwrap_or(&NONE)
}

/// Waits until a catalog serves.
#[track_caller]
pub fn until_serving(cluster: &Cluster, name: &str) -> Value {
    cluster.until("the catalog serves", &["clustercatalog", name], |object| condition(object, "Serving")["status"] == "True")
}

/// Waits until an extension has a version, and has settled.
#[track_caller]
pub fn until_installed(cluster: &Cluster, name: &str, version: &str) -> Value {
    cluster.until(&format!("{name} {version} is installed"), &["clusterextension", name], |object| {
        let progressing = condition(object, "Progressing");
        object["status"]["install"]["bundle"]["version"] == version
            && progressing["reason"] == "Succeeded"
            && progressing["observedGeneration"] == object["metadata"]["generation"]
    })
}

/// Waits until an extension's condition says something.
#[track_caller]
pub fn until_said(cluster: &Cluster, kind: &str, name: &str, condition_type: &str, text: &str) -> Value {
    cluster.until(&format!("{name} says {text}"), &[kind, name], |object| {
        condition(object, condition_type)["message"].as_str().is_some_and(|message| message.contains(text))
    })
}
