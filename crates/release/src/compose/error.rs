//! Releases that cannot be made.

use mainstay_golang::quote;

use super::rewrite::RewriteError;
use crate::files::FilesError;
use crate::info::{FileError, LabelError};
use crate::manifest::ManifestError;
use crate::metadata::MetadataError;

/// A release that cannot be made, in `oc`'s words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ComposeError {
    /// `--name` is no version.
    #[error("--name must be a semantic version: {0}")]
    Name(mainstay_versions::Error),
    /// A neighbour in the graph is no version.
    #[error("{} is not a valid semantic version: {error}", quote(.version))]
    Neighbour {
        /// The version.
        version: String,
        /// The rule that it breaks.
        error: mainstay_versions::Error,
    },
    /// `--metadata` is no JSON object.
    #[error("invalid --metadata: {0}")]
    Metadata(String),
    /// The description would be refused by clusters.
    #[error("invalid --metadata: {0}")]
    Description(#[from] MetadataError),
    /// `--component-versions` cannot be read.
    #[error("--component-versions is invalid: {0}")]
    ComponentVersions(LabelError),
    /// The list of images of an operator cannot be read.
    #[error("operator {} contained an invalid image-references file: {cause}", quote(.operator))]
    References {
        /// The operator.
        operator: String,
        /// The reason.
        cause: Box<ReferencesProblem>,
    },
    /// A manifest cannot be rewritten.
    #[error("{operator}/{file}: {error}")]
    Rewrite {
        /// The operator.
        operator: String,
        /// The file.
        file: String,
        /// The reason.
        error: Box<RewriteError>,
    },
    /// A manifest cannot be read.
    #[error("{operator}/{file}: {problem}")]
    Manifest {
        /// The operator.
        operator: String,
        /// The file.
        file: String,
        /// The reason.
        problem: Box<ManifestProblem>,
    },
    /// The release would be larger than any that is read.
    #[error("the release has {0}")]
    Size(#[from] FilesError),
}

/// The fault of the list of images of an operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the sentences say it")]
pub enum ReferencesProblem {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("no from.name for the tag {0}")]
    NoName(String),
    #[error("no input image tag named {}", quote(.0))]
    NoImage(String),
    #[error(transparent)]
    Rewrite(#[from] RewriteError),
    #[error("input image stream has an invalid version annotation for tag {}: {label}: {error}", quote(.tag))]
    Label { tag: String, label: String, error: LabelError },
    #[error(
        "input image stream has multiple versions defined for version {component}: {tag} defines {version} but was already set to {known} on \
         {others}"
    )]
    Versions { component: String, tag: String, version: String, known: String, others: String },
    #[error("unable to read default versions label on input image stream: {0}")]
    Defaults(LabelError),
}

/// The fault of a manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the sentences say it")]
pub enum ManifestProblem {
    #[error("invalid YAML/JSON: {0}")]
    Syntax(String),
    #[error("not a valid YAML/JSON object, got: {0}")]
    NoObject(String),
    #[error("manifests must contain Kubernetes API objects with 'kind' and 'apiVersion' set (line {0})")]
    NoKind(usize),
    #[error(transparent)]
    Refused(ManifestError),
}
