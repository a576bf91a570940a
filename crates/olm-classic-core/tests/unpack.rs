//! Unpacking of bundles: the objects, compared with those of OLM v0.42 (`unpack/objects.jsonl`: what its unpacker created by a fake client,
//! and the hashes of Services), how far a Job is, and the content of the ConfigMap.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use mainstay_objects::Step;
use mainstay_olm_classic_core::catalog_source::registry::{self, Tools};
use mainstay_olm_classic_core::unpack::content::{fill, load};
use mainstay_olm_classic_core::unpack::{Facts, Progress, Request, config_map, plan};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

const RECORDED: &str = include_str!("unpack/objects.jsonl");

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn source(secrets: &Value) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": "team", "namespace": "market", "uid": "u1"}, "spec": {"secrets": secrets},
    })
}

/// Everything that is created for a bundle, step by step.
fn created(request: &Request<'_>, tools: &Tools) -> Vec<Value> {
    let mut objects: Vec<Value> = Vec::new();
    loop {
        let (jobs, rest): (Vec<Value>, Vec<Value>) = objects.iter().cloned().partition(|object| object["kind"] == "Job");
        let (steps, _) = plan(request, tools, &Facts { objects: &rest, jobs: &jobs, pods: &[] }, now());
        if steps.is_empty() {
            return objects;
        }
        for step in steps {
            let Step::CreateOnce(object) = step else { panic!("{step:?}") };
            objects.push(object);
        }
    }
}

/// OLM0-CAT-16, OLM0-CAT-30, OLM0-CAT-31: ConfigMap, Job, Role, ServiceAccount and RoleBinding of a bundle are those that upstream's own code
/// makes, also with a timeout and pull secrets; and so are the hashes of Services.
#[test]
fn objects_as_upstream_makes_them() {
    for line in RECORDED.lines() {
        let recorded: Value = serde_json::from_str(line).unwrap();
        if let Some(name) = recorded["service"].as_str() {
            let kind = if recorded["configMap"] == true { "configmap" } else { "grpc" };
            let service = registry::service(&json!({"metadata": {"name": name, "namespace": "n"}, "spec": {"sourceType": kind}}));
            assert_eq!(service["metadata"]["labels"][registry::SERVICE_HASH], recorded["hash"], "{line}");
            continue;
        }
        let source = source(&recorded["secrets"]);
        let timeout = recorded["timeout"].as_u64().filter(|timeout| *timeout > 0).map(Duration::from_secs);
        let request = Request { source: &source, image: recorded["image"].as_str().unwrap(), timeout, retry: None };
        let tools = Tools { user: recorded["user"].as_i64(), ..Tools::default() };
        let made = created(&request, &tools);
        assert_eq!(made.len(), 5);
        for (kind, field) in
            [("Job", "job"), ("ConfigMap", "configMap"), ("Role", "role"), ("RoleBinding", "binding"), ("ServiceAccount", "account")]
        {
            let ours = made.iter().find(|object| object["kind"] == kind).unwrap();
            let mut theirs = recorded[field].clone();
            // A fake client gives no UIDs, and a typed object has no kind.
            for owner in theirs["metadata"]["ownerReferences"].as_array_mut().unwrap() {
                if owner["kind"] == "ConfigMap" {
                    owner["uid"] = Value::Null;
                }
            }
            for part in ["metadata", "spec", "rules", "subjects", "roleRef"] {
                assert_eq!(ours[part], theirs[part], "{kind} {part} of {line}");
            }
        }
    }
}

/// A Job with these conditions, as a server completes it.
fn job(request: &Request<'_>, name: &str, made: &str, condition: &Value) -> Value {
    let mut job = created(request, &Tools::default()).into_iter().find(|object| object["kind"] == "Job").unwrap();
    job["metadata"]["name"] = json!(name);
    job["metadata"]["uid"] = json!(name);
    job["metadata"]["creationTimestamp"] = json!(made);
    job["spec"]["completions"] = json!(1);
    job["spec"]["template"]["spec"]["dnsPolicy"] = json!("ClusterFirst");
    job["status"]["conditions"] = json!([condition]);
    job
}

