//! Strategic Merge Patch: a merge patch that knows which lists merge, and by what key.
//!
//! Directives in a patch:
//! - `$patch: delete | replace | merge` in a map or list element,
//! - `$deleteFromPrimitiveList/FIELD: [...]`,
//! - `$setElementOrder/FIELD: [...]`: the wanted order of a merged list,
//! - `$retainKeys: [...]`: the only keys that stay in a map.

use mainstay_schema::Schema;
use serde_json::{Map, Value};

use super::PatchError;
use crate::go;

const DIRECTIVE: &str = "$patch";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";
const ORDER_NAME: &str = "$setElementOrder";
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

/// How one field merges.
#[derive(Clone, Copy)]
struct Meta<'a> {
    schema: Option<&'a Schema>,
    replace: bool,
    merge: bool,
    key: Option<&'a str>,
}

impl<'a> Meta<'a> {
    fn of(parent: Option<&'a Schema>, field: &str) -> Self {
        let schema = parent.and_then(|parent| parent.property(field)).map(|node| &**node);
        let strategy = |name: &str| schema.is_some_and(|schema| schema.patch_strategy.iter().any(|given| given == name));
        Self {
            schema,
            replace: strategy("replace"),
            merge: strategy("merge"),
            key: schema.and_then(|schema| schema.patch_merge_key.as_deref()),
        }
    }

    fn items(&self) -> Option<&'a Schema> {
        self.schema.and_then(|schema| schema.items.as_deref())
    }
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
                Ok(without_directives(patch))
            }
            Some("delete") => Ok(Map::new()),
            _ => Err(bad_directive(directive, &patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    set_orders(&mut original, &mut patch, schema)?;

    for (key, change) in patch {
        let (key, deletes) = match key.strip_prefix(DELETE_FROM) {
            Some(field) => (field.to_owned(), true),
            None => (key, false),
        };
        if change.is_null() {
            if !deletes {
                original.remove(&key);
            }
            continue;
        }
        let Some(current) = original.get_mut(&key) else {
            if !deletes && let Some(value) = new_value(change) {
                original.insert(key, value);
            }
            continue;
        };
        let meta = Meta::of(schema, &key);
        *current = match (current.take(), change) {
            (Value::Object(_), change @ Value::Object(_)) if meta.replace => new_value(change).unwrap_or_default(),
            (Value::Object(now), Value::Object(change)) => Value::Object(merge_map(now, change, meta.schema)?),
            (Value::Array(now), Value::Array(change)) if deletes => {
                if now.iter().chain(&change).any(|item| item.is_object() || item.is_array()) {
                    return Err(BAD_PRIMITIVE_LIST);
                }
                Value::Array(now.into_iter().filter(|item| !change.contains(item)).collect())
            }
            (Value::Array(now), Value::Array(change)) if meta.merge => Value::Array(merge_list(now, change, meta)?),
            (now, _) if deletes => now,
            (_, change @ Value::Array(_)) => change,
            (_, change) => new_value(change).unwrap_or_default(),
        };
    }
    Ok(original)
}

fn bad_directive(directive: &Value, map: &Map<String, Value>) -> PatchError {
    PatchError::Unmergeable(format!("unknown patch type: {} in map: {}", go::plain(directive), go::plain(&Value::Object(map.clone()))))
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
    let kept = |key: &str| retained.iter().any(|name| name == key);
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
        let (Some(order), Some(field)) = (patch.remove(&directive), directive.strip_prefix(ORDER)) else {
            continue;
        };
        let Value::Array(order) = order else {
            return Err(BAD_ORDER_LIST);
        };
        let list = |value: Value| match value {
            Value::Array(items) => Ok(items),
            other => Err(PatchError::Unmergeable(format!("expected a []interface {{}}, but received a {}", go::type_name(&other)))),
        };
        let change = patch.remove(field).filter(|value| !value.is_null()).map(list).transpose()?;
        let now = original.remove(field).filter(|value| !value.is_null()).map(list).transpose()?;
        let meta = Meta::of(schema, field);
        check_order(change.as_deref().unwrap_or_default(), &order, meta.key)?;
        let live = now.clone().unwrap_or_default();
        let merged = match (now, change) {
            (None, None) => continue,
            (Some(now), None) => now,
            (None, Some(change)) => match new_value(Value::Array(change)) {
                Some(Value::Array(items)) => items,
                _ => Vec::new(),
            },
            (Some(now), Some(change)) if meta.merge => merge_list(now, change, meta)?,
            (Some(_), Some(change)) => change,
        };
        original.insert(field.to_owned(), Value::Array(in_order(merged, &order, &live, meta.key)?));
    }
    Ok(())
}

/// Every element of the patch must be in the order list, in the same sequence.
fn check_order(change: &[Value], order: &[Value], key: Option<&str>) -> Result<(), PatchError> {
    if order.is_empty() || change.is_empty() {
        return Ok(());
    }
    let kept: Vec<&Value> = change.iter().filter(|item| key.is_none() || item.get(DIRECTIVE).is_none_or(|it| it != "delete")).collect();
    let mut wanted = kept.iter().peekable();
    for item in order {
        if let Some(next) = wanted.peek()
            && same_element(next, item, key)
        {
            wanted.next();
        }
    }
    if wanted.peek().is_some() {
        return Err(PatchError::Unmergeable(format!(
            "The order in patch list:\n{}\n doesn't match {ORDER_NAME} list:\n{}\n",
            go::plain(&Value::Array(change.to_vec())),
            go::plain(&Value::Array(order.to_vec()))
        )));
    }
    Ok(())
}

