//! Consistency of watches and lists: all of them show parts of one history.
//!
//! The longest watch is the history. Every other watch must show exactly its part from where it began to where it ended; every list must
//! show what the history makes of everything up to the list's revision; every acknowledged write must be in it at its revision.

use std::collections::BTreeMap;

use super::Revision;

/// What happened to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub revision: Revision,
    /// To which.
    pub name: String,
    /// The value that it has since; none where it was deleted.
    pub value: Option<u64>,
}

/// What a watcher saw, over any number of connections.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// Where it began.
    pub after: Revision,
    /// In the order in which they came.
    pub events: Vec<Event>,
    /// Revisions of bookmarks, with the number of events that had come before each.
    pub bookmarks: Vec<(usize, Revision)>,
    /// The type of each event agreed with what the watcher knew of the object.
    pub types: Vec<(Revision, Type)>,
}

/// How a watch names an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// The object was not there before.
    Added,
    /// It was.
    Modified,
    /// It is no longer.
    Deleted,
}

/// A list: everything there was at a revision.
#[derive(Clone, Debug)]
pub struct Listed {
    /// As of when.
    pub revision: Revision,
    /// Names and values.
    pub items: BTreeMap<String, (u64, Revision)>,
}

/// What is wrong with watches, lists and acknowledged writes; nothing where all is well. The first watch is the history.
pub fn check(watches: &[Watched], lists: &[Listed], acknowledged: &[Event]) -> Vec<String> {
    let mut problems = Vec::new();
    let Some(history) = watches.first() else { return vec!["nobody watched".into()] };
    for (number, watched) in watches.iter().enumerate() {
        let mut last = watched.after;
        for event in &watched.events {
            if event.revision <= last {
                problems.push(format!("watch {number}: revision {} after {last}", event.revision));
            }
            last = event.revision;
        }
        for (before, revision) in &watched.bookmarks {
            if watched.events[..*before].last().is_some_and(|event| event.revision > *revision) {
                problems.push(format!("watch {number}: the bookmark {revision} is behind what was shown"));
            }
            if watched.events.get(*before).is_some_and(|event| event.revision <= *revision) {
                problems.push(format!("watch {number}: the bookmark {revision} promised more than was shown"));
            }
        }
        let part = history.events.iter().filter(|event| event.revision > watched.after && event.revision <= last);
        if let Some((expected, found)) = difference(part, &watched.events) {
            problems.push(format!("watch {number} after {}: expected {expected:?}, found {found:?}", watched.after));
        }
    }
    types(history, &mut problems);
    let end = history.events.last().map_or(history.after, |event| event.revision);
    for listed in lists.iter().filter(|listed| listed.revision >= history.after && listed.revision <= end) {
        let state = state_at(history, listed.revision);
        if state != listed.items {
            problems.push(format!("the list at {} is {:?}, and history says {state:?}", listed.revision, listed.items));
        }
    }
    for write in acknowledged {
        match history.events.iter().filter(|event| event.revision == write.revision).collect::<Vec<_>>().as_slice() {
            [event] if *event == write => {}
            found => problems.push(format!("acknowledged: {write:?}; in the history: {found:?}")),
        }
    }
    problems
}

fn difference<'a>(expected: impl Iterator<Item = &'a Event>, found: &'a [Event]) -> Option<(Option<&'a Event>, Option<&'a Event>)> {
    let (mut expected, mut found) = (expected, found.iter());
    loop {
        match (expected.next(), found.next()) {
            (None, None) => return None,
            (left, right) if left == right => {}
            (left, right) => return Some((left, right)),
        }
    }
}

/// The history must begin before anything was there.
fn state_at(history: &Watched, revision: Revision) -> BTreeMap<String, (u64, Revision)> {
    let mut state = BTreeMap::new();
    for event in history.events.iter().take_while(|event| event.revision <= revision) {
        match event.value {
            Some(value) => state.insert(event.name.clone(), (value, event.revision)),
            None => state.remove(&event.name),
        };
    }
    state
}

