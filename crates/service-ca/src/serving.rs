//! What the Secret of one Service is to be (COP-SCA-01, COP-SCA-02).

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::annotations::{ERROR, ERROR_NUMBER, EXPIRY, SECRET_NAME, SERVICE_NAME, SERVICE_UID, SIGNED_BY, patch, read};
use crate::authority::data;
use crate::certificates::{Authority, Certificate, Issued, pem};

/// How long a certificate lasts.
pub const LIFETIME: SignedDuration = SignedDuration::from_hours(2 * 365 * 24);
/// A certificate with less than this left is renewed.
pub const RENEW_BELOW: SignedDuration = SignedDuration::from_hours(30 * 24);
/// How often it is tried in vain.
pub const TRIES: u32 = 10;
/// The domain of the cluster.
const DOMAIN: &str = "cluster.local";
const TLS: &str = "kubernetes.io/tls";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// What is to be done for a Service.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// It wants no certificate.
    NotWanted,
    /// It has what it wants; its annotations may still have to say so.
    Keep {
        /// When to renew.
        again: Timestamp,
        /// What is to be changed of the Service.
        service: Option<Value>,
    },
    /// A certificate is to be issued and written.
    Issue {
        /// What for.
        terms: Terms,
        /// What is changed of the Service afterwards.
        service: Option<Value>,
    },
    /// It cannot have one; the Service is to say so, and it is tried again.
    Refuse {
        /// Why.
        problem: String,
        /// What is to be changed of the Service.
        service: Value,
    },
    /// It was tried often enough.
    GivenUp,
}

/// What a certificate is for, and where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Why it is issued.
    pub why: String,
    /// The Secret.
    pub secret: String,
    /// The DNS names.
    pub names: BTreeSet<String>,
    /// The subject.
    pub common_name: String,
    /// When it ends.
    pub until: Timestamp,
}

/// The Secret that a Service wants its certificate in.
pub fn secret_name(service: &Value) -> Option<&str> {
    read(service, SECRET_NAME).filter(|name| !name.is_empty())
}

/// The names that a Service is reached under.
pub fn names(service: &Value) -> BTreeSet<String> {
    let short = format!("{}.{}.svc", text(service, "/metadata/name"), text(service, "/metadata/namespace"));
    let whole = format!("{short}.{DOMAIN}");
    let mut names = BTreeSet::from([short.clone(), whole.clone()]);
    if text(service, "/spec/clusterIP") == "None" {
        names.extend([format!("*.{short}"), format!("*.{whole}")]);
    }
    names
}

/// Decides.
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
    // A subject has 64 characters at most, the names that are verified any number.
    let common_name = short.filter(|name| name.len() <= 64).map_or(plain, String::as_str).to_owned();
    let until = now.checked_add(LIFETIME).unwrap_or(Timestamp::MAX);
    Plan::Issue { terms: Terms { why, secret: name.to_owned(), names, common_name, until }, service: success(service, authority) }
}

/// The Secret that is to be written: whole where there is none, otherwise a merge patch of what is there.
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
        // What was looked at, and nothing that came since, is replaced.
        object["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
    }
    object
}

/// The annotations of a Service that counts one more vain try.
pub fn failure(service: &Value, problem: &str) -> Value {
    let number = failures(service) + 1;
    json!({"metadata": {"annotations": patch([(ERROR, Some(problem.to_owned())), (ERROR_NUMBER, Some(number.to_string()))])}})
}

/// The annotations of a Service that has its certificate; `None` where it says so already.
fn success(service: &Value, authority: &Authority) -> Option<Value> {
    let wanted = patch([(SIGNED_BY, Some(authority.certificate.common_name.clone())), (ERROR, None), (ERROR_NUMBER, None)]);
    let live = service.pointer("/metadata/annotations").unwrap_or(&Value::Null);
    let differs = wanted.iter().any(|(name, value)| live.get(name).unwrap_or(&Value::Null) != value);
    differs.then(|| json!({"metadata": {"annotations": wanted}}))
}

/// How often it was tried in vain. What is no number was not written here, and counts as none.
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

/// When the certificate of a Secret ends; or why it is to be replaced.
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
