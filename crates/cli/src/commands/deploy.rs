//! `mainstay deploy`: both controllers of OLM v1 into a cluster, and out of it (MS-CLI-04).
//!
//! ```text
//!   flags ──► objects (olm_v1::deployment) ──┬──► -o yaml
//!                                            ├──► --dry-run: the server's answer to each
//!                                            └──► server-side apply, CRDs first
//! ```

mod certificates;
mod remove;

use std::time::Duration;

use clap::{Args, ValueEnum};
use mainstay_api::manifests;
use mainstay_apply::{Effect, Expect, ObjectRef, Until, WriteError, Writer};
use mainstay_olm_v1::deployment::{Certificates, Deployment};
use mainstay_olm_v1::gates::{FeatureGates, Profile};
use serde_json::{Value, json};

use crate::cluster::{ClusterArgs, Session, not_written};
use crate::errors::{Exit, Failure, note};
use crate::up::components::SYSTEM_NAMESPACE;
use crate::{output, runtime};

/// How long a CRD may take to be served.
const ESTABLISHED: Duration = Duration::from_secs(60);
/// Kinds of this group are the platform's own.
const PLATFORM: &str = "config.openshift.io";

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay deploy --image REGISTRY/mainstay:1.0
  mainstay deploy --image REGISTRY/mainstay:1.0 --dry-run
  mainstay deploy --image REGISTRY/mainstay:1.0 --combined
  mainstay deploy --image REGISTRY/mainstay:1.0 -o yaml > mainstay.yaml
  mainstay deploy --uninstall

The image is what `mainstay image build --push REF` writes. Two Deployments are made, operator-controller and catalogd, each with an account of
its own that has the rights it needs and no more; operator-controller is no cluster-admin, extensions are installed by the accounts that they
name. With --combined it is one Deployment that runs `mainstay run olm-v1`, with one account that has the rights of both.

Running the command again brings a deployment to what the flags say: what an earlier run made and this one does not want is removed.

Serving certificates are made by this command, with an authority whose key is thrown away: they are valid for a year, and running the
command again replaces them (the running controllers take them over). With --service-ca openshift the cluster's service CA makes and renews them.

--uninstall keeps the CRDs, and with them catalogs and extensions; as long as there are extensions it also keeps the namespace, which holds
their records. --delete-crds removes everything, but only when there are no extensions.")]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Arguments {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Ask the server what it would do, and keep nothing
    #[arg(long)]
    dry_run: bool,
    /// Where both controllers live
    #[arg(short, long, value_name = "NAMESPACE", default_value = SYSTEM_NAMESPACE)]
    namespace: String,
    /// The image of this program
    #[arg(long, value_name = "REF", required_unless_present = "uninstall")]
    image: Option<String>,
    /// Both controllers in one Deployment, mainstay-olm-v1, with one account that has the rights of both
    #[arg(long)]
    combined: bool,
    /// How many of each controller; one of them works
    #[arg(long, value_name = "N", default_value_t = 2)]
    replicas: u32,
    /// Who makes the serving certificates, if not this command
    #[arg(long, value_name = "WHO")]
    service_ca: Option<ServiceCa>,
    /// Tell Prometheus by ServiceMonitors, also where the cluster does not have them yet
    #[arg(long)]
    service_monitor: bool,
    /// A Secret with credentials for every pull
    #[arg(long, value_name = "NAMESPACE/NAME")]
    global_pull_secret: Option<String>,
    /// Gates: NAME=true|false,...
    #[arg(long, value_name = "LIST", default_value = "")]
    feature_gates: String,
    /// Install extensions as operator-controller, which becomes cluster-admin for that, and ignore the accounts that they name
    #[arg(long)]
    use_own_service_account: bool,
    /// Take fields over that somebody else has set
    #[arg(long)]
    force_conflicts: bool,
    /// Remove what this command made
    #[arg(long, conflicts_with_all = ["image", "output", "combined", "service_ca", "service_monitor"])]
    uninstall: bool,
    /// With --uninstall: the CRDs, too, and with them all catalogs
    #[arg(long, requires = "uninstall")]
    delete_crds: bool,
    /// Print the objects and ask no cluster
    #[arg(short, long, value_name = "FORMAT", conflicts_with = "dry_run")]
    output: Option<Format>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ServiceCa {
    /// The service CA of the cluster: OpenShift's, or this program's (mainstay run service-ca)
    Openshift,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Yaml,
    Json,
}

/// Runs it.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    FeatureGates::parse(Profile::Run, &arguments.feature_gates).map_err(|error| Failure::of(Exit::Usage, "--feature-gates", &error))?;
    if let Some(format) = arguments.output {
        let monitors = arguments.service_monitor;
        let objects: Vec<Value> = definitions()?.into_iter().chain(wanted(arguments, monitors, None)?.objects()).collect();
        return match format {
            Format::Yaml => output::print(&mainstay_yaml::to_multi_string(&objects)),
            Format::Json => output::print(&format!("{:#}\n", json!({"apiVersion": "v1", "kind": "List", "items": objects}))),
        };
    }
    runtime::block_on(async {
        let session = arguments.cluster.open_to_change().await?;
        if arguments.uninstall {
            let writer = if arguments.dry_run { session.writer.dry() } else { session.writer.clone() };
            return remove::remove(&writer, &arguments.namespace, arguments.delete_crds).await;
        }
        deploy(arguments, &session).await
    })
}

