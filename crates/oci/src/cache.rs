//! Unpacked content on disk, kept by name and digest.
//!
//! `<root>/<name>/<digest>` is a directory. `<root>/<name>/<digest>.complete` says that it was unpacked to the end and which content it had.
//! Content without this mark is never read. At the start [`Cache::verify`] looks at everything below the root and removes what is incomplete,
//! changed or foreign (OLM1-GEN-09), so the rest can be used again without a pull.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::digest::{Digest, Hasher};
use crate::error::Error;
use crate::private;

const COMPLETE: &str = ".complete";
const INCOMING: &str = ".incoming-";
/// Attempts to remove a folder into which another process still writes.
const REMOVALS: u32 = 40;
/// Time between two attempts.
const REMOVAL_PAUSE: Duration = Duration::from_millis(50);

/// A directory of unpacked content that this process owns.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

/// An entry that [`Cache::verify`] removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    /// The path that was removed.
    pub path: PathBuf,
    /// The reason for its removal.
    pub reason: &'static str,
}

/// Contents of the mark of a complete entry.
#[derive(Serialize, Deserialize)]
struct Mark {
    digest: Digest,
    tree: Digest,
}

impl Cache {
    /// The cache below a directory, which is made if it is absent.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, Error> {
        let root = root.into();
        private::folder(&root).map_err(Error::io(&root))?;
        Ok(Self { root })
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Checks every entry and removes the unusable ones. An entry that cannot be read is an error that names it.
    pub fn verify(&self) -> Result<Vec<Removed>, Error> {
        let mut removed = Vec::new();
        for name in children(&self.root)? {
            if !is_directory(&name)? {
                discard(name, "foreign", &mut removed)?;
                continue;
            }
            for entry in children(&name)? {
                if let Some(reason) = unusable(&entry)? {
                    discard(entry, reason, &mut removed)?;
                }
            }
            // Marks without content.
            for entry in children(&name)? {
                let content = entry.to_string_lossy().strip_suffix(COMPLETE).map(PathBuf::from);
                if content.is_some_and(|content| !content.is_dir()) {
                    discard(entry, "incomplete", &mut removed)?;
                }
            }
            if children(&name)?.is_empty() {
                fs::remove_dir(&name).map_err(Error::io(&name))?;
            }
        }
        Ok(removed)
    }

    /// Returns the content of that name and digest, if it is complete.
    pub fn get(&self, name: &str, digest: &Digest) -> Result<Option<PathBuf>, Error> {
        let path = self.path(name, digest)?;
        Ok((path.is_dir() && mark_path(&path).is_file()).then_some(path))
    }

    /// Fills an entry and returns its directory. `fill` gets an empty directory; when it fails nothing stays behind. Other digests of the
    /// name stay until [`Cache::retain`].
    pub fn fill(&self, name: &str, digest: &Digest, fill: impl FnOnce(&Path) -> Result<(), Error>) -> Result<PathBuf, Error> {
        let path = self.path(name, digest)?;
        if let Some(known) = self.get(name, digest)? {
            return Ok(known);
        }
        let parent = self.root.join(name);
        private::folder(&parent).map_err(Error::io(&parent))?;
        let incoming = private::temporary(&parent, INCOMING).map_err(Error::io(&parent))?;
        fill(incoming.path())?;
        let mark = Mark { digest: digest.clone(), tree: tree_digest(incoming.path())? };
        if path.exists() {
            remove(&path)?;
        }
        fs::rename(incoming.keep(), &path).map_err(Error::io(&path))?;
        let text = serde_json::to_string(&mark).map_err(|error| Error::content(path.display().to_string(), error.to_string()))?;
        let mark_file = tempfile::Builder::new().prefix(INCOMING).tempfile_in(&parent).map_err(Error::io(&parent))?;
        fs::write(mark_file.path(), text).map_err(Error::io(mark_file.path()))?;
        let mark_path = mark_path(&path);
        mark_file.persist(&mark_path).map_err(|error| Error::Io { path: mark_path, source: error.error })?;
        Ok(path)
    }

    /// Removes every entry of the name but those digests; the name itself when none stays.
    pub fn retain(&self, name: &str, digests: &[Digest]) -> Result<(), Error> {
        let parent = self.root.join(checked(name)?);
        if !parent.is_dir() {
            return Ok(());
        }
        for entry in children(&parent)? {
            let text = entry.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let digest = text.strip_suffix(COMPLETE).unwrap_or(&text);
            if !digests.iter().any(|kept| kept.as_str() == digest) {
                remove(&entry)?;
            }
        }
        if digests.is_empty() {
            remove(&parent)?;
        }
        Ok(())
    }

