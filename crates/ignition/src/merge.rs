//! Merging by Ignition's rules: a child's values over its parent's, entries of lists by their key.

use std::collections::{HashMap, HashSet};

use crate::data::{Data, Struct};
use crate::model::Kind;
use crate::report::Step;

/// The child's values over the parent's. Both are of the same type; else the child stands alone.
pub fn merge(parent: &Struct, child: &Struct) -> Struct {
    merge_told(parent, child, &mut |_, _, _| {})
}

/// Which of two configs a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Parent,
    Child,
}

/// A function that is told where a value of a merged config comes from: the side, the way there, and the way in the result.
type Tell<'t> = dyn FnMut(Side, &[Step], &[Step]) + 't;

/// Merges, and tells for each value of the result that says something where it comes from: the side, the way there, and the way in the
/// result. Values in a struct are told before it.
pub(crate) fn merge_told(parent: &Struct, child: &Struct, tell: &mut Tell<'_>) -> Struct {
    let mut merging = Merging { tell, ways: [Vec::new(), Vec::new()], to: Vec::new() };
    merging.structs(parent, child)
}

struct Merging<'t> {
    tell: &'t mut Tell<'t>,
    /// The ways in the parent and in the child.
    ways: [Vec<Step>; 2],
    to: Vec<Step>,
}

