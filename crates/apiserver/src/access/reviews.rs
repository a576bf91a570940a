//! Reviews: questions about identity and permissions, asked as objects and answered in their `status` (KAPI-AUTH-02, KAPI-AUTHZ-03).
//!
//! Each function takes the object as it was sent and gives it back with its status; nothing is stored.

use std::collections::BTreeMap;

use jiff::Timestamp;
use mainstay_rbac::{Attributes, RoleView, UserInfo, authorize, rules_for};
use serde_json::{Map, Value, json};

use super::authn::Authenticator;
use crate::error::{ApiError, Cause, Result};
use crate::selector::{FieldSelector, parse_labels};

const AUTHORIZATION: &str = "authorization.k8s.io";

/// The kinds of access reviews.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewScope<'a> {
    /// SubjectAccessReview.
    Cluster,
    /// LocalSubjectAccessReview in this namespace.
    Namespace(&'a str),
    /// SelfSubjectAccessReview.
    Own,
}

/// SubjectAccessReview.
pub fn review_access<V: RoleView + ?Sized>(view: &V, review: &Value) -> Result<Value> {
    access(view, review, ReviewScope::Cluster, None)
}

/// LocalSubjectAccessReview, sent to this namespace.
pub fn review_local_access<V: RoleView + ?Sized>(view: &V, namespace: &str, review: &Value) -> Result<Value> {
    access(view, review, ReviewScope::Namespace(namespace), None)
}

/// SelfSubjectAccessReview of this user.
pub fn review_own_access<V: RoleView + ?Sized>(view: &V, user: &UserInfo, review: &Value) -> Result<Value> {
    access(view, review, ReviewScope::Own, Some(user))
}

/// SelfSubjectRulesReview of this user.
pub fn review_own_rules<V: RoleView + ?Sized>(view: &V, user: &UserInfo, review: &Value) -> Result<Value> {
    let namespace = text(review, "/spec/namespace");
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let granted = rules_for(view, user, namespace);
    let list = |rules: Vec<Value>| Value::Array(rules);
    let mut status = json!({
        "incomplete": false,
        "resourceRules": list(granted.rules.iter().filter(|r| !r.resources.is_empty()).map(|r| json!(r)).collect()),
        "nonResourceRules": list(granted.rules.iter().filter(|r| !r.non_resource_urls.is_empty()).map(|r| json!(r)).collect()),
    });
    if !granted.errors.is_empty() {
        let texts: Vec<String> = granted.errors.iter().map(ToString::to_string).collect();
        status["evaluationError"] = if texts.len() == 1 { texts.concat() } else { format!("[{}]", texts.join(", ")) }.into();
    }
    // The answer is a new object, without the question.
    let mut answer = json!({"metadata": {}, "spec": {}, "status": status});
    for field in ["kind", "apiVersion"] {
        answer[field] = review[field].clone();
    }
    Ok(answer)
}

/// SelfSubjectReview: who one is.
pub fn review_own_identity(user: &UserInfo, review: &Value, now: Timestamp) -> Result<Value> {
    let seconds = Timestamp::from_second(now.as_second()).map_err(|e| ApiError::internal(e.to_string()))?;
    // The answer is a new object: nothing of what was sent stays.
    let mut answer = json!({"metadata": {"creationTimestamp": seconds.to_string()}, "status": {"userInfo": user}});
    for field in ["kind", "apiVersion"] {
        answer[field] = review[field].clone();
    }
    Ok(answer)
}

/// TokenReview: whom a token stands for.
pub fn review_token(authenticator: &Authenticator, review: &Value, now: Timestamp) -> Result<Value> {
    let token = text(review, "/spec/token");
    if token.is_empty() {
        return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
    }
    let audiences: Vec<String> = review
        .pointer("/spec/audiences")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    let status = match authenticator.token_user(token, &audiences, now) {
        Ok((user, audiences)) => json!({ "authenticated": true, "user": user, "audiences": audiences }),
        Err(error) => json!({ "user": {}, "error": error.to_string() }),
    };
    Ok(with_status(review, status))
}

