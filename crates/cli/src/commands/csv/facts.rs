//! `mainstay csv rules`, `install-modes` and `max-openshift`: single decisions about a CSV, many at once (OLM0-CSV-08, OLM0-OG-03,
//! OLM0-BUNDLE-12).

use std::path::PathBuf;

use clap::Args;
use mainstay_olm_classic_core::cases as classic;
use mainstay_terminal::errors::Failure;
use serde_json::Value;

use super::answered;
use crate::cases;

/// The questions.
#[derive(Debug, Args)]
pub struct Cases {
    /// A file of JSON lines, - for standard input
    #[arg(long, value_name = "FILE")]
    cases: PathBuf,
}

/// Arguments of `csv rules`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay csv rules --cases questions.jsonl

Every line is {\"input\": {\"rule\", \"namespace\", \"serviceAccount\", \"csv\", \"roles\", \"roleBindings\", \"clusterRoles\",
\"clusterRoleBindings\"}}; the answer has \"satisfied\" besides, and \"error\" for a rule that is invalid.

Exit codes: 0 done, 1 bad input.")]
pub struct Rules {
    #[command(flatten)]
    from: Cases,
}

/// Arguments of `csv install-modes`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay csv install-modes --cases questions.jsonl

Every line is {\"input\": {\"installModes\", \"operatorNamespace\", \"targetNamespaces\"}}; the answer has \"supported\", \"supportsError\"
or \"setError\" besides.

Exit codes: 0 done, 1 bad input.")]
pub struct InstallModes {
    #[command(flatten)]
    from: Cases,
}

/// Arguments of `csv max-openshift`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay csv max-openshift --cases questions.jsonl

Every line is {\"input\": {\"propertiesAnnotation\"}}, the annotation operatorframework.io/properties of a CSV; the answer has
\"maxOpenShiftVersion\" or \"error\" besides.

Exit codes: 0 done, 1 bad input.")]
pub struct MaxOpenShift {
    #[command(flatten)]
    from: Cases,
}

fn answer<E: std::error::Error + 'static>(from: &Cases, decide: impl Fn(&Value) -> Result<Value, E>) -> Result<(), Failure> {
    cases::answer(&from.cases, |case| {
        let answer = decide(&case["input"]).map_err(|error| Failure::failed("case", &error))?;
        Ok(answered(case, answer))
    })
}

/// Answers whether accounts may do what rules say.
pub fn rules(arguments: &Rules) -> Result<(), Failure> {
    answer(&arguments.from, classic::rule_satisfied)
}

/// Answers whether install modes support target namespaces.
pub fn install_modes(arguments: &InstallModes) -> Result<(), Failure> {
    answer(&arguments.from, classic::install_modes)
}

/// Answers which OpenShift version is the newest supported.
pub fn max_openshift(arguments: &MaxOpenShift) -> Result<(), Failure> {
    answer(&arguments.from, |input| Ok::<_, std::convert::Infallible>(classic::maximum_platform(input)))
}
