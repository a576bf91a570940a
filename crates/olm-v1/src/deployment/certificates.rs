//! The issuers of serving certificates, and the objects that each needs.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::Frame;

const CERT_MANAGER: &str = "cert-manager.io/v1";
/// The issuer that signs the authority of cert-manager's certificates.
const SELF_SIGNED: &str = "mainstay-self-signed";
/// The lifetime of that authority: ten years. The certificates that it signs are renewed every few weeks.
const AUTHORITY_LASTS: &str = "87600h";

/// A certificate and its key, as PEM.
pub type Pair = (String, String);

/// A Secret with a certificate, and the Services that it is for. The first Service requests it from the service CA.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named by what they are")]
pub struct Serving {
    pub secret: &'static str,
    pub services: Vec<&'static str>,
}

impl Serving {
    /// Returns the DNS names of its Services, the usual one first.
    pub fn names(&self, namespace: &str) -> Vec<String> {
        let of = |service: &&str| {
            [format!("{service}.{namespace}.svc"), format!("{service}.{namespace}.svc.cluster.local"), format!("{service}.{namespace}")]
        };
        self.services.iter().flat_map(of).collect()
    }
}

/// The issuer of the serving certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificates {
    /// Certificates that `deploy` makes.
    Provided {
        /// The authorities to trust, the newest first, as PEM.
        authorities: String,
        /// The certificates by the name of their Secret.
        pairs: BTreeMap<&'static str, Pair>,
    },
    /// The service CA of the cluster (OpenShift's, or this program's).
    ServiceCa,
    /// cert-manager.
    CertManager,
}

impl Certificates {
    /// Returns the objects that hold the certificates or request them.
    pub(super) fn objects(&self, frame: &Frame, serving: &[Serving]) -> Vec<Value> {
        let Frame { namespace, authorities: name, .. } = frame;
        match self {
            Self::Provided { authorities, pairs } => {
                let trusted = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace},
                    "data": {"ca.crt": authorities}});
                let secret = |(name, (certificate, key)): (&&str, &Pair)| {
                    json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
                        "metadata": {"name": name, "namespace": namespace},
                        "data": {"tls.crt": STANDARD.encode(certificate), "tls.key": STANDARD.encode(key)}})
                };
                std::iter::once(trusted).chain(pairs.iter().map(secret)).collect()
            }
            Self::ServiceCa => vec![json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": namespace, "annotations": {"service.beta.openshift.io/inject-cabundle": "true"}},
            })],
            Self::CertManager => {
                let issuer = |name: &str, spec: Value| json!({"apiVersion": CERT_MANAGER, "kind": "Issuer", "metadata": {"name": name, "namespace": namespace}, "spec": spec});
                let certificate = |name: &str, spec: Value| json!({"apiVersion": CERT_MANAGER, "kind": "Certificate", "metadata": {"name": name, "namespace": namespace}, "spec": spec});
                let key = json!({"algorithm": "ECDSA", "size": 256});
                let authority = json!({
                    "isCA": true, "commonName": name, "secretName": name, "duration": AUTHORITY_LASTS, "privateKey": key,
                    "issuerRef": {"group": "cert-manager.io", "kind": "Issuer", "name": SELF_SIGNED},
                });
                let mut all = vec![
                    issuer(SELF_SIGNED, json!({"selfSigned": {}})),
                    certificate(name, authority),
                    issuer(name, json!({"ca": {"secretName": name}})),
                ];
                let key = json!({"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"});
                all.extend(serving.iter().map(|serving| {
                    let spec = json!({
                        "secretName": serving.secret, "dnsNames": serving.names(namespace), "privateKey": key,
                        "usages": ["digital signature", "server auth"],
                        "issuerRef": {"group": "cert-manager.io", "kind": "Issuer", "name": name},
                    });
                    certificate(serving.secret, spec)
                }));
                all
            }
        }
    }

    /// Returns the Service, annotated to request its certificate if the service CA issues it.
    pub(super) fn asked_for(&self, mut service: Value, serving: &[Serving]) -> Value {
        let of = serving.iter().find(|serving| serving.services.first().is_some_and(|first| service["metadata"]["name"] == **first));
        if let (Self::ServiceCa, Some(serving)) = (self, of) {
            service["metadata"]["annotations"] = json!({"service.beta.openshift.io/serving-cert-secret-name": serving.secret});
        }
        service
    }

    /// Returns a volume with the authorities to trust. `serving` is a certificate that they signed.
    pub(super) fn volume(&self, frame: &Frame, serving: &Serving) -> Value {
        match self {
            Self::Provided { .. } | Self::ServiceCa => json!({"configMap": {"name": frame.authorities}}),
            Self::CertManager => json!({"secret": {"secretName": serving.secret, "items": [{"key": "ca.crt", "path": "ca.crt"}]}}),
        }
    }

    /// Returns the reference by which Prometheus finds the authorities.
    pub(super) fn monitored(&self, frame: &Frame, serving: &Serving) -> Value {
        match self {
            Self::Provided { .. } => json!({"configMap": {"name": frame.authorities, "key": "ca.crt"}}),
            Self::ServiceCa => json!({"configMap": {"name": frame.authorities, "key": "service-ca.crt"}}),
            Self::CertManager => json!({"secret": {"name": serving.secret, "key": "ca.crt"}}),
        }
    }

    /// Makes the API server trust a webhook with this certificate: by the authorities, or by an annotation for the component that injects them.
    pub(super) fn trusted(&self, namespace: &str, serving: &Serving, configuration: &mut Value) {
        match self {
            Self::Provided { authorities, .. } => {
                for webhook in configuration["webhooks"].as_array_mut().into_iter().flatten() {
                    webhook["clientConfig"]["caBundle"] = STANDARD.encode(authorities).into();
                }
            }
            Self::ServiceCa => configuration["metadata"]["annotations"] = json!({"service.beta.openshift.io/inject-cabundle": "true"}),
            Self::CertManager => {
                configuration["metadata"]["annotations"] =
                    json!({"cert-manager.io/inject-ca-from": format!("{namespace}/{}", serving.secret)});
            }
        }
    }
}
