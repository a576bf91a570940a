//! What expressions cost, against what Kubernetes' own environment counts (`data/README.md`).

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use mainstay_cel::{Activation, Env, Program, Type, Value, from_schema};
use mainstay_schema::{Schema, SchemaRef};
use serde_json::Value as Json;

fn environment() -> (Env, Activation) {
    let schema = Schema::from_json(&serde_json::from_str(include_str!("data/schema.json")).unwrap()).unwrap();
    let schema = SchemaRef::new(schema);
    let kind = Type::of_schema(&schema).unwrap();
    let object: Json = serde_json::from_str(include_str!("data/object.json")).unwrap();
    let value = from_schema(&object, &schema);
    let env = Env::new().sized(&schema).variable("self", kind.clone()).variable("oldSelf", Type::Optional(Arc::new(kind)));
    let activation = Activation::new().with("self", value.clone()).with("oldSelf", Value::Optional(Some(Arc::new(value))));
    (env, activation)
}

/// KAPI-CRD-03: estimates, costs of runs and values are those of Kubernetes, to the unit.
#[test]
fn expressions_cost_what_they_cost_kubernetes() {
    let (env, activation) = environment();
    let mut wrong = Vec::new();
    for line in include_str!("data/costs.txt").lines() {
        let [expression, least, most, took, outcome] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let program = Program::compile(expression, &env).unwrap_or_else(|error| panic!("{expression}: {error}"));
        let estimate = program.estimate().unwrap();
        let run = program.run(&activation);
        let found = match &run.result {
            Ok(Value::Bool(flag)) => flag.to_string(),
            Ok(_) => String::new(),
            Err(error) => format!("?{error}"),
        };
        let expected = format!("{least}..{most}, {took}, {outcome}");
        let found = format!("{}..{}, {}, {found}", estimate.min, estimate.max, run.cost);
        if found != expected {
            wrong.push(format!("{expression}\n  expected {expected}\n  found    {found}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
