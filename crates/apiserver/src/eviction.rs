//! pods/eviction: a deletion that asks the disruption budgets first (KAPI-REST-05).

use http::StatusCode;
use mainstay_objects::{Requirements, labels_of};
use mainstay_store::Expect;
use serde_json::{Value, json};

use crate::admission::{Operation, Request, posted};
use crate::context::Context;
use crate::error::{ApiError, Cause, Result};
use crate::object::meta;
use crate::request::Query;
use crate::request::negotiate;
use crate::request::options::{DeleteOptions, WriteOptions};
use crate::respond::{self, Answer};
use crate::rest::condition;
use crate::served::Served;
use crate::stored::Loaded;

/// Evicts the pod of a request.
pub async fn evict(context: &Context, body: &[u8]) -> Result<Answer> {
    let mut eviction = negotiate::decode(&context.request.headers, body, "Eviction")?.value;
    // Both versions of the kind are taken.
    if eviction.get("apiVersion").is_some_and(|version| version == "policy/v1beta1") {
        eviction["apiVersion"] = "policy/v1".into();
    }
    crate::decode::built_in(&mainstay_kinds::Gvk::new("policy", "v1", "Eviction"), &mut eviction)?;
    let info = &context.request.info;
    if meta(&eviction, "name") != info.name {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    let pods = context.api.objects.built_in("", "pods")?;
    let dry_run = WriteOptions::parse(&context.request.query, "CreateOptions", context.request.user_agent())?.dry_run;
    let request = Request {
        subresource: "eviction",
        namespace: info.namespace.clone(),
        name: info.name.clone(),
        dry_run,
        ..Request::new(&context.request, &context.api.lookup, &pods, Operation::Create)
    };
    posted(&context.api.admission, &request, &mut eviction).await?;
    let mut options = DeleteOptions::parse(&Query::default(), eviction.get("deleteOptions"))?;
    options.dry_run |= dry_run;
    let pod = context.api.objects.require(&pods, &info.namespace, &info.name).await?.value;
    let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    let ignores_budgets = matches!(phase, "Succeeded" | "Failed" | "Pending") || !meta(&pod, "deletionTimestamp").is_empty();
    if !ignores_budgets {
        ask_budget(context, &pod, options.dry_run).await?;
    }
    if !options.dry_run {
        tell_why(context, &pods, &mut options).await?;
    }
    crate::rest::delete_object(context, &pods, &info.namespace, &info.name, &options).await?;
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(respond::plain(&context.request, StatusCode::CREATED, &status))
}

/// Writes into the pod why it goes; that asks no admission. A revision that the deletion insists on is that of the pod with this condition from then on.
async fn tell_why(context: &Context, pods: &Served, options: &mut DeleteOptions) -> Result<()> {
    let info = &context.request.info;
    let why = json!({"type": "DisruptionTarget", "status": "True", "lastProbeTime": null, "lastTransitionTime": crate::clock::now(),
        "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"});
    for _ in 0..RETRIES {
        let live = context.api.objects.require(pods, &info.namespace, &info.name).await?;
        check_preconditions(&live, options)?;
        let mut pod = live.value;
        condition(&mut pod, &why);
        match context.api.objects.save(pods, &mut pod, Expect::Revision(live.revision)).await {
            Err(error) if error.reason == "Conflict" => tracing::debug!(%error, "changed by another client meanwhile"),
            saved => {
                saved?;
                if options.resource_version.is_some() {
                    options.resource_version = Some(meta(&pod, "resourceVersion").to_owned());
                }
                return Ok(());
            }
        }
    }
    Err(ApiError::modified("", "pods", &info.name))
}

/// Refuses another pod, or another state of it, than the deletion is for.
fn check_preconditions(live: &Loaded, options: &DeleteOptions) -> Result<()> {
    let (found, revision) = (meta(&live.value, "uid"), live.revision.to_string());
    let refuse = |why: String| Err(ApiError::conflict("", "Pod", meta(&live.value, "name"), &why));
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != found) {
        let words = "The object might have been deleted and then recreated";
        return refuse(format!("the UID in the precondition ({uid}) does not match the UID in record ({found}). {words}"));
    }
    if let Some(wanted) = options.resource_version.as_deref().filter(|wanted| *wanted != revision) {
        let words = "The object might have been modified";
        let versions =
            format!("the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({revision})");
        return refuse(format!("{versions}. {words}"));
    }
    Ok(())
}

/// The most attempts to write into a pod that others write, too.
const RETRIES: usize = 5;

async fn ask_budget(context: &Context, pod: &Value, dry_run: bool) -> Result<()> {
    let objects = &context.api.objects;
    let budgets = objects.built_in("policy", "poddisruptionbudgets")?;
    let scope = crate::cache::Scope { namespace: context.request.info.namespace.clone(), name: String::new() };
    if objects.cache.catch_up().await.is_none() {
        return Err(ApiError::internal("the cache does not follow the store"));
    }
    let labels = labels_of(pod);
    let matching: Vec<_> = objects
        .cache
        .resource(&budgets.storage)
        .list(&scope)
        .into_iter()
        .filter(|entry| {
            let budget = entry.value();
            budget
                .pointer("/spec/selector")
                .is_some_and(|selector| !selector.is_null() && Requirements::of_selector(selector).matches(&labels))
        })
        .collect();
    let [budget] = matching.as_slice() else {
        return match matching.len() {
            0 => Ok(()),
            _ => Err(ApiError::untyped("This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")),
        };
    };
    let mut value = budget.value();
    let name = meta(&value, "name").to_owned();
    let too_many = |message: String, cause: String| {
        Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message).cause(Cause::new("DisruptionBudget", cause, "")))
    };
    let figure = |name: &str| value.pointer(&format!("/status/{name}")).and_then(Value::as_i64).unwrap_or_default();
    if figure("observedGeneration") < value["metadata"]["generation"].as_i64().unwrap_or_default() {
        let text = "Cannot evict pod as it would violate the pod's disruption budget.".to_owned();
        let mut refusal = too_many(text, format!("The disruption budget {name} is still being processed by the server."));
        if let Err(error) = &mut refusal {
            *error = error.clone().retry_after(10);
        }
        return refusal;
    }
    let allowed = figure("disruptionsAllowed");
    if allowed < 1 {
        let cause = format!(
            "The disruption budget {name} needs {} healthy pods and has {} currently",
            figure("desiredHealthy"),
            figure("currentHealthy")
        );
        return too_many("Cannot evict pod as it would violate the pod's disruption budget.".into(), cause);
    }
    if dry_run {
        return Ok(());
    }
    value["status"]["disruptionsAllowed"] = (allowed - 1).into();
    let disrupted = &mut value["status"]["disruptedPods"];
    if !disrupted.is_object() {
        *disrupted = json!({});
    }
    disrupted[meta(pod, "name")] = crate::clock::now().into();
    match objects.save(&budgets, &mut value, Expect::Revision(budget.revision)).await {
        Ok(_) => Ok(()),
        Err(error) if error.reason == "Conflict" => {
            let text = "Cannot evict pod as it would violate the pod's disruption budget.".to_owned();
            too_many(text, format!("The disruption budget {name} was changed by somebody else; try again."))
        }
        Err(error) => Err(error),
    }
}
