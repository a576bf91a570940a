#![allow(clippy::unwrap_used, clippy::expect_used)]
use serde_json::json;

use super::*;

fn standard(text: &str) -> Standard {
    let (level, version) = text.split_once(':').unwrap();
    Standard { level: Level::parse(level).unwrap(), version: Version::parse(version).unwrap() }
}

fn check(standard_text: &str, pod: &Value, expected: &str) {
    let standard = standard(standard_text);
    assert_eq!(standard.to_string(), standard_text);
    assert_eq!(evaluate(standard, pod).to_string(), expected, "{standard_text} {pod}");
}

fn pod(spec: &Value) -> Value {
    json!({"metadata": {"name": "p"}, "spec": spec})
}

fn container(name: &str, context: &Value) -> Value {
    json!({"name": name, "image": "i", "securityContext": context})
}

/// KAPI-ADM-03: each check of level baseline, with upstream's words.
#[test]
fn baseline() {
    for (spec, expected) in [
        (json!({"containers": [{"name": "a"}]}), ""),
        (
            json!({"containers": [container("a", &json!({"appArmorProfile": {"type": "Unconfined"}}))],
                "securityContext": {"appArmorProfile": {"type": "Unconfined"}}}),
            "forbidden AppArmor profile (pod and container \"a\" must not set AppArmor profile type to \"Unconfined\")",
        ),
        (
            json!({"containers": [container("a", &json!({"capabilities": {"add": ["NET_RAW", "CHOWN"]}})),
                container("b", &json!({"capabilities": {"add": ["BPF"]}}))]}),
            "non-default capabilities (containers \"a\", \"b\" must not include \"BPF\", \"NET_RAW\" in securityContext.capabilities.add)",
        ),
        (
            json!({"containers": [], "hostNetwork": true, "hostPID": true, "hostIPC": true}),
            "host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)",
        ),
        (
            json!({"containers": [], "volumes": [{"name": "x", "hostPath": {"path": "/"}}, {"name": "y", "hostPath": {"path": "/"}}, {"name": "z", "nfs": {}}]}),
            "hostPath volumes (volumes \"x\", \"y\")",
        ),
        (
            json!({"containers": [{"name": "a", "ports": [{"hostPort": 80}, {"hostPort": 443}, {"containerPort": 1}]}],
                "initContainers": [{"name": "i", "ports": [{"hostPort": 80}]}]}),
            "hostPort (containers \"i\", \"a\" use hostPorts 443, 80)",
        ),
        (
            json!({"containers": [{"name": "b", "livenessProbe": {"httpGet": {"host": "10.0.0.1"}}},
                {"name": "a", "lifecycle": {"preStop": {"tcpSocket": {"host": "h"}}}}]}),
            "probe or lifecycle host (containers \"a\", \"b\" use probe or lifecycle hosts \"10.0.0.1\", \"h\")",
        ),
        (
            json!({"containers": [container("a", &json!({"privileged": true}))]}),
            "privileged (container \"a\" must not set securityContext.privileged=true)",
        ),
        (
            json!({"containers": [container("a", &json!({"procMount": "Unmasked"}))]}),
            "procMount (container \"a\" must not set securityContext.procMount to \"Unmasked\")",
        ),
        (
            json!({"containers": [container("a", &json!({"seLinuxOptions": {"type": "spc_t", "role": "r"}})),
                container("b", &json!({"seLinuxOptions": {"type": "container_engine_t"}}))],
                "securityContext": {"seLinuxOptions": {"user": "u"}}}),
            "seLinuxOptions (pod and container \"a\" set forbidden securityContext.seLinuxOptions: type \"spc_t\"; user may not be set; role may not be set)",
        ),
        (
            json!({"containers": [{"name": "a"}], "securityContext": {"seccompProfile": {"type": "Unconfined"}}}),
            "seccompProfile (pod must not set securityContext.seccompProfile.type to \"Unconfined\")",
        ),
        (
            json!({"containers": [], "securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem"}, {"name": "kernel.msgmax"}, {"name": "a.b"}]}}),
            "forbidden sysctls (kernel.msgmax, a.b)",
        ),
        (
            json!({"containers": [container("a", &json!({"windowsOptions": {"hostProcess": true}}))],
                "securityContext": {"windowsOptions": {"hostProcess": true}}}),
            "hostProcess (pod and container \"a\" must not set securityContext.windowsOptions.hostProcess=true)",
        ),
    ] {
        check("baseline:latest", &pod(&spec), expected);
        check("privileged:latest", &pod(&spec), "");
    }
    let mut annotated = pod(&json!({"containers": [{"name": "a"}]}));
    annotated["metadata"]["annotations"] = json!({
        "container.apparmor.security.beta.kubernetes.io/a": "unconfined",
        "container.apparmor.security.beta.kubernetes.io/b": "localhost/x",
        "container.seccomp.security.alpha.kubernetes.io/a": "unconfined",
        "container.seccomp.security.alpha.kubernetes.io/none": "unconfined",
        "seccomp.security.alpha.kubernetes.io/pod": "docker/default",
    });
    let app_armor = "forbidden AppArmor profile (annotation must not set AppArmor profile type to \"container.apparmor.security.beta.kubernetes.io/a=\"unconfined\"\")";
    check("baseline:latest", &annotated, app_armor);
    let old = format!("{app_armor}, seccompProfile (forbidden annotation container.seccomp.security.alpha.kubernetes.io/a=\"unconfined\")");
    check("baseline:v1.18", &annotated, &old);
}

