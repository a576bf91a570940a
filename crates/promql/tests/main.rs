//! Tests of the query language.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod grammar;
mod values;

/// A text in a URL.
fn encoded(text: &str) -> String {
    text.bytes().map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
