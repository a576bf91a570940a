//! Images as one file, in the formats that `docker save`, `podman save` and `skopeo` write and read.
//!
//! Two forms are common: an OCI layout in a tar archive (`oci-archive`), and Docker's own with a `manifest.json` (`docker-archive`). Both are
//! read into a [`Layout`]; the archive itself may be compressed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::client::{Image, MAX_CONFIG};
use crate::digest::Digest;
use crate::error::Error;
use crate::layout::{Layout, MAX_INDEX};
use crate::manifest::{Descriptor, Manifest, media_type};
use crate::private;
use crate::store::BlobStore;
use crate::unpack::{Bounded, Budget, MAX_HEAD, UnpackLimits, decompressed, end_of, unreadable};

const MAX_ENTRIES: usize = 100_000;
/// Bytes of an archive uncompressed.
const MAX_BYTES: u64 = 64 << 30;
const MAX_IMAGES: usize = 512;
/// Bytes that come out of an archive for each byte of it, beyond the first gigabyte.
const RATIO: u64 = 200;

/// Limits for reading an archive.
fn limits() -> UnpackLimits {
    UnpackLimits { read_bytes: MAX_BYTES, free_bytes: 1 << 30, ratio: RATIO, ..UnpackLimits::default() }
}

/// One image of a `docker-archive`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

/// Contents of an archive whose format is not known yet.
#[derive(Default)]
struct Contents {
    /// `index.json`, `manifest.json`.
    documents: BTreeMap<String, Vec<u8>>,
    /// Files by name.
    files: BTreeMap<String, (Digest, u64)>,
    /// Links to files, as old versions of Docker write equal layers.
    links: BTreeMap<String, String>,
}

/// Returns true if a file is a tar archive, compressed or not, as archives of images are.
pub fn is_archive(file: &Path) -> Result<bool, Error> {
    const MAGIC: std::ops::Range<usize> = 257..262;
    let opened = fs::File::open(file).map_err(Error::io(file))?;
    let mut head = Vec::new();
    // A file that says it is compressed and then cannot be decompressed is no archive.
    let read = decompressed(opened).and_then(|reader| reader.take(MAGIC.end as u64).read_to_end(&mut head));
    Ok(read.is_ok() && head.get(MAGIC).is_some_and(|magic| magic == b"ustar"))
}

impl Layout {
    /// Reads the images of an archive into a layout in that directory. Every blob that is named by its digest is compared with it.
    pub fn read_archive(archive: &Path, directory: &Path) -> Result<Self, Error> {
        let subject = archive.display().to_string();
        let layout = Self::create(directory)?;
        let contents = read(&subject, archive, layout.store())?;
        if let Some(index) = contents.documents.get("index.json") {
            layout.replace_index(&subject, index)?;
        } else if let Some(list) = contents.documents.get("manifest.json") {
            contents.take_saved(&subject, list, &layout)?;
        } else {
            return Err(Error::content(subject, "is no archive of an image: it holds neither index.json nor manifest.json"));
        }
        layout.check_whole(&subject)?;
        Ok(layout)
    }

    /// Writes the layout as one `oci-archive`, always the same bytes for the same content.
    pub fn write_archive(&self, archive: &Path) -> Result<(), Error> {
        let root = self.store().root();
        let mut names = vec!["oci-layout".to_owned(), "index.json".to_owned()];
        for algorithm in ["sha256", "sha512"] {
            let Ok(entries) = fs::read_dir(root.join("blobs").join(algorithm)) else { continue };
            let mut blobs = entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>().map_err(Error::io(root))?;
            blobs.sort();
            names.extend(blobs.iter().map(|name| format!("blobs/{algorithm}/{}", name.to_string_lossy())));
        }
        write(archive, |tar| {
            for name in &names {
                let mut file = fs::File::open(root.join(name))?;
                let size = file.metadata()?.len();
                append(tar, name, size, &mut file)?;
            }
            Ok(())
        })
    }
}

