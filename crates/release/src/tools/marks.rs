//! Places in programs that name the release: a beginning that is known, and room for a text behind it.

use std::io::{self, Read, Write};

/// The bytes that are looked at together.
const BUFFER: usize = 256 << 10;

/// The places that a program has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The pull spec.
    pub image: bool,
    /// The version.
    pub version: bool,
    /// The processors.
    pub architecture: bool,
}

/// One place, and the text for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    name: &'static str,
    /// The bytes that stand there before.
    before: Vec<u8>,
    value: String,
}

/// A program that cannot be copied.
#[derive(Debug, thiserror::Error)]
pub enum MarkError {
    /// The text needs more room than there is.
    #[error("the {name} value has {bytes} bytes, but the maximum replacement length is {most}")]
    Long {
        /// Its kind.
        name: &'static str,
        /// Its length.
        bytes: usize,
        /// The room.
        most: usize,
    },
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Marks {
    /// Returns the places with their texts.
    ///
    /// # Errors
    /// A text is too long.
    pub fn with(self, image: &str, version: &str, architecture: &str) -> Result<Vec<Mark>, MarkError> {
        let all = [
            (self.image, "release image", "IMAGE", 300, image),
            (self.version, "release version", "VERSION", 64, version),
            (self.architecture, "release architecture", "ARCHITECTURE", 64, architecture),
        ];
        let wanted = all.into_iter().filter(|(is_wanted, ..)| *is_wanted);
        let marks = wanted.map(|(_, name, word, room, value)| {
            let before = format!("\0_RELEASE_{word}_LOCATION_\0{}\0", "X".repeat(room)).into_bytes();
            let most = before.len() - 1;
            if value.len() > most {
                return Err(MarkError::Long { name, bytes: value.len(), most });
            }
            Ok(Mark { name, before, value: value.to_owned() })
        });
        marks.collect()
    }
}

/// Copies a program, fills the first of each place in, and returns the names of those that it does not have.
///
/// # Errors
/// Reading or writing failed.
pub fn copy(mut from: impl Read, mut to: impl Write, marks: &[Mark]) -> Result<Vec<&'static str>, MarkError> {
    let longest = marks.iter().map(|mark| mark.before.len()).max().unwrap_or_default();
    let mut open: Vec<&Mark> = marks.iter().collect();
    let mut buffer = Vec::with_capacity(BUFFER + longest);
    loop {
        let read = from.by_ref().take(BUFFER as u64).read_to_end(&mut buffer)?;
        open.retain(|mark| match find(&buffer, &mark.before) {
            None => true,
            Some(at) => {
                buffer[at..at + mark.value.len()].copy_from_slice(mark.value.as_bytes());
                buffer[at + mark.value.len()] = 0;
                false
            }
        });
        // A place may go on in what is read next.
        let kept = if read == 0 || open.is_empty() { 0 } else { longest.saturating_sub(1).min(buffer.len()) };
        let done = buffer.len() - kept;
        to.write_all(&buffer[..done])?;
        buffer.drain(..done);
        if read == 0 {
            return Ok(open.into_iter().map(|mark| mark.name).collect());
        }
    }
}

/// The first place of some bytes, which begin with one that is rare enough.
fn find(content: &[u8], wanted: &[u8]) -> Option<usize> {
    content.windows(wanted.len()).position(|window| window[1] == wanted[1] && window == wanted)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const ALL: Marks = Marks { image: true, version: true, architecture: true };

    /// A reader that gives what it has in pieces of odd sizes.
    struct Pieces<'a>(&'a [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.1 = self.1 * 7 % 1009 + 1;
            let count = self.1.min(into.len()).min(self.0.len());
            into[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    /// CVO-RELX-02: each place is filled in once, wherever it lies; the length of the program stays; what is missing is told.
    #[test]
    fn places() {
        let marks = ALL.with("r.test/release@sha256:12", "4.19.1", "linux/amd64").unwrap();
        for offset in [0, 17, BUFFER - 300, BUFFER - 1, BUFFER, 2 * BUFFER - 5] {
            let mut program = vec![b'.'; offset];
            program.extend_from_slice(&marks[0].before);
            program.extend(std::iter::repeat_n(b'-', 1000));
            program.extend_from_slice(&marks[1].before);
            program.extend_from_slice(&marks[1].before);
            let mut out = Vec::new();
            let missing = copy(Pieces(&program, 3), &mut out, &marks).unwrap();
            assert_eq!((missing.as_slice(), out.len()), (&["release architecture"][..], program.len()), "{offset}");
            assert!(out[offset..].starts_with(b"r.test/release@sha256:12\0"), "{offset}");
            let version = offset + marks[0].before.len() + 1000;
            assert!(out[version..].starts_with(b"4.19.1\0"));
            assert!(out[version + marks[1].before.len()..] == marks[1].before[..]);
        }
        let mut out = Vec::new();
        assert!(copy(&b"plain"[..], &mut out, &[]).unwrap().is_empty());
        assert_eq!(out, b"plain");
        let long = ALL.with(&"x".repeat(400), "1.0.0", "a").unwrap_err();
        assert_eq!(long.to_string(), "the release image value has 400 bytes, but the maximum replacement length is 326");
    }
}
