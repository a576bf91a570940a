//! Pictures for tests, and slow readers of drawings.

use std::collections::BTreeSet;

use mainstay_graph::{Edge, Kind, Line, Mark, Marks, Merge, Node, Panel, Picture, Tone};
use proptest::prelude::*;

/// The kinds of all test pictures: one drawn apart, two merged.
pub fn kinds() -> Vec<Kind> {
    let kind = |name: &str, line, tone, merge| Kind { name: name.to_owned(), line, tone, merge };
    vec![
        kind("follows", Line::Solid, Tone::Main, Merge::Apart),
        kind("skips", Line::Dashed, Tone::Second, Merge::Fans),
        kind("ranges", Line::Dotted, Tone::Third, Merge::Fans),
    ]
}

/// A picture of one panel; nodes are called `n0`, `n1`, ...
pub fn picture(nodes: usize, edges: &[(usize, usize, usize)]) -> Picture {
    let node = |at: usize| Node { id: format!("n{at}"), label: format!("n{at}"), ..Node::default() };
    Picture {
        title: "Test".to_owned(),
        description: String::new(),
        kinds: kinds(),
        panels: vec![Panel {
            name: "panel".to_owned(),
            notes: Vec::new(),
            nodes: (0..nodes).map(node).collect(),
            edges: edges.iter().map(|(from, to, kind)| Edge { from: *from, to: *to, kind: *kind, note: String::new() }).collect(),
        }],
    }
}

/// A small picture with everything in it.
pub fn sample() -> Picture {
    let mut sample = picture(
        7,
        &[
            (0, 1, 0),
            (1, 2, 0),
            (2, 3, 0),
            (0, 4, 0),
            (4, 5, 0),
            (0, 3, 1),
            (1, 3, 1),
            (0, 5, 2),
            (1, 5, 2),
            (4, 5, 2),
            (5, 6, 2),
            (6, 1, 1),
        ],
    );
    "Updates of <sample> & \"more\"".clone_into(&mut sample.title);
    "From n1: two steps to the head".clone_into(&mut sample.description);
    let panel = &mut sample.panels[0];
    panel.notes.push("7 nodes".to_owned());
    panel.nodes[0].marks = Marks::none().with(Mark::Deprecated);
    panel.nodes[0].details = vec!["sample.v0".to_owned(), "old; \u{1b}[31mred".to_owned()];
    panel.nodes[1].marks = Marks::none().with(Mark::Installed);
    panel.nodes[2].marks = Marks::none().with(Mark::Reachable).with(Mark::Next);
    panel.nodes[3].marks = Marks::none().with(Mark::Reachable).with(Mark::Head);
    panel.nodes[4].marks = Marks::none().with(Mark::Elsewhere);
    panel.nodes[5].marks = Marks::none().with(Mark::Blocked);
    panel.nodes[5].details = vec!["sample.v5".to_owned(), "from >=0.0.0 <5.0.0".to_owned()];
    ">=0.0.0 <5.0.0".clone_into(&mut panel.edges[7].note);
    sample
}

/// Random edges among some nodes, cycles and loops included.
pub fn wild(most: usize, edges: usize) -> impl Strategy<Value = (usize, Vec<(usize, usize, usize)>)> {
    (1..=most).prop_flat_map(move |nodes| (Just(nodes), prop::collection::vec((0..nodes, 0..nodes, 0..3_usize), 0..=edges)))
}

/// Random edges that all lead from a lower to a higher number.
pub fn tame(most: usize, edges: usize) -> impl Strategy<Value = (usize, Vec<(usize, usize, usize)>)> {
    let upward = |(from, to, kind): (usize, usize, usize)| (from.min(to), from.max(to), kind);
    wild(most, edges).prop_map(move |(nodes, edges)| (nodes, edges.into_iter().map(upward).filter(|(from, to, _)| from != to).collect()))
}

/// The edges that rows of text show, read lane by lane from below.
pub fn edges_in_text(text: &str) -> BTreeSet<(usize, usize)> {
    let mut lines: Vec<&str> = text.lines().skip(3).collect();
    if lines.last().is_some_and(|line| line.contains("rows without a gap") || line.contains("lines lead up")) {
        lines.truncate(lines.len() - 2);
    }
    let rows: Vec<Vec<char>> = lines.iter().map(|line| line.chars().collect()).collect();
    let node = |row: &[char]| -> Option<usize> {
        let text: String = row.iter().collect();
        text.split_whitespace().rev().find_map(|word| word.strip_prefix('n')?.parse().ok())
    };
    let mut edges = BTreeSet::new();
    for pair in rows.windows(2) {
        if let (Some(upper), Some(lower)) = (node(&pair[0]), node(&pair[1])) {
            edges.insert((lower, upper));
        }
    }
    let widest = rows.iter().map(Vec::len).max().unwrap_or_default();
    for lane in 0..widest / 2 {
        let mut entered: Vec<usize> = Vec::new();
        for row in rows.iter().rev() {
            let (Some(&before), Some(&line)) = (row.get(2 + 2 * lane), row.get(3 + 2 * lane)) else { continue };
            let Some(here) = node(row) else { continue };
            let leaves = before == '\u{25c4}';
            let enters = match line {
                '\u{256f}' | '\u{2534}' => {
                    assert!(entered.is_empty(), "a line begins inside another:\n{text}");
                    true
                }
                '\u{2524}' | '\u{253c}' => true,
                '\u{256e}' | '\u{252c}' | '\u{2502}' | '\u{254e}' | '\u{250a}' => false,
                _ => continue,
            };
            if leaves {
                edges.extend(entered.iter().map(|from| (*from, here)));
            }
            if enters {
                entered.push(here);
            }
            if matches!(line, '\u{256e}' | '\u{252c}') {
                assert!(leaves && !entered.is_empty(), "a line ends nowhere:\n{text}");
                entered.clear();
            }
        }
        assert!(entered.is_empty(), "a line does not end:\n{text}");
    }
    edges
}

/// Fails unless the text is well-formed XML of the simple sort that is written here: elements, attributes, text, entities.
pub fn assert_well_formed(xml: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = xml;
    while let Some(at) = rest.find(['<', '&']) {
        assert!(!rest[..at].contains('>'), "a stray > in {:?}", &rest[..at]);
        if rest[at..].starts_with('&') {
            let end = rest[at..].find(';').expect("an entity ends");
            assert!(["amp", "lt", "gt", "quot", "#39"].contains(&&rest[at + 1..at + end]), "entity {:?}", &rest[at..=at + end]);
            rest = &rest[at + end + 1..];
            continue;
        }
        let end = at + rest[at..].find('>').expect("a tag ends");
        let tag = &rest[at + 1..end];
        assert!(!tag.contains('<'), "tag in tag: {tag:?}");
        assert_eq!(tag.matches('"').count() % 2, 0, "quotes of {tag:?}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().expect("a tag has a name"));
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty(), "{open:?} stay open");
}
