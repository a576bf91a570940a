//! MachineSets: which machines are a set's, which of them go first, and what its status says (MACH-SET-02 to MACH-SET-04).

mod exp;
pub mod members;
pub mod plan;
pub mod priority;
pub mod status;
