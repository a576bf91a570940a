//! The reason why a removal cannot be applied. Custom resources, and what others need, are lost only if the request says so; facts that cannot
//! be read stop the removal.

use mainstay_api::lifecycle::ON_DELETE;

use super::fate::Fate;
use super::preview::{Definition, Preview};
use super::{Facts, Stays, text};
use crate::preview::Problem;

/// Returns the first reason why the removal cannot be applied, together with the others that need the subject.
pub(super) fn problem(facts: &Facts<'_>, fates: &[Fate], preview: &Preview) -> Option<Problem> {
    let own = own(facts, fates, preview);
    if preview.needed_by.is_empty() || facts.choices.even_if_needed {
        return own;
    }
    let message = "other extensions need it";
    let hint = "--even-if-needed removes it all the same; what needs it may stop working".to_owned();
    let Some(mut problem) = own else {
        return Some(Problem { message: message.to_owned(), causes: preview.needed_by.clone(), hints: vec![hint], ..Problem::default() });
    };
    problem.message = format!("{message}; {}", problem.message);
    problem.causes.extend(preview.needed_by.iter().cloned());
    problem.hints.push(hint);
    Some(problem)
}

fn own(facts: &Facts<'_>, fates: &[Fate], preview: &Preview) -> Option<Problem> {
    let (name, choices) = (facts.name, facts.choices);
    let deletes = choices.keep_crds == Some(false);
    let stays = match facts.stays {
        Ok(stays) => stays,
        Err(invalid) => return Some(Problem { message: invalid.to_owned(), hints: vec![lets_go(facts)], ..Problem::default() }),
    };
    if deletes && stays.is_some() {
        return Some(Problem {
            message: "its CRDs are to be deleted, and the extension asks that they stay".to_owned(),
            causes: vec![format!("annotation {ON_DELETE} of {} {name}", facts.kind.to_lowercase())],
            hints: vec![lets_go(facts)],
            ..Problem::default()
        });
    }
    if choices.delete_namespace && stays == Some(Stays::Everything) {
        return Some(Problem {
            message: format!("what it installed in namespace {} is to stay, and would be deleted with it", facts.namespace),
            hints: vec!["without --delete-namespace it stays".to_owned()],
            ..Problem::default()
        });
    }
    if let Some(problem) = facts.definitions_unknown.filter(|_| !deletes) {
        return Some(unknown_definitions(name, problem));
    }
    let held = facts.objects.iter().zip(fates).find_map(|(own, fate)| match fate {
        Fate::GoesWith(holder) => Some((text(&own.object["metadata"]["name"]), holder)),
        _ => None,
    });
    if let Some((definition, holder)) = held {
        return Some(Problem {
            message: format!("CustomResourceDefinition {definition} cannot be kept"),
            causes: vec![format!("{holder} controls it, and its controller deletes it with that")],
            hints: vec![format!("kubectl get {definition} -A -o yaml saves its custom resources")],
            ..Problem::default()
        });
    }
    let keeps = facts.keeps_definitions();
    let mut used = preview.used().peekable();
    if used.peek().is_some() && !deletes && !keeps {
        let known = preview.used().any(|definition| definition.instances.is_some());
        let exist = if known { "custom resources exist, and" } else { "custom resources may exist, and" };
        return Some(Problem {
            message: format!("{exist} would be deleted with their definitions"),
            causes: used.map(in_words).collect(),
            hints: vec![
                format!("mainstay uninstall {name} --keep-crds keeps the definitions and the custom resources"),
                format!("mainstay uninstall {name} --delete-crds deletes both"),
            ],
            ..Problem::default()
        });
    }
    if !choices.delete_namespace {
        return None;
    }
    let inside = |definition: &&Definition| definition.instances.is_none() || definition.namespaces.contains_key(facts.namespace);
    let lost: Vec<String> = preview.definitions.iter().filter(|_| keeps).filter(inside).map(in_words).collect();
    if !lost.is_empty() {
        return Some(Problem {
            message: format!("custom resources in namespace {} would be deleted with it", facts.namespace),
            causes: lost,
            hints: vec!["without --delete-namespace they stay".to_owned()],
            ..Problem::default()
        });
    }
    (!facts.neighbours.is_empty()).then(|| Problem {
        message: format!("its namespace {} is not its own", facts.namespace),
        causes: facts.neighbours.to_vec(),
        hints: vec!["without --delete-namespace it stays".to_owned()],
        ..Problem::default()
    })
}

/// The problem of a removal whose losses are unknown.
fn unknown_definitions(name: &str, problem: &str) -> Problem {
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

/// The command after which everything is deleted.
fn lets_go(facts: &Facts<'_>) -> String {
    let (kind, name) = (facts.kind.to_lowercase(), facts.name);
    format!("kubectl annotate {kind} {name} {ON_DELETE}- takes the annotation off; everything goes with the extension then")
}

/// Describes a definition: `widgets.example.com: 3 custom resources: 2 in a, 1 in b`.
fn in_words(definition: &Definition) -> String {
    format!("{}: {definition}", definition.name)
}
