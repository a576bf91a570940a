//! Layers into files.
//!
//! Layers come from untrusted sources, so nothing in them is believed. Paths that leave the root are refused. Links are resolved here in a
//! model of the tree and never by the operating system. Every byte counts against a budget before it is written. The tree on disk is a mirror
//! of the model, in which no parent directory is ever a link.
//!
//! ```text
//!   blob ── gzip / zstd / plain ── counted ── tar entries ── Tree (whiteouts, links) ── Sink: directory or memory
//!                                     └─────────── Budget (bytes out, entries, links, steps) ───────────┘
//! ```
//!
//! Budgets count what is done, not what is left: a file that is written a thousand times costs a thousand files, a hard link costs its
//! copy, a hole in a sparse file its zeros, and a path the links that it goes through. So the work of an archive grows with its size and
//! no faster, whatever it says.

mod budget;
mod entry;
mod reading;
mod sink;
mod tree;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) use budget::Budget;
pub(crate) use reading::{Bounded, decompressed, end_of, unreadable};

use crate::client::Image;
use crate::error::Error;
use crate::store::BlobStore;
use budget::{LINKS, TOTAL};
use sink::Sink;
use tree::{Kind, Tree};

/// Limits on the content of a layer stack, and on the work to unpack it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnpackLimits {
    /// Bytes of all files that are kept.
    pub total_bytes: u64,
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Entries of all layers, including those that are not kept.
    pub entries: u64,
    /// Symbolic and hard links of all layers, including those that are removed again.
    pub links: u64,
    /// Bytes of all layers uncompressed, including those that are not kept.
    pub read_bytes: u64,
    /// Bytes written, including files that are removed again, copies for hard links, and the holes of sparse files.
    pub written_bytes: u64,
    /// Bytes that may come out, uncompressed or written, whatever the size of the layers. Beyond them, [`UnpackLimits::ratio`] applies.
    pub free_bytes: u64,
    /// Bytes that come out for each byte of the layers.
    pub ratio: u64,
}

impl Default for UnpackLimits {
    fn default() -> Self {
        Self {
            total_bytes: 1 << 30,
            file_bytes: 512 << 20,
            entries: 500_000,
            links: 100_000,
            read_bytes: 8 << 30,
            written_bytes: 4 << 30,
            free_bytes: 256 << 20,
            ratio: 200,
        }
    }
}

/// Bytes of all files that are read into memory, whatever the other limits are.
const MEMORY: u64 = 256 << 20;

/// File modes of unpacked content; they decide which users can read it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Modes {
    /// This user alone: folders 0700, files 0600 or 0700.
    #[default]
    Private,
    /// The modes that the umask allows: content that a user asked for.
    Umask,
}

/// Options for unpacking: the paths to keep, the limits and the file modes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnpackOptions {
    /// Only files at or below these paths; everything when empty.
    pub keep: Vec<String>,
    /// Limits on the content and on the work.
    pub limits: UnpackLimits,
    /// File modes of what is written.
    pub modes: Modes,
}

/// One layer to apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// Name of the layer in errors.
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

/// Counts of unpacked files, bytes and steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unpacked {
    /// Regular files.
    pub files: u64,
    /// Bytes of those files.
    pub bytes: u64,
    /// Bytes written in all, including files that were removed again.
    pub written: u64,
    /// Parts of paths that were looked at; the measure of the work.
    pub steps: u64,
}

/// Applies the layers in order to an empty directory. After an error the directory holds a part and is to be removed.
pub fn unpack(layers: &[Layer], directory: &Path, options: &UnpackOptions) -> Result<Unpacked, Error> {
    let sink = Sink::directory(directory.to_owned(), options.modes)?;
    let mut unpacking = Unpacking::new(sink, options);
    unpacking.apply_all(layers)?;
    let files = unpacking.tree.files();
    let Budget { bytes, written, steps, .. } = &unpacking.budget;
    Ok(Unpacked { files, bytes: *bytes, written: *written, steps: steps.get() })
}

/// The content of layers in memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// Regular files by path; a link to a file counts as that file.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Paths of links that lead to no file that was kept.
    pub broken_links: Vec<String>,
    /// Paths of folders.
    pub folders: Vec<String>,
}

/// Applies the layers in order in memory and gives the regular files by path. A link to a file counts as that file.
pub fn read_files(layers: &[Layer], options: &UnpackOptions) -> Result<BTreeMap<String, Vec<u8>>, Error> {
    read_contents(layers, options).map(|contents| contents.files)
}

