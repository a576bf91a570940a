//! CertificateSigningRequests: who may approve and sign for a signer, and that nobody asks to become a master.

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateSigningRequestDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer as _;

use super::step::{AdmissionStep, Operation, Request};
use crate::error::Result;
use crate::request::RequestInfo;

/// Why a certificate request cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
struct InvalidRequest(String);

const GROUP: &str = "certificates.k8s.io";
const REQUESTS: &str = "certificatesigningrequests";
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

fn signer(request: &Value) -> &str {
    request.pointer("/spec/signerName").and_then(Value::as_str).unwrap_or_default()
}

/// Returns whether the user may do this for a signer, by its name or by its domain.
fn may(request: &Request<'_>, verb: &str, signer: &str) -> bool {
    let domain = format!("{}/*", signer.split('/').next().unwrap_or_default());
    for name in [signer, domain.as_str()] {
        let question = RequestInfo {
            is_resource: true,
            verb: verb.to_owned(),
            group: GROUP.to_owned(),
            version: "*".to_owned(),
            resource: "signers".to_owned(),
            name: name.to_owned(),
            ..RequestInfo::default()
        };
        if request.lookup.decide(&request.api_request.user, &question).allowed {
            return true;
        }
    }
    false
}

fn is_update_of(request: &Request<'_>, subresource: &str) -> bool {
    request.operation == Operation::Update && request.subresource == subresource && request.served.is(GROUP, REQUESTS)
}

/// CertificateApproval: who approves must be allowed to `approve` for the signer.
pub struct CertificateApproval;

#[async_trait]
impl AdmissionStep for CertificateApproval {
    async fn validate(&self, request: &Request<'_>, _object: Option<&Value>) -> Result<()> {
        let Some(old) = request.old.filter(|_| is_update_of(request, "approval")) else { return Ok(()) };
        // The signer as it was: an approval cannot change it.
        let signer = signer(old);
        if may(request, "approve", signer) {
            return Ok(());
        }
        Err(request.forbidden(format!("user not permitted to approve requests with signerName {signer:?}")))
    }
}

/// CertificateSigning: who writes a certificate, or conditions, must be allowed to `sign` for the signer.
pub struct CertificateSigning;

#[async_trait]
impl AdmissionStep for CertificateSigning {
    async fn validate(&self, request: &Request<'_>, object: Option<&Value>) -> Result<()> {
        let (Some(new), Some(old)) = (object, request.old.filter(|_| is_update_of(request, "status"))) else { return Ok(()) };
        let same = |field: &str| new.pointer(field).unwrap_or(&Value::Null) == old.pointer(field).unwrap_or(&Value::Null);
        let signer = signer(old);
        if same("/status/certificate") && same("/status/conditions") || may(request, "sign", signer) {
            return Ok(());
        }
        Err(request.forbidden(format!("user not permitted to sign requests with signerName {signer:?}")))
    }
}

/// CertificateSubjectRestriction: no client certificate is asked for in the name of `system:masters`.
pub struct CertificateSubjectRestriction;

#[async_trait]
impl AdmissionStep for CertificateSubjectRestriction {
    async fn validate(&self, request: &Request<'_>, object: Option<&Value>) -> Result<()> {
        let Some(object) = object.filter(|object| request.creates(GROUP, REQUESTS) && signer(object) == CLIENT_SIGNER) else {
            return Ok(());
        };
        let text = object.pointer("/spec/request").and_then(Value::as_str).unwrap_or_default();
        let groups = organizations(text).map_err(|why| request.forbidden(format!("failed to parse CSR: {why}")))?;
        if groups.iter().any(|group| group == "system:masters") {
            let why = format!("use of {CLIENT_SIGNER} signer with system:masters group is not allowed");
            return Err(request.forbidden(why));
        }
        Ok(())
    }
}

/// The organizations that a certificate is asked for; the request is PEM in base64.
fn organizations(request: &str) -> Result<Vec<String>, InvalidRequest> {
    let pem = STANDARD.decode(request).map_err(|error| InvalidRequest(error.to_string()))?;
    let der = CertificateSigningRequestDer::from_pem_slice(&pem)
        .map_err(|_| InvalidRequest("PEM block type must be CERTIFICATE REQUEST".to_owned()))?;
    let (_, parsed) = X509CertificationRequest::from_der(&der).map_err(|error| InvalidRequest(error.to_string()))?;
    let subject = &parsed.certification_request_info.subject;
    Ok(subject.iter_organization().filter_map(|name| name.as_str().ok()).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    /// KAPI-ADM-03: the groups that a certificate is asked for are read from the request.
    #[test]
    fn organizations_of_requests() {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::OrganizationName, "system:masters");
        params.distinguished_name.push(DnType::CommonName, "me");
        let request = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
        assert_eq!(organizations(&STANDARD.encode(request)).unwrap(), ["system:masters"]);
        assert_eq!(organizations("AAAA").unwrap_err().to_string(), "PEM block type must be CERTIFICATE REQUEST");
    }
}
