//! One embedded cluster: `mainstay up` as a process of its own, in a folder of its own.
//!
//! With `MAINSTAY_E2E_KUBECONFIG` set, tests that want nothing but an API with OLM v1 ([`Cluster::up`] without arguments) or without it
//! ([`Cluster::without_olm`]) get that cluster instead, one after another, and leave it as they found it ([`crate::given`]). Everything else
//! needs `mainstay up` by nature, and skips then ([`crate::need_embedded`]).

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::given::{self, Authority, ExistingCluster, GIVEN};
use crate::process::{self, Output, eventually, run};
use crate::{binary, skip};

/// How long a cluster may take to be ready; a debug build on a busy machine is slow.
const READY: Duration = Duration::from_secs(120);

/// How a cluster is started.
#[derive(Debug, Default, Clone)]
pub struct Options<'a> {
    /// More arguments of `mainstay up`.
    pub arguments: &'a [&'a str],
    /// More of its environment.
    pub environment: &'a [(&'a str, &'a str)],
    /// Another binary than the one that Cargo built.
    pub binary: Option<&'a Path>,
}

/// A running cluster. It ends with its value, and its folder goes with it.
pub struct Cluster {
    child: Option<Child>,
    folder: TempDir,
    server: String,
    kubeconfig: PathBuf,
    options: (Vec<String>, Vec<(String, String)>, PathBuf),
    given: Option<ExistingCluster>,
}

impl Cluster {
    /// Starts `mainstay up` with more arguments and waits until it says that it is ready. Without arguments any cluster with OLM v1 will do.
    #[track_caller]
    pub fn up(arguments: &[&str]) -> Self {
        match std::env::var_os(GIVEN) {
            Some(kubeconfig) if arguments.is_empty() => Self::given(Path::new(&kubeconfig), true),
            _ => Self::with(&Options { arguments, ..Options::default() }),
        }
    }

    /// A cluster with everything that Kubernetes has, and without OLM v1; none, with a visible skip, where the given cluster has it.
    #[track_caller]
    pub fn without_olm() -> Option<Self> {
        Self::without_olm_or(&[])
    }

    /// The same, whose API server calls a Service (`namespace/name`) at a port of this machine. Tests ask [`crate::need_calls`] first, and have
    /// a cluster that is not theirs do so ([`crate::calls`]).
    #[track_caller]
    pub fn without_olm_calling(service: &str, port: u16) -> Option<Self> {
        Self::without_olm_or(&["--serve-local", &format!("{service}=127.0.0.1:{port}")])
    }

    #[track_caller]
    fn without_olm_or(arguments: &[&str]) -> Option<Self> {
        let Some(kubeconfig) = std::env::var_os(GIVEN) else {
            return Some(Self::up(&[&["--components", "controllers,scheduler,nodes"], arguments].concat()));
        };
        let cluster = Self::given(Path::new(&kubeconfig), false);
        if given::has_olm(&cluster) {
            skip("this cluster has OLM v1 already, and the test deploys it");
            return None;
        }
        Some(cluster)
    }

    #[track_caller]
    fn given(kubeconfig: &Path, with_olm: bool) -> Self {
        let (folder, authority) = (folder(), Authority::generate());
        let own = folder.path().join("kubeconfig");
        let server = given::adopt(kubeconfig, &authority, &own);
        eprintln!("on the cluster of {GIVEN}: {server}");
        let mut given = ExistingCluster::take(&server);
        let options = (Vec::new(), Vec::new(), binary::mainstay().to_owned());
        let mut cluster = Self { child: None, folder, server, kubeconfig: own, options, given: None };
        given.complete(&cluster, &authority, with_olm);
        cluster.given = Some(given);
        cluster
    }

    /// Starts a cluster of the test's own with options.
    #[track_caller]
    pub fn with(options: &Options<'_>) -> Self {
        assert!(std::env::var_os(GIVEN).is_none(), "the test wants `mainstay up`, and did not ask need_embedded first");
        let folder = folder();
        let binary = options.binary.unwrap_or_else(|| binary::mainstay()).to_owned();
        let arguments = options.arguments.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let environment = options.environment.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        let options = (arguments, environment, binary);
        let (child, server, kubeconfig) = start(folder.path(), &options, "127.0.0.1:0");
        Self { child: Some(child), folder, server, kubeconfig, options, given: None }
    }

    /// Starts it again on the same data, after [`Cluster::kill`] or [`Cluster::stop`].
    #[track_caller]
    pub fn start_again(&mut self) {
        self.start("127.0.0.1:0");
    }

    /// As [`Cluster::start_again`], at the same address: clients that are still there find it again.
    #[track_caller]
    pub fn come_back(&mut self) {
        let address = self.server.trim_start_matches("https://").to_owned();
        self.start(&address);
    }

    #[track_caller]
    fn start(&mut self, address: &str) {
        assert!(self.given.is_none(), "the cluster of {GIVEN} is not the test's to start");
        let (child, server, kubeconfig) = start(self.folder.path(), &self.options, address);
        (self.child, self.server, self.kubeconfig) = (Some(child), server, kubeconfig);
    }

    #[track_caller]
    fn child(&mut self) -> &mut Child {
        match &mut self.child {
            Some(child) => child,
            None => panic!("the cluster of {GIVEN} is not the test's to end"),
        }
    }

    /// Ends it as a crash would.
    pub fn kill(&mut self) {
        let child = self.child();
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Ends it politely; the exit code, absent when it did not end within a minute.
    pub fn stop(&mut self) -> Option<i32> {
        process::terminate(self.child())
    }

    /// Whether it is the test's own, to be stopped and killed.
    pub fn is_own(&self) -> bool {
        self.child.is_some()
    }

    /// The folder of its data.
    pub fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A folder for whatever a test needs, next to the data.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The address of the API.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        match &self.child {
            Some(child) => child.id(),
            None => panic!("the cluster of {GIVEN} is no process of the test"),
        }
    }

