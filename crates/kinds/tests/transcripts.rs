//! The recorded answers of a real API server, asked of this crate: defaults and strategies.
//!
//! Each creation of a built-in object that was accepted is played: its body goes through defaults and strategy, and must equal the answer
//! but for what only a server with admission, an allocator and a clock knows.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::common::{normal, pointers_of, steps};
use mainstay_kinds::{Context, Gvk, Requester, default, prepare_create, registry};
use serde_json::Value;

fn created(body: &Value, answer: &Value) -> Option<Value> {
    let gvk = Gvk::of(body["apiVersion"].as_str()?, body["kind"].as_str()?);
    let resource = registry().resource_of_kind(&gvk)?;
    if !resource.is_stored() {
        return None;
    }
    let mut object = body.clone();
    let context =
        Context { now: jiff::Timestamp::UNIX_EPOCH, requester: Requester { username: "kube-replay".into(), ..Requester::default() } };
    default(&gvk, &mut object);
    for field in ["name", "uid"] {
        if let Some(value) = answer.pointer(&format!("/metadata/{field}")) {
            object["metadata"][field] = value.clone();
        }
    }
    prepare_create(&gvk, &mut object, &context);
    if gvk.kind == "Service" {
        let _ = mainstay_kinds::allocate_service(&mut object, None, &mut Pools);
    }
    Some(object)
}

struct Pools;

impl mainstay_kinds::Allocator for Pools {
    fn cluster_ip(&mut self, wanted: Option<&str>) -> Result<String, mainstay_kinds::AllocationError> {
        Ok(wanted.unwrap_or("<ip>").to_owned())
    }

    fn node_port(&mut self, wanted: Option<u16>) -> Result<u16, mainstay_kinds::AllocationError> {
        Ok(wanted.unwrap_or(30000))
    }
}

/// KAPI-REST-07, KAPI-REST-08, KAPI-REST-01: every recorded creation of a built-in object gives the recorded object.
#[test]
fn creations_give_the_recorded_objects() {
    let Some(steps) = steps() else { return };
    let (mut passed, mut gaps) = (0, Vec::new());
    for step in &steps {
        let whole = &step.answer["body"];
        let subresource = step.path.split("/namespaces/").last().unwrap_or_default().matches('/').count() > 1;
        // Admission, partial answers and generated names are the server's.
        if step.scenario.starts_with("admission/")
            || step.scenario.starts_with("negotiation/")
            || step.body["metadata"].get("generateName").is_some()
        {
            continue;
        }
        if step.method != "POST" || step.answer["status"] != 201 || subresource || step.body.is_null() {
            continue;
        }
        // Answers of scenarios about something else, where only the kind was recorded.
        let Some(ours) = created(&step.body, whole) else { continue };
        let pairs: Vec<(String, Value, Value)> = if whole.get("kind").is_some() {
            vec![(String::new(), normal(&ours), normal(whole))]
        } else {
            whole
                .as_object()
                .unwrap()
                .iter()
                .filter_map(|(pointer, wanted)| {
                    let found = pointers_of(&ours, pointer)?;
                    Some((pointer.clone(), normal(&found), normal(wanted)))
                })
                .collect()
        };
        for (pointer, ours, wanted) in pairs {
            if ours == wanted {
                passed += 1;
            } else {
                gaps.push(format!("{} step {} {pointer}:\n  ours   {ours}\n  wanted {wanted}", step.scenario, step.index));
            }
        }
    }
    eprintln!("{passed} creations as recorded, {} gaps", gaps.len());
    for gap in &gaps {
        eprintln!("{gap}");
    }
    assert!(gaps.is_empty());
    assert!(passed > 190, "only {passed} creations were compared");
}
