//! The removal of an extension (MS-PLAN-01, MS-RB-02): everything that it owns is deleted by owner references (OLM1-INST-15).

use mainstay_api::lifecycle::ON_DELETE;
use mainstay_diagnostics::counted;
use mainstay_lifecycle::Live;
use mainstay_lifecycle::object;
use mainstay_lifecycle::preview::{
    Bundle, Change, CrdChange, Existing, Kind, NOT_ASKED, Object, Problem, Step, api_extensions, delta, named, restarts,
};
use mainstay_lifecycle::revision::History;
use serde_json::Value;

use super::super::facts::Snapshot;
use super::super::owned::Tie;
use super::super::owner;
use super::super::plan::{Stays, stays};
use super::Extra;

/// The step that removes the extension. `keep_definitions` decides about its CRDs: true keeps them, false deletes them, `None` is no choice.
/// The live objects of the records must be known. Losses are read from the objects that the extension owns on the cluster, not from a
/// record alone; if these are unknown, the step cannot be applied.
pub fn uninstall(snapshot: &Snapshot, extra: &Extra, keep_definitions: Option<bool>) -> Step {
    let name = snapshot.extension.metadata.name.clone().unwrap_or_default();
    let mut step = Step { kind: Kind::Uninstall, ..Step::default() };
    let staying = match stays(&snapshot.extension) {
        Ok(staying) => staying,
        Err(invalid) => {
            step.problem = Some(Problem { message: invalid.to_string(), hints: vec![lets_go(&name)], ..Problem::default() });
            return step;
        }
    };
    if staying.is_some() && keep_definitions == Some(false) {
        step.problem = Some(asked_to_stay(&name));
        return step;
    }
    let keep_definitions = staying.map(|_| true).or(keep_definitions);
    let everything = staying == Some(Stays::Everything);
    let none = History::default();
    let history = match (&snapshot.history, &extra.owned) {
        (Ok(history), _) => history,
        (Err(problem), Some(Ok(_))) => {
            step.warnings.push(format!("what goes is told by owner marks on the cluster alone: {problem}"));
            &none
        }
        (Err(problem), _) => {
            let message = format!("the install records cannot be read: {problem}");
            step.problem = Some(Problem { message, ..Problem::default() });
            return step;
        }
    };
    step.from = history.installed().map(|revision| Bundle::installed(&revision.record.bundle));
    let owned = match &extra.owned {
        Some(Ok(owned)) => owned.as_slice(),
        Some(Err(problem)) => {
            if keep_definitions == Some(false) {
                step.warnings.push(format!("which custom resource definitions it owns is not known, and they are deleted: {problem}"));
            } else {
                step.problem = Some(unknown_definitions(&name, problem));
            }
            &[]
        }
        None => &[],
    };
    let mut seen: Vec<Value> = Vec::new();
    for applied in history.may_be_live().flat_map(|revision| &revision.record.objects) {
        let target = object::place(applied);
        let told_by_itself = owned.iter().any(|(object, _)| object::place(object).same(&target));
        if told_by_itself || seen.iter().any(|other| object::place(other).same(&target)) {
            continue;
        }
        seen.push(applied.clone());
        let found = match snapshot.known.live.get(&target) {
            Some(Live::Present(found)) => found,
            Some(Live::Unreadable(problem)) => {
                step.objects.push(Object { change: Change::Unknown, note: problem.to_string(), ..named(&target) });
                continue;
            }
            Some(Live::Absent | Live::NotServed) | None => continue,
        };
        let is_definition = target.kind == "CustomResourceDefinition";
        let controlled = found["metadata"]["ownerReferences"].as_array().is_some_and(|all| !all.is_empty());
        let (change, note) = if !owner(&snapshot.extension).owns(found) || !controlled {
            (Change::Kept, "it has no owner that goes")
        } else if everything {
            (Change::Kept, "it stays, as the extension asks")
        } else if is_definition && keep_definitions == Some(true) {
            (Change::Kept, "CRDs and their custom resources are kept")
        } else {
            (Change::Deleted, "")
        };
        if is_definition {
            step.custom_resource_definitions.push(definition(&target.name, change, extra));
        }
        step.objects.push(Object { change, note: note.to_owned(), ..named(&target) });
    }
    for (live, tie) in owned {
        let target = object::place(live);
        let is_definition = target.kind == "CustomResourceDefinition";
        let (change, note) = match tie {
            Tie::Through(holder) if is_definition && keep_definitions == Some(true) => {
                step.problem = Some(not_ours_to_keep(&target.name, holder));
                (Change::Deleted, format!("{holder} controls it"))
            }
            Tie::Reference if everything => (Change::Kept, "it stays, as the extension asks".to_owned()),
            _ if is_definition && keep_definitions == Some(true) => (Change::Kept, "CRDs and their custom resources are kept".to_owned()),
            Tie::Mark if !is_definition => (Change::Kept, "it has no owner that goes".to_owned()),
            _ => (Change::Deleted, String::new()),
        };
        if is_definition {
            step.custom_resource_definitions.push(definition(&target.name, change, extra));
        }
        step.objects.push(Object { change, note, ..named(&target) });
        seen.push(live.clone());
    }
    let lost: Vec<&CrdChange> = step.custom_resource_definitions.iter().filter(|crd| crd.change == Change::Deleted).collect();
    let used: Vec<&&CrdChange> = lost.iter().filter(|crd| crd.existing.as_ref().is_none_or(|existing| existing.count > 0)).collect();
    let losses: Vec<String> = used
        .iter()
        .map(|crd| match &crd.existing {
            Some(existing) => {
                format!("CustomResourceDefinition {} is deleted with its {}", crd.name, counted(existing.count, "custom resource"))
            }
            None => format!(
                "CustomResourceDefinition {} is deleted with its custom resources, and nobody can tell how many there are",
                crd.name
            ),
        })
        .collect();
    if !used.is_empty() && keep_definitions.is_none() && step.problem.is_none() {
        let known = used.iter().any(|crd| crd.existing.is_some());
        let message = if known { "custom resources exist, and" } else { "custom resources may exist, and" };
        step.problem = Some(Problem {
            message: format!("{message} would be deleted with their definitions"),
            causes: losses.clone(),
            hints: vec![
                format!("mainstay uninstall {name} --keep-crds keeps the definitions and the custom resources"),
                format!("mainstay uninstall {name} --delete-crds deletes both"),
            ],
            ..Problem::default()
        });
    }
    step.warnings.extend(losses);
    step.rights_lost = delta(&seen, &[]).1;
    step.restarts = restarts(&step.objects);
    step.api_extensions = api_extensions(&step.objects);
    step
}

