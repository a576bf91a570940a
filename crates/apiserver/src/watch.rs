//! Watches: from the cache's state or ring, or from the store's history, to a stream of frames (KAPI-WATCH-01).

mod history;
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
use tokio_util::sync::CancellationToken;

use history::{History, Step};

use crate::cache::{Begin, Change, Delivery, Form, Receiver, Subscription};
use crate::caller::Caller;
use crate::context::Context;
use crate::entry::Entry;
use crate::error::{ApiError, Result, store_error, too_large_version};
use crate::inflight::{InFlight, Room};
use crate::object;
use crate::object_store::ObjectStore;
use crate::request::negotiate::{Format, MetaVersion, Shape};
use crate::request::options::Include;
use crate::request::options::ListOptions;
use crate::respond::{Answer, AnswerBody};
use crate::rest::read;
use crate::served::Served;
use crate::websocket;

/// The time after which a quiet watch is told its position.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// Events that are ready together are sent in pieces of about this size.
const PIECE: usize = 64 * 1024;
/// So many events are brought into another version by a webhook at once, or about so many bytes of them.
const CONVERTED: usize = 500;
const CONVERTED_BYTES: usize = 1 << 20;
/// A watch without a timeout ends after a time between this and twice this.
const DEFAULT_TIMEOUT: u64 = 1_800;

/// Opens a watch.
pub async fn open(context: &Context, served: &Arc<Served>) -> Result<Answer> {
    let mut options = ListOptions::parse(&context.request.query, true)?;
    read::check_fields(served, &options)?;
    let objects = &context.api.objects;
    let scope = read::scope(&context.request.info, served, &mut options)?;
    let latest = objects.store.latest().await.map_err(store_error)?;
    let initial = options.send_initial_events == Some(true);
    let after = options.resource_version.filter(|revision| *revision > 0);
    let wanted = if options.resource_version == Some(0) { 0 } else { after.filter(|_| initial).unwrap_or(latest) };
    if objects.cache.reach(wanted.max(after.unwrap_or_default())).await.is_none() {
        // The stream has begun when that is known: who wants to see what there is learns it, who waits for changes has none yet.
        let why = initial.then(|| too_large_version(wanted, objects.cache.revision()));
        return future(context, &options, why);
    }
    let cache = objects.cache.resource(&served.storage);
    let begin = match after {
        Some(after) if !initial => Begin::After(after),
        _ if options.send_initial_events == Some(false) => Begin::After(objects.cache.revision()),
        _ => Begin::Now,
    };
    let (source, past, seen) = match cache.subscribe(scope.clone(), begin, &objects.cache) {
        Ok(Subscription { past, entries, revision, mut changes }) => {
            changes.begin_with(entries, revision);
            (Source::Live(changes), past, revision)
        }
        Err(too_old) => {
            let seen = too_old.after;
            (Source::Past(Box::new(History::new(objects, cache, &served.storage, scope, &too_old))), Vec::new(), seen)
        }
    };
    let timeout = lasting(&options);
    let table = crate::table::Columns::of(&context.request, served);
    let view = View {
        served: served.clone(),
        format: context.request.agreed.format,
        shape: context.request.agreed.shape,
        meta: context.request.agreed.meta,
        include: table.include(),
        table,
        first: true,
        options,
    };
    let mut begin: VecDeque<Piece> = past.into_iter().map(Piece::Changed).collect();
    if initial && view.options.allow_watch_bookmarks {
        begin.push_back(Piece::Complete(seen));
    }
    let now = Instant::now();
    let pump = Pump {
        view,
        begin,
        converted: VecDeque::new(),
        source,
        seen,
        deadline: now + Duration::from_secs(timeout),
        bookmark: if initial && served.facts.kind != "Event" {
            now + CONFIRMED
        } else {
            next_bookmark(now, now + Duration::from_secs(timeout))
        },
        objects: objects.clone(),
        inflight: context.api.inflight.clone(),
        closing: context.api.closing.clone(),
        caller: context.allocation.caller.clone(),
        ended: false,
        piece: if websocket::asked(&context.request.headers) { 1 } else { PIECE },
    };
    answer(context, stream::unfold(pump, |mut pump| async move { pump.next().await.map(|frame| (frame, pump)) }).boxed())
}

/// A watch from a revision that there is not: an error, or nothing until its time is over.
fn future(context: &Context, options: &ListOptions, why: Option<ApiError>) -> Result<Answer> {
    if let Some(why) = why {
        let event = write_event(context.request.agreed.format, &json!({"type": "ERROR", "object": why.status()}));
        return answer(context, stream::iter([event]).boxed());
    }
    let (closing, lasts) = (context.api.closing.clone(), Duration::from_secs(lasting(options)));
    let quiet = async move {
        tokio::select! {
            () = closing.cancelled() => {}
            () = tokio::time::sleep(lasts) => {}
        }
    };
    answer(context, stream::once(quiet).filter_map(|()| async { None }).boxed())
}

