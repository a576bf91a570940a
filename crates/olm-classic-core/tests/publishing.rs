//! A new catalog for those who have an operator of the old one: from every version there is one way, and it leads to the head.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use mainstay_olm_classic_core::cases;
use proptest::prelude::*;
use serde_json::Value;

use crate::scenarios::input;

/// A channel: its entries from the oldest, each with the entry it replaces and those that it skips.
#[derive(Clone, Debug, Default)]
struct Channel {
    entries: Vec<(u64, Option<u64>, Vec<u64>)>,
}

impl Channel {
    /// Publishes the next version, which skips some of the entries just before it, and what those skip: an author who forgets the latter leaves
    /// them without a way.
    fn publish(&mut self, skipped: usize) {
        let next = self.entries.len() as u64 + 1;
        let before: Vec<u64> = self.entries.iter().map(|(version, ..)| *version).collect();
        let skipped = skipped.min(before.len().saturating_sub(1));
        let (kept, over) = before.split_at(before.len() - skipped);
        let replaces = kept.iter().rev().find(|version| !self.entries.iter().any(|(_, _, skips)| skips.contains(version)));
        let inherited = self.entries.iter().filter(|(version, ..)| over.contains(version)).flat_map(|(_, _, skips)| skips.clone());
        let skips: BTreeSet<u64> = over.iter().copied().chain(inherited).collect();
        self.entries.push((next, replaces.copied(), skips.into_iter().collect()));
    }

    fn text(&self) -> String {
        let mut text = "catalog cat\n".to_owned();
        for (version, replaces, skips) in &self.entries {
            write!(text, "  a stable* a.v{version} {version}.0.0").unwrap();
            if let Some(before) = replaces {
                write!(text, " replaces a.v{before}").unwrap();
            }
            for skipped in skips {
                write!(text, " skips a.v{skipped}").unwrap();
            }
            text.push('\n');
        }
        text
    }

    fn head(&self) -> u64 {
        self.entries.len() as u64
    }
}

fn answer(world: &str) -> Value {
    cases::resolution(&input(world)).unwrap()["resolve"].clone()
}

/// The CSVs that a resolution installs.
fn installs(world: &str) -> Vec<String> {
    let answer = answer(world);
    let all = answer["install"].as_array().unwrap_or_else(|| panic!("{answer}\n{world}"));
    all.iter().map(|one| one["bundle"].as_str().unwrap().to_owned()).collect()
}

/// The versions that one goes through from an installed one; an error if two ways lead on.
fn walk(channel: &Channel, from: u64) -> Vec<String> {
    let mut path = Vec::new();
    let mut at = format!("a.v{from}");
    while path.len() <= channel.entries.len() {
        let version = at.trim_start_matches("a.v");
        let world = format!("{}csv {at} {version}.0.0 package a\nsub s a stable cat installed {at}\n", channel.text());
        let next = installs(&world);
        assert!(next.len() < 2, "one next version, not {next:?}:\n{world}");
        assert_eq!(installs(&world), next, "the same question has the same answer");
        let Some(next) = next.into_iter().next() else { return path };
        path.push(next.clone());
        at = next;
    }
    panic!("it does not end: {path:?}\n{}", channel.text());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// OLM0-UPG-03, OLM0-UPG-06, OLM0-UPG-11: for random publications, each version of the old catalog has one next version in the new one, its updates end at the
    /// head, none goes back, and a version that is skipped is never installed again.
    #[test]
    fn every_version_has_one_way_to_the_head(old in prop::collection::vec(0_usize..3, 1..6), new in prop::collection::vec(0_usize..4, 0..4)) {
        let mut channel = Channel::default();
        for skipped in &old {
            channel.publish(*skipped);
        }
        let before = channel.clone();
        for skipped in &new {
            channel.publish(*skipped);
        }
        let skipped: BTreeSet<u64> = channel.entries.iter().flat_map(|(_, _, skips)| skips.clone()).collect();
        for (version, ..) in &before.entries {
            let path = walk(&channel, *version);
            let head = format!("a.v{}", channel.head());
            if *version == channel.head() {
                prop_assert!(path.is_empty());
            } else {
                prop_assert_eq!(path.last(), Some(&head), "from {} in\n{}", version, channel.text());
            }
            let numbers: Vec<u64> = path.iter().map(|name| name.trim_start_matches("a.v").parse().unwrap()).collect();
            prop_assert!(numbers.is_sorted() && numbers.iter().all(|next| next > version && !skipped.contains(next)), "{:?} in\n{}", path, channel.text());
        }
        // A new Subscription takes the head, skips or not.
        let fresh = installs(&format!("{}sub s a stable cat\n", channel.text()));
        prop_assert_eq!(fresh, vec![format!("a.v{}", channel.head())]);
    }
}

