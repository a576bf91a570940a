//! Times as Kubernetes writes them.

use jiff::{SignedDuration, Timestamp};

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
    Some(human(seconds))
}

fn human(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    let two = |large: i64, sign: &str, small: i64, rest: &str| {
        if small == 0 { format!("{large}{sign}") } else { format!("{large}{sign}{small}{rest}") }
    };
    if seconds < -1 {
        "<invalid>".into()
    } else if seconds < 0 {
        "0s".into()
    } else if seconds < 120 {
        format!("{seconds}s")
    } else if minutes < 10 {
        two(minutes, "m", seconds % 60, "s")
    } else if minutes < 180 {
        format!("{minutes}m")
    } else if hours < 8 {
        two(hours, "h", minutes % 60, "m")
    } else if hours < 48 {
        format!("{hours}h")
    } else if hours < 192 {
        two(days, "d", hours % 24, "h")
    } else if days < 730 {
        format!("{days}d")
    } else if days < 2_920 {
        two(days / 365, "y", days % 365, "d")
    } else {
        format!("{}y", days / 365)
    }
}

#[cfg(test)]
mod tests {
    /// KAPI-REST-06: ages are as short as kubectl shows them.
    #[test]
    fn ages_are_short() {
        for (seconds, shown) in [
            (-5, "<invalid>"),
            (0, "0s"),
            (119, "119s"),
            (125, "2m5s"),
            (600, "10m"),
            (4 * 3600, "4h"),
            (50 * 3600, "2d2h"),
            (400 * 86400, "400d"),
        ] {
            assert_eq!(super::human(seconds), shown);
        }
    }
}
