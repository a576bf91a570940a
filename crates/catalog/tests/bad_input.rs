//! What a reader of catalogs says about bad input, and the validator's texts case by case.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use mainstay_catalog::{Blob, Catalog, Index, IndexBuilder, IndexError, Limits, MemorySource, store, validate, validate_all};

fn load(text: &str) -> Result<Catalog, String> {
    Catalog::load(&MemorySource::of("a/index.yaml", text), &Limits::default()).map_err(|error| error.to_string())
}

/// OLM1-FBC-02, OLM1-FBC-06, CATLG-11: a broken blob names file, line and rule.
#[test]
fn broken_blobs_name_file_line_and_rule() {
    let cases = [
        (
            "{\"schema\":\"olm.package\",\"name\":\"a\"}\n\n{\"name\": \"b\"}\n",
            "a/index.yaml:3: object '{\"name\":\"b\"}' is missing root schema field",
        ),
        ("---\nschema: olm.package\nname: a\n---\nname: b\n", "a/index.yaml:5: object '{\"name\":\"b\"}' is missing root schema field"),
        (
            "{\"schema\":\"x\"}\n{\"schema\":\"y\"}\n---\nschema: z\n",
            "a/index.yaml:3: not valid JSON: text after JSON objects that is none itself",
        ),
        ("{\"schema\":\"x\",\"a\":1e999}\n", "a/index.yaml:1: not valid JSON: number out of range"),
        ("{\"schema\": \"x\",\n \"a\": }\n", "a/index.yaml:2: not valid JSON: expected a value"),
        ("schema: x\na: [1, 2\n", "a/index.yaml:"),
        ("schema: x\n--- {schema: y}\n--- {schema: z}\n", "a/index.yaml:2: not valid YAML: text after `---`"),
        ("--- {schema: x}\n", "a/index.yaml:1: not valid YAML: text after `---`"),
        ("schema: x\n---\n----\n", "a/index.yaml:3: not valid YAML: text after `---`"),
        ("just some text\n", "a/index.yaml:1: a catalog file holds mappings"),
        ("- schema: x\n", "a/index.yaml:1: a catalog file holds mappings"),
        ("Schema: x\nschema: y\n", "a/index.yaml:1: duplicate keys for key \"schema\": [Schema schema]"),
        ("schema: 3\n", "a/index.yaml:1: blob: field schema must be a string, found a number"),
        (
            "schema: olm.channel\npackage: p\nname: c\nentries:\n- name: b\n  skips: x\n",
            "a/index.yaml:1: olm.channel \"c\" of package \"p\": field entries[0].skips must be a list, found a string",
        ),
        (
            "schema: olm.bundle\npackage: p\nname: b\nproperties:\n- type: t\n  value: null\n",
            "a/index.yaml:1: olm.bundle \"b\" of package \"p\": field properties[0].value must be a value that is not null, found null or nothing",
        ),
        (
            "schema: olm.bundle\npackage: p\nname: b\nproperties:\n- value: 1\n",
            "a/index.yaml:1: olm.bundle \"b\" of package \"p\": field properties[0].type must be",
        ),
    ];
    for (text, expected) in cases {
        let error = load(text).unwrap_err();
        assert!(error.starts_with(expected), "{text:?}\nfound    {error}\nexpected {expected}");
    }
}

