//! Catalogs that pods serve, and bundles that Jobs unpack, on simulated nodes.

use mainstay_catalog_store::SourceContents;
use mainstay_olm_classic::catalog::{CatalogServing, PodContent, PodImages, Setup};
use mainstay_olm_classic_core::catalog_source::registry::Tools;
use mainstay_olm_classic_core::install_plan::reference::unpack_name;
use mainstay_testing::widgets::Content;
use serde_json::{Value, json};

use super::bench::{Bench, condition, own, package, place};

const MARKET: &str = "openshift-marketplace";

fn by_pods(images: &PodImages) -> impl FnOnce(&mut Setup) + use<> {
    let images = images.clone();
    move |setup| {
        setup.serving = CatalogServing::Pods { tools: Tools::default(), content: PodContent::Image };
        setup.pod_images = Some(images);
    }
}

async fn bench() -> Bench {
    let images = PodImages::default();
    let bench = Bench::with(by_pods(&images)).await;
    bench.nodes(&images);
    bench
}

/// The pods of a source.
async fn pods(bench: &Bench, source: &str) -> Vec<Value> {
    let pods = bench.list("v1", "Pod", MARKET).await.into_iter();
    pods.filter(|pod| pod["metadata"]["labels"]["olm.catalogSource"] == *source && pod["metadata"]["deletionTimestamp"].is_null()).collect()
}

