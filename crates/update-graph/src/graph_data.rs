//! Graph-data: channels, blocked edges and labels, as files (CVO-GD-01 to CVO-GD-05).
//!
//! ```text
//!   version                 the schema's version
//!   channels/*.yaml         which versions are in a channel
//!   blocked-edges/*.yaml    edges to remove, or to offer with a risk
//!   raw/metadata.json       labels of versions
//! ```
//!
//! Other files are ignored. A file that cannot be read is an error, never a file less: without it an edge could be offered that is blocked.

mod blocked_edge;
mod channel;
mod error;
pub(crate) mod labels;

use std::collections::BTreeMap;
use std::sync::Arc;

use mainstay_versions::Version;
use regex::{Regex, RegexBuilder};
use serde_json::Value;

pub use blocked_edge::BlockedEdge;
pub use channel::Channel;
pub use error::{GraphDataError, GraphDataProblem};

/// The version of the schema that is implemented.
pub const SCHEMA: Version = Version::new(1, 2, 0);

/// Files by their path below the folder.
pub type Files = BTreeMap<String, Vec<u8>>;

const MAX_FILES: usize = 50_000;
const MAX_FILE_BYTES: usize = 2 << 20;
const MAX_LABELS_BYTES: usize = 16 << 20;
const MAX_TOTAL_BYTES: usize = 256 << 20;
/// The largest expression, in bytes, and the largest program that it may become.
const MAX_PATTERN: usize = 16 << 10;
const MAX_PROGRAM: usize = 1 << 20;
/// Deepest nesting and most values of a YAML file.
const DEPTH: usize = 32;
const VALUES: usize = 200_000;

/// Labels by version, then by key.
pub type VersionLabels = BTreeMap<Version, BTreeMap<String, String>>;

/// The content of the files.
#[derive(Debug, Clone, Default)]
pub struct GraphData {
    /// The schema's version that the files were read with; `None` if no version was found.
    pub schema: Option<Version>,
    /// True if the files have a newer schema than the implemented one.
    pub is_newer: bool,
    /// The channels, by file.
    pub channels: Vec<Channel>,
    /// The blocked edges, by file.
    pub blocked_edges: Vec<BlockedEdge>,
    /// The labels.
    pub labels: VersionLabels,
}

/// Returns true for a path that is read.
pub fn is_read(path: &str) -> bool {
    matches!(path, "version" | "raw/metadata.json" | "LICENSE") || folder_file(path).is_some()
}

/// The folder of a channel or of a blocked edge, by its path.
fn folder_file(path: &str) -> Option<&str> {
    let (folder, name) = path.split_once('/')?;
    let is_yaml = name.rsplit_once('.').is_some_and(|(stem, ending)| !stem.is_empty() && matches!(ending, "yaml" | "yml"));
    (matches!(folder, "channels" | "blocked-edges") && is_yaml && !name.contains('/')).then_some(folder)
}

impl GraphData {
    /// Reads files; the first error refuses all.
    pub fn read(files: &Files) -> Result<Self, GraphDataError> {
        let (data, errors) = Self::read_all(files);
        match errors.into_iter().next() {
            Some(error) => Err(error),
            None => Ok(data),
        }
    }

    /// Reads what can be read, and returns every error beside it.
    pub fn read_all(files: &Files) -> (Self, Vec<GraphDataError>) {
        let mut data = Self::default();
        let mut errors = Vec::new();
        if let Err(error) = check_size(files) {
            return (data, vec![error]);
        }
        match files.get("version").map(|text| schema(text)) {
            None => errors.push(GraphDataError::new("version", GraphDataProblem::Missing)),
            Some(Ok((version, is_newer))) => (data.schema, data.is_newer) = (Some(version), is_newer),
            Some(Err(problem)) => {
                errors.push(GraphDataError::new("version", problem));
                return (data, errors);
            }
        }
        let mut patterns = Patterns::default();
        for (path, bytes) in files {
            let outcome = match folder_file(path) {
                Some("channels") => Channel::read(path, bytes).map(|channel| data.channels.push(channel)),
                Some(_) => BlockedEdge::read(path, bytes, &mut patterns).map(|edge| data.blocked_edges.push(edge)),
                None if path == "raw/metadata.json" => labels::read(path, bytes).map(|labels| data.labels = labels),
                None => Ok(()),
            };
            errors.extend(outcome.err());
        }
        (data, errors)
    }
}

