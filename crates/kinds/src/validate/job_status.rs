//! The status of a Job: counters, conditions, and what may follow on what. What a later change of the spec made wrong may stay, so that most rules look
//! only at statuses whose fields they are about have changed.

use mainstay_schema::field::{BadValue, Error, Path};
use serde_json::Value;

use super::fields::{Errors, flag, has, int, list, not_negative, text};
use super::internal;

/// A status with the spec that it belongs to.
struct Job<'a> {
    spec: &'a Value,
    status: &'a Value,
}

impl<'a> Job<'a> {
    fn of(object: &'a Value) -> Self {
        Self { spec: object.get("spec").unwrap_or(&Value::Null), status: object.get("status").unwrap_or(&Value::Null) }
    }

    fn state(&self, kind: &str) -> Option<&'a str> {
        list(self.status, "conditions").iter().find(|condition| text(condition, "type") == kind).map(|condition| text(condition, "status"))
    }

    fn is(&self, kind: &str) -> bool {
        list(self.status, "conditions").iter().any(|condition| text(condition, "type") == kind && text(condition, "status") == "True")
    }

    fn is_finished(&self) -> bool {
        self.is("Complete") || self.is("Failed")
    }

    fn is_indexed(&self) -> bool {
        text(self.spec, "completionMode") == "Indexed"
    }

    fn count(&self, field: &str) -> i64 {
        int(self.status, field).unwrap_or(0)
    }

    /// A field that is set.
    fn get(&self, field: &str) -> Option<&'a Value> {
        self.status.get(field).filter(|value| !value.is_null())
    }
}

/// The fields and conditions that differ from the status before.
struct Changes<'a> {
    new: &'a Job<'a>,
    old: &'a Job<'a>,
}

impl Changes<'_> {
    fn condition(&self, kind: &str) -> bool {
        self.new.is(kind) != self.old.is(kind)
    }

    fn finished(&self) -> bool {
        self.new.is_finished() != self.old.is_finished()
    }

    fn field(&self, field: &str) -> bool {
        self.new.get(field) != self.old.get(field)
    }

    fn count(&self, field: &str) -> bool {
        self.new.count(field) != self.old.count(field)
    }

    fn text(&self, field: &str) -> bool {
        text(self.new.status, field) != text(self.old.status, field)
    }
}

/// Findings about a new status.
pub(super) fn job_status(new: &Value, old: &Value) -> Errors {
    let (new, old) = (Job::of(new), Job::of(old));
    let changes = Changes { new: &new, old: &old };
    let path = Path::new("status");
    let mut errors = counters(&new, &path);
    errors.extend(ends(&new, &changes, &path));
    errors.extend(finished(&new, &changes, &path));
    errors.extend(indexes(&new, &changes, &path));
    errors.extend(pods_at_work(&new, &changes, &path));
    errors.extend(success(&new, &path));
    errors.extend(transitions(&new, &old, &changes, &path));
    errors
}

fn about_conditions(path: &Path, words: impl Into<String>) -> Error {
    Error::invalid(&path.child("conditions"), BadValue::Omitted, words)
}

fn counters(job: &Job<'_>, path: &Path) -> Errors {
    let mut errors: Errors =
        ["active", "succeeded", "failed", "ready", "terminating"].iter().flat_map(|field| not_negative(job.status, field, path)).collect();
    let Some(uncounted) = job.get("uncountedTerminatedPods") else { return errors };
    let path = path.child("uncountedTerminatedPods");
    let mut seen: Vec<&str> = Vec::new();
    for field in ["succeeded", "failed"] {
        for (index, uid) in list(uncounted, field).iter().filter_map(Value::as_str).enumerate() {
            let path = path.child(field).index(index);
            if uid.is_empty() {
                errors.push(Error::invalid(&path, uid, "must not be empty"));
            } else if seen.contains(&uid) {
                errors.push(Error::duplicate(&path, uid));
            } else {
                seen.push(uid);
            }
        }
    }
    errors
}

