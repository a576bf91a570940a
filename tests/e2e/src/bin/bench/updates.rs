//! The update service with the graph-data of a product: how soon it answers, and how many clusters.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use mainstay_e2e::{resident_memory, terminate};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{Bench, Figure, memory, time};

const CONNECTIONS: usize = 32;
const LOAD: Duration = Duration::from_secs(5);
const ARCHITECTURES: [&str; 5] = ["amd64", "arm64", "multi", "ppc64le", "s390x"];
const CHANNELS: [&str; 4] = ["candidate-4.18", "stable-4.17", "fast-4.16", "eus-4.18"];

impl Bench {
    /// CVO-OSUS-09: server and clients on the same cores.
    pub(super) fn update_service(&mut self) -> anyhow::Result<()> {
        let Some(graph_data) = mainstay_testing::data::path("update-graph") else { return Ok(()) };
        let folder = tempfile::tempdir()?;
        let count = releases(&graph_data, &folder.path().join("releases.json"))?;
        let what = |subject: &str| format!("update service, {count} releases, full graph-data: {subject}");
        let cache = folder.path().join("cache");
        let cold = Instant::now();
        drop(Serving::start(&self.binary, &graph_data, folder.path(), &cache)?);
        self.add(time(&what("first start to the first answer"), cold.elapsed(), "10 s", 10_000));
        let warm = Instant::now();
        let serving = Serving::start(&self.binary, &graph_data, folder.path(), &cache)?;
        self.add(time(&what("start from a warm cache to the first answer"), warm.elapsed(), "1 s", 1_000));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        for (subject, known) in [("answers by gzip", false), ("answers to clients that have the graph", true)] {
            let mut took = runtime.block_on(load(serving.address, known))?;
            took.sort_unstable();
            let rate = took.len() as f64 / LOAD.as_secs_f64();
            let measured = format!("{rate:.0}/s");
            self.add(Figure { what: what(subject), measured, budget: "10000/s", holds: rate >= 10_000.0 });
            self.add(time(&what(&format!("{subject}, 99 of 100 within")), took[took.len() * 99 / 100], "20 ms", 20));
        }
        let resident = resident_memory(serving.process.id()).context("the memory cannot be read")?;
        self.add(memory(&what("memory after that"), resident, "300 MiB", 300));
        Ok(())
    }
}

