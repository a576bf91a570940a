//! LimitRanges: the defaults that they give to containers, and the bounds that pods and claims must keep (KAPI-ADM-03).

use serde_json::{Map, Value, json};

use crate::quantity::Quantity;
use crate::resource_list::{ResourceList, Side, specified};

/// The annotation that says which defaults a pod was given.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";
/// Above this, amounts are compared in whole numbers only.
const MAX_MILLI_VALUE: i64 = i64::MAX / 1000;

fn items<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// Gives a pod's containers the requests and limits that they lack and the LimitRange has, and says so in an annotation.
pub fn default_pod(limit_range: &Value, pod: &mut Value) {
    let (mut requests, mut limits) = (Map::new(), Map::new());
    for limit in items(limit_range, "/spec/limits").filter(|limit| limit["type"] == "Container") {
        for (amounts, field) in [(&mut requests, "defaultRequest"), (&mut limits, "default")] {
            amounts.extend(limit.get(field).and_then(Value::as_object).cloned().unwrap_or_default());
        }
    }
    let mut done = Vec::new();
    for (field, what) in [("containers", "container"), ("initContainers", "init container")] {
        let Some(containers) = pod.pointer_mut(&format!("/spec/{field}")).and_then(Value::as_array_mut) else { continue };
        for container in containers {
            let name = container["name"].as_str().unwrap_or_default().to_owned();
            for (side, amounts) in [("request", &requests), ("limit", &limits)] {
                let given = fill(container, &format!("{side}s"), amounts);
                if !given.is_empty() {
                    done.push(format!("{} {side} for {what} {name}", given.join(", ")));
                }
            }
        }
    }
    if done.is_empty() {
        return;
    }
    let annotations = &mut pod["metadata"]["annotations"];
    if !annotations.is_object() {
        *annotations = json!({});
    }
    annotations[ANNOTATION] = format!("LimitRanger plugin set: {}", done.join("; ")).into();
}

/// Adds the amounts that a container lacks; the names of these.
fn fill<'a>(container: &mut Value, side: &str, amounts: &'a Map<String, Value>) -> Vec<&'a str> {
    let own = container.get("resources").and_then(|resources| resources.get(side));
    let mut missing: Vec<&str> = amounts.keys().map(String::as_str).filter(|name| own.is_none_or(|own| own.get(name).is_none())).collect();
    missing.sort_unstable();
    for name in &missing {
        container["resources"][side][*name] = amounts[*name].clone();
    }
    missing
}

/// Returns the bounds that a pod breaks, in Kubernetes' words and in the order of the bounds.
pub fn check_pod(limit_range: &Value, pod: &Value) -> Vec<String> {
    let mut broken = Vec::new();
    for limit in items(limit_range, "/spec/limits") {
        match limit["type"].as_str() {
            Some("Container") => {
                for container in items(pod, "/spec/containers").chain(items(pod, "/spec/initContainers")) {
                    check(limit, &Side::Requests.of(container), &Side::Limits.of(container), &mut broken);
                }
            }
            Some("Pod") => check(limit, &specified(pod, Side::Requests), &specified(pod, Side::Limits), &mut broken),
            _ => {}
        }
    }
    broken
}

/// Returns the bounds that a claim breaks, in Kubernetes' words: only its requests count.
pub fn check_claim(limit_range: &Value, claim: &Value) -> Vec<String> {
    let requests = ResourceList::read(claim.pointer("/spec/resources/requests"));
    let mut broken = Vec::new();
    for limit in items(limit_range, "/spec/limits").filter(|limit| limit["type"] == "PersistentVolumeClaim") {
        let bounds = |field: &str| ResourceList::read(limit.get(field));
        for (name, bound) in bounds("min").iter() {
            broken.extend(Bound { kind: "PersistentVolumeClaim", name, amount: bound }.min(requests.get(name), None));
        }
        for (name, bound) in bounds("max").iter() {
            broken.extend(Bound { kind: "PersistentVolumeClaim", name, amount: bound }.max_request(requests.get(name)));
        }
    }
    broken
}

