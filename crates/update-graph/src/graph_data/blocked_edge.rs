//! `blocked-edges/*.yaml` (CVO-GD-04).

use std::sync::Arc;

use mainstay_versions::Version;
use regex::Regex;
use serde_json::Value;

use super::{GraphDataError, GraphDataProblem, Patterns, line_of_key, yaml};
use crate::release::with_build;
use crate::risk::{MatchingRule, Promql, Risk};

/// Edges to a version that are removed, or offered with a risk.
#[derive(Debug, Clone)]
pub struct BlockedEdge {
    /// Its file.
    pub file: String,
    /// The version that the edges lead to; without a build part, that of every architecture.
    pub to: Version,
    /// The expression that is searched in the version of the origin, build part included.
    pub from: String,
    /// The expression, compiled.
    pub pattern: Arc<Regex>,
    /// The risk; the edges are removed if there is none.
    pub risk: Option<Risk>,
    /// The version in which the problem is mended.
    pub fixed_in: Option<String>,
    /// Keys of the file that have no meaning.
    pub unknown: Vec<String>,
}

const KEYS: [&str; 8] = ["to", "from", "url", "name", "message", "matchingRules", "fixedIn", "autoExtend"];
const OF_RISK: [&str; 4] = ["url", "name", "message", "matchingRules"];
const MAX_RULES: usize = 100;
/// The architecture that old versions have in place of a pre-release.
const S390X: &str = "s390x";

impl BlockedEdge {
    /// Reads a file.
    pub(super) fn read(path: &str, bytes: &[u8], patterns: &mut Patterns) -> Result<Self, GraphDataError> {
        let members = yaml(path, bytes)?;
        let fail = |field: &str, problem| GraphDataError::new(path, problem).at(line_of_key(bytes, field));
        let text = |field: &str| match members.get(field) {
            Some(Value::String(text)) => Ok(text.as_str()),
            _ => Err(fail(field, GraphDataProblem::Field { field: field.to_owned(), expected: "text" })),
        };
        let (to, from) = (text("to")?, text("from")?);
        let version = |source| fail("to", GraphDataProblem::Version { field: "to", text: to.to_owned(), source });
        let version = Version::parse(to).map_err(version)?;
        let risk = if let Some(given) = OF_RISK.into_iter().find(|field| members.contains_key(*field)) {
            if let Some(missing) = OF_RISK.into_iter().find(|field| !members.contains_key(*field)) {
                return Err(fail(given, GraphDataProblem::PartOfRisk(missing)));
            }
            let rules = rules(&members["matchingRules"]).map_err(|problem| fail("matchingRules", problem))?;
            Some(Risk {
                url: text("url")?.to_owned(),
                name: text("name")?.to_owned(),
                message: text("message")?.to_owned(),
                matching_rules: rules,
            })
        } else {
            None
        };
        let fixed_in = members.get("fixedIn").map(|_| text("fixedIn").map(str::to_owned)).transpose()?;
        let is_s390x = version.prerelease() == S390X && version.build().is_empty();
        Ok(Self {
            file: path.to_owned(),
            to: if is_s390x { with_build(&version, S390X) } else { version },
            from: from.to_owned(),
            pattern: patterns.get(from).map_err(|problem| fail("from", problem))?,
            risk,
            fixed_in,
            unknown: members.keys().filter(|key| !KEYS.contains(&key.as_str())).cloned().collect(),
        })
    }

    /// Returns true if the edges lead to this release.
    pub fn leads_to(&self, release: &Version) -> bool {
        let build = self.to.build();
        self.to.cmp_precedence(release).is_eq() && (build.is_empty() || build == release.build())
    }
}

fn rules(value: &Value) -> Result<Vec<MatchingRule>, GraphDataProblem> {
    let wrong = |field: &str, expected| GraphDataProblem::Field { field: field.to_owned(), expected };
    let list = value.as_array().ok_or_else(|| wrong("matchingRules", "a list of rules"))?;
    if list.len() > MAX_RULES {
        return Err(GraphDataProblem::TooLarge { what: "rules", limit: MAX_RULES });
    }
    list.iter()
        .map(|rule| {
            let kind = rule["type"].as_str().ok_or_else(|| wrong("matchingRules.type", "text"))?;
            let promql = match &rule["promql"] {
                Value::Null => None,
                query => {
                    let promql = query["promql"].as_str().ok_or_else(|| wrong("matchingRules.promql.promql", "text"))?;
                    Some(Promql { promql: promql.to_owned() })
                }
            };
            Ok(MatchingRule { kind: kind.to_owned(), promql })
        })
        .collect()
}
