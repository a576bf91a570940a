//! Leader election against a server that holds one Lease.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use mainstay_runtime::leader::{Candidate, Ended, Times, lead};
use mainstay_runtime::{Cluster, Gate, NotLeading};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const TIMES: Times = Times { lease: Duration::from_secs(15), renew: Duration::from_secs(10), retry: Duration::from_secs(2) };

/// The Lease, and whether the server answers.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<(Option<Value>, bool)>>);

type Answer = (StatusCode, Json<Value>);

fn refused(code: StatusCode, reason: &str) -> Answer {
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": reason, "reason": reason, "code": code.as_u16()});
    (code, Json(status))
}

impl Server {
    fn write(&self, mut lease: Value, create: bool) -> Answer {
        let mut held = self.0.lock().unwrap();
        if held.1 {
            return refused(StatusCode::INTERNAL_SERVER_ERROR, "InternalError");
        }
        let version = held.0.as_ref().map_or(0, |lease| lease["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap());
        if create != held.0.is_none() || (!create && lease["metadata"]["resourceVersion"].as_str() != Some(&version.to_string())) {
            return refused(StatusCode::CONFLICT, "Conflict");
        }
        lease["metadata"]["resourceVersion"] = (version + 1).to_string().into();
        held.0 = Some(lease.clone());
        (StatusCode::OK, Json(lease))
    }

    fn read(&self) -> Answer {
        match &*self.0.lock().unwrap() {
            (_, true) => refused(StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
            (Some(lease), _) => (StatusCode::OK, Json(lease.clone())),
            (None, _) => refused(StatusCode::NOT_FOUND, "NotFound"),
        }
    }

    fn fail(&self, fails: bool) {
        self.0.lock().unwrap().1 = fails;
    }

    fn holder(&self) -> String {
        let held = self.0.lock().unwrap();
        held.0.as_ref().and_then(|lease| lease["spec"]["holderIdentity"].as_str()).unwrap_or_default().to_owned()
    }

    fn candidate(&self, identity: &str) -> Candidate {
        let base = "/apis/coordination.k8s.io/v1/namespaces/ns/leases";
        let router = Router::new()
            .route(base, post(|State(server): State<Self>, Json(lease): Json<Value>| async move { server.write(lease, true) }))
            .route(
                &format!("{base}/lock"),
                get(|State(server): State<Self>| async move { server.read() })
                    .put(|State(server): State<Self>, Json(lease): Json<Value>| async move { server.write(lease, false) }),
            )
            .with_state(self.clone());
        let client = Cluster::Embedded { router, identity: |_| {} }.client().unwrap();
        Candidate::new(client, "ns", "lock", identity, TIMES)
    }
}

/// OLM1-GEN-09, MS-CLI-04: a polite end gives the Lease back after the work has ended, and another goes on at once.
#[tokio::test(start_paused = true)]
async fn handed_over() {
    let (server, stop) = (Server::default(), CancellationToken::new());
    let (begun, ended) = (CancellationToken::new(), CancellationToken::new());
    let (started, finished, held) = (begun.clone(), ended.clone(), server.clone());
    let (candidate, until) = (server.candidate("one"), stop.clone());
    let one = tokio::spawn(async move {
        lead(vec![candidate], &until, |working| async move {
            started.cancel();
            working.cancelled().await;
            assert_eq!(held.holder(), "one", "the Lease is held as long as there is work");
            finished.cancel();
        })
        .await
    });
    begun.cancelled().await;
    let (candidate, other) = (server.candidate("two"), CancellationToken::new());
    let (until, was_over, working_now) = (other.clone(), ended.clone(), CancellationToken::new());
    let told = working_now.clone();
    let two = tokio::spawn(async move {
        lead(vec![candidate], &until, |working| async move {
            assert!(was_over.is_cancelled(), "two work at a time");
            told.cancel();
            working.cancelled().await;
        })
        .await
    });
    stop.cancel();
    assert_eq!(one.await.unwrap(), Ended::Stopped);
    working_now.cancelled().await;
    assert_eq!(server.holder(), "two");
    other.cancel();
    assert_eq!(two.await.unwrap(), Ended::Stopped);
    assert_eq!(server.holder(), "");
}

/// OLM1-GEN-09, MS-CLI-04: who cannot renew stops before the Lease runs out; work that does not end when told to is cut off before, too.
#[tokio::test(start_paused = true)]
async fn lost() {
    for (obeys, cut) in [(true, false), (false, true)] {
        let (server, stop) = (Server::default(), CancellationToken::new());
        let failing = server.clone();
        let failed_at = Arc::new(Mutex::new(Instant::now()));
        let since = failed_at.clone();
        let ended = lead(vec![server.candidate("one")], &stop, |working| async move {
            // The Lease has just been taken, so it counts for its whole time from here on.
            failing.fail(true);
            *since.lock().unwrap() = Instant::now();
            if obeys {
                working.cancelled().await;
            } else {
                std::future::pending::<()>().await;
            }
        })
        .await;
        assert_eq!(ended, Ended::Lost { cut });
        assert!(failed_at.lock().unwrap().elapsed() < TIMES.lease, "another may work already");
    }
}

/// MS-CLI-04: a server that is away for a while costs nobody the Lease.
#[tokio::test(start_paused = true)]
async fn a_server_that_comes_back() {
    let (server, stop) = (Server::default(), CancellationToken::new());
    let (away, end) = (server.clone(), stop.clone());
    let ended = lead(vec![server.candidate("one")], &stop, |working| async move {
        away.fail(true);
        tokio::time::sleep(TIMES.renew / 2).await;
        away.fail(false);
        tokio::time::sleep(TIMES.lease * 3).await;
        assert!(!working.is_cancelled());
        end.cancel();
        working.cancelled().await;
    })
    .await;
    assert_eq!(ended, Ended::Stopped);
}

/// MS-CLI-04: of several Leases the next is taken when the one before is held, so that two processes never wait for each other; a Lease that
/// is lost meanwhile ends the waiting.
#[tokio::test(start_paused = true)]
async fn one_after_the_other() {
    let (first, second, stop) = (Server::default(), Server::default(), CancellationToken::new());
    let mut other = first.candidate("other");
    assert!(other.elected(&stop).await);
    let (both, begun, until) = (vec![first.candidate("one"), second.candidate("one")], CancellationToken::new(), stop.clone());
    let told = begun.clone();
    let one = tokio::spawn(async move {
        lead(both, &until, |working| async move {
            told.cancel();
            working.cancelled().await;
        })
        .await
    });
    tokio::time::sleep(TIMES.retry * 3).await;
    assert_eq!(second.holder(), "", "the second is not taken while the first is somebody else's");
    other.resign().await;
    begun.cancelled().await;
    assert_eq!((first.holder(), second.holder()), ("one".to_owned(), "one".to_owned()));

    let (own, waited_for) = (Server::default(), second.candidate("two"));
    let losing = vec![own.candidate("two"), waited_for];
    let failing = own.clone();
    tokio::spawn(async move {
        tokio::time::sleep(TIMES.retry * 2).await;
        assert_eq!(failing.holder(), "two");
        failing.fail(true);
    });
    assert_eq!(lead(losing, &stop, |_| async { panic!("it never had both") }).await, Ended::Lost { cut: false });
    stop.cancel();
    assert_eq!(one.await.unwrap(), Ended::Stopped);
}

/// OLM1-GEN-09: whoever takes over from a dead process waits for all of its Leases together, not for one after the other.
#[tokio::test(start_paused = true)]
async fn the_leases_of_the_dead_are_taken_over_together() {
    let (first, second, stop) = (Server::default(), Server::default(), CancellationToken::new());
    for server in [&first, &second] {
        assert!(server.candidate("dead").elected(&stop).await);
    }
    let begun = Instant::now();
    let ended = lead(vec![first.candidate("next"), second.candidate("next")], &stop, |_| async move {
        let took = begun.elapsed();
        assert!(took >= TIMES.lease, "{took:?}: the dead may live");
        assert!(took < TIMES.lease + TIMES.retry * 2, "{took:?}");
    })
    .await;
    assert_eq!(ended, Ended::Finished);
}

/// OLM1-GEN-09: work that goes on after the Lease was not renewed in time, or was taken by another process, writes nothing more; it may read.
#[tokio::test(start_paused = true)]
async fn nothing_is_written_without_the_lease() {
    for taken in [false, true] {
        let (server, gate, stop) = (Server::default(), Gate::default(), CancellationToken::new());
        let written = Arc::new(Mutex::new(Vec::new()));
        let log = written.clone();
        let things = post(move || async move { log.lock().unwrap().push(Instant::now()) }).get(|| async { Json(json!({})) });
        let router = Router::new().route("/things", things);
        let client = Cluster::Embedded { router, identity: |_| {} }.guarded(&gate).client().unwrap();
        let request =
            |method: &str| axum::http::Request::builder().method(method).uri("/things").body(kube::client::Body::empty()).unwrap();
        let candidate = server.candidate("one").guarding(&gate);
        assert!(NotLeading::is_behind(&client.send(request("POST")).await.unwrap_err()), "nobody was elected yet");
        let (lost, thief) = (server.clone(), server.clone());
        let ended = lead(vec![candidate], &stop, |working| {
            let (client, written) = (client.clone(), written.clone());
            async move {
                client.send(request("POST")).await.unwrap();
                assert_eq!(written.lock().unwrap().len(), 1);
                if taken {
                    let mut lease = thief.0.lock().unwrap().0.clone().unwrap();
                    lease["spec"]["holderIdentity"] = "two".into();
                    lease["metadata"]["resourceVersion"] = "100".into();
                    thief.0.lock().unwrap().0 = Some(lease);
                } else {
                    lost.fail(true);
                }
                // It does not hear that it is to end, as one that is busy.
                while !working.is_cancelled() {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    // Whether this is still in time is the gate's to say.
                    let _ = client.send(request("POST")).await;
                }
                let before = written.lock().unwrap().len();
                assert!(NotLeading::is_behind(&client.send(request("POST")).await.unwrap_err()));
                assert!(client.send(request("GET")).await.is_ok());
                assert_eq!(written.lock().unwrap().len(), before);
            }
        })
        .await;
        assert_eq!(ended, Ended::Lost { cut: false });
    }
}
