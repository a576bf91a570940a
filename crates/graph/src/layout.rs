//! The positions of boxes and lines: a layered layout in the manner of Sugiyama, newest above.
//!
//! ```text
//!   layers     which layer, at most a few nodes wide          short edges: curves between the boxes
//!   crossings  the order inside the layers                    fans and long edges: tracks right of all boxes
//!   place      from left to right                             edges against the order: tracks left of them
//!   tracks     everything that runs beside the boxes
//! ```

mod crossings;
mod layers;
mod place;
mod tracks;

use std::collections::HashMap;

use crate::model::{Merge, Panel, Picture};
use crate::order::{Order, order};
use crate::rails::rails;
pub(crate) use tracks::CORNER;

use layers::Grid;
use tracks::{Direction, Track, Tracks};

/// The most layers that an edge between the boxes spans. Longer edges are led beside the boxes.
const SHORT: usize = 6;
/// Distance between two layers if no track runs between them and all lines are upright.
const LAYER_GAP: f64 = 30.0;
/// The most that may be added to it.
const MORE_GAP: f64 = 34.0;
/// Distance between ends of curves at one side of a box.
const PORT_GAP: f64 = 14.0;

/// A place in a drawing; x grows to the right, y downward.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Distance from the left.
    pub x: f64,
    /// Distance from the top.
    pub y: f64,
}

impl Point {
    pub(crate) const fn new(x: f64, y: f64) -> Self {
        Self { x, y }
    }
}

/// A box.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rect {
    /// Left side.
    pub x: f64,
    /// Upper side.
    pub y: f64,
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
}

/// Form of a line between its points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bend {
    /// A curve that is vertical at each point.
    Smooth,
    /// Straight, with round corners.
    Corner,
}

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub struct Stroke {
    /// Its points.
    pub points: Vec<Point>,
    /// Its form from one point to the next.
    pub bend: Bend,
    /// True if its last point has an arrowhead.
    pub head: bool,
}

/// All lines of one edge, or of edges that are drawn together.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// Kind of the edges.
    pub kind: usize,
    /// Nodes where it begins.
    pub from: Vec<usize>,
    /// Nodes where its heads are.
    pub to: Vec<usize>,
    /// Remarks on its edges.
    pub notes: Vec<String>,
    /// True if it leads from an upper to a lower node.
    pub downward: bool,
    /// Its lines.
    pub strokes: Vec<Stroke>,
}

/// A panel with coordinates.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    /// Total width.
    pub width: f64,
    /// Total height.
    pub height: f64,
    /// The boxes, in the order of the nodes.
    pub nodes: Vec<Rect>,
    /// The lines.
    pub routes: Vec<Route>,
}

/// Lays out a panel whose nodes have the given widths and heights.
pub fn layout(picture: &Picture, panel: &Panel, sizes: &[(f64, f64)]) -> Layout {
    let order = order(panel);
    let layer = layers::layers(panel, &order);
    let lines = Lines::of(picture, panel, &order, &layer);
    let mut grid = Grid::new(panel, &order, &layer, &lines.curves);
    crossings::reduce(&mut grid);
    let widths: Vec<f64> = sizes.iter().map(|(width, _)| *width).collect();
    let columns = place::columns(&grid, &widths);

    let mut tracks = Tracks::new(lines.tracks, &layer, &columns, &widths);
    let rows = grid.rows.len();
    let tall = |row: usize| grid.rows[row].iter().filter_map(|cell| sizes.get(*cell)).map(|(_, height)| *height).fold(0.0, f64::max);
    // From the highest layer down; the gap with number `row` lies below that row.
    let mut top = vec![0.0; rows];
    let mut y = tracks.start_gap(rows, 0.0, 0.0);
    for row in (0..rows).rev() {
        top[row] = y;
        y = tracks.start_gap(row, y + tall(row), if row == 0 { 0.0 } else { gap(&grid, row, &columns) });
    }
    let shift = tracks.width_left();
    let nodes: Vec<Rect> = (0..panel.nodes.len())
        .map(|node| {
            let (width, height) = sizes[node];
            let row = layer[node];
            Rect { x: columns[node] - width / 2.0 + shift, y: top[row] + (tall(row) - height) / 2.0, width, height }
        })
        .collect();
    let mut row_of = vec![0; grid.cells.len()];
    for (row, cells) in grid.rows.iter().enumerate() {
        for &cell in cells {
            row_of[cell] = row;
        }
    }
    // A pass is straight along the boxes of its layer, so that curves are bent only in the gaps.
    let mut routes = curves(panel, &grid, &nodes, |cell| {
        let (x, row) = (columns[cell] + shift, row_of[cell]);
        [Point::new(x, top[row] + tall(row)), Point::new(x, top[row])]
    });
    let right = nodes.iter().map(|node| node.x + node.width).fold(0.0, f64::max);
    let right = columns.iter().map(|x| x + shift).fold(right, f64::max);
    routes.extend(tracks.routes(&nodes, shift, right));
    Layout { width: right + tracks.width_right(), height: y, nodes, routes }
}

