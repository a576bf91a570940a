//! The ClusterCatalog controller against a registry and the real API, and what it serves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::too_many_lines)]

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response, header};
use mainstay_oci::ClientConfig;
use mainstay_oci::registry::{Access, Options, Registry};
use mainstay_olm_v1_core::gates::{FeatureGates, Profile};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::support::{Api, catalog, catalog_image, catalog_object, catalog_text, condition, registry, setup};

/// The API, a registry, and the controllers.
struct World {
    api: Api,
    registry: Registry,
    address: String,
    registry_stop: CancellationToken,
    stop: CancellationToken,
    router: Router,
    running: tokio::task::JoinHandle<()>,
}

impl World {
    async fn start() -> Self {
        let api = Api::start().await;
        let registry_stop = CancellationToken::new();
        let (registry, address) = registry(Options::default(), &registry_stop).await;
        let (stop, router, running) = run(&api);
        Self { api, registry, address, registry_stop, stop, router, running }
    }

    async fn push(&self, name: &str, text: &str) -> mainstay_oci::Image {
        self.api.push(ClientConfig::default(), &format!("{}/{name}", self.address), catalog_image(text)).await
    }

    /// Waits until `Progressing` has this reason for the current generation.
    async fn progress(&self, name: &str, reason: &str) -> Value {
        self.api
            .until(&catalog(name), |object| {
                let progressing = condition(object, "Progressing");
                progressing["reason"] == reason && progressing["observedGeneration"] == object["metadata"]["generation"]
            })
            .await
    }

    /// Changes the spec, so that the tag is looked at now.
    async fn poll(&self, name: &str, minutes: u32) {
        let patch = json!({"spec": {"source": {"image": {"pollIntervalMinutes": minutes}}}});
        self.api.admin.patch(&catalog(name), "", &mainstay_objects::Patch::Merge(patch)).await.unwrap();
    }

    async fn get(&self, path: &str) -> (u16, String) {
        text(ask(&self.router, "GET", path, &[]).await).await
    }

    async fn restart(&mut self) {
        self.stop.cancel();
        (&mut self.running).await.unwrap();
        (self.stop, self.router, self.running) = run(&self.api);
    }

    async fn end(self) {
        self.stop.cancel();
        self.registry_stop.cancel();
        self.running.await.unwrap();
        self.api.close().await;
    }
}

fn run(api: &Api) -> (CancellationToken, Router, tokio::task::JoinHandle<()>) {
    let stop = CancellationToken::new();
    let ready = setup(api, api.server.router()).open().unwrap();
    let router = ready.router.clone();
    (stop.clone(), router, tokio::spawn(ready.run(stop)))
}

async fn ask(router: &Router, method: &str, path: &str, headers: &[(header::HeaderName, &str)]) -> Response<Body> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(name, *value);
    }
    router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
}

async fn text(response: Response<Body>) -> (u16, String) {
    let code = response.status().as_u16();
    let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (code, String::from_utf8(bytes.to_vec()).unwrap())
}

fn message(object: &Value) -> &str {
    condition(object, "Progressing")["message"].as_str().unwrap()
}

fn one(version: &str) -> String {
    catalog_text("widgets", &[(version, "example.com/widgets@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef")])
}

