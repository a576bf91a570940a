//! The steps of paths: owned as sets keep them, and borrowed from the values that are walked.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;

use serde_json::{Number, Value};

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathElement {
    /// A member of an object.
    Field(String),
    /// An item of an associative list, by its keys in alphabetic order.
    Key(Vec<(String, Scalar)>),
    /// An item of a set.
    Value(Scalar),
    /// An item by its place.
    Index(i64),
}

impl PathElement {
    /// The member of that name.
    pub fn field(name: impl Into<String>) -> Self {
        Self::Field(name.into())
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl fmt::Display for PathElement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(out, ".{name}"),
            Self::Key(keys) => {
                out.write_str("[")?;
                for (index, (name, value)) in keys.iter().enumerate() {
                    write!(out, "{}{name}={value}", if index == 0 { "" } else { "," })?;
                }
                out.write_str("]")
            }
            Self::Value(value) => write!(out, "[={value}]"),
            Self::Index(index) => write!(out, "[{index}]"),
        }
    }
}

/// A step borrowed from the value that is walked: most are looked up or thrown away, few are kept.
#[derive(Clone, Debug)]
pub(crate) enum Step<'v> {
    /// See [`PathElement::Field`].
    Field(&'v str),
    /// See [`PathElement::Key`].
    Key(Keys<'v>),
    /// See [`PathElement::Value`].
    Value(&'v Value),
    /// See [`PathElement::Index`].
    Index(i64),
}

/// The keys of an item in alphabetic order: nearly always one.
#[derive(Clone, Debug)]
pub(crate) enum Keys<'v> {
    /// One, in place.
    One([(&'v str, &'v Value); 1]),
    /// Several.
    Many(Vec<(&'v str, &'v Value)>),
}

impl<'v> Deref for Keys<'v> {
    type Target = [(&'v str, &'v Value)];

    fn deref(&self) -> &Self::Target {
        match self {
            Self::One(key) => key,
            Self::Many(keys) => keys,
        }
    }
}

impl Step<'_> {
    /// The step as sets keep it.
    pub(crate) fn owned(&self) -> PathElement {
        match self {
            Self::Field(name) => PathElement::field(*name),
            Self::Key(keys) => PathElement::Key(keys.iter().map(|(name, value)| ((*name).to_owned(), Scalar((*value).clone()))).collect()),
            Self::Value(value) => PathElement::Value(Scalar((*value).clone())),
            Self::Index(index) => PathElement::Index(*index),
        }
    }

    /// Compares the step with a kept step, in the order of [`PathElement`].
    pub(crate) fn order(&self, kept: &PathElement) -> Ordering {
        match (self, kept) {
            (Self::Field(ours), PathElement::Field(theirs)) => (*ours).cmp(theirs),
            (Self::Key(ours), PathElement::Key(theirs)) => {
                let pairs = ours.iter().zip(theirs);
                let first = pairs.map(|((a, x), (b, y))| (*a).cmp(b).then_with(|| compare_values(x, &y.0))).find(|order| order.is_ne());
                first.unwrap_or_else(|| ours.len().cmp(&theirs.len()))
            }
            (Self::Value(ours), PathElement::Value(theirs)) => compare_values(ours, &theirs.0),
            (Self::Index(ours), PathElement::Index(theirs)) => ours.cmp(theirs),
            _ => self.rank().cmp(&kept.rank()),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl PartialEq for Step<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Step<'_> {}

impl PartialOrd for Step<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Step<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(ours), Self::Field(theirs)) => ours.cmp(theirs),
            (Self::Key(ours), Self::Key(theirs)) => {
                let pairs = ours.iter().zip(theirs.iter());
                let first = pairs.map(|((a, x), (b, y))| a.cmp(b).then_with(|| compare_values(x, y))).find(|order| order.is_ne());
                first.unwrap_or_else(|| ours.len().cmp(&theirs.len()))
            }
            (Self::Value(ours), Self::Value(theirs)) => compare_values(ours, theirs),
            (Self::Index(ours), Self::Index(theirs)) => ours.cmp(theirs),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

/// A value that tells list items apart, with an order. Numbers are compared by value: 1 and 1.0 are the same.
#[derive(Clone, Debug)]
pub struct Scalar(pub Value);

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scalar {}

impl PartialOrd for Scalar {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scalar {
    fn cmp(&self, other: &Self) -> Ordering {
        compare_values(&self.0, &other.0)
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Value::String(text) => out.write_str(&mainstay_golang::quote(text)),
            other => write!(out, "{other}"),
        }
    }
}

fn compare_values(left: &Value, right: &Value) -> Ordering {
    fn rank(value: &Value) -> u8 {
        match value {
            Value::Number(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) => 2,
            Value::Array(_) => 3,
            Value::Object(_) => 4,
            Value::Null => 5,
        }
    }
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => {
            let first = left.iter().zip(right).map(|(left, right)| compare_values(left, right)).find(|order| order.is_ne());
            first.unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (Value::Object(left), Value::Object(right)) => {
            let pairs = left.iter().zip(right);
            let first = pairs.map(|((a, x), (b, y))| a.cmp(b).then_with(|| compare_values(x, y))).find(|order| order.is_ne());
            first.unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        _ => rank(left).cmp(&rank(right)),
    }
}

/// Numbers by their exact value. Taking whole numbers for floating ones would make two of them equal to a third and not to each other.
fn compare_numbers(left: &Number, right: &Number) -> Ordering {
    let float = |number: &Number| number.as_f64().unwrap_or(f64::MAX);
    match (left.as_i128(), right.as_i128()) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(left), None) => compare_with_float(left, float(right)),
        (None, Some(right)) => compare_with_float(right, float(left)).reverse(),
        (None, None) => {
            let (left, right) = (float(left), float(right));
            left.partial_cmp(&right).unwrap_or_else(|| left.total_cmp(&right))
        }
    }
}

fn compare_with_float(whole: i128, float: f64) -> Ordering {
    let floor = float.floor();
    // The cast stops at the bounds of its type, which no whole number of JSON reaches.
    whole.cmp(&(floor as i128)).then(if float > floor { Ordering::Less } else { Ordering::Equal })
}

/// Returns true if two values are equal; numbers are compared by value.
pub(crate) fn equal(left: &Value, right: &Value) -> bool {
    left == right || compare_values(left, right) == Ordering::Equal
}

/// A path from the object's root, shown as in conflicts: `.spec.containers[name="c"].image`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<PathElement>);

impl Path {
    /// A path of object members.
    pub fn fields<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self(names.into_iter().map(PathElement::field).collect())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| write!(out, "{element}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Numbers that are close to each other or to the bounds of their types.
    fn number() -> impl Strategy<Value = Scalar> {
        let base =
            prop::sample::select(vec![0_i128, 1 << 53, -(1 << 53), i128::from(i64::MAX), i128::from(i64::MIN), i128::from(u64::MAX)]);
        let whole = (base, -2..3_i128).prop_map(|(base, by)| base + by);
        let exact = whole.clone().prop_map(|whole| match (i64::try_from(whole), u64::try_from(whole)) {
            (Ok(whole), _) => json!(whole),
            (_, Ok(whole)) => json!(whole),
            _ => json!(whole as f64),
        });
        prop_oneof![
            exact,
            whole.prop_map(|whole| json!(whole as f64)),
            (-4..5_i8).prop_map(|half| json!(f64::from(half) / 2.0)),
            Just(json!(-0.0))
        ]
        .prop_map(Scalar)
    }

    proptest! {
        /// KAPI-SSA-01: the order by which field sets are sorted is an order, whatever numbers they hold.
        #[test]
        fn numbers_have_a_total_order(a in number(), b in number(), c in number()) {
            prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
            if a <= b && b <= c {
                prop_assert!(a <= c, "{} <= {} <= {}", a, b, c);
            }
        }
    }

    #[test]
    fn numbers_are_compared_by_value() {
        let (below, float, above) =
            (Scalar(json!((1_i64 << 53) - 1)), Scalar(json!((1_i64 << 53) as f64)), Scalar(json!((1_i64 << 53) + 1)));
        assert!(below < float && float < above);
        assert_eq!(Scalar(json!(1)), Scalar(json!(1.0)));
        assert_eq!(Scalar(json!(0)), Scalar(json!(-0.0)));
        assert!(Scalar(json!(u64::MAX)) < Scalar(json!(u64::MAX as f64)));
    }
}
