//! What says who somebody is: tokens and client certificates.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use mainstay_apiserver::access::{ClientAuthority, LiveObject, LivePod, SigningKey, TokenObjects, Tokens};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls_pki_types::CertificateDer;
use serde_json::json;

/// A cluster in which every object that a token names is there.
struct Everything;

impl TokenObjects for Everything {
    fn service_account(&self, _: &str, _: &str) -> Option<LiveObject> {
        Some(LiveObject::default())
    }

    fn pod(&self, _: &str, _: &str) -> Option<LivePod> {
        None
    }

    fn secret(&self, _: &str, _: &str) -> Option<LiveObject> {
        Some(LiveObject::default())
    }

    fn node(&self, _: &str) -> Option<LiveObject> {
        Some(LiveObject::default())
    }
}

/// A key, and one good token of it.
static ISSUER: LazyLock<(Tokens, String)> = LazyLock::new(|| {
    let key = || -> Option<SigningKey> { SigningKey::from_pkcs8(&KEY).ok() };
    let Some(signer) = key() else { panic!("the key is no key") };
    let Some(verifier) = key() else { panic!("the key is no key") };
    let tokens = Tokens::new(verifier);
    let claims = json!({
        "iss": tokens.issuer(), "aud": tokens.audiences(), "exp": 4_000_000_000_i64, "iat": 0, "nbf": 0, "jti": "1",
        "sub": "system:serviceaccount:a:b",
        "kubernetes.io": {"namespace": "a", "serviceaccount": {"name": "b", "uid": ""}},
    });
    match signer.sign(&claims) {
        Ok(token) => (tokens, token),
        Err(error) => panic!("{error}"),
    }
});

static KEY: LazyLock<Vec<u8>> = LazyLock::new(|| key().serialize_der());

fn key() -> KeyPair {
    KeyPair::generate().unwrap_or_else(|error| panic!("{error}"))
}

/// Nobody is anybody by a token that we did not sign. A line `=` in the input stands for the good token.
pub fn tokens(data: &[u8]) {
    let (tokens, good) = &*ISSUER;
    let Ok(text) = std::str::from_utf8(data) else { return };
    let token = text.replace('=', good);
    let identified = tokens.identify(&token, &[], &Everything, Timestamp::UNIX_EPOCH);
    assert_eq!(identified.is_ok(), token == *good, "{token}: {identified:?}");
}

pub fn token_seeds() -> Vec<Vec<u8>> {
    let encoded = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let none = format!("{}.{}.", encoded(r#"{"alg":"none"}"#), encoded(r#"{"sub":"system:serviceaccount:a:b"}"#));
    [none.as_str(), "=", "=.", ".=", "=\n", "a.b.c", "eyJhbGciOiJIUzI1NiJ9.e30.", "..", "= "].map(|text| text.as_bytes().to_vec()).to_vec()
}

/// An authority, and what it signed for a client.
static AUTHORITY: LazyLock<(ClientAuthority, Vec<u8>)> = LazyLock::new(|| {
    let made = || -> Result<_, rcgen::Error> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_key = key();
        let authority = params.self_signed(&authority_key)?;
        let issuer = Issuer::new(params, authority_key);
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "ann");
        params.distinguished_name.push(DnType::OrganizationName, "dev");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let leaf = params.signed_by(&key(), &issuer)?;
        Ok((authority.pem(), leaf.der().to_vec()))
    };
    let (authority, leaf) = made().unwrap_or_else(|error| panic!("{error}"));
    (ClientAuthority::from_pem(&authority).unwrap_or_else(|error| panic!("{error}")), leaf)
});

/// Nobody is anybody by a certificate that the authority did not sign.
pub fn certificates(data: &[u8]) {
    let (authority, good) = &*AUTHORITY;
    let now = Timestamp::from_second(1_800_000_000).unwrap_or_default();
    let leaf = CertificateDer::from(data);
    let identified = authority.identify(&[leaf], now);
    assert_eq!(identified.is_ok(), data == good.as_slice(), "{identified:?}");
    let chain = [CertificateDer::from(good.as_slice()), CertificateDer::from(data)];
    if let Ok(user) = authority.identify(&chain, now) {
        assert_eq!(user.name, "ann");
    }
    if let Ok(text) = std::str::from_utf8(data) {
        // A bundle is the administrator's own; it only must not panic.
        drop(ClientAuthority::from_pem(text));
    }
}

pub fn certificate_seeds() -> Vec<Vec<u8>> {
    let stranger = CertificateParams::default().self_signed(&key()).unwrap_or_else(|error| panic!("{error}"));
    vec![AUTHORITY.1.clone(), stranger.der().to_vec(), stranger.pem().into_bytes(), vec![0x30, 0x84, 0xff, 0xff, 0xff, 0xff]]
}
