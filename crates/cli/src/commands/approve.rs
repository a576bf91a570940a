//! `mainstay approve`: let a change happen that waits for it (MS-POL-01).
//!
//! What a change needs besides is made here, with the rights of whoever approves: the loops may not make accounts or extensions
//! (OLM1-GEN-11).

use clap::Args;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use mainstay_api::lifecycle::{AlongRef, BundleRef, CHANGE_PLAN, ChangePlan, ChangePlanPhase, ChangeSummary};
use mainstay_api::olm_v1::{ClusterExtension, NAME_LABEL};
use mainstay_bundle::rights::{Grant, Installer, manifests};
use mainstay_objects::{ObjectRef, Patch, Step};
use mainstay_olm_v1_core::extension::approval::dependency_ref;
use serde_json::{Value, json};

use super::flags::{Consent, Shown};
use super::install::{apply, labelled, named};
use crate::cluster::{ClusterArgs, Session, not_written, refused};
use crate::errors::{Exit, Failure, note, note_drawn};
use crate::extensions::{self, API_VERSION};
use crate::output::{self, Format, Table};
use crate::plans::{self, settings::Settings};
use crate::progress::Progress;
use crate::{bundles, images, runtime, token_access};

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay approve                            what waits for an approval
  mainstay approve beacon-3f9c0d1a7b52        shows the change, asks, and approves it
  mainstay approve beacon-3f9c0d1a7b52 --yes -o json

An approval is for this very change, once. When the catalogs or the extension move on, another plan takes its place and has to be approved
anew. What the change needs besides is made first, with your rights: a namespace, an account with the least rights and a ClusterExtension
for each bundle. Such an extension stays at the version that was shown and approved, until mainstay upgrade NAME lets it follow the
catalog; what needs it still holds it where it must be.")]
pub struct Arguments {
    /// The change plan [default: list those that wait]
    pub plan: Option<String>,
    /// Whether to ask.
    #[command(flatten)]
    pub consent: Consent,
    /// How plans are shown.
    #[command(flatten)]
    pub shown: Shown,
    /// Which cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Runs it.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.plan.is_none() && arguments.consent.yes {
        return Err(Failure::new(Exit::Usage, "--yes", "says yes to a change plan, and none is named")
            .hint("mainstay approve lists those that wait"));
    }
    runtime::block_on(async {
        let Some(name) = &arguments.plan else { return list(&arguments.cluster.open().await?, &arguments.shown.format).await };
        let session = arguments.cluster.open_to_change().await?;
        let hints = || vec![format!("mainstay approve {name} again goes on; nothing is approved before everything is made")];
        runtime::until_interrupt(approve(&session, arguments, name), hints).await
    })
}

fn api(session: &Session) -> Api<ChangePlan> {
    Api::all(session.client.clone())
}

fn phase(plan: &ChangePlan) -> ChangePlanPhase {
    plan.status.as_ref().map(|status| status.phase).unwrap_or_default()
}

fn is_approved(plan: &ChangePlan) -> bool {
    plan.spec.approved_digest.as_ref() == Some(&plan.spec.digest)
}

/// Those that wait.
async fn list(session: &Session, format: &Format) -> Result<(), Failure> {
    let mut plans = api(session).list(&ListParams::default()).await.map_err(|error| refused("changeplans", &error))?.items;
    plans.retain(|plan| phase(plan) == ChangePlanPhase::Pending && !is_approved(plan));
    if !format.is_table() {
        let items = plans.iter().map(document).collect::<Result<Vec<_>, _>>()?;
        return output::value(format, &json!({"apiVersion": "v1", "kind": "List", "items": items}));
    }
    if plans.is_empty() {
        return output::line("nothing waits for an approval");
    }
    let mut table = Table::new(&["NAME", "EXTENSION", "FROM", "TO", "ALSO INSTALLS", "SINCE"]);
    for plan in &plans {
        let ChangePlan { spec, .. } = plan;
        let besides: Vec<&str> = spec.summary.dependencies.iter().map(|bundle| bundle.name.as_str()).collect();
        table.row([
            plan.name_any(),
            spec.extension.name.clone(),
            spec.from.as_ref().map(|from| from.name.clone()).unwrap_or_default(),
            spec.to.name.clone(),
            besides.join(", "),
            plan.metadata.creation_timestamp.as_ref().map(|time| time.0.to_string()).unwrap_or_default(),
        ]);
    }
    table.print()?;
    note("hint: mainstay approve NAME shows one and approves it");
    Ok(())
}

fn document(plan: &ChangePlan) -> Result<Value, Failure> {
    serde_json::to_value(plan).map_err(|error| Failure::failed("changeplan", &error))
}

