//! The due times of a schedule, in a time zone.
//!
//! Local time is processed in periods between changes of the zone's offset. Within one, local and real time differ by a constant, so
//! a minute that a change skips never comes, and one that it repeats comes twice.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _};
use mainstay_kinds::schedule::{Fields, Schedule};

/// Days after which a schedule that was not due is never due (29 February of a leap year is).
const DAYS: u32 = 366 * 8;

/// Returns the first due time after `after`; `None` if there is none for years.
pub fn next(schedule: &Schedule, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
    match schedule {
        Schedule::Every(seconds) => {
            let at = after.checked_add(SignedDuration::from_secs(*seconds)).ok()?;
            Timestamp::from_second(at.as_second()).ok()
        }
        Schedule::Fields(fields) => {
            let second = after.as_second();
            let mut from = Timestamp::from_second(second - second.rem_euclid(60) + 60).ok()?;
            let last = from.checked_add(SignedDuration::from_hours(24 * i64::from(DAYS))).ok()?;
            while from <= last {
                let offset = zone.to_offset(from);
                let until =
                    zone.following(from).find(|change| zone.to_offset(change.timestamp()) != offset).map(|change| change.timestamp());
                let found = next_local(fields, offset.to_datetime(from)).and_then(|local| offset.to_timestamp(local).ok());
                match (found, until) {
                    (Some(found), Some(until)) if found >= until => from = whole_minute(until, zone)?,
                    (None, Some(until)) => from = whole_minute(until, zone)?,
                    (found, _) => return found,
                }
            }
            None
        }
    }
}

/// Returns the last due time after `after` and not after `now`, and true if there were more than `many` such times.
pub fn last(schedule: &Schedule, zone: &TimeZone, after: Timestamp, now: Timestamp, many: usize) -> Option<(Timestamp, bool)> {
    let first = next(schedule, zone, after).filter(|first| *first <= now)?;
    if let Schedule::Every(seconds) = schedule {
        let times = now.duration_since(first).as_secs() / seconds;
        let last = first.checked_add(SignedDuration::from_secs(times * seconds)).ok()?;
        return Some((last, usize::try_from(times).unwrap_or(usize::MAX) >= many));
    }
    let (mut last, mut count) = (first, 1);
    while count <= many {
        match next(schedule, zone, last).filter(|next| *next <= now) {
            Some(next) => (last, count) = (next, count + 1),
            None => return Some((last, false)),
        }
    }
    // There are too many to count, so the search goes back from the end, in ever larger steps, until it finds one.
    let mut back = SignedDuration::from_mins(2);
    loop {
        let from = now.checked_sub(back).ok().filter(|from| *from > last);
        let Some(from) = from else { break };
        if let Some(found) = next(schedule, zone, from).filter(|found| *found <= now) {
            last = found;
            break;
        }
        back = back.checked_mul(2)?;
    }
    while let Some(next) = next(schedule, zone, last).filter(|next| *next <= now) {
        last = next;
    }
    Some((last, true))
}

/// Rounds up to a whole minute of local time: offsets change at whole minutes today, but some historical ones did not.
fn whole_minute(at: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let local = zone.to_offset(at).to_datetime(at);
    let rest = i64::from(local.second());
    at.checked_add(SignedDuration::from_secs((60 - rest) % 60)).ok()
}

/// Returns the first matching local minute from `from` on.
fn next_local(fields: &Fields, from: DateTime) -> Option<DateTime> {
    let mut date = from.date();
    let (mut hour, mut minute) = (positive(from.hour()), positive(from.minute()));
    for _ in 0..DAYS {
        if fits(fields, date) {
            while hour < 24 {
                if fields.hour(hour)
                    && let Some(minute) = (minute..60).find(|minute| fields.minute(*minute))
                {
                    return Some(date.at(i8::try_from(hour).ok()?, i8::try_from(minute).ok()?, 0, 0));
                }
                (hour, minute) = (hour + 1, 0);
            }
        }
        (hour, minute) = (0, 0);
        date = date.checked_add(1.day()).ok()?;
    }
    None
}

fn fits(fields: &Fields, date: Date) -> bool {
    fields.day(positive(date.month()), positive(date.day()), positive(date.weekday().to_sunday_zero_offset()))
}

