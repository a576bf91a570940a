//! A ControlPlaneMachineSet, as far as decisions look at it (MACH-CPMS-01).

use std::collections::BTreeMap;

use mainstay_objects::{LabelSelector, Labels, SelectorError, labels_of};
use serde::Deserialize;
use serde_json::{Value, json};

use super::failure_domain::{FailureDomain, FailureDomainError};
use super::mapping::MOST_REPLICAS;
use super::provider_spec::{ProviderSpec, SpecError};
use crate::machine::{CLUSTER_LABEL, ROLE_LABEL, annotations_of};

/// API version of the kind.
pub const API_VERSION: &str = "machine.openshift.io/v1";
/// The kind.
pub const KIND: &str = "ControlPlaneMachineSet";
/// The one name that counts.
pub const NAME: &str = "cluster";
/// The finalizer, so that machines are given up before the object is gone.
pub const FINALIZER: &str = "controlplanemachineset.machine.openshift.io";
/// Label of machines that names their type; those of the control plane have role and type `master`.
pub const TYPE_LABEL: &str = "machine.openshift.io/cluster-api-machine-type";
/// The one sort of machine that a template can be of, and the field with its settings.
pub const MACHINE_TYPE: &str = "machines_v1beta1_machine_openshift_io";
/// Letters of the random part of a machine's name.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const RANDOM_LENGTH: u32 = 5;

/// The manner in which outdated machines are replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Strategy {
    /// One after the other.
    RollingUpdate,
    /// When the user deletes them.
    OnDelete,
    /// Anything else, which is not supported.
    Unsupported(String),
}

/// A ControlPlaneMachineSet.
#[derive(Debug, Clone, PartialEq)]
pub struct ControlPlane {
    /// Its namespace.
    pub namespace: String,
    /// Its UID.
    pub uid: String,
    /// Its generation.
    pub generation: i64,
    /// True if machines are replaced; otherwise nothing is changed (MACH-CPMS-05).
    pub is_active: bool,
    /// Machines that are wanted.
    pub replicas: i32,
    /// The manner in which outdated machines are replaced.
    pub strategy: Strategy,
    /// The machines that belong to it.
    pub selector: LabelSelector,
    /// The beginning of the names of new machines, instead of the cluster's name and role.
    pub prefix: Option<String>,
    /// The template of machines.
    pub template: Template,
}

/// The template of machines.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    /// Labels of new machines.
    pub labels: Labels,
    /// Annotations of new machines.
    pub annotations: BTreeMap<String, String>,
    /// Spec of new machines, with the provider spec as it is written.
    pub spec: Value,
    /// The provider spec.
    pub provider_spec: ProviderSpec,
    /// Places over which machines are spread; none if all are equal.
    pub places: Vec<FailureDomain>,
}

