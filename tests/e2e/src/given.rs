//! The cluster that `MAINSTAY_E2E_KUBECONFIG` names: what a test finds there, and what it takes back.
//!
//! ```text
//!   ExistingCluster ── turn        one test at a time, over all processes of the suite
//!         ── Workloads   where no kube-controller-manager leads: ours, and simulated nodes
//!         ── Olm         where OLM v1 is not installed: `mainstay deploy`, and `mainstay run` with that account's token
//! ```

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use mainstay_runtime::{Cluster as Api, Env};
use mainstay_workloads::Options;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::bundles::{read_yaml, write};
use crate::cluster::Cluster;
use crate::process::{self, eventually};
use crate::{binary, calls, client};

/// The variable that names its kubeconfig.
pub const GIVEN: &str = "MAINSTAY_E2E_KUBECONFIG";

/// What `mainstay up` has on, and `mainstay run` has not.
const GATES: &str =
    "PreflightPermissions=true,SingleOwnNamespaceInstallSupport=true,WebhookProviderCertManager=false,APIV1MetasHandler=true";
/// The account of `mainstay deploy --combined`, and where it lives.
const ACCOUNT: &str = "mainstay-olm-v1";
const SYSTEM: &str = "olmv1-system";
/// What may be left of a test, in the order in which it goes: extensions while their controllers run, namespaces last.
const LEFT: [&str; 10] = [
    "clusterextensions.olm.operatorframework.io",
    "clustercatalogs.olm.operatorframework.io",
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
    "validatingadmissionpolicybindings",
    "validatingadmissionpolicies",
    "customresourcedefinitions",
    "clusterrolebindings",
    "clusterroles",
    "namespaces",
];
/// A debug build on a busy machine is slow.
const READY: Duration = Duration::from_secs(120);

/// A cluster that was there before the test and stays.
pub struct ExistingCluster {
    applied: Mutex<Vec<String>>,
    controlled: bool,
    before: BTreeSet<String>,
    olm: Option<Olm>,
    workloads: Option<Workloads>,
    // Ends last.
    _turn: File,
}

impl ExistingCluster {
    /// Waits for the cluster to be free, and notes what is there.
    #[track_caller]
    pub fn take(server: &str) -> Self {
        let name: String = server.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let path = std::env::temp_dir().join(format!("mainstay-e2e-{name}.lock"));
        let turn = File::create(&path).and_then(|file| file.lock().map(|()| file));
        let turn = turn.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { applied: Mutex::default(), controlled: false, before: BTreeSet::new(), olm: None, workloads: None, _turn: turn }
    }

    /// Starts what the cluster lacks: OLM v1 only where the test wants it.
    #[track_caller]
    pub fn complete(&mut self, cluster: &Cluster, authority: &Authority, with_olm: bool) {
        if is_bare(cluster) {
            eprintln!("nobody leads as kube-controller-manager there: our controllers, scheduler and nodes do their work");
            self.workloads = Some(Workloads::start(cluster));
        }
        self.before = names(cluster, &LEFT).unwrap_or_else(|problem| panic!("what is there is not known: {problem}"));
        self.controlled = with_olm;
        if with_olm && has_olm(cluster) {
            eprintln!("OLM v1 is there already, and its controllers have to run");
        } else if with_olm {
            self.olm = Some(Olm::start(cluster, authority));
        }
    }

    /// Notes what was applied.
    pub fn applied(&self, manifests: &str) {
        self.applied.lock().unwrap_or_else(PoisonError::into_inner).push(manifests.to_owned());
    }

