//! Opening of references.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use mainstay_catalog::{Catalog, Format, Limits, MemorySource, Source};
use mainstay_catalog_store::DirectorySource;
use mainstay_oci::{Client, Digest};
use mainstay_sqlite_index::IndexDatabase;
use tempfile::TempDir;

use crate::access::{Access, Names};
use crate::bundle::{self, BundleFiles};
use crate::error::{BoxError, Error};
use crate::file_type;
use crate::image::{Local, joined};
use crate::kind::{Kind, Place};

/// The largest file that is read into memory, in bytes.
const MAX_FILE: u64 = 1 << 30;

/// The opened content of a reference.
#[derive(Debug)]
pub struct Opened {
    /// Its kind.
    pub kind: Kind,
    /// Its content.
    pub payload: Payload,
    /// The digest of the image that it came from.
    pub digest: Option<Digest>,
}

/// The content of a reference.
#[derive(Debug)]
pub enum Payload {
    /// The directory of a catalog; it may be a scratch folder, which is removed with this.
    Directory(DirectorySource, Option<TempDir>),
    /// One file of a catalog.
    Memory(MemorySource),
    /// The catalog of a bundle or a database. Values of properties are as upstream's program makes them, including the order of keys.
    Catalog(Catalog),
}

impl Opened {
    /// Returns the catalog as files for the loader and the streaming renderer.
    pub fn source(&self) -> Result<Box<dyn Source + '_>, Error> {
        Ok(match &self.payload {
            Payload::Directory(source, _) => Box::new(source.clone()),
            Payload::Memory(source) => Box::new(source.clone()),
            Payload::Catalog(catalog) => {
                let mut lines = Vec::new();
                let written = mainstay_catalog::render(catalog, Format::JsonLines, &mut lines);
                written.map_err(|error| Error::Io { path: "catalog".to_owned(), reason: error.to_string() })?;
                Box::new(MemorySource::of("catalog.json", lines))
            }
        })
    }

    /// Returns the catalog as a typed model.
    pub fn into_catalog(self, limits: &Limits) -> Result<Catalog, Error> {
        Ok(match self.payload {
            Payload::Directory(source, _) => Catalog::load(&source, limits)?,
            Payload::Memory(source) => Catalog::load(&source, limits)?,
            Payload::Catalog(catalog) => catalog,
        })
    }
}

/// Opens a reference. An existing path is opened as that path; everything else is an image (CATLG-32).
pub async fn open(reference: &str, access: &Access<'_>) -> Result<Opened, Error> {
    match find(reference, access).await? {
        Found::Directory(path) => directory(reference, path, access),
        Found::File(path, head) => file(reference, path, &head, access).await,
        Found::Image(image) => image.open(access).await,
    }
}

/// Pulls and opens an image, also where a file of this machine has its name: for references that others wrote.
pub async fn open_image(reference: &str, access: &Access<'_>) -> Result<Opened, Error> {
    Local::pull(reference, access).await?.open(access).await
}

/// Returns the files of the bundle that a reference names, below `manifests/` and `metadata/`: of a directory, or of an image wherever it lies.
pub async fn open_bundle(reference: &str, client: &(dyn Fn() -> Result<Client, BoxError> + Send + Sync)) -> Result<BundleFiles, Error> {
    match find(reference, &Access::new(client, Kind::BUNDLES)).await? {
        Found::Directory(path) => bundle::bundle_directory(path),
        Found::File(..) => Err(Error::Io { path: reference.to_owned(), reason: "is neither a directory nor an image".to_owned() }),
        Found::Image(image) => image.bundle_files().await,
    }
}

