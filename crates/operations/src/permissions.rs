//! The least permissions that install a bundle, those that an upgrade would need in addition, and those that an account does not need
//! (MS-RBAC-01, MS-POL-02).

mod excess;

use mainstay_api::olm_v1::ClusterExtension;
use mainstay_bundle::permissions::{Grant, missing};
use mainstay_bundle::{Bundle, CertificateProvider};
use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_lifecycle::revision::{History, Revision};
use mainstay_olm_v1::manifests::token_access;
use mainstay_olm_v1_core::extension::account_name;
use mainstay_olm_v1_core::extension::permissions::{Installer, default_account, manifests, needed};
use mainstay_olm_v1_core::extension::request::request;
use mainstay_resolver::{Request, UpgradeConstraintPolicy};
use serde_json::Value;

use crate::catalogs::CatalogSnapshot;
use crate::progress::Progress;
use crate::session::Session;
use crate::settings::Settings;
use crate::{bundles, extensions, images, token_access as access};

pub use excess::{Excess, excess};

/// A question about the permissions of an installer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PermissionsRequest {
    /// The package, or an extension of the cluster.
    pub package: String,
    /// The versions that the question is about.
    pub version: Option<String>,
    /// True if the operator watches its own namespace only.
    pub own_namespace: bool,
    /// The operator's namespace, unless the extension names it.
    pub namespace: Option<String>,
}

/// The permissions and objects that an installer of a bundle needs.
#[derive(Clone, Debug)]
pub struct InstallerNeeds {
    /// The bundle's name.
    pub bundle: String,
    /// The least permissions.
    pub grants: Vec<Grant>,
    /// The account that gets them.
    pub installer: Installer,
    /// The objects that let operator-controller act as the account.
    pub access: Vec<Value>,
}

impl InstallerNeeds {
    /// Returns the account, its roles and its bindings.
    pub fn manifests(&self) -> Vec<Value> {
        let mut all = manifests(&self.grants, &self.installer);
        all.extend(self.access.iter().cloned());
        all
    }

    /// Adds the objects that let a controller, named by namespace and account, act as the installer's account.
    #[must_use]
    pub fn with_access_of(self, controller: (&str, &str)) -> Self {
        let Installer { extension, service_account, namespace } = &self.installer;
        Self { access: token_access(extension, (namespace, service_account), controller).into(), ..self }
    }

    /// Returns the permissions that another bundle needs beyond this one.
    pub fn missing_for(&self, other: &Self) -> Vec<Grant> {
        missing(&self.grants, &other.grants)
    }
}

impl PermissionsRequest {
    /// Derives the needs of a bundle, without a cluster.
    pub fn of_bundle(&self, bundle: &Bundle, certificates: CertificateProvider) -> Result<InstallerNeeds, Failure> {
        self.needs(bundle, None, &[], certificates)
    }

    /// Derives the needs of a bundle, together with those of `kept`, the installed objects.
    fn needs(
        &self,
        bundle: &Bundle,
        extension: Option<&ClusterExtension>,
        kept: &[Value],
        certificates: CertificateProvider,
    ) -> Result<InstallerNeeds, Failure> {
        let installer = self.installer(extension, Some(bundle));
        let own = self.own_namespace.then_some(installer.namespace.as_str());
        let watch = own.or_else(|| extension.and_then(extensions::watch_namespace));
        let objects = bundles::rendered(bundle, &installer.namespace, watch, certificates)?;
        let mut grants = needed(&objects, &installer.extension);
        grants.extend(needed(kept, &installer.extension));
        Ok(InstallerNeeds { bundle: bundle.csv.name.clone(), grants: missing(&[], &grants), installer, access: Vec::new() })
    }

    fn installer(&self, extension: Option<&ClusterExtension>, bundle: Option<&Bundle>) -> Installer {
        let suggested = || bundle.and_then(|bundle| bundle.facts().suggested_namespace).filter(|namespace| !namespace.is_empty());
        let account = extension.map(account_name).filter(|name| !name.is_empty());
        Installer {
            extension: self.package.clone(),
            service_account: account.map_or_else(|| default_account(&self.package), str::to_owned),
            namespace: extension
                .map(|extension| extension.spec.namespace.clone())
                .or_else(|| self.namespace.clone())
                .or_else(suggested)
                .unwrap_or_else(|| format!("{}-system", self.package)),
        }
    }
}

/// An extension of the cluster, and its history.
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

