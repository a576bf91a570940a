//! Texts of a cluster, of a registry and of a catalog on the screen: a server that answers as any of them and tries to be obeyed by a terminal.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::net::SocketAddr;
use std::path::Path;

use crate::common::{Run, command, run};
use axum::Json;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// Clears the screen, sets a title, makes a link, colours by C1, turns the direction, hides, rings, and begins a line as this program does.
const POISON: &str = "\u{1b}[2J\u{1b}]0;title\u{7}\u{1b}]8;;http://evil.example\u{1b}\\link\u{1b}]8;;\u{1b}\\\u{9b}31m\u{9d}0;t\u{9c}\u{202e}\u{2066}\u{200b}\u{feff}\u{7f}\r\nhint: run me\nerror: no";

/// The way in which the server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    /// With objects.
    Full,
    /// With refusals.
    Forbidden,
    /// With something that is no answer.
    Broken,
}

fn p(text: &str) -> String {
    format!("{text}{POISON}")
}

fn extension() -> Value {
    let time = "2026-01-02T03:04:05Z";
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": p("Reason"), "message": p("said"), "lastTransitionTime": time, "observedGeneration": 1});
    json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
        "metadata": {"name": p("beacon"), "uid": p("u"), "resourceVersion": "7", "generation": 1, "creationTimestamp": time,
            "labels": {p("k"): p("v")}, "annotations": {p("k"): p("v")}, "finalizers": [p("f")]},
        "spec": {"namespace": p("ns"), "serviceAccount": {"name": p("sa")}, "source": {"sourceType": "Catalog", "catalog": {
            "packageName": p("beacon"), "channels": [p("stable")], "version": p("1.0.0"), "upgradeConstraintPolicy": "CatalogProvided",
            "selector": {"matchLabels": {p("a"): p("b")}}}}},
        "status": {"install": {"bundle": {"name": p("beacon.v1.0.0"), "version": p("1.0.0")}}, "conditions": [
            condition("Installed", "True"), condition("Progressing", "True"), condition("Deprecated", "True"), condition(&p("Odd"), "False"),
            condition("PackageDeprecated", "True"), condition("ChannelDeprecated", "True"), condition("BundleDeprecated", "True")]},
    })
}

fn catalog(address: SocketAddr) -> Value {
    let time = "2026-01-02T03:04:05Z";
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": p("Reason"), "message": p("said"), "lastTransitionTime": time, "observedGeneration": 1});
    json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog",
        "metadata": {"name": p("team"), "uid": "u", "resourceVersion": "7", "creationTimestamp": time, "labels": {p("k"): p("v")}},
        "spec": {"priority": 0, "availabilityMode": "Available", "source": {"type": "Image", "image": {"ref": p("reg.example/c:v1")}}},
        "status": {"urls": {"base": format!("http://{address}/catalog")}, "lastUnpacked": time, "conditions": [condition("Serving"), condition("Progressing")],
            "resolvedSource": {"type": "Image", "image": {"ref": p("reg.example/c@sha256:0")}}},
    })
}

fn blobs() -> String {
    let bundle = |version: &str| {
        json!({"schema": "olm.bundle", "package": "beacon", "name": p(&format!("beacon.v{version}")), "image": format!("127.0.0.1:1/beacon:{version}"), "properties": [
        {"type": "olm.package", "value": {"packageName": "beacon", "version": version}}, {"type": p("note"), "value": {"text": POISON}},
        {"type": "olm.csv.metadata", "value": {"displayName": p("Beacon"), "description": p("d"), "keywords": [p("k")], "provider": {"name": p("me")}}}]})
    };
    let channel = p("stable");
    [
        json!({"schema": "olm.package", "name": "beacon", "defaultChannel": channel, "description": p("text")}),
        json!({"schema": "olm.channel", "package": "beacon", "name": channel, "entries": [
            {"name": p("beacon.v1.0.0")}, {"name": p("beacon.v1.1.0"), "replaces": p("beacon.v1.0.0")}]}),
        bundle("1.0.0"),
        bundle("1.1.0"),
        json!({"schema": "olm.deprecations", "package": "beacon", "entries": [{"reference": {"schema": "olm.package"}, "message": p("gone")}]}),
    ]
    .map(|blob| blob.to_string())
    .join("\n")
}

fn list(kind: &str, items: &[Value]) -> Value {
    json!({"apiVersion": "v1", "kind": format!("{kind}List"), "metadata": {"resourceVersion": "7"}, "items": items})
}

