//! Building and answering, as a table: releases and files in, what a client sees out.

use mainstay_update_graph::graph_data::Files;
use mainstay_update_graph::{BuildError, BuiltGraph, Graph, GraphData, GraphLimits, Parameters, Release, ReleaseMetadata, answer, build};
use serde_json::{Value, json};

/// A release: version, architecture, `previous`, `next`.
fn release(version: &str, architecture: &str, previous: &[&str], next: &[&str]) -> Release {
    labelled(version, architecture, previous, next, json!({}))
}

fn labelled(version: &str, architecture: &str, previous: &[&str], next: &[&str], metadata: Value) -> Release {
    let document = json!({"kind": "cincinnati-metadata-v0", "version": version, "previous": previous, "next": next, "metadata": metadata});
    let digest = format!("sha256:{version}-{architecture}");
    Release::of_image(format!("r@{digest}"), &digest, architecture, ReleaseMetadata::read(&document).unwrap()).unwrap()
}

fn files(list: &[(&str, &str)]) -> Files {
    let mut files: Files = list.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect();
    files.entry("version".to_owned()).or_insert_with(|| b"1.2.0".to_vec());
    files
}

fn built(releases: Vec<Release>, list: &[(&str, &str)]) -> Result<BuiltGraph, BuildError> {
    build(releases, &GraphData::read(&files(list)).unwrap(), &GraphLimits::default())
}

fn asked(graph: &BuiltGraph, channel: &str, architecture: &str) -> Graph {
    answer(graph, &Parameters { channel: channel.to_owned(), architecture: architecture.to_owned() })
}

/// A graph on one line: `4.1.0 4.1.1 | 4.1.0>4.1.1 | 4.1.0>4.1.2:A,B`.
fn shown(graph: &Graph) -> String {
    let nodes: Vec<&str> = graph.nodes.iter().map(|node| node.version.as_str()).collect();
    let edges: Vec<String> = graph.edges.iter().map(|(from, to)| format!("{}>{}", nodes[*from], nodes[*to])).collect();
    let groups = graph.conditional_edges.iter().flat_map(|group| {
        let risks: Vec<&str> = group.risks.iter().map(|risk| risk.name.as_str()).collect();
        group.edges.iter().map(move |edge| format!("{}>{}:{}", edge.from, edge.to, risks.join(",")))
    });
    let conditional: Vec<String> = groups.collect();
    format!("{} | {} | {}", nodes.join(" "), edges.join(" "), conditional.join(" "))
}

const ALL: (&str, &str) = ("channels/fast-4.1.yaml", "name: fast-4.1\nversions: [4.0.9, 4.1.0, 4.1.1, 4.1.2]\n");

fn chain() -> Vec<Release> {
    vec![
        release("4.0.9", "amd64", &[], &[]),
        release("4.1.0", "amd64", &["4.0.9"], &[]),
        release("4.1.1", "amd64", &["4.1.0", "4.0.9"], &["4.1.2"]),
        release("4.1.2", "amd64", &["4.1.0"], &[]),
    ]
}

const WHOLE: &str = "4.0.9 4.1.0 4.1.1 4.1.2 | 4.0.9>4.1.0 4.0.9>4.1.1 4.1.0>4.1.1 4.1.0>4.1.2 4.1.1>4.1.2 | ";

fn risk(to: &str, from: &str, name: &str) -> String {
    format!("to: {to}\nfrom: {from}\nurl: u\nname: {name}\nmessage: m\nmatchingRules: [{{type: Always}}]\n")
}

fn labels(version: &str, key: &str, value: &str) -> String {
    json!({version: {format!("io.openshift.upgrades.graph.{key}"): value}}).to_string()
}

