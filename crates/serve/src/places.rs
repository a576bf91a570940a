//! The connections of a listener: who uses each, which one goes when all places are taken, and which one idles for too long.
//!
//! A new connection always gets a place, since nobody knows yet whose it is: it may be the administrator's. When all places are taken it
//! gets that of another one, in this order: strangers (nobody has asked for anything there by a name that was proven) before users, among
//! each those of whom the most connections are open, of theirs the one that has been quiet for longest. Connections of those who have
//! reserved places are never taken.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The place of a connection among those that the listener allows; found in the request's extensions.
///
/// Whoever goes on with a connection after it changed its protocol keeps this for as long: it counts as open until then, and the end
/// of the listener waits for it.
#[derive(Debug, Clone)]
pub struct Place(Arc<Kept>);

#[derive(Debug)]
struct Kept {
    seat: Arc<Seat>,
    places: Arc<Places>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.places.leave(self.seat.id);
    }
}

/// Who uses a connection, once that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Owner {
    name: Arc<str>,
    reserved: bool,
}

/// One open connection.
#[derive(Debug)]
pub(crate) struct Seat {
    id: u64,
    remote: IpAddr,
    /// The name under which it shares the processor until its user is known.
    address: Arc<str>,
    owner: Mutex<Option<Owner>>,
    /// Requests whose answers have not been sent to their end.
    active: AtomicUsize,
    /// When something last happened, in milliseconds since the listener began.
    last: AtomicU64,
    /// When the connection last took a piece of an answer.
    taken: AtomicU64,
    /// Whether it changed its protocol, and is no longer looked at.
    upgraded: AtomicBool,
    begun: Instant,
    /// Bytes of answers that it holds and has not sent.
    held: AtomicUsize,
    /// What all connections hold.
    all: Arc<Total>,
    /// Cancelled to break it off.
    pub cut: CancellationToken,
    /// Cancelled to end it once its requests are answered.
    pub close: CancellationToken,
}

impl Seat {
    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn owner(&self) -> Option<Owner> {
        self.owner.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The name under which it shares the processor; `None` if its place is reserved, so that it never waits.
    pub fn sharer(&self) -> Option<Arc<str>> {
        match &*self.owner.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(owner) => (!owner.reserved).then(|| owner.name.clone()),
            None => Some(self.address.clone()),
        }
    }

    /// A request begins.
    pub fn enter(&self) {
        self.active.fetch_add(1, Ordering::Relaxed);
        self.last.store(self.now(), Ordering::Relaxed);
    }

    /// A request was answered to the end, or given up.
    pub fn leave(&self) {
        self.active.fetch_sub(1, Ordering::Relaxed);
        self.last.store(self.now(), Ordering::Relaxed);
    }

