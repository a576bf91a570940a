//! PodSecurity: pods keep to the standard that their namespace's labels name; who writes templates of pods is warned, and auditors are told.

use async_trait::async_trait;
use mainstay_kinds::pod_security::{Level, Policy, evaluate, is_significant_update, namespace_warnings, template};
use serde_json::Value;

use super::audit::NoteKind;
use super::step::{AdmissionStep, Operation, Request};
use crate::error::{ApiError, Result};

/// The step.
pub struct PodSecurity;

/// Subresources that do not change what a pod may do.
const IGNORED: [&str; 8] = ["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"];

#[async_trait]
impl AdmissionStep for PodSecurity {
    async fn validate(&self, request: &Request<'_>, object: Option<&Value>) -> Result<()> {
        let Some(object) = object.filter(|_| request.operation != Operation::Delete) else { return Ok(()) };
        let facts = &request.served.facts;
        match (facts.group.as_str(), facts.plural.as_str(), request.subresource) {
            ("", "namespaces", "") => namespace(request, object),
            ("", "pods", sub) if !IGNORED.contains(&sub) => pod(request, object).await,
            (group, plural, "") => match template(group, plural, object) {
                Some(template) => {
                    let policy = policy(request).await?;
                    audit(request, &policy, template);
                    warn(request, &policy, template);
                    Ok(())
                }
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

/// The policy of the namespace; labels that cannot be read were refused when they were written.
async fn policy(request: &Request<'_>) -> Result<Policy> {
    let namespace = request.find("", "namespaces", "", &request.namespace).await?;
    Ok(Policy::of(&namespace.unwrap_or_default()).0)
}

async fn pod(request: &Request<'_>, pod: &Value) -> Result<()> {
    if request.operation == Operation::Update && request.old.is_some_and(|old| !is_significant_update(pod, old)) {
        return Ok(());
    }
    let policy = policy(request).await?;
    request.annotate(NoteKind::Routine, "pod-security.kubernetes.io/enforce-policy", &policy.enforce.to_string());
    audit(request, &policy, pod);
    let violations = evaluate(policy.enforce, pod);
    if !violations.is_empty() {
        return Err(request.forbidden(format!("violates PodSecurity \"{}\": {violations}", policy.enforce)));
    }
    warn(request, &policy, pod);
    Ok(())
}

fn audit(request: &Request<'_>, policy: &Policy, pod: &Value) {
    if policy.audit.level != Level::Privileged {
        let violations = evaluate(policy.audit, pod);
        if !violations.is_empty() {
            let words = format!("would violate PodSecurity \"{}\": {violations}", policy.audit);
            request.annotate(NoteKind::Finding, "pod-security.kubernetes.io/audit-violations", &words);
        }
    }
}

fn warn(request: &Request<'_>, policy: &Policy, pod: &Value) {
    if policy.warn.level != Level::Privileged {
        let violations = evaluate(policy.warn, pod);
        if !violations.is_empty() {
            request.api_request.warn(format!("would violate PodSecurity \"{}\": {violations}", policy.warn));
        }
    }
}

/// Labels of a namespace must say something; where they become stricter, the pods that are there are looked at.
fn namespace(request: &Request<'_>, new: &Value) -> Result<()> {
    let (policy, errors) = Policy::of(new);
    let (before, old_errors) = request.old.map_or_else(|| Policy::of(&Value::Null), Policy::of);
    if !errors.is_empty() && errors != old_errors {
        return Err(ApiError::invalid_fields("", "Namespace", &request.name, &errors));
    }
    if request.operation == Operation::Update && policy != before {
        let pods = request.list("", "pods", &request.name)?;
        for warning in namespace_warnings(&request.name, &policy, &before, || pods) {
            request.api_request.warn(warning);
        }
    }
    Ok(())
}
