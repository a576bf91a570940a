//! `mainstay deploy`: deploys the components of `mainstay run` to a cluster, and removes them (MS-CLI-04).
//!
//! ```text
//!   flags ──► components ──► objects (olm_v1::deployment) ──┬──► -o yaml
//!                                                           ├──► --dry-run: the server's answer to each
//!                                                           └──► server-side apply, CRDs first
//! ```

mod certificates;
mod classic;
mod cluster_version;
mod components;
mod home;
mod remove;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clap::{Args, ValueEnum};
use mainstay_api::manifests;
use mainstay_apply::{Effect, Reason, WriteError, Writer};
use mainstay_cluster_operators::storage_migration;
use mainstay_diagnostics::counted;
use mainstay_objects::{Expect, ObjectRef, Until};
use mainstay_olm_classic_core::hub;
use mainstay_olm_v1::cluster_operator;
use mainstay_olm_v1::deployment::{Certificates, Frame, OlmV1, Writes, lent};
use mainstay_olm_v1_core::gates::{FeatureGates, Profile};
use mainstay_operations::not_written;
use mainstay_operations::settings::SYSTEM_NAMESPACE;
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Exit, Failure, note};
use mainstay_terminal::{output, runtime};
use serde_json::{Value, json};

use crate::named;
use crate::up::classic::CatalogServing;
use classic::OlmClassic;
use components::{Component, Shape};

/// Limit for a CRD to be served.
const ESTABLISHED: Duration = Duration::from_secs(60);
/// Limit for a namespace that is being deleted to go.
const EMPTIED: Duration = Duration::from_secs(120);
/// Kinds of this group are the platform's own.
const PLATFORM: &str = "config.openshift.io";
/// Attempts for an object that changes meanwhile.
const LOOKS: usize = 5;
/// Writes to deployed objects by parts of this program.
const WRITERS: [Writes; 3] = [
    Writes {
        manager: mainstay_service_ca::ACCOUNT,
        kind: "MutatingWebhookConfiguration",
        begins: ".webhooks[",
        ends: ".clientConfig.caBundle",
        makes: false,
    },
    Writes { manager: mainstay_service_ca::ACCOUNT, kind: "Secret", begins: ".data.tls.", ends: "", makes: true },
    Writes {
        manager: cluster_operator::ACCOUNT,
        kind: "Deployment",
        begins: ".spec.template.spec.containers[name=\"manager\"]",
        ends: ".args",
        makes: false,
    },
];

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay deploy --image REGISTRY/mainstay:1.0
  mainstay deploy --image REGISTRY/mainstay:1.0 --dry-run
  mainstay deploy --image REGISTRY/mainstay:1.0 --combined
  mainstay deploy --image REGISTRY/mainstay:1.0 --components olm-v1,service-ca --certificates service-ca
  mainstay deploy --image REGISTRY/mainstay:1.0 -o yaml > mainstay.yaml
  mainstay deploy --image REGISTRY/mainstay:1.0 --components olm-classic --default-catalogs --release-version 4.19.3
  mainstay deploy --image REGISTRY/mainstay:1.0 --components cluster-version,storage-migrator
  mainstay deploy --uninstall

Components, each in its own namespace:
  olm-v1                 catalogd and operator-controller (--namespace)
  service-ca             serving certificates for Services (openshift-service-ca)
  cluster-olm-operator   OpenShift's default catalogs, proxy, gates and upgrade guard (openshift-cluster-olm-operator); only where
                         olms.operator.openshift.io is served
  all                    all of these that this cluster has a use for
  olm-classic            OLM classic: both operators, package server and marketplace (openshift-operator-lifecycle-manager)
  cloud-credential       Secrets for CredentialsRequests (openshift-cloud-credential-operator); definitions that the cluster lacks come along
  storage-migrator       writes objects again whose kind is stored in another version now (openshift-kube-storage-version-migrator)
  machine-api            Machines, their sets, health checks, drains and certificates of nodes (openshift-machine-api); not beside a
                         machine-api-operator; with --autoscaler also the sizes of sets
  machine-config         the configuration of nodes: pools, roll-out, drains (openshift-machine-config-operator); nodes need a daemon of their own
  cluster-version        the release of the cluster's platform, and updates of it (openshift-cluster-version)

