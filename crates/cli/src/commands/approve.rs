//! `mainstay approve`: approves a change that waits for approval (MS-POL-01).

use clap::Args;
use kube::ResourceExt;
use mainstay_api::lifecycle::{BundleRef, ChangePlan, ChangeSummary, DependencyRef};
use mainstay_diagnostics::FailureKind;
use mainstay_objects::Step;
use mainstay_operations::Session;
use mainstay_operations::apply::named;
use mainstay_operations::approval::{self, AdditionalBundle, Approval};
use mainstay_operations::classic::approval as operations_of_classic;
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Exit, Failure, note, note_drawn, warn};
use mainstay_terminal::output::{self, Format, Table};
use mainstay_terminal::progress::Progress;
use mainstay_terminal::runtime;
use serde_json::{Value, json};

use super::classic;
use super::classic::approve::Target;
use super::flags::{Consent, Shown};
use crate::{named as names, plan_text};

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay approve                            what waits for an approval
  mainstay approve beacon-3f9c0d1a7b52        shows the change, asks, and approves it
  mainstay approve beacon-3f9c0d1a7b52 --yes -o json
  mainstay approve installplan/install-x4k2p -n lights      an InstallPlan of OLM classic: its steps first
  mainstay approve subscription/beacon -n lights            the one that the Subscription waits for

An approval is for this very change, once. When the catalogs or the extension move on, another plan takes its place and has to be approved
again. What the change needs besides is made first, with your permissions: a namespace, an account with the least permissions and a ClusterExtension
for each bundle. Such an extension stays at the version that was shown and approved, until mainstay upgrade NAME lets it follow the
catalog; what needs it still holds it where it must be.")]
pub struct Arguments {
    /// The change plan, or installplan/NAME or subscription/NAME of OLM classic [default: list those that wait]
    pub plan: Option<String>,
    /// The namespace of an InstallPlan of OLM classic
    #[arg(long, short, value_name = "NAMESPACE", value_parser = names::namespace)]
    pub namespace: Option<String>,
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

/// Approves a change, or lists those that wait.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.plan.is_none() && arguments.consent.yes {
        return Err(Failure::new(Exit::Usage, "--yes", "says yes to a change plan, and none is named")
            .hint("mainstay approve lists those that wait"));
    }
    runtime::block_on(async {
        let Some(name) = &arguments.plan else { return list(&arguments.cluster.open().await?, arguments).await };
        let session = arguments.cluster.open_to_change().await?;
        let namespace = arguments.namespace.as_deref();
        if let Some(target) = Target::parse(name, namespace.is_some()) {
            return classic::approve::approve(&session, &target, namespace, &arguments.consent, &arguments.shown.format).await;
        }
        let hints = || vec![format!("mainstay approve {name} again goes on; nothing is approved before everything is made")];
        runtime::until_interrupt(Box::pin(approve(&session, arguments, name)), hints).await
    })
}

/// Lists the changes that wait.
async fn list(session: &Session, arguments: &Arguments) -> Result<(), Failure> {
    let format = &arguments.shown.format;
    let namespace = arguments.namespace.as_deref();
    let install_plans = operations_of_classic::pending(session, namespace).await?;
    let plans = match (approval::pending(session).await, namespace) {
        (_, Some(_)) => Vec::new(),
        (Ok(plans), None) => plans,
        // A cluster that has OLM classic alone has no change plans.
        (Err(failure), None) if failure.kind() == FailureKind::NotFound && install_plans.is_some() => Vec::new(),
        (Err(failure), None) => return Err(failure.into()),
    };
    let install_plans = install_plans.unwrap_or_default();
    if !format.is_table() {
        let mut items = plans.iter().map(document).collect::<Result<Vec<_>, _>>()?;
        items.extend(install_plans);
        return output::value(format, &json!({"apiVersion": "v1", "kind": "List", "items": items}));
    }
    if plans.is_empty() && install_plans.is_empty() {
        return output::line("nothing waits for an approval");
    }
    let mut table = Table::new(&["NAME", "EXTENSION", "FROM", "TO", "ALSO INSTALLS", "SINCE"]);
    for plan in &plans {
        let ChangePlan { spec, .. } = plan;
        let besides: Vec<&str> = spec.summary.dependencies.iter().map(|bundle| bundle.name.as_str()).collect();
        table.row([
            plan.name_any(),
            spec.subject.name.clone(),
            spec.from.as_ref().map(|from| from.name.clone()).unwrap_or_default(),
            spec.to.name.clone(),
            besides.join(", "),
            plan.metadata.creation_timestamp.as_ref().map(|time| time.0.to_string()).unwrap_or_default(),
        ]);
    }
    if !table.is_empty() {
        table.print()?;
        note("hint: mainstay approve NAME shows one and approves it");
    }
    if !install_plans.is_empty() {
        if !table.is_empty() {
            output::line("")?;
        }
        classic::approve::table(&install_plans).print()?;
        note("hint: mainstay approve installplan/NAME -n NAMESPACE shows one and approves it");
    }
    Ok(())
}

