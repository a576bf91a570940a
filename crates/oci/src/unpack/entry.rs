//! The effect of each entry of an archive on the tree.

use std::io::Read;

use super::Unpacking;
use super::budget::{ENTRIES, Over};
use super::tree::{Found, Id, Kind, MAX_DEPTH, MAX_NAME, MAX_PATH, MAX_TARGET, ROOT, Removed, TOO_DEEP};
use crate::error::Error;

/// Bytes that are copied at a time, and taken from the budget before.
const PIECE: usize = 64 << 10;

impl Unpacking<'_> {
    pub(super) fn entry(&mut self, layer: usize, entry: &mut tar::Entry<'_, impl Read>) -> Result<(), Error> {
        let bytes = entry.path_bytes().into_owned();
        let written =
            String::from_utf8(bytes).map_err(|error| self.unsafe_path(&String::from_utf8_lossy(error.as_bytes()), "is not UTF-8"))?;
        let Some(path) = self.clean(&written)? else { return Ok(()) };
        let (parent, name) = path.rsplit_once('/').map_or(("", path.as_str()), |(parent, name)| (parent, name));
        let parent = self.tree.resolve(parent, &self.budget.steps).map_err(|problem| self.unsafe_path(&written, problem))?;
        if name == ".wh..wh..opq" {
            if let Some(parent) = parent.there() {
                let removed = self.tree.clear(parent, layer, &self.budget.steps);
                self.forget(removed)?;
            }
            return Ok(());
        }
        if let Some(hidden) = name.strip_prefix(".wh.") {
            if let Some(hidden) = parent.there().and_then(|parent| self.tree.child(parent, hidden)) {
                let mut removed = self.tree.clear(hidden, layer, &self.budget.steps);
                self.tree.remove_older(hidden, layer, &mut removed);
                self.forget(removed)?;
            }
            return Ok(());
        }
        let place = Place { parent, name };
        let kind = entry.header().entry_type();
        if !self.wanted(&place) {
            return Ok(());
        }
        match kind {
            tar::EntryType::Directory => self.directory(&place, layer, &written),
            tar::EntryType::Regular | tar::EntryType::Continuous | tar::EntryType::GNUSparse => {
                let size = entry.size();
                let executable = entry.header().mode().is_ok_and(|mode| mode & 0o111 != 0);
                self.file(&place, layer, File { size, executable }, entry, &written)
            }
            tar::EntryType::Symlink => {
                let target = self.link_target(entry, &written)?;
                self.link(&place, layer, &target, &written)
            }
            tar::EntryType::Link => {
                let target = self.link_target(entry, &written)?;
                let target = self.clean(&target)?.unwrap_or_default();
                self.hard_link(&place, layer, &target, &written)
            }
            // Devices and pipes mean nothing in content.
            _ => Ok(()),
        }
    }

    fn link_target(&mut self, entry: &tar::Entry<'_, impl Read>, written: &str) -> Result<String, Error> {
        self.spend_link()?;
        let bytes = entry.link_name_bytes().ok_or_else(|| self.unsafe_path(written, "is a link to nothing"))?;
        if bytes.len() > MAX_TARGET || bytes.contains(&0) {
            return Err(self.unsafe_path(written, "is a link to no usable path"));
        }
        String::from_utf8(bytes.into_owned()).map_err(|_| self.unsafe_path(written, "is a link to a path that is not UTF-8"))
    }

    /// Returns the path without `.`; `None` for the root itself. Absolute paths and `..` are refused, since no image needs them.
    fn clean(&self, written: &str) -> Result<Option<String>, Error> {
        if written.starts_with('/') {
            return Err(self.unsafe_path(written, "is absolute"));
        }
        if written.contains('\0') || written.len() > MAX_PATH {
            return Err(self.unsafe_path(written, "is no usable path"));
        }
        let parts: Vec<_> = written.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        if parts.contains(&"..") {
            return Err(self.unsafe_path(written, "contains \"..\""));
        }
        if parts.len() > MAX_DEPTH || parts.iter().any(|part| part.len() > MAX_NAME) {
            return Err(self.unsafe_path(written, TOO_DEEP));
        }
        Ok((!parts.is_empty()).then(|| parts.join("/")))
    }

    fn wanted(&self, place: &Place<'_>) -> bool {
        let keep = &self.options.keep;
        if keep.is_empty() {
            return true;
        }
        let path = self.path_of(place);
        let below = |root: &str| path == root || path.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'));
        keep.iter().any(|root| below(root.trim_matches('/')) || root.trim_matches('/').is_empty())
    }

    fn path_of(&self, place: &Place<'_>) -> String {
        let mut path = self.tree.path(place.parent.node);
        for part in place.parent.absent.iter().map(String::as_str).chain([place.name]) {
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(part);
        }
        path
    }

    fn directory(&mut self, place: &Place<'_>, layer: usize, written: &str) -> Result<(), Error> {
        if let Some(known) = place.child(self)
            && matches!(self.tree.node(known).kind, Kind::Directory(_))
        {
            return Ok(());
        }
        let parent = self.open(place, layer, written)?;
        self.make_directory(parent, place.name, layer, written).map(drop)
    }

    /// Returns the directory that an entry lies in, made if it is absent, after removing the previous entry at that place.
    fn open(&mut self, place: &Place<'_>, layer: usize, written: &str) -> Result<Id, Error> {
        if let Some(known) = place.child(self) {
            let removed = self.tree.remove(known);
            self.forget(removed)?;
        }
        let mut at = place.parent.node;
        if at != ROOT && !matches!(self.tree.node(at).kind, Kind::Directory(_)) {
            // A path below a file turns that file into a directory.
            let (above, name) = self.tree.place(at);
            let removed = self.tree.remove(at);
            self.forget(removed)?;
            at = self.make_directory(above, &name, layer, written)?;
        }
        for part in &place.parent.absent {
            at = self.make_directory(at, part, layer, written)?;
        }
        Ok(at)
    }

    fn make_directory(&mut self, parent: Id, name: &str, layer: usize, written: &str) -> Result<Id, Error> {
        let made = self.insert(parent, name, Kind::Directory(std::collections::BTreeMap::new()), layer, written)?;
        self.sink.make_directory(&self.tree.path(made))?;
        Ok(made)
    }

    /// Inserts a node. Parents that an archive only implies count as entries too.
    fn insert(&mut self, parent: Id, name: &str, kind: Kind, layer: usize, written: &str) -> Result<Id, Error> {
        if self.tree.len() >= self.options.limits.entries {
            return Err(Over(ENTRIES, self.options.limits.entries).of(&self.subject));
        }
        self.tree.insert(parent, name, kind, layer).ok_or_else(|| self.unsafe_path(written, TOO_DEEP))
    }

    fn file(&mut self, place: &Place<'_>, layer: usize, file: File, content: &mut impl Read, written: &str) -> Result<(), Error> {
        let File { size, executable } = file;
        // The node that the file replaces is removed first, so the two never exist together.
        if let Some(known) = place.child(self) {
            let removed = self.tree.remove(known);
            self.forget(removed)?;
        }
        self.spend(|budget| budget.file(size))?;
        let parent = self.open(place, layer, written)?;
        let id = self.insert(parent, place.name, Kind::File { size, executable }, layer, written)?;
        self.budget.bytes += size;
        let mut incoming = self.sink.make_file(&self.tree.path(id), executable)?;
        let mut piece = vec![0; usize::try_from(size).unwrap_or(PIECE).min(PIECE)];
        let mut copied = 0;
        while copied < size {
            let most = usize::try_from(size - copied).unwrap_or(PIECE).min(PIECE);
            let count = content.read(&mut piece[..most]).map_err(|error| self.unreadable(&error))?;
            if count == 0 {
                return Err(Error::content(&self.subject, format!("{:?} ends after {copied} of {size} bytes", place.name)));
            }
            self.spend(|budget| budget.write(count as u64))?;
            incoming.write(&piece[..count])?;
            copied += count as u64;
        }
        self.sink.keep(id, incoming);
        Ok(())
    }

    fn link(&mut self, place: &Place<'_>, layer: usize, target: &str, written: &str) -> Result<(), Error> {
        let shown = || format!("{written} -> {target}");
        let parent = self.open(place, layer, written)?;
        let id = self.insert(parent, place.name, Kind::Link(target.into()), layer, written)?;
        let leads = self.tree.resolve_node(id, &self.budget.steps).map_err(|problem| self.unsafe_path(&shown(), problem))?;
        // Written relative, so that an absolute target means the image's root on this disk too.
        let relative = if target.starts_with('/') {
            let mut relative = "../".repeat(self.tree.depth(id) - 1);
            relative.push_str(&self.tree.path(leads.node));
            for part in &leads.absent {
                if !relative.is_empty() && !relative.ends_with('/') {
                    relative.push('/');
                }
                relative.push_str(part);
            }
            relative
        } else {
            target.to_owned()
        };
        let relative = if relative.is_empty() { "." } else { &relative };
        self.sink.make_link(&self.tree.path(id), relative)
    }

    /// Makes a hard link a file of its own, so that later layers change only one of the two.
    fn hard_link(&mut self, place: &Place<'_>, layer: usize, target: &str, written: &str) -> Result<(), Error> {
        let shown = || format!("{written} -> {target}");
        let found = self.tree.resolve_place(target, &self.budget.steps).map_err(|problem| self.unsafe_path(&shown(), problem))?;
        let source = found.there().ok_or_else(|| self.unsafe_path(&shown(), "is a hard link to what is not unpacked"))?;
        let file = match &self.tree.node(source).kind {
            Kind::File { size, executable } => File { size: *size, executable: *executable },
            Kind::Link(target) => {
                let target = target.to_string();
                return self.link(place, layer, &target, written);
            }
            Kind::Directory(_) | Kind::Gone => return Err(self.unsafe_path(&shown(), "is a hard link to what is not unpacked")),
        };
        if place.child(self) == Some(source) {
            return Ok(());
        }
        let mut bytes = self.sink.read(source, &self.tree.path(source))?;
        self.file(place, layer, file, &mut bytes, written)
    }

    fn forget(&mut self, removed: Vec<Removed>) -> Result<(), Error> {
        for gone in removed {
            if let Kind::File { size, .. } = gone.kind {
                self.budget.bytes -= size;
            }
            let place = self.tree.path(gone.id);
            self.sink.remove(&gone, &place)?;
        }
        Ok(())
    }
}

/// The place of an entry: a name in a directory, which may be absent.
struct Place<'a> {
    parent: Found,
    name: &'a str,
}

impl Place<'_> {
    /// Returns the node at the place.
    fn child(&self, unpacking: &Unpacking<'_>) -> Option<Id> {
        self.parent.there().and_then(|parent| unpacking.tree.child(parent, self.name))
    }
}

#[derive(Clone, Copy)]
struct File {
    size: u64,
    executable: bool,
}
