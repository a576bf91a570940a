//! Fair sharing of a scarce resource between users: seats, bytes, processor time (KAPI-SRV-06).
//!
//! A request is granted at once while there is enough. Otherwise requests wait in a queue for each user, and freed capacity goes to the user who
//! holds least. So a user with many requests waits for their own requests, and other users do not. No user holds more than a share, so that there is
//! always room for another one.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

/// The capacity, and the limits for each user and for waiting.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// The total capacity.
    pub capacity: usize,
    /// The most that one user holds. A larger request counts as this much.
    pub share: usize,
    /// The most waiting requests of one user.
    pub waiting_each: usize,
    /// The most waiting requests in total.
    pub waiting: usize,
}

/// A shared resource.
#[derive(Debug)]
pub struct Fair {
    rules: Rules,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: usize,
    waiting: usize,
    /// The number of grants, so that users who hold the same amount take turns.
    given: u64,
    /// The number of queued requests, so that users who were never served are served in that order.
    asked: u64,
    users: HashMap<Arc<str>, User>,
}

#[derive(Debug, Default)]
struct User {
    held: usize,
    last: u64,
    queue: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    amount: usize,
    asked: u64,
    give: oneshot::Sender<Share>,
}

/// A granted amount, returned when dropped.
#[derive(Debug)]
pub struct Share {
    of: Option<Arc<Fair>>,
    user: Arc<str>,
    amount: usize,
}

/// The answer to a request.
#[derive(Debug)]
pub enum Asked {
    /// Granted at once.
    Granted(Share),
    /// Queued; granted when its turn comes.
    Wait(oneshot::Receiver<Share>),
    /// Refused: too many requests wait already.
    Full,
}

/// A refused request: there is not enough, and waiting does not help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

impl Fair {
    /// Creates a resource with these rules.
    pub fn new(rules: Rules) -> Arc<Self> {
        Arc::new(Self { rules, state: Mutex::default() })
    }

    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn give(self: &Arc<Self>, user: &Arc<str>, amount: usize) -> Share {
        Share { of: Some(self.clone()), user: user.clone(), amount }
    }

    /// Requests an amount, and joins the queue if there is not enough.
    pub fn ask(self: &Arc<Self>, user: &Arc<str>, amount: usize) -> Asked {
        let amount = amount.min(self.rules.share).min(self.rules.capacity);
        self.with(|state| {
            let none_wait = state.waiting == 0;
            if none_wait && self.fits(state, user, amount) {
                state.take(user, amount);
                return Asked::Granted(self.give(user, amount));
            }
            let queue = &mut state.user(user).queue;
            if queue.len() >= self.rules.waiting_each || state.waiting >= self.rules.waiting {
                state.forget(user);
                return Asked::Full;
            }
            let (give, mut given) = oneshot::channel();
            state.asked += 1;
            let asked = state.asked;
            state.user(user).queue.push_back(Waiter { amount, asked, give });
            state.waiting += 1;
            self.serve(state);
            match given.try_recv() {
                Ok(share) => Asked::Granted(share),
                Err(_) => Asked::Wait(given),
            }
        })
    }

    /// Requests an amount, and waits for it for up to `patience`.
    pub async fn take(self: &Arc<Self>, user: &Arc<str>, amount: usize, patience: Duration) -> Result<Share, Full> {
        match self.ask(user, amount) {
            Asked::Granted(share) => Ok(share),
            Asked::Wait(given) => match tokio::time::timeout(patience, given).await {
                Ok(Ok(share)) => Ok(share),
                _ => Err(Full),
            },
            Asked::Full => Err(Full),
        }
    }

    /// Returns an amount if there is room at all, ahead of the queue: for callers that need not wait, and are counted if possible.
    pub fn jump(self: &Arc<Self>, user: &Arc<str>, amount: usize) -> Option<Share> {
        self.with(|state| {
            (state.used.saturating_add(amount) <= self.rules.capacity).then(|| {
                state.take(user, amount);
                self.give(user, amount)
            })
        })
    }

