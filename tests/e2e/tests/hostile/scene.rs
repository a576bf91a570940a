//! A cluster, a stranger, and somebody who works there meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mainstay_e2e::client::{Connection, JSON, Target};
use mainstay_e2e::{Cluster, resident_memory};
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// What an attack may cost, in KiB.
const GROWTH: u64 = 200 << 10;
/// How much address space the server may take beyond what it has at the begin.
const SPACE: u64 = 2 << 30;
/// How long one request of somebody else may take before it counts as stopped.
const STOPPED: Duration = Duration::from_secs(30);
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// One after another: they measure.
static ALONE: Mutex<()> = Mutex::new(());

/// The size of an attack: in the gate, and when it is as large as it was found.
pub fn soak(usual: usize, full: usize) -> usize {
    if std::env::var_os("MAINSTAY_SOAK").is_some() { full } else { usual }
}

/// Runs an attack.
pub fn within(attack: impl Future<Output = ()>) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = rustls::crypto::ring::default_provider().install_default();
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(attack);
}

/// What an attack meets.
pub struct Scene {
    name: &'static str,
    /// Where somebody works.
    cluster: Cluster,
    /// What is attacked, when that is another one: then the attack takes nothing but processor time from whoever works, and how long that one
    /// waits is what an attack costs that shares the machine and not the server.
    elsewhere: Option<Cluster>,
    address: String,
    tls: TlsConnector,
    admin: tokio::sync::Mutex<Connection>,
    worker: Target,
    strangers: Target,
    /// The token of an account without permissions.
    pub stranger: String,
    /// The p99 of the other account before the attack.
    usual: Duration,
    memory: u64,
    peak: Arc<AtomicU64>,
    watched: Arc<AtomicBool>,
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.watched.store(false, Ordering::Relaxed);
    }
}