/// OLM1-FBC-02, OLM1-FBC-06, CATLG-06, CATLG-07, CATLG-10, CATLG-13: JSON, YAML and both in one file; any spelling of case; unknown things are kept.
#[test]
fn formats_mix_and_unknown_things_are_kept() {
    let text = "{\"Schema\":\"olm.package\",\"NAME\":\"a\",\"defaultchannel\":\"c\"}\n---\n{\"schema\":\"olm.channel\",\"package\":\"a\",\"name\":\"c\",\
                \"entries\":[{\"NAME\":\"a.v1\",\"skiprange\":\"<1.0.0\"}]}\n---\nschema: olm.bundle\npackage: a\nname: a.v1\nimage: q.io/a\nextra: 1\n\
                properties:\n- {type: olm.package, value: {packageName: a, version: 1.0.0}}\n- {type: example.com/x, value: [1]}\n---\n# nothing\n---\n\
                schema: example.com/thing\nname: t\nwhatever: {deep: [true]}\n";
    let catalog = load(text).unwrap();
    assert_eq!(catalog.packages[0].default_channel.as_str(), "c");
    assert_eq!(catalog.channels[0].entries[0].skip_range.as_deref(), Some("<1.0.0"));
    assert_eq!(catalog.bundles[0].properties.len(), 2);
    assert_eq!(catalog.others[0].blob.get(), r#"{"name":"t","schema":"example.com/thing","whatever":{"deep":[true]}}"#);
    validate(&catalog).unwrap();
    assert_eq!(load("{schema: olm.package, name: flow}\n").unwrap().packages[0].name.as_str(), "flow");
    assert_eq!(load("\u{feff}{\"schema\":\"x\"}\n").unwrap().others.len(), 1);
    assert!(load("").unwrap().packages.is_empty());
}

/// OLM1-FBC-02: limits are errors that name file and limit.
#[test]
fn limits() {
    let limits = Limits { blob_bytes: 20, ..Limits::default() };
    let source = MemorySource::of("x", "{\"schema\":\"a\"}{\"schema\":\"0123456789012345\"}");
    let error = Catalog::load(&source, &limits).unwrap_err().to_string();
    assert_eq!(error, "x:1: the size of the blob exceeds the limit of 20");
    let deep = format!("{{\"schema\":\"a\",\"b\":{}{}}}", "[".repeat(5000), "]".repeat(5000));
    let error = Catalog::load(&MemorySource::of("x", deep), &Limits::default()).unwrap_err().to_string();
    assert!(error.starts_with("x:1: not valid JSON: nested more than 128 deep"), "{error}");
    let error = Catalog::load(&MemorySource::of("x", vec![b'a', b'\n', 0xff]), &Limits::default()).unwrap_err().to_string();
    assert!(error.starts_with("x:2: not valid YAML: the file is not UTF-8"), "{error}");
}

const GOOD: &str = "schema: olm.package\nname: p\ndefaultChannel: c\n---\nschema: olm.channel\npackage: p\nname: c\nentries:\n- {name: p.v1}\n---\n\
                    schema: olm.bundle\npackage: p\nname: p.v1\nimage: q.io/p@sha256:0123456789012345678901234567890123456789012345678901234567890123\n\
                    properties:\n- {type: olm.package, value: {packageName: p, version: 1.0.0}}\n";

fn verdict(text: &str) -> String {
    validate(&load(text).unwrap()).map_or_else(|error| error.to_string(), |()| String::new())
}

/// OLM1-FBC-05, OLM1-FBC-20, CATLG-23, CATLG-24: first-hit texts.
#[test]
fn first_hit_texts() {
    assert_eq!(verdict(GOOD), "");
    let after = |more: &str| verdict(&format!("{GOOD}---\n{more}"));
    let cases = [
        ("schema: olm.package\nname: ''\n", "config contains package with no name"),
        ("schema: olm.package\nname: p\n", "duplicate package \"p\""),
        ("schema: olm.channel\npackage: q\nname: c\n", "unknown package \"q\" for channel \"c\""),
        ("schema: olm.channel\npackage: p\n", "package \"p\" contains channel with no name"),
        ("schema: olm.channel\npackage: p\nname: c\n", "package \"p\" has duplicate channel \"c\""),
        (
            "schema: olm.channel\npackage: p\nname: d\nentries: [{name: p.v1}, {name: p.v1}]\n",
            "invalid package \"p\", channel \"d\": duplicate entry \"p.v1\"",
        ),
        ("schema: olm.bundle\nname: x\n", "package name must be set for bundle \"x\""),
        ("schema: olm.bundle\nname: x\npackage: q\n", "unknown package \"q\" for bundle \"x\""),
        ("schema: olm.bundle\nname: p.v1\npackage: p\n", "package \"p\" has duplicate bundle \"p.v1\""),
        ("schema: olm.bundle\nname: x\npackage: p\n", "package \"p\" bundle \"x\" must have exactly 1 \"olm.package\" property, found 0"),
        (
            "schema: olm.bundle\nname: x\npackage: p\nproperties: [{type: olm.package, value: {packageName: q, version: 1.0.0}}]\n",
            "package \"p\" does not match \"olm.package\" property \"q\"",
        ),
        (
            "schema: olm.bundle\nname: x\npackage: p\nimage: 'a b'\nproperties: [{type: olm.package, value: {packageName: p, version: 1.0.0}}]\n",
            "package \"p\" bundle \"x\" image: invalid image pull spec \"a b\": invalid reference format",
        ),
        (
            "schema: olm.bundle\nname: x\npackage: p\nproperties: [{type: olm.package, value: {packageName: p, version: 1.0}}]\n",
            "parse properties for bundle \"x\": parse property[0] of type \"olm.package\": json: cannot unmarshal number into Go struct field Package.version of type string",
        ),
        (
            "schema: olm.bundle\nname: x\npackage: p\nproperties: [{type: olm.package, value: {packageName: p, version: '1.0'}}]\n",
            "error parsing bundle \"x\" version \"1.0\": No Major.Minor.Patch elements found",
        ),
        (
            "schema: olm.bundle\nname: x\npackage: p\nproperties: [{type: olm.package, value: {packageName: p, version: 2.0.0}}]\n",
            "package \"p\", bundle \"x\" not found in any channel entries",
        ),
        (
            "schema: olm.channel\npackage: p\nname: d\nentries: [{name: b}, {name: a}]\n",
            "no olm.bundle blobs found in package \"p\" for olm.channel entries [a b]",
        ),
        ("schema: olm.deprecations\n", "package name must be set for deprecation item 0"),
        ("schema: olm.deprecations\npackage: q\n", "cannot apply deprecations to an unknown package \"q\""),
        (
            "schema: olm.deprecations\npackage: p\n---\nschema: olm.deprecations\npackage: p\n",
            "expected a maximum of one deprecation per package: \"p\"",
        ),
        (
            "schema: olm.deprecations\npackage: p\nentries: [{message: m}]\n",
            "schema must be set for deprecation entry [0] for package \"p\"",
        ),
        (
            "schema: olm.deprecations\npackage: p\nentries: [{reference: {schema: olm.package}, message: m}, {reference: {schema: olm.package}, message: other}]\n",
            "duplicate deprecation entry declcfg.PackageScopedReference{Schema:\"olm.package\", Name:\"\"} for package \"p\"",
        ),
        (
            "schema: olm.deprecations\npackage: p\nentries: [{reference: {schema: olm.bundle, name: x}, message: m}]\n",
            "cannot deprecate bundle \"x\" for package \"p\": bundle not found",
        ),
        (
            "schema: olm.deprecations\npackage: p\nentries: [{reference: {schema: olm.channel, name: x}, message: m}]\n",
            "cannot deprecate channel \"x\" for package \"p\": channel not found",
        ),
        (
            "schema: olm.deprecations\npackage: p\nentries: [{reference: {schema: olm.package, name: x}, message: m}]\n",
            "package name must be empty for deprecated package \"p\" (specified \"x\")",
        ),
        (
            "schema: olm.deprecations\npackage: p\nentries: [{reference: {schema: s, name: x}, message: m}]\n",
            "cannot deprecate object declcfg.PackageScopedReference{Schema:\"s\", Name:\"x\"} referenced by entry 0 for package \"p\": object schema unknown",
        ),
    ];
    for (more, expected) in cases {
        assert_eq!(after(more), expected);
    }
    let upper = verdict("schema: olm.package\nname: P_\ndefaultChannel: c\n");
    let dotted = verdict("schema: olm.package\nname: a.b\ndefaultChannel: c\n");
    assert_eq!(dotted, "invalid package name \"a.b\": [must not contain dots]");
    assert!(upper.starts_with("invalid package name \"P_\": [a lowercase RFC 1123 label must consist of"), "{upper}");
}

/// OLM1-FBC-08, OLM1-FBC-10, CATLG-12, CATLG-25, CATLG-26: the tree, node by node.
#[test]
fn tree_texts() {
    let channel = |entries: &str| {
        format!("schema: olm.package\nname: p\ndefaultChannel: c\n---\nschema: olm.channel\npackage: p\nname: c\nentries:\n{entries}---\n")
    };
    let bundle = |name: &str, version: &str| {
        format!(
            "schema: olm.bundle\npackage: p\nname: {name}\nimage: q.io/{name}\nproperties: [{{type: olm.package, value: {{packageName: p, version: {version}}}}}]\n---\n"
        )
    };
    let of = |entries: &str, bundles: &[(&str, &str)]| {
        verdict(&(channel(entries) + &bundles.iter().map(|(name, version)| bundle(name, version)).collect::<String>()))
    };
    let in_channel = |text: &str| format!("invalid index:\n└── invalid package \"p\":\n    └── invalid channel \"c\":\n        └── {text}");
    let two = [("a", "1.0.0"), ("b", "2.0.0")];
    assert_eq!(of("- {name: a, replaces: gone}\n", &two[..1]), "", "a dangling replaces is allowed");
    assert_eq!(of("- {name: a}\n- {name: b}\n", &two), in_channel("multiple channel heads found in graph: a, b"));
    assert_eq!(of("- {name: a, replaces: b}\n- {name: b, replaces: a}\n", &two), in_channel("no channel head found in graph"));
    let three = [("a", "1.0.0"), ("b", "2.0.0"), ("c", "3.0.0")];
    let cycle = "- {name: a, replaces: b}\n- {name: b, replaces: a}\n- {name: c, replaces: b}\n";
    assert_eq!(of(cycle, &three), in_channel("detected cycle in replaces chain of upgrade graph: b -> a -> b"));
    let stranded = "- {name: a}\n- {name: b, replaces: a}\n- {name: c, skips: [b]}\n";
    assert_eq!(of(stranded, &three), in_channel("channel contains one or more stranded bundles: a"));
    let same = of("- {name: a}\n- {name: b, replaces: a}\n", &[("a", "1.0.0"), ("b", "1.0.0")]);
    assert_eq!(same, "invalid index:\n└── invalid package \"p\":\n    └── duplicate versions found in bundles: [{1.0.0: [a, b]}]");
    assert_eq!(
        of("- {name: a, skips: [''], skipRange: '<v1.0.0'}\n", &two[..1]),
        "invalid index:\n└── invalid package \"p\":\n    └── invalid channel \"c\":\n        └── invalid bundle \"a\":\n            ├── skip[0] is empty\n            \
         └── invalid skipRange \"<v1.0.0\": Could not parse Range \"<v1.0.0\": Could not parse comparator \"<v\" in \"<v1.0.0\""
    );
    assert_eq!(
        verdict("schema: olm.package\nname: p\n"),
        "invalid index:\n└── invalid package \"p\":\n    ├── default channel must be set\n    └── package must contain at least one channel"
    );
    assert_eq!(verdict("schema: olm.package\nname: p\ndefaultChannel: c\n"), in_channel("channel must contain at least one bundle"));
    let deprecated =
        format!("{GOOD}---\nschema: olm.deprecations\npackage: p\nentries: [{{reference: {{schema: olm.bundle, name: p.v1}}}}]\n");
    let text = "invalid bundle \"p.v1\":\n            └── invalid deprecation: message must be set";
    assert_eq!(verdict(&deprecated), in_channel(text));
    let earlier = format!(
        "{}---\nschema: olm.channel\npackage: p\nname: d\nentries: [{{name: a}}]\n---\n{}",
        channel("- {name: gone}\n"),
        bundle("a", "1.0.0")
    );
    let text = "invalid bundle \"gone\":\n            ├── must be exactly one property with type \"olm.package\"\n            └── bundle image must be set";
    assert_eq!(verdict(&earlier), in_channel(text));
}

/// CATLG-22: `--all` goes on after the first hit and puts everything into one tree.
#[test]
fn all_findings_in_one_tree() {
    let text = format!(
        "{GOOD}---\nschema: olm.channel\npackage: q\nname: c\n---\nschema: olm.channel\npackage: p\nname: d\nentries: [{{name: p.v1}}, {{name: x}}]\n"
    );
    let error = validate_all(&load(&text).unwrap()).unwrap_err();
    let expected = "invalid index:\n├── unknown package \"q\" for channel \"c\"\n└── invalid package \"p\":\n    ├── no olm.bundle blobs found in package \"p\" \
                    for olm.channel entries [x]\n    └── invalid channel \"d\":\n        ├── multiple channel heads found in graph: p.v1, x\n        \
                    └── invalid bundle \"x\":\n            ├── must be exactly one property with type \"olm.package\"\n            └── bundle image must be set";
    assert_eq!(error.to_string(), expected);
    validate_all(&load(GOOD).unwrap()).unwrap();
}

/// OLM1-CAT-05: a damaged index, one of another format, or one of other content is noticed.
#[test]
fn damaged_index_is_noticed() {
    let mut lines = Vec::new();
    let good = store(&MemorySource::of("x", GOOD), &Limits::default(), &mut lines).unwrap();
    let length = lines.len() as u64;
    let open = |bytes: &[u8], length| Index::open(bytes.to_vec(), length).map(|_| ());
    assert_eq!(open(&good, length), Ok(()));
    assert_eq!(open(&good, length + 1), Err(IndexError::Content { indexed: length, actual: length + 1 }));
    assert_eq!(open(b"{}", length), Err(IndexError::Magic));
    assert_eq!(open(&good[..40], length), Err(IndexError::Bounds));
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        assert!(open(&bad, length).is_err(), "a changed byte at {at} went unnoticed");
    }
    for end in 0..good.len() {
        assert!(open(&good[..end], length).is_err(), "a file of {end} bytes went unnoticed");
    }
}

