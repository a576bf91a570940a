//! The way from one layout to another on a disk: what is written, what is kept of before, and what is taken back, in order.
//!
//! Order: files, units with their links, then keys and password of the user `core` (MACH-NODE-10). An edit says what a path is to be; the one who
//! carries it out keeps what was there until all are done.

mod units;
mod user;

use super::install::InstallError;
use super::read::{DEFAULT_MODE, File, Layout};
use super::{no_original, original};
use crate::daemon::disk::{KUBELET_CA, UNITS};

/// Files and folders of authorities that stay when a config no longer has them.
const AUTHORITIES: [&str; 3] = [
    KUBELET_CA,
    "/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem",
    "/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt",
];
const IMAGE_AUTHORITIES: &str = "/etc/docker/certs.d";

/// The kind of a path.
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

    /// The kind of a path.
    fn live(&self, path: &str) -> Result<Live, Self::Error>;

    /// The content of a file; none if it is none.
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, Self::Error>;

    /// The names in a folder; empty if it is none.
    fn names(&self, folder: &str) -> Result<Vec<String>, Self::Error>;
}

/// The wanted state of a path.
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
    /// The kind of another path at that moment.
    CopyOf(String),
}

/// A change of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The path.
    pub path: String,
    /// Its wanted state.
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
        /// The thing that is there.
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
}

fn in_the_way(live: &Live) -> Option<&'static str> {
    match live {
        Live::Absent | Live::File { .. } | Live::Link(_) => None,
        Live::Folder => Some("a folder"),
        Live::Other => Some("a device, socket or pipe"),
    }
}