fn same_element(left: &Value, right: &Value, key: Option<&str>) -> bool {
    match key {
        Some(key) => matches!((left.get(key), right.get(key)), (Some(left), Some(right)) if same_key(left, right)),
        None => left == right,
    }
}

/// Keys are compared by their printed form, so that 80 and 80.0 are the same.
fn same_key(left: &Value, right: &Value) -> bool {
    left == right || go::plain(left) == go::plain(right)
}

fn merge_list(original: Vec<Value>, patch: Vec<Value>, meta: Meta<'_>) -> Result<Vec<Value>, PatchError> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    if !holds_maps(&original, &patch)? {
        let mut merged: Vec<Value> = Vec::new();
        for item in original.iter().chain(&patch) {
            if !merged.contains(item) {
                merged.push(item.clone());
            }
        }
        return in_order(merged, &patch, &original, None);
    }
    let Some(key) = meta.key else {
        let name = meta.items().and_then(|items| items.definition.as_deref()).and_then(|name| name.rsplit('.').next()).unwrap_or("map");
        return Err(PatchError::Unmergeable(format!("cannot merge lists without merge key for {name}")));
    };

    let mut live = original;
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
                live.retain(|element| element.get(key).is_none_or(|own| !same_key(own, value)));
            }
            Some(Value::String(directive)) if directive == "replace" => replace = true,
            Some(Value::String(directive)) if directive == "merge" => {
                return Err(PatchError::Unmergeable("merging lists cannot yet be specified in the patch".into()));
            }
            Some(other) => return Err(bad_directive(other, &item)),
        }
    }
    if replace {
        return Ok(changes.into_iter().filter_map(new_value).collect());
    }
    let mut merged = live.clone();
    for change in &changes {
        let Value::Object(change) = change else { continue };
        let Some(value) = change.get(key) else {
            return Err(no_merge_key(change, key));
        };
        let place = merged.iter().position(|element| element.get(key).is_some_and(|own| same_key(own, value)));
        match place {
            Some(place) => {
                let Value::Object(now) = merged[place].take() else { continue };
                merged[place] = Value::Object(merge_map(now, change.clone(), meta.items())?);
            }
            None => merged.extend(new_value(Value::Object(change.clone()))),
        }
    }
    in_order(merged, &changes, &live, Some(key))
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
            Some(first) if std::mem::discriminant(first) != std::mem::discriminant(item) => {
                return Err(PatchError::Unmergeable(format!("list element types are not identical: {}", go::type_name(first))));
            }
            Some(_) => {}
        }
    }
    Ok(first.is_some_and(Value::is_object))
}

/// Elements of the patch in its order; elements only the server has keep their places relative to those, as far as the live order says.
fn in_order(merged: Vec<Value>, patch_order: &[Value], live_order: &[Value], key: Option<&str>) -> Result<Vec<Value>, PatchError> {
    let place = |list: &[Value], item: &Value| list.iter().position(|other| same_element(other, item, key));
    let mut patched = Vec::new();
    let mut server_only = Vec::new();
    for item in merged {
        if let (Some(key), Value::Object(map)) = (key, &item)
            && !map.contains_key(key)
        {
            return Err(no_merge_key(map, key));
        }
        match place(patch_order, &item) {
            Some(at) => patched.push((at, item)),
            None => server_only.push((place(live_order, &item), item)),
        }
    }
    patched.sort_by_key(|(at, _)| *at);
    // Sorted by the live order; all of these come from the live list.
    server_only.sort_by_key(|(at, _)| *at);

    let mut out = Vec::with_capacity(patched.len() + server_only.len());
    let mut left = server_only.into_iter().peekable();
    let mut right = patched.into_iter().map(|(_, item)| (place(live_order, &item), item)).peekable();
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

/// A value that is new to the object: without directives and nulls; `None` where a directive deletes it.
fn new_value(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) => {
            if map.get(DIRECTIVE).is_some_and(|directive| directive == "delete") {
                return None;
            }
            Some(Value::Object(without_directives(map)))
        }
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(list_item).collect())),
        other => Some(other),
    }
}

fn list_item(value: Value) -> Option<Value> {
    match value {
        // An element that holds nothing but a directive is none.
        Value::Object(map) if map.len() == 1 && map.contains_key(DIRECTIVE) => None,
        other => new_value(other),
    }
}

fn without_directives(map: Map<String, Value>) -> Map<String, Value> {
    map.into_iter()
        .filter(|(key, value)| {
            !value.is_null() && key != DIRECTIVE && key != RETAIN && !key.starts_with(DELETE_FROM) && !key.starts_with(ORDER)
        })
        .filter_map(|(key, value)| Some((key, new_value(value)?)))
        .collect()
}
