//! `api.Registry` over a connection. What is expected was compared with what upstream's `opm serve` v1.65 answers for the same catalogs.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use crate::common::{self, catalog, serve};
use futures::TryStreamExt as _;
use mainstay_catalog_serve::grpc::DESCRIPTORS;
use mainstay_catalog_serve::grpc::api::experimental_registry_client::ExperimentalRegistryClient;
use mainstay_catalog_serve::grpc::api::registry_client::RegistryClient;
use mainstay_catalog_serve::grpc::api::{self, ChannelEntry, Deprecation, GroupVersionKind};
use prost::Message as _;
use prost_types::FileDescriptorSet;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status, Streaming};

async fn all<T>(answer: Result<Response<Streaming<T>>, Status>) -> Result<Vec<T>, Status> {
    answer?.into_inner().try_collect().await
}

async fn client() -> (RegistryClient<Channel>, common::Serving) {
    let serving = serve(&catalog()).await;
    (RegistryClient::new(serving.channel.clone()), serving)
}

fn entry(text: &str) -> ChannelEntry {
    let parts: Vec<String> = text.split(' ').map(|part| part.replace('-', "")).collect();
    let [package_name, channel_name, bundle_name, replaces] = parts.try_into().unwrap();
    ChannelEntry { package_name, channel_name, bundle_name, replaces }
}

fn refusal<T: std::fmt::Debug>(answer: Result<T, Status>) -> String {
    let status = answer.unwrap_err();
    assert_eq!(status.code(), Code::Unknown, "{status}");
    status.message().to_owned()
}

/// CATLG-37, CATLG-39, CATLG-19: packages with their channels, heads and deprecations.
#[tokio::test]
async fn packages() {
    let (mut client, _serving) = client().await;
    let names = all(client.list_packages(api::ListPackageRequest {}).await).await.unwrap();
    assert_eq!(names.iter().map(|package| package.name.as_str()).collect::<Vec<_>>(), ["store", "web"]);
    let deprecation = |message: &str| Some(Deprecation { message: message.to_owned() });
    let channel = |name: &str, deprecation| api::Channel { name: name.to_owned(), csv_name: "web.v2".to_owned(), deprecation };
    let package = client.get_package(api::GetPackageRequest { name: "web".to_owned() }).await.unwrap().into_inner();
    let expected = api::Package {
        name: "web".to_owned(),
        channels: vec![channel("fast", deprecation("too fast")), channel("stable", None)],
        default_channel_name: "stable".to_owned(),
        deprecation: deprecation("no more web"),
    };
    assert_eq!(package, expected);
}

