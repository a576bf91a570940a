//! The authorization decision: bindings, the roles behind them, and their rules, in upstream's order and words.

use std::fmt::Write as _;

use mainstay_golang::quote;

use crate::{Attributes, Binding, Error, PolicyRule, RoleView, Subject, UserInfo};

/// The answer to one question.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    /// True if the request is allowed.
    pub allowed: bool,
    /// The binding that allowed it, or the roles that were not found; often empty when denied.
    pub reason: String,
}

/// The rules that hold for a user, and the references that could not be resolved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GrantedRules {
    /// Rules of cluster bindings, then those of the namespace's bindings.
    pub rules: Vec<PolicyRule>,
    /// References to roles that were not found; the rules are complete apart from them.
    pub errors: Vec<Error>,
}

/// Decides whether the rules allow the request. Members of `system:masters` are allowed without any rule.
pub fn authorize<V: RoleView + ?Sized>(view: &V, request: &Attributes) -> Decision {
    if request.user.is_master() {
        return Decision { allowed: true, reason: String::new() };
    }
    let mut allowed_by = None;
    let mut errors = Vec::new();
    visit(view, &request.user, &request.namespace, &mut |binding, subject, found| match found {
        Ok(rules) => {
            if rules.iter().any(|rule| rule.allows(request)) {
                allowed_by = Some(describe(binding, subject));
                return false;
            }
            true
        }
        Err(error) => {
            errors.push(error);
            true
        }
    });
    match allowed_by {
        Some(source) => Decision { allowed: true, reason: format!("RBAC: allowed by {source}") },
        None if errors.is_empty() => Decision::default(),
        None => Decision { allowed: false, reason: format!("RBAC: {}", aggregate(&errors)) },
    }
}

/// Every rule that holds for the user in the namespace (empty for the cluster scope).
pub fn rules_for<V: RoleView + ?Sized>(view: &V, user: &UserInfo, namespace: &str) -> GrantedRules {
    let mut granted = GrantedRules::default();
    visit(view, user, namespace, &mut |_, _, found| {
        match found {
            Ok(rules) => granted.rules.extend_from_slice(rules),
            Err(error) => granted.errors.push(error),
        }
        true
    });
    granted
}

/// The text of a 403 response, which people and programs parse.
pub fn forbidden_message(request: &Attributes, reason: &str) -> String {
    let user = quote(&request.user.name);
    let mut text = String::new();
    if request.resource_request {
        if !request.resource.is_empty() || !request.api_group.is_empty() {
            text.push_str(&group_resource(&request.api_group, &request.resource));
            if !request.name.is_empty() {
                let _ = write!(text, " {}", quote(&request.name));
            }
            text.push_str(" is ");
        }
        let resource =
            if request.subresource.is_empty() { request.resource.clone() } else { format!("{}/{}", request.resource, request.subresource) };
        let _ = write!(
            text,
            "forbidden: User {user} cannot {} resource {} in API group {}",
            request.verb,
            quote(&resource),
            quote(&request.api_group)
        );
        if request.namespace.is_empty() {
            text.push_str(" at the cluster scope");
        } else {
            let _ = write!(text, " in the namespace {}", quote(&request.namespace));
        }
    } else {
        let _ = write!(text, "forbidden: User {user} cannot {} path {}", request.verb, quote(&request.path));
    }
    if !reason.is_empty() {
        let _ = write!(text, ": {reason}");
    }
    text
}

/// A resource with its group in the form of messages: `deployments.apps`, `pods`.
pub fn group_resource(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

/// Several errors in the form of upstream's aggregates.
pub(crate) fn aggregate(errors: &[Error]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for error in errors {
        let text = error.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    if texts.len() == 1 { texts.remove(0) } else { format!("[{}]", texts.join(", ")) }
}

type Visitor<'a> = dyn FnMut(&Binding, &Subject, Result<&[PolicyRule], Error>) -> bool + 'a;

fn visit<V: RoleView + ?Sized>(view: &V, user: &UserInfo, namespace: &str, visitor: &mut Visitor<'_>) {
    let mut visit_bindings = |bindings: &[std::sync::Arc<Binding>], scope: &str| -> bool {
        for binding in bindings {
            let Some(subject) = binding.subjects.iter().find(|s| s.applies_to(user, scope)) else { continue };
            let go_on = match view.referenced(&binding.role_ref, scope) {
                Ok(rules) => visitor(binding, subject, Ok(&rules)),
                Err(error) => visitor(binding, subject, Err(error)),
            };
            if !go_on {
                return false;
            }
        }
        true
    };
    if visit_bindings(&view.cluster_role_bindings_of(user), "") && !namespace.is_empty() {
        visit_bindings(&view.role_bindings(namespace), namespace);
    }
}

fn describe(binding: &Binding, subject: &Subject) -> String {
    let (kind, name) = if binding.namespace.is_empty() {
        ("ClusterRoleBinding", binding.name.clone())
    } else {
        ("RoleBinding", format!("{}/{}", binding.name, binding.namespace))
    };
    format!(
        "{kind} {} of {} {} to {}",
        quote(&name),
        binding.role_ref.kind,
        quote(&binding.role_ref.name),
        subject.describe(&binding.namespace)
    )
}
