//! A registry that means harm, and images that are small and mean a lot of work.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use futures::StreamExt as _;
use mainstay_oci::Digest;
use serde_json::{Value, json};
use tar::EntryType;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// A registry whose repositories behave as their first part says: `drips`, `redirects`, `realm`, `busy`, `endless`; any other is honest
/// about images that are none.
pub struct Registry {
    /// Its address.
    pub host: String,
    blobs: Arc<Mutex<HashMap<String, Vec<u8>>>>,
}

impl Registry {
    /// Starts one; `silent` is an address to which it sends for tokens.
    pub async fn start(silent: &str) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let blobs: Arc<Mutex<HashMap<String, Vec<u8>>>> = Arc::default();
        let (kept, silent) = (blobs.clone(), silent.to_owned());
        let router = Router::new().fallback(move |request: Request| {
            let answer = answer(&kept, &silent, request.uri().path());
            async move { answer }
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { host, blobs }
    }

    fn keep(&self, bytes: Vec<u8>) -> Value {
        let digest = Digest::of(&bytes).as_str().to_owned();
        let size = bytes.len();
        self.blobs.lock().unwrap().insert(digest.clone(), bytes);
        json!({"mediaType": LAYER, "digest": digest, "size": size})
    }

    /// Keeps an image of one layer, and returns its reference by digest.
    pub fn image(&self, repository: &str, labels: &Value, layer: Vec<u8>) -> String {
        let diff = Digest::of(&layer).as_str().to_owned();
        let layer = self.keep(layer);
        let config =
            json!({"architecture": "amd64", "os": "linux", "config": {"Labels": labels}, "rootfs": {"type": "layers", "diff_ids": [diff]}});
        let mut config = self.keep(config.to_string().into_bytes());
        config["mediaType"] = json!("application/vnd.oci.image.config.v1+json");
        let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]});
        let kept = self.keep(manifest.to_string().into_bytes());
        format!("{}/{repository}@{}", self.host, kept["digest"].as_str().unwrap())
    }

    /// A catalog with this layer.
    pub fn catalog(&self, repository: &str, layer: Archive) -> String {
        self.image(repository, &json!({"operators.operatorframework.io.index.configs.v1": "/configs"}), layer.done())
    }

    /// A bundle with this layer.
    pub fn bundle(&self, repository: &str, layer: Archive) -> String {
        self.image(repository, &json!({}), layer.done())
    }
}

fn answer(blobs: &Mutex<HashMap<String, Vec<u8>>>, silent: &str, path: &str) -> Response {
    let parts: Vec<&str> = path.trim_start_matches("/v2/").split('/').collect();
    let respond = |code: u16, headers: &[(&str, &str)], body: Body| {
        let builder = headers.iter().fold(Response::builder().status(code), |builder, (name, value)| builder.header(*name, *value));
        builder.body(body).unwrap()
    };
    match parts[..] {
        ["drips", ..] => respond(200, &[("content-type", MANIFEST)], now_and_then(b" ".to_vec())),
        ["redirects", ..] => respond(307, &[("location", path)], Body::empty()),
        ["busy", ..] => respond(429, &[("retry-after", "3600")], Body::empty()),
        ["realm", ..] => {
            let challenge = format!("Bearer realm=\"http://{silent}/token\",service=\"x\"");
            respond(401, &[("www-authenticate", &challenge)], Body::empty())
        }
        ["endless", .., "manifests", _] => {
            let part = |kind: &str, size: usize| json!({"mediaType": kind, "size": size, "digest": format!("sha256:{}", "e".repeat(64))});
            let config = part("application/vnd.oci.image.config.v1+json", 1 << 20);
            let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [part(LAYER, 1 << 29)]});
            respond(200, &[("content-type", MANIFEST)], Body::from(manifest.to_string()))
        }
        ["endless", ..] => respond(200, &[], now_and_then(vec![0; 4096])),
        [.., what] => match blobs.lock().unwrap().get(what) {
            Some(bytes) => respond(200, &[("content-type", MANIFEST)], Body::from(bytes.clone())),
            None => respond(404, &[], Body::empty()),
        },
        [] => respond(404, &[], Body::empty()),
    }
}

/// Some bytes now and then, for ever.
fn now_and_then(bytes: Vec<u8>) -> Body {
    let pieces = futures::stream::unfold(bytes, |bytes| async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        Some((Ok::<_, Infallible>(bytes.clone()), bytes))
    });
    Body::from_stream(pieces.boxed())
}

/// A layer on its way.
pub struct Archive(tar::Builder<Vec<u8>>);

impl Archive {
    pub fn new() -> Self {
        Self(tar::Builder::new(Vec::new()))
    }

    /// The files of a bundle or catalog that is none of this.
    pub fn of(files: &[(String, String)]) -> Self {
        files.iter().fold(Self::new(), |layer, (path, text)| layer.file(path, text.as_bytes()))
    }

    fn entry(mut self, kind: EntryType, path: &str, target: &str, content: &[u8]) -> Self {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(0o755);
        header.set_size(content.len() as u64);
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.as_old_mut().linkname[..target.len()].copy_from_slice(target.as_bytes());
        header.set_cksum();
        self.0.append(&header, content).unwrap();
        self
    }

    pub fn file(self, path: &str, content: &[u8]) -> Self {
        self.entry(EntryType::Regular, path, "", content)
    }

    pub fn link(self, path: &str, target: &str) -> Self {
        self.entry(EntryType::Symlink, path, target, b"")
    }

    /// A file of zeros of which the archive holds nothing but the size.
    pub fn hole(mut self, path: &str, size: u64) -> Self {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(EntryType::GNUSparse);
        header.set_mode(0o644);
        header.set_size(0);
        let gnu = header.as_gnu_mut().unwrap();
        gnu.name[..path.len()].copy_from_slice(path.as_bytes());
        let octal = |field: &mut [u8; 12], value: u64| field.copy_from_slice(format!("{value:011o}\0").as_bytes());
        octal(&mut gnu.realsize, size);
        octal(&mut gnu.sparse[0].offset, size);
        octal(&mut gnu.sparse[0].numbytes, 0);
        header.set_cksum();
        self.0.append(&header, &b""[..]).unwrap();
        self
    }

    fn done(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }
}

/// A YAML document of aliases that stand for 9^8 strings.
pub fn aliases() -> String {
    let mut text = format!("a: &a [{}]\n", ["xxxxxxxxxx"; 9].join(", "));
    for pair in ["ab", "bc", "cd", "de", "ef", "fg", "gh"] {
        let (last, this) = pair.split_at(1);
        writeln!(text, "{this}: &{this} [{}]", vec![format!("*{last}"); 9].join(", ")).unwrap();
    }
    text
}
