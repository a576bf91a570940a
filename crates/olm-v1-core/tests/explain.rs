//! What people are told: every situation with its state, its reasons and the one thing to do (MS-EXPL-02, MS-EXPL-04).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use insta::assert_snapshot;
use jiff::Timestamp;
use mainstay_api::lifecycle::ChangePlan;
use mainstay_api::olm_v1::{ClusterCatalog, ClusterExtension};
use mainstay_catalog::{Catalog, Limits, MemorySource};
use mainstay_diagnostics::SharedError;
use mainstay_lifecycle::Live;
use mainstay_lifecycle::explanation::Outcome;
use mainstay_lifecycle::policy::PolicyFact;
use mainstay_lifecycle::revision::State;
use mainstay_objects::ObjectRef;
use mainstay_olm_v1_core::cluster_operator::compat::Platform;
use mainstay_olm_v1_core::extension::dependencies::ApiFact;
use mainstay_olm_v1_core::extension::explain::{EventFact, Explanation, Facts, Observed, Remedy, explain, judge, weighed};
use mainstay_olm_v1_core::extension::facts::{CatalogContent, CatalogFact, PullFailure, PullProblem};
use mainstay_olm_v1_core::extension::plan::{Reason, Verdict};
use mainstay_olm_v1_core::extension::status::status;
use mainstay_olm_v1_core::extension::webhooks::Simulation;
use mainstay_resolver::ModelSource;
use mainstay_resolver::joint::Provided;
use serde_json::{Value, json};

use crate::scene::{Content, STABLE, Scene, bundle, catalog, image, permissions, table, unreadable};

/// When everything here is asked.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_second(1_700_000_300).unwrap()
}

/// A scene, and what else an explanation rests on.
struct Case {
    scene: Scene,
    catalogs: Vec<Value>,
    pods: Vec<Value>,
    changes: Vec<Value>,
    events: Vec<EventFact>,
    namespace_exists: Option<bool>,
    may_act: Option<bool>,
    platform: Option<Platform>,
    simulation: Option<Simulation>,
    /// What the last attempt said, where it is not what the plan says.
    attempt: Option<Verdict>,
    missing: Option<&'static str>,
    unseen: bool,
}

impl Case {
    fn new() -> Self {
        Self {
            scene: Scene::new(),
            catalogs: Vec::new(),
            pods: Vec::new(),
            changes: Vec::new(),
            events: Vec::new(),
            namespace_exists: Some(true),
            may_act: Some(true),
            platform: None,
            simulation: None,
            attempt: None,
            missing: None,
            unseen: false,
        }
    }

    fn explain(&self) -> Explanation {
        explain(&self.facts())
    }

    /// The explanation with every proposal planned, as the command line does it.
    fn explain_weighed(&self) -> Explanation {
        let (facts, answer) = (self.facts(), self.explain());
        let outcome = |remedy: Remedy| {
            let outcome = match remedy.applied(&facts.snapshot) {
                Err(problem) => Outcome::Unknown(problem.to_string()),
                Ok(mut copy) => {
                    let (_, plan) = self.scene.settle(&mut copy);
                    judge(&remedy, facts.plan.as_ref().unwrap(), &plan)
                }
            };
            (remedy, outcome)
        };
        let outcomes: Vec<(Remedy, Outcome)> = answer.proposals().into_iter().map(outcome).collect();
        weighed(answer, &facts, &outcomes)
    }

    fn facts(&self) -> Facts {
        let (_, plan, mut snapshot) = self.scene.decide();
        let then = Timestamp::from_second(1_700_000_000).unwrap();
        let mut extension: ClusterExtension = (*snapshot.extension).clone();
        if !self.unseen && extension.metadata.deletion_timestamp.is_none() {
            let verdict = self.attempt.as_ref().unwrap_or(&plan.verdict);
            extension.status = Some(status(&extension, &plan, verdict, snapshot.history.as_ref(), then));
        }
        snapshot.extension = Arc::new(extension);
        let installed = snapshot.history.as_ref().ok().and_then(|history| history.installed().or(history.latest()));
        let objects = installed.into_iter().flat_map(|revision| &revision.record.objects).map(|object| self.observed(object)).collect();
        Facts {
            plan: Ok(plan),
            objects,
            events: self.events.clone(),
            catalogs: self.catalogs.iter().map(|object| serde_json::from_value::<ClusterCatalog>(object.clone()).unwrap()).collect(),
            change_plans: self.changes.iter().map(|object| serde_json::from_value::<ChangePlan>(object.clone()).unwrap()).collect(),
            namespace_exists: self.namespace_exists,
            may_act: self.may_act,
            platform: self.platform,
            simulation: self.simulation.clone(),
            now: now(),
            snapshot,
        }
    }

