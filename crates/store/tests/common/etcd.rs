//! A real etcd on free ports, for tests of everything that can be stored there.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tokio::net::TcpSocket;

/// A running etcd of one member; killed when dropped.
pub struct EtcdProcess {
    program: PathBuf,
    folder: PathBuf,
    client: Port,
    peer: Port,
    arguments: Vec<String>,
    child: Option<Child>,
}

/// The program of `make setup`, else of the path; says so visibly where there is none.
pub fn program() -> Option<PathBuf> {
    let cached = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join(".cache/bin/etcd")).find(|path| path.exists());
    let found = cached.or_else(|| {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|folder| folder.join("etcd")).find(|candidate| candidate.is_file())
    });
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "etcd is missing; run scripts/setup");
        eprintln!("skipped: etcd is not installed; scripts/setup gets it");
    }
    found
}

impl EtcdProcess {
    /// Starts it with its data in a folder and further arguments; `None` where the program is missing.
    pub fn start(folder: &Path, arguments: &[String]) -> Option<Self> {
        let program = program()?;
        let (client, peer) = (Port::reserve(), Port::reserve());
        let mut process = Self { program, folder: folder.to_owned(), client, peer, arguments: arguments.to_vec(), child: None };
        process.run();
        Some(process)
    }

    /// `HOST:PORT` for clients.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.client.number)
    }

    /// Ends it at once, as a power failure would.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("etcd can be killed");
            child.wait().expect("etcd ends");
        }
    }

    /// Starts it again on the same data and ports.
    pub fn run(&mut self) {
        let encrypted = self.arguments.iter().any(|argument| argument.starts_with("--cert-file"));
        let client = format!("{}://127.0.0.1:{}", if encrypted { "https" } else { "http" }, self.client.number);
        let peer = format!("http://127.0.0.1:{}", self.peer.number);
        let log = std::fs::File::options().create(true).append(true).open(self.folder.join("etcd.log")).unwrap();
        let child = Command::new(&self.program)
            .args(["--name", "one", "--data-dir"])
            .arg(self.folder.join("etcd"))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("one={peer}")])
            .args(&self.arguments)
            // Debian builds it for this architecture, etcd only asks whether one is sure.
            .envs(cfg!(target_arch = "aarch64").then_some(("ETCD_UNSUPPORTED_ARCH", "arm64")))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("etcd starts");
        self.child = Some(child);
    }
}

impl Drop for EtcdProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A port that nobody else is given, also while etcd does not run: bound here without a listener, beside which etcd may listen, since both allow
/// the address to be used again.
struct Port {
    number: u16,
    _held: TcpSocket,
}

impl Port {
    fn reserve() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        Self { number: socket.local_addr().unwrap().port(), _held: socket }
    }
}
