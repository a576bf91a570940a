//! The CRD manifests of OLM classic (OLM0-API-02, OLM0-API-03).

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use crate::manifest::{Manifest, put_right};
use crate::operators_v1alpha1::catalog_source::{CatalogSourceSpec, CatalogSourceStatus};
use crate::operators_v1alpha1::cluster_service_version::{ClusterServiceVersionSpec, ClusterServiceVersionStatus};
use crate::operators_v1alpha1::install_plan::{InstallPlanSpec, InstallPlanStatus};
use crate::operators_v1alpha1::subscription::{SubscriptionSpec, SubscriptionStatus};
use crate::{config_v1, operators_v1, operators_v1alpha2, operators_v2};

/// The group of OLM classic's kinds.
pub const GROUP: &str = "operators.coreos.com";
/// The group of OperatorHub.
pub const CONFIG_GROUP: &str = "config.openshift.io";

macro_rules! file {
    ($name:literal) => {
        ($name, include_str!(concat!("../manifests/classic/", $name)))
    };
}

/// The checked-in manifests by file.
const FILES: [(&str, &str); 9] = [
    file!("config.openshift.io_operatorhubs.yaml"),
    file!("operators.coreos.com_catalogsources.yaml"),
    file!("operators.coreos.com_clusterserviceversions.yaml"),
    file!("operators.coreos.com_installplans.yaml"),
    file!("operators.coreos.com_olmconfigs.yaml"),
    file!("operators.coreos.com_operatorconditions.yaml"),
    file!("operators.coreos.com_operatorgroups.yaml"),
    file!("operators.coreos.com_operators.yaml"),
    file!("operators.coreos.com_subscriptions.yaml"),
];

/// The manifests of OLM classic's kinds, OperatorHub among them, as they are checked in.
///
/// # Errors
/// When a checked-in file is no YAML.
pub fn classic_manifests() -> Result<Vec<Manifest>, mainstay_yaml::Error> {
    let read = |(file, text): &(&str, &str)| Ok(Manifest { file: (*file).to_owned(), definition: mainstay_yaml::parse(text)? });
    FILES.iter().map(read).collect()
}

/// A kind with its versions, the storage version first.
pub(crate) struct Kind {
    pub group: &'static str,
    pub name: &'static str,
    pub plural: &'static str,
    pub short_names: &'static [&'static str],
    pub scope: &'static str,
    pub description: &'static str,
    pub columns: &'static [Column],
    pub versions: Vec<Version>,
}

/// A printer column: name, type, path and description.
pub(crate) type Column = (&'static str, &'static str, &'static str, &'static str);

pub(crate) struct Version {
    name: &'static str,
    spec: Value,
    status: Value,
    /// The fields that an object must have.
    required: &'static [&'static str],
}

