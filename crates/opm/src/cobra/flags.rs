//! Flags, in their written form and with their meaning.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use clap::{Arg, ArgAction, Command};

use super::{shown, takes_value};

/// Why a word is no flag, in the words of upstream's library.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct InvalidFlag(String);

/// The settings in the words.
#[derive(Debug, Default)]
pub(super) struct Set {
    /// Values by the long name, in the order of their first mention.
    values: Vec<(String, Values)>,
    /// The words that are not flags.
    pub(super) arguments: Vec<OsString>,
    /// True if help is requested.
    pub(super) help: bool,
    /// Notices about flags that were used.
    pub(super) notices: Vec<String>,
}

#[derive(Debug)]
enum Values {
    Switch(bool),
    Last(OsString),
    All(Vec<OsString>),
}

impl Set {
    /// Reads words that hold flags and arguments in any order.
    pub(super) fn read(known: &[&Arg], words: &[OsString]) -> Result<Self, InvalidFlag> {
        let mut set = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let bytes = word.as_bytes();
            match bytes {
                b"--" => {
                    set.arguments.extend(words.by_ref().cloned());
                }
                [b'-', b'-', rest @ ..] => set.long(known, word, rest, &mut words)?,
                [b'-', rest @ ..] if !rest.is_empty() => set.short(known, word, rest, &mut words)?,
                _ => set.arguments.push(word.clone()),
            }
        }
        Ok(set)
    }

    fn long<'w>(
        &mut self,
        known: &[&Arg],
        word: &OsStr,
        rest: &[u8],
        words: &mut impl Iterator<Item = &'w OsString>,
    ) -> Result<(), InvalidFlag> {
        if matches!(rest.first(), Some(b'-' | b'=')) {
            return Err(InvalidFlag(format!("bad flag syntax: {}", shown(word))));
        }
        let (name, value) = match rest.iter().position(|byte| *byte == b'=') {
            Some(at) => (&rest[..at], Some(OsString::from_vec(rest[at + 1..].to_vec()))),
            None => (rest, None),
        };
        let name = String::from_utf8_lossy(name).into_owned();
        let Some(arg) = known.iter().find(|arg| arg.get_long() == Some(name.as_str())) else {
            if name == "help" {
                self.help = truth(value.as_deref(), "-h, --help")?;
                return Ok(());
            }
            return Err(InvalidFlag(format!("unknown flag: --{name}")));
        };
        match (takes_value(arg), value) {
            (true, None) => match words.next() {
                Some(value) => self.put(arg, value.clone()),
                None => return Err(InvalidFlag(format!("flag needs an argument: --{name}"))),
            },
            (true, Some(value)) => self.put(arg, value),
            (false, value) => self.switch(arg, truth(value.as_deref(), &spelled(arg))?),
        }
        Ok(())
    }

    fn short<'w>(
        &mut self,
        known: &[&Arg],
        word: &OsStr,
        rest: &[u8],
        words: &mut impl Iterator<Item = &'w OsString>,
    ) -> Result<(), InvalidFlag> {
        let mut rest = rest;
        while let Some((letter, after)) = rest.split_first() {
            let name = char::from(*letter);
            let all = String::from_utf8_lossy(rest);
            let Some(arg) = known.iter().find(|arg| arg.get_short() == Some(name)) else {
                if name == 'h' {
                    self.help = true;
                    rest = after;
                    continue;
                }
                return Err(InvalidFlag(format!("unknown shorthand flag: {name:?} in -{all}")));
            };
            if !takes_value(arg) {
                if let Some(value) = after.strip_prefix(b"=") {
                    self.switch(arg, truth(Some(OsStr::from_bytes(value)), &spelled(arg))?);
                    return Ok(());
                }
                self.switch(arg, true);
                rest = after;
                continue;
            }
            let value = match after {
                [] => words.next().cloned().ok_or_else(|| InvalidFlag(format!("flag needs an argument: {name:?} in {}", shown(word))))?,
                [b'=', value @ ..] | value => OsString::from_vec(value.to_vec()),
            };
            self.put(arg, value);
            return Ok(());
        }
        Ok(())
    }

    fn put(&mut self, arg: &Arg, value: OsString) {
        let appends = matches!(arg.get_action(), ArgAction::Append);
        let entry = self.entry(arg, || if appends { Values::All(Vec::new()) } else { Values::Last(OsString::new()) });
        match entry {
            Values::All(all) => all.push(value),
            other => *other = Values::Last(value),
        }
    }

    fn switch(&mut self, arg: &Arg, on: bool) {
        let told = if arg.is_require_equals_set() { Values::Last(on.to_string().into()) } else { Values::Switch(on) };
        *self.entry(arg, || Values::Switch(on)) = told;
    }

    fn entry(&mut self, arg: &Arg, first: impl FnOnce() -> Values) -> &mut Values {
        let name = arg.get_long().unwrap_or_default();
        let known = self.values.iter().position(|(known, _)| known == name);
        let at = known.unwrap_or_else(|| {
            if let Some(message) = deprecation(arg) {
                self.notices.push(format!("Flag --{name} has been deprecated, {message}"));
            }
            self.values.push((name.to_owned(), first()));
            self.values.len() - 1
        });
        &mut self.values[at].1
    }

    /// The message about flags that must be set and are not.
    pub(super) fn missing(&self, command: &Command) -> Option<String> {
        let required = command.get_arguments().filter(|arg| !arg.is_positional() && arg.is_required_set()).filter_map(Arg::get_long);
        let mut missing: Vec<String> = required.filter(|name| !self.has(name)).map(|name| format!("{name:?}")).collect();
        missing.sort();
        (!missing.is_empty()).then(|| format!("required flag(s) {} not set", missing.join(", ")))
    }

    /// The message about flags that exclude each other.
    pub(super) fn exclusive(&self, command: &Command) -> Option<String> {
        let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for arg in command.get_arguments().filter(|arg| !arg.is_positional()) {
            let others = command.get_arg_conflicts_with(arg);
            let others: Vec<&str> = others.iter().filter_map(|other| other.get_long()).collect();
            if let Some(name) = arg.get_long().filter(|_| !others.is_empty()) {
                let group: Vec<&str> =
                    command.get_arguments().filter_map(Arg::get_long).filter(|other| *other == name || others.contains(other)).collect();
                let set = group.iter().filter(|name| self.has(name)).map(|name| (*name).to_owned()).collect();
                groups.insert(group.join(" "), set);
            }
        }
        let (group, mut set) = groups.into_iter().find(|(_, set)| set.len() > 1)?;
        set.sort();
        Some(format!("if any flags in the group [{group}] are set none of the others can be; [{}] were all set", set.join(" ")))
    }

    fn has(&self, name: &str) -> bool {
        self.values.iter().any(|(known, _)| known == name)
    }

    /// The same settings in an unambiguous form: `--flag`, `--flag=value`, `--`, arguments.
    pub(super) fn into_words(self) -> (Vec<OsString>, Vec<String>) {
        let mut words = Vec::new();
        for (name, values) in self.values {
            let with = |value: OsString| {
                let mut word = OsString::from(format!("--{name}="));
                word.push(value);
                word
            };
            match values {
                Values::Switch(true) => words.push(format!("--{name}").into()),
                Values::Switch(false) => {}
                Values::Last(value) => words.push(with(value)),
                Values::All(all) => words.extend(all.into_iter().map(with)),
            }
        }
        if !self.arguments.is_empty() {
            words.push("--".into());
            words.extend(self.arguments);
        }
        (words, self.notices)
    }
}

/// The replacement of a deprecated flag.
pub(super) fn deprecation(arg: &Arg) -> Option<String> {
    arg.get_long_help()?.to_string().strip_prefix("deprecated: ").map(str::to_owned)
}

/// `-o, --output`.
fn spelled(arg: &Arg) -> String {
    let long = arg.get_long().unwrap_or_default();
    arg.get_short().map_or_else(|| format!("--{long}"), |short| format!("-{short}, --{long}"))
}

/// The value of a switch.
fn truth(value: Option<&OsStr>, flag: &str) -> Result<bool, InvalidFlag> {
    let Some(value) = value else { return Ok(true) };
    match value.to_string_lossy().as_ref() {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        other => {
            Err(InvalidFlag(format!("invalid argument {other:?} for {flag:?} flag: strconv.ParseBool: parsing {other:?}: invalid syntax")))
        }
    }
}
