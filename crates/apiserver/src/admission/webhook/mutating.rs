//! Mutating webhooks: one after the other, in the order of their configurations' names, each seeing what those before it changed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use mainstay_merge::patch::json_patch;
use serde::Serialize;
use serde_json::Value;

use super::call::{Failure, call, out_of_time, unreachable};
use super::hook::{Configuration, Hook};
use crate::admission::audit::NoteKind;
use crate::admission::compiled::Compiled;
use crate::admission::matching::{converted, is_exempt};
use crate::admission::review::{View, is_own_kind, is_scale};
use crate::admission::step::{AdmissionStep, Request};
use crate::error::{ApiError, Result};
use crate::remote::Remotes;
use crate::request::negotiate;
use crate::request::options::{self, FieldValidation};
use crate::served::Served;
use crate::{scale, strategy};

/// The plugin.
pub struct MutatingAdmissionWebhook {
    configurations: Compiled<Configuration>,
    remotes: Arc<Remotes>,
}

impl MutatingAdmissionWebhook {
    /// The plugin; webhooks are called through `remotes`.
    pub fn new(remotes: Arc<Remotes>) -> Self {
        Self {
            configurations: Compiled::new("admissionregistration.k8s.io/mutatingwebhookconfigurations", Configuration::compile),
            remotes,
        }
    }
}

/// The time that the request has (`?timeout=10s`).
pub(super) fn patience(request: &Request<'_>) -> Duration {
    // What is no length of time was refused, but for requests that last by nature, whose parameter nobody reads.
    options::timeout(&request.api_request.query).unwrap_or(options::LONGEST)
}

#[async_trait]
impl AdmissionStep for MutatingAdmissionWebhook {
    async fn mutate(&self, request: &Request<'_>, object: &mut Value) -> Result<()> {
        let configurations = self.configurations.all(&**request.lookup);
        if configurations.is_empty() || is_exempt(request) {
            return Ok(());
        }
        let state = &request.reinvocation;
        state.limit(patience(request));
        state.enter(object);
        let hooks = configurations.iter().flat_map(|(_, configuration)| &configuration.hooks);
        for (index, hook) in hooks.enumerate().filter(|(_, hook)| state.asks(&hook.id)) {
            if let Some(changed) = ask(&self.remotes, request, hook, index, object).await? {
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
        let configurations = self.configurations.all(&**request.lookup);
        if configurations.is_empty() || is_exempt(request) {
            return Ok(());
        }
        let hooks = configurations.iter().flat_map(|(_, configuration)| &configuration.hooks);
        for (index, hook) in hooks.enumerate() {
            if let Some(view) = hook.view(request, None).await? {
                wanted_operations(&self.remotes, request, hook, index, &view).await?;
            }
        }
        Ok(())
    }
}

/// The outcome of a call; `None` if it failed and that does not matter, which is noted under the key.
pub(super) fn settle<T>(request: &Request<'_>, hook: &Hook, outcome: Result<T, Failure>, failed_open: &str) -> Result<Option<T>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(Failure::Refused(refusal)) => Err(refusal),
        Err(Failure::Calling(why)) if hook.ignores_failures => {
            tracing::warn!(webhook = hook.name, why, "failed calling webhook, failing open");
            request.annotate(NoteKind::Finding, failed_open, &hook.name);
            if Instant::now() >= request.reinvocation.deadline() {
                return Err(out_of_time());
            }
            Ok(None)
        }
        Err(Failure::Calling(why)) => Err(unreachable(hook, &why)),
    }
}

/// Asks one webhook; says whether it changed the object, or `None` when it is not its business.
async fn ask(remotes: &Remotes, request: &Request<'_>, hook: &Hook, index: usize, object: &mut Value) -> Result<Option<bool>> {
    let changed = {
        let Some(view) = hook.view(request, Some(object)).await? else { return Ok(None) };
        let outcome = patched(remotes, request, hook, index, &view, object).await.map(|new| new.filter(|new| new != object));
        let mutated = matches!(outcome, Ok(Some(_)));
        note(request, index, &Mutation { configuration: &hook.configuration, webhook: &hook.name, mutated });
        outcome?
    };
    let is_changed = changed.is_some();
    if let Some(new) = changed {
        *object = new;
    }
    Ok(Some(is_changed))
}

/// The outcome of a webhook, as it is noted for auditors. The order of the fields is part of the text.
#[derive(Serialize)]
struct Mutation<'a> {
    configuration: &'a str,
    webhook: &'a str,
    mutated: bool,
}

fn note(request: &Request<'_>, index: usize, mutation: &Mutation<'_>) {
    let key = place(request, "mutation", index);
    match serde_json::to_string(mutation) {
        Ok(text) => request.annotate(NoteKind::Routine, &key, &text),
        Err(error) => tracing::warn!(target: "audit", annotation = key, %error, "a mutation cannot be written"),
    }
}

/// The key of a note: which webhook of all it is about, in which round.
fn place(request: &Request<'_>, what: &str, index: usize) -> String {
    format!("{what}.webhook.admission.k8s.io/round_{}_index_{index}", request.reinvocation.round())
}

/// The operations that a webhook wants on what it is shown; none where its failure does not matter.
async fn wanted_operations(remotes: &Remotes, request: &Request<'_>, hook: &Hook, index: usize, view: &View<'_>) -> Result<Vec<Value>> {
    let outcome = call(remotes, request, hook, view, true).await;
    let operations = outcome.and_then(|patch| patch.map_or_else(|| Ok(Vec::new()), |patch| patch.operations(hook, view.object.is_some())));
    Ok(settle(request, hook, operations, &place(request, "failed-open.mutation", index))?.unwrap_or_default())
}

/// The object as a webhook wants it, where it wants anything.
async fn patched(
    remotes: &Remotes,
    request: &Request<'_>,
    hook: &Hook,
    index: usize,
    view: &View<'_>,
    object: &Value,
) -> Result<Option<Value>> {
    let operations = wanted_operations(remotes, request, hook, index, view).await?;
    if operations.is_empty() {
        return Ok(None);
    }
    let mut new = view.object.as_deref().cloned().unwrap_or(Value::Null);
    json_patch(&mut new, &operations).map_err(|error| ApiError::internal(error.to_string()))?;
    finish(request, view, object, new).await.map(Some)
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
        let mut value = strategy::decode(request.api_request, served, &served.gvk(), decoded, FieldValidation::Ignore)?;
        strategy::default(served, &mut value);
        Ok(value)
    };
    let new = read(&view.served, &new)?;
    if view.served.facts.gvk() == request.served.facts.gvk() {
        return Ok(new);
    }
    converted(new, request.served).await
}
