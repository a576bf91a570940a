//! Another process, as far as the API server can tell: an HTTPS server with a certificate of its own.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "shared with the end-to-end tests, which use a part")]

use axum::Router;
use base64::Engine as _;
use mainstay_serve::{Certificates, ClientCertificates, Server, Tls};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub struct Peer {
    pub port: u16,
    /// PEM of the authority that signed its certificate.
    pub ca: String,
    stop: CancellationToken,
}

impl Peer {
    /// Serves these routes with a certificate for these names.
    pub async fn start(names: &[&str], router: Router) -> Self {
        let ca_key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = params.self_signed(&ca_key).unwrap();
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let leaf = CertificateParams::new(names).unwrap().signed_by(&key, &Issuer::from_params(&params, &ca_key)).unwrap();
        Self::with(&leaf.pem(), &key.serialize_pem(), ca.pem(), router).await
    }

    /// Serves with one self-signed certificate that is its own authority.
    pub async fn self_signed(names: &[&str], router: Router) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self::with(&pem, &key.serialize_pem(), pem.clone(), router).await
    }

    async fn with(certificate: &str, key: &str, ca: String, router: Router) -> Self {
        let listener = Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let port = listener.address().port();
        let certificates = Certificates::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
        let listener = listener.tls(Tls::new(&certificates, ClientCertificates::Requested).unwrap());
        let stop = CancellationToken::new();
        tokio::spawn(listener.run(router, stop.clone()));
        Self { port, ca, stop }
    }

    /// `caBundle` for it.
    pub fn ca_bundle(&self) -> String {
        base64::engine::general_purpose::STANDARD.encode(&self.ca)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The answer of a converter in whose version `v2` the field `spec.n` is called `spec.count`; `more` is done to every object.
pub fn renamed(review: &Value, more: impl Fn(&mut Value, &str)) -> Value {
    let desired = review["request"]["desiredAPIVersion"].as_str().unwrap();
    let (from, to) = if desired.ends_with("v2") { ("n", "count") } else { ("count", "n") };
    let objects = review["request"]["objects"].as_array().unwrap().iter().map(|object| {
        let mut object = object.clone();
        object["apiVersion"] = desired.into();
        if let Some(value) = object["spec"].as_object_mut().and_then(|spec| spec.remove(from)) {
            object["spec"][to] = value;
        }
        more(&mut object, desired);
        object
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "response": {"uid": review["request"]["uid"], "result": {"status": "Success"}, "convertedObjects": objects.collect::<Vec<_>>()},
    })
}
