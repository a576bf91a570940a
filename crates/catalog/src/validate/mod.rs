//! Whether a catalog is valid, in upstream's words (CATLG-22 to CATLG-26; OLM1-FBC-20).
//!
//! ```text
//!   content   names, duplicates, properties, pull specs, versions    (CATLG-23)   first hit ends it
//!   content   deprecations                                           (CATLG-24)   first hit ends it
//!   model     packages, channels, bundles, update graph              (CATLG-25, 26)   all hits, drawn as a tree
//! ```
//!
//! [`validate`] stops where `opm validate` stops. [`validate_all`] goes on and puts everything into one tree.

mod content;
mod graph;
mod tree;

use std::fmt::{self, Write as _};

use crate::model::Catalog;

/// What a finding is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Scope {
    /// The package, if one is known.
    pub package: Option<String>,
    /// The channel.
    pub channel: Option<String>,
    /// The bundle, inside the channel when both are given.
    pub bundle: Option<String>,
}

impl Scope {
    pub(crate) fn catalog() -> Self {
        Self::default()
    }

    pub(crate) fn package(name: &str) -> Self {
        Self { package: Some(name.to_owned()), ..Self::default() }
    }

    pub(crate) fn channel(package: &str, channel: &str) -> Self {
        Self { channel: Some(channel.to_owned()), ..Self::package(package) }
    }

    pub(crate) fn bundle(package: &str, channel: &str, bundle: &str) -> Self {
        Self { bundle: Some(bundle.to_owned()), ..Self::channel(package, channel) }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it is about.
    pub scope: Scope,
    /// Upstream's words.
    pub text: String,
}

/// What is wrong with a catalog; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Validation {
    /// A content check failed; the model was not looked at.
    Content(Finding),
    /// Everything that was found, as a tree.
    Tree(Vec<Finding>),
}

impl Validation {
    /// The findings, in the order they are shown.
    pub fn findings(&self) -> &[Finding] {
        match self {
            Self::Content(finding) => std::slice::from_ref(finding),
            Self::Tree(findings) => findings,
        }
    }
}

impl fmt::Display for Validation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Content(finding) => f.write_str(&finding.text),
            Self::Tree(findings) => tree::draw(findings, f),
        }
    }
}

impl std::error::Error for Validation {}

/// Checks a catalog as `opm validate` does.
pub fn validate(catalog: &Catalog) -> Result<(), Validation> {
    let mut first = None;
    let model = content::check(catalog, &mut |finding| {
        first = Some(finding);
        content::Next::Stop
    });
    if let Some(finding) = first {
        return Err(Validation::Content(finding));
    }
    let findings = graph::check(&model);
    if findings.is_empty() { Ok(()) } else { Err(Validation::Tree(findings)) }
}

/// Checks a catalog and reports everything (`--all`).
pub fn validate_all(catalog: &Catalog) -> Result<(), Validation> {
    let mut findings = Vec::new();
    let model = content::check(catalog, &mut |finding| {
        findings.push(finding);
        content::Next::GoOn
    });
    findings.extend(graph::check(&model));
    if findings.is_empty() { Ok(()) } else { Err(Validation::Tree(findings)) }
}

/// Checks the model alone, as upstream does for catalogs that do not come from files.
pub fn validate_model(catalog: &Catalog) -> Result<(), Validation> {
    let model = content::check(catalog, &mut |_| content::Next::GoOn);
    let findings = graph::check(&model);
    if findings.is_empty() { Ok(()) } else { Err(Validation::Tree(findings)) }
}

/// A text as Go prints it with `%q`.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => {
                // Writing to a string does not fail.
                let _written = write!(out, "\\x{:02x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
