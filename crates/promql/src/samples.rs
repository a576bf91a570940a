//! Samples of series in memory, over a window of time.

use std::collections::{BTreeMap, VecDeque};

use crate::NAME;

/// The labels of a series, the name among them; none is empty.
pub type Labels = BTreeMap<String, String>;

/// A value of a series at the time of an evaluation.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Its labels.
    pub labels: Labels,
    /// Its value.
    pub value: f64,
}

/// More series than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("more than {limit} series")]
pub struct TooManySeries {
    /// The limit.
    pub limit: usize,
}

/// A value, or the mark that the series was no longer there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Point {
    Value(f64),
    Gone,
}

#[derive(Debug, Default)]
pub(crate) struct Series {
    pub points: VecDeque<(i64, Point)>,
}

/// Series with their samples of the last minutes.
#[derive(Debug)]
pub struct Samples {
    by_name: BTreeMap<String, BTreeMap<Labels, Series>>,
    /// Milliseconds for which samples are kept.
    window: i64,
    limit: usize,
    count: usize,
}

impl Samples {
    /// Series that keep their samples for a window (milliseconds), and at most so many of them.
    pub fn new(window: i64, limit: usize) -> Self {
        Self { by_name: BTreeMap::new(), window, limit, count: 0 }
    }

    /// Keeps samples for another window (milliseconds) from now on.
    pub fn keep_for(&mut self, window: i64) {
        self.window = window;
    }

    /// Adds values of a time (milliseconds since 1970).
    ///
    /// # Errors
    ///
    /// If there are more series than the limit: those beyond it are not added.
    pub fn insert(&mut self, at: i64, values: impl IntoIterator<Item = Sample>) -> Result<(), TooManySeries> {
        let mut outcome = Ok(());
        for Sample { mut labels, value } in values {
            labels.retain(|_, value| !value.is_empty());
            if !self.append(at, labels, value) {
                outcome = Err(TooManySeries { limit: self.limit });
            }
        }
        self.forget(at);
        outcome
    }

    /// Adds the values of one scrape of everything. Series that were there before and have no value now are gone from this time on.
    ///
    /// # Errors
    ///
    /// As [`Samples::insert`].
    pub fn scrape(&mut self, at: i64, values: impl IntoIterator<Item = Sample>) -> Result<(), TooManySeries> {
        let outcome = self.insert(at, values);
        for series in self.by_name.values_mut().flat_map(BTreeMap::values_mut) {
            if matches!(series.points.back(), Some((last, Point::Value(_))) if *last < at) {
                series.points.push_back((at, Point::Gone));
            }
        }
        outcome
    }

    fn append(&mut self, at: i64, labels: Labels, value: f64) -> bool {
        let name = labels.get(NAME).map_or("", String::as_str);
        let known = self.by_name.get_mut(name).and_then(|series| series.get_mut(&labels));
        if let Some(series) = known {
            // Samples are in the order of time; a second one of the same time is left out.
            if series.points.back().is_none_or(|(last, _)| *last < at) {
                series.points.push_back((at, Point::Value(value)));
            }
            return true;
        }
        if self.count >= self.limit {
            return false;
        }
        self.count += 1;
        let series = Series { points: VecDeque::from([(at, Point::Value(value))]) };
        self.by_name.entry(name.to_owned()).or_default().insert(labels, series);
        true
    }

    fn forget(&mut self, now: i64) {
        let begin = now.saturating_sub(self.window);
        let mut count = 0;
        self.by_name.retain(|_, all| {
            all.retain(|_, series| {
                while series.points.front().is_some_and(|(at, _)| *at < begin) {
                    series.points.pop_front();
                }
                !series.points.is_empty()
            });
            count += all.len();
            !all.is_empty()
        });
        self.count = count;
    }

    /// Series of a name, or all.
    pub(crate) fn of(&self, name: Option<&str>) -> impl Iterator<Item = (&Labels, &Series)> {
        let (one, rest) = match name {
            Some(name) => (self.by_name.get(name), None),
            None => (None, Some(self.by_name.values())),
        };
        one.into_iter().chain(rest.into_iter().flatten()).flatten()
    }
}
