//! Channels in the modes `semver` and `semver-skippatch`: each bundle is put into the update graph between its neighbours by version.

use std::collections::{BTreeMap, BTreeSet};

use mainstay_versions::Version;
use rusqlite::Connection;

use super::add::Mode;
use super::bundle::plain;
use super::channels::{START_DEPTH, add_entry, set_replaces};
use crate::addition::Addition;
use crate::error::Error;
use crate::tables::text;

/// Identity of a bundle.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) image: String,
    pub(super) version: String,
    pub(super) name: String,
}

impl Key {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A channel: its head, and the bundles that each of its bundles replaces.
#[derive(Debug, Clone, Default)]
pub(super) struct Channel {
    pub(super) head: Key,
    pub(super) nodes: BTreeMap<Key, BTreeSet<Key>>,
}

/// The update graph of a package.
#[derive(Debug, Clone, Default)]
pub(super) struct Graph {
    pub(super) package: String,
    pub(super) default_channel: String,
    pub(super) channels: BTreeMap<String, Channel>,
}

impl Graph {
    /// Reads the graph from the tables; `None` if the package does not exist.
    pub(super) fn read(connection: &Connection, package: &str) -> Result<Option<Self>, Error> {
        let mut statement = connection.prepare_cached("SELECT default_channel FROM package WHERE name = ?")?;
        let mut rows = statement.query([package])?;
        let default_channel = rows.next()?.map(|row| text(row, 0)).transpose()?.flatten();
        let Some(default_channel) = default_channel else { return Ok(None) };
        let mut graph = Self { package: package.to_owned(), default_channel, channels: BTreeMap::new() };
        let existing = existing(connection, package)?;
        let mut nodes: BTreeMap<String, BTreeMap<Key, BTreeSet<Key>>> = BTreeMap::new();
        let mut candidates: BTreeMap<String, BTreeSet<Key>> = BTreeMap::new();
        let entries = entries(connection, package)?;
        for (channel, key, _) in &entries {
            let nodes = nodes.entry(channel.clone()).or_default();
            if existing.contains(key) {
                nodes.insert(key.clone(), BTreeSet::new());
                candidates.entry(channel.clone()).or_default().insert(key.clone());
            }
        }
        for (channel, key, replaced) in entries.into_iter().filter(|(_, _, replaced)| !replaced.is_empty()) {
            if let Some(candidates) = candidates.get_mut(&channel) {
                candidates.remove(&replaced);
            }
            nodes.entry(channel).or_default().entry(key).or_default().insert(replaced);
        }
        for (channel, candidates) in candidates {
            let mut candidates = candidates.into_iter();
            let Some(head) = candidates.next() else {
                return Err(Error::content(format!("no channel head found for {channel}")));
            };
            let others: Vec<Key> = candidates.collect();
            if !others.is_empty() {
                let all: Vec<String> = std::iter::once(&head)
                    .chain(&others)
                    .map(|key| format!("{{{} {} {}}}:{{}}", key.image, key.version, key.name))
                    .collect();
                return Err(Error::content(format!("multiple candidate channel heads found for {channel}: map[{}]", all.join(" "))));
            }
            let nodes = nodes.remove(&channel).unwrap_or_default();
            graph.channels.insert(channel, Channel { head, nodes });
        }
        Ok(Some(graph))
    }

    /// Puts a bundle into each of its channels.
    pub(super) fn add(&mut self, bundle: &Addition, mode: Mode) -> Result<(), Error> {
        let version =
            Version::parse(&bundle.version).map_err(|_| Error::content(format!("Bundle version {} is not valid", bundle.version)))?;
        let new = Key { image: bundle.image.clone(), version: version.to_string(), name: bundle.name.clone() };
        self.package.clone_from(&bundle.package);
        if !bundle.default_channel.is_empty() {
            self.default_channel.clone_from(&bundle.default_channel);
        }
        if self.default_channel.is_empty() {
            let first = bundle.channels.iter().min().filter(|channel| !channel.is_empty());
            let first = first.ok_or_else(|| Error::content("Default channel is missing and can't be inferred"))?;
            self.default_channel.clone_from(first);
        }
        for name in &bundle.channels {
            if let Some(channel) = self.channels.get_mut(name) {
                channel.insert(&new, &version, mode)?;
            } else {
                let nodes = BTreeMap::from([(new.clone(), BTreeSet::new())]);
                self.channels.insert(name.clone(), Channel { head: new.clone(), nodes });
            }
        }
        Ok(())
    }