fn access<V: RoleView + ?Sized>(view: &V, review: &Value, scope: ReviewScope<'_>, user: Option<&UserInfo>) -> Result<Value> {
    validate(review, scope)?;
    let spec = review.get("spec").cloned().unwrap_or_default();
    let user = match user {
        Some(user) => user.clone(),
        None => subject(&spec),
    };
    let decision = authorize(view, &question(user, &spec));
    let mut status = json!({ "allowed": decision.allowed });
    if !decision.reason.is_empty() {
        status["reason"] = decision.reason.into();
    }
    let ignored = ignored_selectors(&spec);
    if !ignored.is_empty() {
        status["evaluationError"] = ignored.into();
    }
    Ok(with_status(review, status))
}

fn subject(spec: &Value) -> UserInfo {
    let strings =
        |value: &Value| -> Vec<String> { value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect() };
    let extra: BTreeMap<String, Vec<String>> =
        spec.get("extra").and_then(Value::as_object).into_iter().flatten().map(|(key, value)| (key.clone(), strings(value))).collect();
    UserInfo {
        name: text(spec, "/user").to_owned(),
        uid: text(spec, "/uid").to_owned(),
        groups: spec.get("groups").map(strings).unwrap_or_default(),
        extra,
    }
}

fn question(user: UserInfo, spec: &Value) -> Attributes {
    if let Some(resource) = spec.get("resourceAttributes").filter(|v| !v.is_null()) {
        let field = |name: &str| resource.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        return Attributes {
            user,
            verb: field("verb"),
            namespace: field("namespace"),
            api_group: field("group"),
            api_version: field("version"),
            resource: field("resource"),
            subresource: field("subresource"),
            name: field("name"),
            resource_request: true,
            path: String::new(),
        };
    }
    Attributes::url(user, text(spec, "/nonResourceAttributes/verb"), text(spec, "/nonResourceAttributes/path"))
}

fn validate(review: &Value, scope: ReviewScope<'_>) -> Result<()> {
    let part = |pointer: &str| review.pointer(pointer).filter(|v| !v.is_null());
    let (resource, path) = (part("/spec/resourceAttributes"), part("/spec/nonResourceAttributes"));
    let mut causes = Vec::new();
    let mut refuse = |field: &str, value: &Value, why: &str| causes.push(Cause::invalid(field, value, why));
    match (resource, path) {
        (Some(_), Some(path)) => {
            refuse("spec.nonResourceAttributes", &shown(path), "cannot be specified in combination with resourceAttributes");
        }
        (None, None) => {
            let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            refuse("spec.resourceAttributes", &Value::Null, why);
        }
        _ => {}
    }
    let has_groups = part("/spec/groups").and_then(Value::as_array).is_some_and(|g| !g.is_empty());
    if scope != ReviewScope::Own && text(review, "/spec/user").is_empty() && !has_groups {
        refuse("spec.user", &"".into(), "at least one of user or group must be specified");
    }
    let own = metadata(review, scope);
    if !own.is_empty() {
        let why = match scope {
            ReviewScope::Namespace(_) => "must be empty except for namespace",
            _ => "must be empty",
        };
        causes.push(Cause::new(
            "FieldValueInvalid",
            format!("Invalid value: {}: {why}", crate::object::go_metadata(&own, &mainstay_schema::metadata::GO_ORDER)),
            "metadata",
        ));
    }
    for (kind, name) in [("fieldSelector", "field"), ("labelSelector", "label")] {
        if let Some(selector) = resource.and_then(|resource| resource.get(kind)).filter(|selector| selector.is_object()) {
            causes.extend(selector_causes(selector, &format!("spec.resourceAttributes.{kind}"), name));
        }
    }
    let mut refuse = |field: &str, value: &Value, why: &str| causes.push(Cause::invalid(field, value, why));
    if let ReviewScope::Namespace(namespace) = scope {
        if let Some(resource) = resource {
            let found = resource.get("namespace").and_then(Value::as_str).unwrap_or_default();
            if found != namespace {
                refuse("spec.resourceAttributes.namespace", &found.into(), "must match metadata.namespace");
            }
        }
        if let Some(path) = path {
            refuse("spec.nonResourceAttributes", &shown(path), "disallowed on this kind of request");
        }
    }
    if causes.is_empty() { Ok(()) } else { Err(ApiError::invalid(AUTHORIZATION, "", "", causes)) }
}

