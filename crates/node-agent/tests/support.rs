//! Trees and configs of tests.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use mainstay_machine_config_core::machine_config::{MachineConfig, MachineConfigSpec};
use mainstay_node_agent::{Error, Root, Tree};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A folder in memory where there is one: tests sync often.
pub fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory).unwrap() } else { TempDir::new().unwrap() }
}

pub fn config(name: &str, rest: Value) -> MachineConfig {
    let mut ignition = json!({"ignition": {"version": "3.4.0"}});
    ignition.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    let spec = MachineConfigSpec { ignition: Some(ignition.to_string()), ..Default::default() };
    MachineConfig { name: name.to_owned(), labels: None, spec }
}

pub fn file(path: &str, mode: u32, text: &str) -> Value {
    json!({"path": path, "mode": mode, "contents": {"source": format!("data:,{text}")}})
}

pub fn files(files: &[Value]) -> Value {
    json!({"storage": {"files": files}})
}

pub fn write(root: &Path, path: &str, mode: u32, text: &str) {
    let path = at(root, path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
}

pub fn at(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

pub fn read(root: &Path, path: &str) -> Option<String> {
    std::fs::read_to_string(at(root, path)).ok()
}

pub fn mode(root: &Path, path: &str) -> u32 {
    std::fs::metadata(at(root, path)).unwrap().mode() & 0o7777
}

/// Takes a tree. A program that another test starts has the lock, too, until it is what it is to be.
pub fn take(root: &Path) -> Tree {
    for _ in 0..1_000 {
        match Tree::take(Root::open(root).unwrap()) {
            Ok((tree, _)) => return tree,
            Err(Error::Locked(_)) => std::thread::sleep(std::time::Duration::from_millis(2)),
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the tree stays locked");
}

/// Brings a tree to a config.
pub fn apply(root: &Path, config: &MachineConfig) -> usize {
    let tree = take(root);
    let change = tree.plan(config).unwrap();
    tree.write(&change, None).unwrap();
    change.edits.len()
}

/// Everything of a tree, but for what lasts no longer than a boot: contents with modes, targets of links, folders.
pub fn everything(root: &Path) -> BTreeMap<String, String> {
    fn walk(root: &Path, folder: &Path, found: &mut BTreeMap<String, String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = format!("/{}", path.strip_prefix(root).unwrap().display());
            let metadata = std::fs::symlink_metadata(&path).unwrap();
            if name == "/run" {
                continue;
            }
            let mode = metadata.mode() & 0o7777;
            if metadata.is_symlink() {
                found.insert(name, format!("-> {}", std::fs::read_link(&path).unwrap().display()));
            } else if metadata.is_dir() {
                found.insert(name, format!("folder {mode:o}"));
                walk(root, &path, found);
            } else {
                found.insert(name, format!("{mode:o} {}", String::from_utf8_lossy(&std::fs::read(&path).unwrap())));
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(root, root, &mut found);
    found
}
