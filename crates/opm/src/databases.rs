//! Shared parts of the commands on index databases: the notice, the log lines, pulling bundles, exit codes.

use std::path::Path;

use mainstay_bundle::Bundle;
use mainstay_catalog_refs::{BundleFiles, pull_files};
use mainstay_oci::Client;
use mainstay_sqlite_index::{AddOptions, Addition, Editor, Error, IndexDatabase, Mode, OnError, PackageRemoval};
use mainstay_terminal::errors::{Exit, Failure, note};
use mainstay_terminal::{progress, runtime};

use super::Global;
use super::server_log::{Level, ServerLog};

/// Prints the notice that databases are deprecated (CATLG-53).
pub(super) fn deprecation_notice() {
    note(
        "DEPRECATION NOTICE:\nSqlite-based catalogs and their related subcommands are deprecated. Support for them will be removed in a \
         future release. Please migrate your catalog workflows to the new file-based catalog format.",
    );
}

/// Lists of words as opm's flags take them: given several times, separated by commas; an empty one is nothing.
pub(super) fn list(values: &[String]) -> Vec<String> {
    values.iter().filter(|value| !value.is_empty()).flat_map(|value| value.split(',')).map(str::to_owned).collect()
}

/// A log whose lines carry a list.
pub(super) fn log_of(name: &str, words: &[String]) -> ServerLog {
    ServerLog::new(Level::Info).with(&[(name, &format!("[{}]", words.join(" ")))])
}

/// Warns of the flags that reduce security.
pub(super) fn warn_of_insecurity(global: Global, log: &ServerLog) {
    for (set, flag) in [(global.skip_tls_verify, "--skip-tls-verify"), (global.use_http || global.skip_tls, "--use-http")] {
        if set {
            let text = format!("{flag} flag is set: this mode is insecure and meant for development purposes only.");
            log.write(Level::Warning, &text, &[]);
        }
    }
}

/// `--mode` as opm reads it.
pub(super) fn mode(text: &str) -> Result<Mode, Failure> {
    text.parse().map_err(|error| Failure::failed("mode", &error))
}

/// `--permissive`.
pub(super) fn on_error(permissive: bool) -> OnError {
    if permissive { OnError::Continue } else { OnError::Stop }
}

/// `--allow-package-removal`.
pub(super) fn removal(allowed: bool) -> PackageRemoval {
    if allowed { PackageRemoval::Allow } else { PackageRemoval::Refuse }
}

/// A client with the settings of the flags and one more file of authorities.
pub(super) fn client(global: Global, authorities: &str) -> Result<Client, Failure> {
    let mut config = global.config()?;
    if !authorities.is_empty() {
        let bytes = std::fs::read(authorities).map_err(|error| Failure::failed(format!("file {authorities}"), &error))?;
        config.authorities.push((authorities.to_owned(), bytes));
    }
    Client::new(config).map(progress::shown).map_err(|error| Failure::failed("registry client", &error))
}

/// Pulls the bundles of these images.
pub(super) fn pull(client: &Client, images: &[String], log: &ServerLog) -> Result<Vec<Addition>, Failure> {
    if images.is_empty() {
        return Ok(Vec::new());
    }
    let files = runtime::block_on(async {
        let mut files: Vec<BundleFiles> = Vec::new();
        for image in images {
            files.push(pull_files(client, image).await.map_err(|error| Failure::failed(format!("image {image}"), &error))?);
        }
        Ok(files)
    })?;
    images.iter().zip(files).map(|(image, files)| read(image, &files, log)).collect()
}

fn read(image: &str, files: &BundleFiles, log: &ServerLog) -> Result<Addition, Failure> {
    let subject = format!("bundle {image}");
    let bundle =
        Bundle::read_for_catalog(files.iter().map(|(path, bytes)| (path, bytes))).map_err(|error| Failure::failed(&subject, &error))?;
    for warning in &bundle.warnings {
        log.write(Level::Warning, warning, &[("bundle", image)]);
    }
    Addition::new(image, &bundle).map_err(|error| failure(&subject, &error))
}

/// Adds bundles to a database.
pub(super) fn add(path: &Path, bundles: &[Addition], options: AddOptions, log: &ServerLog) -> Result<(), Failure> {
    change(path, log, |editor| Ok(editor.add(bundles, options)?.into_iter().collect()))
}

/// Changes a database: all of it or nothing. What is skipped is logged.
pub(super) fn change(path: &Path, log: &ServerLog, change: impl FnOnce(&mut Editor) -> Result<Vec<Error>, Error>) -> Result<(), Failure> {
    let subject = format!("database {}", path.display());
    let work = || {
        let mut editor = Editor::open(path)?;
        let warnings = change(&mut editor)?;
        editor.commit()?;
        Ok(warnings)
    };
    let warnings = work().map_err(|error| failure(&subject, &error))?;
    for warning in warnings {
        log.write(Level::Warning, "permissive mode enabled", &[("error", &warning.to_string())]);
    }
    Ok(())
}

/// Opens a database to read it.
pub(super) fn open(path: &Path) -> Result<IndexDatabase, Failure> {
    IndexDatabase::open(path).map_err(|error| failure(&format!("database {}", path.display()), &error))
}

/// A failure with opm's exit codes: 2 when a bundle's image is there already, 3 when its version is (CATLG-46).
pub(super) fn failure(subject: &str, error: &Error) -> Failure {
    let code = error.parts().into_iter().find_map(|part| match part {
        // The numbers are opm's; their other names here mean nothing.
        Error::ImageAlreadyAdded { .. } => Some(Exit::Usage),
        Error::VersionAlreadyAdded => Some(Exit::NotFound),
        _ => None,
    });
    let failure = Failure::of(code.unwrap_or(Exit::Failed), subject, error);
    match error {
        Error::NotADatabase { .. } => failure.hint("this command works on index databases; file-based catalogs are directories of files"),
        Error::Changed { .. } => failure.hint("run the command again: it begins with what is there now"),
        Error::Unfinished { .. } => {
            failure.hint("end the program that is changing it, or let SQLite finish with PRAGMA wal_checkpoint(TRUNCATE)")
        }
        _ => failure,
    }
}
