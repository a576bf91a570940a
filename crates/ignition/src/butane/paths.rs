//! Where in a Butane config each value of the result comes from.

use std::collections::HashMap;

use crate::data::{Data, Struct};
use crate::merge::{Side, merge_told};
use crate::model::Kind;
use crate::report::Step;

/// A way from a config to a value in it.
pub(super) type Way = Vec<Step>;

/// A way of these steps; numbers are places in lists.
pub(super) fn way(steps: &str) -> Way {
    let step = |step: &str| step.parse().map_or_else(|_| Step::Field(step.to_owned()), Step::Index);
    steps.split('.').filter(|step| !step.is_empty()).map(step).collect()
}

/// A way and one step more.
pub(super) fn then(way: &[Step], step: impl Into<Step>) -> Way {
    let mut longer = way.to_vec();
    longer.push(step.into());
    longer
}

/// Two ways as one.
pub(super) fn joined(first: &[Step], second: &[Step]) -> Way {
    [first, second].concat()
}

fn text(way: &[Step]) -> String {
    let mut text = String::from("$");
    for step in way {
        text.push('.');
        match step {
            Step::Field(name) | Step::Key(name) => text.push_str(name),
            Step::Index(index) => text.push_str(&index.to_string()),
        }
    }
    text
}

/// Ways in the config by ways in the result.
#[derive(Clone, Debug, Default)]
pub(super) struct Paths(HashMap<String, (Way, Way)>);

impl Paths {
    pub(super) fn add(&mut self, from: &[Step], to: &[Step]) {
        self.0.insert(text(to), (from.to_vec(), to.to_vec()));
    }

    /// Adds a value of the result with all in it, said or not, as coming from one place.
    pub(super) fn add_all(&mut self, from: &[Step], to: &[Step], value: &Data) {
        match value {
            Data::Struct(of) => {
                for (field, value) in of.entries() {
                    self.add_all(from, &then(to, field.name.as_str()), value);
                }
            }
            Data::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.add_all(from, &then(to, index), item);
                }
            }
            _ => {}
        }
        self.add(from, to);
    }

    pub(super) fn append(&mut self, other: Paths) {
        self.0.extend(other.0);
    }

    /// Where a value of the result comes from.
    pub(super) fn source(&self, to: &[Step]) -> Option<&Way> {
        self.0.get(&text(to)).map(|(from, _)| from)
    }

    /// The same for a result that stands below `prefix`.
    pub(super) fn below(self, prefix: &[Step]) -> Paths {
        let mut below = Paths::default();
        for (from, to) in self.0.into_values() {
            below.add(&from, &joined(prefix, &to));
        }
        below
    }

    /// Those of the values below `prefix`, for a result that is that part alone.
    pub(super) fn of_part(self, prefix: &[Step]) -> Paths {
        let mut part = Paths::default();
        for (from, to) in self.0.into_values() {
            if let Some(rest) = to.strip_prefix(prefix) {
                part.add(&from, rest);
            }
        }
        part
    }
}

/// Two results as one, with where its values come from; the child's place counts where both have a part.
pub(super) fn merged(parent: &Struct, parent_paths: &Paths, child: &Struct, child_paths: &Paths) -> (Struct, Paths) {
    let mut paths = Paths::default();
    let merged = merge_told(parent, child, &mut |side, from, to| {
        let known = match side {
            Side::Parent => parent_paths,
            Side::Child => child_paths,
        };
        let Some(source) = known.source(from) else { return };
        if side == Side::Child || paths.source(to).is_none() {
            paths.add(source, to);
        }
    });
    (merged, paths)
}

/// Returns whether a value is one that always counts as said: a text, number or truth that is not optional.
pub(super) fn is_plain(kind: &Kind) -> bool {
    matches!(kind, Kind::Bool | Kind::Int | Kind::Text(_))
}