/// Checks a request and a limit against a bound.
type Rule = fn(&Bound<'_>, Option<Quantity>, Option<Quantity>) -> Option<String>;

fn check(limit: &Value, requests: &ResourceList, limits: &ResourceList, broken: &mut Vec<String>) {
    let kind = limit["type"].as_str().unwrap_or_default();
    let rules: [(&str, Rule); 3] = [
        ("min", |bound, request, limit| bound.min(request, limit)),
        ("max", |bound, request, limit| bound.max(request, limit)),
        ("maxLimitRequestRatio", |bound, request, limit| bound.ratio(request, limit)),
    ];
    for (field, rule) in rules {
        for (name, bound) in ResourceList::read(limit.get(field)).iter() {
            broken.extend(rule(&Bound { kind, name, amount: bound }, requests.get(name), limits.get(name)));
        }
    }
}

/// One bound on one resource.
struct Bound<'a> {
    kind: &'a str,
    name: &'a str,
    amount: Quantity,
}

/// Amounts in thousandths if all of them can be, else in whole numbers.
fn common(amounts: [Quantity; 3]) -> [i128; 3] {
    if amounts.iter().all(|amount| amount.to_int() <= MAX_MILLI_VALUE) {
        amounts.map(Quantity::to_milli)
    } else {
        amounts.map(|amount| i128::from(amount.to_int()))
    }
}

