//! `mainstay catalog ci`: the checks of a change to a catalog, for pipelines (CATLG-69).

use std::fmt::Write as _;

use clap::Args;
use futures::StreamExt as _;
use mainstay_catalog::ci::{Check, Problem, Report, check, images};
use mainstay_catalog::diff::Diff;
use mainstay_diagnostics::counted;
use mainstay_terminal::errors::Failure;
use mainstay_terminal::output::{self, Format};
use mainstay_terminal::{images as registry, runtime};

use super::content;

/// Images that are requested at the same time.
const AT_ONCE: usize = 8;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay catalog ci REGISTRY/catalog:latest ./catalog --allow-package beacon
  mainstay catalog ci main/ change/ --check-images -o json

The checks:
  packages    only packages of --allow-package have changed
  valid       the new catalog is valid
  immutable   published bundles are what they were
  updates     nobody who has something installed loses their way to the head
  lint        no error of `catalog lint` in changed packages that was not there before
  images      the images of new bundles exist (--check-images)

Exit codes: 0 all checks passed, 1 a catalog cannot be read, 4 a check did not pass.")]
pub struct Arguments {
    /// The catalog as it is published: a directory, a file or an image
    old: String,
    /// The catalog as it shall be
    new: String,
    /// A package that the author may change; may be given again. Without it every package may change
    #[arg(long = "allow-package", value_name = "PACKAGE")]
    allowed: Vec<String>,
    /// Ask the registries whether the images of new bundles exist
    #[arg(long)]
    check_images: bool,
    /// table, json, yaml or jsonpath=PATH
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json, yaml or jsonpath=PATH"))]
    output: Format,
}

/// Checks the change, prints the report, and fails if the change does not pass.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (old, new) = (content::open_placed(&arguments.old)?, content::open_placed(&arguments.new)?);
    let allowed = (!arguments.allowed.is_empty()).then_some(arguments.allowed.as_slice());
    let (mut report, difference) = check(&old, &new, allowed);
    if arguments.check_images {
        report.add(Check::Images, missing_images(&difference)?);
    }
    if arguments.output.is_table() {
        output::print(&text(&report))?;
    } else {
        let value = serde_json::to_value(&report).map_err(|error| Failure::failed("report", &error))?;
        output::value(&arguments.output, &value)?;
    }
    if report.passed { Ok(()) } else { Err(Failure::no()) }
}

fn missing_images(difference: &Diff) -> Result<Vec<Problem>, Failure> {
    runtime::block_on(async {
        let client = registry::client()?;
        let ask = |(image, (package, bundle)): (&str, (&str, &str))| {
            let (image, package, bundle) = (image.to_owned(), package.to_owned(), bundle.to_owned());
            let client = &client;
            async move {
                let asked = async { client.resolve(&client.reference(&image)?).await };
                let error = asked.await.err()?;
                Some(Problem {
                    package,
                    bundle,
                    message: format!("image {image}: {error}"),
                    fix: error.hint().unwrap_or_else(|| "push the image, or correct the reference".to_owned()),
                    ..Problem::default()
                })
            }
        };
        let asked: Vec<Option<Problem>> = futures::stream::iter(images(difference)).map(ask).buffered(AT_ONCE).collect().await;
        Ok(asked.into_iter().flatten().collect())
    })
}

fn text(report: &Report) -> String {
    let mut out = String::new();
    let mut put = |line: String| {
        // Writing to a string does not fail.
        let _written = writeln!(out, "{line}");
    };
    put(match report.changed_packages.as_slice() {
        [] => "no package has changed".to_owned(),
        packages => format!("{} changed: {}", counted(packages.len(), "package"), packages.join(", ")),
    });
    for outcome in &report.checks {
        let verdict = if outcome.passed { "passed".to_owned() } else { counted(outcome.problems.len(), "problem") };
        put(format!("{:<11}{verdict}", outcome.check.name()));
        for problem in &outcome.problems {
            let place = problem.line.map(|line| format!("{}:{line}: ", problem.path)).unwrap_or_default();
            let parts = [("package", &problem.package), ("channel", &problem.channel), ("bundle", &problem.bundle)];
            let subject: Vec<String> =
                parts.iter().filter(|(_, name)| !name.is_empty()).map(|(word, name)| format!("{word} {name}")).collect();
            let subject = if subject.is_empty() { String::new() } else { format!("{}: ", subject.join(", ")) };
            put(format!("  {place}{subject}{}", problem.message));
            if !problem.fix.is_empty() {
                put(format!("  hint: {}", problem.fix));
            }
        }
    }
    out
}
