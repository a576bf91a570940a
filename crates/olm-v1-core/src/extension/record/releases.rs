//! Records as OLM's own operator-controller keeps them: Helm releases, in Secrets of a chunked form. Mainstay only reads them, to
//! recognize extensions that operator-controller installed.
//!
//! ```text
//!   Secret sh.helm.release.v1.NAME.vN   labels: owner, name, status, version, type=index    data: chunk, extraChunks (names)
//!   Secret ...                          labels: owner, key=sh.helm..., type=chunk           data: chunk
//!                                       all chunks together: a gzipped release as JSON, the manifest in it as YAML
//! ```

use std::collections::BTreeMap;
use std::io::Read as _;

use flate2::read::GzDecoder;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube_core::ResourceExt;
use mainstay_lifecycle::revision::{History, InstalledBundle, Notes, Record, Revision, State};
use serde_json::Value;

use super::RecordError;

/// The label selector of all Secrets of releases.
pub const RELEASES: &str = "owner=operator-controller,type in (index,chunk)";
/// Read limit for an unpacked release, in bytes; no release reaches it.
const RELEASE_BYTES: u64 = 256 << 20;
/// Read limit for the chunks of a release; no release reaches it.
const CHUNKS: usize = 32;

/// Reads the releases of one extension among Secrets of releases. Those of a deleted extension of the same name do not count.
///
/// # Errors
/// A release is incomplete or damaged.
pub fn releases(secrets: &[Secret], extension: &str, uid: &str) -> Result<History, RecordError> {
    let label = |secret: &Secret, key: &str| secret.labels().get(key).cloned().unwrap_or_default();
    let others = |secret: &Secret| {
        let owners = secret.owner_references();
        !owners.is_empty() && owners.iter().all(|owner| owner.uid != uid)
    };
    let chunks: BTreeMap<(String, String), &Secret> = secrets
        .iter()
        .filter(|secret| label(secret, "type") == "chunk")
        .map(|secret| ((secret.namespace().unwrap_or_default(), secret.name_any()), secret))
        .collect();
    let ours = |secret: &&Secret| label(secret, "type") == "index" && label(secret, "name") == extension && !others(secret);
    let mut revisions = Vec::new();
    for secret in secrets.iter().filter(ours) {
        if let Some(revision) = revision(secret, &chunks)? {
            revisions.push(revision);
        }
    }
    revisions.sort_by_key(|revision: &Revision| revision.number);
    Ok(History { revisions })
}