impl Version {
    pub(crate) fn of<Spec: JsonSchema, Status: JsonSchema>(name: &'static str, required: &'static [&'static str]) -> Self {
        Self { name, spec: schema::<Spec>(), status: schema::<Status>(), required }
    }
}

/// The definitions as the types give them: an embedded type of Kubernetes is a name (see [`crate::kubernetes`]).
pub fn classic_definitions() -> Vec<Manifest> {
    kinds().into_iter().map(manifest).collect()
}

fn kinds() -> Vec<Kind> {
    const SPEC: &[&str] = &["metadata", "spec"];
    const METADATA: &[&str] = &["metadata"];
    let alpha = |name, plural, short_names, description, columns, version| Kind {
        group: GROUP,
        name,
        plural,
        short_names,
        scope: "Namespaced",
        description,
        columns,
        versions: vec![version],
    };
    vec![
        alpha(
            "ClusterServiceVersion",
            "clusterserviceversions",
            &["csv", "csvs"],
            "One version of an operator, as it is installed.",
            &[
                ("Display", "string", ".spec.displayName", "Name for people"),
                ("Version", "string", ".spec.version", "Version of the operator"),
                ("Release", "string", ".spec.release", "Release of this version"),
                ("Replaces", "string", ".spec.replaces", "Version that this one replaces"),
                ("Phase", "string", ".status.phase", ""),
            ],
            Version::of::<ClusterServiceVersionSpec, ClusterServiceVersionStatus>("v1alpha1", SPEC),
        ),
        alpha(
            "CatalogSource",
            "catalogsources",
            &["catsrc"],
            "A catalog of packages.",
            &[
                ("Display", "string", ".spec.displayName", "Name for people"),
                ("Type", "string", ".spec.sourceType", "How the content is served"),
                ("Publisher", "string", ".spec.publisher", "Publisher of the catalog"),
                ("Age", "date", ".metadata.creationTimestamp", ""),
            ],
            Version::of::<CatalogSourceSpec, CatalogSourceStatus>("v1alpha1", SPEC),
        ),
        alpha(
            "Subscription",
            "subscriptions",
            &["sub", "subs"],
            "A package that a namespace is to have and keep up to date.",
            &[
                ("Package", "string", ".spec.name", "Package that is installed"),
                ("Source", "string", ".spec.source", "Catalog of the package"),
                ("Channel", "string", ".spec.channel", "Channel that is followed"),
            ],
            Version::of::<SubscriptionSpec, SubscriptionStatus>("v1alpha1", SPEC),
        ),
        alpha(
            "InstallPlan",
            "installplans",
            &["ip"],
            "One change of a namespace's operators.",
            &[
                ("CSV", "string", ".spec.clusterServiceVersionNames[0]", "First version that is installed"),
                ("Approval", "string", ".spec.approval", "Whether the change waits for an approval"),
                ("Approved", "boolean", ".spec.approved", ""),
            ],
            Version::of::<InstallPlanSpec, InstallPlanStatus>("v1alpha1", SPEC),
        ),
        Kind {
            group: GROUP,
            name: "OperatorGroup",
            plural: "operatorgroups",
            short_names: &["og"],
            scope: "Namespaced",
            description: "The namespaces that the operators of a namespace watch.",
            columns: &[],
            versions: vec![
                Version::of::<operators_v1::OperatorGroupSpec, operators_v1::OperatorGroupStatus>("v1", METADATA),
                Version::of::<operators_v1alpha2::OperatorGroupSpec, operators_v1alpha2::OperatorGroupStatus>("v1alpha2", METADATA),
            ],
        },
        Kind {
            group: GROUP,
            name: "OperatorCondition",
            plural: "operatorconditions",
            short_names: &["condition"],
            scope: "Namespaced",
            description: "What an operator tells OLM of itself, for instance that it cannot be upgraded now.",
            columns: &[],
            versions: vec![
                Version::of::<operators_v2::OperatorConditionSpec, operators_v2::OperatorConditionStatus>("v2", METADATA),
                Version::of::<operators_v1::OperatorConditionSpec, operators_v1::OperatorConditionStatus>("v1", METADATA),
            ],
        },
        Kind {
            group: GROUP,
            name: "OLMConfig",
            plural: "olmconfigs",
            short_names: &[],
            scope: "Cluster",
            description: "Settings of OLM for the whole cluster; only the object named cluster counts.",
            columns: &[],
            versions: vec![Version::of::<operators_v1::OlmConfigSpec, operators_v1::OlmConfigStatus>("v1", METADATA)],
        },
        Kind {
            group: GROUP,
            name: "Operator",
            plural: "operators",
            short_names: &[],
            scope: "Cluster",
            description: "An installed package with all objects that belong to it.",
            columns: &[],
            versions: vec![Version::of::<operators_v1::OperatorSpec, operators_v1::OperatorStatus>("v1", &[])],
        },
        Kind {
            group: CONFIG_GROUP,
            name: "OperatorHub",
            plural: "operatorhubs",
            short_names: &[],
            scope: "Cluster",
            description: "Which default catalogs the cluster has; only the object named cluster counts.",
            columns: &[],
            versions: vec![Version::of::<config_v1::OperatorHubSpec, config_v1::OperatorHubStatus>("v1", &[])],
        },
    ]
}

/// Returns a type's schema with everything that it mentions inside it.
fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::openapi3().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

pub(crate) fn manifest(kind: Kind) -> Manifest {
    let mut names = json!({"kind": kind.name, "plural": kind.plural, "singular": kind.name.to_lowercase(), "shortNames": kind.short_names});
    if kind.group == GROUP {
        names["categories"] = json!(["olm"]);
    }
    let columns: Vec<Value> = kind.columns.iter().map(column).collect();
    let versions = kind.versions.into_iter().enumerate().map(|(index, version)| {
        let mut schema = json!({
            "type": "object",
            "description": kind.description,
            "properties": {"spec": version.spec, "status": version.status},
        });
        if !version.required.is_empty() {
            schema["required"] = json!(version.required);
        }
        let mut out = json!({
            "name": version.name,
            "served": true,
            "storage": index == 0,
            "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}},
        });
        if !columns.is_empty() {
            out["additionalPrinterColumns"] = json!(columns);
        }
        out
    });
    let mut definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{}", kind.plural, kind.group)},
        "spec": {"group": kind.group, "names": names, "scope": kind.scope, "versions": versions.collect::<Vec<_>>()},
    });
    put_right(&mut definition);
    // In the order of upstream's definitions: the oldest name first.
    if let Some(Value::Array(versions)) = definition.pointer_mut("/spec/versions") {
        versions.sort_by_key(|version| version["name"].to_string());
    }
    Manifest { file: format!("{}_{}.yaml", kind.group, kind.plural), definition }
}

fn column((name, kind, path, description): &Column) -> Value {
    let mut out = json!({"name": name, "type": kind, "jsonPath": path});
    if !description.is_empty() {
        out["description"] = json!(description);
    }
    out
}