async fn deploy(arguments: &Arguments, session: &Session) -> Result<(), Failure> {
    let writer = if arguments.dry_run { session.writer.dry() } else { session.writer.clone() };
    let place = |api_version: &str, kind: &str, name: &str, namespace: &str| ObjectRef {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let definition = place("apiextensions.k8s.io/v1", "CustomResourceDefinition", "servicemonitors.monitoring.coreos.com", "");
    let monitors = arguments.service_monitor || writer.get(&definition).await.map_err(|error| not_written(&error))?.is_some();
    let namespace = writer.get(&place("v1", "Namespace", &arguments.namespace, "")).await.map_err(|error| not_written(&error))?;
    let authorities = match namespace {
        Some(_) => {
            let known = place("v1", "ConfigMap", mainstay_olm_v1::deployment::AUTHORITIES, &arguments.namespace);
            writer.get(&known).await.map_err(|error| not_written(&error))?
        }
        None => None,
    };
    let trusted = authorities.as_ref().and_then(|known| known["data"]["ca.crt"].as_str());
    let wanted = wanted(arguments, monitors, trusted)?;
    if arguments.use_own_service_account {
        note("operator-controller becomes cluster-admin: it installs with its own identity, and ignores the accounts that extensions name");
    }
    let definitions = definitions()?;
    for object in &definitions {
        apply(&writer, object, arguments.force_conflicts).await?;
    }
    if !writer.is_dry() {
        for object in &definitions {
            let place = ObjectRef::of(object).map_err(|error| Failure::failed("manifests", &error))?;
            writer.wait(&place, &Until::Healthy, ESTABLISHED).await.map_err(|error| not_written(&error))?;
        }
    }
    let objects = wanted.objects();
    remove::remove_made(&writer, &arguments.namespace, &objects).await?;
    let mut unasked = 0;
    for object in &objects {
        // A server cannot be asked about objects in a namespace that is not there.
        if writer.is_dry() && namespace.is_none() && object["metadata"]["namespace"] == arguments.namespace.as_str() {
            output::print(&format!("{} not checked by the server (dry run)\n", name(object)))?;
            unasked += 1;
            continue;
        }
        apply(&writer, object, arguments.force_conflicts).await?;
    }
    if unasked > 0 {
        note(format!(
            "namespace {} is not there yet, so the server cannot check what goes into it: {unasked} objects that would be created",
            arguments.namespace
        ));
    }
    if !writer.is_dry() {
        note(format!("hint: kubectl -n {} get deployments shows when they are ready", arguments.namespace));
        if matches!(wanted.certificates, Certificates::Given { .. }) {
            note("hint: the serving certificates are valid for a year; mainstay deploy makes new ones each time");
        }
    }
    Ok(())
}

/// The CRDs of what is deployed.
fn definitions() -> Result<Vec<Value>, Failure> {
    let all = manifests().map_err(|error| Failure::failed("manifests", &error))?;
    Ok(all.into_iter().map(|manifest| manifest.definition).filter(|definition| definition["spec"]["group"] != PLATFORM).collect())
}

fn wanted(arguments: &Arguments, service_monitor: bool, trusted: Option<&str>) -> Result<Deployment, Failure> {
    let pull_secret = arguments.global_pull_secret.as_deref().map(|text| match text.split('/').collect::<Vec<_>>().as_slice() {
        [namespace, name] if !namespace.is_empty() && !name.is_empty() => Ok(((*namespace).to_owned(), (*name).to_owned())),
        _ => Err(Failure::new(Exit::Usage, "--global-pull-secret", format!("expected NAMESPACE/NAME, found {text:?}"))),
    });
    let certificates = match arguments.service_ca {
        Some(ServiceCa::Openshift) => Certificates::ServiceCa,
        None => certificates::make(&arguments.namespace, trusted)?,
    };
    Ok(Deployment {
        namespace: arguments.namespace.clone(),
        image: arguments.image.clone().unwrap_or_default(),
        combined: arguments.combined,
        replicas: arguments.replicas,
        certificates,
        service_monitor,
        pull_secret: pull_secret.transpose()?,
        feature_gates: arguments.feature_gates.clone(),
        own_service_account: arguments.use_own_service_account,
    })
}

async fn apply(writer: &Writer, object: &Value, force: bool) -> Result<(), Failure> {
    let (_, effect) = writer.apply(object, force, &Expect::default()).await.map_err(|error| refused(object, &error))?;
    let done = match effect {
        Effect::Created => "created",
        _ => "applied",
    };
    output::print(&format!("{} {done}{}\n", name(object), if writer.is_dry() { " (dry run)" } else { "" }))
}

fn refused(object: &Value, error: &WriteError) -> Failure {
    let failure = not_written(error).because(name(object));
    match error.reason() {
        Some(mainstay_apply::Reason::FieldConflict(_)) => failure.hint("--force-conflicts takes the fields over"),
        _ => failure,
    }
}

/// `kind/name`, with the namespace where there is one.
fn name(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let namespace = match text("/metadata/namespace") {
        "" => String::new(),
        namespace => format!(" in {namespace}"),
    };
    format!("{}/{}{namespace}", text("/kind").to_lowercase(), text("/metadata/name"))
}
