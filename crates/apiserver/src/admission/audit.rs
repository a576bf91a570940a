//! Notes of admission for auditors. There is no audit log: the notes go to the program's log, target `audit`, with the request.
//!
//! A note is a key of the form `DOMAIN/NAME` and a text, and belongs to one request. The first one of a key stays, as in an audit event.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Mutex, PoisonError};

use mainstay_schema::names::qualified_name;

/// The notes of one request.
#[derive(Debug, Default)]
pub struct Annotations(Mutex<BTreeMap<String, String>>);

/// Why a note is not taken.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum AnnotationError {
    #[error("its key is not of the form DOMAIN/NAME: {0}")]
    Key(String),
    #[error("there is one already: {0}")]
    Taken(String),
}

/// The kind of a note.
#[derive(Clone, Copy, Debug)]
pub(super) enum NoteKind {
    /// That something is to be looked at: logged at `info`.
    Finding,
    /// That something was done, as with every such request: logged at `debug`.
    Routine,
}

impl Annotations {
    /// Takes a note; false where it is known.
    fn add(&self, key: &str, value: &str) -> Result<bool, AnnotationError> {
        let mut wrong = qualified_name(key);
        if !key.contains('/') {
            wrong.push("a domain is missing".to_owned());
        }
        if !wrong.is_empty() {
            return Err(AnnotationError::Key(wrong.join(", ")));
        }
        match self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(key.to_owned()) {
            Entry::Vacant(place) => {
                place.insert(value.to_owned());
                Ok(true)
            }
            Entry::Occupied(known) if known.get() == value => Ok(false),
            Entry::Occupied(known) => Err(AnnotationError::Taken(known.get().clone())),
        }
    }

    /// Takes a note and logs it. One that cannot be taken is warned of.
    pub(super) fn annotate(&self, kind: NoteKind, key: &str, value: &str, subject: &Subject<'_>) {
        match self.add(key, value) {
            Ok(false) => {}
            Ok(true) => {
                let Subject { user, verb, resource, namespace, name } = *subject;
                match kind {
                    NoteKind::Finding => {
                        tracing::info!(target: "audit", user, verb, resource, namespace, name, annotation = key, value, "admission");
                    }
                    NoteKind::Routine => {
                        tracing::debug!(target: "audit", user, verb, resource, namespace, name, annotation = key, value, "admission");
                    }
                }
            }
            Err(error) => tracing::warn!(target: "audit", annotation = key, value, %error, "an audit annotation was not taken"),
        }
    }
}

/// The write that a note is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject<'a> {
    pub(super) user: &'a str,
    pub(super) verb: &'a str,
    pub(super) resource: &'a str,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KAPI-ADM-01: the first annotation of a key stays; a key needs a domain, and one only.
    #[test]
    fn keys_and_repetitions() {
        let annotations = Annotations::default();
        assert_eq!(annotations.add("hook.example.com/seen", "yes"), Ok(true));
        assert_eq!(annotations.add("hook.example.com/seen", "yes"), Ok(false));
        assert_eq!(annotations.add("hook.example.com/seen", "no"), Err(AnnotationError::Taken("yes".to_owned())));
        assert!(matches!(annotations.add("seen", "yes"), Err(AnnotationError::Key(_))));
        assert!(matches!(annotations.add("hook.example.com/seen/twice", "yes"), Err(AnnotationError::Key(_))));
        assert!(matches!(annotations.add("hook.example.com/not fit", "yes"), Err(AnnotationError::Key(_))));
    }
}
