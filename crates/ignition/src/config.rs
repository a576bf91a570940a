//! Reading configs of 3.0 to 3.4 into 3.4.

use crate::data::{Data, Struct};
use crate::decode::decode;
use crate::model::{Spec, stub};
use crate::node::Node;
use crate::report::{Lines, Path, Report, Severity};
use crate::translate::to_newest;
use crate::validate as rules;
use crate::version::Version;

/// A config of 3.4.
#[derive(Clone, Debug, PartialEq)]
pub struct Config(Struct);

/// Why a text is no config, in upstream's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// There is no text.
    #[error("not a config (empty)")]
    Empty,
    /// The version cannot be read.
    #[error("invalid config version (couldn't parse)")]
    InvalidVersion,
    /// The version is none of 3.0 to 3.4.
    #[error("unsupported config version")]
    UnknownVersion,
    /// The text is no JSON, a value is of a wrong type, or a rule is broken; the report says which.
    #[error("config is not valid")]
    Invalid,
    /// The text is longer than [`crate::MAX_TEXT`].
    #[error("config has more than {} bytes", crate::MAX_TEXT)]
    TooLarge,
}

/// A config that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// The config, as one of 3.4.
    pub config: Config,
    /// Warnings.
    pub report: Report,
}

/// A text that is no config.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}\nReport: {report}")]
pub struct Problem {
    /// Why.
    pub error: ConfigError,
    /// The findings.
    pub report: Report,
}

impl From<ConfigError> for Problem {
    fn from(error: ConfigError) -> Self {
        Self { error, report: Report::default() }
    }
}

/// Reads a config of 3.0 to 3.4.
pub fn parse(text: &str) -> Result<Parsed, Problem> {
    if text.is_empty() {
        return Err(ConfigError::Empty.into());
    }
    if text.len() > crate::MAX_TEXT {
        return Err(ConfigError::TooLarge.into());
    }
    let node = Node::read(text).map_err(|error| unreadable(text, error.offset(), &error.to_string()))?;
    let (asked, wrong) = decode(&node, stub());
    if let Some(wrong) = wrong {
        return Err(unreadable(text, wrong.offset, &wrong.message));
    }
    let written = asked.child("Ignition").map(|ignition| ignition.text_or_empty("Version")).unwrap_or_default();
    let version = Version::parse(written).ok_or(ConfigError::InvalidVersion)?;
    let spec = Spec::V3.into_iter().find(|spec| Version::parse(spec.text()).as_ref() == Some(&version));
    let spec = spec.ok_or(ConfigError::UnknownVersion)?;
    let (config, wrong) = decode(&node, spec.root());
    if let Some(wrong) = wrong {
        return Err(unreadable(text, wrong.offset, &wrong.message));
    }
    let mut report = rules::config(&config, spec, Some(&node));
    if !report.entries.is_empty() {
        report.locate(&node, &Lines::of(text));
    }
    if report.is_fatal() {
        return Err(Problem { error: ConfigError::Invalid, report });
    }
    Ok(Parsed { config: Config(to_newest(&config, spec)), report })
}

/// Findings about a text as a config of this version; none if it is one of another.
pub(crate) fn report_as(text: &str, spec: Spec) -> Result<Option<Report>, Problem> {
    if text.is_empty() {
        return Err(ConfigError::Empty.into());
    }
    let node = Node::read(text).map_err(|error| unreadable(text, error.offset(), &error.to_string()))?;
    let (config, wrong) = decode(&node, spec.root());
    if let Some(wrong) = wrong {
        return Err(unreadable(text, wrong.offset, &wrong.message));
    }
    let written = config.child("ignition").map(|ignition| ignition.text_or_empty("version")).unwrap_or_default();
    match Version::parse(written) {
        Some(version) if Some(&version) != Version::parse(spec.text()).as_ref() => Ok(None),
        _ => Ok(Some(rules::config(&config, spec, Some(&node)))),
    }
}

fn unreadable(text: &str, offset: usize, message: &str) -> Problem {
    let mut report = Report::default();
    report.add(Severity::Error, Path::default(), message);
    for entry in &mut report.entries {
        entry.position = Some(Lines::of(text).position(offset));
    }
    Problem { error: ConfigError::Invalid, report }
}

/// Findings about a config, without places in a text.
pub fn validate(config: &Config) -> Report {
    rules::config(&config.0, Spec::V3_4, None)
}

impl Default for Config {
    /// A config that says nothing.
    fn default() -> Self {
        let mut config = Struct::new(Spec::V3_4.root());
        if let Some(Data::Struct(ignition)) = config.get_mut("ignition") {
            ignition.set("version", Data::Text(Spec::V3_4.text().to_owned()));
        }
        Self(config)
    }
}

impl Config {
    /// A config from its values; none if they are not those of 3.4.
    pub fn from_struct(values: Struct) -> Option<Self> {
        std::ptr::eq(values.of(), Spec::V3_4.root()).then_some(Self(values))
    }

    /// Its values.
    pub fn values(&self) -> &Struct {
        &self.0
    }

    /// Its text, on one line.
    pub fn to_json(&self) -> String {
        self.0.to_json()
    }

    /// This config with what a later one says over it.
    #[must_use]
    pub fn merged_with(&self, later: &Config) -> Config {
        Config(crate::merge::merge(&self.0, &later.0))
    }

    /// A section: `storage`, `systemd`, `passwd`.
    pub fn section(&self, name: &str) -> Option<&Struct> {
        self.0.child(name)
    }

    /// A list of a section; absent is not the same as empty.
    pub fn list(&self, section: &str, list: &str) -> &Data {
        static ABSENT: Data = Data::Absent;
        self.0.child(section).map_or(&ABSENT, |section| section.get(list))
    }

    /// The structs of a list of a section.
    pub fn structs(&self, section: &str, list: &str) -> impl Iterator<Item = &Struct> {
        match self.list(section, list) {
            Data::List(items) => items.as_slice(),
            _ => &[],
        }
        .iter()
        .filter_map(Data::as_struct)
    }

    /// The files.
    pub fn files(&self) -> impl Iterator<Item = &Struct> {
        self.structs("storage", "files")
    }

    /// The systemd units.
    pub fn units(&self) -> impl Iterator<Item = &Struct> {
        self.structs("systemd", "units")
    }

    /// The users.
    pub fn users(&self) -> impl Iterator<Item = &Struct> {
        self.structs("passwd", "users")
    }

    /// Changes the files.
    pub fn for_each_file(&mut self, mut change: impl FnMut(&mut Struct)) {
        let Some(Data::Struct(storage)) = self.0.get_mut("storage") else { return };
        let Some(Data::List(files)) = storage.get_mut("files") else { return };
        for file in files {
            if let Data::Struct(file) = file {
                change(file);
            }
        }
    }
}