The image is what `mainstay image build --push REF` writes. Each program is a Deployment with an account of its own that has the permissions it
needs and no more; operator-controller is no cluster-admin, extensions are installed by the accounts that they name. It may act as those
accounts alone: mainstay install grants it each, and so does the output of mainstay rbac; this command does it for extensions that are there.
--any-service-account lets it act as every account of the cluster, cluster-admin's among them; --create-namespaces lets it make the
namespaces of extensions that ask for that (annotation lifecycle.mainstay.dev/missing-namespace: Create). With --combined
catalogd and operator-controller are one Deployment that runs `mainstay run olm-v1`, with one account that has the permissions of both.

Running the command again brings the components that it names to what the flags say: what an earlier run made of them and this one does
not want is removed.

Serving certificates are made by this command, with an authority whose key is thrown away: they are valid for a year, and running the
command again replaces them (the running controllers take them over). With --certificates service-ca the cluster's service CA makes and
renews them, but for its own; with --certificates cert-manager, cert-manager does. The API server is told whom to trust for the webhook that
labels catalogs with their name.

OLM classic is one Deployment without further pods, since it reads catalogs and bundles by itself (but for --catalog-serving pods). Its operators may do everything, as upstream's
may, so it is deployed only when it is named; beside them, the package server and the marketplace act as accounts that may do little. Settings
(OperatorHub, OLMConfig, OperatorGroups) are made once and never changed again; the default catalogs are off without --default-catalogs. The
package server makes its certificate at each start, and tells the API server of it.

The Cluster Version Operator is a cluster administrator, since it creates every object of a release, and is deployed only when it is named.
mainstay adm release install then says which release. Where another one works, it is not deployed. The storage migrator reads and updates objects of
any kind.

--uninstall keeps the CRDs, and with them catalogs and extensions; as long as there are extensions it also keeps the namespace, which holds
their records. --delete-crds removes everything, but only when there are no extensions, and of OLM classic only when there are no subscriptions and
no operators. Namespaces of operators and of catalogs stay.")]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Arguments {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Ask the server what it would do, and keep nothing
    #[arg(long)]
    dry_run: bool,
    /// What to deploy, or to uninstall: names, separated by commas, or all [default: olm-v1; with --uninstall all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    components: Vec<Name>,
    /// Where both controllers of OLM v1 live
    #[arg(short, long, value_name = "NAMESPACE", value_parser = named::namespace, default_value = SYSTEM_NAMESPACE)]
    namespace: String,
    /// The image of this program
    #[arg(long, value_name = "REF", required_unless_present = "uninstall")]
    image: Option<String>,
    /// Both controllers in one Deployment, mainstay-olm-v1, with one account that has the permissions of both
    #[arg(long)]
    combined: bool,
    /// How many of each program; one of them works
    #[arg(long, value_name = "N", default_value_t = 2)]
    replicas: u32,
    /// Who makes the serving certificates
    #[arg(long, value_name = "WHO", value_enum, default_value_t = Issuer::Deploy)]
    certificates: Issuer,
    /// Tell Prometheus by ServiceMonitors, also where the cluster does not have them yet
    #[arg(long)]
    service_monitor: bool,
    /// A Secret with credentials for every pull
    #[arg(long, value_name = "NAMESPACE/NAME")]
    global_pull_secret: Option<String>,
    /// A pull secret of one catalog, in the controllers' namespace, that catalogd may read; can be repeated
    #[arg(long, value_name = "NAME")]
    catalog_pull_secret: Vec<String>,
    /// Gates: NAME=true|false,...
    #[arg(long, value_name = "LIST", default_value = "")]
    feature_gates: String,
    /// Let operator-controller act as every ServiceAccount of the cluster, so that a process that takes it over is as powerful as the most powerful
    /// of them; without this it may act as the accounts of extensions alone, each of which is granted to it
    #[arg(long)]
    any_service_account: bool,
    /// Let operator-controller look at namespaces and make them, for extensions that ask for theirs
    #[arg(long)]
    create_namespaces: bool,
    /// Let the process of machine-api also scale sets of machines, as ClusterAutoscaler default and MachineAutoscalers say
    #[arg(long)]
    autoscaler: bool,
    /// Install extensions as operator-controller, which becomes cluster-admin for that, and ignore the accounts that they name
    #[arg(long)]
    use_own_service_account: bool,
    /// Start OLM classic with the default catalogs, whose images must be reachable
    #[arg(long)]
    default_catalogs: bool,
    /// The platform's release, which the images of the default catalogs follow [default: that of mainstay run]
    #[arg(long, value_name = "VERSION")]
    release_version: Option<String>,
    /// Serve OLM classic's catalogs and unpack bundles by pods and Jobs, as upstream has it, or by its own process [default: in-process]
    #[arg(long, value_name = "pods|in-process")]
    catalog_serving: Option<CatalogServing>,
    /// Take over fields that another field manager owns
    #[arg(long)]
    force_conflicts: bool,
    /// Remove what this command made
    #[arg(long, conflicts_with_all = ["image", "output", "combined", "certificates", "service_monitor"])]
    uninstall: bool,
    /// With --uninstall: the CRDs, too, and with them all catalogs
    #[arg(long, requires = "uninstall")]
    delete_crds: bool,
    /// Print the objects and ask no cluster
    #[arg(short, long, value_name = "FORMAT", conflicts_with = "dry_run")]
    output: Option<Format>,
}

