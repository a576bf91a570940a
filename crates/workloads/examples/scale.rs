//! Makes thousands of pods on simulated nodes and tells how long it took and what memory it needs (KAPI-WL-05).
//!
//! `cargo run --profile demo -p mainstay-workloads --example scale -- [PODS] [NODES]`, 5000 on 50 where nothing is said.
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use std::error::Error;
use std::time::{Duration, Instant};

use mainstay_apiserver::{Config, Server};
use mainstay_rbac::UserInfo;
use mainstay_runtime::{Cluster, Env};
use mainstay_workloads::{Options, run};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Pods of one Deployment.
const SHARE: u32 = 500;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_env_filter(tracing_subscriber::EnvFilter::from_default_env()).with_writer(std::io::stderr).init();
    let mut arguments = std::env::args().skip(1);
    let pods: u32 = arguments.next().unwrap_or_else(|| "5000".into()).parse()?;
    let nodes: u32 = arguments.next().unwrap_or_else(|| "50".into()).parse()?;
    let data = tempfile::tempdir()?;
    let server = Server::open(Config::local(data.path(), 6443)).await?;
    let user = UserInfo::new("system:kube-controller-manager", &["system:masters"]);
    let cluster = Cluster::Embedded { router: server.in_process(user), identity: |_| {} };
    let client = cluster.client()?;
    let stop = CancellationToken::new();
    let options = Options { node_count: nodes, ca_pem: server.ca_certificate().as_bytes().to_vec(), ..Options::default() };
    let workloads = tokio::spawn(run(cluster, options, Env::system(), stop.clone()));
    tokio::time::sleep(Duration::from_secs(2)).await;

    let path = "/apis/apps/v1/namespaces/default/deployments";
    let begun = Instant::now();
    let mut left = pods;
    let mut wanted = Vec::new();
    while left > 0 {
        let replicas = left.min(SHARE);
        left -= replicas;
        let name = format!("d{}", wanted.len());
        let template = json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": "app:1"}]}});
        let spec = json!({"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template});
        let body = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec});
        let request = http::Request::post(path).header("content-type", "application/json").body(body.to_string().into_bytes())?;
        client.request::<Value>(request).await?;
        wanted.push((name, replicas));
    }
    loop {
        let list: Value = client.request(http::Request::get(path).body(Vec::new())?).await?;
        let ready: u64 = list["items"].as_array().into_iter().flatten().filter_map(|set| set["status"]["readyReplicas"].as_u64()).sum();
        println!("{:6.1} s  {ready:6} ready  {:6} MiB", begun.elapsed().as_secs_f64(), memory());
        if ready >= u64::from(pods) {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    stop.cancel();
    workloads.await??;
    server.close().await;
    Ok(())
}

/// What this process has in memory, in MiB; 0 where the system does not tell.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or_default() / 1024
}