/// Why a ControlPlaneMachineSet cannot be worked on, in upstream's words.
#[derive(Debug, thiserror::Error)]
pub enum ControlPlaneError {
    /// The template is of a sort that is not known.
    #[error(
        "error constructing machine provider: unexpected machine type while initialising machines_v1beta1_machine_openshift_io provider: {0}"
    )]
    MachineType(String),
    /// The template has no content.
    #[error("error constructing machine provider: cannot initialise machines_v1beta1_machine_openshift_io provider with empty config")]
    NoTemplate,
    /// The provider spec cannot be read.
    #[error("error constructing machine provider: error building a provider config: {0}")]
    ProviderSpec(#[from] SpecError),
    /// The failure domains cannot be used.
    #[error("error constructing machine provider: error constructing failure domain config: {0}")]
    FailureDomains(#[from] FailureDomainError),
    /// The selector has another form.
    #[error("error constructing machine provider: could not convert label selector to selector: {0}")]
    Selector(#[from] serde_json::Error),
    /// The selector is invalid.
    #[error("error constructing machine provider: could not convert label selector to selector: {0}")]
    InvalidSelector(#[from] SelectorError),
    /// The number of machines is missing.
    #[error("spec.replicas is unset: replicas is required")]
    Replicas,
    /// The number of machines is absurd.
    #[error("spec.replicas is {0}: at most {MOST_REPLICAS} are planned")]
    TooMany(i64),
    /// A label that new names need is missing in the template.
    #[error("could not generate machine name: missing required label on machine template metadata: {0}")]
    Label(&'static str),
}

impl ControlPlane {
    /// Reads a ControlPlaneMachineSet.
    ///
    /// # Errors
    /// It cannot be worked on.
    pub fn of(object: &Value) -> Result<Self, ControlPlaneError> {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let machine_type = text("/spec/template/machineType");
        if machine_type != MACHINE_TYPE {
            return Err(ControlPlaneError::MachineType(machine_type.to_owned()));
        }
        let template = object.pointer(&format!("/spec/template/{MACHINE_TYPE}")).filter(|template| template.is_object());
        let replicas = object.pointer("/spec/replicas").and_then(Value::as_i64).ok_or(ControlPlaneError::Replicas)?;
        let replicas = i32::try_from(replicas).ok().filter(|count| (1..=MOST_REPLICAS).contains(count));
        let strategy = match text("/spec/strategy/type") {
            "" | "RollingUpdate" => Strategy::RollingUpdate,
            "OnDelete" => Strategy::OnDelete,
            other => Strategy::Unsupported(other.to_owned()),
        };
        Ok(Self {
            namespace: text("/metadata/namespace").to_owned(),
            uid: text("/metadata/uid").to_owned(),
            generation: object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default(),
            is_active: text("/spec/state") == "Active",
            replicas: replicas.ok_or_else(|| ControlPlaneError::TooMany(object["spec"]["replicas"].as_i64().unwrap_or_default()))?,
            strategy,
            selector: selector_of(object)?,
            prefix: Some(text("/spec/machineNamePrefix")).filter(|prefix| !prefix.is_empty()).map(str::to_owned),
            template: Template::of(template.ok_or(ControlPlaneError::NoTemplate)?)?,
        })
    }

    /// Returns the name of a new machine (MACH-CPMS-02). `random` makes it unlike earlier ones.
    ///
    /// # Errors
    /// The template lacks a label that the name is made of.
    pub fn name(&self, index: i32, random: u64) -> Result<String, ControlPlaneError> {
        let random: String =
            (0..RANDOM_LENGTH).map(|place| char::from(LETTERS[((random >> (place * 8)) % LETTERS.len() as u64) as usize])).collect();
        if let Some(prefix) = &self.prefix {
            return Ok(format!("{prefix}-{random}-{index}"));
        }
        let label = |key: &'static str| self.template.labels.get(key).ok_or(ControlPlaneError::Label(key));
        Ok(format!("{}-{}-{random}-{index}", label(CLUSTER_LABEL)?, label(ROLE_LABEL)?))
    }

    /// Returns a new machine with this provider spec.
    pub fn machine(&self, name: &str, provider_spec: &ProviderSpec) -> Value {
        let mut spec = self.template.spec.clone();
        spec["providerSpec"] = json!({"value": provider_spec.value()});
        json!({
            "apiVersion": "machine.openshift.io/v1beta1",
            "kind": "Machine",
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "labels": self.template.labels,
                "annotations": self.template.annotations,
                "ownerReferences": [self.owner()],
            },
            "spec": spec,
        })
    }

    /// Returns the owner reference of its machines.
    pub fn owner(&self) -> Value {
        json!({
            "apiVersion": API_VERSION, "kind": KIND, "name": NAME, "uid": self.uid, "controller": true, "blockOwnerDeletion": true,
        })
    }
}

impl Template {
    fn of(template: &Value) -> Result<Self, ControlPlaneError> {
        let spec = template.get("spec").filter(|spec| spec.is_object()).cloned().unwrap_or_else(|| json!({}));
        let value = spec.pointer("/providerSpec/value").filter(|value| !value.is_null());
        Ok(Self {
            labels: labels_of(template),
            annotations: annotations_of(template),
            provider_spec: ProviderSpec::read(value.map(Value::to_string).as_deref())?,
            places: FailureDomain::of_template(template.get("failureDomains").unwrap_or(&Value::Null))?,
            spec,
        })
    }
}

/// Reads which machines belong to a ControlPlaneMachineSet.
///
/// # Errors
/// The selector has another form, or is invalid.
pub fn selector_of(object: &Value) -> Result<LabelSelector, ControlPlaneError> {
    let selector = object.pointer("/spec/selector").unwrap_or(&Value::Null);
    let selector = Option::<LabelSelector>::deserialize(selector)?.unwrap_or_default();
    selector.validate()?;
    Ok(selector)
}
