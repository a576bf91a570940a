//! Objects of a kind, parsed once for each version, so that a reconcile that reads all of them stays cheap (MS-OPS-04).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use kube::ResourceExt;
use kube::api::DynamicObject;

/// All objects of a kind at one time.
pub struct View<T> {
    /// The readable objects, in the order of the cache.
    pub found: Vec<Arc<T>>,
    /// The problems of the other objects.
    pub unreadable: Vec<Arc<Unreadable>>,
}

/// An object that its parser did not take.
#[derive(Debug, thiserror::Error)]
#[error("{kind} {name}: {source}")]
pub struct Unreadable {
    /// Its kind, in lower case.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The parser's error.
    pub source: serde_json::Error,
}

impl<T> Default for View<T> {
    fn default() -> Self {
        Self { found: Vec::new(), unreadable: Vec::new() }
    }
}

/// The objects parsed last. A version that is seen again is the same value: `Arc::ptr_eq` shows if it has changed.
pub struct Parsed<T> {
    parse: fn(&DynamicObject) -> Result<T, serde_json::Error>,
    held: Mutex<ParsedState<T>>,
}

struct ParsedState<T> {
    objects: Vec<Arc<DynamicObject>>,
    parsed: Vec<Result<Arc<T>, Arc<Unreadable>>>,
    view: Arc<View<T>>,
}

impl<T> fmt::Debug for Parsed<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Parsed").finish_non_exhaustive()
    }
}

impl<T> Parsed<T> {
    /// Creates an empty set with a parser.
    pub fn new(parse: fn(&DynamicObject) -> Result<T, serde_json::Error>) -> Self {
        Self { parse, held: Mutex::new(ParsedState { objects: Vec::new(), parsed: Vec::new(), view: Arc::default() }) }
    }

    /// Returns the parsed objects. Only those that were not among the last ones are parsed.
    pub fn read(&self, objects: Vec<Arc<DynamicObject>>) -> Arc<View<T>> {
        // Every change of the state is a single assignment, so a poisoned lock is still consistent.
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |(old, new): (&Arc<DynamicObject>, &Arc<DynamicObject>)| Arc::ptr_eq(old, new);
        if held.objects.len() == objects.len() && held.objects.iter().zip(&objects).all(same) {
            return held.view.clone();
        }
        let known: HashMap<_, _> = held.objects.iter().map(|object| version(object)).zip(&held.parsed).collect();
        let parsed: Vec<_> = objects
            .iter()
            .map(|object| known.get(&version(object)).map_or_else(|| self.parse(object), |known| Result::clone(known)))
            .collect();
        let mut view = View::default();
        for each in &parsed {
            match each {
                Ok(value) => view.found.push(value.clone()),
                Err(problem) => view.unreadable.push(problem.clone()),
            }
        }
        let view = Arc::new(view);
        *held = ParsedState { objects, parsed, view: view.clone() };
        view
    }

    fn parse(&self, object: &DynamicObject) -> Result<Arc<T>, Arc<Unreadable>> {
        let kind = || object.types.as_ref().map_or_else(String::new, |types| types.kind.to_lowercase());
        let unreadable = |source| Unreadable { kind: kind(), name: object.name_any(), source };
        (self.parse)(object).map(Arc::new).map_err(|error| Arc::new(unreadable(error)))
    }
}

/// Returns the identity of an object's version. An object that was recreated under its name is a different one.
fn version(object: &DynamicObject) -> (Option<&str>, Option<&str>) {
    (object.metadata.uid.as_deref(), object.metadata.resource_version.as_deref())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;

    static PARSED: AtomicUsize = AtomicUsize::new(0);

    fn number(object: &DynamicObject) -> Result<u64, serde_json::Error> {
        PARSED.fetch_add(1, Ordering::Relaxed);
        serde_json::from_value(object.data["number"].clone())
    }

    fn object(name: &str, version: u64, number: impl serde::Serialize) -> Arc<DynamicObject> {
        let object = json!({"apiVersion": "v1", "kind": "Number", "number": number,
            "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": version.to_string()}});
        Arc::new(serde_json::from_value(object).unwrap())
    }

    /// MS-OPS-04, MS-POL-01: with a thousand objects a change costs one parse, a look none, and a list after a break none either.
    #[test]
    fn each_version_is_parsed_once() {
        let numbers = Parsed::new(number);
        let mut all: Vec<_> = (0..1000).map(|at| object(&format!("n{at:04}"), 1, at)).collect();
        let count = || PARSED.load(Ordering::Relaxed);
        let first = numbers.read(all.clone());
        assert_eq!((count(), first.found.len()), (1000, 1000));
        assert!(Arc::ptr_eq(&first, &numbers.read(all.clone())));
        all[7] = object("n0007", 2, 70);
        let second = numbers.read(all.clone());
        assert_eq!((count(), *second.found[7]), (1001, 70));
        let changed = second.found.iter().zip(&first.found).filter(|(now, before)| !Arc::ptr_eq(now, before)).count();
        assert_eq!(changed, 1);
        let listed_again: Vec<_> = all.iter().map(|object| Arc::new(DynamicObject::clone(object))).collect();
        assert_eq!(numbers.read(listed_again).found.len(), 1000);
        assert_eq!(count(), 1001);
        all.remove(0);
        all.push(object("z", 1, "none"));
        let third = numbers.read(all);
        assert_eq!((count(), third.found.len()), (1002, 999));
        assert!(third.unreadable[0].to_string().starts_with("number z: "), "{:?}", third.unreadable);
    }
}
