//! The validator `bundle`, which checks that CSV, CRDs and the rest of a bundle fit together.

use std::collections::{BTreeMap, BTreeSet};

use mainstay_golang::quote;
use serde_json::Value;

use super::csv::Api;
use super::finding::Finding;
use super::manifests::{CsvManifest, Manifests};
use super::{reference, rules};

/// The most bytes that fit into one ConfigMap.
const MAX_SIZE: usize = 1 << 20;

pub(super) fn validate(manifests: &Manifests) -> Vec<Finding> {
    let Some(csv) = &manifests.csv else { return Vec::new() };
    let mut findings = Vec::new();
    owned_crds(manifests, csv, &mut findings);
    service_accounts(manifests, csv, &mut findings);
    size(manifests, csv, &mut findings);
    release_name(manifests, csv, &mut findings);
    related_images(csv, &mut findings);
    findings
}

fn shipped(manifests: &Manifests) -> Vec<(Api, &str)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut found = Vec::new();
    for manifest in manifests.crds.iter().chain(&manifests.old_crds) {
        let spec = &manifest.object["spec"];
        let listed = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut versions: Vec<String> = listed.iter().map(|version| text(&version["name"])).collect();
        if versions.is_empty() && manifest.api_version().ends_with("/v1beta1") {
            versions.push(text(&spec["version"]));
        }
        let api = |version| Api { group: text(&spec["group"]), version, kind: text(&spec["names"]["kind"]) };
        found.extend(versions.into_iter().map(|version| (api(version), manifest.file.as_str())));
    }
    found
}

fn owned_crds(manifests: &Manifests, csv: &CsvManifest, findings: &mut Vec<Finding>) {
    let name = quote(manifests.name());
    let mut left: BTreeMap<Api, &str> = BTreeMap::new();
    for (api, file) in shipped(manifests) {
        let shown = quote(&api.to_string());
        if left.contains_key(&api) {
            let detail = format!("duplicate CRD {shown} in bundle {name}");
            findings.push(Finding::error(&rules::BUNDLE_CRD_TWICE, api.to_string(), detail).at(file, "spec.versions"));
        }
        left.insert(api, file);
    }
    let mut owned = BTreeSet::new();
    for (index, crd) in csv.csv.owned_crds.iter().enumerate() {
        let group = crd.name.split_once('.').map_or(crd.name.as_str(), |(_, group)| group).to_owned();
        let api = Api { group, version: crd.version.clone(), kind: crd.kind.clone() };
        if left.remove(&api).is_some() {
            owned.insert((api.group, api.kind));
        } else {
            let detail = format!("owned CRD {} not found in bundle {name}", quote(&api.to_string()));
            let path = format!("spec.customresourcedefinitions.owned[{index}]");
            findings.push(Finding::error(&rules::BUNDLE_OWNED_CRD, api.to_string(), detail).at(&csv.file, path));
        }
    }
    // Another version of an owned CRD is not reported.
    for (api, file) in left.into_iter().filter(|(api, _)| !owned.contains(&(api.group.clone(), api.kind.clone()))) {
        let detail = format!("CRD {} is present in bundle {name} but not defined in CSV", quote(&api.to_string()));
        findings.push(Finding::error(&rules::BUNDLE_STRAY_CRD, api.to_string(), detail).at(file, ""));
    }
}

fn service_accounts(manifests: &Manifests, csv: &CsvManifest, findings: &mut Vec<Finding>) {
    let of = |deployment: &crate::csv::Deployment| {
        deployment.spec["template"]["spec"]["serviceAccountName"].as_str().unwrap_or_default().to_owned()
    };
    let used: BTreeSet<String> = csv.csv.deployments.iter().map(of).collect();
    for account in manifests.objects.iter().filter(|object| object.kind() == "ServiceAccount" && object.api_version() == "v1") {
        let name = account.name();
        if used.contains(name) {
            let detail = format!(
                "invalid service account found in bundle. This service account {name} in your bundle is not valid, because a service account with the same name was already specified in your CSV. If this was unintentional, please remove the service account manifest from your bundle. If it was intentional to specify a separate service account, please rename the SA in either the bundle manifest or the CSV."
            );
            findings.push(Finding::error(&rules::BUNDLE_SERVICE_ACCOUNT, name, detail).at(&account.file, "metadata.name"));
        }
    }
}

fn size(manifests: &Manifests, csv: &CsvManifest, findings: &mut Vec<Finding>) {
    let name = manifests.name();
    let (size, compressed) = (manifests.size, manifests.compressed_size);
    let told = format!("size=~{} , max={}. Bundle uncompressed size is {}", bytes(compressed), bytes(MAX_SIZE), bytes(size));
    let finding = if compressed == 0 {
        Finding::warning(&rules::BUNDLE_SIZE_UNKNOWN, name, "unable to check the bundle compressed size")
    } else if size == 0 {
        Finding::warning(&rules::BUNDLE_SIZE_UNKNOWN, name, "unable to check the bundle size")
    } else if compressed > MAX_SIZE {
        Finding::error(&rules::BUNDLE_SIZE, name, format!("maximum bundle compressed size with gzip size exceeded: {told}"))
    } else if compressed * 100 > MAX_SIZE * 85 {
        Finding::warning(&rules::BUNDLE_SIZE, name, format!("nearing maximum bundle compressed size with gzip: {told}"))
    } else {
        return;
    };
    findings.push(finding.at(&csv.file, ""));
}

/// Bytes in decimal units with one digit after the point.
fn bytes(count: usize) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if count < 1000 {
        return format!("{count} B");
    }
    let (mut divisor, mut unit) = (1000_u64, 0);
    let count = count as u64;
    while count / divisor >= 1000 {
        divisor *= 1000;
        unit += 1;
    }
    #[allow(clippy::cast_precision_loss, reason = "one digit after the point is shown")]
    let shown = count as f64 / divisor as f64;
    format!("{shown:.1} {}", UNITS[unit])
}

fn release_name(manifests: &Manifests, csv: &CsvManifest, findings: &mut Vec<Finding>) {
    let release = match &csv.raw["spec"]["release"] {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return,
    };
    if release.is_empty() {
        return;
    }
    let expected = format!("{}-v{}-{release}", manifests.package, csv.csv.version);
    let name = manifests.name();
    if name != expected {
        let detail = format!("bundle name with release versioning {} does not match expected name {}", quote(name), quote(&expected));
        findings.push(Finding::error(&rules::BUNDLE_NAME, name, detail).at(&csv.file, "metadata.name"));
    }
}

fn related_images(csv: &CsvManifest, findings: &mut Vec<Finding>) {
    for (index, related) in csv.csv.related_images.iter().enumerate() {
        let place = format!("spec.relatedImages[{index}].image");
        let detail = if related.image.is_empty() {
            format!("relatedImages[{index}] has an empty image field")
        } else if let Err(problem) = reference::check(&related.image) {
            format!("relatedImages[{index}] has an invalid image pullspec {}: {problem}", quote(&related.image))
        } else {
            continue;
        };
        findings.push(Finding::error(&rules::BUNDLE_IMAGES, place.clone(), detail).at(&csv.file, place));
    }
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn sizes_are_decimal() {
        for (count, shown) in [(999, "999 B"), (1000, "1.0 kB"), (1_048_576, "1.0 MB"), (1_160_000, "1.2 MB"), (2_500_000_000, "2.5 GB")] {
            assert_eq!(bytes(count), shown);
        }
    }
}