fn document(plan: &ChangePlan) -> Result<Value, Failure> {
    serde_json::to_value(plan).map_err(|error| Failure::failed("changeplan", &error))
}

async fn approve(session: &Session, arguments: &Arguments, name: &str) -> Result<(), Failure> {
    let approval = approval::plan(session, name, &mut Progress::start()).await?;
    show(&approval);
    let format = &arguments.shown.format;
    if approval.is_given() {
        return finish(format, &approval.plan, format!("changeplan {name} is approved already"));
    }
    arguments.consent.ask("approve?")?;
    let approved = approval::approve(session, &approval).await?;
    let made: Vec<&str> = approval.additional.iter().map(|each| each.bundle.package.as_str()).collect();
    let also = if made.is_empty() { String::new() } else { format!("; made for it: clusterextension {}", made.join(", ")) };
    let spec = &approval.plan.spec;
    finish(format, &approved, format!("changeplan {name} approved: {} goes on to {}{also}", spec.subject.name, spec.to.name))?;
    for BundleRef { package, version, .. } in approval.additional.iter().map(|each| &each.bundle) {
        note(format!("clusterextension {package} stays at {version}, as approved"));
        note(format!("hint: mainstay upgrade {package} lets it follow the catalog, once it is installed"));
    }
    Ok(())
}

fn finish(format: &Format, plan: &ChangePlan, line: String) -> Result<(), Failure> {
    if format.is_table() { output::line(line) } else { output::value(format, &document(plan)?) }
}

/// Prints the change as text on stderr.
fn show(approval: &Approval) {
    let Approval { plan: ChangePlan { spec, .. }, additional, waiting } = approval;
    let mut lines: Vec<String> = Vec::new();
    let from = spec.from.as_ref().map_or_else(|| "nothing".to_owned(), |from| from.name.clone());
    lines.push(format!(
        "clusterextension {}: {from} -> {} ({}, catalog {})",
        spec.subject.name, spec.to.name, spec.to.version, spec.to.catalog
    ));
    let ChangeSummary { permissions_gained, permissions_lost, custom_resource_definitions, images, changes, dependencies, warnings } =
        &spec.summary;
    let lists = [
        ("permissions gained", permissions_gained),
        ("permissions lost", permissions_lost),
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
        lines.push("installed in addition:".to_owned());
        for bundle in dependencies {
            lines.push(format!("  {} ({}) from catalog {}", bundle.name, bundle.version, bundle.catalog));
        }
    }
    for DependencyRef { name, package, namespace, service_account, .. } in waiting {
        lines.push(format!("made for {package} already: clusterextension {name} in namespace {namespace} with account {service_account}"));
    }
    for AdditionalBundle { bundle, namespace, grants, steps, .. } in additional {
        lines.push(format!(
            "to be made for {} in namespace {namespace}, at version {} until mainstay upgrade lets it go on:",
            bundle.name, bundle.version
        ));
        for step in steps {
            if let Step::CreateOnce(object) | Step::Create(object) | Step::Apply { object, .. } = step {
                lines.push(format!("  {}", named(object)));
            }
        }
        lines.push(format!("permissions of the installer of {}:", bundle.package));
        for grant in grants {
            lines.push(format!("  {grant}"));
        }
    }
    note_drawn(plan_text::painted_lines(lines));
    for warning in warnings {
        warn(&format!("clusterextension {}", spec.subject.name), warning);
    }
}
