//! Five thousand pods on fifty simulated nodes (KAPI-WL-05).

use std::time::{Duration, Instant};

use anyhow::bail;
use bytes::Bytes;
use serde_json::{Value, json};

use crate::client::{JSON, Target};

/// Deployments, and the pods of each: what a node takes at most is 110.
const DEPLOYMENTS: usize = 50;
const REPLICAS: usize = 100;

/// All the pods.
pub const PODS: usize = DEPLOYMENTS * REPLICAS;

/// Creates the Deployments and waits until every pod is Ready.
pub async fn run(target: &Target) -> anyhow::Result<Duration> {
    let mut connection = target.connect().await?;
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let begun = Instant::now();
    for number in 0..DEPLOYMENTS {
        let (name, labels) = (format!("crowd-{number}"), json!({"app": format!("crowd-{number}")}));
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "example.com/web:1"}]}},
        }});
        connection.json("POST", path, &deployment).await?;
    }
    loop {
        let list: Value = serde_json::from_slice(&connection.must("GET", path, JSON, Bytes::new()).await?)?;
        let ready: u64 = list["items"].as_array().into_iter().flatten().filter_map(|item| item["status"]["readyReplicas"].as_u64()).sum();
        if ready == PODS as u64 {
            return Ok(begun.elapsed());
        }
        if begun.elapsed() > Duration::from_secs(300) {
            bail!("{ready} of {PODS} pods are Ready after 300 s");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
