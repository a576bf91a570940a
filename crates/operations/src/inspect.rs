//! Support data of a cluster, laid out as `oc adm inspect` does it (COP-G-13, OLM0-ADMIN-45): objects, events and logs of pods, by files.
//!
//! ```text
//!   cluster-scoped-resources/GROUP/RESOURCE/NAME.yaml       core stands for the group without a name
//!   namespaces/NS/NS.yaml, namespaces/NS/GROUP/RESOURCE.yaml
//!   namespaces/NS/pods/POD/POD.yaml, .../CONTAINER/CONTAINER/logs/current.log and previous.log
//! ```
//! The values of Secrets are left out.

mod layout;
pub mod node;
mod served;

use std::collections::{BTreeSet, VecDeque};
use std::io;

use mainstay_diagnostics::{Failure, FailureKind};
use serde_json::{Value, json};

pub use layout::{Target, without_secrets};
use served::Served;

use crate::session::Session;

/// The most objects that are collected.
const MOST: usize = 50_000;
/// The longest log that is collected of a container, in bytes.
const LOG: usize = 10 << 20;
/// The kinds that are collected of a namespace, besides those of OLM.
const OF_NAMESPACE: [(&str, &str); 22] = [
    ("", "pods"),
    ("", "events"),
    ("", "configmaps"),
    ("", "secrets"),
    ("", "services"),
    ("", "endpoints"),
    ("", "serviceaccounts"),
    ("", "persistentvolumeclaims"),
    ("", "replicationcontrollers"),
    ("", "resourcequotas"),
    ("", "limitranges"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("apps", "daemonsets"),
    ("batch", "jobs"),
    ("batch", "cronjobs"),
    ("autoscaling", "horizontalpodautoscalers"),
    ("policy", "poddisruptionbudgets"),
    ("discovery.k8s.io", "endpointslices"),
    ("rbac.authorization.k8s.io", "roles"),
    ("rbac.authorization.k8s.io", "rolebindings"),
];
/// The group of OLM classic, all of whose kinds are collected.
const OLM: &str = "operators.coreos.com";
/// The namespaces of OLM that `must-gather` collects where they are there.
const OLM_NAMESPACES: [&str; 6] = [
    "openshift-operator-lifecycle-manager",
    "openshift-marketplace",
    "openshift-operators",
    "openshift-catalogd",
    "openshift-operator-controller",
    "olmv1-system",
];

/// Writes a file by its path.
pub type Sink<'a> = dyn FnMut(&str, &[u8]) -> io::Result<()> + Send + 'a;

/// Collected objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The objects that were asked for, and those that they led to.
    pub gathered: Vec<String>,
    /// Objects that could not be collected, and why. The rest was.
    pub failed: Vec<String>,
}

/// Collects objects and everything that belongs to them.
///
/// # Errors
/// A target is not there, or a file cannot be written. What a target leads to and cannot be read is in the summary.
pub async fn inspect(session: &Session, targets: &[Target], write: &mut Sink<'_>) -> Result<Summary, Failure> {
    let mut gathering =
        Gathering { session, served: Served::default(), write, seen: BTreeSet::new(), objects: 0, summary: Summary::default() };
    for target in targets {
        gathering.collect(target.clone(), true).await?;
    }
    Ok(gathering.summary)
}

/// Collects all ClusterOperators, and OLM's namespaces: its own, and those with Subscriptions, ClusterServiceVersions or OperatorGroups.
///
/// # Errors
/// Nothing can be read, or a file cannot be written.
pub async fn must_gather(session: &Session, write: &mut Sink<'_>) -> Result<Summary, Failure> {
    let mut gathering =
        Gathering { session, served: Served::default(), write, seen: BTreeSet::new(), objects: 0, summary: Summary::default() };
    let version = gathering.served.raw(session, "/version").await?;
    gathering.file("version.json", version.to_string().as_bytes())?;
    let mut targets = Vec::new();
    for name in gathering.names("config.openshift.io", "clusteroperators").await {
        targets.push(Target::cluster("config.openshift.io", "clusteroperators", &name));
    }
    for (group, resource) in [("config.openshift.io", "clusterversions"), ("config.openshift.io", "operatorhubs"), ("", "nodes")] {
        for name in gathering.names(group, resource).await {
            targets.push(Target::cluster(group, resource, &name));
        }
    }
    for (group, resource) in [
        ("olm.operatorframework.io", "clustercatalogs"),
        ("olm.operatorframework.io", "clusterextensions"),
        (OLM, "operators"),
        (OLM, "olmconfigs"),
    ] {
        for name in gathering.names(group, resource).await {
            targets.push(Target::cluster(group, resource, &name));
        }
    }
    let mut namespaces: BTreeSet<String> = BTreeSet::new();
    let present = gathering.names("", "namespaces").await;
    namespaces.extend(present.iter().filter(|name| OLM_NAMESPACES.contains(&name.as_str())).cloned());
    for resource in ["subscriptions", "operatorgroups", "catalogsources"] {
        namespaces.extend(gathering.namespaces_of(OLM, resource).await);
    }
    targets.extend(namespaces.iter().map(|name| Target::cluster("", "namespaces", name)));
    for target in targets {
        gathering.collect(target, false).await?;
    }
    Ok(gathering.summary)
}

