//! One call: an AdmissionReview there, one back, and what it may say.

use std::borrow::Cow;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use mainstay_merge::patch::decode_json_patch;
use serde_json::Value;

use super::hook::Hook;
use crate::admission::audit::NoteKind;
use crate::admission::review::{View, admission_review};
use crate::admission::step::Request;
use crate::error::{ApiError, Cause, Details};
use crate::remote::{CallError, Remotes};

/// Why a webhook did not let a request pass.
#[derive(Debug)]
pub(super) enum Failure {
    /// It could not be asked, or gave no answer that makes sense: its failure policy decides.
    Calling(String),
    /// It refused, or the request is refused because of it.
    Refused(ApiError),
}

/// The patch of a webhook that lets a request pass.
#[derive(Debug)]
pub(super) struct Patch {
    /// Its `patchType`.
    kind: String,
    text: Vec<u8>,
}

impl Patch {
    /// The operations, none where nothing is to be changed. `whole` says whether there is an object to change.
    pub(super) fn operations(&self, hook: &Hook, whole: bool) -> Result<Vec<Value>, Failure> {
        let operations = decode_json_patch(&self.text)
            .map_err(|error| Failure::Calling(format!("received undecodable patch in webhook response: {error}")))?;
        if operations.is_empty() {
            return Ok(operations);
        }
        if !whole {
            let words =
                format!("admission webhook {:?} attempted to modify the object, which is not supported for this operation", hook.name);
            return Err(Failure::Refused(ApiError::internal(words)));
        }
        if self.kind != JSON_PATCH {
            return Err(Failure::Calling(format!("unsupported patch type {:?}", self.kind)));
        }
        Ok(operations)
    }
}

/// The one type of patches that there is.
const JSON_PATCH: &str = "JSONPatch";

/// Why an answer is none.
#[derive(Debug, thiserror::Error)]
enum ReviewError {
    #[error("webhook response was absent")]
    Absent,
    #[error("expected response.uid={0:?}, got {1:?}")]
    Uid(String, String),
    #[error("expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {0}")]
    Kind(String),
    #[error("webhook returned response.patch but not response.patchType")]
    NoPatchType,
    #[error("webhook returned response.patchType but not response.patch")]
    NoPatch,
    #[error("webhook returned invalid response.patchType of \"\"")]
    EmptyPatchType,
    #[error("validating webhook may not return response.{0}")]
    MayNotPatch(&'static str),
}

/// Asks one webhook about a request.
pub(super) async fn call(
    remotes: &Remotes,
    request: &Request<'_>,
    hook: &Hook,
    view: &View<'_>,
    mutating: bool,
) -> Result<Option<Patch>, Failure> {
    if request.dry_run && !hook.allows_dry_run {
        let words = format!("admission webhook {:?} does not support dry run", hook.name);
        return Err(Failure::Refused(ApiError::bad_request(words)));
    }
    let Some(version) = hook.review_version else {
        let words = "webhook does not accept known AdmissionReview versions (v1, v1beta1)";
        return Err(Failure::Calling(format!("could not create admission objects: {words}")));
    };
    let client = hook.client.as_ref().map_err(|error| Failure::Calling(format!("could not get REST client: {error}")))?;
    if remotes.passes_over(&client.target) {
        request.api_request.warn(format!("admission webhook {:?} was passed over: its pods are simulated", hook.name));
        return Ok(None);
    }
    let uid = uuid::Uuid::new_v4().to_string();
    let review = admission_review(request, view, &uid, version);
    let left = request.reinvocation.deadline().saturating_duration_since(Instant::now());
    let answered = remotes.call(client, &review, hook.timeout.min(left)).await;
    let answer = answered.map_err(|error: CallError| {
        let whose = if error.is_simulated() { hook.whose() } else { String::new() };
        Failure::Calling(format!("failed to call webhook: {error}{whose}"))
    })?;
    let invalid = |error: ReviewError| Failure::Calling(format!("received invalid webhook response: {error}"));
    let response = response(&answer, &uid, version).map_err(invalid)?;
    let patch = patch(response, mutating, version).map_err(invalid)?;
    for (key, value) in response["auditAnnotations"].as_object().into_iter().flatten() {
        request.annotate(NoteKind::Finding, &format!("{}/{key}", hook.name), value.as_str().unwrap_or_default());
    }
    for warning in response["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        request.api_request.warn(warning);
    }
    if response["allowed"] != true {
        return Err(Failure::Refused(denial(&hook.name, &response["status"])));
    }
    let Some((kind, text)) = patch else { return Ok(None) };
    match STANDARD.decode(text.as_bytes()) {
        Ok(text) => Ok(Some(Patch { kind: kind.to_owned(), text })),
        Err(error) => Err(Failure::Calling(format!("failed to call webhook: response.patch is not base64: {error}"))),
    }
}

/// The part of an answer that answers.
fn response<'a>(answer: &'a Value, uid: &str, version: &str) -> Result<&'a Value, ReviewError> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let response = answer.get("response").filter(|response| response.is_object()).ok_or(ReviewError::Absent)?;
    // The first version of reviews was never checked this closely.
    if version == "v1" {
        let given = text(&response["uid"]);
        if given != uid {
            return Err(ReviewError::Uid(uid.to_owned(), given));
        }
        let (api_version, kind) = (text(&answer["apiVersion"]), text(&answer["kind"]));
        if api_version != "admission.k8s.io/v1" || kind != "AdmissionReview" {
            let api_version = if api_version.contains('/') { api_version } else { format!("/{api_version}") };
            return Err(ReviewError::Kind(format!("{api_version}, Kind={kind}")));
        }
    }
    Ok(response)
}

