//! The provider spec of machines whose instances Cluster API makes.

use mainstay_schema::names;
use serde::Deserialize;
use serde_json::Value;

use super::INFRASTRUCTURE;

/// The end of the kinds of templates.
const TEMPLATE: &str = "Template";

/// A provider spec that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It has another form.
    #[error("spec.providerSpec.value cannot be read: {0}")]
    Form(#[from] serde_json::Error),
    /// A field is not said.
    #[error("spec.providerSpec.value.{0}: must be set")]
    Missing(&'static str),
    /// A field cannot be a name.
    #[error("spec.providerSpec.value.{field}: {name:?} is no name of an object: {problem}")]
    Name {
        /// The field.
        field: &'static str,
        /// Its value.
        name: String,
        /// The rule.
        problem: String,
    },
    /// The template has another group.
    #[error("spec.providerSpec.value.infrastructureRef.apiVersion: expected {INFRASTRUCTURE}/VERSION, found {0:?}")]
    Group(String),
    /// The template is of a kind that is none of templates.
    #[error("spec.providerSpec.value.infrastructureRef.kind: expected the kind of a template, such as AWSMachineTemplate, found {0:?}")]
    Kind(String),
}

/// The template of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Its group and version.
    pub api_version: String,
    /// Its kind, which ends in `Template`.
    pub kind: String,
    /// Its name. It is in the namespace of the machine.
    pub name: String,
}

impl Template {
    /// Returns the kind of what is cloned from it.
    pub fn cloned_kind(&self) -> &str {
        self.kind.strip_suffix(TEMPLATE).unwrap_or(&self.kind)
    }
}

/// The settings of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The Cluster of Cluster API, in the namespace of the machine.
    pub cluster: String,
    /// The template of the instance.
    pub template: Template,
    /// The version of Kubernetes that Cluster API shows, such as `v1.34.1`.
    pub version: Option<String>,
    /// The failure domain, as the infrastructure names it.
    pub failure_domain: Option<String>,
    /// The Secret whose key `userData` is what the instance boots with.
    pub user_data: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Written {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(rename = "metadata")]
    _metadata: Option<Value>,
    cluster_name: String,
    infrastructure_ref: WrittenTemplate,
    version: Option<String>,
    failure_domain: Option<String>,
    user_data_secret: WrittenName,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct WrittenTemplate {
    api_version: String,
    kind: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct WrittenName {
    name: String,
}

impl Config {
    /// Reads the provider spec of a machine.
    ///
    /// # Errors
    /// A field is missing, unknown, or has another type or form.
    pub fn of(machine: &Value) -> Result<Self, ConfigError> {
        let written = Written::deserialize(machine.pointer("/spec/providerSpec/value").unwrap_or(&Value::Null))?;
        let WrittenTemplate { api_version, kind, name } = written.infrastructure_ref;
        let cluster = named("clusterName", written.cluster_name)?;
        let name = named("infrastructureRef.name", name)?;
        match api_version.split_once('/') {
            Some((INFRASTRUCTURE, version)) if !version.is_empty() => {}
            _ => return Err(ConfigError::Group(api_version)),
        }
        let stem = kind.strip_suffix(TEMPLATE).unwrap_or_default();
        if stem.is_empty() || !stem.chars().all(|letter| letter.is_ascii_alphanumeric()) {
            return Err(ConfigError::Kind(kind));
        }
        let said = |text: Option<String>| text.filter(|text| !text.is_empty());
        Ok(Self {
            cluster,
            template: Template { api_version, kind, name },
            version: said(written.version),
            failure_domain: said(written.failure_domain),
            user_data: named("userDataSecret.name", written.user_data_secret.name)?,
        })
    }
}

fn named(field: &'static str, name: String) -> Result<String, ConfigError> {
    if name.is_empty() {
        return Err(ConfigError::Missing(field));
    }
    match names::dns1123_subdomain(&name).into_iter().next() {
        None => Ok(name),
        Some(problem) => Err(ConfigError::Name { field, name, problem }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn read(value: &Value) -> Result<Config, ConfigError> {
        Config::of(&json!({"spec": {"providerSpec": {"value": value}}}))
    }

    /// MACH-PROV-11: the fields, and what is said of each that cannot be used.
    #[test]
    fn fields() {
        let template = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "DockerMachineTemplate", "name": "t"});
        let usual = json!({
            "apiVersion": "capi.mainstay.dev/v1alpha1", "kind": "ClusterAPIProviderConfig", "clusterName": "demo", "infrastructureRef": template,
            "userDataSecret": {"name": "worker-user-data"},
        });
        let config = read(&usual).unwrap();
        assert_eq!((config.template.cloned_kind(), config.version, config.failure_domain), ("DockerMachine", None, None));
        let with = |path: &str, value: Value| {
            let mut changed = usual.clone();
            let (owner, field) = path.rsplit_once('/').unwrap();
            changed.pointer_mut(owner).unwrap()[field] = value;
            read(&changed).unwrap_err().to_string().replace("spec.providerSpec.value", "V")
        };
        let fields = [
            ("/clusterName", json!(""), "V.clusterName: must be set"),
            ("/clusterName", json!("A b"), "V.clusterName: \"A b\" is no name of an object: a lowercase RFC 1123 subdomain"),
            ("/userDataSecret/name", json!(""), "V.userDataSecret.name: must be set"),
            ("/infrastructureRef/name", json!(""), "V.infrastructureRef.name: must be set"),
            (
                "/infrastructureRef/kind",
                json!("Pod"),
                "V.infrastructureRef.kind: expected the kind of a template, such as AWSMachineTemplate, found \"Pod\"",
            ),
            ("/infrastructureRef/kind", json!("Template"), "V.infrastructureRef.kind: expected"),
            ("/infrastructureRef/kind", json!("../Template"), "V.infrastructureRef.kind: expected"),
            (
                "/infrastructureRef/apiVersion",
                json!("v1"),
                "V.infrastructureRef.apiVersion: expected infrastructure.cluster.x-k8s.io/VERSION, found \"v1\"",
            ),
            ("/infrastructureRef/apiVersion", json!("infrastructure.cluster.x-k8s.io/"), "V.infrastructureRef.apiVersion: expected"),
            ("/infrastructureRef/namespace", json!("x"), "V cannot be read: unknown field `namespace`"),
            ("/version", json!(1), "V cannot be read: invalid type"),
            ("/clustername", json!("x"), "V cannot be read: unknown field `clustername`"),
        ];
        for (path, value, wanted) in fields {
            let said = with(path, value);
            assert!(said.starts_with(wanted), "{path}: {said}");
        }
    }
}
