//! The ten methods of `api.Registry` and the experimental one.

use std::collections::{BTreeMap, HashSet};
use std::pin::Pin;

use futures::stream;
use futures::{Stream, StreamExt as _};
use mainstay_catalog::{ChannelView, EntryView, Index, MetaQuery, PackageView};
use mainstay_catalog_store::{Map, StoredCatalog};
use mainstay_golang::quote;
use tonic::{Request, Response, Status};

use super::api;
use super::api::experimental_registry_server::ExperimentalRegistry;
use super::bundle::{Detail, check, convert};
use crate::ServeError;

/// A catalog served by gRPC.
#[derive(Debug, Clone)]
pub struct Registry {
    catalog: StoredCatalog,
}

/// Answers of a streaming method.
type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;
type Entry<'i> = EntryView<'i, Map>;

/// Returns the code of upstream's answer to every failed query (CATLG-42).
fn unknown(text: impl std::fmt::Display) -> Status {
    Status::unknown(text.to_string())
}

impl From<ServeError> for Status {
    fn from(error: ServeError) -> Self {
        tracing::error!(%error, "registry: a bundle of the catalog cannot be sent");
        unknown(error)
    }
}

impl Registry {
    /// Makes a registry of a catalog.
    pub fn new(catalog: StoredCatalog) -> Self {
        Self { catalog }
    }

    /// Converts every bundle of a package once, so that unsendable bundles are reported before the first client requests them.
    pub(crate) fn check_package(&self, name: &str) -> Result<(), ServeError> {
        let Some(package) = self.index().package(name) else { return Ok(()) };
        let mut seen = HashSet::new();
        let entries = package.channels().flat_map(ChannelView::entries);
        entries.filter(|entry| seen.insert(entry.name())).try_for_each(|entry| check(&self.catalog, entry))
    }

    /// Every bundle as the registry lists it, one entry a channel, for a resolver in this process.
    pub fn listing(&self) -> Result<Vec<api::Bundle>, ServeError> {
        let listed = self.index().listing(0).map(|entry| convert(&self.catalog, entry, Detail::Listed));
        listed.filter_map(Result::transpose).collect()
    }

    /// The default channel of each package that has one.
    pub fn default_channels(&self) -> BTreeMap<String, String> {
        let default = |package: PackageView<'_, Map>| Some((package.name().to_owned(), package.default_channel()?.to_owned()));
        self.index().packages().filter_map(default).collect()
    }

    fn index(&self) -> &Index<Map> {
        self.catalog.index()
    }

    fn package(&self, name: &str) -> Result<PackageView<'_, Map>, Status> {
        // Validation refuses a package without a blob of its own, but it may be turned off.
        self.index().package(name).ok_or_else(|| unknown(format_args!("package {} not found", quote(name))))
    }

    /// Returns one bundle in an answer of its own.
    fn single(&self, entry: Entry<'_>) -> Result<Response<api::Bundle>, Status> {
        let bundle = convert(&self.catalog, entry, Detail::Single)?;
        let missing = || {
            let channel = entry.channel();
            not_in_channel(channel.package().name(), channel.name(), entry.name())
        };
        bundle.map(Response::new).ok_or_else(missing)
    }

    /// Returns the heads that provide an API.
    fn latest(&self, group: &str, version: &str, kind: &str) -> impl Iterator<Item = Entry<'_>> {
        let is_head = |entry: &Entry<'_>| entry.channel().head().is_some_and(|head| head.name() == entry.name());
        self.index().providers(group, version, kind).filter(is_head)
    }
}

fn not_in_channel(package: &str, channel: &str, bundle: &str) -> Status {
    unknown(format_args!("package {}, channel {}, bundle {} not found", quote(package), quote(channel), quote(bundle)))
}

fn no_channel(package: &str, channel: &str) -> Status {
    unknown(format_args!("package {}, channel {} not found", quote(package), quote(channel)))
}

fn gvk(group: &str, version: &str, kind: &str) -> String {
    format!("group:{} version:{} kind:{}", quote(group), quote(version), quote(kind))
}

/// Returns all answers, or the refusal when there is none.
fn answers<T: Send + 'static>(found: Vec<T>, none: impl FnOnce() -> Status) -> Result<Response<Answers<T>>, Status> {
    if found.is_empty() {
        return Err(none());
    }
    Ok(Response::new(Box::pin(stream::iter(found.into_iter().map(Ok)))))
}

fn channel_entry(entry: Entry<'_>, replaces: &str) -> api::ChannelEntry {
    let channel = entry.channel();
    api::ChannelEntry {
        package_name: channel.package().name().to_owned(),
        channel_name: channel.name().to_owned(),
        bundle_name: entry.name().to_owned(),
        replaces: replaces.to_owned(),
    }
}

