//! The errors of reading, rendering and installing a bundle.

use crate::go::Mismatch;
use crate::read::InvalidDocument;

/// The reason why files are not a bundle. Texts that upstream records are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// A file that a bundle must have is absent.
    #[error("open {path}: no such file or directory")]
    NoFile {
        /// The path inside the bundle.
        path: String,
    },
    /// There is no `manifests` directory.
    #[error("stat manifests: no such file or directory")]
    NoManifests,
    /// A directory below `manifests`.
    #[error("subdirectories are not allowed within the \"manifests\" directory of the bundle image filesystem: found {path:?}")]
    Subdirectory {
        /// The directory.
        path: String,
    },
    /// There is no CSV among the manifests.
    #[error("no ClusterServiceVersion found in \"manifests\"")]
    NoCsv,
    /// There is more than one CSV among the manifests.
    #[error("found {} ClusterServiceVersions in \"manifests\" ({}): a bundle holds exactly one", .names.len(), .names.join(", "))]
    SeveralCsvs {
        /// Their names.
        names: Vec<String>,
    },
    /// A path that leads out of the bundle.
    #[error("{path:?}: a bundle's paths are relative and stay inside it")]
    Path {
        /// The path.
        path: String,
    },
    /// More or larger files than a bundle may have.
    #[error("{what}: {found}, and a bundle may have at most {limit}")]
    Limit {
        /// The counted thing.
        what: String,
        /// The number or size found.
        found: usize,
        /// The largest number or size allowed.
        limit: usize,
    },
    /// A manifest that holds no Kubernetes objects.
    #[error("error parsing objects in {path:?}: {problem}")]
    Objects {
        /// The file.
        path: String,
        /// The problem, with its line if it is known.
        #[source]
        problem: InvalidDocument,
    },
    /// A metadata file that cannot be read.
    #[error("{path}: {problem}")]
    Metadata {
        /// The file.
        path: String,
        /// The problem.
        #[source]
        problem: InvalidDocument,
    },
    /// A field of an object that does not have the type its kind asks for.
    #[error("error parsing objects in {path:?}: {kind} {name:?}: {mismatch}")]
    Field {
        /// The file.
        path: String,
        /// The object's kind.
        kind: String,
        /// The object's name.
        name: String,
        /// The field and the type that it should have.
        mismatch: Box<Mismatch>,
    },
    /// The CSV's own list of properties cannot be read.
    #[error("failed to unmarshal csv.metadata.annotations['olm.properties']: {problem}")]
    CsvProperties {
        /// The problem.
        problem: String,
    },
    /// The catalog's rules are not met.
    #[error("{problem}")]
    Catalog {
        /// The problem, in `opm`'s words.
        problem: String,
    },
}

/// A bundle that cannot be rendered as asked. The texts are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// The bundle does not pass its checks (OLM1-INST-16).
    #[error("{}", .findings.join("\n"))]
    Invalid {
        /// The findings in order.
        findings: Vec<String>,
    },
    /// The target namespaces do not fit the bundle's install modes (OLM1-INST-02).
    #[error("invalid option(s): invalid target namespaces [{given}]: {problem}")]
    TargetNamespaces {
        /// The namespaces asked for, separated by blanks.
        given: String,
        /// The reason.
        problem: String,
    },
    /// A manifest of a kind that is not installed.
    #[error("bundle contains unsupported resource: Name: {name}, Kind: {kind}")]
    UnsupportedKind {
        /// The object's name.
        name: String,
        /// Its kind.
        kind: String,
    },
    /// A CRD that two conversion webhooks claim.
    #[error("custom resource definition '{crd}' is referenced by multiple conversion webhook definitions")]
    SharedConversion {
        /// The CRD's name.
        crd: String,
    },
    /// A CRD with a conversion webhook that keeps unknown fields.
    #[error(
        "custom resource definition '{crd}' must have .spec.preserveUnknownFields set to false to let API Server call webhook to do the conversion"
    )]
    PreservesUnknownFields {
        /// The CRD's name.
        crd: String,
    },
    /// The bundle was read for a catalog and cannot be installed.
    #[error(transparent)]
    Unreadable(#[from] ReadError),
}
