//! The aggregated API, as users of an embedded cluster see it.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use mainstay_apiserver::remote::LocalService;
use mainstay_catalog_store::{SourceContents, StoredCatalog};
use mainstay_package_server::{ACCOUNT, API_VERSION, Listener, NAMESPACE, SERVICE, Setup, manifests, run};
use mainstay_rbac::UserInfo;
use mainstay_runtime::{Cluster, Env};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{Api, holds, place, stored};

pub const MARKET: &str = "openshift-marketplace";
const PATH: &str = "/apis/packages.operators.coreos.com/v1";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";

fn package_server(extensions: &mut axum::http::Extensions) {
    let user = UserInfo::service_account(NAMESPACE, ACCOUNT);
    extensions.insert(mainstay_apiserver::TrustedIdentity(std::sync::Arc::new(user)));
}

/// A catalog with one package of two channels; `mark` makes it another one.
pub fn catalog(digit: char, package: &str, mark: &str) -> (StoredCatalog, tempfile::TempDir) {
    let bundle = |version: &str, name: &str| {
        let csv = json!({
            "kind": "ClusterServiceVersion", "apiVersion": "operators.coreos.com/v1alpha1",
            "metadata": {"name": name, "labels": {"operatorframework.io/arch.arm64": "supported", "mark": mark}},
            "spec": {"displayName": "Web", "version": version, "provider": {"name": "Example", "url": "https://example.com"},
                "installModes": [{"type": "AllNamespaces", "supported": true}],
                "icon": [{"base64data": STANDARD.encode("<svg/>"), "mediatype": "image/svg+xml"}], "install": {"strategy": "deployment"}},
        });
        json!({
            "schema": "olm.bundle", "package": package, "name": name, "image": format!("quay.io/example/{name}"),
            "properties": [
                {"type": "olm.package", "value": {"packageName": package, "version": version}},
                {"type": "olm.bundle.object", "value": {"data": STANDARD.encode(csv.to_string())}},
            ],
        })
    };
    let (old, new) = (format!("{package}.v1.9.0"), format!("{package}.v1.10.0"));
    let blobs = [
        json!({"schema": "olm.package", "name": package, "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": package, "name": "stable", "entries": [{"name": old}, {"name": new, "replaces": old}]}),
        json!({"schema": "olm.channel", "package": package, "name": "fast", "entries": [{"name": new}]}),
        bundle("1.9.0", &old),
        bundle("1.10.0", &new),
        json!({"schema": "olm.deprecations", "package": package, "entries": [
            {"reference": {"schema": "olm.channel", "name": "fast"}, "message": "too fast"},
            {"reference": {"schema": "olm.bundle", "name": old}, "message": "too old"}]}),
    ];
    stored(digit, &[("catalog.json".to_owned(), blobs.iter().map(Value::to_string).collect::<Vec<_>>().join("\n"))])
}

pub struct World {
    pub api: Api,
    pub contents: SourceContents,
    stop: CancellationToken,
}

