//! Files that are made of users' settings: what the records do not reach. The answers are those of upstream's own functions on these inputs.

use mainstay_machine_config_core::container_runtime::{RuntimeSpec, Size, drop_ins, storage_conf};
use mainstay_machine_config_core::kubelet::{KubeletSpec, files, validate};
use mainstay_machine_config_core::registries::conf::RegistriesConf;
use mainstay_machine_config_core::registries::payload::{PayloadError, source_lists};
use mainstay_machine_config_core::registries::rules::{MirrorRule, MirrorRules, RegistrySources, SourcePolicy};
use mainstay_machine_config_core::toml::{ReadError, Toml, document};
use serde_json::{Value, json};

fn kubelet(config: &str, original: &Value) -> String {
    let spec = KubeletSpec { config: Some(config.to_owned()), ..KubeletSpec::default() };
    match files(&spec, original) {
        Ok(files) => files.config.text,
        Err(error) => error.to_string(),
    }
}

/// MACH-MC-06: zero values say nothing over what is there, maps are united, lists replaced.
#[test]
fn kubelet_settings_over_others() {
    let original = json!({"serializeImagePulls": true, "kubeAPIQPS": 50, "memoryThrottlingFactor": 0.9, "evictionHard": {"a": "1"},
        "registerWithTaints": [{"key": "k", "effect": "e"}], "logging": {"flushFrequency": 7, "options": {"json": {"infoBufferSize": "1Mi"}}}});
    let user = r#"{"serializeImagePulls":false,"kubeAPIQPS":0,"memoryThrottlingFactor":0,"evictionHard":{"a":"","b":"2"},"registerWithTaints":[],
        "failSwapOn":false,"logging":{"flushFrequency":"5s","options":{"json":{"infoBufferSize":"2Mi"}}}}"#;
    let text = kubelet(user, &original);
    for line in [
        "serializeImagePulls: true",
        "kubeAPIQPS: 50",
        "memoryThrottlingFactor: 0.9",
        "evictionHard:\n  a: \"\"\n  b: \"2\"",
        "- effect: e\n  key: k",
        "failSwapOn: false",
        "flushFrequency: 5s",
        "infoBufferSize: 1Mi",
    ] {
        assert!(text.contains(line), "{line}:\n{text}");
    }
    assert!(!kubelet(r#"{"systemReserved":{"memory":"2Gi"}}"#, &json!({})).contains("systemReserved"));
}

/// MACH-MC-06: a setting that cannot be read is named, with what it should be.
#[test]
fn kubelet_settings_that_cannot_be_read() {
    let said = |config| kubelet(config, &json!({}));
    assert_eq!(
        said(r#"{"authentication":{"x509":{"clientCAFile":5}}}"#),
        "could not deserialize the new Kubelet config: json: cannot unmarshal number into Go struct field \
         KubeletX509Authentication.authentication.x509.clientCAFile of type string"
    );
    assert_eq!(
        said(r#"{"shutdownGracePeriod":"30x"}"#),
        "could not deserialize the new Kubelet config: time: unknown unit \"x\" in duration \"30x\""
    );
    let refused = |config: &str, auto_sizing| {
        validate(&KubeletSpec { config: Some(config.to_owned()), auto_sizing, log_level: None }).unwrap_err().to_string()
    };
    assert_eq!(
        refused(r#"{"clusterDNS":["a","b"]}"#, None),
        "KubeletConfiguration: clusterDNS is not allowed to be set, but contains: [a b]"
    );
    assert_eq!(
        refused(r#"{"featureGates":{"B":false,"A":true}}"#, None),
        "KubeletConfiguration: featureGates is not allowed to be set, but contains: map[A:true B:false]"
    );
    assert_eq!(
        refused(r#"{"systemReserved":{"cpu":"1"}}"#, Some(true)),
        "KubeletConfiguration: autoSizingReserved and systemdReserved cannot be set together"
    );
}

/// MACH-MC-06: a size that does not fit is no size, and storage.conf keeps what upstream knows.
#[test]
fn sizes_and_storage() {
    let size = |text| Some(Size::parse(text).unwrap());
    assert!(drop_ins(&RuntimeSpec { log_size_max: size("20E"), ..RuntimeSpec::default() }).is_empty());
    let base = "[storage]\ndriver='overlay'\n[storage.options]\nforce_mask=448\nunknown=1\n[storage.options.overlay]\nmountopt='nodev'\n";
    let text = storage_conf(base, &RuntimeSpec { overlay_size: size("1.5Gi"), ..RuntimeSpec::default() }).unwrap();
    assert_eq!(
        text,
        "[storage]\n  driver = \"overlay\"\n  runroot = \"\"\n  graphroot = \"\"\n  [storage.options]\n    size = \"1536Mi\"\n    force_mask = 448\n    \
         auto-userns-min-size = 0\n    auto-userns-max-size = 0\n    [storage.options.overlay]\n      mountopt = \"nodev\"\n"
    );
    let wrong = storage_conf("[storage.options]\nforce_mask='x'\n", &RuntimeSpec::default()).unwrap_err().to_string();
    assert_eq!(wrong, "error decoding crio config: storage.options.force_mask: expected a number from 0 to 4294967295");
}

fn rule(source: &str, mirrors: &[&str]) -> MirrorRule {
    MirrorRule {
        source: source.to_owned(),
        mirrors: mirrors.iter().map(|mirror| (*mirror).to_owned()).collect(),
        policy: SourcePolicy::default(),
    }
}

fn blocked(scopes: &[&str]) -> RegistrySources {
    let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
    RegistrySources { blocked_registries: Some(scopes), ..RegistrySources::default() }
}

/// MACH-MC-06: a release is reachable through mirrors only if all of them are places for it, and the wildcard goes before a host as long.
#[test]
fn the_payload_and_its_mirrors() {
    let image = format!("a.b.example.net/ns1@sha256:{}", "0".repeat(64));
    let of = |mirrors: &[&str], scopes: &[&str]| {
        let rules = MirrorRules { digest: vec![rule("a.b.example.net", mirrors)], tag: Vec::new(), exist: true };
        source_lists(&image, &blocked(scopes), &rules)
    };
    let (lists, error) = of(&["quay.example.org"], &["a.b.example.net"]);
    assert_eq!((lists.allowed, error), (vec!["a.b.example.net/ns1".to_owned()], None));
    let (lists, error) = of(&["quay.example.org", "plain"], &["a.b.example.net"]);
    assert_eq!(error.unwrap().to_string(), "rewriting reference: repository name must be canonical");
    assert!(lists.allowed.is_empty() && lists.registries_blocked.is_empty());
    let (_, error) = of(&["quay.example.org"], &["*.b.example.net"]);
    assert!(matches!(error, Some(PayloadError::Blocked(_))), "{error:?}");
}

/// MACH-DISR-02: mirrors of a source reach down to entries inside it, and a circle of mirrors is broken at its first name.
#[test]
fn mirrors_reach_down() {
    let mut conf = RegistriesConf::default();
    let rules =
        MirrorRules { digest: vec![rule("r.example.com", &["b", "a"]), rule("r.example.com", &["a", "b"])], tag: Vec::new(), exist: true };
    conf.edit(&[], &["r.example.com/ns".to_owned()], &rules).unwrap();
    let seen: Vec<(String, Vec<String>)> = conf
        .registries
        .iter()
        .flatten()
        .map(|registry| (registry.scope().to_owned(), registry.mirrors.iter().map(|mirror| mirror.location.clone()).collect()))
        .collect();
    let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    assert_eq!(seen, [("r.example.com".to_owned(), texts(&["a", "b"])), ("r.example.com/ns".to_owned(), texts(&["a/ns", "b/ns"]))]);
}

/// MACH-MC-06: texts are escaped, and what is written is read back.
#[test]
fn toml_reads_back() {
    let strange = "a\"b\\c\n\t\u{1}\u{7f}ä";
    let text = document(&vec![("short-name-mode".to_owned(), Toml::Text(strange.to_owned()))]);
    assert_eq!(text, "short-name-mode = \"a\\\"b\\\\c\\n\\t\\u0001\\u007fä\"\n");
    assert_eq!(RegistriesConf::read(&text).unwrap().short_name_mode, strange);
    let wrong = RegistriesConf::read("[[registry]]\nlocation='a'\n[[registry.mirror]]\ninsecure=1\n").unwrap_err();
    assert_eq!(wrong.to_string(), "registry[0].mirror[0].insecure: expected true or false");
    assert!(matches!(RegistriesConf::read(&"#".repeat(2 << 20)), Err(ReadError::Size(_))));
    assert!(matches!(RegistriesConf::read("a = ["), Err(ReadError::Syntax(_))));
}
