//! The horizontal positions of cells.
//!
//! Every cell is drawn toward its neighbours in other layers; cells of a layer keep their order and their distance. For one layer, the best
//! solution is an isotonic regression, found by pooling neighbours that push each other; layers are visited up and down.

use super::layers::{Cell, Grid};

/// Least distance between two cells.
const GAP: f64 = 28.0;
/// Number of visits to all layers.
const ROUNDS: usize = 32;

/// The middle of each cell, the leftmost edge at 0.
pub(super) fn columns(grid: &Grid, widths: &[f64]) -> Vec<f64> {
    let width = |cell: usize| match grid.cells[cell] {
        Cell::Node(node) => widths[node],
        Cell::Pass(_) => 6.0,
    };
    let mut x = vec![0.0; grid.cells.len()];
    for row in &grid.rows {
        let mut at = 0.0;
        let total: f64 = row.iter().map(|cell| width(*cell) + GAP).sum::<f64>() - GAP;
        for &cell in row {
            x[cell] = at + width(cell) / 2.0 - total / 2.0;
            at += width(cell) + GAP;
        }
    }
    for round in 0..ROUNDS {
        let rows: Vec<usize> = if round % 2 == 0 { (0..grid.rows.len()).collect() } else { (0..grid.rows.len()).rev().collect() };
        for row in rows {
            settle(grid, &grid.rows[row], &width, &mut x);
        }
    }
    let left = (0..x.len()).map(|cell| x[cell] - width(cell) / 2.0).fold(f64::INFINITY, f64::min);
    if left.is_finite() {
        for x in &mut x {
            *x -= left;
        }
    }
    x
}

fn settle(grid: &Grid, row: &[usize], width: &impl Fn(usize) -> f64, x: &mut [f64]) {
    let mut pools: Vec<Pool> = Vec::with_capacity(row.len());
    let mut offsets = Vec::with_capacity(row.len());
    let mut offset = 0.0;
    for (at, &cell) in row.iter().enumerate() {
        if let Some(&before) = at.checked_sub(1).and_then(|before| row.get(before)) {
            offset += f64::midpoint(width(before), width(cell)) + GAP;
        }
        offsets.push(offset);
        let (target, weight) = target(grid, cell, x);
        pools.push(Pool { target: target - offset, weight, cells: 1 });
        while let [.., left, right] = pools.as_slice()
            && left.target > right.target
        {
            let weight = left.weight + right.weight;
            let merged = Pool {
                target: (left.target * left.weight + right.target * right.weight) / weight,
                weight,
                cells: left.cells + right.cells,
            };
            pools.truncate(pools.len() - 2);
            pools.push(merged);
        }
    }
    let targets = pools.iter().flat_map(|pool| std::iter::repeat_n(pool.target, pool.cells));
    for ((&cell, offset), target) in row.iter().zip(offsets).zip(targets) {
        x[cell] = target + offset;
    }
}

struct Pool {
    target: f64,
    weight: f64,
    cells: usize,
}

/// The position that suits a cell best, and its weight. Long edges should be straight, so their points pull hardest.
fn target(grid: &Grid, cell: usize, x: &[f64]) -> (f64, f64) {
    let pull = |other: usize| match (grid.cells[cell], grid.cells[other]) {
        (Cell::Pass(_), Cell::Pass(_)) => 8.0,
        (Cell::Node(_), Cell::Node(_)) => 4.0,
        // Boxes that follow each other should stand in a column, whatever lines pass.
        _ => 0.3,
    };
    let (mut sum, mut weight) = (0.0, 0.0);
    for &other in grid.below[cell].iter().chain(&grid.above[cell]) {
        sum += x[other] * pull(other);
        weight += pull(other);
    }
    // Without neighbours, and a little with them, a cell stays where it is.
    let stay = 0.05;
    ((sum + x[cell] * stay) / (weight + stay), weight + stay)
}
