//! The schedules of CronJobs: five fields, a name, or an interval. The one reader of that format, for validation and for the
//! controller that follows it (KAPI-WL-01).

/// Why a text is no schedule, in the words that Kubernetes reports.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSchedule(String);

/// The longest schedule that is read.
const LONGEST: usize = 1_000;
const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// A schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// At every minute whose parts are in the sets.
    Fields(Fields),
    /// At an interval of so many seconds.
    Every(i64),
}

/// The minutes of a schedule, as one set of bits a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// True if days of the month, or of the week, are not restricted.
    any_day: bool,
    any_weekday: bool,
}

impl Fields {
    /// Returns true if the schedule includes the minute of an hour.
    pub fn minute(&self, minute: u32) -> bool {
        self.minutes >> minute & 1 == 1
    }

    /// Returns true if the schedule includes the hour of a day.
    pub fn hour(&self, hour: u32) -> bool {
        self.hours >> hour & 1 == 1
    }

    /// Returns true if the schedule includes a day: month from 1, day of the month from 1, day of the week from Sunday as 0. If both kinds of day are
    /// restricted, either is enough.
    pub fn day(&self, month: u32, day: u32, weekday: u32) -> bool {
        let (by_month, by_week) = (self.days >> day & 1 == 1, self.weekdays >> weekday & 1 == 1);
        let day = if self.any_day || self.any_weekday { by_month && by_week } else { by_month || by_week };
        self.months >> month & 1 == 1 && day
    }
}

struct Bounds {
    low: u32,
    high: u32,
    names: &'static [&'static str],
    first: u32,
}

const BOUNDS: [Bounds; 5] = [
    Bounds { low: 0, high: 59, names: &[], first: 0 },
    Bounds { low: 0, high: 23, names: &[], first: 0 },
    Bounds { low: 1, high: 31, names: &[], first: 0 },
    Bounds { low: 1, high: 12, names: MONTHS, first: 1 },
    Bounds { low: 0, high: 6, names: DAYS, first: 0 },
];

impl Schedule {
    /// Reads a schedule; a leading `TZ=ZONE ` is skipped, since the time zone has a field of its own.
    ///
    /// # Errors
    /// The text is no schedule; the error has the words that Kubernetes reports.
    pub fn parse(text: &str) -> Result<Self, InvalidSchedule> {
        if text.len() > LONGEST {
            return Err(InvalidSchedule(format!("longer than {LONGEST} characters")));
        }
        let trimmed = match text.strip_prefix("TZ=").or(text.strip_prefix("CRON_TZ=")) {
            Some(rest) => rest.split_once(' ').map_or("", |(_, rest)| rest).trim(),
            None => text.trim(),
        };
        let named = |fields: &str| Self::fields(&fields.split_whitespace().collect::<Vec<_>>());
        match trimmed {
            "@yearly" | "@annually" => named("0 0 1 1 *"),
            "@monthly" => named("0 0 1 * *"),
            "@weekly" => named("0 0 * * 0"),
            "@daily" | "@midnight" => named("0 0 * * *"),
            "@hourly" => named("0 * * * *"),
            _ => match trimmed.strip_prefix("@every ") {
                // Shorter than a second is a second.
                Some(interval) => seconds(interval)
                    .map(|seconds| Self::Every(seconds.max(1)))
                    .ok_or_else(|| InvalidSchedule(format!("failed to parse duration {trimmed}: time: invalid duration \"{interval}\""))),
                None if trimmed.starts_with('@') => Err(InvalidSchedule(format!("unrecognized descriptor: {trimmed}"))),
                None => named(trimmed),
            },
        }
    }

    fn fields(fields: &[&str]) -> Result<Self, InvalidSchedule> {
        if fields.len() != 5 {
            return Err(InvalidSchedule(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" "))));
        }
        let mut sets = [(0_u64, false); 5];
        for ((field, bounds), (set, any)) in fields.iter().zip(&BOUNDS).zip(&mut sets) {
            for part in field.split(',') {
                let (bits, every) = read_part(part, bounds)?;
                *set |= bits;
                *any |= every;
            }
        }
        let [(minutes, _), (hours, _), (days, any_day), (months, _), (weekdays, any_weekday)] = sets;
        Ok(Self::Fields(Fields { minutes, hours, days, months, weekdays, any_day, any_weekday }))
    }
}

