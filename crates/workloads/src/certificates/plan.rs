//! The plan for a CertificateSigningRequest: a pure function of it and the time (KAPI-WL-01).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::api::DynamicObject;

use super::request::Refusal;
use super::request::Request;
use crate::object::{Read as _, condition, items, parse_time};

/// Seconds for which a decided request is kept.
const DECIDED: i64 = 3_600;
/// Seconds for which an undecided request is kept.
const PENDING: i64 = 24 * 3_600;
/// The lifetime of certificates in seconds, one year, unless a shorter one is requested.
const LONGEST: i64 = 8_760 * 3_600;
const SHORTEST: i64 = 600;
/// Seconds by which certificates are backdated, because clocks differ.
const BACKDATED: i64 = 300;

const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
const LEGACY: &str = "kubernetes.io/legacy-unknown";

/// The next step for a request.
#[derive(Debug, PartialEq)]
pub enum Step {
    /// No step until the request changes or the time has passed.
    Rest(Option<Duration>),
    /// The request is approved if the requestor has one of these permissions; the authorizer is asked in this order, and the first yes decides.
    Approve(Vec<Permission>),
    /// The request is signed for this period.
    Sign {
        /// The parsed request.
        request: Box<Request>,
        /// The start of the validity.
        from: Timestamp,
        /// The end of the validity.
        until: Timestamp,
    },
    /// The signer refuses the request.
    Fail(String),
    /// The request is old, and deleted.
    Delete,
}

/// A permission, and the message of an approval by it.
#[derive(Debug, PartialEq, Eq)]
pub struct Permission {
    /// The subresource of CertificateSigningRequests that the requestor must be allowed to create.
    pub subresource: &'static str,
    /// The message, for people.
    pub message: &'static str,
}

/// Decides the next step.
pub fn plan(csr: &DynamicObject, now: Timestamp) -> Step {
    let conditions = csr.at("/status/conditions");
    let since = |kind: &str| condition(conditions, kind).map(|one| parse_time(&one["lastUpdateTime"]).unwrap_or_else(|| csr.created()));
    let issued = !csr.text("/status/certificate").is_empty();
    let decided = ["Approved", "Denied", "Failed"].into_iter().filter_map(since).min();
    let over = match decided {
        // A request that is approved and neither signed nor refused waits for an external signer.
        Some(decided) => decided.saturating_add(SignedDuration::from_secs(DECIDED)),
        None => csr.created().saturating_add(SignedDuration::from_secs(PENDING)),
    };
    let left: Duration = over.unwrap_or(Timestamp::MAX).duration_since(now).try_into().unwrap_or_default();
    if left.is_zero() {
        return Step::Delete;
    }
    let rest = Step::Rest(Some(left));
    if issued || since("Denied").is_some() || since("Failed").is_some() {
        return rest;
    }
    let signer = csr.text("/spec/signerName");
    if since("Approved").is_none() {
        if signer != KUBELET_CLIENT {
            return rest;
        }
        let Ok(request) = Request::read(csr.text("/spec/request")) else { return rest };
        if kubelet_client(&request, &usages(csr)).is_err() {
            return rest;
        }
        let own = Permission {
            subresource: "selfnodeclient",
            message: "Auto approving self kubelet client certificate after SubjectAccessReview.",
        };
        let any = Permission { subresource: "nodeclient", message: "Auto approving kubelet client certificate after SubjectAccessReview." };
        return Step::Approve(if csr.text("/spec/username") == request.common_name { vec![own, any] } else { vec![any] });
    }
    if ![CLIENT, KUBELET_CLIENT, KUBELET_SERVING, LEGACY].contains(&signer) {
        return rest;
    }
    let checked = Request::read(csr.text("/spec/request")).and_then(|request| check(signer, &request, &usages(csr)).map(|()| request));
    match checked {
        Err(refusal) => Step::Fail(refusal.to_string()),
        Ok(request) => {
            let seconds = csr.int("/spec/expirationSeconds").map_or(LONGEST, |seconds| seconds.clamp(SHORTEST, LONGEST));
            let until = now.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
            let from = now.saturating_sub(SignedDuration::from_secs(BACKDATED)).unwrap_or(now);
            Step::Sign { request: Box::new(request), from, until }
        }
    }
}