/// Type and text of the patch of an answer.
fn patch<'a>(response: &'a Value, mutating: bool, version: &str) -> Result<Option<(&'a str, &'a str)>, ReviewError> {
    let patch = response["patch"].as_str().filter(|patch| !patch.is_empty());
    let kind = response["patchType"].as_str();
    // The first version of reviews did not look at the type.
    if version != "v1" {
        return Ok(patch.filter(|_| mutating).map(|patch| (JSON_PATCH, patch)));
    }
    match (mutating, patch, kind) {
        (false, Some(_), _) => Err(ReviewError::MayNotPatch("patch")),
        (false, None, Some(_)) => Err(ReviewError::MayNotPatch("patchType")),
        (true, Some(_), None) => Err(ReviewError::NoPatchType),
        (true, None, Some(_)) => Err(ReviewError::NoPatch),
        (true, Some(_), Some("")) => Err(ReviewError::EmptyPatchType),
        (_, Some(patch), Some(kind)) => Ok(Some((kind, patch))),
        (_, None, None) => Ok(None),
    }
}

/// The refusal of a denied request: the webhook's own status, never a success.
fn denial(name: &str, status: &Value) -> ApiError {
    let text = |field: &str| status[field].as_str().unwrap_or_default();
    let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok()).filter(|code| *code >= 400);
    let code = code.and_then(|code| StatusCode::from_u16(code).ok()).unwrap_or(StatusCode::BAD_REQUEST);
    let denied = format!("admission webhook {name:?} denied the request");
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    ApiError {
        reason: Cow::Owned(text("reason").to_owned()),
        details: status.get("details").filter(|details| details.is_object()).map(details),
        ..ApiError::new(code, "", message)
    }
}

fn details(details: &Value) -> Details {
    let text = |holder: &Value, field: &str| holder[field].as_str().unwrap_or_default().to_owned();
    let causes = details["causes"].as_array().into_iter().flatten();
    Details {
        name: text(details, "name"),
        group: text(details, "group"),
        kind: text(details, "kind"),
        uid: text(details, "uid"),
        causes: causes
            .map(|cause| Cause { reason: text(cause, "reason"), message: text(cause, "message"), field: text(cause, "field") })
            .collect(),
        retry_after_seconds: details["retryAfterSeconds"].as_u64().and_then(|seconds| u32::try_from(seconds).ok()).unwrap_or_default(),
    }
}

