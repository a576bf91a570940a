//! Payloads of tar files and streams: the two folders, or the files themselves; or an archive of images.

use std::io::{self, Read, Write as _};
use std::path::Path;

use mainstay_oci::{Layer, Layout, UnpackOptions, private, read_contents};
use mainstay_release::{Files, Folder};

use crate::error::ReadError;
use crate::image::{files, of_layout, options};
use crate::{Limits, Release};

/// Files that an archive of images has in its root: of an OCI archive, and of Docker's.
const IMAGE_LISTS: [&str; 2] = ["index.json", "manifest.json"];

/// Reads a payload, or an archive with one image, from a tar stream, which may be compressed. Blocks.
pub fn tar(mut stream: impl Read, limits: &Limits) -> Result<Release, ReadError> {
    let folder = std::env::temp_dir();
    let mut file = tempfile::NamedTempFile::new_in(&folder).map_err(ReadError::io(&folder))?;
    let copied = io::copy(&mut (&mut stream).take(limits.image_bytes + 1), &mut file).and_then(|copied| file.flush().map(|()| copied));
    let subject = "the stream";
    if copied.map_err(ReadError::io(file.path()))? > limits.image_bytes {
        let what = "size in bytes";
        let error = mainstay_oci::Error::Limit { subject: subject.to_owned(), what, limit: limits.image_bytes };
        return Err(ReadError::image(subject, error));
    }
    of_file(file.path(), None, subject, limits)
}

/// Reads a payload, or the image of an archive, from a tar file.
pub(crate) fn of_file(path: &Path, name: Option<&str>, subject: &str, limits: &Limits) -> Result<Release, ReadError> {
    let failed = |error| ReadError::image(subject, error);
    let layer = [Layer { name: subject.to_owned(), path: path.to_owned() }];
    let mut kept = options(limits);
    kept.keep.extend(IMAGE_LISTS.map(str::to_owned));
    let contents = read_contents(&layer, &kept).map_err(failed)?;
    if contents.folders.iter().any(|folder| folder == Folder::Release.name()) {
        return Ok(Release { files: files(subject, contents)?, image: None });
    }
    if IMAGE_LISTS.iter().any(|list| contents.files.contains_key(*list)) {
        let folder = std::env::temp_dir();
        let scratch = private::temporary(&folder, "mainstay-release-").map_err(ReadError::io(folder))?;
        let layout = Layout::read_archive(path, &scratch.path().join("layout")).map_err(failed)?;
        return of_layout(&layout, name, subject, limits);
    }
    let bare = read_contents(&layer, &UnpackOptions { keep: Vec::new(), ..kept }).map_err(failed)?;
    let mut files = Files::default();
    let is_bare = |path: &str| !path.contains('/');
    if let Some(path) = bare.broken_links.into_iter().find(|path| is_bare(path)) {
        return Err(ReadError::Link { subject: subject.to_owned(), path });
    }
    for (path, content) in bare.files.into_iter().filter(|(path, _)| is_bare(path)) {
        files.add(&format!("{}/{path}", Folder::Release.name()), content)?;
    }
    if files.release("release-metadata").is_some() {
        return Ok(Release { files, image: None });
    }
    Err(ReadError::NoPayload(subject.to_owned()))
}
