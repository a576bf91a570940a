//! The commands, one file each: parse, call, print.

pub mod bundle;
pub mod catalog;
pub mod completion;
pub mod crd;
pub mod opm;
pub mod resolve;
pub mod up;
pub mod versions;

use crate::args::Command;
use crate::dispatch::not_there;
use crate::errors::Failure;

/// Runs a command.
pub fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Resolve(arguments) => resolve::run(&arguments),
        Command::Bundle(command) => bundle::run(command),
        Command::Crd(command) => crd::run(command),
        Command::Versions(command) => versions::run(command),
        Command::Catalog(command) => catalog::run(command),
        Command::Opm(command) => opm::run(command),
        Command::Up(arguments) => up::run(&arguments),
        Command::Completion(arguments) => completion::run(&arguments),
        Command::OperatorSdk(tool) => Err(not_there("operator-sdk", &tool.words, "bundles can be rendered and built with mainstay bundle")),
        Command::Operator(tool) => {
            Err(not_there("kubectl operator", &tool.words, "mainstay catalog, install, upgrade, uninstall, list and describe do this work"))
        }
        Command::Adm(tool) => {
            Err(not_there("adm", &tool.words, "operators are installed and upgraded with mainstay install and mainstay upgrade"))
        }
    }
}
