//! A cluster goes into a file and comes back.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use mainstay_e2e::client::Target;
use mainstay_e2e::{Cluster, need_embedded};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// KAPI-STORE-02: `mainstay backup` of a running cluster and `mainstay restore`: the same objects, the same authority, and revisions that do
/// not come again; nobody without the right gets a backup, a broken one changes nothing, and what is there is not written over.
#[test]
fn a_backup_brings_the_cluster_back() {
    let Some(()) = need_embedded() else { return };
    let mut cluster = Cluster::up(&["--components", "none", "--nodes", "0"]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let ask = |cluster: &Cluster, method: &str, path: &str, body: Value| {
        let target = Target::read(cluster.kubeconfig()).unwrap();
        runtime.block_on(async { target.connect().await.unwrap().json(method, path, &body).await })
    };
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}});
    let kept = ask(&cluster, "POST", MAPS, map("kept")).unwrap();
    let (file, data) = (cluster.folder().join("backup"), cluster.data_dir());
    let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
    let (file, data) = (text(&file), text(&data));

    let said: Value = serde_json::from_str(&cluster.mainstay(&["backup", &file, "-o", "json"]).ok()).unwrap();
    assert!(said["files"].as_array().unwrap().contains(&json!("pki/ca.key")), "{said}");
    let refused = cluster.mainstay(&["backup", &format!("{file}2"), "--as", "nobody"]).exits(4);
    assert!(refused.contains("cannot get path \"/mainstay/backup\""), "{refused}");
    assert!(!std::path::Path::new(&format!("{file}2")).exists());
    let in_use = cluster.mainstay(&["backup", &format!("{file}2"), "--data-dir", &data]).exits(1);
    assert!(in_use.contains(&cluster.pid().to_string()), "the holder is not named: {in_use}");
    cluster.mainstay(&["restore", &file, "--data-dir", &data]).exits(4);

    let late = ask(&cluster, "POST", MAPS, map("late")).unwrap();
    let authority = std::fs::read(cluster.data_dir().join("pki/ca.crt")).unwrap();
    cluster.stop();
    let again: Value =
        serde_json::from_str(&cluster.mainstay(&["backup", &format!("{file}3"), "--data-dir", &data, "-o", "json"]).ok()).unwrap();
    assert!(again["revision"].as_u64() > said["revision"].as_u64(), "{again}");
    std::fs::rename(&data, format!("{data}-before")).unwrap();

    let cut = format!("{file}-cut");
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    let refused = cluster.mainstay(&["restore", &cut, "--data-dir", &data]).exits(1);
    assert!(refused.contains("is no whole backup") && !std::path::Path::new(&data).exists(), "{refused}");
    cluster.mainstay(&["restore", &file, "--data-dir", &data]).ok();
    cluster.start_again();
    assert_eq!(std::fs::read(cluster.data_dir().join("pki/ca.crt")).unwrap(), authority);
    assert_eq!(ask(&cluster, "GET", &format!("{MAPS}/kept"), Value::Null).unwrap(), kept);
    assert!(ask(&cluster, "GET", &format!("{MAPS}/late"), Value::Null).is_err(), "it was written after the backup");
    let revision = |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
    let next = ask(&cluster, "POST", MAPS, map("next")).unwrap();
    assert!(revision(&next) > revision(&late), "{next} does not come after {late}");
    // A watch from the time after the backup is told to begin anew.
    let target = Target::read(cluster.kubeconfig()).unwrap();
    let path = format!("{MAPS}?watch=true&timeoutSeconds=1&resourceVersion={}", revision(&late));
    let (_, told) = runtime
        .block_on(async { target.connect().await.unwrap().ask("GET", &path, "application/json", bytes::Bytes::new()).await.unwrap() });
    let told: Value = serde_json::from_slice(&told).unwrap();
    assert_eq!(told["object"]["code"], 410, "{told}");
}
