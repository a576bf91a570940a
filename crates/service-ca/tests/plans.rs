//! The decisions of the service CA, on objects made up and a clock that stands still.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use mainstay_service_ca::authority;
use mainstay_service_ca::certificates::{Authority, Certificate};
use mainstay_service_ca::inject::{self, Taker};
use mainstay_service_ca::serving::{self, Plan};
use proptest::prelude::*;
use serde_json::{Value, json};

fn start() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn days(days: i64) -> SignedDuration {
    SignedDuration::from_hours(24 * days)
}

fn ca() -> Authority {
    Authority::create(start(), authority::ends(start())).unwrap()
}

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "hook", "namespace": "ops", "uid": "u-1",
            "annotations": {"service.beta.openshift.io/serving-cert-secret-name": "hook-cert"}},
        "spec": {"clusterIP": "10.0.0.7"},
    })
}

/// What becomes of the Secret: the plan done.
fn issued(service: &Value, live: Option<&Value>, ca: &Authority, now: Timestamp) -> Value {
    let Plan::Issue { terms, .. } = serving::plan(service, live, ca, now) else { panic!("nothing is issued") };
    let made = ca.issue(&terms.names, &terms.common_name, now, terms.until).unwrap();
    let mut secret = serving::secret(service, live, &terms, &made, ca);
    // What a merge patch leaves.
    secret["data"].as_object_mut().unwrap().retain(|_, value| !value.is_null());
    secret
}

fn patched(mut object: Value, patch: &Value) -> Value {
    for (name, value) in patch["metadata"]["annotations"].as_object().unwrap() {
        let annotations = object["metadata"]["annotations"].as_object_mut().unwrap();
        if value.is_null() {
            annotations.remove(name)
        } else {
            annotations.insert(name.clone(), value.clone())
        };
    }
    object
}

fn chain(secret: &Value) -> Vec<Certificate> {
    Certificate::read_all(&STANDARD.decode(secret["data"]["tls.crt"].as_str().unwrap()).unwrap()).unwrap()
}

/// COP-SCA-01: the Secret's type, content, owner and annotations; the Service says who signed; two years; both spellings of the annotation.
#[test]
fn a_service_gets_its_secret() {
    let ca = ca();
    for annotation in ["service.beta.openshift.io/serving-cert-secret-name", "service.alpha.openshift.io/serving-cert-secret-name"] {
        let mut service = service();
        service["metadata"]["annotations"] = json!({annotation: "hook-cert"});
        let Plan::Issue { service: success, .. } = serving::plan(&service, None, &ca, start()) else { panic!("{annotation}") };
        let signed_by = &success.unwrap()["metadata"]["annotations"]["service.beta.openshift.io/serving-cert-signed-by"];
        assert_eq!(signed_by, &json!(format!("openshift-service-serving-signer@{}", start().as_second())));
        let secret = issued(&service, None, &ca, start());
        assert_eq!((&secret["type"], &secret["metadata"]["name"]), (&json!("kubernetes.io/tls"), &json!("hook-cert")));
        assert_eq!(secret["metadata"]["ownerReferences"], json!([{"apiVersion": "v1", "kind": "Service", "name": "hook", "uid": "u-1"}]));
        let annotations = &secret["metadata"]["annotations"];
        assert_eq!(annotations["service.beta.openshift.io/originating-service-uid"], "u-1");
        assert_eq!(annotations["service.beta.openshift.io/originating-service-name"], "hook");
        assert_eq!(annotations["service.beta.openshift.io/expiry"], "2028-02-29T12:00:00Z");
        let chain = chain(&secret);
        assert_eq!(chain.len(), 2);
        assert!(chain[0].is_signed_by(&chain[1]) && chain[1] == ca.certificate, "the certificate is followed by the CA");
        assert_eq!(chain[0].until.duration_since(start()), days(730));
        assert_eq!(chain[0].names, BTreeSet::from(["hook.ops.svc".to_owned(), "hook.ops.svc.cluster.local".to_owned()]));
        let key = STANDARD.decode(secret["data"]["tls.key"].as_str().unwrap()).unwrap();
        assert!(chain[0].has_key(std::str::from_utf8(&key).unwrap()));
    }
    let mut plain = service();
    plain["metadata"]["annotations"] = json!({});
    assert_eq!(serving::plan(&plain, None, &ca, start()), Plan::NotWanted);
}