/// OLM1-FBC-13, OLM1-CTRL-05: the index knows deprecations, also those whose blob comes before the bundle.
#[test]
fn index_knows_deprecations() {
    let text = format!(
        "schema: olm.deprecations\npackage: p\nentries:\n- {{reference: {{schema: olm.package}}, message: end of life}}\n\
         - {{reference: {{schema: olm.channel, name: c}}, message: closed}}\n- {{reference: {{schema: olm.bundle, name: p.v1}}, message: old}}\n---\n{GOOD}"
    );
    let mut lines = Vec::new();
    let index = store(&MemorySource::of("x", text), &Limits::default(), &mut lines).unwrap();
    let index = Index::open(index, lines.len() as u64).unwrap();
    let package = index.package("p").unwrap();
    assert_eq!(package.deprecation(), Some("end of life"));
    assert_eq!(package.channel("c").unwrap().deprecation(), Some("closed"));
    assert_eq!(package.bundle("p.v1").unwrap().deprecation(), Some("old"));
    assert_eq!(package.channel("c").unwrap().head().unwrap().bundle().unwrap().version(), Some("1.0.0"));
}

/// OLM1-CAT-07: blobs without a package are content, but make no package.
#[test]
fn blobs_without_package() {
    let text = "schema: olm.bundle\nname: a\n---\nschema: olm.channel\nname: a\n---\nschema: olm.package\n---\nschema: olm.deprecations\n";
    let mut lines = Vec::new();
    let index = store(&MemorySource::of("x", text), &Limits::default(), &mut lines).unwrap();
    let index = Index::open(index, lines.len() as u64).unwrap();
    assert_eq!((index.packages().len(), index.blob_count()), (0, 4));
}