    /// An object of the scene, well unless the scene says otherwise.
    fn observed(&self, object: &Value) -> Observed {
        let target = ObjectRef::of(object).unwrap();
        let live = match self.scene.live.get(&target) {
            Some(Live::Present(live)) if self.missing != Some(target.kind.as_str()) => {
                let mut live = (**live).clone();
                if live["status"].is_null() {
                    live["status"] = match target.kind.as_str() {
                        "Deployment" => json!({"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1,
                            "conditions": [{"type": "Available", "status": "True"}]}),
                        "CustomResourceDefinition" => json!({"conditions": [{"type": "Established", "status": "True"}]}),
                        _ => Value::Null,
                    };
                }
                Some(live)
            }
            _ => None,
        };
        let pods = if target.kind == "Deployment" { self.pods.clone() } else { Vec::new() };
        Observed { target, live, pods }
    }
}

fn told(prepare: impl FnOnce(&mut Case)) -> String {
    let mut case = Case::new();
    prepare(&mut case);
    case.explain().text(now())
}

/// A told case with one version installed.
fn with(version: &str, prepare: impl FnOnce(&mut Case)) -> String {
    told(|case| {
        case.scene.have(version, State::Deployed);
        prepare(case);
    })
}

pub(crate) fn cluster_catalog(name: &str, mode: &str, conditions: &Value) -> Value {
    json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog", "metadata": {"name": name, "creationTimestamp": "2023-11-14T22:00:00Z"},
        "spec": {"source": {"type": "Image", "image": {"ref": "registry.example.com/catalog:v1"}}, "availabilityMode": mode},
        "status": {"conditions": conditions}})
}

pub(crate) fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2023-11-14T22:13:20Z"})
}

/// MS-EXPL-02, OLM1-SEL-10, OLM1-UPG-04: no bundle: which part of the request no catalog meets, what each had, and a change that was tried.
#[test]
fn nothing_to_choose() {
    assert_snapshot!(table(&[
        ("a name that is nearly right", told(|case| case.scene.request("packageName", json!("widget")))),
        ("a name that is like none", told(|case| case.scene.request("packageName", json!("strange")))),
        ("no catalog at all", told(|case| case.scene.catalogs.clear())),
        ("an unknown channel", told(|case| case.scene.request("channels", json!(["stabel"])))),
        ("an unknown version", told(|case| case.scene.request("version", json!("9.x")))),
        ("an unknown version after an install", with("1.1.0", |case| case.scene.request("version", json!("9.x")))),
        ("no way in the graph", with("2.0.0", |case| case.scene.request("version", json!("1.0.0")))),
        ("no range", told(|case| case.scene.request("version", json!("1.2.3.4")))),
        ("no selector", told(|case| case.scene.request("selector", json!({"matchExpressions": [{"key": "a", "operator": "Is"}]})))),
        ("left out by the selector", told(|case| case.scene.request("selector", json!({"matchLabels": {"tier": "gold"}})))),
        ("two equal catalogs", told(|case| case.scene.catalogs.push(catalog("other", STABLE)))),
    ]));
}

/// MS-EXPL-02, OLM1-SEL-02, OLM1-CAT-08, OLM1-CAT-09: a catalog that is not there, and what is the matter with it.
#[test]
fn catalogs_that_do_not_answer() {
    let pulling = condition("Progressing", "True", "Retrying", "source catalog content: registry.example.com: connection refused");
    assert_snapshot!(table(&[
        (
            "not pulled",
            told(|case| {
                case.scene.catalogs[0].content = CatalogContent::NotServing;
                case.catalogs =
                    vec![cluster_catalog("main", "Available", &json!([pulling, condition("Serving", "False", "Unavailable", "")]))];
            })
        ),
        (
            "not fetched",
            told(|case| case.scene.catalogs[0].content =
                CatalogContent::Failed("error: received unexpected response status code 500".into()))
        ),
        ("switched off", told(|case| case.scene.catalogs[0].content = CatalogContent::Unavailable)),
    ]));
}

/// MS-EXPL-02, OLM1-INST-03, OLM1-INST-04, OLM1-INST-02: content that is not installed as asked.
#[test]
fn content_that_is_refused() {
    let offer = |gates: &'static str, content: Content| {
        told(move |case| {
            case.scene.gate(gates);
            case.scene.offer("2.0.0", &content);
        })
    };
    let modes = |modes: &[&'static str]| Content { modes: modes.to_vec(), ..Content::default() };
    assert_snapshot!(table(&[
        ("a dependency", told(|case| case.scene.catalogs = vec![catalog("main", &format!("{STABLE}\nneeds 2.0.0 olm.package.required"))])),
        ("an API server", offer("", Content { api_service: true, ..Content::default() })),
        ("webhooks", offer("WebhookProviderOpenshiftServiceCA=false", Content { webhook: true, ..Content::default() })),
        ("only its own namespace", offer("", modes(&["OwnNamespace"]))),
        ("only several namespaces", offer("", modes(&["MultiNamespace"]))),
    ]));
}

/// MS-EXPL-02, OLM1-GEN-12: images that cannot be pulled.
#[test]
fn images() {
    let failing = |problem: PullProblem, message: &'static str, terminal: bool| {
        with("1.1.0", move |case| {
            case.scene.bundles.insert(image("2.0.0"), Err(PullFailure { problem, message: message.to_owned(), terminal }));
        })
    };
    assert_snapshot!(table(&[
        ("credentials", failing(PullProblem::Credentials, "example.com/widgets:v2.0.0: 401 Unauthorized", false)),
        ("not there", failing(PullProblem::Missing, "example.com/widgets:v2.0.0: manifest unknown", false)),
        ("beyond trying", failing(PullProblem::Reference, "error parsing image reference \"x\": no", true)),
    ]));
}

