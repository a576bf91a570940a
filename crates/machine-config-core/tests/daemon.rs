//! The daemon's plan, step by step, with a controller and a disk that the test plays.
#![allow(clippy::unwrap_used, clippy::panic, clippy::needless_pass_by_value)]

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use mainstay_machine_config_core::content::{self, ContentError};
use mainstay_machine_config_core::daemon::disk::FileOnDisk;
use mainstay_machine_config_core::daemon::progress::{State, step};
use mainstay_machine_config_core::daemon::{Disk, Facts, Next, NodeEvent, OperatingSystem, Progress, Reboot, plan};
use mainstay_machine_config_core::disruption::RegistryDrain;
use mainstay_machine_config_core::generated::{self, File, Known, Source};
use mainstay_machine_config_core::ignition::parse_and_convert;
use mainstay_machine_config_core::machine_config::{MachineConfig, MachineConfigSpec};
use mainstay_machine_config_core::policy::{Policies, defaults, merged};
use mainstay_machine_config_core::pool::node::{Node, annotation};
use proptest::prelude::*;
use serde_json::{Value, json};

fn config(name: &str, rest: Value) -> MachineConfig {
    let mut ignition = json!({"ignition": {"version": "3.4.0"}});
    ignition.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    MachineConfig {
        name: name.to_owned(),
        labels: None,
        spec: MachineConfigSpec { ignition: Some(ignition.to_string()), ..Default::default() },
    }
}

fn files(paths: &[(&str, &str)]) -> Value {
    let files: Vec<Value> =
        paths.iter().map(|(path, text)| json!({"path": path, "mode": 0o600, "contents": {"source": format!("data:,{text}")}})).collect();
    json!({"storage": {"files": files}})
}

/// A node, its disk, and what was told of it.
struct World {
    node: Node,
    disk: Option<Disk>,
    configs: BTreeMap<String, MachineConfig>,
    policies: Policies,
    now: Timestamp,
    boots: usize,
    events: Vec<NodeEvent>,
    states: Vec<String>,
    progress: Vec<Value>,
}

impl World {
    fn new(first: MachineConfig) -> Self {
        let mut world = Self {
            node: Node { name: "worker-1".to_owned(), ..Node::default() },
            disk: None,
            configs: BTreeMap::new(),
            policies: defaults(),
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            boots: 0,
            events: Vec::new(),
            states: Vec::new(),
            progress: Vec::new(),
        };
        world.configs.insert(first.name.clone(), first.clone());
        world.settle(Some(&first), &mut |_| false);
        assert_eq!(world.node.annotation(annotation::CURRENT_CONFIG), Some(first.name.as_str()));
        world.events.clear();
        world
    }

    fn ask(&mut self, new: &MachineConfig) {
        self.configs.insert(new.name.clone(), new.clone());
        self.node.annotations.insert(annotation::DESIRED_CONFIG.to_owned(), new.name.clone());
    }

    /// One step; `cut` says after which of its writes the daemon is killed. Returns true if something was written.
    fn step(&mut self, first: Option<&MachineConfig>, cut: usize) -> (bool, Next) {
        let boot_id = format!("boot-{}", self.boots);
        let get = |key: &str| self.node.filled(key).and_then(|name| self.configs.get(name)).cloned();
        let (current, desired) = (get(annotation::CURRENT_CONFIG), get(annotation::DESIRED_CONFIG));
        let found = plan(&Facts {
            node: &self.node,
            disk: self.disk.as_ref(),
            first,
            current: current.as_ref(),
            desired: desired.as_ref(),
            policies: Some(&self.policies),
            registries: RegistryDrain::AsNeeded,
            authority: Some(("sha256:ca", "7")),
            now: self.now,
            reboot: Reboot::Simulated(SignedDuration::from_secs(30)),
            system: OperatingSystem::Recorded,
            next_boot_id: &boot_id,
        });
        if found.is_idle() {
            return (false, found.next);
        }
        if let Some(disk) = found.disk.clone().filter(|_| cut > 0) {
            if self.disk.as_ref().is_some_and(|before| before.boot_id != disk.boot_id) || self.disk.is_none() {
                self.boots += 1;
            }
            self.disk = Some(disk);
        }
        for step in &found.progress {
            self.progress = step.applied(&self.progress, "x", "now");
        }
        if cut > 1 {
            for (key, value) in &found.annotations {
                match value {
                    Some(value) => _ = self.node.annotations.insert((*key).to_owned(), value.clone()),
                    None => _ = self.node.annotations.remove(*key),
                }
            }
        }
        if cut > 2 {
            self.events.extend(found.events.iter().cloned());
        }
        let state = self.node.annotation(annotation::STATE).unwrap_or_default().to_owned();
        if self.states.last() != Some(&state) {
            self.states.push(state);
        }
        (true, found.next)
    }

