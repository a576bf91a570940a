//! The pod that copies a release to the node, and what is made of its status.

use mainstay_cluster_version_core::payload_pod::{FOLDER, Request, Verdict, folder_name, leftovers, pod, required, verdict};
use serde_json::{Value, json};

const IMAGE: &str = "registry.example/release@sha256:00";

fn made(version: &str) -> Value {
    let (namespace, node) = ("openshift-cluster-version", "master-0");
    pod(&Request { version, image: IMAGE, namespace, node, folder: FOLDER, random: [0, u64::MAX] })
}

/// CVO-RET-03, CVO-RET-04: the pod has upstream's shape: everything is written under a temporary name, and renamed at the end.
#[test]
fn the_pod() {
    let pod = made("4.19.1");
    let metadata = json!({
        "name": "version-4.19.1-bbbbb", "namespace": "openshift-cluster-version",
        "labels": {"k8s-app": "retrieve-openshift-release"}, "annotations": {"openshift.io/required-scc": "privileged"},
    });
    assert_eq!(pod["metadata"], metadata);
    let spec = &pod["spec"];
    assert_eq!((&spec["activeDeadlineSeconds"], &spec["restartPolicy"]), (&json!(120), &json!("OnFailure")));
    assert_eq!(spec["volumes"], json!([{"name": "payloads", "hostPath": {"path": "/etc/cvo/updatepayloads"}}]));
    assert_eq!((&spec["nodeName"], &spec["priorityClassName"]), (&json!("master-0"), &json!("openshift-user-critical")));
    assert_eq!(spec["nodeSelector"], json!({"node-role.kubernetes.io/master": ""}));
    assert_eq!(spec["tolerations"], json!([{"key": "node-role.kubernetes.io/master"}]));
    let all = |field: &str| spec[field].as_array().cloned().unwrap_or_default();
    let target = format!("/etc/cvo/updatepayloads/{}", folder_name(IMAGE));
    let temporary = format!("{target}-7fxt4");
    let told: Vec<(String, String)> = all("initContainers")
        .iter()
        .chain(&all("containers"))
        .map(|container| {
            let words = container["command"].as_array().into_iter().flatten().filter_map(Value::as_str);
            (container["name"].as_str().unwrap_or_default().to_owned(), words.collect::<Vec<_>>().join(" "))
        })
        .collect();
    let expected = [
        ("cleanup", "sh -c rm -fR ./*".to_owned()),
        ("make-temporary-directory", format!("mkdir {temporary}")),
        ("move-operator-manifests-to-temporary-directory", format!("mv /manifests {temporary}/manifests")),
        ("move-release-manifests-to-temporary-directory", format!("mv /release-manifests {temporary}/release-manifests")),
        ("rename-to-final-location", format!("mv {temporary} {target}")),
    ];
    assert_eq!(told, expected.map(|(name, words)| (name.to_owned(), words)));
    assert_eq!(all("containers").len(), 1);
    assert_eq!(all("initContainers")[0]["workingDir"], "/etc/cvo/updatepayloads/");
    for container in all("initContainers").iter().chain(&all("containers")) {
        assert_eq!(container["image"], IMAGE);
        assert_eq!(container["resources"], json!({"requests": {"cpu": "10m", "memory": "50Mi", "ephemeral-storage": "2Mi"}}));
        assert_eq!(container["volumeMounts"], json!([{"mountPath": "/etc/cvo/updatepayloads", "name": "payloads"}]));
    }
}

/// CVO-RET-04: the folder is the MD5 sum of the pullspec in base64 for URLs, without padding; four of its files must be there.
#[test]
fn folders() {
    // `printf %s quay.io/example/release:1 | openssl md5 -binary | base64 | tr +/ -_ | tr -d =`
    assert_eq!(folder_name(""), "1B2M2Y8AsgTpgAmY7PhCfg");
    assert_eq!(folder_name("quay.io/example/release:1"), "Y2fxvV-N7Q9HwCdM1Sz64A");
    assert_eq!(required("/f").last().map(String::as_str), Some("/f/release-manifests/image-references"));
}

/// CVO-RET-02: a pod is `version-VERSION-RANDOM`, also for versions that are no part of a name, and without a version.
#[test]
fn names() {
    for (version, name) in
        [("", "version--bbbbb"), ("4.20.0-RC.1+build.7", "version-4.20.0-rc.1-build.7-bbbbb"), ("x/y\n", "version-x-y--bbbbb")]
    {
        assert_eq!(made(version)["metadata"]["name"], name);
    }
    assert!(made(&"9".repeat(5_000))["metadata"]["name"].as_str().is_some_and(|name| name.len() < 253));
}

