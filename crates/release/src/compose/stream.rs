//! The images of an image stream, as a release names them (CVO-RELN-01).

use std::collections::BTreeSet;

use mainstay_golang::quote;
use serde_json::{Value, json};

use crate::mirror::repository;

/// Where pull specs of a release lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReferenceMode {
    /// To the public repository of the image stream.
    #[default]
    Public,
    /// To where each image was imported from.
    Source,
}

/// An image stream that no release can be made of, in `oc`'s words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// Another mode.
    #[error("supported reference modes are: \"public\" (default) and \"source\"")]
    Mode,
    /// The stream has no public repository.
    #[error(
        "only image streams or releases with public image repositories can be the source for releases when using the default --reference-mode"
    )]
    NotPublic,
    /// It is of another kind.
    #[error("unrecognized input image stream file, must be an ImageStream in image.openshift.io/v1")]
    Kind,
    /// A tag has no image yet.
    #[error("the tag {} in the source input stream has not been imported yet", quote(.0))]
    NotImported(String),
    /// A tag has an image without a digest.
    #[error("the tag {} in the source input stream has no image id", quote(.0))]
    NoDigest(String),
}

impl ReferenceMode {
    /// Reads a mode; empty is the default.
    ///
    /// # Errors
    /// There is no such mode.
    pub fn parse(text: &str) -> Result<Self, StreamError> {
        match text {
            "" | "public" => Ok(Self::Public),
            "source" => Ok(Self::Source),
            _ => Err(StreamError::Mode),
        }
    }
}

/// The settings that decide about pull specs.
struct Places<'s> {
    mode: ReferenceMode,
    internal: &'s str,
    external: &'s str,
}

impl Places<'_> {
    /// The pull spec of an image; none if no place is known for it.
    fn pull_spec(&self, source: &str, digest: &str) -> Option<String> {
        // Nodes of other clusters cannot reach the registry of this one.
        let source = if !self.internal.is_empty() && source.starts_with(self.internal) { "" } else { source };
        if (self.mode == ReferenceMode::Public || source.is_empty()) && !self.external.is_empty() {
            return Some(format!("{}@{digest}", self.external));
        }
        (!source.is_empty()).then(|| source.to_owned())
    }
}

/// Returns the tags of an ImageStream as `image-references` has them; a tag that has no image is left out.
///
/// # Errors
/// The stream is of another kind, or an image of it cannot be named.
pub(super) fn tags(stream: &Value, mode: ReferenceMode, exclude: &BTreeSet<String>) -> Result<Vec<Value>, StreamError> {
    if stream["kind"] != "ImageStream" || stream["apiVersion"] != "image.openshift.io/v1" {
        return Err(StreamError::Kind);
    }
    let text = |value: &'_ Value| value.as_str().unwrap_or_default().to_owned();
    let (internal, external) = (text(&stream["status"]["dockerImageRepository"]), text(&stream["status"]["publicDockerImageRepository"]));
    if mode == ReferenceMode::Public && external.is_empty() {
        return Err(StreamError::NotPublic);
    }
    let places = Places { mode, internal: &internal, external: &external };
    let (mut tags, mut covered) = (Vec::new(), BTreeSet::new());
    for tag in list(&stream["spec"]["tags"]) {
        let name = text(&tag["name"]);
        if exclude.contains(&name) {
            continue;
        }
        if let Some(image) = of_spec(stream, tag, &name, &places)? {
            let mut tag = tag.clone();
            tag["from"] = json!({"kind": "DockerImage", "name": image});
            tags.push(tag);
            covered.insert(name);
        }
    }
    for tag in list(&stream["status"]["tags"]) {
        let name = text(&tag["tag"]);
        if covered.contains(&name) || exclude.contains(&name) {
            continue;
        }
        let Some(newest) = newest(tag) else {
            not_imported(tag)?;
            continue;
        };
        let digest = text(&newest["image"]);
        // A tag that was deleted leaves an entry without an image.
        let source = places.pull_spec(&text(&newest["dockerImageReference"]), &digest).filter(|_| !digest.is_empty());
        if let Some(source) = source {
            let image = format!("{}@{digest}", repository(&source));
            tags.push(json!({"name": name, "from": {"kind": "DockerImage", "name": image}}));
        }
    }
    Ok(tags)
}

/// The pull spec of a tag that the stream's owner set; none if the tag's status decides, or no image is known.
fn of_spec(stream: &Value, tag: &Value, name: &str, places: &Places<'_>) -> Result<Option<String>, StreamError> {
    let status = list(&stream["status"]["tags"]).find(|status| status["tag"] == name);
    if let (Some(generation), Some(newest)) = (tag["generation"].as_i64(), status.and_then(newest)) {
        // An import that is waited for; a push may have come after the last one, so the status wins otherwise.
        if generation > newest["generation"].as_i64().unwrap_or_default() {
            return Err(StreamError::NotImported(name.to_owned()));
        }
        return Ok(None);
    }
    let from = &tag["from"];
    if from["kind"] != "DockerImage" {
        return Ok(None);
    }
    let image = from["name"].as_str().unwrap_or_default();
    if let Some((_, digest)) = image.split_once('@') {
        return Ok(places.pull_spec(image, digest));
    }
    let Some(status) = status.filter(|_| repository(image) != image) else { return Ok(None) };
    let Some(newest) = newest(status) else { return not_imported(status).map(|()| None) };
    match newest["image"].as_str().filter(|digest| !digest.is_empty()) {
        Some(digest) => Ok(places.pull_spec(newest["dockerImageReference"].as_str().unwrap_or_default(), digest)),
        None => Err(StreamError::NoDigest(name.to_owned())),
    }
}

