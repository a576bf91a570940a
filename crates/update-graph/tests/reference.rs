//! Graphs against a naive reading of the specification: every pair of releases is asked, one rule after the other.

use std::collections::{BTreeMap, BTreeSet};

use mainstay_update_graph::graph_data::Files;
use mainstay_update_graph::{Graph, GraphData, GraphLimits, Parameters, Release, ReleaseMetadata, answer, build};
use proptest::prelude::*;
use serde_json::json;

/// A small world: versions are `1.0.N`.
#[derive(Debug, Clone)]
struct World {
    /// Version, architecture, versions that it can be updated from (lower ones alone).
    releases: BTreeMap<(usize, &'static str), BTreeSet<usize>>,
    /// Channel, versions; with an architecture the version counts for that alone.
    channels: BTreeMap<&'static str, BTreeSet<(usize, Option<&'static str>)>>,
    /// Target, architecture, expression, risk.
    blocked: Vec<(usize, Option<&'static str>, &'static str, Option<&'static str>)>,
    /// Labels `previous.add` and `previous.remove` of a version.
    added: BTreeMap<usize, usize>,
    removed: BTreeMap<usize, Option<usize>>,
}

const ARCHITECTURES: [&str; 2] = ["amd64", "arm64"];
const CHANNELS: [&str; 2] = ["fast-1.0", "stable-1.0"];
const PATTERNS: [&str; 6] = [".*", r"^1\.0\.[0-3][+]", "[+]arm64$", "1[.]0[.]2", "^nothing$", r"1\.0\.(1|4)\+amd64"];
const RISKS: [&str; 3] = ["A", "B", "C"];

/// What a pattern of the list means, without an engine.
fn matches(pattern: &str, version: usize, architecture: &str) -> bool {
    match pattern {
        ".*" => true,
        r"^1\.0\.[0-3][+]" => version <= 3,
        "[+]arm64$" => architecture == "arm64",
        "1[.]0[.]2" => version == 2,
        r"1\.0\.(1|4)\+amd64" => architecture == "amd64" && (version == 1 || version == 4),
        _ => false,
    }
}

fn world() -> impl Strategy<Value = World> {
    let version = 0..7_usize;
    let architecture = prop::sample::select(&ARCHITECTURES[..]);
    let some_architecture = prop::option::of(architecture.clone());
    let releases = prop::collection::btree_map((version.clone(), architecture), prop::collection::btree_set(version.clone(), 0..5), 1..12)
        .prop_map(|all| {
            all.into_iter().map(|(key, previous)| (key, previous.into_iter().filter(|from| *from < key.0).collect())).collect()
        });
    let channels = prop::collection::btree_map(
        prop::sample::select(&CHANNELS[..]),
        prop::collection::btree_set((version.clone(), some_architecture.clone()), 1..8),
        1..3,
    );
    let blocked = prop::collection::vec(
        (version.clone(), some_architecture, prop::sample::select(&PATTERNS[..]), prop::option::of(prop::sample::select(&RISKS[..]))),
        0..6,
    );
    let added = prop::collection::btree_map(version.clone(), version.clone(), 0..3)
        .prop_map(|all| all.into_iter().filter(|(to, from)| from < to).collect());
    let removed = prop::collection::btree_map(version.clone(), prop::option::of(version), 0..3);
    (releases, channels, blocked, added, removed).prop_map(|(releases, channels, blocked, added, removed)| World {
        releases,
        channels,
        blocked,
        added,
        removed,
    })
}

fn text(version: usize, architecture: Option<&str>) -> String {
    architecture.map_or_else(|| format!("1.0.{version}"), |architecture| format!("1.0.{version}+{architecture}"))
}

impl World {
    fn releases(&self) -> Vec<Release> {
        let release = |((version, architecture), previous): (&(usize, &str), &BTreeSet<usize>)| {
            let previous: Vec<String> = previous.iter().map(|from| text(*from, None)).collect();
            let document = json!({"kind": "cincinnati-metadata-v0", "version": text(*version, None), "previous": previous});
            let digest = format!("sha256:{version}{architecture}");
            Release::of_image(format!("r@{digest}"), &digest, architecture, ReleaseMetadata::read(&document).unwrap()).unwrap()
        };
        self.releases.iter().map(release).collect()
    }

    fn files(&self) -> Files {
        let mut files = Files::from([("version".to_owned(), b"1.1.0".to_vec())]);
        for (name, versions) in &self.channels {
            let versions: Vec<String> = versions.iter().map(|(version, architecture)| text(*version, *architecture)).collect();
            files.insert(format!("channels/{name}.yaml"), json!({"name": name, "versions": versions}).to_string().into_bytes());
        }
        for (number, (to, architecture, from, risk)) in self.blocked.iter().enumerate() {
            let mut file = json!({"to": text(*to, *architecture), "from": from});
            if let Some(risk) = risk {
                file["name"] = json!(risk);
                file["url"] = json!(format!("https://kb.example/{risk}"));
                file["message"] = json!(format!("{risk} hurts."));
                file["matchingRules"] = json!([{"type": "PromQL", "promql": {"promql": risk}}]);
            }
            files.insert(format!("blocked-edges/{number:02}.yaml"), file.to_string().into_bytes());
        }
        let mut labels = serde_json::Map::new();
        let prefix = "io.openshift.upgrades.graph.previous";
        for (to, from) in &self.added {
            labels.entry(text(*to, None)).or_insert_with(|| json!({}))[format!("{prefix}.add")] = json!(text(*from, None));
        }
        for (to, from) in &self.removed {
            let from = from.map_or_else(|| "*".to_owned(), |from| text(from, None));
            labels.entry(text(*to, None)).or_insert_with(|| json!({}))[format!("{prefix}.remove")] = json!(from);
        }
        files.insert("raw/metadata.json".to_owned(), serde_json::to_vec(&labels).unwrap());
        files
    }

