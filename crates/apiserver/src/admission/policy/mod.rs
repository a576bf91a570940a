//! ValidatingAdmissionPolicy (KAPI-ADM-02): expressions that refuse, warn or leave a note, bound to namespaces and parameters.
//!
//! ```text
//!   policies × their bindings ── matching ── params ── compile::Policy::validate ── Decision ── Deny | Warn | Audit
//! ```

mod compile;
mod params;
mod typecheck;

use std::borrow::Cow;

use async_trait::async_trait;
use http::StatusCode;
use serde::Serialize;
use serde_json::Value;

use self::compile::{Annotation, Decision, Policy, Verdict};
use super::audit::NoteKind;
use super::compiled::Compiled;
use super::expressions;
use super::matching::{Matching, is_exempt};
use super::review::View;
use super::step::{AdmissionStep, Request};
use crate::error::{ApiError, Cause, Result};

pub use typecheck::type_checking;

/// The plugin.
pub struct ValidatingAdmissionPolicy {
    policies: Compiled<Policy>,
    bindings: Compiled<Binding>,
}

impl Default for ValidatingAdmissionPolicy {
    fn default() -> Self {
        Self {
            policies: Compiled::new("admissionregistration.k8s.io/validatingadmissionpolicies", Policy::compile),
            bindings: Compiled::new("admissionregistration.k8s.io/validatingadmissionpolicybindings", Binding::compile),
        }
    }
}

/// The scope in which a policy is in force, its parameters, and what follows.
struct Binding {
    name: String,
    policy: String,
    matching: Option<Matching>,
    params: Option<params::Reference>,
    /// `validationActions`: what follows when a validation fails.
    actions: Vec<Action>,
}

/// An action that follows when a validation fails.
#[derive(Clone, Copy, Debug, Serialize)]
enum Action {
    Deny,
    Warn,
    Audit,
}

impl Action {
    fn parse(text: &Value) -> Option<Self> {
        match text.as_str()? {
            "Deny" => Some(Self::Deny),
            "Warn" => Some(Self::Warn),
            "Audit" => Some(Self::Audit),
            _ => None,
        }
    }
}

impl Binding {
    fn compile(object: &Value) -> Self {
        let spec = &object["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Self {
            name: text(&object["metadata"]["name"]),
            policy: text(&spec["policyName"]),
            matching: spec.get("matchResources").filter(|resources| resources.is_object()).map(Matching::of_resources),
            params: spec.get("paramRef").filter(|reference| reference.is_object()).map(params::Reference::read),
            actions: spec["validationActions"].as_array().into_iter().flatten().filter_map(Action::parse).collect(),
        }
    }
}

/// A refusal, with whom it came from.
struct Denial {
    policy: String,
    binding: Option<String>,
    reason: Option<String>,
    message: String,
}

#[async_trait]
impl AdmissionStep for ValidatingAdmissionPolicy {
    async fn validate(&self, request: &Request<'_>, object: Option<&Value>) -> Result<()> {
        let lookup = &**request.lookup;
        let policies = self.policies.all(lookup);
        if policies.is_empty() || is_exempt(request) {
            return Ok(());
        }
        let bindings = self.bindings.all(lookup);
        let mut denials = Vec::new();
        for (_, policy) in policies.iter() {
            let own: Vec<&Binding> =
                bindings.iter().map(|(_, binding)| &**binding).filter(|binding| binding.policy == policy.name).collect();
            if !own.is_empty() {
                judge(request, object, policy, &own, &mut denials).await?;
            }
        }
        match denials.into_iter().next() {
            None => Ok(()),
            Some(first) => Err(refusal(request, first)),
        }
    }
}

