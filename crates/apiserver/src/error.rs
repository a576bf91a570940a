//! Refusals of requests: one type that becomes a `Status` object (KAPI-REST-04).

use std::borrow::Cow;

use http::StatusCode;
use serde_json::{Map, Value, json};

/// A refusal, with the parts of the `Status` object that it is answered with.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// The HTTP status.
    pub code: StatusCode,
    /// `reason`; empty for errors that Kubernetes gives none.
    pub reason: Cow<'static, str>,
    /// `message`.
    pub message: String,
    /// `details`; absent when `None`.
    pub details: Option<Details>,
    /// `metadata.continue`; empty for none.
    pub list_continue: String,
}

/// `details` of a `Status`. Empty parts are left out.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the fields are those of StatusDetails")]
pub struct Details {
    pub name: String,
    pub group: String,
    pub kind: String,
    pub uid: String,
    pub causes: Vec<Cause>,
    pub retry_after_seconds: u32,
}

/// One of `details.causes`.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the fields are those of StatusCause")]
pub struct Cause {
    pub reason: String,
    pub message: String,
    pub field: String,
}

/// The shorthand of this crate.
pub type Result<T, E = ApiError> = std::result::Result<T, E>;

impl ApiError {
    /// An error of any kind, without details.
    pub fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason: Cow::Borrowed(reason), message: message.into(), details: None, list_continue: String::new() }
    }

    /// 400 `BadRequest`.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// 500 without a reason, which is how Kubernetes reports errors that its machinery has no type for.
    pub fn untyped(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
    }

    /// 500 `InternalError`.
    pub fn internal(message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            details: Some(Details { causes: vec![Cause { message: message.clone(), ..Cause::default() }], ..Details::default() }),
            ..Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", format!("Internal error occurred: {message}"))
        }
    }

    /// 404 for a path that nothing serves.
    pub fn no_such_resource() -> Self {
        Self {
            details: Some(Details::default()),
            ..Self::new(StatusCode::NOT_FOUND, "NotFound", "the server could not find the requested resource")
        }
    }

    /// 404 for a path that is no resource path: plain text in Kubernetes.
    pub fn page_not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "", "404 page not found\n")
    }

    /// 404 for an object.
    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        Self::about(StatusCode::NOT_FOUND, "NotFound", format!("{} {name:?} not found", qualified(resource, group)), group, resource, name)
    }

    /// 405.
    pub fn method_not_allowed() -> Self {
        Self {
            details: Some(Details::default()),
            ..Self::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource",
            )
        }
    }

    /// 405 of a custom resource.
    pub fn not_supported(group: &str, resource: &str, verb: &str) -> Self {
        let message = format!("{verb} is not supported on resources of kind {:?}", qualified(resource, group));
        Self::about(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message, group, resource, "")
    }

    /// 409 `AlreadyExists`.
    pub fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        Self::about(
            StatusCode::CONFLICT,
            "AlreadyExists",
            format!("{} {name:?} already exists", qualified(resource, group)),
            group,
            resource,
            name,
        )
    }

    /// 409 `Conflict` with the words after "Operation cannot be fulfilled on R N: ".
    pub fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Self {
        Self::about(
            StatusCode::CONFLICT,
            "Conflict",
            format!("Operation cannot be fulfilled on {} {name:?}: {why}", qualified(resource, group)),
            group,
            resource,
            name,
        )
    }

    /// 409: the object has another resourceVersion than the writer thought.
    pub fn modified(group: &str, resource: &str, name: &str) -> Self {
        Self::conflict(group, resource, name, "the object has been modified; please apply your changes to the latest version and try again")
    }

    /// 403 `Forbidden` with the words after "R N is forbidden: ".
    pub fn forbidden(group: &str, resource: &str, name: &str, why: impl AsRef<str>) -> Self {
        let what = qualified(resource, group);
        let message = if name.is_empty() {
            format!("{what} is forbidden: {}", why.as_ref())
        } else {
            format!("{what} {name:?} is forbidden: {}", why.as_ref())
        };
        Self::about(StatusCode::FORBIDDEN, "Forbidden", message, group, resource, name)
    }

    /// 422 `Invalid` for an object of `kind`, from causes.
    pub fn invalid(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Self {
        let mut seen = Vec::new();
        for cause in &causes {
            let text = if cause.field.is_empty() { cause.message.clone() } else { format!("{}: {}", cause.field, cause.message) };
            if !seen.contains(&text) {
                seen.push(text);
            }
        }
        let list = match seen.as_slice() {
            [] => String::new(),
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let what = qualified(kind, group);
        let message = if list.is_empty() { format!("{what} {name:?} is invalid") } else { format!("{what} {name:?} is invalid: {list}") };
        let mut error = Self::about(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message, group, kind, name);
        if let Some(details) = &mut error.details {
            details.causes = causes;
        }
        error
    }

    /// 422 for one field of an options object (`ListOptions`, `CreateOptions`, ...).
    pub fn invalid_options(kind: &str, cause: Cause) -> Self {
        Self::invalid("meta.k8s.io", kind, "", vec![cause])
    }

    /// 410 `Expired`.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// 415 with the recorded words.
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        Self {
            details: Some(Details::default()),
            ..Self::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "UnsupportedMediaType",
                format!("the body of the request was in an unknown format - accepted media types include: {}", accepted.join(", ")),
            )
        }
    }

    /// 406 of Kubernetes' router, which looks at the header before anything that knows the resource.
    pub fn not_representable(produced: &[&str]) -> Self {
        Self {
            details: Some(Details::default()),
            ..Self::new(
                StatusCode::NOT_ACCEPTABLE,
                "NotAcceptable",
                format!("406: Not Acceptable\n\nAvailable representations: {}", produced.join(", ")),
            )
        }
    }

    /// 406 with the recorded words.
    pub fn not_acceptable(accepted: &[&str]) -> Self {
        Self::new(
            StatusCode::NOT_ACCEPTABLE,
            "NotAcceptable",
            format!("only the following media types are accepted: {}", accepted.join(", ")),
        )
    }

    /// 413.
    pub fn too_large(limit: usize) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", format!("Request entity too large: limit is {limit}"))
    }

    /// Without `details`, where Kubernetes gives none.
    #[must_use]
    pub fn without_details(mut self) -> Self {
        self.details = None;
        self
    }

    /// 422 `Invalid` from the findings of validation.
    pub fn invalid_fields(group: &str, kind: &str, name: &str, errors: &[mainstay_schema::field::Error]) -> Self {
        let causes = errors.iter().map(|error| Cause::new(error.reason(), error.body(), error.field.to_string())).collect();
        Self::invalid(group, kind, name, causes)
    }

    /// 429 or 5xx with `retryAfterSeconds`.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.details.get_or_insert_default().retry_after_seconds = seconds;
        self
    }

    /// Adds a cause.
    #[must_use]
    pub fn cause(mut self, cause: Cause) -> Self {
        self.details.get_or_insert_default().causes.push(cause);
        self
    }

    fn about(code: StatusCode, reason: &'static str, message: String, group: &str, kind: &str, name: &str) -> Self {
        Self {
            details: Some(Details { name: name.into(), group: group.into(), kind: kind.into(), ..Details::default() }),
            ..Self::new(code, reason, message)
        }
    }

    /// The `Status` object.
    pub fn status(&self) -> Value {
        let mut status = Map::new();
        status.insert("kind".into(), "Status".into());
        status.insert("apiVersion".into(), "v1".into());
        let metadata = if self.list_continue.is_empty() { json!({}) } else { json!({"continue": self.list_continue}) };
        status.insert("metadata".into(), metadata);
        status.insert("status".into(), "Failure".into());
        status.insert("message".into(), self.message.clone().into());
        if !self.reason.is_empty() {
            status.insert("reason".into(), self.reason.clone().into());
        }
        if let Some(details) = &self.details {
            status.insert("details".into(), details.to_value());
        }
        status.insert("code".into(), self.code.as_u16().into());
        Value::Object(status)
    }
}

