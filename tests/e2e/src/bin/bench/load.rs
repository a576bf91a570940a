//! Requests per second and their latency, at several numbers of keep-alive clients (KAPI-PERF-02).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use serde_json::{Value, json};

use crate::client::{APPLY, Connection, JSON, Target};

/// What the clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Get,
    Update,
    Apply,
}

impl Operation {
    pub const ALL: [Self; 4] = [Self::Create, Self::Get, Self::Update, Self::Apply];

    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Get => "get",
            Self::Update => "update",
            Self::Apply => "server-side apply",
        }
    }
}

/// What was measured.
pub struct Load {
    pub operation: Operation,
    pub clients: usize,
    pub per_second: f64,
    pub p50: Duration,
    pub p99: Duration,
}

impl Load {
    /// As `--json` keeps it: microseconds.
    pub fn json(&self) -> Value {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        json!({"operation": slug(self.operation), "clients": self.clients, "perSecond": self.per_second, "p50": micros(self.p50), "p99": micros(self.p99)})
    }

    /// What [`Load::json`] wrote.
    pub fn read(value: &Value) -> anyhow::Result<Self> {
        let micros = |name: &str| value[name].as_u64().map(Duration::from_micros).with_context(|| format!("no {name}"));
        let operation = Operation::ALL.into_iter().find(|one| value["operation"] == slug(*one));
        Ok(Self {
            operation: operation.context("no operation")?,
            clients: value["clients"].as_u64().context("no clients")? as usize,
            per_second: value["perSecond"].as_f64().context("no perSecond")?,
            p50: micros("p50")?,
            p99: micros("p99")?,
        })
    }
}

/// The content of a ConfigMap: 1 KiB.
pub fn payload(number: usize) -> String {
    let mut text = format!("{number:08} ");
    while text.len() < 1_024 {
        text.push_str("the quick brown fox jumps over the lazy dog ");
    }
    text.truncate(1_024);
    text
}

fn object(namespace: &str, name: &str, number: usize) -> Bytes {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace, "labels": {"app": "bench"}}, "data": {"text": payload(number)}})
        .to_string()
        .into()
}

/// Runs every operation with every number of clients, each for `time`, on ConfigMaps of 1 KiB in namespaces of its own.
pub async fn run(target: &Target, clients: &[usize], time: Duration) -> anyhow::Result<Vec<Load>> {
    let mut setup = target.connect().await?;
    let mut loads = Vec::new();
    for &count in clients {
        let namespace = format!("bench-{count}-{}", std::process::id());
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        setup.json("POST", "/api/v1/namespaces", &body).await?;
        for operation in Operation::ALL {
            loads.push(one(target, &namespace, operation, count, time).await?);
        }
        setup.must("DELETE", &format!("/api/v1/namespaces/{namespace}"), JSON, Bytes::new()).await?;
    }
    Ok(loads)
}

async fn one(target: &Target, namespace: &str, operation: Operation, clients: usize, time: Duration) -> anyhow::Result<Load> {
    let mut connections = Vec::new();
    for client in 0..clients {
        let mut connection = target.connect().await?;
        let (path, name) = (format!("/api/v1/namespaces/{namespace}/configmaps"), format!("{}-{client}", slug(operation)));
        // What is read and changed is there before the clock runs; the connection is warm for the others.
        if operation == Operation::Create {
            connection.must("GET", &format!("{path}?limit=1"), JSON, Bytes::new()).await?;
        } else {
            connection.must("POST", &path, JSON, object(namespace, &name, 0)).await?;
        }
        connections.push((connection, path, name));
    }
    let begun = Instant::now();
    let serial = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = connections
        .into_iter()
        .map(|(connection, path, name)| {
            let (namespace, serial) = (namespace.to_owned(), serial.clone());
            tokio::spawn(client(connection, namespace, path, name, operation, begun + time, serial))
        })
        .collect();
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await??);
    }
    let took = begun.elapsed();
    latencies.sort_unstable();
    let at = |share: f64| {
        latencies.get(((latencies.len() as f64 * share) as usize).min(latencies.len().saturating_sub(1))).copied().unwrap_or_default()
    };
    Ok(Load { operation, clients, per_second: latencies.len() as f64 / took.as_secs_f64(), p50: at(0.5), p99: at(0.99) })
}

async fn client(
    mut connection: Connection,
    namespace: String,
    path: String,
    name: String,
    operation: Operation,
    until: Instant,
    serial: Arc<AtomicUsize>,
) -> anyhow::Result<Vec<Duration>> {
    let mut latencies = Vec::new();
    let own = format!("{path}/{name}");
    let apply = format!("{own}?fieldManager=bench&force=true");
    while Instant::now() < until {
        let number = serial.fetch_add(1, Ordering::Relaxed);
        let body = match operation {
            Operation::Create => object(&namespace, &format!("object-{number}"), number),
            Operation::Get => Bytes::new(),
            Operation::Update | Operation::Apply => object(&namespace, &name, number),
        };
        let begun = Instant::now();
        match operation {
            Operation::Create => connection.must("POST", &path, JSON, body).await?,
            Operation::Get => connection.must("GET", &own, JSON, body).await?,
            Operation::Update => connection.must("PUT", &own, JSON, body).await?,
            Operation::Apply => connection.must("PATCH", &apply, APPLY, body).await?,
        };
        latencies.push(begun.elapsed());
    }
    Ok(latencies)
}

fn slug(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "create",
        Operation::Get => "get",
        Operation::Update => "update",
        Operation::Apply => "apply",
    }
}