    /// Returns the amount in use.
    pub fn used(&self) -> usize {
        self.with(|state| state.used)
    }

    /// Returns the number of waiting requests.
    pub fn waiting(&self) -> usize {
        self.with(|state| state.waiting)
    }

    fn fits(&self, state: &State, user: &Arc<str>, amount: usize) -> bool {
        let held = state.users.get(user).map_or(0, |user| user.held);
        held.saturating_add(amount) <= self.rules.share && state.used.saturating_add(amount) <= self.rules.capacity
    }

    /// Grants the free amount to waiting requests.
    fn serve(self: &Arc<Self>, state: &mut State) {
        while state.waiting > 0 {
            state.discard();
            // A user who holds a full share waits only for their own requests.
            let ready = |user: &User| user.queue.front().is_some_and(|head| user.held.saturating_add(head.amount) <= self.rules.share);
            // Users who were never served differ by the time of their request: a newcomer overtakes none of them.
            let asked = |user: &User| user.queue.front().map(|head| head.asked);
            let next = state.users.iter().filter(|(_, user)| ready(user)).min_by_key(|(_, user)| (user.held, user.last, asked(user)));
            let Some(name) = next.map(|(name, _)| name.clone()) else { return };
            let used = state.used;
            let user = state.user(&name);
            if user.queue.front().is_some_and(|head| used.saturating_add(head.amount) > self.rules.capacity) {
                // It is this user's turn: no smaller request overtakes it.
                return;
            }
            let Some(Waiter { amount, give, .. }) = user.queue.pop_front() else { return };
            state.waiting -= 1;
            if give.is_closed() {
                state.forget(&name);
                continue;
            }
            state.take(&name, amount);
            if let Err(mut unwanted) = give.send(self.give(&name, amount)) {
                // The receiver gave up at this moment. The amount is returned here, since the state is locked.
                unwanted.of = None;
                state.put_back(&name, amount);
            }
        }
    }
}

impl State {
    /// Removes abandoned requests from the heads of queues, so that they block no others.
    fn discard(&mut self) {
        let mut gone = 0;
        self.users.retain(|_, user| {
            while user.queue.front().is_some_and(|head| head.give.is_closed()) {
                user.queue.pop_front();
                gone += 1;
            }
            user.held > 0 || !user.queue.is_empty()
        });
        self.waiting -= gone;
    }

    fn user(&mut self, name: &Arc<str>) -> &mut User {
        if !self.users.contains_key(name) {
            self.users.insert(name.clone(), User::default());
        }
        // An absent user is inserted.
        self.users.entry(name.clone()).or_default()
    }

    fn take(&mut self, name: &Arc<str>, amount: usize) {
        self.used += amount;
        self.given += 1;
        let given = self.given;
        let user = self.user(name);
        user.held += amount;
        user.last = given;
    }

    fn put_back(&mut self, name: &Arc<str>, amount: usize) {
        self.used = self.used.saturating_sub(amount);
        let user = self.user(name);
        user.held = user.held.saturating_sub(amount);
        self.forget(name);
    }

