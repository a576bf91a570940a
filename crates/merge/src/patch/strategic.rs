//! Strategic Merge Patch: a merge patch that knows which lists merge, and by what key.
//!
//! Directives in a patch:
//! - `$patch: delete | replace | merge` in a map or list element,
//! - `$deleteFromPrimitiveList/FIELD: [...]`,
//! - `$setElementOrder/FIELD: [...]`: the wanted order of a merged list,
//! - `$retainKeys: [...]`: the only keys that stay in a map.

use std::collections::{HashMap, HashSet};

use mainstay_golang::value as go;
use mainstay_schema::{Additional, Schema};
use serde_json::{Map, Value};

use super::PatchError;
use super::identity::{Identity, place_in, places, printed, without_duplicates};

const DIRECTIVE: &str = "$patch";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const ORDER: &str = "$setElementOrder";
const RETAIN: &str = "$retainKeys";

const BAD_PRIMITIVE_LIST: PatchError = PatchError::BadRequest("invalid patch format of primitive list");
const BAD_RETAIN_KEYS: PatchError = PatchError::BadRequest("invalid patch format of retainKeys");
const BAD_ORDER_LIST: PatchError = PatchError::BadRequest("invalid patch format of setElementOrder list");

/// Applies `patch` to `original`, both objects, by the patch strategies and merge keys of `schema`.
pub fn strategic_merge_patch(original: &Value, patch: &Value, schema: &Schema) -> Result<Value, PatchError> {
    let (Value::Object(original), Value::Object(patch)) = (original, patch) else {
        return Err(PatchError::BadRequest("invalid JSON document"));
    };
    merge_map(original.clone(), patch.clone(), Some(schema)).map(Value::Object)
}

/// The merge rules of one field.
#[derive(Clone, Copy)]
struct Meta<'a> {
    schema: Option<&'a Schema>,
    replace: bool,
    merge: bool,
    key: Option<&'a str>,
}

impl<'a> Meta<'a> {
    /// Refuses a field that the Go type of the parent does not have. What the schema does not describe merges as JSON.
    fn of(parent: Option<&'a Schema>, field: &str) -> Result<Self, PatchError> {
        if let Some(parent) = parent
            && !parent.properties.contains_key(field)
        {
            if matches!(parent.additional, Additional::Schema(_)) {
                return Err(PatchError::Unmergeable("merging an object in json but data type is not struct, instead is: map".into()));
            }
            if let (false, Some(name)) = (parent.properties.is_empty(), type_name(parent)) {
                let field = mainstay_golang::quote(field);
                return Err(PatchError::Unmergeable(format!("unable to find api field in struct {name} for the json field {field}")));
            }
        }
        let schema = parent.and_then(|parent| parent.property(field)).map(|node| &**node);
        let strategy = |name: &str| schema.is_some_and(|schema| schema.patch_strategy.iter().any(|given| given == name));
        let key = schema.and_then(|schema| schema.patch_merge_key.as_deref());
        Ok(Self { schema, replace: strategy("replace"), merge: strategy("merge"), key })
    }

    fn items(&self) -> Option<&'a Schema> {
        self.schema.and_then(|schema| schema.items.as_deref())
    }
}

/// The name of the Go type that the schema describes.
fn type_name(schema: &Schema) -> Option<&str> {
    schema.definition.as_deref()?.rsplit('.').next()
}

