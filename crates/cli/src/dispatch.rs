//! Selects the tool that this program is called as (MS-CLI-01), and leads from arguments to an exit code.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal as _;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, FromArgMatches as _};
use mainstay_opm::cobra::{self, Groups, Outcome};
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::screen::{self, Kind};
use mainstay_terminal::{output, private, progress};

use crate::args::{Cli, ColorWhen, Command};
use crate::oc::{self, Meaning};
use crate::{args, commands, logging};

/// Runs the command that the arguments name.
pub fn run(argv: Vec<OsString>) -> ExitCode {
    let called_by_link = is_link(&argv);
    let mut argv = match as_oc(&argv) {
        None => as_mainstay(argv),
        Some(Meaning::Kubectl(words)) => return oc::kubectl(&words),
        Some(Meaning::Ours(words)) => [OsString::from("mainstay")].into_iter().chain(words).collect(),
    };
    let upstream = match upstream_words(&argv) {
        Some(at) => match read_as_upstream(&mut argv, at, called_by_link) {
            ControlFlow::Continue(codes) => Some(codes),
            ControlFlow::Break(code) => return code,
        },
        None => None,
    };
    let argv = cluster_flags_behind(argv, &Cli::command());
    let is_plugin = argv.get(1).is_some_and(|word| word == "operator");
    let parsed = args::command().try_get_matches_from(&argv);
    // Options of `mainstay up` may stand in a file.
    let parsed = match parsed {
        Ok(matches) => match more_words(&matches) {
            Ok(words) if words.is_empty() => Ok(matches),
            Ok(words) => args::command().try_get_matches_from(argv.iter().chain(&words)),
            Err(failure) => {
                failure.report();
                return ExitCode::from(failure.exit as u8);
            }
        },
        Err(error) => Err(error),
    };
    let parsed = parsed.and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) if upstream.is_some() && !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            let text = error.to_string();
            let message = text.lines().next().unwrap_or_default();
            say(&format!("Error: {}\n", message.strip_prefix("error: ").unwrap_or(message)));
            return ExitCode::FAILURE;
        }
        Err(error) if is_plugin && error.use_stderr() => {
            // The plugin says everything on stdout (MS-CLI-12).
            if let Err(failure) = output::print(&error.to_string()) {
                failure.report();
            }
            return ExitCode::FAILURE;
        }
        Err(error) => {
            // The error repeats words that may come from outside.
            let text = error.render().ansi().to_string();
            if error.use_stderr() {
                screen::err(&text, Kind::Drawn);
            } else if let Err(failure) = output::drawn(&text) {
                failure.report();
            }
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
                _ => ExitCode::from(Exit::Usage as u8),
            };
        }
    };
    if cli.global.quiet {
        progress::be_quiet();
    }
    match cli.global.color {
        ColorWhen::Auto => {}
        ColorWhen::Always => anstream::ColorChoice::Always.write_global(),
        ColorWhen::Never => anstream::ColorChoice::Never.write_global(),
    }
    if is_private(&cli.command) {
        private::by_default();
    }
    let (default, format) = match &cli.command {
        // A person sees only problems; a log in a file says what happened, too.
        Command::Up(_) if std::io::stderr().is_terminal() => ("warn", logging::Format::Text),
        Command::Up(_) => ("info", logging::Format::Text),
        Command::Run(arguments) => ("info", arguments.log_format()),
        Command::NodeAgent(arguments) => ("info", arguments.log_format),
        _ => ("error", logging::Format::Text),
    };
    let outcome = logging::start(cli.global.log_level.as_deref().unwrap_or(default), format).and_then(|()| run_command(cli.command));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => match upstream {
            None => {
                failure.report();
                ExitCode::from(failure.exit as u8)
            }
            Some(codes) => {
                failure.report_as_upstream();
                ExitCode::from(if codes == Codes::Own { failure.exit as u8 } else { Exit::Failed as u8 })
            }
        },
    }
}

/// The words that a file of options stands for.
fn more_words(matches: &clap::ArgMatches) -> Result<Vec<OsString>, Failure> {
    let Some(("up", given)) = matches.subcommand() else { return Ok(Vec::new()) };
    let root = Cli::command();
    root.find_subcommand("up").map_or_else(|| Ok(Vec::new()), |up| crate::up::config::words_of(up, given))
}

