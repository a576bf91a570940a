//! The validator `community`, which upstream has moved elsewhere: bundles with APIs that Kubernetes 1.22 removed must not reach OpenShift 4.9.

use std::cmp::Ordering;

use mainstay_versions::Version;
use serde_json::Value;

use super::csv::{about, advice};
use super::finding::{Finding, Level};
use super::manifests::{CsvManifest, Manifests};
use super::removed_apis::removed_in_1_22;
use super::{IndexFileError, Options, rules};

/// Why the index image does not let OpenShift's versions end in time, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
struct IndexImageError(String);

const LABEL: &str = "com.redhat.openshift.versions";
const REMOVED: &str = "This bundle is using APIs which were deprecated and removed in v1.22. More info: https://kubernetes.io/docs/reference/using-api/deprecation-guide/#v1-22";
const RANGE_HINT: &str = "annotation in `metadata/annotations.yaml` to ensure that the index image will be generated with its label. (e.g. LABEL com.redhat.openshift.versions='4.6-4.8')";

/// OpenShift 4.9 has Kubernetes 1.22.
const UNSUPPORTED: Version = Version::new(4, 9, 0);

pub(super) fn validate(manifests: &Manifests, options: &Options<'_>) -> Vec<Finding> {
    let Some(csv) = &manifests.csv else { return Vec::new() };
    let removed = removed_in_1_22(manifests);
    if removed.is_empty() {
        return Vec::new();
    }
    let words = removed.words();
    let mut findings = max_openshift_version(csv, &words);
    match options.values.get("index-path").filter(|path| !path.is_empty()) {
        None => {
            // Upstream repeats the errors as warnings here.
            let repeated = findings.iter().filter(|finding| finding.level == Level::Error).cloned();
            let repeated: Vec<Finding> = repeated.map(|finding| Finding { level: Level::Warning, ..finding }).collect();
            findings.retain(|finding| finding.level == Level::Error);
            findings.extend(repeated);
            let detail = format!(
                "please, inform the path of its index image file via the the optional key values and the key index-path to allow this validator check the labels configuration or migrate the API(s) for {words}. (e.g. index-path=./mypath/bundle.Dockerfile). {REMOVED} "
            );
            findings.push(advice(&csv.csv, &rules::COMMUNITY, detail).at(&csv.file, ""));
        }
        Some(path) => {
            if let Err(detail) = index_file(path, options.index_file.as_ref(), &words) {
                let at = findings.iter().position(|finding| finding.level == Level::Warning).unwrap_or(findings.len());
                findings.insert(at, about(&csv.csv, &rules::COMMUNITY, detail.to_string()).at(&csv.file, ""));
            }
        }
    }
    findings
}

fn at_least(version: &Version, least: &Version) -> bool {
    version.cmp_precedence(least) != Ordering::Less
}

fn max_openshift_version(csv: &CsvManifest, words: &str) -> Vec<Finding> {
    let place = "metadata.annotations[olm.properties]";
    let refuse = |detail: String| vec![about(&csv.csv, &rules::COMMUNITY, detail).at(&csv.file, place)];
    let text = csv.csv.annotations.get("olm.properties").map_or("", String::as_str);
    if text.is_empty() {
        return refuse(format!(
            "csv.Annotations not specified olm.maxOpenShiftVersion for an OCP version < 4.9. This annotation is required to prevent the user from upgrading their OCP cluster before they have installed a version of their operator which is compatible with 4.9. {REMOVED} which are no longer supported on 4.9. Migrate the API(s) for {words} or use the annotation"
        ));
    }
    let Some(properties) = text_properties(text) else {
        return refuse(format!(
            "csv.Annotations has an invalid value specified for olm.properties. Please, check the value  ({text}) and ensure that it is an array such as: \"olm.properties\": '[{{\"type\": \"key name\", \"value\": \"key value\"}}]'"
        ));
    };
    let Some((_, value)) = properties.iter().find(|(kind, _)| kind == "olm.maxOpenShiftVersion") else {
        return refuse(format!(
            "csv.Annotations.olm.properties with the key `olm.maxOpenShiftVersion` and a value with an OCP version which is < 4.9 is required for any operator bundle that is using APIs which were deprecated and removed in v1.22. More info: https://kubernetes.io/docs/reference/using-api/deprecation-guide/#v1-22. Migrate the API(s) for {words} or use the annotation"
        ));
    };
    let version = match Version::parse_tolerant(value) {
        Ok(version) => version,
        Err(problem) => {
            let detail = format!("csv.Annotations.olm.properties has an invalid value. Unable to parse ({value}) using semver : {problem}");
            return refuse(detail);
        }
    };
    let truncated = Version::new(version.major(), version.minor(), 0);
    if version.cmp_precedence(&truncated) != Ordering::Equal {
        let detail = format!(
            "csv.Annotations.olm.properties has an invalid value. olm.maxOpenShiftVersion must specify only major.minor versions, {version} will be truncated to {truncated}"
        );
        return vec![advice(&csv.csv, &rules::COMMUNITY, detail).at(&csv.file, place)];
    }
    if at_least(&version, &UNSUPPORTED) {
        return refuse(format!(
            "csv.Annotations.olm.properties with the key and value for olm.maxOpenShiftVersion has the OCP version value {value} which is >= of 4.9. {REMOVED}. Migrate the API(s) for {words} or inform in this property an OCP version which is < 4.9"
        ));
    }
    Vec::new()
}