/// CVO-OSUS-13, CVO-GD-04, CVO-GD-05: edges of releases, of labels, and what blocked edges take from them.
#[test]
fn edges() {
    let blocked = |text: &str| vec![ALL, ("blocked-edges/a.yaml", Box::leak(text.to_owned().into_boxed_str()) as &str)];
    let raw = |text: String| vec![ALL, ("raw/metadata.json", Box::leak(text.into_boxed_str()) as &str)];
    let two = |first: &str, second: &str| {
        let text = |text: &str| Box::leak(text.to_owned().into_boxed_str()) as &str;
        vec![ALL, ("blocked-edges/a.yaml", text(first)), ("blocked-edges/b.yaml", text(second))]
    };
    let without = |edges: &[&str]| {
        let mut text = WHOLE.to_owned();
        for edge in edges {
            text = text.replacen(&format!("{edge} "), "", 1);
        }
        text
    };
    let with = |text: String, conditional: &str| format!("{text}{conditional}");
    for (list, expected) in [
        (vec![ALL], WHOLE.to_owned()),
        (blocked("to: 4.1.1\nfrom: .*\n"), without(&["4.0.9>4.1.1", "4.1.0>4.1.1"])),
        (blocked("to: 4.1.1\nfrom: ^4[.]0\n"), without(&["4.0.9>4.1.1"])),
        (blocked("to: 4.1.1\nfrom: 4[.]1[.]0\n"), without(&["4.1.0>4.1.1"])),
        (blocked("to: 4.1.1\nfrom: '[+]amd64$'\n"), without(&["4.0.9>4.1.1", "4.1.0>4.1.1"])),
        (blocked("to: 4.1.1\nfrom: ^4[.]1[.]0$\n"), WHOLE.to_owned()),
        (blocked("to: 4.1.1+amd64\nfrom: .*\n"), without(&["4.0.9>4.1.1", "4.1.0>4.1.1"])),
        (blocked("to: 4.1.1+arm64\nfrom: .*\n"), WHOLE.to_owned()),
        (blocked("to: 4.9.9\nfrom: .*\n"), WHOLE.to_owned()),
        (blocked("to: 4.1.1\nfrom: .*\nfixedIn: 4.1.2\n"), without(&["4.0.9>4.1.1", "4.1.0>4.1.1"])),
        (blocked(&risk("4.1.2", ".*", "A")), with(without(&["4.1.0>4.1.2", "4.1.1>4.1.2"]), "4.1.0>4.1.2:A 4.1.1>4.1.2:A")),
        (blocked(&risk("4.1.2", "4[.]1[.]1[+]", "A")), with(without(&["4.1.1>4.1.2"]), "4.1.1>4.1.2:A")),
        (blocked(&risk("4.1.2", "^4[.]0", "A")), WHOLE.to_owned()),
        (
            two(&risk("4.1.2", ".*", "A"), &risk("4.1.2", "4[.]1[.]1", "B")),
            with(without(&["4.1.0>4.1.2", "4.1.1>4.1.2"]), "4.1.0>4.1.2:A 4.1.1>4.1.2:A,B"),
        ),
        (
            two(&risk("4.1.2", ".*", "A"), &risk("4.1.2", ".*", "A")),
            with(without(&["4.1.0>4.1.2", "4.1.1>4.1.2"]), "4.1.0>4.1.2:A 4.1.1>4.1.2:A"),
        ),
        (two(&risk("4.1.2", "4[.]1[.]1", "A"), "to: 4.1.2\nfrom: .*\n"), with(without(&["4.1.0>4.1.2", "4.1.1>4.1.2"]), "4.1.1>4.1.2:A")),
        (two("to: 4.1.2\nfrom: 4[.]1[.]0\n", "to: 4.1.2\nfrom: 4[.]1[.]1\n"), without(&["4.1.0>4.1.2", "4.1.1>4.1.2"])),
        (raw(labels("4.1.2", "previous.add", "4.0.9")), WHOLE.replace("4.0.9>4.1.1 ", "4.0.9>4.1.1 4.0.9>4.1.2 ")),
        (raw(labels("4.1.2", "previous.add", "4.0.9, 4.9.9,")), WHOLE.replace("4.0.9>4.1.1 ", "4.0.9>4.1.1 4.0.9>4.1.2 ")),
        (raw(labels("4.1.2", "previous.add", "4.1.0")), WHOLE.to_owned()),
        (raw(labels("4.0.9", "next.add", "4.1.2")), WHOLE.replace("4.0.9>4.1.1 ", "4.0.9>4.1.1 4.0.9>4.1.2 ")),
        (raw(labels("4.1.2", "previous.remove", "4.1.0")), without(&["4.1.0>4.1.2"])),
        (raw(labels("4.1.2", "previous.remove", "*")), without(&["4.1.0>4.1.2", "4.1.1>4.1.2"])),
        (raw(labels("4.1.2", "previous.remove", "4.0.9")), WHOLE.to_owned()),
        (raw(labels("4.1.2", "previous.remove_regex", "4[.]1[.]1")), without(&["4.1.1>4.1.2"])),
        (raw(labels("4.1.2", "previous.remove_regex", ".*")), without(&["4.1.0>4.1.2", "4.1.1>4.1.2"])),
        (raw(labels("4.1.0", "next.remove", "4.1.1,4.1.2")), without(&["4.1.0>4.1.1", "4.1.0>4.1.2"])),
        (raw(labels("4.1.0", "release.remove", "true")), "4.0.9 4.1.1 4.1.2 | 4.0.9>4.1.1 4.1.1>4.1.2 | ".to_owned()),
        (raw(labels("4.1.0", "release.remove", "yes")), WHOLE.to_owned()),
        (raw(labels("4.7.0", "previous.add", "4.1.0")), WHOLE.to_owned()),
    ] {
        let found = shown(&asked(&built(chain(), &list).unwrap(), "fast-4.1", "amd64"));
        let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(plain(&found), plain(&expected), "{list:?}");
    }
}

