//! The files of a sample release.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::component::{COMPONENTS, CONFIG, Component, WIDGETS, annotated, deployment, namespace};
use crate::error::Error;

/// The name of the key in the payload.
const KEY: &str = "verifier-public-key-mainstay-sample";
/// The store of signatures in the payload.
const STORE: &str = "store-mainstay-sample";
/// The namespace of the Cluster Version Operator.
const OPERATOR: &str = "openshift-cluster-version";
/// The gate that the last patch level has for the next minor version.
pub const GATE: &str = "ack-4.18-sample-widgets-v1beta1-removals-in-4.19";

/// A sample release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The version.
    pub version: &'static str,
    /// The versions that may update to it.
    pub previous: &'static [&'static str],
    /// The version of Kubernetes that its nodes run.
    pub kubernetes: &'static str,
    /// True from the first release that removes what the first one had (a tombstone).
    removes: bool,
    /// True if it asks the administrator before the next minor version.
    asks: bool,
    /// True if it serves Widgets as `v1`.
    serves_v1: bool,
}

/// Returns the sample releases, the oldest first.
pub fn releases() -> [Release; 4] {
    let patch = |version, previous| Release { version, previous, kubernetes: "1.31.4", removes: true, asks: false, serves_v1: false };
    [
        Release { removes: false, ..patch("4.18.1", &[]) },
        patch("4.18.2", &["4.18.1"]),
        Release { asks: true, ..patch("4.18.3", &["4.18.1", "4.18.2"]) },
        Release { kubernetes: "1.32.1", serves_v1: true, ..patch("4.19.0", &["4.18.1", "4.18.2", "4.18.3"]) },
    ]
}

/// The images of a release: pull specs by digest, by component.
pub type Images = BTreeMap<String, String>;

/// What a release trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    /// The public key, in armour.
    pub public_key: String,
    /// The URL of the store of signatures.
    pub store: String,
}

/// The components that have an image.
pub fn components() -> impl Iterator<Item = &'static str> {
    COMPONENTS.iter().filter(|component| component.has_deployment).map(|component| component.name).chain(["cluster-version-operator"])
}

impl Release {
    /// Returns the tag of the release's image.
    pub fn tag(&self) -> String {
        format!("{}-x86_64", self.version)
    }

    /// Returns the minor version, such as `4.18`.
    pub fn minor(&self) -> &str {
        self.version.rsplit_once('.').map_or(self.version, |(minor, _)| minor)
    }

    /// Returns the files of the payload, by their path in the image.
    ///
    /// # Errors
    /// A checked-in CRD manifest cannot be read.
    pub fn files(&self, images: &Images, trust: &Trust) -> Result<BTreeMap<String, Vec<u8>>, Error> {
        let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for (file, object) in self.operator().into_iter().chain(self.manifests(images, trust)?) {
            files.insert(file, mainstay_yaml::to_string(&object).into_bytes());
        }
        files.insert("release-manifests/release-metadata".to_owned(), pretty(&self.metadata()));
        files.insert("release-manifests/image-references".to_owned(), pretty(&self.references(images)));
        Ok(files)
    }

