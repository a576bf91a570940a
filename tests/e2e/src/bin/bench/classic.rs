//! OLM classic with many Subscriptions, and with copies of CSVs in many namespaces.
//!
//! The controllers run as `mainstay run olm-classic`, a process of their own, as upstream's two operators do. The API, the controllers of
//! Kubernetes and the simulated nodes are another process.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use futures::StreamExt as _;
use mainstay_e2e::bundles::{Toy, publish};
use mainstay_e2e::{Cluster, Registry};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::client::{JSON, Target};
use super::{Bench, memory, resident, shown, time};

/// Namespaces with Subscriptions, and packages in each of them.
const SUBSCRIBED: (usize, usize) = (100, 5);
/// Namespaces with copies, and operators for all namespaces.
const COPIED: (usize, usize) = (2_000, 20);
/// Requests in flight.
const CLIENTS: usize = 16;
/// The bytes of a CSV's description: the median of the recorded CSVs has about as many beside what is decided on.
const DESCRIPTION: usize = 40_000;
/// The longest time; beyond that something hangs.
const PATIENCE: Duration = Duration::from_secs(900);
/// The time in which memory that is no longer needed goes back.
const QUIET: Duration = Duration::from_secs(20);
const GLOBAL: &str = "openshift-marketplace";
const V1ALPHA1: &str = "/apis/operators.coreos.com/v1alpha1";
const V1: &str = "/apis/operators.coreos.com/v1";

impl Bench {
    /// OLM0-API-17, OLM0-RES-32: many Subscriptions, from nothing to operators that run.
    pub fn subscriptions(&mut self) -> anyhow::Result<()> {
        let (namespaces, packages) = SUBSCRIBED;
        // Every operator is a pod, a node takes 110, and one node is the control plane.
        let nodes = ((namespaces * packages).div_ceil(100) + 1).to_string();
        let cluster = self.cluster(&["--components", "controllers,scheduler,nodes", "--nodes", &nodes]);
        let operators = Operators::start(&self.binary, &cluster)?;
        let registry = Registry::ours();
        let names: Vec<&'static str> = (0..packages).map(|number| &*operator(number).leak()).collect();
        catalog(&cluster, &registry, &names)?;
        let target = Target::read(cluster.kubeconfig())?;
        let begun = Instant::now();
        let (known, running) = self.runtime.block_on(async {
            each(&target, namespaces, |mut connection, number| {
                let names = &names;
                async move {
                    let namespace = format!("team-{number}");
                    home(&mut connection, &namespace, &json!({"targetNamespaces": [namespace]})).await?;
                    for name in names {
                        let spec = json!({"name": name, "channel": "stable", "source": "team", "sourceNamespace": GLOBAL});
                        let body = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "metadata": {"name": name}, "spec": spec});
                        connection.json("POST", &format!("{V1ALPHA1}/namespaces/{namespace}/subscriptions"), &body).await?;
                    }
                    Ok(())
                }
            })
            .await?;
            let paths = |plural: &str, suffix: &str| -> Vec<String> {
                let all = (0..namespaces).flat_map(|number| names.iter().map(move |name| (number, *name)));
                all.map(|(number, name)| format!("{V1ALPHA1}/namespaces/team-{number}/{plural}/{name}{suffix}")).collect()
            };
            until(&target, &paths("subscriptions", ""), |one| one["status"]["state"] == "AtLatestKnown").await?;
            let known = begun.elapsed();
            until(&target, &paths("clusterserviceversions", ".v1.0.0"), |one| one["status"]["phase"] == "Succeeded").await?;
            anyhow::Ok((known, begun.elapsed()))
        })?;
        let what = format!("{} Subscriptions in {namespaces} namespaces", namespaces * packages);
        self.add(time(&format!("{what}: created to all AtLatestKnown"), known, "30 s", 30_000));
        self.add(time(&format!("{what}: created to all operators Succeeded"), running, "60 s", 60_000));
        std::thread::sleep(QUIET);
        self.add(memory(&format!("{what}, steady: resident memory of `mainstay run olm-classic`"), operators.memory()?, "150 MiB", 150));
        println!("    API, controllers and nodes: {:.1} MiB", resident(&cluster)? as f64 / 1_024.0);
        Ok(())
    }

    /// OLM0-OG-19 to OLM0-OG-21: copies of CSVs in every namespace, and none of them.
    pub fn copies(&mut self) -> anyhow::Result<()> {
        let (namespaces, operators) = COPIED;
        let cluster = self.cluster(&["--components", "controllers,scheduler,nodes"]);
        let program = Operators::start(&self.binary, &cluster)?;
        let target = Target::read(cluster.kubeconfig())?;
        let empty = program.memory()?;
        let begun = Instant::now();
        self.runtime.block_on(async {
            each(&target, namespaces, |mut connection, number| async move {
                let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("tenant-{number}")}});
                connection.json("POST", "/api/v1/namespaces", &body).await.map(drop)
            })
            .await?;
            let mut connection = target.connect().await?;
            home(&mut connection, "home", &json!({})).await?;
            for number in 0..operators {
                let name = operator(number);
                let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
                connection.json("POST", "/api/v1/namespaces/home/serviceaccounts", &account).await?;
                let mut csv = Toy::new(name.leak(), "1.0.0").csv();
                csv["spec"]["description"] = json!("d".repeat(DESCRIPTION));
                csv["spec"]["customresourcedefinitions"] = json!({});
                csv["spec"]["install"]["spec"]["clusterPermissions"] = json!([]);
                connection.json("POST", &format!("{V1ALPHA1}/namespaces/home/clusterserviceversions"), &csv).await?;
            }
            let all = (0..namespaces).flat_map(|tenant| (0..operators).map(move |number| (tenant, operator(number))));
            let paths: Vec<String> =
                all.map(|(tenant, name)| format!("{V1ALPHA1}/namespaces/tenant-{tenant}/clusterserviceversions/{name}.v1.0.0")).collect();
            until(&target, &paths, |copy| copy["status"]["phase"] == "Succeeded").await
        })?;
        let what = format!("{operators} operators for all of {namespaces} namespaces");
        self.add(time(
            &format!("{what}: created to {} copies that say Succeeded", namespaces * operators),
            begun.elapsed(),
            "300 s",
            300_000,
        ));
        std::thread::sleep(QUIET);
        self.add(memory(&format!("{what}: resident memory of `mainstay run olm-classic`"), program.memory()?, "250 MiB", 250));
        println!("    before the first: {:.1} MiB", empty as f64 / 1_024.0);
        println!("    API, controllers and nodes: {:.1} MiB", resident(&cluster)? as f64 / 1_024.0);
        Ok(())
    }
}

