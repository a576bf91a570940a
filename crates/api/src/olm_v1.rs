//! `olm.operatorframework.io/v1`: ClusterExtension (OLM1-API-01) and ClusterCatalog (OLM1-CAT-01).

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;

/// The label with a catalog's own name (OLM1-CAT-03).
pub const NAME_LABEL: &str = "olm.operatorframework.io/metadata.name";
/// The annotation that asks for OwnNamespace or SingleNamespace (OLM1-INST-11).
pub const WATCH_NAMESPACE: &str = "olm.operatorframework.io/watch-namespace";
/// Labels of every applied object (OLM1-CTRL-10).
pub const OWNER_KIND_LABEL: &str = "olm.operatorframework.io/owner-kind";
/// See [`OWNER_KIND_LABEL`].
pub const OWNER_NAME_LABEL: &str = "olm.operatorframework.io/owner-name";

/// An operator, or other content, that the cluster is to have.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "olm.operatorframework.io",
    version = "v1",
    kind = "ClusterExtension",
    plural = "clusterextensions",
    singular = "clusterextension",
    status = "ClusterExtensionStatus",
    derive = "PartialEq",
    crates(kube_core = "::kube_core"),
    printcolumn = r#"{"name":"Installed Bundle","type":"string","jsonPath":".status.install.bundle.name"}"#,
    printcolumn = r#"{"name":"Version","type":"string","jsonPath":".status.install.bundle.version"}"#,
    printcolumn = r#"{"name":"Installed","type":"string","jsonPath":".status.conditions[?(@.type=='Installed')].status"}"#,
    printcolumn = r#"{"name":"Progressing","type":"string","jsonPath":".status.conditions[?(@.type=='Progressing')].status"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
pub struct ClusterExtensionSpec {
    /// Where the ServiceAccount is, and where namespaced content goes by default (OLM1-API-02).
    #[schemars(
        length(max = 63),
        extend("x-kubernetes-validations" = [
            {"message": "namespace is immutable", "rule": "self == oldSelf"},
            {"message": "namespace must be a valid DNS1123 label", "rule": "self.matches(\"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$\")"}
        ])
    )]
    pub namespace: String,
    /// The account that installs; without a name nothing is installed (OLM1-API-07).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ServiceAccountReference>,
    /// Where the content comes from.
    pub source: Source,
    /// How it is installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install: Option<Install>,
    /// What the bundle lets people choose (OLM1-API-06).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<ExtensionConfig>,
}

/// The configuration of an extension, checked against what its bundle takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "message": "inline is required when configType is Inline, and forbidden otherwise",
        "rule": "has(self.configType) && self.configType == 'Inline' ?has(self.inline) : !has(self.inline)"
    }
]))]
pub struct ExtensionConfig {
    /// Only `Inline`.
    pub config_type: ConfigType,
    /// `watchNamespace` and `deploymentConfig`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "BTreeMap<String, serde_json::Value>", extend(
        "minProperties" = 1,
        "additionalProperties" = null,
        "x-kubernetes-preserve-unknown-fields" = true
    ))]
    pub inline: Option<serde_json::Value>,
}

/// The kinds of configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[allow(missing_docs, reason = "the names of the API")]
pub enum ConfigType {
    Inline,
}

/// A ServiceAccount of the extension's namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ServiceAccountReference {
    /// Its name; may be cleared, not changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        extend("x-kubernetes-validations" = [
            {"message": "name is immutable once set but may be cleared", "rule": "self == oldSelf"},
            {
                "message": "name must be a valid DNS1123 subdomain. It must contain only lowercase alphanumeric characters, hyphens (-) or periods (.), start and end with an alphanumeric character, and be no longer than 253 characters",
                "rule": "self.matches(\"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$\")"
            }
        ])
    )]
    pub name: Option<String>,
}

/// Where an extension's content comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "message": "catalog is required when sourceType is Catalog, and forbidden otherwise",
        "rule": "has(self.sourceType) && self.sourceType == 'Catalog' ? has(self.catalog) : !has(self.catalog)"
    }
]))]
pub struct Source {
    /// Only `Catalog`.
    pub source_type: SourceType,
    /// Which package of the catalogs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog: Option<CatalogSource>,
}

/// The kinds of source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[allow(missing_docs, reason = "the names of the API")]
pub enum SourceType {
    Catalog,
}