/// COP-SCA-01: a headless Service is reached under the names of its pods as well; long names do not break the subject.
#[test]
fn headless_and_long_names() {
    let mut headless = service();
    headless["spec"]["clusterIP"] = json!("None");
    let expected = ["*.hook.ops.svc", "*.hook.ops.svc.cluster.local", "hook.ops.svc", "hook.ops.svc.cluster.local"];
    assert_eq!(chain(&issued(&headless, None, &ca(), start()))[0].names, expected.map(str::to_owned).into());
    let mut long = service();
    long["metadata"]["name"] = json!("n".repeat(63));
    long["metadata"]["namespace"] = json!("s".repeat(63));
    let certificate = chain(&issued(&long, None, &ca(), start())).remove(0);
    assert_eq!(certificate.common_name, "n".repeat(63));
    assert!(certificate.names.contains(&format!("{}.{}.svc", "n".repeat(63), "s".repeat(63))));
}

/// COP-SCA-01: what is kept, and what is issued anew: before its end, under another CA, and for every content that is missing or foreign.
#[test]
fn secrets_are_mended() {
    let ca = ca();
    let service = service();
    let good = issued(&service, None, &ca, start());
    let plan = |secret: &Value, now| serving::plan(&service, Some(secret), &ca, now);
    let Plan::Keep { again, .. } = plan(&good, start()) else { panic!("a good Secret is kept") };
    assert_eq!(again.duration_since(start()), days(700));
    assert!(matches!(plan(&good, again), Plan::Keep { .. }));
    let Plan::Issue { terms, .. } = plan(&good, again + SignedDuration::from_secs(1)) else { panic!("it is renewed") };
    assert_eq!((terms.why.as_str(), terms.until.duration_since(again).as_hours()), ("its certificate ends soon", 730 * 24));

    let other = Authority::create(start(), authority::ends(start())).unwrap();
    let stranger = issued(&service, None, &other, start());
    let change = |why: &str, edit: &dyn Fn(&mut Value)| {
        let mut secret = good.clone();
        edit(&mut secret);
        let Plan::Issue { terms, .. } = plan(&secret, start()) else { panic!("{why}") };
        assert_eq!(terms.why, why);
    };
    let leaf = STANDARD.encode(chain(&good)[0].pem());
    change("another CA signed its certificate", &|secret| secret["data"]["tls.crt"] = stranger["data"]["tls.crt"].clone());
    change("its certificate is not followed by the CA", &|secret| secret["data"]["tls.crt"] = json!(leaf));
    change("its key is another certificate's", &|secret| secret["data"]["tls.key"] = stranger["data"]["tls.key"].clone());
    change("its certificate cannot be read", &|secret| secret["data"]["tls.crt"] = json!("bm9uZQ==garbage"));
    change("its key cannot be read", &|secret| secret["data"]["tls.key"] = json!(""));
    change("the Secret holds something else", &|secret| secret["data"]["more"] = json!("eA=="));
    change("the Secret is empty", &|secret| secret["data"] = Value::Null);
    change("it does not say whose it is", &|secret| secret["metadata"]["ownerReferences"] = json!([]));
    // Owners of others stay, and what does not belong there goes.
    let mut edited = good.clone();
    edited["data"]["more"] = json!("eA==");
    edited["metadata"]["resourceVersion"] = json!("7");
    edited["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u-2"}]);
    let Plan::Issue { terms, .. } = plan(&edited, start()) else { panic!() };
    let made = ca.issue(&terms.names, &terms.common_name, start(), terms.until).unwrap();
    let patch = serving::secret(&service, Some(&edited), &terms, &made, &ca);
    assert_eq!((&patch["data"]["more"], &patch["metadata"]["resourceVersion"]), (&Value::Null, &json!("7")));
    assert_eq!(patch["metadata"]["ownerReferences"].as_array().unwrap().len(), 2);
}

