//! `mainstay run` and `mainstay deploy`: the controllers as processes of their own, with the rights that they are deployed with.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use mainstay_e2e::bundles::{Toy, catalog, extension, offline, publish, until_installed, until_said, until_serving, write};
use mainstay_e2e::client::{JSON, Target};
use mainstay_e2e::{Cluster, Registry, eventually, mainstay, need_kubectl, run, terminate};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};

const OLM: &str = "olm";
const CATALOGD: (&str, &str) = ("catalogd-controller-manager", "catalogd-operator-lock");
const OPERATOR_CONTROLLER: (&str, &str) = ("operator-controller-controller-manager", "9c4404e7.operatorframework.io");
/// The account of both in one process.
const COMBINED: &str = "mainstay-olm-v1";
/// Long enough for a busy machine to renew in, short enough to wait for.
const TIMES: [&str; 3] = ["--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=5s", "--leader-elect-retry-period=1s"];
const LONG: Duration = Duration::from_secs(120);

/// One process of `mainstay run`.
struct Replica {
    child: Child,
    log: PathBuf,
    health: u16,
    metrics: u16,
    /// Where it serves catalogs when it leads.
    external: String,
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
fn free() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A cluster without OLM, into which it was deployed; certificates for the processes.
struct World {
    cluster: Cluster,
}

impl World {
    fn start(deployment: &str, flags: &[&str]) -> Self {
        let cluster = Cluster::up(&["--components", "controllers,scheduler,nodes"]);
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
        world
    }

    fn file(&self, name: &str) -> PathBuf {
        self.cluster.folder().join(name)
    }

    /// An authority in a folder of its own, and a certificate for the loopback.
    fn certificates(&self) {
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

    /// A kubeconfig that holds nothing but the token of an account that was deployed.
    fn kubeconfig(&self, account: &str) -> PathBuf {
        let token = self.cluster.kubectl(&["create", "token", "-n", OLM, account]).ok();
        let own: Value = mainstay_yaml::parse(&fs::read_to_string(self.cluster.kubeconfig()).unwrap()).unwrap();
        let path = self.file(&format!("{account}.kubeconfig"));
        let server = json!({"server": self.cluster.server(), "certificate-authority-data": own["clusters"][0]["cluster"]["certificate-authority-data"]});
        write(&path, &kubeconfig(&server, &json!({"token": token.trim()})));
        path
    }

    fn replica(&self, component: &str, account: &str, number: usize) -> Replica {
        self.replica_with(component, account, number, &[])
    }

    fn replica_with(&self, component: &str, account: &str, number: usize, flags: &[&str]) -> Replica {
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
    fn leader(&self, lease: &str, replicas: &[Replica]) -> usize {
        eventually("one of the replicas leads", LONG, || {
            let lease = self.cluster.get(&["lease", "-n", OLM, lease]).ok_or("there is no Lease")?;
            let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned();
            let holds = |replica: &Replica| holder.contains(&format!("_{}-", replica.child.id()));
            replicas.iter().position(holds).ok_or(format!("the holder is {holder:?}"))
        })
    }

    /// What an extension made, as far as it says what was asked for.
    fn made(&self, name: &str) -> BTreeMap<String, Value> {
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

fn kubeconfig(cluster: &Value, user: &Value) -> String {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster}], "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    })
    .to_string()
}

/// A plain request; status line, headers and body as they come.
fn get(port: u16, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// The same by HTTPS, trusting our authority alone; status and body.
fn get_secure(world: &World, address: &str, path: &str) -> anyhow::Result<(u16, String)> {
    let file = world.file("secure.kubeconfig");
    let cluster = json!({"server": format!("https://{address}"), "certificate-authority": world.file("cas/ca.crt")});
    write(&file, &kubeconfig(&cluster, &json!({})));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (status, body) = Target::read(&file)?.connect().await?.ask("GET", path, JSON, bytes::Bytes::new()).await?;
        Ok((status.as_u16(), String::from_utf8_lossy(&body).into_owned()))
    })
}

/// What a listener agrees to with a client that offers HTTP/2 and HTTP/1.1 over TLS 1.2.
fn agreed(world: &World, address: &str) -> anyhow::Result<Option<Vec<u8>>> {
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

/// A policy that lets nobody write the settings of a version.
fn held(version: &str) -> String {
    let expression = format!("!has(object.data) || !('version' in object.data) || object.data['version'] != '{version}'");
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]});
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "held"},
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": expression, "message": "held by the test"}]},
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "held"},
        "spec": {"policyName": "held", "validationActions": ["Deny"]},
    });
    format!("{policy}\n{binding}")
}

