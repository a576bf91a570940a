//! `mainstay adm`: what administrators do by `oc`, on any cluster (MS-CLI-10).

mod credentials;
mod folder;
mod inspect;
mod must_gather;
mod nodes;
mod recorded;
mod release;
mod upgrade;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use mainstay_operations::Session;
use mainstay_operations::accounts::{self, NewNamespace, SecretUse};
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::{output, runtime};
use serde_json::Value;

use super::operator::context_namespace;
use crate::up::kubeconfig;
use crate::{dispatch, named};

/// Maximum size of a value that is set.
const BYTES: u64 = 1 << 20;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay adm policy add-role-to-user admin ada -n lights
  mainstay adm policy add-scc-to-user anyuid system:serviceaccount:lights:beacon
  mainstay adm secrets link default pull --for pull -n lights
  mainstay adm extract secret/pull -n lights --to . --confirm
  mainstay adm set data secret/pull -n lights --from-file key=FILE
  mainstay adm new-project lights --display-name Lights
  mainstay adm project lights                     the namespace of the current context
  mainstay adm drain worker-1 --ignore-daemonsets    cordon a node and evict its pods
  mainstay adm upgrade                            the cluster's own updates
  mainstay adm release info IMAGE                 what a release image holds
  mainstay adm release install --image IMAGE      the first release of a cluster that has none

Through a link named oc, these answer oc policy, oc secrets link, oc extract, oc set data, oc project and oc new-project; every other verb
goes to kubectl.")]
pub struct Arguments {
    /// The verb.
    #[command(subcommand)]
    pub verb: Verb,
    /// The namespace; that of the context if none is given
    #[arg(long, short, global = true, value_name = "NAMESPACE", value_parser = named::namespace)]
    pub namespace: Option<String>,
    /// The kubeconfig of the cluster
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,
    /// Act as this user
    #[arg(long = "as", global = true, value_name = "USER")]
    pub act_as: Option<String>,
}

/// Verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Give users roles
    #[command(subcommand)]
    Policy(Policy),
    /// Use Secrets
    #[command(subcommand)]
    Secrets(Secrets),
    /// Write the keys of a Secret or a ConfigMap to files
    Extract(Extract),
    /// Set fields of objects
    #[command(subcommand)]
    Set(Set),
    /// Show or set the namespace of the current context
    Project {
        /// The namespace
        name: Option<String>,
    },
    /// Create a namespace
    NewProject(NewProject),
    /// Collect objects with events and logs of pods in a folder; of a simulated node, list its containers
    Inspect(inspect::Arguments),
    /// Collect the support data of a cluster: ClusterOperators and OLM, in a folder
    MustGather(must_gather::Arguments),
    /// Write Secrets and cloud-side documents for CredentialsRequests
    #[command(subcommand)]
    Credentials(Credentials),
    /// Mark nodes as unschedulable
    Cordon(nodes::CordonArguments),
    /// Mark nodes as schedulable
    Uncordon(nodes::CordonArguments),
    /// Cordon nodes and evict their pods
    Drain(Box<nodes::DrainArguments>),
    /// Show the cluster's own updates, and ask for one
    Upgrade(Box<upgrade::Arguments>),
    /// Make release images, look into them, extract, install and mirror them
    #[command(subcommand)]
    Release(release::Commands),
    /// A verb that is not part of this version
    #[command(external_subcommand)]
    Other(Vec<String>),
}

/// Verbs of `credentials`.
#[derive(Debug, Subcommand)]
pub enum Credentials {
    /// Write what ccoctl writes in a dry run, without a call to a cloud
    Render(Box<credentials::Arguments>),
}

/// Verbs of `policy`.
#[derive(Debug, Subcommand)]
pub enum Policy {
    /// Add a user to the RoleBinding of a ClusterRole
    AddRoleToUser {
        /// The ClusterRole
        role: String,
        /// The user
        user: String,
    },
    /// Let an account use SecurityContextConstraints
    AddSccToUser {
        /// The constraints
        scc: String,
        /// The user, such as system:serviceaccount:NAMESPACE:NAME
        user: String,
    },
}

