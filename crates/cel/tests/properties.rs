//! What holds of every expression: nothing makes the reader or the evaluator panic, and no run costs more than was estimated.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use mainstay_cel::{Activation, Env, PER_CALL_LIMIT, Program, Type, Value, from_schema};
use mainstay_schema::{Schema, SchemaRef};
use proptest::prelude::*;
use serde_json::json;

const PIECES: &[&str] = &[
    "self",
    ".",
    "a",
    "l",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    ",",
    ":",
    "?",
    ".?",
    "[?",
    "all",
    "map",
    "exists_one",
    "has",
    "size",
    "'x'",
    "\"",
    "'''",
    "r'",
    "b'\\x",
    "1",
    "-",
    "9223372036854775808",
    "0x",
    "1e999",
    "u",
    "+",
    "==",
    "&&",
    "||",
    "!",
    "in",
    "matches",
    "'('",
    "format",
    "optional",
    ".of(",
    "duration",
    "'1h'",
    "timestamp",
    "é",
    "\\",
    "//",
    "\n",
    "null",
    "dyn",
    "type",
    "sortBy",
    "transformMap",
    "optMap",
    "authorizer",
    "url",
    "ip",
    "cidr",
    "quantity",
    "semver",
    "lists.range",
    "%d",
    "split",
    "replace",
    "''",
    "substring",
    "slice",
    "flatten",
];

fn environment() -> (Env, Activation) {
    let schema = json!({"type": "object", "properties": {
        "s": {"type": "string", "maxLength": 12},
        "t": {"type": "string", "maxLength": 3},
        "b": {"type": "boolean"},
        "l": {"type": "array", "maxItems": 6, "items": {"type": "integer"}},
        "n": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 4}},
    }});
    let schema = SchemaRef::new(Schema::from_json(&schema).unwrap());
    let object = json!({"s": "hello, world", "t": "abc", "b": true, "l": [5, 3, 1, 4, 2, 6], "n": ["abcd", "b", "", "dd", "abcd"]});
    let env = Env::new().sized(&schema).variable("self", Type::of_schema(&schema).unwrap());
    (env, Activation::new().with("self", from_schema(&object, &schema)))
}

/// Expressions of type text and bool, by construction; `depth` bounds their nesting, so that variables have names of their own.
fn text(depth: u32) -> BoxedStrategy<String> {
    let leaf = prop_oneof![Just("self.s".to_owned()), Just("self.t".to_owned()), "[a-z]{0,6}".prop_map(|text| format!("'{text}'"))];
    if depth == 0 {
        return leaf.boxed();
    }
    let inner = || text(depth - 1);
    prop_oneof![
        leaf,
        (inner(), inner()).prop_map(|(left, right)| format!("({left} + {right})")),
        (truth(depth - 1), inner(), inner()).prop_map(|(test, yes, no)| format!("({test} ? {yes} : {no})")),
        inner().prop_map(|text| format!("{text}.upperAscii()")),
        inner().prop_map(|text| format!("{text}.trim()")),
        (inner(), inner()).prop_map(|(text, separator)| format!("{text}.split({separator}).join('-')")),
    ]
    .boxed()
}

fn truth(depth: u32) -> BoxedStrategy<String> {
    let leaf = prop_oneof![
        Just("true".to_owned()),
        Just("self.b".to_owned()),
        Just("self.l.size() > 3".to_owned()),
        Just("has(self.t)".to_owned())
    ];
    if depth == 0 {
        return leaf.boxed();
    }
    let (inner, words) = (|| truth(depth - 1), || text(depth - 1));
    let name = format!("v{depth}");
    let (one, two, three) = (name.clone(), name.clone(), name);
    prop_oneof![
        leaf,
        (inner(), inner()).prop_map(|(left, right)| format!("({left} && {right})")),
        (inner(), inner()).prop_map(|(left, right)| format!("({left} || {right})")),
        inner().prop_map(|test| format!("!({test})")),
        (words(), words()).prop_map(|(left, right)| format!("{left} == {right}")),
        (words(), words()).prop_map(|(left, right)| format!("{left} < {right}")),
        (words(), words()).prop_map(|(text, part)| format!("{text}.contains({part})")),
        (words(), words()).prop_map(|(text, part)| format!("{text}.startsWith({part})")),
        words().prop_map(|text| format!("{text}.matches('[a-z]+,? w')")),
        (inner(), words()).prop_map(move |(test, text)| format!("self.n.all({one}, {test} || {one} < {text})")),
        inner().prop_map(move |test| format!("self.l.exists({two}, {two} > 4 && {test})")),
        inner().prop_map(move |test| format!("self.n.filter({three}, {test}).map({three}, {three} + 'x').size() > 1")),
        words().prop_map(|text| format!("{text} in self.n")),
    ]
    .boxed()
}

proptest! {
    /// Whatever is written: an answer, or a refusal that points into the text.
    #[test]
    fn nothing_makes_it_panic(pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..24), glue in "[ ]?") {
        let (env, activation) = environment();
        if let Ok(program) = Program::compile(&pieces.join(&glue), &env) {
            let run = program.run(&activation);
            prop_assert!(run.result.is_ok() || run.result.is_err());
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,64}") {
        let (env, activation) = environment();
        if let Ok(program) = Program::compile(&text, &env) {
            let _ = program.run(&activation);
        }
    }

    /// KAPI-CRD-03: what an expression is estimated at bounds what a run of it costs.
    #[test]
    fn estimates_bound_runs(expression in truth(4)) {
        let (env, activation) = environment();
        let program = Program::compile(&expression, &env).map_err(|error| TestCaseError::fail(format!("{expression}: {error}")))?;
        let (estimate, run) = (program.estimate().unwrap(), program.run(&activation));
        prop_assert!(run.cost <= estimate.max, "{expression}: {} > {}", run.cost, estimate.max);
        match run.result {
            Ok(value) => prop_assert!(matches!(value, Value::Bool(_)), "{expression}"),
            Err(error) => prop_assert!(error.is_cost_limit() && run.cost > PER_CALL_LIMIT, "{expression}: {error}"),
        }
    }
}
