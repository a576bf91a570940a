//! Pod Security Standards (KAPI-ADM-03): the levels `baseline` and `restricted` in each of their versions, the labels by which a
//! namespace asks for them, and the violations of a pod, in upstream's words.

mod checks;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use mainstay_schema::field::{Error, Path};
use serde_json::Value;

use checks::CHECKS;

/// The last version of Kubernetes in which a check changed.
const NEWEST: u32 = 34;
/// Pods of a namespace that are looked at, at the most, when its level changes.
const MAX_PODS: usize = 3_000;
const PREFIX: &str = "pod-security.kubernetes.io/";

/// The level of a standard: how much a pod may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are those of the standards")]
pub enum Level {
    Privileged,
    Baseline,
    Restricted,
}

impl Level {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "privileged" => Some(Self::Privileged),
            "baseline" => Some(Self::Baseline),
            "restricted" => Some(Self::Restricted),
            _ => None,
        }
    }
}

/// The version of a standard: `v1.N`, or the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Latest,
    Minor(u32),
}

impl Version {
    fn parse(text: &str) -> Option<Self> {
        if text == "latest" {
            return Some(Self::Latest);
        }
        let minor = text.strip_prefix("v1.").filter(|minor| minor.bytes().all(|byte| byte.is_ascii_digit()))?;
        if minor.len() > 1 && minor.starts_with('0') {
            return None;
        }
        minor.parse().ok().map(Self::Minor)
    }
}

/// A level in a version. Shown as `restricted:v1.30`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standard {
    /// The level.
    pub level: Level,
    version: Version,
}

impl fmt::Display for Standard {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        };
        match self.version {
            Version::Latest => write!(out, "{level}:latest"),
            Version::Minor(minor) => write!(out, "{level}:v1.{minor}"),
        }
    }
}

/// The policy of a namespace for its pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Pods that violate it are refused.
    pub enforce: Standard,
    /// Pods and templates that violate it are noted for auditors.
    pub audit: Standard,
    /// Clients that write what violates it are warned.
    pub warn: Standard,
}

impl Policy {
    /// Reads the labels of a namespace; besides the policy, returns the errors in them. If they say nothing, a pod may do everything.
    pub fn of(namespace: &Value) -> (Self, Vec<Error>) {
        let mut labels = Labels { labels: namespace.pointer("/metadata/labels"), errors: Vec::new() };
        // A label that cannot be read is enforced strictly, but gives no warnings.
        let enforce = labels.mode("enforce", Level::Restricted);
        let audit = labels.mode("audit", Level::Privileged);
        let mut warn = labels.mode("warn", Level::Privileged);
        // The level that is enforced on pods is a warning to those who write the templates of pods.
        if warn.level == LabelState::Not && enforce.level == LabelState::Well && enforce.standard.level > warn.standard.level {
            warn.standard.level = enforce.standard.level;
            if warn.version == LabelState::Not {
                warn.standard.version = enforce.standard.version;
            }
        }
        (Self { enforce: enforce.standard, audit: audit.standard, warn: warn.standard }, labels.errors)
    }
}

/// The state of a label.
#[derive(Clone, Copy, PartialEq)]
enum LabelState {
    Not,
    Well,
    Unreadable,
}

/// The content of one mode's labels.
struct Mode {
    standard: Standard,
    level: LabelState,
    version: LabelState,
}

struct Labels<'a> {
    labels: Option<&'a Value>,
    errors: Vec<Error>,
}

impl Labels<'_> {
    fn mode(&mut self, mode: &str, unreadable: Level) -> Mode {
        let words = "must be one of privileged, baseline, restricted";
        let (level, level_given) = self.read(mode, Level::parse, Level::Privileged, unreadable, words);
        let words = "must be \"latest\" or \"v1.x\"";
        let (version, version_given) = self.read(&format!("{mode}-version"), Version::parse, Version::Latest, Version::Latest, words);
        Mode { standard: Standard { level, version }, level: level_given, version: version_given }
    }

    fn read<T>(&mut self, name: &str, parse: fn(&str) -> Option<T>, absent: T, unreadable: T, words: &str) -> (T, LabelState) {
        let label = format!("{PREFIX}{name}");
        let Some(text) = self.labels.and_then(|labels| labels.get(&label)).and_then(Value::as_str) else {
            return (absent, LabelState::Not);
        };
        if let Some(value) = parse(text) {
            return (value, LabelState::Well);
        }
        self.errors.push(Error::invalid(&Path::new("metadata.labels").key(label), text, words));
        (unreadable, LabelState::Unreadable)
    }
}

/// The violations of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Violations(Vec<Violation>);

/// One violation.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Violation {
    reason: &'static str,
    detail: String,
}

impl Violations {
    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn reasons(&self) -> String {
        self.0.iter().map(|violation| violation.reason).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for Violations {
    /// Each violation with its details.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Violation { reason, detail }) in self.0.iter().enumerate() {
            write!(out, "{}{reason}", if index == 0 { "" } else { ", " })?;
            if !detail.is_empty() {
                write!(out, " ({detail})")?;
            }
        }
        Ok(())
    }
}