/// An upgrade that cannot come to its end, the leader killed in the middle of it, the hindrance gone. Who has been killed?
fn killed_in_the_middle(world: &World, lease: &str, replicas: &mut [Replica]) -> usize {
    let working = world.leader(lease, replicas);
    world.cluster.apply(&held("1.1.0"));
    let upgrade = r#"{"spec": {"source": {"catalog": {"version": "1.1.0"}}}}"#;
    world.cluster.kubectl(&["patch", "clusterextension", "gadget", "--type=merge", "-p", upgrade]).ok();
    until_said(&world.cluster, "clusterextension", "gadget", "Progressing", "held by the test");
    replicas[working].child.kill().unwrap();
    replicas[working].child.wait().unwrap();
    world.cluster.kubectl_with(&["delete", "-f", "-"], &held("1.1.0")).ok();
    working
}

/// What was made is what is made where nothing goes wrong.
fn as_undisturbed(world: &World) {
    let disturbed = world.made("gadget");
    assert!(disturbed.len() >= 5, "{disturbed:#?}");
    world.cluster.kubectl(&["delete", "clusterextension", "gadget", "--wait"]).ok();
    world.cluster.until_gone(&["deployment", "-n", "gadgets", "gadget"]);
    world.cluster.apply(&mainstay_e2e::bundles::extension("gadget", "gadgets", "gadget", "1.1.0", None));
    until_installed(&world.cluster, "gadget", "1.1.0");
    assert_eq!(disturbed, world.made("gadget"));
}

