//! The pure parts.

use mainstay_network_extras::fresh::{Families, network_status};
use mainstay_network_extras::proxy::{Inputs, ProxyError, renewed, status, validate};
use mainstay_network_extras::trust::{KEY, LABEL, injection, merge};
use proptest::prelude::*;
use serde_json::{Value, json};

fn certificate(name: &str) -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap().self_signed(&key).unwrap().pem()
}

fn proxy(spec: Value) -> Value {
    json!({"spec": spec})
}

fn cluster(install: &str) -> Value {
    json!({"data": {"install-config": install}})
}

fn infrastructure(platform: Value) -> Value {
    json!({"status": {"apiServerInternalURI": "https://api-int.example.com:6443", "platformStatus": platform}})
}

const INSTALL: &str = "networking:\n  machineNetwork:\n  - cidr: 10.0.0.0/16\n  - cidr: 0.0.0.0/0\n";

fn computed(spec: Value, platform: Value) -> Result<Value, ProxyError> {
    let network = json!({"status": network_status(&json!({}), Families::Ipv4)});
    let (infrastructure, install) = (infrastructure(platform), cluster(INSTALL));
    status(&proxy(spec), Inputs { infrastructure: Some(&infrastructure), network: Some(&network), cluster: Some(&install) })
}

/// COP-NET-02: the status is the sorted union of what the platform needs and what the user wants.
#[test]
fn no_proxy() {
    let no_proxy = |platform: Value, user: &str| {
        computed(json!({"httpProxy": "http://p:3128", "noProxy": user}), platform).unwrap()["noProxy"].clone()
    };
    let base = ".cluster.local,.svc,10.0.0.0/16,10.128.0.0/14,10.96.0.0/16,127.0.0.1,api-int.example.com,localhost";
    assert_eq!(no_proxy(json!({"type": "None"}), ""), base);
    assert_eq!(no_proxy(json!({"type": "None"}), "*"), "*");
    assert_eq!(
        no_proxy(json!({"type": "AWS", "aws": {"region": "eu-west-1"}}), "b.example,.a.example"),
        ".a.example,.cluster.local,.eu-west-1.compute.internal,.svc,10.0.0.0/16,10.128.0.0/14,10.96.0.0/16,127.0.0.1,169.254.169.254,\
         api-int.example.com,b.example,localhost"
    );
    let has = |platform: Value, entry: &str| no_proxy(platform, "").as_str().unwrap().split(',').any(|one| one == entry);
    assert!(has(json!({"type": "AWS", "aws": {"region": "us-east-1"}}), ".ec2.internal"));
    for entry in ["metadata", "metadata.google.internal", "metadata.google.internal.", "169.254.169.254"] {
        assert!(has(json!({"type": "GCP"}), entry), "{entry}");
    }
    assert!(!has(json!({"type": "Azure", "azure": {"cloudName": "AzurePublicCloud"}}), "168.63.129.16"));
    let stack = json!({"type": "Azure", "azure": {"cloudName": "AzureStackCloud", "armEndpoint": "https://arm"}});
    assert!(has(stack.clone(), "168.63.129.16") && has(stack, "https://arm"));
    assert!(has(json!({"type": "OpenStack"}), "169.254.169.254"));
    assert_eq!(computed(json!({}), json!({})).unwrap(), json!({}), "nothing is set");
    let given = computed(json!({"httpsProxy": "https://u:p@p:1", "noProxy": "*"}), json!({})).unwrap();
    assert_eq!(given, json!({"httpsProxy": "https://u:p@p:1", "noProxy": "*"}));
}

/// COP-NET-02: what a Proxy may not say, in upstream's words.
#[test]
fn refusals() {
    let refused = |spec: Value| match validate(&proxy(spec)) {
        Err(ProxyError::Invalid(text)) => text.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(json!({"noProxy": "a"})), "httpProxy or httpsProxy must be set when using proxy");
    assert_eq!(refused(json!({"httpProxy": "https://p"})), "httpProxy requires a 'http' URI scheme");
    assert_eq!(refused(json!({"httpsProxy": "ftp://p"})), "httpsProxy requires a 'http' or 'https' URI scheme");
    assert_eq!(refused(json!({"httpProxy": "p:3128"})), "httpProxy requires a 'http' URI scheme");
    assert_eq!(refused(json!({"httpProxy": "http://%zz"})), "invalid httpProxy URI: parse \"http://%zz\": invalid URL escape \"%zz\"");
    assert!(refused(json!({"httpProxy": "p"})).starts_with("invalid httpProxy URI: "));
    assert!(refused(json!({"httpsProxy": "http://p:0"})).starts_with("invalid httpsProxy URI: "));
    for entry in ["a,*", "*.example.com", "a b", "10.0.0.0/33", "A", "-a", "", "a,,b", "1.2.3.4/"] {
        if !entry.is_empty() {
            assert!(refused(json!({"httpProxy": "http://p", "noProxy": entry})).starts_with("invalid noProxy: "), "{entry}");
        }
    }
    for entry in ["*", ".example.com", "example.com.", "a, b", "10.0.0.0/8,::1,fd00::/8,1.2.3.4", "localhost"] {
        assert_eq!(validate(&proxy(json!({"httpProxy": "http://p", "noProxy": entry}))), Ok(()), "{entry}");
    }
    let error = validate(&proxy(json!({"noProxy": "a"}))).unwrap_err();
    assert_eq!(error.reason(), "InvalidProxyConfig");
    assert_eq!(
        error.to_string(),
        "The configuration is invalid for proxy 'cluster' (httpProxy or httpsProxy must be set when using proxy). Use 'oc edit \
         proxy.config.openshift.io cluster' to fix."
    );
}

