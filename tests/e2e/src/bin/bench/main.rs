//! Measures speed and size of the built program, and writes BENCHMARKS.md: `make bench`.
//!
//! Times of whole commands are taken from outside, as a user meets them. What happens to one catalog is measured in a process of its own
//! (this program again, as `bench index FOLDER`), so that its peak memory is its own. With `--kubeconfig` the load runs against any
//! cluster, so that a kube-apiserver can be measured beside (KAPI-PERF-02); `--json` keeps the result, `--beside` shows it in the page.
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use mainstay_e2e::client;
mod catalogs;
mod classic;
mod extensions;
mod load;
mod machines;
mod many;
mod pods;
mod releases;
mod resolving;
mod serving;
mod updates;
mod watchers;

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use mainstay_catalog::Limits;
use mainstay_catalog_store::{CatalogDigest, CatalogStore, DirectorySource};
use mainstay_e2e::bundles::{Toy, catalog, extension, publish, until_serving};
use mainstay_e2e::{Cluster, Options, Registry, kubectl, peak_memory, resident_memory, terminate};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use client::Target;
use load::{Load, Operation};

/// How often a short thing is measured; the median counts.
const ROUNDS: usize = 5;
/// How long a cluster is left alone before its memory is read.
const IDLE: Duration = Duration::from_secs(15);

/// One line of the table.
struct Figure {
    what: String,
    measured: String,
    budget: &'static str,
    holds: bool,
}

/// How long every operation is measured with every number of clients.
const LOAD: Duration = Duration::from_secs(5);
/// The numbers of clients.
const CLIENTS: [usize; 3] = [1, 16, 64];
const WATCHERS: usize = 1_000;
const MAPS: usize = 100_000;

const USAGE: &str =
    "usage: bench --mainstay PROGRAM --out FILE [--only start|load|watch|maps|pods|catalogs|curate|install|resolve|extensions|subscriptions|copies|releases|update-service|config-server] [--beside FILE] [--opm PROGRAM]
       bench --kubeconfig FILE [--json FILE]
       bench index FOLDER";

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // The load needs TLS. No provider is installed yet, so it takes this one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    if let ["index", folder] = words.as_slice() {
        return index(Path::new(folder));
    }
    let mut options = HashMap::new();
    for pair in words.chunks(2) {
        let [name @ ("--mainstay" | "--out" | "--only" | "--beside" | "--kubeconfig" | "--json" | "--opm"), value] = pair else {
            bail!(USAGE)
        };
        options.insert(*name, *value);
    }
    if let Some(kubeconfig) = options.get("--kubeconfig") {
        return elsewhere(Path::new(kubeconfig), options.get("--json").map(Path::new));
    }
    let (Some(binary), Some(out)) = (options.get("--mainstay"), options.get("--out")) else { bail!(USAGE) };
    let beside = options.get("--beside").map(|file| read_loads(Path::new(file))).transpose()?.unwrap_or_default();
    let mut bench = Bench {
        binary: fs::canonicalize(binary).with_context(|| format!("{binary} is not there"))?,
        runtime: tokio::runtime::Builder::new_current_thread().enable_all().build()?,
        opm: options.get("--opm").map(PathBuf::from),
        figures: Vec::new(),
        loads: Vec::new(),
        beside_opm: Vec::new(),
    };
    for (name, section) in SECTIONS {
        if options.get("--only").is_none_or(|only| only.split(',').any(|one| one == *name)) {
            section(&mut bench)?;
        }
    }
    if options.contains_key("--only") {
        return Ok(());
    }
    fs::write(out, page(&bench, &beside)).with_context(|| format!("{out} cannot be written"))
}

type Section = fn(&mut Bench) -> anyhow::Result<()>;

