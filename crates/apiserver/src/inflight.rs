//! Requests in flight: their number, their shares by user, what they may hold, and for how long (KAPI-SRV-06).
//!
//! ```text
//!   headers ─ who asks ─ present ─ may they? ─ body (bytes, deadline) ─ seat ─ work in turns ─ room for the answer ─ sent
//!                        │                     └ a half-sent body has no seat                                        │
//!                        └──────────────── until the client has taken the answer ───────────────────────────────────┘
//! ```
//!
//! Reading and writing requests have seats of their own, as in kube-apiserver. Whatever is scarce is shared by user ([`Fair`]). Requests
//! that last by nature (watches, logs, proxies) have no seat. Administrators, this process's own controllers and health checks are never
//! turned away and wait for nobody.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use mainstay_serve::Place;
use mainstay_serve::fair::{Asked, Fair, Full, Rules, Share};

use crate::caller::Caller;
use crate::error::{ApiError, Result};
use crate::processor::{Processor, Weight};
use crate::request::RequestInfo;
use crate::request::options::LONGEST;

/// The time that a request waits for a seat, or for room.
const PATIENCE: Duration = Duration::from_secs(10);
/// Requests that last, of one user.
const LASTING: usize = 4_000;
/// Headers of a request; more are refused.
pub const HEADERS: usize = 256;
/// Bodies, trees and answers up to this many bytes are bounded by the number of requests alone.
pub const SMALL: usize = 64 << 10;
/// Bytes of request bodies that are being received or worked on.
const BODIES: usize = 64 << 20;
/// Memory of decoded bodies that are being worked on.
const TREES: usize = 64 << 20;
/// Bytes of answers that are being made or sent.
const ANSWERS: usize = 128 << 20;
/// An answer that takes room others wait for is given up when its client has not read for so long.
const UNREAD: Duration = Duration::from_secs(3);
/// The time that a body may take, beside a second for every so many bytes.
const BODY_TIME: Duration = Duration::from_secs(15);
const BODY_RATE: usize = 100 << 10;

/// The most requests that may be in flight; 0 is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// get, list.
    pub reading: usize,
    /// Everything else.
    pub writing: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { reading: 400, writing: 200 }
    }
}

/// The requests in flight.
#[derive(Debug)]
pub struct InFlight {
    /// Those that read.
    pub reading: Lane,
    /// Those that write.
    pub writing: Lane,
    /// All that are not yet answered to the end, waiting bodies among them.
    present: Arc<Fair>,
    lasting: Arc<Fair>,
    bodies: Arc<Fair>,
    trees: Arc<Fair>,
    answers: Arc<Fair>,
    /// The processor.
    pub processor: Processor,
    /// Large answers that are being sent.
    sending: Mutex<Vec<Weak<Sending>>>,
}

