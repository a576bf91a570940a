//! Objects that are kept when an extension is deleted, and their release before that (OLM1-INST-15, MS-RB-02).
//!
//! ```text
//!   deleted ─► is anything kept? ──no──► finalizers off: everything is deleted by owner references
//!                   │yes
//!                   ├─ objects of the records, CRDs of the cluster ─► still owned? ──yes──► remove the owner, look again
//!                   │                                                      └──no──► finalizers off
//!                   └─ that is unknown, or fails ─► the finalizers keep the extension, and with it everything
//! ```
//!
//! The labels are kept, so that an extension of the same name adopts the objects again (OLM1-OWN-01).

use mainstay_api::lifecycle::ON_DELETE;
use mainstay_api::olm_v1::ClusterExtension;
use mainstay_lifecycle::Instances;
use mainstay_lifecycle::Live;
use mainstay_lifecycle::change::{Action, Operation, PlannedStep};
use mainstay_lifecycle::health_gate::HealthGate;
use mainstay_lifecycle::live::INSTANCES_READ;
use mainstay_lifecycle::object;
use mainstay_lifecycle::removal::{Stays, Tie};
use mainstay_lifecycle::revision::History;
use mainstay_objects::{ObjectRef, Patch, Step};
use serde_json::{Value, json};

use super::super::facts::{Answer, Fact, Snapshot};
use super::super::owned::Identity;
use super::{InvalidAnnotation, Plan, Planner, Reason, Stop, Verdict, finalizing};

const DEFINITION: &str = "CustomResourceDefinition";

/// The objects that the extension asks to keep at its deletion; none if everything is deleted.
///
/// # Errors
/// The annotation has an invalid value; then nothing is deleted.
pub fn stays(extension: &ClusterExtension) -> Result<Option<Stays>, InvalidAnnotation> {
    match extension.metadata.annotations.as_ref().and_then(|all| all.get(ON_DELETE)).map(String::as_str) {
        None => Ok(None),
        Some("Orphan") => Ok(Some(Stays::Everything)),
        Some("OrphanCRDs") => Ok(Some(Stays::Definitions)),
        Some(other) => Err(InvalidAnnotation {
            annotation: ON_DELETE,
            expected: "Orphan or OrphanCRDs",
            found: other.to_owned(),
            consequence: Some("nothing is deleted until it is one of them, or gone"),
        }),
    }
}

/// Decides which objects are still to be released. Without steps and with [`Verdict::Reached`], the finalizers can be removed.
pub fn release(snapshot: &Snapshot) -> Answer<Plan> {
    let planner = Planner { snapshot, resolution: None, dependencies: None, gate: HealthGate::default() };
    match planner.release() {
        Ok(plan) => Answer::Ready(plan),
        Err(Stop::Need(facts)) => Answer::Need(facts),
        Err(Stop::Plan(plan)) => Answer::Ready(*plan),
    }
}

impl Planner<'_> {
    fn release(&self) -> Result<Plan, Stop> {
        let extension = &*self.snapshot.extension;
        let done = |steps| {
            let action = finalizing(extension).unwrap_or(Action::Report);
            Plan { action, steps, ..self.report(Verdict::Reached) }
        };
        let stays = match stays(extension) {
            Ok(Some(stays)) => stays,
            Ok(None) => return Ok(done(Vec::new())),
            Err(invalid) => return Err(self.stop(Verdict::Blocked(invalid.into()))),
        };
        let history = match &self.snapshot.history {
            Ok(history) => history,
            Err(problem) => return Err(self.stop(Verdict::Unreadable(problem.clone()))),
        };
        let installed = extension.status.as_ref().is_some_and(|status| status.install.is_some());
        if history.revisions.is_empty() && !installed {
            return Ok(done(Vec::new()));
        }
        if stays == Stays::Everything && history.revisions.is_empty() {
            return Err(self.unreleased("its install records are missing, so its objects are unknown"));
        }
        self.account(extension).map_err(|stop| match stop {
            Stop::Plan(plan) => match plan.verdict {
                Verdict::NoAccount { account, namespace } => {
                    self.unreleased(&format!("service account {account:?} not found in namespace {namespace:?}"))
                }
                _ => Stop::Plan(plan),
            },
            need @ Stop::Need(_) => need,
        })?;
        let mut steps = Vec::new();
        for live in self.staying(history, stays)? {
            match self.identity().tie(&live, &[]) {
                Some(Tie::Reference) => steps.push(self.disown(&live)),
                Some(Tie::Mark | Tie::Through(_)) | None => {}
            }
        }
        Ok(done(steps))
    }

    /// The live objects that are to be kept.
    fn staying(&self, history: &History, stays: Stays) -> Result<Vec<Value>, Stop> {
        let mut targets: Vec<ObjectRef> = Vec::new();
        let mut defines = history.revisions.is_empty();
        for target in history.revisions.iter().flat_map(|revision| &revision.record.objects).map(object::place) {
            if target.kind == DEFINITION {
                defines = true;
            } else if stays == Stays::Everything && !targets.iter().any(|other| other.same(&target)) {
                targets.push(target);
            }
        }
        let known = &self.snapshot.known;
        let kind = definitions();
        let mut missing: Vec<Fact> = targets.iter().filter(|target| !known.live.contains_key(target)).cloned().map(Fact::Live).collect();
        if defines && !known.instances.contains_key(&kind) {
            missing.push(Fact::Instances(kind.clone()));
        }
        if !missing.is_empty() {
            return Err(Stop::Need(missing));
        }
        // A CRD takes more with it than any record tells, so the CRDs that the extension owns are read from the cluster.
        let mut found = match known.instances.get(&kind).filter(|_| defines) {
            Some(Instances::Known(all)) if all.len() < INSTANCES_READ => all.clone(),
            Some(Instances::Known(_)) => return Err(self.unreleased("the cluster has too many CRDs to look at each")),
            Some(Instances::Unreadable(problem)) => return Err(self.unreleased(&format!("which CRDs it owns cannot be told: {problem}"))),
            None => Vec::new(),
        };
        for target in &targets {
            match known.live.get(target) {
                Some(Live::Present(live)) => found.push((**live).clone()),
                Some(Live::Unreadable(problem)) => return Err(self.unreleased(&problem.to_string())),
                Some(Live::Absent | Live::NotServed) | None => {}
            }
        }
        Ok(found)
    }

    /// Removes the extension's owner references from an object; other owners stay.
    fn disown(&self, live: &Value) -> PlannedStep {
        let owners = self.identity().other_owners(live);
        let metadata = &live["metadata"];
        let patch = json!({"metadata": {
            "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"],
            "ownerReferences": if owners.is_empty() { Value::Null } else { Value::from(owners) },
        }});
        let target = object::place(live);
        let step = Step::Patch { object: target.clone(), subresource: String::new(), patch: Patch::Merge(patch) };
        PlannedStep { target, step, operation: Operation::Update }
    }

    fn identity(&self) -> Identity<'_> {
        let metadata = &self.snapshot.extension.metadata;
        Identity { name: metadata.name.as_deref().unwrap_or_default(), uid: metadata.uid.as_deref().unwrap_or_default() }
    }

    fn unreleased(&self, problem: &str) -> Stop {
        self.stop(Verdict::Retrying(Reason::Unreleased(problem.to_owned())))
    }
}

/// All CRDs, as a fact.
fn definitions() -> ObjectRef {
    ObjectRef {
        api_version: "apiextensions.k8s.io/v1".to_owned(),
        kind: DEFINITION.to_owned(),
        namespace: String::new(),
        name: String::new(),
    }
}
