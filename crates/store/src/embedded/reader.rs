//! Reading at a revision.

use std::path::PathBuf;
use std::sync::Arc;

use redb::{Database, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTableMetadata};

use super::{LOG, META, OBJECTS, VERSIONS, reading};
use crate::record::{self, Entry};
use crate::{Error, Event, Figures, KeyValue, Listing, Range, Revision};

/// Reads of the file; each sees one commit.
pub(crate) struct Reader {
    db: Arc<Database>,
    path: PathBuf,
}

type Versions = ReadOnlyTable<(&'static str, u64), &'static [u8]>;
type Objects = ReadOnlyTable<&'static str, &'static [u8]>;

impl Reader {
    pub fn new(db: Arc<Database>, path: PathBuf) -> Self {
        Self { db, path }
    }

    /// Runs a longer read where it holds nobody up.
    pub async fn blocking<T, F>(self: Arc<Self>, read: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&Self) -> Result<T, Error> + Send + 'static,
    {
        tokio::task::spawn_blocking(move || read(&self)).await.map_err(|_| Error::Closed)?
    }

    pub fn get(&self, key: &str) -> Result<(Option<KeyValue>, Revision), Error> {
        self.run(|read| {
            let revision = number(read, "revision")?;
            let objects = read.open_table(OBJECTS)?;
            let found = objects.get(key)?.map(|bytes| record::decode(key, bytes.value()));
            Ok((found, revision))
        })
        .and_then(|(found, revision)| Ok((found.transpose().map_err(|problem| self.corrupt(problem))?, revision)))
    }

    pub fn list(&self, range: &Range) -> Result<Listing, Error> {
        let (records, revision, remaining) = self.run(|read| {
            let latest = number(read, "revision")?;
            let revision = range.revision.unwrap_or(latest);
            let compacted = number(read, "compacted")?;
            if revision > latest || revision < compacted {
                return Ok((Vec::new(), latest, compacted));
            }
            let (records, remaining) = if revision == latest { current(read, range)? } else { past(read, range, revision)? };
            Ok((records, revision, remaining))
        })?;
        if let Some(asked) = range.revision
            && asked != revision
        {
            return Err(if asked > revision {
                Error::Future { asked, latest: revision }
            } else {
                Error::Compacted { asked, oldest: remaining }
            });
        }
        let items = records.into_iter().collect::<Result<Vec<_>, _>>().map_err(|problem| self.corrupt(problem))?;
        Ok(Listing { items, revision, remaining })
    }

    pub fn check_compacted(&self, after: Revision) -> Result<(), Error> {
        let compacted = self.run(|read| number(read, "compacted"))?;
        // A watch from N needs the log from N + 1 on.
        if after < compacted { Err(Error::Compacted { asked: after, oldest: compacted }) } else { Ok(()) }
    }

    /// Up to `limit` log entries after `after`: the events below the prefix, how far the log was read, whether that was its end.
    pub fn log(&self, prefix: &str, after: Revision, limit: usize) -> Result<(Vec<Event>, Revision, bool), Error> {
        let (events, upto, complete) = self.run(|read| {
            // In the same transaction: what is compacted meanwhile does not go missing here.
            let compacted = number(read, "compacted")?;
            if after < compacted {
                return Ok((Vec::new(), compacted, false));
            }
            let (log, objects, versions) = (read.open_table(LOG)?, read.open_table(OBJECTS)?, read.open_table(VERSIONS)?);
            let (mut events, mut upto, mut complete) = (Vec::new(), after, true);
            for (count, entry) in log.range(after + 1..)?.enumerate() {
                let (revision, bytes) = entry?;
                if count == limit {
                    complete = false;
                    break;
                }
                upto = revision.value();
                events.push(event(bytes.value(), upto, prefix, &objects, &versions)?);
            }
            if complete {
                upto = upto.max(number(read, "revision")?);
            }
            Ok((events, upto, complete))
        })?;
        if events.is_empty() && !complete {
            return Err(Error::Compacted { asked: after, oldest: upto });
        }
        let events =
            events.into_iter().filter_map(Result::transpose).collect::<Result<Vec<_>, _>>().map_err(|problem| self.corrupt(problem))?;
        Ok((events, upto, complete))
    }

    pub fn figures(&self) -> Result<Figures, Error> {
        self.run(|read| {
            Ok(Figures {
                keys: read.open_table(OBJECTS)?.len()?,
                revision: number(read, "revision")?,
                compacted: number(read, "compacted")?,
                ..Figures::default()
            })
        })
    }

    fn run<T>(&self, read: impl FnOnce(&ReadTransaction) -> Result<T, redb::Error>) -> Result<T, Error> {
        self.db
            .begin_read()
            .map_err(redb::Error::from)
            .and_then(|transaction| read(&transaction))
            .map_err(|error| reading(&self.path, error))
    }

    fn corrupt(&self, problem: String) -> Error {
        Error::Corrupt { path: self.path.clone(), problem }
    }
}

type Records = Vec<Result<KeyValue, String>>;

fn number(read: &ReadTransaction, key: &str) -> Result<u64, redb::Error> {
    Ok(read.open_table(META)?.get(key)?.map_or(0, |value| value.value()))
}

/// The first key that is not wanted any more decides; keys are in order.
fn start(range: &Range) -> String {
    match &range.after {
        Some(after) if after.as_str() >= range.prefix.as_str() => format!("{after}\0"),
        _ => range.prefix.clone(),
    }
}

fn current(read: &ReadTransaction, range: &Range) -> Result<(Records, u64), redb::Error> {
    let objects = read.open_table(OBJECTS)?;
    let (mut records, mut remaining) = (Vec::new(), 0);
    for entry in objects.range(start(range).as_str()..)? {
        let (key, bytes) = entry?;
        if !key.value().starts_with(&range.prefix) {
            break;
        }
        if range.limit > 0 && records.len() == range.limit {
            remaining += 1;
        } else {
            records.push(record::decode(key.value(), bytes.value()));
        }
    }
    Ok((records, remaining))
}

/// The range as it was: for each key its newest record that is not younger than `revision`, unless that is a deletion.
fn past(read: &ReadTransaction, range: &Range, revision: Revision) -> Result<(Records, u64), redb::Error> {
    let (objects, versions) = (read.open_table(OBJECTS)?, read.open_table(VERSIONS)?);
    let from = start(range);
    let mut found = std::collections::BTreeMap::new();
    for entry in objects.range(from.as_str()..)? {
        let (key, bytes) = entry?;
        if !key.value().starts_with(&range.prefix) {
            break;
        }
        let record = record::decode(key.value(), bytes.value());
        if !matches!(&record, Ok(kv) if kv.modified > revision) {
            found.insert(key.value().to_owned(), Some(record));
        }
    }
    for entry in versions.range((from.as_str(), 0)..)? {
        let (at, bytes) = entry?;
        let (key, written) = at.value();
        if !key.starts_with(&range.prefix) {
            break;
        }
        // Versions come oldest first, so the last one that fits stays; a key whose live record fits needs none.
        let live = matches!(found.get(key), Some(Some(Ok(kv))) if kv.modified > written);
        if written <= revision && !live {
            let value = bytes.value();
            found.insert(key.to_owned(), (!value.is_empty()).then(|| record::decode(key, value)));
        }
    }
    let mut records: Records = found.into_values().flatten().collect();
    let remaining = if range.limit > 0 && records.len() > range.limit { records.len() - range.limit } else { 0 };
    records.truncate(records.len() - remaining);
    Ok((records, remaining as u64))
}

/// The event of a log entry; `None` where its key is not below the prefix.
fn event(
    bytes: &[u8],
    revision: Revision,
    prefix: &str,
    objects: &Objects,
    versions: &Versions,
) -> Result<Result<Option<Event>, String>, redb::Error> {
    let entry = match Entry::decode(bytes) {
        Ok(entry) if entry.key.starts_with(prefix) => entry,
        Ok(_) => return Ok(Ok(None)),
        Err(problem) => return Ok(Err(problem)),
    };
    let version = |at: Revision| -> Result<Option<Result<KeyValue, String>>, redb::Error> {
        let bytes = versions.get((entry.key, at))?;
        Ok(bytes.filter(|bytes| !bytes.value().is_empty()).map(|bytes| record::decode(entry.key, bytes.value())))
    };
    let before = match version(entry.before)?.transpose() {
        Ok(before) => before,
        Err(problem) => return Ok(Err(problem)),
    };
    if entry.delete {
        return Ok(before
            .map(|before| Some(Event::Delete { revision, before }))
            .ok_or_else(|| format!("the log at revision {revision} deletes {}, of which no version is there", entry.key)));
    }
    let live = objects.get(entry.key)?.map(|bytes| record::decode(entry.key, bytes.value()));
    let now = match live {
        Some(Ok(kv)) if kv.modified == revision => Some(Ok(kv)),
        _ => version(revision)?,
    };
    Ok(match now {
        Some(Ok(now)) => Ok(Some(Event::Put { now, before })),
        Some(Err(problem)) => Err(problem),
        None => Err(format!("the log at revision {revision} writes {}, of which no version is there", entry.key)),
    })
}