/// The properties whose values are texts; upstream reads no others.
fn text_properties(text: &str) -> Option<Vec<(String, String)>> {
    let entries: Value = serde_json::from_str(text).ok()?;
    let part = |entry: &Value, key: &str| match &entry[key] {
        Value::Null => Some(String::new()),
        Value::String(text) => Some(text.clone()),
        _ => None,
    };
    entries.as_array()?.iter().map(|entry| Some((part(entry, "type")?, part(entry, "value")?))).collect()
}

/// Checks that the OpenShift versions in the Dockerfile's label end below the version that removed the APIs.
fn index_file(path: &str, content: Option<&Result<String, IndexFileError>>, words: &str) -> Result<(), IndexImageError> {
    let inform = "Please, inform the path of";
    let key = "index image via the the optional key values and the key index-path. (e.g. index-path=./mypath/bundle.Dockerfile).";
    let content = match content {
        Some(Ok(content)) => content,
        Some(Err(IndexFileError::NotFound(problem))) => {
            return Err(IndexImageError(format!(
                "the index image in the path ({path}) was not found. {inform} the bundle operator {key} Error : {problem}"
            )));
        }
        Some(Err(IndexFileError::Directory)) => {
            return Err(IndexImageError(format!(
                "the index image in the path ({path}) is not file. {inform} its {key} The value informed is a diretory and not a file"
            )));
        }
        Some(Err(IndexFileError::Unreadable(problem))) => {
            return Err(IndexImageError(format!("unable to read the index image in the path ({path}). Error : {problem}")));
        }
        None => return Err(IndexImageError(format!("unable to read the index image in the path ({path}). Error : it was not read"))),
    };
    let guide = "this bundle is using APIs which were deprecated and removed in v1.22. More info: https://kubernetes.io/docs/reference/using-api/deprecation-guide/#v1-22";
    let Some(line) = content.split('\n').find(|line| line.contains(LABEL)) else {
        return Err(IndexImageError(format!(
            "{guide}. Migrate the APIs for {words} or provide compatible version(s) via the labels. (e.g. LABEL {LABEL}='4.6-4.8')"
        )));
    };
    let parts: Vec<&str> = line.split('=').collect();
    if parts.len() < 2 {
        return Err(IndexImageError(format!("invalid syntax ({line}) for ({LABEL})")));
    }
    let clean = |text: &str| text.replace(['\'', '"', 'v'], "");
    let parse =
        |text: &str| Version::parse_tolerant(text).map_err(|_| IndexImageError(format!("unable to parse the value ({text}) on ({LABEL})")));
    if let Some(exact) = parts.get(2).filter(|exact| !exact.is_empty()) {
        if at_least(&parse(&clean(exact))?, &UNSUPPORTED) {
            return Err(IndexImageError(format!(
                "{guide}. Migrate the API(s) for {words} or provide compatible version(s) by using the {LABEL} {}",
                RANGE_HINT.replace("generated", "geneared")
            )));
        }
        return Ok(());
    }
    let range = clean(parts[1]);
    if range.len() <= 1 {
        return Err(IndexImageError(format!("unable to get the range informed on {LABEL}")));
    }
    let Some((_, end)) = range.split_once('-') else {
        return Err(IndexImageError(format!(
            "{guide} The {range} allows to distribute it on >= 4.9. Migrate the API(s) for {words} or provide compatible version(s) by using the {LABEL} {RANGE_HINT}"
        )));
    };
    if at_least(&parse(end.split('-').next().unwrap_or_default())?, &UNSUPPORTED) {
        return Err(IndexImageError(format!(
            "{guide}. Upgrade the APIs from for {words} or provide compatible distribution version(s) by using the {LABEL} {RANGE_HINT}"
        )));
    }
    Ok(())
}