/// OLM1-FBC-15, OLM1-QUERY-02: what is shown of a bundle comes from its metadata property, or from the CSV that older catalogs embed.
#[test]
fn shown_metadata() {
    // {"kind":"ClusterServiceVersion","metadata":{"annotations":{"description":"Short"}},"spec":{"displayName":"My App","provider":{"name":"Us"},
    // "installModes":[{"type":"AllNamespaces","supported":true},{"type":"OwnNamespace","supported":false}]}}
    let csv = "eyJraW5kIjoiQ2x1c3RlclNlcnZpY2VWZXJzaW9uIiwibWV0YWRhdGEiOnsiYW5ub3RhdGlvbnMiOnsiZGVzY3JpcHRpb24iOiJTaG9ydCJ9fSwic3BlYyI6eyJkaXNwbGF5TmFtZSI6Ik15IEFwcCIsInByb3ZpZGVyIjp7Im5hbWUiOiJVcyJ9LCJpbnN0YWxsTW9kZXMiOlt7InR5cGUiOiJBbGxOYW1lc3BhY2VzIiwic3VwcG9ydGVkIjp0cnVlfSx7InR5cGUiOiJPd25OYW1lc3BhY2UiLCJzdXBwb3J0ZWQiOmZhbHNlfV19fQ==";
    let metadata = "{type: olm.csv.metadata, value: {annotations: {description: Short}, displayName: My App, provider: {name: Us}, installModes: \
                    [{type: AllNamespaces, supported: true}, {type: OwnNamespace, supported: false}]}}";
    for property in [metadata.to_owned(), format!("{{type: olm.bundle.object, value: {{data: {csv}}}}}")] {
        let mut lines = Vec::new();
        let index = store(&MemorySource::of("x", format!("{GOOD}- {property}\n")), &Limits::default(), &mut lines).unwrap();
        let index = Index::open(index, lines.len() as u64).unwrap();
        let package = index.search("my us")[0];
        assert_eq!((package.display_name(), package.provider(), package.summary()), ("My App", "Us", "Short"));
        let bundle = package.bundle("p.v1").unwrap();
        assert_eq!(bundle.install_modes().unwrap().collect::<Vec<_>>(), ["AllNamespaces"]);
    }
    let mut lines = Vec::new();
    let index = store(&MemorySource::of("x", GOOD), &Limits::default(), &mut lines).unwrap();
    let index = Index::open(index, lines.len() as u64).unwrap();
    assert!(index.package("p").unwrap().bundle("p.v1").unwrap().install_modes().is_none(), "unknown is not none");
}

