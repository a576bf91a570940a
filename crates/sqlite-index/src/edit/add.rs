//! `registry add`: the checks before, the three modes, and the checks after (CATLG-54, CATLG-55).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::str::FromStr;

use mainstay_versions::Version;
use rusqlite::{Connection, params};

use super::Editor;
use super::OnError;
use super::bundle::{Alpha, insert};
use super::channels::{Candidate, heads, replace};
use super::graph::{Graph, Key};
use super::overwrite::remove_head;
use super::query::{channels, image, packages, texts};
use crate::addition::Addition;
use crate::error::Error;
use crate::manifest::Manifest;
use crate::tables::text;

/// Update mode of channels (`--mode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// By the `replaces` and `skips` of the bundles.
    #[default]
    Replaces,
    /// By version.
    Semver,
    /// By version; a patch skips the patches before it.
    SemverSkippatch,
}

/// An unknown mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Invalid channel update mode {0} specified")]
pub struct UnknownMode(String);

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        match text.to_ascii_lowercase().as_str() {
            "replaces" => Ok(Self::Replaces),
            "semver" => Ok(Self::Semver),
            "semver-skippatch" => Ok(Self::SemverSkippatch),
            _ => Err(UnknownMode(text.to_owned())),
        }
    }
}

/// Options for adding bundles.
#[derive(Debug, Clone, Copy, Default)]
pub struct AddOptions {
    /// Update mode of channels.
    pub mode: Mode,
    /// Replace channel heads by bundles of the same name (`--overwrite-latest`).
    pub overwrite_latest: bool,
    /// Respect `olm.substitutesFor` (`--enable-alpha`).
    pub enable_alpha: bool,
    /// Handling of bundles that cannot be added.
    pub on_error: OnError,
}

impl Editor {
    /// Adds bundles. With [`OnError::Continue`] returns the errors; the database then holds the bundles that could be added.
    pub fn add(&mut self, bundles: &[Addition], options: AddOptions) -> Result<Option<Error>, Error> {
        match self.populate(bundles, options) {
            Ok(()) => Ok(None),
            Err(error) if options.on_error == OnError::Continue => Ok(Some(error)),
            Err(error) => Err(error),
        }
    }

    fn populate(&self, bundles: &[Addition], options: AddOptions) -> Result<(), Error> {
        let connection = &self.connection;
        let mut overwritten: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for bundle in bundles.iter().filter(|_| options.overwrite_latest) {
            match image(connection, &bundle.name)? {
                None => {}
                Some(image) if image.is_empty() => {
                    return Err(Error::content("index add --overwrite-latest is only supported when using bundle images"));
                }
                Some(_) => overwritten.entry(&bundle.package).or_default().push(&bundle.name),
            }
        }
        let known = if overwritten.is_empty() { Known::Refused } else { Known::Overwritten };
        check_before(connection, bundles, known)?;
        let alpha = if options.enable_alpha { Alpha::On } else { Alpha::Off };
        match options.mode {
            Mode::Replaces => {
                for (package, names) in &overwritten {
                    if let Some(name) = names.first() {
                        let transaction = self.begin()?;
                        remove_head(&transaction, package, name)?;
                        transaction.commit()?;
                    }
                }
                self.add_by_replaces(bundles, alpha)?;
            }
            mode => {
                for bundle in by_version(connection, bundles)? {
                    self.add_by_version(bundle, mode, alpha)?;
                }
                connection.execute(
                    "UPDATE operatorbundle SET bundle = NULL, csv = NULL WHERE bundlepath <> '' AND name NOT IN (
                         SELECT operatorbundle.name FROM operatorbundle JOIN channel ON channel.head_operatorbundle_name = operatorbundle.name)",
                    [],
                )?;
            }
        }
        check_after(connection, bundles)
    }

    fn add_by_replaces(&self, bundles: &[Addition], alpha: Alpha) -> Result<(), Error> {
        let mut errors = Vec::new();
        let mut added: BTreeMap<&str, Vec<&Addition>> = BTreeMap::new();
        for bundle in bundles {
            let transaction = self.begin()?;
            match insert(&transaction, bundle, alpha) {
                Ok(()) => {
                    transaction.commit()?;
                    added.entry(&bundle.package).or_default().push(bundle);
                }
                Err(error) => errors.push(error),
            }
        }
        for (package, bundles) in added {
            let transaction = self.begin()?;
            let replaced = existing(&transaction, package).and_then(|mut all| {
                all.extend(bundles.into_iter().map(|bundle| Candidate {
                    name: bundle.name.clone(),
                    version: bundle.version.clone(),
                    channels: bundle.channels.clone(),
                    default_channel: bundle.default_channel.clone(),
                }));
                replace(&transaction, &heads(package, &all)?)
            });
            match replaced {
                Ok(()) => {
                    if let Err(error) = transaction.commit() {
                        errors.push(error.into());
                    }
                }
                Err(error) => errors.push(error),
            }
        }
        Error::collect(errors)
    }

    fn add_by_version(&self, bundle: &Addition, mode: Mode, alpha: Alpha) -> Result<(), Error> {
        let mut graph = Graph::read(&self.connection, &bundle.package)?.unwrap_or_default();
        graph.add(bundle, mode)?;
        let write = || {
            let transaction = self.begin()?;
            insert(&transaction, bundle, alpha)?;
            transaction.commit()?;
            let transaction = self.begin()?;
            let written = graph.write(&transaction);
            transaction.commit()?;
            written
        };
        write().map_err(|error: Error| Error::content(format!("error loading bundle {} into db: {error}", bundle.name)))
    }
}

