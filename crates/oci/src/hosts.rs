//! The HTTP client for each host: trusted authorities, client certificate, and proxy.
//!
//! `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` work as in Go's programs ([`mainstay_golang::http_proxy`]). A folder `HOST[:PORT]` below the
//! configured ones adds authorities (`*.crt`) and client certificates (`*.cert` with `*.key`), as in the `certs.d` of container tools.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mainstay_golang::http_proxy::Proxies;

use crate::addresses::{self, Class, Classes, Reach};
use crate::client::ClientConfig;
use crate::error::Error;
use crate::tls::{self, Identity};
use crate::transport::{Host, chain};

/// The largest certificate or key file, in bytes.
const MAX_PEM: u64 = 1 << 20;
const MAX_FILES: usize = 256;

/// The purpose of a request: reading or writing.
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

/// Properties of a host that decide its HTTP client.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Kind {
    purpose: Purpose,
    insecure: bool,
    /// Class of its address; it decides the addresses that the host may lead to.
    class: Class,
    /// The registry, if it has certificates of its own.
    own: Option<String>,
}

/// Settings of all clients.
pub(crate) struct HostSettings {
    pub authorities: Vec<(String, Vec<u8>)>,
    /// Folders with certificates by host.
    pub folders: Vec<PathBuf>,
    pub connect_timeout: Duration,
    pub read_timeout: Duration,
    pub proxies: Proxies,
    pub user_agent: String,
}

