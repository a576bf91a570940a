//! Doing what a plan says this command does, and waiting for what the cluster does.

use std::time::{Duration, Instant};

use kube::api::{Api, Patch, PatchParams};
use mainstay_api::olm_v1::ClusterExtension;
use mainstay_objects::Expect;
use serde_json::Value;

use super::{Change, Planned, Write, make};
use crate::cluster::{MANAGER, Session, not_written, refused};
use crate::errors::{Exit, Failure};
use crate::extensions;
use crate::progress::Progress;

/// What came of it.
pub struct Outcome {
    /// One line.
    pub line: String,
    /// The extension afterwards, where it was waited for.
    pub extension: Option<ClusterExtension>,
}

/// Carries a plan out; `timeout` is how long the cluster may take, nothing means that nobody waits.
pub async fn carry_out(session: &Session, planned: &Planned, timeout: Option<Duration>) -> Result<Outcome, Failure> {
    let begun = Instant::now();
    let mut progress = Progress::start();
    for write in &planned.writes {
        carry(session, write).await?;
    }
    let name = planned.change.extension();
    let Some(bundle) = planned.bundle() else {
        return Err(Failure::new(Exit::Impossible, format!("clusterextension {name}"), "no bundle was chosen"));
    };
    let Some(timeout) = timeout else {
        let done = if matches!(planned.change, Change::Install(_)) { "created" } else { "changed" };
        return Ok(Outcome { line: format!("clusterextension {name} {done}; {bundle} is being installed"), extension: None });
    };
    let extension = extensions::settle(session, name, bundle, &planned.objects, timeout, &mut progress).await?;
    let from = planned.preview.steps.first().and_then(|step| step.from.as_ref());
    let seconds = begun.elapsed().as_secs_f64();
    let line = match (&planned.change, from) {
        _ if make::stays(planned) => format!("clusterextension {name}: {bundle} is installed already and stays"),
        (Change::Install(_), _) | (_, None) => {
            format!("clusterextension {name}: {bundle} installed in namespace {} in {seconds:.1} s", extension.spec.namespace)
        }
        (Change::Rollback { .. }, Some(from)) => {
            format!("clusterextension {name}: {} rolled back to {bundle} in {seconds:.1} s", from.name)
        }
        (_, Some(from)) => format!("clusterextension {name}: {} upgraded to {bundle} in {seconds:.1} s", from.name),
    };
    Ok(Outcome { line, extension: Some(extension) })
}

async fn carry(session: &Session, write: &Write) -> Result<(), Failure> {
    let outcome = match write {
        Write::Once(object) => match session.writer.create(object).await {
            Err(mainstay_apply::WriteError::Refused { reason: mainstay_apply::Reason::AlreadyExists, .. }) => Ok(()),
            outcome => outcome.map(drop),
        },
        Write::Create(object) => session.writer.create(object).await.map(drop),
        Write::Apply(object) => session.writer.apply(object, true, &Expect::default()).await.map(drop),
        Write::Patch(target, patch) => return patched(session, &target.name, patch).await,
    };
    outcome.map_err(|error| not_written(&error))
}

async fn patched(session: &Session, name: &str, patch: &Value) -> Result<(), Failure> {
    let api: Api<ClusterExtension> = Api::all(session.client.clone());
    let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    let done = api.patch(name, &parameters, &Patch::Merge(patch)).await;
    done.map(drop).map_err(|error| refused(format!("clusterextension {name}"), &error))
}
