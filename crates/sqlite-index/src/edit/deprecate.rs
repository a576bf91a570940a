//! `deprecatetruncate`: a bundle stays in its channels but can no longer be installed, and the bundles below it are removed (CATLG-60).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rusqlite::{Connection, OptionalExtension as _, params};

use super::query::{add_property, channels, remove_bundle, texts};
use super::remove::remove_strangers;
use super::{Editor, OnError};
use crate::error::Error;
use crate::tables::{Tables, text};

/// Decision about a package whose channel heads are all deprecated (`--allow-package-removal`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PackageRemoval {
    /// Deprecating the head of the default channel is refused.
    #[default]
    Refuse,
    /// The package is removed.
    Allow,
}

impl Editor {
    /// Deprecates the bundles of these images; returns the errors that were skipped.
    pub fn deprecate(&mut self, images: &[String], removal: PackageRemoval, on_error: OnError) -> Result<Vec<Error>, Error> {
        let mut warnings = Vec::new();
        let mut pass = |error: Error| match on_error {
            OnError::Stop => Err(error),
            OnError::Continue => {
                warnings.push(error);
                Ok(())
            }
        };
        let (mut images, missing) = self.known(images)?;
        if !missing.is_empty() {
            pass(Error::content(format!("target bundlepaths for deprecation missing from registry: [{}]", missing.join(" "))))?;
        }
        if removal == PackageRemoval::Allow {
            match self.remove_whole_packages(&images) {
                Ok(left) => images = left,
                Err(error) => pass(error)?,
            }
        }
        let mut errors = Vec::new();
        for image in &images {
            match self.deprecate_one(image) {
                Ok(()) | Err(Error::ImageNotFound) => {}
                Err(error) => {
                    let goes_on = matches!(error, Error::DefaultChannelRemoval);
                    errors.push(Error::content(format!("error deprecating bundle {image}: {error}")));
                    if !goes_on {
                        break;
                    }
                }
            }
        }
        if let Err(error) = Error::collect(errors) {
            pass(error)?;
        }
        self.vacuum()?;
        Ok(warnings)
    }

    /// The images that are in channels, and those that are not. If there is no bundle at all, nothing is missing.
    fn known(&self, images: &[String]) -> Result<(Vec<String>, Vec<String>), Error> {
        let tables = Tables::read(&self.connection, &self.limits)?;
        let listed: BTreeSet<&str> = crate::listing::list(&tables)
            .into_iter()
            .filter_map(|row| tables.bundles.get(row.bundle).filter(|bundle| bundle.version.is_some())?.path.as_deref())
            .collect();
        let (found, missing): (Vec<String>, Vec<String>) = images.iter().cloned().partition(|image| listed.contains(image.as_str()));
        Ok(if listed.is_empty() { (Vec::new(), Vec::new()) } else { (found, missing) })
    }

    /// Removes the packages whose heads are all among the images; returns the other images.
    fn remove_whole_packages(&self, images: &[String]) -> Result<Vec<String>, Error> {
        let mut packages = Vec::new();
        for image in images {
            let sql = "SELECT package_name FROM package, channel
                WHERE channel.package_name = package.name AND package.default_channel = channel.name
                AND channel.head_operatorbundle_name = (SELECT name FROM operatorbundle WHERE bundlepath = ? LIMIT 1)";
            packages.extend(texts(&self.connection, sql, [image])?.pop().filter(|package| !package.is_empty()));
        }
        let mut removed = BTreeSet::new();
        for package in &packages {
            for channel in channels(&self.connection, package)? {
                let sql = "SELECT bundlepath FROM operatorbundle
                    INNER JOIN channel ON channel.head_operatorbundle_name = operatorbundle.name
                    WHERE channel.package_name = ? AND channel.name = ?";
                let head = texts(&self.connection, sql, [package, &channel])?.pop().unwrap_or_default();
                if !images.contains(&head) {
                    return Err(Error::content(format!(
                        "cannot deprecate default channel head from package without removing all other channel heads in package {package}: \
                         must deprecate {head}, head of channel {channel}"
                    )));
                }
                removed.insert(head);
            }
        }
        let mut errors = Vec::new();
        for package in &packages {
            if let Err(error) = self.remove_package(package) {
                errors.push(Error::content(format!("error removing package {package}: {error}")));
            }
        }
        Error::collect(errors)?;
        Ok(images.iter().filter(|image| !removed.contains(*image)).cloned().collect())
    }

