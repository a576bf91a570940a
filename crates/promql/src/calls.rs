//! Functions.

use jiff::Timestamp;
use jiff::civil::Weekday;
use jiff::tz::TimeZone;

use crate::aggregate::count;
use crate::evaluate::{Evaluation, Range, Value, nameless, unique, without_name};
use crate::expr::{Expr, Selector, Test};
use crate::samples::{Labels, Sample};
use crate::{EvaluateError, NAME, histogram, label_calls, ranges};

impl Evaluation<'_> {
    pub(crate) fn call(&mut self, function: &str, arguments: &[Expr], at: i64) -> Result<Value, EvaluateError> {
        // These look at more than the values of their argument.
        match (function, arguments) {
            ("timestamp", [Expr::Selector(selector)]) => return self.timestamps(selector, at),
            ("absent" | "absent_over_time", [argument]) => return self.absent(argument, at),
            _ => {}
        }
        let mut values = Vec::with_capacity(arguments.len());
        for argument in arguments {
            values.push(self.value(argument, at)?);
        }
        if let Some(over) = ranges::find(function) {
            return self.over_ranges(function, over, values, at);
        }
        plain(function, values, at)
    }

    /// The time of each series' sample, not that of the evaluation.
    fn timestamps(&mut self, selector: &Selector, at: i64) -> Result<Value, EvaluateError> {
        let found = self.instant(selector, at)?;
        let samples =
            found.into_iter().map(|(sample, time)| Sample { labels: without_name(sample.labels), value: seconds(time) }).collect();
        unique(samples).map(Value::Vector)
    }

    fn absent(&mut self, argument: &Expr, at: i64) -> Result<Value, EvaluateError> {
        let is_there = match self.value(argument, at)? {
            Value::Matrix(matrix) => !matrix.is_empty(),
            other => !other.vector().is_empty(),
        };
        let labels = match argument {
            Expr::Selector(selector) => selected(selector),
            _ => Labels::new(),
        };
        Ok(Value::Vector(if is_there { Vec::new() } else { vec![Sample { labels, value: 1.0 }] }))
    }

    fn over_ranges(&mut self, function: &str, over: ranges::Over, mut values: Vec<Value>, at: i64) -> Result<Value, EvaluateError> {
        // The range is the argument that is no number; the numbers are settings of the function.
        let place = values.iter().position(|value| matches!(value, Value::Matrix(_))).unwrap_or_default();
        let matrix = if place < values.len() { values.remove(place).matrix() } else { Vec::new() };
        let number = values.first().map_or(f64::NAN, Value::scalar);
        let mut found = Vec::with_capacity(matrix.len());
        for range in matrix {
            self.work.spend(range.points.len())?;
            let Some(value) = over(&range, number, at) else { continue };
            let Range { labels, .. } = range;
            let labels = if function == "last_over_time" { labels } else { without_name(labels) };
            found.push(Sample { labels, value });
        }
        unique(found).map(Value::Vector)
    }
}

/// The labels that a selector demands of every series with one value.
fn selected(selector: &Selector) -> Labels {
    let mut labels = Labels::new();
    for matcher in selector.matchers.iter().filter(|matcher| matcher.label != NAME) {
        match &matcher.test {
            Test::Equal(value) if !labels.contains_key(&matcher.label) => labels.insert(matcher.label.clone(), value.clone()),
            _ => labels.remove(&matcher.label),
        };
    }
    labels.retain(|_, value| !value.is_empty());
    labels
}

#[allow(clippy::cast_precision_loss, reason = "times of this age are exact")]
pub(crate) fn seconds(milliseconds: i64) -> f64 {
    milliseconds as f64 / 1000.0
}

