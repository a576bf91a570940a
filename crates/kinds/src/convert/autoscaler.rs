//! Autoscalers as autoscaling/v1 and v2.
//!
//! ```text
//!   v2                          v1
//!   metrics: cpu utilization    spec.targetCPUUtilizationPercentage      the first one; upstream, too, has no place for more
//!   other metrics               annotation .../metrics                   in v1's flat form
//!   behavior                    annotation .../behavior                  in the form of Kubernetes' internal type
//!   status.currentMetrics       annotation .../current-metrics, and status.currentCPUUtilizationPercentage
//!   status.conditions           annotation .../conditions
//! ```
//!
//! The annotations are v1's alone: v2 never shows them.

use mainstay_schema::field::go_json;
use serde_json::{Map, Value, json};

use crate::default::entry;
use crate::quantity::Quantity;

type Object = Map<String, Value>;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
/// All annotations that carry what a version cannot say; two of them only ever did.
const CARRIERS: [&str; 6] = [
    METRICS,
    CURRENT_METRICS,
    CONDITIONS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];
/// The CPU utilization, in percent, that an autoscaler aims at if it names no metric.
const DEFAULT_UTILIZATION: i64 = 80;

/// The places of a part of a metric in both versions.
struct Part {
    flat: &'static str,
    /// A member, or a member of a member.
    nested: (&'static str, &'static str),
    form: Form,
}

#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// The value as it is.
    Plain,
    /// An amount that is left out if there is none.
    Amount,
    /// An amount that v1 always has: nothing is zero.
    Always,
    Reference,
    Selector,
}

const fn part(flat: &'static str, nested: (&'static str, &'static str), form: Form) -> Part {
    Part { flat, nested, form }
}

/// The parts of a metric by the member that holds them, in the order in which Kubernetes writes them.
type Metrics = [(&'static str, &'static [Part]); 5];

const WANTED: Metrics = [
    (
        "object",
        &[
            part("target", ("describedObject", ""), Form::Reference),
            part("metricName", ("metric", "name"), Form::Plain),
            part("targetValue", ("target", "value"), Form::Always),
            part("selector", ("metric", "selector"), Form::Selector),
            part("averageValue", ("target", "averageValue"), Form::Amount),
        ],
    ),
    (
        "pods",
        &[
            part("metricName", ("metric", "name"), Form::Plain),
            part("targetAverageValue", ("target", "averageValue"), Form::Always),
            part("selector", ("metric", "selector"), Form::Selector),
        ],
    ),
    (
        "resource",
        &[
            part("name", ("name", ""), Form::Plain),
            part("targetAverageUtilization", ("target", "averageUtilization"), Form::Plain),
            part("targetAverageValue", ("target", "averageValue"), Form::Amount),
        ],
    ),
    (
        "containerResource",
        &[
            part("name", ("name", ""), Form::Plain),
            part("targetAverageUtilization", ("target", "averageUtilization"), Form::Plain),
            part("targetAverageValue", ("target", "averageValue"), Form::Amount),
            part("container", ("container", ""), Form::Plain),
        ],
    ),
    (
        "external",
        &[
            part("metricName", ("metric", "name"), Form::Plain),
            part("metricSelector", ("metric", "selector"), Form::Selector),
            part("targetValue", ("target", "value"), Form::Amount),
            part("targetAverageValue", ("target", "averageValue"), Form::Amount),
        ],
    ),
];

