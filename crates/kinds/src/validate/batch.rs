//! Jobs and CronJobs.

use mainstay_schema::field::{Error, Path};
use serde_json::{Value, json};

use super::{Errors, flag, has, int, labels, meta, not_negative, text, workloads};

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
    let mode = text(spec, "completionMode");
    if !mode.is_empty() {
        if !["Indexed", "NonIndexed"].contains(&mode) {
            errors.push(Error::not_supported(&path.child("completionMode"), mode, &["Indexed", "NonIndexed"]));
        }
        if mode == "Indexed" {
            if !has(spec, "completions") {
                errors.push(Error::required(&path.child("completions"), "when completion mode is Indexed"));
            }
            if let Some(parallelism) = int(spec, "parallelism").filter(|parallelism| *parallelism > 100_000) {
                let words = "must be less than or equal to 100000 when completion mode is Indexed";
                errors.push(Error::invalid(&path.child("parallelism"), parallelism, words));
            }
        }
    }
    if has(spec, "backoffLimitPerIndex") && mode != "Indexed" {
        let words = "requires indexed completion mode";
        errors.push(Error::invalid(&path.child("backoffLimitPerIndex"), spec.get("backoffLimitPerIndex"), words));
    }
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

pub(super) fn job_update(new: &Value, old: &Value) -> Errors {
    let (spec, before) = (spec(new), spec(old));
    let path = Path::new("spec");
    let mut errors = job_spec(spec, &path);
    let suspended = flag(before, "suspend") && old.pointer("/status/startTime").is_none_or(serde_json::Value::is_null);
    let fixed = |field: &str| -> Errors {
        if spec.get(field) == before.get(field) {
            return Vec::new();
        }
        vec![Error::invalid(&path.child(field), spec.get(field), "field is immutable")]
    };
    // Indexed jobs scale by completions and parallelism together.
    let scales =
        text(spec, "completionMode") == "Indexed" && int(spec, "completions") == int(spec, "parallelism") && has(spec, "completions");
    if !scales {
        errors.extend(fixed("completions"));
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
        errors.push(Error::invalid(&path.child("template"), template, "field is immutable"));
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
        if let Err(problem) = parse_schedule(schedule) {
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
    let metadata = template.get("metadata").unwrap_or(&Value::Null);
    errors.extend(labels::labels(super::map(metadata, "labels"), &own.child("metadata").child("labels")));
    errors.extend(meta::annotations(super::map(metadata, "annotations"), &own.child("metadata").child("annotations")));
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

const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// What is wrong with a schedule of five fields, or a named one.
pub(crate) fn parse_schedule(schedule: &str) -> Result<(), String> {
    let trimmed = match schedule.strip_prefix("TZ=").or(schedule.strip_prefix("CRON_TZ=")) {
        Some(rest) => rest.split_once(' ').map_or("", |(_, rest)| rest).trim(),
        None => schedule.trim(),
    };
    if let Some(name) = trimmed.strip_prefix('@') {
        return match name {
            "yearly" | "annually" | "monthly" | "weekly" | "daily" | "midnight" | "hourly" => Ok(()),
            _ if name.starts_with("every ") => Ok(()),
            _ => Err(format!("unrecognized descriptor: {trimmed}")),
        };
    }
    let fields: Vec<&str> = trimmed.split_whitespace().collect();
    if fields.len() != 5 {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    let bounds: [(u32, u32, &[&str], u32); 5] = [(0, 59, &[], 0), (0, 23, &[], 0), (1, 31, &[], 0), (1, 12, MONTHS, 1), (0, 6, DAYS, 0)];
    for (field, (low, high, named, first)) in fields.iter().zip(bounds) {
        for part in field.split(',') {
            schedule_part(part, low, high, named, first)?;
        }
    }
    Ok(())
}

fn schedule_part(part: &str, low: u32, high: u32, named: &[&str], first: u32) -> Result<(), String> {
    let number = |text: &str| -> Result<u32, String> {
        if let Some(at) = named.iter().position(|name| name.eq_ignore_ascii_case(text)) {
            return Ok(at as u32 + first);
        }
        text.parse::<u32>().map_err(|_| format!("failed to parse int from {text}: strconv.Atoi: parsing \"{text}\": invalid syntax"))
    };
    let pieces: Vec<&str> = part.split('/').collect();
    let (range, step) = match pieces.as_slice() {
        [range] => (*range, None),
        [range, step] => (*range, Some(*step)),
        _ => return Err(format!("too many slashes: {part}")),
    };
    let ends: Vec<&str> = range.split('-').collect();
    let (mut start, mut end) = (low, high);
    if range != "*" && range != "?" {
        start = number(ends[0])?;
        end = match ends.as_slice() {
            [_] if step.is_some() => high,
            [_] => start,
            [_, last] => number(last)?,
            _ => return Err(format!("too many hyphens: {part}")),
        };
    }
    if let Some(step) = step
        && number(step)? == 0
    {
        return Err(format!("step of range should be a positive number: {part}"));
    }
    if start < low {
        return Err(format!("beginning of range ({start}) below minimum ({low}): {part}"));
    }
    if end > high {
        return Err(format!("end of range ({end}) above maximum ({high}): {part}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {part}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules() {
        for good in ["*/5 * * * *", "0 0 1 jan mon-fri", "@daily", "1,2-4 3/2 ? * 0"] {
            assert_eq!(parse_schedule(good), Ok(()), "{good}");
        }
        assert_eq!(parse_schedule("* * *").err().as_deref(), Some("expected exactly 5 fields, found 3: [* * *]"));
        assert_eq!(parse_schedule("61 * * * *").err().as_deref(), Some("end of range (61) above maximum (59): 61"));
        for bad in ["*/0 * * * *", "x * * * *", "5-1 * * * *", "@never", "1/2/3 * * * *"] {
            assert!(parse_schedule(bad).is_err(), "{bad}");
        }
    }
}
