//! OperatorConditions and their roles (OLM0-COND).

use mainstay_objects::Expect;
use mainstay_olm_classic_core::condition::{desired, roles, status};
use mainstay_runtime::{Key, Outcome};

use super::Error;
use super::csv::{holds, late};
use super::state::value;
use super::world::World;

impl World {
    /// Keeps the OperatorCondition of a CSV, its role and binding, and its status.
    pub(super) async fn condition(&self, key: &Key) -> Result<Outcome, Error> {
        let live = self.caches.conditions.get(key).map(|object| value(&object));
        if let Some(member) = self.state.member(key).filter(|member| !member.is_deleted && !member.is_copied() && member.problem.is_none())
        {
            let wanted = desired(&member.csv, &member.owner());
            if !live.as_ref().is_some_and(|live| holds(live, &wanted)) {
                // The change of the object brings this work back.
                return late(self.writer.apply(&wanted, true, &Expect::default()).await.map(drop));
            }
        }
        let Some(live) = live.filter(|live| live["metadata"]["deletionTimestamp"].is_null()) else { return Ok(Outcome::Done) };
        for object in roles(&live) {
            let cache = if object["kind"] == "Role" { &self.caches.roles } else { &self.caches.role_bindings };
            if !cache.get(key).is_some_and(|found| holds(&value(&found), &object)) {
                self.writer.apply(&object, true, &Expect::default()).await?;
            }
        }
        match status(&live) {
            Some(status) => late(self.writer.update_status(&live, &status).await.map(drop)),
            None => Ok(Outcome::Done),
        }
    }
}
