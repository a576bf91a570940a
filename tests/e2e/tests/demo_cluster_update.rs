//! `mainstay demo cluster-update`, as an administrator walks through it (CVO-SIM-06): the updates there are, one that is done, one that is broken and
//! repaired, one that is rehearsed.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mainstay_e2e::{Output, eventually, kubectl, mainstay, need_embedded, need_kubectl, run, terminate};
use serde_json::Value;
use tempfile::TempDir;

/// Time for an update of the sample releases on a loaded machine.
const LONG: Duration = Duration::from_secs(180);

/// The running demo.
struct Demo {
    folder: TempDir,
    process: Child,
    /// The registry's repository of releases.
    releases: String,
}

impl Demo {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(mainstay());
        command.args(["demo", "cluster-update", "--accelerate", "40", "--folder"]).arg(folder.path());
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let ready = lines.map(Result::unwrap).find(|line| line.starts_with("mainstay: cluster-update ready ")).expect("it is ready");
        let first = ready.split(' ').find_map(|word| word.strip_prefix("first=")).unwrap();
        let releases = first.split('@').next().unwrap().to_owned();
        Self { folder, process, releases }
    }

    fn run(&self, program: &Path, arguments: &[&str]) -> Output {
        run(Command::new(program).args(arguments).env("KUBECONFIG", self.folder.path().join("cluster/kubeconfig")), "")
    }

    fn mainstay(&self, arguments: &[&str]) -> Output {
        self.run(mainstay(), arguments)
    }

    /// Waits for a state of the ClusterVersion.
    fn until(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        eventually(what, LONG, || {
            let told = self.run(&kubectl().unwrap(), &["get", "clusterversion", "version", "-o", "json"]);
            let object: Value = serde_json::from_str(&told.stdout).map_err(|error| format!("{error}: {told}"))?;
            if wanted(&object) { Ok(object) } else { Err(object["status"].to_string()) }
        })
    }

    fn until_at(&self, version: &str) {
        self.until(version, |object| {
            let newest = &object["status"]["history"][0];
            newest["version"] == version && newest["state"] == "Completed"
        });
    }

    /// Plans an update, and applies the plan: neither when it was edited, nor when the cluster is otherwise, but as it was.
    fn by_a_saved_plan(&self, version: &str) {
        let file = self.folder.path().join("update.plan");
        let file = file.to_str().unwrap();
        let plan = ["plan", "cluster-update", "--to", version, "--out", file];
        let apply = ["apply-plan", file, "--yes"];
        self.mainstay(&plan).ok();
        let text = std::fs::read_to_string(file).unwrap();
        std::fs::write(file, text.replace("4.18.2", "4.18.3")).unwrap();
        assert!(self.mainstay(&apply).exits(4).contains("its digest does not fit"));
        std::fs::write(file, text).unwrap();

        let kubectl = kubectl().unwrap();
        // The job that the release creates stands there already.
        let (job, namespace) = ("widgets-migration-4-18-2", "sample-widgets");
        self.run(&kubectl, &["create", "job", job, "-n", namespace, "--image", "registry.example/other"]).ok();
        let moved = self.mainstay(&apply).exits(4);
        assert!(moved.contains("the cluster changed since the plan was saved; nothing was done"), "{moved}");
        assert!(moved.contains(&format!("job {namespace}/{job}: the effect on it is otherwise")), "{moved}");
        self.run(&kubectl, &["delete", "job", job, "-n", namespace, "--wait=false"]).ok();

        let applied = eventually("the cluster is as it was", LONG, || {
            let told = self.mainstay(&apply);
            if told.code == Some(0) { Ok(told.stdout) } else { Err(told.to_string()) }
        });
        assert!(applied.contains(&format!("Requested update to {version}")), "{applied}");
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        terminate(&mut self.process);
    }
}

