//! `adm release` on images of a local registry.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use crate::common::{Run, command, run};
use mainstay_oci::registry::Registry;
use mainstay_oci::{Client, ClientConfig, Descriptor, Image, Manifest, Reference, media_type};
use mainstay_testing::data;
use regex::Regex;
use serde_json::{Value, json};
use sha2::Digest as _;

/// A release image as the recordings describe it, and what differs from upstream's.
struct Built {
    image: Image,
    diff: String,
    size: u64,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn build(store: &mainstay_oci::BlobStore, version: &str, files: &BTreeMap<String, Vec<u8>>) -> Built {
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Directory);
    header.set_mode(0o755);
    header.set_size(0);
    tar.append_data(&mut header, "release-manifests/", std::io::empty()).unwrap();
    for (name, content) in files.iter().filter(|(name, _)| name.starts_with("release-manifests/")) {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_mtime(1_700_000_000);
        header.set_size(content.len() as u64);
        tar.append_data(&mut header, name, content.as_slice()).unwrap();
    }
    let tar = tar.into_inner().unwrap();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gz.write_all(&tar).unwrap();
    let layer = gz.finish().unwrap();
    let diff = format!("sha256:{}", hex(&sha2::Sha256::digest(&tar)));
    let base = format!("sha256:{}", "ab".repeat(32));
    let config = json!({"architecture": "amd64", "os": "linux", "created": "2025-06-01T12:00:00Z",
        "config": {"Labels": {"io.openshift.release": version, "io.openshift.release.base-image-digest": base}},
        "rootfs": {"type": "layers", "diff_ids": [diff]}, "history": [{"created": "2025-06-01T12:00:00Z"}]});
    let config = config.to_string().into_bytes();
    let manifest = Manifest {
        schema_version: 2,
        media_type: Some(media_type::DOCKER_MANIFEST.to_owned()),
        config: Descriptor::of(media_type::DOCKER_CONFIG, &config),
        layers: vec![Descriptor::of(media_type::DOCKER_LAYER_GZIP, &layer)],
        annotations: BTreeMap::new(),
    };
    let bytes = serde_json::to_vec(&manifest).unwrap();
    for blob in [&layer, &config, &bytes] {
        store.write(blob).unwrap();
    }
    let descriptor = Descriptor::of(media_type::DOCKER_MANIFEST, &bytes);
    let config = serde_json::from_slice(&config).unwrap();
    Built { image: Image { digest: descriptor.digest.clone(), descriptor, manifest, config }, diff, size: layer.len() as u64 }
}

fn payloads() -> Option<BTreeMap<String, BTreeMap<String, Vec<u8>>>> {
    let mut payloads = BTreeMap::<String, BTreeMap<String, Vec<u8>>>::new();
    for (path, content) in data::archive("payload.tar.gz")? {
        let Some((version, file)) = path.strip_prefix("payload/").and_then(|rest| rest.split_once('/')) else { continue };
        payloads.entry(version.to_owned()).or_default().insert(file.to_owned(), content);
    }
    Some(payloads)
}

/// A registry that ends with the process.
fn serve() -> String {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || runtime.block_on(Registry::in_memory().serve(listener, std::future::pending())));
    address
}

fn push(address: &str, version: &str, image: &Image, store: &mainstay_oci::BlobStore) {
    let client = Client::new(ClientConfig { insecure: true, ..ClientConfig::default() }).unwrap();
    let target = Reference::parse(&format!("{address}/demo/release:{version}")).unwrap();
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(client.push(image, store, &target)).unwrap();
}

fn asked(arguments: &[String], folder: &Path) -> Run {
    let mut asked = command();
    asked.arg("adm").args(arguments).current_dir(folder).env("HOME", folder).env("KUBECONFIG", folder.join("none"));
    run(&mut asked)
}

