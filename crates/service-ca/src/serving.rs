//! The plan for one Service and its Secret (COP-SCA-01, COP-SCA-02).

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::annotations::{ERROR, ERROR_NUMBER, EXPIRY, SECRET_NAME, SERVICE_NAME, SERVICE_UID, SIGNED_BY, patch, read};
use crate::authority::data;
use crate::certificates::{Authority, Certificate, Issued, pem};

/// The lifetime of a serving certificate.
pub const LIFETIME: SignedDuration = SignedDuration::from_hours(2 * 365 * 24);
/// The remaining lifetime below which a certificate is renewed.
pub const RENEW_BELOW: SignedDuration = SignedDuration::from_hours(30 * 24);
/// Failed attempts after which a Service is given up.
pub const TRIES: u32 = 10;
/// The domain of the cluster.
const DOMAIN: &str = "cluster.local";
const TLS: &str = "kubernetes.io/tls";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// The plan for a Service.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// The Service requests no certificate, or is being deleted.
    NotWanted,
    /// The Secret is up to date; the annotations of the Service may still be out of date.
    Keep {
        /// The time of the renewal.
        again: Timestamp,
        /// The merge patch for the Service, if it needs one.
        service: Option<Value>,
    },
    /// A certificate must be issued and written.
    Issue {
        /// The terms of the certificate.
        terms: Terms,
        /// The merge patch for the Service after the Secret is written, if it needs one.
        service: Option<Value>,
    },
    /// The Service cannot have a certificate: its annotations record the error, and the attempt is repeated.
    Refuse {
        /// The reason.
        problem: String,
        /// The merge patch for the Service.
        service: Value,
    },
    /// The attempts are exhausted ([`TRIES`]).
    GivenUp,
}

/// The terms of a certificate: its subject, names and end, and the Secret that receives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The reason for issuing it.
    pub why: String,
    /// The name of the Secret.
    pub secret: String,
    /// The DNS names of the certificate.
    pub names: BTreeSet<String>,
    /// The common name of its subject.
    pub common_name: String,
    /// The end of its validity.
    pub until: Timestamp,
}

/// Returns the name of the Secret that a Service requests for its certificate.
pub fn secret_name(service: &Value) -> Option<&str> {
    read(service, SECRET_NAME).filter(|name| !name.is_empty())
}

/// Returns the DNS names of a Service.
pub fn names(service: &Value) -> BTreeSet<String> {
    let short = format!("{}.{}.svc", text(service, "/metadata/name"), text(service, "/metadata/namespace"));
    let whole = format!("{short}.{DOMAIN}");
    let mut names = BTreeSet::from([short.clone(), whole.clone()]);
    if text(service, "/spec/clusterIP") == "None" {
        names.extend([format!("*.{short}"), format!("*.{whole}")]);
    }
    names
}

/// Plans for a Service, from its Secret, the authority and the time.
pub fn plan(service: &Value, secret: Option<&Value>, authority: &Authority, now: Timestamp) -> Plan {
    let Some(name) = secret_name(service).filter(|_| service.pointer("/metadata/deletionTimestamp").is_none()) else {
        return Plan::NotWanted;
    };
    let why = match secret {
        None if gave_up(service) && read(service, ERROR) != Some(&foreign(service, name)) => return Plan::GivenUp,
        None => "there is no Secret".to_owned(),
        Some(secret) if !is_of(secret, service) => {
            if gave_up(service) {
                return Plan::GivenUp;
            }
            let problem = foreign(service, name);
            return Plan::Refuse { service: failure(service, &problem), problem };
        }
        Some(secret) => match stands(secret, service, authority, now) {
            Ok(until) => {
                let again = until.checked_sub(RENEW_BELOW).unwrap_or(now);
                return Plan::Keep { again, service: success(service, authority) };
            }
            Err(_) if gave_up(service) => return Plan::GivenUp,
            Err(problem) => problem.to_owned(),
        },
    };
    let names = names(service);
    let (short, plain) = (names.iter().find(|name| !name.starts_with('*')), text(service, "/metadata/name"));
    // A common name has at most 64 characters; the names that clients verify have no such limit.
    let common_name = short.filter(|name| name.len() <= 64).map_or(plain, String::as_str).to_owned();
    let until = now.checked_add(LIFETIME).unwrap_or(Timestamp::MAX);
    Plan::Issue { terms: Terms { why, secret: name.to_owned(), names, common_name, until }, service: success(service, authority) }
}

