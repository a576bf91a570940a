//! A plan of an install: namespace, account, permissions, extension.

use mainstay_api::olm_v1::{ClusterExtension, NAME_LABEL, WATCH_NAMESPACE};
use mainstay_bundle::permissions::{Grant, missing};
use mainstay_catalog::did_you_mean::nearest;
use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_objects::Step;
use mainstay_olm_v1_core::extension::permissions::{self, Installer, default_account, manifests};
use mainstay_resolver::Request;
use serde_json::{Value, json};

use super::choices::{self, Choice};
use super::dependencies::{offer_dependencies, offers_dependencies};
use super::installer::{administrator, labelled};
use super::{Planned, Planner, apply_step, read};
use crate::catalogs::only;
use crate::change::{Change, InstallRequest, InstallerPermissions};
use crate::extensions::{API_VERSION, reference};
use crate::view::{AssumedPermissions, Depth, objects};

/// The writes of an install.
pub(super) struct Prepared {
    /// The extension.
    pub typed: ClusterExtension,
    /// The extension, and the objects that it needs on the cluster.
    pub writes: Vec<Step>,
    /// The permissions that the account gets, in words.
    pub permissions: Vec<String>,
    /// The permissions that the plan assumes.
    pub assumed: AssumedPermissions,
}

impl Planner<'_, '_> {
    pub(super) async fn install(&mut self, change: &Change, request: &InstallRequest) -> Result<Planned, Failure> {
        let name = &request.name;
        if self.view.look(&reference(name)).await?.is_some() {
            return Err(Failure::new(FailureKind::Impossible, format!("clusterextension {name}"), "exists already")
                .hint(format!("mainstay upgrade {name} changes its version or channel"))
                .hint("--name NAME installs the package under another name"));
        }
        if self.view.catalogs.catalogs().is_empty() {
            return Err(no_catalog(&request.package));
        }
        let mut request = request.clone();
        let mut choices = Vec::new();
        let mut writes = Vec::new();
        if request.with_dependencies {
            Box::pin(self.additional(&request, &mut writes, &mut choices)).await?;
        }
        let prepared = self.prepare(&mut request, &mut choices).await?;
        writes.extend(prepared.writes);
        let mut path = self.view.path(&prepared.typed, &prepared.assumed, self.depth, self.progress).await?;
        if request.with_dependencies {
            for bundle in &mut path {
                // The request itself approves the dependencies; an approval that the policy of others requires stays.
                bundle.step.approval = bundle.step.approval.take().filter(|approval| !approval.for_dependencies);
            }
        }
        let mut planned = self.planned(change, &prepared.typed, writes, prepared.permissions, path).await?;
        if offers_dependencies(&planned.preview, &request.package) {
            let works = Box::pin(self.works_with_dependencies(&request)).await;
            offer_dependencies(&mut planned.preview, &request.package, works);
        }
        planned.choices = choices;
        Ok(planned)
    }

