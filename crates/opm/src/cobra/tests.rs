#![allow(clippy::unwrap_used, clippy::expect_used)]

use clap::{Args, CommandFactory as _, Parser};

use super::*;

#[derive(Debug, Parser)]
#[command(name = "tool", about = "A tool")]
struct Tool {
    /// Everywhere
    #[arg(long, global = true)]
    wide: bool,
    /// Old
    #[arg(long, global = true, hide = true, long_help = "deprecated: use --wide instead")]
    old: bool,
    #[command(subcommand)]
    command: Option<Sub>,
}

#[derive(Debug, clap::Subcommand)]
enum Sub {
    /// Makes one
    Make(Make),
    /// More commands
    #[command(subcommand)]
    More(More),
}

#[derive(Debug, clap::Subcommand)]
enum More {
    /// Takes any
    Any(Any),
}

#[derive(Debug, Args)]
struct Any {
    #[arg(num_args = 1.., required = true)]
    things: Vec<String>,
}

#[derive(Debug, Args)]
struct Make {
    #[arg(value_name = "name")]
    name: String,
    /// How it is written
    #[arg(short, long, default_value = "json")]
    output: String,
    /// Labels
    #[arg(short, long)]
    labels: Vec<String>,
    /// All
    #[arg(short, long, conflicts_with = "some")]
    all: bool,
    /// Some
    #[arg(long)]
    some: Option<String>,
}

fn outcome(words: &str) -> Outcome {
    let mut command = Tool::command();
    command.build();
    let words: Vec<OsString> = words.split_whitespace().map(OsString::from).collect();
    read(&command, "tool", &words, &|path| if path.is_empty() { Groups::Refuse } else { Groups::Help })
}

fn run(words: &str) -> String {
    match outcome(words) {
        Outcome::Run(words, notices) => {
            let words: Vec<_> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            notices.into_iter().chain([words.join(" ")]).collect::<Vec<_>>().join("; ")
        }
        Outcome::Help(text) => format!("help: {}", text.lines().next().unwrap_or_default()),
        Outcome::Refused(refusal) => format!("refused: {}", refusal.message),
    }
}

/// MS-CLI-01, CATLG-46: words are read by upstream's grammar. The refusals are those of opm v1.65 for the same mistakes.
#[test]
fn grammar() {
    for (words, expected) in [
        ("", ""),
        ("make x", "make -- x"),
        ("--wide make x -o yaml", "make --wide --output=yaml -- x"),
        ("make -oyaml x", "make --output=yaml -- x"),
        ("make -o=yaml x", "make --output=yaml -- x"),
        ("make x --output yaml -o json", "make --output=json -- x"),
        ("make -l a -l b=c x", "make --labels=a --labels=b=c -- x"),
        ("make -aoyaml x", "make --all --output=yaml -- x"),
        ("make --all=false x", "make -- x"),
        ("make --output= x", "make --output= -- x"),
        ("make -- -x", "make -- -x"),
        ("make -", "make -- -"),
        ("--old make x", "Flag --old has been deprecated, use --wide instead; make --old -- x"),
        ("more any a b c", "more any -- a b c"),
        ("more", "help: More commands"),
        ("more bogus", "help: More commands"),
        ("make -h", "help: Makes one"),
        ("make --help x", "help: Makes one"),
        ("help make", "help: Makes one"),
        ("--help", "help: A tool"),
        ("bogus", "refused: unknown command \"bogus\" for \"tool\""),
        ("ma", "refused: unknown command \"ma\" for \"tool\""),
        ("make", "refused: accepts 1 arg(s), received 0"),
        ("make a b", "refused: accepts 1 arg(s), received 2"),
        ("more any", "refused: requires at least 1 arg(s), only received 0"),
        ("make --bogus", "refused: unknown flag: --bogus"),
        ("make -z", "refused: unknown shorthand flag: 'z' in -z"),
        ("make -az", "refused: unknown shorthand flag: 'z' in -z"),
        ("make x -o", "refused: flag needs an argument: 'o' in -o"),
        ("make x --some", "refused: flag needs an argument: --some"),
        ("make ---x", "refused: bad flag syntax: ---x"),
        (
            "make --all=foo x",
            "refused: invalid argument \"foo\" for \"-a, --all\" flag: strconv.ParseBool: parsing \"foo\": invalid syntax",
        ),
        (
            "make --all --some y x",
            "refused: if any flags in the group [all some] are set none of the others can be; [all some] were all set",
        ),
    ] {
        assert_eq!(run(words), expected, "{words}");
    }
}

/// MS-CLI-01: what is handed on, `clap` reads.
#[test]
fn handed_on() {
    let Outcome::Run(words, _) = outcome("make -l a,b -aoyaml -- -x") else { panic!() };
    let tool = Tool::try_parse_from(std::iter::once(OsString::from("tool")).chain(words)).unwrap();
    let Some(Sub::Make(make)) = tool.command else { panic!() };
    assert_eq!((make.name.as_str(), make.output.as_str(), make.labels, make.all), ("-x", "yaml", vec!["a,b".to_owned()], true));
    assert!(make.some.is_none() && !tool.wide && !tool.old);
}

/// CATLG-46: the usage as upstream lays it out.
#[test]
fn usage() {
    let Outcome::Refused(refusal) = outcome("make") else { panic!() };
    assert_eq!(
        refusal.to_text(),
        "\
Error: accepts 1 arg(s), received 0
Usage:
  tool make <name> [flags]

Flags:
  -a, --all              All
  -h, --help             help for make
  -l, --labels strings   Labels
  -o, --output string    How it is written (default \"json\")
      --some string      Some

Global Flags:
      --wide   Everywhere

"
    );
    let Outcome::Help(text) = outcome("--help") else { panic!() };
    assert_eq!(
        text,
        "\
A tool

Usage:
  tool [flags]
  tool [command]

Available Commands:
  help        Print this message or the help of the given subcommand(s)
  make        Makes one
  more        More commands

Flags:
  -h, --help   help for tool
      --wide   Everywhere

Use \"tool [command] --help\" for more information about a command.
"
    );
}
