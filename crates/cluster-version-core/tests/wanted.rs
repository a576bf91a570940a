//! Which release the cluster is to go to.
#![allow(clippy::unwrap_used)]

use mainstay_api::config_v1::{Architecture, Release};
use mainstay_cluster_version_core::Mode;
use mainstay_cluster_version_core::wanted::{Wanted, mode, own_image, requested, target};
use mainstay_cluster_version_core::{release, validation};
use serde_json::{Value, json};

use crate::support::cluster_version;

fn status() -> Value {
    json!({
        "desired": {"version": "4.19.1", "image": "r@sha256:01"},
        "availableUpdates": [
            {"version": "4.19.2", "image": "r@sha256:02"}, {"version": "4.19.1", "image": "r@sha256:0f"}, {"version": "4.19.4", "image": ""}],
        "conditionalUpdates": [{"release": {"version": "4.19.3", "image": "r@sha256:03"}, "risks": []}],
        "history": [{"state": "Completed", "version": "4.19.1", "image": "r@sha256:01", "verified": true},
            {"state": "Completed", "version": "4.18.9", "image": "r@sha256:89", "verified": true}],
    })
}

/// CVO-API-11, CVO-API-12: what a wish resolves to.
#[test]
fn wishes() {
    let check = |wish: Value, current: Option<Architecture>, expected: Option<(&str, &str)>| {
        let object = cluster_version(json!({"clusterID": "", "desiredUpdate": wish}), status());
        let found = requested(&object, current);
        let expected =
            expected.map(|(version, image)| Wanted { version: version.into(), image: image.into(), force: wish["force"] == true });
        assert_eq!(found, expected, "{wish}");
    };
    check(Value::Null, None, None);
    check(json!({"version": "4.19.2"}), None, Some(("4.19.2", "r@sha256:02")));
    check(json!({"version": "4.19.2", "force": true}), None, Some(("4.19.2", "r@sha256:02")));
    // A given image is used as it is; the version is compared with the payload later.
    check(json!({"version": "4.19.3", "image": "r@sha256:03"}), None, Some(("4.19.3", "r@sha256:03")));
    check(json!({"image": "r@sha256:77"}), None, Some(("", "r@sha256:77")));
    // Updates that are not recommended, those without an image, and versions of the history resolve to nothing.
    check(json!({"version": "4.19.3"}), None, None);
    check(json!({"version": "4.19.4"}), None, None);
    check(json!({"version": "4.18.9"}), None, None);
    // The move to all architectures is to the current version's payload of them.
    check(json!({"architecture": "Multi", "version": "4.19.2"}), None, Some(("4.19.1", "r@sha256:0f")));
    check(json!({"architecture": "Multi", "version": "4.19.2"}), Some(Architecture::Multi), Some(("4.19.2", "r@sha256:02")));
    check(json!({"architecture": "", "version": "4.19.2"}), None, Some(("4.19.2", "r@sha256:02")));
}

/// CVO-API-12, CVO-API-13, CVO-SYNC-09: without a wish, or before the own release was loaded, the operator's own release counts.
#[test]
fn targets() {
    let own = Release { version: "4.19.1".into(), image: "r@sha256:01".into(), ..Release::default() };
    let object = cluster_version(json!({"clusterID": "", "desiredUpdate": {"version": "4.19.2"}}), status());
    assert_eq!(target(&object, &own, true).unwrap().image, "r@sha256:02");
    assert_eq!(target(&object, &own, false).unwrap().image, "r@sha256:01");
    let none = cluster_version(json!({"clusterID": ""}), status());
    assert_eq!(target(&none, &own, true).unwrap().version, "4.19.1");
    assert_eq!(target(&none, &Release::default(), true), None);
}

/// CVO-HIST-07: the mode follows from the history.
#[test]
fn modes() {
    let wanted = Wanted { image: "i".into(), ..Wanted::default() };
    let check = |history: Value, expected: Mode| {
        let object = cluster_version(json!({}), json!({"history": history}));
        assert_eq!(mode(&object.status.history, &wanted), expected, "{history}");
    };
    check(json!([]), Mode::Initializing);
    check(json!([{"state": "Partial", "image": "i"}, {"state": "Partial", "image": "j"}]), Mode::Initializing);
    check(json!([{"state": "Completed", "image": "i"}]), Mode::Reconciling);
    check(json!([{"state": "Completed", "image": "j"}]), Mode::Updating);
    check(json!([{"state": "Partial", "image": "i"}, {"state": "Completed", "image": "i"}]), Mode::Updating);
}

