//! `mainstay install --classic`: a Subscription, and the OperatorGroup and Namespace that it needs (OLM0-USER-05 to OLM0-USER-07).

use mainstay_bundle::audit::Asked;
use mainstay_olm_classic_core::request::Plan;
use mainstay_operations::Session;
use mainstay_operations::apply::named;
use mainstay_operations::classic::install::{Outcome, carry_out, plan};
use mainstay_operations::classic::objects::{self, CATALOG_SOURCE, SUBSCRIPTION, get};
use mainstay_operations::classic::{Approval, CatalogName, Request, Watch};
use mainstay_terminal::bundles;
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Exit, Failure, note, note_drawn};
use mainstay_terminal::output::{self, Format};
use mainstay_terminal::progress::{self, Progress};
use mainstay_terminal::runtime;
use serde_json::{Value, json};

use super::{namespace, tokens};
use crate::commands::audit;
use crate::commands::bundle::permissions::permissions;
use crate::commands::catalog::content;
use crate::commands::flags::Carrying;
use crate::commands::install::RequestArguments;
use crate::plan_text;

/// The approval of InstallPlans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ApprovalFlag {
    /// They go on by themselves
    #[value(name = "Automatic", alias = "automatic")]
    Automatic,
    /// Each waits for mainstay approve
    #[value(name = "Manual", alias = "manual")]
    Manual,
}

impl From<ApprovalFlag> for Approval {
    fn from(flag: ApprovalFlag) -> Self {
        match flag {
            ApprovalFlag::Automatic => Self::Automatic,
            ApprovalFlag::Manual => Self::Manual,
        }
    }
}

/// Reads the request.
pub fn request(arguments: &RequestArguments) -> Result<Request, Failure> {
    let one_channel = match arguments.channel.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        _ => return Err(Failure::new(Exit::Usage, "--channel", "a Subscription follows one channel")),
    };
    for (flag, is_given) in
        [("--service-account", arguments.service_account.is_some()), ("--with-dependencies", arguments.with_dependencies)]
    {
        if is_given {
            let hint = "an OperatorGroup names the account, and OLM classic resolves dependencies by itself";
            return Err(Failure::new(Exit::Usage, flag, "is for OLM v1, and not for --classic").hint(hint));
        }
    }
    let watch = match (arguments.all_namespaces, arguments.watch_namespace.as_slice()) {
        (true, _) => Watch::All,
        (false, []) => Watch::Unsaid,
        (false, names) => Watch::Namespaces(names.to_vec()),
    };
    let catalog = arguments.catalog.as_ref().map(|text| match text.split_once('/') {
        Some((name, namespace)) => CatalogName { name: name.to_owned(), namespace: Some(namespace.to_owned()) },
        None => CatalogName { name: text.clone(), namespace: None },
    });
    let mut env = arguments.env.iter().map(|text| variable(text)).collect::<Result<Vec<_>, _>>()?;
    for (name, value) in arguments.tokens.variables()? {
        if env.iter().any(|(given, _)| *given == name) {
            return Err(Failure::new(Exit::Usage, "--env", format!("{name} is given twice, by --env and by a flag of its own")));
        }
        env.push((name, value));
    }
    Ok(Request {
        env,
        package: arguments.package.clone(),
        name: arguments.name.clone(),
        namespace: namespace("install", arguments.namespace.as_deref())?.to_owned(),
        channel: one_channel,
        version: arguments.version.clone(),
        starting_csv: arguments.starting_csv.clone(),
        approval: arguments.approval.map(Into::into),
        catalog,
        watch,
        create_namespace: arguments.create_namespace,
        needs_group: false,
    })
}

/// A variable of `--env`.
fn variable(text: &str) -> Result<(String, String), Failure> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(Failure::new(Exit::Usage, "--env", format!("expected NAME=VALUE, found {text:?}"))),
    }
}

/// Shows the plan, asks, and carries it out.
pub fn run(arguments: &RequestArguments, is_dry: bool, carrying: &Carrying, cluster: &ClusterArgs) -> Result<(), Failure> {
    let request = request(arguments)?;
    runtime::block_on(async {
        let session = if is_dry { cluster.open().await? } else { cluster.open_to_change().await? };
        if is_dry {
            return dry_run(&session, &request, arguments.audit, &carrying.shown.format).await;
        }
        let (namespace, name) = (request.namespace.clone(), request.name.clone().unwrap_or_else(|| request.package.clone()));
        let hints = || {
            vec![
                format!(
                    "what was written stays, and the cluster goes on; mainstay explain subscription {name} -n {namespace} shows how it stands"
                ),
                format!("mainstay uninstall {name} --classic -n {namespace} undoes it"),
            ]
        };
        runtime::until_interrupt(Box::pin(perform(&session, request, arguments.audit, carrying)), hints).await
    })
}

