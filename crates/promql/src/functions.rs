//! The functions and their types.

use crate::expr::Kind::{self, Matrix, Scalar, Text, Vector};

/// A function: the types of its arguments, how many of the last ones may be left out, if the last may be repeated, and what it gives.
pub(crate) struct Function {
    pub(crate) arguments: &'static [Kind],
    pub(crate) optional: usize,
    pub(crate) repeated: bool,
    pub(crate) result: Kind,
}

const fn plain(arguments: &'static [Kind]) -> Function {
    Function { arguments, optional: 0, repeated: false, result: Vector }
}

/// The function of that name.
pub(crate) fn find(name: &str) -> Option<Function> {
    Some(match name {
        "abs" | "absent" | "acos" | "acosh" | "asin" | "asinh" | "atan" | "atanh" | "ceil" | "cos" | "cosh" | "deg" | "exp" | "floor"
        | "histogram_avg" | "histogram_count" | "histogram_stddev" | "histogram_stdvar" | "histogram_sum" | "ln" | "log10" | "log2"
        | "rad" | "sgn" | "sin" | "sinh" | "sort" | "sort_desc" | "sqrt" | "tan" | "tanh" | "timestamp" => plain(&[Vector]),
        "absent_over_time"
        | "avg_over_time"
        | "changes"
        | "count_over_time"
        | "delta"
        | "deriv"
        | "idelta"
        | "increase"
        | "irate"
        | "last_over_time"
        | "mad_over_time"
        | "max_over_time"
        | "min_over_time"
        | "present_over_time"
        | "rate"
        | "resets"
        | "stddev_over_time"
        | "stdvar_over_time"
        | "sum_over_time"
        | "ts_of_last_over_time"
        | "ts_of_max_over_time"
        | "ts_of_min_over_time" => plain(&[Matrix]),
        "day_of_month" | "day_of_week" | "day_of_year" | "days_in_month" | "hour" | "minute" | "month" | "year" => {
            Function { optional: 1, ..plain(&[Vector]) }
        }
        "clamp" => plain(&[Vector, Scalar, Scalar]),
        "clamp_max" | "clamp_min" => plain(&[Vector, Scalar]),
        "double_exponential_smoothing" | "holt_winters" => plain(&[Matrix, Scalar, Scalar]),
        "histogram_fraction" => plain(&[Scalar, Scalar, Vector]),
        "histogram_quantile" => plain(&[Scalar, Vector]),
        "info" => Function { optional: 1, ..plain(&[Vector, Vector]) },
        "label_join" => Function { optional: 1, repeated: true, ..plain(&[Vector, Text, Text, Text]) },
        "label_replace" => plain(&[Vector, Text, Text, Text, Text]),
        "pi" | "time" => Function { result: Scalar, ..plain(&[]) },
        "predict_linear" => plain(&[Matrix, Scalar]),
        "quantile_over_time" => plain(&[Scalar, Matrix]),
        "round" => Function { optional: 1, ..plain(&[Vector, Scalar]) },
        "scalar" => Function { result: Scalar, ..plain(&[Vector]) },
        "sort_by_label" | "sort_by_label_desc" => Function { optional: 1, repeated: true, ..plain(&[Vector, Text]) },
        "vector" => plain(&[Scalar]),
        _ => return None,
    })
}

/// The types of an aggregation's arguments.
pub(crate) fn aggregation(name: &str) -> Option<&'static [Kind]> {
    Some(match name {
        "avg" | "count" | "group" | "max" | "min" | "stddev" | "stdvar" | "sum" => &[Vector],
        "bottomk" | "limitk" | "limit_ratio" | "quantile" | "topk" => &[Scalar, Vector],
        "count_values" => &[Text, Vector],
        _ => return None,
    })
}

/// Functions and aggregations that are parsed, but not evaluated: those of native histograms, experimental ones, and those that order a result.
pub(crate) fn is_parsed_only(name: &str) -> bool {
    matches!(
        name,
        "histogram_avg"
            | "histogram_count"
            | "histogram_fraction"
            | "histogram_stddev"
            | "histogram_stdvar"
            | "histogram_sum"
            | "double_exponential_smoothing"
            | "holt_winters"
            | "info"
            | "mad_over_time"
            | "sort_by_label"
            | "sort_by_label_desc"
            | "ts_of_last_over_time"
            | "ts_of_max_over_time"
            | "ts_of_min_over_time"
            | "limitk"
            | "limit_ratio"
    )
}
