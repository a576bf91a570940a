//! A PackageManifest: a package of a source, as it is seen in a namespace (OLM0-API-27, OLM0-API-28, OLM0-API-29).

use std::io;

use jiff::Timestamp;
use kube::api::DynamicObject;
use mainstay_kinds::human_duration;
use mainstay_objects::Labels;
use serde::Serialize;
use serde_json::{Value, json};

use crate::csv::Link;
use crate::packages::{Channel, Deprecation, Entry, Package};

/// The group of PackageManifests.
pub const GROUP: &str = "packages.operators.coreos.com";
/// Group and version.
pub const API_VERSION: &str = "packages.operators.coreos.com/v1";
/// The kind.
pub const KIND: &str = "PackageManifest";
/// The resource.
pub const RESOURCE: &str = "packagemanifests";

/// Prefixes of labels about operating systems and architectures; a package that has none is for the usual ones.
const OS: (&str, &str) = ("operatorframework.io/os", "operatorframework.io/os.linux");
const ARCH: (&str, &str) = ("operatorframework.io/arch", "operatorframework.io/arch.amd64");
const SUPPORTED: &str = "supported";

/// The facts about a CatalogSource beside its content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceFacts {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its name for people.
    pub display_name: String,
    /// Its publisher.
    pub publisher: String,
    /// Sources of a higher priority are preferred.
    pub priority: i64,
    /// Its labels.
    pub labels: Labels,
    /// Its creation.
    pub created: Option<Timestamp>,
}

impl SourceFacts {
    /// Reads the facts of a CatalogSource.
    pub fn of(source: &DynamicObject) -> Self {
        let text = |field: &str| source.data["spec"][field].as_str().unwrap_or_default().to_owned();
        Self {
            namespace: source.metadata.namespace.clone().unwrap_or_default(),
            name: source.metadata.name.clone().unwrap_or_default(),
            display_name: text("displayName"),
            publisher: text("publisher"),
            priority: source.data["spec"]["priority"].as_i64().unwrap_or_default(),
            labels: source.metadata.labels.clone().unwrap_or_default(),
            created: source.metadata.creation_timestamp.as_ref().map(|time| time.0),
        }
    }
}

/// A package of a source, as it is seen in a namespace.
#[derive(Clone, Copy, Debug)]
pub struct Manifest<'a> {
    /// The source.
    pub source: &'a SourceFacts,
    /// The package.
    pub package: &'a Package,
    /// The namespace in which it is seen.
    pub namespace: &'a str,
}

#[derive(Serialize)]
struct Metadata<'a> {
    name: &'a str,
    namespace: &'a str,
    #[serde(rename = "creationTimestamp")]
    created: Option<String>,
    labels: Labels,
}

/// The status before its channels, in the order of upstream's fields.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    catalog_source: &'a str,
    catalog_source_display_name: &'a str,
    catalog_source_publisher: &'a str,
    catalog_source_namespace: &'a str,
    provider: &'a Link,
    package_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    deprecation: Option<&'a Deprecation>,
}

impl Manifest<'_> {
    /// Returns the labels: those of the source, of the catalog, and of the default channel's head, which win.
    pub fn labels(&self) -> Labels {
        let (source, package) = (self.source, self.package);
        let mut labels = source.labels.clone();
        let own = [
            ("catalog", &source.name),
            ("catalog-namespace", &source.namespace),
            ("provider", &package.provider.name),
            ("provider-url", &package.provider.url),
        ];
        labels.extend(own.map(|(key, value)| (key.to_owned(), value.clone())));
        labels.extend(package.labels.clone());
        for (prefix, usual) in [OS, ARCH] {
            if !labels.keys().any(|key| key.starts_with(prefix)) {
                labels.insert(usual.to_owned(), SUPPORTED.to_owned());
            }
        }
        labels
    }

    fn metadata(&self) -> Metadata<'_> {
        Metadata {
            name: &self.package.name,
            namespace: self.namespace,
            created: self.source.created.map(|time| time.to_string()),
            labels: self.labels(),
        }
    }

    /// Writes the object as JSON text, with its kind or, as an item of a list, without.
    ///
    /// # Errors
    /// A description cannot be read.
    pub fn write(&self, out: &mut Vec<u8>, with_kind: bool) -> io::Result<()> {
        out.push(b'{');
        if with_kind {
            write_field(out, "kind", &KIND)?;
            write_field(out, "apiVersion", &API_VERSION)?;
        }
        write_field(out, "metadata", &self.metadata())?;
        out.extend_from_slice(br#""spec":{},"status":"#);
        let (source, package) = (self.source, self.package);
        let status = Status {
            catalog_source: &source.name,
            catalog_source_display_name: &source.display_name,
            catalog_source_publisher: &source.publisher,
            catalog_source_namespace: &source.namespace,
            provider: &package.provider,
            package_name: &package.name,
            deprecation: package.deprecation.as_ref(),
        };
        serde_json::to_writer(&mut *out, &status)?;
        // The object goes on with its channels.
        out.pop();
        out.extend_from_slice(br#","channels":["#);
        for (index, channel) in package.channels.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            write_channel(out, channel)?;
        }
        out.extend_from_slice(br#"],"defaultChannel":"#);
        serde_json::to_writer(&mut *out, &package.default_channel)?;
        out.extend_from_slice(b"}}");
        Ok(())
    }

    /// Returns the object.
    ///
    /// # Errors
    /// A description cannot be read.
    pub fn to_value(&self) -> io::Result<Value> {
        let mut text = Vec::new();
        self.write(&mut text, true)?;
        Ok(serde_json::from_slice(&text)?)
    }

    /// Returns the object with its metadata alone.
    pub fn partial(&self) -> Value {
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": self.metadata()})
    }

    /// Returns the cells of its row in a table (OLM0-API-03).
    pub fn cells(&self, now: Timestamp) -> Value {
        let age =
            self.source.created.map_or_else(|| "<unknown>".to_owned(), |created| human_duration(now.as_second() - created.as_second()));
        json!([self.package.name, self.source.display_name, age])
    }
}

fn write_channel(out: &mut Vec<u8>, channel: &Channel) -> io::Result<()> {
    out.push(b'{');
    write_field(out, "name", &channel.name)?;
    write_field(out, "currentCSV", &channel.current)?;
    out.extend_from_slice(br#""currentCSVDesc":"#);
    channel.description.write_to(out)?;
    out.push(b',');
    if let Some(deprecation) = &channel.deprecation {
        write_field(out, "deprecation", deprecation)?;
    }
    out.extend_from_slice(br#""entries":"#);
    // Upstream has null here if every entry is left out.
    let entries: Option<&[Entry]> = Some(channel.entries.as_slice()).filter(|entries| !entries.is_empty());
    serde_json::to_writer(&mut *out, &entries)?;
    out.push(b'}');
    Ok(())
}

/// Writes a field with the comma behind it.
fn write_field(out: &mut Vec<u8>, name: &str, value: &impl Serialize) -> io::Result<()> {
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    serde_json::to_writer(&mut *out, value)?;
    out.push(b',');
    Ok(())
}
