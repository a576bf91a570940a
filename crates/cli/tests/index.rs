//! `opm index`, `opm registry` and `opm migrate`, called through a link named `opm`, with a registry in this process.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{Run, run};
use mainstay_oci::registry::Registry;
use mainstay_oci::{BlobStore, Client, ClientConfig, ImageBuilder, Reference};
use mainstay_sqlite_index::IndexDatabase;
use tokio::runtime::Runtime;

const DATABASE_LABEL: &str = "operators.operatorframework.io.index.database.v1";
const CATALOG_LABEL: &str = "operators.operatorframework.io.index.configs.v1";

/// A registry with bundles of the examples, and a folder with a link named `opm`.
struct World {
    folder: tempfile::TempDir,
    host: String,
    client: Client,
    runtime: Runtime,
}

impl World {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let host = listener.local_addr().unwrap().to_string();
        runtime.spawn(Registry::in_memory().serve(listener, std::future::pending()));
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_mainstay"), folder.path().join("opm")).unwrap();
        let world = Self { folder, host, client: Client::new(ClientConfig::default()).unwrap(), runtime };
        for (version, replaces) in [("1.0.0", None), ("1.1.0", Some("1.0.0")), ("2.0.0", Some("1.1.0"))] {
            world.push_bundle("spool", version, replaces);
        }
        world.push_bundle("other", "1.0.0", None);
        world
    }

    fn reference(&self, rest: &str) -> String {
        format!("{}/{rest}", self.host)
    }

    fn push(&self, rest: &str, builder: &ImageBuilder) {
        let folder = tempfile::tempdir().unwrap();
        let store = BlobStore::open(folder.path()).unwrap();
        let image = builder.build(&store).unwrap();
        let target = Reference::parse(&self.reference(rest)).unwrap();
        self.runtime.block_on(self.client.push(&image, &store, &target)).unwrap();
    }

    fn push_bundle(&self, package: &str, version: &str, replaces: Option<&str>) {
        let replaces = replaces.map(|version| format!("  replaces: {package}.v{version}\n")).unwrap_or_default();
        let csv = format!(
            "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata:\n  name: {package}.v{version}\nspec:\n  \
             version: {version}\n{replaces}  install:\n    strategy: deployment\n    spec:\n      deployments: []\n"
        );
        let prefix = "operators.operatorframework.io.bundle";
        let annotations = format!(
            "annotations:\n  {prefix}.package.v1: {package}\n  {prefix}.channels.v1: stable\n  {prefix}.channel.default.v1: stable\n"
        );
        let builder = ImageBuilder::new()
            .label(format!("{prefix}.package.v1"), package)
            .file("manifests/csv.yaml", csv.into_bytes())
            .file("metadata/annotations.yaml", annotations.into_bytes());
        self.push(&format!("{package}:v{version}"), &builder);
    }

    fn bundles(&self, names: &[&str]) -> String {
        names.iter().map(|name| self.reference(name)).collect::<Vec<_>>().join(",")
    }

    /// Runs the link, with no engine on the machine.
    fn opm(&self, words: &[&str]) -> Run {
        let mut command = Command::new(self.folder.path().join("opm"));
        run(command.env_clear().env("PATH", "").current_dir(self.folder.path()).args(words))
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }
}

#[track_caller]
fn done(run: &Run) {
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(run.stdout, "");
}

fn edges(database: &Path) -> Vec<(String, Option<String>)> {
    let catalog = IndexDatabase::open(database).and_then(|database| database.to_catalog()).unwrap();
    let entries = catalog.channels.iter().flat_map(|channel| &channel.entries);
    entries.map(|entry| (entry.name.to_string(), entry.replaces.as_ref().map(ToString::to_string))).collect()
}

