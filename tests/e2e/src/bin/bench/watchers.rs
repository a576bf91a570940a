//! How fast one change reaches a thousand watchers (KAPI-WATCH-02).

use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::json;
use tokio::sync::mpsc;

use crate::client::{Connection, JSON, Target};

/// What was measured: how long until the last of all watchers had a change.
pub struct Spread {
    pub watchers: usize,
    pub median: Duration,
    pub slowest: Duration,
}

/// Opens watches on ConfigMaps of a namespace of its own, a connection each, and changes one object `rounds` times.
pub async fn run(target: &Target, watchers: usize, rounds: usize) -> anyhow::Result<Spread> {
    let mut writer = target.connect().await?;
    let namespace = format!("bench-watch-{}", std::process::id());
    writer.json("POST", "/api/v1/namespaces", &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})).await?;
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let object = |number: usize| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "watched"}, "data": {"number": format!("round-{number}."), "text": crate::load::payload(number)}});
    let created = writer.json("POST", &path, &object(0)).await?;
    let revision = created["metadata"]["resourceVersion"].as_str().context("no resourceVersion")?;
    let (seen, mut told) = mpsc::channel(watchers);
    let mut tasks = Vec::new();
    for _ in 0..watchers {
        let mut connection = target.connect().await?;
        let body = connection.stream(&format!("{path}?watch=1&resourceVersion={revision}")).await?;
        tasks.push(tokio::spawn(follow(connection, body, seen.clone())));
    }
    let mut all = Vec::new();
    for round in 1..=rounds {
        let begun = Instant::now();
        writer.must("PUT", &format!("{path}/watched"), JSON, object(round).to_string().into()).await?;
        for _ in 0..watchers {
            let reached = tokio::time::timeout(Duration::from_secs(30), told.recv()).await;
            reached.context("a watcher did not get the change within 30 s")?.context("the watches ended")?;
        }
        all.push(begun.elapsed());
    }
    for task in &tasks {
        task.abort();
    }
    writer.must("DELETE", &format!("/api/v1/namespaces/{namespace}"), JSON, Bytes::new()).await?;
    all.sort_unstable();
    Ok(Spread { watchers, median: all[all.len() / 2], slowest: all[all.len() - 1] })
}

/// Tells of every event: a line each.
async fn follow(connection: Connection, mut body: Incoming, seen: mpsc::Sender<()>) -> anyhow::Result<()> {
    while let Some(frame) = body.frame().await {
        let frame = frame?;
        let ends = frame.data_ref().map_or(0, |data| data.split(|byte| *byte == b'\n').count() - 1);
        for _ in 0..ends {
            seen.send(()).await?;
        }
    }
    drop(connection);
    Ok(())
}
