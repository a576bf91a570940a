//! Jobs and CronJobs.

use mainstay_schema::field::{BadValue, Error, Path};
use serde_json::{Value, json};

use crate::schedule::Schedule;

use super::{Errors, flag, has, int, internal, job_policy, labels, names, not_negative, text, workloads};

fn spec(object: &Value) -> &Value {
    object.get("spec").unwrap_or(&Value::Null)
}

pub(super) fn job(object: &Value) -> Errors {
    let path = Path::new("spec");
    let mut errors = generated_selector(object);
    errors.extend(job_spec(spec(object), &path));
    errors
}

/// A selector that the server made must be the one that it would make.
fn generated_selector(object: &Value) -> Errors {
    let spec = spec(object);
    if flag(spec, "manualSelector") {
        return Vec::new();
    }
    let uid = object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
    let wanted = json!({"batch.kubernetes.io/controller-uid": uid});
    let mut errors = Vec::new();
    for (key, value) in [("batch.kubernetes.io/controller-uid", uid), ("controller-uid", uid)] {
        let label = spec.pointer("/template/metadata/labels").and_then(|labels| labels.get(key)).and_then(Value::as_str);
        if label.is_some_and(|label| label != value) {
            let path = Path::new("spec").children(&["template", "metadata"]).child("labels");
            errors.push(Error::invalid(&path, labels::shown(spec.get("template").unwrap_or(&Value::Null)), format!("must be '{value}'")));
        }
    }
    let selector = spec.get("selector").unwrap_or(&Value::Null);
    let good = selector.get("matchLabels").and_then(Value::as_object).is_some_and(|labels| {
        wanted
            .as_object()
            .into_iter()
            .flatten()
            .all(|(key, value)| labels.get(key) == Some(value) || labels.get("controller-uid") == Some(value))
    });
    if !good {
        errors.push(Error::invalid(&Path::new("spec").child("selector"), selector, "`selector` not auto-generated"));
    }
    errors
}

/// The rules of a job whose selector was made before.
pub(super) fn job_again(object: &Value) -> Errors {
    job_spec(spec(object), &Path::new("spec"))
}

fn job_spec(spec: &Value, path: &Path) -> Errors {
    let mut errors = counts(spec, path);
    if has(spec, "selector") {
        errors.extend(labels::selector(spec.get("selector"), &path.child("selector")));
    } else {
        errors.push(Error::required(&path.child("selector"), ""));
    }
    let template = spec.get("template").unwrap_or(&Value::Null);
    if !labels::matches(spec.get("selector"), template.pointer("/metadata/labels").and_then(Value::as_object)) {
        let path = path.children(&["template", "metadata", "labels"]);
        errors.push(Error::invalid(&path, labels::shown(template), "`selector` does not match template `labels`"));
    }
    errors
}

