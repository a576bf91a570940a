//! The definitions of OLM classic against those that upstream publishes.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use serde_json::{Value, json};

use crate::recorded::{Difference, differences, facts};

fn recorded(file: &str) -> Option<Value> {
    Some(mainstay_yaml::parse(&mainstay_testing::data::text(&format!("api-definitions/olm-v0/{file}"))?).unwrap())
}

/// Why a difference is wanted; `None` if it is an error.
fn wanted(difference: &Difference) -> Option<&'static str> {
    let Difference { path, ours, theirs } = difference;
    let absent = Value::Null;
    let ends = |tail: &str| path.ends_with(tail);
    if ends("/x-kubernetes-map-type") && *ours == absent && *theirs == "atomic" {
        let holders = ["/configMapRef/", "/secretRef/", "/configMap/", "/secret/"];
        return holders.iter().any(|holder| path.contains(holder)).then_some(
            "a reference inside ConfigMap and Secret sources is no atomic field in Kubernetes; upstream's generator takes the mark from the part inside",
        );
    }
    if ends("/hostAliases/items/properties/ip/default") && *theirs == "" {
        return Some("an address is required in Kubernetes: an alias without one is refused, not filled in");
    }
    if (ends("/azureDisk/properties/cachingMode/default") || ends("/azureDisk/properties/kind/default")) && *theirs == absent {
        return Some("Kubernetes has this default; upstream's generator cannot read it, since it refers to a constant");
    }
    if ends("/volumeClaimTemplate/properties/metadata/x-kubernetes-preserve-unknown-fields") && *theirs == absent {
        return Some("labels and annotations of a claim's template are kept; by upstream's definition they are lost");
    }
    None
}

/// OLM0-API-02, OLM0-API-03, OLM0-API-04, OLM0-API-06, OLM0-API-07, OLM0-API-08, OLM0-API-09, OLM0-API-10, OLM0-API-12, OLM0-API-13, OLM0-API-15,
/// OLM0-API-16, OLM0-API-17, OLM0-API-19, OLM0-API-20, OLM0-API-21, OLM0-API-22, OLM0-API-24, OLM0-API-25, OLM0-API-26: names, columns, versions
/// and schemas are those of upstream; each difference has its reason.
#[test]
fn classic_definitions_are_those_of_upstream() {
    let manifests = mainstay_api::classic_manifests().unwrap();
    assert_eq!(manifests.len(), 9);
    let mut compared = 0;
    for manifest in manifests.iter().filter(|manifest| manifest.definition["spec"]["group"] == "operators.coreos.com") {
        let Some(theirs) = recorded(&manifest.file) else { return };
        let mut out = Vec::new();
        differences("", &facts(&manifest.definition)["spec"], &facts(&theirs)["spec"], &mut out);
        out.retain(|difference| wanted(difference).is_none());
        let shown: Vec<String> = out.iter().map(Difference::to_string).collect();
        assert!(shown.is_empty(), "{}:\n{}", manifest.file, shown.join("\n"));
        compared += 1;
    }
    assert_eq!(compared, 8);
}

/// OLM0-API-32: OperatorHub is what the recorded releases have.
#[test]
fn operator_hub() {
    let manifests = mainstay_api::classic_manifests().unwrap();
    let hub = manifests.iter().find(|manifest| manifest.file == "config.openshift.io_operatorhubs.yaml").unwrap();
    assert_eq!(hub.definition["metadata"]["name"], "operatorhubs.config.openshift.io");
    let Some(payload) = mainstay_testing::data::archive("payload.tar.gz") else { return };
    let recorded: Vec<_> = payload.iter().filter(|(path, _)| path.ends_with("_marketplace_01_operatorhubs.crd.yaml")).collect();
    assert!(!recorded.is_empty());
    for (path, text) in recorded {
        let theirs = mainstay_yaml::parse(std::str::from_utf8(text).unwrap()).unwrap();
        let mut out = Vec::new();
        differences("", &facts(&hub.definition)["spec"], &facts(&theirs)["spec"], &mut out);
        let shown: Vec<String> = out.iter().map(Difference::to_string).collect();
        assert!(shown.is_empty(), "{path}:\n{}", shown.join("\n"));
    }
}

