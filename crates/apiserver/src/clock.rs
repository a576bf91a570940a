//! Times as Kubernetes writes them.

use jiff::{SignedDuration, Timestamp};
use mainstay_kinds::human_duration;

/// Now, in whole seconds.
pub fn now() -> String {
    format(Timestamp::now())
}

/// So many seconds from now.
pub fn after(seconds: i64) -> String {
    format(Timestamp::now() + SignedDuration::from_secs(seconds))
}

fn format(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The time between a moment and now as `kubectl get` shows it: `5s`, `3m4s`, `2d`, `<invalid>`.
pub fn age(time: &str) -> Option<String> {
    let then: Timestamp = time.parse().ok()?;
    let seconds = Timestamp::now().duration_since(then).as_secs();
    Some(human_duration(seconds))
}
