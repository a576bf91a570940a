//! Query parameters and `DeleteOptions`, checked with the words of Kubernetes' own validation.

use std::time::Duration;

use mainstay_objects::Requirements;
use serde_json::Value;

use super::query::Query;
use crate::error::{ApiError, Cause, Result};
use crate::selector::{FieldSelector, InvalidSelector, parse_labels};

/// Why a text is no resource version, in the words that Kubernetes answers with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidResourceVersion(String);

/// The longest time that a request may take.
pub const LONGEST: Duration = Duration::from_secs(60);

/// The time that a request may take: what its `timeout` asks for, at most the longest.
pub fn timeout(query: &Query) -> Result<Duration> {
    let Some(text) = query.text("timeout") else { return Ok(LONGEST) };
    let wanted = crate::gotime::duration(text)
        .map_err(|why| ApiError::bad_request(format!("invalid timeout specified in the request URL - {why}")))?;
    Ok(if wanted.is_zero() { LONGEST } else { wanted.min(LONGEST) })
}

/// The parts of objects that the rows of a table hold beside their cells (`includeObject`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Include {
    /// The metadata.
    #[default]
    Metadata,
    /// The whole object.
    Object,
    /// Nothing.
    None,
}

/// `resourceVersionMatch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionMatch {
    /// `NotOlderThan`.
    NotOlderThan,
    /// `Exact`.
    Exact,
}

/// `ListOptions`.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the fields are those of ListOptions")]
pub struct ListOptions {
    pub labels: Requirements,
    pub fields: FieldSelector,
    pub watch: bool,
    pub allow_watch_bookmarks: bool,
    /// `None` unset, `Some(0)` any.
    pub resource_version: Option<u64>,
    pub resource_version_match: Option<VersionMatch>,
    pub timeout_seconds: Option<u64>,
    pub limit: u64,
    pub continue_token: String,
    pub send_initial_events: Option<bool>,
}

impl ListOptions {
    /// Reads and checks the parameters of a list, watch or deletecollection.
    pub fn parse(query: &Query, watch: bool) -> Result<Self> {
        Self::decode(query, watch)?.versions(query)
    }

    /// Reads the parameters, without looking at what they mean together.
    pub fn decode(query: &Query, watch: bool) -> Result<Self> {
        let refuse = |selector: InvalidSelector| ApiError::bad_request(selector.to_string());
        // In this order; the first that cannot be read is the answer.
        let (timeout, limit) = (number(query, "timeoutSeconds")?, number(query, "limit")?);
        Ok(Self {
            labels: parse_labels(query.first("labelSelector").unwrap_or_default()).map_err(refuse)?,
            fields: FieldSelector::parse(query.first("fieldSelector").unwrap_or_default()).map_err(refuse)?,
            watch,
            allow_watch_bookmarks: query.flag("allowWatchBookmarks"),
            timeout_seconds: timeout.and_then(|seconds| u64::try_from(seconds).ok()),
            limit: limit.and_then(|limit| u64::try_from(limit).ok()).unwrap_or_default(),
            continue_token: query.first("continue").unwrap_or_default().to_owned(),
            send_initial_events: query.first("sendInitialEvents").map(|_| query.flag("sendInitialEvents")),
            resource_version: None,
            resource_version_match: None,
        })
    }

    /// The findings about a watch, in Kubernetes' order.
    fn watch_causes(&self, matching: &str) -> Vec<Cause> {
        let mut causes = Vec::new();
        let forbid = |why| Cause::forbidden("resourceVersionMatch", why);
        if self.send_initial_events.is_some() && matching != "NotOlderThan" {
            causes.push(forbid("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"));
        }
        if !matching.is_empty() {
            if self.send_initial_events.is_none() {
                causes.push(forbid("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"));
            }
            if matching != "NotOlderThan" {
                causes.push(Cause::unsupported("resourceVersionMatch", &format!("{matching:?}"), &["NotOlderThan"]));
            }
            if !self.continue_token.is_empty() {
                causes.push(forbid("resourceVersionMatch is forbidden when continue is provided"));
            }
        }
        causes
    }