fn counts(spec: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        errors.extend(not_negative(spec, field, path));
    }
    if has(spec, "maxFailedIndexes") && !has(spec, "backoffLimitPerIndex") {
        errors.push(Error::required(&path.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified"));
    }
    if has(spec, "managedBy") {
        let manager = text(spec, "managedBy");
        errors.extend(domain_path(manager, &path.child("managedBy")));
        if manager.len() > 63 {
            errors.push(Error::too_long(&path.child("managedBy"), "", 63));
        }
    }
    let mode = text(spec, "completionMode");
    if has(spec, "completionMode") {
        if !["Indexed", "NonIndexed"].contains(&mode) {
            errors.push(Error::not_supported(&path.child("completionMode"), mode, &["NonIndexed", "Indexed"]));
        }
        if mode == "Indexed" {
            if !has(spec, "completions") {
                errors.push(Error::required(&path.child("completions"), "when completion mode is Indexed"));
            }
            if let Some(parallelism) = int(spec, "parallelism").filter(|parallelism| *parallelism > 100_000) {
                let words = "must be less than or equal to 100000 when completion mode is Indexed";
                errors.push(Error::invalid(&path.child("parallelism"), parallelism, words));
            }
            errors.extend(failed_indexes(spec, path));
        }
    }
    if mode == "NonIndexed" || mode.is_empty() {
        let words = "requires indexed completion mode";
        for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if let Some(value) = int(spec, field) {
                errors.push(Error::invalid(&path.child(field), value, words));
            }
        }
    }
    errors.extend(job_policy::failure(spec, path));
    errors.extend(job_policy::success(spec, path));
    let replacement = text(spec, "podReplacementPolicy");
    if has(spec, "podFailurePolicy") && !replacement.is_empty() && replacement != "Failed" {
        errors.push(Error::not_supported(&path.child("podReplacementPolicy"), replacement, &["Failed"]));
    } else if !replacement.is_empty() && !["Failed", "TerminatingOrFailed"].contains(&replacement) {
        errors.push(Error::not_supported(&path.child("podReplacementPolicy"), replacement, &["Failed", "TerminatingOrFailed"]));
    }
    let template = spec.get("template").unwrap_or(&Value::Null);
    let path = path.child("template");
    errors.extend(workloads::pod_template_spec(template, &path));
    let pod = template.get("spec").unwrap_or(&Value::Null);
    let path = path.child("spec");
    match text(pod, "restartPolicy") {
        "" | "Always" => errors.push(Error::required(&path.child("restartPolicy"), "valid values: \"OnFailure\", \"Never\"")),
        "OnFailure" => {
            if has(spec, "podFailurePolicy") {
                let words = "only \"Never\" is supported when podFailurePolicy is specified";
                errors.push(Error::invalid(&path.child("restartPolicy"), "OnFailure", words));
            }
        }
        "Never" => {}
        other => errors.push(Error::not_supported(&path.child("restartPolicy"), other, &["OnFailure", "Never"])),
    }
    errors
}

/// How many indexes may fail: jobs of very many completions are held tighter.
fn failed_indexes(spec: &Value, path: &Path) -> Errors {
    const MANY: i64 = 100_000;
    const AT_A_TIME: i64 = 10_000;
    let (completions, failed) = (int(spec, "completions"), int(spec, "maxFailedIndexes"));
    let own = path.child("maxFailedIndexes");
    let mut errors = Vec::new();
    if let (Some(completions), Some(failed)) = (completions, failed)
        && failed > completions
    {
        errors.push(Error::invalid(&own, failed, "must be less than or equal to completions"));
    }
    if let Some(failed) = failed.filter(|failed| *failed > MANY) {
        errors.push(Error::invalid(&own, failed, format!("must be less than or equal to {MANY}")));
    }
    if completions.is_some_and(|completions| completions > MANY) && has(spec, "backoffLimitPerIndex") {
        let words =
            format!("must be less than or equal to {AT_A_TIME} when completions are above {MANY} and used with backoff limit per index");
        if failed.is_none() {
            errors.push(Error::required(&own, format!("must be specified when completions is above {MANY}")));
        }
        if let Some(parallelism) = int(spec, "parallelism").filter(|parallelism| *parallelism > AT_A_TIME) {
            errors.push(Error::invalid(&path.child("parallelism"), parallelism, words.clone()));
        }
        if let Some(failed) = failed.filter(|failed| *failed > AT_A_TIME) {
            errors.push(Error::invalid(&own, failed, words));
        }
    }
    errors
}

/// A path below a domain: `example.com/foo`.
pub(super) fn domain_path(given: &str, path: &Path) -> Errors {
    if given.is_empty() {
        return vec![Error::required(path, "")];
    }
    match given.split_once('/') {
        Some((domain, rest)) if !domain.is_empty() && !rest.is_empty() => {
            let mut errors: Errors = names::subdomain(domain).into_iter().map(|why| Error::invalid(path, domain, why)).collect();
            let good = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
            if !rest.bytes().all(good) {
                let words = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
                errors.push(Error::invalid(path, rest, words));
            }
            errors
        }
        _ => vec![Error::invalid(path, given, "must be a domain-prefixed path (such as \"acme.io/foo\")")],
    }
}

