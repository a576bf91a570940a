//! The order in which bundles are added.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::common;
use proptest::prelude::*;

const CHAIN: [&str; 5] = ["foo-1.0.0", "foo-1.1.0", "foo-1.2.0", "foo-1.2.1", "foo-1.3.0"];

fn catalog_of(orders: &[Vec<&str>], flags: &[&str]) -> String {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("index.db");
    for names in orders {
        common::add(&path, names, flags).unwrap();
    }
    common::rendered(&path)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// CATLG-54: what is added together makes one catalog, whatever the order, and whether the older part came before.
    #[test]
    fn replaces_mode(order in Just(CHAIN.to_vec()).prop_shuffle(), cut in 0usize..5) {
        let expected = catalog_of(&[CHAIN.to_vec()], &[]);
        prop_assert_eq!(&catalog_of(std::slice::from_ref(&order), &[]), &expected);
        let is_old = |name: &&str| CHAIN[..cut].contains(name);
        let (old, new): (Vec<&str>, Vec<&str>) = order.iter().partition(|name| is_old(name));
        let steps: Vec<Vec<&str>> = [old, new].into_iter().filter(|names| !names.is_empty()).collect();
        prop_assert_eq!(&catalog_of(&steps, &[]), &expected);
    }

    /// CATLG-54: by version, what is added together makes one catalog in any order; the highest version decides about the default channel.
    #[test]
    fn semver_mode_together(order in Just(CHAIN.to_vec()).prop_shuffle()) {
        let found = catalog_of(std::slice::from_ref(&order), &["semver"]);
        prop_assert_eq!(&found, &catalog_of(&[CHAIN.to_vec()], &["semver"]));
        prop_assert!(found.contains("\"defaultChannel\": \"stable\""));
    }

    /// CATLG-54: by version, bundles of one channel may come one by one in any order.
    #[test]
    fn semver_mode(order in Just(vec!["bar-1.0.0", "bar-1.0.1", "bar-1.0.2"]).prop_shuffle()) {
        let steps: Vec<Vec<&str>> = order.iter().map(|name| vec![*name]).collect();
        let edges = |text: &str| -> Vec<String> {
            text.lines().filter(|line| line.contains("\"replaces\"") || line.contains("\"defaultChannel\"")).map(str::to_owned).collect()
        };
        let found = catalog_of(&steps, &["semver"]);
        let expected = catalog_of(&[vec!["bar-1.0.0"], vec!["bar-1.0.1"], vec!["bar-1.0.2"]], &["semver"]);
        prop_assert_eq!(edges(&found), edges(&expected));
        prop_assert_eq!(edges(&found).len(), 3);
    }
}
