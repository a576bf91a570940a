//! `mainstay up --config FILE`: options of the command line as a YAML file (MS-CLI-11).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read as _;
use std::path::Path;

use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches};
use mainstay_terminal::errors::{Exit, Failure};
use serde_json::Value;

/// The largest file, in bytes.
const LARGEST: u64 = 1 << 20;
/// The option that names the file.
const CONFIG: &str = "config";

/// Why an entry of a file is no option.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEntry {
    /// The file is no map.
    #[error("is no map of options")]
    NoMap,
    /// There is no such option.
    #[error("{name}: mainstay up has no option --{name}{}", near.as_ref().map_or_else(String::new, |near| format!("; did you mean {near}?")))]
    Unknown {
        /// The name.
        name: String,
        /// The option with the nearest name.
        near: Option<String>,
    },
    /// The option stands on the command line alone.
    #[error("{0}: this option stands on the command line alone")]
    CommandLineOnly(String),
    /// The value has another form.
    #[error("{name}: {problem}")]
    Value {
        /// The name of the option.
        name: String,
        /// The mistake.
        problem: &'static str,
    },
}

/// Returns the words that the file of `--config` stands for, if it is given: options of the command line win over those of the file.
///
/// # Errors
/// The file cannot be read, or an entry is no option.
pub fn words_of(command: &clap::Command, given: &ArgMatches) -> Result<Vec<OsString>, Failure> {
    let Some(path) = given.get_one::<std::path::PathBuf>(CONFIG) else { return Ok(Vec::new()) };
    let subject = format!("--config {}", path.display());
    let value = read(path).map_err(|error| Failure::of(Exit::Usage, &subject, &*error))?;
    words(&value, command, given).map_err(|error| Failure::of(Exit::Usage, subject, &error).hint("mainstay up --help lists the options"))
}

fn read(path: &Path) -> Result<Value, Box<dyn std::error::Error>> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(LARGEST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LARGEST {
        return Err(format!("is larger than {LARGEST} bytes").into());
    }
    Ok(mainstay_yaml::parse(&text)?)
}

/// Returns the words of a file's entries.
fn words(file: &Value, command: &clap::Command, given: &ArgMatches) -> Result<Vec<OsString>, InvalidEntry> {
    if file.is_null() {
        return Ok(Vec::new());
    }
    let entries: BTreeMap<&String, &Value> = file.as_object().ok_or(InvalidEntry::NoMap)?.iter().collect();
    let mut all = Vec::new();
    for (name, value) in entries {
        let named = |arg: &&clap::Arg| arg.get_long_and_visible_aliases().is_some_and(|longs| longs.contains(&name.as_str()));
        let Some(arg) = command.get_arguments().find(named) else {
            let longs = command.get_arguments().filter_map(clap::Arg::get_long);
            let distance = |long: &&str| long.chars().zip(name.chars()).filter(|(one, other)| one == other).count();
            let near = longs
                .filter(|long| long.len().abs_diff(name.len()) <= 3)
                .max_by_key(distance)
                .filter(|long| distance(long) * 2 > name.len());
            return Err(InvalidEntry::Unknown { name: name.clone(), near: near.map(str::to_owned) });
        };
        if matches!(name.as_str(), CONFIG | "help") {
            return Err(InvalidEntry::CommandLineOnly(name.clone()));
        }
        // `--help` and its kin have no value that could be asked for.
        if given.try_contains_id(arg.get_id().as_str()).unwrap_or(false)
            && given.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine)
        {
            continue;
        }
        let invalid = |problem| InvalidEntry::Value { name: name.clone(), problem };
        let scalar = |value: &Value| match value {
            Value::String(text) => Ok(text.clone()),
            Value::Number(number) => Ok(number.to_string()),
            Value::Bool(flag) => Ok(flag.to_string()),
            _ => Err(invalid("a text, a number, true or false, or a list of them is expected")),
        };
        match (arg.get_action(), value) {
            (ArgAction::SetTrue, Value::Bool(true)) => all.push(format!("--{name}").into()),
            (ArgAction::SetTrue, Value::Bool(false)) | (_, Value::Null) => {}
            (ArgAction::SetTrue, _) => return Err(invalid("true or false is expected")),
            (ArgAction::Append, Value::Array(list)) => {
                for one in list {
                    all.push(format!("--{name}={}", scalar(one)?).into());
                }
            }
            (_, Value::Array(list)) if arg.get_value_delimiter() == Some(',') || name == "components" => {
                let parts = list.iter().map(scalar).collect::<Result<Vec<_>, _>>()?;
                all.push(format!("--{name}={}", parts.join(",")).into());
            }
            (_, Value::Array(_)) => return Err(invalid("one value is expected, not a list")),
            (_, value) => all.push(format!("--{name}={}", scalar(value)?).into()),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use clap::Args as _;

    use super::*;
    use crate::commands::up::Arguments;

    fn command() -> clap::Command {
        Arguments::augment_args(clap::Command::new("up"))
    }

    fn of(yaml: &str, line: &[&str]) -> Result<Vec<String>, String> {
        let given = command().try_get_matches_from([&["up"], line].concat()).unwrap();
        let file = mainstay_yaml::parse(yaml).unwrap();
        let words = words(&file, &command(), &given).map_err(|error| error.to_string())?;
        Ok(words.into_iter().map(|word| word.into_string().unwrap()).collect())
    }

    /// MS-CLI-11: options stand in a file under their names; what the command line says wins; what is no option is named.
    #[test]
    fn files_are_options() {
        let yaml = "listen: 127.0.0.1:0\nnodes: 2\nverify-images: true\ndetach: false\nrun-image:\n- a=sh -c 'x y'\n- b=env\ncomponents: [nodes, scheduler]\ndisable-admission: [LimitRanger, Priority]\nmanifests: ./one\n";
        assert_eq!(
            of(yaml, &["--nodes", "5"]).unwrap(),
            [
                "--components=nodes,scheduler",
                "--disable-admission=LimitRanger",
                "--disable-admission=Priority",
                "--listen=127.0.0.1:0",
                "--manifests=./one",
                "--run-image=a=sh -c 'x y'",
                "--run-image=b=env",
                "--verify-images"
            ]
        );
        assert_eq!(of("", &[]).unwrap(), Vec::<String>::new());
        for (bad, why) in [
            ("[1]", "is no map of options"),
            ("nodez: 1", "nodez: mainstay up has no option --nodez; did you mean nodes?"),
            ("quite-unheard-of-name: 1", "quite-unheard-of-name: mainstay up has no option --quite-unheard-of-name"),
            ("config: x", "config: this option stands on the command line alone"),
            ("verify-images: 1", "verify-images: true or false is expected"),
            ("listen: [a, b]", "listen: one value is expected, not a list"),
            ("nodes: {a: b}", "nodes: a text, a number, true or false, or a list of them is expected"),
        ] {
            assert_eq!(of(bad, &[]).unwrap_err(), why, "{bad}");
        }
    }

    /// MS-CLI-11: every option of `mainstay up` can stand in a file.
    #[test]
    fn every_option_can_stand_in_a_file() {
        let given = command().try_get_matches_from(["up"]).unwrap();
        for arg in command().get_arguments().filter(|arg| !matches!(arg.get_id().as_str(), "help" | CONFIG)) {
            let long = arg.get_long().unwrap();
            let value = if matches!(arg.get_action(), ArgAction::SetTrue) { "true" } else { "x" };
            let file = mainstay_yaml::parse(&format!("{long}: {value}")).unwrap();
            assert_eq!(words(&file, &command(), &given).unwrap().len(), 1, "{long}");
        }
    }
}
