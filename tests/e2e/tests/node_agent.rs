//! The configuration of a real tree by the built program: with and without a cluster, killed at any time; and what machines boot with.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use mainstay_e2e::{Cluster, eventually, mainstay, need_embedded, need_kubectl};
use serde_json::{Value, json};

const PREFIX: &str = "machineconfiguration.openshift.io";

fn machine_config(name: &str, config: &Value) -> Value {
    json!({
        "apiVersion": format!("{PREFIX}/v1"), "kind": "MachineConfig",
        "metadata": {"name": name, "labels": {format!("{PREFIX}/role"): "worker"}}, "spec": {"config": config},
    })
}

/// A config of many files, all with one text.
fn many(name: &str, text: &str) -> Value {
    let files: Vec<Value> =
        (0..40)
            .map(|number| json!({"path": format!("/etc/many/{text}-{number}"), "contents": {"source": format!("data:,{text}")}}))
            .chain((0..40).map(
                |number| json!({"path": format!("/etc/shared/{number}"), "mode": 384, "contents": {"source": format!("data:,{text}")}}),
            ))
            .collect();
    let unit = json!({"name": "many.service", "enabled": true, "contents": format!("[Service]\nExecStart=/bin/true\n[Install]\nWantedBy={text}.target\n")});
    machine_config(name, &json!({"ignition": {"version": "3.4.0"}, "storage": {"files": files}, "systemd": {"units": [unit]}}))
}

/// The one text that all files of the tree have; none if they differ, or if files of both are there.
fn text_of(root: &Path) -> Option<String> {
    let mut texts: Vec<String> =
        (0..40).map(|number| std::fs::read_to_string(root.join(format!("etc/shared/{number}"))).unwrap()).collect();
    let names = std::fs::read_dir(root.join("etc/many")).unwrap();
    texts.extend(names.map(|entry| entry.unwrap().file_name().into_string().unwrap().split('-').next().unwrap().to_owned()));
    let wanted = std::fs::read_dir(root.join("etc/systemd/system")).unwrap().filter_map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let linked = root.join("etc/systemd/system").join(&name).join("many.service");
        std::fs::symlink_metadata(linked).ok().and_then(|_| name.strip_suffix(".target.wants").map(str::to_owned))
    });
    texts.extend(wanted);
    let first = texts.first()?.clone();
    (texts.len() == 81 && texts.iter().all(|text| *text == first)).then_some(first)
}

