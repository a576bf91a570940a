//! The order in which machines go when a set shrinks (MACH-SET-03, MACH-SET-04).

use jiff::Timestamp;
use mainstay_golang::sort_slice;

use super::exp::exp;
use crate::machine::Machine;

/// Annotation of machines that go first.
pub const DELETE_ANNOTATION: &str = "machine.openshift.io/delete-machine";
/// The same in its older form.
pub const OLD_DELETE_ANNOTATION: &str = "machine.openshift.io/cluster-api-delete-machine";

const MUST: f64 = 100.0;
const BETTER: f64 = 50.0;
const PREFERRED: f64 = 40.0;
const POSSIBLE: f64 = 20.0;
const NEVER: f64 = 0.0;
const HUNDRED_DAYS: f64 = 8_640_000.0;

/// Which machines of a set go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletePolicy {
    /// Those without a node; else any.
    Random,
    /// The youngest.
    Newest,
    /// The oldest.
    Oldest,
}

/// A policy that does not exist, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unsupported delete policy {0}, must be one of 'Random', 'Newest', or 'Oldest'")]
pub struct UnknownDeletePolicy(pub String);

impl DeletePolicy {
    /// Reads `spec.deletePolicy`; empty is Random.
    ///
    /// # Errors
    /// There is no such policy.
    pub fn of(text: &str) -> Result<Self, UnknownDeletePolicy> {
        match text {
            "Random" | "" => Ok(Self::Random),
            "Newest" => Ok(Self::Newest),
            "Oldest" => Ok(Self::Oldest),
            other => Err(UnknownDeletePolicy(other.to_owned())),
        }
    }

    /// Returns how urgently a machine goes, from 0 to 100.
    pub fn priority(self, machine: &Machine, now: Timestamp) -> f64 {
        let asked = [DELETE_ANNOTATION, OLD_DELETE_ANNOTATION];
        let asked = asked.iter().any(|key| machine.annotations.get(*key).is_some_and(|value| !value.is_empty()));
        if machine.deleting {
            return MUST;
        }
        match self {
            Self::Random if asked || machine.errored => BETTER,
            Self::Random if machine.node.is_none() => PREFERRED,
            Self::Random => POSSIBLE,
            Self::Oldest | Self::Newest if asked || machine.errored => MUST,
            Self::Oldest => by_age(machine.created, now),
            Self::Newest => MUST - by_age(machine.created, now),
        }
    }

    /// Returns the machines that go when a set has this many too many. If all go they keep their order; of those that are equally urgent
    /// the earlier ones go, among up to twelve.
    pub fn choose(self, machines: &[Machine], count: usize, now: Timestamp) -> Vec<&Machine> {
        let mut chosen: Vec<(f64, &Machine)> = machines.iter().map(|machine| (self.priority(machine, now), machine)).collect();
        if count < machines.len() {
            sort_slice(&mut chosen, |one, other| other.0 < one.0);
            chosen.truncate(count);
        }
        chosen.into_iter().map(|(_, machine)| machine).collect()
    }
}

/// Approaches 50 in the course of ten years.
fn by_age(created: Option<Timestamp>, now: Timestamp) -> f64 {
    match created.map(|created| now.duration_since(created).as_secs_f64()) {
        Some(seconds) if seconds >= 0.0 => BETTER * (1.0 - exp(-seconds / HUNDRED_DAYS)),
        _ => NEVER,
    }
}
