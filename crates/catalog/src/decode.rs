//! Blobs to typed views, borrowed from the canonical line.
//!
//! Field names are matched regardless of case, as Go's JSON decoder does (CATLG-10), and `null` is the same as absent. A view
//! borrows from the line, so that building an index over thousands of bundles copies only what it keeps.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A field whose value has another shape than its schema says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Path of the field inside the blob, for example `entries[2].skips`.
    pub field: String,
    /// What the schema wants.
    pub expected: &'static str,
    /// What is there.
    pub found: &'static str,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "field {} must be {}, found {}", self.field, self.expected, self.found)
    }
}

/// Kind of a JSON text, for messages.
pub(crate) fn kind_of(json: &str) -> &'static str {
    match json.as_bytes().first() {
        Some(b'{') => "a mapping",
        Some(b'[') => "a list",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        Some(_) => "a number",
        None => "nothing",
    }
}

/// The members of one mapping, values untouched.
pub(crate) struct Fields<'a> {
    at: String,
    members: Vec<(Cow<'a, str>, &'a RawValue)>,
}

struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mapping")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::with_capacity(8);
                while let Some((key, value)) = map.next_entry::<Text<'de>, &'de RawValue>()? {
                    if members.len() > 100_000 {
                        return Err(A::Error::custom("more than 100000 keys in one mapping"));
                    }
                    members.push((key.0, value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

impl<'a> Fields<'a> {
    /// Reads a mapping; `at` is its path in the blob, empty for the blob itself.
    pub(crate) fn read(json: &'a str, at: &str) -> Result<Self, Shape> {
        match serde_json::from_str::<Members<'a>>(json) {
            Ok(members) => Ok(Self { at: at.to_owned(), members: members.0 }),
            Err(_) => Err(Shape {
                field: if at.is_empty() { "(root)".to_owned() } else { at.to_owned() },
                expected: "a mapping",
                found: kind_of(json),
            }),
        }
    }

    /// Members in the order of the line.
    pub(crate) fn members(&self) -> &[(Cow<'a, str>, &'a RawValue)] {
        &self.members
    }

    fn path(&self, field: &str) -> String {
        if self.at.is_empty() { field.to_owned() } else { format!("{}.{field}", self.at) }
    }

    /// The value of a field, unless absent or null. The exact spelling wins over other spellings.
    pub(crate) fn get(&self, field: &str) -> Option<&'a RawValue> {
        let exact = self.members.iter().find(|(key, _)| key == field);
        let folded = || self.members.iter().rev().find(|(key, _)| key.eq_ignore_ascii_case(field));
        exact.or_else(folded).map(|(_, value)| *value).filter(|value| value.get() != "null")
    }

    fn shape(&self, field: &str, expected: &'static str, value: &RawValue) -> Shape {
        Shape { field: self.path(field), expected, found: kind_of(value.get()) }
    }

    /// A text field; absent and null are the empty text.
    pub(crate) fn text(&self, field: &str) -> Result<Cow<'a, str>, Shape> {
        let Some(value) = self.get(field) else { return Ok(Cow::Borrowed("")) };
        let text: Text<'a> = serde_json::from_str(value.get()).map_err(|_| self.shape(field, "a string", value))?;
        Ok(text.0)
    }

    /// A list field; absent and null are the empty list. Each element comes with its path.
    pub(crate) fn list(&self, field: &str) -> Result<Vec<(String, &'a RawValue)>, Shape> {
        let Some(value) = self.get(field) else { return Ok(Vec::new()) };
        let items: Vec<&'a RawValue> = serde_json::from_str(value.get()).map_err(|_| self.shape(field, "a list", value))?;
        let path = self.path(field);
        Ok(items.into_iter().enumerate().map(|(i, item)| (format!("{path}[{i}]"), item)).collect())
    }

    /// A list of texts.
    pub(crate) fn texts(&self, field: &str) -> Result<Vec<Cow<'a, str>>, Shape> {
        let mut texts = Vec::new();
        for (at, item) in self.list(field)? {
            if item.get() == "null" {
                texts.push(Cow::Borrowed(""));
                continue;
            }
            let text: Text<'a> =
                serde_json::from_str(item.get()).map_err(|_| Shape { field: at, expected: "a string", found: kind_of(item.get()) })?;
            texts.push(text.0);
        }
        Ok(texts)
    }

    /// A list of mappings.
    pub(crate) fn mappings(&self, field: &str) -> Result<Vec<Fields<'a>>, Shape> {
        self.list(field)?.into_iter().map(|(at, item)| Fields::read(item.get(), &at)).collect()
    }
}

