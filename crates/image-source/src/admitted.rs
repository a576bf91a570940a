//! Content that the signature policy admitted, and the conditions it was admitted under (OLM1-GEN-12).
//!
//! Content is kept by digest and used again without a pull. A policy that came later, or that asks for more under another name, must hold for
//! it too; and a restart must not need a registry for what was verified before. So one small file records what the policy asked for when an
//! image was admitted; under any other conditions its signatures are verified again.

use std::collections::VecDeque;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mainstay_oci::{Digest, Error, InvalidDigest};

/// Most admissions kept. The oldest are dropped first, and verified again when they are needed.
const MOST: usize = 4096;
/// Most bytes read of the file; an admission takes about 75.
const MAX_FILE: u64 = 1 << 20;

/// Record of admitted content, kept in a file.
pub struct AdmittedImages {
    path: PathBuf,
    admissions: Mutex<VecDeque<Digest>>,
}

/// Reason why the record cannot be read.
#[derive(Debug, thiserror::Error)]
enum RecordError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] std::io::Error),
    /// A line is no digest.
    #[error("{line:?}: {problem}")]
    Line { line: String, problem: InvalidDigest },
}

impl AdmittedImages {
    /// Reads the record. One that cannot be read counts as empty: images are verified again.
    pub fn open(path: PathBuf) -> Self {
        let admissions = read(&path).unwrap_or_else(|problem| {
            let problem = problem.to_string();
            tracing::info!(path = %path.display(), problem, "what was let in before cannot be read; signatures are verified again");
            VecDeque::new()
        });
        Self { path, admissions: Mutex::new(admissions) }
    }

    /// Returns true if the content was admitted under these conditions.
    pub fn contains(&self, conditions: &Digest, content: &Digest) -> bool {
        self.admissions().contains(&admission(conditions, content))
    }

    /// Records that the content was admitted under these conditions. It is an error if the file cannot be written.
    pub fn record(&self, conditions: &Digest, content: &Digest) -> Result<(), Error> {
        let admission = admission(conditions, content);
        let mut admissions = self.admissions();
        if admissions.contains(&admission) {
            return Ok(());
        }
        admissions.push_back(admission);
        while admissions.len() > MOST {
            admissions.pop_front();
        }
        write(&self.path, &admissions).map_err(|source| Error::Io { path: self.path.clone(), source })
    }

    fn admissions(&self) -> MutexGuard<'_, VecDeque<Digest>> {
        // The list is consistent after every change.
        self.admissions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The digest that stands for an admission in the file.
fn admission(conditions: &Digest, content: &Digest) -> Digest {
    Digest::of(format!("{conditions} {content}").as_bytes())
}

fn read(path: &Path) -> Result<VecDeque<Digest>, RecordError> {
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(VecDeque::new()),
        Err(error) => return Err(error.into()),
    };
    let mut text = String::new();
    file.take(MAX_FILE).read_to_string(&mut text)?;
    let digest = |line: &str| line.parse().map_err(|problem| RecordError::Line { line: line.to_owned(), problem });
    text.lines().take(MOST).map(digest).collect()
}

/// Replaces the file as a whole, so that no reader ever finds a part of it.
fn write(path: &Path, admissions: &VecDeque<Digest>) -> std::io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
    for admission in admissions {
        writeln!(file, "{admission}")?;
    }
    file.persist(path).map(drop).map_err(|error| error.error)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn admissions_outlive_the_process_and_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admitted");
        let digest = |name: &str| Digest::of(name.as_bytes());
        let admitted = AdmittedImages::open(path.clone());
        assert!(!admitted.contains(&digest("key 1"), &digest("a")));
        admitted.record(&digest("key 1"), &digest("a")).unwrap();
        let admitted = AdmittedImages::open(path.clone());
        assert!(admitted.contains(&digest("key 1"), &digest("a")));
        assert!(!admitted.contains(&digest("key 2"), &digest("a")) && !admitted.contains(&digest("key 1"), &digest("b")));

        admitted.admissions().extend((0..MOST).map(|number| digest(&number.to_string())));
        admitted.record(&digest("key 1"), &digest("b")).unwrap();
        let admitted = AdmittedImages::open(path.clone());
        assert!(admitted.contains(&digest("key 1"), &digest("b")) && !admitted.contains(&digest("key 1"), &digest("a")));
        fs::write(&path, "no digest\n").unwrap();
        assert!(!AdmittedImages::open(path).contains(&digest("key 1"), &digest("b")));
    }
}
