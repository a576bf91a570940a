//! Expressions of ours, and what Kubernetes' own environment (1.34) made of them: `TYPE:VALUE`, `!` and why it does not compile, `?` and
//! why it failed.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use mainstay_cel::{Activation, Env, Program, Type, Value};
use serde_json::json;

fn environment() -> (Env, Activation) {
    let text = || Arc::new(Type::String);
    let env = Env::new()
        .variable("i", Type::Int)
        .variable("s", Type::String)
        .variable("l", Type::List(Arc::new(Type::Int)))
        .variable("m", Type::Map(text(), text()))
        .variable("d", Type::Dyn)
        .variable("o", Type::Optional(text()))
        .variable("n", Type::Optional(text()));
    let activation = Activation::new()
        .with("i", Value::Int(5))
        .with("s", Value::from_json(&json!("héllo")))
        .with("l", Value::from_json(&json!([3, 1, 2])))
        .with("m", Value::from_json(&json!({"a": "1", "b": "2"})))
        .with("d", Value::from_json(&json!({"x": 1, "y": ["p", 2.5]})))
        .with("o", Value::Optional(Some(Arc::new(Value::from_json(&json!("x"))))))
        .with("n", Value::Optional(None));
    (env, activation)
}

fn outcome(expression: &str) -> String {
    let (env, activation) = environment();
    let program = match Program::compile(expression, &env) {
        Ok(program) => program,
        Err(error) => return format!("!{}", error.to_string().trim_start_matches("compilation failed: ").replace('\n', "\\n")),
    };
    match program.eval(&activation) {
        Err(error) => format!("?{error}"),
        Ok(Value::Bool(flag)) => format!("bool:{flag}"),
        Ok(Value::Int(number)) => format!("int:{number}"),
        Ok(Value::Uint(number)) => format!("uint:{number}"),
        Ok(Value::Double(number)) if number.is_infinite() => "double:+Inf".to_owned(),
        Ok(Value::Double(number)) => format!("double:{number}"),
        Ok(Value::Text(text)) => format!("string:{text}"),
        Ok(Value::Type(name)) => format!("type:{name}"),
        Ok(other) => format!("{other:?}"),
    }
}

/// KAPI-CRD-03: syntax, types, macros and libraries agree with Kubernetes, texts included.
#[test]
fn expressions_mean_what_they_mean_to_kubernetes() {
    let mut wrong = Vec::new();
    for line in include_str!("expressions.txt").lines() {
        let (expression, expected) = line.split_once('\t').unwrap();
        let found = outcome(expression);
        if found != expected {
            wrong.push(format!("{expression}\n  expected {expected}\n  found    {found}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Nesting and length are bounded in every direction, and nothing makes the reader panic.
#[test]
fn hostile_expressions_are_refused() {
    for (open, close) in
        [("(", ")"), ("[", "]"), ("{1: ", "}"), ("!", ""), ("-", ""), ("true ? true : ", ""), ("l.all(x, ", ")"), ("size(", ")")]
    {
        let text = format!("{}true{}", open.repeat(5000), close.repeat(5000));
        let found = outcome(&text);
        assert!(found.starts_with('!') && found.contains("recursion limit"), "{open}: {}", &found[..found.len().min(200)]);
    }
    for (first, more) in [("1", " + 1"), ("d", ".a"), ("d", "[0]"), ("1", " == 1")] {
        let found = outcome(&format!("{first}{}", more.repeat(5000)));
        assert!(found.starts_with('!') && found.contains("recursion limit"), "{more}");
    }
    // Logic is flattened: long chains of it are fine.
    assert_eq!(outcome(&format!("true{}", " && true".repeat(5000))), "bool:true");
    assert!(outcome(&"a".repeat(200_000)).contains("limit of 100000"));
    for text in [
        "",
        "'",
        "\\",
        "'\\",
        "'\\x",
        "'\\u12'",
        "b'\\xff'",
        "'\\ud800'",
        "1e",
        "0x",
        "..",
        "a.?b.?c[?1]",
        "{?",
        "[?",
        "has()",
        "l.map()",
        "é",
        "'é",
    ] {
        let _ = outcome(text);
    }
    // What would run for ever is stopped.
    let loops = format!("{}true{}", "lists.range(1000).all(x, ".repeat(4), ")".repeat(4));
    assert_eq!(outcome(&loops), "?operation cancelled: actual cost limit exceeded");
}

/// OLM0-RES-10: constraints in catalogs have `semver_compare` besides; nobody else has it, under whatever name.
#[test]
fn catalogs_compare_versions() {
    let env = Env::new().with_catalog_functions();
    let run = |text: &str| Program::compile(text, &env).unwrap().eval(&Activation::new());
    for (expression, expected) in [
        ("semver_compare('1.2.3', '1.10.0')", -1),
        ("semver_compare('1.0.0', '1.0.0+build')", 0),
        ("semver_compare('1.0.0', '1.0.0-rc.1')", 1),
        ("semver_compare('v1.2', '1.2.0')", 0),
        ("[1].map(x, semver_compare('2.0.0', '1.0.0'))[0]", 1),
    ] {
        assert!(matches!(run(expression), Ok(Value::Int(found)) if found == expected), "{expression}");
    }
    assert!(run("semver_compare('one', '1.0.0')").is_err());
    assert!(run("semver_compare(1, 2)").is_err());
    for expression in ["semver_compare('1.0.0', '1.0.0') == 0", "@semver_compare('1.0.0', '1.0.0') == 0"] {
        assert!(Program::compile(expression, &Env::new()).is_err(), "{expression}");
    }
}
