//! `opm serve` as a process, asked by a standard gRPC client in Python. What that asks stands in `python/registry.py`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use mainstay_e2e::{here, mainstay, python_with, run, terminate};
use mainstay_testing::data;
use serde_json::{Value, json};

fn bundle(package: &str, version: &str, kind: &str) -> Value {
    let name = format!("{package}.v{version}");
    json!({"schema": "olm.bundle", "package": package, "name": name, "image": format!("quay.io/e2e/{name}"), "properties": [
        {"type": "olm.package", "value": {"packageName": package, "version": version}},
        {"type": "olm.gvk", "value": {"group": "e2e.io", "version": "v1", "kind": kind}},
        {"type": "olm.csv.metadata", "value": {"displayName": kind}},
    ]})
}

fn write_catalog(folder: &Path) -> PathBuf {
    let channel =
        |package: &str, name: &str, entries: Value| json!({"schema": "olm.channel", "package": package, "name": name, "entries": entries});
    let blobs = [
        json!({"schema": "olm.package", "name": "gadget", "defaultChannel": "stable"}),
        channel("gadget", "stable", json!([{"name": "gadget.v1.0.0"}, {"name": "gadget.v1.1.0", "replaces": "gadget.v1.0.0"}])),
        channel("gadget", "beta", json!([{"name": "gadget.v2.0.0", "replaces": "gadget.v1.1.0"}])),
        bundle("gadget", "1.0.0", "Gadget"),
        bundle("gadget", "1.1.0", "Gadget"),
        bundle("gadget", "2.0.0", "Gadget"),
        json!({"schema": "olm.package", "name": "widget", "defaultChannel": "stable"}),
        channel("widget", "stable", json!([{"name": "widget.v1.0.0"}])),
        bundle("widget", "1.0.0", "Widget"),
    ];
    let directory = folder.join("catalog");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("catalog.json"), blobs.map(|blob| format!("{blob}\n")).concat()).unwrap();
    directory
}

fn opm_serve(directory: &Path, termination_log: &Path) -> Command {
    let mut command = Command::new(mainstay());
    command.args(["opm", "serve"]).arg(directory).arg("--termination-log").arg(termination_log);
    command
}

/// A server that has said it serves.
struct Serving {
    child: Child,
    stderr: BufReader<ChildStderr>,
    address: String,
}

impl Serving {
    #[track_caller]
    fn start(command: &mut Command) -> Self {
        let mut child = command.args(["--port", "0"]).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        // Whatever happens from here on, the process is ended and waited for.
        let mut serving = Self { child, stderr, address: String::new() };
        let mut said = String::new();
        while serving.address.is_empty() {
            let mut line = String::new();
            assert!(serving.stderr.read_line(&mut line).unwrap() > 0, "it ended before it served: {said}");
            said += &line;
            if let Some(port) = line.contains("msg=\"serving registry\"").then(|| line.split(" port=").nth(1)).flatten() {
                serving.address = format!("localhost:{}", port.trim());
            }
        }
        serving
    }

    /// Exit code, and what it said since it served.
    fn end(&mut self) -> (Option<i32>, String) {
        let code = terminate(&mut self.child);
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).unwrap();
        (code, said)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        terminate(&mut self.child);
    }
}

#[track_caller]
fn ask(subject: &str, address: &str) -> Option<String> {
    let python = python_with("grpc_reflection")?;
    Some(run(Command::new(python).arg(here("python/registry.py")).args([subject, address]), "").ok())
}

/// CATLG-02, CATLG-36, CATLG-37, CATLG-41..43: a client of another make and language learns the API by reflection and gets every answer.
#[test]
fn a_standard_client() {
    let folder = tempfile::tempdir().unwrap();
    let directory = write_catalog(folder.path());
    let mut serving = Serving::start(&mut opm_serve(&directory, &folder.path().join("reason")));
    let Some(said) = ask("small", &serving.address) else { return };
    assert_eq!(said.trim(), "done");
    let (code, said) = serving.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("msg=\"shutting down server\""), "{said}");
}

