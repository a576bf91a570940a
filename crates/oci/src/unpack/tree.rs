//! The model of the tree that layers make: directories, files and links, and the resolution of paths in it.

use std::cell::Cell;
use std::collections::BTreeMap;

/// Links that may lead to further links; Linux has the same limit.
const MAX_LINKS: usize = 40;
/// Bytes of a path, as written or as it is in the tree; systems allow 4096, including the place of the root.
pub(super) const MAX_PATH: usize = 3072;
/// Bytes of one part of a path, and of a link's target.
pub(super) const MAX_NAME: usize = 255;
pub(super) const MAX_TARGET: usize = 4096;
/// Depth of nested folders.
pub(super) const MAX_DEPTH: usize = 256;

pub(super) const OUTSIDE: &str = "leads out of the root";
const TOO_MANY_LINKS: &str = "goes through too many links";
pub(super) const TOO_DEEP: &str = "is too long or too deep";

/// A node's place in the arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Id(u32);

pub(super) const ROOT: Id = Id(0);

#[derive(Debug)]
pub(super) enum Kind {
    Directory(BTreeMap<Box<str>, Id>),
    File {
        size: u64,
        executable: bool,
    },
    Link(Box<str>),
    /// A free place in the arena.
    Gone,
}

#[derive(Debug)]
pub(super) struct Node {
    parent: Id,
    name: Box<str>,
    /// Parts and bytes of its path.
    depth: usize,
    length: usize,
    pub(super) kind: Kind,
    /// The layer that made it; whiteouts affect lower layers only.
    pub(super) layer: usize,
    /// The layer that last removed all content of lower layers from this directory.
    cleared: Option<usize>,
}

/// The target of a path: a node, or a place below one at which something may be made.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) node: Id,
    pub(super) absent: Vec<String>,
}

impl Found {
    /// Returns the node, if the path leads to one.
    pub(super) fn there(&self) -> Option<Id> {
        self.absent.is_empty().then_some(self.node)
    }
}

pub(super) struct Tree {
    nodes: Vec<Node>,
    free: Vec<Id>,
}

impl Tree {
    pub(super) fn new() -> Self {
        let kind = Kind::Directory(BTreeMap::new());
        let root = Node { parent: ROOT, name: Box::default(), depth: 0, length: 0, kind, layer: 0, cleared: None };
        Self { nodes: vec![root], free: Vec::new() }
    }

    pub(super) fn node(&self, id: Id) -> &Node {
        &self.nodes[id.0 as usize]
    }

    fn node_mut(&mut self, id: Id) -> &mut Node {
        &mut self.nodes[id.0 as usize]
    }

    /// Number of nodes below the root.
    pub(super) fn len(&self) -> u64 {
        (self.nodes.len() - 1 - self.free.len()) as u64
    }

    /// Number of regular files.
    pub(super) fn files(&self) -> u64 {
        self.nodes.iter().filter(|node| matches!(node.kind, Kind::File { .. })).count() as u64
    }

    /// Returns the paths of all folders below the root.
    pub(super) fn folders(&self) -> Vec<String> {
        let folders = self.nodes.iter().enumerate().skip(1).filter(|(_, node)| matches!(node.kind, Kind::Directory(_)));
        folders.map(|(index, _)| self.path(Id(index as u32))).collect()
    }

    /// Returns all links.
    pub(super) fn links(&self) -> Vec<Id> {
        let links = self.nodes.iter().enumerate().filter(|(_, node)| matches!(node.kind, Kind::Link(_)));
        links.map(|(index, _)| Id(index as u32)).collect()
    }

    /// The node's path from the root, without a slash in front.
    pub(super) fn path(&self, id: Id) -> String {
        let mut parts = Vec::new();
        let mut at = id;
        while at != ROOT {
            parts.push(&*self.node(at).name);
            at = self.node(at).parent;
        }
        parts.reverse();
        parts.join("/")
    }

    /// The directory that a node is in, and its name there.
    pub(super) fn place(&self, id: Id) -> (Id, String) {
        let node = self.node(id);
        (node.parent, node.name.to_string())
    }

    pub(super) fn depth(&self, id: Id) -> usize {
        self.node(id).depth
    }

    pub(super) fn child(&self, directory: Id, name: &str) -> Option<Id> {
        match &self.node(directory).kind {
            Kind::Directory(children) => children.get(name).copied(),
            _ => None,
        }
    }

