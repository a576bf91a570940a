//! One value laid over another: the effect of an apply on the live object, before anything is removed.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{List, MapShape, Node, Shape};
use crate::fieldset::Step;

impl Node<'_> {
    /// `config` laid over `live`: its fields win, all others stay; order follows the config if both have it. `None` if
    /// that is the live value as it stands, which is all that most applies find.
    ///
    /// Both must be valid, and the config without duplicates.
    pub fn overlay(self, live: &Value, config: &Value) -> Option<Value> {
        // If the type is deduced it is that of the config; null there leaves a live map as it is.
        match (self.shape(Some(config)), live, config) {
            (Shape::List(list), Value::Array(old), Value::Array(new)) if !(list.is_atomic() || old.is_empty() && new.is_empty()) => {
                merge_lists(&list, old, new).map(Value::Array)
            }
            (Shape::List(list), Value::Array(old), Value::Null) if !list.is_atomic() && !old.is_empty() => None,
            (Shape::Map(map), Value::Object(old), Value::Object(new)) if !(map.atomic || old.is_empty() && new.is_empty()) => {
                merge_maps(&map, old, new).map(Value::Object)
            }
            (Shape::Map(map), Value::Object(old), Value::Null) if !map.atomic && !old.is_empty() => None,
            _ => (live != config).then(|| config.clone()),
        }
    }
}

fn merge_maps(map: &MapShape<'_>, live: &Map<String, Value>, config: &Map<String, Value>) -> Option<Map<String, Value>> {
    let mut changes: BTreeMap<&String, Value> = BTreeMap::new();
    for (name, new) in config {
        let change = match (live.get(name), map.member(name)) {
            (None, _) => Some(new.clone()),
            (Some(old), Some((node, _))) => node.overlay(old, new),
            (Some(old), None) => (old != new).then(|| new.clone()),
        };
        changes.extend(change.map(|change| (name, change)));
    }
    if changes.is_empty() {
        return None;
    }
    let mut out: Map<String, Value> =
        live.iter().map(|(name, old)| (name.clone(), changes.remove(name).unwrap_or_else(|| old.clone()))).collect();
    out.extend(changes.into_iter().map(|(name, new)| (name.clone(), new)));
    Some(out)
}

/// The items of both lists in their order, unless that is the live list.
fn merge_lists(list: &List<'_>, live: &[Value], config: &[Value]) -> Option<Vec<Value>> {
    let (old, new) = (list.elements(live), list.elements(config));
    let overlaid = |old, new| list.items.overlay(old, new).map_or(Cow::Borrowed(old), Cow::Owned);
    let items: Vec<Cow<'_, Value>> = if old.len() == new.len() && old.iter().zip(&new).all(|((ours, _), (theirs, _))| ours == theirs) {
        // The very same items: there are no duplicates, since the config has none.
        old.iter().zip(&new).map(|((_, old), (_, new))| overlaid(*old, *new)).collect()
    } else {
        interleave(&old, &new, overlaid)
    };
    let same = |(item, live): (&Cow<'_, Value>, &Value)| matches!(item, Cow::Borrowed(item) if std::ptr::eq(*item, live));
    if items.len() == live.len() && items.iter().zip(live).all(same) {
        return None;
    }
    Some(items.into_iter().map(Cow::into_owned).collect())
}

type Items<'v> = [(Step<'v>, &'v Value)];

/// Items of the config come in its order; items only of the live list keep their place before the config's item that
/// followed them, to the extent that the two orders agree.
fn interleave<'v>(old: &Items<'v>, new: &Items<'v>, overlaid: impl Fn(&'v Value, &'v Value) -> Cow<'v, Value>) -> Vec<Cow<'v, Value>> {
    // An element that the live list has twice is not merged: the config's replaces it.
    let mut old_items: BTreeMap<&Step<'v>, Option<&'v Value>> = BTreeMap::new();
    for (step, item) in old {
        old_items.entry(step).and_modify(|known| *known = None).or_insert(Some(item));
    }
    let new_items: BTreeSet<&Step<'v>> = new.iter().map(|(step, _)| step).collect();

    let mut shared = new.iter().map(|(step, _)| step).filter(|step| old_items.contains_key(step));
    let mut next_shared = shared.next();
    let mut done: BTreeSet<&Step<'v>> = BTreeSet::new();
    let mut out = Vec::with_capacity(old.len().max(new.len()));
    let (mut left, mut right) = (0, 0);
    let merge = |step: &Step<'v>, new: &'v Value| match old_items.get(step).copied().flatten() {
        Some(old) => overlaid(old, new),
        None => Cow::Borrowed(new),
    };
    while left < old.len() || right < new.len() {
        if let (Some((ours, _)), Some((theirs, item))) = (old.get(left), new.get(right)) {
            if ours == theirs {
                done.insert(ours);
                out.push(merge(ours, item));
                left += 1;
                right += 1;
                next_shared = shared.next();
                continue;
            }
            if new_items.contains(ours) && next_shared.is_some_and(|next| next != ours) {
                // A shared item, but not the one whose turn it is: it comes where the config has it.
                left += 1;
                continue;
            }
        }
        if let Some((ours, item)) = old.get(left) {
            if !new_items.contains(ours) {
                out.push(Cow::Borrowed(item));
                left += 1;
                continue;
            }
            if done.contains(ours) {
                left += 1;
            }
        }
        if let Some((theirs, item)) = new.get(right) {
            done.insert(theirs);
            out.push(merge(theirs, item));
            right += 1;
            if next_shared == Some(theirs) {
                next_shared = shared.next();
            }
        }
    }
    out
}
