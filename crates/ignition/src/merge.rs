//! Merging by Ignition's rules: a child's values over its parent's, entries of lists by their key.

use std::collections::{HashMap, HashSet};

use crate::data::{Data, Struct};
use crate::model::Kind;

/// The child's values over the parent's. Both are of the same type; else the child stands alone.
pub fn merge(parent: &Struct, child: &Struct) -> Struct {
    if !std::ptr::eq(parent.of(), child.of()) {
        return child.clone();
    }
    let of = parent.of();
    let mut result = Struct::new(of);
    let entries = Entries::of(child);
    for (index, field) in of.fields.iter().enumerate() {
        let (old, new) = (parent.at(index), child.at(index));
        *result.at_mut(index) = match (&field.kind, old, new) {
            (Kind::Struct(_) | Kind::Optional(_), Data::Struct(old), Data::Struct(new)) => merged_struct(&field.kind, old, new),
            (Kind::Struct(_) | Kind::Optional(_), old, Data::Absent) => old.clone(),
            (Kind::List(..), old, new) => {
                let (old, new) = (items(old), items(new));
                if old.is_empty() && new.is_empty() {
                    Data::Absent
                } else if of.keeps_repeats(&field.name) {
                    Data::List(old.iter().chain(new).cloned().collect())
                } else {
                    Data::List(merged_list(old, new, &field.name, of.unique_in(&field.name), &entries))
                }
            }
            (_, _, new) => new.clone(),
        };
    }
    result
}

fn merged_struct(kind: &Kind, old: &Struct, new: &Struct) -> Data {
    // Of a struct that must be there, nothing said is the same as not there.
    let may_be_unsaid = matches!(kind, Kind::Struct(_));
    Data::Struct(if may_be_unsaid && new.is_zero() {
        old.clone()
    } else if may_be_unsaid && old.is_zero() {
        new.clone()
    } else {
        merge(old, new)
    })
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

/// The child's entries of lists by what they must be unique in and their key; the last of several.
struct Entries<'c>(HashMap<(&'static str, String), (&'static str, &'c Data)>);

impl<'c> Entries<'c> {
    fn of(child: &'c Struct) -> Self {
        let of = child.of();
        let mut entries = HashMap::new();
        for (field, value) in child.entries() {
            if !matches!(field.kind, Kind::List(..)) || of.keeps_repeats(&field.name) {
                continue;
            }
            for item in items(value) {
                entries.insert((of.unique_in(&field.name), key(item)), (field.name.as_str(), item));
            }
        }
        Self(entries)
    }
}

fn merged_list(old: &[Data], new: &[Data], field: &'static str, unique_in: &'static str, entries: &Entries<'_>) -> Vec<Data> {
    let mut result = Vec::with_capacity(old.len() + new.len());
    for item in old {
        match (entries.0.get(&(unique_in, key(item))), item) {
            (None, _) => result.push(item.clone()),
            // It moved to another list of the child.
            (Some((list, _)), _) if *list != field => {}
            // A header without a value takes the parent's away.
            (Some((_, Data::Struct(of_child))), _) if field == "httpHeaders" && !of_child.has("value") => {}
            (Some((_, Data::Struct(of_child))), Data::Struct(item)) => result.push(Data::Struct(merge(item, of_child))),
            (Some((_, of_child)), _) => result.push((*of_child).clone()),
        }
    }
    let known: HashSet<String> = old.iter().map(key).collect();
    result.extend(new.iter().filter(|item| !known.contains(&key(item))).cloned());
    result
}
