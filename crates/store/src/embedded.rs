//! The embedded engine: one redb file, one writer thread, any number of readers.
//!
//! Tables: `objects` (key -> latest record), `versions` ((key, revision) -> overwritten record, or an empty one where the key was
//! deleted), `log` (revision -> what happened), `meta`. A value moves from `objects` to `versions` when it is overwritten, so it is
//! stored once; compaction walks the log and drops what each entry made obsolete.

mod reader;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use redb::{Database, ReadableDatabase, TableDefinition};
use tokio::sync::{broadcast, mpsc, oneshot, watch};

pub(crate) use reader::Reader;
use writer::{Command, Write, Writer};

use crate::watch::Commit;
use crate::{Error, Expect, Figures, KeyValue, Listing, Range, Revision, Store, Watch};

const OBJECTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("objects");
const VERSIONS: TableDefinition<'_, (&str, u64), &[u8]> = TableDefinition::new("versions");
const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

const FORMAT: u64 = 1;
/// Commits that a watch may lag behind before it reads the log instead.
const RING: usize = 1_024;
/// Writes that may wait for the writer; further writers wait to be let in.
const QUEUE: usize = 1_024;

/// How the engine is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Memory for file pages, in bytes.
    pub cache_bytes: usize,
    /// History younger than this is kept.
    pub keep_age: Duration,
    /// History of at least so many revisions is kept.
    pub keep_revisions: u64,
    /// How often history is compacted.
    pub compact_every: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { cache_bytes: 16 << 20, keep_age: Duration::from_secs(300), keep_revisions: 10_000, compact_every: Duration::from_secs(60) }
    }
}

/// A store in one file.
pub struct Embedded {
    path: PathBuf,
    reader: Arc<Reader>,
    commands: Mutex<Option<mpsc::Sender<Command>>>,
    commits: broadcast::WeakSender<Arc<Commit>>,
    revision: watch::Receiver<Revision>,
    commit_count: Arc<AtomicU64>,
    write_count: Arc<AtomicU64>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Embedded {
    /// Opens the file, or creates it. After a crash redb rolls back to the last commit by itself.
    pub fn open(path: &Path, options: &Options) -> Result<Self, Error> {
        let path = path.to_owned();
        let db = Database::builder().set_cache_size(options.cache_bytes).create(&path).map_err(|error| opening(&path, error))?;
        let revision = prepare(&db, &path)?;
        let db = Arc::new(db);
        let (revision_sender, revision) = watch::channel(revision);
        let (commits, _) = broadcast::channel(RING);
        let (sender, receiver) = mpsc::channel(QUEUE);
        let reader = Arc::new(Reader::new(db.clone(), path.clone()));
        let (commit_count, write_count) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let weak = commits.downgrade();
        let writer = Writer {
            db,
            path: path.clone(),
            commits,
            revision: revision_sender,
            options: options.clone(),
            commit_count: commit_count.clone(),
            write_count: write_count.clone(),
        };
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || writer.run(receiver))
            .map_err(|error| Error::Io { path: path.clone(), action: "starting the writer", source: Box::new(redb::Error::Io(error)) })?;
        Ok(Self {
            path,
            reader,
            commands: Mutex::new(Some(sender)),
            commits: weak,
            revision,
            commit_count,
            write_count,
            thread: Mutex::new(Some(thread)),
        })
    }

    async fn command<T>(&self, make: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Command) -> Result<T, Error> {
        // A poisoned lock can not happen: nothing panics while it is held.
        let sender = self.commands.lock().map_err(|_| Error::Closed)?.clone().ok_or(Error::Closed)?;
        let (reply, answer) = oneshot::channel();
        sender.send(make(reply)).await.map_err(|_| Error::Closed)?;
        answer.await.map_err(|_| Error::Closed)?
    }

    async fn write(&self, key: &str, value: Option<Bytes>, expect: Expect) -> Result<(KeyValue, Revision), Error> {
        if key.is_empty() || key.contains('\0') {
            return Err(Error::Key { key: key.to_owned() });
        }
        let write = Write { key: key.to_owned(), value, expect };
        self.command(|reply| Command::Write(write, reply)).await
    }
}

#[async_trait]
impl Store for Embedded {
    fn revision(&self) -> watch::Receiver<Revision> {
        self.revision.clone()
    }

