//! Watches: from the cache's state or ring, or from the store's history, to a stream of frames (KAPI-WATCH-01).

mod frames;
mod socket;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{BufMut, Bytes, BytesMut};
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use http::StatusCode;
use mainstay_store::Revision;
use serde_json::{Value, json};
use tokio::time::Instant;

use frames::Form;
pub use frames::Frames;

use crate::api::{store_error, too_large_version};
use crate::cache::{Begin, Change, Entry, Receiver, ResourceCache, Subscription};
use crate::error::{ApiError, Result};
use crate::negotiate::{Format, Shape};
use crate::object;
use crate::options::ListOptions;
use crate::respond::{Answer, AnswerBody};
use crate::rest::read;
use crate::served::Served;
use crate::server::Context;
use crate::websocket;

/// How often a quiet watch is told its position.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// Events that are ready together are sent in pieces of about this size.
const PIECE: usize = 64 * 1024;
/// A watch without a timeout ends after a time between this and twice this.
const DEFAULT_TIMEOUT: u64 = 1_800;

/// Opens a watch.
pub async fn open(context: &Context, served: &Arc<Served>) -> Result<Answer> {
    let mut options = ListOptions::parse(&context.query, true)?;
    if !context.info.name.is_empty() && options.fields.is_empty() {
        options.fields = crate::selector::FieldSelector::name(&context.info.name);
    }
    read::check_fields(served, &options)?;
    let api = &context.api;
    let scope = read::scope(context, served, &options);
    let latest = api.store.latest().await.map_err(store_error)?;
    let initial = options.send_initial_events == Some(true);
    let after = options.resource_version.filter(|revision| *revision > 0);
    if let Some(after) = after
        && after > latest
    {
        return Err(too_large_version(after, latest));
    }
    let wanted = if options.resource_version == Some(0) { 0 } else { after.filter(|_| initial).unwrap_or(latest) };
    if api.cache.reach(wanted.max(after.unwrap_or_default())).await.is_none() {
        return Err(too_large_version(wanted, api.cache.revision()));
    }
    let cache = api.cache.resource(&served.storage);
    let begin = match after {
        Some(after) if !initial => Begin::After(after),
        _ if options.send_initial_events == Some(false) => Begin::After(api.cache.revision()),
        _ => Begin::Now,
    };
    let (history, subscription) = match cache.subscribe(scope.clone(), begin, &api.cache) {
        Ok(subscription) => (Vec::new(), subscription),
        Err(_) => match from_history(context, served, &cache, &scope, after.unwrap_or_default()).await {
            // A request that was understood fails with an event, as watchers expect it.
            Err(error) if error.code == StatusCode::GONE => {
                let event = write_event(context.agreed.format, &json!({"type": "ERROR", "object": error.status()}));
                return answer(context, stream::once(std::future::ready(event)).boxed());
            }
            other => other?,
        },
    };
    let timeout =
        options.timeout_seconds.filter(|seconds| *seconds > 0).unwrap_or_else(|| rand::random_range(DEFAULT_TIMEOUT..2 * DEFAULT_TIMEOUT));
    let table = crate::table::Columns::of(context, served);
    let view = View {
        served: served.clone(),
        format: context.agreed.format,
        shape: context.agreed.shape,
        include: table.include(),
        table,
        first: true,
        options,
    };
    let Subscription { past, entries, revision, changes } = subscription;
    let mut begin: VecDeque<Piece> = entries.into_iter().map(Piece::Shown).collect();
    begin.extend(history.into_iter().chain(past).map(Piece::Changed));
    if initial && view.options.allow_watch_bookmarks {
        begin.push_back(Piece::Complete(revision));
    }
    let now = Instant::now();
    let pump = Pump {
        view,
        begin,
        changes,
        seen: revision,
        deadline: now + Duration::from_secs(timeout),
        bookmark: next_bookmark(now, now + Duration::from_secs(timeout)),
        api: api.clone(),
        ended: false,
        piece: if websocket::asked(&context.headers) { 1 } else { PIECE },
    };
    answer(context, stream::unfold(pump, |mut pump| async move { pump.next().await.map(|frame| (frame, pump)) }).boxed())
}

