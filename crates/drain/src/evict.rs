//! One eviction: the request, and what it met.

use kube::Client;
use kube::core::response::{Status, StatusCause};
use serde_json::{Value, json};

use crate::pods::{Found, PodRef};
use crate::{DrainError, Method, Options};

/// The reason of a status cause about a namespace that is being deleted.
const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";

/// The outcome of an attempt to evict a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The server accepted it: the pod ends now.
    Accepted,
    /// The pod does not exist any more.
    Gone,
    /// A disruption budget forbids it now; the server's words.
    Forbidden(String),
    /// The namespace is being deleted, and its controller has not come to this pod yet; the server's words.
    TerminatingNamespace(String),
    /// The server refuses for another reason; its words.
    Refused(String),
}

/// Asks the server to let a pod go.
pub(crate) async fn evict(client: &Client, found: &Found, options: &Options) -> Result<Attempt, DrainError> {
    let PodRef { namespace, name, .. } = &found.pod;
    let what = format!("evict pod {namespace}/{name}");
    let mut delete = json!({});
    if let Some(seconds) = options.grace_period {
        delete["gracePeriodSeconds"] = json!(seconds);
    }
    if options.dry_run {
        delete["dryRun"] = json!(["All"]);
    }
    let request = match options.method {
        Method::Evict => {
            let metadata = json!({"name": name, "namespace": namespace});
            let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, "deleteOptions": delete});
            http::Request::post(format!("{}/eviction", path(namespace, name))).body(body)
        }
        Method::Delete => {
            delete["apiVersion"] = json!("v1");
            delete["kind"] = json!("DeleteOptions");
            http::Request::delete(path(namespace, name)).body(delete)
        }
    };
    let request = request.map_err(|source| DrainError::Address { what: what.clone(), source })?;
    let (mut parts, body) = request.into_parts();
    parts.headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    let request = http::Request::from_parts(parts, body.to_string().into_bytes());
    match client.request::<Value>(request).await {
        Ok(_) => Ok(Attempt::Accepted),
        Err(kube::Error::Api(status)) => Ok(met(&status, found.facts.deleted.is_some())),
        Err(source) => Err(DrainError::Request { what, source: Box::new(source) }),
    }
}

fn path(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods/{name}")
}

/// Reads a refusal, in the order of upstream's rules.
fn met(status: &Status, deleting: bool) -> Attempt {
    let causes: &[StatusCause] = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    let terminating = status.code == 403 && causes.iter().any(|cause| cause.reason == NAMESPACE_TERMINATING);
    match status.code {
        404 => Attempt::Gone,
        429 => Attempt::Forbidden(words(status, causes)),
        // The namespace's controller deletes it in any case.
        _ if terminating && deleting => Attempt::Accepted,
        _ if terminating => Attempt::TerminatingNamespace(status.message.clone()),
        _ => Attempt::Refused(words(status, &[])),
    }
}

/// The server's message and, of a budget, the cause that names it.
fn words(status: &Status, causes: &[StatusCause]) -> String {
    let causes = causes.iter().map(|cause| cause.message.as_str()).filter(|text| !text.is_empty());
    std::iter::once(status.message.as_str()).chain(causes).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// MACH-DRAIN-02: what each refusal means, also in a namespace that is being deleted.
    #[test]
    fn refusals() {
        let status = |code: u16, cause: &str| -> Status {
            let causes = json!([{"reason": cause, "message": "because", "field": ""}]);
            serde_json::from_value(
                json!({"status": "Failure", "code": code, "message": "no", "reason": "R", "details": {"causes": causes}}),
            )
            .unwrap()
        };
        assert_eq!(met(&status(404, ""), false), Attempt::Gone);
        assert_eq!(met(&status(429, "DisruptionBudget"), false), Attempt::Forbidden("no because".to_owned()));
        assert_eq!(met(&status(403, NAMESPACE_TERMINATING), true), Attempt::Accepted);
        assert_eq!(met(&status(403, NAMESPACE_TERMINATING), false), Attempt::TerminatingNamespace("no".to_owned()));
        assert_eq!(met(&status(403, "Other"), true), Attempt::Refused("no".to_owned()));
        assert_eq!(met(&status(500, ""), false), Attempt::Refused("no".to_owned()));
    }
}
