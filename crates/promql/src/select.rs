//! Selectors: the series whose labels fit, at a time or over a range.

use crate::evaluate::{Evaluation, Range};
use crate::expr::{At, Selector, Shift};
use crate::samples::{Point, Sample};
use crate::{EvaluateError, LOOKBACK};

impl Evaluation<'_> {
    /// The time that a shifted part looks at.
    pub(crate) fn shifted(&self, shift: Shift, at: i64) -> i64 {
        let at = match shift.at {
            None => at,
            Some(At::Time(time)) => time,
            Some(At::Query) => self.query_at,
        };
        at.saturating_sub(shift.offset)
    }

    /// The last values before a time.
    pub(crate) fn instant(&mut self, selector: &Selector, at: i64) -> Result<Vec<(Sample, i64)>, EvaluateError> {
        let end = self.shifted(selector.shift, at);
        let begin = end.saturating_sub(LOOKBACK);
        let mut found = Vec::new();
        for (labels, series) in self.samples.of(selector.name()) {
            if !fits(selector, labels) {
                continue;
            }
            self.work.spend(1)?;
            let last = series.points.iter().rev().find(|(time, _)| *time <= end);
            if let Some((time, Point::Value(value))) = last
                && *time > begin
            {
                found.push((Sample { labels: labels.clone(), value: *value }, *time));
            }
        }
        Ok(found)
    }

    /// The values of a range that ends at a time; open on the left.
    pub(crate) fn range(&mut self, selector: &Selector, length: i64, at: i64) -> Result<Vec<Range>, EvaluateError> {
        let end = self.shifted(selector.shift, at);
        let begin = end.saturating_sub(length);
        let mut found = Vec::new();
        for (labels, series) in self.samples.of(selector.name()) {
            if !fits(selector, labels) {
                continue;
            }
            let inside = series.points.iter().filter(|(time, _)| *time > begin && *time <= end);
            let points: Vec<(i64, f64)> = inside
                .filter_map(|(time, point)| match point {
                    Point::Value(value) => Some((*time, *value)),
                    Point::Gone => None,
                })
                .collect();
            self.work.spend(series.points.len())?;
            if !points.is_empty() {
                found.push(Range { labels: labels.clone(), points, begin, end });
            }
        }
        Ok(found)
    }
}

fn fits(selector: &Selector, labels: &crate::Labels) -> bool {
    selector.matchers.iter().all(|matcher| matcher.test.holds(labels.get(&matcher.label).map_or("", String::as_str)))
}