/// The seconds that a watch lasts.
fn lasting(options: &ListOptions) -> u64 {
    let asked = options.timeout_seconds.filter(|seconds| *seconds > 0);
    asked.unwrap_or_else(|| rand::random_range(DEFAULT_TIMEOUT..2 * DEFAULT_TIMEOUT))
}

/// Sends frames as the client takes them: as the messages of a websocket, or one after the other.
fn answer(context: &Context, frames: BoxStream<'static, Bytes>) -> Result<Answer> {
    let format = context.request.agreed.format;
    if websocket::asked(&context.request.headers) {
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
        Format::Protobuf => match crate::request::negotiate::protobuf(&event["object"]) {
            Ok(object) => mainstay_protobuf::encode_watch_event(event["type"].as_str().unwrap_or_default(), &object).into(),
            Err(error) => mainstay_protobuf::encode_watch_event("ERROR", &format.write(&error.status())).into(),
        },
        Format::Json | Format::Pretty => Bytes::from(Format::Json.write(event)),
    }
}

/// The view of one watcher on changes.
struct View {
    served: Arc<Served>,
    options: ListOptions,
    format: Format,
    shape: Shape,
    meta: MetaVersion,
    include: Option<Include>,
    table: crate::table::Columns,
    first: bool,
}

impl View {
    /// The frame of a change; `None` where the selectors never saw the object.
    fn event(&mut self, change: &Delivery) -> Result<Option<Bytes>> {
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
        let form = Form { served: self.served.id, kind, format: self.format, shape: self.shape, meta: self.meta, include };
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
            // One object is no list: Kubernetes logs that, and sends it as it is.
            Shape::Object | Shape::Discovery | Shape::MetadataList => value,
            Shape::Metadata => object::partial(&mut value, self.meta),
            Shape::Table => {
                let table =
                    self.table.table(std::slice::from_mut(&mut value), &json!({"resourceVersion": revision.to_string()}), self.first)?;
                self.first = false;
                table
            }
        };
        Ok(self.write(&json!({"type": kind, "object": object})))
    }

    /// A bookmark is an empty object of the kind with nothing but its position, and is transformed as every other.
    fn bookmark(&mut self, revision: Revision, initial: bool) -> Bytes {
        let version = json!({"resourceVersion": revision.to_string()});
        let mut mark = crate::strategy::empty(&self.served);
        if self.served.facts.group == "apps" && matches!(self.served.facts.kind.as_str(), "Deployment" | "ReplicaSet" | "StatefulSet") {
            // The internal types of these hold a number, not a pointer.
            mark["spec"]["replicas"] = 0.into();
        }
        mark["metadata"] = version.clone();
        if initial {
            mark["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = match self.shape {
            Shape::Object | Shape::Discovery | Shape::MetadataList => mark,
            Shape::Metadata => object::partial(&mut mark, self.meta),
            Shape::Table => match self.table.table(std::slice::from_mut(&mut mark), &version, self.first) {
                Ok(table) => {
                    self.first = false;
                    table
                }
                // What an unknown `includeObject` asks for is said by the first object that is shown.
                Err(_) => mark,
            },
        };
        self.write(&json!({"type": "BOOKMARK", "object": object}))
    }

    fn write(&self, event: &Value) -> Bytes {
        write_event(self.format, event)
    }
}

/// A watch that began with all objects is told its position once more soon afterwards, as by Kubernetes' cache,
/// which has no events.
const CONFIRMED: Duration = Duration::from_millis(600);

/// A quiet watch is told its position once a minute, and every second towards its end, so that its successor begins there.
fn next_bookmark(now: Instant, deadline: Instant) -> Instant {
    let last = deadline.checked_sub(Duration::from_secs(2)).unwrap_or(deadline);
    (now + BOOKMARK_EVERY).min(last.max(now + Duration::from_secs(1)))
}

/// A piece that waits to be sent.
enum Piece {
    /// An object there is.
    Shown(Arc<Entry>),
    /// A change.
    Changed(Delivery),
    /// The end of the initial events.
    Complete(Revision),
}

impl Piece {
    fn entries(&self) -> Vec<Arc<Entry>> {
        match self {
            Self::Shown(entry) => vec![entry.clone()],
            Self::Changed(change) => [&change.now, &change.before].into_iter().flatten().cloned().collect(),
            Self::Complete(_) => Vec::new(),
        }
    }

