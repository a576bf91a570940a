//! Removal of fields that an applier leaves out, unless another manager owns them.

use serde_json::Value;

use super::Managed;
use crate::fieldset::{FieldSet, PathElement};
use crate::typed::Node;

/// Returns true if an applier that owned `last` still applies all of it: then nothing goes.
///
/// An item of which the applier has nothing but the item itself (all its keys are defaults) does not count, since it lives
/// only as long as something in it does.
pub(super) fn keeps(fields: &FieldSet, last: &FieldSet) -> bool {
    let mut now = fields.entries().iter();
    last.entries().iter().all(|before| {
        now.find(|entry| entry.element >= before.element).is_some_and(|entry| {
            let bare = matches!(entry.element, PathElement::Key(_)) && entry.below.is_empty();
            entry.element == before.element && (entry.member || !before.member) && !bare && keeps(&entry.below, &before.below)
        })
    })
}

/// Removes what the applier had applied last time, has not applied now, and no other manager owns. `None` if nothing goes.
pub(super) fn prune(merged: &Value, managed: &Managed, last: &FieldSet, node: Node<'_>) -> Option<Value> {
    let last = node.with_named_parents(last);
    let pruned = node.remove(merged, &last);
    // What others (or the new config) own comes back ...
    let everyone = managed.iter().fold(FieldSet::new(), |all, (_, owned)| all.union(&owned.fields));
    let all = node.with_named_parents(&node.field_set(merged));
    let kept = node.with_named_parents(&node.field_set(&pruned)).union(&node.with_named_parents(&everyone));
    let pruned = node.remove(merged, &all.difference(&kept));
    // ... and so does what the applier never owned.
    let left = node.with_named_parents(&node.field_set(&pruned));
    let gone = all.difference(&left).intersection(&last);
    (!gone.is_empty()).then(|| node.remove(merged, &gone))
}