/// MS-CLI-04, OLM1-GEN-01, OLM1-GEN-09, OLM1-GEN-11, MS-OPS-01: two processes of `mainstay run olm-v1` that know nothing but the token of the one
/// account of `mainstay deploy --combined`. The leader is killed in the middle of an upgrade, the other one finishes it, serves the catalogs, and
/// in the end everything is as it is where nothing went wrong. A signal ends politely: both Leases are given back, and whoever looks is told.
/// A second one ends at once.
#[test]
fn two_processes_with_one_account() {
    let Some(()) = need_kubectl() else { return };
    let world = World::start(COMBINED, &["--combined"]);
    let registry = Registry::ours();
    let source = world.file("bundles");
    for version in ["1.0.0", "1.1.0"] {
        Toy::new("gadget", version).write(&source);
    }
    let reference = publish(&registry, &source, world.cluster.folder(), "latest");
    let mut both: Vec<Replica> = (0..2).map(|number| world.replica("olm-v1", COMBINED, number)).collect();
    world.cluster.apply(&catalog("real", &reference, None));
    until_serving(&world.cluster, "real");
    assert_eq!(world.leader(CATALOGD.1, &both), world.leader(OPERATOR_CONTROLLER.1, &both), "one process has both Leases");
    world.cluster.apply(&extension("gadget", "gadgets", "gadget", "1.0.0", None));
    until_installed(&world.cluster, "gadget", "1.0.0");

    let killed = killed_in_the_middle(&world, OPERATOR_CONTROLLER.1, &mut both);
    let other = 1 - killed;
    until_installed(&world.cluster, "gadget", "1.1.0");
    assert_eq!((world.leader(CATALOGD.1, &both), world.leader(OPERATOR_CONTROLLER.1, &both)), (other, other));
    let base = format!("https://{}/catalogs/real", both[other].external);
    world.cluster.until("the other one serves", &["clustercatalog", "real"], |object| object["status"]["urls"]["base"] == base);
    assert_eq!(get_secure(&world, &both[other].external, "/catalogs/real/api/v1/all").unwrap().0, 200);
    as_undisturbed(&world);

    // Nobody may do what the rows do not list: neither foreign Secrets nor foreign Leases.
    let own = world.kubeconfig(COMBINED).to_string_lossy().into_owned();
    for asked in
        [["get", "secrets", "default"], ["update", "leases", OLM], ["create", "deployments", OLM], ["patch", "changeplans", "default"]]
    {
        let answer = world.cluster.kubectl(&["--kubeconfig", &own, "auth", "can-i", asked[0], asked[1], "-n", asked[2]]).exits(1);
        assert!(answer.contains("no"), "{asked:?}: {answer}");
    }

    // While the Leases cannot be given back, the process is on its way out.
    let pid = both[other].child.id();
    mainstay_e2e::signal(world.cluster.pid(), "STOP");
    mainstay_e2e::signal(pid, "TERM");
    eventually("it says that it ends", LONG, || match get(both[other].health, "/readyz") {
        Ok(text) if text.contains("503") && text.contains("ending") => Ok(()),
        answer => Err(format!("{answer:?}")),
    });
    mainstay_e2e::signal(pid, "TERM");
    let status = both[other].child.wait().unwrap();
    mainstay_e2e::signal(world.cluster.pid(), "CONT");
    assert_eq!(status.code(), Some(1), "the second signal ends at once");

    let mut third = world.replica("olm-v1", COMBINED, 2);
    world.leader(OPERATOR_CONTROLLER.1, std::slice::from_ref(&third));
    assert_eq!(terminate(&mut third.child), Some(0));
    for name in [CATALOGD.1, OPERATOR_CONTROLLER.1] {
        let lease = world.cluster.get(&["lease", "-n", OLM, name]).unwrap();
        assert_eq!(lease["spec"]["holderIdentity"].as_str().unwrap_or_default(), "", "{lease:#}");
    }
}

