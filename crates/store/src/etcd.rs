//! The etcd engine: several API servers share one etcd v3 cluster (KAPI-STORE-03).
//!
//! ```text
//!   Etcd ── members: one connection per endpoint, the next one when one fails
//!     ├─ get, list, put, delete: KV.Range and KV.Txn, compared by mod revision
//!     ├─ follow: Watch.Watch, opened again after the last change seen
//!     └─ compaction: one server of all, every five minutes
//! ```
//!
//! A revision is etcd's own, so that all servers speak of the same one. Every read asks etcd and sees every write that
//! was acknowledged before, to any client. The messages are written by hand in `message`; nothing is generated.

mod compaction;
mod follow;
mod members;
mod message;
mod options;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use follow::Follow;
use members::{COMPACT, Effect, Members, RANGE, STATUS, TXN};
use message::{
    CompactionRequest, CompactionResponse, Compare, DeleteRangeRequest, Header, Op, OpAnswerKind, OpKind, Pair, PutRequest, RangeRequest,
    RangeResponse, StatusRequest, StatusResponse, Target, TxnRequest, TxnResponse, Wanted,
};
pub use options::{Options, Prefix, Tls};

use crate::{Error, Expect, KeyValue, Listing, Range, Revision, Store, StoreMetrics, Watch};

/// Keys of the first page of a list; later pages are sized by the bytes of the earlier ones.
const FIRST_PAGE: usize = 200;
/// Approximate bytes of a page.
const PAGE_BYTES: usize = 4 << 20;
/// Most keys in a page.
const LARGEST_PAGE: usize = 5_000;
/// The key below the prefix that is written so that watches tell a position; no object has such a key.
const MARK: &str = "/position";

/// A store in an etcd cluster.
pub struct Etcd {
    shared: Arc<Shared>,
}

/// State that the store, its watches and its compaction share.
struct Shared {
    members: Members,
    prefix: Prefix,
    revision: watch::Sender<Revision>,
    compacted: AtomicU64,
    writes: AtomicU64,
    closing: CancellationToken,
    /// Held for one mark at a time; a caller that waited for another's mark is served by it.
    marking: tokio::sync::Mutex<Revision>,
}

impl Etcd {
    /// Connects, and begins to take part in compaction.
    pub async fn open(options: Options) -> Result<Self, Error> {
        let members = Members::new(&options)?;
        let (revision, _) = watch::channel(1);
        let shared = Arc::new(Shared {
            members,
            prefix: options.prefix,
            revision,
            compacted: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            closing: CancellationToken::new(),
            marking: tokio::sync::Mutex::new(0),
        });
        let status: StatusResponse = shared.members.call(&STATUS, &StatusRequest {}, Effect::Read).await?;
        shared.latest().await?;
        tracing::info!(version = %status.version, revision = *shared.revision.borrow(), "connected to etcd");
        tokio::spawn(compaction::run(shared.clone(), options.compact_every));
        Ok(Self { shared })
    }

    async fn write(&self, key: &str, change: OpKind, expect: Expect) -> Result<(TxnResponse, OpAnswerKind), Error> {
        let shared = &self.shared;
        if shared.closing.is_cancelled() {
            return Err(Error::Closed);
        }
        let theirs = shared.prefix.to_engine(key)?;
        let wanted = match expect {
            Expect::Any => None,
            Expect::Absent => Some(0),
            Expect::Revision(revision) => Some(revision as i64),
        };
        let compare =
            wanted.map(|revision| Compare { target: Target::Mod.into(), key: theirs.clone(), wanted: Some(Wanted::Mod(revision)) });
        let request = TxnRequest {
            compare: compare.into_iter().collect(),
            success: vec![Op { kind: Some(change) }],
            failure: vec![Op { kind: Some(OpKind::Range(RangeRequest { key: theirs, ..RangeRequest::default() })) }],
        };
        let mut answer: TxnResponse = shared.members.call(&TXN, &request, Effect::Write).await?;
        let step = answer.responses.pop().and_then(|answer| answer.kind).ok_or_else(|| odd("a transaction without an answer"))?;
        if let OpAnswerKind::Range(range) = step {
            let found = range.kvs.into_iter().next().map(|pair| key_value(&shared.prefix, pair)).transpose()?;
            return Err(Error::Conflict { key: key.to_owned(), found: found.map(Box::new) });
        }
        Ok((answer, step))
    }
}

#[async_trait]
impl Store for Etcd {
    fn revision(&self) -> watch::Receiver<Revision> {
        self.shared.revision.subscribe()
    }

    fn shared(&self) -> bool {
        true
    }

    async fn latest(&self) -> Result<Revision, Error> {
        self.shared.latest().await
    }

