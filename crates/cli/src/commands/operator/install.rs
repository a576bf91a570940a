//! Installation and upgrade, each with the approval of the InstallPlan that it leads to.

use mainstay_olm_classic_core::request::Refusal;
use mainstay_operations::Silent;
use mainstay_operations::classic::{Request, Watch, approval, install as operations, objects, upgrade as upgrades};
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::output;

use super::listing::subscription;
use super::{Context, SELF};
use crate::commands::classic::install::ApprovalFlag;

/// Arguments of `install`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The operator
    operator: String,
    /// Approval of later InstallPlans
    #[arg(long, short, value_enum, default_value_t = ApprovalFlag::Manual)]
    approval: ApprovalFlag,
    /// Subscription channel
    #[arg(long, short, value_name = "CHANNEL")]
    channel: Option<String>,
    /// Install specific version for operator [default: latest]
    #[arg(long, short, value_name = "VERSION")]
    version: Option<String>,
    /// Namespaces to watch
    #[arg(long, short, value_name = "NAMESPACE", value_delimiter = ',')]
    watch: Vec<String>,
    /// Create operator group if necessary
    #[arg(long, short = 'C')]
    create_operator_group: bool,
    /// The time to wait for the removal of what a failed installation made
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = crate::durations::parse)]
    pub cleanup_timeout: std::time::Duration,
}

/// Installs a package and approves its first InstallPlan.
pub async fn run(context: &Context, arguments: &Arguments) -> Result<(), Failure> {
    let Context { session, namespace, timeout, .. } = context;
    let request = Request {
        package: arguments.operator.clone(),
        namespace: namespace.clone(),
        channel: arguments.channel.clone(),
        version: arguments.version.clone(),
        approval: Some(arguments.approval.into()),
        watch: if arguments.watch.is_empty() { Watch::Unsaid } else { Watch::Namespaces(arguments.watch.clone()) },
        needs_group: !arguments.create_operator_group,
        ..Request::default()
    };
    let plan = match operations::attempt(session, &request).await? {
        Ok(plan) => plan,
        Err(refusal) => match words(&refusal, &arguments.operator) {
            Some(told) => return Err(Failure::new(Exit::Impossible, SELF, told)),
            None => return Err(operations::refused(session, &request, &refusal).await.into()),
        },
    };
    for object in &plan.objects {
        let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
        output::line(format!("{kind} {:?} created", object["metadata"]["name"].as_str().unwrap_or_default()))?;
    }
    let outcome = match operations::carry_out(session, &plan, Some(*timeout), &mut Silent).await {
        Ok(outcome) => outcome,
        Err(failure) => {
            clean_up(context, &plan, arguments.cleanup_timeout).await?;
            return Err(failure.into());
        }
    };
    let csv = match (outcome.csv, outcome.awaits_approval) {
        (Some(csv), _) => csv,
        (None, Some(waiting)) => {
            let waiting = objects::get(session, objects::INSTALL_PLAN, namespace, &waiting).await?;
            let preview = approval::preview(session, waiting).await?;
            approval::approve(session, &preview, Some(*timeout), &mut Silent).await?;
            plan.csv.clone()
        }
        (None, None) => plan.csv.clone(),
    };
    output::line(format!("operator {:?} installed; installed csv is {csv:?}", arguments.operator))
}

/// A refusal in the plugin's words, if it has some for it.
fn words(refusal: &Refusal, package: &str) -> Option<String> {
    Some(match refusal {
        Refusal::UnknownPackage(name) => format!("get package manifest: packagemanifests.packages.operators.coreos.com {name:?} not found"),
        Refusal::UnknownChannel { channel, .. } => {
            format!("get package channel: channel {channel:?} does not exist for package {package:?}")
        }
        Refusal::NotInChannel { wanted, channel, .. } => format!("get starting CSV: version {wanted:?} not found in channel {channel:?}"),
        Refusal::NoGroup(namespace) => {
            format!("namespace {namespace:?} has no existing operator group; use --create-operator-group to create one automatically")
        }
        Refusal::SeveralGroups { namespace, .. } => format!("namespace {namespace:?} has more than one operator group"),
        _ => return None,
    })
}

/// Removes the Subscription of an installation that failed.
async fn clean_up(context: &Context, plan: &mainstay_olm_classic_core::request::Plan, limit: std::time::Duration) -> Result<(), Failure> {
    use mainstay_objects::{Expect, Propagation, Step, Until};
    let object = objects::SUBSCRIPTION.place(&plan.namespace, &plan.name);
    let delete = Step::Delete { object: object.clone(), expect: Expect::default(), propagation: Propagation::Background };
    mainstay_operations::apply::execute(&context.session, &delete).await?;
    mainstay_operations::apply::execute(&context.session, &Step::Wait { object, until: Until::Gone, timeout: limit }).await?;
    output::line(format!("subscription {:?} deleted", plan.name))
}

/// Arguments of `upgrade`.
#[derive(Debug, clap::Args)]
pub struct Upgrade {
    /// The operator
    operator: String,
    /// Subscription channel
    #[arg(long, short, value_name = "CHANNEL")]
    channel: Option<String>,
}

/// Follows another channel if one is named, and approves the InstallPlan that waits.
pub async fn upgrade(context: &Context, arguments: &Upgrade) -> Result<(), Failure> {
    let Context { session, namespace, timeout, .. } = context;
    let Some(found) = subscription(context, &arguments.operator).await? else {
        return Err(Failure::new(Exit::NotFound, SELF, format!("subscription for package {:?} not found", arguments.operator)));
    };
    let name = objects::text(&found, "/metadata/name");
    let mut planned = upgrades::plan(session, namespace, &name, arguments.channel.as_deref()).await?;
    if planned.channel.is_some() {
        upgrades::carry_out(session, &planned, Some(*timeout), &mut Silent).await?;
        planned = upgrades::plan(session, namespace, &name, None).await?;
    } else {
        let has_plan = !objects::text(&found, "/status/installPlanRef/name").is_empty();
        if has_plan {
            planned = upgrades::awaited(session, planned, *timeout, &mut Silent).await?;
        }
        if planned.waiting.is_none() {
            let message =
                if has_plan { "operator is already at latest version" } else { "subscription does not reference an install plan" };
            return Err(Failure::new(Exit::Impossible, SELF, message));
        }
    }
    if planned.waiting.is_some() {
        upgrades::carry_out(session, &planned, Some(*timeout), &mut Silent).await?;
    }
    let now = objects::get(session, objects::SUBSCRIPTION, namespace, &name).await?;
    output::line(format!("operator {:?} upgraded; installed csv is {:?}", arguments.operator, objects::text(&now, "/status/installedCSV")))
}