/// MS-CLI-04, OLM1-GEN-01, OLM1-GEN-05, OLM1-GEN-06, OLM1-GEN-09, OLM1-GEN-11, OLM1-CAT-18, MS-OPS-01: four processes that know nothing but the
/// tokens of the deployed accounts install and upgrade. Leaders that are killed in the middle are followed by the others, the API goes and
/// comes back, and in the end everything is as it is where nothing went wrong.
#[test]
fn leaders_change_in_the_middle() {
    let Some(()) = need_kubectl() else { return };
    let mut world = World::start(CATALOGD.0, &[]);
    let registry = Registry::ours();
    let source = world.file("bundles");
    for version in ["1.0.0", "1.1.0"] {
        Toy::new("gadget", version).write(&source);
    }
    let reference = publish(&registry, &source, world.cluster.folder(), "latest");
    let mut catalogd: Vec<Replica> = (0..2).map(|number| world.replica("catalogd", CATALOGD.0, number)).collect();
    let mut controllers: Vec<Replica> = (0..2).map(|number| world.replica("operator-controller", OPERATOR_CONTROLLER.0, number)).collect();
    world.cluster.apply(&catalog("real", &reference, None));
    until_serving(&world.cluster, "real");

    // The leader alone serves catalogs; both are ready and show their figures.
    let serving = world.leader(CATALOGD.1, &catalogd);
    let path = "/catalogs/real/api/v1/all";
    assert_eq!(get_secure(&world, &catalogd[serving].external, path).unwrap().0, 200);
    assert!(TcpStream::connect(&catalogd[1 - serving].external).is_err(), "a follower serves no catalogs");
    assert!(get(catalogd[1 - serving].health, "/readyz").unwrap().contains("another process may lead"));
    let (_, page) = get_secure(&world, &format!("127.0.0.1:{}", catalogd[serving].metrics), "/metrics").unwrap();
    for figure in [
        "controller_runtime_reconcile_total{controller=\"clustercatalog\",result=",
        "workqueue_depth{name=\"clustercatalog\"}",
        "catalogd_http_request_duration_seconds_count{code=\"200\"}",
        "process_resident_memory_bytes",
    ] {
        assert!(page.contains(figure), "{figure} is missing: {page}");
    }

    world.cluster.apply(&extension("gadget", "gadgets", "gadget", "1.0.0", None));
    until_installed(&world.cluster, "gadget", "1.0.0");

    let working = killed_in_the_middle(&world, OPERATOR_CONTROLLER.1, &mut controllers);
    let extension = until_installed(&world.cluster, "gadget", "1.1.0");
    assert_eq!(extension["status"]["install"]["bundle"]["name"], "gadget.v1.1.0");
    assert_eq!(world.leader(OPERATOR_CONTROLLER.1, &controllers), 1 - working, "the other one has finished it");

    // The same with catalogd: the other one unpacks, and serves at its own address.
    catalogd[serving].child.kill().unwrap();
    catalogd[serving].child.wait().unwrap();
    let base = format!("https://{}/catalogs/real", catalogd[1 - serving].external);
    world.cluster.until("the other one serves", &["clustercatalog", "real"], |object| object["status"]["urls"]["base"] == base);
    assert_eq!(get_secure(&world, &catalogd[1 - serving].external, path).unwrap().0, 200);

    // The API goes, as in a crash, and comes back; watches and Leases go on.
    world.cluster.kill();
    world.cluster.come_back();
    world.cluster.kubectl(&["delete", "configmap", "-n", "gadgets", "gadget-settings"]).ok();
    world.cluster.until("the ConfigMap is made again", &["configmap", "-n", "gadgets", "gadget-settings"], |object| {
        object["data"]["version"] == "1.1.0"
    });
    assert_eq!(world.leader(OPERATOR_CONTROLLER.1, &controllers), 1 - working);

    as_undisturbed(&world);

    // A polite end gives the Lease back at once.
    assert_eq!(terminate(&mut controllers[1 - working].child), Some(0));
    let lease = world.cluster.get(&["lease", "-n", OLM, OPERATOR_CONTROLLER.1]).unwrap();
    assert_eq!(lease["spec"]["holderIdentity"].as_str().unwrap_or_default(), "", "{lease:#}");
}