fn newest(status: &Value) -> Option<&Value> {
    list(&status["items"]).next()
}

/// Refuses a tag whose import failed or is under way.
fn not_imported(status: &Value) -> Result<(), StreamError> {
    let failed = list(&status["conditions"]).any(|condition| condition["type"] == "ImportSuccess" && condition["status"] != "Success");
    if failed { Err(StreamError::NotImported(status["tag"].as_str().unwrap_or_default().to_owned())) } else { Ok(()) }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns the times of the images of a stream, as they are written.
pub(super) fn times(stream: &Value) -> impl Iterator<Item = &str> {
    list(&stream["status"]["tags"])
        .filter_map(|tag| newest(tag)?["created"].as_str())
        .chain(stream["metadata"]["creationTimestamp"].as_str())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn names(stream: &Value, mode: ReferenceMode, exclude: &[&str]) -> Result<Vec<String>, String> {
        let exclude = exclude.iter().map(|name| (*name).to_owned()).collect();
        let tags = tags(stream, mode, &exclude).map_err(|error| error.to_string())?;
        Ok(tags.iter().map(|tag| format!("{} {}", tag["name"].as_str().unwrap(), tag["from"]["name"].as_str().unwrap())).collect())
    }

    /// CVO-RELN-01: the images of a stream, publicly or by their sources; excluded tags and those without a place are left out.
    #[test]
    fn images_of_a_stream() {
        let stream = json!({
            "kind": "ImageStream", "apiVersion": "image.openshift.io/v1",
            "spec": {"tags": [
                {"name": "pinned", "from": {"kind": "DockerImage", "name": "q.test/o/pinned@sha256:01"}},
                {"name": "tagged", "from": {"kind": "DockerImage", "name": "q.test/o/tagged:1"}},
                {"name": "unknown", "from": {"kind": "DockerImage", "name": "q.test/o/unknown:1"}},
                {"name": "same", "from": {"kind": "ImageStreamTag", "name": "pushed"}},
                {"name": "pushed", "generation": 1, "from": {"kind": "DockerImage", "name": "q.test/o/old@sha256:00"}},
            ]},
            "status": {"dockerImageRepository": "registry.svc:5000/ns/is", "publicDockerImageRepository": "public.test/ns/is", "tags": [
                {"tag": "tagged", "items": [{"image": "sha256:02", "dockerImageReference": "q.test/o/tagged@sha256:02"}]},
                {"tag": "pushed", "items": [{"image": "sha256:03", "generation": 2, "dockerImageReference": "registry.svc:5000/ns/is@sha256:03"}]},
                {"tag": "other", "items": [{"image": "sha256:04", "dockerImageReference": "q.test/o/other:1"}]},
                {"tag": "deleted", "items": [{"image": ""}]},
                {"tag": "empty"},
            ]},
        });
        let public = [
            "pinned public.test/ns/is@sha256:01",
            "tagged public.test/ns/is@sha256:02",
            "pushed public.test/ns/is@sha256:03",
            "other public.test/ns/is@sha256:04",
        ];
        assert_eq!(names(&stream, ReferenceMode::Public, &[]).unwrap(), public);
        let source = ["pinned q.test/o/pinned@sha256:01", "pushed public.test/ns/is@sha256:03", "other q.test/o/other@sha256:04"];
        assert_eq!(names(&stream, ReferenceMode::Source, &["tagged"]).unwrap(), source);
    }

    /// CVO-RELN-01: streams that are refused, in upstream's words.
    #[test]
    fn refusals() {
        let stream = |spec: Value, status: Value, public: &str| {
            json!({"kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "spec": {"tags": spec},
                "status": {"publicDockerImageRepository": public, "tags": status}})
        };
        let tagged = json!([{"name": "a", "generation": 2, "from": {"kind": "DockerImage", "name": "q.test/a:1"}}]);
        let failed = json!([{"tag": "a", "conditions": [{"type": "ImportSuccess", "status": "False"}]}]);
        let not_imported = "the tag \"a\" in the source input stream has not been imported yet";
        for (stream, expected) in [
            (
                json!({"kind": "Pod", "apiVersion": "v1"}),
                "unrecognized input image stream file, must be an ImageStream in image.openshift.io/v1",
            ),
            (
                stream(json!([]), json!([]), ""),
                "only image streams or releases with public image repositories can be the source for releases when using the default --reference-mode",
            ),
            (stream(tagged.clone(), json!([{"tag": "a", "items": [{"image": "sha256:1", "generation": 1}]}]), "p.test/a"), not_imported),
            (stream(json!([]), failed.clone(), "p.test/a"), not_imported),
            (stream(tagged, failed, "p.test/a"), not_imported),
            (
                stream(
                    json!([{"name": "a", "from": {"kind": "DockerImage", "name": "q.test/a:1"}}]),
                    json!([{"tag": "a", "items": [{}]}]),
                    "p.test/a",
                ),
                "the tag \"a\" in the source input stream has no image id",
            ),
        ] {
            assert_eq!(names(&stream, ReferenceMode::Public, &[]).unwrap_err(), expected);
        }
        assert_eq!(ReferenceMode::parse("x"), Err(StreamError::Mode));
        assert_eq!(ReferenceMode::parse("source"), Ok(ReferenceMode::Source));
    }
}
