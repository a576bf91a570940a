//! The index in memory: every key's latest value, and the places of older ones in the files.
//!
//! ```text
//!   keys     key -> latest value, or that it was deleted lately
//!   recent   one place for each revision after `compacted`, with the revision of the same key before it
//!   base     revision -> place, for what every key was at `compacted`
//! ```
//!
//! A key's past is a chain through `recent` that ends in `base`. Values of the past are not held: they are read from their places.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use super::disk::DiskFile;
use crate::{Event, KeyValue, Revision};

/// The place of a record in the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub offset: u64,
    pub file: u32,
    /// Its bytes; the highest bit marks a deletion.
    length: u32,
}

const DELETION: u32 = 1 << 31;

impl Place {
    pub fn new(file: u32, offset: u64, length: u32) -> Self {
        Self { offset, file, length }
    }

    /// Bytes of the record.
    pub fn length(&self) -> u32 {
        self.length & !DELETION
    }

    fn is_deletion(&self) -> bool {
        self.length & DELETION != 0
    }
}

/// A file that places refer to.
pub(super) struct OpenFile {
    pub name: String,
    pub file: Arc<dyn DiskFile>,
}

/// A record after `compacted`.
#[derive(Clone, Copy, Debug)]
struct Recent {
    place: Place,
    /// The revision of the previous record of the same key; 0 if there is none.
    back: Revision,
}

/// A key's latest value.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub value: Bytes,
    pub created: Revision,
    pub modified: Revision,
    pub version: u64,
}

impl Live {
    pub fn of(&self, key: &str) -> KeyValue {
        KeyValue { key: key.to_owned(), value: self.value.clone(), created: self.created, modified: self.modified, version: self.version }
    }
}

/// The state of a key.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// The key exists.
    Live(Live),
    /// The key was deleted at this revision, which is after `compacted`.
    Gone(Revision),
}

impl State {
    fn revision(&self) -> Revision {
        match self {
            Self::Live(live) => live.modified,
            Self::Gone(revision) => *revision,
        }
    }
}

/// The state of a key at an earlier revision.
pub(super) enum Then {
    /// Its present value.
    Live(Live),
    /// A value in a file.
    Stored(Revision, Place),
}

/// A key with its state at an earlier revision.
pub(super) type Found = (Arc<str>, Then);

/// Everything in memory. Readers see it under a lock that the writer takes for the moment in which it applies a commit.
pub(super) struct Index {
    keys: BTreeMap<Arc<str>, State>,
    recent: VecDeque<Recent>,
    base: HashMap<Revision, Place>,
    /// Deletions after `compacted`, oldest first.
    gone: VecDeque<(Revision, Arc<str>)>,
    /// Open files by their number in places.
    pub files: HashMap<u32, Arc<OpenFile>>,
    /// The latest revision.
    pub revision: Revision,
    /// History up to here is gone; `recent` begins after it.
    pub compacted: Revision,
    /// Number of live keys.
    pub live: u64,
    /// Bytes of the records in `base`.
    pub base_bytes: u64,
}

impl Index {
    /// An empty index, as of a revision.
    pub fn new(revision: Revision) -> Self {
        Self {
            keys: BTreeMap::new(),
            recent: VecDeque::new(),
            base: HashMap::new(),
            gone: VecDeque::new(),
            files: HashMap::new(),
            revision,
            compacted: revision,
            live: 0,
            base_bytes: 0,
        }
    }

    /// The key's present value, if it exists.
    pub fn state(&self, key: &str) -> Option<&Live> {
        match self.keys.get(key) {
            Some(State::Live(live)) => Some(live),
            Some(State::Gone(_)) | None => None,
        }
    }

    /// Adds a key of a snapshot.
    pub fn load(&mut self, key: &str, live: Live, place: Place) {
        self.base_bytes += u64::from(place.length());
        self.base.insert(live.modified, place);
        if self.keys.insert(key.into(), State::Live(live)).is_none() {
            self.live += 1;
        }
    }

