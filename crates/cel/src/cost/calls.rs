//! The worst case of one call, by function and overload.

use super::estimate::Facts;
use super::range::Range;
use super::{CHARACTER, CHECK, LIST, PATTERN};
use crate::check::{Bindings, assignable};
use crate::signatures::{Signature, comparison, overloads};
use crate::types::Type;

/// The size of an address, in bytes.
const ADDRESS: Range = Range { min: 4, max: 16 };
/// The longest name of a format, and the longest pattern of one.
const FORMAT: u64 = 64;
const FORMAT_PATTERN: f64 = 128.0;

/// Estimates the cost of a call beyond its arguments, and the size of its result if that is known.
pub(crate) fn estimate(function: &str, member: bool, arguments: &[Facts]) -> (Range, Option<Range>) {
    let mut cost: Option<Range> = None;
    let mut size: Option<Range> = None;
    let candidates = overloads(comparison(function)).iter().filter(|one| one.member == member && one.arguments.len() == arguments.len());
    for candidate in candidates {
        let mut bindings = Bindings::new();
        let fits = candidate.arguments.iter().zip(arguments).all(|(wanted, given)| assignable(wanted, &given.kind, &mut bindings));
        if !fits {
            continue;
        }
        let (one, result) = overload(function, candidate, arguments);
        cost = Some(cost.map_or(one, |cost| cost.union(one)));
        size = match (size, result) {
            (Some(size), Some(result)) => Some(size.union(result)),
            (size, result) => result.or(size),
        };
    }
    (cost.unwrap_or(Range::exactly(1)), size)
}

type Estimate = (Range, Option<Range>);

fn overload(function: &str, signature: &Signature, arguments: &[Facts]) -> Estimate {
    let of_lists = lists(function, signature, arguments).or_else(|| kubernetes(function, signature, arguments));
    of_lists.unwrap_or_else(|| standard(function, signature, arguments))
}

/// A call that makes a list of a size, with so much work an item.
fn allocating(factor: f64, size: Range) -> Estimate {
    (size.scaled(factor).plus(Range::exactly(1 + LIST)), Some(size))
}

fn literal(argument: &Facts) -> Option<u64> {
    argument.number.map(|number| u64::try_from(number).unwrap_or(0))
}

fn lists(function: &str, signature: &Signature, arguments: &[Facts]) -> Option<Estimate> {
    let first = arguments.first().map(Facts::size_or_unknown);
    let of_list = matches!(signature.arguments.first(), Some(Type::List(_)));
    Some(match (function, arguments) {
        ("slice", [list, start, end]) => {
            let (start, end) = (literal(start).unwrap_or(0), literal(end).unwrap_or(list.size_or_unknown().max));
            allocating(1.0, Range::exactly(end.wrapping_sub(start)))
        }
        ("flatten", [list]) => allocating(1.0, list.size_or_unknown()),
        ("flatten", [list, depth]) => allocating(literal(depth).unwrap_or(u64::MAX) as f64, list.size_or_unknown()),
        ("lists.range", [count]) => allocating(1.0, Range::exactly(literal(count).unwrap_or(u64::MAX))),
        ("reverse", [list]) if of_list => allocating(1.0, list.size_or_unknown()),
        ("distinct", [_]) => allocating(2.0, first?.times(first?)),
        ("sort", [_]) => {
            let texts = matches!(&signature.arguments[0], Type::List(items) if matches!(**items, Type::String | Type::Bytes));
            allocating(if texts { 2.0 + CHARACTER } else { 2.0 }, first?.times(first?))
        }
        ("sets.contains" | "sets.intersects", [left, right]) => {
            (left.size_or_unknown().times(right.size_or_unknown()).scaled(1.0).plus(Range::exactly(1)), None)
        }
        ("sets.equivalent", [left, right]) => {
            (left.size_or_unknown().times(right.size_or_unknown()).scaled(2.0).plus(Range::exactly(1)), None)
        }
        _ => return None,
    })
}

/// Matching a pattern: every character of the text against every state of the pattern.
fn matching(text: Range, pattern: Range) -> Range {
    text.plus(Range::exactly(1)).scaled(CHARACTER).times(pattern.scaled(PATTERN))
}

