//! The Ignition config of a MachineConfig, in either of the two formats that the operator takes.

use mainstay_ignition::v2::{self, TranslationError, UnexpectedUser};
use mainstay_ignition::{Config, ConfigError, parse as parse_v3};

/// A config in the format that it was written in.
#[derive(Clone, Debug, PartialEq)]
pub enum Parsed {
    /// 3.0 to 3.4, as 3.4.
    Current(Config),
    /// 2.2.
    Old(v2::Config),
}

/// Why a text is no config, in upstream's words.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ParseError {
    /// The version cannot be read.
    #[error("parsing Ignition config failed: invalid version. Supported spec versions: 2.2, 3.0, 3.1, 3.2, 3.3, 3.4")]
    InvalidVersion,
    /// The version is none that is known.
    #[error("parsing Ignition config failed: unknown version. Supported spec versions: 2.2, 3.0, 3.1, 3.2, 3.3, 3.4")]
    UnknownVersion,
    /// It is broken as one of 3.x.
    #[error("parsing Ignition config spec v3 failed with error: {}\nReport: {}", .0.error, .0.report)]
    Current(mainstay_ignition::Problem),
    /// It is broken as one of 2.2.
    #[error("parsing Ignition spec v2 failed with error: {}\nReport: {}", .0.error, .0.report)]
    Old(v2::Problem),
}

/// Why a text has no config of 3.4, in upstream's words.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConvertError {
    /// It cannot be read.
    #[error("failed to parse Ignition config: {0}")]
    Parse(#[from] ParseError),
    /// A user of a config of 2.2 is not `core`.
    #[error(transparent)]
    User(#[from] UnexpectedUser),
    /// A config of 2.2 has no counterpart.
    #[error("failed to convert Ignition config spec v2 to v3: unable to convert Ignition spec v2 config to v3: {0}")]
    Translation(#[from] TranslationError),
}

/// Reads a config.
pub fn parse(text: &str) -> Result<Parsed, ParseError> {
    let problem = match parse_v3(text) {
        Ok(parsed) => return Ok(Parsed::Current(parsed.config)),
        Err(problem) => problem,
    };
    match problem.error {
        ConfigError::InvalidVersion => Err(ParseError::InvalidVersion),
        ConfigError::UnknownVersion => match v2::parse(text) {
            Ok(config) => Ok(Parsed::Old(config)),
            Err(problem) if problem.error == v2::ConfigError::UnknownVersion => Err(ParseError::UnknownVersion),
            Err(problem) => Err(ParseError::Old(problem)),
        },
        ConfigError::Empty | ConfigError::Invalid | ConfigError::TooLarge => Err(ParseError::Current(problem)),
    }
}

/// Reads a config as one of 3.4.
pub fn parse_and_convert(text: &str) -> Result<Config, ConvertError> {
    match parse(text)? {
        Parsed::Current(config) => Ok(config),
        Parsed::Old(config) => Ok(v2::translate(&v2::without_repeats(config)?)?),
    }
}
