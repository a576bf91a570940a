//! A real release: installed on an empty cluster, kept, and updated to the next one.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use mainstay_e2e::Cluster;
use serde_json::{Map, Value, json};

use super::{Bench, resident, time};

const VERSIONS: [&str; 2] = ["4.18.54", "4.19.44"];
/// The longest time; beyond that something hangs.
const PATIENCE: Duration = Duration::from_secs(300);
/// Passes that find nothing to do, before their time is read.
const PASSES: f64 = 3.0;

impl Bench {
    /// CVO-SIM-04, CVO-SYNC-02: waits are shortened as far as they go, so that the work is what takes time; operators report at once.
    pub(super) fn releases(&mut self) -> anyhow::Result<()> {
        let Some(files) = mainstay_testing::data::archive("payload.tar.gz") else { return Ok(()) };
        let folder = tempfile::tempdir()?;
        for (path, content) in files {
            let path = folder.path().join(Path::new(&path).strip_prefix("payload").unwrap_or(Path::new(&path)));
            std::fs::create_dir_all(path.parent().context("a file in a folder")?)?;
            std::fs::write(path, content)?;
        }
        let place = |version: &str| folder.path().join(version).display().to_string();
        let (first, second) = (place(VERSIONS[0]), place(VERSIONS[1]));
        let begun = Instant::now();
        let components = "controllers,cluster-version";
        let cluster =
            self.cluster(&["--components", components, "--nodes", "0", "--release", &first, "--release", &second, "--accelerate", "1000"]);
        until(&cluster, VERSIONS[0])?;
        let installed = begun.elapsed();
        let count = metric(&cluster, r#"cluster_version_payload{version="4.18.54",type="applied"}"#)?;
        let what = |subject: &str| format!("release {} of {count} manifests, operators played: {subject}", VERSIONS[0]);
        self.add(time(&what("start of the cluster to installed"), installed, "15 s", 15_000));

        let passes = |cluster: &Cluster, name: &str| {
            metric(cluster, &format!(r#"mainstay_cluster_version_{name}_total{{mode="reconciling",end="complete"}}"#)).unwrap_or_default()
        };
        // The first ones read every object; later ones ask nothing of those that did not change.
        wait(|| passes(&cluster, "passes") >= PASSES)?;
        let before = (passes(&cluster, "passes"), passes(&cluster, "pass_seconds"));
        wait(|| passes(&cluster, "passes") >= before.0 + PASSES)?;
        let after = (passes(&cluster, "passes"), passes(&cluster, "pass_seconds"));
        let mean = Duration::from_secs_f64((after.1 - before.1) / (after.0 - before.0));
        self.add(time(&what("a pass that finds nothing to do, mean"), mean, "1 s", 1_000));
        println!("    API, controllers, operator and player: {:.1} MiB", resident(&cluster)? as f64 / 1_024.0);

        let gates = cluster.get(&["configmap", "admin-gates", "-n", "openshift-config-managed"]).context("no gates")?;
        let data: Map<String, Value> =
            gates["data"].as_object().into_iter().flatten().map(|(gate, _)| (gate.clone(), json!("true"))).collect();
        let patch = json!({"data": data}).to_string();
        cluster.kubectl(&["patch", "configmap", "admin-acks", "-n", "openshift-config", "--type", "merge", "-p", &patch]).ok();
        wait(|| {
            cluster
                .get(&["clusterversion", "version"])
                .is_some_and(|object| object["status"]["availableUpdates"][0]["version"] == VERSIONS[1])
        })?;
        let begun = Instant::now();
        cluster.mainstay(&["adm", "upgrade", "--to", VERSIONS[1]]).ok();
        until(&cluster, VERSIONS[1])?;
        self.add(time(&format!("update from {} to {}, operators played", VERSIONS[0], VERSIONS[1]), begun.elapsed(), "30 s", 30_000));
        Ok(())
    }
}

fn until(cluster: &Cluster, version: &str) -> anyhow::Result<()> {
    wait(|| {
        cluster.get(&["clusterversion", "version"]).is_some_and(|object| {
            let entry = &object["status"]["history"][0];
            entry["version"] == version && entry["state"] == "Completed"
        })
    })
}

fn wait(holds: impl Fn() -> bool) -> anyhow::Result<()> {
    let begun = Instant::now();
    while !holds() {
        ensure!(begun.elapsed() < PATIENCE, "it takes longer than {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// A number on the cluster's page of metrics.
fn metric(cluster: &Cluster, name: &str) -> anyhow::Result<f64> {
    let page = cluster.kubectl(&["get", "--raw", "/mainstay/metrics"]).ok();
    let line = page.lines().find_map(|line| line.strip_prefix(name)).with_context(|| format!("no {name}"))?;
    Ok(line.trim().parse()?)
}
