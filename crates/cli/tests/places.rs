//! Places of catalogs and bundles: every command that takes one takes it wherever it lies, and says the same of it.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::io::Write as _;
use std::path::Path;

use crate::common::{Run, command, run};
use tokio::runtime::Runtime;

const CATALOG: &str = "examples/catalog";
const BUNDLE: &str = "examples/bundles/beacon/1.0.0";

struct World {
    folder: tempfile::TempDir,
    registry: String,
    _runtime: Runtime,
}

impl World {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let registry = listener.local_addr().unwrap().to_string();
        runtime.spawn(mainstay_oci::registry::Registry::in_memory().serve(listener, std::future::pending()));
        Self { folder: tempfile::tempdir().unwrap(), registry, _runtime: runtime }
    }

    fn at(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn run(&self, words: &[&str]) -> Run {
        run(command().env("HOME", self.folder.path()).args(words))
    }

    fn ok(&self, words: &[&str]) -> String {
        let outcome = self.run(words);
        assert_eq!(outcome.code, 0, "{words:?}\n{}\n{}", outcome.stdout, outcome.stderr);
        outcome.stdout
    }

    /// The example's catalog at each kind of place.
    fn catalogs(&self) -> Vec<String> {
        let (json, yaml) = (self.ok(&["opm", "render", CATALOG]), self.ok(&["opm", "render", CATALOG, "-o", "yaml"]));
        let write = |name: &str, bytes: &[u8]| {
            std::fs::write(self.at(name), bytes).unwrap();
            self.at(name)
        };
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(json.as_bytes()).unwrap();
        let mut places = vec![
            CATALOG.to_owned(),
            write("a.json", json.as_bytes()),
            write("b.yaml", yaml.as_bytes()),
            write("c.json.gz", &packed.finish().unwrap()),
            write("d.json.zst", &zstd::bulk::compress(json.as_bytes(), 3).unwrap()),
        ];
        let image = format!("{}/team/catalog:v1", self.registry);
        let (layout, archive, docker) = (self.at("layout"), self.at("oci.tar"), self.at("docker.tar"));
        self.ok(&["catalog", "build", CATALOG, "--push", &image]);
        self.ok(&["catalog", "build", CATALOG, "--layout", &layout]);
        self.ok(&["catalog", "build", CATALOG, "--archive", &archive]);
        self.ok(&["catalog", "build", CATALOG, "--docker-archive", &format!("{docker}:team/catalog:v1"), "--format", "docker"]);
        places.extend([image, layout, archive, docker.clone(), format!("{docker}:team/catalog:v1")]);
        places
    }
}

/// A command for a place.
fn words<'a>(line: &'a [&'a str], place: &'a str) -> Vec<&'a str> {
    line.iter().map(|word| if *word == "{}" { place } else { word }).collect()
}

/// Commands over a catalog; whether their answer names the place.
const OVER_CATALOGS: &[(&[&str], bool)] = &[
    (&["resolve", "beacon", "--catalog", "{}"], true),
    (&["resolve", "beacon", "--catalog", "{}", "-o", "json"], true),
    (&["graph", "beacon", "--catalog", "{}"], false),
    (&["graph", "beacon", "--catalog", "{}", "-o", "json"], false),
    (&["catalog", "search", "beacon", "--catalog", "{}"], true),
    (&["catalog", "query", "{}", "--schema", "olm.package"], false),
    (&["catalog", "query", "{}", "--package", "beacon", "-o", "json"], false),
    (&["catalog", "diff", "{}", CATALOG, "-o", "json"], false),
    (&["catalog", "diff", CATALOG, "{}", "-o", "json"], false),
    (&["catalog", "lint", "{}"], true),
    (&["catalog", "filter", "{}", "--package", "beacon", "-o", "json"], false),
    (&["catalog", "why", "beacon", "1.0.0", "--catalog", "{}", "-o", "json"], false),
    (&["catalog", "ci", "{}", CATALOG], true),
    (&["catalog", "ci", CATALOG, "{}"], true),
];

const OVER_BUNDLES: &[&[&str]] = &[
    &["bundle", "render", "{}", "--install-namespace", "beacon"],
    &["bundle", "validate", "{}", "-o", "json"],
    &["bundle", "images", "{}"],
    &["bundle", "diff", "{}", BUNDLE],
    &["bundle", "diff", BUNDLE, "{}"],
    &["rbac", "beacon", "--bundle", "{}"],
];

