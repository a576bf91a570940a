//! Install records: what was applied, in which revision, kept in Secrets of the system namespace (OLM1-CTRL-11, OLM1-GEN-04).
//!
//! ```text
//!   Secret NAME.vN      labels: extension uid, revision, state      data: first chunk of the gzipped record
//!   Secret NAME.vN.1..  further chunks, each under 1 MiB, at most ten in all
//! ```

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};

mod notes;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kube::api::ObjectMeta;
use mainstay_apply::{ObjectRef, phase};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::object;

pub use notes::{Notes, RolledBack, brief};

/// How many revisions are kept.
pub const KEPT: usize = 10;
/// The type of the Secrets.
pub const SECRET_TYPE: &str = "olm.operatorframework.io/install-record.v1";
/// The label that holds the extension's uid.
pub const EXTENSION_LABEL: &str = "lifecycle.mainstay.dev/extension-uid";
const STATE_LABEL: &str = "status";
const REVISION_LABEL: &str = "version";
const OWNER_LABEL: &str = "owner";
const OWNER: &str = "operator-controller";
const CHUNK_LABEL: &str = "lifecycle.mainstay.dev/chunk";
const CHUNK_BYTES: usize = 1_000_000;
const CHUNKS: usize = 10;
const RECORD_BYTES: u64 = 256 << 20;
const DATA_KEY: &str = "record";
/// The digest of the manifests, for people who look at the Secret.
const DIGEST: &str = "lifecycle.mainstay.dev/manifest-digest";
/// The phases with their objects' number: `crds=1,workloads=2`.
const PHASES: &str = "lifecycle.mainstay.dev/phases";

/// How far a revision has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Being applied, or left half-way by a crash.
    Pending,
    /// Applied wholly; the newest such one is what is installed.
    Deployed,
    /// Given up half-way; tried again as a whole.
    Failed,
    /// Deployed once, and replaced since.
    Superseded,
}

impl State {
    /// The label's value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Deployed => "deployed",
            Self::Failed => "failed",
            Self::Superseded => "superseded",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Pending, Self::Deployed, Self::Failed, Self::Superseded].into_iter().find(|state| state.as_str() == text)
    }
}

/// The bundle that a revision applies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "named by what they are")]
pub struct InstalledBundle {
    pub package: String,
    pub name: String,
    pub version: String,
    pub reference: String,
}

/// What a revision holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The bundle.
    pub bundle: InstalledBundle,
    /// The annotations of the bundle's CSV, `olm.properties` among them.
    pub csv_annotations: BTreeMap<String, String>,
    /// Everything that was applied, in order.
    pub objects: Vec<Value>,
}

/// One revision.
#[derive(Clone, Debug, PartialEq)]
pub struct Revision {
    /// Counted from 1.
    pub number: u32,
    /// How far it has come.
    pub state: State,
    /// What it holds.
    pub record: Record,
    /// What became of it.
    pub notes: Notes,
}

/// All revisions of an extension, oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// The revisions.
    pub revisions: Vec<Revision>,
}

/// A record that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A chunk is missing.
    #[error("install record {secret}: chunk {chunk} of {chunks} is missing")]
    Chunk {
        /// The first Secret.
        secret: String,
        /// Counted from 0.
        chunk: usize,
        /// How many there should be.
        chunks: usize,
    },
    /// A Secret is no install record.
    #[error("install record {secret}: {problem}")]
    Form {
        /// The Secret.
        secret: String,
        /// What is wrong.
        problem: String,
    },
    /// The content is damaged.
    #[error("install record {secret} cannot be read")]
    Content {
        /// The Secret.
        secret: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Too much for ten chunks.
    #[error("the install record has {bytes} bytes, compressed; at most {} fit", CHUNKS * CHUNK_BYTES)]
    TooLarge {
        /// The compressed size.
        bytes: usize,
    },
}

impl Record {
    /// The digest of what is applied; equal manifests have equal digests.
    pub fn digest(&self) -> String {
        digest(&self.objects)
    }

    /// The phases in which it is applied, in order, with how many objects each has.
    pub fn phases(&self) -> Vec<(&'static str, usize)> {
        let mut phases: Vec<(&'static str, usize)> = Vec::new();
        for object in &self.objects {
            let name = phase(object["kind"].as_str().unwrap_or_default());
            match phases.last_mut() {
                Some((last, count)) if *last == name => *count += 1,
                _ => phases.push((name, 1)),
            }
        }
        phases
    }
}

/// How a revision differs from the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Objects that it adds.
    pub added: Vec<ObjectRef>,
    /// Objects whose content differs.
    pub changed: Vec<ObjectRef>,
    /// Objects that it does not have any more.
    pub removed: Vec<ObjectRef>,
}

impl Record {
    /// How it differs from an earlier one; everything is added where there is none.
    pub fn changes(&self, earlier: Option<&Self>) -> Changes {
        let before: Vec<(ObjectRef, &Value)> =
            earlier.iter().flat_map(|record| &record.objects).map(|object| (object::place(object), object)).collect();
        let mut changes = Changes::default();
        for object in &self.objects {
            let target = object::place(object);
            match before.iter().find(|(other, _)| other.same(&target)) {
                None => changes.added.push(target),
                Some((_, other)) if *other != object => changes.changed.push(target),
                Some(_) => {}
            }
        }
        let now: Vec<ObjectRef> = self.objects.iter().map(object::place).collect();
        changes.removed =
            before.into_iter().map(|(target, _)| target).filter(|target| !now.iter().any(|other| other.same(target))).collect();
        changes
    }
}

