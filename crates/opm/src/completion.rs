//! `opm completion`: the script for a shell, for the link named `opm` (MS-CLI-07).

use clap::{Args, Command, Subcommand};
use clap_complete::Shell;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::output;

/// Shells.
#[derive(Debug, Subcommand)]
pub enum Commands {
    /// For bash
    Bash(Arguments),
    /// For fish
    Fish(Arguments),
    /// For PowerShell
    Powershell(Arguments),
    /// For zsh
    Zsh(Arguments),
}

/// Arguments of each.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Leave out descriptions
    #[arg(long)]
    no_descriptions: bool,
}

/// Prints the script.
pub fn run(command: &Commands, declared: Option<Command>) -> Result<(), Failure> {
    let (shell, arguments) = match command {
        Commands::Bash(arguments) => (Shell::Bash, arguments),
        Commands::Fish(arguments) => (Shell::Fish, arguments),
        Commands::Powershell(arguments) => (Shell::PowerShell, arguments),
        Commands::Zsh(arguments) => (Shell::Zsh, arguments),
    };
    let mut opm = declared.ok_or_else(|| Failure::new(Exit::Failed, "completion", "there is no command opm"))?;
    if arguments.no_descriptions {
        opm = without_descriptions(opm);
    }
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut opm, "opm", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}

fn without_descriptions(command: Command) -> Command {
    command.about("").mut_args(|arg| arg.help("")).mut_subcommands(without_descriptions)
}
