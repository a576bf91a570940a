//! A registry's content, fetched over gRPC and written as a file-based catalog.
//!
//! A registry knows no blobs, only packages, and bundles by channel. What it lists is enough to make them again: packages with their channels,
//! the entries of each channel, and each bundle once with its properties. The CSVs of channel heads are asked for one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use super::api;
use super::api::registry_client::RegistryClient;

/// The most bytes of one message.
const MESSAGE: usize = 64 << 20;
/// The most entries that a registry may list.
const ENTRIES: usize = 200_000;
/// The most bytes of text that a catalog may have.
const BYTES: usize = 512 << 20;
/// The longest time for a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// Why a registry gives no content.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The address is none.
    #[error("{address:?} is no address HOST:PORT")]
    Address {
        /// The address.
        address: String,
        /// The problem.
        #[source]
        source: tonic::transport::Error,
    },
    /// There is no connection.
    #[error("no connection to {address}")]
    Connect {
        /// The address.
        address: String,
        /// The problem.
        #[source]
        source: tonic::transport::Error,
    },
    /// The registry refused a request.
    #[error("the registry answered {code}: {message}", code = .0.code(), message = .0.message())]
    Answer(#[from] Box<Status>),
    /// It lists more than is held.
    #[error("the registry lists more than {limit} {what}")]
    TooMuch {
        /// The things of which there are too many.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// A property of a bundle is no JSON.
    #[error("bundle {bundle}: property {kind} is no JSON")]
    Property {
        /// The bundle.
        bundle: String,
        /// The property's type.
        kind: String,
        /// The problem.
        #[source]
        source: serde_json::Error,
    },
}

/// A registry that is connected to.
#[derive(Debug, Clone)]
pub struct RemoteRegistry {
    client: RegistryClient<Channel>,
}

impl RemoteRegistry {
    /// Connects to a registry at `HOST:PORT`.
    pub async fn connect(address: &str) -> Result<Self, FetchError> {
        let wrong = |source| FetchError::Address { address: address.to_owned(), source };
        let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(wrong)?.connect_timeout(CONNECT);
        let failed = |source| FetchError::Connect { address: address.to_owned(), source };
        let channel = endpoint.connect().await.map_err(failed)?;
        Ok(Self { client: RegistryClient::new(channel).max_decoding_message_size(MESSAGE) })
    }

    /// Returns the names of its packages, which also proves that it answers.
    pub async fn packages(&mut self) -> Result<Vec<String>, FetchError> {
        let mut answers = self.client.list_packages(api::ListPackageRequest {}).await.map_err(Box::new)?.into_inner();
        let mut names = Vec::new();
        while let Some(package) = answers.message().await.map_err(Box::new)? {
            names.push(package.name);
            within(names.len(), ENTRIES, "packages")?;
        }
        names.sort();
        Ok(names)
    }

    /// Returns its content as the blobs of a file-based catalog, one JSON text a line.
    pub async fn catalog(&mut self) -> Result<String, FetchError> {
        let names = self.packages().await?;
        let bundles = self.bundles().await?;
        let mut heads: BTreeMap<(String, String), String> = BTreeMap::new();
        let mut out = String::new();
        for name in names {
            let request = api::GetPackageRequest { name: name.clone() };
            let package = match self.client.get_package(request).await {
                Ok(package) => package.into_inner(),
                // It was removed since it was listed.
                Err(status) if status.code() == Code::NotFound => continue,
                Err(status) => return Err(Box::new(status).into()),
            };
            line(&mut out, &json!({"schema": "olm.package", "name": name, "defaultChannel": package.default_channel_name}))?;
            for channel in &package.channels {
                heads.insert((name.clone(), channel.csv_name.clone()), channel.name.clone());
            }
            if let Some(deprecations) = deprecations(&package, &bundles) {
                line(&mut out, &deprecations)?;
            }
        }
        let mut channels: BTreeMap<(&str, &str), Vec<Value>> = BTreeMap::new();
        for bundle in &bundles {
            channels.entry((&bundle.package_name, &bundle.channel_name)).or_default().push(entry(bundle));
        }
        for ((package, channel), entries) in channels {
            line(&mut out, &json!({"schema": "olm.channel", "package": package, "name": channel, "entries": entries}))?;
        }
        let mut seen = BTreeSet::new();
        for bundle in &bundles {
            let key = (bundle.package_name.clone(), bundle.csv_name.clone());
            if !seen.insert(key.clone()) {
                continue;
            }
            let head = heads.get(&key).filter(|_| bundle.csv_json.is_empty());
            let whole = match head {
                Some(channel) => self.whole(&key, channel).await?,
                None => bundle.clone(),
            };
            line(&mut out, &blob(bundle, &whole)?)?;
        }
        Ok(out)
    }

    async fn bundles(&mut self) -> Result<Vec<api::Bundle>, FetchError> {
        let mut answers = self.client.list_bundles(api::ListBundlesRequest {}).await.map_err(Box::new)?.into_inner();
        let mut bundles = Vec::new();
        while let Some(bundle) = answers.message().await.map_err(Box::new)? {
            bundles.push(bundle);
            within(bundles.len(), ENTRIES, "bundles")?;
        }
        Ok(bundles)
    }

    async fn whole(&mut self, (package, csv): &(String, String), channel: &str) -> Result<api::Bundle, FetchError> {
        let request = api::GetBundleRequest { pkg_name: package.clone(), channel_name: channel.to_owned(), csv_name: csv.clone() };
        Ok(self.client.get_bundle(request).await.map_err(Box::new)?.into_inner())
    }
}

fn within(found: usize, limit: usize, what: &'static str) -> Result<(), FetchError> {
    if found > limit { Err(FetchError::TooMuch { what, limit }) } else { Ok(()) }
}

fn line(out: &mut String, blob: &Value) -> Result<(), FetchError> {
    out.push_str(&blob.to_string());
    out.push('\n');
    within(out.len(), BYTES, "bytes")
}

fn entry(bundle: &api::Bundle) -> Value {
    let mut entry = json!({"name": bundle.csv_name});
    if !bundle.replaces.is_empty() {
        entry["replaces"] = json!(bundle.replaces);
    }
    if !bundle.skips.is_empty() {
        entry["skips"] = json!(bundle.skips);
    }
    if !bundle.skip_range.is_empty() {
        entry["skipRange"] = json!(bundle.skip_range);
    }
    entry
}

/// The deprecations of a package, its channels and bundles.
fn deprecations(package: &api::Package, bundles: &[api::Bundle]) -> Option<Value> {
    let entry = |reference: Value, deprecation: &Option<api::Deprecation>| {
        deprecation.as_ref().map(|deprecation| json!({"reference": reference, "message": deprecation.message}))
    };
    let own = entry(json!({"schema": "olm.package"}), &package.deprecation);
    let channels =
        package.channels.iter().filter_map(|channel| entry(json!({"schema": "olm.channel", "name": channel.name}), &channel.deprecation));
    let mut named = BTreeSet::new();
    let of_bundles = bundles
        .iter()
        .filter(|bundle| bundle.package_name == package.name && named.insert(&bundle.csv_name))
        .filter_map(|bundle| entry(json!({"schema": "olm.bundle", "name": bundle.csv_name}), &bundle.deprecation));
    let entries: Vec<Value> = own.into_iter().chain(channels).chain(of_bundles).collect();
    (!entries.is_empty()).then(|| json!({"schema": "olm.deprecations", "package": package.name, "entries": entries}))
}

/// The blob of a bundle; `whole` has its CSV if it is a head.
fn blob(bundle: &api::Bundle, whole: &api::Bundle) -> Result<Value, FetchError> {
    let mut properties = Vec::new();
    let parse = |kind: &str, text: &str| {
        let failed = |source| FetchError::Property { bundle: bundle.csv_name.clone(), kind: kind.to_owned(), source };
        serde_json::from_str::<Value>(text).map_err(failed)
    };
    for property in &bundle.properties {
        properties.push(json!({"type": property.r#type, "value": parse(&property.r#type, &property.value)?}));
    }
    let has = |properties: &[Value], kind: &str| properties.iter().any(|property| property["type"] == *kind);
    if !has(&properties, "olm.package") {
        properties.push(json!({"type": "olm.package", "value": {"packageName": bundle.package_name, "version": bundle.version}}));
    }
    let gvk = |api: &api::GroupVersionKind| json!({"group": api.group, "version": api.version, "kind": api.kind});
    if !has(&properties, "olm.gvk") {
        properties.extend(bundle.provided_apis.iter().map(|api| json!({"type": "olm.gvk", "value": gvk(api)})));
    }
    // Registries of file-based catalogs list requirements as properties and as dependencies, older ones as dependencies only.
    for dependency in &bundle.dependencies {
        let value = parse(&dependency.r#type, &dependency.value)?;
        let (kind, value) = match dependency.r#type.as_str() {
            "olm.package" => {
                let required = json!({"packageName": value["packageName"], "versionRange": value["version"]});
                ("olm.package.required", required)
            }
            "olm.gvk" => ("olm.gvk.required", value),
            other => (other, value),
        };
        let property = json!({"type": kind, "value": value});
        if !properties.contains(&property) {
            properties.push(property);
        }
    }
    if bundle.dependencies.is_empty() && !has(&properties, "olm.gvk.required") {
        properties.extend(bundle.required_apis.iter().map(|api| json!({"type": "olm.gvk.required", "value": gvk(api)})));
    }
    let object = |text: &str| json!({"type": "olm.bundle.object", "value": {"data": STANDARD.encode(text)}});
    if !has(&properties, "olm.csv.metadata") && !has(&properties, "olm.bundle.object") {
        if whole.object.is_empty() {
            properties.extend(Some(&whole.csv_json).filter(|text| !text.is_empty()).map(|text| object(text)));
        } else {
            properties.extend(whole.object.iter().map(|text| object(text)));
        }
    }
    Ok(json!({
        "schema": "olm.bundle", "package": bundle.package_name, "name": bundle.csv_name, "image": bundle.bundle_path,
        "properties": properties,
    }))
}
