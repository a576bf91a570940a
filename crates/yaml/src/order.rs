//! The order of keys in written mappings: numbers by value (`a2` before `a10`), and letters after everything else.

use std::cmp::Ordering;

use serde_json::{Map, Value};

/// The members of a mapping in their written order.
pub(crate) fn sorted(map: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut members: Vec<(&String, &Value)> = map.iter().collect();
    if !members.is_sorted_by(|a, b| !before(b.0, a.0)) {
        members = merged(members);
    }
    members
}

/// Sorts by merging. The order is Go's and may not be total, but the standard library requires a total one.
fn merged<'m>(members: Vec<(&'m String, &'m Value)>) -> Vec<(&'m String, &'m Value)> {
    if members.len() < 2 {
        return members;
    }
    let mut left = members;
    let right = merged(left.split_off(left.len() / 2));
    let left = merged(left);
    let mut out = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(one), Some(two)) = (left.peek(), right.peek()) {
        out.extend(if before(two.0, one.0) { right.next() } else { left.next() });
    }
    out.extend(left);
    out.extend(right);
    out
}

/// Returns whether `a` stands before `b`: the first place at which they differ decides, and a number there counts as a whole.
fn before(a: &str, b: &str) -> bool {
    if a.is_ascii() && b.is_ascii() {
        return decide(a.as_bytes(), b.as_bytes(), |byte| char::from(*byte));
    }
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    decide(&a, &b, |letter| *letter)
}

fn decide<T>(a: &[T], b: &[T], letter: impl Fn(&T) -> char) -> bool {
    let at = |text: &[T], index: usize| text.get(index).map(&letter);
    let Some(split) = (0..a.len().min(b.len())).find(|&index| at(a, index) != at(b, index)) else { return a.len() < b.len() };
    let (Some(one), Some(two)) = (at(a, split), at(b, split)) else { return false };
    match (one.is_alphabetic(), two.is_alphabetic()) {
        (true, true) => return one < two,
        (true, false) => return false,
        (false, true) => return true,
        (false, false) => {}
    }
    // A zero inside a number is a digit as any other; before a number it has no weight.
    let mut start: i64 = 0;
    if one == '0' || two == '0' {
        let digits = (0..split).rev().map_while(|index| at(a, index).filter(char::is_ascii_digit));
        start = i64::from(digits.into_iter().any(|digit| digit != '0'));
    }
    let number = |text: &[T]| {
        let mut value = start;
        let mut end = split;
        while let Some(digit) = at(text, end).and_then(|letter| letter.to_digit(10)) {
            value = value.wrapping_mul(10).wrapping_add(i64::from(digit));
            end += 1;
        }
        (value, end)
    };
    match number(a).cmp(&number(b)) {
        Ordering::Equal => one < two,
        order => order.is_lt(),
    }
}
