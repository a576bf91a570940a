//! JSON Patch (RFC 6902), with Kubernetes' limits.

use serde_json::Value;

use super::PatchError;

/// The most operations that one JSON patch may have.
pub const MAX_OPERATIONS: usize = 10_000;

/// Most bytes that the copies of one patch may add up to: without it 10,000 copies of copies would double a document without end.
pub const MAX_COPY_BYTES: usize = 3 * 1024 * 1024;

/// Applies the operations in order; on an error `doc` is as it was.
pub fn json_patch(doc: &mut Value, operations: &[Value]) -> Result<(), PatchError> {
    if operations.len() > MAX_OPERATIONS {
        return Err(PatchError::TooManyOperations(operations.len()));
    }
    let mut work = doc.clone();
    let mut copied = 0;
    for (index, operation) in operations.iter().enumerate() {
        apply(&mut work, operation, &mut copied).map_err(|failure| match failure {
            Failure::Misfit(what) => PatchError::Rejected { detail: format!("operation {index}: {what}") },
            Failure::Grown(size) => PatchError::TooMuchCopied(size),
        })?;
    }
    *doc = work;
    Ok(())
}

enum Failure {
    Misfit(String),
    Grown(usize),
}

fn misfit<T>(what: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Misfit(what.into()))
}

fn apply(doc: &mut Value, operation: &Value, copied: &mut usize) -> Result<(), Failure> {
    let text = |member: &str| match operation.get(member).and_then(Value::as_str) {
        Some(text) => Ok(text),
        None => misfit(format!("{member} is missing or no string")),
    };
    let path = Pointer::parse(text("path")?)?;
    // A missing value counts as null.
    let value = || operation.get("value").cloned().unwrap_or(Value::Null);
    match text("op")? {
        "add" => add(doc, &path, value()),
        "remove" => remove(doc, &path).map(drop),
        "replace" => replace(doc, &path, value()),
        "move" => {
            let from = Pointer::parse(text("from")?)?;
            if path.0.len() > from.0.len() && path.0.starts_with(&from.0) {
                return misfit(format!("{} cannot be moved into itself", from.display()));
            }
            let moved = remove(doc, &from)?;
            add(doc, &path, moved)
        }
        "copy" => {
            let from = Pointer::parse(text("from")?)?;
            if from.0.is_empty() {
                return misfit("the document as a whole is no member that can be copied".to_owned());
            }
            let source = source(doc, &from)?;
            *copied += size(&source);
            if *copied > MAX_COPY_BYTES {
                return Err(Failure::Grown(*copied));
            }
            add(doc, &path, source)
        }
        "test" => {
            let wanted = value();
            let holds = match find(doc, &path) {
                Ok(found) => *found == wanted,
                // A missing member equals null.
                Err(_) => wanted.is_null(),
            };
            if holds { Ok(()) } else { misfit(format!("test of {} failed", path.display())) }
        }
        other => misfit(format!("unknown operation {other:?}")),
    }
}

/// About the length of the value's JSON text.
fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 4,
        Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| size(item) + 1).sum::<usize>(),
        Value::Object(map) => 2 + map.iter().map(|(key, item)| key.len() + 4 + size(item)).sum::<usize>(),
    }
}

struct Pointer(Vec<String>);

impl Pointer {
    fn parse(text: &str) -> Result<Self, Failure> {
        if text.is_empty() {
            return Ok(Self(Vec::new()));
        }
        let Some(rest) = text.strip_prefix('/') else {
            return misfit(format!("path {text:?} does not begin with /"));
        };
        Ok(Self(rest.split('/').map(|part| part.replace("~1", "/").replace("~0", "~")).collect()))
    }

    fn display(&self) -> String {
        self.0.iter().fold(String::new(), |all, part| all + "/" + part)
    }
}

/// The place of an existing element; negative numbers count from the end, as Kubernetes' library has it.
fn index(part: &str, len: usize) -> Option<usize> {
    if let Some(back) = part.strip_prefix('-') {
        let back: usize = back.parse().ok()?;
        return (1..=len).contains(&back).then(|| len - back);
    }
    part.parse().ok().filter(|index| *index < len)
}

fn find<'a>(doc: &'a mut Value, path: &Pointer) -> Result<&'a mut Value, Failure> {
    let mut at = doc;
    for part in &path.0 {
        let next = match at {
            Value::Object(map) => map.get_mut(part),
            Value::Array(items) => index(part, items.len()).and_then(|index| items.get_mut(index)),
            _ => None,
        };
        match next {
            Some(next) => at = next,
            None => return misfit(format!("{} does not exist", path.display())),
        }
    }
    Ok(at)
}

fn parent<'a, 'p>(doc: &'a mut Value, path: &'p Pointer) -> Result<(&'a mut Value, &'p str), Failure> {
    let Some((last, above)) = path.0.split_last() else {
        return misfit("the whole document is no member of anything");
    };
    let above = Pointer(above.to_vec());
    Ok((find(doc, &above)?, last))
}

/// Puts a value in the place of another. A member that an object lacks is made, as Kubernetes' library has it.
fn replace(doc: &mut Value, path: &Pointer, value: Value) -> Result<(), Failure> {
    if !path.0.is_empty()
        && let (Value::Object(map), last) = parent(doc, path)?
    {
        map.insert(last.to_owned(), value);
        return Ok(());
    }
    if path.0.is_empty() && !value.is_object() && !value.is_array() {
        return misfit("the document can be an object or a list");
    }
    *find(doc, path)? = value;
    Ok(())
}

