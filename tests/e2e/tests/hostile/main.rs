//! Strangers and careless clients against the built program: what one account does may cost another one nothing that matters (KAPI-SRV-06).
//!
//! Each test is an attack, generated, by an account that has no permissions unless the test says which, against `mainstay up` as a process
//! of its own under a limit of memory. Meanwhile another account writes and reads. What is asserted: resident memory grows by less than
//! 200 MiB, every write of the other account is done, and `/readyz` answers. How long the other account waited is printed.
//!
//! `MAINSTAY_SOAK=1` makes each attack as large as it was when it was found.
#![allow(clippy::large_futures, clippy::unused_self, clippy::unwrap_used, clippy::expect_used)]

mod raw;
mod scene;

use std::sync::Arc;
use std::time::Duration;

use mainstay_e2e::need_embedded;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use raw::{Raw, Request};
use scene::{Scene, soak, within};
use serde_json::json;

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// KAPI-SRV-06: documents that everybody may ask for, with windows of no bytes: 240 streams a connection.
#[test]
fn documents_that_nobody_reads() {
    let Some(()) = need_embedded() else { return };
    within(async {
        let scene = Scene::begin("documents_that_nobody_reads").await;
        let mut held = Vec::new();
        for n in 0..soak(20, 200) {
            let mut raw = Raw::open(&scene, 0).await;
            for stream in 0..240 {
                let path = ["/openapi/v2", "/openapi/v3/api/v1", "/openapi/v3/apis/apps/v1", "/apis"][(n + stream) % 4];
                let gzip = if stream % 8 < 4 { "gzip" } else { "identity" };
                raw.request(&Request::get(path).token(&scene.stranger).header("accept-encoding", gzip));
            }
            raw.flush().await;
            held.push(raw);
        }
        scene.endure().await;
    });
}

/// KAPI-SRV-06: lists that nobody reads, by an account that may list: 240 a connection, with windows of no bytes and of one.
#[test]
fn lists_that_nobody_reads() {
    let Some(()) = need_embedded() else { return };
    within(async {
        let scene = Scene::begin("lists_that_nobody_reads").await;
        scene.may(&scene.stranger_name(), "list", "configmaps").await;
        let large = "x".repeat(700 << 10);
        for n in 0..6 {
            scene
                .admin(
                    "POST",
                    "/api/v1/namespaces/default/configmaps",
                    &json!({"metadata": {"name": format!("m{n}")}, "data": {"l": large}}),
                )
                .await;
        }
        let mut held = Vec::new();
        for n in 0..soak(4, 100) {
            let mut raw = Raw::open(&scene, n as u32 % 2).await;
            for stream in 0..240 {
                let accept = ["application/json", "application/yaml", "application/json;as=Table;v=v1;g=meta.k8s.io"][stream % 3];
                let request = Request::get("/api/v1/namespaces/default/configmaps").token(&scene.stranger).header("accept", accept);
                raw.request(&request);
            }
            raw.flush().await;
            held.push(raw);
        }
        scene.endure().await;
    });
}

/// KAPI-SRV-06: bodies that are begun and not ended: 220 were enough to stop all writers.
#[test]
fn bodies_that_never_end() {
    let Some(()) = need_embedded() else { return };
    within(async {
        let scene = Scene::begin("bodies_that_never_end").await;
        let mut held = Vec::new();
        for n in 0..soak(10, 200) {
            let mut raw = Raw::open(&scene, 65_535).await;
            for _ in 0..90 {
                let length = if n % 2 == 0 { "3000000" } else { "100" };
                let request = Request::post(REVIEWS).token(&scene.stranger).header("content-length", length);
                let stream = raw.request(&request);
                raw.data(stream, b"{\"kind\":", false);
            }
            raw.flush().await;
            held.push(raw);
        }
        scene.endure().await;
    });
}

/// KAPI-SRV-06: as many connections as there are places, which do nothing: before the handshake, and after it.
#[test]
fn connections_that_do_nothing() {
    let Some(()) = need_embedded() else { return };
    mainstay_serve::raise_file_limit();
    within(async {
        let scene = Scene::begin("connections_that_do_nothing").await;
        let mut bare = Vec::new();
        for _ in 0..soak(4_200, 8_000) {
            match scene.dial().await {
                Ok(stream) => bare.push(stream),
                // This process may not have as many files.
                Err(_) => break,
            }
        }
        let mut greeted = Vec::new();
        for _ in 0..soak(100, 4_200) {
            greeted.push(scene.secure().await);
        }
        eprintln!("{} connections without a handshake, {} with one", bare.len(), greeted.len());
        scene.endure().await;
        // A new administrator comes in, too.
        scene.again().await;
    });
}

