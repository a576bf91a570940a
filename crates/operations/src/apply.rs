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

pub use settle::settle;

/// The outcome of a plan.
pub struct Outcome {
    /// A summary in one line.
    pub line: String,
    /// The extension afterwards, if the operation waited for it.
    pub extension: Option<ClusterExtension>,
}

/// Carries out a plan of an install, an upgrade or an object. `timeout` limits the time that the cluster may take; `None` does not wait. A
/// removal and a rollback have functions of their own ([`uninstall`](crate::uninstall), [`rollback`](crate::rollback)).
pub async fn carry_out(
    session: &Session,
    planned: &Planned,
    timeout: Option<Duration>,
    progress: &mut dyn Progress,
) -> Result<Outcome, Failure> {
    let begun = Instant::now();
    for step in &planned.writes {
        execute(session, step).await?;
    }
    let name = planned.change.extension();
    let Some(bundle) = planned.bundle() else {
        return Err(Failure::new(FailureKind::Impossible, format!("clusterextension {name}"), "no bundle was chosen"));
    };
    let Some(timeout) = timeout else {
        let done = if matches!(planned.change, Change::Install(_)) { "created" } else { "changed" };
        return Ok(Outcome { line: format!("clusterextension {name} {done}; {bundle} is being installed"), extension: None });
    };
    let extension = settle(session, name, bundle, &planned.objects, timeout, progress).await?;
    let from = planned.preview.steps.first().and_then(|step| step.from.as_ref());
    let seconds = begun.elapsed().as_secs_f64();
    let line = match (&planned.change, from) {
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
            patch_extension(session, &object.name, patch).await.map(drop)
        }
        step => session.writer.execute(slice::from_ref(step), |_| {}).await.map(drop).map_err(|failed| not_written(&failed.error)),
    }
}

/// Patches an extension, and returns it as it is then.
pub(crate) async fn patch_extension(session: &Session, name: &str, patch: &Value) -> Result<ClusterExtension, Failure> {
    let api: Api<ClusterExtension> = Api::all(session.client.clone());
    let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    api.patch(name, &parameters, &Patch::Merge(patch)).await.map_err(|error| refused(format!("clusterextension {name}"), &error))
}

/// Names an object as sentences do: `Deployment ns/name`.
pub fn named(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = text(&object["kind"]);
    let (namespace, name) = (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}
