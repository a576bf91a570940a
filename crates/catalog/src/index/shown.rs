//! Texts of a bundle for display, from its metadata or from the CSV that older catalogs embed.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;

use crate::decode::{BundleBlob, Fields};

/// Texts for display; empty if the bundle has none.
#[derive(Default)]
pub(super) struct Shown {
    pub(super) display_name: String,
    pub(super) provider: String,
    pub(super) keywords: String,
    pub(super) summary: String,
    /// Supported install modes, separated by blanks; `None` if the catalog does not know.
    pub(super) install_modes: Option<String>,
}

impl Shown {
    /// Reads the texts of a bundle. They are only for display, so metadata of the wrong shape counts as none.
    pub(super) fn of(bundle: &BundleBlob<'_>) -> Self {
        let metadata = bundle.properties.iter().find(|p| p.kind == "olm.csv.metadata");
        if let Some(metadata) = metadata.and_then(|p| serde_json::from_str::<CsvMetadata<'_>>(p.value.get()).ok()) {
            return Self::from(&metadata);
        }
        let embedded = embedded_csv(bundle);
        let embedded = embedded.as_deref().and_then(|csv| serde_json::from_slice::<Csv<'_>>(csv).ok());
        embedded.map(Csv::into_metadata).as_ref().map(Self::from).unwrap_or_default()
    }
}

impl From<&CsvMetadata<'_>> for Shown {
    fn from(metadata: &CsvMetadata<'_>) -> Self {
        let text = |part: Option<&Cow<'_, str>>| part.map_or(String::new(), |text| text.trim().to_owned());
        let keywords = metadata.keywords.iter().flatten().flatten();
        let modes = metadata.install_modes.as_ref().map(|modes| {
            let supported = modes.iter().filter(|mode| mode.supported.unwrap_or(false));
            supported.filter_map(|mode| mode.kind.as_deref()).collect::<Vec<&str>>().join(" ")
        });
        Self {
            display_name: text(metadata.display_name.as_ref()),
            provider: text(metadata.provider.as_ref().and_then(|p| p.name.as_ref())),
            keywords: keywords.map(AsRef::as_ref).collect::<Vec<&str>>().join(" "),
            summary: text(metadata.annotations.as_ref().and_then(|a| a.description.as_ref())),
            install_modes: modes,
        }
    }
}

/// The displayed fields of a bundle's `olm.csv.metadata`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CsvMetadata<'a> {
    #[serde(borrow)]
    display_name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    provider: Option<Provider<'a>>,
    #[serde(borrow)]
    keywords: Option<Vec<Option<Cow<'a, str>>>>,
    #[serde(borrow)]
    annotations: Option<Annotations<'a>>,
    #[serde(borrow)]
    install_modes: Option<Vec<InstallMode<'a>>>,
}

/// A CSV in the form in which older catalogs embed it.
#[derive(Deserialize)]
struct Csv<'a> {
    #[serde(borrow, default)]
    metadata: CsvObjectMeta<'a>,
    #[serde(borrow)]
    spec: CsvMetadata<'a>,
}

#[derive(Deserialize, Default)]
struct CsvObjectMeta<'a> {
    #[serde(borrow)]
    annotations: Option<Annotations<'a>>,
}

impl<'a> Csv<'a> {
    fn into_metadata(self) -> CsvMetadata<'a> {
        CsvMetadata { annotations: self.metadata.annotations, ..self.spec }
    }
}

/// The manifest of the CSV among the embedded objects of a bundle.
fn embedded_csv(bundle: &BundleBlob<'_>) -> Option<Vec<u8>> {
    #[derive(Deserialize)]
    struct Kind<'k> {
        #[serde(borrow)]
        kind: Option<Cow<'k, str>>,
    }
    let mut objects = bundle.properties.iter().filter(|p| p.kind == "olm.bundle.object");
    objects.find_map(|object| {
        let fields = Fields::read(object.value.get(), "value").ok()?;
        let manifest = BASE64.decode(fields.text("data").ok()?.as_bytes()).ok()?;
        let is_csv = serde_json::from_slice::<Kind<'_>>(&manifest).is_ok_and(|k| k.kind.as_deref() == Some("ClusterServiceVersion"));
        is_csv.then_some(manifest)
    })
}

#[derive(Deserialize)]
struct Provider<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Annotations<'a> {
    #[serde(borrow)]
    description: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct InstallMode<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    supported: Option<bool>,
}
