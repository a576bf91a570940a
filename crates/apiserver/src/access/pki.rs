//! Certificates and keys of the data directory (KAPI-SRV-01).
//!
//! `pki/` holds the CA, what it signed, a second CA for requests that the aggregation layer sends on, and the key of ServiceAccount
//! tokens. A CA is written once and never again: everything that trusts it would break. What a CA signed is made again when less than
//! [`RENEW_BELOW_DAYS`] remain, when it does not fit its CA, or when it lacks a wanted name.

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use jiff::{Timestamp, ToSpan as _, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use x509_parser::extensions::GeneralName;
use x509_parser::pem::Pem;
use x509_parser::prelude::X509Certificate;

use super::jws::SigningKey;
use super::kubeconfig::write_private;

/// Why a text is no certificate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidCertificate(String);

/// Days of validity below which a certificate is renewed on start.
pub const RENEW_BELOW_DAYS: i64 = 30;
const CA_DAYS: i64 = 3650;
const LEAF_DAYS: i64 = 365;

/// The data directory's keys cannot be read, made or written.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Half of a CA is there; making a new one would break whoever trusts the old.
    #[error("{} exists but {} does not; restore it, or remove both so that a new CA is made", present.display(), missing.display())]
    HalfPair {
        /// The file that is there.
        present: PathBuf,
        /// The file that is not.
        missing: PathBuf,
    },
    /// A CA is no longer valid.
    #[error("the CA in {} expired on {expired}; remove it and its key so that a new CA is made", path.display())]
    CaExpired {
        /// The file.
        path: PathBuf,
        /// Its end.
        expired: Timestamp,
    },
    /// A file holds something that cannot be used.
    #[error("{} cannot be used: {detail}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The problem.
        detail: String,
    },
    /// A key cannot be used.
    #[error("{what} cannot be used: {detail}")]
    Key {
        /// Its name.
        what: &'static str,
        /// The problem.
        detail: String,
    },
    /// A certificate cannot be made.
    #[error("cannot make the certificate of {subject}")]
    Make {
        /// For whom.
        subject: String,
        /// Why.
        source: rcgen::Error,
    },
}

/// A certificate and its key, both PEM.
#[derive(Clone)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: String,
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pair").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// Names that the serving certificate must have besides the usual ones.
#[derive(Debug, Clone, Default)]
pub struct ServingNames {
    /// The host's own name, where known.
    pub host: Option<String>,
    /// Addresses that are listened on, and that of the Service `kubernetes`.
    pub addresses: Vec<IpAddr>,
    /// Further DNS names.
    pub names: Vec<String>,
}

impl ServingNames {
    fn all(&self) -> BTreeSet<String> {
        let usual = [
            "localhost",
            "127.0.0.1",
            "::1",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
        ];
        let mut all: BTreeSet<String> = usual.iter().map(|s| (*s).to_owned()).collect();
        all.extend(self.host.clone().filter(|h| !h.is_empty() && h.is_ascii()));
        all.extend(self.addresses.iter().filter(|a| !a.is_unspecified()).map(ToString::to_string));
        all.extend(self.names.iter().cloned());
        all
    }
}

/// Everything in `pki/`.
#[derive(Debug)]
pub struct Pki {
    /// The CA that clients trust and that signs client certificates.
    pub ca: Pair,
    /// The serving certificate.
    pub serving: Pair,
    /// A client certificate of `system:masters`.
    pub admin: Pair,
    /// The CA of requests that the aggregation layer sends on.
    pub front_proxy_ca: Pair,
    /// The aggregation layer's client certificate.
    pub front_proxy: Pair,
    /// The key of ServiceAccount tokens.
    pub signing_key: SigningKey,
}

impl Pki {
    /// Reads what is there, makes what is missing, renews what runs out.
    pub fn open(data_dir: &Path, names: &ServingNames, now: Timestamp) -> Result<Self, PkiError> {
        let dir = data_dir.join("pki");
        Self::open_in(&dir, &dir, names, now)
    }