    /// The same with other entries, in the order in which [`Piece::entries`] gave them. A change whose entries are the same stays what it
    /// is, and shares its frames with other watchers.
    fn with(self, entries: &mut impl Iterator<Item = Arc<Entry>>) -> Self {
        match self {
            Self::Shown(entry) => Self::Shown(entries.next().unwrap_or(entry)),
            Self::Changed(change) => {
                let now = change.now.as_ref().and_then(|_| entries.next());
                let before = change.before.as_ref().and_then(|_| entries.next());
                let same = same(now.as_ref(), change.now.as_ref()) && same(before.as_ref(), change.before.as_ref());
                Self::Changed(if same { change } else { Arc::new(Change::new(change.revision, now, before)).into() })
            }
            Self::Complete(revision) => Self::Complete(revision),
        }
    }
}

fn same(one: Option<&Arc<Entry>>, other: Option<&Arc<Entry>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (one, other) => one.is_none() && other.is_none(),
    }
}

/// The source of changes.
enum Source {
    /// From the store's history, until that has reached what the cache remembers.
    Past(Box<History>),
    /// From the cache.
    Live(Receiver),
}

impl Source {
    async fn next(&mut self) -> Woken {
        match self {
            Self::Past(history) => Woken::Past(history.next().await),
            Self::Live(changes) => Woken::Change(changes.recv().await),
        }
    }

    /// One of the objects that there were at the begin.
    fn try_entry(&mut self) -> Option<Arc<Entry>> {
        match self {
            Self::Past(_) => None,
            Self::Live(changes) => changes.try_entry(),
        }
    }

    fn has_entries(&self) -> bool {
        matches!(self, Self::Live(changes) if changes.has_entries())
    }

    /// Returns whether something was dropped that the client should have been told.
    fn lost(&self) -> bool {
        matches!(self, Self::Live(changes) if changes.lost())
    }

    fn upcoming(&self) -> Option<(usize, bool)> {
        match self {
            Self::Past(_) => None,
            Self::Live(changes) => changes.upcoming(),
        }
    }

    /// A change that is there already.
    fn try_next(&mut self) -> Option<Delivery> {
        match self {
            Self::Past(_) => None,
            Self::Live(changes) => changes.try_recv(),
        }
    }
}

/// The running stream of one watcher. Events are encoded when the client is ready to take them.
struct Pump {
    view: View,
    /// Pieces before anything from the source.
    begin: VecDeque<Piece>,
    /// Pieces that a webhook has converted, before all of that.
    converted: VecDeque<Piece>,
    source: Source,
    seen: Revision,
    deadline: Instant,
    bookmark: Instant,
    objects: Arc<ObjectStore>,
    inflight: Arc<InFlight>,
    closing: CancellationToken,
    caller: Caller,
    ended: bool,
    /// The size that pieces are joined up to; 1 sends every event by itself.
    piece: usize,
}

enum Woken {
    Past(Result<Step>),
    Change(Option<Delivery>),
    Bookmark,
    Deadline,
    Closing,
}