/// OLM1-CAT-17: an empty catalog has an index too.
#[test]
fn empty_catalog() {
    let index = IndexBuilder::new().finish();
    let index = Index::open(index, 0).unwrap();
    assert_eq!((index.packages().len(), index.blob_count()), (0, 0));
    let blob = Blob { path: "x", line: 1, schema: "s", package: "", name: "", json: "{\"schema\":\"s\"}" };
    let mut builder = IndexBuilder::new();
    builder.add(&blob).unwrap();
    let index = Index::open(builder.finish(), blob.json.len() as u64 + 1).unwrap();
    assert_eq!(index.metas(&mainstay_catalog::MetaQuery::default()).collect::<Vec<_>>(), vec![0..14]);
}

/// OLM1-BUILD-04, CATLG-10: order and spelling of what is rendered.
#[test]
fn rendered_order() {
    let text = "schema: example.com/free\n---\nschema: olm.deprecations\npackage: b\nentries: [{message: m, reference: {schema: olm.package}}]\n---\n\
                schema: example.com/thing\npackage: b\nz: 1\na: {w: 1, v: 2}\n---\nschema: olm.bundle\npackage: b\nname: b.v1\nimage: i\n\
                relatedImages: [{image: z, name: first}, {image: a, name: second}]\nproperties:\n- {type: olm.csv.metadata, value: {}}\n\
                - {type: olm.package, value: {version: 1.0.0, packageName: b}}\n---\nschema: olm.channel\npackage: b\nname: d\nentries: []\n---\n\
                schema: olm.channel\npackage: b\nname: c\nentries: [{skipRange: <1.0.0, name: b.v1}]\n---\nschema: olm.package\nname: b\n\
                defaultChannel: c\n---\nschema: olm.package\nname: a\nicon: {mediatype: m, base64data: d}\ndefaultChannel: c\n";
    let catalog = load(text).unwrap();
    let mut json = Vec::new();
    mainstay_catalog::render(&catalog, mainstay_catalog::Format::Json, &mut json).unwrap();
    follow(
        &String::from_utf8(json).unwrap(),
        &[
            "{\n    \"schema\": \"olm.package\",\n    \"name\": \"a\",\n    \"defaultChannel\": \"c\",\n    \"icon\": {\n        \"base64data\": \"d\",",
            "{\n    \"schema\": \"olm.package\",\n    \"name\": \"b\",\n    \"defaultChannel\": \"c\"\n}\n",
            "{\n    \"schema\": \"olm.channel\",\n    \"name\": \"c\",\n    \"package\": \"b\",\n    \"entries\": [\n        {\n            \"name\": \"b.v1\",\n            \"skipRange\": \"<1.0.0\"",
            "\"name\": \"d\"",
            "{\n    \"schema\": \"olm.bundle\",\n    \"name\": \"b.v1\",\n    \"package\": \"b\",\n    \"image\": \"i\",\n    \"properties\": [\n        {\n            \"type\": \"olm.package\",",
            "\"type\": \"olm.csv.metadata\"",
            "\"name\": \"second\",\n            \"image\": \"a\"",
            "\"name\": \"first\"",
            "{\n    \"a\": {\n        \"v\": 2,\n        \"w\": 1\n    },\n    \"package\": \"b\",\n    \"schema\": \"example.com/thing\"",
            "{\n    \"schema\": \"olm.deprecations\",\n    \"package\": \"b\",\n    \"entries\": [\n        {\n            \"reference\": {",
            "example.com/free",
        ],
    );
    let mut yaml = Vec::new();
    mainstay_catalog::render(&catalog, mainstay_catalog::Format::Yaml, &mut yaml).unwrap();
    let yaml = String::from_utf8(yaml).unwrap();
    assert!(
        yaml.starts_with("---\ndefaultChannel: c\nicon:\n  base64data: d\n  mediatype: m\nname: a\nschema: olm.package\n---\n"),
        "{yaml}"
    );
    assert_eq!(yaml.matches("---\n").count(), 8);
}

