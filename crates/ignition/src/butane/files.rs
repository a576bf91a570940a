//! Files beside a config, as far as it may embed them.

/// Why a file cannot be embedded, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilesError {
    /// No folder was given.
    #[error("local file paths are relative to a files directory that must be specified with -d/--files-dir")]
    NoFolder,
    /// The path leads out of the folder.
    #[error("local file path traverses outside the files directory")]
    Outside,
    /// The root of a tree is no folder.
    #[error("root of tree must be a directory")]
    NoTree,
    /// Something in a tree is neither file nor folder nor link.
    #[error("trees may only contain files, directories, and symlinks")]
    Kind,
    /// It cannot be read.
    #[error("{0}")]
    Unreadable(String),
}

/// Something in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its path below the root of the tree.
    pub path: String,
    /// Its kind; or that it cannot be embedded.
    pub kind: Result<EntryKind, FilesError>,
}

/// The kind of an entry in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A file.
    File {
        /// Its content.
        content: Vec<u8>,
        /// True if anyone may execute it.
        executable: bool,
    },
    /// A link.
    Link {
        /// Where it leads.
        target: String,
    },
}

/// A folder with files.
pub trait Files {
    /// The content of a file.
    fn read(&self, path: &str) -> Result<Vec<u8>, FilesError>;

    /// Files and links of a tree, by path; folders are left out.
    fn tree(&self, path: &str) -> Result<Vec<Entry>, FilesError>;

    /// Returns true if there is a folder at all.
    fn is_given(&self) -> bool {
        true
    }
}

/// No folder.
#[derive(Clone, Copy, Debug)]
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _path: &str) -> Result<Vec<u8>, FilesError> {
        Err(FilesError::NoFolder)
    }

    fn tree(&self, _path: &str) -> Result<Vec<Entry>, FilesError> {
        Err(FilesError::NoFolder)
    }

    fn is_given(&self) -> bool {
        false
    }
}
