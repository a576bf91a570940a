//! `mainstay completion` (MS-CLI-07).

use clap::{CommandFactory as _, ValueEnum};

use crate::args::Cli;
use crate::errors::Failure;
use crate::output;

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mainstay completion bash > ~/.local/share/bash-completion/completions/mainstay
  mainstay completion zsh > ~/.zfunc/_mainstay
  mainstay completion fish > ~/.config/fish/completions/mainstay.fish")]
pub struct Arguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Prints the completion script.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let shell = match arguments.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "mainstay", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}