/// The place that a reference leads to.
enum Found<'r> {
    Directory(&'r Path),
    /// A file that is no image, with its first bytes.
    File(&'r Path, Vec<u8>),
    Image(Box<Local>),
}

async fn find<'r>(reference: &'r str, access: &Access<'_>) -> Result<Found<'r>, Error> {
    let path = Path::new(reference);
    let image = |local: Local| Found::Image(Box::new(local));
    let Ok(metadata) = std::fs::metadata(path) else {
        if let Some((place, name)) = place_and_name(reference, access) {
            return Ok(image(match place {
                (Place::Archive, file) => Local::of_archive(reference, file, Some(name)).await?,
                (_, directory) => Local::of_layout(reference, directory, Some(name))?,
            }));
        }
        if access.names == Names::Familiar && looks_like_a_path(reference) {
            return Err(Error::NoFile(reference.to_owned()));
        }
        return Ok(image(Local::pull(reference, access).await?));
    };
    if metadata.is_dir() {
        if takes_place(access, Place::Layout) && is_layout(path) {
            return Ok(image(Local::of_layout(reference, path, None)?));
        }
        return Ok(Found::Directory(path));
    }
    let failed = |error: std::io::Error| Error::Io { path: reference.to_owned(), reason: error.to_string() };
    let mut head = Vec::new();
    File::open(path).and_then(|file| file.take(file_type::HEAD).read_to_end(&mut head)).map_err(failed)?;
    if !file_type::is_database(&head) && takes_place(access, Place::Archive) && is_archive(reference, path)? {
        return Ok(image(Local::of_archive(reference, path, None).await?));
    }
    Ok(Found::File(path, head))
}

fn directory(reference: &str, path: &Path, access: &Access<'_>) -> Result<Opened, Error> {
    let is_bundle = bundle::is_bundle(path);
    let kind = if is_bundle { Kind::BUNDLE_DIRECTORY } else { Kind::CATALOG_DIRECTORY };
    check(reference, kind, access)?;
    let payload = if is_bundle {
        Payload::Catalog(bundle::entry_of_directory(&bundle::bundle_directory(path)?, access.image_template)?)
    } else {
        Payload::Directory(DirectorySource::of_user(path)?, None)
    };
    Ok(Opened { kind, payload, digest: None })
}

async fn file(reference: &str, path: &Path, head: &[u8], access: &Access<'_>) -> Result<Opened, Error> {
    if file_type::is_database(head) {
        check(reference, Kind::DATABASE_FILE, access)?;
        let (name, path) = (reference.to_owned(), path.to_owned());
        let catalog = joined(tokio::task::spawn_blocking(move || database(&name, &path)).await)?;
        return Ok(Opened { kind: Kind::DATABASE_FILE, payload: Payload::Catalog(catalog), digest: None });
    }
    if !access.accept.contains(&Kind::CATALOG_FILE) {
        return Err(Error::FileType { reference: reference.to_owned(), found: file_type::describe(head) });
    }
    let failed = |error: std::io::Error| Error::Io { path: reference.to_owned(), reason: error.to_string() };
    let bytes = whole(path).map_err(failed)?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let bare = PACKED.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(&name);
    Ok(Opened { kind: Kind::CATALOG_FILE, payload: Payload::Memory(MemorySource::of(bare, bytes)), digest: None })
}

/// Returns the catalog of an index database.
pub(crate) fn database(reference: &str, path: &Path) -> Result<Catalog, Error> {
    let failed = |source: mainstay_sqlite_index::Error| Error::Database { reference: reference.to_owned(), source: source.into() };
    IndexDatabase::open(path).and_then(|database| database.to_catalog()).map_err(failed)
}

fn check(reference: &str, kind: Kind, access: &Access<'_>) -> Result<(), Error> {
    if access.accept.contains(&kind) { Ok(()) } else { Err(Error::NotAllowed { reference: reference.to_owned(), kind }) }
}

fn takes_place(access: &Access<'_>, place: Place) -> bool {
    access.accept.iter().any(|kind| kind.place == place)
}

fn is_layout(directory: &Path) -> bool {
    directory.join("oci-layout").is_file() && directory.join("index.json").is_file()
}

fn is_archive(reference: &str, path: &Path) -> Result<bool, Error> {
    mainstay_oci::is_archive(path).map_err(|error| Error::Io { path: reference.to_owned(), reason: error.to_string() })
}

/// Splits `DIR:NAME` of a layout and `FILE:NAME` of an archive with several images. Names have colons too, so the first match counts.
fn place_and_name<'r>(reference: &'r str, access: &Access<'_>) -> Option<((Place, &'r Path), &'r str)> {
    reference.match_indices(':').find_map(|(at, _)| {
        let (path, name) = (Path::new(&reference[..at]), &reference[at + 1..]);
        if is_layout(path) {
            Some(((Place::Layout, path), name))
        } else if path.is_file() && takes_place(access, Place::Archive) {
            Some(((Place::Archive, path), name))
        } else {
            None
        }
    })
}

/// Extensions of compressed files.
const PACKED: [&str; 2] = [".gz", ".zst"];

/// Returns true if a text that is no file was meant as one: by its beginning or end, or because its directory exists.
pub fn looks_like_a_path(text: &str) -> bool {
    let extension = Path::new(text).extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let ends = matches!(extension, "json" | "yaml" | "yml" | "gz" | "zst" | "db" | "tar");
    let beside = || !text.contains([':', '@']) && Path::new(text).parent().is_some_and(Path::is_dir);
    text.starts_with(['.', '/', '~']) || ends || !text.contains(['/', ':']) || beside()
}

/// Reads a file's bytes, and decompresses them if they are compressed by gzip or zstd.
fn whole(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    let mut unpacked = Vec::new();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        flate2::read::MultiGzDecoder::new(bytes.as_slice()).take(MAX_FILE + 1).read_to_end(&mut unpacked)?;
        bytes = unpacked;
    } else if bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        zstd::Decoder::new(bytes.as_slice())?.take(MAX_FILE + 1).read_to_end(&mut unpacked)?;
        bytes = unpacked;
    }
    if bytes.len() as u64 > MAX_FILE { Err(std::io::Error::other(format!("larger than {MAX_FILE} bytes"))) } else { Ok(bytes) }
}
