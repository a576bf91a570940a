//! Escalation prevention: users cannot grant permissions that they do not hold.
//!
//! The API server refuses by this answer, and the permission preflight predicts the server's refusal with it.

use std::collections::BTreeSet;

use mainstay_golang::{quote, quoted_list};
use serde_json::Value;

use crate::authorize::{aggregate, authorize};
use crate::{
    Attributes, Binding, Error, PolicyRule, RBAC_GROUP, RoleView, UserInfo, compact, compact_string, covers, parse_rules, rules_for,
};

/// The rules of `wanted` that the user lacks in the namespace, atom by atom, and the unresolved references found on the way.
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

/// The message that lists the permissions that the user would grant without holding them.
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

/// The reason why a user may not write a role or binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The write would grant these rules, atom by atom, which the user does not hold; the errors are of references found on the way.
    NotHeld {
        /// The rules.
        missing: Vec<PolicyRule>,
        /// References that could not be resolved.
        errors: Vec<Error>,
    },
    /// The role gathers the rules of other roles, which may be anything; these rules of an administrator are missing.
    Gathers {
        /// The rules.
        missing: Vec<PolicyRule>,
        /// References that could not be resolved.
        errors: Vec<Error>,
    },
}

impl Refusal {
    /// The server's message.
    pub fn message(&self, user: &UserInfo) -> String {
        match self {
            Self::NotHeld { missing, errors } => escalation_message(user, missing, errors),
            Self::Gathers { .. } => "must have cluster-admin privileges to use the aggregationRule".to_owned(),
        }
    }

    /// The rules that are missing, and the references that could not be resolved.
    pub fn into_parts(self) -> (Vec<PolicyRule>, Vec<Error>) {
        match self {
            Self::NotHeld { missing, errors } | Self::Gathers { missing, errors } => (missing, errors),
        }
    }
}

/// A write of a Role or ClusterRole, as the authorizer sees it.
#[derive(Debug, Clone, Copy)]
pub struct RoleWrite<'a> {
    /// `roles` or `clusterroles`.
    pub resource: &'a str,
    /// The name in the path of the request. It is empty for a POST: a permission to `escalate` named roles does not cover a POST.
    pub request_name: &'a str,
    /// The role that is to be written.
    pub new: &'a Value,
    /// The previous role, for updates.
    pub old: Option<&'a Value>,
}

/// The reasons why the user may not write the role, in the order in which the server checks; it answers with the first. A role that is or was
/// aggregated needs every permission, because the user who sets its selectors can gather anything. `escalate` on the role makes all of this
/// unnecessary.
pub fn role_refusals<V: RoleView + ?Sized>(view: &V, user: &UserInfo, write: RoleWrite<'_>) -> Result<Vec<Refusal>, Error> {
    let RoleWrite { resource, request_name, new, old } = write;
    let namespace = new.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
    let escalate = Attributes::resource(user.clone(), "escalate", namespace, RBAC_GROUP, resource, request_name);
    if authorize(view, &escalate).allowed {
        return Ok(Vec::new());
    }
    let mut refusals = Vec::new();
    if let Err((missing, errors)) = confirm_no_escalation(view, user, namespace, &parse_rules(new)?) {
        refusals.push(Refusal::NotHeld { missing, errors });
    }
    if has_aggregation_rule(new) || old.is_some_and(has_aggregation_rule) {
        let everything = [PolicyRule::resources(&["*"], &["*"], &["*"]), PolicyRule::urls(&["*"], &["*"])];
        if let Err((missing, errors)) = confirm_no_escalation(view, user, namespace, &everything) {
            refusals.push(Refusal::Gathers { missing, errors });
        }
    }
    Ok(refusals)
}

/// The reason why the user may not write the binding. `roles` has the role that it refers to, `view` the permissions of the user. A server
/// uses the same for both; a plan also looks for the role among the objects that it will create.
///
/// A role that is not found is an error of its own.
pub fn binding_refusal<V: RoleView + ?Sized, R: RoleView + ?Sized>(
    view: &V,
    roles: &R,
    user: &UserInfo,
    binding: &Binding,
) -> Result<Option<Refusal>, Error> {
    let Binding { namespace, role_ref, .. } = binding;
    let resource = if role_ref.kind == "ClusterRole" { "clusterroles" } else { "roles" };
    let bind = Attributes::resource(user.clone(), "bind", namespace, &role_ref.api_group, resource, &role_ref.name);
    if authorize(view, &bind).allowed {
        return Ok(None);
    }
    let wanted = roles.referenced(role_ref, namespace)?;
    let refused = confirm_no_escalation(view, user, namespace, &wanted).err();
    Ok(refused.map(|(missing, errors)| Refusal::NotHeld { missing, errors }))
}

/// Returns whether a ClusterRole takes its rules from others.
pub(crate) fn has_aggregation_rule(role: &Value) -> bool {
    role.get("aggregationRule").is_some_and(|rule| !rule.is_null())
}
