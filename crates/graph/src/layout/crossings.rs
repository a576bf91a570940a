//! The order inside the layers, with few crossings: each layer in turn is sorted by the places of its neighbours, up and down again.

use super::layers::Grid;

/// Number of times that all layers are sorted.
const SWEEPS: usize = 12;

/// Reorders the rows of a grid.
pub(super) fn reduce(grid: &mut Grid) {
    let mut place = vec![0_usize; grid.cells.len()];
    note_places(&grid.rows, &mut place);
    let mut best = (crossings(grid, &place), grid.rows.clone());
    for sweep in 0..SWEEPS {
        if best.0 == 0 {
            break;
        }
        let rows: Vec<usize> = if sweep % 2 == 0 { (1..grid.rows.len()).collect() } else { (0..grid.rows.len() - 1).rev().collect() };
        for row in rows {
            let neighbours = if sweep % 2 == 0 { &grid.below } else { &grid.above };
            let mut keyed: Vec<(f64, usize)> =
                grid.rows[row].iter().map(|cell| (middle(&neighbours[*cell], &place, place[*cell]), *cell)).collect();
            // Ties keep their order: the sort is stable.
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
            grid.rows[row] = keyed.into_iter().map(|(_, cell)| cell).collect();
            for (at, &cell) in grid.rows[row].iter().enumerate() {
                place[cell] = at;
            }
        }
        let now = crossings(grid, &place);
        if now < best.0 {
            best = (now, grid.rows.clone());
        }
    }
    grid.rows = best.1;
}

fn note_places(rows: &[Vec<usize>], place: &mut [usize]) {
    for row in rows {
        for (at, &cell) in row.iter().enumerate() {
            place[cell] = at;
        }
    }
}

/// The average place of the neighbours; a cell without neighbours stays in its place.
fn middle(neighbours: &[usize], place: &[usize], own: usize) -> f64 {
    if neighbours.is_empty() {
        return own as f64;
    }
    neighbours.iter().map(|neighbour| place[*neighbour] as f64).sum::<f64>() / neighbours.len() as f64
}

/// The number of pairs of lines that cross, counted layer by layer.
pub(super) fn crossings(grid: &Grid, place: &[usize]) -> usize {
    grid.rows
        .windows(2)
        .map(|pair| {
            let mut ends: Vec<(usize, usize)> =
                pair[0].iter().flat_map(|lower| grid.above[*lower].iter().map(|upper| (place[*lower], place[*upper]))).collect();
            ends.sort_unstable();
            inversions(&ends, pair[1].len())
        })
        .sum()
}

/// The number of pairs whose second parts are in the wrong order (a Fenwick tree of the ends before).
fn inversions(ends: &[(usize, usize)], width: usize) -> usize {
    let mut tree = vec![0_usize; width + 1];
    let mut total = 0;
    for (seen, &(_, upper)) in ends.iter().enumerate() {
        let mut at = upper + 1;
        let mut not_right = 0;
        while at > 0 {
            not_right += tree[at];
            at &= at - 1;
        }
        total += seen - not_right;
        let mut at = upper + 1;
        while at <= width {
            tree[at] += 1;
            at += at & at.wrapping_neg();
        }
    }
    total
}