/// A package of the cluster's catalogs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CatalogSource {
    /// The package.
    #[schemars(
        length(max = 253),
        extend("x-kubernetes-validations" = [
            {"message": "packageName is immutable", "rule": "self == oldSelf"},
            {
                "message": "packageName must be a valid DNS1123 subdomain. It must contain only lowercase alphanumeric characters, hyphens (-) or periods (.), start and end with an alphanumeric character, and be no longer than 253 characters",
                "rule": "self.matches(\"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$\")"
            }
        ])
    )]
    pub package_name: String,
    /// The versions that will do (OLM1-UPG-08).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-validations" = [
            {
                "message": "invalid version expression",
                "rule": "self.matches(\"^(\\\\s*(=||!=|>|<|>=|=>|<=|=<|~|~>|\\\\^)\\\\s*(v?(0|[1-9]\\\\d*|[x|X|\\\\*])(\\\\.(0|[1-9]\\\\d*|x|X|\\\\*]))?(\\\\.(0|[1-9]\\\\d*|x|X|\\\\*))?(-([0-9A-Za-z\\\\-]+(\\\\.[0-9A-Za-z\\\\-]+)*))?(\\\\+([0-9A-Za-z\\\\-]+(\\\\.[0-9A-Za-z\\\\-]+)*))?)\\\\s*)((?:\\\\s+|,\\\\s*|\\\\s*\\\\|\\\\|\\\\s*)(=||!=|>|<|>=|=>|<=|=<|~|~>|\\\\^)\\\\s*(v?(0|[1-9]\\\\d*|x|X|\\\\*])(\\\\.(0|[1-9]\\\\d*|x|X|\\\\*))?(\\\\.(0|[1-9]\\\\d*|x|X|\\\\*]))?(-([0-9A-Za-z\\\\-]+(\\\\.[0-9A-Za-z\\\\-]+)*))?(\\\\+([0-9A-Za-z\\\\-]+(\\\\.[0-9A-Za-z\\\\-]+)*))?)\\\\s*)*$\")"
            }
        ])
    )]
    pub version: Option<String>,
    /// The channels to choose from; none is all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub channels: Vec<ChannelName>,
    /// The catalogs to choose from, by label; none is all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Whether upgrades follow the catalog's edges.
    #[serde(default)]
    pub upgrade_constraint_policy: UpgradeConstraintPolicy,
}

/// A channel's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct ChannelName(
    /// The name.
    #[schemars(
        length(max = 253),
        extend("x-kubernetes-validations" = [
            {
                "message": "channels entries must be valid DNS1123 subdomains",
                "rule": "self.matches(\"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$\")"
            }
        ])
    )]
    pub String,
);

/// Whether upgrades follow the catalog's edges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum UpgradeConstraintPolicy {
    /// Only to successors that the catalog names.
    #[default]
    CatalogProvided,
    /// To any version, downgrades too: the user vouches for it.
    SelfCertified,
}

/// A label selector; both forms must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct LabelSelector {
    /// Requirements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: Vec<LabelRequirement>,
    /// Labels with their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
}

/// One requirement of a label selector.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LabelRequirement {
    /// The label.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// The values of `In` and `NotIn`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Vec<String>,
}

/// How an extension is installed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [
    {"message": "at least one of [preflight] are required when install is specified", "rule": "has(self.preflight)"}
]))]
pub struct Install {
    /// Checks before anything is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preflight: Option<Preflight>,
}

/// Checks before anything is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "required" = ["crdUpgradeSafety"],
    "x-kubernetes-validations" = [
        {"message": "at least one of [crdUpgradeSafety] are required when preflight is specified", "rule": "has(self.crdUpgradeSafety)"}
    ]
))]
pub struct Preflight {
    /// Whether a CRD change that could lose data stops an upgrade.
    pub crd_upgrade_safety: CrdUpgradeSafety,
}

/// Whether a CRD change that could lose data stops an upgrade.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CrdUpgradeSafety {
    /// `Strict` is the default where the block is absent.
    pub enforcement: Enforcement,
}

/// Whether a check is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[allow(missing_docs, reason = "the names of the API")]
pub enum Enforcement {
    None,
    Strict,
}

/// What became of an extension.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterExtensionStatus {
    /// The six types of OLM1-CTRL-02.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// What is installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install: Option<InstallStatus>,
}

