//! Where the Service of catalogd leads, on the real API with catalogd's own permissions.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::support::{Api, SYSTEM, catalogd, operator_controller, place};
use mainstay_olm_v1::deployment::CATALOGD_SERVICE;
use mainstay_olm_v1::endpoint::{Endpoint, slice_of};
use mainstay_olm_v1::manifests::{Accounts, own_namespace};
use mainstay_runtime::Cluster;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

fn endpoint(address: &str, port: u16) -> Endpoint {
    Endpoint { namespace: SYSTEM.to_owned(), service: CATALOGD_SERVICE.to_owned(), address: address.parse().unwrap(), port }
}

fn leads_to(slice: &Value) -> (&Value, &Value, &Value) {
    (&slice["endpoints"][0]["addresses"], &slice["ports"][0]["port"], &slice["metadata"]["labels"]["kubernetes.io/service-name"])
}

/// OLM1-CAT-18, OLM1-GEN-11, MS-CLI-04: the leader's slice is made with the permissions that are deployed; the next leader takes it over, and so it
/// does with one that a dead leader left, whoever wrote into it since. With the end it is not tried any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_service_leads_to_the_leader() {
    let api = Api::start().await;
    for object in own_namespace(SYSTEM, Accounts::SEPARATE) {
        api.apply(object).await;
    }
    let client = |identity| Cluster::Embedded { router: api.server.router(), identity }.client().unwrap();
    let at = place("discovery.k8s.io/v1", "EndpointSlice", SYSTEM, &slice_of(CATALOGD_SERVICE));
    let stop = CancellationToken::new();
    let (service, first, second) = (json!(CATALOGD_SERVICE), json!(["10.0.0.1"]), json!(["10.0.0.2"]));

    endpoint("10.0.0.1", 8443).publish(client(catalogd), &stop).await;
    assert_eq!(leads_to(&api.get(&at).await.unwrap()), (&first, &json!(8443), &service));
    // Another process leads, and is asked at its own port.
    endpoint("10.0.0.2", 9443).publish(client(catalogd), &stop).await;
    let slice = api.get(&at).await.unwrap();
    assert_eq!(leads_to(&slice), (&second, &json!(9443), &service));
    assert_eq!((slice["endpoints"].as_array().unwrap().len(), slice["ports"].as_array().unwrap().len()), (1, 1), "{slice:#}");

    // What is left of a dead leader, with somebody else's hand in it.
    api.apply(json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": slice_of(CATALOGD_SERVICE), "namespace": SYSTEM, "labels": {"kubernetes.io/service-name": "elsewhere"}},
        "endpoints": [{"addresses": ["10.9.9.9"], "conditions": {"ready": true}}, {"addresses": ["10.9.9.8"], "conditions": {"ready": false}}],
        "ports": [{"name": "https", "port": 1, "protocol": "TCP"}],
    }))
    .await;
    endpoint("10.0.0.1", 8443).publish(client(catalogd), &stop).await;
    let slice = api.get(&at).await.unwrap();
    assert_eq!(leads_to(&slice), (&first, &json!(8443), &service));
    assert_eq!(slice["endpoints"].as_array().unwrap().len(), 1, "{slice:#}");

    // Who has no permissions to it changes nothing, and gives up with the end.
    let ended = CancellationToken::new();
    ended.cancel();
    endpoint("10.0.0.3", 8443).publish(client(operator_controller), &ended).await;
    assert_eq!(leads_to(&api.get(&at).await.unwrap()).0, &first);
    api.close().await;
}
