//! `mainstay install`: an extension with an account of its own (MS-CLI-05).

use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use mainstay_api::olm_v1::WATCH_NAMESPACE;
use mainstay_apply::{Expect, Step};
use mainstay_bundle::rights::{Grant, Installer, manifests};
use mainstay_resolver::UpgradeConstraintPolicy;
use serde_json::{Value, json};

use crate::cluster::{ClusterArgs, Session, not_written};
use crate::errors::{Exit, Failure, note};
use crate::extensions::{self, API_VERSION, Chosen, Wanted};
use crate::output::{self, Format};
use crate::progress::{Progress, confirm};
use crate::runtime;

/// The label of accounts and roles that install and upgrade made: the extension they are for.
pub const INSTALLER_LABEL: &str = "lifecycle.mainstay.dev/installer-of";

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay install beacon
  mainstay install beacon --version 1.0.x --channel stable --yes
  mainstay install cellar --namespace cellar --watch-namespace cellar
  mainstay install beacon --namespace ops --service-account my-installer

Without --service-account, the account PACKAGE-installer is made, with the least rights that this very bundle needs (--grant minimal)
or as an administrator (--grant admin). Everything that is going to be made is shown before.")]
pub struct Arguments {
    /// The package
    pub package: String,
    /// A channel that will do; can be repeated
    #[arg(long, value_name = "CHANNEL")]
    pub channel: Vec<String>,
    /// The versions that will do, now and later
    #[arg(long, value_name = "RANGE")]
    pub version: Option<String>,
    /// From this catalog only
    #[arg(long, value_name = "NAME")]
    pub catalog: Option<String>,
    /// The operator's namespace; made if missing [default: what the bundle suggests, else PACKAGE-system]
    #[arg(long, short, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// The only namespace that the operator watches [default: what the bundle is made for]
    #[arg(long, value_name = "NAMESPACE")]
    pub watch_namespace: Option<String>,
    /// The extension's name [default: the package]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// An account that exists, to install with
    #[arg(long, value_name = "NAME", conflicts_with = "grant")]
    pub service_account: Option<String>,
    /// The rights of the account that is made
    #[arg(long, value_enum, default_value_t = Rights::Minimal)]
    pub grant: Rights,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
    /// Do not wait until it is installed
    #[arg(long)]
    pub no_wait: bool,
    /// How long to wait, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub timeout: u64,
    /// table, json, yaml, name or jsonpath=PATH: how the extension is shown at the end
    #[arg(short, long, default_value = "table", value_name = "FORMAT")]
    pub output: Format,
    /// Which cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// The rights of the installer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Rights {
    /// What this bundle needs
    Minimal,
    /// Everything
    Admin,
}

/// Installs.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    runtime::block_on(async {
        let session = arguments.cluster.open_to_change().await?;
        let name = arguments.name.clone().unwrap_or_else(|| arguments.package.clone());
        let hints = || {
            vec![
                format!("what was written stays, and the cluster goes on; mainstay describe {name} shows how it stands"),
                format!("mainstay uninstall {name} undoes it"),
            ]
        };
        runtime::until_interrupt(install(&session, arguments, &name), hints).await
    })
}

async fn install(session: &Session, arguments: &Arguments, name: &str) -> Result<(), Failure> {
    let begun = Instant::now();
    if extensions::find(session, name).await?.is_some() {
        return Err(Failure::new(Exit::Impossible, format!("clusterextension {name}"), "exists already")
            .hint(format!("mainstay upgrade {name} changes its version or channel"))
            .hint("--name NAME installs the package under another name"));
    }
    let mut progress = Progress::start();
    let wanted = Wanted {
        package: arguments.package.clone(),
        channels: arguments.channel.clone(),
        version: arguments.version.clone(),
        catalog: arguments.catalog.clone(),
        policy: UpgradeConstraintPolicy::CatalogProvided,
        installed: None,
    };
    let chosen = extensions::choose(session, &wanted, &mut progress).await?;
    let suggested = chosen.bundle.facts().suggested_namespace.filter(|namespace| !namespace.is_empty());
    let namespace = arguments.namespace.clone().or(suggested).unwrap_or_else(|| format!("{}-system", arguments.package));
    let objects = extensions::rendered(&chosen.bundle, &namespace, arguments.watch_namespace.as_deref())?;
    let grants = extensions::rights(&objects, name);
    let plan = Plan::new(arguments, name, &namespace, &grants);
    drop(progress);

    say_choice(&chosen);
    plan.show(&objects, &grants, arguments);
    confirm("install?", arguments.yes)?;
    let mut progress = Progress::start();
    for step in &plan.steps {
        apply(session, step).await?;
    }
    let bundle = &chosen.resolution.choice.bundle;
    if arguments.no_wait {
        drop(progress);
        return output::line(format!("clusterextension {name} created; {bundle} is being installed"));
    }
    let extension = extensions::settle(session, name, bundle, &objects, Duration::from_secs(arguments.timeout), &mut progress).await?;
    drop(progress);
    finish(&arguments.output, &extension, || {
        format!("clusterextension {name}: {bundle} installed in namespace {namespace} in {:.1} s", begun.elapsed().as_secs_f64())
    })
}

