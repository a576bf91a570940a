//! Bundles that are installed in addition, because the requested bundle needs them.

use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_lifecycle::policy::PolicyFact;
use mainstay_lifecycle::preview::Dependency;
use mainstay_lifecycle::preview::Preview;
use mainstay_objects::Step;
use mainstay_olm_v1_core::extension::dependencies;
use serde_json::{Value, json};

use super::install::extension;
use super::installer::labelled;
use super::{Planner, apply_step, read};
use crate::change::InstallRequest;
use crate::extensions::reference;
use crate::view::{AssumedPermissions, Depth};

impl Planner<'_, '_> {
    /// Returns whether the same install can be applied together with its dependencies. The policy that this assumes stays in this plan.
    pub(super) async fn works_with_dependencies(&mut self, request: &InstallRequest) -> bool {
        let mut request = request.clone();
        if Box::pin(self.additional(&request, &mut Vec::new(), &mut Vec::new())).await.is_err() {
            return false;
        }
        let Ok(prepared) = self.prepare(&mut request, &mut Vec::new()).await else { return false };
        let path = self.view.path(&prepared.typed, &prepared.assumed, Depth::Plan, self.progress).await;
        path.is_ok_and(|path| path.iter().all(|bundle| bundle.step.problem.is_none()))
    }

    /// Prepares the dependencies that no extension installs yet, dependencies first, each with an account of its own; and the policy that
    /// resolves them together.
    pub(super) async fn additional(
        &mut self,
        request: &InstallRequest,
        writes: &mut Vec<Step>,
        choices: &mut Vec<String>,
    ) -> Result<(), Failure> {
        let policy_name = format!("{}-with-dependencies", request.name);
        let policy = |packages: &[String]| {
            json!({"apiVersion": "lifecycle.mainstay.dev/v1alpha1", "kind": "LifecyclePolicy", "metadata": {"name": policy_name},
                "spec": {"packages": packages, "resolveDependencies": "Plan"}})
        };
        let fact = |object: &Value| -> Result<PolicyFact, Failure> {
            let spec = serde_json::from_value(object["spec"].clone()).map_err(|error| Failure::failed("lifecyclepolicy", &error))?;
            Ok(PolicyFact { name: policy_name.clone(), spec })
        };
        let mut packages = vec![request.package.clone()];
        self.view.with_policy(fact(&policy(&packages))?);
        let mut probe = request.clone();
        if let Some(choice) = self.followed(request).filter(|_| request.channels.is_empty()) {
            probe.channels.extend(choice.value);
        }
        let own = request.namespace.clone().unwrap_or_else(|| format!("{}-system", request.package));
        let typed = read(&extension(&probe, &own, "none"))?;
        let path = self.view.path(&typed, &AssumedPermissions::All, Depth::Plan, self.progress).await?;
        let mut needed: Vec<Dependency> = Vec::new();
        for dependency in path.into_iter().flat_map(|bundle| bundle.step.dependencies) {
            if !needed.iter().any(|known| known.bundle.package == dependency.bundle.package) {
                needed.push(dependency);
            }
        }
        packages.extend(needed.iter().map(|dependency| dependency.bundle.package.clone()));
        let object = policy(&packages);
        self.view.with_policy(fact(&object)?);
        writes.push(apply_step(labelled(object, &request.name)));
        for Dependency { bundle, .. } in needed {
            let mut other = InstallRequest {
                package: bundle.package.clone(),
                name: bundle.package.clone(),
                // Exactly the bundle that was shown; mainstay upgrade removes the pin.
                version: Some(bundle.version.clone()),
                catalog: Some(bundle.catalog.clone()).filter(|catalog| !catalog.is_empty()),
                grant: request.grant,
                ..InstallRequest::default()
            };
            if self.view.look(&reference(&other.name)).await?.is_some() {
                let message = format!("installs another package, and {} needs this name", bundle.name);
                return Err(Failure::new(FailureKind::Impossible, format!("clusterextension {}", other.name), message).hint(format!(
                    "mainstay install {} --name NAME --version {} makes it under another name",
                    bundle.package, bundle.version
                )));
            }
            choices.push(format!(
                "{} {} is installed in addition, and stays there until mainstay upgrade {}",
                bundle.package, bundle.version, other.name
            ));
            writes.extend(self.prepare(&mut other, choices).await?.writes);
        }
        Ok(())
    }
}

/// Returns whether the plan is refused for missing dependencies, and a policy would let it be planned.
pub(super) fn offers_dependencies(preview: &Preview, package: &str) -> bool {
    let policy = dependencies::following(package);
    preview.steps.iter().filter_map(|step| step.problem.as_ref()).any(|problem| problem.hints.contains(&policy))
}

/// Advises the flag that installs missing dependencies instead of the policy that would have to be written, if they are available. If they
/// are not, neither is advised.
pub(super) fn offer_dependencies(preview: &mut Preview, package: &str, works: bool) {
    let policy = dependencies::following(package);
    for problem in preview.steps.iter_mut().filter_map(|step| step.problem.as_mut()) {
        problem.hints.retain(|hint| *hint != policy);
        if works {
            let flag = (format!("mainstay install {package} --with-dependencies"), "installs what is missing in addition".to_owned());
            problem.hints.insert(0, format!("{} {}", flag.0, flag.1));
            problem.tried.insert(0, flag);
        }
    }
}
