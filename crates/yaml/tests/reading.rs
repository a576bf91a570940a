//! What kubectl makes of text, as tables.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fmt::Write as _;

use mainstay_yaml::{Options, parse, stream, stream_with};
use serde_json::{Value, json};

fn check(text: &str, expected: &Value) {
    match parse(text) {
        Ok(value) => assert_eq!(&value, expected, "{text:?}"),
        Err(error) => panic!("{text:?}: {error}"),
    }
}

fn refused(text: &str, line: usize, problem: &str) {
    let error = stream(text).find_map(Result::err).unwrap_or_else(|| panic!("{text:?} was read"));
    assert!(error.problem.contains(problem), "{text:?}: {error}");
    assert_eq!(error.line, line, "{text:?}: {error}");
}

#[test]
fn plain_scalars() {
    for (text, expected) in [
        ("on", json!(true)),
        ("yes", json!(true)),
        ("y", json!(true)),
        ("NO", json!(false)),
        ("Off", json!(false)),
        ("yEs", json!("yEs")),
        ("~", json!(null)),
        ("Null", json!(null)),
        ("017", json!(15)),
        ("0o17", json!(15)),
        ("08", json!(8)),
        ("0b11", json!(3)),
        ("-0x10", json!(-16)),
        ("1_000", json!(1000)),
        ("1_000.5", json!(1000.5)),
        ("+7", json!(7)),
        ("12:30:45", json!("12:30:45")),
        ("2001-12-14t21:59:43.10-05:00", json!("2001-12-14t21:59:43.10-05:00")),
        ("2001-01-01", json!("2001-01-01")),
        ("1e400", json!("1e400")),
        ("1e3", json!(1000)),
        ("1.0", json!(1)),
        ("1.", json!(1)),
        (".5", json!(0.5)),
        ("-.5", json!(-0.5)),
        ("1.2.3", json!("1.2.3")),
        ("v1", json!("v1")),
        ("-", json!([null])),
        ("9223372036854775807", json!(i64::MAX)),
        ("12345678901234567890", json!(12_345_678_901_234_567_890_f64)),
        ("123456789012345678901", json!(123_456_789_012_345_678_901_f64)),
        ("0x", json!("0x")),
        ("1__0", json!(10)),
        ("_1", json!("_1")),
        ("0.1e-7", json!(1e-8)),
        ("'on'", json!("on")),
        ("!!str 1", json!("1")),
        ("!!int \"3\"", json!(3)),
        ("!!float 3", json!(3)),
        ("!custom 3", json!("3")),
    ] {
        check(text, &expected);
        if text != "-" {
            check(&format!("a: {text}"), &json!({ "a": expected }));
        }
    }
}

#[test]
fn keys_become_text() {
    check("on: 1\nNO: 2\n017: 3\n1.50: 4\n'y': 5\n<: 6\n", &json!({"true": 1, "false": 2, "15": 3, "1.5": 4, "y": 5, "<": 6}));
    refused("a:\n  ~: 1\n", 2, "unsupported map key");
    refused("? [a]\n: 1\n", 1, "invalid map key: []interface {}{\"a\"}");
}

/// What kubectl 1.32 made of the same text (`kubectl annotate --local -o json`).
#[test]
fn kubectl_agrees() {
    let text = "d: [017, '1.', 1., 1_000.5, 12345678901234567890, 1__0, _1, 0O17, 0X1F, +0x10, 1e+3, .1_0, 0_1, -017, +.5, 1.e3, -0, -0.0, \
         9007199254740993.0, 1.2345678901234567e18, 1e20, 1e22, -9223372036854775808, -9223372036854775809, -0b11]\n\
         k: {1e30: 5, 0.00001: 6, 1.23456789012: 7, 123456789.5: 8}\nm:\n  a: 1\n  <<: {a: 2}\n";
    let recorded = r#"{"d": [15, "1.", 1, 1000.5, 12345678901234567000, 10, "_1", 15, 31, 16, 1000, 0.1, 1, -15, 0.5, 1000, 0, 0,
        9007199254740992, 1234567890123456800, 100000000000000000000, 1e22, -9223372036854775808, -9223372036854776000, -3],
        "k": {"1e+30": 5, "1e-05": 6, "1.2345679": 7, "1.2345679e+08": 8}, "m": {"a": 2}}"#;
    check(text, &parse(recorded).unwrap());
}

#[test]
fn tags() {
    check("a: !!int \"3\"\nb: !!str 3\nc: !x 3\n", &json!({"a": 3, "b": "3", "c": "3"}));
    refused("a: 1\nb: !!int x\n", 2, "cannot decode");
    check("a: !!binary aGk=\nb: !!binary /w==\n", &json!({"a": "hi", "b": "\u{fffd}"}));
    check("a: !<tag:yaml.org,2002:binary> aGk=\n", &json!({"a": "hi"}));
    refused("a: 1\nb: !!binary aGk\n", 2, "invalid base64");
}