    /// Resolves a path from the root and follows all links, including the last one.
    pub(super) fn resolve(&self, path: &str, steps: &Cell<u64>) -> Result<Found, &'static str> {
        self.walk(ROOT, path, Last::Followed, steps)
    }

    /// Resolves a path like `resolve`, but does not follow the last part if it is a link.
    pub(super) fn resolve_place(&self, path: &str, steps: &Cell<u64>) -> Result<Found, &'static str> {
        self.walk(ROOT, path, Last::Kept, steps)
    }

    /// Resolves a link.
    pub(super) fn resolve_node(&self, link: Id, steps: &Cell<u64>) -> Result<Found, &'static str> {
        let node = self.node(link);
        self.walk(node.parent, &node.name, Last::Followed, steps)
    }

    fn walk(&self, start: Id, path: &str, last: Last, steps: &Cell<u64>) -> Result<Found, &'static str> {
        let (mut at, mut absent): (Id, Vec<String>) = (start, Vec::new());
        // Parts that are still to be walked, the innermost link's target last.
        let mut rest: Vec<&str> = vec![path];
        let mut links = 0;
        spend(steps, path);
        while let Some(part) = next(&mut rest) {
            steps.set(steps.get() + 1);
            match part {
                "." => continue,
                ".." => {
                    if absent.pop().is_none() {
                        if at == ROOT {
                            return Err(OUTSIDE);
                        }
                        at = self.node(at).parent;
                    }
                    continue;
                }
                _ => {}
            }
            let child = if absent.is_empty() { self.child(at, part) } else { None };
            let Some(child) = child else {
                if self.depth(at) + absent.len() >= MAX_DEPTH {
                    return Err(TOO_DEEP);
                }
                absent.push(part.to_owned());
                continue;
            };
            match &self.node(child).kind {
                Kind::Link(target) if last == Last::Followed || rest.iter().any(|rest| !rest.trim_start_matches('/').is_empty()) => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(TOO_MANY_LINKS);
                    }
                    if target.starts_with('/') {
                        // An absolute link of an image means its own root.
                        at = ROOT;
                    }
                    spend(steps, target);
                    rest.push(target);
                }
                _ => at = child,
            }
        }
        Ok(Found { node: at, absent })
    }

    /// Makes a node in a directory that has none of that name; `None` if its path would be too long.
    pub(super) fn insert(&mut self, directory: Id, name: &str, kind: Kind, layer: usize) -> Option<Id> {
        let parent = self.node(directory);
        let (depth, length) = (parent.depth + 1, parent.length + name.len() + 1);
        if depth > MAX_DEPTH || length > MAX_PATH {
            return None;
        }
        let node = Node { parent: directory, name: name.into(), depth, length, kind, layer, cleared: None };
        let id = if let Some(id) = self.free.pop() {
            *self.node_mut(id) = node;
            id
        } else {
            self.nodes.push(node);
            Id((self.nodes.len() - 1) as u32)
        };
        if let Kind::Directory(children) = &mut self.node_mut(directory).kind {
            children.insert(name.into(), id);
        }
        Some(id)
    }

    /// Removes a node and everything below it. Returns the removed nodes, each after the nodes below it. Their former places are known until the
    /// next insertion: their paths together can be much longer than the archive that named them.
    pub(super) fn remove(&mut self, id: Id) -> Vec<Removed> {
        let mut removed = Vec::new();
        self.remove_into(id, &mut removed);
        removed
    }

    fn remove_into(&mut self, id: Id, removed: &mut Vec<Removed>) {
        let kind = std::mem::replace(&mut self.node_mut(id).kind, Kind::Gone);
        if let Kind::Directory(children) = &kind {
            for child in children.values() {
                self.remove_into(*child, removed);
            }
        }
        let Node { parent, name, .. } = self.node(id);
        let (parent, name) = (*parent, name.clone());
        if let Kind::Directory(children) = &mut self.node_mut(parent).kind {
            children.remove(&name);
        }
        self.free.push(id);
        removed.push(Removed { id, kind });
    }

    /// Removes the content of lower layers below a directory; folders stay if they hold content of this layer.
    pub(super) fn clear(&mut self, directory: Id, layer: usize, steps: &Cell<u64>) -> Vec<Removed> {
        let mut removed = Vec::new();
        self.clear_into(directory, layer, steps, &mut removed);
        removed
    }

    fn clear_into(&mut self, directory: Id, layer: usize, steps: &Cell<u64>, removed: &mut Vec<Removed>) {
        // From here on everything that is made is of this layer, so a second pass would find nothing.
        if self.node(directory).cleared == Some(layer) {
            return;
        }
        let children: Vec<Id> = match &self.node(directory).kind {
            Kind::Directory(children) => children.values().copied().collect(),
            _ => return,
        };
        self.node_mut(directory).cleared = Some(layer);
        for child in children {
            steps.set(steps.get() + 1);
            self.clear_into(child, layer, steps, removed);
            self.remove_older(child, layer, removed);
        }
    }

    /// Removes a node if a lower layer made it and nothing is below it.
    pub(super) fn remove_older(&mut self, id: Id, layer: usize, removed: &mut Vec<Removed>) {
        let node = self.node(id);
        let bare = match &node.kind {
            Kind::Directory(children) => children.is_empty(),
            _ => true,
        };
        if bare && node.layer < layer {
            self.remove_into(id, removed);
        }
    }
}

/// A removed node.
pub(super) struct Removed {
    pub(super) id: Id,
    pub(super) kind: Kind,
}

/// Decides if a link at the end of a path is followed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Followed,
    Kept,
}

/// Counts steps for a text; long texts are work, too.
fn spend(steps: &Cell<u64>, text: &str) {
    steps.set(steps.get() + text.len() as u64 / 64);
}

/// Takes the next part of a path that is still to be walked.
fn next<'a>(rest: &mut Vec<&'a str>) -> Option<&'a str> {
    while let Some(top) = rest.last_mut() {
        let text = top.trim_start_matches('/');
        if text.is_empty() {
            rest.pop();
            continue;
        }
        let (part, after) = text.split_once('/').unwrap_or((text, ""));
        *top = after;
        return Some(part);
    }
    None
}
