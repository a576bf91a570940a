//! Reads at a revision.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use super::Shared;
use super::index::{Index, OpenFile, Place, Then};
use crate::record::Record;
use crate::{Error, Event, KeyValue, Listing, Range, Revision};

/// Keys that are read under one lock: writers wait no longer than that takes.
pub(super) const AT_ONCE: usize = 1_000;

/// Reads the index, and the files that it refers to.
pub(crate) struct Reader {
    shared: Arc<Shared>,
}

type Files = HashMap<u32, Arc<OpenFile>>;
type Next = Option<Arc<str>>;

impl Reader {
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Runs a longer read on a thread where it blocks no other task.
    pub async fn blocking<T, F>(self: Arc<Self>, read: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&Self) -> Result<T, Error> + Send + 'static,
    {
        tokio::task::spawn_blocking(move || read(&self)).await.map_err(|_| Error::Closed)?
    }

    pub fn list(&self, range: &Range) -> Result<Listing, Error> {
        loop {
            let revision = range.revision.unwrap_or_else(|| self.shared.index().revision);
            match self.list_at(range, revision) {
                // The latest revision of a moment ago has been compacted since: the present latest one will do.
                Err(Error::Compacted { .. }) if range.revision.is_none() => {}
                outcome => return outcome,
            }
        }
    }

    fn list_at(&self, range: &Range, revision: Revision) -> Result<Listing, Error> {
        let mut items = Vec::new();
        let mut from = match &range.after {
            Some(after) if after.as_str() >= range.prefix.as_str() => Bound::Excluded(Arc::from(after.as_str())),
            _ => Bound::Included(Arc::from(range.prefix.as_str())),
        };
        loop {
            let wanted = if range.limit == 0 { AT_ONCE } else { AT_ONCE.min(range.limit - items.len()) };
            let (mut part, next) = self.part(&range.prefix, &from, revision, wanted)?;
            items.append(&mut part);
            let Some(next) = next else { return Ok(Listing { items, revision, remaining: 0 }) };
            from = Bound::Included(next);
            if range.limit > 0 && items.len() == range.limit {
                let index = self.shared.index();
                retained(&index, revision)?;
                let remaining = index.count(&range.prefix, borrowed(&from), revision);
                return Ok(Listing { items, revision, remaining });
            }
        }
    }

    /// Hands over every key as of a revision, in order, in parts.
    pub fn state(&self, revision: Revision, mut each: impl FnMut(Vec<KeyValue>) -> Result<(), Error>) -> Result<(), Error> {
        let mut from = Bound::Unbounded;
        loop {
            let (part, next) = self.part("", &from, revision, AT_ONCE)?;
            each(part)?;
            let Some(next) = next else { return Ok(()) };
            from = Bound::Included(next);
        }
    }

    /// Up to `wanted` keys from `from` on, and the key to go on from.
    fn part(&self, prefix: &str, from: &Bound<Arc<str>>, revision: Revision, wanted: usize) -> Result<(Vec<KeyValue>, Next), Error> {
        let (found, next, files) = {
            let index = self.shared.index();
            retained(&index, revision)?;
            let (found, next) = index.range(prefix, borrowed(from), revision, wanted);
            let files = files_of(&index, found.iter().filter_map(|(_, then)| stored(then)));
            (found, next, files)
        };
        let value = |(key, then): (Arc<str>, Then)| match then {
            Then::Live(live) => Ok(live.of(&key)),
            Then::Stored(at, place) => self.read(&files, at, place).map(|(_, kv)| kv),
        };
        Ok((found.into_iter().map(value).collect::<Result<_, _>>()?, next))
    }

    pub fn check_compacted(&self, after: Revision) -> Result<(), Error> {
        let compacted = self.shared.index().compacted;
        // A watch from N needs the changes from N + 1 on.
        if after < compacted { Err(Error::Compacted { asked: after, oldest: compacted }) } else { Ok(()) }
    }