/// CVO-OSUS-07, CVO-GD-02: which releases a client sees, by channel and architecture; every pair of a world is asked.
#[test]
fn channels_and_architectures() {
    let mut releases = Vec::new();
    for architecture in ["amd64", "arm64", "multi"] {
        for (version, previous) in [("4.1.0", &[][..]), ("4.1.1", &["4.1.0"][..]), ("4.1.2", &["4.1.0", "4.1.1"][..])] {
            releases.push(release(version, architecture, previous, &[]));
        }
    }
    let list = [
        ("channels/a.yaml", "name: fast-4.1\nversions: [4.1.0, 4.1.1, 4.1.2]\n"),
        ("channels/b.yaml", "name: stable-4.1\nversions: [4.1.0, 4.1.2+arm64]\n"),
        ("channels/c.yaml", "name: eus-4.1\nversions: [4.1.2+multi, 4.1.1+multi]\n"),
        ("channels/d.yaml", "name: candidate-4.1\nversions: []\n"),
        ("blocked-edges/a.yaml", "to: 4.1.2\nfrom: 4[.]1[.]0[+]arm64\nurl: u\nname: Arm\nmessage: m\nmatchingRules: [{type: Always}]\n"),
    ];
    let graph = built(releases, &list).unwrap();
    let whole = "4.1.0 4.1.1 4.1.2 | 4.1.0>4.1.1 4.1.0>4.1.2 4.1.1>4.1.2 | ";
    for (channel, architecture, expected) in [
        ("fast-4.1", "amd64", whole),
        ("fast-4.1", "multi", whole),
        ("fast-4.1", "arm64", "4.1.0 4.1.1 4.1.2 | 4.1.0>4.1.1 4.1.1>4.1.2 | 4.1.0>4.1.2:Arm"),
        ("fast-4.1", "s390x", " |  | "),
        ("stable-4.1", "amd64", "4.1.0 |  | "),
        ("stable-4.1", "arm64", "4.1.0 4.1.2 |  | 4.1.0>4.1.2:Arm"),
        ("stable-4.1", "multi", "4.1.0 |  | "),
        ("eus-4.1", "amd64", " |  | "),
        ("eus-4.1", "multi", "4.1.1 4.1.2 | 4.1.1>4.1.2 | "),
        ("candidate-4.1", "amd64", " |  | "),
        ("fast", "amd64", " |  | "),
        ("fast-4.1x", "amd64", " |  | "),
    ] {
        assert_eq!(shown(&asked(&graph, channel, architecture)), expected, "{channel} {architecture}");
    }
    assert_eq!(graph.channels().into_iter().collect::<Vec<_>>(), ["eus-4.1", "fast-4.1", "stable-4.1"]);
    assert_eq!(graph.architectures().into_iter().collect::<Vec<_>>(), ["amd64", "arm64", "multi"]);
}

/// CVO-GD-03, CVO-OSUS-02, CVO-OSUS-07: the labels of a node: channels sorted, the digest there, the architecture gone.
#[test]
fn labels_of_nodes() {
    let channel = |name: &str| (format!("channels/{name}.yaml"), format!("name: {name}\nversions: [4.1.0]\n"));
    let own: Vec<(String, String)> = ["stable-4.10", "fast-4.9", "stable-4.9", "fast-4.10", "eus-4.10", "dev"].map(channel).into();
    let list: Vec<(&str, &str)> = own.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let own = labelled(
        "4.1.0",
        "amd64",
        &[],
        &[],
        json!({"url": "https://e.example", "io.openshift.upgrades.graph.release.channels": "candidate-4.9, fast-4.9"}),
    );
    let graph = asked(&built(vec![own], &list).unwrap(), "fast-4.9", "amd64");
    assert_eq!(
        json!(graph),
        json!({
            "version": 1,
            "nodes": [{"version": "4.1.0", "payload": "r@sha256:4.1.0-amd64", "metadata": {
                "url": "https://e.example",
                "io.openshift.upgrades.graph.release.channels": "candidate-4.9,fast-4.9,stable-4.9,eus-4.10,fast-4.10,stable-4.10,dev",
                "io.openshift.upgrades.graph.release.manifestref": "sha256:4.1.0-amd64",
            }}],
            "edges": [],
            "conditionalEdges": [],
        })
    );
}

