//! The plan of an extension that is installed: upgrades, attempts that were left, and what is kept as it is.
#![allow(clippy::unwrap_used)]

use insta::assert_snapshot;
use mainstay_lifecycle::Live;
use mainstay_lifecycle::revision::State;
use serde_json::json;

use crate::plan::{case, short};
use crate::scene::{Content, Scene, catalog, table};

/// OLM1-INST-14, OLM1-UPG-02, OLM1-UPG-05, OLM1-UPG-07: an upgrade goes one edge on, applies everything and removes what is gone, but
/// for what is to be kept or is not its own.
#[test]
fn an_upgrade_removes_what_is_gone() {
    let config = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}});
    let mut kept = config("kept");
    kept["metadata"]["annotations"] = json!({"helm.sh/resource-policy": "keep"});
    let start = |scene: &mut Scene| {
        let more = vec![config("old"), kept.clone(), config("taken"), config("deleted-by-hand"), config("going")];
        scene.offer("1.0.0", &Content { more, ..Content::default() });
        scene.have("1.0.0", State::Deployed);
        scene.touch("ConfigMap", "taken", |object| object["metadata"]["ownerReferences"][0]["uid"] = json!("uid-2"));
        scene.touch("ConfigMap", "taken", |object| object["metadata"]["ownerReferences"][0]["name"] = json!("other"));
        scene.touch("ConfigMap", "going", |object| object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
        let gone = scene.target("ConfigMap", "deleted-by-hand");
        scene.live.remove(&gone);
    };
    assert_snapshot!(table(&[
        ("one edge on", case(start)),
        (
            "the CRD is dropped",
            case(|scene| {
                start(scene);
                scene.offer("1.1.0", &Content { without_crd: true, ..Content::default() });
            })
        ),
    ]));
}

/// OLM1-INST-14, OLM1-UPG-05: what the installed revision leaves must be readable, since nothing looks for it once another one counts; what
/// an attempt left is looked for again, and does not keep anybody from what is requested now.
#[test]
fn what_goes_must_be_readable() {
    let old = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "old"}});
    let more = || Content { more: vec![old.clone()], ..Content::default() };
    let forbid = |scene: &mut Scene| {
        let target = scene.target("ConfigMap", "old");
        scene.live.insert(target, Live::Unreadable("configmaps \"old\" is forbidden".into()));
    };
    let installed = case(|scene| {
        scene.offer("1.0.0", &more());
        scene.have("1.0.0", State::Deployed);
        forbid(scene);
    });
    assert!(installed.contains("configmaps \"old\" is forbidden"), "{installed}");
    let attempt = short(|scene| {
        scene.offer("2.0.0", &more());
        scene.have("1.1.0", State::Deployed);
        scene.have("2.0.0", State::Pending);
        scene.history.as_mut().unwrap().revisions[1].state = State::Failed;
        scene.request("version", json!("1.1.0"));
        forbid(scene);
    });
    assert_eq!(attempt, "Upgrade 1.1.0 of main");
}

/// OLM1-INST-14, OLM1-CTRL-11: an attempt that was left half-way, or failed, is done again as a whole, and what only it applied goes.
#[test]
fn attempts_are_finished() {
    let config = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    assert_snapshot!(table(&[
        ("the first install was left half-way", case(|scene| scene.have("2.0.0", State::Pending))),
        (
            "an upgrade was left half-way",
            case(|scene| {
                scene.have("1.1.0", State::Deployed);
                scene.have("2.0.0", State::Pending);
            })
        ),
        (
            "an upgrade failed, and another request came since",
            case(|scene| {
                scene.offer("2.0.0", &Content { more: vec![config("from-the-attempt")], ..Content::default() });
                scene.have("1.1.0", State::Deployed);
                scene.have("2.0.0", State::Pending);
                scene.history.as_mut().unwrap().revisions[1].state = State::Failed;
                scene.request("version", json!("1.1.0"));
            })
        ),
    ]));
}

