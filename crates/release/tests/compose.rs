//! New releases, from what images and folders bring to what a cluster loads.

use std::collections::{BTreeMap, BTreeSet};

use mainstay_release::compose::{ComposeError, Composed, Description, Inputs, Mappings, Operator, ReferenceMode, Rules, compose, prune};
use mainstay_release::info::Info;
use mainstay_release::{Folder, Load, Payload};
use serde_json::{Map, Value, json};

fn references(tags: &[(&str, &str)]) -> Value {
    let tags = tags.iter().map(|(name, image)| json!({"name": name, "from": {"kind": "DockerImage", "name": image}}));
    json!({"kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "metadata": {"name": "old", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"tags": tags.collect::<Vec<_>>()}})
}

fn operator(name: &str, files: &[(&str, String)]) -> Operator {
    Operator { name: name.to_owned(), files: files.iter().map(|(file, text)| ((*file).to_owned(), text.clone().into_bytes())).collect() }
}

fn config_map(name: &str, value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: n\ndata:\n  value: {value}\n")
}

fn list(images: &[(&str, &str)]) -> String {
    references(images).to_string()
}

/// Two operators, an image that both mention, and one that none mentions.
fn scene() -> (Inputs, Vec<Operator>) {
    let images = [
        ("web-operator", "q.test/web-operator@sha256:01"),
        ("api-operator", "q.test/api-operator@sha256:02"),
        ("proxy", "q.test/proxy@sha256:03"),
        ("unused", "q.test/unused@sha256:04"),
    ];
    let mut inputs = Inputs::of_references(&references(&images), &BTreeSet::new());
    let labels = BTreeMap::from([
        ("io.openshift.build.commit.id", "abc"),
        ("io.openshift.build.versions", "kubernetes=1.32.1+x"),
        ("io.openshift.build.version-display-names", "kubernetes=Kubernetes"),
    ]);
    inputs.looked_at("proxy", "q.test/proxy@sha256:03".to_owned(), &labels);
    let operators = vec![
        operator(
            "web-operator",
            &[
                ("image-references", list(&[("proxy", "placeholder.test/proxy"), ("web-operator", "placeholder.test/web:v1")])),
                (
                    "10_deploy.yaml",
                    config_map("web", "\"placeholder.test/proxy:latest placeholder.test/web:v1 0.0.1-snapshot 0.0.1-snapshot-kubernetes\""),
                ),
                ("0000_30_first.yaml", config_map("first", "plain")),
                ("note.txt", "0.0.1-snapshot".to_owned()),
            ],
        ),
        operator(
            "api-operator",
            &[("0000_30_first.yaml", config_map("other", "0.0.1-snapshot")), ("empty.yaml", "# nothing\n".to_owned())],
        ),
    ];
    (inputs, operators)
}

fn description(name: &str) -> Description {
    Description::new(name, &["4.19.9".to_owned()], &[], Map::new()).unwrap()
}

fn made(inputs: &mut Inputs, operators: Vec<Operator>, rules: &Rules) -> Result<Composed, ComposeError> {
    prune(inputs, &operators, rules)?;
    compose(inputs, operators, &description("4.20.0"), rules)
}

fn text(composed: &Composed, name: &str) -> String {
    String::from_utf8(composed.files.release(name).unwrap().to_vec()).unwrap()
}

/// CVO-RELN-02, CVO-RELN-03: names, numbers behind equal names, pull specs and versions; images that nothing mentions are dropped, tags are
/// sorted; what comes out is a release that clusters load and `info` shows.
#[test]
fn a_release_is_made() {
    let (mut inputs, operators) = scene();
    let composed = made(&mut inputs, operators, &Rules::default()).unwrap();
    let names: Vec<&str> = composed.files.in_folder(Folder::Release).map(|(name, _)| name).collect();
    let expected = [
        "0000_30_first.yaml",
        "0000_30_first_2.yaml",
        "0000_50_api-operator_empty.yaml",
        "0000_50_web-operator_10_deploy.yaml",
        "0000_50_web-operator_note.txt",
        "image-references",
        "release-metadata",
    ];
    assert_eq!((names.as_slice(), composed.operators, composed.notes.len()), (&expected[..], 2, 0));
    let value = "value: \"q.test/proxy@sha256:03 q.test/web-operator@sha256:01 4.20.0 1.32.1\"";
    assert!(text(&composed, "0000_50_web-operator_10_deploy.yaml").contains(value));
    // The operators are taken in the order of their names.
    assert!(
        text(&composed, "0000_30_first.yaml").contains("name: other") && text(&composed, "0000_30_first.yaml").contains("value: 4.20.0")
    );
    assert_eq!(text(&composed, "0000_50_web-operator_note.txt"), "4.20.0");

    let load = Load {
        image: "r.test/release@sha256:00",
        profile: "self-managed-high-availability",
        exclude_identifier: "",
        feature_set: "",
        known_capabilities: None,
        place: "made",
    };
    let payload = Payload::load(&composed.files, load).unwrap();
    let tags: Vec<&str> = payload.references.images.iter().map(|image| image.name.as_str()).collect();
    assert_eq!(tags, ["api-operator", "proxy", "web-operator"]);
    assert_eq!(
        (payload.metadata.previous.as_slice(), payload.references.created.as_deref()),
        (&["4.19.9".to_owned()][..], Some("2026-01-01T00:00:00Z"))
    );
    let info = Info::read("made", &composed.files, None).unwrap();
    assert_eq!((info.name(), info.components["kubernetes"].version.as_str()), ("4.20.0", "1.32.1"));
    assert!(text(&composed, "image-references").contains("\"generation\": null,\n        \"importPolicy\": {}"), "in upstream's form");
}

/// CVO-RELN-03: the same inputs give the same bytes in whatever order they come; the time is that of the newest of them.
#[test]
fn the_same_again() {
    let bytes = |composed: &Composed| -> Vec<(String, Vec<u8>)> {
        composed.files.in_folder(Folder::Release).map(|(name, content)| (name.to_owned(), content.to_vec())).collect()
    };
    let (mut inputs, mut operators) = scene();
    let first = made(&mut inputs, operators.clone(), &Rules::default()).unwrap();
    operators.reverse();
    let (mut inputs, _) = scene();
    assert_eq!(bytes(&made(&mut inputs, operators.clone(), &Rules::default()).unwrap()), bytes(&first));
    for time in ["2025-01-01T00:00:00Z", "nothing", "2026-02-02T03:04:05.678Z", "2026-02-01T00:00:00Z"] {
        inputs.note_time(Some(time));
    }
    assert_eq!(inputs.created().to_string(), "2026-02-02T03:04:05Z");
    assert_eq!(Inputs::default().created().to_string(), "1970-01-01T00:00:00Z");
}

/// CVO-RELN-01: excluded images, images that the user named, those that are to stay, and versions that no image tells.
#[test]
fn wishes() {
    let exclude = BTreeSet::from(["web-operator".to_owned(), "gone".to_owned()]);
    let all =
        references(&[("web-operator", "q.test/web@sha256:01"), ("proxy", "q.test/proxy@sha256:03"), ("unused", "q.test/unused@sha256:04")]);
    let mut inputs = Inputs::of_references(&all, &exclude);
    let mut mappings = Mappings::default();
    for word in ["proxy=m.test/proxy:1", "new=m.test/new:1", "gone=m.test/gone:1"] {
        mappings.add(word).unwrap();
    }
    inputs.name_images(mappings.all(), &exclude);
    inputs.component_versions("crio=1.30.0", "");
    inputs.from_release("q.test/release:1");
    assert!(inputs.is_override("proxy") && !inputs.is_override("unused"));
    let operators = vec![operator(
        "new",
        &[
            ("image-references", list(&[("proxy", "placeholder.test/proxy"), ("web-operator", "placeholder.test/web")])),
            ("a.yaml", config_map("a", "0.0.1-snapshot-crio")),
        ],
    )];
    let mut rules = Rules { include: BTreeSet::from(["unused".to_owned()]), ..Rules::default() };
    let refused = made(&mut inputs.clone(), operators.clone(), &rules).unwrap_err();
    let expected = "operator \"new\" contained an invalid image-references file: no input image tag named \"web-operator\"";
    assert_eq!(refused.to_string(), expected);
    rules.allow_missing_images = true;
    let composed = made(&mut inputs, operators, &rules).unwrap();
    let list: Value = serde_json::from_str(&text(&composed, "image-references")).unwrap();
    let tags: Vec<String> = list["spec"]["tags"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tag| format!("{} {}", tag["name"].as_str().unwrap(), tag["from"]["name"].as_str().unwrap()))
        .collect();
    assert_eq!(tags, ["new m.test/new:1", "proxy m.test/proxy:1", "unused q.test/unused@sha256:04"]);
    assert_eq!(list["spec"]["tags"][0]["annotations"], json!({"io.openshift.release.override": "true"}));
    assert_eq!(
        list["metadata"]["annotations"],
        json!({"io.openshift.build.versions": "crio=1.30.0", "release.openshift.io/from-release": "q.test/release:1"})
    );
    assert!(text(&composed, "0000_50_new_a.yaml").contains("value: 1.30.0"));
}

/// CVO-RELN-01: the images of a stream; a place on the cluster is noted.
#[test]
fn of_a_stream() {
    let stream = json!({
        "kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
        "status": {"publicDockerImageRepository": "public.test/ns/is", "tags": [
            {"tag": "a", "items": [{"image": "sha256:01", "created": "2026-03-01T00:00:00Z"}]}, {"tag": "b", "items": [{"image": "sha256:02", "created": "2026-02-01T00:00:00Z"}]}]},
    });
    let inputs = Inputs::of_stream(&stream, Some(("ns", "is")), ReferenceMode::Public, &BTreeSet::from(["b".to_owned()])).unwrap();
    assert_eq!(
        (inputs.image("a"), inputs.image("b"), inputs.by_digest("sha256:01")),
        (Some("public.test/ns/is@sha256:01"), None, inputs.image("a"))
    );
    assert_eq!(inputs.created().to_string(), "2026-03-01T00:00:00Z");
    assert!(inputs.references_text("1.0.0").contains("\"release.openshift.io/from-image-stream\": \"ns/is\""));
}

/// CVO-RELN-01, CVO-RELN-02: manifests and lists that no release is made of; the message names operator and file.
#[test]
fn refusals() {
    let refused = |files: &[(&str, String)], rules: &Rules| {
        let (mut inputs, _) = scene();
        made(&mut inputs, vec![operator("proxy", files)], rules).map(drop).map_err(|error| error.to_string())
    };
    let strict = Rules::default();
    for (name, content, expected) in [
        ("a.yaml", "a: [", "proxy/a.yaml: invalid YAML/JSON: "),
        ("a.json", "[1, 2]", "proxy/a.json: not a valid YAML/JSON object, got: [1, 2]"),
        (
            "a.yaml",
            "just a text that is longer than thirty characters",
            "proxy/a.yaml: not a valid YAML/JSON object, got: just a text that is longer tha...",
        ),
        (
            "a.yml",
            "kind: ConfigMap\nmetadata: {name: a}\n",
            "proxy/a.yml: manifests must contain Kubernetes API objects with 'kind' and 'apiVersion' set",
        ),
        ("a.yaml", "apiVersion: v1\nkind: ConfigMap\n", "proxy/a.yaml: error parsing: Resource with fields Group: "),
        (
            "a.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 0.0.1-snapshot-none}\n",
            "proxy/a.yaml: unknown version reference \"none\"",
        ),
        (
            "image-references",
            "x",
            "operator \"proxy\" contained an invalid image-references file: unrecognized image-references in release payload",
        ),
    ] {
        let error = refused(&[(name, content.to_owned())], &strict).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
    let lax = Rules { skip_manifest_check: true, ..Rules::default() };
    assert_eq!(refused(&[("a.yaml", "a: [".to_owned())], &lax), Ok(()));

    let metadata = Description::metadata(r#"{"release.openshift.io/architecture": "arm64"}"#).unwrap();
    let (inputs, operators) = scene();
    let odd = Description { metadata, ..description("4.20.0") };
    let error = compose(&inputs, operators, &odd, &strict).unwrap_err().to_string();
    assert!(error.starts_with("invalid --metadata: Architecture from release-metadata (4.20.0) contains invalid value"), "{error}");
}

/// CVO-RELN-02: versions of components: two images may agree, and may not differ.
#[test]
fn versions_of_components() {
    let version = |other: &str, component: &str| {
        let mut inputs = Inputs::of_references(&references(&[("a", "q.test/a@sha256:01"), ("b", "q.test/b@sha256:02")]), &BTreeSet::new());
        for (name, version) in [("a", "1.0.0"), ("b", other)] {
            let label = format!("{component}={version}");
            inputs.looked_at(name, format!("q.test/{name}@sha256:0"), &BTreeMap::from([("io.openshift.build.versions", label.as_str())]));
        }
        let files = [
            ("image-references", list(&[("a", "x.test/a"), ("b", "x.test/b")])),
            ("c.yaml", config_map("c", &format!("0.0.1-snapshot-{component}"))),
        ];
        let made = made(&mut inputs, vec![operator("a", &files)], &Rules::default());
        made.map(|composed| text(&composed, "0000_50_a_c.yaml").contains("value: 1.0.0")).map_err(|error| error.to_string())
    };
    assert_eq!(version("1.0.0", "kubernetes"), Ok(true));
    assert_eq!(
        version("1.0.1", "kubernetes").unwrap_err(),
        "operator \"a\" contained an invalid image-references file: input image stream has multiple versions defined for version kubernetes: b defines \
         1.0.1 but was already set to 1.0.0 on a"
    );
    assert_eq!(
        version("1.0.1", "machine-os").unwrap_err(),
        "a/c.yaml: the version for \"machine-os\" is inconsistent across the referenced images: a, b"
    );
}
