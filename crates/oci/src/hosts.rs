//! The HTTP client for each registry: who it trusts, how it shows itself, and whether it goes through a proxy.
//!
//! `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` count as everywhere, but never for loopback hosts. A folder `HOST[:PORT]` below the
//! configured ones adds authorities (`*.crt`) and client certificates (`*.cert` with `*.key`), as container tools have it in `certs.d`.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::client::ClientConfig;
use crate::error::Error;
use crate::tls::{self, Identity};
use crate::transport::{Host, chain, is_loopback};

/// A certificate or a key is small.
const MAX_PEM: u64 = 1 << 20;
const MAX_FILES: usize = 256;

/// Whether a request changes anything there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    Reading,
    Writing,
}

impl Purpose {
    pub(crate) fn of(method: &http::Method) -> Self {
        if matches!(*method, http::Method::GET | http::Method::HEAD) { Self::Reading } else { Self::Writing }
    }
}

/// How a host is talked to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Kind {
    purpose: Purpose,
    insecure: bool,
    loopback: bool,
    /// The registry, where it has certificates of its own.
    own: Option<String>,
}

pub(crate) struct Hosts {
    authorities: Vec<(String, Vec<u8>)>,
    folders: Vec<PathBuf>,
    connect_timeout: Duration,
    read_timeout: Duration,
    clients: Mutex<HashMap<Kind, reqwest::Client>>,
}

impl Hosts {
    pub(crate) fn new(config: &ClientConfig) -> Result<Self, Error> {
        let hosts = Self {
            authorities: config.authorities.clone(),
            folders: config.certificates.clone(),
            connect_timeout: config.connect_timeout,
            read_timeout: config.read_timeout,
            clients: Mutex::default(),
        };
        // Authorities that cannot be read are a mistake to tell at once, not at the first pull.
        tls::verified(&hosts.authorities, None)?;
        Ok(hosts)
    }

    /// The client for a host, made when it is first needed.
    pub(crate) fn client(&self, host: Host<'_>, purpose: Purpose) -> Result<reqwest::Client, Error> {
        let own = self.folders.iter().any(|folder| folder.join(host.registry).is_dir());
        let loopback = is_loopback(host.registry);
        let kind = Kind { purpose, insecure: host.insecure, loopback, own: own.then(|| host.registry.to_owned()) };
        // The map is whole after every insertion, so a panic elsewhere leaves it usable.
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&kind) {
            return Ok(client.clone());
        }
        let client = self.build(&kind)?;
        clients.insert(kind, client.clone());
        Ok(client)
    }

    fn build(&self, kind: &Kind) -> Result<reqwest::Client, Error> {
        let mut authorities = self.authorities.clone();
        let mut identity = None;
        if let Some(registry) = &kind.own {
            for folder in &self.folders {
                read_folder(&folder.join(registry), &mut authorities, &mut identity)?;
            }
        }
        let tls = if kind.insecure { tls::unverified(identity)? } else { tls::verified(&authorities, identity)? };
        let mut builder = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .user_agent(concat!("mainstay/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(self.connect_timeout)
            .read_timeout(self.read_timeout)
            .redirect(reqwest::redirect::Policy::custom(match kind.purpose {
                Purpose::Reading => redirect,
                Purpose::Writing => redirect_writing,
            }));
        if kind.loopback {
            builder = builder.no_proxy();
        }
        builder.build().map_err(|error| Error::Configuration { subject: "HTTP client".to_owned(), problem: chain(&error) })
    }
}

/// Reads the authorities and the first client certificate of a folder, in the order of their names.
fn read_folder(folder: &Path, authorities: &mut Vec<(String, Vec<u8>)>, identity: &mut Option<Identity>) -> Result<(), Error> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::Io { path: folder.to_owned(), source: error }),
    };
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, std::io::Error>>().map_err(Error::io(folder))?;
    paths.sort();
    if paths.len() > MAX_FILES {
        return Err(Error::Limit { subject: folder.display().to_string(), what: "number of files", limit: MAX_FILES as u64 });
    }
    for path in paths {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("crt") => authorities.push((path.display().to_string(), read_pem(&path)?)),
            Some("cert") => {
                let key = path.with_extension("key");
                if !key.is_file() {
                    let problem = format!("the client certificate lacks its key {}", key.display());
                    return Err(Error::Configuration { subject: path.display().to_string(), problem });
                }
                if identity.is_none() {
                    *identity = Some(Identity { name: path.display().to_string(), certificates: read_pem(&path)?, key: read_pem(&key)? });
                }
            }
            Some("key") if !path.with_extension("cert").is_file() => {
                let problem = format!("the key lacks its client certificate {}", path.with_extension("cert").display());
                return Err(Error::Configuration { subject: path.display().to_string(), problem });
            }
            _ => {}
        }
    }
    Ok(())
}

fn read_pem(path: &Path) -> Result<Vec<u8>, Error> {
    let size = fs::metadata(path).map_err(Error::io(path))?.len();
    if size > MAX_PEM {
        return Err(Error::Limit { subject: path.display().to_string(), what: "size in bytes", limit: MAX_PEM });
    }
    fs::read(path).map_err(Error::io(path))
}

/// Of what is written only 307 and 308 are followed: after the others a client reads the new place instead of writing there, and whatever
/// page it finds would pass for success.
fn redirect_writing(attempt: reqwest::redirect::Attempt<'_>) -> reqwest::redirect::Action {
    if matches!(attempt.status().as_u16(), 301..=303) {
        return attempt.error("the registry redirects what is written to it");
    }
    redirect(attempt)
}

/// Redirects are followed, but never from HTTPS to HTTP, and not for ever.
fn redirect(attempt: reqwest::redirect::Attempt<'_>) -> reqwest::redirect::Action {
    let was_secure = attempt.previous().last().is_some_and(|url| url.scheme() == "https");
    if was_secure && attempt.url().scheme() != "https" {
        return attempt.error("the registry redirects from HTTPS to HTTP");
    }
    if attempt.previous().len() > 10 {
        return attempt.error("the registry redirects more than 10 times");
    }
    attempt.follow()
}