/// The tools whose command line is read as upstream reads it.
const UPSTREAM: [&str; 1] = ["opm"];

/// The position where the words of such a tool begin, after this program's own options.
fn upstream_words(argv: &[OsString]) -> Option<usize> {
    let mut at = 1;
    while let Some(word) = argv.get(at).and_then(|word| word.to_str()) {
        at += match word {
            "--color" | "--log-level" => 2,
            word if word.starts_with("--color=") || word.starts_with("--log-level=") => 1,
            word => return UPSTREAM.contains(&word).then_some(at),
        };
    }
    None
}

/// Moves flags that choose the cluster behind the command. They may stand before it, as with kubectl, and mean the same there.
fn cluster_flags_behind(argv: Vec<OsString>, root: &clap::Command) -> Vec<OsString> {
    let (mut kept, mut moved) = (Vec::new(), Vec::new());
    let mut words = argv.into_iter();
    kept.extend(words.next());
    let mut command = root;
    while let Some(word) = words.next() {
        let text = word.to_string_lossy().into_owned();
        let (flag, has_value) = text.split_once('=').map_or((text.as_str(), false), |(flag, _)| (flag, true));
        let own = std::ptr::eq(command, root);
        match flag {
            "--kubeconfig" | "--context" | "--as" | "--embedded" if own => {
                moved.push(word);
                if !has_value && flag != "--embedded" {
                    moved.extend(words.next());
                }
            }
            "--color" | "--log-level" if own => {
                kept.push(word);
                if !has_value {
                    kept.extend(words.next());
                }
            }
            _ => {
                if let Some(sub) = command.find_subcommand(&text) {
                    command = sub;
                    kept.push(word);
                } else {
                    // Without a command they stay in their place.
                    kept.append(&mut moved);
                    kept.push(word);
                    kept.extend(words);
                    return kept;
                }
            }
        }
    }
    kept.append(&mut moved);
    kept
}

/// The exit codes of the commands of such a tool.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Codes {
    /// 1 for every failure.
    Failed,
    /// Other codes, too.
    Own,
}

/// Replaces the tool's words by ones that mean the same to this program, or ends with upstream's answer instead.
fn read_as_upstream(argv: &mut Vec<OsString>, at: usize, called_by_link: bool) -> ControlFlow<ExitCode, Codes> {
    let mut all = Cli::command();
    all.build();
    let tool = argv[at].to_string_lossy().into_owned();
    let Some(root) = all.find_subcommand(&tool) else { return ControlFlow::Continue(Codes::Failed) };
    let revealed;
    let root = if std::env::var_os("HELP_ALPHA").is_some_and(|value| value == "true") {
        revealed = reveal_alpha(root.clone());
        &revealed
    } else {
        root
    };
    let program = if called_by_link { tool.clone() } else { format!("mainstay {tool}") };
    match cobra::read(root, &program, &argv[at + 1..], &groups) {
        Outcome::Run(words, notices) => {
            for notice in notices {
                say(&format!("{notice}\n"));
            }
            // The exit codes of `opm index add` and `opm registry add` say that a bundle is there already (CATLG-46).
            let own = words.first().is_some_and(|word| word == "index" || word == "registry");
            argv.truncate(at + 1);
            argv.extend(words);
            ControlFlow::Continue(if own { Codes::Own } else { Codes::Failed })
        }
        Outcome::Help(text) => ControlFlow::Break(match output::print(&text) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        }),
        Outcome::Refused(refusal) => {
            say(&refusal.to_text());
            ControlFlow::Break(ExitCode::FAILURE)
        }
    }
}

/// `opm` and `opm alpha` refuse words that are no command; the others then show their help, as they do without words.
fn groups(path: &[&str]) -> Groups {
    if matches!(path, [] | ["alpha"]) { Groups::Refuse } else { Groups::Help }
}

