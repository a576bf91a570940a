//! Circles in a graph.

/// A circle of nodes, each with an edge to the next and the last one to the first; `None` if there is none. `next` holds the targets of each node.
pub(crate) fn find(next: &[Vec<usize>]) -> Option<Vec<usize>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        No,
        OnPath,
        Done,
    }
    let mut seen = vec![Seen::No; next.len()];
    for start in 0..next.len() {
        if seen[start] != Seen::No {
            continue;
        }
        // The path from the start, each node with the number of its targets that were followed. No recursion: a path may be as long as the graph.
        let mut path = vec![(start, 0)];
        seen[start] = Seen::OnPath;
        while let Some((node, followed)) = path.last_mut() {
            let Some(target) = next[*node].get(*followed) else {
                seen[*node] = Seen::Done;
                path.pop();
                continue;
            };
            *followed += 1;
            match seen[*target] {
                Seen::Done => {}
                Seen::No => {
                    seen[*target] = Seen::OnPath;
                    path.push((*target, 0));
                }
                Seen::OnPath => {
                    let nodes: Vec<usize> = path.iter().map(|(node, _)| *node).collect();
                    let begin = nodes.iter().position(|node| node == target).unwrap_or_default();
                    return Some(nodes[begin..].to_vec());
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_circles_and_only_circles() {
        assert_eq!(find(&[]), None);
        assert_eq!(find(&[vec![1, 2], vec![2], vec![]]), None);
        assert_eq!(find(&[vec![0]]), Some(vec![0]));
        assert_eq!(find(&[vec![1], vec![2], vec![1]]), Some(vec![1, 2]));
        let long: Vec<Vec<usize>> = (0..100_000).map(|node| vec![(node + 1) % 100_000]).collect();
        assert_eq!(find(&long).map(|circle| circle.len()), Some(100_000));
    }
}
