//! Execution of a plan: writes its steps, and waits for the cluster.

mod settle;

use std::slice;
use std::time::{Duration, Instant};

use kube::api::{Api, Patch, PatchParams};
use mainstay_api::olm_v1::ClusterExtension;
use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_objects::{Patch as StepPatch, Step};
use serde_json::Value;

use crate::change::Change;
use crate::failure::{not_written, refused};
use crate::plan::Planned;
use crate::progress::Progress;
use crate::session::{MANAGER, Session};
use crate::{extensions, uninstall};

pub use settle::settle;

/// Time that the cluster may take if the caller does not wait, and something has to be done afterwards.
const WAIT: Duration = Duration::from_secs(300);

/// The outcome of a plan.
pub struct Outcome {
    /// A summary in one line.
    pub line: String,
    /// The extension afterwards, if the operation waited for it.
    pub extension: Option<ClusterExtension>,
}

/// Carries out a plan. `timeout` limits the time that the cluster may take; `None` does not wait, except for what has to be done afterwards:
/// removals, and rollbacks that set the preflight aside, are waited for.
pub async fn carry_out(
    session: &Session,
    planned: &Planned,
    timeout: Option<Duration>,
    progress: &mut dyn Progress,
) -> Result<Outcome, Failure> {
    let begun = Instant::now();
    if let Some(removal) = &planned.removal {
        let line = uninstall::carry_out(session, removal, timeout.unwrap_or(WAIT), progress).await?;
        return Ok(Outcome { line, extension: None });
    }
    for step in &planned.writes {
        execute(session, step).await?;
    }
    let name = planned.change.extension();
    let Some(bundle) = planned.bundle() else {
        return Err(Failure::new(FailureKind::Impossible, format!("clusterextension {name}"), "no bundle was chosen"));
    };
    let Some(timeout) = timeout.or((!planned.afterwards.is_empty()).then_some(WAIT)) else {
        let done = if matches!(planned.change, Change::Install(_)) { "created" } else { "changed" };
        return Ok(Outcome { line: format!("clusterextension {name} {done}; {bundle} is being installed"), extension: None });
    };
    let settled = settle(session, name, bundle, &planned.objects, timeout, progress).await;
    let mut extension = settled.map_err(|failure| match &planned.rollback {
        Some(verdict) => failure.hint(format!("{} undoes it", verdict.undo)),
        None => failure,
    })?;
    for step in &planned.afterwards {
        execute(session, step).await?;
        extension = extensions::get(session, name).await?;
    }
    let from = planned.preview.steps.first().and_then(|step| step.from.as_ref());
    let seconds = begun.elapsed().as_secs_f64();
    let line = match (&planned.change, from) {
        (Change::Pin { .. }, _) => format!("clusterextension {name} stays at {bundle}"),
        _ if planned.stays() => format!("clusterextension {name}: {bundle} is installed already and stays"),
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

/// Carries out one step as this session's user.
pub async fn execute(session: &Session, step: &Step) -> Result<(), Failure> {
    match step {
        Step::Patch { object, subresource, patch: StepPatch::Merge(patch) }
            if object.kind == "ClusterExtension" && subresource.is_empty() =>
        {
            patch_extension(session, &object.name, patch).await
        }
        step => session.writer.execute(slice::from_ref(step), |_| {}).await.map(drop).map_err(|failed| not_written(&failed.error)),
    }
}

/// Patches an extension.
async fn patch_extension(session: &Session, name: &str, patch: &Value) -> Result<(), Failure> {
    let api: Api<ClusterExtension> = Api::all(session.client.clone());
    let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    api.patch(name, &parameters, &Patch::Merge(patch)).await.map(drop).map_err(|error| refused(format!("clusterextension {name}"), &error))
}

/// Names an object as sentences do: `Deployment ns/name`.
pub fn named(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = text(&object["kind"]);
    let (namespace, name) = (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}
