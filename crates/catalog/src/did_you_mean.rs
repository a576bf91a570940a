//! Suggestions for mistyped names.

/// The longest name that is compared.
const LONGEST: usize = 256;

/// Returns the shortest candidate that contains the text, else the one that differs least from it, if it differs little.
pub fn nearest<'a>(text: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if text.is_empty() || text.len() > LONGEST {
        return None;
    }
    let most = (text.chars().count() / 3).max(1);
    let candidates: Vec<&str> = candidates.into_iter().filter(|candidate| candidate.len() <= LONGEST).collect();
    let containing =
        candidates.iter().filter(|candidate| text.len() > 2 && candidate.contains(text)).min_by_key(|name| (name.len(), **name));
    containing.copied().or_else(|| {
        let (distance, candidate) = candidates.iter().map(|candidate| (distance(text, candidate), *candidate)).min()?;
        (distance <= most).then_some(candidate)
    })
}

/// The number of characters to change, add or remove; only the beginnings of long texts count.
pub fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().take(LONGEST).collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().take(LONGEST).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let changed = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MS-CLI-07: a mistyped name suggests the nearest.
    #[test]
    fn nearest_names() {
        let names = ["beacon", "lantern", "strimzi-kafka-operator"];
        for (text, expected) in [
            ("becon", Some("beacon")),
            ("beacno", Some("beacon")),
            ("latern", Some("lantern")),
            ("strimzi", Some("strimzi-kafka-operator")),
            ("zzz", None),
            ("", None),
        ] {
            assert_eq!(nearest(text, names), expected, "{text}");
        }
        assert_eq!(nearest("x", []), None);
    }

    #[test]
    fn distances() {
        for (one, other, expected) in [("", "", 0), ("", "abc", 3), ("kitten", "sitting", 3), ("ä", "a", 1), ("ab", "ba", 2)] {
            assert_eq!((distance(one, other), distance(other, one)), (expected, expected), "{one} {other}");
        }
        assert_eq!(distance(&"a".repeat(1000), &"b".repeat(1000)), LONGEST);
    }
}