/// Applies the layers in order in memory and gives all that is kept.
pub fn read_contents(layers: &[Layer], options: &UnpackOptions) -> Result<Contents, Error> {
    let limits = UnpackLimits { total_bytes: options.limits.total_bytes.min(MEMORY), ..options.limits };
    let options = UnpackOptions { limits, ..options.clone() };
    let mut unpacking = Unpacking::new(Sink::memory(), &options);
    unpacking.apply_all(layers)?;
    let Unpacking { tree, sink, subject, budget, .. } = unpacking;
    let mut contents = Contents { folders: tree.folders(), ..Contents::default() };
    let mut total = budget.bytes;
    for link in tree.links() {
        let found = tree.resolve_node(link, &budget.steps).ok().and_then(|found| found.there());
        let Some(target) = found.filter(|target| matches!(tree.node(*target).kind, Kind::File { .. })) else {
            contents.broken_links.push(tree.path(link));
            continue;
        };
        let bytes = sink.content(target);
        // Each link becomes a copy here, so many small links to one large file count in full.
        total += bytes.len() as u64;
        if total > limits.total_bytes {
            return Err(Error::Limit { subject, what: TOTAL, limit: limits.total_bytes });
        }
        contents.files.insert(tree.path(link), bytes.to_vec());
    }
    for (node, bytes) in sink.into_files() {
        contents.files.insert(tree.path(node), bytes);
    }
    Ok(contents)
}

/// Layers on their way into a sink.
struct Unpacking<'a> {
    tree: Tree,
    sink: Sink,
    budget: Budget,
    options: &'a UnpackOptions,
    /// The layer that is being applied, for errors.
    subject: String,
}

/// Bytes of what an archive says about one entry: long names, extended attributes. They are held in memory.
pub(crate) const MAX_HEAD: u64 = 1 << 20;

impl<'a> Unpacking<'a> {
    fn new(sink: Sink, options: &'a UnpackOptions) -> Self {
        let budget = Budget::new(options.limits);
        Self { tree: Tree::new(), sink, budget, options, subject: String::new() }
    }

    fn apply_all(&mut self, layers: &[Layer]) -> Result<(), Error> {
        // Labels of images say which paths to keep, and callers read there afterwards: such a path must not lead out either.
        if let Some(kept) = self.options.keep.iter().find(|kept| kept.split('/').any(|part| part == "..")) {
            let problem = "contains \"..\"";
            return Err(Error::unsafe_path("path in the image", kept, problem));
        }
        for (number, layer) in layers.iter().enumerate() {
            self.subject.clone_from(&layer.name);
            self.apply(number, layer)?;
        }
        // A link may have been harmless when it was made and lead elsewhere since then.
        for link in self.tree.links() {
            match self.tree.resolve_node(link, &self.budget.steps) {
                Err(problem) if problem == tree::OUTSIDE => return Err(self.unsafe_path(&self.tree.path(link), problem)),
                _ => self.worked()?,
            }
        }
        Ok(())
    }

    fn apply(&mut self, number: usize, layer: &Layer) -> Result<(), Error> {
        let file = fs::File::open(&layer.path).map_err(Error::io(&layer.path))?;
        let bounded = Bounded::new(file, &self.budget, MAX_HEAD).map_err(|error| self.unreadable(&error))?;
        let reach = bounded.reach();
        let mut archive = tar::Archive::new(bounded);
        let entries = archive.entries().map_err(|error| self.unreadable(&error))?;
        for entry in entries {
            let mut entry = entry.map_err(|error| self.unreadable(&error))?;
            reach.set(end_of(&entry).saturating_add(MAX_HEAD));
            self.spend(Budget::entry)?;
            self.entry(number, &mut entry)?;
            self.worked()?;
        }
        Ok(())
    }

    /// Refuses archives whose paths cost more work than their number of entries allows.
    fn worked(&self) -> Result<(), Error> {
        self.budget.worked().map_err(|over| over.of(&self.subject))
    }

    fn spend(&mut self, spend: impl FnOnce(&mut Budget) -> Result<(), budget::Over>) -> Result<(), Error> {
        spend(&mut self.budget).map_err(|over| over.of(&self.subject))
    }

    fn spend_link(&mut self) -> Result<(), Error> {
        self.budget.links += 1;
        let limit = self.budget.limits.links;
        if self.budget.links <= limit { Ok(()) } else { Err(Error::Limit { subject: self.subject.clone(), what: LINKS, limit }) }
    }

    fn unsafe_path(&self, path: &str, problem: &'static str) -> Error {
        Error::unsafe_path(&self.subject, path, problem)
    }

    fn unreadable(&self, error: &std::io::Error) -> Error {
        unreadable(&self.subject, error)
    }
}
