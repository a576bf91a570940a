//! Jobs and CronJobs.

use mainstay_schema::field::{BadValue, Error, Path};
use serde_json::{Map, Value};

use crate::schedule::Schedule;

use super::{Errors, flag, has, int, internal, job_policy, labels, names, not_negative, text, workloads};

fn spec(object: &Value) -> &Value {
    object.get("spec").unwrap_or(&Value::Null)
}

pub(super) fn job(object: &Value) -> Errors {
    whole(object, true)
}

/// The rules for a changed job: labels with a prefix are asked for if it had them.
pub(super) fn job_again(new: &Value, old: &Value) -> Errors {
    let had = |label: &str| label_of(spec(old), label).is_some();
    whole(new, had("batch.kubernetes.io/job-name") && had("batch.kubernetes.io/controller-uid"))
}

fn whole(object: &Value, prefixed: bool) -> Errors {
    let mut errors = generated_selector(object, prefixed);
    errors.extend(job_spec(spec(object), &Path::new("spec")));
    let completions = int(spec(object), "completions").filter(|completions| *completions > 0);
    if let Some(completions) = completions.filter(|_| text(spec(object), "completionMode") == "Indexed") {
        // The pods of an indexed job bear the index in their host names.
        let name = object.get("metadata").map_or("", |metadata| text(metadata, "name"));
        let last = format!("{name}-{}", completions - 1);
        if !names::label(&last).is_empty() {
            let words = format!("will not able to create pod with invalid DNS label: {last}");
            errors.push(Error::invalid(&Path::new("metadata").child("name"), name, words));
        }
    }
    errors
}

fn label_of<'a>(spec: &'a Value, label: &str) -> Option<&'a str> {
    spec.pointer("/template/metadata/labels")?.get(label)?.as_str()
}

/// A selector that the server made must be the one that it would make.
fn generated_selector(object: &Value, prefixed: bool) -> Errors {
    let spec = spec(object);
    let selector = spec.get("selector").filter(|selector| !selector.is_null());
    let Some(selector) = selector.filter(|_| !flag(spec, "manualSelector")) else { return Vec::new() };
    let of = |field: &str| object.get("metadata").map_or("", |metadata| text(metadata, field));
    let (uid, name) = (of("uid"), of("name"));
    let mut errors = Vec::new();
    if uid.is_empty() {
        errors.push(Error::required(&Path::new("metadata").child("uid"), ""));
    }
    let mut expected = Map::new();
    let labels =
        [("controller-uid", uid), ("job-name", name), ("batch.kubernetes.io/controller-uid", uid), ("batch.kubernetes.io/job-name", name)];
    for (key, value) in labels.into_iter().take(if prefixed { 4 } else { 2 }) {
        let path = Path::new("spec").children(&["template", "metadata", "labels"]).key(key);
        match label_of(spec, key) {
            None => errors.push(Error::required(&path, format!("must be '{value}'"))),
            Some(found) if found != value => {
                let shown = labels::shown(spec.get("template").unwrap_or(&Value::Null));
                errors.push(Error::invalid(&path, shown, format!("must be '{value}'")));
            }
            Some(_) => {}
        }
        expected.insert(key.to_owned(), value.into());
    }
    if labels::is_valid(selector) && !labels::matches(Some(selector), Some(&expected)) {
        let words = "`selector` not auto-generated";
        errors.push(Error::invalid(&Path::new("spec").child("selector"), internal::shown("meta", selector), words));
    }
    errors
}

