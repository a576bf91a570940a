//! The content of a disk that a MachineConfig wants.

use std::collections::{BTreeMap, BTreeSet};

use mainstay_ignition::{Config, Struct};
use serde_json::Value;

use super::paths::{PathError, check_name, check_path};
use super::unit_file::{Syntax, UnitFile};
use super::users::{PasswordError, check_password};
use crate::content::{ContentError, content};
use crate::ignition::{ConvertError, parse_and_convert};
use crate::machine_config::MachineConfig;
use crate::validate::{IgnitionError, validate_ignition};

/// The most files and drop-ins of a config.
const MOST: usize = 20_000;
/// The most bytes that all files of a config have together.
const LARGEST: usize = 256 << 20;
/// The mode of files of which none is said.
pub(super) const DEFAULT_MODE: u32 = 0o644;

/// A user or group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Id {
    /// By number.
    Number(u32),
    /// By name, as the disk knows it.
    Name(String),
}

/// A file that is to be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its mode.
    pub mode: u32,
    /// Its owner, if one is named.
    pub user: Option<Id>,
    /// Its group, if one is named.
    pub group: Option<Id>,
    /// Its content.
    pub content: Vec<u8>,
}

impl File {
    /// A file without a named owner.
    pub fn plain(mode: u32, content: impl Into<Vec<u8>>) -> Self {
        Self { mode, user: None, group: None, content: content.into() }
    }
}

/// A systemd unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unit {
    /// Its name.
    pub name: String,
    /// True if it is to be enabled, false if disabled; nothing is changed if it is not said.
    pub enabled: Option<bool>,
    /// True if it is to be masked, false if a mask is to be taken away.
    pub mask: Option<bool>,
    /// Its text.
    pub contents: Option<String>,
    /// Its drop-ins: names and texts; one without a text is removed.
    pub drop_ins: Vec<(String, Option<String>)>,
}

/// The content of a disk that a MachineConfig wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The files, by path.
    pub files: BTreeMap<String, File>,
    /// The units, in the order of the config.
    pub units: Vec<Unit>,
    /// The SSH keys of user `core`; none if the config names no user.
    pub keys: Option<Vec<String>>,
    /// The password hash of user `core`.
    pub password: Option<String>,
}

