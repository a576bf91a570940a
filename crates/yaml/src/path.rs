//! Places in a document, and the keys that stand twice.

use std::fmt::Write as _;

use crate::Duplicate;

/// Most duplicates of a document that are reported; these are the first ones.
const MOST: usize = 100;
/// Most characters of a path or key in a report. A long key above many duplicates would be repeated with each of them.
const LENGTH: usize = 1024;

/// A place in the document, linked towards its root.
#[derive(Clone, Copy)]
pub(crate) enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    Item(&'a Path<'a>, usize),
}

impl Path<'_> {
    fn write(&self, out: &mut String) {
        match self {
            Self::Root => {}
            Self::Field(parent, name) => {
                parent.write(out);
                if out.len() >= LENGTH {
                    return;
                }
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(bounded(name));
            }
            Self::Item(parent, index) => {
                parent.write(out);
                // Writing to a string cannot fail.
                let _ = write!(out, "[{index}]");
            }
        }
    }
}

/// The duplicates of a document.
#[derive(Default)]
pub(crate) struct Duplicates {
    pub(crate) list: Vec<Duplicate>,
}

impl Duplicates {
    pub(crate) fn add(&mut self, parent: &Path<'_>, key: &str, line: usize) {
        if self.list.len() < MOST {
            let mut path = String::new();
            Path::Field(parent, key).write(&mut path);
            self.list.push(Duplicate { path, key: bounded(key).to_owned(), line });
        }
    }
}

fn bounded(text: &str) -> &str {
    match text.char_indices().nth(LENGTH) {
        None => text,
        Some((end, _)) => &text[..end],
    }
}
