//! Mutating webhooks: one after the other, in the order of their configurations' names, each seeing what those before it changed.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use mainstay_merge::patch::{decode_json_patch, json_patch};
use serde_json::Value;

use super::call::{Failure, call, out_of_time, unreachable};
use super::hook::{Configuration, Hook};
use crate::admission::compiled::Compiled;
use crate::admission::matching::{converted, is_exempt};
use crate::admission::review::{View, is_own_kind, is_scale};
use crate::admission::{AdmissionStep, Request};
use crate::error::{ApiError, Result};
use crate::options::FieldValidation;
use crate::rest::scale;
use crate::served::Served;
use crate::{negotiate, strategy};

/// The plugin.
pub struct MutatingAdmissionWebhook(Compiled<Configuration>);

impl Default for MutatingAdmissionWebhook {
    fn default() -> Self {
        Self(Compiled::new("admissionregistration.k8s.io/mutatingwebhookconfigurations", Configuration::compile))
    }
}

/// The time that the request itself gives, where it does (`?timeout=10s`).
pub(super) fn asked_time(request: &Request<'_>) -> Option<Duration> {
    let text = request.context.query.text("timeout")?;
    let (number, unit) = text.split_at(text.find(|letter: char| letter.is_ascii_alphabetic())?);
    let number: u64 = number.parse().ok()?;
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_secs(number.saturating_mul(60))),
        _ => None,
    }
}

#[async_trait]
impl AdmissionStep for MutatingAdmissionWebhook {
    async fn mutate(&self, request: &Request<'_>, object: &mut Value) -> Result<()> {
        let configurations = self.0.all(&request.context.api.cache);
        if configurations.is_empty() || is_exempt(request) {
            return Ok(());
        }
        let state = &request.reinvocation;
        if let Some(limit) = asked_time(request) {
            state.limit(limit);
        }
        state.enter(object);
        for hook in configurations.iter().flat_map(|(_, configuration)| &configuration.hooks) {
            if !state.asks(&hook.id) {
                continue;
            }
            let changed = ask(request, hook, object).await?;
            if let Some(changed) = changed {
                state.asked(&hook.id, changed, hook.reinvoked);
            }
        }
        state.leave(object);
        Ok(())
    }

    async fn validate(&self, request: &Request<'_>, object: Option<&Value>) -> Result<()> {
        // What is deleted cannot be changed, but mutating webhooks are asked about it all the same.
        if object.is_some() {
            return Ok(());
        }
        let configurations = self.0.all(&request.context.api.cache);
        if configurations.is_empty() || is_exempt(request) {
            return Ok(());
        }
        for hook in configurations.iter().flat_map(|(_, configuration)| &configuration.hooks) {
            let Some(view) = hook.view(request, None).await? else { continue };
            if settle(request, hook, call(request, hook, &view, true).await)?.flatten().is_some() {
                return Err(unmodifiable(hook));
            }
        }
        Ok(())
    }
}

fn unmodifiable(hook: &Hook) -> ApiError {
    let name = &hook.name;
    ApiError::internal(format!("admission webhook {name:?} attempted to modify the object, which is not supported for this operation"))
}

/// What a call came to; `None` when it failed and that does not matter.
pub(super) fn settle<T>(request: &Request<'_>, hook: &Hook, outcome: Result<T, Failure>) -> Result<Option<T>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(Failure::Refused(refusal)) => Err(refusal),
        Err(Failure::Calling(why)) if hook.ignores_failures => {
            tracing::warn!(webhook = hook.name, why, "failed calling webhook, failing open");
            if Instant::now() >= request.reinvocation.deadline() {
                return Err(out_of_time());
            }
            Ok(None)
        }
        Err(Failure::Calling(why)) => Err(unreachable(hook, &why)),
    }
}

/// Asks one webhook; says whether it changed the object, or `None` when it is not its business.
async fn ask(request: &Request<'_>, hook: &Hook, object: &mut Value) -> Result<Option<bool>> {
    let mut patched = None;
    {
        let Some(view) = hook.view(request, Some(object)).await? else { return Ok(None) };
        let Some(Some(patch)) = settle(request, hook, call(request, hook, &view, true).await)? else { return Ok(Some(false)) };
        let failed = |error: &dyn std::fmt::Display| Failure::Calling(format!("received undecodable patch in webhook response: {error}"));
        let operations = decode_json_patch(&patch).map_err(|error| failed(&error));
        let Some(operations) = settle(request, hook, operations)? else { return Ok(Some(false)) };
        if !operations.is_empty() {
            let mut new = view.object.as_deref().cloned().unwrap_or(Value::Null);
            json_patch(&mut new, &operations).map_err(|error| ApiError::internal(error.to_string()))?;
            patched = Some(finish(request, &view, object, new).await?);
        }
    }
    let Some(patched) = patched else { return Ok(Some(false)) };
    let changed = patched != *object;
    *object = patched;
    Ok(Some(changed))
}

/// A patched object as the request writes it: read like any body, defaulted, in the request's own version.
async fn finish(request: &Request<'_>, view: &View<'_>, object: &Value, new: Value) -> Result<Value> {
    if is_scale(request) {
        let mut parent = object.clone();
        scale::rescale(request.served, &mut parent, &new);
        return Ok(parent);
    }
    if !is_own_kind(request) {
        return Ok(new);
    }
    let read = |served: &Served, value: &Value| -> Result<Value> {
        let bytes = serde_json::to_vec(value).map_err(|error| ApiError::internal(error.to_string()))?;
        let decoded = negotiate::decode_as(&bytes, &served.facts.kind, false)?;
        let mut value = strategy::decode(request.context, served, &served.gvk(), decoded, FieldValidation::Ignore)?;
        strategy::default(served, &mut value);
        Ok(value)
    };
    let new = read(&view.served, &new)?;
    if view.served.facts.gvk() == request.served.facts.gvk() {
        return Ok(new);
    }
    converted(new, request.served).await
}
