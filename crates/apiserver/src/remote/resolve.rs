//! From a Service to an address that can be dialled.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

/// Why a text is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidAddress(pub(super) String);

/// A host, by name or address, and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// A DNS name or an IP address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') { write!(f, "[{}]:{}", self.host, self.port) } else { write!(f, "{}:{}", self.host, self.port) }
    }
}

impl FromStr for Address {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let expected = || InvalidAddress(format!("{text:?} is not of the form HOST:PORT"));
        let (host, port) = text.rsplit_once(':').ok_or_else(expected)?;
        let host = match host.strip_prefix('[').map(|host| host.strip_suffix(']')) {
            Some(Some(inner)) if inner.parse::<std::net::Ipv6Addr>().is_ok() => inner,
            Some(_) => return Err(expected()),
            None if host.contains([':', '/', '[', ']']) => return Err(expected()),
            None => host,
        };
        if host.is_empty() {
            return Err(InvalidAddress(format!("{text:?}: the host is missing")));
        }
        let port = port
            .parse()
            .ok()
            .filter(|port: &u16| *port > 0)
            .ok_or_else(|| InvalidAddress(format!("{port:?} is no port from 1 to 65535")))?;
        Ok(Self { host: host.to_owned(), port })
    }
}

/// Why a Service leads nowhere; the words are kube-apiserver's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// There is no such Service.
    #[error("service {0:?} not found")]
    NotFound(String),
    /// The Service does not have the port.
    #[error("no service port {port} found for service {name:?}")]
    NoPort {
        /// The Service.
        name: String,
        /// The port that was asked for.
        port: u16,
    },
    /// Nothing that is ready stands behind the Service.
    #[error("no endpoints available for service {0:?}")]
    NoEndpoints(String),
    /// All pods behind the Service are simulated.
    #[error(
        "service {namespace}/{name} has only simulated pods, which answer nothing; mainstay up --serve-local {namespace}/{name}=HOST:PORT \
         sends its calls to a process"
    )]
    Simulated {
        /// The Service's namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// An address that is asked for by itself is simulated.
    #[error("{0} is the address of a simulated node or pod, where nothing answers")]
    SimulatedAddress(String),
    /// No Service of its type can be called.
    #[error("unsupported service type {0:?}")]
    Type(String),
}

/// A Service, and the endpoints behind it.
#[derive(Default)]
pub struct Facts {
    /// The Service.
    pub service: Option<Value>,
    /// Its EndpointSlices.
    pub slices: Vec<Value>,
    /// Its Endpoints, for Services that have no slices.
    pub endpoints: Option<Value>,
}

impl Facts {
    /// The name of the Service's port with that number; empty where it has none.
    pub fn port_name(&self, name: &str, port: u16) -> Result<String, ResolveError> {
        let service = self.service.as_ref().ok_or_else(|| ResolveError::NotFound(name.to_owned()))?;
        let ports = service.pointer("/spec/ports").and_then(Value::as_array);
        let found = ports.into_iter().flatten().find(|one| one["port"].as_u64() == Some(port.into()));
        let found = found.ok_or_else(|| ResolveError::NoPort { name: name.to_owned(), port })?;
        Ok(found["name"].as_str().unwrap_or_default().to_owned())
    }

    /// Every address that serves the Service's port now.
    pub fn addresses(&self, name: &str, port: u16) -> Result<Vec<Address>, ResolveError> {
        let service = self.service.as_ref().ok_or_else(|| ResolveError::NotFound(name.to_owned()))?;
        let text = |pointer: &str| service.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        match text("/spec/type") {
            "ExternalName" => return Ok(vec![Address { host: text("/spec/externalName").to_owned(), port }]),
            "" | "ClusterIP" | "NodePort" | "LoadBalancer" => {}
            other => return Err(ResolveError::Type(other.to_owned())),
        }
        let named = self.port_name(name, port)?;
        let mut found = self.ready(&named);
        found.sort();
        found.dedup();
        if found.is_empty() { Err(ResolveError::NoEndpoints(name.to_owned())) } else { Ok(found) }
    }