/// CATLG-46, CATLG-53, CATLG-60: add, remove and prune; the notice; 2 and 3 for what is there already.
#[test]
fn registry_commands() {
    let world = World::new();
    let all = world.bundles(&["spool:v1.0.0", "spool:v1.1.0", "other:v1.0.0"]);
    let added = world.opm(&["registry", "add", "-d", "x.db", "-b", &all]);
    done(&added);
    assert!(
        added.stderr.contains("DEPRECATION NOTICE:\nSqlite-based catalogs and their related subcommands are deprecated."),
        "{}",
        added.stderr
    );
    let spool = ("spool.v1.1.0".to_owned(), Some("spool.v1.0.0".to_owned()));
    assert!(edges(&world.path("x.db")).contains(&spool));
    let before = std::fs::read(world.path("x.db")).unwrap();

    let again = world.opm(&["registry", "add", "-d", "x.db", "--bundle-images", &world.bundles(&["spool:v1.1.0"])]);
    assert_eq!(again.code, 2, "{}", again.stderr);
    assert!(again.stderr.contains("already exists, Bundle already added that provides package and csv]"), "{}", again.stderr);
    world.push_bundle_as("elsewhere:v1", "spool", "1.1.0");
    let other_image = world.opm(&["registry", "add", "-d", "x.db", "-b", &world.bundles(&["elsewhere:v1"])]);
    assert_eq!(other_image.code, 3, "{}", other_image.stderr);
    let missing = world.opm(&["registry", "add", "-d", "x.db", "-b", &world.bundles(&["nowhere:v1"])]);
    assert_eq!(missing.code, 1, "{}", missing.stderr);
    let mode = world.opm(&["registry", "add", "-d", "x.db", "-b", "", "--mode", "sideways"]);
    assert_eq!((mode.code, mode.stderr.contains("Error: Invalid channel update mode sideways specified")), (1, true));
    assert_eq!(std::fs::read(world.path("x.db")).unwrap(), before, "what fails changes nothing");

    done(&world.opm(&["registry", "prune", "-d", "x.db", "-p", "spool"]));
    assert_eq!(IndexDatabase::open(world.path("x.db")).unwrap().packages().unwrap(), ["spool"]);
    done(&world.opm(&["registry", "rm", "-d", "x.db", "-o", "spool"]));
    done(&world.opm(&["registry", "prune-stranded", "--database=x.db"]));
    assert!(IndexDatabase::open(world.path("x.db")).unwrap().packages().unwrap().is_empty());
    let gone = world.opm(&["registry", "rm", "-d", "x.db", "-o", "spool"]);
    assert_eq!((gone.code, gone.stderr.contains("no package found for packagename spool")), (1, true), "{}", gone.stderr);
}

