//! The links by which a unit is enabled, as `systemctl enable` makes them (MACH-NODE-11).

use std::collections::{BTreeMap, BTreeSet};

use super::unit_file::UnitFile;
use crate::daemon::disk::UNITS;

/// The most units that `Also=` leads to.
const MOST_ALSO: usize = 100;

/// Links by path, and what each points to.
pub type Links = BTreeMap<String, String>;

/// The reason why a unit cannot be enabled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstallError {
    /// There is no such unit.
    #[error("unit {0} cannot be enabled: there is no file of it in the config, and none on the disk")]
    Missing(String),
    /// A name in `[Install]` is no unit.
    #[error("unit {unit}: {key}={word} in [Install] is not the name of a unit")]
    Name {
        /// The unit.
        unit: String,
        /// The key.
        key: &'static str,
        /// The word.
        word: String,
    },
    /// An alias is of another type.
    #[error("unit {unit}: Alias={alias} in [Install] is of another type")]
    Alias {
        /// The unit.
        unit: String,
        /// The alias.
        alias: String,
    },
    /// A specifier is unknown here.
    #[error("unit {unit}: specifier %{letter} in [Install] is not known to this program; it knows %n, %N, %p, %i, %j and %%")]
    Specifier {
        /// The unit.
        unit: String,
        /// The letter.
        letter: String,
    },
    /// `Also=` leads to too many units.
    #[error("unit {0}: Also= in [Install] leads to more than {MOST_ALSO} units")]
    Also(String),
    /// The unit is masked.
    #[error("unit {0} is both masked and enabled")]
    Masked(String),
}

/// A unit's file: where it lies, and what it says with its drop-ins.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) path: String,
    pub(super) unit: UnitFile,
}

/// The name of the template of an instance: `a@.service` of `a@b.service`.
pub(super) fn template(name: &str) -> Option<String> {
    let (prefix, rest) = name.split_once('@')?;
    let (instance, ending) = rest.rsplit_once('.')?;
    (!instance.is_empty()).then(|| format!("{prefix}@.{ending}"))
}

/// Links by which a unit, and those that it takes along, are enabled. `find` looks for a unit's file by its name or that of its template.
pub(super) fn links<E: From<InstallError>>(name: &str, mut find: impl FnMut(&str) -> Result<Option<Found>, E>) -> Result<Links, E> {
    let (mut links, mut seen, mut open) = (Links::new(), BTreeSet::new(), vec![name.to_owned()]);
    while let Some(unit) = open.pop() {
        if !seen.insert(unit.clone()) {
            continue;
        }
        if seen.len() > MOST_ALSO {
            return Err(InstallError::Also(name.to_owned()).into());
        }
        // A unit that is taken along and does not exist is passed over.
        let Some(found) = find(&unit)? else {
            if unit == name {
                return Err(InstallError::Missing(unit).into());
            }
            continue;
        };
        one(&unit, &found, &mut links)?;
        for word in found.unit.words("Install", "Also") {
            open.push(expanded(&unit, &word)?);
        }
    }
    Ok(links)
}

fn one(name: &str, found: &Found, links: &mut Links) -> Result<(), InstallError> {
    // A template without an instance is enabled as its default instance, if it has one.
    let shown = match (is_template(name), found.unit.last("Install", "DefaultInstance")) {
        (true, Some(instance)) if !instance.is_empty() => name.replacen("@.", &format!("@{instance}."), 1),
        _ => name.to_owned(),
    };
    for (key, folder) in [("WantedBy", "wants"), ("RequiredBy", "requires"), ("UpheldBy", "upholds")] {
        for word in found.unit.words("Install", key) {
            let target = unit_name(&shown, key, &word)?;
            // A bare template has no place but below other templates.
            if is_template(&shown) && !is_template(&target) {
                return Err(InstallError::Name { unit: name.to_owned(), key, word });
            }
            links.insert(format!("{UNITS}/{target}.{folder}/{shown}"), found.path.clone());
        }
    }
    for word in found.unit.words("Install", "Alias") {
        let alias = unit_name(&shown, "Alias", &word)?;
        if alias.rsplit('.').next() != shown.rsplit('.').next() {
            return Err(InstallError::Alias { unit: name.to_owned(), alias });
        }
        let path = format!("{UNITS}/{alias}");
        if path != found.path && alias != shown {
            links.insert(path, found.path.clone());
        }
    }
    Ok(())
}

fn is_template(name: &str) -> bool {
    name.contains("@.")
}

