//! One value laid over another: what applying makes of the live object, before anything is removed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{List, MapShape, Node, Shape, as_list, as_map};
use crate::fieldset::PathElement;

impl Node<'_> {
    /// `config` laid over `live`: its fields win, all others stay; order follows the config where both have it.
    pub fn merge(self, live: &Value, config: &Value) -> Value {
        self.merged(Some(live), Some(config)).unwrap_or(Value::Null)
    }

    fn merged(self, live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
        // Where the type is deduced it is that of the config; null there leaves a live map as it is.
        let shape = self.shape(config.or(live));
        let unit = || config.or(live).cloned();
        match shape {
            Shape::Scalar(_) => unit(),
            Shape::List(list) => {
                let (old, new) = (as_list(live), as_list(config));
                if list.is_atomic() || (old.is_none_or(<[Value]>::is_empty) && new.is_none_or(<[Value]>::is_empty)) {
                    return unit();
                }
                let out = merge_lists(&list, old.unwrap_or_default(), new.unwrap_or_default());
                (!out.is_empty()).then_some(Value::Array(out))
            }
            Shape::Map(map) => {
                let (old, new) = (as_map(live), as_map(config));
                if map.atomic || (old.is_none_or(Map::is_empty) && new.is_none_or(Map::is_empty)) {
                    return unit();
                }
                let out = merge_maps(&map, old, new);
                (!out.is_empty()).then_some(Value::Object(out))
            }
        }
    }
}

fn merge_maps(map: &MapShape<'_>, live: Option<&Map<String, Value>>, config: Option<&Map<String, Value>>) -> Map<String, Value> {
    let mut out = Map::new();
    let mut visit = |name: &String, old: Option<&Value>, new: Option<&Value>| {
        let merged = match map.member(name) {
            Some((node, _)) => node.merged(old, new),
            None => new.or(old).cloned(),
        };
        if let Some(value) = merged {
            out.insert(name.clone(), value);
        }
    };
    for (name, old) in live.into_iter().flatten() {
        visit(name, Some(old), config.and_then(|config| config.get(name)));
    }
    for (name, new) in config.into_iter().flatten() {
        if live.is_none_or(|live| !live.contains_key(name)) {
            visit(name, None, Some(new));
        }
    }
    out
}

/// Items of the config come in its order; items only of the live list keep their place before the config's item that
/// followed them, as far as the two orders agree.
fn merge_lists(list: &List<'_>, live: &[Value], config: &[Value]) -> Vec<Value> {
    let old = list.elements(live);
    let new = list.elements(config);
    // An element that the live list has twice is not merged: the config's replaces it.
    let mut old_items: BTreeMap<&PathElement, Option<&Value>> = BTreeMap::new();
    for (element, item) in &old {
        old_items.entry(element).and_modify(|known| *known = None).or_insert(Some(item));
    }
    let new_items: BTreeMap<&PathElement, &Value> = new.iter().map(|(element, item)| (element, *item)).collect();

    let mut shared = new.iter().map(|(element, _)| element).filter(|element| old_items.contains_key(element));
    let mut next_shared = shared.next();
    let mut done: BTreeSet<&PathElement> = BTreeSet::new();
    let mut out = Vec::with_capacity(old.len().max(new.len()));
    let (mut left, mut right) = (0, 0);
    let merge = |element: &PathElement| list.items.merged(old_items.get(element).copied().flatten(), new_items.get(element).copied());
    while left < old.len() || right < new.len() {
        if let (Some((ours, _)), Some((theirs, _))) = (old.get(left), new.get(right)) {
            if ours == theirs {
                done.insert(ours);
                out.extend(merge(ours));
                left += 1;
                right += 1;
                next_shared = shared.next();
                continue;
            }
            if new_items.contains_key(ours) && next_shared.is_some_and(|next| next != ours) {
                // A shared item, but not the one whose turn it is: it comes where the config has it.
                left += 1;
                continue;
            }
        }
        if let Some((ours, item)) = old.get(left) {
            if !new_items.contains_key(ours) {
                out.extend(list.items.merged(Some(item), None));
                left += 1;
                continue;
            }
            if done.contains(ours) {
                left += 1;
            }
        }
        if let Some((theirs, _)) = new.get(right) {
            done.insert(theirs);
            out.extend(merge(theirs));
            right += 1;
            if next_shared == Some(theirs) {
                next_shared = shared.next();
            }
        }
    }
    out
}