/// OLM1-GEN-10, OLM1-GEN-12, OLM1-GEN-05: credentials, mirrors and certificates that change count from then on, without a restart.
#[test]
fn settings_change_while_it_runs() {
    let Some(()) = need_kubectl() else { return };
    let cluster = Cluster::up(&["--components", "controllers,scheduler,nodes"]);
    cluster.mainstay(&["deploy", "--namespace", OLM, "--image", "example.com/mainstay:1", "--global-pull-secret", "config/pull"]).refused();
    cluster.kubectl(&["create", "namespace", "config"]).ok();
    cluster.mainstay(&["deploy", "--namespace", OLM, "--image", "example.com/mainstay:1", "--global-pull-secret", "config/pull"]).ok();
    let world = World { cluster };
    world.certificates();
    let open = Registry::ours();
    let locked = Registry::ours_with(mainstay_oci::registry::Access::Basic { user: "me".into(), password: "secret".into() });
    let source = world.file("bundles");
    Toy::new("gadget", "1.0.0").write(&source);
    let reference = publish(&open, &source, world.cluster.folder(), "latest");
    let wanted = reference.replace(open.address(), locked.address());
    let conf = world.file("registries.conf");
    write(&conf, "");
    let mut command = world.cluster.command(mainstay());
    let (metrics, catalogs) = (free(), free());
    command.args(["run", "catalogd", "--global-pull-secret", "config/pull", "--health-probe-bind-address=0"]);
    command.arg("--kubeconfig").arg(world.kubeconfig(CATALOGD.0)).args(["--system-namespace", OLM]);
    command.arg("--cache-path").arg(world.file("cache")).arg("--external-address=127.0.0.1");
    command.arg(format!("--catalogs-server-addr=127.0.0.1:{catalogs}"));
    command.arg(format!("--metrics-bind-address=127.0.0.1:{metrics}"));
    command.arg("--tls-cert").arg(world.file("tls.crt")).arg("--tls-key").arg(world.file("tls.key"));
    command.env("CONTAINERS_REGISTRIES_CONF", &conf);
    let log = world.file("catalogd.log");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log).unwrap());
    let _replica = Replica { child: command.spawn().unwrap(), log: log.clone(), health: 0, metrics, external: String::new() };
    let says = |name: &str, word: &str| {
        until_said(&world.cluster, "clustercatalog", name, "Progressing", word);
    };

    world.cluster.apply(&catalog("locked", &wanted, None));
    says("locked", "401");
    // Credentials, and a mirror that holds what the registry itself does not.
    write(&conf, &format!("[[registry]]\nlocation = '{}'\n[[registry.mirror]]\nlocation = '{}'\n", locked.address(), open.address()));
    until_serving(&world.cluster, "locked");

    write(&conf, "");
    let pushed = offline_push(&world, &locked, &source);
    world.cluster.apply(&catalog("secret", &pushed, None));
    says("secret", "401");
    let auth = json!({"auths": {(locked.address()): {"username": "me", "password": "secret"}}}).to_string();
    let create = ["create", "secret", "generic", "pull", "-n", "config", "--from-literal"];
    world.cluster.kubectl(&[&create[..], &[&format!(".dockerconfigjson={auth}")]].concat()).ok();
    until_serving(&world.cluster, "secret");
    world.cluster.kubectl(&["delete", "secret", "pull", "-n", "config"]).ok();
    eventually("the credentials are gone", LONG, || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        if text.contains("pulls are anonymous") { Ok(()) } else { Err(text) }
    });

    // Another certificate is served without a restart: the old authority is not trusted by it any more.
    let address = format!("127.0.0.1:{metrics}");
    let (status, page) = get_secure(&world, &address, "/metrics").unwrap();
    assert!(status == 200 && page.contains("controller_runtime_active_workers"), "{page}");
    world.certificates();
    eventually("the new certificate is served", LONG, || get_secure(&world, &address, "/metrics").map_err(|error| format!("{error:#}")));

    // Neither listener answers without encryption, and metrics are not to be had over HTTP/2.
    let served = format!("127.0.0.1:{catalogs}");
    assert_eq!(get_secure(&world, &served, "/catalogs/locked/api/v1/all").unwrap().0, 200);
    for (address, port, protocol) in [(&address, metrics, "http/1.1"), (&served, catalogs, "h2")] {
        assert_eq!(agreed(&world, address).unwrap().as_deref(), Some(protocol.as_bytes()), "{address}");
        for path in ["/metrics", "/catalogs/locked/api/v1/all"] {
            assert!(!get(port, path).is_ok_and(|answer| answer.contains(" 200 OK")), "{address} answers {path} without encryption");
        }
    }
}

/// The content of a registry behind TLS with the certificate of the world; ends with the guard.
fn behind_tls(world: &World, registry: &Registry) -> (String, tokio_util::sync::DropGuard, tokio::runtime::Runtime) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let stop = tokio_util::sync::CancellationToken::new();
    let address = runtime.block_on(async {
        let certificates = mainstay_serve::Certificates::from_files(&world.file("tls.crt"), &world.file("tls.key")).unwrap();
        let tls = mainstay_serve::Tls::new(&certificates, mainstay_serve::ClientCertificates::Ignored).unwrap();
        let server = mainstay_serve::Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap().tls(tls);
        let address = server.address().to_string();
        let router = registry.inner().expect("ours").router();
        let until = stop.clone();
        tokio::spawn(async move { server.run(router, until).await });
        address
    });
    (address, stop.drop_guard(), runtime)
}

