//! The protocol of a hook's owner: when it does its work, and how it lets go (MACH-HOOK-06, MACH-HOOK-07).

use serde_json::{Value, json};

use crate::condition;
use crate::hooks::{LifecycleHook, LifecycleHooks, Stage};
use crate::machine::{DRAINED, Machine};

/// A hook as its owner knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedHook {
    /// The stage that it holds up.
    pub stage: Stage,
    /// The hook.
    pub hook: LifecycleHook,
}

/// The next action of a hook's owner for a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Nothing: the machine does not carry the hook.
    None,
    /// Nothing yet: its deletion was not asked for or, for a hook before the removal of the instance, its node is not drained.
    NotYet,
    /// Its work, and then to let go.
    Now,
}

impl OwnedHook {
    /// Returns what is to be done about a machine.
    pub fn turn(&self, machine: &Machine) -> Turn {
        if !machine.hooks.at(self.stage).contains(&self.hook) {
            return Turn::None;
        }
        let is_its_stage = self.stage == Stage::PreDrain || condition::is_true(&machine.conditions, DRAINED);
        if machine.deleting && is_its_stage { Turn::Now } else { Turn::NotYet }
    }

    /// Returns the JSON Patch that takes this hook away and touches no other; `None` if the machine does not carry it. It fails if the list changed
    /// meanwhile, so that the hook of another owner is never hit.
    pub fn release(&self, machine: &Value) -> Option<Value> {
        let list = machine.pointer("/spec/lifecycleHooks")?.get(self.stage.field())?.as_array()?;
        let own = json!({"name": self.hook.name, "owner": self.hook.owner});
        let index = list.iter().position(|hook| *hook == own)?;
        let path = format!("/spec/lifecycleHooks/{}/{index}", self.stage.field());
        Some(json!([{"op": "test", "path": path, "value": own}, {"op": "remove", "path": path}]))
    }

    /// Returns whether a machine carries the hook.
    pub fn is_on(&self, machine: &Value) -> bool {
        let hooks = machine.pointer("/spec/lifecycleHooks").map(LifecycleHooks::of).unwrap_or_default();
        hooks.at(self.stage).contains(&self.hook)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(stage: Stage) -> OwnedHook {
        OwnedHook { stage, hook: LifecycleHook { name: "hold".to_owned(), owner: "own".to_owned() } }
    }

    fn machine(hooks: &Value, is_deleting: bool, is_drained: bool) -> Value {
        let status = if is_drained { json!({"conditions": [{"type": "Drained", "status": "True"}]}) } else { json!({}) };
        let metadata = if is_deleting { json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}) } else { json!({}) };
        json!({"metadata": metadata, "spec": {"lifecycleHooks": hooks}, "status": status})
    }

    /// MACH-HOOK-06: the owner acts once the deletion was asked for, and before the removal of the instance only when the node is drained.
    #[test]
    fn turns() {
        let hooks = json!({"preDrain": [{"name": "hold", "owner": "own"}], "preTerminate": [{"name": "hold", "owner": "own"}]});
        let turn =
            |stage, hooks: &Value, is_deleting, is_drained| owned(stage).turn(&Machine::of(&machine(hooks, is_deleting, is_drained)));
        assert_eq!(turn(Stage::PreDrain, &hooks, false, false), Turn::NotYet);
        assert_eq!(turn(Stage::PreDrain, &hooks, true, false), Turn::Now);
        assert_eq!(turn(Stage::PreTerminate, &hooks, true, false), Turn::NotYet);
        assert_eq!(turn(Stage::PreTerminate, &hooks, true, true), Turn::Now);
        assert_eq!(turn(Stage::PreTerminate, &json!({}), true, true), Turn::None);
        let others = json!({"preDrain": [{"name": "hold", "owner": "another"}]});
        assert_eq!(turn(Stage::PreDrain, &others, true, true), Turn::None, "a hook of this name is another's");
    }

    /// MACH-HOOK-06: the patch touches the own entry alone.
    #[test]
    fn own_entry_alone() {
        let hooks = json!({"preDrain": [{"name": "first", "owner": "another"}, {"name": "hold", "owner": "own"}]});
        let live = machine(&hooks, true, false);
        let path = "/spec/lifecycleHooks/preDrain/1";
        let own = json!({"name": "hold", "owner": "own"});
        assert_eq!(
            owned(Stage::PreDrain).release(&live),
            Some(json!([{"op": "test", "path": path, "value": own}, {"op": "remove", "path": path}]))
        );
        assert_eq!(owned(Stage::PreTerminate).release(&live), None);
        assert!(owned(Stage::PreDrain).is_on(&live) && !owned(Stage::PreTerminate).is_on(&live));
    }
}
