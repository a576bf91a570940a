//! Reading a ClusterVersion as it is stored. What is absent is empty.

use mainstay_golang::sort_slice;
use mainstay_versions::Version;
use serde_json::Value;

/// A condition, of an object's status or of a conditional update.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Condition<'a>(&'a Value);

impl<'a> Condition<'a> {
    /// Returns the first condition of a type.
    pub fn find(conditions: &'a Value, name: &str) -> Option<Self> {
        conditions.as_array()?.iter().find(|condition| condition["type"] == name).map(Self)
    }

    pub fn status(self) -> &'a str {
        text(&self.0["status"])
    }

    pub fn reason(self) -> &'a str {
        text(&self.0["reason"])
    }

    pub fn message(self) -> &'a str {
        text(&self.0["message"])
    }

    /// The time of the last change of the status; none if it is unset or unreadable.
    pub fn since(self) -> Option<jiff::Timestamp> {
        time(&self.0["lastTransitionTime"])
    }
}

/// Returns a text; empty if there is none.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns a time; none if it is unset or unreadable.
pub(crate) fn time(value: &Value) -> Option<jiff::Timestamp> {
    text(value).parse().ok()
}

/// Returns a list; empty if there is none.
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Sorts by the version that `of` finds, the highest first, and what is no version last, in reverse order of its text (CVO-CLI-13).
pub(crate) fn sort_by_version<T>(items: &mut [T], of: impl Fn(&T) -> &str) {
    sort_slice(items, |left, right| {
        let (left, right) = (of(left), of(right));
        match (Version::parse(left), Version::parse(right)) {
            (Ok(left), Ok(right)) => left > right,
            (Ok(_), Err(_)) => true,
            (Err(_), Ok(_)) => false,
            (Err(_), Err(_)) => left > right,
        }
    });
}

/// Returns the condition that says that a conditional update is not recommended, or not known to be.
pub(crate) fn not_recommended(update: &Value) -> Option<Condition<'_>> {
    Condition::find(&update["conditions"], "Recommended").filter(|condition| condition.status() != "True")
}
