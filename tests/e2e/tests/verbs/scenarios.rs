//! Random operators and random changes of them.

use mainstay_e2e::bundles::{self, Toy, publish, until_serving};
use mainstay_e2e::{Cluster, Registry, need_embedded, need_kubectl};
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use super::{Checked, object, text};

const VERSIONS: [&str; 3] = ["1.0.0", "1.1.0", "1.2.0"];

/// What a version holds beside the usual objects of an operator.
#[derive(Clone, Debug)]
struct Version {
    /// ConfigMaps by their number, with what they say.
    maps: Vec<Option<u8>>,
    /// The port of a Service.
    service: Option<u16>,
    /// How many verbs a Role allows.
    role: Option<usize>,
    /// The replicas of a second Deployment.
    second: Option<u8>,
    /// More fields of the CRD.
    fields: std::collections::BTreeSet<u8>,
}

/// A change that is asked for. Without an extension each of them is an install.
#[derive(Clone, Debug)]
enum Verb {
    Change { to: usize },
    Rollback,
    Pin,
    Uninstall { keep: bool },
}

#[derive(Clone, Debug)]
struct Scenario {
    versions: Vec<Version>,
    verbs: Vec<Verb>,
}

fn version() -> impl Strategy<Value = Version> {
    let role = prop::option::of(1..3_usize);
    (vec(prop::option::of(0..2_u8), 2), prop::option::of(80..82_u16), role, prop::option::of(0..2_u8), btree_set(0..3_u8, 0..3))
        .prop_map(|(maps, service, role, second, fields)| Version { maps, service, role, second, fields })
}

fn scenario() -> impl Strategy<Value = Scenario> {
    let verb = prop_oneof![
        3 => (0..VERSIONS.len()).prop_map(|to| Verb::Change { to }),
        1 => Just(Verb::Rollback),
        1 => Just(Verb::Pin),
        1 => any::<bool>().prop_map(|keep| Verb::Uninstall { keep }),
    ];
    (vec(version(), VERSIONS.len()), vec(verb, 2..4)).prop_map(|(mut versions, verbs)| {
        // Mostly a version keeps the fields of those before; dropping some is refused, which is one of the cases.
        let first = versions[0].fields.clone();
        versions[1].fields.extend(&first);
        let verbs = std::iter::once(Verb::Change { to: 0 }).chain(verbs).collect();
        Scenario { versions, verbs }
    })
}

impl Version {
    fn toy(&self, package: &'static str, number: &'static str) -> Toy {
        let mut toy = Toy::new(package, number);
        for field in &self.fields {
            toy.spec_schema["properties"][format!("field{field}")] = json!({"type": "string"});
        }
        let mut more: Vec<Value> = Vec::new();
        for (index, says) in self.maps.iter().enumerate() {
            more.extend(
                says.map(|says| object("ConfigMap", &format!("{package}-map{index}"), &json!({"data": {"says": says.to_string()}}))),
            );
        }
        let ports = |port: u16| json!({"spec": {"selector": {"app": package}, "ports": [{"port": port}]}});
        more.extend(self.service.map(|port| object("Service", &format!("{package}-web"), &ports(port))));
        let rules = |verbs: usize| json!({"rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": &["get", "list"][..verbs]}]});
        more.extend(self.role.map(|verbs| object("Role", &format!("{package}-reader"), &rules(verbs))));
        toy.more = more.into_iter().map(|object| (format!("manifests/{}.yaml", text(&object["metadata"]["name"])), object)).collect();
        if let Some(replicas) = self.second {
            let mut csv = toy.csv();
            let deployments = csv["spec"]["install"]["spec"]["deployments"].as_array_mut().unwrap();
            let mut second = deployments[0].clone();
            second["name"] = format!("{package}-second").into();
            second["spec"]["replicas"] = replicas.into();
            let labels = json!({"app": format!("{package}-second")});
            second["spec"]["selector"]["matchLabels"] = labels.clone();
            second["spec"]["template"]["metadata"]["labels"] = labels;
            deployments.push(second);
            toy.more.push(("manifests/csv.yaml".to_owned(), csv));
        }
        toy
    }
}

fn run(checked: &mut Checked<'_>, package: &str, verbs: &[Verb]) {
    let definition = format!("{package}s.{package}s.example.com");
    // What an uninstall kept is managed by no extension, and in the way of the next install.
    let clear = |checked: &mut Checked<'_>| {
        checked.aside(|cluster| drop(cluster.kubectl(&["delete", "crd", &definition, "--ignore-not-found"]).ok()));
    };
    for verb in verbs {
        match verb {
            Verb::Change { to } if checked.is_installed(package) => {
                checked.change("upgrade", package, &["--version", VERSIONS[*to]]);
            }
            Verb::Rollback if checked.is_installed(package) => {
                checked.change("rollback", package, &["--force"]);
            }
            Verb::Pin if checked.is_installed(package) => {
                checked.change("pin", package, &[]);
            }
            Verb::Uninstall { keep } if checked.is_installed(package) => {
                assert!(checked.change("uninstall", package, &[if *keep { "--keep-crds" } else { "--delete-crds" }]));
            }
            Verb::Change { to } => {
                if !checked.change("install", package, &["--version", VERSIONS[*to]]) {
                    clear(checked);
                    assert!(checked.change("install", package, &["--version", VERSIONS[*to]]));
                }
            }
            Verb::Rollback | Verb::Pin | Verb::Uninstall { .. } => {}
        }
    }
    if checked.is_installed(package) {
        assert!(checked.change("uninstall", package, &["--delete-crds"]));
    }
    clear(checked);
}

/// MS-PLAN-01, MS-PLAN-02, MS-RB-01, MS-RB-02, OLM1-CTRL-11: whatever operators hold, and in whatever order they are installed, changed, rolled
/// back and removed, plans, records and the audit name the same steps; what a plan refuses the command refuses, and writes nothing.
#[test]
fn random_changes_do_what_their_plans_say() {
    let Some(()) = need_embedded() else { return };
    let Some(()) = need_kubectl() else { return };
    let cases = if std::env::var_os("MAINSTAY_SOAK").is_some() { 60 } else { 4 };
    // The seed is that of PROPTEST_RNG_SEED.
    let mut runner = TestRunner::new(Config::default());
    let scenarios: Vec<Scenario> = (0..cases).map(|_| scenario().new_tree(&mut runner).unwrap().current()).collect();

    let registry = Registry::ours();
    let cluster = Cluster::up(&[]);
    let folder = cluster.folder().join("bundles");
    let package = |number: usize| -> &'static str { format!("random{number}").leak() };
    for (number, scenario) in scenarios.iter().enumerate() {
        for (version, name) in scenario.versions.iter().zip(VERSIONS) {
            version.toy(package(number), name).write(&folder);
        }
    }
    let reference = publish(&registry, &folder, cluster.folder(), "latest");
    cluster.apply(&bundles::catalog("toys", &reference, None));
    until_serving(&cluster, "toys");
    let mut checked = Checked::new(&cluster);
    for (number, scenario) in scenarios.iter().enumerate() {
        // Shown only where the test fails, at once and as a whole: making it smaller would take a cluster for each try.
        eprintln!("scenario {number}: {scenario:#?}");
        run(&mut checked, package(number), &scenario.verbs);
    }
}
