//! Unfinished uploads. They are held in memory, so their number is limited, and idle ones expire.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Limits on unfinished uploads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UploadLimits {
    /// Uploads at a time.
    pub count: usize,
    /// Bytes of all uploads and of incoming requests, together.
    pub bytes: u64,
    /// Time that an upload may wait for its next piece.
    pub idle: Duration,
}

impl Default for UploadLimits {
    fn default() -> Self {
        Self { count: 256, bytes: 4 << 30, idle: Duration::from_secs(15 * 60) }
    }
}

/// Reason for which an upload is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// It never existed, is finished, expired, or belongs to another repository.
    Unknown,
    /// There are too many uploads, or they are too large together.
    Full,
}

/// The uploads, by their number.
#[derive(Default)]
pub(super) struct Uploads {
    limits: UploadLimits,
    held: Arc<AtomicU64>,
    known: Mutex<HashMap<String, Upload>>,
}

struct Upload {
    repository: String,
    bytes: Pending,
    touched: Instant,
}

/// Bytes that count against the limit of all uploads, until they are dropped.
pub(super) struct Pending {
    bytes: Vec<u8>,
    held: Arc<AtomicU64>,
    limit: u64,
}

impl Pending {
    /// Appends more bytes, if the limit of all uploads allows it.
    pub(super) fn extend(&mut self, more: &[u8]) -> Result<(), Refused> {
        let count = more.len() as u64;
        let add = |held: u64| held.checked_add(count).filter(|held| *held <= self.limit);
        self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).map_err(|_| Refused::Full)?;
        self.bytes.extend_from_slice(more);
        Ok(())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends another piece, whose bytes were counted already.
    fn append(&mut self, mut other: Self) {
        if self.bytes.is_empty() {
            std::mem::swap(&mut self.bytes, &mut other.bytes);
        } else {
            self.bytes.append(&mut other.bytes);
        }
        // The other's bytes belong to this one now, and are given back once.
    }

    /// The bytes, which are no longer pending.
    pub(super) fn into_bytes(mut self) -> Vec<u8> {
        self.held.fetch_sub(self.bytes.len() as u64, Ordering::Relaxed);
        std::mem::take(&mut self.bytes)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes.len() as u64, Ordering::Relaxed);
    }
}

impl Uploads {
    pub(super) fn new(limits: UploadLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// An empty piece.
    pub(super) fn pending(&self) -> Pending {
        Pending { bytes: Vec::new(), held: self.held.clone(), limit: self.limits.bytes }
    }

    /// Bytes that are held.
    #[cfg(test)]
    fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Drops the uploads that were idle for too long.
    pub(super) fn expire(&self) {
        let idle = self.limits.idle;
        self.lock().retain(|_, upload| upload.touched.elapsed() < idle);
    }

    pub(super) fn start(&self, repository: &str) -> Result<String, Refused> {
        self.expire();
        let mut known = self.lock();
        if known.len() >= self.limits.count {
            return Err(Refused::Full);
        }
        let id = uuid::Uuid::new_v4().to_string();
        known.insert(id.clone(), Upload { repository: repository.to_owned(), bytes: self.pending(), touched: Instant::now() });
        Ok(id)
    }

    /// Appends a piece, and returns the size so far.
    pub(super) fn append(&self, repository: &str, id: &str, piece: Pending) -> Result<usize, Refused> {
        self.expire();
        let mut known = self.lock();
        let upload = known.get_mut(id).filter(|upload| upload.repository == repository).ok_or(Refused::Unknown)?;
        upload.bytes.append(piece);
        upload.touched = Instant::now();
        Ok(upload.bytes.len())
    }

    pub(super) fn finish(&self, repository: &str, id: &str) -> Result<Pending, Refused> {
        let mut known = self.lock();
        known.get(id).filter(|upload| upload.repository == repository).ok_or(Refused::Unknown)?;
        known.remove(id).map(|upload| upload.bytes).ok_or(Refused::Unknown)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Upload>> {
        // Every change is one insertion or removal, so the map is whole even after a panic.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn piece(uploads: &Uploads, size: usize) -> Result<Pending, Refused> {
        let mut pending = uploads.pending();
        pending.extend(&vec![0; size]).map(|()| pending)
    }

    /// A4: uploads that nobody finishes go after a while, with what they hold; one that goes on stays.
    #[tokio::test(start_paused = true)]
    async fn unfinished_uploads_expire() {
        let uploads = Uploads::new(UploadLimits { count: 3, bytes: 100, idle: Duration::from_secs(60) });
        let kept = uploads.start("a").unwrap();
        for _ in 0..2 {
            let lost = uploads.start("a").unwrap();
            uploads.append("a", &lost, piece(&uploads, 40).unwrap()).unwrap();
        }
        assert_eq!(uploads.start("b"), Err(Refused::Full));
        assert_eq!(piece(&uploads, 21).map(|_| ()), Err(Refused::Full));
        assert_eq!(uploads.held(), 80);
        tokio::time::advance(Duration::from_secs(59)).await;
        assert_eq!(uploads.append("a", &kept, piece(&uploads, 20).unwrap()), Ok(20));
        tokio::time::advance(Duration::from_secs(59)).await;
        // As each request does first.
        uploads.expire();
        assert_eq!(uploads.append("a", &kept, piece(&uploads, 40).unwrap()), Ok(60));
        assert_eq!(uploads.held(), 60);
        assert_eq!(uploads.append("other", &kept, piece(&uploads, 1).unwrap()), Err(Refused::Unknown));
        assert_eq!(uploads.finish("a", &kept).unwrap().into_bytes().len(), 60);
        assert_eq!(uploads.held(), 0);
        assert!(uploads.start("b").is_ok());
    }
}
