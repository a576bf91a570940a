//! Templates as the community writes them, and the catalogs that were made of them.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::collections::BTreeMap;

use mainstay_catalog::template::{Kind, RenderBundle, RenderError, Rendered, Template, TemplateError};
use mainstay_catalog::{Bundle, Catalog, Channel, Limits, MemorySource, Property, validate};
use serde_json::{Value, json};

fn files() -> Option<BTreeMap<String, String>> {
    let text = |(path, bytes): (String, Vec<u8>)| (path.replacen("real-fbc/", "", 1), String::from_utf8(bytes).unwrap());
    Some(mainstay_testing::data::archive("real-fbc.tar.gz")?.into_iter().map(text).collect())
}

/// The template that the package's `ci.yaml` names for the catalog of 4.19, and its kind.
fn template_of(files: &BTreeMap<String, String>, package: &str) -> Option<(String, String)> {
    let ci = mainstay_yaml::parse(&files[&format!("templates/{package}/ci.yaml")]).unwrap();
    let mapping = ci["fbc"]["catalog_mapping"].as_array()?.iter().find(|mapping| {
        let names = mapping["catalog_names"].as_array();
        names.is_some_and(|names| names.iter().any(|name| name == "v4.19"))
    })?;
    let text = |key: &str| mapping[key].as_str().map(str::to_owned);
    Some((format!("templates/{package}/catalog-templates/{}", text("template_name")?), text("type")?))
}

fn edges(channels: &[Channel], with_skips: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for channel in channels {
        for entry in &channel.entries {
            let mut skips: Vec<&str> = entry.skips.iter().map(mainstay_catalog::BundleName::as_str).collect();
            skips.sort_unstable();
            let skips = if with_skips { skips.join(" ") } else { String::new() };
            lines.push(format!("{} {} {:?} {skips} {:?}", channel.name, entry.name, entry.replaces, entry.skip_range));
        }
    }
    lines.sort();
    lines
}

/// CATLG-64, CATLG-65, OLM1-FBC-19: the templates compile to the catalogs that were published from them.
#[test]
fn published_templates() {
    let Some(files) = files() else { return };
    let (mut basics, mut semvers) = (0, 0);
    for (name, text) in files.iter().filter(|(name, _)| name.starts_with("catalogs/")) {
        let package = name.split('/').nth(2).unwrap();
        let published = Catalog::load(&MemorySource::of("x", text.as_str()), &Limits::default()).unwrap();
        let Some((template, kind)) = template_of(&files, package) else { continue };
        let template = Template::parse(&files[&template]).unwrap();
        let mut render = |image: &str| {
            let found = published.bundles.iter().filter(|bundle| bundle.image == image).cloned().collect::<Vec<Bundle>>();
            if found.is_empty() { Err("not published".into()) } else { Ok(Rendered::from(found)) }
        };
        assert_eq!(template.kind().unwrap().schema(), kind, "{package}");
        let compiled = template.compile(template.kind().unwrap(), &mut render);
        // A few templates moved on after their catalog was published: they name bundles that it does not have.
        let known =
            |channel: &Channel| channel.entries.iter().all(|entry| published.bundles.iter().any(|bundle| bundle.name == entry.name));
        let Some(compiled) = compiled.ok().filter(|catalog| catalog.channels.iter().all(known)) else {
            eprintln!("{package}: the template is newer than the published catalog");
            continue;
        };
        validate(&compiled).unwrap_or_else(|error| panic!("{package}: {error}"));
        assert_eq!(compiled.packages[0].default_channel, published.packages[0].default_channel, "{package}");
        if kind == "olm.semver" {
            // Two were published by an older generator, which put other things into `skips`.
            let older = ["clusterpulse", "openshift-integration-operator"].contains(&package);
            assert_eq!(edges(&compiled.channels, !older), edges(&published.channels, !older), "{package}");
            semvers += 1;
        } else {
            assert_eq!(edges(&compiled.channels, true), edges(&published.channels, true), "{package}");
            basics += 1;
        }
    }
    assert_eq!(semvers, 5);
    assert!(basics >= 10, "{basics}");
}

fn semver(template: &Value, render: &mut RenderBundle<'_>) -> Result<Catalog, TemplateError> {
    Template::from(template.clone()).compile(Kind::Semver, render)
}

fn bundle(reference: &str) -> Result<Rendered, RenderError> {
    let (package, version) = reference.split_once(':').ok_or("no such image")?;
    Ok(Rendered::from(vec![Bundle {
        package: package.into(),
        name: format!("{package}.v{version}").into(),
        image: format!("q.io/{reference}"),
        properties: vec![Property::new("olm.package", &json!({"packageName": package, "version": version})).unwrap()],
        ..Bundle::default()
    }]))
}