/// Returns the usages that a request asks for.
pub fn usages(csr: &DynamicObject) -> Vec<&str> {
    items(csr, "/spec/usages").filter_map(serde_json::Value::as_str).collect()
}

fn check(signer: &str, request: &Request, usages: &[&str]) -> Result<(), Refusal> {
    match signer {
        CLIENT => {
            let optional = ["digital signature", "key encipherment", "client auth"];
            if usages.contains(&"client auth") && usages.iter().all(|usage| optional.contains(usage)) {
                Ok(())
            } else {
                Err(Refusal(format!("usages did not match [client auth digital signature key encipherment]: [{}]", usages.join(" "))))
            }
        }
        KUBELET_CLIENT => kubelet_client(request, usages),
        KUBELET_SERVING => {
            node(request)?;
            if !request.names.dns && !request.names.ip {
                return Err(Refusal("DNS or IP subjectAltName is required".to_owned()));
            }
            for (present, kind) in [(request.names.email, "Email"), (request.names.uri, "URI")] {
                if present {
                    return Err(Refusal(format!("{kind} subjectAltNames are not allowed")));
                }
            }
            exactly(usages, "server auth")
        }
        // The purpose of the legacy signer's certificates is unknown, so everything is signed.
        _ => Ok(()),
    }
}

fn kubelet_client(request: &Request, usages: &[&str]) -> Result<(), Refusal> {
    node(request)?;
    let names = request.names;
    for (present, kind) in [(names.dns, "DNS"), (names.email, "Email"), (names.ip, "IP"), (names.uri, "URI")] {
        if present {
            return Err(Refusal(format!("{kind} subjectAltNames are not allowed")));
        }
    }
    exactly(usages, "client auth")
}

fn node(request: &Request) -> Result<(), Refusal> {
    if request.organizations != ["system:nodes"] {
        return Err(Refusal("subject organization is not system:nodes".to_owned()));
    }
    if !request.common_name.starts_with("system:node:") {
        return Err(Refusal("subject common name does not begin with system:node: ".to_owned()));
    }
    Ok(())
}