/// The conditions that end a Job, and the time of its completion.
fn ends(job: &Job<'_>, changes: &Changes<'_>, path: &Path) -> Errors {
    let (is_complete, is_failed) = (job.is("Complete"), job.is("Failed"));
    let completed = path.child("completionTime");
    let (start, completion) = (job.get("startTime"), job.get("completionTime"));
    let completes = changes.condition("Complete");
    let completion_changed = changes.field("completionTime");
    let mut errors = Vec::new();
    if (completes || changes.condition("Failed")) && is_complete && is_failed {
        errors.push(about_conditions(path, "cannot set Complete=True and Failed=true conditions"));
    }
    if (completes || changes.condition("FailureTarget")) && is_complete && job.is("FailureTarget") {
        errors.push(about_conditions(path, "cannot set Complete=True and FailureTarget=true conditions"));
    }
    if completes || completion_changed {
        match completion {
            Some(time) if !is_complete => {
                errors.push(Error::invalid(&completed, time, "cannot set completionTime when there is no Complete=True condition"));
            }
            None if is_complete => errors.push(Error::required(&completed, "completionTime is required for Complete jobs")),
            _ => {}
        }
    }
    // Times of the API have one form, in which their order is that of texts.
    if let (Some(start), Some(completion)) = (start.and_then(Value::as_str), completion.and_then(Value::as_str))
        && (changes.field("startTime") || completion_changed)
        && completion < start
    {
        errors.push(Error::invalid(&completed, completion, "must be equal to or after `startTime`"));
    }
    if (changes.condition("Failed") || changes.field("failedIndexes")) && is_failed && !job.is("FailureTarget") {
        errors.push(about_conditions(path, "cannot set Failed=True condition without the FailureTarget=true condition"));
    }
    if (completes || changes.condition("SuccessCriteriaMet")) && is_complete && !job.is("SuccessCriteriaMet") {
        errors.push(about_conditions(path, "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"));
    }
    errors
}

/// A Job that has ended was started, and none of its pods is at work or waits to be counted.
fn finished(job: &Job<'_>, changes: &Changes<'_>, path: &Path) -> Errors {
    let mut errors = Vec::new();
    if !job.is_finished() {
        return errors;
    }
    let ends = changes.finished();
    let active = job.count("active");
    if (ends || changes.count("active")) && active > 0 {
        errors.push(Error::invalid(&path.child("active"), active, "active>0 is invalid for finished job"));
    }
    let never_runs = flag(job.spec, "suspend") && int(job.spec, "completions") == Some(0);
    if (ends || changes.field("startTime")) && !never_runs && job.get("startTime").is_none() {
        errors.push(Error::required(&path.child("startTime"), "startTime is required for finished job"));
    }
    if let Some(uncounted) = job.get("uncountedTerminatedPods")
        && (ends || changes.field("uncountedTerminatedPods"))
        && ["succeeded", "failed"].iter().any(|field| !list(uncounted, field).is_empty())
    {
        let shown = internal::shown("UncountedTerminatedPods", uncounted);
        errors.push(Error::invalid(&path.child("uncountedTerminatedPods"), shown, "must be empty for finished job"));
    }
    errors
}

