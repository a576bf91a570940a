//! Four accounts of one change, for each verb: the plan as text, the plan as JSON, the controller's record, and what the API's audit saw. They
//! name the same set of steps.
//!
//! ```text
//!   mainstay plan VERB          ──► "create    ConfigMap ns/a"                     ┐
//!   mainstay plan VERB -o json  ──► writes, steps[].objects                        ├─ the same steps, each once
//!   mainstay VERB --yes         ──► history: added, changed, removed; what it holds │
//!                               ──► writes noted by the API server's audit         ┘
//! ```

mod audit;
mod scenarios;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

use mainstay_e2e::bundles::{self, Toy, publish, until_serving};
use mainstay_e2e::{Cluster, Registry, need_embedded, need_kubectl};
use regex::Regex;
use serde_json::{Value, json};

use audit::Audit;

/// The account that carries out a step.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Actor {
    /// The user who runs the command.
    Command,
    /// The extension's account, or the garbage collector.
    Cluster,
    /// Any other, which no plan tells of.
    Other(String),
}

/// One object, and what is done to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step {
    by: Actor,
    change: &'static str,
    object: String,
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = match &self.by {
            Actor::Command => "the command",
            Actor::Cluster => "the cluster",
            Actor::Other(name) => name,
        };
        write!(out, "{} {} (by {by})", self.change, self.object)
    }
}

/// Says in which steps two accounts differ.
fn compare<T: Ord + fmt::Display>(one: (&str, &[T]), other: (&str, &[T])) -> Result<(), String> {
    let mut counts: BTreeMap<&T, (usize, usize)> = BTreeMap::new();
    for step in one.1 {
        counts.entry(step).or_default().0 += 1;
    }
    for step in other.1 {
        counts.entry(step).or_default().1 += 1;
    }
    let differing: Vec<String> = counts
        .iter()
        .filter(|(_, (left, right))| left != right)
        .map(|(step, (left, right))| format!("  {step}: {left} in {}, {right} in {}", one.0, other.0))
        .collect();
    if differing.is_empty() { Ok(()) } else { Err(format!("{} and {} differ:\n{}", one.0, other.0, differing.join("\n"))) }
}

/// A cluster whose changes are checked.
pub struct Checked<'a> {
    cluster: &'a Cluster,
    audit: Audit<'a>,
    planned_line: Regex,
    /// The revisions after the last change, by extension.
    recorded: BTreeMap<String, Vec<Value>>,
}

impl<'a> Checked<'a> {
    pub fn new(cluster: &'a Cluster) -> Self {
        let planned_line = Regex::new(r"(?m)^ +(?<change>create|change|adopt|delete|keep) +(?<object>[A-Z]\w+ \S+)").unwrap();
        Self { cluster, audit: Audit::start(cluster), planned_line, recorded: BTreeMap::new() }
    }

    /// Whether an extension is there, as far as these changes made it.
    pub fn is_installed(&self, name: &str) -> bool {
        self.recorded.get(name).is_some_and(|revisions| !revisions.is_empty())
    }

    /// Something that is no change of an extension, such as a custom resource that a user makes.
    pub fn aside(&mut self, act: impl FnOnce(&Cluster)) {
        act(self.cluster);
        self.audit.forget();
    }

