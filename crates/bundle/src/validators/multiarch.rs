//! The validator `multiarch`: labels of the CSV against the platforms that its images are published for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use mainstay_golang::quote;
use serde_json::Value;

use super::finding::{Finding, Rule};
use super::manifests::{CsvManifest, Manifests};
use super::{Options, Unavailable, rules};

const ARCH_LABEL: &str = "operatorframework.io/arch.";
const OS_LABEL: &str = "operatorframework.io/os.";

/// A platform of an image.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImagePlatform {
    /// `linux`.
    pub os: String,
    /// `amd64`.
    pub architecture: String,
}

impl fmt::Display for ImagePlatform {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.os, self.architecture)
    }
}

/// The platforms of images; `None` for an image that could not be inspected.
type Images = BTreeMap<String, Option<Vec<ImagePlatform>>>;

pub(super) fn validate(manifests: &Manifests, options: &Options<'_>) -> Vec<Finding> {
    let Some(csv) = &manifests.csv else { return Vec::new() };
    let tool = options.values.get("container-tools").map_or("", String::as_str).to_lowercase();
    if !matches!(tool.as_str(), "" | "none" | "docker" | "podman") {
        let detail = format!(
            "invalid value (container-tools) for ({tool}). One of: [docker, podman, none] (If not set, the default value is docker)"
        );
        return vec![Finding::error(&rules::MULTIARCH_TOOL, &csv.csv.name, detail)];
    }
    let mut check = Check::new(csv);
    check.inspect(options);
    check.support_defined();
    check.missing_labels();
    check.other_images();
    check.node_affinity();
    check.errors.splice(0..0, std::mem::take(&mut check.warnings));
    check.errors
}

struct Check<'a> {
    csv: &'a CsvManifest,
    labelled: [Vec<String>; 2],
    manager: Images,
    manager_order: Vec<String>,
    others: Images,
    related: Images,
    affinity: BTreeMap<String, Vec<ImagePlatform>>,
    warnings: Vec<Finding>,
    errors: Vec<Finding>,
}

impl<'a> Check<'a> {
    fn new(csv: &'a CsvManifest) -> Self {
        let labelled = [OS_LABEL, ARCH_LABEL].map(|prefix| {
            let supported = csv.csv.labels.iter().filter(|(key, value)| key.contains(prefix) && *value == "supported");
            supported.map(|(key, _)| key.replace(prefix, "")).collect()
        });
        let mut check = Self {
            csv,
            labelled,
            manager: Images::new(),
            manager_order: Vec::new(),
            others: Images::new(),
            related: Images::new(),
            affinity: BTreeMap::new(),
            warnings: Vec::new(),
            errors: Vec::new(),
        };
        check.gather();
        check
    }

