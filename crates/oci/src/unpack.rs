//! Layers into files.
//!
//! Layers come from strangers, so nothing in them is believed: paths that leave the root are refused, links are resolved here in a model of
//! the tree and never by the operating system, and every byte counts against a limit before it is written. The tree on disk is a mirror
//! of the model, in which no parent directory is ever a link.
//!
//! ```text
//!   blob ── gzip / zstd / plain ── counted ── tar entries ── Model (whiteouts, links, limits) ── Sink: directory or memory
//! ```

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::client::Image;
use crate::error::Error;
use crate::store::BlobStore;

/// How much a layer stack may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnpackLimits {
    /// Bytes of all files that are kept.
    pub total_bytes: u64,
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Entries of all layers, also those that are passed over.
    pub entries: u64,
    /// Bytes of all layers uncompressed, also those that are passed over.
    pub read_bytes: u64,
}

impl Default for UnpackLimits {
    fn default() -> Self {
        Self { total_bytes: 1 << 30, file_bytes: 512 << 20, entries: 500_000, read_bytes: 8 << 30 }
    }
}

/// What to unpack.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnpackOptions {
    /// Only files at or below these paths; everything when empty.
    pub keep: Vec<String>,
    /// How much at most.
    pub limits: UnpackLimits,
}

/// One layer to apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// What errors call it.
    pub name: String,
    /// The archive, compressed or not.
    pub path: PathBuf,
}

impl Layer {
    /// The layers of an image whose blobs are in the store.
    pub fn of(image: &Image, store: &BlobStore) -> Vec<Self> {
        let layer = |blob: &crate::Descriptor| Self { name: format!("layer {}", blob.digest), path: store.path(&blob.digest) };
        image.manifest.layers.iter().map(layer).collect()
    }
}

/// What was unpacked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unpacked {
    /// Regular files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Applies the layers in order to an empty directory. After an error the directory holds a part and is to be removed.
pub fn unpack(layers: &[Layer], directory: &Path, options: &UnpackOptions) -> Result<Unpacked, Error> {
    let mut model = Model::new(Sink::Directory(directory.to_owned()), options);
    model.apply_all(layers)?;
    Ok(model.unpacked())
}

/// Applies the layers in order in memory and gives the regular files by path. A link to a file counts as that file.
pub fn read_files(layers: &[Layer], options: &UnpackOptions) -> Result<BTreeMap<String, Vec<u8>>, Error> {
    let mut model = Model::new(Sink::Memory(BTreeMap::new()), options);
    model.apply_all(layers)?;
    let links: Vec<(String, String)> = model
        .nodes
        .iter()
        .filter(|(_, node)| matches!(node.kind, Kind::Link(_)))
        .filter_map(|(path, _)| Some((path.clone(), model.resolve(path, true).ok()?)))
        .collect();
    let mut total = model.bytes;
    let Sink::Memory(mut files) = model.sink else { return Ok(BTreeMap::new()) };
    for (path, target) in links {
        if let Some(bytes) = files.get(&target) {
            // Each link is a copy here, so that many small links to one large file are no small matter.
            total += bytes.len() as u64;
            if total > options.limits.total_bytes {
                return Err(Error::Limit { subject: model.subject, what: TOTAL, limit: options.limits.total_bytes });
            }
            let bytes = bytes.clone();
            files.insert(path, bytes);
        }
    }
    Ok(files)
}

enum Kind {
    Directory,
    File(u64),
    Link(String),
}

struct Node {
    kind: Kind,
    /// The layer that made it; whiteouts reach lower layers only.
    layer: usize,
}

enum Sink {
    Directory(PathBuf),
    Memory(BTreeMap<String, Vec<u8>>),
}

struct Model<'a> {
    nodes: BTreeMap<String, Node>,
    sink: Sink,
    options: &'a UnpackOptions,
    bytes: u64,
    read: u64,
    entries: u64,
    subject: String,
}

/// Links that lead to links; Linux follows no more either.
const MAX_LINKS: usize = 40;
/// Bytes of what an archive says about one entry: long names, extended attributes. They are held in memory.
const MAX_HEAD: u64 = 1 << 20;
const ENTRIES: &str = "number of entries";
const TOTAL: &str = "size of all files in bytes";
const OUTSIDE: &str = "leads out of the root";

