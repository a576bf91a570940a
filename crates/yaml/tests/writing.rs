//! What is written reads back the same.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use mainstay_yaml::{parse, stream, to_multi_string, to_string};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn check(value: &Value, text: &str) {
    assert_eq!(to_string(value), text);
    assert_eq!(&parse(text).unwrap(), value);
}

#[test]
fn layout_is_that_of_kubectl() {
    check(
        &json!({
            "apiVersion": "v1",
            "data": {"script": "#!/bin/sh\necho hi\n", "keep": "a\n\n", "none": "a\nb", "lead": "  x\ny\n"},
            "empty": {"list": [], "map": {}, "text": "", "nothing": null},
            "items": [{"name": "a", "ports": [1, 2]}, [["x"]], "y"],
        }),
        "apiVersion: v1\ndata:\n  keep: |+\n    a\n\n  lead: |2\n      x\n    y\n  none: |-\n    a\n    b\n  script: |\n    #!/bin/sh\n    echo hi\nempty:\n  list: []\n  map: {}\n  nothing: null\n  text: \"\"\nitems:\n- name: a\n  ports:\n  - 1\n  - 2\n- - - x\n- \"y\"\n",
    );
    check(&json!("a"), "a\n");
    check(&json!(1.5), "1.5\n");
    check(&json!(1e30), "1e+30\n");
}

#[test]
fn texts_that_look_like_something_else_are_quoted() {
    for text in [
        "on",
        "Yes",
        "n",
        "1_000",
        "0x1",
        "017",
        "1:30",
        "12:30:45",
        "~",
        "null",
        "",
        "2001-01-01",
        "2001-01-01T00:00:00Z",
        "1.0",
        ".5",
        ".inf",
        "-.INF",
        ".nan",
        "1e3",
        "+1",
        "0b1",
        "0o7",
        "08",
    ] {
        check(&json!(text), &format!("\"{text}\"\n"));
        check(&json!({ text: text }), &format!("\"{text}\": \"{text}\"\n"));
    }
    for text in [
        " a", "a ", "# a", "a: b", "a:", "a #b", "- a", "-", "?", ": a", "*a", "&a", "!a", "%a", "@a", "`a`", "'a'", "\"a\"", "[a", "{a}",
        "|", ">", "---", "--- a", "...", "<<", ",",
    ] {
        check(&json!(text), &format!("'{}'\n", text.replace('\'', "''")));
        check(&json!([text]), &format!("- '{}'\n", text.replace('\'', "''")));
    }
    for text in ["a", "a:b", "a#b", "-a", "quay.io/x/y@sha256:00", "a, b", "v1.2.3", "1.2.3", "$(X)", "<a", "a'b", "ä", "/x", "="] {
        check(&json!(text), &format!("{text}\n"));
    }
    for (text, written) in [
        ("a\tb", "a\\tb"),
        ("a\nb\tc \"d\"", "a\\nb\\tc \\\"d\\\""),
        ("\r", "\\r"),
        ("a \nb", "a \\nb"),
        ("\u{85}x", "\\Nx"),
        ("\u{feff}", "\\uFEFF"),
        ("\u{1}", "\\x01"),
        ("🙂", "\\U0001F642"),
        ("\u{feff} a", "\\uFEFF\\x20\\x61"),
    ] {
        check(&json!(text), &format!("\"{written}\"\n"));
    }
}

/// CATLG-10, OLM1-BUILD-04: files are written as upstream's library writes them. These vectors were made with opm v1.65: each value stood in
/// a blob of a schema of its own, and is what `opm render -o yaml` printed of it.
#[test]
fn upstream_writes_the_same() {
    let long = |count: usize| (0..count).map(|number| format!("word{number}")).collect::<Vec<_>>().join(" ");
    for (value, text) in [
        (json!({"a10": 1, "a2": 2, "a-b": 3, "B": 4, "_": 5, "0": 6, "a02": 7}), "_: 5\n\"0\": 6\nB: 4\na-b: 3\na2: 2\na02: 7\na10: 1\n"),
        (json!({"v": long(14)}), "v: word0 word1 word2 word3 word4 word5 word6 word7 word8 word9 word10 word11 word12\n  word13\n"),
        (
            json!({"v": format!("{}: x", long(14))}),
            "v: 'word0 word1 word2 word3 word4 word5 word6 word7 word8 word9 word10 word11 word12\n  word13: x'\n",
        ),
        (
            json!({"v": format!("{}\t", long(14))}),
            "v: \"word0 word1 word2 word3 word4 word5 word6 word7 word8 word9 word10 word11 word12\n  word13\\t\"\n",
        ),
        (json!({"v": ["\n"]}), "v:\n- |2+\n\n"),
        (json!({"a\nb": {"c": [1]}}), "? |-\n  a\n  b\n: c:\n  - 1\n"),
        (json!({"v": 972_523_939_914_026.2, "w": 1e21, "x": 0.00001}), "v: 9.725239399140262e+14\nw: 1e+21\nx: 1e-05\n"),
        (
            json!(["2001-02-28", "2001-02-30", "2001-1-1 2:3:4.5", "1:2:3", "1:2:99"]),
            "- \"2001-02-28\"\n- 2001-02-30\n- \"2001-1-1 2:3:4.5\"\n- \"1:2:3\"\n- 1:2:99\n",
        ),
    ] {
        check(&value, text);
    }
    // What is read back is an integer, so this one does not come back as it was.
    assert_eq!(to_string(&json!([-0.0, 0.0, 0])), "- 0\n- 0\n- 0\n");
}

#[test]
fn several_documents() {
    let values = [json!({"a": 1}), json!(null), json!(["b"]), json!("x\ny\n")];
    let text = to_multi_string(&values);
    let read: Vec<Value> = stream(&text).map(|document| document.unwrap().value).collect();
    assert_eq!(read, values);
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,12}",
        "[-:#?&*!|>'\"%@`,\\[\\]{}<=~. \n\ta0]{0,8}",
        "[0-9_.:eExXob+-]{1,8}",
        "[\\PC\r\n\t ]{0,6}",
        any::<String>(),
        "(y|n|on|off|yes|no|true|null|~|<<|\\.inf|2020-01-01)",
        "([ a-c\t]{0,4}\n){0,4}[ a]{0,2}",
        "[a-z ]{100,140}",
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("floats that stay floats", |f| f.is_finite() && (f.fract() != 0.0 || f.abs() > 1e19))
            .prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((text(), inner), 0..5).prop_map(|pairs| Value::Object(pairs.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn written_values_read_back(value in value()) {
        let text = to_string(&value);
        prop_assert_eq!(parse(&text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?, value, "{}", text);
    }

    #[test]
    fn reading_never_panics(text in "[-:#?&*!|>'\"%@`,\\[\\]{}<=~. \n\ta0]{0,30}") {
        let _ = stream(&text).count();
    }
}
