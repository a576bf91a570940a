//! Verification of tokens.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mainstay_cloud_credential_core::verify::{Expected, TokenError, verify};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};

fn key() -> (EcdsaKeyPair, Value) {
    let random = SystemRandom::new();
    let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.as_ref(), &random).unwrap();
    let point = pair.public_key().as_ref().to_vec();
    let part = |range: std::ops::Range<usize>| URL_SAFE_NO_PAD.encode(&point[range]);
    let keys = json!({"keys": [{"kty": "EC", "crv": "P-256", "alg": "ES256", "kid": "k", "x": part(1..33), "y": part(33..65)}]});
    (pair, keys)
}

fn token(pair: &EcdsaKeyPair, header: &Value, claims: &Value) -> String {
    let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(claims.to_string()));
    let signature = pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

/// OLM0-TOKEN-21: issuer, audience, subject, times and signature are verified, and nothing else than the issuer's keys is believed.
#[test]
fn tokens() {
    let (pair, keys) = key();
    let header = json!({"alg": "ES256", "kid": "k"});
    let claims = json!({"iss": "https://i", "aud": ["openshift"], "sub": "system:serviceaccount:n:a", "exp": 200, "nbf": 100});
    let expected = Expected { issuer: "https://i", audience: "openshift", subject: "system:serviceaccount:n:a", now: 150 };
    let good = token(&pair, &header, &claims);
    assert_eq!(verify(&good, &keys, &expected).unwrap(), claims);
    assert_eq!(verify(&good, &keys, &Expected { now: 200, ..expected }), Err(TokenError::Expired(0)));
    assert_eq!(verify(&good, &keys, &Expected { now: 90, ..expected }), Err(TokenError::NotYet(10)));
    for (wrong, claim) in [
        (Expected { issuer: "https://j", ..expected }, "iss"),
        (Expected { audience: "sts", ..expected }, "aud"),
        (Expected { subject: "system:serviceaccount:n:b", ..expected }, "sub"),
    ] {
        assert!(matches!(verify(&good, &keys, &wrong), Err(TokenError::Claim { claim: found, .. }) if found == claim));
    }
    let (other, _) = key();
    assert_eq!(verify(&token(&other, &header, &claims), &keys, &expected), Err(TokenError::Signature));
    let unknown = token(&pair, &json!({"alg": "ES256", "kid": "z"}), &claims);
    assert_eq!(verify(&unknown, &keys, &expected), Err(TokenError::UnknownKey("z".into())));
    for algorithm in ["none", "HS256", "RS256"] {
        let forged = token(&pair, &json!({"alg": algorithm, "kid": "k"}), &claims);
        assert_eq!(verify(&forged, &keys, &expected), Err(TokenError::Algorithm(algorithm.into())));
    }
    for odd in ["", "a.b", "a.b.c", &"x".repeat(20_000)] {
        assert_eq!(verify(odd, &keys, &expected), Err(TokenError::Form));
    }
}