impl<'a> Model<'a> {
    fn new(sink: Sink, options: &'a UnpackOptions) -> Self {
        Self { nodes: BTreeMap::new(), sink, options, bytes: 0, read: 0, entries: 0, subject: String::new() }
    }

    fn unpacked(&self) -> Unpacked {
        let files = self.nodes.values().filter(|node| matches!(node.kind, Kind::File(_))).count() as u64;
        Unpacked { files, bytes: self.bytes }
    }

    fn apply_all(&mut self, layers: &[Layer]) -> Result<(), Error> {
        // Labels of images say what to keep, and callers look there afterwards: such a path must not lead out either.
        if let Some(kept) = self.options.keep.iter().find(|kept| kept.split('/').any(|part| part == "..")) {
            let problem = "contains \"..\"";
            return Err(Error::UnsafePath { subject: "path in the image".to_owned(), path: kept.clone(), problem });
        }
        for (number, layer) in layers.iter().enumerate() {
            self.subject.clone_from(&layer.name);
            self.apply(number, layer)?;
        }
        // A link may have been harmless when it was made and lead elsewhere since.
        for path in self.nodes.keys() {
            match self.resolve(path, true) {
                Err(problem) if problem == OUTSIDE => return Err(self.unsafe_path(path, OUTSIDE)),
                _ => {}
            }
        }
        Ok(())
    }

    fn apply(&mut self, number: usize, layer: &Layer) -> Result<(), Error> {
        let file = fs::File::open(&layer.path).map_err(Error::io(&layer.path))?;
        let counted = Counted {
            inner: decompressed(file).map_err(|error| self.unreadable(&error))?,
            read: self.read,
            limit: self.options.limits.read_bytes,
            place: 0,
            reach: Rc::new(Cell::new(MAX_HEAD)),
        };
        let reach = counted.reach.clone();
        let mut archive = tar::Archive::new(counted);
        let entries = archive.entries().map_err(|error| self.unreadable(&error))?;
        for entry in entries {
            let mut entry = entry.map_err(|error| self.unreadable(&error))?;
            reach.set(end_of(&entry).saturating_add(MAX_HEAD));
            self.entries += 1;
            if self.entries > self.options.limits.entries {
                return Err(self.over(ENTRIES, self.options.limits.entries));
            }
            self.entry(number, &mut entry)?;
        }
        self.read = archive.into_inner().read;
        Ok(())
    }