/// OLM1-GEN-06, MS-CLI-04: a registry's authority, and catalogd's, that is put into its folder while the process runs is trusted from then on.
#[test]
fn authorities_change_while_it_runs() {
    let Some(()) = need_kubectl() else { return };
    let world = World::start(CATALOGD.0, &[]);
    let registry = Registry::ours();
    let source = world.file("bundles");
    Toy::new("gadget", "1.0.0").write(&source);
    let reference = publish(&registry, &source, world.cluster.folder(), "latest");
    let (secured, _guard, _runtime) = behind_tls(&world, &registry);
    let right = fs::read_to_string(world.file("cas/ca.crt")).unwrap();
    // Trusted from the start is an authority that has signed nothing here.
    let wrong = CertificateParams::new(Vec::new()).unwrap().self_signed(&KeyPair::generate().unwrap()).unwrap().pem();
    write(&world.file("cas/ca.crt"), &wrong);
    write(&world.file("pull-cas/ca.crt"), &wrong);
    let (pull, served) = (format!("--pull-cas-dir={}", world.file("pull-cas").display()), world.file("cas/ca.crt"));
    let _catalogd = world.replica_with("catalogd", CATALOGD.0, 0, &[&pull]);
    let _controller = world.replica("operator-controller", OPERATOR_CONTROLLER.0, 0);

    world.cluster.apply(&catalog("real", &reference.replace(registry.address(), &secured), None));
    until_said(&world.cluster, "clustercatalog", "real", "Progressing", "certificate");
    write(&world.file("pull-cas/ca.crt"), &right);
    until_serving(&world.cluster, "real");

    world.cluster.apply(&extension("gadget", "gadgets", "gadget", "1.0.0", None));
    until_said(&world.cluster, "clusterextension", "gadget", "Progressing", "certificate");
    write(&served, &right);
    until_installed(&world.cluster, "gadget", "1.0.0");
}

/// Pushes the bundles and their catalog to a registry with a door.
fn offline_push(world: &World, registry: &Registry, bundles: &Path) -> String {
    let home = world.file("pusher");
    let auth = json!({"auths": {(registry.address()): {"username": "me", "password": "secret"}}}).to_string();
    write(&home.join("auth.json"), &auth);
    let own = |arguments: &[&str]| {
        let mut command = Command::new(mainstay());
        command.args(arguments).env("HOME", &home).env("REGISTRY_AUTH_FILE", home.join("auth.json")).env("NO_COLOR", "1");
        run(&mut command, "").ok()
    };
    let out = world.file("locked-catalog");
    let at = format!("{}/tests", registry.address());
    own(&["catalog", "from-bundles", &bundles.to_string_lossy(), "--registry", &at, "--mode", "semver", "--out", &out.to_string_lossy()]);
    let reference = format!("{at}/catalog:latest");
    own(&["catalog", "build", &out.to_string_lossy(), "--push", &reference]);
    reference
}

