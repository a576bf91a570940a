//! The verdict about a namespace: what can be installed, and which Subscriptions are refused why (OLM0-RES-32).

use super::components::{Component, resolve_components};
use super::error::ResolveError;
use super::snapshot::Snapshot;
use super::step::{ResolvedSteps, one_group, resolve_steps, steps_of};

/// How far a failure reaches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Isolation {
    /// To the Subscriptions that have to do with its cause.
    #[default]
    Component,
    /// To every Subscription of the namespace, as upstream has it.
    Namespace,
}

/// Subscriptions that cannot be resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Their names.
    pub subscriptions: Vec<String>,
    /// The reason.
    pub error: ResolveError,
}

/// The verdict about a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The content of the next InstallPlan.
    pub steps: ResolvedSteps,
    /// What cannot be resolved.
    pub refusals: Vec<Refusal>,
}

/// Decides what the next InstallPlan of a namespace contains.
pub fn decide(snapshot: &Snapshot, isolation: Isolation) -> Outcome {
    let refused = |error: ResolveError| Outcome {
        refusals: vec![Refusal { subscriptions: snapshot.subscriptions.iter().map(|one| one.name.clone()).collect(), error }],
        ..Outcome::default()
    };
    if let Err(error) = one_group(snapshot) {
        return refused(error);
    }
    if isolation == Isolation::Namespace {
        return resolve_steps(snapshot).map_or_else(refused, |steps| Outcome { steps, ..Outcome::default() });
    }
    let (mut bundles, mut refusals) = (Vec::new(), Vec::new());
    for Component { subscriptions, outcome, .. } in resolve_components(snapshot) {
        match outcome {
            // The content of a bundle that cannot be read is a matter of its component, too.
            Ok(found) => match steps_of(snapshot, found.clone()) {
                Ok(_) => bundles.extend(found),
                Err(error) => refusals.push(Refusal { subscriptions, error }),
            },
            Err(error) => refusals.push(Refusal { subscriptions, error }),
        }
    }
    // CSVs without a Subscription that contradict each other have no one to be told, and hold up no others.
    refusals.retain(|refusal| !refusal.subscriptions.is_empty());
    match steps_of(snapshot, bundles) {
        Ok(steps) => Outcome { steps, refusals },
        Err(error) => refused(error),
    }
}