/// Checks that pieces of text follow one another.
fn follow(text: &str, pieces: &[&str]) {
    let mut rest = text;
    for piece in pieces {
        let at = rest.find(piece).unwrap_or_else(|| panic!("{piece:?} is not in\n{rest}"));
        rest = &rest[at + piece.len()..];
    }
}

proptest::proptest! {
    /// OLM1-FBC-02: whatever a file holds, reading it ends with a catalog or an error, and a catalog that loads has an index that opens.
    #[test]
    fn any_input_is_survived(text in "(\\{\"schema\":\"(x|olm.package|olm.channel|olm.bundle|olm.deprecations)\",\"(name|package|entries|properties)\":(\"a\"|1|\\[\\{\"name\":\"b\"\\}\\]|null|\\{\\})\\}|---\n|schema: y\n|[\\[\\]{}:,\"a \n-]){0,6}") {
        let source = MemorySource::of("f", text);
        let mut lines = Vec::new();
        if let Ok(index) = store(&source, &Limits::default(), &mut lines) {
            let index = Index::open(index, lines.len() as u64).unwrap();
            proptest::prop_assert_eq!(index.blob_count() as usize, String::from_utf8_lossy(&lines).lines().count());
            let catalog = Catalog::load(&source, &Limits::default()).unwrap();
            let _verdicts = (validate(&catalog), validate_all(&catalog));
        }
    }
}

