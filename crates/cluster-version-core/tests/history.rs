//! The history of releases.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;

use mainstay_api::config_v1::{ClusterVersionStatus, Release, UpdateHistory, UpdateState};
use mainstay_cluster_version_core::history::{MAX_ENTRIES, Reached, current_version, record};
use proptest::prelude::*;

use crate::support::minutes;

fn release(version: &str, image: &str) -> Release {
    Release { version: version.into(), image: image.into(), ..Release::default() }
}

/// One line an entry: `VERSION IMAGE STATE BEGUN-ENDED`, in minutes.
fn shown(status: &ClusterVersionStatus) -> String {
    let minute = |time: Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>| {
        time.map_or_else(String::new, |time| (time.0.duration_since(minutes(0)).as_secs() / 60).to_string())
    };
    let mut out = String::new();
    for UpdateHistory { state, started_time, completion_time, version, image, verified, accepted_risks } in &status.history {
        let verified = if *verified { " verified" } else { "" };
        let times = format!("{}-{}", minute(started_time.as_ref()), minute(completion_time.as_ref()));
        writeln!(out, "{version} {image} {state:?} {times}{verified}{}", accepted_risks.replace('\n', "|")).unwrap();
    }
    out
}

/// CVO-HIST-01, CVO-HIST-02, CVO-HIST-03, CVO-HIST-04, CVO-HIST-05: a cluster is installed, updated, retargeted and kept.
#[test]
fn a_cluster_s_life() {
    let mut status = ClusterVersionStatus::default();
    let mut at = 0;
    let mut check = |desired: Release, reached: Reached<'_>, expected: &str| {
        record(&mut status, &desired, &reached, minutes(at));
        assert_eq!(shown(&status), expected, "minute {at}");
        at += 1;
    };
    let begun = Reached::default;
    let done = || Reached { completed: true, ..Reached::default() };
    check(release("4.18.1", ""), begun(), "");
    check(release("", "a"), begun(), " a Partial 1-\n");
    // The version becomes known.
    check(release("4.18.1", "a"), begun(), "4.18.1 a Partial 1-\n");
    check(release("4.18.1", "a"), done(), "4.18.1 a Completed 1-3\n");
    // Completed stays completed, and its time stays.
    check(release("4.18.1", "a"), begun(), "4.18.1 a Completed 1-3\n");
    let risky = Reached { accepted_risks: " risk", ..Reached::default() };
    check(release("4.18.2", "b"), risky, "4.18.2 b Partial 5- risk\n4.18.1 a Completed 1-3\n");
    // The new process finds its own payload: what was risked stays.
    let local = Reached { local: true, verified: true, ..Reached::default() };
    check(release("4.18.2", "b"), local, "4.18.2 b Partial 5- verified risk\n4.18.1 a Completed 1-3\n");
    // The update is retargeted.
    check(release("4.18.3", "c"), begun(), "4.18.3 c Partial 7-\n4.18.2 b Partial 5-7 verified risk\n4.18.1 a Completed 1-3\n");
    check(
        release("4.18.3", "c"),
        Reached { completed: true, ..Reached::default() },
        "4.18.3 c Completed 7-8\n4.18.2 b Partial 5-7 verified risk\n4.18.1 a Completed 1-3\n",
    );
    // The same version by another pullspec is another entry; a completed one is noted as such at once.
    check(
        release("4.18.3", "d"),
        Reached { completed: true, ..Reached::default() },
        "4.18.3 d Completed 9-9\n4.18.3 c Completed 7-8\n4.18.2 b Partial 5-7 verified risk\n4.18.1 a Completed 1-3\n",
    );
    assert_eq!(status.desired, release("4.18.3", "d"));
    assert_eq!(current_version(&status.history), Some("4.18.3"));
}

/// CVO-HIST-06: the version that the cluster has is the newest completed one, or the oldest while none is.
#[test]
fn current_versions() {
    let entry = |state, version: &str| UpdateHistory { state, version: version.into(), ..UpdateHistory::default() };
    assert_eq!(current_version(&[]), None);
    assert_eq!(current_version(&[entry(UpdateState::Partial, "2"), entry(UpdateState::Partial, "1")]), Some("1"));
    assert_eq!(current_version(&[entry(UpdateState::Partial, "3"), entry(UpdateState::Completed, "2")]), Some("2"));
}

/// A full history, newest first, of `VERSION` for completed and `-VERSION` for partial entries.
fn full(middle: &[&str]) -> ClusterVersionStatus {
    let mut names = vec!["4.20.9", "4.20.8", "4.20.7", "4.20.6", "4.20.5"];
    names.extend(middle);
    while names.len() < MAX_ENTRIES - 1 {
        names.push("4.20.4");
    }
    names.push("4.20.0");
    let history = names.iter().enumerate().map(|(index, name)| {
        let state = if name.starts_with('-') { UpdateState::Partial } else { UpdateState::Completed };
        UpdateHistory { state, version: name.trim_start_matches('-').into(), image: index.to_string(), ..UpdateHistory::default() }
    });
    ClusterVersionStatus { history: history.collect(), ..ClusterVersionStatus::default() }
}

/// CVO-HIST-06: partial updates inside of a minor version go first, then what is oldest and least telling; the ends stay.
#[test]
fn pruning() {
    let check = |middle: &[&str], gone: usize| {
        let mut status = full(middle);
        let images: Vec<String> = status.history.iter().map(|entry| entry.image.clone()).collect();
        record(&mut status, &release("4.20.10", "new"), &Reached::default(), minutes(0));
        assert_eq!(status.history.len(), MAX_ENTRIES);
        let missing: Vec<&String> = images.iter().filter(|image| !status.history.iter().any(|entry| entry.image == **image)).collect();
        assert_eq!(missing, [&gone.to_string()], "{middle:?}");
    };
    // Nothing is telling: the oldest goes, but not the first of all.
    check(&[], 98);
    // A partial update from 4.20.4 to 4.20.5.
    check(&["-4.20.5"], 98);
    let mut late = vec!["4.20.4"; 90];
    late.push("-4.20.4");
    late.push("4.20.3");
    check(&late, 95);
    // A partial update on the way to another minor version stays before others.
    let mut minor = vec!["4.20.4"; 90];
    minor.push("-4.20.4");
    minor.extend(["4.19.3", "4.18.9", "4.17.1"]);
    check(&minor, 93);
}

proptest! {
    /// CVO-HIST-06: whatever happens, there are never more entries than allowed; the first, the newest five and the newest completed entry stay.
    #[test]
    fn the_ends_stay(steps in prop::collection::vec((17u32..21, 0u32..9, any::<bool>()), 100..220)) {
        let mut status = ClusterVersionStatus::default();
        let mut all: Vec<String> = Vec::new();
        for (at, (minor, patch, completed)) in steps.into_iter().enumerate() {
            let image = at.to_string();
            let reached = Reached { completed, ..Reached::default() };
            record(&mut status, &release(&format!("4.{minor}.{patch}"), &image), &reached, minutes(at as i64));
            all.push(image);
            let kept: Vec<&str> = status.history.iter().map(|entry| entry.image.as_str()).collect();
            prop_assert!(kept.len() <= MAX_ENTRIES);
            prop_assert_eq!(kept.last().copied(), all.first().map(String::as_str));
            let newest: Vec<&str> = all.iter().rev().take(5).map(String::as_str).collect();
            prop_assert_eq!(&kept[..newest.len()], newest.as_slice());
            let order: Vec<usize> = kept.iter().map(|image| image.parse().unwrap()).collect();
            prop_assert!(order.is_sorted_by(|one, other| one > other));
        }
    }
}
