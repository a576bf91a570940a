//! A kill, or a failure, at every single step: the next start finds the tree as it was before or as it is to be.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mainstay_machine_config_core::machine_config::MachineConfig;
use mainstay_node_agent::{Root, Steps};
use serde_json::json;

use crate::support::{apply, config, everything, file, folder, take, write};

/// Lets a number of steps pass; then all fail as after a kill, or one fails.
struct Cut {
    seen: AtomicUsize,
    at: usize,
    for_good: bool,
}

impl Steps for Cut {
    fn before(&self, step: &'static str, _: &str) -> io::Result<()> {
        let number = self.seen.fetch_add(1, Ordering::Relaxed);
        let fails = if self.for_good { number >= self.at } else { number == self.at };
        if fails { Err(io::Error::other(format!("cut off before: {step}"))) } else { Ok(()) }
    }
}

fn old() -> MachineConfig {
    config(
        "old",
        json!({
            "storage": {"files": [file("/etc/kept", 0o644, "old"), file("/etc/goes", 0o600, "goes"), file("/etc/system.conf", 0o600, "ours")]},
            "systemd": {"units": [
                {"name": "a.service", "enabled": true, "contents": "[Install]\nWantedBy=one.target\n"},
                {"name": "b.service", "contents": "[Unit]\n", "dropins": [{"name": "10.conf", "contents": "[Service]\n"}]},
            ]},
            "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["old"]}]},
        }),
    )
}

fn new() -> MachineConfig {
    config(
        "new",
        json!({
            "storage": {"files": [file("/etc/kept", 0o600, "new"), file("/srv/deep/new", 0o755, "x"), file("/etc/link", 0o644, "file")]},
            "systemd": {"units": [
                {"name": "a.service", "enabled": true, "contents": "[Install]\nWantedBy=two.target\n"},
                {"name": "b.service", "mask": true},
            ]},
            "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["new"]}]},
        }),
    )
}

fn tree_with_old(root: &Path) {
    write(root, "/etc/system.conf", 0o640, "of the system");
    std::os::unix::fs::symlink("/elsewhere", root.join("etc/link")).unwrap();
    apply(root, &old());
}

type Content = BTreeMap<String, String>;

/// The tree after `new` was written up to a step, and the next start.
fn cut(at: usize, for_good: bool) -> (Content, Content, bool) {
    let folder = folder();
    tree_with_old(folder.path());
    let before = everything(folder.path());
    let failed = {
        let tree = take(folder.path());
        let change = tree.plan(&new()).unwrap();
        let steps = Arc::new(Cut { seen: AtomicUsize::new(0), at, for_good });
        let root = Root::open(folder.path()).unwrap().observed(steps.clone());
        let outcome = mainstay_node_agent::transaction::carry_out(&root, &change.edits);
        // Beyond the last step nothing was cut off.
        if steps.seen.load(Ordering::Relaxed) <= at {
            assert!(outcome.is_ok());
            return (before, everything(folder.path()), false);
        }
        outcome.is_err()
    };
    if !for_good && failed {
        assert_eq!(everything(folder.path()), before, "step {at}: a failure leaves the tree as it was");
    }
    drop(take(folder.path()));
    (before, everything(folder.path()), true)
}

/// MACH-NODE-10: a kill before any step leaves the tree, after the next start, wholly old or wholly new.
#[test]
fn a_kill_at_every_step() {
    let done = folder();
    tree_with_old(done.path());
    apply(done.path(), &new());
    let wanted = everything(done.path());
    let (mut olds, mut news) = (0, 0);
    for at in 0.. {
        let (before, after, was_cut) = cut(at, true);
        if after == before {
            olds += 1;
        } else {
            assert_eq!(after, wanted, "step {at}");
            news += 1;
        }
        if !was_cut {
            break;
        }
    }
    assert!(olds > 100 && news >= 2, "{olds} steps led back, {news} forward");
}

/// MACH-NODE-03, MACH-NODE-10: a failure of any step is taken back at once, in reverse.
#[test]
fn a_failure_at_every_step() {
    for at in 0.. {
        let (_, _, was_cut) = cut(at, false);
        if !was_cut {
            assert!(at > 100, "only {at} steps");
            return;
        }
    }
}

/// MACH-NODE-10: a kill while what was begun is taken back is no harm, either.
#[test]
fn a_kill_while_taking_back() {
    let mut taken_back = 0;
    for at in 0.. {
        let folder = folder();
        tree_with_old(folder.path());
        let before = everything(folder.path());
        let change = take(folder.path()).plan(&new()).unwrap();
        // Cut off in the middle of the edits.
        let steps = Arc::new(Cut { seen: AtomicUsize::new(0), at: 150, for_good: true });
        let root = Root::open(folder.path()).unwrap();
        let failed = mainstay_node_agent::transaction::carry_out(&root.clone().observed(steps), &change.edits);
        assert!(failed.is_err());
        let steps = Arc::new(Cut { seen: AtomicUsize::new(0), at, for_good: true });
        let outcome = mainstay_node_agent::transaction::recover(&root.clone().observed(steps.clone()));
        drop(take(folder.path()));
        assert_eq!(everything(folder.path()), before, "step {at}");
        taken_back += usize::from(outcome.is_err());
        if steps.seen.load(Ordering::Relaxed) <= at {
            break;
        }
    }
    assert!(taken_back > 20, "{taken_back} steps");
}
