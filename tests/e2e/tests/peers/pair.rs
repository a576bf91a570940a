//! Two clusters, equal but for who runs OLM on them, and a catalog that both ask.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use mainstay_e2e::{Cluster, Options, mainstay, terminate};
use mainstay_objects::Step;
use mainstay_olm_classic_core::fresh;
use mainstay_olm_classic_core::hub::NAMESPACE as MARKET;

/// The interval at which upstream's programs look again: a resolution that read a stale cache is only repeated then.
const RESYNC: &str = "15s";

/// The programs of upstream and their CRDs.
struct Programs {
    olm: PathBuf,
    catalog: PathBuf,
    crds: PathBuf,
}

impl Programs {
    /// None, with a visible skip, but for `make peers`: two clusters for each scenario are not for every run of the tests.
    fn find() -> Option<Self> {
        let Some(folder) = std::env::var_os("MAINSTAY_PEERS").map(PathBuf::from) else {
            eprintln!("skipped: upstream's programs are compared by `make peers`");
            return None;
        };
        Some(Self { olm: folder.join("bin/olm"), catalog: folder.join("bin/catalog"), crds: folder.join("olm-crds") })
    }
}

/// Both clusters. They end with the value.
pub struct Pair {
    programs: Vec<Child>,
    /// The address of the catalog.
    pub address: String,
    /// Our loops.
    pub ours: Cluster,
    /// Upstream's.
    pub upstream: Cluster,
}

impl Pair {
    /// Starts everything, and serves the catalog.
    pub fn start(write_catalog: impl FnOnce(&Path)) -> Option<Self> {
        let programs = Programs::find()?;
        let ours = Cluster::with(&Options {
            arguments: &["--components", "controllers,scheduler,nodes,olm-classic", "--resolution", "namespace"],
            ..Options::default()
        });
        let upstream = Cluster::with(&Options { arguments: &["--components", "controllers,scheduler,nodes"], ..Options::default() });
        let folder = ours.folder().join("peers-catalog");
        write_catalog(&folder);
        let (server, address) = serve(&folder, ours.folder());
        let mut pair = Self { programs: vec![server], address, ours, upstream };
        pair.begin(&programs);
        Some(pair)
    }

    /// Gives upstream's cluster what ours begins with, and starts the programs.
    fn begin(&mut self, programs: &Programs) {
        let crds = programs.crds.to_string_lossy();
        self.upstream.kubectl(&["create", "-f", &crds]).ok();
        self.upstream.kubectl(&["wait", "--for=condition=Established", "crd", "--all"]).ok();
        for step in fresh::steps(true) {
            let object = match step {
                Step::Apply { object, .. } | Step::CreateOnce(object) if object["kind"] != "OperatorHub" => object,
                _ => continue,
            };
            self.upstream.apply(&object.to_string());
        }
        let log = |name: &str| File::create(self.upstream.folder().join(name)).expect("a log file");
        let start = |program: &Path, arguments: &[&str]| {
            let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned() + ".log";
            let log = log(&name);
            let out = log.try_clone().expect("a log file");
            let mut command = self.upstream.command(program);
            command.args(arguments).env("OPERATOR_NAMESPACE", fresh::OLM).stdin(Stdio::null()).stdout(out).stderr(log);
            command.spawn().expect("upstream's program starts")
        };
        let olm = start(&programs.olm, &["--namespace", fresh::OLM, "--protectedCopiedCSVNamespaces", fresh::SHARED, "--interval", RESYNC]);
        let catalog = start(&programs.catalog, &["--namespace", MARKET, "--interval", RESYNC]);
        self.programs.extend([olm, catalog]);
    }

    /// Both, with their names.
    pub fn both(&self) -> [(&'static str, &Cluster); 2] {
        [("ours", &self.ours), ("upstream", &self.upstream)]
    }

    /// The last lines that upstream's programs logged.
    pub fn upstream_log(&self) -> String {
        let read = |name: &str| {
            let text = fs::read_to_string(self.upstream.folder().join(name)).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(15)..].join("\n")
        };
        format!("olm:\n{}\ncatalog:\n{}", read("olm.log"), read("catalog.log"))
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for child in &mut self.programs {
            terminate(child);
        }
    }
}

/// Serves a catalog by gRPC; the process and its address.
fn serve(folder: &Path, home: &Path) -> (Child, String) {
    let mut command = Command::new(mainstay());
    command
        .args(["opm", "serve"])
        .arg(folder)
        .args(["--port", "0", "--termination-log"])
        .arg(home.join("termination-log"))
        .env("HOME", home);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("opm serve starts");
    let mut lines = BufReader::new(child.stderr.take().expect("standard error is piped")).lines().map_while(Result::ok);
    let mut said = Vec::new();
    let port = lines.by_ref().find_map(|line| {
        let port = line.contains("serving registry").then(|| line.split_once("port=").map(|(_, rest)| rest.to_owned())).flatten();
        said.push(line);
        port
    });
    let Some(port) = port else { panic!("opm serve does not serve:\n{}", said.join("\n")) };
    std::thread::spawn(move || lines.for_each(drop));
    let port: String = port.trim_matches('"').chars().take_while(char::is_ascii_digit).collect();
    (child, format!("127.0.0.1:{port}"))
}
