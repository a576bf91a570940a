//! The pull requests between two releases, as `oc adm release info --changelog` shows them.

use mainstay_release::commits::{Location, Merging, bugs, read_log};
use mainstay_release::info::{Difference, History, Info, bugs_json};
use mainstay_release::{Blob, Files, ReleaseImage};
use serde_json::{Value, json};

fn tag(name: &str, digest: &str, repository: &str, commit: &str) -> Value {
    json!({"name": name, "from": {"kind": "DockerImage", "name": format!("q.test/{name}@sha256:{digest}")},
        "annotations": {"io.openshift.build.source-location": repository, "io.openshift.build.commit.id": commit,
            "io.openshift.build.versions": if name == "kube" { "kubernetes=1.3".to_owned() + digest + ".0" } else { String::new() }}})
}

#[allow(clippy::needless_pass_by_value, reason = "they are written where they are given")]
fn files(version: &str, tags: Vec<Value>) -> Files {
    let mut files = Files::default();
    let references = json!({"kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "spec": {"tags": tags},
        "metadata": {"name": version, "creationTimestamp": "2026-01-02T03:04:05Z", "annotations": {"release.openshift.io/from-release": "ci.test/release:1"}}});
    files.add("release-manifests/image-references", references.to_string().into_bytes()).unwrap();
    let metadata = json!({"kind": "cincinnati-metadata-v0", "version": version});
    files.add("release-manifests/release-metadata", metadata.to_string().into_bytes()).unwrap();
    files
}

fn image(digest: &str) -> ReleaseImage {
    let blob = Blob { media_type: String::new(), digest: digest.to_owned(), size: 1 };
    ReleaseImage {
        listed: digest.to_owned(),
        digest: digest.to_owned(),
        media_type: String::new(),
        layers: Vec::new(),
        config_blob: blob,
        config: json!({}),
    }
}

const GITHUB: &str = "https://github.com/acme/kube";
const OTHER: &str = "https://git.test/acme/tool";
const A: &str = "aaaaaaaaaaaaaaaa";
const B: &str = "bbbbbbbbbbbbbbbb";

fn history(difference: &Difference<'_>) -> History {
    let entry = |hash: &str, number: u32, body: &str| {
        format!("{hash} parent\u{1e}1700000000\u{1e}Merge pull request #{number} from me/x\u{1e}{body}")
    };
    let log = [entry("1111111111", 7, "Bug 12: Repair <it>"), entry("2222222222", 6, "OCPBUGS-3,ABC-4: Do it")].join("\0");
    let merges = read_log(&log, Merging::Merge).unwrap();
    let changes =
        difference.code_changes().into_iter().map(|change| (change.clone(), Location::parse(&change.repository).unwrap(), merges.clone()));
    History { changes: changes.collect() }
}