/// CATLG-40, CATLG-41: a bundle of its own has its manifests and no edges; metadata becomes a CSV, and is not sent as a property.
#[tokio::test]
async fn bundles() {
    let (mut client, _serving) = client().await;
    let request = |package: &str, channel: &str, name: &str| api::GetBundleRequest {
        pkg_name: package.to_owned(),
        channel_name: channel.to_owned(),
        csv_name: name.to_owned(),
    };
    let bundle = client.get_bundle(request("web", "stable", "web.v2")).await.unwrap().into_inner();
    let csv = concat!(
        r#"{"kind":"ClusterServiceVersion","apiVersion":"operators.coreos.com/v1alpha1","metadata":{"name":"web.v2","#,
        r#""annotations":{"a":"\u003c1\u003e","b":"2"}},"spec":{"install":{"strategy":"deployment","spec":{"deployments":null}},"#,
        r#""version":"2.0.0","customresourcedefinitions":{"owned":[{"name":"sites.web.io","version":"v1","kind":"Site"}]},"#,
        r#""apiservicedefinitions":{},"displayName":"Web \u0026 more","description":"Serves pages","provider":{"name":"Somebody"},"#,
        r#""icon":[{"base64data":"aGVsbG8=","mediatype":"image/png"}],"installModes":[{"type":"AllNamespaces","supported":true}],"#,
        r#""cleanup":{"enabled":false}},"status":{"cleanup":{}}}"#,
    );
    assert_eq!(bundle.csv_json, csv);
    assert_eq!(bundle.object, [csv]);
    assert_eq!((bundle.replaces.as_str(), bundle.skips.len(), bundle.skip_range.as_str()), ("", 0, "<2.0.0"));
    assert_eq!(bundle.bundle_path, "quay.io/test/web.v2");
    assert_eq!(bundle.version, "2.0.0");
    let api = |group: &str, kind: &str| GroupVersionKind {
        group: group.to_owned(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
        plural: String::new(),
    };
    assert_eq!(bundle.provided_apis, [api("web.io", "Site")]);
    assert_eq!(bundle.required_apis, [api("store.io", "Disk")]);
    let dependencies: Vec<_> = bundle.dependencies.iter().map(|d| (d.r#type.as_str(), d.value.as_str())).collect();
    let expected = [
        ("olm.gvk", r#"{"group":"store.io","kind":"Disk","version":"v1"}"#),
        ("olm.package", r#"{"packageName":"store","version":">=1.0.0 <2.0.0"}"#),
    ];
    assert_eq!(dependencies, expected);
    let kinds: Vec<_> = bundle.properties.iter().map(|property| property.r#type.as_str()).collect();
    assert_eq!(kinds, ["olm.package", "olm.gvk", "olm.gvk.required", "olm.package.required"]);
    let older = client.get_bundle(request("web", "stable", "web.v1")).await.unwrap().into_inner();
    assert_eq!(older.deprecation.unwrap().message, "too old");
    assert_eq!((older.csv_json.as_str(), older.object.len()), ("", 0));
    let embedded = client.get_bundle(request("store", "stable", "store.v1")).await.unwrap().into_inner();
    assert_eq!(embedded.object, [r#"{"kind":"ConfigMap"}"#, r#"{"kind":"ClusterServiceVersion"}"#]);
    assert_eq!(embedded.csv_json, r#"{"kind":"ClusterServiceVersion"}"#);
    #[allow(deprecated)]
    let head = client
        .get_bundle_for_channel(api::GetBundleInChannelRequest { pkg_name: "web".to_owned(), channel_name: "fast".to_owned() })
        .await
        .unwrap();
    assert_eq!((head.get_ref().csv_name.as_str(), head.get_ref().channel_name.as_str()), ("web.v2", "fast"));
}

/// CATLG-41: all bundles by channel, package and name, with edges; manifests only where no image has them.
#[tokio::test]
async fn list_bundles() {
    let (mut client, _serving) = client().await;
    let bundles = all(client.list_bundles(api::ListBundlesRequest {}).await).await.unwrap();
    let names: Vec<_> = bundles.iter().map(|b| format!("{} {} {}", b.channel_name, b.package_name, b.csv_name)).collect();
    assert_eq!(names, ["fast web web.v2", "stable store store.v1", "stable web web.v1", "stable web web.v2"]);
    assert_eq!(bundles.iter().map(|b| b.replaces.as_str()).collect::<Vec<_>>(), ["gone", "", "", "web.v1"]);
    assert_eq!(bundles[3].skips, ["web.v1", "web.v0"]);
    assert_eq!(bundles.iter().map(|b| b.object.len()).collect::<Vec<_>>(), [0, 2, 0, 0]);
    assert!(bundles[3].csv_json.is_empty());
}

/// CATLG-37: entries that replace, and entries and bundles that provide.
#[tokio::test]
async fn entries() {
    let (mut client, _serving) = client().await;
    let provided = |kind: &str| (String::from("web.io"), String::from("v1"), kind.to_owned(), String::new());
    for (name, expected) in [
        ("web.v1", &["web stable web.v2 web.v1"][..]),
        ("web.v0", &["web stable web.v2 web.v1"]),
        ("gone", &["web fast web.v2 gone"]),
        ("", &["store stable store.v1 -", "web stable web.v1 -"]),
    ] {
        let request = api::GetAllReplacementsRequest { csv_name: name.to_owned() };
        let found = all(client.get_channel_entries_that_replace(request).await).await.unwrap();
        assert_eq!(found, expected.iter().map(|text| entry(text)).collect::<Vec<_>>(), "{name}");
    }
    let (group, version, kind, plural) = provided("Site");
    let found =
        all(client.get_channel_entries_that_provide(api::GetAllProvidersRequest { group, version, kind, plural }).await).await.unwrap();
    // Each with what it replaces, then with each bundle that it skips besides.
    assert_eq!(found, ["web fast web.v2 gone", "web stable web.v1 -", "web stable web.v2 web.v1", "web stable web.v2 web.v0"].map(entry));
    let (group, version, kind, plural) = provided("Site");
    let request = api::GetLatestProvidersRequest { group, version, kind, plural };
    let found = all(client.get_latest_channel_entries_that_provide(request).await).await.unwrap();
    assert_eq!(found, ["web fast web.v2 gone", "web stable web.v2 web.v1"].map(entry));
    let (group, version, kind, plural) = provided("Site");
    let bundle = client.get_default_bundle_that_provides(api::GetDefaultProviderRequest { group, version, kind, plural }).await.unwrap();
    assert_eq!((bundle.get_ref().csv_name.as_str(), bundle.get_ref().channel_name.as_str()), ("web.v2", "stable"));
    let request = |csv: &str, channel: &str| api::GetReplacementRequest {
        csv_name: csv.to_owned(),
        pkg_name: "web".to_owned(),
        channel_name: channel.to_owned(),
    };
    for (csv, channel) in [("web.v1", "stable"), ("web.v0", "stable"), ("gone", "fast")] {
        let bundle = client.get_bundle_that_replaces(request(csv, channel)).await.unwrap().into_inner();
        assert_eq!((bundle.csv_name.as_str(), bundle.channel_name.as_str(), bundle.replaces.as_str()), ("web.v2", channel, ""));
    }
}

/// CATLG-42: every refusal has code UNKNOWN and upstream's words.
#[tokio::test]
async fn refusals() {
    let (mut client, _serving) = client().await;
    let get = |package: &str, channel: &str, csv: &str| api::GetBundleRequest {
        pkg_name: package.to_owned(),
        channel_name: channel.to_owned(),
        csv_name: csv.to_owned(),
    };
    assert_eq!(refusal(client.get_package(api::GetPackageRequest { name: "a\"b".to_owned() }).await), r#"package "a\"b" not found"#);
    assert_eq!(refusal(client.get_bundle(get("x", "y", "z")).await), r#"package "x" not found"#);
    assert_eq!(refusal(client.get_bundle(get("web", "y", "z")).await), r#"package "web", channel "y" not found"#);
    assert_eq!(
        refusal(client.get_bundle(get("web", "fast", "web.v1")).await),
        r#"package "web", channel "fast", bundle "web.v1" not found"#
    );
    let replaces = |package: &str, channel: &str, csv: &str| api::GetReplacementRequest {
        csv_name: csv.to_owned(),
        pkg_name: package.to_owned(),
        channel_name: channel.to_owned(),
    };
    assert_eq!(refusal(client.get_bundle_that_replaces(replaces("x", "y", "z")).await), "package x not found");
    assert_eq!(refusal(client.get_bundle_that_replaces(replaces("web", "y", "z")).await), r#"package "web", channel "y" not found"#);
    let answer = client.get_bundle_that_replaces(replaces("web", "fast", "z")).await;
    assert_eq!(refusal(answer), r#"no entry found for package "web", channel "fast""#);
    let answer = client.get_channel_entries_that_replace(api::GetAllReplacementsRequest { csv_name: "z".to_owned() }).await;
    assert_eq!(refusal(all(answer).await), "no channel entries found that replace z");
    let [group, version, kind, plural] = ["g", "v", "K", "ks"].map(str::to_owned);
    let none = r#"no channel entries found that provide group:"g" version:"v" kind:"K""#;
    let request = api::GetAllProvidersRequest { group: group.clone(), version: version.clone(), kind: kind.clone(), plural };
    assert_eq!(refusal(all(client.get_channel_entries_that_provide(request).await).await), none);
    let request =
        api::GetLatestProvidersRequest { group: group.clone(), version: version.clone(), kind: kind.clone(), ..Default::default() };
    assert_eq!(refusal(all(client.get_latest_channel_entries_that_provide(request).await).await), none);
    let request = api::GetDefaultProviderRequest { group, version, kind, ..Default::default() };
    assert_eq!(refusal(client.get_default_bundle_that_provides(request).await), none);
}

/// CATLG-44: custom schemas for who acknowledges that the method is experimental, nothing for others.
#[tokio::test]
async fn custom_schemas() {
    let serving = serve(&catalog()).await;
    let mut client = ExperimentalRegistryClient::new(serving.channel.clone());
    let request = |schema: &str, package: &str, acknowledged: bool| {
        let (schema, package_name) = (schema.to_owned(), package.to_owned());
        let mut request = Request::new(api::ExperimentalListPackageCustomSchemasRequest { schema, package_name });
        if acknowledged {
            request.metadata_mut().insert("x-acknowledge-experimental", "true".parse().unwrap());
        }
        request
    };
    let notes = "example.com/notes";
    let found = all(client.experimental_list_package_custom_schemas(request(notes, "web", true)).await).await.unwrap();
    assert_eq!(found.len(), 1);
    let stars = found[0].fields["stars"].kind.clone();
    assert_eq!(stars, Some(prost_types::value::Kind::NumberValue(5.0)));
    assert_eq!(found[0].fields.keys().collect::<Vec<_>>(), ["name", "of", "package", "schema", "stars"]);
    for (request, count) in [(request(notes, "", true), 1), (request(notes, "store", true), 0), (request(notes, "web", false), 0)] {
        assert_eq!(all(client.experimental_list_package_custom_schemas(request).await).await.unwrap().len(), count);
    }
    let status = client.experimental_list_package_custom_schemas(request("", "web", true)).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::InvalidArgument, "schema is required"));
}

/// CATLG-36: health says serving, whatever is asked about.
#[tokio::test]
async fn health() {
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_check_response::ServingStatus;
    use tonic_health::pb::health_client::HealthClient;
    let serving = serve(&catalog()).await;
    let mut client = HealthClient::new(serving.channel.clone());
    for service in ["", "api.Registry", "anything"] {
        let answer = client.check(HealthCheckRequest { service: service.to_owned() }).await.unwrap();
        assert_eq!(answer.into_inner().status(), ServingStatus::Serving);
    }
    let status = client.watch(HealthCheckRequest { service: String::new() }).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unimplemented, "method Watch not implemented"));
}

/// CATLG-43: both forms of reflection name the services.
#[tokio::test]
async fn reflection() {
    macro_rules! services {
        ($form:ident, $channel:expr) => {{
            use tonic_reflection::pb::$form::ServerReflectionRequest;
            use tonic_reflection::pb::$form::server_reflection_client::ServerReflectionClient;
            use tonic_reflection::pb::$form::server_reflection_request::MessageRequest;
            use tonic_reflection::pb::$form::server_reflection_response::MessageResponse;
            let ask = ServerReflectionRequest { host: String::new(), message_request: Some(MessageRequest::ListServices(String::new())) };
            let answer = ServerReflectionClient::new($channel).server_reflection_info(futures::stream::iter([ask])).await;
            let answers = all(answer).await.unwrap();
            let Some(MessageResponse::ListServicesResponse(list)) = answers[0].message_response.clone() else { panic!("{answers:?}") };
            let mut names: Vec<String> = list.service.into_iter().map(|service| service.name).collect();
            names.sort();
            names
        }};
    }
    let serving = serve(&catalog()).await;
    let expected = [
        "api.ExperimentalRegistry",
        "api.Registry",
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
    ];
    assert_eq!(services!(v1, serving.channel.clone()), expected);
    assert_eq!(services!(v1alpha, serving.channel.clone()), expected);
}

/// CATLG-36: the end waits for nothing when nothing is asked, and the port is free afterwards.
#[tokio::test]
async fn ends_when_told() {
    let serving = serve(&catalog()).await;
    serving.stop.cancel();
    serving.ended.await.unwrap().unwrap();
}

/// Names, numbers, types and streams of everything in a description, without order and comments.
fn shape(set: &FileDescriptorSet) -> Vec<String> {
    let file = set.file.iter().find(|file| file.package() == "api").unwrap();
    let mut lines = Vec::new();
    for message in &file.message_type {
        lines.push(message.name().to_owned());
        for field in &message.field {
            let (kind, label) = (field.r#type(), field.label());
            lines.push(format!("{}.{}={} {kind:?} {label:?} {}", message.name(), field.name(), field.number(), field.type_name()));
        }
    }
    for service in &file.service {
        for method in &service.method {
            let (input, output, streams) =
                (method.input_type(), method.output_type(), (method.client_streaming(), method.server_streaming()));
            lines.push(format!("{}.{} {input} {output} {streams:?}", service.name(), method.name()));
        }
    }
    lines.sort();
    lines
}

/// CATLG-38, CATLG-39, CATLG-40: on the wire, our description of the API is the one that OLM's clients were made from.
#[test]
fn same_as_the_published_description() {
    let Some(published) = mainstay_testing::data::path("api-definitions") else { return };
    let published = protox::compile(["registry.proto"], [published]).unwrap();
    let ours = FileDescriptorSet::decode(DESCRIPTORS).unwrap();
    assert_eq!(shape(&ours), shape(&published));
}