impl Cause {
    /// A cause with all parts.
    pub fn new(reason: &str, message: impl Into<String>, field: impl Into<String>) -> Self {
        Self { reason: reason.into(), message: message.into(), field: field.into() }
    }

    /// `FieldValueForbidden`.
    pub fn forbidden(field: impl Into<String>, why: &str) -> Self {
        Self::new("FieldValueForbidden", format!("Forbidden: {why}"), field)
    }

    /// `FieldValueRequired`.
    pub fn required(field: impl Into<String>, why: &str) -> Self {
        let message = if why.is_empty() { "Required value".to_owned() } else { format!("Required value: {why}") };
        Self::new("FieldValueRequired", message, field)
    }

    /// `FieldValueInvalid`; the value is shown as JSON.
    pub fn invalid(field: impl Into<String>, value: &Value, why: &str) -> Self {
        Self::new("FieldValueInvalid", format!("Invalid value: {value}: {why}"), field)
    }

    /// `FieldValueNotSupported`; `value` as it shall be shown.
    pub fn unsupported(field: impl Into<String>, value: &str, supported: &[&str]) -> Self {
        let supported = supported.iter().map(|one| format!("{one:?}")).collect::<Vec<_>>().join(", ");
        Self::new("FieldValueNotSupported", format!("Unsupported value: {value}: supported values: {supported}"), field)
    }
}