    /// What a client sees: versions, plain edges, and the risks of conditional edges in the order of the files.
    fn expected(&self, channel: &str, architecture: &str) -> Seen {
        let in_channel = |version: usize| {
            let own = self.channels.get(channel);
            own.is_some_and(|versions| {
                versions.contains(&(version, None))
                    || versions.iter().any(|one| *one == (version, Some(if architecture == "amd64" { "amd64" } else { "arm64" })))
            })
        };
        let exists =
            |version: usize| self.releases.keys().any(|key| *key == (version, if architecture == "amd64" { "amd64" } else { "arm64" }));
        let shown = |version: usize| exists(version) && in_channel(version);
        let mut seen = Seen::default();
        for to in 0..7 {
            if shown(to) {
                seen.versions.insert(text(to, None));
            }
            for from in 0..7 {
                if !shown(to) || !shown(from) {
                    continue;
                }
                let previous = self.releases.iter().find(|(key, _)| key.0 == to && key.1 == architecture).map(|(_, previous)| previous);
                let declared = previous.is_some_and(|previous| previous.contains(&from)) || self.added.get(&to) == Some(&from);
                if !declared {
                    continue;
                }
                let blocking = self.blocked.iter().filter(|(target, of, pattern, _)| {
                    *target == to && of.is_none_or(|of| of == architecture) && matches(pattern, from, architecture)
                });
                let blocking: Vec<_> = blocking.collect();
                let mut risks: Vec<String> = Vec::new();
                for risk in blocking.iter().filter_map(|(_, _, _, risk)| *risk) {
                    if !risks.contains(&risk.to_owned()) {
                        risks.push(risk.to_owned());
                    }
                }
                let removed = self.removed.get(&to).is_some_and(|removed| removed.is_none() || *removed == Some(from));
                let edge = (text(from, None), text(to, None));
                if blocking.is_empty() && !removed {
                    seen.plain.insert(edge.clone());
                }
                if !risks.is_empty() {
                    seen.conditional.insert(edge, risks);
                }
            }
        }
        seen
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    versions: BTreeSet<String>,
    plain: BTreeSet<(String, String)>,
    conditional: BTreeMap<(String, String), Vec<String>>,
}

fn seen(graph: &Graph) -> Seen {
    let version = |index: usize| graph.nodes[index].version.clone();
    let mut conditional = BTreeMap::new();
    for group in &graph.conditional_edges {
        for edge in &group.edges {
            let risks = group.risks.iter().map(|risk| risk.name.clone()).collect();
            assert_eq!(conditional.insert((edge.from.clone(), edge.to.clone()), risks), None, "an edge stands in one group alone");
        }
    }
    Seen {
        versions: graph.nodes.iter().map(|node| node.version.clone()).collect(),
        plain: graph.edges.iter().map(|(from, to)| (version(*from), version(*to))).collect(),
        conditional,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// CVO-OSUS-07, CVO-OSUS-13, CVO-GD-02, CVO-GD-04, CVO-GD-05: nodes, edges and risks of every channel and architecture are what the
    /// specification says, read rule by rule.
    #[test]
    fn graphs_equal_the_naive_reading(world in world()) {
        let data = GraphData::read(&world.files()).unwrap();
        let built = build(world.releases(), &data, &GraphLimits::default()).unwrap();
        for channel in CHANNELS {
            for architecture in ARCHITECTURES {
                let parameters = Parameters { channel: channel.to_owned(), architecture: architecture.to_owned() };
                let graph = answer(&built, &parameters);
                prop_assert_eq!(seen(&graph), world.expected(channel, architecture), "{} {}", channel, architecture);
                let indices = graph.edges.iter().flat_map(|(from, to)| [from, to]);
                prop_assert!(indices.into_iter().all(|index| *index < graph.nodes.len()));
                prop_assert!(graph.nodes.iter().all(|node| !node.metadata.contains_key("io.openshift.upgrades.graph.release.arch")));
            }
        }
    }

    /// CVO-OSUS-08: the order in which releases are found does not show.
    #[test]
    fn the_order_of_releases_does_not_show(world in world(), seed in any::<u64>()) {
        let data = GraphData::read(&world.files()).unwrap();
        let mut shuffled = world.releases();
        let mut state = seed;
        for index in (1..shuffled.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            shuffled.swap(index, (state >> 33) as usize % (index + 1));
        }
        let limits = GraphLimits::default();
        prop_assert_eq!(build(shuffled, &data, &limits).unwrap(), build(world.releases(), &data, &limits).unwrap());
    }
}
