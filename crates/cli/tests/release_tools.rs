//! `adm release extract --tools` and `--command`, from a release of its own and from its mirror; `gpg` and `sha256sum` check what was written.

use std::path::Path;
use std::process::{Command, Stdio};

use mainstay_oci::ImageBuilder;
use serde_json::json;

use crate::common::Run;
use crate::release_new::Scene;

/// The host that the images are of; nothing answers there.
const ELSEWHERE: &str = "release.invalid";

/// A program with room for what names its release.
fn program(name: &str) -> Vec<u8> {
    let room = |word: &str, room: usize| format!("\0_RELEASE_{word}_LOCATION_\0{}\0", "X".repeat(room));
    format!("{name}{}{}{}end", room("IMAGE", 300), room("VERSION", 64), room("ARCHITECTURE", 64)).into_bytes()
}

/// A release with programs, whose images are found by a mirror alone.
fn release(scene: &Scene) -> String {
    let images = [
        ("cli", ImageBuilder::new().file("usr/bin/oc", program("oc"))),
        ("installer", ImageBuilder::new().file("usr/bin/openshift-install", program("installer"))),
        (
            "cli-artifacts",
            ImageBuilder::new()
                .file("usr/share/openshift/linux_amd64/oc", program("oc of linux"))
                .file("usr/share/openshift/mac/oc", program("oc of mac"))
                .file("usr/share/openshift/windows/oc.exe", program("oc of windows")),
        ),
    ];
    let images = images.map(|(name, image)| {
        let digest = scene.push(name, &image, "2026-03-03T00:00:00Z");
        let digest = digest.rsplit('@').next().unwrap();
        format!("{name}={ELSEWHERE}/c/{name}@{digest}")
    });
    mirrors(scene, "c", &format!("{}/c", scene.host));
    let base = format!("base={}/c/base:1", scene.host);
    let mut words = vec!["new", "--to-image-base-tag", "base", "--name", "4.20.0", "--include", "cli,cli-artifacts,installer", &base];
    words.extend(images.iter().map(String::as_str));
    words.extend(["--to-image", "HOST/r/release", "--idms-file", "c.yaml"]);
    let made = scene.release(&words);
    assert_eq!(made.code, 0, "{}", made.stderr);
    made.stdout.split(' ').next().unwrap().to_owned()
}

/// Writes a file that says where images of repositories below `c` are.
fn mirrors(scene: &Scene, file: &str, place: &str) {
    let mirror = |name: &str| {
        let place = if file == "c" { format!("{place}/{name}") } else { place.to_owned() };
        json!({"source": format!("{ELSEWHERE}/c/{name}"), "mirrors": [place]})
    };
    let mirrors = ["cli", "installer", "cli-artifacts"].map(mirror);
    let set = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ImageDigestMirrorSet", "metadata": {"name": "m"}, "spec": {"imageDigestMirrors": mirrors},
    });
    std::fs::write(scene.path(&format!("{file}.yaml")), set.to_string()).unwrap();
}

fn gpg(home: &Path, words: &[&str]) -> Run {
    let mut command = Command::new("gpg");
    command.arg("--homedir").arg(home).args(["--batch", "--pinentry-mode", "loopback"]).args(words);
    crate::common::run(command.stdin(Stdio::null()))
}

fn names(folder: &str) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// CVO-RELX-02, CVO-RELM-01: one program that knows its release; without the mirror it is not found; from another mirror it names that.
#[test]
fn one_program() {
    let scene = Scene::new();
    let digest = release(&scene);
    let extract = |image: &str, mirrors: &[&str], to: &str| {
        let words = ["extract", image, "--command", "openshift-install", "--command-os", "linux/amd64", "--to", to];
        scene.release(&[&words[..], mirrors].concat())
    };
    let lost = extract("HOST/r/release:4.20.0", &[], "none");
    assert!(lost.code == 1 && lost.stderr.contains(ELSEWHERE), "{}", lost.stderr);
    let done = extract("HOST/r/release:4.20.0", &["--idms-file", "c.yaml"], "bin");
    assert_eq!(done.code, 0, "{}", done.stderr);
    let written = std::fs::read(scene.path("bin/openshift-install")).unwrap();
    assert!(
        written.starts_with(format!("installer{}/r/release@{digest}\0", scene.host).as_bytes()),
        "{}",
        String::from_utf8_lossy(&written)
    );
    assert_eq!(written.len(), program("installer").len());

    let all = format!("{}/m/all", scene.host);
    let mirrored = scene.release(&["mirror", "HOST/r/release:4.20.0", "--to", &all, "--idms-file", "c.yaml"]);
    assert_eq!(mirrored.code, 0, "{}", mirrored.stderr);
    mirrors(&scene, "m", &all);
    let done = extract("HOST/m/all:4.20.0-x86_64", &["--idms-file", "m.yaml"], "bin");
    assert_eq!(done.code, 0, "{}", done.stderr);
    let again = std::fs::read(scene.path("bin/openshift-install")).unwrap();
    assert!(again.starts_with(format!("installer{all}@{digest}\0").as_bytes()), "{}", String::from_utf8_lossy(&again));
    assert!(!String::from_utf8_lossy(&again).contains("\0_RELEASE_"), "every place is filled in");
}

