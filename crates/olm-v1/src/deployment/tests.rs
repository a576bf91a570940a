#![allow(clippy::unwrap_used)]

use super::*;

fn frame(certificates: Certificates) -> Frame {
    Frame {
        namespace: "olm".into(),
        image: "registry.example/mainstay:1".into(),
        replicas: 2,
        certificates,
        authorities: OlmV1::AUTHORITIES,
        service_monitor: false,
    }
}

fn given(serving: &[Serving]) -> Certificates {
    let pairs = serving.iter().map(|serving| (serving.secret, ("certificate".to_owned(), "key".to_owned())));
    Certificates::Provided { authorities: "ca".into(), pairs: pairs.collect() }
}

fn objects(wanted: &OlmV1) -> Vec<Value> {
    wanted.objects(&frame(given(&wanted.serving())))
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

/// MS-CLI-04, OLM1-GEN-01: two replicas of each controller with probes, Leases, limits and a restricted security context.
#[test]
fn two_deployments_of_two() {
    let objects = objects(&OlmV1::default());
    let deployments = of_kind(&objects, "Deployment");
    assert_eq!(deployments.len(), 2);
    for deployment in deployments {
        assert_eq!(deployment["spec"]["replicas"], 2);
        let pod = &deployment["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        assert_eq!(
            (&pod["securityContext"]["runAsNonRoot"], &container["securityContext"]["readOnlyRootFilesystem"]),
            (&json!(true), &json!(true))
        );
        assert_eq!(container["securityContext"]["capabilities"], json!({"drop": ["ALL"]}));
        assert_eq!(
            (&container["livenessProbe"]["httpGet"]["path"], &container["readinessProbe"]["httpGet"]["path"]),
            (&json!("/healthz"), &json!("/readyz"))
        );
        assert!(container["args"].as_array().is_some_and(|all| all.contains(&json!("--leader-elect"))));
    }
    for kind in ["PodDisruptionBudget", "Service", "NetworkPolicy", "Namespace", "ServiceAccount"] {
        assert!(!of_kind(&objects, kind).is_empty(), "{kind}");
    }
    assert!(of_kind(&objects, "ServiceMonitor").is_empty());
    assert!(objects.iter().all(|object| object["metadata"]["labels"][MANAGED_BY.0] == MANAGED_BY.1));
}

/// MS-CLI-04, OLM1-GEN-01, OLM1-GEN-11: combined, there is one Deployment with one account, which has the roles of both and nothing else;
/// every Service, policy and monitor is about its pods.
#[test]
fn one_deployment_with_one_account() {
    let both = OlmV1 { combined: true, pull_secret: Some(("config".into(), "pull".into())), ..OlmV1::default() };
    let objects = both.objects(&Frame { service_monitor: true, ..frame(given(&both.serving())) });
    let programs = of_kind(&objects, "Deployment");
    assert_eq!((programs.len(), &programs[0]["metadata"]["name"]), (1, &json!("mainstay-olm-v1")));
    let pod = &programs[0]["spec"]["template"]["spec"];
    assert_eq!((&programs[0]["spec"]["replicas"], &pod["serviceAccountName"]), (&json!(2), &json!("mainstay-olm-v1")));
    let arguments = pod["containers"][0]["args"].to_string();
    for argument in ["\"run\",\"olm-v1\"", "--catalogd-cas-dir=/var/ca-certs", "--external-address=catalogd-service.olm.svc"] {
        assert!(arguments.contains(argument), "{argument} is missing: {arguments}");
    }
    assert_eq!(of_kind(&objects, "ServiceAccount").len(), 1);
    let account = json!([{"kind": "ServiceAccount", "name": "mainstay-olm-v1", "namespace": "olm"}]);
    let mut bound: Vec<&str> = Vec::new();
    for binding in of_kind(&objects, "ClusterRoleBinding").into_iter().chain(of_kind(&objects, "RoleBinding")) {
        assert_eq!(binding["subjects"], account);
        bound.extend(binding["roleRef"]["name"].as_str());
    }
    bound.sort_unstable();
    let wanted = [
        "catalogd-manager-role",
        "catalogd-own-namespace",
        "catalogd-proxy-role",
        "mainstay-global-pull-secret",
        "operator-controller-manager-role",
        "operator-controller-manager-role",
        "operator-controller-own-namespace",
        "operator-controller-proxy-role",
    ];
    assert_eq!(bound, wanted);
    let services: Vec<_> = of_kind(&objects, "Service").into_iter().map(|object| &object["spec"]["selector"]).collect();
    assert_eq!(services, [&Value::Null, &selector("mainstay-olm-v1"), &selector("mainstay-olm-v1")]);
    assert_eq!((of_kind(&objects, "ServiceMonitor").len(), of_kind(&objects, "Secret").len()), (1, 2));
    let policy = of_kind(&objects, "NetworkPolicy").into_iter().find(|policy| policy["metadata"]["name"] == "mainstay-olm-v1");
    assert_eq!(policy.map(|policy| policy["spec"]["ingress"][0]["ports"].to_string().matches("port\"").count()), Some(3));
}

/// OLM1-GEN-11: beyond the row, nobody may touch an object by any name but Leases and slices that do not exist yet.
#[test]
fn own_objects_are_named() {
    let objects = objects(&OlmV1::default());
    let own = of_kind(&objects, "Role")
        .into_iter()
        .filter(|role| role["metadata"]["name"].as_str().is_some_and(|name| name.ends_with("own-namespace")));
    let rules: Vec<&Value> = own.flat_map(|role| role["rules"].as_array().into_iter().flatten()).collect();
    assert!(rules.len() >= 5, "{rules:?}");
    for rule in rules {
        assert!(rule["resourceNames"].is_array() || rule["verbs"] == json!(["create"]), "{rule}");
    }
}

/// OLM1-GEN-11, OLM1-API-07: nobody is cluster-admin, unless the named account is to be ignored.
#[test]
fn cluster_admin_only_on_demand() {
    let admins = |objects: &[Value]| objects.iter().filter(|object| object["roleRef"]["name"] == "cluster-admin").count();
    let usual = objects(&OlmV1::default());
    assert_eq!(admins(&usual), 0);
    assert_eq!(admins(&objects(&OlmV1 { own_service_account: true, ..OlmV1::default() })), 1);
    assert!(!usual.iter().any(|object| object["rules"].to_string().contains("\"*\"")));
}

/// OLM1-GEN-11, OLM1-PERM-01: a controller may act as the accounts of extensions, one by one and in their namespace; as every account of the
/// cluster only on demand.
#[test]
fn accounts_are_lent_one_by_one() {
    let lending = |objects: &[Value]| -> Vec<Value> {
        let tokens = |object: &&Value| object["rules"].to_string().contains("serviceaccounts/token");
        objects.iter().filter(tokens).cloned().collect()
    };
    assert_eq!(lending(&objects(&OlmV1::default())), Vec::<Value>::new());
    let extensions = vec![("widgets".to_owned(), ("work".to_owned(), "installer".to_owned()))];
    for (combined, controller) in [(false, "operator-controller-controller-manager"), (true, "mainstay-olm-v1")] {
        let all = objects(&OlmV1 { combined, extensions: extensions.clone(), ..OlmV1::default() });
        let [role] = lending(&all).try_into().unwrap();
        assert_eq!((&role["kind"], &role["metadata"]["namespace"]), (&json!("Role"), &json!("work")));
        assert_eq!(
            role["rules"],
            json!([{"apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": ["installer"], "verbs": ["create"]}])
        );
        let binding = all.iter().find(|object| object["roleRef"]["name"] == role["metadata"]["name"]).unwrap();
        assert_eq!(binding["subjects"], json!([{"kind": "ServiceAccount", "name": controller, "namespace": "olm"}]));
        assert_eq!(binding["metadata"]["namespace"], "work");
    }
    let any = lending(&objects(&OlmV1 { any_service_account: true, extensions, ..OlmV1::default() }));
    assert_eq!((any.len(), &any[0]["kind"]), (1, &json!("ClusterRole")));
}

/// OLM1-API-02, OLM1-GEN-11: namespaces are made only where the deployment says so, and none is changed or deleted.
#[test]
fn namespaces_are_made_on_demand() {
    let rules = |objects: &[Value]| -> Vec<Value> {
        let all = objects
            .iter()
            .filter(|object| object["kind"] == "ClusterRole")
            .flat_map(|role| role["rules"].as_array().cloned().unwrap_or_default());
        all.filter(|rule| rule["resources"].to_string().contains("namespaces")).collect()
    };
    assert_eq!(rules(&objects(&OlmV1::default())), Vec::<Value>::new());
    for combined in [false, true] {
        let all = objects(&OlmV1 { combined, create_namespaces: true, ..OlmV1::default() });
        assert_eq!(rules(&all), [json!({"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "create"]})]);
    }
}

/// OLM1-CAT-20, OLM1-GEN-11: catalogd reads the pull secrets that are named, and no other Secret.
#[test]
fn pull_secrets_of_catalogs_are_read_by_name() {
    let readable = |objects: &[Value]| -> Vec<Value> {
        let bound = |role: &Value| {
            let to = |binding: &&Value| {
                binding["roleRef"]["name"] == role["metadata"]["name"] && binding["subjects"][0]["name"] == "catalogd-controller-manager"
            };
            objects.iter().any(|object| to(&object))
        };
        let roles = objects.iter().filter(|object| object["kind"].as_str().is_some_and(|kind| kind.ends_with("Role")) && bound(object));
        let rules = roles.flat_map(|role| role["rules"].as_array().cloned().unwrap_or_default());
        rules.filter(|rule| rule["resources"].to_string().contains("secrets")).collect()
    };
    assert_eq!(readable(&objects(&OlmV1::default())), Vec::<Value>::new());
    let named = OlmV1 { catalog_pull_secrets: vec!["private".to_owned()], ..OlmV1::default() };
    let rule = json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["private"], "verbs": ["get", "list", "watch"]});
    assert_eq!(readable(&objects(&named)), [rule]);
}

/// MS-CLI-04, OLM1-GEN-10: the service CA makes certificates by annotations; the pull secret can be read, and nothing beside it.
#[test]
fn choices() {
    let wanted = OlmV1 { pull_secret: Some(("config".into(), "pull".into())), ..OlmV1::default() };
    let objects = wanted.objects(&Frame { service_monitor: true, ..frame(Certificates::ServiceCa) });
    assert!(of_kind(&objects, "Secret").is_empty());
    let secret = |service: &&Value| service["metadata"]["annotations"]["service.beta.openshift.io/serving-cert-secret-name"].clone();
    let asked: Vec<Value> = of_kind(&objects, "Service").iter().map(secret).filter(|name| !name.is_null()).collect();
    assert_eq!(asked, ["catalogd-service-cert", "catalogd-webhook-cert", "operator-controller-cert"]);
    assert_eq!(of_kind(&objects, "ServiceMonitor").len(), 2);
    let role = of_kind(&objects, "Role").into_iter().find(|role| role["metadata"]["namespace"] == "config");
    assert_eq!(role.map(|role| role["rules"][0]["resourceNames"].clone()), Some(json!(["pull"])));
}

/// OLM1-CAT-03: the API server is told of the webhook last, by upstream's names, and trusts it through whoever makes its certificate; it leads
/// to every replica. Whoever sets the label himself never needs it.
#[test]
fn the_webhook_of_catalogs() {
    for combined in [false, true] {
        let wanted = OlmV1 { combined, ..OlmV1::default() };
        for (certificates, bundle, annotation) in [
            (given(&wanted.serving()), json!("Y2E="), Value::Null),
            (Certificates::ServiceCa, Value::Null, json!({"service.beta.openshift.io/inject-cabundle": "true"})),
            (Certificates::CertManager, Value::Null, json!({"cert-manager.io/inject-ca-from": "olm/catalogd-webhook-cert"})),
        ] {
            let objects = wanted.objects(&frame(certificates));
            let configuration = objects.last().unwrap();
            assert_eq!(configuration["kind"], "MutatingWebhookConfiguration");
            assert_eq!(configuration["metadata"]["annotations"], annotation);
            let webhook = &configuration["webhooks"][0];
            assert_eq!(webhook["name"], "inject-metadata-name.olm.operatorframework.io");
            assert_eq!(
                (&webhook["failurePolicy"], &webhook["clientConfig"]["service"]["path"]),
                (&json!("Fail"), &json!("/mutate-olm-operatorframework-io-v1-clustercatalog"))
            );
            assert_eq!(webhook["clientConfig"].get("caBundle").cloned().unwrap_or_default(), bundle);
            let service = of_kind(&objects, "Service")
                .into_iter()
                .find(|service| service["metadata"]["name"] == webhook["clientConfig"]["service"]["name"])
                .unwrap();
            let program = of_kind(&objects, "Deployment")[0];
            assert_eq!(service["spec"]["selector"], program["spec"]["selector"]["matchLabels"]);
            let target = &service["spec"]["ports"][0]["targetPort"];
            let pod = &program["spec"]["template"]["spec"];
            assert!(pod["containers"][0]["args"].as_array().unwrap().contains(&json!(format!("--webhook-server-port={target}"))));
            let volumes = pod["volumes"].as_array().unwrap();
            assert!(volumes.iter().any(|volume| volume["secret"]["secretName"] == "catalogd-webhook-cert"), "{volumes:?}");
            let policies = of_kind(&objects, "NetworkPolicy");
            assert!(policies.iter().any(|policy| policy["spec"]["ingress"][0]["ports"].to_string().contains(&target.to_string())));
        }
    }
}

/// MS-CLI-04: cert-manager makes an authority of the namespace, and with it a certificate for every name that is served; both controllers
/// find its certificate where they trust it.
#[test]
fn cert_manager_makes_the_certificates() {
    let wanted = OlmV1::default();
    let objects = wanted.objects(&Frame { service_monitor: true, ..frame(Certificates::CertManager) });
    assert!(of_kind(&objects, "Secret").is_empty() && of_kind(&objects, "ConfigMap").is_empty());
    assert_eq!(of_kind(&objects, "Issuer").len(), 2);
    let certificates = of_kind(&objects, "Certificate");
    for serving in wanted.serving() {
        let certificate = certificates.iter().find(|each| each["spec"]["secretName"] == serving.secret).unwrap();
        assert_eq!(certificate["spec"]["dnsNames"], json!(serving.names("olm")));
        assert_eq!(certificate["spec"]["issuerRef"]["name"], "olmv1-ca");
    }
    let controller = of_kind(&objects, "Deployment")
        .into_iter()
        .find(|each| each["metadata"]["name"] == "operator-controller-controller-manager")
        .unwrap();
    let volumes = controller["spec"]["template"]["spec"]["volumes"].as_array().unwrap();
    let trusted = volumes.iter().find(|volume| volume["name"] == "authorities").unwrap();
    assert_eq!(trusted["secret"]["items"][0]["key"], "ca.crt");
    let monitors = of_kind(&objects, "ServiceMonitor");
    assert!(monitors.iter().all(|each| each["spec"]["endpoints"][0]["tlsConfig"]["ca"]["secret"]["key"] == "ca.crt"), "{monitors:?}");
}

/// MS-CLI-04: OpenShift's cluster operator has a Deployment of its own, with its Lease beside those of the controllers.
#[test]
fn the_cluster_operator() {
    let operator = ClusterOperator { system_namespace: "olm".into() };
    let frame = Frame {
        namespace: "openshift-cluster-olm-operator".into(),
        authorities: ClusterOperator::AUTHORITIES,
        ..frame(given(&operator.serving()))
    };
    let objects = operator.objects(&frame);
    assert!(objects.iter().all(|object| object["metadata"]["labels"][MANAGED_BY.0] == MANAGED_BY.1));
    let deployment = of_kind(&objects, "Deployment")[0];
    assert_eq!(deployment["metadata"]["namespace"], "openshift-cluster-olm-operator");
    let arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"].to_string();
    for argument in ["\"run\",\"cluster-olm-operator\"", "--leader-elect", "--system-namespace=olm"] {
        assert!(arguments.contains(argument), "{argument} is missing: {arguments}");
    }
    let lease = of_kind(&objects, "Role").into_iter().find(|role| role["rules"].to_string().contains("leases")).unwrap();
    assert_eq!(
        (&lease["metadata"]["namespace"], &lease["rules"][1]["resourceNames"]),
        (&json!("olm"), &json!(["cluster-olm-operator-lock"]))
    );
    assert!(!objects.iter().any(|object| object["rules"].to_string().contains("\"*\"")));
    for kind in ["Namespace", "ServiceAccount", "Service", "NetworkPolicy", "PodDisruptionBudget", "Secret", "ConfigMap"] {
        assert!(!of_kind(&objects, kind).is_empty(), "{kind}");
    }
}
