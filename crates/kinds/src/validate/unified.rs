//! Differences of two texts as unified diffs: the longest common run of lines first, then what lies before and behind it.
//!
//! Kubernetes shows what a change of a pod touches in this form. Which lines count as common follows from the algorithm (lines that are very frequent
//! in long texts do not begin a run), so it is the same one.

use std::collections::HashMap;
use std::fmt::Write as _;

/// Lines around each change.
const CONTEXT: usize = 3;
/// Texts of at least this many lines have frequent lines.
const LONG: usize = 200;

/// A run of equal lines: its beginnings in both texts, and its length.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Run {
    old: usize,
    new: usize,
    length: usize,
}

/// A stretch of both texts and whether it is equal.
#[derive(Clone, Debug)]
struct Stretch {
    equal: bool,
    old: std::ops::Range<usize>,
    new: std::ops::Range<usize>,
}

/// The unified diff of two lists of lines, each with its line end; empty if they are the same.
pub(super) fn unified(old: &[String], new: &[String]) -> String {
    let mut out = String::new();
    for group in groups(stretches(old, new)) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let range = |range: std::ops::Range<usize>| match range.len() {
            1 => format!("{}", range.start + 1),
            0 => format!("{},0", range.start),
            length => format!("{},{length}", range.start + 1),
        };
        // Writing to a text cannot fail.
        let _ = writeln!(out, "@@ -{} +{} @@", range(first.old.start..last.old.end), range(first.new.start..last.new.end));
        for stretch in group {
            let signs: &[(&str, &[String])] =
                if stretch.equal { &[(" ", &old[stretch.old])] } else { &[("-", &old[stretch.old]), ("+", &new[stretch.new])] };
            for (sign, lines) in signs {
                lines.iter().for_each(|line| out.extend([*sign, line]));
            }
        }
    }
    out
}

/// Stretches with their context, those that lie close together in one group.
fn groups(mut all: Vec<Stretch>) -> Vec<Vec<Stretch>> {
    if let Some(first) = all.first_mut().filter(|first| first.equal) {
        let skipped = first.old.len().saturating_sub(CONTEXT);
        first.old.start += skipped;
        first.new.start += skipped;
    }
    if let Some(last) = all.last_mut().filter(|last| last.equal) {
        let kept = last.old.len().min(CONTEXT);
        last.old.end = last.old.start + kept;
        last.new.end = last.new.start + kept;
    }
    let mut found = Vec::new();
    let mut group: Vec<Stretch> = Vec::new();
    for stretch in all {
        if stretch.equal && stretch.old.len() > 2 * CONTEXT {
            let (old, new) = (stretch.old.clone(), stretch.new.clone());
            group.push(Stretch { equal: true, old: old.start..old.start + CONTEXT, new: new.start..new.start + CONTEXT });
            found.push(std::mem::take(&mut group));
            group.push(Stretch { equal: true, old: old.end - CONTEXT..old.end, new: new.end - CONTEXT..new.end });
        } else {
            group.push(stretch);
        }
    }
    if group.iter().any(|stretch| !stretch.equal) {
        found.push(group);
    }
    found.retain(|group| group.iter().any(|stretch| !stretch.equal));
    found
}

fn stretches(old: &[String], new: &[String]) -> Vec<Stretch> {
    let (mut at_old, mut at_new) = (0, 0);
    let mut found = Vec::new();
    for run in runs(old, new) {
        if at_old < run.old || at_new < run.new {
            found.push(Stretch { equal: false, old: at_old..run.old, new: at_new..run.new });
        }
        (at_old, at_new) = (run.old + run.length, run.new + run.length);
        if run.length > 0 {
            found.push(Stretch { equal: true, old: run.old..at_old, new: run.new..at_new });
        }
    }
    found
}

/// All equal runs in order, neighbours joined, and an empty one at the end.
fn runs(old: &[String], new: &[String]) -> Vec<Run> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, line) in new.iter().enumerate() {
        places.entry(line).or_default().push(index);
    }
    if new.len() >= LONG {
        let most = new.len() / 100 + 1;
        places.retain(|_, found| found.len() <= most);
    }
    let mut found = Vec::new();
    let mut open = vec![(0..old.len(), 0..new.len())];
    while let Some((left, right)) = open.pop() {
        let run = longest(old, new, &places, left.clone(), right.clone());
        if run.length == 0 {
            continue;
        }
        found.push(run);
        open.push((left.start..run.old, right.start..run.new));
        open.push((run.old + run.length..left.end, run.new + run.length..right.end));
    }
    found.sort_by_key(|run| (run.old, run.new));
    let mut joined: Vec<Run> = Vec::with_capacity(found.len() + 1);
    for run in found {
        match joined.last_mut() {
            Some(last) if last.old + last.length == run.old && last.new + last.length == run.new => last.length += run.length,
            _ => joined.push(run),
        }
    }
    joined.push(Run { old: old.len(), new: new.len(), length: 0 });
    joined
}

/// The longest equal run within both ranges, the earliest of several; frequent lines only prolong it.
fn longest(
    old: &[String],
    new: &[String],
    places: &HashMap<&str, Vec<usize>>,
    left: std::ops::Range<usize>,
    right: std::ops::Range<usize>,
) -> Run {
    let mut best = Run { old: left.start, new: right.start, length: 0 };
    let mut lengths: HashMap<usize, usize> = HashMap::new();
    for index in left.clone() {
        let mut next = HashMap::new();
        for &place in places.get(old[index].as_str()).map_or(&[] as &[usize], Vec::as_slice) {
            if place < right.start {
                continue;
            }
            if place >= right.end {
                break;
            }
            let length = place.checked_sub(1).and_then(|before| lengths.get(&before)).copied().unwrap_or(0) + 1;
            next.insert(place, length);
            if length > best.length {
                best = Run { old: index + 1 - length, new: place + 1 - length, length };
            }
        }
        lengths = next;
    }
    while best.old > left.start && best.new > right.start && old[best.old - 1] == new[best.new - 1] {
        best = Run { old: best.old - 1, new: best.new - 1, length: best.length + 1 };
    }
    while best.old + best.length < left.end
        && best.new + best.length < right.end
        && old[best.old + best.length] == new[best.new + best.length]
    {
        best.length += 1;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.chars().map(|letter| format!("{letter}\n")).collect()
    }

    #[test]
    fn changes_are_shown_with_three_lines_around() {
        let cases = [
            ("abc", "abc", ""),
            ("abcdefgh", "abcdxfgh", "@@ -2,7 +2,7 @@\n b\n c\n d\n-e\n+x\n f\n g\n h\n"),
            ("a", "b", "@@ -1 +1 @@\n-a\n+b\n"),
            ("", "b", "@@ -0,0 +1 @@\n+b\n"),
            ("abcdefghijklmn", "xbcdefghijklmy", "@@ -1,4 +1,4 @@\n-a\n+x\n b\n c\n d\n@@ -11,4 +11,4 @@\n k\n l\n m\n-n\n+y\n"),
        ];
        for (old, new, wanted) in cases {
            assert_eq!(unified(&lines(old), &lines(new)), wanted, "{old} {new}");
        }
    }
}
