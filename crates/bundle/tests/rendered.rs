//! What every real bundle renders to, in all modes and with all certificate providers: kept as digests, since the content is not ours.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::common;
use mainstay_bundle::{Bundle, CertificateProvider, RenderOptions, render};
use serde_json::Value;

/// OLM1-INST-08, OLM1-INST-17: a rendering changes only when somebody meant it to, and equal input gives equal bytes however often and in
/// whatever order the files come.
#[test]
fn renderings_are_as_they_were_and_repeat() {
    let (Some(bundles), Some(legacy)) = (common::bundles(), common::legacy()) else { return };
    let modes: [(&str, Option<Vec<String>>); 3] =
        [("default", None), ("own", Some(vec!["work".to_owned()])), ("single", Some(vec!["elsewhere".to_owned()]))];
    let providers = [
        ("none", CertificateProvider::None),
        ("cert-manager", CertificateProvider::CertManager),
        ("service-ca", CertificateProvider::OpenshiftServiceCa),
    ];
    let mut report = String::new();
    let mut rendered = 0;
    for (name, files) in bundles.iter().chain(legacy) {
        let Ok(bundle) = Bundle::read(files) else { continue };
        let backwards: Vec<(String, Vec<u8>)> = files.iter().rev().map(|(path, bytes)| (path.clone(), bytes.clone())).collect();
        let again = Bundle::read(backwards).unwrap();
        let mut lines: Vec<(String, String)> = Vec::new();
        for (mode, targets) in &modes {
            for (provider, certificates) in providers {
                let options = RenderOptions {
                    install_namespace: "work".to_owned(),
                    target_namespaces: targets.clone(),
                    certificates,
                    deployment: None,
                };
                let line = match render(&bundle, &options) {
                    Ok(objects) => {
                        rendered += 1;
                        let bytes = Value::from(objects.clone()).to_string();
                        assert_eq!(Value::from(render(&again, &options).unwrap()).to_string(), bytes, "{name} {mode} {provider}");
                        format!("{} {}", kinds(&objects), common::sha256(&Value::from(objects)))
                    }
                    Err(error) => {
                        assert_eq!(render(&again, &options).unwrap_err().to_string(), error.to_string(), "{name} {mode} {provider}");
                        format!("refused: {}", error.to_string().replace('\n', " | "))
                    }
                };
                match lines.iter_mut().find(|(_, other)| *other == line) {
                    Some((what, _)) => {
                        let _ = write!(what, ", {mode} {provider}");
                    }
                    None => lines.push((format!("{mode} {provider}"), line)),
                }
            }
        }
        let _ = writeln!(report, "{name}");
        for (what, line) in lines {
            let _ = writeln!(report, "  {what}: {line}");
        }
    }
    assert!(rendered > 500, "{rendered} renderings");
    insta::assert_snapshot!(report);
}

/// `3 Deployment, 1 Service` ...
fn kinds(objects: &[Value]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for object in objects {
        *counts.entry(object["kind"].as_str().unwrap()).or_default() += 1;
    }
    counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect::<Vec<_>>().join(", ")
}