/// CATLG-37, CATLG-41: each bundle and API of a catalog of 60 packages can be asked for.
#[test]
fn a_whole_catalog() {
    let Some(text) = data::text("catalog-60.json.gz") else { return };
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("catalog");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("catalog.json"), &text).unwrap();
    let blobs = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let entries: usize = blobs.filter(|blob| blob["schema"] == "olm.channel").map(|blob| blob["entries"].as_array().unwrap().len()).sum();
    let serving = Serving::start(&mut opm_serve(&directory, &folder.path().join("reason")));
    let Some(said) = ask("walk", &serving.address) else { return };
    assert!(said.starts_with(&format!("bundles {entries} apis ")), "{said}");
}

/// CATLG-45: a cache is filled once, served as long as the catalog is the same, and refused or filled again afterwards.
#[test]
fn caches() {
    let folder = tempfile::tempdir().unwrap();
    let directory = write_catalog(folder.path());
    let (cache, reason) = (folder.path().join("cache"), folder.path().join("reason"));
    let cached = |more: &[&str]| {
        let mut command = opm_serve(&directory, &reason);
        command.arg("--cache-dir").arg(&cache).args(more);
        command
    };
    let missing = run(&mut cached(&[]), "").exits(1);
    assert!(missing.contains("integrity check failed: read existing cache digest: open "), "{missing}");
    assert!(fs::read_to_string(&reason).unwrap().contains("integrity check failed"));
    run(&mut cached(&["--cache-only"]), "").ok();
    let serving = Serving::start(&mut cached(&[]));
    drop(serving);
    fs::write(directory.join("more.json"), "{\"schema\": \"example.com/x\", \"package\": \"gadget\", \"name\": \"n\"}").unwrap();
    let stale = run(&mut cached(&[]), "").exits(1);
    assert!(stale.contains("integrity check failed: cache requires rebuild: cache reports digest as \""), "{stale}");
    assert!(stale.contains("hint: fill it with "), "{stale}");
    drop(Serving::start(&mut cached(&["--cache-enforce-integrity=false"])));
    // It was filled again.
    drop(Serving::start(&mut cached(&[])));
    let without = run(opm_serve(&directory, &reason).arg("--cache-enforce-integrity"), "").exits(1);
    assert!(without.contains("--cache-dir must be specified with --cache-enforce-integrity"), "{without}");
}

/// CATLG-45: what cannot be served says why, on stderr and in the termination log, with exit code 1.
#[test]
fn refusals() {
    let folder = tempfile::tempdir().unwrap();
    let directory = write_catalog(folder.path());
    let reason = folder.path().join("reason");
    let refused = |command: &mut Command, text: &str| {
        let said = run(command, "").exits(1);
        assert!(said.contains(text), "{said}");
        let logged = fs::read_to_string(&reason).unwrap();
        assert!(logged.contains(text), "{logged}");
        fs::remove_file(&reason).unwrap();
        said
    };
    let taken = Serving::start(&mut opm_serve(&directory, &reason));
    let port = taken.address.rsplit(':').next().unwrap();
    let text = format!("failed to listen: listen tcp :{port}: bind: address already in use");
    let said = refused(opm_serve(&directory, &reason).args(["--port", port]), &text);
    assert!(said.contains("hint: another program serves on this port"), "{said}");
    refused(opm_serve(&directory, &reason).args(["-p", "99999"]), "failed to listen: listen tcp: address 99999: invalid port");
    refused(opm_serve(&directory, &reason).args(["-p", "http!"]), "failed to listen: listen tcp: lookup tcp/http!: unknown port");
    refused(&mut opm_serve(&folder.path().join("nothing"), &reason), "failed to load or rebuild cache: failed to rebuild cache: ");
    fs::write(directory.join("bad.json"), "{\"schema\": \"olm.channel\", \"package\": \"unknown\", \"name\": \"c\"}").unwrap();
    let text = "failed to rebuild cache: build package index: process package \"unknown\": unknown package \"unknown\" for channel \"c\"";
    refused(&mut opm_serve(&directory, &reason), text);
}