/// The indexes that are done and those that failed.
fn indexes(job: &Job<'_>, changes: &Changes<'_>, path: &Path) -> Errors {
    let (completed_path, failed_path) = (path.child("completedIndexes"), path.child("failedIndexes"));
    let completed = text(job.status, "completedIndexes");
    let failed = job.get("failedIndexes").and_then(Value::as_str);
    let (completed_changed, failed_changed) = (changes.text("completedIndexes"), changes.field("failedIndexes"));
    let completions = int(job.spec, "completions");
    let has_limit = has(job.spec, "backoffLimitPerIndex");
    let mut errors = Vec::new();
    if let Some(completions) = completions {
        if completed_changed && let Err(why) = intervals(completed, completions) {
            errors.push(Error::invalid(&completed_path, completed, format!("error parsing completedIndexes: {why}")));
        }
        if let Some(failed) = failed.filter(|_| failed_changed && has_limit)
            && let Err(why) = intervals(failed, completions)
        {
            errors.push(Error::invalid(&failed_path, failed, format!("error parsing failedIndexes: {why}")));
        }
    }
    if completed_changed && !completed.is_empty() && !job.is_indexed() {
        let words = "cannot set non-empty completedIndexes when non-indexed completion mode";
        errors.push(Error::invalid(&completed_path, completed, words));
    }
    if let Some(failed) = failed {
        if failed_changed && !has_limit {
            errors.push(Error::invalid(&failed_path, failed, "cannot set non-null failedIndexes when backoffLimitPerIndex is null"));
        }
        if let Some(completions) = completions
            && (failed_changed || completed_changed)
            && let Some(index) = overlap(completed, failed, completions)
        {
            let words = format!("failedIndexes and completedIndexes overlap at index: {index}");
            errors.push(Error::invalid(&failed_path, failed, words));
        }
    }
    errors
}

/// Indexes that cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum IndexError {
    /// They do not grow.
    #[error("non-increasing order, previous: {previous}, current: {current}")]
    Order {
        /// The index before.
        previous: i64,
        /// The one that is not above it.
        current: i64,
    },
    /// A part is no number.
    #[error("cannot convert string to integer for index: {}", mainstay_golang::quote(.0))]
    Number(String),
    /// A part is not below the number of completions.
    #[error("too large index: {}", mainstay_golang::quote(.0))]
    TooLarge(String),
    /// An interval has more than two ends.
    #[error("the fragment {} violates the requirement that an index interval can have at most two parts separated by '-'", mainstay_golang::quote(.0))]
    Parts(String),
}

/// The intervals of a text such as `0,2-4`, which grow and stay below the number of completions.
fn intervals(text: &str, completions: i64) -> Result<(), IndexError> {
    let mut last: Option<i64> = None;
    for interval in text.split(',').filter(|_| !text.is_empty()) {
        let (current, end) = self::interval(interval, completions)?;
        if let Some(previous) = last.filter(|last| *last >= current) {
            return Err(IndexError::Order { previous, current });
        }
        last = Some(end);
    }
    Ok(())
}

fn interval(text: &str, completions: i64) -> Result<(i64, i64), IndexError> {
    match text.split('-').collect::<Vec<_>>().as_slice() {
        [only] => index(only, completions).map(|index| (index, index)),
        [first, last] => {
            let (previous, current) = (index(first, completions)?, index(last, completions)?);
            if previous >= current { Err(IndexError::Order { previous, current }) } else { Ok((previous, current)) }
        }
        _ => Err(IndexError::Parts(text.to_owned())),
    }
}

fn index(text: &str, completions: i64) -> Result<i64, IndexError> {
    let index = text.parse::<i64>().map_err(|_| IndexError::Number(text.to_owned()))?;
    if index >= completions { Err(IndexError::TooLarge(text.to_owned())) } else { Ok(index) }
}

/// The first index of both; intervals that cannot be read are passed over.
fn overlap(completed: &str, failed: &str, completions: i64) -> Option<i64> {
    let read = |text: &str| -> Vec<(i64, i64)> { text.split(',').filter_map(|part| interval(part, completions).ok()).collect() };
    let (completed, failed) = (read(completed), read(failed));
    let (mut one, mut other) = (completed.iter().peekable(), failed.iter().peekable());
    while let (Some((first, last)), Some((from, to))) = (one.peek(), other.peek()) {
        if first <= to && from <= last {
            return Some(*first.max(from));
        }
        if first <= from {
            one.next()
        } else {
            other.next()
        };
    }
    None
}

