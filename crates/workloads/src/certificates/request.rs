//! A parsed certificate request: its subject, its names and its key.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::cri_attributes::ParsedCriAttribute;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::oid_registry::OID_X509_EXT_SUBJECT_ALT_NAME;
use x509_parser::prelude::FromDer as _;

/// Why a certificate is not issued for a request, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub(super) String);

/// The longest request that is read, in bytes.
const LONGEST: usize = 64 * 1024;

/// The content of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The user: the subject's common name.
    pub common_name: String,
    /// The groups: the subject's organizations.
    pub organizations: Vec<String>,
    /// The kinds of alternative names that it has.
    pub names: Names,
    /// The DNS names among them.
    pub dns_names: Vec<String>,
    /// The IP addresses among them.
    pub ip_addresses: Vec<IpAddr>,
    /// The subject, as DER.
    pub subject: Vec<u8>,
    /// The public key with its algorithm, as DER.
    pub public_key: Vec<u8>,
    /// The subject's alternative names, as the DER of the extension's value.
    pub alternative_names: Option<Vec<u8>>,
}

/// Kinds of alternative names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, clippy::struct_excessive_bools, reason = "named by what they are, independent of each other")]
pub struct Names {
    pub dns: bool,
    pub ip: bool,
    pub email: bool,
    pub uri: bool,
}

impl Request {
    /// Reads `spec.request`: PEM in base64. The signature must be by the key that the request is for.
    ///
    /// # Errors
    /// The reason why it is not such a request, for people.
    pub fn read(text: &str) -> Result<Self, Refusal> {
        if text.len() > LONGEST {
            return Err(Refusal(format!("the request is longer than {LONGEST} bytes")));
        }
        let pem = STANDARD.decode(text).map_err(|error| Refusal(format!("the request is not base64: {error}")))?;
        let (_, pem) =
            x509_parser::pem::parse_x509_pem(&pem).map_err(|_| Refusal("PEM block type must be CERTIFICATE REQUEST".to_owned()))?;
        if pem.label != "CERTIFICATE REQUEST" && pem.label != "NEW CERTIFICATE REQUEST" {
            return Err(Refusal("PEM block type must be CERTIFICATE REQUEST".to_owned()));
        }
        let (_, parsed) = X509CertificationRequest::from_der(&pem.contents)
            .map_err(|error| Refusal(format!("unable to parse certificate request: {error}")))?;
        parsed.verify_signature().map_err(|error| Refusal(format!("unable to verify the request's signature: {error}")))?;
        let info = &parsed.certification_request_info;
        let text = |value: &x509_parser::x509::AttributeTypeAndValue<'_>| value.as_str().unwrap_or_default().to_owned();
        let mut request = Self {
            common_name: info.subject.iter_common_name().last().map(text).unwrap_or_default(),
            organizations: info.subject.iter_organization().map(text).collect(),
            subject: info.subject.as_raw().to_vec(),
            public_key: info.subject_pki.raw.to_vec(),
            ..Self::default()
        };
        for attribute in info.iter_attributes() {
            let ParsedCriAttribute::ExtensionRequest(asked) = attribute.parsed_attribute() else { continue };
            for extension in asked.extensions.iter().filter(|extension| extension.oid == OID_X509_EXT_SUBJECT_ALT_NAME) {
                request.alternative_names = Some(extension.value.to_vec());
                let ParsedExtension::SubjectAlternativeName(names) = extension.parsed_extension() else {
                    return Err(Refusal("unable to parse the request's subjectAltNames".to_owned()));
                };
                for name in &names.general_names {
                    match name {
                        GeneralName::DNSName(name) => {
                            request.names.dns = true;
                            request.dns_names.push((*name).to_owned());
                        }
                        GeneralName::IPAddress(bytes) => {
                            request.names.ip = true;
                            let address = ip_address(bytes).ok_or_else(|| Refusal("an address of the request is none".to_owned()))?;
                            request.ip_addresses.push(address);
                        }
                        GeneralName::RFC822Name(_) => request.names.email = true,
                        GeneralName::URI(_) => request.names.uri = true,
                        _ => {}
                    }
                }
            }
        }
        Ok(request)
    }
}

/// Reads an address of four or sixteen bytes.
fn ip_address(bytes: &[u8]) -> Option<IpAddr> {
    <[u8; 4]>::try_from(bytes).map(IpAddr::from).or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}
