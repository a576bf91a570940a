//! The addresses of Services as objects: IPAddresses and ServiceCIDRs.

use mainstay_schema::field::{BadValue, Error, Path};
use serde_json::{Value, json};

use super::{Errors, all_invalid, names, text, texts};

pub(super) fn ip_address(object: &Value) -> Errors {
    let path = Path::new("spec").child("parentRef");
    let Some(parent) = object.pointer("/spec/parentRef").filter(|parent| !parent.is_null()) else {
        return vec![Error::required(&path, "")];
    };
    let mut errors = Vec::new();
    let group = text(parent, "group");
    if !group.is_empty() {
        errors.extend(all_invalid(&path.child("group"), group, names::subdomain(group)));
    }
    for (field, needed) in [("resource", true), ("name", true), ("namespace", false)] {
        let value = text(parent, field);
        if !value.is_empty() {
            errors.extend(all_invalid(&path.child(field), value, names::path_segment(value)));
        } else if needed {
            errors.push(Error::required(&path.child(field), ""));
        }
    }
    errors
}

pub(super) fn ip_address_update(new: &Value, old: &Value) -> Errors {
    let parent = |object: &Value| object.pointer("/spec/parentRef").cloned().unwrap_or(Value::Null);
    let now = parent(new);
    if now == parent(old) {
        return Vec::new();
    }
    let shown = match now {
        Value::Null => BadValue::Value(Value::Null),
        parent => BadValue::Json(format!(
            "{{\"Group\":{},\"Resource\":{},\"Namespace\":{},\"Name\":{}}}",
            json!(text(&parent, "group")),
            json!(text(&parent, "resource")),
            json!(text(&parent, "namespace")),
            json!(text(&parent, "name"))
        )),
    };
    vec![Error::invalid(&Path::new("spec").child("parentRef"), shown, "field is immutable")]
}

fn cidrs(object: &Value) -> Vec<&str> {
    object.get("spec").map_or_else(Vec::new, |spec| texts(spec, "cidrs"))
}

pub(super) fn service_cidr(object: &Value) -> Errors {
    let given = cidrs(object);
    let path = Path::new("spec").child("cidrs");
    if given.is_empty() {
        return vec![Error::required(&path, "at least one CIDR required")];
    }
    if given.len() > 2 {
        let shown = BadValue::Json(format!("{{\"CIDRs\":{}}}", json!(given)));
        return vec![Error::invalid(&path, shown, "may only hold up to 2 values")];
    }
    let mut errors: Errors =
        given.iter().enumerate().flat_map(|(index, cidr)| all_invalid(&path.index(index), cidr, names::canonical_cidr(cidr))).collect();
    if let [first, second] = given.as_slice()
        && let (Some(first), Some(second)) = (family(first), family(second))
        && first == second
    {
        let words = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        errors.push(Error::invalid(&path, json!(given), words));
    }
    errors
}

/// Returns true if a range is of IPv6; `None` if it is no range.
fn family(cidr: &str) -> Option<bool> {
    names::range(cidr).map(|(ip, _)| ip.is_ipv6())
}

/// Ranges stay; one of the other family may be added to a single one.
pub(super) fn service_cidr_update(new: &Value, old: &Value) -> Errors {
    let (now, before) = (cidrs(new), cidrs(old));
    let path = Path::new("spec").child("cidrs");
    let stays = |index: usize| (now[index] != before[index]).then(|| Error::invalid(&path.index(index), now[index], "field is immutable"));
    match (before.len(), now.len()) {
        (before, now) if before == now => (0..now).filter_map(stays).collect(),
        (1, 2) => stays(0).into_iter().chain(service_cidr(new)).collect(),
        _ => vec![Error::invalid(&path, new.pointer("/spec/cidrs"), "field is immutable")],
    }
}
