//! The status of Proxy, computed from its spec and from the networks of the cluster (COP-NET-02).

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Value, json};

/// The entry that stands for everything.
const EVERYTHING: &str = "*";
/// The network that means none in particular.
const ANY: &str = "0.0.0.0/0";

/// Why a Proxy has no status; the text is upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// The spec contradicts itself or has malformed values.
    #[error("The configuration is invalid for proxy 'cluster' ({0}). Use 'oc edit proxy.config.openshift.io cluster' to fix.")]
    Invalid(InvalidSetting),
    /// Infrastructure is missing.
    #[error("Error getting infrastructure config cluster: {0}")]
    Infrastructure(String),
    /// Network is missing.
    #[error("Error getting network config 'cluster': {0}.")]
    Network(String),
    /// The install configuration is missing.
    #[error("Error getting cluster config configmap 'kube-system/cluster-config-v1': {0}.")]
    Cluster(String),
    /// An input lacks something.
    #[error("Could not update proxy 'cluster' status: failed to merge user/system noProxy settings: {0}")]
    Merge(InvalidSetting),
}

/// The mistake in a setting, in the words of OpenShift's network operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSetting(String);

impl From<String> for InvalidSetting {
    fn from(problem: String) -> Self {
        Self(problem)
    }
}

impl From<&str> for InvalidSetting {
    fn from(problem: &str) -> Self {
        Self(problem.to_owned())
    }
}

impl ProxyError {
    /// The reason of the condition.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "InvalidProxyConfig",
            Self::Infrastructure(_) => "InfraConfigError",
            Self::Network(_) => "NetworkConfigError",
            Self::Cluster(_) => "ClusterConfigError",
            Self::Merge(_) => "StatusError",
        }
    }
}

/// The inputs besides the Proxy.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// `Infrastructure/cluster`.
    pub infrastructure: Option<&'a Value>,
    /// `Network/cluster`.
    pub network: Option<&'a Value>,
    /// ConfigMap `cluster-config-v1` of namespace `kube-system`.
    pub cluster: Option<&'a Value>,
}

/// Checks a spec.
///
/// # Errors
/// The first thing that is wrong.
pub fn validate(proxy: &Value) -> Result<(), ProxyError> {
    let [http, https, no_proxy] = fields(proxy);
    if http.is_empty() && https.is_empty() && no_proxy.is_empty() {
        return Ok(());
    }
    check(http, https, no_proxy).map_err(ProxyError::Invalid)
}

/// Returns the status that a Proxy whose spec is valid should have.
///
/// # Errors
/// The spec is invalid, or an input is missing or malformed.
pub fn status(proxy: &Value, inputs: Inputs<'_>) -> Result<Value, ProxyError> {
    validate(proxy)?;
    let [http, https, no_proxy] = fields(proxy);
    let mut status = json!({});
    if http.is_empty() && https.is_empty() && no_proxy.is_empty() {
        return Ok(status);
    }
    let not_found = |kind: &str| format!("{kind} not found");
    let infrastructure =
        inputs.infrastructure.ok_or_else(|| ProxyError::Infrastructure(not_found("infrastructures.config.openshift.io \"cluster\"")))?;
    let network = inputs.network.ok_or_else(|| ProxyError::Network(not_found("networks.config.openshift.io \"cluster\"")))?;
    let cluster = inputs.cluster.ok_or_else(|| ProxyError::Cluster(not_found("configmaps \"cluster-config-v1\"")))?;
    let merged = if no_proxy == EVERYTHING {
        EVERYTHING.to_owned()
    } else {
        merge(no_proxy, infrastructure, network, cluster).map_err(ProxyError::Merge)?
    };
    for (field, value) in [("httpProxy", http), ("httpsProxy", https), ("noProxy", merged.as_str())] {
        if !value.is_empty() {
            status[field] = json!(value);
        }
    }
    Ok(status)
}

/// The status of a Proxy with the fields of `wanted` in the place of its own, and other fields as they are; none if there is nothing to write.
pub fn renewed(proxy: &Value, wanted: &Value) -> Option<Value> {
    let live = proxy.get("status").filter(|status| status.is_object());
    let mut status = live.and_then(Value::as_object).cloned().unwrap_or_default();
    for field in ["httpProxy", "httpsProxy", "noProxy"] {
        match wanted.get(field) {
            Some(value) => drop(status.insert(field.to_owned(), value.clone())),
            None => drop(status.remove(field)),
        }
    }
    (live.is_some() || !status.is_empty()).then_some(Value::Object(status))
}