fn merge_map(
    mut original: Map<String, Value>,
    mut patch: Map<String, Value>,
    schema: Option<&Schema>,
) -> Result<Map<String, Value>, PatchError> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Map::new()),
            _ => Err(bad_directive(directive, &patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    set_orders(&mut original, &mut patch, schema)?;

    for (key, change) in patch {
        let (key, deletes) = match key.strip_prefix(DELETE_FROM) {
            Some(rest) => (rest.strip_prefix('/').ok_or(BAD_PRIMITIVE_LIST)?.to_owned(), true),
            None => (key, false),
        };
        if change.is_null() {
            original.remove(&key);
            continue;
        }
        let merged = match (original.remove(&key), change) {
            (None, change) => (!deletes).then_some(change).and_then(new_value),
            (Some(Value::Object(now)), Value::Object(change)) => {
                let meta = Meta::of(schema, &key)?;
                Some(Value::Object(if meta.replace { change } else { merge_map(now, change, meta.schema)? }))
            }
            (Some(Value::Array(now)), Value::Array(change)) => {
                let meta = Meta::of(schema, &key)?;
                Some(Value::Array(match (deletes, meta.merge) {
                    (true, _) => delete_from_list(now, change, meta)?,
                    (false, true) => merge_list(now, change, meta)?,
                    (false, false) => change,
                }))
            }
            (Some(now), change) if deletes && !go::same_type(&now, &change) => Some(now),
            (Some(_), change) => new_value(change),
        };
        original.extend(merged.map(|value| (key, value)));
    }
    Ok(original)
}

fn bad_directive(directive: &Value, map: &Map<String, Value>) -> PatchError {
    PatchError::Unmergeable(format!("unknown patch type: {} in map: {}", go::text(directive), go::plain(&Value::Object(map.clone()))))
}

fn no_merge_key(map: &Map<String, Value>, key: &str) -> PatchError {
    PatchError::Unmergeable(format!("map: {} does not contain declared merge key: {key}", go::plain(&Value::Object(map.clone()))))
}

fn retain_keys(original: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<(), PatchError> {
    let Some(retained) = patch.remove(RETAIN) else {
        return Ok(());
    };
    let Value::Array(retained) = retained else {
        return Err(BAD_RETAIN_KEYS);
    };
    let retained: HashSet<&str> = retained.iter().filter_map(Value::as_str).collect();
    let kept = |key: &str| retained.contains(key);
    let unlisted =
        patch.iter().any(|(key, value)| !value.is_null() && !key.starts_with(DELETE_FROM) && !key.starts_with(ORDER) && !kept(key));
    if unlisted {
        return Err(BAD_RETAIN_KEYS);
    }
    original.retain(|key, _| kept(key));
    Ok(())
}

/// Carries out `$setElementOrder/FIELD` together with the patch of that field, and takes both out of the patch.
fn set_orders(original: &mut Map<String, Value>, patch: &mut Map<String, Value>, schema: Option<&Schema>) -> Result<(), PatchError> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(ORDER)).cloned().collect();
    for directive in directives {
        let Some(order) = patch.remove(&directive) else { continue };
        let order = list(order)?;
        let field = directive.strip_prefix(ORDER).and_then(|rest| rest.strip_prefix('/')).ok_or(BAD_ORDER_LIST)?;
        let now = original.remove(field).map(list).transpose()?;
        let change = patch.remove(field).map(list).transpose()?;
        let meta = Meta::of(schema, field)?;
        check_order(change.as_deref().unwrap_or_default(), &order, meta.key)?;
        let live = match (&now, &change, meta.key) {
            (Some(now), Some(change), Some(key)) if meta.merge => live_order(now, change, key),
            _ => now.clone().unwrap_or_default(),
        };
        let merged = match (now, change) {
            (None, None) => continue,
            (Some(now), None) => now,
            (None, Some(change)) => change.into_iter().filter_map(kept).collect(),
            (Some(now), Some(change)) if meta.merge => merge_list(now, change, meta)?,
            (Some(_), Some(change)) => change,
        };
        original.insert(field.to_owned(), Value::Array(in_order(merged, &order, &live, meta.key)?));
    }
    Ok(())
}

/// The live list by which a merged one is ordered. What the patch adds counts as live if it takes the place of something deleted:
/// upstream deletes and adds in the same array.
fn live_order(now: &[Value], change: &[Value], key: &str) -> Vec<Value> {
    let directive = |item: &Value, name: &str| item.get(DIRECTIVE).is_some_and(|given| given == name);
    let identity = |item| Identity::of(item, Some(key));
    let deleted: HashSet<Identity<'_>> = change.iter().filter(|item| directive(item, "delete")).filter_map(identity).collect();
    let stays = |item: &&Value| Identity::of(item, Some(key)).is_none_or(|own| !deleted.contains(&own));
    let mut live: Vec<&Value> = now.iter().filter(stays).collect();
    let mut known: HashSet<Identity<'_>> = live.iter().copied().filter_map(identity).collect();
    let replaced = change.iter().any(|item| directive(item, "replace"));
    for item in change.iter().filter(|item| !replaced && item.get(DIRECTIVE).is_none()) {
        if live.len() < now.len() && identity(item).is_none_or(|own| known.insert(own)) {
            live.push(item);
        }
    }
    live.into_iter().cloned().collect()
}

