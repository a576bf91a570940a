//! A cluster into which the controllers were deployed, and processes of `mainstay run` with the permissions of the deployed accounts.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use mainstay_e2e::bundles::write;
use mainstay_e2e::client::{JSON, Target, get};
use mainstay_e2e::{Cluster, eventually, mainstay, terminate};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};

pub const OLM: &str = "olm";
pub const CATALOGD: (&str, &str) = ("catalogd-controller-manager", "catalogd-operator-lock");
pub const OPERATOR_CONTROLLER: (&str, &str) = ("operator-controller-controller-manager", "9c4404e7.operatorframework.io");
/// The account of both in one process.
pub const COMBINED: &str = "mainstay-olm-v1";
/// Long enough for a busy machine to renew in, short enough to wait for.
pub const TIMES: [&str; 3] = ["--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=5s", "--leader-elect-retry-period=1s"];
pub const LONG: Duration = Duration::from_secs(120);

/// One process of `mainstay run`.
pub struct Replica {
    pub child: Child,
    pub log: PathBuf,
    pub health: u16,
    pub metrics: u16,
    /// Where it serves catalogs when it leads.
    pub external: String,
}

impl Drop for Replica {
    fn drop(&mut self) {
        terminate(&mut self.child);
        if std::thread::panicking() {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            let tail: Vec<&str> = log.lines().rev().take(15).collect();
            eprintln!("last words in {}:\n  {}", self.log.display(), tail.into_iter().rev().collect::<Vec<_>>().join("\n  "));
        }
    }
}

/// A port that was free a moment ago.
pub fn free() -> u16 {
    // A port that was given is not listened on yet, and must not be given twice.
    static GIVEN: std::sync::Mutex<std::collections::BTreeSet<u16>> = std::sync::Mutex::new(std::collections::BTreeSet::new());
    let port = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    std::iter::repeat_with(port).find(|port| GIVEN.lock().unwrap().insert(*port)).unwrap()
}

/// A cluster without OLM, into which it was deployed; certificates for the processes.
pub struct World {
    pub cluster: Cluster,
}

impl World {
    /// None, with a visible skip, where it cannot be deployed.
    pub fn start(deployment: &str, flags: &[&str]) -> Option<Self> {
        let cluster = Cluster::without_olm()?;
        let image = [&["deploy", "--namespace", OLM, "--image", "example.com/mainstay:1"], flags].concat();
        // A server cannot say anything of objects in a namespace that is not there.
        let unasked = cluster.mainstay(&[&image[..], &["--dry-run"]].concat()).exits(0);
        assert!(unasked.contains(&format!("deployment/{deployment} in olm not checked by the server (dry run)")), "{unasked}");
        assert!(unasked.contains("namespace olm is not there yet"), "{unasked}");
        cluster.kubectl(&["create", "namespace", OLM]).ok();
        let asked = cluster.mainstay(&[&image[..], &["--dry-run"]].concat()).ok();
        assert!(asked.contains(&format!("deployment/{deployment} in olm created (dry run)")), "{asked}");
        assert!(cluster.get(&["deployment", "-n", OLM, deployment]).is_none(), "a dry run keeps nothing");
        cluster.mainstay(&image).ok();
        let world = Self { cluster };
        world.certificates();
        Some(world)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.cluster.folder().join(name)
    }

