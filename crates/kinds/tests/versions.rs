//! Conversion there and back, of random autoscalers and events.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use mainstay_kinds::{Gvk, convert, go_form, settle};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn gvk(api_version: &str, kind: &str) -> Gvk {
    Gvk::of(api_version, kind)
}

fn autoscaling(version: &str) -> Gvk {
    Gvk::new("autoscaling", version, "HorizontalPodAutoscaler")
}

fn converted(object: &Value, to: &Gvk) -> Value {
    let mut object = object.clone();
    convert(&mut object, to);
    go_form(to, &mut object);
    assert_eq!(object["apiVersion"], to.api_version());
    object
}

/// An object of these members, without those that are not there.
fn object(members: Vec<(&str, Option<Value>)>) -> Value {
    Value::Object(members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect::<Map<_, _>>())
}

fn text() -> impl Strategy<Value = Value> {
    // Go escapes some of these in JSON.
    prop_oneof![Just("a"), Just("<b>&\"c\""), Just("ä\u{2028}\n"), Just("x.y/z")].prop_map(|text| json!(text))
}

fn amount() -> impl Strategy<Value = Value> {
    prop_oneof![Just("1"), Just("100Mi"), Just("500m"), Just("2k")].prop_map(|text| json!(text))
}

fn selector() -> impl Strategy<Value = Option<Value>> {
    let labels = proptest::option::of(text().prop_map(|value| json!({"k": value})));
    let expressions = proptest::option::of(text().prop_map(|value| json!([{"key": "k", "operator": "In", "values": [value]}])));
    let parts =
        (labels, expressions).prop_map(|(labels, expressions)| object(vec![("matchLabels", labels), ("matchExpressions", expressions)]));
    proptest::option::of(parts)
}

fn identity() -> impl Strategy<Value = Value> {
    (text(), selector()).prop_map(|(name, selector)| object(vec![("name", Some(name)), ("selector", selector)]))
}

fn reference() -> impl Strategy<Value = Value> {
    (text(), text(), proptest::option::of(text()))
        .prop_map(|(kind, name, version)| object(vec![("kind", Some(kind)), ("name", Some(name)), ("apiVersion", version)]))
}

fn utilization() -> impl Strategy<Value = Value> {
    (1..100i64).prop_map(|share| json!({"type": "Utilization", "averageUtilization": share}))
}

fn average() -> impl Strategy<Value = Value> {
    amount().prop_map(|amount| json!({"type": "AverageValue", "averageValue": amount}))
}

fn value() -> impl Strategy<Value = Value> {
    amount().prop_map(|amount| json!({"type": "Value", "value": amount}))
}

/// A metric as somebody may ask for it; what upstream's v1 can not hold (a second utilization of cpu) is not among them.
fn metric() -> impl Strategy<Value = Value> {
    let target = || prop_oneof![utilization(), average()];
    prop_oneof![
        target().prop_map(|target| json!({"type": "Resource", "resource": {"name": "memory", "target": target}})),
        average().prop_map(|target| json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})),
        (text(), target()).prop_map(|(container, target)| {
            json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": container, "target": target}})
        }),
        (identity(), average()).prop_map(|(metric, target)| json!({"type": "Pods", "pods": {"metric": metric, "target": target}})),
        (reference(), identity(), value()).prop_map(|(described, metric, target)| {
            json!({"type": "Object", "object": {"describedObject": described, "metric": metric, "target": target}})
        }),
        (identity(), prop_oneof![value(), average()])
            .prop_map(|(metric, target)| json!({"type": "External", "external": {"metric": metric, "target": target}})),
    ]
}

/// A metric as it was measured.
fn measured() -> impl Strategy<Value = Value> {
    let current = || {
        (proptest::option::of(1..100i64), amount()).prop_map(|(share, amount)| {
            object(vec![("averageUtilization", share.map(|share| json!(share))), ("averageValue", Some(amount))])
        })
    };
    let amount_of = |name: &'static str| amount().prop_map(move |amount| json!({name: amount}));
    prop_oneof![
        (prop_oneof![Just("cpu"), Just("memory")], current())
            .prop_map(|(name, current)| json!({"type": "Resource", "resource": {"name": name, "current": current}})),
        (text(), current()).prop_map(|(container, current)| {
            json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": container, "current": current}})
        }),
        (identity(), amount_of("averageValue"))
            .prop_map(|(metric, current)| json!({"type": "Pods", "pods": {"metric": metric, "current": current}})),
        (reference(), identity(), amount_of("value")).prop_map(|(described, metric, current)| {
            json!({"type": "Object", "object": {"describedObject": described, "metric": metric, "current": current}})
        }),
        (identity(), amount_of("value"))
            .prop_map(|(metric, current)| json!({"type": "External", "external": {"metric": metric, "current": current}})),
    ]
}

