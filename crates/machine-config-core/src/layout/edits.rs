//! The way from one layout to another on a disk: what is written, what is kept of before, and what is taken back, in order.
//!
//! Order: files, units with their links, then keys and password of the user `core` (MACH-NODE-10). An edit says what a path is to be; the one who
//! carries it out keeps what was there until all are done.

use std::collections::BTreeMap;

use super::install::{Found, InstallError, Links, links, template};
use super::read::{DEFAULT_MODE, File, Id, Layout, Unit};
use super::unit_file::UnitFile;
use super::{no_original, original, with_password};
use crate::daemon::disk::{KUBELET_CA, UNITS};

/// The target of masks.
const NOTHING: &str = "/dev/null";
/// Folders of units that the operating system brings, after the one that configs write.
const SYSTEM_UNITS: [&str; 4] = ["/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"];
/// Files and folders of authorities that stay when a config no longer has them.
const AUTHORITIES: [&str; 3] = [
    KUBELET_CA,
    "/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem",
    "/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt",
];
const IMAGE_AUTHORITIES: &str = "/etc/docker/certs.d";
/// The kubeconfig of the kubelet, which others must not read.
const KUBECONFIG: &str = "/etc/kubernetes/kubeconfig";
const PASSWD: &str = "/etc/passwd";
const SHADOW: &str = "/etc/shadow";
const CORE: &str = "core";
/// Keys of the user `core` where a folder has several files of them, and where it does not.
const KEYS: &str = "/home/core/.ssh/authorized_keys.d/ignition";
const OLD_KEYS: &str = "/home/core/.ssh/authorized_keys";

/// What a path is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Live {
    /// Nothing.
    Absent,
    /// A file, with its mode.
    File {
        /// Its mode.
        mode: u32,
    },
    /// A link, with its target.
    Link(String),
    /// A folder.
    Folder,
    /// A device, a socket, a pipe.
    Other,
}

/// A look at a disk. Links on the way to a path are followed below the root, the last part is looked at as it is.
pub trait View {
    /// The error of a look.
    type Error: From<InstallError> + From<EditError>;

    /// What a path is.
    fn live(&self, path: &str) -> Result<Live, Self::Error>;

    /// The content of a file; none if it is none.
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, Self::Error>;

    /// The names in a folder; empty if it is none.
    fn names(&self, folder: &str) -> Result<Vec<String>, Self::Error>;
}

/// What a path is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Nothing.
    Absent,
    /// A file.
    File(File),
    /// A file whose owner stays as it is.
    Content(Vec<u8>, u32),
    /// A link.
    Link(String),
    /// What another path is at that moment.
    CopyOf(String),
}

/// A change of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The path.
    pub path: String,
    /// What it is to be.
    pub to: Target,
}

/// The reason why a layout cannot be reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// Something else is where a file should be.
    #[error("{path} is {what}; a file should be there")]
    InTheWay {
        /// The path.
        path: String,
        /// What is there.
        what: &'static str,
    },
}

/// Plans the way from the old layout to the new one.
///
/// # Errors
/// The disk cannot be looked at, or something is in the way.
pub fn edits<V: View>(old: &Layout, new: &Layout, disk: &V) -> Result<Vec<Edit>, V::Error> {
    let mut plan = Plan { disk, old, new, edits: Vec::new() };
    plan.files()?;
    plan.units()?;
    plan.taken_back()?;
    plan.kubeconfig()?;
    plan.user()?;
    Ok(plan.edits)
}

struct Plan<'p, V> {
    disk: &'p V,
    old: &'p Layout,
    new: &'p Layout,
    edits: Vec<Edit>,
}