async fn approve(session: &Session, arguments: &Arguments, name: &str) -> Result<(), Failure> {
    let subject = || format!("changeplan {name}");
    let plan = api(session).get(name).await.map_err(|error| {
        let failure = refused(subject(), &error);
        if failure.exit == Exit::NotFound { failure.hint("mainstay approve lists the plans that wait") } else { failure }
    })?;
    let said = plan.status.as_ref().map(|status| status.message.clone()).unwrap_or_default();
    match phase(&plan) {
        ChangePlanPhase::Applied => return Err(Failure::new(Exit::Impossible, subject(), "was applied already")),
        ChangePlanPhase::Superseded => {
            return Err(Failure::new(Exit::Impossible, subject(), "was superseded")
                .because(said)
                .hint("mainstay approve lists the plans that wait"));
        }
        ChangePlanPhase::Pending | ChangePlanPhase::Approved => {}
    }
    let extension = extensions::find(session, &plan.spec.extension.name).await?;
    if extension.and_then(|extension| extension.metadata.uid).as_ref() != Some(&plan.spec.extension.uid) {
        let message = format!("is of a clusterextension {} that is gone", plan.spec.extension.name);
        return Err(Failure::new(Exit::Impossible, subject(), message));
    }
    let mut progress = Progress::start();
    let besides = besides(session, &plan, &mut progress).await?;
    drop(progress);
    let waiting = along(session, &plan).await?;
    show(&plan, &besides, &waiting);
    if is_approved(&plan) && besides.is_empty() && waiting.iter().all(|each| plan.spec.approved_along.contains(each)) {
        return finish(&arguments.shown.format, &plan, format!("{} is approved already", subject()));
    }
    arguments.consent.ask("approve?")?;
    for step in besides.iter().flat_map(|each| &each.steps) {
        apply(session, step).await?;
    }
    // What was shown and what was made just now; what somebody else made since is none of it.
    let mut named = along(session, &plan).await?;
    named.retain(|each| waiting.contains(each) || besides.iter().any(|beside| beside.is(each)));
    let made: Vec<&str> = besides.iter().map(|each| each.bundle.package.as_str()).collect();
    let along = if made.is_empty() { String::new() } else { format!("; made for it: clusterextension {}", made.join(", ")) };
    let patch = json!({
        "metadata": {"resourceVersion": plan.metadata.resource_version},
        "spec": {"approvedDigest": plan.spec.digest, "approvedAlong": named},
    });
    let place = ObjectRef {
        api_version: "lifecycle.mainstay.dev/v1alpha1".to_owned(),
        kind: "ChangePlan".to_owned(),
        namespace: String::new(),
        name: name.to_owned(),
    };
    // Somebody may have touched the plan meanwhile; then it has to be looked at again.
    let approved = match session.writer.patch(&place, "", &Patch::Merge(patch)).await {
        Ok(approved) => approved,
        Err(error) => return Err(not_written(&error).hint(format!("mainstay approve {name} shows the plan as it is now"))),
    };
    let approved: ChangePlan = serde_json::from_value(approved).map_err(|error| Failure::failed(subject(), &error))?;
    finish(
        &arguments.shown.format,
        &approved,
        format!("{} approved: {} goes on to {}{along}", subject(), plan.spec.extension.name, plan.spec.to.name),
    )?;
    for BundleRef { package, version, .. } in besides.iter().map(|each| &each.bundle) {
        note(format!("clusterextension {package} stays at {version}, as approved"));
        note(format!("hint: mainstay upgrade {package} lets it follow the catalog, once it is installed"));
    }
    Ok(())
}

fn finish(format: &Format, plan: &ChangePlan, line: String) -> Result<(), Failure> {
    if format.is_table() { output::line(line) } else { output::value(format, &document(plan)?) }
}

/// The extensions that were made for the change, as they are.
async fn along(session: &Session, plan: &ChangePlan) -> Result<Vec<AlongRef>, Failure> {
    let name = plan.name_any();
    let wanted = |extension: &ClusterExtension| {
        extension.metadata.deletion_timestamp.is_none()
            && extension.annotations().get(CHANGE_PLAN) == Some(&name)
            && plan.spec.summary.dependencies.iter().any(|bundle| bundle.package == extensions::package(extension))
    };
    Ok(extensions::all(session).await?.iter().filter(|extension| wanted(extension)).filter_map(along_ref).collect())
}

/// A bundle that is installed along with the change, and what makes its extension.
struct Beside {
    bundle: BundleRef,
    namespace: String,
    account: String,
    grants: Vec<Grant>,
    steps: Vec<Step>,
}

/// What the change needs and no extension asks for yet, dependencies first.
async fn besides(session: &Session, plan: &ChangePlan, progress: &mut Progress) -> Result<Vec<Beside>, Failure> {
    let present = extensions::all(session).await?;
    let (mut besides, mut settings) = (Vec::new(), None);
    for bundle in &plan.spec.summary.dependencies {
        if present.iter().any(|extension| extensions::package(extension) == bundle.package) {
            continue;
        }
        if present.iter().any(|extension| extension.name_any() == bundle.package) {
            let message = format!("installs another package, and {} needs this name", bundle.name);
            return Err(Failure::new(Exit::Impossible, format!("clusterextension {}", bundle.package), message).hint(format!(
                "mainstay install {} --name NAME --version {} makes it under another name",
                bundle.package, bundle.version
            )));
        }
        if settings.is_none() {
            settings = Some(Settings::read(session).await);
        }
        if let Some(settings) = &settings {
            besides.push(beside(session, settings, plan, bundle, progress).await?);
        }
    }
    Ok(besides)
}