    /// The log after `after`: the changes below the prefix, the revision up to which it was read, and a flag for its end. At most `limit` changes of
    /// all keys are read, and those below the prefix only until they take so many bytes.
    pub fn log(&self, prefix: &str, after: Revision, limit: usize, bytes: usize) -> Result<(Vec<Event>, Revision, bool), Error> {
        let (changes, files, upto, complete) = {
            let index = self.shared.index();
            if after < index.compacted {
                return Err(Error::Compacted { asked: after, oldest: index.compacted });
            }
            let upto = index.revision.min(after + limit as u64);
            let changes: Vec<_> = (after + 1..=upto).filter_map(|at| Some((at, index.change(at)?))).collect();
            let places = changes.iter().flat_map(|(_, (place, before))| [Some(*place), before.map(|(_, place)| place)]).flatten();
            let files = files_of(&index, places);
            (changes, files, upto, upto == index.revision)
        };
        let (mut events, mut taken) = (Vec::new(), 0);
        for (revision, (place, before)) in changes {
            if taken >= bytes {
                return Ok((events, revision - 1, false));
            }
            let (deleted, now) = self.read(&files, revision, place)?;
            if !now.key.starts_with(prefix) {
                continue;
            }
            let before = before.map(|(at, place)| self.read(&files, at, place)).transpose()?.map(|(_, kv)| kv);
            taken += now.value.len() + before.as_ref().map_or(0, |before| before.value.len());
            events.push(match (deleted, before) {
                (false, before) => Event::Put { now, before },
                (true, Some(before)) => Event::Delete { revision, before },
                (true, None) => {
                    let problem = format!("revision {revision} deletes {}, of which no version is there", now.key);
                    return Err(Error::Corrupt { path: self.shared.disk.path(""), problem });
                }
            });
        }
        Ok((events, upto, complete))
    }

    /// Reads a record from its place; the flag marks a deletion.
    fn read(&self, files: &Files, revision: Revision, place: Place) -> Result<(bool, KeyValue), Error> {
        let damaged = |name: &str, problem: &str| Error::Corrupt {
            path: self.shared.disk.path(name),
            problem: format!("the record of revision {revision} at offset {} {problem}", place.offset),
        };
        let Some(open) = files.get(&place.file) else { return Err(damaged("", "is in a file that is gone")) };
        let mut bytes = vec![0; place.length() as usize];
        let count = open.file.read_at(&mut bytes, place.offset);
        let count = count.map_err(|source| Error::io(&self.shared.disk.path(&open.name), "reading", source))?;
        let (record, _) = Record::decode(revision, &bytes[..count]).map_err(|problem| damaged(&open.name, problem))?;
        let value = Bytes::copy_from_slice(record.value);
        let (key, created, version) = (record.key.to_owned(), record.created, record.version);
        Ok((record.deleted, KeyValue { key, value, created, modified: revision, version }))
    }
}

fn retained(index: &Index, revision: Revision) -> Result<(), Error> {
    if revision > index.revision {
        return Err(Error::Future { asked: revision, latest: index.revision });
    }
    if revision < index.compacted {
        return Err(Error::Compacted { asked: revision, oldest: index.compacted });
    }
    Ok(())
}

fn borrowed(bound: &Bound<Arc<str>>) -> Bound<&str> {
    match bound {
        Bound::Included(key) => Bound::Included(key),
        Bound::Excluded(key) => Bound::Excluded(key),
        Bound::Unbounded => Bound::Unbounded,
    }
}

fn stored(then: &Then) -> Option<Place> {
    match then {
        Then::Live(_) => None,
        Then::Stored(_, place) => Some(*place),
    }
}

/// The files of these places, so that they can be read after the lock is gone, even if compaction removes them.
fn files_of(index: &Index, places: impl Iterator<Item = Place>) -> Files {
    let mut files = Files::new();
    for place in places {
        if let Some(file) = index.files.get(&place.file) {
            files.entry(place.file).or_insert_with(|| file.clone());
        }
    }
    files
}
