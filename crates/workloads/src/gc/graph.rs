//! The graph of owners and dependents: a plain index fed with objects' metadata, and the decisions from it.

use std::collections::{BTreeSet, HashMap, HashSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

/// The finalizer of foreground deletion.
pub const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of orphaning deletion.
pub const ORPHAN: &str = "orphan";

/// A reference to an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of OwnerReference")]
pub struct Owner {
    pub api_version: Box<str>,
    pub kind: Box<str>,
    pub name: Box<str>,
    pub uid: Box<str>,
    pub block: bool,
}

impl From<&OwnerReference> for Owner {
    fn from(owner: &OwnerReference) -> Self {
        Self {
            api_version: owner.api_version.as_str().into(),
            kind: owner.kind.as_str().into(),
            name: owner.name.as_str().into(),
            uid: owner.uid.as_str().into(),
            block: owner.block_owner_deletion == Some(true),
        }
    }
}

/// The part of an object that garbage collection needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The number of its kind.
    pub kind: u32,
    /// Its namespace; empty for none.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// Its owners.
    pub owners: Box<[Owner]>,
    /// True if it is being deleted.
    pub deleting: bool,
    /// True if it waits for its dependents to be deleted.
    pub foreground: bool,
    /// True if its dependents are to be orphaned.
    pub orphan: bool,
}

impl Node {
    /// Reads an object's metadata.
    pub fn of(kind: u32, meta: &ObjectMeta) -> Self {
        let has = |finalizer: &str| meta.finalizers.iter().flatten().any(|own| own == finalizer);
        Self {
            kind,
            namespace: meta.namespace.as_deref().unwrap_or_default().into(),
            name: meta.name.as_deref().unwrap_or_default().into(),
            owners: meta.owner_references.iter().flatten().map(Owner::from).collect(),
            deleting: meta.deletion_timestamp.is_some(),
            foreground: has(FOREGROUND),
            orphan: has(ORPHAN),
        }
    }

    fn waits(&self) -> bool {
        self.deleting && self.foreground
    }
}

/// All objects by uid, and the dependents of each.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: HashMap<Box<str>, Node>,
    dependents: HashMap<Box<str>, BTreeSet<Box<str>>>,
}

/// The decision about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing is done.
    Keep,
    /// These owners are unknown here: the server must be asked if they exist.
    Ask(Vec<Owner>),
    /// The references to these owners (uids) are removed: they are gone or about to go, and another owner remains.
    Unlink(Vec<Box<str>>),
    /// No owner is left.
    Delete {
        /// The propagation: it waits for its own dependents first.
        propagation: &'static str,
        /// True if its dependents wait for themselves in a circle, and must not block it.
        unblock: bool,
    },
    /// Its dependents are orphaned, then the finalizer is removed.
    Orphan(Vec<Box<str>>),
    /// These dependents block it, and are deleted first.
    DeleteFirst(Vec<Box<str>>),
    /// No dependent blocks it any more: the finalizer is removed.
    Release,
}

impl Graph {
    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns true if there are no objects.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the object of a uid.
    pub fn get(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// Returns the dependents of a uid, even if it does not exist.
    pub fn dependents(&self, uid: &str) -> impl Iterator<Item = &Box<str>> {
        self.dependents.get(uid).into_iter().flatten()
    }

    /// Adds or changes an object, and returns the uids to check.
    pub fn apply(&mut self, uid: &str, node: Node) -> Vec<Box<str>> {
        let uid: Box<str> = uid.into();
        let mut look = Vec::new();
        let before = self.nodes.get(&uid).cloned();
        if before.as_ref() == Some(&node) {
            return look;
        }
        for owner in before.iter().flat_map(|before| before.owners.iter()) {
            self.unlink(&owner.uid, &uid);
            // An owner that waits may have one blocking dependent less.
            if self.nodes.get(&owner.uid).is_some_and(Node::waits) {
                look.push(owner.uid.clone());
            }
        }
        for owner in &node.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(uid.clone());
        }
        if !node.owners.is_empty() || (node.deleting && (node.foreground || node.orphan)) {
            look.push(uid.clone());
        }
        // Dependents of an owner that begins to wait may have to be deleted.
        if node.waits() && !before.is_some_and(|before| before.waits()) {
            look.extend(self.dependents(&uid).cloned());
        }
        self.nodes.insert(uid, node);
        look
    }

