//! The migration of an operator of OLM classic to OLM v1, and the way back (MS-RB-03). The decisions are `olm-classic-core`'s `migration`.
//!
//! ```text
//!   observed: the operator, what OLM v1 offers, a dry run ──► plan ──► Backup (a file, written first) ──► forward ──► done
//!                                                                         └──► back: the extension lets go, a Subscription takes over
//! ```

mod back;
mod backup;
mod forward;
mod observed;
mod saved;

use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_olm_classic_core::migration::{Migration, Obstacle};

use serde::{Deserialize, Serialize};

use crate::cluster_catalogs::CatalogRequest;

pub use back::back;
pub use backup::{Backup, State};
pub use forward::forward;
pub use observed::observe;
pub use saved::SavedMigration;

/// A request to migrate an operator.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// The Subscription, package or CSV.
    pub operator: String,
    /// Its namespace.
    pub namespace: String,
    /// The name of the extension; the package's if none is given.
    pub extension: Option<String>,
    /// The only ClusterCatalog to take the bundle from.
    pub catalog: Option<String>,
    /// Leaves the version pinned.
    pub keep_pin: bool,
}

/// A planned migration.
#[derive(Debug, Clone)]
pub struct Planned {
    /// The plan.
    pub migration: Migration,
    /// The backup that is kept before anything changes, with the objects that will be written.
    pub backup: Backup,
    /// The ClusterCatalog that would offer the package, where none does: of the image of the Subscription's CatalogSource.
    pub missing_catalog: Option<CatalogRequest>,
    /// The objects that could not be looked at.
    pub notes: Vec<String>,
}

impl Planned {
    /// The reason why the migration is not done, if there is one.
    pub fn refusal(&self) -> Option<Failure> {
        let obstacles = &self.migration.obstacles;
        let first = obstacles.first()?;
        let Backup { namespace, package, csv_name, .. } = &self.backup;
        let failure = Failure::new(FailureKind::Impossible, format!("operator {namespace}/{package}"), first.to_string());
        let failure = obstacles.iter().skip(1).fold(failure, |failure, other| failure.because(other.to_string()));
        let hints = obstacles.iter().filter_map(|obstacle| match obstacle {
            Obstacle::Phase { .. } => Some(format!("mainstay explain csv {csv_name} -n {namespace} says why")),
            Obstacle::NotInstalled => Some(format!("mainstay explain subscription {package} -n {namespace} says why")),
            Obstacle::Condition { .. } => {
                Some(format!("mainstay explain operatorcondition {csv_name} -n {namespace} says who, and how to override it"))
            }
            Obstacle::NotOffered(_) => Some(match &self.missing_catalog {
                Some(catalog) => format!("mainstay catalog add {} --ref {}", catalog.name, catalog.reference),
                None => "mainstay catalog list shows the ClusterCatalogs".to_owned(),
            }),
            _ => None,
        });
        Some(hints.fold(failure, Failure::hint))
    }
}
