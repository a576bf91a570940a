//! The reading of the config that a machine boots with.

use std::collections::BTreeMap;

use mainstay_ignition::data_url::{self, DataUrlError};
use mainstay_ignition::{Config, Struct};
use serde_json::Value;

use super::content::{ANNOTATIONS, CONTENT, KUBECONFIG};
use crate::content::{ContentError, MAX_CONFIG, content};
use crate::ignition::{ConvertError, parse_and_convert};
use crate::machine_config::{MachineConfig, ObjectError};

/// Most annotations that a node registers with.
const MOST: usize = 64;

/// The beginning of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct FirstBoot {
    /// The configuration that it has then.
    pub machine_config: MachineConfig,
    /// The annotations that it registers with.
    pub annotations: BTreeMap<String, String>,
    /// The kubeconfig of the bootstrapper.
    pub kubeconfig: Vec<u8>,
}

/// A config that no machine of this cluster can boot with.
#[derive(Debug, thiserror::Error)]
pub enum FirstBootError {
    /// It cannot be read.
    #[error(transparent)]
    Parse(#[from] ConvertError),
    /// A file that the node needs is missing.
    #[error("the config of the first boot has no file {0}")]
    Missing(&'static str),
    /// A file cannot be read.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// The whole configuration cannot be read.
    #[error("{CONTENT}: {0}")]
    DataUrl(DataUrlError),
    /// A file is larger than it can be.
    #[error("{path} has more than {limit} bytes")]
    TooLarge {
        /// The file.
        path: &'static str,
        /// The limit.
        limit: usize,
    },
    /// A file is no JSON of its form.
    #[error("{path}: {source}")]
    Form {
        /// The file.
        path: &'static str,
        /// The mistake.
        source: serde_json::Error,
    },
    /// The whole configuration is no MachineConfig.
    #[error("{CONTENT}: {0}")]
    Object(#[from] ObjectError),
    /// There are too many annotations.
    #[error("{ANNOTATIONS} has more than {MOST} annotations")]
    TooMany,
}

impl FirstBoot {
    /// Reads an Ignition config as the config server gives it.
    ///
    /// # Errors
    /// It cannot be read, or lacks what a node needs.
    pub fn read(text: &str) -> Result<Self, FirstBootError> {
        let config = parse_and_convert(text)?;
        let form = |path: &'static str| move |source| FirstBootError::Form { path, source };
        let annotations: BTreeMap<String, String> =
            serde_json::from_slice(&content(file(&config, ANNOTATIONS)?)?).map_err(form(ANNOTATIONS))?;
        if annotations.len() > MOST {
            return Err(FirstBootError::TooMany);
        }
        let object: Value = serde_json::from_slice(&whole(file(&config, CONTENT)?)?).map_err(form(CONTENT))?;
        let machine_config = MachineConfig::from_object(&object)?;
        Ok(Self { machine_config, annotations, kubeconfig: content(file(&config, KUBECONFIG)?)? })
    }
}

fn file<'c>(config: &'c Config, path: &'static str) -> Result<&'c Struct, FirstBootError> {
    config.files().find(|file| file.text_or_empty("path") == path).ok_or(FirstBootError::Missing(path))
}

/// The whole configuration, which may be larger than a file of it.
fn whole(file: &Struct) -> Result<Vec<u8>, FirstBootError> {
    const LIMIT: usize = 2 * MAX_CONFIG;
    let source = file.child("contents").map(|contents| contents.text_or_empty("source")).unwrap_or_default();
    let content = data_url::decode(source).map_err(FirstBootError::DataUrl)?;
    if content.len() > LIMIT { Err(FirstBootError::TooLarge { path: CONTENT, limit: LIMIT }) } else { Ok(content) }
}

/// Returns the pool that a new machine of a role boots from: other pools than these two take nodes when they are there.
pub fn pool_of_role(is_control_plane: bool) -> &'static str {
    if is_control_plane { "master" } else { "worker" }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::super::{Bootstrap, Inputs, SERVED, ignition_config};
    use super::*;
    use crate::pool::node::annotation;

    /// MACH-MCS-01, MACH-MCS-03: of what the server gives in any version, a machine reads its configuration, annotations and kubeconfig.
    #[test]
    fn what_is_served_is_read() {
        let config =
            json!({"ignition": {"version": "3.4.0"}, "storage": {"files": [{"path": "/etc/own", "contents": {"source": "data:,x"}}]}});
        let object = json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": {"name": "rendered-worker-1"}, "spec": {"config": config, "osImageURL": "image", "kernelArguments": ["audit=1"]}});
        let bootstrap = Bootstrap { server: "https://api:6443".to_owned(), authority: b"ca".to_vec(), token: "secret".to_owned() };
        let inputs = Inputs { machine_config: &object, controller: &json!({}), bootstrap: Some(&bootstrap) };
        for version in SERVED.into_iter().filter(|version| version.text() != "3.5.0") {
            let read = FirstBoot::read(&ignition_config(&inputs, version).unwrap()).unwrap();
            assert_eq!(read.machine_config.name, "rendered-worker-1", "{}", version.text());
            assert_eq!(read.machine_config.spec.kernel_arguments, ["audit=1"]);
            assert_eq!(read.annotations[annotation::CURRENT_CONFIG], "rendered-worker-1");
            assert!(String::from_utf8(read.kubeconfig).unwrap().contains("secret"));
        }
        let said = |text: &str| FirstBoot::read(text).unwrap_err().to_string();
        assert_eq!(
            said(r#"{"ignition":{"version":"3.4.0"}}"#),
            "the config of the first boot has no file /etc/machine-config-daemon/node-annotations.json"
        );
        assert!(said("{}").contains("invalid version"), "{}", said("{}"));
        let wrong = json!({"ignition": {"version": "3.4.0"}, "storage": {"files": [{"path": ANNOTATIONS, "contents": {"source": "data:,%5B%5D"}}]}});
        let said = said(&wrong.to_string());
        assert!(said.starts_with("/etc/machine-config-daemon/node-annotations.json: invalid type"), "{said}");
        assert_eq!((pool_of_role(true), pool_of_role(false)), ("master", "worker"));
    }
}