/// The reason why a config cannot be on a disk.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LayoutError {
    /// Its Ignition config cannot be read.
    #[error(transparent)]
    Ignition(#[from] ConvertError),
    /// Its Ignition config breaks rules.
    #[error(transparent)]
    Rules(#[from] IgnitionError),
    /// The content of a file cannot be had.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// A path is not allowed.
    #[error("file {path:?}: the path {error}")]
    Path {
        /// The path.
        path: String,
        /// Why.
        error: PathError,
    },
    /// A file is a folder of another one.
    #[error("file {0:?} is also the folder of file {1:?}")]
    FolderOfOther(String, String),
    /// A unit or drop-in has a name that is none.
    #[error("unit {unit:?}: the name {name:?} {error}")]
    Name {
        /// The unit.
        unit: String,
        /// The name.
        name: String,
        /// Why.
        error: PathError,
    },
    /// The text of a unit cannot be read.
    #[error("unit {unit}: {syntax}")]
    Syntax {
        /// The unit or drop-in.
        unit: String,
        /// The line.
        syntax: Syntax,
    },
    /// A number is none of an owner.
    #[error("file {path:?}: {number} is no number of a user or group")]
    Owner {
        /// The file.
        path: String,
        /// The number.
        number: i64,
    },
    /// An SSH key has more than one line.
    #[error("passwd.users: SSH key {0} has a line break")]
    Key(usize),
    /// The password hash cannot stand in the file of passwords.
    #[error("passwd.users: {0}")]
    Password(#[from] PasswordError),
    /// There is too much.
    #[error("the config has more than {MOST} files, or more than {LARGEST} bytes of them")]
    TooMuch,
}

/// Reads what a MachineConfig wants.
///
/// # Errors
/// It cannot be on a disk; see [`LayoutError`].
pub fn layout(config: &MachineConfig) -> Result<Layout, LayoutError> {
    units_syntax(config.spec.ignition.as_deref().unwrap_or_default())?;
    let ignition = config.spec.ignition.as_deref().map_or_else(|| Ok(Config::default()), parse_and_convert)?;
    validate_ignition(&ignition)?;
    let mut layout = Layout::default();
    let mut bytes = 0;
    for file in ignition.files() {
        let path = file.text_or_empty("path");
        check_path(path).map_err(|error| LayoutError::Path { path: path.to_owned(), error })?;
        let found = one_file(file, path)?;
        bytes += found.content.len();
        layout.files.insert(path.to_owned(), found);
        if layout.files.len() > MOST || bytes > LARGEST {
            return Err(LayoutError::TooMuch);
        }
    }
    no_file_is_a_folder(&layout.files)?;
    layout.units = ignition.units().map(unit).collect::<Result<_, _>>()?;
    if layout.units.iter().map(|unit| 1 + unit.drop_ins.len()).sum::<usize>() > MOST {
        return Err(LayoutError::TooMuch);
    }
    users(&ignition, &mut layout)?;
    Ok(layout)
}

fn one_file(file: &Struct, path: &str) -> Result<File, LayoutError> {
    let id = |part: &str| -> Result<Option<Id>, LayoutError> {
        let Some(owner) = file.child(part) else { return Ok(None) };
        if let Some(number) = owner.int("id") {
            let wrong = || LayoutError::Owner { path: path.to_owned(), number };
            let number = u32::try_from(number).map_err(|_| wrong())?;
            // The highest number stands for no user in every call about owners.
            return if number == u32::MAX { Err(wrong()) } else { Ok(Some(Id::Number(number))) };
        }
        Ok(owner.text("name").filter(|name| !name.is_empty()).map(|name| Id::Name(name.to_owned())))
    };
    // Modes beyond these bits were refused by the rules.
    let mode = file.int("mode").and_then(|mode| u32::try_from(mode).ok()).unwrap_or(DEFAULT_MODE);
    Ok(File { mode, user: id("user")?, group: id("group")?, content: content(file)? })
}

fn no_file_is_a_folder(files: &BTreeMap<String, File>) -> Result<(), LayoutError> {
    let paths: BTreeSet<&str> = files.keys().map(String::as_str).collect();
    for path in &paths {
        let mut rest = *path;
        while let Some((folder, _)) = rest.rsplit_once('/') {
            if paths.contains(folder) {
                return Err(LayoutError::FolderOfOther(folder.to_owned(), (*path).to_owned()));
            }
            rest = folder;
        }
    }
    Ok(())
}

fn text(of: &Struct) -> Option<String> {
    of.text("contents").filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Checks the texts of units before anything else: the place of a mistake is in the unit's own text, which the config's reader does not name.
fn units_syntax(ignition: &str) -> Result<(), LayoutError> {
    // What is no JSON is reported by the config's reader.
    let Ok(config) = serde_json::from_str::<Value>(ignition) else { return Ok(()) };
    let list = |of: &Value, name: &str| of.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let name = |of: &Value| of["name"].as_str().unwrap_or_default().to_owned();
    let check = |unit: String, of: &Value| match of["contents"].as_str().map(UnitFile::check) {
        Some(Err(syntax)) => Err(LayoutError::Syntax { unit, syntax }),
        _ => Ok(()),
    };
    for unit in list(&config["systemd"], "units") {
        check(name(&unit), &unit)?;
        for drop_in in list(&unit, "dropins") {
            check(format!("{}.d/{}", name(&unit), name(&drop_in)), &drop_in)?;
        }
    }
    Ok(())
}

fn unit(unit: &Struct) -> Result<Unit, LayoutError> {
    let unit_name = unit.text_or_empty("name");
    let named = |name: &str| {
        let error = |error| LayoutError::Name { unit: unit_name.to_owned(), name: name.to_owned(), error };
        check_name(name).map_err(error).map(|()| name.to_owned())
    };
    let drop_ins = unit.structs("dropins").map(|drop_in| Ok((named(drop_in.text_or_empty("name"))?, text(drop_in))));
    Ok(Unit {
        name: named(unit_name)?,
        enabled: unit.bool("enabled"),
        mask: unit.bool("mask"),
        contents: text(unit),
        drop_ins: drop_ins.collect::<Result<_, LayoutError>>()?,
    })
}

fn users(ignition: &Config, layout: &mut Layout) -> Result<(), LayoutError> {
    for user in ignition.users() {
        let keys = layout.keys.get_or_insert_default();
        for key in user.texts("sshAuthorizedKeys") {
            if key.contains(['\n', '\r', '\0']) {
                return Err(LayoutError::Key(keys.len() + 1));
            }
            keys.push(key.to_owned());
        }
        if let Some(hash) = user.text("passwordHash").filter(|hash| !hash.is_empty()) {
            check_password(hash)?;
            layout.password = Some(hash.to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;
    use crate::machine_config::MachineConfigSpec;
    use serde_json::json;

    fn read(rest: &Value) -> Result<Layout, String> {
        let mut ignition = json!({"ignition": {"version": "3.4.0"}});
        ignition.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        let spec = MachineConfigSpec { ignition: Some(ignition.to_string()), ..Default::default() };
        layout(&MachineConfig { name: "a".to_owned(), labels: None, spec }).map_err(|error| error.to_string())
    }

    /// MACH-NODE-10, MACH-NODE-11: what is refused before anything is written, with its place.
    #[test]
    fn what_cannot_be_on_a_disk() {
        let file = |path: &str| json!({"storage": {"files": [{"path": path, "contents": {"source": "data:,a"}}]}});
        let unit = |unit: Value| json!({"systemd": {"units": [unit]}});
        let user = |user: Value| json!({"passwd": {"users": [user]}});
        let cases = [
            (file("/etc/machine-config-daemon/currentconfig"), "the agent's own"),
            (file("/etc/a\u{7}"), "has a control character"),
            (unit(json!({"name": "a.service", "contents": "[Unit]\nDescription=a\nwrong"})), "unit a.service: line 3: EOF"),
            (
                unit(json!({"name": "a.service", "dropins": [{"name": "b.conf", "contents": "[Unit\n"}]})),
                "unit a.service.d/b.conf: line 1: unable to find end of section",
            ),
            (unit(json!({"name": "../../../etc/cron.d/a.service", "contents": "[Unit]"})), "is no name"),
            (unit(json!({"name": "a.service", "dropins": [{"name": "../b.conf", "contents": "[Unit]"}]})), "\"../b.conf\" is no name"),
            (user(json!({"name": "core", "sshAuthorizedKeys": ["one\ncommand=\"x\" two"]})), "SSH key 1 has a line break"),
            (user(json!({"name": "core", "passwordHash": "x:0:0\nroot2::0"})), "password hash"),
            (
                json!({"storage": {"files": [{"path": "/etc/a", "contents": {"source": "http://example/a"}}]}}),
                "only data URLs can be written",
            ),
            (
                json!({"storage": {"files": [{"path": "/etc/a", "contents": {"source": "data:,"}}, {"path": "/etc/a/b/c", "contents": {"source": "data:,"}}]}}),
                "is also the folder of file \"/etc/a/b/c\"",
            ),
        ];
        for (config, wanted) in cases {
            let refused = read(&config).expect_err("a refusal");
            assert!(refused.contains(wanted), "{config}: {refused}");
        }
    }

    /// MACH-NODE-10: modes, owners, contents, units and keys as the config has them.
    #[test]
    fn what_a_config_wants() {
        let found = read(&json!({
            "storage": {"files": [
                {"path": "/etc/a", "contents": {"source": "data:,a"}, "user": {"name": "core"}, "group": {"id": 7}},
                {"path": "/etc/b", "mode": 0o600},
            ]},
            "systemd": {"units": [{"name": "a.service", "enabled": true, "contents": "", "dropins": [{"name": "b.conf"}]}]},
            "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["one", "two"], "passwordHash": "$6$a"}]},
        }))
        .unwrap();
        let named = File { user: Some(Id::Name("core".to_owned())), group: Some(Id::Number(7)), ..File::plain(0o644, "a") };
        assert_eq!(
            found.files.into_iter().collect::<Vec<_>>(),
            [("/etc/a".to_owned(), named), ("/etc/b".to_owned(), File::plain(0o600, ""))]
        );
        let unit =
            Unit { name: "a.service".to_owned(), enabled: Some(true), drop_ins: vec![("b.conf".to_owned(), None)], ..Unit::default() };
        assert_eq!(found.units, [unit]);
        assert_eq!(found.keys, Some(vec!["one".to_owned(), "two".to_owned()]));
        assert_eq!(found.password.as_deref(), Some("$6$a"));
    }
}
