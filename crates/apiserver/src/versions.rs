//! The order of API versions: v2 before v1 before v1beta1 before v1alpha1 before the rest.

use std::cmp::Ordering;

/// Compares two version names; the greater is the preferred one.
pub fn compare(left: &str, right: &str) -> Ordering {
    match (parse(left), parse(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (None, None) => right.cmp(left),
    }
}

/// Stability (2 stable, 1 beta, 0 alpha), major, minor.
fn parse(name: &str) -> Option<(u8, u64, u64)> {
    let rest = name.strip_prefix('v')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let major = rest[..digits].parse().ok()?;
    let rest = &rest[digits..];
    if rest.is_empty() {
        return Some((2, major, 0));
    }
    let (stability, minor) = match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
        (Some(minor), _) => (1, minor),
        (_, Some(minor)) => (0, minor),
        _ => return None,
    };
    Some((stability, major, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    #[test]
    fn stable_comes_first() {
        let mut names = ["foo", "v1alpha1", "v1", "v10", "v2beta1", "v2"];
        names.sort_by(|left, right| super::compare(right, left));
        assert_eq!(names, ["v10", "v2", "v1", "v2beta1", "v1alpha1", "foo"]);
    }
}
