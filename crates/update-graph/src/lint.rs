//! Findings about graph-data before it is served (CVO-GD-06).

use std::collections::{BTreeMap, BTreeSet};

use mainstay_diagnostics::{Finding, Hint, Location, Severity};
use mainstay_promql::check_promql;
use mainstay_versions::Version;
use serde::Serialize;

use crate::evaluate::is_reason;
use crate::graph_data::{BlockedEdge, Channel, Files, GraphData, line_of_item, line_of_key};
use crate::labels::{KNOWN, is_graph_label};
use crate::release::{Release, without_build};
use crate::risk::MatchingRule;

/// A rule: what is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// A file cannot be read, so that the whole graph-data is refused.
    Unreadable,
    /// A query of metrics does not parse, or does not give an instant vector.
    Promql,
    /// A risk without a rule that counts: clusters drop the update.
    MatchingRules,
    /// One risk with different texts for one version: the graph cannot be built.
    RiskTexts,
    /// The schema is newer than the implemented one.
    NewerSchema,
    /// A key without meaning.
    UnknownKey,
    /// A channel in a file of another name.
    ChannelFile,
    /// A version twice in a channel.
    VersionTwice,
    /// A version of a channel that no release has.
    NoRelease,
    /// A blocked edge to a version that no channel, or no release, has.
    UnknownTarget,
    /// An expression that is found in no version.
    NothingMatched,
    /// A risk whose name cannot be the reason of a condition.
    RiskName,
    /// A channel that lacks a version of a more stable one, and with it the version's edges.
    LessStable,
    /// A label that begins as those of the graph, and has no meaning.
    UnknownLabel,
}

impl Rule {
    /// All rules.
    pub const ALL: [Self; 14] = [
        Self::Unreadable,
        Self::Promql,
        Self::MatchingRules,
        Self::RiskTexts,
        Self::NewerSchema,
        Self::UnknownKey,
        Self::ChannelFile,
        Self::VersionTwice,
        Self::NoRelease,
        Self::UnknownTarget,
        Self::NothingMatched,
        Self::RiskName,
        Self::LessStable,
        Self::UnknownLabel,
    ];

    /// The name.
    pub fn id(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::Promql => "promql",
            Self::MatchingRules => "matching-rules",
            Self::RiskTexts => "risk-texts",
            Self::NewerSchema => "newer-schema",
            Self::UnknownKey => "unknown-key",
            Self::ChannelFile => "channel-file",
            Self::VersionTwice => "version-twice",
            Self::NoRelease => "no-release",
            Self::UnknownTarget => "unknown-target",
            Self::NothingMatched => "nothing-matched",
            Self::RiskName => "risk-name",
            Self::LessStable => "less-stable",
            Self::UnknownLabel => "unknown-label",
        }
    }

    /// The severity of its findings.
    pub fn severity(self) -> Severity {
        match self {
            Self::Unreadable | Self::Promql | Self::MatchingRules | Self::RiskTexts => Severity::Error,
            Self::NewerSchema
            | Self::UnknownKey
            | Self::ChannelFile
            | Self::NoRelease
            | Self::UnknownTarget
            | Self::NothingMatched
            | Self::LessStable
            | Self::UnknownLabel => Severity::Warning,
            Self::VersionTwice | Self::RiskName => Severity::Info,
        }
    }

    /// The finding.
    pub fn title(self) -> &'static str {
        match self {
            Self::Unreadable => "a file that cannot be read, so that the whole graph-data is refused",
            Self::Promql => "a query of metrics that does not parse, or gives no instant vector",
            Self::MatchingRules => "a risk without a rule that clusters know: they drop the update",
            Self::RiskTexts => "one risk with different texts for one version: the graph cannot be built",
            Self::NewerSchema => "a schema that is newer than the implemented one",
            Self::UnknownKey => "a key without meaning",
            Self::ChannelFile => "a channel in a file of another name",
            Self::VersionTwice => "a version twice in a channel",
            Self::NoRelease => "a version of a channel that no release has",
            Self::UnknownTarget => "a blocked edge to a version that no channel has",
            Self::NothingMatched => "an expression that is found in no version",
            Self::RiskName => "a risk whose name cannot be the reason of a condition",
            Self::LessStable => "a channel that lacks a version of a more stable one",
            Self::UnknownLabel => "a label of the graph that has no meaning",
        }
    }

    /// The remedy.
    fn fix(self) -> &'static str {
        match self {
            Self::Unreadable => "mend the file; until then the update service keeps its last graph",
            Self::Promql => "the result has to be one sample: 1 when the risk applies, 0 when it does not",
            Self::MatchingRules => "give the risk a rule: {type: Always}, or {type: PromQL, promql: {promql: QUERY}}",
            Self::RiskTexts => "make url, message and matchingRules of the files equal, or give one of the risks another name",
            Self::NewerSchema => "check the release notes of the schema for features that this program lacks",
            Self::UnknownKey => "remove the key, or correct its spelling",
            Self::ChannelFile => "rename the file, or correct the name in it",
            Self::VersionTwice => "remove one of the two lines",
            Self::NoRelease => "remove the version from the channel, or publish the release",
            Self::UnknownTarget => "add the version to a channel, or remove the file",
            Self::NothingMatched => "correct the expression; it is searched in the version with its architecture, as in 4.11.2+amd64",
            Self::RiskName => "use letters, digits, _, comma and colon, a letter first; clusters show ExposedToRisks otherwise",
            Self::LessStable => "add the version to the less stable channel too",
            Self::UnknownLabel => "correct the label's spelling",
        }
    }
}

