//! The time of the next poll of a source's image (OLM0-CAT-22).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::catalog_source::Polling;

/// Returns `Ok` if the image of a source is to be looked at now, else the time until then; none if it is not polled.
///
/// A source that was never polled counts from its creation. A time in the future is that of a clock that was set back.
pub fn is_due(source: &Value, now: Timestamp) -> Option<Result<(), Duration>> {
    let every = SignedDuration::try_from(Polling::of(source).every?).ok()?;
    let read = |value: &Value| value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let last = read(&source["status"]["latestImageRegistryPoll"]).or_else(|| read(&source["metadata"]["creationTimestamp"]));
    let Some(last) = last.filter(|last| *last <= now) else { return Some(Ok(())) };
    let due = last.checked_add(every).unwrap_or(Timestamp::MAX);
    Some(if due <= now { Ok(()) } else { Err(Duration::try_from(due.duration_since(now)).unwrap_or_default()) })
}