/// CVO-RELI-03: Markdown and JSON of every kind of change: components, new, removed, rebuilt and changed images; each change of code once.
#[test]
fn every_kind_of_change() {
    let old = files(
        "4.19.1",
        vec![
            tag("kube", "1", GITHUB, A),
            tag("kube-more", "2", GITHUB, A),
            tag("tool", "3", OTHER, A),
            tag("same", "4", GITHUB, A),
            tag("rebuilt", "5", GITHUB, A),
            tag("removed", "6", "", ""),
        ],
    );
    let new = files(
        "4.19.2",
        vec![
            tag("kube", "2", GITHUB, B),
            tag("kube-more", "9", GITHUB, B),
            tag("tool", "8", OTHER, B),
            tag("same", "4", GITHUB, A),
            tag("rebuilt", "7", GITHUB, A),
            tag("added", "a", GITHUB, B),
        ],
    );
    let (from, to) = (image("sha256:01"), image("sha256:02"));
    let (old, new) = (Info::read("old", &old, Some(&from)).unwrap(), Info::read("new", &new, Some(&to)).unwrap());
    let difference = Difference::new(&old, &new);
    let changes: Vec<String> =
        difference.code_changes().iter().map(|change| format!("{} {}", change.repository, change.images.join(","))).collect();
    assert_eq!(changes, [format!("{GITHUB} kube,kube-more"), format!("{OTHER} tool")]);

    let history = history(&difference);
    let expected = "# 4.19.2\n\nCreated: 2026-01-02 03:04:05 +0000 UTC\n\nImage Digest: `sha256:02`\n\nPromoted from ci.test/release:1\n\n\n## Changes from \
        4.19.1\n\n### Components\n\n* Kubernetes upgraded from 1.31.0 to 1.32.0\n\n\n### New images\n\n* [added](https://github.com/acme/kube) git \
        [bbbbbbbb](https://github.com/acme/kube/commit/bbbbbbbbbbbbbbbb) `sha256:a`\n\n\n### Removed images\n\n* removed\n\n\n### Rebuilt images without \
        code change\n\n* [rebuilt](https://github.com/acme/kube) git [aaaaaaaa](https://github.com/acme/kube/commit/aaaaaaaaaaaaaaaa) `sha256:7`\n\n\n### \
        [kube, kube-more](https://github.com/acme/kube/tree/bbbbbbbbbbbbbbbb)\n\n* [Bug 12](https://bugzilla.redhat.com/show_bug.cgi?id=12): Repair \
        &lt;it&gt; [#7](https://github.com/acme/kube/pull/7)\n* [ABC-4](https://issues.redhat.com/browse/ABC-4), \
        [OCPBUGS-3](https://issues.redhat.com/browse/OCPBUGS-3): Do it [#6](https://github.com/acme/kube/pull/6)\n* [Full \
        changelog](https://github.com/acme/kube/compare/aaaaaaaaaaaaaaaa...bbbbbbbbbbbbbbbb)\n\n\n### tool\n\n* [Bug \
        12](https://bugzilla.redhat.com/show_bug.cgi?id=12): Repair &lt;it&gt; [#7](https://git.test/acme/tool/pull/7)\n* \
        [ABC-4](https://issues.redhat.com/browse/ABC-4), [OCPBUGS-3](https://issues.redhat.com/browse/OCPBUGS-3): Do it \
        [#6](https://git.test/acme/tool/pull/6)\n* https://git.test/acme/tool from aaaaaaaa to bbbbbbbb\n\n\n";
    assert_eq!(difference.changelog(&history), expected);

    let json: Value = serde_json::from_str(&difference.changelog_json(&history)).unwrap();
    assert_eq!(
        json["to"],
        json!({"name": "4.19.2", "created": "2026-01-02T03:04:05Z", "digest": "sha256:02", "promotedFrom": "ci.test/release:1"})
    );
    assert_eq!(json["components"], json!([{"name": "Kubernetes", "version": "1.32.0", "from": "1.31.0"}]));
    assert_eq!(json["removedImages"], json!([{"name": "removed", "path": ""}]));
    assert_eq!(
        json["newImages"][0],
        json!({"name": "added", "path": GITHUB, "shortCommit": "bbbbbbbb", "commit": B, "imageRef": "sha256:a"})
    );
    assert_eq!(json["rebuiltImages"][0]["name"], "rebuilt");
    let first = &json["updatedImages"][0];
    assert_eq!((&first["name"], &first["fullChangeLog"]), (&json!("kube, kube-more"), &json!(format!("{GITHUB}/compare/{A}...{B}"))));
    let commit = json!({"bugs": {"12": "https://bugzilla.redhat.com/show_bug.cgi?id=12"}, "subject": "Repair &lt;it&gt;", "pullID": 7,
        "pullURL": "https://github.com/acme/kube/pull/7", "commitDate": "2023-11-14T22:13:20Z"});
    assert_eq!(first["commits"][0], commit);

    let found = bugs(history.changes.iter().flat_map(|(_, _, merges)| merges));
    let list: Value = serde_json::from_str(&bugs_json(&found)).unwrap();
    assert_eq!(
        list,
        json!([{"id": "12", "status": "", "priority": "", "summary": "", "source": 0}, {"id": "OCPBUGS-3", "status": "", "priority": "", "summary": "", "source": 1}])
    );
}
