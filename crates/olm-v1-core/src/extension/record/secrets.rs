//! Records as Secrets: written in chunks, read back whole.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_core::ObjectMeta;
use kube_core::ResourceExt;
use mainstay_lifecycle::revision::{History, Notes, Record, Revision, State};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{EXTENSION_LABEL, RecordError, SECRET_TYPE};

const STATE_LABEL: &str = "status";
const REVISION_LABEL: &str = "version";
const OWNER_LABEL: &str = "owner";
const OWNER: &str = "operator-controller";
const CHUNK_LABEL: &str = "lifecycle.mainstay.dev/chunk";
const CHUNK_BYTES: usize = 1_000_000;
const CHUNKS: usize = 10;
/// Maximum size of a compressed record, in bytes.
pub(super) const ROOM: usize = CHUNKS * CHUNK_BYTES;
const RECORD_BYTES: u64 = 256 << 20;
const DATA_KEY: &str = "record";
/// The digest of the manifests, for people who look at the Secret.
const DIGEST: &str = "lifecycle.mainstay.dev/manifest-digest";
/// The phases with the number of their objects: `crds=1,workloads=2`.
const PHASES: &str = "lifecycle.mainstay.dev/phases";

/// Reads the history from the Secrets of one extension.
pub fn read(secrets: &[Secret]) -> Result<History, RecordError> {
    let mut firsts = Vec::new();
    let mut further: BTreeMap<String, &Secret> = BTreeMap::new();
    for secret in secrets {
        if secret.labels().contains_key(CHUNK_LABEL) {
            further.insert(secret.name_any(), secret);
        } else {
            firsts.push(secret);
        }
    }
    let mut revisions = firsts.into_iter().map(|secret| revision(secret, &further)).collect::<Result<Vec<_>, _>>()?;
    revisions.sort_by_key(|revision| revision.number);
    Ok(History { revisions })
}

fn revision(secret: &Secret, further: &BTreeMap<String, &Secret>) -> Result<Revision, RecordError> {
    let name = secret.name_any();
    let form = |problem: &str| RecordError::Form { secret: name.clone(), problem: problem.to_owned() };
    let label = |key: &str| secret.labels().get(key).map(String::as_str);
    let number = label(REVISION_LABEL).and_then(|text| text.parse().ok()).ok_or_else(|| form("no revision label"))?;
    let state = label(STATE_LABEL).and_then(State::parse).ok_or_else(|| form("no known status label"))?;
    let chunks: usize = secret.annotations().get(CHUNK_LABEL).and_then(|text| text.parse().ok()).ok_or_else(|| form("no chunk count"))?;
    if chunks == 0 || chunks > CHUNKS {
        return Err(form("an impossible chunk count"));
    }
    let data = |secret: &Secret| secret.data.as_ref().and_then(|data| data.get(DATA_KEY)).map(|bytes| bytes.0.clone());
    let mut bytes = data(secret).ok_or_else(|| form("no data"))?;
    for chunk in 1..chunks {
        let found = further.get(&chunk_name(&name, chunk)).and_then(|secret| data(secret));
        bytes.extend(found.ok_or_else(|| RecordError::Chunk { secret: name.clone(), chunk, chunks })?);
    }
    let mut text = Vec::new();
    let content = |source| RecordError::Content { secret: name.clone(), source };
    GzDecoder::new(bytes.as_slice()).take(RECORD_BYTES).read_to_end(&mut text).map_err(content)?;
    let record = serde_json::from_slice(&text).map_err(|error| content(error.into()))?;
    let begun = secret.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let notes = Notes::read(secret.annotations(), begun).map_err(|source| RecordError::Notes { secret: name.clone(), source })?;
    Ok(Revision { number, state, record, notes })
}

/// The Secrets of a revision, owned by the extension.
pub fn secrets(revision: &Revision, extension: &str, owner: &OwnerReference, namespace: &str) -> Result<Vec<Secret>, RecordError> {
    let name = secret_name(extension, revision.number);
    let content = |source| RecordError::Content { secret: name.clone(), source };
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let text = serde_json::to_vec(&revision.record).map_err(|error| content(error.into()))?;
    encoder.write_all(&text).map_err(content)?;
    let bytes = encoder.finish().map_err(content)?;
    let chunks: Vec<&[u8]> = bytes.chunks(CHUNK_BYTES).collect();
    if chunks.len() > CHUNKS {
        return Err(RecordError::TooLarge { bytes: bytes.len() });
    }
    let bundle = &revision.record.bundle;
    let annotation = |key: &str, value: &str| (format!("olm.operatorframework.io/{key}"), value.to_owned());
    let secret = |(index, chunk): (usize, &&[u8])| {
        let mut labels = BTreeMap::from([
            (EXTENSION_LABEL.to_owned(), owner.uid.clone()),
            (OWNER_LABEL.to_owned(), OWNER.to_owned()),
            (REVISION_LABEL.to_owned(), revision.number.to_string()),
        ]);
        let mut annotations = BTreeMap::new();
        if index == 0 {
            labels.insert(STATE_LABEL.to_owned(), revision.state.as_str().to_owned());
            annotations = BTreeMap::from([
                annotation("package-name", &bundle.package),
                annotation("bundle-name", &bundle.name),
                annotation("bundle-version", &bundle.version),
                annotation("bundle-reference", &bundle.reference),
                (CHUNK_LABEL.to_owned(), chunks.len().to_string()),
                (DIGEST.to_owned(), revision.record.digest()),
                (PHASES.to_owned(), phases_text(&revision.record)),
            ]);
            annotations.extend(revision.notes.annotations());
        } else {
            labels.insert(CHUNK_LABEL.to_owned(), index.to_string());
        }
        Secret {
            metadata: ObjectMeta {
                name: Some(if index == 0 { name.clone() } else { chunk_name(&name, index) }),
                namespace: Some(namespace.to_owned()),
                labels: Some(labels),
                annotations: Some(annotations),
                owner_references: Some(vec![owner.clone()]),
                ..ObjectMeta::default()
            },
            type_: Some(SECRET_TYPE.to_owned()),
            data: Some(BTreeMap::from([(DATA_KEY.to_owned(), ByteString(chunk.to_vec()))])),
            ..Secret::default()
        }
    };
    Ok(chunks.iter().enumerate().map(secret).collect())
}

