//! `mainstay restore`: a new data directory from a backup (KAPI-STORE-02).

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};

use clap::Args;
use mainstay_store::backup::{Backup, Contents};
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::output::{self, Format};
use mainstay_terminal::progress::Progress;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay restore today.backup --data-dir NEW        then: mainstay up --data-dir NEW
  mainstay restore today.backup --verify              only looks whether it is whole

The directory must be absent or empty; it is there as a whole, or not at all. Revisions continue after a leap, so that no client
takes a revision from after the backup for one from before it; watches from before begin anew by themselves.")]
pub struct Arguments {
    /// The backup
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The data directory to make
    #[arg(long, value_name = "DIR", required_unless_present = "verify")]
    data_dir: Option<PathBuf>,
    /// Only read it whole, and say what it holds
    #[arg(long, conflicts_with = "data_dir")]
    verify: bool,
    /// By how much revisions leap; more than were written since the backup
    #[arg(long, value_name = "N", default_value_t = 1_000_000, conflicts_with = "verify")]
    bump_revision: u64,
    /// table, json, yaml or jsonpath=PATH
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json, yaml or jsonpath=PATH"))]
    output: Format,
}

/// Verifies the backup, makes the directory beside its place, and moves it there.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut progress = Progress::start();
    progress.doing("verifying");
    let subject = || format!("backup {}", arguments.file.display());
    let backup = Backup::open(&arguments.file).map_err(|error| Failure::failed(subject(), &error))?;
    let contents = backup.verify().map_err(|error| Failure::failed(subject(), &error))?;
    let Some(data_dir) = &arguments.data_dir else {
        drop(progress);
        return super::backup::show(&arguments.output, &arguments.file, &contents);
    };
    let target = std::path::absolute(data_dir).map_err(|error| directory(data_dir, &error))?;
    refuse_what_is_there(&target)?;
    let revision = contents.revision.checked_add(arguments.bump_revision);
    let revision = revision.ok_or_else(|| Failure::new(Exit::Usage, "--bump-revision", "is too large for this backup"))?;
    progress.doing(&format!("restoring {} objects", contents.keys));
    let parent = target.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(parent).map_err(|error| directory(parent, &error))?;
    // Beside its place, so that the move is one step.
    let part = tempfile::Builder::new().prefix(".mainstay-restore-").tempdir_in(parent).map_err(|error| directory(parent, &error))?;
    fill(&backup, part.path(), revision).map_err(|error| Failure::failed(subject(), &error))?;
    let failed = |error: std::io::Error| directory(&target, &error);
    sync(part.path()).map_err(failed)?;
    if target.exists() {
        // It is empty, as checked above; this fails if it no longer is.
        fs::remove_dir(&target).map_err(failed)?;
    }
    fs::rename(part.path(), &target).map_err(failed)?;
    sync(parent).map_err(failed)?;
    // It has another name now.
    let _ = part.keep();
    drop(progress);
    show(arguments, data_dir, &contents, revision)
}

fn directory(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("directory {}", path.display()), error)
}

fn refuse_what_is_there(target: &Path) -> Result<(), Failure> {
    match fs::read_dir(target).map(|mut entries| entries.next().is_some()) {
        Ok(false) => Ok(()),
        Ok(true) => Err(Failure::new(Exit::Impossible, format!("directory {}", target.display()), "is not empty; nothing was changed")
            .hint("--data-dir DIR names another place; mainstay down ends a cluster that uses this one")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(directory(target, &error)),
    }
}

/// Writes the files and the store.
fn fill(backup: &Backup, folder: &Path, revision: u64) -> Result<(), mainstay_store::Error> {
    let io = |path: &Path, source| mainstay_store::Error::Io { path: path.to_owned(), action: "restoring", source };
    backup.files(|name, content| {
        let name = Path::new(name);
        // A backup may come from anywhere.
        if !name.components().all(|part| matches!(part, Component::Normal(_))) {
            let problem = format!("it holds a file {}, which lies outside of a data directory", name.display());
            return Err(mainstay_store::Error::Backup { path: name.to_owned(), problem });
        }
        if !name.starts_with("pki") {
            return Ok(());
        }
        let path = folder.join(name);
        let write = || {
            fs::create_dir_all(path.parent().unwrap_or(folder))?;
            let mut file = File::options().write(true).create_new(true).mode(0o600).open(&path)?;
            file.write_all(content)?;
            file.sync_all()?;
            sync(path.parent().unwrap_or(folder))
        };
        write().map_err(|source| io(&path, source))
    })?;
    backup.restore(&folder.join("store"), revision).map(drop)
}

fn sync(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}

fn show(arguments: &Arguments, data_dir: &Path, contents: &Contents, revision: u64) -> Result<(), Failure> {
    if !arguments.output.is_table() {
        let mut value = super::backup::described(&arguments.file, contents);
        value["dataDir"] = data_dir.to_string_lossy().into();
        value["continuesAfter"] = revision.into();
        return output::value(&arguments.output, &value);
    }
    output::line(format!(
        "{}: {} objects as of revision {}; revisions continue after {revision}",
        data_dir.display(),
        contents.keys,
        contents.revision
    ))?;
    output::line(format!("mainstay up --data-dir {} starts the cluster", data_dir.display()))
}