    /// Leaves the cluster as it was found.
    pub fn take_back(&mut self, cluster: &Cluster) {
        let left = |kinds: &[&str]| names(cluster, kinds).map(|names| names.difference(&self.before).cloned().collect::<Vec<_>>());
        let mut complaints = String::new();
        let mut sweep = |kinds: &[&str], flag: &str| match left(kinds) {
            Ok(names) if names.is_empty() => {}
            Ok(names) => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                complaints += &cluster.kubectl(&[&["delete", "--ignore-not-found", flag][..], &names].concat()).stderr;
            }
            Err(problem) => complaints += &problem,
        };
        // Extensions and catalogs go with the help of their controllers, where these still run.
        sweep(&LEFT[..2], if self.controlled { "--timeout=60s" } else { "--wait=false" });
        for name in left(&LEFT[..2]).unwrap_or_default() {
            cluster.kubectl(&["patch", &name, "--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#]);
        }
        for manifests in self.applied.lock().unwrap_or_else(PoisonError::into_inner).drain(..).rev() {
            // What is in a namespace of the test's goes with it, and a custom resource with its definition.
            cluster.kubectl_with(&["delete", "--ignore-not-found", "--wait=false", "-f", "-"], &manifests);
        }
        self.olm = None;
        sweep(&LEFT[2..], "--timeout=120s");
        self.workloads = None;
        match left(&LEFT) {
            Ok(names) if names.is_empty() => {}
            left => eprintln!("not taken back: {left:?}: {complaints}"),
        }
    }
}

/// Without kube-controller-manager nothing happens on a cluster: no pod is made, no namespace goes.
#[track_caller]
fn is_bare(cluster: &Cluster) -> bool {
    cluster.get(&["lease", "-n", "kube-system", "kube-controller-manager"]).is_none()
}

/// Whether ClusterExtensions are served.
#[track_caller]
pub fn has_olm(cluster: &Cluster) -> bool {
    cluster.get(&["crd", "clusterextensions.olm.operatorframework.io"]).is_some()
}

/// The objects of some kinds, as kubectl names them; none of those that are not there.
fn names(cluster: &Cluster, kinds: &[&str]) -> Result<BTreeSet<String>, String> {
    let mut names = BTreeSet::new();
    for kind in kinds {
        let listed = cluster.kubectl(&["get", kind, "-o", "name"]);
        let absent = ["doesn't have a resource type", "could not find the requested resource"];
        if listed.code == Some(0) {
            names.extend(listed.stdout.lines().map(str::to_owned));
        } else if !absent.iter().any(|words| listed.stderr.contains(words)) {
            return Err(listed.stderr);
        }
    }
    Ok(names)
}

/// Who certifies what the tests serve on the loopback beside the cluster.
pub struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new one.
    #[track_caller]
    pub fn generate() -> Self {
        let make = || -> Result<Self, rcgen::Error> {
            let key = KeyPair::generate()?;
            let mut params = CertificateParams::new(Vec::new())?;
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let certificate = params.self_signed(&key)?.pem();
            Ok(Self { certificate, issuer: Issuer::new(params, key) })
        };
        make().unwrap_or_else(|error| panic!("no authority: {error}"))
    }

    /// A certificate for the loopback, and its key.
    #[track_caller]
    fn loopback(&self) -> (String, String) {
        let make = || -> Result<_, rcgen::Error> {
            let key = KeyPair::generate()?;
            let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()])?.signed_by(&key, &self.issuer)?;
            Ok((certificate.pem(), key.serialize_pem()))
        };
        make().unwrap_or_else(|error| panic!("no certificate: {error}"))
    }
}

/// Writes the current context of a kubeconfig as one file that needs no other and trusts the authority, too; the server that it names.
#[track_caller]
pub fn adopt(kubeconfig: &Path, authority: &Authority, target: &Path) -> String {
    let config = read_yaml(kubeconfig);
    let folder = kubeconfig.parent().unwrap_or(Path::new("."));
    let member = |list: &str, name: &Value, member: &str| {
        let found = config[list].as_array().into_iter().flatten().find(|one| one["name"] == *name);
        found.map_or_else(|| panic!("{}: no {member} {name}", kubeconfig.display()), |one| one[member].clone())
    };
    let context = member("contexts", &config["current-context"], "context");
    let (mut cluster, mut user) = (member("clusters", &context["cluster"], "cluster"), member("users", &context["user"], "user"));
    let embed = |of: &mut Value, name: &str| {
        if let Some(file) = of[name].as_str().map(|file| folder.join(file)) {
            let bytes = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            of[format!("{name}-data")] = BASE64.encode(bytes).into();
        }
        if let Some(members) = of.as_object_mut() {
            members.remove(name);
        }
    };
    embed(&mut cluster, "certificate-authority");
    embed(&mut user, "client-certificate");
    embed(&mut user, "client-key");
    let given = cluster["certificate-authority-data"].as_str().map(|data| BASE64.decode(data).unwrap_or_default());
    let both = [given.unwrap_or_default(), b"\n".to_vec(), authority.certificate.clone().into_bytes()].concat();
    cluster["certificate-authority-data"] = BASE64.encode(both).into();
    let server = cluster["server"].as_str().map(str::to_owned);
    write(target, &alone(&cluster, &user));
    server.unwrap_or_else(|| panic!("{} names no server", kubeconfig.display()))
}

/// A kubeconfig of one cluster and one user.
fn alone(cluster: &Value, user: &Value) -> String {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "given",
        "clusters": [{"name": "given", "cluster": cluster}], "users": [{"name": "user", "user": user}],
        "contexts": [{"name": "given", "context": {"cluster": "given", "user": "user"}}],
    })
    .to_string()
}

