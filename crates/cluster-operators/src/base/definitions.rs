//! The definitions of settings, by the ClusterOperator that they belong to.

use mainstay_cluster_version_core::stand_in::{Candidate, SIMULATED};
use serde_json::{Value, json};

use super::mirrors;
use super::schemas::{Managed, described, open, operator, partly, static_pods, whole};

const OPERATOR: &str = "operator.openshift.io";
const CONFIG: &str = "config.openshift.io";
const MONITORING: &str = "monitoring.coreos.com";
const CLUSTER: &str = "Cluster";
const NAMESPACED: &str = "Namespaced";

/// A kind: its ClusterOperator, group, kind, plural name and scope.
struct Kind(&'static str, &'static str, &'static str, &'static str, &'static str);

/// The files of crate `api` that have definitions of the configuration, and the ClusterOperator of each.
const TYPED: [(&str, &str); 5] = [
    ("config-operator", "config.openshift.io_authentications.yaml"),
    ("config-operator", "config.openshift.io_infrastructures.yaml"),
    ("config-operator", "config.openshift.io_networks.yaml"),
    ("config-operator", "config.openshift.io_proxies.yaml"),
    ("marketplace", "config.openshift.io_operatorhubs.yaml"),
];

/// Returns the definitions that a release may leave to an operator or to the installer.
///
/// # Errors
/// A checked-in definition is no YAML.
pub fn definitions() -> Result<Vec<Candidate>, mainstay_yaml::Error> {
    let own = operators().into_iter().chain(singletons()).chain(monitoring()).map(|(kind, schema)| kind.definition(&schema));
    Ok(own.chain([image_stream()]).chain(mirrors::definitions()).chain(typed()?).collect())
}

/// The configuration that crate `api` has types for (COP-G-06).
fn typed() -> Result<Vec<Candidate>, mainstay_yaml::Error> {
    let manifests = mainstay_api::platform_manifests()?.into_iter().chain(mainstay_api::classic_manifests()?);
    let of = |file: &str| TYPED.iter().find(|(_, known)| *known == file).map(|(operator, _)| (*operator).to_owned());
    let candidates = manifests.filter_map(|manifest| {
        let mut object = manifest.definition;
        object["metadata"]["annotations"][SIMULATED] = "true".into();
        Some(Candidate { operator: of(&manifest.file)?, object })
    });
    Ok(candidates.collect())
}

/// Image streams, which the API server of OpenShift serves on a real cluster: here they are stored, and nothing is imported (COP-13, COP-30).
fn image_stream() -> Candidate {
    let kind = Kind("openshift-samples", "image.openshift.io", "ImageStream", "imagestreams", NAMESPACED);
    let tag = json!({
        "type": "object", "required": ["name"], "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"name": {"type": "string", "minLength": 1}, "from": open()},
    });
    let mut schema = described(&json!({"tags": {"type": "array", "items": tag}, "lookupPolicy": open()}));
    // An image stream may have no spec.
    schema["required"] = json!([]);
    let mut candidate = kind.definition(&schema);
    candidate.object["spec"]["names"]["shortNames"] = json!(["is"]);
    candidate
}

/// The settings of operators (COP-G-07).
fn operators() -> Vec<(Kind, Value)> {
    let none = json!({});
    let speed = json!({"controlPlaneHardwareSpeed": {"type": "string", "enum": ["", "Standard", "Slower"]}});
    let issuers = json!({"serviceAccountIssuers": {"type": "array", "items": {"type": "object", "properties": {
        "name": {"type": "string"}, "expirationTime": {"type": "string", "format": "date-time"},
    }}}});
    let own_issuer = json!({"useMoreSecureServiceCA": {"type": "boolean", "default": false}});
    let vsphere = json!({"vsphereStorageDriver": {
        "type": "string", "enum": ["", "LegacyDeprecatedInTreeDriver", "CSIWithMigrationDriver"],
        "x-kubernetes-validations": [{
            "rule": "self != \"LegacyDeprecatedInTreeDriver\"",
            "message": "VSphereStorageDriver can not be set to LegacyDeprecatedInTreeDriver",
        }],
    }});
    let oauth = json!({"oauthAPIServer": {"type": "object", "properties": {
        "latestAvailableRevision": {"type": "integer", "format": "int32", "minimum": 0},
    }}});
    let usual = || operator(Managed::Freely, &none, &none);
    vec![
        (Kind("etcd", OPERATOR, "Etcd", "etcds", CLUSTER), static_pods(Managed::Freely, &speed, &speed)),
        (Kind("kube-apiserver", OPERATOR, "KubeAPIServer", "kubeapiservers", CLUSTER), static_pods(Managed::Always, &none, &issuers)),
        (
            Kind("kube-controller-manager", OPERATOR, "KubeControllerManager", "kubecontrollermanagers", CLUSTER),
            static_pods(Managed::Always, &own_issuer, &none),
        ),
        (Kind("kube-scheduler", OPERATOR, "KubeScheduler", "kubeschedulers", CLUSTER), static_pods(Managed::Always, &none, &none)),
        (Kind("config-operator", OPERATOR, "Config", "configs", CLUSTER), usual()),
        (Kind("authentication", OPERATOR, "Authentication", "authentications", CLUSTER), operator(Managed::Freely, &none, &oauth)),
        (Kind("openshift-apiserver", OPERATOR, "OpenShiftAPIServer", "openshiftapiservers", CLUSTER), usual()),
        (Kind("openshift-controller-manager", OPERATOR, "OpenShiftControllerManager", "openshiftcontrollermanagers", CLUSTER), usual()),
        (Kind("service-ca", OPERATOR, "ServiceCA", "servicecas", CLUSTER), usual()),
        (Kind("kube-storage-version-migrator", OPERATOR, "KubeStorageVersionMigrator", "kubestorageversionmigrators", CLUSTER), usual()),
        (Kind("csi-snapshot-controller", OPERATOR, "CSISnapshotController", "csisnapshotcontrollers", CLUSTER), usual()),
        (Kind("storage", OPERATOR, "Storage", "storages", CLUSTER), operator(Managed::Freely, &vsphere, &none)),
        (Kind("console", OPERATOR, "Console", "consoles", CLUSTER), partly(&none)),
        (Kind("network", OPERATOR, "Network", "networks", CLUSTER), partly(&none)),
        (Kind("dns", OPERATOR, "DNS", "dnses", CLUSTER), described(&logged())),
        (Kind("ingress", OPERATOR, "IngressController", "ingresscontrollers", NAMESPACED), described(&ingress())),
        (Kind("openshift-samples", "samples.operator.openshift.io", "Config", "configs", CLUSTER), described(&samples())),
    ]
}

/// The management state and log levels of settings that have no other field in common with the rest.
fn logged() -> Value {
    let level = || json!({"type": "string", "enum": ["Normal", "Debug", "Trace"], "default": "Normal"});
    json!({
        "managementState": {"type": "string", "pattern": "^(Managed|Unmanaged|Force|Removed)$"},
        "logLevel": level(), "operatorLogLevel": level(),
    })
}

fn ingress() -> Value {
    let strategies = ["LoadBalancerService", "HostNetwork", "Private", "NodePortService"];
    json!({
        "domain": {"type": "string"},
        "replicas": {"type": "integer", "format": "int32"},
        "endpointPublishingStrategy": {
            "type": "object", "required": ["type"], "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"type": {"type": "string", "enum": strategies}},
        },
        "namespaceSelector": open(),
        "routeSelector": open(),
    })
}

fn samples() -> Value {
    let names = || json!({"type": "array", "items": {"type": "string"}});
    json!({
        "managementState": {"type": "string", "pattern": "^(Managed|Unmanaged|Force|Removed)$"},
        "samplesRegistry": {"type": "string"}, "architectures": names(), "skippedImagestreams": names(), "skippedTemplates": names(),
    })
}

/// The configuration of the cluster (COP-G-06), beside what crate `api` has types for.
fn singletons() -> Vec<(Kind, Value)> {
    let of = |owner, kind, plural| Kind(owner, CONFIG, kind, plural, CLUSTER);
    let text = || json!({"type": "string"});
    let named = || json!({"type": "object", "required": ["name"], "properties": {"name": text()}});
    let one_of = |values: &[&str]| json!({"type": "string", "enum": values});
    let audits = ["Default", "WriteRequestBodies", "AllRequestBodies", "None"];
    let api_server = json!({
        "additionalCORSAllowedOrigins": {"type": "array", "items": text()},
        "audit": {
            "type": "object", "default": {"profile": "Default"}, "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"profile": {"type": "string", "enum": audits, "default": "Default"}},
        },
        "clientCA": named(),
        "encryption": {"type": "object", "properties": {"type": one_of(&["", "identity", "aescbc", "aesgcm"])}},
        "tlsSecurityProfile": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"type": one_of(&["Old", "Intermediate", "Modern", "Custom"])},
        },
    });
    let image = {
        let mut schema = described(&json!({
            "additionalTrustedCA": named(),
            "externalRegistryHostnames": {"type": "array", "items": text()},
            "allowedRegistriesForImport": {"type": "array", "items": {"type": "object", "properties": {
                "domainName": text(), "insecure": {"type": "boolean"},
            }}},
        }));
        let lists = ["allowedRegistries", "blockedRegistries", "insecureRegistries", "containerRuntimeSearchRegistries"];
        let lists: Value = lists.iter().map(|name| ((*name).to_owned(), json!({"type": "array", "items": text()}))).collect();
        schema["properties"]["spec"]["properties"]["registrySources"] = json!({
            "type": "object", "properties": lists,
            "x-kubernetes-validations": [{
                "rule": "has(self.blockedRegistries) ? !has(self.allowedRegistries) : true",
                "message": "Only one of blockedRegistries or allowedRegistries may be set",
            }],
        });
        schema
    };
    let node = json!({
        "cgroupMode": one_of(&["v2", ""]),
        "workerLatencyProfile": one_of(&["Default", "MediumUpdateAverageReaction", "LowUpdateSlowReaction"]),
    });
    let scheduler = json!({
        "defaultNodeSelector": text(), "mastersSchedulable": {"type": "boolean"}, "policy": named(),
        "profile": one_of(&["", "LowNodeUtilization", "HighNodeUtilization", "NoScoring"]),
    });
    let ingress = json!({"appsDomain": text(), "domain": text()});
    vec![
        (of("config-operator", "APIServer", "apiservers"), described(&api_server)),
        (of("openshift-controller-manager", "Build", "builds"), described(&json!({}))),
        (of("config-operator", "Console", "consoles"), described(&json!({}))),
        (of("config-operator", "DNS", "dnses"), described(&json!({"baseDomain": text()}))),
        (of("config-operator", "Image", "images"), image),
        (of("config-operator", "Ingress", "ingresses"), described(&ingress)),
        (of("config-operator", "Node", "nodes"), described(&node)),
        (of("config-operator", "OAuth", "oauths"), described(&json!({"tokenConfig": open(), "templates": open()}))),
        (of("config-operator", "Project", "projects"), described(&json!({"projectRequestMessage": text()}))),
        (of("config-operator", "Scheduler", "schedulers"), described(&scheduler)),
    ]
}

