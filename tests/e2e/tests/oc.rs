//! The program called by a link named `oc`: the documented lines (MS-CLI-10).
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};

use mainstay_e2e::{Cluster, Output, kubectl, mainstay, need_kubectl, run};
use serde_json::{Value, json};

/// A directory with a link named `oc`, and with `kubectl` if it is to be found.
fn links(cluster: &Cluster, with_kubectl: bool) -> PathBuf {
    let folder = cluster.folder().join(if with_kubectl { "links" } else { "alone" });
    std::fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink(mainstay(), folder.join("oc")).unwrap();
    if with_kubectl {
        let path = kubectl().unwrap();
        let found = if path.is_absolute() { path } else { which(&path) };
        std::os::unix::fs::symlink(found, folder.join("kubectl")).unwrap();
    }
    folder
}

fn which(program: &Path) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.exists()).unwrap()
}

fn oc(cluster: &Cluster, folder: &Path, words: &[&str]) -> Output {
    run(cluster.command(&folder.join("oc")).env("PATH", folder).args(words), "")
}

/// MS-CLI-10: kubectl's verbs go to kubectl with their output and exit code; roles, Secrets, their keys and namespaces are answered here.
#[test]
fn documented_lines() {
    let Some(()) = need_kubectl() else { return };
    let cluster = Cluster::up(&["--components", "none"]);
    let folder = links(&cluster, true);
    let run = |words: &[&str]| oc(&cluster, &folder, words);
    let json_of = |words: &[&str]| cluster.get(words).unwrap();

    assert!(
        run(&["new-project", "lights", "--display-name=Lights", "--description", "of the harbour"])
            .ok()
            .starts_with("Now using project \"lights\"")
    );
    run(&["adm", "new-project", "edge", "--node-selector=zone=a"]).ok();
    run(&["project", "lights"]).ok();
    let made = json_of(&["namespace", "lights"]);
    assert_eq!(made["metadata"]["annotations"]["openshift.io/display-name"], "Lights", "{made:#}");
    assert_eq!(json_of(&["namespace", "edge"])["metadata"]["annotations"]["openshift.io/node-selector"], "zone=a");
    assert!(run(&["project"]).ok().starts_with("Using project \"lights\""));
    let missing = run(&["project", "nowhere"]);
    assert_eq!(missing.code, Some(3), "{}", missing.stderr);

    let added = "clusterrole.rbac.authorization.k8s.io/admin added: \"ada\"\n";
    assert_eq!(run(&["policy", "add-role-to-user", "admin", "ada", "-n", "lights"]).ok(), added);
    assert_eq!(run(&["adm", "policy", "add-role-to-user", "admin", "grace", "-n", "lights"]).ok(), added.replace("ada", "grace"));
    run(&["policy", "add-role-to-user", "admin", "ada", "-n", "lights"]).ok();
    let binding = json_of(&["rolebinding", "admin", "-n", "lights"]);
    let names: Vec<&Value> = binding["subjects"].as_array().unwrap().iter().map(|subject| &subject["name"]).collect();
    assert_eq!((names, &binding["roleRef"]["name"]), (vec![&json!("ada"), &json!("grace")], &json!("admin")));

    let scc = run(&["adm", "policy", "add-scc-to-user", "anyuid", "system:serviceaccount:lights:beacon"]);
    assert_eq!(scc.code, Some(4), "{}", scc.stderr);
    assert!(
        scc.stderr.contains("pod security admission")
            && scc.stderr.contains("kubectl label namespace lights pod-security.kubernetes.io/enforce=privileged"),
        "{}",
        scc.stderr
    );

    run(&["create", "serviceaccount", "beacon", "-n", "lights"]).ok();
    run(&["create", "secret", "generic", "pull", "-n", "lights", "--from-literal=a=1"]).ok();
    run(&["secrets", "link", "beacon", "pull", "--for=pull", "-n", "lights"]).ok();
    run(&["secrets", "link", "beacon", "pull", "--for=pull,mount", "-n", "lights"]).ok();
    let account = json_of(&["serviceaccount", "beacon", "-n", "lights"]);
    assert_eq!((&account["imagePullSecrets"], &account["secrets"]), (&json!([{"name": "pull"}]), &json!([{"name": "pull"}])));

    let file = cluster.folder().join("value");
    std::fs::write(&file, b"\x00two").unwrap();
    run(&["set", "data", "secret/pull", "-n", "lights", &format!("--from-file=b={}", file.display())]).ok();
    let target = cluster.folder().join("extracted");
    std::fs::create_dir(&target).unwrap();
    let to = format!("--to={}", target.display());
    run(&["extract", "secret/pull", "-n", "lights", &to, "--confirm"]).ok();
    assert_eq!((std::fs::read(target.join("a")).unwrap(), std::fs::read(target.join("b")).unwrap()), (b"1".to_vec(), b"\x00two".to_vec()));
    assert!(run(&["extract", "secret/pull", "-n", "lights", &to]).stderr.contains("--confirm"));

    assert_eq!(run(&["get", "secret", "pull", "-n", "lights", "-o", "name"]).ok(), "secret/pull\n");
    assert_eq!(run(&["get", "secret", "none"]).code, Some(1));
    let support = cluster.folder().join("support");
    let destination = format!("--dest-dir={}", support.display());
    run(&["adm", "inspect", "ns/lights", &destination]).ok();
    assert!(support.join("namespaces/lights").is_dir(), "{support:?}");
    let upgrade = run(&["adm", "upgrade"]);
    assert_eq!(upgrade.code, Some(1), "{}", upgrade.stderr);
    assert!(upgrade.stderr.starts_with("error: No cluster version information available"), "{}", upgrade.stderr);
    for words in [&["adm", "node-logs", "one"][..], &["debug", "node/one"]] {
        let told = run(words);
        assert_eq!(told.code, Some(2), "{words:?}: {}", told.stderr);
        assert!(told.stderr.contains("is not part of this version of mainstay"), "{}", told.stderr);
    }
    let build = run(&["adm", "catalog", "build"]);
    assert!(build.code == Some(2) && build.stderr.contains("was removed") && build.stderr.contains("opm"), "{}", build.stderr);
    assert!(run(&["adm", "catalog", "mirror", "a", "b"]).stderr.contains("mainstay catalog mirror"));
    let alone = oc(&cluster, &links(&cluster, false), &["get", "pods"]);
    assert!(alone.code == Some(1) && alone.stderr.starts_with("error: kubectl: is not on PATH"), "{:?} {}", alone.code, alone.stderr);
}
