//! Certificates for approved requests. They are encoded here and not by `rcgen`, which keeps only one value of each attribute of a
//! name: a user in two groups has two organizations.

use std::fmt;

use jiff::Timestamp;
use rcgen::{KeyPair, SigningKey as _};
use x509_parser::extensions::ParsedExtension;
use yasna::models::ObjectIdentifier;
use yasna::{DERWriter, Tag};

use super::request::Request;

/// Why a CA cannot sign.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidAuthority(String);

/// The CA that signs: its certificate and its key.
pub struct Authority {
    pem: String,
    key: KeyPair,
    subject: Vec<u8>,
    key_identifier: Option<Vec<u8>>,
    expires: Timestamp,
}

impl fmt::Debug for Authority {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Authority").field("expires", &self.expires).finish_non_exhaustive()
    }
}

/// The terms of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms<'a> {
    /// The start of its validity.
    pub from: Timestamp,
    /// The end of its validity, unless the CA's own end comes first.
    pub until: Timestamp,
    /// The usages, in the terms of CertificateSigningRequests.
    pub usages: &'a [&'a str],
    /// The serial number, unique among all certificates.
    pub serial: [u8; 16],
}

type Der = Vec<u8>;

impl Authority {
    /// Reads a CA from PEM texts.
    ///
    /// # Errors
    /// The problem with them, for people.
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, InvalidAuthority> {
        let key = KeyPair::from_pem(key).map_err(|error| InvalidAuthority(format!("the CA's key cannot be read: {error}")))?;
        let (_, pem) = x509_parser::pem::parse_x509_pem(certificate.as_bytes())
            .map_err(|error| InvalidAuthority(format!("the CA's certificate is no PEM: {error}")))?;
        let parsed = pem.parse_x509().map_err(|error| InvalidAuthority(format!("the CA's certificate cannot be read: {error}")))?;
        let mut identifiers = parsed.extensions().iter().filter_map(|extension| match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(identifier) => Some(identifier.0.to_vec()),
            _ => None,
        });
        let expires =
            Timestamp::from_second(parsed.validity().not_after.timestamp()).map_err(|error| InvalidAuthority(error.to_string()))?;
        let (subject, key_identifier) = (parsed.subject().as_raw().to_vec(), identifiers.next());
        Ok(Self { pem: certificate.to_owned(), key, subject, key_identifier, expires })
    }

    /// Returns its certificate.
    pub fn certificate(&self) -> &str {
        &self.pem
    }

    /// Issues a certificate for a request, as PEM.
    ///
    /// # Errors
    /// The reason why the key cannot sign.
    pub fn issue(&self, request: &Request, terms: &Terms<'_>) -> Result<String, InvalidAuthority> {
        let algorithm = self.algorithm()?;
        let body = yasna::construct_der(|writer| self.body(writer, &algorithm, request, terms));
        let signature = self.key.sign(&body).map_err(|error| InvalidAuthority(format!("the CA's key does not sign: {error}")))?;
        let whole = yasna::construct_der(|writer| {
            writer.write_sequence(|writer| {
                writer.next().write_der(&body);
                writer.next().write_der(&algorithm);
                writer.next().write_bitvec_bytes(&signature, signature.len() * 8);
            });
        });
        Ok(pem("CERTIFICATE", &whole))
    }

    fn algorithm(&self) -> Result<Der, InvalidAuthority> {
        let (identifier, null): (&[u64], bool) = match self.key.algorithm() {
            known if known == &rcgen::PKCS_ECDSA_P256_SHA256 => (&[1, 2, 840, 10045, 4, 3, 2], false),
            known if known == &rcgen::PKCS_ECDSA_P384_SHA384 => (&[1, 2, 840, 10045, 4, 3, 3], false),
            known if known == &rcgen::PKCS_ED25519 => (&[1, 3, 101, 112], false),
            known if known == &rcgen::PKCS_RSA_SHA256 => (&[1, 2, 840, 113_549, 1, 1, 11], true),
            _ => return Err(InvalidAuthority("the CA's key is of a kind that is not signed with".to_owned())),
        };
        Ok(yasna::construct_der(|writer| {
            writer.write_sequence(|writer| {
                writer.next().write_oid(&ObjectIdentifier::from_slice(identifier));
                if null {
                    writer.next().write_null();
                }
            });
        }))
    }

    /// RFC 5280, 4.1: TBSCertificate.
    fn body(&self, writer: DERWriter<'_>, algorithm: &[u8], request: &Request, terms: &Terms<'_>) {
        writer.write_sequence(|writer| {
            writer.next().write_tagged(Tag::context(0), |writer| writer.write_u8(2));
            writer.next().write_bigint_bytes(&terms.serial, true);
            writer.next().write_der(algorithm);
            writer.next().write_der(&self.subject);
            writer.next().write_sequence(|writer| {
                writer.next().write_der(&time(terms.from));
                writer.next().write_der(&time(terms.until.min(self.expires)));
            });
            writer.next().write_der(&request.subject);
            writer.next().write_der(&request.public_key);
            writer.next().write_tagged(Tag::context(3), |writer| {
                writer.write_sequence(|writer| {
                    let mut add = |identifier: &[u64], critical: bool, value: &[u8]| {
                        writer.next().write_sequence(|writer| {
                            writer.next().write_oid(&ObjectIdentifier::from_slice(identifier));
                            if critical {
                                writer.next().write_bool(true);
                            }
                            writer.next().write_bytes(value);
                        });
                    };
                    if let Some(bits) = key_usage(terms.usages) {
                        add(&[2, 5, 29, 15], true, &bits);
                    }
                    if let Some(list) = extended_usage(terms.usages) {
                        add(&[2, 5, 29, 37], false, &list);
                    }
                    // Not a CA: the sequence of its constraints is empty.
                    add(&[2, 5, 29, 19], true, &yasna::construct_der(|writer| writer.write_sequence(|_| {})));
                    if let Some(identifier) = &self.key_identifier {
                        let value = yasna::construct_der(|writer| {
                            writer.write_sequence(|writer| {
                                writer.next().write_tagged_implicit(Tag::context(0), |writer| writer.write_bytes(identifier));
                            });
                        });
                        add(&[2, 5, 29, 35], false, &value);
                    }
                    if let Some(names) = &request.alternative_names {
                        add(&[2, 5, 29, 17], false, names);
                    }
                });
            });
        });
    }
}

