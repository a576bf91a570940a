//! The signatures of a release that is mirrored: verified before anything is copied, and kept for clusters without a connection
//! (CVO-RELM-05, CVO-RELM-06).

use std::path::Path;
use std::time::Duration;

use mainstay_objects::{Expect, ObjectRef, Step};
use mainstay_oci::OutboundConfig;
use mainstay_operations::Session;
use mainstay_release::mirror::signature_file;
use mainstay_release::signature::{SignatureConfigMap, Verified, VerifyError, release_config_map};
use mainstay_release::{Payload, Values};
use mainstay_release_source::Release;
use mainstay_release_source::signature::{Stores, Verifier};
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::Failure;
use mainstay_terminal::output;
use serde_json::Value;

use super::{Refused, refuse, tell};

/// Time for all stores together.
const DEADLINE: Duration = Duration::from_secs(60);
const NO_KEYS: &str = "warning: No release authenticity verification is configured, all releases are considered unverified";
/// The most files of a directory, and the longest of them, that are looked at.
const MAX_FILES: usize = 1000;
const MAX_FILE: u64 = 1 << 20;

/// Where the signatures of a release go.
pub(super) struct Wanted<'a> {
    /// A directory.
    pub folder: Option<&'a Path>,
    /// The cluster.
    pub cluster: Option<&'a ClusterArgs>,
    /// A ConfigMap of the cluster may be changed.
    pub overwrite: bool,
    /// Nothing is written.
    pub dry_run: bool,
}

/// Verifies a release with the keys that it brings, and with the signatures that an earlier mirror kept beside it. None if it is not verified,
/// which is said.
pub(super) async fn verify(release: &Release, image: &str, kept: Option<&Path>) -> Result<Option<Verified>, Failure> {
    match check(release, image, kept).await? {
        Ok(verified) => Ok(Some(verified)),
        Err(error) => {
            if matches!(error, VerifyError::NotPossible) {
                tell(NO_KEYS);
            }
            tell(&format!("warning: An image was retrieved that failed verification: {error}"));
            Ok(None)
        }
    }
}

/// Verifies a release with the keys that it brings, and returns false if it has other signatures than it needs, which is said. A release without
/// keys is told.
pub(super) async fn is_vouched_for(release: &Release, image: &str) -> Result<bool, Failure> {
    match check(release, image, None).await? {
        Ok(_) => Ok(true),
        Err(VerifyError::NotPossible) => {
            tell(NO_KEYS);
            Ok(true)
        }
        Err(error) => {
            let because = error.causes().map(|causes| format!("\nbecause {causes}")).unwrap_or_default();
            tell(&format!("error: {error}{because}"));
            Ok(false)
        }
    }
}

async fn check(release: &Release, image: &str, kept: Option<&Path>) -> Result<Result<Verified, VerifyError>, Failure> {
    let values = Values { release_image: image, cluster_profile: "" };
    let manifests = Payload::all(&release.files, values, image).map_err(|error| Failure::failed(format!("payload {image}"), &error))?;
    let verifier = Verifier::of(&manifests).map_err(|error| refuse(&error))?;
    let config_maps = kept.map(read).transpose()?.unwrap_or_default();
    let outbound = OutboundConfig::default();
    let stores = Stores { config_maps: &config_maps, custom: None, outbound: &outbound, deadline: DEADLINE };
    Ok(verifier.verify(image, stores, jiff::Timestamp::now()).await)
}

/// Reads the ConfigMaps that an earlier mirror wrote.
fn read(folder: &Path) -> Result<Vec<SignatureConfigMap>, Failure> {
    let failed = |error: &std::io::Error| Failure::failed(format!("folder {}", folder.display()), error);
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| failed(&error))?,
    };
    let mut maps = Vec::new();
    for entry in entries.take(MAX_FILES) {
        let path = entry.map_err(|error| failed(&error))?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = super::extract::read_small(&path, MAX_FILE)?;
        let object: Value = serde_json::from_str(&text).map_err(|error| Failure::failed(format!("file {}", path.display()), &error))?;
        maps.extend(SignatureConfigMap::of(&object));
    }
    Ok(maps)
}

impl Wanted<'_> {
    /// Writes the ConfigMap to where it is wanted.
    pub(super) async fn write(&self, verified: &Verified) -> Result<(), Failure> {
        let object = release_config_map(&verified.digest, &verified.signatures);
        if let Some(cluster) = self.cluster {
            self.apply(&object, cluster).await?;
        }
        let Some(folder) = self.folder else { return Ok(()) };
        let path = folder.join(signature_file(&verified.digest));
        if self.dry_run {
            return output::line(format!("info: Write configmap signature file {}", path.display()));
        }
        save(&path, &object).map_err(|error| Failure::failed(format!("file {}", path.display()), &error))?;
        output::line(format!("Configmap signature file {} created", path.display()))
    }

    async fn apply(&self, object: &Value, cluster: &ClusterArgs) -> Result<(), Failure> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        if self.dry_run {
            return output::line(format!("info: Create or configure configmap {name}"));
        }
        let session: Session = cluster.open().await?;
        let place = ObjectRef {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            namespace: SignatureConfigMap::NAMESPACE.to_owned(),
            name: name.to_owned(),
        };
        let found = session.writer.get(&place).await.map_err(|error| refuse(&error))?;
        let (step, word) = match found {
            None => (Step::Create(object.clone()), "created"),
            Some(_) if self.overwrite => (Step::Apply { object: object.clone(), force: true, expect: Expect::default() }, "configured"),
            Some(_) => return Err(refuse(&Refused::SignaturesExist(name.to_owned()))),
        };
        mainstay_operations::apply::execute(&session, &step).await?;
        output::line(format!("configmap/{name} {word}"))
    }
}

fn save(path: &Path, object: &Value) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    // A file that is there already is replaced as a whole, and nothing is written through a link.
    let written = path.with_extension("json.new");
    std::fs::write(&written, object.to_string())?;
    std::fs::rename(&written, path)
}
