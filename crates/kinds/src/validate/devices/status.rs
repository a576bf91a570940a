//! The status of a claim: the devices that it got, who uses them, and what drivers say about them.

use std::net::IpAddr;
use std::sync::LazyLock;

use mainstay_schema::field::{BadValue, Error, Path};
use regex::Regex;
use serde_json::Value;

use super::super::{Errors, all_invalid, has, int, internal, list, names, one_of, scheduling, text};
use super::claim::Requests;
use super::{MOST, configuration, driver, each, each_once, label, pool_name, raw, whole};

/// The most users of a claim.
const MOST_CONSUMERS: usize = 256;
/// The most conditions of a device.
const MOST_CONDITIONS: usize = 8;
/// The most addresses of a device.
const MOST_ADDRESSES: usize = 16;
/// The longest name of a device's network interface, in bytes.
const MOST_INTERFACE: usize = 256;
/// The longest hardware address, in bytes.
const MOST_HARDWARE: usize = 128;

const REASON_TEXT: &str = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";

static REASON: LazyLock<Regex> = LazyLock::new(|| {
    #[allow(clippy::expect_used, reason = "a constant pattern, exercised by the tests")]
    Regex::new("^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$").expect("a valid pattern")
});

/// A changed status of a claim.
pub(in super::super) fn status(new: &Value, old: &Value) -> Errors {
    let null = Value::Null;
    let (status, before) = (new.get("status").unwrap_or(&null), old.get("status").unwrap_or(&null));
    let path = Path::new("status");
    let consumers = list(status, "reservedFor");
    let uid = |consumer: &Value| BadValue::from(text(consumer, "uid"));
    let mut errors = each_once(consumers, MOST_CONSUMERS, &path.child("reservedFor"), consumer, uid);
    let allocation = status.get("allocation").filter(|allocation| !allocation.is_null());
    let results = allocation.and_then(|allocation| allocation.pointer("/devices/results")).and_then(Value::as_array);
    let allocated: Vec<BadValue> = results.into_iter().flatten().map(identity).collect();
    let look = |device: &Value, path: &Path| report(device, &allocated, path);
    errors.extend(each_once(list(status, "devices"), usize::MAX, &path.child("devices"), look, identity));
    if !consumers.is_empty() {
        let place = path.child("reservedFor");
        let known = list(before, "reservedFor");
        let deleted = new.get("metadata").is_some_and(|metadata| has(metadata, "deletionTimestamp"));
        if allocation.is_none() {
            errors.push(Error::forbidden(&place, "may not be specified when `allocated` is not set"));
        } else if deleted && consumers.iter().any(|consumer| !known.contains(consumer)) {
            let words = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
            errors.push(Error::forbidden(&place, words));
        }
    }
    let place = path.child("allocation");
    match (allocation, before.get("allocation").filter(|allocation| !allocation.is_null())) {
        (Some(now), Some(before)) if now != before => {
            errors.push(Error::invalid(&place, internal::shown("AllocationResult", now), "field is immutable"));
        }
        (Some(now), None) => errors.extend(of_allocation(now, &Requests::of(new.get("spec").unwrap_or(&null)), &place)),
        _ => {}
    }
    errors
}

/// The identity of a device as findings show it.
fn identity(device: &Value) -> BadValue {
    internal::shown("SharedDeviceID", device)
}

fn consumer(given: &Value, path: &Path) -> Errors {
    let missing = |field: &&str| text(given, field).is_empty();
    ["resource", "name", "uid"].into_iter().filter(missing).map(|field| Error::required(&path.child(field), "")).collect()
}

/// New devices of a claim.
fn of_allocation(given: &Value, requests: &Requests<'_>, path: &Path) -> Errors {
    let devices = given.get("devices").unwrap_or(&Value::Null);
    let place = path.child("devices");
    let mut errors = each(list(devices, "results"), MOST, &place.child("results"), |result, path| {
        let mut errors = requests.reference(text(result, "request"), &path.child("request"));
        errors.extend(driver(text(result, "driver"), &path.child("driver")));
        errors.extend(pool_name(text(result, "pool"), &path.child("pool")));
        errors.extend(label(text(result, "device"), &path.child("device")));
        errors
    });
    // Those of the class and those of the claim.
    errors.extend(each(list(devices, "config"), 2 * MOST, &place.child("config"), |given, path| {
        let mut errors = one_of(given, "source", path, &["FromClaim", "FromClass"]);
        errors.extend(requests.references(given, path));
        errors.extend(configuration(given, false, path));
        errors
    }));
    if let Some(selector) = given.get("nodeSelector").filter(|selector| !selector.is_null()) {
        errors.extend(scheduling::node_selector(selector, &path.child("nodeSelector")));
    }
    errors
}