    /// Steps until nothing is written; the controller does what is asked, unless `refuses`.
    fn settle(&mut self, first: Option<&MachineConfig>, refuses: &mut dyn FnMut(&str) -> bool) {
        for _ in 0..60 {
            let (wrote, next) = self.step(first, 3);
            let asked = self.node.annotation(annotation::DESIRED_DRAIN).unwrap_or_default().to_owned();
            let applied = self.node.annotation(annotation::LAST_APPLIED_DRAIN).unwrap_or_default() == asked;
            if !applied && !refuses(&asked) {
                self.node.unschedulable = asked.starts_with("drain-");
                self.node.annotations.insert(annotation::LAST_APPLIED_DRAIN.to_owned(), asked);
            } else if !wrote {
                match next {
                    Next::After(wait) if wait <= SignedDuration::from_secs(30) => self.now += wait,
                    _ => return,
                }
            }
        }
        panic!("it does not settle: {:?} {:?}", self.node.annotations, self.events);
    }

    fn reasons(&self) -> Vec<&'static str> {
        self.events.iter().map(NodeEvent::reason).collect()
    }
}

fn first() -> MachineConfig {
    config("rendered-worker-1", files(&[("/etc/a", "1")]))
}

/// MACH-NODE-01, MACH-NODE-02, MACH-NODE-03, MACH-NODE-05, MACH-NODE-06, MACH-TRB-08: a file without policy drains, reboots and uncordons, in this order;
/// the files that need it are told.
#[test]
fn a_change_that_reboots() {
    let mut world = World::new(first());
    assert_eq!(world.boots, 1);
    world.ask(&config("rendered-worker-2", files(&[("/etc/a", "2"), ("/etc/b", "1")])));
    world.states.clear();
    world.settle(None, &mut |_| false);
    assert_eq!(world.reasons(), ["Cordon", "Drain", "RebootRequired", "Reboot", "Uncordon", "NodeDone"]);
    let because = "Node has to reboot into config rendered-worker-2 because of file /etc/a, file /etc/b";
    assert_eq!(world.events[2].to_string(), because);
    assert_eq!(world.states, ["Working", "Done"]);
    let disk = world.disk.as_ref().unwrap();
    assert_eq!((world.boots, disk.config.name.as_str(), disk.boot_id.as_str()), (2, "rendered-worker-2", "boot-1"));
    assert_eq!(disk.files["/etc/b"].mode, "0600");
    assert!(!world.node.unschedulable && disk.pending.is_empty() && disk.asked.is_none() && disk.rebooting_since.is_none());
    assert_eq!(world.node.annotation("mainstay.dev/rebooting"), None);
    let updated = world.progress.iter().find(|one| one["type"] == step::UPDATED).unwrap();
    assert_eq!((&updated["status"], &updated["message"]), (&json!("True"), &json!("Node worker-1 Updated")));
    assert_eq!(world.progress.len(), 14);
    let others = world.progress.iter().filter(|one| one["status"] != "False").count();
    assert_eq!(others, 1, "an end takes back the steps before it: {:#?}", world.progress);
}

