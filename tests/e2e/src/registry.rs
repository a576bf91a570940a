//! Registries for a test: ours, in this process, and Debian's.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mainstay_oci::registry::{Access, Options};
use tempfile::TempDir;
use tokio::net::TcpSocket;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::process::{eventually, terminate};
use crate::{binary, skip};

/// A registry on a free port of the loopback.
pub struct Registry {
    address: String,
    engine: Engine,
}

enum Engine {
    Ours { registry: mainstay_oci::registry::Registry, end: CancellationToken, _runtime: Runtime },
    Debian { child: Child, _folder: TempDir, _port: TcpSocket },
}

impl Registry {
    /// Ours, open to everybody.
    #[track_caller]
    pub fn ours() -> Self {
        Self::ours_with(Access::Open)
    }

    /// Ours, with a door.
    #[track_caller]
    pub fn ours_with(access: Access) -> Self {
        let begin = || -> Result<Self, Box<dyn std::error::Error>> {
            let registry = mainstay_oci::registry::Registry::new(Options { access, ..Options::default() })?;
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
            let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))?;
            let address = listener.local_addr()?.to_string();
            let end = CancellationToken::new();
            runtime.spawn(registry.clone().serve(listener, end.clone().cancelled_owned()));
            Ok(Self { address, engine: Engine::Ours { registry, end, _runtime: runtime } })
        };
        match begin() {
            Ok(registry) => registry,
            Err(error) => panic!("no registry: {error}"),
        }
    }

    /// Ours, with its content in a folder: another one can take its place later, on the same port (0 for a free one) and with another door.
    #[track_caller]
    pub fn kept(folder: &std::path::Path, port: u16, access: Access) -> Self {
        let begin = || -> Result<Self, Box<dyn std::error::Error>> {
            let options = Options { access, directory: Some(folder.to_owned()), ..Options::default() };
            let registry = mainstay_oci::registry::Registry::new(options)?;
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
            let listener = runtime.block_on(tokio::net::TcpListener::bind(("127.0.0.1", port)))?;
            let address = listener.local_addr()?.to_string();
            let end = CancellationToken::new();
            runtime.spawn(registry.clone().serve(listener, end.clone().cancelled_owned()));
            Ok(Self { address, engine: Engine::Ours { registry, end, _runtime: runtime } })
        };
        match begin() {
            Ok(registry) => registry,
            Err(error) => panic!("no registry on port {port}: {error}"),
        }
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or_default()
    }

    /// Debian's `docker-registry`; none, with a visible skip, where it is not installed.
    #[track_caller]
    pub fn debian() -> Option<Self> {
        let Some(program) = binary::program("docker-registry") else {
            skip("docker-registry is not to be had here (make setup)");
            return None;
        };
        let begin = || -> std::io::Result<Self> {
            let folder = tempfile::Builder::new().prefix("mainstay-registry-").tempdir()?;
            // Bound without a listener, so that nobody else is given the port; the registry may listen beside it.
            let port = TcpSocket::new_v4()?;
            port.set_reuseaddr(true)?;
            port.bind(([127, 0, 0, 1], 0).into())?;
            let address = port.local_addr()?.to_string();
            let storage = folder.path().join("storage");
            let configuration = format!(
                "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {}}}, delete: {{enabled: true}}}}\nhttp: {{addr: '{address}'}}\n",
                storage.display()
            );
            let file = folder.path().join("config.yml");
            std::fs::write(&file, configuration)?;
            let child =
                Command::new(program).arg("serve").arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
            Ok(Self { address, engine: Engine::Debian { child, _folder: folder, _port: port } })
        };
        let registry = match begin() {
            Ok(registry) => registry,
            Err(error) => panic!("docker-registry: {error}"),
        };
        eventually("docker-registry listens", Duration::from_secs(60), || {
            std::net::TcpStream::connect(&registry.address).map(drop).map_err(|error| error.to_string())
        });
        Some(registry)
    }

    /// Host and port, as image references begin.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The server itself, where it is ours.
    pub fn inner(&self) -> Option<&mainstay_oci::registry::Registry> {
        match &self.engine {
            Engine::Ours { registry, .. } => Some(registry),
            Engine::Debian { .. } => None,
        }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        match &mut self.engine {
            Engine::Ours { end, .. } => end.cancel(),
            Engine::Debian { child, .. } => {
                terminate(child);
            }
        }
    }
}
