//! The release as JSON (`-o json`): the fields of upstream's types in their order, with the values that they have when nothing is set.

use mainstay_golang::json;
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::{Value, json};

use super::{Info, Tag};
use crate::image::ReleaseImage;

/// A JSON value whose objects keep the order of their fields.
pub(crate) enum Doc {
    Plain(Value),
    Object(Vec<(String, Doc)>),
    List(Vec<Doc>),
}

impl Serialize for Doc {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Plain(value) => value.serialize(serializer),
            Self::List(items) => serializer.collect_seq(items),
            Self::Object(fields) => {
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                fields.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))?;
                map.end()
            }
        }
    }
}

impl Doc {
    /// Writes it as Go does: indented by two blanks, with `<`, `>` and `&` escaped.
    pub(crate) fn to_text(&self) -> String {
        let mut text = String::new();
        json::write_html_escaped(&mut text, &serde_json::to_string_pretty(self).unwrap_or_default());
        text
    }
}

/// An object under construction from one with the same fields.
struct Fields<'v> {
    source: &'v Value,
    fields: Vec<(String, Doc)>,
}

impl<'v> Fields<'v> {
    fn of(source: &'v Value) -> Self {
        Self { source, fields: Vec::new() }
    }

    fn set(mut self, name: &str, value: Doc) -> Self {
        self.fields.push((name.to_owned(), value));
        self
    }

    /// Fields that are left out if they are empty.
    fn optional(mut self, names: &[&str]) -> Self {
        for name in names {
            let value = &self.source[*name];
            if !is_empty(value) {
                self.fields.push(((*name).to_owned(), Doc::Plain(value.clone())));
            }
        }
        self
    }

    /// A field that is always there.
    fn always(self, name: &str, empty: Value) -> Self {
        let value = &self.source[name];
        let value = if value.is_null() { empty } else { value.clone() };
        self.set(name, Doc::Plain(value))
    }

    /// An object that is always there.
    fn object(self, name: &str, of: impl FnOnce(&Value) -> Doc) -> Self {
        let inner = of(&self.source[name]);
        self.set(name, inner)
    }

    /// A list of objects that is left out if it is empty.
    fn list(self, name: &str, of: impl Fn(&Value) -> Doc) -> Self {
        match self.source[name].as_array() {
            Some(items) if !items.is_empty() => {
                let items = items.iter().map(of).collect();
                self.set(name, Doc::List(items))
            }
            _ => self,
        }
    }

