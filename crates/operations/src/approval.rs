//! Approval of a change that waits for it (MS-POL-01).
//!
//! The objects that the change needs in addition are created here, with the permissions of the user who approves: controllers may not
//! create accounts or extensions (OLM1-GEN-11).

use kube::ResourceExt;
use kube::api::{Api, ListParams};
use mainstay_api::lifecycle::{BundleRef, CHANGE_PLAN, ChangePlan, ChangePlanPhase, DependencyRef};
use mainstay_api::olm_v1::{ClusterExtension, NAME_LABEL};
use mainstay_bundle::permissions::Grant;
use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_lifecycle::approval::{self, approved};
use mainstay_objects::{Expect, ObjectRef, Patch, Step};
use mainstay_olm_v1_core::extension::approval::dependency_ref;
use mainstay_olm_v1_core::extension::permissions::{Installer, default_account, manifests, needed};
use mainstay_olm_v1_core::extension::{self, KIND};
use serde_json::{Value, json};

use crate::apply::execute;
use crate::extensions::{self, API_VERSION};
use crate::failure::{not_written, refused};
use crate::plan::installer::labelled;
use crate::progress::Progress;
use crate::session::Session;
use crate::settings::Settings;
use crate::{bundles, images, token_access};

/// A change that can be approved, with the objects that are created for it.
pub struct Approval {
    /// The change.
    pub plan: ChangePlan,
    /// Bundles that no extension asks for yet, dependencies first.
    pub additional: Vec<AdditionalBundle>,
    /// Extensions that were already created for the change.
    pub waiting: Vec<DependencyRef>,
}

/// A bundle that is installed in addition to the change, and the steps that create its extension.
pub struct AdditionalBundle {
    /// The bundle.
    pub bundle: BundleRef,
    /// The namespace of its extension.
    pub namespace: String,
    account: String,
    /// The permissions of its installer.
    pub grants: Vec<Grant>,
    /// The steps that are written for it.
    pub steps: Vec<Step>,
}

fn api(session: &Session) -> Api<ChangePlan> {
    Api::all(session.client.clone())
}

fn phase(plan: &ChangePlan) -> ChangePlanPhase {
    plan.status.as_ref().map(|status| status.phase).unwrap_or_default()
}

fn subject(name: &str) -> String {
    format!("changeplan {name}")
}

/// Lists the changes that wait for an approval.
pub async fn pending(session: &Session) -> Result<Vec<ChangePlan>, Failure> {
    let mut plans = api(session).list(&ListParams::default()).await.map_err(|error| refused("changeplans", &error))?.items;
    plans.retain(|plan| phase(plan) == ChangePlanPhase::Pending && !approved(plan));
    Ok(plans)
}

/// Returns true if an approved change of an extension is still to be made. Where changes cannot be read, none is.
pub(crate) async fn is_under_way(session: &Session, extension: &str) -> bool {
    let Ok(Some(extension)) = extensions::find(session, extension).await else { return false };
    let subject = extension::subject(&extension);
    let plans = api(session).list(&ListParams::default()).await;
    plans.is_ok_and(|plans| plans.iter().any(|plan| approval::is_under_way(plan, &subject)))
}

/// Reads a change that waits, and plans what it needs in addition.
pub async fn plan(session: &Session, name: &str, progress: &mut dyn Progress) -> Result<Approval, Failure> {
    let plan = api(session).get(name).await.map_err(|error| {
        let failure = refused(subject(name), &error);
        if failure.kind() == FailureKind::NotFound { failure.hint("mainstay approve lists the plans that wait") } else { failure }
    })?;
    let said = plan.status.as_ref().map(|status| status.message.clone()).unwrap_or_default();
    match phase(&plan) {
        ChangePlanPhase::Applied => return Err(Failure::new(FailureKind::Impossible, subject(name), "was applied already")),
        ChangePlanPhase::Superseded => {
            return Err(Failure::new(FailureKind::Impossible, subject(name), "was superseded")
                .because(said)
                .hint("mainstay approve lists the plans that wait"));
        }
        ChangePlanPhase::Pending | ChangePlanPhase::Approved => {}
    }
    let of = &plan.spec.subject;
    if of.kind != KIND {
        let hint = "an approval of it is its own digest, repeated in spec.approvedDigest";
        return Err(
            Failure::new(FailureKind::Impossible, subject(name), format!("is of {of}, whose changes are not planned here")).hint(hint)
        );
    }
    let extension = extensions::find(session, &of.name).await?;
    if extension.and_then(|extension| extension.metadata.uid).as_ref() != Some(&of.uid) {
        let message = format!("is of a clusterextension {} that is gone", of.name);
        return Err(Failure::new(FailureKind::Impossible, subject(name), message));
    }
    let additional = additional(session, &plan, progress).await?;
    let waiting = waiting(session, &plan).await?;
    Ok(Approval { plan, additional, waiting })
}

impl Approval {
    /// Returns whether the change is approved already, with everything that is created for it.
    pub fn is_given(&self) -> bool {
        let named = |each: &DependencyRef| self.plan.spec.approved_dependencies.contains(each);
        approved(&self.plan) && self.additional.is_empty() && self.waiting.iter().all(named)
    }
}

