//! A ClusterServiceVersion from `olm.csv.metadata` (CATLG-41): the parts that consoles show, without those for an installation.

use mainstay_catalog::{Package, RelatedImage, Shape as Mismatch};
use serde_json::Value;

use super::go_json::{Members, Shape, kept, member, omitted, text};

const REFERENCE: Shape = Shape::Record(&[kept("name", Shape::Text), kept("kind", Shape::Text), kept("version", Shape::Text)]);
const DESCRIPTOR: Shape = Shape::Record(&[
    kept("path", Shape::Text),
    omitted("displayName", Shape::Text),
    omitted("description", Shape::Text),
    omitted("x-descriptors", Shape::List(&Shape::Text)),
    omitted("value", Shape::Any),
]);
const CRD: Shape = Shape::Record(&[
    kept("name", Shape::Text),
    kept("version", Shape::Text),
    kept("kind", Shape::Text),
    omitted("displayName", Shape::Text),
    omitted("description", Shape::Text),
    omitted("resources", Shape::List(&REFERENCE)),
    omitted("statusDescriptors", Shape::List(&DESCRIPTOR)),
    omitted("specDescriptors", Shape::List(&DESCRIPTOR)),
    omitted("actionDescriptors", Shape::List(&DESCRIPTOR)),
]);
const API_SERVICE: Shape = Shape::Record(&[
    kept("name", Shape::Text),
    kept("group", Shape::Text),
    kept("version", Shape::Text),
    kept("kind", Shape::Text),
    omitted("deploymentName", Shape::Text),
    omitted("containerPort", Shape::Integer),
    omitted("displayName", Shape::Text),
    omitted("description", Shape::Text),
    omitted("resources", Shape::List(&REFERENCE)),
    omitted("statusDescriptors", Shape::List(&DESCRIPTOR)),
    omitted("specDescriptors", Shape::List(&DESCRIPTOR)),
    omitted("actionDescriptors", Shape::List(&DESCRIPTOR)),
]);
const CRDS: Shape = Shape::Record(&[omitted("owned", Shape::List(&CRD)), omitted("required", Shape::List(&CRD))]);
const API_SERVICES: Shape = Shape::Record(&[omitted("owned", Shape::List(&API_SERVICE)), omitted("required", Shape::List(&API_SERVICE))]);
const GVK: Shape = Shape::Record(&[kept("group", Shape::Text), kept("version", Shape::Text), kept("kind", Shape::Text)]);
const MAINTAINER: Shape = Shape::Record(&[omitted("name", Shape::Text), omitted("email", Shape::Text)]);
const LINK: Shape = Shape::Record(&[omitted("name", Shape::Text), omitted("url", Shape::Text)]);
const INSTALL_MODE: Shape = Shape::Record(&[kept("type", Shape::Text), kept("supported", Shape::Flag)]);

/// Parts of a CSV beside its metadata.
pub(super) struct Parts<'a> {
    pub(super) name: &'a str,
    pub(super) version: &'a str,
    pub(super) package: &'a Package,
    /// The icon's bytes, in base64 as a decoder and encoder would leave it.
    pub(super) icon: Option<(String, &'a str)>,
    pub(super) related_images: &'a [RelatedImage],
}

/// Returns the text of the CSV.
pub(super) fn synthesize(metadata: &Value, parts: &Parts<'_>) -> Result<String, Mismatch> {
    if !metadata.is_object() && !metadata.is_null() {
        return Err(Mismatch { field: "value".to_owned(), expected: "a mapping", found: "something else" });
    }
    let from = |name: &str| member(metadata, name);
    let mut out = String::new();
    let mut csv = Members::begin(&mut out);
    text(csv.key("kind"), "ClusterServiceVersion");
    text(csv.key("apiVersion"), "operators.coreos.com/v1alpha1");
    let mut object = Members::begin(csv.key("metadata"));
    if !parts.name.is_empty() {
        text(object.key("name"), parts.name);
    }
    object.field(omitted("labels", Shape::Texts), from("labels"), "value.labels")?;
    object.field(omitted("annotations", Shape::Texts), from("annotations"), "value.annotations")?;
    object.end();
    let mut spec = Members::begin(csv.key("spec"));
    // OLM's package server wants the stub.
    spec.key("install").push_str(r#"{"strategy":"deployment","spec":{"deployments":null}}"#);
    text(spec.key("version"), parts.version);
    spec.field(omitted("maturity", Shape::Text), from("maturity"), "value.maturity")?;
    spec.field(kept("customresourcedefinitions", CRDS), from("crdDescriptions"), "value.crdDescriptions")?;
    spec.field(kept("apiservicedefinitions", API_SERVICES), from("apiServiceDefinitions"), "value.apiServiceDefinitions")?;
    spec.field(omitted("nativeAPIs", Shape::List(&GVK)), from("nativeAPIs"), "value.nativeAPIs")?;
    spec.field(omitted("minKubeVersion", Shape::Text), from("minKubeVersion"), "value.minKubeVersion")?;
    spec.field(kept("displayName", Shape::Text), from("displayName"), "value.displayName")?;
    let described = from("description").filter(|value| !value.is_null() && value.as_str() != Some(""));
    let of_package = Value::String(parts.package.description.clone());
    spec.field(omitted("description", Shape::Text), described.or(Some(&of_package)), "value.description")?;
    spec.field(omitted("keywords", Shape::List(&Shape::Text)), from("keywords"), "value.keywords")?;
    spec.field(omitted("maintainers", Shape::List(&MAINTAINER)), from("maintainers"), "value.maintainers")?;
    spec.field(kept("provider", LINK), from("provider"), "value.provider")?;
    spec.field(omitted("links", Shape::List(&LINK)), from("links"), "value.links")?;
    if let Some((data, media_type)) = &parts.icon {
        let icons = spec.key("icon");
        icons.push('[');
        let mut icon = Members::begin(icons);
        text(icon.key("base64data"), data);
        text(icon.key("mediatype"), media_type);
        icon.end();
        icons.push(']');
    }
    spec.field(omitted("installModes", Shape::List(&INSTALL_MODE)), from("installModes"), "value.installModes")?;
    spec.key("cleanup").push_str(r#"{"enabled":false}"#);
    if !parts.related_images.is_empty() {
        let images = spec.key("relatedImages");
        for (i, related) in parts.related_images.iter().enumerate() {
            images.push(if i == 0 { '[' } else { ',' });
            let mut image = Members::begin(images);
            text(image.key("name"), &related.name);
            text(image.key("image"), &related.image);
            image.end();
        }
        images.push(']');
    }
    spec.end();
    csv.key("status").push_str(r#"{"cleanup":{}}"#);
    csv.end();
    Ok(out)
}
