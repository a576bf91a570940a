//! Credentials from the files that container tools keep them in.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use serde::Deserialize;

use crate::error::Error;
use crate::helper;

/// A credential for a registry.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// Name and password.
    Basic {
        /// The user.
        user: String,
        /// The password.
        password: String,
    },
    /// A token to exchange for others.
    Identity {
        /// The token.
        token: String,
    },
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Basic { user, .. } => write!(out, "Basic({user})"),
            Self::Identity { .. } => out.write_str("Identity"),
        }
    }
}

/// Credentials by registry, or by registry and the beginning of the repository, and the credential helpers that know further ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    entries: BTreeMap<String, Credential>,
    /// Helpers by registry.
    helpers: BTreeMap<String, String>,
    /// The helper for all other registries.
    store: Option<String>,
}

/// Auth files are small, and name few registries.
pub(crate) const MAX_FILE: usize = 4 << 20;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuthFile {
    #[serde(default)]
    auths: Option<BTreeMap<String, AuthEntry>>,
    #[serde(default)]
    cred_helpers: Option<BTreeMap<String, String>>,
    #[serde(default)]
    creds_store: Option<String>,
}

#[derive(Deserialize)]
struct AuthEntry {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
}

impl Credentials {
    /// Reads Docker's `config.json`, containers' `auth.json` or a pull secret's `.dockerconfigjson`. `subject` names it in errors.
    pub fn parse(subject: &str, text: &str) -> Result<Self, Error> {
        let file: AuthFile = read(subject, text)?;
        Self::of(subject, file)
    }

    /// Reads the old `.dockercfg`, which is nothing but the list of registries.
    pub fn parse_legacy(subject: &str, text: &str) -> Result<Self, Error> {
        Self::of(subject, AuthFile { auths: Some(read(subject, text)?), cred_helpers: None, creds_store: None })
    }

    fn of(subject: &str, file: AuthFile) -> Result<Self, Error> {
        let refuse = |problem: String| Error::Configuration { subject: subject.to_owned(), problem };
        let mut entries = BTreeMap::new();
        for (key, entry) in file.auths.unwrap_or_default() {
            if let Some(credential) = entry.credential().map_err(|problem| refuse(format!("auths[{key}]: {problem}")))? {
                entries.insert(normal_key(&key), credential);
            }
        }
        let helpers = file.cred_helpers.unwrap_or_default().into_iter().map(|(key, helper)| (normal_key(&key), helper));
        let helpers = helpers.filter(|(_, helper)| !helper.is_empty()).collect();
        Ok(Self { entries, helpers, store: file.creds_store.filter(|store| !store.is_empty()) })
    }

    /// Adds or replaces the credential of a registry.
    pub fn insert(&mut self, registry: &str, credential: Credential) {
        self.entries.insert(normal_key(registry), credential);
    }

    /// Asks this helper about registries without any other entry, unless a helper for all registries is set already.
    pub fn ask_also(&mut self, helper: &str) {
        self.store.get_or_insert_with(|| helper.to_owned());
    }

    /// Takes over the other's entries; they replace the entries here.
    pub fn extend(&mut self, other: Self) {
        self.entries.extend(other.entries);
        self.helpers.extend(other.helpers);
        self.store = other.store.or(self.store.take());
    }

    /// Takes over the other's credentials. They replace everything here about the registries and paths that the other names, including helpers and
    /// entries for parts of them. Helpers of the other do not count: it may come from a source that must not have programs run here.
    pub fn prefer(&mut self, other: Self) {
        let below = |key: &str, named: &str| key.strip_prefix(named).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        self.entries.retain(|key, _| !other.entries.keys().any(|named| below(key, named)));
        self.helpers.retain(|registry, _| !other.entries.keys().any(|named| below(named, registry)));
        self.entries.extend(other.entries);
    }

    /// Returns the credential for a repository: from the helper of the registry, else the files, else the helper for all registries.
    pub(crate) async fn look_up(&self, registry: &str, repository: &str) -> Result<Option<Credential>, Error> {
        if let Some(helper) = self.helpers.get(&normal_key(registry))
            && let Some(credential) = helper::ask(helper, registry).await?
        {
            return Ok(Some(credential));
        }
        if let Some(credential) = self.find(registry, repository) {
            return Ok(Some(credential.clone()));
        }
        match &self.store {
            Some(store) => helper::ask(store, registry).await,
            None => Ok(None),
        }
    }