/// The order in which bundles are added to the graphs: from the lowest version up, so that the highest one decides about the default channel.
/// A bundle whose default channel is none of its own channels waits for the bundles that bring it. Upstream takes them in random order.
fn by_version<'a>(connection: &Connection, bundles: &'a [Addition]) -> Result<Vec<&'a Addition>, Error> {
    let mut waiting: Vec<&Addition> = bundles.iter().collect();
    waiting.sort_by_cached_key(|bundle| Version::parse(&bundle.version).ok());
    let mut there: BTreeSet<(&str, String)> = BTreeSet::new();
    for bundle in bundles {
        there.extend(channels(connection, &bundle.package)?.into_iter().map(|channel| (bundle.package.as_str(), channel)));
    }
    let mut ordered = Vec::new();
    while !waiting.is_empty() {
        let ready = |bundle: &&Addition| {
            let channel = &bundle.default_channel;
            channel.is_empty() || bundle.channels.contains(channel) || there.contains(&(bundle.package.as_str(), channel.clone()))
        };
        // If no bundle is ready, the first one fails and gives the reason.
        let bundle = waiting.remove(waiting.iter().position(ready).unwrap_or_default());
        there.extend(bundle.channels.iter().map(|channel| (bundle.package.as_str(), channel.clone())));
        ordered.push(bundle);
    }
    Ok(ordered)
}

/// The bundles of a package that are in its channels.
fn existing(connection: &Connection, package: &str) -> Result<Vec<Candidate>, Error> {
    let default_channel = texts(connection, "SELECT default_channel FROM package WHERE name = ?", [package])?.pop().unwrap_or_default();
    let mut statement = connection.prepare(
        "SELECT DISTINCT operatorbundle.name, operatorbundle.version, operatorbundle.csv FROM operatorbundle
         LEFT OUTER JOIN channel_entry ON operatorbundle.name = channel_entry.operatorbundle_name
         WHERE channel_entry.package_name = ?",
    )?;
    let mut rows = statement.query([package])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let name = text(row, 0)?.ok_or_else(|| Error::content("bundle name column corrupted"))?;
        let mut version = text(row, 1)?.unwrap_or_default();
        if let (true, Some(csv)) = (version.is_empty(), text(row, 2)?) {
            version = Manifest::parse(&csv)?.version()?;
        }
        let sql = "SELECT DISTINCT channel_name FROM channel_entry WHERE operatorbundle_name = ?";
        let channels = texts(connection, sql, [&name])?;
        found.push(Candidate { name, version, channels, default_channel: default_channel.clone() });
    }
    Ok(found)
}

/// Handling of a bundle whose name already exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Refused,
    Overwritten,
}

fn check_before(connection: &Connection, bundles: &[Addition], known: Known) -> Result<(), Error> {
    let images: BTreeSet<&str> = bundles.iter().map(|bundle| bundle.image.as_str()).collect();
    let mut errors = Vec::new();
    let mut overwrites = BTreeSet::new();
    for bundle in bundles {
        let sql = "SELECT DISTINCT coalesce(bundlepath, '-') FROM operatorbundle
            INNER JOIN channel_entry ON operatorbundle.name = channel_entry.operatorbundle_name WHERE channel_entry.package_name = ?";
        let stored = texts(connection, sql, [&bundle.package])?;
        if stored.iter().any(String::is_empty) {
            // Bundles without images: upstream checks no further.
            return Ok(());
        }
        if stored.iter().any(|image| images.contains(image.as_str())) {
            errors.push(Error::ImageAlreadyAdded { image: bundle.image.clone() });
        }
        match overwriting(connection, bundle, known)? {
            Verdict::New => {}
            Verdict::Refused(error) => errors.push(error),
            Verdict::Overwrites => {
                if !overwrites.insert(bundle.package.as_str()) {
                    let text = "Cannot overwrite more than one bundle at a time for a given package using --overwrite-latest";
                    errors.push(Error::content(text));
                    break;
                }
            }
        }
    }
    if let Err(error) = check_packages(connection, bundles) {
        errors.push(error);
    }
    Error::collect(errors)
}