impl Scene {
    /// Starts a cluster with two accounts, and measures what is usual there.
    pub async fn begin(name: &'static str) -> Self {
        let cluster = Cluster::up(&["--components", "none"]);
        let elsewhere = std::env::var_os("MAINSTAY_ATTACK_ELSEWHERE").map(|_| Cluster::up(&["--components", "none"]));
        let mut admin = Target::read(cluster.kubeconfig()).unwrap().connect().await.unwrap();
        let worker = account(&mut admin, "worker").await;
        let binding = json!({
            "metadata": {"name": "worker"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "worker", "namespace": "default"}],
        });
        admin.json("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).await.unwrap();
        let attacked = elsewhere.as_ref().unwrap_or(&cluster);
        let mut admin = Target::read(attacked.kubeconfig()).unwrap().connect().await.unwrap();
        let stranger = account(&mut admin, "stranger").await;
        let config = mainstay_yaml::parse(&std::fs::read_to_string(attacked.kubeconfig()).unwrap()).unwrap();
        let authority = config["clusters"][0]["cluster"]["certificate-authority-data"].as_str().unwrap();
        let authority = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, authority).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        for certificate in rustls::pki_types::CertificateDer::pem_slice_iter(&authority) {
            roots.add(certificate.unwrap()).unwrap();
        }
        let mut tls = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let (worker, strangers) = (with_token(&cluster, "worker", &worker), with_token(attacked, "stranger", &stranger));
        limit_space(attacked.pid());
        let address = attacked.server().trim_start_matches("https://").to_owned();
        let (peak, watched) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(true)));
        let mut scene = Self {
            name,
            address,
            tls: TlsConnector::from(Arc::new(tls)),
            admin: tokio::sync::Mutex::new(admin),
            worker,
            strangers,
            stranger,
            usual: Duration::ZERO,
            memory: 0,
            peak: peak.clone(),
            watched: watched.clone(),
            cluster,
            elsewhere,
        };
        scene.usual = p99(&mut scene.work(soak(25, 250)).await);
        let pid = scene.attacked().pid();
        scene.memory = resident_memory(pid).unwrap();
        // Memory is looked at all the time, from a thread of its own.
        std::thread::spawn(move || {
            while watched.load(Ordering::Relaxed) {
                peak.fetch_max(resident_memory(pid).unwrap_or_default(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        scene
    }

    fn attacked(&self) -> &Cluster {
        self.elsewhere.as_ref().unwrap_or(&self.cluster)
    }

    /// The user's name of the stranger.
    pub fn stranger_name(&self) -> String {
        "stranger".to_owned()
    }

    /// Lets an account do something in the namespace `default`.
    pub async fn may(&self, account: &str, verb: &str, resource: &str) {
        let name = format!("{account}-{verb}-{resource}");
        let role = json!({"metadata": {"name": name}, "rules": [{"apiGroups": [""], "resources": [resource], "verbs": [verb]}]});
        self.admin("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", &role).await;
        let binding = json!({
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "default"}],
        });
        self.admin("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", &binding).await;
    }

    /// A request of the administrator, which must succeed.
    pub async fn admin(&self, method: &str, path: &str, body: &Value) -> Value {
        self.admin.lock().await.json(method, path, body).await.unwrap()
    }

    /// A connection without anything on it.
    pub async fn dial(&self) -> std::io::Result<TcpStream> {
        TcpStream::connect(&self.address).await
    }

    /// A connection after its handshake, for HTTP/2.
    pub async fn secure(&self) -> TlsStream<TcpStream> {
        self.try_secure().await.unwrap()
    }

    /// The same; the server may have ended it for others.
    pub async fn try_secure(&self) -> std::io::Result<TlsStream<TcpStream>> {
        self.tls.connect(ServerName::try_from("localhost").unwrap(), self.dial().await?).await
    }

    /// A connection of the stranger, for HTTP/1.1.
    pub async fn stranger_connection(&self) -> Connection {
        self.strangers.connect().await.unwrap()
    }

    /// Durations of the other account's writes and reads. It has a thread of its own, so that it waits for the server and
    /// not for the tasks of the attack, which share a runtime.
    async fn work(&self, rounds: usize) -> Vec<Duration> {
        let (name, worker) = (self.name, self.worker.clone());
        apart(async move {
            let mut took = Vec::new();
            let mut connection = worker.connect().await.unwrap();
            for _ in 0..rounds {
                let map = json!({"metadata": {"generateName": "work-"}, "data": {"a": "b"}});
                for (method, path, body) in [("POST", MAPS, map), ("GET", "/api/v1/namespaces/default", Value::Null)] {
                    let begun = Instant::now();
                    let done = tokio::time::timeout(STOPPED, connection.json(method, path, &body)).await;
                    done.unwrap_or_else(|_| panic!("{name}: {method} was stopped")).unwrap();
                    took.push(begun.elapsed());
                }
            }
            took
        })
        .await
    }

    /// Longest time to an answer of `/readyz`.
    async fn readiness(&self) -> Duration {
        let (name, worker) = (self.name, self.worker.clone());
        apart(async move {
            let mut connection = worker.connect().await.unwrap();
            let mut worst = Duration::ZERO;
            for _ in 0..5 {
                let begun = Instant::now();
                let answered = tokio::time::timeout(STOPPED, connection.must("GET", "/readyz", JSON, Bytes::new())).await;
                answered.unwrap_or_else(|_| panic!("{name}: /readyz does not answer")).unwrap();
                worst = worst.max(begun.elapsed());
            }
            worst
        })
        .await
    }

    /// Measures the other account and the memory while the attack goes on.
    ///
    /// # Panics
    /// A request is stopped, or memory grows beyond its limit.
    pub async fn endure(&self) {
        let rounds = soak(25, 250);
        let (mut took, ready) = tokio::join!(self.work(rounds), self.readiness());
        let peak = self.peak.load(Ordering::Relaxed).max(resident_memory(self.attacked().pid()).unwrap());
        let grown = peak.saturating_sub(self.memory);
        eprintln!(
            "{}{}: memory {} MiB, at most {} MiB (+{}); p99 of another account {:.1} ms, usually {:.1} ms; /readyz at most {:.1} ms",
            self.name,
            if self.elsewhere.is_some() { " of another server" } else { "" },
            self.memory >> 10,
            peak >> 10,
            grown >> 10,
            p99(&mut took).as_secs_f64() * 1e3,
            self.usual.as_secs_f64() * 1e3,
            ready.as_secs_f64() * 1e3,
        );
        assert!(grown < GROWTH, "{}: memory grew by {} MiB", self.name, grown >> 10);
    }

    /// The administrator comes anew, and is let in.
    pub async fn again(&self) {
        let coming = async {
            let mut admin = Target::read(self.attacked().kubeconfig())?.connect().await?;
            admin.must("GET", "/api/v1/namespaces", JSON, Bytes::new()).await
        };
        tokio::time::timeout(STOPPED, coming).await.expect("the administrator is let in").unwrap();
    }
}

/// Runs something on a thread and a runtime of its own.
async fn apart<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    let (sender, done) = tokio::sync::oneshot::channel();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        // A caller that stopped waiting needs no answer.
        let _ = sender.send(runtime.block_on(work));
    });
    match done.await {
        Ok(answer) => answer,
        Err(_) => std::panic::resume_unwind(thread.join().unwrap_err()),
    }
}

/// A kubeconfig with this token instead of its user's certificate.
fn with_token(cluster: &Cluster, name: &str, token: &str) -> Target {
    let mut config = mainstay_yaml::parse(&std::fs::read_to_string(cluster.kubeconfig()).unwrap()).unwrap();
    config["users"][0]["user"] = json!({"token": token});
    let path = cluster.folder().join(format!("kubeconfig-{name}"));
    std::fs::write(&path, mainstay_yaml::to_string(&config)).unwrap();
    Target::read(&path).unwrap()
}

/// A ServiceAccount, and a token of it.
async fn account(admin: &mut Connection, name: &str) -> String {
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    admin.json("POST", accounts, &json!({"metadata": {"name": name}})).await.unwrap();
    let token = admin.json("POST", &format!("{accounts}/{name}/token"), &json!({"spec": {"expirationSeconds": 7200}})).await.unwrap();
    token["status"]["token"].as_str().unwrap().to_owned()
}

/// What exceeds the limit must fail here, and not on the machine of whoever runs the tests.
fn limit_space(pid: u32) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")?.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    let limit = size.unwrap() * 1024 + SPACE;
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap());
    let limits = rustix::process::Rlimit { current: Some(limit), maximum: Some(limit) };
    rustix::process::prlimit(pid, rustix::process::Resource::As, limits).unwrap();
}

fn p99(took: &mut [Duration]) -> Duration {
    took.sort_unstable();
    took.get((took.len() * 99).div_ceil(100).saturating_sub(1)).copied().unwrap_or_default()
}
