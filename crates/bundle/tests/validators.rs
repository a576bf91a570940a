//! The validators beside upstream's own answers (`upstream/README.md` says how those were asked).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

use std::collections::BTreeMap;
use std::path::Path;

use crate::broken::{edit, example, golden};
use crate::common;
use mainstay_bundle::validators::{self, Finding, Level, Manifests, Options, Selection};
use serde_json::Value;

fn read(files: &common::Files) -> Manifests {
    Manifests::read(files).unwrap()
}

/// The words of a text, sorted: upstream leaves the order inside some texts open.
fn words(text: &str) -> String {
    let mut words: Vec<&str> = text.split([' ', ',', '(', ')', '[', ']']).filter(|word| !word.is_empty()).collect();
    words.sort_unstable();
    words.join(" ")
}

fn sorted(texts: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut texts: Vec<String> = texts.into_iter().map(|text| words(&text)).collect();
    texts.sort_unstable();
    texts
}

/// Compares every answer about one bundle; gives the number of findings.
fn compare(name: &str, manifests: &Manifests, expected: &Value, texts: &Value, skip: &Value) -> usize {
    let options = Options::default();
    let root = "root/";
    let mut answers: BTreeMap<&str, Vec<Finding>> = BTreeMap::new();
    answers.insert("format", validators::format(manifests));
    if !answers["format"].iter().any(|finding| finding.rule.id == "format/folder") {
        answers.insert("content", validators::content(manifests, root, &[], &options));
    }
    let own = ["load", "format", "content", "multiarch", "dependencies"];
    if manifests.csv.is_some() {
        for validator in validators::VALIDATORS.iter().chain([&validators::OBJECTS]).filter(|validator| !own.contains(&validator.name)) {
            answers.insert(validator.name, validator.run(manifests, &options));
        }
    }
    let mut count = 0;
    for (validator, findings) in &answers {
        let refused = expected["load"].is_array() && !["format", "content"].contains(validator);
        if !skip[*validator].is_null() || refused {
            continue;
        }
        let indices = expected[*validator].as_array().map(Vec::as_slice).unwrap_or_default();
        let text = |index: &Value| texts[usize::try_from(index.as_u64().unwrap()).unwrap()].as_str().unwrap().to_owned();
        let fill = |text: String| text.replace("{csv}", manifests.name()).replace("{root}", root);
        let wanted = sorted(indices.iter().map(|index| fill(text(index))));
        assert_eq!(sorted(findings.iter().map(ToString::to_string)), wanted, "{name}: {validator}");
        count += wanted.len();
    }
    count
}

/// SDK-BUNDLE-22, SDK-BUNDLE-23, CATLG-48: on real bundles every validator says what upstream's says.
#[test]
fn real_bundles_get_upstreams_findings() {
    let Some(bundles) = common::bundles() else { return };
    let golden = golden("real.json");
    assert_eq!(golden["bundles"].as_object().unwrap().len(), bundles.len());
    let count: usize =
        bundles.iter().map(|(path, files)| compare(path, &read(files), &golden["bundles"][path], &golden["texts"], &Value::Null)).sum();
    assert!(count > 850, "{count} findings compared");
}

/// SDK-BUNDLE-22, SDK-BUNDLE-23, CATLG-48: a bundle broken in 170 ways gets upstream's findings.
#[test]
fn broken_bundles_get_upstreams_findings() {
    let golden = golden("broken.json");
    let mut count = 0;
    for case in golden["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let mut files = example();
        case["edits"].as_array().unwrap().iter().for_each(|change| edit(&mut files, change));
        let manifests = read(&files);
        assert_eq!(!manifests.findings.is_empty(), case["refused"] == true, "{name}: {:?}", manifests.findings);
        let mut expected = case["found"].clone();
        if case["refused"] == true {
            expected["load"] = Value::Array(Vec::new());
        }
        count += compare(name, &manifests, &expected, &golden["texts"], &case["differs"]);
    }
    assert!(count > 850, "{count} findings compared");
}

