//! Validation of Image configuration and mirror rules.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

use super::rules::{MirrorRule, SourcePolicy};
use super::scope;
use crate::toml::quoted;

const LABEL: &str = "(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])";
const PATH: &str = "(?:(?:/[a-z0-9]+(?:(?:(?:[._]|__|[-]*)[a-z0-9]+)+)?)+)?";

/// A registry with a repository, if any.
static MIRROR: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(&format!("^{LABEL}(?:\\.{LABEL})*(?::[0-9]+)?{PATH}$")).ok());
/// The same, or a wildcard.
static SOURCE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(&format!("^\\*(?:\\.{LABEL})+$|^{LABEL}(?:\\.{LABEL})*(?::[0-9]+)?{PATH}$")).ok());

/// A list of the Image configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceList {
    /// Registries without TLS.
    Insecure,
    /// Registries that nothing is pulled from.
    Blocked,
    /// The only registries that something is pulled from.
    Allowed,
}

impl std::fmt::Display for SourceList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Insecure => "insecure",
            Self::Blocked => "blocked",
            Self::Allowed => "allowed",
        })
    }
}

/// Why rules cannot be used, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// An entry of the Image configuration is no scope.
    #[error("invalid entry for {list} registries {}", quoted(.scope))]
    Scope {
        /// The list.
        list: SourceList,
        /// The entry.
        scope: String,
    },
    /// A source has another form.
    #[error("invalid format for source {}", quoted(.0))]
    Source(String),
    /// A mirror has another form.
    #[error("invalid format for mirror {}", quoted(.0))]
    Mirror(String),
    /// Rules disagree.
    #[error(
        "conflicting mirrorSourcePolicy is set for the same source {} in imagedigestmirrorsets, imagetagmirrorsets, or \
         imagecontentsourcepolicies",
        quoted(.0)
    )]
    Conflict(String),
    /// A source that is never contacted is its own mirror.
    #[error("cannot set mirrorSourcePolicy: NeverContactSource if the source {} is one of the mirrors", quoted(.0))]
    OwnMirror(String),
}

/// Checks a list of the Image configuration.
///
/// # Errors
/// An entry is no scope.
pub fn scopes(list: SourceList, scopes: &[String]) -> Result<(), RuleError> {
    match scopes.iter().find(|scope| !scope::is_valid(scope)) {
        Some(scope) => Err(RuleError::Scope { list, scope: scope.clone() }),
        None => Ok(()),
    }
}

/// Checks all mirror rules, in this order.
///
/// # Errors
/// A source or mirror has another form, or rules disagree.
pub fn rules<'a>(rules: impl IntoIterator<Item = &'a MirrorRule>) -> Result<(), RuleError> {
    let mut policies: BTreeMap<&str, &SourcePolicy> = BTreeMap::new();
    let matches = |pattern: &LazyLock<Option<Regex>>, text: &str| pattern.as_ref().is_some_and(|pattern| pattern.is_match(text));
    for rule in rules {
        if !matches(&SOURCE, &rule.source) {
            return Err(RuleError::Source(rule.source.clone()));
        }
        if *policies.entry(&rule.source).or_insert(&rule.policy) != &rule.policy {
            return Err(RuleError::Conflict(rule.source.clone()));
        }
        for mirror in &rule.mirrors {
            if !matches(&MIRROR, mirror) {
                return Err(RuleError::Mirror(mirror.clone()));
            }
            if rule.policy == SourcePolicy::NeverContactSource && *mirror == rule.source {
                return Err(RuleError::OwnMirror(rule.source.clone()));
            }
        }
    }
    Ok(())
}