    fn entry(&mut self, layer: usize, entry: &mut tar::Entry<'_, impl Read>) -> Result<(), Error> {
        let written = String::from_utf8(entry.path_bytes().into_owned())
            .map_err(|error| self.unsafe_path(&String::from_utf8_lossy(error.as_bytes()), "is not UTF-8"))?;
        let path = self.clean(&written)?;
        let Some(path) = path else { return Ok(()) };
        let (parent, name) = path.rsplit_once('/').map_or(("", path.as_str()), |(parent, name)| (parent, name));
        if name == ".wh..wh..opq" {
            let parent = self.real_parent(parent, &written)?;
            self.remove_below(&parent, layer);
            return Ok(());
        }
        if let Some(hidden) = name.strip_prefix(".wh.") {
            let hidden = join(&self.real_parent(parent, &written)?, hidden);
            self.remove(&hidden, Some(layer));
            return Ok(());
        }
        let kind = entry.header().entry_type();
        let place = join(&self.real_parent(parent, &written)?, name);
        if !self.wanted(&place) {
            return Ok(());
        }
        match kind {
            tar::EntryType::Directory => self.directory(&place, layer),
            tar::EntryType::Regular | tar::EntryType::Continuous | tar::EntryType::GNUSparse => {
                let size = entry.size();
                let executable = entry.header().mode().is_ok_and(|mode| mode & 0o111 != 0);
                self.file(&place, layer, size, executable, entry)
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

    fn link_target(&self, entry: &tar::Entry<'_, impl Read>, written: &str) -> Result<String, Error> {
        let bytes = entry.link_name_bytes().ok_or_else(|| self.unsafe_path(written, "is a link to nothing"))?;
        String::from_utf8(bytes.into_owned()).map_err(|_| self.unsafe_path(written, "is a link to a path that is not UTF-8"))
    }

    /// The path without `.`; nothing for the root itself. Absolute paths and `..` are refused, since no image needs them.
    fn clean(&self, written: &str) -> Result<Option<String>, Error> {
        if written.starts_with('/') {
            return Err(self.unsafe_path(written, "is absolute"));
        }
        if written.contains('\0') || written.len() > 4096 {
            return Err(self.unsafe_path(written, "is no usable path"));
        }
        let parts: Vec<_> = written.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        if parts.contains(&"..") {
            return Err(self.unsafe_path(written, "contains \"..\""));
        }
        Ok((!parts.is_empty()).then(|| parts.join("/")))
    }

    fn real_parent(&self, parent: &str, written: &str) -> Result<String, Error> {
        self.resolve(parent, true).map_err(|problem| self.unsafe_path(written, problem))
    }

    /// Where a path leads when the links of the model are followed; the last part may be absent.
    fn resolve(&self, path: &str, follow_last: bool) -> Result<String, &'static str> {
        let mut rest: Vec<String> = path.split('/').rev().filter(|part| !part.is_empty()).map(str::to_owned).collect();
        let mut place: Vec<String> = Vec::new();
        let mut links = 0;
        while let Some(part) = rest.pop() {
            match part.as_str() {
                "." | "" => continue,
                ".." => {
                    place.pop().ok_or(OUTSIDE)?;
                    continue;
                }
                _ => place.push(part),
            }
            if let Some(Node { kind: Kind::Link(target), .. }) = self.nodes.get(&place.join("/"))
                && (follow_last || !rest.is_empty())
            {
                links += 1;
                if links > MAX_LINKS {
                    return Err("goes through too many links");
                }
                place.pop();
                if target.starts_with('/') {
                    // An absolute link of an image means its own root.
                    place.clear();
                }
                rest.extend(target.split('/').rev().filter(|part| !part.is_empty()).map(str::to_owned));
            }
        }
        Ok(place.join("/"))
    }

    fn wanted(&self, place: &str) -> bool {
        let below = |path: &str, root: &str| path == root || path.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'));
        let keep = &self.options.keep;
        keep.is_empty() || keep.iter().any(|root| below(place, root.trim_matches('/')))
    }

    fn directory(&mut self, place: &str, layer: usize) -> Result<(), Error> {
        match self.nodes.get(place).map(|node| &node.kind) {
            Some(Kind::Directory) => return Ok(()),
            Some(_) => self.remove(place, None),
            None => {}
        }
        self.parents(place, layer)?;
        self.make_directory(place, layer)
    }

    fn make_directory(&mut self, place: &str, layer: usize) -> Result<(), Error> {
        if let Sink::Directory(root) = &self.sink {
            let path = root.join(place);
            fs::create_dir(&path)
                .or_else(|error| if error.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(error) })
                .map_err(Error::io(&path))?;
        }
        self.insert(place, Node { kind: Kind::Directory, layer })
    }

    /// Parents that an archive only implies count as entries too.
    fn insert(&mut self, place: &str, node: Node) -> Result<(), Error> {
        if self.nodes.len() as u64 >= self.options.limits.entries && !self.nodes.contains_key(place) {
            return Err(self.over(ENTRIES, self.options.limits.entries));
        }
        self.nodes.insert(place.to_owned(), node);
        Ok(())
    }

    fn parents(&mut self, place: &str, layer: usize) -> Result<(), Error> {
        let ends: Vec<usize> = place.match_indices('/').map(|(index, _)| index).collect();
        for end in ends {
            let parent = &place[..end];
            match self.nodes.get(parent).map(|node| &node.kind) {
                Some(Kind::Directory) => continue,
                Some(_) => self.remove(parent, None),
                None => {}
            }
            self.make_directory(parent, layer)?;
        }
        if let Sink::Directory(root) = &self.sink
            && !place.contains('/')
        {
            fs::create_dir_all(root).map_err(Error::io(root))?;
        }
        Ok(())
    }

    fn file(&mut self, place: &str, layer: usize, size: u64, executable: bool, content: &mut impl Read) -> Result<(), Error> {
        let limits = self.options.limits;
        if size > limits.file_bytes {
            return Err(self.over("size of a file in bytes", limits.file_bytes));
        }
        self.remove(place, None);
        if self.bytes + size > limits.total_bytes {
            return Err(self.over(TOTAL, limits.total_bytes));
        }
        self.parents(place, layer)?;
        let mut content = content.take(size);
        match &mut self.sink {
            Sink::Directory(root) => {
                let path = root.join(place);
                let mut options = fs::OpenOptions::new();
                options.write(true).create_new(true);
                #[cfg(unix)]
                std::os::unix::fs::OpenOptionsExt::mode(&mut options, if executable { 0o755 } else { 0o644 });
                #[cfg(not(unix))]
                let _ = executable;
                let mut file = options.open(&path).map_err(Error::io(&path))?;
                let copied = io::copy(&mut content, &mut file).map_err(|error| self.unreadable(&error))?;
                self.whole(place, copied, size)?;
            }
            Sink::Memory(files) => {
                let mut bytes = Vec::with_capacity(usize::try_from(size.min(1 << 20)).unwrap_or_default());
                let copied = content.read_to_end(&mut bytes);
                files.insert(place.to_owned(), bytes);
                let copied = copied.map_err(|error| self.unreadable(&error))? as u64;
                self.whole(place, copied, size)?;
            }
        }
        self.bytes += size;
        self.insert(place, Node { kind: Kind::File(size), layer })
    }

    fn whole(&self, place: &str, copied: u64, size: u64) -> Result<(), Error> {
        if copied == size { Ok(()) } else { Err(Error::content(&self.subject, format!("{place:?} ends after {copied} of {size} bytes"))) }
    }

    fn link(&mut self, place: &str, layer: usize, target: &str, written: &str) -> Result<(), Error> {
        self.remove(place, None);
        self.parents(place, layer)?;
        self.insert(place, Node { kind: Kind::Link(target.to_owned()), layer })?;
        let leads = self.resolve(place, true).map_err(|problem| self.unsafe_path(&format!("{written} -> {target}"), problem))?;
        if let Sink::Directory(root) = &self.sink {
            // Written relative, so that an absolute target means the image's root on this disk too.
            let up = "../".repeat(place.matches('/').count());
            let path = root.join(place);
            let relative = if target.starts_with('/') { format!("{up}{leads}") } else { target.to_owned() };
            let relative = if relative.is_empty() { ".".to_owned() } else { relative };
            #[cfg(unix)]
            std::os::unix::fs::symlink(&relative, &path).map_err(Error::io(&path))?;
            #[cfg(not(unix))]
            let _ = (relative, path);
        }
        Ok(())
    }

    /// A hard link becomes a file of its own, so that later layers change one of the two only.
    fn hard_link(&mut self, place: &str, layer: usize, target: &str, written: &str) -> Result<(), Error> {
        let source = self.resolve(target, false).map_err(|problem| self.unsafe_path(&format!("{written} -> {target}"), problem))?;
        let size = match self.nodes.get(&source).map(|node| &node.kind) {
            Some(Kind::File(size)) => *size,
            Some(Kind::Link(target)) => {
                let target = target.clone();
                return self.link(place, layer, &target, written);
            }
            _ => return Err(self.unsafe_path(&format!("{written} -> {target}"), "is a hard link to what is not unpacked")),
        };
        if source == place {
            return Ok(());
        }
        let bytes: Box<dyn Read> = match &self.sink {
            Sink::Directory(root) => {
                let path = root.join(&source);
                Box::new(fs::File::open(&path).map_err(Error::io(&path))?)
            }
            Sink::Memory(files) => Box::new(io::Cursor::new(files.get(&source).cloned().unwrap_or_default())),
        };
        let mut bytes = bytes;
        self.file(place, layer, size, false, &mut bytes)
    }

    /// Removes what a place holds: what lower layers put there when a layer is given, else everything.
    fn remove(&mut self, place: &str, below_layer: Option<usize>) {
        self.remove_below(place, below_layer.unwrap_or(usize::MAX));
        let older = self.nodes.get(place).is_some_and(|node| below_layer.is_none_or(|layer| node.layer < layer));
        if older && !self.has_children(place) {
            self.forget(place);
        }
    }

    fn remove_below(&mut self, place: &str, layer: usize) {
        let prefix = if place.is_empty() { String::new() } else { format!("{place}/") };
        let mut inner: Vec<String> = self
            .nodes
            .range(prefix.clone()..)
            .take_while(|(path, _)| path.starts_with(&prefix))
            .filter(|(_, node)| node.layer < layer)
            .map(|(path, _)| path.clone())
            .collect();
        // Deepest first, so that directories are empty when their turn comes.
        inner.reverse();
        for path in inner {
            if !self.has_children(&path) {
                self.forget(&path);
            }
        }
    }

    fn has_children(&self, place: &str) -> bool {
        let prefix = format!("{place}/");
        self.nodes.range(prefix.clone()..).next().is_some_and(|(path, _)| path.starts_with(&prefix))
    }

    fn forget(&mut self, place: &str) {
        let Some(node) = self.nodes.remove(place) else { return };
        if let Kind::File(size) = node.kind {
            self.bytes -= size;
        }
        match &mut self.sink {
            Sink::Directory(root) => {
                let path = root.join(place);
                let removed = if matches!(node.kind, Kind::Directory) { fs::remove_dir(&path) } else { fs::remove_file(&path) };
                if let Err(error) = removed {
                    // The place is written again or reported missing; the disk and the model differ only by this entry.
                    tracing::warn!(path = %path.display(), %error, "cannot remove an unpacked entry");
                }
            }
            Sink::Memory(files) => {
                files.remove(place);
            }
        }
    }

    fn unsafe_path(&self, path: &str, problem: &'static str) -> Error {
        Error::UnsafePath { subject: self.subject.clone(), path: path.to_owned(), problem }
    }

    fn over(&self, what: &'static str, limit: u64) -> Error {
        Error::Limit { subject: self.subject.clone(), what, limit }
    }

    fn unreadable(&self, error: &io::Error) -> Error {
        if error.get_ref().and_then(|inner| inner.downcast_ref::<TooMuch>()).is_some() {
            return self.over("size uncompressed in bytes", self.options.limits.read_bytes);
        }
        if error.get_ref().and_then(|inner| inner.downcast_ref::<LongHead>()).is_some() {
            return self.over("size of the head of an entry in bytes", MAX_HEAD);
        }
        Error::content(&self.subject, format!("the archive cannot be read: {error}"))
    }
}

fn join(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}/{name}") }
}

