//! Sets that are alike are kept alike in size (COP-CAS-03).

use crate::group::Group;
use crate::limits::Ledger;
use crate::reason::Resize;

/// Gives new nodes to the smallest set each time, of equal ones to that which was smaller, within the bounds of each and the limits of the cluster. Fewer are given than asked for when
/// nothing allows more.
pub fn distribute(groups: &[&Group], nodes: usize, ledger: &mut Ledger<'_>) -> Vec<Resize> {
    let mut sizes: Vec<(usize, &Group)> = groups.iter().map(|group| (group.replicas, *group)).collect();
    for _ in 0..nodes {
        let smallest =
            sizes.iter_mut().filter(|(size, group)| *size < group.max).min_by_key(|(size, group)| (*size, group.replicas, &group.id));
        let Some((size, group)) = smallest else { break };
        if !ledger.take(group) {
            break;
        }
        *size += 1;
    }
    let grown = sizes.into_iter().filter(|(size, group)| *size > group.replicas);
    grown.map(|(to, group)| Resize { group: group.id.clone(), from: group.replicas, to, max: group.max }).collect()
}