/// MACH-DISR-01, MACH-DISR-04, MACH-DISR-06, MACH-DISR-08: what the policies say is done instead of a reboot, and the node is uncordoned in any case.
#[test]
fn changes_that_do_not_reboot() {
    for (path, events) in [
        ("/etc/nmstate/openshift/a.yml", vec!["SkipReboot"]),
        ("/etc/containers/policy.json", vec!["ServiceReload"]),
        ("/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt", vec!["ServiceRestart", "ServiceRestart"]),
    ] {
        let mut world = World::new(first());
        world.ask(&config("rendered-worker-2", files(&[("/etc/a", "1"), (path, "1")])));
        world.settle(None, &mut |asked| asked.starts_with("drain-"));
        let expected: Vec<&str> = events.into_iter().chain(["Uncordon", "NodeDone"]).collect();
        assert_eq!((world.reasons(), world.boots), (expected, 1), "{path}");
    }
    let mut world = World::new(first());
    let user: Policies = serde_json::from_value(json!({"files": [{"path": "/etc/a", "actions": [{"type": "Drain"}]}]})).unwrap();
    world.policies = merged(&user);
    world.ask(&config("rendered-worker-2", files(&[("/etc/a", "2")])));
    world.settle(None, &mut |_| false);
    assert_eq!(world.reasons(), ["Cordon", "Drain", "Uncordon", "NodeDone"]);
}

/// MACH-NODE-05: a drain that does not end within an hour is a failure, which is told once; the drain goes on, and the node recovers.
#[test]
fn a_drain_that_does_not_end() {
    let mut world = World::new(first());
    world.ask(&config("rendered-worker-2", files(&[("/etc/a", "2")])));
    world.settle(None, &mut |_| true);
    assert_eq!(world.node.annotation(annotation::STATE), Some("Working"));
    world.now += SignedDuration::from_hours(1);
    world.settle(None, &mut |_| true);
    assert_eq!(world.node.annotation(annotation::STATE), Some("Degraded"));
    let reason = "failed to drain node: worker-1 after 1 hour. Please see machine-config-controller logs for more information";
    assert_eq!(world.node.annotation(annotation::REASON), Some(reason));
    assert_eq!(world.disk.as_ref().unwrap().config.name, "rendered-worker-1", "nothing is written before the drain");
    world.settle(None, &mut |_| false);
    assert_eq!((world.node.annotation(annotation::STATE), world.node.annotation(annotation::REASON)), (Some("Done"), Some("")));
    assert_eq!(world.reasons().iter().filter(|reason| **reason == "FailedToDrain").count(), 1);
}

/// MACH-NODE-05: where there is one node, nothing is drained.
#[test]
fn the_only_node_is_not_drained() {
    let mut world = World::new(first());
    world.node.annotations.insert(annotation::TOPOLOGY.to_owned(), "SingleReplica".to_owned());
    world.ask(&config("rendered-worker-2", files(&[("/etc/a", "2")])));
    world.settle(None, &mut |asked| asked.starts_with("drain-"));
    assert_eq!(world.events[0].to_string(), "Drain not required, skipping");
    assert_eq!(world.reasons(), ["Drain", "RebootRequired", "Reboot", "Uncordon", "NodeDone"]);
}

/// MACH-NODE-04: what cannot be reached in place, or is not there, changes nothing, and another configuration repairs it.
#[test]
fn configurations_that_cannot_be_reached() {
    let mut world = World::new(first());
    let before = world.disk.clone();
    world.ask(&config("rendered-worker-2", json!({"storage": {"links": [{"path": "/etc/l", "target": "/etc/a"}]}})));
    world.settle(None, &mut |_| false);
    assert_eq!(world.node.annotation(annotation::STATE), Some("Unreconcilable"));
    let reason = world.node.annotation(annotation::REASON).unwrap();
    assert!(reason.starts_with("can't reconcile config rendered-worker-1 with rendered-worker-2: "), "{reason}");
    assert_eq!((world.reasons(), &world.disk), (vec!["FailedToReconcile"], &before));
    world.node.annotations.insert(annotation::DESIRED_CONFIG.to_owned(), "rendered-worker-3".to_owned());
    world.settle(None, &mut |_| false);
    assert!(world.node.annotation(annotation::REASON).unwrap().starts_with("missing MachineConfig rendered-worker-3\n"));
    assert_eq!(world.node.annotation(annotation::STATE), Some("Degraded"));
    world.ask(&first());
    world.settle(None, &mut |_| false);
    assert_eq!((world.node.annotation(annotation::STATE), world.node.annotation(annotation::REASON)), (Some("Done"), Some("")));
}

