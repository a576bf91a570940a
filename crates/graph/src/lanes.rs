//! Parallel lanes for lines that run beside the nodes: two lines whose spans touch never share one, and short ones are nearer.

/// Gives each span (lowest and highest place, both inclusive) a lane from 0; returns the lanes and their number.
pub(crate) fn lanes(spans: &[(usize, usize)]) -> (Vec<usize>, usize) {
    let mut by_length: Vec<usize> = (0..spans.len()).collect();
    by_length.sort_by_key(|at| (spans[*at].1 - spans[*at].0, spans[*at].0, *at));
    let mut taken: Vec<Vec<(usize, usize)>> = Vec::new();
    let mut lane_of = vec![0; spans.len()];
    for at in by_length {
        let (low, high) = spans[at];
        let free = taken.iter().position(|lane| lane.iter().all(|(from, to)| high < *from || *to < low));
        let lane = free.unwrap_or_else(|| {
            taken.push(Vec::new());
            taken.len() - 1
        });
        taken[lane].push((low, high));
        lane_of[at] = lane;
    }
    (lane_of, taken.len())
}