/// CVO-RELX-01, CVO-RELX-02, CVO-RELX-03, CVO-RELI-01, CVO-RELI-02, CVO-RELI-03, COP-CRED-06: all recorded answers of `oc adm release`: exit codes,
/// output, errors, and the files that are written.
#[test]
fn recorded_answers() {
    let (Some(payloads), Some(cases)) = (payloads(), data::json_lines("cluster-version/release.jsonl.gz")) else { return };
    let place = tempfile::tempdir().unwrap();
    let layout = mainstay_oci::Layout::create(place.path().join("layout")).unwrap();
    let address = serve();
    // Upstream's digest, layer and size of each image, in place of ours.
    let mut ours = Vec::new();
    for (version, files) in &payloads {
        let built = build(layout.store(), version, files);
        push(&address, version, &built.image, layout.store());
        let name = format!("registry.example/demo/release:{version}");
        let theirs = cases.iter().find(|case| case["args"] == json!(["release", "info", "--insecure", name, "-o", "json"])).unwrap();
        let theirs: Value = serde_json::from_str(theirs["stdout"].as_str().unwrap()).unwrap();
        let text = |path: &str| theirs.pointer(path).unwrap().as_str().unwrap().to_owned();
        ours.push((built.image.digest.to_string(), text("/digest")));
        ours.push((built.diff, text("/config/rootfs/diff_ids/0")));
        ours.push((format!("\"size\": {}", built.size), format!("\"size\": {}", theirs["config"]["size"])));
    }
    let log = Regex::new(r"(?m)^I\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ \S+\] ").unwrap();
    let age = Regex::new(r"(?m)^Created: +\S+ +\S+$").unwrap();
    let mut wrong = Vec::new();
    // A registry of this machine may speak plain HTTP; the recorded one of another name may not.
    let is_local = |case: &&Value| {
        case["args"].as_array().unwrap().iter().any(|argument| argument == "--insecure")
            || case["args"] == json!(["release", "info"])
            || case["stderr"].as_str().unwrap().contains("not found")
    };
    for case in cases.iter().filter(is_local) {
        let folder = tempfile::tempdir().unwrap();
        if let Some(config) = case["installConfig"].as_str() {
            std::fs::write(folder.path().join("install-config.yaml"), config).unwrap();
        }
        let arguments: Vec<String> = case["args"]
            .as_array()
            .unwrap()
            .iter()
            .map(|argument| {
                let argument = argument.as_str().unwrap().replace("registry.example", &address);
                ours.iter().fold(argument, |argument, (our, their)| argument.replace(their, our))
            })
            .collect();
        let answer = asked(&arguments, folder.path());
        let shown = |text: &str| {
            let text = ours.iter().fold(text.replace(&address, "registry.example"), |text, (our, their)| text.replace(our, their));
            log.replace_all(&text, "klog: ").into_owned()
        };
        let (stdout, stderr) = (shown(&answer.stdout), shown(&answer.stderr));
        let mut found = json!({"rc": answer.code, "stderr": stderr});
        let mut expected = json!({"rc": case["rc"], "stderr": case["stderr"]});
        if let Some(text) = case["stdout"].as_str() {
            let text = text.replace("/tmp/peers/bin/oc-adm adm", "mainstay adm");
            let ages = |text: &str| {
                if case["stdout"].as_str().unwrap().contains("<age>") {
                    age.replace_all(text, "Created:").into_owned()
                } else {
                    text.to_owned()
                }
            };
            (found["stdout"], expected["stdout"]) = (ages(&stdout).into(), ages(&text).into());
        } else {
            (found["stdout"], expected["stdout"]) = (hex(&sha2::Sha256::digest(&stdout)).into(), case["stdoutSha256"].clone());
        }
        if let Some(files) = case["files"].as_object() {
            let written = std::fs::read_dir(folder.path().join("out")).into_iter().flatten().map(|entry| entry.unwrap().path());
            let written: BTreeMap<String, String> = written
                .map(|path| {
                    let name = path.file_name().unwrap().to_string_lossy().into_owned();
                    (name, hex(&sha2::Sha256::digest(std::fs::read(path).unwrap()))[..16].to_owned())
                })
                .collect();
            (found["files"], expected["files"]) = (json!(written), json!(files));
        }
        if found != expected {
            for key in ["rc", "stderr", "stdout", "files"] {
                if found[key] != expected[key] {
                    wrong.push(format!(
                        "{}: {key}\n  ours     {}\n  recorded {}",
                        case["args"],
                        first_difference(&found[key], &expected[key]),
                        first_difference(&expected[key], &found[key])
                    ));
                }
            }
        }
    }
    assert_eq!((cases.len(), cases.iter().filter(is_local).count()), (119, 118));
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.iter().take(30).cloned().collect::<Vec<_>>().join("\n"));
}

