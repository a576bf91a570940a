//! Events: of the older group, whose reporters may leave much out, and of the newer, which wants everything said.

use mainstay_schema::field::{BadValue, Error, Path};
use serde_json::Value;

use super::{Errors, all_invalid, has, int, internal, meta, names, text};
use crate::Gvk;

/// The names of one group for what both hold.
struct Names {
    about: &'static str,
    reporter: &'static str,
    message: &'static str,
}

const OLDER: Names = Names { about: "involvedObject", reporter: "reportingComponent", message: "message" };
const NEWER: Names = Names { about: "regarding", reporter: "reportingController", message: "note" };

/// An event of the older group. Its metadata is left to the registry.
pub(super) fn event(object: &Value) -> Errors {
    reported_as(object, &OLDER)
}

/// Findings about the content that every event of the newer group must have, new or changed.
pub(super) fn reported(object: &Value) -> Errors {
    reported_as(object, &NEWER)
}

/// The rules of both groups. An event with a time is of the newer sort, in whichever group it is written.
fn reported_as(object: &Value, names: &Names) -> Errors {
    let namespace = object.get("metadata").map_or("", |metadata| text(metadata, "namespace"));
    let about = object.get(names.about).map_or("", |about| text(about, "namespace"));
    let elsewhere = || Error::invalid(&Path::new("involvedObject").child("namespace"), about, "does not match event.namespace");
    let mut errors = Vec::new();
    if has(object, "eventTime") {
        // Things without a namespace have their events in one of two.
        if about.is_empty() && !["default", "kube-system"].contains(&namespace) {
            errors.push(elsewhere());
        }
        let (path, reporter) = (Path::new(names.reporter), text(object, names.reporter));
        if reporter.is_empty() {
            errors.push(Error::required(&path, ""));
        }
        errors.extend(all_invalid(&path, reporter, names::qualified(reporter)));
        for field in ["reportingInstance", "action", "reason"] {
            let (path, value) = (Path::new(field), text(object, field));
            if value.is_empty() {
                errors.push(Error::required(&path, ""));
            }
            errors.extend(at_most(128, &path, value));
        }
        errors.extend(at_most(1024, &Path::new("message"), text(object, names.message)));
    } else if about.is_empty() && !["", "default"].contains(&namespace) || !about.is_empty() && about != namespace {
        errors.push(elsewhere());
    }
    errors.extend(all_invalid(&Path::new("namespace"), namespace, names::subdomain(namespace)));
    errors
}

fn at_most(most: usize, path: &Path, value: &str) -> Option<Error> {
    (value.len() > most).then(|| Error::invalid(path, "", format!("can have at most {most} characters")))
}

/// A new event of the newer group: written by its reporter alone, so that everything must be said.
pub(super) fn new_event(gvk: &Gvk, object: &Value) -> Errors {
    let mut errors = reported(object);
    errors.extend(meta::create(gvk, object));
    errors.extend(series(object));
    if !has(object, "eventTime") {
        errors.push(Error::required(&Path::new("eventTime"), ""));
    }
    if !["Normal", "Warning"].contains(&text(object, "type")) {
        errors.push(Error::invalid(&Path::new("type"), "", format!("has invalid value: {}", text(object, "type"))));
    }
    let source = object.get("deprecatedSource").unwrap_or(&Value::Null);
    for (set, shown) in [
        (has(object, "deprecatedFirstTimestamp"), "firstTimestamp"),
        (has(object, "deprecatedLastTimestamp"), "lastTimestamp"),
        (int(object, "deprecatedCount").unwrap_or(0) != 0, "count"),
        (!text(source, "component").is_empty() || !text(source, "host").is_empty(), "source"),
    ] {
        if set {
            errors.push(Error::invalid(&Path::new(shown), "", "needs to be unset"));
        }
    }
    errors
}

/// Findings about an event that goes on for a while: seen more than once, at last at some time.
fn series(object: &Value) -> Errors {
    let Some(series) = object.get("series").filter(|series| !series.is_null()) else { return Vec::new() };
    let path = Path::new("series");
    let mut errors = Vec::new();
    if int(series, "count").unwrap_or(0) < 2 {
        errors.push(Error::invalid(&path.child("count"), "", "should be at least 2"));
    }
    if !has(series, "lastObservedTime") {
        errors.push(Error::required(&path.child("lastObservedTime"), ""));
    }
    errors
}

/// Events of the newer group are facts: only their series goes on.
pub(super) fn new_event_update(new: &Value, old: &Value) -> Errors {
    let mut errors = if new.get("series") == old.get("series") { Vec::new() } else { series(new) };
    // As the internal type, which is that of the older group, names and orders them.
    for (field, shown) in [
        ("regarding", "involvedObject"),
        ("reason", "reason"),
        ("note", "message"),
        ("deprecatedSource", "source"),
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("reason", "reason"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingController", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ] {
        let now = new.get(field);
        if now != old.get(field) {
            let value = match (field, now) {
                ("regarding" | "related", Some(reference)) => internal::shown("ObjectReference", reference),
                ("regarding", None) => internal::shown("ObjectReference", &Value::Null),
                ("related" | "eventTime" | "deprecatedFirstTimestamp" | "deprecatedLastTimestamp", None) => BadValue::Value(Value::Null),
                (_, None) => BadValue::from(""),
                (_, Some(value)) => BadValue::from(value),
            };
            errors.push(Error::invalid(&Path::new(shown), value, "field is immutable"));
        }
    }
    errors
}
