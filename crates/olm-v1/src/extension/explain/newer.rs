//! Why not upgraded? An answer for what is healthy and idle, too (MS-EXPL-04).

use mainstay_resolver::{CandidateCatalog, Change, Obstacle, ObstacleKind, Request, UpgradeConstraintPolicy, resolve};

use super::super::plan::request;
use super::super::record::History;
use super::answer::word;
use super::cause::candidates;
use super::{Explanation, Facts, Newer, State, name, package, refusal};

/// Adds the newest version that is not installed, and what holds it back.
pub(super) fn tell(facts: &Facts, answer: &mut Explanation) {
    let extension = &*facts.snapshot.extension;
    let Some(installed) = facts.snapshot.history.as_ref().ok().and_then(History::installed) else { return };
    let Some(request) = request(extension, Some(installed)) else { return };
    let coming = facts.plan.as_ref().ok().and_then(|plan| plan.resolution.as_ref()).filter(|resolution| !resolution.stays);
    if let Some(coming) = coming {
        answer.state = State::Working;
        answer.situation = "upgrading";
        answer.waits_for = Some(format!("the upgrade to {}, which is on its way", coming.choice.version));
        return;
    }
    let obstacles = why_not_newer(&request, &candidates(&facts.snapshot));
    let Some(obstacle) = obstacles.into_iter().next() else {
        answer.why.push("it is the newest version in the catalogs".to_owned());
        return;
    };
    let mut why = obstacle.text.clone();
    if obstacle.kind == ObstacleKind::Edge && obstacle.path.len() > 1 {
        why = format!("{why}; the way there is {}", obstacle.path.join(", then "));
    }
    let action =
        refusal::changes(name(extension), package(extension), &obstacle.changes, &obstacle.newer.version).map(|(_, action)| action);
    answer.newer = Some(Newer { version: obstacle.newer.version, held_back_by: word(obstacle.kind), why, action });
}

/// The newest version that is not installed, and the change that alone lets it come.
fn why_not_newer(request: &Request, catalogs: &[CandidateCatalog<'_>]) -> Vec<Obstacle> {
    let all =
        Request { channels: Vec::new(), version: None, selector: None, policy: UpgradeConstraintPolicy::SelfCertified, ..request.clone() };
    let Ok(newest) = resolve(&all, catalogs).map(|found| found.choice) else { return Vec::new() };
    if request.installed.as_ref().is_some_and(|installed| installed.name == newest.bundle) {
        return Vec::new();
    }
    let singles = [
        (ObstacleKind::Range, Change::AnyVersion, Request { version: None, ..request.clone() }),
        (ObstacleKind::Channels, Change::AnyChannel, Request { channels: Vec::new(), ..request.clone() }),
        (ObstacleKind::NotSelected, Change::AnyCatalog, Request { selector: None, ..request.clone() }),
        (ObstacleKind::Edge, Change::SelfCertified, Request { policy: UpgradeConstraintPolicy::SelfCertified, ..request.clone() }),
    ];
    let leads = |changed: &Request| {
        let mut walker = changed.clone();
        // A path is at most as long as a package has bundles; more steps than this nobody walks.
        for _ in 0..64 {
            let Ok(found) = resolve(&walker, catalogs) else { return false };
            if found.choice == newest {
                return true;
            }
            if found.stays {
                return false;
            }
            walker.installed = Some(mainstay_resolver::InstalledBundle { name: found.choice.bundle, version: found.choice.version });
        }
        false
    };
    let text = |kind: ObstacleKind| match kind {
        ObstacleKind::Range => format!("the extension asks for \"{}\"", request.version.clone().unwrap_or_default()),
        ObstacleKind::Channels => format!("it is not reached in channel {}", request.channels.join(", ")),
        ObstacleKind::NotSelected => "its catalog is left out by the extension's choice of catalogs".to_owned(),
        ObstacleKind::Edge => "the catalog has no update from the installed version to it".to_owned(),
        _ => "several things hold it back".to_owned(),
    };
    let one = singles.into_iter().find(|(_, _, changed)| leads(changed));
    let (kind, changes) = one.map_or((ObstacleKind::Several, Vec::new()), |(kind, change, _)| (kind, vec![change]));
    vec![Obstacle { newer: newest, kind, text: text(kind), changes, path: Vec::new() }]
}
