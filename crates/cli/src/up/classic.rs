//! OLM classic in the embedded cluster: its kinds, its two operators, the package server and the marketplace.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::Extensions;
use mainstay_apiserver::TrustedIdentity;
use mainstay_apiserver::remote::{Address, LocalService};
use mainstay_apply::Writer;
use mainstay_catalog_store::SourceContents;
use mainstay_objects::{ObjectRef, Until};
use mainstay_olm_classic::catalog::{PodContent, PodImages};
use mainstay_olm_classic::{catalog, olm, report};
use mainstay_olm_classic_core::catalog_source::registry::Tools;
use mainstay_olm_classic_core::cluster_operators::Part;
use mainstay_olm_classic_core::{fresh, hub};
use mainstay_package_server::Listener;
use mainstay_rbac::UserInfo;
use mainstay_runtime::{Env, Key};
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::images;
#[cfg(test)]
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::components::{Component, ESTABLISHED, apply};
use super::{Apis, Options, platform_release};

fn olm_operator(extensions: &mut Extensions) {
    extensions.insert(TrustedIdentity(Arc::new(UserInfo::service_account(olm::NAMESPACE, olm::ACCOUNT))));
}

fn package_server(extensions: &mut Extensions) {
    let account = UserInfo::service_account(mainstay_package_server::NAMESPACE, mainstay_package_server::ACCOUNT);
    extensions.insert(TrustedIdentity(Arc::new(account)));
}

fn marketplace(extensions: &mut Extensions) {
    extensions.insert(TrustedIdentity(Arc::new(UserInfo::service_account(mainstay_marketplace::NAMESPACE, mainstay_marketplace::ACCOUNT))));
}

/// The settings that the parts of OLM classic share.
pub struct Classic<'a> {
    /// The API.
    pub apis: &'a Apis,
    /// The settings of the cluster.
    pub options: &'a Options,
    /// Clock, randomness and metrics.
    pub env: &'a Env,
    /// Writes what the cluster begins with.
    pub writer: &'a Writer,
    /// Ends the parts.
    pub stop: &'a CancellationToken,
    /// The images of the pods that serve catalogs and unpack bundles; none if this process does both.
    pub pod_images: Option<PodImages>,
}