/// Verbs of `secrets`.
#[derive(Debug, Subcommand)]
pub enum Secrets {
    /// Let a ServiceAccount use a Secret
    Link {
        /// The ServiceAccount
        account: String,
        /// The Secret
        secret: String,
        /// The use; both are possible
        #[arg(long = "for", value_enum, value_delimiter = ',', default_value = "mount")]
        uses: Vec<Use>,
    },
}

/// Verbs of `set`.
#[derive(Debug, Subcommand)]
pub enum Set {
    /// Set keys of a Secret or a ConfigMap
    Data {
        /// secret/NAME or configmap/NAME
        object: String,
        /// KEY=FILE or FILE; can be repeated
        #[arg(long, value_name = "KEY=FILE")]
        from_file: Vec<String>,
        /// KEY=VALUE; can be repeated
        #[arg(long, value_name = "KEY=VALUE")]
        from_literal: Vec<String>,
    },
}

/// Uses of a Secret.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Use {
    /// Pull images
    Pull,
    /// Mount it
    Mount,
}

/// Arguments of `extract`.
#[derive(Debug, Args)]
pub struct Extract {
    /// secret/NAME or configmap/NAME
    pub object: String,
    /// The directory, or - for the standard output
    #[arg(long, value_name = "DIRECTORY", default_value = ".")]
    pub to: PathBuf,
    /// Only these keys
    #[arg(long, value_name = "KEY", value_delimiter = ',')]
    pub keys: Vec<String>,
    /// Overwrite files
    #[arg(long)]
    pub confirm: bool,
}

/// Arguments of `new-project`.
#[derive(Debug, Args)]
pub struct NewProject {
    /// The namespace
    #[arg(value_parser = named::namespace)]
    pub name: String,
    /// The name for people
    #[arg(long)]
    pub display_name: Option<String>,
    /// The description
    #[arg(long)]
    pub description: Option<String>,
    /// The nodes that its Pods go to
    #[arg(long, value_name = "LABELS")]
    pub node_selector: Option<String>,
    /// Leave the current context as it is
    #[arg(long)]
    pub skip_config_write: bool,
}

/// Runs a verb.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let cluster = ClusterArgs {
        kubeconfig: arguments.kubeconfig.clone(),
        context: arguments.context.clone(),
        act_as: arguments.act_as.clone(),
        ..ClusterArgs::default()
    };
    match &arguments.verb {
        Verb::Inspect(wanted) => return inspect::run(wanted, &cluster, arguments.namespace.as_deref().unwrap_or("default")),
        Verb::MustGather(wanted) => return must_gather::run(wanted, &cluster),
        Verb::Credentials(Credentials::Render(wanted)) => return credentials::render(wanted),
        Verb::Cordon(wanted) => return nodes::cordon(wanted, true, &cluster),
        Verb::Uncordon(wanted) => return nodes::cordon(wanted, false, &cluster),
        Verb::Drain(wanted) => return nodes::drain(wanted, &cluster),
        Verb::Upgrade(wanted) => return upgrade::run(wanted, &cluster),
        Verb::Release(wanted) => return release::run(wanted, &cluster),
        Verb::Other(words) => return Err(not_available(words)),
        Verb::Policy(_) | Verb::Secrets(_) | Verb::Extract(_) | Verb::Set(_) | Verb::Project { .. } | Verb::NewProject(_) => {}
    }
    runtime::block_on(async {
        let session = cluster.open().await?;
        let namespace = arguments.namespace.clone();
        let own = || context_namespace(arguments.kubeconfig.as_deref(), &session.context).unwrap_or_else(|| "default".to_owned());
        verb(&session, arguments, &namespace.unwrap_or_else(own)).await
    })
}

