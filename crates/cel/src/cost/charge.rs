//! The price of one call, from its arguments and its result.

use super::range::scaled;
use super::{CHARACTER, CHECK, LIST, PATTERN};
use crate::library::format;
use crate::signatures::Signature;
use crate::types::Type;
use crate::value::{Library, Value};

/// The rule by which a call is charged; decided when it is compiled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Charge {
    /// A flat price, most often 1.
    Flat(u64),
    /// Walks its first argument, so many times a character.
    Walk(f64),
    /// Walks its second argument, the beginning or end that is looked for.
    Affix,
    /// Walks all that its first argument holds.
    Contents,
    /// Makes a text.
    Joined,
    /// A text against a pattern.
    Match,
    /// A text in a text.
    Contains,
    /// Copies two texts.
    Concatenate,
    /// Compares until one of two ends.
    Compare,
    /// Compares; addresses, quantities and their like in one step.
    Equal,
    /// Looks at every item of its second argument.
    InList,
    /// Compares an address, or a network, with a network; which may have to be parsed first.
    Network { network: bool, text: bool },
    /// A text against a named format.
    Format,
    /// Every item of one list against every item of another, so many times.
    Product(f64),
    /// Makes a list of the result's length.
    Made,
    /// Makes a list out of nested ones.
    Flattened,
    /// Every item of a list against every other.
    Sorted,
    /// Parses a selector.
    Selector,
    /// Not decided.
    #[default]
    Unknown,
}

impl Charge {
    /// The charge of a function, when `only` this overload can be meant.
    pub(crate) fn of(name: &str, only: Option<&Signature>) -> Self {
        let argument = |index: usize| only.and_then(|only| only.arguments.get(index));
        let first = argument(0);
        match name {
            "check" => Self::Flat(CHECK),
            "fieldSelector" | "labelSelector" => Self::Selector,
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => Self::Contents,
            "ip" if matches!(first, Some(Type::Library(_))) => Self::Flat(1),
            "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "ip" | "cidr" | "isIP" | "isCIDR" | "quantity" | "isQuantity"
            | "semver" | "isSemver" => Self::Walk(CHARACTER),
            "replace" | "split" | "ip.isCanonical" => Self::Walk(2.0 * CHARACTER),
            "join" => Self::Joined,
            "find" | "findAll" => Self::Match,
            "containsIP" => Self::Network { network: false, text: matches!(argument(1), Some(Type::String)) },
            "containsCIDR" => Self::Network { network: true, text: matches!(argument(1), Some(Type::String)) },
            "validate" => Self::Format,
            "_==_" => Self::Equal,
            "_!=_" => Self::Compare,
            "_<_" | "_<=_" | "_>_" | "_>=_" if matches!(first, Some(Type::String | Type::Bytes)) => Self::Compare,
            "_+_" if matches!(first, Some(Type::String | Type::Bytes)) => Self::Concatenate,
            "sets.contains" | "sets.intersects" => Self::Product(1.0),
            "sets.equivalent" => Self::Product(2.0),
            "slice" | "lists.range" | "reverse" if only.is_some() => Self::Made,
            "flatten" => Self::Flattened,
            "distinct" | "sort" if only.is_some() => Self::Sorted,
            "startsWith" | "endsWith" if only.is_some() => Self::Affix,
            "strings.quote" | "format" if only.is_some() => Self::Walk(CHARACTER),
            "bytes" if matches!(first, Some(Type::String)) => Self::Walk(CHARACTER),
            "string" if matches!(first, Some(Type::Bytes)) => Self::Walk(CHARACTER),
            "@in" if matches!(argument(1), Some(Type::List(_))) => Self::InList,
            "matches" if only.is_some_and(|only| only.member) => Self::Match,
            "contains" if only.is_some() => Self::Contains,
            // Either value is one of these functions' arguments, looked at only if it is needed.
            "or" | "orValue" => Self::Flat(0),
            _ => Self::Flat(1),
        }
    }