fn rules() -> impl Strategy<Value = Value> {
    let policy = (prop_oneof![Just("Pods"), Just("Percent")], 1..9i64, 1..60i64)
        .prop_map(|(kind, value, seconds)| json!({"type": kind, "value": value, "periodSeconds": seconds}));
    (
        proptest::option::of(0..600i64),
        proptest::option::of(prop_oneof![Just("Max"), Just("Min"), Just("Disabled")]),
        proptest::collection::vec(policy, 1..3),
        proptest::option::of(amount()),
    )
        .prop_map(|(window, select, policies, tolerance)| {
            object(vec![
                ("stabilizationWindowSeconds", window.map(|window| json!(window))),
                ("selectPolicy", select.map(|select| json!(select))),
                ("policies", Some(json!(policies))),
                ("tolerance", tolerance),
            ])
        })
}

fn behavior() -> impl Strategy<Value = Option<Value>> {
    let both = (proptest::option::of(rules()), rules()).prop_map(|(up, down)| object(vec![("scaleUp", up), ("scaleDown", Some(down))]));
    proptest::option::of(both)
}

fn condition() -> impl Strategy<Value = Value> {
    (text(), proptest::option::of(text()), proptest::option::of(text())).prop_map(|(kind, reason, message)| {
        object(vec![
            ("type", Some(kind)),
            ("status", Some(json!("True"))),
            ("lastTransitionTime", Some(json!("2026-01-01T00:00:00Z"))),
            ("reason", reason),
            ("message", message),
        ])
    })
}

fn annotations() -> impl Strategy<Value = Option<Value>> {
    proptest::option::of(text().prop_map(|value| json!({"note": value})))
}

fn whole(metadata: Option<Value>, api_version: &str, spec: &Value, status: &Value) -> Value {
    let metadata = object(vec![("name", Some(json!("h"))), ("annotations", metadata)]);
    let mut whole =
        json!({"apiVersion": api_version, "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": spec, "status": status});
    go_form(&gvk(api_version, "HorizontalPodAutoscaler"), &mut whole);
    whole
}

prop_compose! {
    fn newer()(
        annotations in annotations(),
        reference in reference(),
        minimum in proptest::option::of(1..4i64),
        metrics in proptest::collection::vec(metric(), 0..4),
        share in proptest::option::of(1..100i64),
        behavior in behavior(),
        current in proptest::collection::vec(measured(), 0..4),
        conditions in proptest::collection::vec(condition(), 0..3),
        replicas in 0..3i64,
    ) -> Value {
        let mut metrics = metrics;
        // An autoscaler always has a metric, and the utilization of cpu comes last after it was seen in v1.
        if let Some(share) = share.or(metrics.is_empty().then_some(80)) {
            let target = json!({"type": "Utilization", "averageUtilization": share});
            metrics.push(json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}));
        }
        let spec = object(vec![
            ("scaleTargetRef", Some(reference)),
            ("minReplicas", minimum.map(|minimum| json!(minimum))),
            ("maxReplicas", Some(json!(5))),
            ("metrics", Some(json!(metrics))),
            ("behavior", behavior),
        ]);
        let some = |list: Vec<Value>| (!list.is_empty()).then(|| json!(list));
        let status = object(vec![
            ("currentReplicas", Some(json!(replicas))),
            ("desiredReplicas", Some(json!(replicas))),
            ("currentMetrics", some(current)),
            ("conditions", some(conditions)),
        ]);
        whole(annotations, "autoscaling/v2", &spec, &status)
    }
}

prop_compose! {
    fn older()(
        annotations in annotations(),
        reference in reference(),
        share in 1..100i64,
        current in proptest::option::of(1..100i64),
        replicas in 0..3i64,
    ) -> Value {
        let spec = json!({"scaleTargetRef": reference, "maxReplicas": 5, "targetCPUUtilizationPercentage": share});
        let status = object(vec![
            ("currentReplicas", Some(json!(replicas))),
            ("desiredReplicas", Some(json!(0))),
            ("currentCPUUtilizationPercentage", current.map(|current| json!(current))),
        ]);
        whole(annotations, "autoscaling/v1", &spec, &status)
    }
}

