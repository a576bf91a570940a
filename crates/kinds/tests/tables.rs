//! The recorded tables of a real API server, asked of this crate.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::common::steps;
use mainstay_kinds::{Context, Gvk, Requester, default, prepare_create, registry, row, table};
use serde_json::{Value, json};

/// Cells that a controller, a pool or the clock decides.
fn comparable(mut cells: Vec<Value>, wanted: &[Value]) -> Vec<Value> {
    for (cell, wanted) in cells.iter_mut().zip(wanted) {
        if wanted.as_str().is_some_and(|text| text.contains('<') && !["<none>", "<unset>", "<unknown>"].contains(&text)) {
            *cell = wanted.clone();
        }
    }
    cells
}

/// KAPI-REST-06: columns, their descriptions and the cells of a new object are those of the recorded tables.
#[test]
fn tables_are_the_recorded_ones() {
    let Some(steps) = steps() else { return };
    let context = Context { now: jiff::Timestamp::UNIX_EPOCH, requester: Requester::default() };
    let (mut columns, mut rows, mut gaps) = (0, 0, Vec::new());
    let mut last: Option<(String, Value)> = None;
    for step in steps.iter().filter(|step| step.scenario.starts_with("table/")) {
        if step.method == "POST" {
            let gvk = Gvk::of(step.body["apiVersion"].as_str().unwrap(), step.body["kind"].as_str().unwrap());
            let mut object = step.body.clone();
            default(&gvk, &mut object);
            prepare_create(&gvk, &mut object, &context);
            last = Some((step.scenario.clone(), object));
            continue;
        }
        let body = &step.answer["body"];
        let Some(wanted) = body.get("columnDefinitions").or(body.get("/columnDefinitions")) else { continue };
        let parts: Vec<&str> = step.path.split('/').collect();
        let resource = registry()
            .resources()
            .iter()
            .find(|resource| parts.contains(&resource.plural.as_str()) && (resource.plural != "namespaces" || parts.len() < 6))
            .unwrap();
        let gvk = resource.gvk();
        let ours = serde_json::to_value(table(&gvk)).unwrap();
        if ours == *wanted {
            columns += 1;
        } else {
            gaps.push(format!("{}:\n  ours   {ours}\n  wanted {wanted}", step.scenario));
        }
        let cells = body.pointer("/rows/0/cells").or(body.get("/rows/0/cells"));
        let (Some(cells), Some((scenario, object))) = (cells, &last) else { continue };
        // Status that the scenario or a controller wrote after the creation.
        if *scenario != step.scenario || ["table/persistentvolumes", "table/jobs"].contains(&scenario.as_str()) {
            continue;
        }
        let wanted = cells.as_array().unwrap();
        let ours = comparable(row(&gvk, object, jiff::Timestamp::UNIX_EPOCH), wanted);
        if ours == *wanted {
            rows += 1;
        } else {
            gaps.push(format!("{} cells:\n  ours   {}\n  wanted {}", step.scenario, json!(ours), json!(wanted)));
        }
    }
    eprintln!("{columns} tables and {rows} rows as recorded, {} gaps", gaps.len());
    for gap in &gaps {
        eprintln!("{gap}");
    }
    assert!(gaps.is_empty());
    assert!(columns >= 22 && rows >= 18, "only {columns} tables and {rows} rows were compared");
}
