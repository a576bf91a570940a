//! Containers that are processes of this machine, as the rest of this process knows them (KAPI-WL-07).

use std::fmt::Debug;
use std::io;

use bytes::Bytes;
use futures::stream::BoxStream;
use jiff::Timestamp;

/// The part of a log that is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// The container; empty if there is only one.
    pub container: String,
    /// The run before the last one.
    pub previous: bool,
    /// Goes on with what is added, until the container ends.
    pub follow: bool,
    /// Begins lines with their times.
    pub timestamps: bool,
    /// Lines from this time on.
    pub since: Option<Timestamp>,
    /// The last lines of those.
    pub tail: Option<u64>,
    /// The most bytes of the answer.
    pub limit: Option<u64>,
}

/// The log of a container.
pub enum Log {
    /// The container is simulated.
    Simulated,
    /// Its process has not begun to write one, or never ran.
    Missing,
    /// The log.
    Found(BoxStream<'static, io::Result<Bytes>>),
}

/// Access to containers that are processes.
pub trait Containers: Debug + Send + Sync + 'static {
    /// Opens the log of a container of a pod, of this image.
    fn log(&self, uid: &str, image: &str, options: &LogOptions) -> Log;

    /// Returns true if containers of an image are processes.
    fn is_process(&self, image: &str) -> bool;
}
