//! Serves a data directory over HTTPS on the loopback, for development of this crate.
//!
//! `cargo run -p mainstay-apiserver --example serve -- DATA_DIR PORT`. The
//! administrator's kubeconfig is written to `DATA_DIR/kubeconfig`.
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use std::error::Error;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use mainstay_apiserver::access::AnonymousAccess;
use mainstay_apiserver::{Config, Server};
use mainstay_rbac::UserInfo;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

/// What the workload controllers do for every namespace: its default ServiceAccount and the CA's certificate.
async fn fill_namespaces(router: axum::Router, ca: String) {
    let ask = async |method: &str, path: String, body: Value| -> Option<(StatusCode, Value)> {
        let request =
            Request::builder().method(method).uri(path).header("content-type", "application/json").body(Body::from(body.to_string()));
        let response = router.clone().oneshot(request.ok()?).await.ok()?;
        let status = response.status();
        let bytes = response.into_body().collect().await.ok()?.to_bytes();
        Some((status, serde_json::from_slice(&bytes).unwrap_or_default()))
    };
    let mut filled = std::collections::HashSet::new();
    loop {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        let Some((_, list)) = ask("GET", "/api/v1/namespaces".into(), Value::Null).await else { continue };
        for namespace in list["items"].as_array().into_iter().flatten() {
            let name = namespace["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            if namespace["status"]["phase"] != "Active" || !filled.insert(namespace["metadata"]["uid"].to_string()) {
                continue;
            }
            let base = format!("/api/v1/namespaces/{name}");
            ask("POST", format!("{base}/serviceaccounts"), json!({"metadata": {"name": "default"}})).await;
            ask("POST", format!("{base}/configmaps"), json!({"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": ca}})).await;
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let data_dir = PathBuf::from(arguments.next().ok_or("usage: serve DATA_DIR PORT")?);
    let port: u16 = arguments.next().ok_or("usage: serve DATA_DIR PORT")?.parse()?;
    let begun = std::time::Instant::now();
    let listener = mainstay_serve::Server::bind((Ipv4Addr::LOCALHOST, port).into()).await?;
    let address = listener.address();
    let server = Server::open(Config { anonymous: AnonymousAccess::Everything, ..Config::local(data_dir, address.port()) }).await?;
    let kubeconfig = server.write_kubeconfig(&format!("https://{address}"))?;
    println!("ready after {:?}: {}", begun.elapsed(), kubeconfig.display());
    let shutdown = CancellationToken::new();
    let running = server.serve(listener, shutdown.clone())?;
    let filler = tokio::spawn(fill_namespaces(
        server.in_process(UserInfo::new("namespace-filler", &["system:masters"])),
        server.ca_certificate().to_owned(),
    ));
    tokio::signal::ctrl_c().await?;
    filler.abort();
    server.end_watches();
    shutdown.cancel();
    running.await?;
    server.close().await;
    Ok(())
}
