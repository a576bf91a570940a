//! Every target with its seeds and with bounded random changes of them, so that a plain test run covers what `make fuzz` looks at for longer.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use mainstay_fuzz::TARGETS;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// One change of some bytes; positions wrap around.
#[derive(Debug, Clone)]
enum Change {
    Flip(usize, u8),
    Insert(usize, Vec<u8>),
    Remove(usize, usize),
    Repeat(usize, usize, usize),
    /// Bytes of another seed.
    Splice(usize, usize, usize, usize),
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<usize>();
    // Characters that mean something to one reader or another.
    let telling = prop::sample::select(b"\"'{}[]()<>:,.=!&|*-~%\\/$@#?+0919eE \n\t\0\x7f\x80\xff".to_vec());
    prop_oneof![
        (at, prop_oneof![any::<u8>(), telling.clone()]).prop_map(|(at, byte)| Change::Flip(at, byte)),
        (at, vec(prop_oneof![any::<u8>(), telling], 1..6)).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        (at, 1..40_usize).prop_map(|(at, length)| Change::Remove(at, length)),
        (at, 1..20_usize, 1..60_usize).prop_map(|(at, length, times)| Change::Repeat(at, length, times)),
        (at, any::<usize>(), at, 1..60_usize).prop_map(|(at, seed, from, length)| Change::Splice(at, seed, from, length)),
    ]
}

fn changed(seeds: &[Vec<u8>], seed: usize, changes: &[Change]) -> Vec<u8> {
    let mut bytes = seeds[seed % seeds.len()].clone();
    for change in changes {
        let at = |position: usize| position % (bytes.len() + 1);
        match change {
            Change::Flip(position, byte) => {
                let at = at(*position);
                if let Some(there) = bytes.get_mut(at) {
                    *there = *byte;
                }
            }
            Change::Insert(position, more) => {
                let at = at(*position);
                bytes.splice(at..at, more.iter().copied());
            }
            Change::Remove(position, length) => {
                let at = at(*position);
                bytes.drain(at..(at + length).min(bytes.len()));
            }
            Change::Repeat(position, length, times) => {
                let at = at(*position);
                let part = bytes[at..(at + length).min(bytes.len())].repeat(*times);
                bytes.splice(at..at, part);
            }
            Change::Splice(position, other, from, length) => {
                let (at, other) = (at(*position), &seeds[other % seeds.len()]);
                let from = from % (other.len() + 1);
                bytes.splice(at..at, other[from..(from + length).min(other.len())].iter().copied());
            }
        }
    }
    bytes
}

#[track_caller]
fn check(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let seeds = (target.seeds)();
    for seed in &seeds {
        (target.run)(seed);
    }
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(1_500);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let inputs = prop_oneof![
        9 => (any::<usize>(), vec(change(), 1..8)).prop_map(|(seed, changes)| changed(&seeds, seed, &changes)),
        1 => vec(any::<u8>(), 0..200),
    ];
    let outcome = runner.run(&inputs, |input| {
        (target.run)(&input);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{name}: {error}");
    }
}

/// Makes a test of each target.
macro_rules! smoke {
    ($($(#[doc = $text:literal])* $name:ident,)*) => {
        $($(#[doc = $text])* #[test] fn $name() { check(stringify!($name)); })*

        /// No target is forgotten.
        #[test]
        fn every_target_has_a_test() {
            let tested = [$(stringify!($name)),*];
            assert_eq!(TARGETS.iter().map(|target| target.name).collect::<Vec<_>>(), tested);
        }
    };
}

smoke! {
    /// KAPI-SRV-07: JSON bodies of built-in kinds decode to themselves or are refused.
    json_bodies,
    /// KAPI-SRV-07: YAML bodies read back as they were read, or are refused.
    yaml_bodies,
    /// KAPI-SRV-07: protobuf bodies decode to what encodes to the same, or are refused.
    protobuf_bodies,
    /// KAPI-REST-04: names of any letters are allowed or refused.
    names,
    /// KAPI-PATCH-01: patches apply or are refused; a merge patch changes nothing the second time.
    patches,
    /// KAPI-SSA-01: what is applied again changes nothing and conflicts with nobody who says the same.
    applies,
    /// KAPI-REST-02: selectors are read or refused.
    selectors,
    /// KAPI-REST-01: paths and queries are read or refused.
    urls,
    /// KAPI-SRV-06: whatever frames a client sends, its connection ends with it, and nothing of it is kept.
    http2_frames,
    /// KAPI-SRV-06: whatever becomes of connections, somebody new has a place, and nothing is kept of those that are gone.
    connections,
    /// KAPI-CRD-01: printer columns show what their paths find, or nothing.
    columns,
    /// KAPI-CRD-02: CEL compiles or not, and runs within its limit.
    cel,
    /// KAPI-ADM-02: variables that build on each other have values or fail.
    variables,
    /// KAPI-AUTH-01: only our own tokens identify.
    tokens,
    /// KAPI-AUTH-01: only certificates of our authority identify.
    certificates,
    /// CATLG-07, CATLG-10: catalogs in JSON are refused with a place, or render to what renders to itself.
    catalog_json,
    /// CATLG-07, CATLG-10: catalogs in YAML are refused with a place, or render to what renders to itself.
    catalog_yaml,
    /// CATLG-64, CATLG-65: templates are refused, or compile to catalogs that become templates again.
    templates,
    /// CATLG-08: patterns are refused, or leave files in their order and touch no other folder.
    index_ignore,
    /// OLM1-CAT-07, CATLG-45: an index of a catalog that was changed is refused, or what it answers stays inside of it.
    catalog_indexes,
    /// OLM1-FBC-10: versions print as they were read, and ranges of both dialects are refused or hold.
    version_ranges,
    /// CATLG-35, CATLG-66: selections and compositions are read or refused, and name folders that cannot lead elsewhere.
    selections,
    /// CATLG-35: any catalog can be looked at; what is filtered from one is valid.
    catalog_looks,
    /// OLM0-BUNDLE-02: a tree of files is a bundle that every reader and validator understands, or it is refused.
    bundles,
    /// CATLG-48: annotations read back as they were written, selectors are read or refused.
    bundle_annotations,
    /// CATLG-32, OLM0-BUNDLE-02: whatever a folder holds, reading it ends, and what came from an image tells nothing of its host.
    bundle_folders,
    /// OLM0-RES-05: worlds have one answer, and parts of an answered namespace are answered.
    classic_worlds,
    /// OLM0-BUNDLE-11: an annotation with properties reads back as it was read, or is refused.
    classic_properties,
    /// OLM0-API-21: files of a bundle give steps in order, or a reason.
    classic_bundles,
    /// MS-EXPL-03: the graphs of whatever a catalog says can be drawn in every form, and no box is lost.
    update_graphs,
    /// CATLG-63: index databases read as catalogs that can be written and read again, or are refused.
    databases,
    /// MS-OFF-01: nothing gets out of the root that a layer is unpacked in, and no limit is passed.
    image_entries,
    image_layers,
    /// CATLG-51: manifests and indexes are read or refused, and no more of them than is allowed.
    image_manifests,
    /// OLM1-GEN-12: whatever registries.conf says, images are looked for in well-formed places only.
    registries_conf,
    /// MACH-MC-08: Ignition configs are read or refused, and what is written is read as the same.
    ignition_configs,
    /// MACH-MC-09: Butane configs become an Ignition config that can be read, or are refused.
    butane_configs,
    /// OLM1-BUILD-11: auth files are read or refused, and no password is shown.
    auth_files,
    /// OLM1-BUILD-01: an image holds the files it was built of, or is refused.
    image_builds,
}
