//! The store: put, open, check, collect garbage.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use mainstay_catalog::{Index, Limits, Source, SourceError, store};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::StoreError;
use crate::map::Map;

const CONTENT: &str = "all.jsonl";
const INDEX: &str = "index";
const ENTRY: &str = "entry.json";
const NEW: &str = ".new-";

/// Digest of the image that a catalog came from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CatalogDigest {
    algorithm: String,
    hex: String,
}

impl FromStr for CatalogDigest {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        let digest = text.split_once(':').filter(|(algorithm, hex)| {
            let plain = algorithm.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
            let is_hex = hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
            plain && is_hex && (1..=16).contains(&algorithm.len()) && (32..=128).contains(&hex.len())
        });
        let (algorithm, hex) = digest.ok_or_else(|| StoreError::Digest { text: text.to_owned() })?;
        Ok(Self { algorithm: algorithm.to_owned(), hex: hex.to_owned() })
    }
}

impl fmt::Display for CatalogDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm, self.hex)
    }
}

impl CatalogDigest {
    /// A digest of 32 bytes.
    pub(crate) fn sha256(bytes: &[u8]) -> Self {
        Self { algorithm: "sha256".to_owned(), hex: lower_hex(bytes) }
    }

    /// Returns the part after the colon.
    pub fn hex(&self) -> &str {
        &self.hex
    }

    fn folder(&self) -> String {
        format!("{}-{}", self.algorithm, self.hex)
    }

    fn of_folder(name: &str) -> Option<Self> {
        name.replacen('-', ":", 1).parse().ok().filter(|digest: &Self| digest.folder() == name)
    }
}

fn lower_hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The file that is written beside the content.
#[derive(Serialize, Deserialize)]
struct EntryFile {
    /// SHA-256 of the content, hex.
    content_sha256: String,
    /// Bytes of the content.
    content_bytes: u64,
}

/// Catalogs by digest, in one directory that belongs to this process.
#[derive(Debug)]
pub struct CatalogStore {
    root: PathBuf,
    counter: AtomicU64,
}

/// Size of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Number of catalogs.
    pub catalogs: u64,
    /// Bytes of their contents.
    pub content_bytes: u64,
    /// Bytes of their indexes.
    pub index_bytes: u64,
}

/// A catalog of the store, open. Clones share the maps; they stay readable when the entry is removed.
#[derive(Debug, Clone)]
pub struct StoredCatalog(Arc<Stored>);

#[derive(Debug)]
struct Stored {
    digest: CatalogDigest,
    content: Map,
    file: File,
    index: Index<Map>,
    modified: SystemTime,
}

impl StoredCatalog {
    /// Returns the digest of the image that the catalog came from.
    pub fn digest(&self) -> &CatalogDigest {
        &self.0.digest
    }

    /// Returns the whole content as JSON lines.
    pub fn content(&self) -> &[u8] {
        self.0.content.as_ref()
    }

    /// Returns its index.
    pub fn index(&self) -> &Index<Map> {
        &self.0.index
    }

    /// Returns the bytes of a blob, without its line end; empty for a range that is not of this catalog.
    pub fn blob(&self, range: Range<u64>) -> &[u8] {
        self.content().get(range.start as usize..range.end as usize).unwrap_or(&[])
    }

    /// Returns the length of the content in bytes.
    pub fn content_len(&self) -> u64 {
        self.content().len() as u64
    }

