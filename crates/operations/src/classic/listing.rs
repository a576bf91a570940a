//! The operators of a cluster (MS-CLI-05, OLM0-ADMIN-20).

use mainstay_diagnostics::Failure;
use mainstay_olm_classic_core::overview::{Overview, is_copy, overview};
use serde_json::Value;

use super::objects::{CSV, INSTALL_PLAN, SUBSCRIPTION, list, list_if_served};
use crate::session::Session;

/// Operators, and the objects that they were read from.
#[derive(Debug, Default)]
pub struct Operators {
    /// The operators.
    pub operators: Vec<Overview>,
    /// Subscriptions.
    pub subscriptions: Vec<Value>,
    /// CSVs that are no copies.
    pub csvs: Vec<Value>,
}

/// Lists the operators of a namespace, or all; `None` if the cluster does not have OLM classic.
pub async fn operators(session: &Session, namespace: Option<&str>) -> Result<Option<Operators>, Failure> {
    let Some(subscriptions) = list_if_served(session, SUBSCRIPTION, namespace).await? else { return Ok(None) };
    let mut csvs = list(session, CSV, namespace).await?;
    csvs.retain(|csv| !is_copy(csv));
    let plans = list(session, INSTALL_PLAN, namespace).await?;
    Ok(Some(Operators { operators: overview(&subscriptions, &csvs, &plans), subscriptions, csvs }))
}