async fn beside(
    session: &Session,
    settings: &Settings,
    plan: &ChangePlan,
    bundle: &BundleRef,
    progress: &mut Progress,
) -> Result<Beside, Failure> {
    progress.doing(&format!("{}: pull {}", bundle.name, bundle.image));
    let files = bundles::pull_with(&images::client()?, &bundle.image).await?;
    let content = bundles::read(&bundle.image, &files)?;
    let suggested = content.facts().suggested_namespace.filter(|namespace| !namespace.is_empty());
    let namespace = suggested.unwrap_or_else(|| format!("{}-system", bundle.package));
    let name = &bundle.package;
    let objects = extensions::rendered(&content, &namespace, None, settings.gates.certificates())?;
    let grants = extensions::rights(&objects, name);
    let account = format!("{name}-installer");
    let installer = Installer { extension: name.clone(), service_account: account.clone(), namespace: namespace.clone() };
    let account_of = account.clone();
    let extension = json!({
        "apiVersion": API_VERSION, "kind": "ClusterExtension",
        "metadata": {"name": name, "annotations": {CHANGE_PLAN: plan.name_any()}},
        "spec": {"namespace": namespace, "serviceAccount": {"name": account}, "source": {"sourceType": "Catalog", "catalog": {
            // Exactly what was shown: whatever the catalogs hold by the time it is installed, nothing else was approved. `mainstay
            // upgrade` lets go of it.
            "packageName": bundle.package, "version": bundle.version, "selector": {"matchLabels": {NAME_LABEL: bundle.catalog}},
        }}},
    });
    let mut steps = vec![Step::CreateOnce(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))];
    steps.extend(manifests(&grants, &installer).into_iter().map(|object| labelled(object, name)));
    let access = token_access::needed(session, settings, name, (&namespace, &account)).await;
    steps.extend(access.into_iter().map(|object| labelled(object, name)));
    steps.push(Step::CreateOnce(extension));
    Ok(Beside { bundle: bundle.clone(), namespace, account: account_of, grants, steps })
}

impl Beside {
    /// Whether an extension is the one that was made for it.
    fn is(&self, made: &AlongRef) -> bool {
        let AlongRef { name, package, namespace, service_account, .. } = made;
        *name == self.bundle.package && *package == self.bundle.package && *namespace == self.namespace && *service_account == self.account
    }
}

/// The change as people see it, on stderr.
fn show(plan: &ChangePlan, besides: &[Beside], waiting: &[AlongRef]) {
    let ChangePlan { spec, .. } = plan;
    let mut lines: Vec<String> = Vec::new();
    let from = spec.from.as_ref().map_or_else(|| "nothing".to_owned(), |from| from.name.clone());
    lines.push(format!(
        "clusterextension {}: {from} -> {} ({}, catalog {})",
        spec.extension.name, spec.to.name, spec.to.version, spec.to.catalog
    ));
    let ChangeSummary { rights_gained, rights_lost, custom_resource_definitions, images, changes, dependencies, warnings } = &spec.summary;
    let lists = [
        ("rights gained", rights_gained),
        ("rights lost", rights_lost),
        ("CRDs", custom_resource_definitions),
        ("images", images),
        ("objects", changes),
    ];
    for (title, told) in lists.into_iter().filter(|(_, told)| !told.is_empty()) {
        lines.push(format!("{title}:"));
        for line in told {
            lines.push(format!("  {line}"));
        }
    }
    if !dependencies.is_empty() {
        lines.push("installed along with it:".to_owned());
        for bundle in dependencies {
            lines.push(format!("  {} ({}) from catalog {}", bundle.name, bundle.version, bundle.catalog));
        }
    }
    for AlongRef { name, package, namespace, service_account, .. } in waiting {
        lines.push(format!("made for {package} already: clusterextension {name} in namespace {namespace} with account {service_account}"));
    }
    for Beside { bundle, namespace, grants, steps, .. } in besides {
        lines.push(format!(
            "to be made for {} in namespace {namespace}, at version {} until mainstay upgrade lets it go on:",
            bundle.name, bundle.version
        ));
        for step in steps {
            if let Step::CreateOnce(object) | Step::Create(object) | Step::Apply { object, .. } = step {
                lines.push(format!("  {}", named(object)));
            }
        }
        lines.push(format!("rights of the installer of {}:", bundle.package));
        for grant in grants {
            lines.push(format!("  {grant}"));
        }
    }
    note_drawn(plans::painted_lines(lines));
    for warning in warnings {
        crate::errors::warn(&format!("clusterextension {}", spec.extension.name), warning);
    }
}
