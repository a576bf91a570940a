//! A change as shown before it is applied (MS-PLAN-01): every object and field, CRDs with their custom resources, permissions, images.
//!
//! Nothing is decided here: the preview shows exactly what the steps do.

mod comparison;
pub mod crds;
pub mod custom_resources;
mod document;
pub mod fields;
mod permissions;
mod revisions;
mod served;
mod writes;

use std::collections::BTreeMap;

use mainstay_diagnostics::SharedError;
use serde_json::Value;

pub use comparison::{Comparison, api_extensions, named, restarts, running};
pub use document::{
    Approval, Bundle, Change, CrdChange, Dependency, Existing, FieldChange, Image, ImageSize, Kind, Object, Preview, Problem, Restart,
    Step, Verification,
};
pub use permissions::delta;
pub use revisions::{FactRevision, moved, rendering};
pub use served::{Cluster, Served, Told, told};
pub use writes::written;

/// The owner of an object that is not managed by any subject, in the document.
pub const UNMANAGED: &str = "nobody";
/// The reason shown for a fact that was not asked for.
pub const NOT_ASKED: &str = "not asked";

/// The custom resources of a CRD.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CustomResources {
    /// The number of custom resources.
    pub count: usize,
    /// The custom resources that were read; if there are very many, only the first.
    pub objects: Vec<Value>,
}

/// Custom resources by the name of their CRD, or the reason why they are unknown.
pub type KnownInstances = BTreeMap<String, Result<CustomResources, SharedError>>;