fn check_size(files: &Files) -> Result<(), GraphDataError> {
    let limit = |path: &str, what, limit| GraphDataError::new(path, GraphDataProblem::TooLarge { what, limit });
    if files.len() > MAX_FILES {
        return Err(limit(".", "files", MAX_FILES));
    }
    let mut total = 0_usize;
    for (path, bytes) in files.iter().filter(|(path, _)| is_read(path)) {
        let most = if path == "raw/metadata.json" { MAX_LABELS_BYTES } else { MAX_FILE_BYTES };
        if bytes.len() > most {
            return Err(limit(path, "bytes", most));
        }
        total += bytes.len();
    }
    if total > MAX_TOTAL_BYTES { Err(limit(".", "bytes", MAX_TOTAL_BYTES)) } else { Ok(()) }
}

/// The version of the schema to read with, and true if the files have a newer one.
fn schema(text: &[u8]) -> Result<(Version, bool), GraphDataProblem> {
    let text = String::from_utf8_lossy(text).trim().to_owned();
    let version = Version::parse(&text).map_err(|source| GraphDataProblem::Version { field: "version", text: text.clone(), source })?;
    if version.major() != SCHEMA.major() {
        return Err(GraphDataProblem::Schema(text));
    }
    if version.minor() > SCHEMA.minor() { Ok((SCHEMA, true)) } else { Ok((version, false)) }
}

/// Expressions, each compiled once.
#[derive(Default)]
pub(crate) struct Patterns(BTreeMap<String, Arc<Regex>>);

impl Patterns {
    /// The compiled expression.
    pub(crate) fn get(&mut self, text: &str) -> Result<Arc<Regex>, GraphDataProblem> {
        if let Some(known) = self.0.get(text) {
            return Ok(known.clone());
        }
        if text.len() > MAX_PATTERN {
            return Err(GraphDataProblem::TooLarge { what: "bytes in field from", limit: MAX_PATTERN });
        }
        let compiled = RegexBuilder::new(text).size_limit(MAX_PROGRAM).dfa_size_limit(MAX_PROGRAM).build();
        let compiled = Arc::new(compiled.map_err(|source| GraphDataProblem::Pattern { text: text.to_owned(), source })?);
        self.0.insert(text.to_owned(), compiled.clone());
        Ok(compiled)
    }
}

/// Reads a YAML file that holds one mapping.
fn yaml(path: &str, bytes: &[u8]) -> Result<serde_json::Map<String, Value>, GraphDataError> {
    let fail = |problem| GraphDataError::new(path, problem);
    let text = std::str::from_utf8(bytes).map_err(|_| fail(GraphDataProblem::Encoding))?;
    let options = mainstay_yaml::Options { max_depth: DEPTH, max_nodes: VALUES, ..mainstay_yaml::Options::default() };
    let document = mainstay_yaml::parse_with(text, &options).map_err(|source| fail(GraphDataProblem::Yaml(source)))?;
    if let Some(twice) = document.duplicates.first() {
        return Err(fail(GraphDataProblem::Duplicate(twice.path.clone())).at(twice.line));
    }
    match document.value {
        Value::Object(members) => Ok(members),
        _ => Err(fail(GraphDataProblem::Field { field: "the file".to_owned(), expected: "a mapping" })),
    }
}

/// The line of a key at the left edge of a YAML text, from 1.
pub(crate) fn line_of_key(text: &[u8], key: &str) -> Option<usize> {
    let starts = |line: &str| line.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with(':'));
    String::from_utf8_lossy(text).lines().position(starts).map(|at| at + 1)
}

