//! Upstream's validators of bundles, by name and suite: the same findings, levels and words (SDK-BUNDLE-22, SDK-BUNDLE-23, CATLG-48).
//!
//! ```text
//!   files ── Manifests::read ──┬─ csv, crd, bundle            always
//!                              ├─ operatorhubv2, good-practices ...  chosen by label (Selection)
//!                              └─ format, content             what `opm alpha bundle validate` checks
//!                                       └── Finding { level, upstream's words, rule, place, fix }
//! ```
//!
//! Beyond upstream, every finding carries the rule it breaks, its file and line if they are known, and a fix. Facts from outside the bundle
//! (a file of categories, the platforms of images) are passed in with [`Options`].

mod community;
mod contents;
mod crd;
mod csv;
mod dependencies;
mod finding;
mod format;
mod go;
mod go_net;
mod hub;
mod locate;
mod manifests;
mod multiarch;
mod object;
mod practices;
mod reference;
mod removed_apis;
pub mod rules;
mod selection;

use std::collections::BTreeMap;

pub use finding::{Finding, Level, Place, Rule};
pub(crate) use format::kind_of_bundle;
pub use format::{content, format, media_type};
pub use manifests::{CsvManifest, Manifest, Manifests, gzip_base64};
pub(crate) use manifests::{texts, with_kind};
pub use multiarch::ImagePlatform;
pub use removed_apis::removed_in;
pub use selection::{Selection, SelectionError};

/// A function that finds out the platforms of an image.
pub type Inspect<'a> = dyn Fn(&str) -> Result<Vec<ImagePlatform>, Unavailable> + 'a;

/// The reason why something beside the bundle could not be read.
pub type Unavailable = Box<dyn std::error::Error + Send + Sync>;

/// The input of validators beside the bundle.
#[derive(Default)]
pub struct Options<'a> {
    /// Optional values: `k8s-version`, `index-path`, `container-tools`.
    pub values: BTreeMap<String, String>,
    /// Categories that replace the standard ones, or the reason why they cannot be read.
    pub categories: Option<Result<Vec<String>, Unavailable>>,
    /// The content of the file that `index-path` names, or the reason why it cannot be read.
    pub index_file: Option<Result<String, IndexFileError>>,
    /// Finds out the platforms of an image; without it nothing is known of images.
    pub inspect: Option<&'a Inspect<'a>>,
}

/// The reason why the file that `index-path` names cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IndexFileError {
    /// It does not exist.
    #[error("{0}")]
    NotFound(String),
    /// It is a folder.
    #[error("is a directory")]
    Directory,
    /// Reading fails.
    #[error("{0}")]
    Unreadable(String),
}

/// One validator.
#[derive(Clone, Copy)]
pub struct Validator {
    /// Its name.
    pub name: &'static str,
    /// True if it belongs to the suite `operatorframework`.
    pub in_suite: bool,
    /// True if it runs without being chosen.
    pub default: bool,
    /// The subject that it checks.
    pub description: &'static str,
    check: fn(&Manifests, &Options<'_>) -> Vec<Finding>,
}

impl std::fmt::Debug for Validator {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Validator").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Validator {
    /// Labels that a selection can choose it by.
    pub fn labels(&self) -> BTreeMap<&'static str, &'static str> {
        let mut labels = BTreeMap::from([("name", self.name)]);
        if self.in_suite {
            labels.insert("suite", "operatorframework");
        }
        labels
    }

    /// Runs it, and returns its findings with the lines of their places.
    pub fn run(&self, manifests: &Manifests, options: &Options<'_>) -> Vec<Finding> {
        let mut findings = (self.check)(manifests, options);
        for finding in &mut findings {
            finding.validator = self.name;
        }
        place(manifests, &mut findings);
        findings
    }
}

const fn always(name: &'static str, description: &'static str, check: fn(&Manifests, &Options<'_>) -> Vec<Finding>) -> Validator {
    Validator { name, in_suite: false, default: true, description, check }
}

const fn optional(
    name: &'static str,
    suite: Option<()>,
    description: &'static str,
    check: fn(&Manifests, &Options<'_>) -> Vec<Finding>,
) -> Validator {
    Validator { name, in_suite: suite.is_some(), default: false, description, check }
}

/// Every validator: those that always run, then the optional ones in upstream's order, then our own.
pub const VALIDATORS: [Validator; 15] = [
    always("load", "whether the files make a bundle", |manifests, _| manifests.findings.clone()),
    always("format", "folders, annotations and dependencies", |manifests, _| format(manifests)),
    always("content", "kinds and metadata of the manifests", |manifests, _| format::kinds(manifests)),
    always("csv", "the ClusterServiceVersion", |manifests, _| csv::validate(manifests)),
    always("crd", "CRDs as the API server would check them", |manifests, _| crd::validate(manifests)),
    always("bundle", "whether CSV, CRDs and the rest fit together", |manifests, _| contents::validate(manifests)),
    optional("operatorhub", None, "OperatorHub.io metadata validation (deprecated)", hub::validate_deprecated),
    optional("operatorhubv2", Some(()), "OperatorHub.io metadata validation: provider, maintainers, links, icon, versions", hub::validate),
    optional("capabilities", Some(()), "The capability level is one of the five known ones", |manifests, _| hub::capabilities(manifests)),
    optional("categories", Some(()), "The categories are known ones", hub::categories),
    optional("community", None, "Community Operator bundle validation (deprecated)", community::validate),
    optional("alpha-deprecated-apis", Some(()), "APIs that Kubernetes 1.22, 1.25 and 1.26 removed", removed_apis::validate),
    optional("good-practices", Some(()), "Good practices: resource requests, descriptions, names, channels", |manifests, _| {
        practices::validate(manifests)
    }),
    optional("multiarch", None, "Multiple architectures: labels against the platforms of images", multiarch::validate),
    optional("dependencies", None, "How dependencies are written: ranges, APIs without a dependency, constraints", |manifests, _| {
        dependencies::validate(manifests)
    }),
];

/// The optional validator of disruption budgets, priority classes and dangerous permissions; opm calls it `bundle-objects`.
pub const OBJECTS: Validator =
    optional("bundle-objects", None, "Disruption budgets, priority classes and rights", |manifests, _| object::validate(manifests));

/// Every validator that a selection can choose.
pub fn optional_validators() -> impl Iterator<Item = Validator> {
    VALIDATORS.into_iter().filter(|validator| !validator.default).chain([OBJECTS])
}

/// Runs the validators that always run and those chosen.
pub fn run(manifests: &Manifests, selection: Option<&Selection>, options: &Options<'_>) -> Vec<Finding> {
    let always = VALIDATORS.into_iter().filter(|validator| validator.default);
    let chosen = optional_validators().filter(|validator| selection.is_some_and(|selection| selection.matches(&validator.labels())));
    always.chain(chosen).flat_map(|validator| validator.run(manifests, options)).collect()
}

/// Fills in the lines of places that can be found.
pub(crate) fn place(manifests: &Manifests, findings: &mut [Finding]) {
    for place in findings.iter_mut().filter_map(|finding| finding.place.as_mut()) {
        if place.line.is_none() && !place.path.is_empty() {
            // The nearest field that stands on its own line.
            let mut path = place.path.as_str();
            loop {
                place.line = manifests.line(&place.file, path);
                match path.rfind(['.', '[']) {
                    Some(end) if place.line.is_none() => path = &path[..end],
                    _ => break,
                }
            }
        }
    }
}
