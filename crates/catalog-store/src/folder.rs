//! The files below a folder whose content may come from others: an author's tree, an unpacked image.
//!
//! A walk visits each entry once and never follows a link to a folder, so it ends after as many steps as there are entries. Links to files
//! are followed: anywhere for a folder that the user names (build tools make such trees, and `opm` follows them), and only to files inside of
//! the folder for content of an image, which must not be able to read its host's files. Entries, depth and bytes have limits, and a file that
//! several paths lead to is read once.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use mainstay_catalog::SourceError;

/// Permitted targets of links to files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// Anywhere: the user named the folder, and could have named the file.
    Anywhere,
    /// To files inside of the folder: it came from an image.
    Inside,
}

/// Limits on the content of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FolderLimits {
    /// Files and folders that are visited.
    pub entries: usize,
    /// Depth of nested folders.
    pub depth: usize,
    /// Bytes of one file that is read.
    pub file_bytes: u64,
    /// Bytes of all files; a file counts once for each path that leads to it.
    pub total_bytes: u64,
}

/// The reason for which a folder was not read. Paths are those below the folder.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The system's own error.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// A link of an image's content that leads out of the folder.
    #[error("{path}: symbolic link leads out of the folder that it came with")]
    Outside {
        /// The link.
        path: String,
    },
    /// A name that is not UTF-8.
    #[error("{path}: the name is not UTF-8")]
    Name {
        /// The name, with characters replaced that cannot be shown.
        path: String,
    },
    /// More than may be read.
    #[error("{path}: {what} {found}, and the limit is {limit}")]
    Limit {
        /// The file or folder at which the limit was met.
        path: String,
        /// The quantity that is counted.
        what: &'static str,
        /// The amount found, at least.
        found: u64,
        /// The permitted amount.
        limit: u64,
    },
}

impl From<FolderError> for SourceError {
    fn from(error: FolderError) -> Self {
        let text = error.to_string();
        match error {
            FolderError::Io { path, source } => Self { path, reason: source.to_string() },
            FolderError::Outside { path } | FolderError::Name { path } | FolderError::Limit { path, .. } => {
                let reason = text.strip_prefix(&format!("{path}: ")).unwrap_or(&text).to_owned();
                Self { path, reason }
            }
        }
    }
}

/// The target of a path below a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// A regular file.
    File,
    /// A link to a folder. It is not followed; reading it as a file fails, as it does in Go.
    FolderLink,
}

/// A folder to read from.
#[derive(Debug, Clone)]
pub struct Folder {
    root: PathBuf,
    links: Links,
    limits: FolderLimits,
    passed_over: fn(&str) -> bool,
}

impl Folder {
    /// Opens the folder at `root`; an error if that is not a folder.
    pub fn open(root: &Path, links: Links, limits: FolderLimits) -> Result<Self, FolderError> {
        let failed = |source| FolderError::Io { path: root.display().to_string(), source };
        let canonical = root.canonicalize().map_err(failed)?;
        if !canonical.is_dir() {
            return Err(failed(io::ErrorKind::NotADirectory.into()));
        }
        Ok(Self { root: canonical, links, limits, passed_over: |_| false })
    }

    /// Passes over folders whose names match.
    #[must_use]
    pub fn without(self, passed_over: fn(&str) -> bool) -> Self {
        Self { passed_over, ..self }
    }

    /// Returns the place of a path below the folder on this machine.
    pub fn place(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Lists everything below the folder that can be read, folder by folder, sorted by name.
    pub fn walk(&self) -> Result<Vec<(String, Found)>, FolderError> {
        self.walk_below("")
    }

    /// Lists everything below one folder in it, which may be a link; nothing if it is absent or a file. Paths are those below the whole.
    pub fn walk_below(&self, inner: &str) -> Result<Vec<(String, Found)>, FolderError> {
        let failed = |source| FolderError::Io { path: shown(inner), source };
        match fs::metadata(self.place(inner)) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => return Ok(Vec::new()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        }
        self.inside(inner)?;
        let mut found = Vec::new();
        let mut seen = 0;
        // Folders still to be walked, the next one last.
        let mut waiting = vec![(inner.to_owned(), 0)];
        while let Some((folder, depth)) = waiting.pop() {
            let mut folders = Vec::new();
            for (path, kind) in self.entries(&folder, &mut seen)? {
                if kind.is_dir() {
                    if (self.passed_over)(path.rsplit('/').next().unwrap_or(&path)) {
                        continue;
                    }
                    if depth >= self.limits.depth {
                        return Err(FolderError::Limit {
                            path,
                            what: "folders in one another:",
                            found: depth as u64 + 1,
                            limit: self.limits.depth as u64,
                        });
                    }
                    folders.push((path, depth + 1));
                } else if kind.is_file() {
                    found.push((path, Found::File));
                } else if kind.is_symlink() {
                    found.extend(self.link(&path)?.map(|found| (path, found)));
                }
            }
            waiting.extend(folders.into_iter().rev());
        }
        Ok(found)
    }

    /// Returns the entries of one folder by path, sorted.
    fn entries(&self, folder: &str, seen: &mut usize) -> Result<Vec<(String, fs::FileType)>, FolderError> {
        let failed = |source| FolderError::Io { path: shown(folder), source };
        let mut entries = Vec::new();
        for entry in fs::read_dir(self.place(folder)).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let path = |name: &str| if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
            let Some(plain) = name.to_str() else { return Err(FolderError::Name { path: path(&name.to_string_lossy()) }) };
            let path = path(plain);
            *seen += 1;
            if *seen > self.limits.entries {
                return Err(FolderError::Limit {
                    path,
                    what: "files and folders:",
                    found: *seen as u64,
                    limit: self.limits.entries as u64,
                });
            }
            let kind = entry.file_type().map_err(|source| FolderError::Io { path: path.clone(), source })?;
            entries.push((path, kind));
        }
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(entries)
    }