impl Default for InFlight {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

/// One kind of requests in flight.
#[derive(Debug)]
pub struct Lane {
    seats: Arc<Fair>,
    refused: AtomicU64,
}

/// The shares that a request holds until its answer was taken.
#[derive(Debug, Default)]
pub struct Hold {
    present: Option<Share>,
    answer: Option<Arc<Sending>>,
}

impl Hold {
    /// The bytes of an answer, which hold this until the last of them is gone.
    pub fn keep(self, bytes: Bytes) -> Bytes {
        if self.present.is_none() && self.answer.is_none() || bytes.is_empty() { bytes } else { Bytes::from_owner(Kept(bytes, self)) }
    }
}

struct Kept(Bytes, #[allow(dead_code, reason = "it is held, and given back when it is dropped")] Hold);

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// A large answer on its way.
#[derive(Debug)]
struct Sending {
    user: Arc<str>,
    bytes: usize,
    place: Option<Place>,
    _room: Share,
}

/// The shares that a request holds while it is worked on.
#[derive(Debug, Default)]
pub struct Work {
    seat: Option<Share>,
    body: Option<Share>,
    tree: Option<Share>,
    answer: Option<Arc<Sending>>,
    seated: bool,
}

/// The allocation of one request: the user it counts for, and all that it holds while it is worked on.
#[derive(Clone, Debug)]
pub struct Allocation {
    /// The caller.
    pub caller: Caller,
    /// The seat and the room that it holds.
    pub work: Arc<Mutex<Work>>,
    /// The weight of its work.
    pub weight: Arc<Weight>,
}

impl Allocation {
    /// The allocation of a request that holds nothing yet.
    pub fn new(caller: Caller) -> Self {
        Self { caller, work: Arc::default(), weight: Arc::default() }
    }

    /// Leaves the async workers alone: what follows takes long, and is done in turns with others.
    pub async fn long(&self) {
        self.weight.long().await;
    }
}

impl InFlight {
    /// With these limits.
    pub fn new(limits: Limits) -> Self {
        let some = |limit: usize| if limit == 0 { usize::MAX >> 1 } else { limit };
        let present = some(limits.reading).saturating_add(some(limits.writing));
        let counted = |each| Fair::new(Rules { capacity: usize::MAX >> 1, share: each, waiting_each: 0, waiting: 0 });
        let bytes = |capacity: usize, share| Fair::new(Rules { capacity, share, waiting_each: present.max(2 * LASTING), waiting: 16_384 });
        Self {
            reading: Lane::new(some(limits.reading)),
            writing: Lane::new(some(limits.writing)),
            present: counted(present),
            lasting: counted(LASTING),
            bodies: bytes(BODIES, BODIES / 4),
            trees: bytes(TREES, TREES / 2),
            answers: bytes(ANSWERS, ANSWERS / 4),
            processor: Processor::default(),
            sending: Mutex::default(),
        }
    }

    /// Lets a request in, before anything of its body is read.
    pub fn admit(&self, info: &RequestInfo, caller: &Caller) -> std::result::Result<Hold, Full> {
        if caller.exempt || info.is_probe() {
            return Ok(Hold::default());
        }
        let of = if info.is_long_running() { &self.lasting } else { &self.present };
        match of.ask(&caller.user, 1) {
            Asked::Granted(share) => Ok(Hold { present: Some(share), answer: None }),
            Asked::Wait(_) | Asked::Full => Err(self.lane(info).turn_away()),
        }
    }

    fn lane(&self, info: &RequestInfo) -> &Lane {
        if reads(info) { &self.reading } else { &self.writing }
    }

    /// Gives a request its seat, once.
    pub async fn seat(&self, work: &Mutex<Work>, info: &RequestInfo, caller: &Caller) -> Result<()> {
        let seated = std::mem::replace(&mut lock(work).seated, true);
        if seated || info.is_long_running() || info.is_probe() {
            return Ok(());
        }
        let lane = self.lane(info);
        let seat = if caller.exempt {
            // Who is let in beyond the limit is not counted.
            lane.seats.jump(&caller.user, 1)
        } else {
            Some(lane.seats.take(&caller.user, 1, PATIENCE).await.map_err(|Full| lane.turn_away())?)
        };
        lock(work).seat = seat;
        Ok(())
    }

    /// Room for a body of so many bytes.
    pub async fn receive(&self, work: &Mutex<Work>, caller: &Caller, bytes: usize) -> Result<()> {
        if caller.exempt || bytes <= SMALL {
            return Ok(());
        }
        let room = self.bodies.take(&caller.user, bytes, PATIENCE).await.map_err(|Full| self.writing.turn_away())?;
        lock(work).body = Some(room);
        Ok(())
    }

    /// Room for what a body becomes when it is decoded.
    pub async fn decode(&self, work: &Mutex<Work>, caller: &Caller, bytes: usize) -> Result<()> {
        if caller.exempt || bytes <= SMALL {
            return Ok(());
        }
        let room = self.trees.take(&caller.user, bytes, LONGEST).await.map_err(|Full| self.writing.turn_away())?;
        lock(work).tree = Some(room);
        Ok(())
    }

    /// Room for an answer of about so many bytes, once. Where there is none, answers that nobody reads make it.
    pub async fn room(&self, work: &Mutex<Work>, caller: &Caller, bytes: usize) -> Result<()> {
        if caller.exempt || bytes <= SMALL || lock(work).answer.is_some() {
            return Ok(());
        }
        let room = match self.answers.ask(&caller.user, bytes) {
            Asked::Granted(room) => room,
            Asked::Full => return Err(self.reading.turn_away().into()),
            Asked::Wait(mut given) => {
                let mut room = None;
                for _ in 0..PATIENCE.as_secs() {
                    if let Ok(found) = tokio::time::timeout(Duration::from_secs(1), &mut given).await {
                        room = found.ok();
                        break;
                    }
                    self.relieve();
                }
                room.ok_or_else(|| self.reading.turn_away())?
            }
        };
        let sending = Arc::new(Sending { user: caller.user.clone(), bytes, place: caller.place.clone(), _room: room });
        let mut all = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(&sending));
        drop(all);
        lock(work).answer = Some(sending);
        Ok(())
    }

    /// Room for what is sent next of a watch.
    pub async fn room_of_watch(&self, caller: &Caller, bytes: usize) -> std::result::Result<Room, Full> {
        if caller.exempt {
            return Ok(Room(None));
        }
        self.answers.take(&caller.user, bytes, LONGEST).await.map(|share| Room(Some(share)))
    }

    /// Cuts the connection of an answer that nobody reads: the largest of the user whose answers take most.
    fn relieve(&self) {
        let sending: Vec<Arc<Sending>> =
            self.sending.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect();
        let of = |user: &Arc<str>| sending.iter().filter(|one| one.user == *user).map(|one| one.bytes).sum::<usize>();
        let unread = sending.iter().filter(|one| one.place.as_ref().is_some_and(|place| place.unread() >= UNREAD));
        if let Some(largest) = unread.max_by_key(|one| (of(&one.user), one.bytes)) {
            tracing::warn!(user = &*largest.user, bytes = largest.bytes, "connection cut: others wait for what its client does not read");
            largest.place.iter().for_each(Place::cut);
        }
    }
}

/// Room for a part of an answer that lasts.
#[derive(Debug, Default)]
pub struct Room(Option<Share>);

impl Room {
    /// Bytes that hold the room until the last of them is gone.
    pub fn keep(self, bytes: Bytes) -> Bytes {
        struct Roomy(Bytes, #[allow(dead_code, reason = "it is held, and given back when it is dropped")] Share);
        impl AsRef<[u8]> for Roomy {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }
        match self.0 {
            Some(share) => Bytes::from_owner(Roomy(bytes, share)),
            None => bytes,
        }
    }
}

fn lock(work: &Mutex<Work>) -> std::sync::MutexGuard<'_, Work> {
    work.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The work is done: what the answer needs goes with it, the rest is given back.
pub fn done(work: &Mutex<Work>, hold: &mut Hold) {
    let mut work = std::mem::take(&mut *lock(work));
    hold.answer = work.answer.take();
}

impl Lane {
    fn new(seats: usize) -> Self {
        // One user has not all seats, where there are enough of them: those who work long would keep others out.
        let share = if seats >= 16 { seats / 4 * 3 } else { seats };
        let rules = Rules { capacity: seats, share, waiting_each: seats, waiting: seats.saturating_mul(16) };
        Self { seats: Fair::new(rules), refused: AtomicU64::new(0) }
    }