    /// The same with what several servers have in common (CAs, token key, client certificates) in a folder of its own; the serving
    /// certificate is each server's. Servers that start at the same time wait for one another.
    pub fn open_in(common: &Path, own: &Path, names: &ServingNames, now: Timestamp) -> Result<Self, PkiError> {
        for dir in [common, own] {
            let failed = |source| PkiError::Write { path: dir.to_owned(), source };
            fs::create_dir_all(dir).map_err(failed)?;
            #[cfg(unix)]
            fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o700)).map_err(failed)?;
        }
        let path = common.join("lock");
        let failed = |source| PkiError::Write { path: path.clone(), source };
        let lock = fs::File::options().write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        // Let go of when this function ends.
        lock.lock().map_err(failed)?;
        let ca = authority(common, "ca", "mainstay-ca", now)?;
        let front_proxy_ca = authority(common, "front-proxy-ca", "mainstay-front-proxy-ca", now)?;
        Ok(Self {
            serving: leaf(own, "apiserver", &ca, &Subject::server("kube-apiserver", names.all()), now)?,
            admin: leaf(common, "admin", &ca, &Subject::client("admin", Some("system:masters")), now)?,
            front_proxy: leaf(common, "front-proxy-client", &front_proxy_ca, &Subject::client("front-proxy-client", None), now)?,
            signing_key: signing_key(common)?,
            ca,
            front_proxy_ca,
        })
    }

    /// A client certificate for someone else, in one group or none, signed by the CA and kept nowhere.
    pub fn client(&self, user: &str, group: Option<&str>, now: Timestamp) -> Result<Pair, PkiError> {
        issue(&self.ca, &Subject::client(user, group), now)
    }
}

/// The host's name as the kernel knows it; for [`ServingNames::host`].
pub fn host_name() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

struct Subject {
    common_name: String,
    organization: Option<String>,
    names: BTreeSet<String>,
    usage: ExtendedKeyUsagePurpose,
}

impl Subject {
    fn server(common_name: &str, names: BTreeSet<String>) -> Self {
        Self { common_name: common_name.to_owned(), organization: None, names, usage: ExtendedKeyUsagePurpose::ServerAuth }
    }

    fn client(common_name: &str, organization: Option<&str>) -> Self {
        Self {
            common_name: common_name.to_owned(),
            organization: organization.map(str::to_owned),
            names: BTreeSet::new(),
            usage: ExtendedKeyUsagePurpose::ClientAuth,
        }
    }
}

struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

impl Files {
    fn new(dir: &Path, name: &str) -> Self {
        Self { certificate: dir.join(format!("{name}.crt")), key: dir.join(format!("{name}.key")) }
    }

    /// Both, neither, or an error about the half that is missing.
    fn read(&self) -> Result<Option<Pair>, PkiError> {
        match (read_optional(&self.certificate)?, read_optional(&self.key)?) {
            (Some(certificate), Some(key)) => Ok(Some(Pair { certificate, key })),
            (None, None) => Ok(None),
            (Some(_), None) => Err(PkiError::HalfPair { present: self.certificate.clone(), missing: self.key.clone() }),
            (None, Some(_)) => Err(PkiError::HalfPair { present: self.key.clone(), missing: self.certificate.clone() }),
        }
    }

    fn write(&self, pair: &Pair) -> Result<(), PkiError> {
        write_private(&self.key, pair.key.as_bytes())?;
        write_private(&self.certificate, pair.certificate.as_bytes())
    }
}

fn read_optional(path: &Path) -> Result<Option<String>, PkiError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(PkiError::Read { path: path.to_owned(), source }),
    }
}

fn authority(dir: &Path, name: &str, common_name: &str, now: Timestamp) -> Result<Pair, PkiError> {
    let files = Files::new(dir, name);
    if let Some(pair) = files.read()? {
        let expires =
            expiry(&pair.certificate).map_err(|error| PkiError::Unusable { path: files.certificate.clone(), detail: error.to_string() })?;
        if expires <= now {
            return Err(PkiError::CaExpired { path: files.certificate, expired: expires });
        }
        return Ok(pair);
    }
    let failed = |source| PkiError::Make { subject: common_name.to_owned(), source };
    let key = KeyPair::generate().map_err(failed)?;
    let mut params = params(common_name, None, now, CA_DAYS);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let certificate = params.self_signed(&key).map_err(failed)?;
    let pair = Pair { certificate: certificate.pem(), key: key.serialize_pem() };
    files.write(&pair)?;
    Ok(pair)
}

