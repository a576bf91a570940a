//! Many namespaces and CSVs.

use serde_json::json;

use crate::support::{Api, crd, csv, csv_at, settled};

/// OLM0-OG-19: a copy in each of many namespaces, and a change of one object costs few reconciles.
#[tokio::test(flavor = "multi_thread")]
async fn many_namespaces() {
    const NAMESPACES: usize = 120;
    let api = Api::start().await;
    for at in 0..NAMESPACES {
        api.namespace(&format!("tenant-{at}"), json!({})).await;
    }
    api.namespace("home", json!({})).await;
    api.group("home", "g", json!({})).await;
    for operator in ["widgets", "gadgets", "gears"] {
        api.apply(crd(operator)).await;
        let object = api.apply(csv("home", operator, "1.0.0", &["AllNamespaces"])).await;
        api.permissions(&object).await;
        api.phase("home", &format!("{operator}.v1.0.0"), "Succeeded", "InstallSucceeded").await;
    }
    let copied = |copy: &serde_json::Value| copy["status"]["reason"] == "Copied" && copy["status"]["phase"] == "Succeeded";
    for at in 0..NAMESPACES {
        for operator in ["widgets", "gadgets", "gears"] {
            api.until(&csv_at(&format!("tenant-{at}"), &format!("{operator}.v1.0.0")), copied).await;
        }
    }
    let reconciles = || async {
        let page = api.env.metrics().page().unwrap();
        let own = page.lines().filter(|line| line.starts_with("controller_runtime_reconcile_total{controller=\"olm-"));
        own.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum::<u64>()
    };
    let before = settled(reconciles).await;
    let tenant = crate::support::place("v1", "Namespace", "", "tenant-7");
    api.patch(&tenant, json!({"metadata": {"labels": {"some": "label"}}})).await;
    api.delete(&csv_at("tenant-8", "widgets.v1.0.0")).await;
    api.until(&csv_at("tenant-8", "widgets.v1.0.0"), copied).await;
    let cost = settled(reconciles).await - before;
    assert!(cost < 20, "{cost} reconciles for two changes");
    api.close().await;
}

/// OLM0-CSV-01: the work for each of many CSVs in one namespace does not grow with their number.
#[tokio::test(flavor = "multi_thread")]
async fn many_csvs() {
    const CSVS: usize = 60;
    let api = Api::start().await;
    api.namespace("home", json!({})).await;
    api.group("home", "g", json!({"targetNamespaces": ["home"]})).await;
    for at in 0..CSVS {
        let operator = format!("op{at}s");
        api.apply(crd(&operator)).await;
        let object = api.apply(csv("home", &operator, "1.0.0", &["OwnNamespace"])).await;
        api.permissions(&object).await;
    }
    for at in 0..CSVS {
        api.phase("home", &format!("op{at}s.v1.0.0"), "Succeeded", "InstallSucceeded").await;
    }
    let page = api.env.metrics().page().unwrap();
    let own = page.lines().filter(|line| line.starts_with("controller_runtime_reconcile_total{controller=\"olm-operator\""));
    let reconciles: u64 = own.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum();
    assert!(reconciles < 40 * CSVS as u64, "{reconciles} reconciles for {CSVS} CSVs");
    api.close().await;
}
