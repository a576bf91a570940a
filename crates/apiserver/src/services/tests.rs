//! Who holds an address or a port when requests end early, and when the store fails.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use http::StatusCode;
use serde_json::json;
use tokio::sync::Semaphore;

use super::*;
use crate::testing::{Faulty, Then, World};

const SERVICES: &str = "/api/v1/namespaces/default/services";

fn key(name: &str) -> String {
    format!("/registry/core/services/default/{name}")
}

/// A Service with this address and this port of every node.
fn service(name: &str, address: &str, port: u16) -> Value {
    let spec = json!({"type": "NodePort", "clusterIP": address, "clusterIPs": [address], "ports": [{"port": 80, "protocol": "TCP", "nodePort": port}]});
    json!({"metadata": {"name": name}, "spec": spec})
}

impl World {
    /// Returns whether a Service can have the address and the port now; it does not keep them.
    async fn can_have(&self, address: &str, port: u16) -> bool {
        let (status, answer) = self.send("POST", SERVICES, service("other", address, port)).await;
        if status == StatusCode::CREATED {
            assert_eq!(self.send("DELETE", &format!("{SERVICES}/other"), Value::Null).await.0, StatusCode::OK);
            return true;
        }
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
        assert!(answer["message"].as_str().unwrap().contains("already allocated"), "{answer}");
        false
    }

    /// Waits until the server has done what nobody waits for any more.
    async fn until_free(&self, address: &str, port: u16) {
        let waiting = async {
            while !self.can_have(address, port).await {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(60), waiting).await.expect("it is free again");
    }
}

/// KAPI-REST-07: a client that goes away while its Service is deleted does not take the address and the port along.
#[tokio::test(flavor = "multi_thread")]
async fn deletions_without_a_client() {
    let world = World::new(false).await;
    assert_eq!(world.send("POST", SERVICES, service("a", "10.96.0.70", 30070)).await.0, StatusCode::CREATED);
    let gate = Arc::new(Semaphore::new(0));
    world.store.arrange(&key("a"), 0, Then::AnswerLater(gate.clone()));
    world.send_and_leave("DELETE", &format!("{SERVICES}/a"), Value::Null).await;
    gate.add_permits(1);
    world.until_free("10.96.0.70", 30070).await;
}

/// KAPI-REST-07: nor while it is created or changed: the Service is stored and holds what it was allocation, or gives it back.
#[tokio::test(flavor = "multi_thread")]
async fn writes_without_a_client() {
    let world = World::new(false).await;
    let gate = Arc::new(Semaphore::new(0));
    world.store.arrange(&key("a"), 0, Then::AnswerLater(gate.clone()));
    world.send_and_leave("POST", SERVICES, service("a", "10.96.0.70", 30070)).await;
    gate.add_permits(1);
    world.until("core/services", "default/a", |service| service.is_some()).await;
    assert!(!world.can_have("10.96.0.70", 30071).await && !world.can_have("10.96.0.71", 30070).await, "the Service holds it");

    // It lets go of the port.
    world.store.arrange(&key("a"), 0, Then::AnswerLater(gate.clone()));
    let plain = json!({"spec": {"type": "ClusterIP", "ports": [{"port": 80, "nodePort": null}]}});
    world.send_and_leave("PATCH", &format!("{SERVICES}/a"), plain).await;
    gate.add_permits(1);
    world.until_free("10.96.0.71", 30070).await;
}

/// KAPI-REST-07: what was given for a write that never came is free again.
#[tokio::test]
async fn given_and_dropped() {
    let directory = tempfile::tempdir().unwrap();
    for shared in [false, true] {
        let store: Arc<dyn Store> = Faulty::open(&directory.path().join(shared.to_string()), shared);
        let allocators = Arc::new(Allocators::default());
        let mut wanted = service("a", "10.96.0.70", 30070);
        let allocation = allocators.allocate(&store, &mut wanted.clone(), None, false).await.ok().expect("it is free");
        assert!(allocators.allocate(&store, &mut wanted.clone(), None, false).await.is_err(), "it is not");
        drop(allocation);
        // A claim is given back by a task of its own.
        while allocators.allocate(&store, &mut wanted, None, false).await.is_err() {
            tokio::task::yield_now().await;
        }
    }
}

/// KAPI-STORE-03: where nobody knows whether a Service was stored, no other one gets its address and its port.
#[tokio::test]
async fn doubtful_writes() {
    let world = World::new(true).await;
    for (name, then, code, free) in
        [("a", Then::DoubtAfter, StatusCode::INTERNAL_SERVER_ERROR, false), ("b", Then::Refuse, StatusCode::SERVICE_UNAVAILABLE, true)]
    {
        world.store.arrange(&key(name), 0, then);
        let wanted = service(name, &format!("10.96.0.{}", name.as_bytes()[0]), 30_000 + u16::from(name.as_bytes()[0]));
        assert_eq!(world.send("POST", SERVICES, wanted.clone()).await.0, code);
        // Another server, which has not heard of anything.
        let other = Arc::new(Allocators::default());
        let store: Arc<dyn Store> = world.store.clone();
        let allocation = other.allocate(&store, &mut wanted.clone(), None, false).await;
        assert_eq!(allocation.is_ok(), free, "{name}");
    }
}

/// KAPI-STORE-03: what a deleted Service held is not taken from one that came after it, even of the same name.
#[tokio::test]
async fn late_releases() {
    let directory = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Faulty::open(directory.path(), true);
    let with_uid = |uid: &str| {
        let mut service = service("a", "10.96.0.70", 30070);
        service["metadata"]["uid"] = uid.into();
        service["metadata"]["namespace"] = "default".into();
        service
    };
    let [mut first, mut second] = ["1", "2"].map(with_uid);
    let (one, two) = (Arc::new(Allocators::default()), Arc::new(Allocators::default()));
    one.allocate(&store, &mut first, None, false).await.ok().expect("it is free").settle(None).await;
    let claims = || Item::gained(&first, None);
    for item in claims() {
        assert!(claims::claim(&*store, &item, &second).await.unwrap().is_none(), "{item:?} is claimed");
    }
    one.release(&*store, &first, None).await;
    two.allocate(&store, &mut second, None, false).await.ok().expect("it is free").settle(None).await;
    one.release(&*store, &first, None).await;
    for item in claims() {
        assert!(claims::claim(&*store, &item, &first).await.unwrap().is_none(), "{item:?} is the second's");
    }
}
