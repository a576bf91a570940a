//! File-based catalogs, what is left out of them, and ranges of versions.

use mainstay_catalog::{
    Extent, Format, Invalid, Limits, MemorySource, Part, RenderError, load, render_parts, validate_source, visible_files,
};
use mainstay_versions::{CatalogRange, ExtensionRange, Version};

use super::halves;

const PACKAGE: &str = r#"{"schema":"olm.package","name":"p","defaultChannel":"c","icon":{"base64data":"aGk=","mediatype":"image/png"}}"#;
const CHANNEL: &str = r#"{"schema":"olm.channel","package":"p","name":"c","entries":[{"name":"p.v2","replaces":"p.v1","skipRange":"<2.0.0"},{"name":"p.v1"}]}"#;
const BUNDLE: &str = r#"{"schema":"olm.bundle","package":"p","name":"p.v1","image":"q.io/p:v1","properties":[{"type":"olm.package","value":{"packageName":"p","version":"1.0.0"}},{"type":"olm.csv.metadata","value":{"keywords":["a\u2028\/"]}},{"type":"olm.bundle.object","value":{"data":"e30="}}],"relatedImages":[{"image":"b"},{"image":"a"}]}"#;
const OTHERS: &str = r#"{"schema":"example.com/x","Package":"p","b":[1.50,-0,1e21,{}],"a":{"z":null,"y":"\ud83d\ude00"}}{"schema":"olm.deprecations","package":"p","entries":[{"reference":{"schema":"olm.bundle","name":"p.v1"},"message":"m"}]}"#;

/// A catalog is refused, or what is rendered of it renders to itself, has the same verdict, and loads to lines that are JSON.
pub fn files(data: &[u8]) {
    let limits = Limits { blob_bytes: 1 << 16, yaml_bytes: 1 << 14, ..Limits::default() };
    let source = MemorySource::of("catalog", data);
    let rendered = match render(&source, &limits) {
        Ok(text) => text,
        Err(error) => {
            assert!(error.to_string().starts_with("catalog:"), "{error}");
            let verdict = validate_source(&source, &limits, Extent::Everything);
            assert!(matches!(verdict, Err(Invalid::Load(_))), "{error}: {verdict:?}");
            return;
        }
    };
    // What is written is larger than what was read.
    let limits = Limits::default();
    let again = MemorySource::of("catalog", rendered.clone());
    match render(&again, &limits) {
        Ok(text) => assert_eq!(text, rendered, "{}", String::from_utf8_lossy(&rendered)),
        Err(error) => panic!("{error}: {}", String::from_utf8_lossy(&rendered)),
    }
    let mut lines = 0;
    let loaded = load(&source, &limits, &mut |blob| {
        lines += 1;
        assert!(serde_json::from_str::<serde_json::Value>(blob.json).is_ok_and(|value| value.is_object()), "{}", blob.json);
        Ok(())
    });
    assert!(loaded.is_ok(), "{loaded:?}");
    let findings = |source| match validate_source(source, &limits, Extent::Everything) {
        Ok(()) => 0,
        Err(Invalid::Rules(found)) => found.findings().len(),
        Err(Invalid::Load(error)) => panic!("{error}"),
    };
    // Known blobs without a package are not written, so there may be fewer findings, but not more.
    assert!(findings(&again) <= findings(&source), "{lines} blobs");
}

fn render(source: &MemorySource, limits: &Limits) -> Result<Vec<u8>, RenderError> {
    let mut text = Vec::new();
    render_parts(&[Part::Source(source)], limits, Format::Json, &mut text).map(|()| text)
}

/// A valid catalog and its parts as JSON.
pub fn json_seeds() -> Vec<Vec<u8>> {
    let whole = format!("{PACKAGE}\n{CHANNEL}\n{BUNDLE}\n{}\n{OTHERS}", BUNDLE.replace("v1", "v2").replace("1.0.0", "2.0.0"));
    [whole.as_str(), PACKAGE, CHANNEL, BUNDLE, OTHERS].map(|text| text.as_bytes().to_vec()).to_vec()
}

