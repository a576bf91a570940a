//! Lines beside the boxes: rails and long edges at the right, edges against the order at the left.
//!
//! The outermost box of a layer is reached at its side. For the others, a line goes through the gap above or below the layer.

use std::collections::{BTreeMap, BTreeSet};

use super::{Bend, Point, Rect, Route, Stroke};
use crate::lanes::lanes;
use crate::rails::Rail;

/// Distance from the boxes to the first track.
const MARGIN: f64 = 22.0;
/// Distance between two tracks.
const LANE: f64 = 13.0;
/// Distance between two lines in a gap.
const SLOT: f64 = 10.0;
/// Radius of corners; also how far a branch runs along its track.
pub(crate) const CORNER: f64 = 8.0;
/// Distance between two ends at one side of a box.
const PORT: f64 = 10.0;

/// A line beside the boxes.
pub(super) struct Track {
    pub(super) rail: Rail,
    pub(super) direction: Direction,
}

/// Direction of a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Direction {
    /// With the order.
    Up,
    /// Against it.
    Down,
}

/// Role of a node on a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    Enters,
    Leaves,
}

/// Position of a track, a node on it, and the node's role.
type End = (usize, usize, Role);

/// An end at the side of a box: its role, its rank among ends of that role, its track.
type Ranked = (Role, usize, usize);

/// All tracks.
pub(super) struct Tracks {
    all: Vec<Track>,
    lane: Vec<usize>,
    lanes_left: usize,
    lanes_right: usize,
    /// Ends that pass a gap, by the number of the gap. Their place in the list is their place in the gap.
    gaps: BTreeMap<usize, Vec<End>>,
    /// Upper side of each gap.
    gap_top: BTreeMap<usize, f64>,
}

impl Tracks {
    pub(super) fn new(tracks: Vec<Track>, layer: &[usize], columns: &[f64], widths: &[f64]) -> Self {
        let mut lane = vec![0; tracks.len()];
        let mut lanes_of = |direction: Direction| {
            let here: Vec<usize> = (0..tracks.len()).filter(|at| tracks[*at].direction == direction).collect();
            let spans: Vec<(usize, usize)> = here.iter().map(|at| tracks[*at].span(layer)).collect();
            let (found, count) = lanes(&spans);
            for (at, found) in here.into_iter().zip(found) {
                lane[at] = found;
            }
            count
        };
        let (lanes_right, lanes_left) = (lanes_of(Direction::Up), lanes_of(Direction::Down));
        let outermost = outermost(layer, columns, widths);
        let mut gaps: BTreeMap<usize, Vec<End>> = BTreeMap::new();
        for (at, track) in tracks.iter().enumerate() {
            for (node, role) in track.ends().filter(|(node, _)| outermost[&(layer[*node], track.direction)] != *node) {
                let gap = match role {
                    Role::Enters => layer[node] + 1,
                    Role::Leaves => layer[node],
                };
                gaps.entry(gap).or_default().push((at, node, role));
            }
        }
        Self { all: tracks, lane, lanes_left, lanes_right, gaps, gap_top: BTreeMap::new() }
    }

    /// Records the upper side of a gap; returns its lower side.
    pub(super) fn start_gap(&mut self, gap: usize, top: f64, least: f64) -> f64 {
        self.gap_top.insert(gap, top);
        let slots = self.gaps.get(&gap).map_or(0, Vec::len);
        if slots == 0 { top + least } else { top + least.max(10.0) + SLOT * (slots as f64 + 1.0) }
    }

    pub(super) fn width_left(&self) -> f64 {
        if self.lanes_left == 0 { 0.0 } else { MARGIN + LANE * self.lanes_left as f64 }
    }

    pub(super) fn width_right(&self) -> f64 {
        if self.lanes_right == 0 { 0.0 } else { MARGIN + LANE * self.lanes_right as f64 }
    }