/// Prints the extension, or one line.
pub fn finish(format: &Format, extension: &mainstay_api::olm_v1::ClusterExtension, line: impl FnOnce() -> String) -> Result<(), Failure> {
    if format.is_table() {
        return output::line(line());
    }
    let mut object = serde_json::to_value(extension).map_err(|error| Failure::failed("clusterextension", &error))?;
    object["apiVersion"] = API_VERSION.into();
    object["kind"] = "ClusterExtension".into();
    output::value(format, &object)
}

/// Says which bundle it is, and why; deprecations first.
pub fn say_choice(chosen: &Chosen) {
    let deprecations = &chosen.resolution.deprecations;
    let messages = deprecations.package.iter().chain(deprecations.channels.iter().map(|(_, message)| message)).chain(&deprecations.bundle);
    for message in messages {
        crate::errors::warn(&format!("package {}", chosen.resolution.choice.package), &format!("deprecated: {message}"));
    }
    note(format!("{}", chosen.resolution.choice));
    for reason in &chosen.resolution.reasons {
        note(format!("  {reason}"));
    }
}

/// Carries out one step.
pub async fn apply(session: &Session, step: &Step) -> Result<(), Failure> {
    let outcome = match step {
        Step::CreateOnce(object) => match session.writer.create(object).await {
            Err(mainstay_apply::WriteError::Refused { reason: mainstay_apply::Reason::AlreadyExists, .. }) => Ok(()),
            outcome => outcome.map(drop),
        },
        Step::Create(object) => session.writer.create(object).await.map(drop),
        Step::Apply { object, force, expect } => session.writer.apply(object, *force, expect).await.map(drop),
        other => return Err(Failure::new(Exit::Failed, "install", format!("unexpected step {other:?}"))),
    };
    outcome.map_err(|error| not_written(&error))
}

/// What install writes, in order.
struct Plan {
    steps: Vec<Step>,
}

impl Plan {
    fn new(arguments: &Arguments, name: &str, namespace: &str, grants: &[Grant]) -> Self {
        let namespace_object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let mut steps = vec![Step::CreateOnce(namespace_object)];
        let account = arguments.service_account.clone().unwrap_or_else(|| format!("{name}-installer"));
        if arguments.service_account.is_none() {
            let installer = Installer { extension: name.to_owned(), service_account: account.clone(), namespace: namespace.to_owned() };
            let objects = match arguments.grant {
                Rights::Minimal => manifests(grants, &installer),
                Rights::Admin => administrator(&installer),
            };
            steps.extend(objects.into_iter().map(|object| labelled(object, name)));
        }
        let mut catalog = json!({"packageName": arguments.package});
        if let Some(version) = &arguments.version {
            catalog["version"] = version.as_str().into();
        }
        if !arguments.channel.is_empty() {
            catalog["channels"] = arguments.channel.clone().into();
        }
        if let Some(only) = &arguments.catalog {
            catalog["selector"] = json!({"matchLabels": {mainstay_api::olm_v1::NAME_LABEL: only}});
        }
        let mut extension = json!({
            "apiVersion": API_VERSION, "kind": "ClusterExtension", "metadata": {"name": name},
            "spec": {"namespace": namespace, "serviceAccount": {"name": account}, "source": {"sourceType": "Catalog", "catalog": catalog}},
        });
        if let Some(watched) = &arguments.watch_namespace {
            extension["metadata"]["annotations"] = json!({WATCH_NAMESPACE: watched});
        }
        steps.push(Step::Create(extension));
        Self { steps }
    }

    fn show(&self, objects: &[Value], grants: &[Grant], arguments: &Arguments) {
        note("to be made by this command:");
        for step in &self.steps {
            if let Step::CreateOnce(object) | Step::Create(object) | Step::Apply { object, .. } = step {
                note(format!("  {}", named(object)));
            }
        }
        if arguments.service_account.is_none() {
            note("rights of the installer:");
            match arguments.grant {
                Rights::Minimal => grants.iter().for_each(|grant| note(format!("  {}", extensions::in_words(grant)))),
                Rights::Admin => note("  everything (cluster-admin)"),
            }
        }
        note("to be made by the cluster:");
        for object in objects {
            note(format!("  {}", named(object)));
        }
    }
}

/// An account's object as install writes it.
pub fn labelled(mut object: Value, extension: &str) -> Step {
    object["metadata"]["labels"] = json!({INSTALLER_LABEL: extension, "app.kubernetes.io/managed-by": "mainstay"});
    Step::Apply { object, force: true, expect: Expect::default() }
}

/// `deployment.apps ns/name`.
pub fn named(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = text(&object["kind"]);
    let (namespace, name) = (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}

fn administrator(installer: &Installer) -> Vec<Value> {
    let Installer { extension, service_account, namespace } = installer;
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": service_account, "namespace": namespace}}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": format!("{extension}-installer-binding")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": service_account, "namespace": namespace}],
        }),
    ]
}