/// OLM0-BUNDLE-03: findings say file, line, rule and what would work.
#[test]
fn findings_have_a_place_and_a_fix() {
    let mut files = example();
    let csv = "manifests/beacon.clusterserviceversion.yaml";
    let text = String::from_utf8(files[csv].clone()).unwrap();
    files.insert(csv.to_owned(), text.replace("minKubeVersion: 1.25.0", "minKubeVersion: v1.25").into_bytes());
    let findings = validators::run(&read(&files), None, &Options::default());
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    let line = text.lines().position(|line| line.contains("minKubeVersion")).unwrap() + 1;
    let place = finding.place.as_ref().unwrap();
    assert_eq!((finding.validator, finding.rule.id, finding.level), ("csv", "csv/min-kube-version", Level::Error));
    assert_eq!((place.file.as_str(), place.path.as_str(), place.line), (csv, "spec.minKubeVersion", Some(line)));
    assert_eq!(place.to_string(), format!("{csv}:{line}"));
    assert!(finding.rule.fix.contains("MAJOR.MINOR.PATCH"));
}

/// SDK-BUNDLE-20, OLM0-BUNDLE-01, CATLG-70: optional validators are chosen by label; the package-manifest layout is refused.
#[test]
fn selections_and_layouts() {
    let names = |text: &str| -> Vec<&str> {
        let selection = Selection::parse(text).unwrap();
        validators::optional_validators()
            .filter(|validator| selection.matches(&validator.labels()))
            .map(|validator| validator.name)
            .collect()
    };
    assert_eq!(
        names("suite=operatorframework"),
        ["operatorhubv2", "capabilities", "categories", "alpha-deprecated-apis", "good-practices"]
    );
    assert_eq!(names("name=multiarch"), ["multiarch"]);
    assert!(names("name=nothing").is_empty());

    let flat: common::Files =
        example().into_iter().map(|(path, bytes)| (Path::new(&path).file_name().unwrap().to_str().unwrap().to_owned(), bytes)).collect();
    let texts: Vec<String> = validators::format(&read(&flat)).iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["Unable to locate manifests directory", "Unable to locate metadata directory"]);
}

/// SDK-BUNDLE-23: versions, categories and index files of one's own.
#[test]
fn options_change_the_answers() {
    let mut files = example();
    let csv = "manifests/beacon.clusterserviceversion.yaml";
    let text = String::from_utf8(files[csv].clone()).unwrap();
    files.insert(csv.to_owned(), text.replace("coordination.k8s.io", "policy").replace("leases", "x").into_bytes());
    files.insert(
        "manifests/budget.yaml".to_owned(),
        b"apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: b}\nspec: {minAvailable: 1}\n".to_vec(),
    );
    let manifests = read(&files);
    let run = |name: &str, options: &Options<'_>| {
        let selection = Selection::parse(&format!("name={name}")).unwrap();
        let findings = validators::run(&manifests, Some(&selection), options);
        findings.into_iter().filter(|finding| finding.validator == name).map(|finding| finding.to_string()).collect::<Vec<_>>()
    };
    // The CSV's minKubeVersion is 1.25 already.
    let found = run("alpha-deprecated-apis", &Options::default());
    assert!(
        found[0].starts_with("Error: Value beacon.v1.0.0: this bundle is using APIs which were deprecated and removed in v1.25."),
        "{found:?}"
    );
    let values = BTreeMap::from([("k8s-version".to_owned(), "x".to_owned())]);
    let found = run("alpha-deprecated-apis", &Options { values, ..Options::default() });
    assert_eq!(found[0], "Error: Value beacon.v1.0.0: invalid value informed via the k8s key option : x");
    let found = run("categories", &Options { categories: Some(Ok(vec!["Toys".to_owned()])), ..Options::default() });
    assert_eq!(
        found,
        [
            "Error: Value : (beacon.v1.0.0) csv.Metadata.Annotations[\"categories\"] value \"Developer Tools\" is not in the set of custom categories"
        ]
    );
    let inspect = |image: &str| {
        assert!(image.starts_with("registry.example.com/"));
        Ok(vec![validators::ImagePlatform { os: "linux".to_owned(), architecture: "arm64".to_owned() }])
    };
    let found = run("multiarch", &Options { inspect: Some(&inspect), ..Options::default() });
    assert!(found.iter().any(|text| text.starts_with("Error: ") && text.contains("(linux.amd64) was not found")), "{found:?}");
    assert!(
        found
            .iter()
            .any(|text| text.contains("missing the label (operatorframework.io/arch.<value>) for the Arch(s): [\"amd64\" \"arm64\"]"))
    );
}