fn unit_name(unit: &str, key: &'static str, word: &str) -> Result<String, InstallError> {
    let name = expanded(unit, word)?;
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || ":-_.\\@".contains(letter);
    let has_ending = name.rsplit_once('.').is_some_and(|(stem, ending)| !stem.is_empty() && ENDINGS.contains(&ending));
    if has_ending && name.chars().all(is_letter) && name.len() < 256 {
        Ok(name)
    } else {
        Err(InstallError::Name { unit: unit.to_owned(), key, word: word.to_owned() })
    }
}

const ENDINGS: [&str; 11] = ["service", "socket", "device", "mount", "automount", "swap", "target", "path", "timer", "slice", "scope"];

/// A word with its specifiers filled in.
fn expanded(unit: &str, word: &str) -> Result<String, InstallError> {
    let stem = unit.rsplit_once('.').map_or(unit, |(stem, _)| stem);
    let (prefix, instance) = stem.split_once('@').unwrap_or((stem, ""));
    let (mut out, mut letters) = (String::new(), word.chars());
    while let Some(letter) = letters.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        match letters.next() {
            Some('%') => out.push('%'),
            Some('n') => out.push_str(unit),
            Some('N') => out.push_str(stem),
            Some('p') => out.push_str(prefix),
            Some('i') => out.push_str(instance),
            Some('j') => out.push_str(prefix.rsplit('-').next().unwrap_or(prefix)),
            other => {
                let letter = other.map(String::from).unwrap_or_default();
                return Err(InstallError::Specifier { unit: unit.to_owned(), letter });
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn found(units: &[(&str, &str)], name: &str) -> Result<Vec<(String, String)>, InstallError> {
        let find = |wanted: &str| {
            let candidates = [Some(wanted.to_owned()), template(wanted)];
            let hit = candidates.iter().flatten().find_map(|name| units.iter().find(|(known, _)| known == name));
            Ok(hit.map(|(name, text)| Found { path: format!("{UNITS}/{name}"), unit: UnitFile::read(text) }))
        };
        let strip = |path: &str| path.strip_prefix(&format!("{UNITS}/")).unwrap().to_owned();
        Ok(links::<InstallError>(name, find)?.iter().map(|(path, to)| (strip(path), strip(to))).collect())
    }

    fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter().map(|(path, to)| ((*path).to_owned(), (*to).to_owned())).collect()
    }

    /// MACH-NODE-11: links of targets, aliases, companions and instances.
    #[test]
    fn links_of_install_sections() {
        let units = [
            ("a.service", "[Install]\nWantedBy=multi-user.target\nRequiredBy=b.target\nAlias=c.service\nAlso=d.socket"),
            ("d.socket", "[Install]\nWantedBy=sockets.target\nAlso=a.service"),
            ("t@.service", "[Install]\nWantedBy=user-%i.target %p.target\nAlias=own-%i.service"),
            ("u@.service", "[Install]\nWantedBy=multi-user.target\nDefaultInstance=x"),
            ("bare@.service", "[Install]\nWantedBy=multi-user.target"),
            ("none.service", "[Service]\nType=oneshot"),
            ("odd.timer", "[Install]\nAlias=odd.service"),
            ("path.service", "[Install]\nWantedBy=../../etc.target"),
            ("host.service", "[Install]\nWantedBy=%H.target"),
        ];
        let wanted = [
            ("b.target.requires/a.service", "a.service"),
            ("c.service", "a.service"),
            ("multi-user.target.wants/a.service", "a.service"),
            ("sockets.target.wants/d.socket", "d.socket"),
        ];
        assert_eq!(found(&units, "a.service"), Ok(pairs(&wanted)));
        let wanted = [
            ("own-7.service", "t@.service"),
            ("t.target.wants/t@7.service", "t@.service"),
            ("user-7.target.wants/t@7.service", "t@.service"),
        ];
        assert_eq!(found(&units, "t@7.service"), Ok(pairs(&wanted)));
        assert_eq!(found(&units, "u@.service"), Ok(pairs(&[("multi-user.target.wants/u@x.service", "u@.service")])));
        assert_eq!(found(&units, "none.service"), Ok(Vec::new()));
        assert_eq!(found(&units, "gone.service"), Err(InstallError::Missing("gone.service".to_owned())));
        for name in ["bare@.service", "odd.timer", "path.service", "host.service"] {
            assert!(found(&units, name).is_err(), "{name}");
        }
    }
}
