//! The deprecations of the package, the channel and the bundle that are installed (OLM0-API-18).

use jiff::Timestamp;
use serde_json::Value;

use super::conditions::{Condition, find, remove_condition, set_condition};
use crate::resolve::Deprecations;

/// Sets the conditions of what is deprecated, and their summary. A catalog that does not list the installed CSV changes nothing.
pub(super) fn apply(status: &mut Value, spec: &Value, deprecations: Option<&Deprecations>, now: Timestamp) {
    let Some(deprecations) = deprecations else { return };
    // Without a channel in the spec it is not the user's choice that is deprecated.
    let channel = deprecations.channel.as_ref().filter(|_| spec["channel"].as_str().is_some_and(|channel| !channel.is_empty()));
    let all = [
        ("PackageDeprecated", deprecations.package.as_ref()),
        ("ChannelDeprecated", channel),
        ("BundleDeprecated", deprecations.bundle.as_ref()),
    ];
    let was_deprecated = all.iter().any(|(kind, _)| find(status, kind).is_some());
    for (kind, message) in all {
        match message {
            Some(message) => set_condition(status, &Condition { kind, reason: "", message, holds: true }, now),
            None => remove_condition(status, kind),
        }
    }
    let messages: Vec<&str> = all.iter().filter_map(|(_, message)| message.map(String::as_str)).collect();
    if messages.is_empty() {
        if was_deprecated {
            remove_condition(status, "Deprecated");
        }
    } else {
        set_condition(status, &Condition { kind: "Deprecated", reason: "", message: &messages.join("; "), holds: true }, now);
    }
}