/// MS-EXPL-02, OLM1-CTRL-03, OLM1-PERM-14: accounts, permissions and records.
#[test]
fn accounts_and_permissions() {
    let some = json!([
        {"apiGroups": ["apiextensions.k8s.io", "", "apps"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"]},
    ]);
    assert_snapshot!(table(&[
        ("no account", told(|case| case.scene.account = Ok(false))),
        (
            "no namespace either",
            told(|case| {
                case.scene.account = Ok(false);
                case.namespace_exists = Some(false);
            })
        ),
        ("none named", told(|case| case.scene.extension["spec"]["serviceAccount"] = Value::Null)),
        ("few permissions", told(|case| case.scene.policy = permissions(&some))),
        ("few permissions for an upgrade", with("1.1.0", |case| case.scene.policy = permissions(&some))),
        (
            "an unknown role",
            told(|case| {
                let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "b"},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "nowhere"}, "subjects": []});
                case.scene.offer("2.0.0", &Content { more: vec![binding], ..Content::default() });
                let mut without_bind = some.clone();
                without_bind.as_array_mut().unwrap().extend([
                    json!({"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get", "list", "watch"]}),
                    json!({"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]}),
                    json!({"apiGroups": ["olm.operatorframework.io"], "resources": ["*"], "verbs": ["*"]}),
                ]);
                case.scene.policy = permissions(&without_bind);
            })
        ),
        (
            "a damaged record",
            told(|case| case.scene.history = Err(unreadable("install record olm.v1.widgets.v2: chunk 1 of 2 is missing")))
        ),
    ]));
}

/// MS-EXPL-02, OLM1-OWN-04, OLM1-CRD-01, OLM1-CRD-02, OLM1-CRD-07: objects of others, and CRDs that would lose data.
#[test]
fn objects_in_the_way() {
    let owned_by = |references: Value, labels: Value| {
        told(move |case| {
            let files = bundle("2.0.0", &Content::default());
            drop(files);
            case.scene.see(json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "widgets.example.com", "ownerReferences": references, "labels": labels}}));
        })
    };
    let other = json!([{"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "name": "first", "uid": "u9", "controller": true}]);
    let csv = json!([{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "name": "widgets.v1", "uid": "u8", "controller": true}]);
    let changed = |case: &mut Case| {
        case.scene
            .offer("2.0.0", &Content { fields: vec![("size", json!({"type": "string"}))], required: vec!["colour"], ..Content::default() });
    };
    assert_snapshot!(table(&[
        ("another extension's", owned_by(other, json!({}))),
        ("somebody else's", owned_by(csv, json!({}))),
        ("nobody's", owned_by(json!([]), json!({}))),
        ("an unsafe change of a CRD", with("1.1.0", changed)),
        (
            "a kind that is not served",
            told(|case| {
                let monitor = json!({"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor", "metadata": {"name": "m"}});
                case.scene.offer("2.0.0", &Content { more: vec![monitor], ..Content::default() });
                let target = ObjectRef {
                    api_version: "monitoring.coreos.com/v1".into(),
                    kind: "ServiceMonitor".into(),
                    namespace: "work".into(),
                    name: "m".into(),
                };
                case.scene.live.insert(target, Live::NotServed);
            })
        ),
    ]));
}

/// MS-EXPL-02, OLM1-CTRL-03, OLM1-CTRL-09: what the API said when the change was tried.
#[test]
fn attempts_that_failed() {
    let said = |text: &'static str| {
        told(move |case| {
            let failed = mainstay_lifecycle::Reason::Failed(SharedError::new(std::io::Error::other(text)));
            case.attempt = Some(Verdict::Retrying(Reason::Lifecycle(failed)));
        })
    };
    assert_snapshot!(table(&[
        ("a quota", said("pods \"x\" is forbidden: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2")),
        ("a webhook", said("admission webhook \"rules.example.com\" denied the request: no")),
        ("a webhook that is gone", said("Internal error occurred: failed calling webhook \"rules.example.com\": connection refused")),
        (
            "a webhook whose pods are simulated",
            said(
                "Internal error occurred: failed calling webhook \"vpod.example.com\": failed to call webhook: Post \"https://s/\": service guard/s has only simulated pods, which answer nothing; webhook configuration vpod.example.com belongs to clusterextension guard: mainstay uninstall guard removes it"
            )
        ),
        ("the namespace", said("namespaces \"work\" not found")),
        ("a right", said("deployments.apps is forbidden: User \"system:serviceaccount:work:installer\" cannot create resource")),
        ("something else", said("the server had a bad day")),
        ("gone again", said("pre-authorization failed: service account requires the following permissions")),
    ]));
}

fn pod(status: &Value) -> Value {
    json!({"metadata": {"name": "widgets-1", "namespace": "work"}, "status": status})
}

fn waiting(reason: &str, message: &str, last: &Value) -> Value {
    pod(&json!({"containerStatuses": [{"name": "manager", "image": "example.com/widgets:1.1.0",
        "state": {"waiting": {"reason": reason, "message": message}}, "lastState": last}]}))
}

/// MS-EXPL-02: installed, but its pods do not run: which pod, why, and where to look.
#[test]
fn deployments_that_are_not_available() {
    let unavailable = |pods: Vec<Value>, more: Value| {
        with("2.0.0", move |case| {
            case.pods = pods;
            case.scene.touch("Deployment", "widgets", |object| {
                object["status"] = json!({"replicas": 1, "updatedReplicas": 1, "availableReplicas": 0, "conditions": more});
            });
        })
    };
    let none = json!([]);
    let terminated = |state: Value| json!({ "terminated": state });
    assert_snapshot!(table(&[
        ("crashes", unavailable(vec![waiting("CrashLoopBackOff", "back-off 5m0s", &terminated(json!({"exitCode": 1})))], none.clone())),
        (
            "memory",
            unavailable(
                vec![waiting("CrashLoopBackOff", "back-off", &terminated(json!({"exitCode": 137, "reason": "OOMKilled"})))],
                none.clone()
            )
        ),
        ("image", unavailable(vec![waiting("ImagePullBackOff", "Back-off pulling image", &json!({}))], none.clone())),
        ("configuration", unavailable(vec![waiting("CreateContainerConfigError", "configmap \"x\" not found", &json!({}))], none.clone())),
        (
            "no node",
            unavailable(
                vec![pod(
                    &json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available: 3 Insufficient cpu."}]})
                )],
                none.clone()
            )
        ),
        (
            "no pods",
            unavailable(
                Vec::new(),
                json!([{"type": "ReplicaFailure", "status": "True", "message": "pods \"x\" is forbidden: exceeded quota"}])
            )
        ),
        (
            "a webhook whose pods are simulated",
            unavailable(
                Vec::new(),
                json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "Internal error occurred: failed calling webhook \"vpod.example.com\": failed to call webhook: Post \"https://s/\": service guard/s has only simulated pods, which answer nothing; it belongs to webhook configuration vpod.example.com, which kubectl delete removes"}])
            )
        ),
        ("not yet", unavailable(Vec::new(), none)),
        ("a missing object", with("2.0.0", |case| case.missing = Some("Deployment"))),
    ]));
}

