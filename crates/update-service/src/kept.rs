//! Records on disk that outlive a start: documents by the digest of their image, and the input of the last graph.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use mainstay_oci::Digest;
use mainstay_update_graph::{Release, ReleaseMetadata};
use serde_json::{Value, json};

use crate::error::Error;

/// The largest file that is read back.
const MAX_BYTES: u64 = 1 << 30;
const LAST: &str = "releases.json";
const GRAPH_DATA: &str = "graph-data.tar.gz";

/// A folder of its own.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    root: Option<PathBuf>,
}

/// The nature of an image: the document and the architecture, or no release.
pub(crate) type Known = Option<(String, ReleaseMetadata)>;

impl Kept {
    /// A folder; nothing is kept without one.
    pub(crate) fn open(root: Option<PathBuf>) -> Result<Self, Error> {
        if let Some(root) = &root {
            let images = root.join("images");
            fs::create_dir_all(&images).map_err(Error::io(images))?;
        }
        Ok(Self { root })
    }

    fn image(&self, digest: &Digest) -> Option<PathBuf> {
        Some(self.root.as_ref()?.join("images").join(format!("{}-{}.json", digest.algorithm(), digest.hex())))
    }

    /// The record of an image; `None` if there is none, or if the file is damaged: then the image is read again.
    pub(crate) fn get(&self, digest: &Digest) -> Option<Known> {
        let value: Value = serde_json::from_slice(&fs::read(self.image(digest)?).ok()?).ok()?;
        match &value["metadata"] {
            Value::Null => value.get("metadata").map(|_| None),
            document => Some(Some((value["arch"].as_str()?.to_owned(), ReleaseMetadata::read(document).ok()?))),
        }
    }

    /// Keeps what is known of an image.
    pub(crate) fn put(&self, digest: &Digest, known: &Known) -> Result<(), Error> {
        let Some(path) = self.image(digest) else { return Ok(()) };
        let value = match known {
            Some((architecture, metadata)) => json!({"arch": architecture, "metadata": metadata.to_json()}),
            None => json!({"metadata": null}),
        };
        write(&path, value.to_string().as_bytes())
    }

    /// The releases of the last graph.
    pub(crate) fn last_releases(&self) -> Option<Vec<Release>> {
        let bytes = read(&self.root.as_ref()?.join(LAST))?;
        let values: Vec<Value> = serde_json::from_slice(&bytes).ok()?;
        let release = |value: &Value| {
            let metadata = ReleaseMetadata::read(&value["metadata"]).ok()?;
            Some(Release { payload: value["payload"].as_str()?.to_owned(), metadata })
        };
        values.iter().map(release).collect()
    }

    /// The graph-data of the last graph, as an archive.
    pub(crate) fn last_graph_data(&self) -> Option<PathBuf> {
        self.root.as_ref().map(|root| root.join(GRAPH_DATA)).filter(|path| path.exists())
    }

    /// Keeps the input of a graph for the next start.
    pub(crate) fn put_last(&self, releases: &[Release], graph_data: &[u8]) -> Result<(), Error> {
        let Some(root) = &self.root else { return Ok(()) };
        let values: Vec<Value> =
            releases.iter().map(|release| json!({"payload": release.payload, "metadata": release.metadata.to_json()})).collect();
        write(&root.join(GRAPH_DATA), graph_data)?;
        write(&root.join(LAST), Value::from(values).to_string().as_bytes())
    }
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let size = fs::metadata(path).ok()?.len();
    (size <= MAX_BYTES).then(|| fs::read(path).ok()).flatten()
}

/// Writes a whole file, or none.
fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(Error::io(folder))?;
    file.write_all(bytes).map_err(Error::io(path))?;
    file.persist(path).map_err(|error| Error::Io { path: path.to_owned(), source: error.error })?;
    Ok(())
}