fn kubernetes(function: &str, signature: &Signature, arguments: &[Facts]) -> Option<Estimate> {
    let first = arguments.first().map_or(Range::UNKNOWN, Facts::size_or_unknown);
    let second = arguments.get(1).map_or(Range::UNKNOWN, Facts::size_or_unknown);
    let one = Range::exactly(1);
    let cost = match function {
        "check" => Range::exactly(CHECK),
        "fieldSelector" | "labelSelector" => Range::exactly(LIST).plus(second.scaled(CHARACTER)).plus(second.scaled(0.5).scaled(50.0)),
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => match &arguments.first()?.kind {
            Type::List(items) => {
                let texts = matches!(**items, Type::String | Type::Bytes);
                let each = if texts { one.plus(arguments[0].item_size().scaled(CHARACTER)) } else { one };
                first.times(each)
            }
            _ => first.scaled(CHARACTER),
        },
        "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" => return Some((first.scaled(CHARACTER), Some(first))),
        "replace" => return Some((first.scaled(2.0 * CHARACTER), Some(replaced(arguments)))),
        "split" => {
            let most = arguments.get(2).and_then(|count| count.number).map_or(first.max, |count| count as u64);
            return Some((first.scaled(2.0 * CHARACTER), Some(Range::new(0, most))));
        }
        "join" => {
            let mut size = first.times(arguments[0].item_size());
            if arguments.len() > 1 {
                size = size.plus(second.times(Range::new(first.min.saturating_sub(1), first.max.saturating_sub(1))));
            }
            return Some((size.scaled(CHARACTER), Some(size)));
        }
        "find" | "findAll" => return Some((matching(first, second), Some(Range::new(0, first.max)))),
        "ip" if matches!(signature.arguments[0], Type::Library(_)) => one,
        "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => first.scaled(CHARACTER),
        "ip.isCanonical" => first.scaled(2.0 * CHARACTER),
        "containsIP" | "containsCIDR" => {
            let mut cost = ADDRESS.plus(ADDRESS).scaled(CHARACTER);
            if function == "containsCIDR" {
                cost = cost.plus(ADDRESS.scaled(CHARACTER)).plus(one);
            }
            if matches!(signature.arguments[1], Type::String) { cost.plus(second.scaled(CHARACTER)) } else { cost }
        }
        "validate" => second.scaled(CHARACTER).scaled(FORMAT_PATTERN * PATTERN),
        "_==_" => {
            let (left, right) = (&arguments.first()?.kind, &arguments.get(1)?.kind);
            match (left, right) {
                (Type::Library(left), Type::Library(right)) if left == right => match *left {
                    "kubernetes.NamedFormat" => Range::new(1, FORMAT).scaled(CHARACTER),
                    "kubernetes.URL" => Range::new(1, arguments[1].size.map_or(1, |size| size.max)).scaled(CHARACTER),
                    _ => one,
                },
                _ => return None,
            }
        }
        _ => return None,
    };
    Some((cost, None))
}

/// The size of a text after replacements: as many as possible of the shortest by the longest, and the reverse.
fn replaced(arguments: &[Facts]) -> Range {
    let size = |index: usize| arguments.get(index).map_or(Range::UNKNOWN, Facts::size_or_unknown);
    let (text, old, new) = (size(0), size(1), size(2));
    let times = |text: u64, old: u64| (text as f64 / old as f64).ceil() as u64;
    let (most, kept_at_most) = if old.min == 0 {
        (text.max.saturating_add(1), text.max)
    } else if new.max <= old.min {
        (0, text.max)
    } else {
        (times(text.max, old.min), 0)
    };
    let (least, kept_at_least) = if old.max == 0 {
        (text.min.saturating_add(1), text.min)
    } else if old.max <= new.min {
        (0, text.min)
    } else {
        (times(text.min, old.max), 0)
    };
    Range::new(least, most).times(new).plus(Range::new(kept_at_least, kept_at_most))
}

fn standard(function: &str, signature: &Signature, arguments: &[Facts]) -> Estimate {
    let size = |index: usize| arguments.get(index).map_or(Range::UNKNOWN, Facts::size_or_unknown);
    let wanted = |index: usize| signature.arguments.get(index);
    let one = Range::exactly(1);
    match (function, wanted(0)) {
        ("format", _) => (size(0).scaled(CHARACTER), None),
        ("bytes", Some(Type::String)) => (size(0).scaled(CHARACTER), Some(Range::new(size(0).min, size(0).max.wrapping_mul(4)))),
        ("string", Some(Type::Bytes)) => (size(0).scaled(CHARACTER), Some(Range::new(size(0).min / 4, size(0).max))),
        ("strings.quote", _) => {
            let size = size(0);
            (size.scaled(CHARACTER), Some(Range::new(size.min + 2, size.max.wrapping_mul(2).wrapping_add(2))))
        }
        ("startsWith" | "endsWith", _) => (size(1).scaled(CHARACTER), None),
        ("@in", _) if matches!(wanted(1), Some(Type::List(_))) => (size(1).scaled(1.0), None),
        ("matches", _) if signature.member => (matching(size(0), size(1)), None),
        ("contains", _) => (size(0).scaled(CHARACTER).times(size(1).scaled(CHARACTER)), None),
        ("_+_", Some(Type::List(_))) => (one, Some(size(0).plus(size(1)))),
        ("_+_", Some(Type::String | Type::Bytes)) => {
            let sum = size(0).plus(size(1));
            (sum.scaled(CHARACTER), Some(sum))
        }
        ("_==_" | "_!=_", _) | ("_<_" | "_<=_" | "_>_" | "_>=_", Some(Type::String | Type::Bytes)) => {
            let smaller = size(0).max.min(size(1).max);
            (Range::new(u64::from(smaller > 0), smaller).scaled(CHARACTER), None)
        }
        _ => (one, None),
    }
}