impl Pump {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.ended || self.source.lost() {
                return None;
            }
            if let Err(error) = self.convert().await {
                return Some(self.fail(&error));
            }
            let room = self.room().await?;
            if let Some(frames) = self.ready() {
                return Some(room.keep(frames));
            }
            if self.ended {
                return None;
            }
            if !self.begin.is_empty() || self.source.has_entries() {
                // Of what was converted the selectors wanted nothing; there is more.
                continue;
            }
            let closing = self.closing.clone();
            let marks = self.view.options.allow_watch_bookmarks && matches!(self.source, Source::Live(_));
            let woken = tokio::select! {
                biased;
                () = closing.cancelled() => Woken::Closing,
                woken = self.source.next() => woken,
                () = tokio::time::sleep_until(self.deadline) => Woken::Deadline,
                () = tokio::time::sleep_until(self.bookmark), if marks => Woken::Bookmark,
            };
            match woken {
                Woken::Past(Ok(Step::Past(changes, seen))) => {
                    self.begin.extend(changes.into_iter().map(Piece::Changed));
                    self.seen = seen;
                }
                Woken::Past(Ok(Step::Now(subscription))) => {
                    self.begin.extend(subscription.past.into_iter().map(Piece::Changed));
                    self.source = Source::Live(subscription.changes);
                }
                // A request that was understood fails with an event, as watchers expect it.
                Woken::Past(Err(error)) => return Some(self.fail(&error)),
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

    /// The last event of a watch that cannot go on.
    fn fail(&mut self, error: &ApiError) -> Bytes {
        self.ended = true;
        self.view.write(&json!({"type": "ERROR", "object": error.status()}))
    }

    /// Room for what is sent next, where it is made for this watcher alone or is large: it is held until the client has taken it. `None`
    /// where there is none for too long: the watcher's user does not read what is sent already.
    async fn room(&mut self) -> Option<Room> {
        let Some((bytes, own)) = self.source.upcoming().or_else(|| self.begin.front().map(|_| (self.piece, true))) else {
            return Some(Room::default());
        };
        if !own && bytes <= PIECE {
            return Some(Room::default());
        }
        self.inflight.room_of_watch(&self.caller, bytes.max(self.piece.min(PIECE))).await.ok()
    }

    /// The piece that waits longest.
    fn waiting(&mut self) -> Option<Piece> {
        if let Some(entry) = self.source.try_entry() {
            return Some(Piece::Shown(entry));
        }
        // Asked after the entries: when some were dropped, not all were shown.
        if self.source.lost() {
            return None;
        }
        self.begin.pop_front().or_else(|| self.source.try_next().map(Piece::Changed))
    }

    /// Brings the next of what waits into the watched version, where a webhook converts between versions. The rest stays where it is
    /// until the client has taken that: the cache lets go of a watcher whose queue is full.
    async fn convert(&mut self) -> Result<()> {
        let Some(converter) = self.view.served.converter().cloned() else { return Ok(()) };
        if !self.converted.is_empty() {
            return Ok(());
        }
        let (mut pieces, mut entries, mut bytes) = (Vec::new(), Vec::new(), 0);
        while pieces.len() < CONVERTED
            && bytes < CONVERTED_BYTES
            && let Some(piece) = self.waiting()
        {
            let more = piece.entries();
            bytes += more.iter().map(|entry| entry.stored.len()).sum::<usize>();
            entries.extend(more);
            pieces.push(piece);
        }
        let mut entries = converter.entries(entries, &self.view.served.api_version()).await?.into_iter();
        self.converted.extend(pieces.into_iter().map(|piece| piece.with(&mut entries)));
        Ok(())
    }

    /// The bookmark of what was seen, where the watcher wants it.
    fn position(&mut self) -> Option<Bytes> {
        if !self.view.options.allow_watch_bookmarks {
            return None;
        }
        if let Source::Live(changes) = &self.source {
            // Changes reach the queue before the revision that covers them, so an empty queue has shown everything up to it.
            let revision = self.objects.cache.revision();
            if !changes.is_empty() {
                return None;
            }
            self.seen = self.seen.max(revision);
        }
        Some(self.view.bookmark(self.seen, false))
    }

    /// The frames that can be sent without waiting, up to a size.
    fn ready(&mut self) -> Option<Bytes> {
        let mut only = None;
        let mut joined = BytesMut::new();
        while joined.len() < self.piece {
            let next = if self.view.served.converter().is_some() { self.converted.pop_front() } else { self.waiting() };
            let Some(piece) = next else { break };
            let frame = match self.encode(&piece) {
                Ok(Some(frame)) => frame,
                Ok(None) => continue,
                Err(error) => self.fail(&error),
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn entry(version: &str) -> Arc<Entry> {
        let stored = object::encode(version, "Thing", &json!({"metadata": {"name": "a"}}));
        Arc::new(Entry::of("ns/a".into(), stored, 7).unwrap())
    }

    /// KAPI-WATCH-02: a change that no webhook has to convert shares its frames with all watchers; one that was converted shows its new
    /// entries in their places.
    #[test]
    fn a_change_that_needs_no_conversion_stays_the_same() {
        for (now, before) in [(true, true), (true, false), (false, true)] {
            let change = Arc::new(Change::new(7, now.then(|| entry("e.com/v1")), before.then(|| entry("e.com/v1"))));
            let change = Delivery::from(change);
            let piece = Piece::Changed(change.clone());
            let same = piece.entries();
            let Piece::Changed(kept) = piece.with(&mut same.into_iter()) else { unreachable!() };
            assert!(Arc::ptr_eq(&kept.frames, &change.frames));
            let others: Vec<_> = Piece::Changed(kept.clone()).entries().iter().map(|_| entry("e.com/v2")).collect();
            let Piece::Changed(converted) = Piece::Changed(kept).with(&mut others.clone().into_iter()) else { unreachable!() };
            assert_eq!((converted.now.is_some(), converted.before.is_some(), converted.revision), (now, before, 7));
            assert!(Piece::Changed(converted).entries().iter().zip(&others).all(|(one, other)| Arc::ptr_eq(one, other)));
        }
    }
}