/// A port that was free a moment ago.
#[track_caller]
fn free() -> u16 {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).map(|address| address.port());
    port.unwrap_or_else(|error| panic!("no free port: {error}"))
}

/// OLM v1 as a user installs it, its controllers on this machine, since the tests' registries are on the loopback.
struct Olm(Child);

impl Olm {
    #[track_caller]
    fn start(cluster: &Cluster, authority: &Authority) -> Self {
        cluster
            .mainstay(&["deploy", "--combined", "--image", "example.com/mainstay:1", "--feature-gates", GATES, "--any-service-account"])
            .ok();
        let token = cluster.kubectl(&["create", "token", "-n", SYSTEM, ACCOUNT]).ok();
        let file = |name: &str| cluster.folder().join("olm").join(name);
        let own = read_yaml(cluster.kubeconfig());
        write(&file("kubeconfig"), &alone(&own["clusters"][0]["cluster"], &json!({"token": token.trim()})));
        let (certificate, key) = authority.loopback();
        write(&file("cas/ca.crt"), &authority.certificate);
        write(&file("tls.crt"), &certificate);
        write(&file("tls.key"), &key);
        let log = File::create(cluster.folder().join("log")).unwrap_or_else(|error| panic!("no log file: {error}"));
        let (health, catalogs) = (free(), format!("127.0.0.1:{}", free()));
        let mut command = cluster.command(binary::mainstay());
        command.args(["run", "olm-v1", "--metrics-bind-address=0", "--feature-gates", GATES, "--system-namespace", SYSTEM]);
        command.arg("--kubeconfig").arg(file("kubeconfig")).arg("--cache-path").arg(file("cache"));
        command.arg("--tls-cert").arg(file("tls.crt")).arg("--tls-key").arg(file("tls.key")).arg("--catalogd-cas-dir").arg(file("cas"));
        command.arg(format!("--health-probe-bind-address=127.0.0.1:{health}"));
        command.arg(format!("--catalogs-server-addr={catalogs}")).arg(format!("--external-address={catalogs}"));
        let webhook = if calls::are_possible() { free() } else { 0 };
        command.arg(format!("--webhook-server-port={webhook}"));
        if webhook != 0 {
            command.args(calls::mount_webhook_certificate(cluster, SYSTEM, &file("webhook")));
            calls::call_webhook_at(cluster, SYSTEM, webhook);
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        let olm = Self(child.unwrap_or_else(|error| panic!("mainstay run: {error}")));
        eventually("mainstay run is ready", READY, || {
            let answer = client::get(health, "/readyz").map_err(|error| error.to_string())?;
            if answer.contains(" 200 ") { Ok(()) } else { Err(answer) }
        });
        if webhook != 0 {
            eventually("catalogs are labelled", READY, || labels_catalogs(cluster));
        }
        olm
    }
}

impl Drop for Olm {
    fn drop(&mut self) {
        process::terminate(&mut self.0);
    }
}

/// Whether the webhook is called: an API server knows of a change of its Service a moment later.
#[track_caller]
fn labels_catalogs(cluster: &Cluster) -> Result<(), String> {
    let catalog = json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog", "metadata": {"name": "asks"},
        "spec": {"source": {"type": "Image", "image": {"ref": "registry.example/catalog:1"}}},
    });
    let said = cluster.kubectl_with(&["create", "--dry-run=server", "-o", "json", "-f", "-"], &catalog.to_string());
    if said.stdout.contains("olm.operatorframework.io/metadata.name") { Ok(()) } else { Err(said.to_string()) }
}

/// What a bare API lacks: controllers, a scheduler and nodes, as on an embedded cluster, but over the network.
struct Workloads {
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Workloads {
    #[track_caller]
    fn start(cluster: &Cluster) -> Self {
        let (kubeconfig, stop) = (cluster.kubeconfig().to_owned(), CancellationToken::new());
        let own = read_yaml(&kubeconfig);
        let authority = own["clusters"][0]["cluster"]["certificate-authority-data"].as_str().unwrap_or_default();
        let options = Options { ca_pem: BASE64.decode(authority).unwrap_or_default(), ..Options::default() };
        let until = stop.clone();
        let work = async move {
            let api = Api::from_kubeconfig(Some(&kubeconfig), None, None).await.map_err(|error| error.to_string())?;
            mainstay_workloads::run(api, options, Env::system(), until).await.map_err(|error| error.to_string())
        };
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
            let ended = runtime.map_err(|error| error.to_string()).and_then(|runtime| runtime.block_on(work));
            if let Err(problem) = ended {
                eprintln!("the workloads of {GIVEN} ended: {problem}");
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Workloads {
    fn drop(&mut self) {
        self.stop.cancel();
        // It has said how it ended.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
