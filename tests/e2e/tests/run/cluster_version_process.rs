//! The process of the Cluster Version Operator: its subcommands, metrics and certificate, a private registry, and the loss of its Lease.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mainstay_e2e::bundles::{offline, write};
use mainstay_e2e::client::{JSON, Target, get};
use mainstay_e2e::{Cluster, Registry, eventually, mainstay, need_embedded, need_kubectl};
use mainstay_oci::registry::Access;
use mainstay_oci::{Credential, Credentials};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};

use crate::run::cluster_version::{LEASE, Operators, VERSION, base64, is_at, releases};
use crate::run::world::{LONG, TIMES, free, kubeconfig};

/// A certificate for the loopback by a new authority, in these files of a folder.
fn certificate(folder: &Path) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    write(&folder.join("ca.crt"), &params.self_signed(&key).unwrap().pem());
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    write(&folder.join("tls.crt"), &certificate.pem());
    write(&folder.join("tls.key"), &key.serialize_pem());
}

/// The page of metrics, as this user of a kubeconfig, trusting the authority in the folder.
fn metrics(folder: &Path, port: u16, user: &Value) -> anyhow::Result<(u16, String)> {
    let file = folder.join("metrics.kubeconfig");
    write(
        &file,
        &kubeconfig(&json!({"server": format!("https://127.0.0.1:{port}"), "certificate-authority": folder.join("ca.crt")}), user),
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (status, body) = Target::read(&file)?.connect().await?.ask("GET", "/metrics", JSON, bytes::Bytes::new()).await?;
        Ok((status.as_u16(), String::from_utf8_lossy(&body).into_owned()))
    })
}

/// A reader of metrics, with the one permission that it needs; its token.
fn reader(cluster: &Cluster) -> Value {
    let rbac = "rbac.authorization.k8s.io";
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "scraper", "namespace": "default"}});
    let role = json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": {"name": "scraper"},
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]});
    let binding = json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "scraper"},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "scraper"},
        "subjects": [{"kind": "ServiceAccount", "name": "scraper", "namespace": "default"}]});
    cluster.apply(&format!("{account}\n{role}\n{binding}"));
    json!({"token": cluster.kubectl(&["create", "token", "scraper"]).ok().trim()})
}

struct Operator {
    child: Child,
    log: std::path::PathBuf,
}

impl Operator {
    fn start(cluster: &Cluster, flags: &[&str]) -> Self {
        let log = cluster.folder().join("operator.log");
        let mut command = cluster.command(mainstay());
        command.args(["run", "cluster-version", "start", "--accelerate", "20", "--kubeconfig"]).arg(cluster.kubeconfig());
        command.args(TIMES).args(flags).stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log).unwrap());
        Self { child: command.spawn().unwrap(), log }
    }

    /// Waits until it has ended; its exit code and its words.
    fn ended(&mut self) -> (Option<i32>, String) {
        let code = eventually("the operator ends", LONG, || self.child.try_wait().unwrap().ok_or("it runs".to_owned()));
        (code.code(), fs::read_to_string(&self.log).unwrap())
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        mainstay_e2e::terminate(&mut self.child);
    }
}

/// CVO-RUN-01: the subcommands, as they are called without a cluster.
fn subcommands(payload: &str) {
    let said = offline(&["run", "cluster-version", "version"]).ok();
    assert!(said.starts_with("ClusterVersionOperator mainstay-"), "{said}");
    let image = offline(&["run", "cluster-version", "image", "cluster-version-operator", "--release-image", payload]).ok();
    assert!(image.contains("@sha256:") && image.lines().count() == 1, "{image}");
    let missing = offline(&["run", "cluster-version", "image", "nothing", "--release-image", payload]).refused();
    assert!(missing.contains("has no image nothing"), "{missing}");
    let unnamed = offline(&["run", "cluster-version", "image", "cluster-version-operator"]).exits(2);
    assert!(unnamed.contains("--release-image names one"), "{unnamed}");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    // Without an image of the name, the folder is the release.
    offline(&["run", "cluster-version", "render", "--output-dir", &out.to_string_lossy(), "--release-image", payload]).ok();
    assert!(out.join("bootstrap").is_dir() && out.join("manifests").is_dir());
    let alone = offline(&["run", "cluster-version", "start", "--retriever", "pod"]).exits(2);
    assert!(alone.contains("--node-name or NODE_NAME"), "{alone}");
}