    fn forget(&mut self, name: &Arc<str>) {
        if self.users.get(name).is_some_and(|user| user.held == 0 && user.queue.is_empty()) {
            self.users.remove(name);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let Some(of) = self.of.take() else { return };
        of.with(|state| {
            state.put_back(&self.user, self.amount);
            of.serve(state);
        });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn name(text: &str) -> Arc<str> {
        text.into()
    }

    fn given(asked: Asked) -> Share {
        let Asked::Granted(share) = asked else { panic!("{asked:?}") };
        share
    }

    fn wait(asked: Asked) -> oneshot::Receiver<Share> {
        let Asked::Wait(given) = asked else { panic!("{asked:?}") };
        given
    }

    /// KAPI-SRV-06: who holds least is next, in turn where they hold the same, and nobody has more than a share.
    #[test]
    fn what_comes_free_goes_to_who_holds_least() {
        let fair = Fair::new(Rules { capacity: 4, share: 3, waiting_each: 10, waiting: 12 });
        let (a, b, c) = (name("a"), name("b"), name("c"));
        let mut held: Vec<Share> = (0..3).map(|_| given(fair.ask(&a, 1))).collect();
        let mut later = wait(fair.ask(&a, 1));
        assert_eq!((fair.used(), fair.waiting()), (3, 1), "a has its share");
        let of_b = given(fair.ask(&b, 1));
        let (mut b_next, mut c_next) = (wait(fair.ask(&b, 1)), wait(fair.ask(&c, 1)));
        held.pop();
        let of_c = c_next.try_recv().unwrap();
        assert!(b_next.try_recv().is_err() && later.try_recv().is_err(), "c held nothing");
        drop(of_c);
        let _b_has = b_next.try_recv().unwrap();
        drop((held, of_b));
        later.try_recv().unwrap();
    }

    /// KAPI-SRV-06: a newcomer with a small request does not overtake one who waits for more; tried often, since maps have no order of their own.
    #[test]
    fn a_newcomer_overtakes_none() {
        for _ in 0..200 {
            let fair = Fair::new(Rules { capacity: 10, share: 8, waiting_each: 1, waiting: 2 });
            let first = given(fair.ask(&name("a"), 5));
            let mut large = wait(fair.ask(&name("b"), 8));
            let mut small = wait(fair.ask(&name("c"), 1));
            drop(first);
            let of_b = large.try_recv().unwrap();
            let of_c = small.try_recv().unwrap();
            drop((of_b, of_c));
        }
    }

    /// KAPI-SRV-06: what is large is not starved by what is small, what was given up is not given, and queues have an end.
    #[test]
    fn large_ones_have_their_turn() {
        let fair = Fair::new(Rules { capacity: 10, share: 8, waiting_each: 1, waiting: 2 });
        let (a, b, c, d) = (name("a"), name("b"), name("c"), name("d"));
        let first = given(fair.ask(&a, 5));
        let mut large = wait(fair.ask(&b, 100));
        let small = wait(fair.ask(&c, 1));
        assert!(matches!(fair.ask(&d, 1), Asked::Full) && matches!(fair.ask(&b, 1), Asked::Full));
        drop(small);
        assert!(fair.jump(&d, 6).is_none());
        let jumped = fair.jump(&d, 2).unwrap();
        drop(first);
        let of_b = large.try_recv().unwrap();
        assert_eq!(fair.used(), 10, "a request beyond the share is one of the share's size");
        drop((of_b, jumped));
        assert_eq!((fair.used(), fair.waiting()), (0, 0));
        assert!(fair.with(|state| state.users.is_empty()), "nothing is kept of who has gone");
    }

    /// KAPI-SRV-06: random users come, wait, give up and go: nothing is lost, nothing exceeds, and in the end everything is there again.
    #[test]
    fn nothing_is_lost() {
        let rules = Rules { capacity: 20, share: 9, waiting_each: 5, waiting: 30 };
        let fair = Fair::new(rules);
        let users: Vec<Arc<str>> = (0..8).map(|n| name(&n.to_string())).collect();
        let (mut held, mut waiting) = (Vec::new(), Vec::new());
        let mut seed = 1_u64;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        for _ in 0..20_000 {
            match random(4) {
                0 | 1 => match fair.ask(&users[random(8)], 1 + random(12)) {
                    Asked::Granted(share) => held.push(share),
                    Asked::Wait(given) => waiting.push(given),
                    Asked::Full => {}
                },
                2 if !held.is_empty() => drop(held.swap_remove(random(held.len()))),
                _ if !waiting.is_empty() => drop(waiting.swap_remove(random(waiting.len()))),
                _ => {}
            }
            waiting.retain_mut(|given| match given.try_recv() {
                Ok(share) => {
                    held.push(share);
                    false
                }
                Err(_) => true,
            });
            assert_eq!(held.iter().map(|share| share.amount).sum::<usize>(), fair.used());
            assert!(fair.used() <= rules.capacity);
        }
        drop((held, waiting));
        assert_eq!(fair.used(), 0);
    }
}