/// Encodes a time: the year has two digits until 2049, four afterwards (RFC 5280, 4.1.2.5).
fn time(at: Timestamp) -> Der {
    let zoned = at.to_zoned(jiff::tz::TimeZone::UTC);
    let (tag, text) = if zoned.year() < 2050 {
        (0x17, zoned.strftime("%y%m%d%H%M%SZ").to_string())
    } else {
        (0x18, zoned.strftime("%Y%m%d%H%M%SZ").to_string())
    };
    let mut der = vec![tag, u8::try_from(text.len()).unwrap_or_default()];
    der.extend_from_slice(text.as_bytes());
    der
}

fn key_usage(usages: &[&str]) -> Option<Der> {
    const NAMES: [&[&str]; 9] = [
        &["digital signature", "signing"],
        &["content commitment"],
        &["key encipherment"],
        &["data encipherment"],
        &["key agreement"],
        &["cert sign"],
        &["crl sign"],
        &["encipher only"],
        &["decipher only"],
    ];
    let mut bytes = [0_u8; 2];
    let mut last = None;
    for (bit, names) in NAMES.iter().enumerate() {
        if names.iter().any(|name| usages.contains(name)) {
            bytes[bit / 8] |= 0x80 >> (bit % 8);
            last = Some(bit);
        }
    }
    last.map(|last| yasna::construct_der(|writer| writer.write_bitvec_bytes(&bytes[..=last / 8], last + 1)))
}

fn extended_usage(usages: &[&str]) -> Option<Der> {
    const NAMES: [(&str, &[u64]); 13] = [
        ("any", &[2, 5, 29, 37, 0]),
        ("server auth", &[1, 3, 6, 1, 5, 5, 7, 3, 1]),
        ("client auth", &[1, 3, 6, 1, 5, 5, 7, 3, 2]),
        ("code signing", &[1, 3, 6, 1, 5, 5, 7, 3, 3]),
        ("email protection", &[1, 3, 6, 1, 5, 5, 7, 3, 4]),
        ("s/mime", &[1, 3, 6, 1, 5, 5, 7, 3, 4]),
        ("ipsec end system", &[1, 3, 6, 1, 5, 5, 7, 3, 5]),
        ("ipsec tunnel", &[1, 3, 6, 1, 5, 5, 7, 3, 6]),
        ("ipsec user", &[1, 3, 6, 1, 5, 5, 7, 3, 7]),
        ("timestamping", &[1, 3, 6, 1, 5, 5, 7, 3, 8]),
        ("ocsp signing", &[1, 3, 6, 1, 5, 5, 7, 3, 9]),
        ("microsoft sgc", &[1, 3, 6, 1, 4, 1, 311, 10, 3, 3]),
        ("netscape sgc", &[2, 16, 840, 1, 113_730, 4, 1]),
    ];
    let all: Vec<&[u64]> = NAMES.iter().filter(|(name, _)| usages.contains(name)).map(|(_, identifier)| *identifier).collect();
    (!all.is_empty()).then(|| {
        yasna::construct_der(|writer| {
            writer.write_sequence(|writer| {
                for identifier in &all {
                    writer.next().write_oid(&ObjectIdentifier::from_slice(identifier));
                }
            });
        })
    })
}

fn pem(label: &str, der: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    for line in text.as_bytes().chunks(64) {
        // Base64 is ASCII.
        pem.push_str(&String::from_utf8_lossy(line));
        pem.push('\n');
    }
    pem + "-----END " + label + "-----\n"
}
