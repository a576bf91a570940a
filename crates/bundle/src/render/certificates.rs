//! The certificates of webhooks: their provider, and their way to the pods.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{CertificateProvider, Site, annotate, joined_name, object};
use crate::csv::Csv;

/// The places in which operators built with the two common frameworks look for their certificate: volume, path, file of the certificate, file
/// of the key.
const MOUNTS: [(&str, &str, &str, &str); 2] = [
    ("webhook-cert", "/tmp/k8s-webhook-server/serving-certs", "tls.crt", "tls.key"),
    ("apiservice-cert", "/apiserver.local.config/certificates", "apiserver.crt", "apiserver.key"),
];

/// The longest common name of a certificate.
const MAX_COMMON_NAME: usize = 64;

/// The Service in front of a deployment's webhooks.
pub(super) fn service_name(deployment: &str) -> String {
    joined_name(&deployment.replace('.', "-"), "service")
}

fn secret_name(deployment: &str) -> String {
    joined_name(&service_name(deployment), "cert")
}

/// A reference to the Service of a deployment's webhooks, without path and port.
pub(super) fn service_reference(deployment: &str, site: &Site<'_>) -> Value {
    json!({"namespace": site.namespace, "name": service_name(deployment)})
}

/// Annotates a configuration, CRD or Service so that the provider acts on it.
pub(super) fn inject(target: &mut Value, deployment: &str, site: &Site<'_>) {
    let is_service = target["kind"] == "Service";
    match site.certificates {
        CertificateProvider::None => {}
        CertificateProvider::CertManager if is_service => {}
        CertificateProvider::CertManager => {
            annotate(target, "cert-manager.io/inject-ca-from", &format!("{}/{}", site.namespace, secret_name(deployment)));
        }
        CertificateProvider::OpenshiftServiceCa if is_service => {
            annotate(target, "service.beta.openshift.io/serving-cert-secret-name", &secret_name(deployment));
        }
        CertificateProvider::OpenshiftServiceCa => annotate(target, "service.beta.openshift.io/inject-cabundle", "true"),
    }
}

/// The provider's own objects for each deployment with webhooks.
pub(super) fn objects(csv: &Csv, site: &Site<'_>) -> Vec<Value> {
    if site.certificates != CertificateProvider::CertManager {
        return Vec::new();
    }
    let deployments: BTreeSet<_> = csv.webhooks.iter().map(|webhook| webhook.deployment.as_str()).collect();
    deployments.into_iter().flat_map(|deployment| cert_manager(deployment, site)).collect()
}

fn cert_manager(deployment: &str, site: &Site<'_>) -> [Value; 2] {
    const API: &str = "cert-manager.io/v1";
    let secret = secret_name(deployment);
    let issuer_name = joined_name(&secret, "selfsigned-issuer");
    let mut issuer = object(API, "Issuer", &issuer_name, Some(site.namespace));
    issuer["spec"] = json!({"selfSigned": {}});
    issuer["status"] = json!({});
    let host = format!("{}.{}", service_name(deployment), site.namespace);
    let mut certificate = object(API, "Certificate", &secret, Some(site.namespace));
    certificate["spec"] = json!({
        "secretName": secret,
        "usages": ["server auth"],
        "dnsNames": [host, format!("{host}.svc"), format!("{host}.svc.cluster.local")],
        "issuerRef": {"name": issuer_name},
        // Two years, renewed a day before the end.
        "duration": "17520h0m0s",
        "renewBefore": "24h0m0s",
    });
    certificate["status"] = json!({});
    // X.509 does not allow a longer one; upstream writes it nevertheless, and cert-manager then refuses the certificate.
    if host.len() <= MAX_COMMON_NAME {
        certificate["spec"]["commonName"] = host.into();
    }
    [issuer, certificate]
}

/// Mounts the certificate in the pods of a deployment with webhooks, in place of volumes of the same names or mount paths.
pub(super) fn mount(csv: &Csv, deployment: &str, object: &mut Value, site: &Site<'_>) {
    if site.certificates == CertificateProvider::None || !csv.webhooks.iter().any(|webhook| webhook.deployment == deployment) {
        return;
    }
    let secret = secret_name(deployment);
    let pod = &mut object["spec"]["template"]["spec"];
    let mut replaced: BTreeSet<String> = MOUNTS.iter().map(|(volume, ..)| (*volume).to_owned()).collect();
    for container in pod["containers"].as_array().into_iter().flatten() {
        for mounted in container["volumeMounts"].as_array().into_iter().flatten() {
            if MOUNTS.iter().any(|(_, path, ..)| mounted["mountPath"] == *path) {
                replaced.extend(mounted["name"].as_str().map(str::to_owned));
            }
        }
    }
    let keep = |item: &Value| !item["name"].as_str().is_some_and(|name| replaced.contains(name));
    let joined = |list: &Value, added: Vec<Value>| {
        let kept = list.as_array().into_iter().flatten().filter(|item| keep(item)).cloned();
        Value::Array(kept.chain(added).collect())
    };
    let volumes = MOUNTS.iter().map(|(volume, _, certificate, key)| {
        let items = json!([{"key": "tls.crt", "path": certificate}, {"key": "tls.key", "path": key}]);
        json!({"name": volume, "secret": {"secretName": secret, "items": items}})
    });
    pod["volumes"] = joined(&pod["volumes"], volumes.collect());
    for container in pod["containers"].as_array_mut().into_iter().flatten() {
        let mounts = MOUNTS.iter().map(|(volume, path, ..)| json!({"name": volume, "mountPath": path}));
        container["volumeMounts"] = joined(&container["volumeMounts"], mounts.collect());
    }
}
