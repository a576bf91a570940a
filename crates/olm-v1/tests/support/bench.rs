//! A cluster with a registry and both running controllers, for tests of what people meet.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use axum::Router;
use http::Request;
use mainstay_oci::{ClientConfig, ImageBuilder};
use mainstay_olm_v1::Setup;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    Api, catalog, catalog_image, catalog_object, catalog_text, condition, extension, extension_object, namespace, registry, setup,
};

/// The catalog `test`, the namespace `work` with the account `installer`, and the controllers.
pub struct Bench {
    pub api: Api,
    pub registry: String,
    /// What catalogd serves.
    pub router: Router,
    stop: CancellationToken,
    registry_stop: CancellationToken,
    running: Option<tokio::task::JoinHandle<()>>,
}

impl Bench {
    pub async fn start() -> Self {
        Self::with(|_| {}).await
    }

    /// The controllers with other settings.
    pub async fn with(change: impl FnOnce(&mut Setup)) -> Self {
        let api = Api::start().await;
        let stop = CancellationToken::new();
        let registry_stop = CancellationToken::new();
        let (_, address) = registry(mainstay_oci::registry::Options::default(), &registry_stop).await;
        let mut settings = setup(&api, api.server.router());
        change(&mut settings);
        let ready = settings.open().unwrap();
        let router = ready.router.clone();
        let running = Some(tokio::spawn(ready.run(stop.clone())));
        api.apply(namespace("work")).await;
        Self { api, registry: address, router, stop, registry_stop, running }
    }

    /// Nobody answers at the registry's address any more.
    pub fn registry_goes_down(&self) {
        self.registry_stop.cancel();
    }

    /// The controllers end and begin anew; `between` is given the folder of their caches.
    pub async fn restart(&mut self, between: impl FnOnce(&std::path::Path)) {
        self.restart_with(|settings| between(&settings.cache)).await;
    }

    /// The same with other settings.
    pub async fn restart_with(&mut self, change: impl FnOnce(&mut Setup)) {
        self.stop.cancel();
        self.running.take().unwrap().await.unwrap();
        let mut settings = setup(&self.api, self.api.server.router());
        change(&mut settings);
        self.stop = CancellationToken::new();
        let ready = settings.open().unwrap();
        self.router = ready.router.clone();
        self.running = Some(tokio::spawn(ready.run(self.stop.clone())));
    }

    /// Pushes a bundle and returns its reference by digest.
    pub async fn bundle(&self, package: &str, version: &str, files: Vec<(String, String)>) -> String {
        let files = files.into_iter().map(|(path, text)| (path, text.into_bytes()));
        let reference = format!("{}/test/{package}:v{version}", self.registry);
        let image = self.api.push(ClientConfig::default(), &reference, ImageBuilder::new().files(files)).await;
        format!("{}/test/{package}@{}", self.registry, image.digest.as_str())
    }

    /// Pushes a catalog of one package and waits until it is served.
    pub async fn catalog(&self, name: &str, package: &str, bundles: &[(&str, &str)]) -> Value {
        self.serve_catalog(name, &catalog_text(package, bundles)).await
    }

    /// Pushes a catalog with these blobs and waits until it is served.
    pub async fn catalog_of(&self, name: &str, blobs: &[Value]) -> Value {
        let text = blobs.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
        self.serve_catalog(name, &text).await
    }

    async fn serve_catalog(&self, name: &str, text: &str) -> Value {
        let reference = format!("{}/test/{name}:latest", self.registry);
        self.api.push(ClientConfig::default(), &reference, catalog_image(text)).await;
        self.api.apply(catalog_object(name, &reference)).await;
        self.api.until(&catalog(name), |object| condition(object, "Serving")["status"] == "True").await
    }

    /// The account `installer` of `work`.
    pub async fn account(&self) {
        self.api.account().await;
    }

    /// Lets the account do everything.
    pub async fn administrator(&self) {
        self.api.administrator().await;
    }

    /// The extension `widgets` in this version, waited for.
    pub async fn install(&self, version: &str) -> Value {
        self.account().await;
        self.administrator().await;
        self.api.apply(cluster_extension("widgets", "widgets", Some(version))).await;
        self.installed("widgets", version).await
    }

    /// Waits until an extension has arrived at a version.
    pub async fn installed(&self, name: &str, version: &str) -> Value {
        let reached = |object: &Value| {
            let progressing = condition(object, "Progressing");
            object["status"]["install"]["bundle"]["version"] == version
                && progressing["reason"] == "Succeeded"
                && progressing["observedGeneration"] == object["metadata"]["generation"]
        };
        self.api.until(&extension(name), reached).await
    }

    /// Waits until `Progressing` of the present generation says this, and returns its whole message.
    pub async fn progressing(&self, name: &str, reason: &str, part: &str) -> (Value, String) {
        let says = |object: &Value| {
            let progressing = condition(object, "Progressing");
            progressing["reason"] == reason
                && progressing["observedGeneration"] == object["metadata"]["generation"]
                && progressing["message"].as_str().is_some_and(|text| text.contains(part))
        };
        let found = self.api.until(&extension(name), says).await;
        let text = condition(&found, "Progressing")["message"].as_str().unwrap().to_owned();
        (found, text)
    }

    /// A request of the administrator, or of whom he acts as: the code and the answer.
    pub async fn ask(&self, acting: &[(&str, &str)], method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        ask(&self.api, acting, method, path, "application/json", body).await
    }

    pub async fn end(mut self) {
        self.stop.cancel();
        if let Some(running) = self.running.take() {
            running.await.unwrap();
        }
        self.registry_stop.cancel();
        self.api.close().await;
    }
}

/// A request of the administrator, or of whom he acts as by `Impersonate-*` headers.
pub async fn ask(api: &Api, acting: &[(&str, &str)], method: &str, path: &str, content_type: &str, body: Option<&Value>) -> (u16, Value) {
    let bytes = body.map(Value::to_string).unwrap_or_default().into_bytes();
    let mut request = Request::builder().method(method).uri(path).header("content-type", content_type);
    for (name, value) in acting {
        request = request.header(format!("Impersonate-{name}"), *value);
    }
    let response = api.admin.client().send(request.body(bytes.into()).unwrap()).await.unwrap();
    let code = response.status().as_u16();
    if path.contains("watch=true") && code < 400 {
        return (code, Value::Null);
    }
    let bytes = response.into_body().collect_bytes().await.unwrap();
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

/// An extension of a package, of a version or range.
pub fn cluster_extension(name: &str, package: &str, version: Option<&str>) -> Value {
    let mut object = extension_object(name, package, "work");
    if let Some(version) = version {
        object["spec"]["source"]["catalog"]["version"] = json!(version);
    }
    object
}

/// An extension of a package of the catalog `test` alone.
pub fn extension_of_test_catalog(name: &str, package: &str) -> Value {
    let mut object = cluster_extension(name, package, None);
    object["spec"]["source"]["catalog"]["selector"] = json!({"matchLabels": {"olm.operatorframework.io/metadata.name": "test"}});
    object
}
