//! Provider specs of clouds, as far as a rehearsal needs them: what makes a machine's size and place, and the names that clouds give instances
//! (MACH-PROV-10). They are kept as they are; no cloud is ever asked.
//!
//! ```text
//!   shape   which kinds there are, and where each says what
//!   spec    one machine's size and place, or what is missing
//!   name    the name of an instance, in the form of its cloud
//! ```

mod name;
mod shape;
mod spec;

pub use name::provider_id;
pub use shape::{Cloud, kinds};
pub use spec::{CloudError, CloudSpec, Problem};
