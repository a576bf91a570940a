//! Ownership through the `scale` subresource: the parent's replicas field is `.spec.replicas` of the Scale.

use super::{Managed, Manager, Operation, Owned};
use crate::fieldset::{FieldSet, Path, PathElement};

const SCALE_VERSION: &str = "autoscaling/v1";
const SUBRESOURCE: &str = "scale";

/// The owners of the Scale: those of the parent's replicas field.
pub fn to_scale(parent: &Managed, replicas: &[PathElement]) -> Managed {
    let mut out = Managed::default();
    for (manager, owned) in parent.iter().filter(|(_, owned)| owned.fields.contains(replicas)) {
        let fields: FieldSet = [Path::fields(["spec", "replicas"])].into_iter().collect();
        let manager = Manager::new(&manager.manager, manager.operation, SCALE_VERSION, &manager.subresource);
        out.0.insert(manager, Owned { api_version: SCALE_VERSION.into(), time: owned.time.clone(), fields });
    }
    out
}

/// The parent's owners after a write through its Scale, whose owners are now `scale`.
pub fn from_scale(parent: &Managed, scale: &Managed, replicas: &[PathElement], parent_version: &str) -> Managed {
    let mut out = parent.clone();
    let field: FieldSet = [Path(replicas.to_vec())].into_iter().collect();
    let spec_replicas = Path::fields(["spec", "replicas"]);
    // A manager that owned the field before and does not own it now has lost it.
    for (manager, owned) in &mut out.0 {
        let same = |other: &Manager| {
            other.manager == manager.manager && other.operation == manager.operation && other.subresource == manager.subresource
        };
        let keeps = scale.iter().any(|(other, theirs)| same(other) && theirs.fields.contains(&spec_replicas.0));
        if owned.fields.contains(replicas) && !keeps {
            owned.fields = owned.fields.difference(&field);
        }
    }
    for (manager, _) in scale.iter().filter(|(_, owned)| owned.fields.contains(&spec_replicas.0)) {
        let known = parent.iter().any(|(other, theirs)| {
            other.manager == manager.manager
                && other.operation == manager.operation
                && other.subresource == manager.subresource
                && theirs.fields.contains(replicas)
        });
        if !known {
            let version = if manager.operation == Operation::Apply { "" } else { parent_version };
            let manager = Manager::new(&manager.manager, manager.operation, version, SUBRESOURCE);
            // As in Kubernetes, who writes through the Scale has no time of its own.
            let new = || Owned { api_version: parent_version.into(), time: None, fields: FieldSet::new() };
            let entry = out.0.entry(manager).or_insert_with(new);
            entry.fields = entry.fields.union(&field);
        }
    }
    out.drop_empty();
    out
}
