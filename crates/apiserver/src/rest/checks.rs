//! Checks that several writes have in common.

use serde_json::Value;

use crate::context::Context;
use crate::error::{ApiError, Result};
use crate::object;
use crate::request::RequestInfo;
use crate::served::Served;

/// The levels that a stored object may nest, with its managed fields. Readers of JSON, ours among them, stop at 128 levels, and lists, events
/// and reviews add some around an object: what could be stored and not be read any more could not be deleted either.
const DEEPEST: usize = 120;

/// An update or an apply that creates needs the permission to create, too (KAPI-AUTHZ-01).
pub fn may_create(context: &Context) -> Result<()> {
    let info = RequestInfo { verb: "create".to_owned(), ..context.request.info.clone() };
    context.api.access.authorize(&context.request.user, &info)
}

/// A CRD that is being deleted takes no new objects: those that are there would never end (KAPI-CRD-01).
pub fn not_while_terminating(context: &Context, served: &Served, name: &str) -> Result<()> {
    let Some(custom) = &served.custom else { return Ok(()) };
    let definitions = context.api.objects.built_in("apiextensions.k8s.io", "customresourcedefinitions")?;
    let definition = context.api.objects.cached(&definitions, "", &custom.crd);
    if !definition.is_some_and(|definition| mainstay_schema::crd::is_condition_true(&definition.value(), "Terminating")) {
        return Ok(());
    }
    let facts = &served.facts;
    Err(ApiError::forbidden(&facts.group, &facts.plural, name, "create not allowed while custom resource definition is terminating"))
}

/// Refuses what nests too deeply to be read again: patches and webhooks build up what no single body may hold.
pub fn check_depth(value: &Value) -> Result<()> {
    if object::nests_within(value, DEEPEST) {
        return Ok(());
    }
    Err(ApiError::bad_request(format!("the object nests too deeply: with its managed fields, at most {DEEPEST} levels are stored")))
}