/// Checks that the usages are `main` and digital signature, with or without key encipherment: RSA keys may encipher, others cannot.
fn exactly(usages: &[&str], main: &str) -> Result<(), Refusal> {
    let allowed = ["digital signature", "key encipherment", main];
    if usages.contains(&main) && usages.contains(&"digital signature") && usages.iter().all(|usage| allowed.contains(usage)) {
        return Ok(());
    }
    Err(Refusal(format!("usages did not match [{main} digital signature], with or without key encipherment: [{}]", usages.join(" "))))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::needless_pass_by_value, clippy::type_complexity, reason = "tables of cases")]
    use base64::Engine as _;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};
    use serde_json::{Value, json};

    use super::super::issue::{Authority, Terms};
    use super::*;

    const NOW: &str = "2026-01-01T10:00:00Z";

    fn request(user: &str, group: &str, names: &[&str]) -> String {
        let mut params = CertificateParams::default();
        let mut name = DistinguishedName::new();
        name.push(DnType::OrganizationName, group);
        name.push(DnType::CommonName, user);
        params.distinguished_name = name;
        params.subject_alt_names = names.iter().map(|name| SanType::DnsName((*name).try_into().unwrap())).collect();
        let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
        base64::engine::general_purpose::STANDARD.encode(pem)
    }

    fn csr(spec: Value, status: Value) -> DynamicObject {
        let metadata = json!({"name": "c", "creationTimestamp": "2026-01-01T09:59:00Z"});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
    }

    fn decided(kind: &str, at: &str) -> Value {
        json!({"conditions": [{"type": kind, "status": "True", "lastUpdateTime": at}]})
    }

    /// KAPI-WL-01: who is approved, who is signed, who is refused, and when a request goes.
    #[test]
    fn steps() {
        let node = request("system:node:a", "system:nodes", &[]);
        let serving = request("system:node:a", "system:nodes", &["a"]);
        let user = request("joe", "devs", &[]);
        let spec = |signer: &str, request: &str, usages: &[&str]| json!({"signerName": signer, "request": request, "usages": usages, "username": "system:node:a"});
        let client = ["client auth", "digital signature"];
        let server = ["server auth", "digital signature"];
        let approved = || decided("Approved", "2026-01-01T09:59:30Z");
        let cases: [(&str, Value, Value, &str); 13] = [
            ("nobody decided", spec(CLIENT, &user, &client), json!({}), "rest"),
            ("a node's own", spec(KUBELET_CLIENT, &node, &client), json!({}), "approve 2"),
            ("no node", spec(KUBELET_CLIENT, &user, &client), json!({}), "rest"),
            ("serving is for people to approve", spec(KUBELET_SERVING, &serving, &server), json!({}), "rest"),
            ("approved", spec(CLIENT, &user, &["client auth"]), approved(), "sign"),
            ("approved serving", spec(KUBELET_SERVING, &serving, &server), approved(), "sign"),
            ("serving without names", spec(KUBELET_SERVING, &node, &server), approved(), "fail DNS or IP subjectAltName is required"),
            ("client with names", spec(KUBELET_CLIENT, &serving, &client), approved(), "fail DNS subjectAltNames are not allowed"),
            ("kubelet of another group", spec(KUBELET_CLIENT, &user, &client), approved(), "fail subject organization is not system:nodes"),
            ("another signer", spec("example.com/x", &user, &client), approved(), "rest"),
            ("denied", spec(CLIENT, &user, &client), decided("Denied", "2026-01-01T09:59:30Z"), "rest"),
            ("denied long ago", spec(CLIENT, &user, &client), decided("Denied", "2026-01-01T08:59:30Z"), "delete"),
            ("no request at all", spec(CLIENT, "bm9uZQ==", &client), approved(), "fail PEM block type must be CERTIFICATE REQUEST"),
        ];
        for (name, spec, status, expected) in cases {
            let step = match plan(&csr(spec, status), NOW.parse().unwrap()) {
                Step::Rest(_) => "rest".to_owned(),
                Step::Approve(questions) => format!("approve {}", questions.len()),
                Step::Sign { .. } => "sign".to_owned(),
                Step::Fail(why) => format!("fail {why}"),
                Step::Delete => "delete".to_owned(),
            };
            assert_eq!(step, expected, "{name}");
        }
    }

    /// KAPI-WL-01: a certificate says what was asked, and nothing else, and is the CA's.
    #[test]
    fn certificates_are_readable_and_signed() {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let ca = params.self_signed(&key).unwrap().pem();
        let authority = Authority::from_pem(&ca, &key.serialize_pem()).unwrap();
        let asked = request("system:node:a", "system:nodes", &["a.example.com"]);
        let spec = json!({"signerName": KUBELET_SERVING, "request": asked, "usages": ["server auth", "digital signature"], "expirationSeconds": 3600});
        let csr = csr(spec, decided("Approved", "2026-01-01T09:59:30Z"));
        let Step::Sign { request, from, until } = plan(&csr, NOW.parse().unwrap()) else { unreachable!("it is approved") };
        let pem = authority.issue(&request, &Terms { from, until, usages: &usages(&csr), serial: [0x81; 16] }).unwrap();
        let (_, pem) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).unwrap();
        let certificate = pem.parse_x509().unwrap();
        let (_, ca) = x509_parser::pem::parse_x509_pem(ca.as_bytes()).unwrap();
        certificate.verify_signature(Some(ca.parse_x509().unwrap().public_key())).unwrap();
        assert_eq!(certificate.subject().to_string(), "O=system:nodes, CN=system:node:a");
        assert_eq!(certificate.validity().not_before.timestamp(), from.as_second());
        assert_eq!(certificate.validity().not_after.timestamp(), until.as_second());
        assert_eq!(until.duration_since(from).as_secs(), 3_900);
        assert!(certificate.extended_key_usage().unwrap().unwrap().value.server_auth);
        assert!(certificate.key_usage().unwrap().unwrap().value.digital_signature());
        assert!(!certificate.is_ca());
        assert!(certificate.subject_alternative_name().unwrap().is_some());
    }
}
