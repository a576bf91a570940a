//! Channels in `replaces` mode: the heads are found by version, and the entries by walking down from them.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use mainstay_versions::Version;
use rusqlite::{Connection, params};

use super::bundle::plain;
use super::query::{add_property, edges, image, is_deprecated};
use crate::error::Error;

/// Depth of the heads.
pub(super) const START_DEPTH: i64 = 0;

/// The data of a bundle that its channels need.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) channels: Vec<String>,
    pub(super) default_channel: String,
}

/// The channels of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Heads {
    pub(super) package: String,
    pub(super) default_channel: String,
    /// Head by channel.
    pub(super) channels: BTreeMap<String, String>,
}

#[derive(Debug, Clone)]
struct Head {
    name: String,
    version: Version,
    count: usize,
}

/// Compares by precedence, then by build metadata read as a pre-release; no build metadata sorts before any.
pub(super) fn compare(left: &Version, right: &Version) -> Ordering {
    left.cmp_precedence(right).then_with(|| match (left.build(), right.build()) {
        ("", "") => Ordering::Equal,
        ("", _) => Ordering::Less,
        (_, "") => Ordering::Greater,
        (a, b) => identifiers(a, b),
    })
}

fn identifiers(left: &str, right: &str) -> Ordering {
    let (mut left, mut right) = (left.split('.'), right.split('.'));
    loop {
        let order = match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(a), Some(b)) => match (a.parse::<u64>(), b.parse::<u64>()) {
                (Ok(a), Ok(b)) => a.cmp(&b),
                (Ok(_), Err(_)) => Ordering::Less,
                (Err(_), Ok(_)) => Ordering::Greater,
                (Err(_), Err(_)) => a.cmp(b),
            },
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// The highest version of each channel is its head, and the highest that names a default channel decides about it (CATLG-55).
pub(super) fn heads(package: &str, bundles: &[Candidate]) -> Result<Heads, Error> {
    let mut heads: BTreeMap<String, Head> = BTreeMap::new();
    let mut default_channel = String::new();
    let mut highest: Option<Head> = None;
    let mut all = Vec::new();
    for bundle in bundles {
        let text = if bundle.version.is_empty() { "0.0.0-z" } else { &bundle.version };
        let version = Version::parse(text)
            .map_err(|error| Error::content(format!("error parsing bundle {} version {text}: {error}", bundle.name)))?;
        all.push((version, bundle));
    }
    // From below, so that the default channel does not depend on the order in which bundles are named.
    all.sort_by(|(left, _), (right, _)| compare(left, right));
    for (version, bundle) in all {
        let current = Head { name: bundle.name.clone(), version, count: 1 };
        for channel in &bundle.channels {
            raise(heads.entry(channel.clone()).or_insert_with(|| Head { count: 0, ..current.clone() }), &current);
        }
        let above = match &mut highest {
            Some(highest) => raise(highest, &current),
            // Versions below 0.0.0 never decide.
            None if compare(&current.version, &Version::new(0, 0, 0)) == Ordering::Less => false,
            None => {
                highest = Some(current);
                true
            }
        };
        if above && !bundle.default_channel.is_empty() {
            default_channel.clone_from(&bundle.default_channel);
        }
    }
    if let Some(highest) = highest.filter(|highest| highest.count > 1) {
        return Err(Error::content(format!("more than one bundle with maximum version {}", highest.version)));
    }
    if let Some((channel, _)) = heads.iter().find(|(_, head)| head.count > 1) {
        return Err(Error::content(format!("more than one potential channel head for {channel}")));
    }
    let found = heads.contains_key(&default_channel) || heads.len() == 1 && default_channel.is_empty();
    if !found {
        return Err(Error::content(format!("unable to determine default channel among channel heads: {}", show(&heads))));
    }
    if let (1, Some(only)) = (heads.len(), heads.keys().next()) {
        default_channel.clone_from(only);
    }
    let channels = heads.into_iter().map(|(channel, head)| (channel, head.name)).collect();
    Ok(Heads { package: package.to_owned(), default_channel, channels })
}

/// Takes the current head if it is at least as high; returns true if it was taken.
fn raise(head: &mut Head, current: &Head) -> bool {
    let count = match compare(&current.version, &head.version) {
        Ordering::Less => return false,
        Ordering::Equal => head.count + 1,
        Ordering::Greater => 1,
    };
    *head = Head { count, ..current.clone() };
    true
}

/// The heads in the form in which Go prints a map of structs.
fn show(heads: &BTreeMap<String, Head>) -> String {
    let list = |text: &str, item: &dyn Fn(&str) -> String| {
        let items: Vec<String> = text.split('.').filter(|part| !part.is_empty()).map(item).collect();
        format!("[{}]", items.join(" "))
    };
    let mut out = String::from("map[");
    for (index, (channel, head)) in heads.iter().enumerate() {
        let version = &head.version;
        let pre = list(version.prerelease(), &|part| match part.parse::<u64>() {
            Ok(number) => format!("{{VersionStr: VersionNum:{number} IsNum:true}}"),
            Err(_) => format!("{{VersionStr:{part} VersionNum:0 IsNum:false}}"),
        });
        let build = list(version.build(), &str::to_owned);
        let (major, minor, patch) = (version.major(), version.minor(), version.patch());
        let blank = if index > 0 { " " } else { "" };
        // Writing to a String does not fail.
        let _ = write!(
            out,
            "{blank}{channel}:{{name:{} version:{{Major:{major} Minor:{minor} Patch:{patch} Pre:{pre} Build:{build}}} count:{}}}",
            head.name, head.count
        );
    }
    out.push(']');
    out
}

/// Rewrites package, channels and entries.
pub(super) fn replace(connection: &Connection, heads: &Heads) -> Result<(), Error> {
    for sql in [
        "DELETE FROM package WHERE name = ?",
        "DELETE FROM channel WHERE package_name = ?",
        "DELETE FROM channel_entry WHERE package_name = ?",
    ] {
        connection.prepare_cached(sql)?.execute([&heads.package])?;
    }
    let package = &heads.package;
    let inserted = connection.execute("INSERT INTO package(name) VALUES (?)", [package]);
    inserted.map_err(|error| Error::content(format!("failed to add package {package:?}: {}", plain(&error))))?;
    let mut errors = Vec::new();
    let mut channels = Vec::new();
    let mut has_default = false;
    for (channel, head) in &heads.channels {
        // Channels that begin with a deprecated bundle are left out.
        if is_deprecated(connection, head)? {
            continue;
        }
        let sql = "INSERT INTO channel(name, package_name, head_operatorbundle_name) VALUES (?, ?, ?)";
        if let Err(error) = connection.execute(sql, [channel, package, head]) {
            errors.push(Error::content(format!("failed to add channel {channel:?} in package {package:?}: {}", plain(&error))));
            continue;
        }
        if *channel == heads.default_channel || heads.channels.len() == 1 {
            has_default = true;
            connection.execute("UPDATE package SET default_channel = ? WHERE name = ?", [channel, package])?;
        }
        channels.push((channel, head));
    }
    if !has_default {
        errors.push(Error::content(format!("no default channel specified for {package}")));
    }
    for (channel, head) in channels {
        walk(connection, package, channel, head, &mut errors)?;
    }
    Error::collect(errors)
}

/// The entries of one channel, from its head down.
fn walk(connection: &Connection, package: &str, channel: &str, head: &str, errors: &mut Vec<Error>) -> Result<(), Error> {
    let mut current = add_entry(connection, package, channel, head, START_DEPTH)?;
    let mut bundle = head.to_owned();
    let mut depth = START_DEPTH + 1;
    let mut seen = BTreeSet::from([bundle.clone()]);
    loop {
        let found = match edges(connection, &bundle) {
            Ok(found) => found,
            Err(error) => {
                errors.push(error);
                return Ok(());
            }
        };
        let path = image(connection, &bundle)?.unwrap_or_default();
        let property = mainstay_bundle::go::to_string(&serde_json::json!({"packageName": package, "version": found.version}));
        add_property(connection, "olm.package", &property, &bundle, &found.version, &path)?;
        if is_deprecated(connection, &bundle)? {
            return Ok(());
        }
        for skip in &found.skips {
            let skipped = add_entry(connection, package, channel, skip, depth)?;
            let again = add_entry(connection, package, channel, &bundle, depth)?;
            set_replaces(connection, again, skipped)?;
            depth += 1;
        }
        if found.replaces.is_empty() {
            return Ok(());
        }
        let replaced = add_entry(connection, package, channel, &found.replaces, depth)?;
        if !seen.insert(found.replaces.clone()) {
            errors.push(Error::content(format!("Cycle detected, {bundle} replaces {}", found.replaces)));
            return Ok(());
        }
        set_replaces(connection, current, replaced)?;
        if edges(connection, &found.replaces).is_err() {
            errors.push(Error::content(format!("Invalid bundle {head}, replaces nonexistent bundle {}", found.replaces)));
            return Ok(());
        }
        current = replaced;
        bundle = found.replaces;
        depth += 1;
    }
}

/// Adds an entry and returns its id.
pub(super) fn add_entry(connection: &Connection, package: &str, channel: &str, bundle: &str, depth: i64) -> Result<i64, Error> {
    let sql = "INSERT INTO channel_entry(channel_name, package_name, operatorbundle_name, depth) VALUES (?, ?, ?, ?)";
    let inserted = connection.prepare_cached(sql)?.insert(params![channel, package, bundle, depth]);
    inserted.map_err(|error| {
        Error::content(format!("failed to insert channel_entry for channel ({channel}) and bundle ({bundle}): {}", plain(&error)))
    })
}

/// Sets the entry that an entry replaces.
pub(super) fn set_replaces(connection: &Connection, entry: i64, replaced: i64) -> Result<(), Error> {
    connection.prepare_cached("UPDATE channel_entry SET replaces = ? WHERE entry_id = ?")?.execute([replaced, entry])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn candidate(name: &str, version: &str, channels: &[&str], default_channel: &str) -> Candidate {
        Candidate {
            name: name.to_owned(),
            version: version.to_owned(),
            channels: channels.iter().map(|&channel| channel.to_owned()).collect(),
            default_channel: default_channel.to_owned(),
        }
    }

    /// CATLG-55: in replaces mode the head of a channel is its highest version.
    #[test]
    fn the_highest_version_is_the_head() {
        let found = heads("p", &[candidate("b", "1.1.0", &["x", "y"], "y"), candidate("a", "1.0.0", &["x"], "x")]).unwrap();
        assert_eq!(found.channels, BTreeMap::from([("x".into(), "b".into()), ("y".into(), "b".into())]));
        assert_eq!(found.default_channel, "y");
    }

    /// CATLG-55: two candidates for one head are refused, and so is a default channel that nobody names.
    #[test]
    fn doubtful_heads_are_refused() {
        for (bundles, expected) in [
            (
                vec![candidate("a", "1.0.0", &["x"], ""), candidate("b", "1.0.0", &["x"], "")],
                "more than one bundle with maximum version 1.0.0",
            ),
            (
                vec![candidate("a", "1.0.0", &["x"], ""), candidate("b", "1.0.0", &["x"], ""), candidate("c", "2.0.0", &["y"], "y")],
                "more than one potential channel head for x",
            ),
            (
                vec![candidate("a", "1.0.0-rc.1+b", &["x", "y"], "")],
                "unable to determine default channel among channel heads: map[x:{name:a version:{Major:1 Minor:0 Patch:0 \
                 Pre:[{VersionStr:rc VersionNum:0 IsNum:false} {VersionStr: VersionNum:1 IsNum:true}] Build:[b]} count:1} \
                 y:{name:a version:{Major:1 Minor:0 Patch:0 \
                 Pre:[{VersionStr:rc VersionNum:0 IsNum:false} {VersionStr: VersionNum:1 IsNum:true}] Build:[b]} count:1}]",
            ),
        ] {
            assert_eq!(heads("p", &bundles).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn builds_are_ordered_as_prereleases() {
        let version = |text: &str| Version::parse(text).unwrap();
        for (less, more) in
            [("1.0.0", "1.0.0+1"), ("1.0.0+1", "1.0.0+2"), ("1.0.0+9", "1.0.0+10"), ("1.0.0+1", "1.0.0+a"), ("1.0.0+a", "1.0.0+a.1")]
        {
            assert_eq!(compare(&version(less), &version(more)), Ordering::Less, "{less} {more}");
        }
    }
}
