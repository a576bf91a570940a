//! A check that every command that an explanation advises is accepted by this program or kubectl. The situations are those of the recorded
//! explanations of OLM v1 and of OLM classic, so that a new situation there is checked here, too.

use std::collections::BTreeSet;
use std::path::Path;

use clap::error::ErrorKind;
use serde_json::Value;

use crate::args;

/// Verbs of kubectl, each with the number of words that have to follow it.
const KUBECTL: [(&str, usize); 11] = [
    ("annotate", 3),
    ("api-resources", 0),
    ("apply", 0),
    ("create", 2),
    ("delete", 2),
    ("describe", 1),
    ("edit", 1),
    ("get", 1),
    ("label", 3),
    ("logs", 1),
    ("patch", 2),
];

/// The advised commands of all recorded explanations.
fn advised() -> BTreeSet<String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut commands = BTreeSet::new();
    let snapshots = std::fs::read_dir(here.join("../olm-v1-core/tests/snapshots")).unwrap().map(|entry| entry.unwrap().path());
    for path in snapshots.chain([here.join("../olm-classic-core/tests/explained.txt")]) {
        let name = path.file_name().unwrap().to_str().unwrap();
        if !name.starts_with("olm_v1_core__explain__") && name != "explained.txt" {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let programs = ["    mainstay ", "    kubectl ", "    echo "];
        commands
            .extend(text.lines().filter(|line| programs.iter().any(|begin| line.starts_with(begin))).map(|line| line.trim().to_owned()));
    }
    commands
}

/// The programs and their words as a shell splits a line; quotes are single ones.
fn words(line: &str) -> Vec<Vec<String>> {
    let (mut programs, mut word, mut quoted) = (vec![Vec::new()], String::new(), false);
    for character in line.chars().chain([' ']) {
        match character {
            '\'' => quoted = !quoted,
            ' ' if !quoted => match std::mem::take(&mut word).as_str() {
                "" => {}
                "|" | "&&" => programs.push(Vec::new()),
                whole => programs.last_mut().unwrap().push(whole.to_owned()),
            },
            other => word.push(other),
        }
    }
    assert!(!quoted, "a quote is left open: {line}");
    programs
}

/// The reason why a program would not accept its words.
fn problem(words: &[String]) -> Option<String> {
    let (program, rest) = words.split_first()?;
    match program.as_str() {
        "mainstay" => {
            // A word in capitals stands for a name that the user fills in.
            let named = words
                .iter()
                .map(|word| if word.chars().all(|letter| letter.is_ascii_uppercase()) { word.to_lowercase() } else { word.clone() });
            let error = args::command().try_get_matches_from(named).err()?;
            (error.kind() != ErrorKind::DisplayHelp).then(|| error.to_string())
        }
        "kubectl" => {
            let Some((_, least)) = KUBECTL.iter().find(|(verb, _)| rest.first().is_some_and(|first| first == verb)) else {
                return Some("kubectl has no such verb".to_owned());
            };
            let given = rest[1..].iter().take_while(|word| !word.starts_with("--")).count();
            let patch = rest.iter().position(|word| word == "-p").map(|at| serde_json::from_str::<Value>(&rest[at + 1]));
            match patch {
                Some(Err(error)) => Some(format!("the patch is no JSON: {error}")),
                None if rest[0] == "patch" => Some("a patch without -p".to_owned()),
                _ => (given < *least).then(|| format!("{} wants {least} words", rest[0])),
            }
        }
        "echo" => serde_json::from_str::<Value>(&rest.join(" ")).err().map(|error| error.to_string()),
        // The last of some names; what follows belongs to the command around it.
        "tail" => (rest.first().map(String::as_str) != Some("-n")).then(|| "tail takes the last of some names".to_owned()),
        other => Some(format!("{other} is no program that is advised")),
    }
}

/// MS-EXPL-01, MS-EXPL-02: what is advised is a command line that is taken as it stands.
#[test]
fn advice_is_taken_as_it_stands() {
    let advised = advised();
    assert!(advised.len() > 30, "{}", advised.len());
    let refused: Vec<String> = advised
        .iter()
        .flat_map(|line| {
            words(line).iter().filter_map(|words| problem(words)).map(|problem| format!("{line}\n  {problem}")).collect::<Vec<_>>()
        })
        .collect();
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    assert!(problem(&words("mainstay instal widgets")[0]).is_some() && problem(&words("kubectl patch a b -p '{'")[0]).is_some());
}