/// MS-EXPL-02, KAPI-WL-06: what works itself, and brings a webhook that nothing answers, says so.
#[test]
fn a_webhook_whose_pods_are_simulated() {
    let mut case = Case::new();
    case.scene.offer("2.0.0", &Content { webhook: true, ..Content::default() });
    case.scene.have("2.0.0", State::Deployed);
    assert_eq!(case.explain().notes, Vec::<String>::new(), "the cluster says nothing of simulated nodes");
    case.simulation = Some(Simulation { everywhere: true, ..Simulation::default() });
    let answer = case.explain();
    assert_eq!(answer.situation, "healthy");
    let note = answer.notes.join("\n");
    assert!(note.contains("webhook check.example.com of ValidatingWebhookConfiguration check.example.com"), "{note}");
    assert!(note.contains("CREATE of widgets.example.com is refused\n"), "{note}");
    assert!(note.ends_with("mainstay uninstall widgets removes it"), "{note}");
}

/// MS-EXPL-02, OLM1-CTRL-07, OLM1-INST-15: removal, and what holds it.
#[test]
fn removal() {
    let leaving = |finalizers: Value| {
        with("2.0.0", move |case| {
            case.scene.extension["metadata"]["deletionTimestamp"] = json!("2023-11-14T22:13:20Z");
            case.scene.extension["metadata"]["finalizers"] = finalizers;
        })
    };
    let staying = |value: &str, problem: Option<&str>| {
        let (value, problem) = (value.to_owned(), problem.map(str::to_owned));
        with("2.0.0", move |case| {
            let metadata = &mut case.scene.extension["metadata"];
            metadata["deletionTimestamp"] = json!("2023-11-14T22:13:20Z");
            metadata["annotations"] = json!({"lifecycle.mainstay.dev/on-delete": value});
            if let Some(problem) = problem {
                case.scene.extension["status"]["conditions"] = json!([{"type": "Progressing", "status": "True", "reason": "Retrying", "message": problem,
                    "observedGeneration": 3, "lastTransitionTime": "2023-11-14T22:13:20Z"}]);
            }
        })
    };
    assert_snapshot!(table(&[
        ("everything is to stay", staying("Orphan", None)),
        ("everything is to stay, and nobody lets go of it", staying("Orphan", Some("what is to stay could not be released: forbidden"))),
        ("nobody knows what is to stay", staying("orphan", None)),
        ("the controller's part", leaving(json!(["olm.operatorframework.io/cleanup-unpack-cache"]))),
        ("somebody else's part", leaving(json!(["example.com/backup-first"]))),
    ]));
}