    async fn get(&self, key: &str) -> Result<(Option<KeyValue>, Revision), Error> {
        // One key is a handful of cached pages; handing it to another thread would cost more than reading it.
        self.reader.get(key)
    }

    async fn list(&self, range: Range) -> Result<Listing, Error> {
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
        self.reader.check_compacted(after)?;
        Ok(Watch::new(prefix.to_owned(), after, commits, self.reader.clone()))
    }

    async fn compact(&self, revision: Revision) -> Result<(), Error> {
        self.command(|reply| Command::Compact(revision, reply)).await
    }

    async fn figures(&self) -> Result<Figures, Error> {
        let mut figures = self.reader.clone().blocking(Reader::figures).await?;
        figures.bytes = std::fs::metadata(&self.path).map_or(0, |meta| meta.len());
        figures.commits = self.commit_count.load(Ordering::Relaxed);
        figures.writes = self.write_count.load(Ordering::Relaxed);
        Ok(figures)
    }

    async fn close(&self) {
        if let Ok(mut commands) = self.commands.lock() {
            commands.take();
        }
        let thread = self.thread.lock().ok().and_then(|mut thread| thread.take());
        if let Some(thread) = thread {
            let joined = tokio::task::spawn_blocking(move || thread.join()).await;
            if !matches!(joined, Ok(Ok(()))) {
                tracing::error!(path = %self.path.display(), "the store's writer ended abnormally");
            }
        }
    }
}

impl Drop for Embedded {
    /// Lets go of the file before the value is gone; waits at most for the commit in flight.
    fn drop(&mut self) {
        if let Ok(mut commands) = self.commands.lock() {
            commands.take();
        }
        if let Some(thread) = self.thread.lock().ok().and_then(|mut thread| thread.take())
            && thread.join().is_err()
        {
            tracing::error!(path = %self.path.display(), "the store's writer ended abnormally");
        }
    }
}

/// Creates the tables of a new file; refuses a foreign format. Returns the latest revision.
fn prepare(db: &Database, path: &Path) -> Result<Revision, Error> {
    let fail = |action| move |source: redb::Error| Error::Io { path: path.to_owned(), action, source: Box::new(source) };
    let latest = |db: &Database| -> Result<Option<(u64, u64)>, redb::Error> {
        let read = db.begin_read()?;
        let meta = match read.open_table(META) {
            Ok(meta) => meta,
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let number = |key| -> Result<u64, redb::Error> { Ok(meta.get(key)?.map_or(0, |value| value.value())) };
        Ok(Some((number("format")?, number("revision")?)))
    };
    if let Some((format, revision)) = latest(db).map_err(|error| reading(path, error))? {
        return if format == FORMAT { Ok(revision) } else { Err(Error::Format { path: path.to_owned(), found: format, known: FORMAT }) };
    }
    let create = || -> Result<(), redb::Error> {
        let write = db.begin_write()?;
        write.open_table(OBJECTS)?;
        write.open_table(VERSIONS)?;
        write.open_table(LOG)?;
        {
            let mut meta = write.open_table(META)?;
            meta.insert("format", FORMAT)?;
            meta.insert("revision", 1)?;
            meta.insert("compacted", 0)?;
        }
        write.commit()?;
        Ok(())
    };
    create().map_err(fail("creating the store"))?;
    Ok(1)
}

fn opening(path: &Path, error: redb::DatabaseError) -> Error {
    match error {
        redb::DatabaseError::DatabaseAlreadyOpen => Error::Locked { path: path.to_owned() },
        redb::DatabaseError::UpgradeRequired(found) => Error::Format { path: path.to_owned(), found: found.into(), known: FORMAT },
        other => reading(path, other.into()),
    }
}

fn reading(path: &Path, error: redb::Error) -> Error {
    match error {
        redb::Error::Corrupted(problem) => Error::Corrupt { path: path.to_owned(), problem },
        // redb reports a file that is no database, or is cut off, as invalid data.
        redb::Error::Io(io) if matches!(io.kind(), std::io::ErrorKind::InvalidData | std::io::ErrorKind::UnexpectedEof) => {
            Error::Corrupt { path: path.to_owned(), problem: io.to_string() }
        }
        source => Error::Io { path: path.to_owned(), action: "reading", source: Box::new(source) },
    }
}