    async fn writable(&self) -> Result<(), Error> {
        let status: StatusResponse = self.shared.members.call(&STATUS, &StatusRequest {}, Effect::Read).await?;
        // Alarms, and a missing leader; while there are any, nothing is written.
        match status.errors.as_slice() {
            [] => Ok(()),
            errors => Err(Error::Remote { problem: format!("etcd: {}", errors.join("; ")), fate: crate::Fate::Refused }),
        }
    }

    async fn tell_position(&self) -> Result<(), Error> {
        let asked = *self.shared.revision.borrow();
        let mut marked = self.shared.marking.lock().await;
        if *marked < asked {
            *marked = self.put(&format!("{}{MARK}", self.shared.prefix.ours), Bytes::new(), Expect::Any).await?.modified;
        }
        Ok(())
    }

    async fn get(&self, key: &str) -> Result<(Option<KeyValue>, Revision), Error> {
        let request = RangeRequest { key: self.shared.prefix.to_engine(key)?, ..RangeRequest::default() };
        let answer = self.shared.range(&request).await?;
        let revision = revision_of(answer.header.as_ref());
        let found = answer.kvs.into_iter().next().map(|pair| key_value(&self.shared.prefix, pair)).transpose()?;
        Ok((found, revision))
    }

    async fn list(&self, range: Range) -> Result<Listing, Error> {
        let shared = &self.shared;
        let prefix = shared.prefix.beginning(&range.prefix)?;
        let end = prefix_end(&prefix);
        let mut from = match &range.after {
            Some(after) if after.as_str() >= range.prefix.as_str() => after_key(&shared.prefix.to_engine(after)?),
            _ => prefix,
        };
        let (mut items, mut revision, mut page) = (Vec::new(), range.revision, FIRST_PAGE);
        loop {
            let wanted = if range.limit > 0 { (range.limit - items.len()).min(page) } else { page };
            let request = RangeRequest {
                key: from,
                range_end: end.clone(),
                limit: wanted as i64,
                revision: revision.unwrap_or_default() as i64,
                count_only: false,
            };
            let answer = shared.range(&request).await.map_err(|error| shared.at(revision.unwrap_or_default(), error))?;
            let shown = *revision.get_or_insert(revision_of(answer.header.as_ref()));
            let remaining = (answer.count as u64).saturating_sub(answer.kvs.len() as u64);
            let bytes: usize = answer.kvs.iter().map(|pair| pair.value.len() + pair.key.len()).sum();
            page = (PAGE_BYTES / (bytes / answer.kvs.len().max(1)).max(1)).clamp(1, LARGEST_PAGE);
            from = answer.kvs.last().map(|pair| after_key(&pair.key)).unwrap_or_default();
            for pair in answer.kvs {
                items.push(key_value(&shared.prefix, pair)?);
            }
            if remaining == 0 || (range.limit > 0 && items.len() >= range.limit) || from.is_empty() {
                return Ok(Listing { items, revision: shown, remaining });
            }
        }
    }

    async fn put(&self, key: &str, value: Bytes, expect: Expect) -> Result<KeyValue, Error> {
        let theirs = self.shared.prefix.to_engine(key)?;
        let change = OpKind::Put(PutRequest { key: theirs, value: value.clone(), prev_kv: true });
        let (answer, step) = self.write(key, change, expect).await?;
        let OpAnswerKind::Put(put) = step else { return Err(odd("another answer than that of a put")) };
        let modified = revision_of(answer.header.as_ref());
        self.shared.wrote(modified);
        let (created, version) = put.prev_kv.map_or((modified, 1), |before| (before.create_revision as u64, before.version as u64 + 1));
        Ok(KeyValue { key: key.to_owned(), value, created, modified, version })
    }

