//! The validator `good-practices`.

use mainstay_golang::quote;
use mainstay_versions::Version;
use serde_json::Value;

use super::finding::Finding;
use super::manifests::{CsvManifest, Manifests};
use super::{go, rules};

const CRD_RIGHTS: &str = "CSV contains permissions to create CRD. An Operator shouldn't deploy or manage other operators (such patterns are known as meta or super operators or include CRDs in its Operands). It's the Operator Lifecycle Manager's job to manage the deployment and lifecycle of operators.  Please, review the design of your solution and if you should not be using Dependency Resolution from OLM instead. More info: https://sdk.operatorframework.io/docs/best-practices/common-recommendation/";

pub(super) fn validate(manifests: &Manifests) -> Vec<Finding> {
    let Some(csv) = &manifests.csv else { return Vec::new() };
    let mut findings = Vec::new();
    resource_requests(csv, &mut findings);
    descriptions(csv, &mut findings);
    channels(manifests, csv, &mut findings);
    crd_permissions(csv, &mut findings);
    name(csv, &mut findings);
    findings
}

fn advice(csv: &CsvManifest, rule: &'static super::Rule, path: impl Into<String>, detail: impl Into<String>) -> Finding {
    Finding::warning(rule, &csv.csv.name, detail).at(&csv.file, path)
}

fn resource_requests(csv: &CsvManifest, findings: &mut Vec<Finding>) {
    let path = "spec.install.spec";
    let written = &csv.raw["spec"]["install"]["spec"]["deployments"];
    if written.is_null() {
        let detail = "unable to find a deployment to install in the CSV";
        findings.push(Finding::error(&rules::PRACTICE_DEPLOYMENT, &csv.csv.name, detail).at(&csv.file, path));
        return;
    }
    for (index, deployment) in csv.csv.deployments.iter().enumerate() {
        let containers = deployment.spec["template"]["spec"]["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
        for (inner, container) in containers.iter().enumerate() {
            // Upstream checks no further: an absent quantity prints as 0.
            if written[index]["spec"]["template"]["spec"]["containers"][inner]["resources"]["requests"].is_null() {
                let detail = format!(
                    "unable to find the resource requests for the container: ({}). It is recommended to ensure the resource request for CPU and Memory. Be aware that for some clusters configurations it is required to specify requests or limits for those values. Otherwise, the system or quota may reject Pod creation. More info: https://master.sdk.operatorframework.io/docs/best-practices/managing-resources/",
                    container["name"].as_str().unwrap_or_default()
                );
                let path = format!("{path}.deployments[{index}].spec.template.spec.containers[{inner}]");
                findings.push(advice(csv, &rules::PRACTICE_REQUESTS, path, detail));
            }
        }
    }
}

fn descriptions(csv: &CsvManifest, findings: &mut Vec<Finding>) {
    for relation in ["owned", "required"] {
        let path = format!("spec.customresourcedefinitions.{relation}");
        for (index, crd) in csv.csv.object["spec"]["customresourcedefinitions"][relation].as_array().into_iter().flatten().enumerate() {
            if crd["description"].as_str().unwrap_or_default().is_empty() {
                let detail = format!("{relation} CRD {} has an empty description", quote(crd["name"].as_str().unwrap_or_default()));
                findings.push(advice(csv, &rules::PRACTICE_DESCRIPTION, format!("{path}[{index}]"), detail));
            }
        }
    }
}

fn channels(manifests: &Manifests, csv: &CsvManifest, findings: &mut Vec<Finding>) {
    let mut odd: Vec<&str> = Vec::new();
    for channel in manifests.channels.iter().map(String::as_str).chain([manifests.default_channel.as_str()]) {
        let channel = channel.trim();
        let conventional = ["candidate", "stable", "fast"].iter().any(|prefix| channel.starts_with(prefix));
        if !conventional && !channel.is_empty() && !odd.contains(&channel) {
            odd.push(channel);
        }
    }
    if !odd.is_empty() {
        let detail = format!(
            "channel(s) {} are not following the recommended naming convention: https://olm.operatorframework.io/docs/best-practices/channel-naming",
            go::quoted_list(&odd)
        );
        findings.push(Finding::warning(&rules::PRACTICE_CHANNELS, &csv.csv.name, detail).at("metadata/annotations.yaml", "annotations"));
    }
}

fn crd_permissions(csv: &CsvManifest, findings: &mut Vec<Finding>) {
    let has = |rule: &Value, key: &str, wanted: &[&str]| {
        rule[key].as_array().into_iter().flatten().filter_map(Value::as_str).any(|item| wanted.contains(&item))
    };
    for (field, permissions) in [("permissions", &csv.csv.permissions), ("clusterPermissions", &csv.csv.cluster_permissions)] {
        for (index, permission) in permissions.iter().enumerate() {
            for (inner, rule) in permission.entry["rules"].as_array().into_iter().flatten().enumerate() {
                if has(rule, "apiGroups", &["apiextensions.k8s.io"])
                    && has(rule, "resources", &["customresourcedefinitions", "*", "[*]"])
                    && has(rule, "verbs", &["create", "*", "[*]", "patch"])
                {
                    let path = format!("spec.install.spec.{field}[{index}].rules[{inner}]");
                    findings.push(advice(csv, &rules::PRACTICE_CRD_RIGHT, path, CRD_RIGHTS));
                    return;
                }
            }
        }
    }
}

fn name(csv: &CsvManifest, findings: &mut Vec<Finding>) {
    let name = &csv.csv.name;
    if !ends_with_version(name) {
        let detail = format!(
            "csv.metadata.Name {name} is not following the versioning convention (MAJOR.MINOR.PATCH e.g 0.0.1): https://semver.org/"
        );
        findings.push(advice(csv, &rules::PRACTICE_NAME, "metadata.name", detail));
    }
    if name.split(".v").count() != 2 {
        let detail = format!(
            "csv.metadata.Name {name} is not following the recommended naming convention: <operator-name>.v<semver> e.g. memcached-operator.v0.0.1"
        );
        findings.push(advice(csv, &rules::PRACTICE_NAME, "metadata.name", detail));
    }
}

/// Returns whether the name ends with a version: its first tail that looks like one must be valid. Of build metadata only one part is checked.
fn ends_with_version(name: &str) -> bool {
    for (start, _) in name.match_indices(|c: char| c.is_ascii_digit()) {
        let tail = &name[start..];
        let (tail_main, build) = match tail.split_once('+') {
            Some((main, build)) => (main, Some(build)),
            None => (tail, None),
        };
        let identifiers = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let (numbers, pre) = match tail_main.split_once('-') {
            Some((numbers, pre)) => (numbers, Some(pre)),
            None => (tail_main, None),
        };
        let parts: Vec<&str> = numbers.split('.').collect();
        let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let looks = parts.len() == 3
            && parts.iter().all(is_number)
            && pre.is_none_or(|pre| pre.split('.').all(|part| !part.is_empty() && identifiers(part)))
            && build.is_none_or(|build| !build.is_empty() && identifiers(build));
        if looks {
            return Version::parse(tail).is_ok();
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::ends_with_version;

    #[test]
    fn versions_at_the_end_of_names() {
        for (name, expected) in [
            ("a.v1.2.3", true),
            ("a.1.2.3-rc.1", true),
            ("a.v1.2", false),
            ("a", false),
            ("a.v1.2.3.4", true),
            ("a.v01.2.3", false),
            ("a1.2.3+b", true),
        ] {
            assert_eq!(ends_with_version(name), expected, "{name}");
        }
    }
}
