//! The recording of README's first five minutes (`docs/first-five-minutes.cast`): made by running its commands against `mainstay demo`, and held against
//! what the program prints now, so that neither page nor recording is ever untrue. `cargo xtask record` writes it anew.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use mainstay_e2e::{mainstay, need_embedded, need_kubectl, terminate};
use regex::Regex;
use serde_json::{Value, json};

/// Set by `cargo xtask record`.
const WRITE: &str = "MAINSTAY_RECORD";
/// The section of README that is recorded.
const SECTION: &str = "## The first five minutes";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn recording() -> PathBuf {
    root().join("docs/first-five-minutes.cast")
}

/// The commands of README's section as they are typed: those that set a variable belong to the shell, and are the reader's own.
fn commands() -> Vec<String> {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let section = readme.split(SECTION).nth(1).expect("the section").split("\n## ").next().unwrap();
    let block = section.split("```").nth(1).expect("its commands");
    let typed = block.lines().map(|line| line.split(" #").next().unwrap().trim());
    typed.filter(|line| !line.is_empty() && !line.starts_with("export ")).map(str::to_owned).collect()
}

/// A demonstration that keeps running.
struct Demo {
    child: Child,
    kubeconfig: String,
    folder: tempfile::TempDir,
}

impl Demo {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(mainstay());
        let mut child = prepared(&mut command, folder.path()).arg("demo").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said = |line: &String| line.trim().strip_prefix("export KUBECONFIG=").map(str::to_owned);
        let kubeconfig = lines.by_ref().map(Result::unwrap).find_map(|line| said(&line)).expect("the demonstration ended early");
        // Whatever else it says is read, so that it is never kept waiting.
        std::thread::spawn(move || lines.for_each(drop));
        let bin = folder.path().join("bin");
        fs::create_dir_all(&bin).unwrap();
        for (name, program) in [("mainstay", mainstay().to_owned()), ("kubectl", mainstay_e2e::kubectl().unwrap())] {
            std::os::unix::fs::symlink(program, bin.join(name)).unwrap();
        }
        Self { child, kubeconfig, folder }
    }

    /// What a command prints, both streams as a terminal shows them; it has to succeed.
    fn run(&self, line: &str) -> String {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let path = format!("{}:{}", self.folder.path().join("bin").display(), std::env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("/bin/sh");
        prepared(&mut shell, self.folder.path()).args(["-c", line]).env("PATH", path).env("KUBECONFIG", &self.kubeconfig);
        let mut child = shell.stdin(Stdio::null()).stdout(writer.try_clone().unwrap()).stderr(writer).spawn().unwrap();
        // Its ends of the pipe are open as long as the command is there to be started again.
        drop(shell);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        let status = child.wait().unwrap();
        assert!(status.success(), "{line}: {status}\n{text}");
        text
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        terminate(&mut self.child);
    }
}

/// A surrounding without anything of this machine.
fn prepared<'c>(command: &'c mut Command, folder: &Path) -> &'c mut Command {
    let variables = ["HOME", "TMPDIR", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"];
    variables
        .iter()
        .fold(command, |command, name| command.env(name, folder))
        .env("NO_COLOR", "1")
        .env("MAINSTAY_QUIET", "true")
        .env_remove("MAINSTAY_CLUSTER")
        .current_dir(folder)
}

/// The output as it is recorded: without the ports of this run.
fn presented(output: &str) -> String {
    let ports = Regex::new(r"127\.0\.0\.1:[0-9]+").unwrap();
    let mut text = String::new();
    for line in output.lines() {
        let _ = writeln!(text, "{}", ports.replace_all(line, "127.0.0.1:5000"));
    }
    text
}