fn types(history: &Watched, problems: &mut Vec<String>) {
    let mut there = BTreeMap::new();
    for (event, (_, shown)) in history.events.iter().zip(&history.types) {
        let before = there.insert(event.name.clone(), event.value.is_some()).unwrap_or_default();
        let expected = match (before, event.value) {
            (false, Some(_)) => Type::Added,
            (true, Some(_)) => Type::Modified,
            (_, None) => Type::Deleted,
        };
        if *shown != expected || (!before && event.value.is_none()) {
            problems.push(format!("{event:?} was shown as {shown:?}, and the object was {}there before", if before { "" } else { "not " }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(revision: Revision, name: &str, value: Option<u64>) -> Event {
        Event { revision, name: name.into(), value }
    }

    fn watched(after: Revision, events: &[Event]) -> Watched {
        let mut there = std::collections::BTreeSet::new();
        let types = events.iter().map(|event| {
            let shown = match (event.value.is_some(), there.contains(&event.name)) {
                (true, false) => Type::Added,
                (true, true) => Type::Modified,
                (false, _) => Type::Deleted,
            };
            if event.value.is_some() {
                there.insert(event.name.clone())
            } else {
                there.remove(&event.name)
            };
            (event.revision, shown)
        });
        let types = types.collect();
        Watched { after, events: events.to_vec(), bookmarks: Vec::new(), types }
    }

    /// The checker itself: one history passes, each way to be wrong about it is found.
    #[test]
    fn one_history_passes_and_every_fault_is_found() {
        let all = [event(2, "a", Some(1)), event(3, "b", Some(2)), event(5, "a", Some(3)), event(6, "b", None)];
        let good = || vec![watched(1, &all), watched(3, &all[2..])];
        let list = |revision, items: &[(&str, u64, Revision)]| Listed {
            revision,
            items: items.iter().map(|(name, value, at)| ((*name).to_owned(), (*value, *at))).collect(),
        };
        let lists = [list(4, &[("a", 1, 2), ("b", 2, 3)]), list(6, &[("a", 3, 5)])];
        assert_eq!(check(&good(), &lists, &all[1..3]), Vec::<String>::new());
        let with = |change: &dyn Fn(&mut Vec<Watched>)| {
            let mut watches = good();
            change(&mut watches);
            check(&watches, &lists, &all)
        };
        let faults: &[(&str, Vec<String>)] = &[
            ("lost", with(&|watches| drop(watches[1].events.remove(0)))),
            ("repeated", with(&|watches| watches[1].events.insert(0, all[2].clone()))),
            ("out of order", with(&|watches| watches[0].events.swap(0, 1))),
            ("shown twice on resuming", with(&|watches| watches[1].events.insert(0, all[1].clone()))),
            ("a bookmark too far", with(&|watches| watches[0].bookmarks.push((2, 5)))),
            ("a bookmark behind", with(&|watches| watches[0].bookmarks.push((2, 2)))),
            ("a wrong type", with(&|watches| watches[0].types[2].1 = Type::Added)),
            ("a stale list", check(&good(), &[list(5, &[("a", 1, 2), ("b", 2, 3)])], &all)),
            ("a list with another revision", check(&good(), &[list(5, &[("a", 3, 4), ("b", 2, 3)])], &all)),
            ("a lost acknowledged write", check(&good(), &lists, &[event(4, "c", Some(9))])),
            ("another value", check(&good(), &lists, &[event(5, "a", Some(9))])),
        ];
        for (name, problems) in faults {
            assert!(!problems.is_empty(), "{name} was not found");
        }
        let bookmarked = with(&|watches| watches[0].bookmarks.extend([(2, 4), (4, 9)]));
        assert_eq!(bookmarked, Vec::<String>::new());
    }
}