    /// Removes the names that are not listed.
    pub fn retain_names<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<Vec<String>, Error> {
        let names: Vec<&str> = names.into_iter().collect();
        let mut removed = Vec::new();
        for entry in children(&self.root)? {
            let name = entry.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if !names.contains(&name.as_str()) {
                remove(&entry)?;
                removed.push(name);
            }
        }
        Ok(removed)
    }

    fn path(&self, name: &str, digest: &Digest) -> Result<PathBuf, Error> {
        Ok(self.root.join(checked(name)?).join(digest.as_str()))
    }
}

/// Names are those of Kubernetes objects; anything else could lead elsewhere.
fn checked(name: &str) -> Result<&str, Error> {
    let plain = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0']);
    if plain { Ok(name) } else { Err(Error::content(name, "is no name for a cache entry")) }
}

fn mark_path(content: &Path) -> PathBuf {
    let mut path = content.as_os_str().to_owned();
    path.push(COMPLETE);
    path.into()
}

/// Returns the reason for which an entry of a name cannot be used; `None` for good content and for marks.
fn unusable(entry: &Path) -> Result<Option<&'static str>, Error> {
    let name = entry.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if name.starts_with(INCOMING) {
        return Ok(Some("incomplete"));
    }
    let is_mark = name.ends_with(COMPLETE);
    let Ok(digest) = name.strip_suffix(COMPLETE).unwrap_or(&name).parse::<Digest>() else { return Ok(Some("foreign")) };
    if is_mark {
        return Ok((!entry.is_file()).then_some("foreign"));
    }
    if !is_directory(entry)? {
        return Ok(Some("foreign"));
    }
    let path = mark_path(entry);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Some("incomplete")),
        Err(error) => return Err(Error::Io { path, source: error }),
    };
    let Ok(mark) = serde_json::from_slice::<Mark>(&text) else { return Ok(Some("incomplete")) };
    Ok((mark.digest != digest || mark.tree != tree_digest(entry)?).then_some("changed since it was unpacked"))
}

/// A digest over the paths, kinds and contents of everything below a directory.
fn tree_digest(root: &Path) -> Result<Digest, Error> {
    let mut hasher = Hasher::like(None);
    let mut queue = vec![root.to_owned()];
    while let Some(directory) = queue.pop() {
        for path in children(&directory)? {
            let relative = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            let metadata = fs::symlink_metadata(&path).map_err(Error::io(&path))?;
            let (kind, size) = if metadata.is_dir() {
                ("directory", 0)
            } else if metadata.is_file() {
                ("file", metadata.len())
            } else {
                ("link", 0)
            };
            hasher.update(format!("{kind} {} {size} {relative}\n", relative.len()).as_bytes());
            match kind {
                "directory" => queue.push(path),
                "file" => {
                    let mut file = fs::File::open(&path).map_err(Error::io(&path))?;
                    let mut buffer = vec![0; 64 << 10];
                    loop {
                        let count = file.read(&mut buffer).map_err(Error::io(&path))?;
                        if count == 0 {
                            break;
                        }
                        hasher.update(&buffer[..count]);
                    }
                }
                _ => {
                    let target = fs::read_link(&path).map_err(Error::io(&path))?;
                    hasher.update(target.to_string_lossy().as_bytes());
                }
            }
        }
    }
    Ok(hasher.finish())
}

/// The entries of a directory, sorted.
fn children(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(directory).map_err(Error::io(directory))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, io::Error>>().map_err(Error::io(directory))?;
    paths.sort();
    Ok(paths)
}

fn is_directory(path: &Path) -> Result<bool, Error> {
    Ok(fs::symlink_metadata(path).map_err(Error::io(path))?.is_dir())
}

fn remove(path: &Path) -> Result<(), Error> {
    if !is_directory(path)? {
        return fs::remove_file(path).map_err(Error::io(path));
    }
    // A writer may still be about to end: a process that is being replaced, or work that was given up and not interrupted.
    for _ in 1..REMOVALS {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => std::thread::sleep(REMOVAL_PAUSE),
            outcome => return outcome.map_err(Error::io(path)),
        }
    }
    fs::remove_dir_all(path).map_err(Error::io(path))
}

fn discard(path: PathBuf, reason: &'static str, removed: &mut Vec<Removed>) -> Result<(), Error> {
    remove(&path)?;
    tracing::info!(path = %path.display(), reason, "removed from the cache");
    removed.push(Removed { path, reason });
    Ok(())
}
