//! What concurrent clients are told can be explained by one history, and every watch and list shows a part of it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use mainstay_e2e::client::Target;
use mainstay_e2e::history::traffic::Traffic;
use mainstay_e2e::{Cluster, need_embedded};

/// KAPI-WATCH-01, KAPI-REST-02, KAPI-STORE-01: concurrent creates, updates with and without preconditions, deletes, gets and lists are
/// linearizable object by object; watches that begin and resume anywhere show each change once, in order, with its revision; lists
/// show one revision; bookmarks promise nothing too much.
#[test]
fn one_history_explains_every_answer() {
    let Some(()) = need_embedded() else { return };
    let operations = if std::env::var_os("MAINSTAY_SOAK").is_some() { 20_000 } else { 3_000 };
    let cluster = Cluster::up(&["--components", "none", "--nodes", "0"]);
    let target = Target::read(cluster.kubeconfig()).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let problems = runtime.block_on(async {
        let traffic = Traffic::new();
        let begin = Traffic::begin(&target).await.unwrap();
        traffic.set_server(Some(target));
        let mut watchers = vec![traffic.watcher(begin, usize::MAX), traffic.watcher(begin, 40)];
        // The more objects, the shorter the history of each, which is what the search for an explanation takes its time for.
        let keys = (operations / 200) as u64;
        let clients: Vec<_> = (0..12).map(|seed| traffic.client(seed, keys)).collect();
        let mut late = 0;
        while traffic.count() < operations {
            tokio::time::sleep(Duration::from_millis(2)).await;
            if late < 6 && traffic.count() > (late + 1) * operations / 8 {
                late += 1;
                // From the middle of what has happened, so that it begins with the past and goes on with what comes.
                watchers.push(traffic.watcher(traffic.acknowledged() - 20, 25 * late));
            }
        }
        traffic.finish(clients, watchers).await.unwrap()
    });
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems[..problems.len().min(10)].join("\n"));
}
