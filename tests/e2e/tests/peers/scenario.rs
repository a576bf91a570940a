//! A scenario: a catalog, and steps that are done on both clusters.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use mainstay_e2e::{Cluster, eventually, here, need_embedded, need_kubectl};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::catalog::{Package, write_catalog};
use crate::pair::Pair;
use crate::world::{Baseline, World};
use crate::{difference, known};

/// The time that each cluster has for a step.
const PATIENCE: Duration = Duration::from_secs(120);
/// The time until both must be equal, and the time that they must stay so.
const SETTLED: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(3));

/// The folder of the scenarios.
pub fn folder() -> PathBuf {
    here("tests/peers/scenarios")
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    /// Its subject.
    #[serde(rename = "shows")]
    _shows: String,
    packages: Vec<Package>,
    steps: Vec<Step>,
}

/// One step. Objects are written as for kubectl: `csv/gadget.v1.0.0 -n gadgets`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum Step {
    /// Applies objects.
    Apply(Vec<Value>),
    /// Makes the namespace with an OperatorGroup.
    Namespace {
        name: String,
        #[serde(default)]
        group: Value,
    },
    /// Subscribes to a package of the catalog.
    Subscribe {
        package: String,
        namespace: String,
        #[serde(default)]
        with: Value,
    },
    /// Approves what waits in a namespace.
    Approve(String),
    /// Changes an object by a merge patch.
    Patch { object: String, with: Value, subresource: Option<String> },
    /// Deletes an object.
    Delete(String),
    /// Waits until an object has at least this; an array has at least these elements. Some steps of upstream take minutes.
    Until { object: String, has: Value, seconds: Option<u64> },
    /// Waits until an object is gone.
    Gone(String),
    /// Compares both clusters.
    Compare(Comparison),
}

/// The compared objects, and their differences that are known in this situation alone.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Comparison {
    Plain(String),
    Excused { at: String, but: Vec<Excuse> },
}

/// A difference that belongs to a situation.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Excuse {
    object: String,
    field: String,
    /// Its reason, which docs/classic.md names, too.
    why: String,
}

/// Plays a scenario on both clusters.
#[track_caller]
pub fn play(name: &str) {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let text = std::fs::read_to_string(folder().join(format!("{name}.yaml"))).expect("the scenario is there");
    let value = mainstay_yaml::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
    let scenario: Scenario = serde_json::from_value(value).unwrap_or_else(|error| panic!("{name}: {error}"));
    let Some(pair) = Pair::start(|folder| write_catalog(&scenario.packages, folder)) else { return };
    let player = Player { name, pair: &pair, baseline: Baseline::of(&pair) };
    player.begin();
    let mut failed = Vec::new();
    for step in &scenario.steps {
        if let Step::Compare(comparison) = step {
            let (what, excuses) = match comparison {
                Comparison::Plain(what) => (what, &[][..]),
                Comparison::Excused { at, but } => (at, but.as_slice()),
            };
            failed.extend(player.compare(what, excuses));
        } else {
            for (whose, cluster) in pair.both() {
                player.step(step, whose, cluster);
            }
        }
    }
    assert!(failed.is_empty(), "{name}: {}\n{}", failed.join("\n"), pair.upstream_log());
}

struct Player<'a> {
    name: &'a str,
    pair: &'a Pair,
    baseline: Baseline,
}