/// What is installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InstallStatus {
    /// The installed bundle.
    pub bundle: BundleMetadata,
}

/// A bundle, by name and version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BundleMetadata {
    /// The bundle's name.
    #[schemars(extend("x-kubernetes-validations" = [
        {
            "message": "packageName must be a valid DNS1123 subdomain. It must contain only lowercase alphanumeric characters, hyphens (-) or periods (.), start and end with an alphanumeric character, and be no longer than 253 characters",
            "rule": "self.matches(\"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$\")"
        }
    ]))]
    pub name: String,
    /// The bundle's version.
    #[schemars(extend("x-kubernetes-validations" = [
        {
            "message": "version must be well-formed semver",
            "rule": "self.matches(\"^([0-9]+)(\\\\.[0-9]+)?(\\\\.[0-9]+)?(-([-0-9A-Za-z]+(\\\\.[-0-9A-Za-z]+)*))?(\\\\+([-0-9A-Za-z]+(-\\\\.[-0-9A-Za-z]+)*))?\")"
        }
    ]))]
    pub version: String,
}

/// A catalog of packages, held in an OCI image.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "olm.operatorframework.io",
    version = "v1",
    kind = "ClusterCatalog",
    plural = "clustercatalogs",
    singular = "clustercatalog",
    status = "ClusterCatalogStatus",
    derive = "PartialEq",
    crates(kube_core = "::kube_core"),
    printcolumn = r#"{"name":"LastUnpacked","type":"date","jsonPath":".status.lastUnpacked"}"#,
    printcolumn = r#"{"name":"Serving","type":"string","jsonPath":".status.conditions[?(@.type==\"Serving\")].status"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
pub struct ClusterCatalogSpec {
    /// Where the content is.
    pub source: CatalogImageSource,
    /// The catalog with the higher number wins (OLM1-SEL-07).
    #[serde(default)]
    #[schemars(range(min = -2_147_483_648, max = 2_147_483_647))]
    pub priority: i32,
    /// Whether clients get the content.
    #[serde(default)]
    pub availability_mode: AvailabilityMode,
}

/// Whether clients get a catalog's content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[allow(missing_docs, reason = "the names of the API")]
pub enum AvailabilityMode {
    Unavailable,
    #[default]
    Available,
}

/// Where a catalog's content is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "message": "image is required when source type is Image, and forbidden otherwise",
        "rule": "has(self.type) && self.type == 'Image' ? has(self.image) : !has(self.image)"
    }
]))]
pub struct CatalogImageSource {
    /// Only `Image`.
    #[serde(rename = "type")]
    pub kind: CatalogSourceType,
    /// The image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageSource>,
}

/// The kinds of catalog source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[allow(missing_docs, reason = "the names of the API")]
pub enum CatalogSourceType {
    Image,
}

/// A catalog image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "message": "cannot specify pollIntervalMinutes while using digest-based image",
        "rule": "self.ref.find('(@.*:)') != \"\" ? !has(self.pollIntervalMinutes) : true"
    }
]))]
pub struct ImageSource {
    /// The reference: `DOMAIN[:PORT]/NAME` with a tag or a digest.
    #[serde(rename = "ref")]
    #[schemars(
        length(max = 1000),
        extend("x-kubernetes-validations" = [
            {
                "message": "must start with a valid domain. valid domains must be alphanumeric characters (lowercase and uppercase) separated by the \".\" character.",
                "rule": "self.matches('^([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])((\\\\.([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))+)?(:[0-9]+)?\\\\b')"
            },
            {
                "message": "a valid name is required. valid names must contain lowercase alphanumeric characters separated only by the \".\", \"_\", \"__\", \"-\" characters.",
                "rule": "self.find('(\\\\/[a-z0-9]+((([._]|__|[-]*)[a-z0-9]+)+)?((\\\\/[a-z0-9]+((([._]|__|[-]*)[a-z0-9]+)+)?)+)?)') != \"\""
            },
            {"message": "must end with a digest or a tag", "rule": "self.find('(@.*:)') != \"\" || self.find(':.*$') != \"\""},
            {
                "message": "tag is invalid. the tag must not be more than 127 characters",
                "rule": "self.find('(@.*:)') == \"\" ? (self.find(':.*$') != \"\" ? self.find(':.*$').substring(1).size() <= 127 : true) : true"
            },
            {
                "message": "tag is invalid. valid tags must begin with a word character (alphanumeric + \"_\") followed by word characters or \".\", and \"-\" characters",
                "rule": "self.find('(@.*:)') == \"\" ? (self.find(':.*$') != \"\" ? self.find(':.*$').matches(':[\\\\w][\\\\w.-]*$') : true) : true"
            },
            {
                "message": "digest algorithm is not valid. valid algorithms must start with an uppercase or lowercase alpha character followed by alphanumeric characters and may contain the \"-\", \"_\", \"+\", and \".\" characters.",
                "rule": "self.find('(@.*:)') != \"\" ? self.find('(@.*:)').matches('(@[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*[:])') : true"
            },
            {
                "message": "digest is not valid. the encoded string must be at least 32 characters",
                "rule": "self.find('(@.*:)') != \"\" ? self.find(':.*$').substring(1).size() >= 32 : true"
            },
            {
                "message": "digest is not valid. the encoded string must only contain hex characters (A-F, a-f, 0-9)",
                "rule": "self.find('(@.*:)') != \"\" ? self.find(':.*$').matches(':[0-9A-Fa-f]*$') : true"
            }
        ])
    )]
    pub reference: String,
    /// How often the tag is looked at, in minutes; absent is never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), extend("format" = null))]
    pub poll_interval_minutes: Option<i64>,
}

