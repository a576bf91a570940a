//! The recorded refusals of a real API server, asked of this crate.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::common::steps;
use mainstay_kinds::{Context, Gvk, Requester, default, prepare_create, prepare_update, registry, validate_create, validate_update};
use mainstay_schema::field::Error;
use serde_json::{Value, json};

/// Expressions are compiled by the server, which has CEL; words that name the operating system of the recording are not ours.
const ELSEWHERE: &[(&str, &[usize])] = &[
    ("validation/vap", &[2, 3, 4, 9]),
    ("validation/webhook-config", &[13, 14]),
    // Refused by the pool of node ports, and by admission.
    ("validation/service", &[16]),
];

fn context() -> Context {
    Context { now: jiff::Timestamp::UNIX_EPOCH, requester: Requester { username: "kube-replay".into(), ..Requester::default() } }
}

fn causes(errors: &[Error]) -> Vec<Value> {
    errors.iter().map(|error| json!({"reason": error.reason(), "message": error.body(), "field": error.field.to_string()})).collect()
}

/// KAPI-REST-04, KAPI-REST-07, KAPI-REST-08: every recorded refusal of a new built-in object has the recorded causes in the recorded order;
/// every recorded creation is accepted.
#[test]
fn refusals_have_the_recorded_causes() {
    let Some(steps) = steps() else { return };
    let (mut refused, mut accepted, mut gaps) = (0, 0, Vec::new());
    for step in &steps {
        if step.method != "POST" || step.path.contains("${") || !step.body.is_object() {
            continue;
        }
        if ["admission/", "vap/", "webhook/", "negotiation/"].iter().any(|topic| step.scenario.starts_with(topic)) {
            continue;
        }
        let (Some(version), Some(kind)) = (step.body["apiVersion"].as_str(), step.body["kind"].as_str()) else { continue };
        let gvk = Gvk::of(version, kind);
        let Some(resource) = registry().resource_of_kind(&gvk) else { continue };
        if !step.path.ends_with(&resource.plural) || gvk.kind == "CustomResourceDefinition" {
            continue;
        }
        let status = step.answer["status"].as_u64().unwrap();
        let mut object = step.body.clone();
        default(&gvk, &mut object);
        if resource.namespaced && object["metadata"].get("namespace").is_none() {
            object["metadata"]["namespace"] = json!("ns");
        }
        if object["metadata"]["name"].is_null() && object["metadata"]["generateName"].is_string() {
            object["metadata"]["name"] = json!(format!("{}<name>", object["metadata"]["generateName"].as_str().unwrap()));
        }
        object["metadata"]["uid"] = json!("u");
        prepare_create(&gvk, &mut object, &context());
        let ours = causes(&validate_create(&gvk, &object));
        let wanted = step.answer.pointer("/body/details/causes").cloned().unwrap_or(json!([]));
        let wanted: Vec<Value> = wanted.as_array().unwrap().clone();
        if status == 422 && wanted.iter().all(|cause| cause.get("field").is_some()) {
            if ELSEWHERE.iter().any(|(name, steps)| *name == step.scenario && steps.contains(&step.index))
                || wanted.iter().any(|cause| ["dryRun", "fieldManager", "fieldValidation"].iter().any(|field| cause["field"] == *field))
                || step.scenario.starts_with("service/")
            {
                continue;
            }
            if ours == wanted {
                refused += 1;
            } else {
                gaps.push((step, ours, wanted));
            }
        } else if status == 201 {
            let generated = object["metadata"]["name"].as_str().is_some_and(|name| name.contains('<'));
            if ours.is_empty() || generated {
                accepted += 1;
            } else {
                gaps.push((step, ours, vec![]));
            }
        }
    }
    eprintln!("{refused} refusals and {accepted} creations as recorded, {} gaps", gaps.len());
    for (step, ours, wanted) in &gaps {
        eprintln!("{} step {}\n  ours   {}\n  wanted {}", step.scenario, step.index, json!(ours), json!(wanted));
    }
    assert!(gaps.is_empty());
    assert!(refused > 120 && accepted > 200, "only {refused} refusals and {accepted} creations were compared");
}

