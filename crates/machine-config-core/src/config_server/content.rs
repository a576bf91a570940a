//! The Ignition config that a machine boots with: that of its pool, with the files that the operator's parts on the node need.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mainstay_ignition::data_url::escaped;
use mainstay_ignition::{Config, Data, Spec, Struct, Untranslatable};
use serde_json::{Value, json};

use crate::ignition::{ConvertError, parse_and_convert};
use crate::pool::node::{annotation, state};

/// The authority that the kubelet trusts.
const KUBELET_CA: &str = "/etc/kubernetes/kubelet-ca.crt";
/// The authority of the cloud.
const CLOUD_CA: &str = "/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem";
/// The annotations that a node registers with.
pub(super) const ANNOTATIONS: &str = "/etc/machine-config-daemon/node-annotations.json";
/// The kubeconfig of the bootstrapper.
pub(super) const KUBECONFIG: &str = "/etc/kubernetes/kubeconfig";
/// The whole MachineConfig, for those who look for differences later.
pub(super) const CONTENT: &str = "/etc/mcs-machine-config-content.json";
/// The part of the MachineConfig that Ignition does not carry out, for the first boot.
const ENCAPSULATED: &str = "/etc/ignition-machine-config-encapsulated.json";
/// The mode of the files that are put in.
const MODE: i64 = 0o644;

/// The way of a new machine to the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bootstrap {
    /// The URL of the API.
    pub server: String,
    /// The authority of the API, PEM.
    pub authority: Vec<u8>,
    /// The token of the bootstrapper.
    pub token: String,
}

/// The facts that a config is made of.
#[derive(Clone, Debug)]
pub struct Inputs<'i> {
    /// The rendered MachineConfig.
    pub machine_config: &'i Value,
    /// The spec of the ControllerConfig.
    pub controller: &'i Value,
    /// The way to the API; without it no machine could join.
    pub bootstrap: Option<&'i Bootstrap>,
}

