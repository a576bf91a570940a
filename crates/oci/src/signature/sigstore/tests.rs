//! Signatures, logs and certificates that are made here.
#![allow(clippy::unwrap_used)]

use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
    SigningKey as _, date_time_ymd,
};
use serde_json::json;

use super::*;
use crate::digest::Digest;
use crate::signature::identity::SignedIdentity;

const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// 2024-05-05; the certificates below are good in 2024.
const THEN: u64 = 1_714_900_000;
const LATER: u64 = 1_800_000_000;

fn payload() -> Vec<u8> {
    let critical = json!({"type": "cosign container image signature", "image": {"docker-manifest-digest": DIGEST},
        "identity": {"docker-reference": "q.example/a"}});
    json!({"critical": critical, "optional": null}).to_string().into_bytes()
}

/// The annotations of a signature by the key.
fn signed(key: &KeyPair) -> BTreeMap<String, String> {
    BTreeMap::from([(SIGNATURE.to_owned(), STANDARD.encode(key.sign(&payload()).unwrap()))])
}

/// What a log answers when it takes a signature in.
fn logged_at(log: &KeyPair, time: u64, pem: &str, annotations: &BTreeMap<String, String>, payload: &[u8]) -> String {
    let record = json!({"apiVersion": "0.0.1", "kind": "hashedrekord", "spec": {
        "data": {"hash": {"algorithm": "sha256", "value": Digest::of(payload).hex()}},
        "signature": {"content": annotations[SIGNATURE], "publicKey": {"content": STANDARD.encode(pem)}}}});
    let entry = json!({"body": STANDARD.encode(record.to_string()), "integratedTime": time, "logIndex": 7, "logID": "c0d2"});
    // The keys of our values are sorted, which is the canonical form of such an entry.
    let promise = STANDARD.encode(log.sign(entry.to_string().as_bytes()).unwrap());
    json!({"SignedEntryTimestamp": promise, "Payload": entry}).to_string()
}

fn inline(pem: &str) -> Material {
    Material::Inline(pem.as_bytes().to_vec())
}

fn trusted(trust: Trust) -> Result<Trusted, Rejection> {
    Trusted::read(&SigstoreSigned { trust, identity: SignedIdentity::MatchRepository })
}

fn opened(trust: Trust, annotations: &BTreeMap<String, String>) -> Result<(), Rejection> {
    trusted(trust)?.open(&payload(), annotations, THEN).map(|found| assert_eq!(found.digest.as_str(), DIGEST))
}

fn keys(keys: &[&KeyPair], logs: &[&KeyPair]) -> Trust {
    let pem = |pairs: &[&KeyPair]| pairs.iter().map(|pair| inline(&pair.public_key_pem())).collect();
    Trust::Keys { keys: pem(keys), rekor: pem(logs) }
}

/// OLM1-GEN-12: one of the keys has to have signed; where a log is named, it has to hold the signature, too.
#[test]
fn keys_and_logs() {
    let [ours, spare, other, log] = std::array::from_fn(|_| KeyPair::generate().unwrap());
    let plain = signed(&ours);
    assert_eq!(opened(keys(&[&ours], &[]), &plain), Ok(()));
    assert_eq!(opened(keys(&[&spare, &ours], &[]), &plain), Ok(()));
    assert!(opened(keys(&[&other], &[]), &plain).unwrap_err().to_string().starts_with("cryptographic signature verification failed"));
    assert_eq!(opened(keys(&[&ours], &[]), &BTreeMap::new()).unwrap_err().to_string(), format!("missing {SIGNATURE} annotation"));
    let odd = BTreeMap::from([(SIGNATURE.to_owned(), "?".to_owned())]);
    assert!(opened(keys(&[&ours], &[]), &odd).unwrap_err().to_string().starts_with("base64 decoding"));

    assert_eq!(opened(keys(&[&ours], &[&log]), &plain).unwrap_err().to_string(), format!("missing {BUNDLE} annotation"));
    let with = |bundle: String| {
        let mut annotations = plain.clone();
        annotations.insert(BUNDLE.to_owned(), bundle);
        annotations
    };
    let good = logged_at(&log, THEN, &ours.public_key_pem(), &plain, &payload());
    assert_eq!(opened(keys(&[&spare, &ours], &[&other, &log]), &with(good.clone())), Ok(()));
    for (bundle, problem) in [
        (logged_at(&other, THEN, &ours.public_key_pem(), &plain, &payload()), "cryptographic signature verification of Rekor SET failed"),
        (good.replace("\"logIndex\":7", "\"logIndex\":8"), "cryptographic signature verification of Rekor SET failed"),
        (good.replace("\"logIndex\":7", "\"logIndex\":7,\"more\":1"), "Unknown key \"more\""),
        (logged_at(&log, THEN, &other.public_key_pem(), &plain, &payload()), "publicKey in Rekor SET does not match"),
        (logged_at(&log, THEN, &ours.public_key_pem(), &signed(&other), &payload()), "signature in Rekor SET does not match"),
        (logged_at(&log, THEN, &ours.public_key_pem(), &plain, b"other"), "payload in Rekor SET does not match"),
        ("{}".to_owned(), "Key \"SignedEntryTimestamp\" missing"),
    ] {
        let error = opened(keys(&[&ours], &[&log]), &with(bundle)).unwrap_err();
        assert!(
            error.to_string().starts_with("No public key verified against the RekorSET: ") && error.to_string().contains(problem),
            "{problem}: {error}"
        );
    }
    let ed25519 = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    assert_eq!(trusted(keys(&[&ours], &[&ed25519])).err().unwrap().to_string(), "Rekor public key 1 is not using ECDSA");
}

