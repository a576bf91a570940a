//! Paths outside of the resources: discovery, OpenAPI, health, version, metrics.

use http::{Method, StatusCode};
use serde_json::json;

use crate::discovery;
use crate::error::{ApiError, Result};
use crate::respond::Answer;
use crate::server::{self, Context};

/// Answers one of these paths.
pub async fn route(context: &Context) -> Result<Answer> {
    let path = context.info.path.trim_matches('/').to_owned();
    let parts: Vec<&str> = path.split('/').collect();
    if !takes(&context.method, &parts) {
        return Err(ApiError::method_not_allowed());
    }
    match parts.as_slice() {
        ["api"] => Ok(discovery::api(context)),
        ["apis"] => {
            // All groups, and all their resources where that is asked for.
            context.takes_long().await;
            Ok(discovery::apis(context))
        }
        ["api", version] => discovery::resources(context, "", version),
        ["apis", group] => discovery::group(context, group),
        ["apis", group, version] => discovery::resources(context, group, version),
        ["openapi", "v2"] => discovery::openapi_v2(context).await,
        ["openapi", "v3"] => {
            context.takes_long().await;
            Ok(discovery::openapi_index(context).await)
        }
        ["openapi", "v3", ..] => discovery::openapi_v3(context, &parts[2..].join("/")).await,
        ["version"] => Ok(server::json(context, &version())),
        ["livez" | "readyz" | "healthz", ..] => crate::health::answer(context, &parts).await,
        ["mainstay", "backup"] => crate::backup::answer(context).await,
        ["metrics"] => {
            let text = crate::metrics::page(&context.api).await;
            Ok(Answer::bytes(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text))
        }
        [""] => {
            let snapshot = context.api.served();
            let mut paths = vec!["/api".to_owned(), "/api/v1".into(), "/apis".into()];
            for group in mainstay_kinds::registry().groups().iter().filter(|group| !group.name.is_empty()) {
                paths.push(format!("/apis/{}", group.name));
                paths.extend(group.versions.iter().map(|version| format!("/apis/{}/{version}", group.name)));
            }
            for (group, versions) in &snapshot.custom_groups {
                paths.push(format!("/apis/{group}"));
                paths.extend(versions.iter().map(|version| format!("/apis/{group}/{version}")));
            }
            paths.extend(["/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"].map(str::to_owned));
            Ok(server::json(context, &json!({"paths": paths})))
        }
        _ => context.api.access.page(context, &parts).await.unwrap_or_else(|| Err(ApiError::page_not_found())),
    }
}

/// Whether a page is for this method: as in Kubernetes, those that only read are for any, unless they are part of an API.
fn takes(method: &Method, parts: &[&str]) -> bool {
    let only_get = match parts {
        ["api" | ".well-known" | "openid" | "mainstay", ..] | ["version"] => true,
        ["apis", group, version] => is_built_in(group, version),
        _ => false,
    };
    if only_get { *method == Method::GET } else { true }
}

/// Whether a version of a group is there without any CRD.
pub fn is_built_in(group: &str, version: &str) -> bool {
    mainstay_kinds::registry().group(group).is_some_and(|group| group.versions.iter().any(|known| known == version))
}

fn version() -> serde_json::Value {
    let (major, minor) = ("1", "34");
    json!({
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": "33",
        "gitVersion": concat!("v1.34.0+mainstay-", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, match std::env::consts::ARCH { "x86_64" => "amd64", "aarch64" => "arm64", other => other }),
    })
}
