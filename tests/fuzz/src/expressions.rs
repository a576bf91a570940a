//! Expressions that CRDs and policies bring: printer columns and CEL.

use mainstay_apiserver::fuzz::column;
use mainstay_cel::{Activation, Composition, Env, PER_CALL_LIMIT, Program, Type, Value};
use serde_json::json;

use crate::bodies::deployment;

/// A column shows a text of bounded length, whatever its path.
pub fn columns(data: &[u8]) {
    let Ok(path) = std::str::from_utf8(data) else { return };
    let object = deployment();
    let whole = object.to_string().len();
    assert!(column(path, &object).len() <= 1_001 * (whole + 1), "{path:?}");
}

pub fn column_seeds() -> Vec<Vec<u8>> {
    [
        ".spec.replicas",
        "{.spec.template.spec.containers[*].image}",
        ".metadata.annotations['a/b']",
        ".metadata.annotations.a\\.b",
        ".status.conditions[?(@.type==\"Ready\")].status",
        ".spec.template.spec.containers[?(@.name!='x')].ports[-1].containerPort",
        ".spec..name",
        ".a[0:3:2]",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

/// What compiles runs within its limit, and costs the same again.
pub fn cel(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let env = Env::new().variable("self", Type::Dyn).variable("oldSelf", Type::Dyn).variable("n", Type::Int).variable("s", Type::String);
    let Ok(program) = Program::compile(text, &env) else { return };
    let value = Value::from_json(&json!({"a": [1, 2.5, "x", null, true], "b": {"c": "dddd"}, "replicas": 3}));
    let activation = Activation::new()
        .with("self", value.clone())
        .with("oldSelf", value)
        .with("n", Value::from_json(&json!(7)))
        .with("s", Value::from_json(&json!("some text")));
    let run = program.run(&activation);
    // The step that goes beyond the limit is the last one.
    assert!(run.result.is_err() || run.cost <= PER_CALL_LIMIT, "{} for {text}", run.cost);
    assert_eq!(program.run(&activation).cost, run.cost, "{text}");
}

pub fn cel_seeds() -> Vec<Vec<u8>> {
    [
        "self.replicas <= 5 && oldSelf.replicas == self.replicas",
        "self.a.all(x, x != 2) || has(self.b.c) ? size(s) > 3 : n / 0 == 1",
        "s.matches('^[a-z ]+$') && s.split(' ').map(w, w.size()).sum() == 8",
        "[1, 2, 3].exists_one(i, i % 2 == 0) && {'a': n}['a'] in [7]",
        "quantity('100m').isLessThan(quantity('1')) && isURL('https://a.example.com/b?c=d')",
        "timestamp('2026-01-02T03:04:05Z') + duration('1h30m') > timestamp(0)",
        "cel.bind(x, s.upperAscii(), x.find('[A-Z]+').charAt(0)) == 'S'",
        "optional.of(n).hasValue() && ip('10.0.0.1').family() == 4 && cidr('10.0.0.0/8').containsIP('10.1.1.1')",
        "self.a.map(x, self.a.map(y, self.a.map(z, string(x) + string(y) + string(z)))).size() < 10",
        "-9223372036854775808 + int('1') < 0 && uint(3) * 4u == 12u && dyn(1.5) > 1",
        "r'\\d' + b'\\xff'.size() + \"\\u00e9\"",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

/// Variables have values or fail, one line each, and cost the same again. Each sees those before it.
pub fn variables(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let names: Vec<String> = (0..text.lines().count()).map(|line| format!("v{line}")).collect();
    let Some(last) = names.last() else { return };
    let (composition, env) = Composition::compile(names.iter().map(String::as_str).zip(text.lines()), &Env::new().variable("n", Type::Int));
    let Ok(program) = Program::compile(&format!("variables.{last}"), &env) else { panic!("{last} is not declared") };
    let run = || {
        let composed = composition.bind(Activation::new().with("n", Value::from_json(&json!(7))));
        (program.run(&composed.activation()).result.is_ok(), composed.take_cost())
    };
    assert_eq!(run(), run(), "{text}");
}

pub fn variable_seeds() -> Vec<Vec<u8>> {
    let chain = |step: &str| {
        let line = |at: usize| if at == 0 { "n".to_owned() } else { step.replace('#', &format!("variables.v{}", at - 1)) };
        (0..100).map(line).collect::<Vec<_>>().join("\n").into_bytes()
    };
    vec![
        chain("# + 1"),
        chain("[[#].map(x, x + 1)[0]][0] > 0 ? # : 0"),
        b"n\nvariables\nvariables.v1.v0\ndyn(variables).v3\ndyn(variables).v9".to_vec(),
        b"1 / (n - 7)\ntrue || variables.v0 > 0\n\nvariables.v0\nvariables.v2".to_vec(),
    ]
}
