//! A plan of an extension as it stands in a file, with the objects beside it.

use mainstay_diagnostics::Failure;
use mainstay_objects::Step;
use mainstay_olm_v1_core::extension::account_name;
use serde_json::Value;

use super::{Planned, Planner, apply_step, merged, read};
use crate::change::Change;
use crate::extensions::reference;
use crate::view::AssumedPermissions;

impl Planner<'_, '_> {
    pub(super) async fn object(&mut self, change: &Change, wanted: &Value, with: &[Value]) -> Result<Planned, Failure> {
        let name = change.extension().to_owned();
        let live = self.view.look(&reference(&name)).await?;
        // The live object after the apply decides, not the file alone.
        let typed = read(&live.map_or_else(|| wanted.clone(), |live| merged(live, wanted)))?;
        let rbac: Vec<Value> = with
            .iter()
            .filter(|object| object["apiVersion"].as_str().is_some_and(|version| version.starts_with("rbac.")))
            .cloned()
            .collect();
        let account = account_name(&typed);
        let brings = with.iter().any(|object| {
            object["kind"] == "ServiceAccount"
                && object["metadata"]["name"] == account
                && object["metadata"]["namespace"] == typed.spec.namespace.as_str()
        });
        let assumed = if brings { AssumedPermissions::With(rbac) } else { AssumedPermissions::Live };
        let mut writes: Vec<Step> = with.iter().cloned().map(apply_step).collect();
        writes.push(apply_step(wanted.clone()));
        let path = self.view.path(&typed, &assumed, self.depth, self.progress).await?;
        self.planned(change, &typed, writes, Vec::new(), path).await
    }
}
