//! Claims of devices, and templates of claims.

use mainstay_schema::field::{Error, Path};
use serde_json::Value;

use super::super::volumes::template_metadata;
use super::super::{Errors, all_invalid, has, int, internal, list, names, text};
use super::{MOST, configuration, each, each_once, label, named, qualified, selectors, whole};

/// The most alternatives of a request.
const MOST_ALTERNATIVES: usize = 8;

const NO_REQUEST: &str = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";

/// A new claim.
pub(in super::super) fn claim(object: &Value) -> Errors {
    claim_spec(object.get("spec").unwrap_or(&Value::Null), &Path::new("spec"))
}

/// A new template, and a changed one.
pub(in super::super) fn template(object: &Value) -> Errors {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let path = Path::new("spec");
    let mut errors = template_metadata(spec.get("metadata").unwrap_or(&Value::Null), &path.child("metadata"));
    errors.extend(claim_spec(spec.get("spec").unwrap_or(&Value::Null), &path.child("spec")));
    errors
}

/// A claim stays as it is.
pub(in super::super) fn claim_update(new: &Value, old: &Value) -> Errors {
    immutable_spec("ResourceClaimSpec", new, old)
}

/// A template stays as it is.
pub(in super::super) fn template_update(new: &Value, old: &Value) -> Errors {
    immutable_spec("ResourceClaimTemplateSpec", new, old)
}

fn immutable_spec(kind: &str, new: &Value, old: &Value) -> Errors {
    if new.get("spec") == old.get("spec") {
        return Vec::new();
    }
    let shown = internal::shown(kind, new.get("spec").unwrap_or(&Value::Null));
    vec![Error::invalid(&Path::new("spec"), shown, "field is immutable")]
}

fn claim_spec(spec: &Value, path: &Path) -> Errors {
    let devices = spec.get("devices").unwrap_or(&Value::Null);
    let path = path.child("devices");
    let requests = Requests::of(spec);
    let mut errors = each_once(list(devices, "requests"), MOST, &path.child("requests"), request, named);
    let constraints = list(devices, "constraints");
    errors.extend(each(constraints, MOST, &path.child("constraints"), |given, path| constraint(given, &requests, path)));
    errors.extend(each(list(devices, "config"), MOST, &path.child("config"), |given, path| {
        let mut errors = requests.references(given, path);
        errors.extend(configuration(given, false, path));
        errors
    }));
    errors
}

fn request(given: &Value, path: &Path) -> Errors {
    let mut errors = label(text(given, "name"), &path.child("name"));
    let alternatives = list(given, "firstAvailable");
    match (given.get("exactly").filter(|exactly| !exactly.is_null()), alternatives.is_empty()) {
        (None, true) => errors.push(Error::required(path, "exactly one of `exactly` or `firstAvailable` is required")),
        (Some(_), false) => {
            let words = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            errors.push(Error::invalid(path, Value::Null, words));
        }
        (Some(exactly), true) => errors.extend(wanted(exactly, &path.child("exactly"))),
        (None, false) => {
            let alternative = |given: &Value, path: &Path| {
                let mut errors = label(text(given, "name"), &path.child("name"));
                errors.extend(wanted(given, path));
                errors
            };
            errors.extend(each_once(alternatives, MOST_ALTERNATIVES, &path.child("firstAvailable"), alternative, named));
        }
    }
    errors
}

/// The devices that a request is about.
fn wanted(given: &Value, path: &Path) -> Errors {
    let class = text(given, "deviceClassName");
    let place = path.child("deviceClassName");
    let mut errors = match class {
        "" => vec![Error::required(&place, "")],
        class => all_invalid(&place, class, names::subdomain(class)),
    };
    errors.extend(selectors(given, path));
    let (mode, count) = (text(given, "allocationMode"), int(given, "count").unwrap_or(0));
    match mode {
        "All" if count != 0 => {
            errors.push(Error::invalid(&path.child("count"), count, "must not be specified when allocationMode is 'All'"));
        }
        "ExactCount" if count <= 0 => errors.push(Error::invalid(&path.child("count"), count, "must be greater than zero")),
        "All" | "ExactCount" => {}
        mode => errors.push(Error::not_supported(&path.child("allocationMode"), mode, &["All", "ExactCount"])),
    }
    errors
}