/// OLM0-CAT-31: progress is told in upstream's words: what the pod waits for, why the Job failed, and when it is over.
#[test]
fn progress_of_a_job() {
    let source = source(&json!([]));
    let request = Request { source: &source, image: "r.test/b:v1", timeout: None, retry: None };
    let objects = created(&request, &Tools::default());
    let objects: Vec<Value> = objects.into_iter().filter(|object| object["kind"] != "Job").collect();
    let of = |jobs: &[Value], pods: &[Value]| plan(&request, &Tools::default(), &Facts { objects: &objects, jobs, pods }, now());
    let at = "2026-01-01T00:00:00Z";
    let incomplete = |message: &str, failing| Progress::Incomplete { message: message.into(), failing };
    let running = job(&request, "j", at, &json!({}));
    assert_eq!(of(std::slice::from_ref(&running), &[]), (vec![], incomplete("unpack job not completed", false)));
    let pod = |phase: &str, state: Value| {
        json!({
            "metadata": {"name": "j-x", "namespace": "market", "labels": {"job-name": "j"}},
            "status": {"phase": phase, "initContainerStatuses": [{"name": "util", "ready": true}, {"name": "pull", "ready": false, "state": state}]},
        })
    };
    let waits = json!({"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image \"r.test/b:v1\""}});
    let told = "unpack job not completed: Unpack pod(market/j-x) container(pull) is pending. Reason: ImagePullBackOff, Message: Back-off pulling image \"r.test/b:v1\"";
    assert_eq!(of(std::slice::from_ref(&running), &[pod("Pending", waits.clone())]).1, incomplete(told, true));
    let bare = "unpack job not completed: Unpack pod(market/j-x) container(pull) is pending";
    assert_eq!(of(std::slice::from_ref(&running), &[pod("Pending", json!({"running": {}}))]).1, incomplete(bare, false));
    let silent = of(std::slice::from_ref(&running), &[pod("Running", waits)]).1;
    assert_eq!(silent, incomplete("unpack job not completed", false));
    let failed = json!({"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "Job was active longer than specified deadline", "lastTransitionTime": at});
    let failed = of(&[job(&request, "j", at, &failed)], &[]).1;
    assert_eq!(
        failed,
        Progress::Failed { reason: "DeadlineExceeded".into(), message: "Job was active longer than specified deadline".into() }
    );
    assert_eq!(of(&[job(&request, "j", at, &json!({"type": "Complete", "status": "True"}))], &[]).1, Progress::Complete);
}

/// OLM0-CAT-32: a failed Job stays until it is deleted; with a retry interval another follows, and old ones are removed; a Job of another
/// form is made again.
#[test]
fn failed_jobs() {
    let source = source(&json!([]));
    let request = |retry| Request { source: &source, image: "r.test/b:v1", timeout: None, retry };
    let plain = request(None);
    let objects: Vec<Value> = created(&plain, &Tools::default()).into_iter().filter(|object| object["kind"] != "Job").collect();
    let failed = |name: &str, at: &str| {
        let condition =
            json!({"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "m", "lastTransitionTime": at});
        job(&plain, name, at, &condition)
    };
    let old = failed("j", "2025-12-31T23:50:00Z");
    for (retry, jobs, again) in [
        (None, vec![old.clone()], false),
        (Some(Duration::from_secs(300)), vec![old.clone()], true),
        (Some(Duration::from_secs(900)), vec![old.clone()], false),
        (None, vec![], true),
    ] {
        let request = request(retry);
        let (steps, progress) = plan(&request, &Tools::default(), &Facts { objects: &objects, jobs: &jobs, pods: &[] }, now());
        assert_eq!(steps.len(), usize::from(again), "{retry:?} {steps:?}");
        assert_eq!(matches!(progress, Progress::Failed { .. }), !again);
        if let (Some(Step::Create(job)), true) = (steps.first(), again && !jobs.is_empty()) {
            assert_eq!((&job["metadata"]["generateName"], &job["metadata"]["name"]), (&json!(request.name()), &Value::Null));
        }
    }
    let many: Vec<Value> = (10..18).map(|minute| failed(&format!("j{minute}"), &format!("2025-12-31T23:{minute}:00Z"))).collect();
    let day = request(Some(Duration::from_secs(86_400)));
    let (steps, _) = plan(&day, &Tools::default(), &Facts { objects: &objects, jobs: &many, pods: &[] }, now());
    let gone: Vec<String> =
        steps.iter().map(|step| if let Step::Delete { object, .. } = step { object.name.clone() } else { panic!() }).collect();
    assert_eq!(gone, ["j12", "j11"], "the newest five stay, and the oldest");
    let mut odd = old;
    odd["spec"]["template"]["spec"]["initContainers"][1]["image"] = json!("other");
    let (steps, progress) = plan(&plain, &Tools::default(), &Facts { objects: &objects, jobs: &[odd], pods: &[] }, now());
    assert!(matches!(steps[..], [Step::Delete { .. }]) && progress == Progress::Begins, "{steps:?}");
}

/// OLM0-CAT-30: the ConfigMap is filled as `opm alpha bundle extract -z` fills it, and read again; what a ConfigMap cannot hold is refused.
#[test]
fn content_of_a_config_map() {
    let source = source(&json!([]));
    let request = Request { source: &source, image: "r.test/b:v1", timeout: None, retry: None };
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    files.insert("manifests/a csv.yaml".into(), b"kind: ClusterServiceVersion\nmetadata: {name: b.v1}\n".to_vec());
    files.insert("manifests/role.yaml".into(), b"kind: Role\nmetadata: {name: r}\n".to_vec());
    files.insert("metadata/annotations.yaml".into(), b"annotations: {operators.operatorframework.io.bundle.package.v1: b}\n".to_vec());
    files.insert("metadata/dependencies.yaml".into(), b"dependencies: []\n".to_vec());
    let filled = fill(&config_map(&request), "r.test/b:v1", &files).unwrap();
    let keys: Vec<&String> = filled["binaryData"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["a~csv.yaml", "dependencies.yaml", "role.yaml"]);
    let annotations = &filled["metadata"]["annotations"];
    assert_eq!(annotations["olm.contentEncoding"], "gzip+base64");
    assert_eq!(annotations["olm.sourceImage"], "r.test/b:v1");
    assert_eq!(annotations["operators.operatorframework.io.bundle.package.v1"], "b");
    let loaded = load(&filled).unwrap();
    assert_eq!((loaded.name.as_str(), loaded.objects.len()), ("b.v1", 2));
    assert!(load(&config_map(&request)).unwrap().objects.is_empty());
    let noise: Vec<u8> = (0..40_000_u32).flat_map(|n| Sha256::digest(n.to_le_bytes())).collect();
    files.insert("manifests/large.yaml".into(), noise);
    assert_eq!(fill(&config_map(&request), "i", &files).unwrap_err().to_string(), "bundle files exceeded 1048576 bytes limit");
    files.retain(|path, _| path.starts_with("metadata/"));
    assert!(fill(&config_map(&request), "i", &files).unwrap_err().to_string().contains("/bundle/manifests/"));
}