/// CVO-API-09: identifiers in every form that Go's library reads, addresses as Go reads them, and versions that are known in several ways.
#[test]
fn checks() {
    let check = |spec: Value, expected: &[&str]| {
        let object = cluster_version(spec.clone(), status());
        let errors: Vec<String> = validation::validate(&object).iter().map(ToString::to_string).collect();
        assert_eq!(errors, expected, "{spec}");
    };
    let id = "5f7f6e8e-6a34-4c3e-9a71-0d9a3a0f5b11";
    for good in
        [id, &id.to_uppercase(), &format!("urn:uuid:{id}"), &format!("URN:UUID:{id}"), &format!("{{{id}}}"), &id.replace('-', ""), ""]
    {
        check(json!({"clusterID": good}), &[]);
    }
    let rfc = |id: &str| format!("spec.clusterID: Invalid value: \"{id}\": must be an RFC4122-variant UUID");
    for bad in ["x", "5f7f6e8e-6a34-4c3e-9a71-0d9a3a0f5b1g", "5f7f6e8e-6a34-4c3e-1a71-0d9a3a0f5b11", "5f7f6e8e+6a34-4c3e-9a71-0d9a3a0f5b11"]
    {
        check(json!({"clusterID": bad}), &[&rfc(bad)]);
    }
    let version_1 = "5f7f6e8e-6a34-1c3e-9a71-0d9a3a0f5b11";
    check(json!({"clusterID": version_1}), &[&format!("spec.clusterID: Invalid value: \"{version_1}\": must be a version-4 UUID")]);
    check(json!({"clusterID": id, "upstream": "relative/path"}), &[]);
    check(
        json!({"clusterID": id, "upstream": "http://[::1"}),
        &["spec.upstream: Invalid value: \"http://[::1\": must be a valid URL or empty"],
    );
    let update = |update: Value| json!({"clusterID": id, "desiredUpdate": update});
    check(update(json!({})), &["spec.desiredUpdate: Required value: must specify architecture, version, or image"]);
    check(update(json!({"architecture": "Multi"})), &[]);
    check(
        update(json!({"version": "4.19"})),
        &["spec.desiredUpdate.version: Invalid value: \"4.19\": must be a semantic version (1.2.3[-...])"],
    );
    check(update(json!({"version": "4.19.2"})), &[]);
    // Known from the history alone: valid, although it resolves to nothing.
    check(update(json!({"version": "4.18.9"})), &[]);
    for unknown in ["4.19.3", "4.19.4"] {
        let text =
            format!("spec.desiredUpdate.version: Invalid value: \"{unknown}\": when image is empty the update must be an available update");
        check(update(json!({"version": unknown})), &[&text]);
    }
    check(update(json!({"version": "4.19.3", "image": "r@sha256:03"})), &[]);
    let mut twice = cluster_version(update(json!({"version": "4.19.2"})), status());
    twice.status.available_updates.as_mut().unwrap().push(Release {
        version: "4.19.2".into(),
        image: "other".into(),
        ..Release::default()
    });
    let errors = validation::validate(&twice);
    assert_eq!(
        errors[0].to_string(),
        "spec.desiredUpdate.version: Invalid value: \"4.19.2\": there are multiple possible payloads for this version, specify the exact image"
    );
    assert_eq!(validation::without_invalid(twice, &errors).spec.desired_update, None, "CVO-API-10");
}

/// CVO-USC-13: what the payload does not say comes from the update service; the digest counts, not the registry.
#[test]
fn releases_are_completed() {
    let of = |image: &str, url: &str| Release { image: image.into(), url: url.into(), ..Release::default() };
    let known = Release { version: "4.19.2".into(), channels: vec!["fast".into()], ..of("mirror/r@sha256:02", "https://errata.example/2") };
    let updates = [known.clone()];
    let merged = release::merged(of("r@sha256:02", "own"), release::Known { current: None, updates: &updates });
    assert_eq!(merged, Release { image: "r@sha256:02".into(), url: "own".into(), ..known.clone() });
    assert_eq!(release::merged(of("r:tag", ""), release::Known { current: Some(&known), updates: &[] }), of("r:tag", ""));
    assert!(release::same_content("a:tag", "a:tag") && !release::same_content("a@x@y", "b@x@y"));
}

/// CVO-RUN-02, CVO-RUN-07, CVO-FLOW-06: the operator's own release is the one that the cluster is at, then the flag's, then the one that is asked for.
#[test]
fn own_release() {
    let of = |status: &str, asked: &str| {
        cluster_version(json!({"clusterID": "", "desiredUpdate": {"image": asked}}), json!({"desired": {"version": "", "image": status}}))
    };
    for (status, flag, asked, expected) in [
        ("at", Some("flag"), "asked", Some("at")),
        ("", Some("flag"), "asked", Some("flag")),
        ("", None, "asked", Some("asked")),
        ("", Some(""), "asked", Some("asked")),
        ("at", None, "", Some("at")),
        ("", None, "", None),
    ] {
        assert_eq!(own_image(&of(status, asked), flag), expected, "{status:?} {flag:?} {asked:?}");
    }
}
