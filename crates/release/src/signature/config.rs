//! Whose signatures a release asks for, and where they lie (CVO-SIG-02).

use std::collections::BTreeMap;

use mainstay_golang::quote;
use serde_json::Value;

use super::lookup::StoreAddress;
use crate::manifest::Manifest;

/// Marks the ConfigMap.
const ANNOTATION: &str = "release.openshift.io/verification-config-map";
const KEY: &str = "verifier-public-key-";
const STORE: &str = "store-";
/// The most keyrings, and the most stores.
const MAX_ENTRIES: usize = 64;
/// The largest keyring, in bytes.
const MAX_KEYRING: usize = 1 << 20;

/// Keyrings, of which each must have signed a release, and the stores with signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignatureConfig {
    /// The ConfigMap, for messages.
    pub source: String,
    /// The content of the keyrings by name, armoured or binary.
    pub keyrings: BTreeMap<String, String>,
    /// The stores, in the order of their keys.
    pub stores: Vec<StoreAddress>,
    /// Keys without a meaning.
    pub ignored: Vec<String>,
}

/// A ConfigMap that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Its data are not texts.
    #[error("{0} is not valid: .data accessor error: its values must be strings")]
    Data(String),
    /// A keyring cannot be read.
    #[error("{source_name} has an invalid key {} that must be a GPG public key: {problem}", quote(.key))]
    Keyring {
        /// The ConfigMap.
        source_name: String,
        /// The key in its data.
        key: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A store's URL cannot be used.
    #[error("{source_name} has an invalid key {}: must be a valid URL with scheme file://, http://, or https://", quote(.key))]
    Store {
        /// The ConfigMap.
        source_name: String,
        /// The key in its data.
        key: String,
    },
    /// It names no store.
    #[error("{0} did not provide any signature stores to read from and cannot be used")]
    NoStore(String),
    /// It has no keyring.
    #[error("{0} did not provide any GPG public keys to verify signatures from and cannot be used")]
    NoKeyring(String),
    /// It has more entries than are used.
    #[error("{0} has more than {MAX_ENTRIES} keyrings or stores")]
    Entries(String),
}

impl SignatureConfig {
    /// Reads the first ConfigMap with the annotation; `None` if no manifest has it.
    pub fn of<'m>(manifests: impl IntoIterator<Item = &'m Manifest>) -> Result<Option<Self>, ConfigError> {
        let marked = |manifest: &&Manifest| {
            let id = manifest.id();
            id.group.is_empty() && id.kind == "ConfigMap" && !manifest.annotations()[ANNOTATION].is_null()
        };
        let Some(manifest) = manifests.into_iter().find(marked) else { return Ok(None) };
        let id = manifest.id();
        Self::of_data(format!("the config map {}/{}", id.namespace, id.name), &manifest.object()["data"]).map(Some)
    }

    fn of_data(source: String, data: &Value) -> Result<Self, ConfigError> {
        let none = serde_json::Map::new();
        let data = match data {
            Value::Object(data) => data,
            Value::Null => &none,
            _ => return Err(ConfigError::Data(source)),
        };
        let mut config = Self { source, keyrings: BTreeMap::new(), stores: Vec::new(), ignored: Vec::new() };
        for (key, value) in data {
            let Some(value) = value.as_str() else { return Err(ConfigError::Data(config.source)) };
            if key.starts_with(KEY) {
                if value.len() > MAX_KEYRING {
                    let problem = format!("it is larger than {MAX_KEYRING} bytes");
                    return Err(ConfigError::Keyring { source_name: config.source, key: key.clone(), problem });
                }
                config.keyrings.insert(key.clone(), value.to_owned());
            } else if key.starts_with(STORE) {
                let Some(store) = StoreAddress::parse(value.trim()) else {
                    return Err(ConfigError::Store { source_name: config.source, key: key.clone() });
                };
                config.stores.push(store);
            } else {
                config.ignored.push(key.clone());
            }
        }
        if config.stores.is_empty() {
            return Err(ConfigError::NoStore(config.source));
        }
        if config.keyrings.is_empty() {
            return Err(ConfigError::NoKeyring(config.source));
        }
        if config.stores.len().max(config.keyrings.len()) > MAX_ENTRIES {
            return Err(ConfigError::Entries(config.source));
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;
    use crate::manifest::parse;

    fn config(documents: &[Value]) -> Result<Option<SignatureConfig>, String> {
        let manifests: Vec<Manifest> =
            documents.iter().flat_map(|object| parse("a.yaml", object.to_string().as_bytes()).unwrap()).collect();
        SignatureConfig::of(&manifests).map_err(|error| error.to_string())
    }

    fn map(name: &str, annotation: &Value, data: &Value) -> Value {
        let annotations = if annotation.is_null() { json!({}) } else { json!({ANNOTATION: annotation}) };
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a", "name": name, "annotations": annotations}, "data": data})
    }

    /// CVO-SIG-02: the first ConfigMap with the annotation decides, with any value of the annotation; others are not looked at.
    #[test]
    fn the_first_config_map_decides() {
        let good = json!({"verifier-public-key-a": "KEY", "store-b": " https://b.example/x \n", "store-a": "file:///var/a", "other": "x"});
        let found = config(&[map("x", &Value::Null, &json!({})), map("y", &json!(""), &good), map("z", &json!("true"), &json!({}))])
            .unwrap()
            .unwrap();
        assert_eq!(found.source, "the config map a/y");
        assert_eq!(found.keyrings.keys().collect::<Vec<_>>(), ["verifier-public-key-a"]);
        assert_eq!(
            found.stores.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["file:///var/a", "containers/image signature store under https://b.example/x"]
        );
        assert_eq!(found.ignored, ["other"]);
        assert_eq!(config(&[map("x", &Value::Null, &good)]), Ok(None));
        let mut secret = map("x", &json!(""), &good);
        secret["kind"] = json!("Secret");
        assert_eq!(config(&[secret]), Ok(None));
    }

    /// CVO-SIG-02: what makes the ConfigMap useless, in upstream's words.
    #[test]
    fn config_maps_that_cannot_be_used() {
        for (data, expected) in [
            (Value::Null, "the config map a/x did not provide any signature stores to read from and cannot be used"),
            (
                json!({"verifier-public-key-a": "K"}),
                "the config map a/x did not provide any signature stores to read from and cannot be used",
            ),
            (
                json!({"store-a": "http://a"}),
                "the config map a/x did not provide any GPG public keys to verify signatures from and cannot be used",
            ),
            (
                json!({"store-a": "ftp://a"}),
                "the config map a/x has an invalid key \"store-a\": must be a valid URL with scheme file://, http://, or https://",
            ),
            (
                json!({"store-a": "http://a b"}),
                "the config map a/x has an invalid key \"store-a\": must be a valid URL with scheme file://, http://, or https://",
            ),
            (json!({"store-a": 1}), "the config map a/x is not valid: .data accessor error: its values must be strings"),
        ] {
            assert_eq!(config(&[map("x", &json!(""), &data)]).unwrap_err(), expected);
        }
        let many: serde_json::Map<String, Value> =
            (0..65).map(|n| (format!("store-{n}"), json!("http://a"))).chain([("verifier-public-key-a".to_owned(), json!("K"))]).collect();
        assert!(config(&[map("x", &json!(""), &Value::Object(many))]).unwrap_err().ends_with("more than 64 keyrings or stores"));
    }
}