/// KAPI-REST-03, KAPI-SRV-06: bodies of 3 MB with very many unknown fields, repeated ones, and values that are small to send and large to
/// hold.
#[test]
fn bodies_of_many_fields() {
    let Some(()) = need_embedded() else { return };
    within(async {
        let scene = Scene::begin("bodies_of_many_fields").await;
        let fields = |count: usize, field: fn(usize) -> String| -> String {
            let inner: Vec<String> = (0..count).map(field).collect();
            format!("{{\"kind\":\"SelfSubjectAccessReview\",\"apiVersion\":\"authorization.k8s.io/v1\",\"spec\":{{{}}}}}", inner.join(","))
        };
        let unknown = fields(190_000, |n| format!("\"u{n:06}\":[0]"));
        let repeated = fields(380_000, |_| "\"u\":0".to_owned());
        let empty = format!("{{\"spec\":{{\"x\":[{}]}}}}", vec!["{\"\":0}"; 360_000].join(","));
        let nested = format!("{{\"spec\":{}0{}}}", "{\"a\":".repeat(100), "}".repeat(100));
        let mut held = Vec::new();
        for n in 0..soak(8, 100) {
            let body = [&unknown, &repeated, &empty, &nested][n % 4];
            let path = format!("{REVIEWS}?fieldValidation={}", ["Strict", "Warn", "Ignore"][n % 3]);
            let mut sender = scene.stranger_connection().await;
            let body = bytes::Bytes::from(body.clone());
            held.push(tokio::spawn(async move { sender.ask("POST", &path, "application/json", body).await.map(|(status, _)| status) }));
        }
        scene.endure().await;
        for task in held {
            let status = task.await.unwrap();
            eprintln!("  answered: {status:?}");
        }
    });
}

/// KAPI-WATCH-01, KAPI-SRV-06: watches that nobody reads, by an account that may watch, while a large object changes.
#[test]
fn watches_that_nobody_reads() {
    let Some(()) = need_embedded() else { return };
    within(async {
        let scene = Scene::begin("watches_that_nobody_reads").await;
        scene.may(&scene.stranger_name(), "watch", "configmaps").await;
        let maps = "/api/v1/namespaces/default/configmaps";
        let large = |n: usize| json!({"metadata": {"name": "large"}, "data": {"n": n.to_string(), "l": "x".repeat(900 << 10)}});
        scene.admin("POST", maps, &large(0)).await;
        let mut held = Vec::new();
        for n in 0..soak(10, 100) {
            let mut raw = Raw::open(&scene, n as u32 % 2).await;
            for _ in 0..100 {
                raw.request(&Request::get(&format!("{maps}?watch=true&allowWatchBookmarks=true")).token(&scene.stranger));
            }
            raw.flush().await;
            held.push(raw);
            scene.admin("PUT", &format!("{maps}/large"), &large(n + 1)).await;
        }
        scene.endure().await;
    });
}

/// KAPI-SRV-06: many connections with 100 MB of requests a minute, for documents, reviews and what is forbidden.
#[test]
fn floods_of_requests() {
    // A request is 1.2 kB long, most of which is the token.
    requests("floods_of_requests", |connections| Some(Duration::from_micros(720 * connections)));
}

/// KAPI-SRV-06: the same, as fast as they are answered.
#[test]
fn requests_without_end() {
    requests("requests_without_end", |_| None);
}

fn requests(name: &'static str, pace: impl Fn(u64) -> Option<Duration>) {
    let Some(()) = need_embedded() else { return };
    within(async {
        let scene = Scene::begin(name).await;
        let mut floods = Vec::new();
        let connections = soak(40, 1_000);
        let pace = pace(connections as u64);
        for n in 0..connections {
            let mut sender = scene.stranger_connection().await;
            floods.push(tokio::spawn(async move {
                for round in n.. {
                    if let Some(pace) = pace {
                        tokio::time::sleep(pace).await;
                    }
                    let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}).to_string();
                    let asked = match round % 4 {
                        0 => sender.ask("GET", "/apis", "application/json", bytes::Bytes::new()).await,
                        1 => sender.ask("GET", "/openapi/v3", "application/json", bytes::Bytes::new()).await,
                        2 => sender.ask("POST", REVIEWS, "application/json", review.into()).await,
                        _ => sender.ask("GET", "/api/v1/secrets", "application/json", bytes::Bytes::new()).await,
                    };
                    if asked.is_err() {
                        return;
                    }
                }
            }));
        }
        scene.endure().await;
        floods.iter().for_each(tokio::task::JoinHandle::abort);
    });
}

