//! Serving a large catalog: `opm serve` as a process, and the content interface of catalogd in a process of our own.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::TokioIo;
use mainstay_catalog::Limits;
use mainstay_catalog_serve::content::{Catalogs, Queries, router};
use mainstay_catalog_serve::grpc::api;
use mainstay_catalog_serve::grpc::api::registry_client::RegistryClient;
use mainstay_catalog_store::{CatalogStore, DirectorySource, StoredCatalog};
use mainstay_e2e::{resident_memory, terminate};
use mainstay_serve::Server;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};

use super::{Bench, Figure, ROUNDS, median, memory, time};

/// Questions that a server answers before its memory is read.
const ASKED: usize = 10_000;
/// Connections that ask at once, and how long.
const CONNECTIONS: usize = 8;
const LOAD: Duration = Duration::from_secs(5);

impl Bench {
    /// CATLG-45, OLM1-CAT-17: how soon a catalog of `bundles` in `directory` is served, how fast it answers, and what it holds.
    pub(super) fn serve_catalog(&mut self, directory: &Path, bundles: usize) -> anyhow::Result<()> {
        let what = |subject: &str| format!("{subject}, catalog of {bundles} bundles, 70 MB");
        let cache = tempfile::tempdir()?;
        let cold = median(ROUNDS, || {
            let begun = Instant::now();
            let serving = Serving::start(&self.binary, directory, None)?;
            let took = begun.elapsed();
            drop(serving);
            Ok(took)
        })?;
        self.add(time(&what("`opm serve` answers, no cache"), cold, "2 s", 2_000));
        Serving::fill(&self.binary, directory, cache.path())?;
        let (mut firsts, mut resident) = (Vec::new(), 0);
        let warm = median(ROUNDS, || {
            let begun = Instant::now();
            let serving = Serving::start(&self.binary, directory, Some(cache.path()))?;
            let took = begun.elapsed();
            let (first, held) = self.runtime.block_on(serving.ask())?;
            firsts.push(first);
            resident = resident.max(held);
            Ok(took)
        })?;
        firsts.sort();
        self.add(time(&what("`opm serve` answers, from its cache"), warm, "200 ms", 200));
        self.add(time(&what("first gRPC answer, connection included"), firsts[ROUNDS / 2], "10 ms", 10));
        self.add(memory(&what(&format!("memory after ListBundles and {ASKED} times GetBundle")), resident, "60 MiB", 60));
        self.query(directory, &what("`metas` of one package"))
    }

    /// The metas of one package after the other, by several connections, server and clients on the same cores.
    fn query(&mut self, directory: &Path, what: &str) -> anyhow::Result<()> {
        let root = tempfile::tempdir()?;
        let digest = format!("sha256:{}", "0".repeat(64)).parse()?;
        let stored = CatalogStore::open(root.path())?.put(&digest, &DirectorySource::of_user(directory)?, &Limits::default())?;
        let paths: Vec<String> =
            stored.index().packages().map(|package| format!("/catalogs/c/api/v1/metas?package={}", package.name())).collect();
        let paths = Arc::new(paths);
        let server = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let mut took = server.block_on(async {
            let listener = Server::bind("127.0.0.1:0".parse()?).await?;
            let address = listener.address();
            let stop = CancellationToken::new();
            let ended = tokio::spawn(listener.run(router(Arc::new(One(stored)), Queries::Answered), stop.clone()));
            let clients = (0..CONNECTIONS).map(|at| tokio::spawn(ask_metas(address, paths.clone(), at)));
            let mut took = Vec::new();
            for client in clients.collect::<Vec<_>>() {
                took.extend(client.await??);
            }
            stop.cancel();
            ended.await?;
            anyhow::Ok(took)
        })?;
        took.sort();
        let per_second = took.len() as f64 / LOAD.as_secs_f64();
        self.add(time(&format!("{what}: median"), took[took.len() / 2], "5 ms", 5));
        self.add(time(&format!("{what}: slowest of a hundred"), took[took.len() * 99 / 100], "5 ms", 5));
        self.add(Figure {
            what: format!("{what}: answers a second, {CONNECTIONS} connections, clients on the same cores"),
            measured: format!("{per_second:.0}"),
            budget: "5000",
            holds: per_second >= 5_000.0,
        });
        Ok(())
    }
}