const CURRENT: Metrics = [
    (
        "object",
        &[
            part("target", ("describedObject", ""), Form::Reference),
            part("metricName", ("metric", "name"), Form::Plain),
            part("currentValue", ("current", "value"), Form::Always),
            part("selector", ("metric", "selector"), Form::Selector),
            part("averageValue", ("current", "averageValue"), Form::Amount),
        ],
    ),
    (
        "pods",
        &[
            part("metricName", ("metric", "name"), Form::Plain),
            part("currentAverageValue", ("current", "averageValue"), Form::Always),
            part("selector", ("metric", "selector"), Form::Selector),
        ],
    ),
    (
        "resource",
        &[
            part("name", ("name", ""), Form::Plain),
            part("currentAverageUtilization", ("current", "averageUtilization"), Form::Plain),
            part("currentAverageValue", ("current", "averageValue"), Form::Always),
        ],
    ),
    (
        "containerResource",
        &[
            part("name", ("name", ""), Form::Plain),
            part("currentAverageUtilization", ("current", "averageUtilization"), Form::Plain),
            part("currentAverageValue", ("current", "averageValue"), Form::Always),
            part("container", ("container", ""), Form::Plain),
        ],
    ),
    (
        "external",
        &[
            part("metricName", ("metric", "name"), Form::Plain),
            part("metricSelector", ("metric", "selector"), Form::Selector),
            part("currentValue", ("current", "value"), Form::Always),
            part("currentAverageValue", ("current", "averageValue"), Form::Amount),
        ],
    ),
];

/// Converts from v2 to v1.
pub(super) fn to_v1(map: &mut Object) {
    take_annotations(map);
    let spec = entry(map, "spec");
    let mut metrics = take_list(spec, "metrics");
    let behavior = spec.remove("behavior");
    if let Some(share) = metrics.iter().find_map(|metric| cpu_share(metric, "target")) {
        spec.insert("targetCPUUtilizationPercentage".into(), share);
        metrics.retain(|metric| cpu_share(metric, "target").is_none());
    }
    let status = entry(map, "status");
    let current = take_list(status, "currentMetrics");
    let conditions = take_list(status, "conditions");
    if let Some(share) = current.iter().rev().find_map(|metric| cpu_share(metric, "current")) {
        status.insert("currentCPUUtilizationPercentage".into(), share);
    }
    for count in ["currentReplicas", "desiredReplicas"] {
        status.entry(count).or_insert(json!(0));
    }
    for (key, items, text) in [
        (METRICS, metrics, (|one| flat(one, &WANTED)) as fn(&Value) -> String),
        (CURRENT_METRICS, current, |one| flat(one, &CURRENT)),
        (CONDITIONS, conditions, condition_text),
    ] {
        if !items.is_empty() {
            annotate(map, key, &list_text(&items, text));
        }
    }
    if let Some(behavior) = behavior {
        annotate(map, BEHAVIOR, &behavior_text(&behavior));
    }
}

