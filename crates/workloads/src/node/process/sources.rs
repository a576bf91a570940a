//! The objects that a pod's environment and volumes are filled from, and what they hold (KAPI-WL-07). All of it is pure: the runner
//! fetches what [`wanted`] names.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::api::DynamicObject;
use serde_json::Value;

use crate::object::items;

/// The kind of an object that holds keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
}

impl Holder {
    /// Returns the resource's name as it stands in messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmap",
            Self::Secret => "secret",
        }
    }
}

/// The keys and values of objects; `None` for one that is not found.
pub type Held = BTreeMap<(Holder, String), Option<BTreeMap<String, Vec<u8>>>>;

/// A token of a pod's service account: its audience (empty for the API server's own), and its life in seconds.
pub type TokenSpec = (String, i64);

/// The facts that a pod needs before it starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// ConfigMaps and Secrets of the pod's namespace.
    pub objects: BTreeSet<(Holder, String)>,
    /// Tokens of the pod's service account.
    pub tokens: BTreeSet<TokenSpec>,
}

/// The life of a token that sets none, in seconds.
const TOKEN_LIFE: i64 = 3_600;

/// Returns the parts of a volume, each with the sources that stand below `projected` in its place.
pub fn parts(volume: &Value) -> Vec<&Value> {
    match volume.pointer("/projected/sources").and_then(Value::as_array) {
        Some(sources) => sources.iter().collect(),
        None => vec![volume],
    }
}

/// Returns the object that a part of a volume is filled from.
pub fn holder(part: &Value) -> Option<(Holder, &str)> {
    if let Some(name) = part.pointer("/configMap/name").and_then(Value::as_str) {
        return Some((Holder::ConfigMap, name));
    }
    // A volume says `secretName`, a part of a projected one `name`.
    let secret = part.pointer("/secret/secretName").or_else(|| part.pointer("/secret/name"));
    secret.and_then(Value::as_str).map(|name| (Holder::Secret, name))
}

/// Returns the token that a part of a volume asks for.
pub fn token(part: &Value) -> Option<TokenSpec> {
    let token = part.get("serviceAccountToken").filter(|token| token.is_object())?;
    let audience = token["audience"].as_str().unwrap_or_default().to_owned();
    Some((audience, token["expirationSeconds"].as_i64().unwrap_or(TOKEN_LIFE)))
}

/// Returns what the volumes of a pod are filled from.
pub fn of_volumes(pod: &DynamicObject) -> Wanted {
    let mut wanted = Wanted::default();
    for part in items(pod, "/spec/volumes").flat_map(parts) {
        wanted.objects.extend(holder(part).map(|(kind, name)| (kind, name.to_owned())));
        wanted.tokens.extend(token(part));
    }
    wanted
}

/// Returns what the environment of a container is filled from.
pub fn of_environment(container: &Value) -> BTreeSet<(Holder, String)> {
    let list = |name: &str| container[name].as_array().into_iter().flatten();
    let named = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let mut wanted = BTreeSet::new();
    for source in list("envFrom") {
        wanted.extend(named(source.pointer("/configMapRef/name")).map(|name| (Holder::ConfigMap, name)));
        wanted.extend(named(source.pointer("/secretRef/name")).map(|name| (Holder::Secret, name)));
    }
    for variable in list("env") {
        wanted.extend(named(variable.pointer("/valueFrom/configMapKeyRef/name")).map(|name| (Holder::ConfigMap, name)));
        wanted.extend(named(variable.pointer("/valueFrom/secretKeyRef/name")).map(|name| (Holder::Secret, name)));
    }
    wanted
}

/// Returns the keys and values of a ConfigMap or Secret.
pub fn content(object: &Value) -> BTreeMap<String, Vec<u8>> {
    let map = |name: &str| object[name].as_object().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().as_bytes().to_vec();
    let decoded = |value: &Value| STANDARD.decode(value.as_str().unwrap_or_default()).unwrap_or_default();
    let secret = object["kind"] == "Secret";
    let mut all: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    all.extend(map("data").map(|(key, value)| (key.clone(), if secret { decoded(value) } else { text(value) })));
    all.extend(map("binaryData").map(|(key, value)| (key.clone(), decoded(value))));
    all
}
