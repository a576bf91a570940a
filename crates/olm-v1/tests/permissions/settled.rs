//! What was applied stands: the API stores many things in another form than they were written in, and none of that is drift.

use std::collections::BTreeSet;

use mainstay_lifecycle::object;
use mainstay_objects::{Expect, ObjectRef, Propagation, Step};
use serde_json::Value;

use super::case::{Case, every};
use super::requests::define;
use crate::support::{Api, namespace};

/// Where two values differ first, as the comparison goes.
fn differing(wanted: &Value, live: &Value, path: &str) -> Option<String> {
    match (wanted, live) {
        (Value::Object(wanted), Value::Object(live)) => {
            wanted.iter().find_map(|(key, value)| differing(value, live.get(key).unwrap_or(&Value::Null), &format!("{path}.{key}")))
        }
        (Value::Array(wanted), Value::Array(live)) if wanted.len() == live.len() => {
            wanted.iter().zip(live).enumerate().find_map(|(at, (wanted, live))| differing(wanted, live, &format!("{path}[{at}]")))
        }
        _ => (wanted != live).then(|| format!("{path}: {wanted} became {live}")),
    }
}

/// OLM1-INST-14, OLM1-CTRL-11: what was applied of every real bundle is taken as it stands, so that a second look writes nothing; where
/// something was changed, applying it once puts it right, and then again nothing is written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_written_the_second_time() {
    let Some(bundles) = every() else { return };
    let api = Api::start().await;
    let (mut defined, mut problems, mut looked_at) = (BTreeSet::new(), Vec::new(), 0);
    for (number, (name, files)) in bundles.iter().enumerate() {
        let Some(case) = Case::of(name, files, number, "5f0a5d5c-0000-4000-8000-000000000000") else { continue };
        if case.objects.iter().any(|object| object["apiVersion"] == "apiextensions.k8s.io/v1beta1") {
            continue;
        }
        for name in [&case.work, &case.watched] {
            api.apply(namespace(name)).await;
        }
        for object in &case.objects {
            define(&api, object, &mut defined).await;
        }
        for object in &case.objects {
            let step = if object::is_created_by_name(object) { Step::CreateNamed(object.clone()) } else { Step::Create(object.clone()) };
            // Two bundles hold examples that their own definitions do not take.
            let Ok(_) = api.admin.execute(&[step], |_| {}).await else { continue };
            if object["kind"] == "CustomResourceDefinition" {
                api.established(object["metadata"]["name"].as_str().unwrap()).await;
            }
            let target = ObjectRef::of(object).unwrap();
            let live = api.get(&target).await.unwrap();
            looked_at += 1;
            if !object::stands(object, &live) {
                problems.push(format!("{name}: {target}: {}", differing(object, &live, "").unwrap_or_default()));
            }
            match api.admin.apply(object, true, &Expect::as_seen(&live)).await {
                Ok((applied, _)) if object::stands(object, &applied) => {}
                Ok((applied, _)) => {
                    problems.push(format!("{name}: {target} when applied: {}", differing(object, &applied, "").unwrap_or_default()));
                }
                Err(error) => problems.push(format!("{name}: {target} when applied: {error}")),
            }
        }
        for object in case.objects.iter().rev() {
            let target = ObjectRef::of(object).unwrap();
            if let Ok(true) = api.admin.delete(&target, &Expect::default(), Propagation::Background).await {
                api.gone(&target).await;
            }
        }
    }
    assert!(problems.is_empty(), "{} of {looked_at}:\n{}", problems.len(), problems.join("\n"));
    assert!(looked_at > 1_500, "{looked_at}");
    eprintln!("{looked_at} objects");
    api.close().await;
}
