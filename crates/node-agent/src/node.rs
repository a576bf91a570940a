//! A tree as the disk of a node: what it has, and how a configuration gets there.

use std::os::fd::OwnedFd;

use mainstay_machine_config_core::daemon::disk::{Disk, FileOnDisk, KUBELET_CA, digest};
use mainstay_machine_config_core::layout::{Edit, File, Layout, OWN, RECORDED, Target, edits, layout};
use mainstay_machine_config_core::machine_config::MachineConfig;
use mainstay_machine_config_core::reconcilable::FORCE_FILE;
use serde_json::json;

use crate::Error;
use crate::root::{Attributes, Found, Owner, Root};
use crate::state::{State, current_config, current_config_edit, pretty};
use crate::transaction::{carry_out, is_cut_off, recover};

const RUN: &str = "/run/machine-config-daemon";
const LOCK: &str = "/run/machine-config-daemon/node-agent.lock";
/// The identifier of the running system below a root that is not this host's.
const BOOT_ID: &str = "/run/machine-config-daemon/boot-id";
/// The identifier of the running system of this host.
const HOST_BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// A tree that this agent alone works on.
#[derive(Debug)]
pub struct Tree {
    root: Root,
    _lock: OwnedFd,
}

/// The way from the configuration of a tree to another one.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The configuration of the tree; none before the first one.
    pub old: Option<MachineConfig>,
    /// The changes, in order.
    pub edits: Vec<Edit>,
}

/// The changes that were made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Files that got no owner, because the agent may not give them one.
    pub unowned: Vec<String>,
}

impl Change {
    /// Plans the way of a tree to a configuration; nothing is written, and no lock is needed.
    ///
    /// # Errors
    /// An earlier change was cut off, the configuration cannot be on a disk, something is in its way, or the tree cannot be read.
    pub fn plan(root: &Root, new: &MachineConfig) -> Result<Self, Error> {
        if is_cut_off(root)? {
            return Err(Error::CutOff(root.path().display().to_string()));
        }
        let old = current_config(root)?;
        let of = |config: &MachineConfig| layout(config).map_err(|error| Error::Layout { name: config.name.clone(), error });
        let before = old.as_ref().map_or_else(|| Ok(Layout::default()), of)?;
        let mut all = edits(&before, &of(new)?, root)?;
        all.extend(recorded(root, new)?);
        if old.as_ref() != Some(new) {
            all.push(current_config_edit(new));
        }
        Ok(Change { old, edits: all })
    }
}

/// Changes of the operating system below a root that is no host's: they are recorded (MACH-NODE-12).
fn recorded(root: &Root, new: &MachineConfig) -> Result<Option<Edit>, Error> {
    let spec = &new.spec;
    let wanted = json!({
        "osImageURL": spec.os_image_url, "kernelArguments": spec.kernel_arguments, "kernelType": spec.kernel_type,
        "extensions": spec.extensions, "fips": spec.fips,
    });
    if root.is_host() {
        return Ok(None);
    }
    let content = pretty(&wanted).into_bytes();
    let is_same = root.read(RECORDED)?.as_ref() == Some(&content);
    Ok((!is_same).then(|| Edit { path: RECORDED.to_owned(), to: Target::File(File::plain(0o644, content)) }))
}

impl Tree {
    /// Takes a tree, and takes back what a killed agent began. Returns also whether there was something to take back.
    ///
    /// # Errors
    /// Another agent has it, or it cannot be written.
    pub fn take(root: Root) -> Result<(Self, bool), Error> {
        for folder in [OWN, RUN] {
            for missing in root.missing_folders(&format!("{folder}/x"))? {
                root.make_folder(&missing, 0o755, Owner::default())?;
            }
        }
        let lock = root.lock(LOCK)?.ok_or_else(|| Error::Locked(root.path().display().to_string()))?;
        let recovered = recover(&root)?;
        Ok((Self { root, _lock: lock }, recovered))
    }