/// OLM1-CAT-04, OLM1-CAT-05, OLM1-CAT-06, OLM1-CAT-07, OLM1-CAT-08, OLM1-CAT-09, OLM1-CAT-13, OLM1-CAT-14: a tag moves, content breaks
/// and is mended, the catalog is switched off and on and deleted; what is served is always the last whole content.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_catalog_lives() {
    let world = World::start().await;
    let image = format!("{}/test/catalog:latest", world.address);
    let first = world.push("test/catalog:latest", &one("1.0.0")).await;
    world.api.apply(catalog_object("test", &image)).await;
    let served = world.progress("test", "Succeeded").await;
    assert_eq!(message(&served), "Successfully unpacked and stored content from resolved source");
    assert_eq!(condition(&served, "Serving")["message"], "Serving desired content from resolved source");
    assert_eq!(served["metadata"]["finalizers"], json!(["olm.operatorframework.io/delete-server-cache"]));
    assert_eq!(served["status"]["resolvedSource"]["image"]["ref"], format!("{}/test/catalog@{}", world.address, first.digest.as_str()));
    assert_eq!(served["status"]["urls"]["base"], "https://127.0.0.1:6443/catalogs/test");
    assert!(served["status"]["lastUnpacked"].is_string());
    let all = "/catalogs/test/api/v1/all";
    let (code, lines) = world.get(all).await;
    assert_eq!((code, lines.lines().count()), (200, 3));
    assert!(lines.contains("widgets.v1.0.0"));

    // The tag moves; a change of the spec looks at it at once.
    let second = world.push("test/catalog:latest", &one("2.0.0")).await;
    world.poll("test", 10).await;
    let wanted = format!("{}/test/catalog@{}", world.address, second.digest.as_str());
    world.api.until(&catalog("test"), |object| object["status"]["resolvedSource"]["image"]["ref"] == wanted.as_str()).await;
    assert!(world.get(all).await.1.contains("widgets.v2.0.0"));

    // A broken blob is named with file, line and rule; the content before stays served.
    let broken = format!("{}{{\"name\":\"nameless\"}}\n", one("3.0.0"));
    world.push("test/catalog:latest", &broken).await;
    world.poll("test", 11).await;
    let refused = world.progress("test", "Retrying").await;
    assert_eq!(message(&refused), "error storing fbc: catalog.json:4: object '{\"name\":\"nameless\"}' is missing root schema field");
    assert_eq!(condition(&refused, "Progressing")["status"], "True");
    assert_eq!(condition(&refused, "Serving")["status"], "True");
    assert_eq!(refused["status"]["resolvedSource"]["image"]["ref"], wanted.as_str());
    assert!(world.get(all).await.1.contains("widgets.v2.0.0"));

    // A blob that is not what its digest says.
    let tampered = world.push("test/catalog:latest", &one("4.0.0")).await;
    world
        .registry
        .corrupt(&tampered.manifest.layers[0].digest, vec![0_u8; usize::try_from(tampered.manifest.layers[0].size).unwrap()])
        .unwrap();
    world.poll("test", 12).await;
    let refused = world.api.until(&catalog("test"), |object| message(object).starts_with("source catalog content: ")).await;
    let text = message(&refused).to_owned();
    assert!(text.contains(&format!("expected {}", tampered.manifest.layers[0].digest.as_str())), "{text}");
    assert!(
        text.ends_with("the content was changed or damaged on the way; pull again, and ask the registry's owner if it stays so"),
        "{text}"
    );
    assert!(world.get(all).await.1.contains("widgets.v2.0.0"));

    // A good image again.
    world.push("test/catalog:latest", &one("5.0.0")).await;
    world.poll("test", 13).await;
    world.progress("test", "Succeeded").await;
    assert!(world.get(all).await.1.contains("widgets.v5.0.0"));

    // Switched off, it is as if it were not there; switched on, it is unpacked again.
    let mode = |mode: &str| mainstay_objects::Patch::Merge(json!({"spec": {"availabilityMode": mode}}));
    world.api.admin.patch(&catalog("test"), "", &mode("Unavailable")).await.unwrap();
    let off = world.api.until(&catalog("test"), |object| condition(object, "Serving")["reason"] == "UserSpecifiedUnavailable").await;
    assert_eq!(condition(&off, "Serving")["status"], "False");
    assert_eq!(condition(&off, "Serving")["message"], "Catalog availability mode is set to Unavailable");
    assert_eq!(condition(&off, "Progressing")["reason"], "Succeeded");
    assert_eq!(message(&off), "Catalog availability mode is set to Unavailable");
    for field in ["resolvedSource", "urls", "lastUnpacked"] {
        assert!(off["status"][field].is_null(), "{off:#}");
    }
    assert!(off["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty), "{off:#}");
    assert_eq!(world.get(all).await, (404, "404 Not Found".to_owned()));
    world.api.admin.patch(&catalog("test"), "", &mode("Available")).await.unwrap();
    world.api.until(&catalog("test"), |object| condition(object, "Serving")["status"] == "True").await;
    assert!(world.get(all).await.1.contains("widgets.v5.0.0"));

    // Deleted, its content goes.
    world.api.delete(&catalog("test")).await;
    world.api.gone(&catalog("test")).await;
    assert_eq!(world.get(all).await, (404, "404 Not Found".to_owned()));
    let stored = std::fs::read_dir(world.api.folder.path().join("cache/catalogs")).unwrap();
    let stored: Vec<_> = stored.map(|entry| entry.unwrap().file_name()).filter(|name| name.to_string_lossy().contains("sha256")).collect();
    assert!(stored.is_empty(), "{stored:?}");
    world.end().await;
}

/// OLM1-CAT-06, OLM1-CAT-08, OLM1-GEN-12, OLM1-GEN-14: images that cannot be had or are no catalogs, each with what would help.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn images_that_are_no_catalogs() {
    let world = World::start().await;
    let (closed, closed_address) =
        registry(Options { access: Access::Basic { user: "u".into(), password: "p".into() }, ..Options::default() }, &world.registry_stop)
            .await;
    drop(closed);
    // A port that nobody is given by chance.
    let nobody = "127.0.0.1:1";
    let plain = mainstay_oci::ImageBuilder::new().file("configs/catalog.json", one("1.0.0").into_bytes());
    let plain = world.api.push(ClientConfig::default(), &format!("{}/test/plain:latest", world.address), plain).await;
    let lost = mainstay_oci::ImageBuilder::new().file("a", Vec::new()).label("operators.operatorframework.io.index.configs.v1", "/configs");
    world.api.push(ClientConfig::default(), &format!("{}/test/lost:latest", world.address), lost).await;
    let label = "source catalog content: catalog image is missing the required label \"operators.operatorframework.io.index.configs.v1\"";
    let cases = [
        ("tag", format!("{}/test/plain:latest", world.address), "Retrying", vec![label.to_owned()]),
        ("digest", format!("{}/test/plain@{}", world.address, plain.digest.as_str()), "Blocked", vec![label.to_owned()]),
        ("lost", format!("{}/test/lost:latest", world.address), "Retrying", vec!["has no directory \"/configs\"".to_owned()]),
        (
            "absent",
            format!("{}/test/absent:latest", world.address),
            "Retrying",
            vec!["404".to_owned(), "check the repository's name and the tag or digest".to_owned()],
        ),
        (
            "closed",
            format!("{closed_address}/test/catalog:latest"),
            "Retrying",
            vec!["401".to_owned(), format!("add credentials for {closed_address} to the pull secret or the auth file")],
        ),
        (
            "nobody",
            format!("{nobody}/test/catalog:latest"),
            "Retrying",
            vec![format!("cannot reach registry {nobody}"), format!("check that {nobody} can be reached from here")],
        ),
    ];
    for (name, image, ..) in &cases {
        world.api.apply(catalog_object(name, image)).await;
    }
    for (name, _, reason, parts) in &cases {
        let found = world.progress(name, reason).await;
        let text = message(&found);
        assert!(parts.iter().all(|part| text.contains(part)), "{name}: {text}");
        assert!(text.starts_with("source catalog content: "), "{name}: {text}");
        assert_eq!(condition(&found, "Progressing")["status"], if *reason == "Blocked" { "False" } else { "True" }, "{name}");
        assert_eq!(condition(&found, "Serving")["status"], "False", "{name}");
        assert_eq!(condition(&found, "Serving")["reason"], "Unavailable", "{name}");
        assert!(found["status"]["urls"].is_null(), "{name}");
    }
    world.end().await;
}

/// OLM1-CAT-05, OLM1-GEN-09, MS-OPS-03: after a restart stored content is served at once, though the registry is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stored_content_is_served_after_a_restart() {
    let mut world = World::start().await;
    let image = format!("{}/test/catalog:latest", world.address);
    world.push("test/catalog:latest", &one("1.0.0")).await;
    world.api.apply(catalog_object("test", &image)).await;
    let before = world.progress("test", "Succeeded").await;
    world.registry_stop.cancel();
    let pulls = world.registry.counts().manifest_reads;
    world.restart().await;
    let mut answer = (0, String::new());
    for _ in 0..12_000 {
        answer = world.get("/catalogs/test/api/v1/all").await;
        if answer.0 == 200 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(answer.1.contains("widgets.v1.0.0"), "{answer:?}");
    assert_eq!(world.registry.counts().manifest_reads, pulls);
    // The status is as before: nothing was looked at.
    let after = world.api.get(&catalog("test")).await.unwrap();
    assert_eq!(after["status"], before["status"]);
    world.end().await;
}

/// Method, preconditions, and the status and body that are expected.
type Case<'a> = (&'a str, &'a [(header::HeaderName, &'a str)], u16, &'a str);

