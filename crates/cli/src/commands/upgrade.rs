//! `mainstay upgrade`: another version or channel of an extension, with the rights that it needs (MS-CLI-05).

use std::time::{Duration, Instant};

use clap::Args;
use k8s_openapi::api::rbac::v1::{ClusterRole, Role};
use kube::api::{Api, ListParams, Patch, PatchParams};
use mainstay_api::olm_v1::{ClusterExtension, NAME_LABEL, UpgradeConstraintPolicy as Declared};
use mainstay_bundle::rights::{Grant, Installer, Scope, manifests, missing};
use mainstay_rbac::parse_rules;
use mainstay_resolver::{InstalledBundle, UpgradeConstraintPolicy};
use serde_json::{Value, json};

use super::install::{INSTALLER_LABEL, apply, finish, labelled, say_choice};
use crate::cluster::{ClusterArgs, MANAGER, Session, refused};
use crate::errors::{Exit, Failure, note};
use crate::extensions::{self, Chosen, Wanted};
use crate::output::{self, Format};
use crate::progress::{Progress, confirm};
use crate::runtime;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay upgrade beacon                      to the newest version that its channels and update edges allow
  mainstay upgrade beacon --version 1.1.x      to a version in this range; later ones in it follow by themselves
  mainstay upgrade beacon --channel candidate

Without --version a version that is pinned is let go. Rights that the new version needs beyond the present ones are shown and granted to
the account that mainstay install made; an account of yours is left alone.")]
pub struct Arguments {
    /// The extension
    pub name: String,
    /// The versions that will do, now and later
    #[arg(long, value_name = "RANGE")]
    pub version: Option<String>,
    /// A channel that will do; can be repeated
    #[arg(long, value_name = "CHANNEL")]
    pub channel: Vec<String>,
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

/// Upgrades.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    runtime::block_on(async {
        let session = arguments.cluster.open_to_change().await?;
        let name = &arguments.name;
        let before = extensions::get(&session, name).await?;
        let pinned = before.spec.source.catalog.as_ref().and_then(|catalog| catalog.version.clone());
        let back = extensions::installed(&before).map_or_else(String::new, |bundle| bundle.version);
        let hints = || {
            vec![
                format!("what was written stays, and the cluster goes on; mainstay describe {name} shows how it stands"),
                format!("before, {back} was installed with version {}", pinned.as_deref().unwrap_or("not pinned")),
            ]
        };
        runtime::until_interrupt(upgrade(&session, arguments, &before), hints).await
    })
}

/// The bundles that the cluster goes through, one resolution after the other, until one stays (OLM1-UPG-07).
async fn path(session: &Session, wanted: &Wanted, progress: &mut Progress) -> Result<Vec<Chosen>, Failure> {
    /// No channel is so long; only a catalog that leads round in a circle is.
    const STEPS: usize = 100;
    let mut path: Vec<Chosen> = Vec::new();
    let mut next = wanted.clone();
    while path.len() < STEPS {
        let chosen = extensions::choose(session, &next, progress).await?;
        let choice = &chosen.resolution.choice;
        let installed = InstalledBundle { name: choice.bundle.clone(), version: choice.version.clone() };
        if chosen.resolution.stays && !path.is_empty() {
            break;
        }
        let stays = chosen.resolution.stays;
        next.installed = Some(installed);
        path.push(chosen);
        if stays {
            break;
        }
    }
    Ok(path)
}

