//! Certificates of the cluster's objects, with their ends.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use mainstay_cluster_version_core::readiness::{CertificateFacts, Read};
use mainstay_diagnostics::SharedError;
use serde_json::Value;
use x509_parser::pem::Pem;

use super::facts::{array, get, text};
use crate::session::Session;

/// The TLS Secrets of a page, and the most pages.
const PAGE: usize = 500;
const PAGES: usize = 100;
/// The most certificates of one bundle.
const MOST: usize = 200;
/// Marks of programs that renew certificates.
const RENEWERS: [(&str, &str); 4] = [
    ("auth.openshift.io/certificate-issuer", "the operator that issued it"),
    ("service.beta.openshift.io/originating-service-name", "service-ca"),
    ("service.alpha.openshift.io/originating-service-name", "service-ca"),
    ("cert-manager.io/certificate-name", "cert-manager"),
];

/// Reads the certificates in TLS Secrets. The Secrets' keys are read with them, and forgotten at once.
pub(super) async fn of_secrets(session: &Session) -> Read<Vec<CertificateFacts>> {
    let mut found = Vec::new();
    let mut page = String::new();
    for _ in 0..PAGES {
        let path = format!("/api/v1/secrets?fieldSelector=type%3Dkubernetes.io%2Ftls&limit={PAGE}{page}");
        let list: Value = serde_json::from_str(&get(session, &path).await?).map_err(SharedError::new)?;
        found.extend(array(&list, "/items").iter().filter_map(of_secret));
        match text(&list, "/metadata/continue") {
            "" => return Ok(found),
            next => page = format!("&continue={next}"),
        }
    }
    Err(SharedError::from(format!("there are more than {} TLS Secrets", PAGE * PAGES)))
}

fn of_secret(secret: &Value) -> Option<CertificateFacts> {
    let bytes = STANDARD.decode(text(secret, "/data/tls.crt")).ok()?;
    let annotations = &secret["metadata"]["annotations"];
    let by_mark = RENEWERS.iter().find(|(mark, _)| annotations.get(*mark).is_some()).map(|(_, program)| (*program).to_owned());
    let by_olm = || (secret["metadata"]["labels"]["olm.managed"] == "true").then(|| "OLM".to_owned());
    Some(CertificateFacts {
        object: format!("secret {}/{}", text(secret, "/metadata/namespace"), text(secret, "/metadata/name")),
        // The first certificate is presented; the others lead from it to an authority.
        not_after: ends(&bytes).next()?,
        renewed_by: by_mark.or_else(by_olm),
    })
}

/// The certificates that webhooks and aggregated APIs are trusted by.
pub(super) fn of_bundles(objects: &[Value]) -> Vec<CertificateFacts> {
    let bundles = |object: &Value| -> Vec<String> {
        let webhooks = array(object, "/webhooks").iter().map(|webhook| text(webhook, "/clientConfig/caBundle"));
        let all = webhooks.chain([text(object, "/spec/caBundle"), text(object, "/spec/conversion/webhook/clientConfig/caBundle")]);
        all.filter(|bundle| !bundle.is_empty()).map(str::to_owned).collect()
    };
    let of_object = |object: &Value| {
        // Trust ends with the last certificate of a bundle: older ones stay in it while authorities change.
        let last = bundles(object).iter().filter_map(|bundle| ends(&STANDARD.decode(bundle).ok()?).max()).min()?;
        let object = format!("{} {}", text(object, "/kind").to_lowercase(), text(object, "/metadata/name"));
        Some(CertificateFacts { object, not_after: last, renewed_by: None })
    };
    objects.iter().filter_map(of_object).collect()
}

fn ends(pem: &[u8]) -> impl Iterator<Item = Timestamp> {
    let end = |pem: Pem| Timestamp::from_second(pem.parse_x509().ok()?.validity().not_after.timestamp()).ok();
    Pem::iter_from_buffer(pem).take(MOST).filter_map(|pem| end(pem.ok()?)).collect::<Vec<_>>().into_iter()
}
