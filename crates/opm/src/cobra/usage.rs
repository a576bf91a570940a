//! The usage of a command, laid out as upstream's tools do.

use std::fmt::Write as _;

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, Command};

use super::takes_value;

/// A command and its parents.
pub(super) struct Usage<'c> {
    pub(super) root: &'c Command,
    pub(super) path: &'c [&'c Command],
    pub(super) command: &'c Command,
    pub(super) program: &'c str,
}

impl Usage<'_> {
    /// `opm alpha list`.
    pub(super) fn called(&self) -> String {
        let names = self.path.iter().map(|command| command.get_name());
        std::iter::once(self.program).chain(names).collect::<Vec<_>>().join(" ")
    }

    /// The flags that the command knows, its own first.
    pub(super) fn flags(&self) -> Vec<&Arg> {
        let above = std::iter::once(self.root).chain(self.path.iter().copied().rev().skip(1).rev());
        let inherited = above.flat_map(|command| command.get_arguments().filter(|arg| arg.is_global_set()));
        let mut flags: Vec<&Arg> = Vec::new();
        for arg in self.command.get_arguments().chain(inherited) {
            let known = |other: &&Arg| other.get_long() == arg.get_long();
            if !arg.is_positional() && arg.get_id() != "help" && !flags.iter().any(known) {
                flags.push(arg);
            }
        }
        flags
    }

    /// The purpose of the command, and its usage.
    pub(super) fn help(&self) -> String {
        let about = self.command.get_long_about().or_else(|| self.command.get_about()).map(ToString::to_string).unwrap_or_default();
        let about = about.trim_end();
        if about.is_empty() { self.to_text() } else { format!("{about}\n\n{}", self.to_text()) }
    }

    /// The usage of the command.
    pub(super) fn to_text(&self) -> String {
        let mut out = "Usage:\n".to_owned();
        let called = self.called();
        // Writing to a string cannot fail.
        let _ = if self.command.has_subcommands() {
            if runs_alone(self.path) { writeln!(out, "  {called} [flags]") } else { Ok(()) }
                .and_then(|()| writeln!(out, "  {called} [command]"))
        } else {
            writeln!(out, "  {called}{} [flags]", self.arguments())
        };
        if let Some(examples) = self.command.get_after_help().map(ToString::to_string) {
            let _ = write!(out, "\n{}\n", examples.trim_end());
        }
        self.commands(&mut out);
        let is_root = self.path.is_empty();
        let (global, local): (Vec<&Arg>, Vec<&Arg>) =
            self.flags().into_iter().filter(|arg| !is_hidden(arg)).partition(|arg| arg.is_global_set() && !is_root);
        let help = format!("help for {}", if is_root { self.program } else { self.command.get_name() });
        let _ = write!(out, "\nFlags:\n{}", table(&local, Some(&help)));
        if !global.is_empty() {
            let _ = write!(out, "\nGlobal Flags:\n{}", table(&global, None));
        }
        if self.command.has_subcommands() {
            let _ = writeln!(out, "\nUse \"{called} [command] --help\" for more information about a command.");
        }
        out
    }

    fn arguments(&self) -> String {
        let mut out = String::new();
        for argument in self.command.get_positionals().filter(|argument| !argument.is_hide_set()) {
            let name = argument.get_value_names().and_then(<[_]>::first).map_or(argument.get_id().as_str(), |name| name.as_str());
            // A name that has brackets of its own is taken as it is.
            let bracketed = name.contains(['[', '<']);
            let _ = match (bracketed, argument.is_required_set()) {
                (true, _) => write!(out, " {name}"),
                (false, true) => write!(out, " <{name}>"),
                (false, false) => write!(out, " [{name}]"),
            };
            if matches!(argument.get_action(), ArgAction::Append) && !name.ends_with("...") {
                out.push_str("...");
            }
        }
        out
    }

    fn commands(&self, out: &mut String) {
        let mut commands: Vec<(&str, String)> = self
            .command
            .get_subcommands()
            .filter(|command| !command.is_hide_set() && (command.get_name() != "help" || self.path.is_empty()))
            .map(|command| (command.get_name(), command.get_about().map(ToString::to_string).unwrap_or_default()))
            .collect();
        if commands.is_empty() {
            return;
        }
        commands.sort();
        // Upstream pads names to eleven characters at least.
        let width = commands.iter().map(|(name, _)| name.len()).max().unwrap_or_default().max(11);
        out.push_str("\nAvailable Commands:\n");
        for (name, about) in commands {
            let _ = writeln!(out, "  {name:width$} {about}");
        }
    }
}

/// Returns true for the tool itself and `alpha`, which can be called alone and then do nothing.
fn runs_alone(path: &[&Command]) -> bool {
    match path {
        [] => true,
        [only] => only.get_name() == "alpha",
        _ => false,
    }
}

/// Returns true for flags that are not shown: hidden ones, and those of this program that the tool does not have.
fn is_hidden(arg: &Arg) -> bool {
    arg.is_hide_set() || arg.get_long().is_none() || arg.get_help_heading().is_some()
}

/// Flags in columns, sorted by name.
fn table(flags: &[&Arg], help: Option<&str>) -> String {
    let mut rows: Vec<(String, String, String)> = flags
        .iter()
        .map(|arg| {
            let long = arg.get_long().unwrap_or_default();
            let short = arg.get_short().map_or_else(|| "    ".to_owned(), |short| format!("-{short}, "));
            let kind = kind(arg);
            let blank = if kind.is_empty() { "" } else { " " };
            let text = arg.get_help().map(ToString::to_string).unwrap_or_default();
            (long.to_owned(), format!("  {short}--{long}{blank}{kind}"), format!("{text}{}", default(arg)))
        })
        .collect();
    if let Some(help) = help {
        rows.push(("help".to_owned(), "  -h, --help".to_owned(), help.to_owned()));
    }
    rows.sort();
    let width = rows.iter().map(|(_, head, _)| head.len()).max().unwrap_or_default() + 3;
    let mut out = String::new();
    for (_, head, text) in rows {
        let mut lines = text.split('\n');
        let _ = writeln!(out, "{head:width$}{}", lines.next().unwrap_or_default());
        for line in lines {
            let _ = writeln!(out, "{}{line}", " ".repeat(width));
        }
    }
    out
}

fn kind(arg: &Arg) -> &'static str {
    if !takes_value(arg) {
        return "";
    }
    if matches!(arg.get_action(), ArgAction::Append) {
        return "strings";
    }
    if is_number(arg.get_value_parser()) { "uint" } else { "string" }
}

fn is_number(parser: &ValueParser) -> bool {
    let id = parser.type_id();
    [std::any::TypeId::of::<u16>(), std::any::TypeId::of::<u32>(), std::any::TypeId::of::<u64>(), std::any::TypeId::of::<usize>()]
        .iter()
        .any(|number| id == *number)
}

fn default(arg: &Arg) -> String {
    let values: Vec<String> = arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    match (values.as_slice(), kind(arg)) {
        ([], _) | (_, "") => String::new(),
        ([only], _) if only.is_empty() => String::new(),
        ([only], "uint") => format!(" (default {only})"),
        (many, "strings") => format!(" (default [{}])", many.join(",")),
        ([only], _) => format!(" (default {only:?})"),
        _ => String::new(),
    }
}
