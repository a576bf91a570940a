//! The source of a catalog's files, and the selection of those that count.
//!
//! `.indexignore` files have gitignore syntax (OLM1-FBC-03), but the patterns decide about files alone: a pattern that names a folder
//! covers the files below it, and a later pattern can take some of them back. So each line is a matcher of its own, asked about the
//! path and its folders, and the last line that matches decides; nothing is pruned.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::error::{LoadError, SourceError};

/// Name of the files with ignore patterns; they are never part of the catalog themselves.
pub const INDEX_IGNORE: &str = ".indexignore";

/// The files of one catalog. Paths are relative to the root, parts separated by `/`.
pub trait Source: Sync {
    /// Every regular file below the root, in any order, `.indexignore` files included.
    fn paths(&self) -> Result<Vec<String>, SourceError>;

    /// The content of one file.
    fn read(&self, path: &str) -> Result<Cow<'_, [u8]>, SourceError>;

    /// Opens one file for reading in pieces. Sources that need not hold a whole file override this.
    fn open(&self, path: &str) -> Result<Box<dyn SourceFile + '_>, SourceError> {
        Ok(Box::new(self.read(path)?))
    }
}

/// A file that several threads read in pieces.
pub trait SourceFile: Send + Sync {
    /// Fills the buffer from an offset, as far as the file and the source allow; 0 is the end of the file.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<usize>;
}

impl SourceFile for Cow<'_, [u8]> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.get(offset..)).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }
}

/// A catalog held in memory.
#[derive(Debug, Clone, Default)]
pub struct MemorySource {
    files: BTreeMap<String, Vec<u8>>,
}

impl MemorySource {
    /// An empty catalog.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a catalog of one file.
    pub fn of(path: &str, content: impl Into<Vec<u8>>) -> Self {
        Self::new().with(path, content)
    }

    /// Adds or replaces a file.
    #[must_use]
    pub fn with(mut self, path: &str, content: impl Into<Vec<u8>>) -> Self {
        self.files.insert(path.to_owned(), content.into());
        self
    }
}

impl Source for MemorySource {
    fn paths(&self) -> Result<Vec<String>, SourceError> {
        Ok(self.files.keys().cloned().collect())
    }

    fn read(&self, path: &str) -> Result<Cow<'_, [u8]>, SourceError> {
        match self.files.get(path) {
            Some(content) => Ok(Cow::Borrowed(content)),
            None => Err(SourceError { path: path.to_owned(), reason: "no such file".to_owned() }),
        }
    }
}

/// The files of a source that are part of the catalog, in path order (folder by folder, names as text).
pub fn visible_files(source: &dyn Source) -> Result<Vec<String>, LoadError> {
    let mut paths = source.paths()?;
    paths.sort_by(|a, b| a.split('/').cmp(b.split('/')));
    let (ignores, mut files): (Vec<_>, Vec<_>) = paths.into_iter().partition(|path| file_name(path) == INDEX_IGNORE);
    let mut rules = Vec::new();
    // The patterns of a deeper file come after those above it, so they win.
    let mut ignores = ignores;
    ignores.sort_by_key(|path| path.matches('/').count());
    for path in ignores {
        read_rules(source, &path, &mut rules)?;
    }
    files.retain(|path| !ignored(&rules, path));
    Ok(files)
}

struct Rule {
    /// Folder in which the pattern is valid; empty for the root, else with a `/` at its end.
    folder: String,
    matcher: Gitignore,
}

fn read_rules(source: &dyn Source, path: &str, rules: &mut Vec<Rule>) -> Result<(), LoadError> {
    let bytes = source.read(path)?;
    let text = String::from_utf8_lossy(&bytes);
    let folder = path[..path.len() - INDEX_IGNORE.len()].to_owned();
    for (number, line) in text.lines().enumerate() {
        let invalid = |reason: String| LoadError::Ignore { path: path.to_owned(), line: number + 1, pattern: line.to_owned(), reason };
        let mut builder = GitignoreBuilder::new("");
        builder.add_line(None, &without_alternatives(line)).map_err(|e| invalid(e.to_string()))?;
        let matcher = builder.build().map_err(|e| invalid(e.to_string()))?;
        if !matcher.is_empty() {
            rules.push(Rule { folder: folder.clone(), matcher });
        }
    }
    Ok(())
}

