//! `mainstay bundle permissions`: what a bundle asks to be allowed, before it is installed (OLM0-ADMIN-30).

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use mainstay_bundle::audit::{Asked, asked};
use mainstay_bundle::{Bundle, Csv};
use mainstay_diagnostics::counted;
use mainstay_rbac::Risk;
use mainstay_terminal::bundles;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::output::{self, Format};
use serde_json::json;

use crate::commands::audit;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay bundle permissions examples/bundles/beacon/1.0.0
  mainstay bundle permissions REGISTRY/BUNDLE:TAG --scope namespace
  mainstay bundle permissions DIR --fail-on-risk -o json      exit 4 if it asks for something risky

These are the permissions of the operator; mainstay rbac shows those that its installer needs.
-o json gives {\"bundle\", \"permissions\": [{\"holder\", \"allNamespaces\", \"text\", \"rule\", \"risks\": [{\"risk\", \"text\"}]}], \"risky\": N}.
Exit codes: 0 shown, 1 bad input, 4 with --fail-on-risk: something is risky.")]
pub struct Arguments {
    /// A bundle directory or image
    #[arg(value_name = "DIR|REF")]
    bundle: String,
    /// The namespaces that the operator watches: all of them, or some [default: all if its install modes allow it]
    #[arg(long, value_enum)]
    scope: Option<Watch>,
    /// Fail if a permission is risky
    #[arg(long)]
    fail_on_risk: bool,
    /// table, json, yaml or jsonpath=PATH
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json, yaml or jsonpath=PATH"))]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Watch {
    Cluster,
    Namespace,
}

/// The permissions that a bundle asks for.
pub fn permissions(bundle: &Bundle, watches_all: bool) -> Result<Vec<Asked>, Failure> {
    asked(&bundle.csv, watches_all).map_err(|error| Failure::failed(format!("csv {}", bundle.csv.name), &error))
}

fn can_watch_all(csv: &Csv) -> bool {
    csv.install_modes.iter().any(|mode| mode.mode == "AllNamespaces" && mode.supported)
}

/// Prints the permissions and their risks.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let bundle = bundles::open(&arguments.bundle)?;
    let watches_all = arguments.scope.map_or_else(|| can_watch_all(&bundle.csv), |scope| scope == Watch::Cluster);
    let all = permissions(&bundle, watches_all)?;
    let risky = all.iter().filter(|asked| !asked.risks.is_empty()).count();
    if arguments.output.is_table() {
        audit::table(&all).print()?;
        let mut risks: BTreeMap<Risk, usize> = BTreeMap::new();
        all.iter().flat_map(|asked| &asked.risks).for_each(|risk| *risks.entry(*risk).or_default() += 1);
        for (risk, number) in risks {
            output::line(format!("{} ({number}): {risk}", risk.id()))?;
        }
        output::line(format!("{}, {risky} of them risky", counted(all.len(), "permission")))?;
    } else {
        output::value(&arguments.output, &json!({"bundle": bundle.csv.name, "permissions": audit::document(&all), "risky": risky}))?;
    }
    if arguments.fail_on_risk && risky > 0 { Err(Failure::silent(Exit::Impossible)) } else { Ok(()) }
}