fn constraint(given: &Value, requests: &Requests<'_>, path: &Path) -> Errors {
    let mut errors = requests.references(given, path);
    let path = path.child("matchAttribute");
    if !has(given, "matchAttribute") {
        errors.push(Error::required(&path, ""));
        return errors;
    }
    let attribute = text(given, "matchAttribute");
    errors.extend(qualified(attribute, &path));
    if !attribute.contains('/') {
        errors.push(Error::invalid(&path, attribute, "a fully qualified name must be a domain and a name separated by a slash"));
    }
    errors
}

/// The names of a claim's requests, each with those of its alternatives.
pub(super) struct Requests<'a>(Vec<(&'a str, Vec<&'a str>)>);

impl<'a> Requests<'a> {
    /// The names in the spec of a claim.
    pub(super) fn of(spec: &'a Value) -> Self {
        let requests = spec.get("devices").map_or(&[] as &[Value], |devices| list(devices, "requests"));
        let names = |request: &'a Value| list(request, "firstAvailable").iter().map(|one| text(one, "name")).collect();
        Self(requests.iter().map(|request| (text(request, "name"), names(request))).collect())
    }

    fn has(&self, name: &str) -> bool {
        let (request, alternative) = name.split_once('/').map_or((name, None), |(request, alternative)| (request, Some(alternative)));
        // Of several requests of one name, the last counts.
        let known = self.0.iter().rev().find(|(known, _)| *known == request);
        known.is_some_and(|(_, alternatives)| alternative.is_none_or(|one| alternatives.contains(&one)))
    }

    /// Findings about the requests that something names.
    pub(super) fn references(&self, holder: &Value, path: &Path) -> Errors {
        let look = |name: &Value, path: &Path| self.reference(name.as_str().unwrap_or_default(), path);
        each_once(list(holder, "requests"), MOST, &path.child("requests"), look, whole)
    }

    /// Findings about the name of a request, or of one of its alternatives.
    pub(super) fn reference(&self, name: &str, path: &Path) -> Errors {
        let unknown = || Error::invalid(path, name, NO_REQUEST);
        if name.matches('/').count() > 1 {
            return vec![unknown()];
        }
        let mut errors: Errors = name.split('/').flat_map(|part| label(part, path)).collect();
        if !self.has(name) {
            errors.push(unknown());
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::needless_pass_by_value, reason = "cases are written where they are handed over")]
    use super::super::tests::{findings, shown};
    use crate::validate::validate_update;
    use crate::{Gvk, default};
    use serde_json::{Value, json};

    fn of(devices: Value) -> Vec<String> {
        findings("ResourceClaim", json!({"devices": devices}))
    }