/// CVO-RET-02, CVO-RET-04: Jobs of releases up to 4.14 are recognised by their names, pods by the label that they were listed by.
#[test]
fn what_earlier_retrievals_left() {
    let pods = ["version-4.19.1-abcde", "another"];
    let jobs = ["version-4.14.1-xyz", "must-gather", "version", "my-version-1"];
    let found = leftovers("openshift-cluster-version", pods.into_iter(), jobs.into_iter());
    let told: Vec<_> =
        found.iter().map(|place| format!("{} {} {}/{}", place.api_version, place.kind, place.namespace, place.name)).collect();
    let expected = [
        "batch/v1 Job openshift-cluster-version/version-4.14.1-xyz",
        "v1 Pod openshift-cluster-version/version-4.19.1-abcde",
        "v1 Pod openshift-cluster-version/another",
    ];
    assert_eq!(told, expected);
}

/// CVO-RET-05: what a status says of the retrieval, in upstream's words.
#[test]
fn verdicts() {
    let waiting =
        |name: &str, reason: &str, message: &str| json!({"name": name, "state": {"waiting": {"reason": reason, "message": message}}});
    let ended = |name: &str, reason: &str, message: &str| json!({"name": name, "state": {"terminated": {"reason": reason, "message": message, "exitCode": 1}}});
    let pod = |phase: &str, containers: Value, init: Value| json!({"status": {"phase": phase, "reason": "R", "message": "a \"b\"", "containerStatuses": containers, "initContainerStatuses": init}});
    let told = |pod: &Value| match verdict("p", Some(pod)) {
        Verdict::Waiting => "waiting".to_owned(),
        Verdict::Done => "done".to_owned(),
        Verdict::Failed(failure) => failure.to_string(),
    };
    let refused = "reading manifest sha256:00 in registry.example/release: manifest unknown";
    let cases = [
        (pod("Succeeded", json!([]), json!([])), "done".to_owned()),
        (pod("Running", json!([waiting("a", "ErrImagePull", refused)]), json!([])), "waiting".to_owned()),
        (json!({"status": {"phase": "Pending"}}), "waiting".to_owned()),
        // Only these two are hopeless.
        (pod("Pending", json!([]), json!([waiting("a", "ErrImagePull", "no route to host")])), "waiting".to_owned()),
        (pod("Pending", json!([]), json!([waiting("a", "ImagePullBackOff", refused)])), "waiting".to_owned()),
        (
            pod("Pending", json!([waiting("rename", "PodInitializing", "")]), json!([waiting("cleanup", "ErrImagePull", refused)])),
            format!(
                r#"pod p failed at pending with reason "R" and message "a \"b\"" and status initcontainer cleanup is waiting with reason "ErrImagePull" and message "{refused}""#
            ),
        ),
        (
            pod("Pending", json!([]), json!([waiting("cleanup", "SignatureValidationFailed", "")])),
            r#"pod p failed at pending with reason "R" and message "a \"b\"" and status initcontainer cleanup is waiting with reason "SignatureValidationFailed" and message """#
                .to_owned(),
        ),
        (
            pod(
                "Failed",
                json!([ended("rename", "Error", "mv: cannot stat"), waiting("b", "X", "why"), waiting("c", "X", "")]),
                json!([ended("cleanup", "Error", "x"), ended("make", "Completed", "")]),
            ),
            r#"pod p failed with reason "R" and message "a \"b\"" and status container rename is terminated with reason "Error" and message "mv: cannot stat",container b is waiting with reason "X" and message "why",initcontainer cleanup is terminated with reason "Error" and message "x""#
                .to_owned(),
        ),
        (
            json!({"status": {"phase": "Failed", "reason": "DeadlineExceeded", "message": "Pod was active on the node longer than the specified deadline"}}),
            r#"pod p failed with reason "DeadlineExceeded" and message "Pod was active on the node longer than the specified deadline" and status "#
                .to_owned(),
        ),
        (pod("Unknown", json!([]), json!([])), "pod p is with unexpected phase Unknown".to_owned()),
        (json!({}), "pod p is with unexpected phase ".to_owned()),
        (json!({"status": {"phase": "Failed", "containerStatuses": "x", "initContainerStatuses": [7, {"state": 1}]}}), r#"pod p failed with reason "" and message "" and status "#.to_owned()),
    ];
    for (pod, expected) in cases {
        assert_eq!(told(&pod), expected, "{pod:#}");
    }
    let Verdict::Failed(lost) = verdict("p", None) else { panic!("not lost") };
    assert_eq!(lost.to_string(), "pod p was deleted before it completed");
}
