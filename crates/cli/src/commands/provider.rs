//! `mainstay provider`: programs that are providers of machines (MACH-PROV-08).

use std::path::PathBuf;

use clap::{Args, Subcommand};
use mainstay_machine_api::exec::Limits;
use mainstay_machine_api::exec::check::{MACHINE, Tried, check};
use mainstay_runtime::Env;
use mainstay_terminal::errors::{Exit, Failure, note};
use mainstay_terminal::output::{self, Format, Table};
use mainstay_terminal::runtime;
use serde_json::{Value, json};

use crate::durations;

/// The largest file of parameters, in bytes.
const LARGEST: u64 = 1 << 20;

/// Sub-commands.
#[derive(Debug, Subcommand)]
pub enum Commands {
    /// Check that a program keeps the rules of a provider; an instance is made and removed
    Check(Check),
}

/// Arguments of `provider check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay provider check examples/providers/folder.py --parameters parameters.yaml
  mainstay provider check ./qemu-provider --parameters small.yaml --timeout 2m -o json | jq '.[] | select(.broken)'

A program is called with one argument, create, update, delete, exists, validate, default or capabilities, gets
{\"machine\", \"userData\", \"idempotencyKey\"} on standard input, and answers {\"exists\", \"providerID\", \"addresses\", \"instanceState\",
\"providerStatus\", \"labels\": {\"instanceType\", \"region\", \"zone\"}, \"requeueAfter\", \"error\": {\"reason\", \"message\", \"terminal\"}} with exit code 0.
Anything else is an error, and the call is made again later.

The machine is named mainstay-provider-check and has a new UID each time. mainstay run machine-api --provider NAME=PROGRAM uses the program.

Exit codes: 0 all rules are kept, 1 the parameters cannot be read, 4 a rule is broken.")]
pub struct Check {
    /// The program
    #[arg(value_name = "PROGRAM")]
    program: PathBuf,
    /// The content of spec.providerSpec.value.parameters of machines (YAML or JSON)
    #[arg(long, value_name = "FILE")]
    parameters: Option<PathBuf>,
    /// The name that machines use for the program
    #[arg(long, value_name = "NAME", default_value = "check")]
    name: String,
    /// The time of one call
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    timeout: String,
    /// table, json or yaml
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json or yaml"))]
    output: Format,
}

/// Runs one of the commands.
pub fn run(command: Commands) -> Result<(), Failure> {
    match command {
        Commands::Check(arguments) => checked(&arguments),
    }
}

fn checked(arguments: &Check) -> Result<(), Failure> {
    let subject = format!("provider {}", arguments.program.display());
    let parameters = parameters(arguments)?;
    let call = durations::go(&arguments.timeout)
        .ok_or_else(|| Failure::new(Exit::Usage, "--timeout", format!("expected a duration such as 90s, found {:?}", arguments.timeout)))?;
    let env = Env::system();
    let uid = format!("check-{:016x}{:016x}", env.random(), env.random());
    note(format!("{subject}: an instance for machine {MACHINE}, UID {uid}, is made and removed"));
    let limits = Limits { call, ..Limits::default() };
    let tried = runtime::block_on(async { Ok(check(&arguments.program, &arguments.name, &parameters, &uid, limits).await) })?;
    if arguments.output.is_table() {
        table(&tried).print()?;
    } else {
        let value = serde_json::to_value(&tried).map_err(|error| Failure::failed(&subject, &error))?;
        output::value(&arguments.output, &value)?;
    }
    match tried.iter().filter(|tried| tried.broken.is_some()).count() {
        0 => Ok(()),
        count => Err(Failure::new(Exit::Impossible, subject, format!("{count} of {} rules are broken", tried.len()))),
    }
}

fn parameters(arguments: &Check) -> Result<Value, Failure> {
    use std::io::Read as _;
    let Some(path) = &arguments.parameters else { return Ok(json!({})) };
    let subject = format!("--parameters {}", path.display());
    let mut text = String::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_string(&mut text));
    read.map_err(|error| Failure::failed(&subject, &error))?;
    if text.len() as u64 > LARGEST {
        return Err(Failure::new(Exit::Failed, subject, format!("it has more than {LARGEST} bytes")));
    }
    let value = mainstay_yaml::parse(&text).map_err(|error| Failure::failed(&subject, &error))?;
    if value.is_object() { Ok(value) } else { Err(Failure::new(Exit::Failed, subject, "expected an object")) }
}

fn table(tried: &[Tried]) -> Table {
    let mut table = Table::new(&["KEPT", "RULE", "PROBLEM"]);
    for one in tried {
        let kept = if one.broken.is_none() { "yes" } else { "no" };
        table.row([kept.to_owned(), one.rule.to_owned(), one.broken.clone().unwrap_or_default()]);
    }
    table
}
