//! MachineConfigs and the settings that renders depend on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The label that names a MachineConfig's role.
pub const ROLE: &str = "machineconfiguration.openshift.io/role";
/// The role whose configs every custom pool begins with.
pub const WORKER: &str = "worker";

/// A MachineConfig.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineConfig {
    /// Its name.
    pub name: String,
    /// Its labels, if it has any.
    pub labels: Option<BTreeMap<String, String>>,
    /// Its content.
    pub spec: MachineConfigSpec,
}

/// The content of a MachineConfig.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineConfigSpec {
    /// The image of the operating system.
    #[serde(rename = "osImageURL", deserialize_with = "or_default")]
    pub os_image_url: String,
    /// The image of its extensions.
    #[serde(rename = "baseOSExtensionsContainerImage", deserialize_with = "or_default")]
    pub extensions_image: String,
    /// The text of an Ignition config.
    pub ignition: Option<String>,
    /// Arguments of the kernel.
    #[serde(deserialize_with = "or_default")]
    pub kernel_arguments: Vec<String>,
    /// Extensions of the operating system.
    #[serde(deserialize_with = "or_default")]
    pub extensions: Vec<String>,
    /// True if FIPS is on.
    #[serde(deserialize_with = "or_default")]
    pub fips: bool,
    /// The type of the kernel: empty, `default`, `realtime` or `64k-pages`.
    #[serde(deserialize_with = "or_default")]
    pub kernel_type: String,
}

/// A value, or its default for null.
pub(crate) fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

/// The images of a ControllerConfig.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ControllerConfig {
    /// The image of the operating system.
    #[serde(rename = "baseOSContainerImage", deserialize_with = "or_default")]
    pub base_os_container_image: String,
    /// The image of its extensions.
    #[serde(rename = "baseOSExtensionsContainerImage", deserialize_with = "or_default")]
    pub base_os_extensions_container_image: String,
}

/// An object that is no MachineConfig.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// It is of another kind.
    #[error("is a {0:?}, not a MachineConfig")]
    Kind(String),
    /// It has no name.
    #[error("metadata.name is missing or empty")]
    Name,
    /// A field is of a wrong type.
    #[error("{field} is {found}; it must be {wanted}")]
    Field {
        /// The field.
        field: &'static str,
        /// The value that it has.
        found: &'static str,
        /// The value that it must have.
        wanted: &'static str,
    },
}

impl MachineConfig {
    /// Reads an object of kind MachineConfig.
    pub fn from_object(object: &Value) -> Result<Self, ObjectError> {
        let kind = object["kind"].as_str().unwrap_or_default();
        if kind != "MachineConfig" {
            return Err(ObjectError::Kind(kind.to_owned()));
        }
        let name = object.pointer("/metadata/name").and_then(Value::as_str).filter(|name| !name.is_empty());
        let name = name.ok_or(ObjectError::Name)?.to_owned();
        let labels = labels(object.pointer("/metadata/labels"))?;
        let null = Value::Null;
        let spec = object.get("spec").unwrap_or(&null);
        if !(spec.is_object() || spec.is_null()) {
            return Err(wrong("spec", spec, "an object"));
        }
        let config = spec.get("config").filter(|config| !config.is_null());
        if let Some(config) = config.filter(|config| !config.is_object()) {
            return Err(wrong("spec.config", config, "an object"));
        }
        Ok(Self {
            name,
            labels,
            spec: MachineConfigSpec {
                os_image_url: text(spec, "osImageURL", "spec.osImageURL")?,
                extensions_image: text(spec, "baseOSExtensionsContainerImage", "spec.baseOSExtensionsContainerImage")?,
                ignition: config.map(Value::to_string),
                kernel_arguments: texts(spec, "kernelArguments", "spec.kernelArguments")?,
                extensions: texts(spec, "extensions", "spec.extensions")?,
                fips: match spec.get("fips") {
                    None | Some(Value::Null) => false,
                    Some(Value::Bool(fips)) => *fips,
                    Some(other) => return Err(wrong("spec.fips", other, "true or false")),
                },
                kernel_type: text(spec, "kernelType", "spec.kernelType")?,
            },
        })
    }

    /// The role that its label names.
    pub fn role(&self) -> Option<&str> {
        self.labels.as_ref()?.get(ROLE).map(String::as_str)
    }
}

impl MachineConfigSpec {
    /// The spec as it stands in an object; an Ignition config that is no JSON is left out.
    pub fn to_object(&self) -> Value {
        let config: Value = self.ignition.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null);
        json!({
            "osImageURL": self.os_image_url,
            "baseOSExtensionsContainerImage": self.extensions_image,
            "config": config,
            "kernelArguments": self.kernel_arguments,
            "extensions": self.extensions,
            "fips": self.fips,
            "kernelType": self.kernel_type,
        })
    }
}

fn wrong(field: &'static str, found: &Value, wanted: &'static str) -> ObjectError {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "a bool",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    ObjectError::Field { field, found, wanted }
}

fn labels(found: Option<&Value>) -> Result<Option<BTreeMap<String, String>>, ObjectError> {
    let Some(found) = found.filter(|found| !found.is_null()) else { return Ok(None) };
    let entries = found.as_object().ok_or_else(|| wrong("metadata.labels", found, "an object"))?;
    let entry = |(key, value): (&String, &Value)| match value.as_str() {
        Some(text) => Ok((key.clone(), text.to_owned())),
        None => Err(wrong("metadata.labels", value, "an object of texts")),
    };
    entries.iter().map(entry).collect::<Result<_, _>>().map(Some)
}

fn text(spec: &Value, key: &str, field: &'static str) -> Result<String, ObjectError> {
    match spec.get(key) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => Err(wrong(field, other, "a text")),
    }
}

fn texts(spec: &Value, key: &str, field: &'static str) -> Result<Vec<String>, ObjectError> {
    let list = match spec.get(key) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(other) => return Err(wrong(field, other, "a list of texts")),
    };
    list.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(|| wrong(field, item, "a list of texts"))).collect()
}
