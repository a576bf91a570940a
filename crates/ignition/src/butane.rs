//! Butane configs: YAML that becomes an Ignition config or a MachineConfig, as the command `butane` makes it.
//!
//! ```text
//!   text ── yaml ── decode ── rules ── translate (sugar: mount units, boot device, trees, ...) ── Ignition's rules ── written
//!                    │                     └─ paths: where in the text each value of the result comes from
//!                    └── unused keys
//! ```
//!
//! Findings about the result name the place in the text that it comes from. Files beside a config are read through [`Files`].

mod boot_device;
mod decode;
mod files;
mod mode;
mod mount_unit;
mod openshift;
mod paths;
mod report;
mod rules;
mod sugar;
mod translate;
mod trees;
mod variant;
mod written;

pub use files::{Entry, EntryKind, Files, FilesError, NoFiles};
pub use report::{Finding, Report};

use mainstay_yaml::Options as YamlOptions;

use crate::version::Version;
use paths::Paths;
use variant::Variant;

/// The most values of a config, those that aliases repeat included.
const MAX_VALUES: usize = 1_000_000;

/// The wanted output.
#[allow(clippy::struct_excessive_bools, reason = "each of the command's flags is one on its own")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// JSON on many lines.
    pub pretty: bool,
    /// An Ignition config, and no MachineConfig around it.
    pub raw: bool,
    /// Warnings count as errors.
    pub strict: bool,
    /// No result, only what is wrong.
    pub check: bool,
}

/// The output of the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its exit status.
    pub status: u8,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// Why a config has no result, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ButaneError {
    /// It is no YAML, or its variant and version are no texts.
    #[error("Error unmarshaling yaml: {0}")]
    Yaml(String),
    /// Values are of wrong types.
    #[error("{0}")]
    Types(String),
    /// It has no variant.
    #[error("error parsing variant; must be specified")]
    NoVariant,
    /// Its version is none.
    #[error("error parsing version; must be a valid semver")]
    InvalidVersion,
    /// The variant is gone.
    #[error("rhcos variant has been removed; use openshift variant instead: https://coreos.github.io/butane/upgrading-openshift/")]
    Rhcos,
    /// The variant has no such version.
    #[error("No translator exists for variant {variant} with version {version}")]
    UnknownVersion {
        /// The variant.
        variant: String,
        /// The version.
        version: String,
    },
    /// Upstream knows the variant in this version; this program does not.
    #[error("variant {variant} with version {version} is not supported here; supported are {supported}", supported = variant::SUPPORTED)]
    Unsupported {
        /// The variant.
        variant: String,
        /// The version.
        version: String,
    },
    /// It breaks rules.
    #[error("source config is invalid")]
    Source,
    /// Its result breaks rules.
    #[error("config generated was invalid")]
    Generated,
}

/// A result: its text, and warnings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translated {
    /// The text, without a line end.
    pub text: String,
    /// The warnings.
    pub report: Report,
}

/// Does as the command does.
pub fn answer(text: &str, options: Options, files: &dyn Files) -> Answer {
    let (report, result) = match translate(text, options, files) {
        Ok(Translated { text, report }) => (report, Ok(text)),
        Err((report, error)) => (report, Err(error)),
    };
    let mut answer = Answer { status: 0, stdout: String::new(), stderr: report.to_string() };
    match result {
        Err(error) => {
            answer.status = 1;
            let words = format!("Error translating config: {error}\n");
            answer.stderr.push_str(&words);
        }
        Ok(_) if options.strict && !report.is_empty() => {
            answer.status = 1;
            answer.stderr.push_str("Config produced warnings and --strict was specified\n");
        }
        Ok(text) if !options.check => answer.stdout = text + "\n",
        Ok(_) => {}
    }
    answer
}

/// Translates a config.
pub fn translate(text: &str, options: Options, files: &dyn Files) -> Result<Translated, (Report, ButaneError)> {
    let failed = |error| (Report::default(), error);
    let yaml = YamlOptions { max_bytes: crate::MAX_TEXT, max_nodes: MAX_VALUES, ..YamlOptions::default() };
    let tree = mainstay_yaml::read_marked(text, &yaml).map_err(|error| failed(ButaneError::Yaml(yaml_words(&error))))?;
    let (name, written) = match &tree {
        Some(tree) => decode::variant_and_version(tree).map_err(|error| failed(ButaneError::Yaml(error.to_string())))?,
        None => (String::new(), String::new()),
    };
    if name.is_empty() {
        return Err(failed(ButaneError::NoVariant));
    }
    let version = Version::parse(&written).ok_or_else(|| failed(ButaneError::InvalidVersion))?;
    let variant = Variant::find(&name, &version).map_err(failed)?;
    let Some(tree) = tree else { return Err(failed(ButaneError::NoVariant)) };
    let config = decode::config(&tree, variant.schema()).map_err(|error| failed(ButaneError::Types(error.to_string())))?;
    let mut report = Report::default();
    rules::unused_keys(&config, &tree, &mut report);
    let wraps = variant.is_openshift() && !options.raw;
    let translation = sugar::translated(&config, variant, options.raw, files);
    let mut rest = translation.report;
    rest.locate(&tree);
    report.locate(&tree);
    report.append(rest);
    let made = translation.result.map_err(|error| (report.clone(), error))?;
    let text = if wraps { written::machine_config(&config, &made) } else { written::ignition(&made, options.pretty) };
    Ok(Translated { text, report })
}

/// The words of upstream's reader of YAML instead.
fn yaml_words(error: &mainstay_yaml::Error) -> String {
    let problem = error.problem.as_str();
    let (context, words) = problem.strip_prefix("while ").and_then(|rest| rest.split_once(": ")).unwrap_or(("", problem));
    let words = words.strip_suffix(" before the end of the text").unwrap_or(words);
    let words = if words.starts_with("a tab stands where") || words.ends_with("that cannot start any token") {
        "found character that cannot start any token"
    } else {
        words
    };
    if words.starts_with("control characters are not allowed") {
        return "yaml: control characters are not allowed".to_owned();
    }
    if words.starts_with("unknown anchor") {
        return format!("yaml: {words}");
    }
    // Its parser counts lines from 0 and its scanner from 1, and neither names the first.
    let begins = context.rsplit_once(" that begins in line ").and_then(|(_, line)| line.parse::<usize>().ok());
    let line = match begins {
        Some(start) if start > 1 => start - 1,
        Some(_) => error.line.saturating_sub(1),
        None if context.starts_with("parsing a") => error.line.saturating_sub(1),
        None if error.line > 1 => error.line,
        None => 0,
    };
    if line == 0 { format!("yaml: {words}") } else { format!("yaml: line {line}: {words}") }
}

/// The result of a translation before it is written.
struct Translation {
    report: Report,
    result: Result<crate::Struct, ButaneError>,
}

/// A config that is being made: its values, and where they come from.
struct Making {
    config: crate::Struct,
    paths: Paths,
}