/// KAPI-REST-07: selectors and what else is immutable is refused with the recorded words.
#[test]
fn immutable_fields() {
    let labels = json!({"app": "demo"});
    let workload = |kind: &str| {
        json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "d", "namespace": "ns", "uid": "u"}, "spec": {
            "selector": {"matchLabels": labels}, "serviceName": "a",
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "i"}]}}}})
    };
    let change = |kind: &str, edit: &dyn Fn(&mut Value)| {
        let gvk = Gvk::new("apps", "v1", kind);
        let mut old = workload(kind);
        default(&gvk, &mut old);
        prepare_create(&gvk, &mut old, &context());
        let mut new = old.clone();
        edit(&mut new);
        prepare_update(&gvk, &mut new, &old, None, &context());
        validate_update(&gvk, &new, &old, None).iter().map(Error::to_string).collect::<Vec<_>>()
    };
    let other = |object: &mut Value| {
        object["spec"]["selector"]["matchLabels"]["x"] = json!("y");
        object["spec"]["template"]["metadata"]["labels"]["x"] = json!("y");
    };
    let wanted = "spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"demo\",\"x\":\"y\"}}: field is immutable";
    assert_eq!(change("Deployment", &other), [wanted]);
    assert_eq!(change("DaemonSet", &other), [wanted]);
    let rename = |object: &mut Value| object["spec"]["serviceName"] = json!("b");
    assert_eq!(
        change("StatefulSet", &rename),
        ["spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
          'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
            .replace("          ", "")]
    );
    let uid = |object: &mut Value| object["metadata"]["uid"] = json!("v");
    assert_eq!(change("Deployment", &uid), ["metadata.uid: Invalid value: \"v\": field is immutable"; 2]);
    assert_eq!(change("Deployment", &|_| {}), Vec::<String>::new());
}

/// KAPI-REST-04: bad labels of a changed ConfigMap are told as often as Kubernetes tells them.
#[test]
fn repeated_findings() {
    let gvk = Gvk::new("", "v1", "ConfigMap");
    let old = json!({"metadata": {"name": "one", "namespace": "ns", "uid": "u"}});
    let mut new = old.clone();
    new["metadata"]["labels"] = json!({"-x": "y z"});
    let errors = validate_update(&gvk, &new, &old, None);
    assert_eq!(errors.len(), 8);
    assert!(errors.iter().all(|error| error.field.as_str() == "metadata.labels"));
}

/// KAPI-REST-04: a dash at the end of `generateName` is no reason to cut a letter in two.
#[test]
fn generated_names_of_any_letters() {
    let gvk = Gvk::new("", "v1", "ConfigMap");
    for name in ["é-", "x€-", "\u{1f600}-"] {
        let errors = validate_create(&gvk, &json!({"metadata": {"generateName": name, "name": "", "namespace": "ns"}}));
        assert!(errors.iter().any(|error| error.field.as_str() == "metadata.generateName"), "{name}: {errors:?}");
    }
}

/// KAPI-ADM-02: a policy may have many variables; each is compiled once, sees those before it, and none after it.
#[test]
fn many_variables_of_a_policy() {
    let gvk = Gvk::new("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy");
    let of = |variables: Vec<Value>| {
        let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]});
        let spec = json!({"matchConstraints": {"resourceRules": [rule]}, "variables": variables, "validations": [{"expression": "variables.v0 == 0"}]});
        let mut policy = json!({"metadata": {"name": "many"}, "spec": spec});
        default(&gvk, &mut policy);
        validate_create(&gvk, &policy)
    };
    let variable = |at: usize, expression: String| json!({"name": format!("v{at}"), "expression": expression});
    let chain = (0..4_000).map(|at| variable(at, if at == 0 { "0".to_owned() } else { format!("variables.v{} + 1", at - 1) })).collect();
    assert_eq!(of(chain).len(), 0);
    let errors = of(vec![variable(0, "0".to_owned()), variable(1, "variables.v2".to_owned()), variable(2, " ".to_owned())]);
    let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
    assert_eq!(fields, ["spec.variables[1].expression", "spec.variables[2].expression"]);
}