fn revision(index: &Secret, chunks: &BTreeMap<(String, String), &Secret>) -> Result<Option<Revision>, RecordError> {
    let name = index.name_any();
    let form = |problem: String| RecordError::Form { secret: name.clone(), problem };
    let data = |secret: &Secret, key: &str| secret.data.as_ref().and_then(|data| data.get(key)).map(|bytes| bytes.0.clone());
    let extra = data(index, "extraChunks").ok_or_else(|| form("no list of chunks".to_owned()))?;
    let extra: Vec<String> = serde_json::from_slice(&extra).map_err(|error| form(format!("the list of chunks cannot be read: {error}")))?;
    if extra.len() >= CHUNKS {
        return Err(form("an impossible chunk count".to_owned()));
    }
    let mut bytes = data(index, "chunk").ok_or_else(|| form("no data".to_owned()))?;
    let namespace = index.namespace().unwrap_or_default();
    for (position, chunk) in extra.iter().enumerate() {
        let found = chunks.get(&(namespace.clone(), chunk.clone())).and_then(|secret| data(secret, "chunk"));
        bytes.extend(found.ok_or_else(|| RecordError::Chunk { secret: name.clone(), chunk: position + 1, chunks: extra.len() + 1 })?);
    }
    let mut text = Vec::new();
    let content = |source| RecordError::Content { secret: name.clone(), source };
    GzDecoder::new(bytes.as_slice()).take(RELEASE_BYTES).read_to_end(&mut text).map_err(content)?;
    let release: Value = serde_json::from_slice(&text).map_err(|error| content(error.into()))?;
    let said = |pointer: &str| release.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let state = match said("/info/status") {
        "deployed" => State::Deployed,
        "superseded" => State::Superseded,
        "failed" => State::Failed,
        "uninstalled" => return Ok(None),
        // An operation that is under way is not complete yet.
        _ => State::Pending,
    };
    let number =
        release["version"].as_u64().and_then(|number| number.try_into().ok()).ok_or_else(|| form("no revision number".to_owned()))?;
    let labelled = |key: &str| release["labels"][format!("olm.operatorframework.io/{key}")].as_str().unwrap_or_default().to_owned();
    let of_chart = |pointer: &str| said(pointer).to_owned();
    let or = |text: String, other: String| if text.is_empty() { other } else { text };
    let bundle = InstalledBundle {
        package: labelled("package-name"),
        name: or(labelled("bundle-name"), of_chart("/chart/metadata/name")),
        version: or(labelled("bundle-version"), of_chart("/chart/metadata/version")),
        reference: labelled("bundle-reference"),
    };
    let annotations = release.pointer("/chart/metadata/annotations").and_then(Value::as_object).into_iter().flatten();
    let annotations = annotations.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect::<BTreeMap<_, _>>();
    let mut objects = Vec::new();
    for document in mainstay_yaml::stream(said("/manifest")) {
        let value = document.map_err(|error| form(format!("the manifest cannot be read: {error}")))?.value;
        if value.is_object() {
            objects.push(value);
        }
    }
    let time = |pointer: &str| said(pointer).parse::<Timestamp>().ok();
    let notes = Notes {
        begun: time("/info/first_deployed"),
        applied: time("/info/last_deployed"),
        why: (state == State::Failed).then(|| said("/info/description").to_owned()),
        ..Notes::default()
    };
    Ok(Some(Revision { number, state, record: Record { bundle, annotations, objects }.into(), notes }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use k8s_openapi::ByteString;
    use serde_json::json;

    use super::*;

    /// The Secrets of a release, as operator-controller writes them, in two chunks.
    fn release(number: u32, status: &str, owner: Option<&str>) -> Vec<Secret> {
        let value = json!({"name": "widgets", "version": number, "namespace": "work",
            "info": {"first_deployed": "2026-01-02T03:04:05.6Z", "last_deployed": "2026-01-02T03:04:07Z", "status": status, "description": "why"},
            "chart": {"metadata": {"name": "", "version": "1.0.0", "annotations": {"olm.properties": "[]"}}},
            "manifest": "---\n# Source: x\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: b\n",
            "labels": {"olm.operatorframework.io/bundle-name": format!("widgets.v{number}.0.0"),
                "olm.operatorframework.io/bundle-version": format!("{number}.0.0"), "olm.operatorframework.io/package-name": "widgets"}});
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(value.to_string().as_bytes()).unwrap();
        let bytes = encoder.finish().unwrap();
        let key = format!("sh.helm.release.v1.widgets.v{number}");
        let (first, second) = bytes.split_at(bytes.len() / 2);
        let owners: Vec<Value> = owner.iter().map(|uid| json!({"apiVersion": "v1", "kind": "X", "name": "widgets", "uid": uid})).collect();
        let secret = |name: &str, labels: Value| -> Secret {
            serde_json::from_value(
                json!({"metadata": {"name": name, "namespace": "olmv1-system", "labels": labels, "ownerReferences": owners}}),
            )
            .unwrap()
        };
        let mut index = secret(
            &key,
            json!({"owner": "operator-controller", "name": "widgets", "status": status, "version": number.to_string(), "key": key, "type": "index"}),
        );
        let chunk_name = format!("{key}-abc");
        index.data = Some(BTreeMap::from([
            ("chunk".to_owned(), ByteString(first.to_vec())),
            ("extraChunks".to_owned(), ByteString(json!([chunk_name]).to_string().into_bytes())),
        ]));
        let mut chunk = secret(&chunk_name, json!({"owner": "operator-controller", "key": key, "type": "chunk"}));
        chunk.metadata.owner_references = None;
        chunk.data = Some(BTreeMap::from([("chunk".to_owned(), ByteString(second.to_vec()))]));
        vec![index, chunk]
    }

    /// MS-RB-01, OLM1-CTRL-11: what OLM's own operator-controller installed has a history here, too.
    #[test]
    fn releases_of_upstream() {
        let mut all = release(2, "deployed", Some("1234"));
        all.extend(release(1, "superseded", None));
        all.extend(release(3, "deployed", Some("of another one of this name")));
        let history = releases(&all, "widgets", "1234").unwrap();
        let told: Vec<(u32, State)> = history.revisions.iter().map(|revision| (revision.number, revision.state)).collect();
        assert_eq!(told, [(1, State::Superseded), (2, State::Deployed)]);
        let record = &history.installed().unwrap().record;
        assert_eq!((record.bundle.name.as_str(), record.bundle.version.as_str(), record.objects.len()), ("widgets.v2.0.0", "2.0.0", 2));
        assert_eq!(record.annotations["olm.properties"], "[]");
        assert_eq!(releases(&all, "gadgets", "1234").unwrap(), History::default());
        assert_eq!(releases(&release(1, "uninstalled", None), "widgets", "1234").unwrap(), History::default());
        all.retain(|secret| !secret.name_any().ends_with("v2-abc"));
        let error = releases(&all, "widgets", "1234").unwrap_err();
        assert_eq!(error.to_string(), "install record sh.helm.release.v1.widgets.v2: chunk 1 of 2 is missing");
    }
}
