//! Typed views of blobs, borrowed from their text.
//!
//! Field names are matched regardless of case, as Go's JSON decoder does (CATLG-10), and `null` is the same as absent. A view
//! borrows from the text, so that building an index over thousands of bundles copies only what it keeps.

use std::borrow::Cow;
use std::fmt;

use serde_json::value::RawValue;

use crate::json::{Cursor, Syntax};

/// Error for a field whose value has a shape that its schema does not allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Path of the field inside the blob, for example `entries[2].skips`.
    pub field: String,
    /// The shape that the schema requires.
    pub expected: &'static str,
    /// The shape of the value.
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

/// The text of a value, known to be JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Raw<'a>(&'a str);

impl<'a> From<&'a RawValue> for Raw<'a> {
    fn from(value: &'a RawValue) -> Self {
        Self(value.get())
    }
}

impl<'a> Raw<'a> {
    /// The text.
    pub(crate) fn get(self) -> &'a str {
        self.0
    }

    /// A copy that owns its text.
    pub(crate) fn to_owned(self) -> Result<Box<RawValue>, Shape> {
        RawValue::from_string(self.0.to_owned()).map_err(|_| Shape {
            field: "(root)".to_owned(),
            expected: "JSON that is nested at most 128 deep",
            found: kind_of(self.0),
        })
    }
}

/// Most keys of one mapping.
const MAX_KEYS: usize = 100_000;

/// The members of one mapping, values untouched.
pub(crate) struct Fields<'a> {
    at: String,
    members: Vec<(Cow<'a, str>, Raw<'a>)>,
}

impl<'a> Fields<'a> {
    /// Reads a mapping and nothing after it, checking every byte.
    pub(crate) fn checked(json: &'a str) -> Result<Self, Syntax> {
        let mut cursor = Cursor::new(json);
        let fields = Self::next(&mut cursor, String::new())?;
        cursor.end()?;
        Ok(fields)
    }

    /// Reads the mapping at the cursor; `at` is its path in the blob.
    fn next(cursor: &mut Cursor<'a>, at: String) -> Result<Self, Syntax> {
        let mut members = Vec::with_capacity(8);
        let mut first = true;
        cursor.enter(b'{')?;
        while let Some(key) = cursor.key(&mut first)? {
            if members.len() >= MAX_KEYS {
                return Err(Syntax { at: cursor.position(), reason: "more than 100000 keys in one mapping" });
            }
            members.push((key, Raw(cursor.skip()?)));
        }
        Ok(Self { at, members })
    }

    /// Reads a mapping; `at` is its path in the blob, empty for the blob itself.
    pub(crate) fn read(json: &'a str, at: &str) -> Result<Self, Shape> {
        Self::next(&mut Cursor::new(json), at.to_owned()).map_err(|_| Shape {
            field: if at.is_empty() { "(root)".to_owned() } else { at.to_owned() },
            expected: "a mapping",
            found: kind_of(json),
        })
    }

    /// Members in the order of the text.
    pub(crate) fn members(&self) -> &[(Cow<'a, str>, Raw<'a>)] {
        &self.members
    }

    fn path(&self, field: &str) -> String {
        if self.at.is_empty() { field.to_owned() } else { format!("{}.{field}", self.at) }
    }

    /// The value of a field, unless absent. Of several spellings, the one that sorts last counts; of equal ones, the last: upstream sorts the
    /// keys of blobs, and its decoder then ignores case and lets the last key win.
    pub(crate) fn present(&self, field: &str) -> Option<Raw<'a>> {
        let spellings = self.members.iter().filter(|(key, _)| key.eq_ignore_ascii_case(field));
        spellings.max_by(|a, b| a.0.cmp(&b.0)).map(|(_, value)| *value)
    }

    /// The value of a field, unless absent or null.
    pub(crate) fn get(&self, field: &str) -> Option<Raw<'a>> {
        self.present(field).filter(|value| value.get() != "null")
    }

    fn shape(&self, field: &str, expected: &'static str, value: Raw<'_>) -> Shape {
        Shape { field: self.path(field), expected, found: kind_of(value.get()) }
    }

    /// A text field; absent and null are the empty text.
    pub(crate) fn text(&self, field: &str) -> Result<Cow<'a, str>, Shape> {
        let Some(value) = self.get(field) else { return Ok(Cow::Borrowed("")) };
        Cursor::new(value.get()).string().map_err(|_| self.shape(field, "a string", value))
    }

    /// Walks a list field; absent and null are the empty list. `read` is given the cursor before each element.
    fn each<T>(&self, field: &str, read: &mut dyn FnMut(&mut Cursor<'a>, usize) -> Result<T, Shape>) -> Result<Vec<T>, Shape> {
        let Some(value) = self.get(field) else { return Ok(Vec::new()) };
        let not_a_list = |_: Syntax| self.shape(field, "a list", value);
        let mut cursor = Cursor::new(value.get());
        let mut items = Vec::new();
        let mut first = true;
        cursor.enter(b'[').map_err(not_a_list)?;
        while cursor.element(&mut first).map_err(not_a_list)? {
            items.push(read(&mut cursor, items.len())?);
        }
        Ok(items)
    }

    /// A list of texts; null is the empty text.
    pub(crate) fn texts(&self, field: &str) -> Result<Vec<Cow<'a, str>>, Shape> {
        self.each(field, &mut |cursor, index| {
            let element = cursor.clone();
            cursor.string().or_else(|_| {
                let mut element = element;
                let value = element.skip().unwrap_or_default();
                *cursor = element;
                if value == "null" {
                    return Ok(Cow::Borrowed(""));
                }
                Err(Shape { field: format!("{}[{index}]", self.path(field)), expected: "a string", found: kind_of(value) })
            })
        })
    }

    /// A list of mappings; null is the empty mapping.
    pub(crate) fn mappings(&self, field: &str) -> Result<Vec<Fields<'a>>, Shape> {
        self.each(field, &mut |cursor, index| {
            let at = format!("{}[{index}]", self.path(field));
            if cursor.peek() == Some(b'{') {
                let found = "a damaged one";
                return Self::next(cursor, at.clone()).map_err(|_| Shape { field: at, expected: "a mapping", found });
            }
            let value = cursor.skip().unwrap_or_default();
            if value == "null" {
                Ok(Self { at, members: Vec::new() })
            } else {
                Err(Shape { field: at, expected: "a mapping", found: kind_of(value) })
            }
        })
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
    /// True if there is a list of entries, even an empty one.
    pub(crate) listed: bool,
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
    pub(crate) value: Raw<'a>,
}

/// `olm.deprecations`.
pub(crate) struct DeprecationsBlob<'a> {
    pub(crate) package: Cow<'a, str>,
    /// True if there is a list of entries, even an empty one.
    pub(crate) listed: bool,
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
        Ok(Self {
            package: fields.text("package")?,
            name: fields.text("name")?,
            listed: fields.get("entries").is_some(),
            entries,
            properties: properties(fields)?,
        })
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
        Ok(Self { package: fields.text("package")?, listed: fields.get("entries").is_some(), entries })
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
