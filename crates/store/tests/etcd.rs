//! The etcd engine over a real etcd: the suite of every engine, servers that share one, and an etcd that dies.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::model;
use async_trait::async_trait;
use bytes::Bytes;
use mainstay_store::etcd::{Options, Prefix, Tls};
use mainstay_store::{Error, Etcd, Expect, Range, Store};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;

use crate::etcd_process::EtcdProcess;
use crate::model::{Engine, collect, play, steps};

struct Shared {
    address: String,
    prefix: String,
}

impl Shared {
    fn options(&self) -> Options {
        let prefix = Prefix { ours: String::new(), theirs: self.prefix.clone() };
        Options::parse(&format!("etcd://{}", self.address), None, prefix).unwrap()
    }
}

#[async_trait]
impl Engine for Shared {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(reach(self.options()).await)
    }
}

/// Opens a store as soon as etcd answers.
async fn reach(options: Options) -> Etcd {
    for _ in 0..10 {
        match Etcd::open(options.clone()).await {
            Ok(store) => return store,
            Err(Error::Remote { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
    panic!("etcd does not answer")
}

/// KAPI-STORE-03: etcd gives every state and every change as the model says, below a prefix of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_state_and_every_change_is_as_the_model_says() {
    let folder = tempfile::tempdir().unwrap();
    let Some(process) = EtcdProcess::start(folder.path(), &[]) else { return };
    let mut runner = TestRunner::default();
    for case in 0..24 {
        let steps = steps().new_tree(&mut runner).unwrap().current();
        eprintln!("case {case}: {steps:?}");
        play(&Shared { address: process.address(), prefix: format!("/case-{case}") }, steps).await;
    }
}

/// KAPI-STORE-03, KAPI-WATCH-01: two stores on one etcd, writers and watches on both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_stores_on_one_etcd_see_the_same_order() {
    let folder = tempfile::tempdir().unwrap();
    let Some(process) = EtcdProcess::start(folder.path(), &[]) else { return };
    let engine = Shared { address: process.address(), prefix: "/two".into() };
    let (one, other) = (engine.open().await, engine.open().await);
    model::watch_while_others_write(one.clone(), other.clone()).await;
    let metrics = one.metrics().await.unwrap();
    assert_eq!((metrics.keys, metrics.writes), (16, 400));
    // A comparison is etcd's, not this process's: of two that saw the same, one writes.
    let seen = one.put("/claim", Bytes::from_static(b"0"), Expect::Absent).await.unwrap().modified;
    let claim = |store: Arc<dyn Store>| async move { store.put("/claim", Bytes::from_static(b"1"), Expect::Revision(seen)).await.is_ok() };
    let (first, second) = tokio::join!(claim(one.clone()), claim(other.clone()));
    assert!(first ^ second);
    // What one was told to be written the other reads.
    let revision = one.put("/fresh", Bytes::new(), Expect::Absent).await.unwrap().modified;
    assert!(other.latest().await.unwrap() >= revision);
}

/// KAPI-STORE-03: a watch whose prefix is quiet is told a position when asked for, though others moved the revision on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quiet_watch_tells_its_position() {
    let folder = tempfile::tempdir().unwrap();
    let Some(process) = EtcdProcess::start(folder.path(), &[]) else { return };
    let store = Shared { address: process.address(), prefix: "/mine".into() }.open().await;
    let stranger = Shared { address: process.address(), prefix: "/theirs".into() }.open().await;
    let mut watch = store.watch("/", store.latest().await.unwrap()).await.unwrap();
    let moved = stranger.put("/a", Bytes::new(), Expect::Any).await.unwrap().modified;
    assert_eq!(store.latest().await.unwrap(), moved);
    store.tell_position().await.unwrap();
    let batch = tokio::time::timeout(Duration::from_secs(120), watch.next()).await.unwrap().unwrap();
    assert!(batch.revision > moved);
}

/// KAPI-STORE-03: etcd is killed and started again under load; no acknowledged write is lost and no watch misses a change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_that_dies_costs_no_change() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut process) = EtcdProcess::start(folder.path(), &[]) else { return };
    let engine = Shared { address: process.address(), prefix: "/dies".into() };
    let (one, other) = (engine.open().await, engine.open().await);
    let begin = one.latest().await.unwrap();
    let watch = other.watch("/k/", begin).await.unwrap();
    let acknowledged = Arc::new(AtomicU64::new(0));
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let (store, acknowledged) = (if writer % 2 == 0 { one.clone() } else { other.clone() }, acknowledged.clone());
            tokio::spawn(async move {
                let mut written = Vec::new();
                for count in 0..60_u8 {
                    loop {
                        match store.put(&format!("/k/{writer}/{count}"), Bytes::from(vec![count]), Expect::Any).await {
                            Ok(kv) => {
                                acknowledged.fetch_add(1, Ordering::Relaxed);
                                written.push((kv.key, kv.modified));
                                break;
                            }
                            Err(Error::Remote { .. }) => tokio::task::yield_now().await,
                            Err(other) => panic!("{other}"),
                        }
                    }
                }
                written
            })
        })
        .collect();
    for part in [60, 140] {
        while acknowledged.load(Ordering::Relaxed) < part {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        process.kill();
        process.run();
    }
    let mut written = Vec::new();
    for writer in writers {
        written.extend(writer.await.unwrap());
    }
    let last = written.iter().map(|(_, revision)| *revision).max().unwrap();
    // A write of unknown outcome may have been done and then repeated, so there may be more changes than acknowledged ones.
    let (mut watch, mut seen, mut upto) = (watch, std::collections::HashSet::new(), begin);
    while upto < last {
        let batch = tokio::time::timeout(Duration::from_secs(120), watch.next()).await.expect("changes come").unwrap();
        for event in batch.events {
            assert!(event.revision() > upto, "events come in order and once");
            upto = event.revision();
            seen.insert((event.key().to_owned(), upto));
        }
    }
    for change in written {
        assert!(seen.contains(&change), "{change:?} was acknowledged and not told");
    }
    let listing = one.list(Range { prefix: "/k/".into(), ..Range::default() }).await.unwrap();
    assert_eq!(listing.items.len(), 240);
}

