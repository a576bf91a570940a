//! The connections of a listener: their users, the choice of one to cut when all places are taken, and idle limits.
//!
//! A new connection always gets a place, since its user is unknown yet and may be the administrator. When all places are taken it takes that of
//! another one, in this order: strangers (connections without a request under a proven name) before users; in each group the address or user with
//! the most open connections; of those the connection that has been quiet for longest. Connections with reserved places are never cut.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The place of a connection in the listener's limit, found in the request's extensions.
///
/// A handler that continues with a connection after a protocol upgrade must keep this value: the connection counts as open until it is dropped, and
/// the shutdown of the listener waits for it.
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

/// The user of a connection, once known.
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
    /// Requests whose answers have not been sent completely.
    active: AtomicUsize,
    /// The time of the last activity, in milliseconds since the listener began.
    last: AtomicU64,
    /// The time at which the connection last took a piece of an answer.
    taken: AtomicU64,
    /// True if it changed its protocol and is no longer observed.
    upgraded: AtomicBool,
    begun: Instant,
    /// Bytes of answers that the connection holds and has not sent.
    held: AtomicUsize,
    /// The total that all connections hold.
    all: Arc<Total>,
    /// Cancelled to cut it.
    pub cut: CancellationToken,
    /// Cancelled to close it once its requests are answered.
    pub close: CancellationToken,
}

impl Seat {
    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn owner(&self) -> Option<Owner> {
        self.owner.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the name under which it shares the processor; `None` if its place is reserved, so that it never waits.
    pub fn sharer(&self) -> Option<Arc<str>> {
        match &*self.owner.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(owner) => (!owner.reserved).then(|| owner.name.clone()),
            None => Some(self.address.clone()),
        }
    }

    /// Records the start of a request.
    pub fn enter(&self) {
        self.active.fetch_add(1, Ordering::Relaxed);
        self.last.store(self.now(), Ordering::Relaxed);
    }

    /// Records the end of a request, answered or abandoned.
    pub fn leave(&self) {
        self.active.fetch_sub(1, Ordering::Relaxed);
        self.last.store(self.now(), Ordering::Relaxed);
    }

    /// Records a piece of an answer that the connection received to send.
    pub fn hold(&self, bytes: usize) {
        if self.held.fetch_add(bytes, Ordering::Relaxed) == 0 {
            self.took();
        }
        self.all.held.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Records a piece of an answer that the client took or abandoned.
    pub fn release(&self, bytes: usize) {
        self.took();
        self.held.fetch_sub(bytes, Ordering::Relaxed);
        self.all.held.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Returns true if a request on it is not answered completely, or if it continues in another protocol.
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

/// The total that all connections of a listener hold.
#[derive(Debug)]
struct Total {
    held: AtomicUsize,
    limit: usize,
}

impl Place {
    /// Sets the user of the connection, whose name is proven. `reserved` protects it from being cut.
    pub fn claim(&self, name: &Arc<str>, reserved: bool) {
        let mut owner = self.0.seat.owner.lock().unwrap_or_else(PoisonError::into_inner);
        let same = owner.as_ref().is_some_and(|owner| owner.reserved == reserved && *owner.name == **name);
        if !same {
            *owner = Some(Owner { name: name.clone(), reserved });
        }
    }

    /// Cuts the connection.
    pub fn cut(&self) {
        self.0.seat.cut.cancel();
    }

    /// Asks the client to open another connection, and closes this one once its requests are answered.
    pub fn close(&self) {
        self.0.seat.close.cancel();
    }

    /// Returns the time since the client last took a piece of any answer.
    pub fn unread(&self) -> Duration {
        self.0.seat.unread()
    }

    /// Marks the connection as upgraded to another protocol: it may idle without limit.
    pub fn upgraded(&self) {
        self.0.seat.upgraded.store(true, Ordering::Relaxed);
    }

    pub(crate) fn seat(&self) -> &Arc<Seat> {
        &self.0.seat
    }
}

/// The properties of a connection that decide which one is cut.
#[derive(Debug, Clone, PartialEq, Eq)]
struct View {
    id: u64,
    /// The user, or the address of a stranger.
    of: Result<Arc<str>, IpAddr>,
    reserved: bool,
    active: bool,
    last: u64,
}

/// Returns the connection to cut; `None` if all of them have reserved places.
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

/// The multiple of the permitted total above which connections that read are cut, too.
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
    /// Creates places for `limit` connections, which may hold `held` bytes of answers that their clients have not taken.
    pub fn new(limit: usize, held: usize) -> Arc<Self> {
        let (open, next, left) = (Mutex::default(), AtomicU64::new(0), Notify::new());
        let all = Arc::new(Total { held: AtomicUsize::new(0), limit: held });
        Arc::new(Self { limit: limit.max(1), open, next, begun: Instant::now(), left, all })
    }

    fn with<T>(&self, f: impl FnOnce(&mut HashMap<u64, Arc<Seat>>) -> T) -> T {
        f(&mut self.open.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns a place for a new connection, if need be that of another one; `None` if all are reserved.
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

    /// Cuts a connection in favour of one that could not be accepted for lack of file descriptors.
    pub fn make_room(&self) -> bool {
        self.with(cut_one)
    }

    /// Returns the bytes of answers that are held and not taken.
    pub fn held(&self) -> usize {
        self.all.held.load(Ordering::Relaxed)
    }

    /// Cuts connections that took nothing of what they hold for `patience`. If all together hold too much, it also cuts connections that took nothing
    /// for `moment`, the largest of the user who holds most first, until the total is permitted. If the total is far too large, connections that read
    /// are cut, too.
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

    /// Returns the number of open connections.
    pub fn len(&self) -> usize {
        self.with(|open| open.len())
    }

    /// Returns the number of connections with reserved places.
    pub fn reserved(&self) -> usize {
        self.with(|open| open.values().filter(|seat| seat.owner().is_some_and(|owner| owner.reserved)).count())
    }

    /// Closes idle connections: strangers' after `strangers`, others after `users`.
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

    /// Waits until no connection is open.
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

/// Returns the largest connection of the user who holds most; those with reserved places come last.
fn largest(holding: &[(Arc<Seat>, usize)]) -> Option<usize> {
    let of: Vec<View> = holding.iter().map(|(seat, _)| view(seat)).collect();
    let mut sums: HashMap<&Result<Arc<str>, IpAddr>, usize> = HashMap::new();
    for (view, (_, held)) in of.iter().zip(holding) {
        *sums.entry(&view.of).or_default() += held;
    }
    let order = |&at: &usize| (!of[at].reserved, sums.get(&of[at].of).copied().unwrap_or_default(), holding[at].1);
    (0..holding.len()).max_by_key(order)
}

/// Cuts the connection that has to go first. Returns false if none may be cut.
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