/// Escapes the braces of a pattern: gitignore has no alternatives, the matcher has.
fn without_alternatives(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut letters = line.chars();
    let mut in_class = false;
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => {
                out.push(letter);
                out.extend(letters.next());
                continue;
            }
            '[' => in_class = true,
            ']' => in_class = false,
            '{' | '}' if !in_class => out.push('\\'),
            _ => {}
        }
        out.push(letter);
    }
    out
}

fn ignored(rules: &[Rule], path: &str) -> bool {
    for rule in rules.iter().rev() {
        let Some(below) = path.strip_prefix(rule.folder.as_str()) else { continue };
        // The matcher needs a relative path; paths with empty parts mean the same file.
        let below = below.trim_start_matches('/');
        let folders = below.match_indices('/').map(|(at, _)| rule.matcher.matched(&below[..at], true));
        let verdicts = std::iter::once(rule.matcher.matched(below, false)).chain(folders);
        if let Some(verdict) = verdicts.into_iter().find(|verdict| !verdict.is_none()) {
            return verdict.is_ignore();
        }
    }
    false
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn visible(ignores: &[(&str, &str)], files: &[&str]) -> Vec<String> {
        let mut source = MemorySource::new();
        for file in files {
            source = source.with(file, "");
        }
        for (path, content) in ignores {
            source = source.with(path, *content);
        }
        visible_files(&source).unwrap()
    }

    /// OLM1-FBC-03, CATLG-08: the reference case, everything but JSON and YAML outside `objects/`.
    #[test]
    fn reference_case() {
        let rules = "# comment\n**/*\n!*.json\n!*.yaml\n**/objects/*.json\n**/objects/*.yaml\n";
        let files = ["README.md", "a/index.yaml", "b/index.json", "b/objects/x.json", "b/objects/y.yaml", "b/notes.txt", "c/d/e.json"];
        assert_eq!(visible(&[(".indexignore", rules)], &files), ["a/index.yaml", "b/index.json", "c/d/e.json"]);
    }

    /// OLM1-FBC-03: patterns hold for their own folder and below, deeper files win, folders are not pruned, the last match wins.
    #[test]
    fn scope_and_precedence() {
        type Case<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str], &'a [&'a str]);
        let cases: &[Case<'_>] = &[
            (&[("a/.indexignore", "*.md\n")], &["a/x.md", "a/b/y.md", "z.md"], &["z.md"]),
            (
                &[(".indexignore", "*.md\n"), ("a/.indexignore", "!keep.md\n")],
                &["keep.md", "a/keep.md", "a/b/keep.md"],
                &["a/b/keep.md", "a/keep.md"],
            ),
            (&[(".indexignore", "objects/\n!*.json\n")], &["objects/a.json", "objects/a.txt", "b.txt"], &["b.txt", "objects/a.json"]),
            (&[(".indexignore", "!*.json\nobjects/\n")], &["objects/a.json", "a.json"], &["a.json"]),
            (&[(".indexignore", "*/\n")], &["a.json", "b/c.json"], &["a.json"]),
            (&[(".indexignore", "/\n//\n")], &["a.json", "b/c.json"], &["a.json", "b/c.json"]),
            (&[(".indexignore", "{a,b}.json\n")], &["a.json", "{a,b}.json"], &["a.json"]),
            (&[("a/.indexignore", "/top.yaml\n")], &["a/top.yaml", "a/b/top.yaml"], &["a/b/top.yaml"]),
        ];
        for (ignores, files, expected) in cases {
            assert_eq!(visible(ignores, files), *expected, "{ignores:?}");
        }
    }

    /// OLM1-FBC-03: a pattern that is no pattern names file and line.
    #[test]
    fn broken_pattern() {
        let source = MemorySource::of("a/.indexignore", "ok\n[z-a]\n");
        let error = visible_files(&source).unwrap_err().to_string();
        assert!(error.starts_with("a/.indexignore:2: pattern `[z-a]` is not valid"), "{error}");
    }

    /// OLM1-CAT-07: path order is folder by folder.
    #[test]
    fn path_order() {
        assert_eq!(visible(&[], &["a.yaml", "a/b.yaml", "a-b/c.yaml"]), ["a/b.yaml", "a-b/c.yaml", "a.yaml"]);
    }
}