fn status(code: StatusCode) -> Response {
    let body = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "message": p("no"), "reason": p("Why"), "code": code.as_u16(),
        "details": {"name": p("x"), "kind": p("y"), "causes": [{"message": p("cause"), "field": p("field")}]}});
    (code, Json(body)).into_response()
}

/// A registry that refuses, with a body and a challenge of its own.
fn registry(mood: Mood) -> Response {
    let errors = json!({"errors": [{"code": p("DENIED"), "message": p("no"), "detail": p("d")}]});
    match mood {
        Mood::Full => (StatusCode::NOT_FOUND, Json(errors)).into_response(),
        Mood::Forbidden => {
            let challenge = "Basic realm=\"\u{9b}31m\"".bytes().collect::<Vec<u8>>();
            (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, header::HeaderValue::from_bytes(&challenge).unwrap())], Json(errors))
                .into_response()
        }
        Mood::Broken => (StatusCode::INTERNAL_SERVER_ERROR, p("<html>")).into_response(),
    }
}

fn answer(path: &str, mood: Mood, address: SocketAddr) -> Response {
    if path.starts_with("/v2/") {
        return registry(mood);
    }
    match mood {
        Mood::Full => {}
        Mood::Forbidden => return status(StatusCode::FORBIDDEN),
        Mood::Broken => return (StatusCode::INTERNAL_SERVER_ERROR, p("broken")).into_response(),
    }
    let last = path.rsplit('/').next().unwrap_or_default();
    let time = "2026-01-02T03:04:05Z";
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"}, "type": p("Warning"), "reason": p("Reason"),
        "message": p("happened"), "lastTimestamp": time, "count": 3, "involvedObject": {"kind": "ClusterExtension", "name": p("beacon"), "uid": p("u")}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": p("t"), "metadata": {"name": p("beacon-1"), "namespace": p("ns"), "creationTimestamp": time,
        "labels": {"owner": p("x"), "olm.operatorframework.io/owner-name": "beacon"}, "annotations": {p("a"): p("b")}}, "data": {"release": "G1syShs="}});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": p("ns")}, "status": {"phase": p("Active")}});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": p("node")}, "status": {"conditions": [{"type": "Ready", "status": p("True")}]}});
    let plan = json!({"apiVersion": "lifecycle.mainstay.dev/v1alpha1", "kind": "ChangePlan", "metadata": {"name": p("plan"), "creationTimestamp": time},
        "spec": {"extension": {"name": p("beacon"), "uid": p("u")}, "digest": p("d"), "to": {"name": p("b"), "version": p("1")}, "summary": {}}});
    let resources = |names: &[(&str, &str, bool)]| {
        let one = |(name, kind, namespaced): &(&str, &str, bool)| json!({"name": name, "singularName": "", "kind": kind, "namespaced": namespaced, "verbs": ["get", "list", "watch", "create", "patch", "delete"]});
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": names.iter().map(one).collect::<Vec<_>>()})
    };
    let group = |name: &str, version: &str| {
        let version = json!({"groupVersion": format!("{name}/{version}"), "version": version});
        json!({"name": name, "versions": [version], "preferredVersion": version})
    };
    Json(match path {
        "/version" => json!({"major": p("1"), "minor": p("32"), "gitVersion": p("v1.32.0"), "gitCommit": p("c"), "gitTreeState": "clean", "buildDate": time,
            "goVersion": "go", "compiler": "gc", "platform": p("linux/amd64")}),
        "/api" => json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}),
        "/apis" => json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group("olm.operatorframework.io", "v1"), group("apps", "v1")]}),
        "/api/v1" => resources(&[("namespaces", "Namespace", false), ("secrets", "Secret", true), ("pods", "Pod", true), ("events", "Event", true)]),
        "/apis/apps/v1" => resources(&[("deployments", "Deployment", true)]),
        "/apis/olm.operatorframework.io/v1" => resources(&[("clusterextensions", "ClusterExtension", false), ("clustercatalogs", "ClusterCatalog", false)]),
        path if path.starts_with("/catalog/") => return blobs().into_response(),
        path if path.ends_with("/clusterextensions") => list("ClusterExtension", &[extension()]),
        path if path.contains("/clusterextensions/") => extension(),
        path if path.ends_with("/clustercatalogs") => list("ClusterCatalog", &[catalog(address)]),
        path if path.contains("/clustercatalogs/") => catalog(address),
        path if path.ends_with("/changeplans") => list("ChangePlan", &[plan]),
        path if path.contains("/changeplans/") => plan,
        path if path.ends_with("/events") => list("Event", &[event]),
        path if path.ends_with("/secrets") => list("Secret", &[secret]),
        path if path.ends_with("/namespaces") => list("Namespace", &[namespace]),
        path if path.contains("/namespaces/") && path.matches('/').count() == 4 => namespace,
        path if path.ends_with("/nodes") => list("Node", &[node]),
        path if path.ends_with("accessreviews") => json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {},
            "status": {"allowed": true, "reason": p("why"), "evaluationError": p("bad")}}),
        _ if last.ends_with('s') && !last.contains('.') => list("Object", &[]),
        _ => return status(StatusCode::NOT_FOUND),
    })
    .into_response()
}

