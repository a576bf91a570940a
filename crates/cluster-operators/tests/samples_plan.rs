//! The work of the samples operator, played to its end on objects in memory (COP-13).

use jiff::Timestamp;
use mainstay_api::cluster_operator;
use mainstay_cluster_operators::samples::{FINALIZER, MANAGED, NAMES, Snapshot, Step, VERSION, plan};
use serde_json::{Value, json};

/// A cluster with the objects that the operator sees.
struct World {
    version: String,
    config: Option<Value>,
    streams: Vec<Value>,
    operator: Value,
    now: Timestamp,
    /// The states of Progressing that were written, in their order.
    progressing: Vec<String>,
}

fn is(object: &Value, kind: &str) -> String {
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.iter().find(|each| each["type"] == kind).map_or_else(String::new, |each| each["status"].as_str().unwrap().to_owned())
}

fn message(object: &Value, kind: &str) -> String {
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.iter().find(|each| each["type"] == kind).map_or_else(String::new, |each| each["message"].as_str().unwrap_or_default().to_owned())
}

impl World {
    fn new(version: &str) -> Self {
        let operator = cluster_operator::object("openshift-samples");
        let (config, streams) = (None, Vec::new());
        Self { version: version.to_owned(), config, streams, operator, now: Timestamp::UNIX_EPOCH, progressing: Vec::new() }
    }

    /// Goes on until nothing is left to do.
    fn settle(&mut self) -> &mut Self {
        for _ in 0..20 {
            let expected = json!({"status": {"versions": [{"name": "operator", "version": self.version}]}});
            let found = plan(&Snapshot {
                expected: &expected,
                live: &self.operator,
                config: self.config.as_ref(),
                streams: &self.streams,
                has_credentials: false,
                now: self.now,
            });
            let before = (self.operator.clone(), self.config.clone(), self.streams.clone());
            if let (Some(config), Some(status)) = (&mut self.config, &found.status) {
                config["status"] = status.clone();
            }
            for step in &found.steps {
                self.carry_out(step);
            }
            let told = found.told;
            assert!(told.is_played, "COP-G-10");
            let mut status = cluster_operator::status_of_release(&self.operator, &told.report, told.versions.as_deref(), self.now);
            for (kind, reason, message) in &told.words {
                cluster_operator::say(&mut status, kind, reason, message);
            }
            self.operator["status"] = status;
            let state = is(&self.operator, "Progressing");
            if self.progressing.last() != Some(&state) {
                self.progressing.push(state);
            }
            if before == (self.operator.clone(), self.config.clone(), self.streams.clone()) {
                return self;
            }
        }
        panic!("it does not settle: {:?} {:?}", self.config, self.streams);
    }

    fn carry_out(&mut self, step: &Step) {
        match step {
            Step::Create(object) | Step::Replace(object) if object["kind"] == "Config" => self.config = Some(object.clone()),
            Step::Create(object) => self.streams.push(object.clone()),
            Step::Replace(object) => *self.stream(object["metadata"]["name"].as_str().unwrap()) = object.clone(),
            Step::Delete(object) => self.streams.retain(|stream| stream["metadata"]["name"] != object["metadata"]["name"]),
            Step::Release => self.config = None,
        }
    }

    fn stream(&mut self, name: &str) -> &mut Value {
        self.streams.iter_mut().find(|stream| stream["metadata"]["name"] == name).unwrap()
    }

    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.streams.iter().map(|stream| stream["metadata"]["name"].as_str().unwrap()).collect();
        names.sort_unstable();
        names
    }

    fn set(&mut self, field: &str, value: Value) -> &mut Self {
        self.config.as_mut().unwrap()["spec"][field] = value;
        self
    }

    fn condition(&self, kind: &str) -> String {
        is(self.config.as_ref().unwrap(), kind)
    }
}