/// The problem of a removal that would delete what the extension asks to keep.
pub fn asked_to_stay(name: &str) -> Problem {
    Problem {
        message: "its CRDs are to be deleted, and the extension asks that they stay".to_owned(),
        causes: vec![format!("annotation {ON_DELETE} of clusterextension {name}")],
        hints: vec![lets_go(name)],
        ..Problem::default()
    }
}

/// The hint with the command after which everything is deleted.
fn lets_go(name: &str) -> String {
    format!("kubectl annotate clusterextension {name} {ON_DELETE}- takes the annotation off; everything goes with the extension then")
}

/// The problem of a removal whose losses are unknown.
pub fn unknown_definitions(name: &str, problem: &str) -> Problem {
    Problem {
        message: "which custom resource definitions it owns cannot be known, and custom resources would be deleted with them".to_owned(),
        causes: vec![problem.to_owned()],
        hints: vec![
            "kubectl auth can-i list customresourcedefinitions tells whether this user may look; one who may can remove it safely"
                .to_owned(),
            format!("mainstay uninstall {name} --delete-crds deletes whatever there is"),
        ],
        ..Problem::default()
    }
}

/// The problem of a CRD that cannot be kept, because another controller deletes it.
pub fn not_ours_to_keep(definition: &str, holder: &str) -> Problem {
    Problem {
        message: format!("CustomResourceDefinition {definition} cannot be kept"),
        causes: vec![format!("{holder} controls it, and its controller deletes it with that")],
        hints: vec![format!("kubectl get {} -A -o yaml saves its custom resources", definition)],
        ..Problem::default()
    }
}

/// The same step for an extension that others need, as [`needed_by`](mainstay_lifecycle::removal::needed_by) tells. It cannot be applied,
/// unless that is requested all the same.
pub fn needed(mut step: Step, needs: &[String], even_if_needed: bool) -> Step {
    if needs.is_empty() {
        return step;
    }
    if !even_if_needed {
        let message = "other extensions need it".to_owned();
        let hint = "--even-if-needed removes it all the same; what needs it may stop working".to_owned();
        match &mut step.problem {
            None => step.problem = Some(Problem { message, causes: needs.to_vec(), hints: vec![hint], ..Problem::default() }),
            Some(problem) => {
                problem.message = format!("{message}; {}", problem.message);
                problem.causes.extend(needs.iter().cloned());
                problem.hints.push(hint);
            }
        }
    }
    step.warnings.extend(needs.iter().map(|need| format!("needed by {need}")));
    step
}

/// A CRD that is deleted or kept, with the number of its custom resources.
pub(super) fn definition(name: &str, change: Change, extra: &Extra) -> CrdChange {
    let (existing, existing_unknown) = match extra.instances.get(name) {
        Some(Ok(instances)) => (Some(Existing { count: instances.count, ..Existing::default() }), None),
        Some(Err(problem)) => (None, Some(problem.clone())),
        None => (None, Some(NOT_ASKED.to_owned())),
    };
    CrdChange { name: name.to_owned(), change, existing, existing_unknown, ..CrdChange::default() }
}

/// The objects that may be live; [`uninstall`] needs them.
pub fn applied(history: &History) -> Vec<mainstay_objects::ObjectRef> {
    let mut all: Vec<mainstay_objects::ObjectRef> = Vec::new();
    for object in history.may_be_live().flat_map(|revision| &revision.record.objects) {
        let target = object::place(object);
        if !all.iter().any(|other| other.same(&target)) {
            all.push(target);
        }
    }
    all
}