/// The reason why a pool has no config of a version.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ContentError {
    /// The config cannot be read.
    #[error("parsing Ignition config failed with error: {0}")]
    Parse(#[from] ConvertError),
    /// Arguments that the kernel must not have cannot be said in an older version.
    #[error("failed to migrate kernel args Can't serve version {0} with ignition KernelArguments.ShouldNotExist populated")]
    KernelArguments(&'static str),
    /// The config says something that the version has no word for.
    #[error("the config cannot be said in version {version}: {source}")]
    Version {
        /// The version.
        version: &'static str,
        /// Why.
        source: Untranslatable,
    },
    /// An authority of the ControllerConfig is no base64.
    #[error("ControllerConfig: spec.{0} is not base64")]
    Authority(&'static str),
    /// The token of the bootstrapper is not known.
    #[error("the kubeconfig of new machines cannot be made: {0} is not known")]
    Bootstrap(&'static str),
}

/// Returns the text of the config in a version.
///
/// # Errors
/// See [`ContentError`].
pub fn ignition_config(inputs: &Inputs<'_>, version: Spec) -> Result<String, ContentError> {
    let mut object = inputs.machine_config.clone();
    let text = object.pointer("/spec/config").filter(|config| !config.is_null()).map(Value::to_string);
    let config = text.map_or_else(|| Ok(Config::default()), |text| parse_and_convert(&text))?;
    let mut values = config.values().clone();
    if version < Spec::V3_3 {
        kernel_arguments(&mut values, &mut object, version)?;
    }
    for (field, path) in [("kubeAPIServerServingCAData", KUBELET_CA), ("cloudProviderCAData", CLOUD_CA)] {
        let Some(text) = inputs.controller.get(field).and_then(Value::as_str).filter(|text| !text.is_empty()) else { continue };
        put(&mut values, path, &STANDARD.decode(text).map_err(|_| ContentError::Authority(field))?);
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let annotations = json!({(annotation::CURRENT_CONFIG): name, (annotation::DESIRED_CONFIG): name, (annotation::STATE): state::DONE});
    append(&mut values, ANNOTATIONS, annotations.to_string().as_bytes());
    let bootstrap = inputs.bootstrap.ok_or(ContentError::Bootstrap("the token of the bootstrapper"))?;
    append(&mut values, KUBECONFIG, kubeconfig(bootstrap).as_bytes());
    append(&mut values, CONTENT, indented(&object).as_bytes());
    let empty = if version == Spec::V2_2 { Spec::V2_2 } else { Spec::V3_4 };
    object["spec"]["config"] = json!({"ignition": {"version": empty.text()}});
    append(&mut values, ENCAPSULATED, object.to_string().as_bytes());
    // The values are of the type of 3.4, because they were taken from such a config.
    let config = Config::from_struct(values).unwrap_or_default();
    let written = config.in_version(version).map_err(|source| ContentError::Version { version: version.text(), source })?;
    Ok(written.to_json())
}

/// Moves the arguments of the kernel to where the first boot looks for them: older versions have no word for them.
fn kernel_arguments(values: &mut Struct, object: &mut Value, version: Spec) -> Result<(), ContentError> {
    let Some(Data::Struct(arguments)) = values.get_mut("kernelArguments") else { return Ok(()) };
    if !arguments.list("shouldNotExist").is_empty() {
        return Err(ContentError::KernelArguments(version.text()));
    }
    let moved: Vec<Value> = arguments.texts("shouldExist").map(|argument| json!(argument)).collect();
    *arguments = Struct::new(arguments.of());
    if !moved.is_empty() {
        let all = &mut object["spec"]["kernelArguments"];
        match all {
            Value::Array(known) => known.extend(moved),
            other => *other = Value::Array(moved),
        }
    }
    Ok(())
}

/// Sets the content of a file, which is appended if the config does not have it.
fn put(values: &mut Struct, path: &str, content: &[u8]) {
    let Some(Data::Struct(storage)) = values.get_mut("storage") else { return };
    if let Some(Data::List(files)) = storage.get_mut("files") {
        for file in files {
            let Data::Struct(file) = file else { continue };
            if file.text_or_empty("path") != path {
                continue;
            }
            if let Some(Data::Struct(contents)) = file.get_mut("contents") {
                contents.set("source", Data::Text(escaped(content)));
                // The new content is as it is; the old one does not matter.
                contents.set("compression", Data::Absent);
            }
            return;
        }
    }
    append(values, path, content);
}

fn append(values: &mut Struct, path: &str, content: &[u8]) {
    let Some(Data::Struct(storage)) = values.get_mut("storage") else { return };
    let Some(of) = storage.of().child("files") else { return };
    let mut file = Struct::new(of);
    file.set("path", Data::Text(path.to_owned()));
    file.set("overwrite", Data::Bool(true));
    file.set("mode", Data::Int(MODE));
    if let Some(Data::Struct(contents)) = file.get_mut("contents") {
        contents.set("source", Data::Text(escaped(content)));
    }
    match storage.get_mut("files") {
        Some(Data::List(files)) => files.push(Data::Struct(file)),
        Some(absent) => *absent = Data::List(vec![Data::Struct(file)]),
        None => {}
    }
}

/// A kubeconfig; JSON is YAML, and needs no quoting rules of its own.
fn kubeconfig(bootstrap: &Bootstrap) -> String {
    let cluster = json!({"server": bootstrap.server, "certificate-authority-data": STANDARD.encode(&bootstrap.authority)});
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "kubelet", "preferences": {},
        "clusters": [{"name": "local", "cluster": cluster}],
        "contexts": [{"name": "kubelet", "context": {"cluster": "local", "user": "kubelet"}}],
        "users": [{"name": "kubelet", "user": {"token": bootstrap.token}}],
    });
    format!("{config:#}\n")
}

fn indented(object: &Value) -> String {
    format!("{object:#}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;
    use crate::content::content;
    use crate::ignition::parse_and_convert;

    fn served(spec: &Value, version: Spec) -> Result<Config, ContentError> {
        let machine_config = json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": {"name": "rendered-worker-1"}, "spec": spec});
        let controller = json!({"kubeAPIServerServingCAData": STANDARD.encode("new authority"), "cloudProviderCAData": null});
        let bootstrap = Bootstrap { server: "https://api:6443".to_owned(), authority: b"ca".to_vec(), token: "secret".to_owned() };
        let inputs = Inputs { machine_config: &machine_config, controller: &controller, bootstrap: Some(&bootstrap) };
        let text = ignition_config(&inputs, version)?;
        assert!(text.starts_with(&format!("{{\"ignition\":{{\"version\":\"{}\"}}", version.text())), "{}", &text[..60]);
        // What is written can be read again, as the machine will do; one of 3.5 differs in its number alone.
        Ok(parse_and_convert(&text.replacen("3.5.0", "3.4.0", 1)).unwrap())
    }

    fn file(config: &Config, path: &str) -> String {
        let found = config.files().filter(|file| file.text_or_empty("path") == path).collect::<Vec<_>>();
        assert_eq!(found.len(), 1, "{path}");
        String::from_utf8(content(found[0]).unwrap()).unwrap()
    }

    /// MACH-MCS-01: each version has the pool's files and those that the node's parts need, with the newest authority of the kubelet.
    #[test]
    fn the_files_of_a_first_boot() {
        let old = json!({"path": KUBELET_CA, "contents": {"compression": "gzip", "source": "data:;base64,H4sIAAAAAAAC/0pMBAQAAP//"}});
        let own = json!({"path": "/etc/own", "mode": 0o600, "contents": {"source": "data:,own"}});
        let spec = json!({"osImageURL": "image", "kernelArguments": ["audit=1"],
            "config": {"ignition": {"version": "3.4.0"}, "kernelArguments": {"shouldExist": ["quiet"]}, "storage": {"files": [old, own]}}});
        for version in [Spec::V3_3, Spec::V3_4, Spec::V3_5, Spec::V3_1, Spec::V2_2] {
            let config = served(&spec, version).unwrap();
            assert_eq!(file(&config, "/etc/own"), "own");
            assert_eq!(file(&config, KUBELET_CA), "new authority");
            let annotations: Value = serde_json::from_str(&file(&config, ANNOTATIONS)).unwrap();
            assert_eq!(annotations[annotation::CURRENT_CONFIG], "rendered-worker-1");
            assert_eq!(annotations[annotation::STATE], "Done");
            let kubeconfig: Value = serde_json::from_str(&file(&config, KUBECONFIG)).unwrap();
            assert_eq!(kubeconfig["users"][0]["user"]["token"], "secret");
            let rest: Value = serde_json::from_str(&file(&config, ENCAPSULATED)).unwrap();
            let is_old = version == Spec::V2_2;
            assert_eq!(rest["spec"]["config"], json!({"ignition": {"version": if is_old { "2.2.0" } else { "3.4.0" }}}));
            // What Ignition has no word for there is done at the first boot.
            let arguments = if version < Spec::V3_3 { json!(["audit=1", "quiet"]) } else { json!(["audit=1"]) };
            assert_eq!(rest["spec"]["kernelArguments"], arguments, "{version:?}");
            let whole: Value = serde_json::from_str(&file(&config, CONTENT)).unwrap();
            assert_eq!(whole["spec"]["kernelArguments"], arguments);
            assert_eq!(whole["spec"]["osImageURL"], "image");
        }
    }

    /// MACH-MCS-01: what a version has no word for is an error of that version alone.
    #[test]
    fn a_version_that_cannot_say_it() {
        let spec = json!({"config": {"ignition": {"version": "3.4.0"}, "kernelArguments": {"shouldNotExist": ["quiet"]}}});
        assert!(served(&spec, Spec::V3_3).is_ok());
        assert_eq!(served(&spec, Spec::V3_2).unwrap_err(), ContentError::KernelArguments("3.2.0"));
        let luks = json!({"config": {"ignition": {"version": "3.4.0"},
            "storage": {"luks": [{"name": "a", "device": "/dev/a", "clevis": {"tpm2": true}}]}}});
        assert!(served(&luks, Spec::V3_2).is_ok());
        assert!(matches!(served(&luks, Spec::V2_2), Err(ContentError::Version { .. })));
    }
}
