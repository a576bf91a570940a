//! The tables of `kubectl` about packages.

use std::process::Command;

use mainstay_serve::Server;
use tokio_util::sync::CancellationToken;

use crate::serving::{MARKET, World, catalog};

/// Runs kubectl; what it prints, errors included.
async fn kubectl(kubeconfig: &std::path::Path, arguments: &[&str]) -> String {
    let mut command = Command::new("kubectl");
    command.arg("--kubeconfig").arg(kubeconfig).args(arguments).env("HOME", kubeconfig.parent().unwrap());
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn words(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect()).collect()
}

/// OLM0-USER-04, OLM0-API-03, OLM0-API-30: `kubectl get`, `describe` and `explain` of packages.
#[tokio::test(flavor = "multi_thread")]
async fn kubectl_shows_packages() {
    if Command::new("kubectl").arg("--help").output().is_err() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "kubectl is missing");
        return;
    }
    let world = World::start().await;
    let (web, _a) = catalog('a', "web", "one");
    world.source(MARKET, "global", 0).await;
    world.contents.set(MARKET, "global", Some(web));
    world.listed("/apis/packages.operators.coreos.com/v1/packagemanifests", 1).await;
    let (stop, listener) = (CancellationToken::new(), Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap());
    let kubeconfig = world.api.server.write_kubeconfig(&format!("https://{}", listener.address())).unwrap();
    let served = world.api.server.serve(listener, stop.clone()).unwrap();

    let shown = kubectl(&kubeconfig, &["get", "packagemanifests", "-n", "team"]).await;
    let rows = words(&shown);
    assert_eq!((rows[0].as_slice(), &rows[1][..2]), (["NAME", "CATALOG", "AGE"].as_slice(), ["web", "The global"].as_slice()), "{shown}");
    let shown =
        kubectl(&kubeconfig, &["get", "packagemanifests", "-A", "--selector=catalog=global", "--field-selector", "metadata.name=web"])
            .await;
    assert_eq!(words(&shown)[1][..3], [MARKET, "web", "The global"], "{shown}");
    let shown = kubectl(&kubeconfig, &["describe", "packagemanifests", "web", "-n", "team"]).await;
    for wanted in
        ["Name:         web", "Default Channel:  stable", "Current CSV:  web.v1.10.0", "Version:  1.9.0", "Provider:", "Install Modes:"]
    {
        let wanted: Vec<&str> = wanted.split_whitespace().collect();
        assert!(shown.lines().any(|line| line.split_whitespace().collect::<Vec<_>>() == wanted), "{wanted:?}: {shown}");
    }
    let shown = kubectl(&kubeconfig, &["get", "packagemanifest", "web", "-n", "team", "-o", "jsonpath={.status.channels[*].name}"]).await;
    assert_eq!(shown, "fast stable");
    let shown = kubectl(&kubeconfig, &["explain", "packagemanifest.status.defaultChannel"]).await;
    assert!(shown.contains("The channel that is followed unless another one is asked for"), "{shown}");
    let shown = kubectl(&kubeconfig, &["delete", "packagemanifest", "web", "-n", "team"]).await;
    assert!(shown.contains("the server does not allow this method on the requested resource"), "{shown}");
    // Others are not hurt by the aggregated API: discovery and validation work.
    let shown = kubectl(&kubeconfig, &["create", "configmap", "c", "--from-literal=a=b", "-n", "team"]).await;
    assert!(shown.contains("configmap/c created"), "{shown}");
    let shown = kubectl(&kubeconfig, &["explain", "subscription.spec.installPlanApproval"]).await;
    assert!(shown.contains("changes that wait for an approval"), "{shown}");

    stop.cancel();
    world.api.server.end_watches();
    let _ended = served.await.unwrap();
    world.end().await;
}