    /// Ready addresses of the port with that name.
    pub fn ready(&self, port_name: &str) -> Vec<Address> {
        let mut found = Vec::new();
        let port_of = |ports: &Value| {
            let ports = ports.as_array().into_iter().flatten();
            let mut same = ports.filter(|one| one["name"].as_str().unwrap_or_default() == port_name);
            same.find_map(|one| one["port"].as_u64()).and_then(|port| u16::try_from(port).ok())
        };
        let mut add = |addresses: &Value, port: u16| {
            let hosts = addresses.as_array().into_iter().flatten();
            found.extend(
                hosts.filter_map(|one| one.as_str().or_else(|| one["ip"].as_str())).map(|host| Address { host: host.to_owned(), port }),
            );
        };
        for slice in &self.slices {
            let Some(port) = port_of(&slice["ports"]) else { continue };
            for endpoint in slice["endpoints"].as_array().into_iter().flatten() {
                // Readiness that nobody states counts as given.
                if endpoint.pointer("/conditions/ready").and_then(Value::as_bool) != Some(false) {
                    add(&endpoint["addresses"], port);
                }
            }
        }
        if self.slices.is_empty() {
            for subset in self.endpoints.as_ref().and_then(|one| one["subsets"].as_array()).into_iter().flatten() {
                if let Some(port) = port_of(&subset["ports"]) {
                    add(&subset["addresses"], port);
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[allow(clippy::needless_pass_by_value, clippy::unnecessary_wraps, reason = "a table of literals")]
    fn service(spec: Value) -> Option<Value> {
        Some(json!({"metadata": {"name": "s"}, "spec": spec}))
    }

    /// KAPI-AGG-01: a Service is its ready endpoints, by the name of the port.
    #[test]
    fn services() {
        let two_ports = || service(json!({"type": "ClusterIP", "ports": [{"name": "a", "port": 443}, {"name": "b", "port": 8443}]}));
        let slice = json!({
            "ports": [{"name": "b", "port": 9443}, {"name": "a", "port": 10443}],
            "endpoints": [
                {"addresses": ["10.0.0.2", "10.0.0.1"]},
                {"addresses": ["10.0.0.3"], "conditions": {"ready": false}},
                {"addresses": ["10.0.0.4"], "conditions": {"ready": true}},
            ],
        });
        let endpoints = json!({"subsets": [{"addresses": [{"ip": "10.0.0.9"}], "notReadyAddresses": [{"ip": "10.0.0.8"}], "ports": [{"name": "a", "port": 1}]}]});
        let table: Vec<(Facts, u16, Result<&str, &str>)> = vec![
            (
                Facts { service: two_ports(), slices: vec![slice.clone()], endpoints: None },
                443,
                Ok("10.0.0.1:10443 10.0.0.2:10443 10.0.0.4:10443"),
            ),
            (Facts { service: two_ports(), slices: vec![slice], endpoints: None }, 8443, Ok("10.0.0.1:9443 10.0.0.2:9443 10.0.0.4:9443")),
            (Facts { service: two_ports(), slices: vec![], endpoints: Some(endpoints) }, 443, Ok("10.0.0.9:1")),
            (Facts { service: two_ports(), ..Facts::default() }, 443, Err("no endpoints available for service \"s\"")),
            (Facts { service: two_ports(), ..Facts::default() }, 80, Err("no service port 80 found for service \"s\"")),
            (Facts::default(), 80, Err("service \"s\" not found")),
            (
                Facts { service: service(json!({"type": "ExternalName", "externalName": "db.example.com"})), ..Facts::default() },
                443,
                Ok("db.example.com:443"),
            ),
            (Facts { service: service(json!({"type": "Odd"})), ..Facts::default() }, 443, Err("unsupported service type \"Odd\"")),
        ];
        for (facts, port, wanted) in table {
            let found = facts.addresses("s", port);
            let shown =
                found.map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")).map_err(|error| error.to_string());
            assert_eq!(shown.as_deref().map_err(String::as_str), wanted);
        }
    }
}