/// OLM1-CAT-16, OLM1-CAT-17, OLM1-GEN-08: the HTTP interface: whole and part, preconditions, methods, unknown places, queries.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn catalogs_over_http() {
    let world = World::start().await;
    let image = format!("{}/test/catalog:latest", world.address);
    world.push("test/catalog:latest", &one("1.0.0")).await;
    world.api.apply(catalog_object("test", &image)).await;
    world.progress("test", "Succeeded").await;
    let (router, all, metas) = (&world.router, "/catalogs/test/api/v1/all", "/catalogs/test/api/v1/metas");
    let whole = ask(router, "GET", all, &[]).await;
    assert_eq!(whole.headers()[header::CONTENT_TYPE], "application/jsonl");
    let modified = whole.headers()[header::LAST_MODIFIED].to_str().unwrap().to_owned();
    let length: usize = whole.headers()[header::CONTENT_LENGTH].to_str().unwrap().parse().unwrap();
    let (_, lines) = text(whole).await;
    assert_eq!(lines.len(), length);
    for line in lines.lines() {
        assert_eq!(serde_json::from_str::<Value>(line).unwrap().to_string(), line, "compact, keys sorted");
    }
    let head = ask(router, "HEAD", all, &[]).await;
    assert_eq!((head.status().as_u16(), head.headers()[header::CONTENT_LENGTH].to_str().unwrap()), (200, length.to_string().as_str()));
    assert_eq!(text(head).await.1, "");

    let (old, late) = ("Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 01 Jan 2100 00:00:00 GMT");
    let cases: [Case<'_>; 11] = [
        ("GET", &[(header::IF_MODIFIED_SINCE, &modified)], 304, ""),
        ("HEAD", &[(header::IF_MODIFIED_SINCE, late)], 304, ""),
        ("GET", &[(header::IF_MODIFIED_SINCE, old)], 200, &lines),
        ("GET", &[(header::IF_MODIFIED_SINCE, "yesterday")], 200, &lines),
        ("GET", &[(header::IF_UNMODIFIED_SINCE, old)], 412, ""),
        ("GET", &[(header::IF_UNMODIFIED_SINCE, late)], 200, &lines),
        ("GET", &[(header::IF_NONE_MATCH, "*")], 304, ""),
        ("GET", &[(header::RANGE, "bytes=0-4")], 206, &lines[..5]),
        ("GET", &[(header::RANGE, "bytes=-5")], 206, &lines[length - 5..]),
        ("GET", &[(header::RANGE, "bytes=9999999-")], 416, ""),
        ("GET", &[(header::RANGE, "bytes=0-4"), (header::IF_RANGE, old)], 200, &lines),
    ];
    for (method, headers, code, body) in cases {
        let answer = text(ask(router, method, all, headers).await).await;
        assert_eq!(answer, (code, body.to_owned()), "{method} {headers:?}");
    }
    let part = ask(router, "GET", all, &[(header::RANGE, "bytes=5-9")]).await;
    assert_eq!(part.headers()[header::CONTENT_RANGE], format!("bytes 5-9/{length}").as_str());
    let outside = ask(router, "GET", all, &[(header::RANGE, "bytes=9999999-")]).await;
    assert_eq!(outside.headers()[header::CONTENT_RANGE], format!("bytes */{length}").as_str());

    let lines: Vec<&str> = lines.lines().collect();
    let line = |wanted: &[&str]| {
        let picked = lines.iter().filter(|line| wanted.iter().any(|schema| line.contains(&format!("\"schema\":\"{schema}\""))));
        picked.flat_map(|line| [line, "\n"]).collect::<String>()
    };
    let everything = line(&["olm.package", "olm.channel", "olm.bundle"]);
    let plain = |text: &str| text.to_owned();
    let cases = [
        ("GET", "/catalogs/other/api/v1/all", 404, plain("404 Not Found")),
        ("GET", "/catalogs/other/api/v1/metas", 404, plain("404 Not Found")),
        ("GET", "/catalogs/test/api/v1", 404, plain("404 page not found")),
        ("GET", "/elsewhere", 404, plain("404 page not found")),
        ("POST", all, 405, plain("Method Not Allowed")),
        ("DELETE", metas, 405, plain("Method Not Allowed")),
        ("GET", metas, 200, everything.clone()),
        ("GET", "/catalogs/test/api/v1/metas?schema=olm.bundle", 200, line(&["olm.bundle"])),
        ("GET", "/catalogs/test/api/v1/metas?package=widgets", 200, line(&["olm.channel", "olm.bundle"])),
        ("GET", "/catalogs/test/api/v1/metas?package=widgets&schema=olm.channel&name=stable", 200, line(&["olm.channel"])),
        ("GET", "/catalogs/test/api/v1/metas?schema=olm.package&name=widgets", 200, line(&["olm.package"])),
        ("GET", "/catalogs/test/api/v1/metas?name=nothing", 200, String::new()),
        ("GET", "/catalogs/test/api/v1/metas?version=1.0.0", 400, plain("400 Bad Request")),
        ("HEAD", "/catalogs/test/api/v1/metas?schema=olm.bundle", 200, String::new()),
    ];
    for (method, path, code, body) in cases {
        assert_eq!(text(ask(router, method, path, &[]).await).await, (code, body), "{method} {path}");
    }
    assert_eq!(everything.len(), length);

    let mut off = setup(&world.api, world.api.server.router());
    off.gates = FeatureGates::parse(Profile::Up, "APIV1MetasHandler=false").unwrap();
    off.cache = world.api.folder.path().join("other-cache");
    let router = off.open().unwrap().router;
    assert_eq!(text(ask(&router, "GET", metas, &[]).await).await, (404, "404 page not found".to_owned()));
    world.end().await;
}
