//! The pod that copies the content of a release image to the operator's node (CVO-RET-02 to CVO-RET-05).
//!
//! ```text
//!   cleanup ── make-temporary-directory ── move-operator-manifests ── move-release-manifests ── rename-to-final-location
//!   FOLDER/*   FOLDER/HASH-RANDOM          .../manifests              .../release-manifests     FOLDER/HASH
//! ```
//!
//! The containers need nothing but `sh`, `rm`, `mkdir` and `mv` of the release image.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mainstay_golang::quote;
use mainstay_objects::ObjectRef;
use md5::{Digest as _, Md5};
use serde_json::{Value, json};

/// The folder on the node that the operator and its pods share.
pub const FOLDER: &str = "/etc/cvo/updatepayloads";
/// The label that every retrieval pod carries.
pub const LABEL: (&str, &str) = ("k8s-app", "retrieve-openshift-release");
/// The beginning of the names of pods, and of the Jobs that releases up to 4.14 made.
const PREFIX: &str = "version-";
/// The longest part of a pod's name that is made from a version.
const VERSION: usize = 200;
/// The time in which a pod must end, in seconds.
const ACTIVE: u32 = 120;
const NODE_LABEL: &str = "node-role.kubernetes.io/master";
/// The folders of a release image.
const FOLDERS: [&str; 2] = ["manifests", "release-manifests"];

/// A release to retrieve.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The version; empty if only the image is known.
    pub version: &'a str,
    /// The pullspec.
    pub image: &'a str,
    /// The namespace of the operator.
    pub namespace: &'a str,
    /// The operator's node.
    pub node: &'a str,
    /// The shared folder, without a slash at its end.
    pub folder: &'a str,
    /// Two random numbers: for the name of the pod and for that of its temporary folder.
    pub random: [u64; 2],
}

/// The name of the folder of an image's content, below the shared folder (CVO-RET-04).
pub fn folder_name(image: &str) -> String {
    URL_SAFE_NO_PAD.encode(Md5::digest(image.as_bytes()))
}

/// The pod (CVO-RET-03).
pub fn pod(request: &Request<'_>) -> Value {
    let Request { version, image, namespace, node, folder, random } = *request;
    let target = format!("{folder}/{}", folder_name(image));
    let temporary = format!("{target}-{}", suffix(random[1]));
    let container = |name: &str, command: &[&str]| {
        json!({
            "name": name, "image": image, "command": command,
            "volumeMounts": [{"mountPath": folder, "name": "payloads"}],
            // The folder belongs to root on the node.
            "securityContext": {"privileged": true, "readOnlyRootFilesystem": false},
            "resources": {"requests": {"cpu": "10m", "memory": "50Mi", "ephemeral-storage": "2Mi"}},
            "terminationMessagePolicy": "FallbackToLogsOnError",
        })
    };
    let mut cleanup = container("cleanup", &["sh", "-c", "rm -fR ./*"]);
    cleanup["workingDir"] = json!(format!("{folder}/"));
    let [own, others] = FOLDERS.map(|name| (format!("/{name}"), format!("{temporary}/{name}")));
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("{PREFIX}{}-{}", label(version), suffix(random[0])), "namespace": namespace,
            "labels": {LABEL.0: LABEL.1},
            "annotations": {"openshift.io/required-scc": "privileged"},
        },
        "spec": {
            "activeDeadlineSeconds": ACTIVE,
            "restartPolicy": "OnFailure",
            // The release image is not given the permissions of the operator.
            "automountServiceAccountToken": false,
            "initContainers": [
                cleanup,
                container("make-temporary-directory", &["mkdir", &temporary]),
                container("move-operator-manifests-to-temporary-directory", &["mv", &own.0, &own.1]),
                container("move-release-manifests-to-temporary-directory", &["mv", &others.0, &others.1]),
            ],
            "containers": [container("rename-to-final-location", &["mv", &temporary, &target])],
            "volumes": [{"name": "payloads", "hostPath": {"path": folder}}],
            "nodeName": node,
            "nodeSelector": {NODE_LABEL: ""},
            "priorityClassName": "openshift-user-critical",
            "tolerations": [{"key": NODE_LABEL}],
        },
    })
}

/// The version as a part of a name: names have small letters, digits, hyphens and dots.
fn label(version: &str) -> String {
    let allowed = |letter: char| match letter.to_ascii_lowercase() {
        letter if letter.is_ascii_alphanumeric() || letter == '.' => letter,
        _ => '-',
    };
    version.chars().take(VERSION).map(allowed).collect::<String>().trim_matches('.').to_owned()
}

/// Five random letters and digits, of those that Kubernetes uses in names.
fn suffix(random: u64) -> String {
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let letter = |at: u32| char::from(LETTERS[(random >> (at * 8)) as usize % LETTERS.len()]);
    (0..5).map(letter).collect()
}

