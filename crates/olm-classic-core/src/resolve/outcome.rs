//! The verdict about a namespace: what can be installed, and which Subscriptions are refused why (OLM0-RES-32).

use super::components::{Component, resolve_components};
use super::error::ResolveError;
use super::snapshot::Snapshot;
use super::step::{ResolvedSteps, one_group, resolve_steps, steps_of};

/// The reach of a failure.
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

/// Subscriptions that are resolved together, and what that brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Their names.
    pub subscriptions: Vec<String>,
    /// The steps, lookups and changes.
    pub steps: ResolvedSteps,
}

/// The verdict about a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The parts of the next InstallPlan.
    pub parts: Vec<Part>,
    /// The Subscriptions that cannot be resolved, with the reasons.
    pub refusals: Vec<Refusal>,
}

/// Decides what the next InstallPlan of a namespace contains.
pub fn decide(snapshot: &Snapshot, isolation: Isolation) -> Outcome {
    let everyone = || snapshot.subscriptions.iter().map(|one| one.name.clone()).collect();
    let refused = |error: ResolveError| Outcome { refusals: vec![Refusal { subscriptions: everyone(), error }], ..Outcome::default() };
    if let Err(error) = one_group(snapshot) {
        return refused(error);
    }
    if isolation == Isolation::Namespace {
        let whole = |steps| Outcome { parts: vec![Part { subscriptions: everyone(), steps }], ..Outcome::default() };
        return resolve_steps(snapshot).map_or_else(refused, whole);
    }
    told(snapshot, resolve_components(snapshot))
}

/// Returns the content of components, and the refusals.
pub(super) fn told(snapshot: &Snapshot, components: Vec<Component>) -> Outcome {
    let mut outcome = Outcome::default();
    for Component { subscriptions, outcome: found, .. } in components {
        // The content of a bundle that cannot be read is a matter of its component, too.
        match found.and_then(|bundles| steps_of(snapshot, bundles)) {
            Ok(steps) => outcome.parts.push(Part { subscriptions, steps }),
            // CSVs without a Subscription that contradict each other are told to no one, and hold up no others.
            Err(_) if subscriptions.is_empty() => {}
            Err(error) => outcome.refusals.push(Refusal { subscriptions, error }),
        }
    }
    outcome
}