impl HostSettings {
    /// The settings for registries, with the proxies of the environment.
    pub(crate) fn of_registries(config: &ClientConfig) -> Self {
        Self {
            authorities: config.authorities.clone(),
            folders: config.certificates.clone(),
            connect_timeout: config.connect_timeout,
            read_timeout: config.read_timeout,
            proxies: Proxies::from_environment(|name| std::env::var(name).ok()),
            user_agent: concat!("mainstay/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

pub(crate) struct Hosts {
    authorities: Vec<(String, Vec<u8>)>,
    folders: Vec<PathBuf>,
    connect_timeout: Duration,
    read_timeout: Duration,
    proxies: Arc<Proxies>,
    user_agent: String,
    classes: Classes,
    clients: Mutex<HashMap<Kind, (reqwest::Client, Reach)>>,
}

/// The client for one registry, with the class of its address.
pub(crate) struct HostClient {
    pub client: reqwest::Client,
    pub class: Class,
}

impl Hosts {
    pub(crate) fn new(settings: HostSettings) -> Result<Self, Error> {
        let hosts = Self {
            authorities: settings.authorities,
            folders: settings.folders,
            connect_timeout: settings.connect_timeout,
            read_timeout: settings.read_timeout,
            proxies: Arc::new(settings.proxies),
            user_agent: settings.user_agent,
            classes: Classes::default(),
            clients: Mutex::default(),
        };
        // Authorities that cannot be read are reported at once, not at the first pull.
        tls::verified(&hosts.authorities, None)?;
        Ok(hosts)
    }

    /// Returns the client for a host, made when it is first needed.
    pub(crate) async fn client(&self, host: Host<'_>, address: &str, purpose: Purpose) -> Result<HostClient, Error> {
        let url = reqwest::Url::parse(&format!("https://{address}")).ok();
        let class = match &url {
            // A proxy resolves names itself.
            Some(url) if url.domain().is_some() && self.is_proxied(url, host.insecure) => Class::Public,
            Some(url) => self.classes.of(url).await,
            None => Class::Public,
        };
        let own = self.folders.iter().any(|folder| folder.join(host.registry).is_dir());
        let kind = Kind { purpose, insecure: host.insecure, class, own: own.then(|| host.registry.to_owned()) };
        // The map is whole after every insertion, so a panic elsewhere leaves it usable.
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let (client, reach) = if let Some(known) = clients.get(&kind) {
            known.clone()
        } else {
            let built = self.build(&kind)?;
            clients.insert(kind, built.clone());
            built
        };
        if let Some(name) = url.as_ref().and_then(reqwest::Url::domain) {
            reach.owns(name);
        }
        Ok(HostClient { client, class })
    }

    /// Returns true if every request to a host leaves through a proxy. A host that is also reached without TLS must be proxied for both schemes:
    /// otherwise it is connected to directly, and is as near as its address says.
    fn is_proxied(&self, url: &reqwest::Url, insecure: bool) -> bool {
        let schemes: &[&str] = if insecure { &["https", "http"] } else { &["https"] };
        let proxied = |scheme: &&str| matches!(self.proxies.of(scheme, url.host_str().unwrap_or_default(), url.port()), Ok(Some(_)));
        schemes.iter().all(proxied)
    }

    /// Refuses a request that cannot be sent through the configured proxy.
    pub(crate) fn check_proxy(&self, url: &reqwest::Url) -> Result<(), Error> {
        let refuse = |problem: String| Err(Error::Configuration { subject: "proxy of the environment".to_owned(), problem });
        match self.proxies.of(url.scheme(), url.host_str().unwrap_or_default(), url.port()) {
            Err(refused) => refuse(refused.to_string()),
            // Otherwise the request would be sent without the proxy, against the configuration.
            Ok(Some(proxy)) if !proxy.starts_with("http://") && !proxy.starts_with("https://") => {
                refuse(format!("{:?} is no proxy that is supported; http and https are", proxy.split("://").next().unwrap_or_default()))
            }
            Ok(_) => Ok(()),
        }
    }

    fn build(&self, kind: &Kind) -> Result<(reqwest::Client, Reach), Error> {
        let mut authorities = self.authorities.clone();
        let mut identity = None;
        if let Some(registry) = &kind.own {
            for folder in &self.folders {
                read_folder(&folder.join(registry), &mut authorities, &mut identity)?;
            }
        }
        let tls = if kind.insecure { tls::unverified(identity)? } else { tls::verified(&authorities, identity)? };
        let (proxies, class) = (self.proxies.clone(), kind.class);
        let of = move |url: &reqwest::Url| {
            proxies.of(url.scheme(), url.host_str().unwrap_or_default(), url.port()).ok().flatten().map(std::string::ToString::to_string)
        };
        let names: BTreeSet<String> = self.proxies.hosts().map(str::to_owned).collect();
        let reach = Reach::new(class, Arc::new(names));
        let builder = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .user_agent(&self.user_agent)
            .connect_timeout(self.connect_timeout)
            .read_timeout(self.read_timeout)
            .dns_resolver(reach.clone())
            .proxy(reqwest::Proxy::custom(of))
            .redirect(match kind.purpose {
                Purpose::Reading => reqwest::redirect::Policy::custom(move |attempt| redirect(attempt, class)),
                Purpose::Writing => reqwest::redirect::Policy::custom(move |attempt| redirect_writing(attempt, class)),
            });
        let client = builder.build().map_err(|error| Error::Configuration { subject: "HTTP client".to_owned(), problem: chain(&error) })?;
        Ok((client, reach))
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

/// Follows only 307 and 308 for writing requests: after the other redirects a client reads the new place instead of writing there, and any page
/// that it finds would pass for success.
fn redirect_writing(attempt: reqwest::redirect::Attempt<'_>, class: Class) -> reqwest::redirect::Action {
    if matches!(attempt.status().as_u16(), 301..=303) {
        return attempt.error("the server redirects what is written to it");
    }
    redirect(attempt, class)
}

/// Follows redirects, but never from HTTPS to HTTP, not for ever, and not to places that the registry may not lead to.
fn redirect(attempt: reqwest::redirect::Attempt<'_>, class: Class) -> reqwest::redirect::Action {
    let was_secure = attempt.previous().last().is_some_and(|url| url.scheme() == "https");
    if was_secure && attempt.url().scheme() != "https" {
        return attempt.error("the server redirects from HTTPS to HTTP");
    }
    if let Err(problem) = addresses::check(attempt.url(), class) {
        return attempt.error(problem);
    }
    if attempt.previous().len() > 10 {
        return attempt.error("the server redirects more than 10 times");
    }
    attempt.follow()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A registry without TLS is not taken for one behind a proxy when only HTTPS has one: it is connected to directly.
    #[test]
    fn what_leaves_through_a_proxy() {
        for (environment, secure, insecure) in [
            (&[][..], false, false),
            (&[("HTTPS_PROXY", "http://proxy.example:3128")][..], true, false),
            (&[("HTTP_PROXY", "http://proxy.example:3128")][..], false, false),
            (&[("HTTPS_PROXY", "http://proxy.example:3128"), ("HTTP_PROXY", "http://proxy.example:3128")][..], true, true),
            (&[("HTTPS_PROXY", "http://proxy.example:3128"), ("NO_PROXY", "example")][..], false, false),
        ] {
            let of = |name: &str| environment.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
            let proxies = Arc::new(Proxies::from_environment(of));
            let hosts = Hosts { proxies, ..Hosts::new(HostSettings::of_registries(&ClientConfig::default())).unwrap() };
            let url = reqwest::Url::parse("https://registry.example:5000").unwrap();
            assert_eq!((hosts.is_proxied(&url, false), hosts.is_proxied(&url, true)), (secure, insecure), "{environment:?}");
        }
    }
}