    /// Writes the graph. Every failure is reported; successful changes stay in the transaction.
    pub(super) fn write(&self, connection: &Connection) -> Result<(), Error> {
        let package = &self.package;
        let mut errors = Vec::new();
        connection.execute("INSERT OR REPLACE INTO package(name) VALUES (?)", [package])?;
        for (name, channel) in &self.channels {
            let sql = "INSERT OR REPLACE INTO channel(name, package_name, head_operatorbundle_name) VALUES (?, ?, ?)";
            if let Err(error) = connection.execute(sql, [name, package, &channel.head.name]) {
                errors.push(Error::content(format!(
                    "failed to insert or update channel ({name}) for package ({package}) with head ({}) : {}",
                    channel.head.name,
                    plain(&error)
                )));
            }
        }
        let set = "UPDATE package SET default_channel = ? WHERE name = ?";
        if let Err(error) = connection.execute(set, [&self.default_channel, package]) {
            errors.push(Error::content(format!(
                "the default channel ({0}) does not exist: failed to set default channel ({0}) for package ({package}): {1}",
                self.default_channel,
                plain(&error)
            )));
        }
        for (name, channel) in &self.channels {
            connection.execute("DELETE FROM channel_entry WHERE channel_name = ? AND package_name = ?", [name, package])?;
            if let Err(error) = channel.write(connection, package, name) {
                errors.push(error);
            }
        }
        Error::collect(errors)
    }
}

impl Channel {
    fn insert(&mut self, new: &Key, version: &Version, mode: Mode) -> Result<(), Error> {
        let mut ahead: Option<(Version, Key)> = None;
        let mut behind: Option<(Version, Key)> = None;
        let mut patches = Vec::new();
        for node in self.nodes.keys() {
            let other = Version::parse(&node.version).map_err(|_| {
                Error::content(format!(
                    "Unable to parse existing bundle version stored in index {} {} {}",
                    node.name, node.version, node.image
                ))
            })?;
            match other.cmp_precedence(version) {
                std::cmp::Ordering::Equal => return Err(Error::content(format!("Bundle version {version} already added to index"))),
                std::cmp::Ordering::Greater => {
                    if ahead.as_ref().is_none_or(|(lowest, _)| other.cmp_precedence(lowest).is_lt()) {
                        ahead = Some((other, node.clone()));
                    }
                }
                std::cmp::Ordering::Less => {
                    if mode == Mode::SemverSkippatch && (other.major(), other.minor()) == (version.major(), version.minor()) {
                        patches.push(node.clone());
                    }
                    if behind.as_ref().is_none_or(|(greatest, _)| other.cmp_precedence(greatest).is_gt()) {
                        behind = Some((other, node.clone()));
                    }
                }
            }
        }
        match ahead {
            Some((_, key)) => {
                self.nodes.insert(key, BTreeSet::from([new.clone()]));
            }
            None => self.head = new.clone(),
        }
        for patch in &patches {
            self.nodes.remove(patch);
        }
        let replaced = patches.into_iter().chain(behind.map(|(_, key)| key)).collect();
        self.nodes.insert(new.clone(), replaced);
        Ok(())
    }

    /// The chain of the bundles that are in the graph; each further edge is a pair of entries of its own.
    fn write(&self, connection: &Connection, package: &str, name: &str) -> Result<(), Error> {
        let none = BTreeSet::new();
        let mut current = &self.head;
        let mut depth = START_DEPTH;
        let mut previous = None;
        let mut seen = BTreeSet::new();
        loop {
            let id = add_entry(connection, package, name, &current.name, depth)?;
            if let Some(previous) = previous {
                set_replaces(connection, previous, id)?;
            }
            if !seen.insert(current) {
                return Err(Error::content(format!("Cycle detected, {} is replaced by itself", current.name)));
            }
            let (real, synthetic): (Vec<&Key>, Vec<&Key>) =
                self.nodes.get(current).unwrap_or(&none).iter().partition(|key| self.nodes.contains_key(key));
            for (below, key) in (depth + 1..).zip(synthetic) {
                let replaced = add_entry(connection, package, name, &key.name, below)?;
                let again = add_entry(connection, package, name, &current.name, below)?;
                set_replaces(connection, again, replaced)?;
            }
            let Some(next) = highest(&real) else {
                let expected = self.nodes.len() as i64 + START_DEPTH - 1;
                if expected == depth {
                    return Ok(());
                }
                return Err(Error::content(format!(
                    "Invalid graph: some (non-bottom) nodes defined in the graph were not mentioned as replacements of any node ({expected} != {depth})"
                )));
            };
            (current, previous) = (next, Some(id));
            depth += 1;
        }
    }
}

/// The highest of several replaced bundles, with which the chain continues; upstream takes any.
fn highest<'a>(keys: &[&'a Key]) -> Option<&'a Key> {
    let version = |key: &Key| Version::parse(&key.version).ok();
    keys.iter().copied().max_by(|a, b| version(a).cmp(&version(b)).then_with(|| a.cmp(b)))
}

fn existing(connection: &Connection, package: &str) -> Result<BTreeSet<Key>, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT DISTINCT bundlepath, version, name FROM operatorbundle
         INNER JOIN channel_entry ON operatorbundle.name = channel_entry.operatorbundle_name
         WHERE channel_entry.package_name = ?",
    )?;
    let mut rows = statement.query([package])?;
    let mut keys = BTreeSet::new();
    while let Some(row) = rows.next()? {
        let key = key(row, 0)?;
        if key.is_empty() {
            return Err(Error::content(format!("Index malformed: cannot find identifier for bundle in package {package}")));
        }
        keys.insert(key);
    }
    Ok(keys)
}

/// Each channel and bundle, with the bundle that it replaces.
fn entries(connection: &Connection, package: &str) -> Result<Vec<(String, Key, Key)>, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT e.channel_name, b.bundlepath, b.version, e.operatorbundle_name, rb.bundlepath, rb.version, r.operatorbundle_name
         FROM channel_entry e
         LEFT JOIN channel_entry r ON e.replaces = r.entry_id
         LEFT JOIN operatorbundle b ON e.operatorbundle_name = b.name
         LEFT JOIN operatorbundle rb ON r.operatorbundle_name = rb.name
         WHERE e.package_name = ? ORDER BY e.entry_id",
    )?;
    let mut rows = statement.query([package])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        entries.push((text(row, 0)?.unwrap_or_default(), key(row, 1)?, key(row, 4)?));
    }
    Ok(entries)
}

fn key(row: &rusqlite::Row<'_>, first: usize) -> Result<Key, Error> {
    let cell = |index| Ok::<_, Error>(text(row, first + index)?.unwrap_or_default());
    Ok(Key { image: cell(0)?, version: cell(1)?, name: cell(2)? })
}