    /// What it wrote to standard error so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// A program with the environment of a user of this cluster.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        isolate(&mut command, self.folder.path());
        command.env("KUBECONFIG", &self.kubeconfig).env("KUBECACHEDIR", self.folder.path().join("kube-cache"));
        command
    }

    /// Runs kubectl. Tests ask [`crate::need_kubectl`] first.
    #[track_caller]
    pub fn kubectl(&self, arguments: &[&str]) -> Output {
        self.kubectl_with(arguments, "")
    }

    /// Runs kubectl with standard input.
    #[track_caller]
    pub fn kubectl_with(&self, arguments: &[&str], input: &str) -> Output {
        let Some(kubectl) = binary::kubectl() else { panic!("kubectl is not there") };
        run(self.command(&kubectl).args(arguments), input)
    }

    /// Applies manifests and expects that they are taken.
    #[track_caller]
    pub fn apply(&self, manifests: &str) -> String {
        if let Some(given) = &self.given {
            given.applied(manifests);
        }
        self.kubectl_with(&["apply", "-f", "-"], manifests).ok()
    }

    /// Runs mainstay against this cluster.
    #[track_caller]
    pub fn mainstay(&self, arguments: &[&str]) -> Output {
        run(self.command(&self.options.2).args(arguments), "")
    }

    /// One object as JSON, absent when it is not found.
    #[track_caller]
    pub fn get(&self, arguments: &[&str]) -> Option<Value> {
        let output = self.kubectl(&[&["get", "-o", "json"], arguments].concat());
        if output.code != Some(0) && output.stderr.contains("NotFound") {
            return None;
        }
        let text = output.ok();
        match serde_json::from_str(&text) {
            Ok(value) => Some(value),
            Err(error) => panic!("kubectl get {arguments:?}: {error}: {text}"),
        }
    }

    /// Waits until an object is as wanted.
    #[track_caller]
    pub fn until(&self, what: &str, arguments: &[&str], wanted: impl Fn(&Value) -> bool) -> Value {
        eventually(what, Duration::from_secs(120), || match self.get(arguments) {
            Some(object) if wanted(&object) => Ok(object),
            Some(object) => Err(format!("{arguments:?} is {object:#}")),
            None => Err(format!("{arguments:?} is not there")),
        })
    }

    /// Waits until an object is gone.
    #[track_caller]
    pub fn until_gone(&self, arguments: &[&str]) {
        eventually("an object goes", Duration::from_secs(120), || match self.get(arguments) {
            None => Ok(()),
            Some(object) => Err(format!("{arguments:?} is {object:#}")),
        });
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let given = self.given.take();
        if let Some(mut given) = given {
            given.take_back(self);
        } else if self.child.is_some() {
            let _ = self.stop();
        }
        if thread::panicking() {
            let log = self.log();
            let tail = log.lines().rev().take(40).collect::<Vec<_>>();
            eprintln!("the cluster's last words:");
            for line in tail.iter().rev() {
                eprintln!("  {line}");
            }
        }
    }
}

#[track_caller]
fn folder() -> TempDir {
    match tempfile::Builder::new().prefix("mainstay-e2e-").tempdir() {
        Ok(folder) => folder,
        Err(error) => panic!("no folder for a cluster: {error}"),
    }
}

/// Nothing of the user who runs the tests is read or written.
fn isolate(command: &mut Command, folder: &Path) {
    command.env("HOME", folder).env("XDG_STATE_HOME", folder.join("state")).env("XDG_CACHE_HOME", folder.join("cache"));
    command.env("XDG_CONFIG_HOME", folder.join("config")).env("NO_COLOR", "1");
    command.env_remove("MAINSTAY_CLUSTER").env_remove("KUBECONFIG");
}

#[track_caller]
fn start(folder: &Path, options: &(Vec<String>, Vec<(String, String)>, PathBuf), address: &str) -> (Child, String, PathBuf) {
    let (arguments, environment, binary) = options;
    let log = match File::options().create(true).append(true).open(folder.join("log")) {
        Ok(log) => log,
        Err(error) => panic!("no log file: {error}"),
    };
    let mut command = Command::new(binary);
    isolate(&mut command, folder);
    command.args(["up", "--listen", address, "--data-dir"]).arg(folder.join("data")).args(arguments);
    command.envs(environment.iter().map(|(key, value)| (key, value)));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => panic!("{}: {error}", binary.display()),
    };
    let Some(stdout) = child.stdout.take() else { panic!("standard output is not piped") };
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        // Read to the end, so that the program never waits for its reader.
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = tell.send(line);
        }
    });
    let mut said = Vec::new();
    loop {
        match told.recv_timeout(READY) {
            Ok(line) => {
                if let Some(ready) = line.strip_prefix("mainstay: ready ") {
                    let field =
                        |name: &str| ready.split_whitespace().find_map(|word| word.strip_prefix(name)).unwrap_or_default().to_owned();
                    let (server, kubeconfig) = (field("server="), field("kubeconfig="));
                    assert!(server.starts_with("https://") && Path::new(&kubeconfig).is_file(), "ready line: {line}");
                    return (child, server, kubeconfig.into());
                }
                said.push(line);
            }
            Err(reason) => {
                let code = process::terminate(&mut child);
                let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
                panic!("mainstay up {arguments:?} is not ready ({reason}, exit code {code:?})\nstdout: {}\nstderr: {log}", said.join("\n"));
            }
        }
    }
}