const SECTIONS: &[(&str, Section)] = &[
    ("start", Bench::start_up),
    ("load", Bench::load),
    ("watch", Bench::watch),
    ("maps", Bench::maps),
    ("pods", Bench::pods),
    ("catalogs", Bench::catalogs),
    ("curate", Bench::curate),
    ("install", Bench::installs),
    ("resolve", Bench::resolving),
    ("extensions", Bench::extensions),
    ("subscriptions", Bench::subscriptions),
    ("copies", Bench::copies),
    ("releases", Bench::releases),
    ("update-service", Bench::update_service),
    ("config-server", Bench::config_server),
];

/// The load against a cluster that somebody else runs.
fn elsewhere(kubeconfig: &Path, json: Option<&Path>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let target = Target::read(kubeconfig)?;
    let loads = runtime.block_on(load::run(&target, &CLIENTS, LOAD))?;
    for one in &loads {
        println!("{}", line(one));
    }
    if let Some(file) = json {
        let all: Vec<Value> = loads.iter().map(Load::json).collect();
        fs::write(file, format!("{:#}\n", Value::from(all))).with_context(|| format!("{} cannot be written", file.display()))?;
    }
    let spread = runtime.block_on(watchers::run(&target, WATCHERS, 20))?;
    println!(
        "{} watchers: a change reaches all in {} (median), {} (slowest)",
        spread.watchers,
        shown(spread.median),
        shown(spread.slowest)
    );
    Ok(())
}

fn read_loads(file: &Path) -> anyhow::Result<Vec<Load>> {
    let list: Value = serde_json::from_slice(&fs::read(file).with_context(|| format!("{} cannot be read", file.display()))?)?;
    list.as_array().into_iter().flatten().map(Load::read).collect()
}

/// What is measured with, and what was.
struct Bench {
    binary: PathBuf,
    /// Upstream's program, to be measured beside.
    opm: Option<PathBuf>,
    runtime: Runtime,
    figures: Vec<Figure>,
    loads: Vec<Load>,
    beside_opm: Vec<catalogs::Beside>,
}

impl Bench {
    fn add(&mut self, figure: Figure) {
        let verdict = if figure.holds { "holds" } else { "MISSED" };
        println!("{:<72} {:>12}   budget {:<10} {verdict}", figure.what, figure.measured, figure.budget);
        self.figures.push(figure);
    }

    fn cluster(&self, arguments: &[&str]) -> Cluster {
        Cluster::with(&Options { arguments, environment: &[], binary: Some(&self.binary) })
    }

    /// KAPI-PERF-01.
    fn start_up(&mut self) -> anyhow::Result<()> {
        let ready = median(ROUNDS, || {
            let begun = Instant::now();
            let cluster = self.cluster(&[]);
            let ready = begun.elapsed();
            drop(cluster);
            Ok(ready)
        })?;
        self.add(time("`mainstay up`, empty data directory: start to ready", ready, "300 ms", 300));
        let cluster = self.cluster(&[]);
        thread::sleep(IDLE);
        self.add(memory("`mainstay up`, all components, 3 nodes, idle: resident memory", resident(&cluster)?, "60 MiB", 60));
        Ok(())
    }

    /// KAPI-PERF-02.
    fn load(&mut self) -> anyhow::Result<()> {
        let cluster = self.cluster(&[]);
        let target = Target::read(cluster.kubeconfig())?;
        let loads = self.runtime.block_on(load::run(&target, &CLIENTS, LOAD))?;
        for one in &loads {
            println!("{}", line(one));
        }
        for (operation, budget, micros) in
            [(Operation::Create, "1 ms", 1_000), (Operation::Get, "0.4 ms", 400), (Operation::Apply, "1 ms", 1_000)]
        {
            if let Some(one) = loads.iter().find(|one| one.operation == operation && one.clients == 1) {
                let what = format!("{} of a ConfigMap of 1 KiB, one keep-alive client: median", operation.name());
                self.add(Figure { what, measured: shown(one.p50), budget, holds: one.p50 <= Duration::from_micros(micros) });
            }
        }
        if let Some(one) = loads.iter().find(|one| one.operation == Operation::Create && one.clients == 64) {
            let measured = format!("{:.0}/s", one.per_second);
            self.add(Figure { what: "durable creates, 64 clients".into(), measured, budget: "5000/s", holds: one.per_second >= 5_000.0 });
        }
        self.loads = loads;
        Ok(())
    }