/// The archive inside a blob, by its first bytes: media types are not always right.
pub(crate) fn decompressed(file: fs::File) -> io::Result<Box<dyn Read>> {
    let mut reader = BufReader::with_capacity(128 << 10, file);
    let start = reader.fill_buf()?;
    Ok(if start.starts_with(&[0x1f, 0x8b]) {
        Box::new(flate2::bufread::MultiGzDecoder::new(reader))
    } else if start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let mut decoder = zstd::stream::read::Decoder::with_buffer(reader)?;
        // 128 MiB of window at most, so that a small blob cannot ask for gigabytes of memory.
        decoder.window_log_max(27)?;
        Box::new(decoder)
    } else {
        Box::new(reader)
    })
}

/// A reader that fails when it gave more than the limit.
struct Counted {
    inner: Box<dyn Read>,
    read: u64,
    limit: u64,
    /// Bytes of this layer so far.
    place: u64,
    /// How far the next head may reach.
    reach: Rc<Cell<u64>>,
}

#[derive(Debug, thiserror::Error)]
#[error("more than the limit")]
struct TooMuch;

#[derive(Debug, thiserror::Error)]
#[error("the head of an entry is longer than the limit")]
struct LongHead;

/// Where the content of an entry ends in its archive.
fn end_of(entry: &tar::Entry<'_, impl Read>) -> u64 {
    // A sparse file is larger than what the archive holds of it.
    let sparse = entry.header().entry_type().is_gnu_sparse();
    let size = if sparse { entry.header().entry_size().unwrap_or_default() } else { entry.size() };
    entry.raw_file_position().saturating_add(size)
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.read += count as u64;
        self.place += count as u64;
        if self.read > self.limit {
            return Err(io::Error::other(TooMuch));
        }
        if self.place > self.reach.get() {
            return Err(io::Error::other(LongHead));
        }
        Ok(count)
    }
}