/// Writes an image whose blobs are in the store as a `docker-archive`, under these names (`registry/repository:tag`).
pub fn write_docker_archive(image: &Image, store: &BlobStore, names: &[String], archive: &Path) -> Result<(), Error> {
    let subject = archive.display().to_string();
    let config = store.read(&image.manifest.config.digest, MAX_CONFIG)?;
    // Docker wants layers uncompressed, and names them by the digest of the uncompressed bytes.
    let scratch =
        private::temporary(archive.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")), ".mainstay-")
            .map_err(Error::io(archive))?;
    let plain = BlobStore::open(scratch.path())?;
    let mut layers = Vec::new();
    for layer in &image.manifest.layers {
        let path = store.path(&layer.digest);
        let file = fs::File::open(&path).map_err(Error::io(&path))?;
        let mut reader = Bounded::new(file, &Budget::new(limits()), u64::MAX).map_err(Error::io(&path))?;
        layers.push(copy(&subject, &mut reader, &plain, None, MAX_BYTES)?.0);
    }
    let saved = Saved {
        config: format!("{}.json", image.manifest.config.digest.hex()),
        repo_tags: Some(names.to_vec()),
        layers: layers.iter().map(|digest| format!("{}/layer.tar", digest.hex())).collect(),
    };
    let list = serde_json::to_vec(&[&saved]).map_err(|error| Error::content(&subject, error.to_string()))?;
    write(archive, |tar| {
        let mut written = std::collections::BTreeSet::new();
        for (name, digest) in saved.layers.iter().zip(&layers) {
            if written.insert(name) {
                let mut file = fs::File::open(plain.path(digest))?;
                let size = file.metadata()?.len();
                append(tar, name, size, &mut file)?;
            }
        }
        append(tar, &saved.config, config.len() as u64, &mut config.as_slice())?;
        append(tar, "manifest.json", list.len() as u64, &mut list.as_slice())
    })
}

impl Contents {
    /// Makes a manifest for each image of a `docker-archive`.
    fn take_saved(&self, subject: &str, list: &[u8], layout: &Layout) -> Result<(), Error> {
        let refuse = |problem: String| Error::content(subject, format!("manifest.json {problem}"));
        let saved: Vec<Saved> = serde_json::from_slice(list).map_err(|error| refuse(format!("cannot be read: {error}")))?;
        if saved.len() > MAX_IMAGES {
            return Err(Error::Limit { subject: subject.to_owned(), what: "number of images", limit: MAX_IMAGES as u64 });
        }
        for image in saved {
            let descriptor = |name: &str, media_type: &str| -> Result<Descriptor, Error> {
                let target = self.links.get(name).map_or(name, String::as_str);
                let (digest, size) =
                    self.files.get(target).ok_or_else(|| refuse(format!("names {name:?}, which is not in the archive")))?;
                Ok(Descriptor { digest: digest.clone(), size: *size, ..Descriptor::of(media_type, &[]) })
            };
            let manifest = Manifest {
                schema_version: 2,
                media_type: Some(media_type::DOCKER_MANIFEST.to_owned()),
                config: descriptor(&image.config, media_type::DOCKER_CONFIG)?,
                layers: image.layers.iter().map(|name| descriptor(name, media_type::DOCKER_LAYER)).collect::<Result<_, _>>()?,
                annotations: BTreeMap::new(),
            };
            let bytes = serde_json::to_vec(&manifest).map_err(|error| refuse(error.to_string()))?;
            layout.store().write(&bytes)?;
            let root = Descriptor::of(media_type::DOCKER_MANIFEST, &bytes);
            let names = image.repo_tags.unwrap_or_default();
            if names.is_empty() {
                layout.add_unnamed(&root)?;
            }
            for name in names {
                layout.add_descriptor(&name, &root)?;
            }
        }
        Ok(())
    }
}

fn read(subject: &str, archive: &Path, store: &BlobStore) -> Result<Contents, Error> {
    let unreadable = |error: io::Error| unreadable(subject, &error);
    let file = fs::File::open(archive).map_err(Error::io(archive))?;
    let bounded = Bounded::new(file, &Budget::new(limits()), MAX_HEAD).map_err(unreadable)?;
    let reach = bounded.reach();
    let mut tar = tar::Archive::new(bounded);
    let mut contents = Contents::default();
    let mut left = MAX_BYTES;
    for (number, entry) in tar.entries().map_err(unreadable)?.enumerate() {
        if number >= MAX_ENTRIES {
            return Err(Error::Limit { subject: subject.to_owned(), what: "number of entries", limit: MAX_ENTRIES as u64 });
        }
        let mut entry = entry.map_err(unreadable)?;
        reach.set(end_of(&entry).saturating_add(MAX_HEAD));
        let name = String::from_utf8_lossy(&entry.path_bytes()).trim_start_matches("./").to_owned();
        let kind = entry.header().entry_type();
        if kind.is_symlink() || kind.is_hard_link() {
            if let Some(target) = entry.link_name_bytes() {
                let target = String::from_utf8_lossy(&target).into_owned();
                contents.links.insert(name.clone(), if kind.is_symlink() { beside(&name, &target) } else { target });
            }
        } else if kind.is_file() {
            if name == "index.json" || name == "manifest.json" {
                let mut bytes = Vec::new();
                (&mut entry).take(MAX_INDEX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
                if bytes.len() as u64 > MAX_INDEX {
                    return Err(Error::Limit { subject: format!("{subject}: {name}"), what: "size in bytes", limit: MAX_INDEX });
                }
                contents.documents.insert(name, bytes);
                continue;
            }
            let expected = name.strip_prefix("blobs/").and_then(|rest| rest.replace('/', ":").parse::<Digest>().ok());
            let (digest, size) = copy(subject, &mut entry, store, expected.as_ref(), left)?;
            left -= size;
            contents.files.insert(name, (digest, size));
        }
    }
    Ok(contents)
}

/// Copies a stream into the store.
fn copy(subject: &str, reader: &mut impl Read, store: &BlobStore, expected: Option<&Digest>, limit: u64) -> Result<(Digest, u64), Error> {
    let mut writer = store.writer(subject, expected)?;
    let mut buffer = vec![0; 128 << 10];
    loop {
        let count = reader.read(&mut buffer).map_err(|error| unreadable(subject, &error))?;
        if count == 0 {
            let size = writer.size();
            return Ok((writer.commit()?, size));
        }
        if writer.size() + count as u64 > limit {
            return Err(Error::Limit { subject: subject.to_owned(), what: "size uncompressed in bytes", limit: MAX_BYTES });
        }
        writer.write(&buffer[..count])?;
    }
}

/// Returns the path inside the archive that a relative link of an entry leads to.
fn beside(name: &str, target: &str) -> String {
    let mut parts: Vec<&str> = name.rsplit_once('/').map(|(folder, _)| folder.split('/').collect()).unwrap_or_default();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Writes an archive beside its place first, so that a half one never stands there.
fn write(archive: &Path, fill: impl FnOnce(&mut tar::Builder<&fs::File>) -> io::Result<()>) -> Result<(), Error> {
    let folder = archive.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let file = tempfile::NamedTempFile::new_in(folder).map_err(Error::io(archive))?;
    let mut tar = tar::Builder::new(file.as_file());
    fill(&mut tar).and_then(|()| tar.finish()).and_then(|()| file.as_file().flush()).map_err(Error::io(archive))?;
    drop(tar);
    file.persist(archive).map_err(|error| Error::Io { path: archive.to_owned(), source: error.error })?;
    Ok(())
}

fn append(tar: &mut tar::Builder<&fs::File>, name: &str, size: u64, content: &mut dyn Read) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Regular);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(size);
    tar.append_data(&mut header, name, content)
}
