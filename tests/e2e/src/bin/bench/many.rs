//! A hundred thousand ConfigMaps: writing them, listing them in pages (KAPI-PERF-03).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Value, json};

use crate::client::{JSON, Target};

/// Objects of one page.
const PAGE: usize = 500;

/// What was measured.
pub struct Many {
    /// Bytes of one object as the API answers it.
    pub object: usize,
    /// From the first page to the last.
    pub listing: Duration,
    /// The slowest page.
    pub page: Duration,
}

/// The namespace they lie in.
pub const NAMESPACE: &str = "many";

/// Creates the objects with 64 clients.
pub async fn fill(target: &Target, count: usize) -> anyhow::Result<Duration> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    target.connect().await?.json("POST", "/api/v1/namespaces", &namespace).await?;
    let (begun, next) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
    let mut tasks = Vec::new();
    for _ in 0..64 {
        let (mut connection, next) = (target.connect().await?, next.clone());
        tasks.push(tokio::spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return anyhow::Ok(());
                }
                let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("map-{number:06}")}, "data": {"text": crate::load::payload(number)}});
                connection.must("POST", &format!("/api/v1/namespaces/{NAMESPACE}/configmaps"), JSON, body.to_string().into()).await?;
            }
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(begun.elapsed())
}

/// Lists them all, page by page.
pub async fn list(target: &Target, count: usize) -> anyhow::Result<Many> {
    let mut connection = target.connect().await?;
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    let object = connection.must("GET", &format!("{path}/map-000000"), JSON, Bytes::new()).await?.len();
    let (begun, mut slowest, mut next, mut seen) = (Instant::now(), Duration::ZERO, String::new(), 0);
    loop {
        let asked = Instant::now();
        let answer = connection.must("GET", &format!("{path}?limit={PAGE}&continue={next}"), JSON, Bytes::new()).await?;
        slowest = slowest.max(asked.elapsed());
        let page: Page = serde_json::from_slice(&answer)?;
        seen += page.items.len();
        match page.metadata["continue"].as_str() {
            Some(token) if !token.is_empty() => token.clone_into(&mut next),
            _ => break,
        }
    }
    anyhow::ensure!(seen == count, "{seen} of {count} objects are in the list");
    Ok(Many { object, listing: begun.elapsed(), page: slowest })
}

#[derive(serde::Deserialize)]
struct Page {
    metadata: Value,
    items: Vec<serde::de::IgnoredAny>,
}
