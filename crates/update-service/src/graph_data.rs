//! Graph-data from a directory, an archive, or an image (CVO-OSUS-14), and the archive that is served.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::{fs, io};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use mainstay_oci::{Client, Layer, Reference, UnpackLimits, UnpackOptions, read_files};
use mainstay_update_graph::graph_data::{Files, is_read};

use crate::error::Error;

/// Files that are read at all.
const MAX_FILES: usize = 50_000;
/// Entries of an archive that are looked at.
const MAX_ENTRIES: usize = 500_000;
/// Bytes of one file, and of all.
const MAX_FILE: u64 = 16 << 20;
const MAX_TOTAL: u64 = 256 << 20;
/// Bytes of an archive, compressed and not.
const MAX_ARCHIVE: u64 = 1 << 30;
/// Folders of an image that hold graph-data.
const IN_IMAGES: [&str; 6] =
    ["var/lib/cincinnati/graph-data", "var/lib/cincinnati-graph-data", "graph-data", "cincinnati-graph-data", "channels", "version"];

/// Where graph-data lies.
#[derive(Debug, Clone)]
pub enum GraphDataPlace {
    /// A directory.
    Directory(PathBuf),
    /// A tar archive, compressed by gzip or not.
    Archive(PathBuf),
    /// An image.
    Image(Reference),
}

impl GraphDataPlace {
    /// Reads the files.
    pub(crate) async fn read(&self, client: &Client) -> Result<Files, Error> {
        match self.clone() {
            Self::Directory(path) => tokio::task::spawn_blocking(move || from_directory(&path)).await?,
            Self::Archive(path) => tokio::task::spawn_blocking(move || from_archive(&path)).await?,
            Self::Image(reference) => from_image(client, &reference).await,
        }
    }
}

/// Reads the files of a directory that have a meaning.
pub fn from_directory(root: &Path) -> Result<Files, Error> {
    let mut files = Files::new();
    let mut total = 0;
    for folder in ["", "channels", "blocked-edges", "raw"] {
        let path = root.join(folder);
        let entries = match fs::read_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !folder.is_empty() => continue,
            entries => entries.map_err(Error::io(&path))?,
        };
        for entry in entries {
            let entry = entry.map_err(Error::io(&path))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let name = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            if is_read(&name) && entry.path().is_file() {
                let file = fs::File::open(entry.path()).map_err(Error::io(entry.path()))?;
                add(&mut files, &mut total, name, file, &entry.path())?;
            }
        }
    }
    Ok(files)
}

/// Adds a file below the limits.
fn add(files: &mut Files, total: &mut u64, name: String, content: impl Read, path: &Path) -> Result<(), Error> {
    let too_large = |what, limit| Error::TooLarge { path: path.to_owned(), what, limit };
    if files.len() == MAX_FILES {
        return Err(too_large("files", MAX_FILES as u64));
    }
    let mut bytes = Vec::new();
    content.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(Error::io(path))?;
    *total += bytes.len() as u64;
    if bytes.len() as u64 > MAX_FILE {
        return Err(too_large("bytes in a file", MAX_FILE));
    }
    if *total > MAX_TOTAL {
        return Err(too_large("bytes", MAX_TOTAL));
    }
    files.insert(name, bytes);
    Ok(())
}

/// Reads the graph-data in a tar archive, at its top or in a folder of it.
pub fn from_archive(path: &Path) -> Result<Files, Error> {
    let mut file = fs::File::open(path).map_err(Error::io(path))?;
    let mut magic = [0; 2];
    let compressed = file.read_exact(&mut magic).is_ok() && magic == [0x1f, 0x8b];
    let file = fs::File::open(path).map_err(Error::io(path))?.take(MAX_ARCHIVE);
    let plain: Box<dyn Read> = if compressed { Box::new(GzDecoder::new(file)) } else { Box::new(file) };
    let mut archive = tar::Archive::new(plain.take(MAX_ARCHIVE));
    let (mut files, mut total) = (Files::new(), 0);
    for (number, entry) in archive.entries().map_err(Error::io(path))?.enumerate() {
        if number == MAX_ENTRIES {
            return Err(Error::TooLarge { path: path.to_owned(), what: "entries", limit: MAX_ENTRIES as u64 });
        }
        let entry = entry.map_err(Error::io(path))?;
        let name = entry.path().map_err(Error::io(path))?.to_string_lossy().trim_start_matches("./").to_owned();
        if entry.header().entry_type().is_file() && ends_as_read(&name) {
            add(&mut files, &mut total, name, entry, path)?;
        }
    }
    within(&files).ok_or_else(|| Error::NoGraphData(path.display().to_string()))
}

async fn from_image(client: &Client, reference: &Reference) -> Result<Files, Error> {
    let workspace = client.workspace()?;
    let image = client.pull(reference, workspace.store()).await?;
    let layers = Layer::of(&image, workspace.store());
    let limits = UnpackLimits { total_bytes: MAX_TOTAL, file_bytes: MAX_FILE, ..UnpackLimits::default() };
    let mut keep: Vec<String> = IN_IMAGES.iter().map(|path| (*path).to_owned()).collect();
    keep.extend(["blocked-edges".to_owned(), "raw".to_owned()]);
    let options = UnpackOptions { keep, limits, ..UnpackOptions::default() };
    let subject = reference.to_string();
    let files = tokio::task::spawn_blocking(move || read_files(&layers, &options)).await??;
    // The store's files are needed until here.
    drop(workspace);
    within(&files).ok_or(Error::NoGraphData(subject))
}

/// Returns true for a path that could be a file of graph-data in some folder.
fn ends_as_read(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let tail = |count: usize| parts.len().checked_sub(count).map(|begin| parts[begin..].join("/"));
    [1, 2].into_iter().filter_map(tail).any(|path| is_read(&path))
}

/// The files of the highest folder that has a version and channels.
fn within(files: &Files) -> Option<Files> {
    let roots = files.keys().filter_map(|path| path.strip_suffix("version")).filter(|root| root.is_empty() || root.ends_with('/'));
    let has_channels = |root: &&str| files.keys().any(|path| path.strip_prefix(*root).is_some_and(|rest| rest.starts_with("channels/")));
    let root = roots.filter(has_channels).min_by_key(|root| (root.matches('/').count(), *root))?;
    let below = |(path, bytes): (&String, &Vec<u8>)| Some((path.strip_prefix(root)?.to_owned(), bytes.clone()));
    Some(files.iter().filter_map(below).filter(|(path, _)| is_read(path)).collect())
}

/// The files as tar.gz, the same bytes for the same files.
pub(crate) fn archive(files: &Files) -> Result<Bytes, Error> {
    let failed = |source| Error::Io { path: PathBuf::from("graph-data.tar.gz"), source };
    let mut out = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    for (path, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(0);
        out.append_data(&mut header, path, bytes.as_slice()).map_err(failed)?;
    }
    Ok(out.into_inner().and_then(GzEncoder::finish).map_err(failed)?.into())
}
