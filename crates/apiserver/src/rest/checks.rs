//! Checks that several writes have in common.

use serde_json::Value;

use crate::context::Context;
use crate::error::{ApiError, Result};
use crate::object;
use crate::request::RequestInfo;

/// The levels that a stored object may nest, with its managed fields. Readers of JSON, ours among them, stop at 128 levels, and lists, events
/// and reviews add some around an object: what could be stored and not be read any more could not be deleted either.
const DEEPEST: usize = 120;

/// An update or an apply that creates needs the permission to create, too (KAPI-AUTHZ-01).
pub fn may_create(context: &Context) -> Result<()> {
    let info = RequestInfo { verb: "create".to_owned(), ..context.request.info.clone() };
    context.api.access.authorize(&context.request.user, &info)
}

/// Refuses what nests too deeply to be read again: patches and webhooks build up what no single body may hold.
pub fn check_depth(value: &Value) -> Result<()> {
    if object::nests_within(value, DEEPEST) {
        return Ok(());
    }
    Err(ApiError::bad_request(format!("the object nests too deeply: with its managed fields, at most {DEEPEST} levels are stored")))
}