fn positive(number: i8) -> u32 {
    u32::try_from(number).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    /// Minute by minute, by the clock on the wall.
    fn slow_next(fields: &Fields, zone: &TimeZone, after: Timestamp, minutes: i64) -> Option<Timestamp> {
        let first = after.as_second().div_euclid(60) + 1;
        (first..first + minutes).map(|minute| Timestamp::from_second(minute * 60).unwrap()).find(|at| {
            let local = at.to_zoned(zone.clone());
            fits(fields, local.date()) && fields.hour(positive(local.hour())) && fields.minute(positive(local.minute()))
        })
    }

    fn field(low: u32, high: u32) -> impl Strategy<Value = String> {
        prop_oneof![
            2 => Just("*".to_owned()),
            1 => (2..9_u32).prop_map(|step| format!("*/{step}")),
            3 => (low..=high).prop_map(|one| one.to_string()),
            1 => (low..=high, low..=high).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
            1 => (low..=high, low..=high).prop_map(|(a, b)| format!("{a},{b}")),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]
        /// KAPI-WL-01: the next time of a schedule is that of the clock on the wall, whatever the zone does to it.
        #[test]
        fn next_is_what_the_wall_shows(
            minute in field(0, 59), hour in field(0, 23), day in field(1, 28), weekday in field(0, 6),
            zone in prop::sample::select(vec!["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "America/St_Johns", "Antarctica/Troll", "Africa/Casablanca"]),
            // Around the changes of the clock of 2025, and anywhere in that year.
            after in prop_oneof![1_743_200_000..1_743_400_000_i64, 1_761_400_000..1_761_800_000_i64, 1_735_689_600..1_767_225_600_i64],
        ) {
            let schedule = Schedule::parse(&format!("{minute} {hour} {day} * {weekday}")).unwrap();
            let Schedule::Fields(fields) = schedule.clone() else { unreachable!("five fields") };
            let zone = TimeZone::get(zone).unwrap();
            let after = Timestamp::from_second(after).unwrap();
            let minutes = 60 * 24 * 40;
            let found = next(&schedule, &zone, after);
            match slow_next(&fields, &zone, after, minutes) {
                Some(slow) => prop_assert_eq!(found, Some(slow)),
                None => prop_assert!(found.is_none_or(|found| found.duration_since(after).as_secs() >= (minutes - 1) * 60)),
            }
        }

        /// KAPI-WL-01: the last missed time is the one that walking forward ends at.
        #[test]
        fn last_is_where_walking_ends(minute in field(0, 59), hour in field(0, 23), minutes in 1..8_000_i64, many in 1..20_usize) {
            let schedule = Schedule::parse(&format!("{minute} {hour} * * *")).unwrap();
            let after = Timestamp::from_second(1_743_200_000).unwrap();
            let now = after + SignedDuration::from_mins(minutes);
            let zone = TimeZone::get("Europe/Berlin").unwrap();
            let mut walked = Vec::new();
            let mut at = after;
            while let Some(found) = next(&schedule, &zone, at).filter(|found| *found <= now) {
                walked.push(found);
                at = found;
            }
            let expected = walked.last().map(|last| (*last, walked.len() > many));
            prop_assert_eq!(last(&schedule, &zone, after, now, many), expected);
        }
    }

    /// Changes of the clock, leap years, and schedules that never come due.
    #[test]
    fn known_times() {
        for (schedule, zone, after, expected) in [
            // 02:30 does not exist on that day.
            ("30 2 * * *", "Europe/Berlin", "2025-03-29T12:00:00Z", Some("2025-03-31T00:30:00Z")),
            // 02:30 comes twice.
            ("30 2 * * *", "Europe/Berlin", "2025-10-26T00:00:00Z", Some("2025-10-26T00:30:00Z")),
            ("30 2 * * *", "Europe/Berlin", "2025-10-26T00:30:00Z", Some("2025-10-26T01:30:00Z")),
            ("0 0 29 2 *", "UTC", "2025-01-01T00:00:00Z", Some("2028-02-29T00:00:00Z")),
            ("0 0 30 2 *", "UTC", "2025-01-01T00:00:00Z", None),
            ("@every 90s", "UTC", "2025-01-01T00:00:00.7Z", Some("2025-01-01T00:01:30Z")),
            ("*/15 9-17 * * 1-5", "America/New_York", "2025-06-06T21:45:00Z", Some("2025-06-09T13:00:00Z")),
        ] {
            let parsed = Schedule::parse(schedule).unwrap();
            let found = next(&parsed, &TimeZone::get(zone).unwrap(), after.parse().unwrap());
            assert_eq!(found, expected.map(|expected| expected.parse().unwrap()), "{schedule} after {after}");
        }
    }
}
