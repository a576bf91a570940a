//! The oracle of `oracle.rs`: types, values and ownership in their plainest form.

pub mod ownership;
pub mod types;