fn accepted(object: &Value) -> &str {
    let conditions = object["status"]["conditions"].as_array().unwrap();
    let accepted = conditions.iter().find(|condition| condition["type"] == "ReleaseAccepted").unwrap_or(&Value::Null);
    accepted["reason"].as_str().unwrap_or_default()
}

/// CVO-SIM-06, CVO-SIM-03, CVO-CLI-01, CVO-CLI-03, CVO-CLI-07, CVO-RISK-06, MS-PLAN-01, MS-PLAN-02: an administrator sees the updates and those with a risk,
/// plans one and does it by the saved plan, which is refused while the cluster is otherwise, asks for a release that does not exist and withdraws it, and rehearses one whose risk metrics decide.
#[test]
fn an_administrators_walk() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let demo = Demo::start();
    demo.until_at("4.18.1");
    demo.until("both updates are known", |object| {
        object["status"]["availableUpdates"][0]["version"] == "4.18.2"
            && object["status"]["conditionalUpdates"][0]["release"]["version"] == "4.18.3"
    });
    let summary = demo.mainstay(&["adm", "upgrade", "--include-not-recommended"]).ok();
    assert!(["Cluster version is 4.18.1", "4.18.2", "4.18.3", "SlowWidgetRestarts"].iter().all(|text| summary.contains(text)), "{summary}");

    let plan = demo.mainstay(&["plan", "cluster-update", "--to", "4.18.2"]).ok();
    assert!(plan.starts_with("Update from 4.18.1 to 4.18.2\n") && plan.contains("configmap"), "{plan}");
    let unknown = demo.mainstay(&["plan", "cluster-update", "--to", "4.18.9"]).exits(3);
    assert!(unknown.contains("release 4.18.9: is not known to the cluster"), "{unknown}");
    demo.by_a_saved_plan("4.18.2");
    demo.until_at("4.18.2");

    let broken = format!("{}@sha256:{}", demo.releases, "0".repeat(64));
    let request = ["adm", "upgrade", "--to-image", &broken, "--allow-explicit-upgrade"];
    demo.mainstay(&request).ok();
    let refused = demo.until("a release that does not exist is refused", |object| accepted(object) == "RetrievePayload");
    assert_eq!(refused["status"]["desired"]["version"], "4.18.2");
    demo.mainstay(&["adm", "upgrade", "--clear"]).ok();
    let repaired = demo.until("the request is withdrawn", |object| accepted(object) == "PayloadLoaded");
    assert_eq!(
        (&repaired["status"]["history"][0]["version"], repaired["status"]["history"].as_array().unwrap().len()),
        (&"4.18.2".into(), 2)
    );

    demo.until("the next minor version is known", |object| {
        object["status"]["conditionalUpdates"].as_array().into_iter().flatten().any(|update| update["release"]["version"] == "4.19.0")
    });
    let answers = demo.folder.path().join("answers.txt");
    let rehearse = |value: &str| {
        std::fs::write(&answers, format!("sample_widgets_legacy_storage {value}\n")).unwrap();
        let answers = answers.to_str().unwrap();
        demo.mainstay(&["rehearse", "--live", "--cluster-update", "4.19.0", "--metrics", answers, "-o", "json"])
    };
    let risks = |told: Output| -> Vec<String> {
        let document: Value = serde_json::from_str(&told.stdout).unwrap_or_else(|error| panic!("{error}: {told}"));
        assert_eq!((&document["kind"], &document["readiness"]["notRun"]), (&"Rehearsal".into(), &Value::Array(Vec::new())));
        assert!(document["assumptions"].as_array().is_some_and(|all| !all.is_empty()));
        let findings = document["readiness"]["findings"].as_array().unwrap().iter();
        findings.filter(|found| found["check"] == "conditional-risks").map(|found| found["evidence"].to_string()).collect()
    };
    let exposed = risks(rehearse("3"));
    assert!(exposed.len() == 1 && exposed[0].contains("Recommended=False LegacyWidgetStorage"), "{exposed:?}");
    assert_eq!(risks(rehearse("0")), Vec::<String>::new());
}
