//! Privileges of containers and pods on their node: users, profiles, kernel parameters, and the options of Windows.

use std::sync::LazyLock;

use mainstay_schema::field::{Error, Path};
use regex::Regex;
use serde_json::{Value, json};

use super::pod_spec::{MAX_ID, every_container};
use super::{Errors, all_invalid, flag, has, int, internal, list, names, one_of_if_set, text, volumes};

/// The context of one container. `own_users` says that the users of the pod are not those of its node.
pub(super) fn of_container(container: &Value, own_users: bool, path: &Path) -> Errors {
    let Some(context) = member(container, "securityContext") else { return Vec::new() };
    let mut errors = id(context, "runAsUser", path);
    errors.extend(id(context, "runAsGroup", path));
    errors.extend(one_of_if_set(context, "procMount", path, &["Default", "Unmasked"]));
    if text(context, "procMount") == "Unmasked" && !own_users {
        errors.push(Error::invalid(&path.child("procMount"), "Unmasked", "`hostUsers` must be false to use `Unmasked`"));
    }
    errors.extend(seccomp(context, &path.child("seccompProfile")));
    if context.get("allowPrivilegeEscalation") == Some(&json!(false)) {
        let shown = || internal::shown("SecurityContext", context);
        if flag(context, "privileged") {
            errors.push(Error::invalid(path, shown(), "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"));
        }
        let added = context.pointer("/capabilities/add").and_then(Value::as_array).into_iter().flatten();
        for _ in added.filter(|capability| **capability == json!("CAP_SYS_ADMIN")) {
            let words = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.push(Error::invalid(path, shown(), words));
        }
    }
    errors.extend(windows_options(context, &path.child("windowsOptions")));
    errors.extend(app_armor(context, &path.child("appArmorProfile")));
    errors
}

/// The context of a pod as a whole.
pub(super) fn of_pod(spec: &Value, path: &Path) -> Errors {
    let Some(context) = member(spec, "securityContext") else { return Vec::new() };
    let mut errors = id(context, "fsGroup", path);
    errors.extend(id(context, "runAsUser", path));
    errors.extend(id(context, "runAsGroup", path));
    for (index, group) in list(context, "supplementalGroups").iter().enumerate() {
        if let Some(group) = group.as_i64().filter(|group| !(0..=MAX_ID).contains(group)) {
            errors.push(Error::invalid(&path.child("supplementalGroups").index(index), group, ID_RANGE));
        }
    }
    if flag(spec, "shareProcessNamespace") && flag(spec, "hostPID") {
        let words = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(Error::invalid(&path.child("shareProcessNamespace"), true, words));
    }
    errors.extend(sysctls(spec, context, &path.child("sysctls")));
    errors.extend(one_of_if_set(context, "fsGroupChangePolicy", path, &["Always", "OnRootMismatch"]));
    errors.extend(seccomp(context, &path.child("seccompProfile")));
    errors.extend(windows_options(context, &path.child("windowsOptions")));
    errors.extend(app_armor(context, &path.child("appArmorProfile")));
    errors.extend(one_of_if_set(context, "supplementalGroupsPolicy", path, &["Merge", "Strict"]));
    errors.extend(one_of_if_set(context, "seLinuxChangePolicy", path, &["Recursive"]));
    errors
}

fn member<'a>(holder: &'a Value, field: &str) -> Option<&'a Value> {
    holder.get(field).filter(|value| !value.is_null())
}

const ID_RANGE: &str = "must be between 0 and 2147483647, inclusive";

fn id(context: &Value, field: &str, path: &Path) -> Errors {
    match int(context, field) {
        Some(id) if !(0..=MAX_ID).contains(&id) => vec![Error::invalid(&path.child(field), id, ID_RANGE)],
        _ => Vec::new(),
    }
}

