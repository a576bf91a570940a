//! The catalog entry of a bundle, as `opm render` prints it (OLM1-BUILD-05).

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mainstay_versions::CatalogRange;
use serde_json::{Value, json};

use crate::bundle::{Bundle, Property};
use crate::csv::Csv;
use crate::error::ReadError;
use crate::go;

/// Group, kind and version of an API.
type Api = (String, String, String);

/// The form in which an entry carries the bundle's manifests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Content {
    /// One `olm.bundle.object` for each manifest.
    #[default]
    Objects,
    /// One `olm.csv.metadata` with the parts of the CSV that users see.
    CsvMetadata,
}

impl Bundle {
    /// The `olm.bundle` entry. As in `opm`, an entry without an image keeps its objects, since they are nowhere else.
    pub fn catalog_blob(&self, image: &str, content: Content) -> Result<Value, ReadError> {
        let mut properties = self.opm_properties()?;
        if content == Content::CsvMetadata && !image.is_empty() {
            properties.push(json!({"type": "olm.csv.metadata", "value": self.csv_metadata()}));
        } else {
            let object = |data: String| json!({"type": "olm.bundle.object", "value": {"data": data}});
            properties.extend(self.object_data().into_iter().map(object));
        }
        Ok(json!({
            "schema": "olm.bundle",
            "name": self.csv.name,
            "package": self.package,
            "image": image,
            "properties": properties,
            "relatedImages": self.related_images(image),
        }))
    }

    /// The entry's properties without the manifests, sorted by type and value.
    pub fn opm_properties(&self) -> Result<Vec<Value>, ReadError> {
        let property = |(kind, text): (String, String)| {
            let value: Value = serde_json::from_str(&text).map_err(|error| catalog(format!("property {kind:?}: {error}")))?;
            Ok(json!({"type": kind, "value": value}))
        };
        self.property_texts()?.into_iter().map(property).collect()
    }

    /// Problems that keep the bundle from being listed, although it can be installed: a catalog that has them is refused.
    pub fn listing_problems(&self) -> Result<Vec<String>, ReadError> {
        let mut problems = Vec::new();
        if let Some(range) = self.facts().skip_range.filter(|range| !range.is_empty())
            && let Err(problem) = CatalogRange::parse(&range)
        {
            problems.push(format!("olm.skipRange {range:?} of the CSV: {problem}"));
        }
        for (kind, value) in self.property_texts()? {
            if kind.is_empty() {
                problems.push("a property or dependency has no type".to_owned());
            } else if value == "null" {
                problems.push(format!("property or dependency of type {kind:?} has no value"));
            }
        }
        Ok(problems)
    }

    /// The first icon of the CSV as base64, and its media type, if a catalog can hold it. Blanks of folded lines do not count.
    pub fn icon(&self) -> Option<(String, String)> {
        let icon = &self.csv.object["spec"]["icon"][0];
        let data: String = icon["base64data"].as_str()?.split_whitespace().collect();
        Some((go::base64(&data)?, icon["mediatype"].as_str().unwrap_or_default().to_owned()))
    }

    /// Parts of the bundle that are missing in a catalog.
    pub fn listing_losses(&self) -> Vec<String> {
        let icon = &self.csv.object["spec"]["icon"][0]["base64data"];
        let lost = icon.is_string() && self.icon().is_none();
        lost.then(|| "spec.icon[0].base64data of the CSV is not base64 with its padding: a catalog shows no icon".to_owned())
            .into_iter()
            .collect()
    }

    /// The entry's properties: type, and value as JSON text with its keys in upstream's order; the manifests come last.
    pub fn catalog_properties(&self) -> Result<Vec<(String, String)>, ReadError> {
        let mut properties = self.property_texts()?;
        let object = |data: String| ("olm.bundle.object".to_owned(), json!({"data": data}).to_string());
        properties.extend(self.object_data().into_iter().map(object));
        Ok(properties)
    }

    /// The manifests in base64, in upstream's order, which is that of the base64 text.
    fn object_data(&self) -> Vec<String> {
        let mut data: Vec<String> = self.objects.iter().map(|object| STANDARD.encode(go::to_string(object))).collect();
        data.sort();
        data
    }

