//! The typed model of a catalog, in the order of its files.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::blob::Blob;
use crate::decode::{BundleBlob, ChannelBlob, DeprecationsBlob, EntryBlob, Fields, PackageBlob, PropertyBlob, Shape};
use crate::error::LoadError;

/// Schema of a package blob.
pub const SCHEMA_PACKAGE: &str = "olm.package";
/// Schema of a channel blob.
pub const SCHEMA_CHANNEL: &str = "olm.channel";
/// Schema of a bundle blob.
pub const SCHEMA_BUNDLE: &str = "olm.bundle";
/// Schema of the deprecations of one package.
pub const SCHEMA_DEPRECATIONS: &str = "olm.deprecations";

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Takes a name as it is; names come from catalogs and are checked by `validate`.
            pub fn new(name: impl Into<String>) -> Self {
                Self(name.into())
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Returns true if the name is empty.
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(name: &str) -> Self {
                Self(name.to_owned())
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

name_type!(
    /// Name of a package, unique in a catalog.
    PackageName
);
name_type!(
    /// Name of a channel, unique in its package.
    ChannelName
);
name_type!(
    /// Name of a bundle, unique in its package.
    BundleName
);

/// `olm.package` (OLM1-FBC-09).
#[derive(Debug, Clone, Default)]
pub struct Package {
    /// Name of the package.
    pub name: PackageName,
    /// Channel for clients that ask for none.
    pub default_channel: ChannelName,
    /// Long description, by convention Markdown.
    pub description: String,
    /// Picture of the package.
    pub icon: Option<Icon>,
    /// Properties of the package.
    pub properties: Vec<Property>,
}

/// Picture of a package; its content is never checked (CATLG-25).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Icon {
    /// Bytes in base64, as written.
    pub base64data: String,
    /// Media type, as written.
    pub mediatype: String,
}

impl Icon {
    /// Creates an icon from these bytes.
    pub fn new(bytes: &[u8], media_type: &str) -> Self {
        Self { base64data: STANDARD.encode(bytes), mediatype: media_type.to_owned() }
    }
}

/// `olm.channel` (OLM1-FBC-10).
#[derive(Debug, Clone, Default)]
pub struct Channel {
    /// Package of the channel.
    pub package: PackageName,
    /// Name of the channel.
    pub name: ChannelName,
    /// Bundles of the channel with their update edges.
    pub entries: Vec<Entry>,
    /// Properties of the channel.
    pub properties: Vec<Property>,
}

/// A bundle in a channel, with the bundles that it updates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Name of the bundle.
    pub name: BundleName,
    /// Bundle that this one replaces; it need not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaces: Option<BundleName>,
    /// Bundles that updates may skip; they need not exist.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skips: Vec<BundleName>,
    /// Range of versions that this bundle updates, in the catalogs' dialect.
    #[serde(rename = "skipRange", skip_serializing_if = "Option::is_none")]
    pub skip_range: Option<String>,
}

/// `olm.bundle` (OLM1-FBC-12).
#[derive(Debug, Clone, Default)]
pub struct Bundle {
    /// Package of the bundle.
    pub package: PackageName,
    /// Name of the bundle.
    pub name: BundleName,
    /// Pull spec of the bundle image.
    pub image: String,
    /// Properties, in order.
    pub properties: Vec<Property>,
    /// Images the bundle needs at run time.
    pub related_images: Vec<RelatedImage>,
}

/// A typed property (OLM1-FBC-15); the value is any JSON but null.
#[derive(Debug, Clone, Serialize)]
pub struct Property {
    /// Type of the property.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its value, canonical JSON.
    pub value: Box<RawValue>,
}

impl PartialEq for Property {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.value.get() == other.value.get()
    }
}

impl Property {
    /// Creates a property with a JSON value; the value is written canonically.
    pub fn new(kind: &str, value: &serde_json::Value) -> Result<Self, serde_json::Error> {
        Ok(Self { kind: kind.to_owned(), value: RawValue::from_string(serde_json::to_string(value)?)? })
    }
}

/// An image that a bundle needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RelatedImage {
    /// Name of the image, may be empty.
    pub name: String,
    /// Pull spec.
    pub image: String,
}

/// `olm.deprecations` (OLM1-FBC-13).
#[derive(Debug, Clone, Default)]
pub struct Deprecations {
    /// Package the entries belong to.
    pub package: PackageName,
    /// The entries.
    pub entries: Vec<Deprecation>,
}

/// One deprecation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Deprecation {
    /// The deprecated object.
    pub reference: Reference,
    /// The message for users, with their next step.
    pub message: String,
}

