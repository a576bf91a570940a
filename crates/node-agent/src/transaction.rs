//! Edits of a tree as one: all of them, or none (MACH-NODE-10).
//!
//! ```text
//!   keep what is there (blobs) ── journal ── edits ── journal goes ── blobs go
//!                                    │                    │
//!                       from here: taken back        from here: done
//! ```
//!
//! The journal is written as a whole and removed as a whole. An agent that finds one takes back what it names, in reverse, so that a kill at any instant
//! leaves the tree as it was before or as it is to be.

use std::collections::BTreeSet;

use mainstay_machine_config_core::layout::{Edit, File, Id, OWN, Target, account, group_id};
use serde::{Deserialize, Serialize};

use crate::root::{Found, Owner, Ownership, Root, RootError};

const PENDING: &str = "/etc/machine-config-daemon/pending";
const JOURNAL: &str = "/etc/machine-config-daemon/pending/journal.json";
const FOLDER_MODE: u32 = 0o755;
const PRIVATE: u32 = 0o600;
/// The folder of keys, which belongs to its user alone.
const PRIVATE_FOLDERS: &str = "/home/core/.ssh";

/// The reason why edits were not made. The tree is as it was, unless it says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum TransactionError {
    /// The tree cannot be read or written.
    #[error(transparent)]
    Root(#[from] RootError),
    /// An owner is unknown.
    #[error("file {path}: {kind} {name:?} is in neither {file} nor a number")]
    Unknown {
        /// The file.
        path: String,
        /// User or group.
        kind: &'static str,
        /// The name.
        name: String,
        /// Where it was looked for.
        file: &'static str,
    },
    /// Something is in the way.
    #[error("{0}: something else than a file or link is there")]
    InTheWay(String),
    /// The journal cannot be read.
    #[error("{JOURNAL}: {0}; restore the tree from a backup, or remove the file to go on with the tree as it is")]
    Journal(#[source] serde_json::Error),
    /// The edits failed, and could not be taken back yet.
    #[error("{failed}; taking back what was written failed, too: {undoing}; the next start tries again")]
    NotTakenBack {
        /// The first failure.
        failed: Box<TransactionError>,
        /// The second failure.
        undoing: Box<TransactionError>,
    },
}

/// The thing that was there before.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "was", rename_all = "camelCase")]
enum Before {
    Absent,
    Folder,
    File { mode: u32, user: u32, group: u32, blob: usize },
    Link { target: String },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    path: String,
    #[serde(flatten)]
    before: Before,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Journal {
    entries: Vec<Entry>,
}

/// Carries out edits, all of them or none; the paths of files that got no owner for lack of permission.
///
/// # Errors
/// Something failed; the tree is as it was.
pub fn carry_out(root: &Root, edits: &[Edit]) -> Result<Vec<String>, TransactionError> {
    if edits.is_empty() {
        return Ok(Vec::new());
    }
    let owners = Owners::read(root)?;
    // Names are looked up before anything is written.
    for edit in edits {
        if let Target::File(file) = &edit.to {
            owners.of(&edit.path, file)?;
        }
    }
    if let Err(failed) = begin(root, edits) {
        if let Err(error) = clean(root) {
            tracing::debug!(%error, "kept files are removed later");
        }
        return Err(failed);
    }
    let applied = apply(root, edits, &owners);
    let failed = match &applied {
        Ok(_) => commit(root).err(),
        Err(_) => None,
    };
    let failed = match (applied, failed) {
        (Ok(unowned), None) => return Ok(unowned),
        // The journal may be gone although its folder could not be synced: then the edits are made.
        (Ok(unowned), Some(_)) if root.found(JOURNAL)? == Found::Absent => return Ok(unowned),
        (Ok(_), Some(failed)) | (Err(failed), _) => failed,
    };
    match recover(root) {
        Ok(_) => Err(failed),
        Err(undoing) => Err(TransactionError::NotTakenBack { failed: Box::new(failed), undoing: Box::new(undoing) }),
    }
}

/// Takes back what a killed agent began. Returns whether there was something.
///
/// # Errors
/// The tree cannot be written, or the journal cannot be read.
pub fn recover(root: &Root) -> Result<bool, TransactionError> {
    let Some(text) = root.read(JOURNAL)? else {
        clean(root)?;
        return Ok(false);
    };
    let journal: Journal = serde_json::from_slice(&text).map_err(TransactionError::Journal)?;
    for (index, entry) in journal.entries.iter().enumerate().rev() {
        // What was half written beside the path goes, too.
        let (folder, _) = crate::root::split(&entry.path);
        root.remove(&format!("{}/{}", folder.trim_end_matches('/'), temporary(index)))?;
        match &entry.before {
            Before::Absent => root.remove(&entry.path)?,
            Before::Folder => root.remove_folder(&entry.path)?,
            Before::Link { target } => root.link(&entry.path, &temporary(index), target)?,
            Before::File { mode, user, group, blob } => {
                let content = root.read(&self::blob(*blob))?.unwrap_or_default();
                let owner = Owner { user: Some(*user), group: Some(*group) };
                root.write(&entry.path, &temporary(index), &content, *mode, owner)?;
            }
        }
    }
    commit(root)?;
    Ok(true)
}

/// Returns whether edits were begun and not ended: the tree is neither as it was nor as it is to be.
///
/// # Errors
/// The tree cannot be looked at.
pub fn is_cut_off(root: &Root) -> Result<bool, RootError> {
    Ok(root.found(JOURNAL)? != Found::Absent)
}

fn blob(index: usize) -> String {
    format!("{PENDING}/{index}")
}

/// The name of the file beside a path that takes its place.
fn temporary(index: usize) -> String {
    format!(".mainstay-node-agent-{index}")
}

/// Keeps what is there, then writes the journal.
fn begin(root: &Root, edits: &[Edit]) -> Result<(), TransactionError> {
    for folder in root.missing_folders(JOURNAL)? {
        let mode = if folder == OWN { FOLDER_MODE } else { 0o700 };
        root.make_folder(&folder, if folder.starts_with(OWN) { mode } else { FOLDER_MODE }, Owner::default())?;
    }
    let (mut entries, mut known) = (Vec::new(), BTreeSet::new());
    for edit in edits {
        for folder in root.missing_folders(&edit.path)? {
            if known.insert(folder.clone()) {
                entries.push(Entry { path: folder, before: Before::Folder });
            }
        }
        if !known.insert(edit.path.clone()) {
            continue;
        }
        let before = match root.found(&edit.path)? {
            Found::Absent => Before::Absent,
            Found::Link(target) => Before::Link { target },
            Found::Folder | Found::Other => return Err(TransactionError::InTheWay(edit.path.clone())),
            Found::File(attributes) => {
                let number = entries.len();
                let content = root.read(&edit.path)?.ok_or_else(|| TransactionError::InTheWay(edit.path.clone()))?;
                root.write(&blob(number), ".blob", &content, PRIVATE, Owner::default())?;
                Before::File { mode: attributes.mode, user: attributes.user, group: attributes.group, blob: number }
            }
        };
        entries.push(Entry { path: edit.path.clone(), before });
    }
    let text = serde_json::to_vec(&Journal { entries }).map_err(TransactionError::Journal)?;
    root.write(JOURNAL, ".journal", &text, PRIVATE, Owner::default())?;
    Ok(())
}

fn apply(root: &Root, edits: &[Edit], owners: &Owners) -> Result<Vec<String>, TransactionError> {
    let mut unowned = Vec::new();
    // The numbers of temporary files are those of the journal, so that a recovery finds them.
    let journal: Journal = match root.read(JOURNAL)? {
        Some(text) => serde_json::from_slice(&text).map_err(TransactionError::Journal)?,
        None => Journal::default(),
    };
    for edit in edits {
        let number = journal.entries.iter().position(|entry| entry.path == edit.path).unwrap_or_default();
        let mut content = None;
        let owner = match &edit.to {
            Target::File(file) => {
                content = Some((file.content.clone(), file.mode));
                owners.of(&edit.path, file)?
            }
            Target::Content(text, mode) => {
                content = Some((text.clone(), *mode));
                match root.found(&edit.path)? {
                    Found::File(attributes) => Owner { user: Some(attributes.user), group: Some(attributes.group) },
                    _ => Owner::default(),
                }
            }
            Target::CopyOf(from) => match root.found(from)? {
                Found::File(attributes) => {
                    content = Some((root.read(from)?.unwrap_or_default(), attributes.mode));
                    Owner { user: Some(attributes.user), group: Some(attributes.group) }
                }
                _ => Owner::default(),
            },
            Target::Absent | Target::Link(_) => Owner::default(),
        };
        let link = match &edit.to {
            Target::Link(target) => Some(target.clone()),
            Target::CopyOf(from) => match root.found(from)? {
                Found::Link(target) => Some(target),
                _ => None,
            },
            _ => None,
        };
        if content.is_some() || link.is_some() {
            folders(root, &edit.path, owner)?;
        }
        match (content, link) {
            (Some((content, mode)), _) => {
                let is_named = matches!(&edit.to, Target::File(file) if file.user.is_some() || file.group.is_some());
                let owned = root.write(&edit.path, &temporary(number), &content, mode, owner)?;
                if is_named && owned == Ownership::NotPermitted {
                    unowned.push(edit.path.clone());
                }
            }
            (None, Some(target)) => root.link(&edit.path, &temporary(number), &target)?,
            (None, None) => root.remove(&edit.path)?,
        }
    }
    Ok(unowned)
}

fn folders(root: &Root, path: &str, owner: Owner) -> Result<(), TransactionError> {
    for folder in root.missing_folders(path)? {
        let is_private = folder == PRIVATE_FOLDERS || folder.strip_prefix(PRIVATE_FOLDERS).is_some_and(|rest| rest.starts_with('/'));
        if is_private {
            root.make_folder(&folder, 0o700, owner)?;
        } else {
            root.make_folder(&folder, FOLDER_MODE, Owner::default())?;
        }
    }
    Ok(())
}

/// Ends the transaction: from here on it is done.
fn commit(root: &Root) -> Result<(), TransactionError> {
    root.remove(JOURNAL)?;
    // The rest there does no harm, and the next start removes it.
    if let Err(error) = clean(root) {
        tracing::debug!(%error, "kept files are removed later");
    }
    Ok(())
}

fn clean(root: &Root) -> Result<(), TransactionError> {
    for name in root.names(PENDING)? {
        root.remove(&format!("{PENDING}/{name}"))?;
    }
    root.remove_folder(PENDING)?;
    Ok(())
}

/// The users and groups of the tree.
struct Owners {
    passwd: String,
    groups: String,
}

impl Owners {
    fn read(root: &Root) -> Result<Self, RootError> {
        let text = |path: &str| Ok(String::from_utf8_lossy(&root.read(path)?.unwrap_or_default()).into_owned());
        Ok(Self { passwd: text("/etc/passwd")?, groups: text("/etc/group")? })
    }

    fn of(&self, path: &str, file: &File) -> Result<Owner, TransactionError> {
        let unknown = |kind, name: &str, file| TransactionError::Unknown { path: path.to_owned(), kind, name: name.to_owned(), file };
        let user = match &file.user {
            None => None,
            Some(Id::Number(number)) => Some(*number),
            Some(Id::Name(name)) => {
                let found = account(&self.passwd, name).map(|account| account.user);
                Some(found.ok_or_else(|| unknown("user", name, "/etc/passwd"))?)
            }
        };
        let group = match &file.group {
            None => None,
            Some(Id::Number(number)) => Some(*number),
            Some(Id::Name(name)) => {
                let found = group_id(&self.groups, name).or_else(|| account(&self.passwd, name).map(|account| account.group));
                Some(found.ok_or_else(|| unknown("group", name, "/etc/group"))?)
            }
        };
        Ok(Owner { user, group })
    }
}
