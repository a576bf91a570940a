//! `adm release new` between a registry in this process, folders and files; and `adm release info --changelog` on clones.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

use std::path::Path;
use std::process::Command;

use crate::common::{Run, command, run};
use mainstay_oci::registry::Registry;
use mainstay_oci::{Client, ClientConfig, ImageBuilder, Reference};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// A registry with the images of three components, of which two bring manifests.
pub struct Scene {
    runtime: Runtime,
    client: Client,
    registry: Registry,
    pub host: String,
    pub folder: tempfile::TempDir,
}

fn config_map(name: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: default\n  annotations:\n    \
         include.release.openshift.io/self-managed-high-availability: \"true\"\ndata:\n  value: {value}\n"
    )
}

fn list(images: &[(&str, &str)]) -> String {
    let tags = images.iter().map(|(name, image)| json!({"name": name, "from": {"kind": "DockerImage", "name": image}}));
    json!({"kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "spec": {"tags": tags.collect::<Vec<_>>()}}).to_string()
}

impl Scene {
    pub fn new() -> Self {
        let (runtime, folder, registry) = (Runtime::new().unwrap(), tempfile::tempdir().unwrap(), Registry::in_memory());
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let served = registry.clone();
        runtime.spawn(async move { served.serve(listener, std::future::pending()).await.unwrap() });
        let client = Client::new(ClientConfig { insecure: true, ..ClientConfig::default() }).unwrap();
        let scene = Self { runtime, client, registry, host, folder };
        let operator = || ImageBuilder::new().label("io.openshift.release.operator", "true");
        scene.push(
            "base",
            &operator().file("manifests/0000_00_base_00_map.yaml", config_map("base", "0.0.1-snapshot").into_bytes()),
            "2026-01-01T00:00:00Z",
        );
        let references = list(&[("tool", "placeholder.test/tool"), ("web", "placeholder.test/web")]);
        let web = operator()
            .label("io.openshift.build.commit.id", "0123456789abcdef0123456789abcdef01234567")
            .label("io.openshift.build.source-location", "https://github.com/acme/web")
            .label("io.openshift.build.versions", "kubernetes=1.33.0")
            .file("manifests/image-references", references.into_bytes())
            .file("manifests/map.yaml", config_map("web", "placeholder.test/tool:v1 0.0.1-snapshot-kubernetes").into_bytes());
        scene.push("web", &web, "2026-02-02T00:00:00Z");
        scene.push("tool", &ImageBuilder::new().file("usr/bin/tool", b"tool".to_vec()), "2025-02-02T00:00:00Z");
        scene.push("unused", &ImageBuilder::new().file("x", b"x".to_vec()), "2025-02-02T00:00:00Z");
        scene
    }

    pub fn push(&self, name: &str, builder: &ImageBuilder, created: &str) -> String {
        let workspace = self.client.workspace().unwrap();
        // A component keeps its labels, so only its time is set.
        let image =
            builder.clone().platform(mainstay_oci::Platform { os: "linux".to_owned(), architecture: "amd64".to_owned(), variant: None });
        let image = image.origin(created, "component").build(workspace.store()).unwrap();
        let target = Reference::parse(&self.image(name)).unwrap();
        self.runtime.block_on(self.client.push(&image, workspace.store(), &target)).unwrap().to_string()
    }

    fn image(&self, name: &str) -> String {
        format!("{}/c/{name}:1", self.host)
    }

    pub fn release(&self, words: &[&str]) -> Run {
        let words = words.iter().map(|word| word.replace("HOST", &self.host));
        run(command().env("HOME", self.folder.path()).current_dir(self.folder.path()).args(["adm", "release"]).args(words))
    }

    /// Makes a release of all components, and returns what is printed.
    fn made(&self, words: &[&str]) -> Run {
        let images = ["base", "web", "tool", "unused"].map(|name| format!("{name}={}", self.image(name)));
        let images: Vec<&str> = images.iter().map(String::as_str).collect();
        self.release(&[&["new", "--to-image-base-tag", "base"][..], images.as_slice(), words].concat())
    }

    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }
}

/// CVO-RELN-01, CVO-RELN-02, CVO-RELN-03, CVO-RELI-02, CVO-REL-08: what `new` makes is read by `info`, `extract` and `new` itself; the same images
/// give the same digest; a dry run pushes nothing.
#[test]
fn round_trip() {
    let scene = Scene::new();
    let words = ["--name", "4.20.0", "--previous", "4.19.1", "--metadata", "{\"url\": \"https://e.test\"}"];
    let dry = scene.made(&words);
    assert_eq!(
        (dry.code, dry.stdout.split(' ').skip(1).collect::<Vec<_>>().join(" ").as_str()),
        (0, "4.20.0 2026-02-02T00:00:00Z\n"),
        "{}",
        dry.stderr
    );
    assert!(dry.stderr.contains(&format!("info: Loading override {} web", scene.image("web"))), "{}", dry.stderr);
    assert!(dry.stderr.contains("info: Included 3 images from 2 input operators into the release"), "{}", dry.stderr);
    let writes = scene.registry.counts().manifest_writes;
    let pushed = scene.made(&[&words[..], &["--to-image", "HOST/r/release", "--to-signature", &scene.path("sign.json")]].concat());
    assert_eq!((pushed.code, pushed.stdout.as_str()), (0, dry.stdout.as_str()), "{}", pushed.stderr);
    assert_eq!(scene.registry.counts().manifest_writes, writes + 1);
    let digest = pushed.stdout.split(' ').next().unwrap();
    let claim: Value = serde_json::from_str(&std::fs::read_to_string(scene.path("sign.json")).unwrap()).unwrap();
    assert_eq!(claim["critical"]["image"]["docker-manifest-digest"], digest);
    assert_eq!(claim["critical"]["identity"]["docker-reference"], format!("{}/r/release@{digest}", scene.host));

    let info = scene.release(&["info", "HOST/r/release:4.20.0", "-o", "json"]);
    let info: Value = serde_json::from_str(&info.stdout).unwrap();
    let labels = &info["config"]["config"]["Labels"];
    assert_eq!((&labels["io.openshift.release"], info["digest"].as_str()), (&json!("4.20.0"), Some(digest)));
    assert!(
        labels["io.openshift.release.base-image-digest"].as_str().unwrap().starts_with("sha256:") && labels.as_object().unwrap().len() == 2
    );
    let tags: Vec<&str> = info["references"]["spec"]["tags"].as_array().unwrap().iter().map(|tag| tag["name"].as_str().unwrap()).collect();
    assert_eq!(tags, ["base", "tool", "web"]);
    assert_eq!(
        info["metadata"],
        json!({"kind": "cincinnati-metadata-v0", "version": "4.20.0", "previous": ["4.19.1"], "metadata": {"url": "https://e.test"}})
    );
    let verified = scene.release(&["info", "HOST/r/release:4.20.0", "--verify"]);
    assert_eq!((verified.code, verified.stdout), (0, format!("{digest} 2026-02-02T00:00:00Z 4.20.0\n")), "{}", verified.stderr);
    let extracted = scene.release(&["extract", "HOST/r/release:4.20.0", "--to", "out"]);
    assert_eq!(extracted.code, 0, "{}", extracted.stderr);
    let web = std::fs::read_to_string(scene.folder.path().join("out/0000_50_web_map.yaml")).unwrap();
    assert!(web.contains("/c/tool@sha256:") && web.contains(" 1.33.0"), "{web}");

    let again = scene.release(&["new", "--from-release", "HOST/r/release:4.20.0"]);
    assert_eq!((again.code, again.stdout.as_str()), (0, pushed.stdout.as_str()), "{}", again.stderr);
    let changed = scene.release(&["new", "--from-release", "HOST/r/release:4.20.0", "--name", "4.20.1", "--to-dir", "dir"]);
    assert_eq!(changed.code, 0, "{}", changed.stderr);
    let archived = scene.release(&["new", "--from-release", "HOST/r/release:4.20.0", "--name", "4.20.1", "--to-file", "file.tar.gz"]);
    assert_eq!(archived.code, 0, "{}", archived.stderr);
    let shown = |place: &str| scene.release(&["info", place, "-o", "pullspec"]).stdout;
    assert_eq!((shown("dir").lines().count(), shown("dir")), (3, shown("file.tar.gz")));
    let order = run(command().env("HOME", scene.folder.path()).args(["release", "order", &scene.path("dir")]));
    assert!(order.code == 0 && order.stdout.contains("base,web"), "{}\n{}", order.stdout, order.stderr);
}

/// CVO-RELN-01: images of a stream, mirrored; folders of manifests; images as JSON.
#[test]
fn other_inputs() {
    let scene = Scene::new();
    let digest = |name: &str| {
        scene.runtime.block_on(scene.client.resolve(&Reference::parse(&scene.image(name)).unwrap())).unwrap().digest.to_string()
    };
    let tags = ["base", "tool", "web"].map(|name| {
        json!({"tag": name, "items": [{"image": digest(name), "dockerImageReference": scene.image(name), "created": "2026-05-05T00:00:00Z"}]})
    });
    let stream = json!({"kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "status": {"tags": tags}});
    std::fs::write(scene.path("stream.yaml"), stream.to_string()).unwrap();
    let json = scene.release(&["new", "-f", "stream.yaml", "--reference-mode", "source", "-o", "json"]);
    let images: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&images["metadata"]["name"], images["spec"]["tags"].as_array().unwrap().len()), (&json!("0.0.1-2026-05-05-000000"), 3));
    let words = ["new", "-f", "stream.yaml", "--reference-mode=source", "--name=1.0.0", "--to-image-base-tag=base"];
    let refused = scene.release(&[&words[..], &["--mirror", "HOST/m/all"]].concat());
    assert_eq!((refused.code, refused.stderr.as_str()), (1, "error: --reference-mode must be public or empty when using --mirror\n"));

    let pushed = scene.release(&[&words[..], &["--to-image", "HOST/r/release:x"]].concat());
    assert_eq!(pushed.code, 0, "{}", pushed.stderr);
    let mirrored =
        scene.release(&["new", "--from-release", "HOST/r/release:x", "--mirror", "HOST/m/all", "--to-image", "HOST/m/all:release"]);
    assert_eq!(mirrored.code, 0, "{}", mirrored.stderr);
    let specs = scene.release(&["info", "HOST/m/all:release", "--verify", "-o", "pullspec"]);
    assert_eq!(specs.code, 0, "{}", specs.stderr);
    let specs = scene.release(&["info", "HOST/m/all:release", "-o", "pullspec"]).stdout;
    assert!(specs.lines().all(|spec| spec.starts_with(&format!("{}/m/all@sha256:", scene.host))) && specs.lines().count() == 3, "{specs}");
    assert!(scene.runtime.block_on(scene.client.resolve(&Reference::parse(&format!("{}/m/all:1.0.0-web", scene.host)).unwrap())).is_ok());

    for (path, content) in
        [("in/one/map.yaml", config_map("one", "0.0.1-snapshot")), ("in/image-references", list(&[("one", "q.test/one@sha256:01")]))]
    {
        let path = scene.folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let made = scene.release(&["new", "--from-dir", "in", "--name", "2.0.0", "--to-dir", "made"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let manifest = std::fs::read_to_string(scene.folder.path().join("made/0000_50_one_map.yaml")).unwrap();
    assert!(manifest.contains("value: 2.0.0"), "{manifest}");
    let no_base = scene.release(&["new", "--from-dir", "in", "--name", "2.0.0"]);
    let expected = "error: the base image tag \"cluster-version-operator\" could not be found in the input, cannot build a release image\n";
    assert!(no_base.code == 1 && no_base.stderr.ends_with(expected), "{}", no_base.stderr);
}

/// CVO-RELN-01: what is refused, in upstream's words, before anything is written.
#[test]
fn refusals() {
    let scene = Scene::new();
    let broken = ImageBuilder::new().label("io.openshift.release.operator", "true").file("manifests/a.yaml", b"kind: [".to_vec());
    scene.push("broken", &broken, "2026-01-01T00:00:00Z");
    let broken = format!("broken={}", scene.image("broken"));
    let gone = format!("gone={}", scene.image("gone"));
    for (words, expected) in [
        (vec![], "must specify image mappings when no other source is defined"),
        (vec!["x"], "all arguments must be valid SRC=DST mappings"),
        (
            vec!["--from-dir", "a", "--from-release", "b"],
            "only one of --from-image-stream, --from-image-stream-file, --from-release, or --from-dir may be specified",
        ),
        (vec!["a=b", "--to-signature", "x"], "--to-signature requires --to-image"),
        (vec!["a=b", "--name", "4.20"], "--name must be a semantic version: No Major.Minor.Patch elements found"),
        (vec!["a=b", "--metadata", "x"], "invalid --metadata: "),
        (vec!["a=b", "--component-versions", "x"], "--component-versions is invalid: the version pair \"x\" must be NAME=VERSION"),
        (
            vec!["a=b", "--to-image", "r.test/a@sha256:0123456789012345678901234567890123456789012345678901234567890123"],
            "--to-image may only point to a repository or tag, not a digest",
        ),
        (vec![&broken, "--to-image-base-tag=", "--to-dir", "out"], "broken/a.yaml: invalid YAML/JSON: "),
        (vec![&gone, "--to-image-base-tag="], "image gone: "),
    ] {
        let refused = scene.release(&[&["new"][..], words.as_slice()].concat());
        assert_eq!(refused.code, 1, "{words:?} {}", refused.stderr);
        assert!(refused.stderr.contains(&format!("error: {expected}")), "{words:?} {}", refused.stderr);
    }
    assert!(!Path::new(&scene.path("out")).exists());
}

fn git(folder: &Path, words: &[&str]) -> String {
    let mut git = Command::new("git");
    git.current_dir(folder).args(["-c", "user.name=a", "-c", "user.email=a@a.test"]).args(words);
    let done = git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").output().unwrap();
    assert!(done.status.success(), "{words:?} {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

fn release_folder(place: &Path, version: &str, commit: &str, digest: &str) {
    let folder = place.join(version);
    std::fs::create_dir_all(&folder).unwrap();
    let references = json!({"kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "metadata": {"name": version, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"tags": [{"name": "web", "from": {"kind": "DockerImage", "name": format!("q.test/web@sha256:{digest}")},
            "annotations": {"io.openshift.build.source-location": "https://github.com/acme/web", "io.openshift.build.commit.id": commit}}]}});
    std::fs::write(folder.join("image-references"), references.to_string()).unwrap();
    std::fs::write(folder.join("release-metadata"), json!({"kind": "cincinnati-metadata-v0", "version": version}).to_string()).unwrap();
}

/// CVO-RELI-03, CVO-RELX-02: pull requests and bugs between two releases, and the source code of one, from clones that are there already: nothing is
/// fetched.
#[test]
fn source_code() {
    if Command::new("git").arg("--version").output().is_err() {
        eprintln!("skipped: there is no git");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let clone = place.path().join("clones/github.com/acme/web");
    std::fs::create_dir_all(&clone).unwrap();
    git(&clone, &["init", "--quiet", "--initial-branch=main"]);
    git(&clone, &["commit", "--quiet", "--allow-empty", "-m", "first"]);
    let old = git(&clone, &["rev-parse", "HEAD"]);
    git(&clone, &["checkout", "--quiet", "-b", "topic"]);
    std::fs::write(clone.join("code"), "x").unwrap();
    git(&clone, &["add", "code"]);
    git(&clone, &["commit", "--quiet", "-m", "work"]);
    git(&clone, &["checkout", "--quiet", "main"]);
    git(&clone, &["merge", "--quiet", "--no-ff", "-m", "Merge pull request #41 from me/topic", "-m", "OCPBUGS-7: Mend the web", "topic"]);
    let new = git(&clone, &["rev-parse", "HEAD"]);
    git(&clone, &["checkout", "--quiet", &old]);
    release_folder(place.path(), "4.19.1", &old, "01");
    release_folder(place.path(), "4.19.2", &new, "02");
    let release = |words: &[&str]| run(command().env("HOME", place.path()).current_dir(place.path()).args(["adm", "release"]).args(words));

    let told = release(&["info", "4.19.1", "./4.19.2", "--changelog", "clones"]);
    assert_eq!(told.code, 1, "a version is asked of a cluster: {}", told.stderr);
    let told = release(&["info", "./4.19.1", "./4.19.2", "--changelog", "clones"]);
    assert_eq!(told.code, 0, "{}", told.stderr);
    let line = "* [OCPBUGS-7](https://issues.redhat.com/browse/OCPBUGS-7): Mend the web [#41](https://github.com/acme/web/pull/41)\n";
    assert!(told.stdout.contains("## Changes from 4.19.1\n") && told.stdout.contains(line), "{}", told.stdout);
    let bugs = release(&["info", "--changes-from", "./4.19.1", "./4.19.2", "--bugs", "clones", "--skip-bug-check", "-o", "name"]);
    assert_eq!((bugs.code, bugs.stdout.as_str()), (0, "OCPBUGS-7\n"), "{}", bugs.stderr);

    let commits = release(&["extract", "./4.19.2", "--git", "clones", "-o", "commit"]);
    let path = clone.canonicalize().unwrap();
    assert_eq!((commits.code, commits.stdout), (0, format!("{} {new}\n", path.display())), "{}", commits.stderr);
    assert!(!clone.join("code").exists());
    let checked_out = release(&["extract", "./4.19.2", "--git", "clones"]);
    assert_eq!((checked_out.code, checked_out.stdout), (0, format!("{}\n", path.display())), "{}", checked_out.stderr);
    assert!(clone.join("code").exists());

    release_folder(place.path(), "4.19.3", "HEAD", "03");
    let odd = release(&["info", "./4.19.1", "./4.19.3", "--changelog", "clones"]);
    assert!(
        odd.code == 1 && odd.stderr.contains("error: Could not load commits for https://github.com/acme/web: commit \"HEAD\" is no hash"),
        "{}",
        odd.stderr
    );
    for (words, expected) in [
        (&["--changelog", "clones"][..], "--changelog/--bugs/--rpmdb-diff require --changes-from"),
        (&["--skip-bug-check"], "--skip-bug-check requires --bugs"),
        (
            &["--changes-from", "./4.19.1", "--bugs", "clones"],
            "--bugs does not ask trackers about bugs; add --skip-bug-check and --output name or json",
        ),
    ] {
        let refused = release(&[&["info", "./4.19.2"][..], words].concat());
        assert_eq!((refused.code, refused.stderr), (1, format!("error: {expected}\n")));
    }
}
