//! The state of the cluster, as far as a plan asked for it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use mainstay_diagnostics::SharedError;
use mainstay_objects::ObjectRef;
use serde_json::Value;

/// Maximum number of custom resources of one kind that are read for a verdict.
pub const INSTANCES_READ: usize = 20_000;

/// A fact about the cluster that a decision needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fact {
    /// A live object.
    Live(ObjectRef),
    /// All objects of a kind; the name is empty.
    Instances(ObjectRef),
}

/// A live object, as the acting identity sees it.
#[derive(Clone, Debug, PartialEq)]
pub enum Live {
    /// It does not exist.
    Absent,
    /// It exists.
    Present(Arc<Value>),
    /// The server serves no such kind.
    NotServed,
    /// It cannot be read, for this reason.
    Unreadable(SharedError),
}

/// All objects of a kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Instances {
    /// The objects.
    Known(Vec<Value>),
    /// They cannot be read, for this reason.
    Unreadable(SharedError),
}

/// Live objects that were all asked for.
#[derive(Clone, Copy)]
pub struct LiveObjects<'a> {
    known: &'a HashMap<ObjectRef, Live>,
}

impl<'a> LiveObjects<'a> {
    /// Returns the live objects of these targets.
    ///
    /// # Errors
    /// The targets that were not looked up yet.
    pub fn of(known: &'a HashMap<ObjectRef, Live>, targets: impl IntoIterator<Item = ObjectRef>) -> Result<Self, Vec<Fact>> {
        let missing: BTreeSet<ObjectRef> = targets.into_iter().filter(|target| !known.contains_key(target)).collect();
        if missing.is_empty() { Ok(Self { known }) } else { Err(missing.into_iter().map(Fact::Live).collect()) }
    }

    /// Returns one of the live objects.
    pub fn get(&self, target: &ObjectRef) -> &'a Live {
        self.known.get(target).unwrap_or(&Live::Absent)
    }
}
