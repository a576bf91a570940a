//! What changes while a process runs counts from then on: credentials, mirrors, certificates, authorities.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use mainstay_e2e::bundles::{Toy, catalog, extension, publish, until_installed, until_said, until_serving, write};
use mainstay_e2e::client::get;
use mainstay_e2e::{Cluster, Registry, eventually, mainstay, need_kubectl, run};
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};

use crate::run::world::{CATALOGD, LONG, OLM, OPERATOR_CONTROLLER, Replica, World, agreed, free, get_secure, get_secure_as};

/// OLM1-GEN-10, OLM1-GEN-12, OLM1-GEN-05: credentials, mirrors and certificates that change count from then on, without a restart.
#[test]
fn settings_change_while_it_runs() {
    let Some(()) = need_kubectl() else { return };
    let Some(cluster) = Cluster::without_olm() else { return };
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
    command.arg(format!("--metrics-bind-address=127.0.0.1:{metrics}")).arg("--webhook-server-port=0");
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

    figures_are_guarded(&world, metrics, &log);

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

/// MS-OPS-01: figures and log levels are for who may ask for them by RBAC; a level that is changed counts from the next line on, and is told.
fn figures_are_guarded(world: &World, metrics: u16, log: &Path) {
    let address = format!("127.0.0.1:{metrics}");
    let ask = |user: Value, path: &str| get_secure_as(world, &user, &address, path).unwrap();
    let refusal = (401, "Unauthorized\n".to_owned());
    assert_eq!(ask(json!({}), "/metrics"), refusal);
    assert_eq!(ask(json!({"token": "nonsense"}), "/metrics"), refusal);
    let denied = format!("Authorization denied for user system:serviceaccount:{OLM}:{}\n", CATALOGD.0);
    assert_eq!(ask(json!({"token": world.token(CATALOGD.0)}), "/metrics"), (403, denied));
    let page = ask(json!({"token": world.scraper()}), "/metrics").1;
    for figure in [
        "mainstay_cache_objects{cache=\"watch\",kind=\"clustercatalogs.olm.operatorframework.io\"}",
        "mainstay_cache_bytes{cache=\"catalogs\",kind=\"index\"}",
        "mainstay_cache_objects{cache=\"images\",kind=\"bundles\"}",
    ] {
        assert!(page.contains(figure), "{figure} is missing: {page}");
    }

    let token = world.file("scraper.token");
    write(&token, &world.scraper());
    let (url, ca) = (format!("https://{address}"), world.file("cas/ca.crt"));
    let at = ["--at", &url, "--token-file", token.to_str().unwrap(), "--certificate-authority", ca.to_str().unwrap()];
    let level = |levels: &[&str]| world.cluster.mainstay(&[&["log-level"][..], levels, &at].concat());
    assert_eq!(level(&[]).ok().trim(), "info");
    assert_eq!(level(&["warn,catalogd=debug"]).ok().trim(), "warn,catalogd=debug");
    let said = fs::read_to_string(log).unwrap();
    let line = said.lines().rev().find(|line| line.contains("log levels changed")).unwrap_or_default();
    assert!(line.contains("scraper") && line.contains("warn,catalogd=debug"), "{line}");
    assert_eq!(level(&["info"]).ok().trim(), "info");
    level(&["info,olm=debug"]).refused();
    // As behind a forwarded port: the certificate has another name than the URL.
    let url = format!("https://localhost:{metrics}");
    let at = ["log-level", "--at", &url, "--token-file", token.to_str().unwrap(), "--certificate-authority", ca.to_str().unwrap()];
    assert!(world.cluster.mainstay(&at).exits(1).contains("--tls-server-name"));
    assert_eq!(world.cluster.mainstay(&[&at[..], &["--tls-server-name", "127.0.0.1"]].concat()).ok().trim(), "info");
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
    let Some(world) = World::start(CATALOGD.0, &[]) else { return };
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
    world.lend(OPERATOR_CONTROLLER.0, "gadget", "gadgets");
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