/// A name of what can be deployed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Name {
    OlmV1,
    ServiceCa,
    ClusterOlmOperator,
    OlmClassic,
    CloudCredential,
    StorageMigrator,
    MachineApi,
    MachineConfig,
    ClusterVersion,
    All,
}

/// Who makes certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Issuer {
    /// This command
    Deploy,
    /// The service CA of the cluster: OpenShift's, or this program's
    ServiceCa,
    /// cert-manager, which must be there
    CertManager,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Yaml,
    Json,
}

/// Deploys or removes the components.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    FeatureGates::parse(Profile::Run, &arguments.feature_gates).map_err(|error| Failure::of(Exit::Usage, "--feature-gates", &error))?;
    let chosen = chosen(arguments)?;
    let shape = shape(arguments)?;
    if let Some(format) = arguments.output {
        let mut objects = if chosen.contains(&Component::OlmV1) { definitions()? } else { Vec::new() };
        if chosen.contains(&Component::OlmClassic) {
            objects.extend(classic::definitions()?);
        }
        objects.extend(platform_definitions(&chosen, shape.autoscaler)?);
        for component in &chosen {
            let frame = frame(*component, &shape, arguments, arguments.service_monitor, None)?;
            objects.extend(component.objects(&shape, &frame));
        }
        if chosen.contains(&Component::OlmClassic) {
            objects.extend(shape.classic.settings());
        }
        return match format {
            Format::Yaml => output::yaml(&objects),
            Format::Json => output::json(&format!("{:#}\n", json!({"apiVersion": "v1", "kind": "List", "items": objects}))),
        };
    }
    runtime::block_on(async {
        let session = arguments.cluster.open_to_change().await?;
        let writer = if arguments.dry_run { session.writer.dry() } else { session.writer.clone() };
        if chosen.contains(&Component::OlmV1) {
            home::check(&writer, &arguments.namespace, arguments.uninstall).await?;
        }
        if arguments.uninstall {
            return remove::remove(&writer, &chosen, &arguments.namespace, arguments.delete_crds).await;
        }
        deploy(arguments, chosen, &shape, &writer).await
    })
}