fn leaf(dir: &Path, name: &str, ca: &Pair, subject: &Subject, now: Timestamp) -> Result<Pair, PkiError> {
    let files = Files::new(dir, name);
    // A leaf is cheap: whatever cannot be used is made again.
    let (certificate, key) = (read_optional(&files.certificate)?, read_optional(&files.key)?);
    if let (Some(certificate), Some(key)) = (certificate, key)
        && still_good(&certificate, &key, ca, subject, now)
    {
        return Ok(Pair { certificate, key });
    }
    let pair = issue(ca, subject, now)?;
    files.write(&pair)?;
    Ok(pair)
}

fn issue(ca: &Pair, subject: &Subject, now: Timestamp) -> Result<Pair, PkiError> {
    let failed = |source| PkiError::Make { subject: subject.common_name.clone(), source };
    let ca_key = KeyPair::from_pem(&ca.key).map_err(failed)?;
    let issuer = Issuer::from_ca_cert_pem(&ca.certificate, ca_key).map_err(failed)?;
    let key = KeyPair::generate().map_err(failed)?;
    let mut params = params(&subject.common_name, subject.organization.as_deref(), now, LEAF_DAYS);
    let named = CertificateParams::new(subject.names.iter().cloned().collect::<Vec<_>>()).map_err(failed)?;
    params.subject_alt_names = named.subject_alt_names;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![subject.usage.clone()];
    params.use_authority_key_identifier_extension = true;
    let certificate = params.signed_by(&key, &issuer).map_err(failed)?;
    Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
}

fn params(common_name: &str, organization: Option<&str>, now: Timestamp, days: i64) -> CertificateParams {
    let mut params = CertificateParams::default();
    let mut name = DistinguishedName::new();
    if let Some(organization) = organization {
        name.push(DnType::OrganizationName, organization);
    }
    name.push(DnType::CommonName, common_name);
    params.distinguished_name = name;
    // A day back, for clocks that differ; certificates are dated by the day.
    let (from, until) = (day(now, -1), day(now, days));
    params.not_before = rcgen::date_time_ymd(from.0, from.1, from.2);
    params.not_after = rcgen::date_time_ymd(until.0, until.1, until.2);
    params
}

fn day(now: Timestamp, days: i64) -> (i32, u8, u8) {
    let date = now.to_zoned(TimeZone::UTC).date().saturating_add(days.days());
    (i32::from(date.year()), date.month().unsigned_abs(), date.day().unsigned_abs())
}

fn still_good(certificate: &str, key: &str, ca: &Pair, subject: &Subject, now: Timestamp) -> bool {
    let (Ok(leaf), Ok(authority)) = (parse_pem(certificate), parse_pem(&ca.certificate)) else { return false };
    let (Ok(leaf), Ok(authority)) = (leaf.parse_x509(), authority.parse_x509()) else { return false };
    let Ok(pair) = KeyPair::from_pem(key) else { return false };
    let remaining = leaf.validity().not_after.timestamp() - now.as_second();
    remaining >= RENEW_BELOW_DAYS * 24 * 3600
        && leaf.validity().not_before.timestamp() <= now.as_second()
        && leaf.public_key().subject_public_key.data.as_ref() == pair.public_key_raw()
        && leaf.verify_signature(Some(authority.public_key())).is_ok()
        && leaf.subject().iter_common_name().next().and_then(|n| n.as_str().ok()) == Some(subject.common_name.as_str())
        && names_of(&leaf).is_superset(&subject.names)
}

fn names_of(certificate: &X509Certificate<'_>) -> BTreeSet<String> {
    let Ok(Some(extension)) = certificate.subject_alternative_name() else { return BTreeSet::new() };
    let names = extension.value.general_names.iter().filter_map(|name| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => <[u8; 4]>::try_from(*bytes).ok().map(|b| IpAddr::from(b).to_string()),
            16 => <[u8; 16]>::try_from(*bytes).ok().map(|b| IpAddr::from(b).to_string()),
            _ => None,
        },
        _ => None,
    });
    names.collect()
}

