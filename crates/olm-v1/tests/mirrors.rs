//! A cluster whose registry is gone: its images come from a mirror that objects of the cluster tell of.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use mainstay_oci::mirror::{self, By, Copy, Destination};
use mainstay_oci::{ClientConfig, ImageBuilder, Reference};
use mainstay_testing::widgets::{Content, files};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{
    Api, catalog, catalog_image, catalog_object, catalog_text, condition, extension, extension_object, place, registry, setup,
};

/// A small definition of a kind with mirror rules; what the rules look like is not its business.
fn definition(kind: &str, plural: &str) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": format!("{plural}.config.openshift.io")},
    "spec": {"group": "config.openshift.io", "names": {"kind": kind, "plural": plural}, "scope": "Cluster", "versions": [
        {"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}
    ]}})
}

const TAGS: &str = "imagetagmirrorsets.config.openshift.io";

async fn define(api: &Api) {
    for (kind, plural) in [("ImageDigestMirrorSet", "imagedigestmirrorsets"), ("ImageTagMirrorSet", "imagetagmirrorsets")] {
        api.apply(definition(kind, plural)).await;
        api.established(&format!("{plural}.config.openshift.io")).await;
        // Discovery may name the kind a moment later.
        let nobody = place("config.openshift.io/v1", kind, "", "nobody");
        for _ in 0..12_000 {
            if api.admin.get(&nobody).await.is_ok() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }
}

/// Makes catalogs of the image until one of them can, or cannot, be pulled as wanted, and names that one: rules count from the next pull on.
async fn pulls(api: &Api, prefix: &str, image: &str, wanted: bool) -> String {
    for number in 0..50 {
        let name = format!("{prefix}-{number}");
        api.apply(catalog_object(&name, image)).await;
        let decided =
            |object: &Value| condition(object, "Serving")["status"] == "True" || condition(object, "Progressing")["reason"] == "Retrying";
        let object = api.until(&catalog(&name), decided).await;
        if (condition(&object, "Serving")["status"] == "True") == wanted {
            return name;
        }
    }
    panic!("no catalog with image {image} became as wanted: {wanted}");
}

/// The note of the Event about refused rules.
async fn refusal(api: &Api) -> String {
    for _ in 0..12_000 {
        let request = axum::http::Request::get("/apis/events.k8s.io/v1/namespaces/default/events").body(Vec::new()).unwrap();
        let list: Value = api.admin.client().request(request).await.unwrap();
        if let Some(event) = list["items"].as_array().unwrap().iter().find(|event| event["reason"] == "MirrorRulesRefused") {
            assert_eq!(event["regarding"]["name"], "malformed");
            return event["note"].as_str().unwrap().to_owned();
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("no event tells of the malformed object");
}

/// OLM1-DISC-01, OLM1-DISC-02, OLM1-GEN-12: with the registry gone, catalogs by tag and bundles by digest come from the mirror that
/// the objects of `catalog mirror` name; a malformed object is told of and harms nobody; objects and kinds may come and go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_extension_is_installed_from_the_mirror_alone() {
    let api = Api::start().await;
    let stop = CancellationToken::new();
    let (_, mirror) = registry(mainstay_oci::registry::Options::default(), &stop).await;
    // Nobody listens there any more.
    let gone = "127.0.0.1:2";

    let destination: Destination = format!("{mirror}/ops").parse().unwrap();
    let content = files("1.0.0", &Content::default()).into_iter().map(|(path, text)| (path, text.into_bytes()));
    let bundle = api.push(ClientConfig::default(), &format!("{mirror}/ops/test/widgets:x"), ImageBuilder::new().files(content)).await;
    let bundle = format!("{gone}/test/widgets@{}", bundle.digest.as_str());
    let index = format!("{gone}/test/catalog:v1");
    let sources = [&bundle, &index].map(|text| Reference::parse(text).unwrap());
    let copies: Vec<Copy> = mirror::plan(&sources, &destination).unwrap();
    let target = copies.iter().find(|copy| copy.source == sources[1]).unwrap().target.to_string();
    api.push(ClientConfig::default(), &target, catalog_image(&catalog_text("widgets", &[("1.0.0", &bundle)]))).await;
    let digests = mirror::digest_mirror_set("idms-operator-0", &mirror::rules(&copies, By::Digest));
    let tags = mirror::tag_mirror_set("itms-operator-0", &mirror::rules(&copies, By::Tag));

    // Without the kinds, nothing is known of the mirror.
    let running = tokio::spawn(setup(&api, api.server.router()).open().unwrap().run(stop.clone()));
    pulls(&api, "before", &index, false).await;

    define(&api).await;
    let malformed = json!([{"source": format!("{gone}/test/catalog"), "mirrors": ["127.0.0.1:1/nothing"]}, {"mirrors": ["m.example"]}]);
    api.apply(json!({"apiVersion": "config.openshift.io/v1", "kind": "ImageTagMirrorSet", "metadata": {"name": "malformed"},
        "spec": {"imageTagMirrors": malformed}}))
        .await;
    api.apply(digests).await;
    api.apply(tags.clone()).await;
    assert_eq!(
        refusal(&api).await,
        "ImageTagMirrorSet malformed: spec.imageTagMirrors[1] has no source; none of the object's rules is used"
    );
    let serving = pulls(&api, "mirrored", &index, true).await;
    api.installer().await;
    let mut object = extension_object("widgets", "widgets", "work");
    // The catalogs of before come to serve, too, and hold the same.
    object["spec"]["source"]["catalog"]["selector"] = json!({"matchLabels": {"olm.operatorframework.io/metadata.name": serving}});
    api.apply(object).await;
    let installed = api.until(&extension("widgets"), |object| condition(object, "Installed")["status"] == "True").await;
    assert_eq!(condition(&installed, "Installed")["message"], format!("Installed bundle {bundle} successfully"));

    // What is removed stops counting, whether the object goes or its kind.
    let set = place("config.openshift.io/v1", "ImageTagMirrorSet", "", "itms-operator-0");
    api.delete(&set).await;
    pulls(&api, "without-object", &index, false).await;
    api.apply(tags.clone()).await;
    pulls(&api, "again", &index, true).await;
    api.delete(&place("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", TAGS)).await;
    pulls(&api, "without-kind", &index, false).await;
    define(&api).await;
    api.apply(tags).await;
    pulls(&api, "with-kind", &index, true).await;

    stop.cancel();
    running.await.unwrap();
    api.close().await;
}
