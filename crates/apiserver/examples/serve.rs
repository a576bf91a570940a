//! Serves a data directory over plain HTTP on the loopback, for development of this crate.
//!
//! `cargo run -p mainstay-apiserver --example serve -- DATA_DIR PORT`: every request is made as a member of system:masters unless it
//! impersonates somebody, and a kubeconfig for it is written to `DATA_DIR/kubeconfig`.
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use std::error::Error;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use mainstay_apiserver::{Config, Endpoint, Server};
use mainstay_rbac::UserInfo;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let data_dir = PathBuf::from(arguments.next().ok_or("usage: serve DATA_DIR PORT")?);
    let port: u16 = arguments.next().ok_or("usage: serve DATA_DIR PORT")?.parse()?;
    let begun = std::time::Instant::now();
    let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.to_string(), port };
    let server = Server::open(Config { data_dir: data_dir.clone(), endpoint, store: mainstay_store::Options::default() }).await?;
    println!("ready after {:?}", begun.elapsed());
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{name: dev, cluster: {{server: \"http://127.0.0.1:{port}\"}}}}]\nusers: [{{name: dev, user: {{}}}}]\ncontexts: [{{name: dev, context: {{cluster: dev, user: dev}}}}]\ncurrent-context: dev\n"
    );
    std::fs::write(data_dir.join("kubeconfig"), kubeconfig)?;
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    let router = server.in_process(UserInfo::new("kubernetes-admin", &["system:masters", "system:authenticated"]));
    axum::serve(listener, router)
        .with_graceful_shutdown(async {
            let _ = tokio::signal::ctrl_c().await;
        })
        .await?;
    server.close().await;
    Ok(())
}
