//! Which failure domain each index of the control plane has: existing machines keep theirs as far as the places stay balanced (MACH-CPMS-02).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use mainstay_golang::sort_slice;

use super::failure_domain::{FailureDomain, FailureDomainError, by_text, distinct};
use super::provider_spec::{SpecError, place_of};

/// The most machines that a control plane is planned for; it has three or five.
pub const MOST_REPLICAS: i32 = 1_000;

/// Places by index.
pub type Mapping = BTreeMap<i32, FailureDomain>;

/// A machine of the control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlPlaneMachine {
    /// Its name; the number behind the last `-` is its index.
    pub name: String,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// True if its deletion was asked for.
    pub deleting: bool,
    /// Its provider spec, as JSON.
    pub provider_spec: Option<String>,
}

/// Why there is no mapping, in upstream's words.
#[derive(Debug, thiserror::Error)]
pub enum MappingError {
    /// No failure domains are configured: all indexes are equal.
    #[error("no failure domains configured")]
    NoFailureDomains,
    /// A machine's provider spec cannot be read.
    #[error(
        "could not construct machine mapping: could not map indexes to failure domains for machines: could not extract failure domain from \
         machine {machine}: error getting failure domain from machine {machine}: {source}"
    )]
    Machine {
        /// Name of the machine.
        machine: String,
        /// The mistake.
        source: SpecError,
    },
    /// The number of replicas is not set.
    #[error("could not construct base failure domain mapping: spec.replicas is unset: replicas is required")]
    Replicas,
    /// The number of replicas is absurd.
    #[error("could not construct base failure domain mapping: spec.replicas is {0}: at most {MOST_REPLICAS} are planned")]
    TooMany(i32),
    /// The template's place cannot be combined with the configured ones.
    #[error("could not construct base failure domain mapping: unable to make failure domains comparable: {0}")]
    Template(#[from] FailureDomainError),
}

/// Maps indexes to failure domains. `template` is the place that the template names.
///
/// # Errors
/// See [`MappingError`].
pub fn mapping(
    machines: &[ControlPlaneMachine],
    replicas: i32,
    failure_domains: &[FailureDomain],
    template: &FailureDomain,
) -> Result<Mapping, MappingError> {
    if failure_domains.is_empty() {
        return Err(MappingError::NoFailureDomains);
    }
    let existing = existing(machines)?;
    let base = base(replicas, &distinct(failure_domains), template, &existing)?;
    Ok(reconcile(&base, existing, &deleting_indexes(machines)))
}

/// Returns the index in a machine's name.
pub fn index_of(name: &str) -> Option<i32> {
    name.rsplit('-').next().and_then(|last| last.parse().ok())
}

/// The places of the existing machines; of several with one index the youngest counts if they differ.
fn existing(machines: &[ControlPlaneMachine]) -> Result<Mapping, MappingError> {
    let mut mapping = Mapping::new();
    let mut created: BTreeMap<i32, Option<Timestamp>> = BTreeMap::new();
    for machine in machines {
        let place = place_of(machine.provider_spec.as_deref());
        let place = place.map_err(|source| MappingError::Machine { machine: machine.name.clone(), source })?;
        let Some(index) = index_of(&machine.name) else { continue };
        let differs = mapping.get(&index).is_some_and(|known| known.to_string() != place.to_string());
        if differs && created.get(&index).is_some_and(|known| *known > machine.created) {
            continue;
        }
        mapping.insert(index, place);
        created.insert(index, machine.created);
    }
    Ok(mapping)
}

/// Indexes whose machines are all being deleted.
fn deleting_indexes(machines: &[ControlPlaneMachine]) -> BTreeSet<i32> {
    let indexes =
        |deleting| machines.iter().filter(move |machine| machine.deleting == deleting).filter_map(|machine| index_of(&machine.name));
    let staying: BTreeSet<i32> = indexes(false).collect();
    indexes(true).filter(|index| !staying.contains(index)).collect()
}

/// The mapping from 0 on without regard to indexes of machines: places in use first, each as often as the others.
fn base(replicas: i32, places: &[FailureDomain], template: &FailureDomain, existing: &Mapping) -> Result<Mapping, MappingError> {
    if replicas < 1 {
        return Err(MappingError::Replicas);
    }
    if replicas > MOST_REPLICAS {
        return Err(MappingError::TooMany(replicas));
    }
    let mut places = places.iter().map(|place| place.complete(template)).collect::<Result<Vec<_>, _>>()?;
    by_text(&mut places);
    let in_use = |place: &FailureDomain| existing.values().any(|known| known == place);
    sort_slice(&mut places, |one, other| in_use(one) && !in_use(other));
    let count = existing.len().max(replicas as usize);
    Ok((0..).zip(places.into_iter().cycle().take(count)).collect())
}

fn reconcile(base: &Mapping, existing: Mapping, deleting: &BTreeSet<i32>) -> Mapping {
    let mut candidates = renumbered(base, &existing);
    let mut unmatched: BTreeSet<i32> = candidates.keys().copied().collect();
    let mut mapping = existing;
    for (index, place) in &mapping {
        // A machine that is only being deleted leaves the choice to the others.
        if deleting.contains(index) {
            continue;
        }
        if let Some(found) = candidates.iter().find(|(_, candidate)| *candidate == place).map(|(found, _)| *found) {
            swap(&mut candidates, found, *index);
            candidates.remove(index);
            unmatched.remove(index);
        }
    }
    let most = base.len().div_ceil(distinct_count(base).max(1));
    for index in unmatched {
        let Some(candidate) = candidates.remove(&index) else { continue };
        let stays = mapping.get(&index).is_some_and(|place| {
            base.values().any(|known| known == place) && mapping.values().filter(|other| *other == place).count() <= most
        });
        if !stays {
            mapping.insert(index, candidate);
        }
    }
    mapping
}

/// The base with the indexes that machines have: those that no machine has become, in order, those that only machines have.
fn renumbered(base: &Mapping, existing: &Mapping) -> Mapping {
    let mut mapping = base.clone();
    let spare: Vec<i32> = base.keys().filter(|index| !existing.contains_key(index)).copied().collect();
    let wanted: Vec<i32> = existing.keys().filter(|index| !base.contains_key(index)).copied().collect();
    for (from, to) in spare.into_iter().zip(wanted) {
        if let Some(place) = mapping.remove(&from) {
            mapping.insert(to, place);
        }
    }
    mapping
}

/// Exchanges two entries; an absent one stays absent at the other index.
fn swap(mapping: &mut Mapping, one: i32, other: i32) {
    let (first, second) = (mapping.remove(&one), mapping.remove(&other));
    mapping.extend(first.map(|place| (other, place)));
    if one != other {
        mapping.extend(second.map(|place| (one, place)));
    }
}

fn distinct_count(mapping: &Mapping) -> usize {
    let mut seen: Vec<&FailureDomain> = Vec::new();
    for place in mapping.values() {
        if !seen.contains(&place) {
            seen.push(place);
        }
    }
    seen.len()
}