#[test]
fn structure() {
    check("", &json!(null));
    check("# nothing\n", &json!(null));
    check("\u{feff}a: 1\r\nb:\r\n- x\r\n- z\r\n", &json!({"a": 1, "b": ["x", "z"]}));
    check("a: |\r\n  x\r\n  y\r\n", &json!({"a": "x\ny\n"}));
    check("a: >-\n  x\n  y\n\n  z\n", &json!({"a": "x y\nz"}));
    check("x: &a {p: 1, q: 2}\nz:\n  <<: *a\n  q: 3\n", &json!({"x": {"p": 1, "q": 2}, "z": {"p": 1, "q": 3}}));
    check("z:\n  q: 3\n  <<: [{p: 1}, {p: 2, r: 4}]\n", &json!({"z": {"p": 1, "q": 3, "r": 4}}));
    check("x: &a [1]\nz: *a\n", &json!({"x": [1], "z": [1]}));
    check("&k a: *k\n", &json!({"a": "a"}));
    check("x: &a {p: 1}\nz:\n  !!merge <<: *a\n  q: 3\n", &json!({"x": {"p": 1}, "z": {"p": 1, "q": 3}}));
    check("'<<': 1", &json!({"<<": 1}));
    refused("y:\n  <<: 3\n", 2, "map merge requires");
    refused("a: *b\n", 1, "anchor");
    refused("a: &a [*a]\n", 1, "contains itself");
    refused("a: .inf", 1, "no JSON value");
    refused("a: 1\n b: 2\n", 2, "");
    refused("a:\n\t- b\n", 2, "");
}

#[test]
fn the_last_of_two_keys_wins_unless_strict() {
    let text = "a:\n- b: 1\n  c: 2\n  b: 3\n";
    let document = stream(text).next().unwrap().unwrap();
    assert_eq!(document.value, json!({"a": [{"b": 3, "c": 2}]}));
    assert_eq!((document.duplicates[0].path.as_str(), document.duplicates[0].line), ("a[0].b", 4));
    let strict = Options { strict: true, ..Options::default() };
    let error = stream_with(text, strict).next().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "line 4, column 3: key \"b\" already set in map");

    let text = r#"{"a": {"b": 1, "b": 2}}"#;
    let document = stream(text).next().unwrap().unwrap();
    assert_eq!((document.value, document.duplicates[0].path.as_str()), (json!({"a": {"b": 2}}), "a.b"));
    assert_eq!(stream_with(text, strict).next().unwrap().unwrap_err().problem, "duplicate field \"a.b\"");
}

#[test]
fn streams() {
    let read = |text: &str| -> Vec<(usize, Value)> {
        stream(text).map(|document| document.map(|document| (document.line, document.value)).unwrap()).collect()
    };
    assert_eq!(read("a: 1\n---\n# c\n---\nb: 2\n---\n"), [(1, json!({"a": 1})), (3, json!(null)), (5, json!({"b": 2}))]);
    assert_eq!(read("{\"a\": 1}\n{\"b\":\n 2} [3]"), [(1, json!({"a": 1})), (2, json!({"b": 2})), (3, json!([3]))]);
    assert_eq!(read("{\"a\": 1}\n---\nb: 2\n"), [(1, json!({"a": 1})), (3, json!({"b": 2}))]);
    assert_eq!(read("{a: 1, b: [x]}"), [(1, json!({"a": 1, "b": ["x"]}))]);
    assert_eq!(read("{\"n\": 18446744073709551615}"), [(1, json!({"n": 18_446_744_073_709_551_615_f64}))]);
    // What JSON refuses may still be a flow mapping.
    assert_eq!(read("{\"a\": 1,\n \"b\": }"), [(1, json!({"a": 1, "b": null}))]);
    refused("{\"a\": 1,\n \"b\": [1 2}", 2, "expected `,` or `]`");
    refused("{\"a\": 1}\n{\"a\": 1}\n\n{\"b\"}", 4, "expected `:`");
    refused("a: 1\n---\nb: [\n", 3, "");
}

#[test]
fn limits() {
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: &h [*g,*g,*g,*g,*g,*g,*g,*g,*g]\n";
    refused(bomb, 4, "excessive aliasing");
    refused(&"[".repeat(10_000), 1, "");
    refused(&format!("a: {}", "[".repeat(10_000)), 1, "");
    refused(&format!("a: {}", "{a: ".repeat(10_000)), 1, "");
    refused(&"- ".repeat(10_000), 1, "");
    let few = Options { max_nodes: 3, ..Options::default() };
    assert!(stream_with("{\"a\": [1, 2, 3]}", few).next().unwrap().is_ok(), "JSON text is bounded by its bytes");
    assert!(stream_with("- 1\n- 2\n- 3\n", few).next().unwrap().unwrap_err().problem.contains("more than 3 values"));
    let short = Options { max_bytes: 4, ..Options::default() };
    assert!(stream_with("a: 12", short).next().unwrap().unwrap_err().problem.contains("5 bytes"));
    // Depth made of aliases counts as well.
    let mut deep = String::from("a0: &a0 {x: 1}\n");
    for level in 1..300 {
        writeln!(deep, "a{level}: &a{level} {{x: *a{}}}", level - 1).unwrap();
    }
    assert!(parse(&deep).is_err());
}

