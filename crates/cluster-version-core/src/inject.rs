//! Settings of the cluster that go into a manifest's containers (CVO-APPLY-07, CVO-APPLY-08).

use serde_json::{Value, json};

use crate::apply::{self, ClusterVersionRef};

/// The annotation that names the containers that are to use the cluster's proxy.
const INJECT_PROXY: &str = "config.openshift.io/inject-proxy";
/// The container of the operator itself.
const OPERATOR: &str = "cluster-version-operator";
const OPERATOR_NAMESPACE: &str = "openshift-cluster-version";
/// The port of the API where its address names none.
const DEFAULT_PORT: &str = "443";

/// The proxy in use, from `Proxy/cluster`; texts are empty for what is not set.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "the fields are those of the Proxy's status")]
pub struct ProxySettings<'a> {
    pub http_proxy: &'a str,
    pub https_proxy: &'a str,
    pub no_proxy: &'a str,
}

/// The settings of the cluster that manifests get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of the Proxy's status")]
pub struct Settings {
    pub http_proxy: String,
    pub https_proxy: String,
    pub no_proxy: String,
    /// The internal address of the API; empty if it is not known or not to be used.
    pub internal_api: String,
}

impl Settings {
    /// The settings of `Proxy/cluster` and `Infrastructure/cluster`.
    pub fn of(proxy: Option<&Value>, infrastructure: Option<&Value>) -> Self {
        let text = |object: Option<&Value>, field: &str| {
            object.and_then(|object| object["status"][field].as_str().map(str::to_owned)).unwrap_or_default()
        };
        Self {
            http_proxy: text(proxy, "httpProxy"),
            https_proxy: text(proxy, "httpsProxy"),
            no_proxy: text(proxy, "noProxy"),
            internal_api: text(infrastructure, "apiServerInternalURI"),
        }
    }
}

/// The object of a manifest as the cluster is to have it: with its owner (CVO-APPLY-03) and the cluster's settings.
///
/// # Errors
/// The settings cannot be put into it.
pub fn wanted(manifest: &Value, owner: &ClusterVersionRef<'_>, settings: &Settings) -> Result<Value, InjectError> {
    let mut wanted = apply::owned(manifest, owner);
    let Settings { http_proxy, https_proxy, no_proxy, internal_api: address } = settings;
    proxy(&mut wanted, ProxySettings { http_proxy, https_proxy, no_proxy })?;
    if !address.is_empty() {
        internal_api(&mut wanted, address)?;
    }
    Ok(wanted)
}

/// Why settings cannot be put into a manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InjectError {
    /// A named container is not in the pod.
    #[error("requested injection for non-existent container: {}", mainstay_golang::quote(.0))]
    NoContainer(String),
    /// The API's internal address cannot be read.
    #[error("address {address}: {problem}")]
    Address {
        /// The host part of the address.
        address: String,
        /// The fault in it.
        problem: &'static str,
    },
}

/// Sets the proxy's variables in the containers that a Deployment or DaemonSet names. Without a proxy nothing is added: variables of an earlier
/// one go when the manifest is merged.
pub fn proxy(manifest: &mut Value, proxy: ProxySettings<'_>) -> Result<(), InjectError> {
    let kind = (manifest["apiVersion"].as_str(), manifest["kind"].as_str());
    if !matches!(kind, (Some("apps/v1"), Some("Deployment" | "DaemonSet"))) {
        return Ok(());
    }
    let names = manifest["metadata"]["annotations"][INJECT_PROXY].as_str().unwrap_or_default().to_owned();
    let is_set = [proxy.http_proxy, proxy.https_proxy, proxy.no_proxy].iter().any(|setting| !setting.is_empty());
    if names.is_empty() || !is_set {
        return Ok(());
    }
    for name in names.split(',') {
        in_container(manifest, name, |environment| {
            environment.push(json!({"name": "HTTP_PROXY", "value": proxy.http_proxy}));
            environment.push(json!({"name": "HTTPS_PROXY", "value": proxy.https_proxy}));
            environment.push(json!({"name": "NO_PROXY", "value": proxy.no_proxy}));
        })?;
    }
    Ok(())
}

/// Points the operator's own Deployment to the API's internal address, the `apiServerInternalURI` of `Infrastructure/cluster`, so that it does
/// not depend on one server. For hosted control planes it is not called.
pub fn internal_api(manifest: &mut Value, uri: &str) -> Result<(), InjectError> {
    let name = (manifest["metadata"]["namespace"].as_str(), manifest["metadata"]["name"].as_str());
    if manifest["apiVersion"] != "apps/v1" || manifest["kind"] != "Deployment" || name != (Some(OPERATOR_NAMESPACE), Some(OPERATOR)) {
        return Ok(());
    }
    let (host, port) = address(uri)?;
    if host.is_empty() {
        return Ok(());
    }
    in_container(manifest, OPERATOR, |environment| {
        for (name, value) in [("KUBERNETES_SERVICE_PORT", port), ("KUBERNETES_SERVICE_HOST", host)] {
            let mut found = false;
            for variable in environment.iter_mut().filter(|variable| variable["name"] == name) {
                variable["value"] = json!(value);
                found = true;
            }
            if !found {
                environment.push(json!({"name": name, "value": value}));
            }
        }
    })
}

fn in_container(manifest: &mut Value, name: &str, mut change: impl FnMut(&mut Vec<Value>)) -> Result<(), InjectError> {
    let mut found = false;
    for field in ["containers", "initContainers"] {
        let containers = manifest.pointer_mut(&format!("/spec/template/spec/{field}")).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter(|container| container["name"] == name) {
            found = true;
            if !container["env"].is_array() {
                container["env"] = json!([]);
            }
            if let Some(environment) = container["env"].as_array_mut() {
                change(environment);
            }
        }
    }
    if found { Ok(()) } else { Err(InjectError::NoContainer(name.to_owned())) }
}

/// Host and port of an address.
fn address(uri: &str) -> Result<(&str, &str), InjectError> {
    let after = uri.split_once("//").map_or("", |(_, after)| after);
    let authority = after.split(['/', '?', '#']).next().unwrap_or_default();
    let address = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let refuse = |problem| Err(InjectError::Address { address: address.to_owned(), problem });
    if let Some(inner) = address.strip_prefix('[') {
        return match inner.split_once(']') {
            None => refuse("missing ']' in address"),
            Some((_, "")) => Ok((address, DEFAULT_PORT)),
            Some((host, rest)) => match rest.strip_prefix(':') {
                Some("") => Ok((host, DEFAULT_PORT)),
                Some(port) => Ok((host, port)),
                None => refuse("missing port in address"),
            },
        };
    }
    match address.split_once(':') {
        None => Ok((address, DEFAULT_PORT)),
        Some((_, port)) if port.contains(':') => refuse("too many colons in address"),
        Some((host, "")) => Ok((host, DEFAULT_PORT)),
        Some((host, port)) => Ok((host, port)),
    }
}