/// KAPI-ADM-03: each check of level restricted, and those of baseline that it takes the place of.
#[test]
fn restricted() {
    let good = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
        "runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    let with = |field: &str, value: Value| {
        let mut context = good.clone();
        context[field] = value;
        json!({"containers": [container("a", &context)]})
    };
    for (spec, expected) in [
        (json!({"containers": [container("a", &good)]}), ""),
        (
            with("allowPrivilegeEscalation", json!(true)),
            "allowPrivilegeEscalation != false (container \"a\" must set securityContext.allowPrivilegeEscalation=false)",
        ),
        (
            with("capabilities", json!({"add": ["SYS_ADMIN", "CHOWN"]})),
            "unrestricted capabilities (container \"a\" must set securityContext.capabilities.drop=[\"ALL\"]; container \"a\" must not include \"CHOWN\", \"SYS_ADMIN\" in securityContext.capabilities.add)",
        ),
        (
            json!({"containers": [container("a", &good)], "volumes": [{"name": "h", "hostPath": {}}, {"name": "n", "nfs": {}}, {"name": "c", "configMap": {}}, {"name": "u"}]}),
            "restricted volume types (volumes \"h\", \"n\", \"u\" use restricted volume types \"hostPath\", \"nfs\", \"unknown\")",
        ),
        (with("runAsNonRoot", json!(false)), "runAsNonRoot != true (container \"a\" must not set securityContext.runAsNonRoot=false)"),
        (with("runAsNonRoot", Value::Null), "runAsNonRoot != true (pod or container \"a\" must set securityContext.runAsNonRoot=true)"),
        (with("runAsUser", json!(0)), "runAsUser=0 (container \"a\" must not set runAsUser=0)"),
        (
            with("seccompProfile", Value::Null),
            "seccompProfile (pod or container \"a\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")",
        ),
        (
            with("seccompProfile", json!({"type": "Unconfined"})),
            "seccompProfile (container \"a\" must not set securityContext.seccompProfile.type to \"Unconfined\")",
        ),
    ] {
        check("restricted:v1.34", &pod(&spec), expected);
    }
}

/// KAPI-ADM-03: the standards at versions; later ones than the newest are the newest.
#[test]
fn versions() {
    let bare = pod(&json!({"containers": [{"name": "a"}], "os": {"name": "windows"}}));
    let non_root = "runAsNonRoot != true (pod or container \"a\" must set securityContext.runAsNonRoot=true)";
    let escalation = "allowPrivilegeEscalation != false (container \"a\" must set securityContext.allowPrivilegeEscalation=false)";
    let drop = "unrestricted capabilities (container \"a\" must set securityContext.capabilities.drop=[\"ALL\"])";
    let seccomp =
        "seccompProfile (pod or container \"a\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")";
    check("restricted:v1.7", &bare, non_root);
    check("restricted:v1.8", &bare, &format!("{escalation}, {non_root}"));
    check("restricted:v1.19", &bare, &format!("{escalation}, {non_root}, {seccomp}"));
    check("restricted:v1.22", &bare, &format!("{escalation}, {drop}, {non_root}, {seccomp}"));
    check("restricted:v1.25", &bare, non_root);
    check("restricted:v1.99", &bare, non_root);
    let sysctl = |name: &str| pod(&json!({"containers": [], "securityContext": {"sysctls": [{"name": name}]}}));
    for (name, since) in [("net.ipv4.ip_local_reserved_ports", 27), ("net.ipv4.tcp_fin_timeout", 29), ("net.ipv4.tcp_wmem", 32)] {
        check(&format!("baseline:v1.{}", since - 1), &sysctl(name), &format!("forbidden sysctls ({name})"));
        check(&format!("baseline:v1.{since}"), &sysctl(name), "");
    }
    let root = pod(&json!({"containers": [], "securityContext": {"runAsUser": 0, "runAsNonRoot": true}}));
    check("restricted:v1.22", &root, "");
    check("restricted:v1.23", &root, "runAsUser=0 (pod must not set runAsUser=0)");
    let probe = pod(&json!({"containers": [{"name": "a", "startupProbe": {"httpGet": {"host": "h"}}}]}));
    check("baseline:v1.33", &probe, "");
    check("baseline:v1.34", &probe, "probe or lifecycle host (container \"a\" uses probe or lifecycle host \"h\")");
}

