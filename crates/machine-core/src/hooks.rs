//! Lifecycle hooks: what they may be, when they may change, and the conditions that they cause (MACH-HOOK-01 to MACH-HOOK-04, MACH-API-06).

use std::fmt;

use mainstay_schema::field::{Error, Path};
use serde_json::{Value, json};

use crate::condition::{Condition, Severity};

/// Condition that says whether the node may be drained.
pub const DRAINABLE: &str = "Drainable";
/// Condition that says whether the instance may be removed.
pub const TERMINABLE: &str = "Terminable";
const HOOK_PRESENT: &str = "HookPresent";

const NAME_LENGTH: (usize, usize) = (3, 256);
const OWNER_LENGTH: (usize, usize) = (3, 512);
const NAME_PATTERN: &str =
    "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

/// One hook.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LifecycleHook {
    /// Its name, unique within its list.
    pub name: String,
    /// The controller that will remove it.
    pub owner: String,
}

impl fmt::Display for LifecycleHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{Name:{} Owner:{}}}", self.name, self.owner)
    }
}

/// The hooks of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LifecycleHooks {
    /// Hooks that hold up the drain.
    pub pre_drain: Vec<LifecycleHook>,
    /// Hooks that hold up the removal of the instance.
    pub pre_terminate: Vec<LifecycleHook>,
}

/// The stage that a hook holds up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The drain.
    PreDrain,
    /// The removal of the instance.
    PreTerminate,
}

impl Stage {
    /// Both, in the order of a deletion.
    pub const ALL: [Self; 2] = [Self::PreDrain, Self::PreTerminate];

    /// Returns the name of the list in the object.
    pub fn field(self) -> &'static str {
        match self {
            Self::PreDrain => "preDrain",
            Self::PreTerminate => "preTerminate",
        }
    }

    fn in_words(self) -> &'static str {
        match self {
            Self::PreDrain => "pre-drain",
            Self::PreTerminate => "pre-terminate",
        }
    }

    fn condition(self) -> (&'static str, &'static str) {
        match self {
            Self::PreDrain => (DRAINABLE, "Drain"),
            Self::PreTerminate => (TERMINABLE, "Terminate"),
        }
    }

    fn path(self) -> Path {
        Path::new("spec").children(&["lifecycleHooks", self.field()])
    }
}

impl LifecycleHooks {
    /// Reads `spec.lifecycleHooks`; what is no text counts as empty, so that a hook that cannot be read still holds up.
    pub fn of(value: &Value) -> Self {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let list = |stage: Stage| {
            let hooks = value.get(stage.field()).and_then(Value::as_array).into_iter().flatten();
            hooks.map(|hook| LifecycleHook { name: text(hook.get("name")), owner: text(hook.get("owner")) }).collect()
        };
        Self { pre_drain: list(Stage::PreDrain), pre_terminate: list(Stage::PreTerminate) }
    }

    /// Returns the hooks of a stage.
    pub fn at(&self, stage: Stage) -> &[LifecycleHook] {
        match stage {
            Stage::PreDrain => &self.pre_drain,
            Stage::PreTerminate => &self.pre_terminate,
        }
    }

    /// Returns the conditions Drainable and Terminable, which every machine has, deleted or not.
    pub fn conditions(&self) -> [Condition; 2] {
        Stage::ALL.map(|stage| {
            let (kind, operation) = stage.condition();
            match self.at(stage) {
                [] => Condition::is_true(kind, ""),
                hooks => {
                    let message = format!("{operation} operation currently blocked by: {}", listed(hooks));
                    Condition::is_false(kind, HOOK_PRESENT, Severity::Warning, message)
                }
            }
        })
    }

    /// Returns what is wrong with names and owners, in the API server's words (MACH-HOOK-02, MACH-HOOK-03).
    pub fn validate(&self) -> Vec<Error> {
        Stage::ALL.into_iter().flat_map(|stage| validate(stage, self.at(stage))).collect()
    }

    /// Returns why hooks may not become these ones: once deletion was asked for they may only be removed (MACH-HOOK-04).
    pub fn validate_change(&self, to: &Self, deleting: bool) -> Vec<Error> {
        let refused = |stage: Stage| {
            let known = self.at(stage);
            // Of several hooks of a name the last one counts.
            let is_new = |hook: &&LifecycleHook| known.iter().rfind(|old| old.name == hook.name) != Some(*hook);
            let changed: Vec<LifecycleHook> = to.at(stage).iter().filter(is_new).cloned().collect();
            let words = stage.in_words();
            let detail = format!(
                "{words} hooks are immutable when machine is marked for deletion: the following hooks are new or changed: {}",
                listed(&changed)
            );
            (!changed.is_empty()).then(|| Error::forbidden(&stage.path(), detail))
        };
        if deleting { Stage::ALL.into_iter().filter_map(refused).collect() } else { Vec::new() }
    }
}

fn listed(hooks: &[LifecycleHook]) -> String {
    let hooks: Vec<String> = hooks.iter().map(LifecycleHook::to_string).collect();
    format!("[{}]", hooks.join(" "))
}

fn validate(stage: Stage, hooks: &[LifecycleHook]) -> Vec<Error> {
    let mut errors = Vec::new();
    for (index, hook) in hooks.iter().enumerate() {
        let path = stage.path().index(index);
        if hooks[..index].iter().any(|earlier| earlier.name == hook.name) {
            errors.push(Error::duplicate(&path, json!({"name": hook.name})));
        }
        let name = path.child("name");
        errors.extend(length(&name, &hook.name, NAME_LENGTH));
        if !is_hook_name(&hook.name) {
            errors.push(Error::invalid(&name, hook.name.as_str(), format!("{name} in body should match '{NAME_PATTERN}'")));
        }
        errors.extend(length(&path.child("owner"), &hook.owner, OWNER_LENGTH));
    }
    errors
}

fn length(path: &Path, text: &str, (least, most): (usize, usize)) -> Option<Error> {
    let length = text.chars().count();
    if length < least {
        return Some(Error::invalid(path, text, format!("{path} in body should be at least {least} chars long")));
    }
    (length > most).then(|| Error::too_long(path, text, most as u64))
}

/// Returns whether a name has the form of a hook's: a word of letters, digits, `-`, `_` and `.`, behind a DNS name and a slash if any.
fn is_hook_name(name: &str) -> bool {
    let (prefix, word) = match name.split_once('/') {
        Some((prefix, word)) => (Some(prefix), word),
        None => (None, name),
    };
    let bounded = |text: &str, edge: fn(&u8) -> bool, middle: fn(&u8) -> bool| {
        let bytes = text.as_bytes();
        bytes.first().is_some_and(edge) && bytes.last().is_some_and(edge) && bytes.iter().all(|byte| edge(byte) || middle(byte))
    };
    let is_label = |label: &str| bounded(label, |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit(), |byte| *byte == b'-');
    prefix.is_none_or(|prefix| prefix.split('.').all(is_label)) && bounded(word, u8::is_ascii_alphanumeric, |byte| b"-_.".contains(byte))
}