impl World {
    pub async fn start() -> Self {
        let api = Api::start().await;
        for object in manifests() {
            api.apply(&object).await;
        }
        for namespace in [MARKET, "team", "other"] {
            api.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})).await;
        }
        let world = Self { api, contents: SourceContents::default(), stop: CancellationToken::new() };
        world.serve().await;
        let service = place("apiregistration.k8s.io/v1", "APIService", "", "v1.packages.operators.coreos.com");
        world.api.until(&service, |service| holds(service, "Available")).await;
        world
    }

    /// Starts a package server, as a process that begins would.
    async fn serve(&self) {
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.address().to_string().parse().unwrap();
        self.api.server.serve_locally(LocalService { namespace: NAMESPACE.to_owned(), name: SERVICE.to_owned(), address });
        let cluster = Cluster::Embedded { router: self.api.server.router(), identity: package_server };
        let setup = Setup {
            contents: self.contents.clone(),
            global_namespace: MARKET.to_owned(),
            listener,
            selector: mainstay_objects::Labels::new(),
            endpoint: None,
        };
        let stop = self.stop.clone();
        tokio::spawn(async move { run(cluster, Env::system(), setup, stop).await.unwrap() });
    }

    pub async fn source(&self, namespace: &str, name: &str, priority: i64) {
        let source = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": {"name": name, "namespace": namespace, "labels": {"tier": name}},
            "spec": {"sourceType": "grpc", "image": "x", "displayName": format!("The {name}"), "publisher": "Us", "priority": priority},
        });
        self.api.apply(&source).await;
    }

    async fn permit(&self, user: &str, namespace: &str) {
        let rules = json!([{"apiGroups": ["packages.operators.coreos.com"], "resources": ["packagemanifests", "packagemanifests/icon"],
            "verbs": ["get", "list", "watch", "create", "delete"]}]);
        let name = format!("reader-{user}");
        let object = |kind: &str, body: Value| {
            let mut object =
                json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}});
            object.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
            object
        };
        self.api.apply(&object("Role", json!({"rules": rules}))).await;
        let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name});
        let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user});
        self.api.apply(&object("RoleBinding", json!({"roleRef": reference, "subjects": [subject]}))).await;
    }

    /// The packages that a path lists, as `catalog/package`, once there are so many.
    pub async fn listed(&self, path: &str, count: usize) -> Vec<String> {
        for _ in 0..1000 {
            let list = self.api.json("admin", path).await;
            let items = list["items"].as_array().unwrap();
            if items.len() == count {
                let text = |value: &Value| value.as_str().unwrap().to_owned();
                return items
                    .iter()
                    .map(|item| format!("{}/{}", text(&item["status"]["catalogSource"]), text(&item["metadata"]["name"])))
                    .collect();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{path} never has {count} packages");
    }

    pub async fn end(self) {
        self.stop.cancel();
        self.api.end().await;
    }
}

/// OLM0-API-27, OLM0-API-28, OLM0-API-29, OLM0-API-30, OLM0-API-31, OLM0-CAT-02, OLM0-TENANT-08: a namespace sees its own catalogs and the global ones,
/// by their content of now.
#[tokio::test(flavor = "multi_thread")]
async fn packages_of_catalogs() {
    let world = World::start().await;
    let (web, _a) = catalog('a', "web", "one");
    let (own, _b) = catalog('b', "web", "two");
    let (more, _c) = catalog('c', "more", "three");
    for (namespace, name, priority, content) in [(MARKET, "global", 0, &web), ("team", "curated", 5, &own), ("other", "hidden", 0, &more)] {
        world.source(namespace, name, priority).await;
        world.contents.set(namespace, name, Some(content.clone()));
    }
    let team = format!("{PATH}/namespaces/team/packagemanifests");
    assert_eq!(world.listed(&format!("{PATH}/packagemanifests"), 3).await, ["hidden/more", "curated/web", "global/web"]);
    assert_eq!(world.listed(&team, 2).await, ["curated/web", "global/web"]);
    assert_eq!(world.listed(&format!("{PATH}/namespaces/{MARKET}/packagemanifests"), 1).await, ["global/web"]);

    let web = world.api.json("admin", &format!("{team}/web")).await;
    assert_eq!((&web["kind"], &web["apiVersion"]), (&"PackageManifest".into(), &API_VERSION.into()));
    assert_eq!(web["metadata"]["namespace"], "team");
    assert!(web["metadata"]["creationTimestamp"].is_string());
    let wanted = json!({
        "catalog": "curated", "catalog-namespace": "team", "tier": "curated", "mark": "two", "provider": "Example",
        "provider-url": "https://example.com", "operatorframework.io/os.linux": "supported", "operatorframework.io/arch.arm64": "supported",
    });
    assert_eq!(web["metadata"]["labels"], wanted);
    let status = &web["status"];
    assert_eq!((&status["catalogSourceDisplayName"], &status["catalogSourcePublisher"]), (&"The curated".into(), &"Us".into()));
    assert_eq!((&status["defaultChannel"], &status["packageName"]), (&"stable".into(), &"web".into()));
    let names: Vec<&Value> = status["channels"].as_array().unwrap().iter().map(|channel| &channel["name"]).collect();
    assert_eq!(names, ["fast", "stable"]);
    assert_eq!(status["channels"][0]["deprecation"], json!({"message": "too fast"}));
    assert_eq!(status["channels"][1]["currentCSV"], "web.v1.10.0");
    let entries = json!([{"name": "web.v1.10.0", "version": "1.10.0"}, {"name": "web.v1.9.0", "version": "1.9.0", "deprecation": {"message": "too old"}}]);
    assert_eq!(status["channels"][1]["entries"], entries);

    for (query, found) in [
        ("labelSelector=catalog%3Dglobal&fieldSelector=metadata.name%3Dweb", 1),
        ("labelSelector=mark%20in%20(two,three)", 1),
        ("labelSelector=!tier", 0),
        ("fieldSelector=metadata.namespace%3Dteam", 2),
        ("fieldSelector=metadata.name!%3Dweb", 0),
        ("limit=500&resourceVersion=0", 2),
    ] {
        assert_eq!(world.api.json("admin", &format!("{team}?{query}")).await["items"].as_array().unwrap().len(), found, "{query}");
    }

    // Newer content takes the place of older content.
    let (newer, _d) = catalog('d', "web", "newer");
    world.contents.set("team", "curated", Some(newer));
    for round in 0.. {
        let web = world.api.json("admin", &format!("{team}/web")).await;
        assert_eq!(web["metadata"]["labels"]["catalog"], "curated", "never absent in between");
        if web["metadata"]["labels"]["mark"] == "newer" {
            break;
        }
        assert!(round < 1000, "{web}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }

    // A source without content, and one that is deleted, take their packages along.
    world.contents.set("other", "hidden", None);
    world
        .api
        .admin
        .delete(
            &place("operators.coreos.com/v1alpha1", "CatalogSource", "team", "curated"),
            &mainstay_objects::Expect::default(),
            mainstay_objects::Propagation::Background,
        )
        .await
        .unwrap();
    assert_eq!(world.listed(&format!("{PATH}/packagemanifests"), 1).await, ["global/web"]);
    world.end().await;
}

/// OLM0-API-03, OLM0-API-27, OLM0-API-29, OLM0-API-31, OLM0-USER-04: forms of answers, refusals in Kubernetes' words, pictures, and who may ask.
#[tokio::test(flavor = "multi_thread")]
async fn answers() {
    let world = World::start().await;
    let (web, _a) = catalog('a', "web", "one");
    world.source(MARKET, "global", 0).await;
    world.contents.set(MARKET, "global", Some(web));
    let team = format!("{PATH}/namespaces/team/packagemanifests");
    world.listed(&team, 1).await;
    world.permit("ann", "team").await;

    let table = world.api.send("ann", "GET", &team, &[("accept", TABLE)]).await.json();
    let columns: Vec<&Value> = table["columnDefinitions"].as_array().unwrap().iter().map(|column| &column["name"]).collect();
    assert_eq!((&table["kind"], columns), (&"Table".into(), vec![&Value::from("Name"), &"Catalog".into(), &"Age".into()]));
    let row = &table["rows"][0];
    assert_eq!((&row["cells"][0], &row["cells"][1]), (&"web".into(), &"The global".into()));
    assert!(row["cells"][2].as_str().unwrap().ends_with('s'), "{row}");
    assert_eq!(row["object"]["kind"], "PartialObjectMetadata");

    for (user, method, path, code, message) in [
        ("ann", "GET", format!("{team}/absent"), 404, "packagemanifests.packages.operators.coreos.com \"absent\" not found"),
        (
            "ann",
            "GET",
            format!("{team}?fieldSelector=spec.x%3D1"),
            400,
            "\"spec.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        ),
        (
            "ann",
            "GET",
            format!("{team}?watch=1"),
            405,
            "watch is not supported on resources of kind \"packagemanifests.packages.operators.coreos.com\"",
        ),
        ("ann", "POST", team.clone(), 405, "the server does not allow this method on the requested resource"),
        ("ann", "DELETE", format!("{team}/web"), 405, "the server does not allow this method on the requested resource"),
        (
            "bob",
            "GET",
            team.clone(),
            403,
            "packagemanifests.packages.operators.coreos.com is forbidden: User \"bob\" cannot list resource \"packagemanifests\" in API group \"packages.operators.coreos.com\" in the namespace \"team\"",
        ),
        (
            "ann",
            "GET",
            format!("{PATH}/packagemanifests"),
            403,
            "packagemanifests.packages.operators.coreos.com is forbidden: User \"ann\" cannot list resource \"packagemanifests\" in API group \"packages.operators.coreos.com\" at the cluster scope",
        ),
    ] {
        let reply = world.api.send(user, method, &path, &[]).await;
        let status = reply.json();
        assert_eq!(
            (reply.status.as_u16(), &status["kind"], &status["message"]),
            (code, &"Status".into(), &message.into()),
            "{method} {path}"
        );
    }

    // As upstream's, the list is whole even if a part is asked for, and says that nothing follows.
    let (lamps, _b) = catalog('b', "lamps", "one");
    world.source(MARKET, "second", 0).await;
    world.contents.set(MARKET, "second", Some(lamps));
    world.listed(&team, 2).await;
    let part = world.api.json("ann", &format!("{team}?limit=1")).await;
    assert_eq!((part["items"].as_array().unwrap().len(), &part["metadata"]), (2, &json!({})));

    let icon = world.api.send("ann", "GET", &format!("{team}/web/icon"), &[]).await;
    assert_eq!((icon.status, icon.body.as_slice()), (StatusCode::OK, b"<svg/>".as_slice()));
    assert_eq!(icon.headers["content-type"], "image/svg+xml");
    let tag = icon.headers["etag"].to_str().unwrap();
    assert_eq!(tag, "\"web.stable.web.v1.10.0\"");
    let known = world.api.send("ann", "GET", &format!("{team}/web/icon"), &[("if-none-match", tag)]).await;
    assert_eq!((known.status, known.body.len()), (StatusCode::NOT_MODIFIED, 0));
    let changed = world.api.send("ann", "GET", &format!("{team}/web/icon"), &[("if-none-match", "\"web.stable.web.v1.9.0\"")]).await;
    assert_eq!(changed.status, StatusCode::OK);
    assert_eq!(world.api.send("ann", "GET", &format!("{team}/absent/icon"), &[]).await.status, StatusCode::NOT_FOUND);

    let resources = world.api.json("ann", PATH).await;
    assert_eq!(resources["resources"][0]["verbs"], json!(["get", "list"]));
    for _ in 0..500 {
        let index = world.api.json("admin", "/openapi/v3").await;
        if index["paths"]["apis/packages.operators.coreos.com/v1"].is_object() {
            let model = world.api.json("admin", &format!("/openapi/v3{PATH}")).await;
            let schema = &model["components"]["schemas"]["com.coreos.operators.packages.v1.PackageManifest"];
            assert_eq!(schema["x-kubernetes-group-version-kind"][0]["kind"], "PackageManifest");
            world.end().await;
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the API server does not show the OpenAPI document");
}

/// OLM0-API-27: a package server that begins again, with another address and another certificate, serves as before; an APIService that is
/// deleted comes back.
#[tokio::test(flavor = "multi_thread")]
async fn it_begins_again() {
    let mut world = World::start().await;
    let (web, _a) = catalog('a', "web", "one");
    world.source(MARKET, "global", 0).await;
    world.contents.set(MARKET, "global", Some(web));
    let all = format!("{PATH}/packagemanifests");
    world.listed(&all, 1).await;
    let service = place("apiregistration.k8s.io/v1", "APIService", "", "v1.packages.operators.coreos.com");
    let before = world.api.admin.get(&service).await.unwrap().unwrap();
    world.stop.cancel();
    world.stop = CancellationToken::new();
    world.serve().await;
    world.api.until(&service, |now| now["spec"]["caBundle"] != before["spec"]["caBundle"] && holds(now, "Available")).await;
    for round in 0.. {
        let reply = world.api.send("admin", "GET", &all, &[]).await;
        if reply.status.is_success() && reply.json()["items"].as_array().unwrap().len() == 1 {
            break;
        }
        assert!(round < 500, "{}", String::from_utf8_lossy(&reply.body));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let none = mainstay_objects::Expect::default();
    world.api.admin.delete(&service, &none, mainstay_objects::Propagation::Background).await.unwrap();
    world.api.until(&service, |service| holds(service, "Available")).await;
    world.end().await;
}

/// OLM0-API-27: a client that is not the front proxy is refused, also with headers that name a user; probes need no identity.
#[tokio::test(flavor = "multi_thread")]
async fn only_the_front_proxy_is_believed() {
    let world = World::start().await;
    let service = world.api.server.api().remotes.local(NAMESPACE, SERVICE).unwrap();
    let connector = rustls_client();
    let ask = |path: &'static str| {
        let (connector, address) = (connector.clone(), service.address.to_string());
        async move {
            use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
            let tcp = tokio::net::TcpStream::connect(address).await.unwrap();
            let mut tls = connector.connect("localhost".try_into().unwrap(), tcp).await.unwrap();
            let head = format!(
                "GET {path} HTTP/1.1\r\nhost: localhost\r\nx-remote-user: admin\r\nx-remote-group: system:masters\r\nconnection: close\r\n\r\n"
            );
            tls.write_all(head.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            // A server that ends the connection without a goodbye has still answered.
            let _ = tls.read_to_end(&mut answer).await;
            String::from_utf8_lossy(&answer).into_owned()
        }
    };
    let refused = ask("/apis/packages.operators.coreos.com/v1/packagemanifests").await;
    assert!(refused.starts_with("HTTP/1.1 401") && refused.contains("\"reason\":\"Unauthorized\""), "{refused}");
    assert!(ask("/healthz").await.starts_with("HTTP/1.1 200"));
    world.end().await;
}

/// A TLS client without a certificate, for which any server will do.
fn rustls_client() -> tokio_rustls::TlsConnector {
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    #[derive(Debug)]
    struct Any;
    impl ServerCertVerifier for Any {
        fn verify_server_cert(
            &self,
            _: &rustls::pki_types::CertificateDer<'_>,
            _: &[rustls::pki_types::CertificateDer<'_>],
            _: &rustls::pki_types::ServerName<'_>,
            _: &[u8],
            _: rustls::pki_types::UnixTime,
        ) -> Result<ServerCertVerified, rustls::Error> {
            Ok(ServerCertVerified::assertion())
        }
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &rustls::pki_types::CertificateDer<'_>,
            _: &rustls::DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Ok(HandshakeSignatureValid::assertion())
        }
        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &rustls::pki_types::CertificateDer<'_>,
            _: &rustls::DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Ok(HandshakeSignatureValid::assertion())
        }
        fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
            rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
        }
    }
    let config =
        rustls::ClientConfig::builder().dangerous().with_custom_certificate_verifier(std::sync::Arc::new(Any)).with_no_client_auth();
    tokio_rustls::TlsConnector::from(std::sync::Arc::new(config))
}
