//! The steps of a control plane, carried out.

use mainstay_machine_core::control_plane::health::Degradation;
use mainstay_machine_core::control_plane::object::{API_VERSION, ControlPlane, KIND, NAME};
use mainstay_machine_core::control_plane::plan::{Step, plan};
use mainstay_machine_core::event::EventKind;
use mainstay_objects::{Expect, ObjectRef, Patch, Propagation, meta};
use mainstay_runtime::{Key, Outcome};
use serde_json::{Value, json};

use super::{Controller, Looked};
use crate::Error;
use crate::kinds::MACHINE;

/// Attempts for a name that no machine has.
const NAMES: usize = 5;

/// The relation of a machine to the control plane.
#[derive(Debug, PartialEq, Eq)]
enum Ownership {
    /// It is controlled by this object.
    Ours,
    /// Nothing controls it, or an earlier object of the same name, of which the garbage collector would think that it is gone.
    Free,
    /// Another owner controls it.
    Others,
}

fn ownership(machine: &Value, uid: &str) -> Ownership {
    let owners = machine.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    match owners.into_iter().flatten().find(|owner| owner["controller"] == true) {
        None => Ownership::Free,
        Some(owner) if owner["uid"] == uid => Ownership::Ours,
        Some(owner) => {
            let group = |version: &str| version.split_once('/').map_or("", |(group, _)| group).to_owned();
            let is_same = owner["apiVersion"].as_str().is_some_and(|version| group(version) == group(API_VERSION));
            if is_same && owner["kind"] == KIND && owner["name"] == NAME { Ownership::Free } else { Ownership::Others }
        }
    }
}

impl Controller {
    /// Adopts the machines, then makes and deletes what is planned.
    pub(super) async fn act(&self, live: &Value, looked: &mut Looked) -> Result<Outcome, Error> {
        let set = &looked.set;
        let mut others = Vec::new();
        for machine in &looked.machines {
            match ownership(machine, &set.uid) {
                Ownership::Ours => {}
                Ownership::Free => self.adopt(machine, set).await?,
                Ownership::Others => others.push(meta(machine, "name").unwrap_or_default()),
            }
        }
        if !others.is_empty() {
            looked.degraded = Some(Degradation::MachinesAlreadyOwned(others));
            return Ok(Outcome::Done);
        }
        let planned = plan(set, &looked.indexes);
        for wait in &planned.waits {
            tracing::debug!(%wait, "the control plane waits");
        }
        for step in &planned.steps {
            match step {
                Step::Create(index) => self.create(live, looked, *index).await?,
                Step::Delete { name, uid, why } => {
                    tracing::info!(machine = name, ?why, "a machine of the control plane is deleted");
                    let expect = Expect { uid: Some(uid.clone()), ..Expect::default() };
                    let place = MACHINE.at(&Key::new(&set.namespace, name));
                    self.shared.writer.delete(&place, &expect, Propagation::Background).await?;
                    self.events.tell(live, EventKind::Normal, "Deleted", "Delete", format!("deleted machine: {name}"));
                }
            }
        }
        Ok(planned.again.map_or(Outcome::Done, Outcome::After))
    }

    async fn create(&self, live: &Value, looked: &Looked, index: i32) -> Result<(), Error> {
        let set = &looked.set;
        let is_taken = |name: &str| looked.machines.iter().any(|machine| machine["metadata"]["name"] == name);
        let mut name = set.name(index, self.shared.env.random())?;
        for _ in 0..NAMES {
            if !is_taken(&name) {
                break;
            }
            name = set.name(index, self.shared.env.random())?;
        }
        let machine = set.machine(&name, &looked.layout.provider_spec(set, index));
        self.shared.writer.create(&machine).await?;
        tracing::info!(machine = name, index, "a machine of the control plane is made");
        self.events.tell(live, EventKind::Normal, "Created", "Create", format!("created machine: {name}"));
        Ok(())
    }

    async fn adopt(&self, machine: &Value, set: &ControlPlane) -> Result<(), Error> {
        let owners = machine["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        let mut owners: Vec<Value> = owners.into_iter().filter(|owner| owner["controller"] != true).collect();
        owners.push(set.owner());
        self.set_owners(machine, owners).await
    }

    /// Takes the ownership of a control plane from a machine.
    pub(super) async fn disown(&self, machine: &Value, live: &Value) -> Result<(), Error> {
        let owners = machine["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        let uid = &live["metadata"]["uid"];
        if owners.iter().all(|owner| owner["uid"] != *uid) {
            return Ok(());
        }
        self.set_owners(machine, owners.into_iter().filter(|owner| owner["uid"] != *uid).collect()).await
    }

    async fn set_owners(&self, machine: &Value, owners: Vec<Value>) -> Result<(), Error> {
        let version = machine["metadata"]["resourceVersion"].clone();
        let patch = json!({"metadata": {"resourceVersion": version, "ownerReferences": owners}});
        self.shared.writer.patch(&ObjectRef::of(machine)?, "", &Patch::Merge(patch)).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MACH-CPMS-04: a machine of another owner is left alone, one of an earlier object of the same name is taken over.
    #[test]
    fn ownership_of_machines() {
        let owned = |kind: &str, uid: &str| {
            let owner = json!({"apiVersion": API_VERSION, "kind": kind, "name": NAME, "uid": uid, "controller": true});
            ownership(&json!({"metadata": {"ownerReferences": [owner]}}), "u")
        };
        assert_eq!((owned(KIND, "u"), owned(KIND, "before"), owned("Other", "x")), (Ownership::Ours, Ownership::Free, Ownership::Others));
        assert_eq!(ownership(&json!({"metadata": {}}), "u"), Ownership::Free);
    }
}
