//! The EndpointSlice of catalogd's Service: it leads to the leader, which alone serves catalogs (OLM1-CAT-18).
//!
//! A Service with a selector would send half of the requests to a replica that does not serve. So it has none, and the leader writes its
//! EndpointSlice itself.

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// The pause between attempts to write it.
const RETRY: Duration = Duration::from_secs(2);

/// A Service and its target.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named by what they are")]
pub struct Endpoint {
    pub namespace: String,
    pub service: String,
    pub address: IpAddr,
    pub port: u16,
}

/// Returns the name of the slice of a Service.
pub fn slice_of(service: &str) -> String {
    format!("{service}-leader")
}

impl Endpoint {
    /// Returns the slice.
    pub fn slice(&self) -> Value {
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": slice_of(&self.service), "namespace": self.namespace, "labels": {
                "kubernetes.io/service-name": self.service, "endpointslice.kubernetes.io/managed-by": "mainstay",
            }},
            "addressType": if self.address.is_ipv6() { "IPv6" } else { "IPv4" },
            "endpoints": [{"addresses": [self.address.to_string()], "conditions": {"ready": true, "serving": true, "terminating": false}}],
            "ports": [{"name": "https", "port": self.port, "protocol": "TCP"}],
        })
    }

    /// Writes the slice, and tries again until it is written or `stop` is cancelled.
    pub async fn publish(&self, client: Client, stop: &CancellationToken) {
        let api: Api<EndpointSlice> = Api::namespaced(client, &self.namespace);
        let name = slice_of(&self.service);
        let parameters = PatchParams::apply("catalogd").force();
        let slice = Patch::Apply(self.slice());
        loop {
            match api.patch(&name, &parameters, &slice).await {
                Ok(_) => {
                    tracing::info!(service = self.service, address = %self.address, "the Service leads to this process");
                    return;
                }
                Err(error) => tracing::warn!(service = self.service, %error, "the Service does not lead here yet"),
            }
            if stop.run_until_cancelled(tokio::time::sleep(RETRY)).await.is_none() {
                return;
            }
        }
    }
}