    /// Returns the target of a link; `None` if that is neither file nor folder.
    fn link(&self, path: &str) -> Result<Option<Found>, FolderError> {
        self.inside(path)?;
        let metadata = fs::metadata(self.place(path)).map_err(|source| FolderError::Io { path: path.to_owned(), source })?;
        Ok(if metadata.is_file() {
            Some(Found::File)
        } else if metadata.is_dir() {
            Some(Found::FolderLink)
        } else {
            None
        })
    }

    /// Refuses a path that leads out of an image's folder.
    fn inside(&self, path: &str) -> Result<(), FolderError> {
        if self.links == Links::Anywhere {
            return Ok(());
        }
        let target = self.place(path).canonicalize().map_err(|source| FolderError::Io { path: shown(path), source })?;
        if target.starts_with(&self.root) { Ok(()) } else { Err(FolderError::Outside { path: shown(path) }) }
    }

    /// Refuses files that together have more bytes than the limit, before any of them is read.
    pub fn weigh(&self, found: &[(String, Found)]) -> Result<(), FolderError> {
        let limit = self.limits.total_bytes;
        if limit == u64::MAX {
            return Ok(());
        }
        let mut total = 0_u64;
        for (path, _) in found.iter().filter(|(_, found)| *found == Found::File) {
            let metadata = fs::metadata(self.place(path)).map_err(|source| FolderError::Io { path: path.clone(), source })?;
            total = total.saturating_add(metadata.len());
            if total > limit {
                return Err(FolderError::Limit { path: path.clone(), what: TOGETHER, found: total, limit });
            }
        }
        Ok(())
    }

    /// Reads one file.
    pub fn read(&self, path: &str) -> Result<Vec<u8>, FolderError> {
        self.read_with(path, self.limits.total_bytes, None).map(|(bytes, _)| bytes)
    }

    /// Reads several files by path. A file that several paths lead to is read once, but counts for each of them.
    pub fn read_all(&self, paths: impl IntoIterator<Item = String>) -> Result<Vec<(String, Vec<u8>)>, FolderError> {
        let mut files: Vec<(String, Vec<u8>)> = Vec::new();
        let mut known: HashMap<(u64, u64), usize> = HashMap::new();
        let mut left = self.limits.total_bytes;
        for path in paths {
            let (bytes, file) = self.read_with(&path, left, Some((&known, &files)))?;
            left -= bytes.len() as u64;
            known.entry(file).or_insert(files.len());
            files.push((path, bytes));
        }
        Ok(files)
    }