fn job_spec(spec: &Value, path: &Path) -> Errors {
    let mut errors = counts(spec, path);
    if has(spec, "selector") {
        errors.extend(labels::selector(spec.get("selector"), &path.child("selector")));
    } else {
        errors.push(Error::required(&path.child("selector"), ""));
    }
    let template = spec.get("template").unwrap_or(&Value::Null);
    let selector = spec.get("selector").filter(|selector| !selector.is_null());
    if selector.is_none_or(labels::is_valid) && !labels::matches(selector, template.pointer("/metadata/labels").and_then(Value::as_object))
    {
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

/// Findings about the indexes that may fail: jobs of very many completions are held tighter.
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
        // A job that has never run may still choose the place of its pods.
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
    let mut errors = cron_spec(spec(object), None);
    // Names of its jobs add a dash and ten digits.
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    if name.len() > 52 {
        errors.push(Error::invalid(&Path::new("metadata").child("name"), name, "must be no more than 52 characters"));
    }
    errors
}

/// The rules for a changed job: its name and its time zone may be what they were.
pub(super) fn cron_job_again(new: &Value, old: &Value) -> Errors {
    cron_spec(spec(new), Some(spec(old)))
}

fn cron_spec(spec: &Value, before: Option<&Value>) -> Errors {
    let path = Path::new("spec");
    let mut errors = Vec::new();
    let schedule = text(spec, "schedule");
    if schedule.is_empty() {
        errors.push(Error::required(&path.child("schedule"), ""));
    } else {
        if let Err(problem) = Schedule::parse(schedule) {
            errors.push(Error::invalid(&path.child("schedule"), schedule, problem.to_string()));
        }
        if schedule.contains("TZ") && before.is_some_and(|before| text(before, "schedule").contains("TZ")) {
            if has(spec, "timeZone") {
                let words = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
                errors.push(Error::invalid(&path.child("schedule"), schedule, words));
            }
        } else if schedule.contains("TZ") {
            let words = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
            errors.push(Error::invalid(&path.child("schedule"), schedule, words));
        }
    }
    errors.extend(not_negative(spec, "startingDeadlineSeconds", &path));
    if before.is_none_or(|before| before.get("timeZone") != spec.get("timeZone")) && has(spec, "timeZone") {
        errors.extend(time_zone(text(spec, "timeZone"), &path.child("timeZone")));
    }
    errors.extend(super::one_of(spec, "concurrencyPolicy", &path, &["Allow", "Forbid", "Replace"]));
    let own = path.child("jobTemplate").child("spec");
    let job = spec.pointer("/jobTemplate/spec").unwrap_or(&Value::Null);
    errors.extend(counts(job, &own));
    if let Some(selector) = job.get("selector").filter(|selector| !selector.is_null()) {
        errors.push(Error::invalid(&own.child("selector"), internal::shown("meta", selector), "`selector` will be auto-generated"));
    }
    if flag(job, "manualSelector") {
        errors.push(Error::not_supported(&own.child("manualSelector"), true, &["nil", "false"]));
    }
    errors.extend(not_negative(spec, "successfulJobsHistoryLimit", &path));
    errors.extend(not_negative(spec, "failedJobsHistoryLimit", &path));
    errors
}

/// Findings about a time zone. Names of zones are known from the database that the program carries; Go tells capitals apart.
fn time_zone(zone: &str, path: &Path) -> Errors {
    if zone.is_empty() {
        return vec![Error::invalid(path, zone, "timeZone must be nil or non-empty string")];
    }
    let unknown = || Error::invalid(path, zone, format!("unknown time zone {zone}"));
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte);
    let good =
        |part: &str| (1..=14).contains(&part.len()) && ![".", ".."].contains(&part) && !part.starts_with('-') && part.bytes().all(letter);
    if !zone.split('/').all(good) {
        return vec![unknown()];
    }
    let mut errors = Vec::new();
    if zone.eq_ignore_ascii_case("local") {
        let words = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.push(Error::invalid(path, zone, words));
    }
    let known = ["UTC", "Local"].contains(&zone) || jiff::tz::TimeZone::get(zone).is_ok_and(|found| found.iana_name() == Some(zone));
    if !known {
        errors.push(unknown());
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_zones() {
        let told = |zone: &str| time_zone(zone, &Path::new("z")).iter().map(|error| error.detail.clone()).collect::<Vec<_>>();
        assert_eq!(told("Europe/Berlin"), Vec::<String>::new());
        assert_eq!(told("Etc/GMT+5"), Vec::<String>::new());
        assert_eq!(told("europe/berlin"), ["unknown time zone europe/berlin"]);
        assert_eq!(told("../Berlin"), ["unknown time zone ../Berlin"]);
        assert_eq!(told("Local").len(), 1);
        assert_eq!(told("local").len(), 2);
    }
}
