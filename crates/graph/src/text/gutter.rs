//! The lines beside the rows, each in a lane of two columns: the first for crossing lines, the second for the line itself.

use std::fmt::Write as _;

use super::paint::{Ink, Pen};
use crate::lanes::lanes;
use crate::model::{Kind, Picture};
use crate::order::Order;
use crate::rails::Rail;

/// All lines of a panel.
pub(super) struct Gutter<'p> {
    /// The lines of each lane, with the places of their lowest and highest row.
    lanes: Vec<Vec<Line<'p>>>,
}

struct Line<'p> {
    kind: &'p Kind,
    low: usize,
    high: usize,
    entries: Vec<usize>,
    exits: Vec<usize>,
}

impl<'p> Gutter<'p> {
    /// Gives each rail a lane; returns the rails that have no room.
    pub(super) fn new(picture: &'p Picture, order: &Order, rails: Vec<Rail>, at_most: usize) -> (Self, Vec<Rail>) {
        let spans: Vec<(usize, usize)> = rails.iter().map(|rail| rail.span(order)).collect();
        let (lane_of, count) = lanes(&spans);
        let mut all: Vec<Vec<Line<'p>>> = (0..count.min(at_most)).map(|_| Vec::new()).collect();
        let mut left_out = Vec::new();
        for ((rail, lane), (low, high)) in rails.into_iter().zip(lane_of).zip(spans) {
            let places = |nodes: &[usize]| nodes.iter().map(|node| order.place[*node]).collect();
            match all.get_mut(lane) {
                Some(lines) => lines.push(Line {
                    kind: &picture.kinds[rail.kind],
                    low,
                    high,
                    entries: places(&rail.entries),
                    exits: places(&rail.exits),
                }),
                None => left_out.push(rail),
            }
        }
        (Self { lanes: all }, left_out)
    }

    pub(super) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// The lines in the row of a node.
    pub(super) fn row(&self, place: usize, pen: &Pen<'_>) -> String {
        let cells: Vec<Option<Cell<'_>>> = self.lanes.iter().map(|lines| cell(lines, place)).collect();
        let farthest = cells.iter().rposition(|cell| cell.as_ref().is_some_and(Cell::joins));
        // A crossing is painted as the farthest line that it leads to.
        let crossing = farthest.and_then(|at| cells[at].as_ref()).map_or(Ink::Plain, Cell::ink);
        let mut out = String::new();
        for (at, cell) in cells.iter().enumerate() {
            let inside = farthest.is_some_and(|farthest| at <= farthest);
            let beyond = farthest.is_some_and(|farthest| at < farthest);
            let flat = pen.either("\u{2500}", "-");
            match cell {
                Some(cell) if cell.joins() => {
                    let before = if cell.leaves { pen.enters() } else { flat };
                    put(&mut out, &pen.paint(&format!("{before}{}", cell.joint(beyond, pen)), cell.ink()));
                }
                Some(cell) => {
                    put(&mut out, &if inside { pen.paint(flat, crossing) } else { " ".to_owned() });
                    put(&mut out, &pen.paint(pen.vertical(cell.line.kind.line), cell.ink()));
                }
                None if inside => put(&mut out, &pen.paint(&flat.repeat(2), crossing)),
                None => put(&mut out, "  "),
            }
        }
        out
    }

    /// The lines in the gap below a row.
    pub(super) fn gap(&self, place: usize, pen: &Pen<'_>) -> String {
        let mut out = String::new();
        for lines in &self.lanes {
            match lines.iter().find(|line| line.low < place && place <= line.high) {
                Some(line) => put(&mut out, &format!(" {}", pen.paint(pen.vertical(line.kind.line), Ink::tone(line.kind.tone)))),
                None => put(&mut out, "  "),
            }
        }
        out
    }
}

fn cell<'l>(lines: &'l [Line<'_>], place: usize) -> Option<Cell<'l>> {
    let line = lines.iter().find(|line| (line.low..=line.high).contains(&place))?;
    Some(Cell { line, place, enters: line.entries.contains(&place), leaves: line.exits.contains(&place) })
}

/// A line in a row.
struct Cell<'l> {
    line: &'l Line<'l>,
    place: usize,
    /// The row's node enters the line.
    enters: bool,
    /// The line can be left to the row's node.
    leaves: bool,
}

impl Cell<'_> {
    fn joins(&self) -> bool {
        self.enters || self.leaves
    }

    fn ink(&self) -> Ink {
        Ink::tone(self.line.kind.tone)
    }

    /// The piece of the line at the joint with the node; `beyond` when the row reaches out to lanes farther right.
    fn joint(&self, beyond: bool, pen: &Pen<'_>) -> &'static str {
        match (self.place == self.line.high, self.place == self.line.low, beyond) {
            (true, _, false) => pen.either("\u{256e}", "."),
            (true, _, true) => pen.either("\u{252c}", "."),
            (_, true, false) => pen.either("\u{256f}", "'"),
            (_, true, true) => pen.either("\u{2534}", "'"),
            // A node that only leaves the line does not continue it.
            (false, false, _) if !self.enters => pen.vertical(self.line.kind.line),
            (false, false, false) => pen.either("\u{2524}", "+"),
            (false, false, true) => pen.either("\u{253c}", "+"),
        }
    }
}

fn put(out: &mut String, text: &str) {
    // Writing to a string does not fail.
    let _written = out.write_str(text);
}