/// What of an output is the same in every run: no times, digests, sizes, widths, and no events, which depend on who was first.
fn normalised(text: &str) -> String {
    let replaced = [
        (r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z", "TIME"),
        (r"\b[0-9]+(\.[0-9]+)? (ms|s)\b", "N s"),
        (r"\b([0-9]+[dhms])+\b", "AGE"),
        (r"sha256:[0-9a-f]{12,64}", "DIGEST"),
        (r"\b[0-9]+ (B|KiB|MiB)\b", "SIZE"),
        (r"[─-]{2,}", "--"),
        (r" +", " "),
    ];
    let replaced: Vec<(Regex, &str)> = replaced.iter().map(|(pattern, with)| (Regex::new(pattern).unwrap(), *with)).collect();
    let lines = text.lines().map(str::trim_end).filter(|line| !line.starts_with("  event ") && !line.trim_start().starts_with("since "));
    let lines =
        lines.map(|line| replaced.iter().fold(line.to_owned(), |line, (pattern, with)| pattern.replace_all(&line, *with).into_owned()));
    lines.map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// What is on the screen: each command behind a prompt, and its output.
fn screen(steps: &[(String, String)]) -> String {
    steps.iter().fold(String::new(), |mut text, (command, output)| {
        let _ = write!(text, "$ {command}\n{output}\n");
        text
    })
}

/// The recording in asciicast's second version. Times are set so that it can be read: what is waited for is left out.
fn cast(steps: &[(String, String)]) -> String {
    let header =
        json!({"version": 2, "width": 160, "height": 45, "title": "Mainstay: the first five minutes", "env": {"TERM": "xterm-256color"}});
    let (mut out, mut at) = (format!("{header}\n"), 0.5_f64);
    let mut say = |at: f64, data: &str| {
        let _ = writeln!(out, "{}", json!([(at * 1000.0).round() / 1000.0, "o", data.replace('\n', "\r\n")]));
    };
    for (command, output) in steps {
        say(at, "$ ");
        for character in command.chars() {
            at += 0.03;
            say(at, &character.to_string());
        }
        at += 0.4;
        say(at, "\n");
        at += 0.6;
        say(at, &format!("{output}\n"));
        at += 2.5;
    }
    out
}

/// What a recording shows, when it has ended.
fn shown(cast: &str) -> String {
    let events = cast.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter_map(|event| event[2].as_str().map(str::to_owned)).collect::<String>().replace("\r\n", "\n")
}

/// MS-CLI-06: the recording is of the commands that README shows, in the form that players read, and names nothing of the machine that it was made on.
#[test]
fn the_recording_is_of_the_readme() {
    let cast = fs::read_to_string(recording()).unwrap_or_default();
    if std::env::var_os(WRITE).is_some() {
        // It is being written.
        return;
    }
    let header: Value = serde_json::from_str(cast.lines().next().expect("a header")).unwrap();
    assert_eq!(header["version"], 2);
    let mut last = 0.0;
    for line in cast.lines().skip(1) {
        let event: Value = serde_json::from_str(line).unwrap();
        let at = event[0].as_f64().unwrap();
        assert!(at >= last && event[1] == "o" && event[2].is_string(), "{line}");
        last = at;
    }
    let shown = shown(&cast);
    let typed: Vec<&str> = shown.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    assert_eq!(typed, commands(), "cargo xtask record records it again");
    for word in ["/tmp", "/home", "/root", "/work", "\u{1b}"] {
        assert!(!shown.contains(word), "the recording holds {word:?}");
    }
}

/// MS-CLI-05, MS-CLI-06: README's first five minutes can be typed as they stand, and print what the recording shows.
#[test]
fn the_recording_is_true() {
    let Some(()) = need_embedded() else { return };
    let Some(()) = need_kubectl() else { return };
    let demo = Demo::start();
    let steps: Vec<(String, String)> = commands().into_iter().map(|command| (command.clone(), presented(&demo.run(&command)))).collect();
    if std::env::var_os(WRITE).is_some() {
        fs::write(recording(), cast(&steps)).unwrap();
        return;
    }
    let recorded = normalised(&shown(&fs::read_to_string(recording()).unwrap()));
    let now = normalised(&screen(&steps));
    if let Some((old, new)) = recorded.lines().zip(now.lines()).find(|(old, new)| old != new) {
        panic!("the recording says\n  {old}\nand the program\n  {new}\ncargo xtask record records it again");
    }
    assert_eq!(recorded.lines().count(), now.lines().count(), "cargo xtask record records it again:\n{now}");
}