    /// KAPI-WATCH-02.
    fn watch(&mut self) -> anyhow::Result<()> {
        let cluster = self.cluster(&[]);
        let target = Target::read(cluster.kubeconfig())?;
        let spread = self.runtime.block_on(watchers::run(&target, WATCHERS, 20))?;
        self.add(time(
            &format!("{WATCHERS} watchers, a connection each: a change reaches all, median of 20"),
            spread.median,
            "250 ms",
            250,
        ));
        self.add(time(&format!("{WATCHERS} watchers: the slowest of 20 changes"), spread.slowest, "1 s", 1_000));
        Ok(())
    }

    /// KAPI-PERF-03.
    fn maps(&mut self) -> anyhow::Result<()> {
        let mut cluster = self.cluster(&["--components", "none"]);
        let before = resident(&cluster)?;
        let target = Target::read(cluster.kubeconfig())?;
        let filled = self.runtime.block_on(many::fill(&target, MAPS))?;
        println!("{MAPS} ConfigMaps created by 64 clients in {}", shown(filled));
        let many = self.runtime.block_on(many::list(&target, MAPS))?;
        self.add(time(&format!("{MAPS} ConfigMaps of 1 KiB: listed in pages of 500"), many.listing, "10 s", 10_000));
        self.add(time("the slowest of these pages", many.page, "250 ms", 250));
        let _ = cluster.stop();
        let begun = Instant::now();
        cluster.start_again();
        self.add(time(&format!("{MAPS} ConfigMaps: restart to ready"), begun.elapsed(), "3 s", 3_000));
        thread::sleep(IDLE);
        let each = (resident(&cluster)?.saturating_sub(before) * 1_024) as f64 / MAPS as f64 - many.object as f64;
        let measured = format!("{:.2} KiB", each / 1_024.0);
        let what = format!("{MAPS} ConfigMaps, after the restart: memory for one above its {} bytes of JSON", many.object);
        self.add(Figure { what, measured, budget: "2.5 KiB", holds: each <= 2.5 * 1_024.0 });
        Ok(())
    }

    /// KAPI-WL-05.
    fn pods(&mut self) -> anyhow::Result<()> {
        let cluster = self.cluster(&["--nodes", "51"]);
        let target = Target::read(cluster.kubeconfig())?;
        let ready = self.runtime.block_on(pods::run(&target))?;
        self.add(time(&format!("{} pods on 50 nodes: created to Ready", pods::PODS), ready, "60 s", 60_000));
        let peak = peak_memory(cluster.pid()).context("no memory figures")?;
        self.add(memory(&format!("{} pods on 50 nodes: peak memory of the whole process", pods::PODS), peak, "500 MiB", 500));
        if kubectl().is_some() {
            cluster.kubectl(&["get", "pods", "-A"]).ok();
            let listed = median(ROUNDS, || {
                let begun = Instant::now();
                let lines = cluster.kubectl(&["get", "pods", "-A"]).ok().lines().count();
                anyhow::ensure!(lines > pods::PODS, "{lines} lines");
                Ok(begun.elapsed())
            })?;
            self.add(time(&format!("`kubectl get pods -A` with {} pods", pods::PODS), listed, "1 s", 1_000));
        }
        Ok(())
    }

    fn catalogs(&mut self) -> anyhow::Result<()> {
        let Some(text) = mainstay_testing::data::text("catalog-60.json.gz") else { return Ok(()) };
        let once = index_of(&text, 1)?;
        let bundles = once["bundles"].as_u64().unwrap_or(0);
        self.add(time(&format!("catalog-60, {bundles} bundles: load, check, index, store"), micros(&once["put"]), "150 ms", 150));
        self.add(time(&format!("catalog-60, {bundles} bundles: open again"), micros(&once["open"]), "50 ms", 50));
        let many = index_of(&text, 8)?;
        let bundles = many["bundles"].as_u64().unwrap_or(0);
        self.add(time(&format!("catalog of {bundles} bundles in 8 files: load, check, index, store"), micros(&many["put"]), "2 s", 2_000));
        self.add(memory(
            &format!("catalog of {bundles} bundles in 8 files: peak memory of that"),
            many["peak"].as_u64().unwrap_or(u64::MAX),
            "100 MiB",
            100,
        ));
        self.add(time(&format!("catalog of {bundles} bundles in 8 files: open again"), micros(&many["open"]), "50 ms", 50));
        Ok(())
    }