/// The same as YAML, with what only YAML has.
pub fn yaml_seeds() -> Vec<Vec<u8>> {
    let mixed = format!(
        "{PACKAGE}\n---\n{CHANNEL}\n--- # more\nschema: x\nname: &n |\n  a\n  b\npackage: *n\n---\na: {{<<: {{b: 1}}}}\nschema: 'y'\n"
    );
    let plain = "schema: olm.channel\npackage: p\nname: c\nentries:\n- name: p.v1\n  skips: [a, 'b']\n- {name: p.v2, replaces: p.v1}\n";
    let bomb = "schema: x\na: &a [1,1,1,1]\nb: &b [*a,*a,*a,*a]\nc: [*b,*b,*b,*b]\n";
    [mixed.as_str(), plain, bomb].map(|text| text.as_bytes().to_vec()).to_vec()
}

/// Patterns are refused, or leave some of the files, in their order.
pub fn ignores(data: &[u8]) {
    let Some((patterns, paths)) = halves(data) else { return };
    let paths = String::from_utf8_lossy(paths).into_owned();
    let paths: Vec<&str> = paths.lines().filter(|path| !path.is_empty()).take(50).collect();
    let source = paths.iter().fold(MemorySource::of("a/.indexignore", patterns), |source, path| source.with(path, ""));
    match visible_files(&source) {
        Ok(visible) => {
            let outside = paths.iter().filter(|path| !path.starts_with("a/") && !path.ends_with(".indexignore"));
            assert!(outside.into_iter().all(|path| visible.iter().any(|seen| seen == path)), "{visible:?}");
            assert!(visible.iter().all(|path| paths.contains(&path.as_str())), "{visible:?}");
            assert!(visible.is_sorted_by(|a, b| a.split('/').lt(b.split('/'))), "{visible:?}");
        }
        Err(error) => assert!(error.to_string().contains(".indexignore:"), "{error}"),
    }
}

/// Patterns, and files that they are asked about.
pub fn ignore_seeds() -> Vec<Vec<u8>> {
    let files = "a/b.json\na/objects/c.yaml\na/d/e.md\nb.json\na/é [x]";
    ["**/*\n!*.json\n**/objects/*.yaml\n", "# no\n/b.json\nobjects/\n\\!x\n[a-c]*.md\n", "a/**/e.md\n*.md \n"]
        .map(|patterns| format!("{patterns}\n--\n{files}").into_bytes())
        .to_vec()
}

/// Versions print as what they were read from; ranges of both dialects are refused, or hold for a version or do not.
pub fn ranges(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(version) = Version::parse(&text) {
        assert_eq!(version.to_string(), text);
    }
    let versions: Vec<Version> =
        ["0.0.0", "1.0.0-alpha.1", "1.2.3", "1.2.3+b", "18446744073709551615.0.0"].iter().filter_map(|v| Version::parse(v).ok()).collect();
    if let Ok(range) = CatalogRange::parse(&text) {
        // In this dialect a version and its builds are one.
        assert_eq!(range.matches(&versions[2]), range.matches(&versions[3]), "{text}");
    }
    if let Ok(range) = ExtensionRange::parse(&text) {
        let _held = versions.iter().filter(|version| range.matches(version)).count();
    }
}

/// Versions and ranges of both dialects.
pub fn range_seeds() -> Vec<Vec<u8>> {
    [">=1.0.0 <2.0.0 || !=1.5.0", ">1.0.0-rc.1 !2.0.0", "^1.2, !=1.2.5 || 2.x", "~1.2.3-beta - 4", "1.2.3-a.1+b.2", "*", "<v1.0.0"]
        .map(|text| text.as_bytes().to_vec())
        .to_vec()
}
