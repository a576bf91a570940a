//! What several tests of this crate read.

use serde_json::Value;
use sha2::{Digest, Sha256};

pub use mainstay_testing::bundles::{Files, bundles, legacy};

/// The lines of a recorded answer.
pub fn recorded(name: &str) -> Option<Vec<Value>> {
    mainstay_testing::data::json_lines(&format!("bundle-oracle/{name}"))
}

/// SHA-256 of the canonical JSON: sorted keys, no blanks, UTF-8, numbers as Go writes them.
pub fn sha256(value: &Value) -> String {
    let text = mainstay_bundle::go::to_string(value).replace("\\u003c", "<").replace("\\u003e", ">").replace("\\u0026", "&");
    format!("{:x}", Sha256::digest(text.as_bytes()))
}