    /// Reads the bytes of a file and its identity, unless they are known already.
    #[allow(clippy::type_complexity, reason = "what is known, by identity, and where it is")]
    fn read_with(
        &self,
        path: &str,
        left: u64,
        known: Option<(&HashMap<(u64, u64), usize>, &[(String, Vec<u8>)])>,
    ) -> Result<(Vec<u8>, (u64, u64)), FolderError> {
        let failed = |source| FolderError::Io { path: path.to_owned(), source };
        let full = self.place(path);
        let metadata = fs::metadata(&full).map_err(failed)?;
        let FolderLimits { file_bytes, total_bytes, .. } = self.limits;
        let fits = |size: u64| {
            let limit = |what, found, limit| FolderError::Limit { path: path.to_owned(), what, found, limit };
            if size > file_bytes {
                Err(limit("size in bytes:", size, file_bytes))
            } else if size > left {
                Err(limit(TOGETHER, (total_bytes - left).saturating_add(size), total_bytes))
            } else {
                Ok(())
            }
        };
        // A file without a size of its own, such as one in /proc, is measured as it is read.
        fits(metadata.len())?;
        let file = (metadata.dev(), metadata.ino());
        if let Some((known, files)) = known
            && let Some((_, bytes)) = known.get(&file).and_then(|index| files.get(*index))
        {
            fits(bytes.len() as u64)?;
            return Ok((bytes.clone(), file));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
        let most = file_bytes.min(left).saturating_add(1);
        File::open(&full).and_then(|opened| opened.take(most).read_to_end(&mut bytes)).map_err(failed)?;
        fits(bytes.len() as u64)?;
        Ok((bytes, file))
    }
}

const TOGETHER: &str = "size of this and the files before it in bytes:";

fn shown(path: &str) -> String {
    if path.is_empty() { ".".to_owned() } else { path.to_owned() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::symlink;

    use super::*;

    const LIMITS: FolderLimits = FolderLimits { entries: 50, depth: 3, file_bytes: 100, total_bytes: 250 };

    fn paths(folder: &Folder) -> Vec<String> {
        folder.walk().unwrap().into_iter().map(|(path, _)| path).collect()
    }

    fn refused(folder: &Folder) -> String {
        let files = folder.walk().and_then(|found| folder.read_all(found.into_iter().map(|(path, _)| path)));
        files.unwrap_err().to_string()
    }

    /// OLM1-FBC-02: links of folders to themselves make no walk longer: two of them are 2^40 folders to a walk that goes through links.
    #[test]
    fn a_walk_does_not_go_through_links_to_folders() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("x")).unwrap();
        for link in ["x/a", "x/b"] {
            symlink(".", root.path().join(link)).unwrap();
        }
        fs::write(root.path().join("x/c"), "c").unwrap();
        for links in [Links::Anywhere, Links::Inside] {
            let folder = Folder::open(root.path(), links, LIMITS).unwrap();
            let expected = [("x/a", Found::FolderLink), ("x/b", Found::FolderLink), ("x/c", Found::File)];
            assert_eq!(folder.walk().unwrap(), expected.map(|(path, found)| (path.to_owned(), found)));
        }
    }

    /// What many links lead to is refused by what it would take in memory, and its size is known before it is read.
    #[test]
    fn links_count_for_what_they_lead_to() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a"), [0; 90]).unwrap();
        symlink("a", root.path().join("b")).unwrap();
        let folder = Folder::open(root.path(), Links::Inside, LIMITS).unwrap();
        assert_eq!(folder.read_all(paths(&folder)).unwrap().len(), 2);
        symlink("b", root.path().join("c")).unwrap();
        let found = folder.walk().unwrap();
        assert_eq!(folder.weigh(&found).unwrap_err().to_string(), refused(&folder));
        assert_eq!(refused(&folder), "c: size of this and the files before it in bytes: 270, and the limit is 250");

        // A sparse file takes no room on the disk; nothing of it is read.
        File::create(root.path().join("a")).unwrap().set_len(300 << 30).unwrap();
        assert_eq!(refused(&folder), "a: size in bytes: 322122547200, and the limit is 100");
    }

    #[test]
    fn entries_and_depth_have_limits() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("1/2/3")).unwrap();
        let folder = Folder::open(root.path(), Links::Inside, LIMITS).unwrap();
        assert!(paths(&folder).is_empty());
        fs::create_dir_all(root.path().join("1/2/3/4")).unwrap();
        assert_eq!(refused(&folder), "1/2/3/4: folders in one another: 4, and the limit is 3");
        fs::remove_dir(root.path().join("1/2/3/4")).unwrap();
        for number in 0..48 {
            fs::write(root.path().join(format!("f{number:02}")), "").unwrap();
        }
        assert!(refused(&folder).ends_with("files and folders: 51, and the limit is 50"));
    }

    /// CATLG-32: a link out of the folder is followed for who named the folder, and refused in what came from an image.
    #[test]
    fn links_out_of_the_folder() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("in");
        fs::create_dir(&inner).unwrap();
        fs::write(root.path().join("secret"), "s").unwrap();
        symlink("../secret", inner.join("link")).unwrap();
        let open = |links| Folder::open(&inner, links, LIMITS).unwrap();
        assert_eq!(open(Links::Anywhere).read("link").unwrap(), b"s");
        assert_eq!(paths(&open(Links::Anywhere)), ["link"]);
        assert_eq!(refused(&open(Links::Inside)), "link: symbolic link leads out of the folder that it came with");
        fs::remove_file(inner.join("link")).unwrap();
        symlink("..", inner.join("up")).unwrap();
        assert!(open(Links::Inside).walk_below("up").is_err());
        assert_eq!(open(Links::Anywhere).walk_below("absent").unwrap(), []);
    }
}