enum Verdict {
    New,
    Overwrites,
    Refused(Error),
}

fn overwriting(connection: &Connection, bundle: &Addition, known: Known) -> Result<Verdict, Error> {
    let mut verdict = Verdict::New;
    for channel in channels(connection, &bundle.package)? {
        let there = "SELECT 1 FROM operatorbundle INNER JOIN channel_entry ON operatorbundle.name = channel_entry.operatorbundle_name
            WHERE channel_entry.package_name = ? AND channel_entry.channel_name = ? AND operatorbundle_name = ?";
        if !connection.prepare_cached(there)?.exists([&bundle.package, &channel, &bundle.name])? {
            continue;
        }
        if known == Known::Refused {
            return Ok(Verdict::Refused(Error::VersionAlreadyAdded));
        }
        let replaced = "SELECT 1 FROM channel_entry LEFT OUTER JOIN channel_entry replaces ON replaces.replaces = channel_entry.entry_id
            INNER JOIN operatorbundle ON replaces.operatorbundle_name = operatorbundle.name
            WHERE channel_entry.operatorbundle_name = ? AND channel_entry.package_name = ? AND channel_entry.channel_name = ?";
        if connection.prepare_cached(replaced)?.exists([&bundle.name, &bundle.package, &channel])? {
            let text = "Cannot overwrite a bundle that is not at the head of a channel using --overwrite-latest";
            return Ok(Verdict::Refused(Error::content(text)));
        }
        verdict = Verdict::Overwrites;
    }
    Ok(verdict)
}

/// Checks that a bundle and everything that it replaces or skips belong to one package.
fn check_packages(connection: &Connection, bundles: &[Addition]) -> Result<(), Error> {
    let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
    for bundle in bundles {
        for name in bundle.skips.iter().chain([&bundle.replaces, &bundle.name]).filter(|name| !name.is_empty()) {
            match owners.insert(name, &bundle.package) {
                Some(other) if other != bundle.package => {
                    let (first, second) = (other.min(&bundle.package), other.max(&bundle.package));
                    return Err(Error::content(format!("bundle {name} must belong to exactly one package, found on: [{first} {second}]")));
                }
                _ => {}
            }
        }
    }
    for package in packages(connection)? {
        let sql = "SELECT operatorbundle_name FROM channel_entry WHERE package_name = ? ORDER BY entry_id";
        for name in texts(connection, sql, params![package])? {
            if let Some(owner) = owners.get(name.as_str()).filter(|owner| **owner != package) {
                return Err(Error::content(format!(
                    "bundle {name} belongs to package {package} on index, cannot be added as an edge for package {owner}"
                )));
            }
        }
    }
    Ok(())
}

/// Checks that every bundle can be reached from the heads of its channels.
fn check_after(connection: &Connection, bundles: &[Addition]) -> Result<(), Error> {
    let mut errors = Vec::new();
    for bundle in bundles {
        let graph = match Graph::read(connection, &bundle.package) {
            Ok(Some(graph)) => graph,
            other => {
                let why = other.err().map_or_else(|| "Package not in database".to_owned(), |error| error.to_string());
                errors.push(Error::content(format!("unable to verify added bundles for package {}: {why}", bundle.package)));
                continue;
            }
        };
        for channel in &bundle.channels {
            let found = graph.channels.get(channel).cloned().unwrap_or_default();
            let mut seen = BTreeSet::new();
            let mut next = VecDeque::from([&found.head]);
            let mut reached = false;
            while let Some(key) = next.pop_front().filter(|_| !reached) {
                reached = key.image == bundle.image;
                next.extend(found.nodes.get(key).into_iter().flatten().filter(|key| seen.insert(*key)));
            }
            if !reached {
                let below: Vec<&str> = found.nodes.get(&found.head).into_iter().flatten().map(|key: &Key| key.name.as_str()).collect();
                errors.push(Error::content(format!(
                    "add prunes bundle {name} ({image}) from package {package}, channel {channel}: this may be due to incorrect channel head \
                     ({head}, skips/replaces [{below}]). Be aware that the head of the channel {channel} where you are trying to add the {name} \
                     is {head}. Upgrade graphs follows the Semantic Versioning 2.0.0 (https://semver.org/) which means that is not possible add \
                     new versions lower then the head of the channel",
                    name = bundle.name,
                    image = bundle.image,
                    package = bundle.package,
                    head = found.head.name,
                    below = below.join(" "),
                )));
            }
        }
    }
    Error::collect(errors)
}