/// KAPI-SRV-06: frames that cost their sender nothing: pings, settings, resets, windows, empty data, headers without end.
#[test]
fn floods_of_frames() {
    let Some(()) = need_embedded() else { return };
    within(async {
        let scene = Scene::begin("floods_of_frames").await;
        let mut floods = Vec::new();
        for n in 0..soak(14, 200) {
            let mut raw = Raw::open(&scene, 65_535).await;
            let token = scene.stranger.clone();
            floods.push(tokio::spawn(async move {
                // A connection that is ended has had its answer. All of them send about 100 MB a minute.
                let mut pace = tokio::time::interval(Duration::from_millis(soak(200, 2_500) as u64));
                while raw.nuisance(n % 7, &token).await.is_ok() {
                    pace.tick().await;
                }
            }));
        }
        scene.endure().await;
        floods.iter().for_each(tokio::task::JoinHandle::abort);
    });
}

/// KAPI-SRV-06: everything at once and in any order, by a seed: connections that are half made, that ask for what they do not read, begin
/// what they do not end, reset what they began, flood, idle and come back. `SEED` chooses another one.
#[test]
fn mixtures_of_attacks() {
    let Some(()) = need_embedded() else { return };
    mainstay_serve::raise_file_limit();
    let seed = std::env::var("SEED").map_or(1, |seed| seed.parse().expect("SEED is a number"));
    within(async {
        let scene = Arc::new(Scene::begin("mixtures_of_attacks").await);
        let connections = soak(60, 1_000);
        // All of them together send about 100 MB a minute.
        let pace = Duration::from_millis(3 * connections as u64);
        let attackers: Vec<_> = (0..connections as u64)
            .map(|number| {
                let (scene, mut dice) = (scene.clone(), StdRng::seed_from_u64(seed << 32 | number));
                tokio::spawn(async move {
                    loop {
                        // A connection that is ended has had its answer.
                        let _ = attack(&scene, &mut dice, pace).await;
                    }
                })
            })
            .collect();
        scene.endure().await;
        attackers.iter().for_each(tokio::task::JoinHandle::abort);
        scene.again().await;
    });
}

/// One connection of an attacker, from its begin to its end.
async fn attack(scene: &Scene, dice: &mut StdRng, pace: Duration) -> std::io::Result<()> {
    const PATHS: [&str; 6] =
        ["/openapi/v2", "/apis", "/api/v1/secrets", "/api/v1/namespaces/default/configmaps?watch=true", "/version", "/%zz"];
    tokio::time::sleep(pace.mul_f64(dice.random())).await;
    if dice.random_ratio(1, 8) {
        let bare = scene.dial().await?;
        tokio::time::sleep(pace * 10).await;
        drop(bare);
        return Ok(());
    }
    let mut raw = Raw::try_open(scene, [0, 1, 65_535, 0x7fff_ffff][dice.random_range(0..4)]).await?;
    for _ in 0..dice.random_range(1..40) {
        match dice.random_range(0..8) {
            0 | 1 => {
                let request = Request::get(PATHS[dice.random_range(0..PATHS.len())]).token(&scene.stranger);
                for _ in 0..dice.random_range(1..40) {
                    raw.request(&request);
                }
            }
            2 | 3 => {
                let length = [5, 100, 3_000_000][dice.random_range(0..3)].to_string();
                let stream = raw.request(&Request::post(REVIEWS).token(&scene.stranger).header("content-length", &length));
                raw.data(stream, &vec![b' '; dice.random_range(0..8_000)], dice.random());
            }
            4 => raw.frames(dice.random_range(0..7), dice.random_range(1..300), &scene.stranger),
            5 => raw.reset(dice.random_range(0..40)),
            6 => raw.data(1, b"", false),
            _ => tokio::time::sleep(pace * dice.random_range(0..10)).await,
        }
        raw.try_flush().await?;
        tokio::time::sleep(pace).await;
    }
    Ok(())
}
