#![allow(clippy::unwrap_used, clippy::expect_used, clippy::needless_pass_by_value)]
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn quota(hard: Value, used: Value) -> Quota {
    Quota::enforced(&json!({"metadata": {"name": "q"}, "status": {"hard": hard, "used": used}}))
}

fn create(object: &Value) -> Write<'_> {
    Write { operation: Operation::Create, subresource: "", object, old: None, now: now() }
}

fn evaluator(group: &str, plural: &str) -> Evaluator {
    Evaluator::of(group, plural).unwrap()
}

fn pod(cpu: &str) -> Value {
    json!({"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}})
}

/// KAPI-ADM-03: what objects of each resource use.
#[test]
fn usage() {
    for (group, plural, object, expected) in [
        ("", "secrets", json!({}), "count/secrets=1,secrets=1"),
        ("apps", "deployments", json!({}), "count/deployments.apps=1"),
        (
            "resource.k8s.io",
            "resourceclaims",
            json!({"spec": {"devices": {"requests": [
                {"exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}},
                {"firstAvailable": [{"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 3},
                    {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}, {"deviceClassName": "nic", "allocationMode": "All"}]}]}}}),
            "count/resourceclaims.resource.k8s.io=1,gpu.deviceclass.resource.k8s.io/devices=5,nic.deviceclass.resource.k8s.io/devices=32",
        ),
        (
            "",
            "pods",
            json!({"spec": {"containers": [{"resources": {
                "requests": {"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "4Mi", "example.com/gpu": "2"},
                "limits": {"cpu": "2", "ephemeral-storage": "1Gi", "example.com/gpu": "2"}}}], "overhead": {"cpu": "10m"}}}),
            "count/pods=1,cpu=1010m,hugepages-2Mi=4Mi,limits.cpu=2010m,limits.ephemeral-storage=1Gi,memory=1Gi,pods=1,\
             requests.cpu=1010m,requests.example.com/gpu=2,requests.hugepages-2Mi=4Mi,requests.memory=1Gi",
        ),
        (
            "",
            "pods",
            json!({"spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}, "status": {"phase": "Failed"}}),
            "count/pods=1",
        ),
        ("", "pods", json!({"metadata": {"deletionTimestamp": "2025-12-31T23:59:00Z", "deletionGracePeriodSeconds": 30}}), "count/pods=1"),
        (
            "",
            "pods",
            json!({"metadata": {"deletionTimestamp": "2025-12-31T23:59:40Z", "deletionGracePeriodSeconds": 30}}),
            "count/pods=1,pods=1",
        ),
        ("", "services", json!({"spec": {"ports": [{}, {}]}}), "count/services=1,services=1,services.loadbalancers=0,services.nodeports=0"),
        (
            "",
            "services",
            json!({"spec": {"type": "NodePort", "ports": [{}, {}]}}),
            "count/services=1,services=1,services.loadbalancers=0,services.nodeports=2",
        ),
        (
            "",
            "services",
            json!({"spec": {"type": "LoadBalancer", "ports": [{}, {}]}}),
            "count/services=1,services=1,services.loadbalancers=1,services.nodeports=2",
        ),
        (
            "",
            "services",
            json!({"spec": {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": [{"nodePort": 30000}, {}]}}),
            "count/services=1,services=1,services.loadbalancers=1,services.nodeports=1",
        ),
        (
            "",
            "persistentvolumeclaims",
            json!({"spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "1.5Gi"}}}}),
            "count/persistentvolumeclaims=1,gold.storageclass.storage.k8s.io/persistentvolumeclaims=1,\
             gold.storageclass.storage.k8s.io/requests.storage=1536Mi,persistentvolumeclaims=1,requests.storage=1536Mi",
        ),
        (
            "",
            "persistentvolumeclaims",
            json!({"spec": {"resources": {"requests": {"storage": "100m"}}}, "status": {"allocatedResources": {"storage": "2Gi"}}}),
            "count/persistentvolumeclaims=1,persistentvolumeclaims=1,requests.storage=2Gi",
        ),
    ] {
        assert_eq!(evaluator(group, plural).usage(&object, now()).to_string(), expected, "{object}");
    }
    assert_eq!(Evaluator::of("", "events"), None);
    assert_eq!(Evaluator::of("events.k8s.io", "events"), None);
}

/// KAPI-ADM-03: scopes and scope selectors decide which pods a quota is about.
#[test]
fn scopes() {
    let limited = json!({"spec": {"activeDeadlineSeconds": 5, "containers": []}});
    let burstable = pod("1");
    let named = |class: &str| json!({"spec": {"priorityClassName": class, "containers": []}});
    let affine = json!({"spec": {"containers": [], "affinity": {"podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": {"namespaceSelector": {}}}]}}}});
    let select = |operator: &str, values: Value| json!({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": operator, "values": values}]}});
    for (spec, object, expected) in [
        (json!({"scopes": ["Terminating"]}), &limited, true),
        (json!({"scopes": ["NotTerminating"]}), &limited, false),
        (json!({"scopes": ["BestEffort"]}), &limited, true),
        (json!({"scopes": ["BestEffort"]}), &burstable, false),
        (json!({"scopes": ["NotBestEffort", "NotTerminating"]}), &burstable, true),
        (json!({"scopes": ["NotBestEffort", "Terminating"]}), &burstable, false),
        (json!({"scopes": ["CrossNamespacePodAffinity"]}), &affine, true),
        (json!({"scopes": ["CrossNamespacePodAffinity"]}), &burstable, false),
        (select("In", json!(["high", "higher"])), &named("high"), true),
        (select("In", json!(["high"])), &named("low"), false),
        (select("NotIn", json!(["high"])), &burstable, true),
        (select("Exists", json!([])), &burstable, false),
        (select("DoesNotExist", json!([])), &burstable, true),
        (select("DoesNotExist", json!([])), &named("x"), false),
    ] {
        let quota = Quota::wanted(&json!({"spec": spec.as_object().unwrap().iter().map(|(key, value)| (key.clone(), value.clone()))
            .chain([("hard".to_owned(), json!({"pods": "1"}))]).collect::<serde_json::Map<_, _>>()}));
        assert_eq!(quota.concerns(&Evaluator::Pods, object), expected, "{spec} {object}");
    }
    let classed = Quota::wanted(&json!({"spec": {"hard": {"persistentvolumeclaims": "1"}, "scopeSelector": {"matchExpressions": [
        {"scopeName": "VolumeAttributesClass", "operator": "In", "values": ["fast"]}]}}}));
    assert!(classed.concerns(&Evaluator::Claims, &json!({"spec": {"volumeAttributesClassName": "fast"}})));
    assert!(!classed.concerns(&Evaluator::Claims, &json!({"spec": {}})));
}

/// KAPI-ADM-03: refusals, with upstream's words.
#[test]
fn refusals() {
    for (hard, used, plural, object, expected) in [
        (
            json!({"requests.cpu": "1", "limits.memory": "1Gi", "pods": "2"}),
            json!({"requests.cpu": "0", "limits.memory": "0", "pods": "0"}),
            "pods",
            json!({"spec": {"containers": [{"name": "b"}, {"name": "a", "resources": {"requests": {"cpu": "1"}}}], "initContainers": [{"name": "i"}]}}),
            "failed quota: q: must specify limits.memory for: a,b,i; requests.cpu for: b,i",
        ),
        (
            json!({"requests.cpu": "1", "limits.memory": "1Gi", "pods": "2"}),
            json!({"requests.cpu": "600m", "limits.memory": "0", "pods": "2"}),
            "pods",
            json!({"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "600m"}, "limits": {"memory": "1Mi"}}}]}}),
            "exceeded quota: q, requested: pods=1,requests.cpu=600m, used: pods=2,requests.cpu=600m, limited: pods=2,requests.cpu=1",
        ),
        (json!({"secrets": "1"}), json!({}), "secrets", json!({}), "status unknown for quota: q, resources: secrets"),
        (
            json!({"secrets": "1", "count/secrets": "5"}),
            json!({"secrets": "1", "count/secrets": "1"}),
            "secrets",
            json!({}),
            "exceeded quota: q, requested: secrets=1, used: secrets=1, limited: secrets=1",
        ),
        (
            json!({"requests.cpu": "1"}),
            json!({"requests.cpu": "0"}),
            "pods",
            pod("-1"),
            "quota usage is negative for resource(s): cpu,requests.cpu",
        ),
    ] {
        let mut quotas = [quota(hard, used)];
        let before = quotas[0].used.clone();
        assert_eq!(charge(&mut quotas, &evaluator("", plural), &create(&object)).unwrap_err().to_string(), expected);
        assert_eq!(quotas[0].used, before, "a refused write is not charged");
    }
}

/// KAPI-ADM-03: an update is charged with what it adds, and never for what it gives back.
#[test]
fn updates_are_charged_by_their_difference() {
    let service = |kind: &str, ports: usize| json!({"spec": {"type": kind, "ports": vec![json!({}); ports]}});
    let (cluster, node) = (service("ClusterIP", 2), service("NodePort", 2));
    let mut quotas = [quota(json!({"services": "1", "services.nodeports": "2"}), json!({"services": "1", "services.nodeports": "0"}))];
    let update = |object, old| Write { operation: Operation::Update, subresource: "", object, old: Some(old), now: now() };
    let charged = charge(&mut quotas, &Evaluator::Services, &update(&node, &cluster)).unwrap();
    assert_eq!(charged[0].amounts.to_string(), "services.nodeports=2");
    assert_eq!(quotas[0].used.to_string(), "services=1,services.nodeports=2");
    assert!(charge(&mut quotas, &Evaluator::Services, &update(&cluster, &node)).unwrap().is_empty());
    let more = service("NodePort", 3);
    assert_eq!(
        charge(&mut quotas, &Evaluator::Services, &update(&more, &node)).unwrap_err().to_string(),
        "exceeded quota: q, requested: services.nodeports=1, used: services.nodeports=2, limited: services.nodeports=2"
    );
    let (plain, limited) = (pod("1"), json!({"spec": {"activeDeadlineSeconds": 1}}));
    assert!(!Evaluator::Pods.handles(&update(&plain, &plain)), "what a pod asks for does not change");
    assert!(Evaluator::Pods.handles(&update(&limited, &plain)), "its scope can");
    let resize = Write { subresource: "resize", ..update(&cluster, &node) };
    assert!(Evaluator::Pods.handles(&resize) && !Evaluator::Services.handles(&resize));
}

#[test]
fn several_quotas_are_charged_together_or_not_at_all() {
    let named = |name: &str, hard: &str| Quota { name: name.into(), ..quota(json!({"secrets": hard}), json!({"secrets": "0"})) };
    let mut quotas = [named("a", "5"), named("b", "0"), quota(json!({"pods": "1"}), json!({"pods": "0"}))];
    assert!(charge(&mut quotas, &evaluator("", "secrets"), &create(&json!({}))).unwrap_err().to_string().starts_with("exceeded quota: b,"));
    assert_eq!(quotas[0].used.to_string(), "secrets=0");
    quotas[1].hard.set("secrets", Quantity::from_int(1));
    let charged = charge(&mut quotas, &evaluator("", "secrets"), &create(&json!({}))).unwrap();
    assert_eq!(charged.iter().map(|charge| charge.quota.as_str()).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn sources_of_names() {
    let hard = json!({"count/deployments.apps": "1", "count/pods": "1", "limits.cpu": "1", "services.nodeports": "1", "secrets": "1",
        "count/secrets": "1", "gold.storageclass.storage.k8s.io/requests.storage": "1", "requests.example.com/gpu": "1", "other": "1"});
    let found: Vec<String> =
        sources(&ResourceList::read(Some(&hard))).into_iter().map(|source| format!("{}/{}", source.group, source.plural)).collect();
    assert_eq!(found, ["apps/deployments", "/pods", "/secrets", "/persistentvolumeclaims", "/services"]);
}

#[derive(Clone, Debug)]
enum Step {
    Create { cpu: u32, deadline: bool },
    Delete(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0_u32..3000, any::<bool>()).prop_map(|(cpu, deadline)| Step::Create { cpu, deadline }),
        1 => any::<prop::sample::Index>().prop_map(Step::Delete),
    ]
}

proptest! {
    /// KAPI-ADM-03: after any order of admitted writes and releases, what is used is what all objects use, and never too much.
    #[test]
    fn used_is_the_sum_of_all_objects(steps in prop::collection::vec(step(), 0..60), hard in 0_u32..20_000) {
        let spec = json!({"hard": {"requests.cpu": format!("{hard}m"), "pods": "12", "count/pods": "20"}});
        let everything = json!({"metadata": {"name": "all"}, "spec": spec, "status": {"hard": spec["hard"],
            "used": {"requests.cpu": "0", "pods": "0", "count/pods": "0"}}});
        let mut limited = everything.clone();
        limited["spec"]["scopes"] = json!(["Terminating"]);
        let mut quotas = [Quota::enforced(&everything), Quota::enforced(&limited)];
        let mut pods: Vec<(Value, Vec<Charge>)> = Vec::new();
        for step in steps {
            match step {
                Step::Create { cpu, deadline } => {
                    let mut pod = pod(&format!("{cpu}m"));
                    if deadline {
                        pod["spec"]["activeDeadlineSeconds"] = json!(1);
                    }
                    let fits = quotas.iter().enumerate().all(|(index, quota)| {
                        let mine: Vec<&Value> = pods.iter().map(|(pod, _)| pod).chain([&pod]).collect();
                        let sum = total(quota, &Evaluator::Pods, mine.into_iter(), now());
                        (index == 1 && !deadline) || sum.iter().all(|(name, amount)| Some(amount) <= quota.hard.get(name))
                    });
                    let outcome = charge(&mut quotas, &Evaluator::Pods, &create(&pod));
                    prop_assert_eq!(outcome.is_ok(), fits);
                    if let Ok(charges) = outcome {
                        pods.push((pod, charges));
                    }
                }
                Step::Delete(index) if !pods.is_empty() => {
                    let (_, charges) = pods.remove(index.index(pods.len()));
                    // Charges come in the order of the quotas, and a pod without a deadline has none in the second.
                    for (quota, charge) in quotas.iter_mut().zip(charges) {
                        quota.used.subtract(&charge.amounts);
                    }
                }
                Step::Delete(_) => {}
            }
            for quota in &quotas {
                let sum = total(quota, &Evaluator::Pods, pods.iter().map(|(pod, _)| pod), now());
                prop_assert_eq!(&quota.used, &sum);
                prop_assert!(sum.iter().all(|(name, amount)| Some(amount) <= quota.hard.get(name)));
            }
        }
    }
}