/// COP-SCA-02: a Secret of somebody else is left alone; the Service counts, ten times; clearing, or the end of the Secret, begins anew.
#[test]
fn foreign_secrets_are_left_alone() {
    let ca = ca();
    let foreign = json!({"type": "kubernetes.io/tls", "metadata": {"name": "hook-cert", "namespace": "ops"}, "data": {}});
    let mut live = service();
    for number in 1..=10 {
        let Plan::Refuse { problem, service } = serving::plan(&live, Some(&foreign), &ca, start()) else { panic!("try {number}") };
        assert_eq!(problem, "secret ops/hook-cert does not have corresponding service UID u-1");
        live = patched(live, &service);
        let annotations = &live["metadata"]["annotations"];
        assert_eq!(annotations["service.beta.openshift.io/serving-cert-generation-error-num"], number.to_string());
        assert_eq!(annotations["service.beta.openshift.io/serving-cert-generation-error"], problem);
    }
    assert_eq!(serving::plan(&live, Some(&foreign), &ca, start()), Plan::GivenUp);
    // The Secret of a Service of this name that was deleted is foreign too.
    let mut before = service();
    before["metadata"]["uid"] = json!("u-0");
    let left = issued(&before, None, &ca, start());
    assert!(matches!(serving::plan(&service(), Some(&left), &ca, start()), Plan::Refuse { .. }));

    let Plan::Issue { service: success, .. } = serving::plan(&live, None, &ca, start()) else { panic!("the cause has gone") };
    let cleared = patched(live.clone(), &success.unwrap());
    assert!(cleared["metadata"]["annotations"].get("service.beta.openshift.io/serving-cert-generation-error").is_none());
    for stage in ["beta", "alpha"] {
        live["metadata"]["annotations"]
            .as_object_mut()
            .unwrap()
            .remove(&format!("service.{stage}.openshift.io/serving-cert-generation-error-num"));
    }
    assert!(matches!(serving::plan(&live, Some(&foreign), &ca, start()), Plan::Refuse { .. }), "cleared, it is tried again");
    // A name that the API refuses is not tried for ever either.
    let mut refused = service();
    for _ in 0..10 {
        refused = patched(refused.clone(), &serving::failure(&refused, "Secret \"A B\" is invalid"));
    }
    assert_eq!(serving::plan(&refused, None, &ca, start()), Plan::GivenUp);
}

/// COP-SCA-03: where the bundle goes, kind by kind; once it is there nothing is to be done.
#[test]
fn the_bundle_is_put_where_it_is_asked_for() {
    let asks = |mut object: Value| {
        object["metadata"] =
            json!({"name": "x", "resourceVersion": "5", "annotations": {"service.beta.openshift.io/inject-cabundle": "true"}});
        object
    };
    let encoded = STANDARD.encode("PEM");
    let operations = |taker, object: &Value| {
        inject::plan(taker, object, "PEM").map(|patch| {
            let all = patch.as_array().unwrap();
            assert_eq!(all[0], json!({"op": "add", "path": "/metadata/resourceVersion", "value": "5"}));
            all[1..].iter().map(|each| (each["path"].as_str().unwrap().to_owned(), each["value"].clone())).collect::<Vec<_>>()
        })
    };
    let one = |path: &str, value: &Value| Some(vec![(path.to_owned(), value.clone())]);
    let map = asks(json!({"data": {"other": "is removed", "service-ca.crt": "PEM"}}));
    assert_eq!(operations(Taker::ConfigMap, &map), one("/data", &json!({"service-ca.crt": "PEM"})));
    assert_eq!(operations(Taker::ConfigMap, &asks(json!({"data": {"service-ca.crt": "PEM"}}))), None);
    let api = json!({"spec": {"service": {"name": "s"}, "caBundle": "old"}});
    assert_eq!(operations(Taker::ApiService, &asks(api)), one("/spec/caBundle", &json!(encoded)));
    assert_eq!(operations(Taker::ApiService, &asks(json!({"spec": {"group": "g"}}))), None, "a local API has no server to trust");
    let hooks =
        asks(json!({"webhooks": [{"clientConfig": {}}, {"clientConfig": {"caBundle": encoded}}, {"clientConfig": {"caBundle": "x"}}]}));
    for taker in [Taker::MutatingWebhook, Taker::ValidatingWebhook] {
        let paths: Vec<String> = operations(taker, &hooks).unwrap().into_iter().map(|(path, _)| path).collect();
        assert_eq!(paths, ["/webhooks/0/clientConfig/caBundle", "/webhooks/2/clientConfig/caBundle"]);
    }
    let crd = asks(json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"service": {}}}}}}));
    assert_eq!(operations(Taker::CustomResource, &crd), one("/spec/conversion/webhook/clientConfig/caBundle", &json!(encoded)));
    assert_eq!(operations(Taker::CustomResource, &asks(json!({"spec": {"conversion": {"strategy": "None"}}}))), None);
    let mut silent = crd.clone();
    silent["metadata"]["annotations"] = json!({"service.beta.openshift.io/inject-cabundle": "false"});
    assert_eq!(inject::plan(Taker::CustomResource, &silent, "PEM"), None);
}