/// Returns the violations of a pod, or of the template of pods: it has `metadata` and `spec`.
pub fn evaluate(standard: Standard, pod: &Value) -> Violations {
    let version = match standard.version {
        Version::Latest => NEWEST,
        Version::Minor(minor) => minor.min(NEWEST),
    };
    let in_force = |level: Level| {
        CHECKS.iter().filter(move |check| check.level == level).filter_map(move |check| check.in_version(version).map(|run| (check, run)))
    };
    let mut found = Vec::new();
    if standard.level >= Level::Baseline {
        let replaced: BTreeSet<&str> = match standard.level {
            Level::Restricted => in_force(Level::Restricted).filter_map(|(check, _)| check.replaces).collect(),
            _ => BTreeSet::new(),
        };
        found.extend(in_force(Level::Baseline).filter(|(check, _)| !replaced.contains(check.id)).filter_map(|(_, run)| run(pod)));
    }
    if standard.level == Level::Restricted {
        found.extend(in_force(Level::Restricted).filter_map(|(_, run)| run(pod)));
    }
    Violations(found)
}

/// The template of pods in an object of a resource, if it has one: that violates only by what it makes.
pub fn template<'a>(group: &str, plural: &str, object: &'a Value) -> Option<&'a Value> {
    let pointer = match (group, plural) {
        ("", "podtemplates") => "/template",
        ("", "replicationcontrollers") | ("apps", "replicasets" | "deployments" | "statefulsets" | "daemonsets") | ("batch", "jobs") => {
            "/spec/template"
        }
        ("batch", "cronjobs") => "/spec/jobTemplate/spec/template",
        _ => return None,
    };
    object.pointer(pointer).filter(|template| template.is_object())
}

/// Returns true if an update of a pod changes anything that the standards look at: only images and ephemeral containers can.
pub fn is_significant_update(new: &Value, old: &Value) -> bool {
    let list = |pod: &Value, field: &str| pod.pointer(&format!("/spec/{field}")).and_then(Value::as_array).cloned().unwrap_or_default();
    for field in ["containers", "initContainers"] {
        let (new, old) = (list(new, field), list(old, field));
        if new.len() != old.len() || new.iter().zip(&old).any(|(new, old)| new["image"] != old["image"]) {
            return true;
        }
    }
    let old = list(old, "ephemeralContainers");
    let same = |new: &Value| old.iter().find(|old| old["name"] == new["name"]).is_some_and(|old| old["image"] == new["image"]);
    !list(new, "ephemeralContainers").iter().all(same)
}

/// Warnings when a namespace gets another policy: the pods that are there and would not be let in now.
pub fn namespace_warnings(name: &str, new: &Policy, old: &Policy, pods: impl FnOnce() -> Vec<Value>) -> Vec<String> {
    let (wanted, before) = (new.enforce, old.enforce);
    let relaxed = wanted.version == before.version && wanted.level <= before.level;
    if wanted == before || wanted.level == Level::Privileged || relaxed {
        return Vec::new();
    }
    let pods = one_of_each_controller_first(pods());
    let mut by_reason: BTreeMap<String, (String, usize)> = BTreeMap::new();
    for pod in pods.iter().take(MAX_PODS) {
        let violations = evaluate(wanted, pod);
        if violations.is_empty() {
            continue;
        }
        let pod_name = pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let (first, count) = by_reason.entry(violations.reasons()).or_insert_with(|| (pod_name.to_owned(), 0));
        if pod_name < first.as_str() {
            pod_name.clone_into(first);
        }
        *count += 1;
    }
    let mut warnings = Vec::new();
    if pods.len() > MAX_PODS {
        let total = pods.len();
        warnings.push(format!("new PodSecurity enforce level only checked against the first {MAX_PODS} of {total} existing pods"));
    }
    if !by_reason.is_empty() {
        warnings.push(format!("existing pods in namespace {name:?} violate the new PodSecurity enforce level \"{wanted}\""));
    }
    let mut told: Vec<String> = by_reason
        .into_iter()
        .map(|(reasons, (pod, count))| match count {
            1 => format!("{pod}: {reasons}"),
            2 => format!("{pod} (and 1 other pod): {reasons}"),
            _ => format!("{pod} (and {} other pods): {reasons}", count - 1),
        })
        .collect();
    told.sort();
    warnings.extend(told);
    warnings
}

/// Pods of one controller are alike: the first of each goes before all others.
fn one_of_each_controller_first(pods: Vec<Value>) -> Vec<Value> {
    let mut seen = BTreeSet::new();
    let is_first = |pod: &Value| {
        let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
        let controller = owners.into_iter().find(|owner| owner["controller"] == true);
        controller.is_none_or(|owner| seen.insert(owner["uid"].as_str().unwrap_or_default().to_owned()))
    };
    let (mut first, rest): (Vec<Value>, Vec<Value>) = pods.into_iter().partition(is_first);
    first.extend(rest);
    first
}

#[cfg(test)]
mod tests;
