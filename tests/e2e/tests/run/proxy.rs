//! Processes behind a proxy.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Stdio;

use mainstay_e2e::bundles::{catalog, extension};
use mainstay_e2e::{Cluster, eventually, mainstay, need_kubectl};
use serde_json::json;

use crate::run::world::{LONG, OLM, Replica};

/// A proxy that says no to everybody, and remembers who was asked for.
fn proxy() -> (String, std::sync::Arc<std::sync::Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let asked: std::sync::Arc<std::sync::Mutex<Vec<String>>> = std::sync::Arc::default();
    let seen = asked.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut head = [0; 1024];
            let read = stream.read(&mut head).unwrap_or_default();
            let line = String::from_utf8_lossy(&head[..read]).lines().next().unwrap_or_default().to_owned();
            seen.lock().unwrap().push(line);
            // Whoever asked may be gone already.
            let _ = stream.write_all(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    (address, asked)
}

/// OLM1-GEN-06, OLM1-GEN-09: registries and catalogs are reached through the proxy of the environment, the API, which it excepts, is not.
#[test]
fn through_a_proxy() {
    let Some(()) = need_kubectl() else { return };
    let Some(cluster) = Cluster::without_olm() else { return };
    cluster.mainstay(&["deploy", "--namespace", OLM, "--image", "example.com/mainstay:1"]).ok();
    let (address, asked) = proxy();
    let start = |component: &str| {
        let log = cluster.folder().join(format!("{component}.log"));
        let mut command = cluster.command(mainstay());
        command
            .args(["run", component, "--health-probe-bind-address=0", "--system-namespace", OLM, "--kubeconfig"])
            .arg(cluster.kubeconfig());
        command.arg("--cache-path").arg(cluster.folder().join(format!("{component}-cache")));
        if component == "catalogd" {
            command.args(["--catalogs-server-addr=127.0.0.1:0"]);
        }
        command.env("HTTPS_PROXY", &address).env("HTTP_PROXY", &address).env("NO_PROXY", "127.0.0.1");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log).unwrap());
        Replica { child: command.spawn().unwrap(), log, health: 0, metrics: 0, external: String::new() }
    };
    let until_asked = |line: &str| {
        eventually("the proxy is asked", LONG, || {
            let asked = asked.lock().unwrap();
            if asked.iter().any(|seen| seen.starts_with(line)) { Ok(()) } else { Err(format!("{line} is not among {asked:?}")) }
        });
    };

    // A catalog that says it is served somewhere else.
    cluster.apply(&catalog("far", "registry.example/catalog:1", None));
    let digest = "0".repeat(64);
    let now = "2026-01-01T00:00:00Z";
    let status = json!({"status": {
        "conditions": [{"type": "Serving", "status": "True", "reason": "Available", "message": "", "lastTransitionTime": now}],
        "resolvedSource": {"type": "Image", "image": {"ref": format!("registry.example/catalog@sha256:{digest}")}},
        "urls": {"base": "https://catalog.example/catalogs/far"},
    }});
    cluster.kubectl(&["patch", "clustercatalog", "far", "--subresource=status", "--type=merge", "-p", &status.to_string()]).ok();
    cluster.apply(&extension("gadget", "gadgets", "gadget", "1.0.0", None));
    let _controller = start("operator-controller");
    until_asked("CONNECT catalog.example:443");
    let _catalogd = start("catalogd");
    until_asked("CONNECT registry.example:443");
    let asked = asked.lock().unwrap().clone();
    assert!(asked.iter().all(|line| !line.contains("127.0.0.1")), "{asked:?}");
}
