//! `componentstatuses`: the health of the parts of a control plane, as old tools ask for it. Nothing of it is stored.

use http::StatusCode;
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::{ApiError, Details, Result};
use crate::object::{self, meta};
use crate::request::negotiate::Shape;
use crate::request::options::ListOptions;
use crate::respond::{self, Answer};
use crate::served::Served;

/// The parts of a control plane that run in this process beside the API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlPlane {
    /// The controllers of kube-controller-manager.
    pub controllers: bool,
    /// The scheduler.
    pub scheduler: bool,
}

/// Answers get and list.
pub async fn answer(context: &Context, served: &Served) -> Result<Answer> {
    let request = &context.request;
    request.warn("v1 ComponentStatus is deprecated in v1.19+");
    let all = statuses(context).await;
    match request.info.verb.as_str() {
        "list" => {
            let options = ListOptions::parse(&request.query, false)?;
            super::read::check_fields(served, &options)?;
            // They have names and no labels.
            let labels = mainstay_objects::Labels::default();
            let mut items = all;
            items.retain(|one| options.labels.matches(&labels) && options.fields.matches(|_| meta(one, "name").to_owned()));
            list(context, served, items)
        }
        "watch" => Err(ApiError {
            message: "watch is not supported on resources of kind \"componentstatuses\"".to_owned(),
            details: Some(Details { kind: "componentstatuses".to_owned(), ..Details::default() }),
            ..ApiError::method_not_allowed()
        }),
        _ => {
            let name = &request.info.name;
            let found = all.into_iter().find(|one| meta(one, "name") == *name);
            let mut found = found.ok_or_else(|| ApiError::not_found("", "componentstatus", name))?;
            found["kind"] = "ComponentStatus".into();
            found["apiVersion"] = "v1".into();
            respond::object(request, served, StatusCode::OK, found)
        }
    }
}

fn list(context: &Context, served: &Served, mut items: Vec<Value>) -> Result<Answer> {
    let agreed = context.request.agreed;
    let list = match agreed.shape {
        Shape::Object | Shape::Discovery => json!({"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": items}),
        Shape::Table => crate::table::of(&context.request, served, &mut items, &json!({}))?,
        Shape::Metadata | Shape::MetadataList => {
            let items: Vec<Value> = items.iter_mut().map(|one| object::partial(one, agreed.meta)).collect();
            json!({"kind": "PartialObjectMetadataList", "apiVersion": agreed.meta.api_version(), "metadata": {}, "items": items})
        }
    };
    Ok(Answer::value(StatusCode::OK, agreed.format, &list))
}

/// The three parts that Kubernetes asks, each at its own port: what does not run cannot be connected to.
async fn statuses(context: &Context) -> Vec<Value> {
    let plane = context.api.control_plane;
    let stored = context.api.objects.store.latest().await;
    let part = |name: &str, problem: Option<String>| {
        let status = if problem.is_none() { "True" } else { "False" };
        let message = problem.unwrap_or_else(|| "ok".to_owned());
        json!({"metadata": {"name": name}, "conditions": [{"type": "Healthy", "status": status, "message": message}]})
    };
    let refused = |runs: bool, port: u16| {
        let why = format!("Get \"https://127.0.0.1:{port}/healthz\": dial tcp 127.0.0.1:{port}: connect: connection refused");
        (!runs).then_some(why)
    };
    vec![
        part("controller-manager", refused(plane.controllers, 10257)),
        part("scheduler", refused(plane.scheduler, 10259)),
        part("etcd-0", stored.err().map(|error| error.to_string())),
    ]
}