/// A question to a cluster and its catalogs.
pub struct Inquiry<'s> {
    session: &'s Session,
    request: PermissionsRequest,
    catalogs: CatalogSnapshot,
    known: Option<Known>,
    settings: Settings,
}

impl<'s> Inquiry<'s> {
    /// Reads the extension (if one has the name), the catalogs and the controller's settings.
    pub async fn open(session: &'s Session, request: PermissionsRequest) -> Result<Self, Failure> {
        let known = Known::read(session, &request.package).await?;
        let catalogs = CatalogSnapshot::open(session, None).await?;
        let settings = Settings::read(session).await;
        Ok(Self { session, request, catalogs, known, settings })
    }

    /// Returns the assumptions about the controller.
    pub fn notes(&self) -> &[String] {
        &self.settings.notes
    }

    /// Derives the needs of the bundle that would come next and of the installed one until then, with the objects that let the controller
    /// act as the account. For an extension the bundle is chosen as its spec asks, else as a new install would choose.
    pub async fn next(&self, progress: &mut dyn Progress) -> Result<InstallerNeeds, Failure> {
        let mut wanted = self.next_request().unwrap_or_else(|| Request { package: self.package().to_owned(), ..Request::default() });
        if let Some(version) = &self.request.version {
            wanted = Request { version: Some(version.clone()), installed: None, ..wanted };
        }
        // Until the next version is installed, the present one needs its permissions, too.
        let installed = self.known.as_ref().and_then(Known::installed).map(|revision| revision.record.objects.as_slice());
        let needs = self.chosen(&wanted, installed.unwrap_or_default(), progress).await?;
        let Installer { extension, service_account, namespace } = &needs.installer;
        let access = access::needed(self.session, &self.settings, extension, (namespace, service_account)).await;
        Ok(InstallerNeeds { access, ..needs })
    }

    /// Derives the needs of the bundle that would come next, or of the newest in the catalogs if none would.
    pub async fn next_or_newest(&self, progress: &mut dyn Progress) -> Result<InstallerNeeds, Failure> {
        match self.next_request() {
            Some(wanted) if self.catalogs.resolve(&wanted).is_ok_and(|resolution| !resolution.stays) => {
                self.chosen(&wanted, &[], progress).await
            }
            _ => {
                let policy = UpgradeConstraintPolicy::SelfCertified;
                self.chosen(&Request { package: self.package().to_owned(), policy, ..Request::default() }, &[], progress).await
            }
        }
    }

    /// Derives the needs of the bundle of exactly this version, or of the installed one.
    pub async fn version(&self, text: &str, progress: &mut dyn Progress) -> Result<InstallerNeeds, Failure> {
        let Self { request, known, .. } = self;
        if text == "installed" {
            let revision = known.as_ref().and_then(Known::installed).ok_or_else(|| {
                Failure::new(FailureKind::NotFound, format!("clusterextension {}", request.package), "has nothing installed")
                    .hint("mainstay list shows what is installed; --diff FROM TO compares any two versions")
            })?;
            let grants = needed(&revision.record.objects, &request.package);
            let installer = request.installer(known.as_ref().map(|known| &known.extension), None);
            return Ok(InstallerNeeds { bundle: revision.record.bundle.name.clone(), grants, installer, access: Vec::new() });
        }
        let wanted = Request {
            package: self.package().to_owned(),
            version: Some(text.to_owned()),
            policy: UpgradeConstraintPolicy::SelfCertified,
            ..Request::default()
        };
        self.chosen(&wanted, &[], progress).await
    }

    fn package(&self) -> &str {
        self.known.as_ref().map_or(&self.request.package, |known| extensions::package(&known.extension))
    }

    fn next_request(&self) -> Option<Request> {
        let known = self.known.as_ref()?;
        request(&known.extension, known.installed())
    }

    async fn chosen(&self, wanted: &Request, kept: &[Value], progress: &mut dyn Progress) -> Result<InstallerNeeds, Failure> {
        let resolution = self.catalogs.resolve(wanted)?;
        let image = &resolution.choice.image;
        progress.doing(&format!("{}: pull {image}", resolution.choice.bundle));
        let bundle = images::read_bundle(image, &images::pull_bundle(&self.session.registries.client()?, image).await?)?;
        let extension = self.known.as_ref().map(|known| &known.extension);
        self.request.needs(&bundle, extension, kept, self.settings.gates.certificates())
    }
}
