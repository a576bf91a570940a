//! Checks of a ClusterVersion beyond its schema (CVO-API-09, CVO-API-10).

use mainstay_api::config_v1::{ClusterVersion, ClusterVersionSpec, DesiredUpdate};
use mainstay_schema::field::{Error, Path};
use mainstay_versions::Version;

/// The faults of the ClusterVersion.
pub fn validate(cluster_version: &ClusterVersion) -> Vec<Error> {
    let mut errors = Vec::new();
    match cluster_version.metadata.name.as_deref() {
        None | Some("") => errors.push(Error::required(&Path::new("name"), "name or generateName is required")),
        Some(name) => {
            errors.extend(mainstay_kinds::label_1035(name).into_iter().map(|problem| Error::invalid(&Path::new("name"), name, problem)));
        }
    }
    let ClusterVersionSpec { upstream, cluster_id, desired_update, .. } = &cluster_version.spec;
    let field = |name: &str| Path::new("spec").child(name);
    if !upstream.is_empty() && mainstay_golang::url::parse(upstream).is_err() {
        errors.push(Error::invalid(&field("upstream"), upstream.as_str(), "must be a valid URL or empty"));
    }
    let uuid = uuid(cluster_id).unwrap_or_default();
    if !cluster_id.is_empty() && uuid[8] & 0xc0 != 0x80 {
        errors.push(Error::invalid(&field("clusterID"), cluster_id.as_str(), "must be an RFC4122-variant UUID"));
    } else if !cluster_id.is_empty() && uuid[6] >> 4 != 4 {
        errors.push(Error::invalid(&field("clusterID"), cluster_id.as_str(), "must be a version-4 UUID"));
    }
    if let Some(update) = desired_update {
        errors.extend(desired(update, cluster_version, &field("desiredUpdate")));
    }
    errors
}

fn desired(update: &DesiredUpdate, cluster_version: &ClusterVersion, field: &Path) -> Option<Error> {
    let DesiredUpdate { architecture, version, image, .. } = update;
    let has_architecture = architecture.is_some_and(|architecture| architecture == mainstay_api::config_v1::Architecture::Multi);
    if !has_architecture && version.is_empty() && image.is_empty() {
        return Some(Error::required(field, "must specify architecture, version, or image"));
    }
    let invalid = |detail: &str| Some(Error::invalid(&field.child("version"), version.as_str(), detail));
    if version.is_empty() {
        return None;
    }
    if Version::parse(version).is_err() {
        return invalid("must be a semantic version (1.2.3[-...])");
    }
    if !image.is_empty() {
        return None;
    }
    match payloads(cluster_version, version) {
        0 => invalid("when image is empty the update must be an available update"),
        1 => None,
        _ => invalid("there are multiple possible payloads for this version, specify the exact image"),
    }
}

/// The number of images that a version may stand for.
fn payloads(cluster_version: &ClusterVersion, version: &str) -> usize {
    let status = &cluster_version.status;
    let updates = status.available_updates.iter().flatten();
    let count = updates.filter(|release| release.version == version && !release.image.is_empty()).count();
    let is_known = || status.history.iter().any(|entry| entry.version == version && !entry.image.is_empty());
    if count == 0 { usize::from(is_known()) } else { count }
}

/// The ClusterVersion without the fields that are wrong.
pub fn without_invalid(mut cluster_version: ClusterVersion, errors: &[Error]) -> ClusterVersion {
    let spec = &mut cluster_version.spec;
    for error in errors {
        match error.field.as_str() {
            "spec.upstream" => spec.upstream.clear(),
            "spec.clusterID" => spec.cluster_id.clear(),
            field if field.starts_with("spec.desiredUpdate") => spec.desired_update = None,
            _ => {}
        }
    }
    cluster_version
}

/// The bytes of a UUID in any form that Go's library reads: plain, as a URN, in braces, or without dashes.
fn uuid(text: &str) -> Option<[u8; 16]> {
    const DASHES: [usize; 4] = [8, 13, 18, 23];
    const URN: &str = "urn:uuid:";
    let text = match text.len() {
        32 => return bytes(text),
        36 => text,
        38 => text.get(1..37)?,
        45 if text.get(..URN.len()).is_some_and(|prefix| prefix.eq_ignore_ascii_case(URN)) => text.get(URN.len()..)?,
        _ => return None,
    };
    if DASHES.iter().any(|place| text.as_bytes()[*place] != b'-') {
        return None;
    }
    let digits: String = text.char_indices().filter(|(place, _)| !DASHES.contains(place)).map(|(_, digit)| digit).collect();
    bytes(&digits)
}

fn bytes(digits: &str) -> Option<[u8; 16]> {
    let mut out = [0; 16];
    if digits.len() != 2 * out.len() || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (index, byte) in out.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(out)
}