/// The place at which one value begins to differ from the other.
fn first_difference(one: &Value, other: &Value) -> String {
    if let (Some(one), Some(other)) = (one.as_object(), other.as_object()) {
        let differs = one.iter().filter(|(key, value)| other.get(*key) != Some(value)).map(|(key, value)| format!("{key}={value}"));
        let differs: Vec<String> = differs.collect();
        return format!("{} files: {}", differs.len(), differs.iter().take(4).cloned().collect::<Vec<_>>().join(" "));
    }
    let (one, other) = (one.as_str().map_or_else(|| one.to_string(), str::to_owned), other.as_str().unwrap_or_default());
    let same = one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
    let start = same.saturating_sub(60);
    format!("{:?}", one.chars().skip(start).take(260).collect::<String>())
}

/// CVO-RELX-01, CVO-RELX-04, CVO-REL-08, CVO-INC-05, MS-PLAN-01: a walk of a user over places of releases: extract, info of what was extracted,
/// plan, a link in the target folder, and an image whose layer was changed.
#[test]
fn a_walk_over_places() {
    let Some(payloads) = payloads() else { return };
    let place = tempfile::tempdir().unwrap();
    let layout = mainstay_oci::Layout::create(place.path().join("layout")).unwrap();
    for (version, files) in &payloads {
        let built = build(layout.store(), version, files);
        layout.add(version, &built.image).unwrap();
    }
    layout.write_archive(&place.path().join("both.tar")).unwrap();
    let asked = |arguments: &[&str]| asked(&arguments.iter().map(|argument| (*argument).to_owned()).collect::<Vec<_>>(), place.path());
    let extracted = asked(&["release", "extract", "both.tar:4.19.44", "--to", "out"]);
    assert_eq!((extracted.code, extracted.stderr.as_str()), (0, ""));
    let of_archive = asked(&["release", "info", "both.tar:4.19.44", "-o", "name"]);
    let of_folder = asked(&["release", "info", "out", "-o", "name"]);
    assert_eq!((of_folder.code, &of_folder.stdout), (0, &of_archive.stdout));
    assert!(of_archive.stdout.lines().any(|name| name == "etcd"));
    let version = asked(&["release", "info", "layout:4.18.54", "-o", "template={{.metadata.version}} {{len .references.spec.tags}}"]);
    assert!(version.stdout.starts_with("4.18.54 1"), "{}{}", version.stdout, version.stderr);

    let mut plan = command();
    plan.args(["release", "plan", "layout:4.18.54", "out", "-o", "json"]).current_dir(place.path());
    let plan = run(&mut plan);
    assert_eq!((plan.code, plan.stderr.as_str()), (0, ""));
    let plan: Value = serde_json::from_str(&plan.stdout).unwrap();
    assert_eq!((&plan["from"], &plan["to"], &plan["isOffered"]), (&json!("4.18.54"), &json!("4.19.44"), &json!(true)));
    assert!(plan["summary"]["updated"].as_u64().unwrap() > 100, "{}", plan["summary"]);
    let mut table = command();
    table.args(["release", "plan", "layout:4.18.54", "layout:4.19.44", "--fields"]).current_dir(place.path());
    let table = run(&mut table);
    assert!(table.stdout.starts_with("Update from 4.18.54 to 4.19.44\n"), "{:.300}", table.stdout);
    assert!(table.stdout.contains("at operator 4.19.44"), "{:.3000}", table.stdout);

    std::fs::create_dir(place.path().join("linked")).unwrap();
    std::os::unix::fs::symlink("/dev/null", place.path().join("linked/release-metadata")).unwrap();
    let linked = asked(&["release", "extract", "layout:4.19.44", "--to", "linked"]);
    assert_eq!((linked.code, linked.stderr.as_str()), (1, "error: linked/release-metadata is a link; nothing is written through it\n"));

    let image = layout.image(Some("4.19.44"), &mainstay_oci::Platform::default()).unwrap();
    std::fs::write(layout.store().path(&image.manifest.layers[0].digest), "changed").unwrap();
    let tampered = asked(&["release", "extract", "layout:4.19.44", "--to", "none"]);
    assert_eq!(tampered.code, 1);
    assert_eq!(tampered.stderr, "error: the release image failed content verification and may have been tampered with\n");
    assert_eq!(std::fs::read_dir(place.path().join("none")).unwrap().count(), 0);
}