/// COP-13: the configuration is made with its finalizer, three samples with the version of the release follow, and each condition is there by name.
#[test]
fn an_installation() {
    let mut world = World::new("4.18.9");
    world.settle();
    assert_eq!(world.names(), NAMES);
    let config = world.config.clone().unwrap();
    assert_eq!(config["metadata"]["finalizers"], json!([FINALIZER]));
    assert_eq!((&config["spec"]["managementState"], &config["status"]["version"]), (&json!("Managed"), &json!("4.18.9")));
    assert_eq!(config["status"]["architectures"], json!(["x86_64"]));
    for (kind, state) in [
        ("SamplesExist", "True"),
        ("ImportCredentialsExist", "False"),
        ("ConfigurationValid", "True"),
        ("ImageChangesInProgress", "False"),
        ("ImportImageErrorsExist", "False"),
        ("RemovePending", "False"),
        ("MigrationInProgress", "False"),
    ] {
        assert_eq!(world.condition(kind), state, "{kind}");
    }
    assert!(message(&config, "ImportImageErrorsExist").contains("images are not imported"));
    for name in NAMES {
        let metadata = world.stream(name)["metadata"].clone();
        assert_eq!((&metadata["labels"][MANAGED], &metadata["annotations"][VERSION]), (&json!("true"), &json!("4.18.9")));
        assert_eq!(metadata["annotations"]["mainstay.dev/simulated"], "true");
    }
    assert_eq!(world.operator["status"]["versions"], json!([{"name": "operator", "version": "4.18.9"}]));
    assert_eq!(world.progressing, ["True", "False"], "CVO-CO-04");
    assert!(message(&world.operator, "Available").starts_with("simulated: no operand is running"));
}

/// COP-13: a user's changes stay until the version annotation changes or is removed; a deleted sample returns; objects of others are ignored.
#[test]
fn changes_of_users() {
    let mut world = World::new("4.18.9");
    let other = json!({"kind": "ImageStream", "metadata": {"name": "own", "namespace": "openshift"}, "spec": {"tags": []}});
    world.streams.push(other.clone());
    world.settle();
    let edit = |world: &mut World| world.stream("sample-hello")["spec"]["tags"] = json!([{"name": "mine"}]);
    edit(&mut world);
    world.stream("sample-hello")["metadata"]["labels"]["team"] = "red".into();
    world.settle();
    assert_eq!(world.stream("sample-hello")["spec"]["tags"][0]["name"], "mine");
    world.stream("sample-hello")["metadata"]["annotations"].as_object_mut().unwrap().remove(VERSION);
    world.settle();
    let renewed = world.stream("sample-hello").clone();
    assert_eq!((&renewed["spec"]["tags"][0]["name"], &renewed["metadata"]["labels"]["team"]), (&json!("4.18"), &json!("red")));
    world.streams.retain(|stream| stream["metadata"]["name"] != "sample-batch");
    world.settle();
    assert_eq!(world.names(), ["own", "sample-batch", "sample-hello", "sample-widgets"]);
    assert_eq!(world.progressing, ["True", "False"], "a mere reconcile is no progress");

    edit(&mut world);
    world.version = "4.19.0".to_owned();
    world.settle();
    assert_eq!(world.stream("sample-hello")["spec"]["tags"][0]["name"], "4.19");
    assert_eq!(world.stream("sample-widgets")["metadata"]["annotations"][VERSION], "4.19.0");
    assert_eq!(world.operator["status"]["versions"][0]["version"], "4.19.0");
    assert_eq!(world.progressing, ["True", "False", "True", "False"]);
    assert_eq!(*world.stream("own"), other);
}

/// COP-13: a skipped sample loses the label and is left alone; it returns when it is skipped no longer. A new registry replaces the samples that are not
/// skipped.
#[test]
fn skipped_and_moved() {
    let mut world = World::new("4.18.9");
    world.settle().set("skippedImagestreams", json!(["sample-hello", "unknown"])).settle();
    assert_eq!(world.stream("sample-hello")["metadata"]["labels"][MANAGED], "false");
    world.stream("sample-hello")["spec"]["tags"] = json!([]);
    world.version = "4.19.0".to_owned();
    world.settle();
    assert_eq!(world.stream("sample-hello")["metadata"]["annotations"][VERSION], "4.18.9");
    assert_eq!(world.operator["status"]["versions"][0]["version"], "4.19.0", "a skipped sample holds nothing back");
    world.set("samplesRegistry", json!("mirror.example:5000")).settle();
    let from = |stream: &Value| stream["spec"]["tags"][0]["from"]["name"].as_str().unwrap_or_default().to_owned();
    assert_eq!(from(world.stream("sample-batch")), "mirror.example:5000/mainstay-samples/sample-batch:4.19");
    assert_eq!(world.stream("sample-hello")["spec"]["tags"], json!([]));
    assert_eq!(world.config.as_ref().unwrap()["status"]["samplesRegistry"], "mirror.example:5000");
    world.set("skippedImagestreams", json!([])).settle();
    let back = world.stream("sample-hello").clone();
    assert_eq!(
        (from(&back).as_str(), &back["metadata"]["labels"][MANAGED]),
        ("mirror.example:5000/mainstay-samples/sample-hello:4.19", &json!("true"))
    );
}

