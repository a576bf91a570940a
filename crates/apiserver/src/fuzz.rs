//! Doors for `tests/fuzz`: what reads a request before anybody is known to have sent it, one function a reader. Nobody else comes in here.

use mainstay_kinds::Gvk;
use serde_json::Value;

use crate::error::Result;
use crate::request::Query;
use crate::request::options::{DeleteOptions, ListOptions, WriteOptions, check_patch, resource_version};
use crate::{decode, jsonpath, strict};

/// A JSON body of a built-in kind: the value as it goes on, and the problems that field validation would name.
pub fn built_in(api_version: &str, kind: &str, body: &[u8]) -> Result<(Value, Vec<String>)> {
    let gvk = Gvk::of(api_version, kind);
    let (mut value, mut problems) = strict::parse(body).map_err(|error| decode::refused(&gvk, &error.to_string()))?;
    problems.extend(decode::built_in(&gvk, &mut value)?);
    Ok((value, problems))
}

/// Everything that is read out of a query; the first refusal.
pub fn options(query: &str, user_agent: &str) -> Result<()> {
    let query = Query::parse(query);
    ListOptions::parse(&query, false)?;
    ListOptions::parse(&query, true)?;
    WriteOptions::parse(&query, "ConfigMap", user_agent)?;
    DeleteOptions::parse(&query, None)?;
    check_patch(&query, false)?;
    check_patch(&query, true)?;
    query
        .first("resourceVersion")
        .map_or(Ok(None), resource_version)
        .map_err(|why| crate::error::ApiError::bad_request(why.to_string()))?;
    Ok(())
}

/// The text that a printer column shows of an object.
pub fn column(path: &str, object: &Value) -> String {
    jsonpath::text(&jsonpath::find(path, object))
}