/// Shows the commands that are hidden because upstream may still change them.
fn reveal_alpha(command: clap::Command) -> clap::Command {
    command
        .mut_args(|arg| if arg.get_long().is_some_and(|long| long.starts_with("alpha-")) { arg.hide(false) } else { arg })
        .mut_subcommands(|sub| {
            let sub = if sub.get_name() == "alpha" { sub.hide(false) } else { sub };
            reveal_alpha(sub)
        })
}

/// Prints text on stderr.
fn say(text: &str) {
    screen::err(text, Kind::Text);
}

/// Returns true if the program is called by a link whose name stands for a tool.
fn is_link(argv: &[OsString]) -> bool {
    as_mainstay(argv.to_vec()).len() > argv.len()
}

/// The meaning of the arguments if the program is called by a link named `oc`.
fn as_oc(argv: &[OsString]) -> Option<Meaning> {
    let (program, words) = argv.split_first()?;
    let called = Path::new(program).file_stem().and_then(OsStr::to_str)?;
    (called == "oc").then(|| oc::meaning(words))
}

/// The arguments as if the program had been called `mainstay`: a link named after another tool stands for that tool's sub-command.
fn as_mainstay(mut argv: Vec<OsString>) -> Vec<OsString> {
    let called = argv.first().map(Path::new).and_then(Path::file_stem).and_then(OsStr::to_str).unwrap_or_default();
    let words: &[&str] = match called {
        "opm" => &["opm"],
        "operator-sdk" => &["operator-sdk"],
        "kubectl-operator" => &["operator"],
        "kubectl-adm" => &["adm"],
        // kubectl mainstay is mainstay.
        _ => &[],
    };
    let at = argv.len().min(1);
    argv.splice(at..at, words.iter().map(OsString::from));
    if let Some(name) = argv.first_mut() {
        *name = "mainstay".into();
    }
    argv
}

/// The failure for a tool, or a part of one, that this version does not have (MS-CLI-01).
pub fn not_there(tool: &str, words: &[String], available: &str) -> Failure {
    let asked = words.iter().take(1).take_while(|word| !word.starts_with('-')).cloned().collect::<Vec<_>>().join(" ");
    let subject = if asked.is_empty() { tool.to_owned() } else { format!("{tool} {asked}") };
    Failure::new(Exit::Usage, subject, "is not part of this version of mainstay").hint(available.to_owned())
}

/// Returns true if a command writes only files that are for their owner alone: data directories, caches, backups.
fn is_private(command: &Command) -> bool {
    matches!(
        command,
        Command::Up(_)
            | Command::Adm(_)
            | Command::Down(_)
            | Command::Status(_)
            | Command::Run(_)
            | Command::Backup(_)
            | Command::Restore(_)
            | Command::Demo(_)
            | Command::Registry(_)
    )
}