    async fn delete(&self, key: &str, expect: Expect) -> Result<(KeyValue, Revision), Error> {
        let theirs = self.shared.prefix.to_engine(key)?;
        let change = OpKind::Delete(DeleteRangeRequest { key: theirs, prev_kv: true });
        let (answer, step) = self.write(key, change, expect).await?;
        let OpAnswerKind::Delete(deleted) = step else { return Err(odd("another answer than that of a deletion")) };
        let Some(before) = deleted.prev_kvs.into_iter().next() else {
            return Err(Error::Conflict { key: key.to_owned(), found: None });
        };
        let revision = revision_of(answer.header.as_ref());
        self.shared.wrote(revision);
        Ok((key_value(&self.shared.prefix, before)?, revision))
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, Error> {
        if self.shared.closing.is_cancelled() {
            return Err(Error::Closed);
        }
        if after > 0 {
            // etcd waits for a future revision, and reports a compaction only once it reads history: a read reports both at once.
            let key = self.shared.prefix.beginning(prefix)?;
            let probe = RangeRequest { key, limit: 1, revision: after as i64, count_only: true, ..RangeRequest::default() };
            self.shared.range(&probe).await.map_err(|error| self.shared.at(after, error))?;
        }
        Ok(Watch::new(Follow::new(self.shared.clone(), prefix.to_owned(), after)))
    }

    async fn compact(&self, revision: Revision) -> Result<(), Error> {
        match self.shared.compact(revision).await {
            Err(Error::Compacted { .. }) => Ok(()),
            other => other,
        }
    }

    async fn metrics(&self) -> Result<StoreMetrics, Error> {
        let shared = &self.shared;
        let key = shared.prefix.beginning(&shared.prefix.ours)?;
        let range = RangeRequest { range_end: prefix_end(&key), key, count_only: true, ..RangeRequest::default() };
        let keys = shared.range(&range).await?.count as u64;
        let status: StatusResponse = shared.members.call(&STATUS, &StatusRequest {}, Effect::Read).await?;
        let writes = shared.writes.load(Ordering::Relaxed);
        Ok(StoreMetrics {
            keys,
            bytes: status.db_size as u64,
            revision: *shared.revision.borrow(),
            compacted: shared.compacted.load(Ordering::Relaxed),
            // etcd commits for all its clients; here each write is one request.
            commits: writes,
            writes,
        })
    }

    async fn close(&self) {
        self.shared.closing.cancel();
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.shared.closing.cancel();
    }
}

impl Shared {
    async fn range(&self, request: &RangeRequest) -> Result<RangeResponse, Error> {
        if self.closing.is_cancelled() {
            return Err(Error::Closed);
        }
        let answer: RangeResponse = self.members.call(&RANGE, request, Effect::Read).await?;
        self.learn(revision_of(answer.header.as_ref()));
        Ok(answer)
    }

    async fn latest(&self) -> Result<Revision, Error> {
        let key = self.prefix.to_engine(&format!("{}{MARK}", self.prefix.ours))?;
        let answer = self.range(&RangeRequest { key, count_only: true, ..RangeRequest::default() }).await?;
        Ok(revision_of(answer.header.as_ref()))
    }

    async fn compact(&self, revision: Revision) -> Result<(), Error> {
        let request = CompactionRequest { revision: revision as i64 };
        let answer: Result<CompactionResponse, Error> = self.members.call(&COMPACT, &request, Effect::Read).await;
        answer.map_err(|error| self.at(revision, error))?;
        self.learn_compacted(revision);
        Ok(())
    }

    fn learn(&self, revision: Revision) {
        self.revision.send_if_modified(|known| {
            let news = revision > *known;
            *known = revision.max(*known);
            news
        });
    }

    fn wrote(&self, revision: Revision) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.learn(revision);
    }

    fn learn_compacted(&self, revision: Revision) {
        self.compacted.fetch_max(revision, Ordering::Relaxed);
    }

    /// Adds the requested revision to an error about a revision.
    fn at(&self, asked: Revision, error: Error) -> Error {
        match error {
            // etcd does not say here how far it was compacted: at least past the requested revision.
            Error::Compacted { .. } => Error::Compacted { asked, oldest: self.compacted.load(Ordering::Relaxed).max(asked + 1) },
            Error::Future { .. } => Error::Future { asked, latest: *self.revision.borrow() },
            other => other,
        }
    }
}

fn odd(problem: &str) -> Error {
    Error::Remote { problem: format!("etcd gave {problem}"), fate: crate::Fate::Unknown }
}

fn revision_of(header: Option<&Header>) -> Revision {
    header.map_or(0, |header| header.revision as Revision)
}

fn key_value(prefix: &Prefix, pair: Pair) -> Result<KeyValue, Error> {
    Ok(KeyValue {
        key: prefix.restore(&pair.key)?,
        value: pair.value,
        created: pair.create_revision as Revision,
        modified: pair.mod_revision as Revision,
        version: pair.version as u64,
    })
}

/// The smallest key after this one.
fn after_key(key: &[u8]) -> Vec<u8> {
    let mut next = key.to_vec();
    next.push(0);
    next
}

/// The end of the range of keys that begin with a prefix; a single zero means that there is none.
fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.last_mut() {
        if *last < 0xff {
            *last += 1;
            return end;
        }
        end.pop();
    }
    vec![0]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KAPI-STORE-03: a prefix is a range of etcd's keys.
    #[test]
    fn ends_of_prefixes() {
        let cases: [(&[u8], &[u8]); 4] = [(b"/a/", b"/a0"), (b"a\xff", b"b"), (b"\xff", b"\0"), (b"", b"\0")];
        for (prefix, end) in cases {
            assert_eq!(prefix_end(prefix), end, "{prefix:?}");
        }
    }
}
