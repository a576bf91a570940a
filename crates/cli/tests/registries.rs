//! Registries as the surroundings of a user say: programs that keep passwords, proxies, short names.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use crate::common::{self, Run, command, run};
use axum::extract::Request;
use axum::middleware::Next;
use mainstay_oci::registry::{Access, Options, Registry};
use tokio::runtime::Runtime;

/// A registry, and the hosts it was asked as.
struct Server {
    registry: Registry,
    address: String,
    hosts: Arc<Mutex<Vec<String>>>,
    _runtime: Runtime,
}

fn server(access: Access) -> Server {
    let runtime = Runtime::new().unwrap();
    let registry = Registry::new(Options { access, ..Options::default() }).unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let hosts = Arc::new(Mutex::new(Vec::new()));
    let seen = hosts.clone();
    let router = registry.router().layer(axum::middleware::from_fn(move |request: Request, next: Next| {
        let host = request.uri().authority().map(ToString::to_string);
        seen.lock().unwrap().extend(host);
        next.run(request)
    }));
    runtime.spawn(async move { axum::serve(listener, router).await });
    Server { registry, address, hosts, _runtime: runtime }
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn build(home: &Path, target: &str, environment: &[(&str, &str)]) -> Run {
    let directory = common::workspace().join("examples/catalog");
    let mut command: Command = command();
    command.env("HOME", home).envs(environment.iter().copied());
    run(command.args(["catalog", "build", directory.to_str().unwrap(), "--push", target]))
}

/// OLM1-BUILD-11, OLM1-GEN-10: passwords that a credential helper keeps, for one registry or for all; a helper that fails is named, and what it
/// says about the password is not shown.
#[test]
fn programs_keep_passwords() {
    let server = server(Access::Token { user: "dev".to_owned(), password: "pa55word".to_owned() });
    let home = tempfile::tempdir().unwrap();
    let programs = home.path().join("bin");
    let helper = |name: &str, script: &str| {
        let path = programs.join(format!("docker-credential-{name}"));
        write(&path, &format!("#!/bin/sh\nread server\n{script}\n"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    helper("good", &format!("test \"$1 $server\" = 'get {}' && echo '{{\"Username\":\"dev\",\"Secret\":\"pa55word\"}}'", server.address));
    helper("empty", "echo 'credentials not found in native keychain'; exit 1");
    helper("broken", "echo 'the vault is locked'; exit 1");
    helper("strange", "echo pa55word");
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let target = format!("{}/team/catalog:v1", server.address);
    let attempt = |config: &str| {
        write(&home.path().join(".docker/config.json"), config);
        build(home.path(), &target, &[("PATH", &path)])
    };
    let host = &server.address;
    for config in [format!("{{\"credHelpers\": {{\"{host}\": \"good\"}}}}"), "{\"credsStore\": \"good\"}".to_owned()] {
        let outcome = attempt(&config);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    }
    assert_eq!(server.registry.repositories(), ["team/catalog"]);
    for (helper, words) in [
        ("empty", "answered 401"),
        ("broken", "credential helper docker-credential-broken: failed for registry"),
        ("strange", "credential helper docker-credential-strange: gave an answer that is no JSON credential"),
        ("absent", "there is no such program on the PATH"),
        ("../../bin/sh", "is no plain name of a program"),
    ] {
        let outcome = attempt(&format!("{{\"credsStore\": \"{helper}\"}}"));
        assert_eq!(outcome.code, 1);
        assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
        assert!(!outcome.stderr.contains("pa55word"), "{}", outcome.stderr);
    }
}

/// Registries behind a proxy, which loopback hosts are never asked through.
#[test]
fn proxies_are_used() {
    let server = server(Access::Open);
    let home = tempfile::tempdir().unwrap();
    write(&home.path().join(".config/containers/registries.conf"), "[[registry]]\nlocation = 'registry.invalid'\ninsecure = true\n");
    let proxy = format!("http://{}", server.address);
    let outcome = build(home.path(), "registry.invalid/team/catalog:v1", &[("HTTP_PROXY", &proxy), ("http_proxy", &proxy)]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(server.hosts.lock().unwrap().iter().all(|host| host.starts_with("registry.invalid")));
    assert_eq!(server.registry.repositories(), ["team/catalog"]);
    let nowhere = [("HTTP_PROXY", "http://127.0.0.1:1"), ("HTTPS_PROXY", "http://127.0.0.1:1")];
    let outcome = build(home.path(), &format!("{}/team/other:v1", server.address), &nowhere);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
}

/// OLM1-GEN-12: a name without a registry means what registries.conf says, and is never guessed.
#[test]
fn short_names_are_resolved() {
    let server = server(Access::Open);
    let home = tempfile::tempdir().unwrap();
    let conf = home.path().join(".config/containers/registries.conf");
    write(&conf, &format!("unqualified-search-registries = ['{}']\n", server.address));
    let outcome = build(home.path(), "team/catalog:v1", &[]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stdout.starts_with(&format!("{}/team/catalog@sha256:", server.address)), "{}", outcome.stdout);
    write(&conf, "unqualified-search-registries = ['a.example', 'b.example']\n");
    let outcome = build(home.path(), "team/catalog:v1", &[]);
    assert_eq!(outcome.code, 1);
    assert!(outcome.stderr.contains("could mean any of a.example/team/catalog:v1, b.example/team/catalog:v1"), "{}", outcome.stderr);
}

/// MS-CLI-05: bundles that make no catalog are not pushed; those that do are, and the catalog names what was pushed.
#[test]
fn what_makes_no_catalog_is_not_pushed() {
    let server = server(Access::Open);
    let scratch = tempfile::tempdir().unwrap();
    let (bundles, out) = (scratch.path().join("bundles"), scratch.path().join("out"));
    let examples = common::workspace().join("examples/bundles/beacon");
    for version in ["1.0.0", "1.2.0"] {
        for part in ["manifests", "metadata"] {
            for entry in std::fs::read_dir(examples.join(version).join(part)).unwrap().map(Result::unwrap) {
                write(&bundles.join(version).join(part).join(entry.file_name()), &std::fs::read_to_string(entry.path()).unwrap());
            }
        }
    }
    let registry = format!("{}/team", server.address);
    let make = |more: &[&str]| {
        let mut command: Command = command();
        command.env("HOME", scratch.path()).args(["catalog", "from-bundles", bundles.to_str().unwrap(), "--registry", &registry]);
        run(command.arg("--out").arg(&out).args(more))
    };
    let refused = make(&[]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("multiple channel heads found in graph"), "{}", refused.stderr);
    assert_eq!(server.registry.repositories(), [""; 0]);
    assert!(!out.exists());
    let made = make(&["--mode", "semver"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    assert_eq!(server.registry.repositories(), ["team/beacon-bundle"]);
    let catalog = std::fs::read_to_string(out.join("beacon/catalog.yaml")).unwrap();
    assert!(catalog.matches(&format!("{registry}/beacon-bundle@sha256:")).count() >= 2, "{catalog}");
    assert!(!catalog.contains("beacon-bundle:v"), "{catalog}");
}

/// C9: a password is shown to the registry before it is kept, in a file that only its user reads and that counts from then on; logging out
/// takes it away.
#[test]
fn log_in_and_out() {
    use std::io::Write as _;
    for access in [
        Access::Token { user: "dev".to_owned(), password: "pa55word".to_owned() },
        Access::Basic { user: "dev".to_owned(), password: "pa55word".to_owned() },
    ] {
        let server = server(access);
        let home = tempfile::tempdir().unwrap();
        let login = |password: &str| {
            let mut command: Command = command();
            command.env("HOME", home.path()).args(["registry", "login", &server.address, "--user", "dev", "--password-stdin"]);
            let mut child = command
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            child.stdin.take().unwrap().write_all(password.as_bytes()).unwrap();
            child.wait_with_output().unwrap()
        };
        let file = home.path().join(".docker/config.json");
        let wrong = login("wrong\n");
        assert_eq!(wrong.status.code(), Some(1), "{wrong:?}");
        assert!(!file.exists());
        let right = login("pa55word\n");
        assert!(right.status.success(), "{right:?}");
        assert!(!String::from_utf8_lossy(&right.stdout).contains("pa55word"));
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let target = format!("{}/team/catalog:v1", server.address);
        assert_eq!(build(home.path(), &target, &[]).code, 0);
        let out = |code: i32| {
            let outcome = run(command().env("HOME", home.path()).args(["registry", "logout", &server.address]));
            assert_eq!(outcome.code, code, "{}", outcome.stderr);
        };
        out(0);
        out(3);
        assert_eq!(build(home.path(), &target, &[]).code, 1);
    }
}

/// B8: files of an image, as a folder, as one file, and all; what is there is not replaced unasked.
#[test]
fn images_are_extracted() {
    let server = server(Access::Open);
    let home = tempfile::tempdir().unwrap();
    let target = format!("{}/team/catalog:v1", server.address);
    assert_eq!(build(home.path(), &target, &[]).code, 0);
    let extract = |arguments: &[&str], code: i32| {
        let mut command: Command = command();
        command.env("HOME", home.path()).current_dir(home.path()).args(["image", "extract", &target]).args(arguments);
        let outcome = run(&mut command);
        assert_eq!(outcome.code, code, "{arguments:?} {}", outcome.stderr);
        outcome
    };
    let files = |folder: &str| std::fs::read_dir(home.path().join(folder)).unwrap().count();
    extract(&["--path", "/configs:out"], 0);
    let count = files("out");
    assert!(count > 0);
    let again = extract(&["--path", "configs/:out"], 1);
    assert!(again.stderr.contains("is there already") && again.stderr.contains("--force"), "{}", again.stderr);
    extract(&["--path", "/configs:out", "--force"], 0);
    assert_eq!(files("out"), count);
    extract(&["--path", "/:all"], 0);
    assert!(home.path().join("all/configs").is_dir());
    extract(&["--path", "/nothing:out"], 3);
    extract(&["--path", "/../etc:out"], 2);
    assert_eq!(files("out"), count);
}

/// KAPI-SRV-09: a cache with many folders side by side is closed to others with a few open files.
#[test]
fn many_folders_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let images = folder.path().join("images");
    for number in 0..300 {
        let one = images.join(format!("d{number}"));
        std::fs::create_dir_all(&one).unwrap();
        std::fs::write(one.join("f"), "").unwrap();
        std::fs::set_permissions(one.join("f"), std::fs::Permissions::from_mode(0o644)).unwrap();
    }
    std::fs::set_permissions(&images, std::fs::Permissions::from_mode(0o755)).unwrap();
    let script = "ulimit -n 100 && exec \"$0\" resolve beacon --catalog 127.0.0.1:1/none:v1";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_mainstay")]).env("HOME", folder.path()).env("MAINSTAY_CACHE_DIR", folder.path());
    let outcome = run(&mut shell);
    assert!(outcome.stderr.contains("now its owner alone can"), "{}", outcome.stderr);
    for number in 0..300 {
        let mode = std::fs::metadata(images.join(format!("d{number}/f"))).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{number}");
    }
}
