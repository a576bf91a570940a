//! Blobs as text: fields in the order of their schema, as `opm` writes them (CATLG-10).

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use mainstay_golang::sort_slice;

use crate::decode::{BundleBlob, ChannelBlob, DeprecationsBlob, EntryBlob, Fields, PackageBlob, PropertyBlob, Shape};
use crate::json::write::{Layout, Values, Writer, write_string};
use crate::json::{Cursor, Syntax};
use crate::model::{SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_DEPRECATIONS, SCHEMA_PACKAGE};
use crate::validate::decode_base64;

/// A blob of any schema, prepared for writing.
pub(crate) enum Written<'a> {
    Package(PackageBlob<'a>),
    Channel(ChannelBlob<'a>),
    Bundle(BundleBlob<'a>),
    Deprecations(DeprecationsBlob<'a>),
    /// A blob of any other schema; its text is written with sorted keys.
    Other(&'a str),
}

impl<'a> Written<'a> {
    /// Reads a blob from its text.
    pub(crate) fn read(schema: &str, json: &'a str, fields: &Fields<'a>) -> Result<Self, Shape> {
        Ok(match schema {
            SCHEMA_PACKAGE => Self::Package(PackageBlob::read(fields)?),
            SCHEMA_CHANNEL => Self::Channel(ChannelBlob::read(fields)?),
            SCHEMA_BUNDLE => Self::Bundle(BundleBlob::read(fields)?),
            SCHEMA_DEPRECATIONS => Self::Deprecations(DeprecationsBlob::read(fields)?),
            _ => Self::Other(json),
        })
    }

    /// Appends the blob, without line end.
    pub(crate) fn write(&self, layout: Layout, values: Values, out: &mut Vec<u8>) -> Result<(), Syntax> {
        let mut writer = Writer::with(out, layout, values);
        match self {
            Self::Package(package) => write_package(package, &mut writer),
            Self::Channel(channel) => write_channel(channel, &mut writer),
            Self::Bundle(bundle) => write_bundle(bundle, &mut writer),
            Self::Deprecations(deprecations) => {
                write_deprecations(deprecations, &mut writer);
                Ok(())
            }
            Self::Other(json) => writer.value(&mut Cursor::new(json)),
        }
    }
}

/// Writer of the members of one mapping, in the given order.
struct Members<'w, 'a, 'o> {
    writer: &'w mut Writer<'a, 'o>,
    empty: bool,
}

impl<'w, 'a, 'o> Members<'w, 'a, 'o> {
    fn open(writer: &'w mut Writer<'a, 'o>) -> Self {
        writer.open(b'{');
        Self { writer, empty: true }
    }

    fn key(&mut self, key: &str) -> &mut Writer<'a, 'o> {
        self.writer.item(self.empty);
        self.empty = false;
        write_string(key, self.writer.out);
        self.writer.colon();
        self.writer
    }

    fn text(&mut self, key: &str, text: &str) {
        write_string(text, self.key(key).out);
    }

    fn text_unless_empty(&mut self, key: &str, text: &str) {
        if !text.is_empty() {
            self.text(key, text);
        }
    }

    /// Writes a list, each item by `write`.
    fn list<T, E>(&mut self, key: &str, items: &[T], mut write: impl FnMut(&T, &mut Writer<'a, 'o>) -> Result<(), E>) -> Result<(), E> {
        let writer = self.key(key);
        writer.open(b'[');
        for (index, item) in items.iter().enumerate() {
            writer.item(index == 0);
            write(item, writer)?;
        }
        writer.close(b']', items.is_empty());
        Ok(())
    }

    fn properties(&mut self, properties: &[&PropertyBlob<'a>]) -> Result<(), Syntax> {
        if properties.is_empty() {
            return Ok(());
        }
        self.list("properties", properties, |property, writer| {
            let mut members = Members::open(writer);
            members.text("type", &property.kind);
            members.key("value").value(&mut Cursor::new(property.value.get()))?;
            members.close();
            Ok(())
        })
    }

    fn close(self) {
        self.writer.close(b'}', self.empty);
    }
}

/// Error type of lists whose items can always be written.
type Never = std::convert::Infallible;

fn write_package<'a>(package: &PackageBlob<'a>, writer: &mut Writer<'a, '_>) -> Result<(), Syntax> {
    let mut members = Members::open(writer);
    members.text("schema", SCHEMA_PACKAGE);
    members.text("name", &package.name);
    members.text("defaultChannel", &package.default_channel);
    if let Some((data, media_type)) = &package.icon {
        let mut icon = Members::open(members.key("icon"));
        icon.text("base64data", &normal_base64(data));
        icon.text("mediatype", media_type);
        icon.close();
    }
    members.text_unless_empty("description", &package.description);
    members.properties(&package.properties.iter().collect::<Vec<_>>())?;
    members.close();
    Ok(())
}

/// Base64 in the form of an encoder; text that is not base64 stays unchanged.
fn normal_base64(text: &str) -> Cow<'_, str> {
    decode_base64(text).map_or(Cow::Borrowed(text), |bytes| Cow::Owned(BASE64.encode(bytes)))
}

fn write_channel<'a>(channel: &ChannelBlob<'a>, writer: &mut Writer<'a, '_>) -> Result<(), Syntax> {
    let mut members = Members::open(writer);
    members.text("schema", SCHEMA_CHANNEL);
    members.text("name", &channel.name);
    members.text("package", &channel.package);
    if channel.listed {
        let Ok(()) = members.list("entries", &channel.entries, write_entry);
    } else {
        members.key("entries").out.extend_from_slice(b"null");
    }
    members.properties(&channel.properties.iter().collect::<Vec<_>>())?;
    members.close();
    Ok(())
}

fn write_entry(entry: &EntryBlob<'_>, writer: &mut Writer<'_, '_>) -> Result<(), Never> {
    let mut members = Members::open(writer);
    members.text("name", &entry.name);
    members.text_unless_empty("replaces", &entry.replaces);
    if !entry.skips.is_empty() {
        members.list("skips", &entry.skips, |skip, writer| {
            write_string(skip, writer.out);
            Ok::<_, Never>(())
        })?;
    }
    members.text_unless_empty("skipRange", &entry.skip_range);
    members.close();
    Ok(())
}

fn write_bundle<'a>(bundle: &BundleBlob<'a>, writer: &mut Writer<'a, '_>) -> Result<(), Syntax> {
    let mut members = Members::open(writer);
    members.text("schema", SCHEMA_BUNDLE);
    members.text_unless_empty("name", &bundle.name);
    members.text_unless_empty("package", &bundle.package);
    members.text("image", &bundle.image);
    // Manifests and metadata are long; they come last.
    let is_long = |property: &&PropertyBlob<'_>| matches!(property.kind.as_ref(), "olm.bundle.object" | "olm.csv.metadata");
    let (long, short): (Vec<_>, Vec<_>) = bundle.properties.iter().partition(is_long);
    members.properties(&[short, long].concat())?;
    if !bundle.related_images.is_empty() {
        let mut images: Vec<&(Cow<'_, str>, Cow<'_, str>)> = bundle.related_images.iter().collect();
        sort_slice(&mut images, |a, b| a.1 < b.1);
        let Ok(()) = members.list("relatedImages", &images, |(name, image), writer| {
            let mut related = Members::open(writer);
            related.text("name", name);
            related.text("image", image);
            related.close();
            Ok::<_, Never>(())
        });
    }
    members.close();
    Ok(())
}

fn write_deprecations(deprecations: &DeprecationsBlob<'_>, writer: &mut Writer<'_, '_>) {
    let mut members = Members::open(writer);
    members.text("schema", SCHEMA_DEPRECATIONS);
    members.text("package", &deprecations.package);
    if deprecations.listed {
        let Ok(()) = members.list("entries", &deprecations.entries, |entry, writer| {
            let mut members = Members::open(writer);
            let mut reference = Members::open(members.key("reference"));
            reference.text("schema", &entry.schema);
            reference.text_unless_empty("name", &entry.name);
            reference.close();
            members.text("message", &entry.message);
            members.close();
            Ok::<_, Never>(())
        });
    } else {
        members.key("entries").out.extend_from_slice(b"null");
    }
    members.close();
}