/// COP-13: Unmanaged touches nothing, Removed removes what is managed, and both are available and at the version of the release.
#[test]
fn management_states() {
    let mut world = World::new("4.18.9");
    world.settle().set("managementState", json!("Unmanaged"));
    world.streams.retain(|stream| stream["metadata"]["name"] != "sample-batch");
    world.version = "4.19.0".to_owned();
    world.settle();
    assert_eq!(world.names(), ["sample-hello", "sample-widgets"]);
    assert_eq!(world.stream("sample-hello")["metadata"]["annotations"][VERSION], "4.18.9");
    assert_eq!(world.operator["status"]["versions"][0]["version"], "4.19.0");
    world.stream("sample-hello")["metadata"]["labels"][MANAGED] = "false".into();
    world.set("managementState", json!("Removed")).settle();
    assert_eq!(world.names(), ["sample-hello"]);
    assert_eq!((is(&world.operator, "Available"), is(&world.operator, "Progressing")), ("True".to_owned(), "False".to_owned()));
    assert!(message(&world.operator, "Available").ends_with("the samples operator is Removed at 4.19.0"));
    assert_eq!((world.condition("SamplesExist"), world.condition("RemovePending")), ("False".to_owned(), "False".to_owned()));
    world.set("managementState", json!("Managed")).settle();
    assert_eq!(world.names(), NAMES);
}

/// COP-13, COP-TRB-04: a deleted configuration takes the managed samples with it, and comes back as it was first made.
#[test]
fn deletion() {
    let mut world = World::new("4.18.9");
    world.settle().set("skippedImagestreams", json!(["sample-hello"])).settle();
    world.config.as_mut().unwrap()["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    world.stream("sample-hello")["spec"] = json!({"tags": []});
    world.settle();
    assert_eq!(world.names(), NAMES);
    let config = world.config.clone().unwrap();
    assert_eq!((config["spec"].get("skippedImagestreams"), &config["metadata"]["finalizers"]), (None, &json!([FINALIZER])));
    assert_eq!(world.progressing, ["True", "False", "True", "False"]);
    assert_eq!(world.stream("sample-hello")["spec"]["tags"], json!([]), "it was the user's");
    // A finalizer that a user has removed returns.
    world.config.as_mut().unwrap()["metadata"]["finalizers"] = json!(["other"]);
    world.settle();
    assert_eq!(world.config.as_ref().unwrap()["metadata"]["finalizers"], json!(["other", FINALIZER]));
}

/// COP-13: an invalid configuration changes nothing, is said in the condition and in the ClusterOperator, and may be mended.
#[test]
fn invalid_configurations() {
    let mut world = World::new("4.18.9");
    world.settle();
    for (architectures, words) in [
        (json!(["x86_64", "z80"]), "architecture z80 unsupported; only support x86_64,amd64,arm64,ppc64le,s390x"),
        (json!(["s390x"]), "cannot change architectures from x86_64 to s390x"),
    ] {
        world.streams.retain(|stream| stream["metadata"]["name"] != "sample-batch");
        world.set("architectures", architectures).settle();
        assert_eq!(world.condition("ConfigurationValid"), "False");
        assert_eq!(message(world.config.as_ref().unwrap(), "ConfigurationValid"), words);
        assert_eq!((is(&world.operator, "Degraded").as_str(), is(&world.operator, "Available").as_str()), ("True", "True"));
        assert_eq!(message(&world.operator, "Degraded"), format!("Samples installation in error at 4.18.9: {words}"));
        assert_eq!(world.names().len(), 2, "nothing is written");
        world.set("architectures", json!(["x86_64"])).settle();
        assert_eq!((world.condition("ConfigurationValid").as_str(), world.names().len()), ("True", 3));
    }
    assert_eq!(is(&world.operator, "Degraded"), "False");
}