/// The components that are named, or the default ones.
fn chosen(arguments: &Arguments) -> Result<BTreeSet<Component>, Failure> {
    let default = if arguments.uninstall { Name::All } else { Name::OlmV1 };
    let names = if arguments.components.is_empty() { &[default] } else { &arguments.components[..] };
    let chosen: BTreeSet<Component> = names
        .iter()
        .flat_map(|name| match name {
            Name::OlmV1 => vec![Component::OlmV1],
            Name::ServiceCa => vec![Component::ServiceCa],
            Name::ClusterOlmOperator => vec![Component::ClusterOlmOperator],
            Name::OlmClassic => vec![Component::OlmClassic],
            Name::CloudCredential => vec![Component::CloudCredential],
            Name::StorageMigrator => vec![Component::StorageMigrator],
            Name::MachineApi => vec![Component::MachineApi],
            Name::MachineConfig => vec![Component::MachineConfig],
            Name::ClusterVersion => vec![Component::ClusterVersion],
            Name::All if arguments.uninstall => Component::ALL.to_vec(),
            Name::All => Component::USUAL.to_vec(),
        })
        .collect();
    for (flag, is_given) in [
        ("--combined", arguments.combined),
        ("--catalog-pull-secret", !arguments.catalog_pull_secret.is_empty()),
        ("--feature-gates", !arguments.feature_gates.is_empty()),
        ("--use-own-service-account", arguments.use_own_service_account),
        ("--any-service-account", arguments.any_service_account),
        ("--create-namespaces", arguments.create_namespaces),
        ("--delete-crds", arguments.delete_crds && !chosen.contains(&Component::OlmClassic)),
    ] {
        if is_given && !chosen.contains(&Component::OlmV1) {
            return Err(Failure::new(Exit::Usage, flag, "it is olm-v1's, which is not among the components"));
        }
    }
    if arguments.autoscaler && !chosen.contains(&Component::MachineApi) {
        return Err(Failure::new(Exit::Usage, "--autoscaler", "it is machine-api's, which is not among the components"));
    }
    if arguments.global_pull_secret.is_some() && !chosen.contains(&Component::OlmV1) && !chosen.contains(&Component::OlmClassic) {
        let why = "it is that of olm-v1 and olm-classic, neither of which is among the components";
        return Err(Failure::new(Exit::Usage, "--global-pull-secret", why));
    }
    for (flag, is_given) in [
        ("--default-catalogs", arguments.default_catalogs),
        ("--release-version", arguments.release_version.is_some()),
        ("--catalog-serving", arguments.catalog_serving.is_some()),
    ] {
        if is_given && !chosen.contains(&Component::OlmClassic) {
            return Err(Failure::new(Exit::Usage, flag, "it is olm-classic's, which is not among the components"));
        }
    }
    Ok(chosen)
}

fn shape(arguments: &Arguments) -> Result<Shape, Failure> {
    let pull_secret = arguments.global_pull_secret.as_deref().map(|text| match text.split('/').collect::<Vec<_>>().as_slice() {
        [namespace, name] if !namespace.is_empty() && !name.is_empty() => Ok(((*namespace).to_owned(), (*name).to_owned())),
        _ => Err(Failure::new(Exit::Usage, "--global-pull-secret", format!("expected NAMESPACE/NAME, found {text:?}"))),
    });
    let pull_secret = pull_secret.transpose()?;
    let olm_v1 = OlmV1 {
        combined: arguments.combined,
        pull_secret: pull_secret.clone(),
        catalog_pull_secrets: arguments.catalog_pull_secret.clone(),
        feature_gates: arguments.feature_gates.clone(),
        own_service_account: arguments.use_own_service_account,
        any_service_account: arguments.any_service_account,
        create_namespaces: arguments.create_namespaces,
        extensions: Vec::new(),
    };
    let classic = OlmClassic {
        release: arguments.release_version.clone(),
        default_catalogs: arguments.default_catalogs,
        by_pods: arguments.catalog_serving == Some(CatalogServing::Pods),
        pull_secret,
    };
    if let Some(release) = &classic.release {
        hub::definitions(&hub::default_catalogs(), release).map_err(|error| Failure::of(Exit::Usage, "--release-version", &error))?;
    }
    Ok(Shape { system_namespace: arguments.namespace.clone(), olm_v1, classic, autoscaler: arguments.autoscaler })
}

/// Settings of all programs of a component; `trusted` are the authorities that are trusted so far.
fn frame(
    component: Component,
    shape: &Shape,
    arguments: &Arguments,
    service_monitor: bool,
    trusted: Option<&str>,
) -> Result<Frame, Failure> {
    let namespace = component.namespace(shape).to_owned();
    let certificates = match arguments.certificates {
        Issuer::CertManager => Certificates::CertManager,
        // The service CA serves before it can make a certificate for itself.
        Issuer::ServiceCa if component != Component::ServiceCa => Certificates::ServiceCa,
        Issuer::ServiceCa | Issuer::Deploy => certificates::make(&namespace, &component.serving(shape), trusted)?,
    };
    let (image, replicas) = (arguments.image.clone().unwrap_or_default(), arguments.replicas);
    Ok(Frame { namespace, image, replicas, certificates, authorities: component.authorities(), service_monitor })
}

