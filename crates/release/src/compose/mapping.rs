//! Images that are named on the command line or in a file: `NAME=IMAGE`.

use std::collections::BTreeSet;

/// An image of the release that is named by its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its name in the release.
    pub name: String,
    /// Its pull spec.
    pub image: String,
}

/// Words that name no images, in `oc`'s words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MappingError {
    /// A word without `=`, or with nothing on one side of it.
    #[error("all arguments must be valid SRC=DST mappings")]
    Form,
    /// A name that was given before.
    #[error("each source tag may only be specified once: {0}")]
    Twice(String),
    /// A line of a file.
    #[error("file {file}, line {line}: {error}")]
    Line {
        /// The file.
        file: String,
        /// The line, counted from 1.
        line: usize,
        /// The reason.
        error: Box<MappingError>,
    },
}

/// Images by name, each name once, in the order in which they were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mappings {
    all: Vec<Mapping>,
    names: BTreeSet<String>,
}

impl Mappings {
    /// Adds a word `NAME=IMAGE`.
    ///
    /// # Errors
    /// It has another form, or the name was given before.
    pub fn add(&mut self, word: &str) -> Result<(), MappingError> {
        let pair = word.split_once('=').filter(|(name, image)| !name.is_empty() && !image.is_empty());
        let (name, image) = pair.ok_or(MappingError::Form)?;
        if !self.names.insert(name.to_owned()) {
            return Err(MappingError::Twice(name.to_owned()));
        }
        self.all.push(Mapping { name: name.to_owned(), image: image.to_owned() });
        Ok(())
    }

    /// Adds the words of a file; what follows `#` is a comment.
    ///
    /// # Errors
    /// A word has another form, or its name was given before.
    pub fn add_file(&mut self, file: &str, text: &str) -> Result<(), MappingError> {
        for (number, line) in text.lines().enumerate() {
            let words = line.split('#').next().unwrap_or_default();
            for word in words.split_whitespace() {
                let at = |error| MappingError::Line { file: file.to_owned(), line: number + 1, error: Box::new(error) };
                self.add(word).map_err(at)?;
            }
        }
        Ok(())
    }

    /// Returns all of them.
    pub fn all(&self) -> &[Mapping] {
        &self.all
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// CVO-RELN-01: `SRC=DST` arguments and `--mapping-file`, and what is refused.
    #[test]
    fn words_and_files() {
        let mut mappings = Mappings::default();
        mappings.add("cli=r.test/cli@sha256:aa").unwrap();
        mappings.add_file("m.txt", "# images\n\na=r.test/a:1 b=r.test/b:1=2 # two\n").unwrap();
        let all: Vec<String> = mappings.all().iter().map(|mapping| format!("{} {}", mapping.name, mapping.image)).collect();
        assert_eq!(all, ["cli r.test/cli@sha256:aa", "a r.test/a:1", "b r.test/b:1=2"]);
        for word in ["x", "=x", "x=", ""] {
            assert_eq!(mappings.add(word), Err(MappingError::Form), "{word}");
        }
        assert_eq!(mappings.add("a=r.test/other").unwrap_err().to_string(), "each source tag may only be specified once: a");
        let line = mappings.add_file("m.txt", "c=r.test/c\nd").unwrap_err();
        assert_eq!(line.to_string(), "file m.txt, line 2: all arguments must be valid SRC=DST mappings");
    }
}
