//! The validators of the facts that operator hubs show: provider, links, icon, capability level, categories.

use serde_json::Value;

use super::csv::{NO_MIN_KUBE_VERSION, about, advice};
use super::finding::Finding;
use super::manifests::{CsvManifest, Manifests};
use super::{Options, go_net, removed_apis, rules};
use mainstay_golang::{quote, url};
use mainstay_versions::Version;

const MEDIA_TYPES: [&str; 4] = ["image/gif", "image/jpeg", "image/png", "image/svg+xml"];
const CAPABILITIES: [&str; 5] = ["Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot"];
const CATEGORIES: [&str; 16] = [
    "AI/Machine Learning",
    "Application Runtime",
    "Big Data",
    "Cloud Provider",
    "Developer Tools",
    "Database",
    "Integration & Delivery",
    "Logging & Tracing",
    "Monitoring",
    "Modernization & Migration",
    "Networking",
    "OpenShift Optional",
    "Security",
    "Storage",
    "Streaming & Messaging",
    "Observability",
];

/// `operatorhubv2`.
pub(super) fn validate(manifests: &Manifests, options: &Options<'_>) -> Vec<Finding> {
    let Some(csv) = &manifests.csv else { return Vec::new() };
    let mut findings = shown_facts(csv);
    findings.extend(removed_apis::validate(manifests, options));
    findings
}

/// `operatorhub`, which upstream has replaced by three others.
pub(super) fn validate_deprecated(manifests: &Manifests, options: &Options<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(csv) = &manifests.csv {
        findings.extend(shown_facts(csv));
        findings.extend(capabilities(manifests));
        findings.extend(categories(manifests, options));
        findings.extend(removed_apis::validate(manifests, options));
    }
    let detail = "The \"operatorhub\" validator is deprecated; for equivalent validation use \"operatorhub/v2\", \"standardcapabilities\" and \"standardcategories\" validators";
    findings.push(Finding::warning(&rules::HUB_DEPRECATED, "", detail));
    findings
}

/// `capabilities`.
pub(super) fn capabilities(manifests: &Manifests) -> Vec<Finding> {
    let Some(csv) = &manifests.csv else { return Vec::new() };
    let Some(level) = csv.csv.annotations.get("capabilities") else { return Vec::new() };
    if CAPABILITIES.contains(&level.as_str()) {
        return Vec::new();
    }
    let detail = format!("csv.Metadata.Annotations.Capabilities {} is not a valid capabilities level", quote(level));
    vec![about(&csv.csv, &rules::CAPABILITIES, detail).at(&csv.file, "metadata.annotations.capabilities")]
}

/// `categories`.
pub(super) fn categories(manifests: &Manifests, options: &Options<'_>) -> Vec<Finding> {
    let Some(csv) = &manifests.csv else { return Vec::new() };
    let Some(text) = csv.csv.annotations.get("categories") else { return Vec::new() };
    let refuse = |detail: String| about(&csv.csv, &rules::CATEGORIES, detail).at(&csv.file, "metadata.annotations.categories");
    let (known, set): (Vec<&str>, _) = match &options.categories {
        None => (CATEGORIES.to_vec(), "standard categories"),
        Some(Ok(custom)) => (custom.iter().map(String::as_str).collect(), "custom categories"),
        Some(Err(problem)) => {
            let detail = format!("could not extract custom categories from categories map[string]struct {{}}(nil): {problem}");
            return vec![refuse(detail)];
        }
    };
    let unknown = text.split(',').filter(|category| !known.contains(&category.trim()));
    let detail = |category: &str| format!("csv.Metadata.Annotations[\"categories\"] value {} is not in the set of {set}", quote(category));
    unknown.map(|category| refuse(detail(category))).collect()
}

fn shown_facts(csv: &CsvManifest) -> Vec<Finding> {
    let mut errors = Vec::new();
    let mut warnings = Vec::new();
    let (spec, file) = (&csv.raw["spec"], csv.file.as_str());
    let mut refuse = |rule, path: &str, detail: String| errors.push(about(&csv.csv, rule, detail).at(file, path));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |key: &str| spec[key].as_array().map(Vec::as_slice).unwrap_or_default();

    if text(&spec["provider"]["name"]).trim().is_empty() {
        refuse(&rules::HUB_PROVIDER, "spec.provider", "csv.Spec.Provider.Name not specified".to_owned());
    }
    for (index, maintainer) in list("maintainers").iter().enumerate() {
        let (name, email, path) = (text(&maintainer["name"]), text(&maintainer["email"]), format!("spec.maintainers[{index}]"));
        if name.is_empty() || email.is_empty() {
            refuse(&rules::HUB_MAINTAINERS, &path, "csv.Spec.Maintainers elements should contain both name and email".to_owned());
        }
        if let Some(problem) = go_net::check_mail(&email).err().filter(|_| !email.is_empty()) {
            refuse(&rules::HUB_MAINTAINERS, &path, format!("csv.Spec.Maintainers email {email} is invalid: {problem}"));
        }
    }
    for (index, link) in list("links").iter().enumerate() {
        let (name, url, path) = (text(&link["name"]), text(&link["url"]), format!("spec.links[{index}]"));
        if name.is_empty() || url.is_empty() {
            refuse(&rules::HUB_LINKS, &path, "csv.Spec.Links elements should contain both name and url".to_owned());
        }
        if let Some(problem) = url::check_request(&url).err().filter(|_| !url.is_empty()) {
            refuse(&rules::HUB_LINKS, &path, format!("csv.Spec.Links url {url} is invalid: {problem}"));
        }
    }
    if matches!(csv.csv.version.as_str(), "" | "0.0.0") {
        refuse(&rules::HUB_VERSION, "spec", "csv.Spec.Version must be set".to_owned());
    }
    match &spec["icon"] {
        Value::Array(icons) => {
            if icons.len() != 1 {
                refuse(&rules::HUB_ICON, "spec.icon", "csv.Spec.Icon should only have one element".to_owned());
            }
            if let Some(icon) = icons.first() {
                let media_type = text(&icon["mediatype"]);
                if media_type.is_empty() || text(&icon["base64data"]).is_empty() {
                    let detail = "csv.Spec.Icon elements should contain both data and mediatype".to_owned();
                    refuse(&rules::HUB_ICON, "spec.icon[0]", detail);
                }
                if !media_type.is_empty() && !MEDIA_TYPES.contains(&media_type.as_str()) {
                    let detail = format!("csv.Spec.Icon {media_type} does not have a valid mediatype");
                    refuse(&rules::HUB_ICON, "spec.icon[0].mediatype", detail);
                }
            }
        }
        _ => warnings.push(advice(&csv.csv, &rules::HUB_ICON, "csv.Spec.Icon not specified").at(file, "spec")),
    }
    let minimum = csv.csv.min_kube_version.as_str();
    if minimum.trim().is_empty() {
        warnings.push(advice(&csv.csv, &rules::CSV_MIN_KUBE_VERSION, NO_MIN_KUBE_VERSION).at(file, "spec"));
    } else if Version::parse(minimum).is_err() {
        let detail = format!("csv.Spec.MinKubeVersion has an invalid value: {minimum}");
        refuse(&rules::CSV_MIN_KUBE_VERSION, "spec.minKubeVersion", detail);
    }
    errors.extend(warnings);
    errors
}
