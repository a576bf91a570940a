//! `mainstay rbac`: the least rights that install a bundle, what an upgrade would need more, and what an account has too much (MS-RBAC-01,
//! MS-POL-02).

mod compare;
mod excess;

use clap::{Args, ValueEnum};
use mainstay_api::olm_v1::ClusterExtension;
use mainstay_bundle::rights::{Grant, Installer, Scope, manifests, missing};
use mainstay_bundle::{Bundle, CertificateProvider};
use mainstay_lifecycle::revision::{History, Revision};
use mainstay_olm_v1_core::extension::plan::{account_name, request};
use mainstay_resolver::{Request, UpgradeConstraintPolicy};
use serde_json::{Value, json};

use crate::cluster::{ClusterArgs, Session};
use crate::errors::{Exit, Failure, note};
use crate::extensions;
use crate::market::Market;
use crate::output::{self, Format};
use crate::plans::settings::Settings;
use crate::progress::Progress;
use crate::{bundles, images, runtime, token_access};

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay rbac beacon                       for the bundle that mainstay install would choose
  mainstay rbac beacon | kubectl apply --server-side -f -  for the extension beacon, where there is one: for its account, its wish and its next version
  mainstay rbac beacon --version 1.1.0
  mainstay rbac beacon --bundle examples/bundles/beacon/1.1.0        without a cluster
  mainstay rbac cellar --scope namespace --namespace cellar | kubectl apply --server-side -f -
  mainstay rbac beacon --diff 1.0.0 1.1.0    what an upgrade would need more and less; -o yaml gives the roles for 1.1.0
  mainstay rbac beacon --diff installed      the same from what is installed to what would come next, else the newest
  mainstay rbac beacon --bundle DIR --bundle DIR                     the same without a cluster
  mainstay rbac beacon --bundle DIR --controller olmv1-system/operator-controller-controller-manager --certificates cert-manager
  mainstay rbac beacon --excess              what the extension's account may do beyond what the installed bundle needs

-o json of a comparison gives {\"from\", \"to\", \"more\": [...], \"less\": [...], \"rights\": {\"from\": [...], \"to\": [...]}}, of --excess
{\"extension\", \"account\", \"excess\": [...]}; a right is {\"text\", \"namespace\", \"rule\", \"from\"}.

Exit codes: 0 done, 3 no such package, version or extension, 4 the bundle cannot be installed as asked.")]
pub struct Arguments {
    /// The package, or an extension of the cluster
    package: String,
    /// The versions that will do
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

/// Rights, and whose they are.
struct Needs {
    /// The bundle, for people.
    bundle: String,
    grants: Vec<Grant>,
    installer: Installer,
    /// What lets operator-controller act as the account.
    access: Vec<Value>,
}

impl Needs {
    fn manifests(&self) -> Vec<Value> {
        let mut all = manifests(&self.grants, &self.installer);
        all.extend(self.access.iter().cloned());
        all
    }
}

/// Prints account, roles and bindings, or a comparison.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match arguments.bundle.as_slice() {
        [] => {}
        [one] => {
            let certificates = arguments.certificates.provider();
            let needs = of_bundle(arguments, &bundles::open(one)?, None, &[], certificates)?;
            let Installer { extension, service_account, namespace } = &needs.installer;
            let controller = arguments.controller.as_deref().map(controller).transpose()?;
            let access =
                controller.map(|controller| mainstay_olm_v1::manifests::token_access(extension, (namespace, service_account), controller));
            return show(arguments, &Needs { access: access.into_iter().flatten().collect(), ..needs });
        }
        [from, to] => {
            let certificates = arguments.certificates.provider();
            let (from, to) = (bundles::open(from)?, bundles::open(to)?);
            let from = of_bundle(arguments, &from, None, &[], certificates)?;
            let to = of_bundle(arguments, &to, None, &[], certificates)?;
            return compare::show(arguments.output.as_ref(), &from, &to);
        }
        _ => return Err(Failure::new(Exit::Usage, "--bundle", "one bundle is told, two are compared; there are more")),
    }
    runtime::block_on(async {
        let session = arguments.cluster.open().await?;
        if arguments.excess {
            return excess::show(&session, &arguments.package, arguments.output.as_ref()).await;
        }
        let known = Known::read(&session, &arguments.package).await?;
        let market = Market::open(&session, None).await?;
        let settings = Settings::read(&session).await;
        settings.notes.iter().for_each(note);
        let asking = Asking { arguments, market: &market, known: known.as_ref(), certificates: settings.gates.certificates() };
        match arguments.diff.as_slice() {
            [] => {
                let needs = asking.next().await?;
                let Installer { extension, service_account, namespace } = &needs.installer;
                let access = token_access::needed(&session, &settings, extension, (namespace, service_account)).await;
                show(arguments, &Needs { access, ..needs })
            }
            [from] => compare::show(arguments.output.as_ref(), &asking.version(from).await?, &asking.next_or_newest().await?),
            [from, to, ..] => compare::show(arguments.output.as_ref(), &asking.version(from).await?, &asking.version(to).await?),
        }
    })
}

fn show(arguments: &Arguments, needs: &Needs) -> Result<(), Failure> {
    let made = needs.manifests();
    match arguments.output.as_ref() {
        None | Some(Format::Yaml | Format::Table | Format::Wide) => output::yaml(&made),
        Some(other) => output::value(other, &json!({"apiVersion": "v1", "kind": "List", "items": Value::Array(made)})),
    }
}

/// An extension of the cluster, and what is installed for it.
struct Known {
    extension: ClusterExtension,
    history: History,
}

impl Known {
    async fn read(session: &Session, name: &str) -> Result<Option<Self>, Failure> {
        let Some(extension) = extensions::find(session, name).await? else { return Ok(None) };
        let history = extensions::history(session, &extension).await?;
        Ok(Some(Self { extension, history }))
    }

    fn installed(&self) -> Option<&Revision> {
        self.history.installed()
    }
}

/// Questions to a cluster's catalogs.
struct Asking<'a> {
    arguments: &'a Arguments,
    market: &'a Market,
    known: Option<&'a Known>,
    certificates: CertificateProvider,
}