/// Converts from v1 to v2.
pub(super) fn to_v2(map: &mut Object) {
    let carried = take_annotations(map);
    let carried = |key: &str| carried.get(key).and_then(Value::as_str).and_then(|text| serde_json::from_str::<Value>(text).ok());
    let spec = entry(map, "spec");
    let mut metrics = carried(METRICS).and_then(|list| nested_list(&list, &WANTED)).unwrap_or_default();
    let share = spec.remove("targetCPUUtilizationPercentage").filter(|share| !share.is_null());
    // An autoscaler without any metric has always had this one.
    let share = share.or_else(|| metrics.is_empty().then(|| json!(DEFAULT_UTILIZATION)));
    if let Some(share) = share {
        let target = json!({"type": "Utilization", "averageUtilization": share});
        metrics.push(json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}));
    }
    spec.insert("metrics".into(), Value::Array(metrics));
    if let Some(behavior) = carried(BEHAVIOR).and_then(|behavior| read_behavior(&behavior)) {
        spec.insert("behavior".into(), behavior);
    }
    let status = entry(map, "status");
    let share = status.remove("currentCPUUtilizationPercentage").filter(|share| !share.is_null());
    let shown = share.map(|share| vec![json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": share}}})]);
    let current = carried(CURRENT_METRICS).and_then(|list| nested_list(&list, &CURRENT)).or(shown);
    status.insert("currentMetrics".into(), current.map_or(Value::Null, Value::Array));
    if let Some(Value::Array(conditions)) = carried(CONDITIONS)
        && !conditions.is_empty()
    {
        status.insert("conditions".into(), Value::Array(conditions));
    }
    status.entry("desiredReplicas").or_insert(json!(0));
    // The counter that this version leaves out when it is zero.
    if status.get("currentReplicas") == Some(&json!(0)) {
        status.remove("currentReplicas");
    }
}

/// The utilization of cpu that a metric wants or shows.
fn cpu_share(metric: &Value, place: &str) -> Option<Value> {
    let resource = metric.get("resource").filter(|resource| resource.get("name") == Some(&json!("cpu")))?;
    let share = resource.get(place)?.get("averageUtilization").filter(|share| share.is_i64())?;
    (metric.get("type") == Some(&json!("Resource"))).then(|| share.clone())
}

fn take_list(map: &mut Object, key: &str) -> Vec<Value> {
    match map.remove(key) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

fn annotate(map: &mut Object, key: &str, text: &str) {
    entry(entry(map, "metadata"), "annotations").insert(key.to_owned(), json!(text));
}

/// Removes the annotations that carry fields; `annotations` itself goes with the last of them.
pub(super) fn take_annotations(map: &mut Object) -> Object {
    let Some(Value::Object(metadata)) = map.get_mut("metadata") else { return Object::new() };
    let Some(Value::Object(annotations)) = metadata.get_mut("annotations") else { return Object::new() };
    let carried: Object = CARRIERS.iter().filter_map(|key| annotations.remove_entry(*key)).collect();
    if !carried.is_empty() && annotations.is_empty() {
        metadata.remove("annotations");
    }
    carried
}

fn list_text(items: &[Value], text: impl Fn(&Value) -> String) -> String {
    format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(","))
}

/// An object of these members, in this order.
fn object_text<'a>(members: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let members: Vec<String> = members.into_iter().map(|(name, text)| format!("\"{name}\":{text}")).collect();
    format!("{{{}}}", members.join(","))
}

/// The members that an object has, of these and in this order.
fn members_text(object: &Value, order: &[&str]) -> String {
    object_text(order.iter().filter_map(|name| Some((*name, go_json(object.get(name)?)))))
}

fn condition_text(condition: &Value) -> String {
    let mut condition = condition.clone();
    if let Value::Object(map) = &mut condition {
        map.entry("lastTransitionTime").or_insert(Value::Null);
    }
    members_text(&condition, &["type", "status", "lastTransitionTime", "reason", "message"])
}

/// A metric of v2 as v1 has it, as text.
fn flat(metric: &Value, metrics: &Metrics) -> String {
    let kind = go_json(metric.get("type").unwrap_or(&Value::Null));
    let sources = metrics.iter().filter_map(|(field, parts)| {
        let source = metric.get(field)?;
        let parts = parts.iter().filter_map(|part| {
            let found = source.get(part.nested.0);
            let found = if part.nested.1.is_empty() { found } else { found.and_then(|found| found.get(part.nested.1)) };
            let text = match (part.form, found) {
                (Form::Always, None) => "\"0\"".to_owned(),
                (_, None) => return None,
                (Form::Reference, Some(reference)) => members_text(reference, &["kind", "name", "apiVersion"]),
                (Form::Selector, Some(selector)) => members_text(selector, &["matchLabels", "matchExpressions"]),
                (Form::Plain | Form::Amount | Form::Always, Some(value)) => go_json(value),
            };
            Some((part.flat, text))
        });
        Some((*field, object_text(parts)))
    });
    object_text(std::iter::once(("type", kind)).chain(sources))
}

/// Metrics of v1 as v2 has them; `None` if they are no metrics.
fn nested_list(list: &Value, metrics: &Metrics) -> Option<Vec<Value>> {
    list.as_array()?.iter().map(|metric| nested(metric.as_object()?, metrics)).collect()
}