    /// Returns the credential that the files have for a repository: the longest matching `registry/path`, then the registry.
    pub fn find(&self, registry: &str, repository: &str) -> Option<&Credential> {
        let mut key = format!("{}/{repository}", normal_key(registry));
        loop {
            if let Some(credential) = self.entries.get(&key) {
                return Some(credential);
            }
            key.truncate(key.rfind('/')?);
        }
    }
}

fn read<T: serde::de::DeserializeOwned>(subject: &str, text: &str) -> Result<T, Error> {
    if text.len() > MAX_FILE {
        return Err(Error::Limit { subject: subject.to_owned(), what: "size in bytes", limit: MAX_FILE as u64 });
    }
    let refuse = |error: serde_json::Error| Error::Configuration { subject: subject.to_owned(), problem: format!("no auth file: {error}") };
    serde_json::from_str(text).map_err(refuse)
}

impl AuthEntry {
    fn credential(self) -> Result<Option<Credential>, &'static str> {
        if let Some(token) = self.identitytoken.filter(|token| !token.is_empty()) {
            return Ok(Some(Credential::Identity { token }));
        }
        if let Some(auth) = self.auth.filter(|auth| !auth.is_empty()) {
            let bytes = STANDARD.decode(auth.trim()).or_else(|_| STANDARD_NO_PAD.decode(auth.trim())).map_err(|_| "auth is not base64")?;
            let text = String::from_utf8(bytes).map_err(|_| "auth is not text")?;
            let (user, password) = text.split_once(':').ok_or("auth is not user:password")?;
            return Ok(Some(Credential::Basic { user: user.to_owned(), password: password.trim_end_matches('\0').to_owned() }));
        }
        match (self.username, self.password) {
            (Some(user), Some(password)) => Ok(Some(Credential::Basic { user, password })),
            _ => Ok(None),
        }
    }
}

/// Normalizes a key: a host, a host with a path, or a URL as Docker once wrote it.
pub(crate) fn normal_key(key: &str) -> String {
    let plain = key.trim_start_matches("https://").trim_start_matches("http://").trim_end_matches('/');
    let plain = plain.strip_suffix("/v1").or_else(|| plain.strip_suffix("/v2")).unwrap_or(plain);
    match plain {
        "index.docker.io" | "registry-1.docker.io" => "docker.io".to_owned(),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// OLM1-BUILD-11, OLM1-GEN-10: the auth files of Docker and containers, and the most specific entry of them.
    #[test]
    fn auth_files_give_the_longest_match() {
        let text = r#"{"auths": {"https://index.docker.io/v1/": {"auth": "dTpw"}, "quay.io": {"username": "a", "password": "b"},
            "quay.io/org/deep": {"auth": "ZGVlcDp4OnlA"}, "ghcr.io": {"identitytoken": "t"}, "empty.io": {}}, "credsStore": "x"}"#;
        let credentials = Credentials::parse("pull secret", text).unwrap();
        let basic = |user: &str, password: &str| Credential::Basic { user: user.to_owned(), password: password.to_owned() };
        assert_eq!(credentials.find("docker.io", "library/a"), Some(&basic("u", "p")));
        assert_eq!(credentials.find("quay.io", "org/other"), Some(&basic("a", "b")));
        assert_eq!(credentials.find("quay.io", "org/deep/er"), Some(&basic("deep", "x:y@")));
        assert_eq!(credentials.find("ghcr.io", "a"), Some(&Credential::Identity { token: "t".to_owned() }));
        assert_eq!(credentials.find("empty.io", "a"), None);
        assert!(!format!("{credentials:?}").contains("x:y@"));
        let error = Credentials::parse("secret ops/pull", r#"{"auths": {"quay.io": {"auth": "%"}}}"#).unwrap_err();
        assert_eq!(error.to_string(), "secret ops/pull: auths[quay.io]: auth is not base64");
    }
}