/// The places of fields without a description, embedded types left out.
fn undescribed(path: &str, schema: &Value, out: &mut Vec<String>) {
    if schema.get(mainstay_api::kubernetes::DEFINITION).is_some() {
        return;
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        if field["description"].as_str().is_none_or(str::is_empty) {
            out.push(path.clone());
        }
        undescribed(&path, field, out);
    }
    if let Some(items) = schema.get("items") {
        undescribed(&format!("{path}[]"), items, out);
    }
}

/// `kubectl explain` says something of every field of ours; embedded types have no descriptions, so that definitions stay small enough for
/// `kubectl apply`.
#[test]
fn classic_definitions_are_described_and_small() {
    for manifest in mainstay_api::classic_definitions() {
        for version in manifest.definition["spec"]["versions"].as_array().unwrap() {
            let mut out = Vec::new();
            let properties = &version["schema"]["openAPIV3Schema"]["properties"];
            for part in ["spec", "status"] {
                assert!(properties[part]["description"].is_string(), "{}: {part}", manifest.file);
                undescribed(part, &properties[part], &mut out);
            }
            assert!(out.is_empty(), "{}: {out:?}", manifest.file);
        }
    }
    let sizes = mainstay_api::classic_manifests().unwrap().into_iter().map(|manifest| manifest.definition.to_string().len());
    let sizes: Vec<usize> = sizes.collect();
    assert!(sizes.iter().all(|size| *size < 96 << 10) && sizes.iter().sum::<usize>() < 160 << 10, "{sizes:?}");
}

/// OLM0-API-05, OLM0-API-06, OLM0-API-07, OLM0-API-11: every recorded ClusterServiceVersion is valid, keeps its fields and gets its defaults as by upstream's definition; nothing
/// is lost but what upstream loses.
#[test]
fn real_versions_are_stored_as_upstream_stores_them() {
    let manifests = mainstay_api::classic_manifests().unwrap();
    let ours = manifests.iter().find(|manifest| manifest.file.ends_with("_clusterserviceversions.yaml")).unwrap();
    let Some(theirs) = recorded(&ours.file) else { return };
    let Some(bundles) = mainstay_testing::bundles::bundles() else { return };
    let schema = |crd: &Value| {
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        mainstay_schema::Schema::from_json(schema).unwrap()
    };
    let (ours, theirs) = (schema(&ours.definition), schema(&theirs));
    let stored = |schema: &mainstay_schema::Schema, csv: &Value| {
        let mut csv = csv.clone();
        mainstay_schema::prune::prune(schema, &mut csv);
        mainstay_schema::default::default(schema, &mut csv);
        let errors: Vec<String> = mainstay_schema::validate::validate(schema, &csv, &mainstay_schema::field::Path::root())
            .iter()
            .map(ToString::to_string)
            .collect();
        (csv, errors)
    };
    let (mut seen, mut lost) = (0, 0);
    for (name, files) in bundles {
        for text in files.values().filter_map(|bytes| std::str::from_utf8(bytes).ok()) {
            if !text.contains("ClusterServiceVersion") {
                continue;
            }
            let Ok(csv) = mainstay_yaml::parse(text) else { continue };
            if csv["kind"] != "ClusterServiceVersion" {
                continue;
            }
            let (by_ours, errors) = stored(&ours, &csv);
            let (by_theirs, wanted) = stored(&theirs, &csv);
            assert_eq!(errors, wanted, "{name}");
            let mut out = Vec::new();
            differences("", &by_ours, &by_theirs, &mut out);
            let shown: Vec<String> = out.iter().map(Difference::to_string).collect();
            assert!(shown.is_empty(), "{name}: {}", shown.join("\n"));
            seen += 1;
            lost += usize::from(by_ours != csv);
        }
    }
    assert!(seen > 100 && lost > 0, "{seen} seen, {lost} changed");
}