/// Runs a command.
fn run_command(command: Command) -> Result<(), Failure> {
    match command {
        Command::Resolve(arguments) => commands::resolve::run(&arguments),
        Command::Bundle(command) => commands::bundle::run(command),
        Command::Crd(command) => commands::crd::run(command),
        Command::Csv(command) => commands::csv::run(command),
        Command::Release(command) => commands::release::run(command),
        Command::MachineConfig(command) => commands::machine_config::run(command),
        Command::Provider(command) => commands::provider::run(command),
        Command::Machine(command) => commands::machine::run(command),
        Command::NodeAgent(arguments) => commands::node_agent::run(&arguments),
        Command::Pool(command) => commands::pool::run(command),
        Command::Operatorgroup(command) => commands::operatorgroup::run(command),
        Command::Version(arguments) => commands::version::run(&arguments),
        Command::Versions(command) => commands::versions::run(command),
        Command::Catalog(command) => commands::catalog::run(command),
        Command::Graph(arguments) => commands::graph::run(&arguments),
        Command::Registry(command) => commands::registry::run(command),
        Command::UpdateGraph(command) => commands::update_graph::run(command),
        Command::GraphData(command) => commands::graph_data::run(command),
        Command::Opm(command) => mainstay_opm::run(command, args::opm),
        Command::Install(arguments) => commands::install::run(&arguments),
        Command::Upgrade(arguments) => commands::upgrade::run(&arguments),
        Command::Uninstall(arguments) => commands::uninstall::run(&arguments),
        Command::Migrate(arguments) => commands::migrate::run(&arguments),
        Command::List(arguments) => commands::list::run(&arguments),
        Command::Describe(arguments) => commands::describe::run(&arguments),
        Command::Rbac(arguments) => commands::rbac::run(&arguments),
        Command::Plan(arguments) => commands::plan::run(&arguments),
        Command::ApplyPlan(arguments) => commands::apply_plan::run(&arguments),
        Command::Rehearse(arguments) => commands::rehearse::run(&arguments),
        Command::Approve(arguments) => commands::approve::run(&arguments),
        Command::Explain(arguments) => commands::explain::run(&arguments),
        Command::History(arguments) => commands::history::run(&arguments),
        Command::Rollback(arguments) => commands::rollback::run(&arguments),
        Command::Pin(arguments) => commands::pin::run(&arguments),
        Command::Wait(arguments) => commands::wait::run(&arguments),
        Command::Run(arguments) => commands::run::run(&arguments),
        Command::Deploy(arguments) => commands::deploy::run(&arguments),
        Command::Image(arguments) => commands::image::run(&arguments),
        Command::Up(arguments) => commands::up::run(&arguments),
        Command::Down(arguments) => commands::down::run(&arguments),
        Command::LogLevel(arguments) => commands::log_level::run(&arguments),
        Command::Status(arguments) => commands::status::run(&arguments),
        Command::Backup(arguments) => commands::backup::run(&arguments),
        Command::Restore(arguments) => commands::restore::run(&arguments),
        Command::Demo(arguments) => commands::demo::run(&arguments),
        Command::Completion(arguments) => commands::completion::run(&arguments),
        Command::Reference(arguments) => commands::reference::run(&arguments, Cli::command()),
        Command::Complete(arguments) => commands::complete::run(&arguments, Cli::command()),
        Command::OperatorSdk(tool) => Err(not_there("operator-sdk", &tool.words, "bundles can be rendered and built with mainstay bundle")),
        Command::Operator(arguments) => commands::operator::run(&arguments),
        Command::Adm(arguments) => commands::adm::run(&arguments),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    /// MS-CLI-02: flags that choose the cluster mean the same before the command.
    #[test]
    fn cluster_flags_before_the_command() {
        for (line, expected) in [
            ("mainstay --kubeconfig f list -w", "mainstay list --kubeconfig f -w"),
            ("mainstay --context=c --as me plan upgrade x", "mainstay plan upgrade --context=c --as me x"),
            ("mainstay --color never --embedded catalog list", "mainstay --color never catalog list --embedded"),
            ("mainstay --embedded list", "mainstay list --embedded"),
            ("mainstay list --kubeconfig f", "mainstay list --kubeconfig f"),
            ("mainstay --embedded nonsense x", "mainstay --embedded nonsense x"),
            ("mainstay", "mainstay"),
        ] {
            let argv = line.split(' ').map(OsString::from).collect();
            let found: Vec<String> =
                cluster_flags_behind(argv, &Cli::command()).iter().map(|word| word.to_string_lossy().into_owned()).collect();
            assert_eq!(found.join(" "), expected);
        }
    }

    /// MS-CLI-01: the name it is called by decides which tool it is.
    #[test]
    fn links_stand_for_tools() {
        for (argv, expected) in [
            (&["/usr/bin/opm", "validate", "x"][..], &["mainstay", "opm", "validate", "x"][..]),
            (&["operator-sdk", "init"], &["mainstay", "operator-sdk", "init"]),
            (&["kubectl-operator", "list"], &["mainstay", "operator", "list"]),
            (&["kubectl-adm", "upgrade"], &["mainstay", "adm", "upgrade"]),
            (&["kubectl-mainstay", "list"], &["mainstay", "list"]),
            (&["./mainstay", "list"], &["mainstay", "list"]),
            (&[], &[]),
        ] {
            let found = as_mainstay(argv.iter().map(OsString::from).collect());
            assert_eq!(found, expected.iter().map(OsString::from).collect::<Vec<_>>());
        }
    }
}
