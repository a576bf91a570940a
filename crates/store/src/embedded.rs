//! The embedded engine: a log on disk, an index in memory, one writer thread, any number of readers.
//!
//! ```text
//!                     ┌─ prepare ─► append + sync ─► take in ─► acknowledge, broadcast        (store-writer)
//!   put, delete ─────►│                 │               │
//!                     └ all that waits  ▼               ▼
//!                              0...7.log │ 0...8.log   index: key -> latest value; revision -> place
//!                                        │                ▲               │
//!   get, list ──────────────────────────────────────────► │   older: read from the place
//!   watch: past from places, then broadcasts              │
//!                              0...1234.snapshot ◄────── compaction: forget, snapshot, remove      (store-compactor)
//! ```
//!
//! * **Writing.** All pending writes are compared with the index, become one frame, and are appended to the segment of the log and synced,
//!   once for all; only then do readers see them and writers get their answers. Space is reserved ahead, so that a sync has no file length to write.
//! * **Reading.** The latest value of every key is held in memory, and shared with its readers (a watch cache above holds no
//!   second copy). Older values are read from the log, along a chain of places.
//! * **Forgetting.** Compaction drops places of history; the files shrink when enough of them is garbage: a snapshot of every key as of
//!   the compacted revision is written beside the log, and segments that end before it are removed. Writes go on meanwhile.
//! * **Crashes.** Frames carry checksums. The last frame of the log may be torn if it was not acknowledged; it is cut off. Any other damage is
//!   reported with file, offset and revision. A note beside the log says what was acknowledged, see `synced`. File names appear only when a
//!   file is whole (written, synced, renamed, folder synced), and revisions without a gap show that no file is missing, so there is no
//!   manifest to go wrong.
//! * **Failing disks.** After a failed write or sync the segment is abandoned, see `log`; a full disk fails writes until there is space.
//!
//! Why not a B-tree in one file: redb 4, which was here before, needs several page writes and two syncs for a commit and holds every
//! value a second time in its page cache. `examples/measure.rs` measures; BENCHMARKS.md has the server's results.

mod compactor;
pub(crate) mod disk;
pub(crate) mod file;
mod index;
mod log;
mod reader;
mod recover;
#[cfg(test)]
mod simulated;
mod snapshot;
mod synced;
#[cfg(test)]
mod tests;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use disk::{Disk, Folder};
use index::Index;
pub(crate) use reader::Reader;
use writer::{Command, Write, Writer};

use crate::record::{KEY_LIMIT, VALUE_LIMIT};
use crate::watch::{Commit, Follow};
use crate::{Error, Expect, KeyValue, Listing, Range, Revision, Store, StoreMetrics, Watch};

/// Commits that a watch may lag behind before it reads the log instead.
const RING: usize = 256;
/// Writes that may wait for the writer; further writers wait to be let in.
const QUEUE: usize = 1_024;
/// Time for which the success or failure of a write predicts the outcome of the next one.
const PROVEN: Duration = Duration::from_secs(5);
const REFUTED: Duration = Duration::from_secs(1);

/// Settings of the engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// History younger than this is kept.
    pub keep_age: Duration,
    /// At least so many revisions of history are kept.
    pub keep_revisions: u64,
    /// Interval of compaction.
    pub compact_every: Duration,
    /// Bytes of one segment of the log.
    pub segment_bytes: u64,
    /// Bytes of garbage that are worth a snapshot, if the garbage also takes at least as many bytes as what is kept.
    pub garbage_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            keep_age: Duration::from_secs(300),
            keep_revisions: 10_000,
            compact_every: Duration::from_secs(60),
            segment_bytes: 16 << 20,
            garbage_bytes: 64 << 20,
        }
    }
}

/// A store in a folder.
pub struct Embedded {
    shared: Arc<Shared>,
    reader: Arc<Reader>,
    commands: Mutex<Option<mpsc::Sender<Command>>>,
    compactions: Mutex<Option<compactor::Requests>>,
    commits: broadcast::WeakSender<Arc<Commit>>,
    revision: watch::Receiver<Revision>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// State that readers, the writer and the compactor share.
pub(crate) struct Shared {
    disk: Arc<dyn Disk>,
    index: RwLock<Index>,
    files: Mutex<compactor::Files>,
    ending: AtomicBool,
    commit_count: AtomicU64,
    write_count: AtomicU64,
    /// Bytes of the segment that is written to.
    active_bytes: AtomicU64,
    /// The time of the last write, and its outcome.
    health: Mutex<(Instant, Result<(), Error>)>,
}

impl Shared {
    /// Outcome of the latest write, if it is recent enough to predict the next one.
    fn health(&self) -> Option<Result<(), Error>> {
        let health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        match &*health {
            (at, Ok(())) if at.elapsed() < PROVEN => Some(Ok(())),
            (at, Err(error)) if at.elapsed() < REFUTED => Some(Err(error.again())),
            _ => None,
        }
    }