/// MS-EXPL-02: nothing is wrong but that the source is away: no advice removes what works, or puts something else in its place.
#[test]
fn absence_is_no_reason_to_remove() {
    type Absence = (&'static str, &'static str, fn(&mut Case));
    let absences: [Absence; 11] = [
        ("no catalog", "no-catalog", |case| case.scene.catalogs.clear()),
        ("switched off", "unknown-package", |case| {
            case.scene.catalogs[0].content = CatalogContent::Unavailable;
            case.catalogs = vec![clustercatalog("main", &json!({"availabilityMode": "Unavailable"}), &json!([]))];
        }),
        ("switched off, another one has a similar package", "unknown-package", |case| {
            case.scene.catalogs[0].content = CatalogContent::Unavailable;
            case.scene.catalogs.push(named("other", "widgetz"));
        }),
        ("not serving", "catalog-not-serving", |case| case.scene.catalogs[0].content = CatalogContent::NotServing),
        ("unreachable", "catalog-not-serving", |case| case.scene.catalogs[0].content = CatalogContent::Failed("no route".to_owned())),
        ("broken", "catalog-not-serving", |case| {
            case.scene.catalogs[0].content = CatalogContent::Broken { reason: "gone".to_owned(), last: None };
        }),
        ("package gone", "unknown-package", |case| case.scene.catalogs = vec![named("main", "widgetz")]),
        ("version gone", "no-update-edge", |case| case.scene.catalogs = vec![catalog("main", "channel stable: 2.0.0")]),
        ("version gone and asked for", "unknown-version", |case| {
            case.scene.request("version", json!("1.1.0"));
            case.scene.catalogs = vec![catalog("main", "channel stable: 2.0.0")];
        }),
        ("channel gone", "unknown-channel", |case| {
            case.scene.request("channels", json!(["stable"]));
            case.scene.catalogs = vec![catalog("main", "channel fast: 2.0.0")];
        }),
        ("its catalog is away, another one has other versions", "unknown-package", |case| {
            case.scene.request("selector", json!({"matchLabels": {"olm.operatorframework.io/metadata.name": "main"}}));
            case.scene.catalogs = vec![catalog("other", "channel stable: 2.0.0")];
        }),
    ];
    for (what, situation, absent) in absences {
        let mut case = Case::new();
        case.scene.have("1.1.0", State::Deployed);
        absent(&mut case);
        let answer = case.explain_weighed();
        if situation != "unknown-package" {
            assert_eq!(answer.situation, situation, "{what}: {answer:#?}");
        }
        let newer = answer.newer.iter().filter_map(|newer| newer.action.as_ref());
        let actions: Vec<_> = answer.next.iter().chain(&answer.alternatives).chain(newer).collect();
        assert!(!actions.is_empty(), "{what}");
        for command in actions.iter().flat_map(|action| &action.commands) {
            for word in [
                "uninstall",
                "delete",
                "SelfCertified",
                "catalog remove",
                "mainstay install",
                "clusterextension",
                "upgrade",
                "\"ref\"",
                ":\"Unavailable",
            ] {
                assert!(!command.contains(word), "{what}: {command}");
            }
        }
        assert!(switches_on(&answer.proposals()), "{what}");
        assert!(answer.notes.iter().any(|note| note.starts_with("widgets.v1.1.0 stays installed")), "{what}: {answer:#?}");
    }
    // Where nothing is installed there is nothing to lose, and where the source is there the way on is shown.
    let mut case = Case::new();
    case.scene.catalogs = vec![named("main", "widgetz")];
    assert!(case.explain().next.unwrap().commands.iter().any(|command| command == "mainstay install widgetz"));
    let mut case = Case::new();
    case.scene.have("1.0.0", State::Deployed);
    case.scene.request("version", json!("2.0.0"));
    assert!(!case.explain().proposals().is_empty());
}

/// Whether nothing is proposed but that catalogs are switched on.
fn switches_on(remedies: &[Remedy]) -> bool {
    remedies.iter().all(|remedy| match remedy {
        Remedy::All(all) => switches_on(all),
        other => matches!(other, Remedy::Switch { on: true, .. }),
    })
}

/// A ClusterCatalog with this spec and these conditions.
fn clustercatalog(name: &str, spec: &Value, conditions: &Value) -> Value {
    let mut object = json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog", "metadata": {"name": name},
        "spec": {"source": {"type": "Image", "image": {"ref": "registry.example/catalog:1"}}}, "status": {"conditions": conditions}});
    mainstay_merge::merge_patch(&mut object["spec"], spec);
    object
}

/// A catalog with one other package.
fn named(name: &str, package: &str) -> CatalogFact {
    let blobs = [
        json!({"schema": "olm.package", "name": package, "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": package, "name": "stable", "entries": [{"name": format!("{package}.v1.0.0")}]}),
        json!({"schema": "olm.bundle", "package": package, "name": format!("{package}.v1.0.0"), "image": "example.com/other:v1",
            "properties": [{"type": "olm.package", "value": {"packageName": package, "version": "1.0.0"}}]}),
    ];
    let text = blobs.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    let content = Catalog::load(&MemorySource::of("catalog.json", text), &Limits::default()).unwrap();
    CatalogFact { name: name.to_owned(), content: CatalogContent::Served(Arc::new(ModelSource::new(content))), ..catalog(name, STABLE) }
}