    fn property_texts(&self) -> Result<Vec<(String, String)>, ReadError> {
        let mut listed: Vec<(String, String)> = Vec::new();
        let mut provided = self.provided().into_keys().collect::<BTreeSet<_>>();
        let mut required = self.required()?;
        let mut package = package_text(&self.package, &self.csv.version, &self.csv.release);
        for (index, property) in self.properties.iter().chain(&self.csv_properties).enumerate() {
            match property.kind.as_str() {
                "olm.gvk" => {
                    let [group, kind, version] = self.members(index, property, "GVK", ["group", "kind", "version"])?;
                    provided.insert((group, kind, version));
                }
                // The package in the file itself goes before that of the annotations.
                "olm.package" => {
                    let [name, version, release] = self.members(index, property, "Package", ["packageName", "version", "release"])?;
                    package = package_text(&name, &version, &release);
                }
                other => listed.push((other.to_owned(), property.value.get().to_owned())),
            }
        }
        for (index, dependency) in self.dependencies.iter().enumerate() {
            match dependency.kind.as_str() {
                "olm.gvk" => {
                    let [group, kind, version] = self.members(index, dependency, "GVK", ["group", "kind", "version"])?;
                    required.insert((group, kind, version));
                }
                "olm.package" => {
                    let [name, version] = self.members(index, dependency, "Package", ["packageName", "version"])?;
                    let range = json!({"packageName": name, "versionRange": version});
                    listed.push(("olm.package.required".to_owned(), range.to_string()));
                }
                other => listed.push((other.to_owned(), dependency.value.get().to_owned())),
            }
        }
        listed.push(("olm.package".to_owned(), package));
        for (kind, apis) in [("olm.gvk", provided), ("olm.gvk.required", required)] {
            for (group, name, version) in apis {
                listed.push((kind.to_owned(), json!({"group": group, "kind": name, "version": version}).to_string()));
            }
        }
        listed.sort();
        listed.dedup();
        Ok(listed)
    }

    /// Members of a property's value, which are texts; absent ones are empty. `goal` is the type that upstream reads it into.
    fn members<const N: usize>(&self, index: usize, property: &Property, goal: &str, names: [&str; N]) -> Result<[String; N], ReadError> {
        let refuse = |problem: String| {
            let name = go::to_string(&self.csv.name.as_str().into());
            catalog(format!("get properties for bundle {name}: parse property[{index}] of type {:?}: {problem}", property.kind))
        };
        let value = property.value();
        if !value.is_object() {
            let found = mainstay_golang::value::json_type(&value);
            let problem = match found {
                "null" => "unexpected end of JSON input".to_owned(),
                found => format!("json: cannot unmarshal {found} into Go value of type property.{goal}"),
            };
            return Err(refuse(problem));
        }
        let mut texts = names.map(|_| String::new());
        for (text, name) in texts.iter_mut().zip(names) {
            match go::member(&value, name) {
                Value::Null => {}
                Value::String(found) => text.clone_from(found),
                other => {
                    let found = mainstay_golang::value::json_type(other);
                    return Err(refuse(format!("json: cannot unmarshal {found} into Go struct field {goal}.{name} of type string")));
                }
            }
        }
        Ok(texts)
    }

    /// The images that a mirror has to carry: those the CSV names, the bundle's own, and those of the operator's containers; sorted.
    pub fn related_images(&self, image: &str) -> Vec<Value> {
        let mut images: Vec<(String, String)> =
            self.csv.related_images.iter().map(|related| (related.image.clone(), related.name.clone())).collect();
        let own = (!image.is_empty()).then(|| image.to_owned());
        for extra in own.into_iter().chain(self.csv.operator_images()) {
            if !images.iter().any(|(known, _)| *known == extra) {
                images.push((extra, String::new()));
            }
        }
        images.sort_by(|left, right| left.0.cmp(&right.0));
        images.into_iter().map(|(image, name)| json!({"name": name, "image": image})).collect()
    }

    /// The parts of the CSV that users see: the value of `olm.csv.metadata`.
    pub fn csv_metadata(&self) -> Value {
        self.csv.catalog_metadata()
    }