    fn done(self) -> Doc {
        Doc::Object(self.fields)
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

impl Info<'_> {
    /// Returns the release as JSON text, without a line end.
    pub fn to_json(&self) -> String {
        self.document().to_text()
    }

    pub(super) fn document(&self) -> Doc {
        let text = |text: &str| Doc::Plain(text.into());
        let (digest, list) = match self.image {
            Some(image) if image.listed != image.digest => (image.digest.as_str(), image.listed.as_str()),
            Some(image) => (image.digest.as_str(), ""),
            None => ("", ""),
        };
        let metadata = self.metadata.as_ref().map_or(Doc::Plain(Value::Null), |metadata| {
            let value = json!({"kind": metadata.kind, "version": metadata.version, "previous": metadata.previous, "next": metadata.next,
                "metadata": metadata.metadata});
            Fields::of(&value)
                .always("kind", "".into())
                .always("version", "".into())
                .always("previous", Value::Null)
                .optional(&["next", "metadata"])
                .done()
        });
        let components = if self.components.is_empty() {
            Doc::Plain(Value::Null)
        } else {
            let one = |component: &super::Component| {
                Doc::Object(vec![
                    ("Version".to_owned(), text(&component.version)),
                    ("DisplayName".to_owned(), text(&component.display_name)),
                ])
            };
            Doc::Object(self.components.iter().map(|(name, component)| (name.clone(), one(component))).collect())
        };
        let images = self.images.as_ref().map_or(Doc::Plain(Value::Null), |images| {
            Doc::Object(images.iter().map(|(name, image)| (name.clone(), of_image(name, image))).collect())
        });
        let warnings = if self.warnings.is_empty() { Value::Null } else { json!(self.warnings) };
        Doc::Object(
            [
                ("image", text(self.asked)),
                ("digest", text(digest)),
                ("contentDigest", text(digest)),
                ("listDigest", text(list)),
                ("config", self.image.map_or(Doc::Plain(Value::Null), config)),
                ("metadata", metadata),
                ("references", references(&self.references)),
                ("versions", Doc::Plain(Value::Null)),
                ("displayVersions", components),
                ("images", images),
                ("warnings", Doc::Plain(warnings)),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
        )
    }
}

fn of_image(name: &str, image: &ReleaseImage) -> Doc {
    let list = if image.listed == image.digest { "" } else { &image.listed };
    let layers = image.layers.iter().map(|layer| {
        Doc::Object(vec![
            ("mediaType".to_owned(), Doc::Plain(layer.media_type.clone().into())),
            ("digest".to_owned(), Doc::Plain(layer.digest.clone().into())),
            ("size".to_owned(), Doc::Plain(layer.size.into())),
        ])
    });
    let value =
        json!({"name": name, "digest": image.digest, "contentDigest": image.digest, "listDigest": list, "mediaType": image.media_type});
    ["name", "digest", "contentDigest", "listDigest", "mediaType"]
        .iter()
        .fold(Fields::of(&value), |fields, name| fields.always(name, "".into()))
        .set("layers", Doc::List(layers.collect()))
        .set("config", config(image))
        .done()
}

/// The configuration, whose size is that of the layers.
fn config(image: &ReleaseImage) -> Doc {
    let mut source = image.config.clone();
    if let Some(fields) = source.as_object_mut() {
        fields.insert("size".to_owned(), image.layers.iter().map(|layer| layer.size).sum::<u64>().into());
    }
    let run = |value: &Value| {
        Fields::of(value)
            .optional(&["Hostname", "Domainname", "User", "Memory", "MemorySwap", "CpuShares", "Cpuset", "AttachStdin", "AttachStdout"])
            .optional(&[
                "AttachStderr",
                "PortSpecs",
                "ExposedPorts",
                "Tty",
                "OpenStdin",
                "StdinOnce",
                "Env",
                "Cmd",
                "Dns",
                "Image",
                "Volumes",
            ])
            .optional(&["VolumesFrom", "WorkingDir", "Entrypoint", "NetworkDisabled", "SecurityOpts", "OnBuild", "Labels"])
            .done()
    };
    let fields = Fields::of(&source)
        .always("id", "".into())
        .optional(&["parent", "comment"])
        .always("created", ZERO_TIME.into())
        .optional(&["container"])
        .object("container_config", run)
        .optional(&["docker_version", "author"]);
    let fields = if source["config"].is_object() { fields.object("config", run) } else { fields };
    let fields = fields.optional(&["architecture", "size"]);
    let roots = |value: &Value| Fields::of(value).always("type", "".into()).optional(&["diff_ids"]).done();
    let fields = if source["rootfs"].is_object() { fields.object("rootfs", roots) } else { fields };
    fields
        .list("history", |entry| {
            Fields::of(entry).always("created", ZERO_TIME.into()).optional(&["author", "created_by", "comment", "empty_layer"]).done()
        })
        .optional(&["os", "os.version", "os.features"])
        .done()
}

const ZERO_TIME: &str = "0001-01-01T00:00:00Z";

/// An ImageStream, the form of `image-references`.
pub(crate) fn references(stream: &Value) -> Doc {
    let metadata = |value: &Value| {
        Fields::of(value)
            .optional(&["name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation"])
            .always("creationTimestamp", Value::Null)
            .optional(&["deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers"])
            .optional(&["managedFields"])
            .done()
    };
    let spec = |value: &Value| {
        Fields::of(value)
            .object("lookupPolicy", |value| Fields::of(value).always("local", false.into()).done())
            .optional(&["dockerImageRepository"])
            .list("tags", |value| tag(Tag(value)))
            .done()
    };
    let event = |value: &Value| {
        Fields::of(value)
            .always("created", Value::Null)
            .always("dockerImageReference", "".into())
            .always("image", "".into())
            .always("generation", 0.into())
            .done()
    };
    let condition = |value: &Value| {
        Fields::of(value)
            .always("type", "".into())
            .always("status", "".into())
            .always("lastTransitionTime", Value::Null)
            .optional(&["reason", "message"])
            .always("generation", 0.into())
            .done()
    };
    let events = |value: &Value| {
        let items = value["items"].as_array().map_or(Doc::Plain(Value::Null), |items| Doc::List(items.iter().map(event).collect()));
        Fields::of(value).always("tag", "".into()).set("items", items).list("conditions", condition).done()
    };
    let status = |value: &Value| {
        Fields::of(value).always("dockerImageRepository", "".into()).optional(&["publicDockerImageRepository"]).list("tags", events).done()
    };
    Fields::of(stream).optional(&["kind", "apiVersion"]).object("metadata", metadata).object("spec", spec).object("status", status).done()
}

/// An entry of `image-references`.
pub(super) fn tag(tag: Tag<'_>) -> Doc {
    let from = |value: &Value| {
        Fields::of(value).optional(&["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"]).done()
    };
    let fields = Fields::of(tag.0).always("name", "".into()).always("annotations", Value::Null);
    let fields = if tag.0["from"].is_object() { fields.object("from", from) } else { fields };
    fields
        .optional(&["reference"])
        .always("generation", Value::Null)
        .object("importPolicy", |value| Fields::of(value).optional(&["insecure", "scheduled", "importMode"]).done())
        .object("referencePolicy", |value| Fields::of(value).always("type", "".into()).done())
        .done()
}
