//! `mainstay explain`: why something is as it is, what it waits for, and the one thing to do (MS-EXPL-02, MS-EXPL-04).

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod advised;

use clap::Args;
use jiff::Timestamp;
use mainstay_diagnostics::FailureKind;
use mainstay_olm_v1_core::extension::explain::Explanation;
use mainstay_operations::classic::explain::{Subject as ClassicSubject, explain as explain_classic, subscription_named};
use mainstay_operations::explain::{Subject, explain};
use mainstay_operations::{cluster_update, credentials, machines, pools};
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::output::{self, Format};
use mainstay_terminal::progress::Progress;
use mainstay_terminal::runtime;

use super::{classic, machine};
use crate::named;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay explain beacon                        the extension beacon, or the package where there is none of this name
  mainstay explain clustercatalog team
  mainstay explain package beacon
  mainstay explain subscription beacon -n lights   of OLM classic, also: csv, installplan, catalogsource, operatorgroup,
                                                   operatorcondition
  mainstay explain credentialsrequest cache-operator   also verifies the token as a cloud does
  mainstay explain clusterversion                the cluster's own release: what it waits for, what is held back and why
  mainstay explain machineconfigpool worker      which nodes are on their way, and which pod, budget or limit keeps them
  mainstay explain machine demo-worker-a         the step of its life, and which hook, pod or budget holds it up, whose and since when
  mainstay explain machineset demo-worker        whether the autoscaler lets it grow or shrink, and why not
  mainstay explain node worker-1                 what its configuration waits for, and the same table of what blocks it
  mainstay explain clusteroperator etcd          also one that is not there: what it is, what is played, what would be real
  mainstay explain beacon -o 'jsonpath={.next.commands[0]}'