/// OLM1-FBC-09, OLM1-FBC-12: the fields of packages and bundles: those that may be left out may be, the required ones are missed by name,
/// and all of them are read.
#[test]
fn fields_of_packages_and_bundles() {
    let package = "{\"schema\":\"olm.package\",\"name\":\"a\",\"defaultChannel\":\"c\"";
    let channel = "{\"schema\":\"olm.channel\",\"package\":\"a\",\"name\":\"c\",\"entries\":[{\"name\":\"a.v1\"}]}";
    let bundle = "{\"schema\":\"olm.bundle\",\"package\":\"a\",\"name\":\"a.v1\",\"image\":\"q.io/a/a:v1\",\"properties\":[{\"type\":\"olm.package\",\
                  \"value\":{\"packageName\":\"a\",\"version\":\"1.0.0\"}}]";
    let checked = |package: &str, bundle: &str| {
        let catalog = load(&format!("{package}}}\n{channel}\n{bundle}}}\n"))?;
        validate(&catalog).map_err(|error| error.to_string())?;
        Ok::<_, String>(catalog)
    };
    let least = checked(package, bundle).unwrap();
    assert_eq!((least.packages.len(), least.bundles.len()), (1, 1));
    let full = checked(
        &format!("{package},\"description\":\"words\",\"icon\":{{\"base64data\":\"PHN2Zy8+\",\"mediatype\":\"image/svg+xml\"}},\"properties\":[{{\"type\":\"x\",\"value\":1}}]"),
        &format!("{bundle},\"relatedImages\":[{{\"image\":\"q.io/a/b:v1\"}},{{\"name\":\"b\",\"image\":\"q.io/a/c:v1\"}}]"),
    )
    .unwrap();
    let images: Vec<&str> = full.bundles[0].related_images.iter().map(|image| image.image.as_str()).collect();
    assert_eq!(images, ["q.io/a/b:v1", "q.io/a/c:v1"]);
    for (package, bundle) in [
        (package.replace("\"name\":\"a\"", "\"name\":\"\""), bundle.to_owned()),
        (package.replace("\"defaultChannel\":\"c\"", "\"defaultChannel\":\"\""), bundle.to_owned()),
        (package.replace("\"defaultChannel\":\"c\"", "\"defaultChannel\":\"other\""), bundle.to_owned()),
        (package.to_owned(), bundle.replace("\"image\":\"q.io/a/a:v1\",", "")),
        (package.to_owned(), bundle.replace("\"package\":\"a\"", "\"package\":\"\"")),
        (package.to_owned(), bundle.replace("\"name\":\"a.v1\"", "\"name\":\"\"")),
    ] {
        let refused = checked(&package, &bundle);
        assert!(refused.is_err(), "{package}\n{bundle}");
    }
}
