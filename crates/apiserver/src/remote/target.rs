//! Targets of calls: `clientConfig` of webhooks and `spec` of APIServices.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::error::CallError;

/// The target of a call, and the trust in who answers there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientConfig {
    /// The target.
    pub target: Target,
    /// The check of its certificate.
    pub trust: Trust,
}

/// The target of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// `https://HOST[:PORT][/PATH]`.
    Url(String),
    /// A Service of the cluster.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The Service's port.
        port: u16,
        /// Empty, or a path with its slash.
        path: String,
    },
}

/// The check of a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Trust {
    /// The certificate authorities of this machine.
    System,
    /// PEM certificates.
    Bundle(Vec<u8>),
    /// Nothing: any certificate will do.
    Any,
}

impl ClientConfig {
    /// Reads `clientConfig` of a webhook, or of the conversion of a CRD: `url` or `service`, and `caBundle`.
    pub fn of_webhook(config: &Value) -> Result<Self, CallError> {
        let trust = Trust::of_bundle(config.get("caBundle"))?;
        if let Some(url) = config.get("url").and_then(Value::as_str) {
            return Ok(Self { target: Target::Url(url.to_owned()), trust });
        }
        let service = config.get("service").filter(|service| service.is_object());
        let service = service.ok_or_else(|| CallError::Config("webhook configuration must have either service or URL".to_owned()))?;
        Ok(Self { target: Target::of_service(service), trust })
    }
}

impl Trust {
    /// Reads a `caBundle`: base64 of PEM; the machine's authorities where it is absent or empty.
    pub fn of_bundle(bundle: Option<&Value>) -> Result<Self, CallError> {
        let Some(text) = bundle.and_then(Value::as_str).filter(|text| !text.is_empty()) else { return Ok(Self::System) };
        let pem = STANDARD.decode(text.as_bytes()).map_err(|error| CallError::Config(format!("caBundle is not base64: {error}")))?;
        Ok(Self::Bundle(pem))
    }
}

impl Target {
    /// Reads a service reference; port 443 where none is named.
    pub fn of_service(service: &Value) -> Self {
        let text = |field: &str| service.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let port = service.get("port").and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok()).unwrap_or(443);
        Self::Service { namespace: text("namespace"), name: text("name"), port, path: text("path") }
    }

    /// The URL that is asked, without query.
    pub fn url(&self) -> String {
        match self {
            Self::Url(url) => url.clone(),
            Self::Service { port, path, .. } => format!("https://{}:{port}{path}", self.server_name().unwrap_or_default()),
        }
    }

    /// The name that a Service's certificate must have: `NAME.NAMESPACE.svc`.
    pub fn server_name(&self) -> Option<String> {
        match self {
            Self::Url(_) => None,
            Self::Service { namespace, name, .. } => Some(format!("{name}.{namespace}.svc")),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    /// KAPI-ADM-01: what a clientConfig stands for.
    #[test]
    fn client_configs() {
        let url = |config: Value| ClientConfig::of_webhook(&config).unwrap().target.url();
        assert_eq!(url(json!({"url": "https://127.0.0.1:1/hook"})), "https://127.0.0.1:1/hook");
        assert_eq!(url(json!({"service": {"name": "w", "namespace": "ns", "path": "/x"}})), "https://w.ns.svc:443/x");
        assert_eq!(url(json!({"service": {"name": "w", "namespace": "ns", "port": 8443}})), "https://w.ns.svc:8443");
        let bundled = ClientConfig::of_webhook(&json!({"url": "https://h", "caBundle": "YWI="})).unwrap();
        assert_eq!(bundled.trust, Trust::Bundle(b"ab".to_vec()));
        assert!(ClientConfig::of_webhook(&json!({})).unwrap_err().to_string().contains("either service or URL"));
        assert!(ClientConfig::of_webhook(&json!({"url": "https://h", "caBundle": "%"})).is_err());
    }
}
