//! Signed tokens in the compact form (RFC 7515), ES256 only: the one algorithm that our own keys use.
//!
//! A verifier that knows a single algorithm cannot be talked into another by a token's header.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey};
use serde_json::{Value, json};

use super::pki::PkiError;

/// Longest token that is looked at.
const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// The key that signs ServiceAccount tokens.
pub struct SigningKey {
    pair: EcdsaKeyPair,
    public: Vec<u8>,
    id: String,
    random: SystemRandom,
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl SigningKey {
    /// From a P-256 key in PKCS#8.
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, PkiError> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &random)
            .map_err(|e| PkiError::Key { what: "service-account signing key", detail: e.to_string() })?;
        let public = pair.public_key().as_ref().to_vec();
        let id = URL_SAFE_NO_PAD.encode(ring::digest::digest(&ring::digest::SHA256, &public));
        Ok(Self { pair, public, id, random })
    }

    /// A token with these claims.
    pub fn sign(&self, claims: &Value) -> Result<String, PkiError> {
        let header = json!({ "alg": "ES256", "kid": self.id });
        let mut token = format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(claims.to_string()));
        let signature = self
            .pair
            .sign(&self.random, token.as_bytes())
            .map_err(|e| PkiError::Key { what: "service-account signing key", detail: e.to_string() })?;
        token.push('.');
        token.push_str(&URL_SAFE_NO_PAD.encode(signature));
        Ok(token)
    }

    /// The claims of a token that this key signed; `None` for anything else.
    pub fn verify(&self, token: &str) -> Option<Value> {
        if token.len() > MAX_TOKEN_BYTES {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let header: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).ok()?).ok()?;
        if header.get("alg").and_then(Value::as_str) != Some("ES256") {
            return None;
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.public).verify(signed.as_bytes(), &signature).ok()?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
    }

    /// The public key as a JSON Web Key Set, for `/openid/v1/jwks`.
    pub fn jwks(&self) -> Value {
        // An uncompressed point: one byte of form, then 32 bytes each of x and y.
        let (x, y) = (self.public.get(1..33).unwrap_or_default(), self.public.get(33..65).unwrap_or_default());
        json!({ "keys": [{
            "use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": "ES256",
            "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y),
        }] })
    }
}

/// Returns whether a bearer token has the shape of a signed one.
pub(super) fn looks_signed(token: &str) -> bool {
    token.split('.').count() == 3
}

/// The issuer that a token names, before anything is verified.
pub(super) fn unverified_issuer(token: &str) -> Option<String> {
    if token.len() > MAX_TOKEN_BYTES {
        return None;
    }
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?).ok()?;
    claims.get("iss")?.as_str().map(str::to_owned)
}
