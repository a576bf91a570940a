//! `--serve-local NAMESPACE/SERVICE=HOST:PORT`: a Service that is a process on this machine (KAPI-WL-06).

use std::fmt;
use std::str::FromStr;

use super::resolve::Address;
use super::resolve::InvalidAddress;

/// A Service whose every port is one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalService {
    /// The Service's namespace.
    pub namespace: String,
    /// The Service's name.
    pub name: String,
    /// The address at which the process listens.
    pub address: Address,
}

impl FromStr for LocalService {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let expected = || InvalidAddress(format!("{text:?} is not of the form NAMESPACE/SERVICE=HOST:PORT"));
        let (service, address) = text.split_once('=').ok_or_else(expected)?;
        let (namespace, name) = service.split_once('/').ok_or_else(expected)?;
        for (what, value) in [("namespace", namespace), ("Service name", name)] {
            if !is_label(value) {
                return Err(InvalidAddress(format!(
                    "{value:?} is no {what}: lower case letters, digits and '-', at most 63, beginning and ending with a letter or digit"
                )));
            }
        }
        Ok(Self { namespace: namespace.to_owned(), name: name.to_owned(), address: address.parse()? })
    }
}

impl fmt::Display for LocalService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}={}", self.namespace, self.name, self.address)
    }
}

/// An RFC 1123 label.
fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte != b'-');
    text.len() <= 63 && text.bytes().all(inner) && edge(text.bytes().next()) && edge(text.bytes().last())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// KAPI-WL-06: the values of the flag, good and bad.
    #[test]
    fn values() {
        for good in ["ops/webhook=127.0.0.1:9443", "ops/webhook=localhost:1", "a/b=[::1]:9443"] {
            assert_eq!(good.parse::<LocalService>().unwrap().to_string(), good);
        }
        for (bad, why) in [
            ("webhook=127.0.0.1:9443", "is not of the form NAMESPACE/SERVICE=HOST:PORT"),
            ("ops/webhook", "is not of the form NAMESPACE/SERVICE=HOST:PORT"),
            ("Ops/webhook=127.0.0.1:9443", "\"Ops\" is no namespace"),
            ("ops/-webhook=127.0.0.1:9443", "\"-webhook\" is no Service name"),
            ("ops/webhook=127.0.0.1", "\"127.0.0.1\" is not of the form HOST:PORT"),
            ("ops/webhook=127.0.0.1:0", "\"0\" is no port"),
            ("ops/webhook=127.0.0.1:70000", "\"70000\" is no port"),
            ("ops/webhook=:9443", "the host is missing"),
            ("ops/webhook=https://x:9443", "is not of the form HOST:PORT"),
        ] {
            let refusal = bad.parse::<LocalService>().unwrap_err();
            assert!(refusal.to_string().contains(why), "{bad}: {refusal}");
        }
    }
}