async fn deploy(arguments: &Arguments, mut chosen: BTreeSet<Component>, shape: &Shape, writer: &Writer) -> Result<(), Failure> {
    let has_definition = async |name: &str| {
        let found = writer.get(&place("apiextensions.k8s.io/v1", "CustomResourceDefinition", name, "")).await;
        found.map(|found| found.is_some()).map_err(|error| not_written(&error))
    };
    if chosen.contains(&Component::ClusterOlmOperator) && !has_definition(cluster_operator::DEFINITION).await? {
        if arguments.components.contains(&Name::ClusterOlmOperator) {
            let problem = format!("this cluster has no {}, which it works on", cluster_operator::DEFINITION);
            return Err(Failure::new(Exit::Impossible, Component::ClusterOlmOperator.name(), problem)
                .hint("--components all leaves out what a cluster has no use for"));
        }
        note(format!("cluster-olm-operator is left out: this cluster has no {}", cluster_operator::DEFINITION));
        chosen.remove(&Component::ClusterOlmOperator);
    }
    let monitors = arguments.service_monitor || has_definition("servicemonitors.monitoring.coreos.com").await?;
    if arguments.use_own_service_account {
        note("operator-controller becomes cluster-admin: it installs with its own identity, and ignores the accounts that extensions name");
    }
    let mut shape = shape.clone();
    if chosen.contains(&Component::OlmV1) {
        define(writer, arguments.force_conflicts).await?;
        if arguments.any_service_account {
            note("operator-controller may act as every ServiceAccount of the cluster, and so may a process that takes it over");
        } else if !arguments.use_own_service_account {
            shape.olm_v1.extensions = home::not_lent(writer, &shape).await?;
        }
    }
    if chosen.contains(&Component::OlmClassic) {
        classic::check(writer).await?;
        note("the operators of OLM classic may do everything on this cluster, as upstream's may");
        classic::define(writer, arguments.force_conflicts).await?;
    }
    if chosen.contains(&Component::MachineApi) {
        refuse_rival(writer, mainstay_machine_api::OTHER, "it manages the machines of this cluster already").await?;
        if shape.autoscaler {
            refuse_rival(writer, mainstay_autoscaler::OTHER, "it scales the machines of this cluster already").await?;
        }
    }
    if chosen.contains(&Component::ClusterVersion) {
        cluster_version::check(writer).await?;
        note("the Cluster Version Operator may do everything on this cluster: it creates every object of a release");
    }
    for definition in platform_definitions(&chosen, shape.autoscaler)? {
        // A platform's own definitions are better than these.
        if !has_definition(definition["metadata"]["name"].as_str().unwrap_or_default()).await? {
            apply(writer, &definition, arguments.force_conflicts).await?;
        }
    }
    let shape = &shape;
    let (mut unasked, mut made_here) = (BTreeMap::new(), false);
    for component in &chosen {
        emptied(writer, component.namespace(shape)).await?;
        let known = place("v1", "ConfigMap", component.authorities(), component.namespace(shape));
        let known = writer.get(&known).await.map_err(|error| not_written(&error))?;
        // Certificates that the service CA signed are served until the new ones are in use everywhere.
        let authority = |key: &str| known.as_ref().and_then(|known| known["data"][key].as_str());
        let trusted = authority("ca.crt").or_else(|| authority("service-ca.crt"));
        let frame = frame(*component, shape, arguments, monitors, trusted)?;
        made_here |= matches!(frame.certificates, Certificates::Provided { .. });
        let objects = component.objects(shape, &frame);
        remove::remove_made(writer, *component, &shape.system_namespace, &objects).await?;
        write(writer, objects, arguments.force_conflicts, &mut unasked).await?;
        if *component == Component::OlmClassic {
            classic::settle(writer, shape.classic.settings(), &mut unasked).await?;
        }
    }
    for (namespace, objects) in unasked {
        note(format!(
            "namespace {namespace} is not there yet, so the server cannot check what goes into it: {} that would be created",
            counted(objects, "object")
        ));
    }
    if !writer.is_dry() {
        for component in &chosen {
            note(format!("hint: kubectl -n {} get deployments shows when they are ready", component.namespace(shape)));
        }
        if made_here {
            note("hint: the serving certificates are valid for a year; mainstay deploy makes new ones each time");
        }
    }
    Ok(())
}