fn parse_pem(text: &str) -> Result<Pem, InvalidCertificate> {
    x509_parser::pem::parse_x509_pem(text.as_bytes()).map(|(_, pem)| pem).map_err(|e| InvalidCertificate(e.to_string()))
}

/// The end of a PEM certificate.
pub fn expiry(certificate: &str) -> Result<Timestamp, InvalidCertificate> {
    let pem = parse_pem(certificate)?;
    let parsed = pem.parse_x509().map_err(|e| InvalidCertificate(e.to_string()))?;
    Timestamp::from_second(parsed.validity().not_after.timestamp()).map_err(|e| InvalidCertificate(e.to_string()))
}

fn signing_key(dir: &Path) -> Result<SigningKey, PkiError> {
    let path = dir.join("sa.key");
    let pem = if let Some(pem) = read_optional(&path)? {
        pem
    } else {
        let made = KeyPair::generate().map_err(|source| PkiError::Make { subject: "service accounts".to_owned(), source })?;
        write_private(&dir.join("sa.pub"), made.public_key_pem().as_bytes())?;
        write_private(&path, made.serialize_pem().as_bytes())?;
        made.serialize_pem()
    };
    let key = KeyPair::from_pem(&pem).map_err(|e| PkiError::Unusable { path: path.clone(), detail: e.to_string() })?;
    SigningKey::from_pkcs8(key.serialized_der()).map_err(|e| PkiError::Unusable { path, detail: e.to_string() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    /// KAPI-SRV-01: the CA is made once; what it signed is renewed when it runs out or lacks a name.
    #[test]
    fn made_once_and_renewed() {
        let dir = tempfile::tempdir().unwrap();
        let now = Timestamp::now();
        let names = ServingNames { host: Some("box".to_owned()), ..ServingNames::default() };
        let first = Pki::open(dir.path(), &names, now).unwrap();
        let pem = parse_pem(&first.serving.certificate).unwrap();
        let found = names_of(&pem.parse_x509().unwrap());
        for name in ["localhost", "127.0.0.1", "::1", "box", "kubernetes.default.svc"] {
            assert!(found.contains(name), "{name}");
        }
        let again = Pki::open(dir.path(), &names, now).unwrap();
        assert_eq!(again.ca.certificate, first.ca.certificate);
        assert_eq!(again.serving.certificate, first.serving.certificate);
        assert_eq!(again.admin.certificate, first.admin.certificate);
        assert_eq!(again.signing_key.jwks(), first.signing_key.jwks());

        let later = now.checked_add((24 * 340).hours()).unwrap();
        let renewed = Pki::open(dir.path(), &names, later).unwrap();
        assert_eq!(renewed.ca.certificate, first.ca.certificate);
        assert_ne!(renewed.serving.certificate, first.serving.certificate);
        assert_ne!(renewed.admin.certificate, first.admin.certificate);

        let more = ServingNames { addresses: vec!["10.0.0.7".parse().unwrap()], ..names.clone() };
        let wider = Pki::open(dir.path(), &more, later).unwrap();
        assert_ne!(wider.serving.certificate, renewed.serving.certificate);
        assert_eq!(wider.admin.certificate, renewed.admin.certificate);

        fs::remove_file(dir.path().join("pki/ca.key")).unwrap();
        let refused = Pki::open(dir.path(), &names, now).unwrap_err().to_string();
        assert!(refused.contains("ca.crt exists but") && refused.contains("ca.key does not"), "{refused}");
        assert_eq!(fs::read_to_string(dir.path().join("pki/ca.crt")).unwrap(), first.ca.certificate);
    }

    /// KAPI-SRV-01: keys are for their owner alone.
    #[cfg(unix)]
    #[test]
    fn private_files() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let pki = Pki::open(dir.path(), &ServingNames::default(), Timestamp::now()).unwrap();
        let path = dir.path().join("kubeconfig");
        let kubeconfig = super::super::Kubeconfig {
            name: "mainstay",
            server: "https://127.0.0.1:6443",
            user: "admin",
            ca: &pki.ca.certificate,
            certificate: &pki.admin.certificate,
            key: &pki.admin.key,
        };
        kubeconfig.write(&path).unwrap();
        for file in [path, dir.path().join("pki/ca.key"), dir.path().join("pki/sa.key")] {
            assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "{}", file.display());
        }
    }
}