    /// A release without content that the versions tell.
    pub(crate) fn sample(version: &'static str, previous: &'static [&'static str], kubernetes: &'static str, asks: bool) -> Self {
        Self { version, previous, kubernetes, removes: false, asks, serves_v1: false }
    }

    pub(crate) fn metadata(&self) -> Value {
        json!({
            "kind": "cincinnati-metadata-v0", "version": self.version, "previous": self.previous,
            "metadata": {"url": format!("https://releases.example/mainstay-sample/{}", self.version)},
        })
    }

    pub(crate) fn references(&self, images: &Images) -> Value {
        let tags = images.iter().map(|(name, image)| {
            let mut annotations = json!({
                "io.openshift.build.commit.id": "0000000000000000000000000000000000000000",
                "io.openshift.build.source-location": format!("https://source.example/mainstay-sample/{name}"),
            });
            if name == "machine-config-operator" {
                annotations["io.openshift.build.versions"] = format!("kubernetes={}", self.kubernetes).into();
                annotations["io.openshift.build.version-display-names"] = "kubernetes=Kubernetes".into();
            }
            json!({"name": name, "annotations": annotations, "from": {"kind": "DockerImage", "name": image}})
        });
        json!({
            "kind": "ImageStream", "apiVersion": "image.openshift.io/v1",
            "metadata": {"name": self.version, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"lookupPolicy": {"local": false}, "tags": tags.collect::<Vec<_>>()},
        })
    }

    /// The Cluster Version Operator's own manifests, which are templates.
    pub(crate) fn operator(&self) -> Vec<(String, Value)> {
        let file = |order: u8, what: &str| format!("manifests/0000_00_cluster-version-operator_{order:02}_{what}.yaml");
        let config_map = |name: &str, data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "openshift-config"}, "data": data});
        let mut acks = annotated(config_map("admin-acks", json!({})));
        acks["metadata"]["annotations"]["release.openshift.io/create-only"] = "true".into();
        let gates = if self.asks {
            json!({GATE: "Widgets of v1beta1 are no longer served in 4.19. Change your clients to v1, then acknowledge."})
        } else {
            json!({})
        };
        let mut gates = config_map("admin-gates", gates);
        gates["metadata"]["namespace"] = "openshift-config-managed".into();
        let group = "rbac.authorization.k8s.io";
        let binding = json!({
            "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "cluster-version-operator"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": OPERATOR}],
        });
        vec![
            (file(0, "namespace"), annotated(namespace(OPERATOR))),
            (file(1, "config-namespace"), annotated(namespace("openshift-config"))),
            (file(1, "config-managed-namespace"), annotated(namespace("openshift-config-managed"))),
            (file(2, "adminack_configmap"), acks),
            (file(2, "admingate_configmap"), annotated(gates)),
            (file(2, "roles"), annotated(binding)),
            (file(3, "deployment"), annotated(deployment(OPERATOR, "cluster-version-operator", "{{.ReleaseImage}}", self.version))),
        ]
    }

    fn manifests(&self, images: &Images, trust: &Trust) -> Result<Vec<(String, Value)>, Error> {
        let mut all: Vec<(String, Value)> = Vec::new();
        for component in &COMPONENTS {
            all.extend(component.manifests(self.version, images.get(component.name).map(String::as_str)));
        }
        let verification = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "release-verification", "namespace": "openshift-config-managed",
                "annotations": {"release.openshift.io/verification-config-map": ""},
            },
            "data": {KEY: trust.public_key, STORE: trust.store},
        });
        all.push(("release-manifests/0000_00_cluster-update-keys_configmap.yaml".to_owned(), annotated(verification)));
        let mut gates = annotated(json!({
            "apiVersion": "config.openshift.io/v1", "kind": "FeatureGate", "metadata": {"name": "cluster"}, "spec": {},
        }));
        gates["metadata"]["annotations"]["release.openshift.io/create-only"] = "true".into();
        all.push((CONFIG.file(1, "featuregate"), gates));
        all.extend(self.widgets(images)?);
        Ok(all)
    }

    /// The manifests of the sample's own operator beside those that every component has.
    fn widgets(&self, images: &Images) -> Result<Vec<(String, Value)>, Error> {
        let Component { namespace, .. } = WIDGETS;
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "widgets-operator", "namespace": namespace}});
        let group = "rbac.authorization.k8s.io";
        let role = json!({
            "apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": {"name": "sample-widgets-operator"},
            "rules": [{"apiGroups": ["sample.mainstay.dev"], "resources": ["widgets"], "verbs": ["get", "list", "watch", "update"]}],
        });
        let binding = json!({
            "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "sample-widgets-operator"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "sample-widgets-operator"},
            "subjects": [{"kind": "ServiceAccount", "name": "widgets-operator", "namespace": namespace}],
        });
        let settings = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "widgets-settings", "namespace": namespace},
            "data": {"release": self.version},
        });
        let request = json!({
            "apiVersion": "cloudcredential.openshift.io/v1", "kind": "CredentialsRequest",
            "metadata": {"name": "sample-widgets", "namespace": "openshift-cloud-credential-operator"},
            "spec": {
                "serviceAccountNames": ["widgets-operator"], "secretRef": {"name": "widgets-cloud-credentials", "namespace": namespace},
                "providerSpec": {
                    "apiVersion": "cloudcredential.openshift.io/v1", "kind": "AWSProviderSpec",
                    "statementEntries": [{"effect": "Allow", "action": ["s3:ListBucket"], "resource": "*"}],
                },
            },
        });
        let mut all = vec![
            (WIDGETS.file(1, "crd"), self.definition()),
            (WIDGETS.file(2, "serviceaccount"), account),
            (WIDGETS.file(3, "clusterrole"), role),
            (WIDGETS.file(4, "clusterrolebinding"), binding),
            (WIDGETS.file(5, "configmap"), settings),
            (WIDGETS.file(5, "credentialsrequest"), request),
        ];
        if let Some(image) = images.get(WIDGETS.name) {
            all.push((WIDGETS.file(7, "job"), self.job(namespace, image)));
        }
        let old = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "widgets-defaults", "namespace": namespace},
        });
        if self.removes {
            let mut tombstone = old;
            tombstone["metadata"]["annotations"] = json!({"release.openshift.io/delete": "true"});
            all.push(("release-manifests/0000_99_widgets-operator_00_tombstones.yaml".to_owned(), tombstone));
        } else {
            let mut kept = old;
            kept["data"] = json!({"size": "1"});
            all.push((WIDGETS.file(5, "defaults"), kept));
        }
        let credentials = "release-manifests/0000_00_cloud-credential-operator";
        let definition = mainstay_api::platform_manifests()?.into_iter().find(|manifest| manifest.file.contains("_credentialsrequests"));
        all.push((format!("{credentials}_00_namespace.yaml"), crate::component::namespace("openshift-cloud-credential-operator")));
        all.extend(definition.map(|manifest| (format!("{credentials}_01_crd.yaml"), manifest.definition)));
        Ok(all.into_iter().map(|(file, object)| (file, annotated(object))).collect())
    }

    fn job(&self, namespace: &str, image: &str) -> Value {
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": format!("widgets-migration-{}", self.version.replace('.', "-")), "namespace": namespace},
            "spec": {
                "backoffLimit": 4,
                "template": {"spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "migration", "image": image, "command": ["/component", "migrate"]}],
                }},
            },
        })
    }

    fn definition(&self) -> Value {
        let schema = json!({"openAPIV3Schema": {
            "type": "object",
            "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 0, "maximum": 100}}}},
        }});
        let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": schema});
        let versions = if self.serves_v1 {
            let mut old = version("v1beta1", false);
            old["served"] = false.into();
            vec![old, version("v1", true)]
        } else {
            vec![version("v1beta1", true)]
        };
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.sample.mainstay.dev"},
            "spec": {
                "group": "sample.mainstay.dev", "scope": "Namespaced",
                "names": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"}, "versions": versions,
            },
        })
    }
}

pub(crate) fn pretty(value: &Value) -> Vec<u8> {
    let mut text = format!("{value:#}").into_bytes();
    text.push(b'\n');
    text
}