/// Sends frames as the client takes them: as the messages of a websocket, or one after the other.
fn answer(context: &Context, frames: BoxStream<'static, Bytes>) -> Result<Answer> {
    let format = context.agreed.format;
    if websocket::asked(&context.headers) {
        return socket::answer(context, format, frames);
    }
    let body = Body::from_stream(frames.map(Ok::<_, std::convert::Infallible>));
    Ok(Answer { status: StatusCode::OK, headers: Vec::new(), content_type: content_type(format), body: AnswerBody::Stream(body) })
}

fn content_type(format: Format) -> &'static str {
    match format {
        Format::Yaml => "application/yaml;stream=watch",
        Format::Protobuf => mainstay_protobuf::WATCH_MEDIA_TYPE,
        Format::Json | Format::Pretty => "application/json",
    }
}

/// The frame of an event.
fn write_event(format: Format, event: &Value) -> Bytes {
    match format {
        Format::Yaml => {
            let mut out = b"---\n".to_vec();
            out.extend(Format::Yaml.write(event));
            Bytes::from(out)
        }
        Format::Protobuf => match crate::negotiate::protobuf(&event["object"]) {
            Ok(object) => mainstay_protobuf::encode_watch_event(event["type"].as_str().unwrap_or_default(), &object).into(),
            Err(error) => mainstay_protobuf::encode_watch_event("ERROR", &format.write(&error.status())).into(),
        },
        Format::Json | Format::Pretty => Bytes::from(Format::Json.write(event)),
    }
}

/// Reads the store's history up to where the ring begins, then follows the ring.
async fn from_history(
    context: &Context,
    served: &Served,
    cache: &ResourceCache,
    scope: &crate::cache::Scope,
    after: Revision,
) -> Result<(Vec<Arc<Change>>, Subscription)> {
    let api = &context.api;
    let prefix = format!("{}{}/", crate::cache::ROOT, served.storage);
    let mut watch = match api.store.watch(&prefix, after).await {
        Err(mainstay_store::Error::Compacted { asked, oldest }) => return Err(too_old(asked, oldest)),
        other => other.map_err(store_error)?,
    };
    let (mut seen, mut history) = (after, Vec::new());
    loop {
        match cache.subscribe(scope.clone(), Begin::After(seen), &api.cache) {
            Ok(subscription) => return Ok((history, subscription)),
            Err(crate::cache::TooOld { floor }) => {
                while seen < floor {
                    let batch = match watch.next().await {
                        Err(mainstay_store::Error::Compacted { asked, oldest }) => return Err(too_old(asked, oldest)),
                        other => other.map_err(store_error)?,
                    };
                    history.extend(
                        batch
                            .events
                            .iter()
                            .filter_map(|event| ResourceCache::history(&served.storage, event))
                            .filter(|change| change.shown().is_some_and(|entry| scope.holds(&entry.key))),
                    );
                    seen = batch.revision.max(seen);
                }
                // The store may be ahead of the cache, which must not show again what history has shown.
                if api.cache.reach(seen).await.is_none() {
                    return Err(too_large_version(seen, api.cache.revision()));
                }
            }
        }
    }
}

fn too_old(asked: Revision, oldest: Revision) -> ApiError {
    ApiError::expired(format!("too old resource version: {asked} ({oldest})"))
}

/// How one watcher sees changes.
struct View {
    served: Arc<Served>,
    options: ListOptions,
    format: Format,
    shape: Shape,
    include: Option<crate::table::Include>,
    table: crate::table::Columns,
    first: bool,
}