/// COP-SCA-04: a CA lasts 790 days, is rotated when less than 395 remain, and once for each reason that is given.
#[test]
fn when_the_ca_is_rotated() {
    let ca = ca();
    assert_eq!(ca.certificate.until.duration_since(start()), days(790));
    let secret = authority::secret(&ca, Some("drill"));
    let plan = |forced: Option<&str>, now| authority::plan(Some(&secret), forced, now);
    let authority::Plan::Keep { authority: kept, again } = plan(None, start()) else { panic!("it stays") };
    assert_eq!((kept, again.duration_since(start())), (ca.clone(), days(395)));
    assert!(matches!(plan(Some("drill"), again), authority::Plan::Keep { .. }), "a reason rotates once");
    assert!(matches!(plan(None, again + SignedDuration::from_secs(1)), authority::Plan::Rotate { .. }));
    let authority::Plan::Rotate { why, .. } = plan(Some("leak"), start()) else { panic!("it is forced") };
    assert_eq!(why, "asked for: leak");
    assert!(matches!(plan(None, start() + days(790)), authority::Plan::Create { .. }), "what has ended signs nothing");
    assert!(matches!(authority::plan(None, None, start()), authority::Plan::Create { .. }));
    let mut broken = secret.clone();
    broken["data"]["tls.key"] =
        authority::secret(&Authority::create(start(), authority::ends(start())).unwrap(), None)["data"]["tls.key"].clone();
    let authority::Plan::Create { why } = authority::plan(Some(&broken), None, start()) else { panic!("it is no CA") };
    assert_eq!(why, "the signing key cannot be used: key and certificate do not belong together");
    let config = json!({"spec": {"unsupportedConfigOverrides": {"forceRotation": {"reason": "leak"}}}});
    assert_eq!(authority::forced_reason(&config), Some("leak"));
}

/// COP-SCA-04: after a rotation the bundle holds new, old and both cross-signed certificates, and everybody trusts everybody: old and new
/// serving certificates verify with the old bundle and with the new one. When the old CA has ended it is forgotten.
#[test]
fn a_rotation_keeps_trust() {
    let old = ca();
    let then = start() + days(396);
    let service = service();
    let before = issued(&service, None, &old, then);
    let new = old.rotate(then, authority::ends(then)).unwrap();
    let names: Vec<&str> = new.bundle.iter().map(|each| each.common_name.as_str()).collect();
    let (n, o) = (new.certificate.common_name.as_str(), old.certificate.common_name.as_str());
    assert_eq!(names, [n, n, o, o]);
    assert!(new.bundle[1].is_signed_by(&old.certificate) && new.bundle[2].is_signed_by(&new.certificate));

    let Plan::Issue { terms, .. } = serving::plan(&service, Some(&before), &new, then) else { panic!("the CA changed") };
    assert_eq!(terms.why, "another CA signed its certificate");
    let after = issued(&service, Some(&before), &new, then);
    assert_eq!(chain(&after).len(), 3, "the new CA follows as the old one signed it");
    for (what, secret) in [("before", &before), ("after", &after)] {
        for (whose, roots) in [("old", &old), ("new", &new)] {
            verify(&chain(secret), &roots.bundle, then).unwrap_or_else(|error| panic!("{what} with the {whose} bundle: {error}"));
        }
    }
    let stored = authority::secret(&new, None);
    assert_eq!(authority::read(&stored).unwrap(), new, "what is stored reads back");
    let authority::Plan::Keep { again, .. } = authority::plan(Some(&stored), None, then) else { panic!() };
    assert_eq!(again, old.certificate.until, "it is looked at when the old one ends");
    let authority::Plan::Forget { authority: alone } = authority::plan(Some(&stored), None, again) else { panic!("it is forgotten") };
    assert_eq!((alone.bundle.len(), alone.intermediate), (1, None));
}