impl<V: View> Plan<'_, V> {
    fn set(&mut self, path: impl Into<String>, to: Target) {
        self.edits.push(Edit { path: path.into(), to });
    }

    fn files(&mut self) -> Result<(), V::Error> {
        for (path, file) in &self.new.files {
            // The authority comes from the ControllerConfig once the node has one.
            if path == KUBELET_CA && self.disk.live(path)? != Live::Absent {
                continue;
            }
            self.file(path, file, self.old.files.contains_key(path))?;
        }
        Ok(())
    }

    /// Writes a file, and keeps what was there before the first write.
    fn file(&mut self, path: &str, file: &File, was_ours: bool) -> Result<(), V::Error> {
        let live = self.disk.live(path)?;
        if let Some(what) = in_the_way(&live) {
            return Err(EditError::InTheWay { path: path.to_owned(), what }.into());
        }
        self.keep(path, &live, was_ours)?;
        let is_same = live == (Live::File { mode: file.mode })
            && file.user.is_none()
            && file.group.is_none()
            && self.disk.read(path)?.as_ref() == Some(&file.content);
        if !is_same {
            self.set(path, Target::File(file.clone()));
        }
        Ok(())
    }

    fn keep(&mut self, path: &str, live: &Live, was_ours: bool) -> Result<(), V::Error> {
        let (kept, mark) = (original(path), no_original(path));
        if self.disk.live(&kept)? != Live::Absent || self.disk.live(&mark)? != Live::Absent {
            return Ok(());
        }
        if was_ours || *live == Live::Absent {
            self.set(mark, Target::File(File::plain(DEFAULT_MODE, "")));
        } else {
            self.set(kept, Target::CopyOf(path.to_owned()));
        }
        Ok(())
    }

    /// Takes a file of the old layout back: to what was there before, or to nothing.
    fn take_back(&mut self, path: &str) -> Result<(), V::Error> {
        let (kept, mark) = (original(path), no_original(path));
        if self.disk.live(&mark)? != Live::Absent {
            self.set(mark, Target::Absent);
        } else if self.disk.live(&kept)? != Live::Absent {
            self.set(path, Target::CopyOf(kept.clone()));
            self.set(kept, Target::Absent);
            return Ok(());
        }
        match self.disk.live(path)? {
            Live::Absent => {}
            live => match in_the_way(&live) {
                Some(what) => return Err(EditError::InTheWay { path: path.to_owned(), what }.into()),
                None => self.set(path, Target::Absent),
            },
        }
        Ok(())
    }

    fn units(&mut self) -> Result<(), V::Error> {
        let mut changes: BTreeMap<String, Option<String>> = BTreeMap::new();
        for unit in &self.old.units {
            // What was enabled by the old text is not left behind when the new one asks for other links.
            if unit.enabled == Some(true) && unit.mask != Some(true) {
                for (path, to) in self.old_links(unit)? {
                    if self.disk.live(&path)? == Live::Link(to) {
                        changes.insert(path, None);
                    }
                }
            }
        }
        for unit in &self.new.units {
            self.unit(unit)?;
            match unit.enabled {
                Some(true) if unit.mask == Some(true) => return Err(InstallError::Masked(unit.name.clone()).into()),
                Some(true) => {
                    let wanted = links(&unit.name, |name| self.found(self.new, name))?;
                    changes.extend(wanted.into_iter().map(|(path, to)| (path, Some(to))));
                }
                Some(false) => changes.extend(self.links_to(&unit.name)?.into_iter().map(|path| (path, None))),
                None => {}
            }
        }
        for (path, to) in changes {
            let live = self.disk.live(&path)?;
            match to {
                Some(to) if live == Live::Link(to.clone()) => {}
                Some(to) => match in_the_way(&live) {
                    Some(what) => return Err(EditError::InTheWay { path, what }.into()),
                    None => self.set(path, Target::Link(to)),
                },
                None if live == Live::Absent => {}
                None => self.set(path, Target::Absent),
            }
        }
        Ok(())
    }

    fn unit(&mut self, unit: &Unit) -> Result<(), V::Error> {
        let was = self.old.units.iter().find(|old| old.name == unit.name);
        for (name, text) in &unit.drop_ins {
            let path = format!("{UNITS}/{}.d/{name}", unit.name);
            let was_ours = was.is_some_and(|old| old.drop_ins.iter().any(|(known, text)| known == name && text.is_some()));
            match text {
                Some(text) => self.file(&path, &File::plain(DEFAULT_MODE, text.as_bytes()), was_ours)?,
                None => self.take_back(&path)?,
            }
        }
        let path = format!("{UNITS}/{}", unit.name);
        let was_ours = was.is_some_and(|old| old.contents.is_some() || old.mask == Some(true));
        let live = self.disk.live(&path)?;
        match (unit.mask, &unit.contents) {
            (Some(true), _) => {
                if let Some(what) = in_the_way(&live) {
                    return Err(EditError::InTheWay { path, what }.into());
                }
                self.keep(&path, &live, was_ours)?;
                if live != Live::Link(NOTHING.to_owned()) {
                    self.set(path, Target::Link(NOTHING.to_owned()));
                }
            }
            (_, Some(text)) => self.file(&path, &File::plain(DEFAULT_MODE, text.as_bytes()), was_ours)?,
            (mask, None) => {
                if was_ours || (mask == Some(false) && live == Live::Link(NOTHING.to_owned())) {
                    self.take_back(&path)?;
                }
            }
        }
        Ok(())
    }

    /// Takes back what only the old layout has.
    fn taken_back(&mut self) -> Result<(), V::Error> {
        let written_by_units = self.unit_paths(self.new);
        for path in self.old.files.keys() {
            let stays =
                AUTHORITIES.contains(&path.as_str()) || path.strip_prefix(IMAGE_AUTHORITIES).is_some_and(|rest| rest.starts_with('/'));
            if !self.new.files.contains_key(path) && !written_by_units.contains(path) && !stays {
                self.take_back(path)?;
            }
        }
        let files = &self.new.files;
        for path in self.unit_paths(self.old) {
            if !written_by_units.contains(&path) && !files.contains_key(&path) {
                self.take_back(&path)?;
            }
        }
        Ok(())
    }

    /// The files of units and drop-ins that a layout names.
    fn unit_paths(&self, layout: &Layout) -> Vec<String> {
        let mut paths = Vec::new();
        for unit in &layout.units {
            let (named, folder) = (format!("{UNITS}/{}", unit.name), format!("{UNITS}/{}.d", unit.name));
            let is_ours = unit.contents.is_some() || unit.mask == Some(true);
            let is_new = std::ptr::eq(layout, self.new);
            if is_ours || is_new {
                paths.push(named);
            }
            paths.extend(unit.drop_ins.iter().filter(|(_, text)| is_new || text.is_some()).map(|(name, _)| format!("{folder}/{name}")));
        }
        paths
    }

    /// The file of a unit, or of its template: of the layout, else of the disk.
    fn found(&self, layout: &Layout, name: &str) -> Result<Option<Found>, V::Error> {
        for candidate in [Some(name.to_owned()), template(name)].into_iter().flatten() {
            let own = layout.units.iter().find(|unit| unit.name == candidate);
            let own_path = format!("{UNITS}/{candidate}");
            let text = own.and_then(|unit| unit.contents.clone());
            let text = match (text, layout.files.get(&own_path)) {
                (Some(text), _) => Some((own_path, text.into_bytes())),
                (None, Some(file)) => Some((own_path, file.content.clone())),
                (None, None) => self.on_disk(&candidate)?,
            };
            let Some((path, text)) = text else { continue };
            let mut unit = UnitFile::read(&String::from_utf8_lossy(&text));
            for (_, drop_in) in own.iter().flat_map(|unit| &unit.drop_ins) {
                unit.extend(UnitFile::read(drop_in.as_deref().unwrap_or_default()));
            }
            return Ok(Some(Found { path, unit }));
        }
        Ok(None)
    }

    fn on_disk(&self, name: &str) -> Result<Option<(String, Vec<u8>)>, V::Error> {
        for folder in [UNITS].iter().chain(&SYSTEM_UNITS) {
            let path = format!("{folder}/{name}");
            // A file of the old layout goes before the links are made.
            let goes = *folder == UNITS && self.old.units.iter().any(|unit| unit.name == name && unit.contents.is_some());
            if !goes && let Some(text) = self.disk.read(&path)? {
                return Ok(Some((path, text)));
            }
        }
        Ok(None)
    }

    /// The links that the old layout made; none of a unit that cannot be read any more.
    fn old_links(&self, unit: &Unit) -> Result<Links, V::Error> {
        let found = self.found(self.old, &unit.name)?;
        if found.is_none() {
            return Ok(Links::new());
        }
        links(&unit.name, |name| self.found(self.old, name))
    }

    /// All links of the folder of units by which a unit is enabled: those of its name in other units' folders, and its aliases.
    fn links_to(&self, name: &str) -> Result<Vec<String>, V::Error> {
        let mut paths = Vec::new();
        for entry in self.disk.names(UNITS)? {
            let path = format!("{UNITS}/{entry}");
            if [".wants", ".requires", ".upholds"].iter().any(|ending| entry.ends_with(ending)) {
                for linked in self.disk.names(&path)? {
                    let path = format!("{path}/{linked}");
                    if let Live::Link(to) = self.disk.live(&path)?
                        && (linked == name || is_unit(&to, name))
                    {
                        paths.push(path);
                    }
                }
            } else if entry != name && matches!(self.disk.live(&path)?, Live::Link(to) if is_unit(&to, name)) {
                paths.push(path);
            }
        }
        Ok(paths)
    }

    fn kubeconfig(&mut self) -> Result<(), V::Error> {
        let is_ours = self.new.files.contains_key(KUBECONFIG);
        if let Live::File { mode } = self.disk.live(KUBECONFIG)?
            && !is_ours
            && mode != 0o600
            && let Some(content) = self.disk.read(KUBECONFIG)?
        {
            self.set(KUBECONFIG, Target::Content(content, 0o600));
        }
        Ok(())
    }

    /// Keys and password of the user `core`; a disk that has users and not this one is left alone, as upstream leaves it.
    fn user(&mut self) -> Result<(), V::Error> {
        let passwd = self.disk.read(PASSWD)?.map(|text| String::from_utf8_lossy(&text).into_owned());
        if passwd.as_deref().is_some_and(|passwd| super::account(passwd, CORE).is_none()) {
            return Ok(());
        }
        if self.new.keys != self.old.keys {
            self.keys(passwd.is_some())?;
        }
        let changed = self.new.password != self.old.password;
        if changed && let Some(shadow) = self.disk.read(SHADOW)? {
            let shadow = String::from_utf8_lossy(&shadow).into_owned();
            let hash = self.new.password.as_deref().unwrap_or("*");
            if let (Some(text), Live::File { mode }) = (with_password(&shadow, CORE, hash), self.disk.live(SHADOW)?)
                && text != shadow
            {
                self.set(SHADOW, Target::Content(text.into_bytes(), mode));
            }
        }
        Ok(())
    }

    fn keys(&mut self, has_users: bool) -> Result<(), V::Error> {
        let keys: String = self.new.keys.iter().flatten().map(|key| format!("{key}\n")).collect();
        let in_folder = self.reads_folders_of_keys()?;
        let path = if in_folder { KEYS } else { OLD_KEYS };
        if in_folder && has_users {
            // Nothing else lets anyone in there.
            for old in self.other_keys()? {
                self.set(old, Target::Absent);
            }
        }
        let owner = has_users.then(|| Id::Name(CORE.to_owned()));
        let file = File { mode: 0o600, user: owner.clone(), group: owner, content: keys.into_bytes() };
        let live = self.disk.live(path)?;
        if let Some(what) = in_the_way(&live) {
            return Err(EditError::InTheWay { path: path.to_owned(), what }.into());
        }
        self.set(path, Target::File(file));
        Ok(())
    }

    fn other_keys(&self) -> Result<Vec<String>, V::Error> {
        let mut paths = Vec::new();
        if matches!(self.disk.live(OLD_KEYS)?, Live::File { .. } | Live::Link(_)) {
            paths.push(OLD_KEYS.to_owned());
        }
        let folder = KEYS.rsplit_once('/').map_or(KEYS, |(folder, _)| folder);
        for name in self.disk.names(folder)? {
            let path = format!("{folder}/{name}");
            if path != KEYS && matches!(self.disk.live(&path)?, Live::File { .. } | Live::Link(_)) {
                paths.push(path);
            }
        }
        Ok(paths)
    }

    /// Returns whether the system's SSH server reads a folder of files with keys: Fedora CoreOS, RHEL 9 and what is made of them, and a tree
    /// that is no system at all.
    fn reads_folders_of_keys(&self) -> Result<bool, V::Error> {
        for path in ["/etc/os-release", "/usr/lib/os-release"] {
            let Some(text) = self.disk.read(path)? else { continue };
            let text = String::from_utf8_lossy(&text).into_owned();
            let value = |key: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
                line.map(|value| value.trim_matches('"').to_owned()).unwrap_or_default()
            };
            let (id, variant) = (value("ID"), value("VARIANT_ID"));
            let platform = value("PLATFORM_ID");
            return Ok((id == "fedora" && variant == "coreos")
                || id == "scos"
                || platform == "platform:el9"
                || value("VERSION_ID").starts_with("9."));
        }
        Ok(true)
    }
}

fn in_the_way(live: &Live) -> Option<&'static str> {
    match live {
        Live::Absent | Live::File { .. } | Live::Link(_) => None,
        Live::Folder => Some("a folder"),
        Live::Other => Some("a device, socket or pipe"),
    }
}

/// Returns whether a link leads to the file of a unit or of its template.
fn is_unit(target: &str, name: &str) -> bool {
    let last = target.rsplit('/').next().unwrap_or_default();
    last == name
}