type Edit = fn(&mut Disk);

/// MACH-NODE-04, MACH-NODE-13: a disk that was changed by hand is found, and put right by hand or by force.
#[test]
fn drift() {
    let mut world = World::new(first());
    let good = world.disk.clone();
    let edits: [(&str, Edit); 3] = [
        ("content mismatch for file \"/etc/a\"", |disk| disk.files.get_mut("/etc/a").unwrap().digest.push('0')),
        ("mode mismatch for file: \"/etc/a\"; expected: -rw-------/384/0600; received: -rw-r--r--/420/0644", |disk| {
            "0644".clone_into(&mut disk.files.get_mut("/etc/a").unwrap().mode);
        }),
        ("could not stat file \"/etc/a\": lstat /etc/a: no such file or directory", |disk| disk.files.clear()),
    ];
    for (says, edit) in edits {
        edit(world.disk.as_mut().unwrap());
        world.settle(None, &mut |_| false);
        let reason = format!("unexpected on-disk state validating against rendered-worker-1: {says}");
        assert_eq!(world.node.annotation(annotation::REASON), Some(reason.as_str()));
        assert_eq!(world.reasons().last(), Some(&"ConfigDriftDetected"));
        world.disk = good.clone();
        world.settle(None, &mut |_| false);
        assert_eq!(world.node.annotation(annotation::STATE), Some("Done"));
    }
    // A file that no configuration has is no drift.
    world.disk.as_mut().unwrap().files.insert("/etc/own".to_owned(), FileOnDisk::default());
    world.settle(None, &mut |_| false);
    assert_eq!(world.node.annotation(annotation::STATE), Some("Done"));
    edits[0].1(world.disk.as_mut().unwrap());
    world.disk.as_mut().unwrap().force = true;
    world.settle(None, &mut |_| false);
    assert_eq!((world.node.annotation(annotation::STATE), world.boots), (Some("Done"), 2), "force writes and reboots");
}

proptest! {
    /// MACH-NODE-07: wherever the daemon is killed, it ends with the wanted configuration, one drain and one reboot.
    #[test]
    fn kills_lose_nothing(cuts in proptest::collection::vec(0_usize..=3, 0..25)) {
        let mut world = World::new(first());
        world.ask(&config("rendered-worker-2", files(&[("/etc/a", "2")])));
        for cut in cuts {
            world.step(None, cut);
        }
        world.settle(None, &mut |_| false);
        let disk = world.disk.as_ref().unwrap();
        prop_assert_eq!(disk.config.name.as_str(), "rendered-worker-2");
        prop_assert_eq!(world.boots, 2);
        prop_assert_eq!(world.node.annotation(annotation::CURRENT_CONFIG), Some("rendered-worker-2"));
        prop_assert_eq!(world.node.annotation(annotation::STATE), Some("Done"));
        prop_assert_eq!(world.node.annotation("mainstay.dev/rebooting"), None);
        prop_assert_eq!(world.node.annotation("mainstay.dev/boot-id"), Some(disk.boot_id.as_str()));
        prop_assert!(!world.node.unschedulable);
    }
}

/// MACH-NODE-06: a step that says the same changes nothing; the first one makes all conditions.
#[test]
fn steps_of_a_node() {
    let prepared = Progress::of(step::PREPARED, State::True, "Update Compatible.");
    let first = prepared.applied(&[], "rendered-a", "1");
    assert_eq!((first.len(), &first[0]["message"]), (14, &json!("Update Compatible.")));
    assert_eq!(prepared.applied(&first, "rendered-a", "2"), first);
    let part = Progress::part((step::EXECUTED, State::Unknown, "a".to_owned()), (step::DRAINED, State::True, "b".to_owned()));
    let second = part.applied(&first, "rendered-a", "3");
    let drained = second.iter().find(|one| one["type"] == "Drained").unwrap();
    assert_eq!((&drained["reason"], &drained["lastTransitionTime"]), (&json!("UpdateExecutedDrained"), &json!("3")));
    let end = Progress::of(step::UPDATED, State::True, "c").applied(&second, "rendered-a", "4");
    let prepared = end.iter().find(|one| one["type"] == step::PREPARED).unwrap();
    assert_eq!(prepared["message"], "Action during update to rendered-a: Update Compatible.");
}