impl Player<'_> {
    /// Adds the catalog.
    fn begin(&self) {
        let source = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": {"name": "catalog", "namespace": "openshift-marketplace"},
            "spec": {"sourceType": "grpc", "address": self.pair.address, "displayName": "Catalog"},
        });
        for (whose, cluster) in self.pair.both() {
            cluster.apply(&source.to_string());
            self.until(
                whose,
                cluster,
                "catalogsource/catalog -n openshift-marketplace",
                &json!({"status": {"connectionState": {"lastObservedState": "READY"}}}),
                PATIENCE,
            );
        }
    }

    fn step(&self, step: &Step, whose: &str, cluster: &Cluster) {
        match step {
            Step::Apply(objects) => objects.iter().for_each(|object| drop(cluster.apply(&object.to_string()))),
            Step::Namespace { name, group } => {
                cluster.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).to_string());
                if let Value::Object(_) = group {
                    let metadata = json!({"name": "group", "namespace": name});
                    cluster.apply(
                        &json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": metadata, "spec": group})
                            .to_string(),
                    );
                }
            }
            Step::Subscribe { package, namespace, with } => {
                let mut spec = json!({"name": package, "source": "catalog", "sourceNamespace": "openshift-marketplace"});
                for (field, value) in with.as_object().into_iter().flatten() {
                    spec[field] = value.clone();
                }
                let metadata = json!({"name": package, "namespace": namespace});
                cluster.apply(
                    &json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "metadata": metadata, "spec": spec})
                        .to_string(),
                );
            }
            Step::Approve(namespace) => {
                let waiting = self.wait(whose, "an InstallPlan waits for its approval", PATIENCE, || {
                    let plans = cluster.get(&["installplans", "-n", namespace]).unwrap_or_default();
                    let plans = plans["items"].as_array().cloned().unwrap_or_default();
                    let waiting: Vec<Value> = plans
                        .into_iter()
                        .filter(|plan| plan["spec"]["approved"] == false && plan["status"]["phase"] == "RequiresApproval")
                        .collect();
                    if waiting.is_empty() { Err("there is none".to_owned()) } else { Ok(waiting) }
                });
                for plan in waiting {
                    let name = plan["metadata"]["name"].as_str().unwrap_or_default();
                    cluster
                        .kubectl(&["patch", "installplan", name, "-n", namespace, "--type", "merge", "-p", r#"{"spec":{"approved":true}}"#])
                        .ok();
                }
            }
            Step::Patch { object, with, subresource } => {
                let patch = with.to_string();
                let mut arguments = vec!["patch"];
                arguments.extend(object.split_whitespace());
                arguments.extend(["--type", "merge", "-p", &patch]);
                arguments.extend(subresource.iter().flat_map(|name| ["--subresource", name]));
                cluster.kubectl(&arguments).ok();
            }
            Step::Delete(object) => {
                let mut arguments = vec!["delete", "--wait=false"];
                arguments.extend(object.split_whitespace());
                cluster.kubectl(&arguments).ok();
            }
            Step::Until { object, has, seconds } => {
                self.until(whose, cluster, object, has, seconds.map_or(PATIENCE, Duration::from_secs));
            }
            Step::Gone(object) => self.wait(whose, &format!("{object} goes"), PATIENCE, || match cluster.get(&words(object)) {
                None => Ok(()),
                Some(there) => Err(format!("{there:#}")),
            }),
            Step::Compare(_) => {}
        }
    }

    fn until(&self, whose: &str, cluster: &Cluster, object: &str, wanted: &Value, patience: Duration) {
        self.wait(whose, &format!("{object} has {wanted}"), patience, || match cluster.get(&words(object)) {
            Some(there) if has(&there, wanted) => Ok(()),
            Some(there) => Err(format!("it is {there:#}")),
            None => Err("it is not there".to_owned()),
        });
    }

    fn wait<T>(&self, whose: &str, what: &str, patience: Duration, ask: impl FnMut() -> Result<T, String>) -> T {
        eventually(&format!("{} ({whose}): {what}", self.name), patience, ask)
    }

    /// The differences, once both have settled.
    fn compare(&self, what: &str, excuses: &[Excuse]) -> Option<String> {
        let excused: Vec<(regex::Regex, regex::Regex)> = excuses
            .iter()
            .map(|excuse| {
                assert!(!excuse.why.is_empty(), "{}: {what}: a difference without a reason", self.name);
                (known::whole(&excuse.object), known::whole(&excuse.field))
            })
            .collect();
        let is_excused =
            |one: &difference::Difference| excused.iter().any(|(object, field)| object.is_match(&one.object) && field.is_match(&one.field));
        let worlds = || {
            let [ours, upstream] = self.pair.both().map(|(_, cluster)| World::of(cluster));
            let mut differences = difference::of(&self.baseline.without(&ours), &self.baseline.without(&upstream));
            differences.retain(|one| known::reason(one).is_none() && !is_excused(one));
            differences
        };
        let begun = Instant::now();
        let mut differences = worlds();
        while !differences.is_empty() && begun.elapsed() < SETTLED.0 {
            std::thread::sleep(Duration::from_millis(500));
            differences = worlds();
        }
        if differences.is_empty() {
            std::thread::sleep(SETTLED.1);
            differences = worlds();
        }
        let lines: Vec<String> = differences.iter().map(ToString::to_string).collect();
        (!lines.is_empty()).then(|| format!("{what}: {} differences\n{}", lines.len(), lines.join("\n")))
    }
}

fn words(object: &str) -> Vec<&str> {
    object.split_whitespace().collect()
}

/// Returns whether a value has at least this.
fn has(value: &Value, wanted: &Value) -> bool {
    match (value, wanted) {
        (Value::Object(value), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| value.get(key).map_or(wanted.is_null(), |value| has(value, wanted)))
        }
        (Value::Array(value), Value::Array(wanted)) => wanted.iter().all(|wanted| value.iter().any(|value| has(value, wanted))),
        _ => value == wanted,
    }
}