fn seccomp(context: &Value, path: &Path) -> Errors {
    let Some(profile) = member(context, "seccompProfile") else { return Vec::new() };
    let mut errors = Vec::new();
    let (kind, own) = (text(profile, "type"), path.child("localhostProfile"));
    match kind {
        "Localhost" | "RuntimeDefault" | "Unconfined" => {}
        "" => errors.push(Error::required(&path.child("type"), "type is required when seccompProfile is set")),
        other => errors.push(Error::not_supported(&path.child("type"), other, &["Localhost", "RuntimeDefault", "Unconfined"])),
    }
    match (kind, has(profile, "localhostProfile")) {
        ("Localhost", false) => errors.push(Error::required(&own, "must be set when seccomp type is Localhost")),
        ("Localhost", true) => errors.extend(volumes::descending_path(text(profile, "localhostProfile"), &own)),
        (_, true) => {
            let words = "can only be set when seccomp type is Localhost";
            errors.push(Error::invalid(&own, internal::shown("SeccompProfile", profile), words));
        }
        (_, false) => {}
    }
    errors
}

fn app_armor(context: &Value, path: &Path) -> Errors {
    let Some(profile) = member(context, "appArmorProfile") else { return Vec::new() };
    let mut errors = Vec::new();
    let (kind, named, own) = (text(profile, "type"), text(profile, "localhostProfile"), path.child("localhostProfile"));
    match kind {
        "Localhost" if !has(profile, "localhostProfile") => {
            errors.push(Error::required(&own, "must be set when AppArmor type is Localhost"));
        }
        "Localhost" => {
            if named.trim() != named {
                errors.push(Error::invalid(&own, named, "must not be padded with whitespace"));
            } else if named.is_empty() {
                errors.push(Error::required(&own, "must be set when AppArmor type is Localhost"));
            }
            if named.len() > 4095 {
                errors.push(Error::too_long(&own, "", 4095));
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if has(profile, "localhostProfile") {
                errors.push(Error::invalid(&own, named, "can only be set when AppArmor type is Localhost"));
            }
        }
        "" => errors.push(Error::required(&path.child("type"), "type is required when appArmorProfile is set")),
        other => errors.push(Error::not_supported(&path.child("type"), other, &["Localhost", "RuntimeDefault", "Unconfined"])),
    }
    errors
}

fn sysctls(spec: &Value, context: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for (index, sysctl) in list(context, "sysctls").iter().enumerate() {
        let path = path.index(index).child("name");
        let name = text(sysctl, "name");
        if name.is_empty() {
            errors.push(Error::required(&path, ""));
        } else if !names::is_sysctl(name) {
            let words =
                r"must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            errors.push(Error::invalid(&path, name, words));
        } else if seen.contains(&name) {
            errors.push(Error::duplicate(&path, name));
        }
        // Parameters of a namespace of the kernel are not the pod's to set if it shares that namespace with its node.
        if let Some(shared) = namespace_of(name).filter(|shared| flag(spec, shared)) {
            errors.push(Error::invalid(&path, name, format!("may not be specified when '{shared}' is true")));
        }
        seen.push(name);
    }
    errors
}

/// The field that says whether a pod shares the kernel's namespace of a parameter with its node.
fn namespace_of(sysctl: &str) -> Option<&'static str> {
    // `net/ipv4/conf/eno2.100/rp_filter` and `net.ipv4.conf.eno2/100.rp_filter` are the same.
    let separator = sysctl.find(['.', '/']).map(|at| sysctl.as_bytes()[at]);
    let swapped = |letter| match letter {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    let name: String = if separator == Some(b'/') { sysctl.chars().map(swapped).collect() } else { sysctl.to_owned() };
    let ipc = ["sem", "shmall", "shmmax", "shmmni", "shm_rmid_forced", "shm", "msgmax", "msgmnb", "msgmni", "msg"];
    if name.starts_with("net.") {
        Some("hostNetwork")
    } else if name.starts_with("fs.mqueue.") || name.strip_prefix("kernel.").is_some_and(|rest| ipc.contains(&rest)) {
        Some("hostIPC")
    } else {
        None
    }
}

macro_rules! pattern {
    ($name:ident, $text:literal) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| {
            #[allow(clippy::expect_used, reason = "a constant pattern, exercised by the tests")]
            Regex::new($text).expect("a valid pattern")
        });
    };
}

