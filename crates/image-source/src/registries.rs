//! Settings that decide how images are pulled, read again before each pull (OLM1-GEN-06, OLM1-GEN-10, OLM1-GEN-12).
//!
//! ```text
//!   registries.conf, auth files,
//!   policy.json ─────────────────┐
//!   the global pull secret ──────┤
//!   a folder of authorities ─────┼─► ClientConfig ─► RegistryClient, replaced only when something changed
//!   mirror objects ──────────────┘
//! ```

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use mainstay_oci::{Client, ClientConfig, Credentials, Error, Registries, Settings};
use serde_json::Value;

use crate::mirrors::merge_rules;

/// Most bytes of one certificate file.
const MAX_PEM: u64 = 1 << 20;
/// Most files in a folder of authorities.
const MAX_FILES: usize = 256;
/// Most bytes of an auth file.
const MAX_AUTH: u64 = 4 << 20;

/// Places that the settings of registries come from.
#[derive(Clone, Debug, Default)]
pub struct RegistrySettings {
    /// Settings that do not change while the process lives.
    pub base: ClientConfig,
    /// Files of container tools on this node: registries.conf, auth files, policy.json.
    pub files: Option<Settings>,
    /// Folder of certificate authorities (`--pull-cas-dir`).
    pub authorities: Option<PathBuf>,
    /// Private auth file with the global pull secret; it need not exist.
    pub auth_file: Option<PathBuf>,
}

impl From<ClientConfig> for RegistrySettings {
    fn from(base: ClientConfig) -> Self {
        Self { base, ..Self::default() }
    }
}

impl RegistrySettings {
    /// Reads registries.conf as it is now. The files have a few kilobytes, so reading blocks for moments only.
    pub fn registries(&self) -> Result<Registries, Error> {
        self.files.as_ref().map_or_else(|| Ok(self.base.registries.clone()), Settings::registries)
    }

    /// Reads all settings as they are now, and adds the mirror rules of these objects.
    pub fn read(&self, objects: &[Value]) -> Result<ClientConfig, Error> {
        let mut config = self.base.clone();
        if let Some(files) = &self.files {
            let loaded = files.load()?;
            config = ClientConfig {
                credentials: loaded.credentials,
                registries: loaded.registries,
                certificates: loaded.certificates,
                signatures: loaded.signatures,
                ..config
            };
        }
        if let Some(path) = &self.auth_file
            && let Some(text) = read_small(path, MAX_AUTH)?
        {
            config.credentials.extend(Credentials::parse("the global pull secret", &String::from_utf8_lossy(&text))?);
        }
        if let Some(folder) = &self.authorities {
            config.authorities.extend(authorities(folder)?);
        }
        config.registries = merge_rules(&config.registries, objects).registries;
        Ok(config)
    }

    /// Returns true if there is a signature policy; the client itself reads it again for each image.
    pub fn has_policy(&self) -> bool {
        self.files.as_ref().map_or(&self.base.signatures, Settings::signatures).has_policy()
    }
}

/// Client of registries, with the settings it was made from.
pub struct RegistryClient {
    client: Client,
    registries: Registries,
    credentials: Credentials,
    authorities: Vec<(String, Vec<u8>)>,
}

impl RegistryClient {
    /// Makes a client for these settings.
    pub fn new(config: ClientConfig) -> Result<Self, Error> {
        let (registries, credentials, authorities) = (config.registries.clone(), config.credentials.clone(), config.authorities.clone());
        Ok(Self { client: Client::new(config)?, registries, credentials, authorities })
    }

    /// Returns the client, if these settings make the same one. All other settings do not change while the process lives.
    pub fn for_config(&self, config: &ClientConfig) -> Option<Client> {
        let same = self.registries == config.registries && self.credentials == config.credentials && self.authorities == config.authorities;
        same.then(|| self.client.clone())
    }

    /// Returns the client.
    pub fn client(&self) -> Client {
        self.client.clone()
    }
}

/// Reads the certificate files of a folder, sorted by path. Files without a certificate, such as keys, are skipped.
pub fn authorities(folder: &Path) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let io = |source| Error::Io { path: folder.to_owned(), source };
    let entries = fs::read_dir(folder).map_err(io)?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, std::io::Error>>().map_err(io)?;
    // A mounted ConfigMap keeps its versions in folders of such names, and links to them.
    paths.retain(|path| !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("..")) && path.is_file());
    paths.sort();
    if paths.len() > MAX_FILES {
        return Err(Error::Limit { subject: folder.display().to_string(), what: "number of files", limit: MAX_FILES as u64 });
    }
    let mut found = Vec::new();
    for path in paths {
        if let Some(pem) = read_small(&path, MAX_PEM)?
            && String::from_utf8_lossy(&pem).contains("-----BEGIN CERTIFICATE-----")
        {
            found.push((path.display().to_string(), pem));
        }
    }
    Ok(found)
}

/// Reads a file of at most `most` bytes; `None` if it does not exist.
fn read_small(path: &Path, most: u64) -> Result<Option<Vec<u8>>, Error> {
    let io = |source| Error::Io { path: path.to_owned(), source };
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io(error)),
    };
    let mut content = Vec::new();
    file.take(most + 1).read_to_end(&mut content).map_err(io)?;
    if content.len() as u64 > most {
        return Err(Error::Limit { subject: path.display().to_string(), what: "size in bytes", limit: most });
    }
    Ok(Some(content))
}
