//! The program is killed at random instants under load, again and again.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::{Duration, Instant};

use mainstay_e2e::client::Target;
use mainstay_e2e::history::traffic::Traffic;
use mainstay_e2e::{Cluster, need_embedded};
use rand::Rng as _;

/// KAPI-SRV-04, KAPI-STORE-02: whatever instant it is killed at, every acknowledged write is there after the next start, none that was
/// not is half there, revisions do not go back, and watches resume without a gap: one history explains all answers of all lives.
#[test]
fn kills_lose_nothing_and_watches_resume_without_a_gap() {
    let Some(()) = need_embedded() else { return };
    let rounds = if std::env::var_os("MAINSTAY_SOAK").is_some() { 300 } else { 10 };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut cluster = Cluster::up(&["--components", "none", "--nodes", "0"]);
    let traffic = Traffic::new();
    let target = Target::read(cluster.kubeconfig()).unwrap();
    let begin = runtime.block_on(Traffic::begin(&target)).unwrap();
    traffic.set_server(Some(target));
    let (clients, watchers): (Vec<_>, Vec<_>) = runtime.block_on(async {
        let clients = (0..8).map(|seed| traffic.client(seed, 8 * (rounds / 8 + 1))).collect();
        (clients, vec![traffic.watcher(begin, usize::MAX), traffic.watcher(begin, 30), traffic.watcher(begin, 100)])
    });
    for round in 0..rounds {
        let until = traffic.count() + rand::rng().random_range(1..150);
        let given_up = Instant::now() + Duration::from_secs(60);
        while traffic.count() < until {
            assert!(Instant::now() < given_up, "round {round}: the clients do not get on");
            std::thread::sleep(Duration::from_micros(200));
        }
        cluster.kill();
        traffic.set_server(None);
        let acknowledged = traffic.acknowledged();
        cluster.start_again();
        let target = Target::read(cluster.kubeconfig()).unwrap();
        let found = runtime.block_on(Traffic::revision(&target)).unwrap();
        assert!(found >= acknowledged, "round {round}: revision {found} after {acknowledged} was told of");
        traffic.set_server(Some(target));
    }
    let problems = runtime.block_on(traffic.finish(clients, watchers)).unwrap();
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems[..problems.len().min(10)].join("\n"));
}
