//! Serves a data directory over HTTPS on the loopback with everything that makes objects come alive, for development.
//!
//! `cargo run -p mainstay-workloads --example up -- DATA_DIR PORT [NODES]`. With 0 nodes only the controllers run. The
//! administrator's kubeconfig is written to `DATA_DIR/kubeconfig`.
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use std::error::Error;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use mainstay_apiserver::access::AnonymousAccess;
use mainstay_apiserver::{Config, Server};
use mainstay_rbac::UserInfo;
use mainstay_runtime::{Cluster, Env};
use mainstay_workloads::{Options, run};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_env_filter(tracing_subscriber::EnvFilter::from_default_env()).with_writer(std::io::stderr).init();
    let mut arguments = std::env::args().skip(1);
    let data_dir = PathBuf::from(arguments.next().ok_or("usage: up DATA_DIR PORT [NODES]")?);
    let port: u16 = arguments.next().ok_or("usage: up DATA_DIR PORT [NODES]")?.parse()?;
    let nodes: u32 = arguments.next().unwrap_or_else(|| "3".into()).parse()?;
    let listener = mainstay_serve::Server::bind((Ipv4Addr::LOCALHOST, port).into()).await?;
    let address = listener.address();
    let server = Server::open(Config { anonymous: AnonymousAccess::Everything, ..Config::local(data_dir, address.port()) }).await?;
    let kubeconfig = server.write_kubeconfig(&format!("https://{address}"))?;
    println!("ready: {}", kubeconfig.display());
    let shutdown = CancellationToken::new();
    let running = server.serve(listener, shutdown.clone())?;
    let user = UserInfo::new("system:kube-controller-manager", &["system:masters"]);
    let cluster = Cluster::Embedded { router: server.in_process(user), identity: |_| {} };
    let options = Options {
        scheduler: nodes > 0,
        nodes: nodes > 0,
        node_count: nodes,
        ca_pem: server.ca_certificate().as_bytes().to_vec(),
        ..Options::default()
    };
    let stop = CancellationToken::new();
    let workloads = tokio::spawn(run(cluster, options, Env::system(), stop.clone()));
    tokio::signal::ctrl_c().await?;
    stop.cancel();
    workloads.await??;
    server.end_watches();
    shutdown.cancel();
    running.await?;
    server.close().await;
    Ok(())
}
