//! The permissions of an account beyond those that the installed content needs (MS-POL-02).

use mainstay_operations::Session;
use mainstay_operations::permissions::{Excess, excess};
use mainstay_terminal::errors::Failure;
use mainstay_terminal::output::{self, Format, Table};
use serde_json::{Value, json};

use super::as_json;

pub(super) async fn show(session: &Session, name: &str, format: Option<&Format>) -> Result<(), Failure> {
    let Excess { account, bundle, grants } = excess(session, name).await?;
    match format {
        None | Some(Format::Table | Format::Wide) => {
            if grants.is_empty() {
                return output::line(format!("account {account} may do what {bundle} needs, and nothing else"));
            }
            output::line(format!("account {account} may do more than {bundle} needs:"))?;
            let mut table = Table::new(&["RIGHT", "FROM"]);
            for (grant, role) in &grants {
                table.row([grant.to_string(), role.clone()]);
            }
            output::print(&table.render(2))
        }
        Some(other) => {
            let excess: Vec<Value> = grants.iter().map(|(grant, role)| as_json(grant, Some(role))).collect();
            output::value(other, &json!({"extension": name, "account": account, "excess": excess}))
        }
    }
}