/// The pods and Jobs of earlier retrievals, which are deleted before the next one: all pods with [`LABEL`], and Jobs by their name.
pub fn leftovers<'a>(namespace: &str, pods: impl Iterator<Item = &'a str>, jobs: impl Iterator<Item = &'a str>) -> Vec<ObjectRef> {
    let place = |api_version: &str, kind: &str, name: &str| ObjectRef {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let jobs = jobs.filter(|name| name.starts_with(PREFIX)).map(|name| place("batch/v1", "Job", name));
    jobs.chain(pods.map(|name| place("v1", "Pod", name))).collect()
}

/// The files without which a folder is no release: a folder that lacks one is retrieved again.
pub fn required(folder: &str) -> [String; 4] {
    ["manifests", "release-manifests", "release-manifests/release-metadata", "release-manifests/image-references"]
        .map(|name| format!("{folder}/{name}"))
}

/// The state of a retrieval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The pod has not ended.
    Waiting,
    /// The content is in its folder.
    Done,
    /// It will not come.
    Failed(PodFailure),
}

/// The reason why a pod does not retrieve its release (CVO-RET-05).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PodFailure {
    /// It will never run.
    #[error("pod {} failed at pending with reason {} and message {} and status {}", .0.pod, quote(&.0.reason), quote(&.0.message), .0.containers)]
    Pending(Box<PodStatus>),
    /// It ran and failed.
    #[error("pod {} failed with reason {} and message {} and status {}", .0.pod, quote(&.0.reason), quote(&.0.message), .0.containers)]
    Ended(Box<PodStatus>),
    /// Its phase is none that is known.
    #[error("pod {pod} is with unexpected phase {phase}")]
    Phase {
        /// The name.
        pod: String,
        /// The phase.
        phase: String,
    },
    /// It is gone. Upstream waits for its deadline then.
    #[error("pod {pod} was deleted before it completed")]
    Lost {
        /// The name.
        pod: String,
    },
}

/// The words of a pod's status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodStatus {
    /// The name.
    pub pod: String,
    /// Why, for programs.
    pub reason: String,
    /// Why, for people.
    pub message: String,
    /// The texts of its containers, separated by commas.
    pub containers: String,
}

/// The state of the retrieval by the pod of this name; `live` is none if it does not exist.
pub fn verdict(name: &str, live: Option<&Value>) -> Verdict {
    let pod = name.to_owned();
    let Some(live) = live else { return Verdict::Failed(PodFailure::Lost { pod }) };
    let status = &live["status"];
    let told = |containers: Vec<String>| {
        let (reason, message) = (text(status, "reason"), text(status, "message"));
        Box::new(PodStatus { pod: name.to_owned(), reason, message, containers: containers.join(",") })
    };
    match status["phase"].as_str().unwrap_or_default() {
        "Succeeded" => Verdict::Done,
        "Running" => Verdict::Waiting,
        "Pending" => match containers(status, is_hopeless) {
            hopeless if hopeless.is_empty() => Verdict::Waiting,
            hopeless => Verdict::Failed(PodFailure::Pending(told(hopeless))),
        },
        "Failed" => Verdict::Failed(PodFailure::Ended(told(containers(status, |_, message| !message.is_empty())))),
        phase => Verdict::Failed(PodFailure::Phase { pod, phase: phase.to_owned() }),
    }
}

/// An image that will not be pulled however long the pod waits.
fn is_hopeless(reason: &str, message: &str) -> bool {
    reason == "SignatureValidationFailed" || (reason == "ErrImagePull" && message.contains("manifest unknown"))
}

/// The texts of containers that wait for such a reason, and of those that ended with a message.
fn containers(status: &Value, waits: impl Fn(&str, &str) -> bool) -> Vec<String> {
    let mut told = Vec::new();
    for (field, noun) in [("containerStatuses", "container"), ("initContainerStatuses", "initcontainer")] {
        for container in status[field].as_array().into_iter().flatten() {
            let name = text(container, "name");
            let state = |kind: &str| Some(&container["state"][kind]).filter(|state| state.is_object());
            for (kind, verb) in [("waiting", "waiting"), ("terminated", "terminated")] {
                let Some(state) = state(kind) else { continue };
                let (reason, message) = (text(state, "reason"), text(state, "message"));
                let counts = if kind == "waiting" { waits(&reason, &message) } else { !message.is_empty() };
                if counts {
                    told.push(format!("{noun} {name} is {verb} with reason {} and message {}", quote(&reason), quote(&message)));
                }
            }
        }
    }
    told
}

fn text(object: &Value, field: &str) -> String {
    object[field].as_str().unwrap_or_default().to_owned()
}
