//! Verification of a service account token as a cloud does it: signature by the issuer's key set, issuer, audience, subject, times (OLM0-TOKEN-21).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey};
use serde_json::Value;

/// The longest token that is looked at.
const MOST_BYTES: usize = 16 * 1024;

/// Claims that a token must have.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// The issuer.
    pub issuer: &'a str,
    /// The audience.
    pub audience: &'a str,
    /// The account, as `system:serviceaccount:NAMESPACE:NAME`.
    pub subject: &'a str,
    /// The present time, in seconds.
    pub now: i64,
}

/// Why a token is not accepted. No message repeats the token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It is no signed token.
    #[error("it is no signed token")]
    Form,
    /// Its key is not in the key set.
    #[error("its key {0:?} is not in the key set of the issuer")]
    UnknownKey(String),
    /// Its algorithm is none that clouds accept.
    #[error("its algorithm {0:?} is not supported; there are ES256 and RS256")]
    Algorithm(String),
    /// Its signature does not fit its key.
    #[error("its signature is not that of the issuer's key")]
    Signature,
    /// A claim is not as it should be.
    #[error("{claim} is {found}, and should be {wanted}")]
    Claim {
        /// The claim.
        claim: &'static str,
        /// Its value.
        found: String,
        /// The expected value.
        wanted: String,
    },
    /// It is too old.
    #[error("it expired {0} seconds ago")]
    Expired(i64),
    /// It is too young.
    #[error("it is valid only in {0} seconds")]
    NotYet(i64),
}

/// Verifies a token, and returns its claims.
///
/// # Errors
/// The first thing that a cloud would refuse.
pub fn verify(token: &str, keys: &Value, expected: &Expected<'_>) -> Result<Value, TokenError> {
    if token.len() > MOST_BYTES {
        return Err(TokenError::Form);
    }
    let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::Form)?;
    let (header, claims) = signed.split_once('.').ok_or(TokenError::Form)?;
    let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| TokenError::Form);
    let json = |text: &str| decode(text).and_then(|bytes| serde_json::from_slice::<Value>(&bytes).map_err(|_| TokenError::Form));
    let (header, claims, signature) = (json(header)?, json(claims)?, decode(signature)?);
    let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
    let id = text(&header, "kid");
    let all = keys["keys"].as_array().map(Vec::as_slice).unwrap_or_default();
    let key = all.iter().find(|key| text(key, "kid") == id).ok_or_else(|| TokenError::UnknownKey(id.clone()))?;
    let part = |field: &str| decode(&text(key, field));
    let algorithm = text(&header, "alg");
    match (algorithm.as_str(), text(key, "kty").as_str()) {
        ("ES256", "EC") => {
            let point = [vec![4], part("x")?, part("y")?].concat();
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(signed.as_bytes(), &signature)
        }
        ("RS256", "RSA") => {
            let key = RsaPublicKeyComponents { n: part("n")?, e: part("e")? };
            key.verify(&RSA_PKCS1_2048_8192_SHA256, signed.as_bytes(), &signature)
        }
        _ => return Err(TokenError::Algorithm(algorithm)),
    }
    .map_err(|_| TokenError::Signature)?;
    for (claim, wanted) in [("iss", expected.issuer), ("sub", expected.subject)] {
        if claims[claim] != wanted {
            return Err(TokenError::Claim { claim, found: claims[claim].to_string(), wanted: format!("{wanted:?}") });
        }
    }
    let fits =
        claims["aud"] == expected.audience || claims["aud"].as_array().is_some_and(|all| all.iter().any(|one| one == expected.audience));
    if !fits {
        let (found, wanted) = (claims["aud"].to_string(), format!("{:?}", expected.audience));
        return Err(TokenError::Claim { claim: "aud", found, wanted });
    }
    let seconds = |claim: &str| claims[claim].as_i64().unwrap_or_default();
    if expected.now >= seconds("exp") {
        return Err(TokenError::Expired(expected.now - seconds("exp")));
    }
    if expected.now < seconds("nbf") {
        return Err(TokenError::NotYet(seconds("nbf") - expected.now));
    }
    Ok(claims)
}