/// MS-EXPL-04, OLM1-UPG-01, OLM1-UPG-11: healthy and idle, and still not the newest: the one thing that holds it back.
#[test]
fn why_not_upgraded() {
    assert_snapshot!(table(&[
        ("the newest", with("2.0.0", |_| {})),
        ("pinned", with("1.1.0", |case| case.scene.request("version", json!("1.1.0")))),
        (
            "another channel",
            with("1.1.0", |case| {
                case.scene.catalogs = vec![catalog("main", "channel stable: 1.0.0 1.1.0<1.0.0\nchannel fast: 1.1.0 2.0.0<1.1.0")];
                case.scene.request("channels", json!(["stable"]));
            })
        ),
        ("no update edge", with("1.0.0", |case| case.scene.catalogs = vec![catalog("main", "channel stable: 1.0.0 2.0.0<1.1.0")])),
        (
            "its catalog is left out",
            with("1.1.0", |case| {
                case.scene.catalogs = vec![catalog("main", "channel stable: 1.1.0"), catalog("other", STABLE)];
                case.scene.request("selector", json!({"matchLabels": {"olm.operatorframework.io/metadata.name": "main"}}));
            })
        ),
        (
            "a skipRange that does not reach the installed version",
            with("1.0.0", |case| {
                case.scene.catalogs = vec![catalog("main", "channel stable: 1.0.0 2.0.0<1.1.0\nrange 2.0.0 >=1.1.0 <2.0.0")];
            })
        ),
        ("pinned below the next step", with("1.0.0", |case| case.scene.request("version", json!("1.0.0")))),
        (
            "the newest is deprecated",
            with("1.1.0", |case| {
                case.scene.catalogs = vec![catalog("main", &format!("{STABLE}\ndeprecated bundle widgets.v2.0.0: it loses data"))];
            })
        ),
        (
            "another catalog goes before",
            with("1.1.0", |case| {
                case.scene.catalogs = vec![catalog("main", "channel stable: 1.1.0"), catalog("other", STABLE)];
                case.scene.catalogs[0].priority = 10;
            })
        ),
        ("a catalog does not serve", with("1.1.0", |case| case.scene.catalogs[0].content = CatalogContent::NotServing)),
        (
            "more permissions than before",
            with("1.1.0", |case| {
                case.changes = vec![json!({"apiVersion": "lifecycle.mainstay.dev/v1alpha1", "kind": "ChangePlan",
                    "metadata": {"name": "widgets-7f3a", "creationTimestamp": "2023-11-14T22:00:00Z"},
                    "spec": {"extension": {"name": "widgets", "uid": "uid-1"}, "digest": "sha256:7f3a",
                        "from": {"package": "widgets", "name": "widgets.v1.1.0", "version": "1.1.0"},
                        "to": {"package": "widgets", "name": "widgets.v2.0.0", "version": "2.0.0"},
                        "summary": {"rightsGained": ["get on secrets"]}}})];
            })
        ),
        (
            "made along with another one's change",
            with("1.1.0", |case| {
                case.scene.request("version", json!("1.1.0"));
                case.scene.extension["metadata"]["annotations"] = json!({"lifecycle.mainstay.dev/change-plan": "gears-7f3a"});
            })
        ),
        ("on its way", with("1.1.0", |_| {})),
        (
            "deprecated, and a limit of the platform",
            with("2.0.0", |case| {
                case.scene.catalogs = vec![catalog("main", &format!("{STABLE}\ndeprecated package: use gadgets"))];
                case.platform = Some(Platform { major: 4, minor: 19 });
                let revision = &mut case.scene.history.as_mut().unwrap().revisions[0];
                let annotations = &mut Arc::make_mut(&mut revision.record).annotations;
                annotations.insert("olm.properties".into(), r#"[{"type": "olm.maxOpenShiftVersion", "value": "4.19"}]"#.into());
            })
        ),
    ]));
}

/// MS-EXPL-02, MS-POL-01: a change that waits for approval; an extension that nobody has looked at; the evidence of events.
#[test]
fn waiting_for_people_and_controllers() {
    let change = json!({"apiVersion": "lifecycle.mainstay.dev/v1alpha1", "kind": "ChangePlan", "metadata": {"name": "widgets-7f3a", "creationTimestamp": "2023-11-14T22:00:00Z"},
        "spec": {"extension": {"name": "widgets", "uid": "uid-1"}, "digest": "sha256:7f3a", "from": {"package": "widgets", "name": "widgets.v1.1.0", "version": "1.1.0"},
            "to": {"package": "widgets", "name": "widgets.v2.0.0", "version": "2.0.0"}, "summary": {"rightsGained": ["get on secrets"], "warnings": ["a webhook is added"]}}});
    assert_snapshot!(table(&[
        ("approval", with("1.1.0", |case| case.changes = vec![change])),
        ("not looked at", told(|case| case.unseen = true)),
        (
            "another problem than before",
            told(|case| {
                case.scene.request("version", json!("9.x"));
                let note = "no bundles found for package \"widgets\" matching version \"9.x\"".to_owned();
                let since = Timestamp::from_second(1_700_000_290).ok();
                case.events = vec![EventFact { warning: true, reason: "Retrying".to_owned(), note, since, at: since }];
            })
        ),
        (
            "events",
            told(|case| {
                case.scene.account = Ok(false);
                case.events = (1..=7)
                    .map(|number| EventFact {
                        warning: true,
                        reason: format!("Event{number}"),
                        note: format!("note {number}\nmore"),
                        since: None,
                        at: Some(Timestamp::from_second(1_700_000_000 + number * 10).unwrap()),
                    })
                    .collect();
            })
        ),
    ]));
}

/// MS-EXPL-06: what a condition has to cut, an explanation still tells; a condition names the command.
#[test]
fn explanations_are_whole() {
    let mut case = Case::new();
    let rules: Vec<Value> = (0..900)
        .map(|number| json!({"apiGroups": [format!("group-{number}.example.com")], "resources": ["things"], "verbs": ["get"]}))
        .collect();
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "many"}, "rules": rules});
    case.scene.offer("2.0.0", &Content { more: vec![role], ..Content::default() });
    case.scene.policy = permissions(&json!([]));
    let (_, plan, snapshot) = case.scene.decide();
    let written = status(&snapshot.extension, &plan, &plan.verdict, snapshot.history.as_ref(), now());
    let message = &written.conditions.iter().find(|condition| condition.kind == "Progressing").unwrap().message;
    assert!(message.len() <= 32_768 && message.ends_with("mainstay explain widgets)"), "{}", &message[message.len() - 200..]);
    let answer = serde_json::to_value(case.explain()).unwrap();
    assert_eq!(answer["situation"], "rights-missing");
    let told = answer["why"].to_string();
    assert!(!message.contains("group-899") && told.contains("group-899"), "{told}");
}

