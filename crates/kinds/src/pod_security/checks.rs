//! The checks of the standards: what each looks at, since which version, and the words of its violations.

use std::collections::BTreeSet;

use mainstay_golang::quote;
use serde_json::Value;

use super::{Level, Violation};

/// Finds a violation in a pod.
pub(super) type Run = fn(&Value) -> Option<Violation>;

/// A check.
pub(super) struct Check {
    pub id: &'static str,
    pub level: Level,
    /// The minor versions from which on each form of it is in force, the oldest first.
    forms: &'static [(u32, Run)],
    /// The check of the lower level that it replaces.
    pub replaces: Option<&'static str>,
}

impl Check {
    /// The form that is in force in a version.
    pub fn in_version(&self, version: u32) -> Option<Run> {
        self.forms.iter().rev().find(|(since, _)| *since <= version).map(|(_, run)| *run)
    }
}

const fn baseline(id: &'static str, forms: &'static [(u32, Run)]) -> Check {
    Check { id, level: Level::Baseline, forms, replaces: None }
}

const fn restricted(id: &'static str, forms: &'static [(u32, Run)], replaces: Option<&'static str>) -> Check {
    Check { id, level: Level::Restricted, forms, replaces }
}

/// All checks, in the order in which their violations are told.
pub(super) const CHECKS: &[Check] = &[
    baseline("appArmorProfile", &[(0, app_armor)]),
    baseline("capabilities_baseline", &[(0, capabilities)]),
    baseline("hostNamespaces", &[(0, host_namespaces)]),
    baseline("hostPathVolumes", &[(0, host_paths)]),
    baseline("hostPorts", &[(0, host_ports)]),
    baseline("hostProbesAndHostLifecycle", &[(34, hosts_of_probes)]),
    baseline("privileged", &[(0, privileged)]),
    baseline("procMount", &[(0, proc_mount)]),
    baseline("seLinuxOptions", &[(0, |pod| se_linux(pod, false)), (31, |pod| se_linux(pod, true))]),
    baseline("seccompProfile_baseline", &[(0, seccomp_annotations), (19, seccomp)]),
    baseline(
        "sysctls",
        &[
            (0, |pod| sysctls(pod, 5)),
            (27, |pod| sysctls(pod, 6)),
            (29, |pod| sysctls(pod, 10)),
            (32, |pod| sysctls(pod, SAFE_SYSCTLS.len())),
        ],
    ),
    baseline("windowsHostProcess", &[(0, host_process)]),
    restricted("allowPrivilegeEscalation", &[(8, escalation), (25, |pod| unless_windows(pod, escalation))], None),
    restricted(
        "capabilities_restricted",
        &[(22, dropped_capabilities), (25, |pod| unless_windows(pod, dropped_capabilities))],
        Some("capabilities_baseline"),
    ),
    restricted("restrictedVolumes", &[(0, volumes)], Some("hostPathVolumes")),
    restricted("runAsNonRoot", &[(0, non_root)], None),
    restricted("runAsUser", &[(23, root)], None),
    restricted(
        "seccompProfile_restricted",
        &[(19, required_seccomp), (25, |pod| unless_windows(pod, required_seccomp))],
        Some("seccompProfile_baseline"),
    ),
];

const DEFAULT_CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// In the order in which they became safe.
const SAFE_SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
];

/// Volumes that any pod may have.
const FREE_VOLUMES: [&str; 9] =
    ["configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret"];

/// Volumes that are named when they are refused.
const NAMED_VOLUMES: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";

fn violation(reason: &'static str, detail: String) -> Violation {
    Violation { reason, detail }
}

fn list<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Every container of a pod, in the order of its life.
fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    ["/spec/initContainers", "/spec/containers", "/spec/ephemeralContainers"].into_iter().flat_map(|field| list(pod, field))
}

/// A field of a container's security context; null if it is absent.
fn context<'a>(container: &'a Value, pointer: &str) -> &'a Value {
    container.get("securityContext").and_then(|context| context.pointer(pointer)).unwrap_or(&Value::Null)
}

/// A field of the pod's own security context.
fn pod_context<'a>(pod: &'a Value, pointer: &str) -> &'a Value {
    pod.get("spec").map_or(&Value::Null, |spec| context(spec, pointer))
}

fn is_windows(pod: &Value) -> bool {
    pod.pointer("/spec/os/name").is_some_and(|name| name == "windows")
}

fn unless_windows(pod: &Value, run: Run) -> Option<Violation> {
    if is_windows(pod) { None } else { run(pod) }
}

fn quoted<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    items.into_iter().map(|item| format!("\"{item}\"")).collect::<Vec<_>>().join(", ")
}

fn number<'a>(one: &'a str, many: &'a str, count: usize) -> &'a str {
    if count == 1 { one } else { many }
}

