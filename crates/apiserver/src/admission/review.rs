//! A request as admission tells others of it: `AdmissionRequest`, with the objects beside it.

use std::borrow::Cow;
use std::sync::Arc;

use mainstay_rbac::UserInfo;
use serde_json::{Map, Value, json};

use super::matching::{in_version, namespace_of, operation_name};
use super::step::{Operation, Request};
use crate::error::Result;
use crate::request::options::Propagation;
use crate::scale;
use crate::served::Served;

/// The view of a webhook or a policy on a request.
pub(super) struct View<'a> {
    /// The resource that it asked for: the request's own, or another version of it.
    pub(super) served: Arc<Served>,
    /// The object as it is going to be; absent for deletions.
    pub(super) object: Option<Cow<'a, Value>>,
    /// The object as it was.
    pub(super) old: Option<Cow<'a, Value>>,
}

impl<'a> View<'a> {
    pub(super) async fn new(request: &Request<'a>, served: Arc<Served>, object: Option<&'a Value>) -> Result<Self> {
        let (object, old) = (shown(request, &served, object).await?, shown(request, &served, request.old).await?);
        Ok(Self { served, object, old })
    }
}

async fn shown<'a>(request: &Request<'_>, served: &Served, object: Option<&'a Value>) -> Result<Option<Cow<'a, Value>>> {
    match object {
        None => Ok(None),
        Some(object) if is_scale(request) => Ok(Some(Cow::Owned(scale::scale_of(request.served, object)?))),
        // An Eviction or a Binding is the same in every version of pods.
        Some(object) if !is_own_kind(request) => Ok(Some(Cow::Borrowed(object))),
        Some(object) => in_version(object, request.served, served).await.map(Some),
    }
}

/// Returns whether what is written has the kind of the resource, which is not so below some subresources.
pub(super) fn is_own_kind(request: &Request<'_>) -> bool {
    request.served.subresource(request.subresource).is_none_or(|sub| sub.kind == request.served.facts.kind)
}

/// Returns whether the request writes replicas through a Scale.
pub(super) fn is_scale(request: &Request<'_>) -> bool {
    request.subresource == "scale"
}

fn kind(request: &Request<'_>, served: &Served) -> Value {
    let facts = &served.facts;
    let own = served.subresource(request.subresource);
    let part = |of_sub: Option<&String>, own: &str| of_sub.map_or_else(|| own.to_owned(), Clone::clone);
    json!({
        "group": part(own.and_then(|sub| sub.group.as_ref()), &facts.group),
        "version": part(own.and_then(|sub| sub.version.as_ref()), &facts.version),
        "kind": part(own.map(|sub| &sub.kind), &facts.kind),
    })
}

fn resource(served: &Served) -> Value {
    let facts = &served.facts;
    json!({"group": facts.group, "version": facts.version, "resource": facts.plural})
}

fn user(user: &UserInfo) -> Value {
    let mut out = Map::new();
    out.insert("username".into(), user.name.clone().into());
    if !user.uid.is_empty() {
        out.insert("uid".into(), user.uid.clone().into());
    }
    if !user.groups.is_empty() {
        out.insert("groups".into(), json!(user.groups));
    }
    if !user.extra.is_empty() {
        out.insert("extra".into(), json!(user.extra));
    }
    Value::Object(out)
}

/// The options object of the request.
fn options(request: &Request<'_>) -> Value {
    let query = &request.api_request.query;
    let mut out = Map::new();
    let kind = match request.operation {
        Operation::Create => "CreateOptions",
        Operation::Update => "UpdateOptions",
        Operation::Delete => "DeleteOptions",
    };
    out.insert("kind".into(), kind.into());
    out.insert("apiVersion".into(), "meta.k8s.io/v1".into());
    if request.dry_run {
        out.insert("dryRun".into(), json!(["All"]));
    }
    match request.deletion {
        Some(deletion) => {
            if let Some(seconds) = deletion.grace_period_seconds {
                out.insert("gracePeriodSeconds".into(), seconds.into());
            }
            let conditions: Map<String, Value> = [("uid", &deletion.uid), ("resourceVersion", &deletion.resource_version)]
                .into_iter()
                .filter_map(|(name, wanted)| Some((name.to_owned(), wanted.clone()?.into())))
                .collect();
            if !conditions.is_empty() {
                out.insert("preconditions".into(), conditions.into());
            }
            let policy = deletion.propagation.map(|policy| match policy {
                Propagation::Background => "Background",
                Propagation::Foreground => "Foreground",
                Propagation::Orphan => "Orphan",
            });
            if let Some(policy) = policy {
                out.insert("propagationPolicy".into(), policy.into());
            }
        }
        None => {
            for name in ["fieldManager", "fieldValidation"] {
                if let Some(text) = query.text(name) {
                    out.insert(name.into(), text.into());
                }
            }
        }
    }
    Value::Object(out)
}

/// `AdmissionRequest` without its objects, for the version that was asked for.
pub(super) fn admission_request(request: &Request<'_>, served: &Served, uid: &str) -> Value {
    let mut out = Map::new();
    out.insert("uid".into(), uid.into());
    out.insert("kind".into(), kind(request, served));
    out.insert("resource".into(), resource(served));
    if !request.subresource.is_empty() {
        out.insert("subResource".into(), request.subresource.into());
    }
    out.insert("requestKind".into(), kind(request, request.served));
    out.insert("requestResource".into(), resource(request.served));
    if !request.subresource.is_empty() {
        out.insert("requestSubResource".into(), request.subresource.into());
    }
    for (name, text) in [("name", request.name.as_str()), ("namespace", namespace_of(request))] {
        if !text.is_empty() {
            out.insert(name.into(), text.into());
        }
    }
    out.insert("operation".into(), operation_name(request.operation).into());
    out.insert("userInfo".into(), user(&request.api_request.user));
    out.insert("dryRun".into(), request.dry_run.into());
    out.insert("options".into(), options(request));
    Value::Object(out)
}

/// A whole `AdmissionReview` of this version.
pub(super) fn admission_review(request: &Request<'_>, view: &View<'_>, uid: &str, version: &str) -> Value {
    let mut body = admission_request(request, &view.served, uid);
    body["object"] = view.object.as_deref().cloned().unwrap_or(Value::Null);
    body["oldObject"] = view.old.as_deref().cloned().unwrap_or(Value::Null);
    json!({"kind": "AdmissionReview", "apiVersion": format!("admission.k8s.io/{version}"), "request": body})
}
