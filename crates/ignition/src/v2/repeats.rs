//! Removal of files, units and users that stand twice: 2.x takes the last one, 3.x takes none.

use std::collections::HashSet;

use super::Config;
use crate::data::{Data, Struct};

/// A user that the Machine Config Operator does not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unexpected user with name: {0}. Only core user is supported")]
pub struct UnexpectedUser(pub String);

/// The config in which each file, unit and user stands once. Files and units are in reverse order, as upstream leaves them.
pub fn without_repeats(mut config: Config) -> Result<Config, UnexpectedUser> {
    let list = |config: &Config, section: &str, list: &str| -> Vec<Struct> {
        config.0.child(section).into_iter().flat_map(|section| section.structs(list)).cloned().collect()
    };
    let users = one_user(&list(&config, "passwd", "users"))?;
    let (files, units) = (last_files(list(&config, "storage", "files")), last_units(list(&config, "systemd", "units")));
    let mut set = |section: &str, list: &str, items: Vec<Struct>| {
        if let Some(Data::Struct(section)) = config.0.get_mut(section) {
            let items: Vec<Data> = items.into_iter().map(Data::Struct).collect();
            section.set(list, if items.is_empty() { Data::Absent } else { Data::List(items) });
        }
    };
    if let Some(user) = users {
        set("passwd", "users", vec![user]);
    }
    set("storage", "files", files);
    set("systemd", "units", units);
    Ok(config)
}

fn last_files(files: Vec<Struct>) -> Vec<Struct> {
    let mut seen = HashSet::new();
    files.into_iter().rev().filter(|file| seen.insert(file.text_or_empty("path").to_owned())).collect()
}

/// The last unit of each name, with the drop-ins that only earlier ones have.
fn last_units(units: Vec<Struct>) -> Vec<Struct> {
    let mut kept: Vec<Struct> = Vec::new();
    for unit in units.into_iter().rev() {
        let name = unit.text_or_empty("name");
        let Some(known) = kept.iter_mut().find(|known| known.text_or_empty("name") == name) else {
            kept.push(unit);
            continue;
        };
        let mut dropins: Vec<Data> = known.list("dropins").to_vec();
        for dropin in unit.structs("dropins") {
            let name = dropin.text("name");
            if !dropins.iter().filter_map(Data::as_struct).any(|known| known.text("name") == name) {
                dropins.push(Data::Struct(dropin.clone()));
            }
        }
        if !dropins.is_empty() {
            known.set("dropins", Data::List(dropins));
        }
    }
    kept
}

/// The last user with the keys of all, none of which stands twice.
fn one_user(users: &[Struct]) -> Result<Option<Struct>, UnexpectedUser> {
    let Some(last) = users.last() else { return Ok(None) };
    let mut keys: Vec<Data> = Vec::new();
    let mut seen = HashSet::new();
    for user in users.iter().rev() {
        let name = user.text_or_empty("name");
        if name != "core" {
            return Err(UnexpectedUser(name.to_owned()));
        }
        keys.extend(user.list("sshAuthorizedKeys").iter().filter(|key| seen.insert(key.as_text().unwrap_or_default().to_owned())).cloned());
    }
    let mut user = last.clone();
    user.set("sshAuthorizedKeys", Data::List(keys));
    Ok(Some(user))
}
