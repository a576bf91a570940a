//! A picture for terminals: a row for each node, the highest first, and lines beside them.
//!
//! ```text
//!  ● 1.3.0    rows that follow each other without a gap: the upper follows on the lower
//!  ● 1.2.0◄╮  a line leads up to here from below,
//!             (a gap: no edge between these two)
//!  ● 1.1.0─┤  enters it here on its way up,
//!  ● 1.0.0─╯  and here
//! ```

mod gutter;
mod paint;

use std::collections::BTreeSet;

use crate::error::Error;
use crate::model::{Edge, Kind, Mark, Merge, Node, Panel, Picture};
use crate::order::{Order, order};
use crate::rails::{Rail, rails};
use gutter::Gutter;
pub use paint::{Charset, Colour, TextStyle};
use paint::{Ink, Pen};

/// The most lines beside a row, however wide the terminal is.
const MOST_LANES: usize = 40;

/// Draws a picture.
pub fn text(picture: &Picture, style: &TextStyle) -> Result<String, Error> {
    picture.check()?;
    let mut out = String::new();
    let pen = Pen(style);
    let description = picture.description.lines().map(|line| pen.paint(line, Ink::Plain));
    for line in std::iter::once(pen.paint(&picture.title, Ink::Strong)).chain(description) {
        if !line.is_empty() {
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }
    let mut lines = false;
    for panel in &picture.panels {
        if !out.is_empty() {
            out.push('\n');
        }
        lines |= draw(&mut out, picture, panel, &pen);
    }
    legend(&mut out, picture, lines, &pen);
    Ok(out)
}

/// Draws a panel; returns true if there are lines beside the rows.
fn draw(out: &mut String, picture: &Picture, panel: &Panel, pen: &Pen<'_>) -> bool {
    let style = pen.0;
    if !panel.name.is_empty() {
        out.push_str(&pen.paint(&panel.name, Ink::Strong));
        out.push('\n');
    }
    for note in &panel.notes {
        out.push_str(&pen.paint(note, Ink::Plain));
        out.push('\n');
    }
    let order = order(panel);
    let follows = following(picture, panel, &order);
    let (beside, downward) = beside(picture, panel, &order);
    let lanes_at_most = (style.width / 4).clamp(4, MOST_LANES);
    let (gutter, left_out) = Gutter::new(picture, &order, rails(panel, &order, &beside), lanes_at_most);
    let columns = Columns::of(panel);
    for place in (0..order.line.len()).rev() {
        let node = &panel.nodes[order.line[place]];
        let glyph = pen.node(node);
        let mut row = format!(" {glyph}{} ", gutter.row(place, pen));
        let used = 3 + 2 * gutter.lanes();
        columns.describe(&mut row, node, style.width.saturating_sub(used).max(20), pen);
        out.push_str(row.trim_end());
        out.push('\n');
        if place > 0 && !follows.contains(&place) {
            let gap = format!("  {}", gutter.gap(place, pen));
            out.push_str(gap.trim_end());
            out.push('\n');
        }
    }
    let name = |node: usize| panel.nodes[node].label.as_str();
    let mut list = |rail: &Rail, before: &str, ink: Ink| {
        let names = |nodes: &[usize]| match nodes {
            [first, .., last] if nodes.len() > 6 => format!("{} to {} ({} nodes)", name(*first), name(*last), nodes.len()),
            nodes => nodes.iter().map(|node| name(*node)).collect::<Vec<_>>().join(", "),
        };
        let line = format!("   {before}{}: {} {} {}", picture.kinds[rail.kind].name, names(&rail.entries), pen.arrow(), names(&rail.exits));
        out.push_str(&pen.paint(&line, ink));
        out.push('\n');
    };
    for rail in &left_out {
        list(rail, "also ", Ink::Plain);
    }
    for rail in &rails(panel, &order.reversed(), &downward) {
        list(rail, "against the order, ", Ink::Warning);
    }
    gutter.lanes() > 0
}

/// Places whose node follows directly on the one below, by an edge that is drawn apart; no line is needed for these.
fn following(picture: &Picture, panel: &Panel, order: &Order) -> BTreeSet<usize> {
    let direct = |(edge, upward): (&Edge, &bool)| {
        (*upward && picture.kinds[edge.kind].merge == Merge::Apart && order.place[edge.from] + 1 == order.place[edge.to])
            .then_some(order.place[edge.to])
    };
    panel.edges.iter().zip(&order.upward).filter_map(direct).collect()
}

/// Edges that need a line, and those against the order.
fn beside(picture: &Picture, panel: &Panel, order: &Order) -> (Vec<usize>, Vec<usize>) {
    let (mut beside, mut downward) = (Vec::new(), Vec::new());
    for (position, edge) in panel.edges.iter().enumerate() {
        let apart = picture.kinds[edge.kind].merge == Merge::Apart;
        if !order.upward[position] {
            downward.push(position);
        } else if !(apart && order.place[edge.from] + 1 == order.place[edge.to]) {
            beside.push(position);
        }
    }
    (beside, downward)
}

/// Widths of the columns right of the lines.
struct Columns {
    label: usize,
    detail: usize,
}

impl Columns {
    fn of(panel: &Panel) -> Self {
        let widest = |of: &dyn Fn(&Node) -> usize| panel.nodes.iter().map(of).max().unwrap_or_default();
        Self {
            label: widest(&|node| node.label.chars().count()),
            detail: widest(&|node| node.details.first().map_or(0, |detail| detail.chars().count())),
        }
    }

    /// Writes label, name, marks and the rest, as long as they fit the width.
    fn describe(&self, row: &mut String, node: &Node, mut room: usize, pen: &Pen<'_>) {
        let mut put = |text: &str, padded: usize, ink: Ink| {
            if room == 0 || text.is_empty() && padded == 0 {
                return;
            }
            let shown = pen.fit(text, room);
            let width = shown.chars().count();
            row.push_str(&pen.paint(&shown, ink));
            let blanks = (padded.max(width) + 2 - width).min(room - width);
            row.push_str(&" ".repeat(blanks));
            room -= width + blanks;
        };
        put(&node.label, self.label, if node.marks.has(Mark::Deprecated) { Ink::Faint } else { Ink::Strong });
        let first = node.details.first().map_or("", String::as_str);
        put(first, self.detail, Ink::Plain);
        for word in node.marks.words() {
            put(word, 0, Ink::of(word));
        }
        for detail in node.details.iter().skip(1) {
            put(detail, 0, Ink::Faint);
        }
    }
}

/// Writes the legend of the kinds that occur.
fn legend(out: &mut String, picture: &Picture, lines: bool, pen: &Pen<'_>) {
    let kinds = picture.kinds_in_use();
    if kinds.is_empty() {
        return;
    }
    let mut parts: Vec<String> = Vec::new();
    if lines {
        let line = |kind: &Kind| format!("{} {}", pen.paint(pen.vertical(kind.line), Ink::tone(kind.tone)), kind.name);
        parts.extend(kinds.iter().map(|(_, kind)| line(kind)));
        parts.push(format!("{} enters here; lines lead up", pen.enters()));
    }
    if let Some((_, kind)) = kinds.iter().find(|(_, kind)| kind.merge == Merge::Apart) {
        parts.push(format!("rows without a gap: the upper {} the lower", kind.name));
    }
    if !parts.is_empty() {
        out.push('\n');
        out.push_str(&parts.join("   "));
        out.push('\n');
    }
}
