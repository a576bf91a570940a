//! The source code of all images of a release: `adm release extract --git` (CVO-RELX-02).

use std::collections::BTreeMap;
use std::path::Path;

use mainstay_release::commits::Location;
use mainstay_release::info::Info;
use mainstay_release_source::Release;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::output;

use super::git::{GitError, Repository};
use super::{refuse, tell};

/// Clones every repository and checks its commit out, or prints the commit; one that fails stops no other.
pub(super) fn check_out(release: &Release, image: &str, folder: &Path, commits_only: bool) -> Result<(), Failure> {
    let info = Info::read(image, &release.files, release.image.as_ref()).map_err(|error| refuse(&error))?;
    super::extract::make_folder(folder)?;
    let (mut seen, mut failed) = (BTreeMap::<&str, &str>::new(), false);
    for tag in info.tags() {
        let (address, commit) = (tag.source_location(), tag.source_commit());
        if address.is_empty() || commit.is_empty() {
            tell(&format!("warning: Tag {} has no source info", tag.name()));
            continue;
        }
        match seen.get(address) {
            Some(first) if *first != commit => tell(&format!(
                "warning: Repo {address} referenced more than once with different commits, only checking out the first reference"
            )),
            Some(_) => {}
            None => {
                seen.insert(address, commit);
                match one(folder, address, commit, commits_only) {
                    Ok(line) => output::line(line)?,
                    Err(error) => {
                        tell(&format!("error: checking out commit for {address}: {error}"));
                        failed = true;
                    }
                }
            }
        }
    }
    if failed { Err(Failure::silent(Exit::Failed)) } else { Ok(()) }
}

fn one(folder: &Path, address: &str, commit: &str, commits_only: bool) -> Result<String, GitError> {
    let repository = Repository::open(folder, &Location::parse(address)?, None)?;
    if commits_only {
        repository.require("the", commit)?;
        return Ok(format!("{} {commit}", repository.path().display()));
    }
    repository.check_out(commit)?;
    Ok(repository.path().display().to_string())
}