/// The distance between a layer and the one below it: curves that go far aside need more of it.
fn gap(grid: &Grid, row: usize, columns: &[f64]) -> f64 {
    let aside = |cell: &usize| grid.below[*cell].iter().map(|below| (columns[*below] - columns[*cell]).abs()).fold(0.0, f64::max);
    let farthest = grid.rows[row].iter().map(aside).fold(0.0, f64::max);
    LAYER_GAP + (farthest / 12.0).min(MORE_GAP)
}

/// The edges of a panel, grouped by how they are drawn.
struct Lines {
    /// Edges drawn between the boxes.
    curves: Vec<usize>,
    /// Lines drawn beside them.
    tracks: Vec<Track>,
}

impl Lines {
    fn of(picture: &Picture, panel: &Panel, order: &Order, layer: &[usize]) -> Self {
        let (mut curves, mut tracks) = (Vec::new(), Vec::new());
        let (mut fans, mut downward) = (Vec::new(), Vec::new());
        let is_short = |from: usize, to: usize| layer[to] - layer[from] <= SHORT;
        for (position, edge) in panel.edges.iter().enumerate() {
            if edge.from == edge.to {
                continue;
            }
            match (order.upward[position], picture.kinds[edge.kind].merge) {
                (false, _) => downward.push(position),
                (true, Merge::Apart) if is_short(edge.from, edge.to) => curves.push(position),
                (true, Merge::Apart) => tracks.extend(rails(panel, order, &[position]).into_iter().map(|rail| (rail, Direction::Up))),
                (true, Merge::Fans) => fans.push(position),
            }
        }
        for rail in rails(panel, order, &fans) {
            let single = match (rail.entries.as_slice(), rail.exits.as_slice()) {
                (&[from], &[to]) if is_short(from, to) => {
                    fans.iter().find(|at| (panel.edges[**at].from, panel.edges[**at].to, panel.edges[**at].kind) == (from, to, rail.kind))
                }
                _ => None,
            };
            match single {
                Some(position) => curves.push(*position),
                None => tracks.push((rail, Direction::Up)),
            }
        }
        tracks.extend(rails(panel, &order.reversed(), &downward).into_iter().map(|rail| (rail, Direction::Down)));
        Self { curves, tracks: tracks.into_iter().map(|(rail, direction)| Track { rail, direction }).collect() }
    }
}

/// Curves that end at a box: the position of their other end, and the path.
type Ends = HashMap<usize, Vec<(f64, usize)>>;

/// Curves between the boxes; their ends share the sides of the boxes.
fn curves(panel: &Panel, grid: &Grid, nodes: &[Rect], pass: impl Fn(usize) -> [Point; 2]) -> Vec<Route> {
    // Lines leaving the upper side and arriving at the lower side of each box, by the position of their other end.
    let (mut leaving, mut arriving) = (Ends::new(), Ends::new());
    let x_of = |cell: usize| nodes.get(cell).map_or_else(|| pass(cell)[0].x, |node| node.x + node.width / 2.0);
    for (at, (_, path)) in grid.paths.iter().enumerate() {
        if let [first, second, ..] = path.as_slice() {
            leaving.entry(*first).or_default().push((x_of(*second), at));
        }
        if let [.., before, last] = path.as_slice() {
            arriving.entry(*last).or_default().push((x_of(*before), at));
        }
    }
    let port = |ends: &Ends, node: usize, path: usize| {
        let mut ends = ends.get(&node).cloned().unwrap_or_default();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let at = ends.iter().position(|(_, other)| *other == path).unwrap_or_default() as f64;
        let gap = PORT_GAP.min((nodes[node].width - 20.0) / ends.len().max(1) as f64);
        nodes[node].x + nodes[node].width / 2.0 + (at - (ends.len().saturating_sub(1)) as f64 / 2.0) * gap
    };
    let mut routes = Vec::new();
    for (at, (position, path)) in grid.paths.iter().enumerate() {
        let edge = &panel.edges[*position];
        let mut points = vec![Point::new(port(&leaving, edge.from, at), nodes[edge.from].y)];
        points.extend(path[1..path.len() - 1].iter().flat_map(|cell| pass(*cell)));
        points.push(Point::new(port(&arriving, edge.to, at), nodes[edge.to].y + nodes[edge.to].height));
        routes.push(Route {
            kind: edge.kind,
            from: vec![edge.from],
            to: vec![edge.to],
            notes: if edge.note.is_empty() { Vec::new() } else { vec![edge.note.clone()] },
            downward: false,
            strokes: vec![Stroke { points, bend: Bend::Smooth, head: true }],
        });
    }
    routes
}