/// MACH-MC-08: what cannot be written to a running node is refused with the path.
#[test]
fn contents_have_limits() {
    let check = |rest: Value| content::check(&parse_and_convert(config("a", rest).spec.ignition.as_deref().unwrap()).unwrap());
    let of = |contents: Value| json!({"storage": {"files": [{"path": "/etc/x", "contents": contents}]}});
    assert_eq!(check(of(json!({"source": "data:,a%20b"}))), Ok(()));
    let elsewhere = check(of(json!({"source": "https://example.com/a"}))).unwrap_err();
    assert_eq!(elsewhere.to_string(), "file /etc/x: contents.source https: only data URLs can be written to a running node");
    let broken = check(of(json!({"source": "data:;base64,AAAA", "compression": "gzip"}))).unwrap_err();
    assert!(matches!(broken, ContentError::Gzip { .. }), "{broken}");
    let large = format!("data:,{}", "a".repeat(content::MAX_FILE + 1));
    assert_eq!(check(of(json!({"source": large}))), Err(ContentError::FileTooLarge { path: "/etc/x".to_owned() }));
    let luks = check(json!({"storage": {"luks": [{"name": "data", "device": "/dev/sdb"}]}})).unwrap_err();
    assert!(luks.to_string().ends_with("encrypted volumes cannot be made on a running node: data"), "{luks}");
}

/// MACH-MC-06: names of generated MachineConfigs, and what their sources report.
#[test]
fn generated_configs() {
    let known = |name: &str, suffix: Option<&str>| Known { name: name.to_owned(), suffix: suffix.map(str::to_owned) };
    let suffix = |name: &str, all: &[Known]| generated::suffix(Source::Kubelet, name, all);
    assert_eq!(suffix("a", &[known("a", None)]), Ok(String::new()));
    assert_eq!(suffix("b", &[known("a", Some("")), known("b", None)]), Ok("1".to_owned()));
    assert_eq!(suffix("c", &[known("a", Some("")), known("b", Some("3")), known("c", None)]), Ok("4".to_owned()));
    assert_eq!(suffix("b", &[known("a", Some("")), known("b", Some("3"))]), Ok("3".to_owned()), "a chosen one stays");
    let full = suffix("b", &[known("a", Some("9")), known("b", None)]).unwrap_err();
    assert!(full.to_string().starts_with("max number of supported kubelet config (10) has been reached"), "{full}");
    assert_eq!(generated::name(Source::Runtime, "infra", "2"), "99-infra-generated-containerruntime-2");
    let made = generated::machine_config("99-a", "worker", &[File::new("/etc/x", "hi\n")], &[], "1");
    let file = &made["spec"]["config"]["storage"]["files"][0];
    assert_eq!(file["contents"]["source"], "data:text/plain;charset=utf-8;base64,aGkK");
    assert_eq!((&file["mode"], &file["overwrite"], &file["contents"]["compression"]), (&json!(420), &json!(true), &json!("")));

    let mut live = json!({"metadata": {"name": "a", "generation": 1}});
    assert!(generated::waits_for(Source::Kubelet, &live).is_some());
    for (number, text) in ["x", "y", "z", "w"].into_iter().enumerate() {
        live["status"] = generated::reported(&live, Err(text), &number.to_string()).unwrap();
    }
    let kept: Vec<&str> = live["status"]["conditions"].as_array().unwrap().iter().map(|one| one["message"].as_str().unwrap()).collect();
    assert_eq!(kept, ["y", "z", "w"], "three are kept");
    assert_eq!(generated::reported(&live, Err("w"), "9"), None);
    assert_eq!(generated::waits_for(Source::Kubelet, &live).as_deref(), Some("KubeletConfig has not completed"));
    live["status"] = generated::reported(&live, Ok(()), "9").unwrap();
    assert_eq!(generated::waits_for(Source::Kubelet, &live), None);
}
