//! The encoded forms of one change, each made by the first watcher that needs it and shared by all that follow (KAPI-WATCH-02).

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use crate::error::Result;
use crate::request::negotiate::{Format, MetaVersion, Shape};
use crate::request::options::Include;

/// The parts that tell two encodings of a change apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// The number of the resource in the version that is asked for; schema and columns with it. The cache knows no resource: no two that
    /// were ever served have the same number.
    pub served: u64,
    /// `ADDED`, `MODIFIED` or `DELETED`: selectors turn one into another.
    pub kind: &'static str,
    /// The encoding.
    pub format: Format,
    /// The transformation.
    pub shape: Shape,
    /// The version of what it is transformed into.
    pub meta: MetaVersion,
    /// The parts of objects that the rows of a table hold beside their cells.
    pub include: Include,
}

/// The most forms that are kept: more than clients of a cluster ask for.
const KEPT: usize = 16;

/// The forms that were made.
#[derive(Default)]
pub struct Frames(Mutex<Vec<(Form, Bytes)>>);

impl Frames {
    /// The change in a form. Who comes while it is being made waits for it rather than to make it, too.
    pub fn get_or_make(&self, form: &Form, make: impl FnOnce() -> Result<Bytes>) -> Result<Bytes> {
        let mut frames = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, frame)) = frames.iter().find(|(kept, _)| kept == form) {
            return Ok(frame.clone());
        }
        let frame = make()?;
        if frames.len() < KEPT {
            frames.push((*form, frame.clone()));
        }
        Ok(frame)
    }
}

impl std::fmt::Debug for Frames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Frames").finish_non_exhaustive()
    }
}
