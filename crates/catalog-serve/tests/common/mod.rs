//! A small catalog with everything that a registry answers about, and servers of it.

use mainstay_catalog::{Limits, MemorySource};
use mainstay_catalog_serve::grpc::{Listener, Options, serve_registry};
use mainstay_catalog_store::{CatalogStore, StoredCatalog};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};

pub fn bundle(package: &str, name: &str, version: &str, properties: &[Value]) -> Value {
    let mut all = vec![json!({"type": "olm.package", "value": {"packageName": package, "version": version}})];
    all.extend_from_slice(properties);
    json!({"schema": "olm.bundle", "package": package, "name": name, "image": format!("quay.io/test/{name}"), "properties": all})
}

pub fn gvk(group: &str, kind: &str) -> Value {
    json!({"type": "olm.gvk", "value": {"group": group, "version": "v1", "kind": kind}})
}

/// Two packages: `web` with two channels, deprecations, dependencies and metadata, and `store` that embeds its manifests.
pub fn catalog() -> Vec<Value> {
    let metadata = json!({"type": "olm.csv.metadata", "value": {
        "displayName": "Web & more", "annotations": {"b": "2", "a": "<1>"}, "keywords": [], "provider": {"name": "Somebody"},
        "crdDescriptions": {"owned": [{"name": "sites.web.io", "version": "v1", "kind": "Site"}]},
        "installModes": [{"type": "AllNamespaces", "supported": true}],
    }});
    // {"kind":"ConfigMap"} and kind: ClusterServiceVersion
    let objects = ["eyJraW5kIjoiQ29uZmlnTWFwIn0=", "a2luZDogQ2x1c3RlclNlcnZpY2VWZXJzaW9uCg=="];
    let objects = objects.map(|data| json!({"type": "olm.bundle.object", "value": {"data": data}}));
    let required = [
        json!({"type": "olm.gvk.required", "value": {"group": "store.io", "version": "v1", "kind": "Disk"}}),
        json!({"type": "olm.package.required", "value": {"packageName": "store", "versionRange": ">=1.0.0 <2.0.0"}}),
    ];
    let mut embedded = bundle("store", "store.v1", "1.0.0", &[gvk("store.io", "Disk"), objects[0].clone(), objects[1].clone()]);
    embedded["image"] = json!("");
    vec![
        json!({"schema": "olm.package", "name": "web", "defaultChannel": "stable", "description": "Serves pages",
               "icon": {"base64data": "aGVs\nbG8=", "mediatype": "image/png"}}),
        json!({"schema": "olm.channel", "package": "web", "name": "stable", "entries": [
            {"name": "web.v1"}, {"name": "web.v2", "replaces": "web.v1", "skips": ["web.v1", "web.v0"], "skipRange": "<2.0.0"}]}),
        json!({"schema": "olm.channel", "package": "web", "name": "fast", "entries": [{"name": "web.v2", "replaces": "gone"}]}),
        bundle("web", "web.v1", "1.0.0", &[gvk("web.io", "Site")]),
        bundle("web", "web.v2", "2.0.0", &[gvk("web.io", "Site"), required[0].clone(), required[1].clone(), metadata]),
        json!({"schema": "olm.deprecations", "package": "web", "entries": [
            {"reference": {"schema": "olm.package"}, "message": "no more web"},
            {"reference": {"schema": "olm.channel", "name": "fast"}, "message": "too fast"},
            {"reference": {"schema": "olm.bundle", "name": "web.v1"}, "message": "too old"}]}),
        json!({"schema": "olm.package", "name": "store", "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": "store", "name": "stable", "entries": [{"name": "store.v1"}]}),
        embedded,
        json!({"schema": "example.com/notes", "package": "web", "name": "n", "stars": 5, "of": [true, null, "x"]}),
    ]
}

pub fn source(blobs: &[Value]) -> MemorySource {
    MemorySource::of("catalog.json", blobs.iter().map(|blob| blob.to_string() + "\n").collect::<String>())
}

/// A stored catalog, and the folder that it lies in.
pub fn stored(blobs: &[Value]) -> (StoredCatalog, tempfile::TempDir) {
    let root = tempfile::tempdir().unwrap();
    let digest = format!("sha256:{}", "a".repeat(64)).parse().unwrap();
    let stored = CatalogStore::unchecked(root.path()).put(&digest, &source(blobs), &Limits::default()).unwrap();
    (stored, root)
}

/// A registry on a free port, until it is dropped.
pub struct Serving {
    pub channel: Channel,
    pub stop: CancellationToken,
    pub ended: tokio::task::JoinHandle<Result<(), mainstay_catalog_serve::ServeError>>,
    _root: tempfile::TempDir,
}

pub async fn serve(blobs: &[Value]) -> Serving {
    let (catalog, root) = stored(blobs);
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.address();
    let stop = CancellationToken::new();
    let ended = tokio::spawn(serve_registry(catalog, listener, Options::default(), stop.clone()));
    let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    Serving { channel, stop, ended, _root: root }
}