/// One policy with all its bindings.
async fn judge(
    request: &Request<'_>,
    object: Option<&Value>,
    policy: &Policy,
    bindings: &[&Binding],
    denials: &mut Vec<Denial>,
) -> Result<()> {
    let misconfigured = |binding: Option<&Binding>, error: &dyn std::fmt::Display| {
        let what = if binding.is_some() { "binding" } else { "policy" };
        (!policy.ignores_failures).then(|| Denial {
            policy: policy.name.clone(),
            binding: binding.map(|binding| binding.name.clone()),
            reason: None,
            message: format!("failed to configure {what}: {error}"),
        })
    };
    let served = match policy.matching.matches(request, object).await {
        Ok(Some(served)) => served,
        Ok(None) => return Ok(()),
        Err(error) => {
            denials.extend(misconfigured(None, &error));
            return Ok(());
        }
    };
    let mut view: Option<View<'_>> = None;
    let mut published: Vec<(String, Vec<String>)> = Vec::new();
    for binding in bindings.iter().copied() {
        match &binding.matching {
            None => {}
            Some(matching) => match matching.matches(request, object).await {
                Ok(Some(_)) => {}
                Ok(None) => continue,
                Err(error) => {
                    denials.extend(misconfigured(Some(binding), &error));
                    continue;
                }
            },
        }
        let params = match params::collect(request, policy.params.as_ref(), binding.params.as_ref()).await {
            Ok(params) => params,
            Err(error) => {
                denials.extend(misconfigured(Some(binding), &error));
                continue;
            }
        };
        if params.is_empty() {
            continue;
        }
        let view = match &view {
            Some(view) => view,
            None => match View::new(request, served.clone(), object).await {
                Ok(made) => &*view.insert(made),
                Err(error) => {
                    denials.extend(misconfigured(Some(binding), &format!("failed to convert object version: {error}")));
                    continue;
                }
            },
        };
        let namespace = namespace(request).await?;
        let shared = expressions::activation(request, view, namespace.as_ref());
        for param in &params {
            let verdict = policy.validate(&shared, param.as_ref());
            follow(request, policy, binding, verdict, denials, &mut published);
        }
    }
    for (key, values) in published {
        request.annotate(NoteKind::Finding, &format!("{}/{key}", policy.name), &values.join(", "));
    }
    Ok(())
}

/// Carries out a verdict by the binding's actions.
fn follow(
    request: &Request<'_>,
    policy: &Policy,
    binding: &Binding,
    verdict: Verdict,
    denials: &mut Vec<Denial>,
    published: &mut Vec<(String, Vec<String>)>,
) {
    let denial = |decision: &Decision| Denial {
        policy: policy.name.clone(),
        binding: Some(binding.name.clone()),
        reason: decision.reason.clone(),
        message: decision.message.clone(),
    };
    for decision in &verdict.denials {
        for action in &binding.actions {
            match action {
                Action::Deny => denials.push(denial(decision)),
                Action::Audit => note(request, binding, decision),
                Action::Warn => {
                    let (policy, binding, message) = (&policy.name, &binding.name, &decision.message);
                    let words = format!("Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding}': {message}");
                    request.api_request.warn(words);
                }
            }
        }
    }
    for annotation in verdict.annotations {
        match annotation {
            Annotation::Publish { key, value } => match published.iter_mut().find(|(known, _)| *known == key) {
                Some((_, values)) if values.contains(&value) => {}
                Some((_, values)) => values.push(value),
                None => published.push((key, vec![value])),
            },
            Annotation::Fail(message) => denials.push(denial(&Decision { index: 0, reason: None, message })),
        }
    }
}

/// A failed validation as it is noted for auditors. The order of the fields is part of the text.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ValidationFailure<'a> {
    message: &'a str,
    policy: &'a str,
    binding: &'a str,
    expression_index: usize,
    validation_actions: &'a [Action],
}

/// Notes a failed validation for auditors; the first of a request stays.
fn note(request: &Request<'_>, binding: &Binding, decision: &Decision) {
    let failure = ValidationFailure {
        message: &decision.message,
        policy: &binding.policy,
        binding: &binding.name,
        expression_index: decision.index,
        validation_actions: &binding.actions,
    };
    match serde_json::to_string(&[failure]) {
        Ok(text) => request.annotate(NoteKind::Finding, "validation.policy.admission.k8s.io/validation_failure", &text),
        Err(error) => tracing::warn!(target: "audit", policy = binding.policy, %error, "a failed validation cannot be written"),
    }
}

/// The namespace of what is written; a namespace itself has none.
async fn namespace(request: &Request<'_>) -> Result<Option<Value>> {
    if request.namespace.is_empty() || request.served.is("", "namespaces") {
        return Ok(None);
    }
    let found = request.find("", "namespaces", "", &request.namespace).await?;
    let found = found.ok_or_else(|| ApiError::not_found("", "namespaces", &request.namespace))?;
    Ok(Some(expressions::namespace_object(found)))
}

fn refusal(request: &Request<'_>, denial: Denial) -> ApiError {
    let (policy, message) = (&denial.policy, &denial.message);
    let words = match &denial.binding {
        Some(binding) => format!("ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {message}"),
        None => format!("ValidatingAdmissionPolicy '{policy}' denied request: {message}"),
    };
    let reason = denial.reason.unwrap_or_else(|| "Invalid".to_owned());
    let code = match reason.as_str() {
        "Forbidden" => StatusCode::FORBIDDEN,
        "Unauthorized" => StatusCode::UNAUTHORIZED,
        "RequestEntityTooLarge" => StatusCode::PAYLOAD_TOO_LARGE,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    };
    let cause = Cause { message: words.clone(), ..Cause::default() };
    ApiError { code, reason: Cow::Owned(reason), ..request.forbidden(words) }.cause(cause)
}