/// OLM0-API-14, OLM0-API-18: objects as they are written by hand and by controllers are valid, and no field of them is lost.
#[test]
fn examples_are_kept_whole() {
    let catalog = r#"
apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata: {name: team-catalog, namespace: openshift-marketplace, annotations: {olm.catalogImageTemplate: "reg.example/cat/team:v{kube_major_version}.{kube_minor_version}"}}
spec:
  sourceType: grpc
  image: reg.example/cat/team:v1.32
  displayName: Team Catalog
  publisher: Team
  priority: -400
  secrets: [reg-example-pull]
  grpcPodConfig:
    securityContextConfig: restricted
    nodeSelector: {pool: infra}
    priorityClassName: system-cluster-critical
    tolerations: [{key: dedicated, operator: Equal, value: infra, effect: NoSchedule}]
  updateStrategy: {registryPoll: {interval: 30m}}
status:
  connectionState: {address: "team-catalog.openshift-marketplace.svc:50051", lastConnect: "2026-01-01T00:00:00Z", lastObservedState: READY}
  latestImageRegistryPoll: "2026-01-01T00:00:00Z"
  registryService: {protocol: grpc, port: "50051", serviceName: team-catalog, serviceNamespace: openshift-marketplace, createdAt: "2026-01-01T00:00:00Z"}
"#;
    let subscription = r#"
apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata: {name: web, namespace: team}
spec: {name: web, source: team-catalog, sourceNamespace: openshift-marketplace}
status:
  lastUpdated: "2026-01-01T00:00:00Z"
  state: UpgradePending
  conditions:
  - {type: CatalogSourcesUnhealthy, status: "False", reason: AllCatalogSourcesHealthy, message: all available catalogsources are healthy, lastTransitionTime: "2026-01-01T00:00:00Z"}
  - {type: BundleUnpacking, status: "True", reason: UnpackingInProgress, lastHeartbeatTime: "2026-01-01T00:00:00Z"}
"#;
    let manifests = mainstay_api::classic_manifests().unwrap();
    for (text, plural) in [(catalog, "catalogsources"), (subscription, "subscriptions")] {
        let manifest = manifests.iter().find(|manifest| manifest.file.ends_with(&format!("_{plural}.yaml"))).unwrap();
        let schema = &manifest.definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let schema = mainstay_schema::Schema::from_json(schema).unwrap();
        let object = mainstay_yaml::parse(text).unwrap();
        let mut stored = object.clone();
        assert!(mainstay_schema::prune::prune(&schema, &mut stored).is_empty(), "{plural}");
        let errors = mainstay_schema::validate::validate(&schema, &stored, &mainstay_schema::field::Path::root());
        assert!(stored == object && errors.is_empty(), "{plural}: {errors:?}");
    }
}

/// COP-OLM0-04: the five resources are in namespaces, with the short names that people type.
#[test]
fn short_names() {
    let all = mainstay_api::classic_manifests().unwrap();
    for (kind, short) in [
        ("ClusterServiceVersion", "csv"),
        ("InstallPlan", "ip"),
        ("CatalogSource", "catsrc"),
        ("Subscription", "sub"),
        ("OperatorGroup", "og"),
    ] {
        let found = all.iter().find(|manifest| manifest.definition["spec"]["names"]["kind"] == kind);
        let spec = &found.unwrap_or_else(|| panic!("no {kind}")).definition["spec"];
        assert_eq!((&spec["group"], &spec["scope"]), (&json!("operators.coreos.com"), &json!("Namespaced")), "{kind}");
        assert!(spec["names"]["shortNames"].as_array().unwrap().contains(&json!(short)), "{kind}: {}", spec["names"]);
    }
}