/// OLM1-INST-14, OLM1-CTRL-08, OLM1-UPG-01, OLM1-GEN-03: what is installed is kept so: nothing to do, something missing, something changed.
#[test]
fn what_is_installed_is_kept() {
    let with = |change: &dyn Fn(&mut Scene)| {
        case(|scene| {
            scene.have("2.0.0", State::Deployed);
            change(scene);
        })
    };
    assert_snapshot!(table(&[
        ("as applied", with(&|_| {})),
        (
            "what the server adds is no drift",
            with(&|scene| scene.touch("Deployment", "widgets", |object| object["spec"]["progressDeadlineSeconds"] = json!(600)))
        ),
        ("changed by hand", with(&|scene| scene.touch("Deployment", "widgets", |object| object["spec"]["replicas"] = json!(0)))),
        (
            "deleted by hand",
            with(&|scene| {
                let target = scene.target("ClusterRole", "widgets");
                scene.live.remove(&target);
            })
        ),
        (
            "the CRD deleted by hand",
            with(&|scene| {
                let target = scene.target("CustomResourceDefinition", "widgets");
                scene.live.remove(&target);
            })
        ),
        (
            "another namespace to watch: other content of the same bundle",
            with(&|scene| {
                scene.offer("2.0.0", &Content { modes: vec!["AllNamespaces", "SingleNamespace"], ..Content::default() });
                scene.extension["metadata"]["annotations"] = json!({"olm.operatorframework.io/watch-namespace": "elsewhere"});
            })
        ),
    ]));
}

/// OLM1-UPG-01, OLM1-UPG-05, OLM1-UPG-06, OLM1-UPG-11, OLM1-UPG-12, OLM1-SEL-06: where a request leads from what is installed.
#[test]
fn requests_and_where_they_lead() {
    let from = |installed: Option<&str>, version: Option<&str>, policy: Option<&str>, text: &str| {
        short(|scene| {
            scene.offer("1.2.0", &Content::default());
            scene.catalogs =
                vec![catalog("main", "channel stable: 1.0.0 1.1.0<1.0.0 1.2.0<1.1.0 2.0.0<1.2.0\nchannel old: 1.0.0 1.1.0<1.0.0")];
            if let Some(installed) = installed {
                scene.have(installed, State::Deployed);
            }
            scene.catalogs = vec![catalog("main", text)];
            if let Some(version) = version {
                scene.request("version", json!(version));
            }
            if let Some(policy) = policy {
                scene.request("upgradeConstraintPolicy", json!(policy));
            }
        })
    };
    let chain = "channel stable: 1.0.0 1.1.0<1.0.0 1.2.0<1.1.0 2.0.0<1.2.0";
    let deprecated = "channel stable: 1.0.0 1.1.0<1.0.0\ndeprecated bundle widgets.v1.1.0: broken";
    assert_snapshot!(table(&[
        ("nothing installed, nothing said: the newest", from(None, None, None, chain)),
        ("pinned", from(None, Some("1.1.0"), None, chain)),
        ("pinned and installed: stays", from(Some("1.1.0"), Some("1.1.0"), None, chain)),
        ("a range: its newest", from(None, Some("1.x"), None, chain)),
        ("a range, from inside: one edge on", from(Some("1.0.0"), Some("1.x"), None, chain)),
        ("two edges away", from(Some("1.0.0"), Some("1.2.0"), None, chain)),
        ("two edges away, SelfCertified", from(Some("1.0.0"), Some("1.2.0"), Some("SelfCertified"), chain)),
        ("down", from(Some("2.0.0"), Some("1.0.0"), None, chain)),
        ("down, SelfCertified", from(Some("2.0.0"), Some("1.0.0"), Some("SelfCertified"), chain)),
        ("SelfCertified, nothing said: the newest", from(Some("1.0.0"), None, Some("SelfCertified"), chain)),
        ("the next major version by an edge", from(Some("1.2.0"), None, None, chain)),
        ("an older one that is not deprecated beats the newer", from(None, None, None, deprecated)),
        ("a deprecated one that alone fits", from(None, Some("1.1.0"), None, deprecated)),
    ]));
}