/// Writes a release for every version of every channel and architecture, each updatable from all lower ones of its minor version and the one before.
fn releases(graph_data: &Path, file: &Path) -> anyhow::Result<usize> {
    let mut versions = BTreeSet::new();
    for entry in std::fs::read_dir(graph_data.join("channels"))? {
        let text = std::fs::read_to_string(entry?.path())?;
        let channel = mainstay_yaml::parse(&text)?;
        versions.extend(
            channel["versions"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(|version| version.split('+').next().unwrap_or_default().to_owned()),
        );
    }
    let key = |version: &String| -> Option<(u64, u64, String)> {
        let (major_minor, patch) = version.split_once('.')?.1.split_once('.')?;
        let (number, rest) = patch.split_once('-').unwrap_or((patch, "~"));
        Some((major_minor.parse().ok()?, number.parse().ok()?, rest.to_owned()))
    };
    let mut sorted: Vec<String> = versions.into_iter().collect();
    sorted.sort_by_key(key);
    let mut list = Vec::new();
    for architecture in ARCHITECTURES {
        for (index, version) in sorted.iter().enumerate() {
            let minor = key(version).map(|key| key.0).unwrap_or_default();
            let is_near = |other: &&String| key(other).is_some_and(|key| key.0 + 1 >= minor);
            let previous: Vec<&String> = sorted[..index].iter().filter(is_near).collect();
            let digest = format!("{:064x}", index * ARCHITECTURES.len() + architecture.len());
            list.push(json!({
                "image": format!("registry.example/release@sha256:{digest}{architecture}"), "arch": architecture,
                "metadata": {"kind": "cincinnati-metadata-v0", "version": version, "previous": previous,
                    "metadata": {"url": format!("https://errata.example/{version}")}},
            }));
        }
    }
    std::fs::write(file, Value::from(list.clone()).to_string())?;
    Ok(list.len())
}

struct Serving {
    process: Child,
    address: SocketAddr,
}

impl Drop for Serving {
    fn drop(&mut self) {
        terminate(&mut self.process);
    }
}

impl Serving {
    /// Starts the service and waits for its first graph.
    fn start(binary: &Path, graph_data: &Path, folder: &Path, cache: &Path) -> anyhow::Result<Self> {
        let mut process = Command::new(binary)
            .args(["run", "update-service", "--address", "127.0.0.1:0", "--status-address", "0", "--builder-address", "0"])
            .args(["--public-address", "0", "--builder-status-address", "0", "--graph-data"])
            .arg(graph_data)
            .arg("--releases")
            .arg(format!("list:{}", folder.join("releases.json").display()))
            .arg("--cache-path")
            .arg(cache)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().context("no output")?).read_line(&mut line)?;
        let address = line.trim().rsplit_once("address=").context("the program did not say its address")?.1.parse()?;
        let serving = Self { process, address };
        let begin = Instant::now();
        loop {
            let mut stream = std::net::TcpStream::connect(address)?;
            stream.write_all(format!("{}connection: close\r\n\r\n", head(CHANNELS[0])).as_bytes())?;
            let mut status = String::new();
            BufReader::new(stream).read_line(&mut status)?;
            if status.contains(" 200 ") {
                // What is kept for the next start is written just after the first answer.
                while !cache.join("releases.json").exists() {
                    std::thread::sleep(Duration::from_millis(10));
                    ensure!(begin.elapsed() < Duration::from_secs(60), "nothing was kept");
                }
                return Ok(serving);
            }
            ensure!(begin.elapsed() < Duration::from_secs(60), "no graph: {status}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn head(channel: &str) -> String {
    format!(
        "GET /api/upgrades_info/v1/graph?channel={channel}&arch=amd64 HTTP/1.1\r\nhost: localhost\r\naccept: application/json\r\naccept-encoding: gzip\r\n"
    )
}

async fn load(address: SocketAddr, known: bool) -> anyhow::Result<Vec<Duration>> {
    let clients: Vec<_> = (0..CONNECTIONS).map(|at| tokio::spawn(ask(address, CHANNELS[at % CHANNELS.len()], known))).collect();
    let mut took = Vec::new();
    for client in clients {
        took.extend(client.await??);
    }
    Ok(took)
}

/// Asks one question after the other over one connection.
async fn ask(address: SocketAddr, channel: &str, known: bool) -> anyhow::Result<Vec<Duration>> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (mut tag, mut took, mut buffer) = (None, Vec::new(), vec![0; 256 << 10]);
    let begin = Instant::now();
    while begin.elapsed() < LOAD {
        let condition = tag.as_ref().map(|tag| format!("if-none-match: {tag}\r\n")).unwrap_or_default();
        let asked = Instant::now();
        stream.write_all(format!("{}{condition}\r\n", head(channel)).as_bytes()).await?;
        let (mut filled, mut left) = (0, None);
        while left != Some(0) {
            let read = stream.read(&mut buffer[filled..]).await?;
            ensure!(read > 0, "the connection ended");
            if let Some(left) = &mut left {
                *left = usize::saturating_sub(*left, read);
                continue;
            }
            filled += read;
            let Some(end) = buffer[..filled].windows(4).position(|window| window == b"\r\n\r\n") else { continue };
            let text = String::from_utf8_lossy(&buffer[..end]).to_ascii_lowercase();
            let header = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).map(str::to_owned);
            if !text.starts_with("http/1.1 200") && !text.starts_with("http/1.1 304") {
                bail!("{text}");
            }
            if known {
                tag = header("etag:");
            }
            let length = header("content-length:").and_then(|length| length.parse().ok()).unwrap_or(0_usize);
            left = Some(length.saturating_sub(filled - end - 4));
            filled = 0;
        }
        took.push(asked.elapsed());
    }
    Ok(took)
}
