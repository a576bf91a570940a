//! Differences between revisions.

use mainstay_objects::ObjectRef;
use serde_json::Value;

use super::Record;
use crate::object;

/// The differences between a revision and the previous one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Objects that it adds.
    pub added: Vec<ObjectRef>,
    /// Objects whose content differs.
    pub changed: Vec<ObjectRef>,
    /// Objects that it no longer has.
    pub removed: Vec<ObjectRef>,
}

impl Record {
    /// Compares the record with an earlier one; without one, everything is added.
    pub fn changes(&self, earlier: Option<&Self>) -> Changes {
        let before: Vec<(ObjectRef, &Value)> =
            earlier.iter().flat_map(|record| &record.objects).map(|object| (object::place(object), object)).collect();
        let mut changes = Changes::default();
        for object in &self.objects {
            let target = object::place(object);
            match before.iter().find(|(other, _)| other.same(&target)) {
                None => changes.added.push(target),
                Some((_, other)) if *other != object => changes.changed.push(target),
                Some(_) => {}
            }
        }
        let now: Vec<ObjectRef> = self.objects.iter().map(object::place).collect();
        changes.removed =
            before.into_iter().map(|(target, _)| target).filter(|target| !now.iter().any(|other| other.same(target))).collect();
        changes
    }
}
