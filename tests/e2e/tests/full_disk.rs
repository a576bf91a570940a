//! A disk that fills up under a running cluster.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use http::StatusCode;
use http_body_util::BodyExt as _;
use mainstay_e2e::client::{Connection, JSON, Target};
use mainstay_e2e::{Cluster, need_embedded, skip};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// The size of the disk, and of what is put there beside the data.
const DISK: usize = 64 << 20;
const BALLAST: usize = 24 << 20;
/// What one write takes.
const LARGE: usize = 700 << 10;

/// A cluster whose data lies on a small disk of its own.
struct Small {
    cluster: Cluster,
    disk: PathBuf,
}

impl Small {
    /// `None`, visibly, where nothing can be mounted.
    fn up() -> Option<Self> {
        let mut cluster = Cluster::up(&["--components", "none", "--nodes", "0"]);
        cluster.stop();
        let disk = cluster.data_dir();
        let size = format!("size={DISK}");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(&disk).stderr(Stdio::null()).status();
        if !mounted.is_ok_and(|status| status.success()) {
            skip("a small disk cannot be mounted here (that takes root)");
            return None;
        }
        let mut small = Self { cluster, disk };
        small.cluster.start_again();
        Some(small)
    }

    fn ballast(&self) -> PathBuf {
        self.disk.join("ballast")
    }

    async fn connect(&self) -> Connection {
        Target::read(self.cluster.kubeconfig()).unwrap().connect().await.unwrap()
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        self.cluster.stop();
        let unmounted = Command::new("umount").arg(&self.disk).status();
        assert!(unmounted.is_ok_and(|status| status.success()) || std::thread::panicking(), "{} stays mounted", self.disk.display());
    }
}

/// Writes an object; the version that was acknowledged, or the refusal.
async fn put(connection: &mut Connection, name: &str, size: usize) -> Result<String, Value> {
    let body = json!({"metadata": {"name": name}, "data": {"name": name, "fill": "x".repeat(size)}});
    let (status, answer) = connection.ask("POST", MAPS, JSON, body.to_string().into()).await.unwrap();
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    match status {
        StatusCode::CREATED => Ok(answer["metadata"]["resourceVersion"].as_str().unwrap().to_owned()),
        StatusCode::INTERNAL_SERVER_ERROR => Err(answer),
        other => panic!("{other}: {answer}"),
    }
}

async fn versions(connection: &mut Connection) -> BTreeMap<String, String> {
    let list = connection.json("GET", &format!("{MAPS}?labelSelector=!none"), &Value::Null).await.unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let items = list["items"].as_array().unwrap().iter().filter(|item| item["data"]["fill"].is_string());
    items.map(|item| (text(&item["data"]["name"]), text(&item["metadata"]["resourceVersion"]))).collect()
}

/// KAPI-STORE-02: on a full disk writes are refused with what is wrong and what helps, reads and watches go on, even across a kill; with
/// space again writes work without a restart, and nothing that was acknowledged is lost.
#[test]
fn a_full_disk_is_survived() {
    let Some(()) = need_embedded() else { return };
    let runtime = Runtime::new().unwrap();
    let Some(mut small) = Small::up() else { return };
    std::fs::write(small.ballast(), vec![1; BALLAST]).unwrap();
    let mut acknowledged = BTreeMap::new();
    runtime.block_on(async {
        let mut connection = small.connect().await;
        let refused = loop {
            let name = format!("large-{}", acknowledged.len());
            match put(&mut connection, &name, LARGE).await {
                Ok(version) => acknowledged.insert(name, version),
                Err(refused) => break refused,
            };
            assert!(acknowledged.len() * LARGE < DISK, "the disk does not fill up");
        };
        assert!(acknowledged.len() > 5, "{refused}");
        let message = refused["message"].as_str().unwrap();
        assert_eq!(refused["reason"], "InternalError");
        assert!(message.contains("no space is left on the disk of") && message.contains(&*small.disk.to_string_lossy()), "{message}");
        assert!(message.contains("writes work again when there is some"), "{message}");
        // It stays so, for one as for many, and nothing that was refused is there.
        for number in 0..3 {
            assert!(put(&mut connection, &format!("refused-{number}"), LARGE).await.is_err());
        }
        assert_eq!(versions(&mut connection).await, acknowledged);
        let mut watcher = small.connect().await;
        let mut watch = watcher.stream(&format!("{MAPS}?watch=true")).await.unwrap();
        assert!(watch.frame().await.unwrap().is_ok(), "watches begin");
    });
    small.cluster.kill();
    small.cluster.start_again();
    runtime.block_on(async {
        let mut connection = small.connect().await;
        assert_eq!(versions(&mut connection).await, acknowledged, "after a kill on the full disk");
        assert!(put(&mut connection, "refused-again", LARGE).await.is_err());
        std::fs::remove_file(small.ballast()).unwrap();
        for number in 0..5 {
            let name = format!("after-{number}");
            let version = put(&mut connection, &name, LARGE).await;
            acknowledged.insert(name, version.expect("there is space again"));
        }
    });
    small.cluster.kill();
    small.cluster.start_again();
    runtime.block_on(async {
        let mut connection = small.connect().await;
        assert_eq!(versions(&mut connection).await, acknowledged);
        put(&mut connection, "last", 10).await.unwrap();
    });
}