    /// The connection is given a piece of an answer.
    pub fn hold(&self, bytes: usize) {
        if self.held.fetch_add(bytes, Ordering::Relaxed) == 0 {
            self.took();
        }
        self.all.held.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The client took a piece of an answer, or gave it up.
    pub fn release(&self, bytes: usize) {
        self.took();
        self.held.fetch_sub(bytes, Ordering::Relaxed);
        self.all.held.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether a request on it is not answered to the end, or it goes on in another protocol.
    pub fn is_active(&self) -> bool {
        self.active.load(Ordering::Relaxed) > 0 || self.upgraded.load(Ordering::Relaxed)
    }

    fn took(&self) {
        self.taken.store(self.now(), Ordering::Relaxed);
    }

    fn unread(&self) -> Duration {
        Duration::from_millis(self.now().saturating_sub(self.taken.load(Ordering::Relaxed)))
    }
}

/// What all connections of a listener hold.
#[derive(Debug)]
struct Total {
    held: AtomicUsize,
    limit: usize,
}

impl Place {
    /// Says who uses the connection: somebody who proved a name. `reserved` keeps it whatever comes.
    pub fn claim(&self, name: &Arc<str>, reserved: bool) {
        let mut owner = self.0.seat.owner.lock().unwrap_or_else(PoisonError::into_inner);
        let same = owner.as_ref().is_some_and(|owner| owner.reserved == reserved && *owner.name == **name);
        if !same {
            *owner = Some(Owner { name: name.clone(), reserved });
        }
    }

    /// Breaks the connection off.
    pub fn cut(&self) {
        self.0.seat.cut.cancel();
    }

    /// Asks the client to open another connection, and ends this one once its requests are answered.
    pub fn close(&self) {
        self.0.seat.close.cancel();
    }

    /// How long ago the client last took a piece of any answer.
    pub fn unread(&self) -> Duration {
        self.0.seat.unread()
    }

    /// The connection goes on in another protocol: it idles as long as it likes.
    pub fn upgraded(&self) {
        self.0.seat.upgraded.store(true, Ordering::Relaxed);
    }

    pub(crate) fn seat(&self) -> &Arc<Seat> {
        &self.0.seat
    }
}

/// What the choice of a connection that has to go rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct View {
    id: u64,
    /// The user, or the address of a stranger.
    of: Result<Arc<str>, IpAddr>,
    reserved: bool,
    active: bool,
    last: u64,
}

/// The connection that has to go; `None` where all of them have reserved places.
fn victim(open: &[View]) -> Option<u64> {
    let mut counts: HashMap<&Result<Arc<str>, IpAddr>, usize> = HashMap::new();
    for view in open {
        *counts.entry(&view.of).or_default() += 1;
    }
    let order = |view: &&View| {
        let many = usize::MAX - counts.get(&view.of).copied().unwrap_or_default();
        (view.of.is_ok(), many, view.active, view.last, view.id)
    };
    open.iter().filter(|view| !view.reserved).min_by_key(order).map(|view| view.id)
}

/// So many times what may be held is far too much.
const FAR: usize = 4;

/// All open connections of a listener.
#[derive(Debug)]
pub(crate) struct Places {
    limit: usize,
    open: Mutex<HashMap<u64, Arc<Seat>>>,
    next: AtomicU64,
    begun: Instant,
    left: Notify,
    all: Arc<Total>,
}

impl Places {
    /// So many connections, which may hold so many bytes of answers that were given to them and not taken.
    pub fn new(limit: usize, held: usize) -> Arc<Self> {
        let (open, next, left) = (Mutex::default(), AtomicU64::new(0), Notify::new());
        let all = Arc::new(Total { held: AtomicUsize::new(0), limit: held });
        Arc::new(Self { limit: limit.max(1), open, next, begun: Instant::now(), left, all })
    }