impl Classic<'_> {
    /// Applies the kinds and objects of OLM classic, and starts its parts.
    pub async fn start(&self, tasks: &mut JoinSet<()>, tell: &mut impl FnMut(&str, &str, Duration)) -> Result<(), Failure> {
        let begun = Instant::now();
        self.objects().await?;
        let contents = SourceContents::default();
        let cache = self.options.data_dir.join("olm-classic");
        let registries = images::config()?;
        let mut setup = catalog::Setup::new(self.apis.in_process(olm_operator), self.env.clone(), cache, registries);
        setup.files = Some(images::settings());
        setup.contents = contents.clone();
        setup.isolation = self.options.classic.resolution.into();
        setup.unhealthy_catalogs = self.options.classic.unhealthy_catalogs.into();
        setup.global_pull_secret = Some(Key::new("openshift-config", "pull-secret"));
        if let Some(images) = &self.pod_images {
            setup.serving = catalog::CatalogServing::Pods { tools: Tools::default(), content: PodContent::Image };
            setup.pod_images = Some(images.clone());
        }
        let stop = self.stop.clone();
        tasks.spawn(async move { ended("catalog operator", catalog::run(setup, stop).await) });
        let (setup, stop) = (olm::Setup::new(self.apis.in_process(olm_operator), self.env.clone()), self.stop.clone());
        tasks.spawn(async move { ended("OLM operator", olm::run(setup, stop).await) });
        let detail = if self.pod_images.is_some() {
            "subscriptions and operators; catalogs are served by pods"
        } else {
            "subscriptions and operators; catalogs are served by this process"
        };
        let (of, writer, stop) = (contents.clone(), self.writer.clone(), self.stop.clone());
        tasks.spawn(async move { super::registries::run(of, writer, stop).await });
        tell("olm-classic", detail, begun.elapsed());
        self.package_server(contents, tasks, tell).await?;
        // A cluster with a release says its own.
        let has_release = self.options.release.any() && self.options.components.has(Component::ClusterVersion);
        let given = if has_release { None } else { Some(self.options.classic.release_version.clone()) };
        let release = platform_release::follow(self.writer.client(), given, self.stop, tasks);
        self.marketplace(release.clone(), tasks, tell);
        self.reports(release, tasks);
        Ok(())
    }

    async fn objects(&self) -> Result<(), Failure> {
        let failed = |error: &(dyn std::error::Error + 'static)| Failure::failed("manifests of olm-classic", error);
        let manifests = mainstay_api::classic_manifests().map_err(|error| failed(&error))?;
        for manifest in &manifests {
            apply(self.writer, &manifest.definition).await?;
        }
        for manifest in &manifests {
            let place = ObjectRef::of(&manifest.definition).map_err(|error| failed(&error))?;
            self.writer.wait(&place, &Until::Healthy, ESTABLISHED).await.map_err(|error| failed(&error))?;
        }
        let steps = fresh::steps(!self.options.classic.default_catalogs);
        self.writer.execute(&steps, |_| {}).await.map_err(|error| failed(&*error))?;
        let accounts = [olm::manifests(), mainstay_package_server::manifests(), mainstay_marketplace::manifests()];
        for object in accounts.iter().flatten() {
            apply(self.writer, object).await?;
        }
        Ok(())
    }

    async fn package_server(
        &self,
        contents: SourceContents,
        tasks: &mut JoinSet<()>,
        tell: &mut impl FnMut(&str, &str, Duration),
    ) -> Result<(), Failure> {
        let begun = Instant::now();
        let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = Listener::bind(free).await.map_err(|error| Failure::failed("package server", &error))?;
        let (namespace, name) = (mainstay_package_server::NAMESPACE.to_owned(), mainstay_package_server::SERVICE.to_owned());
        let at = listener.address();
        let address = Address { host: at.ip().to_string(), port: at.port() };
        self.apis.server.serve_locally(LocalService { namespace, name, address });
        let setup = mainstay_package_server::Setup {
            contents,
            global_namespace: hub::NAMESPACE.to_owned(),
            listener,
            selector: mainstay_objects::Labels::new(),
            endpoint: None,
        };
        let (cluster, env, stop) = (self.apis.in_process(package_server), self.env.clone(), self.stop.clone());
        tasks.spawn(async move { ended("package server", mainstay_package_server::run(cluster, env, setup, stop).await) });
        tell("package-server", "packages of the catalogs", begun.elapsed());
        Ok(())
    }

    /// Reports to ClusterOperators, once the cluster has their kind.
    fn reports(&self, release: watch::Receiver<String>, tasks: &mut JoinSet<()>) {
        let setup = report::Setup {
            cluster: self.apis.in_process(olm_operator),
            env: self.env.clone(),
            namespace: olm::NAMESPACE.to_owned(),
            parts: [Part::Olm, Part::Catalog, Part::Packages].map(|part| (part, part.name().to_owned())).into(),
            release,
        };
        let stop = self.stop.clone();
        let known = setup.release.clone();
        tasks.spawn(async move {
            if platform_release::known(known, &stop).await {
                ended("reports", report::run(setup, stop).await);
            }
        });
    }

    fn marketplace(&self, release: watch::Receiver<String>, tasks: &mut JoinSet<()>, tell: &mut impl FnMut(&str, &str, Duration)) {
        let config = mainstay_marketplace::Config { catalogs: mainstay_marketplace::default_catalogs(), release };
        let (cluster, env, stop) = (self.apis.in_process(marketplace), self.env.clone(), self.stop.clone());
        let known = config.release.clone();
        tasks.spawn(async move {
            if platform_release::known(known, &stop).await {
                ended("marketplace", mainstay_marketplace::run(cluster, env, config, stop).await);
            }
        });
        let detail =
            if self.options.classic.default_catalogs { "default catalogs" } else { "default catalogs are off (--default-catalogs)" };
        tell("marketplace", detail, Duration::ZERO);
    }
}

/// Logs why a part ended, unless it was told to.
fn ended<E: std::error::Error>(part: &str, outcome: Result<(), E>) {
    if let Err(error) = outcome {
        tracing::error!(part, error = mainstay_diagnostics::chain(&error), "a part of OLM classic ended");
    }
}

