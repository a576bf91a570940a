//! Why a Subscription cannot be made, and what would help.

use super::watched;

/// Why a Subscription cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No catalog that the namespace sees has the package.
    #[error("no catalog that the namespace sees has it")]
    UnknownPackage(String),
    /// The catalog does not have it; others do.
    #[error("catalog {catalog} does not have it")]
    NotInCatalog {
        /// The package.
        package: String,
        /// The catalog.
        catalog: String,
        /// The catalogs that have it.
        others: Vec<String>,
    },
    /// More than one catalog has it.
    #[error("is in {} catalogs: {}", catalogs.len(), catalogs.join(", "))]
    SeveralCatalogs {
        /// The package.
        package: String,
        /// The catalogs.
        catalogs: Vec<String>,
    },
    /// The package has no such channel.
    #[error("has no channel {channel}; its channels are {}", channels.join(", "))]
    UnknownChannel {
        /// The package.
        package: String,
        /// The channel.
        channel: String,
        /// The channels that it has.
        channels: Vec<String>,
    },
    /// The channel does not list the version or CSV.
    #[error("{} {wanted} is not in channel {channel}", if *is_version { "version" } else { "CSV" })]
    NotInChannel {
        /// The version or CSV.
        wanted: String,
        /// True if it is a version.
        is_version: bool,
        /// The channel.
        channel: String,
        /// The names that the channel lists.
        listed: Vec<String>,
        /// Channels that list it.
        elsewhere: Vec<String>,
    },
    /// The namespace is missing.
    #[error("not found")]
    NoNamespace(String),
    /// A Subscription of this name is there.
    #[error("exists already, for package {package}")]
    Exists {
        /// Its name.
        name: String,
        /// Its namespace.
        namespace: String,
        /// Its package.
        package: String,
    },
    /// Another Subscription of the namespace asks for the package.
    #[error("subscription {namespace}/{name} asks for it already")]
    PackageSubscribed {
        /// The package.
        package: String,
        /// The namespace.
        namespace: String,
        /// The Subscription.
        name: String,
    },
    /// The namespace has no OperatorGroup, and none is to be made.
    #[error("has no OperatorGroup")]
    NoGroup(String),
    /// The namespace has several OperatorGroups.
    #[error("has {} OperatorGroups, and OLM installs nothing there: {}", groups.len(), groups.join(", "))]
    SeveralGroups {
        /// The namespace.
        namespace: String,
        /// The groups.
        groups: Vec<String>,
    },
    /// The OperatorGroup that is there watches other namespaces.
    #[error("watches {}, and {} is wanted", watched(present), watched(wanted))]
    OtherTargets {
        /// The group.
        group: String,
        /// The namespaces that it watches.
        present: Vec<String>,
        /// The namespaces that are wanted.
        wanted: Vec<String>,
    },
    /// The install modes do not allow the targets.
    #[error("{csv} cannot watch {}: {why}", watched(targets))]
    UnsupportedModes {
        /// The CSV.
        csv: String,
        /// The group that is there; none if it would be made.
        group: Option<String>,
        /// The targets.
        targets: Vec<String>,
        /// Why, in upstream's words.
        why: String,
        /// The modes that are supported.
        supported: Vec<String>,
    },
    /// The install modes need namespaces that were not named.
    #[error("{csv} supports {} only, and no namespace to watch is named", supported.join(", "))]
    NamespacesNotSaid {
        /// The CSV.
        csv: String,
        /// The modes that are supported.
        supported: Vec<String>,
    },
}

impl Refusal {
    /// Kind and name of the object that is at fault.
    pub fn subject(&self, package: &str) -> String {
        match self {
            Self::NoNamespace(namespace) | Self::SeveralGroups { namespace, .. } | Self::NoGroup(namespace) => {
                format!("namespace {namespace}")
            }
            Self::Exists { name, namespace, .. } => format!("subscription {namespace}/{name}"),
            Self::OtherTargets { group, .. } | Self::UnsupportedModes { group: Some(group), .. } => format!("operatorgroup {group}"),
            _ => format!("package {package}"),
        }
    }

    /// Returns whether something that was named is not there.
    pub fn is_unknown(&self) -> bool {
        matches!(
            self,
            Self::UnknownPackage(_)
                | Self::NotInCatalog { .. }
                | Self::UnknownChannel { .. }
                | Self::NotInChannel { .. }
                | Self::NoNamespace(_)
        )
    }

    /// The next actions that would help.
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::UnknownPackage(_) => vec!["mainstay operator list-available shows the packages of all catalogs".to_owned()],
            Self::NotInCatalog { others, .. } => others.iter().map(|other| format!("--catalog {other} has it")).collect(),
            Self::SeveralCatalogs { catalogs, .. } => {
                catalogs.iter().map(|catalog| format!("--catalog {catalog} takes that one")).collect()
            }
            Self::UnknownChannel { .. } | Self::NamespacesNotSaid { .. } => match self {
                Self::NamespacesNotSaid { .. } => vec!["--watch-namespace NAMESPACE names one".to_owned()],
                _ => Vec::new(),
            },
            Self::NotInChannel { elsewhere, .. } => elsewhere.iter().map(|channel| format!("--channel {channel} has it")).collect(),
            Self::NoNamespace(_) => vec!["--create-namespace makes it".to_owned()],
            Self::Exists { name, namespace, .. } | Self::PackageSubscribed { name, namespace, .. } => {
                vec![format!("mainstay explain subscription {name} -n {namespace} shows how it stands")]
            }
            Self::NoGroup(_) => vec!["-C makes one".to_owned()],
            Self::SeveralGroups { namespace, groups } => {
                groups.last().map(|last| format!("kubectl delete operatorgroup {last} -n {namespace} removes one")).into_iter().collect()
            }
            Self::OtherTargets { .. } | Self::UnsupportedModes { group: Some(_), .. } => {
                vec!["-n NAMESPACE --create-namespace installs it into a namespace of its own, with an OperatorGroup that fits".to_owned()]
            }
            Self::UnsupportedModes { supported, .. } => {
                vec![format!("it supports {}", if supported.is_empty() { "no install mode".to_owned() } else { supported.join(", ") })]
            }
        }
    }
}