    /// An authority in a folder of its own, and a certificate for the loopback.
    pub fn certificates(&self) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        write(&self.file("cas/ca.crt"), &params.self_signed(&key).unwrap().pem());
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        write(&self.file("tls.crt"), &certificate.pem());
        write(&self.file("tls.key"), &key.serialize_pem());
    }

    /// The token of an account that may read the figures of catalogd, and what is logged.
    pub fn scraper(&self) -> String {
        let subject = json!([{"kind": "ServiceAccount", "name": "scraper", "namespace": OLM}]);
        self.cluster
            .apply(&json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "scraper", "namespace": OLM}}).to_string());
        for role in ["catalogd-metrics-reader", "mainstay-log-level"] {
            self.cluster.apply(
                &json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": format!("scraper-{role}")}, "subjects": subject,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}})
                .to_string(),
            );
        }
        self.token("scraper")
    }

    /// Lets a controller act as the account of an extension, as `mainstay install` does.
    pub fn lend(&self, controller: &str, extension: &str, namespace: &str) {
        let (version, name) = ("rbac.authorization.k8s.io/v1", format!("{extension}-installer-token"));
        let metadata = json!({"name": name, "namespace": namespace});
        let rules = json!([{"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"],
            "resourceNames": [format!("{extension}-installer")]}]);
        let role = json!({"apiVersion": version, "kind": "Role", "metadata": metadata, "rules": rules});
        let binding = json!({"apiVersion": version, "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": controller, "namespace": OLM}]});
        self.cluster.apply(&format!("{role}\n{binding}"));
    }

    /// A token of an account.
    pub fn token(&self, account: &str) -> String {
        self.cluster.kubectl(&["create", "token", "-n", OLM, account]).ok().trim().to_owned()
    }

    /// A kubeconfig that holds nothing but the token of an account that was deployed.
    pub fn kubeconfig(&self, account: &str) -> PathBuf {
        let token = self.cluster.kubectl(&["create", "token", "-n", OLM, account]).ok();
        let own: Value = mainstay_yaml::parse(&fs::read_to_string(self.cluster.kubeconfig()).unwrap()).unwrap();
        let path = self.file(&format!("{account}.kubeconfig"));
        let server = json!({"server": self.cluster.server(), "certificate-authority-data": own["clusters"][0]["cluster"]["certificate-authority-data"]});
        write(&path, &kubeconfig(&server, &json!({"token": token.trim()})));
        path
    }

    pub fn replica(&self, component: &str, account: &str, number: usize) -> Replica {
        self.replica_with(component, account, number, &[])
    }

    pub fn replica_with(&self, component: &str, account: &str, number: usize, flags: &[&str]) -> Replica {
        let name = format!("{component}-{number}");
        let (health, metrics, catalogs) = (free(), free(), free());
        let log = self.file(&format!("{name}.log"));
        let (cert, key, cas) = (self.file("tls.crt"), self.file("tls.key"), self.file("cas"));
        let mut command = self.cluster.command(mainstay());
        command
            .args(["run", component, "--leader-elect", "--log-format=json"])
            .args(TIMES)
            .args(flags)
            .arg("--kubeconfig")
            .arg(self.kubeconfig(account));
        command.args(["--system-namespace", OLM]).arg("--cache-path").arg(self.file(&format!("{name}-cache")));
        command.arg(format!("--health-probe-bind-address=127.0.0.1:{health}"));
        command.arg(format!("--metrics-bind-address=127.0.0.1:{metrics}")).arg("--tls-cert").arg(cert).arg("--tls-key").arg(key);
        let external = format!("127.0.0.1:{catalogs}");
        if component != "operator-controller" {
            command.arg(format!("--catalogs-server-addr={external}")).arg(format!("--external-address={external}"));
            if !flags.iter().any(|flag| flag.starts_with("--webhook-server-port=")) {
                command.arg(format!("--webhook-server-port={}", free()));
            }
        }
        if component != "catalogd" {
            command.arg("--catalogd-cas-dir").arg(cas);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log).unwrap());
        let replica = Replica { child: command.spawn().unwrap(), log, health, metrics, external };
        eventually("a replica is ready", LONG, || match get(replica.health, "/readyz") {
            Ok(text) if text.contains("200 OK") => Ok(()),
            other => Err(format!("{other:?}")),
        });
        replica
    }

    /// Waits for a holder of the Lease among the replicas, and names it.
    pub fn leader(&self, lease: &str, replicas: &[Replica]) -> usize {
        eventually("one of the replicas leads", LONG, || {
            let lease = self.cluster.get(&["lease", "-n", OLM, lease]).ok_or("there is no Lease")?;
            let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned();
            let holds = |replica: &Replica| holder.contains(&format!("_{}-", replica.child.id()));
            replicas.iter().position(holds).ok_or(format!("the holder is {holder:?}"))
        })
    }

    /// What an extension made, as far as it says what was asked for.
    pub fn made(&self, name: &str) -> BTreeMap<String, Value> {
        let kinds = "deployments,configmaps,serviceaccounts,clusterroles,clusterrolebindings,customresourcedefinitions";
        let label = format!("olm.operatorframework.io/owner-name={name}");
        let all = self.cluster.get(&[kinds, "-A", "-l", &label]).unwrap();
        let stripped = |object: &Value| {
            let mut object = object.clone();
            let place = format!("{} {}", object["kind"], object["metadata"]["name"]);
            object.as_object_mut().unwrap().retain(|member, _| ["spec", "data", "rules", "roleRef", "subjects"].contains(&member.as_str()));
            (place, object)
        };
        all["items"].as_array().unwrap().iter().map(stripped).collect()
    }
}

pub fn kubeconfig(cluster: &Value, user: &Value) -> String {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster}], "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    })
    .to_string()
}

/// A request by HTTPS, trusting our authority alone; status and body.
pub fn get_secure(world: &World, address: &str, path: &str) -> anyhow::Result<(u16, String)> {
    let user = if path == "/metrics" { json!({"token": world.scraper()}) } else { json!({}) };
    get_secure_as(world, &user, address, path)
}

/// The same as this user of a kubeconfig.
pub fn get_secure_as(world: &World, user: &Value, address: &str, path: &str) -> anyhow::Result<(u16, String)> {
    let file = world.file("secure.kubeconfig");
    let cluster = json!({"server": format!("https://{address}"), "certificate-authority": world.file("cas/ca.crt")});
    write(&file, &kubeconfig(&cluster, user));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (status, body) = Target::read(&file)?.connect().await?.ask("GET", path, JSON, bytes::Bytes::new()).await?;
        Ok((status.as_u16(), String::from_utf8_lossy(&body).into_owned()))
    })
}

/// What a listener agrees to with a client that offers HTTP/2 and HTTP/1.1 over TLS 1.2.
pub fn agreed(world: &World, address: &str) -> anyhow::Result<Option<Vec<u8>>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(world.file("cas/ca.crt"))?)?;
    let versions = [&rustls::version::TLS12];
    let mut config = rustls::ClientConfig::builder_with_protocol_versions(&versions).with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(address).await?;
        let name = ServerName::try_from("127.0.0.1")?;
        let stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        Ok(stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec))
    })
}
