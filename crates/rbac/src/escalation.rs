//! Escalation prevention: nobody grants what they do not hold.
//!
//! Who calls this has already asked whether the user holds the verb `escalate` (on the role) or `bind` (on the referenced role);
//! these functions answer for everybody else.

use std::collections::BTreeSet;

use mainstay_golang::{quote, quoted_list};
use serde_json::Value;

use crate::authorize::aggregate;
use crate::{Error, PolicyRule, RoleRef, RoleView, UserInfo, compact, compact_string, covers, parse_rules, rules_for};

/// The rules of `wanted` that the user lacks in the namespace, atom by atom, and unresolved references met on the way.
pub fn confirm_no_escalation<V: RoleView + ?Sized>(
    view: &V,
    user: &UserInfo,
    namespace: &str,
    wanted: &[PolicyRule],
) -> Result<(), (Vec<PolicyRule>, Vec<Error>)> {
    let held = rules_for(view, user, namespace);
    let missing = covers(&held.rules, wanted);
    if missing.is_empty() { Ok(()) } else { Err((missing, held.errors)) }
}

/// The text that lists what the user would grant without holding it.
pub fn escalation_message(user: &UserInfo, missing: &[PolicyRule], errors: &[Error]) -> String {
    let lines: BTreeSet<String> = compact(missing).iter().map(compact_string).collect();
    let lines: Vec<String> = lines.into_iter().collect();
    let mut text = format!(
        "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        quote(&user.name),
        quoted_list(&user.groups),
        lines.join("\n")
    );
    if !errors.is_empty() {
        text.push_str("; resolution errors: [");
        text.push_str(&aggregate(errors));
        text.push(']');
    }
    text
}

/// What the user lacks of a Role or ClusterRole that is to be written, or `None`. A role that is or was aggregated needs every
/// right: who sets its selectors can gather anything.
pub fn role_missing<V: RoleView + ?Sized>(view: &V, user: &UserInfo, role: &Value, old: Option<&Value>) -> Result<Option<String>, Error> {
    let namespace = role.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
    if let Err((missing, errors)) = confirm_no_escalation(view, user, namespace, &parse_rules(role)?) {
        return Ok(Some(escalation_message(user, &missing, &errors)));
    }
    if has_aggregation_rule(role) || old.is_some_and(has_aggregation_rule) {
        let everything = [PolicyRule::resources(&["*"], &["*"], &["*"]), PolicyRule::urls(&["*"], &["*"])];
        if confirm_no_escalation(view, user, namespace, &everything).is_err() {
            return Ok(Some("must have cluster-admin privileges to use the aggregationRule".to_owned()));
        }
    }
    Ok(None)
}

/// What the user lacks of the role behind a binding that is to be written in this namespace (empty for a ClusterRoleBinding).
///
/// A role that does not exist is an error of its own.
pub fn binding_missing<V: RoleView + ?Sized>(
    view: &V,
    user: &UserInfo,
    namespace: &str,
    reference: &RoleRef,
) -> Result<Option<String>, Error> {
    let wanted = view.referenced(reference, namespace)?;
    Ok(confirm_no_escalation(view, user, namespace, &wanted).err().map(|(missing, errors)| escalation_message(user, &missing, &errors)))
}

/// Whether a ClusterRole takes its rules from others.
pub(crate) fn has_aggregation_rule(role: &Value) -> bool {
    role.get("aggregationRule").is_some_and(|rule| !rule.is_null())
}