/// The 500 of a webhook that could not be asked.
pub(super) fn unreachable(hook: &Hook, why: &str) -> ApiError {
    ApiError::internal(format!("failed calling webhook {:?}: {why}", hook.name))
}

/// The 504 of a request that has no time left for further webhooks.
pub(super) fn out_of_time() -> ApiError {
    let words = "Timeout: request did not complete within requested timeout";
    ApiError { details: Some(Details::default()), ..ApiError::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", words) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    /// KAPI-ADM-01: a denial is the webhook's own status, never a success, and says who denied.
    #[test]
    fn denials() {
        let of = |status: Value| {
            let error = denial("h.example.com", &status);
            (error.code.as_u16(), error.reason.to_string(), error.message)
        };
        let words = "admission webhook \"h.example.com\" denied the request";
        assert_eq!(of(Value::Null), (400, String::new(), format!("{words} without explanation")));
        assert_eq!(of(json!({"code": 200, "reason": "Nope"})), (400, "Nope".into(), format!("{words}: Nope")));
        assert_eq!(of(json!({"code": 409, "message": "m", "reason": "r"})), (409, "r".into(), format!("{words}: m")));
        let error = denial("h", &json!({"details": {"name": "n", "causes": [{"field": "f", "message": "m"}]}}));
        assert_eq!(error.details.unwrap().causes[0].field, "f");
    }

    /// KAPI-ADM-01: a patch comes with its type, and only from webhooks that may change something.
    #[test]
    fn patches() {
        let of = |response: Value, mutating| match patch(&response, mutating, "v1") {
            Ok(found) => found.map_or_else(String::new, |(kind, text)| format!("{kind} {text}")),
            Err(error) => error.to_string(),
        };
        assert_eq!(of(json!({"patch": "W10=", "patchType": "JSONPatch"}), true), "JSONPatch W10=");
        assert_eq!(of(json!({"patch": "W10=", "patchType": "MergePatch"}), true), "MergePatch W10=");
        assert_eq!(of(json!({"patch": "W10="}), true), "webhook returned response.patch but not response.patchType");
        assert_eq!(of(json!({"patchType": ""}), true), "webhook returned response.patchType but not response.patch");
        assert_eq!(of(json!({"patch": "W10=", "patchType": ""}), true), "webhook returned invalid response.patchType of \"\"");
        assert_eq!(of(json!({}), true), "");
        assert_eq!(of(json!({"patch": "W10="}), false), "validating webhook may not return response.patch");
        assert_eq!(of(json!({"patchType": "JSONPatch"}), false), "validating webhook may not return response.patchType");
        assert_eq!(patch(&json!({"patch": "W10=", "patchType": "x"}), true, "v1beta1").unwrap(), Some(("JSONPatch", "W10=")));
    }

    /// KAPI-ADM-01: an answer must answer this very question, in the version asked.
    #[test]
    fn answers_that_are_none() {
        let of = |answer: Value| response(&answer, "u", "v1").map(drop).unwrap_err().to_string();
        assert_eq!(of(json!({})), "webhook response was absent");
        assert_eq!(of(json!({"response": {"uid": "x"}})), "expected response.uid=\"u\", got \"x\"");
        let words = "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got";
        assert_eq!(of(json!({"response": {"uid": "u"}})), format!("{words} /, Kind="));
        assert_eq!(
            of(json!({"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "response": {"uid": "u"}})),
            format!("{words} admission.k8s.io/v1beta1, Kind=AdmissionReview")
        );
        assert!(response(&json!({"response": {}}), "u", "v1beta1").is_ok());
    }
}