fn value_bytes(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(value_bytes).sum(),
            Value::Object(fields) => fields.iter().map(|(key, value)| key.len() + size_of::<String>() + value_bytes(value)).sum(),
            _ => 0,
        }
}

/// CATLG-07, KAPI-SRV-07: a text does not become much more than it is. Each of these ended a server, or would have.
#[test]
fn what_is_repeated_is_counted_in_bytes() {
    let long = |bytes: usize| "x".repeat(bytes);
    let aliases = |count: usize| "*a, ".repeat(count);
    for (what, text) in [
        ("1.4 MB of a request, a text of 1 MB", format!("a: &a {}\nb: [{}]\n", long(1_000_000), aliases(90_000))),
        (
            "1.8 KB of an image",
            format!("a: &a {}\nb: &b [{}]\nc: &c [{}]\nd: [{}]\n", long(800), aliases(60), "*b, ".repeat(60), "*c, ".repeat(60)),
        ),
        ("keys", format!("? &a {}\n: [{}]\n", long(500_000), "{*a : 1}, ".repeat(90_000))),
        ("keys of a mapping", format!("a: &a {{{}: 1}}\nb: [{}]\n", long(900), aliases(90_000))),
        ("merges", format!("a: &a {{{}: 1}}\nb: [{}]\n", long(900), "{<<: *a}, ".repeat(50_000))),
        ("merges of lists", format!("a: &a {{{}: 1}}\nb: [{}]\n", long(900), "{<<: [*a, *a]}, ".repeat(50_000))),
        ("structure", format!("a: &a [{}]\nb: [{}]\n", "[], ".repeat(500), aliases(90_000))),
        ("many documents", format!("a: &a {}\nb: [{}]\n---\n", long(1000), aliases(90)).repeat(1000)),
    ] {
        let allowed = text.len().max(Options::default().max_repeated);
        let mut read = 0;
        let refused = stream(&text).find_map(|document| document.map(|document| read += value_bytes(&document.value)).err());
        let error = refused.unwrap_or_else(|| panic!("{what}: {read} bytes were read from {}", text.len()));
        assert!(error.problem.contains("aliases repeat more than") || error.problem.contains("excessive aliasing"), "{what}: {error}");
        assert!(read <= allowed + 40 * text.len(), "{what}: {read} bytes");
    }
}

/// What is told of a document is bounded as well: paths of duplicates, prefixes of tags.
#[test]
fn what_is_told_is_bounded() {
    let (key, more) = ("k".repeat(700_000), "a: 1, ".repeat(100_000));
    for text in [
        format!("{{{key}: {{{more}}}}}"),
        format!("{{\"{key}\": {{{}\"a\": 1}}}}", "\"a\": 1, ".repeat(100_000)),
        format!("? {key}\n: {{{more}}}\n"),
    ] {
        let Some(Ok(document)) = stream(&text).next() else { continue };
        let told: usize = document.duplicates.iter().map(|duplicate| duplicate.path.len() + duplicate.key.len()).sum();
        assert!((1..=1 << 20).contains(&told), "{told} bytes of {} duplicates", document.duplicates.len());
    }
    let tags = format!("%TAG !x! {}\n---\n[{}]\n", "p".repeat(700_000), "!x!a b, ".repeat(90_000));
    assert_eq!(parse(&tags).unwrap().as_array().unwrap().len(), 90_000);
    let error = parse(&format!("!!int {}", "x".repeat(1_000_000))).unwrap_err();
    assert!(error.problem.len() < 200, "{}", error.problem.len());
}

/// Small documents may use aliases as they like, large ones up to their own size; nesting is the same with anchors as without.
#[test]
fn honest_aliases_are_read() {
    let item = "a: &a {name: web, ports: [80, 443]}\n";
    let text = format!("{item}list: [{}]\n", "*a, ".repeat(300));
    assert_eq!(parse(&text).unwrap()["list"].as_array().unwrap().len(), 300);
    let large = format!("a: &a {}\nb: {}\nc: *a\n", "x".repeat(3 << 20), "y".repeat(3 << 20));
    assert_eq!(parse(&large).unwrap()["c"].as_str().unwrap().len(), 3 << 20);
    // An anchor around each of many levels costs nothing until it is used.
    let mut deep = String::new();
    for level in 0..150 {
        write!(deep, "&a{level} [").unwrap();
    }
    let deep = deep + &"y".repeat(1 << 20) + &"]".repeat(150);
    assert!(parse(&deep).is_ok());
    let mut chain = String::from("a0: &a0 {x: 1}\n");
    for level in 1..100_000 {
        writeln!(chain, "a{level}: &a{level} {{<<: *a{}}}", level - 1).unwrap();
    }
    assert!(parse(&chain).is_err());
}