    /// The findings about a list.
    fn list_causes(&self, matching: &str, version: &str) -> Vec<Cause> {
        let mut causes = Vec::new();
        let forbid = |why| Cause::forbidden("resourceVersionMatch", why);
        if !matching.is_empty() {
            if version.is_empty() {
                causes.push(forbid("resourceVersionMatch is forbidden unless resourceVersion is provided"));
            }
            if !self.continue_token.is_empty() {
                causes.push(forbid("resourceVersionMatch is forbidden when continue is provided"));
            }
            if !matches!(matching, "Exact" | "NotOlderThan") {
                causes.push(Cause::unsupported("resourceVersionMatch", &format!("{matching:?}"), &["Exact", "NotOlderThan", ""]));
            }
            if matching == "Exact" && version == "0" {
                causes.push(forbid("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""));
            }
        }
        if self.send_initial_events.is_some() {
            causes.push(Cause::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
        causes
    }

    fn versions(mut self, query: &Query) -> Result<Self> {
        let version = query.first("resourceVersion").unwrap_or_default();
        let matching = query.first("resourceVersionMatch").unwrap_or_default();
        let causes = if self.watch { self.watch_causes(matching) } else { self.list_causes(matching, version) };
        if !causes.is_empty() {
            return Err(ApiError::invalid("meta.k8s.io", "ListOptions", "", causes));
        }
        self.resource_version = resource_version(version).map_err(|why| {
            if self.watch { ApiError::untyped(why.to_string()) } else { ApiError::bad_request(format!("invalid resource version: {why}")) }
        })?;
        self.resource_version_match = match matching {
            "Exact" => Some(VersionMatch::Exact),
            "NotOlderThan" => Some(VersionMatch::NotOlderThan),
            _ => None,
        };
        Ok(self)
    }
}

/// Reads a `resourceVersion` parameter, or says what is wrong with it.
pub fn resource_version(text: &str) -> Result<Option<u64>, InvalidResourceVersion> {
    match text {
        "" => Ok(None),
        _ => text.parse().map(Some).map_err(|_| {
            InvalidResourceVersion(format!("resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"))
        }),
    }
}

/// A number that may be left out, and may not be empty.
fn number(query: &Query, name: &str) -> Result<Option<i64>> {
    query.first(name).map(parsed).transpose()
}

fn parsed(text: &str) -> Result<i64> {
    text.parse().map_err(|_| ApiError::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax")))
}

/// `fieldValidation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Unknown and duplicate fields are dropped silently.
    Ignore,
    /// They are dropped and named in `Warning` headers.
    #[default]
    Warn,
    /// They are refused.
    Strict,
}

/// `CreateOptions`, `UpdateOptions` and `PatchOptions`.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the fields are those of the options objects")]
pub struct WriteOptions {
    pub dry_run: bool,
    pub field_manager: String,
    pub field_validation: FieldValidation,
    pub force: Option<bool>,
}

impl WriteOptions {
    /// Reads and checks the parameters of a write; `kind` is `CreateOptions`, `UpdateOptions` or `PatchOptions`.
    pub fn parse(query: &Query, kind: &str, user_agent: &str) -> Result<Self> {
        let mut causes = Vec::new();
        let dry_run = dry_run(&query.all("dryRun").collect::<Vec<_>>(), &mut causes);
        let manager = query.first("fieldManager").unwrap_or_default();
        check_manager(manager, &mut causes);
        let field_validation = match query.first("fieldValidation").unwrap_or_default() {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                causes.push(Cause::unsupported("fieldValidation", &format!("{other:?}"), &["", "Ignore", "Strict", "Warn"]));
                FieldValidation::Warn
            }
        };
        if !causes.is_empty() {
            return Err(ApiError::invalid("meta.k8s.io", kind, "", causes));
        }
        let field_manager = if manager.is_empty() { manager_of(user_agent) } else { manager.to_owned() };
        Ok(Self { dry_run, field_manager, field_validation, force: query.first("force").map(|_| query.flag("force")) })
    }
}

/// Checks what only patches have: apply needs a manager, force is apply's alone.
pub fn check_patch(query: &Query, apply: bool) -> Result<()> {
    let refuse = |cause| Err(ApiError::invalid_options("PatchOptions", cause));
    if apply && query.text("fieldManager").is_none() {
        return refuse(Cause::required("fieldManager", "is required for apply patch"));
    }
    if !apply && query.first("force").is_some() {
        return refuse(Cause::forbidden("force", "may not be specified for non-apply patch"));
    }
    Ok(())
}

fn dry_run(values: &[&str], causes: &mut Vec<Cause>) -> bool {
    if values.iter().any(|value| *value != "All") {
        let shown = serde_json::json!(values).to_string();
        causes.push(Cause::unsupported("dryRun", &shown, &["All"]));
    }
    !values.is_empty()
}

fn check_manager(manager: &str, causes: &mut Vec<Cause>) {
    if manager.len() > 128 {
        causes.push(Cause::new("FieldValueTooLong", "Too long: may not be more than 128 bytes", "fieldManager"));
    }
    if let Some((index, bad)) = manager.char_indices().find(|(_, c)| c.is_control()) {
        let why = format!("invalid character U+{:04X} (at position {index})", bad as u32);
        causes.push(Cause::new("FieldValueInvalid", format!("Invalid value: {}: {why}", mainstay_golang::quote(manager)), "fieldManager"));
    }
}

/// The manager of a write that names none: the user agent up to the first slash.
pub fn manager_of(user_agent: &str) -> String {
    let name: String = user_agent.split('/').next().unwrap_or_default().chars().filter(|c| !c.is_control()).take(128).collect();
    if name.is_empty() { "unknown".into() } else { name }
}

/// `propagationPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of DeletionPropagation")]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// `DeleteOptions`, from the query and the body.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the fields are those of DeleteOptions")]
pub struct DeleteOptions {
    pub dry_run: bool,
    pub grace_period_seconds: Option<i64>,
    pub propagation: Option<Propagation>,
    /// As it was given; what follows from it stands in `propagation`.
    pub orphan_dependents: Option<bool>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}

impl DeleteOptions {
    /// Reads the options; those in a body win over the query, as in Kubernetes.
    pub fn parse(query: &Query, body: Option<&Value>) -> Result<Self> {
        let mut causes = Vec::new();
        let mut options = Self::default();
        let (policy, orphan, dry_runs): (_, _, Vec<&str>);
        if let Some(body) = body.filter(|body| !body.is_null()) {
            check_delete_options(body)?;
            dry_runs = body.get("dryRun").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
            options.grace_period_seconds = body.get("gracePeriodSeconds").and_then(Value::as_i64);
            let precondition = |name: &str| body.pointer("/preconditions")?.get(name)?.as_str().map(str::to_owned);
            options.uid = precondition("uid");
            options.resource_version = precondition("resourceVersion");
            policy = body.get("propagationPolicy").and_then(Value::as_str).map(str::to_owned);
            orphan = body.get("orphanDependents").and_then(Value::as_bool);
        } else {
            dry_runs = query.all("dryRun").collect();
            options.grace_period_seconds = number(query, "gracePeriodSeconds")?;
            options.resource_version = query.first("resourceVersion").map(str::to_owned);
            options.uid = query.first("uid").map(str::to_owned);
            policy = query.first("propagationPolicy").map(str::to_owned);
            orphan = query.first("orphanDependents").map(|_| query.flag("orphanDependents"));
        }
        if let (Some(policy), Some(_)) = (&policy, orphan) {
            let why = format!("Invalid value: {policy:?}: orphanDependents and deletionPropagation cannot be both set");
            causes.push(Cause::new("FieldValueInvalid", why, "propagationPolicy"));
        }
        options.propagation = match policy.as_deref() {
            None => match orphan {
                Some(true) => Some(Propagation::Orphan),
                Some(false) => Some(Propagation::Background),
                None => None,
            },
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                causes.push(Cause::unsupported("propagationPolicy", &format!("{other:?}"), &supported));
                None
            }
        };
        options.orphan_dependents = orphan;
        options.dry_run = dry_run(&dry_runs, &mut causes);
        if causes.is_empty() { Ok(options) } else { Err(ApiError::invalid("meta.k8s.io", "DeleteOptions", "", causes)) }
    }
}

/// The definition of `DeleteOptions`.
const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";

/// Refuses a body that is another kind's, or does not fit. Every group version has `DeleteOptions`, whichever it says.
fn check_delete_options(body: &Value) -> Result<()> {
    let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
    let (kind, version) = (text("kind"), text("apiVersion"));
    if !matches!(kind, "" | "DeleteOptions") {
        let version = if version.is_empty() { "v1" } else { version };
        let unversioned = matches!(kind, "Status" | "APIVersions" | "APIGroup" | "APIGroupList" | "APIResourceList");
        return Err(ApiError::bad_request(if unversioned && version == "v1" {
            format!("converting (v1.{kind}) to (v1.DeleteOptions): unknown conversion")
        } else {
            format!("no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\"")
        }));
    }
    match crate::decode::misfit(DELETE_OPTIONS, "DeleteOptions", body) {
        Some(why) => Err(ApiError::bad_request(why)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// KAPI-SRV-06: a request may ask for less time, not for more.
    #[test]
    fn timeouts() {
        let cases = [("", LONGEST), ("timeout=0s", LONGEST), ("timeout=34s", Duration::from_secs(34)), ("timeout=10m", LONGEST)];
        for (query, wanted) in cases {
            assert_eq!(timeout(&Query::parse(query)).unwrap(), wanted, "{query}");
        }
        let refused = timeout(&Query::parse("timeout=soon")).unwrap_err();
        assert_eq!(refused.message, "invalid timeout specified in the request URL - time: invalid duration \"soon\"");
    }
}