/// Problems of a selector of the access that is asked about. RBAC does not look at selectors; other authorizers may.
fn selector_causes(selector: &Value, path: &str, kind: &str) -> Vec<Cause> {
    let raw = text(selector, "/rawSelector");
    let requirements = selector.get("requirements").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut causes = Vec::new();
    if !raw.is_empty() && !requirements.is_empty() {
        let why = "may not specified at the same time as requirements";
        causes.push(Cause::invalid(format!("{path}.rawSelector"), &raw.into(), why));
    }
    if raw.is_empty() && requirements.is_empty() {
        let why = format!("when {path} is specified, requirements or rawSelector is required");
        causes.push(Cause::required(format!("{path}.requirements"), &why));
    }
    for (index, requirement) in requirements.iter().enumerate() {
        let path = format!("{path}.requirements[{index}]");
        let values = requirement.get("values").and_then(Value::as_array).is_some_and(|values| !values.is_empty());
        if kind == "field" && text(requirement, "/key").is_empty() {
            causes.push(Cause::required(format!("{path}.key"), "must be specified"));
        }
        match text(requirement, "/operator") {
            "In" | "NotIn" if !values => {
                causes.push(Cause::required(format!("{path}.values"), "must be specified when `operator` is 'In' or 'NotIn'"));
            }
            "Exists" | "DoesNotExist" if values => {
                causes
                    .push(Cause::forbidden(format!("{path}.values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
            }
            _ => {}
        }
    }
    causes
}

/// Selectors that cannot be read do not narrow the question; the answer says so.
fn ignored_selectors(spec: &Value) -> String {
    let Some(resource) = spec.get("resourceAttributes") else { return String::new() };
    let fields = resource.get("fieldSelector").map_or((0, 0), |selector| {
        read(
            selector,
            |text| FieldSelector::parse(text).is_ok(),
            |_, operator, values| matches!(operator, "In" | "NotIn") && values.len() == 1,
        )
    });
    let labels = resource.get("labelSelector").map_or((0, 0), |selector| {
        read(
            selector,
            |text| parse_labels(text).is_ok(),
            |key, operator, values| {
                let text = match operator {
                    "In" => format!("{key} in ({})", values.join(",")),
                    "NotIn" => format!("{key} notin ({})", values.join(",")),
                    "Exists" => key.to_owned(),
                    "DoesNotExist" => format!("!{key}"),
                    _ => return false,
                };
                parse_labels(&text).is_ok()
            },
        )
    });
    let told = [("fieldSelector", fields), ("labelSelector", labels)].into_iter().filter_map(|(name, (good, bad))| {
        let how = if good > 0 { "partially ignored" } else { "ignored" };
        (bad > 0).then(|| format!("spec.resourceAttributes.{name} {how} due to parse error"))
    });
    told.collect::<Vec<_>>().join("; ")
}

/// The numbers of a selector's requirements that can be read, and that cannot.
fn read(selector: &Value, is_text: impl Fn(&str) -> bool, is_requirement: impl Fn(&str, &str, &[&str]) -> bool) -> (usize, usize) {
    let requirements = selector.get("requirements").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if requirements.is_empty() {
        let raw = text(selector, "/rawSelector");
        return if raw.is_empty() || is_text(raw) { (1, 0) } else { (0, 1) };
    }
    let good = requirements.iter().filter(|requirement| {
        let values = requirement.get("values").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        is_requirement(text(requirement, "/key"), text(requirement, "/operator"), &values.collect::<Vec<_>>())
    });
    let good = good.count();
    (good, requirements.len() - good)
}

/// The metadata that a review must not have, as Go's struct is shown: all of it.
fn metadata(review: &Value, scope: ReviewScope<'_>) -> Map<String, Value> {
    let mut own = review.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    own.retain(|_, value| !value.is_null() && value.as_str() != Some(""));
    let allowed = |key: &str| key == "managedFields" || key == "namespace" && matches!(scope, ReviewScope::Namespace(_));
    if own.keys().all(|key| allowed(key)) { Map::new() } else { own }
}

/// Non-resource attributes as the error text shows them: by the names of upstream's own fields.
fn shown(path: &Value) -> Value {
    let field = |name: &str| path.get(name).and_then(Value::as_str).unwrap_or_default();
    json!({ "Path": field("path"), "Verb": field("verb") })
}

fn with_status(review: &Value, status: Value) -> Value {
    let mut answer = if review.is_object() { review.clone() } else { json!({}) };
    answer["status"] = status;
    answer
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