/// The line of an element of a YAML list, from 1: of its own, or within a list in brackets.
pub(crate) fn line_of_item(text: &[u8], item: &str) -> Option<usize> {
    let own = |line: &str| {
        let line = line.split(" #").next().unwrap_or(line).trim();
        line.strip_prefix('-').is_some_and(|rest| rest.trim().trim_matches(['"', '\'']) == item)
    };
    let words = |line: &str| line.split([',', '[', ']', ' ', '"', '\'']).any(|word| word == item);
    let text = String::from_utf8_lossy(text);
    text.lines().position(own).or_else(|| text.lines().position(words)).map(|at| at + 1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn files(list: &[(&str, &str)]) -> Files {
        list.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect()
    }

    fn refused(path: &str, text: &str) -> String {
        GraphData::read(&files(&[("version", "1.0.0"), (path, text)])).unwrap_err().to_string()
    }

    /// CVO-GD-01: the schema's version decides if the files are read; everything but the known files is ignored.
    #[test]
    fn schema_versions() {
        let read = |version: &str| GraphData::read(&files(&[("version", version), ("hack/x.yaml", "{"), ("channels/_OWNERS", "{")]));
        assert_eq!(read("1.1.0\n").unwrap().schema, Some(Version::new(1, 1, 0)));
        let newer = read("1.9.0").unwrap();
        assert_eq!((newer.schema, newer.is_newer), (Some(SCHEMA), true));
        assert_eq!(
            read("2.0.0").unwrap_err().to_string(),
            "version: unrecognized graph-data version 2.0.0; \"1.2.0\" and compatible versions are supported"
        );
        assert_eq!(
            read("one").unwrap_err().to_string(),
            "version: field version: \"one\" is not a semantic version: No Major.Minor.Patch elements found"
        );
        assert_eq!(GraphData::read(&Files::new()).unwrap_err().to_string(), "version: the file is missing");
    }

    /// CVO-GD-02, CVO-GD-04, CVO-GD-05: what a file may not hold, with its line where it is known.
    #[test]
    fn refused_files() {
        for (path, text, words) in [
            ("channels/a.yaml", "- 1", "channels/a.yaml: the file: expected a mapping"),
            ("channels/a.yaml", "name: a\n", "channels/a.yaml: field versions: expected a list of versions"),
            ("channels/a.yaml", "versions: []\n", "channels/a.yaml: field name: expected text"),
            (
                "channels/a.yaml",
                "name: a\nversions:\n- 4.1\n",
                "channels/a.yaml:3: field versions: \"4.1\" is not a semantic version: No Major.Minor.Patch elements found",
            ),
            ("channels/a.yaml", "name: a\nname: b\nversions: []\n", "channels/a.yaml:2: key name stands there twice"),
            ("channels/a.yaml", "a: [\n", "channels/a.yaml:"),
            ("blocked-edges/b.yaml", "from: .*\n", "blocked-edges/b.yaml: field to: expected text"),
            (
                "blocked-edges/b.yaml",
                "to: 4.1.0\nfrom: (\n",
                "blocked-edges/b.yaml:2: field from: \"(\" is no regular expression: regex parse error",
            ),
            (
                "blocked-edges/b.yaml",
                "to: 4.1.0\nfrom: .*\nname: Risk\n",
                "blocked-edges/b.yaml:3: a risk needs url, name, message and matchingRules; url is missing",
            ),
            (
                "blocked-edges/b.yaml",
                "to: 4.1.0\nfrom: .*\nname: R\nurl: u\nmessage: m\nmatchingRules: {}\n",
                "blocked-edges/b.yaml:6: field matchingRules: expected a list of rules",
            ),
            ("raw/metadata.json", "[]", "raw/metadata.json: the file: expected labels by version"),
            ("raw/metadata.json", "{\"4\": {}}", "raw/metadata.json: field version: \"4\" is not a semantic version"),
            ("raw/metadata.json", "{\"4.1.0\": {\"a\": 1}}", "raw/metadata.json: field 4.1.0[a]: expected text"),
        ] {
            let found = refused(path, text);
            assert!(found.starts_with(words), "{text}: {found}");
        }
    }

    /// CVO-GD-04: expressions that would become too large are refused in every form.
    #[test]
    fn expressions_are_bounded() {
        let bomb = format!("to: 4.1.0\nfrom: '{}'\n", "(a{1000}){1000}");
        assert!(refused("blocked-edges/b.yaml", &bomb).contains("Compiled regex exceeds size limit"));
        let long = format!("to: 4.1.0\nfrom: {}\n", "a".repeat(MAX_PATTERN + 1));
        assert!(refused("blocked-edges/b.yaml", &long).contains("more than 16384 bytes in field from"));
        let large = "x".repeat(50 << 20);
        assert_eq!(refused("channels/c.yaml", &large), "channels/c.yaml: more than 2097152 bytes");
        let aliases = "name: a\nversions: &a [&b [*b]]\nx: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]\n";
        assert!(refused("channels/c.yaml", aliases).starts_with("channels/c.yaml:"));
    }
}