    /// Reads bytes of the content into `into` and returns their number: fewer than requested at the end of the content only.
    ///
    /// These reads cost no memory beside the buffer, while pages of the map that were touched count as this process's own. A server that sends the
    /// whole content again and again uses this; for single blobs [`StoredCatalog::blob`] is enough.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut read = 0;
        while read < into.len() {
            match self.0.file.read_at(&mut into[read..], offset + read as u64) {
                Ok(0) => break,
                Ok(bytes) => read += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    /// Reads the text of a blob from its file; an error for a range that is not of this catalog.
    pub fn read_blob(&self, range: Range<u64>) -> io::Result<String> {
        let outside = || io::Error::new(io::ErrorKind::InvalidInput, "the range is not of this catalog");
        let length = range.end.checked_sub(range.start).filter(|_| range.end <= self.content_len()).ok_or_else(outside)?;
        let mut bytes = vec![0; length as usize];
        if self.read_at(range.start, &mut bytes)? < bytes.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Returns the time when it was stored.
    pub fn modified(&self) -> SystemTime {
        self.0.modified
    }
}

impl CatalogStore {
    /// Opens the store in `root` and checks its entries (OLM1-GEN-09): complete entries whose content agrees with its recorded digest
    /// stay; incomplete, damaged and foreign ones are removed with one log line each. A check that cannot be done is an error.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(root).map_err(StoreError::io("creating", root))?;
        let opened = Self { root: root.to_owned(), counter: AtomicU64::new(0) };
        for entry in fs::read_dir(root).map_err(StoreError::io("listing", root))? {
            let entry = entry.map_err(StoreError::io("listing", root))?;
            if let Some(reason) = opened.unfit(&entry)? {
                let path = entry.path();
                tracing::warn!(path = %path.display(), reason, "catalog store: entry removed");
                remove(&path)?;
            }
        }
        Ok(opened)
    }

    /// Opens the store in `root` without checks, for callers that know by other means that it is sound. Nothing is written.
    pub fn unchecked(root: &Path) -> Self {
        Self { root: root.to_owned(), counter: AtomicU64::new(0) }
    }

    /// Returns the reason for which an entry of the root cannot be used.
    fn unfit(&self, entry: &fs::DirEntry) -> Result<Option<&'static str>, StoreError> {
        let path = entry.path();
        let kind = entry.file_type().map_err(StoreError::io("reading the type of", &path))?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { return Ok(Some("foreign")) };
        if name.starts_with(NEW) {
            return Ok(Some("incomplete"));
        }
        let (Some(digest), true) = (CatalogDigest::of_folder(name), kind.is_dir()) else { return Ok(Some("foreign")) };
        let content = path.join(CONTENT);
        let Some(written_down) = read_entry(&path.join(ENTRY))? else { return Ok(Some("incomplete")) };
        match File::open(&content) {
            Ok(mut file) => {
                let mut hasher = Hashing { inner: io::sink(), hasher: Sha256::new(), bytes: 0 };
                io::copy(&mut file, &mut hasher).map_err(StoreError::io("reading", &content))?;
                if hasher.entry().content_sha256 != written_down.content_sha256 {
                    return Ok(Some("its content does not agree with its digest"));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some("incomplete")),
            Err(error) => return Err(StoreError::io("opening", &content)(error)),
        }
        // Opening builds the index again if that is what is damaged.
        self.open_entry(&digest).map(|_| None)
    }

    /// Returns true if a catalog is stored.
    pub fn contains(&self, digest: &CatalogDigest) -> bool {
        self.folder(digest).join(ENTRY).is_file()
    }

    /// Opens a stored catalog; `None` if there is none.
    pub fn get(&self, digest: &CatalogDigest) -> Result<Option<StoredCatalog>, StoreError> {
        if self.contains(digest) { self.open_entry(digest).map(Some) } else { Ok(None) }
    }

    /// Loads a catalog, stores it under a digest, and opens it. A catalog that is there already is opened and not loaded again. Nothing
    /// is seen under the digest before everything is on disk.
    pub fn put(&self, digest: &CatalogDigest, source: &dyn Source, limits: &Limits) -> Result<StoredCatalog, StoreError> {
        if let Some(stored) = self.get(digest)? {
            return Ok(stored);
        }
        let number = self.counter.fetch_add(1, Ordering::Relaxed);
        let temporary = Temporary { path: self.root.join(format!("{NEW}{}-{number}", std::process::id())) };
        let new = &temporary.path;
        fs::create_dir(new).map_err(StoreError::io("creating", new))?;
        let content = new.join(CONTENT);
        let file = File::create(&content).map_err(StoreError::io("creating", &content))?;
        let mut lines = Hashing { inner: BufWriter::with_capacity(1 << 16, file), hasher: Sha256::new(), bytes: 0 };
        let index = store(source, limits, &mut lines)?;
        lines.inner.flush().and_then(|()| lines.inner.get_ref().sync_all()).map_err(StoreError::io("writing", &content))?;
        write_synced(&new.join(INDEX), &index)?;
        let entry = serde_json::to_vec(&lines.entry()).map_err(|error| StoreError::io("writing", new)(error.into()))?;
        write_synced(&new.join(ENTRY), &entry)?;
        sync_folder(new)?;
        let folder = self.folder(digest);
        if let Err(error) = fs::rename(new, &folder) {
            // Another process stored the same catalog meanwhile; its entry is as good.
            if !self.contains(digest) {
                return Err(StoreError::io("renaming to", &folder)(error));
            }
        }
        sync_folder(&self.root)?;
        self.open_entry(digest)
    }

    /// Removes all catalogs but the referenced ones; returns the removed ones.
    pub fn retain(&self, referenced: &BTreeSet<CatalogDigest>) -> Result<Vec<CatalogDigest>, StoreError> {
        let mut removed = Vec::new();
        for digest in self.digests()? {
            if !referenced.contains(&digest) {
                remove(&self.folder(&digest))?;
                removed.push(digest);
            }
        }
        Ok(removed)
    }

    /// Returns the digests of all stored catalogs, sorted.
    pub fn digests(&self) -> Result<Vec<CatalogDigest>, StoreError> {
        let mut digests = Vec::new();
        for entry in fs::read_dir(&self.root).map_err(StoreError::io("listing", &self.root))? {
            let entry = entry.map_err(StoreError::io("listing", &self.root))?;
            digests.extend(entry.file_name().to_str().and_then(CatalogDigest::of_folder));
        }
        digests.sort();
        Ok(digests)
    }

    /// Returns the size of the store; a catalog that is removed meanwhile is not counted.
    pub fn sizes(&self) -> Result<Sizes, StoreError> {
        let mut sizes = Sizes::default();
        for folder in self.digests()?.iter().map(|digest| self.folder(digest)) {
            let length = |name: &str| fs::metadata(folder.join(name)).map(|meta| meta.len());
            if let (Ok(content), Ok(index)) = (length(CONTENT), length(INDEX)) {
                sizes.catalogs += 1;
                sizes.content_bytes += content;
                sizes.index_bytes += index;
            }
        }
        Ok(sizes)
    }

    fn folder(&self, digest: &CatalogDigest) -> PathBuf {
        self.root.join(digest.folder())
    }

    fn open_entry(&self, digest: &CatalogDigest) -> Result<StoredCatalog, StoreError> {
        let folder = self.folder(digest);
        let (content_path, index_path) = (folder.join(CONTENT), folder.join(INDEX));
        let file = File::open(&content_path).map_err(StoreError::io("opening", &content_path))?;
        let content = Map::of(&file, &content_path)?;
        let modified = file.metadata().and_then(|m| m.modified()).map_err(StoreError::io("reading the time of", &content_path))?;
        let length = content.as_ref().len() as u64;
        let usable = if index_path.is_file() { Index::open(Map::open(&index_path)?, length).ok() } else { None };
        let index = match usable {
            Some(index) => index,
            None => self.rebuild_index(&content, &index_path)?,
        };
        Ok(StoredCatalog(Arc::new(Stored { digest: digest.clone(), content, file, index, modified })))
    }

    /// Rebuilds the index of the content and puts it into place.
    fn rebuild_index(&self, content: &Map, index_path: &Path) -> Result<Index<Map>, StoreError> {
        tracing::warn!(path = %index_path.display(), "catalog store: index is missing, damaged or of another format, built again");
        let bytes = store(&Lines(content), &Limits::default(), &mut io::sink())?;
        let number = self.counter.fetch_add(1, Ordering::Relaxed);
        let temporary = Temporary { path: self.root.join(format!("{NEW}{}-{number}", std::process::id())) };
        write_synced(&temporary.path, &bytes)?;
        fs::rename(&temporary.path, index_path).map_err(StoreError::io("renaming to", index_path))?;
        Index::open(Map::open(index_path)?, content.as_ref().len() as u64)
            .map_err(|source| StoreError::Index { path: index_path.to_owned(), source })
    }
}

/// Stored content as a source of its own, for rebuilding the index.
struct Lines<'m>(&'m Map);

impl Source for Lines<'_> {
    fn paths(&self) -> Result<Vec<String>, SourceError> {
        Ok(vec![CONTENT.to_owned()])
    }