/// MS-CLI-04: what deploying prints without a cluster, what uninstalling leaves, and when it refuses.
#[test]
fn deployed_and_removed() {
    let Some(()) = need_kubectl() else { return };
    let printed = offline(&["deploy", "--image", "example.com/mainstay:1", "-o", "yaml"]).ok();
    for kind in ["CustomResourceDefinition", "Namespace", "Deployment", "PodDisruptionBudget", "NetworkPolicy", "Service", "Role"] {
        assert!(printed.contains(&format!("kind: {kind}\n")), "{kind} is missing");
    }
    assert!(!printed.contains("ServiceMonitor") && !printed.contains("cluster-admin"), "{printed}");
    offline(&["deploy", "-o", "yaml"]).exits(2);

    let cluster = Cluster::up(&["--components", "controllers,scheduler,nodes"]);
    cluster.mainstay(&["deploy", "--image", "example.com/mainstay:1", "--namespace", OLM]).ok();
    // Again: new certificates, and the authority before stays trusted.
    cluster.mainstay(&["deploy", "--image", "example.com/mainstay:2", "--namespace", OLM]).ok();
    let authorities = cluster.get(&["configmap", "-n", OLM, "olmv1-ca"]).unwrap()["data"]["ca.crt"].as_str().unwrap_or_default().to_owned();
    assert_eq!(authorities.matches("BEGIN CERTIFICATE").count(), 2);
    for (name, _) in [CATALOGD, OPERATOR_CONTROLLER] {
        cluster.until("the pods run", &["deployment", "-n", OLM, name], |object| object["status"]["readyReplicas"] == 2);
    }
    // Another shape and another right: what is not wanted any more goes.
    cluster.kubectl(&["create", "namespace", "config"]).ok();
    let more = ["deploy", "--image", "example.com/mainstay:2", "--namespace", OLM, "--combined", "--use-own-service-account"];
    cluster.mainstay(&[&more[..], &["--global-pull-secret", "config/pull"]].concat()).ok();
    assert!(cluster.get(&["deployment", "-n", OLM, COMBINED]).is_some() && cluster.get(&["deployment", "-n", OLM, CATALOGD.0]).is_none());
    assert!(cluster.get(&["serviceaccount", "-n", OLM, CATALOGD.0]).is_none());
    assert!(cluster.get(&["rolebinding", "-n", "config", "mainstay-global-pull-secret"]).is_some());
    let (admin, secret) =
        (["clusterrolebinding", "operator-controller-cluster-admin"], ["role", "-n", "config", "mainstay-global-pull-secret"]);
    assert!(cluster.get(&admin).is_some() && cluster.get(&secret).is_some());
    cluster.mainstay(&["deploy", "--image", "example.com/mainstay:2", "--namespace", OLM, "--global-pull-secret", "config/pull"]).ok();
    assert!(cluster.get(&admin).is_none(), "nobody is cluster-admin any more");
    assert!(cluster.get(&secret).is_some() && cluster.get(&["deployment", "-n", OLM, COMBINED]).is_none());

    cluster.apply(&extension("gadget", "gadgets", "gadget", "1.0.0", None));
    let refused = cluster.mainstay(&["deploy", "--uninstall", "--delete-crds", "--namespace", OLM]).exits(4);
    assert!(refused.contains("gadget"), "{refused}");
    let left = cluster.mainstay(&["deploy", "--uninstall", "--namespace", OLM]).exits(0);
    assert!(left.contains("holds the records of 1 extensions"), "{left}");
    assert!(cluster.get(&["deployment", "-n", OLM, CATALOGD.0]).is_none());
    assert!(cluster.get(&["clusterrole", "catalogd-manager-role"]).is_none());
    assert!(
        cluster.get(&secret).is_none() && cluster.get(&["rolebinding", "-n", "config", secret[3]]).is_none(),
        "rights elsewhere go, too"
    );
    assert!(cluster.get(&["crd", "clusterextensions.olm.operatorframework.io"]).is_some());
    cluster.kubectl(&["delete", "clusterextension", "gadget"]).ok();
    cluster.mainstay(&["deploy", "--uninstall", "--delete-crds", "--namespace", OLM]).ok();
    cluster.until_gone(&["crd", "clusterextensions.olm.operatorframework.io"]);
    cluster.until_gone(&["namespace", OLM]);
}

/// MS-CLI-04: the image of the program itself, on a base where the program needs one.
#[test]
fn an_image_of_the_program() {
    let registry = Registry::ours();
    let folder = tempfile::tempdir().unwrap();
    let layout = folder.path().join("base");
    let reference = format!("{}/tests/base:1", registry.address());
    // Any image will do as a base here: nobody runs it.
    let catalog = folder.path().join("catalog");
    write(
        &catalog.join("c.json"),
        r#"{"schema": "olm.package", "name": "a", "defaultChannel": "b"}{"schema": "olm.channel", "package": "a", "name": "b", "entries": [{"name": "a.v1.0.0"}]}{"schema": "olm.bundle", "package": "a", "name": "a.v1.0.0", "image": "example.com/a:1", "properties": [{"type": "olm.package", "value": {"packageName": "a", "version": "1.0.0"}}]}"#,
    );
    offline(&["catalog", "build", &catalog.to_string_lossy(), "--push", &reference]).ok();
    let without = offline(&["image", "build", "--layout", &layout.to_string_lossy()]);
    if without.code == Some(0) {
        // A static program needs none.
        return;
    }
    let words = without.exits(2);
    assert!(words.contains("needs a base image") && words.contains("libc"), "{words}");
    let target = format!("{}/tests/mainstay:1", registry.address());
    let built = offline(&["image", "build", "--base", &reference, "--push", &target]).ok();
    assert!(built.contains("/tests/mainstay@sha256:"), "{built}");
}

