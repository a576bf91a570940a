//! Measures speed and size of the built program, and writes BENCHMARKS.md: `make bench`.
//!
//! Times of whole commands are taken from outside, as a user meets them. What happens to one catalog is measured in a process of its own
//! (this program again, as `bench index FOLDER`), so that its peak memory is its own.
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

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

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["index", folder] => index(Path::new(folder)),
        ["--mainstay", binary, "--out", out] => {
            let binary = fs::canonicalize(binary).with_context(|| format!("{binary} is not there"))?;
            measure(&binary, Path::new(out))
        }
        _ => bail!("usage: bench --mainstay PROGRAM --out FILE"),
    }
}

fn measure(binary: &Path, out: &Path) -> anyhow::Result<()> {
    let mut figures = Vec::new();
    let mut add = |figure: Figure| {
        println!(
            "{:<64} {:>12}   budget {:<10} {}",
            figure.what,
            figure.measured,
            figure.budget,
            if figure.holds { "holds" } else { "MISSED" }
        );
        figures.push(figure);
    };
    // This program knows the helpers of the tests, and they take the binary from here.
    let start = |arguments: &[&str]| Cluster::with(&Options { arguments, environment: &[], binary: Some(binary) });

    let ready = median(ROUNDS, || {
        let begun = Instant::now();
        let cluster = start(&[]);
        let ready = begun.elapsed();
        drop(cluster);
        Ok(ready)
    })?;
    add(time("`mainstay up`, empty data directory: start to ready", ready, "300 ms", 300));

    let cluster = start(&[]);
    thread::sleep(IDLE);
    let idle = resident_memory(cluster.pid()).context("the cluster's memory cannot be read")?;
    add(memory("`mainstay up`, all components, 3 nodes, idle: resident memory", idle, "60 MiB", 60));
    drop(cluster);

    if let Some(source) = mainstay_e2e::shared("data/catalog-60.json.gz") {
        let mut text = String::new();
        flate2::read::GzDecoder::new(fs::File::open(source)?).read_to_string(&mut text)?;
        let once = index_of(&text, 1)?;
        let bundles = once["bundles"].as_u64().unwrap_or(0);
        add(time(&format!("catalog-60, {bundles} bundles: load, check, index, store"), micros(&once["put"]), "150 ms", 150));
        add(time(&format!("catalog-60, {bundles} bundles: open again"), micros(&once["open"]), "50 ms", 50));
        let many = index_of(&text, 8)?;
        let bundles = many["bundles"].as_u64().unwrap_or(0);
        add(time(&format!("catalog of {bundles} bundles in 8 files: load, check, index, store"), micros(&many["put"]), "2 s", 2_000));
        add(memory(
            &format!("catalog of {bundles} bundles in 8 files: peak memory of that"),
            many["peak"].as_u64().unwrap_or(u64::MAX),
            "100 MiB",
            100,
        ));
        add(time(&format!("catalog of {bundles} bundles in 8 files: open again"), micros(&many["open"]), "50 ms", 50));
    }

    if kubectl().is_some() {
        let cluster = start(&[]);
        let (installed, available) = install(&cluster)?;
        add(time("a small bundle from a loopback registry: created to Installed=True", installed, "1 s", 1_000));
        add(time("a Deployment of 1 replica: created to Available", available, "1 s", 1_000));
    } else {
        mainstay_e2e::skip("kubectl 1.32 or newer is not to be had here (make setup)");
    }
    fs::write(out, page(&figures)).with_context(|| format!("{} cannot be written", out.display()))?;
    Ok(())
}

/// Installs small bundles and creates Deployments, asking the API every few milliseconds.
fn install(cluster: &Cluster) -> anyhow::Result<(Duration, Duration)> {
    let registry = Registry::ours();
    let bundles = cluster.folder().join("bundles");
    let packages = ["gadget", "widget", "gizmo"];
    for package in packages {
        Toy::new(package, "1.0.0").write(&bundles);
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
    Ok((installed, available))
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
    let stored = store.put(&digest, &DirectorySource::new(&catalog)?, &Limits::default())?;
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

fn time(what: &str, took: Duration, budget: &'static str, limit: u64) -> Figure {
    let measured = if took < Duration::from_secs(1) {
        format!("{:.1} ms", took.as_secs_f64() * 1_000.0)
    } else {
        format!("{:.2} s", took.as_secs_f64())
    };
    Figure { what: what.to_owned(), measured, budget, holds: took <= Duration::from_millis(limit) }
}

fn memory(what: &str, kibibytes: u64, budget: &'static str, limit: u64) -> Figure {
    let measured = format!("{:.1} MiB", kibibytes as f64 / 1_024.0);
    Figure { what: what.to_owned(), measured, budget, holds: kibibytes <= limit * 1_024 }
}

fn page(figures: &[Figure]) -> String {
    let rows: Vec<String> = figures
        .iter()
        .map(|one| format!("| {} | {} | {} | {} |", one.what, one.measured, one.budget, if one.holds { "yes" } else { "no" }))
        .collect();
    format!(
        "# Benchmarks\n\n`make bench` measures and rewrites this file. Times are medians of {ROUNDS} rounds (installs: of 3), taken from outside the program; the\n\
         catalogs are measured in a process of their own. Built with profile `demo` (no LTO); the release profile is a little faster.\n\n\
         | what | measured | budget | holds |\n| --- | --- | --- | --- |\n{}\n\n## The machine\n\n{}\n",
        rows.join("\n"),
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
