//! Removal of an extension. The objects that go are known before, and custom resources go only if the request says so (MS-RB-02).

mod found;
mod keep;

use std::time::{Duration, Instant};

use mainstay_api::olm_v1::ClusterExtension;
use mainstay_diagnostics::{Failure, FailureKind, Finding, Severity, counted};
use mainstay_lifecycle::preview::Problem;
use mainstay_lifecycle::removal::{Definition, Preview};
use mainstay_objects::{Expect, ObjectRef, Propagation, Step, Until};
use mainstay_olm_v1_core::extension::owned::Tie;
use mainstay_olm_v1_core::extension::plan::Stays;
use mainstay_olm_v1_core::extension::preview;
use serde_json::Value;

use crate::apply::{execute, named};
use crate::extensions::{self, reference};
use crate::progress::Progress;
use crate::session::Session;
use found::Found;
pub(crate) use found::installer;

/// A request to remove an extension.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemovalRequest {
    /// The extension.
    pub name: String,
    /// Keeps its CRDs and custom resources; `None` if the request does not say.
    pub keep_crds: Option<bool>,
    /// Removes the extension although other extensions need it.
    pub even_if_needed: bool,
    /// Removes its namespace, too.
    pub delete_namespace: bool,
}

impl RemovalRequest {
    /// Returns whether the request deletes CRDs, and so all custom resources of these kinds.
    fn deletes_crds(&self) -> bool {
        self.keep_crds == Some(false)
    }
}

/// A planned removal.
pub struct Removal {
    request: RemovalRequest,
    extension: ClusterExtension,
    found: Found,
    /// The objects that go, those that stay, and their other users.
    pub preview: Preview,
    /// Warnings about what could not be read.
    pub warnings: Vec<Finding>,
    begun: Instant,
}

/// The objects of a removed extension that were kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// No objects of importance.
    Nothing,
    /// Its CRDs and custom resources.
    Definitions,
    /// All objects that it installed.
    Everything,
}

/// The outcome of a removal.
#[derive(Clone, Copy, Debug)]
pub struct Removed {
    /// The objects that were kept.
    pub kept: Kept,
    /// Time since the removal was planned.
    pub took: Duration,
}

/// Plans a removal: reads the records, the objects that the extension owns, and the extensions that need it.
pub async fn plan(session: &Session, request: &RemovalRequest, progress: &mut dyn Progress) -> Result<Removal, Failure> {
    let begun = Instant::now();
    let extension = extensions::get(session, &request.name).await?;
    let found = Box::pin(found::found(session, request, &extension, progress)).await?;
    let (mut preview, warnings) = Box::pin(found::preview(session, request, &extension, &found, progress)).await?;
    if request.delete_namespace {
        let namespace = namespace(&extension).to_string();
        preview.kept.retain(|kept| *kept != namespace);
        preview.deleted.push(format!("{namespace}, with everything else in it"));
    }
    Ok(Removal { request: request.clone(), extension, found, preview, warnings, begun })
}

impl Removal {
    /// Returns whether its CRDs and custom resources are kept, because the request or the extension itself says so.
    pub fn keeps(&self) -> bool {
        self.request.keep_crds == Some(true) || self.found.staying.is_some()
    }

    /// Checks that the removal may be done. Custom resources, and other extensions that need this one, are lost only if the request says
    /// so. Facts that cannot be read stop the removal. Findings that do not stop it are added to `warnings`.
    pub fn check(&self, warnings: &mut Vec<Finding>) -> Result<(), Failure> {
        let Self { request, found, preview, .. } = self;
        let name = &request.name;
        let subject = || format!("clusterextension {name}");
        if request.deletes_crds() && found.staying.is_some() {
            return Err(refusal(&subject(), preview::asked_to_stay(name)));
        }
        if request.delete_namespace && found.staying == Some(Stays::Everything) {
            let message = format!("what it installed in namespace {} is to stay, and would be deleted with it", found.namespace);
            return Err(Failure::new(FailureKind::Impossible, subject(), message).hint("without --delete-namespace it stays"));
        }
        if let Err(problem) = &found.definitions {
            warnings.push(warning(subject(), format!("which custom resource definitions it owns is not known: {problem}")));
        }
        let through = |(definition, tie): &(Value, Tie)| match tie {
            Tie::Through(holder) if self.keeps() => {
                Some(preview::not_ours_to_keep(definition["metadata"]["name"].as_str().unwrap_or_default(), holder))
            }
            _ => None,
        };
        if let Some(problem) = found.definitions.iter().flatten().find_map(through) {
            return Err(refusal(&subject(), problem));
        }
        if preview.used().next().is_some() && !request.deletes_crds() && !self.keeps() {
            let some = preview.used().any(|definition| definition.instances.is_some());
            let exist = if some { "custom resources exist, and" } else { "custom resources may exist, and" };
            let failure = Failure::new(FailureKind::Impossible, subject(), format!("{exist} would be deleted with their definitions"));
            let failure = preview.used().fold(failure, |failure, definition| failure.because(in_words(definition)));
            return Err(failure.hint("--keep-crds keeps the definitions and the custom resources").hint("--delete-crds deletes both"));
        }
        if request.delete_namespace && self.keeps() {
            let inside = |definition: &&Definition| definition.instances.is_none() || definition.namespaces.contains_key(&found.namespace);
            let lost: Vec<String> = preview.definitions.iter().filter(inside).map(in_words).collect();
            if !lost.is_empty() {
                let message = format!("custom resources in namespace {} would be deleted with it", found.namespace);
                let failure = Failure::new(FailureKind::Impossible, subject(), message);
                let failure = lost.into_iter().fold(failure, Failure::because);
                return Err(failure.hint("without --delete-namespace they stay"));
            }
        }
        if request.delete_namespace && !found.neighbours.is_empty() {
            let failure = Failure::new(FailureKind::Impossible, subject(), format!("its namespace {} is not its own", found.namespace));
            let failure = found.neighbours.iter().fold(failure, |failure, other| failure.because(other.as_str()));
            return Err(failure.hint("without --delete-namespace it stays"));
        }
        if !preview.needed_by.is_empty() && !request.even_if_needed {
            let failure = Failure::new(FailureKind::Impossible, subject(), "other extensions need it");
            let failure = preview.needed_by.iter().fold(failure, |failure, need| failure.because(need.as_str()));
            return Err(failure.hint("--even-if-needed removes it all the same; what needs it may stop working"));
        }
        Ok(())
    }
}