    /// KAPI-REST-07: a request is about a number of devices of one class, or about the first of some alternatives.
    #[test]
    fn requests_say_what_they_want() {
        let at = "spec.devices.requests[0]";
        assert_eq!(of(json!({"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]})), [""; 0]);
        assert_eq!(
            of(json!({"requests": [{"name": "r"}]})),
            [format!("{at}: Required value: exactly one of `exactly` or `firstAvailable` is required")]
        );
        assert_eq!(
            of(json!({"requests": [{"name": "r", "exactly": {"allocationMode": "All", "count": 2}}]})),
            [
                format!("{at}.exactly.deviceClassName: Required value"),
                format!("{at}.exactly.count: Invalid value: 2: must not be specified when allocationMode is 'All'")
            ]
        );
        assert_eq!(
            of(json!({"requests": [{"name": "r", "firstAvailable": [
                {"name": "x", "deviceClassName": "c", "allocationMode": "Bad", "selectors": [{}]}, {"name": "x", "deviceClassName": "c"}]}]})),
            [
                format!("{at}.firstAvailable[0].selectors[0].cel: Required value"),
                format!("{at}.firstAvailable[0].allocationMode: Unsupported value: \"Bad\": supported values: \"All\", \"ExactCount\""),
                format!("{at}.firstAvailable[1]: Duplicate value: \"x\""),
            ]
        );
    }

    /// KAPI-REST-07: constraints and configurations name requests.
    #[test]
    fn requests_are_named() {
        let requests = json!([{"name": "r", "exactly": {"deviceClassName": "c"}}, {"name": "s", "firstAvailable": [{"name": "x", "deviceClassName": "c"}]}]);
        let named = |names: Value| of(json!({"requests": requests, "constraints": [{"requests": names, "matchAttribute": "a.b/c"}]}));
        assert_eq!(named(json!(["r", "s", "s/x"])), [""; 0]);
        let unknown = |name: &str, index: usize| {
            format!("spec.devices.constraints[0].requests[{index}]: Invalid value: \"{name}\": {}", super::NO_REQUEST)
        };
        let duplicate = "spec.devices.constraints[0].requests[3]: Duplicate value: \"s/y\"".to_owned();
        assert_eq!(
            named(json!(["s/y", "s/x/z", "r/x", "s/y"])),
            [unknown("s/y", 0), unknown("s/x/z", 1), unknown("r/x", 2), unknown("s/y", 3), duplicate]
        );
        assert_eq!(of(json!({"constraints": [{}]})), ["spec.devices.constraints[0].matchAttribute: Required value"]);
        assert_eq!(
            of(json!({"constraints": [{"matchAttribute": "a/"}, {"matchAttribute": "a"}]})),
            [
                "spec.devices.constraints[0].matchAttribute: Invalid value: \"\": the name must not be empty",
                "spec.devices.constraints[1].matchAttribute: Invalid value: \"a\": a fully qualified name must be a domain and a name separated \
                 by a slash"
            ]
        );
    }

    /// KAPI-REST-07: claims and templates stay as they are, and are shown as Kubernetes holds them.
    #[test]
    fn specs_are_immutable() {
        let change = |kind: &str, new: Value, old: Value| {
            let gvk = Gvk::new("resource.k8s.io", "v1", kind);
            let object = |spec: Value| {
                let mut object = json!({"metadata": {"name": "a", "namespace": "n", "resourceVersion": "1"}, "spec": spec});
                default(&gvk, &mut object);
                object
            };
            shown(&validate_update(&gvk, &object(new), &object(old), None))
        };
        let spec = |name: &str| json!({"devices": {"requests": [{"name": name, "exactly": {"deviceClassName": "c"}}]}});
        let inner = r#""Devices":{"Requests":[{"Name":"z","Exactly":{"DeviceClassName":"c","Selectors":null,"AllocationMode":"ExactCount","Count":1,"AdminAccess":null,"Tolerations":null,"Capacity":null},"FirstAvailable":null}],"Constraints":null,"Config":null}"#;
        assert_eq!(change("ResourceClaim", spec("z"), spec("r")), [format!("spec: Invalid value: {{{inner}}}: field is immutable")]);
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": spec("z")});
        assert_eq!(
            change("ResourceClaimTemplate", template, json!({"spec": spec("r")})),
            [format!("spec: Invalid value: {{\"labels\":{{\"a\":\"b\"}},\"Spec\":{{{inner}}}}}: field is immutable")]
        );
        let named = json!({"metadata": {"name": "x"}, "spec": {}});
        assert_eq!(findings("ResourceClaimTemplate", named), ["spec.metadata.name: Forbidden: cannot be set"]);
    }
}