    /// Prepares the writes of an install: namespace, account, permissions, extension. Adds the decisions that the request leaves open to
    /// `choices`.
    pub(super) async fn prepare(&mut self, request: &mut InstallRequest, choices: &mut Vec<String>) -> Result<Prepared, Failure> {
        let name = request.name.clone();
        if let Some(catalog) = &request.catalog {
            self.known_catalog(catalog)?;
        }
        if request.channels.is_empty()
            && let Some(choice) = self.followed(request)
        {
            request.channels.extend(choice.value);
            choices.push(format!("{name} {}", choice.said));
        }
        let own = format!("{}-system", request.package);
        let provisional = read(&extension(request, request.namespace.as_deref().unwrap_or(&own), "none"))?;
        let bundle = self.view.bundle(&provisional, self.progress).await?;
        let suggested = || bundle.as_ref().and_then(|bundle| bundle.facts().suggested_namespace).filter(|namespace| !namespace.is_empty());
        let namespace = request.namespace.clone().or_else(suggested).unwrap_or(own);
        if request.watch_namespace.is_none()
            && self.view.gate("SingleOwnNamespaceInstallSupport")
            && let Some(choice) = bundle.as_ref().and_then(|bundle| choices::watched(bundle, &namespace))
        {
            request.watch_namespace = Some(choice.value);
            choices.push(format!("{name} {}", choice.said));
        }
        let account = request.service_account.clone().unwrap_or_else(|| default_account(&name));
        let wanted = extension(request, &namespace, &account);
        let typed = read(&wanted)?;
        let mut writes = vec![Step::CreateOnce(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))];
        let mut permissions = Vec::new();
        let access = self.view.token_access(&name, (&namespace, &account)).await;
        let assumed = if request.service_account.is_some() {
            AssumedPermissions::Live
        } else {
            let installer = Installer { extension: name.clone(), service_account: account.clone(), namespace: namespace.clone() };
            let made = match request.grant {
                InstallerPermissions::Minimal => self.needed(&typed).await?.map(|needed| {
                    permissions = needed.iter().map(ToString::to_string).collect();
                    manifests(&needed, &installer)
                }),
                InstallerPermissions::Admin => {
                    permissions.push("everything (cluster-admin)".to_owned());
                    Some(administrator(&installer))
                }
            };
            match made {
                Some(made) => {
                    let made: Vec<Value> = made.into_iter().map(|object| labelled(object, &name)).collect();
                    writes.extend(made.iter().cloned().map(apply_step));
                    AssumedPermissions::With(made)
                }
                // The obstacle has nothing to do with permissions; missing ones would only hide it.
                None => AssumedPermissions::All,
            }
        };
        writes.extend(access.into_iter().map(|object| apply_step(labelled(object, &name))));
        writes.push(Step::Create(wanted));
        Ok(Prepared { typed, writes, permissions, assumed })
    }

    /// Refuses a catalog that the cluster does not have, such as a directory or an image.
    fn known_catalog(&self, name: &str) -> Result<(), Failure> {
        let catalogs = self.view.catalogs.catalogs();
        if catalogs.iter().any(|catalog| catalog.name == name) {
            return Ok(());
        }
        let failure = Failure::new(FailureKind::NotFound, format!("clustercatalog {name}"), "the cluster has no catalog of this name");
        let failure = if name.contains(['/', ':']) || std::path::Path::new(name).exists() {
            failure.because("what is installed comes from the cluster's catalogs; mainstay catalog add makes one of an image")
        } else {
            failure
        };
        Err(match nearest(name, catalogs.iter().map(|catalog| catalog.name.as_str())) {
            Some(near) => failure.hint(format!("did you mean {near}?")),
            None => failure.hint("mainstay catalog list shows the catalogs"),
        })
    }

    /// Returns the channel that is followed if the request names none: the package's default.
    pub(super) fn followed(&self, request: &InstallRequest) -> Option<Choice<Option<String>>> {
        let catalogs = &self.view.catalogs;
        let wanted = Request {
            package: request.package.clone(),
            version: request.version.clone(),
            selector: only(request.catalog.as_deref()),
            ..Request::default()
        };
        // The plan itself says why no bundle can be chosen.
        let free = catalogs.resolve(&wanted).ok()?;
        let catalog = catalogs.catalogs().iter().find(|catalog| catalog.name == free.choice.catalog)?;
        let facts = catalog.content.as_ref().ok()?.index.package_facts(&request.package)?;
        let default = facts.default_channel.filter(|channel| !channel.is_empty());
        let within = default.and_then(|channel| catalogs.resolve(&Request { channels: vec![channel.to_owned()], ..wanted }).ok());
        Some(choices::followed(&request.package, default, &free, within.as_ref()))
    }

    /// Returns the least permissions that every bundle of the path needs; `None` if the path cannot be applied with any.
    pub(super) async fn needed(&mut self, extension: &ClusterExtension) -> Result<Option<Vec<Grant>>, Failure> {
        let name = extension.metadata.name.clone().unwrap_or_default();
        let path = self.view.path(extension, &AssumedPermissions::All, Depth::Plan, self.progress).await?;
        if path.iter().any(|bundle| bundle.step.problem.is_some()) {
            return Ok(None);
        }
        let grants = path.iter().flat_map(|bundle| permissions::needed(&objects(bundle.plan.record.as_deref()), &name)).collect::<Vec<_>>();
        Ok(Some(missing(&[], &grants)))
    }
}

fn no_catalog(package: &str) -> Failure {
    Failure::new(FailureKind::NotFound, format!("package {package}"), "the cluster has no catalog")
        .hint("mainstay catalog add NAME --ref REGISTRY/CATALOG:TAG adds one")
}

/// Returns the extension that install creates.
pub(super) fn extension(request: &InstallRequest, namespace: &str, account: &str) -> Value {
    let mut catalog = json!({"packageName": request.package});
    if let Some(version) = &request.version {
        catalog["version"] = version.as_str().into();
    }
    if !request.channels.is_empty() {
        catalog["channels"] = request.channels.clone().into();
    }
    if let Some(only) = &request.catalog {
        catalog["selector"] = json!({"matchLabels": {NAME_LABEL: only}});
    }
    let mut extension = json!({
        "apiVersion": API_VERSION, "kind": "ClusterExtension", "metadata": {"name": request.name},
        "spec": {"namespace": namespace, "serviceAccount": {"name": account}, "source": {"sourceType": "Catalog", "catalog": catalog}},
    });
    if let Some(watched) = &request.watch_namespace {
        extension["metadata"]["annotations"] = json!({WATCH_NAMESPACE: watched});
    }
    extension
}