/// The kinds by which operators ask to be watched (COP-11).
fn monitoring() -> Vec<(Kind, Value)> {
    let of = |kind, plural| Kind("monitoring", MONITORING, kind, plural, NAMESPACED);
    let text = || json!({"type": "string"});
    let texts = || json!({"type": "object", "additionalProperties": {"type": "string"}});
    let least_one = || json!({"type": "string", "minLength": 1});
    let duration = r"^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$";
    let lasting = || json!({"type": "string", "pattern": duration});
    let rule = json!({
        "type": "object", "required": ["expr"],
        "properties": {
            "alert": text(), "record": text(), "annotations": texts(), "labels": texts(), "for": lasting(),
            "keep_firing_for": {"type": "string", "pattern": duration, "minLength": 1},
            "expr": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true},
        },
    });
    let group = json!({
        "type": "object", "required": ["name"],
        "properties": {
            "name": least_one(), "interval": lasting(), "query_offset": lasting(), "labels": texts(),
            "limit": {"type": "integer"}, "partial_response_strategy": {"type": "string", "pattern": "^(?i)(abort|warn)?$"},
            "rules": {"type": "array", "items": rule},
        },
    });
    let rules = json!({"type": "object", "properties": {"groups": {
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": group,
    }}});
    let mut monitor = described(&json!({"endpoints": {"type": "array", "items": open()}, "selector": open()}));
    monitor["properties"]["spec"]["required"] = json!(["endpoints", "selector"]);
    vec![
        (of("PrometheusRule", "prometheusrules"), whole(&rules, &open())),
        (of("ServiceMonitor", "servicemonitors"), monitor),
        (of("Prometheus", "prometheuses"), described(&json!({}))),
        (of("Alertmanager", "alertmanagers"), described(&json!({}))),
    ]
}

impl Kind {
    fn definition(self, schema: &Value) -> Candidate {
        let Self(owner, group, kind, plural, scope) = self;
        let object = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}"), "annotations": {SIMULATED: "true"}},
            "spec": {
                "group": group, "scope": scope,
                "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema},
                }],
            },
        });
        Candidate { operator: owner.to_owned(), object }
    }
}