/// OLM0-RES-30, OLM0-RES-31: how dependencies are written, with file, line and fix.
#[test]
fn dependencies_are_advised_on() {
    let found = |dependencies: &str, permissions: &str| {
        let mut files = example();
        let csv = "manifests/beacon.clusterserviceversion.yaml";
        let text = String::from_utf8(files[csv].clone()).unwrap();
        assert!(text.contains("coordination.k8s.io"));
        files.insert(csv.to_owned(), text.replace("coordination.k8s.io", permissions).into_bytes());
        if !dependencies.is_empty() {
            files.insert("metadata/dependencies.yaml".to_owned(), dependencies.as_bytes().to_vec());
        }
        let selection = Selection::parse("name=dependencies").unwrap();
        let findings = validators::run(&read(&files), Some(&selection), &Options::default());
        let ours = findings.into_iter().filter(|finding| finding.validator == "dependencies");
        ours.map(|finding| {
            assert_eq!(finding.level, Level::Warning);
            let place = finding.place.clone().unwrap();
            (finding.rule.id, place.path, place.line.is_some(), finding.detail)
        })
        .collect::<Vec<_>>()
    };
    let package = |range: &str| format!("dependencies:\n- type: olm.package\n  value:\n    packageName: tide\n    version: \"{range}\"\n");
    let gvk = "dependencies:\n- type: olm.gvk\n  value:\n    group: tide.example.com\n    version: v1\n    kind: Tide\n";
    assert_eq!(found("", "coordination.k8s.io"), []);
    assert_eq!(found(&package(">1.0.0 <2.0.0"), "coordination.k8s.io"), []);
    let narrow = found(&package(">=1.0.0 <1.2.0"), "coordination.k8s.io");
    let [(rule, path, true, detail)] = &narrow[..] else { panic!("{narrow:?}") };
    assert_eq!((*rule, path.as_str()), ("dependencies/range-narrow", "dependencies[0].value.version"));
    assert_eq!(detail, "needs package tide \">=1.0.0 <1.2.0\", which ends at 1.2.0, inside of major version 1");

    let undeclared = found("", "tide.example.com");
    let [(rule, path, true, detail)] = &undeclared[..] else { panic!("{undeclared:?}") };
    assert!(path.starts_with("spec.install.spec.") && path.ends_with(".apiGroups[0]"), "{path}");
    assert_eq!(
        (*rule, detail.as_str()),
        ("dependencies/undeclared-api", "writes leases of API group tide.example.com, which no dependency names")
    );
    assert_eq!(found(gvk, "tide.example.com"), []);
    assert_eq!(found(&package(">=1.0.0"), "tide.example.com"), []);

    let all = "dependencies:\n- type: olm.constraint\n  value:\n    failureMessage: m\n    all:\n      constraints:\n      - package:\n          packageName: a\n          versionRange: \"1.0.0\"\n      - package:\n          packageName: b\n          versionRange: \">=1.0.0\"\n";
    let found = found(all, "coordination.k8s.io");
    let rules: Vec<(&str, &str)> = found.iter().map(|(rule, path, ..)| (*rule, path.as_str())).collect();
    assert_eq!(
        rules,
        [
            ("dependencies/range-narrow", "dependencies[0].value.all.constraints[0].package.versionRange"),
            ("dependencies/all-packages", "dependencies[0].value"),
        ]
    );
}
