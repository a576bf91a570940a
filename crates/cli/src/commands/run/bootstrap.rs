//! The manifests with which a cluster begins, written without a cluster (CVO-RUN-05).

use std::path::{Path, PathBuf};

use clap::Args;
use mainstay_release::{Bootstrap, Capabilities, Files, Manifest};
use mainstay_release_source::{Limits, Place, ReadError};
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::{images, runtime};
use serde_json::Value;

use super::cluster_version_settings::Environment;

/// The largest manifest that a flag names, in bytes.
const LARGEST: u64 = 1 << 20;

/// Arguments.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The folder to write to: manifests/ and bootstrap/
    #[arg(long, value_name = "DIR")]
    output_dir: PathBuf,
    /// The pullspec of the release; PAYLOAD_OVERRIDE names a folder with its content
    #[arg(long, value_name = "IMAGE")]
    release_image: String,
    /// A manifest of ClusterVersion, whose capabilities count
    #[arg(long, value_name = "FILE")]
    cluster_version_manifest_path: Option<PathBuf>,
    /// A manifest of FeatureGate, whose feature set counts
    #[arg(long, value_name = "FILE")]
    feature_gate_manifest_path: Option<PathBuf>,
}

fn usage(subject: &str, message: String) -> Failure {
    Failure::new(Exit::Usage, subject, message)
}

/// The files of a release, and its name in messages.
async fn files(text: &str) -> Result<(Files, String), Failure> {
    let subject = format!("release {text}");
    let place = Place::parse(text).map_err(|error| Failure::failed(&subject, &error))?;
    let client = || images::plain_client().map_err(|error| ReadError::Settings(Box::new(error)));
    let read = mainstay_release_source::read(&place, client, &Limits::default()).await;
    Ok((read.map_err(|error| Failure::failed(&subject, &error))?.files, subject))
}

/// Writes the manifests with which a cluster begins (CVO-RUN-05).
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let object = |path: &Option<PathBuf>, kind: &str| path.as_deref().map(|path| single(path, kind)).transpose();
    let gate = object(&arguments.feature_gate_manifest_path, "FeatureGate")?;
    let version = object(&arguments.cluster_version_manifest_path, "ClusterVersion")?;
    let feature_set = match gate.as_ref().map(|gate| &gate["spec"]["featureSet"]) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(name)) => name.clone(),
        Some(other) => return Err(usage("--feature-gate-manifest-path", format!("spec.featureSet is no text: {other}"))),
    };
    let capabilities = version.map(|version| Capabilities::of(&version["spec"]["capabilities"], std::iter::empty::<String>())).transpose();
    let capabilities = capabilities.map_err(|error| Failure::of(Exit::Usage, "--cluster-version-manifest-path", &error))?;
    let environment = Environment::of_process(Some(&arguments.release_image))?;
    let folder = environment.payload.as_ref().map(|(_, folder)| folder.display().to_string());
    runtime::block_on(async {
        let (files, subject) = files(folder.as_ref().unwrap_or(&arguments.release_image)).await?;
        let bootstrap = Bootstrap {
            image: &arguments.release_image,
            profile: &environment.profile,
            feature_set: &feature_set,
            capabilities: capabilities.as_ref(),
        };
        let rendered = bootstrap.render(&files, &subject).map_err(|error| Failure::failed(&subject, &error))?;
        for (path, text) in rendered {
            let path = arguments.output_dir.join(path);
            let failed = |error: std::io::Error| Failure::failed(path.display().to_string(), &error);
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder).map_err(failed)?;
            }
            std::fs::write(&path, text).map_err(failed)?;
        }
        Ok(())
    })
}

/// Reads a file that holds one object of `config.openshift.io/v1`.
fn single(path: &Path, kind: &str) -> Result<Value, Failure> {
    use std::io::Read as _;
    let subject = path.display().to_string();
    let mut content = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut content));
    read.map_err(|error| Failure::of(Exit::Usage, &subject, &error))?;
    if content.len() as u64 > LARGEST {
        return Err(usage(&subject, format!("is larger than {LARGEST} bytes")));
    }
    let manifests = mainstay_release::parse(&subject, &content).map_err(|error| Failure::of(Exit::Usage, &subject, &error))?;
    let [manifest] = &*manifests else {
        return Err(usage(&subject, format!("contains {} manifests, but expected only one", manifests.len())));
    };
    let is = |manifest: &Manifest| manifest.id().kind == kind && manifest.api_version() == "config.openshift.io/v1";
    if !is(manifest) {
        return Err(usage(
            &subject,
            format!("is {} {}, but expected config.openshift.io/v1 {kind}", manifest.api_version(), manifest.id().kind),
        ));
    }
    Ok(manifest.object().into_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// CVO-RUN-05: the files that flags name must hold one object of their kind.
    #[test]
    fn manifests_of_flags() {
        let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
        let path = folder.path().join("gate.yaml");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap_or_else(|error| panic!("{error}"));
            single(&path, "FeatureGate").map_err(|failure| failure.to_line())
        };
        let gate =
            "apiVersion: config.openshift.io/v1\nkind: FeatureGate\nmetadata: {name: cluster}\nspec: {featureSet: TechPreviewNoUpgrade}\n";
        assert_eq!(read(gate).map(|gate| gate["spec"]["featureSet"].clone()), Ok(Value::from("TechPreviewNoUpgrade")));
        assert!(read(&format!("{gate}---\n{gate}")).is_err());
        let other = read("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cluster}\n").unwrap_err();
        assert!(other.contains("is v1 ConfigMap, but expected config.openshift.io/v1 FeatureGate"), "{other}");
        let two = read(&format!("{gate}---\n{}", gate.replace("cluster", "other"))).unwrap_err();
        assert!(two.contains("contains 2 manifests, but expected only one"), "{two}");
    }
}