    /// Returns the cost of the call.
    pub(crate) fn cost(self, arguments: &[Value], result: &Value) -> u64 {
        let argument = |index: usize| arguments.get(index).map_or(1, size);
        let walk = |index: usize, factor: f64| scaled(argument(index), factor);
        match self {
            Self::Flat(price) => price,
            Self::Unknown => 1,
            Self::Walk(factor) => walk(0, factor),
            Self::Affix => walk(1, CHARACTER),
            Self::Contents => arguments.first().map_or(0, contents),
            Self::Joined => scaled(size(result), 2.0 * CHARACTER),
            Self::Match => matching(argument(0), argument(1)),
            Self::Contains => walk(0, CHARACTER).saturating_mul(walk(1, CHARACTER)),
            Self::Concatenate => scaled(argument(0).saturating_add(argument(1)), CHARACTER),
            Self::Equal if matches!(arguments.first(), Some(Value::Library(_))) => 1,
            Self::Compare | Self::Equal => scaled(argument(0).min(argument(1)), CHARACTER),
            Self::InList => argument(1),
            Self::Network { network, text } => {
                let mut cost = scaled(argument(0).saturating_mul(2), CHARACTER);
                if network {
                    cost += walk(0, CHARACTER) + 1;
                }
                if text { cost + walk(1, CHARACTER) } else { cost }
            }
            Self::Format => match arguments.first() {
                Some(Value::Library(inner)) => match &**inner {
                    Library::Format(name) => matching(argument(1), format::pattern_size(name)),
                    _ => 1,
                },
                _ => 1,
            },
            Self::Product(factor) => 1 + (argument(0).saturating_mul(argument(1)) as f64 * factor) as u64,
            Self::Made => made(1.0, size(result)),
            Self::Flattened => {
                let depth = match arguments.get(1) {
                    Some(Value::Int(depth)) => *depth as f64,
                    _ => 1.0,
                };
                made(depth, argument(0))
            }
            Self::Sorted => arguments.first().map_or(1, sorted),
            Self::Selector => LIST + walk(1, CHARACTER) + scaled(scaled(argument(1), 0.5), 50.0),
        }
    }
}

fn made(factor: f64, items: u64) -> u64 {
    (items as f64 * factor) as u64 + 1 + LIST
}

/// A list that is sorted, or rid of doubles.
pub(crate) fn sorted(list: &Value) -> u64 {
    let Value::List(list) = list else { return 1 };
    let texts = matches!(list.items.first(), Some(Value::Text(_) | Value::Bytes(_)));
    let items = list.items.len() as u64;
    made(if texts { 2.0 + CHARACTER } else { 2.0 }, items.saturating_mul(items))
}

fn matching(text: u64, pattern: u64) -> u64 {
    scaled(text.saturating_add(1), CHARACTER).saturating_mul(scaled(pattern, PATTERN))
}

/// Characters, items, entries, bytes of an address; 1 for everything else.
pub(crate) fn size(value: &Value) -> u64 {
    let count = match value {
        Value::Text(text) => text.chars().count(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(list) => list.items.len(),
        Value::Map(map) => map.len(),
        Value::Optional(Some(inner)) => return size(inner),
        Value::Library(inner) => match &**inner {
            Library::Ip(address) => {
                if address.is_ipv4() {
                    4
                } else {
                    16
                }
            }
            Library::Cidr(cidr) => usize::from(cidr.prefix).div_ceil(8),
            _ => 1,
        },
        _ => 1,
    };
    count as u64
}

/// The cost of walking all of a value; here texts count by bytes, and their last characters not at all.
fn contents(value: &Value) -> u64 {
    match value {
        Value::Text(text) => (text.len() as f64 * CHARACTER) as u64,
        Value::Bytes(bytes) => (bytes.len() as f64 * CHARACTER) as u64,
        Value::List(list) => list.items.iter().map(contents).sum(),
        Value::Map(map) => map.iter().map(|(key, value)| contents(&key.value()) + contents(value)).sum(),
        _ => 1,
    }
}
