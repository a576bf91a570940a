//! The parts in which two MachineConfigs differ.

use std::collections::{BTreeMap, BTreeSet};

use mainstay_ignition::{Config, Struct};
use serde::Serialize;

use crate::ignition::{ConvertError, parse_and_convert};
use crate::machine_config::{MachineConfig, MachineConfigSpec};

/// The parts that differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::struct_excessive_bools, reason = "upstream's flags, each a part of its own")]
pub struct Difference {
    /// The image of the operating system.
    pub os_update: bool,
    /// The kernel's arguments.
    pub kargs: bool,
    /// FIPS.
    pub fips: bool,
    /// Users and groups.
    pub passwd: bool,
    /// Files.
    pub files: bool,
    /// systemd units.
    pub units: bool,
    /// The type of the kernel.
    pub kernel_type: bool,
    /// Extensions.
    pub extensions: bool,
}

/// A MachineConfig whose Ignition config cannot be read, in upstream's words.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DifferenceError {
    /// The old one.
    #[error("parsing old Ignition config failed with error: {0}")]
    Old(ConvertError),
    /// The new one.
    #[error("parsing new Ignition config failed with error: {0}")]
    New(ConvertError),
}

/// The Ignition config of a MachineConfig; the one without any text is read as upstream reads it, as an empty text.
pub(crate) fn ignition_of(config: &MachineConfig) -> Result<Config, ConvertError> {
    parse_and_convert(config.spec.ignition.as_deref().unwrap_or_default())
}

/// Compares two MachineConfigs.
pub fn difference(old: &MachineConfig, new: &MachineConfig) -> Result<Difference, DifferenceError> {
    let old_ignition = ignition_of(old).map_err(DifferenceError::Old)?;
    let new_ignition = ignition_of(new).map_err(DifferenceError::New)?;
    Ok(between(&old.spec, &old_ignition, &new.spec, &new_ignition))
}

/// Compares two MachineConfigs whose Ignition configs were read.
pub(crate) fn between(old: &MachineConfigSpec, old_ignition: &Config, new: &MachineConfigSpec, new_ignition: &Config) -> Difference {
    let differ = |section: &str, list: &str| old_ignition.list(section, list) != new_ignition.list(section, list);
    Difference {
        os_update: old.os_image_url != new.os_image_url,
        kargs: old.kernel_arguments != new.kernel_arguments,
        fips: old.fips != new.fips,
        passwd: old_ignition.section("passwd") != new_ignition.section("passwd"),
        files: differ("storage", "files"),
        units: differ("systemd", "units"),
        kernel_type: canonical_kernel(&old.kernel_type) != canonical_kernel(&new.kernel_type),
        extensions: old.extensions != new.extensions,
    }
}

fn canonical_kernel(kernel: &str) -> &str {
    if matches!(kernel, "realtime" | "64k-pages") { kernel } else { "default" }
}

impl Difference {
    /// Returns whether nothing differs.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The changes of the operating system, in upstream's words; empty if there are none.
    pub fn os_changes(&self) -> String {
        let parts = [
            (self.os_update, "Upgrading OS"),
            (self.extensions, "Installing extensions"),
            (self.kernel_type, "Changing kernel type"),
            (self.kargs, "Changing kernel arguments"),
        ];
        parts.into_iter().filter(|(differs, _)| *differs).map(|(_, words)| words).collect::<Vec<_>>().join("; ")
    }
}

/// The paths of files that are not the same in both configs, sorted.
pub fn files(old: &Config, new: &Config) -> Vec<String> {
    names_that_differ(old.files(), new.files(), "path")
}

/// The names of units that are not the same in both configs, sorted.
pub fn units(old: &Config, new: &Config) -> Vec<String> {
    names_that_differ(old.units(), new.units(), "name")
}

fn names_that_differ<'c>(old: impl Iterator<Item = &'c Struct>, new: impl Iterator<Item = &'c Struct>, key: &str) -> Vec<String> {
    let old: BTreeMap<&str, &Struct> = old.map(|item| (item.text_or_empty(key), item)).collect();
    let new: BTreeMap<&str, &Struct> = new.map(|item| (item.text_or_empty(key), item)).collect();
    let names: BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
    names.into_iter().filter(|name| old.get(name) != new.get(name)).map(str::to_owned).collect()
}