fn fields(proxy: &Value) -> [&str; 3] {
    ["httpProxy", "httpsProxy", "noProxy"].map(|field| proxy["spec"][field].as_str().unwrap_or_default())
}

fn check(http: &str, https: &str, no_proxy: &str) -> Result<(), InvalidSetting> {
    if http.is_empty() && https.is_empty() {
        return Err("httpProxy or httpsProxy must be set when using proxy".into());
    }
    if !http.is_empty() {
        let scheme = scheme(http).map_err(|problem| format!("invalid httpProxy URI: {problem}"))?;
        if scheme != "http" {
            return Err("httpProxy requires a 'http' URI scheme".into());
        }
    }
    if !https.is_empty() {
        let scheme = scheme(https).map_err(|problem| format!("invalid httpsProxy URI: {problem}"))?;
        if scheme != "http" && scheme != "https" {
            return Err("httpsProxy requires a 'http' or 'https' URI scheme".into());
        }
    }
    if no_proxy.is_empty() || no_proxy == EVERYTHING {
        return Ok(());
    }
    let wrong = |entry: &&str| !is_domain(entry) && entry.parse::<IpAddr>().is_err() && !is_network(entry);
    match no_proxy.split(',').map(str::trim).find(wrong) {
        Some(entry) => Err(format!("invalid noProxy: {entry}").into()),
        None => Ok(()),
    }
}

/// The scheme of an absolute URI.
fn scheme(text: &str) -> Result<String, InvalidSetting> {
    let invalid = |problem: &str| format!("parse {text:?}: {problem}");
    if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return Err(invalid("net/url: invalid control character in URL").into());
    }
    let Some((scheme, rest)) = text.split_once(':') else { return Err(invalid("invalid URI for request").into()) };
    let is_scheme = scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    if !scheme.starts_with(|first: char| first.is_ascii_alphabetic()) || !is_scheme {
        let problem = if scheme.is_empty() { "missing protocol scheme" } else { "first path segment in URL cannot contain colon" };
        return Err(invalid(problem).into());
    }
    // What follows a scheme without slashes is opaque, and no authority.
    let Some(rest) = rest.strip_prefix("//") else { return Ok(scheme.to_ascii_lowercase()) };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    if host.contains([' ', '<', '>', '"', '\\', '^', '`', '{', '|', '}']) {
        return Err(invalid("invalid character in host name").into());
    }
    if let Some(escape) = bad_escape(host) {
        return Err(invalid(&format!("invalid URL escape {escape:?}")).into());
    }
    let port = match host.strip_prefix('[') {
        Some(address) => match address.split_once(']') {
            None => return Err(invalid("missing ']' in host").into()),
            Some((_, port)) => port,
        },
        None => host.split_once(':').map_or("", |(before, _)| &host[before.len()..]),
    };
    if let Some(digits) = port.strip_prefix(':') {
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(invalid(&format!("invalid port {port:?} after host")).into());
        }
        if !digits.is_empty() && !digits.parse::<u16>().is_ok_and(|port| port > 0) {
            return Err(format!("failed to validate port for URL {text:?}: invalid port number: {digits}").into());
        }
    } else if !port.is_empty() {
        return Err(invalid(&format!("invalid port {port:?} after host")).into());
    }
    Ok(scheme.to_ascii_lowercase())
}

