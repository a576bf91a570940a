//! Clones of source code, by the program `git` (CVO-RELI-03, CVO-RELX-02). Addresses and commits come from images: they were checked, and are never
//! taken for options.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use mainstay_release::commits::{CommitsError, LOG_FORMAT, Location, Merge, Merging, PROTOCOLS, check_hash, read_log};

/// The longest output of git that is read.
const MAX_OUTPUT: u64 = 256 << 20;
/// Variables that would lead git elsewhere.
const LEADING: [&str; 5] = ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR"];

/// Source code that cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum GitError {
    #[error("the program git cannot be run: {0}")]
    Program(std::io::Error),
    #[error("{path}: {error}", path = .path.display())]
    Io { path: PathBuf, error: std::io::Error },
    #[error("{0}")]
    Said(String),
    #[error("git {0} said more than {MAX_OUTPUT} bytes")]
    Long(&'static str),
    #[error("{which} commit {commit} does not exist")]
    NoCommit { which: &'static str, commit: String },
    #[error(transparent)]
    Commits(#[from] CommitsError),
}

/// The clone of a repository.
#[derive(Debug)]
pub(super) struct Repository {
    path: PathBuf,
    places: Vec<Location>,
}

/// The output of git.
struct Said {
    status: ExitStatus,
    out: String,
    err: String,
}

impl Repository {
    /// Opens the clone of a repository below a folder, or makes it. `other` may have commits that it lacks.
    pub(super) fn open(folder: &Path, location: &Location, other: Option<&Location>) -> Result<Self, GitError> {
        let folder = std::path::absolute(folder).map_err(|error| GitError::Io { path: folder.to_owned(), error })?;
        let path = folder.join(location.folder());
        std::fs::create_dir_all(&path).map_err(|error| GitError::Io { path: path.clone(), error })?;
        let repository = Self { path, places: std::iter::once(location).chain(other).cloned().collect() };
        if !repository.git("rev-parse", &["--git-dir"])?.status.success() {
            let origin = format!("--origin={}", location.remote());
            let target = repository.path.display().to_string();
            let cloned =
                repository.git("clone", &["--quiet", "--filter=blob:none", "--bare", &origin, "--", &location.address, &target])?;
            cloned.succeeded()?;
        }
        Ok(repository)
    }

    /// Its folder.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes sure that a commit is there; it is fetched only if it is not.
    pub(super) fn require(&self, which: &'static str, commit: &str) -> Result<(), GitError> {
        if self.has(commit)? {
            return Ok(());
        }
        for place in &self.places {
            self.fetch(place)?;
            if self.has(commit)? {
                return Ok(());
            }
        }
        Err(GitError::NoCommit { which, commit: commit.to_owned() })
    }

    fn has(&self, commit: &str) -> Result<bool, GitError> {
        let object = format!("{}^{{commit}}", check_hash(commit)?);
        Ok(self.git("cat-file", &["-e", &object])?.status.success())
    }

    fn fetch(&self, place: &Location) -> Result<(), GitError> {
        let remote = place.remote();
        let known = self.git("remote", &[])?.succeeded()?;
        if !known.lines().any(|name| name == remote) {
            self.git("remote", &["add", "--", &remote, &place.address])?.succeeded()?;
        }
        let branches = format!("+refs/heads/*:refs/remotes/{remote}/*");
        self.git("fetch", &["--quiet", "--filter=blob:none", "--", &remote, &branches])?.succeeded().map(drop)
    }

    /// Returns the pull requests that were merged between two commits, the newest first.
    pub(super) fn merges(&self, from: &str, to: &str) -> Result<Vec<Merge>, GitError> {
        if from == to {
            return Ok(Vec::new());
        }
        self.require("from", from)?;
        self.require("to", to)?;
        let range = format!("{from}..{to}");
        let log = self.git("log", &["--merges", "--topo-order", "--first-parent", "-z", LOG_FORMAT, &range, "--"])?.succeeded()?;
        if !log.is_empty() {
            return Ok(read_log(&log, Merging::Merge)?);
        }
        // Some repositories squash pull requests to one commit.
        let log = self.git("log", &["--no-merges", "--topo-order", "-z", LOG_FORMAT, &range, "--"])?.succeeded()?;
        Ok(read_log(&log, Merging::Squash)?)
    }

    /// Puts the files of a commit into the folder.
    pub(super) fn check_out(&self, commit: &str) -> Result<(), GitError> {
        self.require("the", commit)?;
        self.make_full()?;
        self.git("checkout", &["--quiet", "--detach", check_hash(commit)?, "--"])?.succeeded().map(drop)
    }

    /// Turns a bare clone into one that has a place for files.
    fn make_full(&self) -> Result<(), GitError> {
        if self.git("config", &["core.bare"])?.succeeded()?.trim() == "false" {
            return Ok(());
        }
        let io = |error| GitError::Io { path: self.path.clone(), error };
        let inner = self.path.join(".git");
        std::fs::create_dir(&inner).map_err(io)?;
        for entry in std::fs::read_dir(&self.path).map_err(io)? {
            let entry = entry.map_err(io)?;
            if entry.file_name() != ".git" {
                std::fs::rename(entry.path(), inner.join(entry.file_name())).map_err(io)?;
            }
        }
        self.git("config", &["core.bare", "false"])?.succeeded().map(drop)
    }

    fn git(&self, verb: &'static str, words: &[&str]) -> Result<Said, GitError> {
        let mut command = Command::new("git");
        for name in LEADING {
            command.env_remove(name);
        }
        command
            // Neither a password nor a repository around the folder is asked for.
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_CEILING_DIRECTORIES", self.path.parent().unwrap_or(&self.path))
            .env("GIT_ALLOW_PROTOCOL", PROTOCOLS.join(":"))
            .env("LC_ALL", "C")
            .args(["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", verb])
            .args(words)
            .current_dir(&self.path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        tracing::debug!(verb, ?words, folder = %self.path.display(), "git");
        let mut child = command.spawn().map_err(GitError::Program)?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let errors = std::thread::spawn(move || err.map_or(Ok(Vec::new()), |err| read(err, MAX_OUTPUT)));
        let out = out.map_or(Ok(Vec::new()), |out| read(out, MAX_OUTPUT)).map_err(GitError::Program)?;
        if out.len() as u64 > MAX_OUTPUT {
            // It was cut off, and is not waited for any longer than it takes to end.
            let _ = child.kill();
        }
        let status = child.wait().map_err(GitError::Program)?;
        let err = errors.join().map_or_else(|panic| std::panic::resume_unwind(panic), |err| err.map_err(GitError::Program))?;
        if out.len() as u64 > MAX_OUTPUT {
            return Err(GitError::Long(verb));
        }
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Said { status, out: text(out), err: text(err) })
    }
}

fn read(from: impl std::io::Read, most: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most + 1).read_to_end(&mut bytes).map(|_| bytes)
}

impl Said {
    fn succeeded(self) -> Result<String, GitError> {
        if self.status.success() {
            return Ok(self.out);
        }
        let err = self.err.trim();
        let said = err.strip_prefix("fatal: ").unwrap_or(err);
        Err(GitError::Said(if said.is_empty() { format!("git ended with {}", self.status) } else { said.to_owned() }))
    }
}
