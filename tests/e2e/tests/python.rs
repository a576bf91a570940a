//! The Python client against the embedded cluster. What it does stands in `python/clients.py`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use mainstay_e2e::{Cluster, here, need_embedded, python_client, run};

#[track_caller]
fn check(subject: &str, arguments: &[&str]) {
    let Some(()) = need_embedded() else { return };
    let Some(python) = python_client() else { return };
    let cluster = Cluster::up(arguments);
    let output = run(cluster.command(&python).arg(here("python/clients.py")).arg(subject), "");
    assert_eq!(output.clone().ok().trim(), "done", "{output}");
}

const CONTROLLERS: &[&str] = &["--components", "controllers", "--nodes", "0"];

/// KAPI-CLIENT-02, KAPI-REST-01, KAPI-REST-02: create, read, list in pages, replace, delete.
#[test]
fn objects() {
    check("objects", CONTROLLERS);
}

/// KAPI-CLIENT-02, KAPI-PATCH-01, KAPI-SSA-01: the three patches and server-side apply.
#[test]
fn patches() {
    check("patches", CONTROLLERS);
}

/// KAPI-CLIENT-02, KAPI-WATCH-01: a watch resumes where another one ended, ends in time, and says when it cannot begin.
#[test]
fn watches() {
    check("watches", CONTROLLERS);
}

/// KAPI-CLIENT-02, KAPI-CRD-01, KAPI-DISC-01: the dynamic client with a kind of its own.
#[test]
fn dynamic_client() {
    check("dynamic_client", CONTROLLERS);
}

/// KAPI-CLIENT-02, KAPI-REST-05, KAPI-AUTH-01: what simulated nodes refuse, and an account's token.
#[test]
fn refusals() {
    check("refusals", &["--components", "controllers,scheduler,nodes"]);
}
