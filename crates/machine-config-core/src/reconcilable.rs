//! The verdict whether a node can go from one MachineConfig to another in place (MACH-NODE-03).

use mainstay_golang::quote;
use mainstay_ignition::{Config, Data, Struct};

use crate::difference::ignition_of;
use crate::ignition::ConvertError;
use crate::machine_config::MachineConfig;
use crate::validate::{IgnitionError, validate_ignition};

/// The file that forces a write and a reboot; no config may bring it.
pub const FORCE_FILE: &str = "/run/machine-config-daemon-force";
/// The one user that configs may change.
pub const CORE_USER: &str = "core";

/// Why a node cannot go to a MachineConfig in place, in upstream's words.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Unreconcilable {
    /// The old config cannot be read.
    #[error("parsing old Ignition config from machineconfig {} failed: {error}", quote(.config))]
    Old {
        /// The MachineConfig.
        config: String,
        /// Why.
        error: ConvertError,
    },
    /// The new config cannot be read.
    #[error("parsing new Ignition config from machineconfig {} failed: {error}", quote(.config))]
    New {
        /// The MachineConfig.
        config: String,
        /// Why.
        error: ConvertError,
    },
    /// The new config breaks rules.
    #[error("validating new Ignition config from machineconfig {} failed: {error}", quote(.config))]
    Invalid {
        /// The MachineConfig.
        config: String,
        /// Why.
        error: IgnitionError,
    },
    /// The change is none that is done in place. Upstream names the two the wrong way round.
    #[error("new machineconfig {} is not reconcilable against {}: {change}", quote(.old), quote(.new))]
    Change {
        /// The old MachineConfig.
        old: String,
        /// The new one.
        new: String,
        /// The change.
        change: Change,
    },
}

/// A change that is not done in place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Change {
    /// Users or groups change in more than keys and password of `core`.
    #[error("invalid passwd change(s): {0}")]
    Passwd(#[from] PasswdChange),
    /// A section changes.
    #[error("ignition {0} section contains changes")]
    Section(Section),
    /// A file is appended to.
    #[error("ignition file {0} includes append")]
    Append(String),
    /// The file that forces a reboot.
    #[error("cannot create {FORCE_FILE} via Ignition")]
    ForceFile,
    /// FIPS is switched.
    #[error("detected change to FIPS flag; refusing to modify FIPS on a running cluster")]
    Fips,
}

/// A section of which no change is done in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the name says it")]
pub enum Section {
    #[error("kargs")]
    KernelArguments,
    #[error("disks")]
    Disks,
    #[error("filesystems")]
    Filesystems,
    #[error("raid")]
    Raid,
    #[error("directories")]
    Directories,
    #[error("links")]
    Links,
}

/// A change of users or groups that is not done in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PasswdChange {
    /// Groups change.
    #[error("ignition Passwd Groups section contains changes")]
    Groups,
    /// Another user than `core`.
    #[error("ignition passwd user section contains unsupported changes: non-core user")]
    OtherUser,
    /// Neither keys nor a password are given.
    #[error("ignition passwd user section contains unsupported changes: user must be core and have 1 or more sshKeys")]
    NoKeys,
    /// More than keys and password are given.
    #[error("SSH keys and password hash are not reconcilable")]
    OtherFields,
}

/// Checks that a node can go from the old to the new MachineConfig in place.
pub fn check(old: &MachineConfig, new: &MachineConfig) -> Result<(), Unreconcilable> {
    let old_ignition = ignition_of(old).map_err(|error| Unreconcilable::Old { config: old.name.clone(), error })?;
    let new_ignition = ignition_of(new).map_err(|error| Unreconcilable::New { config: new.name.clone(), error })?;
    validate_ignition(&new_ignition).map_err(|error| Unreconcilable::Invalid { config: new.name.clone(), error })?;
    let change = changes(&old_ignition, &new_ignition).and(if old.spec.fips == new.spec.fips { Ok(()) } else { Err(Change::Fips) });
    change.map_err(|change| Unreconcilable::Change { old: old.name.clone(), new: new.name.clone(), change })
}

fn changes(old: &Config, new: &Config) -> Result<(), Change> {
    passwd(old, new)?;
    if old.section("kernelArguments") != new.section("kernelArguments") {
        return Err(Change::Section(Section::KernelArguments));
    }
    for (list, section) in
        [("disks", Section::Disks), ("filesystems", Section::Filesystems), ("raid", Section::Raid), ("directories", Section::Directories)]
    {
        if old.list("storage", list) != new.list("storage", list) {
            return Err(Change::Section(section));
        }
    }
    // Links may be taken away.
    if old.list("storage", "links") != new.list("storage", "links") && new.structs("storage", "links").next().is_some() {
        return Err(Change::Section(Section::Links));
    }
    for file in new.files() {
        let path = file.text_or_empty("path");
        if !file.list("append").is_empty() {
            return Err(Change::Append(path.to_owned()));
        }
        if path == FORCE_FILE {
            return Err(Change::ForceFile);
        }
    }
    Ok(())
}

fn passwd(old: &Config, new: &Config) -> Result<(), PasswdChange> {
    if old.list("passwd", "groups") != new.list("passwd", "groups") {
        return Err(PasswdChange::Groups);
    }
    if old.list("passwd", "users") == new.list("passwd", "users") {
        return Ok(());
    }
    if new.users().any(|user| user.text_or_empty("name") != CORE_USER) {
        return Err(PasswdChange::OtherUser);
    }
    // That a user is no longer named does not remove it.
    new.users().last().map_or(Ok(()), user)
}

fn user(user: &Struct) -> Result<(), PasswdChange> {
    if !user.has("passwordHash") && user.list("sshAuthorizedKeys").is_empty() {
        return Err(PasswdChange::NoKeys);
    }
    let mut rest = user.clone();
    rest.set("name", Data::Text(String::new()));
    rest.set("sshAuthorizedKeys", Data::Absent);
    rest.set("passwordHash", Data::Absent);
    if rest == Struct::new(user.of()) { Ok(()) } else { Err(PasswdChange::OtherFields) }
}
