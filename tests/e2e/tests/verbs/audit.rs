//! The API's audit: an admission policy that fits every write notes it, and the API server logs the notes (target `audit`) with user, resource and name.
//!
//! Read here are steps: writes that alter what a plan is about. What is no step is excluded by [`Audit::step`], each rule with its reason.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mainstay_e2e::{Cluster, eventually};
use regex::Regex;
use serde_json::json;

use super::{Actor, Step};

const POLICY: &str = "steps.example.com";

/// Reads the log of a cluster from one change to the next.
pub struct Audit<'a> {
    cluster: &'a Cluster,
    line: Regex,
    /// Bytes of the log that belong to earlier changes.
    begin: usize,
    /// Objects that were made and not deleted since, by their title.
    live: BTreeSet<String>,
}

/// A write as it is noted.
struct Write<'l> {
    /// The controller of the program that made it; absent when the request came from outside.
    controller: Option<&'l str>,
    user: &'l str,
    operation: &'l str,
    kind: &'l str,
    namespace: &'l str,
    name: &'l str,
    /// The fields that differ.
    fields: &'l str,
}

impl Write<'_> {
    fn title(&self) -> String {
        let Self { kind, namespace, name, .. } = self;
        if namespace.is_empty() || *kind == "Namespace" { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
    }
}

impl<'a> Audit<'a> {
    /// Has every write noted from now on.
    pub fn start(cluster: &'a Cluster) -> Self {
        // Subresources are not asked for: status and scale are no steps, nor are tokens.
        let rule = json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE", "DELETE"], "resources": ["*"]});
        // An apply of what stands already is a write without effect; what the server counts itself is none.
        let differ = "object == null || oldObject == null ? '' : \
            (object.filter(k, k != 'metadata' && !(k in oldObject && object[k] == oldObject[k])) \
            + oldObject.filter(k, !(k in object)) \
            + object.metadata.filter(k, !(k in ['managedFields', 'resourceVersion', 'generation']) \
                && !(k in oldObject.metadata && object.metadata[k] == oldObject.metadata[k])) \
            + oldObject.metadata.filter(k, k != 'resourceVersion' && !(k in object.metadata))).join(',')";
        let value = "request.operation + '|' + string(request.dryRun) + '|' + request.kind.kind + '|' \
            + (oldObject == null ? '' : oldObject.metadata.resourceVersion) + '|' + variables.differ";
        let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": POLICY},
            "spec": {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rule]},
                "variables": [{"name": "differ", "expression": differ}], "auditAnnotations": [{"key": "write", "valueExpression": value}]}});
        let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": POLICY}, "spec": {"policyName": POLICY, "validationActions": ["Audit"]}});
        cluster.apply(&format!("{policy}\n{binding}"));
        let line = format!(
            r#"(?m)^\S+ +INFO (?:reconcile\{{controller="(?<controller>[^"]*)"[^\n]*\}}: )?audit: admission user="(?<user>[^"]*)" verb="[^"]*" resource="[^"]*" namespace="(?<namespace>[^"]*)" name="(?<name>[^"]*)" annotation="{POLICY}/write" value="(?<value>[^"]*)"$"#
        );
        let mut audit = Self { cluster, line: Regex::new(&line).unwrap(), begin: 0, live: BTreeSet::new() };
        eventually("the policy is in force", Duration::from_secs(60), || {
            cluster.kubectl(&["create", "configmap", "noted", "--dry-run=server", "-o", "name"]).ok();
            if audit.line.is_match(&cluster.log()) { Ok(()) } else { Err("no write is noted".to_owned()) }
        });
        audit.forget();
        audit
    }

    /// The steps since the last change, sorted.
    pub fn steps(&self) -> Vec<Step> {
        self.read().0
    }

    /// Begins anew: what was written until now belongs to what was done.
    pub fn forget(&mut self) {
        let (_, live, end) = self.read();
        (self.live, self.begin) = (live, end);
    }

    fn read(&self) -> (Vec<Step>, BTreeSet<String>, usize) {
        let log = self.cluster.log();
        // The last line may be half written.
        let end = log.rfind('\n').map_or(0, |at| at + 1);
        let mut live = self.live.clone();
        let mut steps: Vec<Step> = Vec::new();
        let mut refused_or_done: BTreeMap<(String, String, String), usize> = BTreeMap::new();
        for found in self.line.captures_iter(&log[self.begin..end]) {
            let value: Vec<&str> = found.name("value").unwrap().as_str().splitn(5, '|').collect();
            let [operation, dry, kind, replaced, fields] = value[..] else { panic!("a note of another form: {}", &found[0]) };
            let text = |name: &str| found.name(name).unwrap().as_str();
            let write = Write {
                controller: found.name("controller").map(|found| found.as_str()),
                user: text("user"),
                operation,
                kind,
                namespace: text("namespace"),
                name: text("name"),
                fields,
            };
            // A dry run writes nothing.
            if dry == "true" {
                continue;
            }
            let title = write.title();
            // Admission comes before the store, which refuses to create what is there.
            if operation == "CREATE" && !live.insert(title.clone()) {
                continue;
            }
            // Deleting is asked for again until the object is gone.
            if operation == "DELETE" && !live.remove(&title) {
                continue;
            }
            let Some(step) = Self::step(&write) else { continue };
            // A write of what was not changed since the write before: that one was refused (a conflict), and this is the retry.
            let same = (title, operation.to_owned(), replaced.to_owned());
            if operation != "CREATE"
                && let Some(&before) = refused_or_done.get(&same)
            {
                steps[before] = step;
                continue;
            }
            refused_or_done.insert(same, steps.len());
            steps.push(step);
        }
        steps.sort();
        (steps, live, end)
    }

    /// A write as a step; none where it is not part of what a plan is about.
    fn step(write: &Write<'_>) -> Option<Step> {
        let Write { controller, user, operation, kind, namespace, name, fields, .. } = *write;
        // The controllers of Kubernetes and of OLM, as themselves; what an extension is made of, they write as its account.
        let by_program = user == "system:mainstay" || user.starts_with("system:serviceaccount:olmv1-system:");
        let derived = [
            // Told, not done.
            "Event",
            // Signs of life, and who leads.
            "Lease",
            // Made of Services, Deployments and their like by the workload controllers, which do so whenever the cause is there.
            "Endpoints",
            "EndpointSlice",
            "ReplicaSet",
            "ControllerRevision",
            "Pod",
            // Says what a catalog holds; no extension changes it.
            "ClusterCatalog",
        ];
        let excluded = by_program && derived.contains(&kind)
            // Questions to the API server, which nothing keeps.
            || kind.ends_with("Review")
            // What every namespace gets as soon as it is there.
            || by_program && matches!((kind, name), ("ServiceAccount", "default") | ("ConfigMap", "kube-root-ca.crt"))
            // The install records themselves.
            || by_program && kind == "Secret" && namespace == "olmv1-system"
            // Finalizers hold an object back; what is done to it is another write.
            || operation == "UPDATE" && fields == "finalizers"
            // An apply of what stands already.
            || operation == "UPDATE" && fields.is_empty();
        if excluded {
            return None;
        }
        let by = match controller {
            None if user == "admin" => Actor::Command,
            // The collector deletes what the extension's end leaves without an owner.
            Some("garbage-collector") => Actor::Cluster,
            None | Some(_) if user.ends_with("-installer") => Actor::Cluster,
            other => Actor::Other(format!("{user} {}", other.unwrap_or_default())),
        };
        let change = match operation {
            "CREATE" => "create",
            "DELETE" => "delete",
            _ => "change",
        };
        Some(Step { by, change, object: write.title() })
    }
}
