//! Names of manifest files: `0000_<runlevel>_<component>_<rest>` (CVO-GRAPH-01).

use std::cmp::Ordering;
use std::fmt;

/// The parts of a file name that order manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileName<'a> {
    /// The runlevel.
    pub level: Level<'a>,
    /// The component: letters and digits in parts joined by single hyphens.
    pub component: &'a str,
}

/// A runlevel: digits, as they stand in the name. Two are the same if their digits are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level<'a>(pub &'a str);

impl<'a> FileName<'a> {
    /// Reads a name; none if it has another form.
    pub fn parse(name: &'a str) -> Option<Self> {
        let (level, rest) = name.strip_prefix("0000_")?.split_once('_')?;
        let (component, _) = rest.split_once('_')?;
        let digits = !level.is_empty() && level.bytes().all(|byte| byte.is_ascii_digit());
        let parts = component.split('-').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        (digits && parts).then_some(Self { level: Level(level), component })
    }
}

impl PartialOrd for Level<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Level<'_> {
    /// By number, then by digits: `9`, `09`, `10`.
    fn cmp(&self, other: &Self) -> Ordering {
        let (left, right) = (self.0.trim_start_matches('0'), other.0.trim_start_matches('0'));
        left.len().cmp(&right.len()).then_with(|| left.cmp(right)).then_with(|| self.0.len().cmp(&other.0.len()))
    }
}

impl fmt::Display for Level<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CVO-GRAPH-01, CVO-REL-07: names of the form, and others.
    #[test]
    fn names() {
        for (name, expected) in [
            ("0000_03_authz-demo_01_bindings.crd.yaml", Some(("03", "authz-demo"))),
            ("0000_50_demo-operator_00_namespace.yaml", Some(("50", "demo-operator"))),
            ("0000_99_old-operator_00_tombstones.yaml", Some(("99", "old-operator"))),
            ("0000_7_A1_", Some(("7", "A1"))),
            ("0000_50_a_b", Some(("50", "a"))),
            ("0000_50_a-_b", None),
            ("0000_50_-a_b", None),
            ("0000_50_a--b_c", None),
            ("0000_50_a.b_c", None),
            ("0000_50_demo.yaml", None),
            ("0000__demo_a.yaml", None),
            ("0000_5x_demo_a.yaml", None),
            ("000_50_demo_a.yaml", None),
            ("10000_50_demo_a.yaml", None),
            ("image-references", None),
        ] {
            let parsed = FileName::parse(name).map(|parsed| (parsed.level.0, parsed.component));
            assert_eq!(parsed, expected, "{name}");
        }
        let mut levels = ["10", "9", "09", "100", "0", "00"].map(Level);
        levels.sort();
        assert_eq!(levels.map(|level| level.0), ["0", "00", "9", "09", "10", "100"]);
    }
}