/// CATLG-64: major and minor channels, the default channel, and what is refused.
#[test]
fn semver_rules() {
    let template = |more: Value| {
        let images: Vec<Value> = ["a:1.0.0", "a:1.0.1", "a:1.1.0", "a:2.0.0"].iter().map(|image| json!({"image": image})).collect();
        let mut template =
            json!({"schema": "olm.semver", "fast": {"bundles": images}, "Candidate": {"Bundles": [{"Image": "a:3.0.0-rc.1"}]}});
        template.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        template
    };
    let names = |catalog: &Catalog| catalog.channels.iter().map(|c| c.name.to_string()).collect::<Vec<_>>();
    let minor = semver(&template(json!({})), &mut bundle).unwrap();
    assert_eq!(names(&minor), ["candidate-v3.0", "fast-v1.0", "fast-v1.1", "fast-v2.0"]);
    assert_eq!(minor.packages[0].default_channel.as_str(), "fast-v2.0");
    let both = json!({"generateMajorChannels": true, "generateMinorChannels": true, "defaultChannelTypePreference": "major"});
    let both = semver(&template(both), &mut bundle).unwrap();
    assert_eq!(names(&both).len(), 7);
    assert_eq!(both.packages[0].default_channel.as_str(), "fast-v2");
    validate(&both).unwrap();
    let major = both.channels.iter().find(|c| c.name.as_str() == "fast-v1").unwrap();
    assert_eq!(
        edges(std::slice::from_ref(major), true),
        [
            "fast-v1 a.v1.0.0 None  None",
            "fast-v1 a.v1.0.1 None a.v1.0.0 None",
            "fast-v1 a.v1.1.0 Some(BundleName(\"a.v1.0.1\")) a.v1.0.0 None",
        ]
    );
    let refused = |template: Value| semver(&template, &mut bundle).unwrap_err().to_string();
    let cases = [
        (json!({"schema": "other"}), "render: unable to read file: readFile: input file has unknown schema, should be \"olm.semver\""),
        (json!({"schema": "olm.semver"}), "render: no bundles specified or no bundles could be rendered"),
        (
            json!({"schema": "olm.semver", "slow": {}}),
            "render: unable to read file: error unmarshaling JSON: while decoding JSON: json: unknown field \"slow\"; known are schema,",
        ),
        (
            template(json!({"defaultChannelTypePreference": "major"})),
            "render: unable to read file: schema attribute mismatch: DefaultChannelTypePreference set to 'major' doesn't make sense if not generating major-version channels",
        ),
        (
            json!({"schema": "olm.semver", "fast": {"bundles": [{"image": "a:1.0.0"}, {"image": "b:1.0.0"}]}}),
            "render: unable to post-process bundle info: bundle \"b\" does not belong to this package: \"a\"",
        ),
        (
            json!({"schema": "olm.semver", "fast": {"bundles": [{"image": "a:1.0.0+a"}, {"image": "a:1.0.0+b"}]}}),
            "render: unable to post-process bundle info: encountered bundle versions which differ only by build metadata, which cannot be \
             ordered: bundle version \"1.0.0+b\" cannot be compared to \"1.0.0\"",
        ),
        (json!({"schema": "olm.semver", "fast": {"bundles": [{"image": "gone"}]}}), "no such image"),
        (json!({"schema": "olm.semver", "fast": 3}), "render: unable to read file: field fast must be a mapping, found a number"),
    ];
    for (template, expected) in cases {
        let error = refused(template.clone());
        assert!(error.starts_with(expected), "{template}: {error}");
    }
    let none = semver(&json!({"schema": "olm.semver", "fast": {"bundles": [{"image": "a:1.0.0"}]}}), &mut |_| Ok(Rendered::default()))
        .unwrap_err();
    assert_eq!(none.to_string(), "bundle reference \"a:1.0.0\" resulted in 0 bundles, expected 1");
}

/// CATLG-65, OLM1-FBC-06: entries of a template are blobs of a catalog, under its rules, before anything is pulled for one of them.
#[test]
fn entries_are_blobs() {
    let bundle = json!({"schema": "olm.bundle", "image": "p:1.0.0"});
    let package = json!({"schema": "olm.package", "name": "p", "defaultChannel": "c"});
    let cases = [
        (json!({"schema": "my.meta", "package": null}), "entries[1]:1: my.meta: field package must be a string, found null"),
        (json!({"schema": "my.meta", "Package": 1}), "entries[1]:1: my.meta: field package must be a string, found a number"),
        (json!({"schema": "my.meta", "name": "a", "NAME": "b"}), "entries[1]:1: duplicate keys for key \"name\": [NAME name]"),
        (json!({"name": "a"}), "entries[1]:1: object '{\"name\":\"a\"}' is missing root schema field"),
        (json!(null), "entries[1]:1: a catalog file holds mappings with a `schema` each, found null"),
    ];
    for (entry, expected) in cases {
        for (kind, first) in [(Kind::Basic, &bundle), (Kind::Substitutes, &package)] {
            let template = Template::from(json!({"schema": kind.schema(), "entries": [first, entry]}));
            let refused = template.compile(kind, &mut |reference| panic!("pulled {reference}")).unwrap_err().to_string();
            assert!(refused.contains(expected), "{refused}");
        }
    }
}