fn pods_at_work(job: &Job<'_>, changes: &Changes<'_>, path: &Path) -> Errors {
    let mut errors = Vec::new();
    let terminating = int(job.status, "terminating").filter(|count| *count > 0);
    if let Some(count) = terminating.filter(|_| job.is_finished() && (changes.finished() || changes.field("terminating"))) {
        errors.push(Error::invalid(&path.child("terminating"), count, "terminating>0 is invalid for finished job"));
    }
    let ready = int(job.status, "ready").filter(|ready| *ready > job.count("active"));
    if let Some(ready) = ready.filter(|_| changes.field("ready") || changes.count("active")) {
        errors.push(Error::invalid(&path.child("ready"), ready, "cannot set more ready pods than active"));
    }
    errors
}

fn success(job: &Job<'_>, path: &Path) -> Errors {
    let mut errors = Vec::new();
    let met = job.is("SuccessCriteriaMet");
    if met && job.is("Failed") {
        errors.push(about_conditions(path, "cannot set SuccessCriteriaMet=True and Failed=true conditions"));
    }
    if met && job.is("FailureTarget") {
        errors.push(about_conditions(path, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"));
    }
    if has(job.spec, "successPolicy") && !met && job.is("Complete") {
        errors.push(about_conditions(path, "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"));
    }
    errors
}

/// What may not be taken back.
fn transitions(new: &Job<'_>, old: &Job<'_>, changes: &Changes<'_>, path: &Path) -> Errors {
    let mut errors = Vec::new();
    for kind in ["Failed", "Complete", "FailureTarget"] {
        if old.is(kind) && !new.is(kind) {
            errors.push(about_conditions(path, format!("cannot disable the terminal {kind}=True condition")));
        }
    }
    let (failed, succeeded) = (new.count("failed"), new.count("succeeded"));
    if failed < old.count("failed") {
        errors.push(Error::invalid(&path.child("failed"), failed, "cannot decrease the failed counter"));
    }
    // Indexed Jobs whose completions and parallelism are equal can be scaled down.
    let scales = new.is_indexed() && int(new.spec, "completions") == int(new.spec, "parallelism");
    if !scales && succeeded < old.count("succeeded") {
        errors.push(Error::invalid(&path.child("succeeded"), succeeded, "cannot decrease the succeeded counter"));
    }
    if let (Some(now), Some(before)) = (new.get("completionTime"), old.get("completionTime"))
        && now != before
    {
        errors.push(Error::invalid(&path.child("completionTime"), now, "field is immutable"));
    }
    let resumes = old.is("Suspended") && new.state("Suspended") == Some("False");
    if old.get("startTime").is_some() && changes.field("startTime") && !resumes && !flag(new.spec, "suspend") {
        let shown = new.get("startTime").cloned().unwrap_or(Value::Null);
        errors.push(Error::invalid(&path.child("startTime"), shown, "field is immutable for unsuspended job once set"));
    }
    let (met_before, met) = (old.is("SuccessCriteriaMet"), new.is("SuccessCriteriaMet"));
    if met_before && !met {
        errors.push(about_conditions(path, "cannot disable the SuccessCriteriaMet=True condition"));
    }
    if old.is("Complete") && !met_before && met {
        errors.push(about_conditions(path, "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"));
    }
    errors
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn intervals_of_indexes() {
        let said = |text: &str| intervals(text, 8).unwrap_err().to_string();
        assert_eq!(intervals("", 3), Ok(()));
        assert_eq!(intervals("0,2-4,7", 8), Ok(()));
        assert_eq!(said("0-1,1"), "non-increasing order, previous: 1, current: 1");
        assert_eq!(said("3-3"), "non-increasing order, previous: 3, current: 3");
        assert_eq!(said("8"), "too large index: \"8\"");
        assert_eq!(said("0,"), "cannot convert string to integer for index: \"\"");
        let words = "the fragment \"1-2-3\" violates the requirement that an index interval can have at most two parts separated by '-'";
        assert_eq!(said("1-2-3"), words);
    }

    #[test]
    fn indexes_of_both() {
        assert_eq!(overlap("0-3,6", "4,6-7", 9), Some(6));
        assert_eq!(overlap("0-3,x,6", "4,5", 9), None);
        assert_eq!(overlap("", "4", 9), None);
        assert_eq!(overlap("2-5", "0,4", 9), Some(4));
    }
}
