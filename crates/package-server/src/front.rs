//! The user who asks: the API server names them in headers, and shows that it is the API server by its certificate.
//!
//! Which certificate that is says the ConfigMap `kube-system/extension-apiserver-authentication`, which every API server keeps.

use std::sync::{PoisonError, RwLock};

use http::HeaderMap;
use jiff::Timestamp;
use kube::api::DynamicObject;
use mainstay_apiserver::access::FrontProxy;
use mainstay_rbac::UserInfo;
use mainstay_serve::Connection;

/// The namespace of the ConfigMap.
pub const NAMESPACE: &str = "kube-system";
/// The name of the ConfigMap.
pub const CONFIG_MAP: &str = "extension-apiserver-authentication";

/// The front proxy as the ConfigMap describes it now; none until it was read.
#[derive(Debug, Default)]
pub struct Front(RwLock<Option<FrontProxy>>);

impl Front {
    /// Takes over the ConfigMap. One that cannot be used leaves no front proxy: then no request is answered.
    pub fn read(&self, config: Option<&DynamicObject>) {
        let proxy = config.and_then(read);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = proxy;
    }

    /// Returns true if the front proxy is known.
    pub fn is_known(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Returns the user that the front proxy names; `None` if the connection is not the front proxy's.
    pub fn identify(&self, connection: Option<&Connection>, headers: &HeaderMap, now: Timestamp) -> Option<UserInfo> {
        let proxy = self.0.read().unwrap_or_else(PoisonError::into_inner).clone()?;
        proxy.identify(&connection?.certificates, headers, now)
    }
}

fn read(config: &DynamicObject) -> Option<FrontProxy> {
    let text = |key: &str| config.data["data"][key].as_str().unwrap_or_default();
    let authority = text("requestheader-client-ca-file");
    if authority.is_empty() {
        return None;
    }
    // Without names, every certificate of the authority is the front proxy's, as in Kubernetes.
    let names: Vec<String> = match serde_json::from_str(text("requestheader-allowed-names")) {
        Ok(names) => names,
        Err(_) if text("requestheader-allowed-names").is_empty() => Vec::new(),
        Err(error) => {
            tracing::warn!(%error, "configmap {NAMESPACE}/{CONFIG_MAP}: allowed names cannot be read");
            return None;
        }
    };
    match FrontProxy::new(authority) {
        Ok(proxy) => Some(proxy.allowing(names)),
        Err(error) => {
            tracing::warn!(error = mainstay_diagnostics::chain(&error), "configmap {NAMESPACE}/{CONFIG_MAP}: the CA cannot be used");
            None
        }
    }
}
