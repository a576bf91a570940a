//! The programs that stand for images: `IMAGE=PROGRAM [ARG...]` (KAPI-WL-07).

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::node::behaviour;

/// The longest mapping, in bytes.
const LONGEST: usize = 8_000;

/// A program of this machine that stands for some images: it takes the place of their entry point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunImage {
    /// The image, `*` standing for anything.
    pub image: String,
    /// The program: a path, or a name that is looked for in PATH.
    pub program: String,
    /// Its own arguments, which those of a container follow.
    pub arguments: Vec<String>,
}

/// Why a text is no mapping of an image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRunImage {
    /// It has not the form.
    #[error("{0:?} is not IMAGE=PROGRAM [ARG...]")]
    Form(String),
    /// A quotation mark has no partner.
    #[error("{0:?} has a quotation mark without a second one")]
    Quote(String),
    /// It is too long.
    #[error("is longer than {LONGEST} bytes")]
    TooLong,
}

/// Why the program of an image cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoProgram {
    /// It is not found.
    #[error("program {program:?} of image {image:?} is not found{}", if program.contains('/') { "" } else { " in PATH" })]
    NotFound {
        /// The image.
        image: String,
        /// The program.
        program: String,
    },
    /// It is no executable file.
    #[error("program {program:?} of image {image:?} is not an executable file")]
    NotExecutable {
        /// The image.
        image: String,
        /// The program.
        program: String,
    },
}

impl RunImage {
    /// Returns true if the program stands for an image.
    pub fn matches(&self, image: &str) -> bool {
        behaviour::matches(&self.image, image)
    }

    /// Finds the program, so that it is the same wherever and whenever it is started.
    ///
    /// # Errors
    /// There is none, or it cannot be executed.
    pub fn located(self) -> Result<Self, NoProgram> {
        let not_found = || NoProgram::NotFound { image: self.image.clone(), program: self.program.clone() };
        let path = locate(&self.program, std::env::var_os("PATH").as_deref()).ok_or_else(not_found)?;
        if !executable(&path) {
            return Err(NoProgram::NotExecutable { image: self.image, program: self.program });
        }
        let program = path.to_str().ok_or_else(not_found)?.to_owned();
        Ok(Self { program, ..self })
    }
}

/// Finds a program as a shell does.
pub(super) fn locate(program: &str, path: Option<&std::ffi::OsStr>) -> Option<PathBuf> {
    if program.contains('/') {
        return std::path::absolute(program).ok().filter(|path| path.exists());
    }
    let directories = std::env::split_paths(path?).collect::<Vec<_>>();
    directories.into_iter().filter_map(|directory| std::path::absolute(directory.join(program)).ok()).find(|path| executable(path))
}

fn executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

impl FromStr for RunImage {
    type Err = InvalidRunImage;

    fn from_str(text: &str) -> Result<Self, InvalidRunImage> {
        if text.len() > LONGEST {
            return Err(InvalidRunImage::TooLong);
        }
        // Neither an image's name nor its tag contains an equals sign.
        let (image, command) = text.split_once('=').ok_or_else(|| InvalidRunImage::Form(text.to_owned()))?;
        let mut words = words(command).ok_or_else(|| InvalidRunImage::Quote(text.to_owned()))?.into_iter();
        let (image, program) = (image.trim(), words.next().unwrap_or_default());
        if image.is_empty() || image.contains(char::is_whitespace) || program.is_empty() || text.contains('\0') {
            return Err(InvalidRunImage::Form(text.to_owned()));
        }
        Ok(Self { image: image.to_owned(), program, arguments: words.collect() })
    }
}

impl fmt::Display for RunImage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} = {}", self.image, self.program)?;
        self.arguments.iter().try_for_each(|argument| write!(out, " {argument}"))
    }
}

/// Splits a command line into words as a shell does: quotation marks and backslashes, and nothing else. `None` if a mark is open.
fn words(text: &str) -> Option<Vec<String>> {
    let (mut words, mut word): (Vec<String>, Option<String>) = (Vec::new(), None);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            letter if letter.is_whitespace() => words.extend(word.take()),
            '\'' => loop {
                match letters.next()? {
                    '\'' => break word.get_or_insert_default().push_str(""),
                    inner => word.get_or_insert_default().push(inner),
                }
            },
            '"' => loop {
                match letters.next()? {
                    '"' => break word.get_or_insert_default().push_str(""),
                    '\\' => match letters.next()? {
                        escaped @ ('"' | '\\' | '$' | '`') => word.get_or_insert_default().push(escaped),
                        other => word.get_or_insert_default().extend(['\\', other]),
                    },
                    inner => word.get_or_insert_default().push(inner),
                }
            },
            '\\' => word.get_or_insert_default().push(letters.next()?),
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// KAPI-WL-07: a mapping is an image, a program and its arguments, with a shell's quotation marks.
    #[test]
    fn mappings_are_read() {
        let read = |text: &str| text.parse::<RunImage>().map(|one| (one.image, one.program, one.arguments));
        let words = |all: &[&str]| all.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let cases = [
            ("app:1=./app", ("app:1", "./app", words(&[]))),
            ("*/app:*=python3 -u op.py --mode=fast", ("*/app:*", "python3", words(&["-u", "op.py", "--mode=fast"]))),
            (
                r#"a=sh -c 'echo "$HOME"' "two words" a\ b "" "\"q\" \n""#,
                ("a", "sh", words(&["-c", "echo \"$HOME\"", "two words", "a b", "", "\"q\" \\n"])),
            ),
        ];
        for (text, (image, program, arguments)) in cases {
            assert_eq!(read(text).unwrap(), (image.to_owned(), program.to_owned(), arguments), "{text}");
        }
        for (bad, why) in [
            ("app", "is not IMAGE=PROGRAM"),
            ("=x", "is not IMAGE=PROGRAM"),
            ("a= ", "is not IMAGE=PROGRAM"),
            ("a b=x", "is not IMAGE=PROGRAM"),
            ("a='x", "quotation mark"),
        ] {
            assert!(read(bad).unwrap_err().to_string().contains(why), "{bad}");
        }
        assert!(read(&format!("a={}", "x".repeat(LONGEST))).is_err());
    }

    /// KAPI-WL-07: a program that is not there, or is no program, is refused at the start, with its image.
    #[test]
    fn programs_are_found() {
        let located = |text: &str| text.parse::<RunImage>().unwrap().located().map_err(|error| error.to_string());
        assert!(located("a=sh -c true").unwrap().program.ends_with("/sh"));
        assert_eq!(located("a=no-such-program-here").unwrap_err(), "program \"no-such-program-here\" of image \"a\" is not found in PATH");
        assert_eq!(located("a=/no/such/program").unwrap_err(), "program \"/no/such/program\" of image \"a\" is not found");
        assert_eq!(located("a=/").unwrap_err(), "program \"/\" of image \"a\" is not an executable file");
    }
}