impl Details {
    /// As JSON, without the empty parts.
    pub fn to_value(&self) -> Value {
        let mut map = Map::new();
        for (key, text) in [("name", &self.name), ("group", &self.group), ("kind", &self.kind), ("uid", &self.uid)] {
            if !text.is_empty() {
                map.insert(key.into(), text.clone().into());
            }
        }
        if !self.causes.is_empty() {
            let causes = self.causes.iter().map(|cause| {
                let mut map = Map::new();
                for (key, text) in [("reason", &cause.reason), ("message", &cause.message), ("field", &cause.field)] {
                    if !text.is_empty() {
                        map.insert(key.into(), text.clone().into());
                    }
                }
                Value::Object(map)
            });
            map.insert("causes".into(), causes.collect());
        }
        if self.retry_after_seconds > 0 {
            map.insert("retryAfterSeconds".into(), self.retry_after_seconds.into());
        }
        Value::Object(map)
    }
}

/// `configmaps`, `deployments.apps`.
pub fn qualified(resource: &str, group: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

/// The refusal that a failing store means for a request.
pub fn store_error(error: mainstay_store::Error) -> ApiError {
    match error {
        mainstay_store::Error::Compacted { .. } => expired(),
        mainstay_store::Error::Future { asked, latest } => too_large_version(asked, latest),
        mainstay_store::Error::Remote { problem, fate } => remote_error(problem, fate),
        mainstay_store::Error::TooLarge { limit, .. } => ApiError::too_large(limit),
        other => {
            tracing::error!(error = &other as &dyn std::error::Error, "store failed");
            let causes = std::iter::successors(std::error::Error::source(&other), |cause| cause.source());
            ApiError::internal(causes.fold(other.to_string(), |text, cause| format!("{text}: {cause}")))
        }
    }
}

/// The refusal that a failing storage cluster means. A client may try again by itself only if nothing was done.
fn remote_error(problem: String, fate: mainstay_store::Fate) -> ApiError {
    use mainstay_store::Fate;
    tracing::warn!(problem, ?fate, "the storage cluster failed");
    match fate {
        Fate::Unavailable => ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", problem).retry_after(1),
        Fate::Busy => ApiError::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", problem).retry_after(1),
        Fate::Refused | Fate::Unknown => ApiError::untyped(problem),
    }
}

/// 410 for a revision that is gone.
pub fn expired() -> ApiError {
    ApiError::expired("The resourceVersion for the provided list is too old.")
}

/// 504 for a revision that has not happened.
pub fn too_large_version(asked: u64, latest: u64) -> ApiError {
    ApiError::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", format!("Timeout: Too large resource version: {asked}, current: {latest}"))
        .cause(Cause::new("ResourceVersionTooLarge", "Too large resource version", ""))
        .retry_after(1)
}