    /// Number of requests that have a seat.
    pub fn now(&self) -> usize {
        self.seats.used()
    }

    /// Number of requests that wait for a seat.
    pub fn waiting(&self) -> usize {
        self.seats.waiting()
    }

    /// Number of requests that were turned away.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn turn_away(&self) -> Full {
        self.refused.fetch_add(1, Ordering::Relaxed);
        Full
    }
}

/// The message of a refusal, which is no Status but a text.
pub const TOO_MANY: &str = "Too many requests, please try again later.\n";

impl From<Full> for ApiError {
    fn from(_: Full) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "", TOO_MANY)
    }
}

fn reads(info: &RequestInfo) -> bool {
    matches!(info.verb.as_str(), "get" | "list" | "watch" | "head")
}

/// The time that a body of so many bytes may take to arrive.
pub fn body_patience(bytes: usize) -> Duration {
    BODY_TIME + Duration::from_secs((bytes / BODY_RATE) as u64)
}

/// 504 for a request that took longer.
pub fn out_of_time() -> ApiError {
    ApiError {
        details: Some(crate::error::Details::default()),
        ..ApiError::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", "Timeout: request did not complete within the allotted timeout")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::request::Query;
    use http::Method;

    fn info(method: &str, path: &str) -> RequestInfo {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        RequestInfo::new(&Method::from_bytes(method.as_bytes()).unwrap(), path, &Query::parse(query))
    }

    fn caller(user: &str, exempt: bool) -> Caller {
        Caller { user: user.into(), exempt, place: None }
    }

    /// KAPI-SRV-06: reading and writing have seats apart, lasting requests and health checks have none, administrators are let in, and
    /// who waits is next.
    #[tokio::test(start_paused = true)]
    async fn seats() {
        let inflight = InFlight::new(Limits { reading: 2, writing: 1 });
        let (somebody, administrator) = (caller("somebody", false), caller("root", true));
        let seat = async |method: &str, path: &str, caller: &Caller| {
            let work = Mutex::<Work>::default();
            inflight.seat(&work, &info(method, path), caller).await.map(|()| work)
        };
        let maps = "/api/v1/namespaces/default/configmaps";
        let first = seat("GET", maps, &somebody).await.unwrap();
        let _second = seat("GET", "/version", &somebody).await.unwrap();
        let refused = seat("GET", maps, &somebody).await.unwrap_err();
        assert_eq!((refused.code, refused.message.as_str()), (StatusCode::TOO_MANY_REQUESTS, TOO_MANY));
        let _administrator = seat("GET", maps, &administrator).await.unwrap();
        assert_eq!(inflight.reading.now(), 2, "who is let in beyond the limit is not counted");
        for (method, path) in [
            ("GET", format!("{maps}?watch=true")),
            ("GET", "/api/v1/namespaces/default/pods/a/log".to_owned()),
            ("POST", "/api/v1/namespaces/default/pods/a/exec".to_owned()),
            ("GET", "/readyz".to_owned()),
            ("GET", "/livez/ping".to_owned()),
        ] {
            seat(method, &path, &somebody).await.unwrap();
        }
        let _write = seat("POST", maps, &somebody).await.unwrap();
        assert!(seat("DELETE", &format!("{maps}/a"), &somebody).await.is_err());
        let (waits, ()) = tokio::join!(seat("GET", maps, &somebody), async { drop(first) });
        waits.unwrap();
        assert_eq!((inflight.reading.refused(), inflight.writing.refused()), (1, 1));
        let unlimited = InFlight::new(Limits { reading: 0, writing: 0 });
        let work: Vec<Mutex<Work>> = (0..1_000).map(|_| Mutex::default()).collect();
        for work in &work {
            unlimited.seat(work, &info("GET", maps), &somebody).await.unwrap();
        }
        assert_eq!(unlimited.reading.now(), 1_000);
    }

    /// KAPI-SRV-06: one user has so many requests at once and no more, whatever they wait for; another one has as many.
    #[test]
    fn one_user_is_not_everybody() {
        let inflight = InFlight::new(Limits { reading: 2, writing: 1 });
        let admit = |user: &str| inflight.admit(&info("POST", "/api/v1/namespaces"), &caller(user, false));
        let mut held: Vec<Hold> = (0..3).map(|_| admit("a").unwrap()).collect();
        assert!(admit("a").is_err());
        admit("b").unwrap();
        // What was answered counts until it was taken.
        let answer = held.pop().unwrap().keep(Bytes::from_static(b"answer"));
        let piece = answer.slice(2..4);
        drop(answer);
        assert!(admit("a").is_err());
        drop(piece);
        admit("a").unwrap();
        assert_eq!(inflight.writing.refused(), 2);
    }

    /// KAPI-SRV-06: a user who does not read answers waits for room; another one has it.
    #[tokio::test(start_paused = true)]
    async fn answers_need_room() {
        let inflight = InFlight::default();
        let large = ANSWERS / 4;
        let room = async |user: &str| {
            let work = Mutex::<Work>::default();
            inflight.room(&work, &caller(user, false), large).await.map(|()| work)
        };
        let held = room("a").await.unwrap();
        assert!(room("a").await.is_err(), "waited in vain");
        room("b").await.unwrap();
        drop(held);
        room("a").await.unwrap();
    }
}
