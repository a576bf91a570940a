//! The signatures of one release in one store, one after the other (CVO-SIG-05).

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::Stream;
use futures::stream::{self, BoxStream, StreamExt as _};
use http::HeaderMap;
use mainstay_golang::url::Url;
use mainstay_oci::{Outbound, OutboundError};
use mainstay_release::signature::{Exhausted, MAX_SIGNATURE, MAX_SIGNATURES, ReleaseDigest, StoreAddress};

/// A signature that could not be had.
#[derive(Debug, thiserror::Error)]
pub(super) enum Missed {
    /// There are no more.
    #[error(transparent)]
    Exhausted(Box<Exhausted>),
    /// No answer came.
    #[error(transparent)]
    NoAnswer(OutboundError),
    /// The answer's body is of no use.
    #[error("unable to retrieve signature from {url}: {error}")]
    Body {
        /// The signature's URL.
        url: String,
        /// The reason.
        error: OutboundError,
    },
    /// The answer is none.
    #[error("unable to retrieve signature from {url}: response status {status}")]
    Status {
        /// The signature's URL.
        url: String,
        /// The status.
        status: u16,
    },
    /// A file cannot be read.
    #[error("unable to load signature {path}: {error}", path = .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        error: std::io::Error,
    },
    /// A file is no signature.
    #[error("unable to load signature {path}: it is no file of at most {MAX_SIGNATURE} bytes", path = .0.display())]
    Large(PathBuf),
    /// The reader of files ended.
    #[error("the reader of signatures ended: {0}")]
    Ended(String),
}

pub(super) type Found = Result<Vec<u8>, Missed>;

/// The signatures of a store.
pub(super) fn signatures(client: Arc<Outbound>, store: StoreAddress, digest: ReleaseDigest) -> BoxStream<'static, Found> {
    match store {
        StoreAddress::Web(base) => web(client, base, digest).boxed(),
        StoreAddress::Folder(base) => folder(base, digest).boxed(),
    }
}

fn web(client: Arc<Outbound>, base: Url, digest: ReleaseDigest) -> impl Stream<Item = Found> + Send {
    stream::unfold(1, move |number| {
        let (client, url) = (client.clone(), StoreAddress::signature_url(&base, &digest, number).to_string());
        async move {
            if number > MAX_SIGNATURES {
                return None;
            }
            match get(&client, url).await {
                Ok(signature) => Some((Ok(signature), number + 1)),
                Err(missed @ Missed::Exhausted(_)) => Some((Err(missed), MAX_SIGNATURES + 1)),
                Err(missed) => Some((Err(missed), number + 1)),
            }
        }
    })
    .filter(|found| std::future::ready(!matches!(found, Ok(signature) if signature.is_empty())))
}

async fn get(client: &Outbound, url: String) -> Found {
    let answer = client.get(&url, HeaderMap::new()).await.map_err(Missed::NoAnswer)?;
    match answer.status() {
        404 => Err(Missed::Exhausted(Box::new(Exhausted::Url(url)))),
        200..=299 => answer.body(MAX_SIGNATURE).await.map_err(|error| Missed::Body { url, error }),
        status => Err(Missed::Status { url, status }),
    }
}

fn folder(base: PathBuf, digest: ReleaseDigest) -> impl Stream<Item = Found> + Send {
    stream::unfold(1, move |number| {
        let path = StoreAddress::signature_file(&base, &digest, number);
        async move {
            if number > MAX_SIGNATURES {
                return None;
            }
            let found =
                tokio::task::spawn_blocking(move || read(&path)).await.unwrap_or_else(|ended| Err(Missed::Ended(ended.to_string())));
            match found {
                Err(Missed::File { error, .. }) if error.kind() == ErrorKind::NotFound => None,
                found => Some((found, number + 1)),
            }
        }
    })
}

fn read(path: &Path) -> Found {
    let io = |error| Missed::File { path: path.to_owned(), error };
    let facts = std::fs::metadata(path).map_err(io)?;
    if !facts.is_file() || facts.len() > MAX_SIGNATURE as u64 {
        return Err(Missed::Large(path.to_owned()));
    }
    let mut content = Vec::new();
    File::open(path).and_then(|file| file.take(MAX_SIGNATURE as u64).read_to_end(&mut content)).map_err(io)?;
    Ok(content)
}
