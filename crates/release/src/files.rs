//! The files of a payload, as they are handed in: read from a directory, a tar stream, an image (CVO-REL-08).

use std::collections::BTreeMap;

use crate::file_name::FileName;

/// The folder of the operator's own manifests.
const OPERATOR: &str = "manifests";
/// The folder of everything else.
const RELEASE: &str = "release-manifests";
/// The most files of a payload; those of OpenShift have about 700.
const MAX_FILES: usize = 20_000;
/// The largest file, in bytes.
const MAX_FILE: usize = 16 << 20;
/// The most bytes of all files.
const MAX_BYTES: usize = 256 << 20;

/// One of the two folders of a release image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Folder {
    /// `/manifests`: the operator's own manifests, which are templates.
    Operator,
    /// `/release-manifests`: everything else.
    Release,
}

impl Folder {
    /// Returns the name of the folder in the image.
    pub fn name(self) -> &'static str {
        match self {
            Self::Operator => OPERATOR,
            Self::Release => RELEASE,
        }
    }
}

/// The files of both folders. Sub-folders and everything outside of the two are left out.
#[derive(Clone, Debug, Default)]
pub struct Files {
    by_place: BTreeMap<(Folder, String), Vec<u8>>,
    bytes: usize,
    has_operator: bool,
    has_release: bool,
}

/// A payload that is larger than any that is read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilesError {
    /// Too many files.
    #[error("more than {MAX_FILES} files")]
    Count,
    /// One file is too large.
    #[error("{path}: {bytes} bytes, more than {MAX_FILE}")]
    File {
        /// The path in the image.
        path: String,
        /// The size of the file.
        bytes: usize,
    },
    /// All files together are too large.
    #[error("more than {MAX_BYTES} bytes in all")]
    Bytes,
}

impl Files {
    /// Returns whether a file with this path is part of a payload, so that a reader need not read others.
    pub fn wants(path: &str) -> bool {
        place(path).is_some()
    }

    /// Adds a file by its path in the image; a file of a later layer takes the place of an earlier one. A path that is not a payload's is ignored.
    pub fn add(&mut self, path: &str, content: Vec<u8>) -> Result<(), FilesError> {
        let Some((folder, name)) = place(path) else { return Ok(()) };
        self.seen(folder);
        if content.len() > MAX_FILE {
            return Err(FilesError::File { path: path.to_owned(), bytes: content.len() });
        }
        self.bytes += content.len();
        if let Some(before) = self.by_place.insert((folder, name.to_owned()), content) {
            self.bytes -= before.len();
        }
        if self.by_place.len() > MAX_FILES {
            return Err(FilesError::Count);
        }
        if self.bytes > MAX_BYTES { Err(FilesError::Bytes) } else { Ok(()) }
    }

    /// Removes a file: a later layer of the image deletes it.
    pub fn remove(&mut self, path: &str) {
        if let Some((folder, name)) = place(path)
            && let Some(before) = self.by_place.remove(&(folder, name.to_owned()))
        {
            self.bytes -= before.len();
        }
    }

    /// Notes that a folder is there, even if it is empty.
    pub fn seen(&mut self, folder: Folder) {
        match folder {
            Folder::Operator => self.has_operator = true,
            Folder::Release => self.has_release = true,
        }
    }

    /// Returns whether the folder is there.
    pub fn has(&self, folder: Folder) -> bool {
        match folder {
            Folder::Operator => self.has_operator,
            Folder::Release => self.has_release,
        }
    }

    /// Returns a file of the release folder.
    pub fn release(&self, name: &str) -> Option<&[u8]> {
        self.by_place.get(&(Folder::Release, name.to_owned())).map(Vec::as_slice)
    }

    /// Returns the files of one folder as they are in the image, by name.
    pub fn in_folder(&self, folder: Folder) -> impl Iterator<Item = (&str, &[u8])> {
        let files = self.by_place.iter().filter(move |((other, _), _)| *other == folder);
        files.map(|((_, name), content)| (name.as_str(), content.as_slice()))
    }

    /// Returns all files in load order: the operator's own first, each folder by name (CVO-REL-05).
    ///
    /// A folder written by `oc adm release extract` has all manifests in one place. The operator's own are then known by their component.
    pub fn ordered(&self) -> impl Iterator<Item = (Folder, &str, &[u8])> {
        let own = |folder: Folder, name: &str| {
            folder == Folder::Operator
                || !self.has_operator && FileName::parse(name).is_some_and(|parsed| parsed.component == "cluster-version-operator")
        };
        let of = move |wanted: Folder| {
            self.by_place.iter().filter_map(move |((folder, name), content)| {
                let belongs = if own(*folder, name) { Folder::Operator } else { Folder::Release };
                (belongs == wanted).then_some((wanted, name.as_str(), content.as_slice()))
            })
        };
        of(Folder::Operator).chain(of(Folder::Release))
    }
}

/// Splits a path into folder and name.
fn place(path: &str) -> Option<(Folder, &str)> {
    let path = path.trim_start_matches("./").trim_start_matches('/');
    let (folder, name) = path.split_once('/')?;
    let folder = match folder {
        OPERATOR => Folder::Operator,
        RELEASE => Folder::Release,
        _ => return None,
    };
    (!name.is_empty() && !name.contains('/')).then_some((folder, name))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// CVO-REL-04, CVO-REL-05, CVO-REL-08: the operator's folder comes first, sub-folders and other paths are left out, later layers win.
    #[test]
    fn order_of_files() {
        let mut files = Files::default();
        for (path, content) in [
            ("release-manifests/b.yaml", "1"),
            ("./release-manifests/a.yaml", "2"),
            ("/manifests/z.yaml", "3"),
            ("release-manifests/more/c.yaml", "4"),
            ("etc/passwd", "5"),
            ("release-manifests/b.yaml", "6"),
        ] {
            assert_eq!(files.add(path, content.into()), Ok(()));
        }
        let all: Vec<_> = files.ordered().map(|(folder, name, content)| (folder.name(), name, content)).collect();
        let expected: [(&str, &str, &[u8]); 3] =
            [("manifests", "z.yaml", b"3"), ("release-manifests", "a.yaml", b"2"), ("release-manifests", "b.yaml", b"6")];
        assert_eq!(all, expected);
        files.remove("release-manifests/a.yaml");
        assert_eq!(files.ordered().count(), 2);
    }

    /// CVO-REL-08: what `release extract` wrote has one folder.
    #[test]
    fn extracted_folders() {
        let mut files = Files::default();
        for name in ["0000_00_a_x.yaml", "0000_90_cluster-version-operator_x.yaml", "0000_00_cluster-version-operator-x_y.yaml"] {
            files.add(&format!("release-manifests/{name}"), Vec::new()).unwrap();
        }
        let names: Vec<_> = files.ordered().map(|(folder, name, _)| (folder, name)).collect();
        assert_eq!(names[0], (Folder::Operator, "0000_90_cluster-version-operator_x.yaml"));
        assert_eq!(names.len(), 3);
    }

    #[test]
    fn limits() {
        let mut files = Files::default();
        assert!(matches!(files.add("manifests/a", vec![0; MAX_FILE + 1]), Err(FilesError::File { .. })));
        for number in 0..16 {
            files.add(&format!("manifests/{number}"), vec![0; MAX_FILE]).unwrap();
        }
        assert_eq!(files.add("manifests/more", vec![0]), Err(FilesError::Bytes));
    }
}