fn nested(metric: &Object, metrics: &Metrics) -> Option<Value> {
    let mut out = Object::new();
    out.insert("type".into(), json!(metric.get("type").map_or(Some(""), Value::as_str)?));
    for (field, parts) in metrics {
        let Some(source) = metric.get(*field).filter(|source| !source.is_null()) else { continue };
        let source = source.as_object()?;
        let mut made = Object::new();
        for part in *parts {
            let mut value = source.get(part.flat).filter(|value| !value.is_null()).cloned();
            if part.form == Form::Always {
                value = value.or(Some(json!("0")));
            }
            if matches!(part.form, Form::Always | Form::Amount) {
                value = value.map(normal);
            }
            let Some(value) = value else { continue };
            if part.nested.1.is_empty() {
                made.insert(part.nested.0.to_owned(), value);
            } else {
                entry(&mut made, part.nested.0).insert(part.nested.1.to_owned(), value);
            }
        }
        // Beside a utilization, no amount is what v1 writes for one that was not measured.
        if let Some(Value::Object(current)) = made.get_mut("current")
            && current.contains_key("averageUtilization")
            && current.get("averageValue") == Some(&json!("0"))
        {
            current.remove("averageValue");
        }
        if parts.iter().any(|part| part.nested.0 == "target") {
            entry(&mut made, "target").insert("type".into(), json!(target_kind(field, source)));
        }
        out.insert((*field).to_owned(), Value::Object(made));
    }
    Some(Value::Object(out))
}

/// The type of a target, which v1 does not say.
fn target_kind(field: &str, source: &Object) -> &'static str {
    let has = |name: &str| source.get(name).is_some_and(|value| !value.is_null());
    match field {
        "object" if !has("averageValue") => "Value",
        "external" if has("targetValue") => "Value",
        "resource" | "containerResource" if has("targetAverageUtilization") => "Utilization",
        _ => "AverageValue",
    }
}

/// A quantity in normal form.
fn normal(amount: Value) -> Value {
    let text = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
    Quantity::parse(&text).map_or(amount, |quantity| json!(quantity.to_string()))
}

const RULES: [&str; 4] = ["StabilizationWindowSeconds", "SelectPolicy", "Policies", "Tolerance"];
const POLICY: [&str; 3] = ["Type", "Value", "PeriodSeconds"];

/// A behavior as Kubernetes' internal type writes it: capital letters, and null for absent fields.
fn behavior_text(behavior: &Value) -> String {
    let rules = |rules: &Value| {
        object_text(RULES.map(|name| {
            let found = rules.get(json_name(name)).unwrap_or(&Value::Null);
            let text = match found {
                Value::Array(policies) => list_text(policies, |policy| {
                    object_text(POLICY.map(|name| (name, go_json(policy.get(json_name(name)).unwrap_or(&Value::Null)))))
                }),
                other => go_json(other),
            };
            (name, text)
        }))
    };
    object_text(["ScaleUp", "ScaleDown"].map(|name| (name, behavior.get(json_name(name)).map_or_else(|| "null".to_owned(), rules))))
}

/// The same read back, in capital letters or not; `None` if it says nothing.
fn read_behavior(behavior: &Value) -> Option<Value> {
    let mut out = Object::new();
    for name in ["ScaleUp", "ScaleDown"] {
        let Some(rules) = member(behavior.as_object()?, name) else { continue };
        let mut made = known(rules.as_object()?, &RULES);
        if let Some(policies) = made.get_mut("policies") {
            let policies = policies.as_array_mut()?;
            for policy in policies {
                *policy = Value::Object(known(policy.as_object()?, &POLICY));
            }
        }
        out.insert(json_name(name), Value::Object(made));
    }
    (!out.is_empty()).then_some(Value::Object(out))
}

fn known(object: &Object, names: &[&str]) -> Object {
    names.iter().filter_map(|name| Some((json_name(name), member(object, name)?.clone()))).collect()
}

/// A member that is not null, whatever the case of its name.
fn member<'a>(object: &'a Object, name: &str) -> Option<&'a Value> {
    object.iter().find(|(key, value)| key.eq_ignore_ascii_case(name) && !value.is_null()).map(|(_, value)| value)
}

fn json_name(name: &str) -> String {
    name[..1].to_ascii_lowercase() + &name[1..]
}