    /// Removes an object, and returns the uids to check.
    pub fn remove(&mut self, uid: &str) -> Vec<Box<str>> {
        let Some(node) = self.nodes.remove(uid) else { return Vec::new() };
        let mut look: Vec<Box<str>> = self.dependents(uid).cloned().collect();
        for owner in &node.owners {
            self.unlink(&owner.uid, uid);
            if self.nodes.get(&owner.uid).is_some_and(Node::waits) {
                look.push(owner.uid.clone());
            }
        }
        look
    }

    /// Returns the uids of a kind.
    pub fn of_kind(&self, kind: u32) -> HashSet<Box<str>> {
        self.nodes.iter().filter(|(_, node)| node.kind == kind).map(|(uid, _)| uid.clone()).collect()
    }

    fn unlink(&mut self, owner: &str, dependent: &str) {
        if let Some(dependents) = self.dependents.get_mut(owner) {
            dependents.remove(dependent);
            if dependents.is_empty() {
                self.dependents.remove(owner);
            }
        }
    }

    /// Returns the owners of an object in other namespaces, which therefore do not count.
    pub fn foreign(&self, uid: &str) -> Vec<Owner> {
        let Some(node) = self.nodes.get(uid) else { return Vec::new() };
        let elsewhere = |owner: &&Owner| {
            self.nodes.get(&owner.uid).is_some_and(|known| !known.namespace.is_empty() && known.namespace != node.namespace)
        };
        node.owners.iter().filter(elsewhere).cloned().collect()
    }