    /// The lines, once the places of the boxes are known.
    pub(super) fn routes(&self, nodes: &[Rect], left: f64, right: f64) -> Vec<Route> {
        let x = |at: usize| match self.all[at].direction {
            Direction::Up => right + MARGIN + LANE * self.lane[at] as f64,
            Direction::Down => left - MARGIN - LANE * self.lane[at] as f64,
        };
        let ports = self.side_ports(nodes);
        let route = |(at, track): (usize, &Track)| {
            let x = x(at);
            let along = match track.direction {
                Direction::Up => -CORNER,
                Direction::Down => CORNER,
            };
            let (mut strokes, mut reach) = (Vec::new(), Vec::new());
            for (node, role) in track.ends() {
                // From the box to the track.
                let mut points = match ports.get(&(at, node, role)) {
                    Some(y) => {
                        let side = match track.direction {
                            Direction::Up => nodes[node].x + nodes[node].width,
                            Direction::Down => nodes[node].x,
                        };
                        vec![Point::new(side, *y), Point::new(x, *y)]
                    }
                    None => self.through_gap(at, node, role, nodes, x),
                };
                let y = points.last().map_or(0.0, |point| point.y);
                match role {
                    Role::Enters => {
                        points.push(Point::new(x, y + along));
                        reach.push(y + along);
                    }
                    Role::Leaves => {
                        points.push(Point::new(x, y - along));
                        reach.push(y - along);
                        points.reverse();
                    }
                }
                strokes.push(Stroke { points, bend: Bend::Corner, head: role == Role::Leaves });
            }
            let (high, low) =
                (reach.iter().copied().fold(f64::INFINITY, f64::min), reach.iter().copied().fold(f64::NEG_INFINITY, f64::max));
            if high < low {
                let trunk = Stroke { points: vec![Point::new(x, low), Point::new(x, high)], bend: Bend::Corner, head: false };
                strokes.insert(0, trunk);
            }
            Route {
                kind: track.rail.kind,
                from: track.rail.entries.clone(),
                to: track.rail.exits.clone(),
                notes: track.rail.notes.clone(),
                downward: track.direction == Direction::Down,
                strokes,
            }
        };
        self.all.iter().enumerate().map(route).collect()
    }

    /// The position of each end on the side of its box: leaving lines above, arriving ones below, so that few lines cross.
    fn side_ports(&self, nodes: &[Rect]) -> BTreeMap<End, f64> {
        let in_gap: BTreeSet<End> = self.gaps.values().flatten().copied().collect();
        let mut sides: BTreeMap<(usize, Direction), BTreeSet<Ranked>> = BTreeMap::new();
        for (at, track) in self.all.iter().enumerate() {
            for (node, role) in track.ends().filter(|(node, role)| !in_gap.contains(&(at, *node, *role))) {
                let lane = match role {
                    Role::Enters => self.lane[at],
                    Role::Leaves => usize::MAX - self.lane[at],
                };
                sides.entry((node, track.direction)).or_default().insert((role, lane, at));
            }
        }
        let mut ports = BTreeMap::new();
        for ((node, _), ends) in sides {
            let gap = PORT.min((nodes[node].height - 8.0) / ends.len() as f64);
            for (place, (role, _, at)) in ends.iter().enumerate() {
                let offset = (place as f64 - (ends.len() - 1) as f64 / 2.0) * gap;
                ports.insert((*at, node, *role), nodes[node].y + nodes[node].height / 2.0 + offset);
            }
        }
        ports
    }

    fn through_gap(&self, at: usize, node: usize, role: Role, nodes: &[Rect], x: f64) -> Vec<Point> {
        let found = self.gaps.iter().find_map(|(gap, ends)| Some((gap, ends.iter().position(|end| *end == (at, node, role))?)));
        let y = found.map_or(0.0, |(gap, slot)| self.gap_top[gap] + SLOT * (slot as f64 + 1.0) + 5.0);
        let node = &nodes[node];
        // Left of the middle for arriving lines, right of it for leaving ones; curves have the middle.
        let (port, side) = match role {
            Role::Enters => (node.x + node.width * 0.75, node.y),
            Role::Leaves => (node.x + node.width * 0.25, node.y + node.height),
        };
        vec![Point::new(port, side), Point::new(port, y), Point::new(x, y)]
    }
}

/// The outermost box of each layer on each side; a track reaches it without going through a gap.
fn outermost(layer: &[usize], columns: &[f64], widths: &[f64]) -> BTreeMap<(usize, Direction), usize> {
    let mut outermost = BTreeMap::new();
    for (node, layer) in layer.iter().enumerate() {
        for direction in [Direction::Up, Direction::Down] {
            let reach = |node: usize| match direction {
                Direction::Up => columns[node] + widths[node] / 2.0,
                Direction::Down => widths[node] / 2.0 - columns[node],
            };
            let holder = outermost.entry((*layer, direction)).or_insert(node);
            if reach(node) > reach(*holder) {
                *holder = node;
            }
        }
    }
    outermost
}

impl Track {
    fn ends(&self) -> impl Iterator<Item = (usize, Role)> {
        let enters = self.rail.entries.iter().map(|node| (*node, Role::Enters));
        enters.chain(self.rail.exits.iter().map(|node| (*node, Role::Leaves)))
    }

    fn span(&self, layer: &[usize]) -> (usize, usize) {
        let rows = || self.ends().map(|(node, _)| layer[node]);
        (rows().min().unwrap_or_default(), rows().max().unwrap_or_default())
    }
}
