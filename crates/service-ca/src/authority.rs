//! The plan for the CA, from the Secret `signing-key` and the time (COP-SCA-04).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::annotations::{EXPIRY, FORCED, spellings};
use crate::certificates::{Authority, pem};
use crate::{Error, NAMESPACE};

/// The Secret of the CA.
pub const SECRET: &str = "signing-key";
/// The ConfigMap with the bundle.
pub const BUNDLE: &str = "signing-cabundle";
/// The lifetime of a CA.
pub const LIFETIME: SignedDuration = SignedDuration::from_hours(790 * 24);
/// The remaining lifetime below which a CA is rotated.
pub const ROTATE_BELOW: SignedDuration = SignedDuration::from_hours(395 * 24);

/// The plan for the CA.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// The CA stays, and is checked again later.
    Keep {
        /// The CA.
        authority: Authority,
        /// The time of the next check.
        again: Timestamp,
    },
    /// A first CA is made, or one that replaces an invalid one.
    Create {
        /// The reason.
        why: String,
    },
    /// A new CA follows this one, and both are trusted.
    Rotate {
        /// The current CA.
        authority: Authority,
        /// The reason.
        why: String,
    },
    /// The CA stays; expired certificates are no longer trusted.
    Forget {
        /// The CA without the expired certificates.
        authority: Authority,
    },
}

/// Plans for the CA. `forced` is the reason that an administrator gave for a rotation; each reason rotates once.
pub fn plan(secret: Option<&Value>, forced: Option<&str>, now: Timestamp) -> Plan {
    let Some(secret) = secret else {
        return Plan::Create { why: "there is none yet".to_owned() };
    };
    let authority = match read(secret) {
        Ok(authority) => authority,
        Err(error) => return Plan::Create { why: error.to_string() },
    };
    let left = authority.certificate.until.duration_since(now);
    if !left.is_positive() {
        return Plan::Create { why: format!("{} ended on {}", authority.certificate.common_name, authority.certificate.until) };
    }
    if left < ROTATE_BELOW {
        let why = format!("{} ends on {}", authority.certificate.common_name, authority.certificate.until);
        return Plan::Rotate { authority, why };
    }
    let done = secret.pointer("/metadata/annotations").and_then(|all| all.get(FORCED)).and_then(Value::as_str);
    if let Some(reason) = forced.filter(|reason| !reason.is_empty() && Some(*reason) != done) {
        return Plan::Rotate { authority, why: format!("asked for: {reason}") };
    }
    if let Some(authority) = authority.without_ended(now) {
        return Plan::Forget { authority };
    }
    let rotation = authority.certificate.until.checked_sub(ROTATE_BELOW).unwrap_or(now);
    let ends = authority.bundle.iter().chain(&authority.intermediate).map(|each| each.until);
    let again = ends.fold(rotation, Timestamp::min);
    Plan::Keep { authority, again }
}

/// Returns the end of a CA that is made now.
pub fn ends(now: Timestamp) -> Timestamp {
    now.checked_add(LIFETIME).unwrap_or(Timestamp::MAX)
}

/// Reads the CA from its Secret.
pub fn read(secret: &Value) -> Result<Authority, Error> {
    let missing = |key: &str| Error::Authority { problem: format!("the Secret has no {key}") };
    let certificate = data(secret, "tls.crt").ok_or_else(|| missing("tls.crt"))?;
    let key = data(secret, "tls.key").and_then(|key| String::from_utf8(key).ok()).ok_or_else(|| missing("tls.key"))?;
    let (intermediate, bundle) = (data(secret, "intermediate-ca.crt"), data(secret, "ca-bundle.crt"));
    Authority::read(&certificate, &key, intermediate.as_deref(), bundle.as_deref())
}

/// Returns the bytes of a Secret's key; `None` if it is missing, empty or not base64.
pub(crate) fn data(secret: &Value, key: &str) -> Option<Vec<u8>> {
    let text = secret.get("data")?.get(key)?.as_str()?;
    STANDARD.decode(text).ok().filter(|bytes| !bytes.is_empty())
}

/// Builds the Secret that holds a CA. It also keeps the reason of a forced rotation, so that each is done once.
pub fn secret(authority: &Authority, forced: Option<&str>) -> Value {
    let mut data = json!({
        "tls.crt": STANDARD.encode(authority.certificate.pem()),
        "tls.key": STANDARD.encode(authority.key()),
        "ca-bundle.crt": STANDARD.encode(authority.bundle_pem()),
    });
    if let Some(intermediate) = &authority.intermediate {
        data["intermediate-ca.crt"] = json!(STANDARD.encode(pem(std::slice::from_ref(intermediate))));
    }
    let mut annotations = json!({});
    for name in spellings(EXPIRY) {
        annotations[name] = json!(authority.certificate.until.to_string());
    }
    if let Some(reason) = forced {
        annotations[FORCED] = json!(reason);
    }
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": SECRET, "namespace": NAMESPACE, "annotations": annotations},
        "data": data,
    })
}

/// Builds the ConfigMap with the bundle, for users to copy.
pub fn bundle(authority: &Authority) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": BUNDLE, "namespace": NAMESPACE},
        "data": {"ca-bundle.crt": authority.bundle_pem()},
    })
}

/// Returns the reason for a forced rotation in `servicecas.operator.openshift.io/cluster`.
pub fn forced_reason(config: &Value) -> Option<&str> {
    config.pointer("/spec/unsupportedConfigOverrides/forceRotation/reason").and_then(Value::as_str).filter(|reason| !reason.is_empty())
}