/// Subject of a deprecation, inside its package.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Reference {
    /// `olm.package`, `olm.channel` or `olm.bundle`.
    pub schema: String,
    /// Name of the channel or bundle; empty for the package.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// A blob of an unknown schema, kept unchanged (CATLG-13).
#[derive(Debug, Clone)]
pub struct Meta {
    /// Its schema.
    pub schema: String,
    /// Its package, empty when it has none.
    pub package: String,
    /// Its name, empty when it has none.
    pub name: String,
    /// The whole blob, canonical JSON.
    pub blob: Box<RawValue>,
}

/// A whole catalog, each kind of blob in the order of the files.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// `olm.package` blobs.
    pub packages: Vec<Package>,
    /// `olm.channel` blobs.
    pub channels: Vec<Channel>,
    /// `olm.bundle` blobs.
    pub bundles: Vec<Bundle>,
    /// `olm.deprecations` blobs.
    pub deprecations: Vec<Deprecations>,
    /// Blobs of all other schemas.
    pub others: Vec<Meta>,
}

impl Catalog {
    /// Adds one blob.
    pub fn add(&mut self, blob: &Blob<'_>) -> Result<(), LoadError> {
        self.add_fields(blob).map_err(|shape| blob.shape_error(shape))
    }

    fn add_fields(&mut self, blob: &Blob<'_>) -> Result<(), Shape> {
        match blob.schema {
            SCHEMA_PACKAGE => {
                let package = PackageBlob::read(&Fields::read(blob.json, "")?)?;
                self.packages.push(Package {
                    name: package.name.into_owned().into(),
                    default_channel: package.default_channel.into_owned().into(),
                    description: package.description.into_owned(),
                    icon: package.icon.map(|(data, media)| Icon { base64data: data.into_owned(), mediatype: media.into_owned() }),
                    properties: owned(package.properties)?,
                });
            }
            SCHEMA_CHANNEL => {
                let channel = ChannelBlob::read(&Fields::read(blob.json, "")?)?;
                self.channels.push(Channel {
                    package: channel.package.into_owned().into(),
                    name: channel.name.into_owned().into(),
                    entries: channel.entries.into_iter().map(Entry::from).collect(),
                    properties: owned(channel.properties)?,
                });
            }
            SCHEMA_BUNDLE => {
                let bundle = BundleBlob::read(&Fields::read(blob.json, "")?)?;
                let related = bundle.related_images.into_iter();
                self.bundles.push(Bundle {
                    package: bundle.package.into_owned().into(),
                    name: bundle.name.into_owned().into(),
                    image: bundle.image.into_owned(),
                    properties: owned(bundle.properties)?,
                    related_images: related
                        .map(|(name, image)| RelatedImage { name: name.into_owned(), image: image.into_owned() })
                        .collect(),
                });
            }
            SCHEMA_DEPRECATIONS => {
                let deprecations = DeprecationsBlob::read(&Fields::read(blob.json, "")?)?;
                let entries = deprecations.entries.into_iter().map(|entry| Deprecation {
                    reference: Reference { schema: entry.schema.into_owned(), name: entry.name.into_owned() },
                    message: entry.message.into_owned(),
                });
                self.deprecations.push(Deprecations { package: deprecations.package.into_owned().into(), entries: entries.collect() });
            }
            _ => self.others.push(Meta {
                schema: blob.schema.to_owned(),
                package: blob.package.to_owned(),
                name: blob.name.to_owned(),
                blob: RawValue::from_string(blob.json.to_owned()).map_err(|_| Shape {
                    field: "(root)".to_owned(),
                    expected: "JSON",
                    found: "something else",
                })?,
            }),
        }
        Ok(())
    }
}

impl From<EntryBlob<'_>> for Entry {
    fn from(entry: EntryBlob<'_>) -> Self {
        Self {
            name: entry.name.into_owned().into(),
            replaces: (!entry.replaces.is_empty()).then(|| entry.replaces.into_owned().into()),
            skips: entry.skips.into_iter().map(|skip| skip.into_owned().into()).collect(),
            skip_range: (!entry.skip_range.is_empty()).then(|| entry.skip_range.into_owned()),
        }
    }
}

impl From<String> for PackageName {
    fn from(name: String) -> Self {
        Self(name)
    }
}

impl From<String> for ChannelName {
    fn from(name: String) -> Self {
        Self(name)
    }
}

impl From<String> for BundleName {
    fn from(name: String) -> Self {
        Self(name)
    }
}

fn owned(properties: Vec<PropertyBlob<'_>>) -> Result<Vec<Property>, Shape> {
    properties.into_iter().map(|property| Ok(Property { kind: property.kind.into_owned(), value: property.value.to_owned()? })).collect()
}
