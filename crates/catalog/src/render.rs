//! Writing a catalog for people and for `opm`: deterministic order and spelling (OLM1-BUILD-04, CATLG-10).

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};

use crate::model::{
    Bundle, Catalog, Channel, Deprecation, Entry, Icon, Package, Property, RelatedImage, SCHEMA_BUNDLE, SCHEMA_CHANNEL,
    SCHEMA_DEPRECATIONS, SCHEMA_PACKAGE,
};

/// How a catalog is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Objects one after another, four blanks of indent, keys in schema order.
    Json,
    /// Documents that begin with `---`, keys sorted.
    Yaml,
    /// One canonical object a line (OLM1-CAT-07).
    JsonLines,
}

/// Writes a catalog: packages by name; in each the package, channels by name, bundles by name, other schemas, deprecations; blobs without
/// package last.
pub fn render(catalog: &Catalog, format: Format, out: &mut dyn Write) -> io::Result<()> {
    let mut blobs: Vec<(Key<'_>, Ordered<'_>)> = Vec::new();
    for package in &catalog.packages {
        blobs.push((Key::new(package.name.as_str(), 0, package.name.as_str()), Ordered::Package(package)));
    }
    for channel in &catalog.channels {
        blobs.push((Key::new(channel.package.as_str(), 1, channel.name.as_str()), Ordered::Channel(channel)));
    }
    for bundle in &catalog.bundles {
        blobs.push((Key::new(bundle.package.as_str(), 2, bundle.name.as_str()), Ordered::Bundle(bundle)));
    }
    for other in &catalog.others {
        blobs.push((Key::new(&other.package, 3, ""), Ordered::Other(other.blob.get())));
    }
    for deprecations in &catalog.deprecations {
        let ordered = Ordered::Deprecations(deprecations.package.as_str(), &deprecations.entries);
        blobs.push((Key::new(deprecations.package.as_str(), 4, ""), ordered));
    }
    blobs.sort_by(|a, b| a.0.cmp(&b.0));
    blobs.into_iter().try_for_each(|(_, blob)| blob.write(format, out))
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a> {
    without_package: bool,
    package: &'a str,
    rank: u8,
    name: &'a str,
}

impl<'a> Key<'a> {
    fn new(package: &'a str, rank: u8, name: &'a str) -> Self {
        Self { without_package: package.is_empty(), package, rank, name }
    }
}

enum Ordered<'a> {
    Package(&'a Package),
    Channel(&'a Channel),
    Bundle(&'a Bundle),
    Deprecations(&'a str, &'a [Deprecation]),
    Other(&'a str),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PackageOut<'a> {
    schema: &'static str,
    name: &'a str,
    default_channel: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    icon: Option<&'a Icon>,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    properties: Vec<PropertyOut<'a>>,
}

#[derive(Serialize)]
struct ChannelOut<'a> {
    schema: &'static str,
    name: &'a str,
    package: &'a str,
    entries: &'a [Entry],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    properties: Vec<PropertyOut<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BundleOut<'a> {
    schema: &'static str,
    name: &'a str,
    package: &'a str,
    image: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    properties: Vec<PropertyOut<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    related_images: Vec<&'a RelatedImage>,
}

#[derive(Serialize)]
struct DeprecationsOut<'a> {
    schema: &'static str,
    package: &'a str,
    entries: &'a [Deprecation],
}

#[derive(Serialize)]
struct PropertyOut<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    value: Value,
}

impl Ordered<'_> {
    fn write(&self, format: Format, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Package(package) => write_blob(
                &PackageOut {
                    schema: SCHEMA_PACKAGE,
                    name: package.name.as_str(),
                    default_channel: package.default_channel.as_str(),
                    icon: package.icon.as_ref(),
                    description: &package.description,
                    properties: properties(&package.properties)?,
                },
                format,
                out,
            ),
            Self::Channel(channel) => write_blob(
                &ChannelOut {
                    schema: SCHEMA_CHANNEL,
                    name: channel.name.as_str(),
                    package: channel.package.as_str(),
                    entries: &channel.entries,
                    properties: properties(&channel.properties)?,
                },
                format,
                out,
            ),
            Self::Bundle(bundle) => {
                let mut related_images: Vec<&RelatedImage> = bundle.related_images.iter().collect();
                related_images.sort_by(|a, b| (&a.image, &a.name).cmp(&(&b.image, &b.name)));
                let blob = BundleOut {
                    schema: SCHEMA_BUNDLE,
                    name: bundle.name.as_str(),
                    package: bundle.package.as_str(),
                    image: &bundle.image,
                    properties: properties(&bundle.properties)?,
                    related_images,
                };
                write_blob(&blob, format, out)
            }
            Self::Deprecations(package, entries) => {
                write_blob(&DeprecationsOut { schema: SCHEMA_DEPRECATIONS, package, entries }, format, out)
            }
            Self::Other(json) => write_blob(&serde_json::from_str::<Value>(json)?, format, out),
        }
    }
}

/// Properties with their values as trees; those that carry manifests or metadata come last, because they are long.
fn properties(properties: &[Property]) -> io::Result<Vec<PropertyOut<'_>>> {
    let mut ordered: Vec<&Property> = properties.iter().collect();
    ordered.sort_by_key(|property| match property.kind.as_str() {
        "olm.bundle.object" => 1,
        "olm.csv.metadata" => 2,
        _ => 0,
    });
    let out = ordered.into_iter().map(|p| Ok(PropertyOut { kind: &p.kind, value: serde_json::from_str(p.value.get())? }));
    out.collect()
}

fn write_blob<T: Serialize>(blob: &T, format: Format, out: &mut dyn Write) -> io::Result<()> {
    match format {
        Format::Json => {
            blob.serialize(&mut Serializer::with_formatter(&mut *out, PrettyFormatter::with_indent(b"    ")))?;
            out.write_all(b"\n")
        }
        Format::Yaml => {
            let value = serde_json::to_value(blob)?;
            out.write_all(b"---\n")?;
            out.write_all(mainstay_yaml::to_string(&value).as_bytes())
        }
        Format::JsonLines => {
            serde_json::to_writer(&mut *out, &serde_json::to_value(blob)?)?;
            out.write_all(b"\n")
        }
    }
}
