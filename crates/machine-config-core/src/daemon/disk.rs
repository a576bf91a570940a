//! The content of a node's disk, as far as a MachineConfig decides it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use mainstay_golang::quote;
use mainstay_ignition::{Config, Struct};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::content::{ContentError, content};
use crate::ignition::{ConvertError, parse_and_convert};
use crate::machine_config::{MachineConfig, MachineConfigSpec};
use crate::policy::Action;

/// The folder of units.
pub const UNITS: &str = "/etc/systemd/system";
/// The mode of files of which none is said.
const DEFAULT_MODE: i64 = 0o644;

/// The authority that the kubelet trusts; it is written from the ControllerConfig.
pub const KUBELET_CA: &str = "/etc/kubernetes/kubelet-ca.crt";
/// Files whose content may be newer than that of a MachineConfig: they are not validated.
const NOT_VALIDATED: [&str; 3] = [
    KUBELET_CA,
    "/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem",
    "/etc/mco/internal-registry-pull-secret.json",
];

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileOnDisk {
    /// Its mode in octal: `0644`.
    pub mode: String,
    /// The digest of its content: `sha256:` and digits.
    pub digest: String,
}

/// The disk of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Disk {
    /// The configuration that was written last.
    #[serde(skip)]
    pub config: MachineConfig,
    /// Files by path; units and their drop-ins among them.
    pub files: BTreeMap<String, FileOnDisk>,
    /// Units that are enabled (true) or disabled (false), where a configuration says it.
    pub units: BTreeMap<String, bool>,
    /// SSH keys of the user `core`.
    pub ssh_keys: Vec<String>,
    /// Digest of the authority that the kubelet trusts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet_ca: Option<String>,
    /// Identifier of the running system; another one after each reboot.
    pub boot_id: String,
    /// Actions that the last write still needs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<Action>,
    /// Beginning of the reboot that is under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebooting_since: Option<Timestamp>,
    /// Time at which the drain or uncordoning that is waited for was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<Timestamp>,
    /// The file `/run/machine-config-daemon-force`: the next write is not validated, and is followed by a reboot.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// The reason why a configuration cannot be written.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DiskError {
    /// Its Ignition config cannot be read.
    #[error("failed to parse Ignition for validation: {0}")]
    Ignition(#[from] ConvertError),
    /// A content cannot be had.
    #[error(transparent)]
    Content(#[from] ContentError),
}

/// A difference between a disk and its configuration, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Drift {
    /// A file is not there.
    #[error("could not stat file {}: lstat {}: no such file or directory", quote(.0), .0)]
    Missing(String),
    /// A file has another mode.
    #[error("mode mismatch for file: {}; expected: {}; received: {}", quote(.path), shown(.expected), shown(.found))]
    Mode {
        /// The file.
        path: String,
        /// The mode by the configuration.
        expected: String,
        /// The mode on the disk.
        found: String,
    },
    /// A file has another content.
    #[error("content mismatch for file {}", quote(.0))]
    Content(String),
}

/// A mode as upstream's message has it three times over: in letters, as a number, and in octal.
fn shown(mode: &str) -> String {
    let Ok(bits) = u32::from_str_radix(mode, 8) else { return mode.to_owned() };
    let letter = |shift: u32, letter: char| if bits >> shift & 1 == 1 { letter } else { '-' };
    let letters: String = (0..9).rev().map(|shift| letter(shift, ['x', 'w', 'r'][(shift % 3) as usize])).collect();
    format!("-{letters}/{bits}/0{bits:o}")
}

impl Disk {
    /// The paths of the files that the configuration has, those of units among them.
    ///
    /// # Errors
    /// The configuration cannot be read.
    pub fn paths(config: &MachineConfig) -> Result<Vec<String>, DiskError> {
        Ok(files(&ignition_of(&config.spec)?)?.into_keys().collect())
    }

    /// The disk of a node that was booted with a configuration.
    ///
    /// # Errors
    /// The configuration cannot be written.
    pub fn of(config: &MachineConfig, boot_id: &str) -> Result<Self, DiskError> {
        let mut disk = Self { boot_id: boot_id.to_owned(), ..Self::default() };
        disk.write(config)?;
        Ok(disk)
    }

    /// Writes a configuration over the one that is there. Nothing changes if it cannot be written.
    ///
    /// # Errors
    /// The configuration cannot be written.
    pub fn write(&mut self, config: &MachineConfig) -> Result<(), DiskError> {
        let ignition = ignition_of(&config.spec)?;
        let files = files(&ignition)?;
        self.units = ignition.units().filter_map(|unit| Some((unit.text_or_empty("name").to_owned(), unit.bool("enabled")?))).collect();
        self.ssh_keys =
            ignition.users().last().map(|user| user.texts("sshAuthorizedKeys").map(str::to_owned).collect()).unwrap_or_default();
        self.files = files;
        self.config = config.clone();
        Ok(())
    }

    /// Compares the disk with the configuration that was written last; the first difference by path.
    ///
    /// # Errors
    /// The configuration cannot be read any more.
    pub fn drift(&self) -> Result<Option<Drift>, DiskError> {
        let expected = files(&ignition_of(&self.config.spec)?)?;
        Ok(expected.into_iter().filter(|(path, _)| !NOT_VALIDATED.contains(&path.as_str())).find_map(|(path, file)| {
            match self.files.get(&path) {
                None => Some(Drift::Missing(path)),
                Some(found) if found.digest != file.digest => Some(Drift::Content(path)),
                Some(found) if found.mode != file.mode => Some(Drift::Mode { path, expected: file.mode, found: found.mode.clone() }),
                Some(_) => None,
            }
        }))
    }
}

/// The digest of a content.
pub fn digest(content: &[u8]) -> String {
    format!("sha256:{:x}", Sha256::digest(content))
}

fn ignition_of(spec: &MachineConfigSpec) -> Result<Config, ConvertError> {
    spec.ignition.as_deref().map_or_else(|| Ok(Config::default()), parse_and_convert)
}

/// The files of a config, those of units among them.
fn files(config: &Config) -> Result<BTreeMap<String, FileOnDisk>, ContentError> {
    let mut files = BTreeMap::new();
    for file in config.files() {
        let mode = format!("{:04o}", file.int("mode").unwrap_or(DEFAULT_MODE));
        files.insert(file.text_or_empty("path").to_owned(), FileOnDisk { mode, digest: digest(&content(file)?) });
    }
    for unit in config.units() {
        let name = unit.text_or_empty("name");
        let folder = format!("{UNITS}/{name}.d");
        // A unit that is masked is a link to nothing; its text does not matter.
        if let Some(text) = contents(unit).filter(|_| !unit.is_true("mask")) {
            files.insert(format!("{UNITS}/{name}"), text);
        }
        let drop_ins = unit.structs("dropins").filter_map(|drop_in| Some((drop_in.text_or_empty("name"), contents(drop_in)?)));
        files.extend(drop_ins.map(|(name, text)| (format!("{folder}/{name}"), text)));
    }
    Ok(files)
}

/// The file of a unit or drop-in; none without a text.
fn contents(unit: &Struct) -> Option<FileOnDisk> {
    let text = unit.text("contents").filter(|text| !text.is_empty())?;
    Some(FileOnDisk { mode: format!("{DEFAULT_MODE:04o}"), digest: digest(text.as_bytes()) })
}
