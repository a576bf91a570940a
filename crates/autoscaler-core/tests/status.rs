//! ConfigMap `cluster-autoscaler-status` (COP-CAS-05).

use mainstay_autoscaler_core::settings::{ScaleDown, Settings};
use mainstay_autoscaler_core::status::{Reported, read, status, written};
use serde_json::json;

use crate::support::{Scene, id, size};

/// COP-CAS-05: health, sizes and the reason of the last decision of each set; times of changes are kept.
#[test]
fn what_it_says() {
    let mut scene = Scene::new(Settings { scale_down: ScaleDown { is_enabled: true, ..ScaleDown::default() }, ..Settings::default() });
    scene.group("workers", 1, 12, 2, size(4, 16)).machine("workers", false).waiting(2, size(4, 1));
    scene.pod("filler", Some("workers-0"), size(4, 1));
    scene.pod("other", Some("workers-1"), size(1, 1));
    let plan = scene.pass();
    let first = status(&scene.snapshot, &plan, None);
    let own = &first["nodeGroups"][0];
    assert_eq!((&own["name"], &own["health"]["status"]), (&json!("MachineSet/machines/workers"), &json!("Healthy")));
    assert_eq!((&own["health"]["cloudProviderTarget"], &own["health"]["minSize"]), (&json!(4), &json!(1)));
    assert_eq!(own["health"]["nodeCounts"]["registered"]["ready"], 2);
    assert_eq!(own["health"]["nodeCounts"]["unregistered"], 1);
    assert_eq!(own["scaleUp"]["status"], "InProgress");
    assert_eq!(own["lastDecision"]["reason"], "ScaledUp");
    assert_eq!(first["clusterWide"]["health"]["nodeCounts"]["registered"]["total"], 2);
    scene.later(1);
    let plan = scene.pass();
    let second = status(&scene.snapshot, &plan, Some(&first));
    assert_eq!(second["nodeGroups"][0]["lastDecision"]["since"], "2026-01-01T12:00:00Z");
    assert_eq!(second["nodeGroups"][0]["scaleUp"]["lastTransitionTime"], "2026-01-01T12:00:00Z");
    assert_eq!(second["nodeGroups"][0]["scaleUp"]["lastProbeTime"], "2026-01-01T12:01:00Z");
    let config_map = json!({"data": {"status": written(&second)}});
    assert_eq!(read(&config_map), Some(second));
    let reported = Reported::of(&config_map, &id("workers")).unwrap();
    assert_eq!(reported.decision, Some(("ScaledUp".to_owned(), "size set to 4 instead of 3 for 1 pod".to_owned())));
    assert_eq!(reported.nodes[0].1, "NotUnderutilized");
    assert_eq!(Reported::of(&config_map, &id("others")), None);
}
