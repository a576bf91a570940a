//! `olm.substitutesFor`: a bundle that substitutes another one takes over its edges. An alpha feature of opm.

use std::collections::BTreeSet;

use mainstay_versions::Version;
use rusqlite::Connection;

use super::channels::compare;
use super::query::{edges, texts};
use crate::addition::Addition;
use crate::error::Error;

/// The most steps along chains of substitutes.
const STEPS: usize = 10_000;

pub(super) fn apply(connection: &Connection, bundle: &Addition) -> Result<(), Error> {
    let name = bundle.name.as_str();
    let mut skips = bundle.skips.clone();
    if !bundle.substitutes_for.is_empty() {
        connection.execute("UPDATE operatorbundle SET replaces = ? WHERE replaces = ?", [name, &bundle.substitutes_for])?;
        settle_rivals(connection, bundle)?;
    }
    let mut guard = Guard(0);
    let mut below = substituted_by(connection, name)?;
    while !below.is_empty() {
        guard.step()?;
        let next = substituted_by(connection, &below)?;
        skips.push(std::mem::replace(&mut below, next));
    }
    // Substitutes that were added before the bundle that they substitute receive its skips.
    let mut above = substitutes(connection, name)?;
    if above.len() > 1 {
        return Ok(());
    }
    while let Some(first) = above.first().cloned() {
        guard.step()?;
        let mut added = skips.clone();
        added.push(name.to_owned());
        append_skips(connection, &added, &first)?;
        above = substitutes(connection, &first)?;
        if above.len() > 1 {
            return Ok(());
        }
    }
    let Some(skips) = with_substitutes(connection, name, &skips, &mut guard)? else { return Ok(()) };
    let mut replaces = bundle.replaces.clone();
    if !replaces.is_empty() {
        let mut newer = substitutes(connection, &replaces)?;
        while let Some(first) = newer.first().cloned() {
            guard.step()?;
            replaces = first;
            newer = substitutes(connection, &replaces)?;
            if newer.len() > 1 {
                return Ok(());
            }
        }
    }
    connection.execute("UPDATE operatorbundle SET replaces = ?, skips = ? WHERE name = ?", [replaces, skips.join(","), name.to_owned()])?;
    Ok(())
}

/// Several bundles that substitute the same one: they substitute each other, in the order of their versions.
fn settle_rivals(connection: &Connection, bundle: &Addition) -> Result<(), Error> {
    let name = bundle.name.as_str();
    let set = "UPDATE operatorbundle SET substitutesfor = ? WHERE name = ?";
    let mut guard = Guard(0);
    let mut rivals = std::collections::VecDeque::from(substitutes(connection, &bundle.substitutes_for)?);
    while let Some(rival) = rivals.pop_front() {
        guard.step()?;
        if rival == name {
            continue;
        }
        let parse = |text: &str| Version::parse(text).map_err(|error| Error::content(error.to_string()));
        let (theirs, ours) = (parse(&edges(connection, &rival)?.version)?, parse(&bundle.version)?);
        match compare(&theirs, &ours) {
            std::cmp::Ordering::Less => {
                connection.execute(set, [rival.as_str(), name])?;
                rivals.extend(substitutes(connection, &rival)?);
            }
            std::cmp::Ordering::Greater => {
                connection.execute(set, [name, rival.as_str()])?;
                let mut added = bundle.skips.clone();
                added.push(name.to_owned());
                append_skips(connection, &added, &rival)?;
                if substitutes(connection, name)?.len() > 1 {
                    return Err(Error::content(format!("programmer error: more than one substitution pointing to {name}")));
                }
            }
            std::cmp::Ordering::Equal => {
                return Err(Error::content("cannot determine latest substitution because of duplicate versions"));
            }
        }
    }
    Ok(())
}

/// The skips together with the substitutes of each skipped bundle; `None` if that is not unique.
fn with_substitutes(connection: &Connection, name: &str, skips: &[String], guard: &mut Guard) -> Result<Option<Vec<String>>, Error> {
    let mut known = BTreeSet::new();
    let mut all = Vec::new();
    let mut add = |skip: &str| {
        if known.insert(skip.to_owned()) {
            all.push(skip.to_owned());
        }
    };
    for skip in skips {
        add(skip);
        let mut above = substitutes(connection, skip)?;
        loop {
            guard.step()?;
            match above.as_slice() {
                [] => break,
                [one] if one == name => break,
                [one] => {
                    let one = one.clone();
                    add(&one);
                    above = substitutes(connection, &one)?;
                }
                _ => return Ok(None),
            }
        }
    }
    Ok(Some(all))
}

fn append_skips(connection: &Connection, added: &[String], bundle: &str) -> Result<(), Error> {
    let mut skips = edges(connection, bundle)?.skips;
    let known: BTreeSet<String> = skips.iter().cloned().collect();
    skips.extend(added.iter().filter(|skip| !known.contains(*skip)).cloned());
    connection.execute("UPDATE operatorbundle SET skips = ? WHERE name = ?", [&skips.join(","), bundle])?;
    Ok(())
}

/// The bundles that substitute the given one.
fn substitutes(connection: &Connection, bundle: &str) -> Result<Vec<String>, Error> {
    texts(connection, "SELECT name FROM operatorbundle WHERE substitutesfor = ? AND name <> ''", [bundle])
}

/// The bundle that the given one substitutes; empty if there is none.
fn substituted_by(connection: &Connection, bundle: &str) -> Result<String, Error> {
    let found = texts(connection, "SELECT substitutesfor FROM operatorbundle WHERE name = ?", [bundle])?;
    Ok(found.into_iter().next().unwrap_or_default())
}

/// Bound on the steps, which ends cycles.
struct Guard(usize);

impl Guard {
    fn step(&mut self) -> Result<(), Error> {
        self.0 += 1;
        if self.0 > STEPS { Err(Error::content("the substitutions form a circle")) } else { Ok(()) }
    }
}
