//! `mainstay rbac`: the least rights that install a bundle, as objects (MS-RBAC-01).

use clap::{Args, ValueEnum};
use mainstay_bundle::rights::{Installer, manifests};
use mainstay_resolver::UpgradeConstraintPolicy;
use serde_json::{Value, json};

use crate::cluster::ClusterArgs;
use crate::errors::Failure;
use crate::extensions::{self, Wanted};
use crate::output::{self, Format};
use crate::progress::Progress;
use crate::{bundles, runtime};

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay rbac beacon                       for the bundle that mainstay install would choose
  mainstay rbac beacon --version 1.1.0
  mainstay rbac beacon --bundle examples/bundles/beacon/1.1.0        without a cluster
  mainstay rbac cellar --scope namespace --namespace cellar | kubectl apply -f -")]
pub struct Arguments {
    /// The package; the extension is called like it
    package: String,
    /// The versions that will do
    #[arg(long, value_name = "RANGE")]
    version: Option<String>,
    /// Whether the operator watches all namespaces or only its own
    #[arg(long, value_enum)]
    scope: Option<Watch>,
    /// The operator's namespace [default: what the bundle suggests, else PACKAGE-system]
    #[arg(long, short, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// A bundle directory or image, instead of the cluster's catalogs
    #[arg(long, value_name = "DIR|REF")]
    bundle: Option<String>,
    /// yaml, json or name
    #[arg(short, long, default_value = "yaml", value_name = "FORMAT")]
    output: Format,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Watch {
    Cluster,
    Namespace,
}

/// Prints account, roles and bindings.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let bundle = match &arguments.bundle {
        Some(place) => bundles::open(place)?,
        None => runtime::block_on(async {
            let session = arguments.cluster.open().await?;
            let wanted = Wanted {
                package: arguments.package.clone(),
                version: arguments.version.clone(),
                policy: UpgradeConstraintPolicy::CatalogProvided,
                ..Wanted::default()
            };
            Ok(extensions::choose(&session, &wanted, &mut Progress::start()).await?.bundle)
        })?,
    };
    let suggested = bundle.facts().suggested_namespace.filter(|namespace| !namespace.is_empty());
    let namespace = arguments.namespace.clone().or(suggested).unwrap_or_else(|| format!("{}-system", arguments.package));
    let watch = (arguments.scope == Some(Watch::Namespace)).then_some(namespace.as_str());
    let objects = extensions::rendered(&bundle, &namespace, watch)?;
    let installer = Installer {
        extension: arguments.package.clone(),
        service_account: format!("{}-installer", arguments.package),
        namespace: namespace.clone(),
    };
    let made = manifests(&extensions::rights(&objects, &arguments.package), &installer);
    match &arguments.output {
        Format::Yaml | Format::Table | Format::Wide => output::print(&mainstay_yaml::to_multi_string(&made)),
        other => output::value(other, &json!({"apiVersion": "v1", "kind": "List", "items": Value::Array(made)})),
    }
}
