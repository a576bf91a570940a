//! A layer: files and the lower content they hide, as a compressed archive that has the same bytes wherever and whenever it is made.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

use flate2::GzBuilder;

use super::ImageFile;
use crate::digest::Digest;
use crate::error::Error;
use crate::manifest::media_type;

/// Compression of a new layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// gzip, which everything reads.
    #[default]
    Gzip,
    /// zstd: smaller and faster; not for Docker's manifests, and not for container engines from before 2021.
    Zstd,
    /// No compression.
    None,
}

impl Compression {
    /// Returns the media type of an OCI layer with this compression.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Gzip => media_type::OCI_LAYER_GZIP,
            Self::Zstd => media_type::OCI_LAYER_ZSTD,
            Self::None => media_type::OCI_LAYER,
        }
    }

    fn compress(self, archive: Vec<u8>) -> Result<Vec<u8>, Error> {
        match self {
            Self::None => Ok(archive),
            Self::Zstd => zstd::bulk::compress(&archive, zstd::DEFAULT_COMPRESSION_LEVEL).map_err(Error::io("layer")),
            Self::Gzip => {
                // No time and a fixed system byte in the header, so that the bytes do not depend on the time and place.
                let mut gzip = GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), flate2::Compression::default());
                gzip.write_all(&archive).and_then(|()| gzip.finish()).map_err(Error::io("layer"))
            }
        }
    }
}

/// A new layer.
pub(super) struct Layer {
    /// The digest of the archive before compression.
    pub diff: Digest,
    /// The archive as it is stored.
    pub bytes: Vec<u8>,
}

/// Makes the layer of these files, which hides the content of lower layers below `emptied`.
pub(super) fn layer(files: &BTreeMap<String, ImageFile>, emptied: &BTreeSet<String>, compression: Compression) -> Result<Layer, Error> {
    let archive = archive(files, emptied)?;
    Ok(Layer { diff: Digest::of(&archive), bytes: compression.compress(archive)? })
}

/// The files and the directories that lead to them, sorted, without owners and times.
fn archive(files: &BTreeMap<String, ImageFile>, emptied: &BTreeSet<String>) -> Result<Vec<u8>, Error> {
    let mut directories = BTreeSet::new();
    for path in files.keys().chain(emptied) {
        let parts: Vec<_> = path.split('/').collect();
        if path.is_empty() || parts.iter().any(|part| part.is_empty() || *part == "." || *part == "..") {
            return Err(Error::UnsafePath { subject: "image".to_owned(), path: path.clone(), problem: "is no plain relative path" });
        }
        directories.extend((1..parts.len()).map(|count| parts[..count].join("/")));
    }
    directories.extend(emptied.iter().cloned());
    let mut archive = tar::Builder::new(Vec::new());
    archive.mode(tar::HeaderMode::Deterministic);
    let mut append = |path: &str, kind: tar::EntryType, mode: u32, bytes: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(bytes.len() as u64);
        archive.append_data(&mut header, path, bytes).map_err(Error::io(path))
    };
    for directory in &directories {
        append(&format!("{directory}/"), tar::EntryType::Directory, 0o755, &[])?;
    }
    for directory in emptied {
        append(&format!("{directory}/.wh..wh..opq"), tar::EntryType::Regular, 0o644, &[])?;
    }
    for (path, file) in files {
        append(path, tar::EntryType::Regular, if file.executable { 0o755 } else { 0o644 }, &file.bytes)?;
    }
    archive.into_inner().map_err(Error::io("layer"))
}
