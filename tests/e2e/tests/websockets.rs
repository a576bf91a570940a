//! Watches over websockets with another client than ours. What it does stands in `python/websockets.py`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use mainstay_e2e::{Cluster, here, need_embedded, python_client, run};

/// KAPI-WATCH-01, KAPI-CLIENT-02: Python's websocket client watches over TLS: a message an event, pings, both kinds of ends.
#[test]
fn python_watches_over_websockets() {
    let Some(()) = need_embedded() else { return };
    let Some(python) = python_client() else { return };
    let cluster = Cluster::up(&["--components", "none", "--nodes", "0"]);
    let output = run(cluster.command(&python).arg(here("python/websockets.py")), "");
    assert_eq!(output.clone().ok().trim(), "done", "{output}");
}
