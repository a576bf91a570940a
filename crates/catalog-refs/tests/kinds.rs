//! What references turn out to be.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;

use mainstay_catalog::Limits;
use mainstay_catalog_refs::{
    Access, BUNDLE_LABEL, BoxError, CATALOG_LABEL, Content, DATABASE_LABEL, Error, ImageTemplate, Kind, Level, Place, migrate, open,
};
use mainstay_oci::{Client, ImageBuilder, Layout, Platform};
use tempfile::TempDir;

fn no_client() -> Result<Client, BoxError> {
    Err("nothing is pulled here".into())
}

fn opened(reference: &Path, accept: &[Kind]) -> Result<mainstay_catalog_refs::Opened, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(open(reference.to_str().unwrap(), &Access::new(&no_client, accept)))
}

/// A layout with one image of these files and labels.
fn layout(labels: &[(&str, &str)], files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::create(folder.path()).unwrap();
    let platform = Platform { os: "linux".to_owned(), architecture: "amd64".to_owned(), variant: None };
    let builder = labels.iter().fold(ImageBuilder::new().platform(platform), |builder, (key, value)| builder.label(*key, *value));
    let image =
        files.iter().fold(builder, |builder, (path, text)| builder.file(*path, text.as_bytes().to_vec())).build(layout.store()).unwrap();
    layout.add("x", &image).unwrap();
    folder
}

const CSV: &str = "\
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: app.v1.0.0, annotations: {b: '1', a: '2'}}
spec: {version: 1.0.0, displayName: App, MinKubeVersion: 1.30.0, description: A <b>}
";
const ANNOTATIONS: &str = "annotations: {operators.operatorframework.io.bundle.package.v1: app}\n";
const PACKAGE: &str = "schema: olm.package\nname: app\ndefaultChannel: stable\n";

/// CATLG-32, CATLG-51, OLM1-BUILD-03: labels are asked in upstream's order, and without one of them the image is nothing.
#[test]
fn images_by_their_labels() {
    let catalog = (CATALOG_LABEL, "/configs");
    let bundle = (BUNDLE_LABEL, "app");
    let files = [
        ("configs/index.yaml", PACKAGE),
        ("manifests/csv.yaml", CSV),
        ("metadata/annotations.yaml", ANNOTATIONS),
        ("database/index.db", "no database"),
    ];
    let kind = |labels: &[(&str, &str)]| opened(layout(labels, &files).path(), Kind::ANY).map(|opened| opened.kind);
    assert_eq!(kind(&[catalog, bundle]).unwrap(), Kind { content: Content::Catalog, place: Place::Layout });
    assert_eq!(kind(&[bundle]).unwrap(), Kind { content: Content::Bundle, place: Place::Layout });
    let database = kind(&[(DATABASE_LABEL, "/database/index.db"), catalog, bundle]).unwrap_err();
    assert!(matches!(database, Error::Database { .. }), "{}", database.to_line());
    let unknown = kind(&[("b", "2"), ("a", "1")]).unwrap_err().to_string();
    assert!(unknown.ends_with(": image type could not be determined, found labels\n  a=1\n  b=2"), "{unknown}");
    assert!(kind(&[]).unwrap_err().to_string().ends_with("image type could not be determined: image has no labels"));
    let refused = opened(layout(&[bundle], &files).path(), Kind::CATALOGS).unwrap_err().to_string();
    assert_eq!(refused, "cannot render bundle image layout: not allowed");
    let catalog = opened(layout(&[catalog], &files).path(), Kind::CATALOGS).unwrap();
    assert_eq!(catalog.into_catalog(&Limits::default()).unwrap().packages[0].name.as_str(), "app");
}

