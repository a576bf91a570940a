//! The categories of catalogs that users choose operators by (OLM0-HUB-08).

use std::fmt;

use serde_json::Value;

use crate::hub::NAMESPACE;

/// The publisher of the default catalogs.
const DEFAULT_PUBLISHER: &str = "Red Hat";
/// The publisher of the community's catalog on clusters other than OpenShift.
const COMMUNITY_PUBLISHER: &str = "OperatorHub.io";

/// The category of a catalog.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// Operators that Red Hat makes and supports.
    RedHat,
    /// Operators of partners, certified by Red Hat.
    Certified,
    /// Operators that are sold in the marketplace.
    Marketplace,
    /// Operators of the community, without support.
    Community,
    /// Operators of a catalog that was added to the cluster.
    #[default]
    Custom,
}

/// A text that is no category.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected Red Hat, Certified, Marketplace, Community or Custom, found {0:?}")]
pub struct UnknownCategory(String);

impl Category {
    /// All categories, in the order in which they are offered.
    pub const ALL: [Self; 5] = [Self::RedHat, Self::Certified, Self::Marketplace, Self::Community, Self::Custom];

    /// The category of a catalog. The name decides for the default catalogs alone: one of another publisher, or in another namespace, is Custom
    /// under any name.
    pub fn of(name: &str, namespace: &str, publisher: &str) -> Self {
        if publisher == COMMUNITY_PUBLISHER {
            return Self::Community;
        }
        if namespace != NAMESPACE || publisher != DEFAULT_PUBLISHER {
            return Self::Custom;
        }
        match name {
            "redhat-operators" => Self::RedHat,
            "certified-operators" => Self::Certified,
            "redhat-marketplace" => Self::Marketplace,
            "community-operators" => Self::Community,
            _ => Self::Custom,
        }
    }

    /// The category of a PackageManifest's catalog.
    pub fn of_manifest(manifest: &Value) -> Self {
        let text = |field: &str| manifest["status"][field].as_str().unwrap_or_default();
        Self::of(text("catalogSource"), text("catalogSourceNamespace"), text("catalogSourcePublisher"))
    }

    /// The category of a CatalogSource.
    pub fn of_source(source: &Value) -> Self {
        let text = |pointer: &str| source.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        Self::of(text("/metadata/name"), text("/metadata/namespace"), text("/spec/publisher"))
    }

    /// The category of this name; letter case, blanks and dashes do not matter.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn parse(text: &str) -> Result<Self, UnknownCategory> {
        let plain = |text: &str| text.to_lowercase().replace([' ', '-'], "");
        Self::ALL.into_iter().find(|category| plain(category.name()) == plain(text)).ok_or_else(|| UnknownCategory(text.to_owned()))
    }

    /// The name that users see.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RedHat => "Red Hat",
            Self::Certified => "Certified",
            Self::Marketplace => "Marketplace",
            Self::Community => "Community",
            Self::Custom => "Custom",
        }
    }

    /// The sentence that a user acknowledges by an installation from a catalog of this category; `None` if there is nothing to acknowledge.
    pub fn acknowledgement(self, catalog: &str) -> Option<String> {
        (self == Self::Community).then(|| {
            format!(
                "catalog {catalog} is of category Community: its operators are neither vetted nor supported; going on acknowledges this"
            )
        })
    }
}

impl fmt::Display for Category {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// OLM0-HUB-08: the default catalogs by name, if they are the defaults; everything else is Custom.
    #[test]
    fn categories_of_catalogs() {
        let market = "openshift-marketplace";
        for (name, namespace, publisher, category) in [
            ("redhat-operators", market, "Red Hat", Category::RedHat),
            ("certified-operators", market, "Red Hat", Category::Certified),
            ("redhat-marketplace", market, "Red Hat", Category::Marketplace),
            ("community-operators", market, "Red Hat", Category::Community),
            ("operatorhubio-catalog", "olm", "OperatorHub.io", Category::Community),
            ("redhat-operators", market, "Example Corp", Category::Custom),
            ("redhat-operators", "team", "Red Hat", Category::Custom),
            ("cs-redhat-operator-index-v4-19", market, "Red Hat", Category::Custom),
            ("team", "team", "", Category::Custom),
        ] {
            assert_eq!(Category::of(name, namespace, publisher), category, "{name} {namespace} {publisher}");
            let status =
                json!({"status": {"catalogSource": name, "catalogSourceNamespace": namespace, "catalogSourcePublisher": publisher}});
            assert_eq!(Category::of_manifest(&status), category);
            let source = json!({"metadata": {"name": name, "namespace": namespace}, "spec": {"publisher": publisher}});
            assert_eq!(Category::of_source(&source), category);
        }
        for category in Category::ALL {
            assert_eq!(Category::parse(category.name()), Ok(category));
            assert_eq!(category.acknowledgement("c/n").is_some(), category == Category::Community);
        }
        assert_eq!(Category::parse("red-hat"), Ok(Category::RedHat));
        assert!(Category::parse("best").is_err());
    }

    /// OLM0-HUB-08: the catalogs that OperatorHub brings are of the four categories of defaults.
    #[test]
    fn default_catalogs_have_categories() {
        let definitions = crate::hub::definitions(&crate::hub::default_catalogs(), "4.10.0").unwrap_or_default();
        let found: Vec<Category> = definitions.iter().map(Category::of_source).collect();
        assert_eq!(found.len(), 4);
        assert!(!found.contains(&Category::Custom), "{found:?}");
    }
}