/// Builds the Secret to write: the whole object if there is none yet, otherwise a merge patch of the live one.
pub fn secret(service: &Value, live: Option<&Value>, terms: &Terms, issued: &Issued, authority: &Authority) -> Value {
    let (namespace, uid, name) = (text(service, "/metadata/namespace"), text(service, "/metadata/uid"), text(service, "/metadata/name"));
    let mut owners: Vec<Value> = live.and_then(|live| live.pointer("/metadata/ownerReferences")?.as_array().cloned()).unwrap_or_default();
    owners.retain(|owner| owner["uid"] != uid);
    owners.push(json!({"apiVersion": "v1", "kind": "Service", "name": name, "uid": uid}));
    let chain = issued.certificate.pem() + &pem(&authority.chain());
    let mut content: Map<String, Value> = live.and_then(|live| live.get("data")?.as_object().cloned()).unwrap_or_default();
    content.values_mut().for_each(|value| *value = Value::Null);
    content.insert(CERTIFICATE.into(), json!(STANDARD.encode(chain)));
    content.insert(KEY.into(), json!(STANDARD.encode(&issued.key)));
    let annotations = patch([
        (SERVICE_UID, Some(uid.to_owned())),
        (SERVICE_NAME, Some(name.to_owned())),
        (EXPIRY, Some(issued.certificate.until.to_string())),
    ]);
    let mut object = json!({
        "apiVersion": "v1", "kind": "Secret", "type": TLS, "data": content,
        "metadata": {"name": terms.secret, "namespace": namespace, "annotations": annotations, "ownerReferences": owners},
    });
    if let Some(live) = live {
        // Replaces only the version that was read, never a later one.
        object["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
    }
    object
}

/// Returns the merge patch of a Service that counts one more failed attempt.
pub fn failure(service: &Value, problem: &str) -> Value {
    let number = failures(service) + 1;
    json!({"metadata": {"annotations": patch([(ERROR, Some(problem.to_owned())), (ERROR_NUMBER, Some(number.to_string()))])}})
}

/// Returns the merge patch of a Service that has its certificate; `None` if its annotations are up to date.
fn success(service: &Value, authority: &Authority) -> Option<Value> {
    let wanted = patch([(SIGNED_BY, Some(authority.certificate.common_name.clone())), (ERROR, None), (ERROR_NUMBER, None)]);
    let live = service.pointer("/metadata/annotations").unwrap_or(&Value::Null);
    let differs = wanted.iter().any(|(name, value)| live.get(name).unwrap_or(&Value::Null) != value);
    differs.then(|| json!({"metadata": {"annotations": wanted}}))
}

/// Returns the number of failed attempts. A value that is not a number was not written here, and counts as zero.
fn failures(service: &Value) -> u32 {
    read(service, ERROR_NUMBER).and_then(|number| number.parse().ok()).unwrap_or_default()
}

fn gave_up(service: &Value) -> bool {
    failures(service) >= TRIES
}

fn foreign(service: &Value, secret: &str) -> String {
    let (namespace, uid) = (text(service, "/metadata/namespace"), text(service, "/metadata/uid"));
    format!("secret {namespace}/{secret} does not have corresponding service UID {uid}")
}

fn is_of(secret: &Value, service: &Value) -> bool {
    secret["type"] == TLS && read(secret, SERVICE_UID).is_some_and(|uid| uid == text(service, "/metadata/uid"))
}

/// Returns the end of the certificate in a Secret, or the reason to replace it.
fn stands(secret: &Value, service: &Value, authority: &Authority, now: Timestamp) -> Result<Timestamp, &'static str> {
    let content = secret.get("data").and_then(Value::as_object).ok_or("the Secret is empty")?;
    if content.keys().any(|key| key != CERTIFICATE && key != KEY) {
        return Err("the Secret holds something else");
    }
    let chain = data(secret, CERTIFICATE).and_then(|pem| Certificate::read_all(&pem).ok()).ok_or("its certificate cannot be read")?;
    let [own, rest @ ..] = chain.as_slice() else { return Err("there is no certificate") };
    if !own.is_signed_by(&authority.certificate) {
        return Err("another CA signed its certificate");
    }
    if rest != authority.chain() {
        return Err("its certificate is not followed by the CA");
    }
    let key = data(secret, KEY).and_then(|key| String::from_utf8(key).ok()).ok_or("its key cannot be read")?;
    if !own.has_key(&key) {
        return Err("its key is another certificate's");
    }
    if own.names != names(service) {
        return Err("its certificate has other names");
    }
    if own.from > now || own.until.duration_since(now) < RENEW_BELOW {
        return Err("its certificate ends soon");
    }
    let uid = text(service, "/metadata/uid");
    let mut owners = secret.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
    let told = read(secret, SERVICE_NAME) == Some(text(service, "/metadata/name")) && read(secret, EXPIRY) == Some(&own.until.to_string());
    if !told || !owners.any(|owner| owner["uid"] == uid) {
        return Err("it does not say whose it is");
    }
    Ok(own.until)
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