/// CVO-RELX-02: all programs as archives with their checksums, signed with a key that has a passphrase; a key that is not opened writes nothing.
#[test]
fn all_programs_signed() {
    let scene = Scene::new();
    let _digest = release(&scene);
    let home = tempfile::tempdir().unwrap();
    let Ok(_) = Command::new("gpg").arg("--version").output() else {
        eprintln!("skipped: gpg is not installed");
        return;
    };
    let made =
        gpg(home.path(), &["--passphrase", "open sesame", "--quick-generate-key", "a <a@example.com>", "default", "default", "never"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let key = gpg(home.path(), &["--passphrase", "open sesame", "--armor", "--export-secret-keys"]);
    for (file, content) in [("key.asc", key.stdout.as_str()), ("right", "open sesame\n"), ("wrong", "open\n")] {
        std::fs::write(scene.path(file), content).unwrap();
    }
    let words = ["extract", "HOST/r/release:4.20.0", "--tools", "--command-os", "*", "--to", "tools", "--idms-file", "c.yaml"];
    let extract = |more: &[&str]| scene.release(&[&words[..], &["--signing-key", "key.asc"], more].concat());
    let unasked = extract(&[]);
    assert!(unasked.code == 2 && unasked.stderr.contains("no terminal to ask for its passphrase"), "{} {}", unasked.code, unasked.stderr);
    let wrong = extract(&["--signing-key-passphrase-file", "wrong"]);
    assert!(wrong.code == 1 && wrong.stderr.contains("the passphrase does not open the key"), "{} {}", wrong.code, wrong.stderr);
    assert!(!Path::new(&scene.path("tools")).exists());

    let done = extract(&["--signing-key-passphrase-file", "right"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let expected = [
        "openshift-client-linux-4.20.0.tar.gz",
        "openshift-client-mac-4.20.0.tar.gz",
        "openshift-client-windows-4.20.0.zip",
        "openshift-install-linux-4.20.0.tar.gz",
        "release.txt",
        "sha256sum.txt",
        "sha256sum.txt.asc",
    ];
    assert_eq!(names(&scene.path("tools")), expected, "{}", done.stderr);
    let verified = gpg(home.path(), &["--verify", &scene.path("tools/sha256sum.txt.asc"), &scene.path("tools/sha256sum.txt")]);
    assert!(verified.code == 0 && verified.stderr.contains("Good signature"), "{}", verified.stderr);
    let mut check = Command::new("sha256sum");
    let sums = crate::common::run(check.args(["--check", "--strict", "sha256sum.txt"]).current_dir(scene.path("tools")));
    assert_eq!((sums.code, sums.stdout.lines().count()), (0, expected.len() - 2), "{}", sums.stderr);
    crate::common::run(Command::new("gpgconf").arg("--homedir").arg(home.path()).args(["--kill", "all"]));
}

/// CVO-RELX-02, CVO-RELI-02, CVO-RELM-01: what `oc` has and this program has not is refused in words that say why.
#[test]
fn what_is_not_offered() {
    let scene = Scene::new();
    let refused = |words: &[&str], says: &str| {
        let run = scene.release(words);
        assert!(run.code == 1 && run.stderr.contains(says), "{words:?}: {} {}", run.code, run.stderr);
    };
    refused(&["info", "HOST/c/base:1", "--rpmdb", "--rpmdb-cache", "d"], "--rpmdb-image are not offered");
    refused(&["info", "HOST/c/base:1", "--skip-verification"], "--skip-verification is not offered");
    refused(&["mirror", "HOST/c/base:1", "--to-image-stream", "s"], "--to-image-stream is not offered");
    refused(&["extract", "HOST/c/base:1", "--certificate-authority", "absent.pem"], "absent.pem");
}
