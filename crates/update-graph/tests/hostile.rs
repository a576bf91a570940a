//! Input that was made to hurt: it ends in an error, in bounded time and memory.

use std::time::{Duration, Instant};

use mainstay_update_graph::graph_data::Files;
use mainstay_update_graph::{
    BuildError, GraphData, GraphLimits, InvalidReleaseMetadata, Query, Release, ReleaseMetadata, build, read_release_list, retrieve,
};
use serde_json::json;

fn release(version: &str, previous: &[String], next: &[String]) -> Release {
    let document = json!({"kind": "cincinnati-metadata-v0", "version": version, "previous": previous, "next": next});
    Release::of_image(String::new(), version, "amd64", ReleaseMetadata::read(&document).unwrap()).unwrap()
}

fn empty() -> GraphData {
    GraphData::read(&Files::from([("version".to_owned(), b"1.0.0".to_vec())])).unwrap()
}

/// CVO-OSUS-02, CVO-OSUS-13: a chain and a circle of twenty thousand releases, in any order, need no deep stack and no long time.
#[test]
fn long_chains_and_circles() {
    let count = 20_000;
    let version = |number: usize| format!("1.0.{number}");
    let chain = |closed: bool| {
        (0..count)
            .map(|number| {
                let next = if number + 1 < count {
                    vec![version(number + 1)]
                } else if closed {
                    vec![version(0)]
                } else {
                    vec![]
                };
                release(&version(number), &[], &next)
            })
            .collect::<Vec<_>>()
    };
    let begin = Instant::now();
    let graph = build(chain(false), &empty(), &GraphLimits::default()).unwrap();
    assert_eq!((graph.nodes.len(), graph.edges.len()), (count, count - 1));
    let Err(BuildError::Circle(shown)) = build(chain(true), &empty(), &GraphLimits::default()) else { panic!("a circle was built") };
    assert_eq!(shown.len(), 12);
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
}

/// CVO-OSUS-13: a few releases that name many versions, and more edges than allowed, end in an error.
#[test]
fn more_than_allowed() {
    let limits = GraphLimits { nodes: 100, edges: 100, risks: 10 };
    let many: Vec<String> = (0..101).map(|number| format!("1.0.{number}")).collect();
    let named = build(vec![release("2.0.0", &many, &[])], &empty(), &limits);
    assert_eq!(named.unwrap_err().to_string(), "the graph has more than 100 releases");
    let versions: Vec<String> = (0..20).map(|number| format!("1.0.{number}")).collect();
    let dense = (0..20).map(|number| release(&versions[number], &versions[..number], &[])).collect();
    assert_eq!(build(dense, &empty(), &limits).unwrap_err().to_string(), "the graph has more than 100 edges");
    let mut files = Files::from([("version".to_owned(), b"1.0.0".to_vec())]);
    for number in 0..11 {
        let text = format!("to: 1.0.1\nfrom: .*\nurl: u\nname: R{number}\nmessage: m\nmatchingRules: [{{type: Always}}]\n");
        files.insert(format!("blocked-edges/{number:02}.yaml"), text.into_bytes());
    }
    let data = GraphData::read(&files).unwrap();
    let pair = vec![release("1.0.0", &[], &[]), release("1.0.1", &["1.0.0".to_owned()], &[])];
    assert_eq!(build(pair, &data, &limits).unwrap_err().to_string(), "the graph has more than 10 risks of edges");
}

/// CVO-GD-04: expressions that make other engines search for ever are matched in time that is linear in the text.
#[test]
fn expressions_that_backtrack() {
    let text = "to: 1.0.1\nfrom: '^(([0-9a-z.+-]+)+)+!$'\n";
    let files = Files::from([("version".to_owned(), b"1.0.0".to_vec()), ("blocked-edges/a.yaml".to_owned(), text.as_bytes().to_vec())]);
    let data = GraphData::read(&files).unwrap();
    let long = format!("1.0.0-{}", "a".repeat(400));
    let begin = Instant::now();
    let graph =
        build(vec![release(&long, &[], &[]), release("1.0.1", std::slice::from_ref(&long), &[])], &data, &GraphLimits::default()).unwrap();
    assert_eq!(graph.edges.len(), 1);
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
}

/// CVO-REL-02, CVO-OSUS-12: documents of fifty megabytes are refused before they are taken apart.
#[test]
fn large_documents() {
    let large = format!("{{\"kind\": \"{}\"}}", "x".repeat(50 << 20));
    assert_eq!(ReleaseMetadata::parse(large.as_bytes()), Err(InvalidReleaseMetadata::TooLarge));
    assert!(read_release_list(format!("[{}]", "[".repeat(1 << 20)).as_bytes()).is_err());
    let query = Query {
        update_service: "https://u.example".to_owned(),
        cluster_id: "5f7f6e8e-6a34-4c3e-9a71-0d9a3a0f5b11".to_owned(),
        desired_architecture: "amd64".to_owned(),
        current_architecture: "amd64".to_owned(),
        channel: "c".to_owned(),
        version: "1.0.0".to_owned(),
    };
    let version = query.request().unwrap().version;
    let error = retrieve(&query, &version, "200 OK", large.as_bytes()).unwrap_err();
    assert_eq!(error.reason(), "ResponseInvalid");
    // An edge that points nowhere is invalid if it is the cluster's, and nothing if it is another version's.
    for (edges, valid) in [("[[0, 9223372036854775807]]", false), ("[[0, -1]]", false), ("[[1, 9]]", true), ("[[-1, 0], [9, 0]]", true)] {
        let body = format!(r#"{{"nodes": [{{"version": "1.0.0"}}, {{"version": "1.0.1"}}], "edges": {edges}}}"#);
        let found = retrieve(&query, &version, "200 OK", body.as_bytes());
        assert_eq!(found.is_ok(), valid, "{edges}");
        assert!(found.is_ok_and(|found| found.updates.is_empty()) || !valid, "{edges}");
    }
}