    /// Applies the next write, which is durable.
    pub fn apply(&mut self, event: &Event, place: Place) {
        let (key, revision) = (event.key(), event.revision());
        debug_assert_eq!(revision, self.revision + 1, "revisions are contiguous");
        let next = match event {
            Event::Put { now, .. } => {
                State::Live(Live { value: now.value.clone(), created: now.created, modified: revision, version: now.version })
            }
            Event::Delete { .. } => State::Gone(revision),
        };
        let place = if matches!(next, State::Gone(_)) { Place { length: place.length | DELETION, ..place } } else { place };
        let back = if let Some(state) = self.keys.get_mut(key) {
            let back = state.revision();
            match (&*state, &next) {
                (State::Live(_), State::Gone(_)) => self.live -= 1,
                (State::Gone(_), State::Live(_)) => self.live += 1,
                _ => {}
            }
            *state = next;
            back
        } else {
            self.live += u64::from(matches!(next, State::Live(_)));
            self.keys.insert(key.into(), next);
            0
        };
        if place.is_deletion()
            && let Some((key, _)) = self.keys.get_key_value(key)
        {
            self.gone.push_back((revision, key.clone()));
        }
        self.recent.push_back(Recent { place, back });
        self.revision = revision;
    }

    /// Up to `limit` keys that begin with `prefix`, from `from` on, as of a retained revision, and the key to go on from.
    pub fn range(&self, prefix: &str, from: Bound<&str>, revision: Revision, limit: usize) -> (Vec<Found>, Option<Arc<str>>) {
        let mut found = Vec::new();
        for (key, state) in self.keys.range::<str, _>((from, Bound::Unbounded)) {
            if !key.starts_with(prefix) {
                return (found, None);
            }
            if found.len() == limit {
                return (found, Some(key.clone()));
            }
            if let Some(then) = self.then(state, revision) {
                found.push((key.clone(), then));
            }
        }
        (found, None)
    }

    /// The state of a key at a retained revision.
    fn then(&self, state: &State, revision: Revision) -> Option<Then> {
        let mut at = state.revision();
        while at > revision {
            at = self.recent(at)?.back;
        }
        match state {
            State::Live(live) if live.modified == at => Some(Then::Live(live.clone())),
            _ => self.place(at).filter(|place| !place.is_deletion()).map(|place| Then::Stored(at, place)),
        }
    }

    /// Number of keys that begin with `prefix` and existed at a revision, from `from` on.
    pub fn count(&self, prefix: &str, from: Bound<&str>, revision: Revision) -> u64 {
        let below = self.keys.range::<str, _>((from, Bound::Unbounded)).take_while(|(key, _)| key.starts_with(prefix));
        if revision == self.revision {
            return below.filter(|(_, state)| matches!(state, State::Live(_))).count() as u64;
        }
        below.filter(|(_, state)| self.then(state, revision).is_some()).count() as u64
    }

    /// The place of the record of a retained revision, and of the previous one of the same key.
    pub fn change(&self, revision: Revision) -> Option<(Place, Option<(Revision, Place)>)> {
        let recent = self.recent(revision)?;
        let before = self.place(recent.back).filter(|place| !place.is_deletion()).map(|place| (recent.back, place));
        Some((recent.place, before))
    }

    fn recent(&self, revision: Revision) -> Option<&Recent> {
        self.recent.get(usize::try_from(revision.checked_sub(self.compacted + 1)?).ok()?)
    }

    fn place(&self, revision: Revision) -> Option<Place> {
        self.recent(revision).map(|recent| recent.place).or_else(|| self.base.get(&revision).copied())
    }

    /// Forgets history up to `revision`, which is not after the latest.
    pub fn compact(&mut self, revision: Revision) {
        while self.compacted < revision
            && let Some(Recent { place, back }) = self.recent.pop_front()
        {
            self.compacted += 1;
            if let Some(old) = self.base.remove(&back) {
                self.base_bytes -= u64::from(old.length());
            }
            if !place.is_deletion() {
                self.base_bytes += u64::from(place.length());
                self.base.insert(self.compacted, place);
            }
        }
        while let Some((at, _)) = self.gone.front()
            && *at <= self.compacted
        {
            let Some((at, key)) = self.gone.pop_front() else { break };
            if matches!(self.keys.get(&key), Some(State::Gone(revision)) if *revision == at) {
                self.keys.remove(&key);
            }
        }
        if self.recent.capacity() > 4 * self.recent.len() + 1_024 {
            self.recent.shrink_to(2 * self.recent.len());
        }
    }

    /// Replaces `base`, when every place of it has moved into a new snapshot.
    pub fn rebase(&mut self, base: HashMap<Revision, Place>) {
        self.base_bytes = base.values().map(|place| u64::from(place.length())).sum();
        self.base = base;
    }
}