fn plain(function: &str, values: Vec<Value>, at: i64) -> Result<Value, EvaluateError> {
    let mut values = values.into_iter();
    let first = values.next();
    let rest: Vec<Value> = values.collect();
    let number = |place: usize| rest.get(place).map(Value::scalar);
    if let Some(of) = of_number(function) {
        return nameless(vector(first), of).map(Value::Vector);
    }
    if let Some(of) = of_date(function) {
        // Without an argument, of the evaluation's time.
        let vector = first.map_or_else(|| vec![Sample { labels: Labels::new(), value: seconds(at) }], Value::vector);
        return nameless(vector, |value| date(value).map_or(f64::NAN, of)).map(Value::Vector);
    }
    Ok(match function {
        "time" => Value::Scalar(seconds(at)),
        "pi" => Value::Scalar(std::f64::consts::PI),
        "vector" => Value::Vector(vec![Sample { labels: Labels::new(), value: first.map_or(f64::NAN, |value| value.scalar()) }]),
        "scalar" => match vector(first).as_slice() {
            [one] => Value::Scalar(one.value),
            _ => Value::Scalar(f64::NAN),
        },
        "timestamp" => Value::Vector(nameless(vector(first), |_| seconds(at))?),
        "sort" | "sort_desc" => Value::Vector(vector(first)),
        "clamp" => {
            let (least, most) = (number(0).unwrap_or(f64::NAN), number(1).unwrap_or(f64::NAN));
            let inside = if least > most { Vec::new() } else { vector(first) };
            Value::Vector(nameless(inside, |value| limited(value, least, most))?)
        }
        "clamp_min" => Value::Vector(nameless(vector(first), |value| limited(value, number(0).unwrap_or(f64::NAN), f64::INFINITY))?),
        "clamp_max" => Value::Vector(nameless(vector(first), |value| limited(value, f64::NEG_INFINITY, number(0).unwrap_or(f64::NAN)))?),
        "round" => {
            let unit = 1.0 / number(0).unwrap_or(1.0);
            Value::Vector(nameless(vector(first), |value| (value * unit + 0.5).floor() / unit)?)
        }
        "histogram_quantile" => {
            let share = first.map_or(f64::NAN, |value| value.scalar());
            Value::Vector(histogram::quantiles(share, rest.into_iter().next().map(Value::vector).unwrap_or_default())?)
        }
        "label_replace" => Value::Vector(label_calls::replace(vector(first), &rest)?),
        "label_join" => Value::Vector(label_calls::join(vector(first), &rest)?),
        other => return Err(EvaluateError::Unsupported(other.to_owned())),
    })
}

fn vector(value: Option<Value>) -> Vec<Sample> {
    value.map(Value::vector).unwrap_or_default()
}

/// A number between two limits. Of NaN and a limit that is infinite the limit is left, as in Go.
fn limited(value: f64, least: f64, most: f64) -> f64 {
    let above = |value: f64, limit: f64| match (value, limit) {
        (f64::INFINITY, _) | (_, f64::INFINITY) => f64::INFINITY,
        _ if value.is_nan() || limit.is_nan() => f64::NAN,
        _ => value.max(limit),
    };
    above(-above(-value, -most), least)
}

fn of_number(function: &str) -> Option<fn(f64) -> f64> {
    Some(match function {
        "abs" => f64::abs,
        "acos" => f64::acos,
        "acosh" => f64::acosh,
        "asin" => f64::asin,
        "asinh" => f64::asinh,
        "atan" => f64::atan,
        "atanh" => f64::atanh,
        "ceil" => f64::ceil,
        "cos" => f64::cos,
        "cosh" => f64::cosh,
        "deg" => f64::to_degrees,
        "exp" => f64::exp,
        "floor" => f64::floor,
        "ln" => f64::ln,
        "log10" => f64::log10,
        "log2" => f64::log2,
        "rad" => f64::to_radians,
        "sgn" => |value: f64| {
            if value < 0.0 {
                -1.0
            } else if value > 0.0 {
                1.0
            } else {
                value
            }
        },
        "sin" => f64::sin,
        "sinh" => f64::sinh,
        "sqrt" => f64::sqrt,
        "tan" => f64::tan,
        "tanh" => f64::tanh,
        _ => return None,
    })
}

fn date(seconds: f64) -> Option<jiff::civil::DateTime> {
    #[allow(clippy::cast_possible_truncation, reason = "a time beyond the range is none")]
    let time = Timestamp::from_second(seconds as i64).ok().filter(|_| seconds.is_finite())?;
    Some(time.to_zoned(TimeZone::UTC).datetime())
}

fn of_date(function: &str) -> Option<fn(jiff::civil::DateTime) -> f64> {
    Some(match function {
        "minute" => |date| f64::from(date.minute()),
        "hour" => |date| f64::from(date.hour()),
        "day_of_month" => |date| f64::from(date.day()),
        "day_of_week" => |date| f64::from(Weekday::to_sunday_zero_offset(date.weekday())),
        "day_of_year" => |date| f64::from(date.day_of_year()),
        "days_in_month" => |date| f64::from(date.days_in_month()),
        "month" => |date| f64::from(date.month()),
        "year" => |date| f64::from(date.year()),
        _ => return None,
    })
}

/// The share that a rank has of the values, for functions over ranges.
pub(crate) fn length(points: &[(i64, f64)]) -> f64 {
    count(points.len())
}