/// A server in each mood.
fn serve(runtime: &Runtime, mood: Mood) -> SocketAddr {
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let handle = move |State(address): State<SocketAddr>, request: Request| async move { answer(request.uri().path(), mood, address) };
    let router = axum::Router::new().fallback(handle).with_state(address);
    runtime.spawn(async move { axum::serve(listener, router).await });
    address
}

fn hidden(letter: char) -> bool {
    let shown = matches!(letter, '\n' | '\t');
    !shown
        && (letter.is_control()
            || matches!(letter, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'))
}

/// The text without the colours that this program itself writes.
fn uncoloured(text: &str) -> String {
    let (mut bare, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        bare.push_str(before);
        let end = after.find(|letter: char| !letter.is_ascii_digit() && letter != ';').unwrap_or(after.len());
        if after[end..].starts_with('m') {
            rest = &after[end + 1..];
        } else {
            bare.push('\u{1b}');
            rest = after;
        }
    }
    bare + rest
}

/// The part of an answer that a terminal would obey, or would be taken for words of this program.
fn obeyed(line: &[&str], answer: &Run) -> Option<String> {
    for (stream, text) in [("stdout", &answer.stdout), ("stderr", &answer.stderr)] {
        let text = uncoloured(text);
        if let Some(letter) = text.chars().find(|letter| hidden(*letter)) {
            return Some(format!("{line:?}: {letter:?} on {stream}:\n{text:?}"));
        }
        // Whoever asks for a text as it is gets it with its lines.
        let raw = line.iter().any(|word| word.starts_with("jsonpath="));
        if !raw && text.lines().any(|line| line.starts_with("hint: run me") || line == "error: no") {
            return Some(format!("{line:?}: a line of others on {stream}:\n{text}"));
        }
    }
    None
}

fn kubeconfig(folder: &Path, address: SocketAddr) -> String {
    let place = folder.join(format!("config-{}", address.port()));
    let text = format!(
        "{{apiVersion: v1, kind: Config, current-context: c, contexts: [{{name: c, context: {{cluster: c, user: u}}}}], \
         clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}], users: [{{name: u, user: {{}}}}]}}"
    );
    std::fs::write(&place, text).unwrap();
    place.to_string_lossy().into_owned()
}

/// MS-CLI-06: whatever a cluster says, in objects, conditions, events, records, refusals and errors, no command lets a terminal obey it.
#[test]
fn nothing_of_a_cluster_is_obeyed() {
    let runtime = Runtime::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let manifest = folder.path().join("extension.json");
    std::fs::write(&manifest, extension().to_string()).unwrap();
    let manifest = manifest.to_string_lossy().into_owned();
    let mut said = 0;
    let mut found = Vec::new();
    for mood in [Mood::Full, Mood::Forbidden, Mood::Broken] {
        let config = kubeconfig(folder.path(), serve(&runtime, mood));
        let mut lines: Vec<Vec<&str>> = vec![
            vec!["version"],
            vec!["list"],
            vec!["list", "-o", "wide"],
            vec!["list", "beacon"],
            vec!["list", "-o", "name"],
            vec!["list", "-o", "jsonpath={.items[*].status.conditions[*].message}"],
            vec!["describe", "beacon"],
            vec!["history", "beacon"],
            vec!["history", "beacon", "-o", "wide"],
            vec!["explain", "beacon"],
            vec!["explain", "clustercatalog", "team"],
            vec!["explain", "package", "beacon"],
            vec!["approve"],
            vec!["approve", "plan", "--yes"],
            vec!["rollback", "beacon", "--dry-run"],
            vec!["uninstall", "beacon", "--dry-run"],
            vec!["plan", "install", "beacon"],
            vec!["plan", "upgrade", "beacon"],
            vec!["plan", "uninstall", "beacon"],
            vec!["plan", "rollback", "beacon"],
            vec!["plan", "-f", &manifest],
            vec!["install", "beacon", "--dry-run"],
            vec!["install", "beacon", "--yes", "--no-wait"],
            vec!["upgrade", "beacon", "--dry-run"],
            vec!["upgrade", "beacon", "--yes", "--no-wait"],
            vec!["rbac", "beacon"],
            vec!["rbac", "beacon", "--excess"],
            vec!["graph", "beacon"],
            vec!["wait", "beacon", "--timeout", "1s"],
            vec!["wait", "clustercatalog", "team", "--timeout", "1s"],
            vec!["catalog", "list"],
            vec!["catalog", "list", "-o", "wide"],
            vec!["catalog", "show", "team"],
            vec!["catalog", "search"],
            vec!["catalog", "search", "beacon", "--catalog", "team"],
            vec!["catalog", "remove", "team"],
            vec!["catalog", "add", "team", "--ref", "127.0.0.1:1/c:v1", "--no-wait"],
            vec!["deploy", "--uninstall", "--dry-run"],
            vec!["log-level"],
        ];
        let structured = ["list", "describe", "history", "explain", "approve", "version"].map(|verb| match verb {
            "describe" | "history" | "explain" => vec![verb, "beacon"],
            _ => vec![verb],
        });
        for format in ["json", "yaml"] {
            lines.extend(structured.iter().map(|line| [line.as_slice(), &["-o", format]].concat()));
        }
        // What fails on the server's side is asked again for a while, so that a few commands have to do.
        if mood == Mood::Broken {
            lines.retain(|line| matches!(line.first(), Some(&"list" | &"history")) || line.starts_with(&["catalog", "list"]));
        }
        let colours: &[&str] = if mood == Mood::Full { &["never", "always"] } else { &["always"] };
        for line in &lines {
            for colour in colours.iter().copied() {
                let answer = run(command().env("HOME", folder.path()).args(line).args(["--kubeconfig", &config, "--color", colour]));
                said += answer.stdout.len() + answer.stderr.len();
                found.extend(obeyed(line, &answer));
                assert!(answer.stdout.len() + answer.stderr.len() > 0 || line.contains(&"name"), "{mood:?} {line:?} says nothing");
            }
        }
        // JSON says what the cluster said.
        if mood == Mood::Full {
            let faithful = run(command().env("HOME", folder.path()).args(["list", "-o", "json", "--kubeconfig", &config])).stdout;
            let document: Value = serde_json::from_str(&faithful).unwrap();
            assert_eq!(document["items"][0]["status"]["conditions"][0]["message"], p("said"));
        }
    }
    assert!(found.is_empty(), "{} answers\n{}", found.len(), found.join("\n"));
    assert!(said > 20_000, "the commands said something: {said}");
}

/// MS-CLI-06: the same of what a registry answers.
#[test]
fn nothing_of_a_registry_is_obeyed() {
    let runtime = Runtime::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    for mood in [Mood::Full, Mood::Forbidden, Mood::Broken] {
        let address = serve(&runtime, mood);
        let (image, registry) = (format!("{address}/team/catalog:v1"), address.to_string());
        let out = folder.path().join("out").to_string_lossy().into_owned();
        let lines: Vec<Vec<&str>> = vec![
            vec!["resolve", "beacon", "--catalog", &image],
            vec!["graph", "beacon", "--catalog", &image],
            vec!["catalog", "search", "--catalog", &image],
            vec!["catalog", "lint", &image],
            vec!["catalog", "mirror", &image, "127.0.0.1:1/x"],
            vec!["catalog", "build", "examples/catalog", "--push", &image],
            vec!["bundle", "render", &image, "--install-namespace", "x"],
            vec!["bundle", "validate", &image],
            vec!["bundle", "build", "examples/bundles/beacon/1.0.0", "--push", &image],
            vec!["image", "extract", &image, "--path", "/:/nowhere"],
            vec!["opm", "render", &image],
            vec!["opm", "alpha", "list", "packages", &image],
            vec!["opm", "migrate", &image, &out],
            vec!["opm", "alpha", "bundle", "unpack", &image],
        ];
        // What fails on the registry's side is asked again for a while.
        let lines = if mood == Mood::Broken { &lines[..2] } else { &lines[..] };
        for line in lines {
            let answer = run(command().env("HOME", folder.path()).args(line));
            assert_ne!(answer.code, 0, "{mood:?} {line:?}\n{}", answer.stdout);
            assert_eq!(obeyed(line, &answer), None);
        }
        let mut login = command();
        login.env("HOME", folder.path()).args(["registry", "login", &registry, "--user", "dev", "--password-stdin"]);
        assert_eq!(obeyed(&["registry", "login"], &run(login.stdin(std::process::Stdio::null()))), None);
    }
}
