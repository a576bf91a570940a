//! The functions of Kubernetes' libraries, one module a library.

pub(crate) mod authz;
pub(crate) mod format;
pub(crate) mod lists;
mod names;
pub(crate) mod net;
pub(crate) mod quantity;
pub(crate) mod strings;
pub(crate) mod time;
pub(crate) mod url;

use regex::Regex;

/// A compiled pattern; its size is limited.
pub(crate) fn regex_of(pattern: &str) -> Result<Regex, regex::Error> {
    regex::RegexBuilder::new(pattern).size_limit(1 << 20).build()
}
