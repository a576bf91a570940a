//! Rules that hold for every payload.

use std::collections::BTreeSet;

use mainstay_release::{Cut, FileName, Files, Load, Mode, Payload, Reconcile, TaskGraph, Values};
use proptest::prelude::*;

/// Names in load order: levels, components, odd ones, and whether each is a Job.
fn payload() -> impl Strategy<Value = (Vec<String>, Vec<bool>)> {
    let name = prop_oneof![
        8 => (0..4_u8, 0..4_u8, 0..3_u8).prop_map(|(level, component, file)| format!("0000_{level}0_c{component}_{file:02}.yaml")),
        1 => (0..3_u8).prop_map(|file| format!("0000_20_odd.{file}.yaml")),
    ];
    prop::collection::vec((name, prop::bool::weighted(0.08)), 0..40).prop_map(|mut all| {
        all.sort();
        all.into_iter().unzip()
    })
}

/// The tasks that are surely done before each task.
fn ancestors(graph: &TaskGraph, tasks: usize) -> Vec<BTreeSet<usize>> {
    let nodes = graph.nodes();
    let mut before = vec![None::<BTreeSet<usize>>; nodes.len()];
    // Numbers do not follow the order: nodes are visited until all of theirs are known.
    while let Some(at) = (0..nodes.len()).find(|&at| before[at].is_none() && nodes[at].before.iter().all(|&other| before[other].is_some()))
    {
        let mut all = BTreeSet::new();
        for &other in &nodes[at].before {
            all.extend(before[other].iter().flatten().copied());
            all.extend(nodes[other].tasks.iter().copied());
        }
        before[at] = Some(all);
    }
    let mut found = vec![BTreeSet::new(); tasks];
    for (node, before) in nodes.iter().zip(before) {
        let mut sure = before.expect("no node waits for itself");
        for &task in &node.tasks {
            found[task].clone_from(&sure);
            sure.insert(task);
        }
    }
    found
}

proptest! {
    /// CVO-GRAPH-02..05: every task once, edges both ways, Jobs as barriers, order within a component, runlevels in sequence while
    /// updating, components of a runlevel free of each other.
    #[test]
    fn graphs_keep_the_rules((names, jobs) in payload(), attempt in 0..40_u32) {
        let files: Vec<&str> = names.iter().map(String::as_str).collect();
        for mode in [Mode::Initializing, Mode::Updating, Mode::Reconciling(Reconcile { attempt })] {
            let graph = TaskGraph::of(&files, |task| jobs[task], Some(Cut::from(mode)));
            let mut all: Vec<usize> = graph.nodes().iter().flat_map(|node| node.tasks.clone()).collect();
            all.sort_unstable();
            prop_assert_eq!(&all, &(0..files.len()).collect::<Vec<_>>());
            for (at, node) in graph.nodes().iter().enumerate() {
                prop_assert!(node.before.iter().all(|&other| graph.nodes()[other].after.contains(&at)));
                prop_assert!(node.after.iter().all(|&other| graph.nodes()[other].before.contains(&at)));
            }
            let sure = ancestors(&graph, files.len());
            for early in 0..files.len() {
                for late in early + 1..files.len() {
                    prop_assert!(!sure[early].contains(&late), "{} before {}", late, early);
                    let between = jobs[early] || jobs[late] || jobs[early..late].iter().any(|job| *job);
                    let (one, other) = (FileName::parse(files[early]), FileName::parse(files[late]));
                    let must = match (one, other) {
                        (Some(one), Some(other)) => one == other || mode == Mode::Updating && one.level != other.level,
                        _ => mode == Mode::Updating,
                    };
                    if between || must {
                        prop_assert!(sure[late].contains(&early), "{:?}: {} before {}", mode, files[early], files[late]);
                    }
                    // Without a Job or an odd name anywhere, components of one level wait for none of each other.
                    let plain = !jobs.contains(&true) && files.iter().all(|file| FileName::parse(file).is_some());
                    if plain && one.map(|one| one.level) == other.map(|other| other.level) && one != other {
                        prop_assert!(!sure[late].contains(&early), "{:?}: {} waits for {}", mode, files[late], files[early]);
                    }
                }
            }
        }
    }

    /// CVO-REL-04: a payload of any content is loaded or refused.
    #[test]
    fn hostile_payloads(metadata: Vec<u8>, references: Vec<u8>, manifest in "(?s).{0,200}", bytes: Vec<u8>) {
        let mut files = Files::default();
        let good = br#"{"kind": "cincinnati-metadata-v0", "version": "1.0.0"}"#.to_vec();
        let named = br#"{"kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "metadata": {"name": "1.0.0"}}"#.to_vec();
        let load = Load { image: "i", profile: "p", exclude_identifier: "", feature_set: "", known_capabilities: None, place: "/" };
        for (metadata, references) in [(metadata, references.clone()), (good.clone(), references), (good, named)] {
            files.add("release-manifests/release-metadata", metadata).unwrap();
            files.add("release-manifests/image-references", references).unwrap();
            files.add("manifests/a.yaml", manifest.clone().into()).unwrap();
            files.add("release-manifests/b.json", bytes.clone()).unwrap();
            if let Err(error) = Payload::load(&files, load) {
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }
}

/// CVO-REL-05, CVO-REL-08: a template that `release extract` wrote anew, with an action that is broken over lines.
#[test]
fn templates_written_anew() {
    let mut files = Files::default();
    let text =
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: demo\ndata:\n  text: 'a {{ \"{{ if\n    b }}\" }} {{.ClusterProfile}}'\n";
    files.add("release-manifests/0000_90_cluster-version-operator_1.yaml", text.into()).unwrap();
    let values = Values { release_image: "r.example/a@sha256:1", cluster_profile: "hosted" };
    let manifests = Payload::all(&files, values, "test").unwrap();
    assert_eq!(manifests[0].object()["data"]["text"], "a {{ if b }} hosted");
}
