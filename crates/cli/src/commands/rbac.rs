//! `mainstay rbac`: the least permissions that install a bundle, those that an upgrade would need in addition, and those that an account has in
//! excess (MS-RBAC-01, MS-POL-02).

mod compare;
mod excess;

use clap::{Args, ValueEnum};
use mainstay_bundle::CertificateProvider;
use mainstay_bundle::permissions::{Grant, Scope};
use mainstay_operations::permissions::{Inquiry, InstallerNeeds, PermissionsRequest};
use mainstay_terminal::bundles;
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Exit, Failure, note};
use mainstay_terminal::output::{self, Format};
use mainstay_terminal::progress::Progress;
use mainstay_terminal::runtime;
use serde_json::{Value, json};

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay rbac beacon                       for the bundle that mainstay install would choose
  mainstay rbac beacon | kubectl apply --server-side -f -  for the extension beacon, where there is one: for its account, its request and its next version
  mainstay rbac beacon --version 1.1.0
  mainstay rbac beacon --bundle examples/bundles/beacon/1.1.0        without a cluster
  mainstay rbac cellar --scope namespace --namespace cellar | kubectl apply --server-side -f -
  mainstay rbac beacon --diff 1.0.0 1.1.0    what an upgrade would need more and less; -o yaml gives the roles for 1.1.0
  mainstay rbac beacon --diff installed      the same from what is installed to what would come next, else the newest
  mainstay rbac beacon --bundle DIR --bundle DIR                     the same without a cluster
  mainstay rbac beacon --bundle DIR --controller olmv1-system/operator-controller-controller-manager --certificates cert-manager
  mainstay rbac beacon --excess              what the extension's account may do beyond what the installed bundle needs

-o json of a comparison gives {\"from\", \"to\", \"more\": [...], \"less\": [...], \"rights\": {\"from\": [...], \"to\": [...]}}, of --excess
{\"extension\", \"account\", \"excess\": [...]}; a permission is {\"text\", \"namespace\", \"rule\", \"from\"}.

Exit codes: 0 done, 3 no such package, version or extension, 4 the bundle cannot be installed as asked.")]
pub struct Arguments {
    /// The package, or an extension of the cluster
    package: String,
    /// The acceptable versions
    #[arg(long, value_name = "RANGE", conflicts_with_all = ["diff", "excess"])]
    version: Option<String>,
    /// Whether the operator watches all namespaces or only its own
    #[arg(long, value_enum)]
    scope: Option<Watch>,
    /// The operator's namespace [default: the extension's, else what the bundle suggests, else PACKAGE-system]
    #[arg(long, short, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// A bundle directory or image, instead of the cluster's catalogs; two are compared
    #[arg(long, value_name = "DIR|REF", num_args = 1, conflicts_with_all = ["diff", "excess", "version"])]
    bundle: Vec<String>,
    /// With --bundle: who makes the certificates of its webhooks on the cluster that is meant
    #[arg(long, value_name = "WHO", value_enum, default_value_t = Issuer::ServiceCa, requires = "bundle")]
    certificates: Issuer,
    /// With --bundle: the account of operator-controller on the cluster that is meant, to let it act as the installer's account
    #[arg(long, value_name = "NAMESPACE/ACCOUNT", requires = "bundle")]
    controller: Option<String>,
    /// Compare two versions; `installed` is the one that the cluster has, and the second is by default what would come next
    #[arg(long, value_name = "VERSION", num_args = 1..=2, conflicts_with = "excess")]
    diff: Vec<String>,
    /// What the extension's account may do beyond what the installed bundle needs
    #[arg(long, conflicts_with_all = ["scope", "namespace"])]
    excess: bool,
    /// yaml, json, name or, of a comparison and of --excess, table
    #[arg(short, long, value_name = "FORMAT", value_parser = output::among("yaml, json, name or, of a comparison and of --excess, table"))]
    output: Option<Format>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Watch {
    Cluster,
    Namespace,
}

/// Who makes certificates of webhooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Issuer {
    /// The service CA: OpenShift's, or that of `mainstay up`
    ServiceCa,
    /// cert-manager
    CertManager,
    /// Nobody
    None,
}

impl Issuer {
    fn provider(self) -> CertificateProvider {
        match self {
            Self::ServiceCa => CertificateProvider::OpenshiftServiceCa,
            Self::CertManager => CertificateProvider::CertManager,
            Self::None => CertificateProvider::None,
        }
    }
}

impl Arguments {
    fn request(&self) -> PermissionsRequest {
        PermissionsRequest {
            package: self.package.clone(),
            version: self.version.clone(),
            own_namespace: self.scope == Some(Watch::Namespace),
            namespace: self.namespace.clone(),
        }
    }
}

/// Prints account, roles and bindings, or a comparison.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let request = arguments.request();
    let certificates = arguments.certificates.provider();
    match arguments.bundle.as_slice() {
        [] => {}
        [one] => {
            let needs = request.of_bundle(&bundles::open(one)?, certificates)?;
            let needs = match arguments.controller.as_deref().map(controller).transpose()? {
                Some(controller) => needs.with_access_of(controller),
                None => needs,
            };
            return show(arguments, &needs);
        }
        [from, to] => {
            let (from, to) = (bundles::open(from)?, bundles::open(to)?);
            let (from, to) = (request.of_bundle(&from, certificates)?, request.of_bundle(&to, certificates)?);
            return compare::show(arguments.output.as_ref(), &from, &to);
        }
        _ => return Err(Failure::new(Exit::Usage, "--bundle", "one bundle is told, two are compared; there are more")),
    }
    runtime::block_on(async {
        let session = arguments.cluster.open().await?;
        if arguments.excess {
            return excess::show(&session, &arguments.package, arguments.output.as_ref()).await;
        }
        let inquiry = Inquiry::open(&session, request).await?;
        inquiry.notes().iter().for_each(note);
        let format = arguments.output.as_ref();
        let progress = Progress::start;
        match arguments.diff.as_slice() {
            [] => show(arguments, &inquiry.next(&mut progress()).await?),
            [from] => {
                let from = inquiry.version(from, &mut progress()).await?;
                compare::show(format, &from, &inquiry.next_or_newest(&mut progress()).await?)
            }
            [from, to, ..] => {
                let from = inquiry.version(from, &mut progress()).await?;
                compare::show(format, &from, &inquiry.version(to, &mut progress()).await?)
            }
        }
    })
}

fn show(arguments: &Arguments, needs: &InstallerNeeds) -> Result<(), Failure> {
    let made = needs.manifests();
    match arguments.output.as_ref() {
        None | Some(Format::Yaml | Format::Table | Format::Wide) => output::yaml(&made),
        Some(other) => output::value(other, &json!({"apiVersion": "v1", "kind": "List", "items": Value::Array(made)})),
    }
}

/// `NAMESPACE/ACCOUNT`.
fn controller(text: &str) -> Result<(&str, &str), Failure> {
    let parts = text.split_once('/').filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty() && !name.contains('/'));
    parts.ok_or_else(|| Failure::new(Exit::Usage, "--controller", format!("expected NAMESPACE/ACCOUNT, found {text:?}")))
}

/// A permission for programs; `from` is the role that grants it.
fn as_json(grant: &Grant, from: Option<&str>) -> Value {
    let mut value = json!({"text": grant.to_string(), "rule": grant.rule});
    if let Scope::Namespace(namespace) = &grant.scope {
        value["namespace"] = namespace.as_str().into();
    }
    if let Some(from) = from {
        value["from"] = from.into();
    }
    value
}