/// OLM0-BUNDLE-04: an image's labels say where its folders lie.
#[test]
fn folders_by_labels() {
    let labels = [
        (BUNDLE_LABEL, "app"),
        ("operators.operatorframework.io.bundle.manifests.v1", "elsewhere/manifests/"),
        ("operators.operatorframework.io.bundle.metadata.v1", "other/"),
    ];
    let image = layout(&labels, &[("elsewhere/manifests/csv.yaml", CSV), ("other/annotations.yaml", ANNOTATIONS)]);
    let catalog = opened(image.path(), Kind::BUNDLES).unwrap().into_catalog(&Limits::default()).unwrap();
    assert_eq!(catalog.bundles[0].name.as_str(), "app.v1.0.0");
    assert_eq!(catalog.bundles[0].package.as_str(), "app");
}

fn write(folder: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

/// CATLG-32: directories and files by what they hold.
#[test]
fn paths() {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    write(
        folder.path(),
        &[
            ("bundle/manifests/csv.yaml", CSV),
            ("bundle/metadata/annotations.yaml", ANNOTATIONS),
            ("catalog/index.yaml", PACKAGE),
            ("catalog.yaml", PACKAGE),
            ("fake.db", "SQLite format 3\0"),
        ],
    );
    for (path, expected) in [("bundle", Kind::BUNDLE_DIRECTORY), ("catalog", Kind::CATALOG_DIRECTORY), ("catalog.yaml", Kind::CATALOG_FILE)]
    {
        assert_eq!(opened(&at(path), Kind::ANY).unwrap().kind, expected, "{path}");
    }
    assert!(matches!(opened(&at("fake.db"), Kind::ANY).unwrap_err(), Error::Database { .. }));
    let file = opened(&at("catalog.yaml"), Kind::OPM_RENDER).unwrap_err().to_string();
    assert!(file.ends_with("has unsupported file type: {{  } unknown}"), "{file}");
    assert!(matches!(opened(&at("none.yaml"), Kind::ANY).unwrap_err(), Error::NoFile(_)));
    let source = opened(&at("bundle"), Kind::ANY).unwrap();
    let lines = source.source().unwrap();
    let catalog = mainstay_catalog::Catalog::load(lines.as_ref(), &Limits::default()).unwrap();
    assert_eq!(catalog.bundles.len(), 1);
}

/// CATLG-32: bundles of directories get the image that a pattern gives them, and only what has an image is migrated; keys keep the order
/// that upstream's program gives them.
#[test]
fn migrations() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &[("manifests/csv.yaml", CSV), ("metadata/annotations.yaml", ANNOTATIONS)]);
    let template = ImageTemplate::parse("q.io/{{.Package}}:{{.Version}}").unwrap();
    let load = |template: Option<&ImageTemplate>| {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let access = Access { image_template: template, ..Access::new(&no_client, Kind::ANY) };
        let opened = runtime.block_on(open(folder.path().to_str().unwrap(), &access)).unwrap();
        opened.into_catalog(&Limits::default()).unwrap()
    };
    let kinds = |catalog: &mainstay_catalog::Catalog| {
        catalog.bundles[0].properties.iter().map(|property| property.kind.clone()).collect::<Vec<_>>()
    };
    let mut without = load(None);
    migrate(&mut without, Level::ALL).unwrap();
    assert_eq!((without.bundles[0].image.as_str(), kinds(&without)), ("", vec!["olm.package".to_owned(), "olm.bundle.object".to_owned()]));
    let mut with = load(Some(&template));
    assert_eq!(with.bundles[0].image, "q.io/app:1.0.0");
    migrate(&mut with, Level::None).unwrap();
    assert_eq!(kinds(&with)[1], "olm.bundle.object");
    migrate(&mut with, "all".parse().unwrap()).unwrap();
    assert_eq!(
        with.bundles[0].properties[1].value.get(),
        r#"{"annotations":{"a":"2","b":"1"},"apiServiceDefinitions":{},"crdDescriptions":{},"description":"A <b>","displayName":"App","minKubeVersion":"1.30.0","provider":{}}"#
    );
    assert_eq!("newest".parse::<Level>().unwrap_err().to_string(), "unknown migration level \"newest\"");
}
