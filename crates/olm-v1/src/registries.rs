//! What decides how images are pulled, read anew before each pull (OLM1-GEN-06, OLM1-GEN-10, OLM1-GEN-12).
//!
//! ```text
//!   registries.conf, auth files,
//!   policy.json ─────────────────┐
//!   the global pull secret ──────┤
//!   a folder of authorities ─────┼─► ClientConfig ─► a client, made again only when something changed
//!   mirror objects ──────────────┘
//! ```

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use mainstay_oci::{Client, ClientConfig, Credentials, Error, Registries, Settings};
use serde_json::Value;

use crate::mirrors;

/// Certificates are small, and folders of them hold few.
const MAX_PEM: u64 = 1 << 20;
const MAX_FILES: usize = 256;
/// An auth file names few registries.
const MAX_AUTH: u64 = 4 << 20;

/// Where the settings of registries come from.
#[derive(Clone, Debug, Default)]
pub struct RegistrySettings {
    /// What does not change while the process lives.
    pub base: ClientConfig,
    /// The files of container tools, as the node has them.
    pub files: Option<Settings>,
    /// A folder of authorities (`--pull-cas-dir`).
    pub authorities: Option<PathBuf>,
    /// The private auth file with the global pull secret; it need not be there.
    pub auth_file: Option<PathBuf>,
}

impl From<ClientConfig> for RegistrySettings {
    fn from(base: ClientConfig) -> Self {
        Self { base, ..Self::default() }
    }
}

impl RegistrySettings {
    /// What the files say right now. They are a few kilobytes, so nobody waits for the disk.
    pub fn registries(&self) -> Result<Registries, Error> {
        self.files.as_ref().map_or_else(|| Ok(self.base.registries.clone()), Settings::registries)
    }

    /// Everything together, with the mirror rules of these objects.
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
        config.registries = mirrors::plan(&config.registries, objects).registries;
        Ok(config)
    }

    /// Whether there is a policy about signatures at all; the client itself reads it anew for each image.
    pub fn has_policy(&self) -> bool {
        self.files.as_ref().map_or(&self.base.signatures, Settings::signatures).has_policy()
    }
}

/// A client, and what it was made from.
pub struct Held {
    client: Client,
    registries: Registries,
    credentials: Credentials,
    authorities: Vec<(String, Vec<u8>)>,
}

impl Held {
    /// A client for these settings.
    pub fn new(config: ClientConfig) -> Result<Self, Error> {
        let (registries, credentials, authorities) = (config.registries.clone(), config.credentials.clone(), config.authorities.clone());
        Ok(Self { client: Client::new(config)?, registries, credentials, authorities })
    }

    /// The client, if these settings make the same one. Everything else does not change while the process lives.
    pub fn for_config(&self, config: &ClientConfig) -> Option<Client> {
        let same = self.registries == config.registries && self.credentials == config.credentials && self.authorities == config.authorities;
        same.then(|| self.client.clone())
    }

    /// The client.
    pub fn client(&self) -> Client {
        self.client.clone()
    }
}

/// The certificates of a folder by file, sorted; files without any are passed over, as the keys beside them are.
pub fn authorities(folder: &Path) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let io = |source| Error::Io { path: folder.to_owned(), source };
    let entries = fs::read_dir(folder).map_err(io)?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, std::io::Error>>().map_err(io)?;
    // A mounted ConfigMap holds its versions in folders of such names, and links to them beside.
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

/// A file's content; nothing where there is none.
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