/// CVO-RUN-01, CVO-RUN-03, CVO-RUN-04, CVO-MET-01, CVO-MET-02, CVO-RET-06: the operator pulls from a private registry once the cluster has its pull
/// secret; it serves metrics by a certificate that is read again, to those who may get them, and with the passes of the worker; it ends when it loses its
/// Lease, and at once at the second signal.
#[test]
fn the_process_of_the_operator() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let Some(cluster) = Cluster::without_olm() else { return };
    let cluster = Arc::new(cluster);
    let registry = Registry::ours_with(Access::Basic { user: "dev".to_owned(), password: "open".to_owned() });
    let folder = tempfile::tempdir().unwrap();
    let mut credentials = Credentials::default();
    credentials.insert(registry.address(), Credential::Basic { user: "dev".to_owned(), password: "open".to_owned() });
    let releases = releases(&registry, credentials, folder.path());
    subcommands(&releases[0].folder.to_string_lossy());

    certificate(folder.path());
    let (port, probes) = (free(), free());
    let file = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (listen, health) = (format!("--listen=127.0.0.1:{port}"), format!("--health-probe-bind-address=127.0.0.1:{probes}"));
    let (cert, key) = (file("tls.crt"), file("tls.key"));
    let flags: [&str; 6] = [&listen, &health, "--serving-cert-file", &cert, "--serving-key-file", &key];
    let mut operator = Operator::start(&cluster, &flags);
    cluster.until("the kinds are made", &["crd", "infrastructures.config.openshift.io"], |_| true);
    let _operators = Operators::start(&cluster);
    eventually("it is ready", LONG, || match get(probes, "/readyz") {
        Ok(text) if text.contains("ok: leading") => Ok(()),
        other => Err(format!("{other:?}")),
    });

    // Without credentials.
    let version = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version",
        "annotations": {"mainstay.dev/managed": "true"}}, "spec": {
        "clusterID": "5f7f6e8e-6a34-4c3e-9a71-0d9a3a0f5b11", "upstream": "http://127.0.0.1:9/graph",
        "desiredUpdate": {"image": releases[0].image}}});
    cluster.apply(&version.to_string());
    let said = |object: &Value| {
        let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = all.into_iter().find(|each| each["type"] == "ReleaseAccepted");
        found.and_then(|found| found["message"].as_str().map(str::to_owned)).unwrap_or_default()
    };
    cluster.until("the registry wants credentials", &VERSION, |object| {
        said(object).contains("Unable to download and prepare the update: ") && said(object).contains("answered 401")
    });
    let auths = json!({"auths": {registry.address(): {"auth": base64(b"dev:open")}}}).to_string();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull-secret", "namespace": "openshift-config"},
        "type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": base64(auths.as_bytes())}});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "openshift-config"}});
    cluster.apply(&format!("{namespace}\n{secret}"));
    cluster.until("the release is installed", &VERSION, is_at("4.18.1"));

    // Who may read metrics, and what they say.
    let reader = reader(&cluster);
    assert_eq!(metrics(folder.path(), port, &json!({})).unwrap().0, 401);
    let stranger = json!({"token": cluster.kubectl(&["create", "token", "default"]).ok().trim()});
    assert_eq!(metrics(folder.path(), port, &stranger).unwrap().0, 403);
    let (status, page) = metrics(folder.path(), port, &reader).unwrap();
    assert_eq!(status, 200);
    for line in [
        "cluster_version{type=\"current\",version=\"4.18.1\"",
        "mainstay_cluster_version_passes_total{mode=\"initializing\",end=\"complete\"} 1",
        "mainstay_cluster_version_pass_seconds_total{mode=\"initializing\",end=\"complete\"}",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
    // Another certificate, of another authority, without a restart.
    certificate(folder.path());
    eventually("the new certificate is served", LONG, || match metrics(folder.path(), port, &reader) {
        Ok((200, _)) => Ok(()),
        other => Err(format!("{other:?}")),
    });

    // Another process takes the Lease.
    let taken = json!({"spec": {"holderIdentity": "somebody-else", "renewTime": "2099-01-01T00:00:00.000000Z"}}).to_string();
    cluster.kubectl(&[&["patch"], &LEASE[..], &["--type=merge", "-p", &taken]].concat()).ok();
    let (code, words) = operator.ended();
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains("leader election") && words.contains("nothing more is done by this process"), "{words}");
    let holder = cluster.get(&LEASE).unwrap()["spec"]["holderIdentity"].clone();
    assert_eq!(holder, "somebody-else", "the Lease of another is not released");

    // A stop that hangs: the API does not answer while the Lease is to be released.
    cluster.kubectl(&[&["delete"], &LEASE[..]].concat()).ok();
    let mut operator = Operator::start(&cluster, &[&health]);
    eventually("it leads again", LONG, || match get(probes, "/readyz") {
        Ok(text) if text.contains("ok: leading") => Ok(()),
        other => Err(format!("{other:?}")),
    });
    let signal = |pid: u32, name: &str| {
        let status = std::process::Command::new("kill").args([name, &pid.to_string()]).status().unwrap();
        assert!(status.success());
    };
    let began = Instant::now();
    signal(cluster.pid(), "-STOP");
    signal(operator.child.id(), "-TERM");
    eventually("it is ending", LONG, || match get(probes, "/readyz") {
        Ok(text) if text.contains("ending") => Ok(()),
        other => Err(format!("{other:?}")),
    });
    let still = operator.child.try_wait().unwrap();
    signal(operator.child.id(), "-TERM");
    let (code, _) = operator.ended();
    signal(cluster.pid(), "-CONT");
    assert_eq!((still, code), (None, Some(1)), "the first signal waits, the second does not");
    assert!(began.elapsed() < Duration::from_secs(100), "{:?}", began.elapsed());
}