fn list(value: Value) -> Result<Vec<Value>, PatchError> {
    match value {
        Value::Array(items) => Ok(items),
        other => Err(PatchError::Unmergeable(format!("expected a []interface {{}}, but received a {}", go::type_name(&other)))),
    }
}

/// Every element of the patch must be in the order list, in the same sequence.
fn check_order(change: &[Value], order: &[Value], key: Option<&str>) -> Result<(), PatchError> {
    if order.is_empty() || change.is_empty() {
        return Ok(());
    }
    let is_delete = |item: &Value| key.is_some() && item.get(DIRECTIVE).is_some_and(|directive| directive == "delete");
    let mut wanted = change.iter().filter(|item| !is_delete(item)).peekable();
    let mut order_left = order.iter();
    while let Some(next) = wanted.peek() {
        if order_left.len() > 0 && next.get(DIRECTIVE).is_some() {
            wanted.next();
            continue;
        }
        let Some(item) = order_left.next() else { break };
        for map in [*next, item].into_iter().filter_map(Value::as_object) {
            if let Some(key) = key
                && !map.contains_key(key)
            {
                return Err(no_merge_key(map, key));
            }
        }
        if Identity::of(next, key).is_some_and(|own| Some(own) == Identity::of(item, key)) {
            wanted.next();
        }
    }
    if wanted.peek().is_some() {
        return Err(PatchError::Unmergeable(format!(
            "The order in patch list:\n{}\n doesn't match {ORDER} list:\n{}\n",
            go::plain(&Value::Array(change.to_vec())),
            go::plain(&Value::Array(order.to_vec()))
        )));
    }
    Ok(())
}

fn merge_list(original: Vec<Value>, patch: Vec<Value>, meta: Meta<'_>) -> Result<Vec<Value>, PatchError> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    if !holds_maps(&original, &patch)? {
        let merged = without_duplicates(original.iter().chain(&patch).cloned().collect());
        return in_order(merged, &patch, &original, None);
    }
    let Some(key) = meta.key else {
        let name = meta.items().and_then(type_name).unwrap_or("map");
        return Err(PatchError::Unmergeable(format!("cannot merge lists without merge key for {name}")));
    };

    let mut live = original;
    let mut deleted = HashSet::new();
    let mut changes = Vec::new();
    let mut replace = false;
    for item in patch {
        let Value::Object(item) = item else { continue };
        match item.get(DIRECTIVE) {
            None => changes.push(Value::Object(item)),
            Some(Value::String(directive)) if directive == "delete" => {
                let Some(value) = item.get(key) else {
                    return Err(no_merge_key(&item, key));
                };
                deleted.insert(printed(value).into_owned());
            }
            Some(Value::String(directive)) if directive == "replace" => replace = true,
            Some(Value::String(directive)) if directive == "merge" => {
                return Err(PatchError::Unmergeable("merging lists cannot yet be specified in the patch".into()));
            }
            Some(other) => return Err(bad_directive(other, &item)),
        }
    }
    if replace {
        return in_order(changes.clone(), &[], &changes, Some(key));
    }
    live.retain(|element| element.get(key).is_none_or(|own| !deleted.contains(&*printed(own))));
    let mut merged = live.clone();
    let mut known: HashMap<String, usize> = HashMap::with_capacity(live.len());
    for (place, own) in live.iter().enumerate().filter_map(|(place, element)| Some((place, element.get(key)?))) {
        known.entry(printed(own).into_owned()).or_insert(place);
    }
    for change in &changes {
        let Value::Object(change) = change else { continue };
        let Some(value) = change.get(key) else {
            return Err(no_merge_key(change, key));
        };
        if let Some(place) = known.get(&*printed(value)).copied() {
            let Value::Object(now) = merged[place].take() else { continue };
            merged[place] = Value::Object(merge_map(now, change.clone(), meta.items())?);
        } else {
            known.insert(printed(value).into_owned(), merged.len());
            merged.push(Value::Object(change.clone()));
        }
    }
    in_order(merged, &changes, &live, Some(key))
}

