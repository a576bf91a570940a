//! Conditions in `status.conditions`: the one way to read and to set a condition of an object that is a JSON value.
//!
//! Typed objects have theirs in the crate of their types; the rules are the same.

use serde_json::{Value, json};

/// A condition to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condition<'a> {
    /// The type of the condition, in CamelCase.
    pub kind: &'a str,
    /// True for status `True`, false for `False`.
    pub status: bool,
    /// The reason, in CamelCase, for programs.
    pub reason: &'a str,
    /// The reason, for people.
    pub message: &'a str,
}

/// Returns the condition of a type.
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object.pointer("/status/conditions")?.as_array()?.iter().find(|condition| condition["type"] == *kind)
}

/// Returns whether the condition of a type is `True`.
pub fn is_condition_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| condition["status"] == "True")
}

/// Sets a condition at its place among the others, at the end if it is new. `now` (RFC 3339) becomes its time only if its status changes.
/// Returns whether anything changed.
pub fn set_condition(object: &mut Value, wanted: &Condition<'_>, now: &str) -> bool {
    let status = if wanted.status { "True" } else { "False" };
    let mut next = json!({
        "type": wanted.kind, "status": status, "reason": wanted.reason, "message": wanted.message, "lastTransitionTime": now,
    });
    let list = &mut object["status"]["conditions"];
    if !list.is_array() {
        *list = json!([]);
    }
    let Some(list) = list.as_array_mut() else { return false };
    let Some(known) = list.iter_mut().find(|known| known["type"] == wanted.kind) else {
        list.push(next);
        return true;
    };
    let same = |field: &str| known[field] == next[field];
    if same("status") && same("reason") && same("message") {
        return false;
    }
    if same("status") {
        next["lastTransitionTime"] = known["lastTransitionTime"].clone();
    }
    *known = next;
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A condition keeps its place, and its time as long as its status; what says the same changes nothing.
    #[test]
    fn conditions_are_set() {
        let ready = |status, message| Condition { kind: "Ready", status, reason: "Because", message };
        let mut object = json!({"metadata": {"name": "a"}});
        assert!(set_condition(&mut object, &ready(false, "not yet"), "1"));
        assert!(set_condition(&mut object, &Condition { kind: "Other", ..ready(true, "") }, "1"));
        assert!(!set_condition(&mut object, &ready(false, "not yet"), "2"), "nothing is new");
        assert!(set_condition(&mut object, &ready(false, "soon"), "3"));
        assert_eq!(condition(&object, "Ready").map(|ready| &ready["lastTransitionTime"]), Some(&json!("1")), "the status is the same");
        assert!(!is_condition_true(&object, "Ready"));
        assert!(set_condition(&mut object, &ready(true, "soon"), "4"));
        let wanted = json!({"type": "Ready", "status": "True", "reason": "Because", "message": "soon", "lastTransitionTime": "4"});
        assert_eq!(object["status"]["conditions"][0], wanted, "it stays the first");
        assert!(is_condition_true(&object, "Ready") && !is_condition_true(&object, "Missing"));
    }
}
