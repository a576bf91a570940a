//! Which CSV replaces which, within a namespace (OLM0-CSV-23, OLM0-UPG-16).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Member;

/// The CSV that replaces one, if any.
pub(crate) fn replaced_by<'a>(csv: &Member, siblings: &'a [Arc<Member>]) -> Option<&'a Member> {
    siblings.iter().map(Arc::as_ref).find(|other| other.name() != csv.name() && other.csv.replaces == csv.name())
}

/// The CSV that one replaces, if it is there.
pub(crate) fn replacing<'a>(csv: &Member, siblings: &'a [Arc<Member>]) -> Option<&'a Member> {
    if csv.csv.replaces.is_empty() {
        return None;
    }
    siblings.iter().map(Arc::as_ref).find(|other| other.name() == csv.csv.replaces && other.name() != csv.name())
}

/// The names in the chain of replacements through a CSV, in both directions; a circle is followed once.
pub(crate) fn chain<'a>(csv: &'a Member, siblings: &'a [Arc<Member>]) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::from([csv.name()]);
    let mut current = csv;
    while let Some(next) = replaced_by(current, siblings).filter(|next| !names.contains(next.name())) {
        names.insert(next.name());
        current = next;
    }
    current = csv;
    while let Some(former) = replacing(current, siblings).filter(|former| !names.contains(former.name())) {
        names.insert(former.name());
        current = former;
    }
    names
}

/// The newest CSV that a chain of replacements leads to.
pub fn last_of_chain<'a>(from: &'a Member, siblings: &'a [Arc<Member>]) -> &'a Member {
    let mut seen = BTreeSet::from([from.name()]);
    let mut current = from;
    while let Some(next) = replaced_by(current, siblings).filter(|next| seen.insert(next.name())) {
        current = next;
    }
    current
}
