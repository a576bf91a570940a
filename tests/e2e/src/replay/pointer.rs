//! JSON pointers with two more forms, `*` and `key=value`, and where two documents differ first.

use super::json::Json;

/// One place that a pointer names.
pub struct Found<'a> {
    /// The object or list that holds the value; absent for the whole document.
    pub parent: Option<&'a Json>,
    /// The name of the member, where the parent is an object.
    pub key: Option<&'a str>,
    /// The value.
    pub value: &'a Json,
    /// Positions from the root to the value.
    path: Vec<usize>,
}

/// All places that a pointer names, in document order. Besides RFC 6901: `*` is every child, `key=value` picks list items.
pub fn locate<'a>(document: &'a Json, pointer: &str) -> Vec<Found<'a>> {
    let mut found = vec![Found { parent: None, key: None, value: document, path: Vec::new() }];
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        found = found.iter().flat_map(|one| children(one, &part)).collect();
    }
    found
}

fn children<'a>(of: &Found<'a>, part: &str) -> Vec<Found<'a>> {
    let child = |index: usize, key: Option<&'a str>, value: &'a Json| {
        let path = of.path.iter().copied().chain([index]).collect();
        Found { parent: Some(of.value), key, value, path }
    };
    let members = of.value.members().iter().enumerate().filter(|(_, (key, _))| part == "*" || part == key);
    let members = members.map(|(index, (key, value))| child(index, Some(key), value));
    let items = of.value.items().iter().enumerate().filter(|(index, item)| part == "*" || part == index.to_string() || picks(part, item));
    members.chain(items.map(|(index, value)| child(index, None, value))).collect()
}

/// Whether `key=value` means this item.
fn picks(part: &str, item: &Json) -> bool {
    part.split_once('=').is_some_and(|(name, value)| item.get(name).is_some_and(|found| plain(found) == value))
}

/// A scalar as it stands in a text.
pub fn plain(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The first value that a pointer names; `null` counts as absent.
pub fn value_at<'a>(document: &'a Json, pointer: &str) -> Option<&'a Json> {
    locate(document, pointer).first().map(|found| found.value).filter(|value| !matches!(value, Json::Null))
}

/// Puts a value in all places that a pointer names.
pub fn replace(document: &mut Json, pointer: &str, with: &Json) {
    let paths: Vec<_> = locate(document, pointer).into_iter().map(|found| found.path).collect();
    for path in paths {
        let mut at = &mut *document;
        for index in path {
            at = match at {
                Json::Object(members) => &mut members[index].1,
                Json::Array(items) => &mut items[index],
                _ => unreachable!("a path leads through objects and lists only"),
            };
        }
        *at = with.clone();
    }
}

/// What stands for a value that is not there.
pub const ABSENT: &str = "(absent)";

/// The first places where two documents differ, members by name, at most this many: pointer, wanted, got.
pub fn differences(want: &Json, got: &Json, most: usize) -> Vec<(String, Json, Json)> {
    let mut found = Vec::new();
    collect(want, got, &mut String::new(), most, &mut found);
    found
}

fn collect(want: &Json, got: &Json, at: &mut String, most: usize, found: &mut Vec<(String, Json, Json)>) {
    if found.len() >= most {
        return;
    }
    let absent = Json::from(ABSENT);
    let mut below = |key: &str, left: Option<&Json>, right: Option<&Json>| {
        let length = at.len();
        at.push('/');
        at.push_str(key);
        collect(left.unwrap_or(&absent), right.unwrap_or(&absent), at, most, found);
        at.truncate(length);
    };
    match (want, got) {
        (Json::Object(left), Json::Object(right)) => {
            let mut keys: Vec<&str> = left.iter().chain(right).map(|(key, _)| key.as_str()).collect();
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                below(&key.replace('~', "~0").replace('/', "~1"), want.get(key), got.get(key));
            }
        }
        (Json::Array(left), Json::Array(right)) => {
            for index in 0..left.len().max(right.len()) {
                below(&index.to_string(), left.get(index), right.get(index));
            }
        }
        _ if want == got => {}
        _ => found.push((at.clone(), want.clone(), got.clone())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn document() -> Json {
        serde_json::from_str(r#"{"a/b": {"c~d": 1}, "ports": [{"port": 80, "name": "x"}, {"port": 81}], "none": null}"#).unwrap()
    }

    #[test]
    fn pointers() {
        let document = document();
        let found = |pointer: &str| locate(&document, pointer).into_iter().map(|one| one.value.to_string()).collect::<Vec<_>>().join(" ");
        for (pointer, expected) in [
            ("/a~1b/c~0d", "1"),
            ("/ports/1/port", "81"),
            ("/ports/*/port", "80 81"),
            ("/ports/port=81/port", "81"),
            ("/ports/name=x/port", "80"),
            ("/ports/name=y", ""),
            ("/ports/2", ""),
            ("/a~1b/*", "1"),
            ("/none", "null"),
            ("/none/more", ""),
        ] {
            assert_eq!(found(pointer), expected, "{pointer}");
        }
        assert_eq!(found(""), document.to_string());
        assert!(value_at(&document, "/none").is_none());
        let mut changed = document.clone();
        replace(&mut changed, "/ports/*/port", &Json::from("p"));
        assert_eq!(locate(&changed, "/ports/*/port").len(), 2);
        assert_eq!(value_at(&changed, "/ports/1/port"), Some(&Json::from("p")));
    }

    #[test]
    fn where_documents_differ() {
        for (want, got, pointer) in [
            (r#"{"a": 1, "b": 2}"#, r#"{"b": 2, "a": 1.0}"#, None),
            (r#"{"a": 1, "b": 2}"#, r#"{"b": 3, "a": 1}"#, Some("/b")),
            (r#"{"a": [1, {"x/y": 1}]}"#, r#"{"a": [1, {"x/y": 2}]}"#, Some("/a/1/x~1y")),
            (r#"{"a": [1]}"#, r#"{"a": [1, 2]}"#, Some("/a/1")),
            (r#"{"a": [1]}"#, "{}", Some("/a")),
            ("{}", r#"{"a": null}"#, Some("/a")),
            ("true", "1", Some("")),
            ("{}", "[]", Some("")),
            (r#"{"a": "(absent)"}"#, "{}", None),
        ] {
            let (left, right): (Json, Json) = (serde_json::from_str(want).unwrap(), serde_json::from_str(got).unwrap());
            assert_eq!(differences(&left, &right, 1).first().map(|found| found.0.as_str()), pointer, "{want} {got}");
        }
        let (left, right) = (r#"{"a": 1, "b": [1, 2], "c": 3}"#, r#"{"a": 2, "b": [1], "d": 3}"#);
        let (left, right): (Json, Json) = (serde_json::from_str(left).unwrap(), serde_json::from_str(right).unwrap());
        let all = |most| differences(&left, &right, most).into_iter().map(|found| found.0).collect::<Vec<_>>().join(" ");
        assert_eq!(all(9), "/a /b/1 /c /d");
        assert_eq!(all(2), "/a /b/1");
    }
}