/// The value that is copied; a member that an object lacks counts as null.
fn source(doc: &mut Value, from: &Pointer) -> Result<Value, Failure> {
    match parent(doc, from)? {
        (Value::Object(map), last) => Ok(map.get(last).cloned().unwrap_or_default()),
        _ => find(doc, from).map(|found| found.clone()),
    }
}

fn add(doc: &mut Value, path: &Pointer, value: Value) -> Result<(), Failure> {
    if path.0.is_empty() {
        *doc = value;
        return Ok(());
    }
    let (parent, last) = parent(doc, path)?;
    match parent {
        Value::Object(map) => {
            map.insert(last.to_owned(), value);
            Ok(())
        }
        Value::Array(items) => {
            let at = match last {
                "-" => Some(items.len()),
                // One behind the last is a place to add at, too.
                _ => index(last, items.len() + 1),
            };
            match at {
                Some(at) => {
                    items.insert(at, value);
                    Ok(())
                }
                None => misfit(format!("{} is out of bounds", path.display())),
            }
        }
        _ => misfit(format!("{} has no members", path.display())),
    }
}

fn remove(doc: &mut Value, path: &Pointer) -> Result<Value, Failure> {
    let (parent, last) = parent(doc, path)?;
    let removed = match parent {
        Value::Object(map) => map.remove(last),
        Value::Array(items) => index(last, items.len()).map(|index| items.remove(index)),
        _ => None,
    };
    match removed {
        Some(value) => Ok(value),
        None => misfit(format!("{} does not exist", path.display())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use serde_json::json;

    use super::*;

    fn check(doc: &Value, operations: &Value, wanted: Option<&Value>) {
        let mut out = doc.clone();
        let result = json_patch(&mut out, operations.as_array().unwrap());
        if wanted.is_none() {
            assert!(matches!(result, Err(PatchError::Rejected { .. })), "{operations}: {result:?}");
        }
        // A refused patch changes nothing.
        assert_eq!(&out, wanted.unwrap_or(doc), "{operations}: {result:?}");
    }

    /// KAPI-PATCH-01: each operation, and what makes it fail.
    #[test]
    fn operations() {
        let doc = json!({"a": {"b": 1}, "l": [1, 2], "x/y": {"m~n": 3}});
        let with = |member: &str, value: Value| {
            let mut doc = doc.clone();
            doc[member] = value;
            doc
        };
        check(&doc, &json!([{"op": "add", "path": "/a/c", "value": 2}]), Some(&with("a", json!({"b": 1, "c": 2}))));
        check(&doc, &json!([{"op": "add", "path": "/l/-", "value": 3}]), Some(&with("l", json!([1, 2, 3]))));
        check(&doc, &json!([{"op": "add", "path": "/l/0", "value": 0}]), Some(&with("l", json!([0, 1, 2]))));
        check(&doc, &json!([{"op": "add", "path": "/l/3", "value": 0}]), None);
        check(&doc, &json!([{"op": "add", "path": "/no/c", "value": 2}]), None);
        check(&doc, &json!([{"op": "remove", "path": "/l/-1"}]), Some(&with("l", json!([1]))));
        check(&doc, &json!([{"op": "remove", "path": "/no"}]), None);
        check(&doc, &json!([{"op": "replace", "path": "/x~1y/m~0n", "value": 4}]), Some(&with("x/y", json!({"m~n": 4}))));
        check(&doc, &json!([{"op": "replace", "path": "/a/no", "value": 4}]), Some(&with("a", json!({"b": 1, "no": 4}))));
        // A member that is not there is made by `replace`, and null for `copy`.
        check(&doc, &json!([{"op": "replace", "path": "/no", "value": 4}]), Some(&with("no", json!(4))));
        check(&doc, &json!([{"op": "copy", "from": "/no", "path": "/too"}]), Some(&with("too", Value::Null)));
        check(&doc, &json!([{"op": "replace", "path": "", "value": "x"}]), None);
        check(
            &doc,
            &json!([{"op": "move", "from": "/a/b", "path": "/n"}, {"op": "copy", "from": "/n", "path": "/a/o"}]),
            Some(&{
                let mut doc = with("a", json!({"o": 1}));
                doc["n"] = json!(1);
                doc
            }),
        );
        check(&doc, &json!([{"op": "move", "from": "/a", "path": "/a/b"}]), None);
        check(&doc, &json!([{"op": "test", "path": "/a/b", "value": 1}, {"op": "test", "path": "/none", "value": null}]), Some(&doc));
        check(&doc, &json!([{"op": "remove", "path": "/a"}, {"op": "test", "path": "/l/0", "value": 9}]), None);
        check(&doc, &json!([{"op": "merge", "path": "/a", "value": 1}]), None);
    }

    /// KAPI-PATCH-01: 10,000 operations at most, and no growth without end.
    #[test]
    fn limits() {
        let one = json!({"op": "test", "path": "/a", "value": 1});
        let mut doc = json!({"a": 1});
        assert!(json_patch(&mut doc, &vec![one.clone(); MAX_OPERATIONS]).is_ok());
        let error = json_patch(&mut doc, &vec![one; MAX_OPERATIONS + 1]).unwrap_err();
        assert_eq!(error.to_string(), "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001");
        assert_eq!(error.code(), 413);

        let mut doc = json!({"a": ["x"]});
        let double = json!({"op": "copy", "from": "/a", "path": "/a/-"});
        assert!(matches!(json_patch(&mut doc, &vec![double; 100]), Err(PatchError::TooMuchCopied(_))));
    }
}