    fn deprecate_one(&self, image: &str) -> Result<(), Error> {
        let transaction = self.begin()?;
        let mut statement = transaction.prepare("SELECT name, version FROM operatorbundle WHERE bundlepath = ? LIMIT 1")?;
        let found = statement.query_row([image], |row| Ok((text(row, 0), text(row, 1)))).optional()?;
        drop(statement);
        let (Some(name), Some(version)) = (match found {
            Some((name, version)) => (name?, version?),
            None => (None, None),
        }) else {
            return Err(Error::ImageNotFound);
        };
        let tail = tail(&transaction, &name)?;
        truncate(&transaction, &name, &tail)?;
        // So that the edges do not come back when the package is rebuilt.
        transaction.execute("UPDATE channel_entry SET replaces = NULL WHERE operatorbundle_name = ?", [&name])?;
        transaction.execute("DELETE FROM channel WHERE head_operatorbundle_name = ?", [&name])?;
        add_property(&transaction, "olm.deprecated", "{}", &name, &version, image)?;
        transaction.execute("INSERT OR REPLACE INTO deprecated(operatorbundle_name) VALUES (?)", [&name])?;
        remove_strangers(&transaction)?;
        transaction.commit()?;
        Ok(())
    }
}

/// A bundle below the deprecated one, or that one.
#[derive(Debug, Default)]
struct Below {
    channels: BTreeSet<String>,
    replaces: BTreeSet<String>,
    replaced_by: BTreeSet<String>,
}

/// The bundle and everything below it, in any channel.
fn tail(connection: &Connection, head: &str) -> Result<BTreeMap<String, Below>, Error> {
    let sql = "SELECT head_operatorbundle_name FROM channel
        INNER JOIN package ON channel.name = package.default_channel AND channel.package_name = package.name
        INNER JOIN channel_entry ON channel.package_name = channel_entry.package_name
        WHERE channel_entry.operatorbundle_name = ? LIMIT 1";
    let found = connection.query_row(sql, [head], |row| Ok(text(row, 0))).optional()?;
    let Some(default_head) = found else {
        return Err(Error::content(format!("error getting default channel head for {head}: sql: no rows in result set")));
    };
    let default_head = default_head?.unwrap_or_default();
    if default_head.is_empty() {
        return Err(Error::content(format!("invalid default channel head '' for {head}")));
    }
    let mut statement = connection.prepare(
        "SELECT e.channel_name, r.operatorbundle_name, b.operatorbundle_name FROM channel_entry e
         LEFT OUTER JOIN channel_entry r ON r.entry_id = e.replaces
         LEFT OUTER JOIN channel_entry b ON b.replaces = e.entry_id
         WHERE e.operatorbundle_name = ?",
    )?;
    let mut tail = BTreeMap::new();
    let mut next = VecDeque::from([head.to_owned()]);
    while let Some(bundle) = next.pop_front() {
        if tail.contains_key(&bundle) {
            continue;
        }
        let mut below = Below::default();
        let mut rows = statement.query([&bundle])?;
        let mut found = false;
        while let Some(row) = rows.next()? {
            found = true;
            below.channels.extend(text(row, 0)?);
            below.replaces.extend(text(row, 1)?);
            below.replaced_by.extend(text(row, 2)?);
        }
        if !found {
            continue;
        }
        if bundle == default_head {
            return Err(Error::DefaultChannelRemoval);
        }
        next.extend(below.replaces.iter().cloned());
        tail.insert(bundle, below);
    }
    Ok(tail)
}

/// Removes the bundles below the given one from its channels, and deletes those that are in no other channel.
fn truncate(connection: &Connection, head: &str, tail: &BTreeMap<String, Below>) -> Result<(), Error> {
    let none = Below::default();
    let own = &tail.get(head).unwrap_or(&none).channels;
    let mut seen = BTreeSet::from([head.to_owned()]);
    let mut next = VecDeque::from([head.to_owned()]);
    while let Some(bundle) = next.pop_front() {
        let Some(below) = tail.get(&bundle) else { continue };
        next.extend(below.replaces.iter().filter(|name| seen.insert((*name).clone())).cloned());
        if bundle == head {
            continue;
        }
        let shared = "SELECT channel_name FROM channel_entry WHERE operatorbundle_name = ?2";
        connection.execute(
            &format!(
                "UPDATE channel_entry SET replaces = NULL WHERE replaces IN (
                     SELECT entry_id FROM channel_entry WHERE operatorbundle_name = ?1 AND channel_name IN ({shared}))"
            ),
            params![bundle, head],
        )?;
        connection.execute(
            &format!("DELETE FROM channel_entry WHERE operatorbundle_name = ?1 AND channel_name IN ({shared})"),
            params![bundle, head],
        )?;
        let elsewhere = !below.channels.is_subset(own) || !below.replaced_by.iter().all(|name| tail.contains_key(name));
        if !elsewhere {
            remove_bundle(connection, &bundle)?;
        }
    }
    Ok(())
}