/// Carries out a removal; `timeout` limits the time that the cluster may take.
pub async fn carry_out(session: &Session, removal: &Removal, timeout: Duration, progress: &mut dyn Progress) -> Result<Removed, Failure> {
    let Removal { request, extension, found, preview, begun, .. } = removal;
    let (name, keeps) = (&request.name, removal.keeps());
    let place = reference(name);
    let delete = |object: ObjectRef, expect: Expect| Step::Delete { object, expect, propagation: Propagation::Background };
    let gone = |object: ObjectRef, timeout: Duration| Step::Wait { object, until: Until::Gone, timeout };
    let left = || timeout.saturating_sub(begun.elapsed());
    if keeps {
        keep::hold(session, extension, true).await?;
    }
    progress.doing("delete the clusterextension");
    let this = Expect { uid: extension.metadata.uid.clone(), ..Expect::default() };
    execute(session, &delete(place.clone(), this)).await?;
    if keeps {
        // Until the controller has let go of the extension, it could put the owner reference back.
        progress.doing("wait until the controller has let go of the extension");
        keep::released(session, &place, timeout).await?;
        keep::definitions(session, extension, found.staying, progress).await?;
        if found.staying == Some(Stays::Everything) {
            keep::objects(session, extension, &found.objects, progress).await?;
        }
        if let Some(extension) = extensions::find(session, name).await? {
            keep::hold(session, &extension, false).await?;
        }
    }
    execute(session, &gone(place, timeout)).await?;
    if request.deletes_crds() {
        for (definition, _) in found.definitions.iter().flatten().filter(|(_, tie)| *tie == Tie::Mark) {
            // Nothing else deletes a CRD that carries only the mark.
            execute(session, &delete(place_of(definition)?, Expect::uid_of(definition))).await?;
        }
    }
    for object in &found.objects {
        let kept = object["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep";
        if kept || found.staying == Some(Stays::Everything) || keeps && object["kind"] == "CustomResourceDefinition" {
            continue;
        }
        let place = place_of(object)?;
        progress.doing(&format!("wait until {} is gone", named(object)));
        execute(session, &gone(place, left())).await?;
    }
    progress.doing("remove the installer's account and rights");
    // An account of the user's own stays.
    for place in found::installer(session, name).await? {
        execute(session, &delete(place, Expect::default())).await?;
    }
    if request.delete_namespace {
        progress.doing(&format!("delete namespace {}", extension.spec.namespace));
        let namespace = namespace(extension);
        execute(session, &delete(namespace.clone(), Expect::default())).await?;
        execute(session, &gone(namespace, left())).await?;
    }
    let kept = match found.staying {
        Some(Stays::Everything) => Kept::Everything,
        _ if keeps && !preview.definitions.is_empty() => Kept::Definitions,
        _ => Kept::Nothing,
    };
    Ok(Removed { kept, took: begun.elapsed() })
}

fn warning(subject: impl Into<String>, message: impl Into<String>) -> Finding {
    Finding::new(Severity::Warning, "warning", subject, message)
}

fn refusal(subject: &str, problem: Problem) -> Failure {
    let failure = Failure::new(FailureKind::Impossible, subject, problem.message);
    let failure = problem.causes.into_iter().fold(failure, Failure::because);
    problem.hints.into_iter().fold(failure, Failure::hint)
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

/// Describes a definition: `widgets.example.com: 3 custom resources (2 in a, 1 in b)`.
fn in_words(definition: &Definition) -> String {
    format!("{}: {}", definition.name, counts(definition))
}

/// Describes the custom resources of a definition.
pub fn counts(definition: &Definition) -> String {
    let place = |(namespace, count): (&String, &usize)| format!("{count} in {namespace}");
    let places: Vec<String> = definition.namespaces.iter().filter(|(namespace, _)| !namespace.is_empty()).map(place).collect();
    let places = if places.is_empty() { String::new() } else { format!(": {}", places.join(", ")) };
    match (definition.instances, &definition.unknown) {
        (Some(count), _) => format!("{}{places}", counted(count, "custom resource")),
        (None, Some(problem)) => format!("custom resources unknown: {problem}"),
        (None, None) => "custom resources unknown".to_owned(),
    }
}