impl View {
    /// The frame of a change; `None` where the selectors never saw the object.
    fn event(&mut self, change: &Change) -> Result<Option<Bytes>> {
        let sees = |entry: &Option<Arc<Entry>>| entry.as_ref().is_some_and(|entry| read::selected(&self.served, &self.options, entry));
        let (kind, entry) = match (sees(&change.before), sees(&change.now)) {
            (false, false) => return Ok(None),
            (false, true) => ("ADDED", &change.now),
            (true, true) => ("MODIFIED", &change.now),
            (true, false) => ("DELETED", &change.before),
        };
        let Some(entry) = entry else { return Ok(None) };
        // The first event of a table holds the columns, too.
        let shared = self.include.filter(|_| self.shape != Shape::Table || !self.first);
        let Some(include) = shared else { return self.frame(kind, entry, change.revision).map(Some) };
        let form = Form { served: self.served.clone(), kind, format: self.format, shape: self.shape, include };
        change.frames.get_or_make(&form, || self.frame(kind, entry, change.revision)).map(Some)
    }

    fn frame(&mut self, kind: &str, entry: &Entry, revision: Revision) -> Result<Bytes> {
        if self.shape == Shape::Object && self.format.is_json() && self.served.sends_stored_bytes() {
            let mut out = BytesMut::with_capacity(entry.stored.len() + 96);
            out.put_slice(b"{\"type\":\"");
            out.put_slice(kind.as_bytes());
            out.put_slice(b"\",\"object\":");
            object::write(
                &mut out,
                &object::head(&self.served.api_version(), &self.served.facts.kind),
                &entry.stored,
                entry.offset,
                revision,
            );
            out.put_slice(b"}\n");
            return Ok(out.freeze());
        }
        let mut value = self.served.read(&entry.stored, revision)?.value;
        let object = match self.shape {
            Shape::Object | Shape::Discovery => value,
            Shape::Metadata | Shape::MetadataList => crate::respond::partial(&mut value),
            Shape::Table => {
                let table =
                    self.table.table(std::slice::from_mut(&mut value), &json!({"resourceVersion": revision.to_string()}), self.first)?;
                self.first = false;
                table
            }
        };
        Ok(self.write(&json!({"type": kind, "object": object})))
    }

    fn bookmark(&self, revision: Revision, initial: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let (kind, api_version) = match self.shape {
            Shape::Metadata | Shape::MetadataList => ("PartialObjectMetadata".to_owned(), "meta.k8s.io/v1".to_owned()),
            _ => (self.served.facts.kind.clone(), self.served.api_version()),
        };
        self.write(&json!({"type": "BOOKMARK", "object": {"kind": kind, "apiVersion": api_version, "metadata": metadata}}))
    }

    fn write(&self, event: &Value) -> Bytes {
        write_event(self.format, event)
    }
}

/// A quiet watch is told its position once a minute, and every second towards its end, so that its successor begins there.
fn next_bookmark(now: Instant, deadline: Instant) -> Instant {
    let last = deadline.checked_sub(Duration::from_secs(2)).unwrap_or(deadline);
    (now + BOOKMARK_EVERY).min(last.max(now + Duration::from_secs(1)))
}

/// What a watch begins with.
enum Piece {
    /// An object there is.
    Shown(Arc<Entry>),
    /// A change before the watch was opened.
    Changed(Arc<Change>),
    /// The end of the initial events.
    Complete(Revision),
}

/// The running stream of one watcher. Events are encoded when the client is ready to take them.
struct Pump {
    view: View,
    begin: VecDeque<Piece>,
    changes: Receiver,
    seen: Revision,
    deadline: Instant,
    bookmark: Instant,
    api: Arc<crate::api::Api>,
    ended: bool,
    /// How large what is sent at once becomes; 1 sends every event by itself.
    piece: usize,
}

enum Woken {
    Change(Option<Arc<Change>>),
    Bookmark,
    Deadline,
    Closing,
}