async fn perform(session: &Session, mut request: Request, is_audited: bool, carrying: &Carrying) -> Result<(), Failure> {
    let mut planned = plan(session, &request).await?;
    if !planned.missing_variables.is_empty() && !carrying.consent.yes && progress::can_ask() {
        note(format!("{} authenticates to the cloud by its token, and needs to know:", planned.csv));
        request.env.extend(tokens::ask(&planned.missing_variables)?);
        planned = plan(session, &request).await?;
    }
    let permissions = audited(session, &planned, is_audited).await?;
    note_drawn(plan_text::painted(text(&planned, permissions.as_deref()).trim_end()));
    carrying.consent.ask(&match planned.acknowledges {
        Some(category) => format!("install an operator of category {category}?"),
        None => "install?".to_owned(),
    })?;
    let outcome = carry_out(session, &planned, carrying.waiting.limit(), &mut Progress::start()).await?;
    finish(session, &carrying.shown.format, &planned.namespace, &planned.name, outcome).await
}

/// The permissions that the bundle asks for, which stand in its image alone (OLM0-ADMIN-30).
async fn audited(session: &Session, plan: &Plan, is_wanted: bool) -> Result<Option<Vec<Asked>>, Failure> {
    if !is_wanted {
        return Ok(None);
    }
    let (name, namespace) = plan.catalog.split_once('/').unwrap_or((&plan.catalog, ""));
    let image = objects::text(&get(session, CATALOG_SOURCE, namespace, name).await?, "/spec/image");
    let subject = format!("catalogsource {namespace}/{name}");
    if image.is_empty() {
        return Err(Failure::new(Exit::Impossible, subject, "names no image that the bundle could be looked up in")
            .hint("mainstay bundle permissions DIR|REF shows what a bundle asks for"));
    }
    let (csv, watches_all) = (plan.csv.clone(), plan.watches_all);
    let read = tokio::task::spawn_blocking(move || -> Result<Vec<Asked>, Failure> {
        let catalog = content::open(&image)?;
        let Some(listed) = catalog.bundles.iter().find(|bundle| bundle.name.as_str() == csv) else {
            return Err(Failure::new(Exit::NotFound, format!("catalog {image}"), format!("has no bundle {csv} any more")));
        };
        permissions(&bundles::open(&listed.image)?, watches_all)
    });
    read.await.map_err(|error| Failure::failed(&subject, &error))?.map(Some)
}

/// Prints the Subscription, or one line; and what a person has to do next.
pub async fn finish(session: &Session, format: &Format, namespace: &str, name: &str, outcome: Outcome) -> Result<(), Failure> {
    if format.is_table() {
        output::line(outcome.line)?;
    } else {
        output::value(format, &get(session, SUBSCRIPTION, namespace, name).await?)?;
    }
    if let Some(plan) = outcome.awaits_approval {
        note(format!("hint: mainstay approve installplan/{plan} -n {namespace} shows what it writes, and approves it"));
    }
    Ok(())
}

/// Prints the plan alone.
pub async fn dry_run(session: &Session, request: &Request, is_audited: bool, format: &Format) -> Result<(), Failure> {
    let planned = plan(session, request).await?;
    let permissions = audited(session, &planned, is_audited).await?;
    if format.is_table() {
        output::drawn(&plan_text::painted(&text(&planned, permissions.as_deref())))
    } else {
        output::value(format, &document(&planned, permissions.as_deref()))
    }
}

fn document(plan: &Plan, permissions: Option<&[Asked]>) -> Value {
    let mut document = json!({
        "kind": "Plan", "operation": "install", "doable": true,
        "subscription": plan.name, "namespace": plan.namespace, "catalog": plan.catalog, "channel": plan.channel,
        "csv": plan.csv, "version": plan.version, "head": plan.head, "writes": plan.objects,
    });
    for (field, lines) in [("choices", &plan.choices), ("notes", &plan.notes)] {
        if !lines.is_empty() {
            document[field] = json!(lines);
        }
    }
    if let Some(category) = plan.acknowledges {
        document["acknowledges"] = category.name().into();
    }
    if let Some(permissions) = permissions {
        document["permissions"] = audit::document(permissions);
    }
    document
}

fn text(plan: &Plan, permissions: Option<&[Asked]>) -> String {
    let mut lines = vec![format!("Subscription {}/{}", plan.namespace, plan.name)];
    let mut section = |title: &str, all: Vec<String>| {
        if !all.is_empty() {
            lines.push(title.to_owned());
            lines.extend(all.into_iter().map(|line| format!("  {line}")));
        }
    };
    section("decided here:", plan.choices.clone());
    section("written by this command:", plan.objects.iter().map(|object| format!("create    {}", named(object))).collect());
    section("permissions that it asks for:", permissions.map(audit::lines).unwrap_or_default());
    section("good to know:", plan.notes.clone());
    let version = if plan.version.is_empty() { String::new() } else { format!(" ({})", plan.version) };
    lines.push(String::new());
    lines.push(format!("install {}{version} from channel {} of catalog {}", plan.csv, plan.channel, plan.catalog));
    lines.push("  with the dependencies that OLM finds for it; its InstallPlan names them all".to_owned());
    lines.push(String::new());
    lines.push(format!("can be applied: {} to create", plan.objects.len()));
    lines.join("\n") + "\n"
}
