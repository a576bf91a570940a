//! opm by its own name: a script of its users, its command line, its files.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{self, Run, run, workspace};
use mainstay_oci::registry::Registry;
use snapbox::{assert_data_eq, str};
use tokio::runtime::Runtime;

/// A folder to work in, with a link named `opm` on the path.
struct Desk {
    folder: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("bin")).unwrap();
        symlink(env!("CARGO_BIN_EXE_mainstay"), folder.path().join("bin/opm")).unwrap();
        Self { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let path = format!("{}:{}", self.path().join("bin").display(), std::env::var("PATH").unwrap());
        command.env_clear().env("PATH", path).env("EXAMPLES", workspace().join("examples")).current_dir(self.path());
        command
    }

    fn opm(&self, args: &[&str]) -> Run {
        run(self.command(self.path().join("bin/opm").to_str().unwrap()).args(args).stdin(Stdio::null()))
    }

    fn script(&self, text: &str) -> Run {
        run(self.command("sh").args(["-e", "-c", text]))
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }
}

/// CATLG-27, CATLG-28, CATLG-30, CATLG-31, CATLG-32, CATLG-33, OLM1-BUILD-01, OLM1-BUILD-04, OLM1-BUILD-06, MS-CLI-01: the walk of a
/// catalog's author, by the link named opm; what is rendered renders to itself, from JSON and from YAML.
#[test]
fn a_script_of_opm() {
    let desk = Desk::new();
    let done = desk.script(
        r#"
        mkdir catalog
        opm generate dockerfile catalog -l vendor=team
        printf 'Shines.\n' > README.md
        opm init beacon --default-channel stable -d README.md --output yaml > catalog/index.yaml
        for version in 1.0.0 1.1.0; do
            opm render "$EXAMPLES/bundles/beacon/$version" -o yaml --alpha-image-ref-template 'quay.io/team/{{.Package}}:v{{.Version}}' >> catalog/index.yaml
        done
        cat >> catalog/index.yaml <<CHANNEL
---
schema: olm.channel
package: beacon
name: stable
entries:
- name: beacon.v1.0.0
- name: beacon.v1.1.0
  replaces: beacon.v1.0.0
CHANNEL
        opm validate catalog
        opm render catalog -o json > once.json
        mkdir again && cp once.json again/ && opm render again > twice.json
        cmp once.json twice.json
        opm render catalog -o yaml > once.yaml
        mkdir yaml && cp once.yaml yaml/ && opm render yaml -o json | cmp - once.json
        opm alpha list bundles catalog beacon
        opm version
    "#,
    );
    assert_eq!((done.code, done.stderr.as_str()), (0, ""));
    let (table, version) = done.stdout.split_once("Version: ").unwrap();
    assert_data_eq!(
        table,
        str![[r"
PACKAGE  CHANNEL  BUNDLE         REPLACES       SKIPS  SKIP RANGE  IMAGE
beacon   stable   beacon.v1.0.0                                    quay.io/team/beacon:v1.0.0
beacon   stable   beacon.v1.1.0  beacon.v1.0.0                     quay.io/team/beacon:v1.1.0

"]]
    );
    assert!(version.starts_with("version.Version{OpmVersion:\"v"), "{version}");
    assert_data_eq!(
        std::fs::read_to_string(desk.path().join("catalog.Dockerfile")).unwrap(),
        str![[r#"
# The builder image is expected to contain
# /bin/opm (with serve subcommand)
FROM quay.io/operator-framework/opm:latest as builder

# Copy FBC root into image at /configs and pre-populate serve cache
ADD catalog /configs
RUN ["/bin/opm", "serve", "/configs", "--cache-dir=/tmp/cache", "--cache-only"]

FROM quay.io/operator-framework/opm:latest
# The base image is expected to contain
# /bin/opm (with serve subcommand) and /bin/grpc_health_probe

# Configure the entrypoint and command
ENTRYPOINT ["/bin/opm"]
CMD ["serve", "/configs", "--cache-dir=/tmp/cache"]

COPY --from=builder /configs /configs
COPY --from=builder /tmp/cache /tmp/cache

# Set FBC-specific label for the location of the FBC root directory
# in the image
LABEL operators.operatorframework.io.index.configs.v1=/configs

# Set other custom labels
LABEL "vendor"="team"

"#]]
    );
}

/// CATLG-30, OLM1-BUILD-01: what a Dockerfile is not generated for, and for a base without programs.
#[test]
fn dockerfiles() {
    let desk = Desk::new();
    desk.write("c/index.yaml", "");
    desk.write("file", "");
    for (args, expected) in [
        (&["generate", "dockerfile", "nothing"][..], "Error: stat nothing: no such file or directory\n"),
        (&["generate", "dockerfile", "file"], "Error: provided root path \"file\" is not a directory\n"),
        (&["generate", "dockerfile", "c", "-b", "scratch"], "Error: invalid builder image: \"scratch\"\n"),
        (&["generate", "dockerfile", "c", "-l", "x"], "Error: invalid label \"x\"\n"),
        (
            &["generate", "dockerfile", "c", "--binary-image", "a", "-i", "b"],
            "Flag --binary-image has been deprecated, use --base-image instead\nError: if any flags in the group [binary-image base-image] \
             are set none of the others can be; [base-image binary-image] were all set\n",
        ),
    ] {
        let refused = desk.opm(args);
        assert_eq!(refused.code, 1, "{args:?}");
        assert!(refused.stderr.starts_with(expected), "{args:?}: {}", refused.stderr);
    }
    assert_eq!(desk.opm(&["alpha", "generate", "dockerfile", "./c/", "--base-image=scratch", "-l", "a=1,a=2"]).code, 0);
    let text = std::fs::read_to_string(desk.path().join("c.Dockerfile")).unwrap();
    assert!(text.contains("\nFROM scratch\n# OLMv0 CatalogSources that use binary-less images must set:\n"), "{text}");
    assert!(!text.contains("ENTRYPOINT") && text.ends_with("LABEL \"a\"=\"2\"\n"), "{text}");
    let twice = desk.opm(&["generate", "dockerfile", "c"]);
    assert!(twice.stderr.starts_with("Error: path \"c.Dockerfile\": file already exists\nhint:"), "{}", twice.stderr);
    let old = desk.opm(&["generate", "dockerfile", "c/../c", "--binary-image", "old"]);
    assert!(old.stderr.starts_with("Flag --binary-image has been deprecated"), "{}", old.stderr);
}

/// CATLG-46, MS-CLI-01, OLM1-BUILD-02, OLM1-QUERY-05: wrong words get upstream's answer, with exit code 1.
#[test]
fn wrong_words() {
    let desk = Desk::new();
    for (args, expected) in [
        (&["bogus"][..], "unknown command \"bogus\" for \"opm\""),
        (&["alpha", "bogus"], "unknown command \"bogus\" for \"opm alpha\""),
        (&["init"], "accepts 1 arg(s), received 0"),
        (&["render"], "requires at least 1 arg(s), only received 0"),
        (&["render", "--bogus"], "unknown flag: --bogus"),
        (&["init", "x", "-o"], "flag needs an argument: 'o' in -o"),
        (&["alpha", "list", "channels"], "accepts between 1 and 2 arg(s), received 0"),
        (&["alpha", "convert-template", "basic", "a", "b"], "accepts at most 1 arg(s), received 2"),
        (&["alpha", "render-template", "a", "b", "c"], "accepts between 0 and 2 arg(s), received 3"),
        (&["render", "x", "-o", "xml"], "invalid --output value \"xml\", expected (json|yaml)"),
        (&["render", "x", "--migrate-level", "y"], "unknown migration level \"y\""),
        (
            &["render", "x", "--use-http", "--skip-tls-verify"],
            "invalid flag combination: --use-http and --skip-tls-verify cannot both be true",
        ),
        (&["render", "nosuch"], "render reference \"nosuch\": failed to pull image \"nosuch\": repository name must be canonical"),
        (&["render", "Dockerfile"], "render reference \"Dockerfile\": ref \"Dockerfile\" has unsupported file type: {{  } unknown}"),
        (&["init", "x", "-i", "Dockerfile"], "detected invalid type \"\": not an image"),
        (&["init", "x", "-i", "no.png"], "open icon file: open no.png: no such file or directory"),
        (&["alpha", "render-template", "a", "Dockerfile"], "invalid template type \"a\", must be one of: [basic semver substitutes]"),
        (&["alpha", "render-template", "Dockerfile", "-o", "xml"], "invalid --output value \"xml\", expected (json|yaml|mermaid)"),
        (&["alpha", "list", "packages", "bundle"], "cannot list non-index \"bundle\""),
    ] {
        desk.write("Dockerfile", "FROM scratch\n");
        desk.write("bundle/manifests/x", "");
        desk.write("bundle/metadata/x", "");
        let refused = desk.opm(args);
        assert_eq!((refused.code, refused.stdout.as_str()), (1, ""), "{args:?}");
        assert_eq!(refused.stderr.lines().next().unwrap_or_default(), format!("Error: {expected}"), "{args:?}");
    }
    for args in [&[][..], &["alpha"], &["--debug"]] {
        let nothing = desk.opm(args);
        assert_eq!((nothing.code, nothing.stdout.as_str(), nothing.stderr.as_str()), (0, "", ""), "{args:?}");
    }
    let notice = desk.opm(&["--skip-tls", "init", "x"]);
    assert_eq!(notice.stderr, "Flag --skip-tls has been deprecated, use --use-http and --skip-tls-verify instead\n");
    assert_eq!(notice.stdout, "{\n    \"schema\": \"olm.package\",\n    \"name\": \"x\",\n    \"defaultChannel\": \"\"\n}\n");
}

/// CATLG-46: alpha commands and flags are hidden unless asked for; help goes to stdout, and groups show theirs.
#[test]
fn help() {
    let desk = Desk::new();
    let plain = desk.opm(&["--help"]);
    assert!(plain.code == 0 && plain.stdout.contains("\n  render ") && !plain.stdout.contains("\n  alpha "), "{}", plain.stdout);
    let opm = desk.path().join("bin/opm");
    let shown = run(desk.command(opm.to_str().unwrap()).env("HELP_ALPHA", "true").arg("--help"));
    assert!(shown.stdout.contains("\n  alpha "), "{}", shown.stdout);
    let hidden = desk.opm(&["render", "-h"]).stdout;
    assert!(hidden.contains("Usage:\n  opm render [catalog-image") && !hidden.contains("--alpha-image-ref-template"), "{hidden}");
    let flag = run(desk.command(opm.to_str().unwrap()).env("HELP_ALPHA", "true").args(["help", "render"])).stdout;
    assert!(flag.contains("--alpha-image-ref-template string"), "{flag}");
    for group in [&["generate"][..], &["alpha", "list", "bogus"], &["alpha", "convert-template"], &["completion"]] {
        let text = desk.opm(group);
        assert!(text.code == 0 && text.stdout.contains("\nAvailable Commands:\n"), "{group:?}: {}", text.stdout);
    }
    let script = desk.opm(&["completion", "bash"]);
    assert!(script.code == 0 && script.stdout.contains("_opm"), "{}", script.stderr);
}

/// CATLG-04, OLM1-FBC-01: a text editor is all it takes to promote a bundle, to move the default channel, to add and to take back an edge;
/// what the edit breaks, validation says.
#[test]
fn edits_by_text() {
    let desk = Desk::new();
    let catalog = std::fs::read_to_string(workspace().join("examples/catalog/lantern/catalog.yaml")).unwrap();
    let edited = |from: &str, to: &str| {
        assert!(catalog.contains(from), "{from}");
        desk.write("catalog/catalog.yaml", &catalog.replacen(from, to, 1));
        desk.opm(&["validate", "catalog"])
    };
    for (from, to) in [
        (
            "---\ndefaultChannel:",
            "---\n{schema: olm.channel, package: lantern, name: promoted, entries: [{name: lantern.v1.1.0}]}\n---\ndefaultChannel:",
        ),
        ("  replaces: lantern.v1.0.0\n", "  replaces: lantern.v1.0.0\n  skipRange: '>=0.9.0 <1.1.0'\n"),
    ] {
        let run = edited(from, to);
        assert_eq!(run.code, 0, "{to}: {}", run.stderr);
    }
    let moved = edited("defaultChannel: ", "defaultChannel: un");
    assert_eq!(moved.code, 1);
    assert!(moved.stderr.contains("channel must contain at least one bundle"), "{}", moved.stderr);
    let cut = edited("  replaces: lantern.v1.0.0\n", "");
    assert_eq!(cut.code, 1);
    assert!(cut.stderr.contains("multiple channel heads found in graph"), "{}", cut.stderr);
}

/// CATLG-05, CATLG-08, CATLG-09, OLM1-FBC-03, OLM1-FBC-04: catalogs side by side are a catalog; ignored files are none of it.
#[test]
fn composition() {
    let desk = Desk::new();
    let examples = workspace().join("examples/catalog");
    let done = desk.script(&format!(
        r"
        mkdir all && cp -r {0}/beacon {0}/lantern all/
        mkdir -p all/lantern/objects && echo 'not: [yaml' > all/lantern/objects/notes.json && echo text > all/README
        printf '# only catalogs\n**/*\n!*.json\n!*.yaml\n**/objects/*.json\n' > all/.indexignore
        opm validate all
        opm alpha list packages all
    ",
        examples.display()
    ));
    assert_eq!((done.code, done.stderr.as_str()), (0, ""));
    assert_data_eq!(done.stdout, "NAME     DISPLAY NAME  DEFAULT CHANNEL\nbeacon                 stable\nlantern                v1\n");
    let twice = desk.script("cp -r all/beacon all/again && opm validate all");
    assert_eq!(twice.code, 1);
    assert!(twice.stderr.contains("duplicate package \"beacon\""), "{}", twice.stderr);
}

/// MS-CLI-06: whoever stops reading early gets no complaint.
#[test]
fn broken_pipe() {
    let desk = Desk::new();
    let examples = workspace().join("examples/catalog");
    let mut child = desk.command(desk.path().join("bin/opm").to_str().unwrap());
    let mut child = child.arg("render").arg(&examples).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    let mut stdout = BufReader::with_capacity(16, child.stdout.take().unwrap());
    stdout.read_line(&mut first).unwrap();
    drop(stdout);
    let mut complaint = String::new();
    child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
    child.wait().unwrap();
    assert_eq!((first.as_str(), complaint.as_str()), ("{\n", ""));
}

/// CATLG-01, CATLG-32, CATLG-34, CATLG-47, CATLG-50, CATLG-51, CATLG-64, CATLG-65, OLM1-BUILD-03: bundle and catalog images of a registry, and templates over them.
#[test]
fn images_and_templates() {
    let runtime = Runtime::new().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let host = listener.local_addr().unwrap().to_string();
    runtime.spawn(Registry::in_memory().serve(listener, std::future::pending()));
    let desk = Desk::new();
    symlink(env!("CARGO_BIN_EXE_mainstay"), desk.path().join("bin/mainstay")).unwrap();
    let done = desk.script(&format!(
        r#"
        for version in 1.0.0 1.1.0; do
            mainstay bundle build "$EXAMPLES/bundles/beacon/$version" --push {host}/team/beacon:v$version 2> /dev/null > pushed
        done
        cat > semver.yaml <<TEMPLATE
schema: olm.semver
generateMajorChannels: true
stable:
  bundles:
  - image: {host}/team/beacon:v1.0.0
  - image: {host}/team/beacon:v1.1.0
TEMPLATE
        mkdir catalog
        opm alpha render-template semver.yaml -o yaml --migrate-level=bundle-object-to-csv-metadata > catalog/catalog.yaml
        opm validate catalog
        opm alpha list bundles catalog
        opm alpha render-template semver semver.yaml -o mermaid > drawing
        opm alpha convert-template basic catalog/catalog.yaml -o yaml > basic.yaml
        opm alpha render-template basic --migrate-level bundle-object-to-csv-metadata -o yaml < basic.yaml | cmp - catalog/catalog.yaml
        mainstay catalog build catalog --push {host}/team/catalog:v1 2> /dev/null > pushed
        opm render {host}/team/catalog:v1 -o yaml | cmp - catalog/catalog.yaml
        opm render {host}/team/beacon:v1.0.0 --migrate -o yaml > bundle.yaml
        grep -c olm.csv.metadata bundle.yaml
    "#
    ));
    assert_eq!((done.code, done.stderr.as_str()), (0, ""));
    let expected = format!(
        "\
PACKAGE  CHANNEL    BUNDLE         REPLACES       SKIPS  SKIP RANGE  IMAGE
beacon   stable-v1  beacon.v1.0.0                                    {host}/team/beacon:v1.0.0
beacon   stable-v1  beacon.v1.1.0  beacon.v1.0.0                     {host}/team/beacon:v1.1.0
1
"
    );
    assert_eq!(done.stdout, expected);
    let missing = desk.opm(&["render", &format!("{host}/team/none:v1")]);
    assert_eq!(missing.code, 1);
    let begins = format!("Error: render reference \"{host}/team/none:v1\": failed to pull image \"{host}/team/none:v1\": ");
    assert!(missing.stderr.starts_with(&begins), "{}", missing.stderr);
}

/// CATLG-28: an icon may be a drawing, which is told by its content whatever the file is called.
#[test]
fn an_icon_that_is_svg() {
    let folder = tempfile::tempdir().unwrap();
    let icon = folder.path().join("icon");
    std::fs::write(&icon, "<?xml version=\"1.0\"?>\n<!-- drawn -->\n<svg viewBox=\"0 0 8 8\"><circle r=\"3\"/></svg>\n").unwrap();
    let run = common::mainstay(["opm", "init", "beacon", "-i", icon.to_str().unwrap()]);
    let package: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((run.code, &package["icon"]["mediatype"]), (0, &serde_json::json!("image/svg+xml")), "{}", run.stderr);
}