    /// Returns true if the last write failed.
    fn fails(&self) -> bool {
        self.health.lock().unwrap_or_else(PoisonError::into_inner).1.is_err()
    }

    /// Pretends that the latest write was so long ago.
    #[cfg(test)]
    fn set_health_age(&self, age: Duration) {
        if let (Ok(mut health), Some(then)) = (self.health.lock(), Instant::now().checked_sub(age)) {
            health.0 = then;
        }
    }

    fn set_health(&self, outcome: Result<(), Error>) {
        *self.health.lock().unwrap_or_else(PoisonError::into_inner) = (Instant::now(), outcome);
    }

    /// The index, to read. Nothing panics while it is held to write, so a poisoned lock would still guard a whole index.
    fn index(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn files(&self) -> std::sync::MutexGuard<'_, compactor::Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Embedded {
    /// Opens the folder, or creates it. Recovers from a crash by itself: only what was not acknowledged may be missing.
    pub fn open(path: &Path, options: &Options) -> Result<Self, Error> {
        Self::on(Arc::new(Folder::open(path)?), options)
    }

    /// Returns true if a folder holds a store.
    pub fn is_at(path: &Path) -> bool {
        let of_a_store = |name: &str| file::numbered(name, ".log").is_some() || file::numbered(name, ".snapshot").is_some();
        std::fs::read_dir(path)
            .is_ok_and(|mut entries| entries.any(|entry| entry.is_ok_and(|entry| of_a_store(&entry.file_name().to_string_lossy()))))
    }

    /// Makes a new store of keys as of one revision, for a backup; the folder must hold none. `fill` hands over the keys in order. Earlier revisions
    /// count as compacted. The store is there as a whole, or not at all.
    pub(crate) fn create<T>(
        path: &Path,
        revision: Revision,
        fill: impl FnOnce(&mut dyn FnMut(&KeyValue) -> Result<(), Error>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let folder = Folder::open(path)?;
        if Self::is_at(path) {
            return Err(Error::io(path, "creating a store", std::io::Error::from(std::io::ErrorKind::AlreadyExists)));
        }
        let failed = |source| Error::io(path, "writing a snapshot", source);
        if folder.names().map_err(failed)?.iter().any(|name| name == synced::NAME) {
            // The note of a store that was here before says nothing of this one.
            folder.remove(synced::NAME).map_err(failed)?;
        }
        let mut snapshot = snapshot::Snapshot::begin(&folder, revision, 0).map_err(failed)?;
        match fill(&mut |kv| snapshot.push(kv).map_err(failed)) {
            Ok(value) => snapshot.finish().map(|_| value).map_err(failed),
            Err(error) => {
                snapshot.discard();
                Err(error)
            }
        }
    }

    fn on(disk: Arc<dyn Disk>, options: &Options) -> Result<Self, Error> {
        let recovered = recover::open(disk.clone(), options.segment_bytes)?;
        let (index, log) = (recovered.index, recovered.log);
        let (revision_sender, revision) = watch::channel(index.revision);
        let (commits, _) = broadcast::channel(RING);
        let weak = commits.downgrade();
        let (sender, receiver) = mpsc::channel(QUEUE);
        let active = log.active.as_ref().map_or(0, |active| active.end);
        let next_file = log.next_file.clone();
        let shared = Arc::new(Shared {
            disk,
            index: RwLock::new(index),
            files: Mutex::new(compactor::Files { closed: recovered.closed, snapshot: recovered.snapshot }),
            ending: AtomicBool::new(false),
            commit_count: AtomicU64::new(0),
            write_count: AtomicU64::new(0),
            active_bytes: AtomicU64::new(active),
            health: Mutex::new((Instant::now(), Ok(()))),
        });
        let reader = Arc::new(Reader::new(shared.clone()));
        let failed = |source| Error::io(&shared.disk.path(""), "starting a thread", source);
        let timer = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(failed)?;
        let writer = Writer { shared: shared.clone(), log, synced: recovered.synced, commits, revision: revision_sender };
        let (requests, asked) = compactor::requests();
        let compactor = compactor::Compactor {
            shared: shared.clone(),
            reader: reader.clone(),
            options: options.clone(),
            writer: sender.downgrade(),
            next_file,
        };
        let threads = vec![
            std::thread::Builder::new().name("store-writer".into()).spawn(move || writer.run(&timer, receiver)).map_err(failed)?,
            std::thread::Builder::new().name("store-compactor".into()).spawn(move || compactor.run(&asked)).map_err(failed)?,
        ];
        Ok(Self {
            shared,
            reader,
            commands: Mutex::new(Some(sender)),
            compactions: Mutex::new(Some(requests)),
            commits: weak,
            revision,
            threads: Mutex::new(threads),
        })
    }

    async fn write(&self, key: &str, value: Option<Bytes>, expect: Expect) -> Result<(KeyValue, Revision), Error> {
        if key.is_empty() || key.contains('\0') {
            return Err(Error::Key { key: key.to_owned() });
        }
        if key.len() > KEY_LIMIT || value.as_ref().is_some_and(|value| value.len() > VALUE_LIMIT) {
            return Err(Error::TooLarge { key: key.to_owned(), limit: VALUE_LIMIT });
        }
        let sender = self.commands.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or(Error::Closed)?;
        let (reply, answer) = oneshot::channel();
        let write = Write { key: key.to_owned(), value, expect };
        sender.send(Command::Write(write, reply)).await.map_err(|_| Error::Closed)?;
        drop(sender);
        answer.await.map_err(|_| Error::Closed)?
    }

    /// Tells both threads to stop; they do so once the work they have begun is done.
    fn end(&self) -> Vec<JoinHandle<()>> {
        self.shared.ending.store(true, Ordering::Release);
        self.compactions.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.commands.lock().unwrap_or_else(PoisonError::into_inner).take();
        std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn join(&self, threads: Vec<JoinHandle<()>>) {
        for thread in threads {
            let name = thread.thread().name().unwrap_or_default().to_owned();
            if thread.join().is_err() {
                tracing::error!(path = %self.path().display(), name, "a thread of the store ended abnormally");
            }
        }
    }

    fn path(&self) -> PathBuf {
        self.shared.disk.path("")
    }
}

#[async_trait]
impl Store for Embedded {
    fn revision(&self) -> watch::Receiver<Revision> {
        self.revision.clone()
    }

    async fn get(&self, key: &str) -> Result<(Option<KeyValue>, Revision), Error> {
        let index = self.shared.index();
        Ok((index.state(key).map(|live| live.of(key)), index.revision))
    }

    async fn list(&self, range: Range) -> Result<Listing, Error> {
        if range.revision.is_none() && range.limit > 0 && range.limit <= reader::AT_ONCE {
            // A page of what is in memory; handing it to another thread would cost more than reading it.
            return self.reader.list(&range);
        }
        self.reader.clone().blocking(move |reader| reader.list(&range)).await
    }

    async fn put(&self, key: &str, value: Bytes, expect: Expect) -> Result<KeyValue, Error> {
        self.write(key, Some(value), expect).await.map(|(kv, _)| kv)
    }

    async fn delete(&self, key: &str, expect: Expect) -> Result<(KeyValue, Revision), Error> {
        self.write(key, None, expect).await
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, Error> {
        let latest = *self.revision.borrow();
        if after > latest {
            return Err(Error::Future { asked: after, latest });
        }
        // Subscribed before the log is read: what is committed in between is seen twice and dropped once.
        let commits = self.commits.upgrade().ok_or(Error::Closed)?.subscribe();
        // Nothing ever happened before the first revision.
        let after = after.max(1);
        self.reader.check_compacted(after)?;
        Ok(Watch::new(Follow::new(prefix.to_owned(), after, commits, self.reader.clone())))
    }

    async fn writable(&self) -> Result<(), Error> {
        if let Some(outcome) = self.shared.health() {
            return outcome;
        }
        let sender = self.commands.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or(Error::Closed)?;
        let (reply, answer) = oneshot::channel();
        sender.send(Command::Prove(reply)).await.map_err(|_| Error::Closed)?;
        drop(sender);
        answer.await.map_err(|_| Error::Closed)?
    }

    async fn compact(&self, revision: Revision) -> Result<(), Error> {
        let requests = self.compactions.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or(Error::Closed)?;
        let (reply, answer) = oneshot::channel();
        requests.send((revision, reply)).map_err(|_| Error::Closed)?;
        drop(requests);
        answer.await.map_err(|_| Error::Closed)?
    }

    async fn metrics(&self) -> Result<StoreMetrics, Error> {
        let files = self.shared.files().bytes();
        let index = self.shared.index();
        Ok(StoreMetrics {
            keys: index.live,
            bytes: files + self.shared.active_bytes.load(Ordering::Relaxed),
            revision: index.revision,
            compacted: index.compacted,
            commits: self.shared.commit_count.load(Ordering::Relaxed),
            writes: self.shared.write_count.load(Ordering::Relaxed),
        })
    }

    async fn close(&self) {
        let threads = self.end();
        // The runtime's threads are for others; and a write in flight may wait for its disk.
        let done = tokio::task::spawn_blocking(move || threads.into_iter().all(|thread| thread.join().is_ok())).await;
        if !matches!(done, Ok(true)) {
            tracing::error!(path = %self.path().display(), "a thread of the store ended abnormally");
        }
    }
}

impl Drop for Embedded {
    /// Releases the folder before the value is gone; waits at most for what is in flight.
    fn drop(&mut self) {
        let threads = self.end();
        self.join(threads);
    }
}
