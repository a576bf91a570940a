//! A catalog in a directory.

use std::borrow::Cow;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use mainstay_catalog::{Source, SourceError, SourceFile};

/// Deepest folder that is looked into.
const MAX_DEPTH: usize = 64;
/// Most files that are looked at.
const MAX_FILES: usize = 200_000;
/// Largest file that is read.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// The files below a directory. Symbolic links are followed to files inside of the directory; a link that leads out of it is an error,
/// for a catalog image must not be able to read files of its host.
#[derive(Debug, Clone)]
pub struct DirectorySource {
    root: PathBuf,
}

impl DirectorySource {
    /// A catalog in `root`; the error says when that is no directory.
    pub fn new(root: &Path) -> Result<Self, SourceError> {
        let shown = root.display().to_string();
        let canonical = root.canonicalize().map_err(|error| failed(&shown, &error))?;
        if !canonical.is_dir() {
            return Err(SourceError { path: shown, reason: "not a directory".to_owned() });
        }
        Ok(Self { root: canonical })
    }

    fn walk(&self, below: &str, depth: usize, paths: &mut Vec<String>) -> Result<(), SourceError> {
        if depth > MAX_DEPTH {
            return Err(SourceError { path: below.to_owned(), reason: format!("more than {MAX_DEPTH} folders deep") });
        }
        let entries = fs::read_dir(self.root.join(below)).map_err(|error| failed(below, &error))?;
        for entry in entries {
            let entry = entry.map_err(|error| failed(below, &error))?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else {
                return Err(SourceError { path: below.to_owned(), reason: format!("file name {} is not UTF-8", name.display()) });
            };
            let path = if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
            let kind = entry.file_type().map_err(|error| failed(&path, &error))?;
            if kind.is_dir() {
                self.walk(&path, depth + 1, paths)?;
            } else if kind.is_file() || kind.is_symlink() && self.link_to_file(&path)? {
                if paths.len() >= MAX_FILES {
                    return Err(SourceError { path, reason: format!("more than {MAX_FILES} files") });
                }
                paths.push(path);
            }
        }
        Ok(())
    }

    /// Whether a link leads to a file inside; links to folders are passed over, as a walk does.
    fn link_to_file(&self, path: &str) -> Result<bool, SourceError> {
        let target = self.root.join(path).canonicalize().map_err(|error| failed(path, &error))?;
        if !target.starts_with(&self.root) {
            return Err(SourceError { path: path.to_owned(), reason: "symbolic link leads out of the catalog".to_owned() });
        }
        Ok(target.is_file())
    }
}

impl Source for DirectorySource {
    fn paths(&self) -> Result<Vec<String>, SourceError> {
        let mut paths = Vec::new();
        self.walk("", 0, &mut paths)?;
        Ok(paths)
    }

    fn read(&self, path: &str) -> Result<Cow<'_, [u8]>, SourceError> {
        let full = self.root.join(path);
        let length = fs::metadata(&full).map_err(|error| failed(path, &error))?.len();
        if length > MAX_FILE_BYTES {
            return Err(SourceError { path: path.to_owned(), reason: format!("larger than {MAX_FILE_BYTES} bytes") });
        }
        fs::read(&full).map(Cow::Owned).map_err(|error| failed(path, &error))
    }

    fn open(&self, path: &str) -> Result<Box<dyn SourceFile + '_>, SourceError> {
        match File::open(self.root.join(path)) {
            Ok(file) => Ok(Box::new(Pieces(file))),
            Err(error) => Err(failed(path, &error)),
        }
    }
}

/// A file that is read where it is asked for, so that only the pieces in use are in memory.
struct Pieces(File);

impl SourceFile for Pieces {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read_at(buffer, offset)
    }
}

fn failed(path: &str, error: &std::io::Error) -> SourceError {
    SourceError { path: if path.is_empty() { ".".to_owned() } else { path.to_owned() }, reason: error.to_string() }
}