/// Verifies as a TLS client does.
fn verify(chain: &[Certificate], roots: &[Certificate], now: Timestamp) -> Result<(), String> {
    use rustls::client::danger::ServerCertVerifier as _;
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    let der = |each: &Certificate| CertificateDer::from_pem_slice(each.pem().as_bytes()).map_err(|error| error.to_string());
    let mut store = rustls::RootCertStore::empty();
    for root in roots {
        store.add(der(root)?).map_err(|error| error.to_string())?;
    }
    let provider = rustls::crypto::ring::default_provider();
    let verifier = rustls::client::WebPkiServerVerifier::builder_with_provider(store.into(), provider.into()).build();
    let chain = chain.iter().map(der).collect::<Result<Vec<_>, _>>()?;
    let at = UnixTime::since_unix_epoch(std::time::Duration::from_secs(now.as_second().unsigned_abs()));
    let name = ServerName::try_from("hook.ops.svc").map_err(|error| error.to_string())?;
    let verified = verifier.map_err(|error| error.to_string())?.verify_server_cert(&chain[0], &chain[1..], &name, &[], at);
    verified.map(|_| ()).map_err(|error| error.to_string())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// COP-SCA-04, COP-SCA-01: whatever the days on which the loop looks, and whatever is forced in between, there is always a CA with more
    /// than 394 days left after it has acted, the certificate of the Service is trusted with the bundle of the step before and of now, and
    /// a second look finds nothing to do.
    #[test]
    fn looking_now_and_then_keeps_everything_valid(steps in prop::collection::vec((1_i64..380, prop::bool::weighted(0.3)), 1..8)) {
        let (mut now, mut secret, mut stored, mut forced) = (start(), None, None, None::<String>);
        let mut before: Option<Authority> = None;
        for (number, (wait, force)) in steps.into_iter().enumerate() {
            now += days(wait);
            if force {
                forced = Some(format!("reason {number}"));
            }
            for _ in 0..3 {
                let next = match authority::plan(stored.as_ref(), forced.as_deref(), now) {
                    authority::Plan::Keep { .. } => break,
                    authority::Plan::Create { .. } => Authority::create(now, authority::ends(now)).unwrap(),
                    authority::Plan::Rotate { authority, .. } => authority.rotate(now, authority::ends(now)).unwrap(),
                    authority::Plan::Forget { authority } => authority,
                };
                stored = Some(authority::secret(&next, forced.as_deref()));
            }
            let settled = authority::plan(stored.as_ref(), forced.as_deref(), now);
            let authority::Plan::Keep { authority: ca, again } = settled else { panic!("it does not settle: {settled:?}") };
            prop_assert!(again > now || ca.certificate.until.duration_since(now) == authority::ROTATE_BELOW);
            prop_assert!(ca.certificate.until.duration_since(now) >= days(395));
            let service = service();
            if matches!(serving::plan(&service, secret.as_ref(), &ca, now), Plan::Issue { .. }) {
                secret = Some(issued(&service, secret.as_ref(), &ca, now));
            }
            let kept = serving::plan(&service, secret.as_ref(), &ca, now);
            prop_assert!(matches!(kept, Plan::Keep { again, .. } if again >= now), "{kept:?}");
            let chain = chain(secret.as_ref().unwrap());
            prop_assert_eq!(verify(&chain, &ca.bundle, now), Ok(()));
            if let Some(before) = before.replace(ca.clone()).filter(|before| before.certificate.until > now) {
                prop_assert_eq!(verify(&chain, &before.bundle, now), Ok(()), "clients with the bundle of before");
            }
        }
    }
}