/// `mainstay run olm-classic` against a cluster; it ends with its value.
struct Operators {
    child: Child,
}

impl Operators {
    fn start(binary: &Path, cluster: &Cluster) -> anyhow::Result<Self> {
        let deployed = Command::new(binary)
            .args(["deploy", "--image", "example.com/mainstay:1", "--components", "olm-classic", "--kubeconfig"])
            .arg(cluster.kubeconfig())
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .status()?;
        anyhow::ensure!(deployed.success(), "mainstay deploy --components olm-classic failed");
        let log = std::fs::File::create(cluster.folder().join("run.log"))?;
        let child = Command::new(binary)
            .args(["run", "olm-classic", "--health-probe-bind-address", "0", "--metrics-bind-address", "0", "--kubeconfig"])
            .arg(cluster.kubeconfig())
            .arg("--cache-path")
            .arg(cluster.folder().join("run"))
            .args(["--package-server-address", "127.0.0.1:0"])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        Ok(Self { child })
    }

    fn memory(&self) -> anyhow::Result<u64> {
        mainstay_e2e::resident_memory(self.child.id()).context("the memory of mainstay run cannot be read")
    }
}

impl Drop for Operators {
    fn drop(&mut self) {
        mainstay_e2e::terminate(&mut self.child);
    }
}

fn operator(number: usize) -> String {
    format!("operator{number:02}")
}

/// Pushes a catalog of packages with realistic CSVs, and waits until it is read.
fn catalog(cluster: &Cluster, registry: &Registry, names: &[&'static str]) -> anyhow::Result<()> {
    let bundles = cluster.folder().join("bundles");
    for name in names {
        let folder = Toy::new(name, "1.0.0").write(&bundles);
        let mut csv = Toy::new(name, "1.0.0").csv();
        csv["spec"]["description"] = json!("d".repeat(DESCRIPTION));
        std::fs::write(folder.join("manifests/csv.yaml"), csv.to_string())?;
    }
    let image = publish(registry, &bundles, cluster.folder(), "latest");
    let source = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": {"name": "team", "namespace": GLOBAL},
        "spec": {"sourceType": "grpc", "image": image}});
    cluster.apply(&source.to_string());
    let begun = Instant::now();
    while cluster
        .get(&["catalogsource", "team", "-n", GLOBAL])
        .is_none_or(|one| one["status"]["connectionState"]["lastObservedState"] != "READY")
    {
        anyhow::ensure!(begun.elapsed() < PATIENCE, "the catalog is not read");
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Makes a namespace with an OperatorGroup.
async fn home(connection: &mut super::client::Connection, namespace: &str, group: &Value) -> anyhow::Result<()> {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    connection.json("POST", "/api/v1/namespaces", &body).await?;
    let body = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "group"}, "spec": group});
    connection.json("POST", &format!("{V1}/namespaces/{namespace}/operatorgroups"), &body).await?;
    Ok(())
}

/// Does something for every number, some at a time, each on a connection of its own.
async fn each<F>(target: &Target, count: usize, act: impl Fn(super::client::Connection, usize) -> F) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<()>>,
{
    let act = &act;
    let work = futures::stream::iter(0..count).map(|number| async move { act(target.connect().await?, number).await });
    let mut work = std::pin::pin!(work.buffer_unordered(CLIENTS));
    while let Some(done) = work.next().await {
        done?;
    }
    Ok(())
}

/// Waits until every object holds, asking for one after the other: lists of all would be a load of their own.
async fn until(target: &Target, paths: &[String], holds: impl Fn(&Value) -> bool) -> anyhow::Result<()> {
    let (mut connection, begun) = (target.connect().await?, Instant::now());
    for path in paths {
        loop {
            let (status, body) = connection.ask("GET", path, JSON, Bytes::new()).await?;
            let object: Value = serde_json::from_slice(&body)?;
            if status.is_success() && holds(&object) {
                break;
            }
            if begun.elapsed() > PATIENCE {
                bail!("{path} is not as wanted after {}: {:#}", shown(begun.elapsed()), object["status"]);
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}
