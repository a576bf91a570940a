//! The configuration of an etcd cluster.

use std::time::Duration;

use crate::Error;

/// Settings of the engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// `HOST:PORT` of each member.
    pub endpoints: Vec<String>,
    /// Certificates; `None` is plain text.
    pub tls: Option<Tls>,
    /// The prefix of the keys.
    pub prefix: Prefix,
    /// Time for which history is kept: one of the servers compacts after each such interval.
    pub compact_every: Duration,
}

/// Certificates for connections to etcd, all PEM.
#[derive(Clone)]
pub struct Tls {
    /// The authority that signed the members' certificates.
    pub authority: Vec<u8>,
    /// This client's certificate and key.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("identity", &self.identity.is_some()).finish_non_exhaustive()
    }
}

/// Keys that begin with `ours` are stored in etcd with `theirs` in its place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefix {
    /// The prefix of the store's keys.
    pub ours: String,
    /// The prefix of the same keys in etcd.
    pub theirs: String,
}

impl Options {
    /// Reads `etcd://HOST:PORT[,HOST:PORT...]`, or `etcds://` for encrypted connections, which need `tls`.
    pub fn parse(address: &str, tls: Option<Tls>, prefix: Prefix) -> Result<Self, Error> {
        let wrong = |problem: &str| Error::Setup { what: address.to_owned(), problem: problem.to_owned() };
        let (scheme, rest) = address.split_once("://").ok_or_else(|| wrong("not of the form etcd://HOST:PORT[,HOST:PORT...]"))?;
        let tls = match (scheme, tls) {
            ("etcd", tls) => tls,
            ("etcds", Some(tls)) => Some(tls),
            ("etcds", None) => return Err(wrong("encrypted connections need the CA of etcd's certificates")),
            _ => return Err(wrong("not of the form etcd://HOST:PORT[,HOST:PORT...]")),
        };
        let mut endpoints = Vec::new();
        for part in rest.trim_end_matches('/').split(',') {
            // Each may repeat the scheme, as etcd's own tools write lists.
            let place = part.strip_prefix(&format!("{scheme}://")).unwrap_or(part).trim();
            let (host, port) = place.rsplit_once(':').ok_or_else(|| wrong("an endpoint is HOST:PORT"))?;
            let fits = !host.is_empty()
                && port.parse::<u16>().is_ok_and(|port| port > 0)
                && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._:[]".contains(c));
            if !fits {
                return Err(wrong("an endpoint is HOST:PORT"));
            }
            endpoints.push(place.to_owned());
        }
        Ok(Self { endpoints, tls, prefix, compact_every: Duration::from_secs(300) })
    }
}

impl Prefix {
    /// The key as it is stored in etcd.
    pub(super) fn to_engine(&self, key: &str) -> Result<Vec<u8>, Error> {
        if key.is_empty() { Err(Error::Key { key: key.to_owned() }) } else { self.beginning(key) }
    }

    /// The prefix in etcd of the keys that begin with this text.
    pub(super) fn beginning(&self, text: &str) -> Result<Vec<u8>, Error> {
        match text.strip_prefix(&self.ours) {
            Some(rest) if !text.contains('\0') => Ok(format!("{}{rest}", self.theirs).into_bytes()),
            // All keys of the store, as a backup requests them: not those that others have under a longer name.
            None if self.ours.starts_with(text) => Ok(format!("{}/", self.theirs).into_bytes()),
            _ => Err(Error::Key { key: text.to_owned() }),
        }
    }

    /// The key as the store knows it.
    pub(super) fn restore(&self, key: &[u8]) -> Result<String, Error> {
        let text = std::str::from_utf8(key).ok().and_then(|key| key.strip_prefix(&self.theirs));
        text.map(|rest| format!("{}{rest}", self.ours)).ok_or_else(|| Error::Key { key: String::from_utf8_lossy(key).into_owned() })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// KAPI-STORE-03: how `--storage` is read.
    #[test]
    fn addresses() {
        let tls = Tls { authority: Vec::new(), identity: None };
        let parse = |text, tls| Options::parse(text, tls, Prefix::default());
        let cases: [(&str, &[&str]); 4] = [
            ("etcd://127.0.0.1:2379", &["127.0.0.1:2379"]),
            ("etcd://a:1,b.example:2", &["a:1", "b.example:2"]),
            ("etcd://a:1,etcd://[::1]:2/", &["a:1", "[::1]:2"]),
            ("etcds://a:1", &["a:1"]),
        ];
        for (text, endpoints) in cases {
            assert_eq!(parse(text, Some(tls.clone())).unwrap().endpoints, endpoints, "{text}");
        }
        for text in
            ["etcd://", "etcd://a", "etcd://a:0", "etcd://a:b", "etcd://a:1,,b:2", "http://a:1", "a:1", "etcds://a:1", "etcd://a/b:1"]
        {
            assert!(parse(text, None).is_err(), "{text}");
        }
    }

    /// KAPI-STORE-03: keys lie below the prefix that was asked for.
    #[test]
    fn keys() {
        let prefix = Prefix { ours: "/registry".into(), theirs: "/other".into() };
        assert_eq!(prefix.to_engine("/registry/core/pods/a").unwrap(), b"/other/core/pods/a");
        assert_eq!(prefix.restore(b"/other/core/pods/a").unwrap(), "/registry/core/pods/a");
        // All of it is what lies below, and not what another store has under a longer name.
        assert_eq!(
            (prefix.beginning("").unwrap(), prefix.beginning("/registry/core/").unwrap()),
            (b"/other/".into(), b"/other/core/".into())
        );
        assert!(prefix.beginning("/elsewhere").is_err());
        assert!(prefix.to_engine("/elsewhere").is_err() && prefix.restore(b"/registry/a").is_err());
    }
}