pub(super) fn job_update(new: &Value, old: &Value) -> Errors {
    let (spec, before) = (spec(new), spec(old));
    let path = Path::new("spec");
    let mut errors = job_spec(spec, &path);
    let suspended = flag(before, "suspend") && old.pointer("/status/startTime").is_none_or(serde_json::Value::is_null);
    let fixed = |field: &str| -> Errors {
        if spec.get(field) == before.get(field) {
            return Vec::new();
        }
        let shown = match (field, spec.get(field)) {
            ("selector", Some(selector)) => internal::shown("meta", selector),
            ("podFailurePolicy", Some(policy)) => internal::shown("PodFailurePolicy", policy),
            ("successPolicy", Some(policy)) => internal::shown("SuccessPolicy", policy),
            (_, value) => BadValue::from(value),
        };
        vec![Error::invalid(&path.child(field), shown, "field is immutable")]
    };
    // Indexed jobs scale by completions and parallelism together.
    if text(spec, "completionMode") != "Indexed" {
        errors.extend(fixed("completions"));
    } else if let Some(completions) = int(spec, "completions")
        && int(before, "completions") != Some(completions)
        && int(spec, "parallelism") != Some(completions)
    {
        let words = "can only be modified in tandem with spec.parallelism";
        errors.push(Error::invalid(&path.child("completions"), completions, words));
    }
    errors.extend(fixed("selector"));
    let mut template = spec.get("template").cloned().unwrap_or(Value::Null);
    if suspended {
        // A job that has never run may still choose where its pods go.
        let old_template = before.get("template").unwrap_or(&Value::Null);
        for pointer in [
            "/metadata/labels",
            "/metadata/annotations",
            "/spec/nodeSelector",
            "/spec/affinity",
            "/spec/tolerations",
            "/spec/schedulingGates",
        ] {
            let (parent, field) = pointer.rsplit_once('/').unwrap_or(("", pointer));
            if let Some(Value::Object(parent)) = template.pointer_mut(parent) {
                match old_template.pointer(pointer) {
                    Some(value) => parent.insert(field.to_owned(), value.clone()),
                    None => parent.remove(field),
                };
            }
        }
    }
    if Some(&template) != before.get("template") {
        let shown = internal::shown("PodTemplateSpec", spec.get("template").unwrap_or(&Value::Null));
        errors.push(Error::invalid(&path.child("template"), shown, "field is immutable"));
    }
    errors.extend(fixed("completionMode"));
    errors.extend(fixed("podFailurePolicy"));
    errors.extend(fixed("backoffLimitPerIndex"));
    errors.extend(fixed("managedBy"));
    errors.extend(fixed("successPolicy"));
    errors
}

pub(super) fn cron_job(object: &Value) -> Errors {
    let (spec, path) = (spec(object), Path::new("spec"));
    let mut errors = Vec::new();
    let schedule = text(spec, "schedule");
    if schedule.is_empty() {
        errors.push(Error::required(&path.child("schedule"), ""));
    } else {
        if let Err(problem) = Schedule::parse(schedule) {
            errors.push(Error::invalid(&path.child("schedule"), schedule, problem));
        }
        if schedule.contains("TZ") {
            let words = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
            errors.push(Error::invalid(&path.child("schedule"), schedule, words));
        }
    }
    errors.extend(not_negative(spec, "startingDeadlineSeconds", &path));
    if has(spec, "timeZone") {
        let zone = text(spec, "timeZone");
        if zone.is_empty() {
            errors.push(Error::invalid(&path.child("timeZone"), zone, "timeZone must be nil or non-empty string"));
        } else if zone.eq_ignore_ascii_case("local") {
            errors.push(Error::invalid(
                &path.child("timeZone"),
                zone,
                "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
            ));
        }
    }
    errors.extend(super::one_of(spec, "concurrencyPolicy", &path, &["Allow", "Forbid", "Replace"]));
    let template = spec.get("jobTemplate").unwrap_or(&Value::Null);
    let own = path.child("jobTemplate");
    let job = template.get("spec").unwrap_or(&Value::Null);
    if flag(job, "manualSelector") {
        errors.push(Error::not_supported(&own.children(&["spec", "manualSelector"]), true, &["nil", "false"]));
    }
    errors.extend(counts(job, &own.child("spec")));
    errors.extend(not_negative(spec, "successfulJobsHistoryLimit", &path));
    errors.extend(not_negative(spec, "failedJobsHistoryLimit", &path));
    // Names of its jobs add a dash and ten digits.
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    if name.len() > 52 {
        errors.push(Error::invalid(&Path::new("metadata").child("name"), name, "must be no more than 52 characters"));
    }
    errors
}