/// What a driver says about a device.
fn report(given: &Value, allocated: &[BadValue], path: &Path) -> Errors {
    let mut errors = driver(text(given, "driver"), &path.child("driver"));
    errors.extend(pool_name(text(given, "pool"), &path.child("pool")));
    errors.extend(label(text(given, "device"), &path.child("device")));
    let identity = identity(given);
    if !allocated.contains(&identity) {
        errors.push(Error::invalid(path, identity, "must be an allocated device in the claim"));
    }
    errors.extend(conditions(list(given, "conditions"), &path.child("conditions")));
    if has(given, "data") {
        errors.extend(raw(given.get("data"), false, &path.child("data")));
    }
    if let Some(network) = given.get("networkData") {
        errors.extend(of_network(network, &path.child("networkData")));
    }
    errors
}

fn of_network(given: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    for (field, most) in [("interfaceName", MOST_INTERFACE), ("hardwareAddress", MOST_HARDWARE)] {
        if text(given, field).len() > most {
            errors.push(Error::too_long(&path.child(field), "", most as u64));
        }
    }
    let look = |given: &Value, path: &Path| Errors::from_iter(address(given.as_str().unwrap_or_default(), path));
    errors.extend(each_once(list(given, "ips"), MOST_ADDRESSES, &path.child("ips"), look, whole));
    errors
}

/// The address of an interface, with the length of its network's prefix.
fn address(given: &str, path: &Path) -> Option<Error> {
    let Some((address, length)) = names::range(given) else {
        return Some(Error::invalid(path, given, "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"));
    };
    let canonical = match address {
        IpAddr::V6(six) if six.to_ipv4_mapped().is_some() => format!("{}/{}", address.to_canonical(), length.saturating_sub(96)),
        address => format!("{address}/{length}"),
    };
    (given != canonical).then(|| Error::invalid(path, given, format!("must be in canonical form ({canonical:?})")))
}

fn conditions(given: &[Value], path: &Path) -> Errors {
    let mut errors = Vec::new();
    if given.len() > MOST_CONDITIONS {
        errors.push(Error::too_many(path, given.len() as u64, MOST_CONDITIONS as u64));
    }
    let mut seen: Vec<&str> = Vec::new();
    for (index, given) in given.iter().enumerate() {
        let path = path.index(index);
        let kind = text(given, "type");
        if seen.contains(&kind) {
            errors.push(Error::duplicate(&path.child("type"), kind));
        }
        seen.push(kind);
        errors.extend(condition(given, &path));
    }
    errors
}

