//! Extensions that request the same package: if they are resolved together, it is installed once (MS-EXPL-05).

use std::sync::Arc;

use mainstay_api::olm_v1::ClusterExtension;

use super::remedy::ByRemedy as _;
use super::words::{REMOVED_CRDS, held};
use super::{Action, Explanation, Facts, Remedy, installed, name, package};

/// The explanation with the other extension that requests the package, and the remedies; none if there is no such extension any more.
pub(super) fn explain(facts: &Facts) -> Option<Explanation> {
    let extension = &*facts.snapshot.extension;
    let (own, package) = (name(extension), package(extension));
    let rivals = facts.snapshot.known.lifecycle.peers.iter().filter(|peer| peer.metadata.deletion_timestamp.is_none());
    let mut rivals: Vec<&Arc<ClusterExtension>> = rivals.filter(|peer| name(peer) != own && super::package(peer) == package).collect();
    // Precedence has the extension that has something installed, then the one that was created earlier.
    rivals.sort_by_cached_key(|peer| (bundle(peer).is_none(), peer.metadata.creation_timestamp.clone(), name(peer).to_owned()));
    let rival = rivals.first()?;
    let other = name(rival);
    let mut answer = held(facts, "package-wanted-twice", format!("clusterextension {other} wants package {package}, too"));
    answer.why.push(format!("{package} can be installed once: extensions that are resolved together share its APIs"));
    answer.why.push(match bundle(rival) {
        Some(bundle) => format!("{other} has installed {bundle}, and what is installed goes first"),
        None => format!("{other} was made earlier, and goes first"),
    });
    let removes = |name: &str, has: bool| {
        let action = Action::new(String::new()).by(extension, Remedy::Uninstall(name.to_owned()));
        if has { action.warns(REMOVED_CRDS) } else { action }
    };
    let this =
        Action { text: format!("Keep one of the two. {other} goes first, so remove {own}:"), ..removes(own, installed(facts).is_some()) };
    let that = Action { text: format!("Keep {own} instead: remove {other}"), ..removes(other, bundle(rival).is_some()) };
    Some(answer.then(this).or(that))
}

/// The bundle that an extension has installed, by its status.
fn bundle(extension: &ClusterExtension) -> Option<&str> {
    Some(extension.status.as_ref()?.install.as_ref()?.bundle.name.as_str())
}