struct One(StoredCatalog);

impl Catalogs for One {
    fn catalog(&self, _name: &str) -> Option<StoredCatalog> {
        Some(self.0.clone())
    }
}

async fn ask_metas(address: std::net::SocketAddr, paths: Arc<Vec<String>>, first: usize) -> anyhow::Result<Vec<Duration>> {
    let stream = tokio::net::TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let (begun, mut took, mut at) = (Instant::now(), Vec::new(), first);
    while begun.elapsed() < LOAD {
        // Another package every time, and other ones than the neighbours.
        at += 37;
        let request = http::Request::get(&paths[at % paths.len()]).header("host", "bench").body(Empty::<Bytes>::new())?;
        let asked = Instant::now();
        let response = sender.send_request(request).await?;
        ensure!(response.status().is_success(), "metas answers {}", response.status());
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            frame?;
        }
        took.push(asked.elapsed());
    }
    Ok(took)
}

/// `opm serve` that has said it serves.
struct Serving {
    child: Child,
    address: String,
}

impl Serving {
    fn command(program: &Path, directory: &Path, cache: Option<&Path>) -> Command {
        let mut command = Command::new(program);
        command.args(["opm", "serve", "--port", "0", "--termination-log", "/dev/null"]).arg(directory);
        if let Some(cache) = cache {
            command.arg("--cache-dir").arg(cache);
        }
        command
    }

    fn fill(program: &Path, directory: &Path, cache: &Path) -> anyhow::Result<()> {
        let status = Self::command(program, directory, Some(cache)).arg("--cache-only").stderr(Stdio::null()).status()?;
        ensure!(status.success(), "the cache cannot be filled");
        Ok(())
    }

    fn start(program: &Path, directory: &Path, cache: Option<&Path>) -> anyhow::Result<Self> {
        let mut child = Self::command(program, directory, cache).stderr(Stdio::piped()).spawn()?;
        let stderr = BufReader::new(child.stderr.take().context("no output")?);
        for line in stderr.lines() {
            let line = line?;
            if let Some(port) = line.contains("serving registry").then(|| line.split(" port=").nth(1)).flatten() {
                return Ok(Self { child, address: format!("http://127.0.0.1:{port}") });
            }
        }
        terminate(&mut child);
        bail!("{} opm serve ended before it served", program.display())
    }

    async fn connect(&self) -> anyhow::Result<RegistryClient<Channel>> {
        let channel = Endpoint::from_shared(self.address.clone())?.connect().await?;
        Ok(RegistryClient::new(channel).max_decoding_message_size(usize::MAX))
    }

    /// Time to the first answer of a new connection, and KiB resident after many answers.
    async fn ask(&self) -> anyhow::Result<(Duration, u64)> {
        let begun = Instant::now();
        let mut client = self.connect().await?;
        let mut packages = client.list_packages(api::ListPackageRequest {}).await?.into_inner();
        packages.message().await?.context("no packages")?;
        let first = begun.elapsed();
        let mut listed = client.list_bundles(api::ListBundlesRequest {}).await?.into_inner();
        let mut names = Vec::new();
        while let Some(bundle) = listed.message().await? {
            names.push((bundle.package_name, bundle.channel_name, bundle.csv_name));
        }
        for (pkg_name, channel_name, csv_name) in names.iter().cycle().take(ASKED).cloned() {
            client.get_bundle(api::GetBundleRequest { pkg_name, channel_name, csv_name }).await?;
        }
        Ok((first, resident_memory(self.child.id()).context("the server is gone")?))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        terminate(&mut self.child);
    }
}