/// The failure for a verb of a part that is not there, with what answers instead.
fn not_available(words: &[String]) -> Failure {
    let verbs: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    match verbs.as_slice() {
        ["catalog", "build", ..] => Failure::new(Exit::Usage, "adm catalog build", "was removed: file-based catalogs have replaced it")
            .hint("opm generate dockerfile CATALOG and opm index add build a catalog; mainstay catalog build does both"),
        ["catalog", "mirror", ..] => Failure::new(Exit::Usage, "adm catalog mirror", "was replaced")
            .hint("mainstay catalog mirror CATALOG DESTINATION mirrors a catalog and its images"),
        ["debug", node, ..] => dispatch::not_there(
            "adm",
            words,
            &format!(
                "mainstay adm inspect {node} lists the containers of a simulated node; on a real one, \
                 kubectl debug {node} -it --image=IMAGE runs a Pod with the host's files at /host"
            ),
        ),
        _ => dispatch::not_there("adm", words, "mainstay adm --help shows what there is"),
    }
}

async fn verb(session: &Session, arguments: &Arguments, namespace: &str) -> Result<(), Failure> {
    match &arguments.verb {
        Verb::Policy(Policy::AddRoleToUser { role, user }) => {
            accounts::add_role(session, namespace, role, user).await?;
            output::line(format!("clusterrole.rbac.authorization.k8s.io/{role} added: {user:?}"))
        }
        Verb::Policy(Policy::AddSccToUser { scc, user }) => {
            let role = accounts::add_scc(session, scc, user).await?;
            output::line(format!("clusterrole.rbac.authorization.k8s.io/{role} added to: {user:?}"))
        }
        Verb::Secrets(Secrets::Link { account, secret, uses }) => {
            let uses: Vec<SecretUse> =
                uses.iter().map(|one| if matches!(one, Use::Pull) { SecretUse::Pull } else { SecretUse::Mount }).collect();
            Ok(accounts::link_secret(session, namespace, account, secret, &uses).await?)
        }
        Verb::Extract(extract) => {
            let (kind, name) = object(&extract.object)?;
            let mut data = accounts::data(session, kind, namespace, name).await?;
            data.retain(|key, _| extract.keys.is_empty() || extract.keys.contains(key));
            write_out(extract, &data)
        }
        Verb::Set(Set::Data { object: named, from_file, from_literal }) => {
            let (kind, name) = object(named)?;
            let set = values(from_file, from_literal)?;
            accounts::set_data(session, kind, namespace, name, &set).await?;
            output::line(format!("{}/{name} data updated", kind.to_lowercase()))
        }
        Verb::Project { name: None } => output::line(format!("Using project {namespace:?} on server {:?}.", session.server)),
        Verb::Project { name: Some(name) } => {
            accounts::namespace_exists(session, name).await?;
            set_namespace(arguments, session, name)?;
            output::line(format!("Now using project {name:?} on server {:?}.", session.server))
        }
        Verb::NewProject(new) => {
            let NewProject { name, display_name, description, node_selector, skip_config_write } = new;
            let namespace = NewNamespace {
                name: name.clone(),
                display_name: display_name.clone(),
                description: description.clone(),
                node_selector: node_selector.clone(),
            };
            accounts::new_namespace(session, &namespace).await?;
            if *skip_config_write {
                return output::line(format!("Created project {name}"));
            }
            set_namespace(arguments, session, name)?;
            output::line(format!("Now using project {name:?} on server {:?}.", session.server))
        }
        Verb::Inspect(_)
        | Verb::MustGather(_)
        | Verb::Credentials(_)
        | Verb::Cordon(_)
        | Verb::Uncordon(_)
        | Verb::Drain(_)
        | Verb::Upgrade(_)
        | Verb::Release(_)
        | Verb::Other(_) => Ok(()),
    }
}