/// MS-EXPL-02: the form for programs.
#[test]
fn as_json() {
    let mut case = Case::new();
    case.scene.have("1.1.0", State::Deployed);
    case.scene.request("version", json!("9.x"));
    assert_snapshot!(format!("{:#}", serde_json::to_value(case.explain()).unwrap()));
}

/// MS-EXPL-04, MS-EXPL-05: where dependencies are followed, an installed bundle is not held back by what it needs.
#[test]
fn what_is_installed_is_not_held_back() {
    let mut case = Case::new();
    case.scene.have("2.0.0", State::Deployed);
    case.scene.catalogs = vec![catalog("main", "channel stable: 1.0.0 1.1.0<1.0.0 2.0.0<1.1.0\nneeds 2.0.0 olm.gvk.required")];
    let (group, kind) = ("example.org".to_owned(), "Gadget".to_owned());
    let provided = Provided { group, version: "v1".to_owned(), kind, by: "somebody".to_owned() };
    case.scene.apis = Ok(vec![ApiFact { provided, extension: None }]);
    let spec = serde_json::from_value(json!({"resolveDependencies": "Plan"})).unwrap();
    case.scene.lifecycle.policies = vec![PolicyFact { name: "p".to_owned(), spec }];
    let answer = case.explain();
    assert_eq!((answer.situation, answer.newer), ("healthy", None));
    assert_eq!(answer.why, ["it is the newest version in the catalogs"]);
    // Something newer that does not fit together with the rest is held back by just that.
    let mut older = case;
    older.scene.catalogs = vec![catalog("main", "channel stable: 2.0.0 3.0.0<2.0.0\nneeds 3.0.0 olm.package.required")];
    let newer = older.explain().newer.unwrap();
    assert_eq!((newer.version.as_str(), newer.held_back_by, &newer.action), ("3.0.0", "dependency", &None));
    assert!(newer.why.contains("gadgets"), "{newer:?}");
}

/// MS-EXPL-01, MS-EXPL-05, OLM1-CRD-01: a proposal that leads to a version which the check of CRDs refuses says so, and is not the one thing to
/// do; one whose bundle cannot be had says that it was not checked.
#[test]
fn proposals_are_planned() {
    let narrower = Content { fields: vec![("size", Value::Null)], ..Content::default() };
    let mut held = Case::new();
    held.scene.have("1.1.0", State::Deployed);
    held.scene.request("version", json!("1.1.0"));
    assert_eq!(held.explain_weighed(), held.explain(), "what is doable needs no words");
    held.scene.offer("2.0.0", &narrower);
    let action = held.explain_weighed().newer.unwrap().action.unwrap();
    let refused = action.refused.unwrap();
    assert!(refused.starts_with("by the check of CRDs: ") && refused.contains("(check existingFieldRemoval)"), "{refused}");
    let text = held.explain_weighed().text(now());
    assert!(text.contains(&format!("\n    would be refused: {refused}\n")), "{text}");
    let gone = PullFailure { problem: PullProblem::Other, message: "registry.example.com: connection refused".to_owned(), terminal: false };
    held.scene.bundles.insert(image("2.0.0"), Err(gone));
    let action = held.explain_weighed().newer.unwrap().action.unwrap();
    assert_eq!(action.not_checked.as_deref(), Some("its bundle cannot be pulled: registry.example.com: connection refused"));

    // An unknown version: what was proposed first leads to the same refusal.
    let mut stuck = Case::new();
    stuck.scene.have("1.1.0", State::Deployed);
    stuck.scene.request("version", json!("9.x"));
    let before = stuck.explain_weighed().next.unwrap();
    assert!(before.remedy.is_some() && before.refused.is_none(), "{before:?}");
    stuck.scene.offer("2.0.0", &narrower);
    let after = stuck.explain_weighed();
    assert_eq!(after.next.unwrap().commands, ["mainstay graph widgets"]);
    let last = after.alternatives.last().unwrap();
    assert_eq!((&last.commands, last.refused.is_some()), (&before.commands, true), "{last:?}");
}