/// CVO-OSUS-13, CVO-GD-04: what cannot be built, and why.
#[test]
fn refused() {
    let words = |releases: Vec<Release>, list: &[(&str, &str)]| built(releases, list).unwrap_err().to_string();
    let twin = Release { payload: "r@sha256:other".to_owned(), ..release("4.1.0", "amd64", &[], &[]) };
    let twin = Release {
        metadata: ReleaseMetadata {
            metadata: [("io.openshift.upgrades.graph.release.manifestref".to_owned(), "sha256:other".to_owned())].into(),
            ..twin.metadata
        },
        ..twin
    };
    assert_eq!(
        words(vec![release("4.1.0", "amd64", &[], &[]), twin], &[]),
        "mismatched manifest ref for concrete release 4.1.0+amd64: sha256:4.1.0-amd64, sha256:other"
    );
    assert!(built(vec![release("4.1.0", "amd64", &[], &[]), release("4.1.0", "amd64", &[], &[])], &[]).is_ok());
    assert!(built(vec![release("4.1.0", "amd64", &[], &[]), release("4.1.0", "arm64", &[], &[])], &[]).is_ok());
    let circle = vec![release("4.1.0", "amd64", &["4.1.1"], &[]), release("4.1.1", "amd64", &["4.1.0"], &[])];
    assert_eq!(words(circle, &[]), "edges go in a circle: 4.1.0+amd64 -> 4.1.1+amd64 -> 4.1.0+amd64");
    assert_eq!(words(vec![release("4.1.0", "amd64", &["4.1.0"], &[])], &[]), "edges go in a circle: 4.1.0+amd64 -> 4.1.0+amd64");
    // A version that no release has can close a circle, too.
    let through = vec![release("4.1.0", "amd64", &["4.0.0"], &["4.0.0"])];
    assert!(words(through, &[]).contains("4.0.0+amd64"));
    let label = labels("4.1.0", "previous.add", "4.x");
    assert_eq!(
        words(vec![release("4.1.0", "amd64", &[], &[])], &[("raw/metadata.json", &label)]),
        "release 4.1.0+amd64: label io.openshift.upgrades.graph.previous.add: \"4.x\": No Major.Minor.Patch elements found"
    );
    let label = labels("4.1.0", "previous.remove_regex", "(");
    assert!(words(vec![release("4.1.0", "amd64", &[], &[])], &[("raw/metadata.json", &label)]).contains("is no regular expression"));
    let other = risk("4.1.1", ".*", "A").replace("message: m", "message: other");
    assert_eq!(
        words(chain(), &[("blocked-edges/a.yaml", &risk("4.1.1", ".*", "A")), ("blocked-edges/b.yaml", &other)]),
        "risk A of the update from 4.0.9+amd64 to 4.1.1+amd64 is described differently by blocked-edges/a.yaml and blocked-edges/b.yaml"
    );
}

/// CVO-GD-01..06: the real graph-data of a product is read, built and has no error, and every channel and architecture of it is answered.
#[test]
fn real_graph_data() {
    let Some(root) = mainstay_testing::data::path("update-graph") else { return };
    let mut files = Files::new();
    for folder in ["", "channels", "blocked-edges", "raw"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                files.insert(path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned(), std::fs::read(&path).unwrap());
            }
        }
    }
    let data = GraphData::read(&files).unwrap();
    assert_eq!(data.channels.len(), 14);
    let versions: std::collections::BTreeSet<_> = data.channels.iter().flat_map(|channel| channel.versions.clone()).collect();
    let mut releases = Vec::new();
    for architecture in ["amd64", "arm64", "multi"] {
        let mut lower: Vec<String> = Vec::new();
        for version in versions.iter().filter(|version| version.build().is_empty() || version.build() == architecture) {
            let plain = version.to_string().split('+').next().unwrap().to_owned();
            if lower.contains(&plain) {
                continue;
            }
            let previous: Vec<&str> = lower.iter().map(String::as_str).collect();
            releases.push(release(&plain, architecture, &previous, &[]));
            lower.push(plain);
        }
    }
    let graph = build(releases, &data, &GraphLimits::default()).unwrap();
    let mut asked_for = 0;
    for channel in graph.channels() {
        for architecture in graph.architectures() {
            let graph = asked(&graph, channel, architecture);
            asked_for += 1;
            let own: usize = data
                .channels
                .iter()
                .filter(|other| other.name == channel)
                .map(|channel| channel.versions.iter().filter(|version| version.build().is_empty()).count())
                .sum();
            assert!(graph.nodes.len() >= own, "{channel} {architecture}");
            assert!(graph.conditional_count() > 0, "{channel} {architecture}");
        }
    }
    assert_eq!(asked_for, 42);
    let errors = mainstay_update_graph::lint::lint(&files, None);
    assert!(errors.iter().all(|finding| finding.severity < mainstay_diagnostics::Severity::Error), "{errors:?}");
}
