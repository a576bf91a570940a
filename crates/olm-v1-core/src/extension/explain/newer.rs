//! The reason why there is no upgrade, for an extension that is healthy and idle, too (MS-EXPL-04).

use mainstay_lifecycle::revision::History;
use mainstay_resolver::{ObstacleKind, Request, resolve, why_not_newer};

use super::super::dependencies::{self, joins};
use super::super::request::candidates;
use super::super::request::request;
use super::{Explanation, Facts, Newer, State, refusal};

/// Adds the newest version that is not installed, and the obstacle to it.
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
    let catalogs = candidates(&facts.snapshot.catalogs);
    let together = joins(extension, &facts.snapshot.known.lifecycle);
    let mut obstacles = why_not_newer(&request, &catalogs);
    // The choice if the extension is resolved alone; a dependency is no obstacle here.
    let dependent =
        || obstacles.iter().find(|obstacle| obstacle.kind == ObstacleKind::Dependency).and_then(|obstacle| obstacle.newer.clone());
    let alone = resolve(&request, &catalogs).ok().map(|found| found.choice).or_else(dependent);
    if let Some(alone) = alone.filter(|alone| together && alone.bundle != installed.record.bundle.name) {
        let only = Request { version: Some(alone.version.clone()), ..request };
        let unsolved = dependencies::together(&facts.snapshot, &only, &catalogs).err();
        let why = unsolved.map_or_else(
            || format!("{} does not fit together with what the other extensions ask for", alone.bundle),
            |unsolved| unsolved.to_string(),
        );
        answer.newer = Some(Newer { version: alone.version, held_back_by: word(ObstacleKind::Dependency), why, action: None });
        return;
    }
    // The installed version is not held back. If dependencies are followed, they hold nothing back by themselves.
    obstacles.retain(|obstacle| {
        let other = obstacle.newer.as_ref().is_none_or(|newer| newer.bundle != installed.record.bundle.name);
        other && !(together && obstacle.kind == ObstacleKind::Dependency)
    });
    let unknown = obstacles.iter().filter(|obstacle| obstacle.newer.is_none()).map(|obstacle| obstacle.text.clone());
    answer.notes.extend(unknown);
    let Some((obstacle, newer)) = obstacles.iter().find_map(|obstacle| Some((obstacle, obstacle.newer.as_ref()?))) else {
        answer.why.push("it is the newest version in the catalogs".to_owned());
        return;
    };
    let mut why = obstacle.text.clone();
    if obstacle.kind == ObstacleKind::Edge && obstacle.path.len() > 1 {
        why = format!("{why}; the way there is {}", obstacle.path.join(", then "));
    }
    let action = refusal::changes(extension, &obstacle.changes, &newer.version).map(|(_, action)| action);
    answer.newer = Some(Newer { version: newer.version.clone(), held_back_by: word(obstacle.kind), why, action });
}

/// The obstacle's name for programs.
fn word(kind: ObstacleKind) -> &'static str {
    match kind {
        ObstacleKind::Range => "version-range",
        ObstacleKind::Channels => "channels",
        ObstacleKind::Edge => "no-update-edge",
        ObstacleKind::Deprecated => "deprecated",
        ObstacleKind::Priority => "catalog-priority",
        ObstacleKind::NotSelected => "catalog-not-selected",
        ObstacleKind::NotServing => "catalog-not-serving",
        ObstacleKind::Tied => "equal-catalogs",
        ObstacleKind::Dependency => "dependency",
        ObstacleKind::Several => "several",
    }
}