    fn read(&self, _path: &str) -> Result<std::borrow::Cow<'_, [u8]>, SourceError> {
        Ok(std::borrow::Cow::Borrowed(self.0.as_ref()))
    }
}

/// A writer that counts and hashes its bytes.
struct Hashing<W> {
    inner: W,
    hasher: Sha256,
    bytes: u64,
}

impl<W> Hashing<W> {
    fn entry(&self) -> EntryFile {
        EntryFile { content_sha256: format!("{:x}", self.hasher.clone().finalize()), content_bytes: self.bytes }
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// A temporary folder, removed unless it was renamed.
struct Temporary {
    path: PathBuf,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if self.path.symlink_metadata().is_ok()
            && let Err(error) = remove(&self.path)
        {
            tracing::warn!(%error, "catalog store: an incomplete entry stays until the next start");
        }
    }
}

/// Reads the record of an entry; `None` when it is missing or unreadable as such.
fn read_entry(path: &Path) -> Result<Option<EntryFile>, StoreError> {
    match fs::read(path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::IsADirectory) => Ok(None),
        Err(error) => Err(StoreError::io("reading", path)(error)),
    }
}

/// Removes a file, a link (never what it leads to) or a folder with its content.
fn remove(path: &Path) -> Result<(), StoreError> {
    let kind = path.symlink_metadata().map_err(StoreError::io("reading the type of", path))?.file_type();
    let result = if kind.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    result.map_err(StoreError::io("removing", path))
}

fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let mut file = File::create(path).map_err(StoreError::io("creating", path))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(StoreError::io("writing", path))
}

fn sync_folder(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(StoreError::io("syncing", path))
}
