//! What our own annotations mean for a plan.

use std::sync::Arc;

use insta::assert_snapshot;
use mainstay_api::lifecycle::ON_DELETE;
use mainstay_lifecycle::Instances;
use mainstay_lifecycle::Live;
use mainstay_lifecycle::revision::{History, State};
use mainstay_objects::{Patch, Step};
use mainstay_olm_v1_core::extension::facts::{Answer, Fact};
use mainstay_olm_v1_core::extension::plan::{Verdict, release};
use serde_json::json;

use crate::scene::{Content, Scene, table, unreadable};

/// OLM1-INST-15: what is let go of, and what holds the extension.
#[test]
fn what_is_let_go_of() {
    let told = |value: &str, change: &dyn Fn(&mut Scene)| {
        let mut scene = Scene::new();
        scene.offer(
            "1.0.0",
            &Content { more: vec![json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "more"}})], ..Content::default() },
        );
        scene.have("1.0.0", State::Deployed);
        scene.extension["status"] = json!({"install": {"bundle": {"name": "widgets.v1.0.0", "version": "1.0.0"}}});
        scene.extension["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        scene.extension["metadata"]["annotations"] = json!({ON_DELETE: value});
        let crds = scene.live.values().filter_map(|live| match live {
            Live::Present(object) if object["kind"] == "CustomResourceDefinition" => Some((**object).clone()),
            _ => None,
        });
        let crds = Instances::Known(crds.collect());
        scene.instances.insert("CustomResourceDefinition".to_owned(), crds);
        change(&mut scene);
        let (_, _, mut snapshot) = scene.decide();
        snapshot.known = mainstay_olm_v1_core::extension::facts::Known::default();
        let plan = loop {
            match release(&snapshot) {
                Answer::Ready(plan) => break plan,
                Answer::Need(facts) => {
                    for fact in facts {
                        match fact {
                            Fact::Account => snapshot.known.account = Some(scene.account.clone()),
                            Fact::Live(target) => {
                                let live = scene.live.get(&target).cloned().unwrap_or(Live::Absent);
                                snapshot.known.live.insert(target, live);
                            }
                            Fact::Instances(kind) => {
                                let found = scene.instances.get(&kind.kind).cloned().unwrap_or(Instances::Known(Vec::new()));
                                snapshot.known.instances.insert(kind, found);
                            }
                            other => panic!("{other:?}"),
                        }
                    }
                }
            }
        };
        match &plan.verdict {
            Verdict::Reached if plan.steps.is_empty() => "nothing".to_owned(),
            Verdict::Reached => {
                let step = |step: &Step| match step {
                    Step::Patch { object, patch: Patch::Merge(patch), .. } => {
                        format!("{object}: owners {}", patch["metadata"]["ownerReferences"])
                    }
                    other => format!("{other:?}"),
                };
                plan.steps.iter().map(|planned| step(&planned.step)).collect::<Vec<_>>().join("\n")
            }
            Verdict::Blocked(reason) => format!("Blocked({:?})", reason.to_string()),
            Verdict::Retrying(reason) => format!("Retrying({:?})", reason.to_string()),
            other => format!("{other:?}"),
        }
    };
    let foreign = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "theirs", "uid": "5"});
    let another_owner = |scene: &mut Scene| {
        scene.touch("ConfigMap", "more", |object| object["metadata"]["ownerReferences"].as_array_mut().unwrap().push(foreign.clone()));
    };
    let released = |scene: &mut Scene| {
        for live in scene.live.values_mut() {
            let Live::Present(object) = live else { continue };
            let mut object = (**object).clone();
            object["metadata"]["ownerReferences"] = json!([]);
            *live = Live::Present(Arc::new(object));
        }
        scene.instances.insert("CustomResourceDefinition".to_owned(), Instances::Known(Vec::new()));
    };
    let lost = |scene: &mut Scene| scene.history = Ok(History::default());
    assert_snapshot!(table(&[
        ("everything", told("Orphan", &|_| {})),
        ("another owner", told("Orphan", &another_owner)),
        ("CRDs", told("OrphanCRDs", &|_| {})),
        ("everything is let go of", told("Orphan", &released)),
        ("another value", told("Keep", &|_| {})),
        ("the account is gone", told("Orphan", &|scene| scene.account = Ok(false))),
        ("the records cannot be read", told("OrphanCRDs", &|scene| scene.history = Err(unreadable("forbidden")))),
        ("the records are gone, everything is to stay", told("Orphan", &lost)),
        ("the records are gone, CRDs are to stay", told("OrphanCRDs", &lost)),
        (
            "the CRDs cannot be listed",
            told("OrphanCRDs", &|scene| {
                scene.instances.insert("CustomResourceDefinition".to_owned(), Instances::Unreadable("forbidden".into()));
            })
        ),
        (
            "nothing was ever installed",
            told("Orphan", &|scene| {
                lost(scene);
                scene.extension["status"] = json!({});
                scene.account = Ok(false);
            })
        ),
    ]));
}