/// The set of one part of a field, and whether it is unrestricted.
fn read_part(part: &str, bounds: &Bounds) -> Result<(u64, bool), InvalidSchedule> {
    let number = |text: &str| -> Result<u32, InvalidSchedule> {
        if let Some(at) = bounds.names.iter().position(|name| name.eq_ignore_ascii_case(text)) {
            return Ok(u32::try_from(at).unwrap_or_default() + bounds.first);
        }
        text.parse::<u32>()
            .map_err(|_| InvalidSchedule(format!("failed to parse int from {text}: strconv.Atoi: parsing \"{text}\": invalid syntax")))
    };
    let pieces: Vec<&str> = part.split('/').collect();
    let (range, step) = match pieces.as_slice() {
        [range] => (*range, None),
        [range, step] => (*range, Some(*step)),
        _ => return Err(InvalidSchedule(format!("too many slashes: {part}"))),
    };
    let star = range == "*" || range == "?";
    let (mut start, mut end) = (bounds.low, bounds.high);
    if !star {
        let ends: Vec<&str> = range.split('-').collect();
        start = number(ends[0])?;
        end = match ends.as_slice() {
            [_] if step.is_some() => bounds.high,
            [_] => start,
            [_, last] => number(last)?,
            _ => return Err(InvalidSchedule(format!("too many hyphens: {part}"))),
        };
    }
    let step = step.map(number).transpose()?.unwrap_or(1);
    let (low, high) = (bounds.low, bounds.high);
    if start < low {
        return Err(InvalidSchedule(format!("beginning of range ({start}) below minimum ({low}): {part}")));
    }
    if end > high {
        return Err(InvalidSchedule(format!("end of range ({end}) above maximum ({high}): {part}")));
    }
    if start > end {
        return Err(InvalidSchedule(format!("beginning of range ({start}) beyond end of range ({end}): {part}")));
    }
    if step == 0 {
        return Err(InvalidSchedule(format!("step of range should be a positive number: {part}")));
    }
    let bits = (start..=end).step_by(step as usize).fold(0, |set, value| set | 1 << value);
    Ok((bits, star && step == 1))
}

/// A duration as Go writes it (`1h30m`, `90s`, `1.5h`), in whole seconds.
fn seconds(text: &str) -> Option<i64> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    let mut total = 0.0_f64;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (amount, after) = rest.split_at(digits);
        let amount: f64 = amount.parse().ok()?;
        let letters = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        total += amount
            * match unit {
                "h" => 3_600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 1e-3,
                "us" | "µs" | "μs" => 1e-6,
                "ns" => 1e-9,
                _ => return None,
            };
        rest = after;
    }
    // Go's durations end here.
    #[allow(clippy::cast_possible_truncation, reason = "the range is checked")]
    (total < 9_223_372_036.0).then_some(total as i64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn fields(text: &str) -> Fields {
        match Schedule::parse(text) {
            Ok(Schedule::Fields(fields)) => fields,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn fields_are_sets() {
        let every_two = fields("3-9/2,30 */6 * * *");
        let minutes: Vec<u32> = (0..60).filter(|minute| every_two.minute(*minute)).collect();
        assert_eq!(minutes, [3, 5, 7, 9, 30]);
        let hours: Vec<u32> = (0..24).filter(|hour| every_two.hour(*hour)).collect();
        assert_eq!(hours, [0, 6, 12, 18]);
        // `N/STEP` goes to the end.
        assert_eq!((0..60).filter(|minute| fields("50/3 * * * *").minute(*minute)).collect::<Vec<_>>(), [50, 53, 56, 59]);
    }

    /// Where both kinds of day are restricted, either is enough; a star with a step restricts.
    #[test]
    fn days_of_month_and_week() {
        assert!(fields("0 0 1 * mon").day(6, 1, 3) && fields("0 0 1 * mon").day(6, 5, 1) && !fields("0 0 1 * mon").day(6, 5, 2));
        assert!(!fields("0 0 1 * *").day(6, 5, 1) && fields("0 0 1 jun *").day(6, 1, 2) && !fields("0 0 1 jun ?").day(7, 1, 2));
        assert!(fields("0 0 */2 * mon").day(6, 3, 2) && fields("0 0 */2 * mon").day(6, 4, 1));
    }

    #[test]
    fn refusals_have_kubernetes_words() {
        for (text, words) in [
            ("* * *", "expected exactly 5 fields, found 3: [* * *]"),
            ("61 * * * *", "end of range (61) above maximum (59): 61"),
            ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("@never", "unrecognized descriptor: @never"),
        ] {
            assert_eq!(Schedule::parse(text), Err(InvalidSchedule(words.to_owned())), "{text}");
        }
    }

    #[test]
    fn names_and_intervals() {
        assert_eq!(Schedule::parse("@daily"), Schedule::parse("0 0 * * *"));
        assert_eq!(Schedule::parse("@every 1h30m"), Ok(Schedule::Every(5_400)));
        assert_eq!(Schedule::parse("@every 1.5m"), Ok(Schedule::Every(90)));
        assert_eq!(Schedule::parse("@every 1ms"), Ok(Schedule::Every(1)));
        for bad in
            ["@every", "@every ", "@every 5", "@often", "", "* * * *", "60 * * * *", "* * 0 * *", "* * * * 7", "5-1 * * * *", "*/0 * * * *"]
        {
            assert!(Schedule::parse(bad).is_err(), "{bad}");
        }
    }
}
