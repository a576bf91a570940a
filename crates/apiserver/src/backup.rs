//! `GET /mainstay/backup`: everything that is stored, as of one revision, while the server goes on (KAPI-STORE-02).
//!
//! The answer is a backup as [`mainstay_store::backup`] reads it: it shows by itself whether it arrived whole. With the keys go the
//! certificates and keys of the data directory, so that a server over the restored directory is trusted by the same clients;
//! `?objectsOnly=true` leaves those out. Who may ask is decided as for every path without a resource; since the keys of the
//! CA are among the contents, only `cluster-admin` may by default.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::StatusCode;
use jiff::Timestamp;
use mainstay_store::{Store, backup};
use serde_json::json;
use tokio::sync::mpsc;

use crate::error::{ApiError, Result};
use crate::request::ApiRequest;
use crate::respond::{Answer, AnswerBody};

/// The path.
pub const PATH: &str = "/mainstay/backup";

/// The folders of keys and certificates.
#[derive(Default)]
pub(crate) struct Source(pub Vec<PathBuf>);

/// Pieces that may wait for a slow client.
const QUEUE: usize = 4;

/// Answers with a backup.
pub(crate) async fn answer(request: &ApiRequest, store: Arc<dyn Store>, source: &Source) -> Result<Answer> {
    let mut files = vec![("about.json".to_owned(), about().into_bytes())];
    if !request.query.flag("objectsOnly") {
        let folders = source.0.clone();
        let read = tokio::task::spawn_blocking(move || pki_files(&folders)).await;
        let failed = |error: &dyn std::fmt::Display| ApiError::internal(format!("reading the certificates and keys: {error}"));
        files.extend(read.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?);
    }
    let (sender, receiver) = mpsc::channel::<io::Result<Bytes>>(QUEUE);
    tokio::spawn(async move {
        let take = |piece: Bytes| {
            let sender = sender.clone();
            // A client that has gone away closes the channel.
            async move { sender.send(Ok(piece)).await.map_err(|_| mainstay_store::Error::Closed) }
        };
        if let Err(error) = backup::write(&*store, &files, take).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "a backup broke off");
            // The client sees that the answer broke off.
            let _ = sender.send(Err(io::Error::other(error))).await;
        }
    });
    let pieces = futures::stream::unfold(receiver, |mut receiver| async move { receiver.recv().await.map(|piece| (piece, receiver)) });
    let body = AnswerBody::Stream(Body::from_stream(pieces));
    Ok(Answer { status: StatusCode::OK, headers: Vec::new(), content_type: "application/octet-stream", body })
}

/// The description that a backup holds of itself.
pub fn about() -> String {
    json!({"created": Timestamp::now().to_string(), "version": env!("CARGO_PKG_VERSION")}).to_string()
}

/// The certificates and keys of these folders, by their names in a backup.
pub fn pki_files(folders: &[PathBuf]) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut files = BTreeMap::new();
    for folder in folders {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_file()
                && let Some(name) = entry.file_name().to_str()
            {
                files.insert(format!("pki/{name}"), std::fs::read(entry.path())?);
            }
        }
    }
    Ok(files.into_iter().collect())
}