    /// Plans a change of an extension, carries it out, and holds the four accounts against each other; false when the plan refused it, and then
    /// the command does, too, without a write.
    #[track_caller]
    pub fn change(&mut self, verb: &str, name: &str, arguments: &[&str]) -> bool {
        let title = format!("{verb} {name} {}", arguments.join(" "));
        let between = self.audit.steps();
        assert!(between.is_empty(), "before {title} something is written that no change accounts for: {}", lines(&between));

        let all = [&[verb, name], arguments].concat();
        let planned = self.cluster.mainstay(&[&["plan"], &all[..], &["--no-sizes", "-o", "json"]].concat());
        let text = self.cluster.mainstay(&[&["plan"], &all[..], &["--no-sizes"]].concat());
        assert_eq!(planned.code, text.code, "{title}: {planned}\n{text}");
        let plan: Value = serde_json::from_str(&planned.stdout).unwrap_or_default();
        assert_eq!(self.audit.steps(), [], "{title}: planning writes nothing");
        let before = self.recorded.remove(name).unwrap_or_default();
        let done = self.cluster.mainstay(&[&all[..], &["--yes"]].concat());
        if planned.code != Some(0) {
            assert_ne!(plan["doable"], true, "{title}: {planned}");
            assert_eq!(done.code, planned.code, "{title} is refused as planned: {done}");
            assert_eq!(self.audit.steps(), [], "{title}: what is refused writes nothing");
            self.recorded.insert(name.to_owned(), before);
            return false;
        }
        assert_eq!(plan["doable"], true, "{title}: {planned}");
        let done = done.ok();

        let told = told(&plan);
        let in_text: Vec<String> =
            self.planned_line.captures_iter(&text.stdout).map(|found| format!("{} {}", &found["change"], &found["object"])).collect();
        let without_actor: Vec<String> = told.iter().map(|step| format!("{} {}", step.change, step.object)).collect();
        let mut outcomes = vec![compare(("the plan as text", &in_text), ("the plan as JSON", &without_actor))];
        outcomes.push(self.audited(verb, &plan, told));
        outcomes.push(self.recorded(verb, name, &plan, &before));
        let differences: Vec<String> = outcomes.into_iter().filter_map(Result::err).collect();
        assert!(differences.is_empty(), "{title}: {}\n\nthe plan:\n{}\nthe command: {done}", differences.join("\n"), text.stdout);
        self.audit.forget();
        true
    }