impl Bound<'_> {
    fn values(&self, request: Option<Quantity>, limit: Option<Quantity>) -> [i128; 3] {
        common([request.unwrap_or(Quantity::ZERO), limit.unwrap_or(Quantity::ZERO), self.amount])
    }

    fn min(&self, request: Option<Quantity>, limit: Option<Quantity>) -> Option<String> {
        let [asked, held, bound] = self.values(request, limit);
        let rule = format!("minimum {} usage per {} is {}", self.name, self.kind, self.amount);
        match (request, limit) {
            (None, _) => Some(format!("{rule}.  No request is specified")),
            (Some(request), _) if asked < bound => Some(format!("{rule}, but request is {request}")),
            (_, Some(limit)) if held < bound => Some(format!("{rule}, but limit is {limit}")),
            _ => None,
        }
    }

    fn max(&self, request: Option<Quantity>, limit: Option<Quantity>) -> Option<String> {
        let [asked, held, bound] = self.values(request, limit);
        let rule = format!("maximum {} usage per {} is {}", self.name, self.kind, self.amount);
        match (request, limit) {
            (_, None) => Some(format!("{rule}.  No limit is specified")),
            (_, Some(limit)) if held > bound => Some(format!("{rule}, but limit is {limit}")),
            (Some(request), _) if asked > bound => Some(format!("{rule}, but request is {request}")),
            _ => None,
        }
    }

    fn max_request(&self, request: Option<Quantity>) -> Option<String> {
        let [asked, _, bound] = self.values(request, None);
        let rule = format!("maximum {} usage per {} is {}", self.name, self.kind, self.amount);
        match request {
            None => Some(format!("{rule}.  No request is specified")),
            Some(request) if asked > bound => Some(format!("{rule}, but request is {request}")),
            Some(_) => None,
        }
    }

    fn ratio(&self, request: Option<Quantity>, limit: Option<Quantity>) -> Option<String> {
        let [asked, held, _] = self.values(request, limit);
        let rule = format!("{} max limit to request ratio per {} is {}", self.name, self.kind, self.amount);
        if request.is_none() || asked == 0 {
            return Some(format!("{rule}, but no request is specified or request is 0"));
        }
        if limit.is_none() || held == 0 {
            return Some(format!("{rule}, but no limit is specified or limit is 0"));
        }
        let provided = held as f64 / asked as f64;
        let most =
            if self.amount.to_int() <= MAX_MILLI_VALUE { self.amount.to_milli() as f64 / 1000.0 } else { self.amount.to_int() as f64 };
        (provided > most).then(|| format!("{rule}, but provided ratio is {provided:.6}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "cases read better")]
    fn range(limits: Value) -> Value {
        json!({"spec": {"limits": limits}})
    }

    /// KAPI-ADM-03: a LimitRange gives requests and limits to containers that have none, and says so.
    #[test]
    fn defaults() {
        let range = range(json!([
            {"type": "Container", "default": {"cpu": "500m", "memory": "64Mi"}, "defaultRequest": {"cpu": "100m", "memory": "64Mi"}},
            {"type": "Pod", "default": {"cpu": "9"}},
        ]));
        let mut pod = json!({"spec": {
            "containers": [{"name": "a"}, {"name": "b", "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1", "memory": "1Mi"}}}],
            "initContainers": [{"name": "i", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}],
        }});
        default_pod(&range, &mut pod);
        let resources = |pointer: &str| pod.pointer(pointer).cloned().unwrap_or_default();
        let all = json!({"limits": {"cpu": "500m", "memory": "64Mi"}, "requests": {"cpu": "100m", "memory": "64Mi"}});
        assert_eq!(resources("/spec/containers/0/resources"), all);
        assert_eq!(
            resources("/spec/containers/1/resources"),
            json!({"limits": {"cpu": "1", "memory": "64Mi"}, "requests": {"cpu": "1", "memory": "1Mi"}})
        );
        assert_eq!(
            pod["metadata"]["annotations"][ANNOTATION],
            "LimitRanger plugin set: cpu, memory request for container a; cpu, memory limit for container a; \
             memory limit for container b; cpu, memory request for init container i"
        );
        let full = pod.clone();
        default_pod(&range, &mut pod);
        assert_eq!(pod, full, "nothing is left to give");
    }

    /// KAPI-ADM-03: minima, maxima and ratios, with upstream's words.
    #[test]
    fn bounds() {
        let container = |requests: Value, limits: Value| json!({"name": "c", "resources": {"requests": requests, "limits": limits}});
        let pod = |containers: Vec<Value>| json!({"spec": {"containers": containers}});
        let (none, cpu) = (json!({}), |amount: &str| json!({"cpu": amount}));
        for (limit, pod, expected) in [
            (json!({"type": "Container", "max": {"cpu": "1"}}), pod(vec![container(cpu("1"), cpu("1"))]), ""),
            (
                json!({"type": "Container", "max": {"cpu": "1"}}),
                pod(vec![container(none.clone(), cpu("1001m"))]),
                "maximum cpu usage per Container is 1, but limit is 1001m",
            ),
            (
                json!({"type": "Container", "max": {"cpu": "1"}}),
                pod(vec![container(none.clone(), none.clone())]),
                "maximum cpu usage per Container is 1.  No limit is specified",
            ),
            (
                json!({"type": "Container", "min": {"cpu": "1"}}),
                pod(vec![container(none.clone(), none.clone())]),
                "minimum cpu usage per Container is 1.  No request is specified",
            ),
            (
                json!({"type": "Container", "min": {"cpu": "1"}}),
                pod(vec![container(cpu("2"), cpu("999m"))]),
                "minimum cpu usage per Container is 1, but limit is 999m",
            ),
            (
                json!({"type": "Pod", "max": {"cpu": "1500m"}}),
                pod(vec![container(cpu("1"), cpu("1")), container(cpu("1"), cpu("1"))]),
                "maximum cpu usage per Pod is 1500m, but limit is 2",
            ),
            (json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "5"}}), pod(vec![container(cpu("200m"), cpu("1"))]), ""),
            (
                json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "1500m"}}),
                pod(vec![container(cpu("300m"), cpu("1"))]),
                "cpu max limit to request ratio per Container is 1500m, but provided ratio is 3.333333",
            ),
            (
                json!({"type": "Pod", "maxLimitRequestRatio": {"cpu": "2"}}),
                pod(vec![container(none.clone(), cpu("1"))]),
                "cpu max limit to request ratio per Pod is 2, but no request is specified or request is 0",
            ),
        ] {
            assert_eq!(check_pod(&range(json!([limit])), &pod).join("|"), expected, "{limit} {pod}");
        }
        let claim = |storage: Value| json!({"spec": {"resources": {"requests": storage}}});
        let bounds = range(json!([{"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}}]));
        for (claim, expected) in [
            (claim(json!({"storage": "2Gi"})), ""),
            (claim(json!({"storage": "1"})), "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1"),
            (claim(json!({"storage": "3Gi"})), "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"),
            (
                claim(none),
                "minimum storage usage per PersistentVolumeClaim is 1Gi.  No request is specified|\
                 maximum storage usage per PersistentVolumeClaim is 2Gi.  No request is specified",
            ),
        ] {
            assert_eq!(check_claim(&bounds, &claim).join("|"), expected);
        }
    }
}