impl Asking<'_> {
    fn package(&self) -> &str {
        self.known.map_or(&self.arguments.package, |known| extensions::package(&known.extension))
    }

    /// The bundle that would come next: for an extension as it wishes, else as a new install would choose.
    async fn next(&self) -> Result<Needs, Failure> {
        let wish = self.known.and_then(|known| request(&known.extension, known.installed()));
        let mut wanted = wish.unwrap_or_else(|| Request { package: self.package().to_owned(), ..Request::default() });
        if let Some(version) = &self.arguments.version {
            wanted = Request { version: Some(version.clone()), installed: None, ..wanted };
        }
        self.chosen(&wanted).await
    }

    /// The bundle that would come next; where none would, the newest of the catalogs.
    async fn next_or_newest(&self) -> Result<Needs, Failure> {
        let next = self.known.and_then(|known| request(&known.extension, known.installed()));
        match next {
            Some(wanted) if self.market.resolve(&wanted).is_ok_and(|resolution| !resolution.stays) => self.chosen(&wanted).await,
            _ => {
                let policy = UpgradeConstraintPolicy::SelfCertified;
                self.chosen(&Request { package: self.package().to_owned(), policy, ..Request::default() }).await
            }
        }
    }

    /// The bundle of exactly this version, or the installed one.
    async fn version(&self, text: &str) -> Result<Needs, Failure> {
        if text == "installed" {
            let revision = self.known.and_then(Known::installed).ok_or_else(|| {
                Failure::new(Exit::NotFound, format!("clusterextension {}", self.arguments.package), "has nothing installed")
                    .hint("mainstay list shows what is installed; --diff FROM TO compares any two versions")
            })?;
            let grants = extensions::rights(&revision.record.objects, &self.arguments.package);
            let installer = installer(self.arguments, self.known.map(|known| &known.extension), None);
            return Ok(Needs { bundle: revision.record.bundle.name.clone(), grants, installer, access: Vec::new() });
        }
        let wanted = Request {
            package: self.package().to_owned(),
            version: Some(text.to_owned()),
            policy: UpgradeConstraintPolicy::SelfCertified,
            ..Request::default()
        };
        self.chosen(&wanted).await
    }

    async fn chosen(&self, wanted: &Request) -> Result<Needs, Failure> {
        let resolution = self.market.resolve(wanted)?;
        let image = &resolution.choice.image;
        let mut progress = Progress::start();
        progress.doing(&format!("{}: pull {image}", resolution.choice.bundle));
        let bundle = bundles::read(image, &bundles::pull_with(&images::client()?, image).await?)?;
        drop(progress);
        let installed = self.known.and_then(Known::installed).map(|revision| revision.record.objects.as_slice()).unwrap_or_default();
        // Until the next version is installed, the present one has to be kept, too.
        let kept = if self.arguments.diff.is_empty() { installed } else { &[] };
        of_bundle(self.arguments, &bundle, self.known.map(|known| &known.extension), kept, self.certificates)
    }
}

/// What a bundle needs, with what `kept` needs: the objects that are installed.
fn of_bundle(
    arguments: &Arguments,
    bundle: &Bundle,
    extension: Option<&ClusterExtension>,
    kept: &[Value],
    certificates: CertificateProvider,
) -> Result<Needs, Failure> {
    let installer = installer(arguments, extension, Some(bundle));
    let own = (arguments.scope == Some(Watch::Namespace)).then_some(installer.namespace.as_str());
    let watch = own.or_else(|| extension.and_then(extensions::watch_namespace));
    let objects = extensions::rendered(bundle, &installer.namespace, watch, certificates)?;
    let mut grants = extensions::rights(&objects, &installer.extension);
    grants.extend(extensions::rights(kept, &installer.extension));
    Ok(Needs { bundle: bundle.csv.name.clone(), grants: missing(&[], &grants), installer, access: Vec::new() })
}

/// `NAMESPACE/ACCOUNT`.
fn controller(text: &str) -> Result<(&str, &str), Failure> {
    let parts = text.split_once('/').filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty() && !name.contains('/'));
    parts.ok_or_else(|| Failure::new(Exit::Usage, "--controller", format!("expected NAMESPACE/ACCOUNT, found {text:?}")))
}

fn installer(arguments: &Arguments, extension: Option<&ClusterExtension>, bundle: Option<&Bundle>) -> Installer {
    let suggested = || bundle.and_then(|bundle| bundle.facts().suggested_namespace).filter(|namespace| !namespace.is_empty());
    let account = extension.map(account_name).filter(|name| !name.is_empty());
    Installer {
        extension: arguments.package.clone(),
        service_account: account.map_or_else(|| format!("{}-installer", arguments.package), str::to_owned),
        namespace: extension
            .map(|extension| extension.spec.namespace.clone())
            .or_else(|| arguments.namespace.clone())
            .or_else(suggested)
            .unwrap_or_else(|| format!("{}-system", arguments.package)),
    }
}

/// A right for programs; `from` is the role that grants it.
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
