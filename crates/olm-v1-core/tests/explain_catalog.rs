//! What people are told about a catalog or a package by itself (MS-EXPL-02).
#![allow(clippy::unwrap_used, clippy::panic)]

use insta::assert_snapshot;
use mainstay_diagnostics::SharedError;
use mainstay_olm_v1_core::extension::explain::{CatalogFacts, PackageFacts, explain_catalog, explain_package};
use mainstay_olm_v1_core::extension::facts::CatalogContent;
use mainstay_resolver::{CandidateCatalog, CatalogState, Request, resolve};
use serde_json::{Value, json};

use crate::explain::{cluster_catalog, condition, now};
use crate::scene::{STABLE, Scene, catalog, table};

/// MS-EXPL-02, OLM1-CAT-08, OLM1-CAT-09: a catalog by itself.
#[test]
fn catalogs() {
    let tell = |catalog: &Value, content: Option<Result<(usize, usize), SharedError>>, used_by: &[&str]| {
        let facts = CatalogFacts {
            catalog: serde_json::from_value(catalog.clone()).unwrap(),
            content,
            used_by: used_by.iter().map(|name| (*name).to_owned()).collect(),
            events: Vec::new(),
            now: now(),
        };
        explain_catalog(&facts).text(now())
    };
    let serving = || condition("Serving", "True", "Available", "Serving desired content from resolved source");
    let failing =
        |message: &str| json!([condition("Progressing", "True", "Retrying", message), condition("Serving", "False", "Unavailable", "")]);
    let available = |conditions: &Value| cluster_catalog("main", "Available", conditions);
    assert_snapshot!(table(&[
        ("serving", tell(&available(&json!([serving()])), Some(Ok((3, 12))), &["widgets"])),
        ("unreachable from here", tell(&available(&json!([serving()])), Some(Err("https://catalog/: connection refused".into())), &[])),
        ("switched off", tell(&cluster_catalog("main", "Unavailable", &json!([])), None, &[])),
        ("unpacking", tell(&available(&json!([])), None, &[])),
        ("not there", tell(&available(&failing("source catalog content: registry.example.com/catalog:v1: manifest unknown")), None, &[])),
        ("bad content", tell(&available(&failing("error storing fbc: main/catalog.yaml: line 3: no name")), None, &[])),
        (
            "older content",
            tell(
                &available(&json!([condition("Progressing", "True", "Retrying", "registry.example.com: 401 Unauthorized"), serving()])),
                Some(Ok((3, 12))),
                &[]
            )
        ),
    ]));
}

/// MS-EXPL-02: a package by itself.
#[test]
fn packages() {
    let tell = |package: &str, scene: &Scene, extensions: &[(&str, Option<&str>)]| {
        let catalogs: Vec<CandidateCatalog<'_>> = scene
            .catalogs
            .iter()
            .map(|fact| {
                let CatalogContent::Served(source) = &fact.content else { panic!("no content") };
                CandidateCatalog {
                    name: &fact.name,
                    labels: &fact.labels,
                    priority: fact.priority,
                    state: CatalogState::Content(&**source),
                }
            })
            .collect();
        let facts = PackageFacts {
            package: package.to_owned(),
            outcome: resolve(&Request { package: package.to_owned(), ..Request::default() }, &catalogs),
            offers: if package == "widgets" {
                vec![("main".into(), vec!["2.0.0".into(), "1.1.0".into(), "1.0.0".into()])]
            } else {
                Vec::new()
            },
            channels: if package == "widgets" { vec!["stable".into()] } else { Vec::new() },
            catalogs: vec![serde_json::from_value(cluster_catalog("main", "Available", &json!([]))).unwrap()],
            trial: None,
            extensions: extensions.iter().map(|(name, version)| ((*name).to_owned(), version.map(str::to_owned))).collect(),
            now: now(),
        };
        explain_package(&facts).text(now())
    };
    let scene = Scene::new();
    let mut two = Scene::new();
    two.catalogs.push(catalog("other", STABLE));
    assert_snapshot!(table(&[
        ("to be had", tell("widgets", &scene, &[])),
        ("installed", tell("widgets", &scene, &[("widgets", Some("1.1.0"))])),
        ("nearly", tell("widgts", &scene, &[])),
        ("unknown", tell("strange", &scene, &[])),
        ("two equal catalogs", tell("widgets", &two, &[])),
    ]));
}