pattern!(CONTROL, "[[:cntrl:]]");
pattern!(NETBIOS_DOMAIN, r#"^[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}$"#);
pattern!(DNS_DOMAIN, r"^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$");
pattern!(USER_LETTERS, r#"["/\\:;|=,+*?<>@\[\]]"#);
pattern!(DOTS_AND_BLANKS, "^[. ]+$");

fn windows_options(context: &Value, path: &Path) -> Errors {
    let Some(options) = member(context, "windowsOptions") else { return Vec::new() };
    let mut errors = Vec::new();
    if has(options, "gmsaCredentialSpecName") {
        let name = text(options, "gmsaCredentialSpecName");
        errors.extend(all_invalid(&path.child("gmsaCredentialSpecName"), name, names::subdomain(name)));
    }
    if has(options, "gmsaCredentialSpec") {
        let (spec, path) = (text(options, "gmsaCredentialSpec"), path.child("gmsaCredentialSpec"));
        match spec.len() {
            0 => errors.push(Error::invalid(&path, spec, "gmsaCredentialSpec cannot be an empty string")),
            65_537.. => errors.push(Error::invalid(&path, spec, "gmsaCredentialSpec size must be under 64 KiB")),
            _ => {}
        }
    }
    if has(options, "runAsUserName") {
        let name = text(options, "runAsUserName");
        let messages = windows_user(name).into_iter().map(|message| format!("runAsUserName{message}")).collect();
        errors.extend(all_invalid(&path.child("runAsUserName"), name, messages));
    }
    errors
}

/// Findings about a user of Windows, `[DOMAIN\]USER`.
fn windows_user(name: &str) -> Vec<&'static str> {
    if name.is_empty() {
        return vec![" cannot be an empty string"];
    }
    if CONTROL.is_match(name) {
        return vec![" cannot contain control characters"];
    }
    let (domain, user) = match name.split('\\').collect::<Vec<_>>().as_slice() {
        [user] => (None, *user),
        [domain, user] => (Some(*domain), *user),
        _ => return vec![" cannot contain more than one backslash"],
    };
    let mut messages = Vec::new();
    if domain.is_some_and(|domain| domain.len() >= 256) {
        messages.push("'s Domain length must be under 256 characters");
    }
    if domain.is_some_and(|domain| !NETBIOS_DOMAIN.is_match(domain) && !DNS_DOMAIN.is_match(domain)) {
        messages.push("'s Domain doesn't match the NetBios nor the DNS format");
    }
    if user.is_empty() {
        messages.push("'s User cannot be empty");
    } else if user.len() > 104 {
        messages.push("'s User length must not be longer than 104 characters");
    }
    if DOTS_AND_BLANKS.is_match(user) {
        messages.push("'s User cannot contain only periods or spaces");
    }
    if USER_LETTERS.is_match(user) {
        messages.push(r#"'s User cannot contain the following characters: "/\:;|=,+*?<>@[]"#);
    }
    messages
}

/// Pods of Windows that run as processes of their node do so with all containers.
pub(super) fn host_processes(spec: &Value, path: &Path) -> Errors {
    let of = |holder: &Value| holder.pointer("/securityContext/windowsOptions/hostProcess").and_then(Value::as_bool);
    let whole = of(spec);
    let mut errors = Vec::new();
    let (mut all, mut of_host) = (0, 0);
    for (container, path) in every_container(spec, path) {
        all += 1;
        let own = of(container);
        if let (Some(whole), Some(own)) = (whole, own)
            && whole != own
        {
            let words = format!("pod hostProcess value must be identical if both are specified, was {whole}");
            errors.push(Error::invalid(&path.children(&["securityContext", "windowsOptions", "hostProcess"]), own, words));
        }
        of_host += usize::from(own.or(whole) == Some(true));
    }
    if of_host > 0 && of_host != all {
        let words = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.push(Error::invalid(path, "", words));
    }
    if of_host > 0 && !flag(spec, "hostNetwork") {
        let words = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.push(Error::invalid(&path.child("hostNetwork"), false, words));
    }
    errors
}

/// Findings about what pods whose users are their own do not share with their node.
pub(super) fn own_users(spec: &Value, path: &Path) -> Errors {
    if spec.get("hostUsers") != Some(&json!(false)) {
        return Vec::new();
    }
    let words = "when `hostUsers` is false";
    // Kubernetes begins two of them with a capital.
    let mut errors: Errors = [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")]
        .into_iter()
        .filter(|(field, _)| flag(spec, field))
        .map(|(_, told)| Error::forbidden(&path.child(told), words))
        .collect();
    for (_, path) in every_container(spec, path).filter(|(container, _)| !list(container, "volumeDevices").is_empty()) {
        errors.push(Error::forbidden(&path.child("volumeDevices"), words));
    }
    errors
}

/// Findings about the operating system, and about the fields that it does not know.
pub(super) fn operating_system(spec: &Value, path: &Path) -> Errors {
    let Some(os) = member(spec, "os") else { return Vec::new() };
    let own = path.child("os");
    match text(os, "name") {
        "" => vec![Error::required(&own.child("name"), "")],
        "linux" => without(spec, path, &["windowsOptions"], &["windowsOptions"], "windows options cannot be set for a linux pod"),
        "windows" => without(
            spec,
            path,
            &[
                "appArmorProfile",
                "seLinuxOptions",
                "/hostUsers",
                "/hostPID",
                "/hostIPC",
                "seccompProfile",
                "fsGroup",
                "fsGroupChangePolicy",
                "sysctls",
                "/shareProcessNamespace",
                "runAsUser",
                "runAsGroup",
                "supplementalGroups",
                "supplementalGroupsPolicy",
                "seLinuxChangePolicy",
            ],
            &[
                "appArmorProfile",
                "seLinuxOptions",
                "seccompProfile",
                "capabilities",
                "readOnlyRootFilesystem",
                "privileged",
                "allowPrivilegeEscalation",
                "procMount",
                "runAsUser",
                "runAsGroup",
            ],
            "cannot be set for a windows pod",
        ),
        other => vec![Error::not_supported(&own, other, &["linux", "windows"])],
    }
}

/// Refuses members of the security contexts. In `of_pod` a slash marks members of the pod itself.
fn without(spec: &Value, path: &Path, of_pod: &[&str], of_container: &[&str], words: &str) -> Errors {
    let null = Value::Null;
    let context = spec.get("securityContext").unwrap_or(&null);
    let mut errors = Vec::new();
    for field in of_pod {
        let (holder, path, field) = match field.strip_prefix('/') {
            Some(own) => (spec, path.clone(), own),
            None => (context, path.child("securityContext"), *field),
        };
        if has(holder, field) {
            errors.push(Error::forbidden(&path.child(field), words));
        }
    }
    for (container, path) in every_container(spec, path) {
        let Some(context) = member(container, "securityContext") else { continue };
        for field in of_container.iter().filter(|field| has(context, field)) {
            errors.push(Error::forbidden(&path.child("securityContext").child(field), words));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_windows() {
        assert_eq!(windows_user("ContainerUser"), Vec::<&str>::new());
        assert_eq!(windows_user(r"corp.example.com\me"), Vec::<&str>::new());
        assert_eq!(windows_user(r"a\b\c"), [" cannot contain more than one backslash"]);
        assert_eq!(windows_user("a@b"), [r#"'s User cannot contain the following characters: "/\:;|=,+*?<>@[]"#]);
        assert_eq!(windows_user(". ."), ["'s User cannot contain only periods or spaces"]);
        assert_eq!(windows_user("\u{1}"), [" cannot contain control characters"]);
    }

    #[test]
    fn parameters_of_shared_namespaces() {
        assert_eq!(namespace_of("net.ipv4.tcp_syncookies"), Some("hostNetwork"));
        assert_eq!(namespace_of("net/ipv4/conf/eno2.100/rp_filter"), Some("hostNetwork"));
        assert_eq!(namespace_of("kernel.msgmax"), Some("hostIPC"));
        assert_eq!(namespace_of("vm.swappiness"), None);
    }

    #[test]
    fn what_windows_does_not_know() {
        let spec = json!({"os": {"name": "windows"}, "hostPID": true,
            "securityContext": {"fsGroup": 1}, "containers": [{"securityContext": {"privileged": false}}]});
        let errors: Vec<String> = operating_system(&spec, &Path::new("spec")).iter().map(|error| error.field.to_string()).collect();
        assert_eq!(errors, ["spec.hostPID", "spec.securityContext.fsGroup", "spec.containers[0].securityContext.privileged"]);
    }
}
