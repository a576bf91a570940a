//! Ends and beginnings: signals, kills, restarts, a second process.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use mainstay_e2e::{Cluster, mainstay, need_embedded, need_kubectl, run};

const ALONE: &[&str] = &["--components", "none", "--nodes", "0"];

/// KAPI-SRV-01, KAPI-SRV-02: the kubeconfig is private, names the real port, and its authority survives a restart.
#[test]
fn the_kubeconfig_is_private_and_the_authority_stays() {
    let Some(()) = need_embedded() else { return };
    let mut cluster = Cluster::up(ALONE);
    let mode = std::fs::metadata(cluster.kubeconfig()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(!cluster.server().ends_with(":0"));
    assert!(std::fs::read_to_string(cluster.kubeconfig()).unwrap().contains(cluster.server()));
    let authority = |cluster: &Cluster| {
        let text = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
        mainstay_yaml::parse(&text).unwrap()["clusters"][0]["cluster"]["certificate-authority-data"].clone()
    };
    let before = authority(&cluster);
    cluster.stop();
    cluster.start_again();
    assert_eq!(authority(&cluster), before);
}

/// KAPI-SRV-04: SIGTERM and SIGINT end it within five seconds with exit code 0, watches and all.
#[test]
fn a_signal_ends_it_politely() {
    let Some(()) = need_embedded() else { return };
    let Some(()) = need_kubectl() else { return };
    let mut cluster = Cluster::up(&["--components", "controllers,scheduler,nodes"]);
    let mut watch = cluster.command(&mainstay_e2e::kubectl().unwrap());
    let mut watch = watch
        .args(["get", "configmaps", "-A", "--watch"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    assert_eq!(cluster.stop(), Some(0), "{}", cluster.log());
    let _ = watch.kill();
    let _ = watch.wait();
}

/// KAPI-SRV-04, KAPI-STORE-02: a kill at any instant loses no acknowledged write, and the next start recovers by itself.
#[test]
fn a_kill_loses_nothing_acknowledged() {
    let Some(()) = need_embedded() else { return };
    let Some(()) = need_kubectl() else { return };
    let mut cluster = Cluster::up(ALONE);
    let mut acknowledged = Vec::new();
    for round in 0..3 {
        for number in 0..8 {
            let name = format!("write-{round}-{number}");
            cluster.kubectl(&["create", "configmap", &name, "--from-literal", &format!("value={number}")]).ok();
            acknowledged.push(name);
        }
        cluster.kill();
        cluster.start_again();
        let found = cluster.kubectl(&["get", "configmaps", "-n", "default", "-o", "name"]).ok();
        for name in &acknowledged {
            assert!(found.lines().any(|line| line == format!("configmap/{name}")), "{name} is lost: {found}");
        }
    }
}

/// KAPI-SRV-05: a second process on the same data is refused, and told who holds it.
#[test]
fn a_second_process_is_refused() {
    let Some(()) = need_embedded() else { return };
    let cluster = Cluster::up(ALONE);
    let data = cluster.data_dir();
    let output = run(
        Command::new(mainstay())
            .args(["up", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(&data)
            .args(ALONE)
            .env("HOME", cluster.folder().join("other")),
        "",
    );
    let said = output.exits(1);
    assert!(said.contains(&cluster.pid().to_string()), "the holder {} is not named: {said}", cluster.pid());
    assert!(said.contains(&*data.to_string_lossy()), "the folder is not named: {said}");
}