impl Merging<'_> {
    fn one(&mut self, side: Side) {
        (self.tell)(side, &self.ways[side as usize], &self.to);
    }

    /// Tells of a value that comes from one side whole. Returns whether it says anything.
    fn whole(&mut self, side: Side, value: &Data, kind: &Kind) -> bool {
        let mut says = false;
        match value {
            Data::Absent => return false,
            Data::Struct(of) => {
                for (field, value) in of.entries() {
                    let step = Step::Field(field.name.clone());
                    says |= self.at(side, step.clone(), step, |merging| merging.whole(side, value, &field.kind));
                }
            }
            Data::List(items) => {
                let kind = item_kind(kind);
                for (index, item) in items.iter().enumerate() {
                    says |= self.at(side, Step::Index(index), Step::Index(index), |merging| merging.whole(side, item, kind));
                }
            }
            value => says = matches!(kind, Kind::Optional(_)) || !value.is_zero(kind),
        }
        if says {
            self.one(side);
        }
        says
    }

    fn at<R>(&mut self, side: Side, from: Step, to: Step, call: impl FnOnce(&mut Self) -> R) -> R {
        self.ways[side as usize].push(from);
        self.to.push(to);
        let result = call(self);
        self.ways[side as usize].pop();
        self.to.pop();
        result
    }

    fn structs(&mut self, parent: &Struct, child: &Struct) -> Struct {
        if !std::ptr::eq(parent.of(), child.of()) {
            return child.clone();
        }
        let of = parent.of();
        let mut result = Struct::new(of);
        let entries = Entries::of(child);
        for (index, field) in of.fields.iter().enumerate() {
            let step = Step::Field(field.name.clone());
            self.ways.iter_mut().for_each(|way| way.push(step.clone()));
            self.to.push(step);
            let (old, new) = (parent.at(index), child.at(index));
            *result.at_mut(index) = match (&field.kind, old, new) {
                (Kind::Struct(_) | Kind::Optional(_), Data::Struct(old_struct), Data::Struct(new_struct)) => {
                    // Of a struct that must be there, nothing said is the same as not there.
                    let may_be_unsaid = matches!(field.kind, Kind::Struct(_));
                    if may_be_unsaid && new_struct.is_zero() {
                        self.chosen(Side::Parent, old, &field.kind)
                    } else if may_be_unsaid && old_struct.is_zero() {
                        self.chosen(Side::Child, new, &field.kind)
                    } else {
                        let merged = self.structs(old_struct, new_struct);
                        self.one(Side::Parent);
                        self.one(Side::Child);
                        Data::Struct(merged)
                    }
                }
                (Kind::Struct(_) | Kind::Optional(_), old, Data::Absent) => self.chosen(Side::Parent, old, &field.kind),
                (Kind::List(_, item), old, new) => {
                    let (old, new) = (items(old), items(new));
                    if old.is_empty() && new.is_empty() {
                        Data::Absent
                    } else if of.keeps_repeats(&field.name) {
                        Data::List(self.joined(old, new, item))
                    } else {
                        Data::List(self.list(old, new, item, &field.name, of.unique_in(&field.name), &entries))
                    }
                }
                (_, _, new) => self.chosen(Side::Child, new, &field.kind),
            };
            self.ways.iter_mut().for_each(|way| _ = way.pop());
            self.to.pop();
        }
        result
    }

    fn chosen(&mut self, side: Side, value: &Data, kind: &Kind) -> Data {
        self.whole(side, value, kind);
        value.clone()
    }

    fn joined(&mut self, old: &[Data], new: &[Data], kind: &Kind) -> Vec<Data> {
        let mut result = Vec::with_capacity(old.len() + new.len());
        for (side, list) in [(Side::Parent, old), (Side::Child, new)] {
            for (index, item) in list.iter().enumerate() {
                let to = Step::Index(result.len());
                result.push(self.at(side, Step::Index(index), to, |merging| merging.chosen(side, item, kind)));
            }
        }
        for (side, _) in [(Side::Parent, old), (Side::Child, new)].into_iter().filter(|(_, list)| !list.is_empty()) {
            self.one(side);
        }
        result
    }

    fn list(
        &mut self,
        old: &[Data],
        new: &[Data],
        kind: &Kind,
        field: &'static str,
        unique_in: &'static str,
        entries: &Entries<'_>,
    ) -> Vec<Data> {
        let mut result = Vec::with_capacity(old.len() + new.len());
        let (mut from_parent, mut from_child) = (false, false);
        for (index, item) in old.iter().enumerate() {
            let to = Step::Index(result.len());
            let Some(entry) = entries.0.get(&(unique_in, key(item))) else {
                result.push(self.at(Side::Parent, Step::Index(index), to, |merging| merging.chosen(Side::Parent, item, kind)));
                from_parent = true;
                continue;
            };
            if entry.list != field {
                // It moved to another list of the child.
                continue;
            }
            (from_parent, from_child) = (true, true);
            let from_step = Step::Index(entry.index);
            match (entry.item, item) {
                // A header without a value takes the parent's away.
                (Data::Struct(of_child), _) if field == "httpHeaders" && !of_child.has("value") => {}
                (Data::Struct(of_child), Data::Struct(item)) => {
                    self.ways[Side::Parent as usize].push(Step::Index(index));
                    let merged = self.at(Side::Child, from_step, to, |merging| {
                        let merged = merging.structs(item, of_child);
                        merging.one(Side::Parent);
                        merging.one(Side::Child);
                        merged
                    });
                    self.ways[Side::Parent as usize].pop();
                    result.push(Data::Struct(merged));
                }
                (of_child, _) => {
                    result.push(self.at(Side::Child, from_step, to, |merging| merging.chosen(Side::Child, of_child, kind)));
                }
            }
        }
        let known: HashSet<String> = old.iter().map(key).collect();
        for (index, item) in new.iter().enumerate().filter(|(_, item)| !known.contains(&key(item))) {
            let to = Step::Index(result.len());
            result.push(self.at(Side::Child, Step::Index(index), to, |merging| merging.chosen(Side::Child, item, kind)));
            from_child = true;
        }
        for (side, _) in [(Side::Parent, from_parent), (Side::Child, from_child)].into_iter().filter(|(_, has)| *has) {
            self.one(side);
        }
        result
    }
}

fn item_kind(kind: &Kind) -> &Kind {
    match kind {
        Kind::List(_, item) => item,
        Kind::Optional(inner) => item_kind(inner),
        kind => kind,
    }
}

fn items(list: &Data) -> &[Data] {
    match list {
        Data::List(items) => items,
        _ => &[],
    }
}

fn key(item: &Data) -> String {
    match item {
        Data::Struct(item) => item.key(),
        Data::Text(text) => text.clone(),
        _ => String::new(),
    }
}

/// An entry of one of the child's lists.
struct Entry<'c> {
    list: &'static str,
    index: usize,
    item: &'c Data,
}

/// The child's entries of lists by what they must be unique in and their key; the last of several.
struct Entries<'c>(HashMap<(&'static str, String), Entry<'c>>);

impl<'c> Entries<'c> {
    fn of(child: &'c Struct) -> Self {
        let of = child.of();
        let mut entries = HashMap::new();
        for (field, value) in child.entries() {
            if !matches!(field.kind, Kind::List(..)) || of.keeps_repeats(&field.name) {
                continue;
            }
            for (index, item) in items(value).iter().enumerate() {
                entries.insert((of.unique_in(&field.name), key(item)), Entry { list: &field.name, index, item });
            }
        }
        Self(entries)
    }
}