    /// Its root.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// The configuration that was written last.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn current(&self) -> Result<Option<MachineConfig>, Error> {
        current_config(&self.root)
    }

    /// Plans the way to a configuration.
    ///
    /// # Errors
    /// It cannot be on a disk, something is in its way, or the tree cannot be read. Nothing was written.
    pub fn plan(&self, new: &MachineConfig) -> Result<Change, Error> {
        Change::plan(&self.root, new)
    }
    /// Carries out a change, with the rest of the disk if it changes, too. The file that forces a write goes.
    ///
    /// # Errors
    /// It failed; the tree is as it was.
    pub fn write(&self, change: &Change, disk: Option<&Disk>) -> Result<Written, Error> {
        let mut all = change.edits.clone();
        if matches!(self.root.found(FORCE_FILE)?, Found::File(_) | Found::Link(_)) {
            all.push(Edit { path: FORCE_FILE.to_owned(), to: Target::Absent });
        }
        if let Some(disk) = disk {
            all.push(State::of(disk).edit()?);
        }
        Ok(Written { unowned: carry_out(&self.root, &all)? })
    }

    /// Writes the part of a disk that no configuration holds, and the authority that the kubelet trusts, if there is a new one.
    ///
    /// # Errors
    /// It failed; the tree is as it was.
    pub fn remember(&self, disk: &Disk, authority: Option<&[u8]>) -> Result<(), Error> {
        let mut all = Vec::new();
        if let Some(content) = authority {
            all.push(Edit { path: KUBELET_CA.to_owned(), to: Target::File(File::plain(0o644, content)) });
        }
        let state = State::of(disk);
        if state != State::read(&self.root)? || !all.is_empty() {
            all.push(state.edit()?);
        }
        carry_out(&self.root, &all)?;
        Ok(())
    }

    /// The disk; none before the first configuration.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn disk(&self) -> Result<Option<Disk>, Error> {
        let Some(config) = self.current()? else { return Ok(None) };
        let state = State::read(&self.root)?;
        let wanted = layout(&config).map_err(|error| Error::Layout { name: config.name.clone(), error })?;
        let mut disk = Disk {
            units: wanted.units.iter().filter_map(|unit| Some((unit.name.clone(), unit.enabled?))).collect(),
            ssh_keys: wanted.keys.clone().unwrap_or_default(),
            kubelet_ca: state.kubelet_ca,
            boot_id: state.boot_id,
            pending: state.pending,
            rebooting_since: state.rebooting_since,
            asked: state.asked,
            force: self.root.found(FORCE_FILE)? != Found::Absent,
            ..Disk::default()
        };
        for path in Disk::paths(&config)? {
            if let (Found::File(attributes), Some(content)) = (self.root.found(&path)?, self.root.read(&path)?) {
                let mode = format!("{:04o}", attributes.mode);
                disk.files.insert(path, FileOnDisk { mode, digest: digest(&content) });
            }
        }
        disk.config = config;
        Ok(Some(disk))
    }

    /// Marks that tell one state of the configuration's files from another, without their contents.
    ///
    /// # Errors
    /// They cannot be looked at.
    pub fn fingerprint(&self) -> Result<Vec<Option<Attributes>>, Error> {
        let Some(config) = self.current()? else { return Ok(Vec::new()) };
        let mut paths = Disk::paths(&config)?;
        paths.push(FORCE_FILE.to_owned());
        let of = |path: &String| {
            Ok(match self.root.found(path)? {
                Found::File(attributes) => Some(attributes),
                _ => None,
            })
        };
        paths.iter().map(of).collect()
    }

    /// The identifier of the running system. That of a tree is made when there is none, as after a boot.
    ///
    /// # Errors
    /// It cannot be read or made.
    pub fn boot_id(&self) -> Result<String, Error> {
        let (path, is_host) = if self.root.is_host() { (HOST_BOOT_ID, true) } else { (BOOT_ID, false) };
        if let Some(text) = self.root.read(path)? {
            let text = String::from_utf8_lossy(&text).trim().to_owned();
            if !text.is_empty() || is_host {
                return Ok(text);
            }
        }
        let made = random_id(path)?;
        self.root.write(path, ".boot-id", format!("{made}\n").as_bytes(), 0o644, Owner::default())?;
        Ok(made)
    }

    /// Ends the running system of a tree: the next look finds another one.
    ///
    /// # Errors
    /// The identifier cannot be removed.
    pub fn end_boot(&self) -> Result<(), Error> {
        Ok(self.root.remove(BOOT_ID)?)
    }
}

/// A random UUID of version 4.
fn random_id(path: &str) -> Result<String, Error> {
    let mut bytes = [0; 16];
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    got.map_err(|error| crate::root::RootError::Io { path: path.to_owned(), doing: "get randomness", source: error.into() })?;
    let id = u128::from_be_bytes(bytes) & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{id:032x}");
    Ok([&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"))
}
