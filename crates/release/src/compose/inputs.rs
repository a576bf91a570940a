//! The images that a release is made of, as its sources name them, and the time of the newest of them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::mapping::Mapping;
use super::stream::{self, ReferenceMode, StreamError};
use crate::info::{Tag, image_stream};

/// The label of an image whose `/manifests` are part of a release.
const OPERATOR: &str = "io.openshift.release.operator";
/// The annotation of an image that the user named.
const OVERRIDE: &str = "io.openshift.release.override";
const FROM_RELEASE: &str = "release.openshift.io/from-release";
const FROM_STREAM: &str = "release.openshift.io/from-image-stream";
pub(super) const VERSIONS: &str = "io.openshift.build.versions";
pub(super) const DISPLAY_NAMES: &str = "io.openshift.build.version-display-names";
/// Labels that become annotations, whether they are set or not.
const SOURCES: [&str; 3] = ["io.openshift.build.commit.id", "io.openshift.build.commit.ref", "io.openshift.build.source-location"];

/// Returns true if an image with these labels brings manifests.
pub fn is_operator(labels: &BTreeMap<&str, &str>) -> bool {
    labels.get(OPERATOR).is_some_and(|value| !value.is_empty())
}

/// Images by name, sorted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inputs {
    tags: BTreeMap<String, Value>,
    metadata: Map<String, Value>,
    spec: Map<String, Value>,
    /// The time of the newest input.
    created: Option<Timestamp>,
}

impl Inputs {
    /// Takes the images of a release, from its `image-references`, or those of a folder with such a file.
    pub fn of_references(references: &Value, exclude: &BTreeSet<String>) -> Self {
        let mut inputs = Self::default();
        let fields = |value: &Value| value.as_object().cloned().unwrap_or_default();
        (inputs.metadata, inputs.spec) = (fields(&references["metadata"]), fields(&references["spec"]));
        inputs.note_time(references["metadata"]["creationTimestamp"].as_str());
        let tags = references["spec"]["tags"].as_array().into_iter().flatten();
        inputs.take(tags.filter(|tag| !exclude.contains(Tag(tag).name())).cloned());
        inputs
    }

    /// Takes the images of an ImageStream; `place` is its namespace and name on a cluster.
    ///
    /// # Errors
    /// The stream is of another kind, or an image of it cannot be named.
    pub fn of_stream(
        stream: &Value,
        place: Option<(&str, &str)>,
        mode: ReferenceMode,
        exclude: &BTreeSet<String>,
    ) -> Result<Self, StreamError> {
        let mut inputs = Self::default();
        inputs.take(stream::tags(stream, mode, exclude)?);
        stream::times(stream).for_each(|time| inputs.note_time(Some(time)));
        if let Some((namespace, name)) = place {
            inputs.annotate(FROM_STREAM, &format!("{namespace}/{name}"));
        }
        Ok(inputs)
    }

    fn take(&mut self, tags: impl IntoIterator<Item = Value>) {
        for tag in tags {
            self.tags.insert(Tag(&tag).name().to_owned(), tag);
        }
    }

    /// Says which release the images come from.
    pub fn from_release(&mut self, release: &str) {
        self.annotate(FROM_RELEASE, release);
    }

    /// Sets the versions of components that no image tells.
    pub fn component_versions(&mut self, versions: &str, display_names: &str) {
        for (key, value) in [(VERSIONS, versions), (DISPLAY_NAMES, display_names)] {
            if !value.is_empty() {
                self.annotate(key, value);
            }
        }
    }

    fn annotate(&mut self, key: &str, value: &str) {
        let annotations = self.metadata.entry("annotations").or_insert(Value::Null);
        if !annotations.is_object() {
            *annotations = json!({});
        }
        annotations[key] = value.into();
    }

    /// Puts the images that the user named in place of others of their names.
    pub fn name_images(&mut self, mappings: &[Mapping], exclude: &BTreeSet<String>) {
        for mapping in mappings.iter().filter(|mapping| !exclude.contains(&mapping.name)) {
            let tag = self.tags.entry(mapping.name.clone()).or_insert_with(|| json!({"name": mapping.name}));
            tag["annotations"] = json!({OVERRIDE: "true"});
            tag["from"] = json!({"kind": "DockerImage", "name": mapping.image});
        }
    }