    /// Gathers the images: those of containers called `manager`, or of every container but the known side-car, are the operator's own.
    fn gather(&mut self) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        for deployment in &self.csv.csv.deployments {
            let pod = &deployment.spec["template"]["spec"];
            let containers = || pod["containers"].as_array().into_iter().flatten();
            let mut found = false;
            for container in containers() {
                let (name, image) = (text(&container["name"]), text(&container["image"]));
                if self.manager.contains_key(&image) {
                    continue;
                }
                if name == "manager" {
                    self.own(&image);
                    found = true;
                }
                self.affinity.insert(image, affinity(pod));
            }
            for container in containers().filter(|_| !found) {
                let image = text(&container["image"]);
                if text(&container["name"]) != "kube-rbac-proxy" && !self.manager.contains_key(&image) {
                    self.own(&image);
                }
            }
        }
        for image in self.csv.csv.deployments.iter().flat_map(|deployment| {
            deployment.spec["template"]["spec"]["containers"].as_array().into_iter().flatten().map(|container| text(&container["image"]))
        }) {
            if !self.manager.contains_key(&image) {
                self.others.insert(image, None);
            }
        }
        self.related = self.csv.csv.related_images.iter().map(|related| (related.image.clone(), None)).collect();
    }

    fn own(&mut self, image: &str) {
        self.manager.insert(image.to_owned(), None);
        self.manager_order.push(image.to_owned());
    }

    fn inspect(&mut self, options: &Options<'_>) {
        let mut known: BTreeMap<String, Result<Vec<ImagePlatform>, Unavailable>> = BTreeMap::new();
        let ask = |image: &str| match options.inspect {
            Some(inspect) => inspect(image),
            None => Err("images are not looked at here".into()),
        };
        let mut warnings = Vec::new();
        for images in [&mut self.manager, &mut self.others, &mut self.related] {
            for (image, platforms) in images.iter_mut() {
                match known.entry(image.clone()).or_insert_with(|| ask(image)) {
                    Ok(found) => *platforms = Some(found.clone()),
                    Err(problem) => warnings.push((image.clone(), format!("unable to inspect the image ({image}) : {problem}"))),
                }
            }
        }
        for (_, detail) in warnings {
            self.warn(&rules::MULTIARCH_INSPECT, detail);
        }
    }

    fn warn(&mut self, rule: &'static Rule, detail: String) {
        self.warnings.push(Finding::warning(rule, &self.csv.csv.name, detail).at(&self.csv.file, "metadata.labels"));
    }

    /// The operating systems (0) or architectures (1) that the labels promise.
    fn promised(&self, which: usize) -> Vec<String> {
        if self.labelled[which].is_empty() { vec![["linux", "amd64"][which].to_owned()] } else { self.labelled[which].clone() }
    }

    /// The operating systems (0) or architectures (1) that the labels promise or the operator's own images offer.
    fn offered(&self, which: usize) -> BTreeSet<String> {
        let platforms = self.manager.values().flatten().flatten();
        let parts = platforms.map(|platform| if which == 0 { platform.os.clone() } else { platform.architecture.clone() });
        self.promised(which).into_iter().chain(parts.filter(|part| !part.is_empty())).collect()
    }

    fn support_defined(&mut self) {
        for os in self.promised(0) {
            for architecture in self.promised(1) {
                let fits = |platform: &ImagePlatform| platform.os == os && platform.architecture == architecture;
                let lacks =
                    |platforms: &Option<Vec<ImagePlatform>>| platforms.as_ref().is_some_and(|platforms| !platforms.iter().any(fits));
                let mut images: Vec<&str> = Vec::new();
                for group in [&self.manager, &self.others, &self.related] {
                    images.extend(group.iter().filter(|(_, platforms)| lacks(platforms)).map(|(image, _)| image.as_str()));
                }
                images.sort_unstable();
                if !images.is_empty() {
                    let detail = format!(
                        "not all images specified are providing the support described via the CSV labels. Note that (OS.architecture): ({os}.{architecture}) was not found for the image(s) [{}]",
                        images.join(" ")
                    );
                    let finding = Finding::error(&rules::MULTIARCH_SUPPORT, &self.csv.csv.name, detail);
                    self.errors.push(finding.at(&self.csv.file, "metadata.labels"));
                }
            }
        }
    }

    fn missing_labels(&mut self) {
        for (which, prefix, word, plural, usual) in
            [(1, ARCH_LABEL, "Arch(s)", "amd64 architectures,", "amd64"), (0, OS_LABEL, "OS(s)", "linux OS", "linux")]
        {
            let offered = self.offered(which);
            let unlabelled = |part: &&String| {
                let labelled = self.labelled[which].iter().any(|label| format!("{prefix}{label}").contains(part.as_str()));
                !(labelled || part.as_str() == usual && offered.len() == 1)
            };
            let missing: Vec<&String> = offered.iter().filter(unlabelled).collect();
            if !missing.is_empty() {
                let detail = format!(
                    "check if the CSV is missing the label ({prefix}<value>) for the {word}: {}. Be aware that your Operator manager image {} provides this support. Thus, it is very likely that you want to provide it and if you support more than {plural} you MUST,use the required labels for all which are supported.Otherwise, your solution cannot be listed on the cluster for these architectures",
                    quoted(&missing),
                    quoted(&self.manager_order)
                );
                self.warn(&rules::MULTIARCH_LABELS, detail);
            }
        }
    }

    fn other_images(&mut self) {
        let mut details = Vec::new();
        for (image, platforms) in self.others.iter().chain(&self.related) {
            let Some(platforms) = platforms else { continue };
            for (which, word) in [(1, "Arch(s)"), (0, "OS(s)")] {
                let has = |part: &String| {
                    platforms.iter().any(|platform| *part == if which == 0 { &*platform.os } else { &*platform.architecture })
                };
                let offered = self.offered(which);
                let missing: Vec<&String> = offered.iter().filter(|part| !has(part)).collect();
                if !missing.is_empty() {
                    details.push(format!(
                        "check if the image {image} should not support {}. Note that this CSV has labels for this {word} Your manager image {} are providing this support OR the CSV is configured via labels to support it. Then, please verify if this image should not support it",
                        quoted(&missing),
                        quoted(&self.manager_order)
                    ));
                }
            }
        }
        for detail in details {
            self.warn(&rules::MULTIARCH_IMAGES, detail);
        }
    }

    fn node_affinity(&mut self) {
        let mut details = Vec::new();
        for (image, platforms) in self.manager.iter().chain(&self.others) {
            let wanted = self.affinity.get(image).map(Vec::as_slice).unwrap_or_default();
            let unknown = [ImagePlatform { os: "error".to_owned(), architecture: "error".to_owned() }];
            let offered = platforms.as_deref().unwrap_or(&unknown);
            let image = quote(image);
            if wanted.is_empty() {
                if platforms.is_none() {
                    details.push(format!("check if the CSV is missing a node affinity configuration for the image: {image}. "));
                }
                details.push(format!(
                    "check if the CSV has a missing or invalid node affinity configuration for the image: {image}. The image data suggests the following platforms are supported: {}",
                    quoted(offered)
                ));
                continue;
            }
            let extra: Vec<_> = wanted.iter().filter(|platform| !offered.contains(platform)).collect();
            let missing: Vec<_> = offered.iter().filter(|platform| !wanted.contains(platform)).collect();
            if !extra.is_empty() {
                details.push(format!(
                    "the CSV includes {} in the node affinity configuration for the image: {image}, but the image data suggests the following platforms are supported: {}",
                    quoted(&extra),
                    quoted(offered)
                ));
            }
            if !missing.is_empty() {
                details.push(format!(
                    "the image data indicates {} is supported for the image: {image}, but the node affinity configuration for the image only specifies {}",
                    quoted(&missing),
                    quoted(wanted)
                ));
            }
        }
        for detail in details {
            self.warn(&rules::MULTIARCH_AFFINITY, detail);
        }
    }
}

fn quoted<T: fmt::Display>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(|item| quote(&item.to_string())).collect();
    format!("[{}]", items.join(" "))
}

/// The platforms that a pod's affinity requires of its node.
fn affinity(pod: &Value) -> Vec<ImagePlatform> {
    let required = &pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let mut platforms = Vec::new();
    for term in required["nodeSelectorTerms"].as_array().into_iter().flatten() {
        let values = |key: &str| -> Vec<String> {
            let mut expressions = term["matchExpressions"].as_array().into_iter().flatten();
            let last = expressions.rfind(|expression| expression["operator"] == "In" && expression["key"] == key);
            last.and_then(|expression| expression["values"].as_array())
                .into_iter()
                .flatten()
                .filter_map(|value| value.as_str().map(str::to_owned))
                .collect()
        };
        let architectures = values("kubernetes.io/arch");
        for os in values("kubernetes.io/os") {
            platforms.extend(architectures.iter().map(|architecture| ImagePlatform { os: os.clone(), architecture: architecture.clone() }));
        }
    }
    platforms
}
