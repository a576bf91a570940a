//! The certificates of simulated kubelets: asked for as real ones ask, so that the approver has something to look at.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::Client;
use kube::api::DynamicObject;
use mainstay_apply::Writer;
use mainstay_runtime::Key;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};
use serde_json::{Value, json};

use crate::kinds::REQUEST;
use crate::{Error, SIMULATED};

/// Annotation of requests that names the instance.
const INSTANCE: &str = "sim.mainstay.dev/instance";
/// The account that asks for a node's first certificate.
const BOOTSTRAPPER: &str = "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper";
const BOOTSTRAPPER_GROUPS: [&str; 3] =
    ["system:serviceaccounts:openshift-machine-config-operator", "system:serviceaccounts", "system:authenticated"];
const NODE_GROUPS: [&str; 2] = ["system:nodes", "system:authenticated"];

/// The use of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// The kubelet speaks to the API with it.
    Client,
    /// The kubelet serves with it.
    Serving,
}

/// The state of a certificate that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Certificate {
    /// It was not asked for, or the request is gone.
    Missing,
    /// Nobody has decided.
    Waiting,
    /// It is denied, or could not be issued.
    Refused,
    /// It is there.
    Issued,
}

/// Reads the state of a certificate.
pub(super) async fn certificate(writer: &Writer, request: Option<&str>) -> Result<Certificate, Error> {
    let Some(name) = request else { return Ok(Certificate::Missing) };
    let Some(live) = writer.get(&REQUEST.at(&Key::new("", name))).await? else { return Ok(Certificate::Missing) };
    let conditions = live.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let is_refused = conditions.into_iter().any(|condition| condition["type"] == "Denied" || condition["type"] == "Failed");
    let is_issued = live.pointer("/status/certificate").and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    Ok(match (is_refused, is_issued) {
        (true, _) => Certificate::Refused,
        (false, true) => Certificate::Issued,
        (false, false) => Certificate::Waiting,
    })
}

/// The instance that a request is about.
pub(super) fn instance_of(request: &DynamicObject) -> Option<Key> {
    let (namespace, name) = request.metadata.annotations.as_ref()?.get(INSTANCE)?.split_once('/')?;
    Some(Key::new(namespace, name))
}

/// Asks for a certificate, as the account that a kubelet has then; returns the name of the request.
pub(super) async fn ask(client: &Client, instance: &Value, of: Use) -> Result<String, Error> {
    let text = |pointer: &str| instance.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let node = text("/spec/nodeName");
    let number = instance.pointer("/spec/number").and_then(Value::as_i64).unwrap_or_default();
    let signed = request(node, number, of).map_err(|source| Error::Certificate { node: node.to_owned(), source })?;
    let (signer, usage) = match of {
        Use::Client => ("kubernetes.io/kube-apiserver-client-kubelet", "client auth"),
        Use::Serving => ("kubernetes.io/kubelet-serving", "server auth"),
    };
    let body = json!({
        "apiVersion": REQUEST.api_version,
        "kind": REQUEST.kind,
        "metadata": {
            "generateName": "csr-",
            "labels": {SIMULATED: "true"},
            "annotations": {INSTANCE: format!("{}/{}", text("/metadata/namespace"), text("/metadata/name"))},
        },
        "spec": {"request": STANDARD.encode(signed), "signerName": signer, "usages": ["digital signature", usage]},
    });
    let mut request = http::Request::post(format!("/apis/{}/{}", REQUEST.api_version, REQUEST.plural))
        .header(http::header::CONTENT_TYPE, "application/json");
    let user = format!("system:node:{node}");
    let (user, groups): (&str, &[&str]) = match of {
        Use::Client => (BOOTSTRAPPER, &BOOTSTRAPPER_GROUPS),
        Use::Serving => (&user, &NODE_GROUPS),
    };
    request = request.header("Impersonate-User", user);
    for group in groups {
        request = request.header("Impersonate-Group", *group);
    }
    let request = request.body(body.to_string().into_bytes())?;
    let made: Value = client
        .request(request)
        .await
        .map_err(|source| Error::Api { what: format!("the certificate request of node {node}"), source: Box::new(source) })?;
    Ok(made.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned())
}

/// A request in PEM; its key is thrown away, because nothing is served with the certificate.
fn request(node: &str, number: i64, of: Use) -> Result<String, rcgen::Error> {
    let mut params = CertificateParams::default();
    let mut subject = DistinguishedName::new();
    subject.push(DnType::OrganizationName, "system:nodes");
    subject.push(DnType::CommonName, format!("system:node:{node}"));
    params.distinguished_name = subject;
    if of == Use::Serving {
        let host = u16::try_from(number + 2).unwrap_or_default().to_be_bytes();
        params.subject_alt_names = vec![SanType::DnsName(node.try_into()?), SanType::IpAddress([172, 31, host[0], host[1]].into())];
    }
    params.serialize_request(&KeyPair::generate()?)?.pem()
}
