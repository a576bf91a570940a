//! Removal of an extension. The objects that go are known before, and custom resources go only if the request says so (MS-RB-02).

mod found;
mod keep;

use std::time::{Duration, Instant};

use mainstay_api::olm_v1::ClusterExtension;
use mainstay_diagnostics::Failure;
use mainstay_lifecycle::preview::Step as PlannedStep;
use mainstay_lifecycle::removal::{self, Choices, Preview, Stays, Tie};
use mainstay_objects::{Expect, ObjectRef, Propagation, Step, Until};
use serde_json::Value;

use crate::apply::{execute, named};
use crate::extensions::{self, reference};
use crate::progress::Progress;
use crate::session::Session;
use crate::view::ClusterView;
use found::Found;
pub(crate) use found::installer;

/// A planned removal.
pub struct Removal {
    /// The objects that go, those that stay, and their other users.
    pub preview: Preview,
    /// Whether its CRDs and custom resources are kept, because the request or the extension itself says so.
    pub keeps: bool,
    choices: Choices,
    extension: ClusterExtension,
    found: Found,
    deleted: Vec<ObjectRef>,
}

/// Plans a removal: reads the records, the objects that the extension owns, and the extensions that need it. Returns the plan, and the same as
/// the step of a preview.
pub(crate) async fn plan(
    view: &mut ClusterView<'_>,
    extension: ClusterExtension,
    choices: Choices,
    progress: &mut dyn Progress,
) -> Result<(Removal, PlannedStep), Failure> {
    let found = Box::pin(found::found(view, &extension, choices, progress)).await?;
    let invalid = found.stays.as_ref().err().map(ToString::to_string).unwrap_or_default();
    let facts = found.facts(&extension, choices, &invalid);
    let keeps = facts.keeps_definitions();
    let removal::Removal { preview, step, deleted } = removal::plan(&facts);
    Ok((Removal { preview, keeps, choices, extension, found, deleted }, step))
}

impl Removal {
    /// Returns the objects that the command itself deletes, in order: the extension, CRDs that nothing else deletes, the objects that install
    /// created for its account, the namespace.
    pub(crate) fn own_deletions(&self) -> Vec<ObjectRef> {
        let mut all = vec![reference(self.name())];
        all.extend(self.unowned_definitions().map(mainstay_lifecycle::object::place));
        all.extend(self.found.installer.iter().cloned());
        if self.choices.delete_namespace {
            all.push(namespace(&self.extension));
        }
        all
    }

    fn name(&self) -> &str {
        self.extension.metadata.name.as_deref().unwrap_or_default()
    }

    fn keeps_everything(&self) -> bool {
        self.found.stays == Ok(Some(Stays::Everything))
    }

    /// Returns the CRDs that carry only the extension's marks and are to be deleted: nothing else deletes them.
    fn unowned_definitions(&self) -> impl Iterator<Item = &Value> {
        let wanted = self.choices.keep_crds == Some(false);
        let crds = self.found.objects.iter().filter(move |own| wanted && own.object["kind"] == "CustomResourceDefinition");
        crds.filter(|own| own.tie == Ok(Some(Tie::Mark))).map(|own| &own.object)
    }
}

/// Carries out a removal, which is waited for: the account goes last. `timeout` limits the time that the cluster may take. Returns a summary.
pub(crate) async fn carry_out(
    session: &Session,
    removal: &Removal,
    timeout: Duration,
    progress: &mut dyn Progress,
) -> Result<String, Failure> {
    let begun = Instant::now();
    let Removal { choices, extension, found, preview, keeps, .. } = removal;
    let name = removal.name();
    let place = reference(name);
    let delete = |object: ObjectRef, expect: Expect| Step::Delete { object, expect, propagation: Propagation::Background };
    let gone = |object: ObjectRef, timeout: Duration| Step::Wait { object, until: Until::Gone, timeout };
    // An account of the user's own stays. Objects that cannot be listed stop the removal before anything is deleted.
    let installer = found::installer(session, name).await?;
    let left = || timeout.saturating_sub(begun.elapsed());
    if *keeps {
        keep::hold(session, extension, true).await?;
    }
    progress.doing("delete the clusterextension");
    let this = Expect { uid: extension.metadata.uid.clone(), ..Expect::default() };
    execute(session, &delete(place.clone(), this)).await?;
    if *keeps {
        // Until the controller has let go of the extension, it could put the owner reference back.
        progress.doing("wait until the controller has let go of the extension");
        keep::released(session, &place, timeout).await?;
        let stays = found.stays.as_ref().ok().copied().flatten();
        keep::definitions(session, extension, stays, progress).await?;
        if removal.keeps_everything() {
            let objects: Vec<&Value> = found.objects.iter().filter(|own| own.tie.is_ok()).map(|own| &own.object).collect();
            keep::objects(session, extension, &objects, progress).await?;
        }
        if let Some(extension) = extensions::find(session, name).await? {
            keep::hold(session, &extension, false).await?;
        }
    }
    execute(session, &gone(place, timeout)).await?;
    for definition in removal.unowned_definitions() {
        execute(session, &delete(place_of(definition)?, Expect::uid_of(definition))).await?;
    }
    for place in &removal.deleted {
        progress.doing(&format!("wait until {place} is gone"));
        execute(session, &gone(place.clone(), left())).await?;
    }
    progress.doing("remove the installer's account and permissions");
    for place in installer {
        execute(session, &delete(place, Expect::default())).await?;
    }
    if choices.delete_namespace {
        progress.doing(&format!("delete namespace {}", extension.spec.namespace));
        let namespace = namespace(extension);
        execute(session, &delete(namespace.clone(), Expect::default())).await?;
        execute(session, &gone(namespace, left())).await?;
    }
    let kept = match (removal.keeps_everything(), keeps) {
        (true, _) => "; everything that it installed was kept",
        (false, true) if !preview.definitions.is_empty() => "; its CRDs and custom resources were kept",
        (false, _) => "",
    };
    Ok(format!("clusterextension {name} uninstalled in {:.1} s{kept}", begun.elapsed().as_secs_f64()))
}

fn place_of(object: &Value) -> Result<ObjectRef, Failure> {
    ObjectRef::of(object).map_err(|error| Failure::failed(named(object), &error))
}

fn namespace(extension: &ClusterExtension) -> ObjectRef {
    ObjectRef {
        api_version: "v1".to_owned(),
        kind: "Namespace".to_owned(),
        namespace: String::new(),
        name: extension.spec.namespace.clone(),
    }
}
