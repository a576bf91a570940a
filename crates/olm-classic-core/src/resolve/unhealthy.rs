//! Catalogs that cannot be read, and whom they hold back (OLM0-CAT-35).
//!
//! ```text
//!   all catalogs, bad ones with their last content ── components ──┬── reach into a bad one ──► refused, as if all were
//!                                                                 └── do not ──► resolved among the other catalogs
//! ```
//!
//! A component that reaches nothing of a bad catalog has the same answer with and without it, so that no provider of lower priority is chosen
//! because a better one cannot be read.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::source::SourceKey;

use super::components::{Apart, partition, solve};
use super::entry::Content;
use super::outcome::{Isolation, Outcome, decide, told};
use super::snapshot::{Catalog, Snapshot};
use super::step::one_group;

/// The reach of a catalog that cannot be read (OLM0-CAT-35).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UnhealthyCatalogs {
    /// Every Subscription of a namespace that sees it, as upstream has it (OLM0-CAT-20).
    #[default]
    Block,
    /// The Subscriptions whose answer it could change.
    Isolate,
}

/// Decides what the next InstallPlan of a namespace contains, where a catalog that cannot be read holds back only those whose answer it could
/// change. `last` has the last content of catalogs that were read before.
pub fn decide_isolated(snapshot: &Snapshot, isolation: Isolation, last: &BTreeMap<SourceKey, Arc<Content>>) -> Outcome {
    let namespaces = snapshot.namespaces();
    let counts = |catalog: &&Catalog| namespaces.contains(&catalog.key.namespace.as_str()) && catalog.content.is_err();
    let bad: Vec<&SourceKey> = snapshot.catalogs.iter().filter(counts).map(|catalog| &catalog.key).collect();
    // A catalog that was never read could hold anything.
    if bad.is_empty() || bad.iter().any(|key| !last.contains_key(key)) || one_group(snapshot).is_err() {
        return decide(snapshot, isolation);
    }
    let remembered = |catalog: &Catalog| match (&catalog.content, last.get(&catalog.key)) {
        (Err(_), Some(content)) => Catalog { content: Ok(content.clone()), ..catalog.clone() },
        _ => catalog.clone(),
    };
    let whole = Snapshot { catalogs: snapshot.catalogs.iter().map(remembered).collect(), ..snapshot.clone() };
    let (held, free): (Vec<Apart>, Vec<Apart>) =
        partition(&whole).into_iter().partition(|apart| bad.iter().any(|key| apart.sources.contains(*key)));
    let healthy = snapshot.catalogs.iter().filter(|catalog| catalog.content.is_ok()).cloned().collect();
    let healthy = Snapshot { catalogs: healthy, ..snapshot.clone() };
    if isolation == Isolation::Namespace {
        // The namespace is resolved as one.
        return decide(if held.is_empty() { &healthy } else { snapshot }, isolation);
    }
    let Outcome { parts, refusals } = told(&healthy, solve(&healthy, free));
    let refused = told(snapshot, solve(snapshot, held));
    Outcome { parts, refusals: refusals.into_iter().chain(refused.refusals).collect() }
}