    fn installs(&mut self) -> anyhow::Result<()> {
        if kubectl().is_none() {
            mainstay_e2e::skip("kubectl 1.32 or newer is not to be had here (make setup)");
            return Ok(());
        }
        let cluster = self.cluster(&[]);
        let (installed, available, planned) = install(&self.binary, &cluster)?;
        self.add(time("a small bundle from a loopback registry: created to Installed=True", installed, "1 s", 1_000));
        self.add(time("a Deployment of 1 replica: created to Available", available, "1 s", 1_000));
        self.add(time("`mainstay plan upgrade --no-sizes`, with field diffs: the whole command", planned, "200 ms", 200));
        Ok(())
    }
}

fn resident(cluster: &Cluster) -> anyhow::Result<u64> {
    resident_memory(cluster.pid()).context("the cluster's memory cannot be read")
}

/// Installs small bundles and creates Deployments, asking the API every few milliseconds.
fn install(binary: &Path, cluster: &Cluster) -> anyhow::Result<(Duration, Duration, Duration)> {
    let registry = Registry::ours();
    let bundles = cluster.folder().join("bundles");
    let packages = ["gadget", "widget", "gizmo"];
    for package in packages {
        Toy::new(package, "1.0.0").write(&bundles);
        Toy::new(package, "1.1.0").write(&bundles);
    }
    let reference = publish(&registry, &bundles, cluster.folder(), "latest");
    cluster.apply(&catalog("team", &reference, None));
    until_serving(cluster, "team");
    let proxy = Proxy::start(cluster)?;
    let mut round = packages.iter();
    let installed = median(packages.len(), || {
        let package = round.next().copied().unwrap_or_default();
        let manifests = extension(package, &format!("{package}-system"), package, "1.0.0", None);
        let (before, last) = manifests.rsplit_once('\n').unwrap_or_default();
        cluster.apply(before);
        let begun = Instant::now();
        proxy.create("/apis/olm.operatorframework.io/v1/clusterextensions", last)?;
        proxy.until(&format!("/apis/olm.operatorframework.io/v1/clusterextensions/{package}"), "Installed")?;
        Ok(begun.elapsed())
    })?;
    let planned = median(ROUNDS, || {
        let begun = Instant::now();
        let plan = Command::new(binary)
            .args(["plan", "upgrade", "gadget", "--version", "1.1.0", "--no-sizes", "-o", "json", "--kubeconfig"])
            .arg(cluster.kubeconfig())
            .output()?;
        let took = begun.elapsed();
        anyhow::ensure!(plan.status.success(), "{}", String::from_utf8_lossy(&plan.stderr));
        Ok(took)
    })?;
    let mut number = 0;
    let available = median(ROUNDS, || {
        number += 1;
        let (name, labels) = (format!("web-{number}"), json!({"app": format!("web-{number}")}));
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "example.com/web:1"}]}},
        }});
        let begun = Instant::now();
        proxy.create("/apis/apps/v1/namespaces/default/deployments", &deployment.to_string())?;
        proxy.until(&format!("/apis/apps/v1/namespaces/default/deployments/{name}"), "Available")?;
        Ok(begun.elapsed())
    })?;
    Ok((installed, available, planned))
}

/// `kubectl proxy`: the API without TLS on a port of the loopback, so that asking costs little.
struct Proxy {
    child: Child,
    address: String,
}

