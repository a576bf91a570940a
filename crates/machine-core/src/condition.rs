//! Conditions of Machines, MachineSets and MachineHealthChecks (MACH-API-04).

use jiff::Timestamp;
use mainstay_golang::sort_slice;
use serde_json::Value;

/// The severity of a condition that is not true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// A person must act.
    Error,
    /// It will be tried again.
    Warning,
    /// It is part of the usual course.
    Info,
}

impl Severity {
    /// Returns the value of a condition's `severity`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "Error",
            Self::Warning => "Warning",
            Self::Info => "Info",
        }
    }

    fn of(text: &str) -> Option<Self> {
        [Self::Error, Self::Warning, Self::Info].into_iter().find(|severity| severity.as_str() == text)
    }
}

/// A condition. One that is true has no severity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Its type.
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Its severity, unless it is true.
    pub severity: Option<Severity>,
    /// Its reason.
    pub reason: String,
    /// Its message.
    pub message: String,
    /// When it changed; set by [`set`].
    pub changed: Option<Timestamp>,
}

impl Condition {
    /// Creates a condition that is true.
    pub fn is_true(kind: &str, message: impl Into<String>) -> Self {
        Self {
            kind: kind.to_owned(),
            status: "True".to_owned(),
            severity: None,
            reason: String::new(),
            message: message.into(),
            changed: None,
        }
    }

    /// Creates a condition that is false.
    pub fn is_false(kind: &str, reason: &str, severity: Severity, message: impl Into<String>) -> Self {
        Self {
            kind: kind.to_owned(),
            status: "False".to_owned(),
            severity: Some(severity),
            reason: reason.to_owned(),
            message: message.into(),
            changed: None,
        }
    }

    /// Reads the conditions in an object's status; fields that are missing or of another type count as empty.
    pub fn all_of(object: &Value) -> Vec<Self> {
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
        let text = |condition: &Value, field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        conditions
            .map(|condition| Self {
                kind: text(condition, "type"),
                status: text(condition, "status"),
                severity: Severity::of(&text(condition, "severity")),
                reason: text(condition, "reason"),
                message: text(condition, "message"),
                changed: text(condition, "lastTransitionTime").parse().ok(),
            })
            .collect()
    }

    /// Creates a condition of which nothing is known.
    pub fn unknown(kind: &str, reason: &str, message: impl Into<String>) -> Self {
        Self {
            kind: kind.to_owned(),
            status: "Unknown".to_owned(),
            severity: None,
            reason: reason.to_owned(),
            message: message.into(),
            changed: None,
        }
    }

    /// Returns the condition as an object holds it; what is empty is left out.
    pub fn to_value(&self) -> Value {
        let mut value = serde_json::json!({"type": self.kind, "status": self.status});
        if let Some(changed) = self.changed {
            value["lastTransitionTime"] = Value::String(format!("{changed:.0}"));
        }
        let severity = self.severity.map(Severity::as_str).unwrap_or_default();
        for (field, text) in [("severity", severity), ("reason", &*self.reason), ("message", &*self.message)] {
            if !text.is_empty() {
                value[field] = Value::String(text.to_owned());
            }
        }
        value
    }

    fn says_the_same(&self, other: &Self) -> bool {
        (&self.status, self.severity, &self.reason, &self.message) == (&other.status, other.severity, &other.reason, &other.message)
    }
}

/// Sets a condition in a list, which is sorted by type afterwards. One that says the same keeps its time; any change of status, severity,
/// reason or message is a new time.
pub fn set(conditions: &mut Vec<Condition>, condition: Condition, now: Timestamp) {
    match conditions.iter_mut().find(|one| one.kind == condition.kind) {
        Some(old) if old.says_the_same(&condition) => {}
        Some(old) => *old = Condition { changed: Some(now), ..condition },
        None => conditions.push(Condition { changed: condition.changed.or(Some(now)), ..condition }),
    }
    sort_slice(conditions, |one, other| one.kind < other.kind);
}

/// Returns whether a condition is there and true.
pub fn is_true(conditions: &[Condition], kind: &str) -> bool {
    conditions.iter().find(|condition| condition.kind == kind).is_some_and(|condition| condition.status == "True")
}
