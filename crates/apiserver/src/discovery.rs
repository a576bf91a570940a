//! Discovery and OpenAPI documents (KAPI-DISC-01, -02): built-in facts plus what the snapshot serves.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use http::{HeaderValue, StatusCode, header};
use mainstay_kinds::{discovery, openapi, registry};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha512};

use crate::aggregation::{Aggregation, Placed, RemoteApi, merge_groups, merge_v2};
use crate::error::{ApiError, Result};
use crate::object_store::ObjectStore;
use crate::processor::Weight;
use crate::request::ApiRequest;
use crate::request::negotiate::{self, Format, Shape};
use crate::respond::{Answer, AnswerBody, Document, plain};
use crate::served::{Served, Snapshot};

/// Documents that are costly to make, kept until another snapshot is served: the small ones for good, the large ones while they are
/// asked for. Whoever is sent one shares its bytes with all others.
#[derive(Default)]
pub struct Documents {
    made: Mutex<(u64, BTreeMap<String, Kept>)>,
    /// Held while one is made: it is made once, whoever asks meanwhile, and one at a time.
    making: Mutex<()>,
}

/// A document that was made.
#[derive(Clone)]
enum Kept {
    Small(Arc<Document>),
    Large(Weak<Document>),
}

/// A document up to this size is kept for good.
const SMALL: usize = 64 * 1024;
/// The time for which a large one is kept after it was made: clients that begin together ask for the same.
const KEPT: Duration = Duration::from_secs(30);

impl Documents {
    fn find(&self, snapshot: &Snapshot, name: &str) -> Option<Arc<Document>> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.0 != snapshot.generation {
            *made = (snapshot.generation, BTreeMap::new());
        }
        match made.1.get(name)? {
            Kept::Small(document) => Some(document.clone()),
            Kept::Large(document) => document.upgrade(),
        }
    }

    async fn get(&self, weight: &Weight, snapshot: &Snapshot, name: &str, make: impl FnOnce() -> Result<Vec<u8>>) -> Result<Arc<Document>> {
        if let Some(document) = self.find(snapshot, name) {
            return Ok(document);
        }
        // The turn first: nobody waits for the lock while its holder waits for a turn.
        weight.long().await;
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(document) = self.find(snapshot, name) {
            return Ok(document);
        }
        let body = make()?;
        let hash = hex(&Sha512::digest(&body));
        let document = Arc::new(Document::new(body.into(), hash));
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.0 == snapshot.generation {
            let kept = if document.body.len() < SMALL {
                Kept::Small(document.clone())
            } else {
                let held = document.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(KEPT).await;
                    drop(held);
                });
                Kept::Large(Arc::downgrade(&document))
            };
            made.1.insert(name.to_owned(), kept);
        }
        Ok(document)
    }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    bytes.iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]).map(char::from).collect()
}

/// The parts of the server that its own description is made of.
pub struct Discovery<'a> {
    /// The resources that are served.
    pub objects: &'a ObjectStore,
    /// The API servers behind this one.
    pub aggregation: &'a Aggregation,
    /// The documents that were made.
    pub documents: &'a Documents,
    /// The weight of the request that asks: documents take long to make.
    pub weight: &'a Weight,
}

/// `/api`.
pub fn api(request: &ApiRequest) -> Answer {
    if request.agreed.shape == Shape::Discovery {
        let groups: Vec<Value> = registry().group("").map(discovery::aggregated_group).into_iter().collect();
        return aggregated(request, &groups);
    }
    let mut versions = json!({"kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:443"}]});
    if request.agreed.format == Format::Protobuf {
        // The one document that names no version of itself in JSON.
        versions["apiVersion"] = "v1".into();
    }
    plain(request, StatusCode::OK, &versions)
}