/// OLM0-UPG-03: two entries that replace the same one are no channel.
#[test]
fn two_candidates_are_an_error() {
    let catalog = "catalog cat\n  a stable* a.v1 1.0.0\n  a stable* a.v2 2.0.0 replaces a.v1\n  a stable* a.v3 3.0.0 replaces a.v1\n";
    let wanted = "a unique replacement chain within a channel is required to determine the relative order between channel entries, but 2 replacement \
                  chains were found in channel \"stable\" of package \"a\": a.v2...a.v1, a.v3...a.v1";
    for rest in ["sub s a stable cat\n", "csv a.v1 1.0.0 package a\nsub s a stable cat installed a.v1\n"] {
        let told = answer(&format!("{catalog}{rest}"));
        assert_eq!(told["error"], wanted);
    }
}

/// OLM0-UPG-11: the newest z-release replaces all that came before it in its minor version, those that no catalog has any more included.
#[test]
fn z_streams() {
    let mut seen = BTreeMap::new();
    for (installed, version) in [("a.v1.2.0", "1.2.0"), ("a.v1.2.1", "1.2.1"), ("a.v1.2.2", "1.2.2"), ("a.v1.1.9", "1.1.9")] {
        // Of 1.2.0 to 1.2.2 nothing is left in the catalog.
        let world = format!(
            "catalog cat\n  a stable* a.v1.2.3 1.2.3 replaces a.v1.1.9 skips a.v1.2.1 range >=1.2.0 <1.2.3\n  a stable* a.v1.1.9 1.1.9\n\
             csv {installed} {version} package a\nsub s a stable cat installed {installed}\n"
        );
        seen.insert(installed, installs(&world));
    }
    assert!(seen.values().all(|next| next == &["a.v1.2.3"]), "{seen:?}");
}

/// OLM0-UPG-10: what a later entry covers by `skips` or `skipRange` is no start, unless it is an entry of the channel itself.
#[test]
fn starts() {
    let absent = |catalog: &str| answer(&format!("catalog cat\n{catalog}sub s a stable cat starting a.v2\n"));
    let refusal = "constraints not satisfiable: no operators found with name a.v2 in channel stable of package a in the catalog referenced by \
                   subscription s, subscription s exists";
    for virtual_one in [
        "  a stable* a.v3 3.0.0 range >=1.0.0 <3.0.0\n",
        "  a stable* a.v3 3.0.0 skips a.v2\n",
        "  a stable* a.v3 3.0.0 replaces a.v2\n",
        "  a stable* a.v3 3.0.0 skips a.v2\n  a fast a.v2 2.0.0\n",
    ] {
        assert_eq!(absent(virtual_one)["error"], refusal, "{virtual_one}");
    }
    let entry = absent("  a stable* a.v3 3.0.0 skips a.v2\n  a stable* a.v2 2.0.0\n");
    assert_eq!(entry["install"][0]["bundle"], "a.v2", "{entry}");
}

/// OLM0-RES-23: what an author requires is required, whichever version, channel, approval or catalog an administrator chooses; an operator that
/// they bring themselves has to fit too.
#[test]
fn dependencies_cannot_be_overridden() {
    let catalog = "catalog cat\n  a stable* a.v1 1.0.0 needs-package b >=2.0.0\n  b stable* b.v1 1.0.0\n";
    let refused = |rest: &str| {
        let answer = answer(&format!("{catalog}{rest}"));
        let error = answer["error"].as_str().unwrap_or_else(|| panic!("{answer} for {rest}")).to_owned();
        assert!(error.contains("bundle a.v1 requires an operator with package: b and with version in range: >=2.0.0"), "{error}");
    };
    refused("sub s a stable cat\n");
    refused("sub s a stable cat starting a.v1\n");
    refused("sub s a stable cat\nsub t b stable cat\n");
    refused("csv b.v1 1.0.0 package b\nsub s a stable cat\n");
    refused("catalog other priority 100\n  b stable* b.v1 1.0.0\nsub s a stable cat\nsub t b stable other\n");
}
