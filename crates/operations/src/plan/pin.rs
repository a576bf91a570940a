//! A plan of a pin: the installed version becomes the only acceptable one (MS-RB-05).

use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_lifecycle::pin::{self, PinError};
use serde_json::{Value, json};

use super::{Planned, Planner, read};
use crate::change::Change;
use crate::extensions;

impl Planner<'_, '_> {
    pub(super) async fn pin(&mut self, change: &Change, name: &str) -> Result<Planned, Failure> {
        let live = self.existing(name).await?;
        let history = extensions::history(self.view.session, &read(&live)?).await?;
        let bundle = &pin::target(&history).map_err(|error| refused(name, &error))?.record.bundle;
        let before = live.pointer("/spec/source/catalog/version").and_then(Value::as_str).map(str::to_owned);
        let patch = json!({"spec": {"source": {"catalog": {"version": bundle.version}}}});
        let mut planned = self.patched(change, live, patch, None).await?;
        planned.choices.push(match before {
            Some(before) if before == bundle.version => format!("it is pinned to {before} already"),
            Some(before) => format!("the accepted versions were {before}"),
            None => format!("it follows its channels again after mainstay upgrade {name}"),
        });
        Ok(planned)
    }
}

fn refused(name: &str, error: &PinError) -> Failure {
    let failure = Failure::new(FailureKind::Impossible, format!("clusterextension {name}"), error.to_string());
    match error {
        PinError::NothingInstalled => failure.hint(format!("mainstay describe {name} shows why")),
        PinError::Underway { .. } => failure
            .hint(format!("mainstay wait {name} waits until it is complete"))
            .hint(format!("mainstay rollback {name} --dry-run says whether going back is safe")),
    }
}
