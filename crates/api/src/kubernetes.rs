//! Kubernetes' own types inside ours. Their values stay JSON; a schema names the definition, and `cargo xtask manifests` puts the definition
//! of Kubernetes' own tables in its place.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The keyword that names a definition.
pub const DEFINITION: &str = "x-kubernetes-definition";

macro_rules! embedded {
    ($($name:ident $definition:literal,)*) => {$(
        #[doc = concat!("`", $definition, "`.")]
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Value);

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "object", DEFINITION: $definition})
            }
        }
    )*};
}

embedded! {
    Affinity "io.k8s.api.core.v1.Affinity",
    DeploymentSpec "io.k8s.api.apps.v1.DeploymentSpec",
    EnvFromSource "io.k8s.api.core.v1.EnvFromSource",
    EnvVar "io.k8s.api.core.v1.EnvVar",
    IntOrString "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
    LabelSelector "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector",
    ObjectReference "io.k8s.api.core.v1.ObjectReference",
    PolicyRule "io.k8s.api.rbac.v1.PolicyRule",
    Quantity "io.k8s.apimachinery.pkg.api.resource.Quantity",
    ResourceRequirements "io.k8s.api.core.v1.ResourceRequirements",
    RuleWithOperations "io.k8s.api.admissionregistration.v1.RuleWithOperations",
    Toleration "io.k8s.api.core.v1.Toleration",
    Volume "io.k8s.api.core.v1.Volume",
    VolumeMount "io.k8s.api.core.v1.VolumeMount",
}
