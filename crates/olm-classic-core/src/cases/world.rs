//! The world of a namespace as the records write it.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use crate::api::Api;
use crate::resolve::{Catalog, CatalogFailure, Content, Csv, OperatorGroup, RegistryBundle, Snapshot, Subscription};
use crate::source::SourceKey;

/// Why an input is none of the expected form.
#[derive(Debug, thiserror::Error)]
pub enum InvalidCase {
    /// A field is missing or of another type.
    #[error(transparent)]
    Form(#[from] serde_json::Error),
    /// A field of a Kubernetes object has the wrong type.
    #[error(transparent)]
    Object(#[from] mainstay_bundle::go::Mismatch),
    /// A role or a binding cannot be read.
    #[error(transparent)]
    Role(#[from] mainstay_rbac::Error),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct World {
    namespace: String,
    #[serde(default)]
    global_namespace: String,
    #[serde(default)]
    operator_groups: Vec<Group>,
    #[serde(default)]
    catalogs: Vec<CatalogCase>,
    #[serde(default)]
    csvs: Vec<CsvCase>,
    #[serde(default)]
    subscriptions: Vec<SubscriptionCase>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Group {
    name: String,
    upgrade_strategy: String,
    exclude_global_annotation: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct CatalogCase {
    name: String,
    namespace: String,
    priority: i64,
    bundles: Option<Vec<RegistryBundle>>,
    no_client: bool,
    list_error: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct CsvCase {
    name: String,
    namespace: String,
    version: String,
    replaces: String,
    phase: String,
    copied: bool,
    properties_annotation: Option<String>,
    #[serde(rename = "ownedCRDs")]
    owned_crds: Vec<Crd>,
    #[serde(rename = "requiredCRDs")]
    required_crds: Vec<Crd>,
    #[serde(rename = "ownedAPIServices")]
    owned_api_services: Vec<Api>,
    #[serde(rename = "requiredAPIServices")]
    required_api_services: Vec<Api>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Crd {
    name: String,
    version: String,
    kind: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct SubscriptionCase {
    name: String,
    package: String,
    channel: String,
    catalog_source: String,
    catalog_source_namespace: String,
    #[serde(rename = "startingCSV")]
    starting_csv: String,
    #[serde(rename = "installedCSV")]
    installed_csv: String,
    #[serde(rename = "currentCSV")]
    current_csv: String,
}

/// Reads an input; a field that is null is as good as absent, as Go reads it.
pub(super) fn read<T: serde::de::DeserializeOwned>(input: &Value) -> Result<T, serde_json::Error> {
    fn without_nulls(value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let set = fields.iter().filter(|(_, value)| !value.is_null());
                Value::Object(set.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
            }
            Value::Array(items) => items.iter().map(without_nulls).collect(),
            other => other.clone(),
        }
    }
    T::deserialize(without_nulls(input))
}

/// Reads a world.
pub fn snapshot(input: &Value) -> Result<Snapshot, InvalidCase> {
    let world = read::<World>(input)?;
    Ok(Snapshot {
        namespace: world.namespace,
        global_namespace: world.global_namespace,
        operator_groups: world.operator_groups.into_iter().map(group).collect(),
        catalogs: world.catalogs.into_iter().map(catalog).collect(),
        csvs: world.csvs.into_iter().map(csv).collect(),
        subscriptions: world.subscriptions.into_iter().map(subscription).collect(),
    })
}

fn group(group: Group) -> OperatorGroup {
    OperatorGroup {
        fails_forward: group.upgrade_strategy == "TechPreviewUnsafeFailForward",
        excludes_global: group.exclude_global_annotation == "true",
        name: group.name,
    }
}

fn catalog(case: CatalogCase) -> Catalog {
    let key = SourceKey { name: case.name, namespace: case.namespace };
    let content = if case.no_client {
        Err(CatalogFailure::NoConnection(key.clone()))
    } else if case.list_error.is_empty() {
        Ok(Arc::new(Content::of_registry(case.bundles.unwrap_or_default())))
    } else {
        Err(CatalogFailure::List(case.list_error))
    };
    Catalog { key, priority: case.priority, content }
}

fn csv(case: CsvCase) -> Csv {
    let crds = |crds: Vec<Crd>| crds.into_iter().map(|crd| (crd.name, crd.version, crd.kind)).collect();
    Csv {
        name: case.name,
        namespace: case.namespace,
        version: case.version,
        replaces: case.replaces,
        phase: case.phase,
        copied: case.copied,
        properties: case.properties_annotation,
        owned_crds: crds(case.owned_crds),
        required_crds: crds(case.required_crds),
        owned_api_services: case.owned_api_services,
        required_api_services: case.required_api_services,
    }
}

fn subscription(case: SubscriptionCase) -> Subscription {
    Subscription {
        name: case.name,
        package: case.package,
        channel: case.channel,
        catalog: SourceKey { name: case.catalog_source, namespace: case.catalog_source_namespace },
        starting_csv: case.starting_csv,
        installed_csv: case.installed_csv,
        current_csv: case.current_csv,
    }
}
