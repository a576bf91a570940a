//! Functions over the values of a series in a range of time.

use crate::aggregate::{average, least, quantile, sum, variance};
use crate::calls::{length, seconds};
use crate::evaluate::Range;

/// The value of a range, with the function's number and the time of the query; none if the range holds too few values.
pub(crate) type Over = fn(&Range, f64, i64) -> Option<f64>;

/// The function of that name.
pub(crate) fn find(function: &str) -> Option<Over> {
    Some(match function {
        "avg_over_time" => |range, _, _| Some(average(&values(range))),
        "count_over_time" => |range, _, _| Some(length(&range.points)),
        "last_over_time" => |range, _, _| range.points.last().map(|(_, value)| *value),
        "max_over_time" => |range, _, _| Some(-least(&values(range).iter().map(|value| -value).collect::<Vec<_>>())),
        "min_over_time" => |range, _, _| Some(least(&values(range))),
        "present_over_time" => |_, _, _| Some(1.0),
        "quantile_over_time" => |range, share, _| Some(quantile(share, &values(range))),
        "stddev_over_time" => |range, _, _| Some(variance(&values(range)).sqrt()),
        "stdvar_over_time" => |range, _, _| Some(variance(&values(range))),
        "sum_over_time" => |range, _, _| Some(sum(&values(range))),
        "changes" => |range, _, _| Some(changes(range)),
        "resets" => |range, _, _| Some(steps(range, |before, value| value < before)),
        "delta" => |range, _, _| extrapolated(range, false),
        "increase" => |range, _, _| extrapolated(range, true),
        "rate" => |range, _, _| Some(extrapolated(range, true)? / seconds(range.end - range.begin)),
        "idelta" => |range, _, _| last_two(range).map(|(before, last)| last.1 - before.1),
        "irate" => |range, _, _| instant_rate(range),
        "deriv" => |range, _, _| Some(line(range, range.points.first()?.0)?.0),
        "predict_linear" => |range, ahead, now| line(range, now).map(|(slope, here)| slope * ahead + here),
        _ => return None,
    })
}

fn values(range: &Range) -> Vec<f64> {
    range.points.iter().map(|(_, value)| *value).collect()
}

/// Neighbours for which a test holds.
fn steps(range: &Range, test: fn(f64, f64) -> bool) -> f64 {
    let pairs = range.points.windows(2).filter(|pair| matches!(pair, [(_, before), (_, value)] if test(*before, *value)));
    crate::aggregate::count(pairs.count())
}

#[allow(clippy::float_cmp, reason = "any other value is a change")]
fn changes(range: &Range) -> f64 {
    steps(range, |before, value| value != before && !(value.is_nan() && before.is_nan()))
}

fn last_two(range: &Range) -> Option<((i64, f64), (i64, f64))> {
    match range.points.as_slice() {
        [.., before, last] => Some((*before, *last)),
        _ => None,
    }
}

fn instant_rate(range: &Range) -> Option<f64> {
    let (before, last) = last_two(range)?;
    let time = seconds(last.0 - before.0);
    if time <= 0.0 {
        return None;
    }
    // A counter that is less than before began at 0 again.
    let increase = if last.1 < before.1 { last.1 } else { last.1 - before.1 };
    Some(increase / time)
}

/// The change over the whole range, as the values inside of it let expect: they begin and end somewhat within its limits.
fn extrapolated(range: &Range, is_counter: bool) -> Option<f64> {
    let (first, last) = match range.points.as_slice() {
        [first, .., last] => (*first, *last),
        _ => return None,
    };
    let mut change = last.1 - first.1;
    if is_counter {
        for pair in range.points.windows(2) {
            if let [(_, before), (_, value)] = pair
                && value < before
            {
                change += before;
            }
        }
    }
    let sampled = seconds(last.0 - first.0);
    let between = sampled / (length(&range.points) - 1.0);
    let threshold = between * 1.1;
    let mut to_begin = seconds(first.0 - range.begin);
    let mut to_end = seconds(range.end - last.0);
    if to_begin >= threshold {
        to_begin = between / 2.0;
    }
    if is_counter && change > 0.0 && first.1 >= 0.0 {
        // A counter was never below 0.
        to_begin = to_begin.min(sampled * (first.1 / change));
    }
    if to_end >= threshold {
        to_end = between / 2.0;
    }
    Some(change * ((sampled + to_begin + to_end) / sampled))
}

/// Slope and value at a time of the line through the values (least squares).
fn line(range: &Range, at: i64) -> Option<(f64, f64)> {
    if range.points.len() < 2 {
        return None;
    }
    let first = range.points.first()?.1;
    #[allow(clippy::float_cmp, reason = "a line through equal values has no slope")]
    let is_constant = range.points.iter().all(|(_, value)| *value == first);
    if is_constant {
        return Some(if first.is_infinite() { (f64::NAN, f64::NAN) } else { (0.0, first) });
    }
    let number = length(&range.points);
    let times: Vec<f64> = range.points.iter().map(|(time, _)| seconds(time - at)).collect();
    let values = values(range);
    let of = |each: &dyn Fn(f64, f64) -> f64| sum(&times.iter().zip(&values).map(|(time, value)| each(*time, *value)).collect::<Vec<_>>());
    let (all_times, all_values) = (of(&|time, _| time), of(&|_, value| value));
    let products = of(&|time, value| time * value) - all_times * all_values / number;
    let squares = of(&|time, _| time * time) - all_times * all_times / number;
    let slope = products / squares;
    Some((slope, all_values / number - slope * all_times / number))
}