fn phases_text(record: &Record) -> String {
    record.phases().iter().map(|(name, count)| format!("{name}={count}")).collect::<Vec<_>>().join(",")
}

/// The patch of a revision's first Secret that sets this state and these notes.
pub fn patch(state: State, notes: &Notes) -> Value {
    serde_json::json!({"metadata": {"labels": {STATE_LABEL: state.as_str()}, "annotations": notes.patch()}})
}

/// Returns true if a revision's first Secret has this state.
pub fn is_in(secret: &Value, state: State) -> bool {
    secret["metadata"]["labels"][STATE_LABEL] == state.as_str()
}

/// The name of a revision's first Secret. An extension's name may have 253 characters, which leaves no room for the suffix: then it is cut, and
/// a hash keeps it unique.
pub fn secret_name(extension: &str, revision: u32) -> String {
    const NAME: usize = 200;
    if extension.len() <= NAME {
        return format!("olm.v1.{extension}.v{revision}");
    }
    let hash = Sha256::digest(extension.as_bytes()).iter().take(8).fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    let cut = extension.get(..NAME).unwrap_or_default().trim_end_matches(['.', '-']);
    format!("olm.v1.{cut}.{hash}.v{revision}")
}

/// Returns true if a Secret is the first one of a record of this extension. Without the first one, a record does not count.
pub fn begins(secret: &Value, uid: &str) -> bool {
    let labels = &secret["metadata"]["labels"];
    labels[EXTENSION_LABEL] == uid && labels[CHUNK_LABEL].is_null()
}

fn chunk_name(first: &str, chunk: usize) -> String {
    format!("{first}.{chunk}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use mainstay_lifecycle::revision::InstalledBundle;

    use super::*;

    fn example(number: u32, state: State, text: &str) -> Revision {
        let bundle =
            InstalledBundle { package: "p".into(), name: "p.v1".into(), version: "1.0.0".into(), reference: "r/p@sha256:1".into() };
        let objects = vec![json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"text": text}})];
        Revision { number, state, record: Record { bundle, annotations: BTreeMap::new(), objects }.into(), notes: Notes::default() }
    }

    fn owner() -> OwnerReference {
        OwnerReference { uid: "1234".into(), name: "widgets".into(), ..OwnerReference::default() }
    }

    /// OLM1-GEN-04, OLM1-CTRL-11: a record of more than one Secret's size comes back whole; the newest deployed one is installed.
    #[test]
    fn large_records_are_split_and_read_back() {
        // A pseudo-random text does not compress, so it needs several chunks.
        let mut state = 7_u64;
        let text: String = (0..3_000_000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                char::from(b'0' + ((state >> 33) % 74) as u8)
            })
            .filter(char::is_ascii_alphanumeric)
            .collect();
        let large = example(2, State::Deployed, &text);
        let mut all = secrets(&example(1, State::Superseded, "old"), "widgets", &owner(), "system").unwrap();
        all.extend(secrets(&large, "widgets", &owner(), "system").unwrap());
        all.extend(secrets(&example(3, State::Failed, "new"), "widgets", &owner(), "system").unwrap());
        assert_eq!(all.len(), 4);
        all.reverse();
        let history = read(&all).unwrap();
        assert_eq!(history.installed(), Some(&large));
        assert_eq!(history.may_be_live().map(|revision| revision.number).collect::<Vec<_>>(), [2, 3]);
        all.retain(|secret| secret.metadata.name.as_deref() != Some("olm.v1.widgets.v2.1"));
        let error = read(&all).unwrap_err();
        assert_eq!(error.to_string(), "install record olm.v1.widgets.v2: chunk 1 of 2 is missing");
    }

    /// MS-OPS-03: which Secrets in the way of a new record are left-overs, and which are another process's record.
    #[test]
    fn the_first_secret_of_this_extension_is_no_left_over() {
        let revision = example(1, State::Pending, "text");
        let first = serde_json::to_value(&secrets(&revision, "widgets", &owner(), "system").unwrap()[0]).unwrap();
        let mut chunk = first.clone();
        chunk["metadata"]["labels"][CHUNK_LABEL] = json!("1");
        assert!(begins(&first, "1234"));
        assert!(!begins(&first, "of an extension that is gone"));
        assert!(!begins(&chunk, "1234"));
    }
}