fn condition(given: &Value, path: &Path) -> Errors {
    const STATUSES: [&str; 3] = ["False", "True", "Unknown"];
    let kind = text(given, "type");
    let mut errors = all_invalid(&path.child("type"), kind, names::qualified(kind));
    let status = text(given, "status");
    if !STATUSES.contains(&status) {
        errors.push(Error::not_supported(&path.child("status"), status, &STATUSES));
    }
    if let Some(generation) = int(given, "observedGeneration").filter(|generation| *generation < 0) {
        errors.push(Error::invalid(&path.child("observedGeneration"), generation, "must be greater than or equal to zero"));
    }
    if !has(given, "lastTransitionTime") {
        errors.push(Error::required(&path.child("lastTransitionTime"), ""));
    }
    let reason = text(given, "reason");
    if reason.is_empty() {
        errors.push(Error::required(&path.child("reason"), ""));
    } else if !REASON.is_match(reason) {
        errors.push(Error::invalid(&path.child("reason"), reason, REASON_TEXT));
    }
    for (field, most) in [("reason", 1024), ("message", 32 * 1024)] {
        if text(given, field).len() > most {
            errors.push(Error::too_long(&path.child(field), "", most as u64));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::super::tests::shown;
    use crate::validate::validate_update;
    use crate::{Gvk, default};
    use serde_json::{Value, json};

    fn of(status: Value, before: Value) -> Vec<String> {
        let gvk = Gvk::new("resource.k8s.io", "v1", "ResourceClaim");
        let claim = |status: Value| {
            let mut claim = json!({"metadata": {"name": "a", "namespace": "n", "resourceVersion": "1"}, "status": status,
                "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}});
            default(&gvk, &mut claim);
            claim
        };
        shown(&validate_update(&gvk, &claim(status), &claim(before), Some("status")))
    }

    fn result() -> Value {
        json!({"request": "r", "driver": "d", "pool": "p", "device": "g"})
    }

    fn allocation() -> Value {
        json!({"devices": {"results": [result()]}})
    }

    /// KAPI-REST-07: what a claim got stays, and names its requests.
    #[test]
    fn allocations_stay() {
        assert_eq!(of(json!({"allocation": allocation()}), json!({})), [""; 0]);
        let mut other = allocation();
        other["devices"]["results"][0]["device"] = json!("other");
        assert_eq!(
            of(json!({"allocation": other}), json!({"allocation": allocation()})),
            [
                "status.allocation: Invalid value: {\"Devices\":{\"Results\":[{\"Request\":\"r\",\"Driver\":\"d\",\"Pool\":\"p\",\"Device\":\"other\",\
              \"AdminAccess\":null,\"Tolerations\":null,\"BindingConditions\":null,\"BindingFailureConditions\":null,\"ShareID\":null,\
              \"ConsumedCapacity\":null}],\"Config\":null},\"NodeSelector\":null,\"AllocationTimestamp\":null}: field is immutable"
            ]
        );
        assert_eq!(
            of(json!({"allocation": {"devices": {"config": [{"source": "Bad", "requests": ["r", "r"]}, {}]}}}), json!({})),
            [
                "status.allocation.devices.config[0].source: Unsupported value: \"Bad\": supported values: \"FromClaim\", \"FromClass\"",
                "status.allocation.devices.config[0].requests[1]: Duplicate value: \"r\"",
                "status.allocation.devices.config[0].opaque: Required value",
                "status.allocation.devices.config[1].source: Required value",
                "status.allocation.devices.config[1].opaque: Required value"
            ]
        );
    }

    /// KAPI-REST-07: only what was allocated can be used and reported.
    #[test]
    fn reports_are_about_allocated_devices() {
        assert_eq!(
            of(json!({"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}, {"uid": "u"}]}), json!({})),
            [
                "status.reservedFor[1].resource: Required value",
                "status.reservedFor[1].name: Required value",
                "status.reservedFor[1]: Duplicate value: \"u\"",
                "status.reservedFor: Forbidden: may not be specified when `allocated` is not set"
            ]
        );
        let report = json!({"driver": "d", "pool": "p", "device": "x"});
        assert_eq!(
            of(json!({"allocation": allocation(), "devices": [report]}), json!({})),
            [
                "status.devices[0]: Invalid value: {\"Driver\":\"d\",\"Pool\":\"p\",\"Device\":\"x\",\"ShareID\":\"\"}: must be an allocated device in the claim"
            ]
        );
        let report = json!({"driver": "d", "pool": "p", "device": "g", "data": [1], "networkData": {"ips": ["10.0.0.1", "010.0.0.1/24", "FD00::1/64", "::ffff:1.2.3.4/120"]},
            "conditions": [{"type": "A", "status": "Bad", "reason": "a b", "lastTransitionTime": "2024-01-01T00:00:00Z"}, {"type": "A", "status": "True", "reason": "Ok"}]});
        let at = "status.devices[0]";
        assert_eq!(
            of(json!({"allocation": allocation(), "devices": [report]}), json!({})),
            [
                format!("{at}.conditions[0].status: Unsupported value: \"Bad\": supported values: \"False\", \"True\", \"Unknown\""),
                format!("{at}.conditions[0].reason: Invalid value: \"a b\": {}", super::REASON_TEXT),
                format!("{at}.conditions[1].type: Duplicate value: \"A\""),
                format!("{at}.conditions[1].lastTransitionTime: Required value"),
                format!("{at}.data: Invalid value: \"<value omitted>\": must be a valid JSON object"),
                format!(
                    "{at}.networkData.ips[0]: Invalid value: \"10.0.0.1\": must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
                ),
                format!("{at}.networkData.ips[1]: Invalid value: \"010.0.0.1/24\": must be in canonical form (\"10.0.0.1/24\")"),
                format!("{at}.networkData.ips[2]: Invalid value: \"FD00::1/64\": must be in canonical form (\"fd00::1/64\")"),
                format!("{at}.networkData.ips[3]: Invalid value: \"::ffff:1.2.3.4/120\": must be in canonical form (\"1.2.3.4/24\")"),
            ]
        );
    }
}