/// The kind and the name of `secret/NAME` or `configmap/NAME`.
fn object(named: &str) -> Result<(&'static str, &str), Failure> {
    match named.split_once('/') {
        Some(("secret" | "secrets", name)) if !name.is_empty() => Ok(("Secret", name)),
        Some(("configmap" | "configmaps" | "cm", name)) if !name.is_empty() => Ok(("ConfigMap", name)),
        _ => Err(Failure::new(Exit::Usage, named.to_owned(), "expected secret/NAME or configmap/NAME")),
    }
}

/// Writes keys to files, which only their owner can read.
fn write_out(extract: &Extract, data: &BTreeMap<String, Vec<u8>>) -> Result<(), Failure> {
    if extract.to == Path::new("-") {
        return data.iter().try_for_each(|(key, bytes)| output::print(&format!("# {key}\n{}\n", String::from_utf8_lossy(bytes))));
    }
    for (key, bytes) in data {
        // Kubernetes allows no separator in a key; a server may.
        if key.contains('/') || key.starts_with("..") {
            return Err(Failure::new(Exit::Failed, format!("key {key}"), "cannot be the name of a file"));
        }
        let path = extract.to.join(key);
        if path.exists() && !extract.confirm {
            return Err(Failure::new(Exit::Failed, path.display().to_string(), "exists").hint("--confirm overwrites it"));
        }
        mainstay_apiserver::access::write_private(&path, bytes).map_err(|error| Failure::failed(path.display().to_string(), &error))?;
        output::line(path.display().to_string())?;
    }
    Ok(())
}

/// The values to set.
fn values(files: &[String], literals: &[String]) -> Result<BTreeMap<String, Vec<u8>>, Failure> {
    let mut all = BTreeMap::new();
    for file in files {
        let (key, path) = file.split_once('=').map_or_else(
            || (Path::new(file).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(), file.as_str()),
            |(key, path)| (key.to_owned(), path),
        );
        let failed = |error: &std::io::Error| Failure::failed(format!("file {path}"), error);
        let mut bytes = Vec::new();
        std::fs::File::open(path).and_then(|open| open.take(BYTES + 1).read_to_end(&mut bytes)).map_err(|error| failed(&error))?;
        if bytes.len() as u64 > BYTES {
            return Err(Failure::new(
                Exit::Failed,
                format!("file {path}"),
                format!("is larger than {BYTES} bytes, the most that an object may hold"),
            ));
        }
        all.insert(key, bytes);
    }
    for literal in literals {
        let Some((key, value)) = literal.split_once('=') else {
            return Err(Failure::new(Exit::Usage, "--from-literal", format!("expected KEY=VALUE, found {literal:?}")));
        };
        all.insert(key.to_owned(), value.as_bytes().to_vec());
    }
    if all.is_empty() {
        return Err(
            Failure::new(Exit::Usage, "set data", "nothing is set").hint("--from-file KEY=FILE or --from-literal KEY=VALUE sets a key")
        );
    }
    Ok(all)
}

/// Sets the namespace of the session's context in the kubeconfig.
fn set_namespace(arguments: &Arguments, session: &Session, namespace: &str) -> Result<(), Failure> {
    let path = arguments.kubeconfig.clone().map_or_else(kubeconfig::of_the_user, Ok)?;
    let subject = || format!("kubeconfig {}", path.display());
    let text = std::fs::read_to_string(&path).map_err(|error| Failure::failed(subject(), &error))?;
    let mut config: Value = mainstay_yaml::parse(&text).map_err(|error| Failure::failed(subject(), &error))?;
    let contexts = config["contexts"].as_array_mut();
    let Some(context) = contexts.into_iter().flatten().find(|context| context["name"] == session.context.as_str()) else {
        return Err(Failure::new(Exit::Failed, subject(), format!("has no context {:?}", session.context)));
    };
    context["context"]["namespace"] = namespace.into();
    kubeconfig::write(&path, &mainstay_yaml::to_string(&config))
}
