//! The time that an update will take (CVO-STAT-04).

use serde_json::Value;

use super::span::Span;
use crate::cluster_version::time;

/// The time of an update where none has been completed before.
const USUAL: Span = Span::minutes(60);

/// Returns how long the last completed update took; the first entry of a history is the installation.
pub fn baseline(history: &[Value]) -> Span {
    let earlier = if history.len() < 3 { &[] } else { &history[1..history.len() - 1] };
    let completed = earlier.iter().find(|entry| entry["state"] == "Completed");
    completed.map_or(USUAL, |entry| Span::between(time(&entry["startedTime"]), time(&entry["completionTime"])))
}

/// Returns the time that remains: negative if the update takes longer than was to be expected.
#[expect(clippy::cast_possible_truncation, reason = "Go cuts the seconds too")]
pub fn remaining(baseline: Span, to_last_progress: Span, updating_for: Span, completion: f64) -> Span {
    if completion >= 1.0 {
        return Span(0);
    }
    let done = timewise(completion);
    let total = if completion > 0.0 && done > 0.0 && to_last_progress > Span::minutes(5) {
        to_last_progress.seconds() / done
    } else {
        baseline.seconds()
    };
    let remaining = total - updating_for.seconds();
    let pessimism = if remaining < 0.0 { 1.0 / 1.2 } else { 1.2 };
    let remaining = Span(i128::from((remaining * pessimism) as i64) * Span::SECOND.0);
    remaining.rounded(if remaining > Span::minutes(10) { Span::MINUTE } else { Span::SECOND })
}

/// The part of the time that has passed when a part of the operators is updated, as a fit to many updates.
fn timewise(x: f64) -> f64 {
    let (x2, x3, x4) = (x.powi(2), x.powi(3), x.powi(4));
    if x < 0.25 {
        -0.030_787_88 + 2.62886 * x - 3.823_954 * x2
    } else if x < 0.9 {
        0.185_121_5 + 1.64994 * x - 4.676_898 * x2 + 5.451_824 * x3 - 2.125_286 * x4
    } else {
        25053.32 - 107_394.3 * x + 172_527.2 * x2 - 123_107.0 * x3 + 32921.81 * x4
    }
}
