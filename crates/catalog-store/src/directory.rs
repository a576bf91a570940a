//! A catalog in a directory.

use std::borrow::Cow;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use mainstay_catalog::{Source, SourceError, SourceFile};

use crate::folder::{Folder, FolderLimits, Links};

/// Limits of a catalog. It is read file by file, so the user's own has no limit for all files together.
const OF_USER: FolderLimits = FolderLimits { entries: 200_000, depth: 64, file_bytes: 1 << 30, total_bytes: u64::MAX };
/// Limits of an image's catalog. An image holds a GiB at most; links may repeat some of that, but not a thousand times.
const OF_IMAGE: FolderLimits = FolderLimits { total_bytes: 2 << 30, ..OF_USER };

/// The files below a directory. Links to folders are not followed: as in Go, such a link is an error when it is read, unless `.indexignore`
/// excludes it.
#[derive(Debug, Clone)]
pub struct DirectorySource {
    folder: Folder,
}

impl DirectorySource {
    /// Opens a catalog in a directory that came from an image: a link that leads out of it is an error, since the image must not be able to read
    /// files of its host.
    pub fn of_image(root: &Path) -> Result<Self, SourceError> {
        Ok(Self { folder: Folder::open(root, Links::Inside, OF_IMAGE)? })
    }

    /// Opens a catalog in a directory that the user names: links to files are followed wherever they lead, as `opm` does.
    pub fn of_user(root: &Path) -> Result<Self, SourceError> {
        Ok(Self { folder: Folder::open(root, Links::Anywhere, OF_USER)? })
    }
}

impl Source for DirectorySource {
    fn paths(&self) -> Result<Vec<String>, SourceError> {
        let found = self.folder.walk()?;
        self.folder.weigh(&found)?;
        Ok(found.into_iter().map(|(path, _)| path).collect())
    }

    fn read(&self, path: &str) -> Result<Cow<'_, [u8]>, SourceError> {
        Ok(Cow::Owned(self.folder.read(path)?))
    }

    fn open(&self, path: &str) -> Result<Box<dyn SourceFile + '_>, SourceError> {
        match File::open(self.folder.place(path)) {
            Ok(file) => Ok(Box::new(Pieces(file))),
            Err(error) => Err(SourceError { path: path.to_owned(), reason: error.to_string() }),
        }
    }
}

/// A file that is read on demand, so that only the pieces in use are in memory.
struct Pieces(File);

impl SourceFile for Pieces {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read_at(buffer, offset)
    }
}