    /// Returns the names and pull specs of the images.
    pub fn images(&self) -> impl Iterator<Item = (&str, &str)> {
        self.tags.iter().filter_map(|(name, tag)| Some((name.as_str(), Tag(tag).image()?)))
    }

    /// Returns the pull spec of an image.
    pub fn image(&self, name: &str) -> Option<&str> {
        Tag(self.tags.get(name)?).image()
    }

    /// Returns the pull spec of the image with this digest.
    pub fn by_digest(&self, digest: &str) -> Option<&str> {
        self.tags.values().map(Tag).find(|tag| tag.digest() == Some(digest)).and_then(Tag::image)
    }

    /// Returns the number of images.
    pub fn count(&self) -> usize {
        self.tags.len()
    }

    /// Returns true if the user named the image.
    pub fn is_override(&self, name: &str) -> bool {
        self.tags.get(name).is_some_and(|tag| Tag(tag).annotation(OVERRIDE) == "true")
    }

    /// Notes what the image of a name says of itself, and the pull spec by digest.
    pub fn looked_at(&mut self, name: &str, image: String, labels: &BTreeMap<&str, &str>) {
        let Some(tag) = self.tags.get_mut(name) else { return };
        tag["from"]["name"] = image.into();
        let annotations = &mut tag["annotations"];
        if !annotations.is_object() {
            *annotations = json!({});
        }
        for key in SOURCES {
            annotations[key] = labels.get(key).copied().unwrap_or_default().into();
        }
        if let Some(versions) = labels.get(VERSIONS).filter(|versions| !versions.is_empty()) {
            annotations[VERSIONS] = (*versions).into();
            annotations[DISPLAY_NAMES] = labels.get(DISPLAY_NAMES).copied().unwrap_or_default().into();
        }
    }

    /// Moves images to other pull specs.
    pub fn moved(&mut self, image_of: impl Fn(&str) -> Option<String>) {
        for (name, tag) in &mut self.tags {
            if let Some(image) = image_of(name) {
                tag["from"]["name"] = image.into();
            }
        }
    }

    /// Notes the time of an input; a text that is no time is none.
    pub fn note_time(&mut self, time: Option<&str>) {
        self.note(time.and_then(|time| time.parse().ok()));
    }

    /// Notes the time of an input.
    pub fn note(&mut self, time: Option<Timestamp>) {
        self.created = self.created.max(time);
    }

    /// The time of the newest input, in whole seconds; the beginning of time if no input has one.
    pub fn created(&self) -> Timestamp {
        let seconds = self.created.unwrap_or(Timestamp::UNIX_EPOCH).as_second();
        Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// Forgets the images that are not wanted.
    pub(super) fn keep(&mut self, wanted: impl Fn(&str) -> bool) {
        self.tags.retain(|name, _| wanted(name));
    }

    pub(super) fn tags(&self) -> impl Iterator<Item = Tag<'_>> {
        self.tags.values().map(Tag)
    }

    /// The annotation of the whole list.
    pub(super) fn annotation(&self, key: &str) -> &str {
        self.metadata.get("annotations").and_then(|all| all[key].as_str()).unwrap_or_default()
    }

    /// Returns `image-references` of a release: an ImageStream whose tags are sorted.
    pub fn references(&self, name: &str) -> Value {
        let (mut metadata, mut spec) = (self.metadata.clone(), self.spec.clone());
        metadata.insert("name".to_owned(), name.into());
        metadata.insert("creationTimestamp".to_owned(), self.created().to_string().into());
        spec.insert("tags".to_owned(), self.tags.values().cloned().collect());
        json!({"kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "metadata": metadata, "spec": spec})
    }

    /// Returns it as text.
    pub fn references_text(&self, name: &str) -> String {
        image_stream(&self.references(name)).to_text()
    }
}
