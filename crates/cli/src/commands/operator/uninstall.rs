//! Removal of an operator, its custom resources, and its OperatorGroups.

use mainstay_objects::{Expect, Propagation, Step};
use mainstay_olm_classic_core::removal::Choices;
use mainstay_operations::Silent;
use mainstay_operations::apply::execute;
use mainstay_operations::classic::objects::{CSV, Kind, OPERATOR_GROUP, SUBSCRIPTION, find, list, text};
use mainstay_operations::classic::{operands, removal};
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::output;

use super::listing::subscription;
use super::{Context, SELF};

const OPERATOR: Kind = Kind { group: "operators.coreos.com", version: "v1", kind: "Operator", plural: "operators", word: "operator" };

/// The fate of custom resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Strategy {
    /// Uninstall nothing while there are some
    Abort,
    /// Leave them
    Ignore,
    /// Delete them first
    Delete,
}

/// Arguments.
#[derive(Debug, clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Arguments {
    /// The operator
    operator: String,
    /// Delete all objects associated with the operator: implies --delete-operator and --delete-operator-groups
    #[arg(long, short = 'X')]
    delete_all: bool,
    /// Delete the Operator object and the CRDs; implies --operand-strategy=delete
    #[arg(long)]
    delete_operator: bool,
    /// Delete operator groups if no other operators remain
    #[arg(long)]
    delete_operator_groups: bool,
    /// Only operator groups of these names
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    delete_operator_group_names: Vec<String>,
    /// What becomes of custom resources
    #[arg(long, short = 's', value_enum, default_value_t = Strategy::Abort)]
    operand_strategy: Strategy,
}

/// Uninstalls an operator.
pub async fn run(context: &Context, arguments: &Arguments) -> Result<(), Failure> {
    let Context { session, namespace, timeout, .. } = context;
    let deletes_operator = arguments.delete_all || arguments.delete_operator;
    let strategy = if deletes_operator { Strategy::Delete } else { arguments.operand_strategy };
    let found = subscription(context, &arguments.operator).await?;
    let name = text(&found, "/metadata/name");
    let csv_name = text(&found, "/status/installedCSV");
    let csv = if csv_name.is_empty() { None } else { find(session, CSV, namespace, &csv_name).await? };
    let resources = match &csv {
        Some(csv) if strategy != Strategy::Ignore => operands::all(session, csv).await?,
        _ => Vec::new(),
    };
    if !resources.is_empty() && strategy == Strategy::Abort {
        let message = format!("{} operands exist and operand strategy {:?} is in use", resources.len(), "abort");
        return Err(Failure::new(Exit::Impossible, SELF, message)
            .hint("--operand-strategy=delete deletes them, --operand-strategy=ignore leaves them"));
    }
    operands::delete(session, &resources, *timeout).await?;
    for object in &resources {
        output::line(format!("{} {:?} deleted", text(object, "/kind").to_lowercase(), text(object, "/metadata/name")))?;
    }
    let choices = Choices { delete_crds: deletes_operator, even_if_needed: true };
    let planned = removal::plan(session, namespace, &name, choices, &mut Silent).await?;
    removal::carry_out(session, &planned, *timeout, &mut Silent).await?;
    for object in &planned.removal.gone {
        output::line(format!("{} {:?} deleted", object.kind.to_lowercase(), object.name))?;
    }
    if deletes_operator {
        let operator = format!("{}.{namespace}", arguments.operator);
        if find(session, OPERATOR, "", &operator).await?.is_some() {
            delete(context, OPERATOR, "", &operator).await?;
        }
    }
    if (arguments.delete_all || arguments.delete_operator_groups) && list(session, SUBSCRIPTION, Some(namespace)).await?.is_empty() {
        let names = &arguments.delete_operator_group_names;
        for group in list(session, OPERATOR_GROUP, Some(namespace)).await? {
            let group = text(&group, "/metadata/name");
            if names.is_empty() || names.contains(&group) {
                delete(context, OPERATOR_GROUP, namespace, &group).await?;
            }
        }
    }
    output::line(format!("operator {:?} uninstalled", arguments.operator))
}

async fn delete(context: &Context, kind: Kind, namespace: &str, name: &str) -> Result<(), Failure> {
    let object = kind.place(namespace, name);
    execute(&context.session, &Step::Delete { object, expect: Expect::default(), propagation: Propagation::Background }).await?;
    output::line(format!("{} {name:?} deleted", kind.word))
}
