//! Which content that is here already was let in under which conditions (OLM1-GEN-12).
//!
//! Content is kept by digest and used again without a pull. That must not carry it past a policy that came later, or past what is asked of
//! another name; and nobody should need a registry to start again with what was verified before. So it is noted, in one small file, what the
//! policy asked for when an image was let in; under any other conditions its signatures are verified anew.

use std::collections::VecDeque;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mainstay_oci::{Digest, Error};

/// What is noted at most; of more the oldest is forgotten, and verified again when it is needed.
const MOST: usize = 4096;
/// A note takes about 75 bytes.
const MAX_FILE: u64 = 1 << 20;

/// Notes of what was let in.
pub struct Admitted {
    path: PathBuf,
    notes: Mutex<VecDeque<Digest>>,
}

impl Admitted {
    /// Reads the notes. Such as cannot be read are none: their images are verified again.
    pub fn open(path: PathBuf) -> Self {
        let notes = read(&path).unwrap_or_else(|problem| {
            tracing::info!(path = %path.display(), problem, "what was let in before cannot be read; signatures are verified again");
            VecDeque::new()
        });
        Self { path, notes: Mutex::new(notes) }
    }

    /// Whether the content was let in under these conditions.
    pub fn holds(&self, conditions: &Digest, content: &Digest) -> bool {
        self.notes().contains(&note(conditions, content))
    }

    /// Notes that it was.
    pub fn add(&self, conditions: &Digest, content: &Digest) -> Result<(), Error> {
        let note = note(conditions, content);
        let mut notes = self.notes();
        if notes.contains(&note) {
            return Ok(());
        }
        notes.push_back(note);
        while notes.len() > MOST {
            notes.pop_front();
        }
        write(&self.path, &notes).map_err(|source| Error::Io { path: self.path.clone(), source })
    }

    fn notes(&self) -> MutexGuard<'_, VecDeque<Digest>> {
        // The list is whole after every change.
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn note(conditions: &Digest, content: &Digest) -> Digest {
    Digest::of(format!("{conditions} {content}").as_bytes())
}

fn read(path: &Path) -> Result<VecDeque<Digest>, String> {
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(VecDeque::new()),
        Err(error) => return Err(error.to_string()),
    };
    let mut text = String::new();
    file.take(MAX_FILE).read_to_string(&mut text).map_err(|error| error.to_string())?;
    text.lines().take(MOST).map(|line| line.parse().map_err(|error| format!("{line:?}: {error}"))).collect()
}

/// Replaces the file as a whole, so that no reader ever finds a part of it.
fn write(path: &Path, notes: &VecDeque<Digest>) -> std::io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
    for note in notes {
        writeln!(file, "{note}")?;
    }
    file.persist(path).map(drop).map_err(|error| error.error)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn notes_outlive_the_process_and_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admitted");
        let digest = |name: &str| Digest::of(name.as_bytes());
        let admitted = Admitted::open(path.clone());
        assert!(!admitted.holds(&digest("key 1"), &digest("a")));
        admitted.add(&digest("key 1"), &digest("a")).unwrap();
        let admitted = Admitted::open(path.clone());
        assert!(admitted.holds(&digest("key 1"), &digest("a")));
        assert!(!admitted.holds(&digest("key 2"), &digest("a")) && !admitted.holds(&digest("key 1"), &digest("b")));

        admitted.notes().extend((0..MOST).map(|number| digest(&number.to_string())));
        admitted.add(&digest("key 1"), &digest("b")).unwrap();
        let admitted = Admitted::open(path.clone());
        assert!(admitted.holds(&digest("key 1"), &digest("b")) && !admitted.holds(&digest("key 1"), &digest("a")));
        fs::write(&path, "no digest\n").unwrap();
        assert!(!Admitted::open(path).holds(&digest("key 1"), &digest("b")));
    }
}
