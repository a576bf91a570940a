//! A thousand ClusterExtensions on one cluster.
//!
//! Each extension has a bundle, a namespace and an installer of its own. Workload controllers run without nodes: what is measured is the
//! whole process, API, store and loops together.

use std::time::{Duration, Instant};

use anyhow::bail;
use bytes::Bytes;
use futures::StreamExt as _;
use mainstay_e2e::Registry;
use mainstay_e2e::bundles::{Toy, catalog, publish, until_serving};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::catalogs::cpu_time;
use super::client::{JSON, Target};
use super::{Bench, Figure, memory, resident, shown, time};

/// Extensions of the cluster.
const EXTENSIONS: usize = 1_000;
/// Those that are upgraded at once.
const UPGRADED: usize = 100;
/// Requests in flight.
const CLIENTS: usize = 16;
/// How long nothing is asked of the cluster while its processor time is counted.
const QUIET: Duration = Duration::from_secs(20);
/// How long all of them may take; beyond that something hangs.
const PATIENCE: Duration = Duration::from_secs(900);
const PATH: &str = "/apis/olm.operatorframework.io/v1/clusterextensions";

impl Bench {
    /// MS-OPS-04: installing, keeping and upgrading many extensions.
    pub fn extensions(&mut self) -> anyhow::Result<()> {
        let cluster = self.cluster(&["--components", "controllers,olm-v1", "--nodes", "0"]);
        let registry = Registry::ours();
        let bundles = cluster.folder().join("bundles");
        for number in 0..EXTENSIONS {
            // A package lives as long as the measurement.
            let package: &'static str = name(number).leak();
            for version in ["1.0.0", "1.1.0"].into_iter().take(if number < UPGRADED { 2 } else { 1 }) {
                Toy::new(package, version).write(&bundles);
            }
        }
        let reference = publish(&registry, &bundles, cluster.folder(), "latest");
        cluster.apply(&catalog("team", &reference, None));
        until_serving(&cluster, "team");
        let empty = resident(&cluster)?;
        let target = Target::read(cluster.kubeconfig())?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let installed = runtime.block_on(async {
            let begun = Instant::now();
            each(&target, EXTENSIONS, create).await?;
            until(&target, EXTENSIONS, "1.0.0").await?;
            anyhow::Ok(begun.elapsed())
        })?;
        self.add(time(&format!("{EXTENSIONS} ClusterExtensions: created to all Installed"), installed, "120 s", 120_000));
        std::thread::sleep(QUIET);
        let (before, begun) = (cpu_time(cluster.pid())?, Instant::now());
        std::thread::sleep(QUIET);
        let share = (cpu_time(cluster.pid())?.saturating_sub(before)).as_secs_f64() / begun.elapsed().as_secs_f64() * 100.0;
        self.add(memory(
            &format!("{EXTENSIONS} ClusterExtensions, steady: resident memory of the whole process"),
            resident(&cluster)?,
            "120 MiB",
            120,
        ));
        println!("    before the first of them: {:.1} MiB", empty as f64 / 1_024.0);
        self.add(Figure {
            what: format!("{EXTENSIONS} ClusterExtensions, steady: processor time of one core"),
            measured: format!("{share:.2} %"),
            budget: "1 %",
            holds: share <= 1.0,
        });
        let upgraded = runtime.block_on(async {
            let begun = Instant::now();
            each(&target, UPGRADED, upgrade).await?;
            until(&target, UPGRADED, "1.1.0").await?;
            anyhow::Ok(begun.elapsed())
        })?;
        self.add(time(&format!("{UPGRADED} of them upgraded at once: asked to all Installed"), upgraded, "10 s", 10_000));
        Ok(())
    }
}

fn name(number: usize) -> String {
    format!("operator-{number:04}")
}

/// Does something for every number, some at a time, each on a connection of its own.
async fn each<F>(target: &Target, count: usize, act: impl Fn(super::client::Connection, usize) -> F + Copy) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<()>>,
{
    let work = futures::stream::iter(0..count).map(|number| async move { act(target.connect().await?, number).await });
    let mut work = std::pin::pin!(work.buffer_unordered(CLIENTS));
    while let Some(done) = work.next().await {
        done?;
    }
    Ok(())
}

async fn create(mut connection: super::client::Connection, number: usize) -> anyhow::Result<()> {
    let (name, rbac) = (name(number), "/apis/rbac.authorization.k8s.io/v1");
    let installer = format!("{name}-installer");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    connection.json("POST", "/api/v1/namespaces", &namespace).await?;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": installer, "namespace": name}});
    connection.json("POST", &format!("/api/v1/namespaces/{name}/serviceaccounts"), &account).await?;
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": installer},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": installer, "namespace": name}]});
    connection.json("POST", &format!("{rbac}/clusterrolebindings"), &binding).await?;
    let extension = json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": name}, "spec": {
        "namespace": name, "serviceAccount": {"name": installer},
        "source": {"sourceType": "Catalog", "catalog": {"packageName": name, "version": "1.0.0"}}}});
    connection.json("POST", PATH, &extension).await?;
    Ok(())
}

async fn upgrade(mut connection: super::client::Connection, number: usize) -> anyhow::Result<()> {
    let patch = json!({"spec": {"source": {"catalog": {"version": "1.1.0"}}}});
    connection.must("PATCH", &format!("{PATH}/{}", name(number)), "application/merge-patch+json", patch.to_string().into()).await?;
    Ok(())
}

/// Waits until so many extensions have a version.
async fn until(target: &Target, count: usize, version: &str) -> anyhow::Result<()> {
    let (mut connection, begun) = (target.connect().await?, Instant::now());
    loop {
        let list: Value = serde_json::from_slice(&connection.must("GET", PATH, JSON, Bytes::new()).await?)?;
        let items: Vec<&Value> = list["items"].as_array().into_iter().flatten().collect();
        let there = items.iter().filter(|item| item["status"]["install"]["bundle"]["version"] == version).count();
        if there >= count {
            return Ok(());
        }
        if begun.elapsed() > PATIENCE {
            let waiting = items.iter().find(|item| item["status"]["install"]["bundle"]["version"] != version);
            bail!(
                "{there} of {count} have version {version} after {}; {:#}",
                shown(begun.elapsed()),
                waiting.map_or(&Value::Null, |item| &item["status"])
            );
        }
        sleep(Duration::from_millis(100)).await;
    }
}
