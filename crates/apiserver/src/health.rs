//! /livez, /readyz, /healthz with their checks (KAPI-SRV-03).

use std::sync::atomic::{AtomicBool, Ordering};

use http::StatusCode;

use crate::error::{ApiError, Result};
use crate::respond::Answer;
use crate::server::Context;

/// What has to happen before the server is ready.
#[derive(Default)]
pub struct Readiness {
    /// The built-in objects exist.
    pub bootstrapped: AtomicBool,
}

const LIVE: [&str; 3] = ["ping", "log", "etcd"];
const READY: [&str; 6] = ["ping", "log", "etcd", "informer-sync", "poststarthook/bootstrap-objects", "shutdown"];

/// Answers a health path.
pub async fn answer(context: &Context, parts: &[&str]) -> Result<Answer> {
    let page = parts[0];
    let checks: &[&str] = if page == "readyz" { &READY } else { &LIVE };
    if parts.len() > 1 {
        let name = parts[1..].join("/");
        if !checks.contains(&name.as_str()) {
            return Err(ApiError::page_not_found());
        }
        return Ok(if passes(context, &name).await {
            Answer::text(StatusCode::OK, "ok")
        } else {
            Answer::text(StatusCode::INTERNAL_SERVER_ERROR, "internal server error: failed\n")
        });
    }
    let excluded: Vec<&str> = context.query.all("exclude").collect();
    let mut lines = String::new();
    let mut healthy = true;
    for name in checks {
        if excluded.contains(name) {
            lines.extend(["[+]", name, " excluded: ok\n"]);
        } else if passes(context, name).await {
            lines.extend(["[+]", name, " ok\n"]);
        } else {
            healthy = false;
            lines.extend(["[-]", name, " failed: reason withheld\n"]);
        }
    }
    if !healthy {
        return Ok(Answer::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{lines}{page} check failed\n")));
    }
    if context.query.first("verbose").is_some() {
        return Ok(Answer::text(StatusCode::OK, format!("{lines}{page} check passed\n")));
    }
    Ok(Answer::text(StatusCode::OK, "ok"))
}

async fn passes(context: &Context, name: &str) -> bool {
    let api = &context.api;
    match name {
        "etcd" => api.store.figures().await.is_ok(),
        "informer-sync" => api.cache.catch_up().await.is_some(),
        "poststarthook/bootstrap-objects" => api.readiness.bootstrapped.load(Ordering::Acquire),
        "shutdown" => !api.closing.is_cancelled(),
        _ => true,
    }
}