/// COP-NET-02: each missing input has its reason.
#[test]
fn missing_inputs() {
    let spec = proxy(json!({"httpProxy": "http://p"}));
    let network = json!({"status": network_status(&json!({}), Families::Ipv4)});
    let (infrastructure, install) = (infrastructure(json!({})), cluster(INSTALL));
    let all = Inputs { infrastructure: Some(&infrastructure), network: Some(&network), cluster: Some(&install) };
    let reason = |inputs| status(&spec, inputs).unwrap_err().reason();
    assert_eq!(reason(Inputs { infrastructure: None, ..all }), "InfraConfigError");
    assert_eq!(reason(Inputs { network: None, ..all }), "NetworkConfigError");
    assert_eq!(reason(Inputs { cluster: None, ..all }), "ClusterConfigError");
    let empty = json!({"status": {}});
    let text = |inputs| status(&spec, inputs).unwrap_err().to_string();
    assert!(text(Inputs { network: Some(&empty), ..all }).ends_with("serviceNetwork missing from network 'cluster' status"));
    assert!(
        text(Inputs { infrastructure: Some(&empty), ..all })
            .ends_with("internal api server url missing from infrastructure config 'cluster'")
    );
    let none = json!({"data": {}});
    assert!(text(Inputs { cluster: Some(&none), ..all }).ends_with("missing install-config in configmap"));
    let odd = cluster("networking: {machineNetwork: [{cidr: x}]}");
    assert!(text(Inputs { cluster: Some(&odd), ..all }).ends_with("MachineNetwork has an invalid CIDR: x"));
}

/// COP-NET-03: the families of the networks.
#[test]
fn families() {
    let status = |families| network_status(&json!({"status": {"migration": {"x": 1}}}), families);
    assert_eq!(
        status(Families::Ipv4),
        json!({"clusterNetwork": [{"cidr": "10.128.0.0/14", "hostPrefix": 23}], "serviceNetwork": ["10.96.0.0/16"], "networkType": "Simulated",
            "migration": {"x": 1}})
    );
    assert_eq!(status(Families::Dual)["serviceNetwork"].as_array().unwrap().len(), 2);
    assert!(status(Families::Ipv6)["serviceNetwork"][0].as_str().unwrap().contains(':'));
}

/// COP-NET-01: the user's certificates come first, each is there once, and a bundle with a flaw is refused whole, with its position.
#[test]
fn bundles() {
    let (one, two, three) = (certificate("one"), certificate("two"), certificate("three"));
    let user = format!("# ours\n{one}{two}{one}");
    let system = format!("{two}{three}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let merged = merge(Some(("openshift-config/ca", &user)), &system).unwrap();
    let normal = |text: &str| text.replace("\r\n", "\n");
    assert_eq!(merged, normal(&format!("{one}{two}{three}")));
    assert_eq!(merge(None, &system).unwrap(), normal(&format!("{two}{three}")));
    let refused = |text: &str| merge(Some(("openshift-config/ca", text)), &system).unwrap_err().to_string();
    let key = rcgen::KeyPair::generate().unwrap().serialize_pem();
    assert_eq!(
        refused(&format!("{one}{key}")),
        format!("openshift-config/ca: block 2, line {}: it is a PRIVATE KEY, not a certificate", one.lines().count() + 1)
    );
    assert!(
        refused("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
            .contains("block 1, line 1: the certificate cannot be read")
    );
    assert_eq!(refused("hello"), "openshift-config/ca: it has no certificate");
    assert_eq!(refused(""), "openshift-config/ca: data key \"ca-bundle.crt\" is empty");
    let cut = &one[..one.len() - 40];
    assert!(refused(cut).starts_with("openshift-config/ca: block 1, line 1: "), "{}", refused(cut));
}

/// COP-NET-01, OLM0-ADMIN-19: only a ConfigMap with the label is changed, and of it only the one key.
#[test]
fn injections() {
    let asker = |label: &str| json!({"metadata": {"labels": {LABEL: label}}, "data": {"other": "x"}});
    assert_eq!(injection(&asker("true"), "B"), Some(json!({"data": {KEY: "B"}})));
    assert_eq!(injection(&asker("false"), "B"), None);
    assert_eq!(injection(&json!({"metadata": {}}), "B"), None);
    assert_eq!(injection(&json!({"metadata": {"labels": {LABEL: "true"}}, "data": {KEY: "B"}}), "B"), None);
}

proptest! {
    /// Any bundle and any Proxy get an answer.
    #[test]
    fn anything(text in "\\PC{0,200}", begin in any::<bool>()) {
        let text = if begin { format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n") } else { text };
        let _ = merge(Some(("b", &text)), &text);
        let _ = validate(&proxy(json!({"httpProxy": text, "noProxy": text})));
        let _ = computed(json!({"httpProxy": "http://p", "noProxy": text}), json!({"type": text}));
    }
}

/// COP-NET-02: the status gets and loses the three fields, and keeps those of others.
#[test]
fn a_status_is_renewed() {
    for (live, wanted, expected) in [
        (json!({}), json!({}), None),
        (json!({}), json!({"noProxy": "a"}), Some(json!({"noProxy": "a"}))),
        (json!({"status": {"httpProxy": "old", "other": 1}}), json!({"noProxy": "a"}), Some(json!({"noProxy": "a", "other": 1}))),
        (json!({"status": {"httpProxy": "old"}}), json!({}), Some(json!({}))),
        (json!({"status": null}), json!({}), None),
    ] {
        assert_eq!(renewed(&live, &wanted), expected, "{live} {wanted}");
    }
}