/// An authority and certificates of it for keys that sign.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        (params.not_before, params.not_after) = (date_time_ymd(2023, 1, 1), date_time_ymd(2025, 1, 1));
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// A certificate, by default for signing code.
    fn certify(&self, key: &KeyPair, change: impl FnOnce(&mut CertificateParams)) -> String {
        let mut params = CertificateParams::new(["build.example".to_owned()]).unwrap();
        params.subject_alt_names.push(SanType::Rfc822Name("dev@b.example".try_into().unwrap()));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning];
        (params.not_before, params.not_after) = (date_time_ymd(2024, 1, 1), date_time_ymd(2024, 12, 31));
        change(&mut params);
        params.signed_by(key, &self.issuer).unwrap().pem()
    }
}

fn issuer_v1(text: &str) -> CustomExtension {
    CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 57264, 1, 1], text.as_bytes().to_vec())
}

fn issuer_v2(text: &str) -> CustomExtension {
    let mut der = vec![0x0c, u8::try_from(text.len()).unwrap()];
    der.extend_from_slice(text.as_bytes());
    CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 57264, 1, 8], der)
}

/// OLM1-GEN-12: Fulcio's certificates are for one who logged in, and were good when the log took the signature in.
#[test]
fn certificates_of_fulcio() {
    const LOGIN: &str = "https://login.example";
    let (authority, key, log) = (Authority::new(), KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let trust = |email: &str, issuer: &str| Trust::Fulcio {
        authorities: inline(&authority.pem),
        issuer: issuer.to_owned(),
        email: email.to_owned(),
        rekor: vec![inline(&log.public_key_pem())],
    };
    let at = |time: u64, certificate: String| {
        let mut annotations = signed(&key);
        annotations.insert(BUNDLE.to_owned(), logged_at(&log, time, &certificate, &annotations, &payload()));
        annotations.insert(CERTIFICATE.to_owned(), certificate);
        annotations
    };
    let both = |params: &mut CertificateParams| params.custom_extensions = vec![issuer_v1(LOGIN), issuer_v2(LOGIN)];
    let good = authority.certify(&key, both);
    assert_eq!(opened(trust("dev@b.example", LOGIN), &at(THEN, good.clone())), Ok(()));
    let newer = authority.certify(&key, |params| params.custom_extensions = vec![issuer_v2(LOGIN)]);
    assert_eq!(opened(trust("dev@b.example", LOGIN), &at(THEN, newer)), Ok(()));
    let contrary = authority.certify(&key, |params| params.custom_extensions = vec![issuer_v1(LOGIN), issuer_v2("https://x.example")]);
    let foreign = Authority::new().certify(&key, both);
    for (trust, annotations, problem) in [
        (trust("boss@b.example", LOGIN), at(THEN, good.clone()), "Required email \"boss@b.example\" not found (got [\"dev@b.example\"])"),
        (trust("dev@b.example", "https://x.example"), at(THEN, good.clone()), "Unexpected Fulcio OIDC issuer \"https://login.example\""),
        (trust("dev@b.example", LOGIN), at(LATER, good.clone()), "verifying leaf certificate failed"),
        (trust("dev@b.example", LOGIN), at(THEN, foreign), "verifying leaf certificate failed"),
        (trust("dev@b.example", LOGIN), at(THEN, contrary), "inconsistent OIDC issuer extension values"),
        (trust("dev@b.example", LOGIN), at(THEN, authority.certify(&key, |_| {})), "is missing the issuer extension"),
        (trust("dev@b.example", LOGIN), at(THEN, good.repeat(2)), "unexpected multiple certificates"),
        (trust("dev@b.example", LOGIN), signed(&key), "missing dev.sigstore.cosign/bundle annotation"),
    ] {
        let error = opened(trust, &annotations).unwrap_err();
        assert!(error.to_string().contains(problem), "{problem}: {error}");
    }
    // Somebody else's signature beside a good certificate.
    let mut stolen = at(THEN, good);
    stolen.extend(signed(&KeyPair::generate().unwrap()));
    assert_eq!(opened(trust("dev@b.example", LOGIN), &stolen).unwrap_err().to_string(), "signature in Rekor SET does not match");
}

/// OLM1-GEN-12: certificates of an authority of one's own, for a mail address or a host.
#[test]
fn certificates_of_an_authority() {
    let (root, key) = (Authority::new(), KeyPair::generate().unwrap());
    let between_key = KeyPair::generate().unwrap();
    let mut between = CertificateParams::default();
    between.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    between.distinguished_name.push(rcgen::DnType::CommonName, "between");
    (between.not_before, between.not_after) = (date_time_ymd(2023, 1, 1), date_time_ymd(2025, 1, 1));
    let between_pem = between.signed_by(&between_key, &root.issuer).unwrap().pem();
    let below = Authority { pem: between_pem.clone(), issuer: Issuer::new(between, between_key) };

    let trust = |email: Option<&str>, hostname: Option<&str>, intermediates: Option<&str>| Trust::Pki {
        roots: inline(&root.pem),
        intermediates: intermediates.map(inline),
        email: email.map(str::to_owned),
        hostname: hostname.map(str::to_owned),
    };
    let with = |certificate: String, chain: Option<String>| {
        let mut annotations = signed(&key);
        annotations.insert(CERTIFICATE.to_owned(), certificate);
        annotations.extend(chain.map(|chain| (CHAIN.to_owned(), chain)));
        annotations
    };
    let direct = root.certify(&key, |_| {});
    assert_eq!(opened(trust(Some("dev@b.example"), Some("build.example"), None), &with(direct.clone(), None)), Ok(()));
    let indirect = below.certify(&key, |_| {});
    let mail = Some("dev@b.example");
    assert_eq!(opened(trust(mail, None, Some(&between_pem)), &with(indirect.clone(), None)), Ok(()));
    let chain = format!("{between_pem}{}", root.pem);
    assert_eq!(opened(trust(mail, None, None), &with(indirect.clone(), Some(chain))), Ok(()));
    // An authority that has expired vouches for nobody, whatever the certificates below it say.
    let long = root.certify(&key, |params| params.not_after = date_time_ymd(2030, 1, 1));
    let opened_later = trusted(trust(mail, None, None)).unwrap().open(&payload(), &with(long, None), LATER);
    assert_eq!(
        opened_later.unwrap_err().to_string(),
        "verifying leaf certificate failed: the authorities have expired or are not valid yet"
    );
    let servers = root.certify(&key, |params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]);
    for (trust, annotations, problem) in [
        (trust(mail, None, None), with(indirect, None), "verifying leaf certificate failed"),
        (trust(mail, None, None), with(servers, None), "verifying leaf certificate failed"),
        (trust(None, Some("other.example"), None), with(direct.clone(), None), "Unexpected subject hostname"),
        (trust(Some("x@b.example"), None, None), with(direct, None), "Required email \"x@b.example\" not found"),
        (trust(mail, None, None), signed(&key), "missing dev.sigstore.cosign/certificate annotation"),
    ] {
        let error = opened(trust, &annotations).unwrap_err();
        assert!(error.to_string().contains(problem), "{problem}: {error}");
    }
    let empty = Trust::Pki { roots: inline("nothing"), intermediates: None, email: mail.map(str::to_owned), hostname: None };
    assert_eq!(trusted(empty).err().unwrap().to_string(), "error loading PKI CA Roots certificates: there is no certificate");
}