/// `/apis`.
pub fn apis(request: &ApiRequest, discovery: &Discovery<'_>) -> Answer {
    let snapshot = discovery.objects.served();
    let aggregation = discovery.aggregation;
    if request.agreed.shape == Shape::Discovery {
        let built_in = built_in_groups().map(|group| placed(&group.name, discovery::aggregated_group(group)));
        let custom = snapshot.custom_groups.iter().map(|(name, versions)| placed(name, aggregated_custom(&snapshot, name, versions)));
        let mut groups: Vec<Placed> = built_in.chain(custom).collect();
        let group = |name: &str, versions| json!({"metadata": {"name": name, "creationTimestamp": null}, "versions": versions});
        merge_groups(&mut groups, &aggregation.index(), |remote| aggregation.shown(remote), group);
        return aggregated(request, &groups.into_iter().map(|group| group.shown).collect::<Vec<_>>());
    }
    let built_in = built_in_groups().map(|group| placed(&group.name, discovery::api_group(group)));
    let custom = snapshot.custom_groups.iter().map(|(name, versions)| placed(name, custom_group(name, versions)));
    let mut groups: Vec<Placed> = built_in.chain(custom).collect();
    merge_groups(&mut groups, &aggregation.index(), remote_version, group_of);
    let groups: Vec<Value> = groups.into_iter().map(|group| group.shown).collect();
    plain(request, StatusCode::OK, &json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
}

fn placed(name: &str, shown: Value) -> Placed {
    Placed { name: name.to_owned(), priority: crate::apiservices::group_priority(name), shown }
}

/// A version of another API server, as `/apis` lists it.
fn remote_version(remote: &RemoteApi) -> Value {
    json!({"groupVersion": format!("{}/{}", remote.group, remote.version), "version": remote.version})
}

/// A group with these versions, the preferred first.
#[allow(clippy::needless_pass_by_value, reason = "the shape that groups are merged by")]
fn group_of(name: &str, versions: Vec<Value>) -> Value {
    json!({"name": name, "preferredVersion": versions.first(), "versions": versions})
}

fn built_in_groups() -> impl Iterator<Item = &'static mainstay_kinds::Group> {
    registry().groups().iter().filter(|group| !group.name.is_empty())
}

fn custom_group(name: &str, versions: &[String]) -> Value {
    let version = |version: &String| json!({"groupVersion": format!("{name}/{version}"), "version": version});
    json!({"name": name, "versions": versions.iter().map(version).collect::<Vec<_>>(), "preferredVersion": versions.first().map(version)})
}

fn custom_of<'a>(snapshot: &'a Snapshot, group: &'a str, version: &'a str) -> impl Iterator<Item = &'a Arc<Served>> {
    snapshot.custom.iter().filter(move |((one, of, _), _)| one == group && of == version).map(|(_, served)| served)
}