    /// The APIs that the embedded CRDs and owned API services provide, with the plural names they are served under.
    fn provided(&self) -> BTreeMap<Api, BTreeSet<String>> {
        let mut keys: BTreeMap<Api, BTreeSet<String>> = BTreeMap::new();
        let mut add = |group: &str, kind: &str, version: &str, plural: &str| {
            keys.entry((group.to_owned(), kind.to_owned(), version.to_owned())).or_default().insert(plural.to_owned());
        };
        for crd in self.objects.iter().filter(|object| object["kind"] == "CustomResourceDefinition") {
            let spec = &crd["spec"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (group, kind, plural) = (text(&spec["group"]), text(&spec["names"]["kind"]), text(&spec["names"]["plural"]));
            let form = crd["apiVersion"].as_str().and_then(|version| version.rsplit('/').next()).unwrap_or_default();
            if !matches!(form, "v1" | "v1beta1") {
                continue;
            }
            for version in spec["versions"].as_array().into_iter().flatten() {
                add(&group, &kind, version["name"].as_str().unwrap_or_default(), &plural);
            }
            if let Some(version) = spec["version"].as_str().filter(|version| form == "v1beta1" && !version.is_empty()) {
                add(&group, &kind, version, &plural);
            }
        }
        for api in &self.csv.owned_api_services {
            add(&api.group, &api.kind, &api.version, &api.name);
        }
        keys
    }

    fn required(&self) -> Result<BTreeSet<Api>, ReadError> {
        let mut required = BTreeSet::new();
        for crd in &self.csv.required_crds {
            let (_, group) = split_crd_name(&crd.name)?;
            required.insert((group.to_owned(), crd.kind.clone(), crd.version.clone()));
        }
        for api in &self.csv.required_api_services {
            required.insert((api.group.clone(), api.kind.clone(), api.version.clone()));
        }
        Ok(required)
    }

    /// Every CRD that the CSV calls its own must be in the bundle, in the version and kind it names.
    pub(crate) fn check_provided(&self) -> Result<(), ReadError> {
        let refuse = |problem| catalog(format!("error checking provided apis in bundle {}: {problem}", self.csv.name));
        let provided = self.provided();
        for crd in &self.csv.owned_crds {
            let (plural, group) = split_crd_name(&crd.name).map_err(|error| refuse(error.to_string()))?;
            let key = (group.to_owned(), crd.kind.clone(), crd.version.clone());
            if !provided.get(&key).is_some_and(|plurals| plurals.contains(plural)) {
                let found: BTreeSet<String> = provided
                    .iter()
                    .flat_map(|((group, kind, version), plurals)| {
                        plurals.iter().map(move |plural| format!("{group}/{version}/{kind} ({plural}):{{}}"))
                    })
                    .collect();
                let found: Vec<String> = found.into_iter().collect();
                let missing = format!("{group}/{}/{} ({plural})", crd.version, crd.kind);
                return Err(refuse(format!("couldn't find {missing} in bundle. found: map[{}]", found.join(" "))));
            }
        }
        Ok(())
    }
}

impl Csv {
    /// The parts of the CSV that users see: the value of `olm.csv.metadata`.
    pub fn catalog_metadata(&self) -> Value {
        let spec = &self.object["spec"];
        let mut metadata = json!({
            "apiServiceDefinitions": spec["apiservicedefinitions"],
            "crdDescriptions": spec["customresourcedefinitions"],
            "provider": spec["provider"],
        });
        let annotations = &self.object["metadata"]["annotations"];
        let labels = &self.object["metadata"]["labels"];
        let same =
            ["description", "displayName", "installModes", "keywords", "links", "maintainers", "maturity", "minKubeVersion", "nativeAPIs"];
        let fields = same.map(|name| (name, &spec[name]));
        for (name, value) in fields.into_iter().chain([("annotations", annotations), ("labels", labels)]) {
            let empty = match value {
                Value::Null => true,
                Value::String(text) => text.is_empty(),
                Value::Array(items) => items.is_empty(),
                Value::Object(entries) => entries.is_empty(),
                _ => false,
            };
            if !empty {
                metadata[name] = value.clone();
            }
        }
        metadata
    }

    /// [`Csv::catalog_metadata`] as JSON text with its keys in upstream's order.
    pub fn catalog_metadata_text(&self) -> String {
        go::to_plain_string_as("CSVMetadata", &self.catalog_metadata())
    }
}

fn split_crd_name(name: &str) -> Result<(&str, &str), ReadError> {
    name.split_once('.').ok_or_else(|| catalog(format!("couldn't parse plural.group from crd name: {name}")))
}

fn catalog(problem: String) -> ReadError {
    ReadError::Catalog { problem }
}

/// The value of `olm.package`, with a release only if there is one.
fn package_text(name: &str, version: &str, release: &str) -> String {
    let quoted = |text: &str| Value::from(text).to_string();
    let release = if release.is_empty() { String::new() } else { format!(",\"release\":{}", quoted(release)) };
    format!("{{\"packageName\":{},\"version\":{}{release}}}", quoted(name), quoted(version))
}

impl Property {
    /// The property as a catalog writes it.
    pub fn to_json(&self) -> Value {
        json!({"type": self.kind, "value": self.value()})
    }
}