/// Writes the CRDs, and waits until they are served.
async fn define(writer: &Writer, force: bool) -> Result<(), Failure> {
    let definitions = definitions()?;
    for object in &definitions {
        apply(writer, object, force).await?;
    }
    if !writer.is_dry() {
        for object in &definitions {
            let place = ObjectRef::of(object).map_err(|error| Failure::failed("manifests", &error))?;
            writer.wait(&place, &Until::Healthy, ESTABLISHED).await.map_err(|error| not_written(&error))?;
        }
    }
    Ok(())
}

/// Writes the objects of a component; `unasked` counts, by namespace, those that a dry run could not send to the server.
async fn write(writer: &Writer, objects: Vec<Value>, force: bool, unasked: &mut BTreeMap<String, usize>) -> Result<(), Failure> {
    // A webhook that the API server calls already must be trusted with the new authority before it shows the new certificate, and a Service must
    // have stopped asking for a certificate before its Secret holds another one.
    let (mut first, mut others) = (Vec::new(), Vec::new());
    for object in objects {
        let matters = object["kind"] == "MutatingWebhookConfiguration" || object["kind"] == "Service";
        if matters && is_there(writer, &object).await? { first.push(object) } else { others.push(object) }
    }
    first.sort_by_key(|object| object["kind"] == "Service");
    for object in first.iter().chain(&others) {
        // A server refuses a dry run in a namespace that does not exist.
        if let (true, Some(namespace)) = (writer.is_dry(), object["metadata"]["namespace"].as_str())
            && namespace_state(writer, namespace).await? != Some(NamespaceState::Stays)
        {
            output::print(&format!("{} not checked by the server (dry run)\n", name(object)))?;
            *unasked.entry(namespace.to_owned()).or_default() += 1;
            continue;
        }
        apply(writer, object, force).await?;
    }
    Ok(())
}

/// The readiness of an existing namespace for objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NamespaceState {
    Stays,
    /// It is being deleted; nothing can be created in it.
    Ends,
}

async fn namespace_state(writer: &Writer, name: &str) -> Result<Option<NamespaceState>, Failure> {
    let live = writer.get(&place("v1", "Namespace", name, "")).await.map_err(|error| not_written(&error))?;
    Ok(live.map(|live| if live["metadata"]["deletionTimestamp"].is_null() { NamespaceState::Stays } else { NamespaceState::Ends }))
}

/// Waits until a namespace that is being deleted, for example by a recent `--uninstall`, is gone.
async fn emptied(writer: &Writer, name: &str) -> Result<(), Failure> {
    if namespace_state(writer, name).await? != Some(NamespaceState::Ends) {
        return Ok(());
    }
    note(format!("namespace {name} is being deleted; it is created again when it is gone"));
    if !writer.is_dry() {
        let gone = writer.wait(&place("v1", "Namespace", name, ""), &Until::Gone, EMPTIED).await;
        gone.map_err(|error| not_written(&error).hint(format!("kubectl get namespace {name} -o yaml says what keeps it")))?;
    }
    Ok(())
}

/// Refuses to work beside an operator of the platform that does the same.
async fn refuse_rival(writer: &Writer, name: &str, why: &str) -> Result<(), Failure> {
    let rival = place("apps/v1", "Deployment", name, mainstay_machine_api::NAMESPACE);
    if writer.get(&rival).await.map_err(|error| not_written(&error))?.is_none() {
        return Ok(());
    }
    let subject = format!("deployment {}/{}", rival.namespace, rival.name);
    Err(Failure::new(Exit::Impossible, subject, why).hint("mainstay machine and mainstay explain machine work beside it"))
}

async fn is_there(writer: &Writer, object: &Value) -> Result<bool, Failure> {
    let place = ObjectRef::of(object).map_err(|error| Failure::failed("manifests", &error))?;
    Ok(writer.get(&place).await.map_err(|error| not_written(&error))?.is_some())
}

