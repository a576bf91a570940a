//! The pull requests between two releases: `adm release info --changelog` and `--bugs` (CVO-RELI-03).

use std::path::Path;

use mainstay_release::commits::{Location, Merge, bugs as bugs_of};
use mainstay_release::info::{CodeChange, Difference, History, bugs_json};
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::output;

use super::git::{GitError, Repository};
use super::{Refused, refuse, tell};

/// Prints what changed; repositories that cannot be read are told, and make the command fail.
pub(super) fn changelog(difference: &Difference<'_>, folder: &Path, format: &str) -> Result<(), Failure> {
    let (history, failed) = history(difference, folder)?;
    match format {
        "json" => output::json(&(difference.changelog_json(&history) + "\n"))?,
        _ => output::print(&difference.changelog(&history))?,
    }
    if failed { Err(Failure::silent(Exit::Failed)) } else { Ok(()) }
}

/// Prints the bugs that were mentioned.
pub(super) fn bugs(difference: &Difference<'_>, folder: &Path, format: &str) -> Result<(), Failure> {
    let (history, failed) = history(difference, folder)?;
    let bugs = bugs_of(history.changes.iter().flat_map(|(_, _, merges)| merges));
    match format {
        _ if bugs.is_empty() => {}
        "json" => output::json(&(bugs_json(&bugs) + "\n"))?,
        _ => bugs.iter().try_for_each(|bug| output::line(&bug.id))?,
    }
    if failed { Err(Failure::silent(Exit::Failed)) } else { Ok(()) }
}

/// Reads the commits of all changes, and returns whether some could not be read.
fn history(difference: &Difference<'_>, folder: &Path) -> Result<(History, bool), Failure> {
    if difference.is_identical() {
        return Err(refuse(&Refused::Usage("releases are identical")));
    }
    let (mut history, mut failed) = (History::default(), false);
    for change in difference.code_changes() {
        match merges(&change, folder) {
            Ok((location, merges)) => history.changes.push((change, location, merges)),
            Err(error) => {
                tell(&format!("error: Could not load commits for {}: {error}", change.repository));
                failed = true;
            }
        }
    }
    Ok((history, failed))
}

fn merges(change: &CodeChange, folder: &Path) -> Result<(Location, Vec<Merge>), GitError> {
    let location = Location::parse(&change.repository)?;
    let other = change.other_repository.as_deref().map(Location::parse).transpose()?;
    let repository = Repository::open(folder, &location, other.as_ref())?;
    let merges = repository.merges(&change.from, &change.to)?;
    Ok((location, merges))
}