    /// Holds what the audit saw against the plan. The collector and the controller may come to the last writes after the command has ended.
    fn audited(&self, verb: &str, plan: &Value, mut told: Vec<Step>) -> Result<(), String> {
        // What an uninstall keeps the command lets go of: it takes the extension's marks off. Elsewhere nothing is done to what is kept.
        told.retain(|step| step.change != "keep" || verb == "uninstall");
        for step in &mut told {
            match step.change {
                // The API knows no adopting: the extension's account changes what is there.
                "adopt" => step.change = "change",
                "keep" => *step = Step { by: Actor::Command, change: "change", object: step.object.clone() },
                _ => {}
            }
        }
        if sets_preflight_aside(plan) {
            // Known difference: the command sets the check of CRDs aside for the rollback, and back when it is over. The plan has one change of
            // the ClusterExtension for both.
            told.push(Step { by: Actor::Command, change: "change", object: format!("ClusterExtension {}", text(&plan["extension"])) });
        }
        let begun = Instant::now();
        loop {
            let outcome = compare(("the plan as JSON", &told), ("the audit", &self.audit.steps()));
            if outcome.is_ok() || begun.elapsed() > Duration::from_secs(15) {
                return outcome;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Holds what the controller recorded against the plan: one revision for each bundle of the path.
    fn recorded(&mut self, verb: &str, name: &str, plan: &Value, before: &[Value]) -> Result<(), String> {
        let steps: Vec<&Value> = plan["steps"].as_array().into_iter().flatten().filter(|step| step["kind"] != "Nothing").collect();
        if verb == "uninstall" {
            // The records go with the extension; what went and what was kept is what the last one held.
            let objects: Vec<String> = steps.iter().flat_map(|step| objects(step)).map(title).collect();
            let held: Vec<String> = held(before).into_iter().collect();
            return compare(("the plan as JSON", &objects), ("the record", &held));
        }
        let after = self.history(name);
        let new = &after[before.len().min(after.len())..];
        if new.len() != steps.len() {
            return Err(format!("the plan has {} bundles, and the record {} new revisions: {new:?}", steps.len(), new.len()));
        }
        for (index, (step, revision)) in steps.iter().zip(new).enumerate() {
            if revision["state"] != if index + 1 == new.len() { "deployed" } else { "superseded" } {
                return Err(format!("revision {} is {}", revision["name"], revision["state"]));
            }
            let in_plan = objects(step).filter_map(|object| {
                let word = match text(&object["change"]) {
                    "Created" | "Adopted" => "added",
                    "Changed" => "changed",
                    "Deleted" | "Kept" => "removed",
                    _ => return None,
                };
                Some(format!("{word} {}", title(object)))
            });
            let in_record = ["added", "changed", "removed"].into_iter().flat_map(|word| {
                let all = revision["changes"][word].as_array().into_iter().flatten();
                all.map(move |object| format!("{word} {}", text(object)))
            });
            compare(("the plan as JSON", &in_plan.collect::<Vec<_>>()), ("the record", &in_record.collect::<Vec<_>>()))?;
            let wanted: Vec<String> =
                objects(step).filter(|object| !["Deleted", "Kept"].contains(&text(&object["change"]))).map(title).collect();
            let held: Vec<String> = held(&after[..=before.len() + index]).into_iter().collect();
            compare(("what the plan leaves", &wanted), ("what the record holds", &held))?;
            if revision["objects"] != held.len() {
                return Err(format!("revision {} says it holds {} objects: {held:?}", revision["name"], revision["objects"]));
            }
        }
        self.recorded.insert(name.to_owned(), after);
        Ok(())
    }

    /// The revisions, oldest first; none without the extension.
    fn history(&self, name: &str) -> Vec<Value> {
        let said = self.cluster.mainstay(&["history", name, "-o", "json"]);
        if said.code == Some(3) {
            return Vec::new();
        }
        let document: Value = serde_json::from_str(&said.ok()).unwrap();
        document["items"].as_array().unwrap().clone()
    }
}

/// The steps that a plan tells of.
fn told(plan: &Value) -> Vec<Step> {
    let step = |by: Actor, object: &Value| {
        let change = match text(&object["change"]) {
            "Created" => "create",
            "Changed" => "change",
            "Adopted" => "adopt",
            "Deleted" => "delete",
            "Kept" => "keep",
            "Unchanged" => return None,
            other => panic!("a plan that can be applied has an object that is {other}: {object}"),
        };
        Some(Step { by, change, object: title(object) })
    };
    let written = plan["writes"].as_array().into_iter().flatten().filter_map(|object| step(Actor::Command, object));
    let by_cluster = plan["steps"].as_array().into_iter().flatten().flat_map(objects).filter_map(|object| step(Actor::Cluster, object));
    written.chain(by_cluster).collect()
}

fn sets_preflight_aside(plan: &Value) -> bool {
    let written = plan["writes"].as_array().into_iter().flatten();
    let mut fields = written.flat_map(|object| object["fields"].as_array().into_iter().flatten());
    fields.any(|field| text(&field["path"]).starts_with(".spec.install"))
}

/// The objects of the last of these revisions, as the changes of all of them add up.
fn held(revisions: &[Value]) -> BTreeSet<String> {
    let mut held = BTreeSet::new();
    for revision in revisions {
        let named = |word: &str| revision["changes"][word].as_array().into_iter().flatten().map(|object| text(object).to_owned());
        held.extend(named("added"));
        named("removed").for_each(|object| {
            held.remove(&object);
        });
    }
    held
}

fn objects(step: &Value) -> impl Iterator<Item = &Value> {
    step["objects"].as_array().into_iter().flatten()
}

/// `Deployment work/widgets`.
fn title(object: &Value) -> String {
    let (kind, name) = (text(&object["kind"]), text(&object["name"]));
    object["namespace"].as_str().map_or_else(|| format!("{kind} {name}"), |namespace| format!("{kind} {namespace}/{name}"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn lines(steps: &[Step]) -> String {
    steps.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn object(kind: &str, name: &str, content: &Value) -> Value {
    let api_version = if kind == "Role" { "rbac.authorization.k8s.io/v1" } else { "v1" };
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
    for (key, value) in content.as_object().unwrap() {
        object[key] = value.clone();
    }
    object
}

/// Three versions of an operator, each replacing the one before: the second adds a Service and a field of the CRD, changes a Role and drops a
/// ConfigMap; the third adds another ConfigMap and drops the Service.
fn offered(cluster: &Cluster, registry: &Registry) {
    let folder = cluster.folder().join("bundles");
    for (number, version) in ["1.0.0", "1.1.0", "1.2.0"].into_iter().enumerate() {
        let mut toy = Toy::new("gadget", version);
        let verbs = if number == 0 { json!(["get"]) } else { json!(["get", "list"]) };
        let rules = json!({"rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]});
        let mut more = vec![object("Role", "gadget-reader", &rules), object("ConfigMap", "gadget-same", &json!({"data": {"a": "b"}}))];
        match number {
            0 => more.push(object("ConfigMap", "gadget-first", &json!({"data": {"a": "b"}}))),
            1 => more.push(object("Service", "gadget-web", &json!({"spec": {"selector": {"app": "gadget"}, "ports": [{"port": 80}]}}))),
            _ => more.push(object("ConfigMap", "gadget-last", &json!({"data": {"a": "b"}}))),
        }
        if number > 0 {
            toy.spec_schema["properties"]["weight"] = json!({"type": "integer"});
        }
        toy.more = more.into_iter().map(|object| (format!("manifests/{}.yaml", text(&object["metadata"]["name"])), object)).collect();
        toy.write(&folder);
    }
    let reference = publish(registry, &folder.join("gadget"), cluster.folder(), "latest");
    cluster.apply(&bundles::catalog("toys", &reference, None));
    until_serving(cluster, "toys");
}

/// MS-PLAN-01, MS-PLAN-02, MS-RB-01, MS-RB-02, MS-RB-05, OLM1-CTRL-11, OLM1-INST-15: for each verb the plan as text, the plan as JSON, the
/// record and the audit name the same steps.
#[test]
fn each_verb_does_what_its_plan_says() {
    let Some(()) = need_embedded() else { return };
    let Some(()) = need_kubectl() else { return };
    let registry = Registry::ours();
    let cluster = Cluster::up(&[]);
    offered(&cluster, &registry);
    let mut checked = Checked::new(&cluster);
    let mine = json!({"apiVersion": "gadgets.example.com/v1", "kind": "Gadget", "metadata": {"name": "mine", "namespace": "default"}, "spec": {"size": 1}});
    let done = |checked: &mut Checked<'_>, verb: &str, arguments: &[&str]| {
        assert!(checked.change(verb, "gadget", arguments), "{verb} {arguments:?} is refused");
    };

    done(&mut checked, "install", &["--version", "1.0.0"]);
    done(&mut checked, "upgrade", &["--version", "1.1.0"]);
    done(&mut checked, "rollback", &[]);
    // By way of 1.1.0.
    done(&mut checked, "upgrade", &["--version", "1.2.0"]);
    checked.aside(|cluster| drop(cluster.apply(&mine.to_string())));
    // The request does not say what becomes of the custom resource.
    assert!(!checked.change("uninstall", "gadget", &[]));
    done(&mut checked, "uninstall", &["--keep-crds"]);
    assert!(cluster.get(&["gadget", "mine"]).is_some());
    // The CRD is there, and managed by no extension.
    assert!(!checked.change("install", "gadget", &["--version", "1.0.0"]));
    checked.aside(|cluster| drop(cluster.kubectl(&["delete", "crd", "gadgets.gadgets.example.com"]).ok()));

    done(&mut checked, "install", &["--version", "<=1.0.0"]);
    checked.aside(|cluster| drop(cluster.apply(&mine.to_string())));
    done(&mut checked, "pin", &[]);
    let accepted = || cluster.get(&["clusterextension", "gadget"]).unwrap()["spec"]["source"]["catalog"]["version"].clone();
    assert_eq!(accepted(), "1.0.0", "the installed version is the only one");
    // A pin of what is pinned writes nothing new.
    done(&mut checked, "pin", &[]);
    done(&mut checked, "upgrade", &[]);
    assert_eq!(accepted(), Value::Null, "an upgrade that names no version lets the pin go");
    done(&mut checked, "uninstall", &["--delete-crds"]);
    cluster.until_gone(&["crd", "gadgets.gadgets.example.com"]);
}