/// `olm.package`.
pub(crate) struct PackageBlob<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) default_channel: Cow<'a, str>,
    pub(crate) description: Cow<'a, str>,
    pub(crate) icon: Option<(Cow<'a, str>, Cow<'a, str>)>,
    pub(crate) properties: Vec<PropertyBlob<'a>>,
}

/// `olm.channel`.
pub(crate) struct ChannelBlob<'a> {
    pub(crate) package: Cow<'a, str>,
    pub(crate) name: Cow<'a, str>,
    pub(crate) entries: Vec<EntryBlob<'a>>,
    pub(crate) properties: Vec<PropertyBlob<'a>>,
}

/// One entry of a channel.
pub(crate) struct EntryBlob<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) replaces: Cow<'a, str>,
    pub(crate) skips: Vec<Cow<'a, str>>,
    pub(crate) skip_range: Cow<'a, str>,
}

/// `olm.bundle`.
pub(crate) struct BundleBlob<'a> {
    pub(crate) package: Cow<'a, str>,
    pub(crate) name: Cow<'a, str>,
    pub(crate) image: Cow<'a, str>,
    pub(crate) properties: Vec<PropertyBlob<'a>>,
    pub(crate) related_images: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

/// One `{type, value}`.
pub(crate) struct PropertyBlob<'a> {
    pub(crate) kind: Cow<'a, str>,
    pub(crate) value: &'a RawValue,
}

/// `olm.deprecations`.
pub(crate) struct DeprecationsBlob<'a> {
    pub(crate) package: Cow<'a, str>,
    pub(crate) entries: Vec<DeprecationBlob<'a>>,
}

/// One deprecation entry.
pub(crate) struct DeprecationBlob<'a> {
    pub(crate) schema: Cow<'a, str>,
    pub(crate) name: Cow<'a, str>,
    pub(crate) message: Cow<'a, str>,
}

impl<'a> PackageBlob<'a> {
    pub(crate) fn read(fields: &Fields<'a>) -> Result<Self, Shape> {
        let icon = match fields.get("icon") {
            None => None,
            Some(value) => {
                let icon = Fields::read(value.get(), "icon")?;
                Some((icon.text("base64data")?, icon.text("mediatype")?))
            }
        };
        Ok(Self {
            name: fields.text("name")?,
            default_channel: fields.text("defaultChannel")?,
            description: fields.text("description")?,
            icon,
            properties: properties(fields)?,
        })
    }
}

impl<'a> ChannelBlob<'a> {
    pub(crate) fn read(fields: &Fields<'a>) -> Result<Self, Shape> {
        let mut entries = Vec::new();
        for entry in fields.mappings("entries")? {
            entries.push(EntryBlob {
                name: entry.text("name")?,
                replaces: entry.text("replaces")?,
                skips: entry.texts("skips")?,
                skip_range: entry.text("skipRange")?,
            });
        }
        Ok(Self { package: fields.text("package")?, name: fields.text("name")?, entries, properties: properties(fields)? })
    }
}

impl<'a> BundleBlob<'a> {
    pub(crate) fn read(fields: &Fields<'a>) -> Result<Self, Shape> {
        let mut related_images = Vec::new();
        for image in fields.mappings("relatedImages")? {
            related_images.push((image.text("name")?, image.text("image")?));
        }
        Ok(Self {
            package: fields.text("package")?,
            name: fields.text("name")?,
            image: fields.text("image")?,
            properties: properties(fields)?,
            related_images,
        })
    }
}

impl<'a> DeprecationsBlob<'a> {
    pub(crate) fn read(fields: &Fields<'a>) -> Result<Self, Shape> {
        let mut entries = Vec::new();
        for entry in fields.mappings("entries")? {
            let (mut schema, mut name) = (Cow::Borrowed(""), Cow::Borrowed(""));
            if let Some(reference) = entry.get("reference") {
                let reference = Fields::read(reference.get(), &entry.path("reference"))?;
                schema = reference.text("schema")?;
                name = reference.text("name")?;
            }
            entries.push(DeprecationBlob { schema, name, message: entry.text("message")? });
        }
        Ok(Self { package: fields.text("package")?, entries })
    }
}

/// The `properties` of a blob: `type` a string that is not empty, `value` present and not null (OLM1-FBC-06).
fn properties<'a>(fields: &Fields<'a>) -> Result<Vec<PropertyBlob<'a>>, Shape> {
    let mut properties = Vec::new();
    for property in fields.mappings("properties")? {
        let kind = property.text("type")?;
        if kind.is_empty() {
            return Err(Shape { field: property.path("type"), expected: "a string that is not empty", found: "an empty or missing one" });
        }
        let Some(value) = property.get("value") else {
            return Err(Shape { field: property.path("value"), expected: "a value that is not null", found: "null or nothing" });
        };
        properties.push(PropertyBlob { kind, value });
    }
    Ok(properties)
}
