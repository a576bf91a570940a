//! `adm release mirror` between registries in this process, and through a directory.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;

use crate::common::{Run, command, run};
use jiff::Timestamp;
use mainstay_oci::registry::Registry;
use mainstay_oci::{Client, ClientConfig, Reference};
use mainstay_release_samples::{Published, SigningKey, Target, publish};
use tokio::runtime::Runtime;

/// Two registries, the sample releases in the first, and their signatures.
struct Scene {
    runtime: Runtime,
    client: Client,
    target: Registry,
    hosts: [String; 2],
    releases: Vec<Published>,
    folder: tempfile::TempDir,
    source: tokio::task::JoinHandle<()>,
}

impl Scene {
    fn new() -> Self {
        let (runtime, folder) = (Runtime::new().unwrap(), tempfile::tempdir().unwrap());
        let serve = |registry: &Registry| {
            let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
            let host = listener.local_addr().unwrap().to_string();
            let registry = registry.clone();
            let task = runtime.spawn(async move {
                registry.serve(listener, std::future::pending()).await.unwrap();
            });
            (host, task)
        };
        let target = Registry::in_memory();
        let ((from, source), (to, _)) = (serve(&Registry::in_memory()), serve(&target));
        let client = Client::new(ClientConfig::default()).unwrap();
        let at = |repository: &str| Reference::parse(&format!("{from}/sample/{repository}")).unwrap();
        let place = Target::Registry { client: &client, releases: at("release"), components: at("components") };
        let (key, signatures, payloads) =
            (SigningKey::generate().unwrap(), folder.path().join("signatures"), folder.path().join("releases"));
        let store = format!("file://{}", signatures.display());
        let publishing = publish(&place, &key, &store, &payloads, &signatures, Timestamp::now());
        let releases = runtime.block_on(publishing).unwrap();
        drop(place);
        Self { client, target, hosts: [from, to], releases, folder, source, runtime }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn mirror(&self, words: &[&str]) -> Run {
        run(command().env("HOME", self.folder.path()).args(["adm", "release", "mirror"]).args(words))
    }

    fn to(&self, repository: &str) -> String {
        format!("{}/{repository}", self.hosts[1])
    }

    /// The digest of a tag at the target; none if there is none.
    fn digest(&self, image: &str) -> Option<String> {
        let resolved = self.runtime.block_on(self.client.resolve(&Reference::parse(image).unwrap()));
        resolved.ok().map(|resolved| resolved.digest.to_string())
    }
}

fn only_file(folder: &str) -> (String, Vec<u8>) {
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let file = files.remove(0);
    (file.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(file).unwrap())
}

/// CVO-RELM-01..03, CVO-RELM-05, CVO-RELM-06: a release goes to a registry under its tags and with its digests; a dry run copies nothing, and a
/// second run nothing more; the signatures are verified and written.
#[test]
fn to_a_registry() {
    let scene = Scene::new();
    let (release, to, signatures) = (&scene.releases[0], scene.to("ocp/release"), scene.path("out"));
    let words = [release.image.as_str(), "--to", &to, "--release-image-signature-to-dir", &signatures];

    let dry = scene.mirror(&[&words[..], &["--dry-run"]].concat());
    assert_eq!((dry.code, scene.target.counts().manifest_writes, Path::new(&signatures).exists()), (0, 0, false), "{}", dry.stderr);
    let done = scene.mirror(&words);
    assert_eq!(done.code, 0, "{}\n{}", done.stdout, done.stderr);
    assert!(!done.stderr.contains("warning"), "{}", done.stderr);
    assert!(done.stdout.contains(&format!("\nSuccess\nUpdate image:  {to}:4.18.1-x86_64\nMirror prefix: {to}\n")), "{}", done.stdout);
    assert!(done.stdout.contains("kind: ImageDigestMirrorSet") && !done.stdout.contains("ImageContentSourcePolicy"), "{}", done.stdout);
    let copied: Vec<(&str, &str)> =
        done.stdout.lines().take_while(|line| !line.is_empty()).map(|line| line.split_once(' ').unwrap()).collect();
    assert_eq!((copied.len(), copied[0]), (5, (release.digest.as_str(), format!("{to}:4.18.1-x86_64").as_str())));
    for (digest, image) in copied {
        assert_eq!(scene.digest(image).as_deref(), Some(digest), "{image}");
    }
    let (name, content) = only_file(&signatures);
    assert_eq!(name, format!("signature-sha256-{}.json", &release.digest.hex()[..16]));
    let object: serde_json::Value = serde_json::from_slice(&content).unwrap();
    assert_eq!(object["metadata"]["name"], format!("sha256-{}", release.digest.hex()));

    let before = scene.target.counts();
    let again = scene.mirror(&[&words[..], &["--print-mirror-instructions", "none"]].concat());
    let after = scene.target.counts();
    assert_eq!((again.code, again.stdout.contains("kind:")), (0, false), "{}", again.stderr);
    assert_eq!((after.blob_writes, after.manifest_writes), (before.blob_writes, before.manifest_writes));
    let older = scene.mirror(&[&release.image, "--to", &to, "--print-mirror-instructions=icsp", "--dry-run"]);
    assert!(older.stdout.contains("kind: ImageContentSourcePolicy"), "{}", older.stdout);
}

/// CVO-RELM-04, CVO-RELM-06, CVO-SIG-12: through a directory the result is the same, although neither the source nor a store can be reached.
#[test]
fn through_a_directory() {
    let scene = Scene::new();
    let (directory, to, signatures) = (scene.path("mirror"), scene.to("air/gap"), scene.path("out"));
    for release in &scene.releases[..2] {
        let kept = scene.mirror(&[&release.image, "--to-dir", &directory]);
        assert_eq!(kept.code, 0, "{}", kept.stderr);
    }
    scene.source.abort();
    std::fs::remove_dir_all(scene.path("signatures")).unwrap();

    let several = scene.mirror(&["--from-dir", &directory, "--to", &to]);
    assert_eq!(several.code, 1);
    assert!(several.stderr.contains("holds 2 releases; name one with --from:\n  openshift/release:4.18.1-x86_64\n"), "{}", several.stderr);
    let words = [
        "--from-dir",
        &directory,
        "--from",
        "openshift/release:4.18.2-x86_64",
        "--to",
        &to,
        "--release-image-signature-to-dir",
        &signatures,
    ];
    let done = scene.mirror(&words);
    assert_eq!(done.code, 0, "{}\n{}", done.stdout, done.stderr);
    assert_eq!(scene.digest(&format!("{to}:4.18.2-x86_64")).as_deref(), Some(scene.releases[1].digest.as_str()));
    assert_eq!(done.stdout.lines().filter(|line| line.starts_with("sha256:")).count(), 5);
    assert!(done.stdout.contains(&format!("source: {}/sample/release\n", scene.hosts[0])), "{}", done.stdout);
    let (name, content) = only_file(&signatures);
    assert_eq!(content, std::fs::read(Path::new(&directory).join("config").join(name)).unwrap());
}

/// CVO-RELM-05: a release without a valid signature is told, and nothing is copied when its signatures are asked for.
#[test]
fn without_signatures() {
    let scene = Scene::new();
    std::fs::remove_dir_all(scene.path("signatures")).unwrap();
    let (image, to) = (&scene.releases[0].image, scene.to("ocp/release"));
    let refused = scene.mirror(&[image, "--to", &to, "--release-image-signature-to-dir", &scene.path("out")]);
    assert_eq!((refused.code, scene.target.counts().manifest_writes), (1, 0));
    assert!(
        refused.stderr.contains("warning: An image was retrieved that failed verification: unable to verify sha256:"),
        "{}",
        refused.stderr
    );
    assert!(refused.stderr.ends_with("error: failed to retrieve cached signatures\n"), "{}", refused.stderr);
    assert_eq!(scene.mirror(&[image, "--to", &to]).code, 0);
}

/// CVO-RELM-03: content that changed in a directory is not copied; the same command goes on when it is there again.
#[test]
fn changed_content() {
    let scene = Scene::new();
    let (directory, to) = (scene.path("mirror"), scene.to("ocp/release"));
    assert_eq!(scene.mirror(&[&scene.releases[0].image, "--to-dir", &directory]).code, 0);
    let component =
        mainstay_oci::Layout::open(&directory).unwrap().names().unwrap()["openshift/release:4.18.1-x86_64-console-operator"].clone();
    let blobs = Path::new(&directory).join("blobs/sha256");
    let manifest: serde_json::Value = serde_json::from_slice(&std::fs::read(blobs.join(component.digest.hex())).unwrap()).unwrap();
    let layer = blobs.join(manifest["layers"][0]["digest"].as_str().unwrap().trim_start_matches("sha256:"));
    let content = std::fs::read(&layer).unwrap();
    let mut changed = content.clone();
    *changed.last_mut().unwrap() ^= 1;
    std::fs::write(&layer, changed).unwrap();
    let words = ["--from-dir", &directory, "--to", &to];

    let failed = scene.mirror(&words);
    assert_eq!(failed.code, 1, "{}", failed.stdout);
    assert!(failed.stderr.contains("1 of 5 images could not be mirrored; the same command goes on where it stopped"), "{}", failed.stderr);
    let image = format!("{to}:4.18.1-x86_64-console-operator");
    assert_eq!(scene.digest(&image), None);
    std::fs::write(&layer, content).unwrap();
    let before = scene.target.counts().manifest_writes;
    assert_eq!(scene.mirror(&words).code, 0);
    assert_eq!(scene.digest(&image).as_deref(), Some(component.digest.as_str()));
    assert_eq!(scene.target.counts().manifest_writes - before, 2, "by digest and by tag");
}