/// The digest of objects in their order, as canonical JSON.
pub fn digest(objects: &[Value]) -> String {
    let mut hash = Sha256::new();
    for object in objects {
        hash.update(object.to_string().as_bytes());
        hash.update(b"\n");
    }
    hash.finalize().iter().fold(String::from("sha256:"), |text, byte| text + &format!("{byte:02x}"))
}

impl History {
    /// What is installed: the newest deployed revision, not the newest attempt.
    pub fn installed(&self) -> Option<&Revision> {
        self.revisions.iter().rev().find(|revision| revision.state == State::Deployed)
    }

    /// The newest revision, whatever came of it.
    pub fn latest(&self) -> Option<&Revision> {
        self.revisions.last()
    }

    /// The installed revision and the attempts after it: whatever may be live. An older revision that still counts was left so by a crash,
    /// or by a process that had been replaced and whose writes came late: what it holds may be live, too.
    pub fn may_be_live(&self) -> impl Iterator<Item = &Revision> {
        let from = self.revisions.iter().find(|revision| revision.state == State::Deployed).map_or(0, |revision| revision.number);
        self.revisions.iter().filter(move |revision| revision.number >= from)
    }

    /// The newest revision before this one that was deployed once: what a rollback leads back to.
    pub fn before(&self, number: u32) -> Option<&Revision> {
        let was_deployed = |revision: &&Revision| matches!(revision.state, State::Deployed | State::Superseded);
        self.revisions.iter().rev().filter(|revision| revision.number < number).find(was_deployed)
    }

    /// The oldest revision beyond those that are kept. However many attempts failed since, what is installed stays known, and what a
    /// rollback leads back to.
    pub fn surplus(&self) -> Option<usize> {
        if self.revisions.len() <= KEPT {
            return None;
        }
        let installed = self.installed().map(|revision| revision.number);
        let earlier = installed.and_then(|number| self.before(number)).map(|revision| revision.number);
        self.revisions.iter().position(|revision| ![installed, earlier].contains(&Some(revision.number)))
    }

    /// Reads the Secrets of one extension.
    pub fn read(secrets: &[Secret]) -> Result<Self, RecordError> {
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
        Ok(Self { revisions })
    }
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
    let notes = Notes::read(secret).map_err(|problem| form(&problem))?;
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

/// The change of a revision's first Secret that gives it this state and these notes.
pub fn patch(state: State, notes: &Notes) -> Value {
    serde_json::json!({"metadata": {"labels": {STATE_LABEL: state.as_str()}, "annotations": notes.patch()}})
}

/// The name of a revision's first Secret. An extension's name may have 253 characters, which leaves no room: then it is cut, and a hash keeps it unique.
pub fn secret_name(extension: &str, revision: u32) -> String {
    const ROOM: usize = 200;
    if extension.len() <= ROOM {
        return format!("olm.v1.{extension}.v{revision}");
    }
    let hash = Sha256::digest(extension.as_bytes()).iter().take(8).fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    let cut = extension.get(..ROOM).unwrap_or_default().trim_end_matches(['.', '-']);
    format!("olm.v1.{cut}.{hash}.v{revision}")
}

/// Whether a Secret is the first one of a record of this extension: the one that makes the record count.
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

    use super::*;

    fn owner() -> OwnerReference {
        OwnerReference { uid: "1234".into(), name: "widgets".into(), ..OwnerReference::default() }
    }

    fn example(number: u32, state: State, text: &str) -> Revision {
        let bundle =
            InstalledBundle { package: "p".into(), name: "p.v1".into(), version: "1.0.0".into(), reference: "r/p@sha256:1".into() };
        let objects = vec![json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"text": text}})];
        Revision { number, state, record: Record { bundle, csv_annotations: BTreeMap::new(), objects }, notes: Notes::default() }
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
        let history = History::read(&all).unwrap();
        assert_eq!(history.installed(), Some(&large));
        assert_eq!(history.may_be_live().map(|revision| revision.number).collect::<Vec<_>>(), [2, 3]);
        all.retain(|secret| secret.metadata.name.as_deref() != Some("olm.v1.widgets.v2.1"));
        let error = History::read(&all).unwrap_err();
        assert_eq!(error.to_string(), "install record olm.v1.widgets.v2: chunk 1 of 2 is missing");
    }

    /// MS-OPS-03: an older revision that counts again, since the last write of a replaced process came late, may have left something live.
    #[test]
    fn what_a_late_write_left_may_be_live() {
        let history = |first| History { revisions: vec![example(1, first, "old"), example(2, State::Deployed, "new")] };
        let live = |history: &History| history.may_be_live().map(|revision| revision.number).collect::<Vec<_>>();
        assert_eq!(live(&history(State::Superseded)), [2]);
        let overtaken = history(State::Deployed);
        assert_eq!((live(&overtaken), overtaken.installed().map(|revision| revision.number)), (vec![1, 2], Some(2)));
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

    /// OLM1-CTRL-11, MS-RB-01: ten revisions are kept; what is installed and what a rollback leads back to are among them, however many
    /// attempts failed between.
    #[test]
    fn the_way_back_is_kept() {
        let mut revisions = vec![example(1, State::Superseded, "old"), example(2, State::Superseded, "good")];
        revisions.extend((3..=11).map(|number| example(number, State::Failed, "bad")));
        revisions.push(example(12, State::Deployed, "new"));
        let mut history = History { revisions };
        while let Some(at) = history.surplus() {
            history.revisions.remove(at);
        }
        let numbers: Vec<u32> = history.revisions.iter().map(|revision| revision.number).collect();
        assert_eq!(numbers, [2, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        assert_eq!(history.before(12).map(|revision| revision.number), Some(2));
    }
}