/// MS-CLI-05: a catalog is taken from a directory, a file, packed or not, an image, a layout and an archive, by every command that takes one.
#[test]
fn catalogs_lie_anywhere() {
    let world = World::new();
    let places = world.catalogs();
    for (line, names_the_place) in OVER_CATALOGS {
        let expected = world.run(&words(line, CATALOG));
        assert_eq!(expected.code, 0, "{line:?}\n{}\n{}", expected.stdout, expected.stderr);
        for place in &places {
            let found = world.run(&words(line, place));
            assert_eq!(found.code, 0, "{line:?} of {place}\n{}\n{}", found.stdout, found.stderr);
            if *names_the_place {
                assert!(!found.stdout.is_empty(), "{line:?} of {place}");
            } else {
                assert_eq!(found.stdout, expected.stdout, "{line:?} of {place}");
            }
        }
    }
    for (number, place) in places.iter().enumerate() {
        let (config, out) = (world.at(&format!("{number}.yaml")), world.at(&format!("out-{number}")));
        std::fs::write(&config, format!("name: all\nrepo: {}/team/all\nreferences:\n- {{name: one, image: {place:?}}}\n", world.registry))
            .unwrap();
        world.ok(&["catalog", "compose", &config, "--out", &out]);
    }
}

/// MS-CLI-05: the same of bundles.
#[test]
fn bundles_lie_anywhere() {
    let world = World::new();
    let (image, layout) = (format!("{}/team/beacon:v1", world.registry), world.at("layout"));
    world.ok(&["bundle", "build", BUNDLE, "--push", &image]);
    world.ok(&["bundle", "build", BUNDLE, "--layout", &layout]);
    for line in OVER_BUNDLES {
        let expected = world.ok(&words(line, BUNDLE));
        for place in [&image, &layout] {
            let found = world.ok(&words(line, place));
            // An image is one of those that the bundle needs.
            if !line.contains(&"images") && !line.contains(&"diff") {
                assert_eq!(found, expected, "{line:?} of {place}");
            }
        }
    }
}

/// MS-CLI-06: a path that is missing is told as a missing path, by every command, whether it looks like one or lies beside what is there.
#[test]
fn a_missing_path_is_a_missing_path() {
    let world = World::new();
    let inside = world.at("nothing");
    let lines = OVER_CATALOGS.iter().map(|(line, _)| *line).chain(OVER_BUNDLES.iter().copied());
    for line in lines {
        for place in ["./nothing", "nothing.json", "nothing.tar", "examples/nothing", "../nothing", "~nothing", &inside, "nothing"] {
            let found = world.run(&words(line, place));
            let search = line.contains(&"search") && place == "nothing";
            let said = if search { "there is no file or directory nothing either" } else { "no such file or directory" };
            assert!(found.code != 0 && found.stderr.contains(said), "{line:?} of {place}: {}\n{}", found.code, found.stderr);
            assert!(search || !found.stderr.contains("cluster"), "{line:?} of {place}\n{}", found.stderr);
        }
    }
}

/// MS-CLI-06: a mirror is of an image; what is none is told.
#[test]
fn a_mirror_is_of_an_image() {
    let world = World::new();
    let mirrored = |source: &str| world.run(&["catalog", "mirror", source, "127.0.0.1:1/x", "--dry-run"]);
    for (source, said) in
        [(CATALOG, "is no image"), ("./nothing", "no such file or directory"), ("examples/nothing", "no such file or directory")]
    {
        let found = mirrored(source);
        assert!(found.code == 1 && found.stderr.contains(said), "{source}\n{}", found.stderr);
    }
}

/// MS-CLI-06: what a command cannot take is refused by its kind.
#[test]
fn a_bundle_is_no_catalog() {
    let world = World::new();
    for (line, _) in OVER_CATALOGS {
        let found = world.run(&words(line, BUNDLE));
        assert_eq!(found.code, 1, "{line:?}\n{}\n{}", found.stdout, found.stderr);
        assert!(found.stderr.contains("bundle"), "{line:?}\n{}", found.stderr);
    }
    for line in OVER_BUNDLES {
        let found = world.run(&words(line, CATALOG));
        assert_eq!(found.code, 1, "{line:?}\n{}\n{}", found.stdout, found.stderr);
        let file = Path::new("Cargo.toml").to_str().unwrap();
        let found = world.run(&words(line, file));
        assert!(found.code == 1 && found.stderr.contains("is neither a directory nor an image"), "{line:?}\n{}", found.stderr);
    }
}