/// KAPI-ADM-03: the labels of namespaces; what cannot be read is enforced strictly and named.
#[test]
fn labels() {
    for (labels, policy, errors) in [
        (json!({}), "privileged:latest privileged:latest", ""),
        (json!({"enforce": "baseline"}), "baseline:latest baseline:latest", ""),
        (json!({"enforce": "baseline", "enforce-version": "v1.30"}), "baseline:v1.30 baseline:v1.30", ""),
        (json!({"enforce": "restricted", "warn": "baseline"}), "restricted:latest baseline:latest", ""),
        (json!({"enforce": "restricted", "enforce-version": "v1.9", "warn-version": "v1.8"}), "restricted:v1.9 restricted:v1.8", ""),
        (json!({"warn": "restricted", "audit": "baseline"}), "privileged:latest restricted:latest", ""),
        (
            json!({"enforce": "strict", "audit": "x", "warn": "y", "enforce-version": "1.2", "audit-version": "v2.1", "warn-version": "v1.01"}),
            "restricted:latest privileged:latest",
            "enforce: must be one of privileged, baseline, restricted|enforce-version: must be \"latest\" or \"v1.x\"|\
             audit: must be one of privileged, baseline, restricted|audit-version: must be \"latest\" or \"v1.x\"|\
             warn: must be one of privileged, baseline, restricted|warn-version: must be \"latest\" or \"v1.x\"",
        ),
    ] {
        let given = labels.as_object().unwrap().iter().map(|(name, value)| (format!("{PREFIX}{name}"), value.clone()));
        let namespace = json!({"metadata": {"labels": Value::Object(given.collect())}});
        let (found, problems) = Policy::of(&namespace);
        assert_eq!(format!("{} {}", found.enforce, found.warn), policy, "{labels}");
        let shown = |error: &Error| {
            let field = error.field.to_string();
            let name = field.trim_start_matches("metadata.labels[").trim_start_matches(PREFIX).trim_end_matches(']').to_owned();
            format!("{name}: {}", error.body().split_once("\": ").unwrap().1)
        };
        assert_eq!(problems.iter().map(shown).collect::<Vec<_>>().join("|"), errors, "{labels}");
    }
}

/// KAPI-ADM-03: a namespace that becomes stricter warns of the pods that are there.
#[test]
fn a_stricter_namespace_warns_of_its_pods() {
    let of = |text: &str| Policy { enforce: standard(text), audit: standard(text), warn: standard(text) };
    let one = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
    let pods = || {
        vec![
            one("b", json!({"containers": [], "hostNetwork": true})),
            one("a", json!({"containers": [], "hostNetwork": true})),
            one("c", json!({"containers": [], "hostNetwork": true})),
            one("d", json!({"containers": [container("x", &json!({"privileged": true}))]})),
            one("e", json!({"containers": []})),
        ]
    };
    let warnings = |new: &str, old: &str| namespace_warnings("n", &of(new), &of(old), pods);
    assert_eq!(
        warnings("baseline:latest", "privileged:latest"),
        [
            "existing pods in namespace \"n\" violate the new PodSecurity enforce level \"baseline:latest\"",
            "a (and 2 other pods): host namespaces",
            "d: privileged",
        ]
    );
    assert!(warnings("baseline:latest", "restricted:latest").is_empty(), "relaxed");
    assert!(warnings("baseline:latest", "baseline:latest").is_empty(), "unchanged");
    assert_eq!(warnings("baseline:v1.30", "restricted:latest").len(), 3, "another version is looked at");
    assert!(warnings("privileged:latest", "restricted:v1.1").is_empty());
}

#[test]
fn only_images_and_ephemeral_containers_are_significant() {
    let old = json!({"spec": {"containers": [{"name": "a", "image": "x"}]}});
    let mut new = old.clone();
    new["metadata"] = json!({"labels": {"a": "b"}});
    assert!(!is_significant_update(&new, &old));
    new["spec"]["containers"][0]["image"] = json!("y");
    assert!(is_significant_update(&new, &old));
    let mut new = old.clone();
    new["spec"]["ephemeralContainers"] = json!([{"name": "e", "image": "x"}]);
    assert!(is_significant_update(&new, &old));
    assert!(!is_significant_update(&new, &new));
}
