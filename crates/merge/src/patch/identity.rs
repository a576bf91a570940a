//! The identity of list elements. Lists have no bounds but those of requests, so elements are found by hash.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use mainstay_golang::value as go;
use serde_json::Value;

/// The part that tells an element from the others of its list.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) enum Identity<'a> {
    /// All of it.
    Whole(&'a Value),
    /// The printed form of its merge key.
    Key(Cow<'a, str>),
}

impl<'a> Identity<'a> {
    /// That of an element in a list with this merge key; an element without the key is the same as no other.
    pub(super) fn of(item: &'a Value, key: Option<&str>) -> Option<Self> {
        match key {
            Some(key) => item.get(key).map(|own| Self::Key(printed(own))),
            None => Some(Self::Whole(item)),
        }
    }
}

/// The form in which keys are compared: 80 and "80" are the same.
pub(super) fn printed(key: &Value) -> Cow<'_, str> {
    match key {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(go::plain(other)),
    }
}

/// The first place of each element of a list.
pub(super) fn places<'a>(list: &'a [Value], key: Option<&str>) -> HashMap<Identity<'a>, usize> {
    let mut places = HashMap::with_capacity(list.len());
    for (place, item) in list.iter().enumerate() {
        if let Some(identity) = Identity::of(item, key) {
            places.entry(identity).or_insert(place);
        }
    }
    places
}

/// The place of an element among such.
pub(super) fn place_in(places: &HashMap<Identity<'_>, usize>, item: &Value, key: Option<&str>) -> Option<usize> {
    places.get(&Identity::of(item, key)?).copied()
}

/// The values once each. The last value takes the place of one that goes, as in Kubernetes: that decides the order.
pub(super) fn without_duplicates(mut values: Vec<Value>) -> Vec<Value> {
    let mut known: HashMap<&Value, usize> = HashMap::with_capacity(values.len());
    let mut kinds: Vec<usize> = Vec::with_capacity(values.len());
    for value in &values {
        let next = known.len();
        kinds.push(*known.entry(value).or_insert(next));
    }
    if known.len() == values.len() {
        return values;
    }
    // The places of equal values, kept up while values move.
    let mut places: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); known.len()];
    for (place, kind) in kinds.iter().enumerate() {
        places[*kind].insert(place);
    }
    let mut first = 0;
    while first < values.len() {
        let kind = kinds[first];
        while let Some(other) = places[kind].range(first + 1..).next().copied() {
            places[kind].remove(&other);
            let last = values.len() - 1;
            if other < last {
                let moved = &mut places[kinds[last]];
                moved.remove(&last);
                moved.insert(other);
            }
            values.swap_remove(other);
            kinds.swap_remove(other);
        }
        first += 1;
    }
    values
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// The same, by comparing every two.
    fn by_comparing(mut values: Vec<Value>) -> Vec<Value> {
        let mut first = 0;
        while first < values.len() {
            let mut other = first + 1;
            while other < values.len() {
                if values[first] == values[other] {
                    values.swap_remove(other);
                } else {
                    other += 1;
                }
            }
            first += 1;
        }
        values
    }

    proptest! {
        /// KAPI-PATCH-01: values that go leave the order that comparing every two leaves.
        #[test]
        fn duplicates_go_in_the_order_of_comparing(values in prop::collection::vec(0..8_u8, 0..24)) {
            let values: Vec<Value> = values.into_iter().map(|value| json!(value)).collect();
            prop_assert_eq!(without_duplicates(values.clone()), by_comparing(values));
        }
    }
}
