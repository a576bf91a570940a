//! The counts of a set's status.

use jiff::{SignedDuration, Timestamp};
use mainstay_objects::Labels;

use crate::machine::Machine;
use crate::node::Node;

/// The counts in a set's status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SetStatus {
    /// Machines.
    pub replicas: usize,
    /// Machines with all labels of the template.
    pub fully_labeled: usize,
    /// Machines whose node is ready.
    pub ready: usize,
    /// Machines whose node has been ready for long enough.
    pub available: usize,
}

/// Counts a set's machines. `node` finds a node by its name.
pub fn status<'a>(
    machines: &[Machine],
    template_labels: &Labels,
    min_ready_seconds: i32,
    now: Timestamp,
    node: impl Fn(&str) -> Option<&'a Node>,
) -> SetStatus {
    let mut status = SetStatus { replicas: machines.len(), ..SetStatus::default() };
    for machine in machines {
        status.fully_labeled += usize::from(template_labels.iter().all(|(key, value)| machine.labels.get(key) == Some(value)));
        let Some(node) = machine.node.as_deref().and_then(&node) else { continue };
        let Some(ready) = node.ready() else { continue };
        status.ready += 1;
        status.available += usize::from(is_available(ready.since, min_ready_seconds, now));
    }
    status
}

/// Returns whether a node that is ready since then counts as available.
fn is_available(since: Option<Timestamp>, min_ready_seconds: i32, now: Timestamp) -> bool {
    let wait = SignedDuration::from_secs(i64::from(min_ready_seconds));
    min_ready_seconds == 0 || since.is_some_and(|since| since.checked_add(wait).is_ok_and(|from| from < now))
}