/// What became of a catalog.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCatalogStatus {
    /// `Serving` and `Progressing` (OLM1-CAT-08).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// What the served content was read from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_source: Option<ResolvedSource>,
    /// Where the content is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub urls: Option<CatalogUrls>,
    /// When the content was last unpacked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_unpacked: Option<Time>,
}

/// What the served content was read from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "message": "image is required when source type is Image, and forbidden otherwise",
        "rule": "has(self.type) && self.type == 'Image' ? has(self.image) : !has(self.image)"
    }
]))]
pub struct ResolvedSource {
    /// Only `Image`.
    #[serde(rename = "type")]
    pub kind: CatalogSourceType,
    /// The image, by digest.
    pub image: ResolvedImage,
}

/// An image, by digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResolvedImage {
    /// The reference, with its digest.
    #[serde(rename = "ref")]
    #[schemars(
        length(max = 1000),
        extend("x-kubernetes-validations" = [
            {
                "message": "must start with a valid domain. valid domains must be alphanumeric characters (lowercase and uppercase) separated by the \".\" character.",
                "rule": "self.matches('^([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])((\\\\.([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))+)?(:[0-9]+)?\\\\b')"
            },
            {
                "message": "a valid name is required. valid names must contain lowercase alphanumeric characters separated only by the \".\", \"_\", \"__\", \"-\" characters.",
                "rule": "self.find('(\\\\/[a-z0-9]+((([._]|__|[-]*)[a-z0-9]+)+)?((\\\\/[a-z0-9]+((([._]|__|[-]*)[a-z0-9]+)+)?)+)?)') != \"\""
            },
            {"message": "must end with a digest", "rule": "self.find('(@.*:)') != \"\""},
            {
                "message": "digest algorithm is not valid. valid algorithms must start with an uppercase or lowercase alpha character followed by alphanumeric characters and may contain the \"-\", \"_\", \"+\", and \".\" characters.",
                "rule": "self.find('(@.*:)') != \"\" ? self.find('(@.*:)').matches('(@[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*[:])') : true"
            },
            {
                "message": "digest is not valid. the encoded string must be at least 32 characters",
                "rule": "self.find('(@.*:)') != \"\" ? self.find(':.*$').substring(1).size() >= 32 : true"
            },
            {
                "message": "digest is not valid. the encoded string must only contain hex characters (A-F, a-f, 0-9)",
                "rule": "self.find('(@.*:)') != \"\" ? self.find(':.*$').matches(':[0-9A-Fa-f]*$') : true"
            }
        ])
    )]
    pub reference: String,
}

/// Where a catalog's content is served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CatalogUrls {
    /// Clients append an endpoint's path to it (OLM1-CAT-18).
    #[schemars(
        length(max = 525),
        extend("x-kubernetes-validations" = [
            {"message": "must be a valid URL", "rule": "isURL(self)"},
            {
                "message": "scheme must be either http or https",
                "rule": "isURL(self) ? (url(self).getScheme() == \"http\" || url(self).getScheme() == \"https\") : true"
            }
        ])
    )]
    pub base: String,
}