impl Proxy {
    fn start(cluster: &Cluster) -> anyhow::Result<Self> {
        let kubectl = kubectl().context("kubectl is not there")?;
        let mut child = cluster.command(&kubectl).args(["proxy", "--port=0"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
        let address = line.trim().rsplit(' ').next().unwrap_or_default().to_owned();
        Ok(Self { child, address })
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> anyhow::Result<(u16, Value)> {
        let mut stream = TcpStream::connect(&self.address).with_context(|| format!("kubectl proxy at {:?}", self.address))?;
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
        let status = head.split(' ').nth(1).unwrap_or_default().parse()?;
        Ok((status, serde_json::from_str(body).unwrap_or_default()))
    }

    fn create(&self, path: &str, body: &str) -> anyhow::Result<()> {
        match self.ask("POST", path, body)? {
            (201, _) => Ok(()),
            (status, answer) => bail!("POST {path}: {status} {answer}"),
        }
    }

    fn until(&self, path: &str, condition: &str) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            let (_, object) = self.ask("GET", path, "")?;
            if mainstay_e2e::bundles::condition(&object, condition)["status"] == "True" {
                return Ok(());
            }
            if begun.elapsed() > Duration::from_secs(60) {
                bail!("{path} is not {condition} after 60 s: {object:#}");
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        terminate(&mut self.child);
    }
}

/// The catalog that many copies of one make, with other names for the packages; measured in a process of its own.
fn index_of(text: &str, copies: usize) -> anyhow::Result<Value> {
    let folder = tempfile::tempdir()?;
    let catalog = folder.path().join("catalog");
    fs::create_dir_all(&catalog)?;
    for copy in 0..copies {
        let mut out = String::with_capacity(text.len() + text.len() / 50);
        for line in text.lines() {
            let key = if line.contains("\"schema\":\"olm.package\"") { "\"name\":\"" } else { "\"package\":\"" };
            match line.split_once(key) {
                Some((before, after)) if copy > 0 => out.extend([before, key, &format!("copy{copy}-"), after, "\n"]),
                _ => out.extend([line, "\n"]),
            }
        }
        fs::write(catalog.join(format!("{copy}.json")), out)?;
    }
    let mut results = Vec::new();
    for _ in 0..ROUNDS {
        let output = Command::new(std::env::current_exe()?).arg("index").arg(folder.path()).output()?;
        if !output.status.success() {
            bail!("indexing failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        results.push(serde_json::from_slice::<Value>(&output.stdout)?);
        fs::remove_dir_all(folder.path().join("store"))?;
    }
    results.sort_by_key(|one| one["put"].as_u64());
    Ok(results.swap_remove(ROUNDS / 2))
}

/// `bench index FOLDER`: loads, stores and opens FOLDER/catalog; microseconds and KiB as JSON.
fn index(folder: &Path) -> anyhow::Result<()> {
    let (catalog, root) = (folder.join("catalog"), folder.join("store"));
    let digest: CatalogDigest = format!("sha256:{}", "0".repeat(64)).parse()?;
    let begun = Instant::now();
    let store = CatalogStore::open(&root)?;
    let stored = store.put(&digest, &DirectorySource::of_user(&catalog)?, &Limits::default())?;
    let put = begun.elapsed();
    let bundles = stored.index().bundle_count();
    drop((stored, store));
    let peak = peak_memory(std::process::id()).context("no memory figures")?;
    let begun = Instant::now();
    let opened = CatalogStore::open(&root)?.get(&digest)?.context("the catalog is gone")?;
    let packages = opened.index().packages().len();
    let open = begun.elapsed();
    println!("{}", json!({"put": micro(put), "open": micro(open), "peak": peak, "bundles": bundles, "packages": packages}));
    Ok(())
}

fn micro(duration: Duration) -> u64 {
    duration.as_micros().try_into().unwrap_or(u64::MAX)
}

fn micros(value: &Value) -> Duration {
    Duration::from_micros(value.as_u64().unwrap_or(u64::MAX))
}

fn median(rounds: usize, mut measure: impl FnMut() -> anyhow::Result<Duration>) -> anyhow::Result<Duration> {
    let mut all = (0..rounds).map(|_| measure()).collect::<anyhow::Result<Vec<_>>>()?;
    all.sort();
    Ok(all[rounds / 2])
}

fn shown(took: Duration) -> String {
    match took.as_secs_f64() {
        seconds if seconds < 0.01 => format!("{:.2} ms", seconds * 1_000.0),
        seconds if seconds < 1.0 => format!("{:.1} ms", seconds * 1_000.0),
        seconds => format!("{seconds:.2} s"),
    }
}

fn time(what: &str, took: Duration, budget: &'static str, limit: u64) -> Figure {
    Figure { what: what.to_owned(), measured: shown(took), budget, holds: took <= Duration::from_millis(limit) }
}

fn line(one: &Load) -> String {
    let (p50, p99) = (shown(one.p50), shown(one.p99));
    format!("{:<20} {:>3} clients {:>9.0}/s   p50 {p50:>9}   p99 {p99:>9}", one.operation.name(), one.clients, one.per_second)
}

fn memory(what: &str, kibibytes: u64, budget: &'static str, limit: u64) -> Figure {
    let measured = format!("{:.1} MiB", kibibytes as f64 / 1_024.0);
    Figure { what: what.to_owned(), measured, budget, holds: kibibytes <= limit * 1_024 }
}

fn page(bench: &Bench, beside: &[Load]) -> String {
    let verdict = |holds: bool| if holds { "yes" } else { "no" };
    let rows: Vec<String> =
        bench.figures.iter().map(|one| format!("| {} | {} | {} | {} |", one.what, one.measured, one.budget, verdict(one.holds))).collect();
    let loads: Vec<String> = bench
        .loads
        .iter()
        .map(|one| {
            let other = beside.iter().find(|other| other.operation == one.operation && other.clients == one.clients);
            let other = other.map_or_else(
                || "| | | |".to_owned(),
                |other| {
                    let times = one.per_second / other.per_second;
                    format!("| {:.0} | {} | {} | {times:.1} |", other.per_second, shown(other.p50), shown(other.p99))
                },
            );
            let (p50, p99) = (shown(one.p50), shown(one.p99));
            format!("| {} | {} | {:.0} | {p50} | {p99} {other}", one.operation.name(), one.clients, one.per_second)
        })
        .collect();
    format!(
        "# Benchmarks\n\n`make bench` measures and rewrites this file. Times are medians of {ROUNDS} rounds (installs: of 3), taken from outside the program; the\n\
         catalogs are measured in a process of their own. Built with profile `measured` (no LTO); the release profile is a little faster.\n\n\
         | what | measured | budget | holds |\n| --- | --- | --- | --- |\n{}\n\n{}\
         ## Requests\n\nConfigMaps of 1 KiB, keep-alive connections over TLS, server and client on the same machine, every write durable when it is answered, {} s each.\n\
         `make beside` puts the same load on upstream's kube-apiserver with Debian's etcd on the same machine: the last columns. (`bench --kubeconfig FILE --json FILE`\n\
         puts it on any cluster, `make bench BESIDE=FILE` shows that one.)\n\n\
         | operation | clients | per second | p50 | p99 | other: per second | p50 | p99 | times |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n{}\n\n\
         ## The machine\n\n{}\n",
        rows.join("\n"),
        catalogs::section(&bench.beside_opm),
        LOAD.as_secs(),
        loads.join("\n"),
        machine()
    )
}

fn machine() -> String {
    let read = |path: &str| fs::read_to_string(PathBuf::from(path)).unwrap_or_default();
    let field = |text: &str, name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)).map(|rest| rest.trim_matches([':', ' ', '\t']).to_owned()).unwrap_or_default()
    };
    let processors = thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let rust = Command::new("rustc").arg("--version").output().map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let release = read("/proc/sys/kernel/osrelease");
    format!(
        "{processors} processors ({}), {} of memory, Linux {}, {}.",
        field(&read("/proc/cpuinfo"), "model name"),
        field(&read("/proc/meminfo"), "MemTotal"),
        release.trim(),
        rust.unwrap_or_default()
    )
}