/// KAPI-STORE-03: of several servers one compacts an interval's history, by the key that kube-apiserver uses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_the_servers_compacts() {
    let folder = tempfile::tempdir().unwrap();
    let Some(process) = EtcdProcess::start(folder.path(), &[]) else { return };
    let engine = Shared { address: process.address(), prefix: "/c".into() };
    let options = Options { compact_every: Duration::from_millis(300), ..engine.options() };
    let (one, other) = (reach(options.clone()).await, reach(options).await);
    let first = one.put("/k", Bytes::new(), Expect::Any).await.unwrap().modified;
    // Each write moves on the history that an interval leaves behind.
    let mut gone = false;
    for _ in 0..6_000 {
        one.put("/k", Bytes::new(), Expect::Any).await.unwrap();
        gone = matches!(other.watch("/k", first).await, Err(Error::Compacted { .. }));
        if gone {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(gone, "history was not compacted");
    let listing = one.list(Range { prefix: "/k".into(), revision: Some(first), ..Range::default() }).await;
    assert!(matches!(listing, Err(Error::Compacted { asked, oldest }) if asked == first && oldest > first));
    let begin = one.latest().await.unwrap();
    let watch = other.watch("/", begin).await.unwrap();
    one.put("/k", Bytes::new(), Expect::Any).await.unwrap();
    assert_eq!(collect(watch, begin, 1).await[0].0, "/k");
}

/// KAPI-STORE-03: encrypted connections with certificates on both sides; without the right ones there is a clear refusal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn encrypted_connections() {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

    let folder = tempfile::tempdir().unwrap();
    let ca_key = KeyPair::generate().unwrap();
    let mut ca = CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_pem = ca.self_signed(&ca_key).unwrap().pem();
    let issuer = Issuer::from_ca_cert_pem(&ca_pem, ca_key).unwrap();
    let leaf = |name: &str| {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned(), name.to_owned()]).unwrap();
        (params.signed_by(&key, &issuer).unwrap().pem(), key.serialize_pem())
    };
    let (server, client) = (leaf("etcd"), leaf("client"));
    let place = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    };
    let arguments = [
        format!("--cert-file={}", place("server.crt", &server.0)),
        format!("--key-file={}", place("server.key", &server.1)),
        format!("--trusted-ca-file={}", place("ca.crt", &ca_pem)),
        "--client-cert-auth".to_owned(),
    ];
    let Some(process) = EtcdProcess::start(folder.path(), &arguments) else { return };
    let address = format!("etcds://{}", process.address());
    let tls = |identity| Some(Tls { authority: ca_pem.clone().into_bytes(), identity });
    let identity = (client.0.into_bytes(), client.1.into_bytes());
    let store = reach(Options::parse(&address, tls(Some(identity)), Prefix::default()).unwrap()).await;
    store.put("/a", Bytes::from_static(b"1"), Expect::Absent).await.unwrap();
    let refused = Etcd::open(Options::parse(&address, tls(None), Prefix::default()).unwrap()).await.err().unwrap();
    assert!(matches!(refused, Error::Remote { .. }), "{refused:?}");
    let stranger = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap().cert.pem().into_bytes();
    let options = Options::parse(&address, Some(Tls { authority: stranger, identity: None }), Prefix::default()).unwrap();
    let refused = Etcd::open(options).await.err().unwrap();
    assert!(refused.to_string().contains("certificate"), "{refused}");
}