/// Returns the entry with the bundle it replaces, then with each bundle it skips: all of them, or those of its channel.
fn edges(entry: Entry<'_>, skips: Skips) -> Vec<api::ChannelEntry> {
    let replaces = entry.replaces().unwrap_or_default();
    let skipped = entry.skips().filter(|skip| *skip != replaces);
    let skipped = skipped.filter(|skip| skips == Skips::All || entry.channel().entry(skip).is_some());
    [replaces].into_iter().chain(skipped).map(|replaces| channel_entry(entry, replaces)).collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Skips {
    All,
    OfChannel,
}

#[tonic::async_trait]
impl api::registry_server::Registry for Registry {
    type ListPackagesStream = Answers<api::PackageName>;
    type GetChannelEntriesThatReplaceStream = Answers<api::ChannelEntry>;
    type GetChannelEntriesThatProvideStream = Answers<api::ChannelEntry>;
    type GetLatestChannelEntriesThatProvideStream = Answers<api::ChannelEntry>;
    type ListBundlesStream = Answers<api::Bundle>;

    async fn list_packages(&self, _request: Request<api::ListPackageRequest>) -> Result<Response<Self::ListPackagesStream>, Status> {
        let names: Vec<_> = self.index().packages().map(|package| Ok(api::PackageName { name: package.name().to_owned() })).collect();
        Ok(Response::new(Box::pin(stream::iter(names))))
    }

    async fn get_package(&self, request: Request<api::GetPackageRequest>) -> Result<Response<api::Package>, Status> {
        let deprecation = |message: Option<&str>| message.map(|message| api::Deprecation { message: message.to_owned() });
        let package = self.package(&request.get_ref().name)?;
        let channels = package.channels().map(|channel| api::Channel {
            name: channel.name().to_owned(),
            csv_name: channel.head().map(|head| head.name().to_owned()).unwrap_or_default(),
            deprecation: deprecation(channel.deprecation()),
        });
        Ok(Response::new(api::Package {
            name: package.name().to_owned(),
            channels: channels.collect(),
            default_channel_name: package.default_channel().unwrap_or_default().to_owned(),
            deprecation: deprecation(package.deprecation()),
        }))
    }

    async fn get_bundle(&self, request: Request<api::GetBundleRequest>) -> Result<Response<api::Bundle>, Status> {
        let api::GetBundleRequest { pkg_name, channel_name, csv_name } = request.get_ref();
        let package = self.package(pkg_name)?;
        let channel = package.channel(channel_name).ok_or_else(|| no_channel(pkg_name, channel_name))?;
        let entry = channel.entry(csv_name).ok_or_else(|| not_in_channel(pkg_name, channel_name, csv_name))?;
        self.single(entry)
    }

    async fn get_bundle_for_channel(&self, request: Request<api::GetBundleInChannelRequest>) -> Result<Response<api::Bundle>, Status> {
        let api::GetBundleInChannelRequest { pkg_name, channel_name } = request.get_ref();
        let package = self.package(pkg_name)?;
        let channel = package.channel(channel_name).ok_or_else(|| no_channel(pkg_name, channel_name))?;
        let head = channel.head().ok_or_else(|| not_in_channel(pkg_name, channel_name, ""))?;
        self.single(head)
    }

    async fn get_channel_entries_that_replace(
        &self,
        request: Request<api::GetAllReplacementsRequest>,
    ) -> Result<Response<Self::GetChannelEntriesThatReplaceStream>, Status> {
        let name = &request.get_ref().csv_name;
        let entry = |entry: Entry<'_>| channel_entry(entry, entry.replaces().unwrap_or_default());
        let found = self.index().replacers(name).map(entry).collect();
        answers(found, || unknown(format_args!("no channel entries found that replace {name}")))
    }

    async fn get_bundle_that_replaces(&self, request: Request<api::GetReplacementRequest>) -> Result<Response<api::Bundle>, Status> {
        let api::GetReplacementRequest { csv_name, pkg_name, channel_name } = request.get_ref();
        let package = self.index().package(pkg_name).ok_or_else(|| unknown(format_args!("package {pkg_name} not found")))?;
        let channel = package.channel(channel_name).ok_or_else(|| no_channel(pkg_name, channel_name))?;
        let in_channel = |entry: &Entry<'_>| entry.channel().name() == channel_name && entry.channel().package().name() == pkg_name;
        // Of several, the first in the channel's order.
        let found = self.index().replacers(csv_name).find(in_channel);
        let none = || unknown(format_args!("no entry found for package {}, channel {}", quote(pkg_name), quote(channel.name())));
        self.single(found.ok_or_else(none)?)
    }

    async fn get_channel_entries_that_provide(
        &self,
        request: Request<api::GetAllProvidersRequest>,
    ) -> Result<Response<Self::GetChannelEntriesThatProvideStream>, Status> {
        let api::GetAllProvidersRequest { group, version, kind, .. } = request.get_ref();
        let found = self.index().providers(group, version, kind).flat_map(|entry| edges(entry, Skips::All)).collect();
        answers(found, || unknown(format_args!("no channel entries found that provide {}", gvk(group, version, kind))))
    }

    async fn get_latest_channel_entries_that_provide(
        &self,
        request: Request<api::GetLatestProvidersRequest>,
    ) -> Result<Response<Self::GetLatestChannelEntriesThatProvideStream>, Status> {
        let api::GetLatestProvidersRequest { group, version, kind, .. } = request.get_ref();
        let found = self.latest(group, version, kind).flat_map(|entry| edges(entry, Skips::OfChannel)).collect();
        answers(found, || unknown(format_args!("no channel entries found that provide {}", gvk(group, version, kind))))
    }

    async fn get_default_bundle_that_provides(
        &self,
        request: Request<api::GetDefaultProviderRequest>,
    ) -> Result<Response<api::Bundle>, Status> {
        let api::GetDefaultProviderRequest { group, version, kind, .. } = request.get_ref();
        let mut latest = self.latest(group, version, kind).peekable();
        if latest.peek().is_none() {
            return Err(unknown(format_args!("no channel entries found that provide {}", gvk(group, version, kind))));
        }
        // The index has them by package; upstream takes the first package by name.
        let mut in_default = latest.filter(|entry| entry.channel().package().default_channel() == Some(entry.channel().name()));
        let none = || unknown(format_args!("no entry found that provides {}", gvk(group, version, kind)));
        self.single(in_default.next().ok_or_else(none)?)
    }

    async fn list_bundles(&self, _request: Request<api::ListBundlesRequest>) -> Result<Response<Self::ListBundlesStream>, Status> {
        // Each bundle is read and converted when the connection can take it, one at a time.
        let bundles = stream::try_unfold((self.clone(), 0), |(registry, at)| async move {
            let Some(entry) = registry.index().listing(at).next() else { return Ok(None) };
            let bundle = convert(&registry.catalog, entry, Detail::Listed)?.unwrap_or_default();
            Ok(Some((bundle, (registry, at + 1))))
        });
        Ok(Response::new(Box::pin(bundles)))
    }
}

const ACKNOWLEDGE: &str = "x-acknowledge-experimental";

#[tonic::async_trait]
impl ExperimentalRegistry for Registry {
    type ExperimentalListPackageCustomSchemasStream = Answers<prost_types::Struct>;

    async fn experimental_list_package_custom_schemas(
        &self,
        request: Request<api::ExperimentalListPackageCustomSchemasRequest>,
    ) -> Result<Response<Self::ExperimentalListPackageCustomSchemasStream>, Status> {
        if request.metadata().get(ACKNOWLEDGE).is_none_or(|value| value != "true") {
            return Ok(Response::new(Box::pin(stream::empty())));
        }
        let api::ExperimentalListPackageCustomSchemasRequest { schema, package_name } = request.into_inner();
        if schema.is_empty() {
            return Err(Status::invalid_argument("schema is required"));
        }
        let query = MetaQuery { schema: Some(schema), package: Some(package_name).filter(|name| !name.is_empty()), name: None };
        let ranges: Vec<_> = self.index().metas(&query).collect();
        let catalog = self.catalog.clone();
        let blobs = stream::iter(ranges).map(move |range| {
            let failed = |reason: String| Status::internal(format!("custom schema: {reason}"));
            let json = catalog.read_blob(range).map_err(|error| failed(error.to_string()))?;
            let blob: serde_json::Map<String, serde_json::Value> =
                serde_json::from_str(&json).map_err(|error| failed(error.to_string()))?;
            Ok(structure(blob))
        });
        Ok(Response::new(Box::pin(blobs)))
    }
}

fn structure(members: serde_json::Map<String, serde_json::Value>) -> prost_types::Struct {
    prost_types::Struct { fields: members.into_iter().map(|(name, value)| (name, any(value))).collect() }
}

fn any(value: serde_json::Value) -> prost_types::Value {
    use prost_types::value::Kind;
    use serde_json::Value;
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(value) => Kind::BoolValue(value),
        // A protobuf value knows no other numbers.
        Value::Number(value) => Kind::NumberValue(value.as_f64().unwrap_or_default()),
        Value::String(value) => Kind::StringValue(value),
        Value::Array(values) => Kind::ListValue(prost_types::ListValue { values: values.into_iter().map(any).collect() }),
        Value::Object(members) => Kind::StructValue(structure(members)),
    };
    prost_types::Value { kind: Some(kind) }
}
