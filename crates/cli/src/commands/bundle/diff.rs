//! `mainstay bundle diff`: the changes of an upgrade from one bundle to the next.

use clap::Args;
use mainstay_bundle::diff::{Sort, diff};
use mainstay_terminal::errors::Failure;
use mainstay_terminal::output::{self, Format};

use super::images::read;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay bundle diff examples/bundles/beacon/1.0.0 examples/bundles/beacon/1.1.0
  mainstay bundle diff REGISTRY/BUNDLE:v1 REGISTRY/BUNDLE:v2 -o json
  mainstay bundle diff old/ new/ --fail-on-breaking            for pipelines

-o json is {\"from\", \"to\", \"breaking\", \"changes\": [{\"section\", \"change\": \"added|removed|changed\", \"subject\", \"detail\", \"old\",
\"new\", \"breaking\"}]}. In the table + is new, - is gone, ~ is changed, and ! may break what works.
Exit codes: 0 compared, 4 with --fail-on-breaking when something may break, 1 bad input.")]
pub struct Arguments {
    /// The bundle as it is: a directory or image
    #[arg(value_name = "OLD")]
    old: String,
    /// The bundle as it would be: a directory or image
    #[arg(value_name = "NEW")]
    new: String,
    /// End with 4 when something may break what works
    #[arg(long)]
    fail_on_breaking: bool,
    /// table, json, yaml or jsonpath=PATH
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json, yaml or jsonpath=PATH"))]
    output: Format,
}

/// Prints the changes.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (old, new) = (read(&arguments.old)?, read(&arguments.new)?);
    let diff = diff(&old, &new);
    if arguments.output.is_table() {
        let mut lines = vec![format!("{} -> {}", diff.from, diff.to)];
        let mut section = None;
        for change in &diff.changes {
            if section != Some(change.section) {
                section = Some(change.section);
                lines.push(format!("\n{}", change.section));
            }
            let sign = match change.sort {
                _ if change.breaking => '!',
                Sort::Added => '+',
                Sort::Removed => '-',
                Sort::Changed => '~',
            };
            let detail = if change.detail.is_empty() { String::new() } else { format!(": {}", change.detail.replace('\n', " ")) };
            lines.push(format!("  {sign} {}{detail}", change.subject));
        }
        if diff.changes.is_empty() {
            lines.push("no differences".to_owned());
        }
        output::line(lines.join("\n"))?;
    } else {
        output::value(&arguments.output, &diff.to_json())?;
    }
    if arguments.fail_on_breaking && diff.breaks() { Err(Failure::no()) } else { Ok(()) }
}