fn delete_from_list(now: Vec<Value>, change: Vec<Value>, meta: Meta<'_>) -> Result<Vec<Value>, PatchError> {
    if now.is_empty() && change.is_empty() {
        return Ok(now);
    }
    if holds_maps(&now, &change)? {
        return merge_list(now, change, meta);
    }
    let gone: HashSet<&Value> = change.iter().collect();
    let left = now.iter().filter(|item| !gone.contains(item)).cloned().collect();
    in_order(left, &change, &now, None)
}

fn holds_maps(original: &[Value], patch: &[Value]) -> Result<bool, PatchError> {
    let rejected = |detail: &str| Err(PatchError::Rejected { detail: detail.to_owned() });
    let mut first: Option<&Value> = None;
    for item in original.iter().chain(patch) {
        if item.is_array() || item.is_null() {
            return rejected("lists of lists are not supported");
        }
        match first {
            None => first = Some(item),
            Some(first) if !go::same_type(first, item) => {
                let lists = Value::Array(vec![Value::Array(original.to_vec()), Value::Array(patch.to_vec())]);
                return Err(PatchError::Unmergeable(format!("list element types are not identical: {}", go::plain(&lists))));
            }
            Some(_) => {}
        }
    }
    Ok(first.is_some_and(Value::is_object))
}

/// Elements of the patch in its order; elements only the server has keep their places relative to those, to the extent that the live order says.
fn in_order(merged: Vec<Value>, patch_order: &[Value], live_order: &[Value], key: Option<&str>) -> Result<Vec<Value>, PatchError> {
    let (in_patch, in_live) = (places(patch_order, key), places(live_order, key));
    for map in merged.iter().chain(patch_order).chain(live_order).filter_map(Value::as_object) {
        if let Some(key) = key
            && !map.contains_key(key)
        {
            return Err(no_merge_key(map, key));
        }
    }
    let mut patched = Vec::new();
    let mut server_only = Vec::new();
    for item in merged {
        match place_in(&in_patch, &item, key) {
            Some(at) => patched.push((at, item)),
            None => server_only.push((place_in(&in_live, &item, key), item)),
        }
    }
    patched.sort_by_key(|(at, _)| *at);
    // Sorted by the live order; all of these come from the live list.
    server_only.sort_by_key(|(at, _)| *at);

    let mut out = Vec::with_capacity(patched.len() + server_only.len());
    let mut left = server_only.into_iter().peekable();
    let mut right = patched.into_iter().map(|(_, item)| (place_in(&in_live, &item, key), item)).peekable();
    loop {
        let take_left = match (left.peek(), right.peek()) {
            (None, None) => return Ok(out),
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some((l, _)), Some((r, _))) => matches!((l, r), (Some(l), Some(r)) if l < r),
        };
        let next = if take_left { left.next() } else { right.next() };
        out.extend(next.map(|(_, item)| item));
    }
}

/// A value that is new to the object: without nulls, and without what a `$patch` directive is about; `None` if that is all of it.
fn new_value(mut value: Value) -> Option<Value> {
    discard_nulls(&mut value);
    kept(value)
}

fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, member| !member.is_null());
            map.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// The value without the maps that hold a `$patch` directive. The other directives stay: kinds have no such fields, so that
/// decoding drops them.
fn kept(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => Some(map.into_iter().filter_map(|(name, member)| Some((name, kept(member)?))).collect::<Map<_, _>>().into()),
        Value::Array(items) => Some(items.into_iter().filter_map(kept).collect()),
        other => Some(other),
    }
}