/// Waits until a source has one pod, another one than `before`.
async fn another_pod(bench: &Bench, source: &str, before: &Value) -> Value {
    for _ in 0..3_000 {
        let found = pods(bench, source).await;
        if found.len() == 1 && found[0]["metadata"]["uid"] != before["metadata"]["uid"] && found[0]["status"]["phase"] == "Running" {
            return found[0].clone();
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("no other pod of {source}: {:#?}", pods(bench, source).await);
}

/// OLM0-CAT-06, OLM0-CAT-16, OLM0-CAT-17, OLM0-CAT-30, OLM0-CAT-36, OLM0-IP-07, OLM0-HUB-09: a pod serves a catalog, with the image that was really
/// pulled; a Job fills the ConfigMap from which an InstallPlan is carried out; what is deleted is made again, and another configuration makes
/// another pod.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_serves_and_a_job_unpacks() {
    let bench = bench().await;
    let image = bench.bundle("1.0.0", &Content::default()).await;
    let source = bench.catalog(MARKET, "test", &package("widgets", &[("1.0.0", &image)])).await;
    let ready = bench.ready(&source).await;
    assert_eq!(ready["status"]["connectionState"]["address"], "test.openshift-marketplace.svc:50051");
    let first = another_pod(&bench, "test", &Value::Null).await;
    assert!(first["metadata"]["name"].as_str().unwrap().starts_with("test-"), "{first:#}");
    let id = first["status"]["containerStatuses"][0]["imageID"].as_str().unwrap();
    assert!(id.starts_with(&format!("{}/test/test", bench.registry)) && id.contains("@sha256:"), "{id}");
    for (api, kind, name) in
        [("v1", "Service", "test"), ("v1", "ServiceAccount", "test"), ("networking.k8s.io/v1", "NetworkPolicy", "test-grpc-server")]
    {
        assert!(bench.get(&place(api, kind, MARKET, name)).await.is_some(), "{kind} {name}");
    }
    bench.group("work", json!({})).await;
    let subscription = bench.subscribe("work", "widgets", json!({})).await;
    let plan = bench.plan_of(&subscription, "Complete").await;
    let name = unpack_name(&image);
    let reference: Value = serde_json::from_str(plan["status"]["plan"][0]["resource"]["manifest"].as_str().unwrap()).unwrap();
    assert_eq!((&reference["kind"], &reference["name"], &reference["namespace"]), (&json!("ConfigMap"), &json!(name), &json!(MARKET)));
    let map = bench.get(&place("v1", "ConfigMap", MARKET, &name)).await.unwrap();
    assert_eq!(map["metadata"]["annotations"]["olm.sourceImage"], *image);
    assert!(!map["binaryData"].as_object().unwrap().is_empty());
    let job = bench.get(&place("batch/v1", "Job", MARKET, &name)).await.unwrap();
    assert_eq!((&job["spec"]["backoffLimit"], &job["spec"]["activeDeadlineSeconds"]), (&json!(3), &json!(600)));
    assert_eq!(condition(&job, "Complete")["status"], "True");
    // What is gone is made again.
    bench.delete(&place("v1", "Pod", MARKET, first["metadata"]["name"].as_str().unwrap())).await;
    let second = another_pod(&bench, "test", &first).await;
    let service = place("v1", "Service", MARKET, "test");
    let uid = bench.get(&service).await.unwrap()["metadata"]["uid"].clone();
    bench.delete(&service).await;
    bench.until(&service, |live| live["metadata"]["uid"].is_string() && live["metadata"]["uid"] != uid).await;
    let config = json!({"spec": {"grpcPodConfig": {"nodeSelector": {"kubernetes.io/os": "linux"}, "memoryTarget": "100Mi",
        "tolerations": [{"operator": "Exists"}], "securityContextConfig": "restricted"}}});
    bench.admin.patch(&source, "", &mainstay_objects::Patch::Merge(config)).await.unwrap();
    let third = another_pod(&bench, "test", &second).await;
    assert_ne!(third["metadata"]["labels"]["olm.pod-spec-hash"], second["metadata"]["labels"]["olm.pod-spec-hash"]);
    assert_eq!(third["spec"]["containers"][0]["env"], json!([{"name": "GOMEMLIMIT", "value": "100MiB"}]));
    assert_eq!(third["spec"]["securityContext"]["runAsUser"], 1001);
    bench.ready(&source).await;
    // The pod, the Service and the rest go with the source.
    bench.delete(&source).await;
    bench.until(&service, Value::is_null).await;
    bench.close().await;
}

/// OLM0-CAT-34: another way of serving takes over while the packages stay in sight; without pods nothing of them is left, and the condition
/// says that their configuration has no effect.
#[tokio::test(flavor = "multi_thread")]
async fn one_way_of_serving_takes_over_from_the_other() {
    let mut bench = Bench::start().await;
    let images = PodImages::default();
    bench.nodes(&images);
    let image = bench.bundle("1.0.0", &Content::default()).await;
    let source = bench.catalog(MARKET, "test", &package("widgets", &[("1.0.0", &image)])).await;
    bench
        .admin
        .patch(&source, "", &mainstay_objects::Patch::Merge(json!({"spec": {"grpcPodConfig": {"priorityClassName": ""}}})))
        .await
        .unwrap();
    let told = bench.until(&source, |one| condition(one, "PodConfigInUse").is_object()).await;
    assert_eq!(condition(&told, "PodConfigInUse")["reason"], "ServedInProcess");
    bench.ready(&source).await;
    assert!(pods(&bench, "test").await.is_empty());
    let contents = SourceContents::default();
    let shown = contents.clone();
    let pods_serve = by_pods(&images);
    bench
        .restart_with(move |setup| {
            pods_serve(setup);
            setup.contents = shown;
        })
        .await;
    let mut changes = contents.changes();
    let seen = contents.clone();
    // From the moment in which the packages are there again they stay.
    let watching = tokio::spawn(async move {
        let mut was_there = false;
        while changes.changed().await.is_ok() {
            let is_there = seen.get(MARKET, "test").is_some();
            assert!(is_there || !was_there, "the packages disappeared");
            was_there |= is_there;
        }
    });
    let pod = another_pod(&bench, "test", &Value::Null).await;
    bench
        .until(&source, |one| {
            condition(one, "PodConfigInUse").is_null() && one["status"]["connectionState"]["lastObservedState"] == "READY"
        })
        .await;
    assert!(contents.get(MARKET, "test").is_some());
    watching.abort();
    assert!(watching.await.is_err_and(|ended| ended.is_cancelled()), "the packages stayed");
    bench.restart().await;
    bench.until(&place("v1", "Pod", MARKET, pod["metadata"]["name"].as_str().unwrap()), Value::is_null).await;
    bench.until(&place("v1", "Service", MARKET, "test"), Value::is_null).await;
    assert!(bench.get(&place("v1", "ServiceAccount", MARKET, "test")).await.is_none());
    bench.ready(&source).await;
    bench.close().await;
}

/// OLM0-CAT-10, OLM0-CAT-12, OLM0-CAT-13, OLM0-CAT-31: a catalog that cannot run in its namespace, one that cannot be pulled, and a bundle that cannot: told in
/// the status, at the pod, and at the Job; the namespace's label decides what may run.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_run_is_told() {
    let bench = bench().await;
    let strict = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": MARKET, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    bench.apply(strict.clone()).await;
    let source = bench
        .catalog(MARKET, "test", &package("widgets", &[("1.0.0", &format!("{}/test/none@sha256:{}", bench.registry, "0".repeat(64)))]))
        .await;
    let pod = another_pod(&bench, "test", &Value::Null).await;
    assert_eq!(pod["spec"]["securityContext"]["runAsNonRoot"], true, "the namespace wants it");
    bench
        .admin
        .patch(&source, "", &mainstay_objects::Patch::Merge(json!({"spec": {"grpcPodConfig": {"securityContextConfig": "legacy"}}})))
        .await
        .unwrap();
    let refused =
        bench.until(&source, |one| one["status"]["message"].as_str().is_some_and(|told| told.contains("violates PodSecurity"))).await;
    assert_eq!(refused["status"]["connectionState"]["lastObservedState"], "TRANSIENT_FAILURE");
    let mut open = strict;
    open["metadata"]["labels"] = json!({"pod-security.kubernetes.io/enforce": "baseline"});
    bench.apply(open).await;
    bench.ready(&source).await;
    // The bundle is not there.
    bench.group("work", json!({})).await;
    let subscription = bench.subscribe("work", "widgets", json!({})).await;
    let waits = bench
        .until(&subscription, |one| condition(one, "BundleUnpacking")["message"].as_str().is_some_and(|told| told.contains("ImagePull")))
        .await;
    let told = condition(&waits, "BundleUnpacking")["message"].as_str().unwrap().to_owned();
    assert!(
        told.starts_with("unpack job not completed: Unpack pod(openshift-marketplace/")
            && told.contains("container(pull) is pending. Reason: "),
        "{told}"
    );
    // So is another catalog.
    bench.apply(json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": {"name": "none", "namespace": MARKET},
        "spec": {"sourceType": "grpc", "image": format!("{}/test/none:v9", bench.registry)}})).await;
    let failing = own("v1alpha1", "CatalogSource", MARKET, "none");
    let failing =
        bench.until(&failing, |one| one["status"]["message"].as_str().is_some_and(|told| told.contains("ImagePullBackOff"))).await;
    let told = failing["status"]["message"].as_str().unwrap();
    assert!(told.contains("reading manifest v9 in ") && told.contains("/test/none: "), "{told}");
    bench.close().await;
}
