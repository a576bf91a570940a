//! The commands that speak to a cluster, against one of their own.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{Run, command, run};
use serde_json::Value;

/// A home directory of its own, and whatever cluster is started in it.
struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn command(&self) -> Command {
        let mut command = command();
        command.env("HOME", self.path()).env("XDG_STATE_HOME", self.path().join("state"));
        command
    }

    fn run(&self, args: &[&str], code: i32) -> Run {
        let outcome = run(self.command().args(args));
        assert_eq!(outcome.code, code, "{args:?}\n{}\n{}", outcome.stdout, outcome.stderr);
        outcome
    }

    /// Starts a cluster in the background.
    fn up(&self, name: &str) {
        let data = self.path().join(name);
        let started = self.run(&["up", "--detach", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap(), "--nodes", "1"], 0);
        assert!(started.stdout.starts_with("mainstay: ready kubeconfig="), "{}", started.stdout);
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // A test that failed half-way leaves no process behind.
        let _ended = self.command().args(["down", "--all"]).output();
    }
}

/// MS-CLI-02, MS-CLI-03, MS-CLI-08: a cluster in the background is found without being named, an ambiguous choice is refused, Ctrl-C says
/// how to go on, and the end of the cluster is waited for.
#[test]
fn a_cluster_in_the_background() {
    let home = Home::new();
    let nothing = home.run(&["list"], 3);
    assert!(nothing.stderr.contains("mainstay up"), "{}", nothing.stderr);
    home.run(&["down"], 3);
    let alone = home.run(&["version"], 0);
    assert_eq!(alone.stdout, format!("Client Version: v{}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(alone.stderr, "cluster: not found: no embedded cluster is running, and no kubeconfig is there\n");
    home.up("one");
    let both: Value = serde_json::from_str(&home.run(&["version", "-o", "json"], 0).stdout).unwrap();
    let server = both["serverVersion"]["gitVersion"].as_str().unwrap();
    assert!(server.starts_with("v1."), "{both:#}");
    assert!(home.run(&["version"], 0).stdout.ends_with(&format!("\nServer Version: {server}\n")));

    let status: Value = serde_json::from_str(&home.run(&["status", "-o", "json"], 0).stdout).unwrap();
    assert_eq!(status[0]["ready"], true, "{status:#}");
    assert_eq!(
        status[0]["components"],
        serde_json::json!(["controllers", "scheduler", "nodes", "olm-v1", "olm-classic", "service-ca", "network-extras"])
    );
    assert!(home.run(&["list"], 0).stdout.contains("nothing is installed"));
    home.run(&["describe", "nothing"], 3);
    home.run(&["install", "nothing", "--yes"], 3);

    // A catalog that no registry has: the wait ends by time, or by Ctrl-C.
    let late = home.run(&["catalog", "add", "late", "--ref", "127.0.0.1:1/none:latest", "--timeout", "0"], 5);
    assert!(late.stderr.starts_with("cluster: kubernetes-admin@mainstay (https://127.0.0.1:"), "{}", late.stderr);
    // A catalog that its registry says it does not have is refused at once, and nothing is written.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let absent = format!("{}/none:latest", listener.local_addr().unwrap());
    runtime.spawn(mainstay_oci::registry::Registry::in_memory().serve(listener, std::future::pending()));
    let lost = home.run(&["catalog", "add", "lost", "--ref", &absent], 3);
    assert!(lost.stderr.contains("answered 404") && lost.stderr.contains("nothing was written to the cluster"), "{}", lost.stderr);
    home.run(&["catalog", "show", "lost"], 3);
    home.run(&["catalog", "add", "lost", "--ref", &absent, "--keep", "--timeout", "0"], 5);
    home.run(&["catalog", "remove", "lost", "--yes"], 0);
    let mut child =
        home.command().args(["catalog", "add", "never", "--ref", "127.0.0.1:1/none:latest"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.by_ref().any(|line| line.contains("pull, verify and unpack")));
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let said = lines.collect::<Vec<_>>().join("\n");
    assert!(said.contains("hint: mainstay catalog remove never undoes it"), "{said}");
    home.run(&["catalog", "remove", "never"], 2);
    home.run(&["catalog", "remove", "never", "--yes"], 0);

    // A kubeconfig in the usual place makes the choice ambiguous.
    let usual = home.path().join(".kube/config");
    std::fs::create_dir_all(usual.parent().unwrap()).unwrap();
    std::fs::copy(home.path().join("one/kubeconfig"), &usual).unwrap();
    let refused = home.run(&["list"], 2).stderr;
    assert!(refused.contains("--embedded") && refused.contains(usual.to_str().unwrap()), "{refused}");
    home.run(&["list", "--embedded"], 0);
    assert_eq!(run(home.command().args(["list"]).env("MAINSTAY_CLUSTER", "embedded")).code, 0);
    home.run(&["list", "--kubeconfig", usual.to_str().unwrap()], 0);
    std::fs::remove_file(&usual).unwrap();

    home.up("two");
    let several = home.run(&["list"], 2).stderr;
    assert!(several.contains("several embedded clusters"), "{several}");
    home.run(&["down"], 2);
    home.run(&["down", "--data-dir", home.path().join("two").to_str().unwrap()], 0);
    home.run(&["list"], 0);
    home.run(&["down"], 0);
    home.run(&["status"], 0);
}

/// MS-CLI-03: the same data directory is not opened twice; the background process says why it did not start.
#[test]
fn a_second_cluster_on_the_same_data() {
    let home = Home::new();
    home.up("one");
    let data = home.path().join("one");
    let refused = home.run(&["up", "--detach", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()], 1).stderr;
    assert!(refused.contains("is in use by process"), "{refused}");
    home.run(&["up", "--storage", "etcd:localhost"], 2);
    home.run(&["up", "--components", "kubelet"], 2);
    home.run(&["up", "--feature-gates", "Nothing=true"], 2);
}

/// MS-CLI-05, MS-RB-02, MS-CLI-06: the demonstration's whole walk: catalog, install with least permissions, two upgrades along the channel, a
/// custom resource that survives, and a refusal.
#[test]
fn the_demonstration() {
    let home = Home::new();
    let shown = home.run(&["demo", "--exit", "--nodes", "1"], 0);
    for expected in [
        "beacon.v1.0.0 installed in namespace beacon-system",
        "beacon.v1.0.0 upgraded to beacon.v1.1.0",
        "beacon.v1.1.0 upgraded to beacon.v1.2.0",
        "harbour   all is well   30         false",
        "(exit code 4: impossible as asked)",
    ] {
        assert!(shown.stdout.contains(expected), "{expected}\n{}\n{}", shown.stdout, shown.stderr);
    }
    assert!(shown.stderr.contains("deprecated: beacon 1.0.0"), "{}", shown.stderr);
    // Its own colours are painted or left out, never escaped; the long tables are for --verbose.
    assert!(!shown.stdout.contains("\\u{1b}") && !shown.stdout.contains("$ mainstay describe"), "{}", shown.stdout);
    assert!(home.run(&["status"], 0).stdout.contains("no embedded cluster is running"));
}

/// MS-RBAC-01: the least permissions of a bundle, without a cluster.
#[test]
fn least_permissions() {
    let home = Home::new();
    let list: Value = serde_json::from_str(
        &home
            .run(&["rbac", "cellar", "--bundle", "examples/bundles/cellar/0.5.0", "--scope", "namespace", "-n", "ops", "-o", "json"], 0)
            .stdout,
    )
    .unwrap();
    let kinds: Vec<&str> = list["items"].as_array().unwrap().iter().map(|object| object["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]);
    let everything = |rule: &Value| rule["verbs"][0] == "*" || rule["resources"][0] == "*";
    assert!(
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|object| object["rules"].as_array().into_iter().flatten())
            .all(|rule| !everything(rule))
    );
    home.run(&["rbac", "beacon", "--bundle", "examples/bundles/beacon/1.0.0", "--scope", "namespace"], 4);
}

/// MS-CLI-01: the program's own version is there without a cluster, and where the cluster that was chosen does not answer.
#[test]
fn which_build_it_is() {
    let home = Home::new();
    let document: Value = serde_json::from_str(&home.run(&["version", "--client", "-o", "json"], 0).stdout).unwrap();
    let own = format!("v{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(document["clientVersion"]["gitVersion"], own.as_str(), "{document:#}");
    assert!(document.get("serverVersion").is_none(), "{document:#}");
    let nowhere = home.path().join("kubeconfig");
    let text = "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
        clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: u, user: {}}]}";
    std::fs::write(&nowhere, text).unwrap();
    let asked = ["version", "--kubeconfig", nowhere.to_str().unwrap()];
    let silent = home.run(&asked, 1);
    assert_eq!(silent.stdout, format!("Client Version: {own}\n"));
    assert!(silent.stderr.contains("server http://127.0.0.1:1"), "{}", silent.stderr);
    home.run(&[&asked[..], &["--client"]].concat(), 0);
    home.run(&["version", "--embedded"], 3);
}

/// MS-CLI-03, MS-CLI-02: a cluster whose data directory was named as seen from somewhere is found from anywhere, with its kubeconfig.
#[test]
fn a_relative_data_directory() {
    let home = Home::new();
    let words = ["up", "--detach", "--listen", "127.0.0.1:0", "--data-dir", "./one", "--nodes", "0", "--components", "none"];
    let started = run(home.command().current_dir(home.path()).args(words));
    let kubeconfig = home.path().canonicalize().unwrap().join("one/kubeconfig");
    assert!(
        started.stdout.starts_with(&format!("mainstay: ready kubeconfig={} ", kubeconfig.display())),
        "{}{}",
        started.stdout,
        started.stderr
    );
    let status: Value = serde_json::from_str(&home.run(&["status", "-o", "json"], 0).stdout).unwrap();
    assert_eq!((&status[0]["ready"], status[0]["kubeconfig"].as_str()), (&Value::Bool(true), kubeconfig.to_str()), "{status:#}");
    assert!(home.run(&["version", "--embedded"], 0).stdout.contains("Server Version"));
    assert_eq!(run(home.command().current_dir(home.path()).args(["down", "--data-dir", "one"])).code, 0);
    home.run(&["list"], 3);
}

/// MS-RBAC-01: what binds an administrator's account cannot be made to bind the least permissions; that is said before anything is changed.
#[test]
fn an_administrators_binding_stays() {
    let home = Home::new();
    home.up("one");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let registry = format!("{}/ex", listener.local_addr().unwrap());
    runtime.spawn(mainstay_oci::registry::Registry::in_memory().serve(listener, std::future::pending()));
    let (catalog, image) = (home.path().join("catalog"), format!("{registry}/catalog:v1"));
    home.run(&["catalog", "from-bundles", "examples/bundles/beacon", "--registry", &registry, "--out", catalog.to_str().unwrap()], 0);
    home.run(&["catalog", "build", catalog.to_str().unwrap(), "--push", &image], 0);
    home.run(&["catalog", "add", "ex", "--ref", &image], 0);
    for (catalog, said) in
        [("exx", "hint: did you mean ex?"), ("./examples/catalog", "what is installed comes from the cluster's catalogs")]
    {
        let missing = home.run(&["install", "beacon", "--catalog", catalog, "--dry-run"], 3).stderr;
        assert!(missing.contains("the cluster has no catalog of this name") && missing.contains(said), "{missing}");
    }
    // What is not there is said in one way, and what was probably meant is named.
    for verb in
        [&["describe", "nope"][..], &["history", "nope"], &["upgrade", "nope", "--yes"], &["uninstall", "nope", "--yes"], &["wait", "nope"]]
    {
        let missing = home.run(verb, 3).stderr;
        assert!(missing.contains("error: clusterextension nope: not found\nhint: mainstay list shows "), "{verb:?}: {missing}");
    }
    let meant = home.run(&["install", "becon", "--yes"], 3).stderr;
    assert!(meant.contains("hint: mainstay install beacon installs beacon, if that is what is meant\n"), "{meant}");
    let unknown = home.run(&["install", "zzz", "--yes"], 3).stderr;
    assert!(unknown.ends_with("hint: mainstay catalog search shows the packages that there are\n"), "{unknown}");
    let forbidden = home.run(&["describe", "nope", "--as", "stranger"], 4).stderr;
    assert!(
        forbidden.starts_with("error: clusterextension nope: forbidden\n  because User \"stranger\" cannot get resource"),
        "{forbidden}"
    );

    home.run(&["install", "beacon", "--version", "1.0.x", "--grant", "admin", "--yes"], 0);
    // The nearest version that can be applied, as a call of the command that was refused; what it names, works.
    for verb in [&["upgrade", "beacon", "--version", "9.x", "--yes"][..], &["plan", "upgrade", "beacon", "--version", "9.x"]] {
        let refused = home.run(verb, 4).stderr;
        assert!(refused.contains("hint: mainstay upgrade beacon leads to beacon 1."), "{verb:?}: {refused}");
    }
    // What is there already is no advice.
    home.run(&["upgrade", "beacon", "--version", "1.x", "--yes"], 0);
    let older = home.run(&["upgrade", "beacon", "--version", "1.0.0", "--yes"], 4).stderr;
    assert!(!older.contains("leads to"), "{older}");
    // An earlier revision is a rollback's; the command that is named works.
    let earlier = home.run(&["upgrade", "beacon", "--version", "1.0.x", "--yes"], 4).stderr;
    let hint = "hint: mainstay rollback beacon --to-version 1.0.1 --dry-run shows whether it can go back to beacon 1.0.1\n";
    assert!(earlier.contains(hint), "{earlier}");
    home.run(&["rollback", "beacon", "--to-version", "1.0.1", "--dry-run"], 0);
    for words in [&["upgrade", "beacon", "--grant", "minimal", "--yes"][..], &["plan", "upgrade", "beacon", "--grant", "minimal"]] {
        let refused = home.run(words, 4).stderr;
        assert!(
            refused.contains("clusterrolebinding beacon-installer-binding: binds the account of extension beacon to cluster-admin"),
            "{refused}"
        );
        let hint = "hint: kubectl delete clusterrolebinding beacon-installer-binding && mainstay upgrade beacon --grant minimal";
        assert!(refused.contains(hint), "{refused}");
    }
    let still = home.run(&["list", "beacon", "-o", "jsonpath={.items[0].status.install.bundle.version}"], 0);
    assert!(still.stdout.starts_with("1."), "{}", still.stdout);

    // One extension is watched: what changes is shown once, and its removal, too.
    let mut child = home.command().args(["list", "beacon", "-w"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().starts_with("NAME"));
    assert!(lines.next().unwrap().contains("Succeeded"));
    home.run(&["uninstall", "beacon", "--yes"], 0);
    assert!(lines.any(|line| line.starts_with("beacon") && line.contains("removed")));
    assert_eq!(child.try_wait().unwrap(), None, "it goes on");
    child.kill().unwrap();
    child.wait().unwrap();
}