/// MACH-NODE-10, MACH-NODE-14: the built program is killed at any time; what the next run finds is whole, and it goes on.
#[test]
fn killed_while_it_writes() {
    // In memory where there is some: every write is synced.
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
    let root = folder.path().join("tree");
    std::fs::create_dir(&root).unwrap();
    let configs = ["one", "two"].map(|text| {
        let path = folder.path().join(format!("{text}.json"));
        std::fs::write(&path, many(text, text).to_string()).unwrap();
        path
    });
    let apply = |config: &Path, more: &[&str]| {
        let mut command = Command::new(mainstay());
        command.args(["machine-config", "apply", "--root"]).arg(&root).arg("--config").arg(config).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    assert!(apply(&configs[0], &[]).status().unwrap().success());
    let broken = folder.path().join("broken.json");
    let unit = json!({"name": "a.service", "contents": "[Unit]\nnonsense"});
    let config = json!({"ignition": {"version": "3.4.0"}, "systemd": {"units": [unit]}});
    std::fs::write(&broken, machine_config("broken", &config).to_string()).unwrap();
    let begun = std::time::Instant::now();
    assert!(apply(&configs[1], &[]).status().unwrap().success());
    let takes = begun.elapsed().max(Duration::from_millis(10));
    let (mut cut_off, rounds) = (0, 16);
    for round in 0..rounds {
        let before = text_of(&root).expect("a whole tree");
        let next = if before == "one" { &configs[1] } else { &configs[0] };
        let mut child = apply(next, &[]).spawn().unwrap();
        std::thread::sleep(takes * round / rounds);
        cut_off += usize::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        // The next start takes back, or finds it done; what it is asked for then is refused.
        let refused = apply(&broken, &[]).status().unwrap();
        assert_eq!(refused.code(), Some(1), "round {round}");
        assert!(text_of(&root).is_some(), "round {round}: neither old nor new");
        assert!(!root.join("etc/machine-config-daemon/pending").exists(), "round {round}");
    }
    assert!(cut_off > 4, "{cut_off} of {rounds} runs were cut off");
}

/// MACH-NODE-09, MACH-NODE-12, MACH-MCS-01, MACH-MCS-02, MACH-OPER-01: a tree as a node of the embedded cluster: it boots with what the config
/// server gives, follows its pool with services and reboots as commands, and goes on after a kill.
#[test]
fn a_tree_follows_its_pool() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let cluster =
        Cluster::up(&["--components", "controllers,machine-config", "--nodes", "0", "--machine-config-server-plain", "127.0.0.1:0"]);
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "tree", "labels": {"node-role.kubernetes.io/worker": ""}}});
    cluster.apply(&node.to_string());
    for account in ["machine-config-operator", "machine-config-server", "node-bootstrapper"] {
        let found = cluster.get(&["serviceaccount", account, "-n", "openshift-machine-config-operator"]);
        assert!(found.is_some(), "{account} is not there");
    }
    let folder = tempfile::tempdir().unwrap();
    let (root, calls) = (folder.path().join("tree"), folder.path().join("calls"));
    std::fs::create_dir(&root).unwrap();
    let script = folder.path().join("services");
    std::fs::write(&script, format!("#!/bin/sh\necho \"$@\" >> {}\n", calls.display())).unwrap();
    let command = |program: &str| format!("/bin/sh {} {program}", script.display());
    let agent = || {
        let mut command_line = cluster.command(mainstay());
        command_line.args(["node-agent", "--node", "tree", "--root"]).arg(&root);
        command_line.args(["--service-command", &command("service"), "--reboot-command", &command("reboot")]);
        command_line.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command_line.spawn().unwrap()
    };
    let mut running = agent();
    let is_done = |node: &Value| {
        let annotations = &node["metadata"]["annotations"];
        let of = |key: &str| annotations[format!("{PREFIX}/{key}")].as_str().unwrap_or_default().to_owned();
        of("state") == "Done" && !of("currentConfig").is_empty() && of("currentConfig") == of("desiredConfig")
    };
    cluster.until("the tree joins", &["node", "tree"], is_done);
    assert!(root.join("etc/machine-config-daemon/currentconfig").exists());

    let at = |name: &str, path: &str| {
        let file = json!({"path": path, "contents": {"source": "data:,hello"}});
        cluster.apply(&machine_config(name, &json!({"ignition": {"version": "3.4.0"}, "storage": {"files": [file]}})).to_string());
    };
    let said = || std::fs::read_to_string(&calls).unwrap_or_default();
    let until_has = |path: &str| {
        eventually("the file is there", Duration::from_secs(60), || if root.join(path).exists() { Ok(()) } else { Err(path.to_owned()) });
        cluster.until("the tree has it", &["node", "tree"], is_done);
    };
    at("50-team", "/etc/containers/registries.d/team.yaml");
    until_has("etc/containers/registries.d/team.yaml");
    assert_eq!(said(), "service reload crio.service\n");
    // Killed, and started again after its configuration has changed.
    running.kill().unwrap();
    running.wait().unwrap();
    at("51-motd", "/etc/motd");
    cluster.until("it is asked", &["node", "tree"], |node| !is_done(node));
    running = agent();
    until_has("etc/motd");
    assert_eq!(said(), "service reload crio.service\nreboot\n");

    // Machines boot with the same files.
    let log = cluster.log();
    let address = log.split("http://").nth(1).and_then(|rest| rest.split('/').next()).expect("the address of the config server").to_owned();
    let port: u16 = address.rsplit(':').next().unwrap().parse().unwrap();
    let served = eventually("the config is served", Duration::from_secs(60), || {
        let answer = mainstay_e2e::client::get(port, "/config/worker").map_err(|error| error.to_string())?;
        if answer.contains("/etc/motd") { Ok(answer) } else { Err(answer.chars().take(300).collect()) }
    });
    assert!(served.contains("node-annotations.json") && served.contains("\"version\":\"2.2.0\""));
    let told = cluster.mainstay(&["explain", "machineconfigpool", "worker"]).ok();
    assert!(told.contains("config server"), "{told}");
    running.kill().unwrap();
    running.wait().unwrap();

    // A node that is not there.
    let missing = cluster.mainstay(&["node-agent", "--node", "nobody", "--once", "--root", root.to_str().unwrap()]).exits(3);
    assert!(missing.is_empty() || missing.contains("ready"), "{missing}");
}
