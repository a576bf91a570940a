//! A real Prometheus, for the tests of queries.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Limit for the server to start.
const START: Duration = Duration::from_secs(60);

/// A server that is stopped when this is dropped.
#[derive(Debug)]
pub struct Prometheus {
    child: Child,
    address: String,
}

impl Prometheus {
    /// Starts the program of `make setup`, else of the path, with a configuration. Says so visibly if there is none.
    pub fn start(folder: &Path, configuration: &str) -> Option<Self> {
        let program = program()?;
        std::fs::write(folder.join("prometheus.yml"), configuration).expect("the configuration");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("127.0.0.1:{}", listener.local_addr().expect("its number").port());
        drop(listener);
        let child = Command::new(program)
            .arg(format!("--config.file={}", folder.join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(folder.join("log")).expect("its log"))
            .spawn()
            .expect("prometheus");
        Some(Self { child, address })
    }

    /// Its address for clients.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The body of its answer to a GET, as soon as it has started.
    pub fn get(&self, path: &str) -> String {
        let begun = Instant::now();
        loop {
            match self.ask(path) {
                Ok(answer) if !answer.starts_with("HTTP/1.0 503") => {
                    return answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default();
                }
                other => assert!(begun.elapsed() < START, "prometheus does not answer: {other:?}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn ask(&self, path: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(START))?;
        // 1.0: the body ends with the connection.
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.address)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        self.child.kill().expect("prometheus ends");
        self.child.wait().expect("prometheus has ended");
    }
}

fn program() -> Option<PathBuf> {
    let cached =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join(".cache/bin/prometheus")).find(|path| path.exists());
    let found = cached.or_else(|| {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|folder| folder.join("prometheus")).find(|candidate| candidate.is_file())
    });
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "prometheus is missing; run scripts/setup");
        eprintln!("skipped: prometheus is not installed; scripts/setup gets it");
    }
    found
}
