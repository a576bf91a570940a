//! A unit's text, by systemd's rules: sections, assignments, continued lines; and the place of what cannot be read.

use mainstay_ignition::unit::{Reader, UnitError, sections};

/// A line of a unit that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {error}")]
pub struct Syntax {
    /// The line, from 1.
    pub line: usize,
    /// Why.
    pub error: UnitError,
}

/// A unit's assignments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitFile {
    assignments: Vec<(String, String, String)>,
}

impl UnitFile {
    /// Checks a unit of a config, by the rules of Ignition's reader.
    ///
    /// # Errors
    /// A line cannot be read.
    pub fn check(text: &str) -> Result<(), Syntax> {
        sections(text, Reader::Current).map(drop).map_err(|error| {
            let lines = logical_lines(text);
            let line = lines.iter().find(|(_, line)| is_broken(line)).map_or(1, |(number, _)| *number);
            Syntax { line, error }
        })
    }

    /// Reads a unit; lines that systemd would pass over are passed over.
    pub fn read(text: &str) -> Self {
        let (mut unit, mut section) = (Self::default(), None::<String>);
        for (_, line) in logical_lines(text) {
            if let Some(name) = line.strip_prefix('[') {
                section = Some(name.split(']').next().unwrap_or_default().to_owned());
            } else if let (Some(section), Some((key, value))) = (&section, line.split_once('=')) {
                unit.assignments.push((section.clone(), key.trim().to_owned(), value.trim().to_owned()));
            }
        }
        unit
    }

    /// The words of a key of a section over all its assignments; an empty one takes back those before.
    pub fn words(&self, section: &str, key: &str) -> Vec<String> {
        let mut words = Vec::new();
        for (_, _, value) in self.assignments.iter().filter(|(of, name, _)| of == section && name == key) {
            if value.is_empty() {
                words.clear();
            }
            words.extend(value.split_whitespace().map(|word| word.trim_matches(['"', '\'']).to_owned()));
        }
        words
    }

    /// The last value of a key of a section.
    pub fn last(&self, section: &str, key: &str) -> Option<&str> {
        let mut found = self.assignments.iter().rev().filter(|(of, name, _)| of == section && name == key);
        found.next().map(|(_, _, value)| value.as_str())
    }

    /// Adds the assignments of a drop-in.
    pub fn extend(&mut self, drop_in: UnitFile) {
        self.assignments.extend(drop_in.assignments);
    }
}

/// The lines with the numbers of their beginnings; comments and blank lines are left out, continued ones joined.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (index, line) in text.lines().enumerate() {
        let is_comment = line.trim_start().starts_with(['#', ';']);
        // Comments may stand between the parts of a continued line.
        if is_comment || (line.trim().is_empty() && open.is_none()) {
            continue;
        }
        let (number, mut joined) = open.take().unwrap_or((index + 1, String::new()));
        if let Some(part) = line.strip_suffix('\\') {
            joined.push_str(part);
            joined.push(' ');
            open = Some((number, joined));
        } else {
            joined.push_str(line);
            lines.push((number, joined.trim().to_owned()));
        }
    }
    lines.extend(open.map(|(number, joined)| (number, joined.trim().to_owned())));
    lines
}

fn is_broken(line: &str) -> bool {
    match line.strip_prefix('[') {
        Some(rest) => !rest.ends_with(']'),
        None => !line.contains('=') || line.len() > 2048,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    /// MACH-NODE-11: what `[Install]` says, over continued lines, comments and resets.
    #[test]
    fn assignments_are_read_as_systemd_reads_them() {
        let unit = UnitFile::read(
            "# a comment\n[Unit]\nDescription=a\\\n  # between\n  b\n\n[Install]\nWantedBy=one.target\nWantedBy=\nWantedBy=two.target three.target\nAlias=\"x.service\"\n",
        );
        assert_eq!(unit.words("Install", "WantedBy"), ["two.target", "three.target"]);
        assert_eq!(unit.words("Install", "Alias"), ["x.service"]);
        assert_eq!(unit.last("Unit", "Description"), Some("a   b"));
        assert_eq!(unit.words("Unit", "WantedBy"), Vec::<String>::new());
    }

    /// MACH-NODE-11: a unit that cannot be read is refused with its line.
    #[test]
    fn broken_lines_have_their_number() {
        for (text, line) in
            [("[Unit]\nDescription=a\nnonsense\n", 3), ("[Unit\n", 1), ("\n\n[Unit] x\nA=b", 3), ("[Unit]\nA=b\\\n c\nbroken", 4)]
        {
            assert_eq!(UnitFile::check(text).unwrap_err().line, line, "{text:?}");
        }
    }
}