fn place(api_version: &str, kind: &str, name: &str, namespace: &str) -> ObjectRef {
    ObjectRef { api_version: api_version.to_owned(), kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
}

/// The CRDs of a platform that these components work on, and that a cluster may lack.
fn platform_definitions(chosen: &BTreeSet<Component>, with_autoscaler: bool) -> Result<Vec<Value>, Failure> {
    let mut all = if chosen.contains(&Component::CloudCredential) { credentials_definitions()? } else { Vec::new() };
    if chosen.contains(&Component::StorageMigrator) {
        all.extend(storage_migration::definitions());
    }
    if chosen.contains(&Component::MachineApi) {
        let kinds = mainstay_machine_api::definitions().map_err(|error| Failure::failed("manifests", &error))?;
        // The simulated provider is for the embedded cluster alone.
        all.extend(kinds.into_iter().filter(|definition| definition["spec"]["group"] != mainstay_machine_api::simulated::GROUP));
        if with_autoscaler {
            all.extend(mainstay_autoscaler::definitions().map_err(|error| Failure::failed("manifests", &error))?);
        }
    }
    if chosen.contains(&Component::MachineConfig) {
        let kinds = mainstay_api::machine_config_manifests().map_err(|error| Failure::failed("manifests", &error))?;
        all.extend(kinds.into_iter().map(|manifest| manifest.definition));
    }
    Ok(all)
}

/// The CRDs that requests for credentials are about.
fn credentials_definitions() -> Result<Vec<Value>, Failure> {
    let all = mainstay_api::platform_manifests().map_err(|error| Failure::failed("manifests", &error))?;
    let concerns = |definition: &Value| {
        let name = definition["spec"]["names"]["plural"].as_str().unwrap_or_default();
        ["credentialsrequests", "cloudcredentials", "authentications", "infrastructures"].contains(&name)
    };
    Ok(all.into_iter().map(|manifest| manifest.definition).filter(concerns).collect())
}

/// The CRDs of OLM v1.
fn definitions() -> Result<Vec<Value>, Failure> {
    let all = manifests().map_err(|error| Failure::failed("manifests", &error))?;
    Ok(all.into_iter().map(|manifest| manifest.definition).filter(|definition| definition["spec"]["group"] != PLATFORM).collect())
}

async fn apply(writer: &Writer, object: &Value, force: bool) -> Result<(), Failure> {
    let applied = match writer.apply(object, force, &Expect::default()).await {
        Err(error) if matches!(error.reason(), Some(Reason::FieldConflict(_))) => take_back(writer, object, error).await,
        applied => applied.map(|(_, effect)| effect),
    };
    let effect = applied.map_err(|error| refused(object, &error))?;
    let done = match effect {
        Effect::Created => "created",
        _ => "applied",
    };
    output::print(&format!("{} {done}{}\n", name(object), if writer.is_dry() { " (dry run)" } else { "" }))
}

/// Applies over fields that parts of this program wrote because an earlier run asked them to, if there is nothing else to apply over. The decision
/// and the write concern the same version of the object.
async fn take_back(writer: &Writer, object: &Value, mut refusal: WriteError) -> Result<Effect, WriteError> {
    let place = ObjectRef::of(object)?;
    for _ in 0..LOOKS {
        let Some(live) = writer.get(&place).await? else { break };
        let seen = Expect::exactly(&live);
        let mut applied = writer.apply(object, false, &seen).await;
        if let Err(error) = &applied
            && let Some(Reason::FieldConflict(conflicts)) = error.reason()
            && lent(&live, conflicts, &WRITERS)
        {
            applied = writer.apply(object, true, &seen).await;
        }
        match applied {
            Ok((_, effect)) => return Ok(effect),
            // It changed since it was read.
            Err(error) if error.reason() == Some(&Reason::Conflict) => refusal = error,
            Err(error) => return Err(error),
        }
    }
    Err(refusal)
}

fn refused(object: &Value, error: &WriteError) -> Failure {
    let failure = Failure::from(not_written(error)).because(name(object));
    if object["apiVersion"] == "cert-manager.io/v1" && remove::not_served(error) {
        return failure.hint("is cert-manager installed? Without it, --certificates deploy");
    }
    match error.reason() {
        Some(Reason::FieldConflict(_)) => failure.hint("--force-conflicts takes the fields over"),
        _ => failure,
    }
}

/// `kind/name`, with the namespace if there is one.
fn name(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let namespace = match text("/metadata/namespace") {
        "" => String::new(),
        namespace => format!(" in {namespace}"),
    };
    format!("{}/{}{namespace}", text("/kind").to_lowercase(), text("/metadata/name"))
}