/// MS-EXPL-05: two extensions of one package, where extensions are resolved together: who goes first, why, and what ends it.
#[test]
fn a_package_that_is_wanted_twice() {
    let rival = |name: &str, made: &str| {
        json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
            "metadata": {"name": name, "uid": name, "creationTimestamp": made},
            "spec": {"namespace": "else", "serviceAccount": {"name": "installer"},
                "source": {"sourceType": "Catalog", "catalog": {"packageName": "widgets"}}}})
    };
    let told = |peer: &Value| {
        let mut case = Case::new();
        case.scene.extension["metadata"]["creationTimestamp"] = json!("2023-11-14T22:00:00Z");
        let spec = serde_json::from_value(json!({"resolveDependencies": "Plan"})).unwrap();
        case.scene.lifecycle.policies = vec![PolicyFact { name: "p".to_owned(), spec }];
        case.scene.lifecycle.peers = vec![Arc::new(serde_json::from_value(peer.clone()).unwrap())];
        case.explain()
    };
    let earlier = told(&rival("first", "2023-11-14T21:00:00Z"));
    assert_eq!(earlier.situation, "package-wanted-twice");
    assert_eq!(earlier.summary, "clusterextension first wants package widgets, too");
    assert_eq!(earlier.why[1], "first was made earlier, and goes first");
    assert_eq!(earlier.next.unwrap().commands, ["mainstay uninstall widgets"]);
    assert_eq!(
        (&earlier.alternatives[0].commands[..], &earlier.alternatives[0].warning),
        (&["mainstay uninstall first".to_owned()][..], &None)
    );

    let mut installed = rival("second", "2023-11-14T23:00:00Z");
    installed["status"] = json!({"install": {"bundle": {"name": "widgets.v1.0.0", "version": "1.0.0"}}});
    let later = told(&installed);
    assert_eq!(later.why[1], "second has installed widgets.v1.0.0, and what is installed goes first");
    assert!(later.alternatives[0].warning.is_some(), "{later:?}");
}

/// MS-EXPL-01, MS-EXPL-02: what Kubernetes removed is brought back by no install; a version that does without it helps.
#[test]
fn removed_apis_are_not_to_be_installed() {
    for (api_version, kind, release) in [
        ("policy/v1beta1", "PodDisruptionBudget", "1.25"),
        ("scheduling.k8s.io/v1beta1", "PriorityClass", "1.22"),
        ("scheduling.k8s.io/v1alpha1", "PriorityClass", "1.22"),
    ] {
        let mut case = Case::new();
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "m"}});
        case.scene.offer("2.0.0", &Content { more: vec![object], ..Content::default() });
        for namespace in ["", "work"] {
            let target = ObjectRef { api_version: api_version.into(), kind: kind.into(), namespace: namespace.into(), name: "m".into() };
            case.scene.live.insert(target, Live::NotServed);
        }
        let answer = case.explain_weighed();
        assert_eq!(answer.situation, "kind-not-served", "{answer:?}");
        assert!(answer.why.iter().any(|why| why.contains(&format!("Kubernetes {release} removed"))), "{answer:?}");
        assert_eq!(answer.next.unwrap().leads_to.map(|to| to.to_string()).as_deref(), Some("widgets 1.1.0"));
        // Where no other version does without it, none is named.
        let lacking: Vec<String> = ["1.0.0", "1.1.0"].map(str::to_owned).into();
        for version in lacking {
            case.scene.bundles.insert(image(&version), case.scene.bundles[&image("2.0.0")].clone());
        }
        let answer = case.explain_weighed();
        assert_eq!(answer.next.unwrap().commands, ["mainstay graph widgets"]);
    }
}

/// MS-EXPL-05: a policy that follows dependencies is advised only where the catalogs have them.
#[test]
fn a_policy_is_advised_only_where_it_helps() {
    let mut case = Case::new();
    case.scene.catalogs = vec![catalog("main", "channel stable: 2.0.0\nneeds 2.0.0 olm.package.required")];
    let absent = case.explain();
    assert_eq!(absent.situation, "dependency");
    assert_eq!(absent.next.unwrap().commands, ["mainstay catalog list"]);
    let commands = |answer: &Explanation| {
        answer.next.iter().chain(&answer.alternatives).flat_map(|action| action.commands.clone()).collect::<Vec<_>>()
    };
    assert!(commands(&case.explain()).iter().all(|command| !command.contains("LifecyclePolicy")));
    // With the policy an earlier version, which needs nothing, is installed.
    case.scene.catalogs = vec![catalog("main", "channel stable: 1.0.0 2.0.0<1.0.0\nneeds 2.0.0 olm.package.required")];
    assert!(commands(&case.explain()).iter().any(|command| command.contains("LifecyclePolicy")));
}