async fn upgrade(session: &Session, arguments: &Arguments, extension: &ClusterExtension) -> Result<(), Failure> {
    let begun = Instant::now();
    let name = &arguments.name;
    let Some(catalog) = &extension.spec.source.catalog else {
        return Err(Failure::new(Exit::Impossible, format!("clusterextension {name}"), "has no catalog as its source"));
    };
    let installed = extensions::installed(extension);
    let channels = if arguments.channel.is_empty() {
        catalog.channels.iter().map(|channel| channel.0.clone()).collect()
    } else {
        arguments.channel.clone()
    };
    let only = catalog.selector.as_ref().and_then(|selector| selector.match_labels.get(NAME_LABEL).cloned());
    let policy = match catalog.upgrade_constraint_policy {
        Declared::SelfCertified => UpgradeConstraintPolicy::SelfCertified,
        Declared::CatalogProvided => UpgradeConstraintPolicy::CatalogProvided,
    };
    let wanted =
        Wanted { package: catalog.package_name.clone(), channels, version: arguments.version.clone(), catalog: only, policy, installed };
    let mut progress = Progress::start();
    let path = path(session, &wanted, &mut progress).await?;
    let namespace = &extension.spec.namespace;
    let granted = Granted::read(session, extension).await?;
    let (mut objects, mut needed) = (Vec::new(), Vec::new());
    for chosen in &path {
        // The last one's objects stay; each one's rights are needed on the way.
        objects = extensions::rendered(&chosen.bundle, namespace, extensions::watch_namespace(extension))?;
        needed.extend(extensions::rights(&objects, name));
    }
    let beyond = granted.as_ref().map(|granted| missing(&granted.grants, &needed)).unwrap_or_default();
    drop(progress);

    path.iter().for_each(say_choice);
    let Some(chosen) = path.last() else {
        return Err(Failure::new(Exit::Impossible, format!("clusterextension {name}"), "no bundle fits"));
    };
    if !beyond.is_empty() {
        note("rights that the installer gets in addition:");
        for grant in &beyond {
            note(format!("  {}", extensions::in_words(grant)));
        }
    }
    let bundle = &chosen.resolution.choice.bundle;
    confirm(&format!("upgrade {name} to {bundle}?"), arguments.yes)?;
    let mut progress = Progress::start();
    if let Some(granted) = granted.filter(|_| !beyond.is_empty()) {
        let all: Vec<Grant> = granted.grants.into_iter().chain(beyond).collect();
        for object in manifests(&all, &granted.installer) {
            apply(session, &labelled(object, name)).await?;
        }
    }
    let patch = json!({"spec": {"source": {"catalog": {
        "version": wanted.version,
        "channels": if wanted.channels.is_empty() { Value::Null } else { wanted.channels.clone().into() },
    }}}});
    let api: Api<ClusterExtension> = Api::all(session.client.clone());
    let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    api.patch(name, &parameters, &Patch::Merge(&patch)).await.map_err(|error| refused(format!("clusterextension {name}"), &error))?;
    if arguments.no_wait {
        drop(progress);
        return output::line(format!("clusterextension {name} changed; {bundle} is being installed"));
    }
    let after = extensions::settle(session, name, bundle, &objects, Duration::from_secs(arguments.timeout), &mut progress).await?;
    drop(progress);
    let from = wanted.installed.map_or_else(|| "nothing".to_owned(), |bundle| bundle.name);
    finish(&arguments.output, &after, || {
        if path.len() == 1 && chosen.resolution.stays {
            format!("clusterextension {name}: {bundle} is installed already and stays")
        } else {
            format!("clusterextension {name}: {from} upgraded to {bundle} in {:.1} s", begun.elapsed().as_secs_f64())
        }
    })
}

/// What the account that install made may do.
struct Granted {
    installer: Installer,
    grants: Vec<Grant>,
}

impl Granted {
    /// Nothing where the account is not ours, or is an administrator.
    async fn read(session: &Session, extension: &ClusterExtension) -> Result<Option<Self>, Failure> {
        let name = extension.metadata.name.clone().unwrap_or_default();
        let ours = ListParams::default().labels(&format!("{INSTALLER_LABEL}={name}"));
        let subject = || format!("roles of the installer of {name}");
        let cluster_roles: Api<ClusterRole> = Api::all(session.client.clone());
        let roles: Api<Role> = Api::all(session.client.clone());
        let mut grants = Vec::new();
        for role in cluster_roles.list(&ours).await.map_err(|error| refused(subject(), &error))? {
            grants.extend(rules(&role, &Scope::Cluster)?);
        }
        for role in roles.list(&ours).await.map_err(|error| refused(subject(), &error))? {
            grants.extend(rules(&role, &Scope::Namespace(role.metadata.namespace.clone().unwrap_or_default()))?);
        }
        let account = extension.spec.service_account.as_ref().and_then(|account| account.name.clone()).unwrap_or_default();
        let installer = Installer { extension: name, service_account: account, namespace: extension.spec.namespace.clone() };
        Ok((!grants.is_empty()).then_some(Self { installer, grants }))
    }
}

fn rules(role: &impl serde::Serialize, scope: &Scope) -> Result<Vec<Grant>, Failure> {
    let value = serde_json::to_value(role).map_err(|error| Failure::failed("role", &error))?;
    let rules = parse_rules(&value).map_err(|error| Failure::failed("role", &error))?;
    Ok(rules.into_iter().map(|rule| Grant { scope: scope.clone(), rule }).collect())
}
