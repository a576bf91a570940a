//! The rules of Kubernetes 1.34 for each built-in kind, as pure functions on JSON values.
//!
//! ```text
//! facts/*.json ──> registry (resources, schemas) ──> discovery, openapi (documents)
//!
//! a request's body ──> encode (Go's form) ──> default ──> prepare (strategy) ──> validate ──> stored
//! a stored object  ──> table (columns, rows), fields (field selectors)
//! ```
//! No kind has a hand-written struct: types come from the recorded schemas; what schemas do not say
//! (defaults, strategies, validation, columns) stands in tables and functions a kind here.
//! Requirements: KAPI-DISC-01, KAPI-REST-01, KAPI-REST-06..08.

mod convert;
mod default;
pub mod discovery;
mod encode;
mod fields;
mod gvk;
pub mod limit_range;
pub mod openapi;
pub mod placement;
pub mod pod_security;
mod prepare;
pub mod quota;
mod registry;
pub mod resource_list;
pub mod schedule;
mod table;
mod validate;
mod warnings;

pub use convert::{convert, convertible, hub, settle};
pub use default::default;
pub use encode::{go_form, has_empty, stored_form, with_empties};
pub use fields::{field_selectors, field_value, unsupported_field};
pub use gvk::Gvk;
pub use mainstay_schema::quantity;
pub use prepare::{
    AllocationError, Allocator, Context, Requester, allocate_service, prepare_create, prepare_update, qos_class, released_by_service,
};
pub use registry::{Group, Registry, Resource, Subresource, registry};
pub use table::{Column, human_duration, row, table};
pub use validate::{
    admin_access, as_given, known_gaps, label_1035, refuse_admin_access, validate_create, validate_metadata, validate_metadata_update,
    validate_update,
};
pub use warnings::{warnings, warnings_of_given};