impl Pump {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.ended {
                return None;
            }
            if let Err(error) = self.convert().await {
                self.ended = true;
                return Some(self.view.write(&json!({"type": "ERROR", "object": error.status()})));
            }
            if let Some(frames) = self.ready() {
                return Some(frames);
            }
            if self.ended {
                return None;
            }
            let closing = self.api.closing.clone();
            let woken = tokio::select! {
                biased;
                () = closing.cancelled() => Woken::Closing,
                change = self.changes.recv() => Woken::Change(change),
                () = tokio::time::sleep_until(self.deadline) => Woken::Deadline,
                () = tokio::time::sleep_until(self.bookmark), if self.view.options.allow_watch_bookmarks => Woken::Bookmark,
            };
            match woken {
                Woken::Change(Some(change)) => self.begin.push_back(Piece::Changed(change)),
                Woken::Change(None) | Woken::Closing => return None,
                Woken::Deadline => {
                    self.ended = true;
                    return self.position();
                }
                Woken::Bookmark => {
                    self.bookmark = next_bookmark(Instant::now(), self.deadline);
                    if let Some(frame) = self.position() {
                        return Some(frame);
                    }
                }
            }
        }
    }

    /// Brings what waits into the watched version, where a webhook converts between versions.
    async fn convert(&mut self) -> Result<()> {
        let Some(converter) = self.view.served.converter().cloned() else { return Ok(()) };
        while let Some(change) = self.changes.try_recv() {
            self.begin.push_back(Piece::Changed(change));
        }
        let version = self.view.served.api_version();
        let entries = |piece: &Piece| match piece {
            Piece::Shown(entry) => vec![entry.clone()],
            Piece::Changed(change) => [&change.now, &change.before].into_iter().flatten().cloned().collect(),
            Piece::Complete(_) => Vec::new(),
        };
        let all = self.begin.iter().flat_map(entries).collect();
        let mut converted = converter.entries(all, &version).await?.into_iter();
        for piece in &mut self.begin {
            match piece {
                Piece::Shown(entry) => *entry = converted.next().unwrap_or_else(|| entry.clone()),
                Piece::Changed(change) => {
                    let now = change.now.as_ref().and_then(|_| converted.next());
                    let before = change.before.as_ref().and_then(|_| converted.next());
                    *change = Arc::new(Change::new(change.revision, now, before));
                }
                Piece::Complete(_) => {}
            }
        }
        Ok(())
    }

    /// The bookmark of what was seen, where the watcher wants it.
    fn position(&mut self) -> Option<Bytes> {
        if !self.view.options.allow_watch_bookmarks {
            return None;
        }
        // Changes reach the queue before the revision that covers them, so an empty queue has shown everything up to it.
        let revision = self.api.cache.revision();
        self.changes.is_empty().then(|| {
            self.seen = self.seen.max(revision);
            self.view.bookmark(self.seen, false)
        })
    }

    /// What can be sent without waiting, up to a size.
    fn ready(&mut self) -> Option<Bytes> {
        let mut only = None;
        let mut joined = BytesMut::new();
        while joined.len() < self.piece {
            // What a webhook converts is fetched by `convert`.
            let fetched = self.view.served.converter().is_some();
            let news = |changes: &mut Receiver| if fetched { None } else { changes.try_recv().map(Piece::Changed) };
            let Some(piece) = self.begin.pop_front().or_else(|| news(&mut self.changes)) else { break };
            let frame = match self.encode(&piece) {
                Ok(Some(frame)) => frame,
                Ok(None) => continue,
                Err(error) => {
                    self.ended = true;
                    self.view.write(&json!({"type": "ERROR", "object": error.status()}))
                }
            };
            // One event alone, the usual case, is not copied.
            match only.take() {
                None if joined.is_empty() => only = Some(frame),
                first => {
                    joined.extend(first);
                    joined.put(frame);
                }
            }
            if self.ended || only.as_ref().is_some_and(|frame| frame.len() >= self.piece) {
                break;
            }
        }
        only.or_else(|| (!joined.is_empty()).then(|| joined.freeze()))
    }

    fn encode(&mut self, piece: &Piece) -> Result<Option<Bytes>> {
        match piece {
            Piece::Shown(entry) if read::selected(&self.view.served, &self.view.options, entry) => {
                self.view.frame("ADDED", entry, entry.revision).map(Some)
            }
            Piece::Shown(_) => Ok(None),
            Piece::Changed(change) => {
                self.seen = self.seen.max(change.revision);
                self.view.event(change)
            }
            Piece::Complete(revision) => Ok(Some(self.view.bookmark(*revision, true))),
        }
    }
}
