//! `mainstay machine-config butane`: a Butane config as the command `butane` translates it (MACH-MC-09).

use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use clap::Args;
use mainstay_ignition::MAX_TEXT;
use mainstay_ignition::butane::{Entry, EntryKind, Files, FilesError, Options, answer};
use mainstay_machine_config_core::cases::{self as recorded};
use mainstay_terminal::errors::{self, Exit, Failure};
use mainstay_terminal::output;

/// The most files of a tree.
const MAX_FILES: usize = 10_000;

/// Arguments of `machine-config butane`.
// Each of upstream's flags is one on its own.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay machine-config butane worker.bu
  mainstay machine-config butane worker.bu --files-dir files --strict
  mainstay machine-config butane worker.bu --raw --pretty

Known are the variants fcos 1.5.0 and 1.6.0, and openshift 4.14.0 to 4.20.0. What is wrong with a config is told with its line and column.

Exit codes: 0 done, 1 bad input.")]
pub struct Butane {
    /// The Butane config; - or nothing for standard input
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// JSON on many lines
    #[arg(short, long)]
    pretty: bool,
    /// An Ignition config, and no MachineConfig around it
    #[arg(short, long)]
    raw: bool,
    /// Take warnings as errors
    #[arg(short, long)]
    strict: bool,
    /// Only say what is wrong
    #[arg(short, long)]
    check: bool,
    /// The folder of files that the config embeds
    #[arg(short = 'd', long, value_name = "DIR")]
    files_dir: Option<PathBuf>,
    /// Answer many questions: a file of JSON lines {"id", "flags", "in"}, - for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "pretty", "raw", "strict", "check", "files_dir"])]
    cases: Option<PathBuf>,
}

pub(super) fn run(arguments: &Butane) -> Result<(), Failure> {
    if let Some(cases) = &arguments.cases {
        return super::answer(cases, recorded::butane);
    }
    let text = text(arguments.file.as_deref())?;
    let options = Options { pretty: arguments.pretty, raw: arguments.raw, strict: arguments.strict, check: arguments.check };
    let answer = answer(&text, options, &Folder(arguments.files_dir.as_deref()));
    output::print(&answer.stdout)?;
    if !answer.stderr.is_empty() {
        errors::note(answer.stderr.trim_end_matches('\n'));
    }
    if answer.status == 0 { Ok(()) } else { Err(Failure::silent(Exit::Failed)) }
}

fn text(file: Option<&Path>) -> Result<String, Failure> {
    let file = file.filter(|file| *file != Path::new("-"));
    let subject = file.map_or_else(|| "standard input".to_owned(), |file| format!("file {}", file.display()));
    let failed = |error: std::io::Error| Failure::failed(&subject, &error);
    let input: Box<dyn std::io::Read> = match file {
        Some(file) => Box::new(std::fs::File::open(file).map_err(failed)?),
        None => Box::new(std::io::stdin()),
    };
    let mut text = String::new();
    input.take(MAX_TEXT as u64 + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() > MAX_TEXT {
        return Err(Failure::new(Exit::Failed, subject, format!("has more than {MAX_TEXT} bytes")));
    }
    Ok(text)
}

/// A folder on disk; or none.
struct Folder<'f>(Option<&'f Path>);

impl Folder<'_> {
    /// A path in the folder, without leaving it.
    fn path(&self, path: &str) -> Result<PathBuf, FilesError> {
        let folder = self.0.ok_or(FilesError::NoFolder)?;
        let mut inner = PathBuf::new();
        for part in Path::new(path).components() {
            match part {
                Component::Normal(name) => inner.push(name),
                Component::ParentDir if !inner.pop() => return Err(FilesError::Outside),
                _ => {}
            }
        }
        if inner.as_os_str().is_empty() { Err(FilesError::Outside) } else { Ok(folder.join(inner)) }
    }
}

/// An error of the system as Go words it.
fn unreadable(operation: &str, path: &Path, error: &std::io::Error) -> FilesError {
    let words = error.to_string();
    let words = words.split_once(" (os error").map_or(words.as_str(), |(words, _)| words);
    let mut letters = words.chars();
    let words: String = letters.next().into_iter().flat_map(char::to_lowercase).chain(letters).collect();
    FilesError::Unreadable(format!("{operation} {}: {words}", path.display()))
}

fn content(path: &Path) -> Result<Vec<u8>, FilesError> {
    let file = std::fs::File::open(path).map_err(|error| unreadable("open", path, &error))?;
    let mut content = Vec::new();
    file.take(MAX_TEXT as u64 + 1).read_to_end(&mut content).map_err(|error| unreadable("read", path, &error))?;
    if content.len() > MAX_TEXT {
        return Err(FilesError::Unreadable(format!("read {}: more than {MAX_TEXT} bytes", path.display())));
    }
    Ok(content)
}

impl Files for Folder<'_> {
    fn read(&self, path: &str) -> Result<Vec<u8>, FilesError> {
        content(&self.path(path)?)
    }

    fn tree(&self, path: &str) -> Result<Vec<Entry>, FilesError> {
        let root = self.path(path)?;
        let about = std::fs::metadata(&root).map_err(|error| unreadable("stat", &root, &error))?;
        if !about.is_dir() {
            return Err(FilesError::NoTree);
        }
        let mut entries = Vec::new();
        walk(&root, "", &mut entries);
        Ok(entries)
    }

    fn is_given(&self) -> bool {
        self.0.is_some()
    }
}

/// Adds what is in a folder, by name, each folder whole before the next name.
fn walk(folder: &Path, below: &str, entries: &mut Vec<Entry>) {
    let mut names: Vec<_> = match std::fs::read_dir(folder) {
        Ok(found) => found.filter_map(|entry| entry.ok().map(|entry| entry.file_name())).collect(),
        Err(error) => {
            return entries.push(Entry { path: below.to_owned(), kind: Err(unreadable("open", folder, &error)) });
        }
    };
    names.sort();
    for name in names {
        if entries.len() >= MAX_FILES {
            let kind = Err(FilesError::Unreadable(format!("tree has more than {MAX_FILES} files")));
            return entries.push(Entry { path: below.to_owned(), kind });
        }
        let path = folder.join(&name);
        let inner = if below.is_empty() { name.to_string_lossy().into_owned() } else { format!("{below}/{}", name.to_string_lossy()) };
        match std::fs::symlink_metadata(&path) {
            Ok(about) if about.is_dir() => walk(&path, &inner, entries),
            Ok(about) => entries.push(Entry { path: inner, kind: kind(&path, &about) }),
            Err(error) => entries.push(Entry { path: inner, kind: Err(unreadable("lstat", &path, &error)) }),
        }
    }
}

fn kind(path: &Path, about: &std::fs::Metadata) -> Result<EntryKind, FilesError> {
    if about.is_file() {
        return Ok(EntryKind::File { content: content(path)?, executable: is_executable(about) });
    }
    if about.is_symlink() {
        let target = std::fs::read_link(path).map_err(|error| unreadable("readlink", path, &error))?;
        return Ok(EntryKind::Link { target: target.to_string_lossy().into_owned() });
    }
    Err(FilesError::Kind)
}

#[cfg(unix)]
fn is_executable(about: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    about.permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn is_executable(_about: &std::fs::Metadata) -> bool {
    false
}