/// A proxy that says no to everybody, and remembers who was asked for.
fn proxy() -> (String, std::sync::Arc<std::sync::Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let asked: std::sync::Arc<std::sync::Mutex<Vec<String>>> = std::sync::Arc::default();
    let seen = asked.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut head = [0; 1024];
            let read = stream.read(&mut head).unwrap_or_default();
            let line = String::from_utf8_lossy(&head[..read]).lines().next().unwrap_or_default().to_owned();
            seen.lock().unwrap().push(line);
            // Whoever asked may be gone already.
            let _ = stream.write_all(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    (address, asked)
}

/// OLM1-GEN-06, OLM1-GEN-09: registries and catalogs are reached through the proxy of the environment, the API, which it excepts, is not.
#[test]
fn through_a_proxy() {
    let Some(()) = need_kubectl() else { return };
    let cluster = Cluster::up(&["--components", "controllers", "--nodes", "0"]);
    cluster.mainstay(&["deploy", "--namespace", OLM, "--image", "example.com/mainstay:1"]).ok();
    let (address, asked) = proxy();
    let start = |component: &str| {
        let log = cluster.folder().join(format!("{component}.log"));
        let mut command = cluster.command(mainstay());
        command
            .args(["run", component, "--health-probe-bind-address=0", "--system-namespace", OLM, "--kubeconfig"])
            .arg(cluster.kubeconfig());
        command.arg("--cache-path").arg(cluster.folder().join(format!("{component}-cache")));
        if component == "catalogd" {
            command.args(["--catalogs-server-addr=127.0.0.1:0"]);
        }
        command.env("HTTPS_PROXY", &address).env("HTTP_PROXY", &address).env("NO_PROXY", "127.0.0.1");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log).unwrap());
        Replica { child: command.spawn().unwrap(), log, health: 0, metrics: 0, external: String::new() }
    };
    let until_asked = |line: &str| {
        eventually("the proxy is asked", LONG, || {
            let asked = asked.lock().unwrap();
            if asked.iter().any(|seen| seen.starts_with(line)) { Ok(()) } else { Err(format!("{line} is not among {asked:?}")) }
        });
    };

    // A catalog that says it is served somewhere else.
    cluster.apply(&catalog("far", "registry.example/catalog:1", None));
    let digest = "0".repeat(64);
    let now = "2026-01-01T00:00:00Z";
    let status = json!({"status": {
        "conditions": [{"type": "Serving", "status": "True", "reason": "Available", "message": "", "lastTransitionTime": now}],
        "resolvedSource": {"type": "Image", "image": {"ref": format!("registry.example/catalog@sha256:{digest}")}},
        "urls": {"base": "https://catalog.example/catalogs/far"},
    }});
    cluster.kubectl(&["patch", "clustercatalog", "far", "--subresource=status", "--type=merge", "-p", &status.to_string()]).ok();
    cluster.apply(&extension("gadget", "gadgets", "gadget", "1.0.0", None));
    let _controller = start("operator-controller");
    until_asked("CONNECT catalog.example:443");
    let _catalogd = start("catalogd");
    until_asked("CONNECT registry.example:443");
    let asked = asked.lock().unwrap().clone();
    assert!(asked.iter().all(|line| !line.contains("127.0.0.1")), "{asked:?}");
}
