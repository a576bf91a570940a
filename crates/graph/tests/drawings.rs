//! What holds for every drawing: nothing is lost, nothing is added, nothing overlaps.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{assert_well_formed, edges_in_text, picture, sample, tame, wild};
use mainstay_graph::{
    Charset, Colour, Error, Layout, Mark, Panel, Picture, Rail, TextStyle, dot, json, layout, mermaid, order, rails, svg, text,
};
use proptest::prelude::*;

fn plain() -> TextStyle {
    TextStyle { width: 400, charset: Charset::Unicode, colour: Colour::Without }
}

/// The edges that a rail stands for, each found by walking up from each entry.
fn stands_for(rail: &Rail, place: &[usize]) -> BTreeSet<(usize, usize, usize)> {
    let above = |from: usize| rail.exits.iter().copied().filter(move |to| place[*to] > place[from]);
    rail.entries.iter().flat_map(|from| above(*from).map(|to| (*from, to, rail.kind))).collect()
}

fn edges_of(panel: &Panel) -> BTreeSet<(usize, usize, usize)> {
    panel.edges.iter().map(|edge| (edge.from, edge.to, edge.kind)).collect()
}

fn boxes(picture: &Picture) -> Layout {
    let panel = &picture.panels[0];
    let sizes: Vec<(f64, f64)> = (0..panel.nodes.len()).map(|at| (60.0 + (at % 4) as f64 * 25.0, 40.0 + (at % 3) as f64 * 10.0)).collect();
    layout(picture, panel, &sizes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// MS-EXPL-03: all nodes stand in one line in which the edges that are drawn upward point upward; without cycles, that is all of them.
    #[test]
    fn order_is_a_line((nodes, edges) in wild(14, 40)) {
        let picture = picture(nodes, &edges);
        let panel = &picture.panels[0];
        let order = order(panel);
        let mut met = order.line.clone();
        met.sort_unstable();
        prop_assert_eq!(met, (0..nodes).collect::<Vec<_>>());
        for (edge, upward) in panel.edges.iter().zip(&order.upward) {
            prop_assert_eq!(*upward, order.place[edge.from] < order.place[edge.to], "{:?}", edge);
        }
    }

    /// MS-EXPL-03: where edges allow the caller's order, it is kept, and no edge is set aside.
    #[test]
    fn order_keeps_versions((nodes, edges) in tame(14, 40)) {
        let picture = picture(nodes, &edges);
        let order = order(&picture.panels[0]);
        prop_assert_eq!(&order.line, &(0..nodes).collect::<Vec<_>>());
        prop_assert!(order.upward.iter().all(|upward| *upward));
    }

    /// MS-EXPL-03: rails stand for the edges that they were made of, and for no other.
    #[test]
    fn rails_add_and_lose_nothing((nodes, edges) in tame(14, 60)) {
        let picture = picture(nodes, &edges);
        let panel = &picture.panels[0];
        let order = order(panel);
        let all: Vec<usize> = (0..panel.edges.len()).collect();
        let found: BTreeSet<_> = rails(panel, &order, &all).iter().flat_map(|rail| stands_for(rail, &order.place)).collect();
        prop_assert_eq!(found, edges_of(panel));
    }

    /// MS-EXPL-03: boxes do not overlap, stand inside the drawing, and each edge is one line from the lower box to the upper.
    #[test]
    fn boxes_and_lines((nodes, edges) in wild(16, 50)) {
        let picture = picture(nodes, &edges);
        let panel = &picture.panels[0];
        let order = order(panel);
        let drawn = boxes(&picture);
        prop_assert_eq!(drawn.nodes.len(), nodes);
        for (at, one) in drawn.nodes.iter().enumerate() {
            prop_assert!(one.x >= -0.01 && one.y >= -0.01 && one.x + one.width <= drawn.width + 0.01 && one.y + one.height <= drawn.height + 0.01);
            for other in &drawn.nodes[..at] {
                let apart = one.x + one.width <= other.x || other.x + other.width <= one.x || one.y + one.height <= other.y || other.y + other.height <= one.y;
                prop_assert!(apart, "{:?} and {:?}", one, other);
            }
        }
        let mut found = BTreeSet::new();
        for route in &drawn.routes {
            for &from in &route.from {
                for &to in &route.to {
                    let up = order.place[from] < order.place[to];
                    if from != to && up != route.downward {
                        found.insert((from, to, route.kind));
let (lower, upper) = if up { (from, to) } else { (to, from) };
                        prop_assert!(drawn.nodes[lower].y > drawn.nodes[upper].y + drawn.nodes[upper].height);
                    }
                }
            }
            prop_assert_eq!(route.strokes.iter().filter(|stroke| stroke.head).count(), route.to.len());
            for stroke in route.strokes.iter().filter(|stroke| stroke.head) {
                let tip = stroke.points.last().unwrap();
                let touches = route.to.iter().map(|to| drawn.nodes[*to]).any(|target| {
                    let beside = (tip.x - target.x).abs() < 0.01 || (tip.x - target.x - target.width).abs() < 0.01;
                    let below = (tip.y - target.y - target.height).abs() < 0.01 || (tip.y - target.y).abs() < 0.01;
                    let inside_x = tip.x >= target.x - 0.01 && tip.x <= target.x + target.width + 0.01;
                    let inside_y = tip.y >= target.y - 0.01 && tip.y <= target.y + target.height + 0.01;
                    beside && inside_y || below && inside_x
                });
                prop_assert!(touches, "{:?} touches none of {:?}", tip, route.to);
            }
        }
        let expected: BTreeSet<_> = edges_of(panel).into_iter().filter(|(from, to, _)| from != to).collect();
        prop_assert_eq!(found, expected);
    }

    /// MS-EXPL-03: a person who reads the rows of the text finds exactly the edges.
    #[test]
    fn text_says_the_edges((nodes, edges) in tame(9, 16)) {
        let picture = picture(nodes, &edges);
        let drawn = text(&picture, &plain()).unwrap();
        let expected: BTreeSet<(usize, usize)> = edges.iter().map(|(from, to, _)| (*from, *to)).collect();
        prop_assert_eq!(edges_in_text(&drawn), expected, "\n{}", drawn);
    }

    /// MS-EXPL-03: whatever the text in the boxes is, the page is well formed, every box is there once, and drawing again gives the same.
    #[test]
    fn any_text((nodes, edges) in wild(6, 10), label in any::<String>(), detail in any::<String>()) {
        let mut picture = picture(nodes, &edges);
        picture.title = detail.clone();
        picture.panels[0].name = label.clone();
        picture.panels[0].notes = vec![label.clone()];
        picture.description = detail.clone();
        picture.panels[0].nodes[0].label = label;
        picture.panels[0].nodes[0].details = vec![detail];
        let page = svg(&picture).unwrap();
        assert_well_formed(&page);
        prop_assert_eq!(page.matches("class=\"card\"").count(), nodes);
        prop_assert_eq!(&page, &svg(&picture).unwrap());
        let rows = text(&picture, &TextStyle { charset: Charset::Ascii, ..plain() }).unwrap();
        prop_assert!(!rows.chars().any(|letter| letter.is_control() && letter != '\n'));
        for drawn in [dot(&picture).unwrap(), mermaid(&picture).unwrap()] {
            prop_assert_eq!(drawn.lines().filter(|line| line.contains("p0n") && (line.contains("[label=") || line.contains("[\""))).count(), nodes);
            prop_assert!(!drawn.chars().any(|letter| letter.is_control() && letter != '\n'));
        }
    }
}

/// MS-EXPL-03: the drawings of one small graph with cycle, fans, marks and hostile text.
#[test]
fn snapshots() {
    let picture = sample();
    insta::assert_snapshot!("text", text(&picture, &plain()).unwrap());
    insta::assert_snapshot!("ascii", text(&picture, &TextStyle { width: 60, charset: Charset::Ascii, colour: Colour::Without }).unwrap());
    insta::assert_snapshot!("ansi", text(&picture, &TextStyle { colour: Colour::Ansi, ..plain() }).unwrap());
    insta::assert_snapshot!("svg", svg(&picture).unwrap());
    insta::assert_snapshot!("dot", dot(&picture).unwrap());
    insta::assert_snapshot!("mermaid", mermaid(&picture).unwrap());
    insta::assert_json_snapshot!("json", json(&picture).unwrap());
}

/// MS-EXPL-03: a channel where each version updates all before it is a chain with one rail beside it.
#[test]
fn a_full_range_is_one_rail() {
    let mut edges: Vec<(usize, usize, usize)> = (1..60).map(|to| (to - 1, to, 0)).collect();
    edges.extend((1..60).flat_map(|to| (0..to).map(move |from| (from, to, 2))));
    let picture = picture(60, &edges);
    let drawn = text(&picture, &plain()).unwrap();
    assert_eq!(drawn.lines().filter(|line| line.contains('\u{25cf}')).count(), 60);
    assert!(drawn.contains("\u{25cf}\u{25c4}\u{256e} n59") && drawn.contains("\u{25cf}\u{2500}\u{256f} n0"), "{drawn}");
    let routes = boxes(&picture).routes;
    assert_eq!(routes.iter().filter(|route| route.kind == 2).count(), 1);
    assert_eq!(routes.iter().filter(|route| route.kind == 0).count(), 59);
}

/// MS-EXPL-03: rows keep to the width of the terminal, and what has no room beside them is said below.
#[test]
fn narrow_terminals() {
    let mut seed = 1_usize;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % 30
    };
    let edges: Vec<(usize, usize, usize)> = (0..120).map(|_| (next(), next(), 0)).filter(|(from, to, _)| from < to).collect();
    let mut picture = picture(30, &edges);
    picture.panels[0].nodes.iter_mut().for_each(|node| node.details = vec!["a-rather-long-name-of-a-bundle.v1.2.3".repeat(2)]);
    let drawn = text(&picture, &TextStyle { width: 60, ..plain() }).unwrap();
    let rows: Vec<&str> = drawn.lines().filter(|line| line.contains('\u{25cf}')).collect();
    assert_eq!(rows.len(), 30);
    assert!(rows.iter().all(|row| row.chars().count() <= 60), "{drawn}");
    assert!(drawn.contains("   also follows: "), "{drawn}");
}

