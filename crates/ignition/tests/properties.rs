//! Properties of all configs, against slow and obvious ways to the same results.

use std::collections::BTreeMap;
use std::io::Read as _;

use base64::Engine as _;
use mainstay_ignition::butane::{self, NoFiles, Options};
use mainstay_ignition::{Config, data_url, parse};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Files by path with content and mode, and units by name, from few names, so that configs have some in common.
fn config() -> impl Strategy<Value = Value> {
    let files = prop::collection::btree_map("[a-d]", ("[x-z]{0,2}", prop::option::of(0..0o777)), 0..4);
    let units = prop::collection::btree_map("[a-d]", prop::option::of(any::<bool>()), 0..4);
    (files, units).prop_map(|(files, units)| {
        let files: Vec<Value> = files
            .into_iter()
            .map(|(name, (text, mode))| {
                let mut file = json!({"path": format!("/etc/{name}"), "contents": {"source": format!("data:,{text}")}});
                if let Some(mode) = mode {
                    file["mode"] = json!(mode);
                }
                file
            })
            .collect();
        let units: Vec<Value> = units
            .into_iter()
            .map(|(name, enabled)| {
                let mut unit = json!({"name": format!("{name}.service")});
                if let Some(enabled) = enabled {
                    unit["enabled"] = json!(enabled);
                }
                unit
            })
            .collect();
        json!({"ignition": {"version": "3.4.0"}, "storage": {"files": files}, "systemd": {"units": units}})
    })
}

fn read(value: &Value) -> Config {
    parse(&value.to_string()).unwrap().config
}

fn written(config: &Config) -> Value {
    serde_json::from_str(&config.to_json()).unwrap()
}

/// Entries of a list by their key, the later ones over the earlier ones, each field on its own.
fn overlaid(configs: &[&Value], section: &str, list: &str, key: &str) -> BTreeMap<String, Value> {
    let mut all: BTreeMap<String, Value> = BTreeMap::new();
    for config in configs {
        for entry in config[section][list].as_array().unwrap() {
            let slot = all.entry(entry[key].as_str().unwrap().to_owned()).or_insert_with(|| json!({}));
            for (name, value) in entry.as_object().unwrap() {
                slot[name] = value.clone();
            }
        }
    }
    all
}

proptest! {
    /// MACH-MC-02: how configs are grouped does not matter, and one that says nothing changes nothing.
    #[test]
    fn merge_is_associative(a in config(), b in config(), c in config()) {
        let (a, b, c) = (read(&a), read(&b), read(&c));
        prop_assert_eq!(a.merged_with(&b).merged_with(&c), a.merged_with(&b.merged_with(&c)));
        let nothing = Config::default();
        prop_assert_eq!(written(&a.merged_with(&nothing)), written(&a));
        prop_assert_eq!(written(&nothing.merged_with(&a)), written(&a));
        prop_assert_eq!(written(&a.merged_with(&a)), written(&a));
    }

    /// MACH-MC-02: later values win, field by field, and entries stay where they were said first.
    #[test]
    fn merge_is_an_overlay(a in config(), b in config()) {
        let merged = written(&read(&a).merged_with(&read(&b)));
        for (section, list, key) in [("storage", "files", "path"), ("systemd", "units", "name")] {
            let expected = overlaid(&[&a, &b], section, list, key);
            let entries = merged[section][list].as_array().cloned().unwrap_or_default();
            prop_assert_eq!(entries.len(), expected.len());
            let mut order: Vec<Value> = Vec::new();
            for entry in a[section][list].as_array().unwrap().iter().chain(b[section][list].as_array().unwrap()) {
                if !order.contains(&entry[key]) {
                    order.push(entry[key].clone());
                }
            }
            for (entry, name) in entries.iter().zip(&order) {
                prop_assert_eq!(&entry[key], name);
                prop_assert_eq!(entry, &expected[name.as_str().unwrap()]);
            }
        }
    }

    /// MACH-MC-08: what is written is read again as the same.
    #[test]
    fn written_configs_are_read(a in config()) {
        let a = read(&a);
        prop_assert_eq!(parse(&a.to_json()).unwrap().config.to_json(), a.to_json());
    }

    /// Data URLs carry any content.
    #[test]
    fn data_urls(content in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert_eq!(&data_url::decode(&data_url::escaped(&content)).unwrap(), &content);
        prop_assert_eq!(&data_url::decode(&data_url::base64_url(&content)).unwrap(), &content);
        let theirs = base64::engine::general_purpose::STANDARD.encode(&content);
        prop_assert!(data_url::base64_url(&content).ends_with(&theirs));
    }

    /// MACH-MC-09: a text in a Butane config is the content of the file, compressed or not.
    #[test]
    fn embedded_texts(text in "([a-z ]{0,40}|[ab]{0,2000}|[ -~]{0,300})") {
        let config = json!({"variant": "fcos", "version": "1.5.0", "storage": {"files": [{"path": "/a", "contents": {"inline": text}}]}});
        let answer = butane::answer(&config.to_string(), Options::default(), &NoFiles);
        prop_assert_eq!(answer.status, 0, "{}", answer.stderr);
        let made: Value = serde_json::from_str(&answer.stdout).unwrap();
        let contents = &made["storage"]["files"][0]["contents"];
        let content = data_url::decode(contents["source"].as_str().unwrap()).unwrap();
        let content = if contents["compression"] == "gzip" {
            let mut plain = Vec::new();
            flate2::read::GzDecoder::new(content.as_slice()).read_to_end(&mut plain).unwrap();
            plain
        } else {
            content
        };
        prop_assert_eq!(String::from_utf8(content).unwrap(), text);
    }
}