/// Architectures that an expression is tried with when the releases are not known.
const ARCHITECTURES: [&str; 5] = ["amd64", "arm64", "multi", "ppc64le", "s390x"];
/// Channels by their stability: a version comes to the first one first.
const STABILITY: [&str; 3] = ["candidate", "fast", "stable"];

/// Checks files. With releases, versions are compared with them, too.
pub fn lint(files: &Files, releases: Option<&[Release]>) -> Vec<Finding> {
    let (data, errors) = GraphData::read_all(files);
    let mut lint = Lint { files, findings: Vec::new() };
    for error in &errors {
        lint.add(Rule::Unreadable, &error.file, error.line, error.problem.to_string());
    }
    if data.is_newer {
        let text = files.get("version").map(|text| String::from_utf8_lossy(text).trim().to_owned()).unwrap_or_default();
        lint.add(Rule::NewerSchema, "version", Some(1), format!("schema {text} is read as {}", crate::graph_data::SCHEMA));
    }
    let released: Option<BTreeSet<Version>> =
        releases.map(|releases| releases.iter().map(|release| release.metadata.version.clone()).collect());
    for channel in &data.channels {
        lint.channel(channel, released.as_ref());
    }
    let mut versions: BTreeSet<Version> = data.channels.iter().flat_map(|channel| channel.versions.iter().cloned()).collect();
    versions.extend(released.iter().flatten().cloned());
    let origins = origins(&versions, released.is_some());
    let plain: BTreeSet<Version> = versions.iter().map(without_build).collect();
    // Hundreds of files share an expression.
    let mut matched = BTreeMap::<&str, bool>::new();
    for edge in &data.blocked_edges {
        lint.blocked_edge(edge, &plain);
        let found = matched.entry(&edge.from).or_insert_with(|| origins.iter().any(|origin| edge.matches(origin)));
        if !*found {
            let message = format!("{:?} is found in no version", edge.from);
            lint.at_key(Rule::NothingMatched, &edge.file, "from", message);
        }
    }
    lint.risk_texts(&data.blocked_edges);
    lint.stability(&data.channels);
    lint.labels(&data);
    lint.findings.sort_by(|left, right| {
        (right.severity, &left.location.as_ref().map(place)).cmp(&(left.severity, &right.location.as_ref().map(place)))
    });
    lint.findings
}

