//! Configs of 2.2: reading with the words of Ignition 0.x, removal of entries that stand twice, and translation to 3.x.

mod from_newer;
mod repeats;
mod report;
mod rules;
mod translate;
mod walk;

pub(crate) use from_newer::from_newer;
pub use repeats::{UnexpectedUser, without_repeats};
pub use report::{Entry, Kind, Report};
pub use translate::{TranslationError, translate};

use crate::data::Struct;
use crate::decode::{decode, wrong_type_of_old};
use crate::model::{Spec, first_version, last_of_old};
use crate::node::Node;
use crate::version::Version;

/// A config of 2.2.
#[derive(Clone, Debug, PartialEq)]
pub struct Config(pub(crate) Struct);

impl Config {
    /// Its values.
    pub fn values(&self) -> &Struct {
        &self.0
    }
}

/// Why a text is no config of 2.2, in upstream's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// There is no text.
    #[error("not a config (empty)")]
    Empty,
    /// The version is another one, or a value is of a wrong type although it would not be one in version 1.
    #[error("unsupported config version")]
    UnknownVersion,
    /// A value is of a wrong type in version 1, but not in 2.5.
    #[error("HandleParseErrors called with a valid config")]
    Valid,
    /// A rule is broken; the report says which.
    #[error("config is not valid")]
    Invalid,
}

/// A text that is no config of 2.2.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}\nReport: {report}")]
pub struct Problem {
    /// Why.
    pub error: ConfigError,
    /// The findings.
    pub report: Report,
}

/// Reads a config of 2.2.
pub fn parse(text: &str) -> Result<Config, Problem> {
    let failed = |error| Problem { error, report: Report::default() };
    if text.is_empty() {
        return Err(failed(ConfigError::Empty));
    }
    if text.len() > crate::MAX_TEXT {
        return Err(failed(ConfigError::UnknownVersion));
    }
    let node = Node::read(text).map_err(|_| failed(ConfigError::UnknownVersion))?;
    let (config, wrong) = decode(&node, Spec::V2_2.root());
    let version = Version::parse(config.child("ignition").map(|ignition| ignition.text_or_empty("version")).unwrap_or_default());
    let is_older = version.as_ref().is_none_or(|version| version.numbers[0] < 2);
    if wrong.is_some() || is_older {
        // Upstream goes on with older versions, down to the first, and words what is wrong there by the last of 2.x.
        if wrong_type_of_old(&node, first_version()).is_none() {
            return Err(failed(ConfigError::UnknownVersion));
        }
        return Err(match wrong_type_of_old(&node, last_of_old()) {
            Some(wrong) => Problem { error: ConfigError::Invalid, report: Report::of_text(text, wrong.offset, &wrong.message) },
            None => Problem { error: ConfigError::Valid, report: Report::default() },
        });
    }
    if version != Version::parse(Spec::V2_2.text()) {
        return Err(failed(ConfigError::UnknownVersion));
    }
    let report = walk::config(&config, Some((&node, text)), rules::Flavor::Read);
    if report.is_fatal() {
        return Err(Problem { error: ConfigError::Invalid, report });
    }
    Ok(Config(config))
}

/// Findings about a config, without places in a text.
pub fn validate(config: &Config) -> Report {
    walk::config(&config.0, None, rules::Flavor::Read)
}