/// Flags of OLM classic.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Arguments {
    /// Start with the default catalogs, whose images must be reachable: with one that is not, nothing is installed by OLM classic
    #[arg(long)]
    pub default_catalogs: bool,
    /// The platform's release, which the images of the default catalogs follow; with --release that of the cluster counts
    #[arg(long, value_name = "VERSION", default_value = "4.19.0")]
    pub release_version: String,
    /// How far a failed resolution of OLM classic reaches: to what has to do with it, or to the whole namespace as upstream has it
    #[arg(long, value_name = "component|namespace", default_value = "component")]
    pub resolution: Resolution,
    /// What a catalog that cannot be read holds back: all Subscriptions that see it, as upstream has it, or those that it could concern
    #[arg(long, value_name = "block|isolate", default_value = "block")]
    pub unhealthy_catalogs: UnhealthyCatalogs,
    /// Serve OLM classic's catalogs and unpack bundles by pods and Jobs on the simulated nodes, as upstream has it, or by this process [default: pods, but in-process with --default-catalogs, or without nodes, scheduler and controllers]
    #[arg(long, value_name = "pods|in-process")]
    pub catalog_serving: Option<CatalogServing>,
}

impl Arguments {
    /// Returns true if pods serve catalogs. `can_run` says whether pods can run on this cluster.
    pub fn by_pods(&self, can_run: bool) -> Result<bool, Failure> {
        match self.catalog_serving {
            Some(CatalogServing::Pods) if !can_run => {
                let why = "pods run only with nodes, scheduler and controllers: see --components and --nodes";
                Err(Failure::new(Exit::Usage, "--catalog-serving pods", why).hint("mainstay up --catalog-serving in-process"))
            }
            Some(chosen) => Ok(chosen == CatalogServing::Pods),
            // Pods of the default catalogs want nodes with the label and taint of OpenShift's control plane.
            None => Ok(can_run && !self.default_catalogs),
        }
    }
}

/// The way in which catalogs are served (OLM0-CAT-34).
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum CatalogServing {
    /// By pods; bundles are unpacked by Jobs.
    Pods,
    /// By the process itself.
    InProcess,
}

impl Default for Arguments {
    fn default() -> Self {
        Self {
            default_catalogs: false,
            release_version: "4.19.0".to_owned(),
            resolution: Resolution::Component,
            unhealthy_catalogs: UnhealthyCatalogs::Block,
            catalog_serving: None,
        }
    }
}

/// The reach of a failed resolution (OLM0-RES-32).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Resolution {
    /// To the Subscriptions that have to do with its cause.
    #[default]
    Component,
    /// To every Subscription of the namespace.
    Namespace,
}

impl From<Resolution> for mainstay_olm_classic_core::resolve::Isolation {
    fn from(resolution: Resolution) -> Self {
        match resolution {
            Resolution::Component => Self::Component,
            Resolution::Namespace => Self::Namespace,
        }
    }
}

/// The reach of a catalog that cannot be read (OLM0-CAT-35).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum UnhealthyCatalogs {
    /// Every Subscription that sees it.
    #[default]
    Block,
    /// The Subscriptions that it could concern.
    Isolate,
}

impl From<UnhealthyCatalogs> for mainstay_olm_classic_core::resolve::UnhealthyCatalogs {
    fn from(unhealthy: UnhealthyCatalogs) -> Self {
        match unhealthy {
            UnhealthyCatalogs::Block => Self::Block,
            UnhealthyCatalogs::Isolate => Self::Isolate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OLM0-HUB-12, OLM0-RES-32, OLM0-CAT-34: what a cluster starts with unless told otherwise.
    #[test]
    fn defaults() {
        let arguments = Arguments::default();
        assert!(!arguments.default_catalogs);
        assert_eq!((arguments.by_pods(true).ok(), arguments.by_pods(false).ok()), (Some(true), Some(false)));
        let pods = Arguments { catalog_serving: Some(CatalogServing::Pods), ..Arguments::default() };
        assert!(pods.by_pods(false).is_err());
        let with_defaults = Arguments { default_catalogs: true, ..Arguments::default() };
        assert_eq!(with_defaults.by_pods(true).ok(), Some(false));
        assert_eq!((arguments.release_version.as_str(), arguments.resolution), ("4.19.0", Resolution::Component));
        let steps = fresh::steps(true);
        let hub = steps.iter().filter_map(|step| match step {
            mainstay_objects::Step::CreateOnce(object) => Some(object),
            _ => None,
        });
        let hub: Vec<&Value> = hub.filter(|object| object["kind"] == "OperatorHub").collect();
        assert_eq!(hub[0]["spec"]["disableAllDefaultSources"], true);
    }
}