impl World {
    /// The same bundle under another reference.
    fn push_bundle_as(&self, rest: &str, package: &str, version: &str) {
        let from = Reference::parse(&self.reference(&format!("{package}:v{version}"))).unwrap();
        let to = Reference::parse(&self.reference(rest)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let store = BlobStore::open(folder.path()).unwrap();
        self.runtime.block_on(async {
            let image = self.client.pull(&from, &store).await.unwrap();
            self.client.push(&image, &store, &to).await.unwrap();
        });
    }
}

/// CATLG-54, CATLG-62: `--generate` leaves Dockerfile and database, and pulls what it begins with.
#[test]
fn generate() {
    let world = World::new();
    done(&world.opm(&["index", "add", "--generate", "--bundles", &world.bundles(&["spool:v1.0.0"])]));
    assert_eq!(
        std::fs::read_to_string(world.path("index.Dockerfile")).unwrap(),
        "FROM quay.io/operator-framework/opm:latest\nLABEL operators.operatorframework.io.index.database.v1=/database/index.db\n\
         ADD database/index.db /database/index.db\nEXPOSE 50051\nENTRYPOINT [\"/bin/opm\"]\n\
         CMD [\"registry\", \"serve\", \"--database\", \"/database/index.db\"]\n"
    );
    assert_eq!(edges(&world.path("database/index.db")), [("spool.v1.0.0".to_owned(), None)]);
    let before = std::fs::read(world.path("database/index.db")).unwrap();
    let failed = world.opm(&["index", "add", "--generate", "-b", &world.bundles(&["nowhere:v1"])]);
    assert_eq!(failed.code, 1, "{}", failed.stderr);
    assert_eq!(std::fs::read(world.path("database/index.db")).unwrap(), before, "what fails changes nothing");
    assert_eq!(std::fs::read_dir(world.path("database")).unwrap().count(), 1);
    // An empty list is a list.
    done(&world.opm(&["index", "add", "--generate", "-b", "", "-d", "my.Dockerfile", "-i", "base:1"]));
    assert!(std::fs::read_to_string(world.path("my.Dockerfile")).unwrap().starts_with("FROM base:1\n"));
    let unsaid = world.opm(&["index", "add", "--generate"]);
    assert_eq!((unsaid.code, unsaid.stderr.contains("required flag(s) \"bundles\" not set")), (1, true), "{}", unsaid.stderr);
    for (words, problem) in [
        (&["index", "add", "-b", "", "-u", "none"][..], "none is not a valid container-tool for index add"),
        (&["index", "add", "-b", "", "-c", "docker", "-p", "podman"], "container-tool cannot be set alongside pull-tool or build-tool"),
        (&["index", "prune", "-f", "x", "-p", "y", "-c", "none"], "none is not a valid container-tool for index prune"),
        (&["index", "add", "-b", ""], "podman is not on this machine, and the reference names no registry to push to"),
    ] {
        let refused = world.opm(words);
        assert_eq!((refused.code, refused.stderr.contains(problem)), (1, true), "{words:?}: {}", refused.stderr);
    }
}

/// CATLG-03, CATLG-52, CATLG-55, CATLG-57, CATLG-58, CATLG-61, CATLG-62: without an engine images are built here, on a base; the next one begins with them.
#[test]
fn images() {
    let world = World::new();
    world.push("base:1", &ImageBuilder::new().file("bin/opm", b"program".to_vec()).variable("A", "b"));
    let (first, second, small) = (world.reference("index:v1"), world.reference("index:v2"), world.reference("small:v1"));
    let base = world.reference("base:1");
    let both = world.bundles(&["spool:v1.0.0", "spool:v1.1.0", "other:v1.0.0"]);
    done(&world.opm(&["index", "add", "-b", &both, "-i", &base, "-t", &first]));
    let next = world.bundles(&["spool:v2.0.0"]);
    done(&world.opm(&["index", "add", "--from-index", &first, "-b", &next, "--binary-image", &base, "--tag", &second, "-p", "none"]));
    done(&world.opm(&["index", "prune", "-f", &second, "-p", "spool", "-i", &base, "-t", &small]));
    let left: Vec<String> =
        std::fs::read_dir(world.folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(left, ["opm"], "nothing stays behind");

    let folder = tempfile::tempdir().unwrap();
    let store = BlobStore::open(folder.path()).unwrap();
    let image = world.runtime.block_on(world.client.pull(&Reference::parse(&small).unwrap(), &store)).unwrap();
    assert_eq!(image.config.config.labels.get(DATABASE_LABEL).map(String::as_str), Some("/database/index.db"));
    assert_eq!(image.manifest.layers.len(), 2, "the base's layer and the database's");

    done(&world.opm(&["migrate", &small, "out"]));
    let text = std::fs::read_to_string(world.path("out/spool/catalog.json")).unwrap();
    assert!(text.contains("\"replaces\": \"spool.v1.1.0\"") && !world.path("out/other").exists(), "{text}");
    let full = world.opm(&["migrate", &small, "out"]);
    assert_eq!((full.code, full.stderr.contains("output dir \"out\" must be empty")), (1, true), "{}", full.stderr);
    done(&world.opm(&["index", "export", "-i", &small, "-f", "exported"]));
    assert!(world.path("exported/spool/2.0.0/csv.yaml").is_file());
    let package = std::fs::read_to_string(world.path("exported/spool/package.yaml")).unwrap();
    assert_eq!(package, "packageName: spool\nchannels:\n- name: stable\n  currentCSV: spool.v2.0.0\ndefaultChannel: stable\n");
}

/// CATLG-59, OLM0-HUB-10: images of file-based catalogs are refused with upstream's words, other images by the label that is missing.
#[test]
fn other_images_are_refused() {
    let world = World::new();
    world.push("fbc:v1", &ImageBuilder::new().label(CATALOG_LABEL, "/configs").file("configs/c.yaml", b"".to_vec()));
    let refused = world.opm(&["index", "prune", "-f", &world.reference("fbc:v1"), "-p", "x", "--generate"]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("Error: `opm index prune` only supports sqlite-based catalogs. See "), "{}", refused.stderr);
    let bundle = world.opm(&["index", "rm", "-f", &world.reference("spool:v1.0.0"), "-o", "x", "--generate"]);
    assert!(bundle.stderr.contains(&format!("missing label {DATABASE_LABEL}")), "{}", bundle.stderr);
}

/// CATLG-62: a label that leads out of the image gets nobody's files into an index.
#[test]
fn labels_lead_nowhere_else() {
    let world = World::new();
    done(&world.opm(&["registry", "add", "-d", "private.db", "-b", &world.bundles(&["spool:v1.0.0"])]));
    let way_out = format!("/{}{}", "../".repeat(20), world.path("private.db").display());
    world.push("evil:v1", &ImageBuilder::new().label(DATABASE_LABEL, &way_out).file("x", b"x".to_vec()));
    let refused = world.opm(&["index", "prune", "-f", &world.reference("evil:v1"), "-p", "spool", "--generate"]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(!world.path("database/index.db").exists());
}

/// CATLG-60: deprecating keeps the bundle out of the catalog and removes what is below it; the head of the default channel stays.
#[test]
fn deprecate() {
    let world = World::new();
    let all = world.bundles(&["spool:v1.0.0", "spool:v1.1.0", "spool:v2.0.0"]);
    done(&world.opm(&["registry", "add", "-d", "index.db", "-b", &all]));
    done(&world.opm(&["registry", "deprecatetruncate", "-b", &world.bundles(&["spool:v1.1.0"])]));
    assert_eq!(edges(&world.path("index.db")), [("spool.v2.0.0".to_owned(), Some("spool.v1.1.0".to_owned()))]);
    let head = world.bundles(&["spool:v2.0.0"]);
    let refused = world.opm(&["registry", "deprecatetruncate", "-b", &head]);
    assert_eq!((refused.code, refused.stderr.contains("Bundle deprecation causing default channel removal")), (1, true));
    done(&world.opm(&["registry", "deprecatetruncate", "-b", &head, "--allow-package-removal"]));
    assert!(edges(&world.path("index.db")).is_empty());
}

/// CATLG-56, CATLG-60: a database is served until SIGTERM, with the log line that scripts wait for; a database that is not there ends it.
#[test]
fn serve() {
    let world = World::new();
    done(&world.opm(&["registry", "add", "-d", "x.db", "-b", &world.bundles(&["spool:v1.0.0"])]));
    let log = world.path("termination.log").to_string_lossy().into_owned();
    let words = ["registry", "serve", "-d", "x.db", "-p", "0", "-t", &log, "--skip-migrate"];
    let mut command = Command::new(world.path("opm"));
    let mut child = command.env_clear().current_dir(world.folder.path()).args(words).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.find(|line| line.contains("msg=\"serving registry\"")).expect("the line");
    let port = line.split(' ').find_map(|field| field.strip_prefix("port=")).unwrap();
    assert!(line.contains("database=x.db") && port != "0", "{line}");
    TcpStream::connect(("127.0.0.1", port.parse::<u16>().unwrap())).unwrap();
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    assert!(lines.any(|line| line.contains("shutting down server")));
    assert!(child.wait().unwrap().success());

    let missing = world.opm(&["registry", "serve", "-d", "nowhere.db", "-t", &log]);
    assert_eq!((missing.code, missing.stderr.contains("nowhere.db")), (1, true), "{}", missing.stderr);
    assert!(std::fs::read_to_string(&log).unwrap().contains("nowhere.db"));
}
