//! Steps, permissions and Deployments of a bundle in the form of the records.

use mainstay_bundle::Csv;
use mainstay_bundle::go::{Mismatch, fold};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::sha256;
use super::world::read;
use crate::deployments::{Authority, Strategy, StrategyError, Write};
use crate::overrides::SubscriptionConfig;
use crate::owner::Owner;
use crate::permissions;
use crate::properties::{self, Property};
use crate::source::SourceKey;
use crate::steps::{self, BundleContent, Loaded, Step, StepError};

/// The namespace and the UID of the CSV in the records.
const OWNER: (&str, &str) = ("op-ns", "11111111-2222-3333-4444-555555555555");

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum BundleCaseError {
    /// The input has another form.
    #[error("input: {0}")]
    Input(#[from] serde_json::Error),
    /// The bundle has no plan.
    #[error(transparent)]
    Steps(#[from] StepError),
    /// The CSV cannot be read.
    #[error("CSV: {0}")]
    Csv(#[from] Mismatch),
    /// The strategy cannot be carried out.
    #[error(transparent)]
    Strategy(#[from] StrategyError),
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StepsInput {
    namespace: String,
    replaces: String,
    catalog_source: String,
    catalog_source_namespace: String,
    properties: Vec<Property>,
}

/// The answer `steps`.
pub fn plan(loaded: &Loaded, input: &Value) -> Result<Value, BundleCaseError> {
    let input: StepsInput = read(input)?;
    let content = BundleContent { name: &loaded.name, csv_json: &loaded.csv_json, objects: &loaded.objects, properties: &input.properties };
    let catalog = SourceKey { name: input.catalog_source, namespace: input.catalog_source_namespace };
    let mut steps: Vec<Value> = steps::of_bundle(content, &input.namespace, &input.replaces, &catalog)?.iter().map(step).collect();
    let text = |step: &Value, field: &str| step[field].as_str().unwrap_or_default().to_owned();
    steps.sort_by_cached_key(|step| {
        let kind = text(step, "kind");
        let part = ["ClusterServiceVersion", "CustomResourceDefinition"].iter().position(|first| kind == *first).unwrap_or(2);
        (part, kind, text(step, "name"), text(step, "manifestSHA256"))
    });
    Ok(json!(steps))
}

fn step(step: &Step) -> Value {
    // What a step writes is JSON.
    let manifest: Value = serde_json::from_str(&step.manifest).unwrap_or_default();
    let mut told = json!({
        "resolving": step.resolving, "kind": step.kind, "group": step.group, "version": step.version, "name": step.name,
        "status": steps::UNKNOWN, "manifestSHA256": sha256(&manifest),
    });
    if step.kind == "ClusterServiceVersion" {
        let mut parts = Map::new();
        for (key, value) in manifest.as_object().into_iter().flatten() {
            match (key.as_str(), value) {
                ("metadata" | "spec", Value::Object(fields)) => {
                    parts.extend(fields.iter().map(|(field, value)| (format!("{key}.{field}"), json!(sha256(value)))));
                }
                _ => {
                    parts.insert(key.clone(), json!(sha256(value)));
                }
            }
        }
        told["partsSHA256"] = Value::Object(parts);
        told["propertiesAnnotation"] = manifest["metadata"]["annotations"][properties::ANNOTATION].clone();
        told["statusPart"] = manifest["status"].clone();
    }
    told
}

fn csv(loaded: &Loaded, annotations: &[(&str, &str)]) -> Result<Csv, BundleCaseError> {
    let object = mainstay_golang::json_reader::parse(loaded.csv_json.as_bytes()).map_err(StepError::Json)?;
    let mut csv = Csv::parse(&fold("operators.ClusterServiceVersion", &object))?;
    csv.annotations.extend(annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    Ok(csv)
}

fn owner(csv: &Csv) -> Owner<'_> {
    Owner { api_version: csv.api_version(), name: &csv.name, namespace: OWNER.0, uid: OWNER.1 }
}

/// The answer `permissions`.
pub fn permissions(loaded: &Loaded) -> Result<Value, BundleCaseError> {
    let csv = csv(loaded, &[])?;
    let mut answer = Map::new();
    for (account, granted) in permissions::of(&csv, &owner(&csv)).map_err(StepError::Strategy)? {
        let mut told = json!({"serviceAccount": granted.service_account});
        let lists = [
            ("roles", granted.roles),
            ("roleBindings", granted.role_bindings),
            ("clusterRoles", granted.cluster_roles),
            ("clusterRoleBindings", granted.cluster_role_bindings),
        ];
        for (name, objects) in lists {
            told[name] = objects.into_iter().map(without_rules).collect();
        }
        answer.insert(account, told);
    }
    Ok(Value::Object(answer))
}

fn without_rules(mut object: Value) -> Value {
    if let Some(rules) = object.as_object_mut().and_then(|object| object.remove("rules")) {
        object["ruleCount"] = json!(rules.as_array().map_or(0, Vec::len));
        object["rulesSHA256"] = json!(sha256(&rules));
    }
    object
}

/// The answers `plain` and `withCertificates`.
pub fn deployments(loaded: &Loaded) -> Result<Value, BundleCaseError> {
    let group = [("olm.operatorGroup", "og"), ("olm.operatorNamespace", OWNER.0), ("olm.targetNamespaces", "")];
    let csv = csv(loaded, &group)?;
    permissions::check_strategy(&csv).map_err(StepError::Strategy)?;
    let config = SubscriptionConfig::default();
    let strategy = Strategy { csv: &csv, owner: owner(&csv), config: &config, proxy: &[] };
    let plain: Vec<Value> = strategy.deployments().into_iter().map(short).collect();
    let mut answer = json!({"plain": {"deployments": plain}});
    if !csv.webhooks.is_empty() || !csv.owned_api_services.is_empty() {
        let authority = Authority { bundle: "CAPEM".to_owned(), hash: "CAHASH".to_owned() };
        let (deployments, writes) = strategy.with_certificates(&authority, &None)?;
        let deployments: Vec<Value> = deployments.into_iter().map(random_hash).map(short).collect();
        // The records tell each write once, and conversions last.
        let (conversions, others): (Vec<Write>, Vec<Write>) =
            writes.into_iter().partition(|write| matches!(write, Write::Conversion { .. }));
        let mut objects: Vec<Value> = Vec::new();
        for object in others.into_iter().chain(conversions).map(write) {
            if !objects.contains(&object) {
                objects.push(object);
            }
        }
        answer["withCertificates"] = json!({"deployments": deployments, "objects": objects});
    }
    Ok(answer)
}

/// The hash of what holds a random part is random.
fn random_hash(mut deployment: Value) -> Value {
    if !deployment["spec"]["template"]["metadata"]["annotations"]["olmcahash"].is_null() {
        deployment["metadata"]["labels"][crate::deployments::HASH_LABEL] = json!("VARIES");
    }
    deployment
}

/// A Deployment as the records tell it: with an empty status, and long annotations by their hash.
fn short(mut deployment: Value) -> Value {
    const LONGEST: usize = 200;
    deployment["status"] = json!({});
    for metadata in ["/metadata/annotations", "/spec/template/metadata/annotations"] {
        for value in deployment.pointer_mut(metadata).and_then(Value::as_object_mut).into_iter().flat_map(|map| map.values_mut()) {
            if let Some(text) = value.as_str().filter(|text| text.len() > LONGEST) {
                *value = json!(format!("sha256:{}", super::hex(&Sha256::digest(text.as_bytes()))));
            }
        }
    }
    deployment
}

fn write(write: Write) -> Value {
    match write {
        Write::Apply { resource, object } => json!({
            "verb": "patch", "patchType": "application/apply-patch+yaml", "resource": resource, "name": object["metadata"]["name"],
            "namespace": object["metadata"]["namespace"].as_str().unwrap_or_default(), "patch": object,
        }),
        Write::Create { resource, object } => {
            // Resources of the cluster are written without a namespace.
            let namespaced = matches!(resource, "secrets" | "roles" | "rolebindings");
            let namespace = object["metadata"]["namespace"].as_str().filter(|_| namespaced).unwrap_or_default();
            json!({"verb": "create", "resource": resource, "namespace": namespace, "object": object})
        }
        Write::Conversion { crd, conversion } => json!({
            "verb": "update", "resource": "customresourcedefinitions", "name": crd, "namespace": "", "conversion": conversion,
        }),
    }
}
