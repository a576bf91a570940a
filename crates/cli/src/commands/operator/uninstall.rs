//! Removal of an operator, its custom resources, and its OperatorGroups.

use mainstay_objects::{Expect, ObjectRef, Propagation, Step, Until};
use mainstay_olm_classic_core::removal;
use mainstay_operations::apply::execute;
use mainstay_operations::classic::objects::{CSV, DEFINITION, Kind, OPERATOR_GROUP, SUBSCRIPTION, find, list, text};
use mainstay_operations::classic::operands;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::output;
use serde_json::Value;

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

/// Uninstalls an operator: its Subscription, its custom resources, its CSV, then the Operator object and what it refers to, and OperatorGroups.
pub async fn run(context: &Context, arguments: &Arguments) -> Result<(), Failure> {
    let Context { session, namespace, .. } = context;
    let deletes_operator = arguments.delete_all || arguments.delete_operator;
    let strategy = if deletes_operator { Strategy::Delete } else { arguments.operand_strategy };
    let package = &arguments.operator;
    let Some(found) = subscription(context, package).await? else {
        return Err(Failure::new(Exit::NotFound, SELF, format!("package {package:?} not found")));
    };
    let csv_name = ["/status/installedCSV", "/status/currentCSV"].map(|field| text(&found, field));
    let csv = match csv_name.iter().find(|name| !name.is_empty()) {
        Some(name) => find(session, CSV, namespace, name).await?,
        None => None,
    };
    let resources = match &csv {
        Some(csv) => operands::all(session, csv).await?,
        None => Vec::new(),
    };
    if !resources.is_empty() && strategy == Strategy::Abort {
        let reason = "operand deletion aborted: one or more operands exist and operand strategy is \"abort\"";
        let more = "See kubectl operator uninstall --help for more information on operand deletion strategies.";
        let message = format!("could not proceed with deletion of {package:?}: {reason}\n\n{more}");
        return Err(Failure::new(Exit::Impossible, SELF, message));
    }
    delete(context, SUBSCRIPTION.place(namespace, &text(&found, "/metadata/name"))).await?;
    match &csv {
        None => output::line(format!("csv for package {package:?} not found"))?,
        Some(csv) => {
            for object in &resources {
                if strategy == Strategy::Ignore {
                    output::line(format!("{} {:?} orphaned", text(object, "/kind").to_lowercase(), orphan(object)))?;
                } else {
                    delete(context, ObjectRef::of(object).map_err(|error| Failure::failed("operand", &error))?).await?;
                }
            }
            delete(context, CSV.place(namespace, &text(csv, "/metadata/name"))).await?;
        }
    }
    if deletes_operator {
        let name = format!("{package}.{namespace}");
        if let Some(operator) = find(session, OPERATOR, "", &name).await? {
            for reference in operator["status"]["components"]["refs"].as_array().into_iter().flatten() {
                let place = ObjectRef {
                    api_version: text(reference, "/apiVersion"),
                    kind: text(reference, "/kind"),
                    namespace: text(reference, "/namespace"),
                    name: text(reference, "/name"),
                };
                delete(context, place).await?;
            }
            delete(context, OPERATOR.place("", &name)).await?;
        }
        // Where no Operator object refers to them, the CSV names its CRDs.
        for definition in csv.iter().flat_map(|csv| removal::definitions(csv, "owned")) {
            delete(context, DEFINITION.place("", &definition)).await?;
        }
    }
    if (arguments.delete_all || arguments.delete_operator_groups) && list(session, SUBSCRIPTION, Some(namespace)).await?.is_empty() {
        let names = &arguments.delete_operator_group_names;
        for group in list(session, OPERATOR_GROUP, Some(namespace)).await? {
            let group = text(&group, "/metadata/name");
            if names.is_empty() || names.contains(&group) {
                delete(context, OPERATOR_GROUP.place(namespace, &group)).await?;
            }
        }
    }
    Ok(())
}

/// The name of a custom resource that stays, as the plugin writes it: the namespace follows the name.
fn orphan(object: &Value) -> String {
    let (namespace, name) = (text(object, "/metadata/namespace"), text(object, "/metadata/name"));
    if namespace.is_empty() { name } else { format!("{name}/{namespace}") }
}

/// Deletes an object, says so, and waits until it is gone; one that is not there, or whose kind went with its CRD, is passed over.
async fn delete(context: &Context, object: ObjectRef) -> Result<(), Failure> {
    let Context { session, timeout, .. } = context;
    let is_there = match session.writer.get(&object).await {
        Ok(live) => live.is_some(),
        Err(mainstay_apply::WriteError::Kind { .. }) => false,
        Err(error) => return Err(mainstay_operations::not_written(&error).into()),
    };
    if !is_there {
        return Ok(());
    }
    execute(session, &Step::Delete { object: object.clone(), expect: Expect::default(), propagation: Propagation::Background }).await?;
    output::line(format!("{} {:?} deleted", object.kind.to_lowercase(), object.name))?;
    Ok(execute(session, &Step::Wait { object, until: Until::Gone, timeout: *timeout }).await?)
}
