use std::path::PathBuf;

use crate::{KeyValue, Revision};

/// Why the store did not do as asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The key is not as the writer expected; `found` is what it is.
    #[error("key {key} has changed")]
    Conflict {
        /// The key.
        key: String,
        /// What is there; `None` when nothing is.
        found: Option<Box<KeyValue>>,
    },
    /// The revision's history was dropped.
    #[error("revision {asked} has been compacted (oldest: {oldest})")]
    Compacted {
        /// What was asked for.
        asked: Revision,
        /// What is still there.
        oldest: Revision,
    },
    /// The revision has not happened yet.
    #[error("revision {asked} is in the future (latest: {latest})")]
    Future {
        /// What was asked for.
        asked: Revision,
        /// What is there.
        latest: Revision,
    },
    /// Another process holds the file.
    #[error("{path} is in use by another process")]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The file's content is not what was written.
    #[error("{path} is damaged: {problem}; restore a backup, or move the file away to start empty")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What was found.
        problem: String,
    },
    /// The file was written by a newer program.
    #[error("{path} has format {found}, this program reads format {known}; use the program that wrote it")]
    Format {
        /// The file.
        path: PathBuf,
        /// The file's format.
        found: u64,
        /// The format this program reads.
        known: u64,
    },
    /// A key with a NUL, or an empty one.
    #[error("key {key:?} is not usable: keys are non-empty text without NUL")]
    Key {
        /// The key.
        key: String,
    },
    /// The disk or the file system failed.
    #[error("{path}: {action} failed")]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// Why.
        #[source]
        source: Box<redb::Error>,
    },
    /// The store was closed, or its writer ended after a failure that the log names.
    #[error("the store is closed")]
    Closed,
}
