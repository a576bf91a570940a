//! `opm validate` (CATLG-22).

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use mainstay_catalog::{Extent, Finding, Invalid, Limits, validate_source};
use mainstay_catalog_store::DirectorySource;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::output::{self, Format};
use serde_json::{Value, json};

/// Why a directory cannot be read, in the words of upstream's program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
struct NoDirectory(String);

/// Arguments.
#[derive(Debug, Args)]
#[command(
    long_about = "\
Check a directory of file-based catalogs.

What is wrong is said in the words of opm, which end at the first hit of most rules. With --all everything is reported: each
finding with its file and line, its blob, the rule, and what to do about it.",
    after_help = "\
Examples:
  opm validate catalog/
  opm validate catalog/ --all
  opm validate catalog/ --all -o json | jq -r '.error.findings[] | \"\\(.file):\\(.line): \\(.rule)\"'

Exit codes: 0 valid, 1 not valid."
)]
pub struct Arguments {
    /// The directory
    directory: PathBuf,
    /// Report everything that is wrong instead of ending where opm ends
    #[arg(long)]
    all: bool,
    /// Print the verdict on standard output (json|yaml)
    #[arg(short, long)]
    output: Option<String>,
}

/// Checks a catalog.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let subject = format!("catalog {}", arguments.directory.display());
    let format = match arguments.output.as_deref() {
        None => None,
        Some("json") => Some(Format::Json),
        Some("yaml") => Some(Format::Yaml),
        Some(other) => {
            return Err(Failure::new(Exit::Failed, subject, format!("invalid --output value {other:?}, expected (json|yaml)")));
        }
    };
    let extent = if arguments.all { Extent::Everything } else { Extent::Opm };
    let verdict = match open(arguments) {
        Ok(source) => validate_source(&source, &Limits::default(), extent).map_err(Trouble::Invalid),
        Err(reason) => Err(Trouble::NoDirectory(reason)),
    };
    match (verdict, format) {
        (Ok(()), None) => Ok(()),
        (Ok(()), Some(format)) => output::value(&format, &json!({"passed": true})),
        (Err(trouble), None) => Err(trouble.into_failure(subject, extent)),
        (Err(trouble), Some(format)) => {
            output::value(&format, &json!({"passed": false, "error": trouble.to_json(extent)}))?;
            Err(Failure::silent(Exit::Failed))
        }
    }
}

fn open(arguments: &Arguments) -> Result<DirectorySource, NoDirectory> {
    let shown = arguments.directory.display();
    let metadata = std::fs::metadata(&arguments.directory).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => NoDirectory(format!("stat {shown}: no such file or directory")),
        _ => NoDirectory(format!("stat {shown}: {error}")),
    })?;
    if !metadata.is_dir() {
        return Err(NoDirectory(format!("{:?} is not a directory", shown.to_string())));
    }
    DirectorySource::of_user(&arguments.directory).map_err(|error| NoDirectory(error.to_string()))
}

/// The reason of a negative answer.
enum Trouble {
    NoDirectory(NoDirectory),
    Invalid(Invalid),
}

impl Trouble {
    /// The message: in opm's words, or with the place of a blob that cannot be loaded.
    fn message(&self, extent: Extent) -> String {
        match self {
            Self::NoDirectory(reason) => reason.to_string(),
            Self::Invalid(invalid @ Invalid::Load(error)) if extent == Extent::Opm => {
                error.upstream().unwrap_or_else(|| invalid.to_string())
            }
            Self::Invalid(invalid) => invalid.to_string(),
        }
    }

    fn findings(&self) -> &[Finding] {
        match self {
            Self::Invalid(Invalid::Rules(validation)) => validation.findings(),
            _ => &[],
        }
    }

    fn to_json(&self, extent: Extent) -> Value {
        let mut error = json!({"message": self.message(extent)});
        if extent == Extent::Everything {
            error["findings"] = self.findings().iter().map(finding_json).collect();
        }
        error
    }

    /// The text of opm; with `--all` every finding once more with its place, and the fixes as hints.
    fn into_failure(self, subject: String, extent: Extent) -> Failure {
        let mut message = self.message(extent);
        if extent == Extent::Everything && !self.findings().is_empty() {
            message.push('\n');
            for finding in self.findings() {
                for part in ["\n", &finding.blob.to_string(), ": ", finding.rule.id(), ": ", &finding.text] {
                    message.push_str(part);
                }
            }
        }
        let placed = self.message(Extent::Everything);
        let words = message.clone();
        let failure = Failure::new(Exit::Failed, subject, message);
        match extent {
            // opm does not say which blob it cannot load.
            Extent::Opm if placed != words => failure.hint(placed),
            // Exactly what opm says: other programs read this.
            Extent::Opm => failure,
            Extent::Everything => {
                let rules: BTreeSet<_> = self.findings().iter().map(|finding| finding.rule).collect();
                rules.into_iter().fold(failure, |failure, rule| failure.hint(format!("{}: {}", rule.id(), rule.fix())))
            }
        }
    }
}

fn finding_json(finding: &Finding) -> Value {
    let blob = &finding.blob;
    let mut json = json!({
        "rule": finding.rule.id(),
        "requirement": finding.rule.requirement(),
        "message": finding.text,
        "schema": blob.schema,
        "fix": finding.rule.fix(),
    });
    for (key, text) in [("package", &blob.package), ("name", &blob.name)] {
        if !text.is_empty() {
            json[key] = text.as_str().into();
        }
    }
    if let Some(place) = &blob.place {
        json["file"] = (*place.path).into();
        json["line"] = place.line.into();
    }
    json
}