/// `container "a"`, `containers "a", "b"`.
fn named(bad: &[&str]) -> String {
    format!("{} {}", number("container", "containers", bad.len()), quoted(bad.iter().copied()))
}

/// The places that set it wrongly: the pod, some containers, or both.
fn setters(pod: bool, bad: &[&str]) -> Option<String> {
    match (pod, bad) {
        (false, []) => None,
        (true, []) => Some("pod".to_owned()),
        (false, bad) => Some(named(bad)),
        (true, bad) => Some(format!("pod and {}", named(bad))),
    }
}

fn names_of<'a>(pod: &'a Value, is_bad: impl Fn(&'a Value) -> bool) -> Vec<&'a str> {
    containers(pod).filter(|container| is_bad(container)).map(|container| text(container, "name")).collect()
}

fn annotations(pod: &Value) -> impl Iterator<Item = (&str, &str)> {
    let all = pod.pointer("/metadata/annotations").and_then(Value::as_object).into_iter().flatten();
    all.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

fn app_armor(pod: &Value) -> Option<Violation> {
    let bad = |profile: &Value| !profile.is_null() && !matches!(text(profile, "type"), "RuntimeDefault" | "Localhost");
    let profile = "/appArmorProfile";
    let mut values = BTreeSet::new();
    let of_pod = pod_context(pod, profile);
    if bad(of_pod) {
        values.insert(text(of_pod, "type").to_owned());
    }
    let names = names_of(pod, |container| bad(context(container, profile)));
    let profiles = containers(pod).map(|container| context(container, profile)).filter(|profile| bad(profile));
    values.extend(profiles.map(|profile| text(profile, "type").to_owned()));
    let allowed = |value: &str| value.is_empty() || value == "runtime/default" || value.starts_with("localhost/");
    let mut forbidden: Vec<String> = annotations(pod)
        .filter(|(key, value)| key.starts_with(APP_ARMOR) && !allowed(value))
        .map(|(key, value)| format!("{key}={}", quote(value)))
        .collect();
    forbidden.sort();
    let mut who: Vec<String> = setters(bad(of_pod), &names).into_iter().collect();
    let values: Vec<String> = values.into_iter().chain(forbidden.iter().cloned()).collect();
    if !forbidden.is_empty() {
        who.push(number("annotation", "annotations", forbidden.len()).to_owned());
    }
    if who.is_empty() {
        return None;
    }
    let detail = format!("{} must not set AppArmor profile type to {}", who.join(" and "), quoted(values.iter().map(String::as_str)));
    Some(violation(number("forbidden AppArmor profile", "forbidden AppArmor profiles", values.len()), detail))
}

fn added<'a>(container: &'a Value, allowed: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    let capabilities = context(container, "/capabilities/add").as_array().into_iter().flatten();
    capabilities.filter_map(Value::as_str).filter(|name| !allowed.contains(name))
}

fn capabilities(pod: &Value) -> Option<Violation> {
    let bad = names_of(pod, |container| added(container, &DEFAULT_CAPABILITIES).next().is_some());
    let all: BTreeSet<&str> = containers(pod).flat_map(|container| added(container, &DEFAULT_CAPABILITIES)).collect();
    let detail = || format!("{} must not include {} in securityContext.capabilities.add", named(&bad), quoted(all));
    (!bad.is_empty()).then(|| violation("non-default capabilities", detail()))
}

fn dropped_capabilities(pod: &Value) -> Option<Violation> {
    let drops_all =
        |container: &Value| context(container, "/capabilities/drop").as_array().is_some_and(|list| list.iter().any(|one| one == "ALL"));
    let keeping = names_of(pod, |container| !drops_all(container));
    let allowed = &["NET_BIND_SERVICE"];
    let adding = names_of(pod, |container| added(container, allowed).next().is_some());
    let all: BTreeSet<&str> = containers(pod).flat_map(|container| added(container, allowed)).collect();
    let mut details = Vec::new();
    if !keeping.is_empty() {
        details.push(format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", named(&keeping)));
    }
    if !adding.is_empty() {
        details.push(format!("{} must not include {} in securityContext.capabilities.add", named(&adding), quoted(all)));
    }
    (!details.is_empty()).then(|| violation("unrestricted capabilities", details.join("; ")))
}

fn host_namespaces(pod: &Value) -> Option<Violation> {
    let shared = ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|field| pod["spec"][field] == true);
    let shared: Vec<String> = shared.map(|field| format!("{field}=true")).collect();
    (!shared.is_empty()).then(|| violation("host namespaces", shared.join(", ")))
}

fn host_paths(pod: &Value) -> Option<Violation> {
    let bad: Vec<&str> =
        list(pod, "/spec/volumes").filter(|volume| volume.get("hostPath").is_some()).map(|volume| text(volume, "name")).collect();
    let detail = || format!("{} {}", number("volume", "volumes", bad.len()), quoted(bad.iter().copied()));
    (!bad.is_empty()).then(|| violation("hostPath volumes", detail()))
}

fn host_ports(pod: &Value) -> Option<Violation> {
    fn ports(container: &Value) -> impl Iterator<Item = String> {
        list(container, "/ports").filter_map(|port| port["hostPort"].as_i64()).filter(|port| *port != 0).map(|port| port.to_string())
    }
    let bad = names_of(pod, |container| ports(container).next().is_some());
    let all: BTreeSet<String> = containers(pod).flat_map(ports).collect();
    let detail = || {
        let uses = number("uses", "use", bad.len());
        let what = number("hostPort", "hostPorts", all.len());
        format!("{} {uses} {what} {}", named(&bad), all.iter().cloned().collect::<Vec<_>>().join(", "))
    };
    (!bad.is_empty()).then(|| violation("hostPort", detail()))
}

fn hosts_of_probes(pod: &Value) -> Option<Violation> {
    fn hosts(container: &Value) -> impl Iterator<Item = &str> {
        ["/livenessProbe", "/readinessProbe", "/startupProbe", "/lifecycle/postStart", "/lifecycle/preStop"]
            .into_iter()
            .filter_map(|handler| container.pointer(handler))
            .flat_map(|handler| ["/httpGet/host", "/tcpSocket/host"].into_iter().filter_map(|host| handler.pointer(host)))
            .filter_map(Value::as_str)
            .filter(|host| !host.is_empty())
    }
    let bad: BTreeSet<&str> = names_of(pod, |container| hosts(container).next().is_some()).into_iter().collect();
    let bad: Vec<&str> = bad.into_iter().collect();
    let all: BTreeSet<&str> = containers(pod).flat_map(hosts).collect();
    let detail = || {
        let uses = number("uses", "use", bad.len());
        let what = number("probe or lifecycle host", "probe or lifecycle hosts", all.len());
        format!("{} {uses} {what} {}", named(&bad), quoted(all))
    };
    (!bad.is_empty()).then(|| violation("probe or lifecycle host", detail()))
}

fn privileged(pod: &Value) -> Option<Violation> {
    let bad = names_of(pod, |container| *context(container, "/privileged") == true);
    (!bad.is_empty()).then(|| violation("privileged", format!("{} must not set securityContext.privileged=true", named(&bad))))
}

fn proc_mount(pod: &Value) -> Option<Violation> {
    fn kind(container: &Value) -> Option<&str> {
        context(container, "/procMount").as_str().filter(|kind| *kind != "Default")
    }
    let bad = names_of(pod, |container| kind(container).is_some());
    let all: BTreeSet<&str> = containers(pod).filter_map(kind).collect();
    let detail = || format!("{} must not set securityContext.procMount to {}", named(&bad), quoted(all));
    (!bad.is_empty()).then(|| violation("procMount", detail()))
}

fn se_linux(pod: &Value, engine: bool) -> Option<Violation> {
    let allowed =
        |kind: &str| matches!(kind, "" | "container_t" | "container_init_t" | "container_kvm_t") || engine && kind == "container_engine_t";
    let bad = |options: &&Value| !allowed(text(options, "type")) || !text(options, "user").is_empty() || !text(options, "role").is_empty();
    let of_pod = Some(pod_context(pod, "/seLinuxOptions")).filter(bad);
    let names = names_of(pod, |container| bad(&context(container, "/seLinuxOptions")));
    let all: Vec<&Value> =
        of_pod.into_iter().chain(containers(pod).map(|container| context(container, "/seLinuxOptions")).filter(bad)).collect();
    let who = setters(of_pod.is_some(), &names)?;
    let types: BTreeSet<&str> = all.iter().map(|options| text(options, "type")).filter(|kind| !allowed(kind)).collect();
    let mut what = Vec::new();
    if !types.is_empty() {
        what.push(format!("{} {}", number("type", "types", types.len()), quoted(types)));
    }
    for field in ["user", "role"] {
        if all.iter().any(|options| !text(options, field).is_empty()) {
            what.push(format!("{field} may not be set"));
        }
    }
    Some(violation("seLinuxOptions", format!("{who} set forbidden securityContext.seLinuxOptions: {}", what.join("; "))))
}

/// Before 1.19 profiles were annotations.
fn seccomp_annotations(pod: &Value) -> Option<Violation> {
    let allowed = |value: &str| matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/");
    let names: Vec<&str> = containers(pod).map(|container| text(container, "name")).collect();
    let concerns = |key: &str| key == SECCOMP_POD || key.strip_prefix(SECCOMP_CONTAINER).is_some_and(|name| names.contains(&name));
    let forbidden: BTreeSet<String> = annotations(pod)
        .filter(|(key, value)| concerns(key) && !allowed(value))
        .map(|(key, value)| format!("{key}={}", quote(value)))
        .collect();
    let count = forbidden.len();
    let detail =
        || format!("forbidden {} {}", number("annotation", "annotations", count), forbidden.into_iter().collect::<Vec<_>>().join(", "));
    (count > 0).then(|| violation("seccompProfile", detail()))
}

fn bad_seccomp(profile: &Value) -> bool {
    !profile.is_null() && !matches!(text(profile, "type"), "Localhost" | "RuntimeDefault")
}

fn seccomp(pod: &Value) -> Option<Violation> {
    let profile = "/seccompProfile";
    let of_pod = pod_context(pod, profile);
    let names = names_of(pod, |container| bad_seccomp(context(container, profile)));
    let who = setters(bad_seccomp(of_pod), &names)?;
    let all = std::iter::once(of_pod).chain(containers(pod).map(|container| context(container, profile)));
    let values: BTreeSet<&str> = all.filter(|profile| bad_seccomp(profile)).map(|profile| text(profile, "type")).collect();
    Some(violation("seccompProfile", format!("{who} must not set securityContext.seccompProfile.type to {}", quoted(values))))
}

fn required_seccomp(pod: &Value) -> Option<Violation> {
    if let Some(bad) = seccomp(pod) {
        return Some(bad);
    }
    if !pod_context(pod, "/seccompProfile").is_null() {
        return None;
    }
    let lacking = names_of(pod, |container| context(container, "/seccompProfile").is_null());
    let detail =
        || format!("pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"", named(&lacking));
    (!lacking.is_empty()).then(|| violation("seccompProfile", detail()))
}

fn sysctls(pod: &Value, safe: usize) -> Option<Violation> {
    let names = pod_context(pod, "/sysctls").as_array().into_iter().flatten().map(|sysctl| text(sysctl, "name"));
    let bad: Vec<&str> = names.filter(|name| !SAFE_SYSCTLS[..safe].contains(name)).collect();
    (!bad.is_empty()).then(|| violation("forbidden sysctls", bad.join(", ")))
}

fn host_process(pod: &Value) -> Option<Violation> {
    let field = "/windowsOptions/hostProcess";
    let names = names_of(pod, |container| *context(container, field) == true);
    let who = setters(*pod_context(pod, field) == true, &names)?;
    Some(violation("hostProcess", format!("{who} must not set securityContext.windowsOptions.hostProcess=true")))
}

fn escalation(pod: &Value) -> Option<Violation> {
    let bad = names_of(pod, |container| *context(container, "/allowPrivilegeEscalation") != false);
    let detail = || format!("{} must set securityContext.allowPrivilegeEscalation=false", named(&bad));
    (!bad.is_empty()).then(|| violation("allowPrivilegeEscalation != false", detail()))
}

fn volumes(pod: &Value) -> Option<Violation> {
    let bad: Vec<&Value> =
        list(pod, "/spec/volumes").filter(|volume| !FREE_VOLUMES.iter().any(|kind| volume.get(kind).is_some())).collect();
    let kind = |volume: &&Value| NAMED_VOLUMES.into_iter().find(|kind| volume.get(kind).is_some()).unwrap_or("unknown");
    let kinds: BTreeSet<&str> = bad.iter().map(kind).collect();
    let detail = || {
        let (what, uses) = (number("volume", "volumes", bad.len()), number("uses", "use", bad.len()));
        let which = number("restricted volume type", "restricted volume types", kinds.len());
        format!("{what} {} {uses} {which} {}", quoted(bad.iter().map(|volume| text(volume, "name"))), quoted(kinds))
    };
    (!bad.is_empty()).then(|| violation("restricted volume types", detail()))
}

fn non_root(pod: &Value) -> Option<Violation> {
    let reason = "runAsNonRoot != true";
    let field = "/runAsNonRoot";
    let explicit = names_of(pod, |container| *context(container, field) == false);
    if let Some(who) = setters(*pod_context(pod, field) == false, &explicit) {
        return Some(violation(reason, format!("{who} must not set securityContext.runAsNonRoot=false")));
    }
    if *pod_context(pod, field) == true {
        return None;
    }
    let lacking = names_of(pod, |container| context(container, field).is_null());
    let detail = || format!("pod or {} must set securityContext.runAsNonRoot=true", named(&lacking));
    (!lacking.is_empty()).then(|| violation(reason, detail()))
}

fn root(pod: &Value) -> Option<Violation> {
    let names = names_of(pod, |container| *context(container, "/runAsUser") == 0);
    let who = setters(*pod_context(pod, "/runAsUser") == 0, &names)?;
    Some(violation("runAsUser=0", format!("{who} must not set runAsUser=0")))
}
