//! A thousand ClusterExtensions on one cluster.
//!
//! Each extension has a bundle, a namespace and an installer of its own. The loops run as `mainstay run olm-v1`, a process of their own, so
//! that what they need is not mixed up with what the API and a thousand CRDs need.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::bail;
use bytes::Bytes;
use futures::StreamExt as _;
use mainstay_e2e::bundles::{Toy, catalog, publish, until_serving};
use mainstay_e2e::{Cluster, Registry};
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
        let cluster = self.cluster(&["--components", "controllers", "--nodes", "0"]);
        let loops = Loops::start(&self.binary, &cluster)?;
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
        let (loops_empty, api_empty) = (loops.memory()?, resident(&cluster)?);
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
        let (before, begun) = (cpu_time(loops.child.id())?, Instant::now());
        std::thread::sleep(QUIET);
        let share = (cpu_time(loops.child.id())?.saturating_sub(before)).as_secs_f64() / begun.elapsed().as_secs_f64() * 100.0;
        let steady = format!("{EXTENSIONS} ClusterExtensions, steady");
        self.add(memory(&format!("{steady}: resident memory of `mainstay run olm-v1`"), loops.memory()?, "120 MiB", 120));
        println!("    the loops before the first of them: {:.1} MiB", loops_empty as f64 / 1_024.0);
        let api = resident(&cluster)?;
        println!("    API and controllers: {:.1} MiB, {:.1} MiB before the first", api as f64 / 1_024.0, api_empty as f64 / 1_024.0);
        self.add(Figure {
            what: format!("{steady}: processor time of `mainstay run olm-v1`, of one core"),
            measured: format!("{share:.2} %"),
            budget: "1 %",
            holds: share <= 1.0,
        });
        // Something that no plan rests on changes each extension once, and so each is reconciled once.
        let (before, allocated) = (loops.settled()?, allocations());
        runtime.block_on(each(&target, EXTENSIONS, touch))?;
        let each_took = loops.settled()?.saturating_sub(before) / u32::try_from(EXTENSIONS)?;
        self.add(time(&format!("{steady}: a reconcile that changes nothing, processor time"), each_took, "10 ms", 10));
        if let (Some(before), Some(now)) = (allocated, allocations()) {
            let one = |at: usize| now[at].saturating_sub(before[at]) / EXTENSIONS as u64;
            println!("    allocations of such a reconcile: {}, {} KiB", one(0), one(1) / 1_024);
        }
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

/// `mainstay run olm-v1` against a cluster; it ends with its value.
struct Loops {
    child: Child,
}

impl Loops {
    fn start(binary: &Path, cluster: &Cluster) -> anyhow::Result<Self> {
        let deployed = Command::new(binary)
            .args(["deploy", "--image", "example.com/mainstay:1", "--kubeconfig"])
            .arg(cluster.kubeconfig())
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .status()?;
        anyhow::ensure!(deployed.success(), "mainstay deploy failed");
        let address = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let log = std::fs::File::create(cluster.folder().join("run.log"))?;
        let child = Command::new(binary)
            .args(["run", "olm-v1", "--system-namespace", "olmv1-system", "--health-probe-bind-address", "0", "--kubeconfig"])
            .arg(cluster.kubeconfig())
            .arg("--cache-path")
            .arg(cluster.folder().join("run"))
            .arg(format!("--catalogs-server-addr={address}"))
            .arg(format!("--external-address={address}"))
            .args(["--feature-gates", "PreflightPermissions=true,SingleOwnNamespaceInstallSupport=true,APIV1MetasHandler=true"])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        Ok(Self { child })
    }

    fn memory(&self) -> anyhow::Result<u64> {
        mainstay_e2e::resident_memory(self.child.id()).ok_or_else(|| anyhow::anyhow!("the memory of mainstay run cannot be read"))
    }
}

impl Loops {
    /// The processor time of the controllers, once they have nothing to do.
    fn settled(&self) -> anyhow::Result<Duration> {
        let mut before = cpu_time(self.child.id())?;
        loop {
            std::thread::sleep(Duration::from_secs(3));
            let now = cpu_time(self.child.id())?;
            if now.saturating_sub(before) < Duration::from_millis(30) {
                return Ok(now);
            }
            before = now;
        }
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        mainstay_e2e::terminate(&mut self.child);
    }
}

/// The number of allocations so far and their bytes, where the program under test writes both into the file that `COUNT_ALLOCATIONS` names.
fn allocations() -> Option<[u64; 2]> {
    let text = std::fs::read_to_string(std::env::var_os("COUNT_ALLOCATIONS")?).ok()?;
    let mut numbers = text.split_whitespace().map(|word| word.parse().ok());
    Some([numbers.next()??, numbers.next()??])
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

async fn touch(mut connection: super::client::Connection, number: usize) -> anyhow::Result<()> {
    let patch = json!({"metadata": {"annotations": {"example.com/touched": "yes"}}});
    connection.must("PATCH", &format!("{PATH}/{}", name(number)), "application/merge-patch+json", patch.to_string().into()).await?;
    Ok(())
}

async fn upgrade(mut connection: super::client::Connection, number: usize) -> anyhow::Result<()> {
    let patch = json!({"spec": {"source": {"catalog": {"version": "1.1.0"}}}});
    connection.must("PATCH", &format!("{PATH}/{}", name(number)), "application/merge-patch+json", patch.to_string().into()).await?;
    Ok(())
}

/// Waits until the first so many extensions have a version, asking for one after the other: lists of all would be a load of their own.
async fn until(target: &Target, count: usize, version: &str) -> anyhow::Result<()> {
    let (mut connection, begun) = (target.connect().await?, Instant::now());
    for number in 0..count {
        let path = format!("{PATH}/{}", name(number));
        loop {
            let extension: Value = serde_json::from_slice(&connection.must("GET", &path, JSON, Bytes::new()).await?)?;
            if extension["status"]["install"]["bundle"]["version"] == version {
                break;
            }
            if begun.elapsed() > PATIENCE {
                bail!("{} has no version {version} after {}; {:#}", name(number), shown(begun.elapsed()), extension["status"]);
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}
