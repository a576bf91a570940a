//! Registries in this process and small images for them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

pub mod faults;

use mainstay_oci::registry::{Access, Options, Registry};
use mainstay_oci::{BlobStore, Client, ClientConfig, Image, ImageBuilder, Reference};

/// A registry that listens on a port of the loopback interface until the runtime ends.
pub struct Running {
    pub registry: Registry,
    pub host: String,
}

impl Running {
    pub async fn start(access: Access) -> Self {
        let registry = Registry::new(Options { access, ..Options::default() }).unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        tokio::spawn(registry.clone().serve(listener, std::future::pending()));
        Self { registry, host }
    }

    pub fn reference(&self, rest: &str) -> Reference {
        Reference::parse(&format!("{}/{rest}", self.host)).unwrap()
    }
}

pub fn client(config: ClientConfig) -> Client {
    Client::new(config).unwrap()
}

pub fn store() -> (tempfile::TempDir, BlobStore) {
    let directory = tempfile::tempdir().unwrap();
    let store = BlobStore::open(directory.path()).unwrap();
    (directory, store)
}

pub fn image(store: &BlobStore) -> Image {
    ImageBuilder::new()
        .file("manifests/csv.yaml", b"kind: ClusterServiceVersion\n".to_vec())
        .file("metadata/annotations.yaml", b"annotations: {}\n".to_vec())
        .label("operators.operatorframework.io.bundle.package.v1", "widget")
        .build(store)
        .unwrap()
}
