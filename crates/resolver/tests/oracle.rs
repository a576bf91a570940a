//! Joint resolution against a slow and obvious search through every set of bundles.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[allow(dead_code, reason = "the tests of explanations use the rest of it")]
use std::collections::{BTreeMap, BTreeSet};

use crate::language::World;
use crate::sample::{Outcome, Sampled, cases, sampled};
use mainstay_resolver::Change;
use mainstay_resolver::joint::solve;
use proptest::prelude::*;

/// `p<package>.v<number>.0.0`.
fn read(bundle: &str) -> (usize, usize) {
    let (package, version) = bundle.strip_prefix('p').unwrap().split_once(".v").unwrap();
    (package.parse().unwrap(), version.split('.').next().unwrap().parse().unwrap())
}

/// What was found, in the terms of the slow search; and what was added, by package.
fn found(sampled: &Sampled, world: &World) -> (Outcome, BTreeMap<usize, usize>) {
    let catalogs = world.candidates();
    let root = |subject: &String| world.roots.iter().position(|root| root.subject == *subject).unwrap();
    let (mut outcome, mut added) =
        (Outcome { unmet: BTreeSet::new(), chosen: BTreeMap::new(), additions: 0 }, BTreeMap::<usize, usize>::new());
    for component in solve(&world.problem(&catalogs)) {
        match component.outcome {
            Ok(solution) => {
                outcome.chosen.extend(solution.chosen.iter().map(|(subject, chosen)| (root(subject), read(&chosen.choice.bundle).1)));
                added.extend(solution.added.iter().map(|added| read(&added.choice.bundle)));
                assert!(solution.added.iter().all(|added| !added.because.is_empty()));
            }
            Err(conflict) => {
                outcome.unmet.extend(component.subjects.iter().map(root));
                assert!(!conflict.facts.is_empty() && !conflict.to_string().is_empty());
            }
        }
    }
    assert_eq!(outcome.chosen.len() + outcome.unmet.len(), sampled.roots.len());
    outcome.additions = added.len();
    (outcome, added)
}

impl Sampled {
    /// The same with a hint followed.
    fn changed(&self, root: usize, changes: &[Change]) -> Self {
        let mut changed = self.clone();
        let wanted = &mut changed.roots[root];
        for change in changes {
            match change {
                Change::AnyVersion => wanted.range = None,
                Change::Version(version) => wanted.range = Some(version.clone()),
                Change::Channels(channels) => wanted.fast = Some(channels == &["fast"]),
                Change::AnyChannel => wanted.fast = None,
                Change::SelfCertified => wanted.forced = true,
                Change::AddMissing => changed.add_missing = true,
                Change::AnyCatalog | Change::Catalog(_) | Change::Package(_) => unreachable!("there is one catalog, with all packages"),
            }
        }
        changed
    }
}

proptest! {
    #![proptest_config(cases(400))]

    /// MS-EXPL-01, MS-EXPL-05, OLM0-RES-05, OLM0-RES-07, OLM0-RES-19, OLM1-OWN-02: the same roots are met as in the slow search, with the same
    /// bundles and as few additions; asked again, the answer is the same.
    #[test]
    fn agrees_with_the_slow_search(sampled in sampled()) {
        let world = World::read(&sampled.text());
        let (outcome, added) = found(&sampled, &world);
        prop_assert_eq!(&outcome, &sampled.outcome());
        prop_assert!(sampled.holds(&outcome, &added), "{added:?} do not go with what was chosen");
        prop_assert_eq!(found(&sampled, &world), (outcome, added));
    }

    /// MS-EXPL-01: every hint that is given leads, in the slow search, to the very bundles that it names, and nobody is worse off.
    #[test]
    fn hints_lead_where_they_say(sampled in sampled()) {
        let world = World::read(&sampled.text());
        let catalogs = world.candidates();
        let before = sampled.outcome();
        for component in solve(&world.problem(&catalogs)) {
            let Err(conflict) = &component.outcome else { continue };
            let root = |subject: &String| world.roots.iter().position(|root| root.subject == *subject).unwrap();
            let blamed = root(&component.subjects[0]);
            for hint in &conflict.hints {
                let changed = root(&hint.subject);
                let after = sampled.changed(changed, &hint.changes).outcome();
                prop_assert!(!after.unmet.contains(&blamed), "{hint} does not help");
                prop_assert!(after.unmet.is_subset(&before.unmet), "{hint} harms others");
                let leads_to: Vec<(usize, usize)> = hint.leads_to.iter().map(|choice| read(&choice.bundle)).collect();
                for root in [blamed, changed] {
                    if let Some(number) = after.chosen.get(&root) {
                        prop_assert!(leads_to.contains(&(sampled.roots[root].package, *number)), "{hint} leads elsewhere: {after:?}");
                    }
                }
            }
        }
    }
}