fn place(location: &Location) -> (Option<String>, Option<usize>) {
    (location.file.clone(), location.line)
}

/// The versions that an expression may be found in.
fn origins(versions: &BTreeSet<Version>, with_releases: bool) -> Vec<String> {
    let mut origins = BTreeSet::new();
    for version in versions {
        origins.insert(version.to_string());
        if !with_releases && version.build().is_empty() {
            origins.extend(ARCHITECTURES.iter().map(|architecture| format!("{version}+{architecture}")));
        }
    }
    origins.into_iter().collect()
}

struct Lint<'a> {
    files: &'a Files,
    findings: Vec<Finding>,
}

impl Lint<'_> {
    fn add(&mut self, rule: Rule, file: &str, line: Option<usize>, message: impl Into<String>) {
        let mut location = Location::file(file);
        if let Some(line) = line {
            location = location.at_line(line);
        }
        let finding = Finding::new(rule.severity(), rule.id(), format!("file {file}"), message).hint(Hint::new(rule.fix())).at(location);
        self.findings.push(finding);
    }

    fn text(&self, file: &str) -> &[u8] {
        self.files.get(file).map(Vec::as_slice).unwrap_or_default()
    }

    fn at_key(&mut self, rule: Rule, file: &str, key: &str, message: impl Into<String>) {
        let line = line_of_key(self.text(file), key);
        self.add(rule, file, line, message);
    }

    fn at_item(&mut self, rule: Rule, file: &str, item: &str, message: impl Into<String>) {
        let line = line_of_item(self.text(file), item);
        self.add(rule, file, line, message);
    }

    fn unknown_keys(&mut self, file: &str, keys: &[String]) {
        for key in keys {
            self.at_key(Rule::UnknownKey, file, key, format!("key {key} has no meaning"));
        }
    }

    fn channel(&mut self, channel: &Channel, released: Option<&BTreeSet<Version>>) {
        self.unknown_keys(&channel.file, &channel.unknown);
        let stem = channel.file.rsplit_once('.').map_or(channel.file.as_str(), |(stem, _)| stem);
        if stem != format!("channels/{}", channel.name) {
            let message = format!("the channel is named {}; its file should be {}", channel.name, channel.file_name());
            self.at_key(Rule::ChannelFile, &channel.file, "name", message);
        }
        let mut seen = BTreeSet::new();
        for version in &channel.versions {
            let text = version.to_string();
            if !seen.insert(version) {
                self.at_item(Rule::VersionTwice, &channel.file, &text, format!("version {text} is there twice"));
            }
            let is_released = |released: &BTreeSet<Version>| {
                released.iter().any(|release| {
                    version.cmp_precedence(release).is_eq() && (version.build().is_empty() || version.build() == release.build())
                })
            };
            if released.is_some_and(|released| !is_released(released)) {
                self.at_item(Rule::NoRelease, &channel.file, &text, format!("no release has version {text}"));
            }
        }
    }

    fn blocked_edge(&mut self, edge: &BlockedEdge, versions: &BTreeSet<Version>) {
        self.unknown_keys(&edge.file, &edge.unknown);
        let to = without_build(&edge.to);
        if !versions.contains(&to) {
            self.at_key(Rule::UnknownTarget, &edge.file, "to", format!("no channel has version {to}"));
        }
        let Some(risk) = &edge.risk else { return };
        if !is_reason(&risk.name) {
            let message = format!("{:?} cannot be the reason of a condition", risk.name);
            self.at_key(Rule::RiskName, &edge.file, "name", message);
        }
        if !risk.matching_rules.iter().any(MatchingRule::is_valid) {
            self.at_key(Rule::MatchingRules, &edge.file, "matchingRules", "no rule of the risk counts");
        }
        let queries = risk.matching_rules.iter().filter(|rule| rule.kind == "PromQL").filter_map(|rule| rule.promql.as_ref());
        for query in queries {
            if let Err(error) = check_promql(&query.promql) {
                let begin = line_of_query(self.text(&edge.file), &query.promql);
                self.add(Rule::Promql, &edge.file, begin.map(|begin| begin + error.line - 1), format!("the query does not fit: {error}"));
            }
        }
    }

    /// Risks of one name for one version whose texts differ.
    fn risk_texts(&mut self, edges: &[BlockedEdge]) {
        let mut first = BTreeMap::<(Version, &str), &BlockedEdge>::new();
        for edge in edges {
            let Some(risk) = &edge.risk else { continue };
            let known = *first.entry((edge.to.clone(), &risk.name)).or_insert(edge);
            if known.risk.as_ref() != Some(risk) {
                let message = format!("risk {} is described differently by {}", risk.name, known.file);
                self.at_key(Rule::RiskTexts, &edge.file, "name", message);
            }
        }
    }

    /// Channels of one minor version: what is in a more stable one is in the less stable ones, too.
    fn stability(&mut self, channels: &[Channel]) {
        let named = |prefix: &str, minor: &str| {
            channels.iter().find(|channel| channel.name.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('-')) == Some(minor))
        };
        let minors: BTreeSet<&str> = channels.iter().filter_map(|channel| channel.name.split_once('-')).map(|(_, minor)| minor).collect();
        for minor in minors {
            let present: Vec<&Channel> = STABILITY.iter().filter_map(|prefix| named(prefix, minor)).collect();
            for pair in present.windows(2) {
                let [less, more] = pair else { continue };
                for version in more.versions.iter().filter(|version| !less.holds(version) && !less.versions.contains(version)) {
                    let text = version.to_string();
                    let message = format!("version {text} and its edges are in {}, but not in {}", more.name, less.name);
                    self.at_item(Rule::LessStable, &more.file, &text, message);
                }
            }
        }
    }

    fn labels(&mut self, data: &GraphData) {
        const FILE: &str = "raw/metadata.json";
        let keys: BTreeSet<&String> = data.labels.values().flat_map(BTreeMap::keys).collect();
        for key in keys.into_iter().filter(|key| is_graph_label(key) && !KNOWN.contains(&key.as_str())) {
            let line = String::from_utf8_lossy(self.text(FILE)).lines().position(|line| line.contains(key.as_str())).map(|at| at + 1);
            self.add(Rule::UnknownLabel, FILE, line, format!("label {key} has no meaning"));
        }
    }
}