prop_compose! {
    fn event()(
        texts in proptest::collection::vec(text(), 8),
        count in proptest::option::of(1..5i64),
        series in proptest::option::of(1..5i64),
        related in proptest::option::of(reference()),
        reference in reference(),
        source in proptest::option::of(text()),
        seen in any::<bool>(),
    ) -> Value {
        let time = json!("2026-01-01T00:00:00Z");
        let micro = "2026-01-01T00:00:00.000001Z";
        let mut event = object(vec![
            ("apiVersion", Some(json!("v1"))),
            ("kind", Some(json!("Event"))),
            ("metadata", Some(json!({"name": "e", "labels": {"l": texts[0]}}))),
            ("involvedObject", Some(reference)),
            ("message", Some(texts[1].clone())),
            ("reason", Some(texts[2].clone())),
            ("type", Some(texts[3].clone())),
            ("action", Some(texts[4].clone())),
            ("reportingComponent", Some(texts[5].clone())),
            ("reportingInstance", Some(texts[6].clone())),
            ("eventTime", Some(json!(micro))),
            ("count", count.map(|count| json!(count))),
            ("series", series.map(|count| json!({"count": count, "lastObservedTime": micro}))),
            ("related", related),
            ("source", source.map(|component| json!({"component": component, "host": texts[7]}))),
            ("firstTimestamp", seen.then(|| time.clone())),
            ("lastTimestamp", seen.then_some(time)),
        ]);
        go_form(&gvk("v1", "Event"), &mut event);
        event
    }
}

/// The annotations that carry what v1 can not say.
const CARRIERS: [(&str, &str); 4] = [
    ("/spec/metrics", "autoscaling.alpha.kubernetes.io/metrics"),
    ("/spec/behavior", "autoscaling.alpha.kubernetes.io/behavior"),
    ("/status/currentMetrics", "autoscaling.alpha.kubernetes.io/current-metrics"),
    ("/status/conditions", "autoscaling.alpha.kubernetes.io/conditions"),
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// KAPI-REST-07: nothing of an autoscaler is lost on the way to v1 and back; what v1 has no field for is in its annotation, and only there.
    #[test]
    fn autoscalers_through_v1(newer in newer()) {
        let older = converted(&newer, &autoscaling("v1"));
        for (field, annotation) in CARRIERS {
            prop_assert_eq!(older.pointer(field), None);
            let held = older["metadata"]["annotations"].get(annotation).and_then(Value::as_str);
            let own = newer.pointer(field).filter(|own| !own.is_null());
            let items = own.and_then(Value::as_array).map(Vec::len);
            match (held, items) {
                // The utilization of cpu has a field of its own.
                (None, Some(items)) => prop_assert!(field == "/spec/metrics" && items == 1),
                (held, _) => prop_assert_eq!(held.is_some(), own.is_some()),
            }
            if let Some(held) = held {
                prop_assert!(serde_json::from_str::<Value>(held).is_ok(), "{}", held);
            }
        }
        prop_assert_eq!(converted(&older, &autoscaling("v2")), newer);
    }

    /// KAPI-REST-07: nothing of an autoscaler of v1 is lost on the way to v2 and back, and settling once is enough.
    #[test]
    fn autoscalers_through_v2(older in older()) {
        let mut settled = older.clone();
        settle(&autoscaling("v1"), &mut settled);
        prop_assert_eq!(&settled["spec"], &older["spec"]);
        prop_assert_eq!(&settled["status"], &older["status"]);
        let newer = converted(&settled, &autoscaling("v2"));
        prop_assert_eq!(newer["metadata"].get("annotations"), older["metadata"].get("annotations"));
        prop_assert_eq!(converted(&newer, &autoscaling("v1")), settled.clone());
        let mut again = settled.clone();
        settle(&autoscaling("v1"), &mut again);
        prop_assert_eq!(again, settled);
    }

    /// KAPI-REST-07: an event is the same in both groups.
    #[test]
    fn events_through_the_other_group(event in event()) {
        let newer = converted(&event, &gvk("events.k8s.io/v1", "Event"));
        prop_assert_eq!(&newer["note"], &event["message"]);
        prop_assert_eq!(&newer["regarding"], &event["involvedObject"]);
        prop_assert_eq!(newer.get("involvedObject"), None);
        prop_assert_eq!(converted(&newer, &gvk("v1", "Event")), event);
    }
}