    /// Decides about an object. `gone` are the uids that the server was asked about and does not have (under this name); `there` are
    /// those that it has although they are unknown here.
    pub fn decide(&self, uid: &str, gone: &HashSet<Box<str>>, there: &HashSet<Box<str>>) -> Decision {
        let Some(node) = self.nodes.get(uid) else { return Decision::Keep };
        if node.deleting {
            if node.orphan {
                return Decision::Orphan(self.dependents(uid).cloned().collect());
            }
            if node.foreground {
                let blocks = |dependent: &str| {
                    let owners = self.nodes.get(dependent).map(|dependent| &dependent.owners);
                    owners.is_some_and(|owners| owners.iter().any(|owner| *owner.uid == *uid && owner.block))
                };
                let first: Vec<Box<str>> = self.dependents(uid).filter(|dependent| blocks(dependent)).cloned().collect();
                return if first.is_empty() { Decision::Release } else { Decision::DeleteFirst(first) };
            }
            return Decision::Keep;
        }
        if node.owners.is_empty() {
            return Decision::Keep;
        }
        let (mut solid, mut absent, mut waiting, mut unknown) = (0, Vec::new(), Vec::new(), Vec::new());
        for owner in &node.owners {
            match self.nodes.get(&owner.uid) {
                Some(known) if !known.namespace.is_empty() && known.namespace != node.namespace => absent.push(owner.uid.clone()),
                Some(known) if known.waits() => waiting.push(owner.uid.clone()),
                Some(_) => solid += 1,
                None if gone.contains(&owner.uid) => absent.push(owner.uid.clone()),
                None if there.contains(&owner.uid) => solid += 1,
                None => unknown.push(owner.clone()),
            }
        }
        if !unknown.is_empty() {
            return Decision::Ask(unknown);
        }
        if solid > 0 {
            absent.append(&mut waiting);
            return if absent.is_empty() { Decision::Keep } else { Decision::Unlink(absent) };
        }
        if !waiting.is_empty() && self.dependents.contains_key(uid) {
            let unblock = self.dependents(uid).any(|dependent| self.nodes.get(dependent).is_some_and(Node::waits));
            return Decision::Delete { propagation: "Foreground", unblock };
        }
        let propagation = match (node.orphan, node.foreground) {
            (true, _) => "Orphan",
            (_, true) => "Foreground",
            _ => "Background",
        };
        Decision::Delete { propagation, unblock: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(uid: &str, block: bool) -> Owner {
        Owner { api_version: "v1".into(), kind: "ConfigMap".into(), name: uid.into(), uid: uid.into(), block }
    }

    fn node(name: &str, owners: &[Owner]) -> Node {
        Node { kind: 0, namespace: "n".into(), name: name.into(), owners: owners.into(), deleting: false, foreground: false, orphan: false }
    }

    fn graph(nodes: &[(&str, Node)]) -> Graph {
        let mut graph = Graph::default();
        for (uid, node) in nodes {
            graph.apply(uid, node.clone());
        }
        graph
    }

    fn uids(list: &[&str]) -> HashSet<Box<str>> {
        list.iter().map(|uid| Box::from(*uid)).collect()
    }

    /// KAPI-WL-01: background, several owners, unknown owners.
    #[test]
    fn dependents_go_when_no_owner_remains() {
        let two = node("d", &[owner("a", false), owner("b", false)]);
        let mut graph = graph(&[("a", node("a", &[])), ("b", node("b", &[])), ("d", two)]);
        let none = HashSet::new();
        assert_eq!(graph.decide("d", &none, &none), Decision::Keep);
        assert_eq!(graph.remove("a"), [Box::from("d")]);
        assert_eq!(graph.decide("d", &none, &none), Decision::Ask(vec![owner("a", false)]));
        assert_eq!(graph.decide("d", &none, &uids(&["a"])), Decision::Keep);
        assert_eq!(graph.decide("d", &uids(&["a"]), &none), Decision::Unlink(vec!["a".into()]));
        graph.remove("b");
        let delete = Decision::Delete { propagation: "Background", unblock: false };
        assert_eq!(graph.decide("d", &uids(&["a", "b"]), &none), delete);
    }

    /// KAPI-WL-01: an owner of another namespace is none.
    #[test]
    fn owners_live_in_the_same_namespace() {
        let mut elsewhere = node("a", &[]);
        elsewhere.namespace = "other".into();
        let graph = graph(&[("a", elsewhere), ("d", node("d", &[owner("a", false)]))]);
        let delete = Decision::Delete { propagation: "Background", unblock: false };
        assert_eq!(graph.decide("d", &HashSet::new(), &HashSet::new()), delete);
        assert_eq!((graph.foreign("d"), graph.foreign("a")), (vec![owner("a", false)], Vec::new()));
    }

    /// KAPI-WL-01: foreground deletion waits for dependents that block, and for no others.
    #[test]
    fn foreground_waits_for_what_blocks() {
        let none = HashSet::new();
        let mut waits = node("a", &[]);
        (waits.deleting, waits.foreground) = (true, true);
        let mut graph = graph(&[("blocks", node("b", &[owner("a", true)])), ("free", node("f", &[owner("a", false)])), ("a", waits)]);
        assert_eq!(graph.decide("a", &none, &none), Decision::DeleteFirst(vec!["blocks".into()]));
        let delete = Decision::Delete { propagation: "Background", unblock: false };
        assert_eq!(graph.decide("blocks", &none, &none), delete);
        assert_eq!(graph.decide("free", &none, &none), delete);
        graph.apply("deep", node("deep", &[owner("blocks", true)]));
        assert_eq!(graph.decide("blocks", &none, &none), Decision::Delete { propagation: "Foreground", unblock: false });
        graph.remove("deep");
        assert_eq!(graph.remove("blocks"), [Box::from("a")]);
        assert_eq!(graph.decide("a", &none, &none), Decision::Release);
    }

    /// KAPI-WL-01: orphaning lets dependents go before the owner does.
    #[test]
    fn orphans_are_let_go() {
        let none = HashSet::new();
        let mut orphans = node("a", &[]);
        (orphans.deleting, orphans.orphan) = (true, true);
        let mut graph = graph(&[("d", node("d", &[owner("a", true)])), ("a", orphans)]);
        assert_eq!(graph.decide("a", &none, &none), Decision::Orphan(vec!["d".into()]));
        graph.apply("d", node("d", &[]));
        assert_eq!(graph.decide("a", &none, &none), Decision::Orphan(vec![]));
        assert_eq!(graph.decide("d", &none, &none), Decision::Keep);
    }
}
