//! Validation of a catalog, in upstream's words (CATLG-22 to CATLG-26; OLM1-FBC-20).
//!
//! ```text
//!   blobs ── facts    names, versions, problems of single blobs           on every core, values are not kept
//!            content  names, duplicates, properties, pull specs           (CATLG-23)   first hit ends it
//!            content  deprecations                                        (CATLG-24)   first hit ends it
//!            graph    packages, channels, bundles, update graph           (CATLG-25, 26)   all hits, drawn as a tree
//! ```
//!
//! [`validate_source`] stops where `opm validate` stops, or collects everything in one tree; [`Extent`] selects one of the two.

mod content;
mod facts;
mod go_types;
mod graph;
mod rule;
mod tree;

use std::fmt;
use std::sync::Arc;

use crate::blob::{Limits, subject};
use crate::error::LoadError;
use crate::load::{Empty, Repeated, Rules, count_blob, files, read};
use crate::model::Catalog;
use crate::ordered::ordered;
use crate::pieces::{Batch, Pieces};
use crate::source::Source;
use facts::Facts;
pub use facts::Place;
pub(crate) use facts::{Fact, decode_base64};
pub(crate) use go_types::{blob_error, not_text, property_error};
pub use rule::Rule;

/// Subject of a finding.
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

/// The blob to be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobName {
    /// Its position; `None` if the catalog did not come from files.
    pub place: Option<Place>,
    /// Its schema.
    pub schema: String,
    /// Its package, empty when it has none.
    pub package: String,
    /// Its name, empty when it has none.
    pub name: String,
}

impl fmt::Display for BlobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{}:{}: ", place.path, place.line)?;
        }
        f.write_str(&subject(&self.schema, &self.package, &self.name))
    }
}

/// One problem in a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The broken rule.
    pub rule: Rule,
    /// Its subject.
    pub scope: Scope,
    /// Upstream's words.
    pub text: String,
    /// The blob with the problem.
    pub blob: BlobName,
}

impl Finding {
    fn new(rule: Rule, scope: Scope, text: String) -> Self {
        let blob = BlobName { place: None, schema: String::new(), package: String::new(), name: String::new() };
        Self { rule, scope, text, blob }
    }

    fn in_blob(self, place: Option<&Place>, schema: &str, package: &str, name: &str) -> Self {
        let blob = BlobName { place: place.cloned(), schema: schema.to_owned(), package: package.to_owned(), name: name.to_owned() };
        Self { blob, ..self }
    }
}

/// The problems of a catalog; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Validation {
    /// A content check failed; the model was not checked.
    Content(Box<Finding>),
    /// All findings, as a tree.
    Tree(Vec<Finding>),
}

impl Validation {
    /// The findings, in display order.
    pub fn findings(&self) -> &[Finding] {
        match self {
            Self::Content(finding) => std::slice::from_ref(&**finding),
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

/// Extent of validation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Up to the point where `opm validate` stops.
    Opm,
    /// Complete: everything is reported (`--all`).
    Everything,
}

/// Reason why a source is not a valid catalog.
#[derive(Debug, thiserror::Error)]
pub enum Invalid {
    /// It cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// It breaks rules.
    #[error(transparent)]
    Rules(#[from] Validation),
}

/// Checks a catalog in files. Property values are checked in passing and not kept, so that only names and edges need memory.
pub fn validate_source(source: &dyn Source, limits: &Limits, extent: Extent) -> Result<(), Invalid> {
    let facts = read_facts(source, limits)?;
    Ok(judge(&facts, extent)?)
}

fn read_facts(source: &dyn Source, limits: &Limits) -> Result<Facts, LoadError> {
    let paths = files(source, limits)?;
    let shared: Vec<Arc<str>> = paths.iter().map(|path| Arc::from(path.as_str())).collect();
    let repeated = Repeated::default();
    let work = |batch: Batch| {
        let path = &shared[batch.file];
        let mut found = Vec::with_capacity(batch.pieces.len());
        read(&batch, path, Rules { limits, empty: Empty::Blob, repeated: &repeated }, &mut |blob| {
            found.push((blob.line, Fact::read(&blob, path)?));
            Ok(())
        })?;
        Ok((batch.file, found))
    };
    let mut count = 0;
    let mut facts = Facts::default();
    let mut pieces = Pieces::new(source, &paths, limits);
    ordered(
        || pieces.next(),
        work,
        |(file, found)| {
            for (line, fact) in found {
                count_blob(&mut count, &paths[file], line, limits)?;
                facts.add(fact);
            }
            Ok(())
        },
    )?;
    Ok(facts)
}

/// Checks a catalog as `opm validate` does.
pub fn validate(catalog: &Catalog) -> Result<(), Validation> {
    judge(&Facts::of(catalog), Extent::Opm)
}

/// Checks a catalog and reports all problems (`--all`).
pub fn validate_all(catalog: &Catalog) -> Result<(), Validation> {
    judge(&Facts::of(catalog), Extent::Everything)
}

/// Checks the model alone, as upstream does for catalogs that do not come from files.
pub fn validate_model(catalog: &Catalog) -> Result<(), Validation> {
    let facts = Facts::of(catalog);
    let model = content::check(&facts, &mut |_| content::Next::GoOn);
    tree_of(graph::check(&model))
}

fn judge(facts: &Facts, extent: Extent) -> Result<(), Validation> {
    let mut findings = Vec::new();
    let model = content::check(facts, &mut |finding| {
        findings.push(finding);
        match extent {
            Extent::Opm => content::Next::Stop,
            Extent::Everything => content::Next::GoOn,
        }
    });
    if extent == Extent::Opm
        && let Some(first) = findings.pop()
    {
        return Err(Validation::Content(Box::new(first)));
    }
    findings.extend(graph::check(&model));
    tree_of(findings)
}

fn tree_of(findings: Vec<Finding>) -> Result<(), Validation> {
    if findings.is_empty() { Ok(()) } else { Err(Validation::Tree(findings)) }
}
