//! `mainstay reference`: every command, its options and examples as one Markdown page, taken from the command line itself.
//!
//! docs/commands.md is the output of this command; a test keeps the two equal.

use std::fmt::Write as _;

use clap::{Arg, ArgAction, Command};
use mainstay_terminal::errors::Failure;
use mainstay_terminal::output;

/// The heading of the options that every command takes; they are left out of each command's list.
const GLOBAL: &str = "Global options";

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mainstay reference > docs/commands.md")]
pub struct Arguments {}

/// Prints the page.
pub fn run(_arguments: &Arguments, program: Command) -> Result<(), Failure> {
    output::print(&page(program))
}

/// The whole page.
fn page(mut program: Command) -> String {
    program.build();
    let mut text = String::from(
        "# Commands\n\nFor everyone who types `mainstay`: every command with its options, as `mainstay COMMAND --help` shows them. \
         This page is generated (`mainstay reference`); a test compares it with the program.\n",
    );
    text.push_str("\n## Options of every command\n\n");
    options(&program, true, &mut text);
    for command in shown(&program) {
        section(command, "mainstay", 2, &mut text);
    }
    if let Some(after) = program.get_after_help() {
        let codes = after.to_string();
        if let Some(line) = codes.lines().find(|line| line.starts_with("Exit codes")) {
            let _ = write!(text, "\n## Exit codes\n\n{line}\n");
        }
    }
    text
}

/// A command and all below it.
fn section(command: &Command, above: &str, depth: usize, text: &mut String) {
    let name = format!("{above} {}", command.get_name());
    let _ = write!(text, "\n{} {name}\n", "#".repeat(depth.min(4)));
    if let Some(about) = command.get_long_about().or_else(|| command.get_about()) {
        let _ = write!(text, "\n{}\n", about.to_string().trim_end());
    }
    let below: Vec<&Command> = shown(command).collect();
    if below.is_empty() || command.get_arguments().any(is_own) {
        let _ = write!(text, "\n```\n{}\n```\n", usage(command, &name));
        let mut list = String::new();
        options(command, false, &mut list);
        if !list.is_empty() {
            let _ = write!(text, "\n{list}");
        }
    }
    if let Some(after) = command.get_after_long_help().or_else(|| command.get_after_help()) {
        let _ = write!(text, "\n```\n{}\n```\n", after.to_string().trim_end());
    }
    for inner in below {
        section(inner, &name, depth + 1, text);
    }
}

fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help")
}

/// The usage line, with the whole path of the command.
fn usage(command: &Command, name: &str) -> String {
    let line = command.clone().render_usage().to_string();
    let line = line.trim_start_matches("Usage:").trim();
    let rest = line.split_once(command.get_name()).map_or(line, |(_, rest)| rest);
    format!("{name}{rest}")
}

fn is_own(argument: &Arg) -> bool {
    use clap::ArgAction::{Help, HelpLong, HelpShort, Version};
    !argument.is_hide_set() && !argument.is_global_set() && !matches!(argument.get_action(), Help | HelpLong | HelpShort | Version)
}

/// One line for each argument: its form, its purpose, its default and its values.
fn options(command: &Command, global: bool, text: &mut String) {
    let wanted = |argument: &&Arg| {
        if global { argument.is_global_set() && argument.get_help_heading() == Some(GLOBAL) } else { is_own(argument) }
    };
    for argument in command.get_arguments().filter(wanted) {
        let help = argument.get_long_help().or_else(|| argument.get_help()).map(ToString::to_string).unwrap_or_default();
        let _ = write!(text, "- `{}`: {}", written(argument), help.split_whitespace().collect::<Vec<_>>().join(" "));
        let values: Vec<String> =
            argument.get_possible_values().iter().filter(|v| !v.is_hide_set()).map(|v| v.get_name().to_owned()).collect();
        if !values.is_empty() && takes_value(argument) {
            let _ = write!(text, " ({})", values.join(", "));
        }
        let defaults: Vec<_> = argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        if !defaults.is_empty() && takes_value(argument) {
            let _ = write!(text, " [default: {}]", defaults.join(", "));
        }
        text.push('\n');
    }
}

fn takes_value(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::Set | ArgAction::Append)
}

/// `-o, --output <FORMAT>`, `<PACKAGE>`.
fn written(argument: &Arg) -> String {
    let values = argument.get_value_names().unwrap_or_default().iter().map(|name| format!("<{name}>")).collect::<Vec<_>>().join(" ");
    let mut names = Vec::new();
    names.extend(argument.get_short().map(|short| format!("-{short}")));
    names.extend(argument.get_long().map(|long| format!("--{long}")));
    match (names.is_empty(), takes_value(argument)) {
        (true, _) => format!("<{}>", argument.get_id().as_str().to_uppercase()).replace('_', "-"),
        (false, true) => format!("{} {values}", names.join(", ")),
        (false, false) => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Cli;

    /// MS-CLI-01: the page of the documents is what the command line says.
    #[test]
    fn the_page_is_what_the_program_says() {
        let written = include_str!("../../../../docs/commands.md");
        assert_eq!(written, page(Cli::command()), "run: mainstay reference > docs/commands.md");
    }
}