fn aggregated_custom(snapshot: &Snapshot, name: &str, versions: &[String]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| {
            let resources: Vec<Value> = custom_of(snapshot, name, version)
                .map(|served| {
                    let mut resource = discovery::aggregated_resource(&served.facts);
                    // Custom resources name their group and version, built-in ones leave it out.
                    let kind = json!({"group": name, "version": version, "kind": served.facts.kind});
                    resource["responseKind"] = kind.clone();
                    for sub in resource["subresources"].as_array_mut().into_iter().flatten() {
                        if sub["responseKind"]["version"] == "" {
                            sub["responseKind"] = kind.clone();
                        }
                    }
                    resource
                })
                .collect();
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    json!({"metadata": {"name": name, "creationTimestamp": null}, "versions": versions})
}

fn aggregated(request: &ApiRequest, groups: &[Value]) -> Answer {
    let list = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": groups});
    let body = request.agreed.format.write(&list);
    let hash = hex(&Sha512::digest(&body));
    let content_type = match request.agreed.format {
        Format::Yaml => "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        _ => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    };
    tagged(request, &hash, Answer::bytes(StatusCode::OK, content_type, body))
}

/// Adds an ETag; 304 when the client has this document already.
fn tagged(request: &ApiRequest, hash: &str, mut answer: Answer) -> Answer {
    let tag = format!("\"{hash}\"");
    if negotiate::text(&request.headers, header::IF_NONE_MATCH) == tag {
        answer = Answer::bytes(StatusCode::NOT_MODIFIED, "", "");
    }
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        answer.headers.push((header::ETAG, tag));
    }
    answer.headers.push((header::VARY, HeaderValue::from_static("Accept")));
    answer
}

/// `/apis/GROUP`.
pub fn group(request: &ApiRequest, discovery: &Discovery<'_>, name: &str) -> Result<Answer> {
    let snapshot = discovery.objects.served();
    let aggregation = discovery.aggregation;
    let built_in = built_in_groups().find(|group| group.name == name).map(discovery::api_group);
    let known = built_in.or_else(|| snapshot.custom_groups.get(name).map(|versions| custom_group(name, versions)));
    let mut groups: Vec<Placed> = known.map(|shown| placed(name, shown)).into_iter().collect();
    merge_groups(&mut groups, &aggregation.index(), remote_version, group_of);
    let found = groups.into_iter().find(|group| group.name == name);
    let mut group = found.ok_or_else(ApiError::page_not_found)?.shown;
    group["kind"] = "APIGroup".into();
    group["apiVersion"] = "v1".into();
    Ok(plain(request, StatusCode::OK, &group))
}

/// `/api/v1` and `/apis/GROUP/VERSION`.
pub fn resources(request: &ApiRequest, discovery: &Discovery<'_>, group: &str, version: &str) -> Result<Answer> {
    if let Some(list) = discovery::api_resource_list(group, version) {
        return Ok(plain(request, StatusCode::OK, &list));
    }
    let snapshot = discovery.objects.served();
    if !snapshot.custom_groups.get(group).is_some_and(|versions| versions.iter().any(|one| one == version)) {
        let known = group.is_empty() || registry().group(group).is_some();
        return Err(if known { ApiError::no_such_resource() } else { ApiError::page_not_found() });
    }
    let resources: Vec<Value> = custom_of(&snapshot, group, version).flat_map(|served| discovery::api_resources(&served.facts)).collect();
    let list = json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{group}/{version}"), "resources": resources});
    Ok(plain(request, StatusCode::OK, &list))
}

/// `/openapi/v3`: where the documents are.
pub async fn openapi_index(request: &ApiRequest, discovery: &Discovery<'_>) -> Answer {
    let Discovery { objects, aggregation, documents, weight } = discovery;
    let snapshot = objects.served();
    let mut paths = Map::new();
    let mut names = openapi::v3_paths();
    names.extend(
        snapshot.custom_groups.iter().flat_map(|(group, versions)| versions.iter().map(move |version| format!("apis/{group}/{version}"))),
    );
    for name in names {
        // The hash stands for the content: built-in documents change with the program, others with their CRDs.
        let content = if openapi::v3_paths().contains(&name) {
            env!("CARGO_PKG_VERSION").to_owned()
        } else {
            let made = documents.get(weight, &snapshot, &name, || json_text(custom_document(&snapshot, &name))).await;
            made.map(|document| document.hash.clone()).unwrap_or_default()
        };
        let hash = hex(&Sha512::digest(format!("{name} {content}").as_bytes()));
        paths.insert(name.clone(), json!({"serverRelativeURL": format!("/openapi/v3/{name}?hash={hash}")}));
    }
    for remote in aggregation.index().values() {
        let path = format!("apis/{}/{}", remote.group, remote.version);
        match aggregation.documents(&remote.name).and_then(|documents| documents.v3.clone()) {
            Some(url) => paths.insert(path, json!({"serverRelativeURL": url})),
            None => paths.remove(&path),
        };
    }
    let body = serde_json::to_vec(&json!({"paths": paths})).unwrap_or_default();
    let hash = hex(&Sha512::digest(&body));
    tagged(request, &hash, Answer::bytes(StatusCode::OK, "text/plain; charset=utf-8", body))
}

/// `/openapi/v3/PATH`.
pub async fn openapi_v3(request: &ApiRequest, discovery: &Discovery<'_>, path: &str) -> Result<Answer> {
    let Discovery { objects, documents, weight, .. } = discovery;
    let snapshot = objects.served();
    let make = || json_text(openapi::v3(path).or_else(|| custom_document(&snapshot, path)));
    let document = documents.get(weight, &snapshot, path, make).await?;
    Ok(tagged(request, &document.hash, shared("application/json", &document)))
}

/// A document whose bytes all who ask for it share.
fn shared(content_type: &'static str, document: &Arc<Document>) -> Answer {
    Answer { status: StatusCode::OK, headers: Vec::new(), content_type, body: AnswerBody::Shared(document.clone()) }
}

/// The text of a document that there is.
fn json_text(document: Option<Value>) -> Result<Vec<u8>> {
    let document = document.ok_or_else(ApiError::page_not_found)?;
    serde_json::to_vec(&document).map_err(|error| ApiError::internal(error.to_string()))
}

/// `/openapi/v2`: JSON, or protobuf for clients that ask for it.
pub async fn openapi_v2(request: &ApiRequest, discovery: &Discovery<'_>) -> Result<Answer> {
    let Discovery { objects, aggregation, documents, weight } = discovery;
    let snapshot = objects.served();
    let make = || {
        let mut document = openapi::v2();
        for served in snapshot.custom.values() {
            crate::crd::openapi::add_v2(&mut document, served);
        }
        let index = aggregation.index();
        let others: Vec<_> = index.values().filter_map(|remote| aggregation.documents(&remote.name)).collect();
        merge_v2(&mut document, &others);
        document
    };
    let (name, content_type) = if negotiate::openapi_v2_as_protobuf(&request.headers)? {
        ("v2 as protobuf", mainstay_protobuf::OPENAPI_V2_MEDIA_TYPE)
    } else {
        ("v2", "application/json")
    };
    let text = || {
        if content_type == "application/json" {
            return json_text(Some(make()));
        }
        mainstay_protobuf::encode_openapi_v2(&make())
            .map_err(|error| ApiError::internal(format!("the document cannot be encoded as protobuf: {error}")))
    };
    let document = documents.get(weight, &snapshot, name, text).await?;
    Ok(tagged(request, &document.hash, shared(content_type, &document)))
}

fn custom_document(snapshot: &Snapshot, path: &str) -> Option<Value> {
    let (group, version) = path.strip_prefix("apis/")?.split_once('/')?;
    crate::crd::openapi::document(custom_of(snapshot, group, version).map(|served| &**served))
}