struct Gathering<'a, 'w> {
    session: &'a Session,
    served: Served,
    write: &'a mut Sink<'w>,
    seen: BTreeSet<Target>,
    objects: usize,
    summary: Summary,
}

impl Gathering<'_, '_> {
    fn file(&mut self, path: &str, content: &[u8]) -> Result<(), Failure> {
        (self.write)(path, content).map_err(|error| Failure::failed(format!("file {path}"), &error))
    }

    fn document(&mut self, path: &str, object: &Value) -> Result<(), Failure> {
        self.file(path, mainstay_yaml::to_string(&without_secrets(object)).as_bytes())
    }

    /// The names of a kind's objects; none if it is not served or cannot be read, which is said.
    async fn names(&mut self, group: &str, resource: &str) -> Vec<String> {
        self.all(group, resource, "").await.iter().filter_map(|one| one["metadata"]["name"].as_str().map(str::to_owned)).collect()
    }

    async fn namespaces_of(&mut self, group: &str, resource: &str) -> BTreeSet<String> {
        self.all(group, resource, "").await.iter().filter_map(|one| one["metadata"]["namespace"].as_str().map(str::to_owned)).collect()
    }

    async fn all(&mut self, group: &str, resource: &str, namespace: &str) -> Vec<Value> {
        match self.served.list(self.session, group, resource, namespace).await {
            Ok(all) => all,
            Err(failure) => {
                self.failed(&failure);
                Vec::new()
            }
        }
    }

    fn failed(&mut self, failure: &Failure) {
        self.summary.failed.push(failure.to_string());
    }

    /// Collects a target and what it leads to. A target that `must` be there is an error if it is not.
    async fn collect(&mut self, first: Target, must: bool) -> Result<(), Failure> {
        let mut queue = VecDeque::from([(first, must)]);
        while let Some((target, must)) = queue.pop_front() {
            if !self.seen.insert(target.clone()) {
                continue;
            }
            let (target, objects) = match self.served.get(self.session, &target).await {
                Ok(found) => found,
                Err(failure) if must => return Err(failure),
                // What an operator relates to need not exist.
                Err(failure) if failure.kind() == FailureKind::NotFound => continue,
                Err(failure) => {
                    self.failed(&failure);
                    continue;
                }
            };
            for object in objects {
                self.count()?;
                let target = target.named(&object);
                self.seen.insert(target.clone());
                self.document(&target.path(), &object)?;
                self.summary.gathered.push(target.to_string());
                queue.extend(target.leads_to(&object).into_iter().map(|next| (next, false)));
                if target.is("", "namespaces") {
                    self.namespace(object["metadata"]["name"].as_str().unwrap_or_default()).await?;
                } else if target.is("", "pods") {
                    self.pod(&object).await?;
                }
            }
        }
        Ok(())
    }

    fn count(&mut self) -> Result<(), Failure> {
        self.objects += 1;
        if self.objects > MOST {
            return Err(Failure::new(FailureKind::Impossible, "support data", format!("there are more than {MOST} objects to collect"))
                .hint("name fewer namespaces or operators"));
        }
        Ok(())
    }

    /// Collects what is in a namespace: lists by kind, pods one by one, and their logs.
    async fn namespace(&mut self, name: &str) -> Result<(), Failure> {
        let mut kinds: Vec<(String, String)> =
            OF_NAMESPACE.iter().map(|(group, resource)| ((*group).to_owned(), (*resource).to_owned())).collect();
        match self.served.namespaced(self.session, OLM).await {
            Ok(own) => kinds.extend(own.into_iter().map(|resource| (OLM.to_owned(), resource))),
            Err(failure) => self.failed(&failure),
        }
        for (group, resource) in kinds {
            let objects = self.all(&group, &resource, name).await;
            if objects.is_empty() {
                continue;
            }
            for _ in &objects {
                self.count()?;
            }
            if group.is_empty() && resource == "pods" {
                for pod in &objects {
                    self.pod(pod).await?;
                }
            }
            let shown: Vec<Value> = objects.iter().map(without_secrets).collect();
            let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": shown});
            let path = format!("namespaces/{name}/{}/{resource}.yaml", layout::group(&group));
            self.file(&path, mainstay_yaml::to_string(&list).as_bytes())?;
        }
        Ok(())
    }

    /// Writes a pod and the logs of its containers, of the last run and the one before it.
    async fn pod(&mut self, pod: &Value) -> Result<(), Failure> {
        let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
        let folder = format!("namespaces/{namespace}/pods/{name}");
        self.document(&format!("{folder}/{name}.yaml"), pod)?;
        for list in ["initContainers", "containers"] {
            for container in pod["spec"][list].as_array().into_iter().flatten().filter_map(|one| one["name"].as_str()) {
                for (previous, file) in [(false, "current.log"), (true, "previous.log")] {
                    let path = format!(
                        "/api/v1/namespaces/{namespace}/pods/{name}/log?container={container}&previous={previous}&limitBytes={LOG}&timestamps=true"
                    );
                    match self.served.text(self.session, &path).await {
                        Ok(log) => self.file(&format!("{folder}/{container}/{container}/logs/{file}"), log.as_bytes())?,
                        // There is none of a run before the first.
                        Err(_) if previous => {}
                        Err(failure) => self.failed(&failure),
                    }
                }
            }
        }
        Ok(())
    }
}