-o json gives {\"subject\", \"situation\", \"state\", \"summary\", \"installed\": {\"name\", \"version\"}, \"waitsFor\", \"since\", \"why\": [...],
\"next\": {\"text\", \"commands\", \"warning\"}, \"alternatives\": [...], \"newer\": {\"version\", \"heldBackBy\", \"why\", \"action\"}, \"notes\": [...],
\"evidence\": [{\"what\", \"says\", \"at\"}]}; what does not apply is absent. Machines and nodes also have \"blockers\": [{\"kind\", \"name\", \"owner\",
\"since\", \"now\", \"why\"}]. state is one of healthy, held, working, not-installed, degraded
and removing.

Nothing is changed. Commands that are proposed were tried where that is possible without changing anything.

Exit codes: 0 explained, 2 a kind that this version does not look after, 3 there is nothing of this name.")]
pub struct Arguments {
    /// [clusterextension|clustercatalog|package|subscription|csv|installplan|catalogsource|operatorgroup|operatorcondition|credentialsrequest|clusterversion|clusteroperator|machine|machineset|machineconfigpool|node] NAME
    #[arg(required = true, num_args = 1..=2, value_names = ["KIND", "NAME"])]
    what: Vec<String>,
    /// The namespace of an object of OLM classic [default: the only one that has it], or of a machine or set [default: openshift-machine-api]
    #[arg(long, short, value_name = "NAMESPACE", value_parser = named::namespace)]
    namespace: Option<String>,
    /// table, json, yaml or jsonpath=PATH
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json, yaml or jsonpath=PATH"))]
    output: Format,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// The subject, if it is an object of OLM classic: its kind and name.
fn classic_subject(words: &[String]) -> Option<(ClassicSubject, &str)> {
    let (kind, name) = match words {
        [one] => one.split_once('/')?,
        [kind, name] => (kind.as_str(), name.as_str()),
        _ => return None,
    };
    Some((ClassicSubject::parse(kind)?, name))
}

/// The name of a CredentialsRequest, if the subject is one.
fn credentials_subject(words: &[String]) -> Option<&str> {
    let (kind, name) = match words {
        [one] => one.split_once('/')?,
        [kind, name] => (kind.as_str(), name.as_str()),
        _ => return None,
    };
    let kind = kind.to_lowercase();
    matches!(kind.split('.').next().unwrap_or_default(), "credentialsrequest" | "credentialsrequests").then_some(name)
}

/// A subject of machines and their configuration.
#[derive(Debug, PartialEq, Eq)]
enum Machines<'a> {
    Machine(&'a str),
    Set(&'a str),
    Pool(&'a str),
    Node(&'a str),
}

/// The subject, if it is a machine, a set, a pool or a node.
fn machines_subject(words: &[String]) -> Option<Machines<'_>> {
    let (kind, name) = match words {
        [one] => one.split_once('/')?,
        [kind, name] => (kind.as_str(), name.as_str()),
        _ => return None,
    };
    match kind.to_lowercase().split('.').next().unwrap_or_default() {
        "machineconfigpool" | "machineconfigpools" | "mcp" => Some(Machines::Pool(name)),
        "node" | "nodes" => Some(Machines::Node(name)),
        "machine" | "machines" => Some(Machines::Machine(name)),
        "machineset" | "machinesets" => Some(Machines::Set(name)),
        _ => None,
    }
}

/// A part of the cluster's own release.
#[derive(Debug, PartialEq, Eq)]
enum Platform<'a> {
    /// The ClusterVersion.
    Version,
    /// A ClusterOperator.
    Operator(&'a str),
}

/// The part of the cluster's release, if the subject is one.
fn platform_subject(words: &[String]) -> Option<Platform<'_>> {
    let (kind, name) = match words {
        [one] => one.split_once('/').unwrap_or((one, "")),
        [kind, name] => (kind.as_str(), name.as_str()),
        _ => return None,
    };
    let kind = kind.to_lowercase();
    match (kind.split('.').next().unwrap_or_default(), name) {
        ("clusterversion" | "clusterversions", "" | "version") => Some(Platform::Version),
        ("clusteroperator" | "clusteroperators" | "co", name) if !name.is_empty() => Some(Platform::Operator(name)),
        _ => None,
    }
}

/// The subject in `NAME`, `KIND NAME` or `KIND/NAME`.
fn subject(words: &[String]) -> Result<Subject, Failure> {
    let (kind, name) = match words {
        [name] => match name.split_once('/') {
            None if foreign(name).is_some() => (name.as_str(), ""),
            None => return Ok(Subject::Any(name.clone())),
            Some(split) => split,
        },
        [kind, name] => (kind.as_str(), name.as_str()),
        _ => return Err(Failure::new(Exit::Usage, "explain", "expected a name, or a kind and a name")),
    };
    let lower = kind.to_lowercase();
    let plain = lower.split('.').next().unwrap_or_default();
    match plain {
        "clusterextension" | "clusterextensions" | "extension" => Ok(Subject::Extension(name.to_owned())),
        "clustercatalog" | "clustercatalogs" | "catalog" => Ok(Subject::Catalog(name.to_owned())),
        "package" | "packages" => Ok(Subject::Package(name.to_owned())),
        _ => Err(match foreign(plain) {
            Some(why) => Failure::new(Exit::Usage, plain, why),
            None => Failure::new(Exit::Usage, "explain", format!("{kind:?} is no kind that can be explained")),
        }
        .hint(
            "it can be clusterextension, clustercatalog, package, subscription, csv, installplan, catalogsource, operatorgroup, operatorcondition, credentialsrequest, clusterversion, clusteroperator, machine, machineset, machineconfigpool or node",
        )),
    }
}

/// Kinds that later versions manage.
fn foreign(kind: &str) -> Option<&'static str> {
    match kind.to_lowercase().as_str() {
        "clusterversion" | "clusterversions" => Some("a cluster has one ClusterVersion that counts, version"),
        "clusteroperator" | "clusteroperators" | "co" => Some("the name of the clusteroperator is missing"),
        "machineconfigpool" | "machineconfigpools" | "mcp" | "node" | "nodes" | "machine" | "machines" | "machineset" | "machinesets" => {
            Some("its name is missing")
        }
        _ => None,
    }
}

/// Prints the explanation.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let namespace = arguments.namespace.as_deref();
    if let Some((kind, name)) = classic_subject(&arguments.what) {
        return runtime::block_on(async {
            let session = arguments.cluster.open().await?;
            classic::explain::show(&arguments.output, &explain_classic(&session, kind, namespace, name).await?)
        });
    }
    if let Some(name) = credentials_subject(&arguments.what) {
        return runtime::block_on(async {
            let session = arguments.cluster.open().await?;
            classic::explain::show(&arguments.output, &credentials::explain(&session, namespace, name, Timestamp::now).await?)
        });
    }
    if let Some(platform) = platform_subject(&arguments.what) {
        return runtime::block_on(async {
            let session = arguments.cluster.open().await?;
            let answer = match platform {
                Platform::Version => cluster_update::explain_version(&session).await?,
                Platform::Operator(name) => cluster_update::explain_operator(&session, name).await?,
            };
            classic::explain::show(&arguments.output, &answer)
        });
    }
    if let Some(subject) = machines_subject(&arguments.what) {
        return runtime::block_on(async {
            let session = arguments.cluster.open().await?;
            let now = Timestamp::now();
            let (answer, blockers) = match subject {
                Machines::Machine(name) => machines::explain_machine(&session, namespace.unwrap_or(machines::NAMESPACE), name, now).await?,
                Machines::Node(name) => machines::explain_node(&session, name, now).await?,
                Machines::Set(name) => {
                    let answer = machines::explain_set(&session, namespace.unwrap_or(machines::NAMESPACE), name, now).await?;
                    return classic::explain::show(&arguments.output, &answer);
                }
                Machines::Pool(name) => {
                    return classic::explain::show(&arguments.output, &pools::explain_pool(&session, name, now).await?);
                }
            };
            machine::show(&arguments.output, &answer, &blockers, now)
        });
    }
    let subject = subject(&arguments.what)?;
    runtime::block_on(async {
        let session = arguments.cluster.open().await?;
        let failure = match Box::pin(explain(&session, &subject, &mut Progress::start())).await {
            Ok(answer) => return show(&arguments.output, &answer),
            Err(failure) => failure,
        };
        if let Subject::Any(name) = &subject
            && failure.kind() == FailureKind::NotFound
            && let Some(answer) = subscription_named(&session, namespace, name).await?
        {
            return classic::explain::show(&arguments.output, &answer);
        }
        if let Subject::Any(word) = &subject
            && failure.kind() == FailureKind::NotFound
            && ClassicSubject::parse(word).is_some()
        {
            let message = format!("the name of the {word} is missing");
            return Err(Failure::new(Exit::Usage, "explain", message).hint(format!("kubectl get {word} -A lists them")));
        }
        Err(failure.into())
    })
}

fn show(format: &Format, answer: &Explanation) -> Result<(), Failure> {
    if format.is_table() {
        return output::print(&answer.text(Timestamp::now()));
    }
    let value = serde_json::to_value(answer).map_err(|error| Failure::failed(&answer.subject, &error))?;
    output::value(format, &value)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// MS-EXPL-02: how a subject is written, and what this version does not look after.
    #[test]
    fn subjects() {
        let read = |text: &str| subject(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(read("beacon").unwrap(), Subject::Any("beacon".into()));
        assert_eq!(read("clusterextension beacon").unwrap(), Subject::Extension("beacon".into()));
        assert_eq!(read("ClusterCatalog/team").unwrap(), Subject::Catalog("team".into()));
        assert_eq!(read("clustercatalogs.olm.operatorframework.io/team").unwrap(), Subject::Catalog("team".into()));
        assert_eq!(read("package beacon").unwrap(), Subject::Package("beacon".into()));
        let classic = ["subscription", "x"].map(str::to_owned);
        assert_eq!(classic_subject(&classic), Some((ClassicSubject::Subscription, "x")));
        assert_eq!(platform_subject(&["clusterversion".to_owned()]), Some(Platform::Version));
        assert_eq!(platform_subject(&["clusterversion/version".to_owned()]), Some(Platform::Version));
        assert_eq!(platform_subject(&["co", "etcd"].map(str::to_owned)), Some(Platform::Operator("etcd")));
        assert_eq!(platform_subject(&["co".to_owned()]), None);
        assert_eq!(machines_subject(&["mcp/worker".to_owned()]), Some(Machines::Pool("worker")));
        assert_eq!(machines_subject(&["node", "worker-1"].map(str::to_owned)), Some(Machines::Node("worker-1")));
        assert_eq!(machines_subject(&["machine", "a"].map(str::to_owned)), Some(Machines::Machine("a")));
        assert_eq!(machines_subject(&["machineset/a".to_owned()]), Some(Machines::Set("a")));
        assert_eq!(machines_subject(&["node".to_owned()]), None);
        let classic = ["csv/x".to_owned()];
        assert_eq!(classic_subject(&classic), Some((ClassicSubject::Csv, "x")));
        assert_eq!(classic_subject(&["subscription".to_owned()]), None);
        for (text, says) in [
            ("clusterversion other", "one ClusterVersion"),
            ("clusteroperator", "missing"),
            ("machineset", "missing"),
            ("machine", "missing"),
            ("node", "missing"),
            ("pod x", "no kind"),
        ] {
            let failure = read(text).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage, "{text}");
            assert!(failure.message().contains(says), "{text}: {}", failure.message());
        }
    }
}
