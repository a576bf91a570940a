//! The command line as upstream's tools read it.
//!
//! `opm` and `operator-sdk` are built with a library whose grammar differs from this program's own: flags anywhere, `-ofoo` and `-o=foo`,
//! `--flag=false`, the last of two wins, counts of arguments with words of their own, everything wrong exits 1 with `Error: ...` and the
//! usage. Scripts rely on that, so the commands of those faces pass here first. What a command takes is declared once, in its `clap`
//! arguments; this module reads that declaration by the other grammar and hands the words on in a form that means the same to both.
//!
//! ```text
//!   words ── find (which command) ── flags (what is set) ──┬─ help wanted ── usage ──► Outcome::Help
//!            declared commands       declared arguments    ├─ wrong ──────── usage ──► Outcome::Refused
//!                                                          └─ words in plain form ──► Outcome::Run ── clap
//! ```
//!
//! Conventions in the declarations: an argument whose long help begins with `deprecated: ` warns when it is used; arguments and commands
//! that are hidden work all the same; what is global below the root stands under "Global Flags".

mod flags;
mod usage;

use std::ffi::{OsStr, OsString};

use clap::{Arg, ArgAction, Command};

use flags::Set;
use usage::Usage;

/// The result of reading the words.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The words of the command, in a form that `clap` reads the same way, and notices for stderr.
    Run(Vec<OsString>, Vec<String>),
    /// Help, for stdout.
    Help(String),
    /// A refusal, with the usage of the command.
    Refused(Refusal),
}

/// A refusal of words that cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The problem.
    pub message: String,
    /// The usage of the command.
    pub usage: String,
    /// Notices that precede the error.
    pub notices: Vec<String>,
}

impl Refusal {
    /// The refusal as it is printed.
    pub fn to_text(&self) -> String {
        let notices = self.notices.iter().flat_map(|notice| [notice.as_str(), "\n"]);
        notices.chain(["Error: ", &self.message, "\n", &self.usage, "\n"]).collect()
    }
}

/// The reaction of a command to words that none of its sub-commands has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Groups {
    /// The command shows its help.
    Help,
    /// The command refuses them, and does nothing when there are none.
    Refuse,
}

/// Reads the words after the tool's name. `root` is the built declaration of the tool, `program` the name it is called by.
pub fn read(root: &Command, program: &str, words: &[OsString], groups: &dyn Fn(&[&str]) -> Groups) -> Outcome {
    let found = Found::find(root, words);
    let usage = Usage { root, path: &found.path, command: found.command, program };
    let names: Vec<&str> = found.path.iter().map(|command| command.get_name()).collect();
    if names.first() == Some(&"help") {
        return help(root, program, &found.rest);
    }
    let refuse = |message: String, notices: Vec<String>| Outcome::Refused(Refusal { message, usage: usage.to_text(), notices });
    let set = match Set::read(&usage.flags(), &found.rest) {
        Ok(set) => set,
        Err(invalid) => return refuse(invalid.to_string(), Vec::new()),
    };
    if set.help {
        return Outcome::Help(usage.help());
    }
    if found.command.has_subcommands() {
        return match (groups(&names), set.arguments.first()) {
            (Groups::Help, _) => Outcome::Help(usage.help()),
            (Groups::Refuse, Some(word)) => {
                refuse(format!("unknown command {:?} for {:?}", word.to_string_lossy(), usage.called()), set.notices)
            }
            (Groups::Refuse, None) => Outcome::Run(Vec::new(), set.notices),
        };
    }
    if let Some(message) = wrong_count(found.command, set.arguments.len(), &set.arguments, &usage.called()) {
        return refuse(message, set.notices);
    }
    if let Some(message) = set.missing(found.command).or_else(|| set.exclusive(found.command)) {
        return refuse(message, set.notices);
    }
    let mut out: Vec<OsString> = names.iter().map(OsString::from).collect();
    let (words, notices) = set.into_words();
    out.extend(words);
    Outcome::Run(out, notices)
}

fn help(root: &Command, program: &str, words: &[OsString]) -> Outcome {
    let found = Found::find(root, words);
    Outcome::Help(Usage { root, path: &found.path, command: found.command, program }.help())
}

/// The command that the words name, and the words that are left.
struct Found<'c> {
    path: Vec<&'c Command>,
    command: &'c Command,
    rest: Vec<OsString>,
}

impl<'c> Found<'c> {
    fn find(root: &'c Command, words: &[OsString]) -> Self {
        let mut found = Self { path: Vec::new(), command: root, rest: words.to_vec() };
        // The words behind `help` are its arguments, although `clap` declares them as commands.
        while let Some((at, next)) = found.next(root).filter(|_| found.command.get_name() != "help") {
            found.rest.remove(at);
            found.path.push(next);
            found.command = next;
        }
        found
    }

    /// The first word that is neither a flag nor a flag's value, if it names a sub-command.
    fn next(&self, root: &'c Command) -> Option<(usize, &'c Command)> {
        let known: Vec<&Arg> = self.command.get_arguments().chain(root.get_arguments()).collect();
        let mut at = 0;
        while let Some(word) = self.rest.get(at) {
            let text = word.to_string_lossy();
            match text.as_bytes() {
                b"--" => return None,
                [b'-', b'-', ..] => at += 1 + usize::from(!text.contains('=') && takes_next(&known, |arg| arg.get_long() == text.get(2..))),
                [b'-', letter] => at += 1 + usize::from(takes_next(&known, |arg| arg.get_short() == Some(char::from(*letter)))),
                [b'-', _, ..] => at += 1,
                _ => {
                    return self
                        .command
                        .find_subcommand(word)
                        .filter(|command| command.get_name() != "help" || self.path.is_empty())
                        .map(|next| (at, next));
                }
            }
        }
        None
    }
}

fn takes_next(known: &[&Arg], is: impl Fn(&Arg) -> bool) -> bool {
    known.iter().any(|arg| is(arg) && takes_value(arg))
}

/// Returns true if a flag has a value. One that takes it only after `=` is a switch that knows if it was given.
fn takes_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append) && !arg.is_require_equals_set()
}

/// The message for a wrong number of arguments.
fn wrong_count(command: &Command, count: usize, arguments: &[OsString], called: &str) -> Option<String> {
    let (mut least, mut most) = (0, Some(0_usize));
    for argument in command.get_positionals() {
        let range = argument.get_num_args().unwrap_or_default();
        let single = matches!(argument.get_action(), ArgAction::Set) && range.max_values() <= 1;
        if argument.is_required_set() {
            least += range.min_values().max(1);
        }
        most = if single {
            most.map(|most| most + 1)
        } else if range.max_values() == usize::MAX || matches!(argument.get_action(), ArgAction::Append) {
            None
        } else {
            most.map(|most| most + range.max_values())
        };
    }
    match most {
        Some(0) if count > 0 => {
            Some(format!("unknown command {:?} for {called:?}", arguments.first().map(|word| word.to_string_lossy()).unwrap_or_default()))
        }
        Some(most) if least == most && count != most => Some(format!("accepts {most} arg(s), received {count}")),
        Some(1) if count > 1 => Some(format!("accepts at most 1 arg(s), received {count}")),
        Some(most) if count < least || count > most => Some(format!("accepts between {least} and {most} arg(s), received {count}")),
        None if count < least => Some(format!("requires at least {least} arg(s), only received {count}")),
        _ => None,
    }
}

/// A word as text for messages.
fn shown(word: &OsStr) -> String {
    word.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