/// Creates what the change needs in addition, then approves it. Returns the change as it is then.
pub async fn approve(session: &Session, approval: &Approval) -> Result<ChangePlan, Failure> {
    let Approval { plan, additional, waiting: before } = approval;
    let name = plan.name_any();
    for step in additional.iter().flat_map(|each| &each.steps) {
        execute(session, step).await?;
    }
    // Only what was shown and what was created just now is approved, not what others created since.
    let mut named = waiting(session, plan).await?;
    named.retain(|each| before.contains(each) || additional.iter().any(|bundle| bundle.is(each)));
    let patch = json!({
        "metadata": {"resourceVersion": plan.metadata.resource_version},
        "spec": {"approvedDigest": plan.spec.digest, "approvedAlong": named},
    });
    let place = ObjectRef {
        api_version: "lifecycle.mainstay.dev/v1alpha1".to_owned(),
        kind: "ChangePlan".to_owned(),
        namespace: String::new(),
        name: name.clone(),
    };
    // Another user may have changed the plan meanwhile; then it has to be reviewed again.
    let approved = session.writer.patch(&place, "", &Patch::Merge(patch)).await;
    let approved = approved.map_err(|error| not_written(&error).hint(format!("mainstay approve {name} shows the plan as it is now")))?;
    serde_json::from_value(approved).map_err(|error| Failure::failed(subject(&name), &error))
}

/// Returns the extensions that were created for the change, as they are.
async fn waiting(session: &Session, plan: &ChangePlan) -> Result<Vec<DependencyRef>, Failure> {
    let name = plan.name_any();
    let wanted = |extension: &ClusterExtension| {
        extension.metadata.deletion_timestamp.is_none()
            && extension.annotations().get(CHANGE_PLAN) == Some(&name)
            && plan.spec.summary.dependencies.iter().any(|bundle| bundle.package == extensions::package(extension))
    };
    Ok(extensions::all(session).await?.iter().filter(|extension| wanted(extension)).filter_map(dependency_ref).collect())
}

/// Plans the bundles that the change needs and that no extension asks for yet, dependencies first.
async fn additional(session: &Session, plan: &ChangePlan, progress: &mut dyn Progress) -> Result<Vec<AdditionalBundle>, Failure> {
    let present = extensions::all(session).await?;
    let (mut additional, mut settings) = (Vec::new(), None);
    for bundle in &plan.spec.summary.dependencies {
        if present.iter().any(|extension| extensions::package(extension) == bundle.package) {
            continue;
        }
        if present.iter().any(|extension| extension.name_any() == bundle.package) {
            let message = format!("installs another package, and {} needs this name", bundle.name);
            return Err(Failure::new(FailureKind::Impossible, format!("clusterextension {}", bundle.package), message).hint(format!(
                "mainstay install {} --name NAME --version {} makes it under another name",
                bundle.package, bundle.version
            )));
        }
        if settings.is_none() {
            settings = Some(Settings::read(session).await);
        }
        if let Some(settings) = &settings {
            additional.push(prepared(session, settings, plan, bundle, progress).await?);
        }
    }
    Ok(additional)
}

async fn prepared(
    session: &Session,
    settings: &Settings,
    plan: &ChangePlan,
    bundle: &BundleRef,
    progress: &mut dyn Progress,
) -> Result<AdditionalBundle, Failure> {
    progress.doing(&format!("{}: pull {}", bundle.name, bundle.image));
    let files = images::pull_bundle(&session.registries.client()?, &bundle.image).await?;
    let content = images::read_bundle(&bundle.image, &files)?;
    let suggested = content.facts().suggested_namespace.filter(|namespace| !namespace.is_empty());
    let namespace = suggested.unwrap_or_else(|| format!("{}-system", bundle.package));
    let name = &bundle.package;
    let objects = bundles::rendered(&content, &namespace, None, settings.gates.certificates())?;
    let grants = needed(&objects, name);
    let account = default_account(name);
    let installer = Installer { extension: name.clone(), service_account: account.clone(), namespace: namespace.clone() };
    let extension = json!({
        "apiVersion": API_VERSION, "kind": "ClusterExtension",
        "metadata": {"name": name, "annotations": {CHANGE_PLAN: plan.name_any()}},
        "spec": {"namespace": namespace, "serviceAccount": {"name": account}, "source": {"sourceType": "Catalog", "catalog": {
            // Exactly the bundle that was shown: no other was approved, whatever the catalogs hold when it is installed. `mainstay upgrade`
            // removes the pin.
            "packageName": bundle.package, "version": bundle.version, "selector": {"matchLabels": {NAME_LABEL: bundle.catalog}},
        }}},
    });
    let mut steps = vec![Step::CreateOnce(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))];
    let applied = |object: Value| Step::Apply { object: labelled(object, name), force: true, expect: Expect::default() };
    steps.extend(manifests(&grants, &installer).into_iter().map(applied));
    let access = token_access::needed(session, settings, name, (&namespace, &account)).await;
    steps.extend(access.into_iter().map(applied));
    steps.push(Step::CreateOnce(extension));
    Ok(AdditionalBundle { bundle: bundle.clone(), namespace, account, grants, steps })
}

impl AdditionalBundle {
    /// Returns whether an extension is the one that was created for this bundle.
    fn is(&self, made: &DependencyRef) -> bool {
        let DependencyRef { name, package, namespace, service_account, .. } = made;
        *name == self.bundle.package && *package == self.bundle.package && *namespace == self.namespace && *service_account == self.account
    }
}