/// The line where a query begins in a YAML text.
fn line_of_query(text: &[u8], query: &str) -> Option<usize> {
    let first = query.lines().find(|line| !line.trim().is_empty())?.trim();
    // Blank lines at the beginning of the query count, too.
    let blank = query.lines().take_while(|line| line.trim().is_empty()).count();
    String::from_utf8_lossy(text).lines().position(|line| line.contains(first)).map(|at| (at + 1).saturating_sub(blank))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<(String, String, Option<usize>)> {
        let mut all: Files = files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect();
        all.entry("version".to_owned()).or_insert_with(|| b"1.1.0\n".to_vec());
        let one = |finding: Finding| {
            let location = finding.location.unwrap_or_else(|| Location::file(""));
            (finding.code.as_str().to_owned(), location.file.unwrap_or_default(), location.line)
        };
        lint(&all, None).into_iter().map(one).collect()
    }

    const CHANNEL: (&str, &str) = ("channels/fast-4.11.yaml", "name: fast-4.11\nversions:\n- 4.10.22\n- 4.11.2\n");
    const EDGE: &str = "to: 4.11.2\nfrom: 4[.]10[.].*[+]amd64$\nurl: u\nname: Slow\nmessage: m\nmatchingRules:\n- type: PromQL\n  promql:\n    promql: |\n      max(\n        up) > bool 0\n";

    /// CVO-GD-06: graph-data without a fault has no finding.
    #[test]
    fn nothing_to_find() {
        assert_eq!(found(&[CHANNEL, ("blocked-edges/a.yaml", EDGE)]), []);
    }

    /// CVO-GD-06: every rule, with file and line.
    #[test]
    fn every_rule() {
        let edge = |from: &str, to: &str| EDGE.replace(from, to);
        let stable = ("channels/stable-4.11.yaml", "name: stable-4.11\nversions: [4.10.22, 4.11.9]\n");
        for (files, rule, file, line) in [
            (vec![CHANNEL, ("blocked-edges/a.yaml", "to: x\nfrom: z\n")], Rule::Unreadable, "blocked-edges/a.yaml", Some(1)),
            (vec![CHANNEL, ("blocked-edges/a.yaml", &edge("bool 0", "bool"))], Rule::Promql, "blocked-edges/a.yaml", Some(11)),
            (
                vec![CHANNEL, ("blocked-edges/a.yaml", &edge("type: PromQL", "type: Moon"))],
                Rule::MatchingRules,
                "blocked-edges/a.yaml",
                Some(6),
            ),
            (
                vec![CHANNEL, ("blocked-edges/a.yaml", EDGE), ("blocked-edges/b.yaml", &edge("message: m", "message: other"))],
                Rule::RiskTexts,
                "blocked-edges/b.yaml",
                Some(4),
            ),
            (vec![("version", "1.7.0"), CHANNEL], Rule::NewerSchema, "version", Some(1)),
            (
                vec![CHANNEL, ("blocked-edges/a.yaml", &format!("{EDGE}fixedin: 4.11.3\n"))],
                Rule::UnknownKey,
                "blocked-edges/a.yaml",
                Some(12),
            ),
            (vec![("channels/x.yaml", CHANNEL.1)], Rule::ChannelFile, "channels/x.yaml", Some(1)),
            (
                vec![("channels/fast-4.11.yaml", "name: fast-4.11\nversions: [4.11.2, 4.11.2]\n")],
                Rule::VersionTwice,
                "channels/fast-4.11.yaml",
                Some(2),
            ),
            (vec![CHANNEL, ("blocked-edges/a.yaml", &edge("4.11.2", "4.11.3"))], Rule::UnknownTarget, "blocked-edges/a.yaml", Some(1)),
            (vec![CHANNEL, ("blocked-edges/a.yaml", &edge("amd64", "riscv64"))], Rule::NothingMatched, "blocked-edges/a.yaml", Some(2)),
            (
                vec![CHANNEL, ("blocked-edges/a.yaml", &edge("name: Slow", "name: Slow Disk"))],
                Rule::RiskName,
                "blocked-edges/a.yaml",
                Some(4),
            ),
            (vec![CHANNEL, stable], Rule::LessStable, "channels/stable-4.11.yaml", Some(2)),
            (
                vec![CHANNEL, ("raw/metadata.json", "{\n\"4.11.2\": {\"io.openshift.upgrades.graph.previous.ad\": \"4.10.22\"}}")],
                Rule::UnknownLabel,
                "raw/metadata.json",
                Some(2),
            ),
        ] {
            assert_eq!(found(&files), [(rule.id().to_owned(), file.to_owned(), line)], "{rule:?}");
        }
    }

    /// CVO-GD-06: with releases, versions that none has are found, for all architectures and for one.
    #[test]
    fn versions_without_release() {
        let text = "name: fast-4.11\nversions:\n- 4.11.2\n- 4.11.2+arm64\n- 4.11.3\n";
        let files: Files = [("version", "1.0.0"), ("channels/fast-4.11.yaml", text)]
            .map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()))
            .into();
        let document = br#"{"kind": "cincinnati-metadata-v0", "version": "4.11.2"}"#;
        let metadata = crate::ReleaseMetadata::parse(document).ok();
        let release: Vec<Release> =
            metadata.and_then(|metadata| Release::of_image(String::new(), "", "amd64", metadata)).into_iter().collect();
        let lines: Vec<_> =
            lint(&files, Some(&release)).into_iter().map(|finding| (finding.code, finding.location.and_then(|at| at.line))).collect();
        assert_eq!(lines, [("no-release".into(), Some(4)), ("no-release".into(), Some(5))]);
    }
}
