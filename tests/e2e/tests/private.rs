//! What is written down is for its owner alone.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mainstay_e2e::{Cluster, Registry, mainstay, need_embedded};

/// Everything below these that others may do something with.
fn open_to_others(tops: &[PathBuf]) -> Vec<String> {
    let (mut found, mut left) = (Vec::new(), tops.to_vec());
    while let Some(path) = left.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        if metadata.mode() & 0o077 != 0 && !metadata.is_symlink() {
            found.push(format!("{:o} {}", metadata.mode() & 0o7777, path.display()));
        }
        if metadata.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    found
}

/// Runs the program under a mask that keeps nothing from anybody.
fn unmasked(folder: &Path, arguments: &str) -> String {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("umask 000; exec \"$0\" {arguments}")]).arg(mainstay()).current_dir(folder).stdin(Stdio::null());
    command.env("HOME", folder).env("XDG_STATE_HOME", folder.join("state")).env("XDG_CACHE_HOME", folder.join("cache"));
    command.env("XDG_DATA_HOME", folder.join("share")).env_remove("KUBECONFIG").env_remove("MAINSTAY_CACHE_DIR");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments}: {said}");
    said
}

/// KAPI-SRV-09: under umask 000, nothing that a cluster, its log, its kubeconfigs, its caches, a backup and what is restored from it consist of
/// can be read by anybody else.
#[test]
fn nothing_is_open_to_others_whatever_the_mask_is() {
    let Some(()) = need_embedded() else { return };
    let folder = tempfile::Builder::new().prefix("mainstay-e2e-").tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let registry = Registry::ours();
    let catalog = format!("{}/catalogs/harbor:v1", registry.address());
    let package = r#"{"schema":"olm.package","name":"beacon","defaultChannel":"stable"}
{"schema":"olm.channel","package":"beacon","name":"stable","entries":[{"name":"beacon.v1.0.0"}]}
{"schema":"olm.bundle","package":"beacon","name":"beacon.v1.0.0","image":"registry.example.com/beacon:v1","properties":[{"type":"olm.package","value":{"packageName":"beacon","version":"1.0.0"}}]}
"#;
    fs::create_dir_all(at("catalog")).unwrap();
    fs::write(at("catalog/catalog.json"), package).unwrap();
    unmasked(folder.path(), &format!("catalog build catalog --push {catalog}"));
    unmasked(folder.path(), &format!("catalog lint {catalog}"));
    unmasked(folder.path(), "up --detach --data-dir data --listen 127.0.0.1:0 --kubeconfig-out kube/config");
    unmasked(folder.path(), &format!("catalog add harbor --ref {catalog} --kubeconfig kube/config"));
    unmasked(folder.path(), "wait clustercatalog/harbor --for serving --kubeconfig kube/config");
    unmasked(folder.path(), "backup whole.backup --kubeconfig kube/config");
    unmasked(folder.path(), "down --data-dir data");
    unmasked(folder.path(), "restore whole.backup --data-dir restored");
    let tops = ["data", "kube", "state", "cache", "whole.backup", "restored"].map(at);
    assert!(at("data/log").is_file() && at("data/store").is_dir() && at("data/olm-v1").is_dir() && at("cache/mainstay/images").is_dir());
    assert_eq!(open_to_others(&tops), Vec::<String>::new());
}

/// KAPI-SRV-09: what an earlier version left open is closed at the start, and that is said once; another user's directory is refused.
#[test]
fn what_is_open_is_closed_at_the_start() {
    let Some(()) = need_embedded() else { return };
    let mut cluster = Cluster::up(&["--components", "none", "--nodes", "0"]);
    cluster.stop();
    let data = cluster.data_dir();
    let store = data.join("store");
    let mut opened = Vec::new();
    for directory in [&data, &store] {
        opened.push(directory.clone());
        opened.extend(fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()));
    }
    for path in &opened {
        fs::set_permissions(path, fs::Permissions::from_mode(if path.is_dir() { 0o755 } else { 0o644 })).unwrap();
    }
    let said = |cluster: &Cluster| cluster.log().matches("others could read").count();
    let before = said(&cluster);
    cluster.start_again();
    assert_eq!(open_to_others(std::slice::from_ref(&data)), Vec::<String>::new());
    assert_eq!(said(&cluster), before + 1, "{}", cluster.log());
    cluster.stop();
    cluster.start_again();
    assert_eq!(said(&cluster), before + 1, "there was nothing left to close");
    cluster.stop();
    if std::os::unix::fs::chown(&data, Some(12_345), None).is_ok() {
        let output = Command::new(mainstay()).args(["up", "--data-dir"]).arg(&data).env("HOME", cluster.folder()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains("belongs to user 12345"), "{text}");
    }
}

/// KAPI-SRV-09: the images of `registry serve`, too.
#[test]
fn images_are_closed_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("images");
    fs::create_dir_all(data.join("blobs/sha256")).unwrap();
    fs::write(data.join("repositories.json"), "{}").unwrap();
    for path in [data.clone(), data.join("blobs"), data.join("blobs/sha256"), data.join("repositories.json")] {
        fs::set_permissions(&path, fs::Permissions::from_mode(if path.is_dir() { 0o755 } else { 0o644 })).unwrap();
    }
    let words = ["registry", "serve", "--listen", "127.0.0.1:0", "--data-dir"];
    let mut server = Command::new(mainstay()).args(words).arg(&data).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    server.kill().unwrap();
    let said = server.wait_with_output().unwrap().stderr;
    assert!(ready.contains("registry ready"), "{ready}");
    assert_eq!(open_to_others(std::slice::from_ref(&data)), Vec::<String>::new());
    assert!(String::from_utf8_lossy(&said).contains("others could read"));
}

/// KAPI-SRV-05: a second process is refused although the lock files are gone.
#[test]
fn a_removed_lock_still_locks() {
    let Some(()) = need_embedded() else { return };
    let cluster = Cluster::up(&["--components", "none", "--nodes", "0"]);
    let data = cluster.data_dir();
    for lock in ["lock", "store/lock"] {
        fs::remove_file(data.join(lock)).unwrap();
    }
    let second = |arguments: &[&str]| {
        let output = Command::new(mainstay()).args(arguments).arg("--data-dir").arg(&data).env("HOME", cluster.folder()).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (done, text) = second(&["up", "--listen", "127.0.0.1:0"]);
    assert!(!done && text.contains("is in use by"), "{text}");
    let backup = cluster.folder().join("backup");
    let (done, text) = second(&["backup", &backup.to_string_lossy()]);
    assert!(!done && text.contains("is in use by"), "{text}");
}