/// MS-EXPL-03: 500 nodes and 2,000 edges are drawn, and nothing is lost.
#[test]
fn many_nodes() {
    let edges: Vec<(usize, usize, usize)> =
        (0..2_000_usize).map(|at| (at % 500, (at * 7_919 + 13) % 500, at % 3)).filter(|(from, to, _)| from != to).collect();
    let edges: Vec<(usize, usize, usize)> = edges.into_iter().map(|(from, to, kind)| (from.min(to), from.max(to), kind)).collect();
    let picture = picture(500, &edges);
    assert_eq!(svg(&picture).unwrap().matches("class=\"card\"").count(), 500);
    let drawn = boxes(&picture);
    let mut lines: BTreeMap<usize, usize> = BTreeMap::new();
    drawn.routes.iter().for_each(|route| *lines.entry(route.kind).or_default() += 1);
    assert_eq!(lines.len(), 3);
    assert_eq!(text(&picture, &plain()).unwrap().lines().filter(|line| line.contains('\u{25cf}')).count(), 500);
}

/// MS-EXPL-03: what cannot be drawn is refused with the reason.
#[test]
fn refusals() {
    let lost = picture(2, &[(0, 5, 0)]);
    assert_eq!(svg(&lost), Err(Error::UnknownEnd { panel: "panel".to_owned(), edge: 0 }));
    assert_eq!(json(&picture(2, &[(0, 1, 9)])), Err(Error::UnknownEnd { panel: "panel".to_owned(), edge: 0 }));
    let large = picture(5_001, &[]);
    let refused = text(&large, &plain()).unwrap_err().to_string();
    assert_eq!(refused, "panel panel: nodes number 5001, 5000 can be drawn; choose a part, for example one channel");
}

/// MS-EXPL-03: marks in words; what is one step away is not also called reachable.
#[test]
fn marks_in_words() {
    let mut picture = picture(1, &[]);
    picture.panels[0].nodes[0].marks = Mark::ALL.into_iter().collect();
    let drawn = text(&picture, &plain()).unwrap();
    assert!(drawn.contains("n0  head  installed  start  next  deprecated  blocked"), "{drawn}");
}