/// The first escape of a host that is none: only other bytes than ASCII may be escaped, and the percent sign before a zone.
fn bad_escape(host: &str) -> Option<String> {
    host.match_indices('%').find_map(|(at, _)| {
        let escape: String = host[at..].chars().take(3).collect();
        let value = escape.get(1..).filter(|digits| digits.len() == 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        (value.is_none_or(|value| value < 0x80) && escape != "%25").then_some(escape)
    })
}

/// Returns true for a DNS subdomain, with one dot before or behind it or not.
fn is_domain(text: &str) -> bool {
    let text = text.strip_prefix('.').unwrap_or(text);
    let text = text.strip_suffix('.').unwrap_or(text);
    let is_label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let bytes = label.as_bytes();
        bytes.first().copied().is_some_and(inner)
            && bytes.last().copied().is_some_and(inner)
            && bytes.iter().all(|byte| inner(*byte) || *byte == b'-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

fn is_network(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let (Ok(address), Ok(length)) = (address.parse::<IpAddr>(), length.parse::<u8>()) else { return false };
    text.split_once('/').is_some_and(|(_, digits)| digits.bytes().all(|byte| byte.is_ascii_digit()))
        && length <= if address.is_ipv4() { 32 } else { 128 }
}

/// The union of what the cluster needs without proxy and of what the user wants.
fn merge(user: &str, infrastructure: &Value, network: &Value, cluster: &Value) -> Result<String, InvalidSetting> {
    let install = cluster.pointer("/data/install-config").and_then(Value::as_str).ok_or("missing install-config in configmap")?;
    let install: Value = mainstay_yaml::parse(install).map_err(|error| format!("invalid install-config: {error}"))?;
    let mut all: BTreeSet<String> = ["127.0.0.1", "localhost", ".svc", ".cluster.local"].map(str::to_owned).into();
    let mut add_network = |name: &str, cidr: &str| {
        if cidr == ANY {
            return Ok(());
        }
        if !is_network(cidr) {
            return Err(format!("{name} has an invalid CIDR: {cidr}"));
        }
        all.insert(cidr.to_owned());
        Ok(())
    };
    let networking = &install["networking"];
    if let Some(cidr) = networking["machineCIDR"].as_str().filter(|cidr| !cidr.is_empty()) {
        add_network("MachineCIDR", cidr)?;
    }
    for entry in networking["machineNetwork"].as_array().into_iter().flatten() {
        add_network("MachineNetwork", entry["cidr"].as_str().unwrap_or_default())?;
    }
    let address = infrastructure.pointer("/status/apiServerInternalURI").and_then(Value::as_str).filter(|address| !address.is_empty());
    let address = address.ok_or("internal api server url missing from infrastructure config 'cluster'")?;
    all.insert(host(address).ok_or("failed to parse internal api server internal url")?);
    let services = network.pointer("/status/serviceNetwork").and_then(Value::as_array).filter(|all| !all.is_empty());
    let services = services.ok_or("serviceNetwork missing from network 'cluster' status")?;
    all.extend(services.iter().filter_map(Value::as_str).map(str::to_owned));
    all.extend(of_platform(infrastructure.pointer("/status/platformStatus").unwrap_or(&Value::Null)));
    let pods = network.pointer("/status/clusterNetwork").and_then(Value::as_array).filter(|all| !all.is_empty());
    let pods = pods.ok_or("clusterNetwork missing from network `cluster` status")?;
    all.extend(pods.iter().map(|entry| entry["cidr"].as_str().unwrap_or_default().to_owned()));
    all.extend(user.split(',').filter(|entry| !entry.is_empty()).map(str::to_owned));
    Ok(all.into_iter().collect::<Vec<_>>().join(","))
}

/// Addresses that the platform itself serves, which no proxy reaches.
fn of_platform(platform: &Value) -> Vec<String> {
    let kind = platform["type"].as_str().unwrap_or_default();
    let mut all = Vec::new();
    if matches!(kind, "AWS" | "GCP" | "Azure" | "OpenStack") {
        all.push("169.254.169.254".to_owned());
    }
    match kind {
        "AWS" => all.push(match platform["aws"]["region"].as_str().unwrap_or_default() {
            "us-east-1" => ".ec2.internal".to_owned(),
            region => format!(".{region}.compute.internal"),
        }),
        "Azure" => {
            let cloud = platform["azure"]["cloudName"].as_str().unwrap_or_default();
            if cloud != "AzurePublicCloud" {
                all.push("168.63.129.16".to_owned());
            }
            if cloud == "AzureStackCloud" {
                all.push(platform["azure"]["armEndpoint"].as_str().unwrap_or_default().to_owned());
            }
        }
        "GCP" => all.extend(["metadata", "metadata.google.internal", "metadata.google.internal."].map(str::to_owned)),
        _ => {}
    }
    all
}

/// The host of an address, without port and brackets.
fn host(address: &str) -> Option<String> {
    let uri: http::Uri = address.parse().ok()?;
    let host = uri.host()?;
    Some(host.trim_start_matches('[').trim_end_matches(']').to_owned())
}