    fn with<T>(&self, f: impl FnOnce(&mut HashMap<u64, Arc<Seat>>) -> T) -> T {
        f(&mut self.open.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A place for a new connection, if need be that of another one; `None` where all are reserved.
    pub fn enter(self: &Arc<Self>, remote: IpAddr) -> Option<Place> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let seat = Seat {
            id,
            remote,
            address: remote.to_string().into(),
            owner: Mutex::default(),
            active: AtomicUsize::new(0),
            last: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            upgraded: AtomicBool::new(false),
            begun: self.begun,
            held: AtomicUsize::new(0),
            all: self.all.clone(),
            cut: CancellationToken::new(),
            close: CancellationToken::new(),
        };
        seat.last.store(seat.now(), Ordering::Relaxed);
        seat.took();
        let seat = Arc::new(seat);
        let entered = self.with(|open| {
            if open.len() >= self.limit && !cut_one(open) {
                return false;
            }
            open.insert(id, seat.clone());
            true
        });
        entered.then(|| Place(Arc::new(Kept { seat, places: self.clone() })))
    }

    /// Cuts a connection for one that could not be accepted: there are no more file descriptors.
    pub fn make_room(&self) -> bool {
        self.with(cut_one)
    }

    /// Bytes of answers that are held and not taken.
    pub fn held(&self) -> usize {
        self.all.held.load(Ordering::Relaxed)
    }

    /// Cuts connections that took nothing of what they hold for this long; and where all together hold too much, of those that took
    /// nothing for a moment the largest of the user who holds most, until it is little enough. Where it is far too much, nobody is spared
    /// for reading.
    pub fn cut_unread(&self, patience: Duration, moment: Duration) {
        let seats: Vec<Arc<Seat>> = self.with(|open| open.values().cloned().collect());
        let mut holding: Vec<(Arc<Seat>, usize)> = Vec::new();
        for seat in seats {
            let held = seat.held.load(Ordering::Relaxed);
            if held > 0 && seat.unread() >= patience {
                tracing::debug!(remote = %seat.remote, held, "connection cut: the client does not read");
                seat.cut.cancel();
            } else if held > 0 && !seat.cut.is_cancelled() {
                holding.push((seat, held));
            }
        }
        let mut all: usize = holding.iter().map(|(_, held)| held).sum();
        if all <= self.all.limit.saturating_mul(FAR) {
            holding.retain(|(seat, _)| seat.unread() >= moment);
        }
        while all > self.all.limit {
            let Some(at) = largest(&holding) else { break };
            let (seat, held) = holding.swap_remove(at);
            tracing::warn!(remote = %seat.remote, held, "connection cut: answers that nobody reads take too much memory");
            seat.cut.cancel();
            all -= held;
        }
    }

    fn leave(&self, id: u64) {
        self.with(|open| open.remove(&id));
        self.left.notify_waiters();
    }

    /// How many are open.
    pub fn len(&self) -> usize {
        self.with(|open| open.len())
    }

    /// How many of them have reserved places.
    pub fn reserved(&self) -> usize {
        self.with(|open| open.values().filter(|seat| seat.owner().is_some_and(|owner| owner.reserved)).count())
    }

    /// Ends connections on which nothing happens: those of strangers soon, others later.
    pub fn end_idle(&self, strangers: Duration, users: Duration) {
        let idle: Vec<Arc<Seat>> = self.with(|open| {
            let idles = |seat: &&Arc<Seat>| {
                let patience = if seat.owner().is_some() { users } else { strangers };
                let since = seat.now().saturating_sub(seat.last.load(Ordering::Relaxed));
                !seat.is_active() && u128::from(since) >= patience.as_millis()
            };
            open.values().filter(idles).cloned().collect()
        });
        for seat in idle {
            seat.close.cancel();
        }
    }

    /// Waits until none is open.
    pub async fn all_left(&self) {
        loop {
            let left = self.left.notified();
            tokio::pin!(left);
            left.as_mut().enable();
            if self.len() == 0 {
                return;
            }
            left.await;
        }
    }
}

/// The largest connection of whoever holds most; those with reserved places last.
fn largest(holding: &[(Arc<Seat>, usize)]) -> Option<usize> {
    let of: Vec<View> = holding.iter().map(|(seat, _)| view(seat)).collect();
    let mut sums: HashMap<&Result<Arc<str>, IpAddr>, usize> = HashMap::new();
    for (view, (_, held)) in of.iter().zip(holding) {
        *sums.entry(&view.of).or_default() += held;
    }
    let order = |&at: &usize| (!of[at].reserved, sums.get(&of[at].of).copied().unwrap_or_default(), holding[at].1);
    (0..holding.len()).max_by_key(order)
}

/// Breaks off the connection that has to go first; false where none may.
fn cut_one(open: &mut HashMap<u64, Arc<Seat>>) -> bool {
    let views: Vec<View> = open.values().map(|seat| view(seat)).collect();
    let Some(gone) = victim(&views).and_then(|id| open.remove(&id)) else { return false };
    tracing::debug!(remote = %gone.remote, "connection cut: all places are taken");
    gone.cut.cancel();
    true
}

fn view(seat: &Seat) -> View {
    let owner = seat.owner();
    View {
        id: seat.id,
        reserved: owner.as_ref().is_some_and(|owner| owner.reserved),
        of: owner.map_or(Err(seat.remote), |owner| Ok(owner.name)),
        active: seat.is_active(),
        last: seat.last.load(Ordering::Relaxed),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn user(name: &str) -> Arc<str> {
        name.into()
    }

    /// KAPI-SRV-06: who goes first when all places are taken.
    #[test]
    fn the_order_of_going() {
        let view = |id, of: Result<&str, u8>, reserved, active, last| {
            let of = of.map(user).map_err(|last| IpAddr::from([10, 0, 0, last]));
            View { id, of, reserved, active, last }
        };
        let mut open = vec![
            view(0, Ok("admin"), true, false, 0),
            view(1, Ok("many"), false, true, 9),
            view(2, Ok("many"), false, true, 8),
            view(3, Ok("one"), false, false, 1),
            view(4, Err(1), false, false, 5),
            view(5, Err(2), false, false, 7),
            view(6, Err(2), false, false, 6),
        ];
        // Strangers first, of the address with the most of them; then whoever has the most; the quietest of theirs.
        let mut gone = Vec::new();
        while let Some(id) = victim(&open) {
            gone.push(id);
            open.retain(|view| view.id != id);
        }
        assert_eq!(gone, [6, 4, 5, 2, 3, 1]);
    }

    /// KAPI-SRV-06: a new connection takes the place of a stranger's, a reserved one stays, and who left counts no more.
    #[test]
    fn places_are_given_and_taken() {
        let places = Places::new(2, 1 << 20);
        let admin = places.enter(HERE).unwrap();
        admin.claim(&user("root"), true);
        let stranger = places.enter(HERE).unwrap();
        let next = places.enter(HERE).unwrap();
        assert!(stranger.seat().cut.is_cancelled() && !admin.seat().cut.is_cancelled() && places.len() == 2);
        drop(stranger);
        assert_eq!(places.len(), 2, "its place was somebody else's already");
        next.claim(&user("root"), true);
        assert!(places.enter(HERE).is_none());
        drop((admin, next));
        assert_eq!(places.len(), 0);
    }

    /// KAPI-SRV-06: idle connections end, those of strangers first; what is in flight and what changed its protocol stays.
    #[test]
    fn idle_connections_end() {
        let places = Places::new(9, 1 << 20);
        let all: Vec<Place> = (0..4).map(|_| places.enter(HERE).unwrap()).collect();
        all[1].claim(&user("a"), false);
        all[2].seat().enter();
        all[3].upgraded();
        let ended = || all.iter().map(|place| place.seat().close.is_cancelled()).collect::<Vec<_>>();
        places.end_idle(Duration::ZERO, Duration::from_secs(60));
        assert_eq!(ended(), [true, false, false, false]);
        all[2].seat().leave();
        places.end_idle(Duration::ZERO, Duration::ZERO);
        assert_eq!(ended(), [true, true, true, false]);
    }
    /// KAPI-SRV-06: who does not read is cut, and where too much is held, the largest of whoever holds most.
    #[test]
    fn the_largest_is_cut_first() {
        let places = Places::new(9, 100);
        let all: Vec<Place> = (0..4).map(|_| places.enter(HERE).unwrap()).collect();
        for (place, (name, bytes)) in all.iter().zip([("root", 90), ("b", 40), ("b", 20), ("c", 50)]) {
            place.claim(&user(name), name == "root");
            place.seat().hold(bytes);
        }
        let cut = || all.iter().map(|place| place.seat().cut.is_cancelled()).collect::<Vec<_>>();
        places.cut_unread(Duration::from_secs(60), Duration::from_secs(30));
        assert_eq!(cut(), [false; 4], "all of them have just read");
        places.cut_unread(Duration::from_secs(60), Duration::ZERO);
        assert_eq!(cut(), [false, true, true, true], "60 of b, 50 of c");
        let quiet = Places::new(9, 100);
        let (reads, does_not) = (quiet.enter(HERE).unwrap(), quiet.enter(HERE).unwrap());
        does_not.seat().hold(1);
        quiet.cut_unread(Duration::ZERO, Duration::ZERO);
        assert!(does_not.seat().cut.is_cancelled() && !reads.seat().cut.is_cancelled());
    }
}
