//! Backups of a cluster whose objects lie in etcd.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::etcd_process::EtcdProcess;
use mainstay_e2e::client::Target;
use mainstay_e2e::{Cluster, need_embedded};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// KAPI-STORE-02, KAPI-STORE-03: a running cluster on etcd is backed up as of one revision while others write, and restored into a data
/// directory: the same objects with the same versions, the same authority, and later revisions than any that was told of.
#[test]
fn from_etcd_to_a_directory() {
    let Some(()) = need_embedded() else { return };
    let folder = tempfile::tempdir().unwrap();
    let Some(process) = EtcdProcess::start(folder.path(), &[]) else { return };
    let runtime = Runtime::new().unwrap();
    let storage = format!("etcd://{}", process.address());
    let mut source = Cluster::up(&["--storage", &storage, "--components", "none", "--nodes", "0"]);
    let file = folder.path().join("backup").to_string_lossy().into_owned();
    let target = Target::read(source.kubeconfig()).unwrap();
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"name": name}});
    let (before, said, late) = runtime.block_on(async {
        let mut connection = target.connect().await.unwrap();
        for number in 0..700 {
            connection.json("POST", MAPS, &map(&format!("map-{number}"))).await.unwrap();
        }
        for number in 0..50 {
            connection.json("DELETE", &format!("{MAPS}/map-{number}"), &Value::Null).await.unwrap();
        }
        let before = connection.json("GET", MAPS, &Value::Null).await.unwrap();
        let said: Value = serde_json::from_str(&source.mainstay(&["backup", &file, "-o", "json"]).ok()).unwrap();
        let late = connection.json("POST", MAPS, &map("late")).await.unwrap();
        (before, said, late)
    });
    let revision = |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
    assert!(said["files"].as_array().unwrap().contains(&json!("pki/ca.key")), "{said}");
    let taken = said["revision"].as_u64().unwrap();
    assert!(revision(&before) <= taken && taken < revision(&late), "{said}");
    let authority = std::fs::read(source.data_dir().join("pki/ca.crt")).unwrap();
    source.stop();

    let mut restored = Cluster::up(&["--components", "none", "--nodes", "0"]);
    restored.stop();
    std::fs::remove_dir_all(restored.data_dir()).unwrap();
    restored.mainstay(&["restore", &file, "--data-dir", &restored.data_dir().to_string_lossy()]).ok();
    restored.start_again();
    assert_eq!(std::fs::read(restored.data_dir().join("pki/ca.crt")).unwrap(), authority);
    runtime.block_on(async {
        let mut connection = Target::read(restored.kubeconfig()).unwrap().connect().await.unwrap();
        let after = connection.json("GET", MAPS, &Value::Null).await.unwrap();
        assert_eq!(after["items"], before["items"], "the same objects with the same versions");
        let next = connection.json("POST", MAPS, &map("next")).await.unwrap();
        assert!(revision(&next) > revision(&late), "{next}");
    });
}
